/* MPI's life in one process. MPI may be started once, and nearly every call of it may wait for
 * another process for ever. So a thread of its own makes the calls that set up and end; the caller
 * waits for it at most its time limit. When the limit passes, the thread is left to itself, and the
 * process later ends without MPI_Finalize, which would wait as well: by _exit, because the exit
 * handlers of MPI's libraries would take away memory under the thread. Results are on disk and
 * stdout is flushed by then. */
#include "exec/mpi/mpi_worker.h"

#include <errno.h>
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FINALIZE_NS INT64_C(5000000000)

/* The process has one MPI, hence one of these. */
static struct {
    pthread_mutex_t mutex;
    pthread_cond_t moved;
    bool has_thread, started, lost, busy; /* busy: a job is given and not done */
    mpi_job_fn *job;
    void *argument;
    enum lw_status status;
    struct lw_err err;
} once = {.mutex = PTHREAD_MUTEX_INITIALIZER, .moved = PTHREAD_COND_INITIALIZER};

enum lw_status mpi_ok(int code, const char *what, struct lw_err *err)
{
    char words[MPI_MAX_ERROR_STRING];
    int n = 0;

    if (code == MPI_SUCCESS)
        return LW_OK;
    MPI_Error_string(code, words, &n);
    return lw_fail(err, LW_EFAILED, "%s: %.*s", what, n < 300 ? n : 300, words);
}

static void *serve(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&once.mutex);
    for (;;) {
        while (!once.busy)
            pthread_cond_wait(&once.moved, &once.mutex);
        mpi_job_fn *job = once.job;
        void *argument = once.argument;
        struct lw_err err = {0};
        pthread_mutex_unlock(&once.mutex);
        enum lw_status s = job(argument, &err);
        pthread_mutex_lock(&once.mutex);
        once.busy = false;
        once.status = s;
        once.err = err;
        pthread_cond_broadcast(&once.moved);
    }
    return NULL;
}

static enum lw_status start_thread(struct lw_err *err)
{
    pthread_t thread;

    if (once.has_thread)
        return LW_OK;
    int bad = pthread_create(&thread, NULL, serve, NULL);
    if (bad)
        return lw_fail(err, LW_EIO, "starting a thread: %s", strerror(bad));
    pthread_detach(thread);
    once.has_thread = true;
    return LW_OK;
}

static enum lw_status wait_done(const char *what, int64_t timeout_ns, struct lw_err *err)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    int64_t ns = until.tv_nsec + timeout_ns % 1000000000;
    until.tv_sec += timeout_ns / 1000000000 + ns / 1000000000;
    until.tv_nsec = ns % 1000000000;
    while (once.busy)
        if (pthread_cond_timedwait(&once.moved, &once.mutex, &until) == ETIMEDOUT && once.busy) {
            once.lost = true;
            return lw_fail(err, LW_ETIMEOUT, "%s did not return after %.3g s", what,
                           (double)timeout_ns * 1e-9);
        }
    if (once.status != LW_OK && err)
        *err = once.err;
    return once.status;
}

enum lw_status mpi_worker_call(mpi_job_fn *job, void *argument, const char *what,
                               int64_t timeout_ns, struct lw_err *err)
{
    pthread_mutex_lock(&once.mutex);
    enum lw_status s = once.lost ? lw_fail(err, LW_EFAILED, "MPI cannot be used again: an earlier "
                                                            "call did not return")
                                 : start_thread(err);
    if (s == LW_OK) {
        once.job = job;
        once.argument = argument;
        once.busy = true;
        pthread_cond_broadcast(&once.moved);
        s = wait_done(what, timeout_ns, err);
    }
    pthread_mutex_unlock(&once.mutex);
    return s;
}

static enum lw_status finalize(void *unused, struct lw_err *err)
{
    (void)unused;
    return mpi_ok(MPI_Finalize(), "MPI_Finalize", err);
}

static void at_exit(int status, void *unused)
{
    (void)unused;
    if (!mpi_worker_is_lost() &&
        mpi_worker_call(finalize, NULL, "MPI_Finalize", FINALIZE_NS, NULL) == LW_OK)
        return;
    fflush(NULL);
    _exit(status);
}

static enum lw_status init(void *unused, struct lw_err *err)
{
    int level = MPI_THREAD_SINGLE;

    (void)unused;
    LW_TRY(
        mpi_ok(MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level), "MPI_Init_thread", err));
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (level < MPI_THREAD_MULTIPLE)
        return lw_fail(
            err, LW_ENOTSUP,
            "this MPI grants thread level %d; lapwing needs MPI_THREAD_MULTIPLE (%d): each "
            "communication stream of a rank blocks in a thread of its own",
            level, MPI_THREAD_MULTIPLE);
    return LW_OK;
}

enum lw_status mpi_worker_start(int64_t timeout_ns, struct lw_err *err)
{
    int level;

    if (once.started && !mpi_worker_is_lost()) {
        MPI_Query_thread(&level);
        if (level != MPI_THREAD_MULTIPLE)
            return lw_fail(err, LW_ENOTSUP, "MPI was initialized without MPI_THREAD_MULTIPLE");
        return LW_OK;
    }
    if (!once.started && on_exit(at_exit, NULL) != 0)
        return lw_fail(err, LW_EIO, "no exit handler can be set");
    once.started = true;
    return mpi_worker_call(init, NULL, "MPI_Init_thread", timeout_ns, err);
}

void mpi_worker_give_up(void)
{
    pthread_mutex_lock(&once.mutex);
    once.lost = true;
    pthread_mutex_unlock(&once.mutex);
}

bool mpi_worker_is_lost(void)
{
    pthread_mutex_lock(&once.mutex);
    bool lost = once.lost;
    pthread_mutex_unlock(&once.mutex);
    return lost;
}

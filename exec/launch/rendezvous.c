/* A star of TCP connections around rank 0. Every process connects twice: one connection carries
 * data, with a time limit for each piece (results have a limit of size, too), the other says that
 * its owner is alive.
 *
 * Numbers travel in the machine's own byte order: a run is of one kind of machine. */
#include "exec/launch/rendezvous.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "exec/launch/rendezvous_star.h"
#include "exec/cpu/clock_wait.h"

enum { PINGS = 16, MAX_RANKS = 4096, OWN_FILES = 12 }; /* OWN_FILES: of the rest of the process */
#define MAX_RESULTS (INT64_C(1) << 30)

/* --- bytes ------------------------------------------------------------------------------------ */

static enum lw_status wait_ready(struct exec_rendezvous *r, int fd, short what, int64_t until_ns,
                                 struct lw_err *err)
{
    for (;;) {
        struct pollfd p = {fd, what, 0};
        int64_t left = until_ns - exec_now_ns();
        bool stopped;

        pthread_mutex_lock(&r->mutex);
        stopped = r->stopped;
        pthread_mutex_unlock(&r->mutex);
        if (stopped)
            return lw_fail(err, LW_EFAILED, "%s", r->words);
        if (left <= 0)
            return lw_fail(err, LW_ETIMEOUT, "the other processes did not answer in %.3g s",
                           (double)r->timeout_ns * 1e-9);
        int n = poll(&p, 1, left < 50000000 ? (int)(left / 1000000) + 1 : 50);
        if (n > 0)
            return LW_OK;
        if (n < 0 && errno != EINTR)
            return lw_fail(err, LW_EIO, "waiting for another process: %s", strerror(errno));
    }
}

/* Whose connection it is: this may be seen before the thread that listens for losses sees it. */
static int32_t peer_of(const struct exec_rendezvous *r, int fd)
{
    int32_t k = 0;

    while (r->id.rank == 0 && k + 1 < r->n_fds && r->fds[k][DATA] != fd && r->fds[k][LIFE] != fd)
        k++;
    return k;
}

static enum lw_status move_all(struct exec_rendezvous *r, int fd, void *data, int64_t bytes,
                               bool out, struct lw_err *err)
{
    int64_t until = exec_now_ns() + r->timeout_ns;
    char *at = data;

    while (bytes > 0) {
        LW_TRY(wait_ready(r, fd, out ? POLLOUT : POLLIN, until, err));
        ssize_t n =
            out ? send(fd, at, (size_t)bytes, MSG_NOSIGNAL) : recv(fd, at, (size_t)bytes, 0);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (n <= 0)
            return lw_fail(err, LW_EFAILED, "rank %d is gone: its connection %s", peer_of(r, fd),
                           n == 0 ? "closed" : strerror(errno));
        at += n;
        bytes -= n;
    }
    return LW_OK;
}

enum lw_status exec_star_put(struct exec_rendezvous *r, int fd, const void *data, int64_t bytes,
                             struct lw_err *err)
{
    return move_all(r, fd, (void *)(uintptr_t)data, bytes, true, err);
}

enum lw_status exec_star_get(struct exec_rendezvous *r, int fd, void *data, int64_t bytes,
                             struct lw_err *err)
{
    return move_all(r, fd, data, bytes, false, err);
}

/* --- the whole -------------------------------------------------------------------------------- */

/* Rank by rank: the other sends an empty ping, rank 0 its clock. */
static enum lw_status find_offset(struct exec_rendezvous *r, struct lw_err *err)
{
    int64_t best = INT64_MAX;
    char ping = 0;

    for (int32_t k = 0; k < r->n_fds; k++)
        for (int32_t i = 0; i < PINGS && r->fds[k][DATA] >= 0; i++) {
            int64_t sent = exec_now_ns(), theirs = 0;
            if (r->id.rank == 0) {
                LW_TRY(exec_star_get(r, r->fds[k][DATA], &ping, 1, err));
                theirs = exec_now_ns();
                LW_TRY(exec_star_put(r, r->fds[k][DATA], &theirs, sizeof theirs, err));
                continue;
            }
            LW_TRY(exec_star_put(r, r->fds[k][DATA], &ping, 1, err));
            LW_TRY(exec_star_get(r, r->fds[k][DATA], &theirs, sizeof theirs, err));
            int64_t trip = exec_now_ns() - sent;
            if (i > 0 && trip < best) { /* the first waits for its turn */
                best = trip;
                r->offset_ns = theirs - (sent + trip / 2);
                r->error_ns = (trip + 1) / 2;
            }
        }
    return LW_OK;
}

static enum lw_status connect_all(struct exec_rendezvous *r, struct lw_err *err)
{
    LW_TRY(r->id.rank == 0 ? exec_hello_gather(r, err) : exec_hello_join(r, err));
    LW_TRY(find_offset(r, err));
    return exec_life_begin(r, err);
}

int64_t exec_star_files(int64_t needed)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return INT64_MAX;
    if (limit.rlim_cur < (rlim_t)needed && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
        getrlimit(RLIMIT_NOFILE, &limit);
    }
    return limit.rlim_cur < INT64_MAX ? (int64_t)limit.rlim_cur : INT64_MAX;
}

enum lw_status exec_rendezvous_room(int32_t n_ranks, struct lw_err *err)
{
    long long needed = N_CHANNELS * ((long long)n_ranks - 1) + OWN_FILES;
    long long most = exec_star_files(needed);

    if (most >= needed)
        return LW_OK;
    return lw_fail(err, LW_ENOTSUP,
                   "%d processes: rank 0 needs %lld open files, and the limit is %lld: "
                   "raise it (ulimit -n %lld), or leave out --spawn",
                   n_ranks, needed, most, needed);
}

static atomic_bool came; /* this process has tried to meet the others of its one run */

bool exec_rendezvous_not_coming(int exit_status)
{
    struct exec_identity id = {0};
    bool found = false;
    char why[96];

    if (came || exec_identity_read(&id, &found, NULL) != LW_OK || !found || id.rank == 0)
        return false;
    snprintf(why, sizeof why, "it ended with exit status %d; its own message says why",
             exit_status);
    return exec_hello_give_up(&id, why, INT64_C(1000000000)) == LW_OK;
}

enum lw_status exec_rendezvous_open(const struct exec_identity *id, const struct exec_agreement *a,
                                    int64_t timeout_ns, int64_t *run, struct exec_rendezvous **out,
                                    struct lw_err *err)
{
    struct exec_rendezvous *r;

    came = true;
    if (id->n_ranks < 1 || id->n_ranks > MAX_RANKS)
        return lw_fail(err, LW_ENOTSUP, "%d processes: a rendezvous joins 1 to %d", id->n_ranks,
                       MAX_RANKS);
    if (id->rank == 0)
        LW_TRY(exec_rendezvous_room(id->n_ranks, err));
    LW_NEW(r, 1, err);
    r->id = *id;
    r->agreement = *a;
    r->timeout_ns = timeout_ns;
    r->run = run && id->rank == 0 ? *run : -1;
    r->listener = r->wake[0] = r->wake[1] = -1;
    pthread_mutex_init(&r->mutex, NULL);
    int32_t n = id->rank == 0 ? id->n_ranks : 1;
    r->fds = lw_calloc((size_t)n, sizeof *r->fds);
    r->gone = lw_calloc((size_t)n, sizeof *r->gone);
    r->places = lw_calloc((size_t)n, sizeof *r->places);
    r->heard = lw_calloc((size_t)n, sizeof *r->heard);
    r->n_fds = r->fds && r->gone && r->places && r->heard ? n : 0;
    for (int32_t k = 0; k < r->n_fds; k++) {
        r->fds[k][DATA] = r->fds[k][LIFE] = -1;
        r->places[k].rank = k;
    }
    enum lw_status s = r->n_fds ? connect_all(r, err) : lw_fail_nomem(err);
    if (s != LW_OK) {
        exec_rendezvous_close(r);
        return s;
    }
    if (run)
        *run = r->run;
    *out = r;
    return LW_OK;
}

void exec_rendezvous_close(struct exec_rendezvous *r)
{
    if (!r)
        return;
    if (r->watching)
        exec_life_end(r);
    for (int32_t k = 0; k < r->n_fds; k++)
        for (int c = 0; c < N_CHANNELS; c++)
            if (r->fds[k][c] >= 0)
                close(r->fds[k][c]);
    if (r->listener >= 0)
        close(r->listener);
    for (int i = 0; i < 2; i++)
        if (r->wake[i] >= 0)
            close(r->wake[i]);
    pthread_mutex_destroy(&r->mutex);
    lw_free(r->fds);
    lw_free(r->gone);
    lw_free(r->places);
    lw_free(r->heard);
    lw_free(r);
}

/* --- together --------------------------------------------------------------------------------- */

/* Everyone comes with one byte; then rank 0's data goes out. */
enum lw_status exec_rendezvous_broadcast(struct exec_rendezvous *r, void *data, int32_t bytes,
                                         struct lw_err *err)
{
    char here = 0;

    if (r->id.rank != 0) {
        LW_TRY(exec_star_put(r, r->fds[0][DATA], &here, 1, err));
        return exec_star_get(r, r->fds[0][DATA], data, bytes, err);
    }
    for (int32_t k = 1; k < r->n_fds; k++)
        LW_TRY(lw_err_context(err, exec_star_get(r, r->fds[k][DATA], &here, 1, err),
                              "waiting for rank %d", k));
    for (int32_t k = 1; k < r->n_fds; k++)
        LW_TRY(exec_star_put(r, r->fds[k][DATA], data, bytes, err));
    return LW_OK;
}

static enum lw_status take_from(struct exec_rendezvous *r, int32_t k, exec_take_fn *take_it,
                                void *context, struct lw_err *err)
{
    int64_t bytes = 0;

    LW_TRY(exec_star_get(r, r->fds[k][DATA], &bytes, sizeof bytes, err));
    if (bytes < 0 || bytes > MAX_RESULTS)
        return lw_fail(err, LW_EFAILED, "%lld bytes announced, at most %lld are taken",
                       (long long)bytes, (long long)MAX_RESULTS);
    void *data = lw_alloc((size_t)bytes + 1);
    if (!data)
        return lw_fail_nomem(err);
    enum lw_status s = exec_star_get(r, r->fds[k][DATA], data, bytes, err);
    if (s == LW_OK)
        s = take_it(context, k, data, bytes, err);
    lw_free(data);
    return s;
}

enum lw_status exec_rendezvous_gather(struct exec_rendezvous *r, const void *data, int64_t bytes,
                                      exec_take_fn *take_it, void *context, struct lw_err *err)
{
    if (r->id.rank != 0) {
        LW_TRY(exec_star_put(r, r->fds[0][DATA], &bytes, sizeof bytes, err));
        return exec_star_put(r, r->fds[0][DATA], data, bytes, err);
    }
    LW_TRY(take_it(context, 0, data, bytes, err));
    for (int32_t k = 1; k < r->n_fds; k++)
        LW_TRY(lw_err_context(err, take_from(r, k, take_it, context, err), "results of rank %d",
                              k));
    return LW_OK;
}

int64_t exec_rendezvous_clock_offset(const struct exec_rendezvous *r)
{
    return r->offset_ns;
}

int64_t exec_rendezvous_clock_error(const struct exec_rendezvous *r)
{
    return r->error_ns;
}

static enum lw_status process_broadcast(void *r, void *data, int32_t bytes, struct lw_err *err)
{
    return exec_rendezvous_broadcast(r, data, bytes, err);
}

static void process_watch(void *r, exec_lost_fn *lost, void *argument)
{
    exec_rendezvous_watch(r, lost, argument);
}

static void process_stop(void *r, const char *why)
{
    exec_rendezvous_abort(r, why);
}

void exec_rendezvous_limit(struct exec_rendezvous *r, int64_t ns)
{
    r->timeout_ns = ns;
}

static void process_limit(void *r, int64_t ns)
{
    exec_rendezvous_limit(r, ns);
}

static enum lw_status process_barrier(void *r, struct lw_err *err)
{
    char token = 0;

    return exec_rendezvous_broadcast(r, &token, 1, err);
}

void exec_rendezvous_process(struct exec_rendezvous *r, struct exec_process *p)
{
    *p = (struct exec_process){.rank = r->id.rank, .local_rank = r->id.local_rank,
                               .broadcast = process_broadcast, .barrier = process_barrier,
                               .watch = process_watch, .stop = process_stop, .limit = process_limit,
                               .context = r};
}

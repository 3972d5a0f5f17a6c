/* A thread per process listens on the `life` connections: an end of file without a farewell
 * means that the process is gone; a message says why it stops. Rank 0 passes both on to all
 * others, so everyone stops as soon as the first does, not at its own time limit. A closed
 * connection is noted before any message: a launcher ends the other ranks after one died, and what
 * they then say is not the cause. A process that stopped then says at which op, and rank 0 keeps
 * that. Messages are of one size. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "exec/launch/rendezvous_star.h"
#include "exec/cpu/clock_wait.h"
#include "shared/base/arena.h"

enum life_kind { LIFE_BYE = 1, LIFE_STOP = 2, LIFE_PLACE = 3, LIFE_SPEAKS = 4 };

struct life {
    uint32_t kind;
    struct lw_exec_place place;
    char words[EXEC_WORDS];
};

static void tell_place(int fd, uint32_t kind, const char *words, const struct lw_exec_place *place)
{
    struct life l = {.kind = kind};

    if (place)
        l.place = *place;
    snprintf(l.words, sizeof l.words, "%.*s", EXEC_WORDS - 1, words);
    /* small beside a socket's buffer: nearly always the first time */
    for (int i = 0; i < 50; i++) {
        if (send(fd, &l, sizeof l, MSG_NOSIGNAL) >= 0 || (errno != EAGAIN && errno != EINTR))
            return;
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
}

static void tell(int fd, uint32_t kind, const char *words)
{
    tell_place(fd, kind, words, NULL);
}

/* The mutex is held. The first loss is reported to all others and to this process. */
static void note_loss(struct exec_rendezvous *r, int32_t but, const char *words)
{
    if (r->stopped)
        return;
    r->stopped = true;
    snprintf(r->words, sizeof r->words, "%.*s", EXEC_WORDS - 1, words);
    for (int32_t k = 0; k < r->n_fds; k++)
        if (k != but && r->fds[k][LIFE] >= 0 && !r->gone[k])
            tell(r->fds[k][LIFE], LIFE_STOP, r->words);
    if (r->lost)
        r->lost(r->context, r->words);
    if (r->note)
        r->note(r->note_context, r->words);
}

bool exec_life_ended(int fd)
{
    char byte;
    ssize_t n = recv(fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK);

    return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

/* The mutex is held. */
static void note_ended(struct exec_rendezvous *r, int32_t k)
{
    char words[EXEC_WORDS];

    r->gone[k] = true;
    snprintf(words, sizeof words, "rank %d is gone: its connection closed",
             r->id.rank == 0 ? k : 0);
    note_loss(r, k, words);
}

/* The mutex is held. */
static void listen_to(struct exec_rendezvous *r, int32_t k)
{
    struct life l;
    ssize_t n = recv(r->fds[k][LIFE], &l, sizeof l, MSG_DONTWAIT | MSG_PEEK);

    if (n < (ssize_t)sizeof l)
        return; /* the rest is on its way */
    recv(r->fds[k][LIFE], &l, sizeof l, MSG_DONTWAIT);
    l.words[EXEC_WORDS - 1] = '\0';
    if (l.kind == LIFE_PLACE && r->id.rank == 0) {
        r->places[k] = l.place;
        r->places[k].known = l.place.known;
        r->places[k].rank = k;
        r->heard[k] = true;
    } else if (l.kind == LIFE_SPEAKS) {
        r->spoken_for = true;
    } else if (l.kind == LIFE_STOP) {
        note_loss(r, k, l.words);
    } else {
        r->gone[k] = r->farewell = true;
    }
}

static void *watch(void *arg)
{
    struct exec_rendezvous *r = arg;
    struct pollfd *p = lw_calloc((size_t)r->n_fds + 1, sizeof *p);

    while (p) {
        for (int32_t k = 0; k < r->n_fds; k++)
            p[k] = (struct pollfd){r->gone[k] ? -1 : r->fds[k][LIFE], POLLIN, 0};
        p[r->n_fds] = (struct pollfd){r->wake[0], POLLIN, 0};
        if (poll(p, (nfds_t)r->n_fds + 1, -1) < 0 && errno != EINTR)
            break;
        if (p[r->n_fds].revents)
            break;
        pthread_mutex_lock(&r->mutex);
        for (int32_t k = 0; k < r->n_fds; k++)
            if (r->fds[k][LIFE] >= 0 && !r->gone[k] && exec_life_ended(r->fds[k][LIFE]))
                note_ended(r, k);
        for (int32_t k = 0; k < r->n_fds; k++)
            if (p[k].revents && !r->gone[k])
                listen_to(r, k);
        pthread_mutex_unlock(&r->mutex);
    }
    lw_free(p);
    return NULL;
}

enum lw_status exec_life_begin(struct exec_rendezvous *r, struct lw_err *err)
{
    if (pipe2(r->wake, O_CLOEXEC) != 0)
        return lw_fail(err, LW_EIO, "a pipe: %s", strerror(errno));
    int bad = pthread_create(&r->thread, NULL, watch, r);
    if (bad)
        return lw_fail(err, LW_EIO, "starting a thread: %s", strerror(bad));
    r->watching = true;
    return LW_OK;
}

void exec_life_end(struct exec_rendezvous *r)
{
    pthread_mutex_lock(&r->mutex);
    for (int32_t k = 0; k < r->n_fds; k++)
        if (r->fds[k][LIFE] >= 0 && !r->gone[k])
            tell(r->fds[k][LIFE], LIFE_BYE, "");
    pthread_mutex_unlock(&r->mutex);
    close(r->wake[1]);
    r->wake[1] = -1;
    pthread_join(r->thread, NULL);
}

void exec_rendezvous_watch(struct exec_rendezvous *r, exec_lost_fn *lost, void *context)
{
    pthread_mutex_lock(&r->mutex);
    r->lost = lost;
    r->context = context;
    if (lost && r->stopped)
        lost(context, r->words);
    pthread_mutex_unlock(&r->mutex);
}

void exec_rendezvous_note_loss(struct exec_rendezvous *r, exec_loss_noted_fn *note, void *context)
{
    pthread_mutex_lock(&r->mutex);
    r->note = note;
    r->note_context = context;
    if (r->stopped)
        note(context, r->words);
    pthread_mutex_unlock(&r->mutex);
}

void exec_rendezvous_abort(struct exec_rendezvous *r, const char *why)
{
    pthread_mutex_lock(&r->mutex);
    note_loss(r, -1, why);
    pthread_mutex_unlock(&r->mutex);
}

bool exec_rendezvous_lost_first(struct exec_rendezvous *r)
{
    pthread_mutex_lock(&r->mutex);
    bool lost = r->id.rank != 0 && !r->farewell && (r->gone[0] || exec_life_ended(r->fds[0][LIFE]));
    pthread_mutex_unlock(&r->mutex);
    return lost;
}

static bool all_heard(struct exec_rendezvous *r)
{
    bool all = true;

    pthread_mutex_lock(&r->mutex);
    for (int32_t k = 0; k < r->n_fds; k++)
        if (r->fds[k][LIFE] >= 0 && !r->gone[k] && !(r->id.rank == 0 && r->heard[k]))
            all = false;
    pthread_mutex_unlock(&r->mutex);
    return all;
}

bool exec_rendezvous_stopped_at(struct exec_rendezvous *r, const struct lw_exec_place *mine,
                                int64_t wait_ns, struct lw_exec_place *all)
{
    int64_t until = exec_now_ns() + wait_ns;

    if (r->id.rank != 0) {
        pthread_mutex_lock(&r->mutex);
        tell_place(r->fds[0][LIFE], LIFE_PLACE, "", mine);
        pthread_mutex_unlock(&r->mutex);
    }
    while (!all_heard(r) && exec_now_ns() < until)
        nanosleep(&(struct timespec){0, 2000000}, NULL);
    pthread_mutex_lock(&r->mutex);
    for (int32_t k = 0; all && r->id.rank == 0 && k < r->n_fds; k++)
        all[k] = k == 0 ? *mine : r->places[k];
    bool done = r->id.rank == 0 ? !r->spoken_for : r->farewell || (r->id.rank > 1 && !r->gone[0]);
    if (r->id.rank == 1 && !done && !r->gone[0])
        tell(r->fds[0][LIFE], LIFE_SPEAKS, "");
    pthread_mutex_unlock(&r->mutex);
    return done;
}

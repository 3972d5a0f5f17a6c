/* A star of TCP connections around rank 0.
 *
 * Hello. Rank 0 gives each connection a number drawn for it; a process answers with protocol, rank, size,
 * agreement, and a proof: the hash of its job token, that number, and what it says. So the token does not
 * travel, and a hello recorded from another connection proves nothing. Each process connects twice. Rank 0
 * answers when all ranks are there, or LINGER_NS after the first that does not agree: with a welcome, or
 * with the words that say who differs in what; every process then ends with the same message.
 * Connections that speak another protocol, prove nothing, or say nothing for HELLO_NS are closed, not
 * counted, and noted. All are listened to at once: none holds up another.
 *
 * Life. A thread per process listens on the `life` connections: an end of file without a farewell
 * means that the process is gone; a message says why it stops. Rank 0 passes both on to all others, so
 * everyone stops as soon as the first does, not at its own time limit. A process that stopped then says
 * at which op, and rank 0 keeps that. Messages are of one size; results have a limit.
 *
 * Numbers travel in the machine's own byte order: a run is of one kind of machine. */
#include "exec/rendezvous.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "exec/spin.h"
#include "shared/arena.h"
#include "shared/hash.h"

enum { PROTOCOL = 2, MAGIC = 0x4c617057, WORDS = 400, PINGS = 16, MAX_RANKS = 4096, WAITING = 64 };
#define LINGER_NS INT64_C(500000000)
#define HELLO_NS INT64_C(2000000000)
#define MAX_RESULTS (INT64_C(1) << 30)
enum channel { DATA, LIFE, N_CHANNELS };
enum life_kind { LIFE_BYE = 1, LIFE_STOP = 2, LIFE_PLACE = 3, LIFE_SPEAKS = 4 };

struct challenge {
    uint32_t magic, protocol;
    uint64_t number[2];
};

struct claim { /* what a process says of itself */
    int32_t rank, n_ranks, channel;
    struct exec_agreement agreement;
};

struct hello {
    uint32_t magic, protocol;
    struct claim claim;
    char proof[33];
};

struct waiting { /* a connection that has not said all of its hello; fd -1: a free place */
    int fd;
    int64_t until_ns;
    size_t got;
    struct challenge challenge;
    struct hello hello;
    char from[96];
};

struct answer {
    uint32_t magic, ok;
    char words[WORDS];
};

struct life {
    uint32_t kind;
    struct lw_exec_place place;
    char words[WORDS];
};

struct exec_rendezvous {
    struct exec_identity id;
    struct exec_agreement agreement;
    int64_t timeout_ns, offset_ns, error_ns;
    int (*fds)[N_CHANNELS]; /* [n_ranks] at rank 0 (its own: -1); else [1]: to rank 0 */
    int32_t n_fds;
    int listener, wake[2];  /* wake: a pipe that ends the thread */
    pthread_t thread;
    bool watching;
    pthread_mutex_t mutex;  /* guards the rest, and writing to life connections */
    exec_lost_fn *lost;
    void *context;
    bool stopped;           /* somebody is lost: words say who */
    bool *gone;             /* [n_fds] said farewell, or lost */
    bool farewell;          /* not at rank 0: rank 0 said it */
    bool spoken_for;        /* at rank 0: rank 1 took it for lost and stores the run */
    char words[WORDS];
    struct lw_exec_place *places; /* [n_fds] where stopped processes say they were */
    bool *heard;            /* [n_fds] they said it */
    char refusal[WORDS];    /* while gathering: the first difference found */
    int32_t n_turned_away;
    char turned_away[160];  /* who was, and why: the last one */
};

/* --- bytes -------------------------------------------------------------------------------------- */

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

static enum lw_status move_all(struct exec_rendezvous *r, int fd, void *data, int64_t bytes,
                               bool out, struct lw_err *err)
{
    int64_t until = exec_now_ns() + r->timeout_ns;
    char *at = data;

    while (bytes > 0) {
        LW_TRY(wait_ready(r, fd, out ? POLLOUT : POLLIN, until, err));
        ssize_t n = out ? send(fd, at, (size_t)bytes, MSG_NOSIGNAL) : recv(fd, at, (size_t)bytes, 0);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (n == 0)
            return lw_fail(err, LW_EFAILED, "another process closed its connection");
        if (n < 0)
            return lw_fail(err, LW_EFAILED, "the connection to another process: %s",
                           strerror(errno));
        at += n;
        bytes -= n;
    }
    return LW_OK;
}

static enum lw_status put(struct exec_rendezvous *r, int fd, const void *data, int64_t bytes,
                          struct lw_err *err)
{
    return move_all(r, fd, (void *)(uintptr_t)data, bytes, true, err);
}

static enum lw_status get(struct exec_rendezvous *r, int fd, void *data, int64_t bytes,
                          struct lw_err *err)
{
    return move_all(r, fd, data, bytes, false, err);
}

/* --- hello -------------------------------------------------------------------------------------- */

static enum lw_status resolve(const struct exec_identity *id, struct addrinfo **list,
                              struct lw_err *err)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    char port[16];

    snprintf(port, sizeof port, "%d", id->port);
    int bad = getaddrinfo(id->host, port, &hints, list);
    return bad ? lw_fail(err, LW_EINVAL, "rendezvous at %s: %s", id->host, gai_strerror(bad)) : LW_OK;
}

static void set_up_socket(int fd)
{
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    fcntl(fd, F_SETFD, FD_CLOEXEC);
}

static void prove(const char *token, const struct challenge *c, const struct claim *claim,
                  char proof[33])
{
    struct lw_hash *h = lw_hash_new();

    memset(proof, 0, 33);
    if (!h)
        return; /* without memory no proof fits */
    lw_hash_string(h, token);
    lw_hash_bytes(h, c, sizeof *c);
    lw_hash_bytes(h, claim, sizeof *claim);
    lw_hash_finish(h, proof);
}

/* Rank 0 may not listen yet: try until the time is over. */
static enum lw_status dial(struct exec_rendezvous *r, int64_t until_ns, int *fd, struct lw_err *err)
{
    struct addrinfo *list;

    LW_TRY(resolve(&r->id, &list, err));
    for (*fd = -1; *fd < 0;) {
        for (struct addrinfo *a = list; a && *fd < 0; a = a->ai_next) {
            int s = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
            if (s >= 0 && connect(s, a->ai_addr, a->ai_addrlen) == 0)
                *fd = s;
            else if (s >= 0)
                close(s);
        }
        if (*fd < 0 && exec_now_ns() > until_ns)
            break;
        if (*fd < 0)
            nanosleep(&(struct timespec){0, 20000000}, NULL);
    }
    freeaddrinfo(list);
    if (*fd < 0)
        return lw_fail(err, LW_ETIMEOUT, "rank 0 does not listen at %s:%d after %.3g s", r->id.host,
                       r->id.port, (double)r->timeout_ns * 1e-9);
    set_up_socket(*fd);
    return LW_OK;
}

static enum lw_status introduce(struct exec_rendezvous *r, int32_t channel, struct lw_err *err)
{
    struct challenge c;
    struct hello h;
    int fd = r->fds[0][channel];

    if (get(r, fd, &c, sizeof c, err) != LW_OK)
        return lw_err_context(err, "rendezvous with rank 0 at %s:%d", r->id.host, r->id.port);
    if (c.magic != MAGIC)
        return lw_fail(err, LW_EINVAL, "what answers at %s:%d is not this program", r->id.host,
                       r->id.port);
    if (c.protocol != PROTOCOL)
        return lw_fail(err, LW_EINVAL, "rank 0 at %s:%d speaks protocol %u, this one %d", r->id.host,
                       r->id.port, c.protocol, PROTOCOL);
    memset(&h, 0, sizeof h);
    h.magic = MAGIC;
    h.protocol = PROTOCOL;
    h.claim.rank = r->id.rank;
    h.claim.n_ranks = r->id.n_ranks;
    h.claim.channel = channel;
    h.claim.agreement = r->agreement;
    prove(r->id.token, &c, &h.claim, h.proof);
    return put(r, fd, &h, sizeof h, err);
}

static enum lw_status join(struct exec_rendezvous *r, struct lw_err *err)
{
    int64_t until = exec_now_ns() + r->timeout_ns;
    struct answer answer;

    for (int32_t c = 0; c < N_CHANNELS; c++) {
        LW_TRY(dial(r, until, &r->fds[0][c], err));
        LW_TRY(introduce(r, c, err));
    }
    if (get(r, r->fds[0][DATA], &answer, sizeof answer, err) != LW_OK)
        return lw_err_context(err, "rendezvous with rank 0 at %s:%d", r->id.host, r->id.port);
    if (answer.magic != MAGIC)
        return lw_fail(err, LW_EINVAL, "what answers at %s:%d is not this program", r->id.host,
                       r->id.port);
    answer.words[WORDS - 1] = '\0';
    return answer.ok ? LW_OK : lw_fail(err, LW_EINVAL, "%s", answer.words);
}

static enum lw_status listen_here(struct exec_rendezvous *r, struct lw_err *err)
{
    struct addrinfo *list;
    int on = 1, bad = 0;

    LW_TRY(resolve(&r->id, &list, err));
    r->listener = socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(r->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (r->listener < 0 || bind(r->listener, list->ai_addr, list->ai_addrlen) != 0 ||
        listen(r->listener, 2 * r->id.n_ranks) != 0)
        bad = errno;
    freeaddrinfo(list);
    return bad ? lw_fail(err, LW_EIO, "listening at %s:%d: %s", r->id.host, r->id.port,
                         strerror(bad))
               : LW_OK;
}

/* Where the newcomer differs from this process; "" = nowhere. false: there is no place for it. */
static bool compare(const struct exec_rendezvous *r, const struct claim *h, char words[WORDS])
{
    const struct exec_agreement *a = &r->agreement, *b = &h->agreement;

    memset(words, 0, WORDS);
    if (h->n_ranks != r->id.n_ranks || h->rank <= 0 || h->rank >= r->id.n_ranks)
        snprintf(words, WORDS, "rank %d of %d came to a run of %d ranks", h->rank, h->n_ranks,
                 r->id.n_ranks);
    else if (h->channel < 0 || h->channel >= N_CHANNELS || r->fds[h->rank][h->channel] >= 0)
        snprintf(words, WORDS, "two processes say that they are rank %d", h->rank);
    if (words[0])
        return false;
    if (strcmp(a->plan_hash, b->plan_hash) != 0)
        snprintf(words, WORDS, "rank %d has another plan (%.32s) than rank 0 (%.32s)", h->rank,
                 b->plan_hash, a->plan_hash);
    else if (strcmp(a->backend, b->backend) != 0)
        snprintf(words, WORDS, "rank %d runs backend '%s', rank 0 '%s'", h->rank, b->backend,
                 a->backend);
    else if (strcmp(a->program, b->program) != 0)
        snprintf(words, WORDS, "rank %d runs %s, rank 0 %s", h->rank, b->program, a->program);
    return true;
}

static void answer_all(struct exec_rendezvous *r, const char *words)
{
    struct answer a = {.magic = MAGIC, .ok = words[0] == '\0'};

    snprintf(a.words, sizeof a.words, "%.*s", WORDS - 1, words);
    for (int32_t k = 0; k < r->n_fds; k++)
        if (r->fds[k][DATA] >= 0)
            put(r, r->fds[k][DATA], &a, sizeof a, NULL);
}

static void turn_away(struct exec_rendezvous *r, struct waiting *w, const char *why)
{
    close(w->fd);
    w->fd = -1;
    r->n_turned_away++;
    snprintf(r->turned_away, sizeof r->turned_away, "%s %s", w->from, why);
}

static void judge(struct exec_rendezvous *r, struct waiting *w, int32_t *n)
{
    struct claim *c = &w->hello.claim;
    char proof[33], words[WORDS];

    if (w->hello.magic != MAGIC || w->hello.protocol != PROTOCOL) {
        turn_away(r, w, "does not speak this protocol");
        return;
    }
    prove(r->id.token, &w->challenge, c, proof);
    if (!proof[0] || memcmp(proof, w->hello.proof, sizeof proof) != 0) {
        turn_away(r, w, "has another job token, or repeats an old hello");
        return;
    }
    c->agreement.plan_hash[32] = c->agreement.backend[15] = c->agreement.program[31] = '\0';
    bool fits = compare(r, c, words);
    if (words[0] && !r->refusal[0])
        memcpy(r->refusal, words, sizeof words);
    if (fits) {
        r->fds[c->rank][c->channel] = w->fd;
        ++*n;
    } else {
        struct answer a = {.magic = MAGIC};
        memcpy(a.words, words, sizeof words);
        put(r, w->fd, &a, sizeof a, NULL);
        shutdown(w->fd, SHUT_WR); /* closed at the end of the process: the words must arrive */
    }
    w->fd = -1;
}

static void hear(struct exec_rendezvous *r, struct waiting *w, int32_t *n)
{
    ssize_t got = recv(w->fd, (char *)&w->hello + w->got, sizeof w->hello - w->got, 0);

    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0) {
        turn_away(r, w, "left without a word");
        return;
    }
    w->got += (size_t)got;
    if (w->got == sizeof w->hello)
        judge(r, w, n);
}

static void admit(struct exec_rendezvous *r, struct waiting all[WAITING])
{
    struct sockaddr_storage from;
    socklen_t len = sizeof from;
    char host[64] = "?", port[16] = "";
    struct waiting *w = NULL;
    int fd = accept4(r->listener, (struct sockaddr *)&from, &len, SOCK_CLOEXEC);

    if (fd < 0)
        return;
    for (int i = 0; i < WAITING && !w; i++)
        w = all[i].fd < 0 ? &all[i] : NULL;
    if (!w)
        turn_away(r, w = &all[0], "was in the way of others");
    set_up_socket(fd);
    getnameinfo((struct sockaddr *)&from, len, host, sizeof host, port, sizeof port,
                NI_NUMERICHOST | NI_NUMERICSERV);
    memset(w, 0, sizeof *w);
    w->fd = fd;
    w->until_ns = exec_now_ns() + HELLO_NS;
    snprintf(w->from, sizeof w->from, "%.60s port %.15s", host, port);
    w->challenge.magic = MAGIC;
    w->challenge.protocol = PROTOCOL;
    if (getrandom(w->challenge.number, sizeof w->challenge.number, 0) !=
            (ssize_t)sizeof w->challenge.number ||
        send(fd, &w->challenge, sizeof w->challenge, MSG_NOSIGNAL) !=
            (ssize_t)sizeof w->challenge)
        turn_away(r, w, "took no challenge");
}

/* One round of listening, to newcomers and to all that are about to say who they are. */
static enum lw_status listen_round(struct exec_rendezvous *r, struct waiting all[WAITING],
                                   int32_t *n, struct lw_err *err)
{
    struct pollfd p[WAITING + 1];

    for (int i = 0; i < WAITING; i++)
        p[i] = (struct pollfd){all[i].fd, POLLIN, 0};
    p[WAITING] = (struct pollfd){r->listener, POLLIN, 0};
    if (poll(p, WAITING + 1, 20) < 0 && errno != EINTR)
        return lw_fail(err, LW_EIO, "waiting for other processes: %s", strerror(errno));
    for (int i = 0; i < WAITING; i++) {
        if (all[i].fd >= 0 && p[i].revents)
            hear(r, &all[i], n);
        else if (all[i].fd >= 0 && exec_now_ns() > all[i].until_ns)
            turn_away(r, &all[i], "said nothing");
    }
    if (p[WAITING].revents)
        admit(r, all);
    return LW_OK;
}

static void name_missing(const struct exec_rendezvous *r, char *text, size_t room)
{
    size_t at = 0;

    text[0] = '\0';
    for (int32_t k = 1; k < r->n_fds && at + 16 < room; k++)
        if (r->fds[k][DATA] < 0 || r->fds[k][LIFE] < 0)
            at += (size_t)snprintf(text + at, room - at, "%s%d", at ? ", " : "", k);
}

static enum lw_status say_missing(struct exec_rendezvous *r, struct lw_err *err)
{
    char missing[128], words[WORDS];

    name_missing(r, missing, sizeof missing);
    snprintf(words, sizeof words, "after %.3g s these ranks have not come: %s%s%s%s",
             (double)r->timeout_ns * 1e-9, missing, r->n_turned_away ? " (turned away: " : "",
             r->turned_away, r->n_turned_away ? ")" : "");
    answer_all(r, words);
    return lw_fail(err, LW_ETIMEOUT, "%s", words);
}

static enum lw_status gather_all(struct exec_rendezvous *r, struct lw_err *err)
{
    int64_t until = exec_now_ns() + r->timeout_ns;
    struct waiting all[WAITING];
    enum lw_status s = listen_here(r, err);
    int32_t n = 0;

    for (int i = 0; i < WAITING; i++)
        all[i].fd = -1;
    while (s == LW_OK && n < N_CHANNELS * (r->id.n_ranks - 1) && exec_now_ns() < until) {
        s = listen_round(r, all, &n, err);
        if (r->refusal[0] && until > exec_now_ns() + LINGER_NS)
            until = exec_now_ns() + LINGER_NS; /* for the others, who are on their way */
    }
    for (int i = 0; i < WAITING; i++)
        if (all[i].fd >= 0)
            turn_away(r, &all[i], "came when all were there");
    LW_TRY(s);
    if (n < N_CHANNELS * (r->id.n_ranks - 1) && !r->refusal[0])
        return say_missing(r, err);
    answer_all(r, r->refusal);
    close(r->listener);
    r->listener = -1;
    return r->refusal[0] ? lw_fail(err, LW_EINVAL, "%s", r->refusal) : LW_OK;
}

/* Rank by rank: the other sends an empty ping, rank 0 its clock. */
static enum lw_status find_offset(struct exec_rendezvous *r, struct lw_err *err)
{
    int64_t best = INT64_MAX;
    char ping = 0;

    for (int32_t k = 0; k < r->n_fds; k++)
        for (int32_t i = 0; i < PINGS && r->fds[k][DATA] >= 0; i++) {
            int64_t sent = exec_now_ns(), theirs = 0;
            if (r->id.rank == 0) {
                LW_TRY(get(r, r->fds[k][DATA], &ping, 1, err));
                theirs = exec_now_ns();
                LW_TRY(put(r, r->fds[k][DATA], &theirs, sizeof theirs, err));
                continue;
            }
            LW_TRY(put(r, r->fds[k][DATA], &ping, 1, err));
            LW_TRY(get(r, r->fds[k][DATA], &theirs, sizeof theirs, err));
            int64_t trip = exec_now_ns() - sent;
            if (i > 0 && trip < best) { /* the first waits for its turn */
                best = trip;
                r->offset_ns = theirs - (sent + trip / 2);
                r->error_ns = (trip + 1) / 2;
            }
        }
    return LW_OK;
}

/* --- life --------------------------------------------------------------------------------------- */

static void tell_place(int fd, uint32_t kind, const char *words, const struct lw_exec_place *place)
{
    struct life l = {.kind = kind};

    if (place)
        l.place = *place;
    snprintf(l.words, sizeof l.words, "%.*s", WORDS - 1, words);
    for (int i = 0; i < 50; i++) { /* small beside a socket's buffer: nearly always the first time */
        if (send(fd, &l, sizeof l, MSG_NOSIGNAL) >= 0 || (errno != EAGAIN && errno != EINTR))
            return;
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
}

static void tell(int fd, uint32_t kind, const char *words)
{
    tell_place(fd, kind, words, NULL);
}

/* The mutex is held. The first loss is told to all others and to this process. */
static void note_loss(struct exec_rendezvous *r, int32_t but, const char *words)
{
    if (r->stopped)
        return;
    r->stopped = true;
    snprintf(r->words, sizeof r->words, "%.*s", WORDS - 1, words);
    for (int32_t k = 0; k < r->n_fds; k++)
        if (k != but && r->fds[k][LIFE] >= 0 && !r->gone[k])
            tell(r->fds[k][LIFE], LIFE_STOP, r->words);
    if (r->lost)
        r->lost(r->context, r->words);
}

/* The mutex is held. */
static void listen_to(struct exec_rendezvous *r, int32_t k)
{
    struct life l;
    char words[WORDS];
    int32_t who = r->id.rank == 0 ? k : 0;
    ssize_t n = recv(r->fds[k][LIFE], &l, sizeof l, MSG_DONTWAIT | MSG_PEEK);

    if ((n < 0 && (errno == EAGAIN || errno == EINTR)) || (n > 0 && n < (ssize_t)sizeof l))
        return; /* the rest is on its way */
    if (n < (ssize_t)sizeof l) {
        r->gone[k] = true;
        snprintf(words, sizeof words, "rank %d is gone: its connection closed", who);
        note_loss(r, k, words);
        return;
    }
    recv(r->fds[k][LIFE], &l, sizeof l, MSG_DONTWAIT);
    l.words[WORDS - 1] = '\0';
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
            if (p[k].revents)
                listen_to(r, k);
        pthread_mutex_unlock(&r->mutex);
    }
    lw_free(p);
    return NULL;
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

void exec_rendezvous_abort(struct exec_rendezvous *r, const char *why)
{
    pthread_mutex_lock(&r->mutex);
    note_loss(r, -1, why);
    pthread_mutex_unlock(&r->mutex);
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
    bool done = r->id.rank == 0 ? !r->spoken_for : r->farewell;
    if (r->id.rank == 1 && !done && !r->gone[0])
        tell(r->fds[0][LIFE], LIFE_SPEAKS, "");
    pthread_mutex_unlock(&r->mutex);
    return done;
}

int32_t exec_rendezvous_turned_away(const struct exec_rendezvous *r, const char **last)
{
    *last = r->turned_away;
    return r->n_turned_away;
}

/* --- the whole ---------------------------------------------------------------------------------- */

static enum lw_status connect_all(struct exec_rendezvous *r, struct lw_err *err)
{
    LW_TRY(r->id.rank == 0 ? gather_all(r, err) : join(r, err));
    LW_TRY(find_offset(r, err));
    if (pipe2(r->wake, O_CLOEXEC) != 0)
        return lw_fail(err, LW_EIO, "a pipe: %s", strerror(errno));
    int bad = pthread_create(&r->thread, NULL, watch, r);
    if (bad)
        return lw_fail(err, LW_EIO, "starting a thread: %s", strerror(bad));
    r->watching = true;
    return LW_OK;
}

enum lw_status exec_rendezvous_open(const struct exec_identity *id, const struct exec_agreement *a,
                                    int64_t timeout_ns, struct exec_rendezvous **out,
                                    struct lw_err *err)
{
    struct exec_rendezvous *r;

    if (id->n_ranks < 1 || id->n_ranks > MAX_RANKS)
        return lw_fail(err, LW_ENOTSUP, "%d processes: a rendezvous joins 1 to %d", id->n_ranks,
                       MAX_RANKS);
    r = lw_calloc(1, sizeof *r);
    if (!r)
        return lw_fail_nomem(err);
    r->id = *id;
    r->agreement = *a;
    r->timeout_ns = timeout_ns;
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
    *out = r;
    return LW_OK;
}

void exec_rendezvous_close(struct exec_rendezvous *r)
{
    if (!r)
        return;
    if (r->watching) {
        pthread_mutex_lock(&r->mutex);
        for (int32_t k = 0; k < r->n_fds; k++)
            if (r->fds[k][LIFE] >= 0 && !r->gone[k])
                tell(r->fds[k][LIFE], LIFE_BYE, "");
        pthread_mutex_unlock(&r->mutex);
        close(r->wake[1]);
        r->wake[1] = -1;
        pthread_join(r->thread, NULL);
    }
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

/* --- together ----------------------------------------------------------------------------------- */

enum lw_status exec_rendezvous_barrier(struct exec_rendezvous *r, struct lw_err *err)
{
    char token = 0;
    return exec_rendezvous_broadcast(r, &token, 1, err);
}

/* Everyone comes with one byte; then rank 0's data goes out. */
enum lw_status exec_rendezvous_broadcast(struct exec_rendezvous *r, void *data, int32_t bytes,
                                         struct lw_err *err)
{
    char here = 0;

    if (r->id.rank != 0) {
        LW_TRY(put(r, r->fds[0][DATA], &here, 1, err));
        return get(r, r->fds[0][DATA], data, bytes, err);
    }
    for (int32_t k = 1; k < r->n_fds; k++)
        if (get(r, r->fds[k][DATA], &here, 1, err) != LW_OK)
            return lw_err_context(err, "waiting for rank %d", k);
    for (int32_t k = 1; k < r->n_fds; k++)
        LW_TRY(put(r, r->fds[k][DATA], data, bytes, err));
    return LW_OK;
}

static enum lw_status take_from(struct exec_rendezvous *r, int32_t k, exec_take_fn *take_it,
                                void *context, struct lw_err *err)
{
    int64_t bytes = 0;

    LW_TRY(get(r, r->fds[k][DATA], &bytes, sizeof bytes, err));
    if (bytes < 0 || bytes > MAX_RESULTS)
        return lw_fail(err, LW_EFAILED, "%lld bytes announced, at most %lld are taken",
                       (long long)bytes, (long long)MAX_RESULTS);
    void *data = lw_alloc((size_t)bytes + 1);
    if (!data)
        return lw_fail_nomem(err);
    enum lw_status s = get(r, r->fds[k][DATA], data, bytes, err);
    if (s == LW_OK)
        s = take_it(context, k, data, bytes, err);
    lw_free(data);
    return s;
}

enum lw_status exec_rendezvous_gather(struct exec_rendezvous *r, const void *data, int64_t bytes,
                                      exec_take_fn *take_it, void *context, struct lw_err *err)
{
    if (r->id.rank != 0) {
        LW_TRY(put(r, r->fds[0][DATA], &bytes, sizeof bytes, err));
        return put(r, r->fds[0][DATA], data, bytes, err);
    }
    LW_TRY(take_it(context, 0, data, bytes, err));
    for (int32_t k = 1; k < r->n_fds; k++)
        if (take_from(r, k, take_it, context, err) != LW_OK)
            return lw_err_context(err, "results of rank %d", k);
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

static void process_limit(void *r, int64_t ns)
{
    ((struct exec_rendezvous *)r)->timeout_ns = ns;
}

static enum lw_status process_barrier(void *r, struct lw_err *err)
{
    return exec_rendezvous_barrier(r, err);
}

void exec_rendezvous_process(struct exec_rendezvous *r, struct exec_process *p)
{
    *p = (struct exec_process){.rank = r->id.rank, .local_rank = r->id.local_rank,
                               .broadcast = process_broadcast, .barrier = process_barrier,
                               .watch = process_watch, .stop = process_stop, .limit = process_limit,
                               .context = r};
}

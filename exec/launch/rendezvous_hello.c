/* Rank 0 gives each connection a number drawn for it; a process answers with protocol, rank,
 * size, agreement, and a proof: the hash of its job token, that number, and what it says. So the
 * token does not travel, and a hello recorded from another connection proves nothing. Each
 * process connects twice. Rank 0 answers when all ranks are there, or LINGER_NS after the first
 * that does not agree: with a welcome, or with the words that say who differs in what; every
 * process then ends with the same message. Connections that speak another protocol, prove
 * nothing, or say nothing for HELLO_NS are closed, not counted, and noted. All are listened to
 * at once: none holds up another. Where descriptors run out, the connection that has been silent
 * for the longest time makes room and is told so; a process of the run that this meets dials
 * again.
 *
 * A port that was not asked for may be taken. Rank 0 then listens at the next of the job's ports,
 * and the others look for it there: a hello is answered at once with whether its token is the
 * job's, so a process that reaches another job, another program or silence goes on. After the
 * answer "heard" a process stays with that rank 0. */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "exec/launch/rendezvous_star.h"
#include "exec/cpu/clock_wait.h"
#include "shared/base/arena.h"
#include "shared/base/hash.h"
#include "shared/numbers/larger.h"

enum { MOST_WAITING = 16384, KEPT_FILES = 64, AT_ONCE = 512 };
enum { SLICE_MS = 50 }; /* of a wait that a signal may end */
#define LINGER_NS INT64_C(500000000)
#define HELLO_NS INT64_C(2000000000)
#define LOOK_NS INT64_C(50000000)
#define EACH_NS INT64_C(1000000000) /* for an address, while others are left */
#define PATIENCE_NS INT64_C(250000000) /* the first time, for one of several ports that is silent */

struct waiting { /* a connection that has not said all of its hello; fd -1: it is done with */
    int fd;
    int64_t until_ns;
    size_t got;
    struct exec_challenge challenge;
    struct exec_hello hello;
    char from[96];
};

struct waiting_list { /* in the order in which they came */
    struct waiting *at;
    struct pollfd *polls; /* [room + 1] */
    int n, room;
};

static enum lw_status resolve(const struct exec_identity *id, struct addrinfo **list,
                              struct lw_err *err)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    int bad = getaddrinfo(id->host, NULL, &hints, list);

    return bad ? lw_fail(err, LW_EINVAL, "rendezvous at %s: %s", id->host, gai_strerror(bad))
               : LW_OK;
}

static void set_port(struct sockaddr *a, int32_t port)
{
    uint16_t number = htons((uint16_t)port);

    if (a->sa_family == AF_INET)
        ((struct sockaddr_in *)(void *)a)->sin_port = number;
    else if (a->sa_family == AF_INET6)
        ((struct sockaddr_in6 *)(void *)a)->sin6_port = number;
}

/* The ports where rank 0 may listen: the one asked for, or those of the job. */
static int32_t count_ports(const struct exec_identity *id)
{
    return id->n_ports > 1 ? id->n_ports : 1;
}

static void name_address(const struct exec_identity *id, char *text, size_t room)
{
    int32_t first = id->n_ports > 0 ? id->ports[0] : id->port;
    size_t at = (size_t)snprintf(text, room, "%s:%d", id->host, first);

    for (int32_t i = 1; i < id->n_ports && at + 16 < room; i++)
        at += (size_t)snprintf(text + at, room - at, ", %d", id->ports[i]);
}

/* Keep-alive: the end of a machine that loses its power or its link is seen within half a
 * minute. */
enum { IDLE_S = 10, EACH_S = 4, TRIES = 4 };

static void set_up_socket(int fd)
{
    static const struct { int level, name, value; } options[] = {
        {IPPROTO_TCP, TCP_NODELAY, 1},       {SOL_SOCKET, SO_KEEPALIVE, 1},
        {IPPROTO_TCP, TCP_KEEPIDLE, IDLE_S}, {IPPROTO_TCP, TCP_KEEPINTVL, EACH_S},
        {IPPROTO_TCP, TCP_KEEPCNT, TRIES},
    };

    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof(int));
    fcntl(fd, F_SETFL, O_NONBLOCK);
    fcntl(fd, F_SETFD, FD_CLOEXEC);
}

/* Keep-alive asks nothing while sent bytes have no answer: they have the same time. Only on the
 * connection of short messages: on the other one a rank that computes may leave results unread for
 * longer. */
static void set_up_life(int fd)
{
    const int ms = (IDLE_S + EACH_S * TRIES) * 1000;

    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof ms);
}

void exec_hello_prove(const char *token, const struct exec_challenge *c,
                      const struct exec_claim *claim, char proof[33])
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

static bool is_told_to_end(const struct exec_rendezvous *r)
{
    return r->id.signal && *r->id.signal;
}

/* Waits until the socket is connected or has failed. false: the time is over, or a launcher ends
 * this process. */
static bool is_answered(const struct exec_rendezvous *r, int fd, int64_t until_ns)
{
    struct pollfd p = {fd, POLLOUT, 0};

    while (poll(&p, 1, SLICE_MS) <= 0)
        if (exec_now_ns() > until_ns || is_told_to_end(r))
            return false;
    return true;
}

/* A firewall may drop what is sent: an answer is waited for until the time is over. -1: none. */
static int connect_to(const struct exec_rendezvous *r, const struct addrinfo *a, int64_t until_ns)
{
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), bad = 0;
    socklen_t len = sizeof bad;

    if (fd < 0)
        return -1;
    if (connect(fd, a->ai_addr, a->ai_addrlen) == 0)
        return fd;
    if (errno == EINPROGRESS && is_answered(r, fd, until_ns) &&
        getsockopt(fd, SOL_SOCKET, SO_ERROR, &bad, &len) == 0 && bad == 0)
        return fd;
    close(fd);
    return -1;
}

enum heard { HEARD, SILENT, CLOSED, RESET };

static enum heard hear_all(const struct exec_rendezvous *r, int fd, void *data, size_t bytes,
                           int64_t until_ns)
{
    struct pollfd p = {fd, POLLIN, 0};
    char *at = data;

    while (bytes > 0) {
        int n_ready = poll(&p, 1, SLICE_MS);
        if (exec_now_ns() > until_ns || is_told_to_end(r))
            return SILENT;
        ssize_t n = n_ready > 0 ? recv(fd, at, bytes, 0) : -1;
        if (n < 0 && (n_ready <= 0 || errno == EAGAIN || errno == EINTR))
            continue;
        if (n <= 0)
            return n == 0 ? CLOSED : RESET;
        at += n;
        bytes -= (size_t)n;
    }
    return HEARD;
}

/* What came of one connection. AGAIN: rank 0 does not listen yet, or had no descriptor left;
 * QUIET: the connection is open, or not answered, and no byte comes; OTHER: it is not rank 0 of
 * this job. */
enum met { MET, AGAIN, QUIET, OTHER };

static enum lw_status say_unanswered(const struct exec_rendezvous *r, enum heard how,
                                     const char *remedy, struct lw_err *err)
{
    return lw_fail(err, how == SILENT ? LW_ETIMEOUT : LW_EFAILED,
                   "rendezvous with rank 0 at %s:%d: %s%s", r->id.host, r->id.port,
                   how == SILENT ? "no answer within the time limit"
                                 : "rank 0 is gone: its connection closed",
                   how == SILENT ? remedy : "");
}

static enum met not_met(const struct exec_rendezvous *r, enum heard how, struct lw_err *why)
{
    if (how == RESET)
        return AGAIN;
    if (how == SILENT && why->code != LW_OK) /* silence says less than another port's answer */
        return QUIET;
    say_unanswered(r, how,
                   ": if another program listens there, name a free port (--rendezvous "
                   "HOST:PORT)",
                   why);
    return how == SILENT ? QUIET : OTHER;
}

static enum met not_this_program(const struct exec_rendezvous *r, struct lw_err *why)
{
    lw_fail(why, LW_EINVAL, "what answers at %s:%d is not this program: name a free port "
                            "(--rendezvous HOST:PORT)", r->id.host, r->id.port);
    return OTHER;
}

static enum met judge_answer(const struct exec_rendezvous *r, const struct exec_answer *a,
                             struct lw_err *why)
{
    if (a->magic != EXEC_MAGIC)
        return not_this_program(r, why);
    if (a->ok != EXEC_ANSWER_OTHER_JOB)
        return a->ok == EXEC_ANSWER_HEARD ? MET : AGAIN;
    lw_fail(why, LW_EINVAL, "rank 0 at %s:%d belongs to another job: give each job a port of its "
                            "own (--rendezvous HOST:PORT)", r->id.host, r->id.port);
    return OTHER;
}

/* Rank 0 counts who has said hello: from then on its answer is waited for. */
static enum met introduce(struct exec_rendezvous *r, int fd, int32_t channel, int64_t challenge_ns,
                          int64_t until_ns, struct lw_err *why)
{
    struct exec_challenge c;
    struct exec_hello h;
    struct exec_answer a;
    enum heard how = hear_all(r, fd, &c, sizeof c, challenge_ns);

    if (how != HEARD)
        return not_met(r, how, why);
    if (c.magic != EXEC_MAGIC)
        return not_this_program(r, why);
    if (c.protocol != EXEC_PROTOCOL) {
        lw_fail(why, LW_EINVAL, "rank 0 at %s:%d speaks protocol %u, this one %d", r->id.host,
                r->id.port, c.protocol, EXEC_PROTOCOL);
        return OTHER;
    }
    memset(&h, 0, sizeof h);
    h.magic = EXEC_MAGIC;
    h.protocol = EXEC_PROTOCOL;
    h.claim.rank = r->id.rank;
    h.claim.n_ranks = r->id.n_ranks;
    h.claim.channel = channel;
    h.claim.agreement = r->agreement;
    exec_hello_prove(r->id.token, &c, &h.claim, h.proof);
    if (exec_star_put(r, fd, &h, sizeof h, NULL) != LW_OK)
        return AGAIN;
    how = hear_all(r, fd, &a, sizeof a, until_ns);
    return how == HEARD ? judge_answer(r, &a, why) : not_met(r, how, why);
}

/* At the port r->id.port of one address. patience_ns: for each of several ports; 0: only one. */
static enum met try_address(struct exec_rendezvous *r, int32_t channel, const struct addrinfo *a,
                            int64_t patience_ns, int64_t until_ns, int *fd, struct lw_err *why)
{
    int64_t now = exec_now_ns(), answer = lw_larger(until_ns, now + HELLO_NS),
            limit = a->ai_next ? now + EACH_NS : until_ns, challenge = answer;

    if (patience_ns) {
        int64_t patient = now + patience_ns;
        limit = challenge = lw_larger(now + PATIENCE_NS, patient < until_ns ? patient : until_ns);
    }
    set_port(a->ai_addr, r->id.port);
    *fd = connect_to(r, a, limit);
    if (*fd < 0)
        return exec_now_ns() > limit ? QUIET : AGAIN;
    set_up_socket(*fd);
    if (channel == LIFE)
        set_up_life(*fd);
    enum met met = introduce(r, *fd, channel, challenge, answer, why);
    if (met == MET)
        return MET;
    close(*fd);
    *fd = -1;
    return met;
}

/* All ports, all addresses, once. What is not rank 0 of this job ends it only where it sits at the
 * port that was asked for. */
static enum met try_all(struct exec_rendezvous *r, int32_t channel, const struct addrinfo *list,
                        int64_t patience_ns, int64_t until_ns, int *fd, struct lw_err *why)
{
    int32_t n = count_ports(&r->id);
    bool quiet = false;

    for (int32_t i = 0; i < n; i++) {
        r->id.port = n > 1 ? r->id.ports[i] : r->id.port;
        for (const struct addrinfo *a = list; a; a = a->ai_next) {
            enum met met = try_address(r, channel, a, n > 1 ? patience_ns : 0, until_ns, fd, why);
            if (met == MET || (n == 1 && why->code != LW_OK && met != AGAIN))
                return met == MET ? MET : OTHER;
            if (is_told_to_end(r) || (n > 1 && exec_now_ns() > until_ns))
                return AGAIN;
            quiet |= met == QUIET;
        }
    }
    return quiet ? QUIET : AGAIN;
}

static enum lw_status say_absent(const struct exec_rendezvous *r, const struct lw_err *why,
                                 struct lw_err *err)
{
    char at[EXEC_WORDS];

    name_address(&r->id, at, sizeof at);
    if (is_told_to_end(r))
        return lw_fail(err, LW_EFAILED, "stopped by signal %d while rank 0 did not listen at %s",
                       (int)*r->id.signal, at);
    return lw_fail(err, LW_ETIMEOUT, "rank 0 does not listen at %s after %.3g s%s%s", at,
                   (double)r->timeout_ns * 1e-9, why->code ? ": " : "", why->msg);
}

/* The answer to all has come, on the first connection, before there is a second one. */
static bool is_decided(const struct exec_rendezvous *r, int32_t channel)
{
    struct pollfd p = {channel == LIFE ? r->fds[0][DATA] : -1, POLLIN, 0};

    return poll(&p, 1, 0) > 0;
}

/* Rank 0 may not listen yet: try until the time is over, or a launcher ends this process. *fd stays
 * -1 where rank 0 has decided. */
static enum lw_status dial(struct exec_rendezvous *r, int32_t channel, int64_t until_ns, int *fd,
                           struct lw_err *err)
{
    struct addrinfo *list;
    struct lw_err why = {0};
    int64_t patience = PATIENCE_NS;
    enum met met;

    LW_TRY(resolve(&r->id, &list, err));
    for (;;) {
        met = try_all(r, channel, list, patience, until_ns, fd, &why);
        if (met == MET || met == OTHER || exec_now_ns() > until_ns || is_told_to_end(r) ||
            is_decided(r, channel))
            break;
        if (met == QUIET && patience < HELLO_NS)
            patience *= 2;
        nanosleep(&(struct timespec){0, 20000000}, NULL);
    }
    freeaddrinfo(list);
    if (met == MET || is_decided(r, channel))
        return LW_OK;
    if (met != OTHER || is_told_to_end(r))
        return say_absent(r, &why, err);
    return lw_fail(err, why.code, "%s", why.msg);
}

enum lw_status exec_hello_give_up(const struct exec_identity *id, const char *why, int64_t limit_ns)
{
    struct exec_rendezvous r = {.id = *id, .timeout_ns = HELLO_NS,
                                .mutex = PTHREAD_MUTEX_INITIALIZER};
    int fd;

    snprintf(r.agreement.settings, sizeof r.agreement.settings, "%s", why);
    LW_TRY(dial(&r, EXEC_GIVES_UP, exec_now_ns() + limit_ns, &fd, NULL));
    close(fd);
    return LW_OK;
}

/* Rank 0 may have refused the run and closed its listener before this process dialled twice. */
static enum lw_status dial_both(struct exec_rendezvous *r, struct lw_err *err)
{
    int64_t until = exec_now_ns() + r->timeout_ns;
    int *fds = r->fds[0];

    LW_TRY(dial(r, DATA, until, &fds[DATA], err));
    r->id.n_ports = 0; /* found: the other connection is to the same port */
    return dial(r, LIFE, until, &fds[LIFE], err);
}

enum lw_status exec_hello_join(struct exec_rendezvous *r, struct lw_err *err)
{
    struct exec_answer answer;

    LW_TRY(dial_both(r, err));
    /* rank 0 may have begun to wait later than this process: its words come after its time limit */
    enum heard how = hear_all(r, r->fds[0][DATA], &answer, sizeof answer,
                              exec_now_ns() + r->timeout_ns + HELLO_NS);
    if (how != HEARD)
        return say_unanswered(r, how, "", err);
    answer.words[EXEC_WORDS - 1] = '\0';
    r->run = answer.run;
    return answer.ok == EXEC_ANSWER_YES ? LW_OK : lw_fail(err, LW_EINVAL, "%s", answer.words);
}

static bool is_loopback_address(const struct sockaddr *a)
{
    if (a->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr) >> 24 == 127;
    return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr);
}

bool exec_rendezvous_is_loopback(const char *host)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list;
    bool number = strspn(host, "0123456789.") == strlen(host) || strchr(host, ':');

    if (number || strncmp(host, "localhost", 9) == 0 || getaddrinfo(host, NULL, &hints, &list) != 0)
        return false;
    bool is = is_loopback_address(list->ai_addr);
    freeaddrinfo(list);
    return is;
}

static enum lw_status cannot_listen(const struct exec_rendezvous *r, int bad, struct lw_err *err)
{
    char at[EXEC_WORDS];

    name_address(&r->id, at, sizeof at);
    return lw_fail(err, LW_EIO, "listening at %s: %s: name an address and a free port of the "
                                "machine of rank 0 (--rendezvous HOST:PORT%s)",
                   at, strerror(bad), r->id.n_ports ? "" : ", or another MASTER_PORT");
}

/* 0, or the error. */
static int bind_listener(struct exec_rendezvous *r, int family, struct sockaddr *at, socklen_t len)
{
    int on = 1;

    set_port(at, r->id.port);
    r->listener = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (r->listener < 0)
        return errno;
    setsockopt(r->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(r->listener, at, len) == 0 && listen(r->listener, SOMAXCONN) == 0)
        return 0;
    int bad = errno;
    close(r->listener);
    r->listener = -1;
    return bad;
}

/* At the first of its ports that is free. */
static enum lw_status bind_any(struct exec_rendezvous *r, int family, struct sockaddr *at,
                               socklen_t len, struct lw_err *err)
{
    int32_t n = count_ports(&r->id);
    int bad = EADDRINUSE;

    for (int32_t i = 0; i < n && bad == EADDRINUSE; i++) {
        r->id.port = n > 1 ? r->id.ports[i] : r->id.port;
        bad = bind_listener(r, family, at, len);
    }
    return bad ? cannot_listen(r, bad, err) : LW_OK;
}

/* Every host that reaches the machine can connect to such a listener; only the token tells the
 * processes of this run from others. */
static enum lw_status needs_token(const struct exec_rendezvous *r, struct lw_err *err)
{
    if (exec_identity_has_token(&r->id))
        return LW_OK;
    return lw_fail(err, LW_EINVAL,
                   "rendezvous at %s: the name is a loopback address here, and listening at all "
                   "addresses needs a job token: set LAPWING_TOKEN or torchrun's --rdzv-id, or "
                   "name an address (--rendezvous ADDRESS:PORT)", r->id.host);
}

/* Other machines cannot come in at loopback: a machine whose name is one there listens at all of
 * its addresses. */
static enum lw_status listen_here(struct exec_rendezvous *r, struct lw_err *err)
{
    struct sockaddr_in any = {.sin_family = AF_INET};
    struct addrinfo *list;

    LW_TRY(resolve(&r->id, &list, err));
    bool all = exec_rendezvous_is_loopback(r->id.host) && list->ai_family == AF_INET;
    struct sockaddr *at = all ? (struct sockaddr *)&any : list->ai_addr;
    enum lw_status s = all ? needs_token(r, err) : LW_OK;
    if (s == LW_OK)
        s = bind_any(r, list->ai_family, at, list->ai_addrlen, err);
    freeaddrinfo(list);
    return s;
}

/* The first "name=value;" that differs; both have the same names in the same order. */
static void name_difference(int32_t rank, const char *ours, const char *theirs,
                            char words[EXEC_WORDS])
{
    size_t n = 0, from = 0;

    for (; ours[n] && ours[n] == theirs[n]; n++)
        from = ours[n] == ';' ? n + 1 : from;
    int a = (int)strcspn(ours + from, ";"), b = (int)strcspn(theirs + from, ";");
    snprintf(words, EXEC_WORDS,
             "rank %d was started with %.*s, rank 0 with %.*s: give all ranks the "
             "same options",
             rank, b, theirs + from, a, ours + from);
}

/* Where the newcomer differs from this process; "" = nowhere. false: there is no place for it. */
static bool compare(const struct exec_rendezvous *r, const struct exec_claim *h,
                    char words[EXEC_WORDS])
{
    const struct exec_agreement *a = &r->agreement, *b = &h->agreement;

    memset(words, 0, EXEC_WORDS);
    if (h->n_ranks != r->id.n_ranks || h->rank <= 0 || h->rank >= r->id.n_ranks)
        snprintf(words, EXEC_WORDS, "rank %d of %d came to a run of %d ranks", h->rank, h->n_ranks,
                 r->id.n_ranks);
    else if (h->channel == EXEC_GIVES_UP)
        snprintf(words, EXEC_WORDS, "rank %d gave up before the ranks met: %.300s", h->rank,
                 b->settings);
    else if (h->channel < 0 || h->channel >= N_CHANNELS)
        snprintf(words, EXEC_WORDS, "rank %d asks for a connection that no run has", h->rank);
    else if (r->fds[h->rank][h->channel] >= 0)
        snprintf(words, EXEC_WORDS, "two processes say that they are rank %d", h->rank);
    if (words[0])
        return false;
    if (strcmp(a->plan_hash, b->plan_hash) != 0)
        snprintf(words, EXEC_WORDS, "rank %d has another plan (%.32s) than rank 0 (%.32s)", h->rank,
                 b->plan_hash, a->plan_hash);
    else if (strcmp(a->backend, b->backend) != 0)
        snprintf(words, EXEC_WORDS, "rank %d runs backend '%s', rank 0 '%s'", h->rank, b->backend,
                 a->backend);
    else if (strcmp(a->program, b->program) != 0)
        snprintf(words, EXEC_WORDS, "rank %d runs %s, rank 0 %s", h->rank, b->program, a->program);
    else if (strcmp(a->settings, b->settings) != 0)
        name_difference(h->rank, a->settings, b->settings, words);
    return true;
}

static void answer_all(struct exec_rendezvous *r, const char *words)
{
    struct exec_answer a = {.magic = EXEC_MAGIC, .run = r->run,
                            .ok = words[0] ? EXEC_ANSWER_NO : EXEC_ANSWER_YES};

    snprintf(a.words, sizeof a.words, "%.*s", EXEC_WORDS - 1, words);
    for (int32_t k = 0; k < r->n_fds; k++)
        if (r->fds[k][DATA] >= 0)
            exec_star_put(r, r->fds[k][DATA], &a, sizeof a, NULL);
}

/* A word of its own, before the answer to all. A socket that is new has room for it. */
static void answer_one(int fd, uint32_t ok)
{
    struct exec_answer a = {.magic = EXEC_MAGIC, .ok = ok};

    send(fd, &a, sizeof a, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void turn_away(struct exec_rendezvous *r, struct waiting *w, const char *why)
{
    close(w->fd);
    w->fd = -1;
    r->n_turned_away++;
    snprintf(r->turned_away, sizeof r->turned_away, "%s %s", w->from, why);
}

/* In a time that does not depend on where they differ. */
static bool same_proof(const char a[33], const char b[33])
{
    unsigned char differ = 0;

    for (int i = 0; i < 33; i++)
        differ |= (unsigned char)(a[i] ^ b[i]);
    return differ == 0;
}

static void judge(struct exec_rendezvous *r, struct waiting *w, int32_t *n)
{
    struct exec_claim *c = &w->hello.claim;
    char proof[33], words[EXEC_WORDS];

    if (w->hello.magic != EXEC_MAGIC || w->hello.protocol != EXEC_PROTOCOL) {
        turn_away(r, w, "does not speak this protocol");
        return;
    }
    exec_hello_prove(r->id.token, &w->challenge, c, proof);
    if (!proof[0] || !same_proof(proof, w->hello.proof)) {
        answer_one(w->fd, EXEC_ANSWER_OTHER_JOB);
        turn_away(r, w, "has another job token, or repeats an old hello");
        return;
    }
    answer_one(w->fd, EXEC_ANSWER_HEARD);
    c->agreement.plan_hash[32] = c->agreement.backend[15] = c->agreement.program[31] = '\0';
    c->agreement.settings[EXEC_SETTINGS - 1] = '\0';
    bool fits = compare(r, c, words);
    if (words[0] && !r->refusal[0])
        memcpy(r->refusal, words, sizeof words);
    if (fits) {
        if (c->channel == LIFE)
            set_up_life(w->fd);
        r->fds[c->rank][c->channel] = w->fd;
        ++*n;
    } else {
        struct exec_answer a = {.magic = EXEC_MAGIC};
        memcpy(a.words, words, sizeof words);
        exec_star_put(r, w->fd, &a, sizeof a, NULL);
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

/* As many as there are descriptors for. */
static enum lw_status list_open(struct waiting_list *l, int32_t n_ranks, struct lw_err *err)
{
    int64_t left = exec_star_files(INT64_MAX) - KEPT_FILES - N_CHANNELS * (int64_t)n_ranks;
    int64_t most = left < MOST_WAITING ? left : MOST_WAITING;

    *l = (struct waiting_list){.room = (int)(most > 4 ? most : 4)};
    l->at = lw_calloc((size_t)l->room, sizeof *l->at);
    l->polls = lw_calloc((size_t)l->room + 1, sizeof *l->polls);
    return l->at && l->polls ? LW_OK : lw_fail_nomem(err);
}

static void list_close(struct waiting_list *l)
{
    lw_free(l->at);
    lw_free(l->polls);
}

/* Places that are done with are given back; the order stays. */
static void list_compact(struct waiting_list *l)
{
    int n = 0;

    for (int i = 0; i < l->n; i++)
        if (l->at[i].fd >= 0) {
            if (n != i)
                l->at[n] = l->at[i];
            n++;
        }
    l->n = n;
}

/* The one that came first and has still said nothing leaves; one whose hello lies here is heard
 * instead. */
static void make_room(struct exec_rendezvous *r, struct waiting_list *l, int32_t *n)
{
    for (int i = 0; i < l->n; i++) {
        struct waiting *w = &l->at[i];
        if (w->fd < 0)
            continue;
        hear(r, w, n);
        if (w->fd < 0)
            continue;
        answer_one(w->fd, EXEC_ANSWER_DIAL_AGAIN);
        turn_away(r, w, "was silent while others waited for a place");
        return;
    }
}

static void greet(struct exec_rendezvous *r, struct waiting *w, int fd,
                  const struct sockaddr_storage *from, socklen_t len)
{
    char host[64] = "?", port[16] = "";

    set_up_socket(fd);
    getnameinfo((const struct sockaddr *)from, len, host, sizeof host, port, sizeof port,
                NI_NUMERICHOST | NI_NUMERICSERV);
    memset(w, 0, sizeof *w);
    w->fd = fd;
    w->until_ns = exec_now_ns() + HELLO_NS;
    snprintf(w->from, sizeof w->from, "%.60s port %.15s", host, port);
    w->challenge.magic = EXEC_MAGIC;
    w->challenge.protocol = EXEC_PROTOCOL;
    if (getrandom(w->challenge.number, sizeof w->challenge.number, 0) !=
            (ssize_t)sizeof w->challenge.number ||
        send(fd, &w->challenge, sizeof w->challenge, MSG_NOSIGNAL) !=
            (ssize_t)sizeof w->challenge)
        turn_away(r, w, "took no challenge");
}

/* Accepts the connections that wait, up to a limit a round, so that those already accepted are
 * read in between. */
static void admit(struct exec_rendezvous *r, struct waiting_list *l, int32_t *n)
{
    for (int i = 0; i < AT_ONCE; i++) {
        struct sockaddr_storage from;
        socklen_t len = sizeof from;
        if (l->n == l->room) {
            make_room(r, l, n);
            list_compact(l);
        }
        int fd = l->n < l->room ? accept4(r->listener, (struct sockaddr *)&from, &len, SOCK_CLOEXEC)
                                : -1;
        if (fd < 0 && (errno == EMFILE || errno == ENFILE) && l->n > 0) {
            make_room(r, l, n);
            list_compact(l);
            continue;
        }
        if (fd < 0)
            return;
        greet(r, &l->at[l->n++], fd, &from, len);
    }
}

/* One round of listening, to newcomers and to all that are about to say who they are. */
static enum lw_status listen_round(struct exec_rendezvous *r, struct waiting_list *l, int32_t *n,
                                   struct lw_err *err)
{
    struct pollfd *p = l->polls;
    int64_t now;

    for (int i = 0; i < l->n; i++)
        p[i] = (struct pollfd){l->at[i].fd, POLLIN, 0};
    p[l->n] = (struct pollfd){r->listener, POLLIN, 0};
    if (poll(p, (nfds_t)l->n + 1, 20) < 0 && errno != EINTR)
        return lw_fail(err, LW_EIO, "waiting for other processes: %s", strerror(errno));
    bool newcomers = p[l->n].revents != 0;
    now = exec_now_ns();
    for (int i = 0; i < l->n; i++) {
        if (l->at[i].fd >= 0 && p[i].revents)
            hear(r, &l->at[i], n);
        else if (l->at[i].fd >= 0 && now > l->at[i].until_ns)
            turn_away(r, &l->at[i], "said nothing");
    }
    list_compact(l);
    if (newcomers)
        admit(r, l, n);
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
    char missing[128], words[EXEC_WORDS];

    name_missing(r, missing, sizeof missing);
    snprintf(words, sizeof words, "after %.3g s these ranks have not come: %s%s%s%s",
             (double)r->timeout_ns * 1e-9, missing, r->n_turned_away ? " (turned away: " : "",
             r->turned_away, r->n_turned_away ? ")" : "");
    answer_all(r, words);
    return lw_fail(err, LW_ETIMEOUT, "%s", words);
}

/* A process that came may be gone again, and a launcher may end this one. */
static void look_for_end(struct exec_rendezvous *r)
{
    char missing[128];

    name_missing(r, missing, sizeof missing);
    for (int32_t k = 1; k < r->n_fds; k++)
        for (int c = 0; c < N_CHANNELS && !r->refusal[0]; c++)
            if (r->fds[k][c] >= 0 && exec_life_ended(r->fds[k][c]))
                snprintf(r->refusal, sizeof r->refusal,
                         "rank %d is gone: its connection closed before the ranks met (not come: "
                         "%s)",
                         k, missing[0] ? missing : "none");
    if (!r->refusal[0] && is_told_to_end(r))
        snprintf(r->refusal, sizeof r->refusal,
                 "stopped by signal %d before the ranks met (not come: %s)", (int)*r->id.signal,
                 missing[0] ? missing : "none");
}

enum lw_status exec_hello_gather(struct exec_rendezvous *r, struct lw_err *err)
{
    int64_t until = exec_now_ns() + r->timeout_ns, look = 0;
    struct waiting_list l = {0};
    int32_t n = 0;
    enum lw_status s = list_open(&l, r->id.n_ranks, err);

    if (s == LW_OK)
        s = listen_here(r, err);
    while (s == LW_OK && n < N_CHANNELS * (r->id.n_ranks - 1) && exec_now_ns() < until) {
        s = listen_round(r, &l, &n, err);
        if (exec_now_ns() > look) {
            look_for_end(r);
            look = exec_now_ns() + LOOK_NS;
        }
        if (r->refusal[0] && until > exec_now_ns() + LINGER_NS)
            until = exec_now_ns() + LINGER_NS; /* for the others, who are on their way */
    }
    for (int i = 0; i < l.n; i++)
        if (l.at[i].fd >= 0)
            turn_away(r, &l.at[i], "came when all were there");
    list_close(&l);
    LW_TRY(s);
    if (n < N_CHANNELS * (r->id.n_ranks - 1) && !r->refusal[0])
        return say_missing(r, err);
    answer_all(r, r->refusal);
    close(r->listener);
    r->listener = -1;
    return r->refusal[0] ? lw_fail(err, LW_EINVAL, "%s", r->refusal) : LW_OK;
}

int32_t exec_rendezvous_turned_away(const struct exec_rendezvous *r, const char **last)
{
    *last = r->turned_away;
    return r->n_turned_away;
}

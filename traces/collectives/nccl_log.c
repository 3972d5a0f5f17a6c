/* Logs of NCCL with NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=COLL (and INIT, which names ranks): lines
 *     host:pid:tid [dev] NCCL INFO AllReduce: opCount 1a sendbuff 0x.. recvbuff 0x.. count 1024
 *     datatype 7 op 0 root 0 comm 0x55 [nranks=2] stream 0x..
 *     host:pid:tid [dev] NCCL INFO ncclCommInitRank comm 0x55 rank 0 nranks 2 .. commId 0x.. ..
 * (NCCL src/enqueue.cc and src/init.cc, 2.4 to 2.2x). A communicator's address is its process's
 * own; what its ranks have in common is its commId, where INIT was logged, else the order in which
 * the process first used it. A collective's number is its place among those of its communicator. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "shared/io/input.h"
#include "traces/collectives/coll_log.h"

enum { LOOKED_AT = 1 << 16, MOST_PROCESSES = 1 << 16 };

bool coll_log_is_nccl(const struct lw_input *in)
{
    size_t n = in->len < LOOKED_AT ? in->len : LOOKED_AT;
    const char *p = memmem(in->text, n, "NCCL INFO ", 10);

    return p && memmem(in->text, n, ": opCount ", 10) && memmem(in->text, n, " sendbuff ", 10);
}

struct comm {
    int32_t source;
    uint64_t address;
    const char *group;
    int32_t rank, n_ranks;
    int64_t n, n_p2p;
};

struct reader {
    struct coll_log *l;
    struct comm *comms;
    int64_t n_comms, comm_cap;
    int32_t source_cap;
    struct lw_err *err;
};

/* After "word " in the line; NULL = it is not there. */
static const char *after(const char *line, const char *word)
{
    const char *p = strstr(line, word);

    return p ? p + strlen(word) : NULL;
}

static enum lw_status find_source(struct reader *r, const char *process, size_t len, int32_t *out)
{
    struct coll_log *l = r->l;

    for (int32_t i = l->n - 1; i >= 0; i--)
        if (strlen(l->sources[i].name) == len && memcmp(l->sources[i].name, process, len) == 0) {
            *out = i;
            return LW_OK;
        }
    if (l->n >= MOST_PROCESSES)
        return lw_fail(r->err, LW_EFORMAT, "more than %d processes", MOST_PROCESSES);
    l->sources = lw_arena_more(&l->arena, l->sources, l->n, sizeof *l->sources);
    if (!l->sources)
        return lw_fail_nomem(r->err);
    char *name = lw_arena_strndup(&l->arena, process, len);
    if (!name)
        return lw_fail_nomem(r->err);
    l->sources[l->n] = (struct coll_source){.name = name, .rank = -1};
    *out = l->n++;
    return LW_OK;
}

static enum lw_status find_comm(struct reader *r, int32_t source, uint64_t address,
                                struct comm **out)
{
    int n_of = 0;

    for (int64_t i = r->n_comms - 1; i >= 0; i--) {
        if (r->comms[i].source == source && r->comms[i].address == address) {
            *out = &r->comms[i];
            return LW_OK;
        }
        n_of += r->comms[i].source == source;
    }
    LW_ROOM(r->comms, r->comm_cap, r->n_comms + 1, r->err);
    struct comm *c = &r->comms[r->n_comms++];
    *c = (struct comm){.source = source, .address = address, .rank = -1};
    LW_PRINT(&r->l->arena, c->group, r->err, "communicator %d", n_of);
    *out = c;
    return LW_OK;
}

static const char *dtype_of(const char *text)
{
    static const char *const names[] = {"i8",  "u8",  "i32", "u32",  "i64",    "u64",
                                        "f16", "f32", "f64", "bf16", "f8e4m3", "f8e5m2"};
    long n = text ? strtol(text, NULL, 10) : -1;

    return n >= 0 && n < (long)(sizeof names / sizeof *names) ? names[n] : "?";
}

/* Elements; -1 beyond int64. */
static int64_t count_of(const char *text)
{
    errno = 0;
    long long n = strtoll(text, NULL, 10);
    return errno == 0 && n >= 0 ? n : -1;
}

static enum lw_status read_init(struct reader *r, int32_t source, const char *line)
{
    const char *rank = after(line, " rank "), *id = after(line, " commId ");
    const char *n_ranks = after(line, " nranks ");
    struct comm *c;

    LW_TRY(find_comm(r, source, strtoull(after(line, " comm "), NULL, 16), &c));
    c->rank = rank ? atoi(rank) : -1;
    c->n_ranks = n_ranks ? atoi(n_ranks) : 0;
    if (id)
        LW_PRINT(&r->l->arena, c->group, r->err, "%.*s", (int)strcspn(id, " \r"), id);
    if (r->l->sources[source].rank < 0)
        r->l->sources[source].rank = c->rank; /* the first is the world */
    return LW_OK;
}

static enum lw_status read_call(struct reader *r, int32_t source, const char *line,
                                const char *name)
{
    const char *count = after(line, " count "), *comm = after(line, " comm ");
    struct comm *c;
    size_t len = strcspn(name, ":");

    if (!count || !comm || len > 40)
        return LW_OK;
    LW_TRY(find_comm(r, source, strtoull(comm, NULL, 16), &c));
    struct coll_source *s = &r->l->sources[source];
    struct coll_call call = {.dtype = dtype_of(after(line, " datatype ")), .group = c->group,
                             .state = "", .numel = count_of(count), .out_numel = -1};
    LW_PRINT(&r->l->arena, call.op, r->err, "%.*s", (int)len, name);
    call.p2p = strcmp(call.op, "Send") == 0 || strcmp(call.op, "Recv") == 0;
    call.seq = call.p2p ? c->n_p2p++ : c->n++;
    LW_ROOM(s->calls, s->cap, s->n + 1, r->err);
    s->calls[s->n++] = call;
    return LW_OK;
}

static enum lw_status read_line(struct reader *r, char *line)
{
    const char *info = after(line, "NCCL INFO ");
    const char *end = strchr(line, ' '), *colon = NULL;
    int32_t source = -1;

    if (!info || !end || !after(line, " comm "))
        return LW_OK;
    bool call = strstr(info, ": opCount ") && isalpha((unsigned char)*info);
    bool init = strncmp(info, "ncclCommInit", 12) == 0 && after(line, " nranks ");
    if (!call && !init)
        return LW_OK;
    for (const char *p = line; p < end; p++) /* host:pid:tid: a process has several threads */
        colon = *p == ':' ? p : colon;
    LW_TRY(find_source(r, line, (size_t)((colon ? colon : end) - line), &source));
    return call ? read_call(r, source, line, info) : read_init(r, source, line);
}

enum lw_status coll_log_read_nccl(const struct lw_input *in, struct coll_log *out,
                                  struct lw_err *err)
{
    struct coll_log l = {.format = "nccl-log"};
    struct reader r = {.l = &l, .err = err};
    enum lw_status status = LW_OK;
    char *copy = lw_alloc(in->len + 1), *at = copy;

    if (!copy)
        return lw_fail_nomem(err);
    memcpy(copy, in->text, in->len);
    copy[in->len] = '\0';
    while (status == LW_OK && at && at < copy + in->len) {
        char *end = memchr(at, '\n', in->len - (size_t)(at - copy));
        if (end)
            *end = '\0';
        status = read_line(&r, at);
        at = end ? end + 1 : NULL;
    }
    lw_free(copy);
    lw_free(r.comms);
    if (status == LW_OK && l.n == 0)
        status = lw_fail_at(err, LW_EFORMAT, in->name, 0,
                            "no collective that can be read; log with NCCL_DEBUG=INFO and "
                            "NCCL_DEBUG_SUBSYS=INIT,COLL");
    LW_GIVE(status, out, l, coll_log_free(&l));
}

/* Measured collectives out of recorded calls.
 *
 * Members of a communicator issue the same collectives in the same order, so the k-th collective of
 * one member is the k-th of every other. A member's span begins when its own stream reaches the
 * collective and includes the wait for the last member; the last member does not wait. The shortest
 * span of all recorded members is therefore the time of the collective, and an upper bound of it
 * where not all members were recorded. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/sort.h"
#include "traces/calls/import_calls.h"
#include "shared/numbers/order.h"

struct reading { /* one collective */
    enum lw_op_kind op;
    enum lw_dtype dtype;
    int32_t n_ranks, n_nodes, n_seen;
    int64_t bytes;
    uint64_t id;     /* of its communicator */
    int64_t turn;    /* among the collectives of that */
    int64_t ns;      /* shortest span so far */
};

struct collected {
    struct reading *all;
    int64_t n, capacity;
};

LW_COMPARATOR(by_collective, struct reading, a->id, b->id, a->turn, b->turn)

LW_COMPARATOR(by_size, struct reading, a->op, b->op, a->dtype, b->dtype, a->n_ranks, b->n_ranks,
              a->n_nodes, b->n_nodes, a->bytes, b->bytes, a->ns, b->ns)

/* Hosts among the recorded members of a communicator; at least 1. */
static int32_t nodes_of(const struct traces_recorded *c, int n, uint64_t id)
{
    int32_t n_nodes = 0;

    for (int i = 0; i < n; i++) {
        bool member = false, seen = false;
        for (int32_t k = 0; k < c[i].n_comms; k++)
            member |= c[i].comms[k].id == id;
        for (int before = 0; member && before < i; before++)
            seen |= strcmp(c[before].host, c[i].host) == 0;
        n_nodes += member && !seen;
    }
    return n_nodes > 0 ? n_nodes : 1;
}

static enum lw_status collect_file(const struct traces_recorded *all, int n, int which,
                                   struct collected *k, struct lw_err *err)
{
    const struct traces_recorded *c = &all[which];
    int64_t *turn = lw_calloc((size_t)c->n_comms + 1, sizeof *turn);
    int32_t *nodes = lw_calloc((size_t)c->n_comms + 1, sizeof *nodes);
    enum lw_status status = turn && nodes ? LW_OK : lw_fail_nomem(err);

    for (int64_t i = 0; status == LW_OK && i < c->n; i++) {
        const struct traces_recorded_call *call = &c->calls[i];
        const struct traces_recorded_comm *comm = &c->comms[call->comm];
        if (call->op >= LW_N_OP_KINDS || lw_op_class(call->op) != LW_CLASS_COLLECTIVE)
            continue;
        int64_t at = turn[call->comm]++, bytes = traces_recorded_bytes(c, call);
        if (call->start_ns < 0 || bytes <= 0 || comm->n_ranks < 2 || comm->id == 0 ||
            call->op == LW_OP_BARRIER)
            continue;
        if (nodes[call->comm] == 0)
            nodes[call->comm] = nodes_of(all, n, comm->id);
        if (lw_reserve(&k->all, &k->capacity, k->n + 1, sizeof *k->all) != 0)
            status = lw_fail_nomem(err);
        else
            k->all[k->n++] = (struct reading){(enum lw_op_kind)call->op, call->dtype, comm->n_ranks,
                                              nodes[call->comm], 1, bytes, comm->id, at,
                                              call->end_ns - call->start_ns};
    }
    lw_free(turn);
    lw_free(nodes);
    return status;
}

/* Spans of one collective become one, the shortest. Spans of no length are left out. */
static void join(struct collected *k)
{
    int64_t n = 0;

    if (k->n == 0) /* the array is empty */
        return;
    lw_sort(k->all, k->n, by_collective);
    for (int64_t i = 0; i < k->n; i++) {
        struct reading *last = n > 0 ? &k->all[n - 1] : NULL;
        if (last && by_collective(last, &k->all[i]) == 0) {
            last->ns = k->all[i].ns < last->ns ? k->all[i].ns : last->ns;
            last->n_seen++;
        } else {
            k->all[n++] = k->all[i];
        }
    }
    k->n = 0;
    for (int64_t i = 0; i < n; i++)
        if (k->all[i].ns > 0)
            k->all[k->n++] = k->all[i];
    lw_sort(k->all, k->n, by_size);
}

static bool same_table(const struct reading *a, const struct reading *b)
{
    return a->op == b->op && a->dtype == b->dtype && a->n_ranks == b->n_ranks &&
           a->n_nodes == b->n_nodes;
}

static enum lw_status fill_table(const struct traces_recorded *c, const struct reading *r,
                                 int64_t n, struct traces_bench *out, struct lw_err *err)
{
    struct traces_bench_table *t = &out->tables[out->n];
    int64_t n_seen = 0;

    LW_TAKE(&out->arena, t->rows, n, err);
    for (int64_t i = 0, next; i < n; i = next) {
        for (next = i + 1; next < n && r[next].bytes == r[i].bytes; next++)
            ;
        t->rows[t->n_rows++] =
            (struct traces_bench_row){.bytes = r[i].bytes,
                                      .time = lw_ns_to_ps(r[i + (next - i - 1) / 2].ns),
                                      .in_place = -1};
    }
    for (int64_t i = 0; i < n; i++)
        n_seen += r[i].n_seen;
    LW_PRINT(&out->arena, t->source, err,
             "%lld recorded calls of %.60s, shortest span of %.1f of %d members", (long long)n,
             c->library, (double)n_seen / (double)n, r->n_ranks);
    t->op = r->op;
    t->dtype = r->dtype;
    t->n_ranks = r->n_ranks;
    t->n_nodes = r->n_nodes;
    t->gpu = "";
    out->n++;
    return LW_OK;
}

static enum lw_status fill(const struct traces_recorded *c, const struct collected *k,
                           struct traces_bench *out, struct lw_err *err)
{
    int32_t n_tables = 0;

    for (int64_t i = 0; i < k->n; i++)
        n_tables += i == 0 || !same_table(&k->all[i - 1], &k->all[i]);
    LW_TAKE(&out->arena, out->tables, n_tables, err);
    for (int64_t i = 0, next; i < k->n; i = next) {
        for (next = i + 1; next < k->n && same_table(&k->all[i], &k->all[next]); next++)
            ;
        LW_TRY(fill_table(c, &k->all[i], next - i, out, err));
    }
    return LW_OK;
}

static enum lw_status refuse(const struct traces_recorded *c, int n, struct lw_err *err)
{
    for (int a = 0; a < n; a++)
        for (int b = a + 1; b < n; b++)
            for (int32_t i = 0; i < c[a].n_comms; i++)
                for (int32_t k = 0; k < c[b].n_comms; k++)
                    if (c[a].comms[i].id == c[b].comms[k].id &&
                        c[a].comms[i].rank == c[b].comms[k].rank)
                        return lw_fail(err, LW_EINVAL, "%s and %s are both of rank %d of one "
                                                       "communicator: give each recording once",
                                       c[a].file, c[b].file, c[a].comms[i].rank);
    return LW_OK;
}

enum lw_status traces_recorded_tables(const struct traces_recorded *c, int n,
                                      struct traces_bench *out, struct lw_err *err)
{
    struct traces_bench b = {.file = c[0].file, .version = ""};
    struct collected k = {0};
    enum lw_status status = refuse(c, n, err);

    for (int i = 0; status == LW_OK && i < n; i++)
        status = collect_file(c, n, i, &k, err);
    if (status == LW_OK)
        join(&k);
    if (status == LW_OK && k.n == 0)
        status = lw_fail(err, LW_EINVAL, "%s: no collective has a span: record with "
                                         "LAPWING_RECORD_EVENTS=1 (NCCL), or blocking calls (MPI)",
                         c[0].file);
    if (status == LW_OK)
        status = fill(&c[0], &k, &b, err);
    b.is_nccl = strncmp(c[0].library, "nccl ", 5) == 0;
    if (b.is_nccl && status == LW_OK) {
        b.version = lw_arena_strdup(&b.arena, c[0].library + 5);
        status = b.version ? LW_OK : lw_fail_nomem(err);
    }
    lw_free(k.all);
    LW_GIVE(status, out, b, lw_arena_free(&b.arena));
}

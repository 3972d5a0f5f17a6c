/* A cluster of PyTorch's gloo on CPUs, completed. Sizes of an operation mean what they mean in a
 * table (shared/plan/cost.h); n ranks, B bytes:
 *
 *     operation        from          time                  why
 *     send             all-gather    of 2 B on 2 ranks     each of two ranks sends the other half
 *     send             all-reduce    the same              it moves no less, so it is a bound
 *     reduce-scatter   all-reduce    the same              ProcessGroupGloo reduces a copy of the
 *                                                          whole input and keeps a part
 *     all-reduce       send          2(n-1) of B/n         a ring
 *     all-gather       send          (n-1) of B/n          a ring
 *     broadcast        send          ceil(log2 n) of B     a binomial tree
 *     broadcast, reduce, all-gather  all-reduce  the same  it moves no less, so it is a bound
 *
 * The first row that applies makes a table, in this order.
 *
 * Small messages take one of two times (about 0.1 ms and 4 ms: a thread of gloo wakes at once or at
 * the scheduler's next tick), so that the median of a small size may exceed that of a larger one:
 * a size counts no more than any larger one (docs/design/ddp_runs.md has the same rule).
 *
 * Sources: pytorch/pytorch torch/csrc/distributed/c10d/ProcessGroupGloo.cpp@c194358a,
 * reduce_scatter_tensor_coalesced; gloo/broadcast.cc and allgather.cc of facebookincubator/gloo. */
#include "shared/cluster/gloo.h"

#include <string.h>

#include "shared/cluster/cluster.h"
#include "shared/cluster/measured.h"
#include "shared/numbers/checked.h"

const struct lw_gloo_fact lw_gloo_facts[LW_N_GLOO_FACTS] = {
    [LW_GLOO_COPY] = {"device.copy_bytes_per_s", "B/s", 4e9,
                      "fitted on 34 measured DDP steps of other models",
                      "gpt6 and resnet18 on 500m, 1g, 5g, unl: least mean error of the step, to "
                      "0.05 ns/B", 34},
    [LW_GLOO_WORKERS] = {"interference.comm_workers", "", 2,
                         "threads of PyTorch's gloo process group, by default", NULL, 0},
    [LW_GLOO_ON_CORE] = {"interference.comm_on_compute_core", "", 1,
                         "threads of gloo run on the cores that compute", NULL, 0},
    [LW_GLOO_ONE_LINK] = {"interference.shared_link", "", 1,
                          "operations of a process share its one link", NULL, 0},
    [LW_GLOO_BYTE_CPU] = {"cpu_ns of a byte", "ps", 425,
                          "median of 8 all-reduces of 1 MiB and more on two other networks: 0.85 "
                          "ns a byte, of which one is sent and one received", NULL, 0},
};

/* --- CPU times -------------------------------------------------------------------------------- */

/* Bytes that a member sends and receives, of each byte of the operation. */
static double moved(enum lw_op_kind op, int32_t n)
{
    double most = 2.0 * (n - 1) / n;

    switch (op) {
    case LW_OP_ALL_REDUCE:
    case LW_OP_REDUCE_SCATTER:
        return 2 * most;
    case LW_OP_ALL_GATHER:
    case LW_OP_ALL_TO_ALL:
        return most;
    default:
        return 1;
    }
}

static enum lw_status add_cpu(struct lw_cluster *c, struct lw_cost_table *t, struct lw_err *err)
{
    double byte_ps = lw_gloo_facts[LW_GLOO_BYTE_CPU].value * moved(t->op, t->n_ranks);
    lw_ps *cpu;

    if (t->cpu_ps || t->n_in_flight > 1)
        return LW_OK;
    LW_TAKE(&c->arena, cpu, t->n_rows, err);
    for (int32_t i = 0; i < t->n_rows; i++) {
        cpu[i] = lw_round_sat((double)t->bytes[i] * byte_ps);
        cpu[i] = cpu[i] < t->time_ps[i] ? cpu[i] : t->time_ps[i];
    }
    t->cpu_ps = cpu;
    return LW_OK;
}

/* --- sizes ------------------------------------------------------------------------------------ */

static enum lw_status smooth(struct lw_cluster *c, struct lw_cost_table *t, struct lw_err *err)
{
    bool falls = false;
    lw_ps *time;

    for (int32_t i = 1; i < t->n_rows; i++)
        falls |= t->time_ps[i] < t->time_ps[i - 1];
    if (!falls)
        return LW_OK;
    LW_TAKE(&c->arena, time, t->n_rows, err);
    for (int32_t i = t->n_rows - 1; i >= 0; i--)
        time[i] = i + 1 < t->n_rows && time[i + 1] < t->time_ps[i] ? time[i + 1] : t->time_ps[i];
    t->time_ps = time;
    t->spread_ps = NULL;
    LW_PRINT(&c->arena, t->source, err, "%s; assumed: a size costs no more than a larger one",
             t->source);
    return LW_OK;
}

/* --- operations ------------------------------------------------------------------------------- */

/* Rows of `bytes` times `grow`, of a time `times` as long. */
struct way {
    enum lw_op_kind op, from;
    int32_t grow, times;
    const char *why;
};

static int32_t tree_rounds(int32_t n)
{
    int32_t rounds = 0;

    while (rounds < 31 && INT32_C(1) << rounds < n)
        rounds++;
    return rounds;
}

enum { N_WAYS = 9 };

static void list_ways(int32_t n, struct way ways[N_WAYS])
{
    const struct way all[N_WAYS] = {
        {LW_OP_SEND, LW_OP_ALL_GATHER, -2, 1, "a message is half an all-gather of two ranks"},
        {LW_OP_SEND, LW_OP_ALL_REDUCE, 1, 1, "a message takes no longer than an all-reduce"},
        {LW_OP_REDUCE_SCATTER, LW_OP_ALL_REDUCE, 1, 1,
         "gloo's reduce-scatter is an all-reduce of the whole input"},
        {LW_OP_ALL_REDUCE, LW_OP_SEND, n, 2 * (n - 1), "an all-reduce is a ring of messages"},
        {LW_OP_ALL_GATHER, LW_OP_SEND, n, n - 1, "an all-gather is a ring of messages"},
        {LW_OP_BROADCAST, LW_OP_SEND, 1, tree_rounds(n), "a broadcast is a tree of messages"},
        {LW_OP_BROADCAST, LW_OP_ALL_REDUCE, 1, 1, "a broadcast takes no longer than an all-reduce"},
        {LW_OP_REDUCE, LW_OP_ALL_REDUCE, 1, 1, "a reduce takes no longer than an all-reduce"},
        {LW_OP_ALL_GATHER, LW_OP_ALL_REDUCE, 1, 1,
         "an all-gather takes no longer than an all-reduce"},
    };

    memcpy(ways, all, sizeof all);
}

static const struct lw_cost_table *find(const struct lw_cluster *c, enum lw_op_kind op,
                                        int32_t n_ranks, int32_t n_nodes)
{
    for (int32_t i = 0; i < c->n_tables; i++) {
        const struct lw_cost_table *t = &c->tables[i];
        if (t->op == op && t->n_in_flight == 1 && t->n_rows > 0 && t->n_nodes == n_nodes &&
            t->n_ranks == n_ranks)
            return t;
    }
    return NULL;
}

static enum lw_status derive(struct lw_cluster *c, const struct way *w,
                             const struct lw_cost_table *from, int32_t n_ranks,
                             struct lw_cost_table *out, struct lw_err *err)
{
    int64_t *bytes;
    lw_ps *time;

    LW_TAKE(&c->arena, bytes, from->n_rows, err);
    LW_TAKE(&c->arena, time, from->n_rows, err);
    *out = *from;
    out->op = w->op;
    out->n_ranks = n_ranks;
    out->n_rows = 0;
    for (int32_t i = 0; i < from->n_rows; i++) {
        int64_t size = w->grow > 0 ? lw_mul_sat(from->bytes[i], w->grow)
                                   : from->bytes[i] / -w->grow;
        if (out->n_rows > 0 && size <= bytes[out->n_rows - 1])
            continue;
        bytes[out->n_rows] = size;
        time[out->n_rows++] = lw_mul_sat(from->time_ps[i], w->times);
    }
    out->bytes = bytes;
    out->time_ps = time;
    out->cpu_ps = out->spread_ps = NULL;
    LW_PRINT(&c->arena, out->source, err, "assumed: %s; %s", w->why, from->source);
    return LW_OK;
}

/* The operations that the shape of a measured table lacks. */
static enum lw_status add_missing(struct lw_cluster *c, int32_t n_ranks, int32_t n_nodes,
                                  struct lw_err *err)
{
    struct way ways[N_WAYS];

    list_ways(n_ranks, ways);
    for (int k = 0; k < N_WAYS; k++) {
        bool message = ways[k].from == LW_OP_SEND;
        const struct lw_cost_table *from =
            find(c, ways[k].from, message ? 2 : n_ranks,
                 message && n_nodes > 2 ? 2 : n_nodes);
        if (!from || find(c, ways[k].op, n_ranks, n_nodes) ||
            (ways[k].op == LW_OP_SEND && n_ranks != 2))
            continue;
        LW_TRY(derive(c, &ways[k], from, n_ranks, &c->tables[c->n_tables], err));
        c->tables[c->n_tables].n_nodes = n_nodes;
        c->n_tables++;
    }
    return LW_OK;
}

static enum lw_status complete_tables(struct lw_cluster *c, bool named, struct lw_err *err)
{
    struct lw_cost_table *more;
    int32_t n = c->n_tables;

    LW_TAKE(&c->arena, more, n * (1L + N_WAYS), err);
    memcpy(more, c->tables, (size_t)n * sizeof *more);
    c->tables = more;
    for (int32_t i = 0; !named && i < n; i++)
        LW_TRY(smooth(c, &c->tables[i], err));
    for (int32_t i = 0; i < n; i++)
        if (c->tables[i].n_ranks > 1)
            LW_TRY(add_missing(c, c->tables[i].n_ranks, c->tables[i].n_nodes, err));
    for (int32_t i = 0; !named && i < c->n_tables; i++)
        LW_TRY(add_cpu(c, &c->tables[i], err));
    return LW_OK;
}

/* --- figures ---------------------------------------------------------------------------------- */

static enum lw_status assume(struct lw_cluster *c, struct lw_figure *f, enum lw_gloo_fact_id id,
                             struct lw_err *err)
{
    if (lw_figure_is_set(*f))
        return LW_OK;
    f->value = lw_gloo_facts[id].value;
    LW_PRINT(&c->arena, f->source, err, "assumed: %s", lw_gloo_facts[id].source);
    return LW_OK;
}

enum lw_status lw_gloo_complete(struct lw_cluster *c, struct lw_err *err)
{
    bool named = c->library && c->library[0];

    if (c->n_tables == 0 || c->n_links > 0 || (named && strcmp(c->library, "gloo") != 0))
        return LW_OK;
    LW_TRY(complete_tables(c, named, err));
    if (named)
        return LW_OK;
    LW_TRY(assume(c, &c->device.copy_bytes_per_s, LW_GLOO_COPY, err));
    LW_TRY(assume(c, &c->interference.comm_workers, LW_GLOO_WORKERS, err));
    LW_TRY(assume(c, &c->interference.comm_on_compute_core, LW_GLOO_ON_CORE, err));
    LW_TRY(assume(c, &c->interference.shared_link, LW_GLOO_ONE_LINK, err));
    return LW_OK;
}

/* lapwing cost: what communication costs on a cluster, and which model says so. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "shared/cli/cli.h"
#include "shared/cli/command.h"
#include "shared/files/files.h"
#include "sim/cmd_cost_measured.h"
#include "sim/cost/cost_nccl.h"
#include "sim/cost/cost_print.h"
#include "sim/cost/gemm_cost.h"

enum { MOST_RANKS = 1 << 24 }; /* sums of ranks and nodes stay within 32 bits */

static const struct lw_usage usage = {
    .command = "cost",
    .synopsis = "[-c CLUSTER] [--op OP] [--algorithm NAME] [--ranks N] [--nodes N] [--bytes A..B] "
                "[--measured FILE] | --gemm M,N,K",
    .about =
        "Prints the time of a collective or message over sizes (doubling from A to B), with "
        "the model or measured table that gives it. algbw is bytes over time; busbw corrects "
        "it for the traffic that an ideal algorithm must cause, so it compares with the speed "
        "of a link. With --measured it prints what the model gives for every row of a measured "
        "table, beside what was measured. With --gemm: the time of one matrix product on the "
        "cluster's device, by its shape.",
};

static enum lw_status parse_range(const char *text, int64_t *from, int64_t *to, struct lw_err *err)
{
    const char *dots = strstr(text, "..");
    char first[64];

    if (!dots) {
        LW_TRY(lw_parse_size(text, from, err));
        *to = *from;
        return LW_OK;
    }
    if ((size_t)(dots - text) >= sizeof first)
        return lw_fail(err, LW_EINVAL, "'%s' is no range of sizes (1KiB..1GiB)", text);
    memcpy(first, text, (size_t)(dots - text));
    first[dots - text] = '\0';
    LW_TRY(lw_parse_size(first, from, err));
    LW_TRY(lw_parse_size(dots + 2, to, err));
    if (*from < 1 || *to < *from)
        return lw_fail(err, LW_EINVAL, "'%s': a range goes from at least 1 byte upwards", text);
    return LW_OK;
}

/* Sizes double from `from`; the last is `to`. */
static enum lw_status ask(const struct lw_cluster *c, struct lw_cost_query q, int64_t from,
                          int64_t to, struct sim_cost_answers *a, struct lw_err *err)
{
    LW_TRY(sim_nccl_check_shape(c, &q, err));
    for (q.bytes = from; a->n < SIM_COST_MAX_ROWS; q.bytes = q.bytes > to / 2 ? to : 2 * q.bytes) {
        LW_TRY(lw_sim_cost_explain(c, &q, &a->answer[a->n], err));
        a->query[a->n++] = q;
        if (q.bytes >= to)
            break;
    }
    return LW_OK;
}

/* Ranks and nodes of the question, 0 = not given: all devices, and as few nodes as hold them. */
static enum lw_status set_shape(const struct lw_cluster *c, int64_t ranks, int64_t nodes,
                                struct lw_cost_query *q, struct lw_err *err)
{
    int64_t per_node = c->devices_per_node;
    int64_t n_devices = (c->n_nodes > 0 ? c->n_nodes : 1) * per_node; /* 0: as many as needed */

    ranks = ranks > 0 ? ranks : n_devices;
    nodes = nodes > 0 ? nodes : (ranks + per_node - 1) / per_node;
    if (c->n_nodes > 0 && (ranks > n_devices || nodes > c->n_nodes))
        return lw_fail(err, LW_EINVAL,
                       "%" PRId64 " ranks on %" PRId64 " node%s: cluster '%s' has %d node%s of %d "
                       "devices",
                       ranks, nodes, nodes == 1 ? "" : "s", c->name, c->n_nodes,
                       c->n_nodes == 1 ? "" : "s", c->devices_per_node);
    if (ranks > nodes * per_node)
        return lw_fail(err, LW_EINVAL,
                       "--ranks %" PRId64 " --nodes %" PRId64 ": a node of cluster '%s' has %d "
                       "devices: --nodes %" PRId64 " holds them",
                       ranks, nodes, c->name, c->devices_per_node,
                       (ranks + per_node - 1) / per_node);
    q->n_ranks = (int32_t)ranks;
    q->n_nodes = (int32_t)nodes;
    return LW_OK;
}

int cmd_cost(int argc, char **argv)
{
    const char *cluster_name = "host", *op = NULL, *bytes = "1KiB..1GiB", *dtype = NULL,
               *algorithm = "auto", *measured = NULL, *where = NULL, *gemm = NULL;
    int64_t ranks = 0, nodes = 0, from = 0, to = 0;
    enum lw_format format = LW_FORMAT_TEXT;
    const struct lw_opt table[] = {
        {"cluster", 'c', LW_OPT_STRING, &cluster_name, "NAME",
         "known cluster or cluster file (host)"},
        {"op", 0, LW_OPT_STRING, &op, "OP", "all_reduce, all_gather, send, ... (all_reduce)"},
        {"algorithm", 0, LW_OPT_STRING, &algorithm, "NAME",
         "auto, ring, tree, hierarchical, direct, one-shot, pairwise, hfreduce, nccl, "
         "nccl:tree/ll128, ... (auto)"},
        {"ranks", 0, LW_OPT_INT, &ranks, "N", "members (all devices)", 1, MOST_RANKS},
        {"nodes", 0, LW_OPT_INT, &nodes, "N", "nodes they live on (as few as hold them)", 1,
         MOST_RANKS},
        {"bytes", 0, LW_OPT_STRING, &bytes, "A..B", "sizes, or one (1KiB..1GiB)"},
        {"gemm", 0, LW_OPT_STRING, &gemm, "M,N,K",
         "a product of M x K and K x N; BATCH,M,N,K: as many; GROUPSxM,N,K: of experts"},
        {"dtype", 0, LW_OPT_STRING, &dtype, "TYPE", "element type (f32; with --gemm bf16)"},
        {"measured", 0, LW_OPT_STRING, &measured, "FILE",
         "nccl-tests output, or CSV with op, nranks, nnodes, size_bytes, time_us"},
        {"where", 0, LW_OPT_STRING, &where, "COLUMN=TEXT[;...]",
         "with --measured CSV: rows whose cells hold these texts (gpu=H200)"},
        LW_OPTION_FORMAT(&format),
        {0},
    };
    struct lw_cluster c = {0};
    struct lw_cost_query q = {0};
    struct sim_cost_answers a = {.n = 0};
    struct lw_err err = {0};
    int n, rc = lw_cli_begin(&usage, table, argc, argv, &n);

    if (rc >= 0)
        return rc;
    dtype = dtype ? dtype : gemm ? "bf16" : "f32";
    if (lw_op_parse(op ? op : "all_reduce", &q.op, &err) != LW_OK ||
        lw_dtype_parse(dtype, &q.dtype, &err) != LW_OK ||
        lw_reducer_parse(algorithm, &q.algorithm, &err) != LW_OK ||
        parse_range(bytes, &from, &to, &err) != LW_OK)
        return lw_cli_usage("cost", "%s", err.msg);
    enum lw_status status = lw_cluster_find(cluster_name, &c, &err);
    if (gemm || measured) {
        struct traces_bench_hint hint = {op, ranks, nodes, where};
        if (status == LW_OK)
            status = gemm ? sim_gemm_print(&c, gemm, q.dtype, format, stdout, &err)
                          : cmd_cost_measured(&c, measured, &hint, q.algorithm, format, &err);
        lw_cluster_free(&c);
        return lw_cli_end("cost", status, &err);
    }
    if (status == LW_OK)
        status = set_shape(&c, ranks, nodes, &q, &err);
    if (status == LW_OK)
        status = ask(&c, q, from, to, &a, &err);
    if (status == LW_OK)
        status = sim_cost_print(&c, &a, format, stdout, &err);
    lw_cluster_free(&c);
    return lw_cli_end("cost", status, &err);
}

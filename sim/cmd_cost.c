/* lapwing cost: what communication costs on a cluster, and which model says so. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "analysis/kernel_bench/kernel_costs.h"
#include "analysis/netbench/measured_costs.h"
#include "shared/base/nearest.h"
#include "shared/cli/cli.h"
#include "shared/cli/cluster_warning.h"
#include "shared/cli/command.h"
#include "shared/files/files.h"
#include "shared/device/burst_time.h"
#include "sim/cost_query/cost_print.h"
#include "sim/cost_query/cost_question.h"
#include "sim/cost_query/gemm_cost.h"
#include "traces/nccl_tests/import_nccl_tests.h"

static const struct lw_usage usage = {
    .command = "cost",
    .synopsis = "[-c CLUSTER] [--op OP] [--algorithm NAME] [--ranks N] [--nodes N] [--bytes A..B] "
                "[--measured FILE] | --gemm M,N,K "
                "[--burst]",
    .about =
        "Prints the time of a collective or message over sizes (doubling from A to B), with "
        "the model or measured table that gives it. algbw is bytes over time; busbw corrects "
        "it for the traffic that an ideal algorithm must cause, so it compares with the speed "
        "of a link. With --measured it prints what the model gives for every row of a measured "
        "table, beside what was measured; of a table of kernels the error per device and type "
        "(columns device, dtype and: products m, n, k, latency_ms, min_ms; attention causal, "
        "batch, seq, heads, kv_heads, head_dim, latency_ms; experts num_tokens, hidden, inter, "
        "topk, experts, tp, ep, distribution, latency_ms, min_ms; collectives op, nranks, "
        "size_bytes, time_us). With --gemm: the time of one matrix product on the cluster's "
        "device, by its shape: at the clock that training sustains, or in a burst.",
    .max_operands = 1, /* none: refused with a hint */
};

/* An operation without its option. */
static int refuse_operand(const char *word)
{
    struct lw_nearest near = lw_nearest_begin(word);
    char hint[96];

    for (int i = 0; i < LW_N_OP_KINDS; i++)
        lw_nearest_try(&near, lw_op_name((enum lw_op_kind)i));
    return lw_cli_usage("cost", "unexpected '%s'%s", word,
                        lw_nearest_hint(&near, "--op ", hint, sizeof hint));
}

static enum lw_status is_op(const char *text, struct lw_err *err)
{
    enum lw_op_kind op;

    return sim_cost_op(text, &op, err);
}

static enum lw_status is_algorithm(const char *text, struct lw_err *err)
{
    enum lw_reducer_kind kind;

    return lw_reducer_parse(text, &kind, err);
}

static enum lw_status is_range(const char *text, struct lw_err *err)
{
    int64_t from, to;

    return sim_cost_range(text, &from, &to, err);
}

static enum lw_status is_dtype(const char *text, struct lw_err *err)
{
    enum lw_dtype dtype;

    return lw_operands_parse(text) >= 0 ? LW_OK : lw_dtype_parse(text, &dtype, err);
}

/* What the command line asks for. */
struct request {
    const char *cluster, *op, *bytes, *dtype, *algorithm, *measured, *where, *gemm;
    int64_t ranks, nodes, from, to;
    bool burst, sustained;
    struct lw_cost_query query;
    enum lw_format format;
};

/* Options that contradict each other; NULL: none. */
static const char *contradiction(const struct request *r)
{
    if (r->measured && (r->bytes || r->dtype || r->gemm))
        return r->bytes   ? "--measured takes sizes and types from its file: leave out --bytes"
               : r->dtype ? "--measured takes sizes and types from its file: leave out --dtype"
                          : "--measured takes sizes and types from its file: leave out --gemm";
    if (r->gemm && (r->bytes || r->op || r->ranks || r->nodes))
        return r->bytes   ? "--gemm is a product, of no --bytes: leave out one of them"
               : r->op    ? "--gemm is a product, of no --op: leave out one of them"
               : r->ranks ? "--gemm is a product of one device, of no --ranks: leave out one "
                            "of them"
                          : "--gemm is a product of one device, of no --nodes: leave out one "
                            "of them";
    if (r->burst && r->sustained)
        return "--burst and --sustained are two clocks: leave out one of them";
    if ((r->burst || r->sustained) && !r->gemm && !r->measured)
        return "--burst and --sustained are of kernels: give --gemm M,N,K or --measured FILE";
    struct lw_err unused;
    enum lw_dtype dtype;
    if (r->dtype && !(r->gemm && r->burst) && lw_dtype_parse(r->dtype, &dtype, &unused) != LW_OK)
        return "--dtype fp8, fp8_block and nvfp4 are of products in a burst: add --burst to --gemm";
    if (r->where && !r->measured)
        return "--where chooses rows of --measured FILE, which is missing";
    return NULL;
}

/* For doubts about links: a group on several nodes uses those between them. */
static int64_t ranks_of(const struct lw_cluster *c, const struct request *r)
{
    int64_t all = (int64_t)c->devices_per_node * (c->n_nodes > 0 ? c->n_nodes : 1);

    return r->nodes > 1 ? INT32_MAX : r->ranks > 0 ? r->ranks : all;
}

static enum lw_status take_words(struct request *r, struct lw_err *err)
{
    const char *dtype = r->dtype ? r->dtype : r->gemm ? "bf16" : "f32";

    LW_TRY(sim_cost_op(r->op ? r->op : "all_reduce", &r->query.op, err));
    if (!r->burst || lw_operands_parse(dtype) < 0)
        LW_TRY(lw_dtype_parse(dtype, &r->query.dtype, err));
    LW_TRY(lw_reducer_parse(r->algorithm, &r->query.algorithm, err));
    return sim_cost_range(r->bytes ? r->bytes : "1KiB..1GiB", &r->from, &r->to, err);
}

static enum lw_status print(const struct lw_cluster *c, struct request *r, struct lw_err *err)
{
    const struct traces_bench_hint hint = {
        .op = r->op, .n_ranks = r->ranks, .n_nodes = r->nodes, .where = r->where};
    struct sim_cost_answers a = {.n = 0, .all_devices = r->ranks == 0 && r->nodes > 0 &&
                                                       lw_op_class(r->query.op) != LW_CLASS_P2P};

    if (r->gemm && r->burst)
        return sim_gemm_burst_print(c, r->gemm, r->dtype ? r->dtype : "bf16", r->format, stdout,
                                    err);
    if (r->gemm)
        return sim_gemm_print(c, r->gemm, r->query.dtype, r->format, stdout, err);
    if (r->measured)
        return lw_measured_costs_print(c, r->measured, &hint, r->query.algorithm, r->format, err);
    LW_TRY(sim_cost_shape(c, r->ranks, r->nodes, &r->query, err));
    LW_TRY(sim_cost_ask(c, r->query, r->from, r->to, &a, err));
    return sim_cost_print(c, &a, r->format, stdout, err);
}

int cmd_cost(int argc, char **argv)
{
    struct request r = {.algorithm = "auto"};
    const struct lw_opt table[] = {
        {"cluster", 'c', LW_OPT_STRING, &r.cluster, "NAME|FILE",
         "known cluster or cluster file (host)"},
        {"op", 0, LW_OPT_STRING, &r.op, "OP",
         "all_reduce, reduce, reduce_scatter, all_gather, broadcast, all_to_all, send, recv, "
         "barrier (all_reduce)", .check = is_op},
        {"algorithm", 0, LW_OPT_STRING, &r.algorithm, "NAME",
         "auto, ring, tree, hierarchical, direct, one-shot, pairwise, hfreduce, nccl, "
         "nccl:tree/ll128, ... (auto)", .check = is_algorithm},
        {"ranks", 0, LW_OPT_INT, &r.ranks, "N",
         "members (all devices of the nodes, 2 of a message)", 1, SIM_COST_MAX_RANKS},
        {"nodes", 0, LW_OPT_INT, &r.nodes, "N", "nodes of the members (the fewest that hold "
                                                "them)", 1,
         SIM_COST_MAX_RANKS},
        {"bytes", 0, LW_OPT_STRING, &r.bytes, "A..B", "sizes, or one (1KiB..1GiB)",
         .check = is_range},
        {"gemm", 0, LW_OPT_STRING, &r.gemm, "M,N,K",
         "a product of M x K and K x N; BATCH,M,N,K: a batch of them; GROUPSxM,N,K: one for each "
         "expert", .check = sim_gemm_check},
        {"dtype", 0, LW_OPT_STRING, &r.dtype, "TYPE",
         "element type (f32; with --gemm bf16; with --burst also fp8, fp8_block, nvfp4)",
         .check = is_dtype},
        {"burst", 0, LW_OPT_FLAG, &r.burst, NULL,
         "kernels alone, at the clock of a short burst (with --measured the default)"},
        {"sustained", 0, LW_OPT_FLAG, &r.sustained, NULL,
         "kernels at the clock of training (with --gemm the default)"},
        {"measured", 0, LW_OPT_STRING, &r.measured, "FILE",
         "nccl-tests output, CSV with op, nranks, nnodes, size_bytes, time_us, or kernels per "
         "device"},
        {"where", 0, LW_OPT_STRING, &r.where, "COLUMN=TEXT[;...]",
         "with --measured CSV: only rows whose cells contain these texts (gpu=H200)",
         .check = traces_bench_where_check},
        LW_OPTION_FORMAT(&r.format),
        {0},
    };
    struct lw_cluster c = {0};
    struct lw_err err = {0};
    int n, rc = lw_cli_begin(&usage, table, argc, argv, &n);

    if (rc >= 0)
        return rc;
    if (n > 0)
        return refuse_operand(argv[1]);
    const char *refused = contradiction(&r);
    if (refused)
        return lw_cli_usage("cost", "%s", refused);
    enum lw_status status = take_words(&r, &err);
    bool kernels = status == LW_OK && r.measured && lw_kernel_table_is(r.measured);
    if (kernels && (r.op || r.ranks || r.nodes))
        status = lw_fail(&err, LW_EINVAL, "--measured %s is a table of devices with their sizes: "
                                          "leave out --op, --ranks and --nodes", r.measured);
    if (status == LW_OK && r.measured && !kernels && strcmp(r.measured, "-") != 0)
        status = lw_kernel_table_known(r.measured, &err);
    bool other = r.measured && !kernels && (r.burst || r.sustained);
    if (status == LW_OK && other &&
        (strcmp(r.measured, "-") == 0 || access(r.measured, R_OK) == 0))
        status = lw_fail(&err, LW_EINVAL, "--measured %s is of collectives, whose time depends on "
                                          "no clock of products: leave out --%s", r.measured,
                         r.burst ? "burst" : "sustained");
    if (kernels && status == LW_OK) {
        const struct lw_kernel_question q = {.file = r.measured, .where = r.where,
                                             .cluster = r.cluster, .sustained = r.sustained,
                                             .clock = r.burst || r.sustained,
                                             .algorithm = r.query.algorithm,
                                             .format = r.format};
        return lw_cli_end("cost", lw_kernel_costs_print(&q, &err), &err);
    }
    if (status == LW_OK)
        status = lw_cluster_find(r.cluster ? r.cluster : "host", &c, &err);
    if (status == LW_OK) {
        lw_cluster_warn(&c, ranks_of(&c, &r));
        status = print(&c, &r, &err);
    }
    lw_cluster_free(&c);
    return lw_cli_end("cost", status, &err);
}

/* lapwing cost: what communication costs on a cluster, and which model says so. */
#include <stdio.h>

#include "analysis/netbench/measured_costs.h"
#include "shared/base/nearest.h"
#include "shared/cli/cli.h"
#include "shared/cli/command.h"
#include "shared/files/files.h"
#include "sim/cost_query/cost_print.h"
#include "sim/cost_query/cost_question.h"
#include "sim/cost_query/gemm_cost.h"

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

int cmd_cost(int argc, char **argv)
{
    const char *cluster_name = "host", *op = NULL, *bytes = NULL, *dtype = NULL,
               *algorithm = "auto", *measured = NULL, *where = NULL, *gemm = NULL;
    int64_t ranks = 0, nodes = 0, from = 0, to = 0;
    enum lw_format format = LW_FORMAT_TEXT;
    const struct lw_opt table[] = {
        {"cluster", 'c', LW_OPT_STRING, &cluster_name, "NAME",
         "known cluster or cluster file (host)"},
        {"op", 0, LW_OPT_STRING, &op, "OP",
         "all_reduce, reduce, reduce_scatter, all_gather, broadcast, all_to_all, send, recv, "
         "barrier (all_reduce)"},
        {"algorithm", 0, LW_OPT_STRING, &algorithm, "NAME",
         "auto, ring, tree, hierarchical, direct, one-shot, pairwise, hfreduce, nccl, "
         "nccl:tree/ll128, ... (auto)"},
        {"ranks", 0, LW_OPT_INT, &ranks, "N", "members (all devices)", 1, SIM_COST_MAX_RANKS},
        {"nodes", 0, LW_OPT_INT, &nodes, "N", "nodes they live on (as few as hold them)", 1,
         SIM_COST_MAX_RANKS},
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
    if (n > 0)
        return refuse_operand(argv[1]);
    if (measured && (bytes || dtype || gemm))
        return lw_cli_usage("cost",
                            "--measured takes sizes and types from its file: leave out --%s",
                            bytes ? "bytes" : dtype ? "dtype" : "gemm");
    if (gemm && bytes)
        return lw_cli_usage("cost", "--gemm is a product, of no --bytes: leave out one of them");
    if (where && !measured)
        return lw_cli_usage("cost", "--where chooses rows of --measured FILE, which is missing");
    dtype = dtype ? dtype : gemm ? "bf16" : "f32";
    if (sim_cost_op(op ? op : "all_reduce", &q.op, &err) != LW_OK ||
        lw_dtype_parse(dtype, &q.dtype, &err) != LW_OK ||
        lw_reducer_parse(algorithm, &q.algorithm, &err) != LW_OK ||
        sim_cost_range(bytes ? bytes : "1KiB..1GiB", &from, &to, &err) != LW_OK)
        return lw_cli_usage("cost", "%s", err.msg);
    enum lw_status status = lw_cluster_find(cluster_name, &c, &err);
    if (gemm || measured) {
        struct traces_bench_hint hint = {op, ranks, nodes, where};
        if (status == LW_OK)
            status = gemm ? sim_gemm_print(&c, gemm, q.dtype, format, stdout, &err)
                          : lw_measured_costs_print(&c, measured, &hint, q.algorithm,
                                                    format, &err);
        lw_cluster_free(&c);
        return lw_cli_end("cost", status, &err);
    }
    if (status == LW_OK)
        status = sim_cost_shape(&c, ranks, nodes, &q, &err);
    if (status == LW_OK)
        status = sim_cost_ask(&c, q, from, to, &a, &err);
    if (status == LW_OK)
        status = sim_cost_print(&c, &a, format, stdout, &err);
    lw_cluster_free(&c);
    return lw_cli_end("cost", status, &err);
}

/* lapwing bench: how fast planning, the simulator and the store are, on loads whose answer is
 * known. */
#include <stdio.h>
#include <string.h>

#include "analysis/bench/bench_loads.h"
#include "analysis/bench/bench_table.h"
#include "exec/cmd_bench_exec.h"
#include "shared/cli/cli.h"
#include "shared/cli/command.h"
#include "traces/import/bench_import_print.h"
#include "traces/inspect/bench_inspect.h"

static const struct lw_usage usage = {
    .command = "bench",
    .synopsis = "[w-ar | w-ddp | 3d | data-ranks | streams | pipeline | micro-batches | "
                "strategies | proofs | queue | cost | plan | plan-3d | units | optimal | store | "
                "tune | dispatch | by-hand | overlap | import FILE | inspect FILE | nsys] "
                "[--ranks N] [--method events|recurrence|collective] [--no-fold]",
    .about =
        "Measures the simulator: one ring all-reduce of 64 MiB (w-ar), a step of ten of them "
        "under compute (w-ddp), GPT-3 on 8 tensor, 16 pipeline and the rest data ranks (3d), on 8 "
        "pipeline ranks (data-ranks), a pipeline with messages on their own streams (streams), "
        "one with a stage a rank and 1,024 micro-batches (pipeline), "
        "one of 8 stages and 100,000 micro-batches (micro-batches), 100 strategies of GPT-3 on "
        "4,096 ranks, each with its model, plan and step, planned as a search does (strategies) "
        "and with the proof and the hash of each plan (proofs), the event queue alone "
        "(queue: hold model, --ranks events pending); queries of NCCL's cost model (cost); "
        "planning (plan: build, check and hash one of --params parameters; plan-3d: that of 3d; "
        "units: 100,000 modules with --zero 3; optimal: 30,000 parameters with --bucket-policy "
        "optimal); how fast spans are stored (store); a search of more than 20,000 "
        "strategies with bounds, which must find what brute force finds (tune: events are the "
        "strategies, simulated ranks those of them that bounds leave, whole seconds those of "
        "both); what the executor takes for an op without "
        "work (dispatch) and beyond the same calls by hand (by-hand), and how much of all-reduces "
        "it hides (overlap); how fast a trace, repeated to --size bytes of JSON in memory, is "
        "imported on one core, plain and gzipped, in processor time, and on all cores "
        "in wall time (import FILE); and what "
        "'lapwing inspect' takes of a file as it is stored (inspect FILE), and of a generated "
        "report of Nsight Systems with --kernels kernels (nsys). Without a "
        "name, a table of all but these, with the limits that some are to keep on an idle core. "
        "Times are of this machine; simulated times are the same everywhere.",
    .max_operands = 2,
};

static int check(const struct bench_choice *c, enum lw_format format)
{
    if (!c->name && format == LW_FORMAT_JSON)
        return lw_cli_usage("bench", "--format json shows one benchmark: name it");
    if (c->name && !bench_knows(c->name))
        return lw_cli_usage(
            "bench",
            "unknown benchmark '%s'; expected one of w-ar, w-ddp, 3d, data-ranks, streams, "
            "pipeline, micro-batches, strategies, proofs, queue, cost, plan, plan-3d, units, "
            "optimal, store, tune, dispatch, by-hand, overlap, import, inspect, nsys",
            c->name);
    if (c->name && !bench_simulates(c->name) &&
        (c->method || c->jitter_ns > 0 || c->start_skew_ns > 0 || c->no_fold))
        return lw_cli_usage("bench",
                            "%s simulates nothing: no --method, --jitter-ns, --start-skew-ns "
                            "or --no-fold",
                            c->name);
    return -1;
}

int cmd_bench(int argc, char **argv)
{
    struct bench_choice c = {.seed = 1, .params = 1000000};
    int64_t size = 500000000, kernels = 1000000;
    enum lw_format format = LW_FORMAT_TEXT;
    const struct lw_opt table[] = {
        {"ranks", 0, LW_OPT_INT, &c.ranks, "N",
         "ranks, or events pending (4096; 3d 16384, streams and pipeline 512)", 1, 1 << 24},
        {"params", 0, LW_OPT_INT, &c.params, "N", "plan: parameters (1000000)", 1, 100000000},
        {"method", 0, LW_OPT_STRING, &c.method, "events|recurrence|collective",
         "how it is simulated (w-ar, w-ddp: recurrence; 3d, streams: collective)"},
        {"jitter-ns", 0, LW_OPT_INT, &c.jitter_ns, "NS",
         "up to this much more for each message (0)", 0, 1000000000},
        {"start-skew-ns", 0, LW_OPT_INT, &c.start_skew_ns, "NS",
         "each rank enters up to this much later (0)", 0, 1000000000},
        {"no-fold", 0, LW_OPT_FLAG, &c.no_fold, NULL,
         "simulate every rank, also those that are alike"},
        {"seed", 0, LW_OPT_INT, &c.seed, "N", "of jitter and skew (1)", 0, INT64_MAX},
        {"size", 0, LW_OPT_SIZE, &size, "BYTES", "import: JSON to import (500MB)"},
        {"kernels", 0, LW_OPT_INT, &kernels, "N", "nsys: kernels of the report (1000000)", 1,
         100000000},
        LW_OPTION_FORMAT(&format),
        {0},
    };
    struct lw_err err = {0};
    int n, rc = lw_cli_begin(&usage, table, argc, argv, &n);

    if (rc >= 0)
        return rc;
    bool import = n > 0 && strcmp(argv[1], "import") == 0;
    bool inspect = n > 0 && strcmp(argv[1], "inspect") == 0;
    if ((import || inspect) && n == 1)
        return lw_cli_usage("bench", "%s needs a trace", argv[1]);
    if (n == 2 && !import && !inspect)
        return lw_cli_usage("bench", "found '%s'", argv[2]);
    if (inspect)
        return lw_cli_end("bench", traces_bench_inspect_print(argv[2], format, &err), &err);
    if (n == 1 && strcmp(argv[1], "nsys") == 0)
        return lw_cli_end("bench", traces_bench_nsys_print(kernels, format, &err), &err);
    if (import)
        return lw_cli_end("bench", traces_bench_import_print(argv[2], size, format, &err), &err);
    if (n == 1 && cmd_bench_exec_knows(argv[1]))
        return lw_cli_end("bench", cmd_bench_exec(argv[1], format, &err), &err);
    c.name = n > 0 ? argv[1] : NULL;
    if ((rc = check(&c, format)) >= 0)
        return rc;
    return lw_cli_end("bench", bench_print(&c, format, stdout, stderr, &err), &err);
}

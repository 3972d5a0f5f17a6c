/* lapwing bench: how fast planning, the simulator and the store are, on loads whose answer is
 * known. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "analysis/bench/bench_loads.h"
#include "exec/cmd_bench_exec.h"
#include "shared/cli/cli.h"
#include "shared/cli/command.h"
#include "shared/json/jsonout.h"
#include "shared/text/record.h"
#include "traces/cmd_bench_import.h"

static const struct lw_usage usage = {
    .command = "bench",
    .synopsis = "[w-ar | w-ddp | 3d | streams | queue | cost | plan | plan-3d | store | dispatch | "
                "by-hand | overlap | import FILE] "
                "[--ranks N] [--method events|recurrence|collective] [--no-fold]",
    .about =
        "Measures the simulator: one ring all-reduce of 64 MiB (w-ar), a step of ten of them "
        "under compute (w-ddp), GPT-3 on 8 tensor, 16 pipeline and the rest data ranks (3d), a "
        "pipeline with messages on their own streams (streams), the event queue alone "
        "(queue: hold model, --ranks events pending); queries of NCCL's cost model (cost); "
        "planning (plan: build, check and hash one "
        "of --params parameters; plan-3d: that of 3d); how fast spans are stored (store); what the "
        "executor takes for an op without work (dispatch) and beyond the same calls by hand "
        "(by-hand), and how much of all-reduces it hides (overlap); and how fast a trace, "
        "repeated to --size bytes of JSON in memory, is imported on one core, plain and gzipped "
        "(import FILE). Without a name, a table of all but that. Times are of this machine; "
        "simulated times are the same everywhere.",
    .max_operands = 2,
};

#define AT(field) offsetof(struct bench_result, field)
static const struct lw_column columns[] = {
    {"name", "name", LW_COLUMN_STRING, AT(name)},
    {"method", "method", LW_COLUMN_STRING, AT(method)},
    {"ranks", ">ranks", LW_COLUMN_INT, AT(ranks)},
    {"n_simulated_ranks", ">simulated ranks", LW_COLUMN_INT, AT(n_simulated)},
    {"simulated_ps", NULL, LW_COLUMN_INT, AT(simulated_ps)},
    {"simulated_ns", ">simulated time", LW_COLUMN_PS, AT(simulated_ps)},
    {"n_events", ">events", LW_COLUMN_INT, AT(n_events)},
    {"n_messages", ">messages", LW_COLUMN_INT, AT(n_messages)},
    {"wall_s", NULL, LW_COLUMN_REAL, AT(wall_s), .digits = 6},
    {NULL, ">wall s", LW_COLUMN_REAL, AT(wall_s), .digits = 3},
    {NULL, ">M events/s", LW_COLUMN_REAL, AT(rate), .digits = 2},
    {"peak_rss_bytes", ">peak memory", LW_COLUMN_BYTES, AT(peak_rss_bytes)},
};
#undef AT
enum { MOST = 16 };

static void add_row(struct lw_records *all, struct bench_result rows[MOST], struct bench_result r)
{
    r.rate = r.wall_s > 0 ? (double)r.n_events / r.wall_s / 1e6 : 0;
    rows[all->n++] = r;
}

/* Each in a process of its own. What this build cannot do yet is said, and the others go on. */
static enum lw_status bench_all(const struct bench_choice *c, struct lw_records *all,
                                struct bench_result done[MOST], struct lw_err *err)
{
    static const struct {
        const char *name, *method;
        int64_t ranks;
        bool no_fold;
    } rows[] = {
        {"w-ar", "recurrence", 0, false},  {"w-ar", "recurrence", 0, true},
        {"w-ar", "events", 0, true},       {"w-ddp", "recurrence", 0, false},
        {"w-ddp", "recurrence", 0, true},  {"3d", NULL, 0, false},
        {"3d", NULL, 0, true},             {"streams", NULL, 0, true},
        {"queue", NULL, 64, true},         {"queue", NULL, 16384, true},
        {"queue", NULL, 4194304, true},    {"cost", NULL, 0, true},
        {"plan", NULL, 0, false},
        {"plan-3d", NULL, 0, false},       {"store", NULL, 0, false},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct bench_choice one = *c;
        struct bench_result r;
        one.name = rows[i].name;
        one.method = rows[i].method;
        one.ranks = c->ranks > 0 ? c->ranks : rows[i].ranks;
        one.no_fold = c->no_fold || rows[i].no_fold;
        enum lw_status status = bench_run_apart(&one, &r, err);
        if (status == LW_OK)
            add_row(all, done, r);
        else if (status == LW_ENOTSUP || (status == LW_EINVAL && c->ranks > 0))
            fprintf(stderr, "lapwing: bench %s: %s\n", one.name, err->msg);
        else
            return status;
    }
    return LW_OK;
}

static int check(const struct bench_choice *c, enum lw_format format)
{
    if (!c->name && format == LW_FORMAT_JSON)
        return lw_cli_usage("bench", "--format json shows one benchmark: name it");
    if (c->name && !bench_knows(c->name))
        return lw_cli_usage(
            "bench",
            "no benchmark '%s': w-ar, w-ddp, 3d, streams, queue, cost, plan, plan-3d, "
            "store, dispatch, by-hand, overlap, import",
            c->name);
    if (c->name && !bench_simulates(c->name) &&
        (c->method || c->jitter_ns > 0 || c->start_skew_ns > 0 || c->no_fold))
        return lw_cli_usage("bench",
                            "%s simulates nothing: no --method, --jitter-ns, --start-skew-ns "
                            "or --no-fold",
                            c->name);
    return -1;
}

static enum lw_status print(const struct lw_records *all, enum lw_format format,
                            struct lw_err *err)
{
    struct lw_jsonout o = {.file = stdout};

    if (format != LW_FORMAT_JSON)
        return lw_records_print(all, format, stdout, err);
    lw_jsonout_object(&o, NULL);
    lw_record_json(&o, columns, all->n_columns, all->rows);
    lw_jsonout_end(&o);
    return LW_OK;
}

int cmd_bench(int argc, char **argv)
{
    struct bench_choice c = {.seed = 1, .params = 1000000};
    int64_t size = 500000000;
    enum lw_format format = LW_FORMAT_TEXT;
    const struct lw_opt table[] = {
        {"ranks", 0, LW_OPT_INT, &c.ranks, "N",
         "ranks, or events pending (4096; 3d 16384, streams 512)", 1, 1 << 24},
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
        LW_OPTION_FORMAT(&format),
        {0},
    };
    struct bench_result r = {0};
    struct lw_err err = {0};
    int n, rc = lw_cli_begin(&usage, table, argc, argv, &n);

    if (rc >= 0)
        return rc;
    bool import = n > 0 && strcmp(argv[1], "import") == 0;
    if (import != (n == 2))
        return lw_cli_usage("bench", import ? "import needs a trace" : "found '%s'", argv[2]);
    if (import)
        return lw_cli_end("bench", cmd_bench_import(argv[2], size, format, &err), &err);
    if (n == 1 && cmd_bench_exec_knows(argv[1]))
        return lw_cli_end("bench", cmd_bench_exec(argv[1], format, &err), &err);
    c.name = n > 0 ? argv[1] : NULL;
    if ((rc = check(&c, format)) >= 0)
        return rc;
    struct bench_result rows[MOST];
    struct lw_records all = LW_RECORDS(NULL, columns, rows, 0);
    enum lw_status status = n == 0 ? bench_all(&c, &all, rows, &err) : bench_run(&c, &r, &err);
    if (status == LW_OK && n > 0)
        add_row(&all, rows, r);
    if (status == LW_OK)
        status = print(&all, format, &err);
    return lw_cli_end("bench", status, &err);
}

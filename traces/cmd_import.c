/* lapwing import: recorded traces and measurements into workload and cluster files. */
#include <stdio.h>
#include <string.h>

#include "analysis/netbench/lay_tables.h"
#include "analysis/store/store.h"
#include "analysis/study/store_import_run.h"
#include "shared/cli/cli.h"
#include "shared/cli/command.h"
#include "shared/files/files.h"
#include "shared/io/output.h"
#include "shared/io/used_files.h"
#include "traces/goal/goal.h"
#include "traces/import/convert.h"
#include "traces/import/import_print.h"
#include "traces/import/read_traces.h"
#include "traces/import/trace_names.h"
#include "traces/nccl_tests/import_nccl_tests.h"

static const struct lw_usage usage = {
    .command = "import",
    .synopsis = "FILE... [-o workload.json] [--cluster-out cluster.json] [--step N|median] "
                "[--model-params FILE] [--salvage] [--store]",
    .min_operands = 1,
    .max_operands = -1,
};

static const char begin[] =
    "Turns recordings into what plans are made from; the format is found by "
    "content.";
static const char end[] = " --store keeps the recording itself as a run that compare, plot and "
                          "report read, beside a prediction by sim --replay.";

struct options {
    const char *output, *sidecar, *cluster_out, *onto, *step, *params, *from_device, *op, *where,
        *loggops;
    const char *db, *name;
    int64_t ranks, nodes, elements;
    bool as_traced, salvage, in_place, store;
    enum lw_format format;
    char command[1024];
};

static enum lw_status parse_step(const char *text, int64_t *step, struct lw_err *err)
{
    *step = -1;
    if (!text || strcmp(text, "median") == 0)
        return LW_OK;
    return lw_err_context(err, lw_parse_int(text, 0, INT32_MAX, step, err),
                          "--step (a number, or 'median')");
}

static enum lw_status is_step(const char *text, struct lw_err *err)
{
    int64_t step;

    return parse_step(text, &step, err);
}

static enum lw_status write_files(const struct options *o, const struct traces_file *files, int n,
                                  const struct traces_converted *c, struct lw_err *err)
{
    bool to_stdout = (o->output && strcmp(o->output, "-") == 0) ||
                     (o->cluster_out && strcmp(o->cluster_out, "-") == 0);
    struct traces_import_summary s = {c, c->has_plan ? NULL : o->output,
                                      c->has_plan ? o->output : NULL, o->cluster_out, 0};

    if (o->store)
        LW_TRY(lw_used_file(o->db, LW_USE_DATABASE, err));
    if (o->output)
        LW_TRY(c->has_plan ? lw_plan_write(&c->plan, o->output, err)
                           : lw_workload_write(&c->workload, o->output, err));
    if (o->cluster_out)
        LW_TRY(lw_cluster_write(&c->cluster, o->cluster_out, err));
    if (o->store)
        LW_TRY(lw_store_import_run(o->db, o->command, o->name, files, n,
                                   c->has_workload ? &c->workload : NULL, &s.run, err));
    return traces_import_print(&s, o->format, to_stdout ? stderr : stdout, err);
}

static const struct lw_importer *importer_of(const void *files, int k)
{
    return ((const struct traces_file *)files)[k].importer;
}

static enum lw_status refuse_idle(const struct options *o, const struct traces_file *files, int n,
                                  struct lw_err *err)
{
    const struct lw_importer_option given[] = {
        {"op", o->op},         {"ranks", o->ranks > 0},  {"nodes", o->nodes > 0},
        {"where", o->where},   {"in-place", o->in_place}, {NULL, false},
    };

    return lw_importer_refuse(given, files, importer_of, n, err);
}

static enum lw_status convert(const struct options *o, const struct traces_file *files, int n,
                              struct lw_err *err)
{
    struct traces_wanted want = {.workload = o->output != NULL,
                                 .cluster = o->cluster_out != NULL,
                                 .in_place = o->in_place,
                                 .chosen = o->step || o->sidecar || o->params || o->as_traced ||
                                           o->salvage || o->elements || o->from_device,
                                 .from_device = o->from_device,
                                 .choice = {.as_traced = o->as_traced, .n_elements = o->elements},
                                 .bench = {.op = o->op, .n_ranks = o->ranks, .n_nodes = o->nodes,
                                           .where = o->where},
                                 .loggops = o->loggops};
    struct traces_sidecar params = {0};
    struct traces_converted c = {0};
    enum lw_status status = parse_step(o->step, &want.choice.step, err);

    if (status == LW_OK && o->params) {
        status = traces_params_read(o->params, &params, err);
        want.choice.params = &params;
    }
    if (status == LW_OK)
        status = traces_convert(files, n, &want, &c, err);
    if (status == LW_OK && o->onto)
        status = lw_tables_lay_onto(o->onto, &c, stderr, "lapwing import", err);
    if (status == LW_OK)
        status = write_files(o, files, n, &c, err);
    traces_converted_free(&c);
    traces_sidecar_free(&params);
    return status;
}

static enum lw_status run(const struct options *o, char **names, int n, struct lw_err *err)
{
    struct lw_progress_bar bar;
    struct lw_progress progress = lw_progress_bar_begin(&bar, false);
    struct traces_reading reading = {o->sidecar, o->salvage, &progress, true};
    struct traces_file *files = NULL;
    struct traces_names all = {0};
    enum lw_status status = traces_names_find(names, n, &all, err);

    if (status == LW_OK)
        status = traces_names_once(&all, err);
    if (status == LW_OK && o->store)
        status = lw_store_usable(o->db, err);
    if (status == LW_OK && !(files = lw_calloc((size_t)all.n, sizeof *files)))
        status = lw_fail_nomem(err);
    n = all.n;
    if (status == LW_OK)
        status = traces_files_read(&reading, all.names, &n, files, err);
    lw_progress_bar_end(&bar);
    if (status == LW_OK) {
        status = refuse_idle(o, files, n, err);
        if (status == LW_OK)
            status = convert(o, files, n, err);
        traces_files_free(files, n);
    }
    lw_free(files);
    traces_names_free(&all);
    return status;
}

int cmd_import(int argc, char **argv)
{
    struct options o = {.db = "lapwing.db"};
    const struct lw_opt table[] = {
        {"output", 'o', LW_OPT_STRING, &o.output, "FILE",
         "the workload to write, of graphs the plan; - = stdout"},
        LW_OPTION_FORCE,
        {"cluster-out", 0, LW_OPT_STRING, &o.cluster_out, "FILE",
         "write the measured collectives as a cluster's tables; - = stdout"},
        {"where", 0, LW_OPT_STRING, &o.where, "COLUMN=TEXT[;...]",
         "of a CSV of collectives take only rows whose cells contain these texts (gpu=H200)",
         .check = traces_bench_where_check},
        {"onto", 0, LW_OPT_STRING, &o.onto, "CLUSTER",
         "with --cluster-out: add the tables to this cluster, whose links are used beyond the "
         "tables' sizes"},
        {"step", 0, LW_OPT_STRING, &o.step, "N|median",
         "take ProfilerStep#N, or the median over all steps (median)", .check = is_step},
        {"sidecar", 0, LW_OPT_STRING, &o.sidecar, "FILE",
         "what the recorder wrote (STEM.sidecar.json beside STEM.json.gz)"},
        {"model-params", 0, LW_OPT_STRING, &o.params, "FILE",
         "parameters of a trace that names none: a workload or a sidecar of the same model"},
        {"elements", 0, LW_OPT_INT, &o.elements, "N",
         "trainable parameters in all, of a trace without shapes (estimated)", 1, INT64_MAX / 64},
        {"from-device", 0, LW_OPT_STRING, &o.from_device, "KIND",
         "device of the recording, if the trace names no known device: a known system, a device "
         "kind, or a cluster file"},
        {"as-traced", 0, LW_OPT_FLAG, &o.as_traced, NULL,
         "keep the profiled times where the sidecar has some measured without the profiler"},
        {"salvage", 0, LW_OPT_FLAG, &o.salvage, NULL,
         "read a truncated or damaged trace up to the damage, and report its place"},
        {"store", 0, LW_OPT_FLAG, &o.store, NULL, "store the recording as a run of kind import"},
        {"db", 0, LW_OPT_STRING, &o.db, "FILE", "the database of --store (lapwing.db)",
         .needs = "store"},
        {"name", 0, LW_OPT_STRING, &o.name, "TEXT", "name of the run that --store makes",
         .needs = "store"},
        {"op", 0, LW_OPT_STRING, &o.op, "OP",
         "nccl-tests: the operation, where the output does not say (all_reduce, ...)",
         .check = traces_bench_op_check},
        {"ranks", 0, LW_OPT_INT, &o.ranks, "N", "nccl-tests: ranks that ran, where it does not say",
         1, INT32_MAX},
        {"nodes", 0, LW_OPT_INT, &o.nodes, "N", "nccl-tests: nodes that they ran on", 1, INT32_MAX},
        {"in-place", 0, LW_OPT_FLAG, &o.in_place, NULL,
         "nccl-tests: take the in-place times (out-of-place ones)"},
        {"loggops", 0, LW_OPT_STRING, &o.loggops, "L=..,o=..,g=..,G=..,O=..,S=..",
         "GOAL schedules: parameters in ns and bytes (the file's, else L=2500,o=1500,g=1000,G=6,"
         "O=0,S=65535)", .check = traces_goal_network_check},
        {"format", 0, LW_OPT_FORMAT, &o.format, "text|json|csv",
         "how to print the summary; csv: a row per module, or per measured size (text)"},
        {0},
    };
    struct lw_err err = {0};
    lw_cli_join(argc, argv, o.command, sizeof o.command);
    char about[LW_IMPORTERS_HELP];
    lw_importers_help(begin, false, end, about);
    struct lw_usage whole = usage;
    whole.about = about;
    int n, rc = lw_cli_begin(&whole, table, argc, argv, &n);

    if (rc >= 0)
        return rc;
    if (!o.output && !o.cluster_out && !o.store)
        return lw_cli_usage("import", "needs -o FILE, --cluster-out FILE or --store");
    if (o.output && o.cluster_out && lw_output_is_stdout(o.output) &&
        lw_output_is_stdout(o.cluster_out))
        return lw_cli_usage("import", "-o and --cluster-out are both standard output: give one of "
                                      "them a file");
    if (o.onto && !o.cluster_out)
        return lw_cli_usage("import", "--onto needs --cluster-out FILE");
    if (o.sidecar && n > 1)
        return lw_cli_usage("import", "--sidecar is for one trace; found %d", n);
    return lw_cli_end("import", run(&o, argv + 1, n, &err), &err);
}

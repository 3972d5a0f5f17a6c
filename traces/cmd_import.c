/* lapwing import: recorded traces into a workload file. */
#include <string.h>

#include "shared/arena.h"
#include "shared/cli.h"
#include "shared/command.h"
#include "shared/files.h"
#include "shared/input.h"
#include "traces/gloo.h"
#include "traces/import_groundtruth.h"
#include "traces/import_print.h"
#include "traces/to_cluster.h"
#include "traces/to_workload.h"

static const struct lw_usage usage = {
    .command = "import",
    .synopsis = "TRACE... -o workload.json [--sidecar FILE] [--step N|median] [--as-traced] "
                "[--model-params FILE] [--cluster-out FILE]",
    .about = "Turns PyTorch profiler (Kineto) traces of one model into a workload: modules, "
             "parameters, gradient-ready times, gaps. A trace of one rank alone gives the times; "
             "traces of data-parallel ranks beside it give what to compare with (world size, step, "
             "buckets). The sidecar that record_ddp.py writes is found beside each trace. A "
             "measured-run file (lapwing-groundtruth/1) gives the workload and, as --cluster-out, "
             "its network.",
    .min_operands = 1,
    .max_operands = -1,
};

struct options {
    const char *output, *sidecar, *cluster_out, *step, *params;
    bool as_traced;
    enum lw_format format;
};

static enum lw_status parse_step(const char *text, int64_t *step, struct lw_err *err)
{
    *step = -1;
    if (!text || strcmp(text, "median") == 0)
        return LW_OK;
    if (lw_parse_int(text, 0, INT32_MAX, step, err) != LW_OK)
        return lw_err_context(err, "--step (a number, or 'median')");
    return LW_OK;
}

static enum lw_status write_files(const struct options *o, const struct traces_source *source, int n,
                                  const struct lw_workload *w, struct lw_err *err)
{
    struct lw_cluster c = {0};

    if (o->cluster_out)
        LW_TRY(lw_cluster_from_traces(source, n, &c, err));
    enum lw_status status = lw_workload_write(w, o->output, err);
    if (status == LW_OK && o->cluster_out)
        status = lw_cluster_write(&c, o->cluster_out, err);
    lw_cluster_free(&c);
    return status;
}

static void print(const struct options *o, const struct lw_workload *w,
                  const struct traces_coverage *coverage)
{
    FILE *f = strcmp(o->output, "-") == 0 ? stderr : stdout;

    if (o->format == LW_FORMAT_JSON)
        traces_import_json(w, coverage, o->output, f);
    else
        traces_import_text(w, coverage, o->output, f);
}

static enum lw_status convert(const struct options *o, const struct traces_source *source, int n,
                              struct traces_choice *choice, struct lw_err *err)
{
    struct lw_workload w;
    struct traces_coverage coverage;

    LW_TRY(lw_workload_from_traces(source, n, choice, &w, &coverage, err));
    enum lw_status status = write_files(o, source, n, &w, err);
    if (status == LW_OK)
        print(o, &w, &coverage);
    lw_workload_free(&w);
    return status;
}

/* A measured-run file holds a whole profile and a network: no trace, no sidecar. */
static enum lw_status convert_measured(const struct options *o, const char *file,
                                       struct lw_err *err)
{
    struct lw_input in;
    struct lw_groundtruth g = {0};
    struct lw_workload w = {0};
    struct lw_cluster c = {0};

    if (o->step || o->sidecar || o->params || o->as_traced)
        return lw_fail(err, LW_EINVAL, "%s: a measured-run file takes -o and --cluster-out alone",
                       file);
    LW_TRY(lw_input_read(file, 0, &in, err));
    enum lw_status status = lw_groundtruth_read(&in, &g, err);
    if (status == LW_OK)
        status = lw_gloo_workload(&g, &w, err);
    if (status == LW_OK && o->cluster_out)
        status = lw_gloo_cluster(&g, &c, err);
    if (status == LW_OK)
        status = lw_workload_write(&w, o->output, err);
    if (status == LW_OK && o->cluster_out)
        status = lw_cluster_write(&c, o->cluster_out, err);
    if (status == LW_OK) {
        lw_ns step = lw_ps_to_ns(lw_workload_step_ps(&w));
        print(o, &w, &(struct traces_coverage){step, 0, step, step});
    }
    lw_cluster_free(&c);
    lw_workload_free(&w);
    lw_groundtruth_free(&g);
    lw_input_free(&in);
    return status;
}

static enum lw_status run(const struct options *o, char **files, int n, struct lw_err *err)
{
    struct traces_sidecar params = {0};
    struct traces_choice choice = {.as_traced = o->as_traced};
    struct traces_source *source;
    enum lw_status status;
    int n_read = 0;

    if (n == 1 && lw_groundtruth_file(files[0]))
        return convert_measured(o, files[0], err);
    LW_TRY(parse_step(o->step, &choice.step, err));
    source = lw_calloc((size_t)n, sizeof *source);
    if (!source)
        return lw_fail_nomem(err);
    status = o->params ? traces_params_read(o->params, &params, err) : LW_OK;
    choice.params = o->params ? &params : NULL;
    for (; status == LW_OK && n_read < n; n_read += status == LW_OK)
        status = traces_source_read(files[n_read], o->sidecar, &source[n_read], err);
    if (status == LW_OK)
        status = convert(o, source, n, &choice, err);
    while (n_read > 0)
        traces_source_free(&source[--n_read]);
    lw_free(source);
    traces_sidecar_free(&params);
    return status;
}

int cmd_import(int argc, char **argv)
{
    struct options o = {0};
    const struct lw_opt table[] = {
        {"output", 'o', LW_OPT_STRING, &o.output, "FILE", "the workload to write; - = stdout", 0, 0},
        {"sidecar", 0, LW_OPT_STRING, &o.sidecar, "FILE",
         "what the recorder wrote (STEM.sidecar.json beside STEM.json.gz)", 0, 0},
        {"model-params", 0, LW_OPT_STRING, &o.params, "FILE",
         "parameters of a trace that names none: a workload or a sidecar of the same model", 0, 0},
        {"step", 0, LW_OPT_STRING, &o.step, "N|median",
         "take ProfilerStep#N, or the median over all steps (median)", 0, 0},
        {"as-traced", 0, LW_OPT_FLAG, &o.as_traced, NULL,
         "keep the profiled times where the sidecar has some measured without the profiler", 0, 0},
        {"cluster-out", 0, LW_OPT_STRING, &o.cluster_out, "FILE",
         "also write the collectives of data-parallel traces as a cluster's measured table", 0, 0},
        {"format", 0, LW_OPT_FORMAT, &o.format, "text|json", "how to print the summary (text)", 0, 0},
        {0},
    };
    struct lw_err err = {0};
    int n, rc = lw_cli_begin(&usage, table, argc, argv, &n);

    if (rc >= 0)
        return rc;
    if (!o.output)
        return lw_cli_usage("import", "needs -o FILE");
    if (o.sidecar && n > 1)
        return lw_cli_usage("import", "--sidecar goes with one trace; found %d", n);
    if (o.format == LW_FORMAT_CSV)
        return lw_cli_usage("import", "--format csv: import prints text or json");
    return lw_cli_end("import", run(&o, argv + 1, n, &err), &err);
}

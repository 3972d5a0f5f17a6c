/* Measured-run files (lapwing-groundtruth/1): training over gloo and its network. */
#include <string.h>

#include "shared/io/input.h"
#include "traces/ddp_runs/ddp_run_workload.h"
#include "traces/ddp_runs/import_ddp_run.h"
#include "traces/import/convert.h"

enum { MOST_MEASURED = 64 << 20, HEAD = 64 << 10 };

static bool holds(const struct lw_input *in, size_t most, const char *text)
{
    return memmem(in->text, in->len < most ? in->len : most, text, strlen(text));
}

/* Where the head does not name the schema a trace is not walked through for it: its first keys
 * tell, or its size. */
static bool is_trace(const struct lw_input *in)
{
    return in->len > MOST_MEASURED || holds(in, HEAD, "\"traceEvents\"") ||
           holds(in, HEAD, "\"nodes\"");
}

static bool is(const struct lw_input *in, const char *text, size_t len)
{
    static const char mark[] = "lapwing-groundtruth";

    if (len == 0 || *text != '{')
        return false;
    return (holds(in, HEAD, mark) || (!is_trace(in) && holds(in, in->len, mark))) &&
           lw_groundtruth_is(in->text, in->len);
}

static enum lw_status convert(const struct traces_file *f, int n, const struct traces_wanted *want,
                              struct traces_converted *out, struct lw_err *err)
{
    struct lw_groundtruth g;

    (void)n;
    LW_TRY(lw_groundtruth_read(&f->in, &g, err));
    enum lw_status status = LW_OK;
    if (want->workload) {
        status = lw_gloo_workload(&g, &out->workload, err);
        out->has_workload = status == LW_OK;
        if (status == LW_OK)
            traces_cover_all(out);
    }
    if (status == LW_OK && want->cluster) {
        status = lw_gloo_cluster(&g, &out->cluster, err);
        out->has_cluster = status == LW_OK;
    }
    lw_groundtruth_free(&g);
    return status;
}

static enum lw_status look(const struct lw_input *in, const struct traces_bench_hint *hint,
                           void *facts, struct lw_err *err)
{
    (void)hint;
    (void)facts;
    return lw_fail(err, LW_ENOTSUP,
                   "%s: a measured-run file: lapwing import turns it into a workload and a "
                   "cluster, lapwing validate compares with its runs",
                   in->name);
}

const struct lw_importer lw_importer_measured = {
    .name = "measured-run",
    .reads = "measured-run JSON",
    .marks = "hold \"schema\": \"lapwing-groundtruth/1\"",
    .import_help = "A measured-run file (lapwing-groundtruth/1) gives a workload and a cluster.",
    .gives = LW_GIVES_WORKLOAD | LW_GIVES_CLUSTER,
    .instead = "'lapwing import -o' makes a workload of it, 'lapwing validate' compares with its "
               "runs",
    .one_file = true,
    .is = is,
    .convert = convert,
    .look = look,
};

/* From files of one format to what an import writes. What a format does not give is refused, never
 * answered by an empty one. */
#include "traces/import/convert.h"

void traces_cover_all(struct traces_converted *out)
{
    lw_ns step = lw_ps_to_ns(lw_workload_step_ps(&out->workload));

    out->coverage = (struct traces_coverage){step, 0, step, step};
}

static enum lw_status gives_no(const struct traces_file *f, const char *what, const char *option,
                               struct lw_err *err)
{
    const char *instead = f->importer->instead;

    return lw_fail(err, LW_EINVAL, "%s: a file of format %s gives no %s (%s%s%s)", f->file,
                   f->importer->name, what, option, instead ? "; " : "", instead ? instead : "");
}

static enum lw_status check(const struct traces_file *f, int n, const struct traces_wanted *want,
                            struct lw_err *err)
{
    const struct lw_importer *x = f[0].importer;

    for (int i = 1; i < n; i++)
        if (f[i].importer != x)
            return lw_fail(err, LW_EINVAL, "%s is a file of format %s, %s of %s: import them apart",
                           f[0].file, x->name, f[i].file, f[i].importer->name);
    if (n > 1 && x->one_file)
        return lw_fail(err, LW_EINVAL, "%s: one file of format %s at a time", f[1].file, x->name);
    if (want->chosen && !x->timeline)
        return lw_fail(err, LW_EINVAL,
                       "%s: --step, --sidecar, --model-params, --elements, --from-device, "
                       "--as-traced and --salvage concern PyTorch traces; this is a file of format "
                       "%s",
                       f->file, x->name);
    if (want->loggops && !x->buffered)
        return lw_fail(err, LW_EINVAL,
                       "%s: --loggops concerns GOAL schedules; this is a file of format %s",
                       f->file, x->name);
    if (want->workload && !(x->gives & (LW_GIVES_WORKLOAD | LW_GIVES_PLAN)))
        return gives_no(f, "workload", "-o", err);
    if (want->cluster && !(x->gives & LW_GIVES_CLUSTER))
        return gives_no(f, "cluster", "--cluster-out", err);
    return LW_OK;
}

enum lw_status traces_convert(const struct traces_file *f, int n, const struct traces_wanted *want,
                              struct traces_converted *out, struct lw_err *err)
{
    struct traces_converted c = {0};

    LW_TRY(check(f, n, want, err));
    enum lw_status status = f[0].importer->convert(f, n, want, &c, err);
    LW_GIVE(status, out, c, traces_converted_free(&c));
}

enum lw_status traces_convert_plan(const struct traces_file *f, int n,
                                   const struct traces_wanted *want, struct traces_converted *out,
                                   struct lw_err *err)
{
    const struct traces_plan_wanted plan = {.loggops = want->loggops};

    LW_TRY(f->importer->plan(f, n, &plan, &out->plan, err));
    out->has_plan = true;
    return LW_OK;
}

enum lw_status traces_convert_nothing(const struct traces_file *f, int n,
                                      const struct traces_wanted *want,
                                      struct traces_converted *out, struct lw_err *err)
{
    (void)n;
    (void)want;
    (void)out;
    return lw_fail(err, LW_EINVAL, "%s: nothing to import; 'lapwing inspect' reads it", f->file);
}

void traces_converted_free(struct traces_converted *c)
{
    if (c->has_workload)
        lw_workload_free(&c->workload);
    if (c->has_plan)
        lw_plan_free(&c->plan);
    if (c->has_cluster)
        lw_cluster_free(&c->cluster);
    *c = (struct traces_converted){0};
}

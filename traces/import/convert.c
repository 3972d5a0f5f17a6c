/* What each kind of file can become: traces a workload and measured links, a measured-run file
 * both, a profiled graph a workload, tables of collectives a cluster. Asking for the other is
 * refused in words, never answered by an empty one. */
#include "traces/import/convert.h"

#include <stdio.h>

#include "shared/base/arena.h"
#include "traces/calls/import_calls.h"
#include "shared/files/files.h"
#include "traces/ddp_runs/ddp_run_workload.h"
#include "traces/ddp_runs/import_ddp_run.h"
#include "traces/pipedream/import_pipedream.h"
#include "traces/workload/to_cluster.h"

static enum lw_status only_traces(const struct traces_file *f, const struct traces_wanted *want,
                                  struct lw_err *err)
{
    if (!want->chosen)
        return LW_OK;
    return lw_fail(err, LW_EINVAL,
                   "%s: --step, --sidecar, --model-params, --elements, --from-device, --as-traced "
                   "and --salvage concern PyTorch traces; this is a file of format %s",
                   f->file, traces_format_name(f->format));
}

static enum lw_status gives_no(const struct traces_file *f, const char *what, const char *option,
                               struct lw_err *err)
{
    return lw_fail(err, LW_EINVAL, "%s: a file of format %s gives no %s (%s)", f->file,
                   traces_format_name(f->format), what, option);
}

static void cover_all(struct traces_converted *out)
{
    lw_ns step = lw_ps_to_ns(lw_workload_step_ps(&out->workload));

    out->coverage = (struct traces_coverage){step, 0, step, step};
}

/* ---- the memory bandwidth of the recorded device ---- */

enum { HOST_GB_PER_S = 10, DEVICE_GB_PER_S = 1000 }; /* assumed where nothing is known */

static bool ran_on_device(const struct lw_trace *t)
{
    for (int64_t i = 0; i < t->n; i++)
        if (lw_trace_on_device(t, i))
            return true;
    return false;
}

static void assume_memory(const struct lw_trace *t, struct traces_memory *m)
{
    bool device = ran_on_device(t);
    int rate = device ? DEVICE_GB_PER_S : HOST_GB_PER_S;

    m->bytes_per_s = rate * 1e9;
    if (device)
        snprintf(m->source, sizeof m->source,
                 "assumed %d GB/s: '%.60s' is not a known device, --from-device KIND names one", rate,
                 t->device >= 0 ? lw_trace_text(t, t->device) : "unknown");
    else
        snprintf(m->source, sizeof m->source, "assumed %d GB/s for a host", rate);
}

static enum lw_status find_memory(const struct traces_source *s, const char *from_device,
                                  struct traces_memory *m, struct lw_err *err)
{
    struct lw_cluster c;

    if (from_device)
        LW_TRY(lw_cluster_find_device(from_device, &c, err));
    else
        LW_TRY(lw_cluster_find_recorded(lw_trace_text(&s->trace, s->trace.device), &c, err));
    const struct lw_figure *f = &c.device.memory_bytes_per_s;
    if (c.name && lw_figure_is_set(*f)) {
        m->bytes_per_s = f->value;
        snprintf(m->source, sizeof m->source, "%.60s: %.120s", c.device.kind, f->source);
    } else {
        assume_memory(&s->trace, m);
    }
    lw_cluster_free(&c);
    return LW_OK;
}

/* ---- each kind ---- */

static enum lw_status from_traces(const struct traces_file *f, int n,
                                  const struct traces_wanted *want, struct traces_converted *out,
                                  struct lw_err *err)
{
    struct traces_source *v = lw_alloc((size_t)n * sizeof *v); /* views: freed with the files */
    struct traces_choice choice = want->choice;
    enum lw_status status = v ? LW_OK : lw_fail_nomem(err);

    for (int i = 0; status == LW_OK && i < n; i++)
        v[i] = f[i].source;
    if (status == LW_OK)
        status = find_memory(&v[0], want->from_device, &choice.memory, err);
    if (status == LW_OK && want->workload) {
        status = lw_workload_from_traces(v, n, &choice, &out->workload, &out->coverage, err);
        out->has_workload = status == LW_OK;
    }
    if (status == LW_OK && want->cluster) {
        status = lw_cluster_from_traces(v, n, &choice.memory, &out->cluster, err);
        out->has_cluster = status == LW_OK;
    }
    lw_free(v);
    return status;
}

static enum lw_status from_measured(const struct traces_file *f, const struct traces_wanted *want,
                                    struct traces_converted *out, struct lw_err *err)
{
    struct lw_groundtruth g;

    LW_TRY(only_traces(f, want, err));
    LW_TRY(lw_groundtruth_read(&f->in, &g, err));
    enum lw_status status = LW_OK;
    if (want->workload) {
        status = lw_gloo_workload(&g, &out->workload, err);
        out->has_workload = status == LW_OK;
        if (status == LW_OK)
            cover_all(out);
    }
    if (status == LW_OK && want->cluster) {
        status = lw_gloo_cluster(&g, &out->cluster, err);
        out->has_cluster = status == LW_OK;
    }
    lw_groundtruth_free(&g);
    return status;
}

static enum lw_status from_bench(const struct traces_file *f, int n,
                                 const struct traces_wanted *want, struct traces_converted *out,
                                 struct lw_err *err)
{
    struct traces_bench *b;
    enum lw_status status = LW_OK;
    int n_read = 0;

    LW_TRY(only_traces(f, want, err));
    if (want->workload)
        return gives_no(f, "workload", "-o; --cluster-out writes its tables", err);
    b = lw_calloc((size_t)n, sizeof *b);
    if (!b)
        return lw_fail_nomem(err);
    for (; status == LW_OK && n_read < n; n_read += status == LW_OK)
        status = traces_bench_read(&f[n_read].in, &want->bench, &b[n_read], err);
    if (status == LW_OK)
        status = lw_cluster_from_bench(b, n, want->in_place, &out->cluster, err);
    out->has_cluster = status == LW_OK;
    while (n_read > 0)
        traces_bench_free(&b[--n_read]);
    lw_free(b);
    return status;
}

static enum lw_status from_calls(const struct traces_file *f, int n,
                                 const struct traces_wanted *want, struct traces_converted *out,
                                 struct lw_err *err)
{
    struct traces_recorded *c;
    struct traces_bench b = {0};
    enum lw_status status = LW_OK;
    int n_read = 0;

    LW_TRY(only_traces(f, want, err));
    if (want->workload)
        return gives_no(f, "workload", "-o; --cluster-out writes the measured collectives", err);
    c = lw_calloc((size_t)n, sizeof *c);
    if (!c)
        return lw_fail_nomem(err);
    for (; status == LW_OK && n_read < n; n_read += status == LW_OK)
        status = traces_recorded_read(&f[n_read].in, &c[n_read], err);
    if (status == LW_OK)
        status = traces_recorded_tables(c, n, &b, err);
    if (status == LW_OK)
        status = lw_cluster_from_bench(&b, 1, false, &out->cluster, err);
    out->has_cluster = status == LW_OK;
    traces_bench_free(&b);
    while (n_read > 0)
        traces_recorded_free(&c[--n_read]);
    lw_free(c);
    return status;
}

static enum lw_status read_graph(const struct traces_file *f, int n, struct lw_profile_graph *g,
                                 struct lw_err *err)
{
    const struct traces_file *nodes = &f[0], *edges = &f[n - 1];

    if (f[0].format == TRACES_PIPEDREAM && n == 1)
        return traces_pipedream_read(&f[0].in, g, err);
    if (n == 2 && f[0].format == TRACES_PIPEDREAM_EDGES) {
        nodes = &f[1];
        edges = &f[0];
    }
    if (n != 2 || nodes->format != TRACES_PIPEDREAM_NODES ||
        edges->format != TRACES_PIPEDREAM_EDGES)
        return lw_fail(err, LW_EINVAL,
                       "%s: a profiled graph is one graph.txt, or two CSV files (nodes, edges)",
                       f->file);
    return lw_profile_graph_parse(nodes->file, nodes->in.text, edges->file, edges->in.text, g, err);
}

static enum lw_status from_graph(const struct traces_file *f, int n,
                                 const struct traces_wanted *want, struct traces_converted *out,
                                 struct lw_err *err)
{
    const struct traces_file *main = f[0].format == TRACES_PIPEDREAM_EDGES && n > 1 ? &f[1] : &f[0];
    struct lw_profile_graph g;

    LW_TRY(only_traces(f, want, err));
    if (want->cluster)
        return gives_no(f, "cluster", "--cluster-out", err);
    LW_TRY(read_graph(f, n, &g, err));
    enum lw_status status =
        lw_workload_from_pipedream(&g, main->file, main->in.hash, &out->workload, err);
    lw_profile_graph_free(&g);
    out->has_workload = status == LW_OK;
    if (status == LW_OK)
        cover_all(out);
    return status;
}

/* ---- all ---- */

static bool is_graph(enum traces_format f)
{
    return f == TRACES_PIPEDREAM || f == TRACES_PIPEDREAM_NODES || f == TRACES_PIPEDREAM_EDGES;
}

static enum lw_status check_alike(const struct traces_file *f, int n, struct lw_err *err)
{
    for (int i = 1; i < n; i++)
        if (f[i].format != f[0].format && !(is_graph(f[i].format) && is_graph(f[0].format)))
            return lw_fail(err, LW_EINVAL, "%s is a file of format %s, %s of %s: import them apart",
                           f[0].file, traces_format_name(f[0].format), f[i].file,
                           traces_format_name(f[i].format));
    if (n > 1 && f[0].format == TRACES_MEASURED)
        return lw_fail(err, LW_EINVAL, "%s: one measured-run file at a time", f[1].file);
    return LW_OK;
}

enum lw_status traces_convert(const struct traces_file *f, int n, const struct traces_wanted *want,
                              struct traces_converted *out, struct lw_err *err)
{
    struct traces_converted c = {0};
    enum lw_status status = check_alike(f, n, err);

    if (status != LW_OK)
        return status;
    if (f[0].format == TRACES_KINETO)
        status = from_traces(f, n, want, &c, err);
    else if (f[0].format == TRACES_MEASURED)
        status = from_measured(f, want, &c, err);
    else if (f[0].format == TRACES_CALLS)
        status = from_calls(f, n, want, &c, err);
    else if (f[0].format == TRACES_NCCL_TESTS)
        status = from_bench(f, n, want, &c, err);
    else
        status = from_graph(f, n, want, &c, err);
    if (status != LW_OK)
        traces_converted_free(&c);
    else
        *out = c;
    return status;
}

void traces_converted_free(struct traces_converted *c)
{
    if (c->has_workload)
        lw_workload_free(&c->workload);
    if (c->has_cluster)
        lw_cluster_free(&c->cluster);
    *c = (struct traces_converted){0};
}

/* From recorded timelines to a workload and a cluster, whatever format they came in. */
#include <stdio.h>

#include "shared/base/arena.h"
#include "shared/files/files.h"
#include "traces/import/convert.h"
#include "traces/workload/to_cluster.h"

/* ---- the memory bandwidth of the recorded device ---- */

enum { HOST_GB_PER_S = 10, DEVICE_GB_PER_S = 1000 }; /* assumed where nothing is known */

static void assume_memory(const struct lw_trace *t, struct traces_memory *m)
{
    bool device = traces_ran_on_device(t);
    int rate = device ? DEVICE_GB_PER_S : HOST_GB_PER_S;

    m->bytes_per_s = rate * 1e9;
    if (device)
        snprintf(m->source, sizeof m->source,
                 "assumed %d GB/s: '%.60s' is not a known device, --from-device KIND names one",
                 rate, t->device >= 0 ? lw_trace_text(t, t->device) : "unknown");
    else
        snprintf(m->source, sizeof m->source, "assumed %d GB/s for a host", rate);
}

/* of: the known system that was recorded on, or an empty one. */
static enum lw_status find_memory(const struct traces_source *s, const char *from_device,
                                  struct lw_cluster *of, struct traces_memory *m,
                                  struct lw_err *err)
{
    if (from_device)
        LW_TRY(lw_cluster_find_device(from_device, of, err));
    else
        LW_TRY(lw_cluster_find_recorded(traces_source_device(s), of, err));
    const struct lw_figure *f = &of->device.memory_bytes_per_s;
    if (of->name && lw_figure_is_set(*f)) {
        m->bytes_per_s = f->value;
        snprintf(m->source, sizeof m->source, "%.60s: %.120s", of->device.kind, f->source);
    } else {
        assume_memory(&s->trace, m);
    }
    return LW_OK;
}

enum lw_status traces_convert_timeline(const struct traces_file *f, int n,
                                       const struct traces_wanted *want,
                                       struct traces_converted *out, struct lw_err *err)
{
    struct traces_source *v = lw_alloc((size_t)n * sizeof *v); /* views: freed with the files */
    struct traces_choice choice = want->choice;
    struct lw_cluster of = {0};
    enum lw_status status = v ? LW_OK : lw_fail_nomem(err);

    for (int i = 0; status == LW_OK && i < n; i++)
        v[i] = f[i].source;
    if (status == LW_OK)
        status = find_memory(&v[0], want->from_device, &of, &choice.memory, err);
    for (int i = 0; status == LW_OK && want->from_device && i < n; i++)
        v[i].named = of.device.kind;
    if (status == LW_OK && want->workload) {
        status = lw_workload_from_traces(v, n, &choice, &out->workload, &out->coverage, err);
        out->has_workload = status == LW_OK;
    }
    if (status == LW_OK && want->cluster) {
        status = lw_cluster_from_traces(v, n, &choice.memory, &out->cluster, err);
        out->has_cluster = status == LW_OK;
    }
    lw_cluster_free(&of);
    lw_free(v);
    return status;
}

/* Memory of a plan as its framework holds it: what sim, plan, exec and recommend print. */
#include "shared/framework/memory_figures.h"

#include "shared/cluster/cluster.h"
#include "shared/numbers/checked.h"
#include "shared/numbers/units.h"
#include "shared/plan/plan.h"
#include "shared/text/wrap.h"
#include "shared/timeline/timeline.h"

const struct lw_measure *lw_memory_fullest(const struct lw_summary *s)
{
    const struct lw_measure *most = s->ranks;

    for (int32_t i = 0; i < s->n_ranks; i = lw_alike_end(&s->alike, i, s->n_ranks)) {
        const struct lw_measure *m = &s->ranks[lw_alike_class(&s->alike, i)];
        most = m->peak_memory_bytes > most->peak_memory_bytes ? m : most;
    }
    return most;
}

/* Of ranks of one role that hold as much at their peak. */
static bool holds_alike(const struct lw_plan *p, const struct lw_measure *a,
                        const struct lw_measure *b)
{
    return lw_plan_role_of(p, a->rank) == lw_plan_role_of(p, b->rank) &&
           a->peak_memory_bytes == b->peak_memory_bytes;
}

void lw_memory_figures_of(const struct lw_summary *s, const struct lw_plan *p,
                          const struct lw_framework *f, const struct lw_cluster *c,
                          struct lw_memory_figures *out)
{
    struct lw_framework_bytes b;
    struct lw_measure before = {0};

    *out = (struct lw_memory_figures){.peak_bytes = s->peak_memory_bytes};
    out->own_bytes = lw_framework_own_bytes(f, p->strategy, &c->device);
    if (s->n_ranks == 0)
        return;
    lw_framework_bytes_of(f, p, &c->device, lw_memory_fullest(s), &out->fullest);
    for (int32_t i = 0, next; i < s->n_ranks; i = next) { /* of ranks that run alike the first, */
        next = lw_alike_end(&s->alike, i, s->n_ranks);
        if (next == s->n_ranks && i < s->n_ranks - 1)
            next = s->n_ranks - 1; /* and the last of all */
        const struct lw_measure m = lw_summary_of(s, i);
        if (i == 0 || !holds_alike(p, &m, &before))
            lw_framework_bytes_of(f, p, &c->device, &m, &b);
        before = m;
        out->needed = b.needed > out->needed ? b.needed : out->needed;
        if (m.rank == 0)
            out->first = b;
        if (i == s->n_ranks - 1)
            lw_framework_bytes_of_last(f, p, &c->device, &m, &out->last);
    }
}

static int64_t whole(double bytes)
{
    return (int64_t)(bytes + 0.5);
}

int64_t lw_memory_device_bytes(const struct lw_memory_figures *m)
{
    return whole(m->fullest.device);
}

int64_t lw_memory_least_bytes(const struct lw_memory_figures *m)
{
    return lw_add_sat(whole(m->needed), m->own_bytes);
}

int64_t lw_memory_missing_bytes(const struct lw_memory_figures *m, const struct lw_device *d)
{
    return lw_device_missing_bytes(d, m->peak_bytes < 0 ? -1 : lw_memory_least_bytes(m));
}

bool lw_memory_is_close(const struct lw_memory_figures *m, const struct lw_device *d)
{
    return m->peak_bytes >= 0 && lw_device_is_close(d, lw_memory_least_bytes(m));
}

enum lw_status lw_memory_figures_text(const struct lw_memory_figures *m, const struct lw_device *d,
                                      FILE *out, struct lw_err *err)
{
    int64_t missing = lw_memory_missing_bytes(m, d);
    bool close = lw_memory_is_close(m, d);
    char needed[32], has[32], lacks[32];
    struct lw_paragraph line;

    if (m->peak_bytes < 0) {
        fputs("memory: not known\n", out);
        return LW_OK;
    }
    FILE *f = lw_paragraph_open(&line, out, NULL);
    fprintf(f, "memory %s a device", lw_format_bytes(needed, lw_memory_device_bytes(m)));
    if (lw_memory_least_bytes(m) < lw_memory_device_bytes(m))
        fprintf(f, ", %s of it needed,", lw_format_bytes(needed, lw_memory_least_bytes(m)));
    if (missing < 0)
        fprintf(f, "; the cluster does not say how much a device has (device.memory_bytes)");
    else
        fprintf(f, " of %s that it reports: ",
                lw_format_bytes(has, (int64_t)d->memory_bytes.value));
    if (missing == 0)
        fprintf(f, "fits%s", close ? ", with less room than " LW_MEMORY_ERROR_TEXT : "");
    else if (missing > 0)
        fprintf(f, "%s not fit, %s too much%s", close ? "may" : "does",
                lw_format_bytes(lacks, missing), close ? ", less than " LW_MEMORY_ERROR_TEXT : "");
    return lw_paragraph_close(&line, err);
}

static void of_rank_json(struct lw_jsonout *o, const char *name, const struct lw_framework_bytes *b)
{
    lw_jsonout_object(o, name);
    LW_JSON(o, "allocated_bytes", whole(b->allocated), "reserved_bytes", whole(b->reserved),
            "device_bytes", whole(b->device));
    lw_jsonout_end(o);
}

void lw_memory_figures_json(struct lw_jsonout *o, const struct lw_memory_figures *m)
{
    const struct lw_framework_bytes *b = &m->fullest;

    if (m->peak_bytes < 0)
        return;
    lw_jsonout_object(o, "framework_memory");
    LW_JSON(o, "allocated_bytes", whole(b->allocated), "reserved_bytes", whole(b->reserved),
            "device_bytes", whole(b->device), "needed_bytes", whole(m->needed));
    of_rank_json(o, "rank_0", &m->first);
    of_rank_json(o, "last_rank", &m->last);
    lw_jsonout_end(o);
}

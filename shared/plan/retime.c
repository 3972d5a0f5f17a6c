/* Times of a workload on another device. Ratios, not rooflines: what a module loses against the
 * roofline where it was timed (launches, small products), it loses there too. */
#include "shared/plan/retime.h"

#include <stdio.h>

struct figures {
    double flops, bytes; /* per second */
};

static enum lw_status figures_of(const struct lw_device *d, enum lw_dtype dtype,
                                 struct figures *f, struct lw_err *err)
{
    struct lw_figure peak = d->peak_flops[dtype], bytes = d->memory_bytes_per_s;
    double share = lw_figure_is_set(d->gemm_efficiency) ? d->gemm_efficiency.value : 1;

    if (!lw_figure_is_set(peak) || !lw_figure_is_set(bytes))
        return lw_fail(err, LW_ENOTSUP,
                       "device '%s' gives no %s: times cannot be changed from or to "
                       "it",
                       d->kind,
                       lw_figure_is_set(peak) ? "memory_bytes_per_s"
                                              : "peak_flops of the parameters' type");
    *f = (struct figures){peak.value * share, bytes.value};
    return LW_OK;
}

static double roofline(const struct lw_module *m, const struct figures *f)
{
    double compute = m->forward_flops > 0 ? (double)m->forward_flops / f->flops : 0;
    double memory = m->forward_bytes > 0 ? (double)m->forward_bytes / f->bytes : 0;

    return compute > memory ? compute : memory;
}

static lw_ps scaled(lw_ps t, double ratio)
{
    return (lw_ps)((double)t * ratio + 0.5);
}

static lw_ps backward_of(const struct lw_module *m)
{
    return m->backward_input_ps + m->backward_weight_ps;
}

static enum lw_status find_ratios(const struct lw_workload *w, const struct figures *from,
                                  const struct figures *to, const char *kind, double *ratio,
                                  struct lw_err *err)
{
    for (int32_t i = 0; i < w->n_modules; i++) {
        const struct lw_module *m = &w->modules[i];
        double here = roofline(m, from);
        if (here <= 0 && m->forward_ps + backward_of(m) > 0)
            return lw_fail(err, LW_ENOTSUP,
                           "module %d '%s' says neither FLOPs nor bytes: it cannot be timed for "
                           "device '%s'; make or record the workload for that device", i, m->name,
                           kind);
        ratio[i] = here > 0 ? roofline(m, to) / here : 1;
    }
    return LW_OK;
}

static void scale_module(struct lw_module *m, double r)
{
    lw_ps *const times[] = {&m->forward_ps, &m->backward_input_ps, &m->backward_weight_ps,
                            &m->selective_ps, &m->whole_forward_ps, &m->whole_input_ps,
                            &m->whole_weight_ps};

    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        *times[i] = scaled(*times[i], r);
}

/* A moment of the backward, old[i] .. old[i] + length of module i, in the new one. */
static lw_ps moved(const struct lw_workload *w, const lw_ps *old_length, lw_ps at)
{
    lw_ps before = 0, after = 0;

    for (int32_t i = w->n_modules - 1; i >= 0; i--) {
        lw_ps length = backward_of(&w->modules[i]);
        if (at <= before + old_length[i] && old_length[i] > 0)
            return after + (lw_ps)((double)(at - before) / (double)old_length[i] * (double)length);
        before += old_length[i];
        after += length;
    }
    return after;
}

static enum lw_status note(struct lw_workload *w, const struct lw_device *from,
                           const struct lw_device *to, struct lw_err *err)
{
    char text[200];
    const char **notes = lw_arena_alloc(&w->arena, (int64_t)w->n_notes + 1, sizeof *notes);

    snprintf(text, sizeof text, "times of device '%.60s' by FLOPs and bytes from those of '%.60s'",
             to->kind, from->kind);
    const char *last = lw_arena_strdup(&w->arena, text);
    const char *kind = lw_arena_strdup(&w->arena, to->kind);
    if (!notes || !last || !kind)
        return lw_fail_nomem(err);
    for (int32_t i = 0; i < w->n_notes; i++)
        notes[i] = w->notes[i];
    notes[w->n_notes++] = last;
    w->notes = notes;
    w->from.device = kind;
    return LW_OK;
}

enum lw_status lw_workload_retime(struct lw_workload *w, const struct lw_device *from,
                                  const struct lw_device *to, struct lw_err *err)
{
    struct figures here, there;
    struct lw_arena scratch = {0};

    LW_TRY(figures_of(from, lw_workload_main_dtype(w), &here, err));
    LW_TRY(figures_of(to, lw_workload_main_dtype(w), &there, err));
    double *ratio = lw_arena_alloc(&scratch, w->n_modules, sizeof *ratio);
    lw_ps *old_length = lw_arena_alloc(&scratch, w->n_modules, sizeof *old_length);
    enum lw_status s = ratio && old_length ? LW_OK : lw_fail_nomem(err);
    if (s == LW_OK)
        s = find_ratios(w, &here, &there, to->kind, ratio, err);
    if (s == LW_OK)
        s = note(w, from, to, err);
    for (int32_t i = 0; s == LW_OK && i < w->n_modules; i++) {
        old_length[i] = backward_of(&w->modules[i]);
        scale_module(&w->modules[i], ratio[i]);
    }
    for (int32_t i = 0; s == LW_OK && i < w->n_params; i++)
        if (w->params[i].ready_ps >= 0)
            w->params[i].ready_ps = moved(w, old_length, w->params[i].ready_ps);
    if (s == LW_OK)
        w->optimizer_ps = scaled(w->optimizer_ps, here.bytes / there.bytes);
    lw_arena_free(&scratch);
    return s;
}

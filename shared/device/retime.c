/* Times of a workload, or of a plan, on another device. Ratios, not rooflines: what a module loses
 * against the roofline where it was timed (launches, small products), it loses there too. */
#include "shared/device/retime.h"

#include <stdio.h>

#include "shared/plan/op.h"

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

static double roofline(int64_t flops, int64_t bytes, const struct figures *f)
{
    double compute = flops > 0 ? (double)flops / f->flops : 0;
    double memory = bytes > 0 ? (double)bytes / f->bytes : 0;

    return compute > memory ? compute : memory;
}

static lw_ps scaled(lw_ps t, double ratio)
{
    return (lw_ps)((double)t * ratio + 0.5);
}

static enum lw_status find_ratios(const struct lw_workload *w, const struct figures *from,
                                  const struct figures *to, const char *kind, double *ratio,
                                  struct lw_err *err)
{
    for (int32_t i = 0; i < w->n_modules; i++) {
        const struct lw_module *m = &w->modules[i];
        double here = roofline(m->forward_flops, m->forward_bytes, from);
        if (here <= 0 && m->forward_ps + lw_module_backward(m) > 0)
            return lw_fail(err, LW_ENOTSUP,
                           "module %d '%s' says neither FLOPs nor bytes: it cannot be timed for "
                           "device '%s'; make or record the workload for that device", i, m->name,
                           kind);
        ratio[i] =
            here > 0 ? roofline(m->forward_flops, m->forward_bytes, to) / here : 1;
    }
    return LW_OK;
}

static void scale_module(struct lw_module *m, double r)
{
    lw_ps *const times[] = {&m->forward_ps, &m->backward_input_ps, &m->backward_weight_ps,
                            &m->selective_ps, &m->whole_forward_ps, &m->whole_input_ps,
                            &m->whole_weight_ps, &m->tp_column_ps};
    lw_ps products = scaled(m->tp_column_ps + m->tp_row_ps, r);

    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        *times[i] = scaled(*times[i], r);
    m->tp_row_ps = products - m->tp_column_ps; /* the two together stay within the forward */
}

/* A moment of the backward, old[i] .. old[i] + length of module i, in the new one. */
static lw_ps moved(const struct lw_workload *w, const lw_ps *old_length, lw_ps at)
{
    lw_ps before = 0, after = 0;

    for (int32_t i = w->n_modules - 1; i >= 0; i--) {
        lw_ps length = lw_module_backward(&w->modules[i]);
        if (at <= before + old_length[i] && old_length[i] > 0)
            return after + (lw_ps)((double)(at - before) / (double)old_length[i] * (double)length);
        before += old_length[i];
        after += length;
    }
    return after;
}

/* A note more, and the kind that the times are now of. */
static enum lw_status note(struct lw_arena *a, const char ***notes, int32_t *n_notes,
                           const char **device, const struct lw_device *from,
                           const struct lw_device *to, struct lw_err *err)
{
    char text[200];
    const char **longer = lw_arena_alloc(a, (int64_t)*n_notes + 1, sizeof *longer);

    snprintf(text, sizeof text, "times of device '%.60s' by FLOPs and bytes from those of '%.60s'",
             to->kind, from->kind);
    const char *last = lw_arena_strdup(a, text);
    const char *kind = lw_arena_strdup(a, to->kind);
    if (!longer || !last || !kind)
        return lw_fail_nomem(err);
    for (int32_t i = 0; i < *n_notes; i++)
        longer[i] = (*notes)[i];
    longer[(*n_notes)++] = last;
    *notes = longer;
    *device = kind;
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
        s = note(&w->arena, &w->notes, &w->n_notes, &w->from.device, from, to, err);
    for (int32_t i = 0; s == LW_OK && i < w->n_modules; i++) {
        old_length[i] = lw_module_backward(&w->modules[i]);
        scale_module(&w->modules[i], ratio[i]);
    }
    for (int32_t i = 0; s == LW_OK && i < w->n_params; i++)
        if (w->params[i].ready_ps >= 0)
            w->params[i].ready_ps = moved(w, old_length, w->params[i].ready_ps);
    if (s == LW_OK) {
        w->optimizer_ps = scaled(w->optimizer_ps, here.bytes / there.bytes);
        w->gradients_ps = scaled(w->gradients_ps, here.bytes / there.bytes);
    }
    lw_arena_free(&scratch);
    return s;
}

bool lw_workload_can_retime(const struct lw_workload *w)
{
    static const struct figures any = {1, 1};
    struct lw_arena scratch = {0};
    double *ratio = lw_arena_alloc(&scratch, w->n_modules, sizeof *ratio);
    bool can = ratio && find_ratios(w, &any, &any, "", ratio, NULL) == LW_OK;

    lw_arena_free(&scratch);
    return can;
}

/* --- a plan ----------------------------------------------------------------------------------- */

static enum lw_dtype main_dtype(const struct lw_plan *p)
{
    int64_t n[LW_N_DTYPES] = {0};

    for (int32_t i = 0; i < p->n_params; i++)
        n[p->params[i].dtype] += p->params[i].numel;
    return lw_dtype_of_most(n);
}

static bool is_timed_compute(const struct lw_plan *p, const struct lw_op *op)
{
    return lw_op_class(op->kind) == LW_CLASS_COMPUTE && lw_plan_work_ps(p, op) > 0;
}

static double ratio_of(const struct lw_work *w, const struct figures *from,
                       const struct figures *to)
{
    double here = roofline(w->flops, w->bytes, from);

    return here > 0 ? roofline(w->flops, w->bytes, to) / here : 0;
}

/* of_work[n_works], of_module[n_modules]: zeroed. */
static enum lw_status find_work_ratios(const struct lw_plan *p, const struct figures *from,
                                       const struct figures *to, const char *kind,
                                       double *of_work, double *of_module, struct lw_err *err)
{
    char text[LW_OP_TEXT];

    for (int32_t i = 0; i < p->n_ops; i++) {
        const struct lw_op *op = &p->ops[i];
        if (op->work < 0 || !is_timed_compute(p, op))
            continue;
        double r = ratio_of(&p->works[op->work], from, to);
        of_work[op->work] =
            r <= 0 && op->kind == LW_OP_OPTIMIZER ? from->bytes / to->bytes : r;
        if (op->module >= 0 && r > 0)
            of_module[op->module] = r;
    }
    for (int32_t i = 0; i < p->n_ops; i++) {
        const struct lw_op *op = &p->ops[i];
        if (!is_timed_compute(p, op))
            continue;
        if (op->work >= 0 && of_work[op->work] <= 0 && op->module >= 0)
            of_work[op->work] = of_module[op->module];
        if (op->work < 0 || of_work[op->work] <= 0)
            return lw_fail(err, LW_ENOTSUP,
                           "%s says neither FLOPs nor bytes: it cannot be timed for device '%s'; "
                           "make the plan again from a workload for that device",
                           lw_plan_op_text(p, i, text), kind);
    }
    return LW_OK;
}

enum lw_status lw_plan_retime(struct lw_plan *p, const struct lw_device *from,
                              const struct lw_device *to, struct lw_err *err)
{
    struct figures here, there;
    struct lw_arena scratch = {0};

    LW_TRY(figures_of(from, main_dtype(p), &here, err));
    LW_TRY(figures_of(to, main_dtype(p), &there, err));
    double *of_work = lw_arena_alloc(&scratch, p->n_works, sizeof *of_work);
    double *of_module = lw_arena_alloc(&scratch, p->n_modules, sizeof *of_module);
    enum lw_status s = of_work && of_module ? LW_OK : lw_fail_nomem(err);
    if (s == LW_OK)
        s = find_work_ratios(p, &here, &there, to->kind, of_work, of_module, err);
    if (s == LW_OK)
        s = note(&p->arena, &p->notes, &p->n_notes, &p->device, from, to, err);
    for (int32_t i = 0; s == LW_OK && i < p->n_works; i++)
        if (of_work[i] > 0)
            p->works[i].ps = scaled(p->works[i].ps, of_work[i]);
    lw_arena_free(&scratch);
    return s == LW_OK ? lw_plan_hash(p, err) : s;
}

bool lw_plan_can_retime(const struct lw_plan *p)
{
    static const struct figures any = {1, 1};
    struct lw_arena scratch = {0};
    double *of_work = lw_arena_alloc(&scratch, p->n_works, sizeof *of_work);
    double *of_module = lw_arena_alloc(&scratch, p->n_modules, sizeof *of_module);
    bool can = of_work && of_module &&
               find_work_ratios(p, &any, &any, "", of_work, of_module, NULL) == LW_OK;

    lw_arena_free(&scratch);
    return can;
}

/* An op of a module takes the shares of what bounds the module's kernels in its direction: a plan
 * cuts modules, and kernels lie close. The optimizer passes over memory.
 * Not modelled: a backward that holds recomputed forwards is divided by the shares of the backward
 * alone. */
#include "sim/predict/compute_bound.h"

#include "shared/numbers/checked.h"
#include "shared/plan/workload.h"
#include "shared/text/wrap.h"

static const struct {
    const char *name, *key;
} bounds[LW_N_BOUNDS] = {
    [LW_BOUND_COMPUTE] = {"products", "compute_ns"},
    [LW_BOUND_MEMORY] = {"device memory", "memory_ns"},
    [LW_BOUND_LAUNCH] = {"launches", "launch_ns"},
    [LW_BOUND_HOST] = {"the host", "host_ns"},
};

static const lw_ps *of_op(const struct lw_workload *w, const struct lw_op *op)
{
    static const lw_ps pass[LW_N_BOUNDS] = {[LW_BOUND_MEMORY] = 1};

    if (op->kind == LW_OP_OPTIMIZER || op->module < 0 || op->module >= w->n_modules)
        return pass;
    return w->modules[op->module].bound_ps[op->kind != LW_OP_FORWARD];
}

/* The last bound that has a share takes what rounding leaves. */
static void add_op(struct lw_compute_bound *b, const lw_ps *shares, lw_ps time)
{
    lw_ps sum = 0, before = 0, given = 0;

    for (int k = 0; k < LW_N_BOUNDS; k++)
        sum = lw_add_sat(sum, shares[k]);
    for (int k = 0; k < LW_N_BOUNDS && sum > 0; k++) {
        before = lw_add_sat(before, shares[k]);
        lw_ps upto = (lw_ps)((__int128)time * before / sum);
        b->ps[k] += upto - given;
        given = upto;
    }
    b->ps[LW_BOUND_MEMORY] += time - given;
}

static bool has_bounds(const struct lw_workload *w)
{
    return w && w->n_kernels > 0 && w->from.device && w->from.device[0];
}

struct lw_compute_bound lw_compute_bound_of(const struct lw_sim_report *r)
{
    const struct lw_measure *worst = &r->summary->ranks[r->summary->worst];
    const struct lw_timeline *t = r->timeline;
    struct lw_compute_bound b = {.known = !r->replayed && has_bounds(r->workload)};

    for (int64_t i = 0; b.known && i < t->n; i++) {
        const struct lw_op *op = &r->plan->ops[t->op[i]];
        if (t->step[i] == worst->step && t->rank[i] == worst->rank &&
            lw_op_class(op->kind) == LW_CLASS_COMPUTE)
            add_op(&b, of_op(r->workload, op), t->end[i] - t->start[i]);
    }
    return b;
}

static lw_ps sum_of(const struct lw_compute_bound *b)
{
    lw_ps sum = 0;

    for (int k = 0; k < LW_N_BOUNDS; k++)
        sum += b->ps[k];
    return sum;
}

void lw_compute_bound_text(const struct lw_compute_bound *b, FILE *f)
{
    lw_ps all = sum_of(b);
    char buf[32];

    if (!b->known || all <= 0)
        return;
    lw_printf_paragraph(f, "its compute, by what bounds the kernels");
    for (int k = 0; k < LW_N_BOUNDS; k++)
        if (b->ps[k] > 0)
            fprintf(f, "  %-22s %14s  %5.1f %%\n", bounds[k].name, lw_format_ps(buf, b->ps[k]),
                    lw_percent((double)b->ps[k], (double)all));
}

void lw_compute_bound_json(struct lw_jsonout *o, const struct lw_compute_bound *b)
{
    if (!b->known) {
        lw_jsonout_null(o, "compute_bound");
        return;
    }
    lw_jsonout_object(o, "compute_bound");
    for (int k = 0; k < LW_N_BOUNDS; k++)
        lw_jsonout_int(o, bounds[k].key, lw_ps_to_ns(b->ps[k]));
    lw_jsonout_end(o);
}

/* An op has the split of its work in the plan (shared/plan/op_bound.h). */
#include "sim/predict/compute_bound.h"

#include "shared/plan/op.h"
#include "shared/text/wrap.h"

<<<<<<< HEAD
=======
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

static bool is_by_kernels(const struct lw_module *m)
{
    return !m->measured && (m->n_kernels > 0 || m->forward_ps + lw_module_backward(m) == 0);
}

/* All of its times are of kernels. */
static bool has_bounds(const struct lw_workload *w)
{
    lw_ps sum = 0;

    for (int32_t i = 0; w && i < w->n_modules; i++) {
        if (!is_by_kernels(&w->modules[i]))
            return false;
        for (int k = 0; k < LW_N_BOUNDS; k++)
            sum = lw_add_sat(sum, lw_add_sat(w->modules[i].bound_ps[0][k],
                                             w->modules[i].bound_ps[1][k]));
    }
    return sum > 0 && w->from.device && w->from.device[0];
}

>>>>>>> b067ba29 (workload files: kernels of a model stand beside its times)
struct lw_compute_bound lw_compute_bound_of(const struct lw_sim_report *r)
{
    const struct lw_measure *worst = &r->summary->ranks[r->summary->worst];
    const struct lw_timeline *t = r->timeline;
    struct lw_compute_bound b = {0};

    for (int64_t i = 0; i < t->n; i++) {
        const struct lw_op *op = &r->plan->ops[t->op[i]];
        if (t->step[i] == worst->step && t->rank[i] == worst->rank &&
            lw_op_class((enum lw_op_kind)op->kind) == LW_CLASS_COMPUTE)
            lw_op_add_bounds(r->plan, op, t->end[i] - t->start[i], b.ps);
    }
    for (int k = 0; k < LW_N_BOUNDS; k++)
        b.known = b.known || b.ps[k] > 0;
    return b;
}

static lw_ps sum_of(const struct lw_compute_bound *b)
{
    lw_ps sum = 0;

    for (int k = 0; k < LW_N_OP_BOUNDS; k++)
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
    for (int k = 0; k < LW_N_OP_BOUNDS; k++)
        if (b->ps[k] > 0)
            fprintf(f, "  %-22s %14s  %5.1f %%\n", lw_op_bound_name(k),
                    lw_format_ps(buf, b->ps[k]),
                    lw_percent((double)b->ps[k], (double)all));
}

void lw_compute_bound_json(struct lw_jsonout *o, const struct lw_compute_bound *b)
{
    if (!b->known) {
        lw_jsonout_null(o, "compute_bound");
        return;
    }
    lw_jsonout_object(o, "compute_bound");
    for (int k = 0; k < LW_N_OP_BOUNDS; k++) {
        char key[32];
        snprintf(key, sizeof key, "%s_ns", lw_op_bound_key(k));
        if (k != LW_BOUND_NETWORK) /* compute is never bound by it */
            lw_jsonout_int(o, key, lw_ps_to_ns(b->ps[k]));
    }
    lw_jsonout_end(o);
}

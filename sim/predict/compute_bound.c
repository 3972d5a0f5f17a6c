/* An op has the split of its work in the plan (shared/plan/op_bound.h), with products that are as
 * long as on the slowest device. */
#include "sim/predict/compute_bound.h"

#include "shared/plan/op.h"
#include "shared/text/wrap.h"
#include "sim/timing/device_spread.h"

struct lw_compute_bound lw_compute_bound_of(const struct lw_sim_report *r)
{
    int32_t worst = r->summary->worst; /* a class of ranks, as the rows' rank is */
    int32_t step = r->summary->ranks[worst].step;
    const struct lw_timeline *t = r->timeline;
    int64_t spread = sim_spread_parts(r->cluster, r->options, r->plan->n_ranks);
    struct lw_compute_bound b = {0};

    for (int64_t i = 0; i < t->n;) {
        const struct lw_row_run run = lw_timeline_run(t, i);
        for (; run.step == step && run.rank == worst && i < run.to; i++) {
            const struct lw_op *op = LW_OP(r->plan, lw_timeline_op(t, i));
            const struct lw_times at = lw_timeline_times(t, i);
            if (lw_op_class((enum lw_op_kind)op->kind) == LW_CLASS_COMPUTE &&
                !lw_op_is_host_update(r->plan, op))
                lw_op_add_bounds(r->plan, op, at.end - at.start, spread, b.ps);
        }
        i = run.to;
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
            fprintf(f, "  %-22s %14s  %5.1f %%\n", lw_op_bound_name(k), lw_format_ps(buf, b->ps[k]),
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

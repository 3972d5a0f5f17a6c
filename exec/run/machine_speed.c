/* The speed of the machine, from readings of one product between batches of steps. During a batch
 * the reading is taken as the mean of those before and after it. */
#include "exec/run/machine_speed.h"

#include <math.h>

#include "exec/run/run.h"
#include "shared/base/arena.h"
#include "shared/base/sort.h"
#include "shared/numbers/median.h"

double lw_speed_quantile(double *v, int64_t n, double q)
{
    double at = q * (double)(n - 1);
    int64_t low = (int64_t)at;

    lw_sort(v, n, lw_compare_double);
    return low + 1 < n ? v[low] + (at - (double)low) * (v[low + 1] - v[low]) : v[n - 1];
}

/* --- what the compute of a plan is predicted by ----------------------------------------------- */

enum timed { TIMED_BY_PLAN, TIMED_BY_TABLE, TIMED_BY_BOTH };

static enum timed timed_by(const struct lw_plan *p)
{
    bool plan = false, table = false;

    for (int32_t i = 0; i < p->n_ops; i++)
        if (lw_op_class(p->ops[i].kind) == LW_CLASS_COMPUTE) {
            plan = plan || lw_plan_work_ps(p, &p->ops[i]) > 0;
            table = table || lw_plan_work_ps(p, &p->ops[i]) < 0;
        }
    return !table ? TIMED_BY_PLAN : plan ? TIMED_BY_BOTH : TIMED_BY_TABLE;
}

/* --- one rank --------------------------------------------------------------------------------- */

/* Of a step: the last reading of the rank before it and the first after it; false: one is not
 * there. */
static bool around(const struct lw_exec_result *r, int32_t rank, int32_t step,
                   const struct lw_exec_probe **before, const struct lw_exec_probe **after)
{
    *before = *after = NULL;
    for (int64_t i = 0; i < r->n_probes; i++) {
        const struct lw_exec_probe *p = &r->probes[i];
        if (p->rank == rank && p->step <= step && (!*before || p->step > (*before)->step))
            *before = p;
        if (p->rank == rank && p->step > step && (!*after || p->step < (*after)->step))
            *after = p;
    }
    return *before && *after;
}

/* v[n_steps]: room. */
static double compute_speed(const struct lw_exec_result *r, int32_t rank, enum timed timed,
                            double calibrated_ns, double *v)
{
    const struct lw_exec_probe *a, *b;
    int64_t n = 0;

    for (int32_t step = r->n_warmup; step < r->n_warmup + r->n_steps; step++)
        if (around(r, rank, step, &a, &b) && a->now_ns + b->now_ns > 0)
            v[n++] = (timed == TIMED_BY_PLAN ? a->set_ns : calibrated_ns) /
                     ((a->now_ns + b->now_ns) / 2);
    return n > 0 ? lw_speed_quantile(v, n, 0.5) : (double)NAN;
}

/* --- the run ---------------------------------------------------------------------------------- */

static enum lw_status find_speed(struct lw_exec_result *r, double calibrated_ns,
                                 struct lw_err *err)
{
    double *v = lw_alloc((size_t)r->n_probes * sizeof *v);
    int64_t n = 0;

    if (!v)
        return lw_fail_nomem(err);
    for (int64_t i = 0; i < r->n_probes; i++)
        if (r->probes[i].now_ns > 0)
            v[n++] = calibrated_ns / r->probes[i].now_ns;
    if (n > 0)
        r->speed = (struct lw_machine_speed){n, lw_speed_quantile(v, n, 0.5),
                                             lw_speed_quantile(v, n, 0.1),
                                             lw_speed_quantile(v, n, 0.9)};
    lw_free(v);
    return LW_OK;
}

static enum lw_status find_compute_speed(const struct lw_plan *plan, double calibrated_ns,
                                         struct lw_exec_result *r, struct lw_err *err)
{
    enum timed timed = timed_by(plan);
    double *v = lw_alloc(((size_t)r->n_steps + 1) * sizeof *v);

    r->compute_speed = lw_calloc((size_t)plan->n_ranks, sizeof *r->compute_speed);
    if (v && r->compute_speed)
        for (int32_t rank = 0; rank < plan->n_ranks; rank++)
            r->compute_speed[r->n_compute_speeds++] =
                timed == TIMED_BY_BOTH || (timed == TIMED_BY_TABLE && calibrated_ns <= 0)
                    ? (double)NAN
                    : compute_speed(r, rank, timed, calibrated_ns, v);
    bool done = v && r->compute_speed;
    lw_free(v);
    return done ? LW_OK : lw_fail_nomem(err);
}

enum lw_status lw_exec_find_speed(const struct lw_plan *plan, double calibrated_ns,
                                  struct lw_exec_result *r, struct lw_err *err)
{
    if (r->n_probes == 0 || r->n_steps == 0)
        return LW_OK;
    if (calibrated_ns > 0)
        LW_TRY(find_speed(r, calibrated_ns, err));
    return find_compute_speed(plan, calibrated_ns, r, err);
}

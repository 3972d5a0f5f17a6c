/* How much of an all-reduce compute hides. Compute sleeps, so that a core is not a reason for
 * waiting: what is not hidden is the executor's doing. */
#include <stdlib.h>

#include "exec/calibrate/bench_exec.h"
#include "exec/calibrate/calibrate_plan.h"
#include "exec/run/run.h"
#include "shared/base/arena.h"
#include "shared/numbers/median.h"

enum { RANKS = 2, PAIRS = 5, STEPS = 10, WARMUP = 2 };
#define BYTES (INT64_C(25) << 20)
#define LENGTH 1.5 /* of a kernel, in all-reduces */

struct looked {
    double *time_ns, *share; /* [n], [n_beside]: of those with a kernel beside them */
    int64_t n, n_beside;
};

static double median(double *v, int64_t n)
{
    qsort(v, (size_t)n, sizeof *v, lw_compare_double);
    return n > 0 ? v[n / 2] : 0;
}

/* Of the all-reduces after warm-up: their times, and the share of each in which the kernel after it
 * ran. Rows of a rank and step are in the order of the program. */
static void look(const struct lw_plan *plan, const struct lw_timeline *t, struct looked *l)
{
    for (int64_t i = 0; i + 1 < t->n; i++) {
        if (t->step[i] < WARMUP || plan->ops[t->op[i]].kind != LW_OP_ALL_REDUCE)
            continue;
        double time = (double)(t->end[i] - t->start[i]);
        l->time_ns[l->n++] = time / LW_PS_PER_NS;
        if (plan->ops[t->op[i + 1]].work_ps <= 0)
            continue; /* the empty kernel after the last */
        lw_ps from = t->start[i] > t->start[i + 1] ? t->start[i] : t->start[i + 1];
        lw_ps to = t->end[i] < t->end[i + 1] ? t->end[i] : t->end[i + 1];
        l->share[l->n_beside++] = to > from ? (double)(to - from) / time : 0;
    }
}

static enum lw_status medians(const struct lw_plan *plan, const struct lw_timeline *t,
                              double *time_ns, double *hidden, struct lw_err *err)
{
    struct looked l = {lw_calloc((size_t)t->n + 1, sizeof *l.time_ns),
                       lw_calloc((size_t)t->n + 1, sizeof *l.share), 0, 0};
    bool there = l.time_ns && l.share;

    if (there) {
        look(plan, t, &l);
        *time_ns = median(l.time_ns, l.n);
        *hidden = median(l.share, l.n_beside);
    }
    lw_free(l.time_ns);
    lw_free(l.share);
    return there ? LW_OK : lw_fail_nomem(err);
}

static enum lw_status run(int32_t n, lw_ps work, double *time_ns, double *hidden,
                          struct lw_err *err)
{
    struct lw_exec_options o = lw_exec_options_default();
    struct lw_exec_result r = {0};
    struct lw_plan plan;

    o.compute = EXEC_COMPUTE_SLEEP;
    o.verify = false;
    o.n_steps = STEPS;
    o.n_warmup = WARMUP;
    LW_TRY(exec_plan_overlap(RANKS, BYTES, n, work, &plan, err));
    enum lw_status s = lw_exec_run(&plan, &o, &r, err);
    if (s == LW_OK)
        s = medians(&plan, &r.timeline, time_ns, hidden, err);
    lw_exec_result_free(&r);
    lw_plan_free(&plan);
    return s;
}

enum lw_status exec_bench_overlap(struct exec_bench_overlap *b, struct lw_err *err)
{
    double alone = 0, beside = 0, unused;

    LW_TRY(run(1, LW_PS_PER_MS, &alone, &unused, err));
    *b = (struct exec_bench_overlap){.n_ranks = RANKS, .n = (PAIRS - 1) * STEPS * RANKS,
                                     .bytes = BYTES, .alone_ns = (int64_t)alone,
                                     .work_ns = (int64_t)(alone * LENGTH)};
    LW_TRY(run(PAIRS, lw_ns_to_ps(b->work_ns), &beside, &b->hidden, err));
    b->beside_ns = (int64_t)beside;
    return LW_OK;
}

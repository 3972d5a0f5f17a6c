/* Passes are counted one by one, and the ops of each added, until enough of them have ended a step
 * or the ops are too many. */
#include "shared/plan/many_passes.h"

#include <math.h>
#include <stdio.h>

#include "shared/numbers/checked.h"
#include "shared/numbers/units.h"

enum { FREE_PASSES = 8 };

int32_t lw_plan_warmup_steps(const struct lw_plan *plan)
{
    int32_t n = 0;

    for (int32_t i = 0; i < plan->repeat_from && i < plan->n_passes; i++)
        n += plan->variants[plan->pass_variant[i]].ends_step;
    return n + 1;
}

/* After `pass` passes and `step` steps there are too many ops. */
static enum lw_status refuse(const struct lw_plan *p, const struct lw_many_passes *m, int64_t pass,
                             int64_t step, int64_t ops, struct lw_err *err)
{
    double cycle = (double)(p->n_passes - p->repeat_from);
    double all = step > 0 ? (double)ops / (double)step * (double)m->n_steps
                          : (double)ops / (double)pass * cycle * (double)m->n_steps;
    int64_t longest = pass / (m->n_warmup + 1); /* passes of a step */
    char took[32], held[32], memory[64] = "", most[96];

    lw_format_ps(took, (lw_ps)fmin(all * (double)m->each, 9e18));
    if (m->bytes > 0)
        snprintf(memory, sizeof memory, " and %s of memory",
                 lw_format_bytes(held, (int64_t)fmin(all * (double)m->bytes, 9e18)));
    if (step > m->n_warmup)
        snprintf(most, sizeof most, "--steps %lld is the most", (long long)(step - m->n_warmup));
    else
        snprintf(most, sizeof most, "with --steps 1 --no-sync %lld is the most",
                 (long long)(longest > 2 ? longest - 2 : 0));
    return lw_fail(err, LW_EINVAL,
                   "plan '%s': %lld steps and %lld before them are about %.1f million ops, which "
                   "would take about %s%s; at most %.1f million are %s: %s",
                   p->name, (long long)(m->n_steps - m->n_warmup), (long long)m->n_warmup,
                   all / 1e6, took, memory, (double)m->most / 1e6, m->what, most);
}

/* Of a pass of each variant. */
static enum lw_status count_ops(const struct lw_plan *p, bool of_a_rank, struct lw_arena *arena,
                                int64_t **out, struct lw_err *err)
{
    int64_t *ops;

    LW_TAKE(arena, ops, p->n_variants + 1, err);
    for (int32_t v = 0; v < p->n_variants; v++)
        for (int32_t r = 0; r < p->n_ranks; r++) {
            int32_t n = lw_plan_program(p, v, r).n_ops;
            ops[v] = !of_a_rank ? ops[v] + n : n > ops[v] ? n : ops[v];
        }
    *out = ops;
    return LW_OK;
}

enum lw_status lw_plan_check_passes(const struct lw_plan *p, const struct lw_many_passes *m,
                                    struct lw_arena *arena, int32_t *n_passes,
                                    struct lw_err *err)
{
    int64_t pass = 0, step = 0, since_step = 0, ops = 0, *of_variant;

    LW_TRY(count_ops(p, m->of_a_rank, arena, &of_variant, err));
    while (step < m->n_steps) {
        if (p->n_passes < 1 || since_step > p->n_passes)
            return lw_fail(err, LW_EPLAN, "no pass of plan '%s' ends a step", p->name);
        int32_t variant = lw_plan_variant_of_pass(p, pass++);
        bool ends = p->variants[variant].ends_step;
        ops = lw_add_sat(ops, of_variant[variant]);
        if (pass > FREE_PASSES && ops > m->most)
            return refuse(p, m, pass, step, ops, err);
        if (pass == INT32_MAX)
            return lw_fail(err, LW_EINVAL, "%lld steps are more than %d passes",
                           (long long)m->n_steps, INT32_MAX);
        step += ends;
        since_step = ends ? 0 : since_step + 1;
    }
    *n_passes = (int32_t)pass;
    return LW_OK;
}

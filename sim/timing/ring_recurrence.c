/* The recurrence of a ring whose links no other communicator uses. With t[s][r] = when member r's
 * message s has left, t[0][r] = its entry, c_r and L_r the time on its link and the latency after
 * it:
 *
 *     t[1][r] = t[0][r] + c_r
 *     t[s][r] = max(t[s-1][r], t[s-1][r-1] + L_{r-1}) + c_r
 *     end[r]  = max(t[S][r], t[S][r-1] + L_{r-1})
 *
 * A message leaves without waiting for its receiver to enter: it is buffered there. For equal links
 * and entries this is S (c + L), the closed form. Walking r downwards lets one array hold both s-1
 * and s. */
#include "sim/timing/ring_recurrence.h"

#include <stdbool.h>

#include "shared/numbers/checked.h"
#include "shared/numbers/larger.h"

static lw_ps most(int32_t n, const lw_ps *t)
{
    lw_ps m = 0;

    for (int32_t r = 0; r < n; r++)
        m = lw_larger(m, t[r]);
    return m;
}

enum { BLOCK = 256 }; /* members whose extra times are at hand at once */

/* Of members first .. first + n - 1: t[1] from the entries, t[s] from t[s - 1]. last: t[s - 1] of
 * the last member of all. */
struct ring_step {
    int64_t s;
    int32_t first, n, before_first; /* before_first: the member before `first` on the ring */
    lw_ps last;
    const lw_ps *cost, *latency, *longer;
};

static void run_block(const struct ring_step *x, lw_ps *restrict t)
{
    const lw_ps *restrict cost = x->cost + x->first, *restrict longer = x->longer;
    const lw_ps *latency = x->latency;
    int32_t first = x->first;

    if (x->s == 1) {
        for (int32_t i = 0; i < x->n; i++)
            t[first + i] += cost[i] + longer[i];
        return;
    }
    for (int32_t i = x->n - 1; i > 0; i--)
        t[first + i] = lw_larger(t[first + i], t[first + i - 1] + latency[first + i - 1]) +
                       cost[i] + longer[i];
    lw_ps before = first > 0 ? t[first - 1] : x->last;
    t[first] = lw_larger(t[first], before + latency[x->before_first]) + cost[0] + longer[0];
}

/* The same near the end of time, where the plain sums would pass int64. */
static void run_last_block(const struct ring_step *x, lw_ps *t)
{
    for (int32_t i = x->n - 1; i >= 0; i--) {
        int32_t r = x->first + i;
        lw_ps before = r > 0 ? t[r - 1] : x->last;
        lw_ps after = x->latency[i > 0 ? r - 1 : x->before_first];
        lw_ps from = x->s == 1 ? t[r] : lw_larger(t[r], lw_add_sat(before, after));
        t[r] = lw_add_sat(lw_add_sat(from, x->cost[r]), x->longer[i]);
    }
}

void sim_ring_run(int32_t n, int64_t steps, lw_ps *t, const lw_ps *cost, const lw_ps *latency,
                  const struct sim_ring_extra *extra, lw_ps *end)
{
    lw_ps a_step = lw_add_sat(lw_add_sat(most(n, cost), most(n, latency)), extra ? extra->most : 0);
    bool near_end = lw_add_sat(most(n, t), lw_mul_sat(steps, a_step)) == INT64_MAX;
    lw_ps longer[BLOCK] = {0};

    for (int64_t s = 1; s <= steps; s++) {
        struct ring_step x = {.s = s, .last = t[n - 1], .cost = cost, .latency = latency,
                              .longer = longer};
        for (int32_t blocks = (n + BLOCK - 1) / BLOCK; blocks > 0; blocks--) {
            x.first = (blocks - 1) * BLOCK;
            x.n = n - x.first < BLOCK ? n - x.first : BLOCK;
            x.before_first = x.first > 0 ? x.first - 1 : n - 1;
            if (extra)
                extra->fill(extra->ctx, s, x.first, x.n, longer);
            if (near_end)
                run_last_block(&x, t);
            else
                run_block(&x, t);
        }
    }
    for (int32_t r = 0; r < n; r++) {
        int32_t before = r > 0 ? r - 1 : n - 1;
        end[r] = steps > 0 ? lw_larger(t[r], lw_add_sat(t[before], latency[before])) : t[r];
    }
}

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

static lw_ps later(lw_ps a, lw_ps b)
{
    return a > b ? a : b;
}

static lw_ps most(int32_t n, const lw_ps *t)
{
    lw_ps m = 0;

    for (int32_t r = 0; r < n; r++)
        m = later(m, t[r]);
    return m;
}

/* t[1] from the entries, t[s] from t[s - 1]. */
static void run_step(int32_t n, int64_t s, lw_ps *t, const lw_ps *cost, const lw_ps *latency)
{
    lw_ps last = t[n - 1];

    if (s == 1) {
        for (int32_t r = 0; r < n; r++)
            t[r] += cost[r];
        return;
    }
    for (int32_t r = n - 1; r > 0; r--)
        t[r] = later(t[r], t[r - 1] + latency[r - 1]) + cost[r];
    t[0] = later(t[0], last + latency[n - 1]) + cost[0];
}

/* The same near the end of time, where the plain sums would pass int64. */
static void run_last_step(int32_t n, int64_t s, lw_ps *t, const lw_ps *cost, const lw_ps *latency)
{
    lw_ps last = t[n - 1];

    for (int32_t r = n - 1; r >= 0; r--) {
        lw_ps before = r > 0 ? t[r - 1] : last, after = latency[r > 0 ? r - 1 : n - 1];
        lw_ps from = s == 1 ? t[r] : later(t[r], lw_add_sat(before, after));
        t[r] = lw_add_sat(from, cost[r]);
    }
}

void sim_ring_run(int32_t n, int64_t steps, lw_ps *t, const lw_ps *cost, const lw_ps *latency,
                  sim_extra_fn *extra, const void *ctx, lw_ps *end)
{
    lw_ps a_step = lw_add_sat(most(n, cost), most(n, latency));
    bool near_end = lw_add_sat(most(n, t), lw_mul_sat(steps, a_step)) == INT64_MAX;

    for (int64_t s = 1; s <= steps; s++) {
        if (extra && !near_end)
            near_end = lw_add_sat(most(n, t), a_step) == INT64_MAX;
        if (near_end)
            run_last_step(n, s, t, cost, latency);
        else
            run_step(n, s, t, cost, latency);
        if (extra)
            extra(ctx, s, n, t);
    }
    for (int32_t r = 0; r < n; r++) {
        int32_t before = r > 0 ? r - 1 : n - 1;
        end[r] = steps > 0 ? later(t[r], lw_add_sat(t[before], latency[before])) : t[r];
    }
}

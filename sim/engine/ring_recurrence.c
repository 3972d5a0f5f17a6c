/* The recurrence of a ring whose links nobody else uses. With t[s][r] = when member r's message s
 * has left, t[0][r] = its entry, c_r and L_r the time on its link and the latency behind it:
 *
 *     t[1][r] = t[0][r] + c_r
 *     t[s][r] = max(t[s-1][r], t[s-1][r-1] + L_{r-1}) + c_r
 *     end[r]  = max(t[S][r], t[S][r-1] + L_{r-1})
 *
 * A message leaves without waiting for its receiver to enter: it is buffered there. For equal links
 * and entries this is S (c + L), the closed form. Walking r downwards lets one array hold both s-1
 * and s. */
#include "sim/engine/ring_recurrence.h"

static lw_ps later(lw_ps a, lw_ps b)
{
    return a > b ? a : b;
}

void sim_ring_run(int32_t n, int64_t steps, lw_ps *t, const lw_ps *cost, const lw_ps *latency,
                  sim_extra_fn *extra, const void *ctx, lw_ps *end)
{
    for (int64_t s = 1; s <= steps; s++) {
        lw_ps last = t[n - 1];
        if (s == 1) {
            for (int32_t r = 0; r < n; r++)
                t[r] += cost[r];
        } else {
            for (int32_t r = n - 1; r > 0; r--)
                t[r] = later(t[r], t[r - 1] + latency[r - 1]) + cost[r];
            t[0] = later(t[0], last + latency[n - 1]) + cost[0];
        }
        if (extra)
            extra(ctx, s, n, t);
    }
    for (int32_t r = 0; r < n; r++) {
        int32_t before = r > 0 ? r - 1 : n - 1;
        end[r] = steps > 0 ? later(t[r], t[before] + latency[before]) : t[r];
    }
}

/* A piece of b bytes, between two sizes of a grid, takes at least as long as the smaller size: so a
 * byte takes at least the time of the smaller size over the larger one. Sizes grow by a twentieth,
 * which loses at most 5 %. Where a cost falls as bytes grow (noise of a measured table), the least
 * of all larger sizes counts. */
#include "analysis/tune_bound/tune_rates.h"

#define LEAST_BYTES 1024.0
#define GROWTH 1.05

void lw_tune_rates_of(const struct lw_cost *cost, const struct lw_cost_query *query,
                      struct lw_tune_rates *out)
{
    lw_ps time[LW_TUNE_SIZES];
    struct lw_cost_query q = *query;
    double size = LEAST_BYTES, least;

    for (int i = 0; i < LW_TUNE_SIZES; i++, size *= GROWTH) {
        q.bytes = (int64_t)size;
        out->size[i] = size;
        time[i] = cost->time(cost->ctx, &q);
        time[i] = time[i] > 0 ? time[i] : 0;
    }
    for (int i = LW_TUNE_SIZES - 2; i >= 0; i--)
        time[i] = time[i + 1] < time[i] ? time[i + 1] : time[i];
    q.bytes = 1;
    lw_ps one = cost->time(cost->ctx, &q);
    one = one < 0 ? 0 : one < time[0] ? one : time[0];
    least = (double)one / LEAST_BYTES;
    size = LEAST_BYTES;
    for (int i = 0; i < LW_TUNE_SIZES; i++, size *= GROWTH) {
        double each = (double)time[i] / (size * GROWTH + 1);
        least = each < least ? each : least;
        out->ps_per_byte[i] = least;
    }
}

lw_ps lw_tune_least_time_of(const struct lw_tune_rates *r, int64_t bytes, int64_t largest)
{
    int at = 0, end = LW_TUNE_SIZES; /* the first size above `largest` */

    while (at < end) {
        int mid = at + (end - at) / 2;
        if (r->size[mid] <= (double)largest)
            at = mid + 1;
        else
            end = mid;
    }
    if (at == LW_TUNE_SIZES && r->size[at - 1] * GROWTH <= (double)largest)
        return 0; /* larger than all sizes: in pieces that are not known */
    return (lw_ps)((double)bytes * r->ps_per_byte[at > 0 ? at - 1 : 0] * (1 - 1e-9));
}

lw_ps lw_tune_least_time(const struct lw_tune_rates *r, int64_t bytes)
{
    return lw_tune_least_time_of(r, bytes, bytes);
}

/* Between and beyond measured sizes. Below the smallest size the time is that of the smallest;
 * beyond the largest it grows at the bandwidth that rows of different sizes show. Not modelled:
 * spread, modes of small messages. */
#include "shared/cluster/curve.h"

#include "shared/numbers/loglog.h"

static lw_ps round_ps(double t)
{
    return t < 9.2e18 ? (lw_ps)(t + 0.5) : INT64_MAX;
}

/* The slope to the next smaller row of at most half the size: between rows that are closer, the
 * noise of the measurement is larger than what the bytes between them take. A slope above the
 * largest row's mean rate would need a negative latency: the mean rate is the limit. */
static lw_ps beyond(struct lw_curve c, int64_t size)
{
    int32_t last = c.n - 1, low = last - 1;
    double x = (double)c.size[last], y = (double)c.time[last];

    while (low >= 0 && c.size[low] > c.size[last] / 2)
        low--;
    if (x <= 0)
        return c.time[last];
    double slope = y / x;
    if (low >= 0 && c.time[last] > c.time[low]) {
        double marginal = (y - (double)c.time[low]) / (x - (double)c.size[low]);
        slope = marginal < slope ? marginal : slope;
    }
    return round_ps(y + ((double)size - x) * slope);
}

static lw_ps between(struct lw_curve c, int32_t hi, int64_t size)
{
    const int64_t x0 = c.size[hi - 1], x1 = c.size[hi];
    const lw_ps y0 = c.time[hi - 1], y1 = c.time[hi];

    if (x0 < 1 || y0 < 1 || y1 < 1) /* no logarithm: straight on plain axes */
        return round_ps((double)y0 +
                        (double)(y1 - y0) * ((double)(size - x0) / (double)(x1 - x0)));
    return round_ps(lw_loglog((double)size, (double)x0, (double)y0, (double)x1, (double)y1));
}

lw_ps lw_curve_at(struct lw_curve c, int64_t size, const char **detail)
{
    int32_t hi = 0;

    while (hi < c.n && c.size[hi] < size)
        hi++;
    if (hi == c.n) {
        *detail = "beyond the largest measured size";
        return beyond(c, size);
    }
    if (c.size[hi] == size) {
        *detail = "measured";
        return c.time[hi];
    }
    if (hi == 0) {
        *detail = "below the smallest measured size";
        return c.time[0];
    }
    *detail = "between measured sizes";
    return between(c, hi, size);
}

/* Measured times. A table holds for one operation, group shape and number in flight. At a measured
 * size its time is returned as it is; between two sizes the curve is straight on logarithmic axes;
 * below the smallest the smallest's time holds (small messages cost latency alone); beyond the
 * largest the curve goes on with the bandwidth between the last two sizes, or in proportion when
 * only one size was measured or the last two show no slope.
 * Not modelled: spread, modes of small messages. */
#include "sim/cost.h"

#include "sim/loglog.h"

const struct lw_cost_table *sim_table_find(const struct lw_cluster *cluster,
                                           const struct lw_cost_query *query, int32_t n_in_flight)
{
    const struct lw_cost_table *other_dtype = NULL;

    for (int32_t i = 0; i < cluster->n_tables; i++) {
        const struct lw_cost_table *t = &cluster->tables[i];
        if (t->op != query->op || t->n_ranks != query->n_ranks || t->n_nodes != query->n_nodes ||
            t->n_in_flight != n_in_flight || t->n_rows < 1)
            continue;
        if (t->dtype == query->dtype)
            return t;
        if (!other_dtype)
            other_dtype = t;
    }
    return other_dtype;
}

static lw_ps round_ps(double t)
{
    return t < 9.2e18 ? (lw_ps)(t + 0.5) : INT64_MAX;
}

static lw_ps beyond(const struct lw_cost_table *t, const lw_ps *column, int64_t bytes)
{
    int32_t last = t->n_rows - 1;
    double b = (double)t->bytes[last], y = (double)column[last];

    if (last > 0 && column[last] > column[last - 1]) {
        double slope = (y - (double)column[last - 1]) / (b - (double)t->bytes[last - 1]);
        return round_ps(y + ((double)bytes - b) * slope);
    }
    return b > 0 ? round_ps(y * ((double)bytes / b)) : column[last];
}

static lw_ps value_at(const struct lw_cost_table *t, const lw_ps *column, int64_t bytes,
                      const char **detail)
{
    int32_t hi = 0;

    while (hi < t->n_rows && t->bytes[hi] < bytes)
        hi++;
    if (hi == t->n_rows) {
        *detail = "beyond the largest measured size";
        return beyond(t, column, bytes);
    }
    if (t->bytes[hi] == bytes) {
        *detail = "measured";
        return column[hi];
    }
    if (hi == 0) {
        *detail = "below the smallest measured size";
        return column[0];
    }
    *detail = "between measured sizes";
    const lw_ps y0 = column[hi - 1], y1 = column[hi];
    const int64_t b0 = t->bytes[hi - 1], b1 = t->bytes[hi];
    if (b0 < 1 || y0 < 1 || y1 < 1) /* no logarithm: straight on plain axes */
        return round_ps((double)y0 +
                        (double)(y1 - y0) * ((double)(bytes - b0) / (double)(b1 - b0)));
    return round_ps(sim_loglog((double)bytes, (double)b0, (double)y0, (double)b1, (double)y1));
}

lw_ps sim_table_time(const struct lw_cost_table *t, int64_t bytes, const char **detail)
{
    return value_at(t, t->time_ps, bytes, detail);
}

lw_ps sim_table_cpu(const struct lw_cost_table *t, int64_t bytes)
{
    const char *unused;

    return value_at(t, t->cpu_ps, bytes, &unused);
}

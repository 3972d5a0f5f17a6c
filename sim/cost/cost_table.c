/* Measured times. A table holds for one operation, group shape and number in flight; between and
 * beyond its sizes: shared/cluster/curve.h. */
#include "shared/cluster/measured.h"
#include "sim/cost/cost_model.h"

#include "shared/cluster/curve.h"

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

lw_ps sim_table_time(const struct lw_cost_table *t, int64_t bytes, const char **detail)
{
    return lw_curve_at((struct lw_curve){t->n_rows, t->bytes, t->time_ps}, bytes, detail);
}

lw_ps sim_table_cpu(const struct lw_cost_table *t, int64_t bytes)
{
    const char *unused;

    return lw_curve_at((struct lw_curve){t->n_rows, t->bytes, t->cpu_ps}, bytes, &unused);
}

/* Measured tables laid onto a cluster that has links and rates: the tables win where they hold, the
 * cluster's models go on where they end. */
#include <ctype.h>
#include <string.h>

#include "traces/nccl_tests/import_nccl_tests.h"

/* "H100-SXM5-80GB": its first word, as the driver's names hold it too ("NVIDIA H100 80GB HBM3"). */
static bool same_device(const char *base, const char *measured)
{
    size_t n = strcspn(base, "- ");

    for (const char *at = measured; *at; at++)
        if (strncmp(at, base, n) == 0 && !isalnum((unsigned char)at[n]) &&
            (at == measured || !isalnum((unsigned char)at[-1])))
            return true;
    return false;
}

static enum lw_status check_fits(const struct lw_cluster *base, const struct lw_cluster *tables,
                                 struct lw_err *err)
{
    const char *kind = tables->device.kind;

    if (tables->devices_per_node > base->devices_per_node)
        return lw_fail(err, LW_EINVAL,
                       "--onto %s: the tables have %d ranks on a node, the cluster has %d "
                       "devices",
                       base->name, tables->devices_per_node, base->devices_per_node);
    if (base->n_nodes > 0 && tables->n_nodes > base->n_nodes)
        return lw_fail(err, LW_EINVAL, "--onto %s: the tables have %d nodes, the cluster has %d",
                       base->name, tables->n_nodes, base->n_nodes);
    if (strcmp(kind, "unknown") != 0 && !same_device(base->device.kind, kind))
        return lw_fail(err, LW_EINVAL,
                       "--onto %s: the tables were measured on '%s', the cluster has '%s'",
                       base->name, kind, base->device.kind);
    return LW_OK;
}

static enum lw_status copy_table(struct lw_arena *arena, const struct lw_cost_table *from,
                                 struct lw_cost_table *to, struct lw_err *err)
{
    int64_t *bytes = lw_arena_alloc(arena, from->n_rows, sizeof *bytes);
    lw_ps *time = lw_arena_alloc(arena, from->n_rows, sizeof *time);

    *to = *from;
    to->source = lw_arena_strdup(arena, from->source);
    if (!bytes || !time || !to->source)
        return lw_fail_nomem(err);
    memcpy(bytes, from->bytes, (size_t)from->n_rows * sizeof *bytes);
    memcpy(time, from->time_ps, (size_t)from->n_rows * sizeof *time);
    to->bytes = bytes;
    to->time_ps = time;
    to->spread_ps = to->cpu_ps = NULL;
    return LW_OK;
}

enum lw_status lw_cluster_lay_onto(struct lw_cluster *base, const struct lw_cluster *tables,
                                   struct lw_err *err)
{
    LW_TRY(check_fits(base, tables, err));
    int64_t n = (int64_t)base->n_tables + tables->n_tables;
    struct lw_cost_table *all = lw_arena_alloc(&base->arena, n, sizeof *all);
    if (!all)
        return lw_fail_nomem(err);
    for (int32_t i = 0; i < tables->n_tables;
         i++) /* the new ones first: of equals the first is found */
        LW_TRY(copy_table(&base->arena, &tables->tables[i], &all[i], err));
    for (int32_t i = 0; i < base->n_tables; i++)
        all[tables->n_tables + i] = base->tables[i];
    if (*tables->library_version) {
        const char *version = lw_arena_strdup(&base->arena, tables->library_version);
        if (!version)
            return lw_fail_nomem(err);
        base->library_version = version;
    }
    base->tables = all;
    base->n_tables = (int32_t)n;
    return lw_cluster_check(base, err);
}

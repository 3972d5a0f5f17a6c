/* What-ifs of `lapwing explain`: the run's plan simulated again with one thing changed. Twice the
 * bandwidth is the cost of half the bytes, so latencies stay. */
#include "analysis/explain/explain_whatif.h"

#include "analysis/explain/explain_faster.h"
#include "sim/cost/cost_model.h"
#include "sim/predict/sim.h"
#include "sim/timing/device_spread.h"
#include "shared/plan/work_rows.h"

enum change { AS_IT_IS, TWICE_BANDWIDTH, NO_COMMUNICATION, HALF_COMPUTE, NO_COPIES, ALONE, ALIKE };

static const struct {
    const char *name, *key;
} changes[LW_N_WHAT_IFS] = {
    [AS_IT_IS] = {"as it is", "none"},
    [TWICE_BANDWIDTH] = {"twice the bandwidth", "twice_the_bandwidth"},
    [NO_COMMUNICATION] = {"no communication", "no_communication"},
    [HALF_COMPUTE] = {"compute in half the time", "half_compute"},
    [NO_COPIES] = {"copies take no time", "no_copies"},
    [ALONE] = {"compute and communication do not slow each other", "no_interference"},
    [ALIKE] = {"all devices as fast as their mean", "no_device_spread"},
};

struct bent_cost {
    struct lw_cost cost;
    enum change change;
};

static lw_ps bent_time(const void *ctx, const struct lw_cost_query *query)
{
    const struct bent_cost *b = ctx;
    struct lw_cost_query q = *query;

    if (b->change == NO_COMMUNICATION)
        return 0;
    if (b->change == TWICE_BANDWIDTH)
        q.bytes = q.bytes / 2 + q.bytes % 2;
    return b->cost.time(b->cost.ctx, &q);
}

static bool is_changed(const struct lw_op *op, enum change c)
{
    enum lw_op_class class = lw_op_class(op->kind);

    return (c == HALF_COMPUTE && class == LW_CLASS_COMPUTE) ||
           (c == NO_COPIES && class == LW_CLASS_COPY) ||
           (c == NO_COMMUNICATION && op->work_ps > 0 &&
            (class == LW_CLASS_COLLECTIVE || class == LW_CLASS_P2P));
}

static enum lw_status simulate(const struct lw_plan *plan, const struct lw_cluster *cluster,
                               enum change c, struct lw_what_if *out, struct lw_sim_stats *stats,
                               struct lw_err *err)
{
    struct bent_cost bent = {lw_sim_cost(cluster), c};
    const struct lw_cost cost = {bent_time, &bent, bent.cost.ranks_per_node};

    *out = (struct lw_what_if){.name = changes[c].name, .key = changes[c].key};
    return lw_explain_simulate(plan, cluster, c == AS_IT_IS ? NULL : &cost, &out->step,
                               &out->exposed_comm, c == AS_IT_IS ? stats : NULL, err);
}

/* A negative time is asked of the cluster, which compute in half the time leaves as it is. */
static lw_ps changed(lw_ps t, enum change c)
{
    return c != HALF_COMPUTE ? 0 : t < 0 ? t : t / 2;
}

/* Times of ops and of works, which ops share, as they are without a change. */
struct kept {
    lw_ps *ops, *works;
};

/* Works of the ops that change, halved or gone. */
static void change_works(struct lw_plan *plan, enum change c, const struct kept *kept)
{
    int32_t n_ops;
    struct lw_op *ops = lw_plan_held_ops(plan, &n_ops);

    for (int32_t i = 0; i < plan->n_ops; i++) {
        const struct lw_op *op = LW_OP(plan, i);
        if (op->work >= 0 && is_changed(op, c))
            plan->works[op->work].ps = changed(kept->works[op->work], c);
    }
    for (int32_t i = 0; i < n_ops; i++)
        if (is_changed(&ops[i], c))
            ops[i].work_ps = changed(kept->ops[i], c);
}

static void put_back(struct lw_plan *plan, const struct kept *kept)
{
    int32_t n_ops;
    struct lw_op *ops = lw_plan_held_ops(plan, &n_ops);

    for (int32_t i = 0; i < n_ops; i++)
        ops[i].work_ps = kept->ops[i];
    for (int32_t i = 0; i < plan->n_works; i++)
        plan->works[i].ps = kept->works[i];
}

static enum lw_status try_change(struct lw_plan *plan, const struct lw_cluster *cluster,
                                 enum change c, const struct kept *kept, struct lw_what_if *out,
                                 struct lw_sim_stats *stats, struct lw_err *err)
{
    struct lw_cluster copy = *cluster; /* borrows everything */

    change_works(plan, c, kept);
    if (c == ALONE)
        copy.interference = (struct lw_interference){0};
    copy.own_terms_only |= c == ALONE;
    if (c == ALIKE)
        copy.noise.device_spread = (struct lw_figure){.source = NULL};
    enum lw_status st = simulate(plan, &copy, c, out, stats, err);
    put_back(plan, kept);
    return st;
}

static bool has_copies(const struct lw_plan *plan)
{
    int32_t n_ops;
    const struct lw_op *ops = lw_plan_held_ops(plan, &n_ops);

    for (int32_t i = 0; i < n_ops; i++)
        if (lw_op_class(ops[i].kind) == LW_CLASS_COPY)
            return true;
    return false;
}

static bool interferes(const struct lw_cluster *c)
{
    const struct lw_interference *i = &c->interference;

    return lw_figure_is_set(i->compute_rate_under_comm) ||
           lw_figure_is_set(i->comm_rate_under_compute) || lw_figure_is_set(i->comm_sms) ||
           lw_figure_is_set(lw_cluster_sms_per_channel(c)) ||
           lw_figure_is_set(i->comm_on_compute_core);
}

/* Whether the change would change nothing that the plan or the cluster has. */
static bool is_idle(enum change c, const struct lw_plan *plan, const struct lw_cluster *cluster)
{
    const struct lw_sim_options plain = lw_sim_options_default();

    return (c == NO_COPIES && !has_copies(plan)) || (c == ALONE && !interferes(cluster)) ||
           (c == ALIKE && (!lw_figure_is_set(cluster->noise.device_spread) ||
                           *sim_spread_unused(plan, cluster, &plain, plan->n_ranks)));
}

enum lw_status lw_explain_what_ifs(struct lw_plan *plan, const struct lw_cluster *cluster,
                                   struct lw_what_if *out, int *n, struct lw_sim_stats *stats,
                                   struct lw_err *err)
{
    int32_t n_ops;
    const struct lw_op *ops = lw_plan_held_ops(plan, &n_ops);
    struct lw_arena scratch = {0};

    LW_TRY(lw_plan_write_works(plan, err));
    const struct kept kept = {lw_arena_alloc(&scratch, n_ops, sizeof *kept.ops),
                              lw_arena_alloc(&scratch, plan->n_works, sizeof *kept.works)};
    enum lw_status st = kept.ops && kept.works ? LW_OK : lw_fail_nomem(err);
    int made = 0;

    for (int32_t i = 0; st == LW_OK && i < n_ops; i++)
        kept.ops[i] = ops[i].work_ps;
    for (int32_t i = 0; st == LW_OK && i < plan->n_works; i++)
        kept.works[i] = plan->works[i].ps;
    for (int c = 0; c < LW_N_WHAT_IFS && st == LW_OK; c++) {
        if (is_idle((enum change)c, plan, cluster))
            continue;
        st = try_change(plan, cluster, (enum change)c, &kept, &out[made++], stats, err);
    }
    lw_arena_free(&scratch);
    for (int i = 0; i < made && st == LW_OK; i++) {
        double change = (double)(out[i].step - out[0].step);
        out[i].change = i > 0 ? out[i].step - out[0].step : INT64_MIN;
        out[i].change_pct = i > 0 ? lw_percent(change, (double)out[0].step) : (double)NAN;
    }
    if (st == LW_OK)
        *n = made;
    return st;
}

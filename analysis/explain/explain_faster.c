/* What a faster clock, memory, network or host would shorten a step by. A resource that is a tenth
 * faster divides the time that it bounds by 1.1: an eleventh of it goes.
 *
 * Of all works of a resource, and of one work that computes or is the host's, the plan is simulated
 * again with these times: works and host ops of the plan, copies as the cluster times them, and of
 * communication the cost of 10/11 of the bytes, so that latencies stay. Where the schedule gets
 * other waits, they are in it. Of one copy or communication, whose time the cluster gives to all
 * that are alike, and without the run's cluster, the bound is what the path says: a path whose ops
 * take an eleventh less of some time is shorter by that, and the step by no more, because another
 * path may be the longest then.
 *
 * Not modelled: the next roof of a kernel. What a resource bounds counts in full, what it does not
 * bound is as long as before. */
#include "analysis/explain/explain_faster.h"

#include <string.h>

#include "shared/plan/op.h"
#include "shared/plan/plan.h"
#include "sim/cost/cost_model.h"
#include "sim/predict/sim.h"

enum { PARTS = 11 }; /* one of so many goes */

const char *lw_resource_name(int r)
{
    static const char *const names[] = {"clock", "memory", "network", "host"};

    return r >= 0 && r < LW_N_RESOURCES ? names[r] : NULL;
}

const char *lw_faster_word(int how)
{
    static const char *const words[] = {"simulated", "at_most"};

    return how >= 0 && how <= LW_FASTER_AT_MOST ? words[how] : NULL;
}

enum lw_status lw_explain_simulate(const struct lw_plan *plan, const struct lw_cluster *cluster,
                                   const struct lw_cost *cost, lw_ps *step, lw_ps *exposed_comm,
                                   struct lw_sim_stats *stats, struct lw_err *err)
{
    struct lw_sim_options o = lw_sim_options_default();
    struct lw_timeline t = {0};
    struct lw_summary s = {0};
    struct lw_sim_stats own;

    o.n_steps = lw_sim_warmup_steps(plan) + 1;
    o.cost = cost;
    enum lw_status st = lw_sim_run(plan, cluster, &o, &t, stats ? stats : &own, err);
    if (st == LW_OK)
        st = lw_timeline_measure(&t, plan, o.n_steps - 1, &s, err);
    if (st == LW_OK) {
        *step = s.step;
        if (exposed_comm)
            *exposed_comm = s.ranks[s.worst].exposed_comm;
    }
    lw_summary_free(&s);
    lw_timeline_free(&t);
    return st;
}

/* --- a faster resource ------------------------------------------------------------------------ */

/* A plan and a cluster of which some times are shorter; borrows the rest. */
struct faster {
    struct lw_arena arena;
    struct lw_plan plan;
    struct lw_cluster cluster;
    struct lw_cost given; /* of the network that is faster */
    int32_t *copy_of;     /* [n_works] the shorter work; -1 = none yet */
};

static lw_ps ten_parts(const void *ctx, const struct lw_cost_query *query)
{
    const struct lw_cost *given = ctx;
    struct lw_cost_query q = *query;

    q.bytes -= q.bytes / PARTS;
    return given->time(given->ctx, &q);
}

/* What is left of each bound when `less` of the resource's goes: the simulation lengthens what
 * products bound (device_spread). */
static void shorten_bounds(struct lw_work *w, enum lw_resource r, const lw_ps by[LW_N_OP_BOUNDS],
                           lw_ps less)
{
    lw_ps of[LW_N_BOUNDS], gone[LW_N_BOUNDS];

    for (int k = 0; k < LW_N_BOUNDS; k++) {
        lw_ps alone[LW_N_OP_BOUNDS] = {0};
        alone[k] = by[k];
        of[k] = lw_resource_time(r, alone);
    }
    lw_apportion(less, of, LW_N_BOUNDS, gone);
    for (int k = 0; k < LW_N_BOUNDS; k++)
        w->bound_ps[k] = by[k] - gone[k];
}

/* The op takes a work of its own length: others may share the plan's. */
static void shorten(struct faster *f, struct lw_op *op, enum lw_resource r)
{
    lw_ps by[LW_N_OP_BOUNDS] = {0}, own = lw_plan_work_ps(&f->plan, op);

    if (own <= 0)
        return;
    lw_op_add_bounds(&f->plan, op, own, 0, by);
    lw_ps less = lw_resource_time(r, by) / PARTS;
    if (less == 0)
        return;
    if (op->work < 0) {
        op->work_ps -= less;
        return;
    }
    int32_t *copy = &f->copy_of[op->work];
    if (*copy < 0) {
        *copy = f->plan.n_works++;
        f->plan.works[*copy] = f->plan.works[op->work];
        f->plan.works[*copy].ps -= less;
        shorten_bounds(&f->plan.works[*copy], r, by, less);
    }
    op->work = *copy;
}

/* of NULL: every op. */
static enum lw_status begin(struct faster *f, const struct lw_plan *plan,
                            const struct lw_cluster *cluster, enum lw_resource r,
                            const struct lw_op *of, struct lw_err *err)
{
    f->plan = *plan;
    f->cluster = *cluster;
    LW_TAKE(&f->arena, f->plan.ops, plan->n_ops, err);
    LW_TAKE(&f->arena, f->plan.works, 2L * plan->n_works, err);
    LW_TAKE(&f->arena, f->copy_of, plan->n_works, err);
    for (int32_t i = 0; i < plan->n_ops; i++)
        f->plan.ops[i] = lw_op_at(plan, i);
    for (int32_t i = 0; i < plan->n_works; i++)
        f->plan.works[i] = *lw_work_at(plan, i);
    memset(f->copy_of, -1, (size_t)plan->n_works * sizeof *f->copy_of);
    for (int32_t i = 0; i < plan->n_ops && r != LW_RESOURCE_NETWORK; i++)
        if (!of || lw_same_work(&f->plan.ops[i], of))
            shorten(f, &f->plan.ops[i], r);
    return LW_OK;
}

static bool is_copy(enum lw_work_kind k)
{
    return k == LW_WORK_COPY_IN || k == LW_WORK_COPY_OUT || k == LW_WORK_COPY || k == LW_WORK_CAST;
}

/* Copies, launches and updates by the host that the cluster times. */
static enum lw_status change_device(struct faster *f, enum lw_resource r, struct lw_err *err)
{
    struct lw_device *d = &f->cluster.device;
    struct lw_work_table *tables;

    if (r == LW_RESOURCE_HOST) {
        d->launch_ps.value -= d->launch_ps.value / PARTS;
        d->host_link_bytes_per_s.value *= 1.1;
        f->cluster.host_bytes_per_s.value *= 1.1;
    }
    if (r != LW_RESOURCE_MEMORY)
        return LW_OK;
    d->copy_bytes_per_s.value *= 1.1;
    LW_TAKE(&f->arena, tables, d->n_work, err);
    for (int32_t i = 0; i < d->n_work; i++) {
        lw_ps *time;
        tables[i] = d->work[i];
        if (!is_copy(d->work[i].kind))
            continue;
        LW_TAKE(&f->arena, time, d->work[i].n_rows, err);
        for (int32_t k = 0; k < d->work[i].n_rows; k++)
            time[k] = d->work[i].time_ps[k] - d->work[i].time_ps[k] / PARTS;
        tables[i].time_ps = time;
    }
    d->work = tables;
    return LW_OK;
}

static enum lw_status step_with(const struct lw_plan *plan, const struct lw_cluster *cluster,
                                enum lw_resource r, const struct lw_op *of, lw_ps *step,
                                struct lw_err *err)
{
    struct faster f = {.given = lw_sim_cost(cluster)};
    const struct lw_cost less = {ten_parts, &f.given, f.given.ranks_per_node};
    enum lw_status s = begin(&f, plan, cluster, r, of, err);

    if (s == LW_OK && !of)
        s = change_device(&f, r, err);
    if (s == LW_OK)
        s = lw_explain_simulate(&f.plan, &f.cluster, r == LW_RESOURCE_NETWORK ? &less : NULL, step,
                                NULL, NULL, err);
    lw_arena_free(&f.arena);
    return s;
}

/* --- rows ------------------------------------------------------------------------------------- */

/* The works of which the resource bounds most, of equal ones the earlier: their number. */
static int largest(const struct lw_path_bounds *b, enum lw_resource r, int64_t of[LW_FASTER_WORKS])
{
    int n = 0;

    for (int64_t i = 0; i < b->n_works; i++) {
        lw_ps time = lw_resource_time(r, b->works[i].by);
        int at = n;
        while (at > 0 && time > lw_resource_time(r, b->works[of[at - 1]].by))
            at--;
        if (time == 0 || at == LW_FASTER_WORKS)
            continue;
        n += n < LW_FASTER_WORKS;
        for (int k = n - 1; k > at; k--)
            of[k] = of[k - 1];
        of[at] = i;
    }
    return n;
}

/* A work whose time is the plan's. */
static bool is_simulated(const struct lw_plan *plan, const struct lw_op *op)
{
    enum lw_op_class c = lw_op_class((enum lw_op_kind)op->kind);

    return (c == LW_CLASS_COMPUTE || op->kind == LW_OP_HOST) && lw_plan_work_ps(plan, op) >= 0;
}

static enum lw_status settle(const struct lw_plan *plan, const struct lw_cluster *cluster,
                             lw_ps base, struct lw_faster *x, struct lw_err *err)
{
    const struct lw_op *of = x->op >= 0 ? LW_OP(plan, x->op) : NULL;
    lw_ps step;

    x->how = LW_FASTER_AT_MOST;
    x->shorter = (x->bound + PARTS - 1) / PARTS;
    if (!cluster || (of && !is_simulated(plan, of)))
        return LW_OK;
    LW_TRY(step_with(plan, cluster, x->resource, of, &step, err));
    x->how = LW_FASTER_SIMULATED;
    x->shorter = base - step;
    return LW_OK;
}

enum lw_status lw_explain_faster(const struct lw_plan *plan, const struct lw_cluster *cluster,
                                 const struct lw_path_bounds *b, struct lw_faster *out, int *n,
                                 struct lw_err *err)
{
    int64_t of[LW_FASTER_WORKS];
    lw_ps base = 0;
    int made = 0;

    if (cluster)
        LW_TRY(lw_explain_simulate(plan, cluster, NULL, &base, NULL, NULL, err));
    for (int r = 0; r < LW_N_RESOURCES; r++) {
        struct lw_faster all = {.resource = (enum lw_resource)r, .op = -1,
                                .bound = lw_resource_time((enum lw_resource)r, b->ps)};
        for (int64_t i = 0; i < b->n_works; i++)
            if (lw_resource_time(all.resource, b->works[i].by) > 0) {
                all.time += b->works[i].time;
                all.n_ops += b->works[i].n_ops;
            }
        out[made++] = all;
        int most = largest(b, all.resource, of);
        for (int k = 0; k < most; k++) {
            const struct lw_path_work *w = &b->works[of[k]];
            out[made++] = (struct lw_faster){.resource = all.resource, .op = w->op,
                                             .n_ops = w->n_ops, .time = w->time,
                                             .bound = lw_resource_time(all.resource, w->by)};
        }
    }
    for (int i = 0; i < made; i++)
        LW_TRY(settle(plan, cluster, base, &out[i], err));
    *n = made;
    return LW_OK;
}

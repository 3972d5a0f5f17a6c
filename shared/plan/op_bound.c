/* What bounds the ops of a plan. Compute has the split of its work, which the lowering takes from
 * the kernels (lower_part/work_bounds.c); the rest of a work is given. Copies and communication
 * that the cluster times are bound by the device's memory, those to and from the host by the host
 * (its link), and by the network; where a recording gives their time, it may hold waits, and
 * nothing is said about them. */
#include "shared/plan/op_bound.h"

#include <string.h>

#include "shared/numbers/checked.h"
#include "shared/plan/op.h"
#include "shared/strategy/strategy.h"
#include "shared/workload/workload.h"

static const struct {
    const char *name, *key;
} bounds[LW_N_OP_BOUNDS] = {
    [LW_BOUND_COMPUTE] = {"products", "compute"},   [LW_BOUND_MEMORY] = {"device memory", "memory"},
    [LW_BOUND_LAUNCH] = {"launches", "launch"},     [LW_BOUND_HOST] = {"the host", "host"},
    [LW_BOUND_NETWORK] = {"the network", "network"}, [LW_BOUND_MEASURED] = {"measured", "measured"},
    [LW_BOUND_UNKNOWN] = {"not known", "unknown"},
};

const char *lw_op_bound_name(int bound)
{
    return bounds[bound].name;
}

const char *lw_op_bound_key(int bound)
{
    return bounds[bound].key;
}

void lw_apportion(int64_t total, const int64_t *weights, int n, int64_t *out)
{
    __int128 sum = 0, before = 0;
    int64_t given = 0;

    for (int i = 0; i < n; i++)
        sum += weights[i];
    for (int i = 0; i < n; i++) {
        before += weights[i];
        int64_t upto = sum > 0 ? (int64_t)(total * before / sum) : 0;
        out[i] = upto - given;
        given = upto;
    }
}

bool lw_op_is_host_update(const struct lw_plan *p, const struct lw_op *op)
{
    return op->kind == LW_OP_OPTIMIZER && op->work < 0 && op->work_ps < 0 && p->strategy &&
           p->strategy->offload == LW_OFFLOAD_UPDATE;
}

int64_t lw_host_update_bytes(int64_t own_states, int64_t beside)
{
    const int64_t f32 = 4, half = 2;

    if (own_states > 0 && own_states < LW_MASTER_AND_ADAM_BYTES)
        return beside + half + 2 * (half + own_states);
    return beside + f32 + 2 * lw_half_states(own_states, 2);
}

static bool over_host_link(const struct lw_op *op)
{
    return op->kind == LW_OP_LOAD || op->kind == LW_OP_STORE;
}

/* The one bound of ops that have no split. */
static int bound_of(const struct lw_plan *p, const struct lw_op *op)
{
    lw_ps own = lw_plan_work_ps(p, op);

    switch (lw_op_class((enum lw_op_kind)op->kind)) {
    case LW_CLASS_HOST:
        return strcmp(op->name, LW_OP_ACCUMULATE) == 0 ? LW_BOUND_MEMORY : LW_BOUND_HOST;
    case LW_CLASS_COPY:
        return own >= 0 ? LW_BOUND_MEASURED : over_host_link(op) ? LW_BOUND_HOST : LW_BOUND_MEMORY;
    case LW_CLASS_COLLECTIVE:
    case LW_CLASS_P2P: return own > 0 ? LW_BOUND_MEASURED : LW_BOUND_NETWORK;
    default:
        return own >= 0                      ? LW_BOUND_MEASURED
               : lw_op_is_host_update(p, op) ? LW_BOUND_HOST
                                             : LW_BOUND_UNKNOWN;
    }
}

lw_ps lw_spread_more(lw_ps products, int64_t parts)
{
    const __int128 all = 1000000000;
    __int128 more = ((__int128)products * parts + all / 2) / all;

    return more > INT64_MAX ? INT64_MAX : (lw_ps)more;
}

void lw_op_add_bounds(const struct lw_plan *p, const struct lw_op *op, lw_ps time, int64_t spread,
                      lw_ps out[LW_N_OP_BOUNDS])
{
    const struct lw_work *w = op->work >= 0 ? lw_work_at(p, op->work) : NULL;
    lw_ps weights[LW_N_OP_BOUNDS] = {0}, parts[LW_N_OP_BOUNDS], rest = w ? w->ps : 0;

    for (int k = 0; w && k < LW_N_BOUNDS; k++) {
        weights[k] = w->bound_ps[k];
        rest -= w->bound_ps[k];
    }
    if (!w || rest == w->ps || w->ps <= 0) {
        out[bound_of(p, op)] += time;
        return;
    }
    weights[LW_BOUND_MEASURED] = rest;
    weights[LW_BOUND_COMPUTE] = lw_add_sat(weights[LW_BOUND_COMPUTE],
                                           lw_spread_more(weights[LW_BOUND_COMPUTE], spread));
    lw_apportion(time, weights, LW_N_OP_BOUNDS, parts);
    for (int k = 0; k < LW_N_OP_BOUNDS; k++)
        out[k] += parts[k];
}

int lw_op_bound(const struct lw_plan *p, const struct lw_op *op)
{
    lw_ps out[LW_N_OP_BOUNDS] = {0}, own = lw_plan_work_ps(p, op);
    int most = 0;

    lw_op_add_bounds(p, op, own > 0 ? own : 1, 0, out);
    for (int k = 1; k < LW_N_OP_BOUNDS; k++)
        most = out[k] > out[most] ? k : most;
    return most;
}

const char *lw_op_time_source(const struct lw_plan *p, const struct lw_op *op)
{
    enum lw_op_class class = lw_op_class((enum lw_op_kind)op->kind);
    bool moves = class == LW_CLASS_COLLECTIVE || class == LW_CLASS_P2P;
    lw_ps own = lw_plan_work_ps(p, op);

    if (own < 0 || (moves && own == 0))
        return "cluster";
    return lw_time_source_word(op->work >= 0 ? (int)lw_work_at(p, op->work)->source
                                             : LW_TIME_GIVEN);
}

/* The size of a plan from its workload and strategy alone, so that one that would take hours or all
 * memory is refused at once. An upper bound of the ops: each module and parameter counts as those
 * with the most ops do. tests/shared/lower/test_plan_size.c holds it to 1 to 24 times the ops of
 * small random plans, and to 4 times those of a long pipeline. */
#include "shared/lower/plan_size.h"

#include <inttypes.h>

#include "shared/lower_layout/lowering.h"
#include "shared/numbers/checked.h"

/* Measured of `lapwing sim`: an op of a plan, the tables of its proofs, and its times in two
 * predicted steps. Ops of several micro-batches share rows (74 to 136 bytes an op then). */
enum { BYTES_PER_OP = 260, BYTES_PER_SHARED_OP = 140 };

/* Several ranks hold the same parameters. */
static bool shards(const struct lw_strategy *s)
{
    return s->dp * s->cp > 1 || (s->pp > 1 && s->schedule == LW_SCHEDULE_DUALPIPE);
}

/* Of one module and micro-batch. */
static int64_t ops_of_module(const struct lw_workload *w, const struct lw_strategy *s)
{
    int64_t calls = 1;

    for (int32_t m = 0; s->tp > 1 && m < w->n_modules; m++)
        calls = lw_module_at(w, m)->tp_calls > calls ? lw_module_at(w, m)->tp_calls : calls;
    /* forward, both halves of backward, what is recomputed, and as many sums */
    calls *= s->sequence_parallel ? 3 : 1;
    calls *= lw_overlaps_pieces(s) ? LW_TENSOR_PIECES : 1;
    /* of each step of a ring, forward, again and backward: two messages and an op */
    int64_t exchange = s->cp == 1 ? 0 : s->cp_comm == LW_CP_P2P ? 9 * s->cp + 6 : 6;
    int64_t experts = s->ep > 1 ? 8 : 0, units = 0;

    if (shards(s) && s->zero == 3)
        units = s->unit_copies ? 16 : 8;
    return exchange + experts + units + (s->tp > 1 || s->pp > 1 ? 8 * calls : 4);
}

/* A backward is split where gradients become ready within a module. */
static int64_t splits(const struct lw_workload *w)
{
    int64_t n = 0;

    for (int32_t i = 1; i < w->n_params; i++)
        n += lw_param_at(w, i).module == lw_param_at(w, i - 1).module &&
             lw_param_at(w, i).ready_ps != lw_param_at(w, i - 1).ready_ps;
    return n;
}

/* Variants of a pass: with buckets as first and as rebuilt, and those that only accumulate. */
static int64_t variants(const struct lw_strategy *s)
{
    return 1 + shards(s) + s->static_graph + (s->no_sync > 0);
}

struct lw_plan_size lw_plan_size_estimate(const struct lw_workload *w, const struct lw_strategy *s)
{
    int64_t of_backward =
        lw_add_sat(lw_mul_sat(ops_of_module(w, s), w->n_modules), 2 * splits(w));
    /* gradients are reduced once, or with each micro-batch */
    bool each = s->pp == 1 && (s->sync_each || (shards(s) && s->zero >= 2));
    int64_t of_params = lw_mul_sat(6 * (int64_t)w->n_params + 16, each ? s->micro_batches : 1);
    int64_t ops = lw_mul_sat(lw_add_sat(lw_mul_sat(of_backward, s->micro_batches), of_params),
                             variants(s));

    bool repeats = s->micro_batches >= 4;

    return (struct lw_plan_size){
        ops, lw_mul_sat(ops, repeats ? BYTES_PER_SHARED_OP : BYTES_PER_OP), repeats};
}

/* A sum that is cut off at the largest number is said to be larger. */
static enum lw_status refuse(const struct lw_workload *w, const struct lw_strategy *s,
                             struct lw_plan_size size, int64_t limit, struct lw_err *err)
{
    bool many = size.ops == INT64_MAX, large = size.bytes == INT64_MAX;
    bool millions = size.ops >= 1000000, gb = size.bytes >= 1000000000;
    const char *fewer = s->micro_batches == 1 ? "" : "choose fewer --micro-batches, or ";

    if (lw_overlaps_pieces(s))
        fewer = s->micro_batches == 1 ? "choose --tp-overlap off, or "
                                      : "choose fewer --micro-batches or --tp-overlap off, or ";
    else if (s->cp_comm == LW_CP_P2P && s->cp > 1)
        fewer = s->micro_batches == 1
                    ? "choose --cp-comm-type all-gather, or "
                    : "choose fewer --micro-batches or --cp-comm-type all-gather, or ";
    return lw_fail(err, LW_EINVAL,
                   "--micro-batches %" PRId64 " of %d modules and %d parameters: %s %" PRId64
                   "%s ops, which take %s %" PRId64 " %s of memory; --max-ops is %" PRId64
                   ": %sraise --max-ops (at most %d)",
                   s->micro_batches, w->n_modules, w->n_params, many ? "more than" : "up to",
                   millions ? size.ops / 1000000 + (!many && size.ops % 1000000 != 0) : size.ops,
                   millions ? " million" : "", large ? "more than" : "about",
                   gb ? size.bytes / 1000000000 : size.bytes / 1000000 + 1, gb ? "GB" : "MB",
                   limit, fewer, LW_PLAN_OPS_MOST);
}

enum lw_status lw_plan_size_check(const struct lw_workload *w, const struct lw_strategy *s,
                                  struct lw_err *err)
{
    int64_t limit = s->max_ops > 0 ? s->max_ops : LW_PLAN_OPS_LIMIT;

    if (w->n_modules < 1)
        return lw_fail(err, LW_EINVAL, "workload '%s' has no modules", w->name);
    struct lw_plan_size size = lw_plan_size_estimate(w, s);
    if (size.ops <= limit)
        return LW_OK;
    return refuse(w, s, size, limit, err);
}

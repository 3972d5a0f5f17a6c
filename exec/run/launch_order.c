/* Launch order, planned against real, set of buckets by set (each part of the model that a rank
 * holds has a reducer of its own). The plan fixes the order of collectives; the reducer's state
 * machine, given the gradients in the order in which they really became ready, must come to the
 * same one. A gradient is ready when the op that copies it into its bucket has ended, or, where
 * nothing is copied, the backward op that completes it. */
#include "exec/run/launch_order.h"

#include "shared/base/sort.h"
#include "shared/bucket/reducer.h"
#include "shared/numbers/order.h"
#include "shared/workload/sparse.h"

struct moment {
    int64_t at_ns;
    int32_t op;
};

struct check {
    const struct lw_plan *plan;
    const struct exec_layout *layout;
    struct lw_program program;
    const struct exec_stamp *stamps;
    int32_t rank, first_bucket, n_buckets;
    struct lw_arena arena;
    struct lw_reducer *reducer;
    struct moment *ready, *begun; /* [n_ops] ops that make gradients ready; collectives */
    int32_t n_ready, n_begun;
    int32_t *asked, *launches, n_asked; /* [n_ops], [n_buckets] in the set's own numbers */
    int32_t *unused, n_unused;
};

LW_COMPARATOR(by_time, struct moment, a->at_ns, b->at_ns, a->op, b->op)

static bool makes_ready(const struct check *c, const struct lw_op *op)
{
    if (op->n_ready == 0)
        return false;
    bool copied = c->layout->copied_in[c->plan->ready[op->first_ready]];
    return copied ? op->kind == LW_OP_COPY_IN : lw_op_class(op->kind) == LW_CLASS_COMPUTE;
}

/* The first op of a bucket's reduction. */
static bool reduces(const struct lw_plan *p, int32_t op)
{
    enum lw_op_kind k = p->ops[op].kind;

    if (p->comms[p->ops[op].comm].purpose == LW_COMM_REPLICAS)
        return false;
    return k == LW_OP_ALL_REDUCE || k == LW_OP_REDUCE || k == LW_OP_REDUCE_SCATTER ||
           (k == LW_OP_ALL_GATHER && lw_plan_sparse_turn(p, op) == LW_SPARSE_SHAPES);
}

static void note_moments(struct check *c)
{
    for (int32_t i = 0; i < c->program.n_ops; i++) {
        const struct lw_op *op = &c->plan->ops[c->program.first_op + i];
        if (makes_ready(c, op))
            c->ready[c->n_ready++] = (struct moment){c->stamps[i].end_ns, i};
        if (op->comm >= 0 && op->bucket >= c->first_bucket &&
            op->bucket < c->first_bucket + c->n_buckets &&
            reduces(c->plan, c->program.first_op + i))
            c->begun[c->n_begun++] = (struct moment){c->stamps[i].start_ns, i};
    }
    lw_sort(c->ready, c->n_ready, by_time);
    lw_sort(c->begun, c->n_begun, by_time);
}

/* The parameter's bucket in numbers of the set; -1 = in none of it. */
static int32_t bucket_in_set(const struct check *c, int32_t param)
{
    int32_t b = c->layout->bucket_of[param] - c->first_bucket;

    return c->layout->bucket_of[param] >= 0 && b >= 0 && b < c->n_buckets ? b : -1;
}

static enum lw_status begin_round(struct check *c, struct lw_err *err)
{
    LW_TRY(lw_reducer_begin(c->reducer, true, err));
    return lw_reducer_unused(c->reducer, c->unused, c->n_unused, err);
}

static enum lw_status make_reducer(struct check *c, struct lw_err *err)
{
    int32_t n = c->plan->n_params, n_unused = 0;
    int32_t *bucket_of, *unused;

    LW_TAKE(&c->arena, bucket_of, n, err);
    LW_TAKE(&c->arena, unused, n, err);
    for (int32_t p = 0; p < n; p++) {
        bucket_of[p] = bucket_in_set(c, p);
        if (bucket_of[p] >= 0 && !c->layout->produced[p])
            unused[n_unused++] = p;
    }
    LW_TRY(lw_reducer_new(n, bucket_of, c->n_buckets, c->plan->strategy->launch_order, &c->reducer,
                          err));
    lw_reducer_set_rules(c->reducer, lw_reducer_rules_of(c->plan->strategy));
    c->unused = unused;
    c->n_unused = n_unused;
    return begin_round(c, err);
}

/* Only the last micro-batch's gradients count: those of the op that ends last for each. */
static bool is_last(const struct check *c, int32_t k, int32_t param)
{
    for (int32_t later = k + 1; later < c->n_ready; later++) {
        const struct lw_op *op = &c->plan->ops[c->program.first_op + c->ready[later].op];
        for (int32_t i = 0; i < op->n_ready; i++)
            if (c->plan->ready[op->first_ready + i] == param)
                return false;
    }
    return true;
}

static enum lw_status feed(struct check *c, struct lw_err *err)
{
    for (int32_t k = 0; k < c->n_ready; k++) {
        const struct lw_op *op = &c->plan->ops[c->program.first_op + c->ready[k].op];
        for (int32_t i = 0; i < op->n_ready; i++) {
            int32_t p = c->plan->ready[op->first_ready + i], n = 0;
            if (bucket_in_set(c, p) < 0 || !c->layout->produced[p])
                continue;
            if (op->kind != LW_OP_COPY_IN && !is_last(c, k, p))
                continue;
            LW_TRY(lw_reducer_mark(c->reducer, p, c->launches, &n, err));
            for (int32_t l = 0; l < n; l++)
                c->asked[c->n_asked++] = c->launches[l];
            if (lw_reducer_finished(c->reducer) && c->n_asked < c->n_begun)
                LW_TRY(begin_round(c, err)); /* of the next micro-batch */
        }
    }
    return LW_OK;
}

static enum lw_status compare(const struct check *c, struct lw_err *err)
{
    for (int32_t k = 0; k < c->n_begun || k < c->n_asked; k++) {
        int32_t ran = k < c->n_begun
                          ? c->plan->ops[c->program.first_op + c->begun[k].op].bucket
                          : -1;
        int32_t asked = k < c->n_asked ? c->asked[k] + c->first_bucket : -1;
        if (ran != asked)
            return lw_fail(err, LW_EFAILED,
                           "launch order of rank %d: collective %d was of bucket %d, but the "
                           "gradients, as they became ready, ask for bucket %d", c->rank, k, ran,
                           asked);
    }
    return LW_OK;
}

static enum lw_status check_all(struct check *c, struct lw_err *err)
{
    LW_TRY(make_reducer(c, err));
    LW_TAKE(&c->arena, c->ready, c->program.n_ops, err);
    LW_TAKE(&c->arena, c->begun, c->program.n_ops, err);
    LW_TAKE(&c->arena, c->asked, (int64_t)c->program.n_ops + c->n_buckets, err);
    LW_TAKE(&c->arena, c->launches, c->n_buckets, err);
    note_moments(c);
    LW_TRY(feed(c, err));
    return compare(c, err);
}

static enum lw_status check_set(const struct check *of, const struct lw_bucket_set *set,
                                struct lw_err *err)
{
    struct check c = *of;

    c.first_bucket = set->first_bucket;
    c.n_buckets = set->n_buckets;
    if (set->n_buckets == 0 || c.layout->stage_at[set->first_bucket] < 0)
        return LW_OK; /* of another variant or stage */
    enum lw_status s = check_all(&c, err);
    lw_reducer_free(c.reducer);
    lw_arena_free(&c.arena);
    return s;
}

enum lw_status exec_launch_order_check(const struct lw_plan *plan, const struct exec_layout *layout,
                                   int32_t variant, int32_t rank, const struct exec_stamp *stamps,
                                   struct lw_err *err)
{
    struct check c = {.plan = plan, .layout = layout, .stamps = stamps, .rank = rank,
                      .program = lw_plan_program(plan, variant, rank)};

    for (int32_t i = 0; i < plan->n_sets; i++)
        LW_TRY(lw_err_context(err, check_set(&c, &plan->sets[i], err), "rank %d", rank));
    return LW_OK;
}

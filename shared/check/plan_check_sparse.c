/* Sparse gradients of a plan: an all-gather of shapes, of indices, of values and a pass that
 * adds up represent the reduction of a bucket that holds one, in this order, each of the bytes
 * that the rows of all members have. How many rows a member sends is what the indices say; it is
 * enough when all backwards between two optimizer steps touch different rows. O(ops) for each
 * such bucket. */
#include "shared/check/plan_check.h"
#include "shared/plan/op.h"
#include "shared/workload/sparse.h"

static enum lw_status expects(const struct lw_plan *p, int32_t op, const char *what,
                              struct lw_err *err)
{
    return lw_plan_op_fail(p, op, err, ": a sparse gradient's bucket expects %s", what);
}

/* Backwards that complete the parameter in a program. */
static int64_t completions(const struct lw_plan *p, struct lw_program g, int32_t param)
{
    int64_t n = 0;

    for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++)
        for (int32_t r = 0; lw_op_at(p, i).kind != LW_OP_COPY_IN && r < lw_op_at(p, i).n_ready; r++)
            n += p->ready[lw_op_at(p, i).first_ready + r] == param;
    return n;
}

/* The most between two steps that a pass of the variant ends. */
static int64_t backwards(const struct lw_plan *p, int32_t variant, int32_t role, int32_t param)
{
    int64_t most = 0, n = 0, last = -1, of_last = 0;

    for (int64_t i = 0; i < p->n_passes + (int64_t)(p->n_passes - p->repeat_from); i++) {
        int32_t v = lw_plan_variant_of_pass(p, i);
        if (v != last)
            of_last = completions(p, p->programs[(int64_t)v * p->n_roles + role], param);
        last = v;
        n += of_last;
        if (!p->variants[v].ends_step)
            continue;
        most = v == variant && n > most ? n : most;
        n = 0;
    }
    return most;
}

static enum lw_status check_bytes(const struct lw_plan *p, int32_t op, int64_t rows,
                                  int32_t n_members, struct lw_err *err)
{
    const struct lw_op *o = LW_OP(p, op);
    const struct lw_bucket *b = &p->buckets[o->bucket];
    enum lw_sparse_turn turn = lw_plan_sparse_turn(p, op);
    enum lw_dtype dtype = lw_sparse_dtype(turn, b->dtype);
    int64_t bytes = lw_sparse_bytes(lw_plan_sparse(p, o->bucket), turn, b->dtype, rows, n_members);

    if (o->kind == LW_OP_ALL_GATHER && o->operand < 0 && o->bytes == bytes && o->dtype == dtype)
        return LW_OK;
    return lw_plan_op_fail(p, op, err, ": %lld bytes of %s; %d members with %lld rows gather %lld "
                           "of %s", (long long)o->bytes, lw_dtype_name(o->dtype), n_members,
                           (long long)rows, (long long)bytes, lw_dtype_name(dtype));
}

static bool gathers_on(const struct lw_op *op, const struct lw_op *first)
{
    return op->kind == LW_OP_ALL_GATHER && op->bucket == first->bucket && op->comm == first->comm;
}

/* The three all-gathers, of which `op` is the first. */
static enum lw_status check_gathers(const struct lw_plan *p, const struct lw_program *g, int32_t op,
                                    int32_t rank, int32_t variant, struct lw_err *err)
{
    static const char *const words[] = {"an all-gather of shapes",
                                        "an all-gather of indices after it",
                                        "an all-gather of values after that"};
    const struct lw_op *o = LW_OP(p, op);
    const struct lw_group *group = o->comm >= 0 ? lw_plan_group(p, o->comm, rank) : NULL;
    const struct lw_sparse *x = lw_plan_sparse(p, o->bucket);
    int64_t all = p->params[x->param].numel / x->row_numel, bytes = 0;

    for (int turn = 0; turn < LW_N_SPARSE_TURNS; turn++)
        if (!group || op + turn >= g->first_op + g->n_ops || !gathers_on(LW_OP(p, op + turn), o))
            return expects(p, turn > 0 ? op + turn - 1 : op, words[turn], err);
    int64_t rows =
        lw_op_at(p, op + LW_SPARSE_INDICES).bytes / lw_dtype_size(LW_I64) / group->n_members;
    int64_t needs = lw_sparse_rows(x, p->params[x->param].numel,
                                   backwards(p, variant, lw_plan_role_of(p, rank), x->param));
    for (int turn = 0; turn < LW_N_SPARSE_TURNS; turn++) {
        LW_TRY(check_bytes(p, op + turn, rows, group->n_members, err));
        bytes += lw_op_at(p, op + turn).bytes;
    }
    if (rows < needs || rows > all)
        return lw_fail(err, LW_EPLAN,
                       "bucket %d: %lld rows of each member; its backwards touch %lld, and "
                       "parameter %d '%s' has %lld",
                       o->bucket, (long long)rows, (long long)needs, x->param,
                       p->params[x->param].name, (long long)all);
    if (bytes != p->buckets[o->bucket].bytes)
        return lw_fail(err, LW_EPLAN, "bucket %d: %lld bytes, but %lld are gathered into it",
                       o->bucket, (long long)p->buckets[o->bucket].bytes, (long long)bytes);
    return LW_OK;
}

enum lw_status lw_check_sparse(const struct lw_plan *p, int32_t variant, int32_t role, int32_t op,
                               bool gathered, struct lw_err *err)
{
    const struct lw_op *o = LW_OP(p, op);
    struct lw_program g = p->programs[(int64_t)variant * p->n_roles + role];
    int32_t rank = 0;

    if (gathered && o->kind == LW_OP_COPY)
        return LW_OK;
    if (o->kind != LW_OP_ALL_GATHER)
        return expects(p, op, gathered ? "a copy that adds up" : "an all-gather of shapes", err);
    if (lw_plan_sparse_turn(p, op) != LW_SPARSE_SHAPES)
        return LW_OK; /* looked at with the first */
    if (gathered)
        return expects(p, op, "one reduction", err);
    while (lw_plan_role_of(p, rank) != role)
        rank++;
    return check_gathers(p, &g, op, rank, variant, err);
}

/* Sparse gradients in a plan: a bucket of its own, for which three all-gathers and a pass that adds
 * up stand instead of an all-reduce.
 *
 * What c10d does (pytorch torch/csrc/distributed/c10d/reducer.cpp, mark_variable_ready_sparse: the
 * gradient itself, divided; ProcessGroupGlooDetail.hpp, AsyncSparseAllreduceWork: the rest), in its
 * order:
 *
 *   copy_in      one pass over this rank's rows: divided, and of each row number one
 *   all_gather   nine i64 of each member: the shape, and how many rows
 *   all_gather   the row numbers
 *   all_gather   the values
 *   copy         the sum of all, on the copy stream: where the others' cast back is
 *
 * Nothing is copied out: the sum is the gradient. Rows a rank sends: those of all its backwards
 * of a step, taken to be different (shared/workload/sparse.h). Not modelled: members with fewer
 * rows than others. */
#include <inttypes.h>
#include <stdio.h>

#include "shared/lower_part/lower_part.h"
#include "shared/workload/sparse.h"

static enum lw_status refuse(const struct lw_workload *w, int32_t param, const char *why,
                             struct lw_err *err)
{
    return lw_fail(err, LW_ENOTSUP, "parameter %d '%s' has a sparse gradient: %s", param,
                   lw_param_at(w, param).name, why);
}

/* All rows of all members (two directions: twice as many) and as many backwards are counted in
 * 63 bits. */
static enum lw_status refuse_size(const struct lw_workload *w, const struct lw_strategy *s,
                                  int32_t param, struct lw_err *err)
{
    const struct lw_sparse *x = lw_sparse_of(w->sparse, w->n_sparse, param);
    __int128 bytes = (__int128)(lw_param_at(w, param).numel / x->row_numel) *
                     lw_sparse_row_bytes(x, LW_F64) * 2 * s->dp;
    __int128 backwards = (__int128)s->micro_batches * (s->no_sync + 1) * 2 * s->dp;

    if (bytes <= INT64_MAX && backwards <= INT64_MAX)
        return LW_OK;
    return lw_fail(err, LW_EINVAL,
                   "parameter %d '%s' has a sparse gradient: the rows of %" PRId64 " ranks "
                   "and %" PRId64 " x %" PRId64 " backwards are more than 2^63 bytes",
                   param, lw_param_at(w, param).name, s->dp, s->micro_batches, s->no_sync + 1);
}

enum lw_status lw_sparse_refuse(const struct lw_workload *w, const struct lw_strategy *s,
                                int32_t param, struct lw_err *err)
{
    const struct lw_param *p = LW_PARAM(w, param);

    if (!lw_sparse_of(w->sparse, w->n_sparse, param))
        return refuse(w, param,
                      "the workload does not give the length of its rows and the number of them "
                      "that a micro-batch touches (\"sparse\": param, row_numel, touched_rows)",
                      err);
    if (!p->used)
        return refuse(w, param, "c10d stops when such a parameter is unused", err);
    if (s->zero >= 2)
        return refuse(w, param, "it has no shares to scatter (--zero 0 or 1)", err);
    if (lw_part_has_units(s))
        return refuse(w, param,
                      "it has no shares to scatter (--bucket-policy c10d-2: gradients are "
                      "all-reduced)",
                      err);
    if (!(lw_bucket_policy(s->bucket_policy)->takes & LW_TAKES_SPARSE)) {
        char others[256], why[512];
        snprintf(why, sizeof why, "it cannot lie in a flat buffer (--bucket-policy %s)",
                 lw_bucket_policies_that(LW_TAKES_SPARSE, others));
        return refuse(w, param, why, err);
    }
    if (s->comm_hook != LW_HOOK_NONE)
        return refuse(w, param, "hooks compress flat buckets (--comm-hook none)", err);
    if (s->compat == LW_COMPAT_HAISCALE)
        return refuse(w, param, "hfreduce takes none (--compat none, c10d)", err);
    if (s->clip > 0)
        return refuse(w, param, "its norm is not taken (--clip 0)", err);
    if (s->tp > 1 && p->tp_split != LW_TP_REPLICATED)
        return refuse(w, param,
                      "which of its rows lie on which rank of a tensor group is not known "
                      "(--tp 1)",
                      err);
    for (int32_t i = param + 1; i < w->n_params; i++)
        if (lw_param_at(w, i).tied == param)
            return refuse(w, param, "it is tied, and the other one's is not", err);
    return refuse_size(w, s, param, err);
}

const struct lw_sparse *lw_part_sparse(const struct lw_part *d, int32_t param)
{
    const struct lw_sparse *x = lw_sparse_of(d->w->sparse, d->w->n_sparse, param);

    return x && d->reduced[param] ? x : NULL;
}

const struct lw_sparse *lw_part_sparse_bucket(const struct lw_part *d,
                                              const struct lw_part_set *set, int32_t b)
{
    int32_t first = set->buckets.first[b];

    return set->buckets.first[b + 1] - first == 1 ? lw_part_sparse(d, set->buckets.items[first])
                                                  : NULL;
}

int64_t lw_part_rows(const struct lw_part *d, const struct lw_sparse *x, int32_t n_members)
{
    return lw_sparse_rows(x, lw_param_at(d->w, x->param).numel, d->n_backwards * n_members);
}

int64_t lw_part_gathered(const struct lw_part *d, const struct lw_sparse *x,
                         enum lw_sparse_turn turn, enum lw_dtype dtype)
{
    return lw_sparse_bytes(x, turn, dtype, lw_part_rows(d, x, 1), d->n_members);
}

int64_t lw_part_bucket_bytes(const struct lw_part *d, const struct lw_part_set *set, int32_t b)
{
    const struct lw_sparse *x = lw_part_sparse_bucket(d, set, b);
    int64_t bytes = 0;

    for (int turn = 0; x && turn < LW_N_SPARSE_TURNS; turn++)
        bytes += lw_part_gathered(d, x, (enum lw_sparse_turn)turn, set->dtype[b]);
    return x ? bytes : set->elements[b] * lw_dtype_size(set->dtype[b]);
}

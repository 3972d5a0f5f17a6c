/* The reduction of a sparse gradient: the three all-gathers and the sum that
 * shared/lower_part/lower_sparse.c describes. */
#include "shared/lower_ops/writer.h"
#include "shared/plan/op.h"
#include "shared/workload/sparse.h"

int32_t lw_write_sparse(struct lw_writer *k, const struct lw_writer_part *x, int32_t b,
                        int32_t after)
{
    static const char *const names[LW_N_SPARSE_TURNS] = {"sparse shapes", "sparse indices",
                                                         "sparse values"};
    const struct lw_part *d = x->d;
    const struct lw_sparse *rows = lw_part_sparse_bucket(d, x->set, b);
    enum lw_dtype dtype = x->set->dtype[b];

    for (int turn = 0; turn < LW_N_SPARSE_TURNS; turn++) {
        enum lw_sparse_turn t = (enum lw_sparse_turn)turn;
        struct lw_op op =
            lw_write_moved(k, LW_OP_ALL_GATHER, k->l->data, lw_part_gathered(d, rows, t, dtype),
                           lw_sparse_dtype(t, dtype), names[t]);
        op.bucket = x->set->first_bucket + b;
        after = lw_builder_op(k->l->b, &op, &after, 1);
    }
    struct lw_op sum =
        lw_write_moved(k, LW_OP_COPY, (struct lw_line){-1, k->l->copy},
                       d->n_members * lw_part_rows(d, rows, 1) * lw_sparse_row_bytes(rows, dtype),
                       dtype, "sparse sum");
    sum.bucket = x->set->first_bucket + b;
    return lw_builder_op(k->l->b, &sum, &after, 1);
}

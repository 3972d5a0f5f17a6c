/* The end of a step on one rank: the optimizer after everything that was reduced, then the flat
 * buffers that bring sharded weights to all members. */
#include "shared/program_lower.h"

/* The new weights reach every member: flat buffer by flat buffer, in order. */
static void spread_weights(struct lw_writer *k, int32_t optimizer)
{
    k->n_deps = 0;
    for (int32_t i = 0; i < k->n_parts; i++) {
        const struct lw_part_shards *h = &k->parts[i].d->shards;
        for (int32_t b = 0; b < h->n_buffers; b++) {
            const struct lw_part_buffer *f = &h->buffers[b];
            if (f->module >= 0)
                continue; /* gathered where it is used */
            struct lw_op op = lw_write_collective(
                k, f->owner < 0 ? LW_OP_ALL_GATHER : LW_OP_BROADCAST,
                f->elements * lw_dtype_size(f->dtype), f->dtype);
            if (f->owner >= 0)
                lw_write_root(k, &op, f->owner);
            op.bucket = h->first_bucket + b;
            op.name = "weights";
            k->deps[k->n_deps++] = lw_builder_op(k->l->b, &op, &optimizer, 1);
        }
    }
    if (k->n_deps > 0)
        lw_write_wait(k, "weights", k->deps, k->n_deps);
}

void lw_write_update(struct lw_writer *k)
{
    struct lw_op op = lw_builder_blank(LW_OP_OPTIMIZER, k->l->compute);

    k->micro_batch = -1;
    lw_write_tied(k);
    lw_write_model_numbers(k);
    lw_write_gap(k, LW_GAP_BEFORE_OPTIMIZER);
    if (k->n_deps == 0)
        k->deps[k->n_deps++] = k->last_compute;
    op.work = k->l->optimizer_work[k->role];
    op.stage = k->stage;
    spread_weights(k, lw_write_compute(k, &op, k->deps, k->n_deps));
    lw_write_gap(k, LW_GAP_AFTER_OPTIMIZER);
}

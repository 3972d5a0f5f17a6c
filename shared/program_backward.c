/* The backward of a part: its stretches, each followed by what its ready gradients set off. */
#include "shared/program_lower.h"

enum lw_status lw_write_backward(struct lw_writer *k, struct lw_writer_part *x, bool reduce,
                                 struct lw_err *err)
{
    const struct lw_part *d = x->d;
    const struct lw_backward *back = &d->back;

    for (int32_t i = 0; i < back->n_stretches; i++) {
        const struct lw_stretch *s = &back->stretches[i];
        struct lw_op op = lw_builder_blank(LW_OP_BACKWARD, k->l->compute);
        op.work = d->stretch_work[i];
        op.module = lw_part_module(d, s->module);
        op.stage = k->stage;
        op.micro_batch = k->micro_batch;
        op.name = d->w->modules[s->module].name;
        lw_write_compute(k, &op, NULL, 0);
        for (int32_t r = 0; r < s->n_ready; r++)
            lw_builder_ready(k->l->b, lw_part_param(d, back->ready[s->first_ready + r]));
        if (reduce && !k->pass->after_backward)
            LW_TRY(lw_write_ready(k, x, back->ready + s->first_ready, s->n_ready, err));
    }
    return LW_OK;
}

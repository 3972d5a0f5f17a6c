/* The backward of a part. A whole one runs the recorded stretches, each followed by what its ready
 * gradients set off. Split into halves, the input's gradient and the weights' are an op per module
 * each, and the gradients of a module are complete at the end of its weights' op. */
#include "shared/program_lower.h"

static void add_module_op(struct lw_writer *k, const struct lw_part *d, enum lw_op_kind kind,
                          int32_t module, int32_t work, int32_t input)
{
    struct lw_op op = lw_builder_blank(kind, k->l->compute);

    op.work = work;
    op.module = lw_part_module(d, module);
    op.stage = k->stage;
    op.micro_batch = k->micro_batch;
    op.name = d->w->modules[module].name;
    lw_write_compute(k, &op, &input, input >= 0);
}

static enum lw_status add_ready(struct lw_writer *k, struct lw_writer_part *x, const int32_t *params,
                                int32_t n, bool reduce, struct lw_err *err)
{
    for (int32_t r = 0; r < n; r++)
        lw_builder_ready(k->l->b, lw_part_param(x->d, params[r]));
    if (reduce && !k->pass->after_backward)
        return lw_write_ready(k, x, params, n, err);
    return LW_OK;
}

static enum lw_status whole(struct lw_writer *k, struct lw_writer_part *x, int32_t input,
                            bool reduce, int32_t *output, struct lw_err *err)
{
    const struct lw_part *d = x->d;
    const struct lw_backward *back = &d->back;

    for (int32_t i = 0; i < back->n_stretches; i++) {
        const struct lw_stretch *s = &back->stretches[i];
        add_module_op(k, d, LW_OP_BACKWARD, s->module, d->stretch_work[i], i == 0 ? input : -1);
        *output = k->last_compute;
        LW_TRY(add_ready(k, x, back->ready + s->first_ready, s->n_ready, reduce, err));
    }
    return LW_OK;
}

enum lw_status lw_write_backward(struct lw_writer *k, struct lw_writer_part *x, enum lw_op_kind kind,
                                 int32_t input, bool reduce, int32_t *output, struct lw_err *err)
{
    const struct lw_part *d = x->d;

    if (kind == LW_OP_BACKWARD)
        return whole(k, x, input, reduce, output, err);
    for (int32_t m = d->w->n_modules - 1; m >= 0; m--) {
        bool weights = kind == LW_OP_BACKWARD_WEIGHT, first = m == d->w->n_modules - 1;
        add_module_op(k, d, kind, m, weights ? d->weight_work[m] : d->input_work[m],
                      first ? input : -1);
        *output = k->last_compute;
        if (weights)
            LW_TRY(add_ready(k, x, d->ready_of + d->first_ready_of[m],
                             d->first_ready_of[m + 1] - d->first_ready_of[m], reduce, err));
    }
    return LW_OK;
}

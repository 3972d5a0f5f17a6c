/* The backward of a part. A whole one runs the recorded stretches, each followed by what its
 * ready gradients set off. Split into halves, the input's gradient and the weights' are ops of
 * their own per module, and the gradients of a module are complete at the end of its weights'
 * op. What is recomputed of a module is before the first of its backward. */
#include "shared/lower_ops/writer.h"

static enum lw_status add_ready(struct lw_writer *k, struct lw_writer_part *x,
                                const int32_t *params, int32_t n, bool reduce, struct lw_err *err)
{
    lw_write_complete(k, x->d, params, n);
    if (reduce && !k->pass->after_backward)
        return lw_write_ready(k, x, params, n, err);
    return LW_OK;
}

/* What a module's backward exchanges before or after a stretch; `input` as of lw_write_module. */
static void exchange(struct lw_writer *k, const struct lw_part *d, int32_t module, int32_t stretch,
                     bool after, int32_t input)
{
    const int32_t *first = d->work.first_step;

    if (first)
        lw_write_exchange(k, d, module,
                          (struct lw_steps){d->work.steps + first[2 * stretch + after],
                                            first[2 * stretch + after + 1] -
                                                first[2 * stretch + after]},
                          input);
}

static enum lw_status whole(struct lw_writer *k, struct lw_writer_part *x, int32_t input,
                            bool reduce, int32_t *output, struct lw_err *err)
{
    const struct lw_part *d = x->d;
    const struct lw_backward *back = &d->back;
    lw_ps window = 0;

    for (int32_t i = 0; i < back->n_stretches; i++) {
        const struct lw_stretch *s = &back->stretches[i];
        bool last = i + 1 == back->n_stretches || s[1].module != s->module;
        if (i == 0 || s[-1].module != s->module) {
            lw_write_units(k, x, s->module, -1);
            lw_write_load_activations(k, d, s->module);
            lw_write_again(k, d, s->module);
            window = s->start;
        }
        exchange(k, d, s->module, i, false, i == 0 ? input : -1);
        lw_write_grad_room(k, x, s->module, back->ready + s->first_ready, s->n_ready);
        struct lw_ring ring = lw_ring_of(d->s, lw_module_at(d->w, s->module));
        int32_t step = lw_ring_backward_step(&ring, s->start - window);
        int32_t received = step < 0 ? -1 : lw_write_ring(k, d, s->module, true, step, -1);
        lw_write_work(k, d, LW_OP_BACKWARD, s->module, d->work.stretch[i], i == 0 ? input : -1);
        lw_write_need_activations(k);
        k->after = step < 0 ? k->after : received;
        if (i + 1 == back->n_stretches)
            *output = k->last_compute;
        lw_write_complete(k, d, back->ready + s->first_ready, s->n_ready);
        exchange(k, d, s->module, i, true, -1);
        if (i + 1 == back->n_stretches && k->after >= 0)
            *output = d->s->tp_overlap == LW_TP_OVERLAP_OFF
                          ? k->after
                          : lw_write_wait(k, "sum", NULL, 0); /* of a sum and what is beside it */
        if (last)
            lw_write_free_units(k, x, s->module);
        if (reduce && !k->pass->after_backward)
            LW_TRY(lw_write_ready(k, x, back->ready + s->first_ready, s->n_ready, err));
    }
    lw_write_free_root(k, x);
    return LW_OK;
}

static int32_t input_half(struct lw_writer *k, struct lw_writer_part *x, int32_t input)
{
    const struct lw_part *d = x->d;
    int32_t output = -1;

    for (int32_t m = d->w->n_modules - 1; m >= 0; m--) {
        lw_write_units(k, x, m, -1);
        lw_write_again(k, d, m);
        lw_write_module(k, d, m, LW_OP_BACKWARD_INPUT, d->work.input_steps[m], d->work.input[m],
                        m + 1 == d->w->n_modules ? input : -1);
        output = k->after >= 0 ? k->after : k->last_compute;
        lw_write_free_units(k, x, m);
    }
    lw_write_free_root(k, x);
    return output;
}

enum lw_status lw_write_backward(struct lw_writer *k, struct lw_writer_part *x,
                                 enum lw_op_kind kind, int32_t input, bool reduce, int32_t *output,
                                 struct lw_err *err)
{
    const struct lw_part *d = x->d;

    if (kind == LW_OP_BACKWARD)
        return whole(k, x, input, reduce, output, err);
    if (kind == LW_OP_BACKWARD_INPUT) {
        *output = input_half(k, x, input);
        return LW_OK;
    }
    for (int32_t m = d->w->n_modules - 1; m >= 0; m--) {
        const int32_t *ready = d->work.ready + d->work.first_ready[m];
        int32_t n_ready = d->work.first_ready[m + 1] - d->work.first_ready[m];
        lw_write_grad_room(k, x, m, ready, n_ready);
        lw_write_module(k, d, m, kind, d->work.weight_steps[m], d->work.weight[m], -1);
        LW_TRY(add_ready(k, x, ready, n_ready, reduce, err));
    }
    return LW_OK;
}

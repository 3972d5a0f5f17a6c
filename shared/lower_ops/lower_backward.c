/* The backward of a part. A whole one runs the recorded stretches, each followed by what its
 * ready gradients set off. Split into halves, the input's gradient and the weights' are ops of
 * their own per module, and the gradients of a module are complete at the end of its weights'
 * op. What is recomputed of a module is before the first of its backward. */
#include "shared/lower_ops/writer.h"

static enum lw_status add_ready(struct lw_writer *k, struct lw_writer_part *x,
                                const int32_t *params, int32_t n, bool reduce, struct lw_err *err)
{
    for (int32_t r = 0; r < n; r++)
        lw_builder_ready(k->l->b, lw_part_param(x->d, params[r]));
    if (reduce && !k->pass->after_backward)
        return lw_write_ready(k, x, params, n, err);
    return LW_OK;
}

/* The tensor group's collectives of a module's backward. With sequence parallelism a sum is a
 * reduce-scatter, and what the forward reduce-scattered is gathered: one before the first op,
 * one after each sum inside the module; beside each, its saved inputs, which the weights'
 * gradient reads. */
static void add_gathers(struct lw_writer *k, const struct lw_part *d, int32_t module, int32_t n,
                        int32_t input, bool saved)
{
    const struct lw_module *m = &d->w->modules[module];
    int32_t forward = lw_tensor_calls(d, module, false),
            backward = lw_tensor_calls(d, module, true);
    bool pieces = lw_tensor_gathers_in_pieces(d, module);

    for (int32_t i = 0; i < n; i++)
        if (pieces)
            lw_write_gathers(k, m->tp_forward_bytes / forward, lw_part_module(d, module), input);
        else
            lw_write_sum(k, LW_OP_ALL_GATHER, m->tp_forward_bytes / forward,
                         lw_part_module(d, module), input);
    if (saved && d->s->sequence_parallel && backward > 0)
        lw_write_again_gathered(k, m->tp_backward_bytes / backward, lw_part_module(d, module));
}

static void add_sums(struct lw_writer *k, const struct lw_part *d, int32_t module, int32_t n)
{
    int32_t calls = lw_tensor_calls(d, module, true);

    for (int32_t i = 0; i < n; i++)
        lw_write_sum(k, d->s->sequence_parallel ? LW_OP_REDUCE_SCATTER : LW_OP_ALL_REDUCE,
                     d->w->modules[module].tp_backward_bytes / calls, lw_part_module(d, module),
                     -1);
}

/* Keys and values again before a module's backward, their gradients after it: to those whose
 * they are. */
static void add_keys(struct lw_writer *k, const struct lw_part *d, int32_t module,
                     enum lw_op_kind kind, int32_t input)
{
    if (k->l->cp > 1 && d->w->modules[module].kv_bytes > 0 && d->s->cp_comm != LW_CP_P2P)
        lw_write_keys(k, kind, d->w->modules[module].kv_bytes, lw_part_module(d, module), input);
}

/* Parts of a module's backward that have not begun, and gathers that they begin with. */
struct parts_left {
    int32_t parts, gathers;
};

static int32_t fewer(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

/* Before the first op of a module's backward. */
static struct parts_left enter(struct lw_writer *k, const struct lw_part *d, int32_t module,
                               int32_t input)
{
    int32_t all = lw_tensor_gathers(d, module, true), sums = lw_tensor_calls(d, module, true);
    struct parts_left left = {.parts = sums > 1 ? sums - 1 : 0};

    left.gathers = all > 0 ? fewer(all - 1, left.parts) : 0;
    add_gathers(k, d, module, all - left.gathers, input, true);
    add_keys(k, d, module, LW_OP_ALL_GATHER, input);
    lw_write_tokens(k, d, module, "combine", input);
    return left;
}

static bool sums_after(const struct lw_part *d, int32_t stretch)
{
    for (int32_t k = d->work.marks ? d->work.first_mark[stretch] : 0;
         d->work.marks && k < d->work.first_mark[stretch + 1]; k++)
        if (d->work.marks[k] == LW_TENSOR_SUM)
            return true;
    return false;
}

/* The tensor group's collectives after a stretch. What follows waits for a sum, and the next part
 * begins with its gathers, also where both parts end at the same moment. */
static void add_marked(struct lw_writer *k, const struct lw_part *d, int32_t module,
                       int32_t stretch, struct parts_left *left)
{
    for (int32_t i = d->work.first_mark[stretch]; i < d->work.first_mark[stretch + 1]; i++) {
        if (d->work.marks[i] == LW_TENSOR_GATHERED) {
            lw_write_gathered(k);
        } else if (d->work.marks[i] == LW_TENSOR_SUM) {
            add_sums(k, d, module, 1);
            k->sum = k->after;
            k->after = -1;
        } else if (d->work.marks[i] == LW_TENSOR_SUMMED) {
            k->after = k->sum;
            if (left->parts-- > 0)
                add_gathers(k, d, module, left->gathers-- > 0, -1, true);
        }
    }
}

static enum lw_status whole(struct lw_writer *k, struct lw_writer_part *x, int32_t input,
                            bool reduce, int32_t *output, struct lw_err *err)
{
    const struct lw_part *d = x->d;
    const struct lw_backward *back = &d->back;
    struct parts_left left = {0};
    bool away = false; /* gradients of tokens are with the experts */
    lw_ps window = 0;

    for (int32_t i = 0; i < back->n_stretches; i++) {
        const struct lw_stretch *s = &back->stretches[i];
        if (i == 0 || s[-1].module != s->module) {
            lw_write_units(k, x, s->module, -1);
            lw_write_again(k, d, s->module);
            left = enter(k, d, s->module, i == 0 ? input : -1);
            window = s->start;
            away = true;
        }
        lw_write_grad_room(k, x, s->module, back->ready + s->first_ready, s->n_ready);
        struct lw_ring ring = lw_ring_of(d->s, &d->w->modules[s->module]);
        int32_t step = lw_ring_backward_step(&ring, s->start - window);
        int32_t received = step < 0 ? -1 : lw_write_ring(k, d, s->module, true, step, -1);
        lw_write_work(k, d, LW_OP_BACKWARD, s->module, d->work.stretch[i], i == 0 ? input : -1);
        k->after = step < 0 ? k->after : received;
        if (i + 1 == back->n_stretches)
            *output = k->last_compute;
        for (int32_t r = 0; r < s->n_ready; r++)
            lw_builder_ready(k->l->b, lw_part_param(d, back->ready[s->first_ready + r]));
        bool last = i + 1 == back->n_stretches || s[1].module != s->module;
        if (away && (last || sums_after(d, i))) {
            lw_write_tokens(k, d, s->module, "dispatch", -1);
            away = false;
        }
        if (d->work.marks)
            add_marked(k, d, s->module, i, &left);
        if (last)
            add_keys(k, d, s->module, LW_OP_REDUCE_SCATTER, -1);
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
        int32_t n_sums = lw_tensor_calls(d, m, true), n = n_sums > 1 ? n_sums : 1;
        lw_write_units(k, x, m, -1);
        lw_write_again(k, d, m);
        for (int32_t i = 0, left = lw_tensor_gathers(d, m, true); i < n; i++) {
            int32_t now = i + 1 == n ? left : left > 0;
            add_gathers(k, d, m, now, input, false);
            left -= now;
            if (i == 0) {
                add_keys(k, d, m, LW_OP_ALL_GATHER, input);
                lw_write_tokens(k, d, m, "combine", input);
            }
            lw_write_work(k, d, LW_OP_BACKWARD_INPUT, m, d->work.input[m] + i, input);
            input = -1;
            if (i == 0)
                lw_write_tokens(k, d, m, "dispatch", -1);
            add_sums(k, d, m, n_sums > 0);
        }
        add_keys(k, d, m, LW_OP_REDUCE_SCATTER, -1);
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
        for (int32_t i = 0; d->s->sequence_parallel && i < lw_tensor_calls(d, m, true); i++)
            lw_write_sum(k, LW_OP_ALL_GATHER, /* saved inputs */
                         d->w->modules[m].tp_backward_bytes / lw_tensor_calls(d, m, true),
                         lw_part_module(d, m), -1);
        lw_write_work(k, d, kind, m, d->work.weight[m], -1);
        LW_TRY(add_ready(k, x, ready, n_ready, reduce, err));
    }
    return LW_OK;
}

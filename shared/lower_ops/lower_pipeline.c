/* Forwards, backwards and messages of a pass on one pipeline rank, in the order of lw_grid_order.
 *
 * A receive waits only for its turn on its communicator, without --async-messages also for the op
 * before it; the op that uses the message waits for the receive. A send waits for the op that makes
 * its value. Gradients are reduced during the last backward of their part; host gaps come with the
 * first forward and the first backward of a micro-batch on the rank. */
#include <string.h>

#include <assert.h>

#include "shared/lower_ops/writer.h"

/* got[] of a receive from rank p that is posted when its turn comes: NOT_POSTED - p. */
enum { NOT_POSTED = -2 };

int32_t lw_value_at(const struct lw_writer *k, bool backward, int32_t stage, int32_t mb)
{
    const struct lw_part *d = &k->l->parts[stage];

    assert(d->stage == k->stage);
    return (backward * k->n_places + d->place) * k->l->grid.n_micro_batches + mb;
}

static struct lw_writer_part *part_of(const struct lw_writer *k, int32_t stage)
{
    for (int32_t i = 0; i < k->n_parts; i++)
        if (k->parts[i].d == &k->l->parts[stage])
            return &k->parts[i];
    return NULL;
}

static void write_gap(struct lw_writer *k, bool backward)
{
    bool *written = &k->gap_written[backward * k->l->grid.n_micro_batches + k->micro_batch];

    if (!*written)
        lw_write_gap(k, backward ? LW_GAP_BEFORE_BACKWARD : LW_GAP_BEFORE_FORWARD);
    *written = true;
}

static int32_t last_micro_batch(const struct lw_writer *k, int32_t stage)
{
    const struct lw_grid *g = &k->l->grid;
    int32_t last = g->n_micro_batches - 1;

    return lw_grid_rank_of(g, stage, last) == k->role ? last : g->n_micro_batches / 2 - 1;
}

/* The module after which the value leaves, or before which the gradient does. */
static int32_t boundary(const struct lw_lowering *l, const struct lw_action *a)
{
    const struct lw_part *d = &l->parts[a->kind == LW_OP_FORWARD ? a->stage : a->stage - 1];

    return d->first_module + d->w->n_modules - 1;
}

/* The message that an action uses. If it was sent in parts, the tensor group gathers it only
 * now. */
static int32_t input_of(struct lw_writer *k, const struct lw_action *a, bool backward, int32_t at)
{
    const struct lw_lowering *l = k->l;
    struct lw_action from = {.kind = backward ? LW_OP_BACKWARD : LW_OP_FORWARD,
                             .stage = backward ? a->stage + 1 : a->stage - 1};
    int32_t got = k->got[at];

    if (got < 0 && k->items)
        return lw_write_local_input(k, a);
    if (got < 0 || !lw_scatters_messages(l))
        return got;
    int32_t module = boundary(l, &from);
    return lw_write_whole_message(k, lw_module_at(l->w, module)->output_bytes, module, got);
}

/* Kernels of an optimizer's step that each go over all elements, as PyTorch's loops over parameters
 * launch them (pytorch/pytorch torch/optim/adam.py, _single_tensor_adam: mul_, lerp_, mul_,
 * addcmul_, sqrt, div, add_, addcdiv_; sgd.py, _single_tensor_sgd). The pass that adds gradients is
 * like one of them: it reads two tensors and writes one. */
static int32_t kernels_of(enum lw_optimizer o)
{
    return o == LW_OPTIMIZER_ADAM ? 8 : o == LW_OPTIMIZER_MOMENTUM ? 3 : 1;
}

/* The gradients of a backward are added to those of the step's backwards before it. Those of a pass
 * that does not end the step: as many as all passes of the step but one. */
static void write_accumulation(struct lw_writer *k, struct lw_writer_part *x)
{
    const struct lw_workload *w = k->l->w;
    bool adds = x->has_gradients || !k->pass->ends_step;

    x->has_gradients = true;
    if (!k->l->s->accumulate_pass || !adds || w->optimizer == LW_OPTIMIZER_UNKNOWN)
        return;
    int64_t here = 0, all = lw_workload_numel(w, true);
    if (all == 0)
        return;
    for (int32_t i = 0; i < x->d->w->n_params; i++)
        here += lw_param_has_gradient(LW_PARAM(x->d->w, i)) ? lw_param_at(x->d->w, i).numel : 0;
    struct lw_op op = lw_write_op(k, LW_OP_HOST, k->l->compute, LW_OP_ACCUMULATE);
    op.work_ps = (lw_ps)((__int128)w->optimizer_ps * here / all / kernels_of(w->optimizer));
    if (op.work_ps > 0)
        lw_write_compute(k, &op, NULL, 0);
}

/* Without --async-messages what a forward sent has left before a backward begins, and the other way
 * round: 1F1B and GPipe put a send and the receive after it into one batch that they wait for, and
 * wait for sends between actions of one kind only after the later one (pytorch/pytorch
 * torch/distributed/pipelining/schedules.py@1fd7abc2, _step_microbatches). */
static void wait_for_sends(struct lw_writer *k, bool backward)
{
    bool turns = k->turned != backward;

    k->turned = backward;
    if (k->l->s->async_messages) {
        k->n_sent = 0;
        return;
    }
    if (turns && k->n_sent > 0) {
        lw_write_wait(k, "sent", k->sent, k->n_sent);
        k->n_sent = 0;
    }
}

/* Without --async-messages: what precedes the action has ended, and its message is asked for. */
static void post_receive(struct lw_writer *k, const struct lw_action *a, bool backward, int32_t at)
{
    struct lw_action made = *a;

    if (k->got[at] > NOT_POSTED)
        return;
    made.stage = backward ? a->stage + 1 : a->stage - 1;
    k->got[at] = lw_write_message(k, false, &made, NOT_POSTED - k->got[at], -1, k->last_compute);
}

/* What its part writes of an action; reduce: gradients that are complete go into their buckets. */
static enum lw_status write_part(struct lw_writer *k, struct lw_writer_part *x,
                                 enum lw_op_kind kind, int32_t input, bool reduce, int32_t *output,
                                 struct lw_err *err)
{
    if (!reduce && lw_write_repeat(k, x, kind, input, output))
        return LW_OK;
    const struct lw_written begun = lw_write_begin_repeat(k, input);
    if (kind == LW_OP_FORWARD)
        *output = lw_write_forward(k, x, input);
    else
        LW_TRY(lw_write_backward(k, x, kind, input, reduce, output, err));
    if (!reduce)
        lw_write_end_repeat(k, x, kind, &begun, *output);
    return LW_OK;
}

enum lw_status lw_write_action(struct lw_writer *k, const struct lw_action *a, struct lw_err *err)
{
    struct lw_writer_part *x = part_of(k, a->stage);
    bool backward = a->kind != LW_OP_FORWARD;
    int32_t at = lw_value_at(k, backward, a->stage, a->micro_batch);

    k->micro_batch = a->micro_batch;
    post_receive(k, a, backward, at);
    wait_for_sends(k, backward);
    if (!backward) {
        write_gap(k, false);
        if (x->reducer &&
            (a->micro_batch == last_micro_batch(k, a->stage) || x->d->s->sync_each))
            lw_write_buffers(k, x);
        return write_part(k, x, a->kind, input_of(k, a, false, at), false, &k->made[at], err);
    }
    if (a->kind != LW_OP_BACKWARD_WEIGHT)
        write_gap(k, true);
    if (a->kind != LW_OP_BACKWARD_WEIGHT)
        x->uses_left--;
    bool completes = a->kind != LW_OP_BACKWARD_INPUT && --x->backwards_left == 0;
    int32_t input = a->kind == LW_OP_BACKWARD_WEIGHT ? -1 : input_of(k, a, true, at), output = -1;
    bool round = x->reducer && lw_part_reduces_each(x->d);
    if (a->kind != LW_OP_BACKWARD_INPUT)
        write_accumulation(k, x);
    LW_TRY(write_part(k, x, a->kind, input, (completes || round) && x->reducer, &output, err));
    if (round && !completes)
        LW_TRY(lw_write_round_end(k, x, err));
    if (a->kind != LW_OP_BACKWARD_WEIGHT)
        k->made[at] = output;
    return LW_OK;
}

/* --- messages -------------------------------------------------------------------------------- */

static struct lw_op message_of(const struct lw_writer *k, bool sends, bool backward, int32_t module)
{
    const struct lw_lowering *l = k->l;
    int64_t whole = lw_module_at(l->w, module)->output_bytes;

    return lw_write_moved(k, sends ? LW_OP_SEND : LW_OP_RECV, backward ? l->backward : l->forward,
                          lw_scatters_messages(l) ? (whole + l->tp - 1) / l->tp : whole,
                          l->activation_dtype, backward ? "gradient" : "activation");
}

/* Messages of one module and peer are alike but for the micro-batch and what they wait for. Those
 * of group calls are not: each call has a number. */
int32_t lw_write_message(struct lw_writer *k, bool sends, const struct lw_action *made,
                         int32_t peer, int32_t call, int32_t dep)
{
    struct lw_lowering *l = k->l;
    bool backward = made->kind != LW_OP_FORWARD;
    int32_t module = boundary(l, made);
    struct lw_sent *last = &k->last_sent[sends][backward][dep >= 0];

    if (call < 0 && last->op > 0 && last->module == module && last->peer == peer)
        return lw_builder_again(l->b, last->op - 1, made->micro_batch, &dep, dep >= 0);
    struct lw_op op = message_of(k, sends, backward, module);
    op.module = module;
    op.micro_batch = made->micro_batch;
    op.call = call;
    op.operand = lw_lower_row(l, LW_ROW_PEER, k->role, peer, op.bytes);
    int32_t number = lw_builder_op(l->b, &op, &dep, dep >= 0);
    if (call < 0)
        *last = (struct lw_sent){module, peer, number + 1};
    return number;
}

static void pass_on(struct lw_writer *k, const struct lw_grid_step *s)
{
    const struct lw_action *a = lw_step_action(&k->l->order, s);
    bool backward = a->kind != LW_OP_FORWARD;

    if (s->kind == LW_GRID_SEND) {
        k->sent[k->n_sent++] =
            lw_write_message(k, true, a, s->peer, -1,
                             k->made[lw_value_at(k, backward, a->stage, a->micro_batch)]);
        return;
    }
    int32_t target = lw_action_target(&k->l->grid, a);
    k->got[lw_value_at(k, backward, target, a->micro_batch)] =
        k->l->s->async_messages ? lw_write_message(k, false, a, s->peer, -1, -1)
                                : NOT_POSTED - s->peer;
}

enum lw_status lw_write_pipeline(struct lw_writer *k, struct lw_err *err)
{
    const struct lw_grid_order *o = &k->l->order;

    if (k->l->calls.n_ranks > 0)
        return lw_write_calls(k, err);
    for (int32_t i = o->first[k->role]; i < o->first[k->role + 1]; i++) {
        lw_write_enter_step(k, i);
        if (o->steps[i].kind == LW_GRID_RUN)
            LW_TRY(lw_write_action(k, lw_step_action(o, &o->steps[i]), err));
        else
            pass_on(k, &o->steps[i]);
        lw_write_leave_step(k);
    }
    return LW_OK;
}

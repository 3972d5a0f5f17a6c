/* DualPipe and DualPipeV (DeepSeek-V3 technical report, section 3.2.1): eight steps, the same for
 * both; what differs is how many ranks a half has, which micro-batches each direction carries and
 * which stage serves it. Backwards that are split queue their W; W actions take the oldest. */
#include "shared/schedule/schedule_emit.h"

#include "shared/base/arena.h"

struct direction {
    int32_t stage, next_f, next_b;
};

struct dual {
    struct lw_emit *e;
    struct direction side[2];
    struct lw_action *waiting; /* W still to be done, oldest first */
    int64_t n_waiting, n_taken, capacity;
};

static void forward(struct dual *d, int side)
{
    struct direction *x = &d->side[side];
    lw_emit(d->e, LW_OP_FORWARD, x->stage, x->next_f++);
}

static void backward(struct dual *d, int side, bool split)
{
    struct direction *x = &d->side[side];

    if (!split) {
        lw_emit(d->e, LW_OP_BACKWARD, x->stage, x->next_b++);
        return;
    }
    lw_emit(d->e, LW_OP_BACKWARD_INPUT, x->stage, x->next_b);
    if (lw_reserve(&d->waiting, &d->capacity, d->n_waiting + 1, sizeof *d->waiting) != 0) {
        d->e->failed = true;
        return;
    }
    d->waiting[d->n_waiting++] =
        (struct lw_action){LW_OP_BACKWARD_WEIGHT, x->stage, x->next_b++, false};
}

static void weight(struct dual *d)
{
    if (d->n_taken < d->n_waiting) {
        const struct lw_action *a = &d->waiting[d->n_taken++];
        lw_emit(d->e, a->kind, a->stage, a->micro_batch);
    }
}

static void both(struct dual *d, int f_side, int b_side)
{
    struct direction *f = &d->side[f_side], *b = &d->side[b_side];

    lw_emit_pair(d->e, f->stage, f->next_f++, b->stage, b->next_b++);
}

/* half: ranks of one half; h: the rank's place in it, 0 at the end; n: micro-batches of one
 * direction; depth: stages that a micro-batch passes. */
static void eight_steps(struct dual *d, int32_t half, int32_t h, int32_t n, int32_t depth)
{
    int32_t rest = half - h - 1, main_steps = n - depth + h + 1;
    bool innermost = rest == 0, split = false;

    for (int32_t i = 0; i < 2 * rest; i++)
        forward(d, 0);
    for (int32_t i = 0; i < h + 1; i++) {
        forward(d, 0);
        forward(d, 1);
    }
    for (int32_t i = 0; i < rest; i++) {
        backward(d, 1, true);
        weight(d);
        forward(d, 1);
    }
    for (int32_t i = 0; i < main_steps; i++) {
        if (i == 0 && innermost) { /* apart, so that the neighbour is served earlier */
            forward(d, 0);
            backward(d, 1, false);
        } else {
            both(d, 0, 1);
        }
        both(d, 1, 0);
    }
    for (int32_t i = 0; i < rest; i++) {
        backward(d, 1, false);
        both(d, 1, 0);
    }
    for (int32_t i = 0; i < h + 1; i++) { /* the second half of these backwards is split */
        split = split || (i == (h + 1) / 2 && h % 2 == 1);
        backward(d, 1, split);
        split = split || (i == (h + 1) / 2 && h % 2 == 0);
        backward(d, 0, split);
    }
    for (int32_t i = 0; i < rest; i++) {
        weight(d);
        backward(d, 0, true);
    }
    for (int32_t i = 0; i < h + 1; i++)
        weight(d);
}

static void dualpipe(struct lw_emit *e, const struct lw_schedule_shape *s, int32_t rank)
{
    int32_t p = s->n_ranks, n = s->n_micro_batches / 2;
    bool second = rank >= p / 2;
    struct direction forth = {rank, 0, 0}, back = {p - 1 - rank, n, n};
    struct dual d = {.e = e, .side = {second ? back : forth, second ? forth : back}};

    eight_steps(&d, p / 2, second ? p - 1 - rank : rank, n, p);
    lw_free(d.waiting);
}

static void dualpipev(struct lw_emit *e, const struct lw_schedule_shape *s, int32_t rank)
{
    int32_t p = s->n_ranks;
    struct dual d = {.e = e, .side = {{rank, 0, 0}, {2 * p - 1 - rank, 0, 0}}};

    eight_steps(&d, p, rank, s->n_micro_batches, 2 * p);
    lw_free(d.waiting);
}

static enum lw_status dualpipe_demand(const struct lw_schedule_shape *s, struct lw_err *err)
{
    if (s->n_ranks % 2 || s->n_micro_batches % 2 || s->n_micro_batches < 2 * s->n_ranks)
        return lw_schedule_refuse(s, err,
                      "it needs an even pp and an even number of at least 2 * pp "
                      "micro-batches");
    return LW_OK;
}

static enum lw_status dualpipev_demand(const struct lw_schedule_shape *s, struct lw_err *err)
{
    if (s->n_micro_batches < 2 * s->n_ranks)
        return lw_schedule_refuse(s, err, "it needs at least 2 * pp micro-batches");
    return LW_OK;
}

const struct lw_scheduler lw_scheduler_dualpipe = {
    .rank = dualpipe, .layout = LW_LAYOUT_BIDIR, .chunks = 2, .demand = dualpipe_demand,
    .pairs = LW_PAIRS_BY_RULE,
};
const struct lw_scheduler lw_scheduler_dualpipev = {
    .rank = dualpipev, .layout = LW_LAYOUT_V, .chunks = 2, .demand = dualpipev_demand,
    .pairs = LW_PAIRS_BY_RULE,
};

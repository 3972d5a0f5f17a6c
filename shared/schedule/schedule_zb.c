/* Zero-bubble schedules with a fixed order: ZB-H2 and ZB-V of Qi et al. (ICLR 2024; ZB-V: Qi et al.
 * 2024, "Pipeline Parallelism with Controllable Memory"). Orders in docs/design/schedule.md. */
#include "shared/schedule/schedule_emit.h"

static void zb_h2(struct lw_emit *e, const struct lw_schedule_shape *s, int32_t rank)
{
    int32_t m = s->n_micro_batches, f = 0, n_w = 0;
    int32_t warmup = 2 * (s->n_ranks - rank) - 1;

    while (f < warmup && f < m)
        lw_emit(e, LW_OP_FORWARD, rank, f++);
    for (int32_t i = 0; i < m; i++) {
        lw_emit(e, LW_OP_BACKWARD_INPUT, rank, i);
        if (i >= 2 * rank)
            lw_emit(e, LW_OP_BACKWARD_WEIGHT, rank, n_w++);
        if (f < m)
            lw_emit(e, LW_OP_FORWARD, rank, f++);
    }
    while (n_w < m)
        lw_emit(e, LW_OP_BACKWARD_WEIGHT, rank, n_w++);
}

/* The two stages of a rank and how far each kind of action has come on them. */
struct side {
    int32_t stage, f, i, w;
};

static void forward(struct lw_emit *e, struct side *c)
{
    lw_emit(e, LW_OP_FORWARD, c->stage, c->f++);
}

static void input_of(struct lw_emit *e, struct side *c)
{
    lw_emit(e, LW_OP_BACKWARD_INPUT, c->stage, c->i++);
}

static void weight_of(struct lw_emit *e, struct side *c)
{
    lw_emit(e, LW_OP_BACKWARD_WEIGHT, c->stage, c->w++);
}

/* A V needs 2p-1 micro-batches to fill; with fewer, the order for 2p-1 is written and those that do
 * not exist are left out (as torch does). */
static void zbv(struct lw_emit *e, const struct lw_schedule_shape *s, int32_t rank)
{
    int32_t p = s->n_ranks, m = s->n_micro_batches > 2 * p - 1 ? s->n_micro_batches : 2 * p - 1;
    struct side down = {.stage = rank}, up = {.stage = 2 * p - 1 - rank};

    for (int32_t k = 0; k < 2 * (p - rank) - 1; k++)
        forward(e, &down);
    for (int32_t k = 0; k < rank; k++) {
        forward(e, &up);
        forward(e, &down);
    }
    for (int32_t k = 0; k < p - rank; k++) {
        forward(e, &up);
        input_of(e, &up);
        weight_of(e, &up);
    }
    while (up.f < m) {
        if (down.f < m)
            forward(e, &down);
        input_of(e, &down);
        weight_of(e, &down);
        forward(e, &up);
        input_of(e, &up);
        weight_of(e, &up);
    }
    for (int32_t k = 0; k < rank; k++) {
        input_of(e, &down);
        input_of(e, &up);
    }
    for (int32_t k = 0; k < p - rank; k++) {
        input_of(e, &down);
        weight_of(e, &down);
    }
    while (up.w < m)
        weight_of(e, &up);
    while (down.w < m)
        weight_of(e, &down);
}

const struct lw_scheduler lw_scheduler_zb_h2 = {.rank = zb_h2, .chunks = 1};
const struct lw_scheduler lw_scheduler_zbv = {.rank = zbv, .layout = LW_LAYOUT_V, .chunks = 2};

/* The schedules in which a stage alternates forwards and backwards, and their simplest relatives.
 * Sources: GPipe, 1F1B and the interleaved form of Narayanan et al. (SC'21) section 2;
 * breadth-first order of Lamy-Poirier (2022); group size and warm-up as in pytorch
 * torch/distributed/pipelining/schedules.py @ 00722e64; the order for all of them is written out in
 * docs/design/schedule.md. */
#include <stdio.h>

#include "shared/schedule/schedule_emit.h"

static int32_t least(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

static void gpipe(struct lw_emit *e, const struct lw_schedule_shape *s, int32_t rank)
{
    for (int32_t m = 0; m < s->n_micro_batches; m++)
        lw_emit(e, LW_OP_FORWARD, rank, m);
    for (int32_t m = 0; m < s->n_micro_batches; m++)
        lw_emit(e, LW_OP_BACKWARD, rank, m);
}

static void looped_bfs(struct lw_emit *e, const struct lw_schedule_shape *s, int32_t rank)
{
    for (int32_t c = 0; c < s->n_chunks; c++)
        for (int32_t m = 0; m < s->n_micro_batches; m++)
            lw_emit(e, LW_OP_FORWARD, c * s->n_ranks + rank, m);
    for (int32_t c = s->n_chunks - 1; c >= 0; c--)
        for (int32_t m = s->n_micro_batches - 1; m >= 0; m--)
            lw_emit(e, LW_OP_BACKWARD, c * s->n_ranks + rank, m);
}

/* Micro-batches of one round of the interleaved schedules. */
static int32_t group_of(const struct lw_schedule_shape *s)
{
    int32_t rounds = s->n_micro_batches / s->n_ranks;

    return s->group ? s->group : s->n_micro_batches / (rounds > 1 ? rounds : 1);
}

int32_t lw_interleaved_warmup(const struct lw_schedule_shape *s, int32_t rank)
{
    int64_t warmup =
        (s->n_chunks - 1) * (int64_t)group_of(s) + 2 * (s->n_ranks - 1 - rank);
    int32_t total = s->n_micro_batches * s->n_chunks;

    return warmup < total ? (int32_t)warmup : total;
}

/* Step k of the forwards (or backwards) of a rank: groups of G micro-batches go through chunk 0,
 * the same G through chunk 1, ..., then the next G; the last group may be short. Backwards walk the
 * chunks from the last. */
struct step {
    int32_t stage, micro_batch;
};

static struct step step_of(const struct lw_schedule_shape *s, int32_t group, int32_t rank,
                           int32_t k, bool backward)
{
    int32_t v = s->n_chunks, begin = k / v / group * group;
    int32_t size = least(group, s->n_micro_batches - begin);
    int32_t chunk = (k - begin * v) / size;

    if (backward)
        chunk = v - 1 - chunk;
    return (struct step){chunk * s->n_ranks + rank, begin + (k - begin * v) % size};
}

static void emit_step(struct lw_emit *e, const struct lw_schedule_shape *s, int32_t group,
                      int32_t rank, enum lw_op_kind kind, int32_t k)
{
    struct step at = step_of(s, group, rank, k, kind != LW_OP_FORWARD);

    lw_emit(e, kind, at.stage, at.micro_batch);
}

/* With pairs a forward more comes first, so that the two of a unit need nothing of each other
 * (NVIDIA/Megatron-LM@00611e6e megatron/core/pipeline_parallel/schedules.py,
 * get_pp_rank_microbatches; @00caa53a combined_1f1b.py).
 *
 * Forwards until `warmup`, then forward and backward in turn, then the backwards that are left. A
 * zero-bubble schedule splits the backward: W of the oldest follows once `delay` I are done. */
static void alternate(struct lw_emit *e, const struct lw_schedule_shape *s, int32_t rank,
                      int32_t warmup, bool split, int32_t delay)
{
    int32_t group = group_of(s), total = s->n_micro_batches * s->n_chunks;
    int32_t n_w = 0;

    warmup = least(warmup + s->pairs, total);
    for (int32_t k = 0; k < warmup; k++)
        emit_step(e, s, group, rank, LW_OP_FORWARD, k);
    for (int32_t k = 0; k < total; k++) {
        if (s->pairs && warmup + k < total) {
            struct step f = step_of(s, group, rank, warmup + k, false);
            struct step b = step_of(s, group, rank, k, true);
            lw_emit_pair(e, f.stage, f.micro_batch, b.stage, b.micro_batch);
            continue;
        }
        if (warmup + k < total)
            emit_step(e, s, group, rank, LW_OP_FORWARD, warmup + k);
        emit_step(e, s, group, rank, split ? LW_OP_BACKWARD_INPUT : LW_OP_BACKWARD, k);
        if (split && k >= delay)
            emit_step(e, s, group, rank, LW_OP_BACKWARD_WEIGHT, n_w++);
    }
    while (split && n_w < total)
        emit_step(e, s, group, rank, LW_OP_BACKWARD_WEIGHT, n_w++);
}

static void one_f_one_b(struct lw_emit *e, const struct lw_schedule_shape *s, int32_t rank)
{
    alternate(e, s, rank, s->n_ranks - 1 - rank, false, 0);
}

static void interleaved_1f1b(struct lw_emit *e, const struct lw_schedule_shape *s, int32_t rank)
{
    alternate(e, s, rank, lw_interleaved_warmup(s, rank), false, 0);
}

static void interleaved_zb(struct lw_emit *e, const struct lw_schedule_shape *s, int32_t rank)
{
    int32_t warmup = (s->n_chunks - 1) * group_of(s) + s->n_ranks - 1 - rank;

    alternate(e, s, rank, warmup, true, rank);
}

static void zb_h1(struct lw_emit *e, const struct lw_schedule_shape *s, int32_t rank)
{
    alternate(e, s, rank, s->n_ranks - 1 - rank, true, rank);
}

/* --- what the interleaved ones demand --------------------------------------------------------- */

/* The micro-batches of the shortest of the groups. */
static int32_t shortest_group(const struct lw_schedule_shape *s, int32_t group)
{
    int32_t left = s->n_micro_batches % group;

    return group >= s->n_micro_batches ? s->n_micro_batches : left > 0 ? left : group;
}

/* A group shorter than the pipeline leaves chunk 1 of rank 0 waiting for what the last rank has not
 * been given, unless all micro-batches are one group. */
static bool serves_ranks(const struct lw_schedule_shape *s, int32_t group)
{
    return s->n_chunks == 1 || group >= s->n_micro_batches ||
           (group >= s->n_ranks && shortest_group(s, group) >= s->n_ranks);
}

/* Names the nearest groups that serve the ranks; that of all micro-batches does. */
static enum lw_status refuse_group(const struct lw_schedule_shape *s, struct lw_err *err)
{
    int32_t less = s->group - 1, more = s->group + 1;
    char why[200], or_less[24] = "";

    while (less > 0 && !serves_ranks(s, less))
        less--;
    while (!serves_ranks(s, more))
        more++;
    if (less > 0)
        snprintf(or_less, sizeof or_less, "%d or ", less);
    snprintf(why, sizeof why,
             "--micro-batch-group %d makes a group of %d, and every group, the last too, needs at "
             "least pp micro-batches: give %s%d", s->group, shortest_group(s, s->group), or_less,
             more);
    return lw_schedule_refuse(s, err, why);
}

static enum lw_status group_serves_ranks(const struct lw_schedule_shape *s, struct lw_err *err)
{
    if (!lw_schedule_takes_group(s->schedule))
        return lw_schedule_refuse(s, err, "it makes equal rounds and takes no --micro-batch-group");
    if (s->group < 0)
        return lw_schedule_refuse(s, err, "--micro-batch-group must be at least 1");
    return serves_ranks(s, s->group) ? LW_OK : refuse_group(s, err);
}

static enum lw_status whole_rounds(const struct lw_schedule_shape *s, struct lw_err *err)
{
    int32_t rounds = s->n_micro_batches / s->n_ranks;

    if (s->group != 0)
        return group_serves_ranks(s, err);
    if (s->n_micro_batches % (rounds > 1 ? rounds : 1) != 0)
        return lw_schedule_refuse(s, err, "the micro-batches must divide into m / pp equal rounds");
    return LW_OK;
}

const struct lw_scheduler lw_scheduler_gpipe = {.rank = gpipe, .chunks = 1};
const struct lw_scheduler lw_scheduler_1f1b = {.rank = one_f_one_b, .chunks = 1,
                                               .pairs = LW_PAIRS_ASKED};
const struct lw_scheduler lw_scheduler_interleaved_1f1b = {
    .rank = interleaved_1f1b, .takes_group = true, .demand = whole_rounds,
    .pairs = LW_PAIRS_ASKED,
};
const struct lw_scheduler lw_scheduler_interleaved_zb = {.rank = interleaved_zb,
                                                         .demand = whole_rounds};
const struct lw_scheduler lw_scheduler_looped_bfs = {.rank = looped_bfs};
const struct lw_scheduler lw_scheduler_zb_h1 = {.rank = zb_h1, .chunks = 1};

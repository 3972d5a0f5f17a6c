#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "shared/plan/op.h"
#include "shared/strategy/strategy.h"

/* The order of forwards and backwards on every pipeline rank: a grid without times. Cells are
 * written "<stage><F|I|W|B><micro-batch>"; I and W are the two halves of B. */
struct lw_action {
    enum lw_op_kind kind; /* FORWARD, BACKWARD, BACKWARD_INPUT or BACKWARD_WEIGHT */
    int32_t stage, micro_batch;
    bool with_next; /* runs as one overlapped unit with the action after it */
};

/* Which rank holds which stage. */
enum lw_layout {
    LW_LAYOUT_LOOP,  /* stage s on rank s mod p */
    LW_LAYOUT_V,     /* stage s on rank s, or 2p-1-s for the second half */
    LW_LAYOUT_BIDIR, /* two directions: micro-batches of the second half enter at the last rank,
                      * where stage 0 of their direction lives */
    LW_LAYOUT_FREE,  /* as rank_of_stage says: a user's grid */
};

struct lw_grid {
    struct lw_arena arena; /* owns everything below */
    int32_t n_ranks, n_stages, n_micro_batches;
    enum lw_layout layout;
    int32_t *rank_of_stage; /* [n_stages] with LW_LAYOUT_FREE, else NULL */
    int32_t *first;         /* [n_ranks + 1]: rank r runs actions first[r] .. first[r+1]-1 */
    struct lw_action *actions;
};

/* What the searching schedules (zb-auto-*, zbv-auto) believe of every stage: durations in one unit
 * of time, and what an action adds to the memory of its rank in one unit of memory (mem_f + mem_i +
 * mem_w = 0: what a forward keeps, the backwards give back). */
struct lw_schedule_costs {
    int64_t f, i, w, comm;
    int64_t mem_f, mem_i, mem_w;
};

struct lw_schedule_shape {
    enum lw_schedule schedule;
    int32_t n_ranks, n_micro_batches;
    int32_t n_chunks; /* stages per rank; schedules with a fixed number refuse another */
    int32_t group;    /* interleaved-1f1b: micro-batches that pass a chunk before the next one has
                       * its turn, as Megatron-LM; 0 = equal rounds of about p, as torch */
    const struct lw_schedule_costs *costs; /* borrowed; NULL = F, I and W take the same, transfers
                                            * (almost) nothing; see docs/design/schedule.md */
    bool pairs;       /* 1f1b on one rank, interleaved-1f1b: one more forward first, then units of
                       * a forward and a backward (Megatron-LM: overlap_moe_expert_parallel_comm) */
    int32_t drain_every; /* micro-batches of one run of the schedule, which every rank repeats: its
                          * next run begins after all of its actions of the last. They divide
                          * n_micro_batches. 0 = one run */
};

void lw_grid_free(struct lw_grid *g);

/* Stages per rank that a schedule demands; 0 = any number. */
int32_t lw_schedule_chunks(enum lw_schedule schedule);
/* Units of a forward and a backward: none, some by its rule, some where the shape asks for them
 * (lw_schedule_shape.pairs; of 1f1b on one rank alone). */
enum lw_schedule_pairs { LW_PAIRS_NONE, LW_PAIRS_BY_RULE, LW_PAIRS_ASKED };
enum lw_schedule_pairs lw_schedule_pairs_of(enum lw_schedule schedule);
/* Sends and receives of its ranks go in calls of several (schedule_colossal.h). */
bool lw_schedule_combines_calls(enum lw_schedule schedule);
/* lw_schedule_shape.group means something to it. */
bool lw_schedule_takes_group(enum lw_schedule schedule);

/* The grid of a schedule. LW_EINVAL says what the schedule demands of p, m and v;
 * LW_ENOTSUP names a schedule that this build has no rule for. See docs/design/schedule.md. */
enum lw_status lw_schedule_grid(const struct lw_schedule_shape *shape, struct lw_grid *out,
                                struct lw_err *err);

/* A grid from text: one line per rank, cells separated by commas, "(a;b)OVERLAP_F_B" for a unit,
 * empty cells are idle time and dropped. With LW_LAYOUT_FREE a stage lives where it is first seen.
 * LW_EFORMAT names line and cell. */
enum lw_status lw_grid_parse(const char *name, const char *text, enum lw_layout layout,
                             struct lw_grid *out, struct lw_err *err);

/* A user's grid: as LW_LAYOUT_FREE, or LW_LAYOUT_BIDIR if it can run only as that, and checked. The
 * message of a grid that cannot run names the file. */
enum lw_status lw_grid_custom(const char *name, const char *text, struct lw_grid *out,
                              struct lw_err *err);

/* The rank that runs a stage for a micro-batch. */
int32_t lw_grid_rank_of(const struct lw_grid *g, int32_t stage, int32_t micro_batch);

/* Every stage runs F and then B, or F, I and then W, once per micro-batch, on its own rank, and
 * some order of all ranks together exists in which each action follows what it needs. LW_EPLAN
 * names the first action that does not fit. */
enum lw_status lw_grid_check(const struct lw_grid *g, struct lw_err *err);

/* Names of actions: 'F', 'B', 'I', 'W'. */
char lw_action_letter(enum lw_op_kind kind);

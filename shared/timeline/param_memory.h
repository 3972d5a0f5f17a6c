#pragma once

#include <stdint.h>

#include "shared/base/err.h"
#include "shared/numbers/dtype.h"
#include "shared/plan/plan.h"
#include "shared/timeline/timeline.h"
#include "shared/workload/workload.h"

/* Bytes that a rank holds for parameters and what training adds to them. See
 * docs/design/memory.md. */
struct lw_memory_rule {
    enum lw_dtype grad;          /* of gradients */
    enum lw_optimizer optimizer; /* UNKNOWN counts as none: say so */
    int zero;                    /* ZeRO stage 0..3 */
    bool whole_gradients;        /* at any stage: they accumulate over passes */
    bool matrix;                 /* Muon updates the parameter: a momentum alone */
    int64_t own_states;          /* lw_own_states: of 16-bit parameters; 0: f32 ones and a master */
};

/* Bytes of optimizer state of one element. */
int64_t lw_memory_state_bytes(const struct lw_memory_rule *rule, enum lw_dtype param);

/* Add what a rank holds of `numel` elements, of which `owned` are its shard (all of them where
 * nothing is shared out): whole without ZeRO; optimizer state by shard from stage 1, gradients from
 * stage 2, parameters at stage 3 (Rajbhandari et al., arXiv 1910.02054, section 5). */
void lw_memory_add(const struct lw_memory_rule *rule, enum lw_dtype param, int64_t numel,
                   int64_t owned, int64_t bytes[LW_N_MEM]);

/* What rank r holds when nothing runs: the fixed bytes of its role, without gradients that come and
 * go (lw_role.grads_come); and by category. */
int64_t lw_memory_fixed(const struct lw_plan *plan, int32_t rank);
void lw_memory_at_start(const struct lw_plan *plan, int32_t rank, int64_t bytes[LW_N_MEMORY]);

/* One change of what a rank holds. */
struct lw_memory_change {
    lw_ps at;
    int64_t row;    /* of the timeline */
    int64_t bytes;  /* added */
    uint8_t turn;   /* at one time: what ended, then ALLOC and FREE, then what starts */
    uint8_t memory; /* enum lw_memory */
};

/* gradient_memory.c: the ops that change what gradients take, ascending. `bytes` are there from the
 * start of an op that makes some the first time that its program runs in a step; an optimizer's end
 * gives all back. The others are of gradients that are made beside the sums that they are added to,
 * in a step's first pass and in those after it. */
struct lw_arena;
enum { LW_FIRST_PASS, LW_LATER_PASS, LW_N_PASS_KINDS };
struct lw_gradients_made {
    int64_t n;
    struct lw_gradient_made {
        int32_t op;
        int64_t bytes;
        int64_t beside[LW_N_PASS_KINDS]; /* from the op's start to its end */
        int64_t waits[LW_N_PASS_KINDS];  /* from its start on, of tied parameters */
        int64_t waited[LW_N_PASS_KINDS]; /* what has waited goes at its end; negative: it comes,
                                          * when the loss has gone */
    } *v;
};
enum lw_status lw_gradients_made_init(const struct lw_plan *plan, struct lw_arena *room,
                                      struct lw_gradients_made *out, struct lw_err *err);
/* NULL: the op changes nothing. */
const struct lw_gradient_made *lw_gradients_made_by(const struct lw_gradients_made *g, int32_t op);
bool lw_gradients_change(const struct lw_plan *plan); /* of some role */

/* Every change that the rows of a timeline make, rank by rank, those of a rank by time: a forward
 * takes its activations when it starts, a backward gives them back when it ends, ALLOC and FREE ops
 * at their end. Timeline and plan are kept until it is freed. */
struct lw_memory_walk;
enum lw_status lw_memory_walk_new(const struct lw_timeline *t, const struct lw_plan *plan,
                                  struct lw_memory_walk **out, struct lw_err *err);
/* Those of one rank, valid until the next call; ranks of one role are best asked for in turn. */
enum lw_status lw_memory_walk_rank(struct lw_memory_walk *w, int32_t rank,
                                   const struct lw_memory_change **v, int64_t *n,
                                   struct lw_err *err);
/* The same part by part: the changes of a rank a few thousand at a time, in their order. The walk
 * ends where a visit does not return LW_OK. */
typedef enum lw_status lw_memory_visit(void *ctx, const struct lw_memory_change *v, int64_t n,
                                       struct lw_err *err);
enum lw_status lw_memory_walk_visit(struct lw_memory_walk *w, int32_t rank, lw_memory_visit *visit,
                                    void *ctx, struct lw_err *err);
void lw_memory_walk_free(struct lw_memory_walk *w);

/* The most that each rank of the plan holds at any time, into peak[plan->n_ranks], and the moment
 * of the largest; each may be NULL. */
enum lw_status lw_memory_peaks(const struct lw_timeline *t, const struct lw_plan *plan,
                               int64_t *peak, struct lw_memory_peak *at, struct lw_err *err);

/* What one rank holds when it first holds most: the moment, and of the activations those of each
 * module, of_module[plan->n_modules + 1], zeros before; the last is of no module. */
enum lw_status lw_memory_alive(const struct lw_timeline *t, const struct lw_plan *plan,
                               int32_t rank, int64_t *of_module, struct lw_memory_peak *out,
                               struct lw_err *err);

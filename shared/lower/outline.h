#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "shared/plan/cost.h"
#include "shared/plan/plan.h"
#include "shared/schedule/schedule.h"
#include "shared/strategy/strategy.h"
#include "shared/workload/workload.h"

/* What is known of a plan without writing it: the times and bytes of its parts, of one rank. Every
 * figure is at most that of the plan. See docs/design/tune.md. */

/* Of consecutive modules, for one micro-batch; times with what is repeated of the forward, and with
 * the collectives of the tensor group, and of tokens to experts, that nothing runs beside. */
struct lw_outline_sum {
    lw_ps forward, backward, input, weight; /* backward whole, and its halves */
    lw_ps again; /* of the backward, or the input's half: what is repeated of the forward */
    /* Activations: kept from forward to backward; brought back by what is repeated; of both those
     * that the input's half gives back. */
    int64_t kept, regained, kept_early;
    int64_t trained, all;      /* elements of parameters: that are updated; with frozen ones */
    int64_t numel[LW_N_DTYPES], frozen[LW_N_DTYPES]; /* the same by element type */
    int64_t matrices[LW_N_DTYPES]; /* of numel, those of lw_param_is_matrix */
    int64_t reduced[LW_N_DTYPES]; /* of those whose gradients the data group reduces; no experts */
};

/* The modules of one rank of a tensor, context and expert group. */
struct lw_outline {
    struct lw_arena arena;
    int32_t n_modules;
    bool by_halves;             /* the halves are filled too */
    struct lw_outline_sum *sum; /* [n_modules + 1]: of the modules before */
    int32_t n_params;
    const struct lw_param *params; /* of the rank */
    const struct lw_module *modules; /* [n_modules] of the rank */
    int64_t all_elements;       /* trained, of the whole model */
    lw_ps optimizer_ps, gradients_ps; /* of these */
    enum lw_optimizer optimizer;
    int64_t state_bytes;        /* as of the workload */
    int64_t host_bytes;         /* its step_traffic.host */
    struct lw_model_dims dims;
    void *held;                 /* what the cuts need of the lowering */
};

/* No parameter that is trained is sparse or unused: no strategy is refused for one. */
bool lw_params_are_plain(const struct lw_workload *w);
/* The strategy with all that it leaves open, checked as lw_plan_build does before any work; w has
 * passed lw_workload_check. plain: lw_params_are_plain(w), which a caller finds once. */
enum lw_status lw_plan_resolve(const struct lw_workload *w, bool plain,
                               const struct lw_strategy *given, struct lw_strategy *resolved,
                               struct lw_err *err);

/* s: resolved, and kept by pointer while the outline is used by lw_outline_cut, as is w. cost: of
 * collectives; NULL = they count as nothing. tokens: nothing runs beside the all-to-alls of
 * experts, so they count too. */
enum lw_status lw_outline_make(const struct lw_workload *w, const struct lw_strategy *s,
                               bool by_halves, bool tokens, const struct lw_cost *cost,
                               struct lw_outline *out, struct lw_err *err);
void lw_outline_free(struct lw_outline *o);
/* What lw_outline_make refuses of a strategy by its number of ranks: an outline that was made for
 * another number serves it only where this is LW_OK. */
enum lw_status lw_outline_check(const struct lw_workload *w, const struct lw_strategy *s,
                                struct lw_err *err);

/* First modules of n_parts parts and, after them, n_modules: first[n_parts + 1], as the strategy's
 * partitioner cuts. */
enum lw_status lw_outline_cut(const struct lw_outline *o, const struct lw_strategy *s,
                              const struct lw_grid *g, const struct lw_cost *cost, int32_t *first,
                              struct lw_err *err);

/* Of modules from..to - 1. */
struct lw_outline_sum lw_outline_of(const struct lw_outline *o, int32_t from, int32_t to);

/* The least elements that a rank which has `x` updates. */
int64_t lw_outline_updated(const struct lw_outline *o, const struct lw_strategy *s,
                           const struct lw_outline_sum *x, int32_t n_copies);
/* The least time of the optimizer and of the passes over gradients on a rank that has `x`. */
lw_ps lw_outline_optimizer(const struct lw_outline *o, const struct lw_strategy *s,
                           const struct lw_outline_sum *x, int32_t n_copies);
/* The least fixed bytes of such a rank; buckets are not counted. */
void lw_outline_bytes(const struct lw_outline *o, const struct lw_strategy *s,
                      const struct lw_outline_sum *x, int32_t n_copies, int64_t bytes[LW_N_MEM]);

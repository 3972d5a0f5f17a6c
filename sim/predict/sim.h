#ifndef LW_SIM_PREDICT_SIM_H
#define LW_SIM_PREDICT_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/plan/cluster.h"
#include "shared/plan/cost.h"
#include "shared/base/err.h"
#include "shared/plan/plan.h"
#include "shared/base/progress.h"
#include "shared/timeline/timeline.h"

/* Predict what a plan does on a cluster. See docs/design/engine.md. */

enum lw_sim_detail {
    LW_SIM_COLLECTIVE, /* one event per collective: all members end together */
    LW_SIM_CHUNK,      /* every message of ring collectives: each member ends with its last one */
};

/* How chunk detail computes a ring. Both give the same picoseconds where both apply. */
enum lw_sim_ring {
    LW_SIM_RING_AUTO,       /* recurrence, unless two communicators of a rank share its link */
    LW_SIM_RING_EVENTS,     /* every message an event */
    LW_SIM_RING_RECURRENCE, /* refused where links are shared */
};

struct lw_sim_options {
    int32_t n_steps;         /* optimizer steps, >= 1 */
    enum lw_sim_detail detail;
    enum lw_sim_ring ring;
    bool buffered;           /* a send costs the sender nothing; default is rendezvous */
    bool noise;              /* apply the noise terms, drawn from seed */
    double sigma;            /* of every compute op and transfer, instead of the cluster's; 0 = its */
    double rank_sigma;       /* of each rank's compute speed, drawn once for the run; 0 = none */
    uint64_t seed;
    lw_ps jitter_ps;         /* chunk detail: each message takes up to this much longer, by seed */
    lw_ps start_skew_ps;     /* each rank enters each step up to this much later, by seed */
    bool no_fold;            /* simulate every rank, also those that are alike */
    const struct lw_cost *cost; /* NULL: the cluster's tables and models */
    const struct lw_progress *progress; /* NULL: silent */
};

/* A term of the model that is off unless the cluster gives it a figure. */
enum lw_sim_term_state {
    LW_SIM_TERM_ON,
    LW_SIM_TERM_UNUSED, /* given, but this run does not use it: `why` says the reason */
};

struct lw_sim_term {
    const char *name;   /* as the cluster file spells it */
    double value;
    const char *source; /* of the figure */
    enum lw_sim_term_state state;
    const char *why;    /* "" when on */
};

enum { LW_SIM_MAX_TERMS = 16, LW_SIM_MAX_TIMED = 24 };

/* Ops of one kind and type that the cluster times, and by what. */
struct lw_sim_timed {
    enum lw_op_kind kind;
    enum lw_dtype dtype;
    const char *by;     /* "its table", or the name of a figure */
    const char *source; /* of that; both borrow the cluster's strings */
    int64_t n_ops;      /* of the programs */
};

struct lw_sim_stats {
    int64_t n_events;   /* queue pops that changed state */
    int64_t n_stale;    /* pops of events that a re-timing had replaced */
    int64_t n_messages; /* of ring collectives at chunk detail, and sends */
    int64_t n_ops;      /* ops that ran, over all ranks */
    lw_ps end;          /* when the last op ended */
    bool ring_by_events;
    int32_t n_simulated; /* ranks, after those that are alike were folded into one */
    int32_t n_timed, n_terms;
    struct lw_sim_timed timed[LW_SIM_MAX_TIMED];
    struct lw_sim_term terms[LW_SIM_MAX_TERMS]; /* borrow the cluster's strings */
};

/* Run n_steps optimizer steps. Plan and cluster must have passed their checks.
 *   timeline  NULL, or zeroed; filled with one row per op that ran, sorted; the caller frees it
 *   stats     filled
 * LW_EINVAL: an option out of range, or more ranks than the cluster has devices.
 * LW_ENOTSUP: the cluster lacks a figure that an op needs, or the plan asks for a reducer without a
 * model. LW_EFAILED: ops wait for each other; the message names them. Outputs are unset on failure. */
enum lw_status lw_sim_run(const struct lw_plan *plan, const struct lw_cluster *cluster,
                          const struct lw_sim_options *options, struct lw_timeline *timeline,
                          struct lw_sim_stats *stats, struct lw_err *err);

/* The same without rows: lengths[n_steps] = from the start of a step's earliest op to the end of its
 * last, over all ranks. */
enum lw_status lw_sim_run_steps(const struct lw_plan *plan, const struct lw_cluster *cluster,
                                const struct lw_sim_options *options, lw_ps *lengths,
                                struct lw_sim_stats *stats, struct lw_err *err);

/* What a run gives where ranks that are alike are simulated once (docs/design/folding.md): the rows of
 * one rank for each class. Without folding every rank is a class of its own. */
struct lw_sim_classes {
    struct lw_arena arena;   /* owns the columns below */
    int32_t n_ranks, n_classes;
    int32_t *class_of;       /* [n_ranks] */
    int32_t *rank_of;        /* [n_classes]: the lowest rank of the class; ascending */
    struct lw_timeline rows; /* `rank` is a class; else as lw_sim_run */
    struct lw_plan plan;     /* of the classes: roles and operands by class. Borrows the plan's rest */
};

/* As lw_sim_run, with the rows of the classes alone; free with lw_sim_classes_free. */
enum lw_status lw_sim_run_classes(const struct lw_plan *plan, const struct lw_cluster *cluster,
                                  const struct lw_sim_options *options, struct lw_sim_classes *out,
                                  struct lw_sim_stats *stats, struct lw_err *err);
/* Rows of every rank, in the order of lw_sim_run; the caller frees them. */
enum lw_status lw_sim_expand(const struct lw_sim_classes *c, struct lw_timeline *timeline,
                             struct lw_err *err);
/* lw_timeline_summarize of the expanded rows, without expanding them. */
enum lw_status lw_sim_summarize(const struct lw_sim_classes *c, int32_t first_step,
                                struct lw_summary *out, struct lw_err *err);
void lw_sim_classes_free(struct lw_sim_classes *c);

/* Set "detail" or "ring" by its word; ctx is a struct lw_sim_options (a handler of lw_opt_call).
 * LW_EINVAL names the words allowed. */
enum lw_status lw_sim_options_set(void *ctx, const char *name, const char *value,
                                  struct lw_err *err);

/* Steps that only lead up to the passes that a plan repeats: not to be measured. */
int32_t lw_sim_warmup_steps(const struct lw_plan *plan);

/* One step, collective detail, rendezvous, the cluster's costs, no noise. */
struct lw_sim_options lw_sim_options_default(void);

#endif

#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/cluster/cluster.h"
#include "shared/cluster/measured.h"
#include "shared/numbers/dtype.h"
#include "shared/base/progress.h"
#include "shared/numbers/units.h"
#include "shared/plan/op.h"

/* The options of a simulation, and its counters. */

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
    double sigma; /* of every compute op and transfer, instead of the cluster's; 0 = its */
    double rank_sigma;       /* of each rank's compute speed, drawn once for the run; 0 = none */
    uint64_t seed;
    lw_ps jitter_ps;         /* chunk detail: each message takes up to this much longer, by seed */
    lw_ps start_skew_ps;     /* each rank enters each step up to this much later, by seed */
    bool no_fold;            /* simulate every rank, also those that are alike */
    bool no_merge;           /* an event for every op, also where nothing joins or leaves between */
    const struct lw_cost *cost; /* NULL: the cluster's tables and models */
    const struct lw_progress *progress; /* NULL: silent; a stop ends the run */
};

/* A term of the model that is off unless the cluster gives it a figure. */
struct lw_sim_term {
    char name[48];      /* as the cluster file spells it; "compute beside all_gather" of a pair */
    double value;
    const char *source; /* of the figure */
    bool on;            /* false: given, but this run does not use it */
    const char *why;    /* it is not used; "" when on */
};

enum {
    LW_SIM_MAX_PAIRS = LW_N_ACTIVITIES * (LW_N_ACTIVITIES - 1),
    LW_SIM_MAX_TERMS = 32 + LW_SIM_MAX_PAIRS,
    LW_SIM_MAX_TIMED = 64,
    LW_SIM_MAX_REMARKS = 4,
};

/* Ops of one kind and type that the cluster times, and by what. */
struct lw_sim_timed {
    enum lw_op_kind kind;
    enum lw_dtype dtype;
    const char *by;     /* "its table", or the name of a figure; of communication the cost model's
                         * name ("table", "nccl"), "messages" or "the plan" */
    const char *source; /* of that; both borrow the cluster's strings */
    const char *basis;  /* "measured", "scaled" from a table, "modelled", "recorded" */
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
    int32_t n_interference; /* terms that come first: of interference, used or not */
    struct lw_sim_timed timed[LW_SIM_MAX_TIMED];
    struct lw_sim_term terms[LW_SIM_MAX_TERMS]; /* borrow the cluster's strings */
    int32_t n_remarks; /* on options that were not applied */
    char remarks[LW_SIM_MAX_REMARKS][280];
};

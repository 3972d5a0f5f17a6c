#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "exec/run/run.h"
#include "exec/tensors/grad_sums.h"
#include "exec/tensors/tensors.h"
#include "exec/verify/verify.h"
#include "shared/base/arena.h"

/* One run while it lasts: what run.c, step_submit.c, step_finish.c, step_wait.c and fault.c
 * share. */

struct exec_lane { /* one pass of a step on one rank */
    int32_t rank, pass, variant;
    struct lw_program program;
    int64_t first_stamp;
    int32_t step;                 /* of the run, warm-up included */
    int32_t last_variant;         /* of the pass that ends the step: it says where gradients lie */
};

struct exec_run {
    const struct lw_plan *plan;
    const struct lw_exec_options *options;
    const struct exec_backend *backend;
    struct exec_world *world;
    struct exec_tensors memory;
    struct exec_sums sums;        /* of the gradients that optimizers read in the rehearsal */
    struct lw_arena arena;
    struct exec_stream **streams; /* [n_ranks * n_streams], NULL until used */
    struct exec_event **events;   /* [n_ranks * largest program] */
    struct exec_event **pass_ends; /* [n_ranks * n_streams] what a stream did in a pass is done */
    struct exec_comm **comms;     /* [n_comms * n_groups] */
    bool *needs_event;            /* [n_ops] another stream waits for it */
    uint8_t *types;               /* [1 + n_modules] what computes: of the first parameter, of each
                                   * module's own */
    bool *filled, *copied;        /* [n_ranks * n_params] */
    int32_t longest_program, micro_batches;
    struct exec_parts parts;
    struct exec_mismatch *found;  /* of the batch's parts that compare */
    int64_t found_capacity;
    struct lw_err mismatch;       /* the first in a step; code LW_OK = none: the run goes on */
    int64_t *first_part;          /* [stamps] parts of an op: first_part[i] .. first_part[i + 1] */
    int64_t first_part_capacity;
    struct exec_stamp *stamps;
    struct exec_lane *lanes;
    int64_t stamp_capacity, lane_capacity, n_stamps, n_lanes;
    int64_t next_pass;            /* of the plan */
    int64_t origin_ns, released_ns; /* first step's start; this batch's */
    bool flipped;                 /* the fault `flip` was made; after another the run has ended */
    bool rehearses;               /* current steps are compared and not measured: no compute time */
    int32_t n_done;               /* steps */
    bool graphs;                  /* current steps are submitted as graphs */
    int64_t submit_ns[2];         /* of measured batches: op by op, as graphs */
    int32_t n_submitted[2];       /* steps */
    int32_t n_given;              /* steps of the current batch: [n_done, n_done + n_given) */
    int64_t batch_capacity;       /* of the result's list */
    int64_t probe_capacity;       /* of the result's probes */
    struct exec_product_time *product_times; /* [n_local], of the last probe */
    int64_t *rank_end_ns;         /* [n_ranks] of its pass before, while spans are kept */
    int32_t n_rehearsed;          /* steps that were compared */
    int64_t n_checked, n_checked_messages, n_consolidated, over_ns;
    float *consolidated;          /* on the rank that gathers it */
    bool blamed;                  /* the message says where the step stopped */
    bool told;              /* by a signal to end, */
    int64_t told_ns;        /* when */
    struct exec_stamp fault_stamp; /* of a fault before a communication op */
    bool starved;                 /* by a fault: */
    uint64_t address_limit;       /* what the process may have when that is over */
};

/* communicators.c: create the plan's communicators, and connect them before the first step. */
enum lw_status exec_create_comms(struct exec_run *r, struct lw_err *err);

/* library_estimates.c: the library's estimate of every distinct collective of this process's first
 * rank, before the first step. */
enum lw_status exec_ask_estimates(struct exec_run *r, struct lw_exec_result *out,
                                  struct lw_err *err);

/* step_submit.c: hand the next n_steps steps to the backend, held back until they are released. */
enum lw_status exec_give_batch(struct exec_run *r, int32_t n_steps, struct lw_err *err);
struct exec_stream *exec_run_stream(const struct exec_run *r, int32_t rank, int32_t stream);
/* Of a lane's parts; last_variant: of the pass that ends the step. */
struct exec_place exec_lane_place(const struct exec_run *r, const struct exec_lane *l,
                                  int32_t last_variant);

/* speed_probe.c: read the machine's speed before the next step, or after the last one, where it is
 * read; between batches alone. */
enum lw_status exec_probe_speed(struct exec_run *r, struct lw_exec_result *out, struct lw_err *err);
int64_t exec_steps_between_probes(const struct exec_run *r); /* INT64_MAX: no probe is needed */

/* step_finish.c: judge a batch that ended and count its steps: of a rehearsed step compare what it
 * brought (what differs goes to r->mismatch, and the run goes on), of measured ones keep the
 * spans. */
enum lw_status exec_rehearsed(struct exec_run *r, struct lw_err *err);
enum lw_status exec_batch_done(struct exec_run *r, struct lw_timeline *t, struct lw_err *err);
/* Of a batch that stopped: the spans of the steps that ended before. */
enum lw_status exec_keep_ended(struct exec_run *r, struct lw_timeline *t, struct lw_err *err);

/* step_wait.c: wait for the batch; when it does not end, everything is aborted and closed, and the
 * message names where it stopped: LW_ETIMEOUT, LW_EFAILED. */
enum lw_status exec_wait_batch(struct exec_run *r, struct lw_exec_result *out, struct lw_err *err);
/* The same message and places for a batch that could not even be given. */
enum lw_status exec_blame(const struct exec_run *r, enum lw_status code, const char *why,
                          struct lw_err *err);
void exec_keep_places(const struct exec_run *r, struct lw_exec_result *out);

/* fault.c: faults on request. */
enum lw_status exec_refuse_fault(const struct exec_run *r, struct lw_err *err);
/* A part before op `op` of the lane, when the fault is there. */
enum lw_status exec_add_fault(struct exec_run *r, const struct exec_lane *l, int32_t op,
                              const struct exec_place *at, struct lw_err *err);
/* LW_ENOMEM when the fault is that memory runs out in this step: for real, until it is given
 * back. */
enum lw_status exec_take_memory_away(struct exec_run *r, struct lw_err *err);
void exec_give_memory_back(struct exec_run *r);
bool exec_rank_is_here(const struct exec_run *r, int32_t rank);

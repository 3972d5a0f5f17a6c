#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/err.h"
#include "shared/numbers/units.h"
#include "shared/timeline/alike_ranks.h"

struct lw_plan;
struct lw_packed_rows;

/* Percent of the processors: a measurement during which other programs took more says nothing about
 * a prediction. */
#define LW_LOADED_PCT 5.0

/* What happened, or what is predicted to happen: one row per op that ran. sim, exec and importers
 * all return it, so every measure is computed once, here. (step, pass, rank, op) joins prediction
 * and measurement; rows are sorted by it. pass counts within a step (0 unless no_sync). Times count
 * from the start of the first step on a clock common to all ranks. */
struct lw_timeline {
    int64_t n, capacity;
    int32_t comm_workers; /* collectives of one communicator that may run at once; 0 = one */
    int32_t *step, *pass, *rank, *stream, *comm, *op;
    uint8_t *kind;  /* enum lw_op_kind */
    lw_ps *ready;   /* dependencies done */
    lw_ps *issue;   /* handed to its stream; -1 unknown */
    lw_ps *start;   /* local entry */
    lw_ps *all_in;  /* last member arrived; -1 unknown or no communication */
    lw_ps *end;
    /* NULL, or all rows (shared/timeline/packed_rows.h): the columns are then NULL, and only the
     * functions below read the rows. What a simulation of classes gives; others have columns. */
    struct lw_packed_rows *packed;
};

struct lw_span { /* one row */
    int32_t step, pass, rank, stream, comm, op;
    uint8_t kind; /* enum lw_op_kind */
    lw_ps ready, issue, start, all_in, end;
};

enum lw_status lw_timeline_add(struct lw_timeline *t, const struct lw_span *s, struct lw_err *err);
/* Room for n rows in all; and one row written in place, for engines that know their rows. */
enum lw_status lw_timeline_reserve(struct lw_timeline *t, int64_t n, struct lw_err *err);
void lw_timeline_put(struct lw_timeline *t, int64_t row, const struct lw_span *s);
enum lw_status lw_timeline_sort(struct lw_timeline *t, struct lw_err *err);
/* LW_ENOTSUP: this machine has not the memory left for n rows of so many bytes. */
enum lw_status lw_timeline_fits(int64_t n, double row_bytes, struct lw_err *err);
/* Packed rows become columns. */
enum lw_status lw_timeline_unpack(struct lw_timeline *t, struct lw_err *err);
/* A copy in columns; the caller frees it. */
enum lw_status lw_timeline_copy(const struct lw_timeline *t, struct lw_timeline *out,
                                struct lw_err *err);
void lw_timeline_free(struct lw_timeline *t);

/* --- rows of either form --- */

struct lw_times {
    lw_ps start, all_in, end;
};

/* Neighbouring rows of one rank in one pass: from a row on to `to` - 1. */
struct lw_row_run {
    int64_t to;
    int32_t step, pass, rank;
};

struct lw_span lw_timeline_get(const struct lw_timeline *t, int64_t row);
struct lw_times lw_timeline_times(const struct lw_timeline *t, int64_t row);
struct lw_row_run lw_timeline_run(const struct lw_timeline *t, int64_t row);
int32_t lw_timeline_op(const struct lw_timeline *t, int64_t row);
int32_t lw_timeline_comm(const struct lw_timeline *t, int64_t row); /* -1 = none */
uint8_t lw_timeline_kind(const struct lw_timeline *t, int64_t row); /* enum lw_op_kind */

/* For whom a rank waits while a communication that it has entered lacks members: by the purpose of
 * the communicator. Of several at one time the first in this order counts. */
enum lw_wait {
    LW_WAIT_TENSOR,
    LW_WAIT_PIPELINE,
    LW_WAIT_DATA,
    LW_WAIT_TIED,
    LW_WAIT_OTHER, /* world, recorded communicators */
    LW_N_WAITS,
};

/* Measures of one rank in one step, over its period: from the end of its last op of the step before
 * (the start of the run, in the first step) to the end of its last op of this one. At every moment
 * one of these holds, in this order: it computes, the host updates for it (--offload update), it
 * copies, data moves (transfer), it waits for members of a communication that it has entered, it is
 * idle. So, exactly,
 *   end - start  = compute_busy + host_update + exposed_copy + exposed_comm + idle
 *   exposed_comm = transfer + the sum of wait[]
 * copy_busy and comm_busy are the unions of all copies and of all communication from local entry.
 * hidden_transfer: data moves beside compute, updates or copies. Other host and memory ops are not
 * work of the device: idle. Of an op whose last arrival is unknown all is transfer. */
struct lw_measure {
    int32_t step, rank;
    lw_ps start, end;
    lw_ps compute_busy, host_update, copy_busy, comm_busy;
    lw_ps exposed_copy, exposed_comm, transfer, hidden_transfer, wait[LW_N_WAITS], idle;
    int64_t peak_memory_bytes; /* over all steps; -1: not known */
};

/* Step k takes E_k - E_(k-1), where E_k is the latest end over ranks of steps 0 to k, and E_(-1)
 * the start of the run: the steps add up to the run. */
/* What memory is for. The device's context and code, which no tensor is, are not counted. */
enum lw_memory {
    LW_MEMORY_PARAMETERS,
    LW_MEMORY_GRADIENTS,
    LW_MEMORY_OPTIMIZER,
    LW_MEMORY_BUCKETS,  /* of gradients */
    LW_MEMORY_GATHERED, /* weights gathered for the modules that use them */
    LW_MEMORY_ACTIVATIONS,
    LW_MEMORY_MESSAGES, /* between stages, that wait to be sent or to be used */
    LW_MEMORY_WORKSPACES, /* of libraries' kernels */
    LW_N_MEMORY,
};

const char *lw_memory_name(enum lw_memory m); /* "gathered_units" */

/* The moment at which the rank with the largest peak holds most, the lowest rank and the first
 * moment of several. */
struct lw_memory_peak {
    int32_t rank, step, op; /* rank -1: not known; step and op -1: nothing runs yet */
    lw_ps at;               /* as the times of the rows; 0 before anything runs */
    int64_t bytes[LW_N_MEMORY], total;
};

struct lw_summary {
    int32_t n_steps, n_ranks;
    lw_ps step;             /* median over measured steps;
                             * of an even number the mean of the middle two, rounded down */
    lw_ps *steps;           /* [n_steps] */
    lw_ps shown;            /* length of the step shown */
    lw_ps span;             /* of the step shown: its latest end minus its earliest start */
    /* Of the step shown: the one nearest the median (the lower one of two). Of ranks that are alike
     * the lowest one's measure is there once: lw_summary_of gives that of any rank. */
    struct lw_measure *ranks;
    struct lw_alike_ranks alike; /* class of each rank: its index into ranks */
    int32_t worst; /* index into ranks: the longest period, the lowest rank of several */
    double bubble_ratio;    /* waiting for pipeline neighbours, of all ranks' periods */
    double compute_share;   /* computing, of all ranks' periods */
    int64_t peak_memory_bytes; /* largest rank; -1: without a plan, or nothing is held */
    struct lw_memory_peak memory;
    int64_t n_ops;
};

/* first_step: steps before it are warm-up and not measured. plan: NULL, or for whose purposes
 * communicators say; peak memory is measured too. */
enum lw_status lw_timeline_summarize(const struct lw_timeline *t, const struct lw_plan *plan,
                                     int32_t first_step, struct lw_summary *out,
                                     struct lw_err *err);
/* The same without memory: of a plan that does not hold it. */
enum lw_status lw_timeline_measure(const struct lw_timeline *t, const struct lw_plan *plan,
                                   int32_t first_step, struct lw_summary *out, struct lw_err *err);
/* Of a plan that does not say what is held: peak and parts are not known, of no rank. */
void lw_summary_forget_memory(struct lw_summary *s);
void lw_summary_free(struct lw_summary *s);
static inline struct lw_measure lw_summary_of(const struct lw_summary *s, int32_t rank)
{
    struct lw_measure m = s->ranks[lw_alike_class(&s->alike, rank)];

    m.rank = rank;
    return m;
}
/* bubble_ratio and compute_share of the ranks that a summary holds. */
void lw_summary_shares(struct lw_summary *s);

/* Length of the union of [start, end) intervals clipped to [from, to): the one place where busy and
 * exposed times come from. Sorts the arrays in place. */
struct lw_interval { lw_ps start, end; };
lw_ps lw_intervals_union(struct lw_interval *v, int64_t n, lw_ps from, lw_ps to);
/* Length of union(a) minus union(b), both sorted and merged by the call. */
lw_ps lw_intervals_minus(struct lw_interval *a, int64_t n_a, struct lw_interval *b, int64_t n_b,
                         lw_ps from, lw_ps to);

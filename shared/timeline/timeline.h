#ifndef LW_SHARED_TIMELINE_TIMELINE_H
#define LW_SHARED_TIMELINE_TIMELINE_H

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/err.h"
#include "shared/plan/plan.h"
#include "shared/base/units.h"

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
};

struct lw_span { /* one row */
    int32_t step, pass, rank, stream, comm, op;
    enum lw_op_kind kind;
    lw_ps ready, issue, start, all_in, end;
};

enum lw_status lw_timeline_add(struct lw_timeline *t, const struct lw_span *s, struct lw_err *err);
/* Room for n rows in all; and one row written in place, for engines that know their rows. */
enum lw_status lw_timeline_reserve(struct lw_timeline *t, int64_t n, struct lw_err *err);
void lw_timeline_put(struct lw_timeline *t, int64_t row, const struct lw_span *s);
struct lw_span lw_timeline_get(const struct lw_timeline *t, int64_t row);
enum lw_status lw_timeline_sort(struct lw_timeline *t, struct lw_err *err);
void lw_timeline_free(struct lw_timeline *t);

/* Times in order (ready <= start <= all_in <= end), no two device ops of one stream overlap (but
 * collectives of one communicator may where the library has several workers), every
 * receive ends after its send began, op indexes belong to the plan (plan may be NULL: skipped). */
enum lw_status lw_timeline_check(const struct lw_timeline *t, const struct lw_plan *plan,
                                 struct lw_err *err);

/* Measures of one rank in one step. busy = union of intervals of the class over the rank's streams;
 * exposed communication = union(comm) minus union(compute and copy); comm counts from local start;
 * idle = [start, end) minus all of these. Host and memory ops are no work of the device. */
struct lw_measure {
    int32_t step, rank;
    lw_ps start, end;
    lw_ps compute_busy, copy_busy, comm_busy, exposed_comm, idle;
    int64_t peak_memory_bytes; /* over all steps; -1 without a plan */
};

struct lw_summary {
    int32_t n_steps, n_ranks;
    lw_ps step;             /* median over measured steps of (max end - min start over ranks);
                             * of an even number the mean of the middle two, rounded down */
    lw_ps *steps;           /* [n_steps] */
    struct lw_measure *ranks; /* [n_ranks]: of the step nearest the median (the lower one) */
    int32_t worst;          /* index into ranks: the longest step */
    double bubble_ratio;    /* 1 - sum(compute)/(n_ranks * step) */
    int64_t peak_memory_bytes; /* largest rank; -1 without a plan */
    int64_t n_ops;
};

/* first_step: steps before it are warm-up and not measured. */
enum lw_status lw_timeline_summarize(const struct lw_timeline *t, const struct lw_plan *plan,
                                     int32_t first_step, struct lw_summary *out,
                                     struct lw_err *err);
void lw_summary_free(struct lw_summary *s);

/* Length of the union of [start, end) intervals clipped to [from, to): the one place where busy and
 * exposed times come from. Sorts the arrays in place. */
struct lw_interval { lw_ps start, end; };
lw_ps lw_intervals_union(struct lw_interval *v, int64_t n, lw_ps from, lw_ps to);
/* Length of union(a) minus union(b), both sorted and merged by the call. */
lw_ps lw_intervals_minus(struct lw_interval *a, int64_t n_a, struct lw_interval *b, int64_t n_b,
                         lw_ps from, lw_ps to);

#endif

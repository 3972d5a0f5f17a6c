#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/err.h"
#include "shared/timeline/timeline.h"

struct lw_plan;

/* The rows of a simulation in 12 to 24 bytes each, where columns take 65: start, all_in and end as
 * differences from the first time that was known of their block, in as many bytes as the block
 * needs. Step, pass and rank follow from the row's run, the op from its place there, stream,
 * communicator and kind from the op, and ready and issue from the ends of what the op waits for.
 *
 * A run is the rows of one rank in one pass: those of a program's ops in their order. */
struct lw_packed_run {
    int64_t first;    /* row */
    int32_t step, pass, rank, first_op;
    lw_ps begin;      /* when the rank begins the pass; lw_packed_begin */
};

struct lw_packed_rows;

/* n_runs runs, which the caller fills through lw_packed_run_at before anything is put: sorted by
 * their first row. The plan's tables must live as long as the rows. LW_ENOTSUP: this machine lacks
 * the memory. */
enum lw_status lw_packed_new(const struct lw_plan *plan, int64_t n_runs, int64_t n_rows,
                             struct lw_packed_rows **out, struct lw_err *err);
struct lw_packed_run *lw_packed_run_at(struct lw_packed_rows *p, int64_t run);
void lw_packed_runs_done(struct lw_packed_rows *p); /* all runs are filled */
void lw_packed_free(struct lw_packed_rows *p);

/* The times of a row, and two of them later. now: the clock, which is at most what is put. false
 * without memory. */
bool lw_packed_put(struct lw_packed_rows *p, int64_t row, lw_ps now, struct lw_times at);
bool lw_packed_put_all_in(struct lw_packed_rows *p, int64_t row, lw_ps all_in);
bool lw_packed_put_end(struct lw_packed_rows *p, int64_t row, lw_ps end);

struct lw_times lw_packed_times(const struct lw_packed_rows *p, int64_t row);
/* The run that holds a row; *end: the first row after it. */
const struct lw_packed_run *lw_packed_run_of(const struct lw_packed_rows *p, int64_t row,
                                             int64_t *end);
struct lw_span lw_packed_get(const struct lw_packed_rows *p, int64_t row);
/* Of an op: kind (enum lw_op_kind) and communicator. */
uint8_t lw_packed_kind(const struct lw_packed_rows *p, int32_t op);
int32_t lw_packed_comm(const struct lw_packed_rows *p, int32_t op);

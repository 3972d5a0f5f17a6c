#pragma once

#include "shared/cluster/cluster.h"
#include "shared/plan/plan.h"
#include "shared/plan/plan_builder.h"
#include "shared/timeline/timeline.h"
#include "sim/predict/sim.h"

/* Clusters and plans that the simulator's tests share. */

/* One node of n devices on links of one speed; free with lw_cluster_free. */
void make_cluster(struct lw_cluster *c, int32_t n, double bytes_per_s, lw_ps latency);
/* Room for exceptions and tables is taken from the cluster's arena. */
void add_exception(struct lw_cluster *c, struct lw_exception x);
void add_table(struct lw_cluster *c, enum lw_op_kind op, int32_t n_ranks, int32_t n_in_flight,
               int32_t n_rows, const int64_t *bytes, const lw_ps *time_ps);
struct lw_figure given(double value);
/* Devices with so many SMs, of which NCCL's kernels hold `each` for a block, on an H100's NVLinks
 * (18 of 20.6 GB/s) and the NVSwitch: on 8 of them ring/LL has 24 blocks for 1 MiB. */
void give_channels(struct lw_cluster *c, double n_sms, double each);

/* A plan in the making with one role for all ranks, a compute stream (0), a communication stream
 * (1) and one communicator class (0) over all ranks on it; one variant, whose program is open. */
struct lw_builder *begin_plan(const char *name, int32_t n_ranks);
void finish_plan(struct lw_builder *b, struct lw_plan *plan); /* one pass of the variant */
/* One more class, over all ranks, on stream 1. */
int32_t add_class(struct lw_builder *b, int32_t n_ranks, enum lw_reducer_kind reducer);
/* Ops; dep -1 = none. Each returns the op's number. */
int32_t add_work(struct lw_builder *b, enum lw_op_kind kind, int32_t stream, lw_ps work,
                 int32_t dep);
int32_t add_collective(struct lw_builder *b, enum lw_op_kind kind, int32_t comm, int32_t stream,
                       int64_t bytes, int32_t dep);
int32_t add_message(struct lw_builder *b, enum lw_op_kind kind, int32_t comm, int32_t stream,
                    int64_t bytes, int32_t peer, int32_t call, int32_t dep);

/* The same with one role per rank, whose programs the caller opens; the class is of the world. */
struct lw_builder *begin_roles(int32_t n_ranks);
/* An all-reduce with a recorded time, so that the numbers are round. */
int32_t add_timed(struct lw_builder *b, int32_t comm, int32_t stream, int64_t bytes, lw_ps time,
                  int32_t dep);

/* One prediction: what it is made of, and what came out. Zeroed: nothing yet. */
struct world {
    struct lw_plan plan;
    struct lw_cluster c;
    struct lw_timeline t;
    struct lw_sim_stats s;
};

/* The plan of b, finished, and one node of as many devices on links of 1000 bytes/us, no
 * latency. */
void make_world(struct world *w, struct lw_builder *b);
void free_world(struct world *w);
void run_world(struct world *w, struct lw_sim_options o); /* as run_both */
/* The row of an op of the first step or a later one; fails the test when there is none. */
struct lw_span row_of(const struct world *w, int32_t step, int32_t rank, int32_t op);
void expect_span(const struct world *w, int32_t rank, int32_t op, lw_ps start, lw_ps end);
/* NULL: the run has no such term. */
const struct lw_sim_term *term_of(const struct world *w, const char *name);

/* A plan by hand as a table of its ops, sorted by rank, and when they run, in us. Row i is op i. */
enum { EVERY = -1 };
struct hand_op {
    int32_t rank; /* EVERY: of all ranks, which then have one role, else each its own */
    enum lw_op_kind kind;
    int32_t stream,
        comm;      /* comm: each but the first is of all ranks, on the stream of its first op */
    int64_t bytes; /* of compute: that it moves through its device's memory */
    int32_t us;    /* its own time; 0: the cluster's */
    int32_t peer, call; /* call: of a group call, from 1; 0 = none */
    int32_t after;      /* the row it waits for, from 1; 0 = none */
    int32_t start, end; /* end 0: not looked at */
};
/* The plan of the rows in a world of n ranks, as make_world; run it and compare. */
#define make_hand(w, n_ranks, rows) make_hand_of(w, n_ranks, sizeof(rows) / sizeof *(rows), rows)
#define run_hand(w, rows) run_hand_of(w, sizeof(rows) / sizeof *(rows), rows)
void make_hand_of(struct world *w, int32_t n_ranks, size_t n, const struct hand_op *rows);
void run_hand_of(struct world *w, size_t n, const struct hand_op *rows);

/* The exact oracles of sim/bench/bench_plan.h. */
enum { ORACLE_BYTES = 67108864 };
void make_w_ar(struct lw_plan *plan, int32_t n_ranks);
void make_w_ddp(struct lw_plan *plan, int32_t n_ranks);
/* 2 (n-1) (B / n / 50e9 B/s + 500 ns), in ps; n divides B. */
lw_ps w_ar_time(int32_t n_ranks);

/* Run with ranks that are alike folded and ops merged, and without either: both end at the same
 * times, row by row and measure by measure, or the test fails. The rows are those of all ranks;
 * stats are of the run without, but for n_simulated. */
void run_both(const struct lw_plan *plan, const struct lw_cluster *c, struct lw_sim_options o,
              struct lw_timeline *t, struct lw_sim_stats *s);

/* Run and return the end; fails the test when the run fails. */
lw_ps run_end(const struct lw_plan *plan, const struct lw_cluster *c, struct lw_sim_options o);
/* Run again and again, the first, second, ... allocation failing, until none does: what failed is
 * LW_ENOMEM, keeps nothing and leaves timeline and stats as they were. How often it failed. */
int64_t run_without_memory(const struct lw_plan *plan, const struct lw_cluster *c,
                           struct lw_sim_options o);

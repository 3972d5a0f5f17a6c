#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "exec/calibrate/calibrate.h"
#include "exec/calibrate/calibrate_samples.h"
#include "exec/run/run.h"
#include "shared/cluster/cluster.h"
#include "shared/cluster/measured.h"
#include "shared/cluster/work_table.h"
#include "shared/plan/plan.h"

/* What the files of calibrate share:
 *
 *   calibrate.c          rounds of series, within their time; running a plan
 *   calibrate_comm.c     series of communication, and of compute beside it
 *   calibrate_pairs.c    series of two activities at once
 *   calibrate_work.c     series of what a rank does by itself
 *   calibrate_cluster.c  the cluster that comes of them
 *   calibrate_plan.c     the plans */

enum { CALIBRATE_SIZES = 24, CALIBRATE_WARMUP = 2, CALIBRATE_N_WORK = 18, EXEC_N_PASSES = 5 };

/* Tables of communication. */
enum exec_series {
    SERIES_REDUCE_ALL,
    SERIES_BROADCAST,
    SERIES_GATHER,
    SERIES_SCATTER,
    SERIES_REDUCE_ONE,
    SERIES_ALL_TO_ALL,
    SERIES_BARRIER,
    SERIES_SEND,
    SERIES_SEND_BOTH, /* a message each way at once */
    SERIES_SEND_FAR,  /* between nodes, of as many pairs at once as a node has ranks */
    SERIES_SEND_FAR_BOTH,
    N_SERIES,
    /* from here: the collectives again, in groups of 2, 4 and 8 consecutive ranks and of one rank
     * of each node, all at once */
    N_COLLECTIVES = SERIES_ALL_TO_ALL + 1,
    SHAPE_ACROSS = 3,
    N_SHAPES,
    /* and from here two of each at once, of all ranks and in those groups */
    FIRST_PAIR = N_SERIES + N_SHAPES * N_COLLECTIVES,
    N_TABLES = FIRST_PAIR + (1 + N_SHAPES) * N_COLLECTIVES,
};

struct exec_calibration {
    const struct lw_calibrate_options *o;
    int32_t per_node;                   /* ranks; 0 = all are on one node */
    struct exec_rendezvous *team;       /* of processes: what rank 0 decides, all do; else NULL */
    /* n_small of them in one plan; n_bucket with real buckets */
    int32_t n_sizes, n_small, n_bucket;
    int64_t bytes[CALIBRATE_SIZES];
    struct exec_samples comm[N_TABLES][CALIBRATE_SIZES];         /* ps */
    struct exec_samples work[CALIBRATE_N_WORK][CALIBRATE_SIZES]; /* ps */
    struct exec_samples copy_rate, launch, kernel;  /* bytes/s; ps; share of the time requested */
    struct exec_samples compute_rate, comm_rate;    /* under each other */
    struct exec_samples pair[LW_N_ACTIVITIES][LW_N_ACTIVITIES]; /* rates: of, beside */
    int32_t n_apart[LW_N_ACTIVITIES][LW_N_ACTIVITIES]; /* samples that hardly overlap: no rate */
    struct exec_samples disturbance; /* length of the kernels of each compute_rate, ps */
    struct exec_samples unit_alone, unit_all;       /* ns per GEMM */
    struct exec_samples probe; /* ps of a product, in all plans of all ranks */
    char name[320], device[96];
    double unit_flops, memory_bytes, free_bytes;
    int32_t n_larger; /* of passes over memory: sizes beyond 16 MiB, by twos; 0 on CPUs */
    bool comm_on_compute_core;
};

/* One piece of a round: what it measures, of which sizes, in how many steps. Where it begins
 * with the smallest size, that comes twice: what runs first in a step waits for the step as
 * well, and is not kept. */
struct exec_piece {
    enum lw_status (*run)(struct exec_calibration *c, const struct exec_piece *p,
                          struct lw_err *err);
    int32_t series, first, n, n_steps;
};

/* calibrate.c */
struct exec_calibrate_run {
    int32_t n_steps, n_warmup;
    enum exec_compute compute;
    enum exec_optimizer_kind optimizer;
};
typedef enum lw_status exec_calibrate_keep(struct exec_calibration *c, const struct exec_piece *p,
                                           const struct lw_plan *plan,
                                           const struct lw_exec_result *r, struct lw_err *err);
/* Run the plan on all ranks, keep what it is about, free it. */
enum lw_status exec_calibrate_run(struct exec_calibration *c, const struct exec_piece *p,
                                  struct lw_plan *plan, struct exec_calibrate_run how,
                                  exec_calibrate_keep *keep, struct lw_err *err);
lw_ps exec_calibrate_length(const struct lw_timeline *t, int64_t row); /* once all are in */
/* The sizes [first, first + n) of a list as a plan gets them; returns their number. */
int32_t exec_calibrate_sizes(const int64_t *all, int32_t first, int32_t n,
                             int64_t sizes[CALIBRATE_SIZES + 1]);
/* Which size of the list a row of such a plan is about; -1: it does not count. */
int32_t exec_calibrate_size_of(const struct lw_plan *p, const struct lw_timeline *t, int64_t row,
                               int32_t first);

/* calibrate_comm.c */
bool exec_series_can(const struct exec_calibration *c, enum exec_series s);
enum lw_op_kind exec_series_op(enum exec_series s);
int32_t exec_series_in_flight(enum exec_series s);
int32_t exec_series_group(const struct exec_calibration *c, enum exec_series s); /* of ranks */
int32_t exec_series_nodes(const struct exec_calibration *c, enum exec_series s); /* they live on */
int32_t exec_calibrate_per_node(const struct exec_calibration *c);
/* The sizes of a series: those of the calibration, or 0 alone. */
const int64_t *exec_series_sizes(const struct exec_calibration *c, enum exec_series s, int32_t *n);

enum lw_status exec_calibrate_alone(struct exec_calibration *c, const struct exec_piece *p,
                                    struct lw_err *err);
enum lw_status exec_calibrate_collectives(struct exec_calibration *c, const struct exec_piece *p,
                                          struct lw_err *err);
enum lw_status exec_calibrate_messages(struct exec_calibration *c, const struct exec_piece *p,
                                       struct lw_err *err);
enum lw_status exec_calibrate_beside(struct exec_calibration *c, const struct exec_piece *p,
                                     struct lw_err *err);
/* The lost compute is a small difference of long times: *out, empty before, gets the rates of the
 * steps that something else on the machine disturbed least, the quarter with the shortest
 * kernels. */
enum lw_status exec_calibrate_undisturbed(const struct exec_calibration *c,
                                          struct exec_samples *out, struct lw_err *err);

/* calibrate_pairs.c */
int32_t exec_calibrate_n_pairs(void);
bool exec_calibrate_pair_fits(const struct exec_calibration *c, int32_t pair);
enum lw_status exec_calibrate_pairs(struct exec_calibration *c, const struct exec_piece *p,
                                    struct lw_err *err); /* series: which pair */
exec_calibrate_keep exec_calibrate_keep_pairs;

/* calibrate_work.c */
struct exec_work_series {
    enum lw_work_kind kind;
    enum lw_dtype dtype, from;
};
extern const struct exec_work_series exec_work_series[CALIBRATE_N_WORK];
int64_t exec_work_size(int32_t series, int32_t i); /* the i-th, of those that were measured */

enum lw_status exec_calibrate_steady(struct exec_calibration *c, const struct exec_piece *p,
                                     struct lw_err *err); /* kernels of 1 ms; n: ranks */
enum lw_status exec_calibrate_launches(struct exec_calibration *c, const struct exec_piece *p,
                                       struct lw_err *err);
/* series: which of EXEC_N_PASSES types. fits: the type holds the sums of so many ranks. */
bool exec_calibrate_pass_fits(const struct exec_calibration *c, int32_t pass);
enum lw_status exec_calibrate_passes(struct exec_calibration *c, const struct exec_piece *p,
                                     struct lw_err *err);
enum lw_status exec_calibrate_copies(struct exec_calibration *c, const struct exec_piece *p,
                                     struct lw_err *err);
enum lw_status exec_calibrate_updates(struct exec_calibration *c, const struct exec_piece *p,
                                      struct lw_err *err); /* series: enum exec_optimizer_kind */
enum lw_status exec_calibrate_products(struct exec_calibration *c, const struct exec_piece *p,
                                       struct lw_err *err);
/* Sets n_larger. A GPU's kernels of 16 MiB last about as long as their launch: there passes go up
 * to 1 GiB, or as far as the plans fit into the free memory. To call once, by all processes. */
enum lw_status exec_calibrate_find_larger(struct exec_calibration *c, struct lw_err *err);

/* calibrate_cluster.c: *out is to be freed in every case. */
enum lw_status exec_calibrate_cluster(struct exec_calibration *c, struct lw_cluster *out,
                                      struct lw_err *err);

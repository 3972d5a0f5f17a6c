#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "analysis/compare/framework_difference.h"
#include "analysis/compare/speed_split.h"
#include "analysis/store/store.h"
#include "shared/timeline/period_figures.h"

/* Two stored runs side by side. Of a simulation and an execution (or import) the simulation is
 * the prediction, in whichever order they are given; two runs of one kind are A and B, in the
 * order given, and A stands where the prediction would. All times are medians over measured
 * steps. See docs/design/compare.md. */

/* A quantity on both sides; -1 = not known. */
struct lw_both {
    lw_ps predicted, measured;
};

/* A smaller gain does not justify a change of the default. Steps of one configuration differ more:
 * by 1.3 % in the median between MLPerf submitters, by 1.9 % between releases of NVIDIA's DGX Cloud
 * benchmarking. */
#define LW_LEAST_GAIN_PCT 1.0

/* 100 * (predicted - measured) / measured; NAN when either is unknown or measured is 0. */
double lw_both_error_pct(struct lw_both v);

/* The parts of one rank's period, and what the step as all ranks see it is longer than that. They
 * add up to the step. */
enum lw_part { LW_PART_SKEW = LW_N_PERIOD_PARTS, LW_N_PARTS };
const char *lw_part_name(int part); /* of enum lw_period_part, or LW_PART_SKEW */

/* The figures of a rank in the step shown; -1, or a rank that the run does not have: of the one
 * with the longest period. LW_EINVAL: the run has no step (still running, failed), or was stored
 * before steps were periods. */
struct lw_run_parts {
    int32_t rank;
    lw_ps figure[LW_N_FIGURES], skew;
};
enum lw_status lw_run_read_parts(struct lw_store *s, const struct lw_run *run, int32_t rank,
                                 struct lw_run_parts *p, struct lw_err *err);

/* The collectives of one kind on one bucket. Times count from the start of the step (first start on
 * any rank) to the last rank's event. */
enum lw_bucket_time {
    LW_BUCKET_READY,  /* dependencies done */
    LW_BUCKET_LAUNCH, /* handed to its stream; -1 unknown */
    LW_BUCKET_START,  /* local entry */
    LW_BUCKET_FINISH,
    LW_N_BUCKET_TIMES
};
struct lw_bucket_line {
    const char *kind;        /* "all_reduce" */
    int32_t bucket;          /* its number in the prediction's plan */
    struct lw_both bytes, time[LW_N_BUCKET_TIMES];
};

/* One op of both runs (plans with the same ops): its time, and for communication the time from the
 * arrival of the last member (transfer) apart from waiting for it. */
struct lw_op_line {
    const char *name;        /* "backward of layer3", "transfer of bucket 2" */
    struct lw_both time;     /* median over measured steps of the mean over ranks */
};

enum lw_joined { LW_JOINED_OP, LW_JOINED_BUCKET, LW_JOINED_STEP };
const char *lw_joined_name(enum lw_joined j);

/* Their plans decide the same. */
bool lw_same_decisions(const struct lw_run *a, const struct lw_run *b);

enum { LW_OPS_SHOWN = 12 };

struct lw_comparison {
    struct lw_arena arena;   /* owns all below */
    struct lw_run predicted, measured;
    bool of_one_kind;        /* A and B: no prediction is judged */
    struct lw_framework_difference framework;
    const char *label[2];    /* what tells the two apart (run_name.h), else "run 7" */
    enum lw_joined joined;
    bool same_decisions;     /* one plan hash; times may differ */
    const int64_t *same_op;  /* of the prediction's ops, the other's; NULL: of the same number */
    const char *difference;  /* the first decision that differs; "" = none, or unknown */
    const char **from_times[2]; /* with a difference that no option makes: what times
                                 * decided in either plan */
    int32_t n_from_times[2];
    bool other_calibration;  /* the execution's backend is not that of its cluster's calibration */
    const char *note;        /* why not by op, or why by op though the plans differ; else "" */
    /* whose parts, predicted and measured: the measured run's rank with the longest period, on
       both sides where both have it */
    int32_t rank[2];
    struct lw_both step, figure[LW_N_FIGURES], skew;
    struct lw_speed_split split; /* of compute, where a prediction is judged, and can be */
    int32_t n_buckets, n_ops; /* at most LW_OPS_SHOWN ops */
    struct lw_bucket_line *buckets; /* in launch order */
    struct lw_op_line *ops;         /* largest difference first */
};

struct lw_both lw_comparison_part(const struct lw_comparison *c, int part);
/* Of a prediction its error; of A and B the change from A to B. In percent; NAN as above. */
double lw_comparison_pct(const struct lw_comparison *c, struct lw_both v);

/* A and B whose steps train different numbers of tokens, or samples: the time of one of them, in
 * ps. unit NULL: the steps train as many, or it is not known, or a prediction is judged. */
struct lw_per_unit {
    const char *unit; /* "token", "sample" */
    double a, b;      /* of one step */
};
struct lw_per_unit lw_comparison_per_unit(const struct lw_comparison *c);
/* The change from A to B of a time of one unit; NAN as above. */
double lw_per_unit_pct(struct lw_per_unit u, struct lw_both v);

/* LW_EINVAL: one of the runs has no step (still running, failed). */
enum lw_status lw_compare(struct lw_store *s, const char *run_a, const char *run_b,
                          struct lw_comparison *out, struct lw_err *err);
void lw_comparison_free(struct lw_comparison *c);

/* The prediction that belongs to an execution (or import) among `runs`, which ascend by id: the
 * last simulation of the same plan, framework and cluster that has a step, else of the same plan
 * and framework; NULL = none, or not an execution that has a step. */
const struct lw_run *lw_prediction_of(const struct lw_run *runs, int32_t n,
                                      const struct lw_run *measured);
bool lw_run_is_measured(const struct lw_run *r); /* an execution or import that has a step */

/* Keep how far a prediction was from a measurement: called by who has just finished `run`. An
 * execution is set against the last prediction of its plan and framework for its cluster (by
 * content), a prediction against the last measured run of these; without a partner nothing is
 * kept. One row per pair. */
enum lw_status lw_comparison_record(struct lw_store *s, int64_t run, struct lw_err *err);

#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "analysis/alike/alike_key.h"
#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "shared/base/progress.h"
#include "shared/cli/cli.h"

/* Predictions beside what was measured, by families of cases that share a model and bars. A
 * series is a part of a family whose cases differ in one choice only, such as the bucket caps of
 * one file, so that their order can be judged. See docs/design/validate.md. */

/* What a family of predictions must reach, in percent; 0 = not asked. */
struct lw_bars {
    double mean_pct, worst_pct, order_pct;
};

struct lw_family {
    const char *name;
    struct lw_bars bars;
    bool overall;         /* counts in the overall error: predictions of whole steps in time */
    double table_bar_pct; /* 0, or the bar of each table's mean, where there are several: of the
                           * series whose names are equal before the comma */
    bool has_base;        /* no table may be worse than in family `base` */
    int32_t base;
    const char *base_bar; /* names the error that may not be worse */
    int32_t n_fitted, fit_rows;
    /* found by lw_validation_judge: */
    int32_t n, n_unmeasured; /* cases with a measured value, and without */
    int32_t n_asked, n_beyond; /* cases with an allowed difference, and those beyond it */
    int32_t worst;        /* number of the worst case, -1 = none */
    double mean_abs_pct, max_abs_pct, bias_pct; /* bias: mean of the signed errors */
    int64_t n_pairs, n_right;
    /* of tables of training runs: */
    bool runs;            /* its cases are runs: a row without a time is not a miss */
    double memory_bar_pct, rank_bar; /* mean error of memory at most, rank correlation at least */
    int32_t n_skipped, n_memory; /* rows passed over; cases with measured memory */
    /* Cases that ran and those that failed, and how many of each are predicted right: to fit, and
     * not to. */
    struct lw_fits {
        int32_t n, n_right;
    } ran, failed;
    double memory_mean_pct, memory_bias_pct;
};

enum { LW_APART_PCT = 3 };

struct lw_series {
    const char *name;
    int32_t family;
    double margin_pct;    /* cases nearer than this have no order */
    int32_t n;
    double mean_abs_pct, max_abs_pct, bias_pct;
    int64_t n_pairs, n_right;
    bool sweep;           /* judged by rank correlation and not by pairs */
    double rank;          /* Spearman's; NaN with fewer than 4 measured cases, as those below */
    int64_t n_apart;      /* pairs whose measured times per token differ by LW_APART_PCT or more */
    double order;         /* of them right less wrong ones, over all; NaN without one */
    double regret_pct;    /* of the case predicted fastest: measured, against the fastest */
};

/* A row that is not predicted, and why. */
struct lw_skip {
    int32_t family;
    const char *id, *reason;
};

/* A row that is refused, or a title, and why: one line for the user. */
struct lw_refusal {
    const char *file, *column, *text;
    int32_t line;
};

struct lw_case {
    const char *id, *unit; /* "ns": a time, printed as such */
    int32_t family, series;
    double predicted, measured; /* measured 0: it was not, or cannot be read */
    double allowed;        /* |predicted - measured| at most, in units; 0 = not asked */
    const char *remark;    /* what is known about the measurement; "" = nothing */
    double error_pct;      /* (predicted - measured) / measured; 0 without a measurement */
    /* of runs; 0 = not known: */
    double predicted_bytes, measured_bytes, tokens_per_s_device;
    double needed_bytes, capacity_bytes; /* of the fullest rank, and of a device */
    double measured_mfu_pct; /* that the measured step alone implies */
    const char *memory_kind; /* of both bytes: "allocated", "reserved", "device"; "" = not
                              * known */
    bool failed;           /* the run did not fit, or crashed */
    struct lw_alike_key key; /* of runs like this one; NULL: not known */
    const char *command;   /* of runs: prints the same step and memory; NULL = none */
    double machine_speed;  /* of this machine during the run, as a share of the calibrated speed;
                            * 0 = not known */
    bool refused;          /* predicted: the framework ends it before its first step (remark) */
};

/* A figure that was fitted on measured cases. */
struct lw_fit {
    int32_t family, n_rows;
    const char *name, *unit, *fitted_on;
    double value;
};

struct lw_note {
    int32_t family;
    const char *about, *text;
};

/* A bar that was missed, and what the numbers say about why. */
struct lw_miss {
    int32_t family;
    const char *bar;       /* "mean", "table", "worst", "order"; "measured": share of cases that
                            * were; "digits": share of cases within their allowed difference */
    double value_pct, allowed_pct;
    const char *reason;
};

struct lw_validation {
    struct lw_arena arena; /* owns the lists and their strings */
    /* Of runs: a framework (name or file) of the rows that name none, and in the place of the known
     * one of its name; borrowed; NULL = none. n_framework_rows: rows that take it. */
    const char *framework_file, *framework_name;
    int32_t n_framework_rows;
    const struct lw_progress *progress; /* of the files; borrowed; NULL = silent */
    int32_t n_files, n_done; /* of them */
    bool interrupted;        /* a signal ended it: cases are missing */
    int32_t n_loaded;        /* cases that were measured under load: misses blame no model */
    double tolerance_pct;    /* of runs: bar of each family's mean errors; 0 = none */
    int32_t n_families, n_series, n_cases, n_fits, n_notes, n_misses, n_skips, n_refusals;
    struct lw_family *families;
    struct lw_series *series;
    struct lw_case *cases;
    struct lw_fit *fits;
    struct lw_note *notes;
    struct lw_miss *misses;
    struct lw_skip *skips;
    struct lw_refusal *refusals;
    double mean_abs_pct, max_abs_pct; /* of the families that count overall; -1 = none */
    int64_t n_pairs, n_right;
};

/* Row i of n of the current file begins; false: a signal asks to stop before it. */
bool lw_validation_goes_on(const struct lw_validation *v, const char *file, int32_t i, int32_t n);

/* Strings are copied. Each returns LW_ENOMEM or LW_OK, with the new thing's number in *out; a
 * family that is there already is found by its name. */
enum lw_status lw_validation_family(struct lw_validation *v, const char *name, struct lw_bars bars,
                                    bool overall, int32_t *out, struct lw_err *err);
enum lw_status lw_validation_series(struct lw_validation *v, int32_t family, const char *name,
                                    double margin_pct, int32_t *out, struct lw_err *err);
/* A series whose order is judged by rank correlation: runs of one model on as many devices. */
enum lw_status lw_validation_sweep(struct lw_validation *v, int32_t family, const char *name,
                                   int32_t *out, struct lw_err *err);
enum lw_status lw_validation_skip(struct lw_validation *v, int32_t family, const char *id,
                                  const char *reason, struct lw_err *err);
enum lw_status lw_validation_refuse(struct lw_validation *v, const struct lw_refusal *r,
                                    struct lw_err *err);
/* series -1: in none. LW_EFORMAT: a prediction that is not above 0, or an id that is there
 * already. */
enum lw_status lw_validation_case(struct lw_validation *v, const struct lw_case *c,
                                  struct lw_err *err);
enum lw_status lw_validation_fit(struct lw_validation *v, const struct lw_fit *f,
                                 struct lw_err *err);
/* One line about a family; `about` is printed once. */
enum lw_status lw_validation_note(struct lw_validation *v, int32_t family, const char *about,
                                  const char *text, struct lw_err *err);

/* Errors, orders and misses from the cases. */
enum lw_status lw_validation_judge(struct lw_validation *v, struct lw_err *err);
void lw_validation_free(struct lw_validation *v);

/* A bar that was missed; called while judging. */
enum lw_status lw_validation_miss(struct lw_validation *v, int32_t family, const char *bar,
                                  double value, double allowed, const char *reason,
                                  struct lw_err *err);
/* validate_ranks.c: memory, fits and ranks of runs; part of lw_validation_judge. */
enum lw_status lw_validation_judge_runs(struct lw_validation *v, struct lw_err *err);
int lw_case_fits(const struct lw_case *c); /* 1, 0; -1 = not known */

/* validate_print.c */
enum lw_status lw_validation_print(const struct lw_validation *v, enum lw_format format, FILE *f,
                                   struct lw_err *err);

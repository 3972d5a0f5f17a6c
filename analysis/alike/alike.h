#pragma once

#include <stdint.h>

#include "analysis/alike/alike_key.h"
#include "shared/base/arena.h"
#include "shared/io/input.h"

/* "Runs like this one": how far predictions of measured runs were off that have the same framework,
 * device, parallelism and network. See docs/design/evidence.md. */

struct lw_alike_run {
    struct lw_alike_key key;
    const char *table;
    double ratio; /* predicted / measured step, as `sim` predicts it today */
    double judged; /* the same without a figure that was fitted on its own table */
    int32_t number; /* in the order of files and rows */
    int32_t table_number; /* in the order of files */
};

struct lw_alike_runs {
    struct lw_arena arena; /* owns the rows and their texts */
    int32_t n, n_tables;
    struct lw_alike_run *runs;   /* the smallest ratio first */
    struct lw_alike_run *judged; /* the same runs, the smallest `judged` first */
    int32_t *count;              /* [n_tables] room of lw_alike_find */
};

/* Adds the rows of one table, whose name is the file's. CSV with framework, device, parallelism,
 * network, predicted_s and measured_s, and left_out_s where a figure was fitted on the table: the
 * prediction without it, by which the run is judged. Other columns are not read, nor rows without
 * measured_s. LW_EFORMAT names line and column. Free also after a failure. */
enum lw_status lw_alike_add(const struct lw_input *in, struct lw_alike_runs *r, struct lw_err *err);
/* The results that the program carries (docs/results/evidence). */
enum lw_status lw_alike_known(struct lw_alike_runs *out, struct lw_err *err);
void lw_alike_free(struct lw_alike_runs *r);

enum {
    LW_ALIKE_LEAST = 8, /* fewer runs give no interval */
    LW_ALIKE_TABLES = 3 /* nor do fewer tables say how tables differ */
};

/* Whose runs an interval is of: the first kind that has LW_ALIKE_TABLES tables. */
enum lw_alike_of {
    LW_ALIKE_OF_KEY,         /* framework, device, parallelism and network */
    LW_ALIKE_OF_PARALLELISM, /* the same parallelism */
    LW_ALIKE_OF_ALL,
    LW_ALIKE_OF_NONE
};

struct lw_alike {
    int32_t n, n_tables;   /* runs that are alike, and the tables that they are of */
    double mean, p10, p90; /* of predicted / measured; NAN with fewer than LW_ALIKE_LEAST */
    /* The interval: 80 % of the runs of a table that is not among these, by the runs of `of_tables`
     * tables, each of which has the same weight, lie between. NAN: of NONE. */
    enum lw_alike_of of;
    int32_t of_runs, of_tables;
    double low, high;
    /* By the same weights: the median of predicted / measured, and the share of runs that took
     * longer than predicted. */
    double median, longer;
    /* By lw_alike_find_nearest: the nearest kind of at least LW_ALIKE_LEAST runs; n 0: there is
     * none, or it was not asked for. */
    int32_t n_nearest;
    struct lw_alike_key nearest;
};

/* except: a table whose runs do not count; NULL = none. */
void lw_alike_find(const struct lw_alike_runs *r, const struct lw_alike_key *key,
                   const char *except, struct lw_alike *out);

void lw_alike_find_nearest(const struct lw_alike_runs *r, const struct lw_alike_key *key,
                           const char *except, struct lw_alike *out);

/* "33 runs like this one in 3 tables", "58 runs like this one, and 8 tables with the same
 * parallelism": what an interval that is not of NONE comes from. Returns buf. */
char *lw_alike_of_text(const struct lw_alike *a, char *buf, size_t size);

/* "the nearest are 96 runs of nemo on H100-SXM5-80GB (model, InfiniBand); they differ in network":
 * for n_nearest > 0. Returns buf. */
char *lw_alike_nearest_text(const struct lw_alike *a, const struct lw_alike_key *key, char *buf,
                            size_t size);

#pragma once

#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "shared/numbers/units.h"

/* What the runs of a measured-run file showed: to be compared with, never to predict from. */
struct lw_input;

struct lw_gt_measured {
    const char *config;        /* "cap25" */
    lw_ps step[2];             /* median by rank; -1 = not there */
    lw_ps first_step[2];       /* of a first run that was repeated; -1 = there was none */
    double rel_iqr; /* interquartile range over median, the larger rank's; -1 = unknown */
    int32_t n_buckets;         /* as DDP logged them after the rebuild; 0 = unknown */
    int64_t *bucket_bytes;
};

struct lw_gt_results {
    struct lw_arena arena;    /* owns the strings and lists */
    int32_t n;
    struct lw_gt_measured *v; /* [n]; owned */
};

/* The file has passed lw_groundtruth_read. */
enum lw_status lw_groundtruth_measured(const struct lw_input *in, struct lw_gt_results *out,
                                       struct lw_err *err);
const struct lw_gt_measured *lw_gt_measured_find(const struct lw_gt_results *r, const char *config);
void lw_gt_results_free(struct lw_gt_results *r);

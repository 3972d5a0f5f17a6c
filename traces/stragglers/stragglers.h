#pragma once

#include <stdint.h>
#include <stdio.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "traces/stragglers/job_ops.h"

struct lw_jsonout;

/* How much longer a job takes than if all its workers were alike, and because of whom. */

/* The job without stragglers, but with the operations of one part as recorded, over the job without
 * stragglers: 1 = that part costs nothing. */
struct traces_blame {
    const char *name;
    int32_t number; /* of a rank or stage; -1 = of a type */
    double slowdown;
    double *steps; /* [n_steps] the same of each step; NULL of a worker */
};

struct traces_blames {
    int32_t n;
    struct traces_blame *v; /* the largest first */
};

/* The share of the slowdown that goes when a part of the job is as without stragglers, and the
 * share that comes when that part alone is as recorded. */
struct traces_share {
    double removed, added;
    int64_t removed_ns, added_ns; /* mean steps */
    int32_t n_ranks, rank;        /* of the slowest workers: how many, and the slowest of them */
};

struct traces_straggler_step {
    int64_t step, recorded_ns, simulated_ns, alike_ns;
    double slowdown;
};

struct traces_stragglers {
    struct lw_arena arena;
    int64_t recorded_ns;  /* mean step: as recorded */
    int64_t simulated_ns; /* ... with the recorded operations, each as soon as it can */
    int64_t alike_ns;     /* ... of computes of mean, of transfers of median length */
    double slowdown;      /* simulated over alike: S */
    struct traces_blames by_type, by_dp, by_stage, by_worker;
    struct traces_share slowest, last_stage; /* M_W, M_S */
    int32_t n_steps;
    struct traces_straggler_step *steps;
};

enum lw_status traces_stragglers_find(const struct job_ops *j, struct traces_stragglers *out,
                                      struct lw_err *err);
void traces_stragglers_free(struct traces_stragglers *s);

/* Members of an open object; text. */
void traces_stragglers_json(const struct traces_stragglers *s, struct lw_jsonout *o);
enum lw_status traces_stragglers_text(const struct traces_stragglers *s, FILE *f,
                                      struct lw_err *err);

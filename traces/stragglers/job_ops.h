#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"

struct lw_input;

/* The operations of a training job, as a profiler on every worker recorded them: one worker a
 * (data-parallel rank, pipeline stage). Every step runs the same ones. */

enum job_type {
    JOB_FORWARD,
    JOB_BACKWARD,
    JOB_FORWARD_SEND,
    JOB_FORWARD_RECV,
    JOB_BACKWARD_SEND,
    JOB_BACKWARD_RECV,
    JOB_GATHER_PARAMS,
    JOB_REDUCE_GRADS,
    JOB_REDUCE_SEPARATE,
    JOB_REDUCE_NORMS,
    JOB_REDUCE_EMBEDDING,
    JOB_CLIP,
    JOB_OPTIMIZER,
    JOB_GC,
    JOB_N_TYPES,
};

/* An operation of a step on a stage, whatever the data-parallel rank. */
struct job_op {
    enum job_type type;
    int32_t seq, stage; /* seq: among those of its type on the stage, by start */
    int32_t chunk, model_chunk; /* of the stage, of the model; -1 = not applicable */
};

struct job_ops {
    struct lw_arena arena; /* owns everything below */
    const char *file;      /* borrowed */
    int32_t n_steps, n_dp, n_stages, n_chunks;
    int64_t *steps;        /* [n_steps] as the file numbers them, ascending */
    int32_t *rank;         /* [n_dp * n_stages] as the file numbers the workers */
    int32_t n_ops;
    struct job_op *ops;    /* by stage, type and seq */
    int64_t n_runs;        /* n_steps * n_dp: how often each op ran */
    int64_t *start_ns;     /* [n_ops * n_runs]: of op o, step s, rank d at (o * n_steps + s) * n_dp
                            * + d; since the step's start */
    int64_t *dur_ns;       /* >= 0 */
};

/* Is this a table of operations, by the titles of its first line? */
bool job_ops_is(const struct lw_input *in);
/* LW_EFORMAT: a line that cannot be, an unknown type, an op that a worker ran in one step and not
 * in another (both named). `in` may be freed after. */
enum lw_status job_ops_read(const struct lw_input *in, struct job_ops *out, struct lw_err *err);
void job_ops_free(struct job_ops *j);

const char *job_type_name(enum job_type t); /* "forward-compute", ... */
bool job_type_computes(enum job_type t);    /* rather than moves data */

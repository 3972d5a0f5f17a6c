#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "shared/cluster/cluster.h"
#include "shared/plan/op.h"
#include "shared/plan/plan.h"
#include "shared/timeline/timeline.h"
#include "traces/trace/kernel_class.h"
#include "traces/workload/to_workload.h"

/* A recorded run as a plan: one role per rank, with the host's threads and the device's streams as
 * streams. Durations, the host's own time between calls and dependencies are taken from the traces;
 * no start of a device op is. See docs/design/replay.md. */

/* A collective or kernel, for a rule that times it anew (waiting removed where it could be). */
struct traces_replay_op {
    const char *name; /* of the kernel */
    bool comm;
    enum lw_op_kind kind;
    enum lw_dtype dtype; /* of the message; LW_U8 when unknown */
    int64_t bytes;       /* as in shared/plan/cost.h; -1 = unknown */
    int32_t group_size;  /* -1 = unknown */
    lw_ps recorded; /* -1 = not recorded: a graph of shapes alone, of which those below are known */
    int64_t flops, moved;             /* -1 = unknown */
    const struct lw_product *product; /* that the flops are made of; NULL = none */
    bool measured; /* of a step that the period is taken from */
    struct lw_kernel_type type; /* of a kernel: inputs of the op that launched it */
};

struct lw_bucket_request;

struct traces_replay_rule {
    enum lw_status (*time)(void *ctx, const struct traces_replay_op *op, lw_ps *time,
                           struct lw_err *err);
    const char *(*note)(void *ctx,
                        int k); /* the k-th thing it assumes, after all ops; NULL = end */
    void *ctx;
    bool network; /* collectives of known size are timed anew */
};

struct traces_replay_choice {
    const struct lw_kernel_table *kernels;   /* a user's classes; NULL = none */
    const struct traces_replay_rule *rule;   /* what is timed anew; NULL = nothing */
    const struct lw_bucket_request *buckets; /* gradients' buckets cut again; NULL = as recorded */
    bool no_backlog; /* ops launched before the recording take no time */
    double host_scale; /* of a device: the host's own time is so many times the recorded; 0 = 1 */
    lw_ps unprofiled;  /* with it: the step without the profiler, which that reproduces */
};

struct traces_replay_step {
    const char *name;
    int32_t *first, *last; /* [n_ranks] ops that mark its start and end on the host */
    lw_ps host;            /* recorded host range, of the rank where it is longest */
    lw_ps *host_of_rank;   /* [n_ranks] recorded */
};

struct traces_replay {
    struct lw_arena arena; /* owns everything below but the plan */
    struct lw_plan plan;   /* its notes tell every assumption */
    int32_t n_ranks, n_steps;
    int64_t n_new_buckets; /* that a choice of buckets brought, in all steps of the first rank */
    int64_t n_lost;    /* launches whose device op the traces do not hold */
    int32_t n_workers; /* threads of a rank that ran collectives of the host; 0 = none */
    double core_want;  /* share of its rank's core that a collective of the host wants; 0 = none */
    bool has_device;   /* false: no rank recorded a device op */
    bool marked;       /* false: nothing marks a step, and the whole trace is one */
    struct traces_replay_step *steps;
    int32_t *rank_of_file; /* [n_ranks] rank that each file says it is */
    int32_t *step_of;      /* [plan.n_ops] 0 = launched before the first step, k + 1 = by step k */
    int64_t *row_of;       /* [plan.n_ops] row of its rank's trace: device op or run; -1 */
    lw_ps *recorded_start; /* [plan.n_ops] of ops with a row and of marks, on the clock common to
                            * the ranks */
    lw_ps *recorded_time;  /* [plan.n_ops] how long it took; -1 = not recorded */
};

/* source[0 .. n): traces of one run, a rank each. LW_EFORMAT: nothing to replay (no host event, no
 * launch for any device op), ranks given twice, steps that differ. Free with traces_replay_free. */
enum lw_status traces_replay_build(const struct traces_source *source, int n,
                                   const struct traces_replay_choice *choice,
                                   struct traces_replay *out, struct lw_err *err);
void traces_replay_free(struct traces_replay *r);

/* The machine that a replay runs on: every op has its own time, so no figure is needed but the
 * number of threads that ran collectives of the host. */
struct lw_cluster traces_replay_cluster(const struct traces_replay *r);

#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "shared/numbers/dtype.h"
#include "traces/trace/runtime_calls.h"
#include "traces/trace/kernel_launches.h"
#include "traces/workload/to_workload.h"

struct lw_bucket_request;

/* The moments of one rank's host threads that matter to a replay, in time order; between them the
 * host only works. All from host times and from the order of device ops. */
enum { TRACES_BEFORE_ALL = -1 }; /* instead of a call */

enum traces_point_kind {
    TRACES_POINT_STEP_END,
    TRACES_POINT_STEP_BEGIN,
    TRACES_POINT_CALL,   /* index: into calls */
    TRACES_POINT_ISSUE,  /* a collective of the host is handed over; index: into collectives */
    TRACES_POINT_WAIT,   /* the thread waits for such a collective; index: into collectives */
    TRACES_POINT_BUCKET, /* a bucket that was not recorded is launched; index: into buckets */
    TRACES_POINT_BUCKET_WAIT, /* a host thread waits for it */
};

struct traces_point {
    int64_t ns, end_ns;
    int32_t thread; /* string number */
    int32_t step;   /* into steps; -1 = before the first */
    enum traces_point_kind kind;
    int64_t index;
};

/* A collective that the host itself runs (gloo). */
struct traces_host_comm {
    int64_t row;    /* of its run */
    int64_t issue;  /* row of its launch */
    int64_t start_ns; /* of the run, or, where it waited for nothing but its thread, of its entry */
    int64_t dur_ns;   /* from there, cut at the end of the wait for it */
    int64_t wait_ns, wait_end_ns; /* when its thread waited for it; -1 = no wait found */
    int32_t bucket; /* number among its step's all-reduces of gradients; -1 = none of those */
};

struct traces_bucket { /* one that a what-if asks for */
    int64_t ns;        /* its last gradient is there */
    int32_t thread;
    enum lw_dtype dtype;
    int64_t bytes, step, number; /* number: of its step's */
    int64_t n_gradients;
    int64_t like; /* row of a recorded one that it replaces */
    /* a host thread waits for it then; of a device the stream on which the thread launched last; -1
     * = only what waited for a recorded bucket does (new_of_call) */
    int64_t wait_ns;
    int64_t launch_ns; /* that its launch takes */
    int64_t first_end, n_ends; /* recorded buckets whose last gradient it holds; into recorded */
};

struct traces_recorded_bucket {
    int64_t row, step, bytes;
};

struct traces_range { /* a step */
    const char *name;
    int64_t start_ns, end_ns;
    int32_t thread;
};

struct traces_points {
    struct traces_launches launches;
    struct traces_calls calls;
    int64_t n, start_ns; /* the earliest moment */
    struct traces_point *points;
    int64_t n_steps;
    struct traces_range *steps; /* the whole file where nothing marks a step */
    bool marked;
    int64_t n_comms;
    struct traces_host_comm *comms; /* in the order of their launches */
    int32_t n_workers;              /* threads that ran them */
    bool blocks;  /* fully_shard on a host: each collective blocks its thread */
    /* other buckets: none unless requested */
    int64_t n_buckets, n_replaced, n_kept; /* new; recorded ones replaced, and kept as they are */
    struct traces_bucket *buckets;
    int64_t n_recorded;
    struct traces_recorded_bucket *recorded; /* of all steps, in the order of their gradients */
    int64_t n_untyped; /* gradients whose element type is not recorded: f32 */
    int64_t *new_of_call; /* [calls.n] what waited for this replaced one waits up to that new one;
                           * -1 = not replaced; NULL = none */
    bool *replaced_comm;  /* [n_comms]; NULL = none */
    /* device rows without a launch: the first ones of a stream were launched before the recording
     * and come before all else (TRACES_BEFORE_ALL), others before what call before[i] launched
     * (calls.n: after everything); by that call, then in start order */
    int64_t n_orphans;
    int64_t *orphan, *before;
    int64_t *own_ns; /* [strings] what a waiting call of that name takes of the host itself */
    bool *own_after; /* [strings] and that it takes it after the work that it waits for */
};

/* buckets: cut the gradients' buckets anew; NULL = as recorded. Memory is the arena's. */
enum lw_status traces_points_build(const struct traces_source *s,
                                   const struct lw_kernel_table *kernels,
                                   const struct lw_bucket_request *buckets, struct lw_arena *arena,
                                   struct traces_points *out, struct lw_err *err);

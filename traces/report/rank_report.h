#pragma once

#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "traces/trace/kernel_class.h"
#include "traces/trace/trace.h"

/* What one rank's devices did over the whole file: classes of work, why they idled, how work was
 * launched, and the chain of work that decides its length. docs/design/rank_report.md. */

enum traces_work { /* classes of kernels, and copies and sets */
    TRACES_WORK_OTHER,
    TRACES_WORK_COMM,
    TRACES_WORK_COMPUTE,
    TRACES_WORK_MEMORY,
    TRACES_WORK_COPY,
    TRACES_WORK_BARRIER, /* kernels that wait for other ranks */
    TRACES_N_WORKS,
};

struct traces_work_use {
    int64_t n, total_ns, longest_ns;
    int64_t critical_ns; /* of the critical path */
};

enum traces_idle { /* why a stream ran nothing between two of its ops */
    TRACES_IDLE_HOST,  /* the second was launched after the first had ended */
    TRACES_IDLE_QUEUE, /* at most 30 ns: what a device needs between two */
    TRACES_IDLE_OTHER, /* it was launched earlier: it waited for another stream or the host */
    TRACES_IDLE_UNKNOWN, /* its launch is not in the file */
    TRACES_N_IDLES,
};

struct traces_launch_use {
    int64_t n;                            /* device ops whose call is in the file */
    int64_t call_ns, longest_call_ns;     /* of the calls; sum, longest */
    int64_t n_long_calls;                 /* of more than 50 us */
    int64_t delay_ns, longest_delay_ns;   /* from the call's end to the op's start */
    int64_t n_long_delays;                /* of more than 100 us */
    int64_t n_short_ops;                  /* ops that take less than their call */
    int64_t longest_queue;                /* most ops launched and not started, over all streams */
    double mean_queue;                    /* over the time in which any was */
};

struct traces_rank_report {
    int64_t span_ns;                      /* first device start to last device end */
    int64_t comm_ns, exposed_comm_ns;     /* busy; busy alone */
    struct traces_work_use work[TRACES_N_WORKS];
    int64_t idle_ns[TRACES_N_IDLES];      /* sums over streams */
    struct traces_launch_use launch;
    int64_t critical_host_ns, critical_gap_ns; /* of the critical path: not on the device */
    int64_t critical_ns;                  /* all of it: from the first op on it to the end */
};

/* table may be NULL. A file without device work gives zeros. */
enum lw_status traces_rank_report_find(const struct lw_trace *t,
                                       const struct lw_kernel_table *table,
                                       struct traces_rank_report *out, struct lw_err *err);
const char *traces_work_name(int work); /* "compute", ... */
const char *traces_idle_name(int idle);

/* Kernels by name in two files, those whose time differs most first. Names are the traces'. */
struct traces_kernel_change {
    const char *name;
    int64_t n[2], ns[2];
};
enum lw_status traces_kernel_changes(const struct lw_trace *a, const struct lw_trace *b,
                                     struct lw_arena *arena, struct traces_kernel_change **v,
                                     int64_t *n, struct lw_err *err);

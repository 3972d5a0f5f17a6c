#pragma once

#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "traces/steps/device_figures.h"
#include "traces/trace/kernel_class.h"
#include "traces/trace/runtime_calls.h"

/* What is after the figures of a trace: kernels by class, who waits for whom, and where the
 * device had nothing to do because the host had not launched it yet. docs/design/inspect.md. */

struct traces_class_use {
    int64_t n, total_ns; /* kernels; the sum of their durations */
};

/* The device idled, and the op that ended it was launched only after the idling began. */
struct traces_stretch {
    int64_t start_ns, end_ns; /* since the start of the iteration */
    int64_t launch_ns;        /* call that launched the next op */
    int64_t row;              /* that op */
};

struct traces_host_use {             /* of one iteration */
    int64_t n_launches, launch_ns;   /* calls that launched device work, and their time */
    int64_t n_blocking, blocking_ns; /* calls in which the host waits for the device */
    int64_t host_bound_ns;           /* all such stretches */
    int64_t n_stretches;
    struct traces_stretch *stretches; /* those of at least 50 us, in time order */
};

struct traces_host_bound {
    struct lw_arena arena; /* owns everything below */
    struct traces_class_use classes[LW_N_KERNEL_CLASSES];
    struct traces_calls calls;
    int64_t n_waits[3];           /* by enum traces_wait_source: stream waits and host syncs */
    struct traces_host_use *host; /* one per iteration */
};

/* table may be NULL. */
enum lw_status traces_host_bound_find(const struct lw_trace *t, const struct lw_inspection *in,
                                      const struct lw_kernel_table *table,
                                      struct traces_host_bound *out, struct lw_err *err);
void traces_host_bound_free(struct traces_host_bound *m);

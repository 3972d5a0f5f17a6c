#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "shared/workload/workload.h"
#include "traces/steps/compute_clock.h"
#include "traces/steps/module_segments.h"
#include "traces/steps/step_phases.h"
#include "traces/trace/trace.h"

/* The compute-only cost of a training step, from the steps of one trace. Times in ns. */
struct traces_profile {
    struct lw_arena arena;      /* owns everything below but names, which belong to the trace */
    bool device, parallel;      /* timed on the device; run was data-parallel, its part taken out */
    enum traces_cut cut;
    int32_t n_steps;            /* that were used */
    int32_t n_left_out;         /* steps without a whole forward and backward */
    int32_t n_unlike;           /* whole steps left out: not the gradients and modules of most */
    int32_t n_passes; /* most backward passes of a step; only the last one is the profile */
    int64_t earlier_ns;         /* of the first used step: its passes before the last */
    const char *step_name;      /* of the only step used, else NULL */
    int32_t n_modules, n_gradients;
    const char **module_name;   /* [n_modules], in forward order */
    int32_t *module_of;         /* [n_gradients], gradients in ready order */
    int64_t *numel;             /* [n_gradients] -1 = shape not recorded */
    enum lw_dtype *dtype;       /* [n_gradients] */
    bool dtype_known;           /* of all gradients */
    const struct lw_step *step; /* the first used one: gradients and shapes are its */
    const struct traces_segments *segments; /* of that step */
    struct traces_ops ops;
    int64_t *passed_bytes;      /* [n_modules] first input of the next module; -1 = not recorded */
    /* medians over the used steps; each list sums to its phase */
    int64_t *forward_ns, *backward_ns; /* [n_modules] */
    int64_t *ready_ns;          /* [n_gradients] from the start of the backward, ascending */
    int64_t gap_ns[LW_N_GAPS], forward_total_ns, backward_total_ns, optimizer_ns;
    int64_t step_ns;            /* recorded length of the step, everything included */
    int64_t excluded_ns;        /* taken out of it: data parallelism's work and waiting */
    int64_t busy_ns;            /* of the device's main stream in the step; 0 on a host */
    int64_t host_scale;         /* host gaps were scaled to so many of TRACES_HOST_UNIT */
    int64_t profiled_ns, step_min_ns, step_max_ns; /* as recorded: median, least and most */
};

/* Better times for the gradients than the profiled ones, measured without the profiler. */
struct traces_ready {
    const int64_t *ready_ns;    /* [n_gradients] in ready order; NULL = none */
    int64_t n_gradients, backward_ns;
    int64_t device_step_ns; /* the step of a device; 0 = not measured */
};

/* parallel: the run was data-parallel, so its part is taken out.
 * step: the number N of ProfilerStep#N (or of the n-th step where they have no names); -1 = median.
 * measured.ready_ns stretches the backward piece by piece so that each gradient is ready then.
 * measured.device_step_ns scales the times in which the device waits for the host, so that the step
 * takes that long; what the device itself takes stays, and such a step may be longer.
 * LW_EFORMAT: no usable step. */
enum lw_status traces_profile_build(const char *file, const struct lw_trace *t,
                                    const struct lw_steps *steps, bool parallel,
                                    int64_t step, const struct traces_ready *measured,
                                    struct traces_profile *out, struct lw_err *err);
void traces_profile_free(struct traces_profile *p);

/* Stretch values so that they sum to total, keeping their shares; sums are exact. All zero: the
 * first takes all. */
void traces_scale(int64_t *values, int64_t n, int64_t total);

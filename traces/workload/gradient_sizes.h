#pragma once

#include <stdint.h>

#include "shared/base/err.h"
#include "traces/steps/compute_clock.h"
#include "traces/steps/step_phases.h"
#include "traces/trace/trace.h"

/* Sizes of gradients whose shape was not recorded. See docs/design/to_workload.md. */

/* How the sizes that were missing were filled. */
struct traces_sizes {
    int32_t n_undefined; /* no tensor reached the gradient; without a bucket: one element each */
    int32_t n_bucket;    /* a share of the recorded all-reduce that carried them */
    int32_t n_total;     /* a share of a total: the user's, or what the optimizer's time allows */
    int32_t n_unknown;   /* still unknown */
    int32_t n_buckets;   /* all-reduces that were used */
    int64_t total_numel; /* all gradients together after filling; 0 while some are unknown */
    const char *optimizer; /* of the estimate: the range's name; NULL = no estimate was made */
    int64_t optimizer_ns;
    int32_t bytes_per_element;
    double bytes_per_s;
};

/* given_numel: trainable parameters in all, 0 = unknown; bytes_per_s: memory bandwidth where the
 * optimizer ran. numel[step gradients]: -1 = not recorded, filled in place. */
enum lw_status traces_sizes_fill(const struct lw_trace *t, const struct lw_step *s,
                                 const struct traces_ops *ops, int64_t given_numel,
                                 double bytes_per_s, int64_t *numel, struct traces_sizes *out,
                                 struct lw_err *err);

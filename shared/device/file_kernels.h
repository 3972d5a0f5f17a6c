#pragma once

#include "shared/base/err.h"
#include "shared/device/kernel_time.h"

/* Kernels of a workload file, beside which stand the times that they had. */

/* The groups that its times are of. */
struct lw_kernel_groups lw_workload_groups(const struct lw_workload *w);

/* Modules whose times are those of their kernels on a device get kernel_times and what bounds them;
 * the others (times that were edited, or are of other figures) are measured. Of two devices (NULL:
 * none) that of which more times are. The number of the others, and the first. LW_ENOMEM. */
struct lw_measured_modules {
    int32_t n, first;
};
enum lw_status lw_kernels_take(struct lw_workload *w, const struct lw_device *const d[2],
                               const struct lw_kernel_rates *rates,
                               struct lw_measured_modules *measured, struct lw_err *err);

/* New times for a device and groups, of all modules with kernels; lists of products too. */
enum lw_status lw_kernels_retime(struct lw_workload *w, const struct lw_device *d,
                                 const struct lw_kernel_rates *rates,
                                 const struct lw_kernel_groups *groups, struct lw_err *err);

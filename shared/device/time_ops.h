#pragma once

#include "shared/base/err.h"
#include "shared/device/kernel_time.h"
#include "shared/workload/workload.h"

/* A workload with recorded operators (w->n_ops > 0) on another device: each operator takes what a
 * model's kernel of its shape takes there. from NULL: a step is the sum of its operators, as a
 * model's is (times of a CPU say nothing of a device's). Else a module's recorded time is
 * multiplied by what its operators take there over what they take on `from`. Ready times keep their
 * places in the backward windows, gaps of the host stay. What is assumed becomes notes.
 * LW_ENOTSUP names a figure that the device lacks; the workload is then as it was. */
enum lw_status lw_workload_time_ops(struct lw_workload *w, const struct lw_device *from,
                                    const struct lw_device *to,
                                    const struct lw_kernel_rates *rates, struct lw_err *err);

/* Ready times move with the backward windows of their modules, which were old_length[] long. */
void lw_workload_move_ready(struct lw_workload *w, const lw_ps *old_length);

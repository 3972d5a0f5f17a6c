#pragma once

#include "shared/cluster/cluster.h"
#include "shared/device/kernel_time.h"

struct lw_framework;

/* The host's time to launch a kernel (the fact host_op_ns) beside such a device; 0: none. */
lw_ps lw_framework_host_op(const struct lw_framework *f, const struct lw_device *d);

/* What the framework does to the time of a kernel on the device. */
struct lw_kernel_rates lw_framework_rates(const struct lw_framework *f, const struct lw_device *d);

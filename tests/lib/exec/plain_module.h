#pragma once

#include "shared/workload/workload.h"

/* A module of tests that run plans: 1 ns of each kind of work, 80 bytes to the next module. */
static inline struct lw_module plain_module(void)
{
    return (struct lw_module){.name = "m",
                              .forward_ps = 1000,
                              .backward_input_ps = 1000,
                              .backward_weight_ps = 1000,
                              .forward_flops = -1,
                              .forward_bytes = -1,
                              .output_bytes = 80,
                              .kept_bytes = {-1, -1, -1}};
}

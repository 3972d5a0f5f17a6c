#pragma once

#include "analysis/published/run_table.h"
#include "shared/base/err.h"

/* What is predicted of a run: the model's workload on the device, the strategy, the plan, the
 * simulated step. */
struct lw_run_prediction {
    double step_ns, tokens_per_s_device;
    double memory_bytes; /* as run->memory says that the table shows it */
    double needed_bytes, capacity_bytes; /* of the fullest rank, and of a device */
    double step_flops;  /* by the definition that run->flops names; 0 = model FLOPs */
    double peak;        /* a device's rate at the run's precision */
    const char *refused; /* why the framework ends the run before its first step: all else is 0;
                          * NULL = it does not */
};

/* Fills what a row leaves open from what it gives (dp from gpus, batch from its parts) and
 * predicts. LW_ENOTSUP: the run cannot be expressed; the message is the reason, without file or
 * row, so that equal reasons can be counted. */
enum lw_status lw_run_predict(struct lw_run *run, struct lw_run_prediction *out,
                              struct lw_err *err);

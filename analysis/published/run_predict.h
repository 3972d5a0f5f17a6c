#pragma once

#include "analysis/published/run_options.h"
#include "analysis/published/run_table.h"
#include "shared/base/err.h"

/* What is predicted of a run, by the function that `lapwing sim` calls (lw_predict). */
struct lw_run_prediction {
    double step_ns, tokens_per_s_device;
    double memory_bytes; /* as run->memory says that the table shows it: */
    const char *memory_kind; /* "allocated", "reserved" or "device" */
    double needed_bytes, capacity_bytes; /* of the fullest rank, and of a device */
    double step_flops;  /* by the definition that run->flops names; 0 = model FLOPs */
    double peak;        /* a device's rate at the run's precision */
    bool is_refused;    /* the framework ends the run before its first step: all else is 0 */
    char why[256];      /* then the reason */
    char command[1024]; /* that prints the same step and memory */
};

/* Predicts a run of these options. own: a framework of the same name takes the known one's place;
 * NULL = none. LW_ENOTSUP: the run cannot be expressed. */
enum lw_status lw_run_predict(const struct lw_run *run, const struct lw_run_options *options,
                              const char *own_framework, struct lw_run_prediction *out,
                              struct lw_err *err);

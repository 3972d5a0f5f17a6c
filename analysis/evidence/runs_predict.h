#pragma once

#include <stdbool.h>

#include "analysis/alike/alike_key.h"
#include "analysis/evidence/runs_file.h"
#include "shared/base/err.h"

/* What is predicted of a measured run, by the function that `lapwing sim` calls (lw_predict). No
 * measured cell is read. */
struct lw_runs_prediction {
    double step_ns, tokens_per_s_device;
    double memory_bytes;                 /* of the kind and rank that the row names */
    double needed_bytes, capacity_bytes; /* of the fullest rank, and of a device */
    /* Of one step, as measured figures count it: */
    double n_devices, samples, tokens, flops, peak_flops_per_s;
    double least_flops;    /* of the model alone, causal scores counted half */
    double most_flops_per_s; /* peak of a device in the type that most products run in */
    bool takes_own;        /* predicted with the framework that was given for it */
    bool is_refused;       /* the framework ends the run before its first step: all else is 0 */
    const char *why;       /* then the reason; else "" */
    const char *command;   /* that prints the same step and memory */
    struct lw_alike_key key; /* of runs like this one: its framework, device, ... */
};

/* own: a framework (name or file) of rows that name none, and in the place of the known framework
 * own_name; NULL = none. Texts lie in the arena. LW_ENOTSUP: this build cannot predict it.
 * LW_ENOMEM. Else the row's options contradict each other. */
enum lw_status lw_runs_predict(const struct lw_runs *r, int32_t row, const char *own,
                               const char *own_name, struct lw_arena *arena,
                               struct lw_runs_prediction *out, struct lw_err *err);

/* It has a time, memory, or did not run. */
bool lw_runs_is_measured(const struct lw_runs *r, int32_t row);

/* What was measured, called after the prediction; 0 = it was not. */
struct lw_runs_measured {
    double step_s, memory_bytes;
    double mfu_pct; /* that the step alone implies, least_flops counted; above 100 it is not of such
                     * a run */
    bool failed; /* out of memory */
};
void lw_runs_measure(const struct lw_runs *r, int32_t row, const struct lw_runs_prediction *p,
                     struct lw_runs_measured *out);

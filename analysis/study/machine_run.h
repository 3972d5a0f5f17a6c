#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "exec/launch/multi_process.h"
#include "exec/run/run.h"
#include "shared/cluster/cluster.h"
#include "shared/workload/workload.h"

/* A plan that is predicted for this machine and then run on it: both sides of `validate --here` and
 * of `tune --here`. */

enum { LW_MACHINE_WARMUP = 3 };
#define LW_DISTURBED 0.02 /* share of the processors beyond which a run is made again */

/* How; all borrowed. */
struct lw_machine {
    const struct exec_backend *backend;
    bool loop;                      /* ranks are streams of one device */
    const struct exec_identity *id; /* this process is one rank; NULL = all are in it */
    const struct lw_cluster *cluster;
    int32_t n_steps;                /* measured; LW_MACHINE_WARMUP come before them */
    const volatile sig_atomic_t *stop;
};

/* Zero it, put the plan, which it owns; free it. */
struct lw_machine_run {
    struct lw_plan plan;
    struct lw_timeline predicted;
    struct lw_summary expected, measured;
    struct lw_exec_result result;
};

/* Sets predicted and expected. More ranks than the machine has cores are predicted as if each had
 * one. */
enum lw_status lw_machine_predict(const struct lw_machine *m, struct lw_machine_run *x,
                                  struct lw_err *err);
/* Sets result. A run beside which other programs took more than LW_DISTURBED of the processors is
 * made again, three times at most, and the least disturbed counts. */
enum lw_status lw_machine_execute(const struct lw_machine *m, struct lw_machine_run *x,
                                  struct lw_err *err);
/* Sets measured, from the whole result, and the machine's speed in the result. */
enum lw_status lw_machine_summarize(const struct lw_machine *m, struct lw_machine_run *x,
                                    struct lw_err *err);
/* Of the rank with the longest period (docs/design/machine_speed.md); NAN = not known. */
double lw_machine_compute_speed(const struct lw_machine_run *x);
/* The measured step, had the compute of the rank with the longest period run at the speed that its
 * prediction assumes; 0 = not known. */
lw_ps lw_machine_step_at_speed(const struct lw_machine_run *x);
/* What execute and summarize have set is freed, so that the plan can be run again. */
void lw_machine_run_clear(struct lw_machine_run *x);
void lw_machine_run_free(struct lw_machine_run *x);

/* Other programs took more than LW_LOADED_PCT of the processors. */
bool lw_machine_is_loaded(const struct lw_machine_run *x);

/* Each side as a run of the database; *run = its id. workload: NULL where the plan is not of
 * one. */
enum lw_status lw_machine_store_prediction(const struct lw_machine *m,
                                           const struct lw_machine_run *x, const char *db,
                                           const char *command, const struct lw_workload *workload,
                                           int64_t *run, struct lw_err *err);
enum lw_status lw_machine_store_execution(const struct lw_machine *m,
                                          const struct lw_machine_run *x, const char *db,
                                          const char *command, const struct lw_workload *workload,
                                          int64_t *run, struct lw_err *err);

#ifndef LW_ANALYSIS_STUDY_STORE_EXEC_RUN_H
#define LW_ANALYSIS_STUDY_STORE_EXEC_RUN_H

#include "exec/run/run.h"
#include "shared/timeline/timeline.h"

struct lw_run_info; /* analysis/store/store.h */

/* Did it run, so that it is stored, as what it became? Otherwise nothing began. */
bool cmd_exec_ran(enum lw_status status);
const char *cmd_exec_status_name(enum lw_status status); /* "ok", "failed", "timeout" */

/* The run as it ended: with what was measured, also when it failed. Where each rank was when it stopped
 * becomes the measures last_finished_op and first_unfinished_op (-1: none; left out: unknown) of its
 * step and rank. A run that cannot be stored whole is not there, or failed with that as its message;
 * *run is then untouched. */
enum lw_status cmd_exec_store(const char *db, const struct lw_run_info *info,
                              const struct lw_exec_result *x, const struct lw_summary *summary,
                              enum lw_status ran, const char *message, int64_t *run,
                              struct lw_err *err);

#endif

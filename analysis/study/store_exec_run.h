#pragma once

#include "exec/run/run.h"
#include "shared/timeline/timeline.h"

struct lw_run_info; /* analysis/store/store.h */

/* Did it run, so that it is stored, as what it became? Otherwise nothing began. */
bool cmd_exec_ran(enum lw_status status);
const char *cmd_exec_status_name(enum lw_status status); /* "ok", "failed", "timeout" */

/* Its row from the first moment: "running", with this process. *run = its id. */
enum lw_status cmd_exec_begin(const char *db, const struct lw_run_info *info, int64_t *run,
                              struct lw_err *err);
/* Why it will fail, in case that nothing more can be stored; a failure is not reported. */
void cmd_exec_blame(const char *db, int64_t run, const char *why);

/* The run as it ended: with what was measured, also when it failed. Where each rank was when it
 * stopped becomes the measures last_finished_op and first_unfinished_op (-1: none; left out:
 * unknown) of its step and rank. *run >= 0 is the row that cmd_exec_begin made, here or in
 * another process of the run; the first of them that comes stores, and LW_OK with *mine false for
 * the others. *run -1: a new row, its id afterwards. A run that cannot be stored whole is failed
 * with that as its message, or not there. */
enum lw_status cmd_exec_store(const char *db, const struct lw_run_info *info,
                              const struct lw_exec_result *x, const struct lw_summary *summary,
                              enum lw_status ran, const char *message, int64_t *run, bool *mine,
                              struct lw_err *err);

/* The processes of a failed run are gone, this rank first: lw_store_name_cause. */
void cmd_exec_name_cause(const char *db, int64_t run, int rank, const char *cause, bool sure);

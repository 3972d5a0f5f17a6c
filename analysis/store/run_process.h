#pragma once

#include <stdbool.h>

#include "analysis/store/store.h"

/* Whose process a run is, so that a run whose process was killed does not stay "running".
 * Between the files of this folder. */

/* This process runs or stores the run from now on. */
enum lw_status lw_run_process_note(struct lw_store *s, int64_t run, struct lw_err *err);

/* Runs of this machine that are "running" and whose process is gone become "failed". */
enum lw_status lw_run_process_end_dead(struct lw_store *s, struct lw_err *err);

/* The same for one that was only read: *r says what a writer would store. */
enum lw_status lw_run_process_judge(struct lw_store *s, struct lw_arena *a, struct lw_run *r,
                                    struct lw_err *err);

#ifndef LW_EXEC_TEAM_H
#define LW_EXEC_TEAM_H

#include "exec/rendezvous.h"
#include "exec/run.h"

/* A run whose ranks are processes: this one is `id`. All meet, run the plan, and rank 0 gets what all
 * ranks did on one clock; on the others *out holds this rank's part. As lw_exec_run otherwise; a
 * process that fails makes all others fail with its words. */
enum lw_status lw_exec_team_run(const struct lw_plan *plan, const struct lw_exec_options *options,
                                const struct exec_identity *id, struct lw_exec_result *out,
                                struct lw_err *err);

/* Start n_ranks processes of this program with the same arguments, on this machine, each told who it is,
 * and wait for them: the exit status of the first that did not succeed, or 0. When one fails, the rest has
 * grace_ns to end by itself and is then killed. LW_EIO: could not start. */
enum lw_status exec_spawn(int32_t n_ranks, int64_t grace_ns, int *exit_status, struct lw_err *err);

#endif

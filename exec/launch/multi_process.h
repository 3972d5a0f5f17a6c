#ifndef LW_EXEC_LAUNCH_MULTI_PROCESS_H
#define LW_EXEC_LAUNCH_MULTI_PROCESS_H

#include <signal.h>

#include "exec/launch/rendezvous.h"
#include "exec/run/run.h"

/* A run whose ranks are processes: this one is `id`. All meet, run the plan, and rank 0 gets what all
 * ranks did on one clock; on the others *out holds this rank's part. As lw_exec_run otherwise; a
 * process that fails makes all others fail with its words. *out is always set: when the run stopped, it
 * says where each rank was, and out->speaks who stores it. *team (NULL: they did not meet) is to be
 * closed when that is done: the others wait for it. */
enum lw_status lw_exec_team_run(const struct lw_plan *plan, const struct lw_exec_options *options,
                                const struct exec_identity *id, struct exec_rendezvous **team,
                                struct lw_exec_result *out, struct lw_err *err);

/* Start n_ranks processes of this program with the same arguments, on this machine, each told who it is,
 * and wait for them: the exit status of the first that did not succeed, or 0. When one fails, those that
 * are stopped (SIGSTOP) are killed at once, and the rest when grace_ns have passed. *signal (borrowed)
 * not 0: it is passed on to all. rendezvous: HOST:PORT, or NULL = a free port of this machine's
 * loopback. LW_EIO: could not start. */
enum lw_status exec_spawn(int32_t n_ranks, int64_t grace_ns, const char *rendezvous,
                          const volatile sig_atomic_t *signal, int *exit_status,
                          struct lw_err *err);

#endif

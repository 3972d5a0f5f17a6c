#ifndef LW_EXEC_RUN_H
#define LW_EXEC_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "exec/backend.h"
#include "shared/err.h"
#include "shared/plan.h"
#include "shared/progress.h"
#include "shared/timeline.h"

/* Run a plan for real: every rank of the backend walks its programs, step after step, with real
 * memory, real reductions and a real optimizer step. See docs/design/exec.md. */

/* Make one op of one rank misbehave in one step: tests of stopping. */
struct lw_exec_fault {
    enum { LW_FAULT_NONE, LW_FAULT_FAIL, LW_FAULT_HANG } kind;
    int32_t rank, step, op; /* op: index into plan->ops, a compute or copy op */
};

struct lw_exec_options {
    const struct exec_backend *backend;
    enum exec_compute compute;
    int32_t n_steps, n_warmup;  /* measured steps; steps before them */
    int64_t timeout_ns;         /* no step may take longer */
    bool verify, pin;
    int32_t ranks_per_node;     /* of the plan's cluster; 0 = all on one node */
    double link_bytes_per_s;    /* > 0: paced links between nodes, or all of one node */
    int64_t link_latency_ns;
    struct exec_optimizer optimizer;
    bool loop;                  /* all ranks as streams of one device */
    const struct exec_process *process; /* this process is one rank; NULL = all are in it */
    struct lw_exec_fault fault;
    const struct lw_progress *progress; /* NULL = silent */
};

struct lw_exec_options lw_exec_options_default(void);

enum lw_exec_verified { LW_EXEC_NOT_VERIFIED, LW_EXEC_VERIFIED, LW_EXEC_MISMATCH };

struct lw_exec_result {
    struct lw_timeline timeline; /* sorted; warm-up steps included; free with lw_exec_result_free */
    int32_t n_steps, n_warmup;   /* that ran to their end */
    enum exec_honesty honesty;
    bool oversubscribed;
    int32_t n_cores;
    char compute[192], about[256];
    double unit_ns;              /* of one GEMM with every rank computing; 0 = compute by clock */
    double unit_flops, memory_bytes; /* as in exec_facts, like the next two */
    char device[96];
    bool comm_on_compute_core;
    int64_t origin_ns;           /* time 0 of the timeline on this process's clock */
    enum lw_exec_verified verified;
    int64_t n_checked_bytes;     /* parameters and optimizer state compared, over all ranks */
    lw_ps over;                  /* real memory work beyond the plan's times, per step and rank */
    double wall_s;
};

/* LW_ENOTSUP: the plan or the backend's capabilities, in words. LW_ETIMEOUT, LW_EFAILED: a step did
 * not finish; the message names the last op that did and the first that did not; *out then holds
 * the steps before it. LW_ENO: it ran, and a parameter differs from the one-rank run; *out is whole
 * and the message names parameter, element and rank. After any other error *out is unset. */
enum lw_status lw_exec_run(const struct lw_plan *plan, const struct lw_exec_options *options,
                           struct lw_exec_result *out, struct lw_err *err);
void lw_exec_result_free(struct lw_exec_result *r);

#endif

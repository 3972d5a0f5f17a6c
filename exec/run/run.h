#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "exec/backend/backend.h"
#include "exec/run/machine_speed.h"
#include "shared/base/err.h"
#include "shared/plan/plan.h"
#include "shared/base/progress.h"
#include "shared/timeline/timeline.h"

/* Run a plan for real: every rank of the backend walks its programs, step after step, with real
 * memory, real reductions and a real optimizer step. Steps follow each other in batches within
 * which nothing is drained. With `verify` they are rehearsed before, without compute time, to
 * compare each of them. See docs/design/exec.md and exec_verify.md. */

/* Make one op of one rank misbehave in one measured step: tests of stopping. A communication op
 * misbehaves before it enters: its link stalls. The last three end or stop the rank's process. */
enum lw_fault_kind {
    LW_FAULT_NONE,
    LW_FAULT_FAIL,   /* the op reports an error */
    LW_FAULT_HANG,   /* it never ends */
    LW_FAULT_MEMORY, /* the system gives the process no more when the step is prepared */
    LW_FAULT_FLIP,   /* an optimizer op finds the lowest bit of its first gradient turned; also in
                      * the rehearsal, so that verification is tested: the run goes on */
    LW_FAULT_EXIT,   /* exit, SIGKILL, SIGSTOP */
    LW_FAULT_KILL,
    LW_FAULT_STOP,
    LW_N_FAULTS,
};

struct lw_exec_fault {
    enum lw_fault_kind kind;
    int32_t rank, step, op; /* step: warm-up counts; op: index into plan->ops */
};

/* "RANK:STEP:OP:KIND"; KIND: fail, hang, memory, flip, exit, kill, stop. */
const char *lw_exec_fault_name(enum lw_fault_kind kind); /* "none", "fail", ... */
enum lw_status lw_exec_fault_parse(const char *text, struct lw_exec_fault *f, struct lw_err *err);

/* Where a rank was when the run stopped: indexes into plan->ops, -1 = none. */
struct lw_exec_place {
    int32_t rank, step;
    int32_t last_op, open_op; /* finished last; the first that did not finish */
    bool known;               /* false: the rank is gone, or did not say */
};

struct lw_exec_options {
    const struct exec_backend *backend;
    enum exec_compute compute;
    int32_t n_steps, n_warmup;  /* measured steps; steps before them: one lets the next begin in the
                                 * steady state */
    int64_t timeout_ns;         /* no op may take longer; see exec_opening_limit */
    bool verify, pin;
    int32_t ranks_per_node;     /* of the plan's cluster; 0 = all on one node */
    double link_bytes_per_s;    /* > 0: paced links between nodes, or all of one node */
    int64_t link_latency_ns;
    struct exec_optimizer optimizer;
    int32_t consolidate; /* rank that puts its data group's optimizer state together; -1 = none */
    bool loop;                  /* all ranks as streams of one device */
    bool registered;            /* buffers are registered with NCCL */
    char nccl_env[33]; /* hash of all --nccl-env in their order; "" = none */
    bool graph;                 /* measured steps are submitted as graphs, and the last one before
                                 * them */
    const struct exec_process *process; /* this process is one rank; NULL = all are in it */
    struct lw_exec_fault fault;
    const volatile sig_atomic_t *signal; /* not 0: stop at once, as a failure; NULL = never */
    const struct lw_progress *progress; /* NULL = silent */
};

struct lw_exec_options lw_exec_options_default(void);

/* How long processes may take to connect and open: 10 s even when steps must be quicker. */
int64_t exec_opening_limit(int64_t timeout_ns);

enum lw_exec_verified { LW_EXEC_NOT_VERIFIED, LW_EXEC_VERIFIED, LW_EXEC_MISMATCH };

/* A distinct collective of this process's first rank: what the library estimates and what was
 * measured. */
struct lw_exec_call {
    enum lw_op_kind op;
    enum lw_dtype dtype;
    int32_t comm, group;      /* class and group of the plan */
    int64_t bytes;
    lw_ps estimate;           /* of the library; -1 = it has none */
    lw_ps measured;           /* mean over measured steps of the shortest span of a member
                               * (lw_exec_measure_calls) */
    int64_t n_measured;       /* collectives in that mean */
};

struct lw_exec_result {
    struct lw_timeline timeline; /* sorted; warm-up steps included; free with lw_exec_result_free */
    int32_t n_steps, n_warmup;   /* that ran to their end */
    /* steps from which ranks began together, after a pause that is not in the timeline */
    int32_t *first_of_batch, n_batches;
    enum exec_honesty honesty;
    bool oversubscribed;
    int32_t n_cores;
    char compute[320], about[256];
    double unit_ns;              /* of one GEMM with every rank computing; 0 = compute by clock */
    double unit_flops, memory_bytes, free_bytes; /* as in exec_facts, like the next two */
    char device[96];
    bool comm_on_compute_core;
    double stamp_ns;             /* what measuring adds to one op; 0 = not known */
    char settings[512];          /* as in exec_facts; "" = nothing */
    struct exec_device_state state, *states; /* of this process; [n_states] of all processes */
    int32_t n_states;            /* 0: there is one process */
    /* of all processors' time, taken by other programs from the opening to the end; -1 = not
       known, or ranks are processes */
    double others_share;
    struct lw_exec_probe *probes; /* [n_probes] of this process's ranks, or of all; as they come */
    int64_t n_probes;
    struct lw_machine_speed speed; /* both by lw_exec_find_speed: */
    double *compute_speed;        /* [n_compute_speeds] by rank; NAN = not known */
    int32_t n_compute_speeds;
    double submit_ns, graph_submit_ns; /* this process's time in calls that submit a step, op by
                                        * op and as a graph: means; 0 = no step was submitted so */
    int64_t clock_error_ns;      /* how far apart the clocks of the ranks' processes may still be */
    int64_t origin_ns;           /* time 0 of the timeline on this process's clock */
    enum lw_exec_verified verified;
    int32_t n_compared_steps;    /* whose messages and averaged gradients were compared, before the
                                  * steps of the timeline */
    int64_t n_checked_bytes;     /* parameters and optimizer state compared, over all ranks */
    int64_t n_consolidated_bytes; /* of optimizer state on the rank that consolidates */
    /* what communication without a bucket brought, over all steps */
    int64_t n_checked_message_bytes;
    lw_ps over;                  /* real memory work beyond the plan's times, per step and rank */
    double wall_s;
    struct lw_exec_call *calls;   /* [n_calls] where the backend has estimates */
    int32_t n_calls, calls_rank;  /* of this rank */
    /* [n_places] when the run stopped: of this process's ranks, or of all */
    struct lw_exec_place *places;
    int32_t n_places;
    int32_t n_turned_away;        /* foreign connections that were closed; ranks as processes */
    char turned_away[160];        /* the last of them, and why */
    bool speaks; /* this process stores the run: rank 0, or the next one when that is lost */
};

/* The figures of a device's state by the names that results have; NULL-ended. */
struct lw_exec_device_figure {
    const char *name;
    size_t at; /* of a double in struct exec_device_state */
};
extern const struct lw_exec_device_figure lw_exec_device_figures[];
double lw_exec_device_figure(const struct exec_device_state *s, int k);

/* LW_ENOTSUP: the plan or the backend's capabilities. LW_ETIMEOUT, LW_EFAILED: a step did
 * not finish; the message names the last op that did and the first that did not; *out then holds
 * the steps before it. LW_ENO: it ran, and a parameter differs from the one-rank run; *out is whole
 * and the message names parameter, element and rank. After any other error *out is unset. */
enum lw_status lw_exec_run(const struct lw_plan *plan, const struct lw_exec_options *options,
                           struct lw_exec_result *out, struct lw_err *err);
/* What the calls took, from the timeline of all ranks. */
enum lw_status lw_exec_measure_calls(const struct lw_plan *plan, struct lw_exec_result *r,
                                     struct lw_err *err);
void lw_exec_result_free(struct lw_exec_result *r);

#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "exec/launch/multi_process.h"
#include "exec/launch/spawn.h"
#include "exec/run/run.h"
#include "shared/cli/plan_source.h"
#include "shared/framework/memory_figures.h"
#include "shared/timeline/run_sources.h"
#include "shared/text/records.h"

/* An execution: what is requested, and all that is made of it. Zero it, set what is wanted, run it,
 * free it. */
struct lw_execution {
    struct lw_plan_source source;
    struct lw_exec_options options;
    const char *backend, *db, *name, *transport, *rendezvous;
    const char *run; /* --run: whose stored plan it is; NULL = none */
    char command[1024];
    bool no_check, no_verify, no_pin, no_db, spawn, quiet;
    bool optimizer_given; /* options.optimizer is the user's choice, and not the usual one */
    int64_t steps, warmup, link_bytes_per_s, consolidate;
    struct exec_identity id; /* this process, where ranks are processes (several) */
    bool several;
    bool spawns;             /* this one only starts them */
    struct lw_exec_team team; /* of several; closed at the end: the others wait for it */
    struct exec_spawned spawned; /* how the spawned processes ended */
    lw_ps link_latency;
    double timeout_s;
    enum lw_format format;
    struct lw_plan plan;
    struct lw_cluster cluster;
    struct lw_exec_result result;
    char sources[LW_RUN_SOURCES]; /* of its times, as stored */
    struct lw_summary summary;
    struct lw_memory_figures memory; /* predicted, */
    bool has_memory;                 /* where the times are of the cluster's device */
    struct lw_err no_memory;         /* why it could not be predicted there; empty: it was */
};

/* Run the plan of the file, or of the source where it is NULL, store the run and print it to
 * `out`, rank 0 only; why it stopped to `notes`. s->options.signal is set, and spawned says how
 * processes ended that it started. */
enum lw_status lw_execution_run(struct lw_execution *s, const char *plan_file, FILE *out,
                                FILE *notes, struct lw_err *err);
void lw_execution_free(struct lw_execution *s);

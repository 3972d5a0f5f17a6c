#pragma once

#include "exec/launch/rendezvous.h"
#include "exec/run/run.h"

/* The processes of a run, while it lasts. */
struct lw_exec_team {
    /* in the results database: rank 0's to set, and known to all when they have connected; -1 =
     * none */
    int64_t run;
    exec_loss_noted_fn *stopped; /* at rank 0, or NULL: exec_rendezvous_note_loss */
    void *context;
    /* set when they met; the caller closes it when all is stored */
    struct exec_rendezvous *rendezvous;
};

/* A run whose ranks are processes: this one is `id`. All connect, agree on everything that changes
 * what they do, run the plan, and rank 0 gets what all ranks did on one clock; on the others *out
 * holds this rank's part. As lw_exec_run otherwise; a process that fails makes all others fail with
 * its words. *out is always set: when the run stopped, it says where each rank was, and out->speaks
 * who stores it. */
enum lw_status lw_exec_team_run(const struct lw_plan *plan, const struct lw_exec_options *options,
                                const struct exec_identity *id, struct lw_exec_team *team,
                                struct lw_exec_result *out, struct lw_err *err);

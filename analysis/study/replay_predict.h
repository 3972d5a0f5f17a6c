#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "analysis/study/replay_whatif.h"
#include "shared/base/err.h"
#include "shared/bucket/bucket.h"
#include "shared/cli/plan_source.h"
#include "shared/cluster/cluster.h"
#include "sim/predict/sim_print.h"

struct traces_replay;

/* `lapwing sim --replay TRACE...`: the part of the command that reads traces and compares. */
struct sim_replay {
    bool on;                  /* --replay */
    const char *kernels_file; /* --kernel-classes */
    bool force;               /* --force: what-ifs also where the replay is off */
    bool as_traced;           /* --as-traced: what-ifs on the profiled step */
    const char *loggops;      /* --loggops */
    struct sim_whatif whatif; /* what is changed */
    bool other_buckets;
    struct lw_bucket_request buckets;

    bool buffered; /* of a graph: its sends do not wait */
    bool graph; /* the files are graphs: nothing recorded to compare with, one step */

    struct lw_arena arena;
    struct traces_replay *replay; /* owned; its plan moves to the command */
    struct lw_timeline unchanged; /* with a what-if: the replay without it */
    lw_ps unchanged_host;         /* median of its host's range, over the measured steps */
    lw_ps *recorded; /* [(1 + n_ranks) * n_steps] periods of all ranks, and of each */
    struct lw_sim_replayed shown;
};

/* A replay that is further off before anything is changed answers no what-if. */
enum { SIM_REPLAY_TOLERANCE_PCT = 1 };

/* Strategy options beside --replay: those of buckets; LW_EUSAGE names any other. */
enum lw_status sim_replay_buckets(struct sim_replay *r, const struct lw_plan_source *given,
                                  struct lw_err *err);
/* Read the traces; *plan and *cluster are the caller's. */
enum lw_status sim_replay_load(struct sim_replay *r, char **files, int n, struct lw_plan *plan,
                               struct lw_cluster *cluster, struct lw_err *err);

/* After the run: predicted against recorded, and the timeline by steps, of which the first
 * *n_warmup are not measured. */
enum lw_status sim_replay_compare(struct sim_replay *r, struct lw_timeline *t, int32_t *n_warmup,
                                  struct lw_err *err);
void sim_replay_free(struct sim_replay *r);

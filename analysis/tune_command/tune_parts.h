#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "analysis/tune_trial/tune_here.h"
#include "analysis/tune/tune_search.h"
#include "shared/text/records.h"

/* The command line of a search: its spaces, one for each combination of lists that are not of the
 * strategy (model, cluster, framework, --ranks, --batch). */
struct lw_tune_command {
    struct lw_arena arena;
    struct lw_option_lists lists;
    struct lw_tune_part *parts;
    struct lw_tune_source_of { /* of each part */
        struct lw_plan_source source;
        struct lw_cluster cluster;
        bool shares; /* the cluster is another one's */
        struct lw_tune_source_of *next;
    } * held;
    int n_parts;
    int64_t n_best, n_threads, n_runs, global_batch;
    double price, tokens;
    struct lw_tune_noise noise;
    bool no_bounds, quiet, resume, no_db;
    const char *db, *shard_text, *tokens_text;
    struct lw_tune_shard shard;
    struct lw_tune_here_request here;
    int machine; /* file of this machine's calibration, where --here made one; -1 */
    const char *machine_name;
    const char *words; /* as they were typed */
    enum lw_format format;
    const char *model, *cluster, *framework; /* "several" where the parts have others */
};

/* -1, or the exit status of what was printed. Free in any case. */
int lw_tune_parts(struct lw_tune_command *c, int argc, char **argv);
void lw_tune_parts_free(struct lw_tune_command *c);

/* LW_EINVAL: no strategy is valid, or none fits: what is closest, and what would make it fit. */
enum lw_status lw_tune_answer(const struct lw_tune_command *c, const struct lw_tune_result *r,
                              struct lw_err *err);

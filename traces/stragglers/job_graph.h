#pragma once

#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "traces/stragglers/job_ops.h"

/* What each operation of a step waits for, the same in every step: operations of its worker, and
 * the members of its group that move data together. */
struct job_group {
    int32_t n, *ops;    /* members, of any stage */
    int32_t last;       /* the member that comes last in the order */
    bool over_dp;       /* it also waits for the other data-parallel ranks */
};

struct job_graph {
    struct lw_arena arena;
    int32_t *n_before;         /* [n_ops] */
    int32_t *first_after;      /* [n_ops + 1] into after */
    int32_t *after;            /* ops that wait for it */
    int32_t *group_of;         /* [n_ops]; -1 = none: it runs alone */
    int32_t n_groups;
    struct job_group *groups;
    int32_t *order;            /* [n_ops] in which each comes after what it waits for */
};

/* From the first step on dp_rank 0. LW_EFORMAT: a send without its receive, a cycle (named). */
enum lw_status job_graph_build(const struct job_ops *j, struct job_graph *out, struct lw_err *err);
void job_graph_free(struct job_graph *g);

/* How long each step takes if op o's run k takes work[o * n_runs + k]: of one with a group from its
 * last member's start. No op waits for anything else.
 *   end[n_ops * n_runs]  scratch, then the ends since the step's start
 *   step_ns[n_steps]     filled: the end of the last optimizer, of any op without one */
void job_graph_run(const struct job_ops *j, const struct job_graph *g, const int64_t *work,
                   int64_t *end, int64_t *step_ns);

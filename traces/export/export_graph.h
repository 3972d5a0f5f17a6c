#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "shared/plan/op.h"
#include "shared/plan/plan.h"
#include "shared/timeline/timeline.h"

/* One step as a graph of nodes for other simulators: of a run the first measured step with its
 * times, of a plan its steady step with the times that the plan holds. Writers of formats read it.
 * See docs/design/export.md. */
struct lw_export_node {
    int32_t op;                /* of the plan */
    lw_ps start, time;         /* -1 = unknown; of communication from the last arrival */
    int32_t meeting;           /* of communication: number of the collective or message; -1 */
    int32_t first_dep, n_deps; /* into deps: nodes of the same rank, all before this one */
};

struct lw_export_meeting {  /* a collective of a group, or a message between two ranks */
    lw_ps time;             /* the shortest that a member knows; -1 = unknown */
    int32_t comm, group, n; /* members that have met */
    int32_t ends[2];        /* message: sender and receiver; nodes: of the sender, receiver */
    int32_t nodes[2];
    bool message;
};

struct lw_export_graph {
    struct lw_arena arena;
    const struct lw_plan *plan;   /* borrowed */
    int32_t n_ranks, step;        /* step -1: of a plan */
    int64_t *first;               /* [n_ranks + 1] nodes of rank r: first[r] .. first[r + 1] */
    struct lw_export_node *nodes; /* meetings refer to nodes by their number in here */
    int32_t *deps;                /* number within the rank */
    int32_t n_meetings;
    struct lw_export_meeting *meetings;
};

/* t NULL: the plan alone. LW_EINVAL: ranks whose spans are not stored, an op that did not run,
 * ends of communication that do not meet. Free with lw_export_graph_free. */
enum lw_status lw_export_graph_make(const struct lw_plan *p, const struct lw_timeline *t,
                                    int32_t n_warmup, struct lw_export_graph *out,
                                    struct lw_err *err);
void lw_export_graph_free(struct lw_export_graph *g);

/* The nodes of one rank as a Chakra trace. */
enum lw_status lw_export_chakra(const struct lw_export_graph *g, int32_t rank, FILE *f,
                                struct lw_err *err);
/* The ranks of each process group that the traces name, as ASTRA-sim reads it. */
enum lw_status lw_export_chakra_groups(const struct lw_export_graph *g, FILE *f,
                                       struct lw_err *err);
/* All ranks as one GOAL schedule whose calculations hold every time. LW_EINVAL: a node without. */
enum lw_status lw_export_goal(const struct lw_export_graph *g, FILE *f, struct lw_err *err);

#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/plan/cost.h"
#include "shared/base/err.h"
#include "shared/numbers/units.h"
#include "sim/cost/tree_messages.h"

/* Collectives as lists of messages, one generator for all algorithms: chunk detail runs the list,
 * the closed forms of sim/cost/cost_closed_form.c are what it takes on equal links, and a test
 * proves by following the data that every list does what its operation promises.
 * docs/design/collectives.md.
 *
 * Endpoints are the members 0 .. n-1, in the order of their ranks, filling nodes one after the
 * other; hfreduce adds one host per node after them. The buffer is cut into pieces of piece_bytes:
 *   all-reduce, reduce-scatter, all-gather by parts: n pieces; piece r is member r's shard
 *   all-to-all: n pieces; piece r is what goes to member r
 *   tree and hfreduce: 2 k pieces, even ones in the first tree
 *   one-shot, direct broadcast and reduce: one piece */

/* Pieces first, first + stride, ... (count of them) go from one endpoint to another. */
struct sim_transfer {
    int32_t from, to;
    int32_t first, count, stride;
    int32_t each; /* all-to-all: members whose piece of that number goes along; else 1 */
    bool add;     /* the receiver adds them to its own; else it takes them over */
};

struct sim_schedule {
    enum lw_op_kind op;
    enum lw_reducer_kind algorithm;
    int32_t n, n_endpoints;
    int32_t n_nodes, per_node;    /* members per node; 0 = nodes hold different numbers */
    int32_t root;                 /* member: broadcast, reduce */
    int32_t n_crossing;           /* members of a node that send to another node at the same time */
    int32_t n_pieces;
    int64_t piece_bytes, n_steps;
    int32_t most;                 /* messages of one step at most */
    /* Eager: a message leaves once its sender's link is free and the messages that it waits for
     * have arrived; it waits for no receiver. Blocking: sender and receiver must both have ended
     * the steps before, and a step lasts until its messages have arrived. */
    bool blocking;
    struct sim_trees trees;
};

/* The messages of a query's algorithm. A table of pieces is the caller's choice for trees and
 * hfreduce (k, at least 1); the others ignore it. root: of broadcast and reduce.
 * LW_ENOTSUP names the algorithms that do the operation, or what the group lacks. */
enum lw_status sim_schedule_make(const struct lw_cost_query *q, int32_t k, int32_t root,
                                 struct sim_schedule *s, struct lw_err *err);
void sim_schedule_free(struct sim_schedule *s);

/* Whether the operation can be done by the algorithm by messages; auto and gloo count as ring. */
bool sim_algorithm_does(enum lw_reducer_kind algorithm, enum lw_op_kind op);

/* Messages of a step (1 .. n_steps): out[s->most] is filled; how many. */
int32_t sim_schedule_step(const struct sim_schedule *s, int64_t step, struct sim_transfer *out);
/* Eager schedules: the messages of this step wait for all that arrived in earlier steps, and
 * those of the steps up to the next such one do not wait for each other. */
bool sim_schedule_waits(const struct sim_schedule *s, int64_t step);

/* What a message takes on its link, and the latency after it. */
struct sim_links {
    void (*time)(const void *ctx, const struct sim_transfer *m, int64_t bytes, lw_ps *time,
                 lw_ps *latency);
    const void *ctx;
    /* NULL, or how much longer the step-th message of a sender takes. */
    lw_ps (*extra)(const void *ctx, int32_t from, int64_t step);
};

/* Run the messages. Links out of and into an endpoint carry one message at a time, in the order of
 * the schedule (blocking schedules: the messages of a step side by side).
 *   entry[n]   when each member enters
 *   end[n]     filled: when it has sent and received all
 *   n_messages may be NULL */
enum lw_status sim_schedule_run(const struct sim_schedule *s, const lw_ps *entry,
                                const struct sim_links *links, lw_ps *end, int64_t *n_messages,
                                struct lw_err *err);

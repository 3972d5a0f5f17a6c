#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "traces/trace/comm_facts.h"
#include "traces/trace/kernel_class.h"
#include "traces/trace/trace.h"

/* The same collectives seen by several ranks of one run: transfer distinguished from waiting. See
 * docs/design/cross_rank.md. */

/* One rank's communication, in start order. */
struct traces_comm_item {
    int64_t row, launch; /* kernel (or run on the host); its call, -1 = none */
    int64_t start_ns, dur_ns; /* of a run on the host from its entry on: it waits for its thread */
    struct traces_comm_fact fact;
    int32_t class; /* filled by the match: into classes */
    int64_t k;     /* filled: number within its class on this rank */
};

struct traces_comm_list {
    const struct lw_trace *t;
    int64_t late_ns; /* its clock is so much ahead of list 0's: taken off; 0 = not corrected */
    int64_t n;
    struct traces_comm_item *items;
};

struct traces_matched { /* the k-th collective of a class */
    const char *kernel;
    bool same_kernel;    /* all members ran a kernel of that name */
    int64_t transfer_ns; /* the shortest: whoever came last waited least */
    int64_t longest_ns;
    int64_t start_skew_ns, end_skew_ns;
    int64_t last_start_ns; /* since the base of list 0 */
    int64_t last_start_to_last_end_ns;
};

/* Collectives of one process group (by its name where the traces tell it, else one for each stream,
 * the first with communication being the first on every rank). */
struct traces_comm_class {
    const char *name;
    int32_t n_members;
    int32_t *members;           /* indexes of the lists */
    bool p2p;                   /* messages of one direction: ends are the receiver's */
    bool matched;               /* more than one member, and the k-th are the same collective */
    const char *why;            /* not matched: the reason, for people */
    int64_t n;                  /* collectives; where not matched, of the first member */
    struct traces_matched *ops; /* [n]; NULL where not matched */
};

struct traces_cross_rank {
    int32_t n_classes;
    struct traces_comm_class *classes;
    int64_t *clock_ns; /* [n lists] how much later its ends are than those of list 0, on
                        * the common clock: median over collectives; 0 where unknown */
    bool *clock_known;
};

/* The communication kernels of a trace. Memory is the arena's. */
enum lw_status traces_comm_list_build(const struct lw_trace *t, const struct lw_kernel_table *table,
                                      struct lw_arena *arena, struct traces_comm_list *out,
                                      struct lw_err *err);

/* lists[n]: one per rank; class and k of their items are filled. */
enum lw_status traces_cross_rank_build(struct traces_comm_list *lists, int32_t n,
                                       struct lw_arena *arena, struct traces_cross_rank *out,
                                       struct lw_err *err);

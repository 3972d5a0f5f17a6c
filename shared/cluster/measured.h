#pragma once

#include <stdint.h>

#include "shared/numbers/dtype.h"
#include "shared/numbers/units.h"
#include "shared/plan/op.h"

/* What a cluster file says of its machines as measured, beside the figures of cluster.h: times of
 * collectives over sizes, and rates of one activity beside another one. */

/* A measured table: time of one op over sizes; wins over models. Rows ascend by bytes. */
struct lw_cost_table {
    enum lw_op_kind op;
    enum lw_dtype dtype;
    int32_t n_ranks, n_nodes;
    int32_t n_in_flight;  /* how many ran at once; 1 = alone */
    int32_t n_rows;
    const int64_t *bytes; /* as in shared/plan/cost.h */
    const lw_ps *time_ps;
    const lw_ps *spread_ps; /* interquartile range; NULL = unknown */
    const lw_ps *cpu_ps;    /* CPU time that one call takes from each member; NULL = unknown */
    const char *source;
};

/* What a pair is of: compute (and copies), or communication of one kind. */
enum lw_activity {
    LW_ACTIVITY_COMPUTE,
    LW_ACTIVITY_COMM, /* LW_OP_ALL_REDUCE; the other kinds up to LW_OP_SEND follow */
    LW_N_ACTIVITIES = LW_ACTIVITY_COMM + LW_OP_SEND - LW_OP_ALL_REDUCE + 1,
};
enum lw_activity lw_activity_of(enum lw_op_kind op); /* LW_N_ACTIVITIES: no pair holds for it */
const char *lw_activity_word(int activity); /* "compute", "all_reduce"; NULL beyond the last */

/* One activity of a device beside another one of the same device. */
struct lw_pair_rate {
    enum lw_activity op, beside;
    double rate; /* of `op` as a share of its speed when alone, in (0, 1] */
    const char *source;
};

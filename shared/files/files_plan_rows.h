#pragma once

#include "shared/plan/plan.h"

/* A plan as its file has it: rows of lists, and what needs no packing as it is in the plan. Between
 * the files of this idea:
 *
 *   files_plan.c       reading and writing; rows of a plan
 *   files_plan_rows.c  the format: which field stands where
 *   files_plan_pack.c  a plan of rows, verified */

struct rank_row {
    int32_t role, dp, pp, tp;
};

struct comm_row {
    struct lw_comm comm;
    int32_t *groups, n_groups;
};

struct group_row {
    int32_t *members, n_members;
};

struct bucket_row {
    struct lw_bucket bucket;
    int32_t *params, n_params, n_offsets;
    int64_t *offsets;
};

struct set_row {
    struct lw_bucket_set set;
    struct bucket_row *buckets;
    int32_t n_buckets;
};

struct program_row {
    int32_t variant, role, first_op, n_ops;
};

struct work_row {
    struct lw_work work;
    int32_t *products;
};

struct op_row {
    struct lw_op op;
    int32_t *deps, *ready;
};

struct operands_row {
    struct lw_operand *of_ranks;
    int32_t n;
};

struct plan_file {
    struct lw_plan plan; /* the tables that need no packing, and the counts */
    const char *hash;
    int32_t format;
    struct rank_row *ranks;
    struct comm_row *comms;
    struct group_row *groups;
    struct set_row *sets;
    struct program_row *programs;
    struct work_row *works;
    struct op_row *ops;
    struct operands_row *operands;
    int32_t n_rank_rows, n_comm_rows, n_group_rows, n_set_rows, n_program_rows, n_work_rows,
        n_op_rows, n_operand_rows;
};


/* The plan's strings and plain tables are in its arena already; rows move there too, since they
 * were read into the same arena: a plan that was read holds both forms. LW_EFORMAT: an index or a
 * size that is not allowed, with its place. */
enum lw_status lw_plan_file_pack(struct plan_file *f, struct lw_plan *p, struct lw_err *err);

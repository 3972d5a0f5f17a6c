#pragma once

#include "shared/files/files_field.h"
#include "shared/plan/plan.h"
#include "shared/plan/plan_tables.h"

/* A plan as its file has it: rows of lists, and what needs no packing as it is in the plan. Between
 * the files of this idea:
 *
 *   files_plan.c       reading and writing; rows of a plan
 *   files_plan_rows.c  the format: the fields of plan_tables.c, and which table stands where
 *   files_plan_pack.c  a plan of rows, verified */

/* A row of a table begins with the plan's. */
struct rank_row {
    int32_t role, dp, pp, tp;
};

struct comm_row {
    struct lw_comm comm;
    int32_t *groups, n_groups;
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
    struct lw_program program;
    int32_t variant, role;
};

struct operands_row {
    struct lw_operand *of_ranks;
    int32_t n;
};

/* Rows of a table whose fields are lists: each is followed by the pointers to its lists, in the
 * order of the fields (lw_plan_row_lists). */
struct list_rows {
    char *rows;
    int32_t n;
};

struct plan_file {
    struct lw_plan plan; /* the tables that need no packing, and the counts */
    const char *hash;
    int32_t format;
    struct rank_row *ranks;
    struct comm_row *comms;
    struct set_row *sets;
    struct program_row *programs;
    struct operands_row *operands;
    struct list_rows lists[LW_N_TABLES]; /* of groups, works and ops */
    int32_t n_rank_rows, n_comm_rows, n_set_rows, n_program_rows, n_operand_rows;
};

size_t lw_plan_row_lists(enum lw_plan_table_id id); /* where the pointers lie in a row */
size_t lw_plan_row_size(enum lw_plan_table_id id);

/* The plan's strings and plain tables are in its arena already; rows move there too, since they
 * were read into the same arena: a plan that was read holds both forms. LW_EFORMAT: an index or a
 * size that is not allowed, with its place. */
enum lw_status lw_plan_file_pack(struct plan_file *f, struct lw_plan *p, struct lw_err *err);

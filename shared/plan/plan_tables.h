#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/err.h"
#include "shared/plan/plan.h"

/* The tables of a plan, described once: what a row holds, where it lies, what it may be. From it
 * come growth (plan_builder.c), hash and differences (plan_fields.c), the check of every number
 * and index (plan_ranges.c), plan files both ways (files/files_plan_rows.c) and the rows of the
 * database (analysis/store/store_plan.c), so that a new field is one row of plan_tables.c. */
enum lw_plan_field_kind {
    LW_PF_NUMBER,
    LW_PF_REDUCER, /* a number, hashed as lw_reducer_number gives it */
    LW_PF_BIT,     /* bool; a run of them is hashed as one number, the first lowest */
    LW_PF_TEXT,
    LW_PF_LIST,    /* of int32_t: [first, n) of a list of the plan; the row holds first, then n */
    LW_PF_SLOTS,   /* the same, of a bucket: its gradients, which have offsets too */
    LW_PF_KIND,    /* of a bucket set: hashed where the name does not imply it */
    LW_PF_WORK,    /* of an op: its work without its time is hashed (plan_work.h) */
    LW_PF_APART,   /* a number that is no decision: neither hashed nor compared */
};

struct lw_plan_field {
    const char *name;
    const char *key;          /* in plan files; NULL: as the name; "": the row is the number */
    enum lw_plan_field_kind kind;
    size_t at, size;
    const char *(*word)(int); /* of a number */
    size_t list, n_list;      /* LIST, SLOTS: where the plan has the list, and its length */
    bool shared;              /* LIST: rows may share items */
    /* What a number, or each item of a list, may be. */
    bool ranged;
    int64_t least, most;
    size_t refers;    /* a row of the table with this count: most is the last */
    bool earlier;     /* refers to a row before its own */
    bool ascending;   /* above that of the row before */
    bool is_bytes;
    bool named_first; /* a difference is told by it before the fields above */
    /* In plan files. */
    bool derived;     /* not there: it follows from where rows lie, or files_plan.c writes it */
    bool must;        /* always there; else it is left out where it is `absent` */
    int64_t absent;
    bool is_ps;       /* in ns there */
    bool or_null;     /* -1 is null there */
    int8_t place;     /* fields stand in ascending order of it, equal ones as they do here */
};

enum { LW_PLAN_FIRST_PLACE = -6, LW_PLAN_LAST_PLACE = 1 };

struct lw_plan_table {
    const char *row;                    /* what a row is */
    const char *key;                    /* in plan files */
    size_t at, n_at;                    /* the rows and their count, of the plan */
    int32_t least;                      /* rows that there must be */
    const struct lw_plan_field *fields; /* ends with name NULL */
    size_t size;                        /* of a row */
    bool ints;                          /* rows are int32_t, with one field */
    const char *within;                 /* what each of several numbers of a row is for */
    size_t if_at;                       /* not hashed where this count is 0; 0 = never */
    const char *mark;                   /* hashed before it */
    bool uncounted;                     /* the number of rows is not hashed */
    bool apart;                         /* neither hashed nor compared */
};

/* Tables in the order of the canonical bytes, then those that rows refer into and works. */
enum lw_plan_table_id {
    LW_TABLE_role_of, LW_TABLE_index_in_role, LW_TABLE_coord, LW_TABLE_stage_of, LW_TABLE_roles,
    LW_TABLE_streams, LW_TABLE_comms, LW_TABLE_groups, LW_TABLE_comm_group, LW_TABLE_params,
    LW_TABLE_buffers, LW_TABLE_whole, LW_TABLE_sparse, LW_TABLE_sets, LW_TABLE_buckets,
    LW_TABLE_shards, LW_TABLE_products, LW_TABLE_variants, LW_TABLE_programs, LW_TABLE_ops,
    LW_TABLE_operand_first, LW_TABLE_operands, LW_TABLE_pass_variant, LW_TABLE_works,
    LW_TABLE_members, LW_TABLE_slots, LW_TABLE_offsets, LW_TABLE_deps, LW_TABLE_ready,
    LW_TABLE_work_products, LW_TABLE_notes, LW_TABLE_from_times, LW_N_TABLES,
};

extern const struct lw_plan_table lw_plan_tables[LW_N_TABLES];

int32_t lw_plan_count_at(const struct lw_plan *p, size_t at);
int64_t lw_table_within(const struct lw_plan_table *t, const struct lw_plan *p); /* per row */
int64_t lw_table_rows(const struct lw_plan_table *t, const struct lw_plan *p);
const char *lw_table_at(const struct lw_plan_table *t, const struct lw_plan *p);
/* Row i, also of ops, which are copied to *room; valid until *room changes. */
const char *lw_table_row(const struct lw_plan_table *t, const struct lw_plan *p, int64_t i,
                         struct lw_op *room);
/* Of LIST and SLOTS, first unverified. */
const int32_t *lw_field_list(const struct lw_plan_field *f, const struct lw_plan *p,
                             const char *row, int32_t *n);

static inline int64_t lw_field_number(const struct lw_plan_field *f, const char *row)
{
    const void *at = row + f->at;

    return f->size == 8   ? *(const int64_t *)at
           : f->size == 4 ? *(const int32_t *)at
           : f->size == 2 ? *(const int16_t *)at
                          : *(const int8_t *)at;
}

/* The field in n rows of `size` bytes: out[i * apart] of row i. */
static inline void lw_field_numbers(const struct lw_plan_field *f, const char *rows, size_t size,
                                    int64_t n, int64_t *out, int64_t apart)
{
    const char *at = rows + f->at;

    if (f->size == 8)
        for (int64_t i = 0; i < n; i++)
            out[i * apart] = *(const int64_t *)(const void *)(at + (size_t)i * size);
    else if (f->size == 4)
        for (int64_t i = 0; i < n; i++)
            out[i * apart] = *(const int32_t *)(const void *)(at + (size_t)i * size);
    else
        for (int64_t i = 0; i < n; i++)
            out[i * apart] = lw_field_number(f, rows + (size_t)i * size);
}

/* Every number and index of every table lies where it may, every list in its table, and no item of
 * a list that is not shared belongs to two rows. Fails with `status` and the place in a plan file.
 * What rows have to do with each other is for lw_plan_check. */
enum lw_status lw_plan_check_ranges(const struct lw_plan *p, enum lw_status status,
                                    struct lw_err *err);
/* The same of a plan whose grid rule holds: what it shows is not looked at again. */
enum lw_status lw_plan_check_other_ranges(const struct lw_plan *p, enum lw_status status,
                                          struct lw_err *err);

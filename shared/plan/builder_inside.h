#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "shared/plan/grid_rule.h"
#include "shared/plan/op_rows.h"
#include "shared/plan/plan_builder.h"
#include "shared/plan/plan_tables.h"
#include "shared/plan/work_rows.h"

/* A builder as the files that make it see it: plan_builder.c adds rows of tables, builder_ops.c ops
 * and their lists, builder_finish.c makes the plan. */
struct lw_builder {
    struct lw_plan plan; /* its arena owns the strings; the tables go there at the end */
    int32_t n_programs, n_comm_group; /* of these the plan's count follows from others */
    int32_t n_listed;                 /* members that no rule describes alone */
    int32_t n_written;                /* operands that no rule describes */
    int32_t n_whole_shards;           /* in no runs */
    int64_t runs_capacity;
    bool runs_settled; /* the plan's arena owns them */
    int64_t rules_capacity;
    bool has_rules, rules_settled; /* the plan's arena owns them */
    struct lw_grid_rule grid;      /* its first axis has no ranks: ranks are added one by one */
    int64_t comms_capacity;
    bool unclear;  /* groups of ranks in the class added last are not written yet */
    bool by_rules; /* no tables of ranks and members: rules say all of them so far */
    int64_t capacity[LW_N_TABLES];
    int n_settled;      /* tables that the plan's arena owns */
    const char **words; /* [capacity] names of ops, each kept once: open addressing, NULL = free */
    const char *last_word; /* of them; NULL: none was asked for */
    int64_t n_words, words_capacity;
    int32_t variant, role; /* that ops are added to */
    bool list_open;        /* the op added last has a list that close_list has not seen */
    int32_t *lists_from;   /* [n_programs]: where in ready the lists of a program begin */
    int64_t lists_from_capacity;
    int64_t list_before, list_next, list_first; /* where in ready the next list may stand already */
    bool shares; /* ops are in rows, the last one in `last` while it is open */
    bool last_open;
    int32_t share_least;
    struct lw_op last;
    struct lw_op_sharing sharing;
    bool shares_works, work_open; /* works are in rows, the last one in `work` while it is open */
    struct lw_work work;
    struct lw_work_sharing work_sharing;
    int64_t slot_end; /* where the slot added last ends in its bucket; -1 = unknown */
    bool draft;
    bool failed;
};

/* The pointer to a table's rows, in the plan. */
static inline char *lw_builder_items_at(struct lw_builder *b, int table)
{
    return (char *)&b->plan + lw_plan_tables[table].at;
}

static inline void *lw_builder_items(struct lw_builder *b, int table)
{
    void *items;

    memcpy(&items, lw_builder_items_at(b, table), sizeof items);
    return items;
}

static inline int32_t *lw_builder_number(struct lw_builder *b, int table)
{
    return table == LW_TABLE_programs     ? &b->n_programs
           : table == LW_TABLE_comm_group ? &b->n_comm_group
           : table == LW_TABLE_operands   ? &b->n_written
           : table == LW_TABLE_shards     ? &b->n_whole_shards
           : table == LW_TABLE_members
               ? &b->n_listed
               : (int32_t *)(void *)((char *)&b->plan + lw_plan_tables[table].n_at);
}

/* Tables of ranks have their length from the beginning, and are the arena's. */
static inline bool lw_table_grows(int table)
{
    return lw_plan_tables[table].n_at != offsetof(struct lw_plan, n_ranks);
}

/* Returns the number of the table's last item, which is the new one unless the builder failed. */
static inline int32_t lw_builder_push(struct lw_builder *b, enum lw_plan_table_id t,
                                      const void *item)
{
    size_t size = lw_plan_tables[t].size;
    int32_t *n = lw_builder_number(b, t);

    if (*n >= b->capacity[t])
        b->failed = b->failed || *n == INT32_MAX ||
                    lw_reserve(lw_builder_items_at(b, t), &b->capacity[t], *n + 1L, size) != 0;
    if (!b->failed)
        memcpy((char *)lw_builder_items(b, t) + (size_t)(*n)++ * size, item, size);
    return *n - 1;
}

/* The same of a table of numbers: items and n are those of t. There are several for each op and
 * each parameter. */
static inline void lw_builder_push_number(struct lw_builder *b, enum lw_plan_table_id t,
                                          int32_t **items, int32_t *n, int32_t v)
{
    if (*n >= b->capacity[t])
        b->failed = b->failed || *n == INT32_MAX ||
                    lw_reserve(items, &b->capacity[t], *n + 1L, sizeof v) != 0;
    if (!b->failed)
        (*items)[(*n)++] = v;
}

static inline void lw_builder_push_dep(struct lw_builder *b, int32_t dep)
{
    lw_builder_push_number(b, LW_TABLE_deps, &b->plan.deps, &b->plan.n_deps, dep);
}

/* Room for n more items at the end of a table; NULL when the builder failed. */
void *lw_builder_extend(struct lw_builder *b, enum lw_plan_table_id t, int32_t n);
/* A name of many ops, kept once; owned by the plan. */
const char *lw_builder_keep_word(struct lw_builder *b, const char *s);
/* Tables of ranks, where no rule says them. */
void lw_builder_make_ranks(struct lw_builder *b);
/* What was added last gets no more, and has its place in the plan. */
void lw_builder_close_work(struct lw_builder *b);
void lw_builder_clear_groups(struct lw_builder *b);
void lw_builder_close_list(struct lw_builder *b);
void lw_builder_close_op(struct lw_builder *b);

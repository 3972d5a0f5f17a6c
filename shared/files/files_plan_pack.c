/* From the rows of a plan file to a plan, in three steps: rows move into the plan's own tables, the
 * tables are verified (lw_plan_check_ranges), and what a file leaves out is derived through their
 * indexes. Plans come from users: nothing is used before it is verified, whatever lw_plan_check
 * would say later. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "shared/files/files_plan_rows.h"
#include "shared/plan/plan_tables.h"

struct pack {
    struct plan_file *file;
    struct lw_plan *p;
    struct lw_err *err;
};

static enum lw_status within(const struct pack *k, const char *list, int64_t i, const char *field,
                             int64_t found, int64_t least, int64_t n)
{
    if (found >= least && found < n)
        return LW_OK;
    if (n <= 0)
        return lw_fail(k->err, LW_EFORMAT,
                       "at %s[%" PRId64 "].%s: found %" PRId64 ", but there is none to refer to",
                       list, i, field, found);
    return lw_fail(k->err, LW_EFORMAT,
                   "at %s[%" PRId64 "].%s: found %" PRId64 ", allowed: %" PRId64 " to %" PRId64,
                   list, i, field, found, least, n - 1);
}

/* Items of the lists of all rows. */
static enum lw_status few(const struct pack *k, const char *lists, int64_t n)
{
    return n <= INT32_MAX ? LW_OK
                          : lw_fail(k->err, LW_EFORMAT, "at %s: found %" PRId64
                                    " in all, allowed: 0 to %d", lists, n, INT32_MAX);
}

static int32_t *bounds(char *row, const struct lw_plan_field *f)
{
    return (int32_t *)(void *)(row + f->at);
}

static enum lw_status pack_ranks(const struct pack *k)
{
    struct lw_plan *p = k->p;

    p->n_ranks = k->file->n_rank_rows;
    LW_TAKE(&p->arena, p->role_of, p->n_ranks, k->err);
    LW_TAKE(&p->arena, p->index_in_role, p->n_ranks, k->err);
    LW_TAKE(&p->arena, p->coord, (int64_t)p->n_ranks * 3, k->err);
    for (int32_t i = 0; i < p->n_ranks; i++) {
        const struct rank_row *row = &k->file->ranks[i];
        p->role_of[i] = row->role;
        memcpy(&p->coord[(int64_t)i * 3], &row->dp, 3 * sizeof row->dp);
    }
    return LW_OK;
}

static void number_ranks(struct lw_plan *p)
{
    for (int32_t r = 0; r < p->n_roles; r++)
        p->roles[r].n_ranks = 0;
    for (int32_t i = 0; i < p->n_ranks; i++)
        p->index_in_role[i] = p->roles[p->role_of[i]].n_ranks++;
}

/* A table whose rows hold their lists: all lists of one field become one of the plan. */
static enum lw_status pack_list(const struct pack *k, enum lw_plan_table_id id,
                                const struct lw_plan_field *f, size_t at)
{
    const struct list_rows *from = &k->file->lists[id];
    size_t size = lw_plan_row_size(id);
    int32_t *list, *n_list = (int32_t *)(void *)((char *)k->p + f->n_list);
    char lists[64];
    int64_t n = 0;

    for (int32_t i = 0; i < from->n; i++)
        n += bounds(from->rows + (size_t)i * size, f)[1];
    snprintf(lists, sizeof lists, "%s.%s", lw_plan_tables[id].key, f->key);
    LW_TRY(few(k, lists, n));
    LW_TAKE(&k->p->arena, list, n, k->err);
    memcpy((char *)k->p + f->list, &list, sizeof list);
    for (int32_t i = 0; i < from->n; i++) {
        char *row = from->rows + (size_t)i * size;
        const int32_t *items;
        int32_t *of = bounds(row, f);
        memcpy(&items, row + at, sizeof items);
        of[0] = *n_list;
        for (int32_t x = 0; x < of[1]; x++)
            list[(*n_list)++] = items[x];
    }
    return LW_OK;
}

static enum lw_status pack_rows(const struct pack *k, enum lw_plan_table_id id)
{
    const struct lw_plan_table *t = &lw_plan_tables[id];
    const struct list_rows *from = &k->file->lists[id];
    size_t at = lw_plan_row_lists(id);

    for (const struct lw_plan_field *f = t->fields; f->name; f++)
        if (f->n_list) {
            LW_TRY(pack_list(k, id, f, at));
            at += sizeof(int32_t *);
        }
    char *rows = lw_arena_alloc(&k->p->arena, from->n, t->size);
    if (!rows)
        return lw_fail_nomem(k->err);
    for (int32_t i = 0; i < from->n; i++)
        memcpy(rows + (size_t)i * t->size, from->rows + (size_t)i * lw_plan_row_size(id), t->size);
    memcpy((char *)k->p + t->at, &rows, sizeof rows);
    memcpy((char *)k->p + t->n_at, &from->n, sizeof from->n);
    return LW_OK;
}

static enum lw_status pack_comms(const struct pack *k)
{
    struct lw_plan *p = k->p;
    int64_t n = (int64_t)k->file->n_comm_rows * p->n_ranks;

    p->n_comms = k->file->n_comm_rows;
    LW_TAKE(&p->arena, p->comms, p->n_comms, k->err);
    LW_TAKE(&p->arena, p->comm_group, n, k->err);
    for (int32_t c = 0; c < p->n_comms; c++)
        p->comms[c] = k->file->comms[c].comm;
    for (int64_t i = 0; i < n; i++)
        p->comm_group[i] = -1;
    return LW_OK;
}

/* Ranks name the groups that the class lists. */
static enum lw_status join_groups(const struct pack *k, int32_t c)
{
    struct lw_plan *p = k->p;
    const struct comm_row *row = &k->file->comms[c];
    int32_t *group_of = p->comm_group + (int64_t)c * p->n_ranks;

    for (int32_t i = 0; i < row->n_groups; i++) {
        LW_TRY(within(k, "comms", c, "groups", row->groups[i], 0, p->n_groups));
        const struct lw_group *g = &p->groups[row->groups[i]];
        for (int32_t m = 0; m < g->n_members; m++) {
            int32_t rank = p->members[g->first_member + m];
            if (group_of[rank] >= 0)
                return lw_fail(k->err, LW_EFORMAT,
                               "at comms[%d].groups: rank %d is in groups %d and %d, allowed: one "
                               "group of a communicator",
                               c, rank, group_of[rank], row->groups[i]);
            group_of[rank] = row->groups[i];
        }
    }
    return LW_OK;
}

/* Each begins where the one before it ends: nothing to write down. */
static bool lie_in_a_row(const struct lw_plan *p, const struct bucket_row *row)
{
    int64_t end = 0;

    for (int32_t i = 0; i < row->n_params; i++)
        if (row->offsets[i] != end ||
            __builtin_add_overflow(end, p->params[row->params[i]].numel, &end))
            return false;
    return true;
}

static enum lw_status pack_bucket(const struct pack *k, int32_t s, const struct bucket_row *row,
                                  int32_t b)
{
    struct lw_plan *p = k->p;
    struct lw_bucket *to = &p->buckets[b];

    if (row->n_offsets != row->n_params)
        return lw_fail(
            k->err, LW_EFORMAT,
            "at bucket_sets[%d].buckets[%d]: found %d params and %d offsets, expected as "
            "many",
            s, b - p->sets[s].first_bucket, row->n_params, row->n_offsets);
    *to = row->bucket;
    to->set = s;
    to->first_slot = p->n_slots;
    to->n_slots = row->n_params;
    to->first_offset = -1;
    for (int32_t i = 0; i < row->n_params; i++)
        p->slots[p->n_slots++] = row->params[i];
    return LW_OK;
}

static void pack_offsets(struct lw_plan *p, const struct bucket_row *row, struct lw_bucket *to)
{
    if (lie_in_a_row(p, row))
        return;
    to->first_offset = p->n_offsets;
    for (int32_t i = 0; i < row->n_params; i++)
        p->offsets[p->n_offsets++] = row->offsets[i];
}

static enum lw_status pack_buckets(const struct pack *k)
{
    struct lw_plan *p = k->p;
    int64_t n_buckets = 0, n_slots = 0;

    p->n_sets = k->file->n_set_rows;
    for (int32_t s = 0; s < p->n_sets; s++) {
        const struct set_row *row = &k->file->sets[s];
        n_buckets += row->n_buckets;
        for (int32_t b = 0; b < row->n_buckets; b++)
            n_slots += row->buckets[b].n_params;
    }
    LW_TRY(few(k, "bucket_sets.buckets", n_buckets));
    LW_TRY(few(k, "bucket_sets.buckets.params", n_slots));
    LW_TAKE(&p->arena, p->sets, p->n_sets, k->err);
    LW_TAKE(&p->arena, p->buckets, n_buckets, k->err);
    LW_TAKE(&p->arena, p->slots, n_slots, k->err);
    LW_TAKE(&p->arena, p->offsets, n_slots, k->err);
    for (int32_t s = 0; s < p->n_sets; s++) {
        const struct set_row *row = &k->file->sets[s];
        p->sets[s] = row->set;
        if (row->set.kind < 0)
            p->sets[s].kind = (int32_t)lw_bucket_kind_of_set(row->set.name);
        p->sets[s].first_bucket = p->n_buckets;
        p->sets[s].n_buckets = row->n_buckets;
        for (int32_t b = 0; b < row->n_buckets; b++)
            LW_TRY(pack_bucket(k, s, &row->buckets[b], p->n_buckets++));
    }
    return LW_OK;
}

/* The row has an entry for each rank of every role whose program names it. */
static enum lw_status check_operand(const struct pack *k, int32_t op, int32_t role)
{
    const struct lw_plan *p = k->p;
    int32_t row = p->ops[op].operand;

    if (row < 0 || k->file->operands[row].n == p->roles[role].n_ranks)
        return LW_OK;
    return lw_fail(k->err, LW_EFORMAT,
                   "at operands[%d].of_ranks: found %d entries, but ops[%d] belongs to role %d, "
                   "which has %d ranks",
                   row, k->file->operands[row].n, op, role, p->roles[role].n_ranks);
}

static enum lw_status place_programs(const struct pack *k)
{
    struct lw_plan *p = k->p;

    for (int32_t i = 0; i < k->file->n_program_rows; i++) {
        const struct program_row *row = &k->file->programs[i];
        const struct lw_program *g = &row->program;
        LW_TRY(within(k, "programs", i, "variant", row->variant, 0, p->n_variants));
        LW_TRY(within(k, "programs", i, "role", row->role, 0, p->n_roles));
        LW_TRY(within(k, "programs", i, "first_op", g->first_op, 0, (int64_t)p->n_ops + 1));
        LW_TRY(within(k, "programs", i, "n_ops", g->n_ops, 0,
                      (int64_t)p->n_ops - g->first_op + 1));
        struct lw_program *to = &p->programs[(int64_t)row->variant * p->n_roles + row->role];
        if (to->n_ops)
            return lw_fail(k->err, LW_EFORMAT,
                           "at programs[%d]: variant %d of role %d has a program already", i,
                           row->variant, row->role);
        *to = *g;
        for (int32_t op = g->first_op; op < g->first_op + g->n_ops; op++)
            LW_TRY(check_operand(k, op, row->role));
    }
    return LW_OK;
}

static enum lw_status pack_operands(const struct pack *k)
{
    struct lw_plan *p = k->p;
    int64_t n = 0;

    for (int32_t i = 0; i < k->file->n_operand_rows; i++)
        n += k->file->operands[i].n;
    LW_TRY(few(k, "operands.of_ranks", n));
    p->n_operand_rows = k->file->n_operand_rows;
    LW_TAKE(&p->arena, p->operand_first, p->n_operand_rows, k->err);
    LW_TAKE(&p->arena, p->operands, n, k->err);
    for (int32_t i = 0; i < p->n_operand_rows; i++) {
        const struct operands_row *row = &k->file->operands[i];
        p->operand_first[i] = p->n_operands;
        for (int32_t e = 0; e < row->n; e++)
            p->operands[p->n_operands++] = row->of_ranks[e];
    }
    return LW_OK;
}

static enum lw_status derive(const struct pack *k)
{
    struct lw_plan *p = k->p;

    number_ranks(p);
    for (int32_t c = 0; c < p->n_comms; c++)
        LW_TRY(join_groups(k, c));
    for (int32_t s = 0; s < p->n_sets; s++)
        for (int32_t b = 0; b < p->sets[s].n_buckets; b++)
            pack_offsets(p, &k->file->sets[s].buckets[b], &p->buckets[p->sets[s].first_bucket + b]);
    for (int32_t v = 0; v < p->n_variants; v++)
        for (int32_t s = 0; s < p->n_sets; s++)
            p->variants[v].n_sets += lw_plan_uses_set(p, v, s);
    return place_programs(k);
}

enum lw_status lw_plan_file_pack(struct plan_file *f, struct lw_plan *p, struct lw_err *err)
{
    struct pack k = {f, p, err};

    LW_TRY(pack_ranks(&k));
    LW_TRY(pack_rows(&k, LW_TABLE_groups));
    LW_TRY(pack_comms(&k));
    LW_TRY(pack_buckets(&k));
    LW_TRY(pack_rows(&k, LW_TABLE_works));
    LW_TRY(pack_rows(&k, LW_TABLE_ops));
    LW_TRY(pack_operands(&k));
    LW_TAKE(&p->arena, p->programs, (int64_t)p->n_variants * p->n_roles, err);
    LW_TRY(lw_plan_check_ranges(p, LW_EFORMAT, err));
    return derive(&k);
}

/* Plan files: docs/formats/plan.md. The file holds lists of rows, one line each, in the order of
 * the tables of struct lw_plan; what a row can imply is left out (an op's place in the shared lists
 * of dependencies, a rank's index within its role, the number of a role's ranks). Reading therefore
 * has two halves: rows are read by tables, then packed into a plan. */
#include "shared/files/files.h"

#include <string.h>

#include "shared/files/files_plan_rows.h"
#include "shared/files/files_field.h"
#include "shared/plan/grid_rule.h"

/* Copies that go to experts in turn are counted over the experts, whose number is known. */
static enum lw_status check_experts(const struct lw_plan *p, struct lw_err *err)
{
    long long n = (long long)p->dims.n_experts, copies = (long long)p->strategy->dispatch_once;

    if (!p->dims.experts_in_turn || n >= (copies > 1 ? copies : 1))
        return LW_OK;
    return n == 0 ? lw_fail(err, LW_EFORMAT,
                            "at dims.n_experts: found 0, allowed: 1 or more with experts_in_turn")
                  : lw_fail(err, LW_EFORMAT,
                            "at dims.n_experts: found %lld, allowed: %lld "
                            "(strategy.dispatch_once) or more", n, copies);
}

/* A file of format 1 states a hash that covers times: there is nothing here to compare it with. */
static enum lw_status verify(struct lw_plan *p, int32_t format, const char *hash, bool unchecked,
                             struct lw_err *err)
{
    LW_TRY(lw_err_context(err, lw_strategy_check(p->strategy, err), "at strategy"));
    LW_TRY(check_experts(p, err));
    if (!unchecked)
        LW_TRY(lw_plan_check(p, err));
    LW_TRY(lw_plan_hash(p, err));
    if (!unchecked && format == LW_PLAN_FORMAT && *hash && strcmp(hash, p->hash) != 0)
        return lw_fail(err, LW_EPLAN,
                       "at hash: found %.40s, but the contents hash to %s: the plan was edited "
                       "(without the field \"hash\" it is taken as it is)",
                       hash, p->hash);
    return LW_OK;
}

/* text NULL: the file of that name. */
static enum lw_status read_plan(const char *file, const char *text, size_t len, bool unchecked,
                                struct lw_plan *p, struct lw_err *err)
{
    struct lw_strategy strategy = lw_strategy_default();
    struct lw_plan_format format;
    struct plan_file f = {.plan.strategy = &strategy};
    struct lw_arena *a = &f.plan.arena;
    enum lw_status s =
        text ? lw_text_read(file, text, len, "plan", lw_plan_file_fields(&format), a, &f, err)
             : lw_file_read(file, "plan", lw_plan_file_fields(&format), a, &f, err);

    f.plan.strategy = lw_arena_alloc(&f.plan.arena, 1, sizeof strategy);
    if (!f.plan.strategy)
        s = s == LW_OK ? lw_fail_nomem(err) : s;
    else
        *f.plan.strategy = strategy;
    if (s == LW_OK) {
        s = lw_plan_file_pack(&f, &f.plan, err);
        if (s == LW_OK)
            s = verify(&f.plan, f.format, f.hash, unchecked, err);
        if (s != LW_ENOMEM)
            s = lw_err_context(err, s, "%s", file);
    }
    if (s != LW_OK) {
        lw_plan_free(&f.plan);
        return s;
    }
    *p = f.plan;
    return LW_OK;
}

enum lw_status lw_plan_read(const char *file, bool unchecked, struct lw_plan *p, struct lw_err *err)
{
    return read_plan(file, NULL, 0, unchecked, p, err);
}

enum lw_status lw_plan_read_text(const char *name, const char *text, size_t len, bool unchecked,
                                 struct lw_plan *p, struct lw_err *err)
{
    return read_plan(name, text, len, unchecked, p, err);
}

/* --- writing: rows again ---------------------------------------------------------------------- */

static enum lw_status unpack_ranks(struct plan_file *f, struct lw_arena *a, struct lw_err *err)
{
    const struct lw_plan *p = &f->plan;

    f->n_rank_rows = p->n_ranks;
    LW_TAKE(a, f->ranks, p->n_ranks, err);
    for (int32_t i = 0; i < p->n_ranks; i++) {
        f->ranks[i].role = lw_plan_role_of(p, i);
        f->ranks[i].dp = lw_plan_coord(p, i, LW_AXIS_DP);
        f->ranks[i].pp = lw_plan_coord(p, i, LW_AXIS_PP);
        f->ranks[i].tp = lw_plan_coord(p, i, LW_AXIS_TP);
    }
    return LW_OK;
}

static enum lw_status unpack_comms(struct plan_file *f, struct lw_arena *a, struct lw_err *err)
{
    const struct lw_plan *p = &f->plan;

    f->n_comm_rows = p->n_comms;
    f->comms = lw_arena_alloc(a, p->n_comms, sizeof *f->comms);
    unsigned char *used = lw_arena_alloc(a, p->n_groups, 1);
    if (!f->comms || !used)
        return lw_fail_nomem(err);
    for (int32_t c = 0; c < p->n_comms; c++) {
        struct comm_row *row = &f->comms[c];
        row->comm = p->comms[c];
        memset(used, 0, (size_t)p->n_groups);
        for (int32_t r = 0; r < p->n_ranks; r++) {
            int32_t mine = lw_plan_group_of(p, c, r);
            row->n_groups += mine >= 0 && !used[mine];
            if (mine >= 0)
                used[mine] = 1;
        }
        LW_TAKE(a, row->groups, row->n_groups, err);
        for (int32_t g = 0, n = 0; g < p->n_groups; g++)
            if (used[g])
                row->groups[n++] = g;
    }
    return LW_OK;
}

static enum lw_status unpack_bucket(const struct lw_plan *p, int32_t b, struct bucket_row *row,
                                    struct lw_arena *a, struct lw_err *err)
{
    row->bucket = p->buckets[b];
    row->n_params = row->n_offsets = row->bucket.n_slots;
    LW_TAKE(a, row->params, row->n_params, err);
    LW_TAKE(a, row->offsets, row->n_params, err);
    for (struct lw_slot_walk w = {0}; lw_plan_next_slot(p, &row->bucket, &w);) {
        row->params[w.n - 1] = w.slot.param;
        row->offsets[w.n - 1] = w.slot.offset;
    }
    return LW_OK;
}

static enum lw_status unpack_sets(struct plan_file *f, struct lw_arena *a, struct lw_err *err)
{
    const struct lw_plan *p = &f->plan;

    f->n_set_rows = p->n_sets;
    LW_TAKE(a, f->sets, p->n_sets, err);
    for (int32_t s = 0; s < p->n_sets; s++) {
        struct set_row *row = &f->sets[s];
        row->set = p->sets[s];
        if (row->set.kind == (int32_t)lw_bucket_kind_of_set(row->set.name))
            row->set.kind = -1; /* its name says it */
        row->n_buckets = row->set.n_buckets;
        LW_TAKE(a, row->buckets, row->n_buckets, err);
        for (int32_t b = 0; b < row->n_buckets; b++)
            LW_TRY(unpack_bucket(p, row->set.first_bucket + b, &row->buckets[b], a, err));
    }
    return LW_OK;
}

static enum lw_status unpack_programs(struct plan_file *f, struct lw_arena *a, struct lw_err *err)
{
    const struct lw_plan *p = &f->plan;

    f->n_program_rows = p->n_variants * p->n_roles;
    f->n_operand_rows = p->n_operand_rows;
    LW_TAKE(a, f->programs, f->n_program_rows, err);
    LW_TAKE(a, f->operands, p->n_operand_rows, err);
    for (int32_t i = 0; i < f->n_program_rows; i++)
        f->programs[i] = (struct program_row){p->programs[i], i / p->n_roles, i % p->n_roles};
    for (int32_t i = 0; i < p->n_operand_rows; i++) {
        struct lw_operand *of_ranks;
        int32_t n = lw_operand_row_length(p, i);
        LW_TAKE(a, of_ranks, n, err);
        for (int32_t k = 0; k < n; k++)
            of_ranks[k] = lw_operand_at(p, i, k);
        f->operands[i] = (struct operands_row){of_ranks, n};
    }
    return LW_OK;
}

/* Roles with the plan's own bytes. */
static enum lw_status unpack_roles(struct plan_file *f, struct lw_arena *a, struct lw_err *err)
{
    struct lw_role *own;

    LW_TAKE(a, own, f->plan.n_roles, err);
    for (int32_t r = 0; r < f->plan.n_roles; r++) {
        own[r] = f->plan.roles[r];
        if (own[r].held)
            memcpy(own[r].static_bytes, own[r].decided_bytes, sizeof own[r].static_bytes);
    }
    f->plan.roles = own;
    return LW_OK;
}

/* Of tables whose rows are made as they are written. */
static void count_rows(struct plan_file *f, enum lw_plan_table_id id)
{
    f->lists[id] = (struct list_rows){NULL,
                                      lw_plan_count_at(&f->plan, lw_plan_tables[id].n_at)};
}

static enum lw_status unpack(struct plan_file *f, struct lw_arena *rows, struct lw_err *err)
{
    LW_TRY(lw_plan_with_tables(&f->plan, rows, &f->plan, err));
    LW_TRY(unpack_roles(f, rows, err));
    LW_TRY(unpack_ranks(f, rows, err));
    LW_TRY(unpack_comms(f, rows, err));
    LW_TRY(unpack_sets(f, rows, err));
    count_rows(f, LW_TABLE_groups);
    count_rows(f, LW_TABLE_works);
    count_rows(f, LW_TABLE_ops);
    return unpack_programs(f, rows, err);
}

enum lw_status lw_plan_write(const struct lw_plan *p, const char *file, struct lw_err *err)
{
    struct plan_file f = {.plan = *p, .hash = p->hash, .format = LW_PLAN_FORMAT};
    struct lw_plan_format format;
    struct lw_arena rows = {0};
    enum lw_status s = unpack(&f, &rows, err);

    if (s == LW_OK)
        s = lw_file_write(file, "plan", lw_plan_file_fields(&format), &f, err);
    lw_arena_free(&rows);
    return s;
}

enum lw_status lw_plan_write_stream(const struct lw_plan *p, FILE *to, struct lw_err *err)
{
    struct plan_file f = {.plan = *p, .hash = p->hash, .format = LW_PLAN_FORMAT};
    struct lw_plan_format format;
    struct lw_arena rows = {0};
    enum lw_status s = unpack(&f, &rows, err);

    if (s == LW_OK)
        lw_stream_write(to, "plan", lw_plan_file_fields(&format), &f);
    lw_arena_free(&rows);
    return s;
}

enum lw_status lw_plan_write_text(const struct lw_plan *p, char **text, size_t *len,
                                  struct lw_err *err)
{
    struct plan_file f = {.plan = *p, .hash = p->hash, .format = LW_PLAN_FORMAT};
    struct lw_plan_format format;
    struct lw_arena rows = {0};
    enum lw_status s = unpack(&f, &rows, err);

    if (s == LW_OK)
        s = lw_text_write("plan", lw_plan_file_fields(&format), &f, text, len, err);
    lw_arena_free(&rows);
    return s;
}

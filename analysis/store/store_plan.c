/* A plan into the database, once per hash and times: row by row what reports, plots and joins read,
 * and as a whole, so that a stored plan is read, simulated and executed as the one that was
 * stored. Runs inside the transaction of its caller. */
#include "analysis/store/store_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/store/alike_ops.h"
#include "analysis/store/sql.h"
#include "analysis/store/store.h"
#include "analysis/store/store_ops.h"
#include "shared/base/arena.h"
#include "shared/files/files.h"
#include "shared/io/gzip_out.h"
#include "shared/io/input.h"
#include "shared/plan/op_bound.h"
#include "shared/plan/plan.h"
#include "shared/plan/plan_tables.h"
#include "shared/strategy/strategy.h"

static const char *const op_class[] = {"compute", "copy", "collective", "p2p", "memory", "host"};

const char *lw_store_class_name(enum lw_op_kind kind)
{
    return op_class[lw_op_class(kind)];
}

typedef void put_fn(struct lw_sql *q, int64_t id, const struct lw_plan *p);

static void put_options(struct lw_sql *q, int64_t id, const struct lw_plan *p)
{
    char buf[LW_STRATEGY_TEXT];
    for (int i = 0; i < lw_strategy_n_options(); i++)
        lw_sql_run(q, "ltt", id, lw_strategy_option(i)->name,
                   lw_strategy_get(p->strategy, i, buf));
}

static void put_notes(struct lw_sql *q, int64_t id, const struct lw_plan *p)
{
    for (int32_t i = 0; i < p->n_notes; i++)
        lw_sql_run(q, "lit", id, i, p->notes[i]);
}

static void put_ranks(struct lw_sql *q, int64_t id, const struct lw_plan *p)
{
    for (int32_t r = 0; r < p->n_ranks; r++) {
        int32_t at[LW_N_AXES], role = lw_plan_role_of(p, r);
        lw_plan_place(p, r, at);
        lw_sql_run(q, "liitiiii", id, r, role, p->roles[role].name, lw_plan_index_of(p, r), at[0],
                   at[1], at[2]);
    }
}

static void put_buckets(struct lw_sql *q, int64_t id, const struct lw_plan *p)
{
    for (int32_t i = 0; i < p->n_buckets; i++) {
        const struct lw_bucket *b = &p->buckets[i];
        const struct lw_bucket_set *set = &p->sets[b->set];
        lw_sql_run(q, "litiitlli", id, i, set->name, set->stage, i - set->first_bucket,
                   lw_dtype_name(b->dtype), b->bytes, b->limit_bytes, b->n_slots);
    }
}

static void put_slots(struct lw_sql *q, int64_t id, const struct lw_plan *p)
{
    for (int32_t i = 0; i < p->n_buckets; i++)
        for (struct lw_slot_walk w = {0}; lw_plan_next_slot(p, &p->buckets[i], &w);)
            lw_sql_run(q, "liiil", id, i, w.n - 1, w.slot.param, w.slot.offset);
}

static void put_programs(struct lw_sql *q, int64_t id, const struct lw_plan *p)
{
    for (int32_t v = 0; v < p->n_variants; v++)
        for (int32_t r = 0; r < p->n_roles; r++) {
            struct lw_program g = p->programs[(int64_t)v * p->n_roles + r];
            lw_sql_run(q, "liitiii", id, v, r, p->variants[v].name,
                       (int)p->variants[v].ends_step, g.first_op, g.n_ops);
        }
}

static const struct {
    const char *insert;
    put_fn *put;
} tables[] = {
    {"INSERT INTO plan_option VALUES (?,?,?)", put_options},
    {"INSERT INTO plan_note VALUES (?,?,?)", put_notes},
    {"INSERT INTO plan_rank VALUES (?,?,?,?,?,?,?,?)", put_ranks},
    {"INSERT INTO bucket VALUES (?,?,?,?,?,?,?,?,?)", put_buckets},
    {"INSERT INTO slot VALUES (?,?,?,?,?)", put_slots},
    {"INSERT INTO program VALUES (?,?,?,?,?,?,?)", put_programs},
};

/* --- tables whose columns are fields of the descriptor ---------------------------------------- */

static const struct {
    const char *name; /* and of the column that numbers its rows */
    enum lw_plan_table_id id;
} described[] = {
    {"stream", LW_TABLE_streams},
    {"comm", LW_TABLE_comms},
    {"param", LW_TABLE_params},
};

enum { MAX_COLUMNS = 32 };

struct column {
    char name[32];
    const struct lw_plan_field *field; /* NULL: not of one field */
    int of_row;
};

static struct lw_sql_value number(int64_t v)
{
    return (struct lw_sql_value){.number = v};
}

static struct lw_sql_value of_field(const struct lw_plan_field *f, const char *row)
{
    if (f->kind == LW_PF_TEXT)
        return (struct lw_sql_value){.text = *(const char *const *)(const void *)(row + f->at)};
    int64_t v = lw_field_number(f, row);
    return f->word ? (struct lw_sql_value){.text = f->word((int)v)} : number(v);
}

static struct lw_sql_value word(const char *text)
{
    return (struct lw_sql_value){.text = text};
}

/* Columns that are not of one field: of an op, else the number of the stored row. */
enum of_row { ROW_NUMBER, OP_CLASS, OP_WORK, OP_BOUND, OP_SOURCE, OP_BOUND_PS };

/* OP_BOUND_PS + b: "compute_ps" and the like. */
static int of_row(const char *column)
{
    static const char *const words[] = {
        [OP_CLASS] = "class", [OP_WORK] = "work_ps", [OP_BOUND] = "bound",
        [OP_SOURCE] = "time_source"};
    char name[32];

    for (int k = OP_CLASS; k < OP_BOUND_PS; k++)
        if (strcmp(column, words[k]) == 0)
            return k;
    for (int b = 0; b < LW_N_BOUNDS; b++) {
        snprintf(name, sizeof name, "%s_ps", lw_op_bound_key(b));
        if (strcmp(column, name) == 0)
            return OP_BOUND_PS + b;
    }
    return ROW_NUMBER;
}

/* i: row of the plan's table. */
static struct lw_sql_value value_of_row(const struct lw_plan *p, int what, int64_t i,
                                        int64_t stored)
{
    const struct lw_op *op = what == ROW_NUMBER ? NULL : LW_OP(p, i);

    switch (what) {
    case ROW_NUMBER: return number(stored);
    case OP_CLASS: return word(lw_store_class_name((enum lw_op_kind)op->kind));
    case OP_WORK: return number(lw_plan_work_ps(p, op));
    case OP_BOUND: return word(lw_op_bound_key(lw_op_bound(p, op)));
    case OP_SOURCE: return word(lw_op_time_source(p, op));
    default:
        return number(op->work >= 0 ? lw_work_at(p, op->work)->bound_ps[what - OP_BOUND_PS] : 0);
    }
}

static const struct lw_plan_field *field_of(const struct lw_plan_table *t, const char *name)
{
    for (const struct lw_plan_field *f = t->fields; f->name; f++)
        if (f->kind != LW_PF_APART && strcmp(f->key ? f->key : f->name, name) == 0)
            return f;
    return NULL;
}

/* The columns after the first, which is the plan's id. */
static enum lw_status columns_of(struct lw_store *s, const char *name,
                                 const struct lw_plan_table *t, struct column *c, int *n,
                                 struct lw_err *err)
{
    struct lw_sql *q;

    *n = 0;
    LW_TRY(lw_sql_query(s, &q, err, "SELECT name FROM pragma_table_info(?) WHERE cid > 0", "t",
                        name));
    while (*n < MAX_COLUMNS && lw_sql_next(q)) {
        snprintf(c[*n].name, sizeof c->name, "%s", lw_sql_text(q, 0));
        c[*n].field = field_of(t, c[*n].name);
        c[*n].of_row = of_row(c[*n].name);
        ++*n;
    }
    return lw_sql_finish(q, err);
}

/* Columns of n rows of a plan's table that queries read; the rest of a row is in the plan's file.
 * of[n]: which rows, NULL = the first n. */
static enum lw_status put_rows(struct lw_store *s, int64_t plan, const struct lw_plan *p,
                               const char *name, const struct lw_plan_table *t, const int32_t *of,
                               int64_t n_rows, struct lw_err *err)
{
    struct column c[MAX_COLUMNS];
    struct lw_sql_value v[MAX_COLUMNS + 1] = {number(plan)};
    char insert[128];
    struct lw_sql *q;
    struct lw_op op;
    int n;

    LW_TRY(columns_of(s, name, t, c, &n, err));
    int at = snprintf(insert, sizeof insert, "INSERT INTO %s VALUES (?", name);
    for (int i = 0; i < n; i++)
        at += snprintf(insert + at, sizeof insert - (size_t)at, ",?");
    snprintf(insert + at, sizeof insert - (size_t)at, ")");
    LW_TRY(lw_sql_prepare(s, insert, &q, err));
    for (int64_t i = 0; i < n_rows && !lw_sql_failed(q); i++) {
        int64_t at_row = of ? of[i] : i;
        const char *row = lw_table_row(t, p, at_row, &op);
        for (int k = 0; k < n; k++)
            v[k + 1] = c[k].field ? of_field(c[k].field, row)
                                  : value_of_row(p, c[k].of_row, at_row, i);
        lw_sql_run_values(q, v, n + 1);
    }
    return lw_sql_finish(q, err);
}

static enum lw_status put_op_rows(struct lw_store *s, int64_t plan, const struct lw_plan *p,
                                  const int32_t *alike, struct lw_err *err)
{
    struct op_writer *w = NULL;
    enum lw_status st = LW_OK;

    LW_TRY(op_writer_new(s, plan, &w, err));
    for (int32_t i = 0; i < p->n_ops && st == LW_OK; i++)
        st = op_writer_add(w, i, lw_op_at(p, i).micro_batch, alike[i], err);
    return op_writer_end(w, st, err);
}

/* Each op names the set of those that are alike but for the micro-batch. */
static enum lw_status put_ops(struct lw_store *s, int64_t plan, const struct lw_plan *p,
                              struct lw_err *err)
{
    struct lw_arena room = {0};
    struct alike_ops a;

    enum lw_status st = alike_ops_find(p, &room, &a, err);
    if (st == LW_OK)
        st = put_rows(s, plan, p, "op_alike", &lw_plan_tables[LW_TABLE_ops], a.first, a.n, err);
    if (st == LW_OK)
        st = put_op_rows(s, plan, p, a.set, err);
    lw_arena_free(&room);
    return st;
}

/* The plan as its file has it: what the tables leave out is in it. */
static enum lw_status put_file(struct lw_store *s, int64_t id, const struct lw_plan *p,
                               struct lw_err *err)
{
    struct lw_gzip_out out;
    struct lw_err other;
    char *packed = NULL;
    size_t n = 0;

    LW_TRY(lw_gzip_out_begin(&out, err));
    enum lw_status st = lw_plan_write_stream(p, out.file, err);
    enum lw_status end = lw_gzip_out_end(&out, &packed, &n, st == LW_OK ? err : &other);
    if (st != LW_OK || end != LW_OK) {
        lw_free(packed);
        return st != LW_OK ? st : end;
    }
    st = lw_sql_do(s, err, "INSERT INTO plan_file VALUES (?,?)", "lb", id, packed, n);
    lw_free(packed);
    return st;
}

static enum lw_status hash_plan(struct lw_store *s, int64_t id, struct lw_err *err)
{
    const struct lw_run run = {.id = -1, .plan = id};
    struct lw_input in;
    struct lw_plan p;
    struct lw_err why = {0};
    char times[33];

    enum lw_status st = lw_store_plan_file(s, &run, "plan", &in, &why);
    if (st == LW_OK) {
        st = lw_plan_read_text("plan", in.text, in.len, true, &p, &why);
        lw_input_free(&in);
    }
    if (st != LW_OK)
        return st == LW_ENOMEM ? lw_fail_nomem(err) : LW_OK; /* it is told when it is loaded */
    st = lw_plan_hash_times(&p, times, err);
    if (st == LW_OK)
        st = lw_sql_do(s, err, "UPDATE plan SET hash = ?, times = ? WHERE id = ?", "ttl", p.hash,
                       times, id);
    lw_plan_free(&p);
    return st;
}

enum lw_status lw_store_hash_plans(struct lw_store *s, struct lw_err *err)
{
    for (int64_t id = 0;;) {
        LW_TRY(lw_sql_number(s, &id, err, "SELECT min(plan) FROM plan_file WHERE plan > ?", "l",
                             id));
        if (id <= 0)
            return LW_OK;
        LW_TRY(hash_plan(s, id, err));
    }
}

enum lw_status lw_store_put_plan(struct lw_store *s, const struct lw_plan *p, int64_t *id,
                                 struct lw_err *err)
{
    struct lw_sql *q;
    char times[33];

    if (!p->hash[0])
        return lw_fail(err, LW_EINVAL, "plan '%s' has no hash: it cannot be stored", p->name);
    LW_TRY(lw_plan_hash_times(p, times, err));
    LW_TRY(lw_sql_number(s, id, err, "SELECT id FROM plan WHERE hash = ? AND times = ?", "tt",
                         p->hash, times));
    if (*id > 0)
        return LW_OK;
    LW_TRY(lw_sql_do(s, err,
                     "INSERT INTO plan (hash, name, n_ranks, n_stages, n_params, n_buckets,"
                     " n_ops, bucket_cap_bytes, repeat_from, workload_hash, cluster_name, times)"
                     " VALUES (?,?,?,?,?,?,?,?,?,?,?,?)",
                     "ttiiiiilittt", p->hash, p->name ? p->name : "", p->n_ranks, p->n_stages,
                     p->n_params, p->n_buckets, p->n_ops, p->strategy->bucket_cap_bytes,
                     p->repeat_from, p->workload_hash, p->cluster_name, times));
    *id = lw_sql_last_id(s);
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        LW_TRY(lw_sql_prepare(s, tables[i].insert, &q, err));
        tables[i].put(q, *id, p);
        LW_TRY(lw_sql_finish(q, err));
    }
    for (size_t i = 0; i < sizeof described / sizeof described[0]; i++) {
        const struct lw_plan_table *t = &lw_plan_tables[described[i].id];
        LW_TRY(put_rows(s, *id, p, described[i].name, t, NULL, lw_table_rows(t, p), err));
    }
    LW_TRY(put_ops(s, *id, p, err));
    return put_file(s, *id, p, err);
}

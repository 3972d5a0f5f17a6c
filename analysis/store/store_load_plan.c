/* A plan out of the database again: its file, where the database has it (plan_file). Of a run that
 * was stored before that, table by table through the builder, so that it can be explained, exported
 * and simulated again.
 *
 * What the tables do not hold is not made up: shards, buffers, static memory and the order of a
 * group's members (taken by rank) are missing, so the plan is for reading and for simulating at
 * collective detail, never for running; its hash is that of the plan it was stored from. Numbers
 * are checked before they index anything: a database is a file that any program may have edited. */
#include <stdio.h>
#include <string.h>

#include "analysis/store/sql.h"
#include "analysis/store/store.h"
#include "shared/files/files.h"
#include "shared/io/input.h"
#include "shared/plan/plan_builder.h"
#include "shared/strategy/strategy.h"

struct loader {
    struct lw_store *store;
    struct lw_builder *builder;
    struct lw_err *err;
    int64_t plan;
    int32_t n_ranks, n_ops, n_roles, n_streams, n_comms, n_params, n_buckets, n_variants;
    int32_t n_rows;           /* of operands */
    struct lw_arena scratch;
};

typedef enum lw_status row_fn(struct loader *l, struct lw_sql *q);

static enum lw_status bad(struct loader *l, const char *table)
{
    return lw_fail_at(l->err, LW_EFORMAT, lw_store_file(l->store), 0,
                      "plan %lld: table %s holds a number out of range: the file is damaged; "
                      "delete its runs (lapwing runs N --delete) and run them again",
                      (long long)l->plan, table);
}

static bool within(int64_t value, int64_t low, int64_t end)
{
    return value >= low && value < end;
}

static int32_t number(struct lw_sql *q, int column)
{
    int64_t v = lw_sql_int(q, column);
    return within(v, INT32_MIN, (int64_t)INT32_MAX + 1) ? (int32_t)v : INT32_MIN;
}

/* n (NULL: none): column 0 numbers the rows of `table` from 0, and *n becomes how many there are.
 */
static enum lw_status each(struct loader *l, const char *table, int32_t *n, const char *text,
                           row_fn *fn)
{
    struct lw_sql *q;
    enum lw_status st = LW_OK;

    LW_TRY(lw_sql_query(l->store, &q, l->err, text, "l", l->plan));
    while (st == LW_OK && lw_sql_next(q))
        st = n && number(q, 0) != (*n)++ ? bad(l, table) : fn(l, q);
    return lw_sql_end(q, st, l->err);
}

/* --- head, ranks, streams, communicators ------------------------------------------------------ */

static enum lw_status begin(struct loader *l, struct lw_sql *q)
{
    l->n_ranks = number(q, 1);
    l->n_ops = number(q, 2);
    if (!within(l->n_ranks, 1, INT32_MAX / 4) || l->n_ops < 0)
        return bad(l, "plan");
    l->builder = lw_builder_new(lw_sql_text(q, 0), l->n_ranks);
    if (!l->builder)
        return lw_fail_nomem(l->err);
    lw_builder_repeat_from(l->builder, number(q, 3));
    return LW_OK;
}

static enum lw_status add_role(struct loader *l, struct lw_sql *q)
{
    lw_builder_role(l->builder,
                    &(struct lw_role){.name = lw_sql_text(q, 1), .stage = number(q, 2)});
    return LW_OK;
}

static enum lw_status add_rank(struct loader *l, struct lw_sql *q)
{
    if (!within(number(q, 0), 0, l->n_ranks) || !within(number(q, 1), 0, l->n_roles))
        return bad(l, "plan_rank");
    lw_builder_rank(l->builder, number(q, 0), number(q, 1), number(q, 2), number(q, 3),
                    number(q, 4));
    return LW_OK;
}

/* -1 = none of the words. */
static int place_of(const char *text, const char *(*word)(int k))
{
    for (int k = 0; word(k); k++)
        if (strcmp(word(k), text) == 0)
            return k;
    return -1;
}

static enum lw_status add_stream(struct loader *l, struct lw_sql *q)
{
    int c = place_of(lw_sql_text(q, 2), lw_stream_class_word);

    if (c < 0)
        return bad(l, "stream");
    lw_builder_stream(l->builder, lw_sql_text(q, 1), (enum lw_stream_class)c, number(q, 3));
    return LW_OK;
}

static enum lw_status add_comm(struct loader *l, struct lw_sql *q)
{
    struct lw_strategy s = lw_strategy_default();
    int purpose = place_of(lw_sql_text(q, 4), lw_comm_purpose_word);

    if (!within(number(q, 3), 0, l->n_streams) || purpose < 0)
        return bad(l, "comm");
    LW_TRY(lw_strategy_set(&s, "reducer", lw_sql_text(q, 2), l->err));
    lw_builder_comm(l->builder, lw_sql_text(q, 1), (enum lw_comm_purpose)purpose, s.reducer,
                    number(q, 3));
    return LW_OK;
}

/* Rows come by group and communicator: a change of either closes the group. */
static enum lw_status add_groups(struct loader *l)
{
    struct lw_sql *q;
    int32_t n = 0, comm = -1, group = -1;
    int32_t *members;

    LW_TAKE(&l->scratch, members, l->n_ranks, l->err);
    LW_TRY(lw_sql_query(l->store, &q, l->err,
                        "SELECT member_group, comm, rank FROM comm_rank WHERE plan = ?"
                        " ORDER BY member_group, comm, rank", "l", l->plan));
    for (bool more = true; more;) {
        more = lw_sql_next(q);
        int32_t g = number(q, 0), c = number(q, 1), r = number(q, 2);
        if (n > 0 && (!more || g != group || c != comm)) {
            lw_builder_group(l->builder, comm, members, n);
            n = 0;
        }
        if (more && (!within(c, 0, l->n_comms) || !within(r, 0, l->n_ranks) || n == l->n_ranks)) {
            (void)lw_sql_finish(q, NULL);
            return bad(l, "comm_rank");
        }
        group = g;
        comm = c;
        if (more)
            members[n++] = r;
    }
    return lw_sql_finish(q, l->err);
}

/* --- parameters and buckets ------------------------------------------------------------------- */

static enum lw_status add_module(struct loader *l, struct lw_sql *q)
{
    lw_builder_module(l->builder, number(q, 0));
    return LW_OK;
}

static enum lw_status add_param(struct loader *l, struct lw_sql *q)
{
    struct lw_plan_param p = {.name = lw_sql_text(q, 1), .numel = lw_sql_int(q, 2),
                              .module = number(q, 5), .tied = -1,
                              .trainable = number(q, 6) != 0, .used = true};
    enum lw_dtype dtype;

    if (!within(number(q, 4), 0, LW_MAX_STAGES))
        return bad(l, "param");
    LW_TRY(lw_dtype_parse(lw_sql_text(q, 3), &dtype, l->err));
    p.dtype = (uint8_t)dtype;
    p.stage = (int16_t)number(q, 4);
    lw_builder_param(l->builder, &p);
    return LW_OK;
}

static enum lw_status read_slots(struct loader *l, int32_t bucket, int32_t n, struct lw_slot *slots)
{
    struct lw_sql *q;
    int32_t k = 0;
    bool sound = true;

    LW_TRY(lw_sql_query(l->store, &q, l->err,
                        "SELECT param, offset FROM slot WHERE plan = ? AND bucket = ?"
                        " ORDER BY slot", "li", l->plan, bucket));
    while (k < n && lw_sql_next(q)) {
        slots[k] = (struct lw_slot){number(q, 0), lw_sql_int(q, 1)};
        sound = sound && within(slots[k++].param, 0, l->n_params);
    }
    LW_TRY(lw_sql_finish(q, l->err));
    return sound && k == n ? LW_OK : bad(l, "slot");
}

static enum lw_status add_bucket(struct loader *l, struct lw_sql *q)
{
    struct lw_bucket b = {.bytes = lw_sql_int(q, 5), .limit_bytes = lw_sql_int(q, 6)};
    int32_t n = number(q, 7);

    if (!within(n, 0, (int64_t)l->n_params + 1))
        return bad(l, "bucket");
    LW_TRY(lw_dtype_parse(lw_sql_text(q, 4), &b.dtype, l->err));
    struct lw_slot *slots;
    LW_TAKE(&l->scratch, slots, n, l->err);
    LW_TRY(read_slots(l, number(q, 0), n, slots));
    if (number(q, 3) == 0) /* the first of its set */
        lw_builder_set(l->builder, lw_bucket_kind_of_set(lw_sql_text(q, 1)), lw_sql_text(q, 1),
                       number(q, 2));
    else if (l->n_buckets == 1)
        return bad(l, "bucket");
    lw_builder_bucket(l->builder, &b, slots, n);
    return LW_OK;
}

/* --- programs --------------------------------------------------------------------------------- */

static enum lw_status add_operand(struct loader *l, struct lw_sql *q)
{
    struct lw_operand o = {lw_sql_int(q, 2), lw_sql_int(q, 3), number(q, 4)};

    if (!within(number(q, 0), l->n_rows - (l->n_rows > 0), (int64_t)l->n_rows + 1))
        return bad(l, "operand");
    if (number(q, 0) == l->n_rows) {
        l->n_rows++;
        lw_builder_operand_row(l->builder, &o, 1);
        return LW_OK;
    }
    lw_builder_operand_more(l->builder, &o);
    return LW_OK;
}

static enum lw_status add_variant(struct loader *l, struct lw_sql *q)
{
    lw_builder_variant(l->builder, lw_sql_text(q, 1), lw_sql_text(q, 3), number(q, 2) != 0);
    return LW_OK;
}

static enum lw_status add_pass(struct loader *l, struct lw_sql *q)
{
    if (!within(number(q, 0), 0, l->n_variants))
        return bad(l, "pass");
    lw_builder_pass(l->builder, number(q, 0));
    return LW_OK;
}

/* The edges of all ops: those of op o are value[first[o]] .. value[first[o + 1] - 1]. */
struct edges {
    int64_t *first;
    int32_t *value;
};

/* n_values -1: a value is an op, and must come before the op that it belongs to. */
static enum lw_status read_edges(struct loader *l, const char *table, const char *text,
                                 int32_t n_values, struct edges *out)
{
    struct lw_sql *q;
    enum lw_status st = LW_OK;
    int32_t n = 0;

    *out = (struct edges){NULL, NULL};
    LW_TAKE(&l->scratch, out->first, (int64_t)l->n_ops + 1, l->err);
    LW_TRY(lw_sql_query(l->store, &q, l->err, text, "l", l->plan));
    while (st == LW_OK && lw_sql_next(q)) {
        int32_t op = number(q, 0), v = number(q, 1);
        out->value = lw_arena_more(&l->scratch, out->value, n, sizeof *out->value);
        if (!within(op, 0, l->n_ops) || !within(v, 0, n_values < 0 ? op : n_values)) {
            st = bad(l, table);
        } else if (!out->value) {
            st = lw_fail_nomem(l->err);
        } else {
            out->value[n++] = v;
            out->first[op + 1] = n;
        }
    }
    LW_TRY(lw_sql_end(q, st, l->err));
    for (int32_t o = 0; o < l->n_ops; o++) /* ops without edges */
        out->first[o + 1] = out->first[o + 1] < out->first[o] ? out->first[o] : out->first[o + 1];
    return LW_OK;
}

static enum lw_status read_op(struct loader *l, struct lw_sql *q, struct lw_op *op)
{
    enum lw_op_kind kind;
    enum lw_dtype dtype;

    LW_TRY(lw_op_parse(lw_sql_text(q, 1), &kind, l->err));
    *op = lw_builder_blank(kind, number(q, 3));
    LW_TRY(lw_dtype_parse(lw_sql_text(q, 2), &dtype, l->err));
    if (!within(number(q, 11), -1, LW_MAX_STAGES))
        return bad(l, "op");
    op->dtype = (uint8_t)dtype;
    op->comm = number(q, 4);
    op->call = number(q, 5);
    op->bytes = lw_sql_int(q, 6);
    op->work_ps = lw_sql_int(q, 7);
    op->peer = number(q, 8);
    op->operand = number(q, 9);
    op->module = number(q, 10);
    op->stage = (int16_t)number(q, 11);
    op->micro_batch = number(q, 12);
    op->bucket = number(q, 13);
    op->name = lw_sql_text(q, 14);
    return within(op->stream, 0, l->n_streams) && within(op->comm, -1, l->n_comms) &&
                   within(op->operand, -1, l->n_rows) && within(op->bucket, -1, l->n_buckets)
               ? LW_OK : bad(l, "op");
}

/* Ops in their order; a program begins where the builder stands at its first op. */
static enum lw_status add_ops(struct loader *l, const struct edges *deps, const struct edges *ready)
{
    struct lw_sql *q;
    enum lw_status st = LW_OK;
    struct lw_op op;
    int32_t at = 0, end = 0;

    LW_TRY(lw_sql_query(l->store, &q, l->err,
                        "SELECT op.op, op.kind, op.dtype, op.stream, op.comm, op.call, op.bytes,"
                        " op.work_ps, op.peer, op.operand, op.module, op.stage, op.micro_batch,"
                        " op.bucket, op.name, p.variant, p.role, p.n_ops FROM op"
                        " LEFT JOIN program AS p ON p.plan = op.plan AND p.first_op = op.op"
                        "  AND p.n_ops > 0"
                        " WHERE op.plan = ? ORDER BY op.op", "l", l->plan));
    while (st == LW_OK && lw_sql_next(q)) {
        int32_t variant = number(q, 15), role = number(q, 16);
        st = read_op(l, q, &op);
        if (st == LW_OK && (number(q, 0) != at || at >= l->n_ops))
            st = bad(l, "op");
        if (st == LW_OK && at == end) {
            if (lw_sql_is_null(q, 15) || !within(variant, 0, l->n_variants) ||
                !within(role, 0, l->n_roles))
                st = bad(l, "program");
            else
                lw_builder_program(l->builder, variant, role);
            end = at + number(q, 17);
        }
        if (st != LW_OK)
            break;
        lw_builder_op(l->builder, &op, deps->value ? deps->value + deps->first[at] : NULL,
                      (int32_t)(deps->first[at + 1] - deps->first[at]));
        for (int64_t k = ready->first[at]; k < ready->first[at + 1]; k++)
            lw_builder_ready(l->builder, ready->value[k]);
        at++;
    }
    LW_TRY(lw_sql_end(q, st, l->err));
    return at == l->n_ops ? LW_OK : bad(l, "op");
}

static enum lw_status add_strategy(struct loader *l)
{
    struct lw_strategy s = lw_strategy_default();
    struct lw_sql *q;
    enum lw_status st = LW_OK;

    LW_TRY(lw_sql_query(l->store, &q, l->err,
                        "SELECT name, value FROM plan_option WHERE plan = ? AND value <> ''",
                        "l", l->plan));
    while (st == LW_OK && lw_sql_next(q)) {
        char *value = lw_arena_strdup(&l->scratch, lw_sql_text(q, 1));
        struct lw_err unused; /* an option of another version: not needed here */
        if (!value)
            st = lw_fail_nomem(l->err);
        else
            (void)lw_strategy_set(&s, lw_sql_text(q, 0), value, &unused);
    }
    lw_builder_strategy(l->builder, &s);
    return lw_sql_end(q, st, l->err);
}

static enum lw_status load(struct loader *l)
{
    struct edges deps, ready;

    LW_TRY(each(l, "plan", NULL, "SELECT name, n_ranks, n_ops, repeat_from FROM plan WHERE id = ?",
                begin));
    if (!l->builder)
        return lw_fail_at(l->err, LW_EINVAL, lw_store_file(l->store), 0, "holds no plan %lld",
                          (long long)l->plan);
    LW_TRY(add_strategy(l));
    LW_TRY(each(l, "plan_rank", &l->n_roles,
                "SELECT DISTINCT role, role_name, pp FROM plan_rank WHERE plan = ?"
                " GROUP BY role ORDER BY role",
                add_role));
    LW_TRY(each(l, "plan_rank", NULL,
                "SELECT rank, role, dp, pp, tp FROM plan_rank WHERE plan = ? ORDER BY rank",
                add_rank));
    LW_TRY(each(l, "stream", &l->n_streams,
                "SELECT stream, name, class, priority FROM stream WHERE plan = ? ORDER BY stream",
                add_stream));
    LW_TRY(each(l, "comm", &l->n_comms,
                "SELECT comm, name, reducer, stream, ifnull(purpose, 'data') FROM comm"
                " WHERE plan = ? ORDER BY comm",
                add_comm));
    LW_TRY(add_groups(l));
    LW_TRY(each(l, "param", NULL,
                "SELECT max(stage) FROM param WHERE plan = ? GROUP BY module ORDER BY module",
                add_module));
    LW_TRY(each(l, "param", &l->n_params,
                "SELECT param, name, numel, dtype, stage, module, trainable FROM param"
                " WHERE plan = ? ORDER BY param",
                add_param));
    LW_TRY(each(l, "bucket", &l->n_buckets,
                "SELECT bucket, set_name, stage, launch, dtype, bytes, limit_bytes, n_params"
                " FROM bucket WHERE plan = ? ORDER BY bucket",
                add_bucket));
    LW_TRY(each(l, "operand", NULL,
                "SELECT row, index_in_role, bytes, offset, peer FROM operand WHERE plan = ?"
                " ORDER BY row, index_in_role",
                add_operand));
    LW_TRY(each(l, "program", &l->n_variants,
                "SELECT variant, variant_name, max(ends_step),"
                " ifnull((SELECT bucket.set_name FROM op JOIN bucket"
                "   ON bucket.plan = op.plan AND bucket.bucket = op.bucket"
                "   WHERE op.plan = program.plan AND op.op >= program.first_op"
                "    AND op.op < program.first_op + program.n_ops LIMIT 1), '')"
                " FROM program WHERE plan = ? GROUP BY variant ORDER BY variant",
                add_variant));
    LW_TRY(
        each(l, "pass", NULL, "SELECT variant FROM pass WHERE plan = ? ORDER BY pass", add_pass));
    LW_TRY(read_edges(l, "dep", "SELECT op, dep FROM dep WHERE plan = ? ORDER BY op, dep",
                      -1, &deps));
    LW_TRY(read_edges(l, "ready", "SELECT op, param FROM ready WHERE plan = ? ORDER BY op, param",
                      l->n_params, &ready));
    return add_ops(l, &deps, &ready);
}

static enum lw_status from_tables(struct lw_store *s, const struct lw_run *run,
                                  struct lw_plan *plan, struct lw_err *err)
{
    struct loader l = {.store = s, .err = err, .plan = run->plan};
    enum lw_status st = load(&l);

    if (st == LW_OK) {
        st = lw_builder_finish(l.builder, plan, err);
        l.builder = NULL;
    }
    if (st == LW_OK && !within(plan->repeat_from, 0, plan->n_passes)) {
        lw_plan_free(plan);
        st = bad(&l, "pass");
    }
    if (st == LW_OK && strlen(run->plan_hash) < sizeof plan->hash)
        strcpy(plan->hash, run->plan_hash);
    lw_builder_free(l.builder);
    lw_arena_free(&l.scratch);
    return st;
}

/* --- the file --------------------------------------------------------------------------------- */

enum lw_status lw_store_plan_file(struct lw_store *s, const struct lw_run *run, const char *name,
                                  struct lw_input *in, struct lw_err *err)
{
    struct lw_sql *q;
    enum lw_status st = LW_ENO;
    size_t n;

    LW_TRY(lw_sql_query(s, &q, err, "SELECT gz FROM plan_file WHERE plan = ?", "l", run->plan));
    if (lw_sql_next(q)) {
        const void *packed = lw_sql_bytes(q, 0, &n);
        st = lw_input_unpack(name, packed, n, in, err);
    }
    return lw_sql_end(q, st, err);
}

/* Not proven again: what is shown of a run is the plan that ran. */
static enum lw_status from_file(struct lw_store *s, const struct lw_run *run, struct lw_plan *plan,
                                struct lw_err *err)
{
    char name[80], times[33];
    struct lw_input in;
    struct lw_plan p;

    snprintf(name, sizeof name, "plan of run %lld", (long long)run->id);
    LW_TRY(lw_store_plan_file(s, run, name, &in, err));
    enum lw_status st = lw_plan_read_text(name, in.text, in.len, true, &p, err);
    lw_input_free(&in);
    LW_TRY(st);
    st = lw_plan_hash_times(&p, times, err);
    if (st == LW_OK && (strcmp(p.hash, run->plan_hash) != 0 || strcmp(times, run->plan_times) != 0))
        st = lw_fail_at(err, LW_EFORMAT, lw_store_file(s), 0,
                        "plan_file of run %lld hashes to %s and its times to %s, not to %.40s and "
                        "%.40s: it was edited; delete the run (lapwing runs %lld --delete) and run "
                        "it again",
                        (long long)run->id, p.hash, times, run->plan_hash, run->plan_times,
                        (long long)run->id);
    LW_GIVE(st, plan, p, lw_plan_free(&p));
}

enum lw_status lw_store_load_plan(struct lw_store *s, const struct lw_run *run,
                                  struct lw_plan *plan, struct lw_err *err)
{
    if (run->plan < 0)
        return lw_fail_at(err, LW_EINVAL, lw_store_file(s), 0, "run %lld has no plan",
                          (long long)run->id);
    enum lw_status st = from_file(s, run, plan, err);
    return st == LW_ENO ? from_tables(s, run, plan, err) : st;
}

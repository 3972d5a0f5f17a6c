/* The fields of a plan that decide something, as tables. The canonical bytes that are hashed and
 * the first difference of two plans come from them, so that a new field is one row here. Names of
 * files, hashes of inputs and notes are left out: they say why and not what; so are times, which
 * are a machine's (plan_work.h). */
#include "shared/plan/buffer.h"
#include "shared/plan/plan.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "shared/base/hash.h"
#include "shared/plan/op.h"
#include "shared/plan/plan_work.h"
#include "shared/plan/product.h"
#include "shared/plan/sparse.h"
#include "shared/plan/strategy.h"

enum { MAX_NUMBERS = 32 };

enum field_kind {
    NUMBER,
    REDUCER, /* a number, hashed as lw_reducer_number gives it */
    BIT,   /* bool; a run of them is hashed as one number, the first lowest */
    TEXT,
    LIST,  /* of int32_t: [first, n) of a list of the plan; the row holds first, then n */
    SLOTS, /* of a bucket: their number */
    KIND,  /* of a bucket set: hashed where the name does not imply it */
    WORK,  /* of an op: what it does, whoever times it (plan_work.h) */
};

struct field {
    const char *name;
    enum field_kind kind;
    size_t at, size;
    const char *(*word)(int); /* of a number */
    size_t list;              /* LIST: where the plan has it */
};

static const char *set_kind_word(int k)
{
    return lw_bucket_kind_name((enum lw_bucket_kind)k);
}

#define FIELD(name, kind, t, m) \
    name, kind, offsetof(struct lw_##t, m), sizeof(((struct lw_##t *)0)->m)
#define NAMED(name, t, m) {FIELD(name, NUMBER, t, m), NULL, 0}
#define N(t, m) NAMED(#m, t, m)
#define B(t, m) {FIELD(#m, BIT, t, m), NULL, 0}
#define WORD(t, m, words) {FIELD(#m, NUMBER, t, m), words, 0}
#define NAME(t, m) {FIELD(#m, TEXT, t, m), NULL, 0}
#define LIST_OF(name, t, first, of) \
    {FIELD(name, LIST, t, first), NULL, offsetof(struct lw_plan, of)}

static const struct field role_fields[] = {
    NAME(role, name), N(role, stage), NAMED("parameter bytes", role, static_bytes[LW_MEM_PARAMS]),
    NAMED("gradient bytes", role, static_bytes[LW_MEM_GRADS]),
    NAMED("optimizer bytes", role, static_bytes[LW_MEM_OPTIMIZER]),
    NAMED("bucket bytes", role, static_bytes[LW_MEM_BUCKETS]), {0},
}, stream_fields[] = {
    NAME(stream, name), {FIELD("class", NUMBER, stream, class_), lw_stream_class_word, 0},
    N(stream, priority), {0},
}, comm_fields[] = {
    NAME(comm, name), WORD(comm, purpose, lw_comm_purpose_word),
    {FIELD("reducer", REDUCER, comm, reducer), NULL, 0}, N(comm, stream), {0},
}, group_fields[] = {
    LIST_OF("member", group, first_member, members), {0},
}, param_fields[] = {
    NAME(plan_param, name), NAMED("elements", plan_param, numel),
    WORD(plan_param, dtype, lw_dtype_word), N(plan_param, stage), N(plan_param, module),
    N(plan_param, device), N(plan_param, tied), B(plan_param, trainable), B(plan_param, sparse),
    B(plan_param, used), B(plan_param, ignored), B(plan_param, expert), {0},
}, buffer_fields[] = {
    NAME(buffer, name), NAMED("elements", buffer, numel),
    WORD(buffer, dtype, lw_dtype_word), B(buffer, broadcast), {0},
}, sparse_fields[] = {
    N(sparse, param), N(sparse, row_numel), N(sparse, touched_rows), {0},
}, set_fields[] = {
    NAME(bucket_set, name), N(bucket_set, stage), NAMED("first bucket", bucket_set, first_bucket),
    NAMED("number of buckets", bucket_set, n_buckets),
    {FIELD("kind", KIND, bucket_set, kind), set_kind_word, 0}, {0},
}, bucket_fields[] = {
    N(bucket, set), WORD(bucket, dtype, lw_dtype_word), N(bucket, bytes),
    NAMED("limit", bucket, limit_bytes),
    {FIELD("number of gradients", SLOTS, bucket, n_slots), NULL, 0}, {0},
}, shard_fields[] = {
    NAMED("parameter", shard, param), N(shard, owner), NAMED("first element", shard, first),
    NAMED("elements", shard, numel), {0},
}, product_fields[] = {
    N(product, batch), N(product, m), N(product, n), N(product, k),
    WORD(product, dtype, lw_dtype_word), N(product, out_size), B(product, fp8),
    B(product, accumulate), B(product, grouped), {0},
}, variant_fields[] = {
    NAME(variant, name), NAME(variant, set_name), B(variant, ends_step), {0},
}, program_fields[] = {
    NAMED("first op", program, first_op), NAMED("number of ops", program, n_ops), {0},
}, op_fields[] = {
    WORD(op, kind, lw_op_word), WORD(op, dtype, lw_dtype_word), N(op, stream),
    NAMED("communicator class", op, comm), N(op, call), N(op, bytes), N(op, peer),
    NAMED("operand row", op, operand),
    N(op, module), N(op, stage), NAMED("micro-batch", op, micro_batch), N(op, bucket),
    LIST_OF("dependency", op, first_dep, deps), LIST_OF("gradient", op, first_ready, ready),
    NAME(op, name), {FIELD("work", WORK, op, work), NULL, 0}, {0},
}, operand_fields[] = {
    N(operand, bytes), N(operand, offset), N(operand, peer), {0},
};

/* A table of the plan: structs with fields, or int32_t. */
struct table {
    const char *row;            /* what a row is */
    size_t at, n_at;
    const struct field *fields; /* NULL: int32_t */
    size_t size;                /* of a row */
    const char *value, *within; /* int32_t: what it is, and what each of several of a row is for */
    size_t if_at;               /* left out where this count is 0; 0 = never */
    const char *mark;           /* hashed before it */
    bool uncounted;             /* the number of rows is not hashed */
};

#define P(m) offsetof(struct lw_plan, m)
#define ROWS(what, m, table) \
    .row = what, .at = P(m), .n_at = P(n_##m), .fields = table, \
    .size = sizeof *((struct lw_plan *)0)->m
#define INTS(what, m, n, number) \
    .row = what, .at = P(m), .n_at = P(n), .size = sizeof(int32_t), .value = number

/* In the order of the canonical bytes. */
static const struct table tables[] = {
    {INTS("rank", role_of, n_ranks, "role")},
    {INTS("rank", index_in_role, n_ranks, "index in its role")},
    {INTS("rank", coord, n_ranks, "coordinate"), .within = "axis"},
    {INTS("module", stage_of, n_modules, "stage")},
    {ROWS("role", roles, role_fields)},
    {ROWS("stream", streams, stream_fields)},
    {ROWS("communicator class", comms, comm_fields)},
    {ROWS("group", groups, group_fields)},
    {INTS("communicator class", comm_group, n_comms, "group"), .within = "rank"},
    {ROWS("parameter", params, param_fields)},
    {ROWS("buffer", buffers, buffer_fields)},
    {INTS("parameter that all of a tensor group hold whole", whole, n_whole, "index"),
     .if_at = P(n_whole), .mark = "whole"},
    {ROWS("sparse gradient", sparse, sparse_fields), .if_at = P(n_sparse), .mark = "sparse",
     .uncounted = true},
    {ROWS("bucket set", sets, set_fields)},
    {ROWS("bucket", buckets, bucket_fields)},
    {ROWS("shard", shards, shard_fields)},
    {ROWS("product", products, product_fields), .if_at = P(n_products), .mark = "products"},
    {ROWS("variant", variants, variant_fields)},
    {.row = "program", .at = P(programs), .n_at = P(n_variants), .fields = program_fields,
     .size = sizeof(struct lw_program), .uncounted = true},
    {ROWS("op", ops, op_fields)},
    {INTS("operand row", operand_first, n_operand_rows, "first operand")},
    {ROWS("operand", operands, operand_fields)},
    {INTS("pass", pass_variant, n_passes, "variant")},
};

enum { N_TABLES = sizeof tables / sizeof *tables };

static int32_t count_at(const struct lw_plan *p, size_t at)
{
    return *(const int32_t *)(const void *)((const char *)p + at);
}

static int64_t n_within(const struct table *t, const struct lw_plan *p)
{
    return t->at == P(coord) ? 3 : t->at == P(comm_group) ? p->n_ranks
           : t->at == P(programs) ? p->n_roles : 1;
}

static int64_t n_rows(const struct table *t, const struct lw_plan *p)
{
    return count_at(p, t->n_at) * n_within(t, p);
}

static const char *rows_of(const struct table *t, const struct lw_plan *p)
{
    return *(const char *const *)(const void *)((const char *)p + t->at);
}

static int64_t number(const struct field *f, const char *row)
{
    const void *at = row + f->at;

    return f->size == 8   ? *(const int64_t *)at
           : f->size == 4 ? *(const int32_t *)at
           : f->size == 2 ? *(const int16_t *)at
                          : *(const int8_t *)at;
}

static const char *text(const struct field *f, const char *row)
{
    return *(const char *const *)(const void *)(row + f->at);
}

static const int32_t *list(const struct field *f, const struct lw_plan *p, const char *row,
                           int32_t *n)
{
    const int32_t *at = (const int32_t *)(const void *)(row + f->at);

    *n = at[1];
    return *(int32_t *const *)(const void *)((const char *)p + f->list) + at[0];
}

/* --- hash --- */

static void feed_ints(struct lw_hash *h, const int32_t *v, int64_t n)
{
    lw_hash_int(h, n);
    lw_hash_ints32(h, v, n);
}

/* Options that differ from the default, so that a new option leaves hashes as they are. */
static void feed_strategy(struct lw_hash *h, const struct lw_strategy *s)
{
    struct lw_strategy usual = lw_strategy_default();
    char buf[64], other[64];

    for (int i = 0; i < lw_strategy_n_options(); i++) {
        const char *value = lw_strategy_get(s, i, buf);
        if (strcmp(value, lw_strategy_get(&usual, i, other)) == 0)
            continue;
        lw_hash_string(h, lw_strategy_option(i)->name);
        lw_hash_string(h, value);
    }
    lw_hash_string(h, "");
}

static void feed_slots(struct lw_hash *h, const struct lw_plan *p, const struct lw_bucket *b)
{
    lw_hash_int(h, b->n_slots);
    for (struct lw_slot_walk k = {0}; lw_plan_next_slot(p, b, &k);) {
        lw_hash_int(h, k.slot.param);
        lw_hash_int(h, k.slot.offset);
    }
}

/* What is hashed. */
struct canon {
    struct lw_hash *h;
    const struct lw_plan *p;
    struct lw_whole_works works;
};

static void feed_work(const struct canon *c, const struct lw_op *op)
{
    enum lw_work_source source = lw_work_source_of(c->p, op);

    lw_hash_int(c->h, source);
    if (source != LW_WORK_ROW)
        return;
    const struct lw_whole_work *w = &c->works.v[c->works.of[op - c->p->ops]];
    lw_hash_ints(c->h, (int64_t[]){w->flops, w->n_products, (int64_t)w->products,
                                   c->p->works[op->work].keeps_bytes}, 4);
}

static void feed_other(const struct canon *c, const struct field *f, const char *row)
{
    struct lw_hash *h = c->h;
    const struct lw_plan *p = c->p;
    const void *whole = row;
    const struct lw_bucket_set *set = whole;
    int32_t n;

    if (f->kind == TEXT) {
        lw_hash_string(h, text(f, row));
    } else if (f->kind == LIST) {
        const int32_t *v = list(f, p, row, &n);
        feed_ints(h, v, n);
    } else if (f->kind == SLOTS) {
        feed_slots(h, p, whole);
    } else if (f->kind == WORK) {
        feed_work(c, whole);
    } else if (set->kind != (int32_t)lw_bucket_kind_of_set(set->name)) {
        lw_hash_string(h, set_kind_word(set->kind));
    }
}

static void feed_row(const struct canon *c, const struct field *fields, const char *row)
{
    int64_t numbers[MAX_NUMBERS];
    int n = 0, bit = 0;

    for (const struct field *f = fields; f->name; f++) {
        if (f->kind == NUMBER) {
            numbers[n++] = number(f, row);
        } else if (f->kind == REDUCER) {
            numbers[n++] = lw_reducer_number((enum lw_reducer_kind)number(f, row));
        } else if (f->kind == BIT) {
            numbers[n] = (bit ? numbers[n] : 0) | number(f, row) << bit;
            bit = f[1].kind == BIT ? bit + 1 : 0;
            n += bit == 0;
        } else {
            lw_hash_ints(c->h, numbers, n);
            n = 0;
            feed_other(c, f, row);
        }
    }
    lw_hash_ints(c->h, numbers, n);
}

static void feed_table(const struct canon *c, const struct table *t)
{
    int64_t n = n_rows(t, c->p);
    const char *rows = rows_of(t, c->p);

    if (t->if_at && count_at(c->p, t->if_at) == 0)
        return;
    if (t->mark)
        lw_hash_string(c->h, t->mark);
    if (!t->uncounted)
        lw_hash_int(c->h, n);
    if (!t->fields)
        lw_hash_ints32(c->h, (const int32_t *)(const void *)rows, n);
    for (int64_t i = 0; t->fields && i < n; i++)
        feed_row(c, t->fields, rows + (size_t)i * t->size);
}

enum lw_status lw_plan_hash(struct lw_plan *p, struct lw_err *err)
{
    struct canon c = {.p = p};

    LW_TRY(lw_whole_works_of(p, &c.works, err));
    c.h = lw_hash_new();
    if (c.h) {
        lw_hash_int(c.h, LW_PLAN_FORMAT);
        feed_strategy(c.h, p->strategy);
        for (const struct table *t = tables; t < tables + N_TABLES; t++)
            feed_table(&c, t);
        lw_hash_int(c.h, p->repeat_from);
        lw_hash_finish(c.h, p->hash);
    }
    lw_whole_works_free(&c.works);
    return c.h ? LW_OK : lw_fail_nomem(err);
}

/* --- times --- */

enum lw_status lw_plan_hash_times(const struct lw_plan *p, char hex[33], struct lw_err *err)
{
    static const struct lw_work none;
    struct lw_hash *h = lw_hash_new();

    if (!h)
        return lw_fail_nomem(err);
    lw_hash_string(h, p->device ? p->device : "");
    lw_hash_string(h, p->framework ? p->framework : "");
    lw_hash_string(h, p->framework_hash ? p->framework_hash : "");
    lw_hash_ints(h, (int64_t[]){p->dims.layers, p->dims.hidden, p->dims.ffn, p->dims.vocab,
                                p->dims.seq, p->dims.batch, p->dims.fp8}, 7);
    lw_hash_ints(h, (int64_t[]){p->yield.samples, p->yield.tokens, p->yield.dtype, p->yield.fp8},
                 4);
    for (int32_t i = 0; i < p->n_ops; i++) {
        const struct lw_work *w = p->ops[i].work >= 0 ? &p->works[p->ops[i].work] : &none;
        lw_hash_ints(h, (int64_t[]){lw_plan_work_ps(p, &p->ops[i]), w->flops, w->bytes}, 3);
    }
    lw_hash_finish(h, hex);
    return LW_OK;
}

/* --- difference --- */

struct diff {
    const struct lw_plan *a, *b;
    struct lw_whole_works works[2];
    char *text;
    size_t room;
    const struct table *table; /* NULL: the strategy */
    int64_t row;               /* -1: the number of rows */
};

/* The row of the first plan that d stands at. */
static void name_row(const struct diff *d, char *name, size_t room)
{
    const struct table *t = d->table;
    const struct lw_plan *p = d->a;
    char text_of_op[LW_OP_TEXT];

    if (!t || d->row < 0)
        snprintf(name, room, "%s", t ? "plan" : "strategy");
    else if (t->at == P(ops))
        snprintf(name, room, "%s", lw_plan_op_text(p, (int32_t)d->row, text_of_op));
    else if (t->at == P(programs))
        snprintf(name, room, "program of '%.40s' for role '%.40s'",
                 p->variants[d->row / p->n_roles].name, p->roles[d->row % p->n_roles].name);
    else if (t->fields && t->fields->kind == TEXT)
        snprintf(name, room, "%s %" PRId64 " '%.100s'", t->row, d->row,
                 text(t->fields, rows_of(t, p) + (size_t)d->row * t->size));
    else if (t->within)
        snprintf(name, room, "%s %" PRId64 ", %s %" PRId64, t->row, d->row / n_within(t, p),
                 t->within, d->row % n_within(t, p));
    else
        snprintf(name, room, "%s %" PRId64, t->row, d->row);
}

static bool words_differ(const struct diff *d, const char *what, const char *a, const char *b)
{
    char row[200];

    if (strcmp(a, b) == 0)
        return false;
    name_row(d, row, sizeof row);
    snprintf(d->text, d->room, "%s: %s is '%s' in the first plan, '%s' in the second", row, what, a,
             b);
    return true;
}

static bool numbers_differ(const struct diff *d, const char *what, const char *(*word)(int),
                           int64_t a, int64_t b)
{
    char row[200];

    if (a == b)
        return false;
    if (word && word((int)a) && word((int)b))
        return words_differ(d, what, word((int)a), word((int)b));
    name_row(d, row, sizeof row);
    snprintf(d->text, d->room, "%s: %s is %" PRId64 " in the first plan, %" PRId64 " in the second",
             row, what, a, b);
    return true;
}

static bool strategies_differ(const struct diff *d)
{
    for (int i = 0; i < lw_strategy_n_options(); i++) {
        char x[64], y[64], what[80];
        snprintf(what, sizeof what, "--%s", lw_strategy_option(i)->name);
        if (words_differ(d, what, lw_strategy_get(d->a->strategy, i, x),
                         lw_strategy_get(d->b->strategy, i, y)))
            return true;
    }
    return false;
}

static bool lists_differ(const struct diff *d, const struct field *f, const char *x, const char *y)
{
    int32_t n, m;
    const int32_t *a = list(f, d->a, x, &n), *b = list(f, d->b, y, &m);
    char what[64];

    for (int32_t i = 0; i < n && i < m; i++) {
        snprintf(what, sizeof what, "%s %d", f->name, i);
        if (numbers_differ(d, what, NULL, a[i], b[i]))
            return true;
    }
    snprintf(what, sizeof what, "number of '%s'", f->name);
    return numbers_differ(d, what, NULL, n, m);
}

static bool slots_differ(const struct diff *d, const struct lw_bucket *x, const struct lw_bucket *y)
{
    struct lw_slot_walk p = {0}, q = {0};
    char what[200];

    while (lw_plan_next_slot(d->a, x, &p) && lw_plan_next_slot(d->b, y, &q)) {
        int32_t a = p.slot.param, b = q.slot.param;
        snprintf(what, sizeof what, "gradient %d", p.n - 1);
        if (a != b)
            return words_differ(d, what, d->a->params[a].name, d->b->params[b].name) ||
                   numbers_differ(d, what, NULL, a, b);
        snprintf(what, sizeof what, "first element of gradient %d '%.100s'", p.n - 1,
                 d->a->params[a].name);
        if (numbers_differ(d, what, NULL, p.slot.offset, q.slot.offset))
            return true;
    }
    return false;
}

static bool works_differ(const struct diff *d, const struct lw_op *x, const struct lw_op *y)
{
    enum lw_work_source from = lw_work_source_of(d->a, x), to = lw_work_source_of(d->b, y);

    if (numbers_differ(d, "work", lw_work_source_word, from, to))
        return true;
    if (from != LW_WORK_ROW)
        return false;
    const struct lw_whole_work *a = &d->works[0].v[d->works[0].of[x - d->a->ops]],
                               *b = &d->works[1].v[d->works[1].of[y - d->b->ops]];
    return numbers_differ(d, "activations kept", NULL, d->a->works[x->work].keeps_bytes,
                          d->b->works[y->work].keeps_bytes) ||
           numbers_differ(d, "flops of the whole", NULL, a->flops, b->flops) ||
           numbers_differ(d, "number of products of the whole", NULL, a->n_products,
                          b->n_products) ||
           numbers_differ(d, "mark of the products of the whole", NULL, (int64_t)a->products,
                          (int64_t)b->products);
}

static bool rows_differ(const struct diff *d, const struct field *fields, const char *x,
                        const char *y)
{
    const void *bucket = x, *other = y;

    for (const struct field *f = fields; f->name; f++)
        if (f->kind == TEXT   ? words_differ(d, f->name, text(f, x), text(f, y))
            : f->kind == LIST ? lists_differ(d, f, x, y)
            : f->kind == WORK ? works_differ(d, bucket, other)
                              : numbers_differ(d, f->name, f->word, number(f, x), number(f, y)) ||
                                    (f->kind == SLOTS && slots_differ(d, bucket, other)))
            return true;
    return false;
}

static bool tables_differ(struct diff *d)
{
    const struct table *t = d->table;
    const struct field value[] = {{t->value, NUMBER, 0, sizeof(int32_t), NULL, 0}, {0}};
    const char *x = rows_of(t, d->a), *y = rows_of(t, d->b);
    char what[80];

    snprintf(what, sizeof what, "number of '%s'", t->row);
    d->row = -1;
    if (numbers_differ(d, what, NULL, n_rows(t, d->a), n_rows(t, d->b)))
        return true;
    for (d->row = 0; d->row < n_rows(t, d->a); d->row++, x += t->size, y += t->size)
        if (rows_differ(d, t->fields ? t->fields : value, x, y))
            return true;
    return false;
}

static void find_decision(struct diff *d)
{
    if (strategies_differ(d))
        return;
    for (d->table = tables; d->table < tables + N_TABLES; d->table++)
        if (tables_differ(d))
            return;
    d->table--;
    d->row = -1;
    numbers_differ(d, "repeat_from", NULL, d->a->repeat_from, d->b->repeat_from);
}

static const char *time_text(lw_ps t, char *buf)
{
    return t < 0 ? "unknown" : lw_format_ps(buf, t);
}

/* Of plans with equal decisions: their ops are the same one by one. */
static void find_times(const struct lw_plan *a, const struct lw_plan *b, char *text, size_t room)
{
    char op[LW_OP_TEXT], x[32], y[32];
    int32_t n = 0, first = -1;

    for (int32_t i = 0; i < a->n_ops; i++)
        if (lw_plan_work_ps(a, &a->ops[i]) != lw_plan_work_ps(b, &b->ops[i])) {
            first = n == 0 ? i : first;
            n++;
        }
    *text = '\0';
    if (n > 0)
        snprintf(text, room, "%d of %d ops take another time, the first of them %s: %s in the "
                             "first plan, %s in the second",
                 n, a->n_ops, lw_plan_op_text(a, first, op),
                 time_text(lw_plan_work_ps(a, &a->ops[first]), x),
                 time_text(lw_plan_work_ps(b, &b->ops[first]), y));
}

enum lw_status lw_plan_diff(const struct lw_plan *a, const struct lw_plan *b,
                            struct lw_plan_difference *out, struct lw_err *err)
{
    struct diff d = {.a = a, .b = b, .text = out->decision, .room = sizeof out->decision};

    out->decision[0] = out->times[0] = '\0';
    LW_TRY(lw_whole_works_of(a, &d.works[0], err));
    enum lw_status s = lw_whole_works_of(b, &d.works[1], err);
    if (s == LW_OK) {
        find_decision(&d);
        if (!out->decision[0])
            find_times(a, b, out->times, sizeof out->times);
    }
    lw_whole_works_free(&d.works[1]);
    lw_whole_works_free(&d.works[0]);
    return s;
}

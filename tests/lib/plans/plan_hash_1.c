/* The hash of plans as plan files of format 1 state it: it covers the times of works, and works by
 * their numbers. The committed hashes of tests/golden hold on to it, so that a change of a time, of
 * a work's share or of the order of works is seen there though it is no decision. */
#include "tests/lib/plans/plan_hash_1.h"

#include "shared/plan/buffer.h"
#include "shared/plan/plan.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "shared/base/hash.h"
#include "shared/plan/op.h"
#include "shared/plan/product.h"
#include "shared/plan/sparse.h"
#include "shared/plan/strategy.h"

enum { PLAN_FORMAT = 1, MAX_NUMBERS = 32 };

enum field_kind {
    NUMBER,
    REDUCER, /* a number, hashed as lw_reducer_number gives it */
    BIT,   /* bool; a run of them is hashed as one number, the first lowest */
    TEXT,
    LIST,  /* of int32_t: [first, n) of a list of the plan; the row holds first, then n */
    SLOTS, /* of a bucket: their number */
    KIND,  /* of a bucket set: hashed where the name does not imply it */
    BYTES, /* hashed where it is not 0 */
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
}, work_fields[] = {
    NAMED("time in ps", work, ps), N(work, flops), NAMED("memory traffic", work, bytes),
    {FIELD("activations kept", BYTES, work, keeps_bytes), NULL, 0}, {0},
}, work_product_fields[] = {
    LIST_OF("product", work, first_product, work_products), {0},
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
    NAMED("communicator class", op, comm), N(op, call), N(op, work),
    NAMED("work in ps", op, work_ps), N(op, bytes), N(op, peer), NAMED("operand row", op, operand),
    N(op, module), N(op, stage), NAMED("micro-batch", op, micro_batch), N(op, bucket),
    LIST_OF("dependency", op, first_dep, deps), LIST_OF("gradient", op, first_ready, ready),
    NAME(op, name), {0},
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
    {ROWS("role", roles, role_fields)},
    {ROWS("stream", streams, stream_fields)},
    {ROWS("communicator class", comms, comm_fields)},
    {ROWS("group", groups, group_fields)},
    {INTS("communicator class", comm_group, n_comms, "group"), .within = "rank"},
    {ROWS("parameter", params, param_fields)},
    {ROWS("buffer", buffers, buffer_fields)},
    {INTS("module", stage_of, n_modules, "stage")},
    {INTS("parameter that all of a tensor group hold whole", whole, n_whole, "index"),
     .if_at = P(n_whole), .mark = "whole"},
    {ROWS("sparse gradient", sparse, sparse_fields), .if_at = P(n_sparse), .mark = "sparse",
     .uncounted = true},
    {ROWS("bucket set", sets, set_fields)},
    {ROWS("bucket", buckets, bucket_fields)},
    {ROWS("shard", shards, shard_fields)},
    {ROWS("work", works, work_fields)},
    {ROWS("product", products, product_fields), .if_at = P(n_products), .mark = "products"},
    {ROWS("work", works, work_product_fields), .if_at = P(n_products), .uncounted = true},
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

static void feed_other(struct lw_hash *h, const struct lw_plan *p, const struct field *f,
                       const char *row)
{
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
    } else if (f->kind == KIND) {
        if (set->kind != (int32_t)lw_bucket_kind_of_set(set->name))
            lw_hash_string(h, set_kind_word(set->kind));
    } else if (number(f, row) != 0) {
        lw_hash_int(h, -2); /* no other number of its row is below -1 */
        lw_hash_int(h, number(f, row));
    }
}

static void feed_row(struct lw_hash *h, const struct lw_plan *p, const struct field *fields,
                     const char *row)
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
            lw_hash_ints(h, numbers, n);
            n = 0;
            feed_other(h, p, f, row);
        }
    }
    lw_hash_ints(h, numbers, n);
}

enum lw_status plan_hash_1(const struct lw_plan *p, char hash[33], struct lw_err *err)
{
    struct lw_hash *h = lw_hash_new();

    if (!h)
        return lw_fail_nomem(err);
    lw_hash_int(h, PLAN_FORMAT);
    feed_strategy(h, p->strategy);
    for (const struct table *t = tables; t < tables + N_TABLES; t++) {
        int64_t n = n_rows(t, p);
        const char *rows = rows_of(t, p);
        if (t->if_at && count_at(p, t->if_at) == 0)
            continue;
        if (t->mark)
            lw_hash_string(h, t->mark);
        if (!t->uncounted)
            lw_hash_int(h, n);
        if (!t->fields)
            lw_hash_ints32(h, (const int32_t *)(const void *)rows, n);
        for (int64_t i = 0; t->fields && i < n; i++)
            feed_row(h, p, t->fields, rows + (size_t)i * t->size);
    }
    lw_hash_int(h, p->repeat_from);
    lw_hash_finish(h, hash);
    return LW_OK;
}

/* The hash and the first difference of plans: shared/plan/plan_fields.c. */
#include <string.h>
#include "tests/lib/unit.h"

#include "shared/lower/lower.h"
#include "shared/plan/plan.h"
#include "shared/strategy/strategy.h"
#include "shared/workload/buffer.h"
#include "shared/workload/sparse.h"
#include "tests/lib/plans/strategy_words.h"
#include "tests/lib/plans/tiny_workload.h"

static struct lw_plan build(const struct tiny *t, int64_t cap)
{
    struct lw_strategy s = strategy("dp 2");
    struct lw_plan p = {0};
    struct lw_err err = {0};

    s.bucket_cap_bytes = cap;
    assert_ok(lw_plan_build(&t->w, &s, NULL, &p, &err), err);
    return p;
}

static void assert_diff(const struct lw_plan *a, const struct lw_plan *b, const char *expected)
{
    struct lw_plan_difference d;
    struct lw_err err = {0};

    assert_ok(lw_plan_diff(a, b, &d, &err), err);
    assert_string_equal(d.decision, expected);
}

static void assert_times(const struct lw_plan *a, struct lw_plan *b, const char *expected)
{
    struct lw_plan_difference d;
    struct lw_err err = {0};

    assert_ok(lw_plan_diff(a, b, &d, &err), err);
    assert_string_equal(d.decision, "");
    assert_string_equal(d.times, expected);
    assert_ok(lw_plan_hash(b, &err), err);
    assert_string_equal(a->hash, b->hash);
}

static bool same_times(const struct lw_plan *a, const struct lw_plan *b)
{
    struct lw_err err = {0};
    char x[33], y[33];

    assert_ok(lw_plan_hash_times(a, x, &err), err);
    assert_ok(lw_plan_hash_times(b, y, &err), err);
    return strcmp(x, y) == 0;
}

TEST(equal_plans_have_no_difference)
{
    struct tiny t;

    tiny_init(&t);
    struct lw_plan a = build(&t, 1200), b = build(&t, 1200);
    assert_diff(&a, &b, "");
    assert_times(&a, &b, "");
    assert_true(same_times(&a, &b));
    lw_plan_free(&b);
    lw_plan_free(&a);
}

TEST(the_first_decision_that_differs_is_named)
{
    struct tiny t;

    tiny_init(&t);
    struct lw_plan a = build(&t, 1200), b = build(&t, 800);
    assert_diff(&a, &b, "strategy: --bucket-cap is 1.17 KiB (1200 B) in the first plan, "
                "800 B in the second");
    b.strategy->bucket_cap_bytes = 1200;
    /* 800: c.weight 1200 | b.bias 8 + b.weight 800 | a.weight 400 */
    assert_diff(&a, &b,
                "bucket set 1 'rebuilt': number of buckets is 2 in the first plan, 3 in the "
                "second");
    lw_plan_free(&b);

    t.params[B_WEIGHT].numel = 201;
    b = build(&t, 1200);
    assert_diff(&a, &b,
                "role 0 'data': parameter bytes is 2.35 KiB (2408 B) in the first plan, "
                "2.36 KiB (2412 B) in the second");
    lw_plan_free(&b);

    tiny_init(&t);
    t.modules[1].forward_flops = 7;
    b = build(&t, 1200);
    assert_diff(&a, &b,
                "op 1 (forward, module 1) of 'first' for role 'data': flops of the whole is 600 "
                "in the first plan, 7 in the second");
    lw_plan_free(&b);

    tiny_init(&t);
    t.order[1] = B_WEIGHT;
    t.order[2] = B_BIAS;
    t.params[B_WEIGHT].ready_ps = t.params[B_BIAS].ready_ps;
    b = build(&t, 1200);
    assert_diff(&a, &b,
                "bucket 2: gradient 0 is 'b.bias' in the first plan, 'b.weight' in the second");
    lw_plan_free(&b);
    lw_plan_free(&a);
}

TEST(times_are_no_decision)
{
    struct tiny t;

    tiny_init(&t);
    struct lw_plan a = build(&t, 1200);
    t.modules[1].forward_ps++;
    struct lw_plan b = build(&t, 1200);
    assert_times(&a, &b,
                 "2 of 32 ops take another time, the first of them op 1 (forward, module 1) of "
                 "'first' for role 'data': 2.000 us in the first plan, 2.000 us in the second");
    assert_false(same_times(&a, &b));
    lw_plan_free(&b);
    lw_plan_free(&a);
}

TEST(whose_times_a_plan_has_is_told_apart)
{
    struct tiny t;

    tiny_init(&t);
    struct lw_plan a = build(&t, 1200), b = build(&t, 1200);
    b.device = "another";
    assert_false(same_times(&a, &b));
    b.device = a.device;
    b.framework_hash = "0123";
    assert_false(same_times(&a, &b));
    lw_plan_free(&b);
    lw_plan_free(&a);
}

/* Works are shared by ops of equal cost. Two that are told apart by time alone on one machine may
 * be one on another. */
TEST(works_that_differ_in_time_alone_are_one)
{
    struct tiny t;

    tiny_init(&t);
    struct lw_plan a = build(&t, 1200), b = build(&t, 1200);
    for (int32_t i = 0; i < a.n_works; i++)
        a.works[i].flops = b.works[i].flops = i / 2;
    a.works[0].ps = a.works[1].ps = 5;
    b.works[0].ps = 6;
    b.works[1].ps = 7;
    struct lw_err err = {0};
    assert_ok(lw_plan_hash(&a, &err), err);
    for (int32_t i = 0; i < a.n_ops; i++)
        if (a.ops[i].work == 0 || a.ops[i].work == 1)
            a.ops[i].work = 0;
    assert_ok(lw_plan_hash(&a, &err), err);
    assert_ok(lw_plan_hash(&b, &err), err);
    assert_string_equal(a.hash, b.hash);
    b.works[0].flops = 9;
    assert_ok(lw_plan_hash(&b, &err), err);
    assert_string_not_equal(a.hash, b.hash);
    lw_plan_free(&b);
    lw_plan_free(&a);
}

/* A backward that is cut elsewhere, by times, is the same work. */
TEST(shares_of_a_backward_add_up)
{
    struct tiny t;

    tiny_init(&t);
    t.modules[1].forward_flops = 1000;
    t.modules[1].forward_bytes = 77;
    struct lw_plan a = build(&t, 1200);
    t.params[B_BIAS].ready_ps++;
    struct lw_plan b = build(&t, 1200);
    struct lw_plan_difference d;
    struct lw_err err = {0};
    assert_ok(lw_plan_diff(&a, &b, &d, &err), err);
    assert_string_equal(d.decision, "");
    assert_string_equal(a.hash, b.hash);
    t.modules[1].forward_flops++;
    struct lw_plan c = build(&t, 1200);
    assert_string_not_equal(a.hash, c.hash);
    lw_plan_free(&c);
    lw_plan_free(&b);
    lw_plan_free(&a);
}

/* A part of a row: a text, or bytes that are not changed: where a list begins, what follows from
 * other fields, padding, and of a number that must stay small all bytes but the first. */
struct part {
    size_t at, n;
    bool text;
};

#define MEMBER(t, m) offsetof(struct lw_##t, m), sizeof(((struct lw_##t *)0)->m)
#define TEXT(t, m) {MEMBER(t, m), true}
#define LEFT_OUT(t, m) {MEMBER(t, m), false}
#define SMALL(t, m) {offsetof(struct lw_##t, m) + 1, sizeof(((struct lw_##t *)0)->m) - 1, false}
#define GAP(t, from, to) \
    {offsetof(struct lw_##t, from) + sizeof(((struct lw_##t *)0)->from), \
     offsetof(struct lw_##t, to) - offsetof(struct lw_##t, from) - \
         sizeof(((struct lw_##t *)0)->from), false}
#define END(t, last) \
    {offsetof(struct lw_##t, last) + sizeof(((struct lw_##t *)0)->last), sizeof(struct lw_##t), \
     false}

static const struct rows {
    const char *name;
    size_t at, size; /* of the pointer in the plan, of a row */
    struct part parts[9];
} all_rows[] = {
#define ROWS(m, ...) \
    {#m, offsetof(struct lw_plan, m), sizeof *((struct lw_plan *)0)->m, {__VA_ARGS__}}
    ROWS(role_of, {0}),
    ROWS(index_in_role, {0}),
    ROWS(coord, {0}),
    ROWS(roles, TEXT(role, name), LEFT_OUT(role, n_ranks),
         LEFT_OUT(role, static_bytes[LW_MEM_WORKSPACES]), END(role, static_bytes)),
    ROWS(streams, TEXT(stream, name), END(stream, priority)),
    ROWS(comms, TEXT(comm, name), END(comm, stream)),
    ROWS(groups, LEFT_OUT(group, first_member), SMALL(group, n_members)),
    ROWS(members, {0}),
    ROWS(comm_group, {0}),
    ROWS(params, TEXT(plan_param, name), END(plan_param, expert)),
    ROWS(buffers, TEXT(buffer, name), END(buffer, broadcast)),
    ROWS(stage_of, {0}),
    ROWS(whole, {0}),
    ROWS(sparse, {0}),
    ROWS(sets, TEXT(bucket_set, name), SMALL(bucket_set, kind)),
    ROWS(buckets, LEFT_OUT(bucket, first_slot), SMALL(bucket, n_slots),
         LEFT_OUT(bucket, first_offset), END(bucket, first_offset)),
    ROWS(slots, {1, 3, false}),
    ROWS(shards, {0}),
    ROWS(works, LEFT_OUT(work, ps), LEFT_OUT(work, bytes), LEFT_OUT(work, first_product),
         SMALL(work, n_products), LEFT_OUT(work, bound_ps), END(work, bound_ps)),
    ROWS(products, END(product, grouped)),
    ROWS(work_products, {0}),
    ROWS(variants, TEXT(variant, name), LEFT_OUT(variant, n_sets),
         GAP(variant, n_sets, set_name), TEXT(variant, set_name),
         END(variant, ends_step)),
    ROWS(programs, {0}),
    ROWS(ops, SMALL(op, work), LEFT_OUT(op, work_ps), LEFT_OUT(op, first_dep), SMALL(op, n_deps),
         LEFT_OUT(op, first_ready), SMALL(op, n_ready), TEXT(op, name)),
    ROWS(deps, {0}),
    ROWS(ready, {0}),
    ROWS(operand_first, {0}),
    ROWS(operands, END(operand, peer)),
    ROWS(pass_variant, {0}),
#undef ROWS
};

/* What a small plan has none of. */
struct extra {
    struct lw_buffer buffer;
    struct lw_sparse sparse;
    struct lw_shard shard;
    struct lw_product product;
    struct lw_operand operand;
    int32_t whole, work_product, operand_first;
};

static struct lw_plan build_full(const struct tiny *t, struct extra *x)
{
    struct lw_plan p = build(t, 1200);

    *x = (struct extra){.buffer.name = "running_mean", .sparse.row_numel = 1};
    p.whole = &x->whole;
    p.buffers = &x->buffer;
    p.sparse = &x->sparse;
    p.shards = &x->shard;
    p.products = &x->product;
    p.work_products = &x->work_product;
    p.operand_first = &x->operand_first;
    p.operands = &x->operand;
    p.n_whole = p.n_buffers = p.n_sparse = p.n_shards = p.n_products = p.n_work_products = 1;
    p.n_operand_rows = p.n_operands = 1;
    p.works[0].n_products = p.groups[0].n_members = 1; /* an even number would grow */
    for (int32_t i = 0; i < p.n_works; i++)
        p.works[i].flops = i; /* else they are one */
    return p;
}

static void assert_differ(const struct lw_plan *a, struct lw_plan *b, const char *rows, size_t at)
{
    struct lw_err err = {0};
    struct lw_plan_difference d;

    assert_int_equal(lw_plan_hash(b, &err), LW_OK);
    if (strcmp(a->hash, b->hash) == 0)
        fail_msg("byte %zu of a row of %s is not in the hash", at, rows);
    assert_ok(lw_plan_diff(a, b, &d, &err), err);
    if (!d.decision[0])
        fail_msg("byte %zu of a row of %s is no difference", at, rows);
}

/* Every byte of the first row of every table, by the struct and not by the list of fields: a member
 * that this list lacks is found. */
TEST(every_member_is_in_the_hash_and_in_the_difference)
{
    struct tiny t;
    struct extra of_a, of_b;
    struct lw_err err = {0};

    tiny_init(&t);
    struct lw_plan a = build_full(&t, &of_a), b = build_full(&t, &of_b);
    assert_int_equal(lw_plan_hash(&a, &err), LW_OK);
    for (const struct rows *r = all_rows; r < all_rows + sizeof all_rows / sizeof *r; r++) {
        char *row = *(char **)(void *)((char *)&b + r->at);
        for (size_t i = 0; i < r->size; i++) {
            const struct part *part = r->parts;
            while (part->n && i - part->at >= part->n)
                part++;
            const char **text = (const char **)(void *)(row + i), *was;
            if (!part->n) {
                row[i] ^= 1;
                assert_differ(&a, &b, r->name, i);
                row[i] ^= 1;
            } else if (part->text && i == part->at) {
                was = *text;
                *text = "another";
                assert_differ(&a, &b, r->name, i);
                *text = was;
            }
        }
    }
    b.repeat_from ^= 1;
    assert_differ(&a, &b, "the plan: repeat_from", 0);
    b.repeat_from ^= 1;
    assert_int_equal(lw_plan_hash(&b, &err), LW_OK);
    assert_string_equal(a.hash, b.hash);
    lw_plan_free(&b);
    lw_plan_free(&a);
}

/* c.weight is complete after 5 us, the other bucket after the last gradient at 12 us. */
TEST(a_launch_point_is_the_backward_before_it)
{
    struct tiny t;
    struct lw_launch_point at[3];

    tiny_init(&t);
    struct lw_plan p = build(&t, 1200);
    lw_plan_launch_points(&p, find_variant(&p, "steady"), 0, 3, at);
    assert_int_equal(at[0].op, -1); /* of the first step's set */
    assert_int_equal(at[1].at, 5 * LW_PS_PER_US);
    assert_int_equal(at[1].n_ready, 1);
    assert_int_equal(at[2].at, 12 * LW_PS_PER_US);
    assert_int_equal(at[2].n_ready, 4);
    lw_plan_free(&p);
}

/* A plan whose ops share rows is the plan with whole ops: on random models and strategies op by op,
 * in its hash, proofs, differences and file, and after its times are dropped; a builder that shares
 * makes of any additions what one that does not makes. LAPWING_TEST_SEED repeats a run. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <string.h>

#include "shared/base/arena.h"
#include "shared/check/plan_check.h"
#include "shared/files/files.h"
#include "shared/lower/lower.h"
#include "shared/plan/op_rows.h"
#include "shared/plan/plan_builder.h"
#include "shared/plan/plan_tables.h"
#include "shared/plan/work_rows.h"
#include "tests/lib/failing_alloc.h"
#include "tests/lib/plans/random_strategy.h"

/* Field by field; of a list that is empty it does not matter where it begins. */
static void expect_op(struct lw_op x, struct lw_op y, int32_t i, const char *words)
{
    bool named = strcmp(x.name, y.name) == 0;

    x.name = y.name = NULL;
    if (x.n_ready == 0 && y.n_ready == 0)
        x.first_ready = y.first_ready;
    if (!named || memcmp(&x, &y, sizeof x) != 0)
        fail_msg("op %d:%s", i, words);
}

static void expect_ops(const struct lw_plan *p, const struct lw_plan *q, const char *words)
{
    assert_int_equal(p->n_ops, q->n_ops);
    for (int32_t i = 0; i < p->n_ops; i++)
        expect_op(lw_op_at(p, i), lw_op_at(q, i), i, words);
}

static void expect_works(const struct lw_plan *p, const struct lw_plan *q)
{
    assert_int_equal(p->n_works, q->n_works);
    for (int32_t k = 0; k < p->n_works; k++) {
        const struct lw_work *x = lw_work_at(p, k), *y = lw_work_at(q, k);
        assert_true(x->ps == y->ps && x->flops == y->flops && x->bytes == y->bytes &&
                    x->keeps_bytes == y->keeps_bytes && x->source == y->source);
        assert_int_equal(x->first_product, y->first_product);
        assert_int_equal(x->n_products, y->n_products);
        assert_memory_equal(x->bound_ps, y->bound_ps, sizeof x->bound_ps);
    }
}

static void expect_file(const struct lw_plan *p, const struct lw_plan *q, const char *words)
{
    char *x, *y;
    size_t n, m;
    struct lw_err err = {0};

    assert_ok(lw_plan_write_text(p, &x, &n, &err), err);
    assert_ok(lw_plan_write_text(q, &y, &m, &err), err);
    if (n != m || memcmp(x, y, n) != 0)
        fail_msg("files differ:%s", words);
    lw_free(x);
    lw_free(y);
}

/* q shares the ops of p. */
static void expect_the_same(const struct lw_plan *p, const struct lw_plan *q, const char *words)
{
    struct lw_plan again = *q;
    struct lw_plan_difference d;
    struct lw_err err = {0};
    char of_p[33], of_q[33];

    expect_ops(p, q, words);
    assert_ok(lw_plan_hash(&again, &err), err);
    assert_string_equal(again.hash, p->hash);
    assert_ok(lw_plan_hash_times(p, of_p, &err), err);
    assert_ok(lw_plan_hash_times(q, of_q, &err), err);
    assert_string_equal(of_p, of_q);
    assert_ok(lw_plan_check(q, &err), err);
    assert_ok(lw_plan_diff(p, q, &d, &err), err);
    assert_string_equal(d.decision, "");
    assert_string_equal(d.times, "");
    expect_file(p, q, words);
}

/* q shares rows, with what ops have of their own in every second case. */
static void build_random(struct prng *r, struct lw_plan *p, struct lw_plan *q, char words[1024])
{
    bool own = prng_in(r, 0, 1);

    static struct random_model k;
    struct lw_strategy s;
    struct lw_err err = {0};

    do {
        random_model(r, &k);
        random_strategy(r, &k, &s);
        if (prng_in(r, 0, 1))
            random_fsdp(r, &s);
        *words = '\0';
        strategy_words(&s, words, 1024);
    } while (lw_plan_build(&k.w, &s, NULL, p, NULL) != LW_OK);
    assert_ok(lw_plan_build(&k.w, &s, NULL, q, &err), err);
    assert_ok(lw_plan_share_ops(q, own, &err), err);
    assert_null(q->ops);
    assert_int_equal(q->op_own != NULL, own);
}

TEST(shared_and_whole_ops_are_one_plan)
{
    struct prng r = prng_start("shared ops");
    const int plans = unit_cases(60, 500);
    int64_t n_ops = 0, n_rows = 0;

    for (int i = 0; i < plans; i++) {
        struct lw_plan p, q;
        struct lw_err err = {0};
        char words[1024];
        build_random(&r, &p, &q, words);
        expect_the_same(&p, &q, words);
        n_ops += q.n_ops;
        n_rows += q.n_op_rows;
        lw_plan_drop_times(&p);
        lw_plan_drop_times(&q);
        expect_ops(&p, &q, words);
        assert_ok(lw_plan_write_tables(&q, &err), err);
        assert_non_null(q.ops);
        expect_ops(&p, &q, words);
        lw_plan_free(&p);
        lw_plan_free(&q);
    }
    printf("%d plans, %lld ops in %lld rows\n", plans, (long long)n_ops, (long long)n_rows);
    assert_true(n_rows < n_ops);
}

/* The first op of a row that is changed is found where it is in the file. */
TEST(a_changed_row_is_refused_at_its_first_op)
{
    struct prng r = prng_start("shared ops");
    struct lw_plan p, q;
    struct lw_err err = {0};
    char words[1024], place[64];

    build_random(&r, &p, &q, words);
    int32_t i = q.n_ops / 2, first = 0;
    struct lw_op *row = &q.op_rows[q.op_places[i].row];
    while (q.op_places[first].row != q.op_places[i].row)
        first++;
    row->stream = q.n_streams;
    assert_int_equal(lw_plan_check_ranges(&q, LW_EPLAN, &err), LW_EPLAN);
    snprintf(place, sizeof place, "at ops[%d].stream: found %d", first, q.n_streams);
    assert_non_null(strstr(err.msg, place));
    row->stream = 0;
    q.op_places[i].micro_batch = -2;
    assert_int_equal(lw_plan_check_ranges(&q, LW_EPLAN, &err), LW_EPLAN);
    snprintf(place, sizeof place, "at ops[%d].micro_batch: found -2", i);
    assert_non_null(strstr(err.msg, place));
    lw_plan_free(&p);
    lw_plan_free(&q);
}

/* One number of the plan's ops. */
static int32_t *drawn_number(struct prng *r, struct lw_plan *q)
{
    int32_t i = (int32_t)prng_in(r, 0, q->n_ops - 1);
    struct lw_op *row = &q->op_rows[q->op_places[i].row];
    int32_t *of_rows[] = {&row->stream, &row->comm, &row->peer, &row->n_deps, &row->n_ready,
                          &row->operand, &row->first_ready, &row->module};
    struct lw_op_own none, *own = q->op_own ? &q->op_own[i] : &none;
    int32_t *of_own[] = {&own->module, &own->bucket, &own->work, &own->first_ready};

    switch (prng_in(r, 0, 4)) {
    case 0:
        return &q->op_places[i].micro_batch;
    case 1:
        return &q->op_places[i].first_dep;
    case 2:
        return q->n_deps > 0 ? &q->deps[prng_in(r, 0, q->n_deps - 1)] : &row->n_deps;
    case 3:
        return q->op_own ? of_own[prng_in(r, 0, 3)] : of_rows[prng_in(r, 5, 7)];
    default:
        return of_rows[prng_in(r, 0, 5)];
    }
}

/* Whatever number of a plan with rows is another one, the proof refuses the same, with the same
 * message, as where its ops are whole. */
TEST(a_changed_number_is_refused_as_in_whole_ops)
{
    struct prng r = prng_start("numbers of shared ops");
    int refused = 0;

    for (int i = 0; i < unit_cases(20, 300); i++) {
        struct lw_plan p, q;
        struct lw_err err = {0}, of_whole = {0}, of_rows = {0};
        char words[1024];
        build_random(&r, &p, &q, words);
        for (int change = 0; change < 30; change++) {
            static const int64_t near[] = {-2, -1, 0, 1, 2, 3, 100, INT32_MAX};
            int32_t *at = drawn_number(&r, &q), was = *at;
            int64_t value = near[prng_in(&r, 0, 7)] + (prng_in(&r, 0, 1) ? was : 0);
            *at = (int32_t)(value > INT32_MAX ? INT32_MAX : value);
            struct lw_plan whole = q;
            whole.arena = (struct lw_arena){0};
            assert_ok(lw_plan_write_ops(&whole, &err), err);
            enum lw_status s = lw_plan_check(&whole, &of_whole);
            assert_int_equal(lw_plan_check(&q, &of_rows), s);
            if (s != LW_OK)
                assert_string_equal(of_rows.msg, of_whole.msg);
            refused += s != LW_OK;
            lw_arena_free(&whole.arena);
            *at = was;
        }
        lw_plan_free(&p);
        lw_plan_free(&q);
    }
    printf("%d changes were refused\n", refused);
    assert_true(refused > 0);
}

/* --- the builder ------------------------------------------------------------------------------ */

enum { MOST = 40, N_PARAMS = 4, N_WORKS = 6 };

/* Ops are whole, rows without struct lw_op_own, or rows with it. */
enum how { WHOLE, ROWS, ROWS_AND_OWN };

static struct lw_builder *begin(enum how how, int32_t least)
{
    struct lw_builder *b = lw_builder_new("shared", 1);

    if (!b)
        return NULL;
    if (how != WHOLE)
        lw_builder_share_ops(b, least, how == ROWS_AND_OWN);
    lw_builder_role(b, &(struct lw_role){.name = "data", .stage = 0});
    lw_builder_rank(b, 0, 0, 0, 0, 0);
    lw_builder_stream(b, "compute", LW_STREAM_COMPUTE, 0);
    for (int32_t k = 0; k < N_WORKS; k++) { /* the first and the third are alike */
        lw_builder_work(b, &(struct lw_work){.ps = 1 + k % 2, .bytes = -1});
        if (k == 3)
            lw_builder_work_product(b, 0);
    }
    lw_builder_variant(b, "first", "", false);
    lw_builder_variant(b, "steady", "", true);
    return b;
}

static void add_drawn(struct lw_builder *b, struct prng *r, int32_t first)
{
    struct lw_op op = lw_builder_blank(LW_OP_KERNEL, 0);
    int32_t n = lw_builder_n_ops(b), deps[2], n_deps = n > first ? prng_in(r, 0, 2) : 0;
    char name[16];

    op.bytes = prng_in(r, 0, 2);
    op.module = prng_in(r, -1, 2);
    op.bucket = prng_in(r, -1, 2);
    op.work = prng_in(r, -1, N_WORKS - 1);
    op.micro_batch = prng_in(r, -1, 2);
    op.call = prng_in(r, 0, 9) ? -1 : prng_in(r, 0, 3);
    snprintf(name, sizeof name, "op %d", (int)prng_in(r, 0, 1));
    op.name = name;
    for (int32_t d = 0; d < n_deps; d++)
        deps[d] = prng_in(r, first, n - 1);
    lw_builder_op(b, &op, deps, n_deps);
    if (n > first && prng_in(r, 0, 4) == 0)
        lw_builder_dep(b, prng_in(r, first, n - 1));
    int32_t n_ready = prng_in(r, 0, 49) ? prng_in(r, -2, 2) : 300; /* a long op, too */
    for (int32_t k = n_ready; k > 0; k--)
        lw_builder_ready(b, prng_in(r, 0, N_PARAMS - 1));
}

/* An op of the program that completes no gradients once more, where the drawn one is such. */
static void add_again(struct lw_builder *b, struct prng *r, int32_t first)
{
    int32_t n = lw_builder_n_ops(b), op = prng_in(r, first, n - 1), deps[3];
    const struct lw_op like = lw_builder_op_at(b, op);

    for (int32_t d = 0; d < 3; d++)
        deps[d] = prng_in(r, first, n - 1);
    if (like.n_ready == 0 && like.n_deps <= 3)
        lw_builder_again(b, op, prng_in(r, -1, 2), deps, like.n_deps);
}

/* The last op moves to the front of those that wait for none of them; the others keep their order.
 */
static void reorder_drawn(struct lw_builder *b, struct prng *r, int32_t first)
{
    int32_t order[8 * MOST], n = lw_builder_n_ops(b), from = prng_in(r, first, n - 1);

    for (int32_t i = 0; i < n - from; i++)
        order[i] = i;
    if (n - from > 1 && lw_builder_op_at(b, n - 1).n_deps == 0) {
        for (int32_t i = n - from - 1; i > 0; i--)
            order[i] = i - 1;
        order[0] = n - from - 1;
    }
    lw_builder_reorder(b, from, order, n - from);
}

/* The same additions for the same generator. */
static enum lw_status make(enum how how, struct prng r, struct lw_plan *out, struct lw_err *err)
{
    struct lw_builder *b = begin(how, 0);

    for (int32_t v = 0; b && v < 2; v++) {
        lw_builder_program(b, v, 0);
        int32_t first = lw_builder_n_ops(b), n = prng_in(&r, 1, MOST), times = prng_in(&r, 0, 2);
        for (int32_t i = 0; i < n; i++) {
            add_drawn(b, &r, first);
            if (!lw_builder_has_failed(b) && prng_in(&r, 0, 3) == 0)
                add_again(b, &r, first);
        }
        for (int32_t t = 0; t < times && !lw_builder_has_failed(b); t++)
            lw_builder_repeat(
                b, &(struct lw_op_range){
                       .first = first, .n = n, .from_micro_batch = 1, .micro_batch = 3 + t});
        if (!lw_builder_has_failed(b) && prng_in(&r, 0, 1))
            reorder_drawn(b, &r, first);
    }
    if (b)
        lw_builder_pass(b, 0);
    if (b)
        lw_builder_pass(b, 1);
    return lw_builder_finish(b, out, err);
}

static void expect_lists(const struct lw_plan *p, const struct lw_plan *q)
{
    assert_int_equal(p->n_deps, q->n_deps);
    assert_int_equal(p->n_ready, q->n_ready);
    assert_memory_equal(p->deps, q->deps, (size_t)p->n_deps * sizeof *p->deps);
    assert_memory_equal(p->ready, q->ready, (size_t)p->n_ready * sizeof *p->ready);
}

TEST(a_builder_that_shares_makes_the_same_plan)
{
    struct prng r = prng_start("a builder that shares");

    for (int i = 0; i < unit_cases(500, 5000); i++) {
        struct lw_plan p, q;
        struct lw_err err = {0};
        prng_in(&r, 0, 9);
        assert_ok(make(WHOLE, r, &p, &err), err);
        assert_ok(make(i % 2 == 0 ? ROWS : ROWS_AND_OWN, r, &q, &err), err);
        assert_null(q.ops);
        assert_int_equal(q.op_own != NULL, i % 2 == 1);
        assert_string_equal(p.hash, q.hash);
        expect_ops(&p, &q, "");
        expect_lists(&p, &q);
        expect_works(&p, &q);
        assert_int_equal(q.n_work_rows, i % 2 == 1 ? 5 : 0);
        lw_plan_drop_times(&p);
        lw_plan_drop_times(&q);
        expect_works(&p, &q);
        assert_ok(lw_plan_write_works(&q, &err), err);
        assert_non_null(q.works);
        expect_works(&p, &q);
        lw_plan_free(&p);
        lw_plan_free(&q);
    }
}

/* 10 ops, of which 4 are different but for micro-batches and modules. */
TEST(few_ops_are_a_table_of_whole_ops)
{
    for (int32_t least = 10; least <= 11; least++) {
        struct lw_builder *b = begin(ROWS_AND_OWN, least);
        struct lw_plan p;
        struct lw_err err = {0};
        lw_builder_program(b, 0, 0);
        for (int32_t i = 0; i < 10; i++) {
            struct lw_op op = lw_builder_blank(LW_OP_KERNEL, 0);
            op.bytes = i % 4;
            op.micro_batch = op.module = i;
            lw_builder_op(b, &op, NULL, 0);
        }
        lw_builder_pass(b, 0);
        assert_ok(lw_builder_finish(b, &p, &err), err);
        assert_int_equal(p.ops == NULL, least == 10);
        assert_int_equal(p.n_op_rows, least == 10 ? 4 : 0);
        assert_int_equal(p.works == NULL, least == 10);
        assert_int_equal(lw_work_at(&p, 1)->ps, 2);
        for (int32_t i = 0; i < 10; i++) {
            assert_int_equal(lw_op_at(&p, i).micro_batch, i);
            assert_int_equal(lw_op_at(&p, i).module, i);
        }
        lw_plan_free(&p);
    }
}

TEST(every_failed_allocation_is_reported)
{
    struct prng r = prng_start("allocations of shared ops");
    struct lw_plan p = {.n_ranks = -5};
    struct lw_err err = {0};

    EACH_ALLOCATION_FAILS(3, make(ROWS, r, &p, &err), p, lw_plan_free(&p));
    EACH_ALLOCATION_FAILS(3, make(ROWS_AND_OWN, r, &p, &err), p, lw_plan_free(&p));
}

/* The plan keeps its whole ops where they cannot be shared, and its rows where they cannot be
 * written out. */
TEST(a_plan_that_is_not_changed_stays_valid)
{
    struct prng r = prng_start("allocations of shared ops");
    enum lw_status st = LW_ENOMEM;

    for (int64_t n = 1, shared = 0; st != LW_OK; n++) {
        struct lw_plan p, q;
        struct lw_err err = {0};
        int64_t live = lw_alloc_live();
        assert_ok(make(WHOLE, r, &p, &err), err);
        assert_ok(make(WHOLE, r, &q, &err), err);
        lw_alloc_fail_at(n);
        st = lw_plan_share_ops(&q, true, &err);
        shared += st == LW_OK;
        if (st == LW_OK)
            st = lw_plan_write_ops(&q, &err);
        lw_alloc_fail_at(0);
        assert_true(st == LW_OK || (st == LW_ENOMEM && (q.ops != NULL) == (shared == 0)));
        expect_ops(&p, &q, "");
        lw_plan_free(&p);
        lw_plan_free(&q);
        assert_int_equal(lw_alloc_live(), live);
    }
}

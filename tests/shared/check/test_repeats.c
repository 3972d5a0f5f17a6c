/* Repeats of long pipelines: where they are, by hand; and that a plan with fewer of them is proven
 * only where the plan is proven op by op, on random plans of which numbers are changed: in one op,
 * in all ops of a row, and in an op of every repeat. LAPWING_TEST_SEED repeats a run. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <string.h>

#include "shared/base/arena.h"
#include "shared/check/plan_check.h"
#include "shared/check/repeats.h"
#include "shared/lower/lower.h"
#include "shared/plan/op.h"
#include "shared/plan/op_rows.h"
#include "shared/plan/plan_tables.h"
#include "tests/lib/failing_alloc.h"
#include "tests/lib/plans/random_strategy.h"

/* --- by hand ---------------------------------------------------------------------------------- */

enum { F, B, OPTIMIZER };

/* One program of a rank: F0 F1, then F2 B0 F3 B1 ... and what is left, and the optimizer. A
 * backward waits for its forward. */
struct example {
    struct lw_op rows[3];
    struct lw_op_place places[64];
    int32_t deps[64];
    struct lw_program program;
    struct lw_plan p;
};

static int32_t add(struct example *x, int row, int32_t micro_batch, int32_t dep)
{
    x->places[x->p.n_ops] = (struct lw_op_place){row, micro_batch, x->p.n_deps};
    if (row != F)
        x->deps[x->p.n_deps++] = dep;
    return x->p.n_ops++;
}

static void make_example(struct example *x, int32_t micro_batches)
{
    int32_t forward[32] = {0};

    *x = (struct example){
        .rows = {{.kind = LW_OP_FORWARD, .bucket = -1},
                 {.kind = LW_OP_BACKWARD, .bucket = -1, .n_deps = 1},
                 {.kind = LW_OP_OPTIMIZER, .bucket = -1, .module = -1, .n_deps = 1}}};
    x->p.op_rows = x->rows;
    x->p.op_places = x->places;
    x->p.deps = x->deps;
    for (int32_t f = 0, b = 0; b < micro_batches;) {
        if (f < micro_batches && f < b + 3) {
            forward[f] = add(x, F, f, 0);
            f++;
        } else {
            add(x, B, b, forward[b]);
            b++;
        }
    }
    add(x, OPTIMIZER, -1, x->p.n_ops - 1);
    x->program = (struct lw_program){0, x->p.n_ops};
}

static void expect_repeat(const struct example *x, int32_t stride, struct lw_repeat expected)
{
    struct lw_repeat r = lw_repeat_find(&x->p, x->program, stride);

    assert_int_equal(r.before, expected.before);
    assert_int_equal(r.length, expected.length);
    assert_int_equal(r.n_times, expected.n_times);
}

/* F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 ...: B0 waits for F0, three ops before it, B1 for F1, four ops
 * before it, and B2 and all later ones for their forwards five ops before them. So the repeats are
 * F4 B2 (ops 6 and 7) to F11 B9 (20 and 21); B10, B11 and the optimizer are left. */
TEST(repeats_are_found_from_the_middle_on)
{
    struct example x;

    make_example(&x, 12);
    assert_int_equal(x.p.n_ops, 25);
    expect_repeat(&x, 1, (struct lw_repeat){6, 2, 8});
    /* by two micro-batches: F4 B2 F5 B3, ..., F10 B8 F11 B9 */
    expect_repeat(&x, 2, (struct lw_repeat){6, 4, 4});
}

TEST(an_op_that_differs_ends_the_repeats)
{
    struct example x;

    make_example(&x, 12);
    x.places[18].micro_batch = 3; /* F10 of F10 B8: F9 B7 (16, 17) is the last repeat */
    expect_repeat(&x, 1, (struct lw_repeat){6, 2, 6});
    make_example(&x, 12);
    x.rows[B].bucket = 0; /* of a repeat are ops about no bucket */
    expect_repeat(&x, 1, (struct lw_repeat){0});
}

/* --- random plans ----------------------------------------------------------------------------- */

static int64_t largest(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Ops share rows. */
static void build_random(struct prng *r, struct lw_plan *q, char words[1024])
{
    static const enum lw_schedule schedules[] = {LW_SCHEDULE_1F1B, LW_SCHEDULE_1F1B,
                                                 LW_SCHEDULE_1F1B, LW_SCHEDULE_ZB_H1,
                                                 LW_SCHEDULE_GPIPE};
    static struct random_model k;
    struct lw_err err = {0};

    for (;;) {
        struct lw_strategy s = lw_strategy_default();
        do
            random_model(r, &k);
        while (k.w.n_modules > 9);
        s.pp = prng_in(r, 2, 3);
        s.dp = prng_in(r, 1, 2);
        s.zero = (int)prng_in(r, 0, 1);
        s.micro_batches = prng_in(r, 800, 1100);
        s.schedule = schedules[prng_in(r, 0, 4)];
        *words = '\0';
        strategy_words(&s, words, 1024);
        if (lw_plan_build(&k.w, &s, NULL, q, NULL) == LW_OK)
            break;
    }
    assert_ok(lw_plan_share_ops(q, false, &err), err);
}

static int32_t stride_of(const struct lw_plan *q, struct lw_program g, struct lw_repeat *r)
{
    for (int32_t stride = 1; stride <= 8; stride++) {
        *r = lw_repeat_find(q, g, stride);
        if (2 * (int64_t)r->n_times * r->length > g.n_ops)
            return stride;
    }
    return 0;
}

/* A change of an op of every repeat of a program; false: it has none. */
static bool change_repeats(struct prng *rand, struct lw_plan *q)
{
    struct lw_program g = q->programs[prng_in(rand, 0, (int64_t)q->n_variants * q->n_roles - 1)];
    struct lw_repeat r;

    if (stride_of(q, g, &r) == 0)
        return false;
    int64_t which = prng_in(rand, 0, 5), at = prng_in(rand, 0, r.length - 2);
    int32_t by = (int32_t)prng_in(rand, 1, 3) * (prng_in(rand, 0, 1) ? 1 : -1);
    /* of all repeats, or from one on */
    int32_t from = prng_in(rand, 0, 3) ? 0 : (int32_t)prng_in(rand, 0, r.n_times / 8);
    for (int32_t k = from; k < r.n_times; k++) {
        struct lw_op_place *x = &q->op_places[g.first_op + r.before + k * r.length + at], was = *x;
        int32_t *deps = q->deps + x->first_dep;
        if (which == 0)
            x->micro_batch = (int32_t)largest(0, x->micro_batch + by);
        for (int32_t d = 0; which == 1 && d < q->op_rows[x->row].n_deps; d++)
            deps[d] = (int32_t)largest(g.first_op, deps[d] + by);
        if (which >= 2) { /* the ops change places */
            x[0] = x[1];
            x[1] = was;
        }
    }
    return true;
}

static void change_number(struct prng *r, struct lw_plan *q)
{
    int32_t i = (int32_t)prng_in(r, 0, q->n_ops - 1);
    struct lw_op *row = &q->op_rows[q->op_places[i].row];
    int32_t *of[] = {&row->stream, &row->comm, &row->n_deps, &row->n_ready, &row->module,
                     &row->peer, &q->op_places[i].micro_batch, &q->op_places[i].first_dep,
                     &q->deps[q->op_places[i].first_dep]};

    *of[prng_in(r, 0, 8)] += prng_in(r, 0, 1) ? 1 : -1;
}

/* What a change may touch. */
struct saved {
    struct lw_op *rows;
    struct lw_op_place *places;
    int32_t *deps;
};

static void *copy_of(const void *from, size_t n)
{
    void *to = lw_alloc(n);

    assert_non_null(to);
    memcpy(to, from, n);
    return to;
}

static struct saved save(const struct lw_plan *q)
{
    return (struct saved){copy_of(q->op_rows, (size_t)q->n_op_rows * sizeof *q->op_rows),
                          copy_of(q->op_places, (size_t)q->n_ops * sizeof *q->op_places),
                          copy_of(q->deps, (size_t)q->n_deps * sizeof *q->deps)};
}

static void restore(const struct saved *s, struct lw_plan *q)
{
    memcpy(q->op_rows, s->rows, (size_t)q->n_op_rows * sizeof *q->op_rows);
    memcpy(q->op_places, s->places, (size_t)q->n_ops * sizeof *q->op_places);
    memcpy(q->deps, s->deps, (size_t)q->n_deps * sizeof *q->deps);
}

static void free_saved(const struct saved *s)
{
    lw_free(s->rows);
    lw_free(s->places);
    lw_free(s->deps);
}

struct counts {
    int shorter, passed, refused; /* plans with fewer repeats; of them, of the whole ones */
};

/* Both proofs of the plan say the same, and the shorter plan passes only where the plan does. */
static void compare(const struct lw_plan *q, const char *words, struct counts *n)
{
    struct lw_err of_each = {0}, err = {0};
    struct lw_plan shorter;
    enum lw_status each = lw_plan_check_each(q, &of_each), all = lw_plan_check(q, &err);
    bool is, grid;

    if (each != all || strcmp(of_each.msg, err.msg) != 0)
        fail_msg("op by op: %s\n     shorter: %s:%s", of_each.msg, err.msg, words);
    if (lw_check_tables(q, &grid, NULL) != LW_OK)
        return;
    assert_ok(lw_plan_shorten(q, &shorter, &is, &err), err);
    if (is) {
        bool passes = lw_check_programs(&shorter, true, NULL) == LW_OK &&
                      lw_check_comm(&shorter, NULL) == LW_OK;
        if (passes && each != LW_OK)
            fail_msg("%s:%s", of_each.msg, words);
        assert_true(2L * shorter.n_ops <= q->n_ops);
        n->shorter++;
        n->passed += passes;
        n->refused += each != LW_OK;
    }
    lw_arena_free(&shorter.arena);
}

TEST(a_plan_with_fewer_repeats_is_proven_only_where_the_plan_is)
{
    struct prng r = prng_start("repeats");
    struct counts n = {0};
    int plain = 0;

    for (int i = 0; i < unit_cases(8, 60); i++) {
        struct lw_plan q;
        char words[1024];
        build_random(&r, &q, words);
        int before = n.passed;
        compare(&q, words, &n);
        plain += n.passed - before;
        struct saved s = save(&q);
        for (int change = 0; change < 20; change++) {
            if (change % 4 == 0 || !change_repeats(&r, &q))
                change_number(&r, &q);
            if (lw_plan_check_ranges(&q, LW_EPLAN, NULL) == LW_OK)
                compare(&q, words, &n);
            restore(&s, &q);
        }
        free_saved(&s);
        lw_plan_free(&q);
    }
    printf("%d plans are shorter as they are; of %d, %d pass and %d are refused\n", plain,
           n.shorter, n.passed, n.refused);
    assert_true(plain > 0 && n.refused > 0);
}

TEST(memory_that_runs_out_is_reported)
{
    struct prng r = prng_start("repeats");
    struct lw_plan q = {0}, out;
    struct lw_err err = {0};
    bool shorter = false;
    char words[1024];

    while (!shorter) {
        lw_plan_free(&q);
        build_random(&r, &q, words);
        assert_ok(lw_plan_shorten(&q, &out, &shorter, &err), err);
        lw_arena_free(&out.arena);
    }
    EACH_ALLOCATION_FAILS_IN(3, lw_plan_check(&q, &err));
    lw_plan_free(&q);
}

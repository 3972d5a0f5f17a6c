/* Packed rows beside columns that hold the same rows: every field of every row comes back, whatever
 * the times are and in whatever order ops start and end. */
#include "tests/lib/unit.h"

#include <string.h>

#include "shared/plan/plan_builder.h"
#include "shared/timeline/packed_rows.h"
#include "tests/lib/failing_alloc.h"
#include "tests/lib/prng.h"
#include "tests/lib/sim/sim_help.h"

enum { MOST_OPS = 400, PASSES = 3, RANKS = 2 };

/* Ops of some kinds with up to three dependencies each. */
static void make_plan(struct prng *r, int32_t n_ops, struct lw_plan *plan)
{
    static const enum lw_op_kind kinds[] = {LW_OP_FORWARD, LW_OP_LAUNCH, LW_OP_ALL_REDUCE};
    struct lw_builder *b = begin_plan("packed", RANKS);

    for (int32_t i = 0; i < n_ops; i++) {
        enum lw_op_kind kind = kinds[prng_in(r, 0, 2)];
        struct lw_op op = lw_builder_blank(kind, kind == LW_OP_ALL_REDUCE);
        int32_t deps[3], n = i == 0 ? 0 : (int32_t)prng_in(r, 0, 3);
        op.comm = kind == LW_OP_ALL_REDUCE ? 0 : -1;
        op.bytes = 8;
        op.work_ps = 1;
        for (int32_t d = 0; d < n; d++)
            deps[d] = (int32_t)prng_in(r, 0, i - 1);
        lw_builder_op(b, &op, deps, n);
    }
    finish_plan(b, plan);
}

/* Rows of a simulation whose clock goes on by up to `most` and ops take up to as much; packed and,
 * beside it, as they were put. */
struct both {
    struct lw_packed_rows *packed;
    struct lw_times at[PASSES * RANKS * MOST_OPS];
    lw_ps begin[PASSES * RANKS];
    int64_t n;
};

static enum lw_status make_runs(const struct lw_plan *plan, struct lw_packed_rows **out,
                                struct lw_err *err)
{
    int64_t n_runs = PASSES * RANKS;

    LW_TRY(lw_packed_new(plan, n_runs, n_runs * plan->n_ops, out, err));
    for (int32_t i = 0; i < n_runs; i++)
        *lw_packed_run_at(*out, i) =
            (struct lw_packed_run){.first = (int64_t)i * plan->n_ops, .step = i / RANKS / 2,
                                   .pass = i / RANKS % 2, .rank = i % RANKS};
    lw_packed_runs_done(*out);
    return LW_OK;
}

static lw_ps any_time(struct prng *r, lw_ps most)
{
    return (lw_ps)(prng_next(r) % (uint64_t)most) >> prng_in(r, 0, 20);
}

/* Later rows may start first, as long as the clock does not go back. */
static void put_all(struct prng *r, struct both *x, lw_ps most)
{
    int64_t order[PASSES * RANKS * MOST_OPS];
    lw_ps now = any_time(r, most);

    for (int64_t i = 0; i < x->n; i++)
        order[i] = i;
    for (int64_t i = 0; i + 1 < x->n; i++) {
        int64_t k = i + prng_in(r, 0, 9), was = order[i];
        k = k < x->n ? k : i;
        order[i] = order[k];
        order[k] = was;
    }
    for (int64_t i = 0; i < x->n; i++) {
        int64_t row = order[i];
        bool later = prng_in(r, 0, 1);
        struct lw_times *at = &x->at[row];
        now += any_time(r, most);
        at->start = now + any_time(r, most);
        at->all_in = prng_in(r, 0, 1) ? -1 : at->start + any_time(r, most);
        at->end = at->start + 3 * any_time(r, most);
        if (later) {
            assert_true(lw_packed_put(x->packed, row, now,
                                      (struct lw_times){at->start, -1, at->start}));
            assert_true(lw_packed_put_all_in(x->packed, row, at->all_in));
            assert_true(lw_packed_put_end(x->packed, row, at->end));
        } else {
            assert_true(lw_packed_put(x->packed, row, now, *at));
        }
    }
}

static void check_row(const struct lw_plan *p, const struct lw_timeline *t, const struct both *x,
                      int64_t row)
{
    int64_t run = row / p->n_ops;
    int32_t op = (int32_t)(row % p->n_ops);
    struct lw_span s = lw_timeline_get(t, row);
    lw_ps ready = x->begin[run], issue = -1;

    for (int32_t d = 0; d < p->ops[op].n_deps; d++) {
        int32_t dep = p->deps[p->ops[op].first_dep + d];
        lw_ps end = x->at[run * p->n_ops + dep].end;
        ready = end > ready ? end : ready;
        issue = p->ops[dep].kind == LW_OP_LAUNCH && end > issue ? end : issue;
    }
    assert_int_equal(s.step, run / RANKS / 2);
    assert_int_equal(s.pass, run / RANKS % 2);
    assert_int_equal(s.rank, run % RANKS);
    assert_int_equal(s.op, op);
    assert_int_equal(s.kind, p->ops[op].kind);
    assert_int_equal(s.stream, p->ops[op].stream);
    assert_int_equal(s.comm, p->ops[op].comm);
    assert_int_equal(s.start, x->at[row].start);
    assert_int_equal(s.all_in, x->at[row].all_in);
    assert_int_equal(s.end, x->at[row].end);
    assert_int_equal(s.ready, ready);
    assert_int_equal(s.issue, issue < 0 ? ready : issue);
}

/* Field by field: what lies between fields is of no value. */
static bool same_span(const struct lw_span *a, const struct lw_span *b)
{
    return a->step == b->step && a->pass == b->pass && a->rank == b->rank &&
           a->stream == b->stream && a->comm == b->comm && a->op == b->op && a->kind == b->kind &&
           a->ready == b->ready && a->issue == b->issue && a->start == b->start &&
           a->all_in == b->all_in && a->end == b->end;
}

/* What functions of single fields say is what the whole row says; and columns made of it. */
static void check_readers(const struct lw_timeline *t, int64_t row, const struct lw_timeline *copy)
{
    const struct lw_span s = lw_timeline_get(t, row), c = lw_timeline_get(copy, row);
    const struct lw_times at = lw_timeline_times(t, row);
    const struct lw_row_run a = lw_timeline_run(t, row), b = lw_timeline_run(copy, row);

    assert_true(same_span(&s, &c));
    assert_int_equal(at.start, s.start);
    assert_int_equal(at.all_in, s.all_in);
    assert_int_equal(at.end, s.end);
    assert_int_equal(lw_timeline_op(t, row), s.op);
    assert_int_equal(lw_timeline_kind(t, row), s.kind);
    assert_int_equal(lw_timeline_comm(t, row), s.comm);
    assert_int_equal(lw_timeline_comm(copy, row), s.comm);
    assert_int_equal(lw_timeline_kind(copy, row), s.kind);
    assert_int_equal(a.to, b.to);
    assert_true(a.step == s.step && a.pass == s.pass && a.rank == s.rank);
    assert_true(b.step == s.step && b.pass == s.pass && b.rank == s.rank);
}

static void compare(struct prng *r, int32_t n_ops, lw_ps most)
{
    static struct both x;
    struct lw_plan plan;
    struct lw_timeline t = {0}, copy;
    struct lw_err err = {0};

    make_plan(r, n_ops, &plan);
    x = (struct both){.n = (int64_t)PASSES * RANKS * n_ops};
    assert_ok(make_runs(&plan, &x.packed, &err), err);
    for (int i = 0; i < PASSES * RANKS; i++)
        x.begin[i] = lw_packed_run_at(x.packed, i)->begin = any_time(r, most);
    put_all(r, &x, most);
    t.n = x.n;
    t.packed = x.packed;
    assert_ok(lw_timeline_copy(&t, &copy, &err), err);
    for (int64_t row = 0; row < x.n; row++) {
        check_row(&plan, &t, &x, row);
        check_readers(&t, row, &copy);
    }
    lw_timeline_free(&copy);
    lw_timeline_free(&t);
    lw_plan_free(&plan);
}

TEST(every_row_comes_back_whatever_its_times)
{
    struct prng r = prng_start("packed rows");

    for (int i = 0; i < 60; i++)
        compare(&r, (int32_t)prng_in(&r, 1, MOST_OPS), INT64_C(1) << prng_in(&r, 1, 52));
}

/* 4 bytes hold 2^32 - 1 ps; of all_in 2^32 - 2, because 0 says that it is not known. */
TEST(the_largest_numbers_of_each_width_come_back)
{
    struct prng r = {1};
    struct lw_plan plan;
    struct lw_packed_rows *p;
    struct lw_err err = {0};

    make_plan(&r, 9, &plan);
    assert_ok(make_runs(&plan, &p, &err), err);
    for (int bits = 32; bits <= 56; bits += 8)
        for (int64_t row = 0; row < 3; row++) {
            lw_ps most = (INT64_C(1) << bits) - 2 + row;
            struct lw_times at = {row, most, most};
            assert_true(lw_packed_put(p, row, 0, at));
            struct lw_times got = lw_packed_times(p, row);
            assert_memory_equal(&got, &at, sizeof at);
        }
    struct lw_times latest = {0, INT64_MAX, INT64_MAX};
    assert_true(lw_packed_put(p, 5, 0, latest));
    struct lw_times got = lw_packed_times(p, 5), other = lw_packed_times(p, 2);
    assert_memory_equal(&got, &latest, sizeof got);
    assert_int_equal(other.end, INT64_C(1) << 56);
    lw_packed_free(p);
    lw_plan_free(&plan);
}

static enum lw_status pack_and_unpack(const struct lw_plan *plan, struct lw_timeline *out,
                                      struct lw_err *err)
{
    struct lw_timeline t = {.n = (int64_t)PASSES * RANKS * plan->n_ops};
    enum lw_status s = make_runs(plan, &t.packed, err);

    for (int64_t row = 0; s == LW_OK && row < t.n; row++)
        if (!lw_packed_put(t.packed, row, 0, (struct lw_times){0, -1, 0}) ||
            !lw_packed_put_end(t.packed, row, INT64_C(1) << (30 + row % 20)))
            s = lw_fail_nomem(err);
    if (s == LW_OK)
        s = lw_timeline_unpack(&t, err);
    LW_GIVE(s, out, t, lw_timeline_free(&t));
}

TEST(any_failing_allocation_leaves_nothing)
{
    struct prng r = {1};
    struct lw_timeline t = {0};
    struct lw_plan plan;
    struct lw_err err = {0};

    make_plan(&r, 100, &plan);
    EACH_ALLOCATION_FAILS(12, pack_and_unpack(&plan, &t, &err), t, lw_timeline_free(&t));
    assert_ok(pack_and_unpack(&plan, &t, &err), err);
    assert_null(t.packed);
    assert_int_equal(t.end[21], INT64_C(1) << 31); /* 30 + 21 % 20 */
    lw_timeline_free(&t);
    lw_plan_free(&plan);
}

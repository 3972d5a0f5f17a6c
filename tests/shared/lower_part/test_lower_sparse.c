/* Sparse gradients in a plan: docs/design/sparse.md. The tiny workload with b.weight as 20 rows of
 * 10, of which a micro-batch touches 3. */
#include <string.h>
#include "tests/lib/unit.h"

#include "shared/strategy/strategy.h"
#include "shared/workload/sparse.h"
#include "tests/lib/plans/strategy_words.h"
#include "tests/lib/plans/tiny_build.h"
#include "tests/lib/sim/sim_help.h"

static struct lw_sparse of_b = {B_WEIGHT, 10, 3};

static void sparse_init(struct tiny *t)
{
    tiny_init(t);
    t->params[B_WEIGHT].sparse = true;
    of_b = (struct lw_sparse){B_WEIGHT, 10, 3};
    t->w.sparse = &of_b;
    t->w.n_sparse = 1;
}

static struct lw_strategy with(const char *const options[][2])
{
    struct lw_strategy s = strategy("dp 4");
    struct lw_err err = {0};

    for (int i = 0; options && options[i][0]; i++)
        assert_ok(lw_strategy_set(&s, options[i][0], options[i][1], &err), err);
    return s;
}

static struct lw_plan example(const char *const options[][2])
{
    struct lw_strategy s = with(options);
    struct tiny t;

    sparse_init(&t);
    return build(&t, &s);
}

/* Four members with 3 rows: shapes of 9 i64, 4 * 72 bytes; 3 row numbers, 4 * 24; 30 values, 4 *
 * 120. The sum moves 4 * 3 rows of 8 + 40 bytes. The copy in front takes 3 * 48 of the rows.
 * Buckets of the rebuilt set: 2 is b.weight, closed alone and at once; 3 the rest, which the end
 * closes. */
TEST(three_gathers_and_a_sum_stand_for_the_reduction)
{
    struct lw_plan p = example(NULL);
    char text[400];

    assert_string_equal(
        tiny_ops(&p, "steady", text, sizeof text),
        "F0:1 F1:2 F2:3 B2:5 Ci/1200 B2:1 B1:2 Ci/8 B1:2 Ci/144 AG2/288 AG2/96 AG2/480 "
        "C2/576 B0:2 Ci/400 AR3/1608 Co3/1608 O:7");
    for (int32_t b = 0; b < p.n_buckets; b++)
        if (lw_plan_sparse(&p, b))
            assert_int_equal(p.buckets[b].bytes, 288 + 96 + 480);
    assert_null(lw_plan_sparse(&p, 3));
    lw_plan_free(&p);
}

/* The optimizer waits for the sum, which runs on a stream of its own. */
TEST(the_optimizer_waits_for_the_sum)
{
    struct lw_plan p = example(NULL);
    const struct lw_op *o = &p.ops[p.n_ops - 1];
    bool waits = false;

    assert_int_equal(o->kind, LW_OP_OPTIMIZER);
    for (int32_t d = 0; d < o->n_deps; d++)
        waits = waits || strcmp(p.ops[p.deps[o->first_dep + d]].name, "sparse sum") == 0;
    assert_true(waits);
    lw_plan_free(&p);
}

/* Two micro-batches after two accumulated passes of two: 6 backwards touch 18 rows; 4 passes 24,
 * but there are only 20. c10d-2020 divides the rows in a pass of its own, 20 * 48 bytes. */
TEST(rows_add_up_over_backwards)
{
    struct lw_plan p =
        example((const char *const[][2]){{"micro-batches", "2"}, {"no-sync", "2"}, {0}});

    assert_int_equal(p.buckets[2].bytes, 4 * (72 + 18 * 8 + 18 * 40));
    lw_plan_free(&p);
    p = example((const char *const[][2]){
        {"micro-batches", "2"}, {"no-sync", "3"}, {"bucket-policy", "c10d-2020"}, {0}});
    char text[800];
    assert_non_null(strstr(tiny_ops(&p, "first", text, sizeof text),
                           "Ci/960 C/960 AG0/288 AG0/640 AG0/3200 C0/3840"));
    lw_plan_free(&p);
}

/* Values take the gradients' type: half the bytes. */
TEST(values_have_the_gradients_type)
{
    struct lw_plan p = example((const char *const[][2]){{"grad-dtype", "bf16"}, {0}});
    char text[400];

    assert_non_null(
        strstr(tiny_ops(&p, "steady", text, sizeof text), "AG2/288 AG2/96 AG2/240 C2/336"));
    lw_plan_free(&p);
}

/* Gradients in memory: 4 members' 12 rows of 48 bytes once summed, in place of 200 * 4; buckets:
 * 288 + 96 + 480 in place of 800. */
TEST(memory_counts_rows)
{
    struct lw_strategy s = with(NULL);
    struct tiny t;

    tiny_init(&t);
    struct lw_plan dense = build(&t, &s), rows = example(NULL);
    assert_int_equal(dense.roles[0].static_bytes[LW_MEM_GRADS] -
                         rows.roles[0].static_bytes[LW_MEM_GRADS], 800 - 12 * 48);
    assert_int_equal(rows.roles[0].static_bytes[LW_MEM_BUCKETS] -
                         dense.roles[0].static_bytes[LW_MEM_BUCKETS], 864 - 800);
    lw_plan_free(&dense);
    lw_plan_free(&rows);
}

/* On one link of 1 GB/s and 1 us, by rings of 3 steps: a gather of B bytes takes 3 * (B / 4 / 1e9 s
 * + 1 us); copies of B bytes at 1e12 B/s read and write them. */
TEST(the_simulator_times_each_part)
{
    struct lw_plan p = example(NULL);
    struct lw_cluster c;
    struct lw_sim_options o = {.n_steps = 2};
    struct lw_timeline t = {0};
    struct lw_sim_stats stats;
    struct lw_err err = {0};
    int n = 0;

    make_cluster(&c, 4, 1e9, LW_PS_PER_US);
    c.device.copy_bytes_per_s = given(1e12);
    assert_ok(lw_sim_run(&p, &c, &o, &t, &stats, &err), err);
    for (int64_t i = 0; i < t.n; i++) {
        const struct lw_op *op = &p.ops[t.op[i]];
        lw_ps took = t.end[i] - t.start[i];
        if (t.step[i] != 1 || op->kind != LW_OP_ALL_GATHER)
            continue;
        assert_int_equal(took, 3 * (op->bytes / 4 * 1000 + LW_PS_PER_US));
        n++;
    }
    assert_int_equal(n, 3 * 4);
    lw_timeline_free(&t);
    lw_cluster_free(&c);
    lw_plan_free(&p);
}

/* --- refusals --------------------------------------------------------------------------------- */

TEST(unsupported_options_of_sparse_gradients_are_refused)
{
    static const struct {
        const char *option, *value, *words;
    } cases[] = {
        {"bucket-policy", "picotron", "it cannot lie in a flat buffer"},
        {"zero", "2", "it has no shares to scatter (--zero 0 or 1)"},
        {"zero", "3", "it has no shares to scatter (--zero 0 or 1)"},
        {"comm-hook", "fp16", "hooks compress flat buckets (--comm-hook none)"},
        {"clip", "1", "its norm is not taken (--clip 0)"},
    };
    struct lw_plan p;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lw_strategy s =
            with((const char *const[][2]){{cases[i].option, cases[i].value}, {0}});
        struct lw_err err = {0};
        struct tiny t;
        sparse_init(&t);
        assert_int_equal(lw_plan_build(&t.w, &s, NULL, &p, &err), LW_ENOTSUP);
        if (!strstr(err.msg, "parameter 1 'b.weight' has a sparse gradient") ||
            !strstr(err.msg, cases[i].words))
            fail_msg("%s: %s", cases[i].option, err.msg);
    }
}

/* 2^58 elements as rows of one, 2^22 ranks: 2^58 * 16 * 2 * 2^22 = 2^85 bytes. */
TEST(rows_beyond_all_numbers_are_refused)
{
    struct lw_strategy s = with((const char *const[][2]){{"dp", "4194304"}, {0}});
    struct lw_err err = {0};
    struct lw_plan p;
    struct tiny t;

    sparse_init(&t);
    t.params[B_WEIGHT].numel = INT64_C(1) << 58;
    of_b.row_numel = 1;
    assert_int_equal(lw_plan_build(&t.w, &s, NULL, &p, &err), LW_EINVAL);
    assert_non_null(
        strstr(err.msg, "the rows of 4194304 ranks and 1 x 1 backwards are more than 2^63 bytes"));
}

TEST(a_workload_that_does_not_tell_rows_is_refused)
{
    struct lw_strategy s = with(NULL);
    struct lw_err err = {0};
    struct lw_plan p;
    struct tiny t;

    sparse_init(&t);
    t.w.n_sparse = 0;
    assert_int_equal(lw_plan_build(&t.w, &s, NULL, &p, &err), LW_ENOTSUP);
    assert_non_null(strstr(err.msg,
                           "a micro-batch touches (\"sparse\": param, "
                           "row_numel, touched_rows)"));
    s.dp = 1; /* nothing is reduced */
    p = build(&t, &s);
    lw_plan_free(&p);
}

TEST(rows_that_make_no_sense_are_refused)
{
    static const struct {
        struct lw_sparse x;
        const char *words;
    } cases[] = {
        {{A_WEIGHT, 10, 3}, "at sparse[0].param: found 0"},
        {{4, 10, 3}, "at sparse[0].param: found 4"},
        {{B_WEIGHT, 7, 3}, "at sparse[0].row_numel: found 7"},
        {{B_WEIGHT, 10, 21}, "at sparse[0].touched_rows: found 21"},
        {{B_WEIGHT, 10, 0}, "at sparse[0].touched_rows: found 0"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lw_err err = {0};
        struct tiny t;
        sparse_init(&t);
        of_b = cases[i].x;
        assert_int_equal(lw_workload_check(&t.w, &err), LW_EFORMAT);
        if (!strstr(err.msg, cases[i].words))
            fail_msg("%s", err.msg);
    }
}

/* --- faults of a plan ------------------------------------------------------------------------- */

static struct lw_op *find(const struct lw_plan *p, const char *name)
{
    for (int32_t i = 0; i < p->n_ops; i++)
        if (strcmp(p->ops[i].name, name) == 0)
            return &p->ops[i];
    fail_msg("no %s", name);
    return NULL;
}

enum fault { FEWER, AS_F32, WAIT, GONE, TWICE, TOO_FEW_ROWS, SHORT_BUCKET };

static void make_fault(struct lw_plan *p, const char *name, enum fault what)
{
    struct lw_op *op = find(p, name);

    switch (what) {
    case FEWER: op->bytes -= 8; break;
    case AS_F32: op->dtype = LW_F32; break;
    case WAIT: op->n_deps = 0; break;
    case GONE:
        op->kind = LW_OP_EVENT_WAIT;
        op->comm = op->bucket = -1;
        break;
    case TWICE:
        op[1].kind = LW_OP_COPY;
        op[1].bucket = op->bucket;
        break;
    case TOO_FEW_ROWS:
        op->bytes = 4 * 2 * 8;
        op[1].bytes = 4 * 2 * 40;
        break;
    case SHORT_BUCKET: p->buckets[op->bucket].bytes -= 8; break;
    }
}

TEST(faults_are_named)
{
    static const struct {
        const char *op;
        enum fault what;
        const char *words;
    } cases[] = {
        {"sparse shapes", FEWER, "280 bytes of i64; 4 members with 3 rows gather 288 of i64"},
        {"sparse values", FEWER, "472 bytes of f32; 4 members with 3 rows gather 480 of f32"},
        {"sparse indices", AS_F32, "96 bytes of f32; 4 members with 3 rows gather 96 of i64"},
        {"sparse shapes", WAIT, "does not wait for"},
        {"sparse sum", WAIT, "does not wait for"},
        {"sparse indices", GONE, "expects an all-gather of indices after it"},
        {"sparse values", GONE, "expects an all-gather of values after that"},
        {"sparse sum", GONE,
         "(optimizer) of 'first' for role 'data' updates before bucket 0 is added up"},
        {"sparse sum", TWICE, "has already added up"},
        {"sparse indices", TOO_FEW_ROWS, "2 rows of each member; its backwards touch 3"},
        {"sparse indices", SHORT_BUCKET, "856 bytes, but 864 are gathered into it"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lw_plan p = example(NULL);
        struct lw_err err = {0};
        make_fault(&p, cases[i].op, cases[i].what);
        assert_int_equal(lw_plan_check(&p, &err), LW_EPLAN);
        if (!strstr(err.msg, cases[i].words))
            fail_msg("%zu: '%s' lacks '%s'", i, err.msg, cases[i].words);
        lw_plan_free(&p);
    }
}

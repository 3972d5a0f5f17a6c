/* Sparse gradients on the executor: exec/cpu/sparse_rows.h, docs/design/sparse.md. The model is
 * an embedding of 20 rows of 6 elements, of which a micro-batch touches at most 5, before
 * modules with a dense parameter each. */
#include <stdio.h>
#include <string.h>
#include "tests/lib/unit.h"

#include "exec/cpu/sparse_rows.h"
#include "exec/run/run.h"
#include "shared/lower/lower.h"
#include "tests/lib/exec/exec_chain.h"
#include "tests/lib/prng.h"
#include "tests/lib/plans/drawn_words.h"

enum { MODULES = 4, ROWS = 20, ROW = 6, TOUCHED = 5 };

struct model {
    struct chain c;
    struct lw_sparse sparse;
};

static void model_init(struct model *k, enum lw_dtype dtype)
{
    chain_init(&k->c, MODULES);
    for (int32_t i = 0; i < MODULES; i++) {
        struct lw_param *a = &k->c.params[i];
        a->name = i > 0 ? "w" : "embed";
        a->numel = i > 0 ? 12 * i : ROWS * ROW;
        a->dtype = (uint8_t)dtype;
        a->sparse = i == 0;
    }
    k->sparse = (struct lw_sparse){0, ROW, TOUCHED};
    k->c.w.sparse = &k->sparse;
    k->c.w.n_sparse = 1;
}

static int64_t verified(const struct lw_plan *p, enum exec_optimizer_kind kind, const char *words)
{
    struct lw_exec_options o = exec_asleep(4, kind);

    return exec_verified(p, &o, words, NULL);
}

static int64_t runs(enum lw_dtype dtype, const char *words, enum exec_optimizer_kind kind)
{
    struct model k;

    model_init(&k, dtype);
    struct lw_plan p = plan_of_words(&k.c.w, words);
    int64_t bytes = verified(&p, kind, words);
    lw_plan_free(&p);
    return bytes;
}

/* --- which rows ------------------------------------------------------------------------------- */

/* All different, all there, at least half as many as a micro-batch may touch; and others in the
 * next. */
TEST(touched_rows_are_different_and_there)
{
    struct exec_gradient g = {.param = 3, .rank = 1};
    int64_t first[2] = {-1, -1};

    for (int32_t rows = 1; rows < 40; rows++)
        for (g.step = 0; g.step < 20; g.step++) {
            int32_t touched = 1 + g.step % rows;
            struct exec_touch t = exec_touch_of(&g, rows, touched);
            bool seen[40] = {false};
            int64_t row = t.start;
            assert_true(t.n <= touched && t.n >= touched - touched / 2);
            for (int32_t i = 0; i < t.n; i++, row = exec_touch_next(&t, row)) {
                assert_true(row >= 0 && row < rows);
                assert_false(seen[row]);
                seen[row] = true;
            }
            if (rows == 39 && g.step < 2)
                first[g.step] = t.start;
        }
    assert_int_not_equal(first[0], first[1]);
}

/* --- runs ------------------------------------------------------------------------------------- */

/* 120 elements of the embedding and 12 + 24 + 36 others, f32 on two ranks. */
TEST(rows_of_two_ranks_end_like_one)
{
    assert_int_equal(runs(LW_F32, "dp 2", EXEC_SGD), 192 * 4 * 2);
    assert_int_equal(runs(LW_F32, "dp 2", EXEC_MOMENTUM), 192 * 4 * 2 * 2);
}

/* 2 micro-batches in 3 passes touch 30 rows at most, of 20: they come again, and are added up. */
TEST(rows_of_many_backwards_end_like_one)
{
    runs(LW_F32, "dp 3 micro-batches 2 no-sync 2", EXEC_SGD);
    runs(LW_F32, "dp 3 micro-batches 2 no-sync 2", EXEC_MOMENTUM);
    runs(LW_F32, "pp 2 dp 2 micro-batches 4 schedule dualpipe", EXEC_SGD);
}

/* Weights of 2 bytes with masters of 4: rounded row by row. */
TEST(half_types_end_like_one)
{
    assert_int_equal(runs(LW_BF16, "dp 2", EXEC_SGD), 192 * (2 + 4) * 2);
    runs(LW_BF16, "dp 2 grad-dtype f32", EXEC_SGD);
    runs(LW_F16, "dp 4 grad-dtype bf16", EXEC_MOMENTUM);
}

/* Shards cut through rows: 192 + 2 of padding over 3 make 64 each, and a row has 6. */
TEST(shards_step_their_part_of_a_row)
{
    runs(LW_F32, "dp 3 zero 1 shard-policy flat-contiguous bucket-policy c10d-2", EXEC_SGD);
    runs(LW_BF16,
         "dp 3 zero 1 shard-policy flat-contiguous bucket-policy c10d-2 broadcast-dtype f16",
         EXEC_SGD);
    runs(LW_F32, "dp 4 zero 1 shard-policy oss-greedy bucket-policy c10d-2 broadcast-dtype bf16",
         EXEC_MOMENTUM);
}

/* --- refusals and faults ---------------------------------------------------------------------- */

TEST(adam_is_refused)
{
    struct lw_exec_options o = exec_asleep(4, EXEC_ADAM);
    struct model k;

    model_init(&k, LW_F32);
    struct lw_plan p = plan_of_words(&k.c.w, "dp 2");
    exec_ends(&p, &o, LW_ENOTSUP, "parameter 0 'embed' has a sparse gradient, which "
                                  "torch.optim.Adam does not take (--optimizer sgd, momentum)");
    lw_plan_free(&p);
}

/* An op of every program waits instead. */
static void lose(const struct lw_plan *p, const char *name)
{
    for (int32_t i = 0; i < p->n_ops; i++)
        if (strcmp(p->ops[i].name, name) == 0) {
            p->ops[i].kind = LW_OP_EVENT_WAIT;
            p->ops[i].comm = p->ops[i].bucket = -1;
        }
}

static void expect(const struct lw_plan *p, enum lw_status status, const char *words)
{
    struct lw_exec_options o = exec_asleep(4, EXEC_SGD);

    exec_ends(p, &o, status, words);
}

/* Values that are gathered no more are zeros, what is not added up leaves weights as they were;
 * without one of the others the next would leave its part of the bucket: 144 bytes of shapes, 80
 * of indices, 240 of values. */
TEST(lost_ops_are_found)
{
    static const struct {
        const char *op;
        enum lw_status status;
        const char *words;
    } cases[] = {
        {"sparse shapes", LW_EPLAN, "240 bytes, where 80 are its part of a sparse gradient"},
        {"sparse indices", LW_EPLAN, "240 bytes, where 144 are its part of a sparse gradient"},
        {"sparse values", LW_ENO, "weight of parameter 0 'embed'"},
        {"sparse sum", LW_ENO, "weight of parameter 0 'embed'"},
    };
    struct model k;

    model_init(&k, LW_F32);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lw_plan p = plan_of_words(&k.c.w, "dp 2");
        lose(&p, cases[i].op);
        expect(&p, cases[i].status, cases[i].words);
        lw_plan_free(&p);
    }
}

TEST(gathers_beyond_their_part_are_refused)
{
    struct model k;

    model_init(&k, LW_F32);
    struct lw_plan p = plan_of_words(&k.c.w, "dp 2");
    for (int32_t i = 0; i < p.n_ops; i++)
        if (strcmp(p.ops[i].name, "sparse indices") == 0)
            p.ops[i].bytes += 16;
    expect(&p, LW_EPLAN,
           "(all_gather, bucket 1) of 'first' for role 'data': 96 bytes, where 80 are its part of "
           "a sparse gradient");
    lw_plan_free(&p);
}

TEST(a_sum_that_does_not_wait_is_named)
{
    struct model k;

    model_init(&k, LW_F32);
    struct lw_plan p = plan_of_words(&k.c.w, "dp 2");
    for (int32_t i = 0; i < p.n_ops; i++)
        if (strcmp(p.ops[i].name, "sparse sum") == 0)
            p.ops[i].n_deps = 0;
    expect(&p, LW_ENO,
           "(copy, bucket 1) of 'first' for role 'data' does not wait for op 15 (all_gather, "
           "bucket 1)");
    lw_plan_free(&p);
}

/* Lists as a member might send them: rows [4] of 3 elements, two members with room for 2 rows. */
struct lists {
    int64_t shapes[2 * LW_SPARSE_SIZES], indices[4];
    float values[12], sum[12];
    struct exec_rows r;
};

static void lists_init(struct lists *k)
{
    *k = (struct lists){.indices = {1, 3, 1, 0}};
    for (int i = 0; i < 12; i++)
        k->values[i] = (float)(i + 1);
    for (int m = 0; m < 2; m++) {
        k->shapes[m * LW_SPARSE_SIZES + LW_SPARSE_ROWS_AT] = 4;
        k->shapes[m * LW_SPARSE_SIZES + LW_SPARSE_ROW_AT] = 3;
        k->shapes[m * LW_SPARSE_SIZES + LW_SPARSE_COUNT_AT] = 2 - m;
    }
    k->r = (struct exec_rows){.row_numel = 3, .n_members = 2, .n_rows = 4, .capacity = 2,
                              .dtype = LW_F32, .shapes = k->shapes, .all_indices = k->indices,
                              .all_values = k->values, .sum = k->sum};
}

/* Member 0 sends rows 1 and 3 of 1 2 3 and 4 5 6, member 1 row 1 of 7 8 9; what lies after is
 * not read. */
TEST(lists_add_up_and_clear)
{
    static const float want[12] = {0, 0, 0, 8, 10, 12, 0, 0, 0, 4, 5, 6}, none[12] = {0};
    struct lists k;

    lists_init(&k);
    struct exec_part part = {.kind = EXEC_PART_ROWS_SUM, .rows = &k.r};
    assert_int_equal(exec_rows_run(&part, NULL), LW_OK);
    assert_memory_equal(k.sum, want, sizeof want);
    part.kind = EXEC_PART_ROWS_CLEAR;
    assert_int_equal(exec_rows_run(&part, NULL), LW_OK);
    assert_memory_equal(k.sum, none, sizeof none);
}

/* w -= rate * g in elements 4 and 5 alone, of row 1, whose sum is 8 10 12; then they are zero. */
TEST(a_row_steps_once_and_inside_its_shard)
{
    float w[2] = {100, 100};
    struct lists k;

    lists_init(&k);
    struct exec_part part = {.kind = EXEC_PART_ROWS_SUM, .rows = &k.r};
    assert_int_equal(exec_rows_run(&part, NULL), LW_OK);
    part = (struct exec_part){.kind = EXEC_PART_ROWS_UPDATE,
                              .rows = &k.r,
                              .to = w,
                              .to_dtype = LW_F32,
                              .first = 4,
                              .count = 2,
                              .update = {.kind = EXEC_SGD, .rate = 0.5f}};
    assert_int_equal(exec_rows_run(&part, NULL), LW_OK);
    assert_true(w[0] == 95 && w[1] == 94);
    assert_true(k.sum[3] == 8 && k.sum[4] == 0 && k.sum[5] == 0);
}

TEST(lists_that_are_none_are_named)
{
    static const struct {
        int64_t at, value;
        const char *words;
    } cases[] = {
        {-1, 4, "member 1 sends row 4 of 4"},
        {-1, -1, "member 1 sends row -1 of 4"},
        {LW_SPARSE_SIZES + LW_SPARSE_COUNT_AT, 3, "member 1 reports 3 rows, and has room for 2"},
        {LW_SPARSE_SIZES + LW_SPARSE_COUNT_AT, -1, "member 1 reports -1 rows"},
        {LW_SPARSE_ROWS_AT, 5, "a sparse gradient of 4 rows of 3: member 0 reports 5 of 3"},
        {LW_SPARSE_ROW_AT, 2, "a sparse gradient of 4 rows of 3: member 0 reports 4 of 2"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lw_err err = {0};
        struct lists k;
        lists_init(&k);
        struct exec_part part = {.kind = EXEC_PART_ROWS_SUM, .rows = &k.r};
        if (cases[i].at < 0)
            k.indices[2] = cases[i].value;
        else
            k.shapes[cases[i].at] = cases[i].value;
        assert_int_equal(exec_rows_run(&part, &err), LW_EFAILED);
        if (!strstr(err.msg, cases[i].words))
            fail_msg("'%s' lacks '%s'", err.msg, cases[i].words);
    }
}

/* --- random grids ----------------------------------------------------------------------------- */

static void draw(struct prng *r, char *words, size_t room)
{
    bool zero = prng_in(r, 0, 1);

    *words = '\0';
    add_word(words, room, "dp", ONE_OF(r, "2", "3", "4"));
    add_word(words, room, "pp", ONE_OF(r, "", "", "2"));
    add_word(words, room, "zero", zero ? "1" : "");
    add_word(words, room, "shard-policy",
        zero ? ONE_OF(r, "oss-greedy", "lpt", "flat-contiguous", "per-tensor") : "");
    add_word(words, room, "broadcast-dtype", zero ? ONE_OF(r, "", "f16", "bf16") : "");
    add_word(words, room, "bucket-policy",
        ONE_OF(r, "c10d-2", "c10d-1.13", "c10d-2020", "per-tensor", "single"));
    add_word(words, room, "grad-dtype", ONE_OF(r, "", "f32", "f64", "f16", "bf16"));
    add_word(words, room, "micro-batches", ONE_OF(r, "", "2", "3"));
    add_word(words, room, "no-sync", ONE_OF(r, "", "", "1", "2"));
    add_word(words, room, "overlap", ONE_OF(r, "on", "on", "off"));
}

TEST(random_grids_end_like_one)
{
    static const enum lw_dtype types[] = {LW_F32, LW_F64, LW_F16, LW_BF16};
    struct prng r = prng_start("sparse gradients");
    const int grids = unit_cases(25, 120);
    int made = 0, zero = 0, accumulated = 0, pipelines = 0;
    char words[400];

    for (int tries = 0; made < grids; tries++) {
        struct model k;
        struct lw_plan p;
        struct lw_err err = {0};
        model_init(&k, types[prng_in(&r, 0, 3)]);
        k.sparse.row_numel = (int32_t)(prng_in(&r, 0, 2) == 0 ? 1 : 2 * prng_in(&r, 1, 6));
        int64_t rows = prng_in(&r, 1, 30);
        k.c.params[0].numel = rows * k.sparse.row_numel;
        k.sparse.touched_rows = (int32_t)prng_in(&r, 1, rows);
        enum exec_optimizer_kind kind = prng_in(&r, 0, 1) ? EXEC_MOMENTUM : EXEC_SGD;
        draw(&r, words, sizeof words);
        struct lw_strategy s = strategy(words);
        if (tries > 20 * grids)
            fail_msg("only %d of %d drawn plans can be built", made, tries);
        if (lw_plan_build(&k.c.w, &s, NULL, &p, &err) != LW_OK)
            continue;
        verified(&p, kind, words);
        zero += p.strategy->zero > 0;
        accumulated += p.strategy->no_sync > 0 || p.strategy->micro_batches > 1;
        pipelines += p.strategy->pp > 1;
        lw_plan_free(&p);
        made++;
    }
    printf("%d plans run: %d with ZeRO-1, %d of several backwards, %d pipelines\n", made, zero,
           accumulated, pipelines);
    assert_true(zero > grids / 4 && accumulated > grids / 3 && pipelines > grids / 8);
}

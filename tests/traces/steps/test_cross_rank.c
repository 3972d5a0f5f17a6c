/* Collectives over ranks: by hand, and against the figures of ../shared/traces/truth.json. */
#include "tests/lib/unit.h"
#include <stdio.h>
#include <unistd.h>

#include "tests/lib/traces/replay_help.h"
#include "shared/io/input.h"
#include "shared/json/json.h"
#include "traces/steps/cross_rank.h"
#include "traces/trace/decimal_time.h"

#define TRUTH "../shared/traces/truth.json"
#define ALL_REDUCE "ncclDevKernel_AllReduce_Sum_f32_RING_LL"

static void build(struct traces_comm_list *l, const struct lw_trace *const *t, int32_t n,
                  struct lw_arena *a, struct traces_cross_rank *out)
{
    for (int32_t k = 0; k < n; k++)
        assert_int_equal(traces_comm_list_build(t[k], NULL, a, &l[k], NULL), LW_OK);
    assert_int_equal(traces_cross_rank_build(l, n, a, out, NULL), LW_OK);
}

/* The example of docs/design/cross_rank.md; rank 1 counts from a base 1000 us earlier. */
TEST(transfer_is_told_apart_from_waiting)
{
    struct traces_source s[2];
    struct traces_comm_list l[2];
    struct traces_cross_rank x;
    struct lw_arena a = {0};

    for (int k = 0; k < 2; k++)
        replay_begin(&s[k]);
    s[0].trace.base_ns = 5000000;
    s[1].trace.base_ns = 4000000;
    replay_row(&s[0], LW_ROW_KERNEL, ALL_REDUCE "(int)", 110, 320, 20, 1);
    replay_row(&s[1], LW_ROW_KERNEL, ALL_REDUCE "(int)", 1410, 21, 22, 1);
    for (int k = 0; k < 2; k++)
        replay_ready(&s[k]);
    build(l, (const struct lw_trace *const[]){&s[0].trace, &s[1].trace}, 2, &a, &x);
    assert_int_equal(x.n_classes, 1);
    assert_true(x.classes[0].matched);
    assert_int_equal(x.classes[0].n, 1);
    const struct traces_matched *m = x.classes[0].ops;
    assert_string_equal(m->kernel, ALL_REDUCE);
    assert_true(m->same_kernel);
    assert_int_equal(m->transfer_ns, 21000);
    assert_int_equal(m->longest_ns, 320000);
    assert_int_equal(m->start_skew_ns, 300000);
    assert_int_equal(m->end_skew_ns, 1000);
    assert_int_equal(m->last_start_to_last_end_ns, 21000);
    assert_int_equal(x.clock_ns[0], 0);
    assert_int_equal(x.clock_ns[1], 1000);
    lw_arena_free(&a);
    for (int k = 0; k < 2; k++)
        traces_source_free(&s[k]);
}

TEST(mismatched_collectives_are_reported)
{
    static const struct {
        const char *second;
        const char *third; /* of rank 1; NULL = none */
        const char *why;
    } cases[] = {
        {ALL_REDUCE, ALL_REDUCE, "file 0 holds 1 collectives of it and file 1 2"},
        {"ncclDevKernel_AllGather_RING_LL", NULL,
         "collective 0 is all_reduce in file 0 and all_gather in file 1"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct traces_source s[2];
        struct traces_comm_list l[2];
        struct traces_cross_rank x;
        struct lw_arena a = {0};
        for (int k = 0; k < 2; k++)
            replay_begin(&s[k]);
        replay_row(&s[0], LW_ROW_KERNEL, ALL_REDUCE, 10, 5, 20, 1);
        replay_row(&s[1], LW_ROW_KERNEL, cases[i].second, 10, 5, 20, 1);
        if (cases[i].third)
            replay_row(&s[1], LW_ROW_KERNEL, cases[i].third, 20, 5, 20, 2);
        for (int k = 0; k < 2; k++)
            replay_ready(&s[k]);
        build(l, (const struct lw_trace *const[]){&s[0].trace, &s[1].trace}, 2, &a, &x);
        assert_false(x.classes[0].matched);
        assert_string_equal(x.classes[0].why, cases[i].why);
        assert_false(x.clock_known[1]);
        lw_arena_free(&a);
        for (int k = 0; k < 2; k++)
            traces_source_free(&s[k]);
    }
}

/* ---- truth ---- */

static int n_compared;

static void check_op(struct lw_json *j, const struct traces_matched *m)
{
    const struct {
        const char *key;
        int64_t value;
    } want[] = {
        {"start_skew_us", m->start_skew_ns}, {"end_skew_us", m->end_skew_ns},
        {"last_start_to_last_end_us", m->last_start_to_last_end_ns},
        {"min_dur_us", m->transfer_ns}, {"max_dur_us", m->longest_ns},
    };

    assert_true(lw_json_enter(j, LW_JSON_OBJECT));
    while (lw_json_next(j)) {
        if (lw_json_key_is(j, "kernel"))
            assert_string_equal(lw_json_string(j, NULL), m->kernel);
        else if (lw_json_key_is(j, "same_kernel"))
            assert_int_equal(lw_json_bool(j), m->same_kernel);
        for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
            size_t len;
            int64_t ns;
            if (!lw_json_key_is(j, want[i].key))
                continue;
            const char *text = lw_json_number_text(j, &len);
            assert_true(traces_decimal(text, len, 3, &ns));
            assert_int_equal(want[i].value, ns);
            n_compared++;
        }
    }
}

static void check_run(struct lw_json *j, const char *stem)
{
    struct traces_source s[16];
    const struct lw_trace *p[16];
    struct traces_comm_list l[16];
    struct traces_cross_rank x;
    struct lw_arena a = {0};
    char path[512];
    int32_t n = 0;
    int64_t k = 0;

    for (; n < 16; n++) {
        snprintf(path, sizeof path, "../shared/traces/kineto/%s%d.json.gz", stem, n);
        if (access(path, R_OK) != 0)
            break;
        replay_read(&s[n], path);
        p[n] = &s[n].trace;
    }
    assert_true(n > 1);
    build(l, p, n, &a, &x);
    assert_int_equal(x.n_classes, 1);
    assert_true(lw_json_enter(j, LW_JSON_OBJECT));
    while (lw_json_next(j))
        if (lw_json_key_is(j, "ops") && lw_json_enter(j, LW_JSON_ARRAY))
            for (; lw_json_next(j); k++) {
                assert_true(k < x.classes[0].n);
                check_op(j, &x.classes[0].ops[k]);
            }
    assert_int_equal(k, x.classes[0].n);
    lw_arena_free(&a);
    for (int32_t i = 0; i < n; i++)
        traces_source_free(&s[i]);
}

TEST(every_cross_rank_figure_equals_truth)
{
    struct lw_input in;
    struct lw_json *j;
    char stem[128];

    if (access(TRUTH, R_OK) != 0) {
        print_message("SKIP cross-rank figures against truth: %s is absent\n", TRUTH);
        skip();
    }
    assert_int_equal(lw_input_read(TRUTH, 0, &in, NULL), LW_OK);
    assert_int_equal(lw_json_open(TRUTH, in.text, in.len, &j, NULL), LW_OK);
    assert_true(lw_json_enter(j, LW_JSON_OBJECT));
    while (lw_json_next(j))
        if (lw_json_key_is(j, "cross_rank") && lw_json_enter(j, LW_JSON_OBJECT))
            while (lw_json_next(j)) {
                snprintf(stem, sizeof stem, "%s", lw_json_key(j, NULL));
                check_run(j, stem);
            }
    assert_int_equal(lw_json_done(j, NULL), LW_OK);
    lw_json_close(j);
    lw_input_free(&in);
    assert_int_equal(n_compared, (13 + 8) * 5);
}

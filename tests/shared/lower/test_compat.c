/* --compat: what a reference system fixes, and each quirk beside the behaviour without it. Table 6
 * of docs/design/compat.md; the workload is that of tests/lib/plans/tiny_workload.h. */
#include <string.h>
#include "tests/lib/unit.h"

#include "shared/lower/compat.h"
#include "tests/lib/plans/tiny_build.h"
#include "tests/lib/plans/strategy_words.h"

static struct lw_strategy with(const char *compat)
{
    struct lw_strategy s = strategy("dp 2");
    struct lw_err err = {0};

    assert_int_equal(lw_strategy_set(&s, "compat", compat, &err), LW_OK);
    return s;
}

static void set(struct lw_strategy *s, const char *name, const char *value)
{
    struct lw_err err = {0};

    assert_int_equal(lw_strategy_set(s, name, value, &err), LW_OK);
}

TEST(a_system_sets_what_the_user_left_alone)
{
    struct lw_strategy s = with("picotron"), out;
    struct lw_err err = {0};

    assert_int_equal(lw_compat_resolve(&s, &out, &err), LW_OK);
    assert_int_equal(out.bucket_policy, LW_BUCKET_PICOTRON);
    assert_int_equal(out.launch_order, LW_LAUNCH_COMPLETION);
    s = with("haiscale");
    assert_int_equal(lw_compat_resolve(&s, &out, &err), LW_OK);
    assert_int_equal(out.reducer, LW_REDUCER_HFREDUCE);
    assert_int_equal(out.bucket_policy, LW_BUCKET_C10D_2);
    s = with("none");
    assert_int_equal(lw_compat_resolve(&s, &out, &err), LW_OK);
    assert_int_equal(out.bucket_policy, LW_BUCKET_C10D_2);
    assert_int_equal(out.launch_order, LW_LAUNCH_IN_ORDER);
}

/* Also a value that happens to be the default is the user's once it was given. */
TEST(given_option_is_never_replaced)
{
    static const struct {
        const char *compat, *option, *value, *message;
    } cases[] = {
        {"picotron", "bucket-policy", "c10d-2", "contradicts --bucket-policy c10d-2"},
        {"picotron", "launch-order", "in-order", "it supports only completion-order"},
        {"c10d", "bucket-policy", "single", "it supports only c10d-2|c10d-1.13|c10d-2020"},
        {"c10d", "launch-order", "completion", "contradicts --launch-order completion-order"},
        {"colossalai", "comm-hook", "bf16", "contradicts --comm-hook bf16"},
        {"haiscale", "reducer", "ring", "it supports only hfreduce"},
    };
    struct tiny t;

    tiny_init(&t);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lw_strategy s = with(cases[i].compat);
        set(&s, cases[i].option, cases[i].value);
        expect_refusal(&t, &s, LW_EINVAL, cases[i].message);
    }
    struct lw_strategy s = with("c10d");
    set(&s, "bucket-policy", "c10d-2020");
    struct lw_plan p = build(&t, &s);
    assert_int_equal(p.strategy->bucket_policy, LW_BUCKET_C10D_2020);
    assert_int_equal(p.strategy->compat, LW_COMPAT_C10D);
    lw_plan_free(&p);
}

/* Cap 1200 bytes and no first bucket named. 2020: registration order under [1 MiB, 1200], all 2408
 * bytes in one bucket, divided in a pass of its own, the map of 4 * 4 bytes after it; never
 * rebuilt. 1.13: the same limits in ready order; scaled while copied, no map. 2: the cap stands
 * alone, so that c.weight (1200) closes a bucket. */
TEST(generations_of_c10d_differ)
{
    struct tiny t;
    struct lw_strategy s = with("c10d");

    tiny_init(&t);
    set(&s, "bucket-cap", "1200");
    set(&s, "bucket-policy", "c10d-2020");
    expect_ops(&t, &s, "F0:1 F1:2 F2:3 B2:5 Ci/1200 B2:1 B1:2 Ci/8 B1:2 Ci/800 B0:2 Ci/400 C/2408 "
                       "AR0/2408 AR/16 Co0/2408 O:7");
    set(&s, "bucket-policy", "c10d-1.13");
    expect_ops(&t, &s,
               "F0:1 F1:2 F2:3 B2:5 Ci/1200 B2:1 B1:2 Ci/8 B1:2 Ci/800 B0:2 Ci/400 AR1/2408 "
               "Co1/2408 O:7");
    set(&s, "bucket-policy", "c10d-2");
    expect_ops(&t, &s,
               "F0:1 F1:2 F2:3 B2:5 Ci/1200 AR1/1200 B2:1 B1:2 Ci/8 B1:2 Ci/800 B0:2 Ci/400 "
               "AR2/1208 Co1/1200 Co2/1208 O:7");
}

/* c10d leaves averaging to the hook: a pass over the compressed bucket. By default gradients are
 * scaled while they are copied, hook or not. */
TEST(a_comm_hook_of_c10d_divides_what_it_compressed)
{
    struct tiny t;
    struct lw_strategy s = with("c10d");

    tiny_init(&t);
    set(&s, "comm-hook", "fp16");
    expect_ops(&t, &s,
               "F0:1 F1:2 F2:3 B2:5 Ci/1200 B2:1 B1:2 Ci/8 B1:2 Ci/800 B0:2 Ci/400 Ca1/2408 "
               "C/1204 AR1/1204 Ca1/2408 Co1/2408 O:7");
    s = with("none");
    set(&s, "comm-hook", "fp16");
    expect_ops(&t, &s,
               "F0:1 F1:2 F2:3 B2:5 Ci/1200 B2:1 B1:2 Ci/8 B1:2 Ci/800 B0:2 Ci/400 Ca1/2408 "
               "AR1/1204 Ca1/2408 Co1/2408 O:7");
    set(&s, "compat", "c10d");
    struct lw_plan p = build(&t, &s);
    bool said = false;
    for (int32_t i = 0; i < p.n_notes; i++)
        said =
            said || strstr(p.notes[i], "averaging: gradients are scaled by 1/2 by the comm hook");
    assert_true(said);
    lw_plan_free(&p);
}

/* Registered: 0 = a.weight b.weight (300 elements, an exact fit), 1 = b.bias, 2 = c.weight. The
 * numbers stay and the last one is launched first, divided in a pass of its own; by default the
 * list is reversed and in order, and gradients are scaled while they are copied. */
TEST(picotron_launches_as_buckets_complete)
{
    struct tiny t;
    struct lw_strategy s = with("picotron");

    tiny_init(&t);
    set(&s, "bucket-cap", "1200");
    expect_ops(&t, &s, "F0:1 F1:2 F2:3 B2:5 Ci/1200 C/1200 AR2/1200 B2:1 B1:2 Ci/8 C/8 AR1/8 B1:2 "
                       "Ci/800 B0:2 Ci/400 C/1200 AR0/1200 Ew O:7");
    s = with("none");
    set(&s, "bucket-cap", "1200");
    set(&s, "bucket-policy", "picotron");
    expect_ops(&t, &s, "F0:1 F1:2 F2:3 B2:5 Ci/1200 AR0/1200 B2:1 B1:2 Ci/8 AR1/8 B1:2 Ci/800 B0:2 "
                       "Ci/400 AR2/1200 Ew O:7");
}

/* Ready: c.weight, then a.weight before b's: with b.weight and b.bias in a bucket that completes
 * last, completion order lets a.weight's bucket pass, index order holds it back. */
TEST(completion_order_lets_a_later_bucket_pass)
{
    static const int32_t order[] = {C_WEIGHT, A_WEIGHT, B_BIAS, B_WEIGHT};
    struct tiny t;
    struct lw_strategy s = with("picotron");

    tiny_init(&t);
    memcpy(t.order, order, sizeof order);
    t.params[A_WEIGHT].ready_ps = 7 * LW_PS_PER_US;
    set(&s, "bucket-cap", "808"); /* 202 elements: a 100 | b.weight b.bias 202 | c 300 alone */
    expect_ops(&t, &s, "F0:1 F1:2 F2:3 B2:5 Ci/1200 C/1200 AR2/1200 B2:1 B1:1 Ci/400 C/400 AR0/400 "
                       "B1:1 Ci/8 B1:2 Ci/800 C/808 AR1/808 B0:2 Ew O:7");
    s = with("none");
    set(&s, "bucket-cap", "808");
    set(&s, "bucket-policy", "picotron");
    expect_ops(&t, &s,
               "F0:1 F1:2 F2:3 B2:5 Ci/1200 AR0/1200 B2:1 B1:1 Ci/400 B1:1 Ci/8 B1:2 Ci/800 "
               "AR1/808 AR2/400 B0:2 Ew O:7");
}

/* fp16 counts 4 bytes in picotron: 1200 / 4 = 300 elements make 3 buckets; 1200 / 2 = 600 make 2:
 * 100 + 200 + 2 = 302, and 300 more would be 602. */
TEST(picotron_counts_four_bytes_for_fp16)
{
    struct tiny t;
    struct lw_strategy s = with("picotron");

    tiny_init(&t);
    for (int i = 0; i < 4; i++)
        t.params[i].dtype = LW_F16;
    set(&s, "bucket-cap", "1200");
    struct lw_plan p = build(&t, &s);
    assert_int_equal(p.n_buckets, 3);
    lw_plan_free(&p);
    s = with("none");
    set(&s, "bucket-cap", "1200");
    set(&s, "bucket-policy", "picotron");
    p = build(&t, &s);
    assert_int_equal(p.n_buckets, 2);
    lw_plan_free(&p);
}

TEST(picotron_stops_at_an_unused_parameter)
{
    struct tiny t;
    struct lw_strategy s = with("picotron");

    tiny_init(&t);
    t.params[A_WEIGHT].used = false;
    t.params[A_WEIGHT].ready_ps = -1;
    t.w.n_ready = 3;
    expect_refusal(&t, &s, LW_EINVAL, "parameter 0 'a.weight' is unused; picotron waits");
    s = with("none");
    set(&s, "bucket-policy", "picotron");
    set(&s, "find-unused", "on");
    struct lw_plan p = build(&t, &s);
    assert_int_equal(p.n_buckets, 1);
    lw_plan_free(&p);
}

TEST(colossalai_waits_for_one_buffer_before_the_next)
{
    struct tiny t;
    struct lw_strategy s = with("colossalai");

    tiny_init(&t);
    t.params[C_WEIGHT].dtype = LW_BF16;
    expect_ops(&t, &s, "F0:1 F1:2 F2:3 B2:5 B2:1 B1:2 B1:2 B0:2 Ci/1208 C/1208 AR0/1208 Co0/1208 "
                       "Ci/600 C/600 AR1/600 Co1/600 O:7");
    s = with("none");
    set(&s, "bucket-policy", "colossal");
    expect_ops(&t, &s, "F0:1 F1:2 F2:3 B2:5 B2:1 B1:2 B1:2 B0:2 Ci/1808 AR0/1208 AR1/600 Co0/1208 "
                       "Co1/600 O:7");
}

TEST(haiscale_stops_at_other_dtypes_and_devices)
{
    struct tiny t;
    struct lw_strategy s = with("haiscale");

    tiny_init(&t);
    struct lw_plan p = build(&t, &s);
    assert_int_equal(p.comms[0].reducer, LW_REDUCER_HFREDUCE);
    lw_plan_free(&p);
    t.params[B_BIAS].trainable = false; /* frozen ones are looked at too */
    t.params[B_BIAS].ready_ps = -1;
    t.params[B_BIAS].dtype = LW_BF16;
    t.order[1] = B_WEIGHT;
    t.order[2] = A_WEIGHT;
    t.w.n_ready = 3;
    expect_refusal(&t, &s, LW_EINVAL, "parameter 2 'b.bias' is bf16; HaiScale's DDP stops");
    t.params[B_BIAS].dtype = LW_F32;
    t.params[B_BIAS].device = 1;
    expect_refusal(&t, &s, LW_EINVAL, "'b.bias' is on device 1, the first one on device 0");
    s = with("none");
    p = build(&t, &s);
    lw_plan_free(&p);
}

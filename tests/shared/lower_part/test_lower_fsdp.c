/* ZeRO-2 and ZeRO-3: shared/lower_part/lower_fsdp.c, shared/check/terms.c,
 * docs/design/lower_fsdp.md. The workload is that of tests/lib/plans/tiny_workload.h: a.weight 100
 * elements, b.weight 200, b.bias 2, c.weight 300, all f32; the optimizer takes 7 us for all 602. */
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include "tests/lib/unit.h"

#include "exec/run/run.h"
#include "shared/lower/lower.h"
#include "tests/lib/plans/freeze.h"
#include "tests/lib/plans/plan_words.h"
#include "tests/lib/prng.h"
#include "tests/lib/plans/tiny_build.h"

enum { ROOM = 4096 };

static struct lw_strategy zero(int64_t stage)
{
    struct lw_strategy s = strategy("dp 2");

    s.zero = stage;
    return s;
}

static void expect(const struct tiny *t, const struct lw_strategy *s, const char *ops,
                   const char *shards)
{
    char text[ROOM], line[ROOM];
    size_t at = 0;
    struct lw_plan p = build(t, s);

    assert_string_equal(tiny_ops(&p, p.variants[0].name, text, sizeof text), ops);
    for (int32_t i = 0; i < p.n_shards; i++)
        at += (size_t)snprintf(line + at, sizeof line - at, "%s%d:%lld+%lld@%d", i > 0 ? " " : "",
                               p.shards[i].param, (long long)p.shards[i].first,
                               (long long)p.shards[i].numel, p.shards[i].owner);
    assert_string_equal(line, shards);
    lw_plan_free(&p);
}

static void refused(const struct lw_strategy *s, const char *part)
{
    struct tiny t;

    tiny_init(&t);
    expect_refusal(&t, s, LW_EINVAL, part);
}

static void given(struct lw_strategy *s, const char *name, const char *value)
{
    struct lw_err err = {0};

    assert_ok(lw_strategy_set(s, name, value, &err), err);
}

/* --- ZeRO-2 ----------------------------------------------------------------------------------- */

/* 300 elements a bucket: c.weight fills one; b.bias and b.weight make 202, a.weight would make 302.
 * Shares of two: 150 of c.weight; 101 of (b.bias, b.weight), so member 0 has b.bias and 99 of
 * b.weight; 50 of a.weight. The fullest updates 301 of 602: 3.5 us. */
TEST(buckets_are_cut_into_shares)
{
    struct tiny t;
    struct lw_strategy s = strategy("dp 2 zero 2 bucket-cap 1200");

    tiny_init(&t);
    expect(&t, &s,
           "F0:1 F1:2 F2:3 +0/1200 B2:5 Ci/1200 RS0/1200 -0/1200 B2:1 +1/808 B1:2 Ci/8 B1:2 Ci/800 "
           "RS1/808 -1/808 +2/400 B0:2 Ci/400 RS2/400 -2/400 Ew O:3 AG3/1200 AG4/808 AG5/400 Ew",
           "0:0+50@0 0:50+50@1 1:0+99@0 1:99+101@1 2:0+2@0 3:0+150@0 3:150+150@1");
}

/* Without a limit that is reached, all 602 lie in ready order c.weight, b.bias, b.weight, a.weight:
 * 301 each, so that b.bias is cut in two. Three members have 201 each, one of them padding. */
TEST(one_bucket_is_padded_to_equal_shares)
{
    struct tiny t;
    struct lw_strategy s = zero(2);

    tiny_init(&t);
    expect(&t, &s,
           "F0:1 F1:2 F2:3 +0/2408 B2:5 Ci/1200 B2:1 B1:2 Ci/8 B1:2 Ci/800 B0:2 Ci/400 RS0/2408 "
           "-0/2408 Ew O:3 AG1/2408 Ew",
           "0:0+100@1 1:0+200@1 2:0+1@0 2:1+1@1 3:0+300@0");
    s.dp = 3;
    struct lw_plan p = build(&t, &s);
    assert_int_equal(p.buckets[0].bytes, 603 * 4);
    lw_plan_free(&p);
}

/* 608 elements with padding, 76 for each of eight members: c.weight is in shares 0 to 3, b.bias and
 * the first of b.weight in share 3, the last of b.weight and the first of a.weight in share 6. */
TEST(a_parameter_has_whole_shares_between_its_first_and_its_last)
{
    static const char *const expected =
        "0:0+30@6 0:30+70@7 1:0+2@3 1:2+76@4 1:78+76@5 1:154+46@6 2:0+2@3 "
        "3:0+76@0 3:76+76@1 3:152+76@2 3:228+72@3";
    struct tiny t;
    struct lw_strategy s = strategy("dp 8 zero 2");
    char line[ROOM];
    size_t at = 0;

    tiny_init(&t);
    struct lw_plan p = build(&t, &s);
    for (int32_t i = 0; i < p.n_shards; i++)
        at += (size_t)snprintf(line + at, sizeof line - at, "%s%d:%lld+%lld@%d", i > 0 ? " " : "",
                               p.shards[i].param, (long long)p.shards[i].first,
                               (long long)p.shards[i].numel, p.shards[i].owner);
    assert_string_equal(line, expected);
    lw_plan_free(&p);
}

/* A search simulates drafts: they say of memory and times what the plan says. */
TEST(a_draft_has_the_bytes_and_the_works_of_the_plan)
{
    struct tiny t;
    struct lw_err err = {0};

    tiny_init(&t);
    for (int64_t stage = 2; stage <= 3; stage++) {
        struct lw_strategy s = zero(stage);
        s.dp = 8;
        struct lw_plan p = build(&t, &s), draft = {0};
        assert_ok(lw_plan_draft(&t.w, &s, NULL, &draft, &err), err);
        assert_true(draft.n_shards < p.n_shards);
        assert_memory_equal(draft.roles[0].static_bytes, p.roles[0].static_bytes,
                            sizeof p.roles[0].static_bytes);
        assert_int_equal(draft.n_works, p.n_works);
        for (int32_t i = 0; i < p.n_works; i++)
            assert_int_equal(draft.works[i].ps, p.works[i].ps);
        lw_plan_free(&draft);
        lw_plan_free(&p);
    }
}

/* --- ZeRO-3 ----------------------------------------------------------------------------------- */

/* Units c, b, a as they complete, their weights buffers 3, 4, 5. One ahead: a and b are gathered at
 * the start, c when a's forward begins; a and b are freed after their forward, c is kept for its
 * backward. Backward gathers b beside c's, then a beside b's. A unit is gathered
 * into room beside the own share; gradients have room until they are reduced. */
TEST(modules_are_gathered_before_and_freed_after_use)
{
    struct tiny t;
    struct lw_strategy s = zero(3);

    tiny_init(&t);
    expect(
        &t, &s,
        "+05/400 AG05/400 +14/808 AG14/808 Ew F0:1 -05/400 +23/1200 AG23/1200 Ew F1:2 -14/808 Ew "
        "F2:3 +14/808 AG14/808 +0/1200 B2:5 Ci/1200 RS0/1200 -0/1200 B2:1 -23/1200 +05/400 "
        "AG05/400 Ew +1/808 B1:2 Ci/8 B1:2 -14/808 Ci/800 RS1/808 -1/808 Ew +2/400 B0:2 -05/400 "
        "Ci/400 RS2/400 -2/400 Ew O:3",
        "0:0+50@0 0:50+50@1 1:0+101@0 1:101+99@1 2:0+2@1 3:0+150@0 3:150+150@1");
}

/* DeepSpeed's stage3_prefetch_bucket_size: what comes next until 203 elements are on their way. b
 * has 202, so c follows it, and in the backward a. 150 elements are one unit ahead at each place.
 * So are 203 where 302 may be there: beside a's 100 there is room for b's 202 and no more. */
TEST(weights_are_gathered_ahead_by_elements)
{
    static const char *const one_ahead[] = {
        "dp 2 zero 3", "dp 2 zero 3 prefetch-bucket-size 150",
        "dp 2 zero 3 prefetch-bucket-size 203 max-live-parameters 302"};
    struct tiny t;
    struct lw_strategy s = strategy("dp 2 zero 3 prefetch-bucket-size 203");
    char plain[ROOM], text[ROOM];

    tiny_init(&t);
    expect(&t, &s,
           "+05/400 AG05/400 +14/808 AG14/808 +23/1200 AG23/1200 Ew F0:1 -05/400 Ew F1:2 -14/808 "
           "Ew F2:3 +14/808 AG14/808 +05/400 AG05/400 +0/1200 B2:5 Ci/1200 RS0/1200 -0/1200 B2:1 "
           "-23/1200 Ew +1/808 B1:2 Ci/8 B1:2 -14/808 Ci/800 RS1/808 -1/808 Ew +2/400 B0:2 -05/400 "
           "Ci/400 RS2/400 -2/400 Ew O:3",
           "0:0+50@0 0:50+50@1 1:0+101@0 1:101+99@1 2:0+2@1 3:0+150@0 3:150+150@1");
    for (size_t i = 0; i < sizeof one_ahead / sizeof *one_ahead; i++) {
        struct lw_strategy like = strategy(one_ahead[i]);
        struct lw_plan plan = build(&t, &like);
        tiny_ops(&plan, plan.variants[0].name, i == 0 ? plain : text, sizeof text);
        assert_string_equal(i == 0 ? plain : text, plain);
        lw_plan_free(&plan);
    }
}

/* Below 150 elements: a.weight and b.bias make a unit of 102 that stays, gathered after the
 * step. */
TEST(small_parameters_persist)
{
    struct tiny t;
    struct lw_strategy s = strategy("dp 2 zero 3 persist 150");

    tiny_init(&t);
    expect(&t, &s,
           "+14/800 AG14/800 F0:1 +23/1200 AG23/1200 Ew F1:2 -14/800 Ew F2:3 +14/800 AG14/800 "
           "+0/1200 B2:5 Ci/1200 RS0/1200 -0/1200 B2:1 -23/1200 Ew +2/408 B1:2 Ci/8 +1/800 B1:2 "
           "-14/800 Ci/800 RS1/800 -1/800 B0:2 Ci/400 RS2/408 -2/408 Ew O:3 AG5/408 Ew",
           "0:0+51@0 0:51+49@1 1:0+100@0 1:100+100@1 2:0+2@1 3:0+150@0 3:150+150@1");
}

/* Nothing ahead, nothing freed after the forward: three gathers, each alone. */
TEST(weights_may_stay_until_their_backward)
{
    struct tiny t;
    char text[ROOM];

    tiny_init(&t);
    struct lw_plan p = plan_of_words(&t.w, "dp 2 zero 3 prefetch 0 reshard off");
    assert_string_equal(tiny_ops(&p, "first", text, sizeof text),
                        "+05/400 AG05/400 Ew F0:1 +14/808 AG14/808 Ew F1:2 +23/1200 AG23/1200 "
                        "Ew F2:3 +0/1200 B2:5 Ci/1200 RS0/1200 -0/1200 B2:1 -23/1200 +1/808 B1:2 "
                        "Ci/8 B1:2 -14/808 Ci/800 RS1/808 -1/808 +2/400 B0:2 -05/400 Ci/400 "
                        "RS2/400 -2/400 Ew O:3");
    lw_plan_free(&p);
}

static void expect_variant(const struct lw_plan *p, const char *variant, const char *ops)
{
    char text[ROOM];

    assert_string_equal(tiny_ops(p, variant, text, sizeof text), ops);
}

/* Gathered once per step: by the first pass that does not synchronise, and freed by the one that
 * does. */
TEST(weights_stay_over_passes_without_synchronisation)
{
    struct tiny t;
    struct lw_strategy s = strategy("dp 2 zero 3 prefetch 0 reshard off no-sync 3");

    tiny_init(&t);
    struct lw_plan p = build(&t, &s);
    expect_variant(&p, "accumulate",
                   "+05/400 AG05/400 Ew F0:1 +14/808 AG14/808 Ew F1:2 +23/1200 AG23/1200 Ew F2:3 "
                   "B2:5 B2:1 B1:2 B1:2 B0:2");
    expect_variant(&p, "accumulate, weights held", "F0:1 F1:2 F2:3 B2:5 B2:1 B1:2 B1:2 B0:2");
    expect_variant(&p, "first", "F0:1 F1:2 F2:3 B2:5 Ci/1200 RS0/1200 B2:1 -23/1200 B1:2 Ci/8 B1:2 "
                                "-14/808 Ci/800 RS1/808 B0:2 -05/400 Ci/400 RS2/400 Ew O:3");
    assert_int_equal(p.n_passes, 4);
    assert_string_equal(p.variants[p.pass_variant[0]].name, "accumulate");
    for (int32_t i = 1; i < 3; i++)
        assert_string_equal(p.variants[p.pass_variant[i]].name, "accumulate, weights held");
    lw_plan_free(&p);
    given(&s, "reshard", "on");
    p = build(&t, &s);
    assert_int_equal(find_variant(&p, "accumulate, weights held"), -1);
    lw_plan_free(&p);
}

/* Two micro-batches of one synchronised pass, without a pipeline: each is reduced, and its weights
 * are freed. In two micro-batches of one pass under no_sync they stay. */
TEST(weights_stay_where_micro_batches_are_reduced_together)
{
    static const struct {
        int64_t no_sync;
        int n_gathers;
    } cases[] = {{0, 6}, {1, 0}};
    struct tiny t;
    struct lw_strategy s = strategy("dp 2 zero 3 reshard off micro-batches 2");

    tiny_init(&t);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        s.no_sync = cases[c].no_sync;
        struct lw_plan p = build(&t, &s);
        struct lw_program g = lw_plan_program(&p, find_variant(&p, "first"), 0);
        int n = 0;
        for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++)
            n += p.ops[i].kind == LW_OP_ALL_GATHER;
        assert_int_equal(n, cases[c].n_gathers);
        lw_plan_free(&p);
    }
}

/* Two groups of two: shares of halves, and their sums over the two groups, which hold replicas.
 * Bytes of a sum are those of a share. */
TEST(groups_sum_their_shares_over_replicas)
{
    struct tiny t;
    struct lw_strategy s = strategy("dp 4 zero 3 zero-group 2 prefetch 0 reshard off");

    tiny_init(&t);
    expect(&t, &s,
           "+05/400 AG05/400 Ew F0:1 +14/808 AG14/808 Ew F1:2 +23/1200 AG23/1200 Ew F2:3 +0/1200 "
           "B2:5 Ci/1200 RS0/1200 AR0/600 -0/1200 B2:1 -23/1200 +1/808 B1:2 Ci/8 B1:2 -14/808 "
           "Ci/800 RS1/808 AR1/404 -1/808 +2/400 B0:2 -05/400 Ci/400 RS2/400 AR2/200 -2/400 Ew O:3",
           "0:0+50@0 0:50+50@1 1:0+101@0 1:101+99@1 2:0+2@1 3:0+150@0 3:150+150@1");
    struct lw_plan p = build(&t, &s);
    for (int32_t r = 0; r < 4; r++) {
        const struct lw_group *data = lw_plan_group(&p, 0, r), *copies = lw_plan_group(&p, 1, r);
        assert_int_equal(p.comms[1].purpose, LW_COMM_REPLICAS);
        assert_int_equal(p.members[data->first_member], r < 2 ? 0 : 2);
        assert_int_equal(p.members[copies->first_member], r % 2);
        assert_int_equal(copies->n_members, 2);
    }
    lw_plan_free(&p);
}

/* --late-replicas: the same ops; the sums over the replicas follow the last backward, and the room
 * of what was scattered is given back as before. */
TEST(late_replicas_meet_after_the_backward)
{
    struct tiny t;
    struct lw_strategy s = strategy("dp 4 zero 3 zero-group 2 prefetch 0 reshard off "
                                    "late-replicas on");

    tiny_init(&t);
    expect(&t, &s,
           "+05/400 AG05/400 Ew F0:1 +14/808 AG14/808 Ew F1:2 +23/1200 AG23/1200 Ew F2:3 +0/1200 "
           "B2:5 Ci/1200 RS0/1200 -0/1200 B2:1 -23/1200 +1/808 B1:2 Ci/8 B1:2 -14/808 "
           "Ci/800 RS1/808 -1/808 +2/400 B0:2 -05/400 Ci/400 RS2/400 -2/400 AR0/600 AR1/404 "
           "AR2/200 Ew O:3",
           "0:0+50@0 0:50+50@1 1:0+101@0 1:101+99@1 2:0+2@1 3:0+150@0 3:150+150@1");
}

static bool waits_for(const struct lw_plan *p, const struct lw_op *op, const struct lw_op *other)
{
    for (int32_t i = 0; i < op->n_deps; i++)
        if (p->deps[op->first_dep + i] == other - p->ops)
            return true;
    return false;
}

/* Each of them waits for its own scatter and for the last compute op of the backward; the last
 * micro-batch's alone, or with --sync-each-micro-batch those of each. A cast of the sum follows. */
TEST(late_replicas_wait_for_the_backward)
{
    static const struct { const char *words; int32_t n_sums; } cases[] = {
        {"dp 4 zero 3 zero-group 2", 3},
        {"dp 6 zero 3 zero-group 3 micro-batches 2", 3},
        {"dp 4 zero 3 zero-group 2 micro-batches 3 sync-each-micro-batch on", 9},
        {"dp 4 zero 3 zero-group 2 comm-hook fp16", 3},
        {"dp 4 zero 2 zero-group 2 bucket-policy single", 1}};
    struct tiny t;

    tiny_init(&t);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char words[160];
        snprintf(words, sizeof words, "%s late-replicas on", cases[k].words);
        struct lw_plan p = plan_of_words(&t.w, words);
        int32_t n_sums = 0;
        for (int32_t i = 0; i < p.n_ops; i++) {
            const struct lw_op *op = &p.ops[i], *scatter = op, *last = op, *copy = op;
            if (op->kind != LW_OP_ALL_REDUCE)
                continue;
            n_sums++;
            while (copy->kind != LW_OP_COPY_IN)
                copy--;
            while (scatter->kind != LW_OP_REDUCE_SCATTER || scatter->bucket != op->bucket)
                scatter--;
            while (last->stream != copy->stream)
                last--;
            assert_true(waits_for(&p, op, scatter));
            assert_true(waits_for(&p, op, last));
            assert_int_equal(op->n_deps, 2);
        }
        assert_int_equal(n_sums, cases[k].n_sums);
        lw_plan_free(&p);
    }
}

/* Rounds are summed in the group, and over the replicas once. */
TEST(replicas_meet_after_the_last_micro_batch)
{
    struct tiny t;

    tiny_init(&t);
    struct lw_plan p = plan_of_words(
        &t.w, "dp 4 zero 2 micro-batches 3 zero-group 2 bucket-policy single");
    int n_scatters = 0, n_sums = 0;
    for (int32_t i = 0; i < p.n_ops; i++) {
        n_scatters += p.ops[i].kind == LW_OP_REDUCE_SCATTER;
        n_sums += p.ops[i].kind == LW_OP_ALL_REDUCE;
        assert_true(p.ops[i].kind != LW_OP_ALL_REDUCE || p.ops[i].micro_batch == 2);
    }
    assert_int_equal(n_scatters, 3);
    assert_int_equal(n_sums, 1);
    lw_plan_free(&p);
}

/* --sync-each-micro-batch: as FSDP does without no_sync, each round is summed over the replicas. */
TEST(replicas_meet_in_every_micro_batch)
{
    static const char *const zero[] = {"dp 4 zero 2 zero-group 2 bucket-policy single",
                                       "dp 4 zero 3 zero-group 2",
                                       "dp 6 zero 3 zero-group 2 reshard off"};
    struct tiny t;

    tiny_init(&t);
    for (size_t k = 0; k < sizeof zero / sizeof *zero; k++) {
        char words[128];
        snprintf(words, sizeof words, "%s micro-batches 3 sync-each-micro-batch on", zero[k]);
        struct lw_plan p = plan_of_words(&t.w, words);
        int n_scatters = 0, n_sums[3] = {0};
        for (int32_t i = 0; i < p.n_ops; i++) {
            n_scatters += p.ops[i].kind == LW_OP_REDUCE_SCATTER;
            if (p.ops[i].kind == LW_OP_ALL_REDUCE)
                n_sums[p.ops[i].micro_batch]++;
        }
        for (int m = 0; m < 3; m++)
            assert_int_equal(3 * n_sums[m], n_scatters);
        assert_true(n_scatters > 0);
        lw_plan_free(&p);
    }
}

/* A free waits on its stream for what it follows, so that it follows its stream's own: the next
 * gather never waits for the sum over the replicas. After a reduce-scatter that is the share's
 * alone; where the whole bucket is summed or cast, the bucket is freed after it. */
TEST(a_free_of_gradients_holds_up_no_stream)
{
    static const struct {
        const char *words;
        enum lw_op_kind before;
    } cases[] = {{"dp 4 zero 3 zero-group 2", LW_OP_REDUCE_SCATTER},
                 {"dp 4 zero 2 zero-group 2", LW_OP_REDUCE_SCATTER},
                 {"dp 6 zero 3 zero-group 3 micro-batches 2", LW_OP_REDUCE_SCATTER},
                 {"dp 4 zero 3", LW_OP_REDUCE_SCATTER},
                 {"dp 4 zero 3 zero-group 2 comm-hook fp16", LW_OP_CAST}};
    struct tiny t;

    tiny_init(&t);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct lw_plan p = plan_of_words(&t.w, cases[k].words);
        int n = 0;
        for (int32_t i = 0; i < p.n_ops; i++) {
            const struct lw_op *op = &p.ops[i], *before = op - 1;
            if (op->kind != LW_OP_FREE || strcmp(op->name, "gradients") != 0)
                continue;
            n++;
            while (before->stream != op->stream)
                before--;
            assert_int_equal(op->n_deps, 1);
            assert_int_equal(p.deps[op->first_dep], before - p.ops);
            assert_int_equal(before->kind, cases[k].before);
            assert_int_equal(before->bucket, op->bucket);
        }
        assert_true(n > 0);
        lw_plan_free(&p);
    }
}

/* b is a block; a.weight and c.weight are the root unit (bucket 1, weights 3): gathered once, freed
 * after the backward, reduced last. Its shares are of 400 elements. */
TEST(the_root_unit_is_gathered_once)
{
    struct tiny t;
    struct lw_strategy s = strategy("dp 2 zero 3 prefetch 0 root-unit on");

    tiny_init(&t);
    t.modules[1].tp_split = LW_TP_BLOCK;
    expect(&t, &s,
           "+03/1600 AG03/1600 Ew F0:1 +12/808 AG12/808 Ew F1:2 -12/808 F2:3 +1/1600 B2:5 Ci/1200 "
           "B2:1 +12/808 AG12/808 Ew +0/808 B1:2 Ci/8 B1:2 -12/808 Ci/800 RS0/808 -0/808 B0:2 "
           "Ci/400 RS1/1600 -1/1600 -03/1600 Ew O:3",
           "0:0+100@0 1:0+101@0 1:101+99@1 2:0+2@1 3:0+100@0 3:100+200@1");
}

/* Without a block all 602 elements are the root's, in the order of their registration: shares of
 * 301. */
TEST(without_blocks_all_modules_are_the_root_unit)
{
    struct tiny t;
    struct lw_strategy s = strategy("dp 2 zero 3 prefetch 0 root-unit on");

    tiny_init(&t);
    expect(&t, &s,
           "+01/2408 AG01/2408 Ew F0:1 F1:2 F2:3 +0/2408 B2:5 Ci/1200 B2:1 B1:2 Ci/8 B1:2 Ci/800 "
           "B0:2 Ci/400 RS0/2408 -0/2408 -01/2408 Ew O:3",
           "0:0+100@0 1:0+200@0 2:0+1@0 2:1+1@1 3:0+300@1");
}

/* b.weight is frozen: a unit of its own (bucket 6), gathered with b's other one in forward and
 * backward, cut into shares, without gradients. */
TEST(frozen_weights_are_gathered_and_never_reduced)
{
    struct tiny t;
    struct lw_strategy s = zero(3);

    tiny_init(&t);
    freeze(&t.w, B_WEIGHT);
    expect(&t, &s,
           "+05/400 AG05/400 +14/8 AG14/8 +16/800 AG16/800 Ew F0:1 -05/400 +23/1200 AG23/1200 Ew "
           "F1:2 -14/8 -16/800 Ew F2:3 +14/8 AG14/8 +16/800 AG16/800 +0/1200 B2:5 Ci/1200 RS0/1200 "
           "-0/1200 B2:1 -23/1200 +05/400 AG05/400 Ew +1/8 B1:2 Ci/8 RS1/8 -1/8 B1:2 -14/8 -16/800 "
           "Ew +2/400 B0:2 -05/400 Ci/400 RS2/400 -2/400 Ew O:3",
           "0:0+50@0 0:50+50@1 1:0+100@0 1:100+100@1 2:0+1@0 2:1+1@1 3:0+150@0 3:150+150@1");
}

/* c is a head whose one weight is a.weight, of 100 elements. */
static void tie(struct tiny *t)
{
    tiny_init(t);
    t->params[C_WEIGHT].numel = 100;
    t->params[C_WEIGHT].tied = A_WEIGHT;
    t->w.n_ready = 3;
    memmove(t->order, t->order + 1, 3 * sizeof *t->order);
}

/* Units b and a (weights 2 and 3). c uses a's: it is gathered again beside b's forward, stays until
 * c's backward is over and is gathered a third time for its own. One reduction brings the gradients
 * of both modules, which have room from c's backward on. With --reshard off one gather is
 * enough. */
TEST(a_tied_weight_is_gathered_for_each_of_its_modules)
{
    struct tiny t;
    struct lw_strategy s = zero(3);
    const char *shards = "0:0+50@0 0:50+50@1 1:0+101@0 1:101+99@1 2:0+2@1";

    tie(&t);
    expect(&t, &s,
           "+03/400 AG03/400 +12/808 AG12/808 Ew F0:1 -03/400 +03/400 AG03/400 Ew F1:2 -12/808 Ew "
           "F2:3 +12/808 AG12/808 +1/400 B2:6 -03/400 +03/400 AG03/400 Ew +0/808 B1:2 Ci/8 B1:2 "
           "-12/808 Ci/800 RS0/808 -0/808 Ew B0:2 -03/400 Ci/400 RS1/400 -1/400 Ew O:3",
           shards);
    s.reshard = false;
    expect(&t, &s,
           "+03/400 AG03/400 +12/808 AG12/808 Ew F0:1 Ew F1:2 F2:3 +1/400 B2:6 +0/808 B1:2 Ci/8 "
           "B1:2 -12/808 Ci/800 RS0/808 -0/808 B0:2 -03/400 Ci/400 RS1/400 -1/400 Ew O:3",
           shards);
}

/* Modules whose parameters are all tied to the first one's: the backward of the last module takes
 * room for all gradients, and no other one takes any. */
TEST(many_tied_parameters_have_one_gradient_each)
{
    enum { MODULES = 30, EACH = 60, N = MODULES * EACH };
    struct lw_module modules[MODULES];
    struct lw_param params[N];
    struct lw_workload w = {.name = "tied", .modules = modules, .n_modules = MODULES,
                            .params = params, .n_params = N, .batch = 1, .optimizer_ps = 1};
    struct lw_strategy s = zero(2);
    struct lw_err err = {0};
    struct lw_plan p;
    int32_t n_room = 0, n_backwards = 0, at_first = 0;

    for (int32_t m = 0; m < MODULES; m++)
        modules[m] = tiny_module("m", 1);
    for (int32_t i = 0; i < N; i++) {
        params[i] = tiny_param("p", 10 + i % EACH, i / EACH, -1);
        params[i].ready_ps = -1;
        params[i].tied = i < EACH ? -1 : i % EACH;
    }
    w.from.rank = w.from.step = -1;
    s.bucket_cap_bytes = 400;
    assert_ok(lw_plan_build(&w, &s, NULL, &p, &err), err);
    for (int32_t i = 0; i < N; i++)
        assert_int_equal(p.params[i].tied, params[i].tied);
    for (int32_t i = p.programs[0].first_op; i < p.programs[0].first_op + p.programs[0].n_ops;
         i++) {
        n_room += p.ops[i].kind == LW_OP_ALLOC;
        if (p.ops[i].kind == LW_OP_BACKWARD && n_backwards++ == 0)
            at_first = n_room;
    }
    assert_true(n_backwards >= MODULES && at_first > 10);
    assert_int_equal(n_room, at_first);
    lw_plan_free(&p);
}

/* --- the check -------------------------------------------------------------------------------- */

static struct lw_plan build_third(void)
{
    struct tiny t;
    struct lw_strategy s = zero(3);

    tiny_init(&t);
    return build(&t, &s);
}

static void replace_op(struct lw_op *op, enum lw_op_kind kind)
{
    op->kind = kind;
    op->bytes = 0;
    op->bucket = -1;
}

TEST(faults_around_gathered_weights_are_named)
{
    struct lw_plan p = build_third();
    int32_t op;

    op = find_op(&p, LW_OP_EVENT_WAIT, 0); /* of module a's unit */
    p.ops[op].n_deps = 0;
    plan_faulty(
        &p,
        "op 5 (forward, module 0) of 'first' for role 'data' does not wait for op 1 (all_gather");

    p = build_third();
    op = find_op(&p, LW_OP_ALL_GATHER, 3); /* b, for its backward: not before it was freed */
    p.ops[find_op(&p, LW_OP_ALLOC, 3)].n_deps = 0;
    plan_faulty(&p, "does not wait for");

    p = build_third();
    replace_op(&p.ops[find_op(&p, LW_OP_ALL_GATHER, 4)], LW_OP_BARRIER); /* a, for its backward */
    plan_faulty(&p,
                 "(backward, module 0) of 'first' for role 'data' uses weights that are freed by");

    p = build_third();
    op = find_op(&p, LW_OP_FREE, 4); /* a stays over the optimizer */
    p.ops[op].kind = LW_OP_ALLOC;
    plan_faulty(&p, "makes weights stale that are not freed");
}

/* c's weight is a's: without its second gather it is not there in c's forward; and c's forward does
 * not wait for that gather. */
TEST(faults_around_tied_weights_are_named)
{
    const char *freed = "(forward, module 2) of 'first' for role 'data' uses weights that are "
                        "freed by op 6 (free, bucket 3)";
    struct tiny t;
    struct lw_strategy s = zero(3);

    tie(&t);
    struct lw_plan p = build(&t, &s);
    replace_op(&p.ops[find_op(&p, LW_OP_ALL_GATHER, 2)], LW_OP_BARRIER);
    plan_faulty(&p, freed);

    p = build(&t, &s);
    p.ops[find_op(&p, LW_OP_EVENT_WAIT, 2)].n_deps = 0;
    plan_faulty(&p, "(forward, module 2) of 'first' for role 'data' does not wait for op 8 "
                     "(all_gather");
}

/* A backward writes into a bucket while it has room: c's too, whose weight is a's. */
TEST(faults_around_room_for_gradients_are_named)
{
    struct tiny t;
    struct lw_strategy s = zero(3);

    tie(&t);
    struct lw_plan p = build(&t, &s);
    replace_op(&p.ops[find_op(&p, LW_OP_ALLOC, 4)], LW_OP_EVENT_WAIT);
    plan_faulty(&p, "(backward, module 2) of 'first' for role 'data' writes gradients before they "
                     "have room");

    p = build(&t, &s); /* instead of b's weights, a's gradient */
    p.ops[find_op(&p, LW_OP_FREE, 3)].bucket = p.ops[find_op(&p, LW_OP_FREE, 6)].bucket;
    plan_faulty(&p, "(backward, module 0) of 'first' for role 'data' writes gradients whose room "
                     "is freed by op ");

    p = build(&t, &s);
    p.ops[find_op(&p, LW_OP_ALLOC, 6)].kind = LW_OP_FREE;
    plan_faulty(&p, "(free, bucket 0) of 'first' for role 'data' frees room that was not taken");

    p = build(&t, &s);
    p.ops[find_op(&p, LW_OP_FREE, 4)].kind = LW_OP_ALLOC;
    plan_faulty(&p, "takes room that the bucket has since op");
}

/* Over passes too: of one that holds weights, what the others do. */
TEST(faults_around_held_weights_are_named)
{
    struct tiny t;
    struct lw_strategy s = strategy("dp 2 zero 3 reshard off no-sync 2");

    tiny_init(&t);
    struct lw_plan p = build(&t, &s);
    p.pass_variant[0] = find_variant(&p, "accumulate, weights held");
    plan_faulty(&p, "(forward, module 0) of 'accumulate, weights held' for role 'data' uses "
                     "weights that were never gathered");

    p = build(&t, &s);
    p.pass_variant[1] = find_variant(&p, "accumulate");
    plan_faulty(&p, "variant 'accumulate': the weights of bucket 3 are gathered before one pass "
                     "of it, and not before another");

    p = build(&t, &s);
    p.ops[find_op(&p, LW_OP_FREE, 0)].kind = LW_OP_ALLOC; /* its weights then stay */
    plan_faulty(&p, "sends weights: no optimizer comes before it");
}

static struct lw_plan build_groups(void)
{
    struct tiny t;

    tiny_init(&t);
    return plan_of_words(&t.w, "dp 4 zero 2 zero-group 2 bucket-policy single");
}

TEST(faults_around_replicas_are_named)
{
    struct lw_plan p = build_groups();
    struct lw_op *sum = &p.ops[find_op(&p, LW_OP_ALL_REDUCE, 0)];

    p.operands[p.operand_first[sum->operand] + 3].offset = 0;
    plan_faulty(&p, "rank 3 sums 1204 bytes of f32 from byte 0 of the bucket; it holds the 1204 "
                     "bytes of f32 from byte 1204");

    p = build_groups();
    sum = &p.ops[find_op(&p, LW_OP_ALL_REDUCE, 0)];
    sum->kind = LW_OP_BARRIER;
    sum->bytes = 0;
    sum->bucket = sum->operand = -1;
    plan_faulty(&p, "updates before bucket 0 is summed over the replicas");

    p = build_groups();
    sum = &p.ops[find_op(&p, LW_OP_ALL_REDUCE, 0)];
    struct lw_op *scatter = &p.ops[find_op(&p, LW_OP_REDUCE_SCATTER, 0)], was = *sum;
    sum->comm = scatter->comm; /* over the data group again */
    plan_faulty(&p, "has already reduced this bucket");

    p = build_groups();
    sum = &p.ops[find_op(&p, LW_OP_ALL_REDUCE, 0)];
    int32_t *members = p.members + lw_plan_group(&p, was.comm, 0)->first_member;
    int32_t *others = p.members + lw_plan_group(&p, was.comm, 1)->first_member;
    int32_t *of = p.comm_group + (int64_t)was.comm * p.n_ranks, mine = of[2];
    members[1] = 3; /* rank 0 with 3, rank 1 with 2 */
    others[1] = 2;
    of[2] = of[3];
    of[3] = mine;
    plan_faulty(&p, "ranks 0 and 3 sum over replicas, but are not the same member of two data "
                     "groups");
}

TEST(a_share_in_the_wrong_hands_is_named)
{
    struct lw_plan p = build_third();

    p.shards[0].owner = 1;
    plan_faulty(&p, "belong to member 1, but lie in the share of member 0");
}

/* --- exec ------------------------------------------------------------------------------------- */

static struct lw_exec_options options(void)
{
    struct lw_exec_options o = lw_exec_options_default();

    o.compute = EXEC_COMPUTE_SPIN;
    o.n_steps = 2;
    o.n_warmup = 1;
    o.optimizer = exec_optimizer_of(EXEC_ADAM);
    o.timeout_ns = INT64_C(20) * 1000000000;
    return o;
}

static void run_verified(const struct tiny *t, const struct lw_strategy *s, int64_t n_checked)
{
    struct lw_exec_options o = options();
    struct lw_exec_result r;
    struct lw_err err = {0};
    struct lw_plan p = build(t, s);

    if (lw_exec_run(&p, &o, &r, &err) != LW_OK)
        fail_msg("%s: %s", p.name, err.msg);
    assert_int_equal(r.verified, LW_EXEC_VERIFIED);
    assert_int_equal(r.n_checked_bytes, n_checked);
    lw_exec_result_free(&r);
    lw_plan_free(&p);
}

/* ZeRO-2: weights on every rank, two moments once over all. ZeRO-3: weights once over all too, but
 * for those below 150 elements. */
TEST(sharded_runs_end_like_one_rank)
{
    struct tiny t;

    tiny_init(&t);
    for (int64_t dp = 2; dp <= 4; dp++)
        for (int64_t passes = 1; passes <= 2; passes++) {
            struct lw_strategy s = zero(2);
            s.dp = dp;
            s.micro_batches = passes;
            s.no_sync = passes - 1;
            s.bucket_cap_bytes = 1200;
            run_verified(&t, &s, 602 * 4 * (dp + 2));
            s = zero(3);
            s.dp = dp;
            s.micro_batches = passes;
            s.no_sync = passes - 1;
            run_verified(&t, &s, 602 * 4 * 3);
            s.prefetch_elements = 203;
            run_verified(&t, &s, 602 * 4 * 3);
            s.live_elements = 302;
            run_verified(&t, &s, 602 * 4 * 3);
            s.persist = 150;
            s.reshard = passes == 1;
            run_verified(&t, &s, 602 * 4 * 3 + 102 * 4 * (dp - 1));
        }
}

/* Owners of the same share have the same sum of the micro-batches before: counted once, whatever
 * the number of replicas. Checked are weights of every rank with ZeRO-2, or of each replica, and
 * two states of each replica. */
TEST(replicas_summed_in_every_micro_batch_end_like_one_rank)
{
    struct tiny t;

    tiny_init(&t);
    for (int stage = 2; stage <= 3; stage++)
        for (int dp = 4; dp <= 6; dp += 2) {
            struct lw_strategy s = zero(stage);
            s.dp = dp;
            given(&s, "zero-group", "2");
            given(&s, "micro-batches", "3");
            given(&s, "sync-each-micro-batch", "on");
            run_verified(&t, &s, 602 * 4 * (stage == 2 ? dp + dp / 2 * 2 : dp / 2 * 3));
        }
}

/* The head has the weight of the first module, or the first module that of the head. */
TEST(tied_weights_end_like_one_rank)
{
    static const char *const words[][2] = {{"reshard", "off"}, {"prefetch", "0"},
                                           {"prefetch", "3"},  {"micro-batches", "2"},
                                           {"no-sync", "1"},   {"zero-group", "2"},
                                           {"recompute", "full"}};
    struct tiny t;

    for (size_t i = 0; i < 2 * (sizeof words / sizeof *words); i += (size_t)unit_cases(3, 1)) {
        struct lw_strategy s = zero(3);
        tie(&t);
        if (i % 2) {
            t.params[A_WEIGHT].module = 2;
            t.params[C_WEIGHT].module = 0;
        }
        s.dp = 4;
        given(&s, words[i / 2][0], words[i / 2][1]);
        run_verified(&t, &s, 302 * 4 * 3 * (strcmp(words[i / 2][0], "zero-group") ? 1 : 2));
        freeze(&t.w, A_WEIGHT);
        t.params[C_WEIGHT].trainable = false;
        t.params[C_WEIGHT].ready_ps = -1;
        run_verified(&t, &s, (202 * 3 + 100) * 4 *
                                 (strcmp(words[i / 2][0], "zero-group") ? 1 : 2));
    }
}

/* The check is left out: the head's forward finds what the first module's left behind. */
TEST(a_tied_weight_that_is_not_there_is_found_by_the_run)
{
    struct lw_exec_options o = options();
    struct lw_exec_result r;
    struct lw_err err = {0};
    struct tiny t;
    struct lw_strategy s = zero(3);

    tie(&t);
    struct lw_plan p = build(&t, &s);
    struct lw_op *op = &p.ops[find_op(&p, LW_OP_ALL_GATHER, 2)];
    op->kind = LW_OP_BARRIER;
    op->bytes = 0;
    op->bucket = -1;
    assert_int_equal(lw_exec_run(&p, &o, &r, &err), LW_EFAILED);
    if (!strstr(err.msg, "weights of f32 are used after they were freed"))
        fail_msg("%s", err.msg);
    lw_exec_result_free(&r);
    lw_plan_free(&p);
}

/* Weights once over all ranks, with two moments, whatever passes gather them. */
TEST(held_weights_end_like_one_rank)
{
    struct tiny t;

    tiny_init(&t);
    for (int64_t no_sync = 1; no_sync <= 3; no_sync++)
        for (int64_t micro_batches = 1; micro_batches <= 2; micro_batches++) {
            struct lw_strategy s = zero(3);
            s.no_sync = no_sync;
            s.micro_batches = micro_batches;
            s.reshard = false;
            run_verified(&t, &s, 602 * 4 * 3);
        }
}

/* Two groups of two, and three: each holds weights, or both moments, once. */
TEST(replicas_end_like_one_rank)
{
    static const struct {
        int64_t zero, no_sync, micro_batches;
        const char *hook;
    } cases[] = {{1, 0, 1, "none"}, {1, 1, 2, "none"}, {2, 0, 3, "none"}, {2, 1, 1, "fp16"},
                 {3, 0, 1, "none"}, {3, 0, 2, "none"}, {3, 2, 2, "none"}};
    struct tiny t;

    tiny_init(&t);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int64_t groups = 2; groups <= 3; groups++) {
            struct lw_strategy s = zero(cases[i].zero);
            s.dp = 2 * groups;
            given(&s, "zero-group", "2");
            s.no_sync = cases[i].no_sync;
            s.micro_batches = cases[i].micro_batches;
            s.clip = i % 2 ? 1.5 : 0;
            given(&s, "comm-hook", cases[i].hook);
            run_verified(&t, &s, 602 * 4 * groups * (s.zero == 3 ? 3 : 2 + 2));
        }
}

TEST(a_root_unit_ends_like_one_rank)
{
    struct tiny t;

    tiny_init(&t);
    t.modules[1].tp_split = LW_TP_BLOCK;
    for (int64_t passes = 1; passes <= 3; passes++) {
        struct lw_strategy s = zero(3);
        s.micro_batches = passes;
        s.no_sync = passes - 1;
        s.reshard = passes < 3;
        s.root_unit = true;
        run_verified(&t, &s, 602 * 4 * 3);
    }
}

/* Shares of the frozen 200 elements are what they were; the others have two moments. */
TEST(frozen_weights_come_back_unchanged)
{
    struct tiny t;

    for (int64_t dp = 2; dp <= 3; dp++) {
        struct lw_strategy s = zero(3);
        tiny_init(&t);
        freeze(&t.w, B_WEIGHT);
        s.dp = dp;
        run_verified(&t, &s, 402 * 4 * 3 + 200 * 4);
        t.params[B_WEIGHT].dtype = LW_BF16;
        s.prefetch = 0;
        run_verified(&t, &s, 402 * 4 * 3 + 200 * 2);
        freeze(&t.w, C_WEIGHT);
        freeze(&t.w, B_BIAS);
        s.reshard = false;
        run_verified(&t, &s, 100 * 4 * 3 + 200 * 2 + 302 * 4);
    }
}

TEST(gradients_go_to_owners_under_zero_2_as_well)
{
    struct tiny t;
    struct lw_strategy s = strategy("dp 2 zero 2 shard-policy oss-greedy");

    tiny_init(&t);
    run_verified(&t, &s, 602 * 4 * (2 + 2));
}

/* 0 elements: in the middle of a unit, alone in one, and a module without any. */
TEST(parameters_without_elements_take_part)
{
    for (int stage = 1; stage <= 3; stage++)
        for (int which = 0; which < 4; which++) {
            struct lw_strategy s = zero(stage);
            struct tiny t;
            tiny_init(&t);
            t.params[which].numel = 0;
            s.bucket_cap_bytes = stage < 3 ? 400 : -1;
            struct lw_plan p = build(&t, &s);
            struct lw_exec_options o = options();
            struct lw_exec_result r;
            struct lw_err err = {0};
            if (lw_exec_run(&p, &o, &r, &err) != LW_OK)
                fail_msg("stage %d, parameter %d: %s", stage, which, err.msg);
            assert_int_equal(r.verified, LW_EXEC_VERIFIED);
            lw_exec_result_free(&r);
            lw_plan_free(&p);
        }
}

static int32_t n_scattered(const struct lw_strategy *s)
{
    struct tiny t;
    int32_t n = 0;

    tiny_init(&t);
    struct lw_plan p = build(&t, s);
    for (int32_t i = 0; i < p.n_passes; i++) {
        struct lw_program g = lw_plan_program(&p, p.pass_variant[i], 0);
        for (int32_t k = g.first_op; k < g.first_op + g.n_ops; k++)
            n += p.ops[k].kind == LW_OP_REDUCE_SCATTER;
    }
    lw_plan_free(&p);
    return n;
}

/* Three units, four micro-batches: torch's FSDP reduces each unit in every one of them, and once
 * under no_sync. ZeRO-1 reduces once. */
TEST(every_micro_batch_is_reduced)
{
    struct lw_strategy s = strategy("dp 2 zero 3 micro-batches 4");
    assert_int_equal(n_scattered(&s), 12);
    s.micro_batches = 1;
    s.no_sync = 3;
    assert_int_equal(n_scattered(&s), 3);
    s = zero(1);
    s.micro_batches = 4;
    assert_int_equal(n_scattered(&s), 1);
}

/* Gradients of ZeRO-2 and 3 have room for one micro-batch at a time; owners add the sums up. */
TEST(owners_add_up_what_micro_batches_bring)
{
    struct tiny t;

    tiny_init(&t);
    for (int64_t stage = 2; stage <= 3; stage++)
        for (int64_t dp = 2; dp <= 3; dp++) {
            struct lw_strategy s = zero(stage);
            s.dp = dp;
            s.micro_batches = 3;
            run_verified(&t, &s, 602 * 4 * (stage == 2 ? dp + 2 : 3));
            given(&s, "overlap", "off");
            run_verified(&t, &s, 602 * 4 * (stage == 2 ? dp + 2 : 3));
        }
}

/* The first of two reductions of unit c is lost: the second copy would write over what it held. */
TEST(a_reduction_that_is_lost_is_named)
{
    struct lw_exec_options o = options();
    struct lw_exec_result r;
    struct lw_err err = {0};
    struct tiny t;

    tiny_init(&t);
    struct lw_plan p = plan_of_words(&t.w, "dp 2 zero 3 micro-batches 2");
    struct lw_op *op = &p.ops[find_op(&p, LW_OP_REDUCE_SCATTER, 0)];
    op->kind = LW_OP_BARRIER;
    op->bytes = 0;
    op->bucket = -1;
    assert_int_equal(lw_plan_check(&p, &err), LW_EPLAN);
    if (!strstr(err.msg, "makes the gradient of parameter 3 'c.weight' before its copy is reduced"))
        fail_msg("%s", err.msg);
    assert_int_not_equal(lw_exec_run(&p, &o, &r, &err), LW_OK);
    lw_exec_result_free(&r);
    lw_plan_free(&p);
}

/* The check is left out: module b's backward finds what its forward left behind. */
TEST(weights_that_are_not_there_are_found_by_the_run)
{
    struct lw_exec_options o = options();
    struct lw_exec_result r;
    struct lw_err err = {0};
    struct lw_plan p = build_third();

    for (int nth = 3; nth < 5; nth++) { /* the gathers for the backwards of b and a */
        int32_t op = find_op(&p, LW_OP_ALL_GATHER, 3);
        p.ops[op].kind = LW_OP_BARRIER;
        p.ops[op].bytes = 0;
        p.ops[op].bucket = -1;
    }
    assert_int_equal(lw_exec_run(&p, &o, &r, &err), LW_EFAILED);
    if (!strstr(err.msg, "weights of f32 are used after they were freed"))
        fail_msg("%s", err.msg);
    lw_exec_result_free(&r);
    lw_plan_free(&p);
}

/* --- refusals and properties ------------------------------------------------------------------ */

/* The default of --broadcast-dtype is f32, which narrows nothing. */
TEST(f64_weights_travel_as_they_are)
{
    struct tiny t;

    tiny_init(&t);
    for (int i = 0; i < 4; i++)
        t.params[i].dtype = LW_F64;
    for (int stage = 1; stage <= 3; stage++) {
        struct lw_strategy s = zero(stage);
        struct lw_plan p = build(&t, &s);
        int n = 0;
        for (int32_t b = 0; b < p.n_buckets; b++) {
            if (!lw_plan_is_weights(&p, b))
                continue;
            assert_int_equal(p.buckets[b].dtype, LW_F64);
            n++;
        }
        assert_true(n > 0);
        lw_plan_free(&p);
    }
}

TEST(elements_and_units_or_bytes_are_not_both_given)
{
    struct lw_strategy s = strategy("dp 2 zero 3 prefetch-bucket-size 5 prefetch 1");

    refused(&s, "--prefetch 1 counts units, --prefetch-bucket-size 5 elements");
    s = strategy("dp 2 zero 2 reduce-bucket-size 5 bucket-cap 20");
    refused(&s, "--reduce-bucket-size counts elements, --bucket-cap bytes");
}

TEST(contradictory_options_are_refused)
{
    static const struct {
        int64_t stage;
        const char *name, *value, *part;
    } cases[] = {
        {2, "prefetch", "1", "--prefetch needs --zero 3"},
        {1, "reshard", "off", "--reshard needs --zero 3"},
        {3, "late-replicas", "on", "--late-replicas on needs --zero-group"},
        {2, "bucket-policy", "c10d-1.13",
         "cuts buckets into shares: expected --bucket-policy per-tensor, single, deepspeed"},
        {3, "bucket-policy", "single", "of each module in one bucket"},
        {3, "bucket-cap", "1MiB", "of each module in one bucket"},
        {3, "shard-policy", "per-tensor", "flat-contiguous, not per-tensor"},
        {2, "prefetch-bucket-size", "5", "--prefetch-bucket-size needs --zero 3"},
        {3, "max-live-parameters", "5", "what --prefetch-bucket-size gathers ahead: give both"},
        {1, "max-live-parameters", "5", "--max-live-parameters needs --zero 3"},
        {0, "reduce-bucket-size", "5", "--reduce-bucket-size is of --bucket-policy deepspeed, not "
                                       "c10d-2; other policies have --bucket-cap"},
        {2, "shard-policy", "lpt", "cannot keep parameters whole"},
        {3, "shard-policy", "lpt", "cannot keep parameters whole"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lw_strategy s = zero(cases[i].stage);
        given(&s, cases[i].name, cases[i].value);
        refused(&s, cases[i].part);
    }
}

/* lw_plan_build proves each plan; here all elements have one owner each, in shares that differ by
 * padding alone. */
TEST(shares_of_random_models_tile_them)
{
    struct prng r = prng_start("shares of random models");
    struct tiny t;

    for (int round = 0; round < 200; round++) {
        struct lw_strategy s = zero(prng_in(&r, 2, 3));
        int64_t numel = 0, owned = 0;
        tiny_init(&t);
        for (int i = 0; i < 4; i++)
            numel += t.params[i].numel = prng_in(&r, 1, 500);
        s.dp = prng_in(&r, 2, 7);
        if (s.zero == 2)
            s.bucket_cap_bytes = 4 * prng_in(&r, 0, 899);
        else
            s.persist = prng_in(&r, 0, 399);
        struct lw_plan p = build(&t, &s);
        for (int32_t i = 0; i < p.n_shards; i++)
            owned += p.shards[i].numel;
        assert_int_equal(owned, numel);
        lw_plan_free(&p);
    }
}

TEST(running_out_of_memory_leaves_nothing)
{
    struct tiny t;
    struct lw_strategy s = zero(3);

    tiny_init(&t);
    assert_true(build_without_memory(&t.w, &s, NULL) > 20);
}

/* Nothing of the last stage is trained: its shards have no runs, and no holder adds to the memory.
 * What malloc gives holds no zeros meanwhile. */
TEST(a_frozen_stage_has_the_memory_of_its_weights)
{
    mallopt(M_PERTURB, 0xa5);
    for (int64_t zero = 1; zero <= 2; zero++) {
        struct lw_strategy s = strategy("dp 4 pp 3 schedule 1f1b");
        struct tiny t;
        tiny_init(&t);
        t.params[C_WEIGHT].trainable = false;
        t.params[C_WEIGHT].ready_ps = -1;
        t.w.n_ready = 0;
        for (int32_t m = 0; m < t.w.n_modules; m++)
            t.w.modules[m].output_bytes = 64;
        s.zero = zero;
        struct lw_plan p = build(&t, &s);
        const int64_t *bytes = p.roles[2].static_bytes;
        assert_int_equal(bytes[LW_MEM_PARAMS], 300 * 4);
        for (int k = LW_MEM_PARAMS + 1; k < LW_N_MEM; k++)
            assert_int_equal(bytes[k], 0);
        lw_plan_free(&p);
    }
    mallopt(M_PERTURB, 0);
}

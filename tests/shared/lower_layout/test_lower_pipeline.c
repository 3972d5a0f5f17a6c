/* Pipelines lowered to programs: docs/design/lower_parallel.md. */
#include <stdio.h>
#include <string.h>
#include "tests/lib/unit.h"

#include "shared/base/arena.h"
#include "shared/lower/lower.h"
#include "shared/strategy/strategy.h"
#include "shared/workload/buffer.h"
#include "tests/lib/plans/strategy_words.h"
#include "tests/lib/plans/tiny_build.h"

enum { ROOM = 4096 };

static void init(struct tiny *t)
{
    tiny_init(t);
    for (int m = 0; m < 3; m++)
        t->modules[m].output_bytes = 1000 * (m + 1);
}

static struct lw_strategy two_stages(void)
{
    struct lw_strategy s = strategy("pp 2 micro-batches 2 bucket-cap 1200");

    return s;
}

/* Letter, module or bucket, '.' micro-batch of F, B, I, W and messages; '>' and '<' with the peer
 * of the role's first rank for sends and receives; bytes of communication after '/'. */
static const char *ops_of(const struct lw_plan *p, const char *variant, int32_t rank, char *text)
{
    struct lw_program g = lw_plan_program(p, find_variant(p, variant), rank);
    size_t at = 0;

    text[0] = 0;
    for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++) {
        const struct lw_op *o = &p->ops[i];
        struct lw_operand d = lw_plan_operand(p, o, rank);
        at += (size_t)snprintf(text + at, ROOM - at, "%s", i > g.first_op ? " " : "");
        if (lw_op_class(o->kind) == LW_CLASS_P2P)
            at += (size_t)snprintf(text + at, ROOM - at, "%c%d.%d/%lld",
                                   o->kind == LW_OP_SEND ? '>' : '<', d.peer, o->micro_batch,
                                   (long long)d.bytes);
        else if (lw_op_class(o->kind) == LW_CLASS_COMPUTE && o->module >= 0)
            at += (size_t)snprintf(text + at, ROOM - at, "%s%d.%d", lw_op_letter(o->kind),
                                   o->module, o->micro_batch);
        else if (o->comm >= 0)
            at += (size_t)snprintf(text + at, ROOM - at, "%s%d/%lld", lw_op_letter(o->kind),
                                   o->bucket, (long long)d.bytes);
        else
            at += (size_t)snprintf(text + at, ROOM - at, "%s", lw_op_letter(o->kind));
    }
    return text;
}

static void assert_ops(const struct lw_plan *p, const char *variant, int32_t rank,
                       const char *expected)
{
    char text[ROOM];

    assert_string_equal(ops_of(p, variant, rank, text), expected);
}

/* The worked example of docs/design/lower_parallel.md. Forward and backward of a, b, c take 3, 6
 * and 9 us, so the exact partition is a, b | c with 9 us each. By nominal times stage 0 runs F 0-3,
 * 3-6, B 11-16, 19-24; stage 1 runs F 3-6, B 6-11, F 11-14, B 14-19: the second activation, made at
 * 6, stands before stage 1's first forward, which ends then too: even ranks first. */
TEST(two_stages_of_1f1b_are_lowered_op_by_op)
{
    struct tiny t;
    struct lw_strategy s = two_stages();

    init(&t);
    struct lw_plan p = build(&t, &s);
    assert_int_equal(p.n_roles, 2);
    assert_int_equal(p.n_ranks, 2);
    assert_ops(&p, "first", 0,
               "F0.0 F1.0 >1.0/2000 F0.1 F1.1 >1.1/2000 <1.0/2000 B1.0 B1.0 B0.0 <1.1/2000 B1.1 "
               "B1.1 B0.1 O");
    assert_ops(&p, "first", 1,
               "<0.0/2000 <0.1/2000 F2.0 B2.0 B2.0 >0.0/2000 F2.1 B2.1 B2.1 >0.1/2000 O");
    /* 7 us of optimizer for 602 elements: 302 and 300 of them */
    assert_int_equal(p.works[p.ops[p.programs[0].first_op + 14].work].ps,
                     (7000000L * 302 + 601) / 602);
    assert_int_equal(p.roles[0].static_bytes[LW_MEM_PARAMS], 302 * 4);
    assert_int_equal(p.roles[1].static_bytes[LW_MEM_PARAMS], 300 * 4);
    lw_plan_free(&p);
}

/* Adam's states of a framework's size, of 302 and 300 bf16 elements; 0: f32 ones and a master. */
TEST(each_stage_has_states_of_the_size_that_the_model_has)
{
    static const int64_t sizes[] = {0, 4, 8, 18};

    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        int64_t each = sizes[k] > 0 ? sizes[k] : LW_MASTER_AND_ADAM_BYTES;
        struct tiny t;
        struct lw_strategy s = two_stages();
        tiny_init_bf16(&t, sizes[k]);
        for (int m = 0; m < 3; m++)
            t.modules[m].output_bytes = 1000;
        struct lw_plan p = build(&t, &s);
        assert_int_equal(p.roles[0].static_bytes[LW_MEM_OPTIMIZER], 302 * each);
        assert_int_equal(p.roles[1].static_bytes[LW_MEM_OPTIMIZER], 300 * each);
        lw_plan_free(&p);
    }
}

/* Two replicas: stage 0 fills bucket 0 of 1208 bytes (b.bias, b.weight, a.weight), stage 1 its own
 * of 1200, each during the backward of the last micro-batch. */
TEST(gradients_are_reduced_in_the_last_micro_batch)
{
    struct tiny t;
    struct lw_strategy s = two_stages();

    init(&t);
    s.dp = 2;
    struct lw_plan p = build(&t, &s);
    assert_ops(&p, "steady", 0,
               "F0.0 F1.0 >2.0/2000 F0.1 F1.1 >2.1/2000 <2.0/2000 B1.0 B1.0 B0.0 <2.1/2000 B1.1 Ci "
               "B1.1 Ci B0.1 Ci AR1/1208 Co O");
    assert_ops(&p, "steady", 3,
               "<1.0/2000 <1.1/2000 F2.0 B2.0 B2.0 >1.0/2000 F2.1 B2.1 Ci AR3/1200 B2.1 >1.1/2000 "
               "Co O");
    assert_int_equal(p.coord[3 * 3], 1);     /* rank 3: data 1, stage 1 */
    assert_int_equal(p.coord[3 * 3 + 1], 1);
    s.rank_order = LW_RANKS_COLOSSAL;         /* pipeline fastest: rank 1 is stage 1 of replica 0 */
    lw_plan_free(&p);
    p = build(&t, &s);
    assert_ops(&p, "steady", 1,
               "<0.0/2000 <0.1/2000 F2.0 B2.0 B2.0 >0.0/2000 F2.1 B2.1 Ci AR3/1200 B2.1 >0.1/2000 "
               "Co O");
    lw_plan_free(&p);
}

/* zb-h1 of one micro-batch, halves of each module apart; gradients complete with the weights'
 * half. */
TEST(halves_of_a_backward_are_ops_of_their_own)
{
    struct tiny t;
    struct lw_strategy s = two_stages();

    init(&t);
    s.dp = 2;
    s.micro_batches = 1;
    s.schedule = LW_SCHEDULE_ZB_H1;
    struct lw_plan p = build(&t, &s);
    assert_ops(&p, "steady", 2, "<0.0/2000 F2.0 I2.0 >0.0/2000 W2.0 Ci AR3/1200 Co O");
    assert_ops(&p, "steady", 0,
               "F0.0 F1.0 >2.0/2000 <2.0/2000 I1.0 I0.0 W1.0 Ci W0.0 Ci AR1/1208 Co O");
    lw_plan_free(&p);
}

/* A send waits for what it carries, what takes a message waits for it. */
TEST(messages_are_dependencies)
{
    struct tiny t;
    struct lw_strategy s = two_stages();

    init(&t);
    struct lw_plan p = build(&t, &s);
    const struct lw_op *send = &p.ops[2], *first = &p.ops[p.programs[1].first_op + 2];
    assert_int_equal(send->kind, LW_OP_SEND);
    assert_int_equal(send->n_deps, 1);
    assert_int_equal(p.deps[send->first_dep], 1);
    assert_int_equal(first->kind, LW_OP_FORWARD);
    assert_int_equal(first->n_deps, 1);
    assert_int_equal(p.deps[first->first_dep], p.programs[1].first_op);
    assert_string_equal(p.comms[send->comm].name, "forward");
    assert_string_equal(p.streams[send->stream].name, "forward");
    lw_plan_free(&p);
}

TEST(parts_of_an_explicit_list_follow_the_layout)
{
    struct tiny t;
    struct lw_strategy s = two_stages();
    struct lw_err err = {0};

    init(&t);
    assert_int_equal(lw_strategy_set(&s, "partition", "explicit", &err), LW_OK);
    assert_int_equal(lw_strategy_set(&s, "partition-list", "0,1", &err), LW_OK);
    struct lw_plan p = build(&t, &s);
    assert_int_equal(p.stage_of[0], 0);
    assert_int_equal(p.stage_of[1], 1);
    assert_int_equal(p.params[B_BIAS].stage, 1);
    lw_plan_free(&p);
    s.partition_list = "0,1,2";
    expect_refusal(&t, &s, LW_EINVAL, "more than 2 stages");
    s.partition_list = "0,x";
    expect_refusal(&t, &s, LW_EINVAL, "'x' is not a module number");
    s.partition_list = "0";
    expect_refusal(&t, &s, LW_EINVAL, "found 1 stages, expected 2 (--pp * --chunks)");
    s.partition = LW_PARTITION_EXACT;
    expect_refusal(&t, &s, LW_EINVAL, "--partition-list 0 is for --partition explicit");
}

static lw_ps a_message_takes_1us_per_1000_bytes(const void *ctx, const struct lw_cost_query *q)
{
    (void)ctx;
    return q->op == LW_OP_SEND ? q->bytes * q->n_nodes * 1000 : -1;
}

/* Stage of b, the middle module, and the bottleneck as the notes tell it. */
static void expect_cut(const struct tiny *t, const struct lw_strategy *s,
                       const struct lw_cost *cost, int32_t stage_of_b, const char *bottleneck)
{
    struct lw_plan p = {0};
    struct lw_err err = {0};

    assert_ok(lw_plan_build(&t->w, s, cost, &p, &err), err);
    assert_int_equal(p.stage_of[1], stage_of_b);
    if (!has_note(&p, bottleneck))
        fail_msg("no note says '%s'", bottleneck);
    lw_plan_free(&p);
}

/* Forward and backward of a, b, c take 3, 6 and 9 us: a b | c costs 9, a | b c 15. What a passes on
 * is 1000 bytes, b 2000: with 2 us for each way over two nodes of a thousand bytes the first is
 * 9 + 2 * 4 = 17, the second 15 + 2 * 2 = 19; with 9000 bytes after b on one node the first is
 * 9 + 18 = 27, the second 15 + 2 = 17. */
TEST(the_exact_cut_weighs_transfers_by_the_clusters_cost)
{
    const struct lw_cost apart = {a_message_takes_1us_per_1000_bytes, NULL, 1};
    const struct lw_cost together = {a_message_takes_1us_per_1000_bytes, NULL, 8};
    struct tiny t;
    struct lw_strategy s = two_stages();

    init(&t);
    expect_cut(&t, &s, &together, 0, "the slowest part takes 9.000 us");
    s.weigh_transfers = true;
    expect_cut(&t, &s, &apart, 0, "the slowest part takes 17.000 us");
    t.modules[1].output_bytes = 9000;
    expect_cut(&t, &s, &together, 1, "the slowest part takes 17.000 us");
    expect_refusal(&t, &s, LW_EINVAL, "--weigh-transfers on asks the cluster");
}

/* Forward 10, 2, 4 us of 12, 6, 10: a | b c costs 16, a b | c 18. When c alone is recomputed, which
 * keeps less for it, its stage takes 4 us more: a | b c 20, a b | c 18. */
TEST(the_exact_cut_counts_what_is_recomputed)
{
    struct tiny t;
    struct lw_strategy s = two_stages();

    init(&t);
    t.modules[0].forward_ps = 10 * LW_PS_PER_US;
    t.modules[2].forward_ps = 4 * LW_PS_PER_US;
    for (int m = 0; m < 3; m++)
        t.modules[m].kept_bytes[LW_RECOMPUTE_NONE] = t.modules[m].kept_bytes[LW_RECOMPUTE_FULL] =
            1000;
    t.modules[2].kept_bytes[LW_RECOMPUTE_FULL] = 10;
    expect_cut(&t, &s, NULL, 1, "the slowest part takes 16.000 us");
    s.recompute = LW_RECOMPUTE_FULL;
    expect_cut(&t, &s, NULL, 0, "the slowest part takes 18.000 us");
    s.recompute = LW_RECOMPUTE_SELECTIVE;
    t.modules[1].selective_ps = LW_PS_PER_US; /* b 7: a b | c 19, a | b c 17 */
    expect_cut(&t, &s, NULL, 1, "the slowest part takes 17.000 us");
}

TEST(pinned_modules_stay_on_the_first_and_the_last_stage)
{
    struct tiny t;
    struct lw_strategy s = two_stages();

    init(&t);
    s.pin_last = 2;
    expect_cut(&t, &s, NULL, 1, "the last 2 on the last");
    s.pin_first = 2;
    expect_refusal(&t, &s, LW_EINVAL, "2 items pinned to the first and 2 to the last of 2 stages");
    s.partition = LW_PARTITION_UNIFORM;
    expect_refusal(&t, &s, LW_EINVAL, "--pin-first is for --partition exact, not uniform");
}

/* Parameters, gradients and no state: 8 bytes an element, so a, b, c hold 800, 1616 and 2400; each
 * keeps 1000 bytes a micro-batch, stage 0 of 1f1b two of them, stage 1 one. a b | c needs
 * 800 + 1616 + 2 * 2000 = 6416 and 3400, a | b c 2800 and 1616 + 2400 + 2000 = 6016. Full
 * recomputation drops 600 of c and brings them back: a b | c 6416, for c is not there, but a cut is
 * sought with room for it, 7016; a | b c 1616 + 2400 + 1400 + 600 = 6016. */
TEST(no_stage_holds_more_than_it_may)
{
    struct tiny t;
    struct lw_strategy s = two_stages();

    init(&t);
    for (int m = 0; m < 3; m++)
        t.modules[m].kept_bytes[LW_RECOMPUTE_NONE] = t.modules[m].kept_bytes[LW_RECOMPUTE_FULL] =
            1000;
    s.stage_bytes = 0;
    expect_refusal(&t, &s, LW_EINVAL, "--stage-memory: found 0 bytes");
    s.stage_bytes = 6416;
    expect_cut(&t, &s, NULL, 0, "no stage holds more than 6.27 KiB");
    s.stage_bytes = 6415;
    expect_cut(&t, &s, NULL, 1, "the slowest part takes 15.000 us");
    s.stage_bytes = 6015;
    expect_refusal(&t, &s, LW_EINVAL,
                   "fits in 6015 bytes per stage; the least that does is 6016 bytes");
    s.recompute = LW_RECOMPUTE_FULL;
    t.modules[2].kept_bytes[LW_RECOMPUTE_FULL] = 400;
    expect_refusal(&t, &s, LW_EINVAL,
                   "fits in 6015 bytes per stage; the least that does is 6016 bytes");
    s.stage_bytes = 7016;
    expect_cut(&t, &s, NULL, 0, "no stage holds more");
    t.modules[2].kept_bytes[LW_RECOMPUTE_FULL] = -1;
    expect_refusal(&t, &s, LW_EINVAL, "module 2 'c' keeps for its backward");
    s.zero = 2;
    s.dp = 2;
    s.bucket_policy = LW_BUCKET_SINGLE;
    s.bucket_cap_bytes = -1;
    s.shard_policy = LW_SHARD_FLAT;
    expect_refusal(&t, &s, LW_ENOTSUP, "--stage-memory with --zero 2");
    s = two_stages();
    s.stage_bytes = 7016;
    s.chunks = 2;
    s.schedule = LW_SCHEDULE_INTERLEAVED_1F1B;
    expect_refusal(&t, &s, LW_ENOTSUP, "--stage-memory limits stages of one part");
}

/* A buffer is no module's: 500 bytes go to a stage after the cut, which then holds 6916. */
TEST(activations_are_checked_after_the_cut)
{
    struct tiny t;
    struct lw_strategy s = two_stages();

    init(&t);
    for (int m = 0; m < 3; m++)
        t.modules[m].kept_bytes[LW_RECOMPUTE_NONE] = 1000;
    t.buffers[0] = (struct lw_buffer){"a.mean", 125, LW_F32, false};
    t.w.n_buffers = 1;
    s.stage_bytes = 6916;
    expect_cut(&t, &s, NULL, 0, "no stage holds more");
    s.stage_bytes = 6915;
    expect_refusal(&t, &s, LW_EINVAL, "stage 0 with modules 0 to 1 holds 6916 bytes");
}

TEST(contradictory_options_are_refused_with_the_reason)
{
    struct tiny t;
    struct lw_strategy s = two_stages();
    struct lw_err err = {0};

    init(&t);
    t.modules[1].output_bytes = -1;
    expect_refusal(&t, &s, LW_EINVAL, "module 1 'b' ends a stage");
    init(&t);
    s.pp = 4;
    expect_refusal(&t, &s, LW_EINVAL, "4");
    s = two_stages();
    s.schedule = LW_SCHEDULE_DUALPIPE;
    s.chunks = 2;
    expect_refusal(&t, &s, LW_EINVAL, "at least 2 * pp micro-batches");
    s.micro_batches = 4;
    s.launch_order = LW_LAUNCH_COMPLETION;
    expect_refusal(&t, &s, LW_EINVAL, "complete their buckets in different orders");
    s = two_stages();
    s.schedule = LW_SCHEDULE_CUSTOM;
    expect_refusal(&t, &s, LW_ENOTSUP, "a user's grid");
    s = lw_strategy_default();
    assert_int_equal(lw_strategy_set(&s, "schedule", "gpipe", &err), LW_OK);
    expect_refusal(&t, &s, LW_EINVAL, "--schedule needs --pp of at least 2");
    s = two_stages();
    s.rank_order = LW_RANKS_HAISCALE;
    expect_refusal(&t, &s, LW_ENOTSUP, "--rank-order haiscale");
}

TEST(running_out_of_memory_leaves_nothing)
{
    struct tiny t;
    struct lw_strategy s = two_stages();

    init(&t);
    s.dp = 2;
    s.zero = 1;
    s.schedule = LW_SCHEDULE_INTERLEAVED_ZB;
    assert_true(build_without_memory(&t.w, &s, NULL) > 20);
}

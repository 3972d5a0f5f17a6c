/* ZeRO-1 in a plan: shared/lower_part/lower_zero1.c, shared/check/plan_check_shard.c,
 * docs/design/lower_zero1.md. The workload is that of tests/lib/plans/tiny_workload.h: a.weight 100
 * elements, b.weight 200, b.bias 2, c.weight 300, all f32, 602 in all; the optimizer takes 7 us
 * for all of them. */
#include <string.h>
#include "tests/lib/unit.h"

#include "exec/run/run.h"
#include "shared/strategy/policies.h"
#include "shared/strategy/strategy.h"
#include "shared/workload/buffer.h"
#include "tests/lib/plans/strategy_words.h"
#include "tests/lib/plans/tiny_build.h"
#include "tests/lib/prng.h"

static struct lw_strategy zero(enum lw_shard_policy_id policy)
{
    static const char *const names[] = {"oss-greedy", "lpt", "flat-contiguous", "per-tensor"};
    struct lw_strategy s = strategy("dp 2 zero 1");
    struct lw_err err = {0};

    assert_int_equal(lw_strategy_set(&s, "shard-policy", names[policy], &err), LW_OK);
    s.bucket_policy = LW_BUCKET_SINGLE;
    return s;
}

#define REDUCED                                                                                    \
    "F0:1 F1:2 F2:3 B2:5 Ci/1200 B2:1 B1:2 Ci/8 B1:2 Ci/800 B0:2 Ci/400 AR0/2408 Co0/2408 "

/* a to 0 (100, 0), b.weight to 1 (100, 200), b.bias to 0 (102), c.weight to 0 (402): 0 sends 1608
 * bytes, 1 sends 800. 7 us * 402 / 602 = 4.67. */
TEST(greedy_owners_broadcast_what_they_updated)
{
    struct tiny t;
    struct lw_strategy s = zero(LW_SHARD_OSS_GREEDY);

    tiny_init(&t);
    expect_ops(&t, &s, REDUCED "O:4 Bc1/1608 Bc2/800 Ew");
    struct lw_plan p = build(&t, &s);
    static const int32_t owners[] = {0, 1, 0, 0};
    assert_int_equal(p.n_shards, 4);
    for (int i = 0; i < 4; i++)
        assert_int_equal(p.shards[i].owner, owners[i]);
    assert_int_equal(p.sets[1].kind, LW_BUCKET_WEIGHTS);
    const struct lw_bucket *b = &p.buckets[1]; /* the smallest first */
    assert_int_equal(p.slots[b->first_slot], B_BIAS);
    assert_int_equal(p.slots[b->first_slot + 1], A_WEIGHT);
    assert_int_equal(p.slots[b->first_slot + 2], C_WEIGHT);
    static const int64_t offsets[] = {0, 2, 102};
    for (struct lw_slot_walk w = {0}; lw_plan_next_slot(&p, b, &w);)
        assert_int_equal(w.slot.offset, offsets[w.n - 1]);
    assert_true(has_note(&p, "the fullest member updates 402 of 602 elements"));
    lw_plan_free(&p);
}

/* c 1200 bytes to 0, b.weight 800 to 1, a 400 to 1, b.bias to 0 (both at 1200): 302 and 300
 * elements; 7 us * 302 / 602 = 3.51. */
TEST(largest_first_evens_the_owners_out)
{
    struct tiny t;
    struct lw_strategy s = zero(LW_SHARD_LPT);

    tiny_init(&t);
    expect_ops(&t, &s, REDUCED "O:3 Bc1/1208 Bc2/1200 Ew");
    s.dp = 1; /* nothing to share */
    expect_ops(&t, &s, "F0:1 F1:2 F2:3 B2:5 B2:1 B1:2 B1:2 B0:2 O:7");
}

/* 7 us of passes over all gradients: each rank holds all of them; 7 us * 402 / 602 of the optimizer
 * beside. With gradients in shares (ZeRO-2) the passes have the shares' length. */
TEST(passes_over_gradients_are_of_all_that_a_rank_holds)
{
    struct tiny t;
    struct lw_strategy s = zero(LW_SHARD_OSS_GREEDY);

    tiny_init(&t);
    t.w.gradients_ps = 7 * LW_PS_PER_US;
    expect_ops(&t, &s, REDUCED "O:11 Bc1/1608 Bc2/800 Ew");
    s = lw_strategy_default();
    expect_ops(&t, &s, "F0:1 F1:2 F2:3 B2:5 B2:1 B1:2 B1:2 B0:2 O:14");
    s.dp = s.zero = 2;
    s.shard_policy = LW_SHARD_FLAT;
    struct lw_plan p = build(&t, &s);
    struct lw_program g = lw_plan_program(&p, p.n_variants - 1, 0);
    int n_optimizer = 0;
    for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++)
        if (p.ops[i].kind == LW_OP_OPTIMIZER) {
            assert_int_equal(p.works[p.ops[i].work].ps, 7 * LW_PS_PER_US);
            n_optimizer++;
        }
    assert_int_equal(n_optimizer, 1);
    lw_plan_free(&p);
}

/* 602 elements in 4 shares: padded to 604, 151 each: 100 + 51 of b.weight | 149 + 2 | 151 | 149. */
TEST(flat_shares_are_padded_and_gathered)
{
    static const struct lw_shard expected[] = {
        {A_WEIGHT, 0, 0, 100}, {B_WEIGHT, 0, 0, 51}, {B_WEIGHT, 1, 51, 149}, {B_BIAS, 1, 0, 2},
        {C_WEIGHT, 2, 0, 151}, {C_WEIGHT, 3, 151, 149},
    };
    struct tiny t;
    struct lw_strategy s = zero(LW_SHARD_FLAT);

    tiny_init(&t);
    s.dp = 4;
    expect_ops(&t, &s,
               "F0:1 F1:2 F2:3 B2:5 Ci/1200 B2:1 B1:2 Ci/8 B1:2 Ci/800 B0:2 Ci/400 RS0/2416 "
               "Ew O:1 AG1/2416 Ew");      /* 7 us * 151 / 602 = 1.76 */
    s.bucket_policy = LW_BUCKET_C10D_2020; /* not cut: all-reduced, as one bucket here */
    expect_ops(&t, &s, "F0:1 F1:2 F2:3 B2:5 Ci/1200 B2:1 B1:2 Ci/8 B1:2 Ci/800 B0:2 Ci/400 C/2408 "
                       "AR0/2408 AR/16 Co0/2408 O:1 AG1/2416 Ew");
    struct lw_plan p = build(&t, &s);
    assert_int_equal(p.n_shards, 6);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(p.shards[i].param, expected[i].param);
        assert_int_equal(p.shards[i].owner, expected[i].owner);
        assert_int_equal(p.shards[i].first, expected[i].first);
        assert_int_equal(p.shards[i].numel, expected[i].numel);
    }
    assert_true(has_note(&p, "2 elements of padding"));
    lw_plan_free(&p);
}

TEST(equal_parts_of_each_parameter_are_gathered_one_by_one)
{
    struct tiny t;
    struct lw_strategy s = zero(LW_SHARD_PER_TENSOR);

    tiny_init(&t);
    expect_ops(&t, &s, REDUCED "O:3 AG1/400 AG2/800 AG3/8 AG4/1200 Ew");
    s.dp = 4;
    expect_refusal(&t, &s, LW_EINVAL, "parameter 2 'b.bias' has 2 elements, not a multiple of 4");
}

/* By size: b.bias, a.weight, b.weight, c.weight. Owner 0 has b.bias, a.weight and c.weight, owner 1
 * b.weight, which is complete at 10 us, 0's at 12. Gradients are scaled in place: one pass each. */
TEST(gradients_are_reduced_to_their_owners)
{
    struct tiny t;
    struct lw_strategy s = zero(LW_SHARD_OSS_GREEDY);

    tiny_init(&t);
    s.bucket_policy = LW_BUCKET_SHARDED_DDP;
    expect_ops(&t, &s, "F0:1 F1:2 F2:3 B2:5 B2:1 B1:2 B1:2 Ci/800 R0/800 B0:2 Ci/1608 R1/1608 Ew "
                       "O:4 Bc2/1608 Bc3/800 Ew");
    struct lw_plan p = build(&t, &s);
    struct lw_program g = lw_plan_program(&p, 0, 0);
    assert_int_equal(p.ops[g.first_op + 8].kind, LW_OP_REDUCE);
    assert_int_equal(p.ops[g.first_op + 8].peer, 1);
    assert_int_equal(p.ops[g.first_op + 11].peer, 0);
    lw_plan_free(&p);
}

/* 800 bytes are 200 elements. b.weight fits exactly; FairScale refuses an exact fit, so owner 1's
 * one bucket stays empty, is reduced all the same, and b.weight goes alone, as c.weight does. */
TEST(fairscale_refuses_an_exact_fit_and_reduces_an_empty_bucket)
{
    struct tiny t;
    struct lw_strategy s = zero(LW_SHARD_OSS_GREEDY);
    struct lw_err err = {0};

    tiny_init(&t);
    s.bucket_policy = LW_BUCKET_SHARDED_DDP;
    s.bucket_cap_bytes = 800;
    struct lw_plan p = build(&t, &s);
    assert_int_equal(p.buckets[1].limit_bytes, 800); /* b.weight, in a bucket */
    lw_plan_free(&p);
    expect_ops(&t, &s, "F0:1 F1:2 F2:3 B2:5 Ci/1200 R0/1200 B2:1 B1:2 B1:2 Ci/800 R1/800 B0:2 "
                       "Ci/408 R2/408 Ew O:4 Bc3/1608 Bc4/800 Ew");
    s = lw_strategy_default();
    s.dp = 2;
    assert_int_equal(lw_strategy_set(&s, "compat", "fairscale", &err), LW_OK);
    assert_int_equal(lw_strategy_set(&s, "bucket-cap", "800", &err), LW_OK);
    expect_ops(&t, &s, "F0:1 F1:2 F2:3 B2:5 Ci/1200 R0/1200 B2:1 B1:2 B1:2 Ci/800 R1/800 B0:2 "
                       "Ci/408 R2/408 R Ew O:4 Bc3/1608 Bc4/800 Ew");
    p = build(&t, &s);
    assert_int_equal(p.buckets[1].limit_bytes, 0); /* b.weight, alone */
    assert_int_equal(p.strategy->zero, 1);
    assert_int_equal(p.strategy->launch_order, LW_LAUNCH_COMPLETION);
    assert_true(has_note(&p, "the bucket of rank 1 is empty and is reduced too"));
    lw_plan_free(&p);
}

TEST(fairscale_sends_buffers_one_by_one)
{
    struct tiny t;
    struct lw_strategy s = zero(LW_SHARD_OSS_GREEDY);
    struct lw_err err = {0};
    int n = 0;

    tiny_init(&t);
    t.buffers[0] = (struct lw_buffer){"bn.mean", 10, LW_F32, true};
    t.buffers[1] = (struct lw_buffer){"bn.var", 10, LW_F32, true};
    t.w.n_buffers = 2;
    struct lw_plan p = build(&t, &s);
    for (int32_t i = 0; i < p.n_ops; i++)
        n += strcmp(p.ops[i].name, "buffers") == 0;
    assert_int_equal(n, 1);
    lw_plan_free(&p);
    s = lw_strategy_default();
    s.dp = 2;
    assert_int_equal(lw_strategy_set(&s, "compat", "fairscale", &err), LW_OK);
    p = build(&t, &s);
    for (int32_t i = n = 0; i < p.n_ops; i++)
        n += strcmp(p.ops[i].name, "buffers") == 0;
    assert_int_equal(n, 2);
    lw_plan_free(&p);
}

TEST(contradictions_are_refused_with_a_reason)
{
    struct tiny t;
    struct lw_strategy s = zero(LW_SHARD_LPT);

    tiny_init(&t);
    s.bucket_policy = LW_BUCKET_SHARDED_DDP;
    expect_refusal(&t, &s, LW_EINVAL, "it needs --zero 1 or 2 with --shard-policy oss-greedy");
    s = zero(LW_SHARD_LPT);
    s.zero = 0;
    expect_refusal(&t, &s, LW_EINVAL, "--shard-policy needs --zero");
    s.zero = 2;
    expect_refusal(&t, &s, LW_EINVAL, "--zero 2 cannot keep parameters whole");
    s = zero(LW_SHARD_FLAT);
    s.zero = 3;
    s.bucket_policy = LW_BUCKET_C10D_2;
    s.broadcast_dtype = LW_F16;
    expect_refusal(&t, &s, LW_ENOTSUP, "--broadcast-dtype f16");
    s = zero(LW_SHARD_OSS_GREEDY);
    s.bucket_policy = LW_BUCKET_SHARDED_DDP;
    s.comm_hook = LW_HOOK_BF16;
    expect_refusal(&t, &s, LW_EINVAL, "leave out --grad-dtype and --comm-hook");
    s = zero(LW_SHARD_FLAT);
    t.params[B_BIAS].ignored = true;
    expect_refusal(&t, &s, LW_EINVAL, "--zero 1: parameter 2 'b.bias' is ignored by data "
                                      "parallelism");
    s.zero = 2;
    expect_refusal(&t, &s, LW_EINVAL, "--zero 2: parameter 2 'b.bias' is ignored by data "
                                      "parallelism");
    expect_refusal(&t, &s, LW_EINVAL, "choose --zero 0");
}

/* --- the check -------------------------------------------------------------------------------- */

static void expect_fault(const struct lw_plan *p, const char *part)
{
    struct lw_err err = {0};

    assert_int_equal(lw_plan_check(p, &err), LW_EPLAN);
    if (!strstr(err.msg, part))
        fail_msg("found: %s\nexpected: %s", err.msg, part);
}

TEST(weights_that_go_astray_are_found)
{
    struct tiny t;
    struct lw_strategy s = zero(LW_SHARD_OSS_GREEDY);

    tiny_init(&t);
    struct lw_plan p = build(&t, &s);
    int32_t first = find_op(&p, LW_OP_BROADCAST, 0), second = find_op(&p, LW_OP_BROADCAST, 1);
    p.ops[first].peer = 1;
    expect_fault(&p, "belong to member 0, but are broadcast from member 1");
    p.ops[first].peer = 0;
    p.ops[second].bucket = 1;
    p.ops[second].bytes = 1608;
    p.ops[second].peer = 0;
    expect_fault(&p, "has already sent the weights of parameter 2 'b.bias'");
    p.ops[second].bucket = 0; /* of the gradients */
    expect_fault(&p, "");
    p.ops[second] = p.ops[first];
    p.ops[second].bucket = -1;
    expect_fault(&p, "the weights of parameter 1 'b.weight', which member 1 updates, never reach");
    lw_plan_free(&p);
    p = build(&t, &s);
    p.ops[first].n_deps = 0;
    expect_fault(&p, "does not wait for op 14 (optimizer)");
    lw_plan_free(&p);
    p = build(&t, &s);
    p.shards[3].owner = 1;
    expect_fault(&p, "elements 0 and 300 more of parameter 3 'c.weight' belong to member 1");
    lw_plan_free(&p);
}

TEST(shares_and_roots_must_be_the_owners)
{
    struct tiny t;
    struct lw_strategy s = zero(LW_SHARD_FLAT);

    tiny_init(&t);
    struct lw_plan p = build(&t, &s);
    p.shards[0].owner = 0; /* a.weight, last in ready order */
    expect_fault(&p, "belong to member 0, but lie in the share of member 1");
    lw_plan_free(&p);
    s = zero(LW_SHARD_OSS_GREEDY);
    s.bucket_policy = LW_BUCKET_SHARDED_DDP;
    p = build(&t, &s);
    p.ops[find_op(&p, LW_OP_REDUCE, 0)].peer = 0;
    expect_fault(&p, "'b.weight' belong to member 1, but are reduced to member 0");
    lw_plan_free(&p);
}

/* One word of a sharded plan replaced by a hostile number: refused, or without effect; under the
 * address sanitizer nothing is read outside a table. */
TEST(hostile_numbers_do_no_harm)
{
    static const int32_t hostile[] = {-2, -1, 0, 1, 2, 3, 100, INT32_MAX, INT32_MIN};
    struct prng x = prng_start("hostile numbers do no harm");
    struct tiny t;
    struct lw_strategy s = zero(LW_SHARD_OSS_GREEDY);

    tiny_init(&t);
    s.bucket_policy = LW_BUCKET_SHARDED_DDP;
    struct lw_plan p = build(&t, &s);
    const struct {
        void *at;
        size_t bytes;
    } tables[] = {{p.shards, (size_t)p.n_shards * sizeof *p.shards},
                  {p.slots, (size_t)p.n_slots * sizeof *p.slots},
                  {p.deps, (size_t)p.n_deps * sizeof *p.deps}};
    for (int round = 0; round < 20000; round++) {
        int k = prng_below(&x, 3);
        int32_t *word = (int32_t *)tables[k].at + prng_below(&x, (int)(tables[k].bytes / 4));
        int32_t before = *word;
        struct lw_err err = {0};
        *word = hostile[prng_below(&x, sizeof hostile / sizeof *hostile)];
        enum lw_status st = lw_plan_check(&p, &err);
        if (st != LW_OK && st != LW_EPLAN)
            fail_msg("round %d: %s", round, err.msg);
        *word = before;
    }
    lw_plan_free(&p);
}

/* --- run for real ----------------------------------------------------------------------------- */

static struct lw_exec_options options(void)
{
    struct lw_exec_options o = lw_exec_options_default();

    o.compute = EXEC_COMPUTE_SPIN;
    o.n_steps = 2;
    o.n_warmup = 1;
    o.optimizer = exec_optimizer_of(EXEC_MOMENTUM);
    o.timeout_ns = INT64_C(20) * 1000000000;
    return o;
}

/* Every shard policy under every way of reducing ends like one rank: weights on every rank,
 * momentum once over all ranks where it is sharded. */
TEST(sharded_runs_end_like_one_rank)
{
    static const struct {
        enum lw_shard_policy_id shards;
        enum lw_bucket_policy_id buckets;
        int64_t dp, no_sync, micro_batches;
    } cases[] = {
        {LW_SHARD_OSS_GREEDY, LW_BUCKET_C10D_2, 3, 0, 1},
        {LW_SHARD_OSS_GREEDY, LW_BUCKET_SHARDED_DDP, 3, 1, 2},
        {LW_SHARD_LPT, LW_BUCKET_PICOTRON, 2, 0, 1},
        {LW_SHARD_FLAT, LW_BUCKET_COLOSSAL, 4, 1, 1},
        {LW_SHARD_PER_TENSOR, LW_BUCKET_PER_TENSOR, 2, 0, 2},
    };
    struct tiny t;

    tiny_init(&t);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lw_strategy s = zero(cases[i].shards);
        struct lw_exec_options o = options();
        struct lw_exec_result r;
        struct lw_err err = {0};
        s.bucket_policy = cases[i].buckets;
        s.dp = cases[i].dp;
        s.no_sync = cases[i].no_sync;
        s.micro_batches = cases[i].micro_batches;
        struct lw_plan p = build(&t, &s);
        if (lw_exec_run(&p, &o, &r, &err) != LW_OK)
            fail_msg("case %d: %s", (int)i, err.msg);
        assert_int_equal(r.verified, LW_EXEC_VERIFIED);
        assert_int_equal(r.n_checked_bytes, 602 * 4 * (cases[i].dp + 1));
        lw_exec_result_free(&r);
        lw_plan_free(&p);
    }
}

/* The check is left out: owners 0 and 1 both update, but no other rank gets b.weight. */
TEST(a_broadcast_from_the_wrong_owner_is_found_by_the_run)
{
    struct tiny t;
    struct lw_strategy s = zero(LW_SHARD_OSS_GREEDY);
    struct lw_exec_options o = options();
    struct lw_exec_result r;
    struct lw_err err = {0};

    tiny_init(&t);
    struct lw_plan p = build(&t, &s);
    p.ops[find_op(&p, LW_OP_BROADCAST, 1)].peer = 0;
    assert_int_equal(lw_exec_run(&p, &o, &r, &err), LW_ENO);
    if (!strstr(err.msg, "'b.weight'"))
        fail_msg("%s", err.msg);
    lw_exec_result_free(&r);
    lw_plan_free(&p);
}

/* Four ranks hold 602 weights of 2 bytes; masters and momentum of 4 lie once over all. */
TEST(weights_of_two_bytes_travel_as_they_are)
{
    struct tiny t;
    struct lw_strategy s = zero(LW_SHARD_FLAT);
    struct lw_exec_options o = options();
    struct lw_exec_result r;
    struct lw_err err = {0};

    tiny_init(&t);
    for (int i = 0; i < 4; i++)
        t.params[i].dtype = LW_BF16;
    s.dp = 4;
    struct lw_plan p = build(&t, &s);
    assert_int_equal(p.buckets[1].bytes, 608 * 2); /* four shares of a multiple of 2 elements */
    assert_ok(lw_exec_run(&p, &o, &r, &err), err);
    assert_int_equal(r.n_checked_bytes, 602 * (2 * 4 + 4 + 4));
    lw_exec_result_free(&r);
    lw_plan_free(&p);
}

TEST(a_failing_allocation_leaks_nothing)
{
    struct tiny t;

    tiny_init(&t);
    for (int policy = 0; policy <= LW_SHARD_PER_TENSOR; policy++) {
        struct lw_strategy s = zero((enum lw_shard_policy_id)policy);
        if (policy == LW_SHARD_OSS_GREEDY)
            s.bucket_policy = LW_BUCKET_SHARDED_DDP;
        assert_true(build_without_memory(&t.w, &s, NULL) >= 20);
    }
}

/* Random sizes, owners and ways of reducing: the plan passes its check (lw_plan_build runs it), its
 * shards hold every element once, and its flat buffers all of them. */
TEST(random_models_are_sharded_whole)
{
    struct prng x = prng_start("random models are sharded whole");

    for (int round = 0; round < 400; round++) {
        struct tiny t;
        struct lw_strategy s = zero((enum lw_shard_policy_id)prng_below(&x, LW_SHARD_PER_TENSOR));
        int64_t all = 0, owned = 0, sent = 0;
        tiny_init(&t);
        t.w.n_ready = 0;
        for (int i = 0; i < 4; i++) {
            t.params[i].numel = 1 + prng_below(&x, 2000);
            t.params[i].trainable = i == C_WEIGHT || prng_below(&x, 5) > 0;
            t.params[i].ready_ps = -1;
        }
        for (int i = 0; i < 4; i++)
            all += t.params[i].trainable ? t.params[i].numel : 0;
        s.dp = 2 + prng_below(&x, 9);
        if (s.shard_policy == LW_SHARD_OSS_GREEDY && prng_below(&x, 2)) {
            s.bucket_policy = LW_BUCKET_SHARDED_DDP;
            s.bucket_cap_bytes = prng_below(&x, 12000);
            s.launch_order = (enum lw_launch_order)prng_below(&x, 2);
        }
        struct lw_plan p = build(&t, &s);
        for (int32_t i = 0; i < p.n_shards; i++) {
            owned += p.shards[i].numel;
            assert_in_range(p.shards[i].owner, 0, s.dp - 1);
        }
        for (int32_t b = 0; b < p.n_buckets; b++)
            for (int32_t i = 0; lw_plan_is_weights(&p, b) && i < p.buckets[b].n_slots; i++)
                sent += p.params[p.slots[p.buckets[b].first_slot + i]].numel;
        assert_int_equal(owned, all);
        assert_int_equal(sent, all);
        lw_plan_free(&p);
    }
}

/* Bucket policies inside a plan: shared/lower_part/lower_buckets.c, docs/design/lower.md. The
 * workload is that of tests/lib/plans/tiny_workload.h: in registration order a.weight 400 bytes,
 * b.weight 800, b.bias 8, c.weight 1200; ready are c.weight at 5 us, b.bias at 8, b.weight at 10,
 * a.weight at 12. */
#include "tests/lib/unit.h"

#include "shared/base/arena.h"
#include "shared/bucket/policy.h"
#include "shared/lower/lower.h"
#include "shared/plan/spread.h"
#include "tests/lib/plans/tiny_build.h"
#include "tests/lib/prng.h"
#include "tests/lib/failing_alloc.h"
#include "tests/lib/plans/strategy_words.h"

struct affine {
    lw_ps startup, per_byte;
};

static lw_ps affine_time(const void *ctx, const struct lw_cost_query *q)
{
    const struct affine *a = ctx;

    return a->startup + q->bytes * a->per_byte;
}

static lw_ps no_answer(const void *ctx, const struct lw_cost_query *q)
{
    (void)ctx;
    (void)q;
    return -1;
}

static struct lw_strategy with_policy(enum lw_bucket_policy_id policy)
{
    struct lw_strategy s = strategy("dp 2");

    s.bucket_policy = policy;
    return s;
}

/* 1200 / 4 = 300 elements: 100 + 200 fit exactly, 2 more do not, 300 after 2 do not. From the
 * back: c.weight | b.bias | a.weight b.weight. */
TEST(picotron_fills_to_its_capacity_and_launches_from_the_back)
{
    struct tiny t;
    struct lw_strategy s = with_policy(LW_BUCKET_PICOTRON);

    tiny_init(&t);
    s.bucket_cap_bytes = 1200;
    expect_ops(&t, &s,
               "F0:1 F1:2 F2:3 B2:5 Ci/1200 AR0/1200 B2:1 B1:2 Ci/8 AR1/8 B1:2 Ci/800 B0:2 Ci/400 "
               "AR2/1200 Ew O:7");
    struct lw_plan p = build(&t, &s);
    assert_int_equal(p.buckets[2].n_slots, 2);
    assert_int_equal(p.slots[p.buckets[2].first_slot], A_WEIGHT);
    struct lw_slot_walk w = {0};
    assert_true(lw_plan_next_slot(&p, &p.buckets[2], &w) &&
                lw_plan_next_slot(&p, &p.buckets[2], &w));
    assert_int_equal(w.slot.offset, 100);
    assert_int_equal(p.buckets[0].limit_bytes, 1200);
    assert_true(has_note(&p, "buckets: picotron, registration order, a bucket holds at most 300 "
                             "elements"));
    assert_true(has_note(&p, "scaled by 1/2 while copied into their bucket"));
    lw_plan_free(&p);
}

TEST(picotron_copies_out_where_gradients_have_a_dtype_of_their_own)
{
    struct tiny t;
    struct lw_strategy s = with_policy(LW_BUCKET_PICOTRON);

    tiny_init(&t);
    for (int i = 0; i < 4; i++)
        t.params[i].dtype = LW_BF16;
    s.grad_dtype = LW_GRAD_F32; /* 602 elements of 4 bytes in one bucket of 25 MiB */
    expect_ops(&t, &s,
               "F0:1 F1:2 F2:3 B2:5 Ci/1200 B2:1 B1:2 Ci/8 B1:2 Ci/800 B0:2 Ci/400 AR0/2408 "
               "Co0/2408 O:7");
}

TEST(colossal_reduces_one_buffer_per_dtype_after_the_backward)
{
    struct tiny t;
    struct lw_strategy s = with_policy(LW_BUCKET_COLOSSAL);

    tiny_init(&t);
    t.params[C_WEIGHT].dtype = LW_BF16; /* 600 bytes beside 400 + 800 + 8 = 1208 of f32 */
    expect_ops(&t, &s,
               "F0:1 F1:2 F2:3 B2:5 B2:1 B1:2 B1:2 B0:2 Ci/1808 AR0/1208 AR1/600 Co0/1208 Co1/600 "
               "O:7");
    struct lw_plan p = build(&t, &s);
    assert_int_equal(p.slots[p.buckets[0].first_slot], A_WEIGHT); /* model order */
    assert_true(has_note(&p, "no overlap"));
    lw_plan_free(&p);
}

TEST(colossal_leaves_out_what_has_no_gradient)
{
    struct tiny t;
    struct lw_strategy s = with_policy(LW_BUCKET_COLOSSAL);

    tiny_init(&t);
    t.params[A_WEIGHT].used = false;
    t.params[A_WEIGHT].ready_ps = -1;
    t.w.n_ready = 3;
    expect_ops(&t, &s,
               "F0:1 F1:2 F2:3 B2:5 B2:1 B1:2 B1:2 B0:2 Ci/2008 AR0/2008 Co0/2008 O:7");
    s.find_unused = true;
    expect_refusal(&t, &s, LW_EINVAL, "--bucket-policy colossal does not support --find-unused on");
}

/* 4 us + 1 ns a byte. MG-WFBP merges wherever waiting is below 4 us: 5 -> 8 -> 10 -> 12, one bucket
 * that ends at 12 + 4 + 2.408 = 18.408. The best is c.weight alone, [5, 10.2], and the rest at 12:
 * 12 + 4 + 1.208 = 17.208. */
TEST(the_optimum_beats_mg_wfbp_where_waiting_pays_once)
{
    const struct affine a = {4 * LW_PS_PER_US, LW_PS_PER_NS};
    const struct lw_cost cost = {.time = affine_time, .ctx = &a};
    struct tiny t;
    struct lw_strategy s = with_policy(LW_BUCKET_MG_WFBP);

    tiny_init(&t);
    expect_ops_with(&t, &s, &cost,
               "F0:1 F1:2 F2:3 B2:5 Ci/1200 B2:1 B1:2 Ci/8 B1:2 Ci/800 B0:2 Ci/400 AR0/2408 "
               "Co0/2408 O:7");
    s.bucket_policy = LW_BUCKET_OPTIMAL;
    expect_ops_with(&t, &s, &cost,
               "F0:1 F1:2 F2:3 B2:5 Ci/1200 AR0/1200 B2:1 B1:2 Ci/8 B1:2 Ci/800 B0:2 Ci/400 "
               "AR1/1208 Co0/1200 Co1/1208 O:7");
    struct lw_plan p = build_with(&t, &s, &cost);
    assert_true(has_note(&p, "ends 17.208 us after the backward began"));
    lw_plan_free(&p);
}

/* 5 us + 1 ns a byte each way. For the backward alone c.weight goes first and the rest ends at
 * 12 + 5 + 1.208 = 18.208. With the next forward: that, 7 of the optimizer, 6.208 for the gather of
 * the rest = 31.416, after it a and b until 34.416; c's gather ends at 31.416 + 6.2 = 37.616, c at
 * 40.616. One bucket: 12 + 7.408 + 7 + 7.408 = 33.816 and 6 of forward, 39.816. */
TEST(the_optimum_can_count_the_next_forward)
{
    const struct affine a = {5 * LW_PS_PER_US, LW_PS_PER_NS};
    const struct lw_cost cost = {.time = affine_time, .ctx = &a};
    struct tiny t;
    struct lw_strategy s = with_policy(LW_BUCKET_OPTIMAL);

    tiny_init(&t);
    struct lw_plan p = build_with(&t, &s, &cost);
    assert_int_equal(p.n_buckets, 2);
    assert_true(has_note(&p, "the last all-reduce ends 18.208 us after the backward began"));
    lw_plan_free(&p);
    s.count_forward = true;
    p = build_with(&t, &s, &cost);
    assert_int_equal(p.n_buckets, 1);
    assert_true(has_note(&p, "it ends 39.816 us after the backward began"));
    lw_plan_free(&p);
    s.pp = 2;
    t.modules[0].output_bytes = t.modules[1].output_bytes = 8;
    expect_refusal_with(&t, &s, &cost, LW_ENOTSUP,
                        "--count-forward on: the next forward of a pipeline");
    s = with_policy(LW_BUCKET_MG_WFBP);
    s.count_forward = true;
    expect_refusal_with(&t, &s, &cost, LW_EINVAL,
                        "--count-forward on is for --bucket-policy optimal");
}

/* 1 us for each further node that the summing ranks live on. */
static lw_ps time_by_nodes(const void *ctx, const struct lw_cost_query *q)
{
    struct lw_spread *largest = (struct lw_spread *)ctx;

    largest->n_nodes = q->n_nodes > largest->n_nodes ? q->n_nodes : largest->n_nodes;
    largest->fewest = q->fewest > largest->fewest ? q->fewest : largest->fewest;
    return q->n_nodes * LW_PS_PER_US;
}

/* Two directions: both ranks of a pair hold both stages, so ranks 0 2 1 3 in this order sum a
 * stage's gradients. At two ranks to a node they live on two nodes, two on each. */
TEST(a_policy_is_told_the_nodes_of_two_directions)
{
    struct lw_spread largest = {0};
    const struct lw_cost cost = {.time = time_by_nodes, .ctx = &largest, .ranks_per_node = 2};
    struct tiny t;
    struct lw_strategy s = with_policy(LW_BUCKET_OPTIMAL);

    tiny_init(&t);
    t.modules[0].output_bytes = t.modules[1].output_bytes = 8;
    s.pp = 2;
    s.rank_order = LW_RANKS_COLOSSAL;
    s.schedule = LW_SCHEDULE_DUALPIPE;
    s.micro_batches = 4;
    struct lw_plan p = build_with(&t, &s, &cost);
    lw_plan_free(&p);
    assert_int_equal(largest.n_nodes, 2);
    assert_int_equal(largest.fewest, 2);
}

/* Without overlap all is ready at 12 us: every further start-up is a loss. */
TEST(the_optimum_without_overlap_is_one_bucket)
{
    const struct affine a = {4 * LW_PS_PER_US, LW_PS_PER_NS};
    const struct lw_cost cost = {.time = affine_time, .ctx = &a};
    struct tiny t;
    struct lw_strategy s = with_policy(LW_BUCKET_OPTIMAL);

    tiny_init(&t);
    s.overlap = false;
    struct lw_plan p = build_with(&t, &s, &cost);
    assert_int_equal(p.n_buckets, 1);
    assert_true(has_note(&p, "ends 18.408 us after the backward began"));
    lw_plan_free(&p);
}

static lw_ps note_nodes(const void *ctx, const struct lw_cost_query *q)
{
    int32_t *n = *(int32_t *const *)ctx;

    n[0] = q->n_nodes;
    n[1] = q->n_ranks;
    n[2] = (int32_t)q->dtype;
    return q->bytes;
}

TEST(the_cost_is_asked_for_the_group_and_what_travels)
{
    int32_t asked[3], *at = asked;
    const struct lw_cost cost = {.time = note_nodes, .ctx = &at, .ranks_per_node = 8};
    struct tiny t;
    struct lw_strategy s = with_policy(LW_BUCKET_MG_WFBP);

    tiny_init(&t);
    s.dp = 17; /* 8 + 8 + 1 */
    s.comm_hook = LW_HOOK_BF16;
    struct lw_plan p = build_with(&t, &s, &cost);
    assert_int_equal(asked[0], 3);
    assert_int_equal(asked[1], 17);
    assert_int_equal(asked[2], LW_BF16);
    lw_plan_free(&p);
}

TEST(contradictions_are_refused_with_a_reason)
{
    const struct lw_cost silent = {.time = no_answer};
    struct tiny t;
    struct lw_strategy s = with_policy(LW_BUCKET_OPTIMAL);

    tiny_init(&t);
    expect_refusal(&t, &s, LW_EINVAL, "--bucket-policy optimal weighs buckets by the time");
    expect_refusal_with(&t, &s, &silent, LW_ENOTSUP,
                        "an all-reduce of 1200 bytes over 2 ranks on 1");
    s.bucket_cap_bytes = 100;
    expect_refusal(&t, &s, LW_EINVAL, "optimal does not support --bucket-cap");
    s = with_policy(LW_BUCKET_PICOTRON);
    s.first_bucket_bytes = 100;
    expect_refusal(&t, &s, LW_EINVAL, "picotron does not support --first-bucket");
    s = with_policy(LW_BUCKET_MG_WFBP);
    s.static_graph = true;
    expect_refusal(&t, &s, LW_EINVAL,
                   "mg-wfbp does not support --static-graph on; these do: c10d-1.13, c10d-2");
    s = with_policy(LW_BUCKET_PICOTRON);
    t.params[B_BIAS].dtype = LW_BF16;
    expect_refusal(&t, &s, LW_EINVAL, "'a.weight' is f32 on 0, 'b.bias' is bf16 on 0");
}

/* --- random models ---------------------------------------------------------------------------- */

enum { M = 6, P = 12 };

struct model {
    struct lw_module modules[M];
    struct lw_param params[P];
    struct lw_workload w;
};

static void draw(struct prng *x, struct model *k)
{
    *k = (struct model){.w = {.name = "random"}};
    k->w.modules = k->modules;
    k->w.params = k->params;
    k->w.n_modules = 1 + prng_below(x, M);
    k->w.n_params = 1 + prng_below(x, P);
    for (int m = 0; m < k->w.n_modules; m++)
        k->modules[m] = tiny_module("m", prng_below(x, 5));
    for (int i = 0; i < k->w.n_params; i++) {
        k->params[i] = tiny_param("p", prng_below(x, 1000), i * k->w.n_modules / k->w.n_params, 0);
        k->params[i].ready_ps = -1;
    }
}

/* The order in which a plan's last variant makes gradients ready, their bytes and times. */
static int by_ready(const struct lw_plan *p, int64_t *bytes, lw_ps *ready)
{
    struct lw_program g = lw_plan_program(p, p->n_variants - 1, 0);
    lw_ps now = 0;
    int n = 0;

    for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++) {
        const struct lw_op *o = &p->ops[i];
        if (o->kind != LW_OP_BACKWARD)
            continue;
        now += lw_plan_work_ps(p, o);
        for (int32_t r = 0; r < o->n_ready; r++) {
            bytes[n] = p->params[p->ready[o->first_ready + r]].numel * 4;
            ready[n++] = now;
        }
    }
    return n;
}

/* The end of the last bucket when bit i of `cuts` closes one after gradient i. */
static lw_ps end_of(const struct affine *a, const int64_t *bytes, const lw_ps *ready, int n,
                    unsigned cuts)
{
    lw_ps end = 0;
    int64_t sum = 0;

    for (int i = 0; i < n; i++) {
        sum += bytes[i];
        if (i + 1 < n && !(cuts >> i & 1))
            continue;
        end = (end > ready[i] ? end : ready[i]) + a->startup + sum * a->per_byte;
        sum = 0;
    }
    return end;
}

/* The same of the plan's own buckets: runs of the ready order, in launch order. */
static lw_ps end_of_plan(const struct lw_plan *p, const struct affine *a, const int64_t *bytes,
                         const lw_ps *ready)
{
    unsigned cuts = 0;
    int at = 0;

    for (int32_t b = 0; b < p->n_buckets; b++) {
        at += p->buckets[b].n_slots;
        cuts |= 1u << (at - 1);
    }
    return end_of(a, bytes, ready, at, cuts);
}

TEST(no_cut_of_random_models_ends_before_the_optimum)
{
    struct prng x = prng_start("no cut of random models ends before the optimum");

    for (int round = 0; round < 300; round++) {
        struct affine a = {prng_below(&x, 3000) * LW_PS_PER_NS, prng_below(&x, 3000)};
        struct lw_cost cost = {.time = affine_time, .ctx = &a};
        struct lw_strategy s = with_policy(LW_BUCKET_OPTIMAL);
        struct tiny t;
        struct model k;
        int64_t bytes[P];
        lw_ps ready[P], least = INT64_MAX;
        draw(&x, &k);
        t.w = k.w;
        struct lw_plan best = build_with(&t, &s, &cost);
        s.bucket_policy = LW_BUCKET_MG_WFBP;
        struct lw_plan merged = build_with(&t, &s, &cost);
        int n = by_ready(&best, bytes, ready);
        for (unsigned cuts = 0; cuts < 1u << (n - 1); cuts++) {
            lw_ps end = end_of(&a, bytes, ready, n, cuts);
            least = end < least ? end : least;
        }
        if (end_of_plan(&best, &a, bytes, ready) != least)
            fail_msg("round %d: %lld instead of %lld", round,
                     (long long)end_of_plan(&best, &a, bytes, ready), (long long)least);
        assert_true(end_of_plan(&merged, &a, bytes, ready) >= least);
        lw_plan_free(&merged);
        lw_plan_free(&best);
    }
}

/* Every plan passes its own check (lw_plan_build runs it); bytes are reduced once; a picotron
 * bucket of several gradients keeps to its capacity; launches go in index order unless asked
 * otherwise. */
TEST(random_models_keep_bytes_caps_and_order)
{
    static const enum lw_bucket_policy_id policies[] = {LW_BUCKET_PICOTRON, LW_BUCKET_COLOSSAL,
                                                        LW_BUCKET_MG_WFBP, LW_BUCKET_OPTIMAL};
    struct prng x = prng_start("random models keep bytes caps and order");

    for (int round = 0; round < 400; round++) {
        struct affine a = {prng_below(&x, 3000) * LW_PS_PER_NS, prng_below(&x, 3000)};
        struct lw_cost cost = {.time = affine_time, .ctx = &a};
        struct lw_strategy s = with_policy(policies[prng_below(&x, 4)]);
        struct tiny t;
        struct model k;
        int64_t bytes = 0, reduced = 0;
        draw(&x, &k);
        t.w = k.w;
        s.dp = 2 + prng_below(&x, 6);
        s.overlap = prng_below(&x, 2);
        s.no_sync = prng_below(&x, 3);
        s.launch_order = (enum lw_launch_order)prng_below(&x, 2);
        if (s.bucket_policy == LW_BUCKET_PICOTRON) {
            s.bucket_cap_bytes = prng_below(&x, 6000);
            s.compat = prng_below(&x, 2) && s.overlap ? LW_COMPAT_PICOTRON : LW_COMPAT_NONE;
            s.launch_order = s.compat ? LW_LAUNCH_COMPLETION : s.launch_order;
        }
        struct lw_plan p = build_with(&t, &s, &cost);
        struct lw_program g = lw_plan_program(&p, p.n_variants - 1, 0);
        int32_t last = -1;
        for (int i = 0; i < k.w.n_params; i++)
            bytes += k.params[i].numel * 4;
        for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++) {
            if (p.ops[i].kind != LW_OP_ALL_REDUCE)
                continue;
            reduced += p.ops[i].bytes;
            if (s.launch_order == LW_LAUNCH_IN_ORDER)
                assert_true(p.ops[i].bucket > last);
            last = p.ops[i].bucket;
        }
        assert_int_equal(reduced, bytes);
        for (int32_t b = 0; s.bucket_policy == LW_BUCKET_PICOTRON && b < p.n_buckets; b++)
            if (p.buckets[b].bytes > s.bucket_cap_bytes)
                for (int32_t i = 0, seen = 0; i < p.buckets[b].n_slots; i++) {
                    seen += p.params[p.slots[p.buckets[b].first_slot + i]].numel > 0;
                    assert_true(seen <= 1);
                }
        lw_plan_free(&p);
    }
}

TEST(a_failing_allocation_leaks_nothing)
{
    const struct affine a = {4 * LW_PS_PER_US, LW_PS_PER_NS};
    const struct lw_cost cost = {.time = affine_time, .ctx = &a};
    struct tiny t;

    tiny_init(&t);
    for (int i = 0; i < LW_N_BUCKET_POLICIES; i++) {
        struct lw_strategy s = with_policy((enum lw_bucket_policy_id)i);
        s.zero = lw_bucket_policy(s.bucket_policy)->to_owners ? 1 : 0;
        assert_true(build_without_memory(&t.w, &s, &cost) >= 20);
    }
}

TEST(settled_buckets_are_set_only_on_success)
{
    struct lw_strategy s = with_policy(LW_BUCKET_PICOTRON);
    struct lw_settled_buckets got = {.n = -5, .next_cap_bytes = -6};
    struct tiny t;

    tiny_init(&t);
    s.bucket_cap_bytes = 1200;
    EACH_ALLOCATION_FAILS(5, lw_plan_settled_buckets(&t.w, &s, NULL, &got, NULL), got, (void)0);
    assert_int_equal(got.n, 3);
    assert_int_equal(got.next_cap_bytes, 1208); /* takes 2 + 300 elements */
}

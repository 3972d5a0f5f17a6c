/* Lowering of data parallelism: shared/lower/lower.h, docs/design/lower.md. */
#include <string.h>
#include "tests/lib/unit.h"

#include "shared/bucket/ready_order.h"
#include "shared/lower/lower.h"
#include "shared/strategy/strategy.h"
#include "shared/workload/buffer.h"
#include "tests/lib/files/says.h"
#include "tests/lib/plans/strategy_words.h"
#include "tests/lib/plans/tiny_build.h"
#include "tests/lib/prng.h"

enum { ROOM = 4096 };

static struct lw_strategy two_ranks(void)
{
    struct lw_strategy s = strategy("dp 2 bucket-cap 1200");

    return s;
}

static void assert_ops(const struct lw_plan *p, const char *variant, const char *expected)
{
    char text[ROOM];

    assert_true(find_variant(p, variant) >= 0);
    assert_string_equal(tiny_ops(p, variant, text, sizeof text), expected);
}

/* The worked example of docs/design/lower.md. In ready order with the cap of 1200 bytes:
 * c.weight is 1200 bytes and closes bucket 1; b.bias 8 + b.weight 800 + a.weight 400 = 1208 close
 * bucket 2. Bucket 0 is the initial one, 4 * 602 = 2408 bytes. */
TEST(the_worked_example_is_lowered_op_by_op)
{
    struct tiny t;
    struct lw_strategy s = two_ranks();

    tiny_init(&t);
    struct lw_plan p = build(&t, &s);
    assert_ops(&p, "first",
               "F0:1 F1:2 F2:3 B2:5 Ci/1200 B2:1 B1:2 Ci/8 B1:2 Ci/800 B0:2 Ci/400 AR0/2408 "
               "Co0/2408 O:7");
    assert_ops(&p, "steady",
               "F0:1 F1:2 F2:3 B2:5 Ci/1200 AR1/1200 B2:1 B1:2 Ci/8 B1:2 Ci/800 B0:2 Ci/400 "
               "AR2/1208 Co1/1200 Co2/1208 O:7");
    assert_int_equal(p.n_passes, 2);
    assert_int_equal(p.repeat_from, 1);
    assert_string_equal(p.variants[lw_plan_variant_of_pass(&p, 0)].name, "first");
    assert_string_equal(p.variants[lw_plan_variant_of_pass(&p, 5)].name, "steady");
    lw_plan_free(&p);
}

TEST(an_all_reduce_waits_for_the_copy_that_completes_its_bucket)
{
    struct tiny t;
    struct lw_strategy s = two_ranks();

    tiny_init(&t);
    struct lw_plan p = build(&t, &s);
    struct lw_program g = lw_plan_program(&p, find_variant(&p, "steady"), 0);
    const struct lw_op *ar = &p.ops[g.first_op + 5];
    assert_int_equal(ar->kind, LW_OP_ALL_REDUCE);
    assert_int_equal(ar->n_deps, 1);
    assert_int_equal(p.deps[ar->first_dep], g.first_op + 4);
    assert_string_equal(p.streams[ar->stream].name, "comm");
    assert_true(p.streams[ar->stream].priority > p.streams[0].priority);
    const struct lw_op *copy = &p.ops[g.first_op + 4];
    assert_int_equal(copy->n_ready, 1);
    assert_int_equal(p.ready[copy->first_ready], C_WEIGHT);
    const struct lw_op *out = &p.ops[g.first_op + 14];
    assert_int_equal(out->kind, LW_OP_COPY_OUT);
    assert_int_equal(p.deps[out->first_dep], g.first_op + 5);
    const struct lw_op *optimizer = &p.ops[g.first_op + 16];
    assert_int_equal(optimizer->n_deps, 2);
    lw_plan_free(&p);
}

TEST(slots_follow_the_ready_order_without_padding)
{
    struct tiny t;
    struct lw_strategy s = two_ranks();

    tiny_init(&t);
    struct lw_plan p = build(&t, &s);
    assert_int_equal(p.n_sets, 2);
    assert_string_equal(p.sets[1].name, "rebuilt");
    const struct lw_bucket *b = &p.buckets[2];
    assert_int_equal(b->n_slots, 3);
    assert_int_equal(b->bytes, 1208);
    assert_int_equal(b->limit_bytes, 1200);
    assert_int_equal(p.slots[b->first_slot], B_BIAS);
    assert_int_equal(p.slots[b->first_slot + 1], B_WEIGHT);
    assert_int_equal(p.slots[b->first_slot + 2], A_WEIGHT);
    static const int64_t offsets[] = {0, 2, 202};
    for (struct lw_slot_walk w = {0}; lw_plan_next_slot(&p, b, &w);)
        assert_int_equal(w.slot.offset, offsets[w.n - 1]);
    assert_false(has_note(&p, "never rebuilt"));
    assert_int_equal(p.n_offsets, 0); /* running sums are not written down */
    assert_int_equal(p.n_ready, 4);   /* copies and the second pass refer to the first's lists */
    assert_int_equal(p.buckets[0].limit_bytes, 0); /* before the rebuild: none */
    assert_true(has_note(&p, "an explicit cap removes the small first bucket"));
    lw_plan_free(&p);
}

TEST(one_rank_computes_and_sends_nothing)
{
    struct tiny t;
    struct lw_strategy s = lw_strategy_default();

    tiny_init(&t);
    struct lw_plan p = build(&t, &s);
    assert_ops(&p, "first", "F0:1 F1:2 F2:3 B2:5 B2:1 B1:2 B1:2 B0:2 O:7");
    assert_int_equal(p.n_variants, 1);
    assert_int_equal(p.n_comms, 0);
    assert_int_equal(p.n_buckets, 0);
    assert_int_equal(p.n_shards, 0);
    lw_plan_free(&p);
}

TEST(without_overlap_everything_is_reduced_after_the_backward)
{
    struct tiny t;
    struct lw_strategy s = two_ranks();

    tiny_init(&t);
    s.overlap = false;
    struct lw_plan p = build(&t, &s);
    assert_ops(&p, "steady",
               "F0:1 F1:2 F2:3 B2:5 Ci/1200 B2:1 B1:2 Ci/8 B1:2 Ci/800 B0:2 Ci/400 AR1/1200 "
               "AR2/1208 Co1/1200 Co2/1208 O:7");
    struct lw_program g = lw_plan_program(&p, find_variant(&p, "steady"), 0);
    assert_int_equal(p.deps[p.ops[g.first_op + 12].first_dep], g.first_op + 11);
    lw_plan_free(&p);
}

TEST(no_sync_accumulates_before_each_synchronised_backward)
{
    struct tiny t;
    struct lw_strategy s = two_ranks();

    tiny_init(&t);
    s.no_sync = 2;
    struct lw_plan p = build(&t, &s);
    assert_ops(&p, "accumulate", "F0:1 F1:2 F2:3 B2:5 B2:1 B1:2 B1:2 B0:2");
    static const char *const expected[] = {"accumulate", "accumulate", "first", "accumulate",
                                           "accumulate", "steady", "accumulate", "accumulate",
                                           "steady"};
    for (int i = 0; i < 9; i++)
        assert_string_equal(p.variants[lw_plan_variant_of_pass(&p, i)].name, expected[i]);
    lw_plan_free(&p);
}

TEST(of_several_micro_batches_only_the_last_reduces)
{
    struct tiny t;
    struct lw_strategy s = two_ranks();

    tiny_init(&t);
    s.micro_batches = 2;
    struct lw_plan p = build(&t, &s);
    assert_ops(&p, "steady",
               "F0:1 F1:2 F2:3 B2:5 B2:1 B1:2 B1:2 B0:2 "
               "F0:1 F1:2 F2:3 B2:5 Ci/1200 AR1/1200 B2:1 B1:2 Ci/8 B1:2 Ci/800 B0:2 Ci/400 "
               "AR2/1208 Co1/1200 Co2/1208 O:7");
    lw_plan_free(&p);
}

TEST(gaps_stand_where_the_host_keeps_the_device_waiting)
{
    struct tiny t;
    struct lw_strategy s = lw_strategy_default();

    tiny_init(&t);
    for (int g = 0; g < LW_N_GAPS; g++)
        t.w.gap_ps[g] = (g + 1) * 10 * LW_PS_PER_US;
    struct lw_plan p = build(&t, &s);
    assert_ops(&p, "first",
               "H:10 F0:1 F1:2 F2:3 H:20 B2:5 B2:1 B1:2 B1:2 B0:2 H:30 O:7 H:40");
    lw_plan_free(&p);
}

TEST(buffers_are_broadcast_by_dtype_before_a_synchronised_forward)
{
    struct tiny t;
    struct lw_strategy s = two_ranks();

    tiny_init(&t);
    t.buffers[0] = (struct lw_buffer){"bn.mean", 10, LW_F32, true};
    t.buffers[1] = (struct lw_buffer){"bn.count", 1, LW_I64, true};
    t.w.n_buffers = 2;
    s.no_sync = 1;
    struct lw_plan p = build(&t, &s);
    assert_ops(&p, "steady",
               "C/40 Bc/40 C/8 Bc/8 C/40 C/8 F0:1 F1:2 F2:3 B2:5 Ci/1200 AR1/1200 B2:1 B1:2 Ci/8 "
               "B1:2 Ci/800 B0:2 Ci/400 AR2/1208 Co1/1200 Co2/1208 O:7");
    assert_ops(&p, "accumulate", "F0:1 F1:2 F2:3 B2:5 B2:1 B1:2 B1:2 B0:2");
    struct lw_program g = lw_plan_program(&p, find_variant(&p, "steady"), 0);
    assert_int_equal(p.ops[g.first_op + 1].peer, 0);
    lw_plan_free(&p);
}

TEST(a_hook_halves_the_bytes_on_the_wire_and_casts_both_ways)
{
    struct tiny t;
    struct lw_strategy s = two_ranks();

    tiny_init(&t);
    s.comm_hook = LW_HOOK_BF16;
    struct lw_plan p = build(&t, &s);
    assert_ops(&p, "steady",
               "F0:1 F1:2 F2:3 B2:5 Ci/1200 Ca1/1200 AR1/600 Ca1/1200 B2:1 B1:2 Ci/8 B1:2 Ci/800 "
               "B0:2 Ci/400 Ca2/1208 AR2/604 Ca2/1208 Co1/1200 Co2/1208 O:7");
    assert_int_equal(p.buckets[1].dtype, LW_BF16);
    assert_int_equal(p.buckets[1].bytes, 600);
    struct lw_program g = lw_plan_program(&p, find_variant(&p, "steady"), 0);
    assert_string_equal(p.streams[p.ops[g.first_op + 5].stream].name, "compute");
    assert_string_equal(p.streams[p.ops[g.first_op + 7].stream].name, "copy");
    lw_plan_free(&p);
}

TEST(gradients_take_the_dtype_that_was_asked_for)
{
    struct tiny t;
    struct lw_strategy s = two_ranks();

    tiny_init(&t);
    t.params[C_WEIGHT].dtype = LW_BF16; /* its own key: 600 bytes never reach 1200 */
    struct lw_plan p = build(&t, &s);
    assert_int_equal(p.n_buckets, 4);
    assert_int_equal(p.buckets[2].bytes, 1208); /* closed first */
    assert_int_equal(p.buckets[3].bytes, 600);
    lw_plan_free(&p);
    s.grad_dtype = LW_GRAD_F32;
    p = build(&t, &s);
    assert_int_equal(p.n_buckets, 3);
    assert_int_equal(p.buckets[1].bytes, 1200);
    lw_plan_free(&p);
}

TEST(an_unused_parameter_is_refused_or_copied_as_zeros)
{
    struct tiny t;
    struct lw_strategy s = two_ranks();
    struct lw_plan p;
    struct lw_err err = {0};

    tiny_init(&t);
    t.params[A_WEIGHT].used = false;
    t.params[A_WEIGHT].ready_ps = -1;
    t.w.n_ready = 3;
    assert_int_equal(lw_plan_build(&t.w, &s, NULL, &p, &err), LW_EINVAL);
    assert_non_null(strstr(err.msg, "parameter 0 'a.weight' is unused in the step"));
    assert_non_null(strstr(err.msg, "--find-unused on"));

    /* Registration order a.weight 400, b.weight 800 = 1200 closes; b.bias 8, c.weight 1200 = 1208;
     * reversed: bucket 0 = b.bias and c.weight. The unused gradient goes with the first copy:
     * 1200 + 400. Map: 4 parameters x 4 bytes. */
    s.find_unused = true;
    p = build(&t, &s);
    assert_int_equal(p.n_variants, 1);
    assert_ops(&p, "first",
               "F0:1 F1:2 F2:3 B2:5 Ci/1600 B2:1 B1:2 Ci/8 AR0/1208 B1:2 Ci/800 AR1/1200 AR/16 "
               "B0:2 Co0/1208 Co1/1200 O:7");
    struct lw_program g = lw_plan_program(&p, 0, 0);
    const struct lw_op *copy = &p.ops[g.first_op + 4];
    assert_int_equal(copy->n_ready, 2);
    assert_int_equal(p.ready[copy->first_ready], A_WEIGHT);
    lw_plan_free(&p);
}

TEST(a_static_graph_records_once_and_is_rebuilt_after_its_second_step)
{
    struct tiny t;
    struct lw_strategy s = two_ranks();

    tiny_init(&t);
    s.static_graph = true;
    struct lw_plan p = build(&t, &s);
    assert_ops(&p, "first",
               "F0:1 F1:2 F2:3 B2:5 B2:1 B1:2 B1:2 B0:2 AR/16 Ci/2408 AR0/2408 Co0/2408 O:7");
    assert_ops(&p, "second",
               "F0:1 F1:2 F2:3 B2:5 Ci/1200 B2:1 B1:2 Ci/8 B1:2 Ci/800 B0:2 Ci/400 AR0/2408 "
               "Co0/2408 O:7");
    assert_int_equal(p.n_passes, 3);
    assert_int_equal(p.repeat_from, 2);
    lw_plan_free(&p);
}

TEST(frozen_ignored_and_tied_parameters_are_in_no_bucket)
{
    struct tiny t;
    struct lw_strategy s = two_ranks();

    tiny_init(&t);
    t.params[B_BIAS].trainable = false;
    t.params[B_BIAS].ready_ps = -1;
    t.params[B_WEIGHT].ignored = true;
    t.order[1] = B_WEIGHT;
    t.order[2] = A_WEIGHT;
    t.w.n_ready = 3;
    struct lw_plan p = build(&t, &s);
    assert_ops(&p, "steady",
               "F0:1 F1:2 F2:3 B2:5 Ci/1200 AR1/1200 B2:1 B1:4 B0:2 Ci/400 AR2/400 Co1/1200 "
               "Co2/400 O:7");
    assert_int_equal(p.n_shards, 0); /* every member updates all but the frozen one */
    lw_plan_free(&p);

    tiny_init(&t);
    t.params[C_WEIGHT].numel = 100;
    t.params[C_WEIGHT].tied = A_WEIGHT;
    t.params[C_WEIGHT].ready_ps = -1;
    memmove(t.order, t.order + 1, 3 * sizeof *t.order);
    t.w.n_ready = 3;
    p = build(&t, &s);
    assert_int_equal(p.buckets[0].n_slots, 3);
    lw_plan_free(&p);
}

TEST(an_unknown_ready_order_is_reverse_registration_and_said)
{
    struct tiny t;
    struct lw_strategy s = two_ranks();

    tiny_init(&t);
    t.w.n_ready = 0;
    for (int i = 0; i < 4; i++)
        t.params[i].ready_ps = -1;
    struct lw_plan p = build(&t, &s);
    /* all of a module's gradients at its end: c 1200 | b.bias 8, b.weight 800, a.weight 400 */
    assert_ops(&p, "steady",
               "F0:1 F1:2 F2:3 B2:6 Ci/1200 AR1/1200 B1:4 Ci/808 B0:2 Ci/400 AR2/1208 Co1/1200 "
               "Co2/1208 O:7");
    assert_true(has_note(&p, "reverse registration is assumed"));
    lw_plan_free(&p);
}

TEST(a_model_without_times_keeps_gradients_with_their_modules)
{
    struct tiny t;
    struct lw_strategy s = two_ranks();

    tiny_init(&t);
    t.w.n_ready = 0;
    for (int i = 0; i < 4; i++)
        t.params[i].ready_ps = -1;
    for (int m = 0; m < 3; m++)
        t.modules[m].forward_ps = t.modules[m].backward_input_ps =
            t.modules[m].backward_weight_ps = 0;
    struct lw_plan p = build(&t, &s);
    assert_ops(&p, "steady", "F0 F1 F2 B2 Ci/1200 AR1/1200 B1 Ci/808 B0 Ci/400 AR2/1208 Co1/1200 "
                             "Co2/1208 O:7");
    lw_plan_free(&p);
}

TEST(flops_and_bytes_of_a_cut_module_sum_to_twice_its_forward)
{
    struct tiny t;
    struct lw_backward back;
    struct lw_strategy s = lw_strategy_default();
    struct lw_err err = {0};

    tiny_init(&t);
    assert_int_equal(lw_backward_cut(&t.w, &back, &err), LW_OK);
    assert_int_equal(back.n_stretches, 5);
    assert_int_equal(back.stretches[1].start, 5 * LW_PS_PER_US);
    assert_int_equal(back.stretches[1].n_ready, 0);
    assert_true(back.order_known);
    lw_backward_free(&back);
    t.modules[2].forward_bytes = 30;
    struct lw_plan p = build(&t, &s);
    struct lw_program g = lw_plan_program(&p, 0, 0);
    /* 1200 flops and 60 bytes over 6 us, cut at 5: 1000 and 200, 50 and 10; module b tells no
     * bytes */
    assert_int_equal(p.works[p.ops[g.first_op + 3].work].flops, 1000);
    assert_int_equal(p.works[p.ops[g.first_op + 4].work].flops, 200);
    assert_int_equal(p.works[p.ops[g.first_op + 3].work].bytes, 50);
    assert_int_equal(p.works[p.ops[g.first_op + 4].work].bytes, 10);
    assert_int_equal(p.works[p.ops[g.first_op + 1].work].bytes, -1);
    lw_plan_free(&p);
}

TEST(unsupported_option_is_refused_with_a_reason)
{
    static const struct {
        const char *option, *value, *message;
        enum lw_status status;
    } cases[] = {
        {"pp", "2", "--pp 2: module", LW_EINVAL},   {"tp", "4", "--tp 4: workload", LW_EINVAL},

        {"recompute", "selective", "--recompute selective", LW_EINVAL},
        {"broadcast-dtype", "f16", "--broadcast-dtype needs --zero", LW_EINVAL},
        {"bucket-policy", "sharded-ddp", "it needs --zero 1", LW_EINVAL},
        {"prefetch", "1", "--prefetch needs --zero 3", LW_EINVAL},
        {"micro-batches", "2147483647", "--micro-batches", LW_EINVAL},
        {"no-sync", "2147483647", "--no-sync", LW_EINVAL},
    };
    struct tiny t;

    tiny_init(&t);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lw_strategy s = two_ranks();
        struct lw_plan p;
        struct lw_err err = {0};
        enum lw_status st = lw_strategy_set(&s, cases[i].option, cases[i].value, &err);
        if (st == LW_OK)
            st = lw_plan_build(&t.w, &s, NULL, &p, &err);
        assert_int_equal(st, cases[i].status);
        has(err.msg, cases[i].message);
    }
    struct lw_strategy s = two_ranks();
    struct lw_plan p;
    struct lw_err err = {0};
    t.params[B_WEIGHT].sparse = true;
    assert_int_equal(lw_plan_build(&t.w, &s, NULL, &p, &err), LW_ENOTSUP);
    assert_non_null(strstr(err.msg,
                           "'b.weight' has a sparse gradient: the workload does not give"));
}

TEST(the_same_input_gives_the_same_hash)
{
    struct tiny t;
    struct lw_strategy s = two_ranks();

    tiny_init(&t);
    struct lw_plan a = build(&t, &s), b = build(&t, &s);
    assert_int_equal(strlen(a.hash), 32);
    assert_string_equal(a.hash, b.hash);
    lw_plan_free(&b);
    s.bucket_cap_bytes++;
    b = build(&t, &s);
    assert_string_not_equal(a.hash, b.hash);
    lw_plan_free(&b);
    lw_plan_free(&a);
}

/* Newton and Schulz's products take whole matrices. */
TEST(muon_updates_whole_matrices)
{
    static const struct {
        const char *words, *says;
    } cases[] = {{"dp 2 zero 1", "each matrix is updated whole; choose --shard-policy lpt"},
                 {"dp 2 zero 3", "--zero 3: matrices are cut"},
                 {"dp 2 accumulate-pass on micro-batches 2", "--accumulate-pass on"}};
    struct tiny t;
    struct lw_err err;
    struct lw_plan p;

    tiny_init(&t);
    t.w.optimizer = LW_OPTIMIZER_MUON;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lw_strategy s = strategy(cases[i].words);
        assert_int_equal(lw_plan_build(&t.w, &s, NULL, &p, &err), LW_ENOTSUP);
        assert_non_null(strstr(err.msg, cases[i].says));
    }
    struct lw_strategy s = strategy("dp 2 zero 1 shard-policy lpt");
    assert_ok(lw_plan_build(&t.w, &s, NULL, &p, &err), err);
    lw_plan_free(&p);
}

/* On random models every strategy's plan passes its own check (lw_plan_build runs it), every
 * gradient's bytes are reduced once, and forward and backward times are kept. */
TEST(random_models_keep_bytes_and_times)
{
    enum { M = 12, P = 40 };
    struct prng x = prng_start("random models keep bytes and times");

    for (int round = 0; round < 200; round++) {
        struct lw_module modules[M];
        struct lw_param params[P];
        struct lw_workload w = {.name = "random",
                                .modules = modules,
                                .params = params,
                                .n_modules = 1 + prng_below(&x, M)};
        w.n_params = 1 + prng_below(&x, P);
        lw_ps total = 0, sum = 0;
        int64_t bytes = 0, reduced = 0;
        for (int m = 0; m < w.n_modules; m++) {
            modules[m] = tiny_module("m", prng_below(&x, 5));
            total += 3 * modules[m].forward_ps;
        }
        for (int i = 0; i < w.n_params; i++) {
            params[i] = tiny_param("p", prng_below(&x, 1000), i * w.n_modules / w.n_params, 0);
            params[i].ready_ps = -1;
            params[i].dtype = prng_below(&x, 3) ? LW_F32 : LW_BF16;
            bytes += params[i].numel * lw_dtype_size(params[i].dtype);
        }
        struct lw_strategy s = lw_strategy_default();
        s.dp = 1 + prng_below(&x, 4);
        s.bucket_policy = (enum lw_bucket_policy_id)(
            prng_below(&x, 2) ? prng_below(&x, 3) : LW_BUCKET_PER_TENSOR + prng_below(&x, 2));
        s.find_unused = prng_below(&x, 2);
        s.overlap = prng_below(&x, 2);
        s.launch_order = (enum lw_launch_order)prng_below(&x, 2);
        if (s.bucket_policy <= LW_BUCKET_C10D_2)
            s.bucket_cap_bytes = prng_below(&x, 5000);
        struct lw_plan p;
        struct lw_err err = {0};
        if (lw_plan_build(&w, &s, NULL, &p, &err) != LW_OK)
            fail_msg("round %d: %s", round, err.msg);
        struct lw_program g = lw_plan_program(&p, p.n_variants - 1, 0);
        for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++) {
            const struct lw_op *o = &p.ops[i];
            if (o->kind == LW_OP_FORWARD || o->kind == LW_OP_BACKWARD)
                sum += lw_plan_work_ps(&p, o);
            if (o->kind == LW_OP_ALL_REDUCE && o->bucket >= 0)
                reduced += o->bytes;
        }
        assert_int_equal(sum, total);
        assert_int_equal(reduced, s.dp > 1 ? bytes : 0);
        lw_plan_free(&p);
    }
}

TEST(a_failing_allocation_leaks_nothing)
{
    struct tiny t;
    struct lw_strategy s = two_ranks();
    int64_t before = lw_alloc_live();

    tiny_init(&t);
    t.w.from.hash = "0123";
    s.no_sync = 1;
    assert_true(build_without_memory(&t.w, &s, NULL) >= 20);
    struct lw_plan p = build(&t, &s);
    assert_string_equal(p.workload_hash, "0123");
    lw_plan_free(&p);
    assert_int_equal(lw_alloc_live(), before);
}

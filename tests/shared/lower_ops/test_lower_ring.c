/* Ring attention: shared/lower_part/lower_ring.c, docs/design/lower_sequence.md. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <string.h>

#include "shared/lower/lower.h"
#include "shared/plan/op.h"
#include "shared/timeline/param_memory.h"
#include "tests/lib/exec/exec_words.h"
#include "tests/lib/plans/plan_words.h"
#include "tests/lib/plans/random_strategy.h"
#include "tests/lib/plans/tiny_build.h"
#include "tests/lib/sim/sim_help.h"
#include "tests/lib/traces/model_help.h"

enum { ROOM = 4096, BLOCK = 1000, B = 1 };

/* The block b reads 1000 bytes of keys and values of each of n ranks. A rank's share of its forward
 * is 800 ns, then attention for 200 ns a step, then 200 ns; of its backward 100 ns, attention for
 * 400 ns a step, and 300 ns. b.bias is ready in the middle of the backward. */
static void init(struct tiny *t, int32_t n)
{
    lw_ps ns = LW_PS_PER_NS;

    tiny_block(t);
    t->modules[B].forward_ps = n * (800 + 200 * n + 200) * ns;
    t->modules[B].backward_input_ps = n * (100 + 400 * n + 100) * ns;
    t->modules[B].backward_weight_ps = n * 200 * ns;
    t->modules[B].attention_start_ps = n * 800 * ns;
    t->modules[B].attention_ps = n * n * 200 * ns;
    t->modules[B].attention_backward_start_ps = n * 100 * ns;
    t->modules[B].attention_backward_ps = n * n * 400 * ns;
    t->modules[B].kv_bytes = n * BLOCK;
    t->params[C_WEIGHT].ready_ps = 5 * LW_PS_PER_US;
    lw_ps end_c = lw_module_backward(&t->modules[2]), b = lw_module_backward(&t->modules[B]);
    t->params[B_BIAS].ready_ps = end_c + b / 2;
    t->params[B_WEIGHT].ready_ps = end_c + b;
    t->params[A_WEIGHT].ready_ps = end_c + b + lw_module_backward(&t->modules[0]);
}

static bool is_of_b(const struct lw_op *o)
{
    return o->module == B;
}

/* Of module b: letter, ':' length in ns; messages with bytes and peer; '<' and the distance back to
 * a message that the op waits for. */
static const char *ops_of_b(const struct lw_plan *p, int32_t rank, char *text)
{
    struct lw_program g = lw_plan_program(p, p->n_variants - 1, rank);
    size_t at = 0;

    text[0] = '\0';
    for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++) {
        const struct lw_op *o = &p->ops[i];
        struct lw_operand d = lw_plan_operand(p, o, rank);
        if (!is_of_b(o))
            continue;
        at += (size_t)snprintf(text + at, ROOM - at, "%s%s", at > 0 ? " " : "",
                               lw_op_letter(o->kind));
        if (o->comm >= 0 && d.peer >= 0)
            at += (size_t)snprintf(text + at, ROOM - at, "%d/%lld", d.peer, (long long)d.bytes);
        else if (o->comm >= 0)
            at += (size_t)snprintf(text + at, ROOM - at, "/%lld", (long long)d.bytes);
        else
            at += (size_t)snprintf(text + at, ROOM - at, ":%lld",
                                   (long long)(lw_plan_work_ps(p, o) / LW_PS_PER_NS));
        for (int32_t k = o->first_dep; o->comm < 0 && k < o->first_dep + o->n_deps; k++)
            if (p->ops[p->deps[k]].comm >= 0)
                at += (size_t)snprintf(text + at, ROOM - at, "<%d", i - p->deps[k]);
    }
    return text;
}

/* Rank 1 of four sends to 2 and receives from 0 in the forward, and the other way round in the
 * backward. A step waits for what came beside the step before; after the backward's last step the
 * own block's gradients are waited for. b.bias is ready inside the third step (of two ranks the
 * second): its copy into the bucket follows, and waits for the block in the next op's place. */
TEST(blocks_travel_beside_the_steps_of_attention)
{
    struct tiny t;
    char text[ROOM];

    init(&t, 4);
    struct lw_plan p = plan_of_words(&t.w, "cp 4 cp-comm-type p2p");
    assert_string_equal(ops_of_b(&p, 1, text),
                        "F:800 S2/1000 V0/1000 F:200 S2/1000 V0/1000 F:200<4 S2/1000 V0/1000 "
                        "F:200<4 F:200<2 F:200 "
                        "B:100 S0/1000 V2/1000 B:400 S0/2000 V2/2000 B:400<4 S0/2000 V2/2000 "
                        "B:400<4 S0/1000 V2/1000 B:400 B:300<2");
    lw_plan_free(&p);
    init(&t, 2);
    p = plan_of_words(&t.w, "dp 2 cp 2 cp-comm-type p2p");
    assert_string_equal(ops_of_b(&p, 3, text),
                        "F:800 S2/1000 V2/1000 F:200 F:200<2 F:200 "
                        "B:100 S2/1000 V2/1000 B:400 S2/1000 V2/1000 B:400<4 B:300");
    lw_plan_free(&p);
}

/* N - 1 blocks in the forward; in the backward N - 1 of keys and values and N - 1 of gradients. */
TEST(each_direction_moves_all_blocks_but_the_own)
{
    for (int32_t n = 2; n <= 6; n++) {
        struct tiny t;
        char words[80];
        int64_t bytes[2] = {0, 0};
        int32_t messages[2] = {0, 0};
        bool backward = false;

        init(&t, n);
        snprintf(words, sizeof words, "cp %d cp-comm-type p2p", n);
        struct lw_plan p = plan_of_words(&t.w, words);
        struct lw_program g = lw_plan_program(&p, p.n_variants - 1, 0);
        for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++) {
            backward = backward || p.ops[i].kind == LW_OP_BACKWARD;
            if (p.ops[i].kind != LW_OP_SEND)
                continue;
            messages[backward]++;
            bytes[backward] += lw_plan_operand(&p, &p.ops[i], 0).bytes;
        }
        assert_int_equal(messages[0], n - 1);
        assert_int_equal(messages[1], n);
        assert_int_equal(bytes[0], (n - 1) * BLOCK);
        assert_int_equal(bytes[1], 2 * (n - 1) * BLOCK);
        lw_plan_free(&p);
    }
}

/* --- time and memory -------------------------------------------------------------------------- */

struct seen {
    lw_ps forward, backward;     /* from b's first op to the end of its last */
    int64_t most[2];             /* bytes of messages, until b's forward has ended and after */
    int64_t left;                /* at the end */
};

static struct seen simulate(int32_t n, const char *type, double bytes_per_s)
{
    struct tiny t;
    struct world w = {0};
    struct seen seen = {0};
    struct lw_err err = {0};
    const struct lw_memory_change *v;
    struct lw_memory_walk *walk;
    struct lw_sim_options o = lw_sim_options_default();
    char words[80];
    int64_t n_changes;
    lw_ps first[2] = {-1, -1}, end[2] = {0, 0};

    init(&t, n);
    snprintf(words, sizeof words, "cp %d cp-comm-type %s", n, type);
    w.plan = plan_of_words(&t.w, words);
    make_cluster(&w.c, n, bytes_per_s, 0);
    w.c.device.copy_bytes_per_s = given(1e18);
    o.n_steps = 1;
    run_world(&w, o);
    for (int64_t i = 0; i < w.t.n; i++) {
        const struct lw_op *op = &w.plan.ops[w.t.op[i]];
        int back = op->kind == LW_OP_BACKWARD;
        if (w.t.rank[i] != 0 || !is_of_b(op) || lw_op_class(op->kind) != LW_CLASS_COMPUTE)
            continue;
        first[back] = first[back] < 0 ? w.t.start[i] : first[back];
        end[back] = w.t.end[i];
    }
    seen.forward = end[0] - first[0];
    seen.backward = end[1] - first[1];
    assert_int_equal(lw_memory_walk_new(&w.t, &w.plan, &walk, &err), LW_OK);
    assert_int_equal(lw_memory_walk_rank(walk, 0, &v, &n_changes, &err), LW_OK);
    for (int64_t i = 0; i < n_changes; i++) {
        if (v[i].memory != LW_MEMORY_MESSAGES)
            continue;
        seen.left += v[i].bytes;
        int back = v[i].at > end[0];
        seen.most[back] = seen.left > seen.most[back] ? seen.left : seen.most[back];
    }
    lw_memory_walk_free(walk);
    free_world(&w);
    return seen;
}

static lw_ps longer(lw_ps a, lw_ps b)
{
    return a > b ? a : b;
}

/* With c and b ns for a step forward and backward, and t for a block: the forward takes (N - 1)
 * max(c, t) + c; the backward max(b, t) for the first and the last step, max(b, 2 t) for others.
 * Blocks of 1000 bytes: 100 ns at 10 GB/s, hidden beside c = 200 and b = 400; 250 at 4 GB/s,
 * exposed by 50 in a forward and by 100 with the gradients; 1 us at 1 GB/s, exposed always. */
TEST(a_step_takes_the_longer_of_attention_and_message)
{
    static const struct {
        double bytes_per_s;
        lw_ps t;
    } links[] = {{1e10, 100}, {4e9, 250}, {1e9, 1000}};
    const lw_ps c = 200, b = 400;

    for (int32_t n = 2; n <= 5; n++)
        for (size_t i = 0; i < sizeof links / sizeof *links; i++) {
            lw_ps t = links[i].t;
            struct seen seen = simulate(n, "p2p", links[i].bytes_per_s);
            lw_ps forward = 800 + (n - 1) * longer(c, t) + c + 200;
            lw_ps backward = 100 + 2 * longer(b, t) + (n - 2) * longer(b, 2 * t) + 300;
            assert_int_equal(seen.forward, forward * LW_PS_PER_NS);
            assert_int_equal(seen.backward, backward * LW_PS_PER_NS);
        }
}

/* The block that is used and the one that comes: two in the forward, beside the own one that its
 * activations keep. In the backward both have gradients with them, from the second to the last but
 * one: 2 (2 ranks), 3 (3) or 4 blocks. */
TEST(two_blocks_of_keys_and_values_are_held)
{
    for (int32_t n = 2; n <= 6; n++)
        for (double rate = 1e9; rate <= 1e10; rate *= 10) {
            struct seen seen = simulate(n, "p2p", rate);
            assert_int_equal(seen.most[0], 2 * BLOCK);
            assert_int_equal(seen.most[1], (n < 4 ? n : 4) * BLOCK);
            assert_int_equal(seen.left, 0);
        }
}

/* A group that gathers holds n blocks, and as many of gradients in the backward. */
TEST(all_keys_and_values_are_held_where_they_are_gathered)
{
    for (int32_t n = 2; n <= 6; n++) {
        struct seen seen = simulate(n, "all-gather", 1e9);
        assert_int_equal(seen.most[0], n * BLOCK);
        assert_int_equal(seen.most[1], 2 * n * BLOCK);
        assert_int_equal(seen.left, 0);
    }
}

/* --- proofs ----------------------------------------------------------------------------------- */

/* Of a group call no op waits: the two begin together. */
static void expect_fault_without(int32_t nth, enum lw_op_kind kind)
{
    static const char words[] = "does not wait for";
    int32_t n = kind == LW_OP_SEND ? 2 : 1;
    struct tiny t;
    struct lw_err err = {0};

    init(&t, 4);
    struct lw_plan p = plan_of_words(&t.w, "cp 4 cp-comm-type p2p");
    struct lw_program g = lw_plan_program(&p, p.n_variants - 1, 0);
    int32_t i = g.first_op;
    for (int32_t left = nth; i < g.first_op + g.n_ops; i++)
        if (is_of_b(&p.ops[i]) && p.ops[i].kind == kind && left-- == 0)
            break;
    assert_true(i < g.first_op + g.n_ops);
    for (int32_t k = i; k < i + n; k++)
        p.ops[k].n_deps = 0;
    assert_int_equal(lw_plan_check(&p, &err), LW_EPLAN);
    if (!strstr(err.msg, words))
        fail_msg("'%s' lacks '%s'", err.msg, words);
    lw_plan_free(&p);
}

/* F: before, steps 0 to 3, after. B: the same. */
TEST(a_step_waits_for_its_block)
{
    expect_fault_without(2, LW_OP_FORWARD);
    expect_fault_without(4, LW_OP_FORWARD);
    expect_fault_without(2, LW_OP_BACKWARD);
    expect_fault_without(5, LW_OP_BACKWARD);
}

/* The first send of a direction waits for the op that makes the block; every one of a backward for
 * the gradients of the step before. */
TEST(a_send_waits_for_what_it_sends)
{
    expect_fault_without(0, LW_OP_SEND);
    expect_fault_without(4, LW_OP_SEND);
    expect_fault_without(6, LW_OP_SEND);
}

/* --- any model ----------------------------------------------------------------------------- */

static lw_ps part_of(struct prng *r, lw_ps all)
{
    return prng_in(r, all / 8, all / 3);
}

/* Attention somewhere in every third module, and gradients that are ready anywhere in theirs. */
static void add_attention(struct prng *r, struct random_model *k, int64_t ranks)
{
    lw_ps end = 0;

    k->w.n_sparse = 0;
    for (int32_t m = k->w.n_modules - 1; m >= 0; m--) {
        struct lw_module *x = &k->modules[m];
        lw_ps backward = lw_module_backward(x);
        end += backward;
        for (int32_t i = 0; i < k->w.n_params; i++)
            if (k->params[i].module == m && lw_param_has_gradient(&k->params[i]))
                k->params[i].ready_ps = end - prng_in(r, 0, backward);
        if (m % 3 != 1)
            continue;
        x->kv_bytes = ranks * prng_in(r, 1, 1000);
        x->attention_start_ps = part_of(r, x->forward_ps);
        x->attention_ps = part_of(r, x->forward_ps);
        x->attention_backward_start_ps = part_of(r, backward);
        x->attention_backward_ps = part_of(r, backward);
    }
    for (int32_t i = 0; i < k->w.n_params; i++)
        k->params[i].sparse = false;
}

struct totals {
    lw_ps work;
    int64_t bytes;
};

static struct totals totals_of(const struct lw_plan *p)
{
    struct totals t = {0, 0};

    for (int32_t i = 0; i < p->n_ops; i++) {
        const struct lw_op *op = &p->ops[i];
        if (lw_op_class(op->kind) == LW_CLASS_COMPUTE)
            t.work += lw_plan_work_ps(p, op);
        else if (op->comm >= 0 && p->comms[op->comm].purpose == LW_COMM_CONTEXT &&
                 op->kind != LW_OP_RECV)
            t.bytes += lw_plan_operand(p, op, 0).bytes > 0 ? op->bytes : 0;
    }
    return t;
}

static void expect_nothing_left(const struct lw_timeline *t, const struct lw_plan *p)
{
    const struct lw_memory_change *v;
    struct lw_memory_walk *walk;
    struct lw_err err = {0};

    assert_int_equal(lw_memory_walk_new(t, p, &walk, &err), LW_OK);
    for (int32_t r = 0; r < p->n_ranks; r++) {
        int64_t n, left = 0;
        assert_int_equal(lw_memory_walk_rank(walk, r, &v, &n, &err), LW_OK);
        for (int64_t i = 0; i < n; i++)
            left += v[i].memory == LW_MEMORY_MESSAGES ? v[i].bytes : 0;
        assert_int_equal(left, 0);
    }
    lw_memory_walk_free(walk);
}

static void simulate_any(const struct lw_plan *p)
{
    struct lw_cluster c;
    struct lw_sim_options o = lw_sim_options_default();
    struct lw_sim_stats stats;

    make_cluster(&c, p->n_ranks, 1e9, 1000);
    c.device.copy_bytes_per_s = given(1e12);
    o.n_steps = 2;
    for (int buffered = 0; buffered < 2; buffered++) {
        struct lw_timeline t = {0};
        o.buffered = buffered;
        run_both(p, &c, o, &t, &stats);
        expect_nothing_left(&t, p);
        lw_timeline_free(&t);
    }
    lw_cluster_free(&c);
}

/* Every plan that is made is proven, runs folded as rank by rank, computes as long as with
 * collectives, and sends (N - 1) / N of the bytes that these are called with. */
TEST(rings_in_any_model_are_proven_and_run)
{
    struct prng r = prng_start("rings");
    const int plans = unit_cases(8, 400);
    int made = 0;

    for (int tries = 0; made < plans; tries++) {
        static struct random_model k;
        struct lw_strategy s;
        struct lw_plan ring, whole;
        struct lw_err err = {0};
        char text[1024] = "";
        random_model(&r, &k);
        random_strategy(&r, &k, &s);
        s.cp = prng_in(&r, 2, 4);
        s.cp_comm = LW_CP_P2P;
        s.dp = s.dp > 2 ? 2 : s.dp;
        s.recompute = s.recompute == LW_RECOMPUTE_SELECTIVE ? LW_RECOMPUTE_NONE : s.recompute;
        add_attention(&r, &k, s.cp * s.tp);
        strategy_words(&s, text, sizeof text);
        enum lw_status st = lw_plan_build(&k.w, &s, NULL, &ring, &err);
        if (st == LW_EPLAN || st == LW_ENOMEM || tries > 40 * plans)
            fail_msg("%d of %d made:%s: %s", made, tries, text, err.msg);
        if (st != LW_OK)
            continue;
        s.cp_comm = LW_CP_ALL_GATHER;
        assert_ok(lw_plan_build(&k.w, &s, NULL, &whole, &err), err);
        struct totals a = totals_of(&ring), b = totals_of(&whole);
        if (a.work != b.work || a.bytes * s.cp != b.bytes * (s.cp - 1))
            fail_msg("%lld ps, %lld bytes, with collectives %lld ps, %lld bytes:%s",
                     (long long)a.work, (long long)a.bytes, (long long)b.work,
                     (long long)b.bytes, text);
        if (ring.n_ranks <= 64) {
            simulate_any(&ring);
            simulate_any(&whole);
        }
        lw_plan_free(&ring);
        lw_plan_free(&whole);
        made++;
    }
}

/* --- the whole -------------------------------------------------------------------------------- */

static struct lw_workload model(void)
{
    return model_build("llama-7b", (struct traces_model_shape){
                           .batch = 1, .layers = 2, .hidden = 16, .heads = 4, .ffn = 32, .seq = 48,
                           .vocab = 32, .dtype = "f32", .optimizer = "adam"});
}

/* The work of attention itself is the same, cut in steps. */
TEST(steps_last_as_long_as_the_attention)
{
    static const char *const words[] = {"cp 4", "cp 2 tp 2", "cp 2 tp 2 sequence-parallel on",
                                        "cp 4 recompute full"};
    struct lw_workload w = model();

    for (size_t k = 0; k < sizeof words / sizeof *words; k++) {
        lw_ps sum[2] = {0, 0};
        for (int ring = 0; ring < 2; ring++) {
            char more[120];
            snprintf(more, sizeof more, "%s cp-comm-type %s", words[k],
                     ring ? "p2p" : "all-gather");
            struct lw_plan p = plan_of_words(&w, more);
            struct lw_program g = lw_plan_program(&p, p.n_variants - 1, 0);
            for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++)
                if (lw_op_class(p.ops[i].kind) == LW_CLASS_COMPUTE)
                    sum[ring] += lw_plan_work_ps(&p, &p.ops[i]);
            lw_plan_free(&p);
        }
        assert_int_equal(sum[0], sum[1]);
    }
    lw_workload_free(&w);
}

/* On threads, every block compared where it is used, weights equal to one rank's bit by bit. */
TEST(all_of_it_runs_and_is_verified)
{
    static const char *const words[] = {
        "cp 2 cp-comm-type p2p", "cp 3 cp-comm-type p2p", "cp 4 cp-comm-type p2p micro-batches 2",
        "cp 2 dp 2 zero 3 cp-comm-type p2p",
        "cp 2 tp 2 sequence-parallel on recompute full cp-comm-type p2p",
        "cp 3 clip 1 zero 1 cp-comm-type p2p",
        "cp 2 pp 2 micro-batches 4 cp-comm-type p2p",
        "cp 3 pp 2 micro-batches 4 schedule interleaved-1f1b chunks 2 cp-comm-type p2p",
        "cp 2 tp 2 pp 2 micro-batches 2 zero 2 cp-comm-type p2p"};
    struct lw_workload w = model();

    exec_expect_verified(&w, words, sizeof words / sizeof *words);
    lw_workload_free(&w);
}

/* A ring of four that goes the wrong way: the first block that comes is that of the sender,
 * as it should be, but the second one is not that of the rank before it. */
TEST(a_block_of_another_rank_is_found)
{
    struct tiny t;
    struct lw_exec_options o = exec_asleep(1, EXEC_MOMENTUM);

    init(&t, 4);
    struct lw_plan p = plan_of_words(&t.w, "cp 4 cp-comm-type p2p");
    for (int32_t i = 0; i < p.n_ops; i++) {
        int32_t peers = p.ops[i].operand;
        if (p.ops[i].kind != LW_OP_SEND)
            continue;
        p.ops[i].operand = p.ops[i + 1].operand;
        p.ops[i + 1].operand = peers;
    }
    exec_expect_fault(&p, &o, "; it is that of rank");
    lw_plan_free(&p);
}

TEST(a_failed_allocation_leaves_nothing)
{
    struct tiny t;
    struct lw_strategy s = strategy("cp 2 cp-comm-type p2p");

    init(&t, 2);
    assert_true(build_without_memory(&t.w, &s, NULL) > 10);
}

TEST(what_cannot_be_planned_is_refused)
{
    struct tiny t;
    struct lw_workload w = model();

    plan_refused(&w, "cp-comm-type p2p", "needs --cp");
    plan_refused(&w, "cp 2 tp 2 tp-overlap backward cp-comm-type p2p", "--tp-overlap off");
    plan_refused(&w, "cp 2 pp 2 micro-batches 4 schedule zb-h1 cp-comm-type p2p",
                 "cannot be combined with --schedule zb-h1");
    plan_refused(&w, "cp 5 cp-comm-type p2p",
                 "48 tokens, expected a multiple of 10 (2 x --cp: each rank has an early and a "
                 "late piece): choose another --cp, or make the workload with another --seq");
    plan_refused(&w, "cp 5", "48 tokens, expected a multiple of 10 (2 x --cp");
    w.heads = 6;
    w.kv_heads = 3;
    plan_refused(&w, "tp 4",
                 "has 6 heads, which 4 ranks cannot divide: choose a --tp that divides 6");
    plan_refused(&w, "tp 2", "has 3 heads of keys and values, which 2 ranks cannot divide");
    lw_workload_free(&w);
    init(&t, 2);
    t.modules[B].attention_backward_ps = 0;
    plan_refused(&t.w, "cp 2 cp-comm-type p2p", "choose --cp-comm-type all-gather");
    init(&t, 2);
    t.modules[B].attention_start_ps = 0;
    plan_refused(&t.w, "cp 2 cp-comm-type p2p", "after other work of the module");
    init(&t, 2);
    t.modules[B].selective_ps = 1000;
    plan_refused(&t.w, "cp 2 recompute selective cp-comm-type p2p", "choose --recompute full");
}

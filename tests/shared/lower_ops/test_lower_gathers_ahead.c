/* --overlap-param-gather: shared/lower_part/lower_param_gather.c,
 * shared/lower_ops/lower_gathers_ahead.c, shared/check/terms.c, docs/design/lower_zero1.md. The
 * workload is that of tests/lib/plans/tiny_workload.h; buckets of at most 300 elements: c.weight;
 * b.bias and b.weight; a.weight. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <string.h>

#include "shared/lower/lower.h"
#include "shared/plan/op.h"
#include "tests/lib/plans/plan_words.h"
#include "tests/lib/plans/tiny_build.h"
#include "tests/lib/prng.h"
#include "tests/lib/sim/sim_help.h"

#define AHEAD "zero 1 bucket-cap 1200 overlap-param-gather on"

enum { ROOM = 4096 };

enum { MOST = 8 };

struct line { /* modules with a bucket each */
    struct lw_workload w;
    struct lw_module modules[MOST];
    struct lw_param params[MOST];
    int32_t order[MOST];
    lw_ps forward[MOST], gather[MOST];
};

static void line_of(struct line *x, int32_t n)
{
    memset(x, 0, sizeof *x);
    for (int32_t i = 0; i < n; i++) {
        x->modules[i] = tiny_module("m", 1);
        x->modules[i].output_bytes = 80;
        x->params[i] = tiny_param("p", 100, i, 2 * (n - i));
        x->order[i] = n - 1 - i;
    }
    x->w = (struct lw_workload){.name = "line", .n_modules = n, .n_params = n, .n_ready = n,
                                .modules = x->modules, .params = x->params,
                                .ready_order = x->order, .batch = 1, .optimizer_ps = 1000000};
    x->w.from.rank = x->w.from.step = -1;
    x->w.recorded.step_ps = x->w.recorded.step_spread_ps = -1;
}

static struct lw_plan build_tiny(const char *words)
{
    struct tiny t;

    tiny_init(&t);
    return plan_of_words(&t.w, words);
}

static void expect_program(const struct tiny *t, const char *words, const char *variant,
                           const char *ops)
{
    char text[ROOM];
    struct lw_plan p = plan_of_words(&t->w, words);

    assert_string_equal(tiny_ops(&p, variant, text, sizeof text), ops);
    lw_plan_free(&p);
}

static void expect_variant(const char *words, const char *variant, const char *ops)
{
    struct tiny t;

    tiny_init(&t);
    expect_program(&t, words, variant, ops);
}

/* --- ops ------------------------------------------------------------------------------------- */

#define REDUCED \
    "B2:5 Ci/1200 RS0/1200 B2:1 B1:2 Ci/8 B1:2 Ci/800 RS1/808 B0:2 Ci/400 RS2/400 Ew O:3"

/* Buckets 3 to 5 are the weights of 0 to 2. a's is gathered at the head, b's beside a's forward,
 * c's beside b's. */
TEST(each_bucket_is_gathered_beside_the_forward_before)
{
    expect_variant("dp 2 zero 1 bucket-cap 1200", "first",
                   "F0:1 F1:2 F2:3 " REDUCED " AG3/1200 AG4/808 AG5/400 Ew");
    expect_variant("dp 2 " AHEAD, "first",
                   "AG05/400 Ew AG14/808 F0:1 Ew AG23/1200 F1:2 Ew F2:3 " REDUCED);
}

TEST(gathers_are_issued_as_far_ahead_as_asked)
{
    expect_variant("dp 2 prefetch 0 " AHEAD, "first",
                   "AG05/400 Ew F0:1 AG14/808 Ew F1:2 AG23/1200 Ew F2:3 " REDUCED);
    expect_variant("dp 2 prefetch 9 " AHEAD, "first",
                   "AG05/400 Ew AG14/808 AG23/1200 F0:1 Ew F1:2 Ew F2:3 " REDUCED);
}

/* The next gather waits for what the compute stream has done by then: the wait for the bucket. */
TEST(a_gather_waits_for_the_wait_before)
{
    struct lw_plan p = build_tiny("dp 2 " AHEAD);

    for (int i = 1; i < 3; i++) {
        const struct lw_op *op = &p.ops[find_op(&p, LW_OP_ALL_GATHER, i)];
        assert_int_equal(op->n_deps, 1);
        assert_int_equal(p.deps[op->first_dep], find_op(&p, LW_OP_EVENT_WAIT, i - 1));
    }
    assert_int_equal(p.ops[find_op(&p, LW_OP_ALL_GATHER, 0)].n_deps, 0);
    lw_plan_free(&p);
}

/* ZeRO-2's gradients come and go as ever. */
TEST(gradients_in_shares_are_not_touched)
{
    expect_variant("dp 2 zero 2 bucket-cap 1200 overlap-param-gather on", "first",
                   "AG05/400 Ew AG14/808 F0:1 Ew AG23/1200 F1:2 Ew F2:3 +0/1200 B2:5 Ci/1200 "
                   "RS0/1200 -0/1200 B2:1 +1/808 B1:2 Ci/8 B1:2 Ci/800 RS1/808 -1/808 +2/400 B0:2 "
                   "Ci/400 RS2/400 -2/400 Ew O:3");
}

/* c's weight is a's: one bucket for both, of b.bias, b.weight and a.weight. */
TEST(a_tied_weight_is_gathered_for_its_first_user)
{
    struct tiny t;

    tiny_init(&t);
    t.params[C_WEIGHT] = t.params[A_WEIGHT];
    t.params[C_WEIGHT].module = 2;
    t.params[C_WEIGHT].tied = A_WEIGHT;
    t.params[C_WEIGHT].ready_ps = -1;
    memmove(t.order, t.order + 1, 3 * sizeof *t.order);
    t.w.n_ready = 3;
    expect_program(&t, "dp 2 zero 1 bucket-cap 1000 overlap-param-gather on", "first",
                   "AG03/400 Ew AG12/808 F0:1 Ew F1:2 F2:3 B2:6 B1:2 Ci/8 B1:2 Ci/800 RS0/808 B0:2 "
                   "Ci/400 RS1/400 Ew O:3");
}

/* Only the first of the passes and micro-batches of a step gathers. */
TEST(a_step_of_several_forwards_gathers_once)
{
    expect_variant("dp 2 no-sync 2 " AHEAD, "accumulate",
                   "AG05/400 Ew AG14/808 F0:1 Ew AG23/1200 F1:2 Ew F2:3 B2:5 B2:1 B1:2 B1:2 B0:2");
    expect_variant("dp 2 no-sync 2 " AHEAD, "accumulate, weights held",
                   "F0:1 F1:2 F2:3 B2:5 B2:1 B1:2 B1:2 B0:2");
    expect_variant("dp 2 no-sync 2 " AHEAD, "first", "F0:1 F1:2 F2:3 " REDUCED);
    expect_variant("dp 2 micro-batches 2 " AHEAD, "first",
                   "AG05/400 Ew AG14/808 F0:1 Ew AG23/1200 F1:2 Ew F2:3 B2:5 B2:1 B1:2 B1:2 B0:2 "
                   "F0:1 F1:2 F2:3 " REDUCED);
}

/* The first ops of rank 0 that gather, wait for a gather, or compute. */
static void expect_head(const struct lw_workload *w, const char *words, const char *head)
{
    char text[ROOM] = "";
    size_t at = 0;
    struct lw_plan p = plan_of_words(w, words);
    struct lw_program g = lw_plan_program(&p, 0, 0);

    for (int32_t i = g.first_op; i < g.first_op + g.n_ops && at < strlen(head); i++) {
        enum lw_op_kind kind = (enum lw_op_kind)p.ops[i].kind;
        bool waits = kind == LW_OP_EVENT_WAIT && strcmp(p.ops[i].name, "weights") == 0;
        if (kind != LW_OP_ALL_GATHER && kind != LW_OP_FORWARD && !waits)
            continue;
        at += waits ? (size_t)snprintf(text + at, ROOM - at, "Ew ")
                    : (size_t)snprintf(text + at, ROOM - at, "%s%d ", lw_op_letter(kind),
                                       p.ops[i].module);
    }
    assert_string_equal(text, head);
    lw_plan_free(&p);
}

#define TENSORS "dp 2 zero 1 bucket-policy per-tensor overlap-param-gather on"

/* A bucket per gradient. b.weight's is ready at the end of b's backward of 4 us, b.bias's 2 us
 * before it: of b's forward of 2 us the second half alone waits for b.bias; the first names the
 * bucket up to which it reads. Later micro-batches run the forward in one. */
TEST(a_layer_within_a_module_waits_for_its_own_bucket)
{
    char text[ROOM];
    static const char head[] =
        "AG07/400 Ew AG16/800 F0:1 Ew AG15/8 F16:1 Ew AG24/1200 F1:1 Ew F2:3 ";
    struct lw_plan p = build_tiny(TENSORS " micro-batches 2");

    tiny_ops(&p, "first", text, sizeof text);
    assert_int_equal(strncmp(text, head, strlen(head)), 0);
    assert_non_null(strstr(text + strlen(head), "F0:1 F1:2 F2:3 "));
    lw_plan_free(&p);
}

/* Eight modules, a bucket each: two or four parts on each of two ranks. */
TEST(a_pipeline_gathers_part_by_part)
{
    struct line x;

    line_of(&x, 8);
    expect_head(&x.w,
                "dp 2 pp 2 micro-batches 4 bucket-policy per-tensor zero 1 overlap-param-gather on",
                "AG0 Ew AG1 F0 Ew AG2 F1 Ew AG3 F2 Ew F3 F0 ");
    expect_head(&x.w,
                "dp 2 pp 2 micro-batches 4 bucket-policy per-tensor zero 1 overlap-param-gather on "
                "prefetch 1",
                "AG0 Ew AG1 F0 Ew AG2 F1 Ew AG3 F2 Ew F3 F0 ");
    expect_head(&x.w,
                "dp 2 pp 2 chunks 2 schedule interleaved-1f1b micro-batches 4 bucket-policy "
                "per-tensor zero 1 overlap-param-gather on",
                "AG0 Ew AG1 AG4 AG5 F0 Ew F1 F0 F1 Ew F4 Ew F5 ");
    expect_head(&x.w,
                "dp 2 pp 2 chunks 4 schedule interleaved-1f1b micro-batches 4 bucket-policy "
                "per-tensor zero 1 overlap-param-gather on",
                "AG0 Ew AG2 F0 F0 Ew AG4 F2 F2 Ew AG6 F4 ");
    expect_head(&x.w,
                "dp 2 pp 2 chunks 2 schedule interleaved-1f1b micro-batches 4 bucket-policy "
                "per-tensor zero 1 overlap-param-gather on align-param-gather off",
                "AG0 Ew AG1 F0 Ew F1 F0 F1 AG4 Ew AG5 F4 Ew F5 ");
}

/* A part's first gather waits for the message that its first micro-batch waits for. */
TEST(gathers_that_are_not_aligned_wait_for_the_first_micro_batch)
{
    struct line x;

    line_of(&x, 8);
    for (int on = 0; on < 2; on++) {
        char words[256];
        snprintf(words, sizeof words,
                 "dp 2 pp 2 chunks 2 schedule interleaved-1f1b micro-batches 4 bucket-policy "
                 "per-tensor zero 1 overlap-param-gather on align-param-gather %s",
                 on ? "on" : "off");
        struct lw_plan p = plan_of_words(&x.w, words);
        struct lw_program g = lw_plan_program(&p, 0, 2); /* stage 1 */
        int32_t i = g.first_op;
        while (p.ops[i].kind != LW_OP_ALL_GATHER)
            i++;
        assert_int_equal(p.ops[i].n_deps, on ? 0 : 1);
        if (!on)
            assert_int_equal(p.ops[p.deps[p.ops[i].first_dep]].kind, LW_OP_RECV);
        lw_plan_free(&p);
    }
}

/* Experts and other parameters are gathered in lines of their own: the next of the kind follows. */
TEST(experts_follow_experts)
{
    struct line x;

    line_of(&x, 8);
    for (int32_t i = 0; i < 8; i++)
        x.params[i].expert = i % 2 == 1;
    for (int32_t i = 1; i < 8; i += 2)
        x.modules[i].dispatch_bytes = 64;
    expect_head(&x.w,
                "dp 4 ep 2 pp 2 micro-batches 4 bucket-policy per-tensor zero 1 "
                "overlap-param-gather on",
                "AG0 Ew AG2 F0 AG1 Ew AG3 F1 Ew F2 Ew F3 F0 ");
}

static int64_t static_bytes(const char *words)
{
    struct lw_plan p = build_tiny(words);
    int64_t bytes = 0;

    for (int k = 0; k < LW_N_MEM; k++)
        bytes += p.roles[0].static_bytes[k];
    for (int32_t i = 0; i < p.n_ops; i++)
        assert_int_not_equal(p.ops[i].kind, LW_OP_ALLOC);
    lw_plan_free(&p);
    return bytes;
}

TEST(memory_is_the_same)
{
    assert_int_equal(static_bytes("dp 2 " AHEAD), static_bytes("dp 2 zero 1 bucket-cap 1200"));
}

TEST(one_rank_has_nothing_to_gather)
{
    expect_variant("dp 1 " AHEAD, "first", "F0:1 F1:2 F2:3 B2:5 B2:1 B1:2 B1:2 B0:2 O:7");
}

TEST(the_plan_says_when_weights_are_gathered)
{
    struct lw_plan p = build_tiny("dp 2 " AHEAD);

    assert_true(has_note(&p, "weights: 3 flat buffers are all-gathered before the first forward of "
                             "the next step that uses them, 1 ahead"));
    lw_plan_free(&p);
}

TEST(contradictions_are_refused)
{
    static const struct {
        const char *words, *part;
    } cases[] = {
        {"dp 2 overlap-param-gather on", "--overlap-param-gather needs --zero 1 or 2: without it"},
        {"dp 2 zero 3 overlap-param-gather on",
         "--overlap-param-gather needs --zero 1 or 2: --zero 3 gathers weights before each use"},
        {"dp 2 zero 1 shard-policy lpt overlap-param-gather on",
         "leave out --shard-policy lpt"},
        {"dp 2 zero 1 bucket-policy c10d-2 overlap-param-gather on",
         "leave out --bucket-policy c10d-2, or choose"},
        {"dp 2 zero 1 broadcast-dtype bf16 overlap-param-gather on",
         "--overlap-param-gather gathers weights in their own dtype"},
        {"dp 2 zero 1 overlap-param-gather on align-param-gather off",
         "--align-param-gather off needs --overlap-param-gather on, --pp and --chunks of at least "
         "2, and no --prefetch"},
        {"dp 2 pp 2 zero 1 micro-batches 2 align-param-gather off",
         "--align-param-gather off needs"},
        {"dp 2 zero 2 prefetch 1", "--prefetch needs --zero 3 or --overlap-param-gather on"},
    };
    struct tiny t;

    tiny_init(&t);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        plan_refused(&t.w, cases[i].words, cases[i].part);
}

/* --- proof ----------------------------------------------------------------------------------- */

static struct lw_op *gather_of(const struct lw_plan *p, int n)
{
    return &p->ops[find_op(p, LW_OP_ALL_GATHER, n)];
}

static void exchange(struct lw_op *a, struct lw_op *b)
{
    struct lw_op x = *a;

    a->bucket = b->bucket, a->bytes = b->bytes;
    b->bucket = x.bucket, b->bytes = x.bytes;
}

TEST(a_forward_before_its_gather_is_found)
{
    struct lw_plan p = build_tiny("dp 2 " AHEAD);

    exchange(gather_of(&p, 0), gather_of(&p, 2)); /* c's first, a's after a's forward */
    plan_faulty(&p, "op 3 (forward, module 0) of 'first' for role 'data' uses weights that were "
                     "never gathered");

    p = build_tiny("dp 2 " AHEAD);
    p.ops[find_op(&p, LW_OP_EVENT_WAIT, 1)].n_deps = 0; /* b's forward does not wait */
    plan_faulty(&p, "(forward, module 1) of 'first' for role 'data' does not wait for op 2 "
                     "(all_gather");

    p = build_tiny("dp 2 " AHEAD);
    struct lw_op *lost = gather_of(&p, 1);
    *lost = (struct lw_op){.kind = LW_OP_EVENT_WAIT, .stage = -1, .module = -1, .bucket = -1,
                           .micro_batch = -1, .stream = lost->stream, .comm = -1, .call = -1,
                           .work = -1, .peer = -1, .operand = -1, .name = ""};
    plan_faulty(&p, "the weights of parameter 1 'b.weight', which member 0 updates, never reach "
                     "role 'data'");

    p = build_tiny("dp 2 " AHEAD);
    gather_of(&p, 2)->bucket = gather_of(&p, 0)->bucket;
    gather_of(&p, 1)->bytes = gather_of(&p, 0)->bytes;
    plan_faulty(&p, "gathers weights that are there since op 0");
}

static int32_t piece_of(const struct lw_plan *p)
{
    int32_t i = 0;

    while (p->ops[i].kind != LW_OP_FORWARD || p->ops[i].module != 1)
        i++;
    return i;
}

/* The first piece of b's forward names the last bucket that it reads; the last piece names none. */
TEST(faults_of_a_forward_in_pieces_are_named)
{
    struct lw_plan p = build_tiny(TENSORS);

    assert_int_equal(p.ops[piece_of(&p)].bucket, 6);
    p.ops[piece_of(&p)].bucket = 5; /* b.bias, which comes beside it */
    plan_faulty(&p, "does not wait for op");

    p = build_tiny(TENSORS);
    p.ops[piece_of(&p)].bucket = 0;
    plan_faulty(&p, "names a bucket that is not of weights gathered ahead before it");

    p = build_tiny(TENSORS);
    p.ops[find_op(&p, LW_OP_FORWARD, 2)].bucket = 6;
    plan_faulty(&p, "is the last piece of its module's forward, and names a bucket");
}

/* The pass of a step that gathers comes first. */
TEST(faults_over_passes_are_named)
{
    struct lw_plan p = build_tiny("dp 2 no-sync 2 " AHEAD);

    p.pass_variant[0] = find_variant(&p, "accumulate, weights held");
    plan_faulty(&p, "(forward, module 0) of 'accumulate, weights held' for role 'data' uses "
                     "weights that were never gathered");

    p = build_tiny("dp 2 no-sync 2 " AHEAD);
    p.pass_variant[1] = find_variant(&p, "accumulate");
    plan_faulty(&p, "are gathered before one pass of it, and not before another");

    p = build_tiny("dp 2 no-sync 1 " AHEAD); /* no op reads or gathers them */
    p.pass_variant[0] = find_variant(&p, "first");
    struct lw_program g = lw_plan_program(&p, find_variant(&p, "first"), 0);
    for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++)
        if (lw_op_uses_weights(&p.ops[i]))
            p.ops[i].module = -1;
    plan_faulty(&p, "updates the weights of bucket 3, which were not gathered in the step");
}

/* Shares are looked at in the pass that gathers, which does not end the step. */
TEST(a_share_of_another_owner_is_found)
{
    struct lw_plan p = build_tiny("dp 2 no-sync 1 " AHEAD);

    for (int32_t i = 0; i < p.n_shards; i++)
        p.shards[i].owner = 1 - p.shards[i].owner;
    for (int32_t i = 0; i < p.n_ops; i++)
        if (p.ops[i].kind == LW_OP_REDUCE_SCATTER)
            p.ops[i].kind = LW_OP_ALL_REDUCE;
    plan_faulty(&p, "(all_gather, bucket 5) of 'accumulate' for role 'data': elements 0 and 50 "
                     "more of parameter 0 'a.weight' belong to member 1");
}

/* --- time ------------------------------------------------------------------------------------ */

static void draw(struct prng *r, struct line *x)
{
    line_of(x, (int32_t)prng_in(r, 2, MOST));
    for (int32_t i = 0; i < x->w.n_modules; i++) {
        x->forward[i] = x->modules[i].forward_ps = prng_in(r, 0, 600000);
        x->params[i].numel = 2 * prng_in(r, 1, 500);
        x->gather[i] = x->params[i].numel * 4 * 125; /* two ranks: half of it at 4 bytes a ns */
    }
}

static lw_ps end_of(const struct lw_workload *w, const char *words, int32_t n_steps)
{
    struct lw_cluster c;

    make_cluster(&c, 2 * MOST, 4e9, 0);
    c.device.copy_bytes_per_s = given(1e11);
    struct lw_plan p = plan_of_words(w, words);
    struct lw_sim_options o = lw_sim_options_default();
    o.n_steps = n_steps;
    lw_ps end = run_end(&p, &c, o);
    lw_plan_free(&p);
    lw_cluster_free(&c);
    return end;
}

/* The same weights and times as one module and as two: nothing waits longer. */
TEST(one_module_is_gathered_as_its_layers_are)
{
    struct tiny fine, coarse;
    lw_ps end[2];

    tiny_init(&fine);
    fine.modules[1].forward_ps /= 2; /* b.weight, then b.bias in a module of its own */
    fine.modules[1].backward_input_ps /= 2;
    fine.modules[1].backward_weight_ps /= 2;
    struct lw_module modules[4] = {fine.modules[0], fine.modules[1], fine.modules[1],
                                   fine.modules[2]};
    fine.w.modules = modules;
    fine.w.n_modules = 4;
    fine.params[B_BIAS].module = 2;
    fine.params[C_WEIGHT].module = 3;
    tiny_init(&coarse);
    const struct lw_workload *w[] = {&fine.w, &coarse.w};
    for (int i = 0; i < 2; i++)
        end[i] = end_of(w[i], TENSORS, 2);
    assert_int_equal(end[0], end[1]);
}

static lw_ps later(lw_ps a, lw_ps b)
{
    return a > b ? a : b;
}

/* Without overlap a step is its forwards, all gathers, and the rest; with it the first gather is
 * exposed, and of each other what is longer than the forward beside it. */
TEST(a_gather_is_exposed_where_it_exceeds_the_forward)
{
    static const char *const more[] = {"", " micro-batches 3", " no-sync 2", " clip 1", " pp 1"};
    struct prng r = prng_start("gathers ahead");
    struct line x;
    char off[128], on[160];

    for (int i = 0; i < 60; i++) {
        lw_ps hidden = 0;
        draw(&r, &x);
        for (int32_t k = 1; k < x.w.n_modules; k++)
            hidden += x.gather[k] - later(0, x.gather[k] - x.forward[k - 1]);
        snprintf(off, sizeof off, "dp 2 zero %d bucket-policy per-tensor%s", 1 + i % 2,
                 more[i % 5]);
        snprintf(on, sizeof on, "%s overlap-param-gather on", off);
        for (int32_t steps = 1; steps <= 2; steps++)
            assert_int_equal(end_of(&x.w, off, steps) - end_of(&x.w, on, steps), steps * hidden);
    }
}

/* One module a stage, one micro-batch: without chunks each stage's gather follows the message; with
 * --prefetch all gathers begin with the step. */
TEST(a_stage_that_gathers_on_demand_delays_the_first_micro_batch)
{
    struct prng r = prng_start("gathers on demand");
    struct line x;
    char words[160], ahead[192];

    for (int i = 0; i < 40; i++) {
        draw(&r, &x);
        lw_ps demand = 0, begun = 0, message = 80 * 250; /* at 4 bytes a ns */
        for (int32_t k = 0; k < x.w.n_modules; k++) {
            lw_ps come = k > 0 ? message : 0;
            demand += come + x.gather[k] + x.forward[k];
            begun = later(begun + come, x.gather[k]) + x.forward[k];
        }
        snprintf(words, sizeof words,
                 "dp 2 pp %d partition uniform zero 1 bucket-policy per-tensor "
                 "overlap-param-gather on", (int)x.w.n_modules);
        snprintf(ahead, sizeof ahead, "%s prefetch 0", words);
        assert_int_equal(end_of(&x.w, words, 1) - end_of(&x.w, ahead, 1), demand - begun);
    }
}

/* Gather k begins with the wait of bucket k - ahead, after the gather before it. */
static lw_ps forward_end(const struct line *x, int32_t ahead)
{
    lw_ps gathered[MOST], waited[MOST], done = 0;

    for (int32_t k = 0, next = 0; k < x->w.n_modules; k++) {
        lw_ps from[2] = {done, 0};
        for (; next <= k; next++)
            gathered[next] = later(from[0], next ? gathered[next - 1] : 0) + x->gather[next];
        waited[k] = later(done, gathered[k]);
        for (; next < x->w.n_modules && next <= k + ahead; next++)
            gathered[next] = later(waited[k], gathered[next - 1]) + x->gather[next];
        done = waited[k] + x->forward[k];
    }
    return done;
}

TEST(gathers_further_ahead_hide_as_they_should)
{
    struct prng r = prng_start("gathers further ahead");
    struct line x;
    char words[160];

    for (int i = 0; i < 40; i++) {
        draw(&r, &x);
        lw_ps none = end_of(&x.w, "dp 2 zero 1 bucket-policy per-tensor overlap-param-gather on "
                                "prefetch 0", 1);
        for (int32_t ahead = 1; ahead < 4; ahead++) {
            snprintf(words, sizeof words,
                     "dp 2 zero 1 bucket-policy per-tensor overlap-param-gather on prefetch %d",
                     (int)ahead);
            assert_int_equal(none - end_of(&x.w, words, 1),
                             forward_end(&x, 0) - forward_end(&x, ahead));
        }
    }
}

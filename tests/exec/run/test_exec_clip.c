/* Plans that clip, run and compared with the one-rank run bit by bit: docs/design/grad_norm.md.
 * The model is a chain of modules, each with a weight of 24, 36, ... elements and a bias of 6,
 * 8, ...; biases are whole on every rank of a tensor group. Broken plans run unchecked, as with
 * --no-check. */
#include <stdio.h>
#include <string.h>
#include "tests/lib/unit.h"

#include "exec/tensors/grad_norm.h"
#include "exec/run/run.h"
#include "shared/base/arena.h"
#include "shared/plan/op.h"
#include "shared/lower/lower.h"
#include "tests/lib/exec/exec_ops.h"
#include "tests/lib/exec/exec_plan.h"
#include "tests/lib/exec/exec_words.h"
#include "tests/lib/exec/plain_module.h"
#include "tests/lib/plans/norm_ops.h"
#include "tests/lib/prng.h"

enum { MODULES = 6, PARAMS = 2 * MODULES, WORDS = 512 };

struct model {
    struct lw_module modules[MODULES];
    struct lw_param params[PARAMS];
    int32_t order[PARAMS];
    struct lw_workload w;
};

static void order_all(struct model *k)
{
    k->w.n_ready = 0;
    for (int32_t i = PARAMS - 1; i >= 0; i--)
        if (lw_param_has_gradient(&k->params[i]))
            k->order[k->w.n_ready++] = i;
}

static void model_init(struct model *k, enum lw_dtype dtype)
{
    memset(k, 0, sizeof *k);
    for (int32_t m = 0; m < MODULES; m++) {
        k->modules[m] = plain_module();
        k->modules[m].tp_split = LW_TP_COLUMN;
        k->modules[m].tp_forward_bytes = 40;
        for (int b = 0; b < 2; b++)
            k->params[2 * m + b] = (struct lw_param){
                .name = b ? "bias" : "weight", .numel = b ? 6 + 2 * m : 24 + 12 * m,
                .dtype = (uint8_t)dtype, .module = m, .tied = -1, .trainable = true, .used = true,
                .ready_ps = -1, .tp_split = b ? LW_TP_REPLICATED : LW_TP_COLUMN};
    }
    k->w = (struct lw_workload){.name = "clip", .n_modules = MODULES, .n_params = PARAMS,
                                .modules = k->modules, .params = k->params,
                                .ready_order = k->order, .batch = 1, .optimizer_ps = 1000};
    k->w.from.rank = k->w.from.step = -1;
    k->w.recorded.step_ps = k->w.recorded.step_spread_ps = -1;
    order_all(k);
}

/* The last weight is a copy of the first. */
static void tie(struct model *k)
{
    k->params[PARAMS - 2].numel = k->params[0].numel;
    k->params[PARAMS - 2].tied = 0;
    k->params[PARAMS - 2].dtype = k->params[0].dtype;
    order_all(k);
}

static struct lw_exec_options options(enum exec_optimizer_kind kind)
{
    struct lw_exec_options o = exec_asleep(2, kind);

    o.n_warmup = 1;
    return o;
}

static void ends_like_one(const struct model *k, const char *words, enum exec_optimizer_kind kind)
{
    struct lw_exec_options o = options(kind);
    struct lw_plan p = plan_of_words(&k->w, words);

    exec_verified(&p, &o, words, NULL);
    lw_plan_free(&p);
}

/* --- the arithmetic --------------------------------------------------------------------------- */

/* 3 parameters on two ranks, a norm of 7: exec_ops_clip; test_mpi and test_nccl run the same. */
TEST(three_parameters_are_clipped_by_hand)
{
    int64_t n_checked = 0;
    struct lw_err err = {0};

    for (int32_t n = 1; n <= 3; n++)
        if (exec_ops_run(&exec_backend_threads, NULL, n, true, &n_checked, &err) != LW_OK)
            fail_msg("%d ranks: %s", n, err.msg);
    assert_true(n_checked > 0);
}

TEST(the_coefficient_is_torchs)
{
    static const double squares[] = {0, 1, 26, 50, 1e6, 9007199254740991.0};

    for (size_t i = 0; i < sizeof squares / sizeof *squares; i++)
        for (double most = 0.25; most < 1e9; most *= 3)
            assert_true(exec_clip_coefficient(squares[i], most) ==
                        (float)fmin(most / (sqrt(squares[i]) + 1e-6), 1));
}

/* --- runs ------------------------------------------------------------------------------------- */

TEST(every_way_of_sharding_and_cutting_ends_like_one)
{
    static const char *const words[] = {
        "clip 1",
        "clip 1 dp 2",
        "clip 0.5 dp 3 zero 1",
        "clip 1 dp 2 zero 1 shard-policy oss-greedy bucket-policy sharded-ddp",
        "clip 1 dp 2 zero 2",
        "clip 1 dp 3 zero 3",
        "clip 1 pp 3 micro-batches 3",
        "clip 1 tp 2",
        "clip 1 dp 2 pp 2 tp 2 micro-batches 2 zero 1",
        "clip 1 dp 2 pp 2 micro-batches 4 schedule dualpipe",
        "clip 1 dp 2 pp 4 micro-batches 8 schedule dualpipe zero 2",
        "clip 1 dp 2 pp 2 micro-batches 4 chunks 2 schedule zbv zero 3",
        "clip 1 dp 2 comm-hook fp16",
        "clip 1 dp 2 grad-dtype bf16",
        "clip 1 dp 2 zero 1 no-sync 2",
        "clip 1 dp 2 bucket-policy picotron",
        "clip 1 dp 2 pp 2 tp 2 compat colossalai",
        "clip 1 dp 2 compat colossalai",
        "clip 100000000 dp 2 zero 1",
    };
    struct model k;

    for (int tied = 0; tied < 2; tied++) {
        model_init(&k, LW_F32);
        if (tied)
            tie(&k);
        for (size_t i = 0; i < sizeof words / sizeof *words; i++)
            ends_like_one(&k, words[i], (enum exec_optimizer_kind)(i % EXEC_N_OPTIMIZERS));
    }
}

/* Gradients that lie in their bucket undivided, and all ways there; plans by hand, proven first. */
TEST(gradients_that_nobody_copied_are_averaged_and_scaled)
{
    struct lw_exec_options o = options(EXEC_MOMENTUM);

    for (int i = 0; i < 5; i++) {
        struct exec_test_plan t = exec_test_plan_default();
        struct lw_plan p;
        struct lw_err err = {0};
        t.n_ranks = 3;
        t.work_ps = 1000;
        t.clip = 2.5;
        t.view = i < 3;
        t.accumulate = i == 1;
        t.micro_batches = i == 2 ? 2 : 1;
        t.dtype = i == 3 ? LW_BF16 : LW_F32;
        t.wire = i >= 3 ? LW_BF16 : LW_F32;
        if (exec_test_plan_build(&t, &p, &err) != LW_OK || lw_plan_check(&p, &err) != LW_OK)
            fail_msg("plan %d: %s", i, err.msg);
        exec_verified(&p, &o, "by hand", NULL);
        lw_plan_free(&p);
    }
}

/* Each rank's own gradient of it makes a norm of its own: weights of the ranks drift apart, as
 * torch's do. */
TEST(ignored_parameters_make_a_norm_per_replica)
{
    struct model k;

    model_init(&k, LW_F32);
    k.params[3].ignored = true;
    k.params[8].ignored = true;
    ends_like_one(&k, "clip 1 dp 3", EXEC_MOMENTUM);
    ends_like_one(&k, "clip 1 dp 2 pp 2 tp 2 micro-batches 2", EXEC_MOMENTUM);
    ends_like_one(&k, "clip 1 dp 2 pp 2 micro-batches 4 schedule dualpipe", EXEC_ADAM);
}

static void put(char *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put(char *text, const char *format, ...)
{
    size_t at = strlen(text);
    va_list list;

    va_start(list, format);
    vsnprintf(text + at, WORDS - at, format, list);
    va_end(list);
}

static void draw_model(struct prng *r, struct model *k, char *words)
{
    static const enum lw_dtype dtypes[] = {LW_F32, LW_F32, LW_BF16, LW_F16, LW_F64};

    model_init(k, dtypes[prng_in(r, 0, 4)]);
    for (int i = 0; i < PARAMS && prng_in(r, 0, 5) == 0; i++)
        k->params[i].dtype = (uint8_t)dtypes[prng_in(r, 0, 4)];
    for (int i = 1; i < PARAMS - 2; i++)
        k->params[i].trainable = prng_in(r, 0, 11) > 0;
    if (prng_in(r, 0, 3) == 0) {
        k->params[prng_in(r, 1, PARAMS - 3)].used = false;
        put(words, " find-unused on");
    }
    if (prng_in(r, 0, 2) == 0)
        tie(k);
    order_all(k);
}

static void draw_strategy(struct prng *r, struct model *k, char *words)
{
    static const char *const clips[] = {"0.01", "1", "7.5", "1000000"};
    static const char *const schedules[] = {"1f1b", "gpipe", "zb-h1", "interleaved-1f1b chunks 2",
                                            "zbv", "dualpipe"};
    static const char *const policies[] = {"c10d-2", "single", "per-tensor", "picotron",
                                           "colossal"};
    static const char *const shards[] = {"oss-greedy", "lpt", "flat-contiguous"};
    static const char *const grads[] = {"f32", "bf16", "f16"};
    int64_t pp = prng_in(r, 1, 3), zero = prng_in(r, 0, 4) % 4; /* of 0 twice as many */

    put(words, " clip %s dp %d", clips[prng_in(r, 0, 3)], (int)prng_in(r, 1, 3));
    if (prng_in(r, 0, 2) == 0)
        put(words, " tp 2");
    if (pp > 1) {
        const char *schedule = schedules[prng_in(r, 0, 5)];
        put(words, " pp %d micro-batches 4 schedule %s",
            strcmp(schedule, "dualpipe") == 0 ? 2 : (int)(4 / pp), schedule);
    }
    if (zero == 0 && prng_in(r, 0, 3)) /* sharded optimizers take none */
        k->params[prng_in(r, 1, PARAMS - 3)].ignored = true;
    if (zero > 0)
        put(words, " zero %d", (int)zero);
    if (zero == 1)
        put(words, " shard-policy %s", shards[prng_in(r, 0, 2)]);
    if (zero == 2 && prng_in(r, 0, 1))
        put(words, " shard-policy oss-greedy");
    if (zero < 2 && prng_in(r, 0, 1))
        put(words, " bucket-policy %s", policies[prng_in(r, 0, 4)]);
    if (prng_in(r, 0, 3) == 0)
        put(words, " no-sync 1");
    if (prng_in(r, 0, 3) == 0)
        put(words, " grad-dtype %s", grads[prng_in(r, 0, 2)]);
    if (prng_in(r, 0, 5) == 0)
        put(words, " overlap off");
}

/* What cannot be planned together, or has more terms than a half type can sum, is drawn again. */
TEST(a_random_grid_ends_like_one_rank)
{
    struct prng r = prng_start("plans that clip");
    const int grids = unit_cases(25, 120);
    int made = 0, tries = 0, sharded = 0, cut = 0, ignored = 0;

    for (; made < grids && tries < 8 * grids; tries++) {
        static struct model k;
        char words[WORDS] = "";
        struct lw_exec_result result = {0};
        struct lw_plan p;
        struct lw_err err = {0};
        draw_model(&r, &k, words);
        draw_strategy(&r, &k, words);
        struct lw_strategy drawn = strategy(words + 1);
        enum lw_status s = lw_plan_build(&k.w, &drawn, NULL, &p, &err);
        if (s == LW_EPLAN)
            fail_msg("%s: %s", words, err.msg);
        if (s != LW_OK)
            continue;
        struct lw_exec_options o =
            options((enum exec_optimizer_kind)prng_in(&r, 0, EXEC_N_OPTIMIZERS - 1));
        s = lw_exec_run(&p, &o, &result, &err);
        lw_exec_result_free(&result);
        if (s != LW_OK && !(s == LW_EINVAL && strstr(err.msg, "can be verified")))
            fail_msg("%s: %s", words, err.msg);
        made += s == LW_OK;
        sharded += s == LW_OK && p.strategy->zero > 0 && p.strategy->dp > 1;
        cut += s == LW_OK && p.strategy->pp * p.strategy->tp > 1;
        for (int i = 0; s == LW_OK && i < PARAMS; i++)
            if (k.params[i].ignored && k.params[i].trainable && p.strategy->dp > 1) {
                ignored++;
                break;
            }
        lw_plan_free(&p);
    }
    printf("%d runs of %d tries: %d sharded, %d cut, %d with ignored parameters\n", made, tries,
           sharded, cut, ignored);
    assert_int_equal(made, grids);
    assert_true(sharded > grids / 5 && cut > grids / 4 && ignored > grids / 20);
}

/* --- faults ----------------------------------------------------------------------------------- */

static void expect_fault(struct lw_plan *p, const char *words, const char *more)
{
    struct lw_exec_options o = options(EXEC_SGD);
    struct lw_exec_result r = {0};
    struct lw_err err = {0};

    if (lw_exec_run(p, &o, &r, &err) != LW_ENO || !strstr(err.msg, words) || !strstr(err.msg, more))
        fail_msg("'%s' does not say '%s' and '%s'", err.msg, words, more);
    assert_int_equal(r.verified, LW_EXEC_MISMATCH);
    lw_exec_result_free(&r);
    lw_plan_free(p);
}

/* A plan of one variant, whose ops are those that run. */
static struct lw_plan of_one_variant(const struct model *k, const char *words)
{
    struct lw_plan p = plan_of_words(&k->w, words);

    p.repeat_from = 0;
    p.n_passes = 1;
    return p;
}

TEST(a_sum_that_is_missing_is_named_with_both_norms)
{
    struct model k;

    model_init(&k, LW_F32);
    struct lw_plan p = of_one_variant(&k, "clip 1 dp 2 zero 1");
    drop(find_norm_op(&p, 0, 0, LW_OP_ALL_REDUCE, 0));
    expect_fault(&p, "gradient norm of step 0, rank 0: ", ", the one-rank run has ");
    p = of_one_variant(&k, "clip 1 dp 2 pp 2 tp 2 micro-batches 2");
    for (int32_t role = 0; role < 2; role++)
        drop(find_norm_op(&p, 0, role, LW_OP_ALL_REDUCE, 0));
    expect_fault(&p, "gradient norm of step 0, rank 0: ", ", the one-rank run has ");
}

/* A number that is summed over the data group though all of it has the same squares. */
TEST(a_sum_over_the_wrong_group_is_named)
{
    struct model k;

    model_init(&k, LW_F32);
    struct lw_plan p = of_one_variant(&k, "clip 1 dp 2 pp 2 micro-batches 2");
    for (int32_t role = 0; role < 2; role++)
        for (int32_t c = 0; c < p.n_comms; c++)
            if (p.comms[c].purpose == LW_COMM_DATA)
                find_norm_op(&p, 0, role, LW_OP_ALL_REDUCE, 0)->comm = c;
    expect_fault(&p, "gradient norm of step 0, rank 0: ", ", the one-rank run has ");
}

/* The gap before the optimizer gives its place: gap, squares, sum, scale become squares, sum,
 * sum, scale. */
TEST(a_sum_that_is_repeated_doubles_the_squares)
{
    struct lw_exec_options o = options(EXEC_SGD);
    struct lw_exec_result r = {0};
    struct model k;
    struct lw_err err = {0};
    double got = 0, want = 0;

    model_init(&k, LW_F32);
    k.w.gap_ps[LW_GAP_BEFORE_OPTIMIZER] = 1000;
    struct lw_plan p = of_one_variant(&k, "clip 1 dp 2 zero 1");
    struct lw_op *at = find_norm_op(&p, 0, 0, LW_OP_COPY_IN, 0) - 1;
    int32_t slot = at[1].first_dep, first = (int32_t)(at - p.ops);
    assert_int_equal(at->kind, LW_OP_HOST);
    at[0] = at[1];
    at[0].n_deps = 0; /* all it waits for is on its stream */
    at[1] = at[2];
    at[1].first_dep = slot;
    p.deps[slot] = first;
    assert_int_equal(p.deps[at[2].first_dep], first + 1);
    assert_int_equal(lw_exec_run(&p, &o, &r, &err), LW_ENO);
    lw_exec_result_free(&r);
    const char *here = strstr(err.msg, "squares add up to "), *there = strstr(err.msg, "run has ");
    if (!here || !there || sscanf(here, "squares add up to %lf", &got) != 1 ||
        sscanf(there, "run has %*f (%lf)", &want) != 1)
        fail_msg("%s", err.msg);
    assert_true(want > 0 && got == 2 * want);
    lw_plan_free(&p);
}

TEST(a_chain_without_an_end_is_named)
{
    struct model k;

    model_init(&k, LW_F32);
    struct lw_plan p = of_one_variant(&k, "clip 1 dp 2 zero 1");
    drop(find_norm_op(&p, 0, 0, LW_OP_COPY_OUT, 0));
    expect_fault(
        &p, "the plan clips at norm 1, but 1 ops take the squares of gradients and 0 scale them",
        "role 'data'");
    p = of_one_variant(&k, "clip 1 dp 2");
    drop(find_norm_op(&p, 0, 0, LW_OP_COPY_IN, 0));
    expect_fault(&p, "0 ops take the squares of gradients and 1 scale them", "variant 'first'");
}

TEST(missing_waits_are_named)
{
    static const struct {
        enum lw_op_kind kind;
        const char *words;
    } cases[] = {
        {LW_OP_COPY_IN, "wait for op 21 (all_reduce, bucket"}, /* of the copies' gradients */
        {LW_OP_ALL_REDUCE, "(copy_in, bucket"},
        {LW_OP_COPY_OUT, "(all_reduce, bucket"},
        {LW_OP_OPTIMIZER, "(copy_out, bucket"},
    };
    struct model k;

    model_init(&k, LW_F32);
    tie(&k);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char words[160];
        struct lw_plan p = of_one_variant(&k, "clip 1 dp 2 pp 2 micro-batches 2");
        struct lw_op *op = find_norm_op(&p, 0, 0, cases[i].kind, 0);
        op->n_deps = 0;
        if (cases[i].kind == LW_OP_OPTIMIZER) /* else after it on the compute stream */
            find_norm_op(&p, 0, 0, LW_OP_COPY_OUT, 0)->stream =
                find_norm_op(&p, 0, 0, LW_OP_ALL_REDUCE, 0)->stream;
        snprintf(words, sizeof words, "op %d (%s", (int)(op - p.ops), lw_op_name(op->kind));
        expect_fault(&p, words, cases[i].words);
    }
}

/* The all-reduce of the only bucket leaves out its last element: it is the cause of the norms'
 * difference. */
TEST(a_gradient_that_is_lost_is_named_beside_the_norms)
{
    struct model k;
    char words[160];

    model_init(&k, LW_F32);
    struct lw_plan p = of_one_variant(&k, "clip 1 dp 2");
    struct lw_op *op = &p.ops[p.programs[0].first_op];
    while (op->kind != LW_OP_ALL_REDUCE)
        op++;
    const struct lw_bucket *b = &p.buckets[op->bucket];
    int32_t last = p.slots[b->first_slot + b->n_slots - 1];
    op->bytes -= 4;
    snprintf(words, sizeof words,
             "; parameter %d '%s', element %lld, rank 0; the gradient of rank 1 was "
             "lost",
             last, p.params[last].name, (long long)p.params[last].numel - 1);
    expect_fault(&p, "gradient norm of step 0, rank 0: ", words);
}

/* --- size ------------------------------------------------------------------------------------- */

/* 2^33 elements: squares below 2^53 / 2^33 = 2^20 each, averages below 1024 units; multiples of
 * 3 for a divisor of 6. In f32, 2^24 / 2^21 = 8 leaves 2 terms; in f64 2^53 / 2^50 as many. */
TEST(gradients_are_as_small_as_their_squares_need)
{
    struct lw_exec_options o = options(EXEC_SGD);
    struct model k;
    struct lw_err err = {0};
    int64_t limit = 1 << 24;

    model_init(&k, LW_F32);
    for (int i = 1; i < PARAMS; i++)
        k.params[i].trainable = false;
    k.params[0].numel = INT64_C(1) << 33;
    order_all(&k);
    struct lw_plan p = plan_of_words(&k.w, "clip 1 dp 2");
    assert_int_equal(exec_norm_limit(&p, 6, 6, &limit, &err), LW_OK);
    assert_int_equal(limit, 3 * 1024);
    p.strategy->clip = 0;
    limit = 1 << 24;
    assert_int_equal(exec_norm_limit(&p, 6, 6, &limit, &err), LW_OK);
    assert_int_equal(limit, 1 << 24);
    lw_plan_free(&p);
    for (int f64 = 0; f64 < 2; f64++) {
        char words[160];
        k.params[0].numel = INT64_C(1) << (f64 ? 50 : 21);
        p = plan_of_words(&k.w, f64 ? "clip 1 dp 2 micro-batches 2"
                                    : "clip 1 dp 2 micro-batches 2 compat colossalai");
        snprintf(words, sizeof words,
                 "the squares of %lld elements, of 4 gradients each, do not add up "
                 "exactly in %s: with so many elements at most 2 gradients each can be verified",
                 (long long)k.params[0].numel, f64 ? "f64" : "f32");
        exec_ends(&p, &o, LW_EINVAL, words);
        lw_plan_free(&p);
    }
}

TEST(a_norm_that_is_no_number_is_refused)
{
    struct lw_exec_options o = options(EXEC_SGD);
    struct model k;

    model_init(&k, LW_F32);
    struct lw_plan p = of_one_variant(&k, "clip 1 dp 2 zero 1");
    struct lw_bucket *b = &p.buckets[find_norm_op(&p, 0, 0, LW_OP_COPY_IN, 0)->bucket];
    b->bytes = 4096;
    exec_ends(&p, &o, LW_EPLAN,
              "4096 bytes of f64 and 0 gradients; it is one number of f64 or f32");
    b->bytes = 8;
    p.strategy->clip = 0;
    exec_ends(&p, &o, LW_EPLAN, "is of a norm, but the plan clips nothing");
    lw_plan_free(&p);
}

TEST(running_out_of_memory_leaves_nothing)
{
    struct lw_exec_options o = options(EXEC_SGD);
    struct model k;
    enum lw_status s = LW_ENOMEM;

    model_init(&k, LW_F32);
    k.params[3].ignored = true;
    struct lw_plan p = plan_of_words(&k.w, "clip 1 dp 2");
    int64_t before = lw_alloc_live();
    for (int64_t n = 1; s != LW_OK; n += 3) { /* every third: threads take theirs, too */
        struct lw_exec_result r = {0};
        struct lw_err err = {0};
        lw_alloc_fail_at(n);
        s = lw_exec_run(&p, &o, &r, &err);
        lw_alloc_fail_at(0);
        lw_exec_result_free(&r);
        if (s != LW_OK && s != LW_ENOMEM && s != LW_EFAILED)
            fail_msg("allocation %lld: %s", (long long)n, err.msg);
        assert_int_equal(lw_alloc_live(), before);
    }
    lw_plan_free(&p);
}

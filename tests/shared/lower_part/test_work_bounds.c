/* What bounds the works of a plan: shared/lower_part/work_bounds.c, shared/plan/op_bound.c. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <string.h>

#include "shared/device/kernel_time.h"
#include "shared/files/files.h"
#include "shared/plan/op_bound.h"
#include "shared/plan/plan_builder.h"
#include "tests/lib/plans/plan_words.h"
#include "tests/lib/plans/tiny_workload.h"
#include "tests/lib/prng.h"
#include "tests/lib/traces/model_help.h"

#define US LW_PS_PER_US

/* One module of two kernels with a parameter each, on a device of 0.5 flop/ps and a byte a ns:
 *
 *              forward                     gradient of the input
 *   product    3e6 flop = 6 us, 1 us       1.5e6 flop = 3 us, 1 us
 *   traffic    0.5e6 flop = 1 us, 4 us     0.5e6 flop = 1 us, 7 us
 */
struct two {
    struct lw_module module;
    struct lw_kernel kernels[2];
    struct lw_kernel_times times[2];
    struct lw_param params[2];
    int32_t grad_kernel[2], order[2];
    struct lw_workload w;
};

static void time_two(struct two *t, struct lw_kernel_rates rates)
{
    const struct lw_kernel_groups one = {.tp = 1};
    struct lw_device d = model_device();
    struct lw_err err = {0};

    t->module = tiny_module("m", 0);
    t->module.n_kernels = 2;
    t->kernels[0] = (struct lw_kernel){.kind = LW_KERNEL_COUNTED, .dtype = LW_F32,
                                       .flops = {3000000, 1500000}, .bytes = {1000, 1000}};
    t->kernels[1] = (struct lw_kernel){.kind = LW_KERNEL_COUNTED, .dtype = LW_F32,
                                       .flops = {500000, 500000}, .bytes = {4000, 7000}};
    t->params[0] = tiny_param("product", 100, 0, 0);
    t->params[1] = tiny_param("traffic", 200, 0, 0);
    t->grad_kernel[1] = 1;
    t->w = (struct lw_workload){
        .name = "two", .n_modules = 1, .modules = &t->module, .n_params = 2, .params = t->params,
        .n_kernels = 2, .kernels = t->kernels, .kernel_times = t->times,
        .grad_kernel = t->grad_kernel, .ready_order = t->order, .batch = 1,
        .step_traffic = {.update = 20, .held = 10}, .from.device = "round"};
    t->w.from.rank = t->w.from.step = -1;
    t->w.recorded.step_ps = t->w.recorded.step_spread_ps = -1;
    assert_ok(lw_kernels_time(&t->w, &d, &rates, &one, &err), err);
}

static void expect_work(const struct lw_plan *p, enum lw_op_kind kind, int n, lw_ps compute,
                        lw_ps memory, lw_ps host)
{
    const struct lw_op *op = &p->ops[find_op(p, kind, n)];
    const struct lw_work *w = &p->works[op->work];

    assert_int_equal(w->bound_ps[LW_BOUND_COMPUTE], compute);
    assert_int_equal(w->bound_ps[LW_BOUND_MEMORY], memory);
    assert_int_equal(w->bound_ps[LW_BOUND_LAUNCH], 0);
    assert_int_equal(w->bound_ps[LW_BOUND_HOST], host);
    assert_int_equal(w->ps, compute + memory + host);
    assert_int_equal(w->source, LW_TIME_ROOFLINE);
}

/* The forward is both, 6 + 4 us. Backward begins with the second kernel, whose gradient is ready
 * after 7 us: two ops, of one kernel each. The step moves 30 bytes of 300 elements: 9 us. */
TEST(an_op_has_the_roofs_of_its_kernels)
{
    struct two t = {0};

    time_two(&t, (struct lw_kernel_rates){0});
    struct lw_plan p = plan_of_words(&t.w, "dp 2 bucket-cap 400 first-bucket 400");
    expect_work(&p, LW_OP_FORWARD, 0, 6 * US, 4 * US, 0);
    expect_work(&p, LW_OP_BACKWARD, 0, 0, 7 * US, 0);
    expect_work(&p, LW_OP_BACKWARD, 1, 3 * US, 0, 0);
    expect_work(&p, LW_OP_OPTIMIZER, 0, 0, 9 * US, 0);
    lw_plan_free(&p);
}

/* Two launches of 8 us last longer than both kernels, 10 us: what bounds the module is the host,
 * and a faster kernel shortens nothing. A host that waits adds its time to theirs. */
TEST(the_host_bounds_all_of_a_module_that_waits_for_it)
{
    struct two t = {0};

    time_two(&t, (struct lw_kernel_rates){.host_op_ps = 8 * US});
    struct lw_plan p = plan_of_words(&t.w, "dp 2");
    expect_work(&p, LW_OP_FORWARD, 0, 0, 0, 16 * US);
    lw_plan_free(&p);
    time_two(&t, (struct lw_kernel_rates){.host_op_ps = 4 * US});
    p = plan_of_words(&t.w, "dp 2");
    expect_work(&p, LW_OP_FORWARD, 0, 6 * US, 4 * US, 0);
    lw_plan_free(&p);
    time_two(&t, (struct lw_kernel_rates){.host_op_ps = 8 * US, .host_waits = true});
    p = plan_of_words(&t.w, "dp 2");
    expect_work(&p, LW_OP_FORWARD, 0, 6 * US, 4 * US, 16 * US);
    lw_plan_free(&p);
}

TEST(times_that_are_given_have_no_bound)
{
    struct tiny t;

    tiny_init(&t);
    struct lw_plan p = plan_of_words(&t.w, "dp 2");
    for (int32_t i = 0; i < p.n_works; i++) {
        assert_int_equal(p.works[i].source, LW_TIME_GIVEN);
        for (int k = 0; k < LW_N_BOUNDS; k++)
            assert_int_equal(p.works[i].bound_ps[k], 0);
    }
    lw_plan_free(&p);
}

/* --- any model -------------------------------------------------------------------------------- */

struct total {
    lw_ps by[LW_N_BOUNDS], ps;
    int32_t n_works;
};

/* Works of the last pass that are of modules: every one is bound by something, all of it. */
static struct total works_of(const struct lw_plan *p, bool again)
{
    struct lw_program g = lw_plan_program(p, p->n_variants - 1, 0);
    struct total t = {0};

    for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++) {
        const struct lw_op *op = &p->ops[i];
        if (op->work < 0 || op->module < 0 || (op->kind == LW_OP_KERNEL) != again)
            continue;
        const struct lw_work *w = &p->works[op->work];
        lw_ps sum = 0;
        for (int k = 0; k < LW_N_BOUNDS; k++) {
            assert_true(w->bound_ps[k] >= 0);
            sum += w->bound_ps[k];
            t.by[k] += w->bound_ps[k];
        }
        assert_int_equal(sum, w->ps);
        assert_true(w->ps == 0 || w->source == LW_TIME_ROOFLINE);
        t.ps += w->ps;
        t.n_works++;
    }
    return t;
}

static struct total kernels_of(const struct lw_workload *w)
{
    struct total t = {0};

    for (int32_t m = 0; m < w->n_modules; m++)
        for (int32_t k = 0; k < w->modules[m].n_kernels; k++)
            for (int f = 0; f < LW_N_PRODUCT_PHASES; f++)
                for (int b = 0; b < LW_N_BOUNDS; b++)
                    t.by[b] += w->kernel_times[w->modules[m].first_kernel + k].by[f][b];
    return t;
}

/* Cut at gradients, at sums, in pieces, in halves, by a ring: the works of a micro-batch have
 * together what the kernels of a rank have, bound by bound. A kernel that is cut is divided with a
 * rounding of a picosecond. */
MODEL_TEST(works_have_the_bounds_of_their_kernels)
{
    static const struct {
        const char *words;
        int64_t tp, cp;
        bool sequence;
    } cases[] = {
        {"dp 2", 0, 0, false},
        {"dp 2 recompute full", 0, 0, false},
        {"dp 2 recompute selective", 0, 0, false},
        {"tp 2", 2, 0, false},
        {"tp 2 sequence-parallel on", 2, 0, true},
        {"tp 2 sequence-parallel on tp-overlap backward", 2, 0, true},
        {"tp 2 sequence-parallel on tp-overlap pieces", 2, 0, true},
        {"cp 2", 0, 2, false},
        {"tp 4 cp 2 sequence-parallel on", 4, 2, true},
        {"tp 2 dp 2 zero 1 bucket-cap 1000 overlap-param-gather on", 2, 0, false},
    };
    struct lw_device d = model_device();

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct traces_model_shape shape = {
            .batch = 1, .layers = 2, .hidden = 16, .heads = 4, .ffn = 32, .seq = 32, .vocab = 32,
            .dtype = "f32", .optimizer = "adam", .attention = i % 2 ? "flash" : "full",
            .tensor = cases[i].tp, .context = cases[i].cp,
            .sequence_parallel = cases[i].sequence};
        d.memory_bytes_per_s.value = i % 3 == 0 ? 1e9 : i % 3 == 1 ? 1e11 : 4e10;
        struct lw_workload w = model_kept("llama-7b", &d, shape);
        struct lw_plan p = plan_of_words(&w, cases[i].words);
        struct total works = works_of(&p, false), kernels = kernels_of(&w);
        assert_true(works.n_works > 5 && kernels.by[LW_BOUND_MEMORY] > 0);
        works_of(&p, true);
        for (int b = 0; b < LW_N_BOUNDS; b++) {
            lw_ps off = works.by[b] - kernels.by[b];
            if (off > 2 * works.n_works || off < -2 * works.n_works)
                fail_msg("%s, %s: %lld ps, kernels have %lld", cases[i].words, lw_bound_word(b),
                         (long long)works.by[b], (long long)kernels.by[b]);
        }
        lw_plan_free(&p);
    }
}

/* --- one function for every op ---------------------------------------------------------------- */

TEST(shares_add_up_exactly)
{
    struct prng r = prng_start("apportion");

    for (int i = 0; i < 2000; i++) {
        int64_t weights[7], out[7], total = prng_below(&r, 1000000), sum = 0, all = 0;
        int n = 1 + (int)prng_below(&r, 7);
        for (int k = 0; k < n; k++)
            all += weights[k] = prng_below(&r, 3) ? prng_below(&r, 100000) : 0;
        lw_apportion(total, weights, n, out);
        for (int k = 0; k < n; k++) {
            sum += out[k];
            assert_true(out[k] >= 0 && (weights[k] > 0 || out[k] == 0));
        }
        assert_int_equal(sum, all > 0 ? total : 0);
    }
    const int64_t thirds[] = {1, 1, 1};
    int64_t out[3];
    lw_apportion(10, thirds, 3, out); /* 3.33, 6.67, 10 rounded down: 3, 6, 10 */
    assert_int_equal(out[0], 3);
    assert_int_equal(out[1], 3);
    assert_int_equal(out[2], 4);
    lw_apportion(INT64_MAX, (int64_t[]){INT64_MAX, INT64_MAX}, 2, out);
    assert_int_equal(out[0] + out[1], INT64_MAX);
}

static lw_ps part_of(const struct lw_plan *p, struct lw_op op, lw_ps time, int bound)
{
    lw_ps out[LW_N_OP_BOUNDS] = {0};

    lw_op_add_bounds(p, &op, time, 0, out);
    return out[bound];
}

/* What the cluster times is bound by what it is timed with; what a recording times by nothing that
 * is known. Of a work of which 2 of 10 are given, a fifth of whatever time is. */
TEST(every_op_is_bound_by_something)
{
    struct lw_work work = {.ps = 10, .bound_ps = {5, 3}, .source = LW_TIME_SHAPE};
    const struct lw_plan p = {.works = &work, .n_works = 1};
    static const struct {
        enum lw_op_kind kind;
        lw_ps own;
        int bound;
        const char *source;
    } cases[] = {
        {LW_OP_COPY_IN, -1, LW_BOUND_MEMORY, "cluster"},
        {LW_OP_COPY, 4, LW_BOUND_MEASURED, "given"},
        {LW_OP_ALL_REDUCE, 0, LW_BOUND_NETWORK, "cluster"},
        {LW_OP_SEND, -1, LW_BOUND_NETWORK, "cluster"},
        {LW_OP_ALL_REDUCE, 4, LW_BOUND_MEASURED, "given"},
        {LW_OP_KERNEL, 4, LW_BOUND_MEASURED, "given"},
        {LW_OP_KERNEL, -1, LW_BOUND_UNKNOWN, "cluster"},
        {LW_OP_HOST, 4, LW_BOUND_HOST, "given"},
        {LW_OP_LAUNCH, -1, LW_BOUND_HOST, "cluster"},
    };
    struct lw_op op = lw_builder_blank(LW_OP_FORWARD, 0);

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        op.kind = (uint8_t)cases[i].kind;
        op.work_ps = cases[i].own;
        assert_int_equal(part_of(&p, op, 70, cases[i].bound), 70);
        assert_string_equal(lw_op_time_source(&p, &op), cases[i].source);
    }
    op = lw_builder_blank(LW_OP_HOST, 0);
    op.name = LW_OP_ACCUMULATE;
    op.work_ps = 4;
    assert_int_equal(part_of(&p, op, 70, LW_BOUND_MEMORY), 70);
    op = lw_builder_blank(LW_OP_FORWARD, 0);
    op.work = 0;
    assert_string_equal(lw_op_time_source(&p, &op), "shape");
    assert_int_equal(part_of(&p, op, 100, LW_BOUND_COMPUTE), 50);
    assert_int_equal(part_of(&p, op, 100, LW_BOUND_MEMORY), 30);
    assert_int_equal(part_of(&p, op, 100, LW_BOUND_MEASURED), 20);
}

/* The host bounds an update of --offload update; of any other op without a time it is not known. */
TEST(the_host_bounds_the_updates_that_it_makes)
{
    struct lw_op op = {.kind = LW_OP_OPTIMIZER, .work = -1, .work_ps = -1};
    struct lw_strategy s = lw_strategy_default();
    const struct lw_plan p = {.strategy = &s};

    assert_int_equal(lw_op_bound(&p, &op), LW_BOUND_UNKNOWN);
    s.offload = LW_OFFLOAD_UPDATE;
    assert_int_equal(lw_op_bound(&p, &op), LW_BOUND_HOST);
    op.kind = LW_OP_BACKWARD;
    assert_int_equal(lw_op_bound(&p, &op), LW_BOUND_UNKNOWN);
}

/* --- plans and files -------------------------------------------------------------------------- */

static struct lw_plan read_text(const char *text, size_t n, enum lw_status want, const char *says)
{
    struct lw_plan p = {0};
    struct lw_err err = {0};
    enum lw_status s = lw_plan_read_text("p.json", text, n, true, &p, &err);

    if (s == LW_OK && want != LW_OK)
        s = lw_plan_check(&p, &err);
    assert_int_equal(s, want);
    if (says && !strstr(err.msg, says))
        fail_msg("'%s' lacks '%s'", err.msg, says);
    return p;
}

/* Bounds are timing: they go through a file, they are part of what tells times apart, and they are
 * no decision. A split that is longer than its work is refused. */
TEST(a_file_keeps_bounds_and_the_hash_leaves_them_out)
{
    struct lw_err err = {0};
    struct two t = {0};
    char before[33], after[33], *text, *at;
    size_t n;

    time_two(&t, (struct lw_kernel_rates){0});
    struct lw_plan p = plan_of_words(&t.w, "dp 2");
    assert_ok(lw_plan_write_text(&p, &text, &n, &err), err);
    struct lw_plan q = read_text(text, n, LW_OK, NULL);
    assert_string_equal(q.hash, p.hash);
    assert_int_equal(q.n_works, p.n_works);
    for (int32_t i = 0; i < p.n_works; i++) {
        assert_memory_equal(q.works[i].bound_ps, p.works[i].bound_ps, sizeof p.works[i].bound_ps);
        assert_int_equal(q.works[i].source, p.works[i].source);
    }
    lw_plan_free(&q);
    at = strstr(text, "\"compute_ns\": 6000");
    assert_non_null(at);
    at[strlen("\"compute_ns\": ")] = '9'; /* 9 + 4 of 10 us */
    q = read_text(text, n, LW_EPLAN,
                  "compute_ns, memory_ns, launch_ns and host_ns sum to 13.000 us, which is more "
                  "than its time (ns), 10.000 us");
    lw_plan_free(&q);
    free(text);
    assert_ok(lw_plan_hash_times(&p, before, &err), err);
    p.works[0].bound_ps[LW_BOUND_COMPUTE]--;
    p.works[0].bound_ps[LW_BOUND_LAUNCH]++;
    assert_ok(lw_plan_hash_times(&p, after, &err), err);
    assert_string_not_equal(before, after);
    char hash[33];
    memcpy(hash, p.hash, sizeof hash);
    assert_ok(lw_plan_hash(&p, &err), err);
    assert_string_equal(p.hash, hash);
    lw_plan_drop_times(&p);
    assert_ok(lw_plan_check(&p, &err), err);
    assert_int_equal(p.works[0].bound_ps[LW_BOUND_COMPUTE], 0);
    lw_plan_free(&p);
}

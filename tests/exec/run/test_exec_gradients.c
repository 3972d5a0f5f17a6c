/* Verification sees the gradients of every step, also where the weights do not show them, and lies
 * outside of the steps that are measured. */
#include "exec/backend/element.h"
#include "shared/base/arena.h"
#include "tests/lib/exec/exec_chain.h"
#include "tests/lib/unit.h"

enum { STEPS = 6 };

/* One element is left out of the all-reduce of one step, on both ranks alike, in the rehearsal and
 * when it is measured. */
static struct exec_backend broken;
static int32_t n_calls, broken_step;

static enum lw_status all_reduce_but_one(struct exec_stream *s, struct exec_comm *c,
                                         const struct exec_transfer *x, int32_t n,
                                         struct lw_err *err)
{
    struct exec_transfer less = *x;

    less.message.count -= n_calls++ / 2 % STEPS == broken_step;
    return exec_backend_threads.communicate(s, c, &less, n, err);
}

/* step -1: right. */
static enum lw_status run(const char *words, float rate, int32_t step, struct lw_err *err)
{
    struct lw_exec_options o = options();
    struct lw_exec_result r = {0};
    struct chain c;

    chain_init(&c, 2);
    struct lw_plan p = build(&c, words);
    broken = exec_backend_threads;
    broken.communicate = all_reduce_but_one;
    n_calls = 0;
    broken_step = step;
    o.backend = &broken;
    o.n_warmup = 2;
    o.n_steps = STEPS - 2;
    o.optimizer.rate = rate;
    enum lw_status s = lw_exec_run(&p, &o, &r, err);
    lw_exec_result_free(&r);
    lw_plan_free(&p);
    return s;
}

/* With a learning rate of 0 no gradient reaches the weights. One bucket: one call a step. */
TEST(a_wrong_gradient_is_found_in_whatever_step)
{
    for (int32_t step = 0; step < STEPS; step++) {
        char expected[80];
        struct lw_err err = {0};
        assert_int_equal(run("dp 2 bucket-policy single", 0, step, &err), LW_ENO);
        snprintf(expected, sizeof expected, "step %d: the averaged gradient of parameter", step);
        if (!strstr(err.msg, expected))
            fail_msg("step %d: %s", step, err.msg);
    }
}

TEST(right_gradients_pass)
{
    static const char *const words[] = {
        "dp 2 bucket-policy single", "dp 2", "dp 2 zero 1", "dp 2 zero 2", "dp 2 zero 3",
        "dp 2 clip 1", "dp 2 comm-hook bf16", "dp 2 pp 2 micro-batches 2", "dp 2 no-sync 1",
        "dp 2 zero 1 clip 1", "pp 2 micro-batches 4 schedule zb-h1"};

    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        struct lw_err err = {0};
        if (run(words[i], 0.5f, -1, &err) != LW_OK)
            fail_msg("%s: %s", words[i], err.msg);
    }
}

static int32_t optimizer_op(const struct lw_plan *p, int32_t pass, int32_t rank)
{
    struct lw_program g = lw_plan_program(p, lw_plan_variant_of_pass(p, pass), rank);
    int32_t i = g.first_op;

    while (p->ops[i].kind != LW_OP_OPTIMIZER)
        i++;
    return i;
}

/* The lowest bit of an averaged gradient, which the weights of 20 steps hide. */
TEST(a_flipped_bit_is_found_in_whatever_step)
{
    static const char *const words[] = {"dp 2", "dp 2 zero 1", "dp 2 zero 3", "dp 2 clip 1"};

    for (int32_t i = 0; i < 20; i++) {
        struct lw_exec_options o = options();
        struct lw_exec_result r = {0};
        struct lw_err err = {0};
        char expected[80];
        struct chain c;

        chain_init(&c, 2);
        struct lw_plan p = build(&c, words[i % 4]);
        o.n_warmup = 2;
        o.n_steps = 18;
        o.fault = (struct lw_exec_fault){LW_FAULT_FLIP, i % 2, i, optimizer_op(&p, i, i % 2)};
        enum lw_status s = lw_exec_run(&p, &o, &r, &err);
        snprintf(expected, sizeof expected, "step %d: the averaged gradient of parameter", i);
        if (s != LW_ENO || !strstr(err.msg, expected) ||
            !strstr(err.msg, "the weights are equal all the same"))
            fail_msg("%s, step %d: %s", words[i % 4], i, err.msg);
        assert_int_equal(r.n_steps, 18);
        lw_exec_result_free(&r);
        lw_plan_free(&p);
    }
}

/* What a backend is given of tasks and messages, from the batch that is listened to first on. */
static struct exec_backend listening;
static struct heard {
    struct item {
        int32_t kind; /* of a part; -1 of a task, -2 of an all-reduce, -3 of a send or receive */
        int64_t count;
    } *items;
    int64_t n, capacity;
    int32_t batch, first;
} heard;

static void hear(int32_t kind, int64_t count)
{
    if (heard.batch <= heard.first)
        return;
    if (lw_reserve(&heard.items, &heard.capacity, heard.n + 1, sizeof *heard.items))
        fail();
    heard.items[heard.n++] = (struct item){kind, count};
}

static void hear_batch(struct exec_world *w)
{
    heard.batch++;
    exec_backend_threads.hold(w);
}

static enum lw_status hear_task(struct exec_stream *s, const struct exec_task *task,
                                struct exec_stamp *stamp, struct lw_err *err)
{
    hear(-1, task->work_ns);
    for (int32_t i = 0; i < task->n_parts; i++)
        hear((int32_t)task->parts[i].kind, task->parts[i].count);
    return exec_backend_threads.compute(s, task, stamp, err);
}

static enum lw_status hear_comm(struct exec_stream *s, struct exec_comm *c,
                                const struct exec_transfer *x, int32_t n, struct lw_err *err)
{
    for (int32_t i = 0; i < n; i++)
        hear(x[i].op == LW_OP_ALL_REDUCE ? -2 : -3, x[i].message.count);
    return exec_backend_threads.communicate(s, c, x, n, err);
}

/* `first` batches are not listened to. */
static void listen(const char *words, bool verify, int32_t first)
{
    struct lw_exec_options o = options();
    struct lw_exec_result r = {0};
    struct lw_err err = {0};
    struct chain c;

    chain_init(&c, 4);
    chain_split(&c);
    struct lw_plan p = build(&c, words);
    lw_free(heard.items);
    heard = (struct heard){.first = first};
    listening = exec_backend_threads;
    listening.hold = hear_batch;
    listening.compute = hear_task;
    listening.communicate = hear_comm;
    o.backend = &listening;
    o.verify = verify;
    if (lw_exec_run(&p, &o, &r, &err) != LW_OK)
        fail_msg("%s: %s", words, err.msg);
    assert_int_equal(r.n_compared_steps, verify ? o.n_warmup + o.n_steps : 0);
    lw_exec_result_free(&r);
    lw_plan_free(&p);
}

/* No sum, no comparison and no copy for one lies inside a measured step: after the rehearsal, of a
 * batch a step, the backend is given exactly what a run without verification gives it. */
TEST(measured_steps_do_what_they_do_unverified)
{
    static const char *const words[] = {"dp 2", "dp 2 zero 1 clip 1", "dp 2 zero 3",
                                        "dp 2 pp 2 tp 2 micro-batches 2",
                                        "pp 4 micro-batches 4 schedule zb-h1", "dp 2 no-sync 1"};

    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        listen(words[i], false, 0);
        struct heard plain = heard;
        heard.items = NULL;
        listen(words[i], true, 3);
        assert_true(plain.n > 0);
        assert_int_equal(heard.n, plain.n);
        assert_int_equal(heard.batch, 3 + plain.batch);
        for (int64_t k = 0; k < plain.n; k++)
            if (heard.items[k].kind != plain.items[k].kind ||
                heard.items[k].count != plain.items[k].count)
                fail_msg("%s: %lld: kind %d of %lld, without verification %d of %lld", words[i],
                         (long long)k, heard.items[k].kind, (long long)heard.items[k].count,
                         plain.items[k].kind, (long long)plain.items[k].count);
        lw_free(plain.items);
    }
    lw_free(heard.items);
    heard = (struct heard){0};
}

TEST(any_bit_changes_the_sum)
{
    float v[64];

    for (int i = 0; i < 64; i++)
        v[i] = (float)(i - 31);
    uint64_t right = exec_bits_sum(LW_F32, v, 64);
    for (int64_t bit = 0; bit < (int64_t)sizeof v * 8; bit++) {
        unsigned char *byte = (unsigned char *)v + bit / 8;
        if (bit % 32 == 31 && v[bit / 32] == 0)
            continue; /* -0 is 0 */
        *byte ^= (unsigned char)(1u << (bit % 8));
        assert_true(exec_bits_sum(LW_F32, v, 64) != right);
        *byte ^= (unsigned char)(1u << (bit % 8));
    }
    float other = v[3];
    v[3] = v[4];
    v[4] = other; /* places count */
    assert_true(exec_bits_sum(LW_F32, v, 64) != right);
    assert_int_equal(exec_bits_sum(LW_F64, (double[]){-0.0}, 1), 0);
}

/* The sum of bits times (2 i golden + 1), put together byte by byte, for every width. */
TEST(the_sum_is_that_of_its_definition)
{
    static const enum lw_dtype types[] = {LW_U8, LW_BF16, LW_F16, LW_F32, LW_I32, LW_F64, LW_I64};
    const uint64_t golden = UINT64_C(0x9e3779b97f4a7c15);
    unsigned char mem[8 * 257];

    for (size_t i = 0; i < sizeof mem; i++)
        mem[i] = (unsigned char)(i * i * 31 + i / 7);
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        size_t size = (size_t)lw_dtype_size(types[t]);
        memset(mem + 5 * size, 0, size); /* element 5 is -0, which counts as 0 */
        mem[6 * size - 1] = 0x80;
        uint64_t sum = 0, minus_zero = UINT64_C(0x80) << (8 * (size - 1));
        for (uint64_t i = 0; i < 257; i++) {
            uint64_t bits = 0;
            for (size_t k = size; k-- > 0;)
                bits = bits * 256 + mem[i * size + k];
            sum += bits == minus_zero ? 0 : bits * (2 * i * golden + 1);
        }
        assert_true(exec_bits_sum(types[t], mem, 257) == sum);
    }
}

/* Verification sees the gradients of every step, also where the weights do not show them. */
#include "exec/backend/element.h"
#include "tests/lib/exec_chain.h"

/* One element is left out of the n-th all-reduce of a run, on all ranks alike. */
static struct exec_backend broken;
static int32_t n_calls, broken_call;

static enum lw_status all_reduce_but_one(struct exec_stream *s, struct exec_comm *c,
                                         const struct exec_message *m, struct exec_stamp *stamp,
                                         struct lw_err *err)
{
    struct exec_message less = *m;

    less.count -= n_calls++ / 2 == broken_call;
    return exec_backend_threads.all_reduce(s, c, &less, stamp, err);
}

static enum lw_status run(const char *words, float rate, bool breaks, int32_t call,
                          struct lw_err *err)
{
    struct lw_exec_options o = options();
    struct lw_exec_result r = {0};
    struct chain c;

    chain_init(&c, 2);
    struct lw_plan p = build(&c, words);
    broken = exec_backend_threads;
    broken.all_reduce = all_reduce_but_one;
    n_calls = 0;
    broken_call = breaks ? call : -1;
    o.backend = &broken;
    o.n_warmup = 2;
    o.n_steps = 4;
    o.optimizer.rate = rate;
    enum lw_status s = lw_exec_run(&p, &o, &r, err);
    lw_exec_result_free(&r);
    lw_plan_free(&p);
    return s;
}

/* With a learning rate of 0 no gradient reaches the weights. One bucket: call k is of step k. */
static void a_wrong_gradient_is_found_in_whatever_step(void **unused)
{
    (void)unused;
    for (int32_t step = 0; step < 6; step++) {
        char expected[80];
        struct lw_err err = {0};
        assert_int_equal(run("dp 2 bucket-policy single", 0, true, step, &err), LW_ENO);
        snprintf(expected, sizeof expected, "step %d: the averaged gradient of parameter", step);
        if (!strstr(err.msg, expected))
            fail_msg("step %d: %s", step, err.msg);
    }
}

static void right_gradients_pass(void **unused)
{
    static const char *const words[] = {
        "dp 2 bucket-policy single", "dp 2", "dp 2 zero 1", "dp 2 zero 2", "dp 2 zero 3",
        "dp 2 clip 1", "dp 2 comm-hook bf16", "dp 2 pp 2 micro-batches 2", "dp 2 no-sync 1",
        "dp 2 zero 1 clip 1", "pp 2 micro-batches 4 schedule zb-h1"};
    (void)unused;

    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        struct lw_err err = {0};
        if (run(words[i], 0.5f, false, 0, &err) != LW_OK)
            fail_msg("%s: %s", words[i], err.msg);
    }
}

static void any_bit_changes_the_sum(void **unused)
{
    float v[64];
    (void)unused;

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
static void the_sum_is_that_of_its_definition(void **unused)
{
    static const enum lw_dtype types[] = {LW_U8, LW_BF16, LW_F16, LW_F32, LW_I32, LW_F64, LW_I64};
    const uint64_t golden = UINT64_C(0x9e3779b97f4a7c15);
    unsigned char mem[8 * 257];
    (void)unused;

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wrong_gradient_is_found_in_whatever_step),
        cmocka_unit_test(right_gradients_pass),
        cmocka_unit_test(any_bit_changes_the_sum),
        cmocka_unit_test(the_sum_is_that_of_its_definition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

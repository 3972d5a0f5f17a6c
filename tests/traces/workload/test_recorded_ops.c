/* What operators do, from the sizes of their inputs: closed forms of recorded models, by hand. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <string.h>

#include "tests/lib/traces/model_help.h"
#include "tests/lib/traces/step_help.h"

struct sums {
    int64_t flops[2], bytes[2]; /* forward, backward */
    int n[2];
};

static struct sums sums_of(const struct lw_workload *w, const char *module, int kind)
{
    struct sums s = {0};

    for (int32_t i = 0; i < w->n_modules; i++)
        for (int32_t k = 0; k < w->modules[i].n_ops; k++) {
            const struct lw_recorded_op *op = &w->ops[w->modules[i].ops[k]];
            if (op->kind != kind || (module && strcmp(w->modules[i].name, module) != 0))
                continue;
            s.flops[op->backward] += lw_recorded_op_work(op).flops;
            s.bytes[op->backward] += lw_recorded_op_work(op).bytes;
            s.n[op->backward]++;
        }
    return s;
}

/* Width 256, 256 tokens: per block 256 x (768 + 256 + 1024 + 1024), and the head, 8192. */
TEST(products_of_a_recorded_gpt_are_those_of_its_sizes)
{
    struct imported x = import_sized("traces/recorded/gpt6__local.rank0.json.gz");
    const int64_t want = INT64_C(2) * 256 * 256 * (6 * (768 + 256 + 1024 + 1024) + 8192);

    import_median(&x);
    struct sums s = sums_of(&x.w, NULL, LW_KERNEL_GEMM);
    assert_int_equal(s.flops[0], want);
    assert_int_equal(s.flops[1], 2 * want);
    assert_int_equal(s.n[0], 25);
    assert_int_equal(s.n[1], 50);
    /* 4 sequences of 64 tokens, 4 heads of 64: two products of scores; backward has five for two */
    s = sums_of(&x.w, NULL, LW_KERNEL_ATTENTION);
    assert_int_equal(s.n[0], 6);
    assert_int_equal(s.flops[0], INT64_C(6) * 2 * 2 * 4 * 4 * 64 * 64 * 64);
    assert_int_equal(2 * s.flops[1], 5 * s.flops[0]);
    for (int32_t i = 0; i < x.w.n_ops; i++)
        assert_true(x.w.ops[i].kind != LW_KERNEL_ATTENTION || x.w.ops[i].causal);
    import_free(&x);
}

/* And what `lapwing model gpt2` counts for these sizes, less the scores, which are stored there. */
TEST(products_of_a_recorded_gpt_are_the_models)
{
    struct imported x = import_sized("traces/recorded/gpt6__local.rank0.json.gz");
    struct lw_workload w = model_build(
        "gpt2", (struct traces_model_shape){.layers = 6, .hidden = 256, .heads = 4, .vocab = 8192,
                                            .seq = 64, .batch = 4, .dtype = LW_F32});
    int64_t model[LW_N_PRODUCT_PHASES] = {0};

    import_median(&x);
    for (int32_t i = 0; i < w.n_modules; i++)
        for (int f = 0; f < LW_N_PRODUCT_PHASES; f++)
            for (int32_t k = 0; k < w.modules[i].n_products[f]; k++) {
                const struct lw_product *p = &w.products[w.modules[i].products[f][k]];
                model[f] += p->batch == 1 ? lw_product_flops(p) : 0;
            }
    struct sums s = sums_of(&x.w, NULL, LW_KERNEL_GEMM);
    assert_int_equal(s.flops[0], model[LW_PRODUCTS_FORWARD]);
    assert_int_equal(s.flops[1], model[LW_PRODUCTS_INPUT] + model[LW_PRODUCTS_WEIGHT]);
    lw_workload_free(&w);
    import_free(&x);
}

/* stem.0: 16 images of 32 x 32 x 3 by 64 filters of 7 x 7, every second position: 16 x 16. Its
 * input has no gradient: one product of that size in backward. blocks.0.conv.0: 8 x 8 x 64, 3 x 3 x
 * 64, and two in backward. */
TEST(convolutions_count_what_their_outputs_need)
{
    struct imported x = import_sized("traces/recorded/resnet18__local.rank0.json.gz");
    const int64_t first = INT64_C(2) * 16 * 16 * 16 * 64 * 3 * 7 * 7;
    const int64_t second = INT64_C(2) * 16 * 8 * 8 * 64 * 64 * 3 * 3;

    import_median(&x);
    struct sums s = sums_of(&x.w, "stem.0", LW_KERNEL_COUNTED);
    assert_int_equal(s.flops[0], first);
    assert_int_equal(s.flops[1], first);
    s = sums_of(&x.w, "blocks.0.conv.0", LW_KERNEL_COUNTED);
    assert_int_equal(s.flops[0], second);
    assert_int_equal(s.flops[1], 2 * second);
    assert_int_equal(s.bytes[0], 4 * (2 * 16 * 8 * 8 * 64 + 64 * 64 * 3 * 3));
    assert_int_equal(sums_of(&x.w, NULL, LW_KERNEL_COUNTED).n[0], 20);
    import_free(&x);
}

/* --- by hand ---------------------------------------------------------------------------------- */

static int32_t text_of(struct lw_trace *t, const char *text)
{
    return *text ? traces_strings_add(&t->strings, text, strlen(text)) + 1 : 0;
}

static void put_op(struct lw_trace *t, const char *name, int64_t start, int64_t end,
                   const char *sizes, const char *types)
{
    struct lw_row row = {LW_ROW_HOST, start, end - start, -1,
                         traces_strings_add(&t->strings, name, strlen(name)), 1};
    struct lw_row_detail d = {.op = -1, .dtype = -1, .group = -1, .wait_stream = -1,
                              .wait_record = -1, .in_numel = -1, .out_numel = -1,
                              .shape_numel = -1, .shape_type = -1,
                              .input_sizes = text_of(t, sizes), .input_types = text_of(t, types)};

    assert_int_equal(lw_trace_add(t, &row, &d, NULL), LW_OK);
}

static struct imported step_with(const char *name, const char *sizes, const char *types)
{
    struct imported x = import_begin();

    put_step(&x.s.trace, 5000, "ProfilerStep#3", true);
    put_op(&x.s.trace, name, 5040, 5060, sizes, types);
    return x;
}

static struct sums counted(struct imported *x, int kind)
{
    import_sort(x);
    import_median(x);
    struct sums s = sums_of(&x->w, NULL, kind);
    import_free(x);
    return s;
}

/* The bias that addmm copies is part of it; the number that add_ makes a tensor is no work; a view
 * of a copy is the copy. */
TEST(the_innermost_operator_counts_once)
{
    struct imported x = step_with("aten::addmm", "8;4,16;16,8;;;", "float;float;float;Scalar;;");
    put_op(&x.s.trace, "aten::copy_", 5045, 5050, "4,8;4,8;;", "float;float;Scalar;");
    struct sums s = counted(&x, LW_KERNEL_GEMM);
    assert_int_equal(s.n[0], 1);
    assert_int_equal(s.flops[0], 2 * 4 * 16 * 8);

    x = step_with("aten::addmm", "8;4,16;16,8;;;", "float;float;float;Scalar;;");
    put_op(&x.s.trace, "aten::copy_", 5045, 5050, "4,8;4,8;;", "float;float;Scalar;");
    assert_int_equal(counted(&x, LW_KERNEL_TRAFFIC).n[0], 0);

    x = step_with("aten::mul_", "100;;", "float;double;");
    put_op(&x.s.trace, "aten::copy_", 5045, 5050, ";;;", "float;double;Scalar;");
    s = counted(&x, LW_KERNEL_TRAFFIC); /* 100 numbers and one of 8 bytes, and 100 written */
    assert_int_equal(s.n[0], 1);
    assert_int_equal(s.bytes[0], 400 + 8 + 400);

    x = step_with("aten::reshape", "10,10;;", "c10::BFloat16;ScalarList;");
    put_op(&x.s.trace, "aten::copy_", 5045, 5050, "10,10;10,10;;",
           "c10::BFloat16;c10::BFloat16;Scalar;");
    s = counted(&x, LW_KERNEL_TRAFFIC);
    assert_int_equal(s.n[0], 1);
    assert_int_equal(s.bytes[0], 400);
}

TEST(views_move_nothing)
{
    static const char *const views[] = {"aten::view", "aten::t", "aten::expand", "aten::detach",
                                        "aten::as_strided", "aten::empty_strided"};

    for (size_t i = 0; i < sizeof views / sizeof *views; i++) {
        struct imported x = step_with(views[i], "100;;", "float;ScalarList;");
        import_sort(&x);
        import_median(&x);
        assert_int_equal(x.w.n_ops, 0);
        import_free(&x);
    }
}

/* Sizes are a file's: what no library takes, or does not fit, is left out and said. */
TEST(sizes_beyond_any_device_are_left_out)
{
    static const char *const sizes[] = {
        "4,9223372036854775807;9223372036854775807,4;", "3000000000,4;4,4;",
        "2147483647,2147483647;2147483647,2147483647;", "4,5;6,7;", "0,4;4,0;", "4;4;"};

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct imported x = step_with("aten::mm", sizes[i], "float;float;");
        put_op(&x.s.trace, "aten::relu", 5070, 5080, "10;", "float;");
        import_sort(&x);
        import_median(&x);
        bool said = false;
        for (int32_t k = 0; k < x.w.n_notes; k++)
            said |= strstr(x.w.notes[k], "not understood") != NULL;
        assert_int_equal(x.w.n_ops, 1); /* relu */
        assert_int_equal(x.w.ops[0].bytes, 80);
        assert_true(said || i == 4); /* of nothing there is nothing to say */
        import_free(&x);
    }
}

/* Without sizes there is nothing to time on another device. */
TEST(a_recording_without_sizes_has_no_operators)
{
    struct imported x = import_file("traces/recorded/gpt6__local.rank0.json.gz");

    import_median(&x);
    assert_int_equal(x.w.n_ops, 0);
    import_free(&x);
}

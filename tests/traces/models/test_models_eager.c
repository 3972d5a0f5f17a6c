/* Kernels that autograd and a program's metrics add to a model: closed forms of their bytes, where
 * a byte takes a nanosecond. */
#include "tests/lib/unit.h"

#include <stdlib.h>
#include <string.h>

#include "shared/framework/framework.h"
#include "tests/lib/traces/model_help.h"
#include "traces/models/model_framework.h"

enum { NS = 1000, BLOCK = 1 };

struct sizes {
    int64_t batch, seq, heads, kv, width, ffn, vocab, tokens, hidden, item;
    bool f32;
};

static struct sizes random_sizes(void)
{
    struct sizes s = {.batch = 1 + rand() % 3, .seq = 4 * (1 + rand() % 8),
                      .width = 8 * (1 + rand() % 3), .ffn = 8 * (1 + rand() % 20),
                      .kv = 1 + rand() % 2, .vocab = 8 * (3 + rand() % 9), .f32 = rand() % 2};

    s.heads = s.kv * (1 + rand() % 3);
    s.tokens = s.batch * s.seq;
    s.hidden = s.heads * s.width;
    s.item = s.f32 ? 4 : 2;
    return s;
}

static struct lw_workload built(const char *model, const struct sizes *s,
                                struct traces_model_shape more)
{
    more.batch = s->batch;
    more.layers = 1;
    more.seq = s->seq;
    more.hidden = s->hidden;
    more.heads = s->heads;
    more.kv_heads = strcmp(model, "llama-2-7b") == 0 ? s->kv : 0;
    more.ffn = s->ffn;
    more.vocab = s->vocab;
    more.dtype = s->f32 ? "f32" : "bf16";
    return model_kept(model, NULL, more);
}

/* What `shape` adds to module k in bytes of forward, backward by input and by weight. */
static void assert_adds(const char *model, const struct sizes *s, struct traces_model_shape shape,
                        int32_t k, int64_t forward, int64_t input, int64_t weight)
{
    struct traces_model_shape plain = shape;

    plain.unfused = 0;
    plain.metric_losses = 0;
    struct lw_workload w = built(model, s, shape), base = built(model, s, plain);
    const struct lw_module *a = &base.modules[k], *b = &w.modules[k];
    assert_int_equal(b->forward_ps - a->forward_ps, forward * NS);
    assert_int_equal(b->backward_input_ps - a->backward_input_ps, input * NS);
    assert_int_equal(b->backward_weight_ps - a->backward_weight_ps, weight * NS);
    for (int mode = 0; mode < LW_N_RECOMPUTE; mode++)
        assert_int_equal(b->kept_bytes[mode], a->kept_bytes[mode]);
}

static void on_random_sizes(void (*check)(const struct sizes *))
{
    unsigned seed = 83;

    print_message("seed %u\n", seed);
    srand(seed);
    for (int n = unit_cases(20, 400); n > 0; n--) {
        struct sizes s = random_sizes();
        check(&s);
        model_forget(NULL);
    }
}

/* Of queries, keys and values together, attention's result, and both of the pair. */
static void check_biases(const struct sizes *s)
{
    struct traces_model_shape sums = {.unfused = TRACES_BIAS_SUMS};
    int64_t x = s->item * s->tokens, h = s->hidden, all = h + 2 * s->kv * s->width + h;

    assert_adds("gpt-125m", s, sums, BLOCK, 0, 0, x * (3 * h + h + s->ffn + h));
    assert_adds("mpt-7b", s, sums, BLOCK, 0, 0, 0);
    assert_adds("llama-2-7b", s, sums, BLOCK, 0, 0, 0);
    sums.biases = true;
    assert_adds("llama-2-7b", s, sums, BLOCK, 0, 0, x * (all + 2 * s->ffn + h));
    sums.plain_ffn = true;
    assert_adds("llama-2-7b", s, sums, BLOCK, 0, 0, x * (all + s->ffn + h));
}

MODEL_TEST(a_bias_reads_the_gradient_of_its_product)
{
    on_random_sizes(check_biases);
}

/* Two residuals: one reading and one writing more than the sum that a norm's backward writes. */
static void check_residuals(const struct sizes *s)
{
    int64_t x = s->item * s->tokens * s->hidden, kv = s->item * s->tokens * s->kv * s->width;
    struct traces_model_shape shape = {.unfused = TRACES_RESIDUAL_SUMS};

    assert_adds("gpt-125m", s, shape, BLOCK, 0, 2 * 2 * x, 0);
    assert_adds("llama-2-7b", s, shape, BLOCK, 0, 2 * 2 * x, 0);
    shape.unfused = TRACES_JOINED_GRADIENTS;
    assert_adds("gpt-125m", s, shape, BLOCK, 0, 2 * 3 * x, 0);
    assert_adds("llama-2-7b", s, shape, BLOCK, 0, 2 * (x + 2 * kv), 0);
    shape.unfused = TRACES_CONTEXT_COPY;
    assert_adds("gpt-125m", s, shape, BLOCK, 2 * x, 0, 0);
}

MODEL_TEST(gradients_are_added_and_joined_by_kernels)
{
    on_random_sizes(check_residuals);
}

/* Forward of f32 probabilities: scores and 4 bytes, and the same backward. */
static void check_losses(const struct sizes *s)
{
    int64_t scores = s->tokens * s->vocab, made = s->item + 4;
    struct traces_model_shape shape = {.unfused = TRACES_LOSS_IN_PLACE};

    assert_adds("gpt-125m", s, shape, BLOCK + 1, (s->item - made) * scores,
                (2 * s->item - made) * scores, 0);
    shape = (struct traces_model_shape){.metric_losses = 2};
    assert_adds("gpt-125m", s, shape, BLOCK + 1, 2 * (s->item + 12) * scores, 0, 0);
    struct traces_model_shape steps = {.unfused = TRACES_UNFUSED_LOSS}, both = steps;
    both.unfused |= TRACES_LOSS_IN_PLACE;
    struct lw_workload w = built("gpt-125m", s, steps), same = built("gpt-125m", s, both);
    assert_int_equal(same.modules[BLOCK + 1].forward_ps, w.modules[BLOCK + 1].forward_ps);
}

MODEL_TEST(a_loss_in_place_reads_scores_and_metrics_make_more)
{
    on_random_sizes(check_losses);
}

/* Scores in, scores in, gradient out; gradient in, gradient out. Nothing of f32 is held: the scores
 * alone, against f32 probabilities. */
static void check_gradient_in_forward(const struct sizes *s)
{
    int64_t scores = s->tokens * s->vocab, e = s->item;
    struct traces_model_shape shape = {.unfused = TRACES_LOSS_WRITES_GRADIENT};
    struct lw_workload w = built("gpt-125m", s, shape),
                       base = built("gpt-125m", s, (struct traces_model_shape){0});
    const struct lw_module *a = &base.modules[BLOCK + 1], *b = &w.modules[BLOCK + 1];

    assert_int_equal(b->forward_ps - a->forward_ps, (3 * e - e - 4) * scores * NS);
    assert_int_equal(b->backward_input_ps - a->backward_input_ps, (2 * e - e - 4) * scores * NS);
    for (int mode = 0; mode < LW_N_RECOMPUTE; mode++)
        assert_int_equal(b->kept_bytes[mode] - a->kept_bytes[mode], (e - 4) * scores);
    assert_int_equal(w.dims.score_bytes, e * scores);
}

MODEL_TEST(a_loss_that_writes_its_gradient_forward_holds_the_scores_alone)
{
    on_random_sizes(check_gradient_in_forward);
}

/* LayerNorm has its kernels where the steps of an RMSNorm are kernels: 36 and 74 bytes an element
 * against one reading and one writing, and in backward four and two for the weights. */
static void check_layer_norms(const struct sizes *s)
{
    struct traces_model_shape steps = {.unfused = TRACES_UNFUSED_NORMS};
    int64_t n = s->tokens * s->hidden, e = s->item;

    assert_adds("gpt-125m", s, steps, BLOCK, 0, 0, 0);
    assert_adds("gpt-125m", s, steps, BLOCK + 1, 0, 0, 0);
    struct lw_workload w = built("llama-2-7b", s, steps), base = built("llama-2-7b", s,
                                                                  (struct traces_model_shape){0});
    const struct lw_module *a = &base.modules[BLOCK + 1], *b = &w.modules[BLOCK + 1];
    assert_int_equal(b->forward_ps - a->forward_ps, (36 - 2 * e) * n * NS);
    assert_int_equal(b->backward_input_ps - a->backward_input_ps, (74 - 4 * e) * n * NS);
    steps.layer_norm = true;
    assert_adds("llama-2-7b", s, steps, BLOCK + 1, 0, 0, 0);
}

MODEL_TEST(a_layer_norm_is_one_kernel_in_every_program)
{
    on_random_sizes(check_layer_norms);
}

/* Each residual's sum is one reading and one writing beside LayerNorm's, which has a reading of
 * its own; fused attention takes views: only gradients of the product's parts are copied, once. */
static void check_blocks(const struct sizes *s)
{
    int64_t x = s->item * s->tokens * s->hidden;
    struct traces_model_shape shape = {.unfused = TRACES_UNFUSED_BLOCK, .attention = "flash"};

    assert_adds("gpt-125m", s, shape, BLOCK, 0, 2 * 2 * x + 2 * 3 * x, 0);
    shape.unfused |= TRACES_JOINED_GRADIENTS;
    assert_adds("gpt-125m", s, shape, BLOCK, 0, 2 * 2 * x + 2 * 3 * x, 0);
    shape = (struct traces_model_shape){.unfused = TRACES_UNFUSED_BLOCK, .attention = "full"};
    assert_adds("gpt-125m", s, shape, BLOCK, 2 * 4 * x, 2 * 2 * x + 2 * 4 * x, 0);
}

MODEL_TEST(a_fused_kernel_takes_views_of_one_product)
{
    on_random_sizes(check_blocks);
}

/* Scores in, logarithms out; zeros, zeros and logarithms in, gradient out. Under autocast the
 * logarithms are cast to f32, zeros are of f32 and cast back. Held are the scores, logarithms and
 * both gradients, or both logarithms and zeros of f32. Against f32 probabilities. */
static void check_log_softmax(const struct sizes *s)
{
    int64_t scores = s->tokens * s->vocab, e = s->item;

    for (int cast = 0; cast < (s->f32 ? 1 : 2); cast++) {
        struct traces_model_shape fused = {.autocast = cast != 0}, one = fused;
        one.unfused = TRACES_LOG_SOFTMAX;
        struct lw_workload w = built("gpt-125m", s, one), base = built("gpt-125m", s, fused);
        const struct lw_module *a = &base.modules[BLOCK + 1], *b = &w.modules[BLOCK + 1];
        int64_t forward = cast ? 2 + 2 + 2 + 4 : 2 * e, kept = cast ? 2 + 2 + 4 + 4 : 4 * e;
        int64_t backward = cast ? 4 + 4 + 2 + 2 + 2 + 2 : e + 3 * e;
        assert_int_equal(b->forward_ps - a->forward_ps, (forward - e - 4) * scores * NS);
        assert_int_equal(b->backward_input_ps - a->backward_input_ps,
                         (backward - e - 4) * scores * NS);
        assert_int_equal(b->kept_bytes[LW_RECOMPUTE_NONE] - a->kept_bytes[LW_RECOMPUTE_NONE],
                         (kept - 4) * scores);
    }
}

MODEL_TEST(log_softmax_is_one_kernel_each_way)
{
    on_random_sizes(check_log_softmax);
}

/* Two norms and the sum between them; casts beside both. */
static void check_norms(const struct sizes *s)
{
    int64_t n = s->tokens * s->hidden;
    struct traces_model_shape shape = {.unfused = TRACES_NORMS_AGAIN};

    assert_adds("llama-2-7b", s, shape, BLOCK, 0, (2 * 2 + 3) * s->item * n, 0);
    assert_adds("llama-2-7b", s, shape, BLOCK + 1, 0, 0, 0);
}

MODEL_TEST(norms_run_again_in_the_backward)
{
    on_random_sizes(check_norms);
}

/* A gradient is read and its sum read and written; bf16's is copied to f32 before, f16's has its
 * own type. */
MODEL_TEST(sums_of_bf16_take_a_copy)
{
    static const struct {
        const char *dtype;
        unsigned unfused;
        uint8_t bytes;
    } cases[] = {{"bf16", TRACES_UNFUSED_SUMS, 2 + 2 * 4},
                 {"bf16", TRACES_UNFUSED_SUMS | TRACES_CAST_SUMS, 2 + 4 + 4 + 2 * 4},
                 {"f16", TRACES_UNFUSED_SUMS, 2 + 2 * 4},
                 {"f16", TRACES_UNFUSED_SUMS | TRACES_CAST_SUMS, 2 + 2 * 2},
                 {"f32", TRACES_UNFUSED_SUMS | TRACES_CAST_SUMS, 4 + 2 * 4},
                 {"bf16", TRACES_CAST_SUMS, 0}};

    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct lw_workload w = MODEL("gpt-125m", .layers = 1, .dtype = cases[k].dtype,
                                     .unfused = cases[k].unfused);
        int n = 0;
        for (int32_t i = 0; i < w.n_kernels; i++)
            if (w.kernels[i].kind == LW_KERNEL_GEMM && w.kernels[i].trained) {
                assert_int_equal(w.kernels[i].sum_bytes, cases[k].bytes);
                n++;
            }
        assert_int_equal(n, 4 + 1);
    }
}

/* Tensor ranks have parts of what column products give and of attention, and whole results of row
 * products. */
MODEL_TEST(sums_of_biases_are_split_as_products_are)
{
    struct sizes s = {.batch = 2, .seq = 16, .heads = 4, .kv = 4, .width = 8, .ffn = 64,
                      .vocab = 96, .tokens = 32, .hidden = 32, .item = 2};
    struct lw_workload w = built("gpt-125m", &s,
                                 (struct traces_model_shape){.unfused = TRACES_BIAS_SUMS});
    const struct lw_module *m = &w.modules[BLOCK];
    int64_t split = 0, whole = 0;

    for (int32_t i = m->first_kernel; i < m->first_kernel + m->n_kernels; i++) {
        const struct lw_kernel *k = &w.kernels[i];
        if (k->kind != LW_KERNEL_TRAFFIC || k->bytes[LW_PRODUCTS_FORWARD] != 0 ||
            k->bytes[LW_PRODUCTS_INPUT] != 0)
            continue;
        *(k->split == LW_SPLIT_NONE ? &whole : &split) += k->bytes[LW_PRODUCTS_WEIGHT];
        assert_int_equal(k->summed, 0);
    }
    assert_int_equal(split, 2 * 32 * (3 * 32 + 64));
    assert_int_equal(whole, 2 * 32 * (32 + 32));
}

/* A block that is recomputed whole has no checkpoint of its norms. */
MODEL_TEST(a_framework_says_which_kernels_there_are)
{
    struct lw_framework f = {0};
    struct lw_strategy strategy = lw_strategy_default();
    struct lw_device device = model_device();
    const struct lw_figure yes = {1, "test"}, two = {2, "test"};

    f.norms_again = f.bias_sums = f.residual_sums = f.joined_gradients = f.context_copy =
        f.loss_in_place = f.loss_writes_gradient = yes;
    f.metric_losses = two;
    for (int full = 0; full < 2; full++) {
        struct traces_model_shape shape = {0};
        unsigned all = TRACES_BIAS_SUMS | TRACES_RESIDUAL_SUMS | TRACES_JOINED_GRADIENTS |
                       TRACES_CONTEXT_COPY | TRACES_LOSS_IN_PLACE |
                       TRACES_LOSS_WRITES_GRADIENT;
        strategy.recompute = full ? LW_RECOMPUTE_FULL : LW_RECOMPUTE_NONE;
        traces_model_take_framework(&f, &strategy, &device, &shape);
        assert_int_equal(shape.unfused, all | (full ? 0 : TRACES_NORMS_AGAIN));
        assert_int_equal(shape.metric_losses, 2);
    }
}

TEST_GROUP(NULL, NULL)

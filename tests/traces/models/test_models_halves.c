/* What the input half of a split backward frees: attention's core, and the loss's scores but their
 * gradient; and what a backward holds beside what the block keeps. */
#include "tests/lib/unit.h"

#include "shared/base/arena.h"
#include "shared/strategy/strategy.h"
#include "tests/lib/traces/model_help.h"

enum { HEADS = 4, SEQ = 16, BATCH = 2, VOCAB = 96 };

static struct traces_model_shape shape(unsigned unfused, unsigned kept, const char *dtype)
{
    return (struct traces_model_shape){.layers = 1, .hidden = 32, .heads = HEADS, .ffn = 64,
                                       .seq = SEQ, .batch = BATCH, .vocab = VOCAB, .dtype = dtype,
                                       .attention = "full", .unfused = unfused, .kept = kept};
}

MODEL_TEST(the_loss_keeps_the_gradient_of_its_scores_alone)
{
    static const struct {
        unsigned unfused, kept;
        const char *dtype;
        int64_t held, stays; /* bytes of a score */
    } cases[] = {
        {0, 0, "bf16", 4, 2},
        {TRACES_UNFUSED_LOSS, 0, "bf16", 10, 2},
        {0, TRACES_KEPT_LOSS_IN_PLACE, "f16", 6, 2},
        {0, TRACES_KEPT_CHUNKED_LOSS, "bf16", 2, 2},
        {0, 0, "f32", 4, 4},
    };
    int64_t scores = BATCH * SEQ * VOCAB;

    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct lw_strategy one = lw_strategy_default(), two = lw_strategy_default();
        struct lw_workload w = model_kept(
            "gpt-125m", NULL, shape(cases[k].unfused, cases[k].kept, cases[k].dtype));
        two.tp = 2;
        int64_t freed = (cases[k].held - cases[k].stays) * scores;
        assert_int_equal(w.dims.score_bytes, cases[k].held * scores);
        assert_int_equal(lw_workload_early_bytes(&w, &one, w.n_modules - 1), freed);
        assert_int_equal(lw_workload_early_bytes(&w, &two, w.n_modules - 1), freed / 2);
    }
}

MODEL_TEST(a_block_frees_its_scores_unless_other_parts_are_named)
{
    struct lw_strategy s = lw_strategy_default();
    struct lw_workload w = model_kept("gpt-125m", NULL, shape(0, 0, "bf16"));
    int64_t core = 5 * HEADS * SEQ * SEQ * BATCH; /* softmax, dropout and its mask */

    assert_int_equal(lw_workload_early_bytes(&w, &s, 1), core);
    s.again_parts = LW_AGAIN_BIT(LW_AGAIN_MLP);
    assert_int_equal(lw_workload_early_bytes(&w, &s, 1), 0);
}

/* Where attention's backward begins the pair's tensors have gone: the second norm's input and
 * result, 2 h, whole on each rank, and GELU's input and result, 2 f. Gradients of stored scores,
 * a s of each, are there: one where a fused softmax writes it in place of its operand, two where a
 * kernel masks the scores. With few tokens the pair has more, and none is noted. */
MODEL_TEST(gradients_of_stored_scores_are_less_what_the_pair_kept)
{
    static const struct {
        const char *attention;
        unsigned unfused;
        int64_t seq, scores;
    } cases[] = {{"full", 0, 2048, 1}, {"full", TRACES_UNFUSED_MASK, 2048, 4},
                 {"full", 0, 64, 0}, {"flash", 0, 2048, 0}};
    enum { H = 256, F = 640, A = 8, ITEM = 4, SAMPLES = 2 };

    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const struct traces_model_shape s = {.batch = SAMPLES, .seq = cases[k].seq, .layers = 2,
                                             .hidden = H, .heads = A, .ffn = F, .dtype = "f32",
                                             .attention = cases[k].attention, .no_dropout = true,
                                             .unfused = cases[k].unfused};
        struct lw_workload w = model_kept("gpt-125m", NULL, s);
        int64_t tokens = SAMPLES * cases[k].seq, of_scores = cases[k].scores * A * cases[k].seq;
        bool noted = cases[k].scores > 0;
        assert_int_equal(w.dims.score_grad_bytes,
                         noted ? ITEM * tokens * (of_scores - 2 * F) : 0);
        assert_int_equal(w.dims.pair_kept_whole, noted ? ITEM * tokens * 2 * H : 0);
    }
}

/* Gradients of activations where a block's backward has most of them: of its result, h, and of its
 * pair: the second product's operand, f; of a gated pair two of its input in place of the operand,
 * 2 f, unless the kernel writes them over its input, f; a frozen product keeps no operand, which
 * leaves one more. None of experts. */
MODEL_TEST(gradients_of_a_pair_are_those_of_its_widest_moment)
{
    static const struct {
        const char *model;
        unsigned kept;
        int64_t lora, pairs;
    } cases[] = {{"gpt-125m", 0, 0, 1}, {"llama-3-8b", 0, 0, 2},
                 {"llama-3-8b", TRACES_KEPT_FUSED_HEAD, 0, 1}, {"llama-3-8b", 0, 8, 3}};

    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const struct traces_model_shape s = {.batch = 2, .seq = 64, .layers = 2, .hidden = 256,
                                             .heads = 8, .ffn = 640,
                                             .dtype = "bf16", .kept = cases[k].kept,
                                             .lora = cases[k].lora};
        struct lw_workload w = model_kept(cases[k].model, NULL, s);
        assert_int_equal(w.dims.whole_grad_bytes, 2 * 2 * 64 * 256);
        assert_int_equal(w.dims.pair_grad_bytes, cases[k].pairs * 2 * 2 * 64 * 640);
    }
    const struct traces_model_shape one = {.layers = 1};
    struct lw_workload w = model_kept("mixtral-8x7b", NULL, one);
    assert_int_equal(w.dims.pair_grad_bytes, 0);
}

/* T5 of an encoder and a decoder: parameters, what each module keeps, and what is refused. */
#include "tests/lib/unit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analysis/evidence/step_flops.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/plans/plan_words.h"
#include "tests/lib/files/says.h"
#include "tests/lib/prng.h"
#include "tests/lib/traces/model_help.h"

TEST_GROUP(fixture_open, fixture_close)

enum { LAYERS = 3, HIDDEN = 256, HEADS = 4, SEQ = 64, OWN = 16, BATCH = 2, VOCAB = 512 };
enum { ENCODER = 1, NORM = 1 + LAYERS, EMBEDDING, DECODER, HEAD = DECODER + LAYERS };

static struct traces_model_shape small(void)
{
    return (struct traces_model_shape){.layers = LAYERS, .hidden = HIDDEN, .heads = HEADS,
                                       .seq = SEQ, .decoder_seq = OWN, .batch = BATCH,
                                       .vocab = VOCAB};
}

/* Of a block of the encoder 12 h^2 and 13 h, of the decoder 4 h^2 and 6 h more: queries, keys and
 * values, the projection with their biases, and a norm. Two last norms, the embedding, which the
 * head shares, 512 positions, and the head's bias. */
MODEL_TEST(parameters_are_those_of_both_sides)
{
    int64_t h = 768, v = 29096;
    struct lw_workload w = MODEL("megatron-t5", 0);
    int64_t encoder = 12 * h * h + 13 * h, decoder = 16 * h * h + 19 * h;

    assert_int_equal(lw_workload_numel(&w, false),
                     12 * (encoder + decoder) + 4 * h + v * h + 512 * h + v);
    assert_int_equal(w.n_modules, 12 + 12 + 4);
}

/* Both embeddings are parameters 0 and 1, and the head is parameter 0. */
MODEL_TEST(the_embedding_is_one)
{
    struct lw_workload w = MODEL("megatron-t5", 0);
    int tied[2] = {0};

    for (int32_t i = 0; i < w.n_params; i++)
        if (w.params[i].tied >= 0)
            tied[w.params[i].tied]++;
    assert_int_equal(tied[0], 2);
    assert_int_equal(tied[1], 1);
}

/* 34 s b h and 5 of a score on each side; the cross attention has 11 s b h of its own tokens (the
 * norm's input and output, queries, the result and a mask), 4 s b h of the encoder's (keys and
 * values) and 5 of each pair of tokens. */
MODEL_TEST(a_decoder_block_keeps_its_own_tokens_and_the_encoders_keys)
{
    struct lw_workload w = model_kept("megatron-t5", NULL, small());
    int64_t x = BATCH * SEQ * HIDDEN, y = BATCH * OWN * HIDDEN, pairs = BATCH * HEADS * SEQ * OWN;
    int64_t cross = 9 * y + 4 * x + 5 * pairs;

    assert_int_equal(w.modules[ENCODER].kept_bytes[LW_RECOMPUTE_NONE],
                     34 * x + 5 * BATCH * HEADS * SEQ * SEQ);
    assert_int_equal(w.modules[NORM].kept_bytes[LW_RECOMPUTE_NONE], 4 * x);
    assert_int_equal(w.modules[DECODER].kept_bytes[LW_RECOMPUTE_NONE],
                     34 * y + 5 * BATCH * HEADS * OWN * OWN + cross);
    assert_int_equal(w.modules[DECODER].kept_bytes[LW_RECOMPUTE_SELECTIVE],
                     34 * y + 9 * y + 4 * x);
    assert_int_equal(w.modules[DECODER].kept_bytes[LW_RECOMPUTE_FULL], 2 * y);
    assert_int_equal(w.modules[HEAD].kept_bytes[LW_RECOMPUTE_NONE],
                     4 * y + 4 * BATCH * OWN * VOCAB);
}

/* Fused attention keeps one f32 for each row of scores. */
MODEL_TEST(fused_attention_keeps_no_scores)
{
    struct traces_model_shape s = small();
    s.attention = "flash";
    struct lw_workload w = model_kept("megatron-t5", NULL, s);
    int64_t x = BATCH * SEQ * HIDDEN, y = BATCH * OWN * HIDDEN, rows = BATCH * OWN * HEADS;

    assert_int_equal(w.modules[DECODER].kept_bytes[LW_RECOMPUTE_NONE],
                     34 * y + 9 * y + 4 * x + 2 * 4 * rows);
}

/* Forward of a block: 2 flops of each multiply-add of the products of its own rows and of the
 * encoder's, and of both attentions; random sizes. */
MODEL_TEST(flops_are_those_of_both_sequences)
{
    struct prng r = prng_start(__func__);

    for (int i = 0; i < 20; i++) {
        int64_t h = 64 * prng_in(&r, 1, 4), e = prng_in(&r, 1, 90), d = prng_in(&r, 1, 90);
        int64_t b = prng_in(&r, 1, 3);
        struct lw_workload w = MODEL("megatron-t5", .layers = 1, .hidden = h, .heads = 4,
                                     .seq = e, .decoder_seq = d, .batch = b, .vocab = 128);
        int64_t own = 24 * h * h * b, pair = 4 * h * b;
        assert_int_equal(w.modules[1].forward_flops, own * e + pair * e * e);
        assert_int_equal(w.modules[4].forward_flops,
                         own * d + pair * d * d + 4 * h * h * b * d + 4 * h * h * b * e +
                             pair * d * e);
        assert_int_equal(w.attention_flops, 4 * h * (e * e + d * e) + 2 * h * d * d);
        assert_int_equal(w.score_flops, 4 * h * (e * e + d * d + d * e));
    }
}

/* Model FLOPs of a step on 2 ranks, 3 times the forward of all products: each side's of its own
 * tokens, keys and values of the cross attention of the encoder's, the decoder's own scores half,
 * the head of the decoder's. Hardware adds the blocks, or attention alone; the count of `flops`
 * model-causal and hardware-causal of measured runs is the same. Random sizes. */
MODEL_TEST(a_step_counts_each_product_with_the_tokens_it_sees)
{
    static const char *const words[] = {"dp 2", "dp 2 recompute full", "dp 2 recompute selective"};
    struct prng r = prng_start(__func__);

    for (int i = 0; i < 30; i++) {
        int64_t h = 64 * prng_in(&r, 1, 4), e = prng_in(&r, 1, 90), d = prng_in(&r, 1, 90);
        int64_t layers = prng_in(&r, 1, 3), b = prng_in(&r, 1, 3), v = 64 * prng_in(&r, 1, 9);
        struct lw_workload w = MODEL("megatron-t5", .layers = (int32_t)layers, .hidden = h,
                                     .heads = 4, .seq = e, .decoder_seq = d, .batch = b,
                                     .vocab = v);
        int64_t attention = layers * (4 * h * e * e + 2 * h * d * d + 4 * h * d * e);
        int64_t blocks = layers * (24 * h * h * e + 28 * h * h * d + 4 * h * h * e) + attention;
        int64_t forward = blocks + 2 * h * v * d;
        int64_t again[] = {0, blocks, attention};

        w.from.model.decoder_seq = d; /* as a workload says it that is made on request */
        for (int k = 0; k < 3; k++) {
            struct lw_plan p = plan_of_words(&w, words[k]);
            assert_int_equal(p.yield.tokens, 2 * b * e);
            assert_true(p.yield.model_flops == (double)(2 * b * 3 * forward));
            assert_true(fabs(p.yield.hardware_flops / (double)(2 * b * (3 * forward + again[k])) -
                             1) < 1e-12);
            assert_true(p.yield.model_flops == lw_step_flops(&p, &w, false, true));
            assert_true(fabs(lw_step_flops(&p, &w, true, true) / p.yield.hardware_flops - 1) <
                        1e-12);
            lw_plan_free(&p);
        }
    }
}

/* Of a side that is frozen the products of its share have no gradients of weights. */
MODEL_TEST(frozen_parameters_spare_their_share_of_products)
{
    struct lw_workload w = model_kept("megatron-t5", NULL, small());
    double all = (double)lw_workload_numel(&w, false), attention = (double)w.attention_flops;
    struct lw_err err = {0};

    w.from.model.decoder_seq = OWN;
    struct lw_plan p = plan_of_words(&w, "dp 2");
    double step = p.yield.model_flops, products = step / 3 - 2 * BATCH * attention;
    for (int32_t i = 0; i < w.n_params; i++)
        if (w.params[i].module >= DECODER && w.params[i].module < HEAD)
            w.params[i].trainable = false;
    assert_ok(lw_plan_count_yield(&p, &w, &err), err);
    double share = 1 - (double)lw_workload_numel(&w, true) / all;

    assert_true(share > 0.4 && share < 0.6);
    assert_true(fabs((step - p.yield.model_flops) / (share * products) - 1) < 1e-12);
    assert_true(fabs(lw_step_flops(&p, &w, false, true) / p.yield.model_flops - 1) < 1e-12);
    lw_plan_free(&p);
}

/* By name and by file: 4 samples of 512 and 128 tokens, 12 blocks a side, h 768, 29,096 words. */
TEST(sim_counts_both_sequences)
{
    static const char run[] = "sim -w %s -c dgx-a100 --dp 1 --no-db --format json";
    const double h = 768, e = 512, d = 128, v = 29096;
    const double blocks =
        12 * (28 * h * h * (e + d) + 4 * h * e * e + 2 * h * d * d + 4 * h * d * e);
    const double step = 4 * 3 * (blocks + 2 * h * v * d);
    char line[200];

    expect("model megatron-t5 --device dgx-a100 -o t5.json", 0, "");
    for (int k = 0; k < 2; k++) {
        snprintf(line, sizeof line, run, k ? "t5.json" : "megatron-t5");
        const char *out = lapwing(line, NULL);
        assert_true(number_after(out, "\"model_flops_per_step\": ") == step);
        assert_true(number_after(out, "\"hardware_flops_per_step\": ") == step);
        assert_true(number_after(out, "\"tokens_per_step\": ") == 4 * e);
    }
}

/* Gradients of a block's result and of its pair are those of the longer side, whichever it is. */
MODEL_TEST(gradients_are_those_of_the_longer_side)
{
    struct prng r = prng_start(__func__);

    for (int i = 0; i < 20; i++) {
        int64_t h = 64 * prng_in(&r, 1, 4), f = 64 * prng_in(&r, 1, 9), b = prng_in(&r, 1, 3);
        int64_t e = prng_in(&r, 1, 90), d = prng_in(&r, 1, 90), longer = e > d ? e : d;
        struct lw_workload w = MODEL("megatron-t5", .layers = 1, .hidden = h, .heads = 4, .ffn = f,
                                     .seq = e, .decoder_seq = d, .batch = b, .vocab = 128);
        assert_int_equal(w.dims.whole_grad_bytes, 2 * b * longer * h);
        assert_int_equal(w.dims.pair_grad_bytes, 2 * b * longer * f);
    }
}

/* TransformerEngine's mask of a sample's padding: a byte for each pair of tokens, whole on each
 * rank, of the encoder's scores and of the cross attention's, and of no causal ones. */
MODEL_TEST(masks_of_padding_are_kept_with_stored_scores)
{
    struct traces_model_shape s = small();
    struct lw_workload plain = model_kept("megatron-t5", NULL, s);
    s.fills_padding = true;
    struct lw_workload filled = model_kept("megatron-t5", NULL, s);
    static const struct {
        int module;
        int64_t mask;
    } cases[] = {{ENCODER, BATCH * SEQ * SEQ}, {DECODER, BATCH * SEQ * OWN}, {HEAD, 0}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct lw_module *m = &filled.modules[cases[i].module];
        const struct lw_module *p = &plain.modules[cases[i].module];
        assert_int_equal(m->kept_bytes[LW_RECOMPUTE_NONE] - p->kept_bytes[LW_RECOMPUTE_NONE],
                         cases[i].mask);
        assert_int_equal(m->whole_kept_bytes[LW_RECOMPUTE_NONE] -
                             p->whole_kept_bytes[LW_RECOMPUTE_NONE], cases[i].mask);
        assert_int_equal(m->kept_bytes[LW_RECOMPUTE_SELECTIVE],
                         p->kept_bytes[LW_RECOMPUTE_SELECTIVE]);
    }
    s.attention = "flash";
    struct lw_workload fused = model_kept("megatron-t5", NULL, s);
    s.fills_padding = false;
    struct lw_workload same = model_kept("megatron-t5", NULL, s);
    assert_int_equal(fused.modules[ENCODER].kept_bytes[LW_RECOMPUTE_NONE],
                     same.modules[ENCODER].kept_bytes[LW_RECOMPUTE_NONE]);
}

/* A batch has masks of pairs where the loss's module keeps them and blocks are no
 * TransformerEngine's. */
MODEL_TEST(masks_of_pairs_are_the_batchs)
{
    struct traces_model_shape s = small();
    struct lw_workload none = model_kept("megatron-t5", NULL, s);
    s.mask_in_batch = true;
    struct lw_workload pairs = model_kept("megatron-t5", NULL, s);
    s.fused_norms = true;
    struct lw_workload engine = model_kept("megatron-t5", NULL, s);
    int64_t bytes = none.modules[HEAD].kept_bytes[LW_RECOMPUTE_NONE];

    assert_int_equal(pairs.modules[HEAD].kept_bytes[LW_RECOMPUTE_NONE],
                     bytes + BATCH * (SEQ * SEQ + SEQ * OWN + OWN * OWN));
    assert_int_equal(engine.modules[HEAD].kept_bytes[LW_RECOMPUTE_NONE], bytes);
}

/* By name and by file; a stage would pass two values on. */
TEST(pipelines_and_context_groups_are_refused)
{
    expect("model megatron-t5 --device dgx-a100 --layers 2 --decoder-seq 64 -o t5.json", 0, "");
    expect("plan -w megatron-t5 --pp 2 -c dgx-a100", 1, "choose --pp 1");
    expect("plan -w t5.json --pp 2 -c dgx-a100", 1, "choose --pp 1");
    expect("plan -w megatron-t5 --cp 2 -c dgx-a100", 1, "leave --cp out");
    expect("plan -w megatron-t5 --positions 512 --decoder-seq 600 -c dgx-a100", 1,
           "allowed: 600, the decoder's sequence");
    expect("plan -w gpt2 --decoder-seq 64 -c dgx-a100", 1,
           "--decoder-seq does not apply to model gpt2");
    expect("plan -w t5.json --tp 2 --sequence-parallel on -c dgx-a100", 0, "");
}

/* GPT: parameters as registered, work and kept activations by the published formulas. */
#include "tests/lib/unit.h"

#include <string.h>

#include "shared/base/arena.h"
#include "shared/workload/buffer.h"
#include "tests/lib/traces/model_help.h"

/* 12 h^2 + 13 h per block, both embeddings, the last norm; the head is the token embedding. */
static int64_t formula(int64_t l, int64_t h, int64_t vocab, int64_t positions)
{
    return l * (12 * h * h + 13 * h) + (vocab + positions) * h + 2 * h;
}

MODEL_TEST(parameter_counts_are_the_published_ones)
{
    static const struct {
        const char *name;
        int64_t l, h, vocab, positions, count;
    } cases[] = {
        {"gpt2", 12, 768, 50257, 1024, INT64_C(124439808)},
        {"gpt2-medium", 24, 1024, 50257, 1024, INT64_C(354823168)},
        {"gpt2-large", 36, 1280, 50257, 1024, INT64_C(774030080)},
        {"gpt2-xl", 48, 1600, 50257, 1024, INT64_C(1557611200)},
        {"gpt-125m", 12, 768, 51200, 2048, INT64_C(125950464)},
        {"gpt-13b", 40, 5120, 51200, 2048, INT64_C(12858214400)},
        {"gpt-175b", 96, 12288, 51200, 2048, INT64_C(174615846912)},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lw_workload w = MODEL(cases[i].name, 0);
        assert_int_equal(lw_workload_numel(&w, false), cases[i].count);
        assert_int_equal(formula(cases[i].l, cases[i].h, cases[i].vocab, cases[i].positions),
                         cases[i].count);
        assert_int_equal(w.n_modules, cases[i].l + 2);
    }
}

MODEL_TEST(parameters_stand_in_registration_order_with_their_splits)
{
    static const struct {
        const char *name;
        int64_t numel;
        enum lw_tp_split split;
    } first[] = {
        {"transformer.wte.weight", 50257 * 768, LW_TP_VOCAB},
        {"transformer.wpe.weight", 1024 * 768, LW_TP_REPLICATED},
        {"transformer.h.0.ln_1.weight", 768, LW_TP_REPLICATED},
        {"transformer.h.0.ln_1.bias", 768, LW_TP_REPLICATED},
        {"transformer.h.0.attn.c_attn.weight", 768 * 2304, LW_TP_COLUMN},
        {"transformer.h.0.attn.c_attn.bias", 2304, LW_TP_COLUMN},
        {"transformer.h.0.attn.c_proj.weight", 768 * 768, LW_TP_ROW},
        {"transformer.h.0.attn.c_proj.bias", 768, LW_TP_REPLICATED},
        {"transformer.h.0.ln_2.weight", 768, LW_TP_REPLICATED},
        {"transformer.h.0.ln_2.bias", 768, LW_TP_REPLICATED},
        {"transformer.h.0.mlp.c_fc.weight", 768 * 3072, LW_TP_COLUMN},
        {"transformer.h.0.mlp.c_fc.bias", 3072, LW_TP_COLUMN},
        {"transformer.h.0.mlp.c_proj.weight", 3072 * 768, LW_TP_ROW},
        {"transformer.h.0.mlp.c_proj.bias", 768, LW_TP_REPLICATED},
        {"transformer.h.1.ln_1.weight", 768, LW_TP_REPLICATED},
    };
    struct lw_workload w = MODEL("gpt2", 0);
    assert_int_equal(w.n_params, 2 + 12 * 12 + 3);
    for (int32_t i = 0; i < (int32_t)(sizeof first / sizeof *first); i++) {
        assert_string_equal(w.params[i].name, first[i].name);
        assert_int_equal(w.params[i].numel, first[i].numel);
        assert_int_equal(w.params[i].tp_split, first[i].split);
    }
    assert_string_equal(w.params[146].name, "transformer.ln_f.weight");
    assert_string_equal(w.params[148].name, "lm_head.weight");
    assert_int_equal(w.params[148].tied, 0);
    assert_int_equal(w.params[148].module, 13);
    assert_int_equal(w.n_buffers, 12); /* causal masks */
    assert_string_equal(w.buffers[11].name, "transformer.h.11.attn.bias");
    assert_int_equal(w.buffers[11].numel, 1024 * 1024);
}

/* Gradients are ready kernel by kernel inside a block: the reverse of registration, since GPT
 * registers in the order of use; the tied embedding last but for the positions beside it. */
MODEL_TEST(gradients_become_ready_within_their_block)
{
    struct lw_workload w = MODEL("gpt2", .layers = 2);
    lw_ps before = w.modules[3].backward_input_ps + w.modules[3].backward_weight_ps;
    lw_ps block = w.modules[2].backward_input_ps + w.modules[2].backward_weight_ps;
    assert_int_equal(w.n_ready, 2 + 2 * 12 + 2);
    assert_int_equal(w.ready_order[0], 27); /* ln_f.bias, after the head's product */
    assert_int_equal(w.ready_order[1], 26);
    for (int32_t k = 2; k < 26; k++)
        assert_int_equal(w.ready_order[k], 27 - k);
    assert_true(w.params[25].ready_ps > before); /* h.1.mlp.c_proj.bias */
    assert_true(w.params[25].ready_ps < w.params[22].ready_ps);
    assert_true(w.params[22].ready_ps < before + block);
    assert_int_equal(w.params[14].ready_ps, before + block); /* h.1.ln_1.weight ends the block */
    assert_int_equal(w.params[0].ready_ps, lw_workload_backward_ps(&w));
}

/* Narayanan et al., SC'21: 24 B s h^2 + 4 B s^2 h flops of a block's forward, 2 B s h V of the
 * scores. Korthikanti et al., arXiv 2205.05198, equations 1 and 2 and section 5, at 2 bytes:
 * s b h (34 + 5 a s / h), of which s b h 10 are whole; 34 s b h; 2 s b h. */
MODEL_TEST(work_and_kept_bytes_are_those_of_the_papers)
{
    int64_t s = 2048, b = 4, h = 12288, a = 96, vocab = 51200, sbh = s * b * h;
    struct lw_workload w = MODEL("gpt-175b", .batch = 4, .layers = 3);
    const struct lw_module *m = &w.modules[2], *head = &w.modules[4];
    assert_int_equal(m->forward_flops, 24 * b * s * h * h + 4 * b * s * s * h);
    assert_int_equal(head->forward_flops, 2 * b * s * h * vocab);
    assert_int_equal(m->kept_bytes[LW_RECOMPUTE_NONE], 34 * sbh + 5 * a * s * s * b);
    assert_int_equal(m->kept_bytes[LW_RECOMPUTE_SELECTIVE], 34 * sbh);
    assert_int_equal(m->kept_bytes[LW_RECOMPUTE_FULL], 2 * sbh);
    assert_int_equal(m->whole_kept_bytes[LW_RECOMPUTE_NONE], 10 * sbh);
    assert_int_equal(m->whole_kept_bytes[LW_RECOMPUTE_FULL], 2 * sbh);
    /* section 4.3: the last norm 2 s b h, its output 2 s b h, scores in f32 4 s b v */
    assert_int_equal(head->kept_bytes[LW_RECOMPUTE_FULL], 4 * sbh + 4 * s * b * vocab);
    assert_int_equal(m->tp_calls, 2); /* Shoeybi et al.: two sums of b s h in each direction */
    assert_int_equal(m->tp_forward_bytes, 2 * 2 * sbh);
    assert_int_equal(m->tp_backward_bytes, 2 * 2 * sbh);
    assert_int_equal(m->output_bytes, 2 * sbh);
}

MODEL_TEST(flash_attention_keeps_no_scores_and_does_nothing_again)
{
    int64_t s = 2048, h = 768, a = 12, sbh = s * h;
    struct lw_workload full = MODEL("gpt-125m", 0);
    struct lw_workload flash = MODEL("gpt-125m", .attention = "flash");
    const struct lw_module *m = &flash.modules[1], *f = &full.modules[1];
    assert_int_equal(m->kept_bytes[LW_RECOMPUTE_NONE], 34 * sbh + 4 * a * s);
    assert_int_equal(m->kept_bytes[LW_RECOMPUTE_SELECTIVE], m->kept_bytes[LW_RECOMPUTE_NONE]);
    assert_int_equal(m->selective_ps, 0);
    assert_int_equal(m->forward_flops, f->forward_flops);
    assert_true(m->forward_bytes < f->forward_bytes);
    assert_true(f->selective_ps > 0 && f->selective_ps < f->forward_ps);
}

/* 10^12 flop/s at 0.5 and 10^9 B/s, h 2, heads 1, ffn 4, sequence 3, batch 1, f32; n = 3 tokens.
 * Every kernel is bound by memory: bytes are ns.
 *   norm        2 x = 2 * 24 = 48
 *   c_attn      x + 12 weights + 3 x = 24 + 48 + 72 = 144
 *   scores      q + k + s = 24 + 24 + 36 = 84, softmax 72, dropout 72 + 9 = 81, values 84
 *   c_proj      24 + 16 + 24 = 64;  residual 3 x + mask = 72 + 6 = 78
 *   norm 48;  c_fc 24 + 32 + 48 = 104;  gelu 96;  c_proj 48 + 32 + 24 = 104;  residual 78
 * Sum 48 + 144 + 321 + 64 + 78 + 48 + 104 + 96 + 104 + 78 = 1085. */
MODEL_TEST(a_block_takes_the_sum_of_its_kernels)
{
    struct lw_workload w = MODEL("gpt2", .batch = 1, .layers = 1, .hidden = 2, .heads = 1, .ffn = 4,
                                 .seq = 3, .vocab = 5);
    const struct lw_module *m = &w.modules[1];
    assert_int_equal(m->forward_bytes, 1085);
    assert_int_equal(m->forward_ps, 1085 * LW_PS_PER_NS);
    assert_int_equal(m->selective_ps, 321 * LW_PS_PER_NS);
    assert_int_equal(m->whole_forward_ps, (48 + 78 + 48 + 78) * LW_PS_PER_NS);
    /* by weight: the four products once more, 144 + 64 + 104 + 104, and 2 x for each norm */
    assert_int_equal(m->backward_weight_ps, (416 + 2 * 48) * LW_PS_PER_NS);
    /* by input: norms 4 x = 96 each; products 416; scores 2 * 84 twice, softmax 3 s = 108, dropout
     * 81; gelu 3 * 48 = 144; residuals 2 x + mask = 54 each */
    assert_int_equal(m->backward_input_ps, (192 + 416 + 336 + 108 + 81 + 144 + 108) * LW_PS_PER_NS);
}

MODEL_TEST(optimizer_moves_masters_and_states)
{
    struct lw_workload w = MODEL("gpt-125m", 0);
    /* bf16 gradient 2 and weight 2, f32 master and both moments read and written: 28 B at 1 GB/s */
    assert_int_equal(w.optimizer, LW_OPTIMIZER_ADAM);
    assert_int_equal(w.optimizer_ps, INT64_C(125950464) * 28 * LW_PS_PER_NS);
}

/* In bf16: f32 gradients 4 in place of 2, clipping 4 + 8, a copy that reads the master once more 4.
 * Of all gradients: zeros 4, a norm 4, a factor 8. Gradients of 2 bytes are cast for clipping and
 * for a loss scale, 2 + 4, and the scale is a factor of its own, 8. */
MODEL_TEST(a_step_passes_over_gradients)
{
    static const struct {
        unsigned step;
        int64_t grad_item, updated, held;
    } cases[] = {
        {TRACES_STEP_ZERO | TRACES_STEP_CHECK | TRACES_STEP_SCALE | TRACES_STEP_CLIP |
             TRACES_STEP_COPY, 4, 28 + 2 + 12 + 4, 16},
        {TRACES_STEP_ZERO | TRACES_STEP_CLIP, 0, 28 + 2 + 12 + 6, 2},
        {TRACES_STEP_UNSCALE | TRACES_STEP_CLIP, 0, 28 + 2 + 12 + 6 + 8, 0},
        {0, 4, 28 + 2, 0},
    };

    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct lw_workload w = MODEL("gpt-125m", .step = cases[k].step, .grad_item =
                                     cases[k].grad_item);
        assert_int_equal(w.optimizer_ps, 125950464 * cases[k].updated * LW_PS_PER_NS);
        assert_int_equal(w.gradients_ps, 125950464 * cases[k].held * LW_PS_PER_NS);
    }
}

/* Adam by a kernel for each of its steps: x *= c, m += c (g - m), v *= c, v += c g g, d = sqrt(v),
 * d /= c, d += c, x -= c m / d, 2 + 3 + 2 + 3 + 2 + 2 + 2 + 4 accesses in place of 7. SGD has
 * none. */
MODEL_TEST(adam_over_lists_reads_and_writes_each_element_twenty_times)
{
    static const struct {
        const char *dtype, *optimizer;
        int64_t state, bytes;
    } cases[] = {{"f32", "adam", 0, 20 * 4},
                 {"bf16", "adam", 0, 2 + 2 * 4 * 3 + 2 + 13 * 4}, /* f32 masters */
                 {"bf16", "adam", 4, 20 * 2},                     /* no masters */
                 {"f32", "momentum", 0, 4 + 2 * 4 * 2},
                 {"f32", "sgd", 0, 4 + 2 * 4}};

    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct lw_workload w = MODEL("gpt-125m", .layers = 1, .dtype = cases[k].dtype,
                                     .optimizer = cases[k].optimizer,
                                     .state_bytes = cases[k].state, .step = TRACES_STEP_FOREACH);
        assert_int_equal(w.step_traffic.update, cases[k].bytes);
    }
}

MODEL_TEST(a_longer_sequence_lengthens_the_position_table)
{
    struct lw_workload w = MODEL("gpt2", .seq = 2048);
    struct lw_workload shorter = MODEL("gpt2", .seq = 512);
    assert_int_equal(w.params[1].numel, 2048 * 768);
    assert_int_equal(shorter.params[1].numel, 1024 * 768);
}

static bool has_note_ending(const struct lw_workload *w, const char *end)
{
    for (int32_t i = 0; i < w->n_notes; i++) {
        size_t n = strlen(w->notes[i]), m = strlen(end);
        if (n >= m && strcmp(w->notes[i] + n - m, end) == 0)
            return true;
    }
    return false;
}

/* Adam's two states of 16 bits and no master: the gradient is read, the weight and 4 bytes of
 * states are read and written, 2 of a momentum, none of SGD. Of f32 weights there is no such form.
 * 12 bytes are the f32 master and both states. */
MODEL_TEST(states_of_16_bits_move_their_own_bytes)
{
    static const struct {
        const char *dtype, *optimizer;
        int64_t state, bytes;
        const char *note; /* what it ends with */
    } cases[] = {{"bf16", "adam", 4, 2 + 2 * (2 + 4), "14 bytes of memory traffic per element, "
                                                      "without masters"},
                 {"bf16", "adam", 8, 2 + 2 * (2 + 8), "per element, without masters"},
                 {"bf16", "adam", 12, 2 + 2 * 4 * 3 + 2, "per element, on f32 masters"},
                 {"bf16", "adam", 0, 2 + 2 * 4 * 3 + 2, "per element, on f32 masters"},
                 {"f32", "adam", 4, 4 + 2 * 4 * 3, "per element"},
                 {"f32", "momentum", 4, 4 + 2 * 4 * 2, "per element"},
                 {"bf16", "momentum", 4, 2 + 2 * (2 + 2), "per element, without masters"},
                 {"bf16", "momentum", 12, 2 + 2 * 4 * 2 + 2, "per element, on f32 masters"},
                 {"bf16", "sgd", 4, 2 + 2 * 2, "per element, without masters"},
                 {"bf16", "sgd", 0, 2 + 2 * 4 + 2, "per element, on f32 masters"},
                 {"bf16", "adam", 16, 2 + 2 * 16 + 2, "per element, on f32 masters"}};

    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct lw_workload w = MODEL("gpt-125m", .layers = 1, .dtype = cases[k].dtype,
                                     .optimizer = cases[k].optimizer,
                                     .state_bytes = cases[k].state);
        assert_int_equal(w.step_traffic.update, cases[k].bytes);
        assert_true(has_note_ending(&w, cases[k].note));
    }
    struct lw_workload w = MODEL("gpt-125m", .layers = 1, .dtype = "bf16", .state_bytes = 4,
                                 .step = TRACES_STEP_CLIP | TRACES_STEP_COPY);
    assert_int_equal(w.step_traffic.update, 14 + 2 + 12 + 6); /* gradients are cast, clipped */
}

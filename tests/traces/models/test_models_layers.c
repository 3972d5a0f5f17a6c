/* Linear layers of a block, as a framework's host has them: each model's are those of Megatron-Core
 * (NVIDIA/Megatron-LM@d98e8a64, megatron/core/models/gpt/gpt_layer_specs.py, models/hybrid/
 * hybrid_layer_specs.py, transformer/moe/moe_layer.py, shared_experts.py and experts.py,
 * transformer/multi_token_prediction.py): linear_qkv, linear_proj, linear_fc1 and linear_fc2; of
 * latent attention linear_q_down_proj, linear_q_up_proj, linear_kv_down_proj, linear_kv_up_proj and
 * linear_proj; of Mamba in_proj and out_proj; eh_proj. */
#include "tests/lib/unit.h"

#include <string.h>

#include "tests/lib/traces/model_help.h"

/* Times that no kernel of a block exceeds on the device of the tests. */
static const lw_ps forward_ps = 1000 * LW_PS_PER_S, backward_ps = 3000 * LW_PS_PER_S;

static const struct lw_module *module_of(const struct lw_workload *w, const char *name)
{
    for (int32_t i = 0; i < w->n_modules; i++)
        if (strcmp(w->modules[i].name, name) == 0)
            return &w->modules[i];
    fail_msg("no module '%s'", name);
    return NULL;
}

static struct lw_workload with_layers(const char *name, struct traces_model_shape shape,
                                      bool joined)
{
    shape.batch = 1;
    shape.seq = 128;
    shape.rates = (struct lw_kernel_rates){.host_layer_ps = {{forward_ps, backward_ps}},
                                           .joined_layers = joined};
    shape.dtype = "bf16";
    return model_kept(name, NULL, shape);
}

/* apart: of a framework with a layer for each product. */
MODEL_TEST(a_block_has_the_layers_of_megatron)
{
    const struct {
        const char *model, *module;
        int64_t mtp, joined, apart;
    } cases[] = {
        {"llama-3-8b", "model.layers.0", 0, 2 + 2, 4 + 3},
        {"nemotron-4-15b", "model.layers.0", 0, 2 + 2, 4 + 2},
        {"gpt2", "transformer.h.0", 0, 2 + 2, 2 + 2},
        {"phi-2", "model.layers.0", 0, 2 + 2, 4 + 2},
        {"bert-base", "encoder.layer.0", 0, 2 + 2, 4 + 2},
        {"deepseek-v3", "model.layers.0", 0, 5 + 2, 5 + 3},
        {"deepseek-v3", "model.layers.3", 0, 5 + 2 + 2, 5 + 2 + 3},
        {"deepseek-v3", "model.layers.61", 1, 1 + 5 + 2 + 2, 1 + 5 + 2 + 3},
        {"qwen3-30b-a3b", "model.layers.0", 0, 2 + 2, 4 + 2},
        {"nemotron-h-8b", "backbone.layers.0", 0, 2, 2},
        {"nemotron-h-8b", "backbone.layers.1", 0, 2, 2},
        {"nemotron-h-8b", "backbone.layers.7", 0, 2, 4},
        {"nemotron-3-nano", "backbone.layers.1", 0, 2 + 2, 2 + 2},
        {"nemotron-3-super", "backbone.layers.1", 0, 2 + 2 + 2, 2 + 2 + 2},
        {"nemotron-3-super", "mtp.layers.0", 1, 1 + 2 + 6, 1 + 4 + 6},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int joined = 0; joined < 2; joined++) {
            const int64_t n = joined ? cases[i].joined : cases[i].apart;
            struct lw_workload w = with_layers(
                cases[i].model, (struct traces_model_shape){.mtp_layers = cases[i].mtp}, joined);
            const struct lw_module *m = module_of(&w, cases[i].module);

            if (m->forward_ps != n * forward_ps || lw_module_backward(m) != n * backward_ps)
                fail_msg("%s, %s: %g layers forward, %g backward, expected %d", cases[i].model,
                         cases[i].module, (double)m->forward_ps / (double)forward_ps,
                         (double)lw_module_backward(m) / (double)backward_ps, (int)n);
        }
}

/* With adapters of two of its products a block of frozen weights has the forward of its 4 layers in
 * place of 4 launches; its backward, and adapters, are launches as without figures of layers. */
MODEL_TEST(frozen_weights_and_adapters_have_no_backward_of_a_layer)
{
    const lw_ps op = 2000 * LW_PS_PER_S;
    lw_ps times[2][2];

    for (int layers = 0; layers < 2; layers++) {
        struct lw_workload w = model_kept(
            "llama-3-8b", NULL,
            (struct traces_model_shape){
                .batch = 1, .seq = 128, .layers = 2, .lora = 16, .dtype = "bf16",
                .rates = {.host_op_ps = op, .joined_layers = true,
                          .host_layer_ps = {{layers * forward_ps, layers * backward_ps}}}});
        const struct lw_module *m = module_of(&w, "model.layers.0");
        times[layers][0] = m->forward_ps;
        times[layers][1] = lw_module_backward(m);
    }
    assert_int_equal(times[1][0], times[0][0] + 4 * (forward_ps - op));
    assert_int_equal(times[1][1], times[0][1]);
    assert_int_equal(times[0][1] % op, 0);
}

/* What frameworks do that the tables of runs do not say, from their code and published settings:
 *
 *   nanotron       huggingface/nanotron@67c5ebb6: models/llama.py fuses norms and rotation, not the
 *                  loss; optim/gradient_accumulator.py adds all gradients to f32 sums after the
 *                  backward; its collectives record streams (run_memory.c)
 *   MLPerf         mlcommons/training_results_v5.0@0fdc28f, NVIDIA/benchmarks/llama31_405b and
 *                  GigaComputing/benchmarks/llama2_70b_lora: use_distributed_optimizer,
 *                  grad_reduce_in_fp32 off, bias_activation_fusion, fp8_params;
 *                  FP8_ACT of most LoRA scripts keeps the gated pair's input in 8 bits
 *   NeMo           NVIDIA/dgxc-benchmarking@v24.11.1, llama3.1 and nemotron, *.yaml and
 *                  configure.sh: distributed_fused_adam, grad_sync_dtype bf16, fp8_params
 *   MaxText, Paxml NVIDIA/dgxc-benchmarking@v24.11.1 and v25.02, maxtext/configure.sh and
 *                  paxml/paxml_mod_configs.py: queries, keys and values are kept by all of its
 *                  policies (save_qkv_proj), the rest is computed again
 *   torchtitan,    pytorch/torchtitan and foundation-model-stack/fms-fsdp, Llama models: norms and
 *   FSDP           rotation in f32 steps unless compiled
 *
 * The first row whose name the framework's name contains decides. */
#include "analysis/validate/run_framework.h"

#include <string.h>

#include "traces/models/models.h"

#define EAGER (TRACES_UNFUSED_LOSS | TRACES_UNFUSED_BLOCK | TRACES_UNFUSED_NORMS)
#define SUMS (TRACES_UNFUSED_SUMS | TRACES_UNFUSED_LOSS)

static const struct lw_run_framework frameworks[] = {
    {"nanotron", SUMS | TRACES_UNFUSED_BLOCK, 0, "", false, false, true, true},
    {"MLPerf", 0, TRACES_KEPT_FUSED_GATE | TRACES_KEPT_GATE_8BIT, "", true, true, false, false},
    {"AutoModel", EAGER, 0, "", false, false, false, false},
    {"NeMo", 0, TRACES_KEPT_FUSED_GATE, "", true, true, false, false},
    {"Megatron-Bridge", 0, TRACES_KEPT_FUSED_GATE, "", true, true, false, false},
    {"MaxText", 0, TRACES_KEPT_PROJECTIONS, "selective", false, false, false, false},
    {"Paxml", 0, TRACES_KEPT_PROJECTIONS, "selective", false, false, false, false},
    {"Megatron-DeepSpeed", SUMS, 0, "", false, false, true, false},
    {"Megatron-LM 2021", SUMS, 0, "", false, false, false, false},
    {"torchtitan", EAGER, 0, "", false, false, false, false},
    {"FSDP", EAGER, 0, "", false, false, false, false},
    {"torchtune", EAGER, 0, "", false, false, false, false},
    {"", 0, 0, "", false, false, false, false},
};

const struct lw_run_framework *lw_run_framework_of(const struct lw_run *r)
{
    const struct lw_run_framework *f = frameworks;

    while (!strstr(r->framework, f->name))
        f++;
    return f;
}

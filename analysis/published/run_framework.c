/* What frameworks do that the tables of runs do not say, from their code and published settings:
 *
 *   nanotron       huggingface/nanotron@67c5ebb6: models/llama.py fuses norms and rotation, not the
 *                  loss; optim/gradient_accumulator.py adds all gradients to f32 sums after the
 *                  backward; its collectives record streams (run_memory.c); trainer.py, make_ddp:
 *                  without ZeRO-1 torch's DDP, whose hook sums in f32 beside the last backward, in
 *                  buckets of 25 MiB of bf16 (examples/config_tiny_llama_bench.yaml).
 *                  huggingface/nanotron@0e0a27ea: trainer.py has DDP beside ZeRO-0 alone and
 *                  empties the cache before the first step; distributed.py, all_gather_coalesced:
 *                  the parts of all ranks as flat tensors, which torch's all_gather takes as one
 *                  more (ProcessGroupNCCL.cpp: newLikeFlat); pipeline_parallel/engine.py frees a
 *                  stage's outputs in the backward
 *   Megatron       NVIDIA/Megatron-LM, gradient_accumulation_fusion (on): products of weights'
 *                  gradients add them to the f32 sums; cross_entropy_loss_fusion is off unless a
 *                  script sets it (megatron/core/transformer/transformer_config.py), and those of
 *                  MooreThreads/SimuMax@4dcaae5, simu_tools/megatron_scripts, do not;
 *                  NVIDIA/Megatron-LM@d98e8a64, megatron/training/arguments.py and
 *                  megatron/core/extensions/transformer_engine.py: cp_comm_type is p2p where
 *                  nothing else is requested; NeMo and Megatron-Bridge run this code
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
 *   Megatron-DeepSpeed  microsoft/DeepSpeed, runtime/zero/stage_1_and_2.py, step: the shard's
 *                  gradients as one flat 16-bit tensor and as one of f32, 2 + 4 bytes;
 *                  reduce_bucket_size; runtime/bf16_optimizer.py flattens weights on the device,
 *                  where stage_1_and_2.py moves them to the host first; runtime/pipe/engine.py
 *                  frees a stage's outputs in the backward, and sends a tensor rank's part of a
 *                  message (is_pipe_partitioned, is_grad_partitioned).
 *                  bigscience-workshop/bigscience@9e64ede, train/tr11-176B-ml, README.md and
 *                  setup-test-n2.slurm: CUDA_LAUNCH_BLOCKING=1, as the model hung without
 *   InternEvo      InternLM/InternEvo@66bffff, internlm/solver/optimizer: hybrid_zero_optim.py,
 *                  _step: the same flat tensors; fsdp_optimizer.py, step: f32 ones alone; the two
 *                  f32 results of torch's AdamW before it updates (pytorch/pytorch v2.0,
 *                  torch/optim/adamw.py: exp_avg_sq_sqrt and denom), 4 + 8 bytes;
 *                  _reduce_grads_by_rank fills a bucket while the one before is reduced, also on
 *                  one data-parallel rank (configs/7B_sft.py: 512 Mi elements); torch adds a
 *                  micro-batch's gradient to its sum (pytorch/pytorch,
 *                  torch/csrc/autograd/functions/accumulate_grad.h)
 *   torchtune      pytorch/torchtune@bd2a0fc7, recipes/full_finetune_single_device.py: weights of
 *                  bf16 without a master, AdamW's two states of the same type
 *
 *   OneFlow        Oneflow-Inc/oneflow, oneflow/core/job_rewriter:
 *                  pipeline_buffer_pass.cpp@0bc5c37e gives what a backward reads of its forward
 *                  2 p buffers on all but the last of p stages, filled once a micro-batch;
 *                  gradient_accumulation_rewrite_pass.cpp@0adf519a repeats the variables before
 *                  their casts to fp16, so that these casts are buffered too
 *
 * A step's passes over gradients:
 *
 *   Megatron       NVIDIA/Megatron-LM@00119989, megatron/core/distributed/param_and_grad_buffer.py:
 *                  reset fills the buffer with zeros, check_grads takes each bucket's norm,
 *                  start_grad_sync multiplies by gradient_scaling_factor;
 *                  megatron/core/optimizer/clip_grads.py@0293807e: norm and factor;
 *                  megatron/core/optimizer/distrib_optimizer.py, _copy_main_params_to_model_params
 *   2021 and 2022  NVIDIA/Megatron-LM v2.6, megatron/model/distributed.py: zero_grad_buffer,
 *                  allreduce_gradients divides the buffer; megatron/optimizer/optimizer.py:
 *                  main gradients are divided by the loss scale, clipped, masters copied
 *   NVIDIA's       the collective takes the mean (average_in_collective), check_for_nan_in_grad is
 *   recipes        off
 *   nanotron       optim/gradient_accumulator.py: f32 sums are filled with zeros, masters copied;
 *                  optim/clip_grads.py
 *
 * Tensor groups' collectives beside products:
 *
 *   nanotron       huggingface/nanotron@0e0a27ea, scripts/scaling_benchmarks.py:
 *                  tp_linear_async_communication with REDUCE_SCATTER; in functional.py sums
 *                  beside the weights' gradients, in the forward a gather beside the rank's own
 *                  rows alone, which is not counted
 *   Megatron       megatron/core/tensor_parallel/layers.py,
 *                  LinearWithGradAccumulationAndAsyncCommunication: sums beside the weights'
 *                  gradients. Korthikanti et al., arXiv 2205.05198, section 4.2.2, name the gather
 *                  of saved inputs alone
 *   NeMo,          tp_comm_overlap of NVIDIA's recipes: userbuffers, all in pieces
 *   Megatron-Bridge
 *
 * The first row whose name the framework's name contains decides. */
#include "analysis/published/run_framework.h"

#include <string.h>
#include <strings.h>

#include "traces/models/models.h"

#define EAGER (TRACES_UNFUSED_LOSS | TRACES_UNFUSED_BLOCK | TRACES_UNFUSED_NORMS)
#define SUMS (TRACES_UNFUSED_SUMS | TRACES_UNFUSED_LOSS)
#define STEP (TRACES_STEP_ZERO | TRACES_STEP_CLIP | TRACES_STEP_COPY)
#define STEP_MEAN (STEP | TRACES_STEP_SCALE)

static const struct lw_run_framework frameworks[] = {
    {.name = "nanotron", .unfused = SUMS | TRACES_UNFUSED_BLOCK, .own_gradients = true,
     .ddp_bucket = 50 << 20, .step = STEP, .runs_ahead = true, .step_gathers = true,
     .keeps_outputs = true, .tp_overlap = LW_TP_OVERLAP_BACKWARD},
    {.name = "MLPerf", .kept = TRACES_KEPT_FUSED_GATE | TRACES_KEPT_GATE_8BIT,
     .shards_optimizer = true, .fp8_params = true, .fused_sums = true, .step = STEP,
     .tp_overlap = LW_TP_OVERLAP_BACKWARD, .cp_comm = LW_CP_P2P},
    {.name = "AutoModel", .unfused = EAGER},
    {.name = "NeMo", .kept = TRACES_KEPT_FUSED_GATE, .shards_optimizer = true, .fp8_params = true,
     .fused_sums = true, .step = STEP, .tp_overlap = LW_TP_OVERLAP_PIECES, .cp_comm = LW_CP_P2P},
    {.name = "Megatron-Bridge", .kept = TRACES_KEPT_FUSED_GATE, .shards_optimizer = true,
     .fp8_params = true, .fused_sums = true, .step = STEP, .tp_overlap = LW_TP_OVERLAP_PIECES,
     .cp_comm = LW_CP_P2P},
    {.name = "MaxText", .kept = TRACES_KEPT_PROJECTIONS, .recompute = "selective"},
    {.name = "Paxml", .kept = TRACES_KEPT_PROJECTIONS, .recompute = "selective"},
    {.name = "Megatron-DeepSpeed without ZeRO", .unfused = SUMS, .own_gradients = true},
    {.name = "Megatron-DeepSpeed", .unfused = SUMS, .own_gradients = true,
     .flat_gradients = true, .step_bytes = 4, .splits_messages = true, .bucket = 500000000,
     .keeps_outputs = true, .flat_weights = true, .launch_blocking = true},
    {.name = "DeepSpeed", .unfused = EAGER, .flat_gradients = true, .step_bytes = 4,
     .bucket = 500000000},
    {.name = "Megatron-LM 2021", .unfused = SUMS, .step = STEP_MEAN | TRACES_STEP_UNSCALE},
    {.name = "Megatron-LM 2022", .unfused = TRACES_UNFUSED_LOSS, .fused_sums = true,
     .step = STEP_MEAN | TRACES_STEP_UNSCALE},
    {.name = "Megatron", .unfused = TRACES_UNFUSED_LOSS, .fused_sums = true,
     .step = STEP_MEAN | TRACES_STEP_CHECK, .tp_overlap = LW_TP_OVERLAP_BACKWARD,
     .cp_comm = LW_CP_P2P},
    {.name = "InternEvo", .unfused = TRACES_UNFUSED_GRADS, .flat_gradients = true, .step_bytes = 12,
     .bucket = 2 << 29, .buckets_alone = true},
    {.name = "torchtitan", .unfused = EAGER, .kept = TRACES_KEPT_ALTERNATE},
    {.name = "FSDP", .unfused = EAGER},
    {.name = "torchtune", .unfused = EAGER, .state_bytes = 4},
    {.name = "OneFlow", .stage_buffers = 2},
    {.name = ""},
};

/* Cells of "TP comm overlap True" (NVIDIA's MLPerf scripts), "async TP" (torchtitan) or "no TP"
 * (SimuMax's). */
enum lw_tp_overlap lw_run_tp_overlap(const struct lw_run *r)
{
    static const struct {
        const char *cell;
        enum lw_tp_overlap overlap;
    } cells[] = {
        {"no TP", LW_TP_OVERLAP_OFF},
        {"TP comm overlap False", LW_TP_OVERLAP_BACKWARD},
        {"TP comm overlap 0", LW_TP_OVERLAP_BACKWARD},
        {"TP comm overlap", LW_TP_OVERLAP_PIECES},
        {"async TP", LW_TP_OVERLAP_PIECES},
    };

    if (r->tp == 1)
        return LW_TP_OVERLAP_OFF;
    for (size_t k = 0; k < sizeof cells / sizeof *cells; k++)
        if (strstr(r->overlap, cells[k].cell))
            return cells[k].overlap;
    return lw_run_framework_of(r)->tp_overlap;
}

/* Cells of "yes (overlap-param-gather)" or "DP grad-reduce and param-gather" (Megatron-LM's). */
bool lw_run_gathers_ahead(const struct lw_run *r)
{
    return strstr(r->dist_optimizer, "param-gather") || strstr(r->overlap, "param-gather");
}

const struct lw_run_framework *lw_run_framework_of(const struct lw_run *r)
{
    const struct lw_run_framework *f = frameworks;

    while (!strstr(r->framework, f->name))
        f++;
    return f;
}

/* pytorch/torchtune@bd2a0fc7, README.md: each row of the table has the options before it too. */
static const char *const steps[] = {"packed", "compile", "chunked", "checkpointing",
                                    "optimizer in backward", "offloading", "8-bit"};

bool lw_run_takes(const struct lw_run *r, const char *option)
{
    bool cumulative = strstr(r->options, "cumulative") != NULL;

    for (size_t k = sizeof steps / sizeof *steps; k-- > 0 && cumulative;)
        if (strcasestr(r->options, steps[k]))
            for (size_t i = 0; i <= k; i++)
                if (strcmp(steps[i], option) == 0)
                    return true;
    return false;
}

/* The tables of measured runs that can be read, each by one row: its titles, what its titles mean,
 * what its source says beside the table, and its bars. Sources of the settings:
 *
 *   mpt_fsdp          llm-foundry scripts/train/benchmarking: Triton flash attention; its parameter
 *                     counts are those of biases and learned positions
 *   nanotron          ultrascale playbook: reduce-scatter tensor mode, f32 gradients, blocks by
 *                     cost
 *   bloom_3d_a100     Megatron-DeepSpeed, ZeRO-1, gradients reduced after the backward
 *                     64 heads, as of most rows, where a row has none
 *   megatron_h100     its table has no micro-batch: 1; strong scaling: tensor and pipeline groups
 *                     of the same model in the weak scaling; it overlaps messages between stages,
 *                     which Megatron does for interleaved stages only: two chunks at the least
 *   dgxc_weak_scaling its fine-tuning recipes give no micro-batch: 1, as in Megatron-Bridge's
 *                     table of the same recipes
 *   narayanan, korthikanti  papers of 2021 and 2022: sequence 2,048, vocabulary 51,200, adam;
 *                     from 2022 on a product adds to the gradients' sums
 *                     (--no-gradient-accumulation-fusion turns it off)
 *   vtrain            its released configuration: vocabulary 50,257, recomputation, no bucketing
 *   internevo         the kind of its memory figure is not stated: taken as nvidia-smi's
 *   dlperf            OneFlow/LanguageModeling/GPT/README.md@087255cc: memory.used of nvidia-smi
 *   llama3            Grattafiori et al., arXiv 2407.21783, table 4: 405B, weights kept (no
 *                     reshard) */
#include "analysis/published/run_table.h"

#define STEP                                                                                       \
    "step_s:s;tok_s_gpu:tok/s/dev;tok_s:tok/s;samples_s:samples/s;tflops_gpu:TFLOP/s/dev;"         \
    "mfu_pct:MFU%"
#define ONE(measured) {{"", "", measured}}
#define MEGATRON_PAPER "gpu=A100-SXM4-80GB;gpus_per_node=8;seq=2048;vocab=51200;precision=fp16;" \
                       "framework=Megatron-LM 2021;family=gpt;tied=True;network=8x HDR;overlap=no"

const struct lw_run_table lw_run_tables[] = {
    {"mpt_fsdp", "linear_bias fsdp_mixed_precision samples_s",
     .settings = "family=gpt;tied=True;overlap=fsdp", .variants = ONE("tok_s:tok/s;" STEP),
     .bars.mean_pct = 8},
    {"nanotron_ultrascale", "gpu tied_embeddings grad_accum zero",
     .settings = "attention=flash;family=llama;partition=cost;overlap=no;seq_parallel=yes;"
                 "memory=reserved of rank 0",
     .variants = ONE("tok_s:tok/s;mem_gb:GiB"), .bars.mean_pct = 12, .memory_bar_pct = 8,
     .rank_bar = 0.9},
    {"nanotron_scaling_curves", "gpu tok_s_gpu max_mbs_plotted",
     .settings = "attention=flash;family=llama;grad_dtype=f32;tied=True",
     .variants = ONE(STEP ";mem_gb:GiB")},
    {"bloom_3d_a100", "node_state layers_check tflops_kind",
     .aliases = "micro_batches=num_microbatches",
     .settings = "vocab=250680;heads=64;attention=full;family=gpt;tied=True;overlap=no;flops="
                 "hardware;zero=1;"
                 "memory=nvidia-smi",
     .variants = ONE(STEP ";mem_gb:GiB"), .bars.mean_pct = 8, .memory_bar_pct = 8},
    {"simumax_real_runs", "sim_step_s moe_note", .aliases = "micro_batches=num_microbatches",
     .settings = "attention=flash;family=llama;flops=model", .variants = ONE(STEP ";mem_gb:GiB"),
     .memory_bar_pct = 8},
    {"internevo_zero1_scaling", "grad_accum table mem_kind flash_attn tok_s_gpu",
     .settings = "attention=flash;flops=hardware;overlap=yes;memory=nvidia-smi",
     .variants = ONE("tok_s_gpu:tok/s/dev;tflops_gpu:TFLOP/s/dev;mem_gb:GiB"), .memory_bar_pct = 8},
    {"megatron_h100_scaling", "dist_optimizer experiment tok_s_gpu",
     .settings = "attention=flash;family=gpt;seq_parallel=yes;flops=model;grad_dtype=f32;mbs=1;tp="
                 "8;pp=6;vpp=2",
     .variants = ONE(STEP), .bars.mean_pct = 10},
    {"mlperf_training_steps", "mlperf submitter step_s",
     .aliases = "micro_batches=num_microbatches",
     .settings = "attention=flash;vocab=51200;seq_parallel=yes",
     .variants = ONE("step_s:s;mem_gb:GB"), .bars.mean_pct = 10, .memory_bar_pct = 8},
    {"dgxc_weak_scaling", "etp mfu_base step_s",
     .settings = "attention=flash;seq_parallel=yes;overlap=yes;mbs=1", .variants = ONE(STEP)},
    {"megatron_bridge_performance", "flops_per_token_G moe_variant",
     .settings = "attention=flash;seq_parallel=yes;overlap=yes",
     .variants = ONE("tok_s_gpu:tok/s/dev")},
    {"nemo_performance", "local_batch kernels step_s",
     .settings = "attention=flash;seq_parallel=yes;overlap=yes", .variants = ONE(STEP)},
    {"misc_training_tables", "step_variant batch_per_dp", .settings = "attention=flash",
     .variants = ONE(STEP ";mem_gb:GiB")},
    {"ablations_moe_recompute_fp8", "cuda_graphs compile step_s", .settings = "attention=flash",
     .variants = ONE("step_s:s;tok_s:tok/s;tok_s_gpu:tok/s/dev;mem_gb:GB")},
    {"libai_megatron_3d_small", "samples_s step_s_derived framework grad_accum",
     .settings = "attention=full;vocab=30522;tied=True", .variants = ONE("samples_s:samples/s")},
    {"narayanan2021_table1_weak_scaling", "micro_batch_from_script v_from_script",
     .aliases = "tp=t;pp=p;gbs=global_batch;mbs=micro_batch_from_script;vpp=v_from_script",
     .settings = MEGATRON_PAPER ";recompute=full;attention=full;flops=hardware",
     .variants = ONE("tflops_per_gpu:TFLOP/s/dev"), .bars.mean_pct = 10},
    {"narayanan2021_table2_vs_zero3", "scheme model_parallel_size",
     .aliases = "gbs=global_batch;mbs=micro_batch;zero=scheme",
     .settings = MEGATRON_PAPER
     ";recompute=full;attention=full;flops=hardware;layers=96;hidden=12288;heads=96",
     .variants = ONE("tflops_per_gpu:TFLOP/s/dev"), .bars.mean_pct = 10},
    {"korthikanti2022_tables3_5", "iter_s_full_recompute iter_s_seqpar_selective",
     .aliases = "tp=t;pp=p;gbs=global_batch;mbs=micro_batch;vpp=v",
     .settings = "framework=Megatron-LM 2022;" MEGATRON_PAPER ";attention=full",
     .variants = {{"full", "recompute=full", "iter_s_full_recompute:s"},
                  {"selective", "recompute=selective;seq_parallel=yes",
                   "iter_s_seqpar_selective:s"}},
     .bars.mean_pct = 3.65},
    {"vtrain_ground_truth", "n_GPUs iteration_time_ms hidden_size",
     .aliases =
         "gpus=n_GPUs;gbs=global_batch;mbs=micro_batch;hidden=hidden_size;heads=attention_heads;"
         "layers=n_layers;seq=sequence_length;tp=tensor_parallelism;dp=data_parallelism;"
         "pp=pipeline_parallelism",
     .settings = "gpu=A100-SXM4-80GB;gpus_per_node=8;vocab=50257;precision=fp16;"
                 "framework=Megatron-DeepSpeed without ZeRO;family=gpt;tied=True;recompute=full;"
                 "attention=full;overlap=no;network=800 Gb/s",
     .variants = ONE("iteration_time_ms:ms"), .bars.mean_pct = 8.37},
    {"dlperf_gpt_v100_oneflow_megatron", "oneflow_iter_ms megatron_seq_per_s",
     .aliases = "dp=d;tp=t;pp=p;gbs=global_batch;mbs=micro_batch",
     .settings =
         "gpu=V100-SXM2-16GB;gpus_per_node=8;precision=fp16;family=gpt;tied=True;recompute=full;"
         "attention=full;"
         "overlap=no TP;network=100 Gb/s;heads=16;memory=nvidia-smi",
     .variants = {{"oneflow", "framework=OneFlow", "oneflow_iter_ms:ms;oneflow_mem_mib:MiB"},
                  {"megatron", "framework=Megatron-LM", "megatron_seq_per_s:samples/s"}},
     .memory_bar_pct = 8},
    {"llama3_table4", "bf16_mfu_pct tokens_per_batch",
     .settings =
         "gpu=H100-80GB;gpus_per_node=8;model=llama3.1-405b;precision=bf16;framework=Llama "
         "3;zero=FSDP "
         "kept;"
         "attention=flash;vpp=8;mbs=1;seq_parallel=yes;network=400 Gb/s per GPU RoCE;flops=causal;"
         "schedule=1f1b",
     .variants = ONE("tflops_per_gpu:TFLOP/s/dev")},
    {0},
};

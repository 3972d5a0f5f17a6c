/* Published tables as runs.csv: what is refused, what each row becomes, and that no measured cell
 * decides what is predicted. */
#include "tests/lib/unit.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/commands/python_server.h"
#include "tests/lib/files/file_fixture.h"

TEST_GROUP(fixture_open, python_close)

static const char *rows_of(const char *name, const char *csv)
{
    static char file[80];

    snprintf(file, sizeof file, "%s.csv", name);
    fixture_put(fixture_path(file), csv);
    return pythonf("convert.py %s", file);
}

static void refuses(const char *name, const char *csv, const char *says)
{
    char words[160];
    int rc;

    snprintf(words, sizeof words, "%s.csv", name);
    if (csv)
        fixture_put(fixture_path(words), csv);
    snprintf(words, sizeof words, "convert.py %s.csv", name);
    const char *out = python(words, &rc);
    const char *line = strchr(out, '\n');
    if (rc != 1 || !strstr(out, says) || !line || line[1])
        fail_msg("%s: exit %d, expected 1 and one line with '%s':\n%s", words, rc, says, out);
}

/* Reads a cell of a line of CSV into `out` as the csv module reads it: quotes are taken off, and
 * two of them are one. Where the next one begins; NULL after the last one. */
static const char *next_cell(const char *at, char *out, size_t size)
{
    bool quoted = false;
    size_t n = 0;

    for (; *at && (quoted || (*at != ',' && *at != '\n')); at++) {
        if (*at == '"' && !(quoted && at[1] == '"')) {
            quoted = !quoted;
            continue;
        }
        at += *at == '"';
        assert_true(n + 1 < size);
        out[n++] = *at;
    }
    out[n] = '\0';
    return *at == ',' ? at + 1 : NULL;
}

/* The cell of the first row below a title; "" where no column has it. */
static void expect_cell(const char *csv, const char *title, const char *value)
{
    const char *head = csv, *row = strchr(csv, '\n');
    char name[512], found[512] = "";

    assert_true(row && row[1]);
    for (row++; head;) {
        assert_non_null(row);
        head = next_cell(head, name, sizeof name);
        row = next_cell(row, found, sizeof found);
        if (strcmp(name, title) == 0)
            break;
        found[0] = '\0';
    }
    if (strcmp(found, value) != 0)
        fail_msg("%s: found %s, expected %s in\n%s", title, found, value, csv);
}

#define MISC_TITLES                                                                                \
    "recompute,source,model,gpu,gpus,gbs,mbs,seq,layers,hidden,ffn,heads,kv_heads,vocab,"          \
    "precision,framework,status,mem_kind,step_s,samples_s,tok_s_gpu,tflops_gpu,mfu_pct,mem_gb,"    \
    "tflops_kind,compile"

#define TABLE4 "gpus,tp,cp,pp,dp,seq,batch_per_dp"

TEST(bad_input_is_one_line)
{
    int rc;
    const char *out = shell("python3 -B $P/tests/evidence/convert.py nothing.csv", &rc);
    const char *line = strchr(out, '\n');

    if (rc != 1 || !strstr(out, "unknown table 'nothing'; expected ") || !line || line[1])
        fail_msg("nothing.csv: exit %d, expected 1 and one line:\n%s", rc, out);
    refuses("nothing", NULL, "unknown table 'nothing'; expected a file named as one of: ");
    refuses("llama3_table4", NULL, "llama3_table4.csv: No such file");
    refuses("llama3_table4", "", "the file is empty; expected a line of titles");
    refuses("llama3_table4", TABLE4 "\n1,1,1,1,1,1,1\n",
            "llama3_table4.csv:1: no column 'tflops_per_gpu'");
    refuses("llama3_table4", TABLE4 ",tflops_per_gpu\n1,1\n",
            "llama3_table4.csv:2: found 2 cells, expected 8");
    refuses("llama3_table4", TABLE4 ",tflops_per_gpu\n-8,1,1,1,1,1,1,1\n",
            "llama3_table4.csv:2: gpus: found '-8', expected a whole number");
    refuses("llama3_table4", TABLE4 ",tflops_per_gpu\n8,1,1,1,1,1,1,4 T\n",
            "llama3_table4.csv:2: tflops_per_gpu: found '4 T', expected a number");
}

#define TABLE2                                                                                     \
    "scheme,params_B,model_parallel_size,global_batch,gpus,micro_batch,tflops_per_gpu\n"

/* Narayanan et al., SC'21, table 1: 174.6 G are 96 layers of 12,288, 529.6 G are 105 of 20,480. */
TEST(sizes_follow_the_named_model)
{
    const char *name = "narayanan2021_table2_vs_zero3";
    const char *csv = rows_of(name, TABLE2 "PTD,529.6,280,2240,560,1,171\n");
    expect_cell(csv, "layers", "105");
    csv = rows_of(name, TABLE2 "PTD,529.6,280,2240,560,1,171\n");
    expect_cell(csv, "hidden", "20480");
    csv = rows_of(name, TABLE2 "PTD,174.6,96,1536,384,1,153\n");
    expect_cell(csv, "hidden", "12288");
    csv = rows_of(name, TABLE2 "PTD,39.1,16,1536,384,1,153\n");
    expect_cell(csv, "why", "the sizes of the model are not known");
}

#define RUN_2025                                                                                   \
    "model,gpu,gpus,gbs,mbs,seq,layers,hidden,heads,experts,topk,moe_ffn,ep,precision,framework,"  \
    "step_s,tok_s_gpu,tflops_gpu,mem_gib,mem_gb\n"

TEST(a_model_with_experts_is_never_a_dense_one)
{
    const char *csv = rows_of("mlperf_v6_training_steps", RUN_2025
                              "gpt-oss-20b,GB200,8,16,2,8192,24,2880,64,32,4,2880,1,FP8,Megatron,"
                              "0.4,,,,\n");
    expect_cell(csv, "model", "gpt-oss-20b");
    csv = rows_of("mlperf_v6_training_steps", RUN_2025
                  "gpt-new-20b,GB200,8,16,2,8192,24,2880,64,32,4,1024,1,FP8,Megatron,0.4,,,,\n");
    expect_cell(csv, "model", "decoder");
    csv = rows_of("mlperf_v6_training_steps", RUN_2025
                  "gpt-new-20b,GB200,8,16,2,8192,24,2880,64,32,,,1,FP8,Megatron,0.4,,,,\n");
    expect_cell(csv, "why", "the sizes of the model's experts are not known");
    csv = rows_of("mlperf_v6_training_steps", RUN_2025
                  "GPT MoE,GB200,8,16,2,8192,24,2880,64,,,,1,FP8,Megatron,0.4,,,,\n");
    expect_cell(csv, "why", "the sizes of the model's experts are not known");
}

/* Megatron-FSDP reduces in bf16, as its guide recommends; Megatron's other groups in its usual
 * type, which the row does not say. */
TEST(gradients_of_megatron_fsdp_are_reduced_in_bf16)
{
    static const char titles[] = "model,gpu,gpus,gbs,mbs,seq,layers,hidden,heads,experts,topk,"
                                 "moe_ffn,tp,pp,dp,ep,zero,dist_optimizer,precision,framework,"
                                 "step_s,tok_s_gpu,tflops_gpu,mem_gib,mem_gb\n";
    static const char row[] = "Qwen3-235B-A22B,H100,256,2048,4,4096,94,4096,64,128,8,1536,2,1,128,"
                              "8,"
                              "%s,True,BF16,Megatron-Core,17.6,,,,\n";
    const char *zero[] = {"FSDP", ""}, *stage[] = {"3", "1"}, *type[] = {"bf16", ""};
    char text[600];

    for (int i = 0; i < 2; i++) {
        snprintf(text, sizeof text, "%s", titles);
        snprintf(text + strlen(text), sizeof text - strlen(text), row, zero[i]);
        expect_cell(rows_of("megatron_moe_modelzoo", text), "zero", stage[i]);
        expect_cell(rows_of("megatron_moe_modelzoo", text), "grad-dtype", type[i]);
    }
}

#define MISC "model,gpu,gpus,gbs,mbs,seq,precision,framework,status,mem_kind,step_s,samples_s,"    \
             "tok_s_gpu,tflops_gpu,mfu_pct,mem_gb,tflops_kind\n"                                   \
             "llama3-8b,H100,8,8,1,8192,bf16,DeepSpeed,,GiB max_memory_reserved,,,,400,,40,"
#define REST "\n"

/* Megatron-Core of 2025 and later counts a causal sequence as half (megatron/training/training.py,
 * attn_layer_flops: seq_len / 2), Megatron-Core r0.8.0 as a whole one. */
TEST(each_row_says_how_its_flops_are_counted)
{
    const char *csv = rows_of("mlperf_v6_training_steps", RUN_2025
                              "llama3-8b,H100,8,8,1,8192,,,,,,,,BF16,Megatron-Core,,,400,,\n");
    expect_cell(csv, "flops", "model-causal");
    csv = rows_of("mlperf_v6_training_steps", RUN_2025
                  "llama3-8b,H100,8,8,1,8192,,,,,,,,BF16,Megatron-Core,2.5,,400,,\n");
    expect_cell(csv, "flops", "");
    csv = rows_of("misc_training_tables", MISC "\"model FLOPs, attention counted causally\"" REST);
    expect_cell(csv, "flops", "model-causal");
    csv = rows_of("misc_training_tables", MISC "\"hardware, with recomputation\"" REST);
    expect_cell(csv, "flops", "hardware");
    csv = rows_of("misc_training_tables", MISC "" REST);
    expect_cell(csv, "memory_kind", "reserved");
    csv = rows_of("misc_training_tables",
                  "model,gpu,gpus,gbs,mbs,seq,precision,framework,status,mem_kind,step_s,samples_s,"
                  "tok_s_gpu,tflops_gpu,mfu_pct,mem_gb,tflops_kind\nllama3-8b,H100,8,8,1,8192,bf16,"
                  "DeepSpeed,,GiB peak without Liger (80 with),,,,400,,40,\n");
    expect_cell(csv, "memory_kind", "reserved");
}

/* A step of one micro-batch has nothing beside which its all-to-alls could run. */
TEST(one_micro_batch_overlaps_no_experts)
{
    static const char TITLES[] = "overlap_ep,precision,model,gpu,gpus,gbs,mbs,seq,ep,step_s,"
                                 "tok_s_gpu,tflops_gpu,mem_gib,mem_gb\n"
                                 "True,FP8,gpt-oss-20b,GB200,8,";
    char csv[300];

    snprintf(csv, sizeof csv, "%s8,1,8192,8,0.4,,,,\n", TITLES);
    expect_cell(rows_of("mlperf_v6_training_steps", csv), "expert-overlap", "");
    snprintf(csv, sizeof csv, "%s16,1,8192,8,0.4,,,,\n", TITLES);
    expect_cell(rows_of("mlperf_v6_training_steps", csv), "expert-overlap", "on");
}

/* fms-fsdp recomputes a share p of the blocks: HFU / MFU = 1 + p / 3, 0.69 / 0.61 of 40 blocks. */
TEST(a_share_of_recomputed_blocks_is_that_of_the_source)
{
    static const char TITLES[] = "recompute,source,model,gpu,gpus,gbs,mbs,seq,layers,hidden,ffn,"
                                 "heads,kv_heads,vocab,precision,framework,status,mem_kind,step_s,"
                                 "samples_s,tok_s_gpu,tflops_gpu,mfu_pct,mem_gb,tflops_kind\n"
                                 "selective,foundation-model-stack/fms-fsdp@";
    static const char REST13B[] = ":README.md,llama2-13b,A100-80GB,8,16,2,4096,40,5120,13824,40,40,"
                                  "32000,bf16,fms-fsdp (PyTorch FSDP1),,,,,2150,,,,\n";
    char csv[600];

    snprintf(csv, sizeof csv, "%sed74fd5%s", TITLES, REST13B);
    expect_cell(rows_of("misc_training_tables", csv), "recompute", "full");
    expect_cell(rows_of("misc_training_tables", csv), "recompute-layers", "16");
    snprintf(csv, sizeof csv, "%sanother%s", TITLES, REST13B);
    expect_cell(rows_of("misc_training_tables", csv), "recompute", "selective");
    expect_cell(rows_of("misc_training_tables", csv), "recompute-layers", "");
}

/* Recipes recompute by device and version, and use CUDA graphs or none: their configuration says,
 * not the table. */
TEST(a_recipe_has_the_recomputation_and_graphs_of_its_version)
{
    static const char TITLES[] =
        "gpu,gpus,model,seq,gbs,mbs,tp,pp,vpp,dp,cp,ep,precision,framework,version,tok_s_gpu\n";
    static const struct { const char *row, *parts, *framework; } cases[] = {
        {"GB200,256,DeepSeekV3,4096,4096,1,1,4,4,64,1,64,MXFP8,Megatron-Bridge,26.02 NeMo,1",
         "mla_up_proj", "megatron-bridge-parts-bf16-moments"},
        {"GB200,256,DeepSeekV3,4096,4096,1,1,4,4,64,1,64,MXFP8,Megatron-Bridge,26.04 NeMo,1", "mlp",
         "megatron-bridge-parts-bf16-moments"},
        {"B200,256,DeepSeekV3,4096,4096,1,1,16,,16,1,8,MXFP8,Megatron-Bridge,26.02 NeMo,1",
         "mla_up_proj", "megatron-bridge-bf16-moments"},
        {"GB300,256,DeepSeekV3,4096,4096,1,1,2,8,128,1,32,MXFP8,Megatron-Bridge,26.06 NeMo,1", "",
         "megatron-bridge-graph-bf16-moments"},
        {"GB300,256,DeepSeekV3,4096,4096,2,1,2,8,128,1,32,MXFP8,Megatron-Bridge,26.02 NeMo,1",
         "mla_up_proj", "megatron-bridge-bf16-moments"},
        {"B300,256,DeepSeekV3,4096,4096,2,1,8,,32,1,8,MXFP8,Megatron-Bridge,26.04.01 NeMo,1",
         "mla_up_proj", "megatron-bridge-parts-bf16-moments"},
        {"B200,256,DeepSeekV3,4096,2048,1,1,16,1,16,1,8,FP8,Megatron-Bridge,25.09 NeMo,1",
         "mla_up_proj", "megatron-bridge-bf16-moments"},
        {"B200,64,GPT OSS 120B,4096,1280,4,1,1,,64,1,8,BF16,Megatron-Bridge,26.04 NeMo,1",
         "layernorm,moe_act", "megatron-bridge-eager"},
        {"GB300,64,GPT OSS 120B,4096,1280,4,1,1,,64,1,64,BF16,Megatron-Bridge,26.02 NeMo,1", "",
         "megatron-bridge"},
    };
    char table[500];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(table, sizeof table, "%s%s\n", TITLES, cases[i].row);
        expect_cell(rows_of("megatron_bridge_performance", table), "recompute-modules",
                    cases[i].parts);
        expect_cell(rows_of("megatron_bridge_performance", table), "framework", cases[i].framework);
    }
}

/* Adapters of MLPerf v4 hold 8-bit weights once, those of v5.0 twice, but for Dell's program. */
TEST(a_submission_has_the_layouts_of_its_program)
{
    static const char TITLES[] = "gpu,gpus,model,layers,hidden,ffn,heads,kv_heads,vocab,seq,gbs,"
                                 "mbs,num_microbatches,tp,pp,dp,cp,precision,framework,step_s,"
                                 "mem_gb,mlperf,submitter,benchmark\n";
    static const char SIZES[] = "8,llama2-70b LoRA,80,8192,28672,64,8,32000,8192,8,1,2,1,1,4,2,FP8,"
                                "NeMo / Megatron-Core (MLPerf submission),3.1,";
    static const struct { const char *gpu, *by, *framework; } cases[] = {
        {"NVIDIA H200-SXM5-141GB", "v4.1,Lenovo", "megatron-mlperf-one-layout"},
        {"NVIDIA H200-NVL-141GB", "v5.0,Dell", "megatron-mlperf-one-layout"},
        {"NVIDIA H200-SXM5-141GB", "v5.0,Lenovo", "megatron-mlperf"},
    };
    char table[600];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(table, sizeof table, "%s%s,%s,%s,llama2_70b_lora\n", TITLES, cases[i].gpu, SIZES,
                 cases[i].by);
        expect_cell(rows_of("mlperf_training_steps", table), "framework", cases[i].framework);
    }
}

/* MLPerf v5.1's scripts of Llama 3.1 gather parameters beside the next forward. */
TEST(a_submission_gathers_ahead_where_its_scripts_do)
{
    static const char TITLES[] = "gpu,gpus,model,layers,hidden,ffn,heads,kv_heads,vocab,seq,gbs,"
                                 "mbs,num_microbatches,tp,pp,dp,cp,precision,framework,step_s,"
                                 "mem_gb,dist_optimizer,mlperf,submitter,benchmark\n";
    static const char SIZES[] = "NVIDIA B200,8,llama3.1-8b,32,4096,14336,32,8,128256,8192,8,1,1,1,"
                                "1,8,1,FP8,NeMo / Megatron-Core (MLPerf submission),3.1,";
    static const struct { const char *by, *cell; } cases[] = {
        {"True,v5.1,NVIDIA,llama31_8b", "on"},
        {"True,v5.0,NVIDIA,llama31_405b", ""},
        {",v5.1,NVIDIA,llama31_8b", ""},
    };
    char table[600];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(table, sizeof table, "%s%s,%s\n", TITLES, SIZES, cases[i].by);
        expect_cell(rows_of("mlperf_training_steps", table), "overlap-param-gather",
                    cases[i].cell);
    }
}

/* MLPerf v6.0's DeepSeek-V3: a chunk's parameters as its first micro-batch gets there. */
TEST(a_pipeline_that_gathers_on_demand_is_not_aligned)
{
    static const char TITLES[] = "gpu,gpus,model,layers,hidden,ffn,heads,vocab,seq,gbs,mbs,"
                                 "grad_accum,tp,pp,vpp,dp,cp,precision,framework,step_s,"
                                 "tok_s_gpu,tflops_gpu,mem_gib,mem_gb,dist_optimizer,benchmark\n";
    static const struct { const char *chunks, *benchmark, *cell; } cases[] = {
        {"2", "deepseekv3_671b", "off"},
        {"2", "llama31_405b", ""},
        {"1", "deepseekv3_671b", ""}, /* no chunks: always so */
    };
    char table[600];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(table, sizeof table,
                 "%sGB200,4,llama3.1-8b,32,4096,14336,32,128256,8192,8,1,4,1,2,%s,%s,%s\n",
                 TITLES, cases[i].chunks,
                 "2,1,MXFP8,Megatron-Bridge / Megatron-Core (MLPerf v6.0),3.1,,,,,True",
                 cases[i].benchmark);
        expect_cell(rows_of("mlperf_v6_training_steps", table), "align-param-gather",
                    cases[i].cell);
    }
}

/* MaxText's Llama 2 7B on A3: nodes of 4 adapters, replicas after the backward. */
TEST(a_program_of_xla_sums_replicas_late)
{
    static const struct { const char *gpus, *group, *late; } cases[] = {
        {"8", "", ""}, {"32", "8", "on"}, {"128", "8", "on"}};
    char table[900];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(table, sizeof table,
                 "row,gpu,gpus,gpus_per_node,model,layers,hidden,ffn,heads,kv_heads,vocab,seq,gbs,"
                 "mbs,tp,pp,vpp,dp,cp,ep,zero,precision,recompute,overlap,compile,framework,step_s,"
                 "tok_s,tok_s_gpu,tflops_gpu,mem_gb,mem_kind,status,source\n"
                 "30,H100-80GB (A3),%s,8,llama2-7b,32,4096,11008,32,32,32000,,,,,,,,,,FSDP 8,,,,,"
                 "MaxText,,,,407,,,ok,AI-Hypercomputer/maxtext@e591f30cb:src/maxtext/configs/gpu/"
                 "a3/llama_2_7b/README.md\n", cases[i].gpus);
        const char *csv = rows_of("ablations_moe_recompute_fp8", table);
        expect_cell(csv, "cluster", "a3-high");
        expect_cell(csv, "zero-group", cases[i].group);
        expect_cell(csv, "late-replicas", cases[i].late);
        expect_cell(csv, "flops", "model-causal");
    }
}

/* With attention in 8 bits too; another type of 4 bits is refused. */
TEST(products_of_4_bits_are_nvfp4)
{
    static const struct {
        const char *precision, *title, *cell;
    } cases[] = {{"NVFP4 (FP8 attention)", "fp4", "yes"},
                 {"NVFP4 (FP8 attention)", "fp8", ""},
                 {"mxfp8", "fp8", "yes"},
                 {"mxfp8", "fp4", ""},
                 {"MXFP4", "why", "4-bit products other than NVFP4 are not modelled"}};
    char csv[600];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(
            csv, sizeof csv,
            "%s,,llama3-8b,B200,8,8,1,8192,32,4096,14336,32,8,128256,%s,torchtitan,,,,,2150,,,,,"
            "yes\n",
            MISC_TITLES "\n", cases[i].precision);
        expect_cell(rows_of("misc_training_tables", csv), cases[i].title, cases[i].cell);
    }
}

/* A recipe is a cell where the row's words name one; others name two, or none that is known. */
TEST(recipes_of_8_bits_are_those_that_rows_name)
{
    static const struct { const char *precision, *cell; } cases[] = {
        {"MXFP8", "mxfp8"}, {"FP8-MX", "mxfp8"}, {"FP8-CS", "tensorwise"},
        {"FP8 current scaling", "tensorwise"}, {"float8 tensorwise", "tensorwise"}, {"FP8", ""},
        {"FP8 per-tensor", ""}, {"FP8 block/MX (other granularity)", ""}, {"bf16", ""},
        {"float8 rowwise_with_gw_hp", ""}, {"NVFP4 (FP8 attention)", ""}};
    char csv[600];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(
            csv, sizeof csv,
            "%s,,llama3-8b,B200,8,8,1,8192,32,4096,14336,32,8,128256,%s,torchtitan,,,,,2150,,,,,"
            "yes\n",
            MISC_TITLES "\n", cases[i].precision);
        expect_cell(rows_of("misc_training_tables", csv), "fp8-recipe", cases[i].cell);
    }
}

/* Megatron and NeMo divide the samples among micro-batches, whatever a table prints of their
 * number. Of other programs it counts: the row is refused. torchtitan runs one where none is
 * given. */
TEST(the_number_of_micro_batches_is_what_the_program_computes)
{
    static const struct {
        const char *batch, *printed, *framework, *title, *cell;
    } cases[] = {
        {"512,1", "128", "NeMo", "micro-batches", "64"},
        {"512,1", "64", "Megatron-Bridge", "micro-batches", "64"},
        {"512,1", "128", "InternEvo", "why",
         "the global batch is not micro-batch * micro-batches * data-parallel ranks"},
        {"510,4", "128", "Megatron-LM", "why",
         "the global batch is not micro-batch * micro-batches * data-parallel ranks"},
        {",2", "", "torchtitan", "batch", "2"},
        {",2", "", "InternEvo", "why", "the global batch is not given"},
    };
    char csv[700];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(csv, sizeof csv,
                 "%s,,llama3-8b,H100,8,%s,8192,32,4096,14336,32,8,128256,bf16,%s,,,1,,,,,,,,%s\n",
                 MISC_TITLES ",grad_accum\n", cases[i].batch, cases[i].framework,
                 cases[i].printed);
        expect_cell(rows_of("misc_training_tables", csv), cases[i].title, cases[i].cell);
    }
}

/* AutoModel runs a pipeline's schedule for each local batch; without a pipeline nothing drains. */
TEST(a_pipeline_drains_after_each_local_batch)
{
    static const struct {
        const char *pp, *mbs, *local, *title, *cell;
    } cases[] = {
        {"4", "1", "4", "drain-every", "4"},
        {"4", "2", "8", "drain-every", "4"},
        {"4", "1", "32", "drain-every", ""},
        {"1", "1", "4", "drain-every", ""},
        {"4", "1", "12", "why",
         "the local batch does not divide into micro-batches, or those of a step into local "
         "batches"},
    };
    char csv[700];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(csv, sizeof csv,
                 "gpu,gpus,gpus_per_node,model,seq,gbs,mbs,tp,pp,cp,precision,framework,step_s,"
                 "tok_s_gpu,tflops_gpu,task,local_batch\nH100,%s,8,Llama3 8B,4096,32,%s,1,"
                 "%s,1,BF16,NeMo AutoModel (PyTorch FSDP2),1,,,LoRA,%s\n",
                 cases[i].pp, cases[i].mbs, cases[i].pp, cases[i].local);
        expect_cell(rows_of("nemo_performance", csv), cases[i].title, cases[i].cell);
    }
}

/* "H200" has "H20" in it; a mixture of devices is of none. */
TEST(each_device_that_is_known_has_a_cluster)
{
    static const char *const cases[][3] = {
        {"MI300X", "cluster", "mi300x"}, {"MI325X", "cluster", "mi325x"},
        {"MI350X", "cluster", "mi350x"}, {"AMD Instinct MI355X", "cluster", "mi355x"},
        {"H800", "cluster", "h800"}, {"H20-SXM5-96GB", "cluster", "h20"},
        {"H200", "cluster", "dgx-h200"}, {"RTX PRO 6000", "cluster", "rtx-pro-6000"},
        {"V100-SXM2-32GB", "cluster", "v100-ib-32gb"},
        {"L40S", "cluster", "l40s"}, {"H200-NVL-141GB", "cluster", "h200-nvl"},
        {"RTX-3090 x2+Titan-RTX x2", "why", "no known cluster has the device"},
    };
    char csv[600];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(csv, sizeof csv,
                 "%s,,llama3-8b,%s,8,8,1,8192,32,4096,14336,32,8,128256,fp8,torchtitan,,,1,,,,,,,"
                 "\n",
                 MISC_TITLES "\n", cases[i][0]);
        expect_cell(rows_of("misc_training_tables", csv), cases[i][1], cases[i][2]);
    }
}

/* A program whose container lets torch take TF32 for f32. */
TEST(products_of_f32_are_of_tf32_where_the_source_says_so)
{
    static const struct {
        const char *source, *precision, *cell;
    } cases[] = {{"eth-easl/sailor@cf2c8e3", "fp32", "yes"},
                 {"eth-easl/sailor@cf2c8e3", "bf16", ""},
                 {"other", "fp32", ""}};
    char csv[600];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(csv, sizeof csv,
                 "%s,%s,gpt,GH200-96GB,8,8,1,2048,32,2560,10240,32,32,128256,%s,"
                 "Megatron-DeepSpeed,,,2,,,,,,,\n",
                 MISC_TITLES "\n", cases[i].source, cases[i].precision);
        expect_cell(rows_of("misc_training_2", csv), "tf32", cases[i].cell);
    }
}

/* What a configuration gives "over" a cell replaces it; "set" fills an empty one alone. */
TEST(a_configuration_goes_over_a_cell_or_fills_an_empty_one)
{
    static const char ROW[] = "llama3-8b,B200,8,8,1,8192,32,4096,14336,32,8,128256,bf16,torchtitan,"
                              ",,,,2150,,,,,yes\n";
    char csv[600];

    snprintf(csv, sizeof csv, "%sselective,mxfp8.md,%s", MISC_TITLES "\n", ROW);
    expect_cell(rows_of("misc_training_tables", csv), "framework",
                "torchtitan-compile-6fc499f6");
    expect_cell(rows_of("misc_training_tables", csv), "recompute", "selective");
    snprintf(csv, sizeof csv, "%sselective,other.md,%s", MISC_TITLES "\n", ROW);
    expect_cell(rows_of("misc_training_tables", csv), "framework", "torchtitan-compile");
    snprintf(csv, sizeof csv, "%sselective,pytorch/torchtitan@7866bf64c:docs/performance.md,%s",
             MISC_TITLES "\n", ROW);
    expect_cell(rows_of("misc_training_tables", csv), "framework", "torchtitan-6aafe3cdf");
}

/* AutoModel's recipes recompute blocks and share experts where its table prints neither. */
TEST(a_recipe_recomputes_where_its_table_does_not_say)
{
    static const char TITLES[] = "model,gpu,gpus,gbs,mbs,seq,tp,dp,ep,zero,precision,framework,"
                                 "task,step_s,tok_s_gpu,tflops_gpu\n";
    static const struct { const char *row, *recompute, *ep; } cases[] = {
        {"Qwen3 MoE 30B,H100,8,512,4,4096,1,8,8,FSDP2,BF16,NeMo AutoModel,pretrain,22,,", "full",
         "8"},
        {"GPT-OSS 120B,H100,64,512,2,4096,1,64,,FSDP2,BF16,NeMo AutoModel,pretrain,4.3,,", "",
         "16"},
        {"Qwen2.5 32B,H100,8,32,2,4096,2,4,,FSDP2,BF16,NeMo AutoModel,LoRA,7.3,,", "full", ""},
        {"Llama3 8B,H100,1,32,2,4096,1,1,,FSDP2,BF16,NeMo AutoModel,LoRA,10.5,,", "", ""},
    };
    char csv[400];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(csv, sizeof csv, "%s%s\n", TITLES, cases[i].row);
        expect_cell(rows_of("nemo_performance", csv), "recompute", cases[i].recompute);
        expect_cell(rows_of("nemo_performance", csv), "ep", cases[i].ep);
    }
}

/* Recipes with Megatron-FSDP move the activations of so many layers to the host. */
TEST(a_recipe_offloads_layers_where_its_table_does_not_say)
{
    static const char TITLES[] = "gpu,gpus,model,seq,gbs,mbs,tp,pp,dp,cp,zero,precision,framework,"
                                 "version,tok_s_gpu\n";
    static const char SIZES[] = ",64,LLAMA3_70B,8192,256,2,1,1,64,1,";
    static const struct { const char *gpu, *zero, *offload, *layers; } cases[] = {
        {"GB200", "FSDP (group 64)", "activations", "40"},
        {"GB300", "FSDP (group 64)", "activations", "20"},
        {"GB300", "DDP/distributed optimizer", "", ""},
    };
    char csv[400];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(csv, sizeof csv, "%s%s%s%s,FP8,Megatron-Bridge,26.04 NeMo,1\n", TITLES,
                 cases[i].gpu, SIZES, cases[i].zero);
        expect_cell(rows_of("megatron_bridge_performance", csv), "offload", cases[i].offload);
        expect_cell(rows_of("megatron_bridge_performance", csv), "offload-layers", cases[i].layers);
    }
}

/* So it is with the experts' dispatcher and its overlap. */
TEST(a_recipe_sends_tokens_as_its_version_does)
{
    static const char TITLES[] =
        "gpu,gpus,model,seq,gbs,mbs,tp,pp,vpp,dp,cp,ep,precision,framework,version,tok_s_gpu\n";
    static const struct { const char *row, *once, *overlap, *dispatcher; } cases[] = {
        {"GB200,64,GPT OSS 120B,4096,1280,4,1,1,,64,1,64,BF16,Megatron-Bridge,26.02 NeMo,1", "",
         "", "all-to-all"},
        {"GB200,64,GPT OSS 120B,4096,1280,4,1,1,,64,1,64,BF16,Megatron-Bridge,26.04.01 NeMo,1", "",
         "on", "all-to-all"},
        {"B200,64,GPT OSS 120B,4096,1280,4,1,1,,64,1,8,BF16,Megatron-Bridge,26.02.01 NeMo,1", "4",
         "", "hybridep"},
        {"B200,64,GPT OSS 120B,4096,1280,4,1,1,,64,1,8,BF16,Megatron-Bridge,26.04.01 NeMo,1", "",
         "", "all-to-all"},
        {"B200,8,Qwen3_30B_a3B,4096,512,1,1,1,,8,1,8,MXFP8,Megatron-Bridge,26.02 NeMo,1", "", "",
         "all-to-all"},
        {"B200,8,Qwen3_30B_a3B,4096,512,4,1,1,,8,1,8,MXFP8,Megatron-Bridge,26.02.01 NeMo,1", "8",
         "", "hybridep"},
        {"H100,16,Qwen3_30B_a3B,4096,512,1,1,2,12,8,1,8,FP8,Megatron-Bridge,26.02 NeMo,1", "8",
         "on", "deepep"},
        {"B300,256,Qwen3_235B_a22B,4096,8192,2,1,8,,32,1,8,MXFP8,Megatron-Bridge,26.04.01 NeMo,1",
         "8", "", "hybridep"},
        {"GB200,64,GPT OSS 120B,4096,1280,4,1,1,,64,1,64,BF16,Megatron-Bridge,26.04 NeMo,1", "4",
         "on", "hybridep"},
        {"B200,64,GPT OSS 120B,4096,1280,4,1,1,,64,1,8,BF16,Megatron-Bridge,26.04 NeMo,1", "4", "",
         "hybridep"},
        {"GB300,64,GPT OSS 120B,4096,1280,4,1,1,,64,1,16,MXFP8,Megatron-Bridge,26.08 NeMo,1", "4",
         "on", "hybridep"},
        {"GB300,8,Qwen3_30B_a3B,4096,512,8,1,1,,8,1,8,MXFP8,Megatron-Bridge,26.04 NeMo,1", "8", "",
         "hybridep"},
        {"GB300,8,Qwen3_30B_a3B,4096,512,8,1,1,,8,1,8,MXFP8,Megatron-Bridge,26.06 NeMo,1", "8",
         "on", "hybridep"},
        {"GB300,256,Qwen3_235B_a22B,4096,8192,2,1,4,12,64,1,32,MXFP8,Megatron-Bridge,26.06 NeMo,1",
         "8", "on", "hybridep"},
        {"B300,256,Qwen3_235B_a22B,4096,8192,1,1,8,4,32,1,8,MXFP8,Megatron-Bridge,26.02 NeMo,1", "",
         "on", "all-to-all"},
        {"B200,256,DeepSeekV3,4096,2048,1,1,8,2,32,1,32,MXFP8,Megatron-Bridge,26.04.01 NeMo,1", "8",
         "on", "deepep"},
        {"B200,256,DeepSeekV3,4096,2048,1,1,16,,16,1,8,MXFP8,Megatron-Bridge,26.04 NeMo,1", "8", "",
         "hybridep"},
    };
    char table[500];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(table, sizeof table, "%s%s\n", TITLES, cases[i].row);
        expect_cell(rows_of("megatron_bridge_performance", table), "dispatch-once", cases[i].once);
        expect_cell(rows_of("megatron_bridge_performance", table), "expert-overlap",
                    cases[i].overlap);
        expect_cell(rows_of("megatron_bridge_performance", table), "dispatcher",
                    cases[i].dispatcher);
    }
}

/* A plan of NVFP4 has whole tensor collectives; those of MXFP8 of 25.11 gather no weights ahead. */
TEST(a_recipe_leaves_out_an_overlap_that_its_precision_has_not)
{
    static const char TITLES[] = "gpu,gpus,model,seq,gbs,mbs,tp,pp,vpp,dp,cp,zero,precision,"
                                 "framework,version,tok_s_gpu\n";
    static const char DDP[] = "DDP/distributed optimizer";
    static const struct {
        const char *gpu, *model, *precision, *version, *tp, *gathers;
    } cases[] = {
        {"GB200", "LLAMA3_70B", "NVFP4", "26.04.01", "backward", ""},
        {"GB300", "LLAMA3.1_405B", "NVFP4", "26.06", "backward", ""},
        {"GB200", "LLAMA3_70B", "MXFP8", "26.04.01", "", ""},
        {"B200", "LLAMA3.1_405B", "FP8-MX", "25.11", "", "off"},
        {"B200", "LLAMA3_8B", "FP8-MX", "25.11", "", ""},
        {"B200", "LLAMA3.1_405B", "FP8-CS", "25.11", "", ""},
        {"GB300", "DeepSeekV3", "FP8-MX", "25.11", "", "off"},
        {"B200", "DeepSeekV3", "FP8-MX", "25.11", "", ""},
        {"B200", "Qwen3_235B_a22B", "FP8-MX", "25.11", "", "off"},
        {"GB200", "Qwen3_235B_a22B", "FP8-MX", "25.11", "", ""},
    };
    char table[500];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(table, sizeof table,
                 "%s%s,64,%s,8192,256,1,2,4,1,8,1,%s,%s,Megatron-Bridge,%s NeMo,1\n", TITLES,
                 cases[i].gpu, cases[i].model, DDP, cases[i].precision, cases[i].version);
        const char *rows = rows_of("megatron_bridge_performance", table);
        expect_cell(rows, "tp-overlap", cases[i].tp);
        expect_cell(rows, "overlap-param-gather", cases[i].gathers);
    }
}

/* Its recipes of 25.09 drop tokens, so each expert has its even share, by all-to-alls; later ones
 * drop none. The page of 25.11 has another group of experts than its recipe. */
TEST(a_recipe_that_drops_tokens_has_a_capacity)
{
    static const char TITLES[] = "gpu,gpus,model,seq,gbs,mbs,tp,pp,vpp,dp,cp,ep,precision,"
                                 "framework,version,tok_s_gpu,moe_variant\n";
    static const struct { const char *row, *capacity, *dispatcher, *ep; } cases[] = {
        {"GB200,8,Qwen3_30B_a3B,4096,512,4,1,1,1,8,1,8,FP8,Megatron-Bridge,25.09 NeMo,1,tokendrop",
         "1", "all-to-all", "8"},
        {"B200,256,DeepSeekV3,4096,2048,1,1,16,1,16,1,8,FP8,Megatron-Bridge,25.09 NeMo,1,tokendrop",
         "1", "all-to-all", "8"},
        {"GB200,8,Qwen3_30B_a3B,4096,512,4,1,1,1,8,1,8,FP8,Megatron-Bridge,25.11 NeMo,1,dropless",
         "", "hybridep", "8"},
        {"B200,64,GPT OSS 120B,4096,512,4,1,1,1,64,1,8,BF16,Megatron-Bridge,25.11 NeMo,1,dropless",
         "", "all-to-all", "64"},
        {"B200,64,GPT OSS 120B,4096,1280,4,1,1,,64,1,8,BF16,Megatron-Bridge,26.04 NeMo,1,dropless",
         "", "hybridep", "8"},
    };
    char table[500];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(table, sizeof table, "%s%s\n", TITLES, cases[i].row);
        const char *rows = rows_of("megatron_bridge_performance", table);
        expect_cell(rows, "expert-capacity", cases[i].capacity);
        expect_cell(rows, "dispatcher", cases[i].dispatcher);
        expect_cell(rows, "ep", cases[i].ep);
    }
}

/* Megatron-Bridge's recipes have whole experts: ranks of tensor groups share them too. */
TEST(experts_that_a_tensor_group_does_not_split_are_shared_by_its_ranks)
{
    static const char TITLES[] =
        "gpu,gpus,model,seq,gbs,mbs,tp,pp,vpp,dp,cp,ep,precision,framework,version,tok_s_gpu\n";
    static const char ROW[] = "H100,256,Qwen3_235B_a22B,4096,8192,1,2,8,4,16,1,32,FP8-CS,"
                              "Megatron-Bridge,26.02 NeMo,1\n";
    char table[500];

    snprintf(table, sizeof table, "%s%s", TITLES, ROW);
    expect_cell(rows_of("megatron_bridge_performance", table), "ep", "32");
    expect_cell(rows_of("megatron_bridge_performance", table), "etp", "1");
}

/* AutoModel's benchmarks have a gate that counts; one that the table does not name is real. */
TEST(a_gate_that_is_balanced_by_counting_has_experts_in_turn)
{
    static const char TITLES[] = "gpu,gpus,gpus_per_node,model,seq,gbs,mbs,grad_accum,tp,pp,dp,cp,"
                                 "ep,zero,precision,framework,kernels,moe_variant,step_s,"
                                 "tok_s_gpu,tflops_gpu,version,task\n";
    static const struct { const char *gate, *in_turn; } cases[] = {
        {"fake balanced gate", "yes"}, {"", ""}};
    char table[500];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(table, sizeof table,
                 "%sH100,8,8,Qwen3 MoE 30B,4096,512,4,16,1,1,8,1,8,FSDP2 group 8,BF16,"
                 "NeMo AutoModel (PyTorch FSDP2),TE + DeepEP,%s,22,,,,pretrain\n",
                 TITLES, cases[i].gate);
        expect_cell(rows_of("nemo_performance", table), "experts-in-turn", cases[i].in_turn);
    }
}

/* InternEvo shares whole parameters out over all ranks; groups of a node are of equal shares. */
TEST(the_ranks_that_share_an_optimizer_are_those_of_the_cell)
{
    static const char TITLES[] =
        "model,gpu,gpus,gbs,mbs,grad_accum,tp,pp,dp,seq,vocab,zero,overlap,precision,framework,"
        "tok_s_gpu,tflops_gpu,mem_gb\n";
    static const struct { const char *zero, *group, *policy; } cases[] = {
        {"\"1, sharded over all DP ranks\"", "", "lpt"},
        {"\"1, sharded over 8 ranks\"", "8", ""},
    };
    char table[500];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(table, sizeof table,
                 "%sinternlm-7b,A100-SXM4-80GB,32,256,2,4,1,1,32,2048,103168,%s,no,bf16,InternEvo,"
                 "3752,,\n", TITLES, cases[i].zero);
        expect_cell(rows_of("internevo_zero1_scaling", table), "zero-group", cases[i].group);
        if (cases[i].policy[0]) /* else no row has the column */
            expect_cell(rows_of("internevo_zero1_scaling", table), "shard-policy", cases[i].policy);
    }
}

/* What a cell begins with is of gradients: InternEvo reduces them beside the backward. */
TEST(gradients_are_reduced_after_the_backward_where_the_cell_says_no)
{
    static const struct { const char *cell, *overlap; } cases[] = {
        {"\"grad sync overlapped, param sync not (config default)\"", ""}, {"no", "off"},
        {"\"no, no TP\"", "off"}, {"none (no TP/PP/grad overlap)", "off"}, {"no TP", ""},
        {"\"True, no TP overlap\"", ""},
    };
    char table[500];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(table, sizeof table,
                 "model,gpu,gpus,gbs,mbs,grad_accum,tp,pp,dp,seq,vocab,zero,overlap,precision,"
                 "framework,tok_s_gpu,tflops_gpu,mem_gb\n"
                 "internlm-7b,A100-SXM4-80GB,32,256,2,4,1,1,32,2048,103168,1,%s,bf16,InternEvo,"
                 "3752,,\n", cases[i].cell);
        if (cases[i].overlap[0])
            expect_cell(rows_of("internevo_zero1_scaling", table), "overlap", cases[i].overlap);
        else /* no row has the column */
            assert_null(strstr(rows_of("internevo_zero1_scaling", table), "overlap"));
    }
}

TEST(hybrid_sharding_has_a_group_a_node)
{
    static const char CSV[] = "zero,gpus_per_node,model,gpu,gpus,gbs,mbs,seq,precision,framework,"
                              "status,mem_kind,step_s,samples_s,tok_s_gpu,tflops_gpu,mfu_pct,"
                              "mem_gb,tflops_kind\n"
                              "HSDP,8,llama2-13b,A100-80GB,128,128,1,4096,bf16,"
                              "fms-fsdp (PyTorch FSDP1),,,,,1700,,,,\n";

    expect_cell(rows_of("misc_training_tables", CSV), "zero", "3");
    expect_cell(rows_of("misc_training_tables", CSV), "zero-group", "8");
}

/* Layers of further tokens, where tokens go and what is computed again are in its recipes. */
TEST(a_hybrid_by_name_has_what_its_recipes_say)
{
    const char *csv = rows_of("megatron_bridge_performance",
                              "gpu,gpus,model,seq,gbs,mbs,tp,dp,ep,precision,framework,version,"
                              "tok_s_gpu\n"
                              "B200,64,Nemotron_3_Super,8192,512,1,1,64,64,MXFP8,Megatron-Bridge,"
                              "26.04 NeMo Container,6302\n");
    static const char *const cells[][2] = {
        {"model", "nemotron-3-super"}, {"mtp-layers", "2"}, {"dispatch-once", "22"},
        {"recompute-modules", "moe_act,layernorm"}, {"framework", "megatron-bridge-eager"},
        {"grad-dtype", "param"},
    };
    char text[4096];

    snprintf(text, sizeof text, "%s", csv);
    for (size_t i = 0; i < sizeof cells / sizeof *cells; i++)
        expect_cell(text, cells[i][0], cells[i][1]);
}

#define HYBRID_TITLES                                                                              \
    "case,platform,env,family,recipe_lists_it,gpu,n_gpus,num-layers,hidden-size,"                  \
    "num-attention-heads,num-query-groups,seq-length,position-embedding-type,micro-batch-size,"    \
    "global-batch-size,pipeline-model-parallel-size,context-parallel-size,bf16,normalization,"     \
    "attention-backend,padded_vocab_derived,other_args,peak_max_bytes\n"
#define HYBRID_ROW(pp, cp, pattern)                                                                \
    HYBRID_TITLES "a,b,dev,hybrid,1,H100,8,,1024,16,8,1024,none,4,32," pp "," cp ",true,RMSNorm,"  \
                  "fused,50304,hybrid-layer-pattern=" pattern ",1000\n"

/* Heads of 64 of twice the hidden size; bars are between stages, after the embedding. */
TEST(arguments_of_a_hybrid_are_its_pattern_and_its_sizes)
{
    static const char *const cells[][2] = {
        {"model", "nemotron-h-8b"}, {"layer-pattern", "M-M*"}, {"ssm-heads", "32"},
        {"expert-latent", ""},
        {"ssm-head-width", "64"}, {"ssm-groups", "8"}, {"ssm-state", "128"}, {"kv-heads", "8"},
        {"head-width", "64"}, {"ffn", "4096"}, {"biases", "yes"}, {"tied", "yes"},
        {"layer-norm", ""}, {"partition", "explicit"}, {"partition-list", "0,3"}, {"layers", ""},
    };
    char text[4096];

    snprintf(text, sizeof text, "%s", rows_of("memory", HYBRID_ROW("2", "1", "M-|M*")));
    for (size_t i = 0; i < sizeof cells / sizeof *cells; i++)
        expect_cell(text, cells[i][0], cells[i][1]);
}

TEST(what_a_hybrid_here_does_not_have_is_refused_by_name)
{
    expect_cell(rows_of("memory", HYBRID_ROW("1", "2", "M-M*")), "why",
                "context groups of state-space layers are not modelled");
    expect_cell(rows_of("memory", HYBRID_ROW("1", "1", "ME/*E")), "why",
                "layers for further tokens other than repeated ones of attention and experts are "
                "not modelled");
    expect_cell(rows_of("memory", HYBRID_ROW("1", "1", "M-M* flextron=True")), "why",
                "widths that change from step to step are not modelled");
}

#define T5_TITLES                                                                                  \
    "case,platform,env,family,recipe_lists_it,gpu,n_gpus,num-layers,encoder-num-layers,"           \
    "decoder-num-layers,hidden-size,num-attention-heads,ffn-hidden-size,encoder-seq-length,"       \
    "decoder-seq-length,max-position-embeddings,micro-batch-size,global-batch-size,bf16,"          \
    "attention-backend,padded_vocab_derived,other_args,peak_max_bytes\n"

/* An encoder and a decoder; the vocabulary is the file's and the sentinels. */
TEST(arguments_of_t5_are_of_two_sequences)
{
    static const char *const cells[][2] = {
        {"model", "megatron-t5"}, {"layers", "12"}, {"seq", "512"}, {"decoder-seq", "128"},
        {"positions", "512"}, {"ffn", "3072"}, {"vocab", "29096"}, {"attention", "full"},
        {"dp", "8"}, {"why", ""},
    };
    char text[4096];

    snprintf(text, sizeof text, "%s",
             rows_of("memory", T5_TITLES "a,b,dev,t5,1,H100,8,,12,12,768,12,3072,512,128,512,4,32,"
                                         "true,unfused,,vocab-extra-ids=100,1000\n"));
    for (size_t i = 0; i < sizeof cells / sizeof *cells; i++)
        expect_cell(text, cells[i][0], cells[i][1]);
    expect_cell(rows_of("memory", T5_TITLES "a,b,dev,t5,1,H100,8,,12,6,768,12,3072,512,128,512,4,"
                                            "32,true,unfused,,,1000\n"),
                "why", "an encoder of other layers than the decoder is not modelled");
}

/* A file of the commit that replaced an image is of its device; without shared state two replicas
 * hold what more do. */
TEST(devices_that_a_golden_file_leaves_out_follow_from_its_name_and_its_arguments)
{
#define LTS_ROW(platform, gpu, n, more)                                                            \
    "case,platform,env,family,recipe_lists_it,gpu,n_gpus,num-layers,hidden-size,"                  \
    "num-attention-heads,num-query-groups,seq-length,position-embedding-type,micro-batch-size,"    \
    "global-batch-size,tensor-model-parallel-size,deterministic-mode,bf16,"                        \
    "use-distributed-optimizer,padded_vocab_derived,other_args,peak_max_bytes\n"                   \
    "a," platform ",lts,gpt,0," gpu "," n ",12,512,8,8,1024,rope,4,32,2,true,true," more           \
    ",50304,,1000\n"
    expect_cell(rows_of("memory", LTS_ROW("lts", "", "8", "")), "cluster", "dgx-a100");
    expect_cell(rows_of("memory", LTS_ROW("lts", "", "8", "")), "attention", "flash");
    expect_cell(rows_of("memory", LTS_ROW("lts_dgx_a100", "A100", "8", "")), "attention", "full");
    expect_cell(rows_of("memory", LTS_ROW("dev", "", "8", "")), "why", "the device is not given");
    expect_cell(rows_of("memory", LTS_ROW("lts", "", "", "")), "dp", "2");
    expect_cell(rows_of("memory", LTS_ROW("lts", "", "", "")), "assumed",
                "two replicas: data ranks share no state");
    expect_cell(rows_of("memory", LTS_ROW("lts", "", "", "true")), "why",
                "the number of devices is not given");
}

TEST(what_a_source_does_not_state_is_named)
{
    const char *csv = rows_of("mlperf_v6_training_steps", RUN_2025
                              "llama-like 1B,H100,8,8,1,8192,16,2048,16,,,,,FP32,torch,2.5,,,,\n");
    expect_cell(csv, "assumed", "vocab 51200: that of GPT-2's tokenizer, padded");
    csv = rows_of("mlperf_v6_training_steps", RUN_2025
                  "llama-like 1B,H100,8,8,1,8192,16,2048,16,,,,,FP32,torch,2.5,,,,\n");
    expect_cell(csv, "dtype", "f32");
}

/* The script beside the table of Llama 3 in 8 bits shards the optimizer and reduces in 16 bits; the
 * other rows are of scripts that reduce in f32. */
TEST(llama_in_megatron_follows_its_script)
{
    static const struct {
        const char *row, *grad_dtype, *zero;
    } cases[] = {
        {"LLAMA3-70B,H100,64,128,4,8,5,,,,FP8 hybrid,1621", "param", "1"},
        {"GPT 1.7B,H100,48,192,1,1,,24,2048,16,bf16,1000", "f32", ""},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char csv[400];
        snprintf(csv, sizeof csv,
                 "model,gpu,gpus,gbs,tp,pp,vpp,layers,hidden,heads,precision,tok_s_gpu,mbs,seq,"
                 "framework,dist_optimizer,tflops_gpu,mfu_pct\n%s,1,8192,Megatron-LM,,,\n",
                 cases[i].row);
        const char *name = "megatron_h100_scaling";
        expect_cell(rows_of(name, csv), "grad-dtype", cases[i].grad_dtype);
        expect_cell(rows_of(name, csv), "zero", cases[i].zero);
    }
}

/* mlperf-common logs on rank 0 alone, Megatron-Bridge of April 2026 on the last rank, torchtitan
 * the largest of all. */
TEST(printed_memory_is_of_the_rank_that_logs)
{
    static const struct {
        const char *table, *row, *rank;
    } cases[] = {
        {"mlperf_training_steps", "llama3.1-8b,Megatron,1", "first"},
        {"mlperf_v6_training_steps", "llama3.1-8b,Megatron,1", "first"},
        {"ablations_moe_recompute_fp8", "llama3.1-8b,Megatron-Bridge PR 3107,1", "last"},
        {"ablations_moe_recompute_fp8", "llama3.1-8b,torchtitan,1", ""},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char csv[400];
        snprintf(csv, sizeof csv,
                 "model,framework,pp,gpu,gpus,gbs,mbs,seq,precision,step_s,tok_s,tok_s_gpu,"
                 "tflops_gpu,mem_gb,mem_gib,mem_kind,layers,hidden,heads,num_microbatches,"
                 "status\n"
                 "%s,H100,8,8,1,8192,bf16,1,,,,50,50,,32,4096,32,1,ok\n", cases[i].row);
        expect_cell(rows_of(cases[i].table, csv), "memory_rank", cases[i].rank);
    }
}

/* Sailor's figure is nvidia-smi's, its programs have GPT-2's vocabulary, and GPT-Neo's blocks keep
 * the scores of 20 heads (eth-easl/sailor@cf2c8e3, sailor/Planner/llm_info.json). */
TEST(what_a_source_measured_tells_its_sizes_and_the_kind_of_its_memory)
{
    static const struct {
        const char *source, *kind, *vocab, *heads, *framework;
    } cases[] = {{"eth-easl/sailor@cf2c8e3:clariden/GPT-NEO/N2/x.json", "device", "50257", "20",
                  "megatron-deepspeed-sailor-neo"},
                 {"eth-easl/sailor@cf2c8e3:clariden/OPT-350/N2/x.json", "device", "50257", "32",
                  "megatron-deepspeed-sailor"},
                 {"other/GPT-NEO/N2", "allocated", "128256", "32", "megatron-deepspeed-sailor"}};
    char csv[700];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(csv, sizeof csv,
                 "source,recompute,model,gpu,gpus,gbs,mbs,seq,layers,hidden,ffn,heads,kv_heads,"
                 "vocab,precision,framework,status,mem_kind,step_s,samples_s,tok_s_gpu,"
                 "tflops_gpu,mfu_pct,mem_gb,tflops_kind,compile\n"
                 "%s,,gpt,GH200-96GB,8,8,1,2048,32,2560,10240,32,32,128256,fp32,"
                 "Megatron-DeepSpeed (Sailor fork),,max over ranks,2,,,,,50,,\n", cases[i].source);
        expect_cell(rows_of("misc_training_2", csv), "memory_kind", cases[i].kind);
        expect_cell(rows_of("misc_training_2", csv), "vocab", cases[i].vocab);
        expect_cell(rows_of("misc_training_2", csv), "heads", cases[i].heads);
        expect_cell(rows_of("misc_training_2", csv), "framework", cases[i].framework);
    }
}

/* What is offloaded, and how, decides the reason. */
TEST(offloads_that_are_not_modelled_are_named)
{
    static const struct {
        const char *offload, *variant, *why;
    } cases[] = {
        {"optimizer (CPU AdamW)", "", ""},
        {"True", "", "what is offloaded to the host is not given"},
        {"", "cumulative: + 8-bit AdamW", "optimizer states of 8 bits are not modelled"},
        {"", "cumulative: + activation offloading",
         "offloaded activations of recomputed blocks are not modelled"},
        {"no", "cumulative: + optimizer in backward", ""},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char csv[500];
        snprintf(csv, sizeof csv,
                 "model,gpu,gpus,gbs,mbs,dp,layers,hidden,heads,seq,vocab,precision,framework,"
                 "cpu_offload,step_variant,status,mem_kind,step_s,tok_s_gpu,tflops_gpu,mem_gb,"
                 "tflops_kind,samples_s,mfu_pct\n"
                 "llama3.2-3b,A100,1,2,2,1,28,3072,24,4096,128256,bf16,torchtune,%s,%s,ok,"
                 "peak,,,,17.6,,,\n", cases[i].offload, cases[i].variant);
        expect_cell(rows_of("misc_training_tables", csv), "why", cases[i].why);
    }
}

static void check_shared(const char *name)
{
    char words[200];
    int rc;

    snprintf(words, sizeof words, "check.py %s $P/../shared", name);
    const char *out = python(words, &rc);
    if (rc == 4) {
        print_message("SKIP %s: ../shared has no table\n", name);
        skip();
    }
    if (rc != 0)
        fail_msg("%s: exit %d:\n%s", name, rc, out);
}

TEST(no_measured_cell_decides_an_option)
{
    check_shared("doubled");
}

TEST(no_table_loses_rows)
{
    check_shared("coverage");
}

TEST(known_models_have_the_blocks_that_are_listed)
{
    python("check.py layers $L", NULL);
}

/* Hybrids as a user names them: a name, a file of the model, a config.json and a pattern by options
 * give one plan. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <string.h>

#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"

TEST_GROUP(fixture_open, fixture_close)

#define PATTERN "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME"
#define GROUPS " -c dgx-h100 --seq 8192 --dp 4 --ep 4 --zero 1 --micro-batches 2 --no-db -q "

/* The plan's hash and its step. */
static void plan_of(const char *model, char *text, size_t size)
{
    const char *out = shellf("$L sim %s" GROUPS "--format json 2>/dev/null | tr ',' '\n' | "
                             "grep -E 'plan_hash|\"step_ns\"'", model);

    if (!strstr(out, "plan_hash"))
        fail_msg("%s: %s", model, out);
    snprintf(text, size, "%s", out);
}

TEST(a_name_a_file_a_configuration_and_options_are_one_model)
{
    static const char *const ways[] = {
        "-w nano.json", "-w nano",
        "-w nemotron-h-8b --layer-pattern '" PATTERN "' --hidden 2688 --heads 32 --kv-heads 2 "
        "--ssm-heads 64 --experts 128 --topk 6 --expert-ffn 1856 --shared-ffn 3712",
    };
    char first[400], other[400];

    shell("$L model nemotron-3-nano -o nano.json", NULL);
    shell("mkdir -p nano", NULL);
    fixture_put(fixture_path("nano/config.json"),
                "{\"model_type\": \"nemotron_h\", \"hidden_size\": 2688, "
                "\"num_attention_heads\": 32, \"num_key_value_heads\": 2, \"vocab_size\": 131072, "
                "\"max_position_embeddings\": 262144, \"intermediate_size\": 1856, "
                "\"hybrid_override_pattern\": \"" PATTERN "\", \"mamba_num_heads\": 64, "
                "\"n_routed_experts\": 128, \"num_experts_per_tok\": 6, "
                "\"moe_intermediate_size\": 1856, "
                "\"moe_shared_expert_intermediate_size\": 3712}");
    plan_of("-w nemotron-3-nano", first, sizeof first);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        plan_of(ways[i], other, sizeof other);
        assert_string_equal(other, first);
    }
}

/* A file of the workload has all that its configuration says, of linear attention too. */
TEST(a_file_and_a_configuration_of_linear_attention_are_the_named_model)
{
    static const char *const ways[] = {"-w next.json", "-w next"};
    char first[400], other[400];

    shell("$L model qwen3-next-80b-a3b -o next.json", NULL);
    shell("mkdir -p next", NULL);
    fixture_put(fixture_path("next/config.json"),
                "{\"model_type\": \"qwen3_next\", \"hidden_size\": 2048, "
                "\"num_hidden_layers\": 48, \"num_attention_heads\": 16, "
                "\"num_key_value_heads\": 2, \"vocab_size\": 151936, "
                "\"max_position_embeddings\": 262144, \"intermediate_size\": 5632, "
                "\"num_experts\": 512, \"num_experts_per_tok\": 10, "
                "\"moe_intermediate_size\": 512, \"shared_expert_intermediate_size\": 512}");
    plan_of("-w qwen3-next-80b-a3b", first, sizeof first);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        plan_of(ways[i], other, sizeof other);
        assert_string_equal(other, first);
    }
}

/* Layers divide by their number: 52 over 4 stages, the embedding with the first and the head with
 * the last. */
TEST(a_pipeline_divides_layers_by_number)
{
    const char *out = shell("$L plan -w nemotron-h-8b --pp 4 --partition megatron -c dgx-h100 "
                            "-o p.json", NULL);

    if (!strstr(out, "modules 0 to 13,") || !strstr(out, "modules 14 to 26,") ||
        !strstr(out, "modules 27 to 39,") || !strstr(out, "modules 40 to 53,"))
        fail_msg("%s", out);
}

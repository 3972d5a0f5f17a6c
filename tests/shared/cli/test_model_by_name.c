/* -w takes a model by its name: the same plan and step as of the workload that `lapwing model`
 * writes with the shapes of the strategy's ranks. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"

static double number_at(const char *text, const char *key)
{
    const char *at = strstr(text, key);

    if (!at)
        fail_msg("no %s in %s", key, text);
    return strtod(at + strlen(key), NULL);
}

/* Of a file that was made for an H100, on the same and on other devices. */
static void same(const char *model, const char *shape, const char *strategy)
{
    static const char *const systems[] = {"dgx-h100", "dgx-a100", "l40s"};
    static const char command[] = "sim -w %s -c %s %s --no-db --format csv 2>log | grep -v wall_s";

    lapwingf("model %s --device dgx-h100 %s -o w.json --force", model, shape);
    for (size_t i = 0; i < sizeof systems / sizeof *systems; i++) {
        char *first = strdup(lapwingf(command, model, systems[i], strategy));
        assert_non_null(first);
        assert_string_equal(first, lapwingf(command, "w.json", systems[i], strategy));
        assert_non_null(strstr(first, "plan_hash"));
        free(first);
    }
}

TEST_WITH(a_name_and_its_file_are_one_workload, fixture_open, fixture_close)
{
    same("gpt2", "", "--dp 8");
    same("gpt-1.3b", "", "--dp 8");
    same("llama-3-8b", "--tp 8 --sequence-parallel", "--tp 8 --sequence-parallel on --dp 2");
    same("mixtral-8x7b", "--ep 8", "--dp 64 --ep 8 --zero 1");
    same("llama-3-8b", "--cp 2 --framework megatron-lm",
         "--dp 2 --cp 2 --cp-comm-type p2p --pp 2 --micro-batches 4 --framework megatron-lm");
    same("bert-large", "--tp 2", "--tp 2 --zero 2 --dp 2 --recompute full");
}

TEST_WITH(the_device_is_of_the_cluster_or_the_named_one, fixture_open, fixture_close)
{
    lapwing("plan -w gpt2 -c dgx-h100 --dp 8 -o h100.json", NULL);
    lapwing("plan -w gpt2 --device dgx-h100 --dp 8 -o named.json", NULL);
    lapwing("plan -w gpt2 -c dgx-a100 --dp 8 -o a100.json", NULL);
    char *h100 = strdup(lapwing("sim h100.json -c dgx-h100 --no-db | grep ^step", NULL));
    assert_non_null(h100);
    assert_string_equal(h100, lapwing("sim named.json -c dgx-h100 --no-db | grep ^step", NULL));
    assert_string_not_equal(h100, lapwing("sim a100.json -c dgx-a100 --no-db | grep ^step", NULL));
    free(h100);
}

/* A context group divides what depends on tokens once: its model FLOPs are the same, activations
 * are a half, and computing takes about a half, of smaller kernels. */
TEST_WITH(a_context_group_divides_a_model_once, fixture_open, fixture_close)
{
    static const char run[] = "sim -w llama-3-8b -c dgx-h100 --dp 2 --cp %d --framework ideal "
                              "--no-db --format json";
    double flops[2], busy[2], kept[2];
    char line[200];

    for (int k = 0; k < 2; k++) {
        snprintf(line, sizeof line, run, k + 1);
        const char *out = lapwing(line, NULL);
        flops[k] = number_at(out, "\"model_flops_per_step\": ");
        busy[k] = number_at(out, "\"compute_busy_ns\": ") - 78967e3; /* the optimizer's */
        kept[k] = number_at(out, "\"activations_bytes\": ");
    }
    assert_true(flops[0] == flops[1]);
    assert_true(kept[1] > 0.49 * kept[0] && kept[1] < 0.55 * kept[0]);
    assert_true(busy[1] > 0.5 * busy[0] && busy[1] < 0.55 * busy[0]);
}

/* Of a recording, times of whole products divided by a tensor group are too short, and that is
 * said. */
TEST_WITH(products_of_other_groups_are_said, fixture_open, fixture_close)
{
    static const char said[] = "workload 'llama-3-8b' is timed by the products of --tp 1 --cp 1";

    recording_of_model("llama-3-8b --device dgx-h100", "w.json");
    expect("sim -w w.json -c dgx-h100 --dp 2 --tp 8 --no-db", 0, said);
    expect("plan -w w.json -c dgx-h100 --dp 2 --tp 2", 0, said);
    assert_null(strstr(lapwing("sim -w w.json -c dgx-h100 --dp 16 --no-db 2>&1", NULL), said));
    assert_null(
        strstr(lapwing("sim -w llama-3-8b -c dgx-h100 --dp 2 --tp 8 --no-db 2>&1", NULL), said));
}

/* Llama 2 13B has 40 heads, Llama 3 8B 32 and 8 of keys and values, in sequences of 8,192 tokens;
 * by name, and from a recording of one rank. */
TEST_WITH(groups_that_do_not_divide_heads_or_sequences_are_refused, fixture_open, fixture_close)
{
    recording_of_model("llama-2-13b --device dgx-a100", "13b.json");
    recording_of_model("llama-3-8b --device dgx-h100", "8b.json");
    EXPECT("sim --no-db -w",
           {"llama-2-13b -c dgx-a100 --tp 16", 1,
            "--tp: found 16, allowed: divisors of the heads, 40"},
           {"llama-2-13b -c dgx-a100 --tp 8", 0, "step "},
           {"13b.json -c dgx-a100 --tp 16", 1,
            "--tp 16: workload 'llama-2-13b' has 40 heads, which 16 ranks cannot divide: choose a "
            "--tp that divides 40"},
           {"llama-3-8b -c dgx-h100 --tp 16", 1,
            "--tp: found 16, allowed: divisors of the heads of keys and values, 8"},
           {"8b.json -c dgx-h100 --tp 16", 1,
            "has 8 heads of keys and values, which 16 ranks cannot divide: choose a --tp that "
            "divides 8"},
           {"llama-3-8b -c dgx-h100 --cp 3", 1, "--cp: found 3, allowed: those that cut the "
                                                "sequence, 8192 tokens"},
           {"8b.json -c dgx-h100 --cp 3", 1, "8192 tokens, expected a multiple of 6 (2 x --cp"},
           {"8b.json -c dgx-h100 --cp 2", 0, "step "});
    EXPECT("model", {"llama-2-13b --tp 16 --device dgx-a100", 1, "--tp: found 16"},
           {"llama-3-8b --tp 16 --kv-heads 16 --device dgx-h100", 0, "16 heads of keys and values"},
           {"llama-3-8b --cp 3 --device dgx-h100", 1, "--cp: found 3"});
}

/* The A100 multiplies no 8-bit floats; of the MI350X no speed of theirs is known. */
TEST_WITH(products_of_8_bits_need_a_device_that_has_them, fixture_open, fixture_close)
{
    static const char lacks[] = "has no fp8_speedup (of 8-bit products against bf16)";

    EXPECT("model llama-3-8b --fp8",
           {"--device dgx-a100", 1, "--fp8: device 'A100-SXM4-80GB' has no fp8_speedup"},
           {"--device l40s", 1, lacks}, {"--device mi300x", 0, "step of one device"},
           {"--device dgx-h100", 0, "step of one device"});
    recording_of_model("llama-3-8b --fp8 --device dgx-h100", "w.json");
    lapwing("plan -w w.json -c dgx-h100 -o p.json", NULL);
    EXPECT("sim --no-db", {"-w w.json -c dgx-h100", 0, "step "},
           {"-w w.json --device dgx-a100 -c dgx-a100", 1, lacks},
           {"p.json --device dgx-a100 -c dgx-a100", 1, lacks});
}

static char *figures(const char *args)
{
    char line[300];

    snprintf(line, sizeof line, "sim %s --no-db --format csv 2>/dev/null", args);
    char *kept = strdup(lapwing(line, NULL));
    assert_non_null(kept);
    return kept;
}

static void equal_figures(const char *first, const char *second)
{
    char *a = figures(first), *b = figures(second);

    assert_true(strlen(a) > 100);
    assert_string_equal(a, b);
    free(a);
    free(b);
}

/* A file that was made from a model has the model's figures wherever it is used. */
TEST_WITH(a_models_file_is_computed_again_for_other_devices_and_groups, fixture_open, fixture_close)
{
    static const char made[] = "workload 'llama-3-8b' was made from model 'llama-3-8b' for "
                               "A100-SXM4-80GB (tp 1, cp 1, ep 1, framework torch-ddp); it is "
                               "computed again for H100-SXM5-80GB (tp 8, cp 1, ep 1, framework "
                               "megatron-lm)";

    lapwing("model llama-3-8b --device dgx-a100 --batch 2 --seq 2048 -o w.json", NULL);
    expect("sim -w w.json -c dgx-h100 --tp 8 --no-db", 0, made);
    equal_figures("-w w.json -c dgx-h100 --tp 8",
                  "-w llama-3-8b --batch 2 --seq 2048 -c dgx-h100 --tp 8");
    equal_figures("-w w.json -c dgx-a100 --tp 2 --sequence-parallel on",
                  "-w llama-3-8b --batch 2 --seq 2048 -c dgx-a100 --tp 2 --sequence-parallel on");
    equal_figures("-w w.json -c dgx-a100 --dp 2 --seq 1024",
                  "-w llama-3-8b --batch 2 --seq 1024 -c dgx-a100 --dp 2");
    EXPECT("sim --no-db",
           {"-w w.json -c dgx-a100 --dp 2", 0, "step ", .lacks = "computed again"},
           {"-w w.json -c dgx-h100 --dp 2 --as-recorded", 0, "cluster 'dgx-h100 with A100-SXM4",
            .lacks = "computed again"},
           {"-w w.json -c dgx-h100 --dp 2 --device dgx-h100", 0, "computed again for H100"},
           {"-w w.json -c dgx-h100 --dp 2 --device dgx-h100 --from-device dgx-a100", 0,
            "times of device 'H100-SXM5-80GB' from those of", .lacks = "computed again"});
    expect("plan -w w.json --dp 2 --tp 2", 0, "computed again for A100-SXM4-80GB (tp 2, cp 1, ep");
    expect("plan -w w.json --dp 2", 0, "framework torch-ddp ("); /* not of this machine's device */
}

/* Times of a device that the user calls unknown are kept. */
TEST_WITH(times_of_an_unknown_device_are_not_made_again, fixture_open, fixture_close)
{
    lapwing("model mlp -o w.json", NULL);
    shell("sed -i 's/\"device\": \"cpu core\"/\"device\": \"unknown\"/' w.json", NULL);
    EXPECT("sim -w w.json -c dgx-h100 --dp 2 --no-db",
           {"", 0, "the workload names no device: its times are taken to be of",
            .lacks = "computed again"},
           {"--tp 2", 0, "step ", .lacks = "computed again"},
           {"--batch 8", 0, "computed again for H100"});
}

/* bf16 has no peak on this machine: the file has sizes, and each use makes the times. */
TEST_WITH(a_model_needs_no_device, fixture_open, fixture_close)
{
    expect("model llama-2-13b", 0, "13015864320 elements");
    expect("model llama-2-13b --format json", 0, "\"step_ns\": null");
    expect("model llama-2-13b -o w.json", 0, "sizes alone");
    expect("sim -w w.json -c dgx-h100 --dp 8 --zero 3 --no-db", 0,
           "for no device (tp 1, cp 1, ep 1); it is computed again for H100-SXM5-80GB");
    equal_figures("-w w.json -c dgx-h100 --dp 8 --zero 3",
                  "-w llama-2-13b -c dgx-h100 --dp 8 --zero 3");
    expect("sim -w w.json --no-db", 1, "for this machine (-c NAME takes another cluster): device");
    expect("exec -w w.json --no-db", 1, "has no peak_flops.bf16");
}

static const char config[] =
    "{\"model_type\": \"llama\", \"num_hidden_layers\": 2, \"hidden_size\": 512, "
    "\"num_attention_heads\": 8, \"num_key_value_heads\": 4, \"intermediate_size\": 1408, "
    "\"vocab_size\": 1000, \"max_position_embeddings\": 256}";

/* The file, its folder, and the workload that keeps its sizes are one model. */
TEST_WITH(a_configuration_or_its_folder_is_a_model, fixture_open, fixture_close)
{
    shellf("mkdir hf && echo '%s' >hf/config.json", config);
    lapwing("model hf --device dgx-h100 -o w.json", NULL);
    equal_figures("-w hf -c dgx-h100 --dp 2", "-w hf/config.json -c dgx-h100 --dp 2");
    equal_figures("-w hf -c dgx-h100 --dp 2", "-w w.json -c dgx-h100 --dp 2");
    equal_figures("-w hf -c dgx-a100 --tp 2 --batch 4",
                  "-w decoder --layers 2 --hidden 512 --heads 8 --kv-heads 4 --ffn 1408 --vocab "
                  "1000 --seq 256 -c dgx-a100 --tp 2 --batch 4");
    shell("rm -r hf", NULL); /* the workload depends on no file */
    equal_figures("-w w.json -c dgx-a100 --tp 2 --batch 4",
                  "-w decoder --layers 2 --hidden 512 --heads 8 --kv-heads 4 --ffn 1408 --vocab "
                  "1000 --seq 256 -c dgx-a100 --tp 2 --batch 4");
    shell("mkdir empty gpt2", NULL);
    expect("sim -w empty -c dgx-h100 --no-db", 1, "empty/config.json: cannot open");
    expect("sim -w gpt2 -c dgx-h100 --no-db", 0, "step ");
}

/* A step has as many samples as --global-batch: dp * micro-batches * batch * (no_sync + 1). */
TEST_WITH(a_global_batch_gives_micro_batches_or_samples, fixture_open, fixture_close)
{
    static const char samples[] = "\"samples_per_step\": 48";

    EXPECT("sim -w gpt2 --layers 2 -c dgx-h100 --no-db --format json --global-batch 48 --dp 2",
           {"--batch 4", 0, samples}, {"--batch 2 --no-sync 3", 0, samples},
           {"--micro-batches 6", 0, samples, {"\"n_ranks\": 2"}},
           {"--batch 4 --micro-batches 6", 0, samples},
           {"--batch 5", 1, "does not divide into micro-batches of 5 samples on --dp 2: take a "
                            "multiple of 10"},
           {"--micro-batches 5", 1, "take a multiple of 10"},
           {"--batch 4 --micro-batches 3", 1, "which make 24: leave out --micro-batches"});
    equal_figures("-w gpt2 -c dgx-h100 --dp 2 --batch 4 --global-batch 48",
                  "-w gpt2 -c dgx-h100 --dp 2 --batch 4 --micro-batches 6");
    expect("recommend -w gpt2 --layers 2 --batch 4 -c dgx-h100 --dp 2 --global-batch 48", 0, "cap");
    expect("exec -w mlp --dp 2 --batch 4 --global-batch 16 --steps 1 --warmup 0 --compute sleep "
           "--no-db", 0, "verified");
}

/* Options of a model have nothing to change where there is none. */
TEST_WITH(options_of_a_model_need_one, fixture_open, fixture_close)
{
    recording_of_model("gpt2 --layers 2 --device dgx-h100", "w.json");
    lapwing("plan -w w.json --dp 2 -o p.json", NULL);
    expect("sim -w w.json -c dgx-h100 --seq 512 --no-db", 1,
           "--seq is of a model: workload 'w.json' was not made from one");
    expect("sim p.json -c dgx-h100 --batch 2 --no-db", 2, "--batch is of a model and needs -w: it "
                                                          "does not apply to a plan file");
    expect("plan --schedule 1f1b --pp 2 --micro-batches 4 --fp8", 2, "--fp8 is of a model");
    expect("sim -w llama-2-7b -c dgx-a100 --fp8 --no-db", 1, "has no fp8_speedup");
}

TEST_WITH(recommend_and_exec_take_a_name, fixture_open, fixture_close)
{
    expect("recommend gpt2 -c dgx-h100 --dp 8", 0, "keep the default cap: 13 buckets");
    expect("recommend -w gpt2 -c dgx-h100 --dp 8", 0, "keep the default cap: 13 buckets");
    expect("exec -w mlp --dp 2 --steps 1 --warmup 0 --compute sleep --no-db", 0, "verified");
}

TEST_WITH(a_file_of_that_name_wins, fixture_open, fixture_close)
{
    lapwing("model mlp --layers 4 -o w.json", NULL);
    shell("mv w.json gpt2", NULL);
    expect("plan -w gpt2", 0, "plan ");
    expect("sim -w gpt2 --no-db --format json", 0, "\"plan\": \"mlp dp1\"");
}

/* What a configuration says of weights and of blocks for further tokens, and what is trained: also
 * when a file of it is computed again. */
TEST_WITH(what_a_configuration_has_beside_its_sizes_is_told, fixture_open, fixture_close)
{
    static const char glm[] =
        "{\"model_type\": \"glm4_moe\", \"num_hidden_layers\": 4, \"hidden_size\": 512,"
        " \"num_attention_heads\": 8, \"num_key_value_heads\": 2, \"head_dim\": 64,"
        " \"intermediate_size\": 1024, \"moe_intermediate_size\": 256, \"n_routed_experts\": 8,"
        " \"num_experts_per_tok\": 2, \"first_k_dense_replace\": 1, \"vocab_size\": 1024,"
        " \"n_shared_experts\": 0, \"num_nextn_predict_layers\": 1,"
        " \"max_position_embeddings\": 256,"
        " \"torch_dtype\": \"bfloat16\", \"quantization_config\": {\"quant_method\": \"fp8\"}}";
    const char *blocks = "num_nextn_predict_layers is 1; blocks for further tokens that are";
    const char *stored = "config.json stores its weights as fp8; they are trained as bf16";

    fixture_put(fixture_path("glm.json"), glm);
    EXPECT("sim --dp 2 --no-db -w",
           {"glm.json -c dgx-h100", 0, blocks, {stored}},
           {"glm.json -c dgx-h100 --mtp-layers 1", 0, stored, .lacks = "num_nextn"},
           {"glm.json -c dgx-h100 --dtype bf16", 0, blocks, .lacks = "stores its weights"});
    lapwing("model glm.json --device dgx-a100 -o w.json", NULL);
    expect("sim --dp 2 --no-db -w w.json -c dgx-h100", 0, stored);
    expect("sim --dp 2 --no-db -w w.json -c dgx-h100", 0, blocks);
}

/* Also when a file of it is computed again. */
TEST_WITH(what_stands_beside_the_text_is_told, fixture_open, fixture_close)
{
#define TEXT                                                                                       \
    "\"text_config\": {\"model_type\": \"llama\", \"num_hidden_layers\": 2,"                       \
    " \"hidden_size\": 512, \"num_attention_heads\": 8, \"intermediate_size\": 1024,"              \
    " \"vocab_size\": 1024, \"max_position_embeddings\": 256}}"
    const char *note = "the parameters, memory and time of its vision_config are left out";

    fixture_put(fixture_path("seen.json"),
                "{\"model_type\": \"llava\", \"vision_config\": {}, " TEXT);
    fixture_put(fixture_path("text.json"), "{\"model_type\": \"llava\", " TEXT);
    EXPECT("sim --dp 2 --no-db -w", {"seen.json -c dgx-h100", 0, note},
           {"text.json -c dgx-h100", 0, "step", .lacks = "are left out"});
    lapwing("model seen.json --device dgx-a100 -o w.json", NULL);
    expect("sim --dp 2 --no-db -w w.json -c dgx-h100", 0, note);
}

TEST_WITH(name_of_no_file_and_no_model_is_refused, fixture_open, fixture_close)
{
    expect("sim -w gptt2 -c dgx-h100", 1, "gptt2: no such file; as a model: no model 'gptt2' "
                                          "(did you mean 'gpt2'?)");
    expect("sim -w ./gpt2 -c dgx-h100", 1, "./gpt2: no such file; as a model: no model './gpt2' "
                                           "(did you mean 'gpt2'?)");
    expect("sim -w meta-llama/Llama-3.1-8B -c dgx-h100", 1, "(did you mean 'llama-3-8b'?)");
    expect("sim -w gpt2.json -c dgx-h100", 1, "gpt2.json: cannot open");
    expect("sim -w llama-3-8b", 1, "choose another device, or --dtype f32");
    expect("sim -w llama-3-8b", 1, "; or give its cluster (-c NAME)");
    /* of the same width where the device has one */
    expect("sim -w llama-3-8b -c v100-ib", 1, "choose another device, or --dtype f16");
}
static double step_of(const char *args)
{
    return number_at(lapwingf("sim -w %s --no-db --format json 2>log", args), "\"step_ns\": ");
}

/* An edit of a file that is computed again from its model would be lost: its own kernels are timed,
 * where they are those of the framework and the groups. */
TEST_WITH(an_edited_file_is_not_computed_again, fixture_open, fixture_close)
{
    lapwing("model gpt2 --framework ideal -o m.json", NULL);
    double whole = step_of("m.json -c dgx-h100");
    shell("sed -i '0,/\"n\": 3072/s//\"n\": 3584/' m.json", NULL);
    expect("sim -w m.json -c dgx-h100 --no-db", 1, "m.json: at modules[1]: times of");
    shell("sed -i 's/, \"[a-z_]*_ns\": [0-9.]*//g; /^  \"[a-z]*_ns\"/d; /^    \"device\"/d' m.json",
          NULL);
    expect("sim -w m.json -c dgx-h100 --no-db", 0, "m.json: its kernels are timed for H100");
    assert_true(step_of("m.json -c dgx-h100") > 1.01 * whole);
    assert_true(step_of("m.json -c dgx-a100") > 1.5 * whole);
    expect("plan -w m.json", 0, "no times: give -c NAME");
    expect("sim -w m.json -c dgx-h100 --cp 2 --no-db", 1, "which kernels it has depends on");
    expect("sim -w m.json -c dgx-h100 --framework nemo --no-db", 1,
           "its kernels are of another framework");
    expect("sim -w m.json -c dgx-h100 --seq 512 --no-db", 0, "its edits are dropped");
    /* so is a file that another program wrote again */
    lapwing("model gpt2 -o n.json", NULL);
    shell("tr -d '\\n' < n.json | sed 's/\"sample_tokens\": 1024/\"sample_tokens\": 512/' > o.json",
          NULL);
    expect("sim -w o.json -c dgx-h100 --no-db --framework nemo", 1,
           "o.json: was edited, and would be computed again");
}

/* The default is no narrow width: one as wide as the model has two products in each of its 23
 * layers of experts. */
TEST_WITH(help_has_the_default_of_a_width_of_experts, fixture_open, fixture_close)
{
    const char *help = lapwing("help model", NULL);
    const char *at = strstr(help, "--expert-latent"), *end = at ? strstr(at, "\n      --") : NULL;

    assert_non_null(end);
    assert_true(strstr(at, "(none)") && strstr(at, "(none)") < end);
    double none = number_after(lapwing("model nemotron-3-nano --format json", NULL),
                               "\"numel\": ");
    double wide = number_after(lapwing("model nemotron-3-nano --expert-latent 2688 --format json",
                                       NULL), "\"numel\": ");
    assert_true(wide - none == 23 * 2.0 * 2688 * 2688);
}

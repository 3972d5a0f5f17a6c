/* The first lines of a prediction, and the same figures in JSON. */
#include "tests/lib/unit.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/prng.h"

static double number_at(const char *text, const char *key)
{
    const char *at = strstr(text, key);

    if (!at)
        fail_msg("no %s in %s", key, text);
    return strtod(at + strlen(key), NULL);
}

static void near(double a, double b)
{
    if (fabs(a - b) > 1e-8 * fabs(b))
        fail_msg("%.15g, expected %.15g", a, b);
}

/* 989.5 and 1,979 TFLOP/s are the H100's dense peaks; the head (bf16) has a small part of FLOPs. */
TEST_WITH(mfu_is_over_the_peak_of_the_type_that_ran, fixture_open, fixture_close)
{
    static const struct {
        const char *option, *peak;
        double tflops;
    } cases[] = {{"", "\"mfu_peak\": \"bf16\"", 989.5}, {"--fp8", "\"mfu_peak\": \"fp8\"", 1979}};

    for (int k = 0; k < 2; k++) {
        const char *out = lapwingf("sim -w llama-2-7b %s -c dgx-h100 --dp 8 --no-db --format json",
                                   cases[k].option);
        assert_non_null(strstr(out, cases[k].peak));
        near(number_at(out, "\"peak_tflops_per_s_per_device\": "), cases[k].tflops);
        near(number_at(out, "\"mfu_pct\": "),
             100 * number_at(out, "\"model_tflops_per_s_per_device\": ") / cases[k].tflops);
        near(number_at(out, "\"tokens_per_s\": "),
             8 * 4096 / (number_at(out, "\"step_ns\": ") * 1e-9));
    }
    expect("sim -w llama-2-7b --fp8 -c dgx-h100 --dp 8 --no-db", 0,
           "of the fp8 peak, 1979 TFLOP/s");
    expect("sim -w llama-2-7b --fp4 -c gb300 --dp 8 --no-db", 0,
           "of the nvfp4 peak, 15000 TFLOP/s");
    expect("sim -w gpt2 --dtype f32 --tf32 -c dgx-a100 --dp 8 --no-db", 0,
           "of the tf32 peak, 156 TFLOP/s");
    expect("sim -w gpt2 --dtype f32 -c dgx-a100 --dp 8 --no-db", 0,
           "of the f32 peak, 19.5 TFLOP/s");
    /* a device whose 8-bit peak is not known has no MFU of 8-bit products */
    shell("$L cluster dgx-h100 -o c.json; sed -i '/fp8_peak_flops/d' c.json", NULL);
    expect("sim -w llama-2-7b --fp8 -c c.json --dp 8 --no-db --format json", 0,
           "\"mfu_peak\": null");
}

/* A tenth of the copies of tokens is computed: model FLOPs pass the peak, hardware FLOPs do not. */
TEST_WITH(an_mfu_beyond_the_peak_says_why, fixture_open, fixture_close)
{
    const char *out = lapwing("sim -w grok-1 -c dgx-h100 --seq 8192 --batch 2 --dp 64 --ep 8 "
                              "--zero 3 --expert-capacity 0.1 --no-db --format json", NULL);

    assert_true(number_at(out, "\"mfu_pct\": ") > 100);
    assert_true(number_at(out, "\"hardware_flops_per_step\": ") <
                number_at(out, "\"model_flops_per_step\": "));
    EXPECT("sim -w grok-1 -c dgx-h100 --seq 8192 --batch 2 --dp 64 --ep 8 --zero 3 --no-db",
           {"--expert-capacity 0.1", 0, "FLOPs, of which experts drop a part"},
           {"--expert-capacity 0.1", 0, "--expert-capacity 0.1 drops 90 % of the copies"});
}

TEST_WITH(overlap_is_the_hidden_share_of_communication, fixture_open, fixture_close)
{
    const char *out = lapwing("sim -w gpt2 -c dgx-h100 --dp 8 --no-db --format json", NULL);
    double busy = number_at(out, "\"comm_busy_ns\": ");
    double exposed = number_at(out, "\"exposed_comm_ns\": ");

    assert_true(busy > exposed && exposed > 0);
    assert_true(fabs(number_at(out, "\"overlap_pct\": ") - 100 * (busy - exposed) / busy) < 1e-3);
    EXPECT("sim -w gpt2 -c dgx-h100 --no-db",
           {"", 0, "overlap: nothing is communicated"},
           {"--format json", 0, "\"overlap_pct\": null"},
           {"--dp 8", 0, "of communication "});
}

/* A plan file says what a step yields, and so has the rates of the command that made it. */
TEST_WITH(a_plan_file_has_the_rates_of_its_command, fixture_open, fixture_close)
{
    static const char *const models[] = {
        "gpt2 --dp 2 --micro-batches 3", "llama-2-7b --fp8 --dp 8 --zero 3 --recompute full",
        "mixtral-8x7b --dp 8 --ep 8 --recompute selective", "resnet50 --dp 4 --no-sync 1"};
    static const char *const keys[] = {
        "\"samples_per_step\": ", "\"samples_per_s\": ", "\"model_flops_per_step\": ",
        "\"hardware_flops_per_step\": "};
    enum { N_KEYS = sizeof keys / sizeof *keys };

    for (size_t k = 0; k < sizeof models / sizeof *models; k++) {
        double made[N_KEYS];
        char *out = strdup(lapwingf("sim -w %s -c dgx-h100 --no-db --format json", models[k]));
        for (int i = 0; i < N_KEYS; i++)
            made[i] = number_at(out, keys[i]);
        free(out);
        lapwingf("plan -w %s -c dgx-h100 -o p.json --force", models[k]);
        const char *of_file = lapwing("sim p.json -c dgx-h100 --no-db --format json", NULL);
        for (int i = 0; i < N_KEYS; i++)
            near(number_at(of_file, keys[i]), made[i]);
    }
}

TEST_WITH(a_rank_must_fit_where_it_is_asked_for, fixture_open, fixture_close)
{
    EXPECT("sim -c dgx-h100 --dp 2 --no-db",
           {"-w gpt2 --must-fit", 0, "that it reports: fits", {"memory "}},
           {"-w llama-2-70b", 0, "does not fit", {"too much"}},
           {"-w llama-2-70b --must-fit", 3, "lacks", {"does not fit"}},
           {"-w llama-2-70b --must-fit --format json", 3, "\"fits\": false"});
    EXPECT("sim -c dgx-a100 --dp 2 --no-db -w gpt2 --batch",
           {"26", 0, "that it reports: fits", .lacks = "with less room"},
           {"27", 0, "that it reports: fits, with less room than the error of"},
           {"28", 0, "that it reports: may not fit, 1.53 GiB too much, less than"},
           {"28 --must-fit", 3, "lacks 1.53 GiB, less than the error of"},
           {"28 --format json", 0, "\"memory_close\": true"},
           {"26 --format json", 0, "\"memory_close\": false"},
           {"30", 0, "does not fit", .lacks = ", less than"});
    shell("$L cluster dgx-h100 -o c.json; sed -i '/\"memory_bytes\":/d' c.json", NULL);
    expect("sim -w gpt2 -c c.json --must-fit --no-db", 1,
           "the cluster does not say how much memory a device has (device.memory_bytes)");
    expect("sim -w gpt2 -c c.json --no-db --format json", 0, "\"fits\": null");
    expect("sim --replay x.json --must-fit", 2, "--must-fit is for a plan");
}

/* Devices are sold in decimal GB and report other sizes. */
TEST_WITH(the_capacity_is_what_the_device_reports, fixture_open, fixture_close)
{
    static const char *const reports[][2] = {
        {"a10g", "22.49 GiB"},      {"l40s", "44.99 GiB"},      {"v100-ib", "15.78 GiB"},
        {"p4d", "39.59 GiB"},       {"dgx-a100", "79.35 GiB"},  {"dgx-h100", "79.65 GiB"},
        {"dgx-h200", "140.40 GiB"}, {"p5en", "140.40 GiB"},     {"a3-ultra", "140.40 GiB"},
        {"dgx-b200", "178.35 GiB"}, {"dgx-b300", "268.59 GiB"}, {"gb200", "185.03 GiB"},
        {"gb300", "277.55 GiB"},    {"mi300x", "191.98 GiB"},
    };
    char args[64], says[64];

    for (size_t i = 0; i < sizeof reports / sizeof *reports; i++) {
        snprintf(says, sizeof says, "of %s that it reports", reports[i][1]);
        snprintf(args, sizeof args, "sim -w gpt2 --no-db -c %s", reports[i][0]);
        expect(args, 0, says);
    }
}

TEST_WITH(eight_bits_that_change_nothing_are_refused, fixture_open, fixture_close)
{
    EXPECT("model", {"llama-2-7b --fp8", 0, "sizes alone"},
           {"mlp --fp8", 1, "--fp8 does not apply to model mlp"},
           {"gpt2 --dtype f32 --fp8 --device dgx-h100", 1, "give --dtype bf16"},
           {"llama-2-7b --fp8 --device dgx-a100", 1, "has no fp8_speedup"},
           {"llama-2-7b --fp4 --device dgx-h100", 1,
            "--fp4: device 'H100-SXM5-80GB' has no "
            "fp4_speedup"},
           {"llama-2-7b --fp4 --fp8 --device dgx-b200", 1, "leave one out"});
}

/* --- exposed communication -------------------------------------------------------------------- */

/* One pipeline of two stages: with m micro-batches the first stage waits for its neighbour, and the
 * head says how much of what is exposed that is. */
TEST_WITH(exposed_communication_says_what_the_bubble_is, fixture_open, fixture_close)
{
    static const char command[] =
        "sim -w gpt2 -c dgx-h100 --framework ideal --pp 2 --micro-batches 4 --no-db";
    char args[160], says[64];

    snprintf(args, sizeof args, "%s --format json", command);
    const char *json = lapwing(args, NULL);
    double busy = number_at(json, "\"comm_busy_ns\": ");
    double exposed = number_at(json, "\"exposed_comm_ns\": ");
    double bubble = number_at(json, "\"wait_pipeline_ns\": ");

    assert_true(bubble > 0 && exposed > bubble && busy >= exposed);
    near(exposed, bubble + number_at(json, "\"exposed_transfer_ns\": "));
    assert_true(fabs(number_at(json, "\"overlap_pct\": ") - 100 * (busy - exposed) / busy) < 1e-3);
    snprintf(says, sizeof says, "%.3f ms are exposed, of it bubble %.3f ms", exposed * 1e-6,
             bubble * 1e-6);
    expect(command, 0, says);
    expect_cases("sim -w gpt2 -c dgx-h100 --framework ideal --dp 2 --no-db",
                 (const struct command_case[]){{"", 0, " are exposed", .lacks = "of it bubble"},
                                               {0}});
}

/* --- memory ----------------------------------------------------------------------------------- */

struct sizes {
    double sum, last, slack; /* all but the last, the last, half a unit of every last digit */
    int n;
};

/* The sizes that a paragraph prints; prose may be broken at blanks into lines. */
static struct sizes sizes_in(const char *text, const char *from, const char *to)
{
    static const struct {
        const char *unit;
        double bytes, digit;
    } units[] = {{"B", 1, 0}, {"KiB", 1024, 0.01}, {"MiB", 1048576, 0.01},
                 {"GiB", 1073741824, 0.01}, {"TiB", 1099511627776, 0.01}};
    const char *at = strstr(text, from), *end = at ? strstr(at, to) : NULL;
    struct sizes s = {0};

    if (!end)
        fail_msg("no '%s' and then '%s' in %s", from, to, text);
    for (; at < end; at++) {
        char unit[8], *rest;
        if (at[-1] != ' ' || !isdigit((unsigned char)*at))
            continue;
        double value = strtod(at, &rest);
        if (rest == at || sscanf(rest, " %7[KMGTiB]", unit) != 1)
            continue;
        for (size_t k = 0; k < sizeof units / sizeof *units; k++) {
            if (strcmp(unit, units[k].unit) != 0)
                continue;
            s.sum += s.last;
            s.last = value * units[k].bytes;
            s.slack += units[k].digit / 2 * units[k].bytes;
            s.n++;
        }
    }
    return s;
}

static const char *one_of(struct prng *r, const char *const *words, int n)
{
    return words[prng_below(r, n)];
}

/* A command that predicts a random strategy of a model on a cluster with a framework. */
static void random_command(struct prng *r, char *args, size_t size)
{
    static const char *const models[] = {"gpt2", "gpt-1.3b", "llama-2-7b", "llama-3-8b"};
    static const char *const clusters[] = {"dgx-h100", "dgx-a100", "v100-ib", "gb200"};
    static const char *const frameworks[] = {
        "ideal", "torch", "torch-ddp", "fsdp", "torchtitan", "composer", "deepspeed",
        "megatron-lm", "megatron-deepspeed", "nanotron", "internevo", "oneflow", "torchtune"};
    static const char *const shapes[] = {
        "--dp 8", "--dp 8 --zero 1", "--dp 8 --zero 2", "--dp 8 --zero 3", "--dp 2 --tp 4",
        "--dp 2 --tp 4 --sequence-parallel", "--dp 2 --pp 4 --micro-batches 4",
        "--dp 2 --tp 2 --pp 2 --micro-batches 2 --sequence-parallel", "--dp 4 --cp 2"};
    static const char *const rest[] = {"", "--recompute full", "--recompute selective",
                                       "--grad-dtype f32", "--batch 4"};

    snprintf(args, size, "sim -w %s -c %s --framework %s %s %s --no-db", one_of(r, models, 4),
             one_of(r, clusters, 4), one_of(r, frameworks, 13), one_of(r, shapes, 9),
             one_of(r, rest, 5));
}

/* Tensors of the plan, those that the framework adds, what its allocator reserves beyond, and what
 * the framework and the driver take. */
TEST_WITH(parts_of_memory_add_up_to_what_a_device_holds, fixture_open, fixture_close)
{
    struct prng r = prng_start("strategies");
    int n = unit_cases(8, 50), n_split = 0;

    for (int done = 0, tries = 0; done < n; tries++) {
        char args[256];
        int rc;
        random_command(&r, args, sizeof args);
        const char *text = lapwing(args, &rc);
        assert_true(tries < 10 * n);
        if (rc != 0) /* the framework refuses it */
            continue;
        struct sizes head = sizes_in(text, "\nmemory ", "a device");
        struct sizes parts = sizes_in(text, "\npeak memory ", "in all");
        assert_int_equal(head.n, 1);
        if (fabs(parts.sum - parts.last) > parts.slack || fabs(parts.last - head.last) > 1)
            fail_msg("parts %.0f, in all %.0f, head %.0f: %s\n%s", parts.sum, parts.last,
                     head.last, args, text);
        n_split += parts.n > 3;
        done++;
    }
    assert_true(n_split > n / 3);
}

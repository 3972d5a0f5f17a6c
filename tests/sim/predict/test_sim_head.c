/* The first lines of a prediction, and the same figures in JSON. */
#include "tests/lib/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"

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
    /* a device whose 8-bit peak is not known has no MFU of 8-bit products */
    shell("$L cluster dgx-h100 -o c.json; sed -i '/fp8_peak_flops/d' c.json", NULL);
    expect("sim -w llama-2-7b --fp8 -c c.json --dp 8 --no-db --format json", 0,
           "\"mfu_peak\": null");
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

TEST_WITH(a_rank_must_fit_where_it_is_asked_for, fixture_open, fixture_close)
{
    EXPECT("sim -c dgx-h100 --dp 2 --no-db",
           {"-w gpt2 --must-fit", 0, "that it reports: fits", {"memory "}},
           {"-w llama-2-70b", 0, "does not fit", {"too much"}},
           {"-w llama-2-70b --must-fit", 3, "lacks", {"does not fit"}},
           {"-w llama-2-70b --must-fit --format json", 3, "\"fits\": false"});
    shell("$L cluster dgx-h100 -o c.json; sed -i '/\"memory_bytes\":/d' c.json", NULL);
    expect("sim -w gpt2 -c c.json --must-fit --no-db", 1,
           "the cluster does not say how much memory a device has (device.memory_bytes)");
    expect("sim -w gpt2 -c c.json --no-db --format json", 0, "\"fits\": null");
    expect("sim --replay x.json --must-fit", 2, "--must-fit is for a plan");
}

TEST_WITH(eight_bits_that_change_nothing_are_refused, fixture_open, fixture_close)
{
    EXPECT("model", {"llama-2-7b --fp8", 0, "sizes alone"},
           {"mlp --fp8", 1, "--fp8 does not apply to model mlp"},
           {"gpt2 --dtype f32 --fp8 --device dgx-h100", 1, "give --dtype bf16"},
           {"llama-2-7b --fp8 --device dgx-a100", 1, "has no fp8_speedup"});
}

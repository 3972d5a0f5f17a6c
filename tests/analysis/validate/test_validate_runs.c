/* Files of measured training runs (docs/formats/runs.md): a row is a command of `lapwing sim`, and
 * every cell is checked before a row is predicted. */
#include "tests/lib/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/evidence/runs_file.h"
#include "analysis/validate/validate_kinds.h"
#include "shared/base/arena.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "traces/models/model_workload.h"

TEST_GROUP(fixture_open, fixture_close)

static void add(const char *text, struct lw_validation *v)
{
    struct lw_input in = {.name = "mine.csv", .text = (char *)(uintptr_t)text, .len = strlen(text)};
    struct lw_runs *r;
    struct lw_err err = {0};

    assert_ok(lw_validate_read_runs(&in, v, &r, &err), err);
    assert_ok(lw_validate_runs(r, v, &err), err);
    assert_ok(lw_validation_judge(v, &err), err);
    lw_runs_free(r);
    lw_free(r);
}

static void validate(const char *text, struct lw_validation *v)
{
    *v = (struct lw_validation){0};
    add(text, v);
}

#define LLAMA "llama-3-8b,dgx-h100,8,3,1,"

TEST(a_row_is_a_command_and_what_was_measured)
{
    struct lw_validation v;

    validate("model,cluster,framework,dp,zero,batch,fp8,id,step_s,memory_gib,memory_kind,note\n"
             "llama-3-8b,dgx-h100,torchtitan,8,3,1,,first,1.5,60,reserved,\"a, b\"\n"
             "llama-3-8b,dgx-h100,torchtitan,8,3,1,yes,,1.5,,,\n",
             &v);
    assert_int_equal(v.n_cases, 2);
    assert_int_equal(v.n_refusals, 0);
    assert_string_equal(v.families[0].name, "mine");
    assert_string_equal(v.cases[0].id, "mine:first");
    assert_string_equal(v.cases[1].id, "mine:3"); /* its line */
    assert_string_equal(v.cases[0].command, "lapwing sim -w llama-3-8b -c dgx-h100 --framework "
                                            "torchtitan --dp 8 --zero 3 --batch 1");
    assert_string_equal(v.cases[1].command, "lapwing sim -w llama-3-8b -c dgx-h100 --framework "
                                            "torchtitan --dp 8 --zero 3 --batch 1 --fp8");
    assert_true(v.cases[0].measured == 1.5e9 && v.cases[0].predicted > 0);
    assert_true(v.cases[1].predicted < v.cases[0].predicted);
    assert_true(v.cases[0].measured_bytes == 60 * 1073741824.0 && v.cases[0].predicted_bytes > 0);
    assert_string_equal(v.cases[0].memory_kind, "reserved");
    assert_int_equal(v.families[0].n_memory, 1);
    lw_validation_free(&v);
}

/* The command of a case, run as a user runs it, predicts the step to the ns. */
TEST(the_command_of_a_case_predicts_the_same)
{
    struct lw_validation v;
    char line[600], step[64];

    validate("model,cluster,framework,tp,dp,global-batch,sequence_parallel,tied,layers,step_s\n"
             "llama-3-8b,dgx-h100,megatron-lm,4,2,16,on,no,8,1.5\n",
             &v);
    assert_int_equal(v.n_cases, 1);
    snprintf(line, sizeof line, "%s --no-db --format json", v.cases[0].command + 8);
    snprintf(step, sizeof step, "\"step_ns\": %.0f", floor(v.cases[0].predicted + 0.5));
    expect(line, 0, step);
    lw_validation_free(&v);
}

/* One measured figure a row: 8 devices, sequences of 8192, 64 of them a step. */
TEST(measured_figures_of_each_kind_give_a_step)
{
    struct lw_validation v;
    static const char titles[] = "model,cluster,dp,zero,batch,global-batch,step_s,tokens_s_device,"
                                 "samples_s,tflops_device,mfu_pct,mfu_peak_tflops,flops\n";
    char text[1500];

    snprintf(text, sizeof text,
             "%s" LLAMA "64,2,,,,,,\n" LLAMA "64,,32768,,,,,\n" LLAMA "64,,,32,,,,\n" LLAMA
             "64,,,,400,,,model\n" LLAMA "64,,,,,40,1000,model\n" LLAMA "64,,,,,40,,model\n",
             titles);
    validate(text, &v);
    assert_int_equal(v.n_cases, 6);
    for (int i = 0; i < 3; i++)
        assert_true(fabs(v.cases[i].measured - 2e9) < 1);
    /* 40 % of a peak of 1000 TFLOP/s; the device's own is 989.4 */
    assert_true(fabs(v.cases[4].measured / v.cases[3].measured - 1) < 1e-12);
    assert_true(fabs(v.cases[5].measured / v.cases[4].measured - 1000 / 989.4) < 1e-3);
    lw_validation_free(&v);
}

static double measured(const char *model, const char *flops)
{
    struct lw_validation v;
    char text[600];

    snprintf(text, sizeof text,
             "model,cluster,dp,seq,batch,attention,recompute,tflops_device,flops\n"
             "%s,100,%s\n",
             model, flops);
    validate(text, &v);
    assert_int_equal(v.n_cases, 1);
    double step = v.cases[0].measured;
    lw_validation_free(&v);
    return step * 1e-9 * 100e12 * 8; /* FLOPs of a step */
}

/* GPT of 12 layers, h 768, vocabulary 50257: 24 h^2 + 4 s h per token and layer, and 2 h V of the
 * head; of the step three times that; causal spares 2 s h of each 4 s h. Full recomputation does
 * the blocks a fourth time, selective recomputation 4 s h where scores are stored. Narayanan et
 * al., SC'21, equation 3, is the hardware's with full recomputation. */
TEST(flops_are_counted_by_their_definition)
{
    const double s = 1024, h = 768, tokens = 8 * 2 * s;
    const double head = 2 * h * 50257, scores = 12 * 4 * s * h, rest = 12 * 24 * h * h;
    const struct {
        const char *row, *flops;
        double expected;
    } cases[] = {
        {"gpt2,dgx-h100,8,1024,2,flash,none", "model", 3 * (rest + scores + head)},
        {"gpt2,dgx-h100,8,1024,2,full,none", "model", 3 * (rest + scores + head)},
        {"gpt2,dgx-h100,8,1024,2,flash,none", "model-causal", 3 * (rest + scores / 2 + head)},
        {"gpt2,dgx-h100,8,1024,2,full,none", "model-causal", 3 * (rest + scores / 2 + head)},
        {"gpt2,dgx-h100,8,1024,2,flash,full", "model", 3 * (rest + scores + head)},
        {"gpt2,dgx-h100,8,1024,2,flash,full", "hardware", 4 * (rest + scores) + 3 * head},
        {"gpt2,dgx-h100,8,1024,2,flash,full", "hardware-causal",
         4 * (rest + scores / 2) + 3 * head},
        {"gpt2,dgx-h100,8,1024,2,full,selective", "hardware", 3 * (rest + head) + 4 * scores},
        {"gpt2,dgx-h100,8,1024,2,full,selective", "hardware-causal",
         3 * (rest + head) + 2 * scores},
    };

    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        double found = measured(cases[k].row, cases[k].flops);
        if (fabs(found / (tokens * cases[k].expected) - 1) > 1e-9)
            fail_msg("case %zu: %.10g, expected %.10g", k, found, tokens * cases[k].expected);
    }
}

/* T5 of 12 blocks a side, h 768, 29,096 words, 512 tokens of the encoder and 128 of the decoder: a
 * step that an MFU gives has the FLOPs that sim counts, each product's of the tokens it sees. */
TEST(a_step_of_an_mfu_counts_both_sequences)
{
    const double h = 768, e = 512, d = 128;
    const double rest = 12 * 28 * h * h * (e + d) + 2 * h * 29096 * d;
    const double scores = 12 * 4 * h * (e * e + d * e), own = 12 * 4 * h * d * d;
    struct lw_validation v;

    validate("model,cluster,dp,batch,mfu_pct,mfu_peak_tflops,flops\n"
             "megatron-t5,dgx-a100,8,4,25,200,model-causal\n"
             "megatron-t5,dgx-a100,8,4,25,200,model\n", &v);
    assert_int_equal(v.n_cases, 2);
    for (int k = 0; k < 2; k++) {
        double step = 3 * 4 * (rest + scores + (k ? own : own / 2)) / (0.25 * 200e12);
        assert_true(fabs(v.cases[k].measured * 1e-9 / step - 1) < 1e-9);
    }
    lw_validation_free(&v);
}

/* As spreadsheets and R write files: a byte order mark, titles in quotes. */
TEST(titles_may_have_quotes_and_a_byte_order_mark)
{
    struct lw_validation v;

    validate("\xef\xbb\xbf\"model\",\"cluster\",\"dp\",\"step_s\"\r\n"
             "\"gpt2\",\"dgx-h100\",8,0.1\r\n", &v);
    assert_int_equal(v.n_cases, 1);
    lw_validation_free(&v);
}

/* What the framework does not run, and a rate that gives no step, are passed over with a reason. */
TEST(what_cannot_be_compared_is_no_case)
{
    struct lw_validation v;

    validate("model,cluster,framework,pp,micro-batches,step_s\n"
             "llama-2-7b,dgx-h100,nanotron,8,1,2\n", &v);
    assert_int_equal(v.n_cases, 0);
    assert_int_equal(v.n_skips, 1);
    lw_validation_free(&v);
    validate("model,cluster,dp,tokens_s_device\nresnet50,dgx-a100,8,400\n", &v);
    assert_int_equal(v.n_cases, 0);
    assert_int_equal(v.n_skips, 1);
    lw_validation_free(&v);
}

/* A tensor group divides the products, and not the FLOPs of a step. */
TEST(flops_of_a_step_do_not_depend_on_its_groups)
{
    double flops[2];

    for (int k = 0; k < 2; k++) {
        struct lw_validation v;
        validate(k ? "model,cluster,framework,dp,tp,tflops_device,flops\n"
                     "llama-3-8b,dgx-h100,ideal,2,4,1,model-causal\n"
                   : "model,cluster,framework,dp,micro-batches,tflops_device,flops\n"
                     "llama-3-8b,dgx-h100,ideal,1,2,8,model-causal\n",
                 &v);
        assert_int_equal(v.n_cases, 1);
        flops[k] = v.cases[0].measured;
        lw_validation_free(&v);
    }
    assert_true(fabs(flops[1] / flops[0] - 1) < 1e-9);
}

/* BERT's attention sees all tokens: nothing is spared. */
TEST(attention_without_a_mask_has_no_causal_half)
{
    static const char row[] = "bert-large,dgx-h100,8,512,2,flash,none";

    assert_true(measured(row, "model") == measured(row, "model-causal"));
}

/* Kinds and ranks of memory are those that sim prints; the last stage of two has other bytes. */
TEST(memory_is_of_the_named_kind_and_rank)
{
    static const char *const rows[] = {"allocated,fullest", "reserved,fullest", "device,fullest",
                                       "allocated,first",   "allocated,last",   "allocated,"};
    double bytes[6];
    struct lw_validation v;
    char text[400];

    for (int k = 0; k < 6; k++) {
        snprintf(text, sizeof text,
                 "model,cluster,framework,pp,micro-batches,memory_gb,memory_kind,"
                 "memory_rank\ngpt-1.3b,dgx-a100,megatron-lm,2,4,20,%s\n",
                 rows[k]);
        validate(text, &v);
        assert_int_equal(v.n_cases, 1);
        assert_true(v.cases[0].measured_bytes == 20e9 && v.cases[0].measured == 0);
        bytes[k] = v.cases[0].predicted_bytes;
        lw_validation_free(&v);
    }
    assert_true(bytes[0] < bytes[1] && bytes[1] < bytes[2]);
    assert_true(bytes[3] != bytes[4] && bytes[5] == bytes[0]);
    assert_true(bytes[0] == bytes[3] || bytes[0] == bytes[4]);
}

/* Each fault is one line: file, line, column, what is expected. The good row is predicted. */
TEST(each_fault_has_its_line_and_column)
{
    static const char titles[] =
        "model,cluster,dp,zero,batch,fp8,framework,global-batch,id,outcome,"
        "step_s,samples_s,tflops_device,flops,mfu_pct,mfu_peak_tflops,"
        "memory_gib,memory_gb,memory_kind,memory_rank\n";
    static const struct {
        const char *row, *column, *says;
    } faults[] = {
        {LLAMA ",,,,,1.2,3,,,,,,,,", "samples_s", "found '3' beside step_s '1.2'"},
        {LLAMA ",,,,failed,1.2,,,,,,,,,", "step_s", "beside outcome 'failed'"},
        {LLAMA ",,,,,,,400,,,,,,,", "tflops_device", "needs its definition in column 'flops'"},
        {LLAMA ",,,,,,,,,40,,,,,", "mfu_pct", "needs its definition in column 'flops'"},
        {LLAMA ",,,,,1.2,,,model,,,,,,", "flops", "found 'model' without a FLOP rate"},
        {LLAMA ",,,,,,,,model,140,,,,,", "mfu_pct", "found '140', expected at most 100"},
        {LLAMA ",,,,,1e300,,,,,,,,,", "step_s", "without an exponent or a unit"},
        {LLAMA ",,,,,,,400,model,,989,,,,", "mfu_peak_tflops", "found '989' without mfu_pct"},
        {LLAMA ",,,,,,,400,causal,,,,,,", "flops", "unknown value 'causal'"},
        {LLAMA ",,,,crash,,,,,,,,,,", "outcome", "unknown value 'crash'"},
        {LLAMA ",,,,,5.2 s,,,,,,,,,", "step_s", "found '5.2 s', expected a number"},
        {LLAMA ",,,,,\"5,2\",,,,,,,,,", "step_s", "found '5,2', expected a number"},
        {LLAMA ",,,,,-5.2,,,,,,,,,", "step_s", "found '-5.2', expected a number"},
        {LLAMA ",,,,,0,,,,,,,,,", "step_s", "found '0', expected a number above 0"},
        {LLAMA ",,,,,,,,,,,1e999,,device,", "memory_gib", "found '1e999', expected a number"},
        {LLAMA ",,,,,,,,,,,60,,,", "memory_gib", "needs its kind in column 'memory_kind'"},
        {LLAMA ",,,,,,,,,,,60,64,device,", "memory_gb", "beside memory_gib '60'"},
        {LLAMA ",,,,,,,,,,,60,,nvidia,", "memory_kind", "expected one of allocated, reserved, dev"},
        {LLAMA ",,,,,,,,,,,60,,device,9", "memory_rank", "expected one of fullest, first, last"},
        {LLAMA "maybe,,,,,1.2,,,,,,,,,", "fp8", "unknown value 'maybe'; expected yes or no"},
        {"llama-3-8b,dgx-h100,8,9,1,,,,,,1.2,,,,,,,,,", "zero",
         ": zero: '9' is not a whole number from 0 to 3"},
        {"llama-3-8b,dgx-h100,-8,3,1,,,,,,1.2,,,,,,,,,", "dp", "'-8'"},
        {"llama-3-8b,dgx-h100,8,3,1,,,12,,,1.2,,,,,,,,,", "global-batch", "does not divide"},
        {"llama-3-8b,dgx-h100,8,3,1,,torchtitann,,,,1.2,,,,,,,,,", "framework",
         "did you mean 'torchtitan'?"},
        {"llama-3-8b,dgx-h1000,8,3,1,,,,,,1.2,,,,,,,,,", "cluster", "did you mean 'dgx-h100'?"},
        {"llama-3-8x,dgx-h100,8,3,1,,,,,,1.2,,,,,,,,,", "model", "did you mean 'llama-3-8b'?"},
        {",dgx-h100,8,3,1,,,,,,1.2,,,,,,,,,", "model", "found an empty cell, expected a model"},
        {"llama-3-8b,,8,3,1,,,,,,1.2,,,,,,,,,", "cluster", "found an empty cell, expected a known"},
        {LLAMA ",,,good,,1.2,,,,,,,,,", "id", "found 'good' in line 2 too"},
    };
    enum { N = sizeof faults / sizeof *faults };
    char text[8000], place[80];
    struct lw_validation v;

    int n = snprintf(text, sizeof text, "%s" LLAMA ",,,good,,1.2,,,,,,,,,\n", titles);
    for (int k = 0; k < N; k++)
        n += snprintf(text + n, sizeof text - (size_t)n, "%s\n", faults[k].row);
    validate(text, &v);
    assert_int_equal(v.n_cases, 1);
    assert_int_equal(v.n_refusals, N);
    for (int k = 0; k < N; k++) {
        const struct lw_refusal *r = &v.refusals[k];
        snprintf(place, sizeof place, "mine.csv:%d: %s: ", k + 3, faults[k].column);
        assert_int_equal(r->line, k + 3);
        if (strcmp(r->column, faults[k].column) != 0 ||
            strncmp(r->text, place, strlen(place)) != 0 || !strstr(r->text, faults[k].says))
            fail_msg("'%s' lacks '%s%s'", r->text, place, faults[k].says);
    }
    lw_validation_free(&v);
}

TEST(a_title_that_nothing_has_is_refused_with_the_nearest)
{
    static const struct {
        const char *titles, *says;
    } cases[] = {
        {"model,cluster,dp,zeroo,step_s", "unknown column 'zeroo' (did you mean 'zero'?)"},
        {"model,cluster,dp,zero,step_ms", "a step is measured in seconds: 'step_s'"},
        {"model,cluster,dp,zero,memory_mib", "memory is measured in 2^30 bytes ('memory_gib')"},
        {"model,cluster,dp,zero,format", "unknown column 'format'"},
        {"model,workload,dp,zero,step_s",
         "unknown column 'workload'; the model's column is 'model'"},
        {"model,cluster,dp,DP,step_s", "unknown column 'DP' (did you mean 'dp'?)"},
        {"model,dp,pp,zero,step_s", "no column 'cluster'"},
        {"model,cluster,micro-batches,micro_batches,step_s",
         "'micro-batches' and 'micro_batches' are the same option"},
    };

    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct lw_validation v;
        char text[300];
        snprintf(text, sizeof text, "%s\nllama-3-8b,dgx-h100,8,3,1.2\n", cases[k].titles);
        validate(text, &v);
        assert_int_equal(v.n_cases, 0);
        assert_true(v.n_refusals > 0);
        if (strncmp(v.refusals[0].text, "mine.csv:1: ", 12) != 0 ||
            !strstr(v.refusals[0].text, cases[k].says))
            fail_msg("'%s' lacks '%s'", v.refusals[0].text, cases[k].says);
        lw_validation_free(&v);
    }
}

/* With every measured cell doubled no prediction moves. */
TEST(no_measured_cell_reaches_a_prediction)
{
    static const char titles[] = "model,cluster,framework,tp,pp,dp,zero,micro-batches,step_s,"
                                 "tokens_s_device,samples_s,tflops_device,mfu_pct,flops,memory_gib,"
                                 "memory_gb,memory_kind,memory_rank\n";
    struct lw_validation v[2];

    for (int k = 0; k < 2; k++) {
        double f = k + 1;
        char text[2000];
        snprintf(text, sizeof text,
                 "%sgpt-1.3b,dgx-a100,megatron-lm,2,2,2,1,4,%g,,,,,,%g,,reserved,last\n"
                 "gpt-1.3b,dgx-a100,torchtitan,,,8,3,,,%g,,,,,,%g,device,first\n"
                 "gpt-1.3b,dgx-a100,fsdp,,,8,3,,,,%g,,,,,,,\n"
                 "gpt-1.3b,dgx-a100,nanotron,,,8,1,,,,,%g,,hardware,,,,\n"
                 "gpt-1.3b,dgx-a100,composer,,,8,3,,,,,,%g,model-causal,,,,\n",
                 titles, 0.7 * f, 20 * f, 5000 * f, 30 * f, 11 * f, 80 * f, 20 * f);
        validate(text, &v[k]);
        assert_int_equal(v[k].n_cases, 5);
    }
    for (int i = 0; i < 5; i++) {
        const struct lw_case *a = &v[0].cases[i], *b = &v[1].cases[i];
        double ratio = i == 0 ? 2 : 0.5; /* of rates the step halves */
        assert_true(a->predicted == b->predicted && a->predicted_bytes == b->predicted_bytes);
        assert_true(a->needed_bytes == b->needed_bytes);
        assert_true(fabs(b->measured / a->measured - ratio) < 1e-12);
        assert_true(b->measured_bytes == 2 * a->measured_bytes);
    }
    lw_validation_free(&v[0]);
    lw_validation_free(&v[1]);
}

/* A run that ran out of memory is right where it does not fit; a crash says nothing of it. Tables
 * of one file are families of their own. */
TEST(outcomes_reasons_and_tables_are_counted)
{
    struct lw_validation v;

    validate("model,cluster,framework,dp,zero,batch,table,outcome,why,step_s\n"
             "llama-3-70b,dgx-h100,torchtitan,8,0,1,big,out-of-memory,,\n"
             "gpt2,dgx-h100,torchtitan,8,0,1,big,out-of-memory,,\n"
             "gpt2,dgx-h100,torchtitan,8,0,1,big,failed,,\n"
             "gpt2,dgx-h100,torchtitan,8,0,1,small,ran,,0.1\n"
             ",,,,,,small,,offload is not modelled,0.2\n"
             "gpt2,dgx-h100,torchtitan,8,0,1,small,,,\n",
             &v);
    assert_int_equal(v.n_refusals, 0);
    assert_int_equal(v.n_cases, 3);
    assert_int_equal(v.n_families, 2);
    assert_string_equal(v.families[0].name, "big");
    assert_int_equal(v.families[0].failed.n, 2);
    assert_int_equal(v.families[0].failed.n_right, 1);
    assert_int_equal(v.families[0].n_skipped, 1);
    assert_string_equal(v.skips[0].reason, "the run failed, and not for lack of memory");
    assert_string_equal(v.skips[1].reason, "offload is not modelled");
    assert_string_equal(v.skips[2].reason, "nothing is measured");
    assert_string_equal(v.cases[2].id, "small:5");
    lw_validation_free(&v);
}

/* So that rows that ran and are said not to fit can be listed. */
TEST(a_case_says_whether_its_run_fits)
{
    shell("printf 'model,cluster,framework,dp,zero,batch,step_s\\n"
          "llama-3-70b,dgx-h100,torchtitan,8,0,1,9\\n"
          "gpt2,dgx-h100,torchtitan,8,0,1,0.1\\n' > fits.csv", NULL);
    const char *out = lapwing("validate fits.csv --format json", NULL);
    const char *large = strstr(out, "\"id\": \"fits:2\"");
    const char *small = strstr(out, "\"id\": \"fits:3\"");
    assert_non_null(large);
    assert_non_null(small);
    const char *no = strstr(large, "\"fits\": false"), *yes = strstr(small, "\"fits\": true");
    assert_true(no && no < small);
    assert_non_null(yes);
}

/* gpt2's 0.8 TFLOP of a sample in 1 ms: more than 312 TFLOP/s. Counted by the least definition, at
 * the peak of the type. */
TEST(a_measured_step_beyond_the_device_s_peak_is_marked)
{
    struct lw_validation v;

    shell("printf 'model,cluster,framework,dp,batch,dtype,fp8,step_s\\n"
          "gpt2,dgx-a100,torch-ddp,8,1,bf16,,0.001\\n"
          "gpt2,dgx-a100,torch-ddp,8,1,bf16,,0.1\\n' > fast.csv", NULL);
    EXPECT("validate fast.csv",
           {"", 0, "marked: 1 row of fast whose measured step alone implies an MFU above 100 %, "
                   "first fast:2 ("},
           {"--format json", 0, "\"remark\": \"the measured step alone implies an MFU of "},
           {"--tolerance 1", 3, "marked: 1 row"});
    validate("model,cluster,framework,dp,batch,dtype,fp8,step_s\n"
             "gpt2,dgx-h100,megatron-lm,8,1,bf16,,0.002\n"
             "gpt2,dgx-h100,megatron-lm,8,1,bf16,yes,0.002\n", &v);
    assert_int_equal(v.n_cases, 2);
    assert_true(v.cases[0].measured_mfu_pct > 1);
    assert_true(fabs(v.cases[0].measured_mfu_pct / v.cases[1].measured_mfu_pct - 2) < 1e-3);
    lw_validation_free(&v);
}

/* A file whose rows cannot be expressed needs no cluster. */
TEST(a_file_of_reasons_alone_is_counted)
{
    struct lw_validation v;

    validate("model,why\nx,offload is not modelled\ny,offload is not modelled\n", &v);
    assert_true(v.n_refusals == 0 && v.n_cases == 0 && v.n_skips == 2);
    lw_validation_free(&v);
}

/* Files beside the file of runs: a configuration, a cluster and a framework of the user. */
TEST(files_are_found_beside_the_file_of_runs)
{
    shell("mkdir sub && $L cluster dgx-a100 -o sub/mine.json && "
          "$L framework torchtitan -o sub/own.json && printf "
          "'model,cluster,framework,dp,step_s\\ngpt2,mine.json,own.json,8,0.05\\n' > "
          "sub/r.csv",
          NULL);
    expect("validate sub/r.csv --format json", 0,
           "\"command\": \"lapwing sim -w gpt2 -c sub/mine.json --framework sub/own.json --dp 8\"");
}

/* Exit status: 0, 1 with a row that is refused, 3 beyond the tolerance. */
TEST(exit_status_says_what_became_of_the_rows)
{
    shell("printf 'model,cluster,dp,step_s\\ngpt2,dgx-a100,8,5\\n' > far.csv", NULL);
    shell("printf 'model,cluster,dp,step_s\\ngpt2,dgx-a100,8,5\\ngpt2,dgx-a100,0,5\\n' > bad.csv",
          NULL);
    expect("validate far.csv", 0, "no bar is set");
    expect("validate far.csv --tolerance 10", 3, "1 bar missed; first: mean");
    expect("validate bad.csv", 1, "validate: bad.csv:3: dp: '0' is not");
    expect("validate bad.csv --tolerance 10 --format json", 1,
           "{\"file\": \"bad.csv\", \"line\": 3, \"column\": \"dp\", \"error\": \"bad.csv:3: dp");
    expect("validate bad.csv --format csv", 1, "bad:2,bad,");
    expect("validate far.csv bad.csv none.csv", 1, "none.csv");
}

/* A host of twice the time per kernel doubles a step that the host bounds. */
TEST(a_framework_of_the_same_name_takes_its_place)
{
    static const char table[] = "model,cluster,framework,layers,hidden,heads,seq,dp,step_s\n"
                                "decoder,dgx-h100,nanotron,4,256,4,64,8,1\n";
    static const char *const texts[] = {
        "{\"lapwing\": 1, \"kind\": \"framework\", \"name\": \"nanotron\", \"host\": "
        "{\"host_op_ns\": {\"value\": 100000, \"source\": \"x\"}}}",
        "{\"lapwing\": 1, \"kind\": \"framework\", \"name\": \"nanotron\", \"host\": "
        "{\"host_op_ns\": {\"value\": 200000, \"source\": \"x\"}}}",
        "{\"lapwing\": 1, \"kind\": \"framework\", \"name\": \"another\"}"};
    static const char *const names[] = {"nanotron", "nanotron", "another"};
    double step[3];

    for (int k = 0; k < 3; k++) {
        struct lw_validation v = {.framework_file = fixture_path("named.json"),
                                  .framework_name = names[k]};
        fixture_put(fixture_path("named.json"), texts[k]);
        add(table, &v);
        assert_int_equal(v.n_cases, 1);
        step[k] = v.cases[0].predicted;
        lw_validation_free(&v);
    }
    assert_true(fabs(step[1] / step[0] - 2) < 0.05);
    assert_true(step[2] < step[0]); /* the known one, of 56.2 us */
}

/* Figures whose source says that they were fitted are listed with their table and rows. */
TEST(fitted_figures_are_listed)
{
    struct lw_validation v;

    validate("model,cluster,framework,dp,step_s\ngpt2,dgx-h100,nanotron,8,1\n", &v);
    assert_int_equal(v.n_fits, 1);
    assert_string_equal(v.fits[0].name, "nanotron: host_op_ns");
    assert_string_equal(v.fits[0].fitted_on, "nanotron_ultrascale");
    assert_int_equal(v.fits[0].n_rows, 55);
    assert_true(v.fits[0].value == 56200);
    lw_validation_free(&v);
}

/* What a framework refuses is right where the run failed, whatever it would need. */
TEST(a_refused_run_is_right_where_it_failed)
{
    struct lw_validation v = {0};
    struct lw_err err = {0};
    int32_t family;

    assert_int_equal(lw_validation_family(&v, "f", (struct lw_bars){0, 0, 0}, false, &family, &err),
                     LW_OK);
    v.families[family].runs = true;
    for (int failed = 0; failed < 2; failed++) {
        struct lw_case c = {.id = failed ? "a" : "b",
                            .unit = "ns",
                            .family = family,
                            .series = -1,
                            .remark = "",
                            .refused = true,
                            .failed = failed};
        assert_int_equal(lw_validation_case(&v, &c, &err), LW_OK);
    }
    assert_int_equal(lw_validation_judge(&v, &err), LW_OK);
    assert_int_equal(v.families[family].ran.n, 1);
    assert_int_equal(v.families[family].ran.n_right, 0);
    assert_int_equal(v.families[family].failed.n, 1);
    assert_int_equal(v.families[family].failed.n_right, 1);
    lw_validation_free(&v);
}

/* Predicted 1 2 3 4 against measured 10 30 20 40: one exchange of neighbours, 1 - 6 * 2 / (4 *
 * 15) = 0.8. A sweep of three has no figure. */
TEST(ranks_of_a_sweep_are_correlated)
{
    static const double measured[] = {10, 30, 20, 40};
    struct lw_validation v = {0};
    struct lw_err err = {0};
    int32_t family, four, three;
    char id[8];
    assert_int_equal(lw_validation_family(&v, "f", (struct lw_bars){0, 0, 0}, false, &family, &err),
                     LW_OK);
    assert_int_equal(lw_validation_sweep(&v, family, "four", &four, &err), LW_OK);
    assert_int_equal(lw_validation_sweep(&v, family, "three", &three, &err), LW_OK);
    for (int i = 0; i < 7; i++) {
        snprintf(id, sizeof id, "c%d", i);
        struct lw_case c = {.id = id,
                            .unit = "ns",
                            .family = family,
                            .remark = "",
                            .series = i < 4 ? four : three,
                            .predicted = 1 + i,
                            .measured = i < 4 ? measured[i] : 1};
        assert_int_equal(lw_validation_case(&v, &c, &err), LW_OK);
    }
    assert_int_equal(lw_validation_judge(&v, &err), LW_OK);
    assert_true(fabs(v.series[four].rank - 0.8) < 1e-12);
    assert_true(isnan(v.series[three].rank));
    lw_validation_free(&v);
}

/* Times per token. Measured 10, 30, 30.6 and 40: 30 and 30.6 are nearer than 3 %, so five pairs
 * count. Predicted 2, 1, 3, 4: the first two are the wrong way round, (4 - 1) / 5, and the one
 * predicted fastest takes three times the fastest. A run of twice the tokens takes twice the step:
 * no other choice. */
TEST(choices_are_judged_by_pairs_that_differ_and_by_regret)
{
    static const double predicted[] = {2, 1, 3, 4}, measured[] = {10, 30, 30.6, 40};
    struct lw_validation v = {0};
    struct lw_err err = {0};
    int32_t family, sweep;
    char id[8];

    assert_ok(lw_validation_family(&v, "f", (struct lw_bars){0, 0, 0}, false, &family, &err), err);
    assert_ok(lw_validation_sweep(&v, family, "four", &sweep, &err), err);
    for (int i = 0; i < 4; i++) {
        double tokens = i == 2 ? 2000 : 1000;
        snprintf(id, sizeof id, "c%d", i);
        struct lw_case c = {.id = id,
                            .unit = "ns",
                            .family = family,
                            .remark = "",
                            .series = sweep,
                            .predicted = predicted[i] * tokens,
                            .measured = measured[i] * tokens,
                            .tokens_per_s_device = tokens / (predicted[i] * tokens)};
        assert_ok(lw_validation_case(&v, &c, &err), err);
    }
    assert_ok(lw_validation_judge(&v, &err), err);
    assert_int_equal(v.series[sweep].n_apart, 5);
    assert_true(fabs(v.series[sweep].order - 3.0 / 5) < 1e-12);
    assert_true(fabs(v.series[sweep].regret_pct - 200) < 1e-9);
    lw_validation_free(&v);
}

/* Runs of one model on as many devices of a kind are a sweep, told apart by the sizes of rows. */
TEST(runs_of_one_model_are_a_sweep)
{
    struct lw_validation v;

    validate("model,cluster,layers,dp,tp,step_s\ngpt2,dgx-h100,,8,,1\ngpt2,dgx-h100,,2,4,1\n"
             "gpt2,dgx-h100,6,8,,1\ngpt2,dgx-h100,,4,,1\n",
             &v);
    assert_int_equal(v.n_cases, 4);
    assert_int_equal(v.n_series, 3);
    assert_true(v.cases[0].series == v.cases[1].series);
    assert_string_equal(v.series[v.cases[2].series].name, "gpt2 layers 6 on 8 H100-SXM5-80GB");
    lw_validation_free(&v);
}

TEST(memory_that_runs_out_leaves_nothing)
{
    static const char text[] =
        "model,cluster,dp,step_s,note\ngpt2,dgx-a100,8,5,\ngpt2,none,8,5,x\n";
    struct lw_input in = {.name = "d/m.csv", .text = (char *)(uintptr_t)text, .len = strlen(text)};
    int64_t live = lw_alloc_live();
    enum lw_status s = LW_ENOMEM;

    for (int64_t n = 1; s != LW_OK; n++) {
        struct lw_runs r;
        struct lw_err err = {0};
        lw_alloc_fail_at(n);
        s = lw_runs_read(&in, traces_model_workload, &r, &err);
        lw_alloc_fail_at(0);
        if (s == LW_OK) {
            assert_int_equal(r.n_faults, 1);
            lw_runs_free(&r);
        }
        assert_int_equal(lw_alloc_live(), live);
    }
}

/* A given framework is that of rows that name none, and stands for the one of its name. */
TEST(a_given_framework_is_taken_by_rows_without_one)
{
    shell("printf 'model,cluster,framework,dp,step_s\\n"
          "gpt2,dgx-h100,,8,0.1\\ngpt2,dgx-h100,fsdp,8,0.1\\n' > given.csv;"
          "$L framework fsdp -o given.json", NULL);
    EXPECT("validate given.csv --format json",
           {"--framework torch-ddp", 0, "--framework torch-ddp", {"--framework fsdp"}},
           {"--framework given.json", 0, "--framework given.json", .lacks = "--framework fsdp"});
    shell("sed -i 2d given.csv", NULL);
    expect("validate given.csv --framework torch-ddp", 1, "no row has the framework 'torch-ddp'");
}

/* A line that is no row is a fault of its own; the rows around it are predicted. */
TEST(a_row_of_another_number_of_cells_leaves_the_others)
{
    struct lw_validation v;

    validate("model,cluster,dp,zero,batch,step_s\n" LLAMA "1\n" LLAMA "1,5\n" LLAMA "2\n"
             "\"llama-3-8b,dgx-h100,8,3,1,1\n" LLAMA "3\n", &v);
    assert_int_equal(v.n_cases, 3);
    assert_int_equal(v.n_refusals, 2);
    assert_string_equal(v.refusals[0].text, "mine.csv:3: found 7 cells, expected 6");
    assert_true(v.refusals[0].line == 3 && v.refusals[1].line == 5);
    lw_validation_free(&v);
}

/* Of several files one that is empty, or is none, is a line; the others' rows are predicted. */
TEST(an_unreadable_file_leaves_the_others)
{
    static const struct {
        const char *file, *text, *says;
    } cases[] = {
        {"e.csv", "", "e.csv: an empty file"},
        {"e.csv", "model,cluster,step_s\n", "e.csv:1: found titles and no row"},
        {"e.csv", "model,cluster,model\n1,2,3\n", "e.csv:1: the column 'model' is given twice"},
        {"gone.csv", NULL, "gone.csv"},
    };

    fixture_put(fixture_path("a.csv"), "model,cluster,dp,zero,batch,step_s\n" LLAMA "1\n");
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char command[96];
        if (cases[k].text)
            fixture_put(fixture_path(cases[k].file), cases[k].text);
        snprintf(command, sizeof command, "validate %s a.csv", cases[k].file);
        expect(command, 1, cases[k].says);
        expect(command, 1, "1 of 1");
        expect(command, 1, "1 fault in the files of runs; the other rows are predicted");
        snprintf(command, sizeof command, "validate %s", cases[k].file);
        expect(command, 1, cases[k].says);
    }
}

/* A run without an id is named by its line. */
TEST(an_id_is_no_other_runs_line)
{
    struct lw_validation v;

    validate("model,cluster,dp,zero,batch,step_s,id\n" LLAMA "1,3\n" LLAMA "1,\n" LLAMA "1,5\n"
             LLAMA "1,other\n", &v);
    assert_int_equal(v.n_refusals, 1);
    assert_string_equal(v.refusals[0].text,
                        "mine.csv:2: id: found '3', which is the name of line 3, that has no id; "
                        "expected a name for each run: an id there, or another one here");
    assert_int_equal(v.n_cases, 3);
    lw_validation_free(&v);
}

TEST(options_of_this_machine_are_refused_without_here)
{
    static const char *const given[] = {"--backend threads", "--transport loop", "--spawn",
                                        "--ranks 2", "--steps 5", "--only x", "-c dgx-h100",
                                        "--db a.db"};

    fixture_put(fixture_path("a.csv"), "model,cluster,dp,zero,batch,step_s\n" LLAMA "1\n");
    for (size_t k = 0; k < sizeof given / sizeof *given; k++) {
        char command[96];
        snprintf(command, sizeof command, "validate a.csv %s", given[k]);
        expect(command, 2, "goes with --here");
    }
}

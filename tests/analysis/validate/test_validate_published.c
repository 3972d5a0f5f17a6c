/* Tables of training runs: what is read of a row, what becomes of it, and ranks. */
#include "tests/lib/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/validate/validate_kinds.h"

#define TITLES                                                                                     \
    "row,gpu,gpus,network,model,layers,hidden,ffn,heads,kv_heads,vocab,seq,gbs,mbs,grad_accum,tp," \
    "pp,dp,zero,precision,recompute,tied_embeddings,tok_s,mem_gb,status\n"

static void validate(const char *name, const char *table, struct lw_validation *v)
{
    struct lw_input in = {.name = name, .text = (char *)(uintptr_t)table, .len = strlen(table)};
    struct lw_err err = {0};

    *v = (struct lw_validation){0};
    assert_true(lw_validate_is_table(&in));
    if (lw_validate_table(&in, v, &err) != LW_OK)
        fail_msg("%s", err.msg);
    assert_int_equal(lw_validation_judge(v, &err), LW_OK);
}

#define ROW(row, tp, tok_s, mem, status)                                                           \
    row ",H100-80GB,8,\"EFA, NVLink\",llama-like 1B,4,1024,4096,8,8,32000,512,16,1,," tp ",1,,"    \
        "0,bf16,none,True," tok_s "," mem "," status "\n"

/* Step = samples * sequence / tokens per second: 16 * 512 / 81920 = 0.1 s; 2 GiB. */
TEST(a_row_is_a_case_with_its_step_and_memory)
{
    struct lw_validation v;
    validate("dir/runs.csv", TITLES ROW("7", "2", "81920", "2", ""), &v);
    assert_int_equal(v.n_cases, 1);
    assert_string_equal(v.cases[0].id, "runs:7");
    assert_string_equal(v.families[0].name, "runs");
    assert_true(fabs(v.cases[0].measured - 1e8) < 1e-3);
    assert_true(v.cases[0].measured_bytes == 2147483648.0);
    assert_true(v.cases[0].predicted > 0 && v.cases[0].predicted_bytes > 0);
    assert_int_equal(v.families[0].n_memory, 1);
    /* tokens of a step over the devices and the predicted step */
    assert_true(fabs(v.cases[0].tokens_per_s_device * 8 * v.cases[0].predicted / (16 * 512 * 1e9) -
                     1) < 1e-9);
    lw_validation_free(&v);
}

TEST(no_measured_column_reaches_a_prediction)
{
    struct lw_validation a, b;
    validate("r.csv", TITLES ROW("0", "2", "81920", "2", "") ROW("1", "1", "5000", "3", ""), &a);
    validate("r.csv", TITLES ROW("0", "2", "163840", "4", "") ROW("1", "1", "10000", "6", ""), &b);
    assert_int_equal(a.n_cases, 2);
    for (int i = 0; i < 2; i++) {
        assert_true(a.cases[i].predicted == b.cases[i].predicted);
        assert_true(a.cases[i].predicted_bytes == b.cases[i].predicted_bytes);
        assert_true(fabs(a.cases[i].measured / b.cases[i].measured - 2) < 1e-9);
    }
    lw_validation_free(&a);
    lw_validation_free(&b);
}

/* A column that says how a run went, in any table, by what tables call such columns. */
static bool is_measured(const char *title)
{
    static const char *const words[] = {"step_s",    "iter_",     "iteration_time", "tok_s",
                                        "samples_s", "seq_per_s", "tflops",         "mfu",
                                        "mem_",      "sim_",      "time_to"};

    for (size_t k = 0; k < sizeof words / sizeof *words; k++)
        if (strstr(title, words[k]))
            return true;
    return false;
}

/* A row as CSV (-1: the titles); a number that was measured is `factor` times as large. */
static void write_row(FILE *f, const struct lw_rows *rows, int32_t row, double factor)
{
    for (int32_t c = 0; c < rows->n_columns; c++) {
        const char *cell = row < 0 ? rows->titles[c] : rows->cells[row * rows->n_columns + c];
        char *end;
        double v = strtod(cell, &end);
        if (row >= 0 && end > cell && !*end && is_measured(rows->titles[c]))
            fprintf(f, "%.17g", v * factor);
        else
            fprintf(f, row < 0 ? "%s" : "\"%s\"", cell);
        fputc(c + 1 < rows->n_columns ? ',' : '\n', f);
    }
}

static void predict_rows(const char *name, const struct lw_rows *rows, const int32_t *row,
                         double factor, struct lw_validation *v)
{
    char *text;
    size_t size;
    FILE *f = open_memstream(&text, &size);

    assert_non_null(f);
    write_row(f, rows, -1, factor);
    for (int k = 0; k < 2 && row[k] >= 0; k++)
        write_row(f, rows, row[k], factor);
    assert_int_equal(fclose(f), 0);
    validate(name, text, v);
    free(text);
}

/* One or two rows of each published table, of small plans: with all that was measured doubled
 * predictions stay. */
TEST(no_table_has_a_measured_column_that_is_read)
{
    static const struct {
        const char *name;
        int32_t row[2];
    } tables[] = {
        {"gpu-tables/mpt_fsdp", {0, 1}},
        {"gpu-tables/bloom_3d_a100", {0, -1}},
        {"gpu-tables/simumax_real_runs", {0, 1}},
        {"gpu-tables/internevo_zero1_scaling", {0, 1}},
        {"gpu-tables/megatron_h100_scaling", {0, 1}},
        {"gpu-tables/mlperf_training_steps", {4, 7}},
        {"gpu-tables/dgxc_weak_scaling", {1, 6}},
        {"gpu-tables/megatron_bridge_performance", {0, 2}},
        {"gpu-tables/nemo_performance", {0, 2}},
        {"gpu-tables/nanotron_ultrascale", {0, 1}},
        {"gpu-tables/misc_training_tables", {0, 1}},
        {"papers/narayanan2021_table1_weak_scaling", {0, 1}},
        {"papers/narayanan2021_table2_vs_zero3", {0, 1}},
        {"papers/korthikanti2022_tables3_5", {0, -1}},
        {"papers/vtrain_ground_truth_single", {0, 1}},
        {"papers/vtrain_ground_truth_multi", {0, 1}},
        {"papers/llama3_table4", {0, -1}},
        {"papers/dlperf_gpt_v100_oneflow_megatron", {0, 2}},
        {"gpu-tables/nanotron_ultrascale_failed", {0, 1}},
        {"gpu-tables/nanotron_scaling_curves", {3, 4}},
        {"gpu-tables/ablations_moe_recompute_fp8", {6, 7}},
    };
    int n_seen = 0;

    for (size_t k = 0; k < sizeof tables / sizeof *tables; k++) {
        struct lw_validation a, b;
        struct lw_input in;
        struct lw_rows rows;
        struct lw_err err;
        char path[128];
        snprintf(path, sizeof path, "../shared/%s.csv", tables[k].name);
        if (lw_input_read(path, 1 << 24, &in, &err) != LW_OK) {
            print_message("SKIP no %s\n", path);
            continue;
        }
        n_seen++;
        assert_int_equal(lw_rows_read(&in, &rows, &err), LW_OK);
        predict_rows(path, &rows, tables[k].row, 1, &a);
        predict_rows(path, &rows, tables[k].row, 2, &b);
        if (a.n_cases == 0)
            fail_msg("%s: no row is predicted", path);
        assert_int_equal(a.n_cases, b.n_cases);
        for (int32_t i = 0; i < a.n_cases; i++)
            if (a.cases[i].predicted != b.cases[i].predicted ||
                a.cases[i].predicted_bytes != b.cases[i].predicted_bytes)
                fail_msg("%s: a measured column is read", a.cases[i].id);
        lw_validation_free(&a);
        lw_validation_free(&b);
        lw_rows_free(&rows);
        lw_input_free(&in);
    }
    if (n_seen == 0)
        skip();
}

/* 12 ranks of the model are a node of 8 and a half. */
TEST(model_parallel_ranks_fill_whole_nodes)
{
    static const char table[] =
        "scheme,params_B,model_parallel_size,global_batch,gpus,micro_batch,tflops_per_gpu,"
        "days_300B_tokens\nPTD-P,174.6,%s,48,384,1,153,84\n";
    static const char *const ranks[] = {"12", "96"};

    for (int k = 0; k < 2; k++) {
        struct lw_validation v;
        char text[512];
        snprintf(text, sizeof text, table, ranks[k]);
        validate("narayanan2021_table2_vs_zero3.csv", text, &v);
        assert_int_equal(v.n_cases, k);
        if (k == 0)
            assert_string_equal(v.skips[0].reason,
                                "model-parallel ranks are not a multiple of a node's");
        lw_validation_free(&v);
    }
}

#define EXPERTS(gpus, tp, ep, layers, pp)                                                          \
    "gpu,gpus,network,model,layers,seq,gbs,mbs,tp,pp,vpp,ep,precision,framework,step_s,etp,"       \
    "mfu_base\nH100," gpus ",IB,Mixtral-8x7B," layers ",4096,32,1," tp "," pp ",4," ep             \
    ",BF16,Megatron,1,,\n"

/* A model with experts by its name; 8 ranks of experts are 4 of data times a tensor group of 2. */
TEST(experts_are_divided_over_data_and_tensor_ranks)
{
    static const struct {
        const char *table, *reason;
    } cases[] = {
        {EXPERTS("8", "1", "8", "2", "1"), NULL},
        {EXPERTS("8", "2", "4", "2", "1"), NULL},
        {EXPERTS("8", "2", "8", "2", "1"), NULL},
        {EXPERTS("8", "1", "3", "2", "1"), "expert ranks do not divide data and context ranks"},
        {EXPERTS("8", "1", "4", "6", "2"),
         "the layers do not divide into pp * vpp chunks, though those of the model that the row "
         "names do"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct lw_validation v;
        validate("r.csv", cases[k].table, &v);
        assert_int_equal(v.n_cases, cases[k].reason == NULL);
        if (cases[k].reason)
            assert_string_equal(v.skips[0].reason, cases[k].reason);
        else
            assert_true(v.cases[0].predicted > 0);
        lw_validation_free(&v);
    }
}

TEST(rows_that_cannot_be_expressed_are_listed_with_their_reason)
{
    struct lw_validation v;
    validate("r.csv", TITLES ROW("0", "3", "81920", "2", "") ROW("1", "1", "", "", ""), &v);
    assert_int_equal(v.n_cases, 0);
    assert_int_equal(v.n_skips, 2);
    assert_string_equal(v.skips[0].id, "r:0");
    assert_string_equal(v.skips[0].reason, "devices are not a multiple of tp * pp * cp");
    assert_string_equal(v.skips[1].reason, "no measured column gives a step or memory");
    assert_int_equal(v.families[0].n_skipped, 2);
    lw_validation_free(&v);
}

/* 16 samples are not 2 * 4 * 4 of them: the source contradicts itself. */
TEST(a_batch_that_is_not_its_micro_batches_is_passed_over)
{
    struct lw_validation v;
    validate("r.csv",
             TITLES "0,H100-80GB,8,NVLink,llama-like 1B,4,1024,4096,8,8,32000,512,16,2,4,2,1,4,0,"
                    "bf16,none,True,5000,1,\n",
             &v);
    assert_int_equal(v.n_cases, 0);
    assert_int_equal(v.n_skips, 1);
    assert_non_null(strstr(v.skips[0].reason, "global batch is not micro-batch * micro-batches"));
    lw_validation_free(&v);
}

/* A host of twice the time per kernel doubles a step that the host bounds. */
TEST(a_framework_of_the_same_name_takes_its_place)
{
    static const char table[] =
        "framework," TITLES "nanotron,0,H100-80GB,8,NVLink,llama-like 1B,4,256,512,4,4,512,64,64,"
        "8,1,1,1,8,0,bf16,none,True,5000,1,\n";
    static const char *const texts[] = {
        "{\"lapwing\": 1, \"kind\": \"framework\", \"name\": \"nanotron\", \"host\": "
        "{\"host_op_ns\": {\"value\": 100000, \"source\": \"x\"}}}",
        "{\"lapwing\": 1, \"kind\": \"framework\", \"name\": \"nanotron\", \"host\": "
        "{\"host_op_ns\": {\"value\": 200000, \"source\": \"x\"}}}",
        "{\"lapwing\": 1, \"kind\": \"framework\", \"name\": \"another\"}"};
    static const char *const names[] = {"nanotron", "nanotron", "another"};
    struct lw_input in = {.name = "r.csv", .text = (char *)(uintptr_t)table, .len = strlen(table)};
    double step[3];
    struct lw_err err;

    for (int k = 0; k < 3; k++) {
        struct lw_validation v = {.framework_file = "own-framework.json",
                                  .framework_name = names[k]};
        FILE *f = fopen("own-framework.json", "w");
        assert_non_null(f);
        fputs(texts[k], f);
        fclose(f);
        assert_ok(lw_validate_table(&in, &v, &err), err);
        assert_int_equal(v.n_cases, 1);
        step[k] = v.cases[0].predicted;
        lw_validation_free(&v);
    }
    remove("own-framework.json");
    assert_true(fabs(step[1] / step[0] - 2) < 0.01);
    assert_true(step[2] < step[0]); /* the known one, of 56.2 us */
}

/* Figures whose source says that they were fitted are listed with their table and rows. */
TEST(fitted_figures_are_listed)
{
    struct lw_validation v;

    validate("r.csv",
             "framework," TITLES "nanotron,0,H100-80GB,8,NVLink,llama-like 1B,4,256,512,4,4,512,64,"
             "64,8,1,1,1,8,0,bf16,none,True,5000,1,\n",
             &v);
    assert_int_equal(v.n_fits, 1);
    assert_string_equal(v.fits[0].name, "nanotron: host_op_ns");
    assert_string_equal(v.fits[0].fitted_on, "nanotron_ultrascale");
    assert_int_equal(v.fits[0].n_rows, 55);
    assert_true(v.fits[0].value == 56200);
    lw_validation_free(&v);
}

/* The command of a case has nothing but what the row says. */
TEST(a_case_has_its_command)
{
    struct lw_validation v;

    validate("r.csv",
             "framework,model,gpu,gpus,seq,gbs,mbs,tp,zero,precision,recompute,step_s,"
             "cuda_graphs,compile\n"
             "Megatron-LM,llama-3-8b,H100-80GB,16,8192,64,1,4,ZeRO-1,FP8,full,1,,\n",
             &v);
    assert_int_equal(v.n_cases, 1);
    assert_string_equal(v.cases[0].command,
                        "lapwing sim -w llama-3-8b --dtype bf16 --fp8 --attention flash --batch 1 "
                        "-c dgx-h100 --framework megatron-lm --dp 4 --tp 4 --micro-batches 16 "
                        "--sequence-parallel off --zero 1 --recompute full");
    lw_validation_free(&v);
}

/* Predicted step of a Llama of 3B on eight devices. */
static double step_of(const char *framework, const char *zero, const char *overlap, const char *pp,
                      const char *vpp)
{
    char table[600];
    struct lw_validation v;

    snprintf(table, sizeof table,
             "framework,zero,overlap,pp,vpp,model,gpu,gpus,layers,hidden,ffn,heads,vocab,seq,gbs,"
             "mbs,precision,step_s,cuda_graphs,compile\n"
             "%s,%s,%s,%s,%s,llama-like,H100-80GB,8,24,3072,8192,32,32000,4096,64,1,bf16,1,,\n",
             framework, zero, overlap, pp, vpp);
    validate("r.csv", table, &v);
    assert_int_equal(v.n_cases, 1);
    double step = v.cases[0].predicted;
    lw_validation_free(&v);
    return step;
}

/* Without ZeRO-1 nanotron's gradients are reduced by torch's DDP, whatever the table says. */
TEST(nanotron_without_zero_reduces_beside_the_backward)
{
    assert_true(step_of("nanotron", "0", "no", "1", "1") ==
                step_of("nanotron", "0", "yes", "1", "1"));
    assert_true(step_of("nanotron", "1", "no", "1", "1") >
                step_of("nanotron", "1", "yes", "1", "1"));
}

/* Gathers are no part of ZeRO-0; ZeRO-3 has its own. */
TEST(gathers_beside_the_forward_shorten_a_step)
{
    static const char *const ahead = "grad-reduce and param-gather";

    assert_true(step_of("Megatron", "1", ahead, "1", "1") <
                step_of("Megatron", "1", "yes", "1", "1"));
    assert_true(step_of("Megatron", "0", ahead, "1", "1") ==
                step_of("Megatron", "0", "yes", "1", "1"));
    assert_true(step_of("Megatron", "ZeRO-3", ahead, "1", "1") ==
                step_of("Megatron", "ZeRO-3", "yes", "1", "1"));
}

/* 24 layers on two stages: five chunks do not divide the 12 of a stage, six do. */
TEST(megatrons_chunks_divide_the_layers_of_a_stage)
{
    assert_true(step_of("Megatron", "0", "yes", "2", "5") ==
                step_of("Megatron", "0", "yes", "2", "6"));
    assert_true(step_of("Megatron", "0", "yes", "2", "4") !=
                step_of("Megatron", "0", "yes", "2", "6"));
}

/* A model of some hundred MiB fits 80 GB: a row that ran is right, one that crashed is wrong. */
TEST(a_failed_run_is_right_where_it_does_not_fit)
{
    struct lw_validation v;
    validate("r.csv",
             TITLES ROW("0", "1", "81920", "2", "ok")
                 ROW("1", "1", "", "", "crashed or out of memory"),
             &v);
    assert_int_equal(v.n_cases, 2);
    assert_int_equal(v.families[0].ran.n, 1);
    assert_int_equal(v.families[0].ran.n_right, 1);
    assert_int_equal(v.families[0].failed.n, 1);
    assert_int_equal(v.families[0].failed.n_right, 0);
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

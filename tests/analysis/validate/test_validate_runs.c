/* Tables of training runs: what is read of a row, what becomes of it, and ranks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analysis/validate/run_figures.h"
#include "analysis/validate/run_table.h"
#include "analysis/validate/validate_kinds.h"

#define TITLES                                                                                     \
    "row,gpu,gpus,network,model,layers,hidden,ffn,heads,kv_heads,vocab,seq,gbs,mbs,grad_accum,tp," \
    "pp,dp,zero,precision,recompute,tied_embeddings,tok_s,mem_gb,status\n"

static void validate(const char *name, const char *table, struct lw_validation *v)
{
    struct lw_input in = {.name = name, .text = (char *)(uintptr_t)table, .len = strlen(table)};
    struct lw_err err = {0};

    *v = (struct lw_validation){0};
    assert_true(lw_validate_is_runs(&in));
    if (lw_validate_runs(&in, v, &err) != LW_OK)
        fail_msg("%s", err.msg);
    assert_int_equal(lw_validation_judge(v, &err), LW_OK);
}

#define ROW(row, tp, tok_s, mem, status)                                                           \
    row ",H100-80GB,8,\"EFA, NVLink\",llama-like 1B,4,1024,4096,8,8,32000,512,16,1,,"              \
        tp ",1,," "0,bf16,none,True," tok_s "," mem "," status "\n"

/* Step = samples * sequence / tokens per second: 16 * 512 / 81920 = 0.1 s; 2 GiB. */
static void a_row_is_a_case_with_its_step_and_memory(void **unused)
{
    struct lw_validation v;
    (void)unused;
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

static void no_measured_column_reaches_a_prediction(void **unused)
{
    struct lw_validation a, b;
    (void)unused;
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

static void rows_that_cannot_be_expressed_are_listed_with_their_reason(void **unused)
{
    struct lw_validation v;
    (void)unused;
    validate("r.csv", TITLES ROW("0", "3", "81920", "2", "") ROW("1", "1", "", "", ""), &v);
    assert_int_equal(v.n_cases, 0);
    assert_int_equal(v.n_skips, 2);
    assert_string_equal(v.skips[0].id, "r:0");
    assert_string_equal(v.skips[0].reason, "devices are no multiple of tp * pp * cp");
    assert_string_equal(v.skips[1].reason, "no measured column gives a step or memory");
    assert_int_equal(v.families[0].n_skipped, 2);
    lw_validation_free(&v);
}

/* A model of some hundred MiB fits 80 GB: a row that ran is right, one that crashed is wrong. */
/* 16 samples are not 2 * 4 * 4 of them: the source contradicts itself. */
static void a_batch_that_is_not_its_micro_batches_is_passed_over(void **unused)
{
    struct lw_validation v;
    (void)unused;
    validate("r.csv",
             TITLES "0,H100-80GB,8,NVLink,llama-like 1B,4,1024,4096,8,8,32000,512,16,2,4,2,1,4,0,"
                    "bf16,none,True,5000,1,\n", &v);
    assert_int_equal(v.n_cases, 0);
    assert_int_equal(v.n_skips, 1);
    assert_non_null(strstr(v.skips[0].reason, "global batch is not micro-batch * micro-batches"));
    lw_validation_free(&v);
}

/* A host of twice the time per kernel doubles a step that the host bounds. */
static void a_fitted_figure_can_be_replaced(void **unused)
{
    static const char table[] =
        "framework," TITLES "nanotron,0,H100-80GB,8,NVLink,llama-like 1B,4,256,512,4,4,512,64,64,"
        "8,1,1,1,8,0,bf16,none,True,5000,1,\n";
    struct lw_input in = {.name = "r.csv", .text = (char *)(uintptr_t)table, .len = strlen(table)};
    double step[2];
    struct lw_err err;
    (void)unused;

    for (int k = 0; k < 2; k++) {
        const char *figures = k ? "nanotron host-op=200000" : "nanotron host-op=100000";
        struct lw_validation v = {.figures = figures};
        assert_int_equal(lw_validate_runs(&in, &v, &err), LW_OK);
        step[k] = v.cases[0].predicted;
        lw_validation_free(&v);
    }
    assert_true(fabs(step[1] / step[0] - 2) < 0.01);
    assert_int_equal(lw_run_figures_check("nanotron host-op=85;Composer traffic=1.5", &err), LW_OK);
    assert_int_equal(lw_run_figures_check("nanotron speed=85", &err), LW_EINVAL);
    assert_int_equal(lw_run_figures_check("nanotron host-op=", &err), LW_EINVAL);
    assert_non_null(strstr(err.msg, "found 'nanotron host-op='"));
}

static void a_failed_run_is_right_where_it_does_not_fit(void **unused)
{
    struct lw_validation v;
    (void)unused;
    validate("r.csv", TITLES ROW("0", "1", "81920", "2", "ok")
                             ROW("1", "1", "", "", "crashed or out of memory"), &v);
    assert_int_equal(v.n_cases, 2);
    assert_int_equal(v.families[0].ran.n, 1);
    assert_int_equal(v.families[0].ran.n_right, 1);
    assert_int_equal(v.families[0].failed.n, 1);
    assert_int_equal(v.families[0].failed.n_right, 0);
    lw_validation_free(&v);
}

/* Predicted 1 2 3 4 against measured 10 30 20 40: one exchange of neighbours, 1 - 6 * 2 / (4 *
 * 15) = 0.8. A sweep of three has no figure. */
static void ranks_of_a_sweep_are_correlated(void **unused)
{
    static const double measured[] = {10, 30, 20, 40};
    struct lw_validation v = {0};
    struct lw_err err = {0};
    int32_t family, four, three;
    char id[8];
    (void)unused;
    assert_int_equal(lw_validation_family(&v, "f", (struct lw_bars){0, 0, 0}, false, &family, &err),
                     LW_OK);
    assert_int_equal(lw_validation_sweep(&v, family, "four", &four, &err), LW_OK);
    assert_int_equal(lw_validation_sweep(&v, family, "three", &three, &err), LW_OK);
    for (int i = 0; i < 7; i++) {
        snprintf(id, sizeof id, "c%d", i);
        struct lw_case c = {.id = id, .unit = "ns", .family = family, .remark = "",
                            .series = i < 4 ? four : three, .predicted = 1 + i,
                            .measured = i < 4 ? measured[i] : 1};
        assert_int_equal(lw_validation_case(&v, &c, &err), LW_OK);
    }
    assert_int_equal(lw_validation_judge(&v, &err), LW_OK);
    assert_true(fabs(v.series[four].rank - 0.8) < 1e-12);
    assert_true(isnan(v.series[three].rank));
    lw_validation_free(&v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_is_a_case_with_its_step_and_memory),
        cmocka_unit_test(no_measured_column_reaches_a_prediction),
        cmocka_unit_test(rows_that_cannot_be_expressed_are_listed_with_their_reason),
        cmocka_unit_test(a_batch_that_is_not_its_micro_batches_is_passed_over),
        cmocka_unit_test(a_fitted_figure_can_be_replaced),
        cmocka_unit_test(a_failed_run_is_right_where_it_does_not_fit),
        cmocka_unit_test(ranks_of_a_sweep_are_correlated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

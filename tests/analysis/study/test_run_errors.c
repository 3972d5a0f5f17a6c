/* The table of errors that `sim` prints against the validation that it is made from. */
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analysis/study/run_errors.h"
#include "analysis/validate/validate_kinds.h"
#include "shared/files/files.h"
#include "shared/io/csv_rows.h"

static const char TABLE[] = "../shared/papers/dlperf_gpt_v100_oneflow_megatron.csv";

struct sum {
    double abs_pct;
    int32_t n;
};

/* Cases are named TABLE:ROW/FRAMEWORK; split: tensor or pipeline groups of more than one rank. */
static void add_up(const struct lw_validation *v, const struct lw_rows *rows, struct sum sums[2])
{
    for (int32_t i = 0; i < v->n_cases; i++) {
        int32_t row = atoi(strchr(v->cases[i].id, ':') + 1);
        bool split = atoi(lw_rows_cell(rows, row, "t")) * atoi(lw_rows_cell(rows, row, "p")) > 1;
        sums[split].abs_pct += fabs(v->cases[i].error_pct);
        sums[split].n++;
    }
}

/* The only table of V100. */
TEST(the_rows_of_v100_are_those_of_its_table)
{
    struct lw_validation v = {0};
    struct sum sums[2] = {{0, 0}, {0, 0}};
    struct lw_rows rows;
    struct lw_input in;
    struct lw_err err;

    if (access(TABLE, R_OK) != 0) {
        printf("SKIP %s is not here\n", TABLE);
        skip();
    }
    assert_int_equal(lw_input_read(TABLE, 0, &in, &err), LW_OK);
    assert_int_equal(lw_validate_runs(&in, &v, &err), LW_OK);
    assert_int_equal(lw_validation_judge(&v, &err), LW_OK);
    assert_int_equal(lw_rows_read(&in, &rows, &err), LW_OK);
    add_up(&v, &rows, sums);
    for (int split = 0; split < 2; split++) {
        const struct lw_run_errors *e = lw_run_errors_of("V100-SXM2-16GB", split);
        assert_non_null(e);
        assert_int_equal(e->n, sums[split].n);
        double mean = sums[split].abs_pct / sums[split].n;
        if (fabs(e->mean_abs_pct - mean) > 0.051)
            fail_msg("%g %% in run_errors.c, %g %% now: make run-errors", e->mean_abs_pct, mean);
    }
    lw_rows_free(&rows);
    lw_validation_free(&v);
    lw_input_free(&in);
}

/* tests/analysis/validate/run_errors.py on made-up cases of three devices: names that begin
 * alike are told apart, a row is split by either kind of group, and the 90th percentile of ten
 * errors is the largest. */
TEST(rows_are_made_of_cases_by_device_and_split)
{
    char table[1024] = "row,gpu,tp,pp\n", cases[1024] = "{\"cases\": [";
    int rc;

    shell("python3 -c 'import csv'", &rc);
    if (rc != 0) {
        printf("SKIP no python3\n");
        skip();
    }
    for (int i = 0; i < 13; i++) {
        size_t n = strlen(table), m = strlen(cases);
        const char *gpu = i < 10 ? "GB200 NVL72" : i == 10 ? "B200-SXM" : "H200";
        snprintf(table + n, sizeof table - n, "%d,%s,%d,%d\n", i, gpu, i == 11 ? 2 : 1,
                 i == 12 ? 4 : 1);
        snprintf(cases + m, sizeof cases - m, "%s{\"id\": \"t:%d\", \"error_pct\": %d}",
                 i ? ", " : "", i, i % 2 ? i + 1 : -i - 1);
    }
    strcat(cases, "]}");
    shell("mkdir -p out shared/gpu-tables", &rc);
    fixture_put(fixture_path("shared/gpu-tables/t.csv"), table);
    fixture_put(fixture_path("out/t.json"), cases);
    fixture_put(fixture_path("rows.c"), "before\nrows[] = {\n    {old},\n};\nafter\n");
    shell("python3 $P/tests/analysis/validate/run_errors.py out shared rows.c", NULL);
    assert_string_equal(shell("cat rows.c", NULL),
                        "before\nrows[] = {\n"
                        "    {\"B200\", false, 1, 11.0, 11.0},\n"
                        "    {\"GB200\", false, 10, 5.5, 10.0},\n"
                        "    {\"H200\", true, 2, 12.5, 13.0},\n"
                        "};\nafter\n");
}

/* Of every known device that the rows name: kinds that begin alike are not mixed up. */
TEST(known_devices_find_the_errors_of_their_own_kind)
{
    static const struct {
        const char *cluster, *device;
    } cases[] = {{"dgx-a100", "A100"}, {"dgx-h100", "H100"}, {"dgx-h200", "H200"},
                 {"dgx-b200", "B200"}, {"dgx-b300", "B300"}, {"gb200", "GB200"},
                 {"gb300", "GB300"}, {"v100-ib", "V100"}};

    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct lw_cluster c;
        struct lw_err err;
        assert_ok(lw_cluster_find(cases[k].cluster, &c, &err), err);
        for (int split = 0; split < 2; split++) {
            const struct lw_run_errors *e = lw_run_errors_of(c.device.kind, split);
            assert_non_null(e);
            assert_string_equal(e->device, cases[k].device);
            assert_int_equal(e->split, split);
            assert_true(e->n > 0 && e->mean_abs_pct > 0 && e->p90_abs_pct >= e->mean_abs_pct);
        }
        lw_cluster_free(&c);
    }
}

TEST(an_unknown_device_has_no_errors)
{
    assert_null(lw_run_errors_of("abacus", false));
    assert_null(lw_run_errors_of(NULL, true));
    assert_null(lw_run_errors_of("XH100", false)); /* the kind begins with the device */
    assert_non_null(lw_run_errors_of("H100-SXM5-80GB", false));
}

/* Times of another device say nothing of how well this one is predicted. */
TEST(errors_of_a_device_go_with_times_of_it)
{
    expect("model gpt2 -o cpu.json", 0, "wrote cpu.json");
    expect("model gpt2 --device h100 -o gpu.json", 0, "wrote gpu.json");
    expect("sim -w gpu.json -c dgx-h100 --dp 8 --no-db", 0, "runs like this one (H100");
    assert_null(strstr(
        lapwing("sim -w cpu.json -c dgx-h100 --as-recorded --dp 8 --no-db", NULL), "runs like"));
}

TEST_GROUP(fixture_open, fixture_close)

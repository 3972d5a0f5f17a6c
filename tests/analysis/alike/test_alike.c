/* Runs like this one: intervals, the nearest kind, and whether intervals hold. */
#include "tests/lib/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/alike/alike_coverage.h"
#include "shared/base/arena.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"

TEST_GROUP(fixture_open, fixture_close)

#define TITLES "id,framework,device,parallelism,network,predicted_s,measured_s\n"

static struct lw_input input(const char *name, const char *text)
{
    return (struct lw_input){
        .name = (char *)(uintptr_t)name, .text = (char *)(uintptr_t)text, .len = strlen(text)};
}

/* n runs of a table and kind whose ratios are first, first + step, ...; in an order of its own. */
static void add(struct lw_alike_runs *r, const char *table, const char *kind, int n, double first,
                double step)
{
    char text[3000] = TITLES;
    size_t at = strlen(text);
    struct lw_err err;

    for (int i = 0; i < n; i++)
        at += (size_t)sprintf(text + at, "%d,%s,%.6f,2\n", i, kind,
                              2 * (first + step * (i % 2       ? i - 1
                                                   : i + 1 < n ? i + 1
                                                               : i)));
    struct lw_input in = input(table, text);
    assert_ok(lw_alike_add(&in, r, &err), err);
}

static const struct lw_alike_key nemo_ib = {{"nemo", "H100", "model", "InfiniBand"}};

/* Nine ratios 0.80, 0.85, ... 1.20: positions p (n + 1) are 1 and 9, the mean is 1. Of eight p10 is
 * at 0.9, before the least; of ten at 1.1: 0.8 + 0.1 * 0.05. */
TEST(an_interval_is_of_the_quantiles_of_alike_runs)
{
    static const struct {
        int n;
        double p10, p90, mean;
    } cases[] = {{9, 0.8, 1.2, 1}, {8, 0.8, 1.15, 0.975}, {10, 0.805, 1.245, 1.025}};

    for (int k = 0; k < 3; k++) {
        struct lw_alike_runs r = {.n = 0};
        struct lw_alike a;
        add(&r, "t.csv", "nemo,H100,model,InfiniBand", cases[k].n, 0.8, 0.05);
        add(&r, "t.csv", "nemo,H100,model,NVLink", 20, 3, 0.1);
        lw_alike_find(&r, &nemo_ib, NULL, &a);
        assert_int_equal(a.n, cases[k].n);
        assert_int_equal(a.n_tables, 1);
        assert_int_equal(a.n_nearest, 0);
        assert_true(fabs(a.p10 - cases[k].p10) < 1e-9 && fabs(a.p90 - cases[k].p90) < 1e-9);
        assert_true(fabs(a.mean - cases[k].mean) < 1e-9);
        lw_alike_free(&r);
    }
}

/* Seven are too few: the nearest kind has the same framework and device before the same network,
 * and at least eight runs itself. */
TEST(too_few_runs_have_a_nearest_kind)
{
    struct lw_alike_runs r = {.n = 0}, one = {.n = 0};
    char say[320];
    struct lw_alike a;

    add(&r, "t.csv", "nemo,H100,model,InfiniBand", 7, 0.8, 0.05);
    add(&r, "t.csv", "fsdp,H100,model,InfiniBand", 9, 0.8, 0.05);
    add(&r, "t.csv", "nemo,H100,model,EFA", 5, 0.8, 0.05);
    add(&r, "t.csv", "nemo,H100,data,NVLink", 8, 0.8, 0.05);
    lw_alike_find(&r, &nemo_ib, NULL, &a);
    assert_int_equal(a.n, 7);
    assert_true(isnan(a.p10) && isnan(a.p90) && isnan(a.mean));
    assert_int_equal(a.n_nearest, 8);
    assert_string_equal(lw_alike_nearest_text(&a, &nemo_ib, say, sizeof say),
                        "the nearest are 8 runs of nemo on H100 (data, NVLink); they differ in "
                        "parallelism, network");
    lw_alike_free(&r);
    add(&one, "t.csv", "nemo,H100,model,EFA", 1, 1, 1);
    lw_alike_find(&one, &nemo_ib, NULL, &a);
    assert_true(a.n == 0 && a.n_nearest == 0);
    lw_alike_free(&one);
}

/* Table a has the ratios 0.80 to 1.25 and b 0.9 to 1.35. Left out, each is held against the other:
 * of a's ten those from 0.905 to 1.345 are inside, 0.95 to 1.25: 7; of b's those from 0.805 to
 * 1.245, 0.9 to 1.2: 7. Table c has a kind of its own. */
TEST(coverage_leaves_out_the_runs_own_table)
{
    struct lw_alike_runs r = {.n = 0};
    struct lw_alike_coverage c;
    struct lw_err err;

    add(&r, "a.csv", "nemo,H100,model,InfiniBand", 10, 0.8, 0.05);
    add(&r, "results/b.csv", "nemo,H100,model,InfiniBand", 10, 0.9, 0.05);
    add(&r, "c.csv", "fsdp,H100,model,InfiniBand", 10, 0.9, 0.05);
    assert_ok(lw_alike_cover(&r, "a", &c, &err), err);
    assert_true(c.n == 10 && c.n_known == 10 && c.n_inside == 7);
    assert_true(c.width == 1.49 && c.inside_pct == 70); /* 1.345 / 0.905 */
    assert_ok(lw_alike_cover(&r, "b", &c, &err), err);
    assert_true(c.n == 10 && c.n_known == 10 && c.n_inside == 7);
    assert_ok(lw_alike_cover(&r, "c", &c, &err), err);
    assert_true(c.n == 10 && c.n_known == 0 && c.n_inside == 0 && isnan(c.width));
    lw_alike_free(&r);
}

/* Tables of the user, and those that the program carries. */
TEST(coverage_is_printed_by_table)
{
    char text[3000] = TITLES;
    size_t at = strlen(text);

    for (int i = 0; i < 10; i++)
        at +=
            (size_t)sprintf(text + at, "%d,nemo,H100,model,InfiniBand,%.2f,1\n", i, 0.8 + 0.05 * i);
    fixture_put(fixture_path("a.csv"), text);
    fixture_put(fixture_path("b.csv"), text);
    expect("validate --coverage a.csv b.csv --format csv", 0,
           "table,n,n_with_interval,n_inside,inside_pct,median_width\na,10,10,8,80,1.55\n"
           "b,10,10,8,80,1.55\nall,20,20,16,80,1.55\n");
    expect("validate --coverage a.csv", 0, "all      10");
    expect("validate --coverage", 0, "dgxc_weak_scaling ");
    expect("validate --coverage none.csv", 1, "none.csv");
    expect("validate --coverage --here", 2, "--coverage goes with files of results");
}

TEST(a_wrong_cell_of_the_results_is_named)
{
    static const struct {
        const char *row, *says;
    } cases[] = {
        {"0,nemo,H100,model,,1,1\n", "s.csv:2: network: found an empty cell"},
        {"0,nemo,H100,model,EFA,0,1\n", "s.csv:2: predicted_s: found '0'"},
        {"0,nemo,H100,model,EFA,1,x\n", "s.csv:2: measured_s: found 'x'"},
    };

    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char text[300];
        struct lw_alike_runs r = {.n = 0};
        struct lw_err err = {0};
        snprintf(text, sizeof text, TITLES "%s", cases[k].row);
        struct lw_input in = input("s.csv", text);
        assert_int_equal(lw_alike_add(&in, &r, &err), LW_EFORMAT);
        lw_alike_free(&r);
        if (!strstr(err.msg, cases[k].says))
            fail_msg("'%s' lacks '%s'", err.msg, cases[k].says);
    }
}

/* An interval is of what `sim` predicts; a run whose table a figure was fitted on is judged without
 * it. A row without a time is no run. */
TEST(a_fitted_prediction_is_judged_without_its_figure)
{
    struct lw_alike_runs r = {.n = 0};
    struct lw_err err;
    struct lw_input in = input("s.csv", "framework,device,parallelism,network,predicted_s,"
                                        "measured_s,left_out_s,memory_gib\n"
                                        "nemo,H100,model,EFA,1,1,,\nnemo,H100,model,EFA,1,1,3,\n"
                                        "nemo,H100,model,EFA,1,,,40\n");

    assert_ok(lw_alike_add(&in, &r, &err), err);
    assert_int_equal(r.n, 2);
    assert_true(r.runs[0].ratio == 1 && r.runs[0].judged == 1);
    assert_true(r.runs[1].ratio == 1 && r.runs[1].judged == 3);
    assert_string_equal(r.runs[0].table, "s");
    lw_alike_free(&r);
}

TEST(memory_that_runs_out_leaves_nothing)
{
    static const char text[] = TITLES "0,nemo,H100,model,EFA,1,1\n1,nemo,H100,model,EFA,2,1\n";
    struct lw_input in = input("s.csv", text);
    int64_t live = lw_alloc_live();
    enum lw_status s = LW_ENOMEM;

    for (int64_t n = 1; s != LW_OK; n++) {
        struct lw_alike_runs r = {.n = 0};
        struct lw_err err = {0};
        lw_alloc_fail_at(n);
        s = lw_alike_add(&in, &r, &err);
        lw_alloc_fail_at(0);
        lw_alike_free(&r);
        assert_int_equal(lw_alloc_live(), live);
    }
}

/* What the program carries: `sim` says an interval of it, or what is nearest. */
TEST(sim_says_what_measured_runs_are_like_it)
{
    struct lw_alike_runs r;
    struct lw_alike a;
    struct lw_err err;
    int64_t step, p10, p90;

    assert_ok(lw_alike_known(&r, &err), err);
    const struct lw_alike_key mpt = {{"composer", "A100-SXM4-80GB", "sharded", "NVLink"}};
    lw_alike_find(&r, &mpt, NULL, &a);
    assert_true(a.n >= LW_ALIKE_LEAST && a.p10 < a.p90 && a.p10 > 0);
    const char *json = lapwing("sim -w gpt-1.3b -c dgx-a100 --framework composer --dp 8 --zero 3 "
                               "--no-db --format json",
                               NULL);
    assert_int_equal(sscanf(strstr(json, "\"step_ns\": "), "\"step_ns\": %ld", &step), 1);
    assert_int_equal(sscanf(strstr(json, "\"p10_ns\": "), "\"p10_ns\": %ld", &p10), 1);
    assert_int_equal(sscanf(strstr(json, "\"p90_ns\": "), "\"p90_ns\": %ld", &p90), 1);
    assert_true(fabs((double)p10 - (double)step / a.p90) < 2);
    assert_true(fabs((double)p90 - (double)step / a.p10) < 2);
    lw_alike_free(&r);
    expect("sim -w gpt-1.3b -c dgx-a100 --framework composer --dp 8 --zero 3 --no-db", 0,
           " runs like this one), median");
    expect("sim -w gpt-1.3b -c mi300x --framework composer --dp 8 --zero 3 --no-db", 0,
           "; no measured run is like this one: the nearest are ");
    expect("sim -w gpt-1.3b -c mi300x --framework composer --dp 8 --zero 3 --no-db --format json",
           0, "\"p10_ns\": null");
    lapwing("sim -w gpt-1.3b -c dgx-a100 --framework ideal --dp 8 --no-db", NULL);
    assert_null(
        strstr(lapwing("sim -w gpt-1.3b -c dgx-a100 --framework ideal --dp 8 --no-db", NULL),
               "like this one"));
}

static struct lw_alike_key key_of(const char *options)
{
    static char part[LW_ALIKE_PARTS][64];
    struct lw_alike_key key;

    fixture_put(fixture_path("k.csv"), options);
    const char *json = lapwing("validate k.csv --format json", NULL);
    for (int k = 0; k < LW_ALIKE_PARTS; k++) {
        char name[32];
        snprintf(name, sizeof name, "\"%s\": \"", lw_alike_part_name(k));
        const char *at = strstr(strstr(json, "\"cases\""), name);
        assert_non_null(at);
        snprintf(part[k], sizeof part[k], "%.*s", (int)strcspn(at + strlen(name), "\""),
                 at + strlen(name));
        key.part[k] = part[k];
    }
    return key;
}

TEST(a_run_has_its_kind)
{
    static const struct {
        const char *row, *parallelism, *network;
    } cases[] = {
        {"gpt2,dgx-a100,1,1,1,0", "none", "none"},
        {"gpt2,dgx-a100,8,1,1,0", "data", "NVLink"},
        {"gpt2,dgx-a100,16,1,1,1", "data", "InfiniBand"},
        {"gpt2,p4d,16,1,1,3", "sharded", "EFA"},
        {"gpt2,jean-zay-a100,4,4,1,0", "model", "Omni-Path"},
        {"gpt2,a100-roce4,4,1,4,3", "model", "RoCE"},
        {"mixtral-8x7b,dgx-h100,16,1,1,0", "experts", "InfiniBand"},
    };

    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char text[200];
        snprintf(text, sizeof text, "model,cluster,dp,tp,pp,zero,framework,step_s\n%s,torch,1\n",
                 cases[k].row);
        struct lw_alike_key key = key_of(text);
        assert_string_equal(key.part[0], "torch");
        assert_string_equal(key.part[2], cases[k].parallelism);
        assert_string_equal(key.part[3], cases[k].network);
    }
}

/* Runs like this one: intervals, the nearest kind, and whether intervals hold. */
#include "tests/lib/unit.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/alike/alike_coverage.h"
#include "shared/base/arena.h"
#include "shared/io/csv_rows.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/sql_file.h"

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
    char text[8000] = TITLES;
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
    lw_alike_find_nearest(&r, &nemo_ib, NULL, &a);
    assert_int_equal(a.n, 7);
    assert_true(isnan(a.p10) && isnan(a.p90) && isnan(a.mean));
    assert_true(a.of == LW_ALIKE_OF_NONE && isnan(a.low) && isnan(a.high)); /* one table */
    assert_int_equal(a.n_nearest, 8);
    assert_string_equal(lw_alike_nearest_text(&a, &nemo_ib, say, sizeof say),
                        "the nearest are 8 runs of nemo on H100 (data, NVLink); they differ in "
                        "parallelism, network");
    lw_alike_free(&r);
    add(&one, "t.csv", "nemo,H100,model,EFA", 1, 1, 1);
    lw_alike_find(&one, &nemo_ib, NULL, &a);
    lw_alike_find_nearest(&one, &nemo_ib, NULL, &a);
    assert_true(a.n == 0 && a.n_nearest == 0);
    lw_alike_free(&one);
}

/* Of two kinds that are equally near the one of more runs is named, of as many the first in the
 * order of letters; the order of rows and ratios has no say. */
TEST(equally_near_kinds_have_an_order)
{
    static const struct {
        int n_efa, n_roce;
        const char *network;
    } cases[] = {{8, 9, "RoCE"}, {9, 8, "EFA"}, {9, 9, "EFA"}};

    for (int k = 0; k < 6; k++) {
        struct lw_alike_runs r = {.n = 0};
        struct lw_alike a;
        bool turned = k % 2;
        add(&r, "t.csv", "nemo,H100,model,RoCE", cases[k / 2].n_roce, turned ? 0.5 : 1.5, 0.01);
        add(&r, "t.csv", "nemo,H100,model,EFA", cases[k / 2].n_efa, turned ? 1.5 : 0.5, 0.01);
        lw_alike_find(&r, &nemo_ib, NULL, &a);
        lw_alike_find_nearest(&r, &nemo_ib, NULL, &a);
        assert_string_equal(a.nearest.part[3], cases[k / 2].network);
        lw_alike_free(&r);
    }
}

/* A table weighs as much as another, however many runs it has. Table a has 90 ratios 1.00 to 1.09,
 * b and c have ten each: 0.50 to 0.59 and 2.00 to 2.09. A run of b weighs 1/30: the fourth, 0.53,
 * is the first beyond 0.1. From above it is the fourth of c, 2.06. */
TEST(an_interval_has_tables_of_equal_weight)
{
    struct lw_alike_runs r = {.n = 0};
    struct lw_alike a;
    char say[96];

    add(&r, "a.csv", "nemo,H100,model,InfiniBand", 90, 1, 0.001);
    add(&r, "b.csv", "nemo,H100,model,InfiniBand", 10, 0.5, 0.01);
    add(&r, "c.csv", "nemo,H100,model,InfiniBand", 10, 2, 0.01);
    lw_alike_find(&r, &nemo_ib, NULL, &a);
    assert_true(a.of == LW_ALIKE_OF_KEY && a.of_tables == 3 && a.of_runs == 110);
    assert_true(fabs(a.low - 0.53) < 1e-9 && fabs(a.high - 2.06) < 1e-9);
    /* a's 46th ratio from either side, 1.045 and 1.044; all of b took longer than predicted */
    assert_true(fabs(a.median - 1.0445) < 1e-9 && fabs(a.longer - 1.0 / 3) < 1e-9);
    assert_string_equal(lw_alike_of_text(&a, say, sizeof say),
                        "110 runs like this one in 3 tables");
    lw_alike_find(&r, &nemo_ib, "c", &a); /* two tables are too few */
    assert_true(a.of == LW_ALIKE_OF_NONE && isnan(a.low) && isnan(a.median) && isnan(a.longer));
    lw_alike_free(&r);
}

/* Runs of one table say nothing of how tables differ: the interval is of all tables with the same
 * parallelism, and holds the p10 and p90 of the runs that are alike. Of three tables with three
 * ratios each a run weighs 1/9, so the least (0.9) is beyond 0.1. The ten alike runs have 0.5 to
 * 0.59: p10 at 1.1 is 0.501. Their least four tables hence (a run is 1/40) are below 0.1. */
TEST(few_tables_take_the_interval_of_a_wider_kind)
{
    static const struct lw_alike_key other = {{"nemo", "H100", "data", "EFA"}};
    struct lw_alike_runs r = {.n = 0};
    struct lw_alike a;
    char say[96];

    add(&r, "a.csv", "x,A100,model,EFA", 3, 0.9, 0.1);
    add(&r, "b.csv", "y,A100,model,EFA", 3, 0.95, 0.1);
    add(&r, "c.csv", "z,A100,model,EFA", 3, 1, 0.1);
    lw_alike_find(&r, &nemo_ib, NULL, &a);
    assert_true(a.of == LW_ALIKE_OF_PARALLELISM && a.n == 0 && a.of_tables == 3);
    assert_true(fabs(a.low - 0.9) < 1e-9 && fabs(a.high - 1.2) < 1e-9);
    assert_true(fabs(a.median - 1.05) < 1e-9 && fabs(a.longer - 2.0 / 9) < 1e-9);
    assert_string_equal(lw_alike_of_text(&a, say, sizeof say),
                        "3 tables with the same parallelism");
    lw_alike_find(&r, &other, NULL, &a);
    assert_true(a.of == LW_ALIKE_OF_ALL && a.of_tables == 3);
    assert_string_equal(lw_alike_of_text(&a, say, sizeof say), "3 tables of measured runs");
    add(&r, "d.csv", "nemo,H100,model,InfiniBand", 10, 0.5, 0.01);
    lw_alike_find(&r, &nemo_ib, NULL, &a);
    assert_true(a.of == LW_ALIKE_OF_PARALLELISM && a.n == 10 && a.of_tables == 4);
    assert_true(fabs(a.low - 0.501) < 1e-9 && fabs(a.high - 1.15) < 1e-9);
    assert_string_equal(lw_alike_of_text(&a, say, sizeof say),
                        "10 runs like this one, and 4 tables with the same parallelism");
    lw_alike_free(&r);
}

/* Four tables of three kinds, ten runs each: a has the ratios 0.80 to 1.25, b 0.9 to 1.35, c and d
 * 1.0 to 1.45. Left out, a is held against b, c and d, where each run weighs 1/30. p10 is the
 * fourth from below of 0.9, 0.95, 1.0 (b's), 1.0, 1.0: 1.0. p90 is the fourth from above of 1.45,
 * 1.45, 1.4, 1.4: 1.4. b is alike, its p10 of 0.9 + 0.1 * 0.05 is lower. Inside are a's seven from
 * 0.95 to 1.25; 1.4 / 0.905 = 1.547. */
TEST(coverage_leaves_out_the_runs_own_table)
{
    struct lw_alike_runs r = {.n = 0};
    struct lw_alike_coverage c;
    struct lw_err err;

    add(&r, "a.csv", "nemo,H100,model,InfiniBand", 10, 0.8, 0.05);
    add(&r, "results/b.csv", "nemo,H100,model,InfiniBand", 10, 0.9, 0.05);
    add(&r, "c.csv", "fsdp,H100,model,InfiniBand", 10, 1.0, 0.05);
    assert_ok(lw_alike_cover(&r, "a", &c, &err), err);
    assert_true(c.n == 10 && c.n_known == 0 && isnan(c.width)); /* two others are too few */
    add(&r, "d.csv", "fsdp,H100,data,InfiniBand", 10, 1.0, 0.05);
    assert_ok(lw_alike_cover(&r, "a", &c, &err), err);
    assert_true(c.n == 10 && c.n_known == 10 && c.n_inside == 7);
    assert_true(c.width == 1.55 && c.inside_pct == 70);
    lw_alike_free(&r);
}

/* Tables of the user, and those that the program carries. Four tables of the same ten ratios 0.80
 * to 1.25: p10 is 0.85 and p90 1.20, as three runs of 1/30 have each ratio. */
TEST(coverage_is_printed_by_table)
{
    char text[3000] = TITLES;
    size_t at = strlen(text);

    for (int i = 0; i < 10; i++)
        at +=
            (size_t)sprintf(text + at, "%d,nemo,H100,model,InfiniBand,%.2f,1\n", i, 0.8 + 0.05 * i);
    fixture_put(fixture_path("a.csv"), text);
    fixture_put(fixture_path("b.csv"), text);
    fixture_put(fixture_path("c.csv"), text);
    fixture_put(fixture_path("d.csv"), text);
    expect("validate --coverage a.csv b.csv c.csv d.csv --format csv", 0,
           "table,n,n_with_interval,n_inside,inside_pct,median_width\na,10,10,8,80,1.41\n"
           "b,10,10,8,80,1.41\nc,10,10,8,80,1.41\nd,10,10,8,80,1.41\nall,40,40,32,80,1.41\n");
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

static int64_t number_in(const char *json, const char *key)
{
    char text[32];
    int64_t v = -1;

    snprintf(text, sizeof text, "\"%s\": ", key);
    const char *at = strstr(json, text);
    assert_non_null(at);
    assert_int_equal(sscanf(at + strlen(text), "%ld", &v), 1);
    return v;
}

#define RESULTS "docs/results/evidence"

/* All runs of the files, in the order of names, read as `validate --coverage` reads files. */
static void read_results(struct lw_alike_runs *r)
{
    struct dirent **found;
    struct lw_err err;
    int n = scandir(RESULTS, &found, NULL, alphasort);

    assert_true(n > 30);
    for (int i = 0; i < n; i++) {
        char path[512];
        struct lw_input in;
        snprintf(path, sizeof path, RESULTS "/%s", found[i]->d_name);
        if (strstr(path, ".csv")) {
            assert_ok(lw_input_read(path, 0, &in, &err), err);
            if (lw_rows_have(&in, "predicted_s measured_s"))
                assert_ok(lw_alike_add(&in, r, &err), err);
            lw_input_free(&in);
        }
        free(found[i]);
    }
    free(found);
}

static void assert_same_run(const struct lw_alike_run *a, const struct lw_alike_run *b)
{
    assert_string_equal(a->table, b->table);
    for (int part = 0; part < LW_ALIKE_PARTS; part++) {
        assert_string_equal(a->key.part[part], b->key.part[part]);
        assert_int_equal(a->key.other_figures[part], b->key.other_figures[part]);
    }
    assert_true(a->ratio == b->ratio && a->judged == b->judged);
    assert_int_equal(a->number, b->number);
    assert_int_equal(a->table_number, b->table_number);
}

/* What the build made of the published results is what reading them gives, to the bit. */
TEST(the_program_carries_the_published_results)
{
    struct lw_alike_runs known, read = {.n = 0};
    struct lw_err err;

    assert_ok(lw_alike_known(&known, &err), err);
    read_results(&read);
    assert_true(read.n > 2000);
    assert_int_equal(known.n, read.n);
    assert_int_equal(known.n_tables, read.n_tables);
    for (int32_t i = 0; i < read.n; i++) {
        assert_same_run(&known.runs[i], &read.runs[i]);
        assert_same_run(&known.judged[i], &read.judged[i]);
    }
    lw_alike_free(&known);
    lw_alike_free(&read);
}

static double decimals_in(const char *json, const char *key)
{
    char text[64];

    snprintf(text, sizeof text, "\"%s\": ", key);
    const char *at = strstr(json, text);
    assert_non_null(at);
    return strtod(at + strlen(text), NULL);
}

/* What the program carries: `sim` says an interval of it, on which side of a prediction its runs
 * lie, and what is nearest. */
TEST(sim_says_what_measured_runs_are_like_it)
{
    struct lw_alike_runs r;
    struct lw_alike a;
    char line[112];
    struct lw_err err;

    assert_ok(lw_alike_known(&r, &err), err);
    const struct lw_alike_key mpt = {{"composer", "A100-SXM4-80GB", "sharded", "NVLink"}};
    lw_alike_find(&r, &mpt, NULL, &a);
    assert_true(a.n >= LW_ALIKE_LEAST && a.p10 < a.p90 && a.p10 > 0);
    assert_true(a.low <= a.p10 && a.p90 <= a.high);
    const char *json = lapwing("sim -w gpt-1.3b -c dgx-a100 --framework composer --dp 8 --zero 3 "
                               "--no-db --format json",
                               NULL);
    int64_t step = number_in(json, "step_ns");
    assert_true(llabs(number_in(json, "p10_ns") - (int64_t)((double)step / a.high)) < 2);
    assert_true(llabs(number_in(json, "p90_ns") - (int64_t)((double)step / a.low)) < 2);
    assert_non_null(strstr(json, " runs like this one, and "));
    assert_true(fabs(decimals_in(json, "interval_median_ratio") - a.median) < 5.1e-5);
    assert_true(fabs(decimals_in(json, "interval_longer_pct") - 100 * a.longer) < 5.1e-3);
    snprintf(line, sizeof line, "\nsuch runs took %.2f times the predicted step (median over "
             "tables), %.0f %% of them longer\n", 1 / a.median, 100 * a.longer);
    expect("sim -w gpt-1.3b -c dgx-a100 --framework composer --dp 8 --zero 3 --no-db", 0, line);
    lw_alike_free(&r);
    expect("sim -w gpt-1.3b -c dgx-a100 --framework composer --dp 8 --zero 3 --no-db", 0,
           " runs like this one, and ");
    expect("sim -w gpt-1.3b -c mi300x --framework composer --dp 8 --zero 3 --no-db", 0,
           " tables with the same parallelism), median of 1");
    expect("sim -w gpt-1.3b -c mi300x --framework composer --dp 8 --zero 3 --no-db", 0,
           "no measured run is like this one: the nearest are ");
    /* all measured runs are of transformers on GPUs */
    expect("sim -w resnet50 -c dgx-a100 --framework torch-ddp --dp 8 --no-db --format json", 0,
           "\"p10_ns\": null");
    assert_null(
        strstr(lapwing("sim -w gpt-1.3b -c dgx-a100 --framework ideal --dp 8 --no-db", NULL),
               "like this one"));
    assert_non_null(strstr(lapwing("sim -w gpt-1.3b -c dgx-a100 --framework ideal --dp 8 --no-db "
                                   "--format json", NULL), "\"p10_ns\": null"));
}

/* The database has the numbers that were printed, and each command shows them. */
TEST(an_interval_is_stored_and_shown)
{
    char text[128];

    shell("rm -f i.db*", NULL);
    const char *json = lapwing("sim -w gpt-1.3b -c dgx-a100 --framework composer --dp 8 --zero 3 "
                               "--db i.db --format json", NULL);
    int64_t p10 = number_in(json, "p10_ns"), p90 = number_in(json, "p90_ns");
    double step = (double)number_in(json, "step_ns");
    lapwing("sim -w gpt-1.3b -c dgx-a100 --framework composer --dp 8 --zero 2 --db i.db", NULL);
    lapwing("sim -w gpt-1.3b -c dgx-a100 --framework ideal --dp 8 --db i.db", NULL);
    json = lapwing("runs 1 --db i.db --format json", NULL);
    assert_int_equal(number_in(json, "p10_ns"), p10);
    assert_int_equal(number_in(json, "p90_ns"), p90);
    json = lapwing("compare 1 2 --db i.db --format json", NULL);
    assert_int_equal(number_in(json, "p10_ns"), p10);
    assert_int_equal(number_in(json, "p90_ns"), p90);
    snprintf(text, sizeof text, "step,,p10,ns,%ld,", (long)p10);
    expect("compare 1 2 --db i.db --format csv", 0, text);
    expect("compare 1 2 --db i.db", 0, "the two intervals overlap");
    expect("compare 1 2 --db i.db", 0, "step of run 2: p10-p90 ");
    assert_null(strstr(lapwing("compare 1 3 --db i.db", NULL), "the two intervals"));
    expect("compare 1 2 3 --db i.db", 0, "  step: p10-p90 ");
    snprintf(text, sizeof text, "%+.0f/%+.0f %%", 100 * ((double)p10 / step - 1),
             100 * ((double)p90 / step - 1));
    expect("runs --db i.db", 0, text);
    assert_null(strstr(lapwing("runs 3 --db i.db", NULL), "p10"));
    lapwing("report --db i.db -o i.html", NULL);
    char *page = fixture_get(fixture_path("i.html"));
    snprintf(text, sizeof text, "<small>p10-p90 %.3f ms-", (double)p10 / 1e6);
    assert_non_null(strstr(page, text));
    free(page);
    expect("plot overlap 1 --db i.db -o o.gp", 0, "o.gp");
    char *gp = fixture_get(fixture_path("o.gp"));
    assert_non_null(strstr(gp, "|-| p10-p90 of the predicted step"));
    free(gp);
    expect("plot overlap 3 --db i.db -o o.gp --force", 0, "o.gp");
    gp = fixture_get(fixture_path("o.gp"));
    assert_null(strstr(gp, "p10-p90"));
    free(gp);
}

/* A plan of a model, from its file or from a run, has the interval of the command that made it. */
TEST(a_plan_has_the_interval_of_its_command)
{
    static const char *const commands[] = {
        "-w gpt2-xl -c dgx-a100 --dp 4 --pp 2 --micro-batches 4",
        "-w mixtral-8x7b -c dgx-h100 --dp 16",
        "-w gpt-1.3b -c dgx-a100 --framework composer --dp 8 --zero 3",
    };
    char line[256];

    for (int k = 0; k < 3; k++) {
        const char *cluster = strstr(commands[k], "-c ");
        shell("rm -f s.db*", NULL);
        snprintf(line, sizeof line, "sim %s --db s.db --format json", commands[k]);
        const char *json = lapwing(line, NULL);
        int64_t p10 = number_in(json, "p10_ns"), p90 = number_in(json, "p90_ns");
        snprintf(line, sizeof line, "plan %s -o made.json", commands[k]);
        lapwing(line, NULL);
        for (int from_run = 0; from_run < 2; from_run++) {
            snprintf(line, sizeof line, "sim %s %.*s --db s.db --format json",
                     from_run ? "--run 1" : "made.json",
                     from_run ? 0 : (int)strcspn(cluster + 3, " ") + 3, cluster);
            json = lapwing(line, NULL);
            assert_int_equal(number_in(json, "p10_ns"), p10);
            assert_int_equal(number_in(json, "p90_ns"), p90);
        }
    }
    expect("sim made.json -c dgx-h100 --device dgx-h100 --no-db --format json", 0,
           "\"p10_ns\": null");
}

/* The cluster of a stored run is the default of its plan. */
TEST(a_stored_run_knows_its_cluster)
{
    shell("rm -f c.db*", NULL);
    expect("sim -w gpt2 -c dgx-a100 --dp 8 --db c.db", 0, "cluster 'dgx-a100'");
    expect("sim --run 1 --db c.db", 0, "cluster 'dgx-a100', that of run 1; -c names another");
    expect("sim --run 1 --node-gbps 800 --db c.db", 0, "with other figures than it had");
    assert_null(strstr(lapwing("sim --run 1 -c dgx-a100 --db c.db", NULL), "that of run"));
    lapwing("cluster dgx-a100 -o mine.json", NULL);
    shell("sed -i 's/\"dgx-a100\"/\"mine\"/' mine.json", NULL);
    expect("sim -w gpt2 -c mine.json --dp 8 --db c.db", 0, "cluster 'mine'");
    shell("rm mine.json", NULL);
    expect("sim --run last --no-db --db c.db", 0, "cluster 'mine', that of run 5; -c names");
    sql_do(fixture_path("c.db"), "UPDATE run SET cluster_file = NULL");
    expect("sim --run last --db c.db", 1, "cluster 'mine', which is not a known system");
}

/* So is its interference, unless another is asked for. */
TEST(a_stored_run_knows_its_interference)
{
    static const char *const words[] = {"off", "published"};
    char line[120];

    for (int i = 0; i < 2; i++) {
        snprintf(line, sizeof line, "sim -w gpt2 -c dgx-h100 --dp 8 --interference %s --db t.db "
                 "--format json", words[i]);
        double step = number_in(lapwing(line, NULL), "step_ns");
        double again = number_in(lapwing("sim --run last --db t.db --format json", NULL),
                                 "step_ns");
        assert_true(step == again);
        snprintf(line, sizeof line, "cluster 'dgx-h100' with --interference %s, that of run %d; -c "
                 "names another", words[i], 2 * i + 2);
        expect("sim --run last --no-db --db t.db", 0, line);
    }
    expect("sim --run 1 --db t.db --no-db --interference channels", 0,
           "with --interference channels, that of run 1, with other figures than it had");
}

/* The interval of the recommended step is that which `sim` gives. */
TEST(recommend_shows_and_stores_intervals)
{
    shell("rm -f r.db*", NULL);
    char *json = strdup(lapwing("recommend -w gpt2 -c dgx-a100 --framework torch --dp 8 --db r.db "
                                "--store --format json", NULL));
    const char *best = strstr(json, "\"best\"");
    double low = (double)number_in(best, "p10_ns") / (double)number_in(best, "step_ns");
    expect("recommend -w gpt2 -c dgx-a100 --framework torch --dp 8 --db r.db", 0,
           "; step p10-p90 ");
    expect("recommend -w gpt2 -c dgx-a100 --framework torch --dp 8 --db r.db --format csv", 0,
           ",needed_bytes,p10_ns,p90_ns\n");
    free(json);
    const char *sim = lapwing("sim -w gpt2 -c dgx-a100 --framework torch --dp 8 --no-db "
                              "--format json", NULL);
    assert_true(fabs(low - (double)number_in(sim, "p10_ns") / (double)number_in(sim, "step_ns")) <
                1e-6);
    assert_true(number_in(lapwing("runs 1 --db r.db --format json", NULL), "p10_ns") > 0);
    assert_null(strstr(lapwing("recommend -w gpt2 -c dgx-a100 --framework ideal --dp 8 --db r.db",
                               NULL), "p10-p90"));
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

/* A file keeps the name of what it was made of: edited figures are not those of the measured runs.
 * Written again unchanged, or with another name of its device, it is the known one. */
TEST(edited_files_are_not_the_known_ones)
{
    static const struct {
        const char *edit, *file, *says;
    } cases[] = {
        {"true", "c.json", " runs like this one, and "},
        {"sed -i 's/: 312000000000000/: 212000000000000/; /content_hash/d' c.json",
         "c.json", "device (its figures are not"},
        {"sed -i 's/\"A100-SXM4-80GB\"/\"NVIDIA A100-SXM4-80GB\"/; /content_hash/d' c.json",
         "c.json", " runs like this one, and "}, /* the driver's name of the same device */
        {"true", "f.json", " runs like this one, and "},
        {"sed -i 's/\"value\": 0.5,/\"value\": 0.6,/; /content_hash/d' f.json", "f.json",
         "framework (its figures are not"},
    };

    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char command[300];
        bool cluster = cases[k].file[0] == 'c';
        lapwing("cluster dgx-a100 -o c.json --force", NULL);
        lapwing("framework composer -o f.json --force", NULL);
        shell(cases[k].edit, NULL);
        shell("sed -i -z 's/,\\n}/\\n}/' c.json f.json", NULL); /* a last member gone */
        snprintf(command, sizeof command,
                 "sim -w gpt-1.3b -c %s --framework %s --dp 8 --zero 3 --no-db --format json",
                 cluster ? "c.json" : "dgx-a100", cluster ? "composer" : "f.json");
        expect(command, 0, cases[k].says);
    }
}

/* Two programs compute the coverage of the published runs: this one, and the generator of the page
 * (tests/evidence/pages.py). */
TEST(the_page_has_the_coverage_of_the_command)
{
    char *page = fixture_get("docs/design/gpu_accuracy.md");
    const char *line = strchr(lapwing("validate --coverage --format csv", NULL), '\n');
    int n_tables = 0;

    for (; line && line[1] && strncmp(line + 1, "all,", 4) != 0; line = strchr(line + 1, '\n')) {
        char table[64], row[160];
        int n, known, inside;
        double pct, width;
        assert_int_equal(sscanf(line + 1, "%63[^,],%d,%d,%d,%lf,%lf", table, &n, &known, &inside,
                                &pct, &width), 6);
        assert_int_equal(n, known); /* every run has an interval of other tables */
        snprintf(row, sizeof row, "| %s | %d | %.0f %% | %.2fx |", table, known,
                 100.0 * inside / known, width);
        if (!strstr(page, row))
            fail_msg("no '%s'", row);
        n_tables++;
    }
    assert_true(n_tables > 20);
    free(page);
}

/* The picture of a sweep: a line for each of all else, and the best cap of it. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/draw/plot.h"
#include "analysis/draw/plot_style.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/commands/plot_scene.h"
#include "tests/lib/commands/run_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"

TEST_WITH(a_sweep_marks_the_best_cap, runs_open, fixture_close)
{
    runs_store(&runs_predicted);
    runs_store(&runs_one_bucket); /* 212 + 150 + 20 = 382 */
    char *text = script_of(LW_PLOT_SWEEP);
    has(text, "$predicted << EOD\n1 432 432 432\n25 382 382 382\nEOD");
    has(text, "'+' using (25):(382) every ::0::0");
    has(text, "set xtics ('1 MiB' 1, '2 MiB' 2, '4 MiB' 4, '8 MiB' 8, '16 MiB' 16, '32 MiB' 32)");
    test_free(text);
}

/* A line would connect steps of two clusters, and pass between two at one cap. */
TEST_WITH(a_sweep_of_two_clusters_has_two_lines, runs_open, fixture_close)
{
    struct lw_err err = {0};

    runs_store(&runs_predicted);
    runs_store(&runs_one_bucket);
    char *text = script_of(LW_PLOT_SWEEP);
    has(text, "$predicted using 1:2 smooth unique with linespoints");
    has(text, "$measured using 1:2 smooth unique with lines");
    test_free(text);
    runs_sql("UPDATE run SET cluster_hash = 'another' WHERE id = 2");
    struct scene s = open_scene(LW_PLOT_SWEEP);
    assert_int_equal(lw_plot_script(s.store, &s.plot, stderr, &err), LW_EINVAL);
    assert_non_null(strstr(err.msg, "no two of 2 runs differ only in --bucket-cap"));
    close_scene(&s);
}

/* Lines over the option with most values; where runs have several, over caps; a run that lacks
 * memory is marked, and is not the best. */
TEST_WITH(a_sweep_has_a_line_for_each_of_all_else, runs_open, fixture_close)
{
    shell("$L sim -w gpt2 --batch 1 -c dgx-a100,dgx-h100 --dp 2,4,8 --zero 0,1 --db l.db -q >log",
          NULL);
    EXPECT("plot sweep --db l.db -o dp.gp", {"--force", 0, "wrote dp.gp"},
           {"--x zero --force", 0, "wrote dp.gp"}, {"--x none", 1, "--none; --x names another"},
           {"--x cluster --force", 0, "wrote dp.gp"});
    expect("plot overlap --x dp --db l.db -o o.gp", 2, "--x is for 'sweep'");
    expect("plot sweep --db l.db -o lines.gp", 0, "");
    char *text = fixture_get(fixture_path("lines.gp"));
    has(text, "set xlabel 'dp'");
    has(text, "set ylabel 'ns a token'"); /* a step of more ranks trains more */
    has(text, "title 'dgx-a100, zero 0'");
    has(text, "title 'dgx-h100, zero 1'");
    has(text, "title 'best: run ");
    assert_non_null(strstr(text, "$line3 << EOD\n2 "));
    assert_null(strstr(text, "$line4"));
    assert_null(strstr(text, "does not fit"));
    free(text);
    shell("mv l.db lapwing.db", NULL);
    runs_sql("UPDATE metric SET value = 0 WHERE name = 'fits' AND run >= 9");
    shell("mv lapwing.db l.db", NULL);
    expect("plot sweep --db l.db -o lacks.gp", 0, "");
    text = fixture_get(fixture_path("lacks.gp"));
    has(text, "title 'does not fit'");
    has(text, "set key outside top right");
    free(text);
    expect("plot sweep --db l.db -o narrow.gp --width 400", 0, "");
    text = fixture_get(fixture_path("narrow.gp")); /* names of 16 characters beside a line */
    has(text, "set key at screen 0.5, screen ");
    free(text);
    const char *letters = shell("$L plot sweep --db l.db -o -", NULL);
    has(letters, "x does not fit; * best: run ");
    has(letters, "A dgx-a100, zero 0");
    has(letters, "D dgx-h100, zero 1");
    has(letters, "Dx");
}

/* Two models are lines of their own, and neither is the best of both. */
TEST_WITH(a_sweep_of_two_models_rings_none, runs_open, fixture_close)
{
    shell("$L sim -w gpt2,bert-base --batch 1 -c dgx-a100 --dp 2,4 -q --db two.db >log && "
          "$L plot sweep --x dp --db two.db -o two.gp && "
          "$L plot sweep --x dp 1 2 --db two.db -o one.gp", NULL);
    char *two = fixture_get(fixture_path("two.gp")), *one = fixture_get(fixture_path("one.gp"));

    has(two, "$line1");
    assert_null(strstr(two, "best: run"));
    has(one, "best: run");
    free(two);
    free(one);
}

/* A default cap that is less than 1 % slower is kept, as `lapwing recommend` does. */
TEST_WITH(a_sweep_keeps_a_default_that_is_as_fast, runs_open, fixture_close)
{
    struct fixture_run usual = runs_one_bucket;

    usual.cap_bytes = -1; /* 382 us, as the best */
    runs_store(&runs_predicted);
    runs_store(&runs_one_bucket);
    runs_store(&usual);
    char *text = script_of(LW_PLOT_SWEEP);
    has(text, "\n  382 with lines ");
    has(text, "title 'default cap, predicted: none is 1 % faster'");
    assert_null(strstr(text, "title 'best predicted'"));
    test_free(text);
    runs_sql("UPDATE run SET step_p10_ps = 370000000, step_p90_ps = 400000000 WHERE id = 3");
    text = script_of(LW_PLOT_SWEEP);
    const char *range = strstr(text, "set xrange ["), *interval = strstr(text, "'+' using (");
    double from, to, at; /* right of all caps, on the axis */
    assert_true(range && interval);
    assert_int_equal(sscanf(range, "set xrange [%lf:%lf]", &from, &to), 2);
    assert_int_equal(sscanf(interval, "'+' using (%lf):(382):(370):(400)", &at), 1);
    assert_true(at > 25 && at < to);
    test_free(text);
    runs_sql("UPDATE metric SET value = value * 2 WHERE run = 3");
    text = script_of(LW_PLOT_SWEEP);
    has(text, "\n  764 with lines ");
    has(text, "title 'default cap, predicted', ");
    has(text, "title 'best predicted'");
    test_free(text);
}

/* 2 KiB is 1/512 of the next cap: it would take most of the axis. */
TEST_WITH(a_sweep_begins_at_the_smallest_useful_cap, runs_open, fixture_close)
{
    struct fixture_run small = runs_one_bucket;

    small.cap_bytes = 2048;
    small.wire_us = 300;
    runs_store(&runs_predicted);
    runs_store(&runs_one_bucket);
    runs_store(&small);
    char *text = script_of(LW_PLOT_SWEEP);
    has(text, "set xtics ('1 MiB' 1, '2 MiB' 2, ");
    has(text, "'left of the axis: cap 2 KiB' at graph");
    test_free(text);
    runs_sql("UPDATE metric SET value = value / 2 WHERE run = 3"); /* the best is shown */
    text = script_of(LW_PLOT_SWEEP);
    has(text, "set xtics ('2 KiB' 0.00195312");
    assert_null(strstr(text, "left of the axis"));
    test_free(text);
}

/* The picture of memory: its areas are what the database says of the plan and the device. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <string.h>

#include "analysis/draw/plot_style.h"
#include "shared/files/files.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/commands/plot_scene.h"
#include "tests/lib/commands/run_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"

/* The first stored rows are those of the fixture's plan. */
TEST_WITH(memory_is_stacked_by_category, runs_open, fixture_close)
{
    runs_store(&runs_predicted);
    char *before = script_of(LW_PLOT_MEMORY);
    has(before, "$memory << EOD\n0 4 4 4 4 4 4 4 4\n432 4 4 4 4 4 4 4 4\nEOD");
    test_free(before);
    runs_rows_sql("DELETE FROM memory; INSERT INTO memory VALUES"
                  " (1, 0, 0, 0, 'parameters', 102400), (1, 1, 0, 0, 'activations', 0),"
                  " (1, 2, 0, 100000000, 'activations', 40960),"
                  " (1, 3, 0, 300000000, 'activations', 0)");
    char *text = script_of(LW_PLOT_MEMORY);
    /* us; parameters 100 KiB below, activations on top from 100 to 300 */
    has(text, "\n100 100 100 100 100 100 100 100 100\n100 100 100 100 100 100 100 100 140\n");
    has(text, "\n300 100 100 100 100 100 100 100 140\n300 100 100 100 100 100 100 100 100\n432 ");
    has(text, "set label 1 'peak 140 KiB' at 100,140 left");
    has(text, "set label 4 '' at 100,140 front point");
    has(text, "'activations' at screen");
    assert_null(strstr(text, "'optimizer' at screen")); /* it holds none */
    test_free(text);
}

/* The device's memory is a line; far above what is held, a note; without the cluster, nothing. */
TEST_WITH(memory_shows_what_the_device_has, runs_open, fixture_close)
{
    struct lw_cluster c;
    struct lw_err err = {0};
    char hash[33], sql[256];

    runs_store(&runs_predicted);
    assert_ok(lw_cluster_find("dgx-h100", &c, &err), err);
    assert_ok(lw_cluster_hash(&c, hash, &err), err);
    double gib = c.device.memory_bytes.value / (1 << 30);
    runs_rows_sql("DELETE FROM memory; INSERT INTO memory VALUES"
                  " (1, 0, 0, 0, 'parameters', 50000000000)");
    char *text = script_of(LW_PLOT_MEMORY);
    assert_null(strstr(text, "memory of ")); /* "two cores" is known nowhere */
    test_free(text);
    snprintf(sql, sizeof sql, "UPDATE run SET cluster_name = 'dgx-h100', cluster_hash = '%s'",
             hash);
    runs_sql(sql);
    text = script_of(LW_PLOT_MEMORY);
    snprintf(sql, sizeof sql, "'memory of %s: %.2f GiB' at graph", c.device.kind, gib);
    has(text, sql);
    snprintf(sql, sizeof sql, "set arrow 2 from graph 0,first %.6g to graph 1,first %.6g nohead",
             gib, gib);
    has(text, sql);
    test_free(text);
    runs_rows_sql("UPDATE memory SET bytes = 84000000000"); /* 78.23 of 79.65 GiB */
    text = script_of(LW_PLOT_MEMORY);
    snprintf(sql, sizeof sql, "set label 1 'peak 78.23 GiB' at 0,%.6g left", gib);
    has(text, sql);
    has(text, "set label 4 '' at 0,78.2311 front point");
    test_free(text);
    runs_rows_sql("UPDATE memory SET bytes = 2000000000");
    text = script_of(LW_PLOT_MEMORY);
    has(text, " GiB, above this picture' at graph");
    assert_null(strstr(text, "set arrow"));
    test_free(text);
    runs_sql("UPDATE run SET cluster_hash = 'another'");
    text = script_of(LW_PLOT_MEMORY);
    assert_null(strstr(text, "memory of "));
    test_free(text);
    lw_cluster_free(&c);
}

/* In the terminal: 100 MiB below, 50 on top in the second half. */
TEST_WITH(memory_has_a_letter_for_each_category, runs_open, fixture_close)
{
    runs_store(&runs_predicted);
    runs_rows_sql("DELETE FROM memory; INSERT INTO memory VALUES"
                  " (1, 0, 0, 0, 'parameters', 104857600),"
                  " (1, 1, 0, 216000000, 'activations', 52428800)");
    const char *text = shell("$L plot memory 1 --db lapwing.db -o - --width 100 --height 11", NULL);
    int columns = (int)strspn(strstr(text, " +") + 2, "-");
    /* 150 * 1.1 over 11 rows: 15 MiB each; activations from 105 MiB, so in rows 7 to 9 */
    const char *row = text;

    assert_int_equal(columns, 89);
    for (int i = 0; i < 11; i++) {
        row = strstr(row, " |") + 2;
        char first = i < 4 ? ' ' : 'p', last = i < 1 ? ' ' : i < 4 ? 'a' : 'p';
        assert_int_equal(row[0], first);
        assert_int_equal(row[columns / 2 - 1], first);
        assert_int_equal(row[columns - 1], last);
        assert_int_equal(row[columns], '\n');
    }
    has(text, "\na activations, p parameters; in MiB, peak 150\n");
}

/* A category more than that is a category that the picture lacks. */
TEST_WITH(memory_is_made_of_all_that_is_stored, runs_open, fixture_close)
{
    char sql[160];

    runs_store(&runs_predicted);
    runs_rows_sql("DELETE FROM memory");
    for (int m = 0; m < LW_N_MEMORY; m++) {
        snprintf(sql, sizeof sql, "INSERT INTO memory VALUES (1, %d, 0, 0, '%s', %d)", m,
                 lw_memory_name((enum lw_memory)m), 1048576 << m);
        runs_rows_sql(sql);
    }
    const char *text = shell("$L plot memory 1 --db lapwing.db -o - --width 100", NULL);
    has(text, "\na activations, m messages, w gathered weights, b buckets, s workspaces, "
              "o optimizer, g gradients, p parameters; in MiB, peak 255\n");
}

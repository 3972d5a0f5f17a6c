/* The HTML page: complete, closed, and without a link that leaves it. The runs are those of
 * tests/lib/commands/run_fixture.h. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "tests/lib/unit.h"

#include "analysis/draw/report.h"
#include "tests/lib/failing_alloc.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/commands/run_fixture.h"
#include "tests/lib/files/says.h"

static enum lw_status write_page(FILE *f, struct lw_err *err)
{
    struct lw_store *s = NULL;
    struct lw_arena a = {0};
    struct lw_run *runs;
    int32_t n;

    enum lw_status st = lw_store_open(runs_db, LW_STORE_READ, &s, err);
    if (st == LW_OK)
        st = lw_store_select_runs(s, NULL, 0, &a, &runs, &n, err);
    if (st == LW_OK)
        st = lw_report_write(s, runs, n, f, err);
    lw_store_close(s);
    lw_arena_free(&a);
    return st;
}

/* The page as text; freed by the caller. */
static char *page(void)
{
    struct lw_err err = {0};
    FILE *f = tmpfile();

    assert_ok(write_page(f, &err), err);
    long n = ftell(f);
    char *text = calloc((size_t)n + 1, 1);
    rewind(f);
    assert_int_equal(fread(text, 1, (size_t)n, f), n);
    fclose(f);
    return text;
}

TEST_WITH(the_table_pairs_predictions_with_executions, runs_open, fixture_close)
{
    runs_store(&runs_predicted);
    runs_store(&runs_measured);
    char *text = page();
    has(text, "<td>1, 2</td><td class=\"t\">toy</td><td>2</td><td>0.432</td><td>0.512</td>"
              "<td>-15.6 %</td><td>0.112</td><td>0.192</td><td class=\"t\">threads, real");
    has(text, "Over 1 pair the step is off by 15.6 % on average");
    has(text, "<td class=\"t\">transfers, exposed</td><td>0.112</td><td>0.192</td>"
              "<td>-0.080</td>");
    free(text);
}

TEST_WITH(bars_have_hover_texts_with_their_times, runs_open, fixture_close)
{
    runs_store(&runs_predicted);
    char *text = page();
    has(text, "<title>bucket 0, 1.00 MiB (all_reduce): 110.000 us, from 202.000 us to "
              "312.000 us, of it 10.000 us waiting for the last rank; ready at 200.000 us"
              "</title>");
    has(text, "<title>exposed communication: 112.000 us</title>");
    free(text);
}

TEST_WITH(a_changed_span_changes_the_page, runs_open, fixture_close)
{
    runs_store(&runs_predicted);
    char *before = page();
    runs_change_spans("UPDATE span SET end_ps = end_ps + 1000000 WHERE rank = 1 AND op = 0");
    char *after = page();
    assert_string_not_equal(before, after);
    has(after, "<title>forward (forward): 101.000 us");
    free(before);
    free(after);
}

TEST_WITH(a_run_without_partner_is_drawn_alone, runs_open, fixture_close)
{
    runs_store(&runs_one_bucket);
    char *text = page();
    has(text, "None of these runs is a prediction and an execution of the same plan");
    has(text, "<h3>Run 1, toy</h3>");
    has(text, "bucket 0, 5.00 MiB");
    free(text);
}

/* Three plans of one workload: titles and rows say by what they differ, and the search box finds
 * every row and section of a run by that. */
TEST_WITH(titles_say_what_differs, runs_open, fixture_close)
{
    runs_store(&runs_predicted);
    runs_store(&runs_measured);
    runs_store(&runs_one_bucket);
    char *text = page();
    has(text, "<title>Predicted and measured training steps: 3 runs of toy "
              "(bucket-cap 1.00 MiB | bucket-cap 25.00 MiB)</title>");
    has(text, "<h3>bucket-cap 1.00 MiB: predicted (run 1) against measured (run 2)</h3>");
    has(text, "<h3>Run 3, bucket-cap 25.00 MiB</h3>");
    has(text, "<td>3</td><td class=\"t\">predicted</td>"
              "<td class=\"t\">bucket-cap 25.00 MiB</td>");
    has(text, "<input type=\"search\" id=\"search\"");
    int n_found = 0;
    for (const char *p = text; (p = strstr(p, "data-run=\"run 3, predicted: bucket-cap 25")); p++)
        n_found++;
    assert_int_equal(n_found, 3); /* its row, its picture, its plan */
    free(text);
    runs_sql("UPDATE run SET name = 'my run' WHERE id = 3");
    text = page();
    has(text, "<h3>Run 3, my run</h3>");
    free(text);
}

/* The page has every bucket; paper has the ten largest, and says so. */
TEST_WITH(ten_buckets_are_printed, runs_open, fixture_close)
{
    int n_left_out = 0;

    runs_store(&runs_one_bucket);
    char *text = page();
    assert_null(strstr(text, "<tr class=\"more\">"));
    assert_null(strstr(text, "<p class=\"print\">"));
    free(text);
    runs_sql("WITH n(k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM n WHERE k < 11)"
             " INSERT INTO bucket SELECT plan, k, set_name, stage, k, dtype, k * 1048576,"
             " limit_bytes, n_params FROM bucket, n");
    text = page();
    has(text, "<p class=\"print\">The 10 largest of 12; the page has all.</p>");
    for (const char *at = text; (at = strstr(at, "<tr class=\"more\">")); at++)
        n_left_out++;
    assert_int_equal(n_left_out, 2);
    has(text, "<tr class=\"more\"><td class=\"t\">initial</td><td>0</td><td>1</td>"
              "<td>1.00 MiB</td>");
    has(text, "<tr class=\"more\"><td class=\"t\">initial</td><td>0</td><td>2</td>"
              "<td>2.00 MiB</td>");
    has(text, "<tr><td class=\"t\">initial</td><td>0</td><td>3</td><td>3.00 MiB</td>");
    has(text, "label,.more{display:none}");
    has(text, "@media (max-width:600px){body{margin:1em auto;padding:0 .6em}"
              "th,td{padding:.2em .4em}svg{min-width:900px}}");
    free(text);
}

TEST_WITH(names_from_outside_cannot_become_markup, runs_open, fixture_close)
{
    runs_store(&runs_predicted);
    runs_sql("UPDATE run SET workload_name = '<b>x</b>', cluster_name = 'a&b\"c'");
    char *text = page();
    has(text, "&lt;b&gt;x&lt;/b&gt;");
    has(text, "a&amp;b&quot;c");
    has(text, "lapwing sim &lt;toy&gt; &amp; more");
    has(text, "<code>w&lt;&amp;&gt;</code>");
    assert_null(strstr(text, "<b>"));
    free(text);
}

TEST_WITH(nothing_refers_outside_the_page, runs_open, fixture_close)
{
    static const char *const banned[] = {"http", "src=", "href=", "<link", "url(", "fetch(",
                                         "@import", "<iframe", "<img"};

    runs_store(&runs_predicted);
    runs_store(&runs_measured);
    char *text = page();
    for (size_t i = 0; i < sizeof banned / sizeof banned[0]; i++)
        assert_null(strstr(text, banned[i]));
    free(text);
}

/* Every element that must be closed is, in the right order. */
TEST_WITH(every_element_is_closed, runs_open, fixture_close)
{
    char open[64][16];
    int depth = 0;

    runs_store(&runs_predicted);
    runs_store(&runs_measured);
    runs_store(&runs_one_bucket);
    char *text = page();
    for (char *p = strchr(text, '<'); p; p = strchr(p + 1, '<')) {
        char name[16] = "";
        bool closing = p[1] == '/';
        char *end = strchr(p, '>');
        assert_non_null(end);
        for (int i = 0; i < 15 && isalnum((unsigned char)p[1 + closing + i]); i++)
            name[i] = p[1 + closing + i];
        if (!name[0] || end[-1] == '/' || strcmp(name, "meta") == 0 || strcmp(name, "br") == 0 ||
            strcmp(name, "input") == 0)
            continue;
        if (!closing) {
            assert_true(depth < 64);
            strcpy(open[depth++], name);
        } else {
            assert_true(depth > 0);
            assert_string_equal(open[--depth], name);
        }
    }
    assert_int_equal(depth, 0);
    free(text);
}

TEST_WITH(the_same_database_gives_the_same_bytes, runs_open, fixture_close)
{
    runs_store(&runs_predicted);
    runs_store(&runs_measured);
    char *a = page(), *b = page();
    assert_string_equal(a, b);
    free(a);
    free(b);
}

TEST_WITH(the_command_leaves_no_partial_page, runs_open, fixture_close)
{
    expect("report", 1, ""); /* no database */
    runs_store(&runs_predicted);
    expect("report -o none/report.html", 1, "");
    expect("report 7 -o report.html", 1, "");
    assert_int_not_equal(access(fixture_path("report.html"), F_OK), 0);
    expect("report 1 -o report.html", 0, "");
    assert_int_equal(access(fixture_path("report.html"), F_OK), 0);
}

static enum lw_status page_nowhere(void)
{
    FILE *f = tmpfile();
    enum lw_status st = write_page(f, NULL);

    fclose(f);
    return st;
}

TEST_WITH(every_failing_allocation_is_reported_and_leaks_nothing, runs_open, fixture_close)
{
    runs_store(&runs_predicted);
    runs_store(&runs_measured);
    EACH_ALLOCATION_FAILS_IN(20, page_nowhere());
}

/* A plan file has no workload: its runs have the plan's name, and a cut title keeps its figures. */
TEST_WITH(runs_of_plan_files_have_the_name_of_the_plan, runs_open, fixture_close)
{
    shell("$L model mlp -o w.json && $L plan -w w.json --dp 2 -o p.json && "
          "$L sim p.json -c dgx-a100 --as-recorded --db p.db && "
          "$L sim p.json -c dgx-a100 --as-recorded --steps 3 --db p.db && "
          "$L report --db p.db -o p.html", NULL);
    has(shell("grep -o '<h3>[^<]*' p.html", NULL), "<h3>mlp dp2, 2 ranks");
    has(shell("grep -o '<td class=\"t\">mlp[^<]*' p.html", NULL), "mlp dp2, steps 3");
    shell("$L plot timeline 2 1 --db p.db --width 600 -o p.gp", NULL);
    has(shell("grep 'set label 1 ' p.gp", NULL), "; this step spans ");
}

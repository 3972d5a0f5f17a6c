/* gnuplot draws every picture, and what fails leaves no file. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analysis/draw/plot.h"
#include "analysis/draw/plot_style.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/commands/plot_scene.h"
#include "tests/lib/commands/run_fixture.h"
#include "tests/lib/failing_alloc.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"

static bool have_gnuplot(void)
{
    char buf[128];
    struct lw_err err;

    if (lw_plot_version(buf, sizeof buf, &err) == LW_OK)
        return true;
    print_message("SKIP plot: %s\n", err.msg);
    return false;
}

static void draw(enum lw_plot_kind kind, const char *name, char *head, size_t n)
{
    char file[512];
    struct scene s = open_scene(kind);
    struct lw_err err = {0};
    int64_t n_replaced;

    s.plot.cluster = &s.cluster;
    s.plot.search = &s.search;
    snprintf(file, sizeof file, "%s", fixture_path(name));
    assert_int_equal(lw_plot_terminal_of(file, &s.plot.terminal, &err), LW_OK);
    assert_ok(lw_plot_draw(s.store, &s.plot, file, &n_replaced, &err), err);
    FILE *f = fopen(file, "rb");
    assert_non_null(f);
    assert_int_equal(fread(head, 1, n, f), n);
    fclose(f);
    close_scene(&s);
}

TEST_WITH(gnuplot_draws_every_kind_without_complaint, runs_open, fixture_close)
{
    char head[8], file[32];

    if (!have_gnuplot())
        skip();
    runs_store(&runs_predicted);
    store_search();
    runs_store(&runs_measured);
    runs_store(&runs_one_bucket);
    for (int k = 0; k < LW_N_PLOTS; k++) {
        snprintf(file, sizeof file, "%s.png", lw_plot_name((enum lw_plot_kind)k));
        draw((enum lw_plot_kind)k, file, head, 8);
        assert_memory_equal(head, "\x89PNG\r\n\x1a\n", 8);
        snprintf(file, sizeof file, "%s.svg", lw_plot_name((enum lw_plot_kind)k));
        draw((enum lw_plot_kind)k, file, head, 5);
        assert_memory_equal(head, "<?xml", 5);
    }
}

/* A PDF of the same picture has the same bytes at any time of day, and is replaced without --force;
 * one that was edited is not. */
TEST_WITH(a_pdf_is_lapwing_s_own, runs_open, fixture_close)
{
    int rc;

    if (!have_gnuplot())
        skip();
    shell("$L sim -w gpt2 --batch 1 -c dgx-a100 --dp 2 -q --db p.db >log", NULL);
    shell("$L plot overlap --db p.db -o o.pdf && cp o.pdf first.pdf && sleep 1 && "
          "$L plot overlap --db p.db -o o.pdf && cmp o.pdf first.pdf && head -c 5 o.pdf | "
          "grep -q %PDF- && grep -qa 'D:19700101000000' o.pdf", &rc);
    assert_int_equal(rc, 0);
    shell("echo x >>o.pdf", NULL);
    expect("plot overlap --db p.db -o o.pdf", 1, "--force");
}

/* XML allows "]]>" in no text and no reference to character 0: a name with both, in every kind that
 * shows the name of a run. */
TEST_WITH(a_name_with_the_end_of_cdata_is_xml, runs_open, fixture_close)
{
    static const char *const kinds[] = {"timeline", "overlap", "memory", "sweep", "predicted"};

    if (!have_gnuplot())
        skip();
    lapwing("model mlp --layers 2 --width 32 --device dgx-a100 -o w.json", NULL);
    shell("sed -i '0,/\"name\": \"[^\"]*\"/s//\"name\": \"x]]]>y<\\&#0;\"/' w.json", NULL);
    for (int i = 1; i < 3; i++)
        shellf("$L sim -w w.json --dp 2 -c dgx-a100 --bucket-cap %dKiB --spans --db x.db", i);
    shell("$L exec -w w.json --dp 2 --steps 2 --compute sleep --bucket-cap 1KiB --db x.db", NULL);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        shellf("$L plot %s --db x.db -o %s.svg", kinds[k], kinds[k]);
        char name[32];
        snprintf(name, sizeof name, "%s.svg", kinds[k]);
        char *text = fixture_get(fixture_path(name));
        if (strstr(text, "]]>") || !strstr(text, "x]]]&gt;y&lt;&amp;#0;"))
            fail_msg("%s: %s", name, strstr(text, "]]") ? strstr(text, "]]") : text);
        free(text);
    }
}

/* cairo draws a box in place of a character that no font has, larger than the picture. No font has
 * the last character of the last plane, which is for private use. */
TEST_WITH(a_character_that_no_font_has_is_drawn_as_a_question_mark, runs_open, fixture_close)
{
    static const char *const kinds[] = {"overlap", "timeline", "memory"};
    int rc;

    if (!have_gnuplot())
        skip();
    shell("fc-list : charset >fonts", &rc);
    if (rc != 0)
        skip();
    shell("$L sim -w gpt2 --batch 1 -c dgx-a100 --dp 2 --name 'x\xf4\x8f\xbf\xbdy\xc3\xa9' -q "
          "--db a.db >log && $L sim -w gpt2 --batch 1 -c dgx-a100 --dp 2 --name 'x?y\xc3\xa9' -q "
          "--db b.db >log", &rc);
    assert_int_equal(rc, 0);
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
        for (int pdf = 0; pdf < 2; pdf++) {
            char command[256];
            snprintf(command, sizeof command, "for d in a b; do $L plot %s --db $d.db -o $d.%s "
                     "--force >$d.log || exit 1; done; cmp a.%s b.%s && grep -q \"drawn as '?'\" "
                     "a.log && ! grep -q drawn b.log", kinds[k], pdf ? "pdf" : "png",
                     pdf ? "pdf" : "png", pdf ? "pdf" : "png");
            shell(command, &rc);
            assert_int_equal(rc, 0);
        }
    shell("$L plot overlap --db a.db -o a.svg && grep -q $(printf '\\364\\217\\277\\275') a.svg",
          &rc);
    assert_int_equal(rc, 0);
}

TEST_WITH(without_gnuplot_nothing_is_written_and_it_is_named, runs_open, fixture_close)
{
    char file[512], *path = strdup(getenv("PATH"));
    struct lw_err err = {0};
    int64_t n_replaced;

    runs_store(&runs_predicted);
    struct scene s = open_scene(LW_PLOT_TIMELINE);
    snprintf(file, sizeof file, "%s", fixture_path("x.png"));
    setenv("PATH", fixture_path(""), 1);
    assert_int_equal(lw_plot_draw(s.store, &s.plot, file, &n_replaced, &err), LW_ENOTSUP);
    setenv("PATH", path, 1);
    free(path);
    has(err.msg, "gnuplot-nox");
    assert_int_not_equal(access(file, F_OK), 0);
    close_scene(&s);
}

TEST_WITH(a_failing_gnuplot_leaves_no_file, runs_open, fixture_close)
{
    char file[512], *path = strdup(getenv("PATH"));
    struct lw_err err = {0};
    int64_t n_replaced;

    runs_store(&runs_predicted);
    struct scene s = open_scene(LW_PLOT_TIMELINE);
    snprintf(file, sizeof file, "%s", fixture_path("x.png"));
    fixture_put(fixture_path("gnuplot"),
                 "#!/bin/sh\necho half a picture\necho '   line 7: no such terminal' >&2\n"
                "exit 3\n");
    assert_int_equal(chmod(fixture_path("gnuplot"), 0700), 0);
    char command[4096];
    snprintf(command, sizeof command, "%s:%s", fixture_path(""), path);
    setenv("PATH", command, 1);
    assert_int_equal(lw_plot_draw(s.store, &s.plot, file, &n_replaced, &err), LW_EFAILED);
    setenv("PATH", path, 1);
    free(path);
    has(err.msg, "gnuplot ended with status 3: the script's line 7: no such terminal");
    assert_int_not_equal(access(file, F_OK), 0);
    close_scene(&s);
}

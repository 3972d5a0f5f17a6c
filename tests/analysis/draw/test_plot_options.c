/* Options that a picture has no use for are refused, with the picture that has. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"

TEST_GROUP(fixture_open, fixture_close)

/* What is to be done about it is said at once. */
TEST(an_option_of_another_picture_names_all_that_it_needs)
{
    EXPECT("plot timeline",
           {"--family x", 2, "--family is for 'predicted' with --validation: it changes nothing of "
                             "'timeline'"},
           {"--validation v.json", 2, "--validation is for 'predicted': it changes nothing of"},
           {"--validation v.json --family x", 2, "--validation is for 'predicted'"});
    EXPECT("plot predicted", {"--family x", 2, "--family needs --validation"});
}

/* A search, a cluster and a validation have one page. */
TEST(only_runs_have_pages)
{
    EXPECT("plot --page 7 -o x.gp",
           {"roofline -c dgx-h100", 2, "--page is for pictures of stored runs: it changes nothing "
                                       "of 'roofline'"},
           {"gemm -c dgx-h100", 2, "--page is for pictures of stored runs"},
           {"tune", 2, "--page is for pictures of stored runs"},
           {"predicted --validation v.json", 2, "--page is for pictures of stored runs"});
    EXPECT("plot gemm -c dgx-h100 -o x.gp", {"--page 1", 0, "wrote x.gp"});
}

TEST(a_page_that_is_not_there_is_named)
{
    lapwing("sim -w mlp -c dgx-h100 --dp 2 --db p.db", NULL);
    EXPECT("plot overlap --db p.db", {"--page 2", 1, "--page 2: 'overlap' of 1 run has 1 page"});
}

/* A corner names the first run and plan that are drawn; of other runs neither the name nor the
 * length of a step, which chooses the unit, has a place. */
TEST(runs_that_are_not_drawn_leave_no_trace)
{
    char *alone, *beside;
    int rc;

    lapwing("sim -w mlp --layers 4 --width 16 -c host --dp 2 -q --db p.db", NULL);
    lapwing("exec -w mlp --layers 4 --width 16 -c host --dp 2 --steps 3 -q --db p.db", NULL);
    lapwing("plot predicted --db p.db -o alone.gp", NULL);
    shell("cp p.db q.db && $L sim -w llama-2-70b -c dgx-h100 --dp 8 --micro-batches 16 -q --db "
          "q.db >log && $L plot predicted --db q.db -o beside.gp && "
          "$L plot predicted 3,1,2 --db q.db -o first.gp && cmp beside.gp first.gp", &rc);
    assert_int_equal(rc, 0);
    alone = fixture_get(fixture_path("alone.gp"));
    beside = fixture_get(fixture_path("beside.gp"));
    assert_string_equal(alone, beside);
    has(alone, "lapwing 0.");
    has_not(alone, "..."); /* one plan */
    free(alone);
    free(beside);
}

TEST(pictures_say_how_many_runs_they_show)
{
    lapwing("sim -w mlp --layers 4 --width 16 -c host --dp 2 -q --db m.db", NULL);
    lapwing("exec -w mlp --layers 4 --width 16 -c host --dp 2 --steps 3 -q --db m.db", NULL);
    expect("plot predicted --db m.db -o two.svg", 0, "predicted of 2 runs\n");
    lapwing("sim -w gpt2 -c dgx-a100 --dp 2 -q --db m.db", NULL);
    expect("plot predicted --db m.db -o three.svg", 0, "predicted of 2 runs (3 given)\n");
    lapwing("sim -w gpt2 -c dgx-a100 --dp 2,4 --zero 0,1 -q --db w.db", NULL);
    lapwing("sim -w llama-3-8b -c dgx-h100 --dp 8 -q --db w.db", NULL);
    expect("plot sweep --x dp --db w.db -o lines.svg", 0, "sweep of 4 runs (5 given)\n");
    lapwing("sim -w mlp --layers 4 --width 64 -c host --dp 2 --bucket-cap 1KiB,4KiB -q --db c.db",
            NULL);
    expect("plot sweep --db c.db -o caps.svg", 0, "sweep of 2 runs\n");
    lapwing("sim -w mlp --layers 4 --width 64 -c host --dp 2 -q --db c.db", NULL);
    expect("plot sweep --db c.db -o caps.svg --force", 0, "sweep of 3 runs\n");
    lapwing("sim -w mlp --layers 4 --width 64 -c dgx-h100 --dp 4 -q --db c.db", NULL);
    expect("plot sweep --db c.db -o caps.svg --force", 0, "sweep of 3 runs (4 given)\n");
}

/* Pixels of a label: a figure or a small letter of 9 points takes 7.6, a W 11.9. */
static double label_px(const char *text)
{
    double px = 0;

    for (; *text && *text != '"'; text++)
        px += *text == 'W' ? 11.9 : 7.6;
    return px;
}

static double after(const char *script, const char *text)
{
    const char *at = strstr(script, text);

    assert_non_null(at);
    return strtod(at + strlen(text), NULL);
}

/* Least gap between neighbours among the labels of a timeline. */
static double least_label_gap(const char *script, double width)
{
    double left = after(script, "lmargin at screen "), right = after(script, "rmargin at screen ");
    double px = width * (right - left) / after(script, "set xrange [0:");
    double end = 0, row = 0, least = width;
    const char *at = strchr(strstr(script, "$labels << EOD"), '\n') + 1;

    for (; strncmp(at, "EOD", 3) != 0; at = strchr(at, '\n') + 1) {
        char *rest;
        double x = px * strtod(at, &rest), y = strtod(rest, &rest), half = label_px(rest + 2) / 2;
        if (y == row && x - half - end < least)
            least = x - half - end;
        end = x + half;
        row = y;
    }
    return least;
}

TEST(labels_of_neighbours_do_not_touch)
{
    lapwing("sim -w gpt-2.7b -c dgx-a100 --ranks 4 --pp 4 --micro-batches 12 --schedule zb-h1 -q "
            "--db z.db", NULL);
    for (int width = 600; width <= 1600; width += 40) {
        lapwingf("plot timeline --db z.db --width %d -o z.gp --force", width);
        char *script = fixture_get(fixture_path("z.gp"));
        if (least_label_gap(script, width) < 2)
            fail_msg("--width %d: labels are %.1f pixels apart", width,
                     least_label_gap(script, width));
        free(script);
    }
}

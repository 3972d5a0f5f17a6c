/* Runs as lines over one option, of runs in memory. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <string.h>

#include "analysis/draw/plot_lines.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"

enum { MANY = 400 };

static struct lw_run run_of(int32_t id, const char *command)
{
    return (struct lw_run){.id = id, .kind = LW_RUN_SIM, .backend = "", .honesty = "",
                           .plan_hash = "", .plan_name = "", .plan_times = "", .options = "",
                           .name = "", .workload_from = "",
                           .workload_name = "", .workload_hash = "", .cluster_name = "",
                           .cluster_hash = "", .framework = "", .command = command, .fits = -1,
                           .step = (1 + id % 7) * LW_PS_PER_MS, .n_ranks = 8,
                           .bucket_cap_bytes = -1};
}

/* The values of an option are counted once, not once for each run: hundreds of runs take as many
 * blocks of 64 KiB as they need, not thousands. */
TEST(each_option_of_many_runs_is_counted_once)
{
    static char commands[MANY][160];
    static struct lw_run runs[MANY];
    struct plot_lines l;
    struct lw_err err = {0};
    int64_t before = lw_alloc_live();

    for (int32_t i = 0; i < MANY; i++) {
        snprintf(commands[i], sizeof commands[i], "sim -w gpt2 -c dgx-h100 --batch %d --seq %d "
                 "--zero %d --pp 1 --tp 1", 1 + i % 100, 128 << i / 200, i / 100 % 2);
        runs[i] = run_of(i + 1, commands[i]);
    }
    assert_ok(plot_lines_find(runs, MANY, NULL, "x.db", &l, &err), err);
    assert_string_equal(l.option, "batch");
    assert_int_equal(l.n, MANY);
    assert_int_equal(l.n_lines, 4);
    assert_in_range(lw_alloc_live() - before, 1, 100);
    plot_lines_free(&l);
    assert_int_equal(lw_alloc_live(), before);
}

/* Options of the cluster change its hash: runs over one are a line, of other options apart. */
TEST(options_of_the_cluster_are_an_axis)
{
    static const char *const options[] = {"cluster", "node-gbps", "interference"};
    static const char *const commands[] = {"-c dgx-a100", "-c dgx-h100",
                                           "-c dgx-h100 --node-gbps 100",
                                           "-c dgx-h100 --node-gbps 200",
                                           "-c dgx-h100 --interference off",
                                           "-c dgx-h100 --interference published"};
    static char whole[6][80], hashes[6][8];
    static struct lw_run runs[6];

    for (int32_t i = 0; i < 6; i++) {
        snprintf(whole[i], sizeof whole[i], "sim -w gpt2 --dp 8 %s", commands[i]);
        snprintf(hashes[i], sizeof hashes[i], "%d", i);
        runs[i] = run_of(i + 1, whole[i]);
        runs[i].cluster_hash = hashes[i];
    }
    for (int32_t i = 0; i < 3; i++) {
        struct plot_lines l;
        struct lw_err err = {0};
        assert_ok(plot_lines_find(runs, 6, options[i], "x.db", &l, &err), err);
        assert_int_equal(l.n_lines, 1);
        plot_lines_free(&l);
        assert_int_equal(plot_lines_find(runs, 6, "dp", "x.db", &l, &err), LW_EINVAL);
    }
}

/* Of several lines the one whose runs have no option says so; a line alone is the step. */
TEST_WITH(a_line_without_options_is_of_the_defaults, fixture_open, fixture_close)
{
    lapwing("sim -w gpt2 -c dgx-a100 --dp 2 --db l.db", NULL);
    lapwing("sim -w gpt2 -c dgx-a100 --dp 4 --db l.db", NULL);
    lapwing("plot sweep --db l.db -o one.gp", NULL);
    has(shell("grep ' title ' one.gp", NULL), " title 'step'");
    lapwing("sim -w gpt2 -c dgx-a100 --dp 2 --zero 1 --db l.db", NULL);
    lapwing("sim -w gpt2 -c dgx-a100 --dp 4 --zero 1 --db l.db", NULL);
    lapwing("plot sweep --db l.db -o two.gp", NULL);
    has(shell("grep ' title ' two.gp", NULL), " title 'zero 1'");
    has(shell("grep ' title ' two.gp", NULL), " title 'defaults'");
}

/* Two models, and two batches, of equal plans on one cluster: each is a line of its own. A workload
 * file has a hash, and its runs are one line however they were given. */
TEST(models_of_equal_plans_are_lines_of_their_own)
{
    static const char *const of[] = {"gpt2 --batch 1", "gpt2 --batch 2", "llama-3-8b --batch 1"};
    static char commands[8][80];
    static struct lw_run runs[8];
    struct plot_lines l;
    struct lw_err err = {0};

    for (int32_t i = 0; i < 6; i++) {
        snprintf(commands[i], sizeof commands[i], "sim -w %s -c dgx-h100 --dp %d", of[i % 3],
                 i < 3 ? 8 : 16);
        runs[i] = run_of(i + 1, commands[i]);
        runs[i].options = i < 3 ? "dp=8\nzero=0" : "dp=16\nzero=0";
    }
    assert_ok(plot_lines_find(runs, 6, "dp", "x.db", &l, &err), err);
    assert_int_equal(l.n_lines, 3);
    for (int32_t i = 0; i < 6; i++)
        assert_int_equal(l.points[i].line, l.points[(i + 3) % 6].line);
    plot_lines_free(&l);
    for (int32_t i = 0; i < 6; i++)
        runs[i].workload_hash = "one";
    assert_ok(plot_lines_find(runs, 6, "dp", "x.db", &l, &err), err);
    assert_int_equal(l.n_lines, 1);
    plot_lines_free(&l);
}

/* Strategies have other usual frameworks: each framework is a line of its own, also of one point,
 * and is named; over the framework itself they are one line. */
TEST(frameworks_of_one_command_are_lines_of_their_own)
{
    static const char *const frameworks[] = {"torch-ddp", "deepspeed", "deepspeed", "torch-fsdp2"};
    static char commands[4][80];
    static struct lw_run runs[4];
    struct plot_lines l;
    struct lw_err err = {0};

    for (int32_t i = 0; i < 4; i++) {
        snprintf(commands[i], sizeof commands[i], "sim -w gpt2 -c dgx-h100 --dp 8 --zero %d", i);
        runs[i] = run_of(i + 1, commands[i]);
        runs[i].framework = frameworks[i];
    }
    assert_ok(plot_lines_find(runs, 4, "zero", "x.db", &l, &err), err);
    assert_int_equal(l.n_lines, 3);
    assert_int_equal(l.points[1].line, l.points[2].line);
    for (int32_t i = 0; i < 4; i++) {
        char name[40];
        snprintf(name, sizeof name, "framework %s", frameworks[i]);
        assert_string_equal(l.names[l.points[i].line], name);
    }
    plot_lines_free(&l);
    for (int32_t i = 0; i < 4; i++) {
        snprintf(commands[i], sizeof commands[i], "sim -w gpt2 --dp 8 --framework %s%s",
                 frameworks[i], i == 2 ? "-2" : "");
        runs[i].command = commands[i];
    }
    assert_ok(plot_lines_find(runs, 4, "framework", "x.db", &l, &err), err);
    assert_int_equal(l.n_lines, 1);
    plot_lines_free(&l);
}

/* A picture neither moves the points that it is given nor keeps memory, however large it is. */
TEST(a_picture_leaves_its_lines_as_they_are)
{
    static char commands[MANY][80];
    static struct lw_run runs[MANY];
    struct plot_lines l;
    struct lw_err err = {0};
    int64_t before = lw_alloc_live();

    for (int32_t i = 0; i < MANY; i++) {
        snprintf(commands[i], sizeof commands[i], "sim -w gpt2 -c dgx-h100 --batch %d", MANY - i);
        runs[i] = run_of(i + 1, commands[i]);
    }
    assert_ok(plot_lines_find(runs, MANY, "batch", "x.db", &l, &err), err);
    const struct lw_plot p = {.kind = LW_PLOT_SWEEP, .runs = runs, .n_runs = MANY};
    for (int again = 0; again < 20; again++) {
        FILE *f = tmpfile();
        assert_ok(plot_lines_draw(&p, &l, f, &err), err);
        fclose(f);
    }
    for (int32_t i = 0; i < MANY; i++)
        assert_int_equal(l.points[i].run->id, i + 1);
    plot_lines_free(&l);
    assert_int_equal(lw_alloc_live(), before);
}

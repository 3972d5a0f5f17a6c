/* Runs have names, can be filtered, deleted and taken over from another database. */
#include "tests/lib/unit.h"
#include <string.h>
#include <unistd.h>

#include "analysis/store/run_name.h"
#include "tests/lib/failing_alloc.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"

static struct lw_run plain_run(void)
{
    return (struct lw_run){.kind = LW_RUN_SIM, .workload_name = "net", .plan_name = "net dp2",
                           .options = "", .plan_hash = "aaaaaaaa", .command = "", .honesty = "",
                           .cluster_name = "dgx-a100", .cluster_hash = "c", .backend = ""};
}

static void expect_name(const struct lw_run *r, const char *name)
{
    struct lw_arena a = {0};
    struct lw_err err;
    const char **texts;

    assert_int_equal(lw_run_texts(r, 1, LW_RUN_NAMES, &a, &texts, &err), LW_OK);
    assert_string_equal(texts[0], name);
    lw_arena_free(&a);
}

TEST(a_name_holds_what_differs_from_the_defaults)
{
    struct lw_run r = plain_run();

    expect_name(&r, "net, dgx-a100");
    r.options = "dp=2\npp=1\nbucket-cap=5242880\nzero=0\n";
    expect_name(&r, "net, dp 2, bucket-cap 5.00 MiB, dgx-a100");
    r.kind = LW_RUN_EXEC;
    r.backend = "threads";
    r.honesty = "sleep";
    r.options = "tp=2";
    expect_name(&r, "net, tp 2, exec threads (sleep), dgx-a100");
    r = plain_run();
    r.kind = LW_RUN_IMPORT;
    r.workload_name = r.cluster_name = "";
    r.plan_name = "replay";
    r.command = "import --store a/v1.9_rank0.pt.trace.json.gz b/rank1.json.gz --db x.db";
    expect_name(&r, "replay of v1.9_rank0 and 1 more, recorded");
}

/* Options of the command that the plan does not hold count; those of its output do not. */
TEST(a_name_holds_options_of_the_command)
{
    struct lw_run r = plain_run();

    r.command = "sim -w w.json --dp 2 --noise 0.01 --no-fold --seed=3 --format json -q --db x.db";
    expect_name(&r, "net, no-fold on, noise 0.01, seed 3, dgx-a100");
    r.workload_name = "";
    r.plan_name = "replay";
    r.options = "dp=1\nbucket-cap=-1";
    r.command = "sim --replay rank0.json --bucket-cap 1MiB --device dgx-h100 -q";
    r.cluster_name = "recorded";
    expect_name(&r, "replay of rank0, bucket-cap 1.00 MiB, device dgx-h100");
    r.command = "sim -c p5 --replay rank0.json";
    expect_name(&r, "replay of rank0, p5");
}

/* The run's own framework: named where it was given, or where runs differ in it; with its hash
 * where two have one name. */
TEST(a_name_holds_the_framework)
{
    struct lw_run r[2] = {plain_run(), plain_run()};
    struct lw_arena a = {0};
    struct lw_err err;
    const char **texts;

    r[0].framework = "nemo";
    r[0].framework_hash = "0123456789";
    expect_name(r, "net, dgx-a100");
    r[0].command = "sim -w w.json --framework ./nemo.json";
    expect_name(r, "net, framework nemo, dgx-a100");
    r[1].framework = "nemo";
    r[1].framework_hash = "9876543210";
    assert_int_equal(lw_run_texts(r, 2, LW_RUN_DIFFERENCES, &a, &texts, &err), LW_OK);
    assert_string_equal(texts[0], "framework hash 01234567");
    assert_string_equal(texts[1], "framework hash 98765432");
    lw_arena_free(&a);
}

/* Other words that hold the option's name do not hide it, and are not taken for it. */
TEST(a_policy_that_was_given_counts_wherever_it_stands)
{
    struct lw_run r = plain_run();

    r.options = "bucket-policy=deepspeed\nzero=1";
    r.command = "sim -w a--bucket-policy-b.json --bucket-policy deepspeed";
    expect_name(&r, "net, zero 1, bucket-policy deepspeed, dgx-a100");
    r.command = "sim -w a--bucket-policy --zero 1";
    expect_name(&r, "net, zero 1, dgx-a100");
}

/* What a framework sets is no choice of the user's: the framework says it. */
TEST(options_that_a_framework_sets_are_not_named)
{
    struct lw_run r = plain_run();

    r.options = "pp=2\npartition=explicit\npartition-list=0,17\ntp=4\ntp-overlap=backward\n"
                "grad-dtype=f32\n";
    r.command = "sim -w net --pp 2 --tp 4";
    expect_name(&r, "net, pp 2, tp 4, dgx-a100");
    r.command = "sim -w net --pp 2 --tp 4 --grad-dtype f32";
    expect_name(&r, "net, pp 2, tp 4, grad-dtype f32, dgx-a100");
    r.command = "sim -w net --strategy s.json";
    expect_name(&r, "net, pp 2, tp 4, tp-overlap backward, partition explicit, "
                    "partition-list 0,17, grad-dtype f32, dgx-a100");
}

/* Traits that tell all apart, in one order for all, then what all share. */
TEST(differing_options_come_first)
{
    struct lw_run r[3] = {plain_run(), plain_run(), plain_run()};
    static const char *const want[][3] = {
        [LW_RUN_NAMES] = {"zero 1, dgx-a100, net", "zero 2, dgx-a100, net", "zero 1, box, net"},
        [LW_RUN_DIFFERENCES] = {"zero 1, dgx-a100", "zero 2, dgx-a100", "zero 1, box"},
        [LW_RUN_CHOICES] = {"zero 1, dgx-a100", "zero 2, dgx-a100", "zero 1, box"},
        [LW_RUN_RARE] = {"", "zero 2", "box"}};
    struct lw_arena a = {0};
    struct lw_err err;
    const char **texts;

    r[0].options = r[2].options = "dp=1\nzero=1";
    r[1].options = "dp=1\nzero=2";
    r[2].cluster_name = "box";
    for (enum lw_run_words w = LW_RUN_NAMES; w <= LW_RUN_RARE; w++) {
        assert_int_equal(lw_run_texts(r, 3, w, &a, &texts, &err), LW_OK);
        for (int i = 0; i < 3; i++)
            assert_string_equal(texts[i], want[w][i]);
    }
    r[1] = r[2] = r[0];
    r[2].plan_hash = "bbbbbbbbbb"; /* a workload of another shape */
    assert_int_equal(lw_run_texts(r, 3, LW_RUN_NAMES, &a, &texts, &err), LW_OK);
    assert_string_equal(texts[0], texts[1]);
    assert_string_equal(texts[2], "plan bbbbbbbb, net, zero 1, dgx-a100");
    lw_arena_free(&a);
}

/* A policy of shards is one of runs that have shards; the one that follows from zero is what a run
 * has unless another is given. */
TEST(a_policy_that_was_given_is_named)
{
    struct lw_run r[3] = {plain_run(), plain_run(), plain_run()};
    static const char *const want[][3] = {
        [LW_RUN_NAMES] = {"net, dgx-a100", "zero 1, net, dgx-a100",
                          "zero 1, shard-policy oss-greedy, net, dgx-a100"},
        [LW_RUN_DIFFERENCES] = {"zero 0", "zero 1, shard-policy flat-contiguous",
                                "zero 1, shard-policy oss-greedy"}};
    struct lw_arena a = {0};
    struct lw_err err;
    const char **texts;

    r[0].options = "bucket-policy=c10d-2\nzero=0\nshard-policy=oss-greedy\n";
    r[1].options = "bucket-policy=deepspeed\nzero=1\nshard-policy=flat-contiguous\n";
    r[2].options = "bucket-policy=c10d-2\nzero=1\nshard-policy=oss-greedy\n";
    r[1].command = "sim -w w.json --zero 1";
    r[2].command = "sim -w w.json --zero 1 --shard-policy oss-greedy";
    for (enum lw_run_words w = LW_RUN_NAMES; w <= LW_RUN_DIFFERENCES; w++) {
        assert_int_equal(lw_run_texts(r, 3, w, &a, &texts, &err), LW_OK);
        for (int i = 0; i < 3; i++)
            assert_string_equal(texts[i], want[w][i]);
    }
    assert_int_equal(lw_run_texts(r, 2, LW_RUN_DIFFERENCES, &a, &texts, &err), LW_OK);
    assert_string_equal(texts[1], "zero 1");
    lw_arena_free(&a);
}

/* Two cluster files of one name are told apart by their hashes; the name stands once. */
TEST(a_cluster_is_named_once)
{
    struct lw_run r[3] = {plain_run(), plain_run(), plain_run()};
    static const char *const want[][3] = {
        [LW_RUN_NAMES] = {"dgx-a100 (c), net", "dgx-a100 (d), net", "box, net"},
        [LW_RUN_DIFFERENCES] = {"dgx-a100 (c)", "dgx-a100 (d)", "box"},
        [LW_RUN_CHOICES] = {"dgx-a100 (c)", "dgx-a100 (d)", "box"},
        [LW_RUN_RARE] = {"", "dgx-a100 (d)", "box"}};
    struct lw_arena a = {0};
    struct lw_err err;
    const char **texts;

    r[1].cluster_hash = "d";
    r[2].cluster_name = "box";
    for (enum lw_run_words w = LW_RUN_NAMES; w <= LW_RUN_RARE; w++) {
        assert_int_equal(lw_run_texts(r, 3, w, &a, &texts, &err), LW_OK);
        for (int i = 0; i < 3; i++)
            assert_string_equal(texts[i], want[w][i]);
    }
    lw_arena_free(&a);
}

/* Between two runs the one without an option has the word "default"; a picture and a list of them
 * name only what was given. */
TEST(an_option_that_was_not_given_is_a_difference)
{
    struct lw_run r[2] = {plain_run(), plain_run()};
    static const char *const want[][2] = {
        [LW_RUN_NAMES] = {"net, dgx-a100", "steps 20, net, dgx-a100"},
        [LW_RUN_DIFFERENCES] = {"steps not given", "steps 20"},
        [LW_RUN_CHOICES] = {"", "steps 20"},
        [LW_RUN_RARE] = {"", "steps 20"}};
    struct lw_arena a = {0};
    struct lw_err err;
    const char **texts;

    r[0].command = "sim -w w.json";
    r[1].command = "sim -w w.json --steps 20";
    for (enum lw_run_words w = LW_RUN_NAMES; w <= LW_RUN_RARE; w++) {
        assert_int_equal(lw_run_texts(r, 2, w, &a, &texts, &err), LW_OK);
        for (int i = 0; i < 2; i++)
            assert_string_equal(texts[i], want[w][i]);
    }
    r[1].kind = LW_RUN_EXEC; /* how long was measured is no difference from a prediction */
    r[1].command = "exec -w w.json --steps 20 --warmup 3";
    assert_int_equal(lw_run_texts(r, 2, LW_RUN_CHOICES, &a, &texts, &err), LW_OK);
    assert_string_equal(texts[1], "");
    lw_arena_free(&a);
}

/* Of runs that differ in much, a picture's labels hold what each has unlike the defaults; one that
 * has only defaults says them. */
TEST(labels_of_pictures_leave_defaults_out)
{
    struct lw_run r[3] = {plain_run(), plain_run(), plain_run()};
    static const char *const want[] = {"zero 0, bucket-cap default, dp 1", "zero 3, dp 2",
                                       "bucket-cap 1.00 MiB"};
    struct lw_arena a = {0};
    struct lw_err err;
    const char **texts;

    r[0].options = "dp=1\nzero=0\nschedule=1f1b\nbucket-cap=-1";
    r[1].options = "dp=2\nzero=3\nschedule=1f1b\nbucket-cap=-1";
    r[2].options = "dp=1\nzero=0\nschedule=1f1b\nbucket-cap=1048576";
    assert_int_equal(lw_run_texts(r, 3, LW_RUN_CHOICES, &a, &texts, &err), LW_OK);
    for (int i = 0; i < 3; i++)
        assert_string_equal(texts[i], want[i]);
    lw_arena_free(&a);
}

/* As `runs` cut them: they differ in the workload's file alone, which came last, after defaults and
 * the policy that follows from zero. */
TEST(a_workload_file_comes_first_where_it_alone_differs)
{
    struct lw_run r[4] = {plain_run(), plain_run(), plain_run(), plain_run()};
    static const char *const want[] = {"tp 8, a.json, zero 1, net, dgx-a100",
                                       "tp 8, b.json, zero 1, net, dgx-a100",
                                       "tp 2, a.json, zero 1, net, dgx-a100",
                                       "tp 2, b.json, net, dgx-a100"};
    struct lw_arena a = {0};
    struct lw_err err;
    const char **texts;

    for (int i = 0; i < 4; i++) {
        r[i].command = i % 2 ? "sim -w b.json" : "sim -w a.json";
        r[i].options = i < 2 ? "tp=8\nshard-policy=oss-greedy\nzero=1"
                             : "tp=2\nshard-policy=oss-greedy\nzero=1";
    }
    r[3].options = "tp=2\nshard-policy=none\nzero=0";
    assert_int_equal(lw_run_texts(r, 4, LW_RUN_NAMES, &a, &texts, &err), LW_OK);
    for (int i = 0; i < 4; i++)
        assert_string_equal(texts[i], want[i]);
    lw_arena_free(&a);
}

static enum lw_status name(struct lw_run *r, int32_t n)
{
    struct lw_arena a = {0};
    const char **texts = NULL;
    enum lw_status st = lw_run_texts(r, n, LW_RUN_NAMES, &a, &texts, NULL);

    assert_int_equal(texts != NULL, st == LW_OK);
    lw_arena_free(&a);
    return st;
}

TEST(names_without_memory_leave_nothing)
{
    struct lw_run r[2] = {plain_run(), plain_run()};

    r[1].command = "sim --noise 0.1";
    r[1].options = "zero=2";
    EACH_ALLOCATION_FAILS_IN(0, name(r, 2));
}

/* Twenty runs that differ in one option each; the list is cut as on a screen of 80 columns. */
TEST_WITH(twenty_runs_have_twenty_names, fixture_open, fixture_close)
{
    static const char each[] =
        "for o in '' '--zero 1' '--zero 2' '--zero 3' '--zero 1 --shard-policy lpt' "
        "'--bucket-cap 1MiB' '--bucket-cap 2MiB' '--first-bucket 4KiB' '--no-sync 1' "
        "'--overlap off' '--clip 1' '--comm-hook fp16' '--reducer tree' '--micro-batches 2' "
        "'--bucket-policy single' '--noise 0.01' '--noise 0.02' '--seed 3 --noise 0.01' "
        "'--no-fold' '--steps 2'; do "
        "$L sim -w w.json -c dgx-a100 --as-recorded --dp 4 $o --db s.db -q >log || exit 1; done";

    shell("$L model mlp --layers 2 --width 64 --batch 4 -o w.json >log", NULL);
    shell(each, NULL);
    shell("test 20 = $($L runs --db s.db --format json | grep -o '\"name\": \"[^\"]*\"' | "
          "sort -u | wc -l)", NULL);
    shell("test 20 = $(COLUMNS=80 $L runs --db s.db | cut -c 20-50 | sed -n 3,22p | sort -u | "
          "wc -l)", NULL);
}

/* Executions and replays that differ in one option of the command, and predictions of workloads
 * that have one name. */
TEST_WITH(runs_of_one_plan_have_names_of_their_own, fixture_open, fixture_close)
{
    shell("for b in 4 8; do $L model mlp --layers 2 --width 64 --batch $b -o b$b.json >log && "
          "$L sim -w b$b.json -c dgx-a100 --as-recorded --dp 2 --db s.db -q >log || "
          "exit 1; done",
          NULL);
    shell("for c in sleep spin; do $L exec -w b4.json -c dgx-a100 --as-recorded --dp 2 "
          "--compute $c --steps 2 "
          "--warmup 0 --db s.db -q >log || exit 1; done", NULL);
    shell("test 4 = $($L runs --db s.db --format json | grep -o '\"name\": \"[^\"]*\"' | "
          "sort -u | wc -l)", NULL);
    expect("compare 1 2 --db s.db --format json", 0, "\"label\": \"b8.json\"");
    expect("compare 3 4 --db s.db --format json", 0, "\"label\": \"exec threads (sleep)\"");
    expect("compare 3 4 --db s.db --format json", 0, "\"label\": \"exec threads (spin)\"");
    expect("compare 3 3 --db s.db --format json", 0, "\"label\": \"run 3\"");
}

static void make_runs(void)
{
    lapwing("model mlp -o w.json", NULL);
    lapwing("sim -w w.json -c dgx-a100 --as-recorded --dp 2 --spans", NULL);
    lapwing("sim -w w.json -c dgx-h100 --as-recorded --dp 2 --bucket-cap 5MiB --spans", NULL);
    lapwing("sim -w w.json -c dgx-h100 --as-recorded --dp 2 --bucket-cap 5MiB --spans "
            "--name 'second try'",
            NULL);
}

TEST_WITH(runs_show_names_and_filters_choose, fixture_open, fixture_close)
{
    make_runs();
    expect("runs", 0, "dgx-a100 with cpu");
    assert_null(strstr(lapwing("runs", NULL), "default"));
    expect("runs", 0, "bucket-cap 5.00 MiB, dgx-h100 wi");
    expect("runs", 0, "second try");
    assert_null(strstr(lapwing("runs 3", NULL), "dgx-h100"));
    assert_null(strstr(lapwing("runs --kind exec", NULL), "mlp"));
    assert_null(strstr(lapwing("runs --workload nosuch", NULL), "mlp"));
    assert_null(strstr(lapwing("runs --since 2100-01-01", NULL), "mlp"));
    expect("runs --workload ML --since 1h --kind sim", 0, "second try");
    expect("runs --since yesterday", 2, "expected a date");
    expect("runs --kind x", 2, "--kind: unknown value 'x'; expected one of sim, exec, import");
    expect("runs --format json", 0, "\"name\": \"second try\"");
}

/* No row of a deleted run stays, and a plan stays as long as a run has it. */
TEST_WITH(a_deleted_run_takes_what_is_its_own, fixture_open, fixture_close)
{
    make_runs();
    expect("runs --delete", 2, "needs the runs");
    expect("runs --delete 2", 0, "deleted run 2: mlp, dp 2, bucket-cap 5.00 MiB, dgx-h100 "
                                 "with cpu core");
    expect("export 3 --format csv -o after.csv", 0, ""); /* run 3 has the same plan */
    expect("export 1 --format csv -o first.csv", 0, "");
    expect("runs --delete --workload mlp", 0, "deleted run 3: second try");
    assert_null(strstr(lapwing("runs", NULL), "mlp"));
    assert_string_equal(lapwing("runs --workload mlp", NULL),
                        "no run of lapwing.db matches the filter\n");
    assert_string_equal(lapwing("runs --workload mlp --delete", NULL),
                        "no run of lapwing.db matches the filter\n");
    /* the plan is stored anew */
    lapwing("sim -w w.json -c dgx-a100 --as-recorded --dp 2 --spans", NULL);
    expect("export last --format csv -o again.csv", 0, "");
    shell("cmp first.csv again.csv", NULL);
}

/* Neither with files of locks beside it, nor changed, whether there is what is asked or not. */
TEST_WITH(reading_leaves_the_database_as_it_was, fixture_open, fixture_close)
{
    static const char *const commands[] = {"runs", "runs 1", "explain 1", "export 1 -o out.json",
                                           "explain 4", "compare 1 99", "plot timeline 99",
                                           "report 99"};

    shell("mkdir d; $L sim -w mlp --device dgx-a100 -c dgx-a100 --dp 2 --spans --db d/r.db -q && "
          "cp d/r.db before.db", NULL);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        shellf("$L %s --db d/r.db >out.txt 2>&1; true", commands[i]);
        assert_string_equal(shell("ls d", NULL), "r.db\n");
        shell("cmp before.db d/r.db", NULL);
    }
}

TEST_WITH(merged_runs_are_the_same_runs, fixture_open, fixture_close)
{
    make_runs();
    shell("mv lapwing.db other.db && "
          "$L sim -w w.json -c dgx-h200 --as-recorded --dp 2 --spans >sim.txt", NULL);
    expect("runs --merge other.db", 0, "3 runs of other.db taken over into lapwing.db");
    expect("runs", 0, "dgx-h200 with cpu core, mlp, dp 2");
    expect("runs", 0, "second try");
    lapwing("export 3 --format csv -o here.csv", NULL); /* 1 is dgx-h200, 2 to 4 came */
    lapwing("export 2 --db other.db --format csv -o there.csv", NULL);
    shell("cmp here.csv there.csv", NULL);
    expect("runs --merge nosuch.db", 1, "nosuch.db");
    expect("runs --db new.db --merge nosuch.db", 1, "nosuch.db");
    assert_int_not_equal(access(fixture_path("new.db"), F_OK), 0); /* nothing is made for nothing */
    expect("runs --merge lapwing.db", 1, "is the database itself");
    expect("runs --merge other.db 2", 2, "--merge takes over a whole database");
    shell("rm other.db*", NULL);
}

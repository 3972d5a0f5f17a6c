/* Runs have names, can be filtered, deleted and taken over from another database. */
#include "tests/lib/unit.h"
#include <string.h>

#include "analysis/store/run_name.h"
#include "tests/lib/command_fixture.h"
#include "tests/lib/file_fixture.h"

static struct lw_run plain_run(void)
{
    return (struct lw_run){.kind = LW_RUN_SIM, .workload_name = "net", .plan_name = "net dp2",
                           .cluster_name = "dgx-a100", .backend = ""};
}

TEST(a_name_holds_what_differs_from_the_defaults)
{
    struct lw_arena a = {0};
    struct lw_run r = plain_run();

    assert_string_equal(lw_run_name_make(&a, &r, "dp=2\npp=1\nbucket-cap=5242880\nzero=0\n"),
                        "net, dp 2, bucket-cap 5.00 MiB, dgx-a100");
    assert_string_equal(lw_run_name_make(&a, &r, ""), "net, dgx-a100");
    r.kind = LW_RUN_EXEC;
    r.backend = "threads";
    assert_string_equal(lw_run_name_make(&a, &r, "tp=2"), "net, tp 2, dgx-a100, exec threads");
    r = (struct lw_run){.kind = LW_RUN_IMPORT, .workload_name = "", .plan_name = "replay",
                        .cluster_name = "", .backend = ""};
    assert_string_equal(lw_run_name_make(&a, &r, ""), "replay, recorded");
    lw_arena_free(&a);
}

TEST(a_size_that_was_not_given_is_the_default)
{
    char buf[64];

    assert_string_equal(lw_option_shown("bucket-cap", "-1", buf), "default");
    assert_string_equal(lw_option_shown("bucket-cap", "5242880", buf), "5.00 MiB");
    assert_string_equal(lw_option_shown("dp", "-1", buf), "-1");
}

static void make_runs(void)
{
    lapwing("model mlp -o w.json", NULL);
    lapwing("sim -w w.json -c dgx-a100 --dp 2 --spans", NULL);
    lapwing("sim -w w.json -c dgx-h100 --dp 2 --bucket-cap 5MiB --spans", NULL);
    lapwing("sim -w w.json -c dgx-h100 --dp 2 --bucket-cap 5MiB --spans --name 'second try'", NULL);
}

TEST_WITH(runs_show_names_and_filters_choose, fixture_open, fixture_close)
{
    make_runs();
    expect("runs", 0, "mlp, dp 2, dgx-a100");
    expect("runs", 0, "mlp, dp 2, bucket-cap 5.00 MiB, dgx-h100");
    expect("runs", 0, "second try");
    assert_null(strstr(lapwing("runs 3", NULL), "dgx-h100"));
    assert_null(strstr(lapwing("runs --kind exec", NULL), "mlp"));
    assert_null(strstr(lapwing("runs --workload nosuch", NULL), "mlp"));
    assert_null(strstr(lapwing("runs --since 2100-01-01", NULL), "mlp"));
    expect("runs --workload ML --since 1h --kind sim", 0, "second try");
    expect("runs --since yesterday", 2, "expected a date");
    expect("runs --kind x", 2, "expected sim, exec or import");
    expect("runs --format json", 0, "\"name\": \"second try\"");
}

/* No row of a deleted run stays, and a plan stays as long as a run has it. */
TEST_WITH(a_deleted_run_takes_what_is_its_own, fixture_open, fixture_close)
{
    make_runs();
    expect("runs --delete", 2, "needs the runs");
    expect("runs --delete 2", 0, "deleted run 2: mlp, dp 2, bucket-cap 5.00 MiB, dgx-h100");
    expect("export 3 --format csv -o after.csv", 0, ""); /* run 3 has the same plan */
    expect("export 1 --format csv -o first.csv", 0, "");
    expect("runs --delete --workload mlp", 0, "deleted run 3: second try");
    assert_null(strstr(lapwing("runs", NULL), "mlp"));
    lapwing("sim -w w.json -c dgx-a100 --dp 2 --spans", NULL); /* the plan is stored anew */
    expect("export last --format csv -o again.csv", 0, "");
    shell("cmp first.csv again.csv", NULL);
}

TEST_WITH(merged_runs_are_the_same_runs, fixture_open, fixture_close)
{
    make_runs();
    shell("mv lapwing.db other.db && $L sim -w w.json -c dgx-h200 --dp 2 --spans >sim.txt", NULL);
    expect("runs --merge other.db", 0, "3 runs of other.db taken over into lapwing.db");
    expect("runs", 0, "mlp, dp 2, dgx-h200");
    expect("runs", 0, "second try");
    lapwing("export 3 --format csv -o here.csv", NULL); /* 1 is dgx-h200, 2 to 4 came */
    lapwing("export 2 --db other.db --format csv -o there.csv", NULL);
    shell("cmp here.csv there.csv", NULL);
    expect("runs --merge nosuch.db", 1, "nosuch.db");
    expect("runs --merge lapwing.db", 1, "is the database itself");
    expect("runs --merge other.db 2", 2, "--merge takes over a whole database");
    shell("rm other.db*", NULL);
}

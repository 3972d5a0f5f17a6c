/* `lapwing exec` and `lapwing calibrate` as a user meets them. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/unit.h"

#include "shared/files/files.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/commands/old_plan.h"
#include "tests/lib/exec/exec_plan.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"
#include "tests/lib/files/sql_file.h"

/* left_out: bytes at the end of bucket 1 that are not reduced. */
static void write_plan(const struct exec_test_plan *t, int64_t left_out, const char *name)
{
    struct lw_plan plan;
    struct lw_err err = {0};

    assert_ok(exec_test_plan_build(t, &plan, &err), err);
    for (int32_t i = 0; i < plan.n_ops; i++)
        if (plan.ops[i].kind == LW_OP_ALL_REDUCE && plan.ops[i].bucket == 1)
            plan.ops[i].bytes -= left_out;
    assert_ok(lw_plan_write(&plan, fixture_path(name), &err), err);
    lw_plan_free(&plan);
}

static int make_plans(void **state)
{
    struct exec_test_plan t = exec_test_plan_default();

    fixture_open(state);
    write_plan(&t, 0, "good.json");
    t.n_params = 4;
    write_plan(&t, 7 * 4, "short.json"); /* the last 7 elements of w00 */
    t = exec_test_plan_default();
    t.work_ps = 2 * LW_PS_PER_S;
    write_plan(&t, 0, "slow.json");
    return 0;
}

TEST(a_run_is_verified_stored_and_told)
{
    EXPECT("exec good.json --compute spin --steps",
           /* 5010 * 4 * 2 bytes / 1024 */
           {"3 --warmup 1", 0, "verified: 39.14 KiB equal to a one-rank run"},
           {"3 --warmup 1 --format json", 0, "\"verified\": true"},
           {"2 --no-verify --format json", 0, "\"verified\": null"},
           {"2 --format json", 0, "\"n_checked_bytes\": 40080"});
    expect("runs --format csv", 0, "exec threads");
}

/* The example of docs/formats/cluster.md as c.json, with a probe of this machine's product. */
static void write_probed(const char *source)
{
    char *text = fixture_example("docs/formats/cluster.md"), line[400];

    snprintf(line, sizeof line,
             "\"probe_ns\": {\"value\": 100000, \"source\": \"lapwing calibrate: %s\"},"
             " \"launch_ns\"", source);
    char *probed = fixture_replaced(text, "\"launch_ns\"", line);
    fixture_put(fixture_path("c.json"), probed);
    free(probed);
    free(text);
}

/* With a probe in the cluster file there is a machine speed, also where ranks are processes, and it
 * is stored; with that of another product, or none, there is not. The plan's ops have times, so
 * their compute speed is known in each case. */
TEST(the_machines_speed_is_told_where_it_was_calibrated)
{
    static const char key[] = "\"compute_with\": \"";
    const char *none = "\"machine_speed\": null", *some = "\"machine_speed\": ";
    char product[200];

    const char *at = strstr(lapwing("exec good.json --no-db --steps 2 --format json", NULL), key);
    assert_non_null(at);
    snprintf(product, sizeof product, "%.*s", (int)strcspn(at + sizeof key - 1, "\""),
             at + sizeof key - 1);
    char *old = fixture_example("docs/formats/cluster.md");
    fixture_put(fixture_path("c.json"), old);
    free(old);
    EXPECT("exec good.json -c c.json --no-db --steps 2",
           {"", 0, "verified", .lacks = "calibrated speed"},
           {"--format json", 0, none, {"\"step\": 5, \"rank\": 1, \"now_ns\": "}});
    write_probed("another BLAS, sgemm of 192");
    expect("exec good.json -c c.json --no-db --steps 2 --format json", 0, none);
    write_probed(product);
    EXPECT("exec good.json -c c.json --steps 2",
           {"--db s.db", 0, "of the calibrated speed"},
           {"--db s.db --format json", 0, some, {"\"rank\": 1, \"compute_speed\": "}, none},
           {"--db s.db --spawn --format json", 0, some,
            {"\"step\": 5, \"rank\": 0, \"now_ns\": ",
             "\"step\": 5, \"rank\": 1, \"now_ns\": "},
            none},
           {"--db s.db --compute sleep --format json", 0, none, {"\"probes\": []"}});
    assert_int_equal(sql_ask(fixture_path("s.db"), "SELECT count(*) FROM metric WHERE name IN"
                             " ('machine_speed', 'machine_speed_p10', 'machine_speed_p90')"), 9);
    assert_int_equal(sql_ask(fixture_path("s.db"), "SELECT count(*) FROM metric WHERE name IN"
                             " ('probe_ns', 'compute_speed')"), 18);
}

/* A plan that is in the database alone runs as the file did. */
TEST(a_stored_plan_runs)
{
    expect("exec good.json --compute spin --steps 2 --db stored.db", 0, "verified");
    EXPECT("exec --db stored.db --compute spin --steps 2 --run",
           {"last", 0, "verified: 39.14 KiB equal to a one-rank run"},
           {"1 --spawn --format json", 0, "\"verified\": true"},
           {"7", 1, "no run '7'"},
           {"last good.json", 2, "--run last has a plan: leave out good.json"},
           {"last -w w.json", 2, "--run last has a plan: leave out -w w.json"},
           {"last --zero 1", 2, "holds its strategy"});
    EXPECT("sim --run last --db", {"stored.db", 0, "step"}, {"none.db", 1, "none.db"});
    expect("sim --replay --run 1 --db stored.db", 2, "leave out --replay");
    expect("export last --format plan -o again.json --db stored.db", 0, "the plan of run");
    expect("plan diff good.json again.json", 0, "");
}

static void make_older(void)
{
    make_spans_old(fixture_path("older.db"));
}

static int64_t version_of_older(void)
{
    return sql_ask(fixture_path("older.db"), "PRAGMA user_version");
}

/* Of an older schema: what stores brings it up to date first, what does not
 * names a command that does. */
TEST(a_plan_of_an_older_database_runs_where_the_run_is_stored)
{
    expect("exec good.json --compute spin --steps 2 --db older.db", 0, "verified");
    for (int i = 0; i < 2; i++) {
        const char *stores = i == 0 ? "exec --run 1 --compute spin --steps 2 --db older.db"
                                    : "sim --run 1 --db older.db";
        int64_t newest = version_of_older();
        char line[200];
        make_older();
        assert_int_equal(version_of_older(), 11);
        snprintf(line, sizeof line, "%s --no-db", stores);
        expect(line, 1, "`lapwing sim -w mlp --db older.db`");
        expect(stores, 0, "step");
        assert_int_equal(version_of_older(), newest);
        make_older();
        expect("sim -w mlp --db older.db", 0, "step");
        assert_int_equal(version_of_older(), newest);
    }
}

/* Each rank reads the model again; the command says once what it took. */
TEST(spawned_ranks_do_not_say_what_was_said)
{
    const char *out = lapwing("exec -w mlp --dp 2 --steps 2 --compute sleep --spawn --no-db", NULL);

    assert_int_equal(count_words(out, "is timed for cluster 'host'"), 1);
}

/* What a framework holds in memory is no part of the plan that is stored. */
TEST(a_stored_plan_of_a_framework_is_the_plan)
{
    static const char *const frameworks[] = {"deepspeed", "nanotron",  "megatron-deepspeed",
                                             "oneflow",   "torchtune", "torch-ddp", "internevo"};

    for (size_t i = 0; i < sizeof frameworks / sizeof *frameworks; i++) {
        char line[200];
        snprintf(line, sizeof line,
                 "sim -w llama-3.2-3b -c dgx-a100 --dp 2 --db f.db%s --framework %s",
                 i == 5 ? "" : " --zero 1", frameworks[i]);
        expect(line, 0, "step");
        expect("sim --run last -c dgx-a100 --db f.db", 0, frameworks[i]);
        expect("explain last --db f.db -c dgx-a100", 0, "");
        expect("export last --format plan -o f.json --force --db f.db", 0, "the plan of run");
    }
}

/* The plan has two ranks. On one core they share it; compute by the clock is said as such. */
TEST(ranks_that_share_a_core_are_emulated)
{
    static const struct {
        const char *options, *compute, *network, *honesty;
    } cases[] = {
        {"gemm", "real", "real", "real"},
        {"spin", "spin", "real", "spin"},
        {"sleep", "sleep", "real", "sleep"},
        {"spin --link-rate 100MB", "spin", "paced", "paced"},
    };
    cpu_set_t all, one;
    int core = 0;

    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    while (!CPU_ISSET(core, &all))
        core++;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    for (int n_cores = 1; n_cores <= (CPU_COUNT(&all) > 1 ? 2 : 1); n_cores++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            bool shared = n_cores == 1 && i == 0;
            char says[160];
            snprintf(says, sizeof says,
                     "\"compute_source\": \"%s\",\n  \"network\": \"%s\",\n"
                     "  \"honesty\": \"%s\",\n  \"oversubscribed\": %s",
                     shared ? "emulated" : cases[i].compute,
                     shared ? "emulated" : cases[i].network,
                     shared ? "emulated" : cases[i].honesty, n_cores == 1 ? "true" : "false");
            sched_setaffinity(0, sizeof one, n_cores == 1 ? &one : &all);
            const char *out = lapwingf(
                "exec good.json --compute %s --steps 2 --no-db --format json", cases[i].options);
            sched_setaffinity(0, sizeof all, &all);
            has(out, says);
        }
}

TEST(a_wrong_plan_is_refused_or_found_out)
{
    EXPECT("exec short.json --compute spin", {"--no-db", 1, "but the bucket has"},
           {"--steps 2 --no-check --no-db", 3, "parameter 0 'w00', element 993, rank 0"},
           {"--steps 2 --no-check --no-db --format json", 3, "\"verified\": false"});
}

/* Adam keeps two f32 arrays: 5010 * 2 * 4 bytes. */
TEST(optimizer_state_comes_together)
{
    EXPECT("exec good.json --compute spin --no-db",
           {"--steps 2 --optimizer adam --consolidate 1", 0,
            "consolidated: 39.14 KiB of optimizer state on rank 1"},
           {"--optimizer adam --consolidate 2", 1, "--consolidate 2: the plan has ranks 0 to 1"},
           {"--consolidate 0", 2, "sgd keeps no state"});
}

/* A plan's times are of the model's optimizer: another one is said, and Muon, which is not
 * executed, is not replaced unasked. A stored plan knows it too. */
TEST(an_optimizer_that_does_not_run_is_told)
{
    static const char *const tiny = "-w gpt2 --layers 2 --hidden 32 --heads 2 --vocab 64 --seq 16 "
                                    "--batch 1 --dp 2 -c host";

    for (int muon = 0; muon < 2; muon++)
        expectf(0, "wrote", "plan %s --optimizer %s -o %s", tiny, muon ? "muon" : "adam",
                muon ? "muon.json" : "adam.json");
    EXPECT("exec --steps 2 --compute spin --db o.db",
           {"muon.json", 1, "has the optimizer muon, which is not executed: --optimizer sgd, "},
           {"muon.json --optimizer momentum", 0,
            "updates: momentum; the plan's times and memory are of muon"},
           {"--run last", 1, "has the optimizer muon"},
           {"adam.json", 0, "updates: sgd; the plan's times and memory are of adam"},
           {"adam.json --format json", 0,
            "\"optimizer\": \"sgd\",\n  \"plan_optimizer\": \"adam\""},
           {"adam.json --optimizer adam", 0, "verified", .lacks = "updates:"});
}

TEST(pipelines_run_as_processes)
{
    expect("model mlp --layers 4 --width 8 -o w.json", 0, "wrote w.json");
    EXPECT("exec -w w.json --dp 2 --pp 2 --zero 1 --micro-batches 2 --spawn --compute sleep "
           "--steps 2 --no-db --optimizer adam --format json",
           {"--schedule zb-h1 --consolidate 3", 0, "\"verified\": true"},
           {"--clip 1 --consolidate 0", 0, "\"verified\": true"});
}

TEST(a_step_beyond_its_time_is_stored_as_timeout)
{
    expect("exec slow.json --compute sleep --timeout 0.05 --db late.db --format json", 1,
           "\"status\": \"timeout\"");
    expect("runs --db late.db", 0, "timeout");
    expect("explain 1 --db late.db", 1, "run 1 has no spans: it ended before a step was measured "
                                        "(`lapwing runs` says why)");
}

TEST(wrong_usage_is_said)
{
    EXPECT("calibrate", {"", 2, "needs -o FILE"}, {"-o c.json --ranks 0", 2, "from 1"});
    EXPECT("exec", {"", 2, "needs a plan file or a workload"},
           {"nowhere.json --no-db", 1, "nowhere.json"});
    EXPECT("exec good.json", {"--compute fast", 2, "--compute: unknown value 'fast'; expected one"},
           {"--backend rdma --no-db", 2,
            "--backend: unknown value 'rdma'; expected one of threads, mpi, nccl"},
           {"--ranks 4 --no-db", 1, "--ranks 4, but plan 'good.json' is for 2 ranks"},
           {"--steps 0", 2, "'0' is not a whole number from 1"},
           {"--timeout 0", 2, "'0' is not a number above 0"},
           {"--optimizer adam --momentum 1", 2, "--momentum 1: beta1 of adam must be below 1"},
           {"--momentum 2", 2, "'2' is not a number from 0 to 1"},
           {"--optimizer sgd --momentum 0.5", 2, "sgd has no momentum"},
           {"-w w.json --clip 1e300", 2, "'1e300' is not a number of 0 or more, below 1e300"});
}

TEST(backends_are_listed_with_reasons)
{
    EXPECT("exec --list-backends", {"", 0, "threads"},
           {"--format json", 0, "\"available\": true", {"\"available\": false"}});
}

TEST_GROUP(make_plans, fixture_close)

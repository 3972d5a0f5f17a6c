/* A stored run is predicted and explained on the cluster that it had, whatever options had changed
 * in its figures, and whatever became of its file. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/store/store.h"
#include "shared/cluster/cluster_terms.h"
#include "shared/files/files.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/commands/old_plan.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"
#include "tests/lib/files/sql_file.h"

static double step_of(const char *command)
{
    return number_after(lapwing(command, NULL), "\"step_ns\": ");
}

/* The run's own step comes back from its number, and is what explain's what-ifs begin with. */
static void expect_same(const char *made)
{
    char line[300], *json;

    snprintf(line, sizeof line, "sim %s --db r.db --format json", made);
    double step = step_of(line);
    if (strstr(made, "mine.json"))
        shell("mv mine.json away.json", NULL);
    assert_true(step == step_of("sim --run last --db r.db --no-db --format json"));
    json = strdup(lapwing("explain --db r.db --format json", NULL));
    has(json, "\"what_ifs_note\": null");
    assert_true(number_after(strstr(json, "\"change\": \"none\""), "\"step_ns\": ") == step);
    free(json);
    if (strstr(made, "mine.json"))
        shell("mv away.json mine.json", NULL);
}

TEST_WITH(a_run_has_its_cluster_whatever_options_changed_it, fixture_open, fixture_close)
{
    static const char *const made[] = {
        "-w gpt2 -c dgx-a100 --dp 16",
        "-w gpt2 -c dgx-a100 --dp 16 --node-gbps 100",
        "-w gpt2 -c dgx-h100 --dp 16 --node-gbps 400 --interference published",
        "-w gpt2 -c dgx-h100 --dp 16 --node-gbps 400 --interference off",
        "-w gpt2 -c mine.json --dp 16 --node-gbps 200",
        "-w gpt2 -c gb200 --dp 128",
        "-w gpt2 -c gb200 --dp 100 --interference off",
        "-w mlp -c host --dp 2",
        "-w recorded.json -c dgx-h100 --as-recorded --dp 8",
        "-w recorded.json -c dgx-h100 --device dgx-h100 --dp 8 --interference off",
    };

    lapwing("cluster dgx-a100 -o mine.json", NULL);
    shell("sed -i 's/\"dgx-a100\"/\"mine\"/' mine.json", NULL);
    recording_of_model("gpt2 --device dgx-a100", "recorded.json");
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
        printf("%s\n", made[i]);
        expect_same(made[i]);
    }
    assert_int_equal(sql_ask(fixture_path("r.db"), "SELECT count(*) FROM cluster_file"), 8);
    expect("sim --run 1 --no-db --db r.db", 0, "cluster 'dgx-a100', that of run 1; -c names");
    expect("sim --run 3 --no-db --db r.db", 0, "that of run 3, whose figures are not those of the "
           "known system; -c names another");
}

TEST_WITH(an_option_for_another_cluster_needs_one, fixture_open, fixture_close)
{
    recording_of_model("gpt2 --device dgx-a100", "recorded.json");
    lapwing("sim -w gpt2 -c dgx-a100 --dp 8 --db r.db", NULL);
    lapwing("sim -w recorded.json -c dgx-h100 --as-recorded --dp 8 --db r.db", NULL);
    EXPECT("sim --no-db --db r.db --as-recorded --run",
           {"1", 2, "--as-recorded changes nothing of run 1 on its own cluster: name another one"},
           {"2", 2, "--as-recorded changes nothing of run 2 on its own cluster"},
           {"1 -c dgx-h100", 0, "cluster 'dgx-h100 with "});
}

/* Options of the new command are on top, and another word of interference replaces the run's. */
TEST_WITH(options_change_the_stored_cluster, fixture_open, fixture_close)
{
    static const char sim[] = "sim -w gpt2 -c dgx-h100 --dp 16 ";
    static const char *const words[] = {"published", "off", "channels"};
    char line[200];

    for (int made = 0; made < 3; made++)
        for (int asked = 0; asked < 3; asked++) {
            snprintf(line, sizeof line, "%s--node-gbps 400 --interference %s --db r.db", sim,
                     words[made]);
            lapwing(line, NULL);
            snprintf(line, sizeof line, "%s--node-gbps 800 --interference %s --no-db --format json",
                     sim, words[asked]);
            double step = step_of(line);
            snprintf(line, sizeof line, "sim --run last --node-gbps 800 --interference %s --no-db "
                     "--db r.db --format json", words[asked]);
            assert_true(step == step_of(line));
        }
}

TEST_WITH(a_run_without_its_cluster_is_refused_where_figures_differ, fixture_open, fixture_close)
{
    lapwing("sim -w gpt2 -c dgx-a100 --dp 16 --db r.db", NULL);
    lapwing("sim -w gpt2 -c dgx-a100 --dp 16 --node-gbps 100 --db r.db", NULL);
    sql_do(fixture_path("r.db"), "UPDATE run SET cluster_file = NULL; DELETE FROM cluster_file");
    expect("sim --run 1 --no-db --db r.db", 0, "cluster 'dgx-a100', that of run 1;");
    expect("sim --run 2 --no-db --db r.db", 1, "run 2 was stored without the figures of its "
           "cluster (by an older lapwing), and those of 'dgx-a100' differ today");
    expect("sim --run 2 --no-db --db r.db", 1, "-c dgx-a100 takes those of today");
    expect("sim --run 2 -c dgx-a100 --node-gbps 100 --no-db --db r.db", 0, "step ");
    expect("explain 2 --db r.db", 0, "the figures of cluster 'dgx-a100' differ from those of the "
           "run; name the run's cluster file with -c");
}

/* What older programs stored stays readable for them until a run is stored beside it. */
TEST_WITH(a_refused_run_leaves_an_older_database_as_it_is, fixture_open, fixture_close)
{
    static const struct {
        int rc;
        const char *args;
    } refused[] = {
        {1, "sim --run 2 --db r.db"},
        {1, "sim --run 3 --db r.db"},
        {1, "exec --run 3 --db r.db"},
        {1, "import none.json --store --db r.db"},
        {1, "sim --run 1 -c nowhere --db r.db"},
        {2, "sim --run 1 --jitter 5us --db r.db"},
        {2, "sim --run 1 --ring events --db r.db"},
        {1, "sim --run 1 --samples 3 --db r.db"},
        {1, "sim -w resnet50 -c dgx-a100 --dp 2 --tokens 1T --db r.db"},
        {1, "sim -w gpt2 -c p4d --node-gbps 400 --dp 16 --detail chunk --samples 3 --db r.db"},
        {1, "runs 7 --delete --db r.db"},
        {1, "runs --search 7 --delete --db r.db"},
        {0, "runs --workload nothing --delete --db r.db"},
        {1, "tune -w gpt2 -c dgx-a100 --ranks 8 --global-batch 64 --tp 7 --db r.db"},
        {1, "tune -w gpt2 -c dgx-a100 --ranks 8 --global-batch 64 --resume --db r.db"},
    };
    const char *version = "PRAGMA user_version";

    lapwing("sim -w gpt2 -c dgx-a100 --dp 16 --db r.db", NULL);
    lapwing("sim -w gpt2 -c dgx-a100 --dp 16 --node-gbps 100 --db r.db", NULL);
    make_clusters_old(fixture_path("r.db"));
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        expect(refused[i].args, refused[i].rc, "");
        assert_int_equal(sql_ask(fixture_path("r.db"), version), 16);
    }
    expect("sim --run 1 --db r.db", 0, "stored as run 3");
    assert_int_equal(sql_ask(fixture_path("r.db"), version), 17);
}

TEST_WITH(an_edited_cluster_is_refused, fixture_open, fixture_close)
{
    lapwing("sim -w gpt2 -c dgx-a100 --dp 8 --db r.db", NULL);
    lapwing("sim -w gpt2 -c dgx-h100 --dp 8 --db r.db", NULL);
    sql_do(fixture_path("r.db"), "UPDATE run SET cluster_file = (SELECT cluster_file FROM run"
                                 " WHERE id = 2) WHERE id = 1");
    expect("sim --run 1 --no-db --db r.db", 1, "cluster_file of run 1 does not hash to");
    expect("explain 1 --db r.db", 0, "what-ifs are not simulated: r.db: cluster_file of run 1 does "
           "not hash to");
    expect("explain 1 -c dgx-a100 --db r.db", 0, "what if, simulated");
    expect("sim --run 1 -c dgx-a100 --no-db --db r.db", 0, "step ");
}

/* Whatever became of the cluster's row, the message names the database and the remedy; what needs
 * no cluster is shown. */
TEST_WITH(a_damaged_cluster_is_named, fixture_open, fixture_close)
{
    static const struct {
        const char *sql, *says;
    } damage[] = {
        {"UPDATE cluster_file SET gz = x'00010203'", "r.db: cluster of run 1: not gzip data: it"},
        {"UPDATE cluster_file SET gz = substr(gz, 1, 60)", "r.db: cluster of run 1"},
        {"DELETE FROM cluster_file", "r.db: cluster of run 1: it has no row in cluster_file: it"},
    };

    lapwing("sim -w gpt2 -c dgx-a100 --dp 8 --node-gbps 100 --db r.db", NULL);
    for (size_t i = 0; i < sizeof damage / sizeof *damage; i++) {
        sql_do(fixture_path("r.db"), damage[i].sql);
        expect("sim --run 1 --no-db --db r.db", 1, damage[i].says);
        expect("sim --run 1 --no-db --db r.db", 1, "name the run's cluster with -c");
        expect("explain 1 --db r.db", 0, damage[i].says);
        expect("explain 1 --db r.db", 0, "name the run's cluster with -c");
        expect("sim --run 1 -c dgx-a100 --node-gbps 100 --no-db --db r.db", 0, "step ");
    }
}

/* Every known cluster comes back with its hash, whatever it takes. */
TEST_WITH(every_cluster_comes_back, fixture_open, fixture_close)
{
    static const char *const words[] = {"channels", "published", "off"};
    struct lw_err err = {0};
    struct lw_store *s;

    assert_ok(lw_store_open(fixture_path("r.db"), LW_STORE_WRITE, &s, &err), err);
    for (int k = 0; lw_cluster_known(k); k++)
        for (int i = 0; i < 3; i++) {
            struct lw_cluster c, back;
            struct lw_arena a = {0};
            struct lw_run run;
            const char *terms;
            char was[33], is[33], id[24];
            assert_ok(lw_cluster_find(lw_cluster_known(k), &c, &err), err);
            enum lw_status st = lw_cluster_take_terms(&c, words[i], &err);
            struct lw_run_info info = {.kind = LW_RUN_SIM, .cluster = &c, .over = true};
            int64_t n = 0;
            assert_true(st == LW_OK || i == 1);
            assert_ok(lw_store_begin_run(s, &info, &n, &err), err);
            snprintf(id, sizeof id, "%lld", (long long)n);
            assert_ok(lw_store_find_run(s, id, &a, &run, &err), err);
            assert_ok(lw_store_cluster(s, &run, &back, &terms, &err), err);
            assert_ok(lw_cluster_take_terms(&back, terms, &err), err);
            assert_ok(lw_cluster_hash(&c, was, &err), err);
            assert_ok(lw_cluster_hash(&back, is, &err), err);
            assert_string_equal(was, is);
            lw_cluster_free(&back);
            lw_cluster_free(&c);
            lw_arena_free(&a);
        }
    lw_store_close(s);
}

/* Runs that share a cluster share its row, which goes with the last of them and moves with any. */
TEST_WITH(clusters_are_merged_and_deleted_with_their_runs, fixture_open, fixture_close)
{
    static const char count[] = "SELECT count(*) FROM cluster_file";

    lapwing("sim -w gpt2 -c dgx-a100 --dp 8 --db a.db", NULL);
    lapwing("sim -w gpt2 -c dgx-a100 --dp 4 --db a.db", NULL);
    double step = step_of("sim -w gpt2 -c dgx-a100 --dp 16 --node-gbps 100 --db a.db "
                          "--format json");
    assert_int_equal(sql_ask(fixture_path("a.db"), count), 2);
    lapwing("sim -w gpt2 -c dgx-a100 --dp 8 --db b.db", NULL);
    lapwing("runs --merge a.db --db b.db", NULL);
    assert_int_equal(sql_ask(fixture_path("b.db"), count), 2);
    assert_true(step == step_of("sim --run 4 --no-db --db b.db --format json"));
    lapwing("runs 1 --delete --db a.db", NULL);
    assert_int_equal(sql_ask(fixture_path("a.db"), count), 2);
    lapwing("runs 2 --delete --db a.db", NULL);
    assert_int_equal(sql_ask(fixture_path("a.db"), count), 1);
}

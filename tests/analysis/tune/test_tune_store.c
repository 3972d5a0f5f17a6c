/* Searches that are stored: printed again, split over machines, interrupted, killed, gone on with.
 * Whatever happened on the way, the answer is that of one search, byte for byte but for its wall
 * time and its number in the database. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"
#include "tests/lib/files/sql_file.h"

#define SPACE                                                                                    \
    "-w gpt2 -c dgx-a100 --ranks 8 --global-batch 32 --batch 1,2 --recompute none,full "        \
    "--schedule 1f1b,zb-h1 -q"
/* Without what may differ. */
#define LESS "| sed -e '/\"wall_s\"/d' -e '/\"search\"/d'"

static char *answer(const char *args)
{
    return strdup(shellf("$L tune " SPACE " --format json %s " LESS, args));
}

static void same(const char *one, const char *args)
{
    char *other = answer(args);

    assert_string_equal(one, other);
    free(other);
}

TEST_WITH(a_stored_search_is_printed_again, fixture_open, fixture_close)
{
    static const char *const formats[] = {"text", "json", "csv"};

    for (int i = 0; i < 3; i++) {
        char *printed = strdup(lapwingf("tune " SPACE " --format %s --db a.db", formats[i]));
        assert_string_equal(lapwingf("runs --db a.db --search last --format %s", formats[i]),
                            printed);
        free(printed);
    }
}

/* The first of the best is a run like any other, with the step of its row. */
TEST_WITH(the_best_are_runs, fixture_open, fixture_close)
{
    char *json = strdup(lapwing("tune " SPACE " --format json --db a.db", NULL));
    int64_t step = (int64_t)number_after(strstr(json, "\"best\""), "\"step_ns\": ");

    has(json, "\"run\": 3,");
    assert_null(strstr(json, "\"run\": 4,"));
    assert_int_equal(sql_ask(fixture_path("a.db"), "SELECT count(*) FROM run"), 3);
    has(lapwing("explain 1 --db a.db", NULL), "run 1 (sim)");
    assert_null(strstr(lapwing("explain 1 --memory --db a.db", NULL), "changes are not tried"));
    assert_int_equal((int64_t)number_after(lapwing("runs 1 --db a.db --format json", NULL),
                                           "\"step_ns\": "), step);
    has(lapwing("compare 1 2 --db a.db", NULL), "zero");
    free(json);
    expect("tune " SPACE " --store-runs 0 --db b.db", 0, "stored: search 1 of b.db\n");
    assert_int_equal(sql_ask(fixture_path("b.db"), "SELECT count(*) FROM run"), 0);
    expect("tune " SPACE " --no-db", 0, "the first, with all that sim says of it");
    assert_int_equal(sql_ask(fixture_path("b.db"), "SELECT count(*) FROM search"), 1);
}

/* Each strategy has a row, with the reason why it loses. */
TEST_WITH(every_strategy_has_a_row, fixture_open, fixture_close)
{
    char *json = strdup(lapwing("tune " SPACE " --format json --db a.db", NULL));
    char *db = strdup(fixture_path("a.db"));

    assert_int_equal(sql_ask(db, "SELECT count(*) FROM searched WHERE outcome <> 'invalid'"),
                     (int64_t)number_after(json, "\"n_valid\": "));
    assert_int_equal(sql_ask(db, "SELECT count(*) FROM searched WHERE outcome = 'bounded'"),
                     (int64_t)number_after(json, "\"n_bounded_step\": "));
    assert_int_equal(sql_ask(db, "SELECT count(*) FROM searched WHERE outcome = 'bounded'"
                                 " AND bound_ps < (SELECT step_ps FROM searched WHERE place = 10)"),
                     0);
    has(lapwing("runs --search 1 --losers --db a.db", NULL), " slower than the first");
    has(lapwing("runs --search 1 --losers --format csv --db a.db", NULL),
        "above the last of the best");
    free(db);
    free(json);
}

TEST_WITH(shards_together_are_the_single_search, fixture_open, fixture_close)
{
    char *one = answer("--db one.db");

    for (int n = 2; n <= 5; n += 3) {
        for (int i = n; i >= 1; i--) {
            shellf("$L tune " SPACE " --shard %d/%d --db s%d.db", i, n, i);
            expectf(0, "0 runs and 1 search of s", "runs --merge s%d.db --db all%d.db", i, n);
        }
        char args[64];
        snprintf(args, sizeof args, "--resume --db all%d.db", n);
        same(one, args);
        shell("rm s?.db", NULL);
    }
    free(one);
}

/* Which strategies have one plan does not depend on what was known: shards simulate some of them
 * that the single search does not. */
TEST_WITH(strategies_of_one_plan_are_those_of_the_single_search, fixture_open, fixture_close)
{
#define CAPS                                                                                     \
    "-w gpt2 -c dgx-a100 --ranks 8 --global-batch 8 --batch 1 --framework torch --tp 1 --pp 1,2 "  \
    "--zero 0,1 --recompute none --schedule 1f1b --overlap-param-gather off "                     \
    "--bucket-cap 8MiB,20MiB,21MiB,900MiB,1GiB,4GiB --no-bounds --best 1 -q "
#define LOSERS "runs --search last --losers --format csv --db "
    shell("$L tune " CAPS "--db one.db", NULL);
    char *one = strdup(lapwing(LOSERS "one.db", NULL));
    assert_non_null(strstr(one, "; the same plan as with bucket-cap="));
    for (int i = 1; i <= 3; i++)
        shellf("$L tune " CAPS "--shard %d/3 --db s%d.db && $L runs --merge s%d.db --db all.db", i,
               i, i);
    for (int i = 0; i < 2; i++) {
        shell("$L tune " CAPS "--resume --db all.db", NULL);
        assert_string_equal(lapwing(LOSERS "all.db", NULL), one);
    }
    shell("$L tune " CAPS "--resume --db one.db", NULL);
    assert_string_equal(lapwing(LOSERS "one.db", NULL), one);
    free(one);
#undef LOSERS
#undef CAPS
}

/* What several shards looked at is the space, each strategy once. */
TEST_WITH(shards_share_the_space, fixture_open, fixture_close)
{
    shell("for i in 1 2 3; do $L tune " SPACE " --shard $i/3 --db all.db; done", NULL);
    shell("$L tune " SPACE " --db one.db", NULL);
    char *all = strdup(fixture_path("all.db")), *one = strdup(fixture_path("one.db"));
    assert_int_equal(sql_ask(all, "SELECT sum(n_combinations) FROM search"),
                     sql_ask(one, "SELECT n_combinations FROM search"));
    assert_int_equal(sql_ask(all, "SELECT sum(n_valid) FROM search"),
                     sql_ask(one, "SELECT n_valid FROM search"));
    assert_int_equal(sql_ask(all, "SELECT count(DISTINCT combination) FROM searched"),
                     sql_ask(all, "SELECT count(*) FROM searched"));
    free(all);
    free(one);
}

/* With --shard the processes of a launcher search a part each; --shard 1/1 is the search without a
 * part. */
TEST_WITH(processes_of_a_launcher_take_their_parts, fixture_open, fixture_close)
{
#define RANK                                                                                     \
    "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=3 $L tune " SPACE " --no-db --format json "
    char *one = answer("--no-db");

    assert_string_equal(shell(RANK "--shard 1/1 " LESS, NULL), one);
    assert_true(number_after(shell(RANK "--shard=2/3", NULL), "\"n_shards\": ") == 3);
    assert_non_null(strstr(shell("OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1 $L tune " SPACE
                                 " --no-db", NULL), "strategies"));
    free(one);
#undef RANK
}

/* A search that lasts half a second and more. */
#define LONG "--no-bounds --layers 20"
/* It beside this program, which leaves its pid and, when it has ended, the file `ended`. */
#define SLOW                                                                                     \
    "(sh -c 'echo $$ >pid; exec \"$@\"' sh $L tune " SPACE                                      \
    " " LONG " --threads 1 --db k.db; touch ended) >out.txt 2>&1 &"
#define GONE "; for i in $(seq 6000); do [ -e ended ] && break; sleep 0.01; done; ls ended"

/* Until some strategies are stored. */
static void wait_for_rows(const char *db)
{
    for (int i = 0; i < 1500; i++) {
        usleep(20000);
        if (access(db, F_OK) == 0 && sql_ask(db, "PRAGMA user_version") > 0 &&
            sql_ask(db, "SELECT count(*) FROM searched") > 0)
            return;
    }
    fail_msg("%s: no strategy was stored in 30 s", db);
}

/* Killed with no warning when some strategies are stored, and gone on with. */
TEST_WITH(a_killed_search_goes_on, fixture_open, fixture_close)
{
    char *one = answer(LONG " --db one.db");
    char *db = strdup(fixture_path("k.db"));

    shell(SLOW, NULL);
    wait_for_rows(db);
    shell("kill -9 $(cat pid)" GONE, NULL);
    assert_int_equal(sql_ask(db, "SELECT count(*) FROM search WHERE status = 'running'"), 1);
    int64_t n = sql_ask(db, "SELECT count(*) FROM searched");
    assert_in_range(n, 1, sql_ask(fixture_path("one.db"), "SELECT n_simulated - 1 FROM search"));
    expect("runs --search 1 --db k.db", 1, "then `lapwing tune -w gpt2 -c dgx-a100");
    same(one, LONG " --resume --db k.db");
    assert_int_equal(sql_ask(db, "SELECT count(*) FROM search WHERE status = 'ok'"), 1);
    same(one, LONG " --resume --db k.db");
    free(db);
    free(one);
}

TEST_WITH(an_interrupted_search_goes_on, fixture_open, fixture_close)
{
    char *one = answer(LONG " --db one.db");

    shell(SLOW, NULL);
    wait_for_rows(fixture_path("k.db"));
    shell("kill -INT $(cat pid)" GONE, NULL);
    const char *out = shell("cat out.txt", NULL);
    has(out, "with --resume goes on");
    has(out, " were not reached\n");
    assert_null(strstr(out, "cannot be faster"));
    assert_int_equal(sql_ask(fixture_path("k.db"), "SELECT n_bounded_step FROM search"), 0);
    assert_int_equal((int64_t)number_after(lapwing("runs --search 1 --db k.db --format json", NULL),
                                           "\"n_unreached\": "),
                     sql_ask(fixture_path("k.db"), "SELECT n_valid - (SELECT count(*) FROM "
                                                   "searched WHERE outcome <> 'invalid') "
                                                   "FROM search"));
    expect("runs --searches --db k.db", 0, "interrupted");
    same(one, LONG " --resume --db k.db");
    free(one);
}

/* Another --best, from what is known. */
TEST_WITH(another_number_of_the_best_is_one_search, fixture_open, fixture_close)
{
    char *one = answer("--best 25 --db one.db"), *few = answer("--best 3 --db few.db");

    same(few, "--best 3 --db one.db --resume");
    same(one, "--best 25 --db one.db --resume");
    same(one, "--best 25 --db few.db --resume");
    free(one);
    free(few);
}

#define CONFIG                                                                                   \
    "{\"model_type\": \"llama\", \"hidden_size\": 512, \"intermediate_size\": 1024, "            \
    "\"num_hidden_layers\": %d, \"num_attention_heads\": 8, \"num_key_value_heads\": 8, "         \
    "\"vocab_size\": 4096, \"max_position_embeddings\": 512}"
#define OF_CONFIG                                                                                \
    " -c dgx-a100 --ranks 8 --global-batch 8 --batch 1 --tp 1 --pp 1 --recompute none "          \
    "--schedule 1f1b -q"

static void write_config(const char *name, int layers)
{
    char text[600];

    snprintf(text, sizeof text, CONFIG, layers);
    fixture_put(fixture_path(name), text);
}

/* Figures of a file that has been edited since are not taken: of a configuration by its own name
 * and by its folder's, of the files of devices. */
TEST_WITH(an_edited_input_is_another_search, fixture_open, fixture_close)
{
    shell("mkdir llama", NULL);
    for (int folder = 0; folder < 2; folder++) {
        const char *model = folder ? "llama" : "llama/config.json";
        write_config("llama/config.json", 4);
        shellf("rm -f a.db*; $L tune -w %s" OF_CONFIG " --db a.db", model);
        shellf("$L tune -w %s" OF_CONFIG " --db a.db --resume", model);
        write_config("llama/config.json", 8);
        expectf(1, "has 'workload ", "tune -w %s" OF_CONFIG " --db a.db --resume", model);
    }
}

/* A file whose counts are not those of its rows. */
TEST_WITH(an_edited_search_is_refused, fixture_open, fixture_close)
{
    static const char *const edits[] = {"UPDATE search SET n_simulated = n_simulated + 1",
                                        "UPDATE searched SET place = 0 WHERE place = 1",
                                        "UPDATE searched SET nth = 2 WHERE nth = 1",
                                        "DELETE FROM searched"};

    for (int i = 0; i < 4; i++) {
        shell("rm -f a.db*; $L tune " SPACE " --tp 1 --store-runs 0 --db a.db", NULL);
        sql_do(fixture_path("a.db"), edits[i]);
        expect("runs --search 1 --db a.db", 1,
               "a.db: search 1: strategies are missing: edited or damaged");
        expect("runs --search 1 --db a.db --format csv", 1, "edited or damaged");
    }
}

TEST_WITH(bad_input_is_one_line, fixture_open, fixture_close)
{
    shell("$L tune " SPACE " --store-runs 1 --db a.db", NULL);
    EXPECT("tune " SPACE,
           {"--shard 3/2", 2, "--shard: expected I/N with 1 <= I <= N"},
           {"--shard 2", 2, "(2/8: the second of eight), got '2'"},
           {"--resume --no-db", 2, "--resume goes on with a search of the database: leave out "
                                   "--no-db"},
           {"--resume --db none.db", 1, "none.db: --resume: there is no such database"},
           {"--resume --tp 1,2 --db a.db", 1,
            "a.db: --resume: no search of this space; the last one, search 1, has 'tp 1,2,4,8' "
            "where this one has 'tp 1,2': give its options, or leave out --resume"},
           {"--db /nowhere/a.db", 1, "nothing was run"});
    EXPECT("runs --db a.db",
           {"--search 2", 1, "no search '2', expected 'last' or a number from 1 to 1"},
           {"--search x", 2, "found 'x', expected the number of a search, or 'last'"},
           {"--losers", 2, "--losers needs --search N"},
           {"--searches --delete", 2, "--searches lists all"},
           {"--search 1 2", 2, "no RUN"},
           {"--search 1 --delete", 0, "deleted search 1: gpt2 on dgx-a100"},
           {"--searches", 0, "holds no search"},
           {"", 0, "sim"});
    expect("tune " SPACE " --resume --db a.db", 1, "it holds no search to go on with");
}

/* One search by several processes: standard output is that of the single search byte for byte, but
 * for its wall time and its number in the database, whatever the number of processes. Processes are
 * started by a shell as a launcher does it, and by mpirun where it is there. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/commands/mpi_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"
#include "tests/lib/files/sql_file.h"

#define GPT2                                                                                     \
    "-w gpt2 -c dgx-a100 --ranks 8 --global-batch 32 --batch 1,2 --recompute none,full "        \
    "--schedule 1f1b,zb-h1 -q"
#define PARTS                                                                                    \
    "-w gpt2 -c dgx-a100 --ranks 4,8 --global-batch 16 --batch 1,2 --recompute none,full "      \
    "--schedule 1f1b --best 4 -q"
#define CAPS                                                                                     \
    "-w gpt2 -c dgx-a100 --ranks 8 --global-batch 8 --batch 1 --framework torch --tp 1 --pp 1,2 " \
    "--zero 0,1 --recompute none --schedule 1f1b --overlap-param-gather off "                   \
    "--bucket-cap 8MiB,20MiB,21MiB,900MiB,1GiB,4GiB --best 3 -q"
#define NOISE                                                                                    \
    "-w gpt2 -c dgx-a100 --ranks 8 --global-batch 32 --batch 1 --tp 1,2 --recompute none "      \
    "--schedule 1f1b --noise 0.02 --samples 10 --seed 7 --best 3 -q"
/* Without what may differ. */
#define LESS "| sed -e '/\"wall_s\"/d' -e '/\"search\"/d'"
/* Ranks 1 and on of so many, with these arguments; their words are in out.* and err.*. */
#define TEAM                                                                                     \
    "export LAPWING_RANKS=%d LAPWING_TOKEN=t$$; for r in $(seq $((LAPWING_RANKS - 1))); do "    \
    "LAPWING_RANK=$r $L tune %s >out.$r 2>err.$r & done; "
#define LEADER "LAPWING_RANK=0 $L tune %s"

static char *alone(const char *args)
{
    return strdup(shellf("$L tune %s --format json " LESS, args));
}

static char *together(int n, const char *args)
{
    char with[1100];

    snprintf(with, sizeof with, "%s --format json", args);
    return strdup(shellf(TEAM LEADER LESS "; wait; cat out.* err.*", n, with, with));
}

static void same(int n, const char *space, const char *how)
{
    char args[1024];

    snprintf(args, sizeof args, "%s %s", space, how);
    char *one = alone(args), *all = together(n, args);
    has(one, "\"n_simulated\"");
    assert_string_equal(all, one);
    free(one);
    free(all);
}

TEST_WITH(the_answer_is_that_of_the_single_search, fixture_open, fixture_close)
{
    static const char *const spaces[] = {GPT2, PARTS, CAPS};

    for (int i = 0; i < 3; i++)
        for (int n = 2; n <= 3; n++)
            same(n, spaces[i], "--no-db");
    same(5, GPT2, "--no-db --no-bounds");
    same(2, GPT2, "--no-db --threads 1 --best 1");
}

TEST_WITH(p90_of_samples_too, fixture_open, fixture_close)
{
    for (int n = 2; n <= 3; n++)
        same(n, NOISE, "--no-db");
}

/* 12 processes and 4 strategies: some have nothing to search. */
TEST_WITH(a_process_may_have_no_strategy, fixture_open, fixture_close)
{
    same(12, "-w gpt2 -c dgx-a100 --ranks 8 --global-batch 8 --batch 1 --tp 1,8 --pp 1 --zero 0 "
             "--recompute none,full --schedule 1f1b -q", "--no-db");
}

TEST_WITH(text_and_csv_too, fixture_open, fixture_close)
{
    static const char *const formats[] = {"text", "csv"};

    for (int i = 0; i < 2; i++) {
        char args[1024];
        snprintf(args, sizeof args, GPT2 " --format %s", formats[i]);
        char *one = strdup(shellf("$L tune %s --db a.db | grep -v searched", args));
        shell("rm a.db", NULL);
        snprintf(args, sizeof args, GPT2 " --format %s --db a.db", formats[i]);
        assert_string_equal(shellf(TEAM LEADER "| grep -v searched; wait; cat out.* err.*; rm a.db",
                                   2, args, args), one);
        free(one);
    }
}

/* The stored answer is the printed one, with the runs of the best. */
TEST_WITH(rank_0_stores_the_answer, fixture_open, fixture_close)
{
    char *printed = together(3, GPT2 " --db a.db");
    const char *db = fixture_path("a.db");

    assert_string_equal(shell("$L runs --db a.db --search 1 --format json " LESS, NULL), printed);
    assert_int_equal(sql_ask(db, "SELECT count(*) FROM run"), 3);
    assert_int_equal(sql_ask(db, "SELECT count(*) FROM search WHERE status = 'ok' AND "
                                 "n_shards = 1"), 1);
    free(printed);
}

/* What is simulated does not depend on how fast a process is. */
TEST_WITH(what_is_simulated_is_the_same_each_time, fixture_open, fixture_close)
{
    int64_t n[2];

    for (int i = 0; i < 2; i++) {
        free(together(3, GPT2 " --store-runs 0 --db a.db"));
        n[i] = sql_ask(fixture_path("a.db"),
                       "SELECT sum(combination) FROM searched WHERE outcome = 'simulated'");
        shell("rm a.db", NULL);
    }
    assert_int_equal(n[0], n[1]);
}

/* The N-th best step of all prunes: together they simulate fewer than the shards do alone. */
TEST_WITH(processes_share_the_best_step, fixture_open, fixture_close)
{
#define SPACE "-w gpt2 -c dgx-a100 --ranks 8 --global-batch 32 --best 1 --threads 1 -q"
#define COUNT "SELECT count(*) FROM searched WHERE outcome = 'simulated'"
    for (int i = 1; i <= 4; i++)
        shellf("$L tune " SPACE " --shard %d/4 --db shards.db", i);
    free(together(4, SPACE " --store-runs 0 --db a.db"));
    int64_t shards = sql_ask(fixture_path("shards.db"), COUNT);
    int64_t all = sql_ask(fixture_path("a.db"), COUNT);
    assert_in_range(all, 1, shards - 1);
#undef COUNT
#undef SPACE
}

TEST_WITH(a_search_goes_on, fixture_open, fixture_close)
{
    char *one = alone(GPT2 " --db one.db");

    shell("$L tune " GPT2 " --shard 1/3 --db a.db", NULL);
    char *all = together(2, GPT2 " --resume --db a.db");
    assert_string_equal(all, one);
    free(all);
    all = together(3, GPT2 " --resume --db a.db");
    assert_string_equal(all, one);
    free(all);
    all = alone(GPT2 " --resume --db a.db");
    assert_string_equal(all, one);
    free(all);
    free(one);
}

/* --- failures --- */

/* Rank 0 with some arguments, the one other with others: what both wrote, and what rank 0 ended
 * with. */
static const char *two(const char *first, const char *second, int *rc)
{
    char words[2048];

    snprintf(words, sizeof words, TEAM LEADER "; rc=$?; wait; cat out.1 err.1 >&2; exit $rc", 2,
             second, first);
    return shell(words, rc);
}

static void said_once(const char *args, const char *words, int status)
{
    int rc;

    assert_int_equal(count_words(two(args, args, &rc), words), 1);
    assert_int_equal(rc, status);
}

TEST_WITH(bad_options_are_said_once, fixture_open, fixture_close)
{
    said_once(GPT2 " --bogus", "--bogus", 2);
    said_once("--help", "usage", 0);
    said_once("--here", "start it without a launcher", 2);
    said_once(GPT2 " --resume --db no.db", "there is no such database", 1);
    said_once(GPT2 " --no-db --tp 3", "none of", 1);
}

TEST_WITH(who_differs_is_named, fixture_open, fixture_close)
{
    int rc;
    const char *out = two(GPT2 " --no-db", GPT2 " --no-db --best 5", &rc);

    assert_int_equal(rc, 1);
    assert_int_equal(count_words(out, "lapwing tune:"), 1);
    has(out, "rank 1 was started with --best 5, rank 0 with --best 10");
    has(two(GPT2 " --no-db", GPT2 " --no-db --tp 1,2", &rc), "rank 1 was started with the space");
    assert_int_equal(rc, 1);
    out = two(GPT2 " --no-db", GPT2 " --no-db --bogus", &rc);
    assert_int_equal(rc, 1);
    has(out, "rank 1 gave up before the ranks met: it ended with exit status 2");
    has(out, "unknown option '--bogus'");
}

/* Each process leaves its pid. All are slow, since rank 2 is stopped most of the time and the
 * others wait for it: so a fast machine too kills one of them before the search ends. */
#define MANY                                                                                     \
    "-w gpt2 -c dgx-a100 --ranks 8 --global-batch 32 --batch 1,2 --recompute none,full "         \
    "--schedule 1f1b,zb-h1 --no-bounds --threads 1 -q"
#define SLOW MANY " --db k.db"
#define SLOW_TEAM                                                                                \
    "rm -f pid* rc*; export LAPWING_RANKS=3 LAPWING_TOKEN=t$$; for r in 0 1 2; do "             \
    "(LAPWING_RANK=$r sh -c 'echo $$ >pid$LAPWING_RANK; exec \"$@\"' sh $L tune " SLOW          \
    "; echo $? >rc$r) >slow.$r 2>said.$r & done; "                                              \
    "while [ ! -s pid2 ]; do sleep 0.01; done; "                                                \
    "(while kill -STOP $(cat pid2) && sleep 0.2 && kill -CONT $(cat pid2) && sleep 0.02; do "   \
    ":; done) >/dev/null 2>&1 &"
#define ALL_GONE                                                                                 \
    "; for i in $(seq 6000); do [ -s rc0 ] && [ -s rc1 ] && [ -s rc2 ] && break; sleep 0.01; "  \
    "done; cat rc0 rc1 rc2"

static void wait_for_rows(void)
{
    const char *db = fixture_path("k.db");

    for (int i = 0; i < 1500; i++) {
        usleep(20000);
        if (access(db, F_OK) == 0 && sql_ask(db, "PRAGMA user_version") > 0 &&
            sql_ask(db, "SELECT count(*) FROM searched") > 0)
            return;
    }
    fail_msg("no strategy was stored in 30 s");
}

/* What was done is kept, and gone on with. */
static void goes_on(void)
{
    static char *one; /* the same each time */

    if (!one)
        one = alone(MANY " --store-runs 0 --no-db");
    assert_in_range(sql_ask(fixture_path("k.db"), "SELECT count(*) FROM searched"), 1,
                    (int64_t)number_after(one, "\"n_simulated\": ") - 1);
    char *all = together(2, MANY " --store-runs 0 --resume --db k.db");
    assert_string_equal(all, one);
    free(all);
}

TEST_WITH(a_process_that_dies_ends_all, fixture_open, fixture_close)
{
    shell(SLOW_TEAM, NULL);
    wait_for_rows();
    assert_string_equal(shell("kill -9 $(cat pid1)" ALL_GONE, NULL), "1\n137\n1\n");
    has(shell("cat slow.* said.0", NULL),
        "rank 1 is gone: its connection closed; the same command with --resume goes on");
    assert_string_equal(shell("cat said.2", NULL), "");
    goes_on();
}

TEST_WITH(without_rank_0_rank_1_says_it, fixture_open, fixture_close)
{
    shell(SLOW_TEAM, NULL);
    wait_for_rows();
    assert_string_equal(shell("kill -9 $(cat pid0)" ALL_GONE, NULL), "137\n1\n1\n");
    has(shell("cat said.1", NULL), "rank 0 is gone");
    assert_string_equal(shell("cat said.2", NULL), "");
    goes_on();
}

TEST_WITH(an_interrupted_process_ends_all, fixture_open, fixture_close)
{
    for (int r = 0; r < 2; r++) {
        shell("rm -f k.db; " SLOW_TEAM, NULL);
        wait_for_rows();
        char words[256];
        snprintf(words, sizeof words, "kill -INT $(cat pid%d)" ALL_GONE, r);
        has(shell(words, NULL), "1\n");
        has(shell("cat slow.* said.0", NULL), "the same command with --resume goes on");
        goes_on();
    }
}

/* --- a launcher --- */

TEST_WITH(mpirun_starts_one_search, fixture_open, fixture_close)
{
    static const char *const spaces[] = {GPT2 " --no-db", NOISE " --no-db", PARTS " --db a.db"};
    int rc;

    if (!has_mpirun()) {
        printf("SKIP %s: no Open MPI here (mpirun, ompi-c)\n", __func__);
        skip();
    }
    for (int i = 0; i < 3; i++)
        for (int n = 2; n <= 3; n++) {
            char *one = alone(spaces[i]), words[1024];
            shell("rm -f a.db", NULL);
            snprintf(words, sizeof words, "$M -n %d $L tune %s --format json 2>&1 " LESS, n,
                     spaces[i]);
            assert_string_equal(mpi_shell(words, &rc), one);
            shell("rm -f a.db", NULL);
            free(one);
        }
    const char *out = mpi_shell("$M -n 3 $L tune " GPT2 " --no-db --bogus 2>&1", &rc);
    assert_int_equal(rc, 2);
    assert_int_equal(count_words(out, "unknown option"), 1);
}

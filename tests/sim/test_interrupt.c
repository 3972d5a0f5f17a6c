/* Ctrl-C at any moment of `lapwing sim --spans`: the run is in the database from its first moment,
 * either whole or without a single figure, and the next command calls the latter failed. */
#include "tests/lib/unit.h"

#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "shared/files/files.h"
#include "tests/lib/sim/sim_help.h"
#include "tests/lib/files/file_fixture.h"

/* 30 ops a rank and step: 38,400 spans. One step comes before those measured. */
enum { N_RANKS = 256, N_STEPS = 4, N_ALL = N_STEPS + 1 };

static char plan_file[400], db_file[400];

static int begin(void **state)
{
    struct lw_plan plan;
    struct lw_err err = {0};

    fixture_open(state);
    snprintf(plan_file, sizeof plan_file, "%s", fixture_path("plan.json"));
    snprintf(db_file, sizeof db_file, "%s", fixture_path("runs.db"));
    make_w_ddp(&plan, N_RANKS);
    assert_ok(lw_plan_write(&plan, plan_file, &err), err);
    lw_plan_free(&plan);
    return 0;
}

static pid_t start(const char *binary)
{
    char steps[16];
    pid_t child = fork();

    if (child != 0)
        return child;
    int null = open("/dev/null", O_WRONLY);
    dup2(null, 1);
    dup2(null, 2);
    snprintf(steps, sizeof steps, "%d", N_STEPS);
    execl(binary, binary, "sim", plan_file, "-c", "dgx-a100", "--spans", "--steps", steps, "--db",
          db_file, (char *)NULL);
    _exit(127);
}

static void wait_us(long us)
{
    struct timespec t = {0, us * 1000};

    nanosleep(&t, NULL);
}

static int64_t count(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *q;

    if (sqlite3_prepare_v2(db, sql, -1, &q, NULL) != SQLITE_OK)
        return -1; /* no schema yet */
    int64_t n = sqlite3_step(q) == SQLITE_ROW ? sqlite3_column_int64(q, 0) : -1;
    sqlite3_finalize(q);
    return n;
}

/* Runs that are whole; fails the test where one of the others has a figure. */
static int64_t whole_runs(int64_t *others)
{
    sqlite3 *db;

    *others = 0;
    if (access(db_file, F_OK) != 0)
        return 0;
    assert_int_equal(sqlite3_open(db_file, &db), SQLITE_OK);
    int64_t n = count(db, "SELECT count(*) FROM run WHERE status = 'ok'");
    if (n >= 0) {
        *others = count(db, "SELECT count(*) FROM run WHERE status IN ('running', 'failed')");
        assert_int_equal(count(db, "SELECT count(*) FROM run"), n + *others);
        assert_int_equal(count(db, "SELECT ifnull(sum(n), 0) FROM span_block"),
                         n * N_RANKS * N_ALL * 30);
        assert_int_equal(count(db, "SELECT count(*) FROM metric WHERE name = 'wall_s'"), n);
    }
    sqlite3_close(db);
    return n > 0 ? n : 0;
}

/* Interrupted after some time, or as soon as the database is there (us < 0). */
static bool interrupt(const char *binary, long us)
{
    pid_t child = start(binary);
    int status, tries = 0;

    assert_true(child > 0);
    if (us >= 0)
        wait_us(us);
    while (us < 0 && access(db_file, F_OK) != 0 && tries++ < 20000)
        wait_us(100);
    if (us < 0)
        wait_us(-us);
    kill(child, SIGINT);
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGINT;
}

static int64_t running(void)
{
    sqlite3 *db;

    assert_int_equal(sqlite3_open(db_file, &db), SQLITE_OK);
    int64_t n = count(db, "SELECT count(*) FROM run WHERE status = 'running'");
    sqlite3_close(db);
    return n;
}

TEST(an_interrupted_run_is_stored_whole_or_as_failed)
{
    static const long at[] = {2000, 10000, 30000, -1, -2000, -8000, -20000, -60000};
    const char *binary = getenv("LAPWING");
    int64_t before = 0, others = 0, others_before = 0;
    char next[1024];

    if (!binary) {
        printf("SKIP LAPWING does not name the binary\n");
        skip();
    }
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        bool died = interrupt(binary, at[i]);
        int64_t now = whole_runs(&others);
        assert_in_range(now + others, before + others_before, before + others_before + 1);
        assert_true(died || now == before + 1); /* what ended by itself is there */
        before = now;
        others_before = others;
    }
    snprintf(next, sizeof next, "%s sim %s -c dgx-a100 --db %s -q >/dev/null", binary, plan_file,
             db_file);
    assert_int_equal(system(next), 0);
    assert_int_equal(running(), 0); /* the next command finds the dead ones */
    printf("%d of 8 were interrupted before they were stored\n", (int)others);
}

TEST_GROUP(begin, fixture_close)

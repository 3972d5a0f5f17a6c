/* Processes that store their first run at once on a database that does not exist yet: all
 * succeed. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "analysis/store/store.h"
#include "tests/lib/files/file_fixture.h"

enum { N_PROCESSES = 8 };

static enum lw_status store_one(const char *file, struct lw_err *err)
{
    struct lw_run_info info = {.kind = LW_RUN_SIM};
    struct lw_store *s;
    int64_t run;

    LW_TRY(lw_store_open(file, LW_STORE_WRITE, &s, err));
    enum lw_status st = lw_store_begin_run(s, &info, &run, err);
    if (st == LW_OK)
        st = lw_store_finish_run(s, run, NULL, LW_RUN_OK, "", err);
    lw_store_close(s);
    return st;
}

/* The children wait until the parent closes the pipe. Failures go to standard error. */
static int start_together(const char *file)
{
    int gate[2], failed = 0, status;
    pid_t child[N_PROCESSES];
    struct lw_err err = {0};
    char c;

    assert_int_equal(pipe(gate), 0);
    for (int i = 0; i < N_PROCESSES; i++) {
        child[i] = fork();
        if (child[i] != 0)
            continue;
        close(gate[1]);
        if (read(gate[0], &c, 1) == 0 && store_one(file, &err) == LW_OK)
            _exit(0);
        fprintf(stderr, "%s\n", err.msg);
        _exit(1);
    }
    close(gate[0]);
    close(gate[1]);
    for (int i = 0; i < N_PROCESSES; i++) {
        assert_int_equal(waitpid(child[i], &status, 0), child[i]);
        failed += !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    }
    return failed;
}

static int32_t stored(const char *file)
{
    struct lw_arena arena = {0};
    struct lw_store *s;
    struct lw_run *runs;
    struct lw_err err = {0};
    int32_t n = -1;

    if (lw_store_open(file, LW_STORE_READ, &s, &err) != LW_OK ||
        lw_store_runs(s, &arena, &runs, &n, &err) != LW_OK)
        fail_msg("%s", err.msg);
    lw_store_close(s);
    lw_arena_free(&arena);
    return n;
}

TEST_WITH(first_runs_at_once_are_all_stored, fixture_open, fixture_close)
{
    const char *given = getenv("LAPWING_STARTS");
    int n = given ? atoi(given) : 40, failed = 0;
    char file[256], name[32];

    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "%d.db", i);
        snprintf(file, sizeof file, "%s", fixture_path(name));
        failed += start_together(file);
        if (i % 2) /* the second start is on a database that the first one has just closed */
            failed += start_together(file);
        assert_int_equal(stored(file), (i % 2 ? 2 : 1) * N_PROCESSES - failed);
        assert_int_equal(failed, 0);
        unlink(file);
    }
    printf("%d starts of %d processes, %d failed\n", n + n / 2, N_PROCESSES, failed);
}

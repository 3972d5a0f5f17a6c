/* Progress of long work outside a terminal: a line a minute, and none when it is quiet. */
#include "tests/lib/unit.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared/base/progress.h"
#include "shared/base/temp_names.h"

/* What a job that began so many seconds ago and reports twice writes to a file, or with `terminal`
 * the bar. */
static void written_to(bool terminal, double ago_s, double share, bool quiet, char *buf,
                       size_t size)
{
    struct lw_progress_bar bar;
    FILE *f = tmpfile();
    int saved = dup(STDERR_FILENO);

    assert_non_null(f);
    fflush(stderr);
    dup2(fileno(f), STDERR_FILENO);
    struct lw_progress p = lw_progress_bar_begin(&bar, quiet);
    if (terminal) {
        bar.on = true;
        bar.lines = false;
    }
    bar.began_s -= ago_s;
    bar.last_s -= ago_s;
    lw_progress_report(&p, "predicting", share);
    lw_progress_report(&p, "predicting", 0.5);
    lw_progress_bar_end(&bar);
    fflush(stderr);
    dup2(saved, STDERR_FILENO);
    close(saved);
    rewind(f);
    buf[fread(buf, 1, size - 1, f)] = '\0';
    fclose(f);
}

static void written(double ago_s, double share, bool quiet, char *buf, size_t size)
{
    written_to(false, ago_s, share, quiet, buf, size);
}

TEST(a_bar_fits_60_columns)
{
    char text[512];

    written_to(true, 10000, 0.1, false, text, sizeof text);
    char *end = strstr(text, " s left");
    assert_non_null(end);
    assert_non_null(strstr(text, "[#           ]  10 %"));
    assert_in_range(end + strlen(" s left") - (text + strlen("\r\033[K")), 40, 59);
}

TEST(a_log_gets_a_line_a_minute)
{
    char text[256];

    written(100.2, 0.25, false, text, sizeof text);
    assert_string_equal(text, "predicting: 25 % after 100 s, 301 s left\n");
    written(66.2, 0.04, false, text, sizeof text); /* too early to know */
    assert_string_equal(text, "predicting: 4 % after 66 s\n");
}

TEST(short_and_quiet_jobs_write_nothing)
{
    char text[256];

    written(30, 0.25, false, text, sizeof text);
    assert_string_equal(text, "");
    written(100, 0.25, true, text, sizeof text);
    assert_string_equal(text, "");
}

/* The first signal asks a command to end; a second one ends it, and its temporary files go. */
TEST(a_second_signal_leaves_no_temporary_files)
{
    char name[] = "/tmp/lapwing-test-XXXXXX";
    int status, fd = mkstemp(name);

    assert_true(fd >= 0);
    close(fd);
    pid_t child = fork();
    if (child == 0) {
        const volatile sig_atomic_t *asked = lw_catch_signals();
        lw_temp_note(name);
        raise(SIGTERM);
        if (*asked != SIGTERM)
            _exit(1);
        raise(SIGTERM);
        _exit(2);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    assert_int_not_equal(access(name, F_OK), 0);
}

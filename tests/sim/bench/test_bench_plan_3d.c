/* What `lapwing bench plan-3d` promises: gpt-175b on 16,384 ranks in less than 500 MB, because
 * ranks of a role share their program. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include "tests/lib/unit.h"

#include "tests/lib/files/says.h"

static int bench(const char *words, char *text, size_t room)
{
    char line[1024];

    snprintf(line, sizeof line, "%s bench plan-3d %s 2>&1", getenv("LAPWING"), words);
    FILE *f = popen(line, "r");
    assert_non_null(f);
    text[fread(text, 1, room - 1, f)] = '\0';
    return WEXITSTATUS(pclose(f));
}

static double measured(const char *words, const char *key)
{
    char text[4096];

    assert_int_equal(bench(words, text, sizeof text), 0);
    return number_after(text, key);
}

TEST(thousands_of_ranks_fit_into_500_mb)
{
    char text[4096];

    assert_int_equal(bench("--format json", text, sizeof text), 0);
    assert_int_equal((int)number_after(text, "\"ranks\": "), 16384);
    assert_true(number_after(text, "\"peak_rss_bytes\": ") > 1e6);
    assert_true(number_after(text, "\"peak_rss_bytes\": ") < 500e6);
}

/* 16 stages are 16 programs, with 2 data-parallel ranks or with 128. */
TEST(ops_grow_with_the_roles_not_with_the_ranks)
{
    double few = measured("--ranks 256 --format json", "\"n_events\": ");
    double many = measured("--ranks 16384 --format json", "\"n_events\": ");

    assert_true(few > 16 * 1000);
    assert_true(many >= few && many < 1.1 * few);
}

TEST(ranks_that_make_no_grid_are_refused)
{
    char text[4096];

    assert_int_not_equal(bench("--ranks 100", text, sizeof text), 0);
    if (!strstr(text, "--ranks 100 is no multiple of 128"))
        fail_msg("%s", text);
}

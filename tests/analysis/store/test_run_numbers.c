/* Every command that takes runs takes ranges and lists of them, by one parser. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/store/run_numbers.h"
#include "analysis/store/store.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"
#include "tests/lib/prng.h"

enum { RUNS = 9 };

static struct lw_err err;

static void store_runs(const char *gone)
{
    struct lw_store *s;
    char line[120];

    assert_ok(lw_store_open(fixture_path("r.db"), LW_STORE_WRITE, &s, &err), err);
    for (int i = 0; i < RUNS; i++) {
        struct lw_run_info info = {.kind = LW_RUN_SIM, .over = true};
        int64_t id;
        assert_ok(lw_store_begin_run(s, &info, &id, &err), err);
        assert_ok(lw_store_finish_run(s, id, NULL, LW_RUN_OK, "", &err), err);
    }
    lw_store_close(s);
    snprintf(line, sizeof line, "runs --delete %s --db r.db", gone);
    lapwing(line, NULL);
}

/* The words of one operand, with blanks between; or the message. */
static const char *words_of(const char *operand)
{
    static char text[2000];
    struct lw_store *s;
    struct lw_arena a = {0};
    char **words, *names[] = {(char *)operand};
    int n;

    assert_ok(lw_store_open(fixture_path("r.db"), LW_STORE_READ, &s, &err), err);
    enum lw_status st = lw_store_run_numbers(s, names, 1, &a, &words, &n, &err);
    snprintf(text, sizeof text, "%s", st == LW_OK ? "" : err.msg);
    for (int i = 0; st == LW_OK && i < n; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i ? " " : "", words[i]);
    lw_store_close(s);
    lw_arena_free(&a);
    return text;
}

TEST_WITH(ranges_are_the_runs_that_are_there, fixture_open, fixture_close)
{
    store_runs("3,6");
    assert_string_equal(words_of("2-7"), "2 4 5 7");
    assert_string_equal(words_of("7,2-4,last"), "7 2 4 last");
    assert_string_equal(words_of("8-last"), "8 9");
    assert_string_equal(words_of("1-99999999999"), "1 2 4 5 7 8 9");
    assert_string_equal(words_of("5-5"), "5");
    assert_string_equal(words_of("3"), "3"); /* who reads it says that it is gone */
    has(words_of("3-3"), "holds no run of '3-3'");
    has(words_of("7-2"), "runs '7-2': the range goes down; write 2-7");
    has(words_of("10-last"), "r.db: holds no run of '10-last'");
    has(words_of("1,,2"), "runs '1,,2': an item is empty");
    has(words_of("1-x"), "runs '1-x': found 'x', expected the number of a run, or 'last'");
    has(words_of("1-"), "runs '1-': found '', expected the number of a run");
    has(words_of("0-4"), "runs '0-4': found '0'");
}

TEST_WITH(a_range_of_an_emptied_database_is_of_no_run, fixture_open, fixture_close)
{
    store_runs("1-9");
    has(words_of("1-last"), "r.db: holds no run yet");
    has(words_of("last-last"), "r.db: holds no run yet");
    has(words_of("1-3"), "r.db: holds no run of '1-3'");
}

/* Random sets of runs as lists of numbers and ranges give back the set, in order. */
TEST_WITH(any_list_gives_back_its_runs, fixture_open, fixture_close)
{
    struct prng r = prng_start("lists of runs");

    store_runs("4");
    for (int k = 0; k < 50; k++) {
        char list[200] = "", expected[200] = "";
        int n_items = 1 + prng_below(&r, 5);
        for (int i = 0; i < n_items; i++) {
            int from = 1 + prng_below(&r, RUNS - 1), to = from + prng_below(&r, RUNS + 1 - from);
            bool alone = from == to || prng_below(&r, 3) == 0;
            to = alone ? from : to;
            size_t at = strlen(list);
            snprintf(list + at, sizeof list - at, alone ? "%s%d" : "%s%d-%d", i ? "," : "", from,
                     to);
            for (int id = from; id <= to; id++)
                if (alone || id != 4)
                    snprintf(expected + strlen(expected), sizeof expected - strlen(expected),
                             "%s%d", expected[0] ? " " : "", id);
        }
        assert_string_equal(words_of(list), expected);
    }
}

TEST_WITH(commands_take_lists_of_runs, fixture_open, fixture_close)
{
    for (int dp = 1; dp <= 16; dp *= 2) {
        char line[120];
        snprintf(line, sizeof line, "sim -w gpt2 -c dgx-a100 --dp %d --db r.db", dp);
        lapwing(line, NULL);
    }
    char *words = strdup(lapwing("compare 2 3 5 --db r.db", NULL));
    assert_string_equal(lapwing("compare 2-3,5 --db r.db", NULL), words);
    free(words);
    words = strdup(lapwing("compare 5 2 --db r.db", NULL));
    assert_string_equal(lapwing("compare 5,2 --db r.db", NULL), words);
    free(words);
    words = strdup(lapwing("plot overlap 1 2 4 --db r.db -o -", NULL));
    assert_string_equal(lapwing("plot overlap 1-2,4 --db r.db -o -", NULL), words);
    free(words);
    lapwing("report 1 2 4 --db r.db -o a.html", NULL);
    lapwing("report 1-2,4 --db r.db -o b.html", NULL);
    shell("cmp a.html b.html", NULL);
    expect("compare 3-3 --db r.db", 2, "needs two runs, or none for all pairs");
    expect("compare 1-5,1-5,1-5,1-5 --db r.db", 2, "found 20 runs, expected at most");
    expect("explain 1-2 --db r.db", 1, "no run '1-2'; there are runs 1 to 5, or 'last'");
    expect("runs 2-3,5 --delete --db r.db", 0, "deleted run 2:");
    expect("runs 1,3 --db r.db", 1, "no run '3'");
    const char *left = lapwing("runs 1-5 --db r.db --format csv", NULL);
    assert_int_equal(count_words(left, "\n1,") + count_words(left, "\n4,"), 2);
    assert_int_equal(count_words(left, "\n"), 3);
}

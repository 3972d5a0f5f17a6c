/* Searches in the database: what is stored is read back, a merge takes them over with their runs,
 * and a deleted run leaves its strategy without one. */
#include "tests/lib/unit.h"

#include <math.h>
#include <string.h>

#include "analysis/store/store.h"
#include "analysis/store/store_search.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"

static struct lw_err err;

static struct lw_store *open_file(const char *name)
{
    struct lw_store *s = NULL;

    if (lw_store_open(fixture_path(name), LW_STORE_WRITE, &s, &err) != LW_OK)
        fail_msg("%s", err.msg);
    return s;
}

static const struct lw_search request = {
    .hash = "h", .space = "tp 1,2\n", .shard = 2, .n_shards = 3, .model = "gpt2",
    .cluster = "dgx-a100", .framework = "torch", .command = "lapwing tune", .global_batch = 8,
    .n_best = 2, .least_pruned = -1, .within = NAN};

static const struct lw_searched simulated = {
    .combination = 7, .outcome = LW_SEARCHED_SIMULATED, .place = 1, .front = 2, .nth = 0,
    .strategy = "tp=2", .command = "lapwing sim", .why = "", .interval_of = "runs", .alike = "a\nb",
    .bound = 10, .step = 12, .p10 = 11, .p90 = 20, .told_apart = true, .n_devices = 8,
    .peak_memory_bytes = 100, .memory_bytes = 110, .missing_bytes = -1, .needed_bytes = 105,
    .needed_bound = 90, .tokens_per_s = 0.1, .samples_per_s = 1e-3,
    .cost_per_trillion_tokens = NAN};

static const struct lw_searched bounded = {
    .combination = 3, .outcome = LW_SEARCHED_BOUNDED, .nth = -1, .strategy = "tp=1", .command = "",
    .why = "", .interval_of = "", .alike = "", .bound = 13, .step = -1, .p10 = -1, .p90 = -1,
    .n_devices = -1, .peak_memory_bytes = -1, .memory_bytes = -1, .missing_bytes = -1,
    .needed_bytes = -1, .needed_bound = -1, .tokens_per_s = NAN, .samples_per_s = NAN,
    .cost_per_trillion_tokens = NAN};

static void same(const struct lw_searched *a, const struct lw_searched *b)
{
    assert_int_equal(a->combination, b->combination);
    assert_int_equal(a->outcome, b->outcome);
    assert_int_equal(a->nth, b->nth);
    assert_string_equal(a->strategy, b->strategy);
    assert_string_equal(a->command, b->command);
    assert_string_equal(a->interval_of, b->interval_of);
    assert_string_equal(a->alike, b->alike);
    assert_int_equal(a->bound, b->bound);
    assert_int_equal(a->step, b->step);
    assert_int_equal(a->p10, b->p10);
    assert_int_equal(a->p90, b->p90);
    assert_int_equal(a->told_apart, b->told_apart);
    assert_int_equal(a->n_devices, b->n_devices);
    assert_int_equal(a->peak_memory_bytes, b->peak_memory_bytes);
    assert_int_equal(a->memory_bytes, b->memory_bytes);
    assert_int_equal(a->missing_bytes, b->missing_bytes);
    assert_int_equal(a->needed_bytes, b->needed_bytes);
    assert_int_equal(a->needed_bound, b->needed_bound);
    assert_true(isnan(b->tokens_per_s) ? isnan(a->tokens_per_s)
                                       : a->tokens_per_s == b->tokens_per_s);
    assert_true(isnan(a->cost_per_trillion_tokens));
}

/* Search 1 of the file, with a run of its own for strategy 7. */
static int64_t make(struct lw_store *s)
{
    struct lw_run_info info = {.kind = LW_RUN_SIM, .command = "sim"};
    struct lw_search x = request;
    const struct lw_search_reason reason = {5, "--tp #", "--tp 3"};
    int64_t run;

    assert_int_equal(lw_store_begin_search(s, &x, &x.id, &err), LW_OK);
    assert_int_equal(lw_store_put_searched(s, x.id, &bounded, 1, &err), LW_OK);
    assert_int_equal(lw_store_begin_run(s, &info, &run, &err), LW_OK);
    x.status = LW_SEARCH_OK;
    x.n_valid = 2;
    x.within = 1.25;
    assert_int_equal(lw_store_finish_search(s, &x, &simulated, 1, &reason, 1, &err), LW_OK);
    assert_int_equal(lw_store_searched_run(s, x.id, 7, run, &err), LW_OK);
    return run;
}

/* The last search of the file is that of make, and strategy 7 has the run. */
static void check(struct lw_store *s, int64_t run)
{
    struct lw_arena a = {0};
    struct lw_search x;
    struct lw_searched *v;
    struct lw_search_reason *r;
    int64_t n;

    assert_int_equal(lw_store_find_search(s, "last", &a, &x, &err), LW_OK);
    assert_int_equal(x.status, LW_SEARCH_OK);
    assert_int_equal(x.shard, 2);
    assert_int_equal(x.n_valid, 2);
    assert_int_equal(x.least_pruned, -1);
    assert_true(x.within == 1.25);
    assert_string_equal(x.space, "tp 1,2\n");
    assert_int_equal(lw_store_searched(s, x.id, &a, &v, &n, &err), LW_OK);
    assert_int_equal(n, 2);
    same(&v[0], &bounded);
    same(&v[1], &simulated);
    assert_int_equal(v[0].place, 0);
    assert_int_equal(v[1].place, 1);
    assert_int_equal(v[1].front, 2);
    assert_int_equal(v[1].run, run);
    assert_int_equal(lw_store_search_reasons(s, x.id, &a, &r, &n, &err), LW_OK);
    assert_int_equal(n, 1);
    assert_int_equal(r[0].n, 5);
    assert_string_equal(r[0].example, "--tp 3");
    lw_arena_free(&a);
}

TEST_WITH(a_search_comes_back, fixture_open, fixture_close)
{
    struct lw_store *s = open_file("a.db");

    check(s, make(s));
    lw_store_close(s);
}

TEST_WITH(a_merge_takes_searches_over_with_their_runs, fixture_open, fixture_close)
{
    struct lw_store *a = open_file("a.db"), *b = open_file("b.db");
    int64_t n_searches;
    int32_t n;

    assert_int_equal(make(a), 1);
    make(b);
    assert_int_equal(lw_store_merge(b, fixture_path("a.db"), &n, &n_searches, &err), LW_OK);
    assert_int_equal(n, 1);
    assert_int_equal(n_searches, 1);
    check(b, 2);
    lw_store_close(a);
    lw_store_close(b);
}

TEST_WITH(a_deleted_run_leaves_its_strategy, fixture_open, fixture_close)
{
    struct lw_store *s = open_file("a.db");
    struct lw_arena a = {0};
    struct lw_run run;

    make(s);
    assert_int_equal(lw_store_find_run(s, "1", &a, &run, &err), LW_OK);
    assert_int_equal(lw_store_delete_runs(s, &run, 1, &err), LW_OK);
    check(s, 0);
    lw_arena_free(&a);
    lw_store_close(s);
}

/* Of several searches of a space each strategy counts once, the row with a run first; what was only
 * bounded is not known. */
TEST_WITH(a_space_is_what_all_its_searches_found, fixture_open, fixture_close)
{
    struct lw_store *s = open_file("a.db");
    struct lw_arena a = {0};
    struct lw_search x = request;
    struct lw_searched *v, other = simulated;
    int64_t n;

    other.combination = 9;
    assert_int_equal(lw_store_begin_search(s, &x, &x.id, &err), LW_OK);
    assert_int_equal(lw_store_put_searched(s, x.id, &simulated, 1, &err), LW_OK);
    assert_int_equal(lw_store_put_searched(s, x.id, &other, 1, &err), LW_OK);
    make(s);
    x.hash = "another";
    assert_int_equal(lw_store_begin_search(s, &x, &x.id, &err), LW_OK);
    other.combination = 11;
    assert_int_equal(lw_store_put_searched(s, x.id, &other, 1, &err), LW_OK);
    assert_int_equal(lw_store_searched_of_space(s, "h", &a, &v, &n, &err), LW_OK);
    assert_int_equal(n, 2);
    assert_int_equal(v[0].combination, 7);
    assert_int_equal(v[0].run, 1);
    assert_int_equal(v[1].combination, 9);
    lw_arena_free(&a);
    lw_store_close(s);
}

TEST_WITH(a_search_is_named_by_number_or_last, fixture_open, fixture_close)
{
    struct lw_store *s = open_file("a.db");
    struct lw_arena a = {0};
    struct lw_search x;

    assert_int_equal(lw_store_find_search(s, "last", &a, &x, &err), LW_EINVAL);
    has(err.msg, "holds no search; `lapwing tune` stores one");
    make(s);
    make(s);
    assert_int_equal(lw_store_find_search(s, "1", &a, &x, &err), LW_OK);
    assert_int_equal(x.id, 1);
    assert_int_equal(lw_store_find_search(s, "3", &a, &x, &err), LW_EINVAL);
    has(err.msg, "no search '3', expected 'last' or a number from 1 to 2");
    assert_int_equal(lw_store_find_search(s, "1x", &a, &x, &err), LW_EINVAL);
    assert_int_equal(lw_store_delete_search(s, 2, &err), LW_OK);
    assert_int_equal(lw_store_find_search(s, "last", &a, &x, &err), LW_OK);
    assert_int_equal(x.id, 1);
    lw_arena_free(&a);
    lw_store_close(s);
}

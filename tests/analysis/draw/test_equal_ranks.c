/* Ranks with equal bars become one group, also those of which only the name arrives. */
#include <string.h>

#include "tests/lib/unit.h"

#include "analysis/draw/equal_ranks.h"

static void add(struct equal_ranks *a, int32_t rank, lw_ps end)
{
    struct lw_err err = {0};
    struct equal_bar b = {.rank = rank, .stage = -1, .stream_name = "compute", .bar.end = end};

    assert_ok(equal_ranks_add(a, &b, &err), err);
}

static void same(struct equal_ranks *a, int32_t rank, int32_t like)
{
    struct lw_err err = {0};

    assert_ok(equal_ranks_same(a, rank, like, &err), err);
}

/* The groups' names, and how many ranks are in none. */
static void becomes(struct equal_ranks *a, const char *first, const char *second, int32_t left_out)
{
    struct picture pic = {.left_out = test_calloc(1, sizeof *pic.left_out)};
    struct lw_err err = {0};

    assert_ok(equal_ranks_finish(a, 0, &pic, &err), err);
    assert_int_equal(pic.n_rows, 2);
    assert_string_equal(pic.rows[0].group, first);
    assert_string_equal(pic.rows[1].group, second);
    assert_int_equal(pic.left_out[0], left_out);
    test_free(pic.left_out);
    pic.left_out = NULL;
    picture_free(&pic);
    equal_ranks_free(a);
}

/* Rank 4 joins rank 0 by its bars; 5 and 6 have the bars of 4 and 1. Rank 2 finds no room, so 7,
 * which is like it, has none either. */
TEST(a_rank_joins_the_group_of_the_one_it_is_like)
{
    struct equal_ranks a = {.max_groups = 2};

    add(&a, 0, 10);
    add(&a, 1, 20);
    add(&a, 4, 10);
    add(&a, 2, 30);
    same(&a, 5, 4);
    same(&a, 6, 1);
    same(&a, 7, 2);
    becomes(&a, "ranks 0, 4-5 (3)", "ranks 1, 6 (2)", 2);
}

/* Were each compared with all that came before, these would be 10^12 comparisons. */
TEST(two_million_ranks_become_two_groups)
{
    enum { N = 1000000 };
    struct equal_ranks a = {.max_groups = 2};

    add(&a, 0, 10);
    add(&a, N, 20);
    for (int32_t r = 1; r < N; r++) {
        same(&a, r, 0);
        same(&a, N + r, N);
    }
    becomes(&a, "ranks 0-999999 (1000000)", "ranks 1000000-1999999 (1000000)", 0);
}

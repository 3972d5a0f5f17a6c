/* The bound of a step on parts computed by hand. */
#include "tests/lib/unit.h"

#include "analysis/tune/tune_bound.h"

static lw_ps bound(int32_t n_ranks, int32_t n_parts, const struct lw_outline_sum *part,
                   const lw_ps *optimizer, bool by_halves, int64_t m)
{
    static const lw_ps none[16];
    int32_t first[8], held[16], before[16], first_back[8], n = 0;

    for (int32_t r = 0; r < n_ranks; r++) {
        first[r] = n;
        for (int32_t q = r; q < n_parts; q += n_ranks)
            held[n++] = q;
    }
    first[n_ranks] = n;
    for (int32_t i = 0; i < n; i++) /* all forwards first, then the last part's backward */
        before[i] = (int32_t)m;
    for (int32_t r = 0; r < n_ranks; r++)
        first_back[r] = n_parts - n_ranks + r;
    return lw_tune_step_bound(&(struct lw_tune_parts){
        .n_parts = n_parts, .n_ranks = n_ranks, .part = part, .first = first, .held = held,
        .optimizer = optimizer, .reduce = none, .after = none, .gather = none, .data = none,
        .ahead = none, .before = before, .first_back = first_back, .by_halves = by_halves,
        .n_micro_batches = m});
}

/* docs/design/tune.md: from the first rank 1 + 4 (1 + 2) + 2, from the last 4 (1 + 2) + 2. */
TEST(two_stages_of_the_page)
{
    const struct lw_outline_sum part[] = {{.forward = 1, .backward = 2},
                                          {.forward = 1, .backward = 2}};
    const lw_ps none[] = {0, 0}, optimizer[] = {5, 7};

    assert_int_equal(bound(2, 2, part, none, false, 4), 14);
    /* drained to part 0, whose optimizer takes 5; 4 x 3 + 7 of the last rank are as long */
    assert_int_equal(bound(2, 2, part, optimizer, false, 4), 19);
}

/* One rank: its work and its optimizer. */
TEST(one_rank)
{
    const struct lw_outline_sum part[] = {{.forward = 10, .backward = 20}};
    const lw_ps optimizer[] = {3};

    assert_int_equal(bound(1, 1, part, optimizer, false, 6), 6 * 30 + 3);
}

/* Two chunks: rank 1 has parts 1 and 3. From rank 0: fill 1, 2 (3 + 3) of rank 1, drain 2 = 15 or 2
 * (3 + 3) of its own; from rank 1: of its own 12 and drain 2; of rank 0's part 2: 1 + 2 x 3 + 4. */
TEST(two_chunks)
{
    const struct lw_outline_sum part[] = {{.forward = 1, .backward = 2},
                                          {.forward = 1, .backward = 2},
                                          {.forward = 1, .backward = 2},
                                          {.forward = 1, .backward = 2}};
    const lw_ps none[] = {0, 0};

    assert_int_equal(bound(2, 4, part, none, false, 2), 14);
}

/* Halves: from the last rank 3 (1 + 2 + 4) without drain, or 3 (1 + 2) and drain 2. */
TEST(backwards_in_halves)
{
    const struct lw_outline_sum part[] = {{.forward = 1, .input = 2, .weight = 4},
                                          {.forward = 1, .input = 2, .weight = 4}};
    const lw_ps none[] = {0, 0};

    assert_int_equal(bound(2, 2, part, none, true, 3), 21);
}

/* All forwards first: of those of a slow stage nothing is known where a later one ended last, but
 * its backwards follow that one's. */
TEST(a_slow_stage)
{
    const struct lw_outline_sum part[] = {{.forward = 1, .backward = 1},
                                          {.forward = 9, .backward = 9},
                                          {.forward = 1, .backward = 1}};
    const lw_ps none[] = {0, 0, 0};

    /* from rank 2: to the last part and back 1 + 1, the slow one's 4 x 9, drain 1 */
    assert_int_equal(bound(3, 3, part, none, false, 4), 39);
}


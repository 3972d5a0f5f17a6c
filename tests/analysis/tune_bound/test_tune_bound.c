/* The bound of a step on parts computed by hand. */
#include "tests/lib/unit.h"

#include "analysis/tune_bound/tune_bound.h"

static lw_ps bound(int32_t n_ranks, int32_t n_parts, const struct lw_outline_sum *part,
                   const lw_ps *optimizer, bool by_halves, int64_t m)
{
    static const lw_ps none[16];
    int32_t first[8], held[16], before[16], halves[16], first_back[8], n = 0;

    for (int32_t r = 0; r < n_ranks; r++) {
        first[r] = n;
        for (int32_t q = r; q < n_parts; q += n_ranks)
            held[n++] = q;
    }
    first[n_ranks] = n;
    for (int32_t i = 0; i < n; i++) { /* all forwards first, then the last part's backward */
        before[i] = (int32_t)m;
        halves[i] = by_halves ? (int32_t)m : 0;
    }
    for (int32_t r = 0; r < n_ranks; r++)
        first_back[r] = n_parts - n_ranks + r;
    return lw_tune_step_bound(&(struct lw_tune_parts){
        .n_parts = n_parts, .n_ranks = n_ranks, .part = part, .first = first, .held = held,
        .optimizer = optimizer, .reduce = none, .after = none, .gather = none, .data = none,
        .ahead = none, .before = before, .first_back = first_back, .halves = halves,
        .by_halves = by_halves, .n_micro_batches = m});
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

/* Two ways of one micro-batch each; ranks 1 and 2 both hold parts 1, the slow one, and 2. From rank
 * 0: rank 1 has 9 + 9 of its part 1, and of part 2 the backward, 1. From rank 1: 18 + 2. */
TEST(two_directions)
{
    const struct lw_outline_sum part[] = {{.forward = 1, .backward = 1},
                                          {.forward = 9, .backward = 9},
                                          {.forward = 1, .backward = 1},
                                          {.forward = 1, .backward = 1}};
    const int32_t first[] = {0, 2, 4, 6, 8}, held[] = {0, 3, 1, 2, 1, 2, 0, 3}, halves[8] = {0};
    const lw_ps none[8] = {0};
    struct lw_tune_parts p = {.n_parts = 4, .n_ranks = 4, .part = part, .first = first,
                              .held = held, .optimizer = none, .halves = halves,
                              .mirrored = true, .n_micro_batches = 2};

    assert_int_equal(lw_tune_step_since(&p, 0), 19);
    assert_int_equal(lw_tune_step_since(&p, 1), 20);
    assert_int_equal(lw_tune_step_bound(&p), 19);
}

/* One rank, two micro-batches, of which one backward is whole and takes less than its halves. */
TEST(whole_backwards_among_halves)
{
    const struct lw_outline_sum part[] = {{.forward = 1, .backward = 5, .input = 3, .weight = 4}};
    const int32_t first[] = {0, 1}, held[] = {0}, before[] = {1}, first_back[] = {0},
                  halves[] = {1};
    const lw_ps none[] = {0};

    assert_int_equal(
        lw_tune_step_bound(&(struct lw_tune_parts){
            .n_parts = 1, .n_ranks = 1, .part = part, .first = first, .held = held,
            .optimizer = none, .reduce = none, .after = none, .gather = none, .data = none,
            .ahead = none, .before = before, .first_back = first_back, .halves = halves,
            .by_halves = true, .n_micro_batches = 2}),
        2 + 5 + 3 + 4);
}

/* Two stages, one micro-batch: rank 0's backward repeats 2 of 4 before the gradient is there. From
 * rank 1: 1 + 3, and 2 of rank 0; from rank 0: 1 + 1 + 3, and 4 less 2. */
TEST(what_is_repeated_before_the_gradient)
{
    const struct lw_outline_sum part[] = {{.forward = 1, .backward = 4},
                                          {.forward = 1, .backward = 3}};
    const int32_t first[] = {0, 1, 2}, held[] = {0, 1}, before[] = {1, 1}, first_back[] = {0, 1},
                  halves[] = {0, 0};
    const lw_ps none[] = {0, 0}, ahead[] = {2, 0};
    const struct lw_tune_parts p = {
        .n_parts = 2, .n_ranks = 2, .part = part, .first = first, .held = held, .optimizer = none,
        .reduce = none, .after = none, .gather = none, .data = none, .ahead = ahead,
        .before = before, .first_back = first_back, .halves = halves, .n_micro_batches = 1};

    assert_int_equal(lw_tune_step_since(&p, 0), 1 + 1 + 3 + 2);
    assert_int_equal(lw_tune_step_since(&p, 1), 1 + 3 + 2);
}

/* Unions and differences of intervals. */
#include "tests/lib/unit.h"
#include <stdlib.h>
#include <string.h>

#include "shared/timeline/timeline.h"

TEST(union_counts_overlaps_once_and_clips_to_the_window)
{
    /* [0,10) u [5,20) u [30,40) = 20 + 10; inside [8,35): 12 + 5 */
    struct lw_interval v[] = {{30, 40}, {5, 20}, {0, 10}};
    struct lw_interval w[] = {{30, 40}, {5, 20}, {0, 10}};

    assert_int_equal(lw_intervals_union(v, 3, 0, 100), 30);
    assert_int_equal(lw_intervals_union(w, 3, 8, 35), 17);
    assert_int_equal(lw_intervals_union(w, 0, 0, 100), 0);
}

TEST(minus_keeps_what_the_other_does_not_cover)
{
    /* a = [0,10) u [20,30); b covers [5,25): 5 + 5 remain */
    struct lw_interval a[] = {{20, 30}, {0, 10}}, b[] = {{5, 15}, {12, 25}};

    assert_int_equal(lw_intervals_minus(a, 2, b, 2, 0, 100), 10);
}

TEST(both_agree_with_counting_single_units_on_random_input)
{
    enum { N = 12, SPAN = 64 };
    unsigned seed = 20240611;

    print_message("seed %u\n", seed);
    srand(seed);
    for (int round = 0; round < 2000; round++) {
        struct lw_interval v[2][N], copy[N];
        char in[2][SPAN] = {{0}};
        int n[2] = {rand() % N, rand() % N}, from = rand() % 20, to = from + rand() % 44;
        int64_t want_union = 0, want_minus = 0;
        for (int s = 0; s < 2; s++)
            for (int i = 0; i < n[s]; i++) {
                int start = rand() % SPAN, end = start + rand() % 9 - 1;
                v[s][i] = (struct lw_interval){start, end};
                for (int t = start; t < end && t < SPAN; t++)
                    in[s][t] = 1;
            }
        for (int t = from; t < to; t++) {
            want_union += in[0][t];
            want_minus += in[0][t] && !in[1][t];
        }
        memcpy(copy, v[0], sizeof copy);
        assert_int_equal(lw_intervals_union(copy, n[0], from, to), want_union);
        assert_int_equal(lw_intervals_minus(v[0], n[0], v[1], n[1], from, to), want_minus);
    }
}

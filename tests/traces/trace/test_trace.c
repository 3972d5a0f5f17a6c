/* The tables of a trace: sorting. */
#include "tests/lib/unit.h"

#include "tests/lib/prng.h"
#include "traces/trace/trace.h"

/* Rows in runs, in reverse, equal, and at random come out in the order of their start, the longer
 * one first, and of equal ones that of the file. */
TEST(rows_are_sorted_however_they_come)
{
    struct prng r = prng_start("order of rows");

    for (int round = 0; round < unit_cases(400, 4000); round++) {
        struct lw_trace t;
        int n = prng_below(&r, 60), runs = 1 + prng_below(&r, 8), range = 1 + prng_below(&r, 40);
        lw_trace_init(&t);
        for (int i = 0; i < n; i++) {
            int64_t start = round % 3 == 0   ? i % (1 + n / runs)
                            : round % 3 == 1 ? n - i
                                             : prng_below(&r, range);
            struct lw_row row = {.class = LW_ROW_HOST, .start_ns = start,
                                 .dur_ns = prng_below(&r, 3), .link = i, .track = i, .name = i};
            assert_int_equal(lw_trace_add(&t, &row, NULL, NULL), LW_OK);
        }
        assert_int_equal(lw_trace_sort(&t, NULL), LW_OK);
        assert_int_equal(t.n, n);
        int64_t sum = 0;
        for (int i = 0; i < n; i++) {
            sum += t.link[i];
            assert_int_equal(t.track[i], t.link[i]);
            assert_int_equal(t.name[i], t.link[i]);
            if (i == 0)
                continue;
            bool later = t.start_ns[i] > t.start_ns[i - 1];
            bool equal = t.start_ns[i] == t.start_ns[i - 1];
            bool shorter = equal && t.dur_ns[i] < t.dur_ns[i - 1];
            bool same = equal && t.dur_ns[i] == t.dur_ns[i - 1];
            assert_true(later || shorter || (same && t.link[i] > t.link[i - 1]));
        }
        assert_int_equal(sum, (int64_t)n * (n - 1) / 2);
        lw_trace_free(&t);
    }
}

/* Rows by a rule are hashed as the same rows number by number. LAPWING_TEST_SEED repeats a run. */
#include "tests/lib/unit.h"

#include <string.h>

#include "shared/plan/hash_rows.h"
#include "tests/lib/prng.h"

/* By the definition: the digits of each row's number. */
static void feed_each(struct lw_hash *h, const int64_t *first, int32_t width,
                      const struct lw_row_rule *x)
{
    int64_t n = 1;

    for (int32_t i = 0; i < x->n; i++)
        n *= x->at[i].count;
    for (int64_t row = 0; row < n; row++)
        for (int32_t c = 0; c < width; c++) {
            int64_t v = first[c], number = row;
            int32_t column = c < LW_ROW_STEPS ? c : LW_ROW_STEPS - 1;
            for (int32_t i = x->n; i-- > 0; number /= x->at[i].count)
                v += number % x->at[i].count * x->at[i].step[column];
            lw_hash_int(h, v);
        }
}

static void expect_same(const int64_t *first, int32_t width, const struct lw_row_rule *x,
                        int before)
{
    struct lw_hash *a = lw_hash_new(), *b = lw_hash_new();
    char by_rule[33], each[33];

    assert_true(a && b);
    for (int i = 0; i < before; i++) { /* a text is no multiple of 8 bytes */
        lw_hash_bytes(a, "x", 1);
        lw_hash_bytes(b, "x", 1);
    }
    lw_hash_rows(a, first, width, x);
    feed_each(b, first, width, x);
    lw_hash_finish(a, by_rule);
    lw_hash_finish(b, each);
    assert_string_equal(by_rule, each);
}

TEST(random_rules_are_hashed_as_their_rows)
{
    struct prng r = prng_start("hash rows");

    for (int i = 0; i < unit_cases(300, 3000); i++) {
        static const int32_t widths[] = {1, 2, 3, 9, 341, 1024};
        int64_t first[LW_ROW_WIDTH];
        int32_t width = widths[prng_in(&r, 0, 5)], left = 30000 / width + 1;
        struct lw_row_rule x = {.n = (int32_t)prng_in(&r, 0, 6)};
        for (int32_t c = 0; c < width; c++)
            first[c] = prng_in(&r, -1, 1000000);
        for (int32_t k = 0; k < x.n; k++) {
            x.at[k].count = (int32_t)prng_in(&r, 1, prng_in(&r, 0, 2) ? 9 : left);
            x.at[k].count = x.at[k].count < left ? x.at[k].count : left;
            left = left / x.at[k].count > 1 ? left / x.at[k].count : 1;
            for (int s = 0; s < LW_ROW_STEPS; s++)
                x.at[k].step[s] = prng_in(&r, 0, 2) ? prng_in(&r, -5, 1L << 40) : 0;
        }
        expect_same(first, width, &x, (int)prng_in(&r, 0, 9));
    }
}

/* 2,500 rows of one column: blocks of 1,024, 1,024 and 452, twice. */
TEST(a_digit_that_no_block_holds_is_cut)
{
    const struct lw_row_rule x = {2, {{2, {7, 0, 0}}, {2500, {3, 0, 0}}}};

    expect_same((int64_t[]){-1}, 1, &x, 0);
}

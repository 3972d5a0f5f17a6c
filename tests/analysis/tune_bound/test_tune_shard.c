/* Shards: every combination is in one of them, and none has much more than its part. */
#include "tests/lib/unit.h"

#include <string.h>

#include "analysis/tune_bound/tune_shard.h"
#include "tests/lib/files/says.h"

TEST(a_combination_is_in_one_shard)
{
    for (int64_t n = 1; n <= 64; n = n * 3 - 1)
        for (int64_t k = 0; k < 20000; k++) {
            int in = 0;
            for (int64_t i = 1; i <= n; i++)
                in += lw_tune_shard_has(&(struct lw_tune_shard){i, n}, k);
            assert_int_equal(in, 1);
        }
    assert_true(lw_tune_shard_has(&(struct lw_tune_shard){0}, 5));
}

/* Also of combinations that are each so many apart, as those of one value of an option: the part of
 * a shard is within 5 standard deviations, sqrt(n p (1 - p)). */
TEST(shards_have_like_parts)
{
    for (int64_t apart = 1; apart <= 12; apart++)
        for (int64_t i = 1; i <= 4; i++) {
            int64_t n_has = 0;
            for (int64_t k = 0; k < 40000; k++)
                n_has += lw_tune_shard_has(&(struct lw_tune_shard){i, 4}, k * apart);
            assert_in_range(n_has, 10000 - 433, 10000 + 433);
        }
}

TEST(a_shard_is_part_of_a_whole)
{
    static const char *const bad[] = {"3/2", "0/2", "-1/2", "1", "1/", "/2", "1/0", "a/b", "1/2x",
                                      "", "1/-2", " 1/2", "1/1000001", "99999999999999999999/3"};
    struct lw_tune_shard s = {7, 7};
    struct lw_err err = {0};

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(lw_tune_shard_parse(bad[i], &s, &err), LW_EUSAGE);
        has(err.msg, "expected I/N with 1 <= I <= N");
        assert_int_equal(s.i, 7);
    }
    assert_int_equal(lw_tune_shard_parse("2/8", &s, &err), LW_OK);
    assert_int_equal(s.i, 2);
    assert_int_equal(s.n, 8);
}

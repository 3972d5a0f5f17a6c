/* The least time of buckets of which only the limit is known: not above that of the buckets that
 * c10d makes, in any order of the gradients. */
#include "tests/lib/unit.h"

#include "analysis/tune_bound/tune_pieces.h"
#include "shared/bucket/bucket.h"
#include "tests/lib/prng.h"

enum { START = 100000, MOST = 40 };

/* A start-up, and a byte each picosecond. */
static lw_ps line(const void *ctx, const struct lw_cost_query *q)
{
    (void)ctx;
    return START + q->bytes;
}

static const struct lw_cost cost = {.time = line};

static struct lw_tune_rates rates(void)
{
    const struct lw_cost_query q = {.op = LW_OP_ALL_REDUCE, .dtype = LW_F32, .n_ranks = 2};
    struct lw_tune_rates r;

    lw_tune_rates_of(&cost, &q, &r);
    return r;
}

/* docs/design/tune.md: of 10,000,000, 200,000 and 100,000 bytes and a limit of 400,000 the bucket
 * that the first closes may hold all: one start-up, within the twentieth of the sizes' steps. */
TEST(one_bucket_may_hold_all)
{
    const struct lw_tune_rates r = rates();
    const int64_t sizes[] = {10000000, 200000, 100000};
    lw_ps least = lw_tune_closing_time(&r, sizes, 3, 400000);

    assert_true(least <= START + 10300000);
    assert_true(least > (START + 10300000) * 9 / 10);
}

/* Gradients of 400,000 bytes close a bucket each, which is not known of sizes alone: each may have
 * had nearly as much before it. */
TEST(start_ups_of_small_buckets_count)
{
    const struct lw_tune_rates r = rates();
    const int64_t sizes[] = {400000, 400000, 400000, 400000};
    lw_ps least = lw_tune_closing_time(&r, sizes, 4, 400000); /* two of 800,000 */

    assert_true(least <= 2 * (START + 800000));
    assert_true(least > 2 * (START + 800000) * 9 / 10);
    assert_int_equal(lw_tune_closing_time(&r, sizes, 0, 400000), 0);
}

static int descending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (y > x) - (y < x);
}

TEST(not_above_the_buckets_of_c10d)
{
    struct prng random = prng_start("not_above_the_buckets_of_c10d");
    const struct lw_tune_rates r = rates();

    for (int round = 0; round < 2000; round++) {
        int32_t n = (int32_t)prng_in(&random, 1, MOST);
        int64_t limit = 4 * prng_in(&random, 0, 2000000), most = prng_in(&random, 1, 22);
        int64_t sizes[MOST];
        struct lw_grad grads[MOST];
        struct lw_bucketing b = {0};
        struct lw_err err;
        lw_ps sum = 0;
        for (int32_t g = 0; g < n; g++) {
            grads[g] = (struct lw_grad){prng_in(&random, 1, INT64_C(1) << most), LW_F32, 0, false};
            sizes[g] = 4 * grads[g].numel;
        }
        assert_int_equal(lw_bucket_assign_c10d(grads, n, NULL, &limit, 1, &b, &err), LW_OK);
        for (int32_t k = 0; k < b.n_buckets; k++) {
            sum += START;
            for (int32_t i = b.first[k]; i < b.first[k + 1]; i++)
                sum += 4 * grads[b.items[i]].numel;
        }
        qsort(sizes, (size_t)n, sizeof *sizes, descending);
        assert_true(lw_tune_closing_time(&r, sizes, n, limit) <= sum);
        lw_bucketing_free(&b);
    }
}

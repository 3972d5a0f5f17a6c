/* ColossalAI's gradient handlers: shared/bucket/bucket_colossal.h, with the example of
 * docs/design/bucket_colossal.md. */
#include <stdio.h>
#include "tests/lib/unit.h"

#include "shared/bucket/bucket_colossal.h"
#include "tests/lib/failing_alloc.h"
#include "tests/lib/prng.h"

enum { N_MAX = 30 };

static struct lw_colossal_grad grad(int64_t numel, enum lw_dtype dtype, int32_t group)
{
    return (struct lw_colossal_grad){numel, dtype, true, true, group};
}

/* "g1:f16=5[0,2]" per bucket */
static const char *shown(const struct lw_colossal_buckets *b)
{
    static char text[512];
    size_t at = 0;

    text[0] = 0;
    for (int32_t i = 0; i < b->n_buckets; i++) {
        const struct lw_colossal_bucket *k = &b->buckets[i];
        at += (size_t)snprintf(text + at, sizeof text - at, "%sg%d:%s=%d[", i ? " " : "", k->group,
                               lw_dtype_name(k->dtype), (int)k->numel);
        for (int32_t x = 0; x < k->n_items; x++)
            at += (size_t)snprintf(text + at, sizeof text - at, "%s%d", x ? "," : "", k->items[x]);
        at += (size_t)snprintf(text + at, sizeof text - at, "]");
    }
    return text;
}

TEST(buckets_follow_the_first_appearance_of_group_then_dtype)
{
    struct lw_colossal_grad g[] = {
        grad(1, LW_F16, 2), grad(2, LW_F32, 0), grad(3, LW_F32, 2),
        grad(4, LW_F16, -1), grad(5, LW_F16, 2), grad(6, LW_F64, 0),
    };
    struct lw_colossal_buckets b;
    struct lw_err err;

    g[3].has_grad = false;
    assert_int_equal(lw_bucket_colossal_data(g, 6, 4, &b, &err), LW_OK);
    assert_string_equal(shown(&b), "g-1:f16=6[0,4] g-1:f32=5[1,2] g-1:f64=6[5]");
    lw_colossal_buckets_free(&b);
    assert_int_equal(lw_bucket_colossal_shared(g, 6, 2, &b, &err), LW_OK);
    assert_string_equal(shown(&b), "g2:f16=6[0,4] g2:f32=3[2] g0:f32=2[1] g0:f64=6[5]");
    lw_colossal_buckets_free(&b);
}

TEST(one_member_reduces_nothing)
{
    struct lw_colossal_grad g[] = {grad(1, LW_F16, 2)};
    struct lw_colossal_buckets b;
    struct lw_err err;

    assert_int_equal(lw_bucket_colossal_data(g, 1, 1, &b, &err), LW_OK);
    assert_int_equal(b.n_buckets, 0);
    lw_colossal_buckets_free(&b);
    assert_int_equal(lw_bucket_colossal_shared(g, 1, 1, &b, &err), LW_OK);
    assert_int_equal(b.n_buckets, 0);
    lw_colossal_buckets_free(&b);
}

TEST(bad_sizes_are_refused)
{
    struct lw_colossal_grad g[] = {grad(1, LW_F16, 2), grad(-3, LW_F16, 2)};
    struct lw_colossal_buckets b;
    struct lw_err err;

    assert_int_equal(lw_bucket_colossal_data(g, 2, 2, &b, &err), LW_EINVAL);
    assert_string_equal(
        err.msg, "gradient 1 has -3 elements, allowed: 0 or more, together below 2^63");
    assert_int_equal(lw_bucket_colossal_shared(g, 1, 0, &b, &err), LW_EINVAL);
    assert_string_equal(err.msg, "pipeline size 0, allowed: 1 or more");
}

TEST(every_gradient_is_in_the_bucket_of_its_key)
{
    struct prng r = prng_start(__func__);

    for (int i = 0; i < 1000; i++) {
        struct lw_colossal_grad g[N_MAX];
        struct lw_colossal_buckets b;
        struct lw_err err;
        int32_t n = (int32_t)prng_in(&r, 0, N_MAX);
        bool shared = prng_in(&r, 0, 1);
        int seen[N_MAX] = {0};
        for (int32_t k = 0; k < n; k++) {
            g[k] = grad(prng_in(&r, 0, 9), (enum lw_dtype)prng_in(&r, 0, 3),
                        (int32_t)prng_in(&r, -1, 2));
            g[k].trainable = prng_in(&r, 0, 4) > 0;
            g[k].has_grad = prng_in(&r, 0, 4) > 0;
        }
        assert_int_equal(shared ? lw_bucket_colossal_shared(g, n, 2, &b, &err)
                                : lw_bucket_colossal_data(g, n, 2, &b, &err),
                         LW_OK);
        for (int32_t k = 0; k < b.n_buckets; k++) {
            int64_t sum = 0;
            for (int32_t x = 0; x < b.buckets[k].n_items; x++) {
                int32_t p = b.buckets[k].items[x];
                seen[p]++;
                sum += g[p].numel;
                assert_int_equal(g[p].dtype, b.buckets[k].dtype);
                assert_true(!shared || g[p].shared_group == b.buckets[k].group);
                assert_true(x == 0 || b.buckets[k].items[x - 1] < p);
            }
            assert_int_equal(sum, b.buckets[k].numel);
        }
        for (int32_t p = 0; p < n; p++)
            assert_int_equal(seen[p], g[p].trainable && g[p].has_grad &&
                                          (!shared || g[p].shared_group >= 0));
        lw_colossal_buckets_free(&b);
    }
}

TEST(failing_allocations_leak_nothing)
{
    struct lw_colossal_grad g[] = {grad(1, LW_F16, 2), grad(3, LW_F32, 2)};
    struct lw_colossal_buckets b = {.n_buckets = -7};
    struct lw_err err;

    EACH_ALLOCATION_FAILS(1, lw_bucket_colossal_data(g, 2, 2, &b, &err), b,
                          lw_colossal_buckets_free(&b));
}

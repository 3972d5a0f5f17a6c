/* ShardedDataParallel's buckets: shared/bucket/bucket_sharded.h, with the example of
 * docs/design/bucket_sharded.md. The reference system's own answers are checked by test_golden. */
#include <stdio.h>
#include "tests/lib/unit.h"

#include "shared/bucket/bucket_sharded.h"
#include "tests/lib/failing_alloc.h"
#include "tests/lib/prng.h"

enum { N_MAX = 40 };

static struct lw_shard_param f32(int64_t numel)
{
    return (struct lw_shard_param){.numel = numel, .dtype = LW_F32, .trainable = true};
}

/* "d0r1=60[1,3]" per bucket */
static const char *shown(const struct lw_sharded_buckets *s)
{
    static char text[512];
    size_t at = 0;

    text[0] = 0;
    for (int32_t i = 0; i < s->n_buckets; i++) {
        const struct lw_sharded_bucket *b = &s->buckets[i];
        at += (size_t)snprintf(text + at, sizeof text - at, "%sd%dr%d=%d[", i ? " " : "", b->device,
                               b->owner, (int)b->numel);
        for (int32_t k = 0; k < b->n_items; k++)
            at += (size_t)snprintf(text + at, sizeof text - at, "%s%d", k ? "," : "", b->items[k]);
        at += (size_t)snprintf(text + at, sizeof text - at, "]");
    }
    return text;
}

static enum lw_status make(const struct lw_shard_param *p, int32_t n, int32_t world, int64_t limit,
                           bool compat, struct lw_sharded_buckets *b, struct lw_err *err)
{
    struct lw_oss *o;
    enum lw_status s = lw_oss_new(p, n, NULL, NULL, 0, world, true, &o, err);

    if (s != LW_OK)
        return s;
    s = lw_bucket_sharded(o, p, world, limit, compat, b, err);
    lw_oss_free(o);
    return s;
}

TEST(one_bucket_per_owner_and_an_exact_fit_is_refused_in_compat)
{
    /* owners 0 1 0 1 (10 20 30 40); limit 40 elements. Owner 0: 10 fits, 10 + 30 = 40 does not
     * (strict); owner 1: 20 fits, 20 + 40 does not. By default 40 fits exactly, and the 40 of owner
     * 1 gets a bucket of its own. */
    struct lw_shard_param p[] = {f32(10), f32(20), f32(30), f32(40)};
    struct lw_sharded_buckets b;
    struct lw_err err;

    assert_int_equal(make(p, 4, 2, 40, true, &b, &err), LW_OK);
    assert_int_equal(b.limit, 40);
    assert_string_equal(shown(&b), "d0r0=10[0] d0r1=20[1]");
    assert_int_equal(b.bucket_of[2], -1);
    assert_int_equal(b.bucket_of[3], -1);
    lw_sharded_buckets_free(&b);
    assert_int_equal(make(p, 4, 2, 40, false, &b, &err), LW_OK);
    assert_string_equal(shown(&b), "d0r0=40[0,2] d0r1=20[1] d0r1=40[3]");
    lw_sharded_buckets_free(&b);
}

TEST(the_limit_is_the_model_and_nothing_for_one_member)
{
    struct lw_shard_param p[] = {f32(10), f32(20)};
    struct lw_sharded_buckets b;
    struct lw_err err;

    p[0].trainable = false; /* counts in the model */
    assert_int_equal(make(p, 2, 2, 1000, true, &b, &err), LW_OK);
    assert_int_equal(b.limit, 30);
    assert_string_equal(shown(&b), "d0r1=20[1]");
    lw_sharded_buckets_free(&b);
    assert_int_equal(make(p, 2, 1, 1000, true, &b, &err), LW_OK);
    assert_int_equal(b.limit, 0);
    assert_int_equal(b.n_buckets, 0);
    assert_int_equal(b.bucket_of[0], -1);
    lw_sharded_buckets_free(&b);
}

TEST(compat_keeps_an_empty_bucket_whose_first_gradient_was_too_large)
{
    struct lw_shard_param p[] = {f32(5)};
    struct lw_sharded_buckets b;
    struct lw_err err;

    assert_int_equal(make(p, 1, 2, 5, true, &b, &err), LW_OK);
    assert_string_equal(shown(&b), "d0r0=0[]");
    lw_sharded_buckets_free(&b);
    assert_int_equal(make(p, 1, 2, 5, false, &b, &err), LW_OK);
    assert_string_equal(shown(&b), "d0r0=5[0]");
    lw_sharded_buckets_free(&b);
}

TEST(a_bucket_without_elements_is_refused_in_compat)
{
    struct lw_shard_param p[] = {f32(8), f32(0)};
    struct lw_sharded_buckets b;
    struct lw_err err;

    assert_int_equal(make(p, 2, 5, 100, true, &b, &err), LW_EINVAL);
    assert_string_equal(err.msg, "the bucket of device 0 and rank 1 holds 1 gradients without an "
                                 "element: FairScale stops with an assertion");
    assert_int_equal(make(p, 2, 5, 100, false, &b, &err), LW_OK);
    lw_sharded_buckets_free(&b);
    assert_int_equal(make(p, 2, 5, -1, true, &b, &err), LW_EINVAL);
    assert_string_equal(err.msg, "reduce buffer of -1 elements, allowed: 0 or more");
}

TEST(every_gradient_goes_to_its_owner_once)
{
    struct prng r = prng_start(__func__);

    for (int i = 0; i < 2000; i++) {
        struct lw_shard_param p[N_MAX];
        struct lw_sharded_buckets b;
        struct lw_oss *o;
        struct lw_err err;
        int32_t n = (int32_t)prng_in(&r, 0, N_MAX), world = (int32_t)prng_in(&r, 1, 6), at = 0;
        int64_t limit = prng_in(&r, 0, 120);
        bool compat = prng_in(&r, 0, 1);
        int seen[N_MAX] = {0};
        for (int32_t k = 0; k < n; k++) {
            p[k] = f32(prng_in(&r, 1, 30));
            p[k].trainable = prng_in(&r, 0, 4) > 0;
            p[k].device = (int32_t)prng_in(&r, 0, 1);
        }
        assert_int_equal(lw_oss_new(p, n, NULL, NULL, 0, world, true, &o, &err), LW_OK);
        assert_int_equal(lw_bucket_sharded(o, p, world, limit, compat, &b, &err), LW_OK);
        for (int32_t k = 0; k < b.n_buckets; k++) {
            int64_t sum = 0;
            for (int32_t x = 0; x < b.buckets[k].n_items; x++) {
                int32_t g = b.buckets[k].items[x];
                seen[g]++;
                sum += p[g].numel;
                assert_int_equal(lw_oss_owner(o, g), b.buckets[k].owner);
                assert_int_equal(p[g].device, b.buckets[k].device);
                assert_true(x == 0 || p[b.buckets[k].items[x - 1]].numel <= p[g].numel);
            }
            assert_int_equal(sum, b.buckets[k].numel);
            assert_true(compat ? sum < b.limit : sum <= b.limit);
        }
        for (int32_t k = 0; k < b.n_trainable; k++) {
            assert_int_equal(seen[b.order[k]], b.bucket_of[k] >= 0);
            assert_true(k == 0 || p[b.order[k - 1]].numel <= p[b.order[k]].numel);
            if (!compat && b.bucket_of[k] < 0) /* only what no bucket can hold */
                assert_true(b.limit == 0 || p[b.order[k]].numel > b.limit);
            at += p[b.order[k]].trainable;
        }
        assert_int_equal(at, b.n_trainable);
        lw_sharded_buckets_free(&b);
        lw_oss_free(o);
    }
}

TEST(failing_allocations_leak_nothing)
{
    struct lw_shard_param p[] = {f32(10), f32(20), f32(30), f32(40)};
    struct lw_sharded_buckets b = {.limit = -7};
    struct lw_oss *o;
    struct lw_err err;

    assert_int_equal(lw_oss_new(p, 4, NULL, NULL, 0, 2, true, &o, &err), LW_OK);
    EACH_ALLOCATION_FAILS(1, lw_bucket_sharded(o, p, 2, 40, true, &b, &err), b,
                          lw_sharded_buckets_free(&b));
    lw_oss_free(o);
}

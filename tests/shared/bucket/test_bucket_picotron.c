/* picotron's buckets: shared/bucket/bucket_picotron.h, with the example of
 * docs/design/bucket_picotron.md. The reference system's own answers are checked by test_golden. */
#include <stdio.h>
#include <string.h>
#include "tests/lib/unit.h"

#include "shared/bucket/bucket_picotron.h"
#include "tests/lib/failing_alloc.h"
#include "tests/lib/prng.h"

enum { N_MAX = 40 };

/* "0-10@0" per place, "-" for a frozen one */
static const char *shown(const struct lw_picotron_place *p, int32_t n)
{
    static char text[512];
    size_t at = 0;

    text[0] = 0;
    for (int32_t i = 0; i < n; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, p[i].bucket < 0 ? "%s-" : "%s%d-%d@%d",
                               i ? " " : "", (int)p[i].start, (int)p[i].end, p[i].bucket);
    return text;
}

struct place_case {
    const char *about;
    int64_t numel[6];
    int n;
    int64_t capacity;
    const char *places;
};

TEST(a_bucket_is_a_capacity)
{
    static const struct place_case cases[] = {
        {"an exact fit stays", {4, 6, 1}, 3, 10, "0-4@0 4-10@0 0-1@1"},
        {"what would exceed opens the next", {4, 7, 1}, 3, 10, "0-4@0 0-7@1 7-8@1"},
        {"oversize in an empty bucket", {30, 1, 1}, 3, 10, "0-30@0 0-1@1 1-2@1"},
        {"oversize after something", {1, 30, 1}, 3, 10, "0-1@0 0-30@1 0-1@2"},
        {"no elements after a full one stay", {10, 0, 5}, 3, 10, "0-10@0 10-10@0 0-5@1"},
        {"no elements after an oversize one open", {30, 0, 5}, 3, 10, "0-30@0 0-0@1 0-5@1"},
        {"an empty bucket stays empty", {0, 0, 12}, 3, 10, "0-0@0 0-0@0 0-12@0"},
        {"capacity 0: one each", {1, 0, 2}, 3, 0, "0-1@0 0-0@1 0-2@1"},
    };

    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct lw_bucketing b;
        struct lw_picotron_place p[6];
        struct lw_err err;
        assert_int_equal(lw_bucket_picotron(cases[c].numel, NULL, cases[c].n, cases[c].capacity,
                                            true, &b, p, &err),
                         LW_OK);
        if (strcmp(shown(p, cases[c].n), cases[c].places) != 0)
            fail_msg("%s: %s, expected %s", cases[c].about, shown(p, cases[c].n), cases[c].places);
        lw_bucketing_free(&b);
    }
}

TEST(frozen_parameters_have_no_place_and_there_is_always_a_bucket)
{
    static const int64_t numel[] = {5, 5, 5};
    static const bool some[] = {true, false, true}, none[3];
    struct lw_bucketing b;
    struct lw_picotron_place p[3];
    struct lw_err err;

    assert_int_equal(lw_bucket_picotron(numel, some, 3, 10, true, &b, p, &err), LW_OK);
    assert_string_equal(shown(p, 3), "0-5@0 - 5-10@0");
    lw_bucketing_free(&b);
    assert_int_equal(lw_bucket_picotron(numel, none, 3, 10, true, &b, p, &err), LW_OK);
    assert_int_equal(b.n_buckets, 1);
    assert_int_equal(b.n_items, 0);
    lw_bucketing_free(&b);
    assert_int_equal(lw_bucket_picotron(numel, NULL, 0, 10, false, &b, p, &err), LW_OK);
    assert_int_equal(b.n_buckets, 1);
    lw_bucketing_free(&b);
    assert_int_equal(lw_bucket_picotron(numel, NULL, 0, 10, true, &b, p, &err), LW_EINVAL);
    assert_string_equal(err.msg, "no parameters: picotron stops with an index error");
}

TEST(compat_counts_four_bytes_for_all_but_bf16)
{
    struct lw_err err;
    int64_t n;

    assert_int_equal(lw_picotron_capacity(25, LW_F32, true, &n, &err), LW_OK);
    assert_int_equal(n, 6553600);
    assert_int_equal(lw_picotron_capacity(25, LW_BF16, true, &n, &err), LW_OK);
    assert_int_equal(n, 13107200);
    assert_int_equal(lw_picotron_capacity(25, LW_F16, true, &n, &err), LW_OK);
    assert_int_equal(n, 6553600);
    assert_int_equal(lw_picotron_capacity(25, LW_F16, false, &n, &err), LW_OK);
    assert_int_equal(n, 13107200);
    assert_int_equal(lw_picotron_capacity(25, LW_F64, false, &n, &err), LW_OK);
    assert_int_equal(n, 3276800);
    assert_int_equal(lw_picotron_capacity(-1, LW_F32, true, &n, &err), LW_EINVAL);
    assert_string_equal(err.msg, "bucket cap -1 MiB, allowed: 0 to 2^43 - 1");
}

static struct lw_picotron *manager(void)
{
    /* capacity 10: buckets 0 1 | 2 3 */
    static const int64_t numel[] = {5, 5, 4, 4};
    struct lw_bucketing b;
    struct lw_picotron_place p[4];
    struct lw_picotron *m;
    struct lw_err err;

    assert_int_equal(lw_bucket_picotron(numel, NULL, 4, 10, true, &b, p, &err), LW_OK);
    assert_int_equal(lw_picotron_new(&b, 4, &m, &err), LW_OK);
    lw_bucketing_free(&b);
    return m;
}

TEST(buckets_launch_as_they_complete)
{
    static const int32_t order[] = {3, 1, 2, 0}, expected[] = {-1, -1, 1, 0};
    struct lw_picotron *m = manager();
    enum lw_picotron_fault fault;
    struct lw_err err;
    int32_t launched, waited;

    for (int step = 0; step < 2; step++) {
        for (int i = 0; i < 4; i++) {
            assert_int_equal(lw_picotron_mark(m, order[i], &launched, &fault, &err), LW_OK);
            assert_int_equal(launched, expected[i]);
        }
        assert_int_equal(lw_picotron_wait(m, &waited, &fault, &err), LW_OK);
        assert_int_equal(waited, 2);
        lw_picotron_reset(m);
    }
    lw_picotron_free(m);
}

TEST(faults_are_told_apart)
{
    struct lw_picotron *m = manager();
    enum lw_picotron_fault fault;
    struct lw_err err;
    int32_t launched, waited;

    assert_int_equal(lw_picotron_mark(m, 4, &launched, &fault, &err), LW_EFAILED);
    assert_int_equal(fault, LW_PICOTRON_KEY);
    lw_picotron_mark(m, 0, &launched, &fault, &err);
    assert_int_equal(lw_picotron_mark(m, 0, &launched, &fault, &err), LW_EFAILED);
    assert_int_equal(fault, LW_PICOTRON_ASSERTION);
    assert_string_equal(err.msg, "parameter 0 was marked ready twice without a reset");
    lw_picotron_mark(m, 1, &launched, &fault, &err);
    assert_int_equal(launched, 0);
    assert_int_equal(lw_picotron_wait(m, &waited, &fault, &err), LW_EFAILED);
    assert_int_equal(waited, 1); /* bucket 0 was waited for */
    assert_string_equal(err.msg,
                        "bucket 1 was never launched: 2 of its 2 gradients are not ready");
    lw_picotron_free(m);
}

TEST(buckets_tile_the_trainable_gradients_within_capacity)
{
    struct prng r = prng_start(__func__);

    for (int i = 0; i < 3000; i++) {
        int64_t numel[N_MAX], capacity = prng_in(&r, 0, 60);
        bool trainable[N_MAX];
        struct lw_bucketing b;
        struct lw_picotron_place p[N_MAX];
        struct lw_err err;
        int32_t n = (int32_t)prng_in(&r, 1, N_MAX), next = 0;
        for (int32_t k = 0; k < n; k++) {
            numel[k] = prng_in(&r, 0, 4) ? prng_in(&r, 0, 30) : 0;
            trainable[k] = prng_in(&r, 0, 4) > 0;
        }
        assert_int_equal(lw_bucket_picotron(numel, trainable, n, capacity, true, &b, p, &err),
                         LW_OK);
        for (int32_t k = 0; k < b.n_buckets; k++) {
            int64_t fill = 0;
            for (int32_t x = b.first[k]; x < b.first[k + 1]; x++) {
                int32_t g = b.items[x];
                while (!trainable[next])
                    assert_int_equal(p[next++].bucket, -1);
                assert_int_equal(g, next++); /* registration order, none left out */
                assert_int_equal(p[g].bucket, k);
                assert_int_equal(p[g].start, fill);
                assert_int_equal(p[g].end, fill += numel[g]);
                assert_true(fill <= capacity || p[g].start == 0);
            }
        }
        while (next < n)
            assert_false(trainable[next++]);
        lw_bucketing_free(&b);
    }
}

TEST(failing_allocations_leak_nothing)
{
    static const int64_t numel[] = {5, 5, 4};
    struct lw_bucketing b = {.n_buckets = -7};
    struct lw_picotron_place p[3];
    struct lw_picotron *m = NULL;
    struct lw_err err;

    EACH_ALLOCATION_FAILS(1, lw_bucket_picotron(numel, NULL, 3, 10, true, &b, p, &err), b,
                          lw_bucketing_free(&b));
    assert_int_equal(lw_bucket_picotron(numel, NULL, 3, 10, true, &b, p, &err), LW_OK);
    EACH_ALLOCATION_FAILS(1, lw_picotron_new(&b, 3, &m, &err), m, lw_picotron_free(m));
    lw_bucketing_free(&b);
}

/* Bucket assignment and the rules of the torch generations: shared/bucket/bucket.h,
 * docs/design/bucket.md. Golden answers of the reference are in test_golden. */
#include <stdio.h>
#include <string.h>
#include "tests/lib/unit.h"

#include "shared/bucket/bucket.h"
#include "tests/lib/failing_alloc.h"
#include "tests/lib/plans/resnet50_sizes.h"
#include "tests/lib/prng.h"

enum { N_MAX = 200 };

static struct lw_grad f32(int64_t numel)
{
    return (struct lw_grad){.numel = numel, .dtype = LW_F32};
}

static int64_t bytes_of(const struct lw_bucketing *b, int32_t i, const struct lw_grad *g)
{
    int64_t bytes = 0;

    for (int32_t k = b->first[i]; k < b->first[i + 1]; k++)
        bytes += g[b->items[k]].numel * lw_dtype_size(g[b->items[k]].dtype);
    return bytes;
}

/* "0,1|2" for buckets {0, 1}, {2} */
static const char *shown(const struct lw_bucketing *b)
{
    static char text[512];
    size_t at = 0;

    text[0] = 0;
    for (int32_t i = 0; i < b->n_buckets; i++)
        for (int32_t k = b->first[i]; k < b->first[i + 1]; k++)
            at += (size_t)snprintf(text + at, sizeof text - at, "%s%d",
                                   k > b->first[i] ? "," : i ? "|" : "", b->items[k]);
    return text;
}

struct small_case {
    const char *about;
    int64_t numel[6], limits[3];
    int n, n_limits;
    const char *buckets;
};

TEST(a_bucket_closes_once_its_size_reached_the_limit)
{
    static const struct small_case cases[] = {
        /* 4 bytes an element: 8 + 8 = 16 reaches 16 exactly */
        {"an exact hit closes", {2, 2, 1}, {16}, 3, 1, "0,1|2"},
        {"a bucket overshoots", {2, 3, 1}, {16}, 3, 1, "0,1|2"},
        {"one oversize gradient closes with what was before", {1, 100, 1}, {16}, 3, 1, "0,1|2"},
        {"limit 0 closes after each, also of size 0", {0, 1, 0}, {0}, 3, 1, "0|1|2"},
        {"size 0 is kept", {0, 4, 0}, {16}, 3, 1, "0,1|2"},
        /* the first limit is used once, the last for ever: 4, then 8, 8 */
        {"limits are walked and the last stays", {1, 1, 1, 1, 1}, {4, 8}, 5, 2, "0|1,2|3,4"},
        {"no limit reached: one bucket", {1, 1}, {1000}, 2, 1, "0,1"},
    };

    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct lw_grad g[6];
        struct lw_bucketing b;
        struct lw_err err = {0};
        for (int i = 0; i < cases[c].n; i++)
            g[i] = f32(cases[c].numel[i]);
        assert_int_equal(lw_bucket_assign_c10d(g, cases[c].n, NULL, cases[c].limits,
                                               cases[c].n_limits, &b, &err), LW_OK);
        assert_string_equal(shown(&b), cases[c].buckets);
        lw_bucketing_free(&b);
    }
}

TEST(each_dtype_and_device_has_its_own_open_bucket_and_limits)
{
    struct lw_grad g[] = {f32(1), f32(1), f32(1), f32(1), f32(1)};
    int64_t limits[] = {4, 8};
    struct lw_bucketing b;
    struct lw_err err = {0};

    g[1].dtype = LW_F64;
    g[3].device = 1;
    /* f32: 0 closes (4 >= 4), 2 and 4 share 8; f64: 1 closes; device 1: 3 closes */
    assert_int_equal(lw_bucket_assign_c10d(g, 5, NULL, limits, 2, &b, &err), LW_OK);
    assert_string_equal(shown(&b), "0|1|2,4|3");
    assert_int_equal(b.limit_bytes[2], 8);
    lw_bucketing_free(&b);
}

TEST(a_sparse_gradient_is_alone_and_leaves_the_open_bucket_open)
{
    struct lw_grad g[] = {f32(1), f32(50), f32(1)};
    int64_t limit = 8;
    struct lw_bucketing b;
    struct lw_err err = {0};

    g[1].sparse = true;
    assert_int_equal(lw_bucket_assign_c10d(g, 3, NULL, &limit, 1, &b, &err), LW_OK);
    assert_string_equal(shown(&b), "0,2|1");
    assert_int_equal(b.limit_bytes[1], 0);
    lw_bucketing_free(&b);
}

TEST(with_an_order_buckets_stay_in_closing_order)
{
    struct lw_grad g[] = {f32(1), f32(1), f32(1), f32(4)};
    int32_t order[] = {2, 3, 1, 0};
    int64_t limit = 16;
    struct lw_bucketing b;
    struct lw_err err = {0};

    g[2].dtype = LW_F64; /* 8 bytes: stays open, and began first */
    assert_int_equal(lw_bucket_assign_c10d(g, 4, order, &limit, 1, &b, &err), LW_OK);
    assert_string_equal(shown(&b), "3|2|1,0");
    assert_int_equal(b.n_open, 2);
    lw_bucketing_free(&b);
}

TEST(refuses_what_makes_no_sense)
{
    struct lw_grad g[] = {f32(1), f32(1)};
    int32_t twice[] = {1, 1}, outside[] = {0, 2};
    int64_t limit = 16, below = -1;
    struct lw_bucketing b;
    struct lw_err err = {0};

    assert_int_equal(lw_bucket_assign_c10d(g, 0, NULL, &limit, 1, &b, &err), LW_EINVAL);
    assert_int_equal(lw_bucket_assign_c10d(g, 2, NULL, &limit, 0, &b, &err), LW_EINVAL);
    assert_int_equal(lw_bucket_assign_c10d(g, 2, NULL, &below, 1, &b, &err), LW_EINVAL);
    assert_string_equal(err.msg, "bucket limit 0 is negative: -1 bytes");
    assert_int_equal(lw_bucket_assign_c10d(g, 2, twice, &limit, 1, &b, &err), LW_EINVAL);
    assert_string_equal(err.msg, "ready order: gradient 1 is listed twice");
    assert_int_equal(lw_bucket_assign_c10d(g, 2, outside, &limit, 1, &b, &err), LW_EINVAL);
    g[1].numel = INT64_MAX / 4 + 1;
    assert_int_equal(lw_bucket_assign_c10d(g, 2, NULL, &limit, 1, &b, &err), LW_EINVAL);
    assert_non_null(strstr(err.msg, "gradient 1"));
}

static struct lw_bucket_rules rules_of(enum lw_bucket_policy_id policy, int64_t cap, int64_t first,
                                       bool find_unused, bool static_graph)
{
    struct lw_bucket_request r = {policy, cap, first, find_unused, static_graph, false};
    struct lw_bucket_rules rules;
    struct lw_err err = {0};

    assert_int_equal(lw_bucket_rules(&r, &rules, &err), LW_OK);
    return rules;
}

TEST(limits_follow_the_generation)
{
    struct lw_bucket_rules r;

    r = rules_of(LW_BUCKET_C10D_2020, 4 << 20, -1, false, false);
    assert_int_equal(r.n_initial, 2);
    assert_int_equal(r.initial_limits[0], 1 << 20);
    assert_int_equal(r.initial_limits[1], 4 << 20);
    assert_int_equal(r.n_rebuilt, 0);
    assert_int_equal(r.used_map, LW_MAP_EACH);

    r = rules_of(LW_BUCKET_C10D_1_13, 4 << 20, -1, false, false);
    assert_int_equal(r.n_initial, 1);
    assert_true(r.initial_limits[0] == LW_BUCKET_NO_LIMIT);
    assert_int_equal(r.n_rebuilt, 2);
    assert_int_equal(r.rebuilt_limits[0], 1 << 20);
    assert_int_equal(r.rebuilt_limits[1], 4 << 20);
    assert_int_equal(r.n_initial_passes, 1);
    assert_int_equal(r.used_map, LW_MAP_NEVER);

    r = rules_of(LW_BUCKET_C10D_2, 4 << 20, -1, false, false); /* explicit cap: alone */
    assert_int_equal(r.n_rebuilt, 1);
    assert_int_equal(r.rebuilt_limits[0], 4 << 20);
    r = rules_of(LW_BUCKET_C10D_2, -1, -1, false, false); /* defaults: 1 MiB, 25 MiB */
    assert_int_equal(r.n_rebuilt, 2);
    assert_int_equal(r.rebuilt_limits[0], 1048576);
    assert_int_equal(r.rebuilt_limits[1], 26214400);
}

TEST(unused_detection_and_static_graphs_change_what_is_rebuilt)
{
    struct lw_bucket_rules r = rules_of(LW_BUCKET_C10D_1_13, -1, -1, true, false);
    struct lw_err err = {0};

    assert_int_equal(r.n_initial, 2);
    assert_int_equal(r.n_rebuilt, 0);
    assert_int_equal(r.used_map, LW_MAP_EACH);
    r = rules_of(LW_BUCKET_C10D_1_13, -1, -1, true, true);
    assert_true(r.initial_limits[0] == LW_BUCKET_NO_LIMIT);
    assert_int_equal(r.n_initial_passes, 2);
    assert_true(r.first_after_backward);
    assert_int_equal(r.used_map, LW_MAP_FIRST);

    struct lw_bucket_request old = {LW_BUCKET_C10D_2020, -1, -1, false, true, false};
    assert_int_equal(lw_bucket_rules(&old, &r, &err), LW_EINVAL);
    struct lw_bucket_request other = {LW_BUCKET_MG_WFBP, 100, -1, false, false, false};
    assert_int_equal(lw_bucket_rules(&other, &r, &err), LW_EINVAL);
    assert_non_null(strstr(err.msg, "mg-wfbp does not support --bucket-cap"));
}

/* Limits 4 and 8, five gradients of 4 bytes, ready as 0 1 2 3 4. From after: 4 closes at 4 bytes,
 * 3 2 and 1 0 at 8; the list is reversed, what lies inside a bucket is not. */
TEST(the_small_bucket_can_be_the_last)
{
    struct lw_bucket_request q = {LW_BUCKET_C10D_1_13, 8, 4, false, false, true};
    struct lw_grad g[] = {f32(1), f32(1), f32(1), f32(1), f32(1)};
    static const int32_t order[] = {0, 1, 2, 3, 4};
    struct lw_bucket_rules r;
    struct lw_bucketing b;
    struct lw_err err = {0};

    assert_int_equal(lw_bucket_rules(&q, &r, &err), LW_OK);
    assert_int_equal(lw_bucket_rebuilt(&r, g, 5, order, &b, &err), LW_OK);
    assert_string_equal(shown(&b), "1,0|3,2|4");
    assert_int_equal(b.limit_bytes[0], 8);
    assert_int_equal(b.limit_bytes[2], 4);
    lw_bucketing_free(&b);
    q.last_cap = false;
    assert_int_equal(lw_bucket_rules(&q, &r, &err), LW_OK);
    assert_int_equal(lw_bucket_rebuilt(&r, g, 5, order, &b, &err), LW_OK);
    assert_string_equal(shown(&b), "0|1,2|3,4");
    lw_bucketing_free(&b);
    assert_int_equal(lw_bucket_initial(&r, g, 5, order, &b, &err), LW_OK);
    assert_string_equal(shown(&b), "0,1,2,3,4"); /* before the rebuild it changes nothing */
    lw_bucketing_free(&b);
    q.last_cap = true;
    q.policy = LW_BUCKET_C10D_2020;
    assert_int_equal(lw_bucket_rules(&q, &r, &err), LW_EINVAL);
    assert_string_equal(err.msg,
                        "--bucket-policy c10d-2020 does not support --last-bucket-cap on; these "
                        "do: c10d-1.13, c10d-2");
    q.policy = LW_BUCKET_SINGLE;
    assert_int_equal(lw_bucket_rules(&q, &r, &err), LW_EINVAL);
    q.policy = LW_BUCKET_C10D_2;
    q.find_unused = true;
    assert_int_equal(lw_bucket_rules(&q, &r, &err), LW_EINVAL);
    assert_non_null(strstr(err.msg, "leave out --find-unused on"));
    q.static_graph = true; /* rebuilds all the same */
    assert_int_equal(lw_bucket_rules(&q, &r, &err), LW_OK);
}

/* The published buckets of ResNet-50 under DDP: the gradients in reverse registration order with
 * [1 MiB, 25 MiB]. The first closes after the classifier: 4 * (1000 + 2,048,000) = 8,196,000. */
TEST(resnet50_gives_the_five_sizes_of_its_recorded_step)
{
    static const int64_t expected[] = {8196000, 31502336, 26255360, 26550272, 9724160};
    struct lw_bucket_rules r = rules_of(LW_BUCKET_C10D_2, -1, -1, false, false);
    int64_t numel[RESNET50_PARAMS];
    int32_t n = resnet50_sizes(numel), order[RESNET50_PARAMS];
    struct lw_grad g[RESNET50_PARAMS];
    struct lw_bucketing b;
    struct lw_err err = {0};

    assert_int_equal(n, RESNET50_PARAMS);
    for (int32_t i = 0; i < n; i++) {
        g[i] = f32(numel[i]);
        order[i] = n - 1 - i;
    }
    assert_int_equal(lw_bucket_rebuilt(&r, g, n, order, &b, &err), LW_OK);
    assert_int_equal(b.n_buckets, 5);
    for (int32_t i = 0; i < 5; i++)
        assert_int_equal(bytes_of(&b, i, g), expected[i]);
    lw_bucketing_free(&b);

    assert_int_equal(lw_bucket_initial(&r, g, n, order, &b, &err), LW_OK);
    assert_int_equal(b.n_buckets, 1); /* before the rebuild: all in one */
    assert_int_equal(bytes_of(&b, 0, g), 102228128);
    lw_bucketing_free(&b);
}

TEST(the_2020_list_is_reversed_so_the_small_bucket_comes_last)
{
    struct lw_bucket_rules r = rules_of(LW_BUCKET_C10D_2020, 8, 4, false, false);
    struct lw_grad g[] = {f32(1), f32(1), f32(1), f32(1)};
    struct lw_bucketing b;
    struct lw_err err = {0};

    assert_int_equal(lw_bucket_initial(&r, g, 4, NULL, &b, &err), LW_OK);
    assert_string_equal(shown(&b), "3|1,2|0");
    assert_int_equal(b.limit_bytes[2], 4);
    lw_bucketing_free(&b);
}

TEST(per_tensor_and_single_follow_the_ready_order)
{
    struct lw_grad g[] = {f32(1), f32(1), f32(1)};
    int32_t order[] = {1, 2, 0};
    struct lw_bucket_rules r = rules_of(LW_BUCKET_PER_TENSOR, -1, -1, false, false);
    struct lw_bucketing b;
    struct lw_err err = {0};

    assert_int_equal(lw_bucket_initial(&r, g, 3, order, &b, &err), LW_OK);
    assert_string_equal(shown(&b), "1|2|0");
    lw_bucketing_free(&b);
    r = rules_of(LW_BUCKET_SINGLE, -1, -1, false, false);
    assert_int_equal(lw_bucket_initial(&r, g, 3, order, &b, &err), LW_OK);
    assert_string_equal(shown(&b), "1,2,0");
    lw_bucketing_free(&b);
}

/* Every gradient in exactly one bucket; a bucket closes at its limit and not before. */
TEST(random_lists_are_partitioned_and_closed_on_time)
{
    struct prng x = prng_start("random lists are partitioned and closed on time");

    for (int round = 0; round < 300; round++) {
        struct lw_grad g[N_MAX];
        bool seen[N_MAX] = {false};
        struct lw_bucketing b;
        struct lw_err err = {0};
        int n = 1 + prng_below(&x, N_MAX);
        int64_t limits[2] = {prng_below(&x, 300), 0};
        limits[1] = prng_below(&x, 3000);
        for (int i = 0; i < n; i++) {
            g[i] = f32(prng_below(&x, 100));
            g[i].dtype = prng_below(&x, 2) ? LW_F32 : LW_BF16;
            g[i].device = prng_below(&x, 2);
            g[i].sparse = prng_below(&x, 9) == 0;
        }
        assert_int_equal(lw_bucket_assign_c10d(g, n, NULL, limits, 2, &b, &err), LW_OK);
        assert_int_equal(b.n_items, n);
        for (int32_t i = 0; i < b.n_buckets; i++) {
            int32_t last = b.items[b.first[i + 1] - 1];
            int64_t bytes = bytes_of(&b, i, g);
            int64_t before = bytes - g[last].numel * lw_dtype_size(g[last].dtype);
            assert_true(g[last].sparse || b.first[i + 1] == b.first[i] + 1 ||
                        before < b.limit_bytes[i]);
            for (int32_t k = b.first[i]; k < b.first[i + 1]; k++) {
                assert_false(seen[b.items[k]]);
                seen[b.items[k]] = true;
                assert_int_equal(g[b.items[k]].device, g[last].device);
                assert_int_equal(g[b.items[k]].dtype, g[last].dtype);
            }
        }
        lw_bucketing_free(&b);
    }
}

static void fill_order(struct prng *x, int32_t *order, int n)
{
    for (int i = 0; i < n; i++) {
        int at = prng_below(x, i + 1);
        order[i] = order[at];
        order[at] = i;
    }
}

/* One more gradient, of another dtype and without elements, is a bucket of its own after them. */
TEST(gradients_of_one_key_are_bucketed_as_beside_another_key)
{
    struct prng x = prng_start("gradients of one key are bucketed as beside another key");

    for (int round = 0; round < 300; round++) {
        struct lw_grad g[N_MAX + 1];
        int32_t order[N_MAX + 1];
        struct lw_bucketing a, b;
        struct lw_err err = {0};
        int n = 1 + prng_below(&x, N_MAX);
        bool ordered = prng_below(&x, 2);
        int64_t limits[2] = {1 + prng_below(&x, 300), 1 + prng_below(&x, 3000)};
        for (int i = 0; i < n; i++)
            g[i] = f32(prng_below(&x, 100));
        g[n] = f32(0);
        g[n].dtype = LW_BF16;
        fill_order(&x, order, n);
        order[n] = n;
        const int32_t *by = ordered ? order : NULL;
        assert_int_equal(lw_bucket_assign_c10d(g, n, by, limits, 2, &a, &err), LW_OK);
        assert_int_equal(lw_bucket_assign_c10d(g, n + 1, by, limits, 2, &b, &err), LW_OK);
        assert_int_equal(a.n_items, n);
        assert_int_equal(b.n_buckets, a.n_buckets + 1);
        assert_int_equal(b.n_open, a.n_open + 1);
        assert_memory_equal(a.items, b.items, (size_t)n * sizeof *a.items);
        assert_memory_equal(a.first, b.first, ((size_t)a.n_buckets + 1) * sizeof *a.first);
        assert_memory_equal(a.limit_bytes, b.limit_bytes,
                            (size_t)a.n_buckets * sizeof *a.limit_bytes);
        lw_bucketing_free(&a);
        lw_bucketing_free(&b);
        order[n - 1] = order[0]; /* twice, of two and more */
        if (n > 1)
            assert_int_equal(lw_bucket_assign_c10d(g, n, order, limits, 2, &a, &err), LW_EINVAL);
    }
}

TEST(a_failing_allocation_leaks_nothing)
{
    struct lw_grad g[] = {f32(1), f32(5), f32(1)};
    struct lw_bucket_rules r = rules_of(LW_BUCKET_C10D_1_13, 8, 4, true, false);
    struct lw_bucketing b = {0};
    struct lw_err err = {0};

    EACH_ALLOCATION_FAILS(2, lw_bucket_initial(&r, g, 3, NULL, &b, &err), b,
                          lw_bucketing_free(&b));
    assert_string_equal(err.msg, "out of memory");
}

/* The reducer's state machine: shared/bucket/reducer.h, docs/design/reducer.md. */
#include <stdio.h>
#include "tests/lib/unit.h"

#include "shared/bucket/reducer.h"
#include "tests/lib/failing_alloc.h"
#include "tests/lib/plans/strategy_words.h"
#include "tests/lib/prng.h"

/* Gradients 0..4: bucket 0 = {3, 4}, bucket 1 = {1, 2}, bucket 2 = {0}. */
static const int32_t bucket_of[] = {2, 1, 1, 0, 0};

static struct lw_reducer *fresh(enum lw_launch_order order)
{
    struct lw_reducer *r = NULL;
    struct lw_err err = {0};

    assert_int_equal(lw_reducer_new(5, bucket_of, 3, order, &r, &err), LW_OK);
    assert_int_equal(lw_reducer_begin(r, true, &err), LW_OK);
    return r;
}

/* Marks p and shows what is launched: "" or "0,1". */
static const char *mark(struct lw_reducer *r, int32_t p)
{
    static char text[64];
    int32_t launches[3], n;
    size_t at = 0;
    struct lw_err err = {0};

    assert_int_equal(lw_reducer_mark(r, p, launches, &n, &err), LW_OK);
    text[0] = 0;
    for (int32_t i = 0; i < n; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%d", i ? "," : "", launches[i]);
    return text;
}

/* In each backward, because each begins without marks. */
TEST(buckets_launch_when_their_last_gradient_is_ready)
{
    struct lw_reducer *r = fresh(LW_LAUNCH_IN_ORDER);

    for (int backward = 0; backward < 2; backward++) {
        assert_int_equal(lw_reducer_begin(r, true, NULL), LW_OK);
        assert_string_equal(mark(r, 4), "");
        assert_string_equal(mark(r, 3), "0");
        assert_string_equal(mark(r, 2), "");
        assert_string_equal(mark(r, 1), "1");
        assert_false(lw_reducer_finished(r));
        assert_string_equal(mark(r, 0), "2");
        assert_true(lw_reducer_finished(r));
    }
    lw_reducer_free(r);
}

TEST(in_order_a_late_bucket_holds_back_those_after_it)
{
    struct lw_reducer *r = fresh(LW_LAUNCH_IN_ORDER);

    assert_string_equal(mark(r, 0), ""); /* bucket 2 complete, must wait */
    assert_string_equal(mark(r, 3), "");
    assert_string_equal(mark(r, 1), "");
    assert_string_equal(mark(r, 2), ""); /* bucket 1 complete, must wait */
    assert_string_equal(mark(r, 4), "0,1,2");
    lw_reducer_free(r);
}

TEST(in_completion_order_each_launches_at_once)
{
    struct lw_reducer *r = fresh(LW_LAUNCH_COMPLETION);

    assert_string_equal(mark(r, 0), "2");
    assert_string_equal(mark(r, 3), "");
    assert_string_equal(mark(r, 4), "0");
    assert_string_equal(mark(r, 1), "");
    assert_string_equal(mark(r, 2), "1");
    assert_true(lw_reducer_finished(r));
    lw_reducer_free(r);
}

TEST(no_sync_launches_nothing_and_is_never_unfinished)
{
    struct lw_reducer *r = fresh(LW_LAUNCH_IN_ORDER);
    struct lw_err err = {0};

    assert_int_equal(lw_reducer_begin(r, false, &err), LW_OK);
    assert_string_equal(mark(r, 4), "");
    assert_string_equal(mark(r, 3), "");
    assert_string_equal(mark(r, 3), "");
    assert_int_equal(lw_reducer_begin(r, true, &err), LW_OK);
    assert_string_equal(mark(r, 4), "");
    assert_string_equal(mark(r, 3), "0");
    lw_reducer_free(r);
}

TEST(unused_gradients_count_as_ready_at_the_first_mark)
{
    struct lw_reducer *r = fresh(LW_LAUNCH_IN_ORDER);
    const int32_t unused[] = {0, 3};
    struct lw_err err = {0};

    assert_int_equal(lw_reducer_unused(r, unused, 2, &err), LW_OK);
    assert_string_equal(mark(r, 4), "0");
    assert_string_equal(mark(r, 2), "");
    assert_string_equal(mark(r, 1), "1,2"); /* bucket 2 holds only the unused gradient 0 */
    assert_int_equal(lw_reducer_unused(r, unused, 2, &err), LW_EINVAL);
    lw_reducer_free(r);
}

TEST(marking_twice_is_an_error_at_once)
{
    struct lw_reducer *r = fresh(LW_LAUNCH_IN_ORDER);
    int32_t launches[3], n;
    struct lw_err err = {0};

    mark(r, 4);
    assert_int_equal(lw_reducer_mark(r, 4, launches, &n, &err), LW_EFAILED);
    assert_string_equal(err.msg, "gradient 4 became ready twice in one backward");
    assert_int_equal(n, 0);
    assert_int_equal(lw_reducer_mark(r, 5, launches, &n, &err), LW_EFAILED);
    lw_reducer_free(r);
}

/* Bucket 0 = {3, 4}. Under the rules of 2020 the second mark of 3 counts for 4: the bucket leaves
 * without it, and the fault shows when 4 is marked honestly. */
TEST(c10d_of_2020_launches_early_on_a_double_mark)
{
    struct lw_reducer *r = fresh(LW_LAUNCH_IN_ORDER);
    int32_t launches[3], n;
    struct lw_err err = {0};

    lw_reducer_set_rules(r, LW_REDUCER_C10D_2020);
    assert_string_equal(mark(r, 3), "");
    assert_string_equal(mark(r, 3), "0");
    assert_int_equal(lw_reducer_unmarked(r, launches, 0), 4); /* 4 among them */
    assert_int_equal(lw_reducer_mark(r, 4, launches, &n, &err), LW_EFAILED);
    assert_string_equal(err.msg,
                        "gradient 4 became ready, but bucket 0 has left with as many marks "
                        "as it has gradients: one of them was marked twice in this "
                        "backward");
    lw_reducer_free(r);
    r = fresh(LW_LAUNCH_IN_ORDER);
    mark(r, 3);
    assert_int_equal(lw_reducer_mark(r, 3, launches, &n, &err), LW_EFAILED);
    assert_string_equal(err.msg, "gradient 3 became ready twice in one backward");
    lw_reducer_free(r);
}

TEST(rules_follow_compat_and_generation)
{
    struct lw_strategy s = strategy("bucket-policy c10d-2020");

    assert_int_equal(lw_reducer_rules_of(&s), LW_REDUCER_REPAIRED);
    s.compat = LW_COMPAT_C10D;
    assert_int_equal(lw_reducer_rules_of(&s), LW_REDUCER_C10D_2020);
    s.bucket_policy = LW_BUCKET_C10D_2;
    assert_int_equal(lw_reducer_rules_of(&s), LW_REDUCER_REPAIRED);
    s.compat = LW_COMPAT_PICOTRON;
    assert_int_equal(lw_reducer_rules_of(&s), LW_REDUCER_REPAIRED);
}

TEST(an_unfinished_backward_is_named_at_the_next_begin)
{
    struct lw_reducer *r = fresh(LW_LAUNCH_IN_ORDER);
    struct lw_err err = {0};
    int32_t missing[5];

    mark(r, 4);
    mark(r, 3);
    mark(r, 1);
    assert_int_equal(lw_reducer_begin(r, false, &err), LW_EFAILED); /* under no_sync too */
    assert_string_equal(err.msg, "the previous backward is unfinished: 1 of 3 buckets were "
                                 "launched, because gradients 0, 2 never became ready");
    assert_int_equal(lw_reducer_unmarked(r, missing, 5), 2);
    assert_int_equal(missing[0], 0);
    assert_int_equal(missing[1], 2);
    lw_reducer_free(r);
}

TEST(a_begin_without_a_single_mark_is_not_unfinished)
{
    struct lw_reducer *r = fresh(LW_LAUNCH_IN_ORDER);
    struct lw_err err = {0};

    assert_int_equal(lw_reducer_begin(r, true, &err), LW_OK); /* a forward without backward */
    lw_reducer_free(r);
}

TEST(refuses_empty_buckets_and_numbers_out_of_range)
{
    const int32_t holes[] = {0, 2}, outside[] = {0, 3};
    struct lw_reducer *r = NULL;
    struct lw_err err = {0};

    assert_int_equal(lw_reducer_new(2, holes, 3, LW_LAUNCH_IN_ORDER, &r, &err), LW_EINVAL);
    assert_string_equal(err.msg, "bucket 1 holds no gradient");
    assert_int_equal(lw_reducer_new(2, outside, 3, LW_LAUNCH_IN_ORDER, &r, &err), LW_EINVAL);
    assert_string_equal(err.msg, "gradient 1 is in bucket 3 of 3");
    assert_null(r);
}

/* Over any ready order: every bucket exactly once, in order 0, 1, 2, ..., and never before all of
 * its gradients are ready. */
TEST(random_orders_launch_every_bucket_once_and_in_order)
{
    enum { N = 40, B = 7 };
    uint64_t x = 11;
    struct lw_err err = {0};

    print_message("seed %llu\n", (unsigned long long)x);
    for (int round = 0; round < 500; round++) {
        int32_t of[N], order[N], launches[B], n, next = 0;
        bool ready[N] = {false};
        struct lw_reducer *r;
        for (int32_t i = 0; i < N; i++) {
            of[i] = i < B ? i : (int32_t)((x = x * 6364136223846793005u + 1) >> 33) % B;
            order[i] = i;
        }
        for (int32_t i = N - 1; i > 0; i--) {
            int32_t j = (int32_t)((x = x * 6364136223846793005u + 1) >> 33) % (i + 1);
            int32_t t = order[i];
            order[i] = order[j];
            order[j] = t;
        }
        assert_int_equal(lw_reducer_new(N, of, B, LW_LAUNCH_IN_ORDER, &r, &err), LW_OK);
        assert_int_equal(lw_reducer_begin(r, true, &err), LW_OK);
        for (int32_t i = 0; i < N; i++) {
            assert_int_equal(lw_reducer_mark(r, order[i], launches, &n, &err), LW_OK);
            ready[order[i]] = true;
            for (int32_t k = 0; k < n; k++) {
                assert_int_equal(launches[k], next++);
                for (int32_t p = 0; p < N; p++)
                    assert_true(of[p] != launches[k] || ready[p]);
            }
        }
        assert_int_equal(next, B);
        lw_reducer_free(r);
    }
}

/* Lists of random lengths launch what their gradients launch one after the other, in every order
 * and under both rules. */
TEST(a_list_launches_what_its_gradients_launch)
{
    enum { N = 40, B = 7 };
    struct prng x = prng_start("lists of ready gradients");
    struct lw_err err = {0};

    for (int round = 0; round < 500; round++) {
        int32_t of[N], order[N], launches[B], one[B], n, n_of_one;
        enum lw_launch_order how = round % 2 ? LW_LAUNCH_COMPLETION : LW_LAUNCH_IN_ORDER;
        struct lw_reducer *r[2];
        for (int32_t i = 0; i < N; i++) {
            of[i] = i < B ? i : prng_below(&x, B);
            order[i] = i;
        }
        for (int32_t i = N - 1, j; i > 0; i--) {
            int32_t t = order[i];
            j = prng_below(&x, i + 1);
            order[i] = order[j];
            order[j] = t;
        }
        int32_t n_unused = prng_below(&x, 4);
        for (int k = 0; k < 2; k++) {
            assert_int_equal(lw_reducer_new(N, of, B, how, &r[k], &err), LW_OK);
            lw_reducer_set_rules(r[k], round % 4 < 2 ? LW_REDUCER_REPAIRED : LW_REDUCER_C10D_2020);
            assert_int_equal(lw_reducer_begin(r[k], true, &err), LW_OK);
            assert_int_equal(lw_reducer_unused(r[k], order, n_unused, &err), LW_OK);
        }
        for (int32_t i = n_unused, length; i < N; i += length) {
            int32_t next = 0;
            length = prng_below(&x, N - i + 1);
            assert_int_equal(lw_reducer_mark_list(r[0], order + i, length, launches, &n, &err),
                             LW_OK);
            for (int32_t p = i; p < i + length; p++) {
                assert_int_equal(lw_reducer_mark(r[1], order[p], one, &n_of_one, &err), LW_OK);
                for (int32_t k = 0; k < n_of_one; k++)
                    assert_int_equal(launches[next++], one[k]);
            }
            assert_int_equal(next, n);
            assert_int_equal(lw_reducer_unmarked(r[0], NULL, 0),
                             lw_reducer_unmarked(r[1], NULL, 0));
        }
        assert_true(lw_reducer_finished(r[0]));
        lw_reducer_free(r[0]);
        lw_reducer_free(r[1]);
    }
}

TEST(a_failing_allocation_leaks_nothing)
{
    struct lw_reducer *r = NULL;
    struct lw_err err = {0};

    EACH_ALLOCATION_FAILS(1, lw_reducer_new(5, bucket_of, 3, LW_LAUNCH_IN_ORDER, &r, &err), r,
                          lw_reducer_free(r));
}

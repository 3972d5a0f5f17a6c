/* The event queue against a sorted reference. */
#include "tests/lib/unit.h"

#include "shared/base/arena.h"
#include "sim/engine/queue.h"
#include "tests/lib/prng.h"

TEST(empty_queue_gives_nothing)
{
    struct sim_queue q = {0};
    struct sim_event e = {7, 7};

    assert_int_equal(sim_queue_pop(&q, &e), 0);
    assert_int_equal(e.time, 7);
    assert_false(sim_queue_more_now(&q));
    sim_queue_free(&q);
}

TEST(equal_times_leave_in_push_order)
{
    static const struct {
        lw_ps time;
        uint64_t what;
    } pushes[] = {{50, 1}, {20, 2}, {50, 3}, {0, 4}, {20, 5}, {50, 6}, {0, 7}};
    static const uint64_t expected[] = {4, 7, 2, 5, 1, 3, 6};
    struct sim_queue q = {0};
    struct sim_event e;

    for (size_t i = 0; i < 7; i++)
        assert_int_equal(sim_queue_push(&q, pushes[i].time, pushes[i].what), 0);
    for (size_t i = 0; i < 7; i++) {
        assert_int_equal(sim_queue_pop(&q, &e), 1);
        assert_int_equal(e.what, expected[i]);
    }
    assert_int_equal(sim_queue_pop(&q, &e), 0);
    sim_queue_free(&q);
}

TEST(an_event_pushed_now_comes_after_those_of_now)
{
    struct sim_queue q = {0};
    struct sim_event e;

    sim_queue_push(&q, 100, 1);
    sim_queue_push(&q, 100, 2);
    sim_queue_push(&q, 101, 3);
    sim_queue_pop(&q, &e);
    assert_true(sim_queue_more_now(&q));
    sim_queue_push(&q, 100, 4);
    sim_queue_pop(&q, &e);
    assert_int_equal(e.what, 2);
    sim_queue_pop(&q, &e);
    assert_int_equal(e.what, 4);
    assert_false(sim_queue_more_now(&q));
    sim_queue_pop(&q, &e);
    assert_int_equal(e.what, 3);
    sim_queue_free(&q);
}

TEST(the_largest_time_is_kept_apart)
{
    struct sim_queue q = {0};
    struct sim_event e;

    sim_queue_push(&q, INT64_MAX, 1);
    sim_queue_push(&q, INT64_MAX - 1, 2);
    sim_queue_push(&q, INT64_MAX / 2, 3);
    sim_queue_pop(&q, &e);
    assert_int_equal(e.what, 3);
    sim_queue_pop(&q, &e);
    assert_int_equal(e.what, 2);
    sim_queue_pop(&q, &e);
    assert_int_equal(e.what, 1);
    assert_true(e.time == INT64_MAX);
    sim_queue_free(&q);
}

/* The reference: an unsorted list; least time first, then least number (numbers grow by push). */
struct reference {
    struct sim_event items[4096];
    int n;
};

static struct sim_event take_least(struct reference *r)
{
    int best = 0;

    for (int i = 1; i < r->n; i++)
        if (r->items[i].time < r->items[best].time ||
            (r->items[i].time == r->items[best].time && r->items[i].what < r->items[best].what))
            best = i;
    struct sim_event e = r->items[best];
    r->items[best] = r->items[--r->n];
    return e;
}

TEST(random_loads_match_the_sorted_reference)
{
    static struct reference r;
    struct prng x = prng_start("loads of the queue");

    for (int round = 0; round < 40; round++) {
        struct sim_queue q = {0};
        struct sim_event e, expected;
        uint64_t number = 0;
        lw_ps now = 0, spread = (lw_ps)1 << (prng_next(&x) % 50);
        r.n = 0;
        for (int i = 0; i < 3000; i++) {
            if (prng_next(&x) % 5 < 3 && r.n < 4096) {
                lw_ps t = now + (lw_ps)(prng_next(&x) % (uint64_t)spread);
                assert_int_equal(sim_queue_push(&q, t, number), 0);
                r.items[r.n++] = (struct sim_event){t, number++};
            } else if (r.n > 0) {
                expected = take_least(&r);
                assert_int_equal(sim_queue_pop(&q, &e), 1);
                assert_true(e.time == expected.time);
                assert_true(e.what == expected.what);
                now = e.time;
            }
            assert_int_equal(q.n, r.n);
        }
        while (r.n > 0) {
            expected = take_least(&r);
            assert_int_equal(sim_queue_pop(&q, &e), 1);
            assert_true(e.what == expected.what);
        }
        assert_int_equal(sim_queue_pop(&q, &e), 0);
        sim_queue_free(&q);
    }
}

TEST(a_grown_queue_allocates_no_more)
{
    struct sim_queue q = {0};
    struct sim_event e;

    for (int round = 0; round < 2; round++) {
        if (round == 1)
            lw_alloc_fail_at(1); /* any allocation now fails */
        for (uint64_t i = 0; i < 1000; i++)
            assert_int_equal(sim_queue_push(&q, q.now + (lw_ps)(i * 37 % 1024), i), 0);
        while (sim_queue_pop(&q, &e) == 1)
            ;
        lw_alloc_fail_at(0);
        /* the next round begins at a time with the same low bits, so the buckets fill alike */
        assert_int_equal(sim_queue_push(&q, (q.now | 0xfffff) + 1, 0), 0);
        assert_int_equal(sim_queue_pop(&q, &e), 1);
    }
    sim_queue_free(&q);
}

TEST(failed_allocation_is_reported_and_leaks_nothing)
{
    int64_t live = lw_alloc_live();
    int failures = 0;

    for (int64_t n = 1;; n++) {
        struct sim_queue q = {0};
        struct sim_event e;
        int status = 0, got = 1;
        lw_alloc_fail_at(n);
        for (uint64_t i = 0; i < 200 && status == 0; i++)
            status = sim_queue_push(&q, (lw_ps)(i * 7919 % 5000), i);
        while (status == 0 && got == 1)
            got = sim_queue_pop(&q, &e);
        lw_alloc_fail_at(0);
        sim_queue_free(&q);
        assert_int_equal(lw_alloc_live(), live);
        if (status == 0 && got == 0)
            break;
        failures++;
    }
    assert_true(failures > 3);
}

TEST(hold_model_depends_on_its_seed_alone)
{
    assert_true(sim_queue_hold(64, 10000, 1000, 1) == sim_queue_hold(64, 10000, 1000, 1));
    assert_true(sim_queue_hold(64, 10000, 1000, 1) != sim_queue_hold(64, 10000, 1000, 2));
}

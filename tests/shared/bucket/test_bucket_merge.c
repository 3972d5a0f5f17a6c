/* Buckets chosen by time: shared/bucket/bucket_merge.h. The example of docs/design/bucket_merge.md,
 * and the optimum against all ways to cut small inputs, under costs of many shapes. */
#include <stdio.h>
#include "tests/lib/unit.h"

#include "shared/bucket/bucket_merge.h"
#include "tests/lib/failing_alloc.h"
#include "tests/lib/prng.h"

enum { N_MAX = 10, BYTES_MAX = 400 };

/* start + bytes * slope */
struct affine {
    lw_ps start, slope;
};

static lw_ps affine_time(const void *ctx, const struct lw_cost_query *q)
{
    const struct affine *a = ctx;

    return a->start + q->bytes * a->slope;
}

/* "2,1,4": gradients per bucket, in ready order */
static const char *shown(const struct lw_bucketing *b)
{
    static char text[256];
    size_t at = 0;

    text[0] = 0;
    for (int32_t i = 0; i < b->n_buckets; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%d", i ? "," : "",
                               b->first[i + 1] - b->first[i]);
    return text;
}

TEST(example_of_the_design_page)
{
    /* cost 3 + bytes. Each alone: 1..5, 5..9, 9..16, end 16. 1 and 2 together: start 2, end 7, then
     * 7..14. All: 4 + 3 + 6 = 13. 1 alone 1..5, 2 and 3 together: start 5, end 5 + 3 + 5 = 13. Of
     * the two that end at 13 the last bucket begins later in 1 | 2 3. MG-WFBP: gradient 1 could end
     * at 5, the next is ready at 2: waiting costs 1 < 3, merge; the pair starts at 2, ends at 7,
     * the next is ready at 4: waiting costs 2 < 3, merge: 13 too. */
    static const int64_t bytes[] = {1, 1, 4};
    static const lw_ps ready[] = {1, 2, 4};
    static const struct affine a = {3, 1};
    static const int32_t each[] = {0, 1, 2, 3}, pair[] = {0, 2, 3}, all[] = {0, 3};
    struct lw_cost cost = {.time = affine_time, .ctx = &a};
    struct lw_merge m = {.n = 3, .bytes = bytes, .ready = ready, .cost = &cost};
    struct lw_bucketing b;
    struct lw_err err;
    lw_ps end;

    assert_int_equal(lw_merge_end(&m, each, 3, &end, &err), LW_OK);
    assert_int_equal(end, 16);
    assert_int_equal(lw_merge_end(&m, pair, 2, &end, &err), LW_OK);
    assert_int_equal(end, 14);
    assert_int_equal(lw_merge_end(&m, all, 1, &end, &err), LW_OK);
    assert_int_equal(end, 13);
    assert_int_equal(lw_bucket_optimal(&m, &b, &end, &err), LW_OK);
    assert_string_equal(shown(&b), "1,2");
    assert_int_equal(end, 13);
    lw_bucketing_free(&b);
    assert_int_equal(lw_bucket_mg_wfbp(&m, &b, &end, &err), LW_OK);
    assert_string_equal(shown(&b), "3");
    assert_int_equal(end, 13);
    lw_bucketing_free(&b);
}

TEST(the_next_forward_prefers_small_last_buckets)
{
    /* cost 1 + bytes both ways; gradients of 4, 4 ready at 0, 0; forward of the first ready (deep)
     * module 20, of the second 1. One bucket: reduce 9, gather 9, forward 21: 39. Two: reduces 5,
     * 10; the shallow module is gathered first, 15, runs to 16; the deep one is gathered at 20,
     * runs to 40. So one bucket is better; with forwards 1 and 20: two end at max(15 + 20, 20) + 1
     * = 36. */
    static const int64_t bytes[] = {4, 4};
    static const lw_ps ready[] = {0, 0}, deep[] = {20, 1}, shallow[] = {1, 20};
    static const struct affine a = {1, 1};
    static const int32_t each[] = {0, 1, 2}, all[] = {0, 2};
    struct lw_cost cost = {.time = affine_time, .ctx = &a};
    struct lw_merge m = {.n = 2, .bytes = bytes, .ready = ready, .cost = &cost, .forward = deep};
    struct lw_bucketing b;
    struct lw_err err;
    lw_ps end;

    assert_int_equal(lw_merge_end(&m, each, 2, &end, &err), LW_OK);
    assert_int_equal(end, 40);
    assert_int_equal(lw_merge_end(&m, all, 1, &end, &err), LW_OK);
    assert_int_equal(end, 39);
    assert_int_equal(lw_bucket_optimal(&m, &b, &end, &err), LW_OK);
    assert_string_equal(shown(&b), "2");
    lw_bucketing_free(&b);
    m.forward = shallow;
    assert_int_equal(lw_bucket_optimal(&m, &b, &end, &err), LW_OK);
    assert_string_equal(shown(&b), "1,1");
    assert_int_equal(end, 36);
    lw_bucketing_free(&b);
    m.between = 5;
    assert_int_equal(lw_bucket_optimal(&m, &b, &end, &err), LW_OK);
    assert_int_equal(end, 41);
    lw_bucketing_free(&b);
}

TEST(refusals_name_gradient_and_value)
{
    static const int64_t bytes[] = {1, -1}, good[] = {1, 1};
    static const lw_ps ready[] = {5, 4}, fine[] = {4, 5};
    static const struct affine grows = {100, 1}, below = {-5, 1};
    static const int32_t gap[] = {0, 1}, none[] = {0, 0, 2};
    struct lw_cost cost = {.time = affine_time, .ctx = &grows};
    struct lw_merge m = {.n = 2, .bytes = bytes, .ready = fine};
    struct lw_bucketing b;
    struct lw_err err;
    lw_ps end;

    assert_int_equal(lw_bucket_optimal(&m, &b, &end, &err), LW_EINVAL);
    assert_string_equal(err.msg, "buckets chosen by time need a cost: give a cluster");
    m.cost = &cost;
    assert_int_equal(lw_bucket_mg_wfbp(&m, &b, &end, &err), LW_EINVAL);
    assert_string_equal(err.msg,
                        "gradient 1 has -1 bytes, allowed: 0 or more, together below 2^63");
    m.bytes = good;
    m.ready = ready;
    assert_int_equal(lw_bucket_optimal(&m, &b, &end, &err), LW_EINVAL);
    assert_string_equal(err.msg,
                        "gradient 1 is ready at 4, allowed: 5 (the one before it) to 2^60");
    m.ready = (const lw_ps[]){0, 0};
    cost.ctx = &below;
    assert_int_equal(lw_bucket_optimal(&m, &b, &end, &err), LW_EINVAL);
    assert_string_equal(err.msg, "the cost of 1 bytes is -4, allowed: 0 to 2^60");
    assert_int_equal(lw_merge_end(&m, gap, 1, &end, &err), LW_EINVAL);
    assert_string_equal(err.msg, "the buckets do not hold the 2 gradients");
    assert_int_equal(lw_merge_end(&m, none, 2, &end, &err), LW_EINVAL);
    m.n = 0;
    assert_int_equal(lw_bucket_optimal(&m, &b, &end, &err), LW_EINVAL);
    assert_string_equal(err.msg, "no gradients to put into buckets");
}

/* Any cost: a table with one value per number of bytes, one for each op. */
struct steps {
    lw_ps reduce[BYTES_MAX], gather[BYTES_MAX];
};

static lw_ps steps_time(const void *ctx, const struct lw_cost_query *q)
{
    const struct steps *s = ctx;

    return q->op == LW_OP_ALL_GATHER ? s->gather[q->bytes] : s->reduce[q->bytes];
}

static void draw_steps(struct prng *r, struct steps *s)
{
    int64_t shape = prng_in(r, 0, 2);
    lw_ps t = prng_in(r, 0, 30), g = prng_in(r, 0, 30);

    for (int i = 0; i < BYTES_MAX; i++) {
        s->reduce[i] = t;
        s->gather[i] = g;
        t += shape == 0 ? 1 : shape == 1 ? (prng_in(r, 0, 9) == 0) * prng_in(r, 0, 60) : i / 20;
        g += prng_in(r, 0, 2);
    }
}

static lw_ps brute_force(const struct lw_merge *m)
{
    lw_ps best = INT64_MAX, end;
    struct lw_err err;

    for (uint32_t mask = 0; mask < 1u << (m->n - 1); mask++) {
        int32_t first[N_MAX + 1] = {0}, n = 1;
        for (int32_t i = 1; i < m->n; i++)
            if (mask >> (i - 1) & 1)
                first[n++] = i;
        first[n] = m->n;
        assert_int_equal(lw_merge_end(m, first, n, &end, &err), LW_OK);
        best = end < best ? end : best;
    }
    return best;
}

TEST(optimal_equals_brute_force_under_any_cost)
{
    struct prng r = prng_start(__func__);

    for (int i = 0; i < 1500; i++) {
        static struct steps s;
        int64_t bytes[N_MAX];
        lw_ps ready[N_MAX], forward[N_MAX], t = 0, end, greedy;
        struct lw_cost cost = {.time = steps_time, .ctx = &s};
        struct lw_merge m = {.n = (int32_t)prng_in(&r, 1, N_MAX), .bytes = bytes, .ready = ready,
                             .cost = &cost, .query = {.op = LW_OP_ALL_REDUCE}};
        struct lw_bucketing b;
        struct lw_err err;
        draw_steps(&r, &s);
        if (prng_in(&r, 0, 1)) /* it falls somewhere */
            s.reduce[prng_in(&r, 1, BYTES_MAX - 1)] = prng_in(&r, 0, 9);
        for (int k = 0; k < m.n; k++) {
            bytes[k] = prng_in(&r, 0, 39);
            ready[k] = t += prng_in(&r, 0, 3) ? prng_in(&r, 0, 40) : 0;
            forward[k] = prng_in(&r, 0, 60);
        }
        if (prng_in(&r, 0, 1)) {
            m.forward = forward;
            m.between = prng_in(&r, 0, 50);
        }
        assert_int_equal(lw_bucket_optimal(&m, &b, &end, &err), LW_OK);
        assert_int_equal(end, brute_force(&m));
        assert_int_equal(b.first[b.n_buckets], m.n);
        for (int32_t k = 0; k < m.n; k++)
            assert_int_equal(b.items[k], k);
        lw_bucketing_free(&b);
        assert_int_equal(lw_bucket_mg_wfbp(&m, &b, &greedy, &err), LW_OK);
        assert_true(greedy >= end);
        assert_int_equal(b.first[b.n_buckets], m.n);
        lw_bucketing_free(&b);
    }
}

static lw_ps dent_time(const void *ctx, const struct lw_cost_query *q)
{
    (void)ctx;
    return q->bytes == 700 ? 1 : 50 + q->bytes;
}

/* Of one byte and ready together, but for the last: whether 700 bytes, which cost least, are taken
 * is seen only by who looks at buckets after which the channel idles. */
TEST(many_gradients_under_a_cost_that_falls)
{
    enum { N = LW_MERGE_EVERY + 100 };
    static int64_t bytes[N];
    static lw_ps ready[N], best[N + 1];
    struct lw_cost cost = {.time = dent_time};
    struct lw_merge m = {.n = N, .bytes = bytes, .ready = ready, .cost = &cost};
    struct lw_bucketing b;
    lw_ps end;

    for (int i = 0; i < N; i++) {
        bytes[i] = 1;
        ready[i] = i < N / 2 ? 0 : 100000 + 3 * i;
    }
    for (int i = 1; i <= N; i++) {
        best[i] = INT64_MAX;
        for (int j = 0; j < i; j++) {
            struct lw_cost_query q = {.bytes = i - j};
            lw_ps from = best[j] > ready[i - 1] ? best[j] : ready[i - 1];
            lw_ps now = from + dent_time(NULL, &q);
            best[i] = now < best[i] ? now : best[i];
        }
    }
    assert_int_equal(lw_bucket_optimal(&m, &b, &end, NULL), LW_OK);
    assert_int_equal(end, best[N]);
    lw_bucketing_free(&b);
}

/* start + bytes / rate, less where it falls: once from a size on (a protocol that sets in late), or
 * again and again (teeth, which are narrow beside what many gradients sum to); or in steps. */
struct falling {
    int64_t start, rate, from, drop, tooth, step, n_asked;
};

static lw_ps falling_time(const void *ctx, const struct lw_cost_query *q)
{
    const struct falling *f = ctx;
    int64_t bytes = f->step ? (q->bytes + f->step - 1) / f->step * f->step : q->bytes;
    lw_ps t = f->start + bytes / f->rate;

    ((struct falling *)(uintptr_t)ctx)->n_asked++;
    if (f->from && q->bytes >= f->from)
        t -= f->drop;
    if (f->tooth)
        t -= q->bytes % f->tooth / f->rate * 2;
    return t > 0 ? t : 0;
}

static struct falling draw_falling(struct prng *r, int64_t sum)
{
    struct falling f = {.start = prng_in(r, 0, 40000), .rate = prng_in(r, 1, 50)};
    int shape = prng_below(r, 5);

    if (shape == 1) {
        f.from = prng_in(r, 1, sum);
        f.drop = prng_in(r, 0, f.start + f.from / f.rate);
    }
    if (shape == 2)
        f.tooth = sum / prng_in(r, 2, 9) + 1;
    if (shape == 3)
        f.step = prng_in(r, 1, sum / 20 + 1);
    return f;
}

/* The recurrence as it is written, of equally good j the last. */
static void by_recurrence(const struct lw_merge *m, lw_ps *best, int32_t *from)
{
    best[0] = 0;
    for (int32_t i = 1; i <= m->n; i++) {
        struct lw_cost_query q = {.bytes = 0};
        best[i] = INT64_MAX;
        for (int32_t j = i - 1; j >= 0; j--) {
            q.bytes += m->bytes[j];
            lw_ps begin = best[j] > m->ready[i - 1] ? best[j] : m->ready[i - 1];
            lw_ps now = begin + m->cost->time(m->cost->ctx, &q);
            from[i] = now < best[i] ? j : from[i];
            best[i] = now < best[i] ? now : best[i];
        }
    }
}

/* When the last of these buckets ends, one after the other, each after its last gradient. */
static lw_ps end_of(const struct lw_merge *m, const struct lw_bucketing *b)
{
    lw_ps end = 0;

    for (int32_t k = 0; k < b->n_buckets; k++) {
        struct lw_cost_query q = {.bytes = 0};
        for (int32_t i = b->first[k]; i < b->first[k + 1]; i++)
            q.bytes += m->bytes[i];
        lw_ps ready = m->ready[b->first[k + 1] - 1];
        end = (end > ready ? end : ready) + m->cost->time(m->cost->ctx, &q);
    }
    return end;
}

TEST(many_gradients_have_the_buckets_of_the_recurrence)
{
    enum { N = LW_MERGE_EVERY + 60 };
    static int64_t bytes[N];
    static lw_ps ready[N], best[N + 1];
    static int32_t from[N + 1];
    struct prng r = prng_start(__func__);
    int64_t all = 0, asked = 0;

    for (int i = 0; i < unit_cases(24, 200); i++) {
        static const int64_t gaps[] = {0, 300, 5000, 100000};
        int64_t largest = prng_in(&r, 1, 100000), gap = gaps[prng_below(&r, 4)], sum = 0;
        struct lw_bucketing b;
        lw_ps t = 0, end;
        for (int k = 0; k < N; k++) {
            bytes[k] = prng_below(&r, 3) ? prng_in(&r, 0, largest) : largest;
            sum += bytes[k];
            ready[k] = t += prng_below(&r, 3) == 0 ? prng_in(&r, 0, gap) : 0;
        }
        struct falling f = draw_falling(&r, sum);
        struct lw_cost cost = {.time = falling_time, .ctx = &f};
        struct lw_merge m = {.n = N, .bytes = bytes, .ready = ready, .cost = &cost};
        assert_int_equal(lw_bucket_optimal(&m, &b, &end, NULL), LW_OK);
        asked += f.n_asked;
        f.n_asked = 0;
        by_recurrence(&m, best, from);
        all += f.n_asked;
        if (end != best[N])
            fail_msg("case %d: ends at %lld, by the recurrence at %lld", i, (long long)end,
                     (long long)best[N]);
        assert_int_equal(end_of(&m, &b), end);
        int32_t at = N;
        /* where a cost falls between the sizes that were asked, another of equally good ones */
        for (int32_t k = b.n_buckets; k > 0 && !f.from && !f.tooth; at = from[at], k--)
            assert_int_equal(b.first[k], at);
        assert_true(at == 0 || f.from || f.tooth);
        lw_bucketing_free(&b);
    }
    printf("%lld of %lld costs were asked\n", (long long)asked, (long long)all);
    assert_true(asked < all / 20);
}

TEST(three_hundred_gradients_with_the_next_forward_are_searched)
{
    enum { N = 300 };
    static int64_t bytes[N];
    static lw_ps ready[N], forward[N];
    static const struct affine a = {20000, 3};
    struct prng r = prng_start(__func__);
    struct lw_cost cost = {.time = affine_time, .ctx = &a};
    struct lw_merge m = {.n = N, .bytes = bytes, .ready = ready, .cost = &cost, .forward = forward};
    struct lw_bucketing b;
    struct lw_err err;
    lw_ps t = 0, end, single, greedy;

    for (int i = 0; i < N; i++) {
        bytes[i] = prng_in(&r, 1, 20000);
        ready[i] = t += prng_in(&r, 0, 60000);
        forward[i] = prng_in(&r, 0, 30000);
    }
    assert_int_equal(lw_bucket_optimal(&m, &b, &end, &err), LW_OK);
    lw_bucketing_free(&b);
    assert_int_equal(lw_bucket_mg_wfbp(&m, &b, &greedy, &err), LW_OK);
    lw_bucketing_free(&b);
    assert_int_equal(lw_merge_end(&m, (int32_t[]){0, N}, 1, &single, &err), LW_OK);
    assert_true(end <= greedy && end <= single);
    /* never below the backward, one gather and the forward of the last module */
    assert_true(end >= ready[N - 1] + forward[0]);
}

TEST(failing_allocations_of_a_search_leak_nothing)
{
    enum { N = LW_MERGE_EVERY + 2 };
    static int64_t bytes[N];
    static lw_ps ready[N];
    static const struct affine a = {3, 1};
    struct lw_cost cost = {.time = affine_time, .ctx = &a};
    struct lw_merge m = {.n = N, .bytes = bytes, .ready = ready, .cost = &cost};
    struct lw_bucketing b = {.n_buckets = -7};
    struct lw_err err;

    for (int i = 0; i < N; i++) {
        bytes[i] = 1 + i % 7;
        ready[i] = i;
    }
    EACH_ALLOCATION_FAILS(10, lw_bucket_optimal(&m, &b, NULL, &err), b, lw_bucketing_free(&b));
}

TEST(failing_allocations_leak_nothing)
{
    static const int64_t bytes[] = {1, 1, 4};
    static const lw_ps ready[] = {1, 2, 4}, forward[] = {1, 1, 1};
    static const struct affine a = {3, 1};
    struct lw_cost cost = {.time = affine_time, .ctx = &a};
    struct lw_merge m = {.n = 3, .bytes = bytes, .ready = ready, .cost = &cost};
    struct lw_bucketing b = {.n_buckets = -7};
    struct lw_err err;

    EACH_ALLOCATION_FAILS(1, lw_bucket_mg_wfbp(&m, &b, NULL, &err), b, lw_bucketing_free(&b));
    b = (struct lw_bucketing){.n_buckets = -7};
    EACH_ALLOCATION_FAILS(1, lw_bucket_optimal(&m, &b, NULL, &err), b, lw_bucketing_free(&b));
    m.forward = forward;
    b = (struct lw_bucketing){.n_buckets = -7};
    EACH_ALLOCATION_FAILS(1, lw_bucket_optimal(&m, &b, NULL, &err), b, lw_bucketing_free(&b));
}

/* Modules to stages: shared/partition/partition.h. The examples of docs/design/partition.md are
 * here with the same numbers; optimality is compared with all partitions of small inputs. */
#include <stdio.h>
#include <string.h>
#include "tests/lib/unit.h"

#include "shared/partition/partition.h"
#include "tests/lib/failing_alloc.h"
#include "tests/lib/prng.h"

enum { N_MAX = 12 };

/* The parts tile the items in the order of part numbers. */
static enum lw_status partition_check(const struct lw_partitioning *p, struct lw_err *err)
{
    int32_t at = 0;

    for (int32_t c = 0; c < p->n_chunks; c++)
        for (int32_t s = 0; s < p->n_stages; s++) {
            const struct lw_range *r = lw_partition_part(p, s, c);
            if (r->begin != at || r->end < r->begin)
                return lw_fail(err, LW_EPLAN,
                               "stage %d chunk %d holds items [%d, %d), expected to begin at %d", s,
                               c, r->begin, r->end, at);
            at = r->end;
        }
    if (at != p->n_items)
        return lw_fail(err, LW_EPLAN, "the stages hold %d of %d items", at, p->n_items);
    return LW_OK;
}

/* "0-2,5-7|2-5,7-9": stages split by '|', their chunks by ',' */
static const char *shown(const struct lw_partitioning *p)
{
    static char text[512];
    size_t at = 0;

    text[0] = 0;
    for (int32_t s = 0; s < p->n_stages; s++)
        for (int32_t c = 0; c < p->n_chunks; c++) {
            const struct lw_range *r = lw_partition_part(p, s, c);
            at += (size_t)snprintf(text + at, sizeof text - at, "%s%d-%d", c ? "," : s ? "|" : "",
                                   r->begin, r->end);
        }
    return text;
}

TEST(uniform_gives_the_remainder_to_the_last_stages)
{
    struct lw_partitioning p;
    struct lw_err err;

    /* 10 items, 4 stages: 2 each and 2 over */
    assert_int_equal(lw_partition_uniform(10, 4, 1, &p, &err), LW_OK);
    assert_string_equal(shown(&p), "0-2|2-4|4-7|7-10");
    assert_int_equal(partition_check(&p, &err), LW_OK);
    lw_partition_free(&p);
    /* each of 2 chunks holds 5 items: 1, 1, 1, 2 */
    assert_int_equal(lw_partition_uniform(10, 4, 2, &p, &err), LW_OK);
    assert_string_equal(shown(&p), "0-1,5-6|1-2,6-7|2-3,7-8|3-5,8-10");
    assert_false(p.warned_empty);
    lw_partition_free(&p);
}

TEST(uniform_warns_of_empty_stages_and_refuses_uneven_chunks)
{
    struct lw_partitioning p;
    struct lw_err err;

    assert_int_equal(lw_partition_uniform(2, 4, 1, &p, &err), LW_OK);
    assert_string_equal(shown(&p), "0-0|0-0|0-1|1-2");
    assert_true(p.warned_empty && p.has_empty);
    lw_partition_free(&p);
    assert_int_equal(lw_partition_uniform(9, 4, 2, &p, &err), LW_EINVAL);
    assert_string_equal(err.msg, "uniform partition: 9 items do not divide into 2 chunks (use a "
                                 "balanced or explicit partition, or another --chunks)");
    assert_int_equal(lw_partition_uniform(9, 0, 1, &p, &err), LW_EINVAL);
    assert_string_equal(err.msg,
                        "a partition needs at least one stage and one chunk, got 0 and 1");
}

TEST(deepspeed_uniform_gives_the_remainder_to_the_first_stages)
{
    struct lw_partitioning p;
    struct lw_err err;

    /* 38 layers on 8 stages, the example of DeepSpeed PR 4053: 4 each, the first 6 one more */
    assert_int_equal(lw_partition_deepspeed_uniform(38, 8, &p, &err), LW_OK);
    assert_string_equal(shown(&p), "0-5|5-10|10-15|15-20|20-25|25-30|30-34|34-38");
    lw_partition_free(&p);
    assert_int_equal(lw_partition_deepspeed_uniform(2, 4, &p, &err), LW_OK);
    assert_string_equal(shown(&p), "0-1|1-2|2-2|2-2");
    assert_true(p.has_empty);
    lw_partition_free(&p);
}

TEST(colossal_fills_to_the_smallest_bottleneck_and_halves_the_heaviest)
{
    /* total 21; with 7 greedy filling makes 3 | 5+1+1 | 6 | 5, four parts; with 8 it makes
     * 3+5 | 1+1+6 | 5 */
    static const int64_t weights[] = {3, 5, 1, 1, 6, 5};
    struct lw_partitioning p;
    struct lw_err err;

    assert_int_equal(lw_partition_colossal(weights, 6, 3, 1, &p, &err), LW_OK);
    assert_string_equal(shown(&p), "0-2|2-5|5-6");
    lw_partition_free(&p);
    /* 2 stages of 2 chunks: four parts with 7 (6 makes 3 | 5+1 | 1 | 6 | 5), dealt in turn */
    assert_int_equal(lw_partition_colossal(weights, 6, 2, 2, &p, &err), LW_OK);
    assert_string_equal(shown(&p), "0-1,4-5|1-4,5-6");
    assert_int_equal(partition_check(&p, &err), LW_OK);
    lw_partition_free(&p);
}

TEST(colossal_halves_the_heaviest_where_parts_are_missing)
{
    /* one weight of 9 makes 9 the bottleneck; greedy: 1+1+1+1+1+1 | 9 is two blocks for 4 parts. 9
     * is the heaviest but one item: set aside. 6 is cut in the middle, 3 | 3; of these the first,
     * where |3 - 2*1| = |3 - 2*2| = 1: at the first place, 1 | 2 */
    static const int64_t weights[] = {1, 1, 1, 1, 1, 1, 9};
    struct lw_partitioning p;
    struct lw_err err;

    assert_int_equal(lw_partition_colossal(weights, 7, 4, 1, &p, &err), LW_OK);
    assert_string_equal(shown(&p), "0-1|1-3|3-6|6-7");
    lw_partition_free(&p);
}

TEST(colossal_counts_a_weight_of_zero_as_one)
{
    /* as 1 1 1 1 2 in 2 parts: 3 | 3, cut after the third */
    static const int64_t weights[] = {0, 0, 0, 0, 2};
    struct lw_partitioning p;
    struct lw_err err;

    assert_int_equal(lw_partition_colossal(weights, 5, 2, 1, &p, &err), LW_OK);
    assert_string_equal(shown(&p), "0-3|3-5");
    lw_partition_free(&p);
}

TEST(deepspeed_balanced_minimises_the_spread_not_the_bottleneck)
{
    /* docs/design/partition.md: 1+3 | 6 | 2+2 has spread 2 */
    static const int64_t weights[] = {1, 3, 6, 2, 2};
    struct lw_partitioning p;
    struct lw_err err;
    int64_t max, min;

    assert_int_equal(lw_partition_deepspeed_balanced(weights, 5, 3, &p, &err), LW_OK);
    assert_string_equal(shown(&p), "0-2|2-3|3-5");
    lw_partition_extremes(&p, weights, &max, &min);
    assert_int_equal(max, 6);
    assert_int_equal(min, 4);
    lw_partition_free(&p);
    assert_int_equal(lw_partition_deepspeed_balanced(weights, 2, 3, &p, &err), LW_OK);
    assert_string_equal(shown(&p), "0-1|1-2|2-2");
    lw_partition_free(&p);
}

TEST(explicit_parts_must_ascend)
{
    static const int32_t good[] = {0, 1, 4, 6}, late[] = {1, 4}, flat[] = {0, 3, 3}, far[] = {0, 8};
    struct lw_partitioning p;
    struct lw_err err;

    assert_int_equal(lw_partition_explicit(good, 8, 2, 2, &p, &err), LW_OK);
    assert_string_equal(shown(&p), "0-1,4-6|1-4,6-8");
    lw_partition_free(&p);
    assert_int_equal(lw_partition_explicit(late, 8, 2, 1, &p, &err), LW_EINVAL);
    assert_string_equal(err.msg,
                        "explicit partition: part 0 begins at item 1, allowed: 0 to 0 (parts "
                        "ascend, none is empty, there are 8 items)");
    assert_int_equal(lw_partition_explicit(flat, 8, 3, 1, &p, &err), LW_EINVAL);
    assert_int_equal(lw_partition_explicit(far, 8, 2, 1, &p, &err), LW_EINVAL);
    assert_string_equal(err.msg,
                        "explicit partition: part 1 begins at item 8, allowed: 1 to 7 (parts "
                        "ascend, none is empty, there are 8 items)");
}

TEST(weights_below_zero_or_beyond_int64_are_refused)
{
    static const int64_t negative[] = {1, -2, 3}, huge[] = {INT64_MAX, 1, 1};
    struct lw_partitioning p;
    struct lw_err err;

    assert_int_equal(lw_partition_colossal(negative, 3, 2, 1, &p, &err), LW_EINVAL);
    assert_string_equal(err.msg, "weight of item 1 is -2, allowed: 0 or more");
    assert_int_equal(lw_partition_deepspeed_balanced(huge, 3, 2, &p, &err), LW_EINVAL);
    assert_string_equal(err.msg, "the weights of items 0 to 1 sum to more than 2^63 - 1");
}

TEST(check_names_a_part_out_of_place)
{
    struct lw_partitioning p;
    struct lw_err err;

    assert_int_equal(lw_partition_uniform(8, 2, 2, &p, &err), LW_OK);
    p.parts[2].begin++; /* stage 1, chunk 0 */
    assert_int_equal(partition_check(&p, &err), LW_EPLAN);
    assert_string_equal(err.msg, "stage 1 chunk 0 holds items [3, 4), expected to begin at 2");
    p.parts[2].begin--;
    p.parts[3].end--;
    assert_int_equal(partition_check(&p, &err), LW_EPLAN);
    assert_string_equal(err.msg, "the stages hold 7 of 8 items");
    lw_partition_free(&p);
}

static struct lw_stage_problem problem(const int64_t *work, int32_t n, int32_t k)
{
    return (struct lw_stage_problem){.n_items = n, .n_stages = k, .work = work};
}

TEST(exact_example_of_the_design_page)
{
    /* work 3 5 1 1 6 5 on 3 stages: without transfer 3 5 | 1 1 6 | 5 has bottleneck 8. A transfer
     * of 4 after item 1 makes that 12 and 12; then 3 5 1 | 1 6 | 5 with transfer 1 after item 2:
     * 9+1 | 1+7+0 | 5 = 10 is best */
    static const int64_t work[] = {3, 5, 1, 1, 6, 5}, transfer[] = {2, 4, 1, 3, 0};
    struct lw_stage_problem q = problem(work, 6, 3);
    struct lw_partitioning p;
    struct lw_err err;
    int64_t best;

    assert_int_equal(lw_partition_exact(&q, &p, &best, &err), LW_OK);
    assert_string_equal(shown(&p), "0-2|2-5|5-6");
    assert_int_equal(best, 8);
    lw_partition_free(&p);
    q.transfer = transfer;
    assert_int_equal(lw_partition_exact(&q, &p, &best, &err), LW_OK);
    assert_string_equal(shown(&p), "0-3|3-5|5-6");
    assert_int_equal(best, 10);
    lw_partition_free(&p);
    /* head pinned: the last two items together, 6 + 5 = 11 */
    q.transfer = NULL;
    q.pinned_last = 2;
    assert_int_equal(lw_partition_exact(&q, &p, &best, &err), LW_OK);
    assert_int_equal(best, 11);
    assert_string_equal(shown(&p), "0-3|3-4|4-6");
    lw_partition_free(&p);
}

TEST(exact_memory_limit_moves_the_cut_and_a_refusal_tells_the_least)
{
    /* bytes 4 each, kept 1 each: stage 0 keeps 2 micro-batches, stage 1 one. Four items 1 1 1 1 cut
     * in the middle: stage 0 holds 2*(4+2) = 12, stage 1 2*(4+1) = 10. With 11 bytes stage 0 can
     * hold one item and stage 1 two: no partition, 12 is the least. With work 1 1 1 3 and 12 bytes
     * the cut at 2 has bottleneck 4; without the limit the cut at 3 has 3. */
    static const int64_t work[] = {1, 1, 1, 3}, fixed[] = {4, 4, 4, 4}, kept[] = {1, 1, 1, 1};
    static const int32_t flight[] = {2, 1};
    struct lw_stage_problem q = problem(work, 4, 2);
    struct lw_partitioning p;
    struct lw_err err;
    int64_t best;

    assert_int_equal(lw_partition_exact(&q, &p, &best, &err), LW_OK);
    assert_string_equal(shown(&p), "0-3|3-4");
    assert_int_equal(best, 3);
    lw_partition_free(&p);
    q.static_bytes = fixed;
    q.kept_bytes = kept;
    q.in_flight = flight;
    q.limit_bytes = 12;
    assert_int_equal(lw_partition_exact(&q, &p, &best, &err), LW_OK);
    assert_string_equal(shown(&p), "0-2|2-4");
    assert_int_equal(best, 4);
    lw_partition_free(&p);
    q.limit_bytes = 11;
    assert_int_equal(lw_partition_exact(&q, &p, &best, &err), LW_EINVAL);
    assert_string_equal(err.msg,
                        "no partition of 4 items into 2 stages fits in 11 bytes per stage; "
                        "the least that does is 12 bytes");
}

TEST(exact_refuses_what_cannot_be)
{
    static const int64_t work[] = {1, 1, 1}, negative[] = {1, -1, 1}, transfer[] = {1, -7};
    struct lw_stage_problem q = problem(work, 3, 4);
    struct lw_partitioning p;
    struct lw_err err;

    assert_int_equal(lw_partition_exact(&q, &p, NULL, &err), LW_EINVAL);
    assert_string_equal(err.msg,
                        "4 stages for 3 items, allowed: 1 to 3 (no stage may be empty)");
    q.n_stages = 2;
    q.pinned_first = q.pinned_last = 2;
    assert_int_equal(lw_partition_exact(&q, &p, NULL, &err), LW_EINVAL);
    assert_string_equal(err.msg,
                        "2 items pinned to the first and 2 to the last of 2 stages leave no "
                        "item for a stage between them (3 items)");
    q = problem(negative, 3, 2);
    assert_int_equal(lw_partition_exact(&q, &p, NULL, &err), LW_EINVAL);
    assert_string_equal(err.msg, "work of item 1 is -1, allowed: 0 or more");
    q = problem(work, 3, 2);
    q.transfer = transfer;
    assert_int_equal(lw_partition_exact(&q, &p, NULL, &err), LW_EINVAL);
    assert_string_equal(err.msg, "transfer after item 1 is -7, allowed: 0 to 2^60");
}

/* The best over all partitions by trying each set of cuts; -1 = none fits. cuts[] receives the one
 * with the latest first cut, then second, ... */
static int64_t brute_force(const struct lw_stage_problem *q, int32_t *cuts)
{
    int64_t best = -1;
    int32_t n = q->n_items, k = q->n_stages;

    for (uint32_t mask = 0; mask < 1u << (n - 1); mask++) {
        int32_t c[N_MAX + 1] = {0}, parts = 1;
        if (__builtin_popcount(mask) != k - 1)
            continue;
        for (int32_t i = 1; i < n; i++)
            if (mask >> (i - 1) & 1)
                c[parts++] = i;
        c[k] = n;
        if (c[1] < q->pinned_first || (k > 1 && c[k - 1] > n - q->pinned_last))
            continue;
        int64_t worst = 0;
        bool fits = true;
        for (int32_t s = 0; s < k; s++) {
            int64_t t = 0, bytes = q->beside_bytes;
            for (int32_t i = c[s]; i < c[s + 1]; i++) {
                t += q->work[i];
                bytes += q->static_bytes ? q->static_bytes[i] : 0;
                if (q->kept_bytes)
                    bytes += q->kept_bytes[i] * (q->in_flight ? q->in_flight[s] : 1);
            }
            for (int32_t side = s; q->transfer && side <= s + 1; side++)
                t += side > 0 && side < k ? q->transfer[c[side] - 1] : 0;
            worst = t > worst ? t : worst;
            fits &= q->limit_bytes == 0 || bytes <= q->limit_bytes;
        }
        int32_t later = 0;
        for (int32_t s = 1; s < k && later == 0; s++)
            later = c[s] - cuts[s];
        if (fits && (best < 0 || worst < best || (worst == best && later > 0))) {
            best = worst;
            memcpy(cuts, c, sizeof c);
        }
    }
    return best;
}

struct drawn {
    struct lw_stage_problem q;
    int64_t work[N_MAX], transfer[N_MAX], fixed[N_MAX], kept[N_MAX];
    int32_t flight[N_MAX];
};

static void draw(struct prng *r, struct drawn *d)
{
    int64_t scale = prng_in(r, 0, 1) ? 4 : 1000;

    *d = (struct drawn){.q = {.n_items = (int32_t)prng_in(r, 1, N_MAX - 2)}};
    d->q.n_stages = (int32_t)prng_in(r, 1, d->q.n_items);
    for (int32_t i = 0; i < d->q.n_items; i++) {
        d->work[i] = prng_in(r, 0, scale);
        d->transfer[i] = prng_in(r, 0, scale / 2);
        d->fixed[i] = prng_in(r, 0, scale);
        d->kept[i] = prng_in(r, 0, scale);
        d->flight[i] = prng_in(r, 0, 1) ? d->q.n_stages - i : (int32_t)prng_in(r, 0, 3);
        d->flight[i] = d->flight[i] < 0 ? 0 : d->flight[i];
    }
    d->q.work = d->work;
    if (prng_in(r, 0, 1))
        d->q.transfer = d->transfer;
    if (prng_in(r, 0, 2) == 0) {
        d->q.static_bytes = d->fixed;
        d->q.kept_bytes = d->kept;
        d->q.in_flight = d->flight;
        d->q.limit_bytes = prng_in(r, 1, 4 * scale);
    }
    int32_t spare = d->q.n_items - d->q.n_stages;
    if (prng_in(r, 0, 2) == 0 && d->q.n_stages > 1) {
        d->q.pinned_first = (int32_t)prng_in(r, 0, spare + 1);
        spare -= d->q.pinned_first > 1 ? d->q.pinned_first - 1 : 0;
        d->q.pinned_last = (int32_t)prng_in(r, 0, spare + 1);
    }
}

TEST(exact_equals_brute_force)
{
    struct prng r = prng_start(__func__);
    int n_refused = 0;

    for (int i = 0; i < 4000; i++) {
        struct drawn d;
        struct lw_partitioning p;
        struct lw_err err;
        int32_t cuts[N_MAX + 1] = {0};
        int64_t best;

        draw(&r, &d);
        int64_t expected = brute_force(&d.q, cuts);
        enum lw_status status = lw_partition_exact(&d.q, &p, &best, &err);
        if (expected < 0) {
            assert_int_equal(status, LW_EINVAL);
            n_refused++;
            continue;
        }
        assert_int_equal(status, LW_OK);
        assert_int_equal(best, expected);
        assert_int_equal(partition_check(&p, &err), LW_OK);
        for (int32_t s = 0; s < d.q.n_stages; s++)
            assert_int_equal(p.parts[s].begin, cuts[s]);
        lw_partition_free(&p);
    }
    assert_in_range(n_refused, 20, 2000);
}

TEST(both_probes_agree_on_large_inputs)
{
    enum { N = 5000 };
    static int64_t work[N], none[N];
    struct prng r = prng_start(__func__);

    for (int i = 0; i < unit_cases(4, 20); i++) {
        struct lw_partitioning a, b;
        struct lw_err err;
        int64_t best_a, best_b;
        for (int j = 0; j < N; j++)
            work[j] = prng_in(&r, 0, 1000000000);
        struct lw_stage_problem q = problem(work, N, (int32_t)prng_in(&r, 1, 64));
        assert_int_equal(lw_partition_exact(&q, &a, &best_a, &err), LW_OK);
        q.transfer = none; /* all zero: the general probe */
        assert_int_equal(lw_partition_exact(&q, &b, &best_b, &err), LW_OK);
        assert_int_equal(best_a, best_b);
        assert_memory_equal(a.parts, b.parts, (size_t)q.n_stages * sizeof *a.parts);
        lw_partition_free(&a);
        lw_partition_free(&b);
    }
}

TEST(every_policy_tiles_and_none_beats_exact)
{
    struct prng r = prng_start(__func__);

    for (int i = 0; i < 2000; i++) {
        int64_t w[60], best, max, min;
        int32_t n = (int32_t)prng_in(&r, 1, 60), k = (int32_t)prng_in(&r, 1, n);
        struct lw_partitioning p[4];
        struct lw_err err;
        int n_made = 0;
        for (int32_t j = 0; j < n; j++)
            w[j] = prng_in(&r, 0, 3) ? prng_in(&r, 1, 100) : prng_in(&r, 1, 5000);
        struct lw_stage_problem q = problem(w, n, k);
        assert_int_equal(lw_partition_exact(&q, &p[n_made++], &best, &err), LW_OK);
        assert_int_equal(lw_partition_uniform(n, k, 1, &p[n_made++], &err), LW_OK);
        assert_int_equal(lw_partition_deepspeed_uniform(n, k, &p[n_made++], &err), LW_OK);
        assert_int_equal(lw_partition_deepspeed_balanced(w, n, k, &p[n_made++], &err), LW_OK);
        for (int j = 0; j < n_made; j++) {
            assert_int_equal(partition_check(&p[j], &err), LW_OK);
            lw_partition_extremes(&p[j], w, &max, &min);
            assert_true(j == 0 ? max == best : max >= best);
            lw_partition_free(&p[j]);
        }
        /* with weights above 0 the bisection of ColossalAI finds the optimum too */
        assert_int_equal(lw_partition_colossal(w, n, k, 1, &p[0], &err), LW_OK);
        assert_int_equal(partition_check(&p[0], &err), LW_OK);
        lw_partition_extremes(&p[0], w, &max, &min);
        assert_true(n <= k || max == best);
        lw_partition_free(&p[0]);
    }
}

TEST(failing_allocations_leak_nothing)
{
    static const int64_t w[] = {3, 5, 1, 1, 6, 5}, transfer[] = {2, 4, 1, 3, 0};
    static const int32_t begins[] = {0, 2, 4};
    struct lw_partitioning p = {.n_items = -7};
    const struct lw_partitioning empty = p;
    struct lw_stage_problem q = problem(w, 6, 3);
    struct lw_err err;

    q.transfer = transfer;
    EACH_ALLOCATION_FAILS(1, lw_partition_uniform(6, 3, 1, &p, &err), p, lw_partition_free(&p));
    p = empty;
    EACH_ALLOCATION_FAILS(1, lw_partition_colossal(w, 6, 3, 1, &p, &err), p,
                          lw_partition_free(&p));
    p = empty;
    EACH_ALLOCATION_FAILS(1, lw_partition_deepspeed_balanced(w, 6, 3, &p, &err), p,
                          lw_partition_free(&p));
    p = empty;
    EACH_ALLOCATION_FAILS(1, lw_partition_explicit(begins, 6, 3, 1, &p, &err), p,
                          lw_partition_free(&p));
    p = empty;
    EACH_ALLOCATION_FAILS(1, lw_partition_exact(&q, &p, NULL, &err), p, lw_partition_free(&p));
}

/* Optimizer shards: shared/shard/shard.h. The examples of docs/design/shard.md, tiling on random
 * inputs, LPT against the optimum. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "tests/lib/unit.h"

#include "shared/shard/shard.h"
#include "tests/lib/failing_alloc.h"
#include "tests/lib/prng.h"

enum { N_MAX = 40 };

static struct lw_shard_param f32(int64_t numel)
{
    return (struct lw_shard_param){.numel = numel, .dtype = LW_F32, .trainable = true};
}

/* The shards of every parameter tile it, owners are members. */
static enum lw_status sharding_check(const struct lw_sharding *s,
                                     const struct lw_shard_param *params, int32_t n,
                                     struct lw_err *err)
{
    int32_t at = 0;

    for (int32_t p = 0; p < n; p++) {
        int64_t covered = 0;
        int32_t n_of = 0;
        for (; at < s->n_shards && s->shards[at].param == p; at++, n_of++) {
            const struct lw_shard *x = &s->shards[at];
            if (x->first != covered || x->numel < 0)
                return lw_fail(err, LW_EPLAN,
                               "parameter %d: a shard begins at element %" PRId64
                               ", expected %" PRId64,
                               p, x->first, covered);
            if (x->owner < -1 || x->owner >= s->world)
                return lw_fail(err, LW_EPLAN, "parameter %d: owner %d of %d members", p, x->owner,
                               s->world);
            covered += x->numel;
        }
        if (covered != params[p].numel || n_of == 0)
            return lw_fail(err, LW_EPLAN,
                           "parameter %d: its %d shards cover %" PRId64 " of %" PRId64 " elements",
                           p, n_of, covered, params[p].numel);
    }
    if (at != s->n_shards)
        return lw_fail(err, LW_EPLAN, "shard %d is of parameter %d, there are %d in order", at,
                       s->shards[at].param, n);
    return LW_OK;
}

/* "0:0+4@1" = parameter 0, from element 0, 4 elements, owner 1 */
static const char *shown(const struct lw_sharding *s)
{
    static char text[1024];
    size_t at = 0;

    text[0] = 0;
    for (int32_t i = 0; i < s->n_shards; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%d:%d+%d@%d", i ? " " : "",
                               s->shards[i].param, (int)s->shards[i].first,
                               (int)s->shards[i].numel, s->shards[i].owner);
    return text;
}

TEST(lpt_places_the_largest_first_in_bytes)
{
    /* bytes 40 80 120 80 (bf16): 120 -> 0, 80 -> 1, 80 (later one) -> 1, 40 -> 0: 160 each; greedy
     * in order would give 10+30 | 20+40 elements */
    struct lw_shard_param p[] = {f32(10), f32(20), f32(30), f32(40), f32(99)};
    struct lw_sharding s;
    struct lw_err err;

    p[3].dtype = LW_BF16;
    p[4].trainable = false;
    assert_int_equal(lw_shard_lpt(p, 5, 2, 0, &s, &err), LW_OK);
    assert_string_equal(shown(&s), "0:0+10@0 1:0+20@1 2:0+30@0 3:0+40@1 4:0+99@-1");
    lw_sharding_free(&s);
    /* pieces of at most 50 bytes: 10, 10+10, 10+10+10, 20+20 elements */
    assert_int_equal(lw_shard_lpt(p, 5, 2, 50, &s, &err), LW_OK);
    assert_string_equal(shown(&s), "0:0+10@0 1:0+10@1 1:10+10@0 2:0+10@1 2:10+10@0 2:20+10@1 "
                                   "3:0+20@0 3:20+20@1 4:0+99@-1");
    assert_int_equal(sharding_check(&s, p, 5, &err), LW_OK);
    lw_sharding_free(&s);
}

/* By elements 5 6 7 10 20 40 to members 0 1 2, 2 1 0: the largest shares its member with the
 * smallest. Bytes do not count: 40 is of bf16. */
TEST(ping_pong_goes_there_and_back)
{
    struct lw_shard_param p[] = {f32(20), f32(5), f32(40), f32(7), f32(99), f32(10), f32(6)};
    struct lw_sharding s;
    struct lw_err err;

    p[2].dtype = LW_BF16;
    p[4].trainable = false;
    assert_int_equal(lw_shard_ping_pong(p, 7, 3, &s, &err), LW_OK);
    assert_string_equal(shown(&s),
                        "0:0+20@1 1:0+5@0 2:0+40@0 3:0+7@2 4:0+99@-1 5:0+10@2 6:0+6@1");
    lw_sharding_free(&s);
    assert_int_equal(lw_shard_ping_pong(p, 7, 0, &s, &err), LW_EINVAL);
}

TEST(flat_shards_cut_across_parameters_and_record_the_padding)
{
    /* 3 + 4 + 3 = 10 elements for 4 members of align 1: padded by 2 to shares of 3. Parameter 1 has
     * elements 3..6: share 1 is 3..5, share 2 begins at 6. */
    static const int32_t first[] = {0, 3}, items[] = {0, 1, 2};
    struct lw_shard_param p[] = {f32(3), f32(4), f32(3)};
    struct lw_sharding s;
    struct lw_err err;

    assert_int_equal(lw_shard_flat(p, 3, 4, first, items, 1, 1, &s, &err), LW_OK);
    assert_string_equal(shown(&s), "0:0+3@0 1:0+3@1 1:3+1@2 2:0+2@2 2:2+1@3");
    assert_int_equal(s.units[0].padding, 2);
    assert_int_equal(s.units[0].share, 3);
    assert_int_equal(s.offset[3], 1); /* after parameter 1's last element */
    lw_sharding_free(&s);
    /* align 2: multiples of 8, so 6 padding elements and shares of 4 */
    assert_int_equal(lw_shard_flat(p, 3, 4, first, items, 1, 2, &s, &err), LW_OK);
    assert_int_equal(s.units[0].padding, 6);
    assert_string_equal(shown(&s), "0:0+3@0 1:0+1@0 1:1+3@1 2:0+1@1 2:1+2@2");
    lw_sharding_free(&s);
}

TEST(flat_units_refuse_mixed_dtypes_doubles_and_gaps)
{
    static const int32_t first[] = {0, 2, 3}, items[] = {0, 1, 2}, twice[] = {0, 1, 1};
    struct lw_shard_param p[] = {f32(3), f32(4), f32(3)};
    struct lw_sharding s;
    struct lw_err err;

    p[1].dtype = LW_F16;
    assert_int_equal(lw_shard_flat(p, 3, 2, first, items, 2, 1, &s, &err), LW_EINVAL);
    assert_string_equal(err.msg,
                        "unit 0 mixes f32 on device 0 with f16 on device 0 (parameter 1): a "
                        "flat buffer has one dtype and device");
    p[1].dtype = LW_F32;
    assert_int_equal(lw_shard_flat(p, 3, 2, first, twice, 2, 1, &s, &err), LW_EINVAL);
    assert_string_equal(err.msg, "parameter 1 is in units 0 and 1");
    assert_int_equal(lw_shard_flat(p, 3, 2, first, items, 1, 1, &s, &err), LW_EINVAL);
    assert_string_equal(err.msg, "trainable parameter 2 is in no unit");
    assert_int_equal(lw_shard_flat(p, 3, 2, first, items, 2, 0, &s, &err), LW_EINVAL);
    assert_string_equal(err.msg,
                        "alignment 0 elements for 2 members, allowed: 1 or more, within 2^61 "
                        "together");
}

TEST(per_tensor_shards_must_divide)
{
    struct lw_shard_param p[] = {f32(8), f32(4)};
    struct lw_sharding s;
    struct lw_err err;

    assert_int_equal(lw_shard_per_tensor(p, 2, 4, &s, &err), LW_OK);
    assert_string_equal(shown(&s),
                        "0:0+2@0 0:2+2@1 0:4+2@2 0:6+2@3 1:0+1@0 1:1+1@1 1:2+1@2 1:3+1@3");
    lw_sharding_free(&s);
    assert_int_equal(lw_shard_per_tensor(p, 2, 3, &s, &err), LW_EINVAL);
    assert_string_equal(err.msg, "per-tensor shards: parameter 0 has 8 elements, not a multiple of "
                                 "3 members (flat shards pad instead)");
}

TEST(bad_sizes_are_refused)
{
    struct lw_shard_param p[] = {f32(8), f32(-4)};
    struct lw_sharding s;
    struct lw_err err;

    assert_int_equal(lw_shard_lpt(p, 2, 4, 0, &s, &err), LW_EINVAL);
    assert_string_equal(err.msg, "parameter 1 has -4 elements, allowed: 0 or more");
    assert_int_equal(lw_shard_lpt(p, 1, 0, 0, &s, &err), LW_EINVAL);
    assert_string_equal(err.msg, "sharding over 0 members, allowed: 1 or more");
    p[1].numel = INT64_MAX / 4;
    assert_int_equal(lw_shard_lpt(p, 2, 4, 0, &s, &err), LW_EINVAL);
    assert_string_equal(err.msg, "parameters 0 to 1 hold more than 2^62 bytes");
}

TEST(check_finds_gaps_overlaps_and_strangers)
{
    struct lw_shard_param p[] = {f32(8), f32(4)};
    struct lw_sharding s;
    struct lw_err err;

    assert_int_equal(lw_shard_per_tensor(p, 2, 4, &s, &err), LW_OK);
    s.shards[1].first = 1;
    assert_int_equal(sharding_check(&s, p, 2, &err), LW_EPLAN);
    assert_string_equal(err.msg, "parameter 0: a shard begins at element 1, expected 2");
    s.shards[1].first = 2;
    s.shards[3].numel = 1;
    assert_int_equal(sharding_check(&s, p, 2, &err), LW_EPLAN);
    assert_string_equal(err.msg, "parameter 0: its 4 shards cover 7 of 8 elements");
    s.shards[3].numel = 2;
    s.shards[7].owner = 4;
    assert_int_equal(sharding_check(&s, p, 2, &err), LW_EPLAN);
    assert_string_equal(err.msg, "parameter 1: owner 4 of 4 members");
    lw_sharding_free(&s);
}

static int32_t draw(struct prng *r, struct lw_shard_param *p, bool one_dtype)
{
    int32_t n = (int32_t)prng_in(r, 0, N_MAX);

    for (int32_t i = 0; i < n; i++) {
        p[i] = f32(prng_in(r, 0, 4) ? prng_in(r, 0, 50) : prng_in(r, 0, 5000));
        p[i].trainable = prng_in(r, 0, 5) > 0;
        if (!one_dtype && prng_in(r, 0, 1))
            p[i].dtype = LW_BF16;
    }
    return n;
}

TEST(every_policy_tiles_the_parameters)
{
    struct prng r = prng_start(__func__);

    for (int i = 0; i < 3000; i++) {
        struct lw_shard_param p[N_MAX];
        struct lw_sharding s;
        struct lw_err err;
        int32_t world = (int32_t)prng_in(&r, 1, 9), n = draw(&r, p, false);
        assert_int_equal(lw_shard_lpt(p, n, world, prng_in(&r, 0, 300), &s, &err), LW_OK);
        assert_int_equal(sharding_check(&s, p, n, &err), LW_OK);
        lw_sharding_free(&s);
        assert_int_equal(lw_shard_ping_pong(p, n, world, &s, &err), LW_OK);
        assert_int_equal(sharding_check(&s, p, n, &err), LW_OK);
        lw_sharding_free(&s);
        for (int32_t k = 0; k < n; k++)
            p[k].numel *= world;
        assert_int_equal(lw_shard_per_tensor(p, n, world, &s, &err), LW_OK);
        assert_int_equal(sharding_check(&s, p, n, &err), LW_OK);
        lw_sharding_free(&s);
    }
}

/* The shares of a unit, rebuilt element by element from the shards, must be the unit's elements in
 * order. */
TEST(flat_shares_hold_the_units_elements_in_order)
{
    struct prng r = prng_start(__func__);

    for (int i = 0; i < 1000; i++) {
        struct lw_shard_param p[N_MAX];
        struct lw_sharding s;
        struct lw_err err;
        int32_t world = (int32_t)prng_in(&r, 1, 9), n = draw(&r, p, true), items[N_MAX];
        int32_t cut = (int32_t)prng_in(&r, 0, n), first[] = {0, cut, n};
        for (int32_t k = 0; k < n; k++)
            items[k] = n - 1 - k;
        assert_int_equal(
            lw_shard_flat(p, n, world, first, items, 2, prng_in(&r, 1, 4), &s, &err), LW_OK);
        assert_int_equal(sharding_check(&s, p, n, &err), LW_OK);
        for (int32_t u = 0; u < 2; u++) {
            int64_t place = 0;
            for (int32_t k = first[u]; k < first[u + 1]; k++)
                for (int32_t x = 0; x < s.n_shards; x++) {
                    if (s.shards[x].param != items[k] || !p[items[k]].trainable ||
                        s.shards[x].numel == 0)
                        continue;
                    assert_int_equal(s.unit[x], u);
                    assert_int_equal(s.shards[x].owner * s.units[u].share + s.offset[x], place);
                    assert_true(s.offset[x] + s.shards[x].numel <= s.units[u].share);
                    place += s.shards[x].numel;
                }
            assert_int_equal(place, s.units[u].numel);
            assert_int_equal(place + s.units[u].padding, s.units[u].share * world);
        }
        lw_sharding_free(&s);
    }
}

static int64_t optimum(const int64_t *size, int32_t n, int64_t *load, int32_t world, int64_t best)
{
    int64_t most = 0;

    for (int32_t r = 0; r < world; r++)
        most = load[r] > most ? load[r] : most;
    if (n == 0 || most >= best)
        return most < best ? most : best;
    for (int32_t r = 0; r < world; r++) {
        load[r] += size[n - 1];
        best = optimum(size, n - 1, load, world, best);
        load[r] -= size[n - 1];
    }
    return best;
}

TEST(lpt_stays_within_grahams_bound)
{
    struct prng r = prng_start(__func__);

    for (int i = 0; i < 300; i++) {
        struct lw_shard_param p[8];
        struct lw_sharding s;
        struct lw_err err;
        int64_t size[8], load[4] = {0}, most = 0;
        int32_t world = (int32_t)prng_in(&r, 1, 4), n = (int32_t)prng_in(&r, 1, 8);
        for (int32_t k = 0; k < n; k++)
            p[k] = f32(size[k] = prng_in(&r, 0, 60));
        assert_int_equal(lw_shard_lpt(p, n, world, 0, &s, &err), LW_OK);
        for (int32_t k = 0; k < s.n_shards; k++) {
            int64_t *x = &load[s.shards[k].owner];
            *x += s.shards[k].numel;
            most = *x > most ? *x : most;
        }
        memset(load, 0, sizeof load);
        int64_t best = optimum(size, n, load, world, INT64_MAX);
        assert_true(most >= best);
        assert_true(3 * world * most <= (4 * world - 1) * best); /* (4/3 - 1/(3 world)) best */
        lw_sharding_free(&s);
    }
}

TEST(failing_allocations_leak_nothing)
{
    static const int32_t first[] = {0, 3}, items[] = {0, 1, 2};
    struct lw_shard_param p[] = {f32(4), f32(8), f32(4)};
    struct lw_sharding s = {.world = -7};
    struct lw_err err;

    EACH_ALLOCATION_FAILS(1, lw_shard_lpt(p, 3, 4, 8, &s, &err), s, lw_sharding_free(&s));
    s = (struct lw_sharding){.world = -7};
    EACH_ALLOCATION_FAILS(1, lw_shard_flat(p, 3, 4, first, items, 1, 1, &s, &err), s,
                          lw_sharding_free(&s));
    s = (struct lw_sharding){.world = -7};
    EACH_ALLOCATION_FAILS(1, lw_shard_per_tensor(p, 3, 4, &s, &err), s, lw_sharding_free(&s));
    s = (struct lw_sharding){.world = -7};
    EACH_ALLOCATION_FAILS(1, lw_shard_ping_pong(p, 3, 4, &s, &err), s, lw_sharding_free(&s));
}

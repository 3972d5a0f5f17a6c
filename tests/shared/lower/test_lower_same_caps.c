/* Caps that are said to make one plan make it: the same decisions, but for the limits that buckets
 * name. LAPWING_TEST_SEED repeats a run. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "tests/lib/unit.h"

#include "shared/lower/lower.h"
#include "tests/lib/plans/random_strategy.h"

/* Of the plan with this cap, without the cap and the limits that it gives; "" = no plan. */
static const char *hash_at(const struct random_model *k, const struct lw_strategy *s, int64_t cap,
                           char hash[33])
{
    struct lw_strategy other = *s;
    struct lw_plan p;

    other.bucket_cap_bytes = cap;
    hash[0] = '\0';
    if (lw_plan_build(&k->w, &other, NULL, &p, NULL) != LW_OK)
        return hash;
    p.strategy->bucket_cap_bytes = -1;
    for (int32_t b = 0; b < p.n_buckets; b++)
        p.buckets[b].limit_bytes = 0;
    assert_int_equal(lw_plan_hash(&p, NULL), LW_OK);
    memcpy(hash, p.hash, 33);
    lw_plan_free(&p);
    return hash;
}

/* Policies that say the least cap of the same buckets, and the ZeRO stages that they run under. */
static void choose_policy(struct prng *r, struct lw_strategy *s)
{
    static const enum lw_bucket_policy_id policies[] = {
        LW_BUCKET_MEGATRON, LW_BUCKET_MEGATRON, LW_BUCKET_C10D_2, LW_BUCKET_C10D_1_13,
        LW_BUCKET_C10D_2020};

    s->bucket_policy = policies[prng_below(r, 5)];
    s->zero = s->bucket_policy == LW_BUCKET_MEGATRON ? prng_below(r, 3) : 0;
    s->shard_policy = LW_SHARD_FLAT;
    s->zero_group = 0;
    s->overlap_param_gather = false;
    s->compat = LW_COMPAT_NONE;
    s->bucket_cap_bytes = prng_in(r, 500, 60000);
}

TEST(caps_of_one_range_make_one_plan)
{
    struct prng r = prng_start("same caps");
    const int plans = unit_cases(60, 2000);
    int made = 0, lower = 0, higher = 0;

    for (int tries = 0; made < plans; tries++) {
        static struct random_model k;
        struct lw_strategy s;
        struct lw_plan p;
        char text[1024] = "", own[33], other[33];
        random_model(&r, &k);
        random_strategy(&r, &k, &s);
        choose_policy(&r, &s);
        strategy_words(&s, text, sizeof text);
        assert_true(tries < 40 * plans);
        if (lw_plan_build(&k.w, &s, NULL, &p, NULL) != LW_OK)
            continue;
        int64_t cap = s.bucket_cap_bytes, least = p.least_cap, next = p.next_cap;
        lw_plan_free(&p);
        if (!(least <= cap && cap < next))
            fail_msg("cap %" PRId64 " is not in %" PRId64 "..%" PRId64 ":%s", cap, least, next,
                     text);
        hash_at(&k, &s, cap, own);
        const int64_t same[] = {least, next - 1, prng_in(&r, least, cap)};
        for (int i = 0; i < 3; i++)
            if (strcmp(hash_at(&k, &s, same[i], other), own) != 0)
                fail_msg("caps %" PRId64 " and %" PRId64 " make two plans:%s", cap, same[i], text);
        lower += least < cap;
        higher += next > cap + 1;
        made++;
    }
    printf("%d plans, %d that a smaller cap makes too, %d a larger one\n", made, lower, higher);
    assert_true(lower > plans / 2 && higher > plans / 2);
}

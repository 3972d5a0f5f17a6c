/* Runs of shards say what whole shards say: of random models on thousands of ranks, the plan with
 * runs and the same with whole shards have one hash and are proven alike, also with a fault in a
 * run. LAPWING_TEST_SEED repeats a run. */
#include "tests/lib/unit.h"

#include <string.h>

#include "shared/lower/lower.h"
#include "shared/plan/shard_runs.h"
#include "shared/strategy/strategy.h"
#include "tests/lib/plans/random_strategy.h"
#include "tests/lib/prng.h"

static bool build(struct prng *r, struct random_model *k, struct lw_plan *p)
{
    static const enum lw_shard_policy_id policies[] = {LW_SHARD_OSS_GREEDY, LW_SHARD_LPT,
                                                       LW_SHARD_FLAT, LW_SHARD_PER_TENSOR};
    struct lw_strategy s = lw_strategy_default();

    random_model(r, k);
    s.zero = prng_in(r, 1, 3);
    s.pp = prng_in(r, 1, 2);
    s.tp = prng_in(r, 1, 2);
    s.dp = prng_in(r, 4096 / (s.pp * s.tp), 5000);
    s.micro_batches = 2;
    s.shard_policy = policies[prng_in(r, 0, 3)];
    s.clip = prng_in(r, 0, 5) == 0; /* seldom: its proof is a rank's group times all ranks */
    if (s.pp * s.tp * s.dp < 4096)
        s.dp = 4096;
    return lw_plan_build(&k->w, &s, NULL, p, NULL) == LW_OK;
}

static struct lw_plan with_whole(const struct lw_plan *p, struct lw_arena *room)
{
    struct lw_plan q = *p;
    struct lw_err err = {0};

    assert_ok(lw_plan_write_shards(p, room, &q.shards, &err), err);
    q.shard_runs = NULL;
    q.n_shard_runs = 0;
    return q;
}

/* Both are refused in the same words, or neither is. */
static void expect_alike(const struct lw_plan *p, const struct lw_plan *q, int *n_refused)
{
    struct lw_plan a = *p, b = *q;
    struct lw_err x = {0}, y = {0};
    enum lw_status of_runs = lw_plan_check(&a, &x), of_whole = lw_plan_check(&b, &y);

    if (of_runs != of_whole || strcmp(x.msg, y.msg) != 0)
        fail_msg("of runs: %d '%s', of whole shards: %d '%s'", of_runs, x.msg, of_whole, y.msg);
    *n_refused += of_runs != LW_OK;
    assert_ok(lw_plan_hash(&a, &x), x);
    assert_ok(lw_plan_hash(&b, &y), y);
    assert_string_equal(a.hash, b.hash);
}

TEST(runs_are_hashed_and_proven_as_whole_shards)
{
    struct prng r = prng_start("shard runs");
    int n = 0, n_long = 0, n_refused = 0, n_faults = 0;

    for (int i = 0; i < unit_cases(22, 400); i++) {
        static struct random_model k;
        struct lw_arena room = {0};
        struct lw_plan p, q;
        struct lw_err err = {0};
        if (!build(&r, &k, &p))
            continue;
        n++;
        assert_null(p.shards);
        assert_true(p.n_shard_runs > 0);
        q = with_whole(&p, &room);
        assert_ok(lw_plan_check(&q, &err), err);
        expect_alike(&p, &q, &n_refused);
        for (int f = 0; f < 6; f++, n_faults++) {
            struct lw_shard_run *x = &p.shard_runs[prng_in(&r, 0, p.n_shard_runs - 1)], kept = *x;
            int64_t by = prng_in(&r, 0, 1) ? 1 : -1;
            n_long += x->n > 1;
            if (f % 3 == 0)
                x->first.owner += (int32_t)by;
            else if (f % 3 == 1)
                x->first.numel += by;
            else
                x->first.first += by;
            q = with_whole(&p, &room);
            expect_alike(&p, &q, &n_refused);
            *x = kept;
        }
        lw_arena_free(&room);
        lw_plan_free(&p);
    }
    printf("%d plans, %d of %d faults refused, %d of them in runs\n", n, n_refused, n_faults,
           n_long);
    assert_true(n > 10 && n_long > 5 && n_refused > n_faults / 2);
}

/* Two parameters of 10 and 7 elements; the second in runs of 2 and of 1. */
TEST(runs_are_written_out_in_order)
{
    static const struct lw_shard expected[] = {
        {0, -1, 0, 10}, {1, 3, 0, 3}, {1, 4, 3, 3}, {1, 5, 6, 1}};
    struct lw_shard_run runs[] = {{{0, -1, 0, 10}, 1}, {{1, 3, 0, 3}, 2}, {{1, 5, 6, 1}, 1}};
    const struct lw_plan p = {.n_shards = 4, .shard_runs = runs, .n_shard_runs = 3};
    struct lw_arena room = {0};
    struct lw_shard *shards;
    struct lw_err err = {0};

    assert_ok(lw_plan_write_shards(&p, &room, &shards, &err), err);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(shards[i].param, expected[i].param);
        assert_int_equal(shards[i].owner, expected[i].owner);
        assert_int_equal(shards[i].first, expected[i].first);
        assert_int_equal(shards[i].numel, expected[i].numel);
    }
    assert_int_equal(lw_shard_run_end(&runs[1]), 6);
    lw_arena_free(&room);
}


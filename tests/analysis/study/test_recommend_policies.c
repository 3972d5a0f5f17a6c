/* The bucketings of a search are those that the planner makes, under every policy that takes a
 * bucket cap and every ZeRO stage: what the search says of a cap is compared with a plan of that
 * cap. */
#include "tests/lib/unit.h"
#include <string.h>

#include "analysis/study/recommend.h"
#include "shared/bucket/policy.h"
#include "shared/lower/lower.h"
#include "sim/cost/cost_model.h"
#include "tests/lib/plans/random_strategy.h"
#include "tests/lib/plans/strategy_words.h"
#include "tests/lib/sim/sim_help.h"

enum { N_CAPS = 150, N_GRADS = 10 };

static struct lw_err err;

/* Ten gradients of up to 160 bytes, so that a random cap is often next to a sum of some of them. */
static void small_model(struct prng *r, bool mixed, struct random_model *k)
{
    static const enum lw_dtype dtypes[] = {LW_F32, LW_BF16, LW_F64};

    random_model(r, k);
    k->w.n_sparse = 0;
    k->w.n_params = N_GRADS;
    for (int32_t i = 0; i < N_GRADS; i++)
        k->params[i] = (struct lw_param){
            .name = "p", .numel = prng_in(r, 1, 40), .dtype = mixed ? dtypes[prng_below(r, 3)]
                                                                    : LW_BF16,
            .module = i * k->w.n_modules / N_GRADS, .tied = -1, .trainable = true, .used = true,
            .ready_ps = -1};
}

static void make_machine(struct lw_cluster *c)
{
    make_cluster(c, 4, 1e7, 300 * LW_PS_PER_NS);
    c->device.copy_bytes_per_s = given(8e9);
}

static enum lw_status plan_with(const struct lw_workload *w, const struct lw_strategy *strategy,
                                const struct lw_cluster *c, int64_t cap, struct lw_plan *p)
{
    struct lw_strategy s = *strategy;
    struct lw_cost cost = lw_sim_cost(c);

    s.bucket_cap_bytes = cap;
    return lw_plan_build(w, &s, &cost, p, &err);
}

/* The sets of the last pass, one for each stage. */
static bool is_settled(const struct lw_plan *p, int32_t bucket)
{
    return lw_plan_bucket_kind(p, bucket) == LW_BUCKET_GRADIENTS &&
           lw_plan_uses_set(p, p->n_variants - 1, p->buckets[bucket].set);
}

/* Which gradients share a bucket, in order: one line a bucket. */
static const char *settled_buckets(const struct lw_plan *p, char *text, size_t room, int32_t *n)
{
    size_t at = 0;

    text[0] = '\0';
    *n = 0;
    for (int32_t b = 0; b < p->n_buckets; b++) {
        if (!is_settled(p, b))
            continue;
        ++*n;
        for (int32_t i = 0; i < p->buckets[b].n_slots; i++)
            at += (size_t)snprintf(text + at, room - at, "%d ",
                                   p->slots[p->buckets[b].first_slot + i]);
        at += (size_t)snprintf(text + at, room - at, "(%lld)\n", (long long)p->buckets[b].bytes);
    }
    return text;
}

static lw_ps step_of(const struct lw_plan *p, const struct lw_cluster *c)
{
    struct lw_sim_options o = lw_sim_options_default();
    struct lw_sim_classes k = {0};
    struct lw_summary sum = {0};
    struct lw_sim_stats stats;

    o.n_steps = lw_sim_warmup_steps(p) + 1;
    assert_ok(lw_sim_run_classes(p, c, &o, &k, &stats, &err), err);
    assert_ok(lw_sim_summarize(&k, o.n_steps - 1, &sum, &err), err);
    lw_ps step = sum.step;
    lw_summary_free(&sum);
    lw_sim_classes_free(&k);
    return step;
}

/* Any, or within four bytes of what a run of gradients holds. */
static int64_t draw_cap(struct prng *r, const struct lw_workload *w)
{
    int64_t all = 0, run = 0;
    int32_t from = prng_below(r, N_GRADS), to = (int32_t)prng_in(r, from, N_GRADS - 1);

    for (int32_t i = 0; i < N_GRADS; i++) {
        int64_t bytes = w->params[i].numel * lw_dtype_size(w->params[i].dtype);
        all += bytes;
        run += i >= from && i <= to ? bytes : 0;
    }
    if (prng_below(r, 2) == 0)
        return prng_in(r, 0, all + all / 8);
    return run + prng_in(r, run < 4 ? -run : -4, 4);
}

static const struct lw_cap_point *point_of(const struct lw_recommendation *r, int64_t cap)
{
    for (int32_t i = 0; i < r->n_points; i++)
        if (cap >= r->points[i].low_bytes &&
            (cap <= r->points[i].high_bytes || i == r->n_points - 1))
            return &r->points[i];
    fail_msg("no bucketing has the cap %lld", (long long)cap);
    return NULL;
}

static void compare_with_plans(struct prng *r, const char *words, const struct lw_workload *w,
                               const struct lw_strategy *s, const struct lw_cluster *c)
{
    struct lw_recommendation found;
    char one[2048], other[2048];

    assert_ok(lw_recommend(w, s, c, NULL, NULL, &found, &err), err);
    assert_true(found.exhaustive);
    lw_ps best = found.reference.step - lw_recommendation_gain(&found);
    for (int i = 0; i < N_CAPS; i++) {
        int64_t cap = draw_cap(r, w);
        const struct lw_cap_point *point = point_of(&found, cap);
        struct lw_plan asked, named;
        int32_t n;
        assert_ok(plan_with(w, s, c, cap, &asked), err);
        assert_ok(plan_with(w, s, c, point->cap_bytes, &named), err);
        if (strcmp(settled_buckets(&asked, one, sizeof one, &n),
                   settled_buckets(&named, other, sizeof other, &n)) != 0)
            fail_msg("'%s': the plan of cap %lld has other buckets than that of %lld, which is to "
                     "hold from %lld to %lld:\n%sand\n%s", words, (long long)cap,
                     (long long)point->cap_bytes, (long long)point->low_bytes,
                     (long long)point->high_bytes, one, other);
        assert_int_equal(point->n_buckets, n);
        assert_int_equal(point->step, step_of(&asked, c));
        assert_true(best <= point->step);
        lw_plan_free(&asked);
        lw_plan_free(&named);
    }
    lw_recommendation_free(&found);
}

/* Words of a strategy, and whether its policy takes gradients of several dtypes. */
static const struct {
    const char *words;
    bool mixed;
} cases[] = {
    {"dp 2", true},
    {"dp 2 first-bucket 96", true},
    {"dp 2 last-bucket-cap on", true},
    {"dp 2 find-unused on", true},
    {"dp 2 static-graph on", true},
    {"dp 2 comm-hook bf16", true},
    {"dp 2 grad-dtype f32 comm-hook fp16", false},
    {"dp 2 no-sync 1", true},
    {"dp 2 pp 2 micro-batches 2", true},
    {"dp 2 bucket-policy c10d-1.13", true},
    {"dp 2 bucket-policy c10d-1.13 first-bucket 200", true},
    {"dp 2 bucket-policy c10d-2020", true},
    {"dp 2 compat c10d", true},
    {"dp 2 bucket-policy picotron", false},
    {"dp 2 bucket-policy picotron grad-dtype f32", false},
    {"dp 2 compat picotron", false},
    {"dp 2 compat picotron grad-dtype f16", false},
    {"dp 2 bucket-policy deepspeed", true},
    {"dp 2 pp 2 micro-batches 2 bucket-policy deepspeed", true},
    {"dp 2 bucket-policy megatron", true},
    {"dp 2 zero 1 bucket-policy megatron", true},
    {"dp 2 zero 1", true},
    {"dp 4 zero 1 zero-group 2", true},
    {"dp 2 zero 1 overlap-param-gather on", true},
    {"dp 2 zero 1 bucket-policy c10d-2", true},
    {"dp 2 zero 1 shard-policy lpt", true},
    {"dp 2 zero 2", true},
    {"dp 2 zero 2 grad-dtype f32", false},
    {"dp 2 zero 1 shard-policy oss-greedy", false},
    {"dp 2 zero 1 bucket-policy sharded-ddp", false},
    {"dp 2 zero 2 shard-policy oss-greedy bucket-policy sharded-ddp", false},
    {"dp 2 compat fairscale", false},
};

TEST(a_plan_of_any_cap_has_the_buckets_that_the_search_says)
{
    struct prng r = prng_start("recommend policies");
    struct lw_cluster c;
    struct random_model k;

    make_machine(&c);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int n = 0; n < unit_cases(2, 20); n++) {
            struct lw_strategy s = strategy(cases[i].words);
            small_model(&r, cases[i].mixed, &k);
            compare_with_plans(&r, cases[i].words, &k.w, &s, &c);
        }
    lw_cluster_free(&c);
}

/* Every row of the table of policies is among the cases, or takes no cap. */
TEST(every_policy_that_takes_a_cap_is_searched)
{
    struct prng r = prng_start("recommend every policy");
    bool searched[LW_N_BUCKET_POLICIES] = {false};
    struct lw_cluster c;
    struct random_model k;

    make_machine(&c);
    small_model(&r, false, &k);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lw_strategy s = strategy(cases[i].words);
        struct lw_plan p;
        assert_ok(plan_with(&k.w, &s, &c, 64, &p), err);
        searched[p.strategy->bucket_policy] = true;
        lw_plan_free(&p);
    }
    for (int i = 0; i < LW_N_BUCKET_POLICIES; i++)
        assert_int_equal(searched[i],
                         (lw_bucket_policy((enum lw_bucket_policy_id)i)->takes & LW_TAKES_CAP) > 0);
    lw_cluster_free(&c);
}

static void expect_refused(const char *words, const char *part)
{
    struct prng r = prng_start("recommend refusals");
    struct lw_recommendation found;
    struct lw_strategy s = strategy(words);
    struct lw_cluster c;
    struct random_model k;

    make_machine(&c);
    small_model(&r, false, &k);
    assert_int_equal(lw_recommend(&k.w, &s, &c, NULL, NULL, &found, &err), LW_EINVAL);
    if (!strstr(err.msg, part))
        fail_msg("'%s' lacks '%s'", err.msg, part);
    lw_cluster_free(&c);
}

TEST(where_no_cap_changes_buckets_there_is_nothing_to_search)
{
    expect_refused("dp 2 zero 3", "--zero 3");
    expect_refused("dp 2 bucket-policy single", "--bucket-policy single does not support "
                                                "--bucket-cap; these do: c10d-2020");
    expect_refused("dp 2 zero 1 shard-policy per-tensor", "--bucket-policy per-tensor");
    expect_refused("dp 2 bucket-policy optimal", "--bucket-policy optimal");
}

/* Limits of c10d are no reference for a policy that closes buckets by another rule. */
TEST(recorded_limits_are_a_reference_for_the_policies_that_have_them)
{
    static const int64_t usual[] = {1 << 20, 25 << 20}, two[] = {100, 200}, one[] = {96};
    static const struct {
        const char *words;
        const int64_t *limits;
        int32_t n_limits;
        enum lw_cap_source source;
        int64_t cap;
    } asked[] = {
        {"dp 2", usual, 2, LW_CAP_RECORDED, -1},     {"dp 2", two, 2, LW_CAP_RECORDED, 200},
        {"dp 2 zero 1", usual, 2, LW_CAP_DEFAULT, -1}, {"dp 2 zero 1", two, 2, LW_CAP_DEFAULT, -1},
        {"dp 2 zero 2", one, 1, LW_CAP_DEFAULT, -1},
        {"dp 2 bucket-policy picotron", two, 2, LW_CAP_DEFAULT, -1},
        {"dp 2 zero 1 shard-policy lpt", one, 1, LW_CAP_RECORDED, 96},
    };
    struct prng r = prng_start("recommend references");
    struct lw_cluster c;
    struct random_model k;

    make_machine(&c);
    small_model(&r, false, &k);
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        struct lw_strategy s = strategy(asked[i].words);
        struct lw_recommendation found;
        k.w.recorded.n_limits = asked[i].n_limits;
        k.w.recorded.limit_bytes = asked[i].limits;
        assert_ok(lw_recommend(&k.w, &s, &c, NULL, NULL, &found, &err), err);
        assert_int_equal(found.source, asked[i].source);
        assert_int_equal(found.reference.cap_bytes, asked[i].cap);
        lw_recommendation_free(&found);
    }
    lw_cluster_free(&c);
}

/* Every bucket policy with every shard policy at every ZeRO stage, on 2, 3 and 4 ranks, with and
 * without accumulation: what can be planned runs and is verified bitwise; the rest is refused
 * with a message. Which is which is written down here. Then every reducer. Then the matrix on the
 * NCCL backend, with ranks as streams of the fake GPU: this program again (its libraries are fixed
 * when it starts) with --loop. LAPWING_MANY runs all combinations, otherwise each fifth runs on
 * threads and each sixteenth on the fake GPU. The model is that of
 * tests/lib/plans/tiny_workload.h: four parameters of 602 f32 in all, one of them of 2 elements,
 * fewer than there are ranks. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "tests/lib/unit.h"

#include "exec/run/run.h"
#include "shared/bucket/policy.h"
#include "shared/lower/lower.h"
#include "sim/cost/cost_model.h"
#include "tests/lib/sim/sim_help.h"
#include "tests/lib/plans/tiny_workload.h"

enum { NUMEL = 602, NOT_GIVEN = -1 };

static const struct exec_backend *loop; /* NULL: threads */

enum accumulation { ONE_BACKWARD, THREE_MICRO_BATCHES, THREE_PASSES, N_ACCUMULATIONS };

struct combination {
    int32_t zero, bucket, shard, n_ranks; /* policies: NOT_GIVEN, or the enum's */
    enum accumulation accumulation;
};

static const struct lw_bucket_policy *row(int32_t bucket)
{
    return lw_bucket_policy((enum lw_bucket_policy_id)bucket);
}

/* ZeRO-2 cuts buckets into shares, or reduces whole parameters to their owner. */
static bool can_cut_gradients(int32_t bucket, int32_t shard)
{
    bool shares = bucket == NOT_GIVEN || row(bucket)->takes & LW_TAKES_SHARES;

    if (shard == NOT_GIVEN && bucket == LW_BUCKET_SHARDED_DDP)
        return true;
    if (shard == NOT_GIVEN || shard == LW_SHARD_FLAT)
        return shares;
    if (shard == LW_SHARD_PER_TENSOR)
        return bucket == LW_BUCKET_PER_TENSOR || bucket == NOT_GIVEN;
    return shard == LW_SHARD_OSS_GREEDY && (bucket == NOT_GIVEN || row(bucket)->to_owners);
}

static bool reduces_to_owners(int32_t bucket)
{
    return bucket != NOT_GIVEN && row(bucket)->to_owners;
}

static bool can_be_planned(const struct combination *k)
{
    if (k->shard == LW_SHARD_ROWS && k->zero < 3)
        return false;
    switch (k->zero) {
    case 0: return k->shard == NOT_GIVEN && !reduces_to_owners(k->bucket);
    case 1:
        if (k->shard == LW_SHARD_PER_TENSOR && k->n_ranks > 2)
            /* 2, 100, 200 and 300 elements in equal parts: unpadded on two ranks; units are
             * padded */
            return k->bucket == NOT_GIVEN || k->bucket == LW_BUCKET_PER_TENSOR;
        return !reduces_to_owners(k->bucket) || k->shard == NOT_GIVEN ||
               k->shard == LW_SHARD_OSS_GREEDY;
    case 2: return can_cut_gradients(k->bucket, k->shard);
    default: /* its units are buckets */
        return k->bucket == NOT_GIVEN && (k->shard == NOT_GIVEN || k->shard == LW_SHARD_FLAT ||
                                            k->shard == LW_SHARD_ROWS);
    }
}

static void give(struct lw_strategy *s, const char *name, const char *value)
{
    struct lw_err err = {0};

    if (lw_strategy_set(s, name, value, &err) != LW_OK)
        fail_msg("--%s %s: %s", name, value, err.msg);
}

static void give_number(struct lw_strategy *s, const char *name, int32_t n)
{
    char text[16];

    snprintf(text, sizeof text, "%d", n);
    give(s, name, text);
}

static struct lw_strategy strategy_of(const struct combination *k)
{
    struct lw_strategy s = lw_strategy_default();

    give_number(&s, "dp", k->n_ranks);
    give_number(&s, "zero", k->zero);
    if (k->bucket != NOT_GIVEN)
        give(&s, "bucket-policy", lw_bucket_policy_name((enum lw_bucket_policy_id)k->bucket));
    if (k->shard != NOT_GIVEN)
        give(&s, "shard-policy", lw_shard_policy_name((enum lw_shard_policy_id)k->shard));
    if (k->accumulation == THREE_MICRO_BATCHES)
        give(&s, "micro-batches", "3");
    if (k->accumulation == THREE_PASSES)
        give(&s, "no-sync", "2");
    return s;
}

static const char *describe(const struct combination *k)
{
    static const char *const how[] = {"", " --micro-batches 3", " --no-sync 2"};
    static char text[128];

    snprintf(text, sizeof text, "--dp %d --zero %d --bucket-policy %s --shard-policy %s%s",
             k->n_ranks, k->zero,
             k->bucket < 0 ? "(not given)"
                           : lw_bucket_policy_name((enum lw_bucket_policy_id)k->bucket),
             k->shard < 0 ? "(not given)" : lw_shard_policy_name((enum lw_shard_policy_id)k->shard),
             how[k->accumulation]);
    return text;
}

/* Runs two steps with momentum. */
static enum lw_status run(const struct lw_plan *p, int32_t ranks_per_node, struct lw_exec_result *r,
                          struct lw_err *err)
{
    struct lw_exec_options o = lw_exec_options_default();

    o.compute = EXEC_COMPUTE_SLEEP;
    o.n_steps = 2;
    o.n_warmup = 0;
    o.optimizer = exec_optimizer_of(EXEC_MOMENTUM);
    o.ranks_per_node = ranks_per_node;
    o.loop = loop != NULL;
    if (loop)
        o.backend = loop;
    return lw_exec_run(p, &o, r, err);
}

/* Weights and momentum on every rank; ZeRO 1 and 2 keep one momentum in all, ZeRO-3 one of both. */
static int64_t bytes_compared(const struct combination *k)
{
    int64_t copies = k->zero == 0 ? 2 * k->n_ranks : k->zero == 3 ? 2 : k->n_ranks + 1;

    return copies * NUMEL * 4;
}

static void verify(const struct combination *k, const struct lw_plan *p)
{
    struct lw_exec_result r;
    struct lw_err err = {0};

    if (run(p, 0, &r, &err) != LW_OK)
        fail_msg("%s: %s", describe(k), err.msg);
    if (r.verified != LW_EXEC_VERIFIED || r.n_checked_bytes != bytes_compared(k))
        fail_msg("%s: %lld bytes compared, not %lld", describe(k), (long long)r.n_checked_bytes,
                 (long long)bytes_compared(k));
    lw_exec_result_free(&r);
}

/* Both, or none, of planning and running as the table above says. */
static void try(const struct combination *k, const struct lw_cost *cost)
{
    struct lw_strategy s = strategy_of(k);
    struct lw_plan p = {0};
    struct lw_err err = {0};
    struct tiny t;

    tiny_init(&t);
    for (int32_t i = 0; i < t.w.n_params; i++)
        t.params[i].rows = t.params[i].numel;
    enum lw_status built = lw_plan_build(&t.w, &s, cost, &p, &err);
    if (can_be_planned(k)) {
        if (built != LW_OK)
            fail_msg("%s: %s", describe(k), err.msg);
        verify(k, &p);
    } else if (built != LW_EINVAL || (!strstr(err.msg, "--shard-policy") &&
                                      !strstr(err.msg, "--bucket-policy"))) {
        fail_msg("%s: status %d, and the words are: %s", describe(k), (int)built, err.msg);
    }
    lw_plan_free(&p);
}

static void every_policy_at_a_stage(int32_t zero)
{
    const int of = loop ? unit_cases(16, 1) : unit_cases(5, 1); /* one combination of so many */
    struct lw_cluster c;
    int i = zero;

    make_cluster(&c, 4, 1e9, 1000000);
    struct lw_cost cost = lw_sim_cost(&c);
    struct combination k = {.zero = zero};
    for (k.bucket = NOT_GIVEN; k.bucket < LW_N_BUCKET_POLICIES; k.bucket++)
        for (k.shard = NOT_GIVEN; k.shard < LW_N_SHARD_POLICIES; k.shard++)
            for (k.n_ranks = 2; k.n_ranks <= 4; k.n_ranks++)
                for (int a = 0; a < (k.n_ranks == 3 ? N_ACCUMULATIONS : THREE_PASSES); a++) {
                    k.accumulation = (enum accumulation)a;
                    if (i++ % of == 0)
                        try(&k, &cost);
                }
    lw_cluster_free(&c);
}

TEST(without_zero_every_bucket_policy_ends_like_one_rank)
{
    every_policy_at_a_stage(0);
}

TEST(zero_1_ends_like_one_rank)
{
    every_policy_at_a_stage(1);
}

TEST(zero_2_ends_like_one_rank)
{
    every_policy_at_a_stage(2);
}

TEST(zero_3_ends_like_one_rank)
{
    every_policy_at_a_stage(3);
}

/* Reducers that know of nodes need as many ranks on each: 3 ranks at 2 per node are refused. */
TEST(every_reducer_ends_like_one_rank)
{
    static const char *const reducers[] = {"ring", "tree", "hierarchical", "hfreduce"};

    for (int i = 0; i < 4; i++)
        for (int32_t n = 2; n <= 4; n++)
            for (int32_t per_node = 1; per_node <= 4; per_node *= 2) {
                struct combination k = {0, NOT_GIVEN, NOT_GIVEN, n, ONE_BACKWARD};
                struct lw_strategy s = strategy_of(&k);
                struct lw_exec_result r;
                struct lw_plan p;
                struct lw_err err = {0};
                struct tiny t;
                tiny_init(&t);
                give(&s, "reducer", reducers[i]);
                assert_int_equal(lw_plan_build(&t.w, &s, NULL, &p, &err), LW_OK);
                bool uneven = i >= 2 && n == 3 && per_node == 2;
                enum lw_status status = run(&p, per_node, &r, &err);
                if (status != (uneven ? LW_ENOTSUP : LW_OK))
                    fail_msg("%s, %d ranks, %d a node: %s", reducers[i], n, per_node, err.msg);
                if (uneven)
                    assert_non_null(
                        strstr(err.msg, "3 members at 2 ranks per node are not laid out"));
                else
                    assert_int_equal(r.n_checked_bytes, bytes_compared(&k));
                lw_exec_result_free(&r);
                lw_plan_free(&p);
            }
}

TEST(the_fake_gpu_ends_like_one_rank_too)
{
    const char *fakes = getenv("LAPWING_FAKE_GPU");
    char plugins[PATH_MAX];
    int status = 0;

    if (!fakes || !*fakes) {
        printf("SKIP the matrix on the NCCL backend: the plugin was left out of this build\n");
        skip();
    }
    assert_non_null(realpath(getenv("LAPWING"), plugins));
    *strrchr(plugins, '/') = '\0';
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        setenv("LAPWING_PLUGINS", plugins, 1);
        setenv("LD_LIBRARY_PATH", fakes, 1);
        execl("/proc/self/exe", "test_exec_matrix", "--loop", (char *)NULL);
        _exit(99);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static int loop_or_tests(int argc, char **argv)
{
    struct lw_err err = {0};

    if (argc < 2 || strcmp(argv[1], "--loop") != 0)
        return -1;
    if (exec_backend_find("nccl", &loop, &err) != LW_OK) {
        printf("%s\n", err.msg);
        return 1;
    }
    for (int32_t zero = 0; zero <= 3; zero++)
        every_policy_at_a_stage(zero);
    return 0;
}

TEST_MAIN(loop_or_tests)

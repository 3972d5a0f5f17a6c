/* Writes the plans of random models under every bucket policy into a folder, one file each:
 * tests/same_bytes.sh compiles this several times and compares what they write. */
#include <stdio.h>
#include <stdlib.h>

#include "shared/bucket/policy.h"
#include "shared/cluster/cluster.h"
#include "shared/files/files.h"
#include "shared/lower/lower.h"
#include "shared/schedule/schedule.h"
#include "sim/cost/cost_model.h"

enum { MODULES = 40, PARAMS = 200, ROUNDS = 12 };

struct model {
    struct lw_module modules[MODULES];
    struct lw_param params[PARAMS];
    struct lw_workload w;
};

static int64_t next(uint64_t *x, int64_t below)
{
    *x = *x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int64_t)((*x >> 20) % (uint64_t)below);
}

static void draw(uint64_t *x, bool mixed, struct model *k)
{
    static struct model empty;

    *k = empty;
    k->w = (struct lw_workload){.name = "random", .modules = k->modules, .params = k->params,
                                .n_modules = (int32_t)(1 + next(x, MODULES)),
                                .n_params = (int32_t)(1 + next(x, PARAMS)),
                                .optimizer_ps = next(x, 1000000000), .batch = 1};
    k->w.from.rank = k->w.from.step = -1;
    k->w.recorded.step_ps = k->w.recorded.step_spread_ps = -1;
    for (int32_t m = 0; m < k->w.n_modules; m++)
        k->modules[m] = (struct lw_module){.name = "m",
                                           .forward_ps = next(x, 1000000000),
                                           .backward_input_ps = next(x, 1000000000),
                                           .backward_weight_ps = next(x, 1000000000),
                                           .forward_flops = next(x, 1000000000000),
                                           .forward_bytes = -1,
                                           .output_bytes = -1,
                                           .kept_bytes = {-1, -1, -1}};
    for (int32_t i = 0; i < k->w.n_params; i++)
        k->params[i] = (struct lw_param){.name = "p",
                                         .numel = next(x, 4000000),
                                         .dtype = mixed && next(x, 3) == 0 ? LW_BF16 : LW_F32,
                                         .module = i * k->w.n_modules / k->w.n_params,
                                         .tied = -1,
                                         .trainable = true,
                                         .used = true,
                                         .ready_ps = -1};
}

/* Latencies and bandwidths that no double holds exactly. */
static struct lw_cluster cluster(struct lw_link *link)
{
    struct lw_cluster c = {.name = "portable", .n_nodes = 1, .devices_per_node = 64, .n_links = 1,
                           .links = link, .library = "", .library_version = "", .about = "",
                           .device = {.kind = "none"}};

    *link = (struct lw_link){.name = "ring", .level = LW_LINK_INTRA,
                             .bytes_per_s = {12.3456789e9, "test"},
                             .latency_ps = {1234.567 * LW_PS_PER_NS, "test"}};
    return c;
}

/* The same model with what pipelines and tensor groups need to know, and a strategy of both. */
static void make_parallel(uint64_t *x, struct model *k, struct lw_strategy *s)
{
    static const enum lw_schedule schedules[] = {
        LW_SCHEDULE_1F1B, LW_SCHEDULE_GPIPE, LW_SCHEDULE_INTERLEAVED_ZB, LW_SCHEDULE_ZB_AUTO_2P,
        LW_SCHEDULE_ZBV, LW_SCHEDULE_DUALPIPE, LW_SCHEDULE_COLOSSAL_1F1B};

    k->w.n_modules = MODULES;
    for (int32_t m = 0; m < MODULES; m++) {
        k->modules[m].forward_ps = k->modules[m].forward_ps ? k->modules[m].forward_ps : 777;
        k->modules[m].output_bytes = 1 + next(x, 100000);
        k->modules[m].name = "m";
        k->modules[m].tp_split = next(x, 2) ? LW_TP_BLOCK : LW_TP_REPLICATED;
        k->modules[m].tp_calls = 2;
        k->modules[m].tp_forward_bytes = k->modules[m].tp_backward_bytes = 3000;
    }
    s->schedule = schedules[next(x, 7)];
    s->pp = 2 + 2 * next(x, 2);
    s->tp = 1 + next(x, 3);
    s->dp = 1 + next(x, 4);
    s->micro_batches = 8;
    s->partition = next(x, 2) ? LW_PARTITION_EXACT : LW_PARTITION_PIPEDREAM;
    s->chunks = lw_schedule_chunks(s->schedule) > 0 ? lw_schedule_chunks(s->schedule) : 2;
    s->recompute = next(x, 2) ? LW_RECOMPUTE_FULL : LW_RECOMPUTE_NONE;
    s->zero = next(x, 2);
    s->shard_policy = s->zero ? LW_SHARD_FLAT : LW_SHARD_OSS_GREEDY;
}

static int write_plan(const struct model *k, const struct lw_strategy *s,
                      const struct lw_cost *cost, const char *path)
{
    struct lw_plan p;
    struct lw_err err = {0};

    if (lw_plan_build(&k->w, s, cost, &p, &err) != LW_OK ||
        lw_plan_write(&p, path, &err) != LW_OK) {
        fprintf(stderr, "%s: %s\n", path, err.msg);
        return 1;
    }
    lw_plan_free(&p);
    return 0;
}

int main(int argc, char **argv)
{
    static struct model k;
    struct lw_link link;
    struct lw_cluster c = cluster(&link);
    struct lw_cost cost = lw_sim_cost(&c);
    uint64_t x = 1;

    for (int round = 0; argc > 1 && round < ROUNDS; round++) {
        for (int policy = 0; policy < LW_N_BUCKET_POLICIES; policy++) {
            struct lw_strategy s = lw_strategy_default();
            char path[512];
            if (lw_bucket_policy((enum lw_bucket_policy_id)policy)->to_owners)
                continue;
            s.bucket_policy = (enum lw_bucket_policy_id)policy;
            s.dp = 2 + next(&x, 60);
            s.no_sync = next(&x, 3);
            s.comm_hook = (enum lw_comm_hook)next(&x, LW_N_COMM_HOOKS);
            draw(&x, lw_bucket_policy(s.bucket_policy)->takes & LW_TAKES_MIXED, &k);
            snprintf(path, sizeof path, "%s/%02d-%s.json", argv[1], round,
                     lw_bucket_policy_name(s.bucket_policy));
            if (write_plan(&k, &s, &cost, path) != 0)
                return EXIT_FAILURE;
            if (policy != LW_BUCKET_C10D_2)
                continue;
            make_parallel(&x, &k, &s);
            snprintf(path, sizeof path, "%s/%02d-parallel.json", argv[1], round);
            if (write_plan(&k, &s, &cost, path) != 0)
                return EXIT_FAILURE;
        }
    }
    return EXIT_SUCCESS;
}

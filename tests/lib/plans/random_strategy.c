/* Random models and strategies for property tests and goldens. */
#include "tests/lib/plans/random_strategy.h"

#include <stdarg.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "shared/bucket/policy.h"
#include "shared/schedule/schedule.h"
#include "shared/workload/sparse.h"

void random_model(struct prng *r, struct random_model *k)
{
    memset(k, 0, sizeof *k);
    k->w = (struct lw_workload){.name = "random", .modules = k->modules, .params = k->params,
                                .n_modules = (int32_t)prng_in(r, 8, RANDOM_MODULES),
                                .n_params = (int32_t)prng_in(r, 8, RANDOM_PARAMS),
                                .optimizer_ps = prng_in(r, 0, 50000000), .batch = 1};
    k->w.from.rank = k->w.from.step = -1;
    k->w.recorded.step_ps = k->w.recorded.step_spread_ps = -1;
    for (int g = 0; g < LW_N_GAPS; g++)
        k->w.gap_ps[g] = prng_in(r, 0, 1) * prng_in(r, 0, 3000000);
    for (int32_t m = 0; m < k->w.n_modules; m++)
        k->modules[m] = (struct lw_module){
            .name = "m", .forward_ps = prng_in(r, 0, 9000000),
            .backward_input_ps = prng_in(r, 0, 9000000),
            .backward_weight_ps = prng_in(r, 0, 9000000), .forward_flops = -1,
            .forward_bytes = -1, .output_bytes = prng_in(r, 1, 100000),
            .kept_bytes = {-1, 0, -1}, .tp_split = (enum lw_tp_split)prng_in(r, 0, LW_TP_BLOCK),
            .tp_calls = (int32_t)prng_in(r, 0, 3), .selective_ps = 0};
    for (int32_t m = 0; m < k->w.n_modules; m++) {
        struct lw_module *x = &k->modules[m];
        x->selective_ps = prng_in(r, 0, x->forward_ps);
        x->whole_forward_ps = prng_in(r, 0, x->forward_ps);
        x->whole_input_ps = prng_in(r, 0, x->backward_input_ps);
        if (x->tp_split != LW_TP_REPLICATED) {
            x->tp_forward_bytes = prng_in(r, 0, 2) * 1000;
            x->tp_backward_bytes = prng_in(r, 0, 2) * 1000;
        }
    }
    for (int32_t i = 0; i < k->w.n_params; i++)
        k->params[i] = (struct lw_param){
            .name = "p", .numel = prng_in(r, 1, 400) * 12, .dtype = LW_F32,
            .module = i * k->w.n_modules / k->w.n_params, .tied = -1,
            .trainable = prng_in(r, 0, 9) > 0, .used = true, .ready_ps = -1,
            .tp_split = (uint8_t)prng_in(r, 0, 3)};
    k->w.sparse = k->sparse;
    if (prng_in(r, 0, 3) == 0)
        for (int32_t i = 2; i < 4; i++) {
            struct lw_param *p = &k->params[i];
            p->sparse = p->trainable = true;
            p->tp_split = LW_TP_REPLICATED;
            k->sparse[k->w.n_sparse++] =
                (struct lw_sparse){i, 12, (int32_t)prng_in(r, 1, p->numel / 12)};
        }
    for (int32_t n = (int32_t)prng_in(r, 0, 3), i = 0; i < n; i++) { /* copies of an early one */
        struct lw_param *p = &k->params[prng_in(r, 4, k->w.n_params - 1)];
        int32_t module = p->module, first = (int32_t)prng_in(r, 0, 1);
        *p = k->params[first];
        p->module = module;
        p->tied = first;
    }
}

/* Where two parts of a rank are neighbours (the turn of a V), only an explicit list tells the test
 * where one ends. */
static void draw_partition(struct prng *r, struct random_model *k, struct lw_strategy *s)
{
    int32_t parts = (int32_t)(s->pp * s->chunks), at = 0;
    size_t n = 0;

    if (s->schedule == LW_SCHEDULE_DUALPIPE)
        parts = (int32_t)s->pp;
    else if (s->pp > 1 && lw_schedule_chunks(s->schedule) == 2)
        s->partition = LW_PARTITION_EXPLICIT;
    if (s->partition != LW_PARTITION_EXPLICIT)
        return;
    for (int32_t q = 0; q < parts && parts <= k->w.n_modules; q++) {
        n += (size_t)snprintf(k->list + n, sizeof k->list - n, "%s%d", q > 0 ? "," : "", at);
        k->begins[at] = true;
        at += (int32_t)prng_in(r, 1, 1 + (k->w.n_modules - at - (parts - q)) / (parts - q));
    }
    s->partition_list = k->list;
}

/* An option is set as a user sets it, so that options that ask who was given see it. */
static void give(struct lw_strategy *s, const char *name, const char *value)
{
    struct lw_err err = {0};

    if (lw_strategy_set(s, name, value, &err) != LW_OK)
        fail_msg("%s", err.msg);
}

static void give_number(struct lw_strategy *s, const char *name, int64_t value)
{
    char text[24];

    snprintf(text, sizeof text, "%" PRId64, value);
    give(s, name, text);
}

/* ZeRO-3: the module's own units; what stays, what is gathered ahead, what is freed. */
static void draw_gathering(struct prng *r, struct lw_strategy *s)
{
    s->bucket_policy = LW_BUCKET_C10D_2;
    s->bucket_cap_bytes = -1;
    if (prng_in(r, 0, 1))
        give_number(s, "persist", prng_in(r, 0, 5000));
    if (prng_in(r, 0, 1))
        give_number(s, "prefetch", prng_in(r, 0, 4));
    if (prng_in(r, 0, 1))
        give(s, "reshard", prng_in(r, 0, 1) ? "on" : "off");
}

static void draw_buckets_of_shares(struct prng *r, struct lw_strategy *s)
{
    static const enum lw_bucket_policy_id cut[] = {LW_BUCKET_DEEPSPEED, LW_BUCKET_SINGLE,
                                                   LW_BUCKET_PER_TENSOR, LW_BUCKET_MEGATRON};

    s->bucket_policy =
        s->shard_policy == LW_SHARD_PER_TENSOR ? LW_BUCKET_PER_TENSOR : cut[prng_in(r, 0, 3)];
    if (s->bucket_policy != LW_BUCKET_DEEPSPEED && s->bucket_policy != LW_BUCKET_MEGATRON)
        s->bucket_cap_bytes = -1;
}

static void draw_sharding(struct prng *r, struct lw_strategy *s)
{
    static const char *const second[] = {"flat-contiguous", "flat-contiguous", "per-tensor",
                                         "oss-greedy"};

    s->zero = prng_in(r, 0, 3);
    if (s->zero == 1)
        s->shard_policy = (enum lw_shard_policy_id)prng_in(r, 0, LW_SHARD_PER_TENSOR);
    else if (s->zero == 2)
        give(s, "shard-policy", second[prng_in(r, 0, 3)]);
    else if (s->zero == 3)
        draw_gathering(r, s);
    if (s->zero == 2 && s->shard_policy != LW_SHARD_OSS_GREEDY)
        draw_buckets_of_shares(r, s);
    if ((s->zero == 1 || s->zero == 2) && s->shard_policy == LW_SHARD_OSS_GREEDY &&
        (s->zero == 2 || prng_in(r, 0, 1)))
        s->bucket_policy = LW_BUCKET_SHARDED_DDP, s->bucket_cap_bytes = -1;
    if (s->zero > 0 && s->zero < 3 && prng_in(r, 0, 2) == 0)
        give(s, "broadcast-dtype", prng_in(r, 0, 1) ? "f16" : "bf16");
    if (prng_in(r, 0, 1))
        give(s, "clip", "1.5");
}

/* Any row that needs no owners of whole parameters; draw_sharding gives those that do. */
static enum lw_bucket_policy_id draw_policy(struct prng *r)
{
    for (;;) {
        enum lw_bucket_policy_id id =
            (enum lw_bucket_policy_id)prng_in(r, 0, LW_N_BUCKET_POLICIES - 1);
        if (!lw_bucket_policy(id)->to_owners)
            return id;
    }
}

void random_strategy(struct prng *r, struct random_model *k, struct lw_strategy *s)
{
    *s = lw_strategy_default();
    s->dp = prng_in(r, 1, 4);
    s->pp = prng_in(r, 1, 5);
    s->tp = prng_in(r, 0, 1) ? prng_in(r, 2, 4) : 1;
    s->recompute = (enum lw_recompute)prng_in(r, 0, LW_N_RECOMPUTE - 1);
    s->micro_batches = prng_in(r, 1, 12);
    s->schedule = (enum lw_schedule)prng_in(r, 0, LW_SCHEDULE_CUSTOM - 1);
    s->chunks = s->pp > 1 ? prng_in(r, 1, 3) : 1;
    if (s->pp > 1 && lw_schedule_chunks(s->schedule) > 0)
        s->chunks = lw_schedule_chunks(s->schedule);
    if (s->pp == 1)
        s->schedule = LW_SCHEDULE_1F1B;
    s->partition = (enum lw_partition)prng_in(r, 0, LW_N_PARTITIONS - 1);
    if (s->pp == 1)
        s->partition = LW_PARTITION_EXACT;
    draw_partition(r, k, s);
    s->bucket_policy = draw_policy(r);
    s->bucket_cap_bytes = prng_in(r, 0, 1) ? -1 : prng_in(r, 1000, 30000);
    s->no_sync = prng_in(r, 0, 5) == 0;
    draw_sharding(r, s);
    s->rank_order = (enum lw_rank_order)prng_in(r, 0, 1);
    s->overlap = prng_in(r, 0, 3) > 0;
    if (s->pp > 1 && (s->schedule == LW_SCHEDULE_COLOSSAL_1F1B ||
                      s->schedule == LW_SCHEDULE_COLOSSAL_INTERLEAVED) && prng_in(r, 0, 1)) {
        s->compat = LW_COMPAT_COLOSSALAI;
        s->bucket_policy = LW_BUCKET_COLOSSAL;
        s->rank_order = LW_RANKS_COLOSSAL;
        s->zero = 0;
        s->shard_policy = LW_SHARD_OSS_GREEDY;
        s->persist = 0, s->prefetch = -1, s->reshard = true;
        s->broadcast_dtype = LW_F32;
        s->given = (struct lw_options_given){0};
        s->partition =
            s->partition == LW_PARTITION_COLOSSAL_BALANCED ? s->partition : LW_PARTITION_UNIFORM;
        s->partition_list = NULL;
        memset(k->begins, 0, sizeof k->begins);
    }
}

/* What PyTorch's DDP and its pipelines choose. */
static void random_torch(struct prng *r, struct lw_strategy *s)
{
    bool ddp = s->zero == 0 && s->compat == LW_COMPAT_NONE &&
               (s->bucket_policy == LW_BUCKET_C10D_1_13 || s->bucket_policy == LW_BUCKET_C10D_2);
    bool plain = s->compat == LW_COMPAT_NONE && s->pp > 1 &&
                 (s->schedule == LW_SCHEDULE_1F1B || s->schedule == LW_SCHEDULE_GPIPE);

    if (ddp && prng_in(r, 0, 1))
        give(s, "gradient-as-bucket-view", "on");
    if (ddp && s->pp == 1 && s->no_sync == 0 && prng_in(r, 0, 1))
        give(s, "sync-each-micro-batch", "on");
    if (plain && prng_in(r, 0, 1))
        give(s, "async-messages", "off");
    if (plain && !s->async_messages && s->micro_batches % 2 == 0) /* calls of a schedule */
        give(s, "drain-every", "2");
    if (s->zero == 3 && !s->root_unit && prng_in(r, 0, 1))
        give(s, "units", "children");
    if (s->zero == 3 && prng_in(r, 0, 1))
        give(s, "unit-copies", "on");
}

void random_fsdp(struct prng *r, struct lw_strategy *s)
{
    bool shares = (s->zero == 1 || s->zero == 2) &&
                  lw_bucket_policy(s->bucket_policy)->takes & LW_TAKES_SHARES &&
                  (s->shard_policy == LW_SHARD_FLAT || s->bucket_policy == LW_BUCKET_PER_TENSOR);

    if (s->zero == 3 && prng_in(r, 0, 3) == 0)
        give(s, "root-unit", "on");
    random_torch(r, s);
    if (shares && s->broadcast_dtype == LW_F32 && prng_in(r, 0, 1)) {
        give(s, "overlap-param-gather", "on");
        if (prng_in(r, 0, 1))
            give_number(s, "prefetch", prng_in(r, 0, 4));
        else if (s->pp > 1 && s->chunks > 1 && prng_in(r, 0, 1))
            give(s, "align-param-gather", "off");
    }
    if (s->zero == 0 || s->dp == 1 || prng_in(r, 0, 2) > 0)
        return;
    give_number(s, "zero-group", s->dp);
    s->dp *= prng_in(r, 2, 3);
    if (prng_in(r, 0, 2) == 0)
        give(s, "late-replicas", "on");
}

const char *strategy_words(const struct lw_strategy *s, char *text, size_t room)
{
    size_t at = 0;
    char buf[LW_STRATEGY_TEXT];

    for (int i = 0; i < lw_strategy_n_options(); i++)
        if (lw_strategy_given(s, i))
            at += (size_t)snprintf(text + at, room - at, " --%s %s", lw_strategy_option(i)->name,
                                   lw_strategy_get(s, i, buf));
    return text;
}

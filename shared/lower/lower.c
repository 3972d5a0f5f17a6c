/* Lowering a strategy: what this build can plan, and in which order its parts are called.
 * Everything else is refused here, with the reason, before any work is done. */
#include "shared/lower/lower.h"

#include "shared/lower/compat.h"
#include "shared/lower/lower_steps.h"
#include "shared/lower/outline.h"
#include "shared/lower/plan_size.h"
#include "shared/lower_part/unit_names.h"
#include "shared/schedule/schedule.h"
#include "shared/workload/model_rows.h"

static bool accepts(const struct lw_strategy *s, enum lw_bucket_takes what)
{
    return lw_bucket_policy(s->bucket_policy)->takes & (unsigned)what;
}

static enum lw_status refuse_unlowered(const struct lw_strategy *s, struct lw_err *err)
{
    char these[256];

    if (s->zero == 3 && s->broadcast_dtype != LW_F32)
        return lw_fail(err, LW_ENOTSUP,
                       "--broadcast-dtype %s: --zero 3 gathers weights in their own dtype; leave "
                       "it out",
                       lw_dtype_name(s->broadcast_dtype));
    if (s->count_forward && !accepts(s, LW_TAKES_COUNT_FORWARD))
        return lw_fail(err, LW_EINVAL, "--count-forward on is for --bucket-policy %s, not %s",
                       lw_bucket_policies_that(LW_TAKES_COUNT_FORWARD, these),
                       lw_bucket_policy_name(s->bucket_policy));
    return LW_OK;
}

static enum lw_status refuse_rounds(const struct lw_strategy *s, struct lw_err *err)
{
    if (s->micro_batch_group == 0 || (s->pp > 1 && lw_schedule_takes_group(s->schedule)))
        return LW_OK;
    return lw_fail(err, LW_EINVAL,
                   "--micro-batch-group %lld is for a pipeline with --schedule interleaved-1f1b; "
                   "choose --pp and this schedule, or leave it out",
                   (long long)s->micro_batch_group);
}

static enum lw_status refuse_drains(const struct lw_strategy *s, struct lw_err *err)
{
    if (s->drain_every == 0 || s->pp > 1)
        return LW_OK;
    return lw_fail(err, LW_EINVAL,
                   "--drain-every %lld is for a pipeline: choose --pp, or leave it out",
                   (long long)s->drain_every);
}

/* Options of recomputation that contradict each other. */
static enum lw_status refuse_recompute(const struct lw_strategy *s, struct lw_err *err)
{
    char parts[LW_AGAIN_TEXT];

    if (s->again_parts != 0 && s->recompute != LW_RECOMPUTE_SELECTIVE)
        return lw_fail(err, LW_EINVAL, "--recompute-modules %s is for --recompute selective",
                       lw_again_text(s->again_parts, parts));
    if (s->recompute_method == LW_RECOMPUTE_BLOCK)
        return LW_OK;
    const char *method = s->recompute_method == LW_RECOMPUTE_EVERY ? "every" : "uniform";
    if (s->recompute != LW_RECOMPUTE_FULL || s->recompute_layers == 0)
        return lw_fail(err, LW_EINVAL, "--recompute-method %s needs --recompute full and "
                                       "--recompute-layers of 1 or more", method);
    if (s->recompute_method == LW_RECOMPUTE_UNIFORM && s->recompute_layers > 1 && s->zero == 3)
        return lw_fail(err, LW_ENOTSUP,
                       "--recompute-method uniform of groups of %lld cannot be combined with "
                       "--zero 3: weights are gathered for one module at a time; choose "
                       "--recompute-layers 1", (long long)s->recompute_layers);
    return s->stage_bytes >= 0
               ? lw_fail(err, LW_ENOTSUP,
                         "--stage-memory cannot be combined with --recompute-method %s: the search "
                         "counts all modules alike; choose --recompute-method block", method)
               : LW_OK;
}

static enum lw_status refuse_without_tensor(const struct lw_strategy *s, struct lw_err *err)
{
    if (s->sequence_parallel && s->tp == 1)
        return lw_fail(err, LW_EINVAL, "--sequence-parallel on needs --tp of at least 2");
    if (s->tp_overlap != LW_TP_OVERLAP_OFF && s->tp == 1)
        return lw_fail(err, LW_EINVAL, "--tp-overlap needs --tp of at least 2");
    if (s->scatter_gather && (s->tp == 1 || s->pp == 1))
        return lw_fail(err, LW_EINVAL, "--scatter-gather on needs --tp and --pp of at least 2");
    if ((s->scatter_gather || s->sequence_parallel || s->tp_overlap != LW_TP_OVERLAP_OFF ||
         s->cp > 1) && s->compat == LW_COMPAT_COLOSSALAI)
        return lw_fail(err, LW_EINVAL, "--compat colossalai cannot be combined with "
                                       "--%s", s->cp > 1 ? "cp"
                       : s->scatter_gather ? "scatter-gather"
                       : s->sequence_parallel ? "sequence-parallel" : "tp-overlap");
    if (s->cp_comm == LW_CP_P2P && s->cp == 1)
        return lw_fail(err, LW_EINVAL, "--cp-comm-type p2p needs --cp of at least 2");
    if (s->recompute_layers > 0 && s->recompute != LW_RECOMPUTE_FULL)
        return lw_fail(err, LW_EINVAL, "--recompute-layers %lld is for --recompute full",
                       (long long)s->recompute_layers);
    return refuse_recompute(s, err);
}

static enum lw_status refuse_without_pipeline(const struct lw_strategy *s, struct lw_err *err)
{
    static const char *const of_blocks[] = {"first-layers", "last-layers", "count-embedding",
                                            "count-loss"};

    const char *option;
    for (int i = 0; s->pp == 1 && (option = lw_strategy_of_pipelines(i)); i++)
        if (lw_strategy_given(s, lw_strategy_find(option)))
            return lw_fail(err, LW_EINVAL, "--%s needs --pp of at least 2", option);
    for (size_t i = 0; i < sizeof of_blocks / sizeof *of_blocks; i++)
        if (s->partition != LW_PARTITION_MEGATRON &&
            lw_strategy_given(s, lw_strategy_find(of_blocks[i])))
            return lw_fail(err, LW_EINVAL, "--%s is for --partition megatron", of_blocks[i]);
    if (s->partition_list && s->partition != LW_PARTITION_EXPLICIT)
        return lw_fail(err, LW_EINVAL, "--partition-list %s is for --partition explicit",
                       s->partition_list);
    bool waits = s->schedule == LW_SCHEDULE_1F1B || s->schedule == LW_SCHEDULE_GPIPE;
    if (!s->async_messages && (s->compat != LW_COMPAT_NONE || !waits))
        return lw_fail(err, LW_ENOTSUP,
                       "--async-messages off is of --schedule 1f1b and gpipe, not %s: leave it out",
                       s->compat != LW_COMPAT_NONE ? lw_compat_name(s->compat)
                                                   : lw_schedule_name(s->schedule));
    if (s->pp > 1 && s->schedule == LW_SCHEDULE_CUSTOM)
        return lw_fail(err, LW_ENOTSUP, "--schedule custom: a user's grid is drawn and simulated "
                                        "alone (plan --schedule-file), not under a workload");
    if (s->pp > 1 && s->schedule == LW_SCHEDULE_DUALPIPE &&
        s->launch_order == LW_LAUNCH_COMPLETION)
        return lw_fail(err, LW_EINVAL, "--launch-order completion-order: the two directions of "
                                       "dualpipe complete their buckets in different orders");
    return LW_OK;
}

/* Equal shares are cut out of buckets that are made once. */
static enum lw_status refuse_units(const struct lw_strategy *s, struct lw_err *err)
{
    const char *policy = lw_bucket_policy_name(s->bucket_policy);
    bool tensors = s->shard_policy == LW_SHARD_PER_TENSOR;
    char these[256];

    if (s->zero == 3 && tensors)
        return lw_fail(err, LW_EINVAL,
                       "--zero 3 gathers the weights of a module in one op: choose --shard-policy "
                       "flat-contiguous, not per-tensor");
    if (s->zero == 3 && (lw_strategy_given(s, lw_strategy_find("bucket-policy")) ||
                         s->bucket_cap_bytes >= 0 || s->first_bucket_bytes >= 0))
        return lw_fail(err, LW_EINVAL, "--zero 3 reduces the gradients of each module in one "
                                       "bucket: leave out --bucket-policy, --bucket-cap and "
                                       "--first-bucket");
    if (s->zero == 2 && !accepts(s, LW_TAKES_SHARES))
        return lw_fail(err, LW_EINVAL,
                       "--zero 2 cuts buckets into shares: expected --bucket-policy %s, found %s",
                       lw_bucket_policies_that(LW_TAKES_SHARES, these), policy);
    if (tensors && s->bucket_policy != LW_BUCKET_PER_TENSOR)
        return lw_fail(err, LW_EINVAL,
                       "--zero %lld --shard-policy per-tensor needs --bucket-policy "
                       "per-tensor, not %s",
                       (long long)s->zero, policy);
    return LW_OK;
}

/* The optimizer's shares of buckets, which are gathered bucket by bucket. */
static enum lw_status refuse_gathers_ahead(const struct lw_strategy *s, struct lw_err *err)
{
    char these[256];

    if (!s->align_param_gather &&
        (!s->overlap_param_gather || s->pp == 1 || s->chunks == 1 || s->prefetch >= 0))
        return lw_fail(err, LW_EINVAL, "--align-param-gather off needs --overlap-param-gather on, "
                                       "--pp and --chunks of at least 2, and no --prefetch");
    if (!s->overlap_param_gather)
        return LW_OK;
    if (s->zero == 0 || s->zero == 3)
        return lw_fail(err, LW_EINVAL, "--overlap-param-gather needs --zero 1 or 2: %s",
                       s->zero == 3 ? "--zero 3 gathers weights before each use (--prefetch)"
                                    : "without it every rank updates all parameters");
    if (!lw_shard_policy(s->shard_policy)->equal_shares)
        return lw_fail(err, LW_EINVAL,
                       "--overlap-param-gather gathers buckets that are cut into shares: leave out "
                       "--shard-policy %s",
                       lw_shard_policy_name(s->shard_policy));
    if (!lw_part_has_units(s))
        return lw_fail(err, LW_EINVAL,
                       "--overlap-param-gather gathers buckets that are cut into shares: leave out "
                       "--bucket-policy %s, or choose %s",
                       lw_bucket_policy_name(s->bucket_policy),
                       lw_bucket_policies_that(LW_TAKES_SHARES, these));
    if (s->broadcast_dtype != LW_F32)
        return lw_fail(err, LW_ENOTSUP,
                       "--overlap-param-gather gathers weights in their own dtype: leave out "
                       "--broadcast-dtype %s", lw_dtype_name(s->broadcast_dtype));
    return LW_OK;
}

/* Equal shares on some of the ranks: HSDP. */
static enum lw_status refuse_group(const struct lw_strategy *s, struct lw_err *err)
{
    int64_t n = s->zero_group, all = s->dp * s->cp;

    if (n == 0 && s->late_replicas)
        return lw_fail(err, LW_EINVAL, "--late-replicas on needs --zero-group");
    if (n == 0)
        return LW_OK;
    if (s->zero == 0)
        return lw_fail(err, LW_EINVAL, "--zero-group needs --zero of at least 1");
    if (all % n != 0)
        return lw_fail(err, LW_EINVAL, "--zero-group: found %lld, expected a divisor of the %lld "
                                       "data-parallel ranks (--dp x --cp)", (long long)n,
                       (long long)all);
    if (!lw_part_has_units(s))
        return lw_fail(err, LW_EINVAL, "--zero-group cuts buckets into shares: it excludes "
                                       "--shard-policy %s with --bucket-policy %s",
                       lw_shard_policy_name(s->shard_policy),
                       lw_bucket_policy_name(s->bucket_policy));
    if (s->find_unused)
        return lw_fail(err, LW_ENOTSUP, "--zero-group cannot be combined with --find-unused");
    return LW_OK;
}

static enum lw_status refuse_reduce_elements(const struct lw_strategy *s, struct lw_err *err)
{
    if (s->reduce_elements == 0)
        return LW_OK;
    if (s->zero != 3 && s->bucket_policy != LW_BUCKET_DEEPSPEED)
        return lw_fail(err, LW_EINVAL,
                       "--reduce-bucket-size is of --bucket-policy deepspeed, not %s; other "
                       "policies have --bucket-cap", lw_bucket_policy_name(s->bucket_policy));
    if (s->bucket_cap_bytes >= 0)
        return lw_fail(err, LW_EINVAL, "--reduce-bucket-size counts elements, --bucket-cap bytes: "
                                       "give only one of them");
    return LW_OK;
}

static enum lw_status refuse_sharding(const struct lw_strategy *s, struct lw_err *err)
{
    static const char *const third[] = {"persist", "reshard", "root-unit", "units",
                                        "unit-copies", "prefetch-bucket-size",
                                        "max-live-parameters"};

    for (size_t i = 0; s->zero < 3 && i < sizeof third / sizeof *third; i++)
        if (lw_strategy_given(s, lw_strategy_find(third[i])))
            return lw_fail(err, LW_EINVAL, "--%s needs --zero 3", third[i]);
    if (s->zero < 3 && !s->overlap_param_gather &&
        lw_strategy_given(s, lw_strategy_find("prefetch")))
        return lw_fail(err, LW_EINVAL, "--prefetch needs --zero 3 or --overlap-param-gather on");
    if (s->prefetch_elements > 0 && s->prefetch >= 0)
        return lw_fail(err, LW_EINVAL, "--prefetch %lld counts units, --prefetch-bucket-size %lld "
                                       "elements: give only one of them", (long long)s->prefetch,
                       (long long)s->prefetch_elements);
    if (s->live_elements > 0 && s->prefetch_elements == 0)
        return lw_fail(err, LW_EINVAL, "--max-live-parameters limits what --prefetch-bucket-size "
                                       "gathers ahead: give both");
    LW_TRY(refuse_reduce_elements(s, err));
    LW_TRY(refuse_gathers_ahead(s, err));
    if (s->zero > 0 && s->zero < 3 && s->shard_policy == LW_SHARD_ROWS)
        return lw_fail(err, LW_EINVAL, "--shard-policy rows cuts the units of modules: it needs "
                                       "--zero 3, not %lld", (long long)s->zero);
    LW_TRY(refuse_group(s, err));
    if (lw_part_has_units(s))
        return refuse_units(s, err);
    if (s->zero < 2)
        return LW_OK;
    if (s->zero == 3 || s->shard_policy != LW_SHARD_OSS_GREEDY)
        return lw_fail(err, LW_EINVAL, "--zero %lld cannot keep parameters whole: --shard-policy "
                                       "flat-contiguous%s", (long long)s->zero,
                       s->zero == 2 ? ", or oss-greedy with gradients reduced to their owner" : "");
    if (!lw_bucket_policy(s->bucket_policy)->to_owners)
        return lw_fail(err, LW_EINVAL,
                       "--zero 2 --shard-policy oss-greedy reduces gradients to their "
                       "owner: --bucket-policy sharded-ddp, not %s",
                       lw_bucket_policy_name(s->bucket_policy));
    return LW_OK;
}

/* What the ZeRO stage means where the user says nothing: equal shares that are reduce-scattered,
 * as in DeepSpeed, FSDP and Megatron; FairScale's whole parameters by name. See
 * docs/design/zero.md. */
static void resolve_sharding(const struct lw_strategy *given, struct lw_strategy *s)
{
    bool whole = s->zero == 1 && s->shard_policy == LW_SHARD_OSS_GREEDY;

    if (s->zero >= 1 && s->compat == LW_COMPAT_NONE &&
        !lw_strategy_given(given, lw_strategy_find("shard-policy"))) {
        s->shard_policy = s->bucket_policy == LW_BUCKET_SHARDED_DDP ? LW_SHARD_OSS_GREEDY
                                                                    : LW_SHARD_FLAT;
        whole = false;
    }
    if ((s->zero == 1 || s->zero == 2) && !whole &&
        !lw_strategy_given(given, lw_strategy_find("bucket-policy")))
        s->bucket_policy = lw_shard_policy(s->shard_policy)->buckets;
}

static enum lw_status refuse_dispatcher(const struct lw_strategy *s, struct lw_err *err)
{
    const char *name = lw_dispatcher_word((int)s->dispatcher);

    if (s->dispatcher == LW_DISPATCHER_AUTO)
        return LW_OK;
    if (s->ep == 1)
        return lw_fail(err, LW_EINVAL, "--dispatcher %s needs --ep of at least 2: without it no "
                                       "tokens are sent to other ranks", name);
    if (s->dispatcher == LW_DISPATCHER_ALL_TO_ALL && s->dispatch_once > 0)
        return lw_fail(err, LW_EINVAL, "--dispatcher %s sends every copy of a token: leave out "
                                       "--dispatch-once %lld, or give --dispatcher deepep or "
                                       "hybridep", name, (long long)s->dispatch_once);
    if (s->dispatcher != LW_DISPATCHER_ALL_TO_ALL && s->dispatch_once == 0)
        return lw_fail(err, LW_EINVAL, "--dispatcher %s sends a token once to each node and rank: "
                                       "give --dispatch-once K too, the experts of a token "
                                       "(--topk)", name);
    return LW_OK;
}

static enum lw_status refuse_dispatch(const struct lw_strategy *s, struct lw_err *err)
{
    LW_TRY(refuse_dispatcher(s, err));
    if (s->dispatch_once == 0 || s->ep > 1)
        return LW_OK;
    return lw_fail(err, LW_EINVAL, "--dispatch-once %lld needs --ep of at least 2",
                   (long long)s->dispatch_once);
}

/* Experts of a token by the rows of their products; 0 = not known. */
static int64_t experts_of_token(const struct lw_workload *w)
{
    int64_t tokens = w->batch > 0 ? lw_mul_sat(w->batch, w->sample_tokens) : 0;

    for (int32_t i = 0; tokens > 0 && i < w->n_kernels; i++) {
        const struct lw_kernel *k = &w->kernels[i];
        if (k->kind == LW_KERNEL_GEMM && k->experts > 0 && k->capacity == 0 && k->m >= tokens)
            return k->m / tokens;
    }
    return 0;
}

static enum lw_status check_dispatch(const struct lw_workload *w, const struct lw_strategy *s,
                                     struct lw_err *err)
{
    int64_t n = experts_of_token(w);

    if (s->dispatcher != LW_DISPATCHER_AUTO && w->from.made_for.dispatcher != (int)s->dispatcher)
        return lw_fail(err, LW_EINVAL,
                       "--dispatcher %s: what workload '%s' sends beside tokens is in its file and "
                       "not computed: leave --dispatcher out, or give a model (-w NAME)",
                       lw_dispatcher_word((int)s->dispatcher), w->name);
    if (s->dispatch_once == 0 || n == 0 || n == s->dispatch_once)
        return LW_OK;
    return lw_fail(err, LW_EINVAL, "--dispatch-once %lld: a token of workload '%s' goes to %lld "
                                   "experts: give --dispatch-once %lld",
                   (long long)s->dispatch_once, w->name, (long long)n, (long long)n);
}

/* Units of two that the user asks for. */
static enum lw_status refuse_expert_overlap(const struct lw_strategy *s, struct lw_err *err)
{
    enum lw_schedule_pairs pairs = lw_schedule_pairs_of(s->schedule);
    const char *why;

    if (s->expert_overlap != LW_EXPERT_OVERLAP_ON)
        return LW_OK;
    if (s->ep == 1)
        return lw_fail(err, LW_EINVAL, "--expert-overlap on needs --ep of at least 2: without it "
                                       "no tokens are sent to other ranks");
    if (s->pp == 1 && s->micro_batches < 2)
        return lw_fail(err, LW_EINVAL, "--expert-overlap on runs a forward beside the backward of "
                                       "another micro-batch: it needs --micro-batches of at least "
                                       "2");
    if (s->pp > 1 && (pairs == LW_PAIRS_NONE || s->schedule == LW_SCHEDULE_1F1B))
        return lw_fail(err, LW_EINVAL,
                       "--expert-overlap on: --schedule %s has no units of a forward and a "
                       "backward that overlap; expected interleaved-1f1b (with --chunks), dualpipe "
                       "or dualpipev", lw_schedule_name(s->schedule));
    if (!lw_strategy_overlaps_experts(s, &why))
        return lw_fail(err, LW_ENOTSUP, "--expert-overlap on cannot be combined with this: %s",
                       why);
    return LW_OK;
}

static enum lw_status refuse_contradictions(const struct lw_strategy *s, struct lw_err *err)
{
    LW_TRY(refuse_without_pipeline(s, err));
    LW_TRY(refuse_without_tensor(s, err));
    LW_TRY(refuse_sharding(s, err));
    LW_TRY(refuse_dispatch(s, err));
    LW_TRY(refuse_expert_overlap(s, err));
    if (s->zero == 0 && s->broadcast_dtype != LW_F32)
        return lw_fail(err, LW_EINVAL, "--broadcast-dtype needs --zero of at least 1");
    if (s->zero == 0 && lw_strategy_given(s, lw_strategy_find("shard-policy")))
        return lw_fail(err, LW_EINVAL, "--shard-policy needs --zero of at least 1");
    if (lw_bucket_policy(s->bucket_policy)->to_owners &&
        (s->zero < 1 || s->zero > 2 || s->shard_policy != LW_SHARD_OSS_GREEDY))
        return lw_fail(err, LW_EINVAL,
                       "--bucket-policy %s reduces gradients to the owners of whole "
                       "parameters: it needs --zero 1 or 2 with --shard-policy "
                       "oss-greedy",
                       lw_bucket_policy_name(s->bucket_policy));
    return LW_OK;
}

/* What PyTorch's DDP alone does, with buckets of its own. */
static enum lw_status refuse_of_ddp(const struct lw_strategy *s, struct lw_err *err)
{
    bool rebuilds = s->bucket_policy == LW_BUCKET_C10D_1_13 || s->bucket_policy == LW_BUCKET_C10D_2;

    if (s->bucket_view && (s->zero > 0 || !rebuilds || s->compat != LW_COMPAT_NONE))
        return lw_fail(err, LW_EINVAL,
                       "--gradient-as-bucket-view on is of DDP's buckets: it needs --bucket-policy "
                       "c10d-2 or c10d-1.13, and excludes --zero and --compat");
    if (s->bucket_view && s->comm_hook != LW_HOOK_NONE)
        return lw_fail(err, LW_ENOTSUP, "--gradient-as-bucket-view on cannot be combined with "
                                        "--comm-hook");
    if (s->sync_each && s->pp > 1)
        return lw_fail(err, LW_ENOTSUP, "--sync-each-micro-batch on: a pipeline reduces the "
                                        "gradients of its micro-batches together");
    if (s->sync_each && s->no_sync > 0)
        return lw_fail(err, LW_EINVAL, "--sync-each-micro-batch on reduces every backward, "
                                       "--no-sync %lld does not: give only one of them",
                       (long long)s->no_sync);
    if (s->sync_each && s->zero == 1)
        return lw_fail(err, LW_ENOTSUP, "--sync-each-micro-batch on cannot be combined with "
                                        "--zero 1; --zero 2 and 3 reduce every micro-batch");
    return LW_OK;
}

/* A parameter that data parallelism cannot reduce as the workload describes it. */
static enum lw_status check_params(const struct lw_workload *w, const struct lw_strategy *s,
                                   struct lw_err *err)
{
    for (int32_t i = 0; i < w->n_params; i++) {
        const struct lw_param *p = LW_PARAM(w, i);
        if (!p->trainable || p->ignored || p->tied >= 0)
            continue;
        if (p->sparse)
            LW_TRY(lw_sparse_refuse(w, s, i, err));
        if (p->sparse && s->sync_each)
            return lw_fail(err, LW_ENOTSUP,
                           "--sync-each-micro-batch on: the sparse gradient of parameter %d '%s' "
                           "is planned to be reduced once a step: give off, or --no-sync",
                           i, p->name);
        if (!p->used && !s->find_unused && !s->static_graph &&
            !lw_bucket_policy(s->bucket_policy)->skips_unused)
            return lw_fail(err, LW_EINVAL, "parameter %d '%s' is unused in the step: its bucket "
                                           "would never be reduced and the next forward would "
                                           "fail; use --find-unused on or --static-graph on", i,
                           p->name);
    }
    return LW_OK;
}

/* Selective recomputation repeats what the workload says, if it says anything. */
static enum lw_status check_recompute(const struct lw_workload *w, const struct lw_strategy *s,
                                      struct lw_err *err)
{
    char parts[LW_AGAIN_TEXT];

    if (w->from.model.autocast && s->recompute == LW_RECOMPUTE_FULL &&
        s->recompute_method == LW_RECOMPUTE_UNIFORM && s->recompute_layers > 1)
        return lw_fail(err, LW_ENOTSUP,
                       "--recompute-method uniform with groups of %lld: copies of weights that "
                       "--autocast keeps are counted by module, not by group; choose "
                       "--recompute-layers 1, or --recompute-method block or every",
                       (long long)s->recompute_layers);
    if (s->recompute != LW_RECOMPUTE_SELECTIVE)
        return LW_OK;
    if (s->again_parts != w->from.made_for.again_parts)
        return lw_fail(err, LW_EINVAL,
                       "--recompute-modules %s: workload '%s' does not say what these parts of a "
                       "module take; name a model with -w", lw_again_text(s->again_parts, parts),
                       w->name);
    for (int32_t m = 0; m < w->n_modules; m++)
        if (lw_module_at(w, m)->selective_ps > 0 ||
            lw_module_at(w, m)->kept_bytes[LW_RECOMPUTE_SELECTIVE] >= 0)
            return LW_OK;
    return lw_fail(err, LW_EINVAL, "--recompute selective: workload '%s' does not give the time "
                                   "that it repeats of a module's forward (selective_ns); full "
                                   "repeats all of it",
                   w->name);
}

/* Megatron-LM refuses offloaded activations with a pipeline and with recomputation too
 * (NVIDIA/Megatron-LM@55198ba5, megatron/core/transformer/transformer_config.py). */
static enum lw_status check_activations(const struct lw_workload *w, const struct lw_strategy *s,
                                        struct lw_err *err)
{
    bool moves = false;

    if (s->pp > 1)
        return lw_fail(err, LW_ENOTSUP, "--offload activations cannot be combined with --pp %lld: "
                                        "choose --pp 1, or --recompute", (long long)s->pp);
    if (s->recompute != LW_RECOMPUTE_NONE)
        return lw_fail(err, LW_ENOTSUP, "--offload activations cannot be combined with "
                                        "--recompute: choose one of them");
    for (int32_t m = 0; m < w->n_modules; m++)
        moves |= lw_module_at(w, m)->kept_bytes[LW_RECOMPUTE_NONE] > 0;
    if (!moves)
        return lw_fail(err, LW_EINVAL, "--offload activations: workload '%s' does not say what its "
                                       "modules keep (kept_bytes); name a model with -w", w->name);
    return LW_OK;
}

static enum lw_status check_offload(const struct lw_workload *w, const struct lw_strategy *s,
                                    struct lw_err *err)
{
    if (s->offload_layers > 0 && s->offload != LW_OFFLOAD_ACTIVATIONS)
        return lw_fail(err, LW_EINVAL, "--offload-layers %lld is for --offload activations",
                       (long long)s->offload_layers);
    if (s->offload == LW_OFFLOAD_NONE)
        return LW_OK;
    if (s->compat != LW_COMPAT_NONE)
        return lw_fail(err, LW_ENOTSUP, "--offload %s cannot be combined with --compat %s",
                       lw_offload_name(s->offload), lw_compat_name(s->compat));
    if (s->offload == LW_OFFLOAD_ACTIVATIONS)
        return check_activations(w, s, err);
    if (s->offload == LW_OFFLOAD_UPDATE)
        return w->optimizer == LW_OPTIMIZER_ADAM
                   ? LW_OK
                   : lw_fail(err, LW_ENOTSUP, "--offload update: the host's rate is known for Adam "
                                              "alone, and workload '%s' has another optimizer; "
                                              "choose --optimizer adam, or --offload optimizer",
                             w->name);
    if (w->optimizer != LW_OPTIMIZER_ADAM && w->optimizer != LW_OPTIMIZER_MOMENTUM &&
        w->optimizer != LW_OPTIMIZER_MUON)
        return lw_fail(err, LW_EINVAL, "--offload optimizer: the optimizer of workload '%s' has no "
                                       "state that is known; choose --offload none, or a workload "
                                       "with adam, muon or momentum", w->name);
    return LW_OK;
}

/* Newton and Schulz's products are of whole matrices; of a pass that adds gradients the time is a
 * part of an optimizer's that only passes over elements. */
static enum lw_status check_muon(const struct lw_workload *w, const struct lw_strategy *s,
                                 struct lw_err *err)
{
    if (w->optimizer != LW_OPTIMIZER_MUON)
        return LW_OK;
    if (s->zero == 1 && lw_part_has_units(s))
        return lw_fail(err, LW_ENOTSUP,
                       "--optimizer muon with --zero 1: each matrix is updated whole; choose "
                       "--shard-policy lpt or ping-pong, which give whole parameters to ranks");
    if (s->zero > 1)
        return lw_fail(err, LW_ENOTSUP, "--optimizer muon with --zero %lld: matrices are cut into "
                                        "shares, and each is updated whole; choose --zero 0, or "
                                        "--zero 1 --shard-policy lpt or ping-pong",
                                        (long long)s->zero);
    if (s->accumulate_pass)
        return lw_fail(err, LW_ENOTSUP, "--optimizer muon with --accumulate-pass on: no pass over "
                                        "gradients is known of its time; choose off");
    return LW_OK;
}

/* Each rank has an early and a late piece of each sequence, so that causal work is even, as
 * Megatron-LM's ranks (NVIDIA/Megatron-LM megatron/training/arguments.py: --seq-length is a
 * multiple of 2 * --context-parallel-size). */
static enum lw_status check_sequences(const struct lw_workload *w, const struct lw_strategy *s,
                                      struct lw_err *err)
{
    if (s->cp == 1 || w->sample_tokens % (2 * s->cp) == 0)
        return LW_OK;
    return lw_fail(err, LW_EINVAL,
                   "--cp %lld: sequences of workload '%s' have %lld tokens, expected a multiple of "
                   "%lld (2 x --cp: each rank has an early and a late piece): choose another --cp, "
                   "or make the workload with another --seq",
                   (long long)s->cp, w->name, (long long)w->sample_tokens, (long long)(2 * s->cp));
}

/* Every block of a decoder reads what the last module of its encoder makes, so a later stage needs
 * two values; Megatron-LM refuses such pipelines (NVIDIA/Megatron-LM@d98e8a64,
 * examples/t5/pretrain_t5.py: model_provider). */
static enum lw_status check_one_chain(const struct lw_workload *w, const struct lw_strategy *s,
                                      struct lw_err *err)
{
    if (s->pp == 1 || w->from.model.decoder_seq == 0)
        return LW_OK;
    return lw_fail(err, LW_ENOTSUP,
                   "--pp %lld: the decoder of workload '%s' reads what its encoder makes in every "
                   "block, and a stage passes one value on; choose --pp 1",
                   (long long)s->pp, w->name);
}

/* A tensor group divides whole heads: Megatron-LM refuses others of queries
 * (NVIDIA/Megatron-LM@002526d8 megatron/core/transformer/transformer_config.py). With fewer heads
 * of keys and values than ranks, Megatron Core before 0.16 refuses too; later ones gather queries,
 * keys and values over the group in each block (@f41b4fd4 megatron/core/transformer/attention.py):
 * not modelled. */
static enum lw_status check_heads(const struct lw_workload *w, const struct lw_strategy *s,
                                  struct lw_err *err)
{
    bool of_keys = w->heads % s->tp == 0;
    int64_t n = of_keys ? w->kv_heads : w->heads;

    if (n % s->tp == 0)
        return LW_OK;
    return lw_fail(err, LW_EINVAL,
                   "--tp %lld: workload '%s' has %lld heads%s, which %lld ranks cannot divide: "
                   "choose a --tp that divides %lld",
                   (long long)s->tp, w->name, (long long)n, of_keys ? " of keys and values" : "",
                   (long long)s->tp, (long long)n);
}

bool lw_params_are_plain(const struct lw_workload *w)
{
    for (int32_t i = 0; i < w->n_params; i++)
        if (lw_param_at(w, i).trainable && (lw_param_at(w, i).sparse || !lw_param_at(w, i).used))
            return false;
    return true;
}

/* The strategy with all that it leaves open, when it fits the workload. checked: w has passed
 * lw_workload_check; plain: lw_params_are_plain. */
static enum lw_status resolve(const struct lw_workload *w, bool checked, bool plain,
                              const struct lw_strategy *given, struct lw_strategy *s,
                              struct lw_err *err)
{
    LW_TRY(lw_compat_resolve(given, s, err));
    if (given->pp > 1 && lw_schedule_chunks(given->schedule) > 0 &&
        !lw_strategy_given(given, lw_strategy_find("chunks")))
        s->chunks = lw_schedule_chunks(given->schedule);
    resolve_sharding(given, s);
    LW_TRY(lw_strategy_check(s, err));
    LW_TRY(checked ? LW_OK : lw_workload_check(w, err));
    LW_TRY(lw_compat_check(s, w, err));
    LW_TRY(refuse_unlowered(s, err));
    LW_TRY(refuse_rounds(s, err));
    LW_TRY(refuse_drains(s, err));
    LW_TRY(refuse_contradictions(s, err));
    LW_TRY(refuse_of_ddp(s, err));
    LW_TRY(check_recompute(w, s, err));
    LW_TRY(check_offload(w, s, err));
    LW_TRY(check_muon(w, s, err));
    LW_TRY(check_dispatch(w, s, err));
    LW_TRY(lw_units_check(s, w, err));
    LW_TRY(check_sequences(w, s, err));
    LW_TRY(check_one_chain(w, s, err));
    LW_TRY(check_heads(w, s, err));
    LW_TRY(lw_plan_size_check(w, s, err));
    if (!plain && (s->dp * s->cp > 1 || (s->pp > 1 && s->schedule == LW_SCHEDULE_DUALPIPE)))
        LW_TRY(check_params(w, s, err));
    return LW_OK;
}

enum lw_status lw_plan_resolve(const struct lw_workload *w, bool plain,
                               const struct lw_strategy *given, struct lw_strategy *resolved,
                               struct lw_err *err)
{
    return resolve(w, true, plain, given, resolved, err);
}

enum lw_status lw_plan_settled_buckets(const struct lw_workload *w, const struct lw_strategy *s,
                                       const struct lw_cost *cost, struct lw_settled_buckets *out,
                                       struct lw_err *err)
{
    struct lw_strategy resolved;

    LW_TRY(resolve(w, false, false, s, &resolved, err));
    return lw_lower_settled_buckets(w, &resolved, cost, out, err);
}

static enum lw_status lower(const struct lw_workload *w, const struct lw_strategy *s, bool draft,
                            const struct lw_cost *cost, struct lw_plan *plan, struct lw_err *err)
{
    struct lw_strategy resolved;

    LW_TRY(resolve(w, false, false, s, &resolved, err));
    return lw_lower(w, &resolved, draft, cost, plan, err);
}

enum lw_status lw_plan_draft(const struct lw_workload *w, const struct lw_strategy *s,
                             const struct lw_cost *cost, struct lw_plan *plan, struct lw_err *err)
{
    return lower(w, s, true, cost, plan, err);
}

enum lw_status lw_plan_build(const struct lw_workload *w, const struct lw_strategy *s,
                             const struct lw_cost *cost, struct lw_plan *plan, struct lw_err *err)
{
    struct lw_plan made;

    LW_TRY(lower(w, s, false, cost, &made, err));
    enum lw_status st = lw_plan_check(&made, err);
    LW_GIVE(st, plan, made, lw_plan_free(&made));
}

/* Models of fewer parameters take no room worth the search for rows. */
enum { SHARE_ROWS_FROM = 1 << 12 };

static enum lw_status lower_freeing(struct lw_workload *w, const struct lw_strategy *s,
                                    const struct lw_cost *cost, struct lw_plan *plan,
                                    struct lw_err *err)
{
    struct lw_strategy resolved;

    if (w->n_params >= SHARE_ROWS_FROM)
        LW_TRY(lw_workload_share_rows(w, err));
    LW_TRY(resolve(w, false, false, s, &resolved, err));
    return lw_lower(w, &resolved, false, cost, plan, err);
}

enum lw_status lw_plan_build_freeing(struct lw_workload *w, const struct lw_strategy *s,
                                     const struct lw_cost *cost, struct lw_plan *plan,
                                     struct lw_err *err)
{
    struct lw_plan made;
    enum lw_status st = lower_freeing(w, s, cost, &made, err);

    lw_workload_free(w);
    LW_TRY(st);
    st = lw_plan_check(&made, err);
    LW_GIVE(st, plan, made, lw_plan_free(&made));
}

/* The strategy: one table says each option's name, words, range and place in the struct. The
 * command line, strategy files, help and completion all read this table. */
#include "shared/strategy/strategy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "shared/base/nearest.h"
#include "shared/numbers/units.h"

#define ROW_WORD(id, symbol, word, help) word,
#define ROW_HELP(id, symbol, word, help) help,
static const char *const bucket_policies[] = {LW_BUCKET_POLICIES(ROW_WORD) NULL};
static const char *const bucket_policies_helps[] = {LW_BUCKET_POLICIES(ROW_HELP) NULL};
static const char *const schedules[] = {LW_SCHEDULES(ROW_WORD) NULL};
static const char *const schedules_helps[] = {LW_SCHEDULES(ROW_HELP) NULL};
static const char *const partitions[] = {LW_PARTITIONERS(ROW_WORD) NULL};
static const char *const partitions_helps[] = {LW_PARTITIONERS(ROW_HELP) NULL};
static const char *const shard_policies[] = {LW_SHARD_POLICIES(ROW_WORD) NULL};
static const char *const shard_policies_helps[] = {LW_SHARD_POLICIES(ROW_HELP) NULL};
static const char *const reducers[] = {LW_REDUCERS(LW_ROW_REDUCER_WORD) "nccl", "nccl:ring",
                                       "nccl:nvls", "nccl:tree/ll128", "nccl:ring,tree",
                                       "nccl:^tree/simple", "nccl:^ll128", "nccl+cal", NULL};
static const char *const launch_orders[] = {"in-order", "completion-order", NULL};
static const char *const hooks[] = {"none", "fp16", "bf16", NULL};
static const char *const rank_orders[] = {"megatron", "colossal", "haiscale", NULL};
static const char *const compats[] = {"none", "picotron", "fairscale", "haiscale", "colossalai",
                                      "c10d", NULL};
static const char *const grad_dtypes[] = {"param", "f32", "f64", "f16", "bf16", NULL};
static const char *const dtypes[] = {"f32", "f64", "f16", "bf16", NULL};
static const char *const recomputes[] = {"none", "selective", "full", NULL};
static const char *const recompute_methods[] = {"block", "uniform", "every", NULL};
#define PART_WORD(id, word) word,
static const char *const again_parts[] = {LW_RECOMPUTE_PARTS(PART_WORD) NULL};
#undef PART_WORD
static const char *const tp_overlaps[] = {"off", "backward", "pieces", "copies", NULL};
static const char *const cp_comms[] = {"all-gather", "p2p", NULL};
static const char *const expert_overlaps[] = {"auto", "off", "on", NULL};
static const char *const dispatchers[] = {"auto", "all-to-all", "deepep", "hybridep", NULL};
static const char *const offloads[] = {"none", "optimizer", "activations", "update",
                                       NULL};
static const char *const on_off[] = {"off", "on", NULL};

enum { MAX_RANKS = 1 << 22 };     /* a plan of that many takes a second and 220 MB */
enum { MOST_PASSES = 1000000, MOST_CHUNKS = 1 << 10, MOST_MICRO_BATCHES = 1 << 24 };

/* INT_OR_0: 0, or in the range; LIST: whole numbers with ',' between; WORDS: a bit for each of the
 * words, with ',' between. */
enum kind { INT, INT_OR_0, SIZE, REAL, WORD, BOOLEAN, TEXT, LIST, WORDS, REDUCER };

static const struct option {
    struct lw_strategy_option shown;
    enum kind kind;
    size_t at;
    int64_t least, most; /* of a number; a field that is not given may hold another one */
} options[] = {
#define ROW(name, kind, field, least, most, arg, words, helps, help) \
    {{name, arg, help, words, helps, NULL}, kind, offsetof(struct lw_strategy, field), least, most}
#define SIZED(name, field, least, help) \
    ROW(name, SIZE, field, least, INT64_MAX, "SIZE", NULL, NULL, help)
#define PLAIN(name, kind, field, arg, help) ROW(name, kind, field, 0, 0, arg, NULL, NULL, help)
#define COUNT(name, field, least, most, help) \
    ROW(name, INT, field, least, most, "N", NULL, NULL, help)
#define CHOICE(name, field, arg, words, help) ROW(name, WORD, field, 0, 0, arg, words, NULL, help)
#define POLICY(name, field, words, help) \
    ROW(name, WORD, field, 0, 0, "NAME", words, words##_helps, help)
#define ON_OFF(name, field, help) ROW(name, BOOLEAN, field, 0, 0, "on|off", on_off, NULL, help)
    COUNT("dp", dp, 1, MAX_RANKS, "data-parallel ranks (1)"),
    COUNT("pp", pp, 1, INT16_MAX, "pipeline stages (1)"),
    COUNT("tp", tp, 1, MAX_RANKS, "tensor-parallel ranks (1)"),
    COUNT("cp", cp, 1, MAX_RANKS,
          "context-parallel ranks: each has 1/N of every sequence's tokens (1)"),
    CHOICE("cp-comm-type", cp_comm, "TYPE", cp_comms,
           "--cp: exchange of keys and values: all-gather (Megatron-LM: allgather) before "
           "attention, or p2p (or ring): a block to the next rank during each step of attention "
           "(all-gather)"),
    COUNT("ep", ep, 1, MAX_RANKS,
           "expert-parallel ranks: each has 1/N of the experts; divides dp * cp, with --etp 1 "
           "dp * cp * tp (1)"),
    ROW("etp", INT_OR_0, etp, 1, MAX_RANKS, "N", NULL, NULL,
           "--ep: ranks of a tensor group that split each expert: as many as --tp, or 1: they "
           "share the experts, each of them whole (0: as --tp)"),
    COUNT("dispatch-once", dispatch_once, 0, 1 << 16,
          "--ep: a token goes to K experts (the model's --topk), and its copies to one node, and "
          "to one rank, travel once, as with DeepEP and HybridEP (0: every copy travels)"),
    CHOICE("dispatcher", dispatcher, "NAME", dispatchers,
           "--ep: what sends tokens to experts, and so what goes beside them: all-to-all "
           "(Megatron-LM's alltoall): counts and a weight of each copy; with --dispatch-once "
           "deepep: indexes and weights of a token's experts, or hybridep: a map of all choices, "
           "and weights of all experts of a node; auto: hybridep where the framework has it and "
           "copies travel once, else nothing (auto)"),
    CHOICE("expert-overlap", expert_overlap, "MODE", expert_overlaps,
           "--ep: the all-to-alls of one micro-batch run beside the compute of another, in units "
           "of a forward and a backward: auto: in those of dualpipe and dualpipev; on: also in "
           "interleaved-1f1b and without a pipeline, which make such units as Megatron-LM's "
           "overlap_moe_expert_parallel_comm does; off (auto)"),
    ON_OFF("sequence-parallel", sequence_parallel,
           "--tp: activations between split layers are sharded over the tensor group; "
           "all-gathers and reduce-scatters replace all-reduces (off)"),
    CHOICE("tp-overlap", tp_overlap, "MODE", tp_overlaps,
           "--tp: collectives that overlap matrix products: backward: all-reduces of the "
           "backward, during the weights' gradients; pieces: the others too, in four pieces of a "
           "product; copies: the same, all-gathers and reduce-scatters inside a node by copy "
           "engines, which take no SM (async TP) (off)"),
    ON_OFF("scatter-gather", scatter_gather,
           "--tp with --pp: each tensor rank sends 1/tp of a pipeline message, gathered where it "
           "is used (off)"),
    CHOICE("rank-order", rank_order, "ORDER", rank_orders,
           "how ranks map to coordinates (megatron)"),
    COUNT("micro-batches", micro_batches, 1, MOST_MICRO_BATCHES, "micro-batches of one step (1)"),
    COUNT("chunks", chunks, 1, MOST_CHUNKS, "model chunks per pipeline stage (1)"),
    POLICY("schedule", schedule, schedules, "pipeline schedule (1f1b)"),
    {{"micro-batch-group", "N",
      "--schedule interleaved-1f1b: micro-batches that pass a chunk before the next chunk has its "
      "turn, at least --pp, or all of a step; Megatron-LM's "
      "microbatch-group-size-per-virtual-pipeline-stage (0: about --pp)", NULL, NULL, "group"},
     INT_OR_0, offsetof(struct lw_strategy, micro_batch_group), 1, MOST_MICRO_BATCHES},
    {{"drain-every", "N",
      "--pp: the schedule runs anew for each N micro-batches, after those before have left the "
      "rank, as in a program that calls a schedule for each of several batches and then takes one "
      "step (0: once for all)", NULL, NULL, NULL},
     INT_OR_0, offsetof(struct lw_strategy, drain_every), 1, MOST_MICRO_BATCHES},
    ON_OFF("async-messages", async_messages,
           "--pp: receives are posted ahead and sends are not waited for; off, as in the 1f1b and "
           "gpipe of torch.distributed.pipelining: a receive is posted when the op before has "
           "ended, and between a forward and a backward a stage waits for what it sent (on)"),
    POLICY("partition", partition, partitions, "how modules are assigned to stages (exact)"),
    PLAIN("partition-list", LIST, partition_list, "LIST",
           "first module of each stage, for --partition explicit"),
    SIZED("stage-memory", stage_bytes, 1,
          "most that a stage may hold, for --partition exact (no limit)"),
    COUNT("pin-first", pin_first, 0, INT32_MAX,
           "leading modules (embedding) on the first stage, for --partition exact (0)"),
    COUNT("pin-last", pin_last, 0, INT32_MAX,
           "trailing modules (head) on the last stage, for --partition exact (0)"),
    COUNT("first-layers", first_layers, 0, INT32_MAX,
          "blocks of the first stage, for --partition megatron (0: as many as of the others)"),
    COUNT("last-layers", last_layers, 0, INT32_MAX,
          "blocks of the last stage, for --partition megatron (0: as many as of the others)"),
    ON_OFF("count-embedding", count_embedding,
           "--partition megatron: the embedding counts as a block (off)"),
    ON_OFF("count-loss", count_loss, "--partition megatron: the head counts as a block (off)"),
    ON_OFF("weigh-transfers", weigh_transfers,
           "--partition exact: a stage's time includes the transfers at its ends by the cluster's "
           "cost (off)"),
    POLICY("bucket-policy", bucket_policy, bucket_policies,
           "how gradients are assigned to buckets (c10d-2; c10d means the same)"),
    ON_OFF("count-forward", count_forward,
           "--bucket-policy optimal: minimize the end of the next step's forward; each "
           "all-reduce is split around the optimizer, as in DeAR (off)"),
    SIZED("bucket-cap", bucket_cap_bytes, 0,
          "bucket size limit (the policy's default: 25 MiB for c10d)"),
    ROW("reduce-bucket-size", INT_OR_0, reduce_elements, 1, INT64_C(1) << 40, "N", NULL, NULL,
           "--bucket-policy deepspeed: limit in elements; also the size of the buffers that "
           "DeepSpeed holds, under ZeRO-3 too (0: 500000000)"),
    SIZED("first-bucket", first_bucket_bytes, 0,
          "limit of the first bucket (the policy's default: 1 MiB for c10d)"),
    ON_OFF("last-bucket-cap", last_bucket_cap,
           "apply the limit of the first bucket to the last one instead, as "
           "DDP_SET_LAST_BUCKET_CAP=1 does (off)"),
    CHOICE("launch-order", launch_order, "ORDER", launch_orders,
           "buckets start in index order or as they complete (in-order)"),
    ON_OFF("find-unused", find_unused, "detect unused parameters each step (off)"),
    ON_OFF("static-graph", static_graph, "the graph never changes (off)"),
    ROW("no-sync", INT, no_sync, 0, MOST_PASSES, "K", NULL, NULL,
           "backwards that only accumulate, before each one that is synchronised (0)"),
    ON_OFF("sync-each-micro-batch", sync_each,
           "gradients are reduced in every micro-batch of a step, as DDP does without no_sync, and "
           "with --zero-group summed over the replicas in each, as FSDP does; not after the last "
           "one (off)"),
    ON_OFF("accumulate-pass", accumulate_pass,
           "a micro-batch's gradients are added to those before in a pass over them, which takes a "
           "part of the recorded optimizer: of Adam an eighth, with momentum a third (off)"),
    ON_OFF("gradient-as-bucket-view", bucket_view,
           "gradients are views of their buckets, as with DDP's gradient_as_bucket_view: copied in "
           "and not out (off)"),
    CHOICE("grad-dtype", grad_dtype, "DTYPE", grad_dtypes,
           "element type of gradients (each parameter's own)"),
    CHOICE("comm-hook", comm_hook, "NAME", hooks, "compress gradients on the wire (none)"),
    ROW("zero", INT, zero, 0, 3, "STAGE", NULL, NULL, "ZeRO stage 0..3 (0)"),
    ROW("zero-group", INT_OR_0, zero_group, 2, MAX_RANKS, "N", NULL, NULL,
           "--zero: shard over groups of N data-parallel ranks; each group holds a replica (0: "
           "all ranks are one group)"),
    ON_OFF("late-replicas", late_replicas,
           "--zero-group: replicas are summed after the backward, as by XLA, whose combined "
           "all-reduces each hold a part of the first blocks; off: each share as it is reduced "
           "(off)"),
    POLICY("shard-policy", shard_policy, shard_policies,
           "how parameters are assigned to owners (flat-contiguous)"),
    ON_OFF("overlap-param-gather", overlap_param_gather,
           "ZeRO-1 and 2: a bucket's updated parameters are gathered during the next step's "
           "forward (off)"),
    ON_OFF("align-param-gather", align_param_gather,
           "--overlap-param-gather with --chunks: gathers of two chunks are issued at the start, "
           "and of each later one a chunk ahead, on all stages at once; off, and in a pipeline "
           "without chunks: as the first micro-batch gets to each (on)"),
    COUNT("prefetch", prefetch, 0, INT32_MAX,
           "how many weights are gathered ahead: units of ZeRO-3, or buckets of "
           "--overlap-param-gather (1; of these in pipelines as --align-param-gather says)"),
    ROW("prefetch-bucket-size", INT_OR_0, prefetch_elements, 1, INT64_C(1) << 40, "N", NULL, NULL,
           "ZeRO-3: weights are gathered ahead until so many elements are, as DeepSpeed's "
           "stage3_prefetch_bucket_size, in place of --prefetch (0: by --prefetch)"),
    ROW("max-live-parameters", INT_OR_0, live_elements, 1, INT64_C(1) << 40, "N", NULL, NULL,
           "ZeRO-3: no weights are gathered ahead while so many elements are there, as DeepSpeed's "
           "stage3_max_live_parameters (0: any number)"),
    COUNT("persist", persist, 0, INT32_MAX,
           "ZeRO-3: parameters of fewer elements stay on every rank (0)"),
    ON_OFF("reshard", reshard,
           "ZeRO-3: gathered weights are freed after forward and gathered again (on)"),
    ON_OFF("root-unit", root_unit,
           "ZeRO-3: parameters outside the blocks are one unit, gathered once, as in FSDP's root "
           "module (off)"),
    PLAIN("units", TEXT, units, "NAMES",
          "ZeRO-3: what is gathered together: modules (the workload's); children (of the model's "
          "root); or prefixes of module names, separated by ',' ('*' is any one name: blocks.*), "
          "the rest being the root's unit (modules)"),
    ON_OFF("unit-copies", unit_copies,
           "ZeRO-3: weights are copied into the buffer that is gathered and out of it, as FSDP2 "
           "does (off)"),
    {{"collective-algorithm", "NAME",
      "algorithm of the collectives (auto); with nccl: lists of algorithms, protocols or both, as "
      "in NCCL_ALGO and NCCL_PROTO", reducers, NULL, "reducer"},
     REDUCER, offsetof(struct lw_strategy, reducer), 0, 0},
    CHOICE("broadcast-dtype", broadcast_dtype, "DTYPE", dtypes,
           "type in which parameters are sent after a sharded optimizer step (f32)"),
    PLAIN("clip", REAL, clip, "NORM", "clip the gradient norm (0: off)"),
    CHOICE("recompute", recompute, "MODE", recomputes, "activations recomputed in backward (none)"),
    COUNT("recompute-layers", recompute_layers, 0, INT32_MAX,
           "--recompute full: N of --recompute-method; of block only the first N modules of each "
           "stage that can recompute (0: all)"),
    CHOICE("recompute-method", recompute_method, "METHOD", recompute_methods,
           "--recompute full: block: the first --recompute-layers modules of each stage; uniform: "
           "groups of N, of which the first input is kept; every: each N-th (block)"),
    ROW("recompute-modules", WORDS, again_parts, 0, 0, "LIST", again_parts, NULL,
           "--recompute selective: parts of a block to compute again, with ',' between (the "
           "framework's: core_attn)"),
    CHOICE("offload", offload, "WHAT", offloads,
           "what lies in the host's memory: optimizer: the state comes to the device for the "
           "update and goes back after it, over the link to the host; update: the state stays, "
           "gradients go there, the host's processors update and weights come back; activations: "
           "those of blocks go there after their forward and come back before their backward "
           "(none)"),
    COUNT("offload-layers", offload_layers, 0, INT32_MAX,
           "--offload activations: of so many modules from the first (0: all but the last)"),
    ON_OFF("overlap", overlap, "communicate during backward (on)"),
    CHOICE("compat", compat, "NAME", compats,
           "decide as this system does, including its faults (none)"),
};

enum { N_OPTIONS = sizeof options / sizeof *options };
_Static_assert(N_OPTIONS <= 128, "lw_options_given holds a bit per option");

static const struct lw_strategy plain = {
    .dp = 1, .pp = 1, .tp = 1, .cp = 1, .ep = 1, .micro_batches = 1, .chunks = 1,
    .bucket_cap_bytes = -1, .first_bucket_bytes = -1, .prefetch = -1,
    .stage_bytes = -1,
    .schedule = LW_SCHEDULE_1F1B, .partition = LW_PARTITION_EXACT,
    .bucket_policy = LW_BUCKET_C10D_2, .overlap = true, .reshard = true,
    .async_messages = true, .align_param_gather = true,
};

struct lw_strategy lw_strategy_default(void)
{
    return plain;
}

/* Enums and words correspond by position: the field is an int-sized enum. */
static int word_of(const void *field)
{
    int v;
    memcpy(&v, field, sizeof v);
    return v;
}

/* Gradients travel in the type, and 8 bits are requested. */
static bool sums_8_bits(const struct option *o, const char *value)
{
    static const char *const words[] = {"fp8", "FP8", "f8", "F8", "float8", "e4m3", "e5m2"};
    bool is = false;

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        is |= strstr(value, words[i]) != NULL;
    return is && (strcmp(o->shown.name, "grad-dtype") == 0 ||
                  strcmp(o->shown.name, "comm-hook") == 0);
}

/* Words that mean another one. */
static const struct {
    const char *option, *word, *means;
} aliases[] = {
    {"bucket-policy", "c10d", "c10d-2"},
    {"launch-order", "completion", "completion-order"},
    {"cp-comm-type", "allgather", "all-gather"},
    {"dispatcher", "alltoall", "all-to-all"},
    {"cp-comm-type", "ring", "p2p"},
    {"comm-hook", "fp16-compress-hook", "fp16"},
    {"comm-hook", "bf16-compress-hook", "bf16"},
};

static enum lw_status bad_word(const struct option *o, const char *value, struct lw_err *err)
{
    const char *words[64] = {NULL};
    char all[64] = "";
    size_t n = 0;

    for (; o->shown.values[n]; n++)
        words[n] = o->shown.values[n];
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (strcmp(o->shown.name, aliases[i].option) == 0)
            words[n++] = aliases[i].word;
    if (strcmp(o->shown.name, "comm-hook") == 0 && strncasecmp(value, "powersgd", 8) == 0)
        return lw_fail(err, LW_ENOTSUP,
                       "--comm-hook %s: PowerSGD sends factors of low rank and keeps the error: no "
                       "sum of gradients, so no plan has it; expected one of none, fp16, bf16",
                       value);
    if (!sums_8_bits(o, value))
        return lw_fail_word(err, o->shown.name, value, words);
    for (int i = 0; o->shown.values[i]; i++)
        lw_err_word(all, sizeof all, o->shown.values[i]);
    return lw_fail(err, LW_EINVAL,
                   "--%s: gradients are not summed in 8 bits ('%s'): e4m3 has 4 significant bits "
                   "and e5m2 3, so a sum over ranks loses small terms or overflows without a scale "
                   "per tensor, which plans do not have; expected one of %s",
                   o->shown.name, value, all);
}

static void dashed(char *to, size_t room, const char *text)
{
    snprintf(to, room, "%s", text);
    for (; *to; to++)
        if (*to == '_')
            *to = '-';
}

static enum lw_status set_word(const struct option *o, void *field, const char *value,
                               struct lw_err *err)
{
    char word[64];

    dashed(word, sizeof word, value);
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (strcmp(o->shown.name, aliases[i].option) == 0 && strcmp(word, aliases[i].word) == 0)
            snprintf(word, sizeof word, "%s", aliases[i].means);
    enum lw_dtype dtype;
    if (strstr(o->shown.name, "dtype") && lw_dtype_parse(word, &dtype, NULL) == LW_OK)
        snprintf(word, sizeof word, "%s", lw_dtype_name(dtype)); /* fp32, float32, ... */
    for (int i = 0; o->shown.values[i]; i++) {
        if (strcmp(word, o->shown.values[i]) != 0)
            continue;
        if (o->kind == BOOLEAN)
            *(bool *)field = i;
        else
            memcpy(field, &i, sizeof i);
        return LW_OK;
    }
    return bad_word(o, value, err);
}

static enum lw_status set_reducer(const struct option *o, enum lw_reducer_kind *field,
                                  const char *value, struct lw_err *err)
{
    if (lw_reducer_find(value, field))
        return LW_OK;
    if (strncmp(value, "nccl:", 5) != 0)
        return bad_word(o, value, err);
    return lw_fail(err, LW_EINVAL,
                   "--%s: unknown value '%s'; expected nccl:ALGORITHMS, nccl:PROTOCOLS or "
                   "nccl:ALGORITHMS/PROTOCOLS, lists of tree, ring, collnet-direct, collnet-chain, "
                   "nvls, nvls-tree, pat and of ll, ll128, simple ('^' before a list: all but "
                   "these); lists of one function belong in the cluster file: nccl.algo",
                   o->shown.name, value);
}

static enum lw_status set_real(const struct option *o, double *field, const char *value,
                               struct lw_err *err)
{
    char *end;
    double x = strtod(value, &end);

    if (end == value || *end || !(x >= 0 && x < 1e300))
        return lw_fail(err, LW_EINVAL, "--%s: '%s' is not a number of 0 or more, below 1e300",
                       o->shown.name, value);
    *field = x;
    return LW_OK;
}

static enum lw_status check_range(const struct option *o, int64_t v, struct lw_err *err)
{
    if ((v >= o->least && v <= o->most) || (o->kind == INT_OR_0 && v == 0))
        return LW_OK;
    if (o->kind == SIZE)
        return lw_fail(err, LW_EINVAL, "--%s: found %lld bytes, expected %s", o->shown.name,
                       (long long)v, o->least > 0 ? "more" : "0 or more");
    return lw_fail(err, LW_EINVAL, "--%s: '%lld' is not %sa whole number from %lld to %lld",
                   o->shown.name, (long long)v, o->kind == INT_OR_0 ? "0 or " : "",
                   (long long)o->least, (long long)o->most);
}

static enum lw_status set_number(const struct option *o, int64_t *field, const char *value,
                                 struct lw_err *err)
{
    int64_t v = 0, least = o->kind == INT_OR_0 ? 0 : o->least;

    enum lw_status st = o->kind == SIZE ? lw_parse_size(value, &v, err)
                                        : lw_parse_int(value, least, o->most, &v, err);
    LW_TRY(lw_err_context(err, st, "--%s", o->shown.name));
    LW_TRY(check_range(o, v, err));
    *field = v;
    return LW_OK;
}

static enum lw_status set_list(const struct option *o, const char **field, const char *value,
                               struct lw_err *err)
{
    for (const char *at = value;; at++) {
        size_t n = strspn(at, "0123456789");
        if (n == 0 || n > 9 || (at[n] && at[n] != ','))
            return lw_fail(err, LW_EINVAL, "--%s: '%s' is not a list of whole numbers with ',' "
                                           "between, as 0,4,8", o->shown.name, value);
        at += n;
        if (!*at)
            break;
    }
    *field = value;
    return LW_OK;
}

/* '-' and '_' are the same, as in Megatron-LM's and Lapwing's spelling. */
static enum lw_status set_words(const struct option *o, int64_t *field, const char *value,
                                struct lw_err *err)
{
    int64_t bits = 0;

    for (const char *at = value; *value;) {
        size_t n = strcspn(at, ",");
        char word[32], known[32];
        int k = 0;
        char given[32];
        snprintf(given, sizeof given, "%.*s", (int)(n < 31 ? n : 31), at);
        dashed(word, sizeof word, given);
        for (; again_parts[k]; k++) {
            dashed(known, sizeof known, again_parts[k]);
            if (strcmp(word, known) == 0)
                break;
        }
        if (!again_parts[k])
            return lw_fail_word(err, o->shown.name, given, again_parts);
        bits |= LW_AGAIN_BIT(k);
        if (!at[n])
            break;
        at += n + 1;
    }
    *field = bits;
    return LW_OK;
}

static enum lw_status set_field(const struct option *o, void *field, const char *value,
                                struct lw_err *err)
{
    switch (o->kind) {
    case INT:
    case INT_OR_0:
    case SIZE:
        return set_number(o, field, value, err);
    case REAL:
        return set_real(o, field, value, err);
    case WORD:
    case BOOLEAN:
        return set_word(o, field, value, err);
    case REDUCER:
        return set_reducer(o, field, value, err);
    case LIST:
        return set_list(o, field, value, err);
    case WORDS:
        return set_words(o, field, value, err);
    case TEXT:
        *(const char **)field = value;
        break;
    }
    return LW_OK;
}

const char *lw_strategy_of_pipelines(int k)
{
    static const char *const names[] = {"schedule", "partition", "partition-list", "stage-memory",
                                        "pin-first", "pin-last", "weigh-transfers",
                                        "async-messages", "first-layers", "last-layers",
                                        "count-embedding", "count-loss", "micro-batch-group",
                                        "drain-every"};

    return k < (int)(sizeof names / sizeof *names) ? names[k] : NULL;
}

bool lw_strategy_is_of_pipelines(const char *name)
{
    const char *of;

    for (int k = 0; (of = lw_strategy_of_pipelines(k)); k++)
        if (strcmp(name, of) == 0)
            return true;
    return false;
}

int lw_strategy_find(const char *name)
{
    char key[64];

    for (int i = 0; i < N_OPTIONS; i++) /* as the program itself writes it */
        if (options[i].shown.name[0] == name[0] && options[i].shown.name[1] == name[1] &&
            strcmp(options[i].shown.name, name) == 0)
            return i;
    dashed(key, sizeof key, name);
    for (int i = 0; i < N_OPTIONS; i++)
        if (strcmp(key, options[i].shown.name) == 0 ||
            (options[i].shown.was && strcmp(key, options[i].shown.was) == 0))
            return i;
    return -1;
}

static enum lw_status unknown_option(const char *name, struct lw_err *err)
{
    struct lw_nearest near = lw_nearest_begin(name);
    char hint[96];

    for (int i = 0; i < lw_strategy_n_options(); i++)
        lw_nearest_try(&near, options[i].shown.name);
    return lw_fail(err, LW_EINVAL, "unknown strategy option '%s'%s; see 'lapwing help strategy'",
                   name, lw_nearest_hint(&near, "", hint, sizeof hint));
}

enum lw_status lw_strategy_set(struct lw_strategy *s, const char *name, const char *value,
                               struct lw_err *err)
{
    int i = lw_strategy_find(name);

    if (i < 0)
        return unknown_option(name, err);
    LW_TRY(set_field(&options[i], (char *)s + options[i].at, value, err));
    lw_options_add(&s->given, i);
    return LW_OK;
}

/* Fields of the same bytes; false for those of other kinds too, which may have the same text. */
static bool has_same_bytes(const struct option *o, const struct lw_strategy *a,
                           const struct lw_strategy *b)
{
    size_t size = o->kind == BOOLEAN                                        ? sizeof(bool)
                  : o->kind == WORD                                         ? sizeof(int)
                  : o->kind == INT || o->kind == INT_OR_0 || o->kind == SIZE ? sizeof(int64_t)
                                                                            : 0;

    return size > 0 && memcmp((const char *)a + o->at, (const char *)b + o->at, size) == 0;
}

bool lw_strategy_given(const struct lw_strategy *s, int option)
{
    char mine[LW_STRATEGY_TEXT], usual[LW_STRATEGY_TEXT];

    if (lw_options_has(&s->given, option))
        return true;
    if (has_same_bytes(&options[option], s, &plain))
        return false;
    return strcmp(lw_strategy_get(s, option, mine), lw_strategy_get(&plain, option, usual)) != 0;
}

/* In the order of the table: all of them take 71 bytes. */
const char *lw_again_text(int64_t parts, char buf[LW_AGAIN_TEXT])
{
    int n = 0;

    buf[0] = '\0';
    for (int k = 0; again_parts[k]; k++)
        if (parts & LW_AGAIN_BIT(k))
            n += snprintf(buf + n, (size_t)(LW_AGAIN_TEXT - n), "%s%s", n > 0 ? "," : "",
                          again_parts[k]);
    return buf;
}

const char *lw_strategy_get(const struct lw_strategy *s, int option, char buf[LW_STRATEGY_TEXT])
{
    const struct option *o = &options[option];
    const void *field = (const char *)s + o->at;

    switch (o->kind) {
    case INT:
    case INT_OR_0:
    case SIZE:
        snprintf(buf, LW_STRATEGY_TEXT, "%lld", (long long)*(const int64_t *)field);
        return buf;
    case REAL:
        snprintf(buf, LW_STRATEGY_TEXT, "%.17g", *(const double *)field);
        return buf;
    case WORD:
        return o->shown.values[word_of(field)];
    case WORDS:
        return lw_again_text(*(const int64_t *)field, buf);
    case REDUCER:
        return lw_reducer_name((enum lw_reducer_kind)word_of(field));
    case BOOLEAN:
        return on_off[*(const bool *)field];
    case TEXT:
    case LIST:
        return *(const char *const *)field ? *(const char *const *)field : "";
    }
    return "";
}

const char *lw_strategy_shown(const struct lw_strategy *s, int option, char buf[256])
{
    const struct option *o = &options[option];
    bool number = o->kind == INT || o->kind == INT_OR_0 || o->kind == SIZE;
    const void *field = (const char *)s + o->at;
    char text[LW_STRATEGY_TEXT];
    const char *value = lw_strategy_get(s, option, text);

    if (!*value || (number && *(const int64_t *)field < 0))
        return "none";
    if (o->kind == SIZE)
        return lw_exact_bytes(buf, *(const int64_t *)field);
    snprintf(buf, 256, number ? "%s" : "'%.250s'", value);
    return buf;
}

int lw_strategy_n_options(void)
{
    return N_OPTIONS;
}

const struct lw_strategy_option *lw_strategy_option(int option)
{
    return &options[option].shown;
}

bool lw_strategy_folds_experts(const struct lw_strategy *s)
{
    return s->etp == 1 && s->tp > 1 && s->ep > 1;
}

int64_t lw_strategy_expert_number(const struct lw_strategy *s, int64_t data, int64_t tensor)
{
    return lw_strategy_folds_experts(s) ? data * s->tp + tensor : data;
}

int64_t lw_strategy_run_batches(const struct lw_strategy *s)
{
    return s->drain_every > 0 ? s->drain_every : s->micro_batches;
}

bool lw_strategy_overlaps_experts(const struct lw_strategy *s, const char **why)
{
    const struct {
        bool is;
        const char *what;
    } apart[] = {
        {s->zero == 3, "--zero 3 gathers and frees weights around each module"},
        {s->cp > 1 && s->cp_comm == LW_CP_P2P, "--cp-comm-type p2p passes blocks around a ring"},
    };
    const char *none, **to = why ? why : &none;

    *to = NULL;
    for (size_t i = 0; i < sizeof apart / sizeof *apart && !*to; i++)
        *to = apart[i].is ? apart[i].what : NULL;
    return s->ep > 1 && s->expert_overlap != LW_EXPERT_OVERLAP_OFF && !*to;
}

int64_t lw_strategy_ranks(const struct lw_strategy *s)
{
    return s->dp * s->cp * s->pp * s->tp;
}

enum lw_dtype lw_strategy_grad_dtype(const struct lw_strategy *s, enum lw_dtype param)
{
    static const enum lw_dtype of[LW_N_GRAD_DTYPES] = {
        [LW_GRAD_F32] = LW_F32, [LW_GRAD_F64] = LW_F64,
        [LW_GRAD_F16] = LW_F16, [LW_GRAD_BF16] = LW_BF16,
    };

    return s->grad_dtype == LW_GRAD_AS_PARAM ? param : of[s->grad_dtype];
}

enum lw_dtype lw_strategy_wire_dtype(const struct lw_strategy *s, enum lw_dtype grad)
{
    if (s->comm_hook == LW_HOOK_FP16)
        return LW_F16;
    return s->comm_hook == LW_HOOK_BF16 ? LW_BF16 : grad;
}

#define NAME_OF(function, type, words) \
    const char *function(enum type value) { return words[value]; }
NAME_OF(lw_bucket_policy_name, lw_bucket_policy_id, bucket_policies)
NAME_OF(lw_shard_policy_name, lw_shard_policy_id, shard_policies)
NAME_OF(lw_shard_policy_help, lw_shard_policy_id, shard_policies_helps)
NAME_OF(lw_partition_help, lw_partition, partitions_helps)
NAME_OF(lw_schedule_name, lw_schedule, schedules)
#undef NAME_OF

bool lw_overlaps_pieces(const struct lw_strategy *s)
{
    return s->tp_overlap == LW_TP_OVERLAP_PIECES || s->tp_overlap == LW_TP_OVERLAP_COPIES;
}

const char *lw_tp_overlap_word(int k)
{
    return k >= 0 && k < LW_N_TP_OVERLAPS ? tp_overlaps[k] : NULL;
}

const char *lw_dispatcher_word(int k)
{
    return k >= 0 && k < LW_N_DISPATCHERS ? dispatchers[k] : NULL;
}

const char *lw_offload_name(enum lw_offload x)
{
    return offloads[x];
}

const char *lw_compat_name(enum lw_compat c)
{
    return compats[c];
}

enum lw_status lw_reducer_parse(const char *name, enum lw_reducer_kind *kind, struct lw_err *err)
{
    static const struct option all = {{"algorithm", "NAME", "", reducers, NULL, NULL},
                                      REDUCER, 0, 0, 0};

    return set_reducer(&all, kind, name, err);
}

/* A number that no text gave: of a caller that fills the struct. */
static enum lw_status check_field(const struct lw_strategy *s, int option, struct lw_err *err)
{
    const struct option *o = &options[option];
    int64_t v, usual;

    if (o->kind != INT && o->kind != INT_OR_0 && o->kind != SIZE)
        return LW_OK;
    memcpy(&v, (const char *)s + o->at, sizeof v);
    memcpy(&usual, (const char *)&plain + o->at, sizeof usual);
    return v == usual ? LW_OK : check_range(o, v, err);
}

static enum lw_status check_etp(const struct lw_strategy *s, struct lw_err *err)
{
    long long etp = (long long)s->etp, tp = (long long)s->tp;

    if (s->etp == 0 || s->etp == s->tp || (s->etp == 1 && s->ep > 1))
        return LW_OK;
    if (s->etp == 1)
        return lw_fail(err, LW_ENOTSUP, "--etp 1 shares the experts over --tp %lld too: it needs "
                                        "--ep of more than 1", tp);
    if (s->etp > s->tp || s->tp % s->etp != 0)
        return lw_fail(err, LW_EINVAL, "--etp %lld: an expert is split over 1 rank, or over the "
                                       "%lld of --tp", etp, tp);
    return lw_fail(err, LW_ENOTSUP, "--etp %lld: experts that a part of the tensor group splits "
                                    "are not planned: --etp 1, or %lld as --tp", etp, tp);
}

enum lw_status lw_strategy_check(const struct lw_strategy *s, struct lw_err *err)
{
    static const char *const exact[] = {"stage-memory", "pin-first", "pin-last", "weigh-transfers"};

    for (int i = 0; i < N_OPTIONS; i++)
        LW_TRY(check_field(s, i, err));
    if (s->dp > MAX_RANKS / s->pp / s->tp / s->cp)
        return lw_fail(err, LW_EINVAL,
                       "--dp %lld, --pp %lld, --tp %lld and --cp %lld make more than the "
                       "%d ranks that a plan may have",
                       (long long)s->dp, (long long)s->pp, (long long)s->tp, (long long)s->cp,
                       MAX_RANKS);
    if (s->partition == LW_PARTITION_EXPLICIT && !s->partition_list)
        return lw_fail(err, LW_EINVAL, "--partition explicit needs --partition-list");
    for (size_t i = 0; s->partition != LW_PARTITION_EXACT && i < sizeof exact / sizeof *exact; i++)
        if (lw_strategy_given(s, lw_strategy_find(exact[i])))
            return lw_fail(err, LW_EINVAL, "--%s is for --partition exact, not %s", exact[i],
                           partitions[s->partition]);
    LW_TRY(check_etp(s, err));
    if (s->chunks > 1 && s->pp == 1)
        return lw_fail(err, LW_EINVAL, "--chunks %lld needs --pp of at least 2",
                       (long long)s->chunks);
    return LW_OK;
}

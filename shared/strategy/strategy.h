#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/err.h"
#include "shared/numbers/dtype.h"
#include "shared/strategy/policies.h"
#include "shared/strategy/recompute.h"
#include "shared/strategy/reducer_kind.h"

/* What the user chose. Every field is one option of the command line and one field of a strategy
 * file, with the same name and the same words; the table in strategy.c declares each once. The
 * words of policies come from the rows of policies.h. lw_plan_build refuses a value that this
 * build cannot plan; it never replaces one. */

enum lw_launch_order { LW_LAUNCH_IN_ORDER, LW_LAUNCH_COMPLETION, LW_N_LAUNCH_ORDERS };

enum lw_comm_hook { LW_HOOK_NONE, LW_HOOK_FP16, LW_HOOK_BF16, LW_N_COMM_HOOKS };

/* Element type of gradients: each parameter's own, or one for all. */
enum lw_grad_dtype {
    LW_GRAD_AS_PARAM, LW_GRAD_F32, LW_GRAD_F64, LW_GRAD_F16, LW_GRAD_BF16, LW_N_GRAD_DTYPES,
};

/* Tensor collectives beside products: none; sums of the backward beside the weights' gradients;
 * also the others, in pieces of a product; these by copy engines, which take no SM. */
enum lw_tp_overlap {
    LW_TP_OVERLAP_OFF, LW_TP_OVERLAP_BACKWARD, LW_TP_OVERLAP_PIECES, LW_TP_OVERLAP_COPIES,
    LW_N_TP_OVERLAPS,
};
enum { LW_TENSOR_PIECES = 4 }; /* of a collective or of the products beside it */

/* How a context group exchanges keys and values: the whole at once, or block by block around a ring
 * beside the steps of attention. */
enum lw_cp_comm { LW_CP_ALL_GATHER, LW_CP_P2P, LW_N_CP_COMMS };

/* All-to-alls of experts beside the compute of another micro-batch: in schedules whose rule has
 * units of a forward and a backward; never; also in the forms of 1F1B that make such units. */
enum lw_expert_overlap {
    LW_EXPERT_OVERLAP_AUTO, LW_EXPERT_OVERLAP_OFF, LW_EXPERT_OVERLAP_ON, LW_N_EXPERT_OVERLAPS,
};

/* The program that sends tokens to experts, which decides what goes beside them
 * (traces/models/models_experts.c): the framework's; Megatron-LM's alltoall, a copy for each
 * expert; DeepEP or HybridEP, with dispatch_once. */
enum lw_dispatcher {
    LW_DISPATCHER_AUTO, LW_DISPATCHER_ALL_TO_ALL, LW_DISPATCHER_DEEPEP, LW_DISPATCHER_HYBRIDEP,
    LW_N_DISPATCHERS,
};

/* What lies in the host's memory between its uses. */
enum lw_offload {
    LW_OFFLOAD_NONE,
    LW_OFFLOAD_OPTIMIZER,   /* its state comes to the device for the update */
    LW_OFFLOAD_ACTIVATIONS,
    LW_OFFLOAD_UPDATE,      /* its state stays with the host, whose processors update */
    LW_N_OFFLOADS
};

enum lw_rank_order { LW_RANKS_MEGATRON, LW_RANKS_COLOSSAL, LW_RANKS_HAISCALE, LW_N_RANK_ORDERS };

enum lw_compat {
    LW_COMPAT_NONE, LW_COMPAT_PICOTRON, LW_COMPAT_FAIRSCALE, LW_COMPAT_HAISCALE,
    LW_COMPAT_COLOSSALAI, LW_COMPAT_C10D, LW_N_COMPATS,
};

/* Bit i % 64 of word i / 64: option i of the table. */
struct lw_options_given {
    uint64_t word[2];
};

static inline bool lw_options_has(const struct lw_options_given *g, int option)
{
    return g->word[option / 64] >> option % 64 & 1;
}

static inline void lw_options_add(struct lw_options_given *g, int option)
{
    g->word[option / 64] |= UINT64_C(1) << option % 64;
}

struct lw_strategy {
    int64_t dp, pp, tp;
    int64_t cp;                    /* ranks that share the tokens of a sequence */
    int64_t ep;                    /* ranks that share the experts; divides dp * cp, or dp * cp * tp
                                    * where these are folded over the tensor group */
    int64_t etp;                   /* ranks that split each expert: tp, or 1; 0 = tp */
    enum lw_expert_overlap expert_overlap;
    enum lw_dispatcher dispatcher;
    int64_t micro_batches, chunks;
    int64_t micro_batch_group;     /* that pass a chunk before the next's turn; 0 = about pp */
    int64_t drain_every;           /* micro-batches of one run of the schedule; 0 = all */
    int64_t no_sync;               /* accumulating backwards before each synchronised one */
    int64_t bucket_cap_bytes;      /* -1 = the policy's default */
    int64_t first_bucket_bytes;    /* -1 = the policy's default */
    int64_t prefetch;              /* units (ZeRO-3) or buckets (overlap_param_gather) gathered
                                    * ahead; -1 = default */
    int64_t prefetch_elements;     /* ZeRO-3: gathered ahead until so many elements; 0 = by units */
    int64_t live_elements;         /* ZeRO-3: nothing more is gathered ahead beyond; 0 = any */
    int64_t reduce_elements;       /* DeepSpeed's buckets of gradients; 0 = its default */
    int64_t persist;               /* ZeRO-3: parameters of fewer elements stay on every rank */
    int64_t zero;                  /* ZeRO stage 0..3 */
    int64_t zero_group;            /* ranks that shards lie on; 0 = all that hold a copy */
    double clip;                   /* gradient norm; 0 = no clipping */
    enum lw_rank_order rank_order;
    enum lw_schedule schedule;
    enum lw_partition partition;
    enum lw_bucket_policy_id bucket_policy;
    enum lw_launch_order launch_order;
    enum lw_shard_policy_id shard_policy;
    enum lw_reducer_kind reducer;
    enum lw_comm_hook comm_hook;
    enum lw_grad_dtype grad_dtype;
    enum lw_dtype broadcast_dtype;
    enum lw_recompute recompute;
    enum lw_offload offload;
    enum lw_compat compat;
    bool find_unused, static_graph, overlap;
    bool sync_each;                /* without a pipeline: every micro-batch is reduced */
    bool late_replicas;            /* --zero-group: replicas are summed after the backward */
    bool accumulate_pass;          /* a pass adds a micro-batch's gradients to earlier ones */
    bool bucket_view;              /* gradients are views of their buckets: nothing is copied out */
    bool async_messages;           /* pipelines: receives are posted ahead, no op waits for sends */
    bool reshard;                  /* ZeRO-3: weights are freed after the forward too */
    bool root_unit;                /* ZeRO-3: modules outside the blocks are one unit, kept until
                                    * the backward's end */
    bool unit_copies;              /* ZeRO-3: weights are copied into what is gathered, and out of
                                    * it, as FSDP2 does */
    const char *units;             /* ZeRO-3: what a unit is: NULL or "modules", "children", or
                                    * prefixes (shared/lower_part/unit_names.h); borrowed */
    bool overlap_param_gather;     /* ZeRO-1 and 2: a bucket's weights are gathered before the next
                                    * step's forward uses them, not after the optimizer */
    bool align_param_gather;       /* of these with chunks: issued ahead, not as each part begins */
    int64_t dispatch_once;         /* experts that a token goes to, whose copies to one node or rank
                                    * travel once; 0: each copy travels */
    bool sequence_parallel; /* activations between split layers are cut over the tensor group */
    enum lw_tp_overlap tp_overlap;
    enum lw_cp_comm cp_comm;
    bool scatter_gather;           /* a tensor rank sends 1/tp of a pipeline message */
    int64_t offload_layers;        /* of each part, with --offload activations; 0 = all but the
                                    * last */
    int64_t recompute_layers;      /* of each part, with --recompute full; 0 = all */
    enum lw_recompute_method recompute_method; /* which ones these are */
    int64_t again_parts;           /* --recompute selective: LW_AGAIN_BIT of each part; 0 = what the
                                    * framework does again, core attention where it has no rule of
                                    * its own */
    bool last_bucket_cap;          /* the first bucket's limit is the last one's instead */
    int64_t stage_bytes;           /* --partition exact: memory of a stage; -1 = no limit */
    int64_t pin_first, pin_last;   /* modules that stay on the first and on the last stage */
    int64_t first_layers, last_layers; /* blocks of these stages, MEGATRON; 0: as the others */
    bool count_embedding, count_loss;  /* as blocks, under MEGATRON */
    bool weigh_transfers;          /* a stage's time includes what crosses its ends */
    bool count_forward;            /* optimal buckets: the end of the next forward counts (DeAR) */
    const char *partition_list;    /* explicit partition "0,4,8"; borrowed, NULL otherwise */
    int64_t max_ops;               /* larger plans are refused (shared/lower/plan_size.h); 0 = the
                                    * default. No decision: neither in files nor in the hash */
    struct lw_options_given given; /* options of the table that lw_strategy_set set */
};

/* Everything off, dp = pp = tp = 1, c10d-2, in-order, overlap on. */
struct lw_strategy lw_strategy_default(void);

/* Set one field by its option name and text ("bucket-cap", "25MiB"). LW_EINVAL names the option,
 * the text and what is allowed. String values are kept by pointer. */
enum lw_status lw_strategy_set(struct lw_strategy *s, const char *name, const char *value,
                               struct lw_err *err);
/* The text of a field as lw_strategy_set takes it. */
enum { LW_STRATEGY_TEXT = LW_AGAIN_TEXT };
const char *lw_strategy_get(const struct lw_strategy *s, int option, char buf[LW_STRATEGY_TEXT]);
/* For people: "'exact'", "25.00 MiB (26214400 B)", "none". */
const char *lw_strategy_shown(const struct lw_strategy *s, int option, char buf[256]);

/* The user chose this field: it was set by its name, or differs from the default. */
bool lw_strategy_given(const struct lw_strategy *s, int option);

/* The table of options, for help, files and completion. */
struct lw_strategy_option {
    const char *name, *arg, *help;
    const char *const *values; /* NULL-ended words; NULL when it takes a number */
    const char *const *helps;  /* what each word means; NULL where the words say it */
    const char *was;           /* its name before, which is read too and hashed; NULL = none */
};
int lw_strategy_n_options(void);
/* Options that have a meaning in pipelines alone; k = 0, 1, ... until NULL. */
const char *lw_strategy_of_pipelines(int k);
bool lw_strategy_is_of_pipelines(const char *name);
int lw_strategy_find(const char *name); /* by either name; -1 = no such option */
const struct lw_strategy_option *lw_strategy_option(int option);

/* The gradient's element type of a parameter of that type. */
enum lw_dtype lw_strategy_grad_dtype(const struct lw_strategy *s, enum lw_dtype param);

/* The element type of a gradient on the wire under the strategy's comm hook. */
enum lw_dtype lw_strategy_wire_dtype(const struct lw_strategy *s, enum lw_dtype grad);

const char *lw_compat_name(enum lw_compat c);
const char *lw_offload_name(enum lw_offload x);
const char *lw_tp_overlap_word(int k); /* NULL after the last */
const char *lw_dispatcher_word(int k); /* the same */
/* Collectives of the tensor group run in pieces of the products beside them. */
bool lw_overlaps_pieces(const struct lw_strategy *s);

int64_t lw_strategy_ranks(const struct lw_strategy *s); /* dp * cp * pp * tp */

/* Ranks of a tensor group share the experts and have each whole: --etp 1 with --tp. Rank t of a
 * tensor group of data coordinate d is then expert rank d * tp + t, of which ep consecutive ones
 * share all experts. */
bool lw_strategy_folds_experts(const struct lw_strategy *s);
/* The number of a rank among those of its stage and, unless experts are folded, of its tensor
 * coordinate; ranks of equal numbers modulo ep hold the same experts. */
int64_t lw_strategy_expert_number(const struct lw_strategy *s, int64_t data, int64_t tensor);

/* Micro-batches of one run of the schedule. */
int64_t lw_strategy_run_batches(const struct lw_strategy *s);

/* All-to-alls of experts run beside the compute of another micro-batch where the schedule has units
 * of two. Where another option keeps them apart: false, and *why is its text, NULL where nothing
 * does. why may be NULL. */
bool lw_strategy_overlaps_experts(const struct lw_strategy *s, const char **why);

/* Values in range and not contradicting each other. */
enum lw_status lw_strategy_check(const struct lw_strategy *s, struct lw_err *err);

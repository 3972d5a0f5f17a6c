#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/bucket/bucket.h"
#include "shared/bucket/policy.h"
#include "shared/bucket/ready_order.h"
#include "shared/lower_part/module_steps.h"
#include "shared/plan/cost.h"
#include "shared/plan/plan_builder.h"
#include "shared/shard/shard_oss.h"
#include "shared/strategy/strategy.h"
#include "shared/workload/sparse.h"
#include "shared/workload/workload.h"

/* One part of the model: consecutive modules that live on one pipeline stage (all of them without a
 * pipeline), with the decisions of data parallelism about their gradients. Numbers of modules and
 * parameters inside a part count within it; lw_part_param and lw_part_module tell the plan's.
 * lower_part.c decides, lower_buckets.c asks the bucket policy, lower_zero1.c the shard
 * policy. */

/* The buckets of one set: numbers within the set, and where they begin in the plan. */
struct lw_part_set {
    const char *name;
    struct lw_bucketing buckets; /* items are parameters */
    int32_t first_bucket;        /* plan's number of bucket 0 */
    int64_t *elements;           /* [n_buckets] */
    enum lw_dtype *dtype;        /* [n_buckets] of the gradients */
};

/* How gradients lie in their buckets. */
enum lw_bucket_storage {
    LW_STORED_COPIED, /* copied in and out */
    LW_STORED_VIEWS,  /* gradients are views of their buckets: nothing is copied out */
    LW_STORED_UNITS,  /* buckets are ZeRO units: reduce-scattered, nothing is copied out */
};

/* ZeRO: which member updates which elements, and the flat buffers that bring updated weights to all
 * members. */
struct lw_part_buffer {
    enum lw_dtype dtype;
    int32_t device, owner;       /* owner -1: an all-gather of equal shares */
    int32_t first_item, n_items;
    int64_t elements;            /* padding included */
    bool expert;                 /* its members share the experts' gradients */
    int32_t module; /* gathered around its forward and backward; -1: once a step */
    int32_t first_user;          /* the lowest module that uses it, with units; else -1 */
    int32_t turn;                /* its place in shards.forward, if there is one */
    bool root;                   /* of all modules outside the blocks: gathered around theirs too */
};

/* Spans of neighbouring holders that own equally many elements of every run: of an even split over
 * 16,384 members one or two. */
struct lw_holder_spans {
    int32_t n;
    int32_t *first;  /* [n + 1] the first holder of each; then how many holders there are */
    int32_t *number; /* [holders + 1] the span that begins with that holder; n after the last one.
                      * Of other holders: nothing */
};

struct lw_part_shards {
    int32_t n, n_runs, n_buffers, n_items, runs_room;
    int32_t *param_of; /* [n] what a sharded optimizer is given: all but later tied ones */
    struct lw_shard_param *as_given; /* [n] */
    struct lw_arena room;        /* owns runs */
    struct lw_shard_run *runs;   /* [n_runs] of the part's parameters, by parameter; until they are
                                  * in the plan */
    struct lw_part_buffer *buffers;
    int32_t *items;              /* [n_items] parameters by buffer */
    int64_t *offset;             /* [n_items] in elements of the buffer */
    struct lw_oss *oss;          /* NULL but for oss-greedy */
    struct lw_holder_spans spans;
    int64_t *owned;              /* [spans.n] elements that each holder of a span updates */
    int64_t n_elements, most_owned, padding;
    int32_t first_bucket;        /* plan's number of buffer 0 */
    /* With units (lower_fsdp.c): */
    int32_t *used_units;         /* buffers that a module uses */
    int32_t *first_unit;         /* [n_modules + 1] into used_units */
    int32_t *unit_of_param;      /* [n_params] the buffer that it lies in; -1 = none */
    lw_ps *used_at;              /* of each of used_units: when the module's forward first uses it,
                                  * from its start. NULL: without --overlap-param-gather */
    int32_t *forward;            /* [n_buffers] in the order in which forwards use them; NULL:
                                  * without --overlap-param-gather */
};

/* The plan's numbers of a part's computing, and what it makes ready. Lists are by module unless
 * said otherwise. */
struct lw_part_work {
    bool tells_kept;             /* every module tells the activations that it keeps */
    struct lw_steps *forward_steps, *input_steps, *weight_steps; /* halves: of split backwards */
    struct lw_steps *again_steps; /* of a forward that full recomputation does again */
    const struct lw_step *steps; /* of a whole backward */
    int32_t *first_step;         /* before stretch i from [2 i] on, after it from [2 i + 1] on;
                                  * NULL = none */
    int32_t *forward;            /* the first op of the forward */
    int32_t *cut;                /* the same of a forward that is cut where it first uses a buffer
                                  * that is gathered ahead; -1 = none. NULL: nothing is */
    int32_t *again;              /* what recomputation does before the backward; -1 = none */
    int32_t *stretch;            /* by stretch */
    bool splits;                 /* some backwards run in halves: what follows is filled */
    int32_t *input, *weight;     /* input: the first one */
    int32_t *ready;              /* gradients, in ready order within a module: */
    int32_t *first_ready;        /* [n_modules + 1] into ready */
};

struct lw_part {
    const struct lw_workload *w; /* of this part alone */
    const struct lw_strategy *s;
    const struct lw_cost *cost;  /* NULL = none was handed in */
    struct lw_arena arena;
    int32_t stage, place;        /* of the plan; among the parts of that stage */
    int32_t n_members;           /* the size of its data groups: ranks that hold a copy, or of
                                  * --zero-group */
    int32_t n_expert_members;    /* the same of experts: n_members / ep, or n_members * tp / ep */
    int32_t n_nodes, fewest;     /* that the members of a data group live on; of them on the node
                                  * that has the fewest, 0 = not known */
    int64_t n_backwards;         /* of it on one rank until gradients are reduced */
    int32_t first_module;        /* of the model */
    const int32_t *param_in_model; /* [w->n_params]; NULL = the same numbers */

    struct lw_backward back;
    struct lw_bucket_rules rules;

    /* What decisions are made with; given back when all are made. */
    struct lw_arena scratch;
    struct lw_grad *grads;       /* [n_grads] in registration order */
    int32_t *param_of;           /* [n_grads] */
    int32_t *grad_of;            /* [n_params], -1 = not reduced */
    int32_t *order;              /* [n_grads] as they become ready, unused ones last */
    int32_t *unit_module;        /* [w->n_modules] after which the unit of its parameters is named;
                                  * NULL = not found yet */

    int32_t n_grads, n_unused;   /* gradients that are reduced; of these without a value */
    bool *reduced;               /* [n_params] its gradient is */
    int32_t *unused;             /* [n_unused] parameters */
    struct lw_part_set initial, rebuilt;
    struct lw_part_shards shards; /* n == 0: every member updates everything */
    int32_t *root_of; /* [buckets of initial] reduced to this member; NULL = all-reduced */
    int32_t n_empty, *empty;     /* [n_empty] roots of empty buckets, reduced after the backward */
    enum lw_scaling scaling;     /* where gradients are averaged */
    enum lw_bucket_storage storage;
    bool one_by_one;             /* each bucket is reduced and waited for before the next */
    struct lw_bucketing buffers; /* coalesced broadcasts: items are numbers into buffer_of */
    int32_t n_buffers, *buffer_of;
    int32_t n_gathered, *gathered; /* Muon's matrices that a tensor group shares (lower_muon.c) */

    struct lw_part_work work;
};

static inline int32_t lw_part_param(const struct lw_part *d, int32_t param)
{
    return d->param_in_model ? d->param_in_model[param] : param;
}

/* Ranks that hold a member's copy: all of a tensor group that experts are folded over, else one.
 * Holder h is data member h / width and expert member h / ep. */
static inline int32_t lw_part_width(const struct lw_part *d)
{
    return d->s->ep > 1 ? (int32_t)(d->n_expert_members * d->s->ep / d->n_members) : 1;
}

static inline int32_t lw_part_holders(const struct lw_part *d)
{
    return d->n_members * lw_part_width(d);
}

/* Holders of one member; member m has those from m * this on. */
static inline int32_t lw_part_holders_of(const struct lw_part *d, bool expert)
{
    return expert ? (int32_t)d->s->ep : lw_part_width(d);
}

static inline int32_t lw_part_member_of(const struct lw_part *d, bool expert, int32_t holder)
{
    return holder / lw_part_holders_of(d, expert);
}

/* Experts lie in buckets and buffers of their own, as if on other devices. */
enum { LW_EXPERT_DEVICE = 128 };
static inline int32_t lw_part_device(const struct lw_param *p)
{
    return p->device + (p->expert ? LW_EXPERT_DEVICE : 0);
}

static inline int32_t lw_part_members(const struct lw_part *d, bool expert)
{
    return expert ? d->n_expert_members : d->n_members;
}

static inline int32_t lw_part_module(const struct lw_part *d, int32_t module)
{
    return d->first_module + module;
}

/* Forward work of a module that recomputation does again, before its backward. Full recomputation
 * leaves out modules that drop nothing, such as a head outside the blocks. */
/* Before the backward of a module the forwards of [first, module] run again: first; -1: those were
 * run before that of a later one. */
int32_t lw_part_again_first(const struct lw_part *d, int32_t module);

/* Activations of the module that lie in the host's memory from its forward to its backward. */
int64_t lw_part_offloaded_bytes(const struct lw_part *d, int32_t module);
lw_ps lw_recomputed_ps(const struct lw_strategy *s, const struct lw_module *m);

/* kernel_steps.c: whether a module is cut where its kernels end; what one rank takes for it, from
 * its kernels; when its backward has made the gradients of a kernel's weights. */
bool lw_has_kernels(const struct lw_workload *w, const struct lw_module *m);
void lw_kernel_module_times(const struct lw_workload *w, struct lw_module *m);
lw_ps lw_kernel_ready(const struct lw_workload *w, const struct lw_strategy *of,
                      const struct lw_module *m, int32_t kernel);
/* When its forward begins with a kernel. */
lw_ps lw_kernel_start(const struct lw_workload *w, const struct lw_module *m, int32_t kernel);

/* lower_ring.c: the attention of a module that keys and values pass by in steps (--cp-comm-type
 * p2p), in picoseconds of its forward and of its backward. */
struct lw_ring {
    int32_t n_steps;             /* as many as ranks of the context group; 0 = no ring */
    lw_ps start, length, backward_start, backward_length;
    int64_t block_bytes;         /* keys and values of one rank's tokens */
};
struct lw_ring lw_ring_of(const struct lw_strategy *s, const struct lw_module *m);
/* The end of the first k steps. */
lw_ps lw_ring_end(const struct lw_ring *r, int32_t k);
lw_ps lw_ring_backward_end(const struct lw_ring *r, int32_t k);
/* Which step of the backward begins so long after its module's; -1 = none. */
int32_t lw_ring_backward_step(const struct lw_ring *r, lw_ps at);
/* Messages of a direction, and the bytes of that of step k. */
int32_t lw_ring_messages(const struct lw_ring *r, bool backward);
int64_t lw_ring_bytes(const struct lw_ring *r, bool backward, int32_t k);

/* Make all decisions about a part: w, s, cost, stage, members and maps are set, the rest is zero.
 * What was made by a call that fails is freed by lw_part_free, as always. */
enum lw_status lw_part_decide(struct lw_part *d, struct lw_err *err);
void lw_part_free(struct lw_part *d);

/* What a row of LW_SHARD_POLICIES does: its file defines lw_shard_policy_SYMBOL. */
struct lw_shard_policy {
    enum lw_status (*assign)(struct lw_part *d, struct lw_err *err);
    enum lw_bucket_policy_id buckets; /* where --bucket-policy is not given */
    bool equal_shares;                /* parameters are cut, so buckets can be: lw_part_has_units */
    bool experts;                     /* whole ones of experts go to the members that hold them */
};
#define LW_ROW_SHARD_POLICY(id, symbol, word, help) \
    extern const struct lw_shard_policy lw_shard_policy_##symbol;
LW_SHARD_POLICIES(LW_ROW_SHARD_POLICY)
const struct lw_shard_policy *lw_shard_policy(enum lw_shard_policy_id id);

/* Ask the strategy's policies: shards and weights buffers; rules, initial and rebuilt buckets. With
 * units (ZeRO in equal shares) the shards follow from the buckets: assign_units. */
bool lw_part_has_units(const struct lw_strategy *s);
/* Gradients take room from the first backward that writes into their bucket until it is reduced. */
bool lw_part_drops_gradients(const struct lw_part *d);
/* Every micro-batch is reduced, and owners add up what comes, as FSDP and DeepSpeed do. */
bool lw_part_reduces_each(const struct lw_part *d);
/* Two modules of the part are gathered together: one unit of ZeRO-3. */
bool lw_part_same_unit(const struct lw_part *d, int32_t a, int32_t b);
/* Gathered weights stay over the micro-batches that are reduced together. */
bool lw_part_keeps_units(const struct lw_part *d);
/* Weights that the optimizer changed are gathered before the next step's forward uses them. */
bool lw_part_gathers_ahead(const struct lw_part *d);
/* Of gathers ahead: each part's when its first micro-batch has come. */
bool lw_part_gathers_on_demand(const struct lw_strategy *s);
/* ZeRO-3: a frozen parameter of which a member keeps a share. */
bool lw_part_shards_frozen(const struct lw_part *d, const struct lw_param *p);
enum lw_status lw_part_bucket_modules(struct lw_part *d, struct lw_bucketing *out,
                                      struct lw_err *err);
enum lw_status lw_part_assign_units(struct lw_part *d, struct lw_err *err);
/* The unit that comes and goes around modules, in which the parameter lies; -1 = none. */
int32_t lw_part_temporary_unit(const struct lw_part *d, int32_t param);
/* Keys and values of the module's attention are gathered over the context group, not sent around a
 * ring. */
bool lw_part_gathers_keys(const struct lw_part *d, const struct lw_module *m);
/* lower_param_gather.c: with --overlap-param-gather, once the units are there. */
enum lw_status lw_part_order_gathers(struct lw_part *d, struct lw_err *err);
/* A forward that is cut: when op k of its steps begins, from the module's start; where
 * a piece of it that begins at `at` ends: at `stop`, or at the next first use of a buffer. */
lw_ps lw_part_op_start(const struct lw_part *d, int32_t module, int32_t k);
lw_ps lw_part_piece_end(const struct lw_part *d, int32_t module, lw_ps at, lw_ps stop);
/* Elements that holders own: owned, [spans + 1] of zeros, takes the differences between
 * neighbouring spans of each run; the sum turns [0, spans) into elements of each holder, and
 * returns the most. */
void lw_part_run_count(const struct lw_part *d, const struct lw_shard_run *x, int64_t *owned);
int64_t lw_part_runs_sum(const struct lw_part *d, int64_t *owned);
/* Elements that a holder updates, *end: the first one after it that updates others. */
int64_t lw_part_owned_by(const struct lw_part *d, int32_t holder, int32_t *end);
enum lw_status lw_part_count_owned(struct lw_part *d, struct lw_err *err);
enum lw_status lw_part_assign_shards(struct lw_part *d, struct lw_err *err);
enum lw_status lw_part_assign_buckets(struct lw_part *d, struct lw_err *err);

/* lower_muon.c: once shards are assigned. */
enum lw_status lw_part_list_gathered(struct lw_part *d, struct lw_err *err);

/* lower_sparse.c: the entry of a reduced parameter whose gradient is sparse, or of a bucket that
 * holds one, NULL = dense; rows that so many members have together, at most; what a bucket
 * takes, of its gradients' type. */
const struct lw_sparse *lw_part_sparse(const struct lw_part *d, int32_t param);
const struct lw_sparse *lw_part_sparse_bucket(const struct lw_part *d,
                                              const struct lw_part_set *set, int32_t b);
int64_t lw_part_rows(const struct lw_part *d, const struct lw_sparse *x, int32_t n_members);
int64_t lw_part_bucket_bytes(const struct lw_part *d, const struct lw_part_set *set, int32_t b);
/* What one member's collective of that turn brings. */
int64_t lw_part_gathered(const struct lw_part *d, const struct lw_sparse *x,
                         enum lw_sparse_turn turn, enum lw_dtype dtype);
/* LW_ENOTSUP: a sparse gradient that cannot be planned so. */
enum lw_status lw_sparse_refuse(const struct lw_workload *w, const struct lw_strategy *s,
                                int32_t param, struct lw_err *err);
/* Without its set and slots. */
struct lw_bucket lw_part_bucket(const struct lw_part *d, const struct lw_part_set *set, int32_t b);

/* A message's words for where a part's gradients are averaged; read when its buckets are made. */
const char *lw_part_averaging(const struct lw_part *d);

/* The element type of a flat buffer of weights on the wire: narrower where --broadcast-dtype is. */
enum lw_dtype lw_part_weights_dtype(const struct lw_strategy *s, enum lw_dtype weights);

/* Put a part into the plan: its bucket sets, its shards with their buffers, its works. */
void lw_part_add_sets(struct lw_part *d, struct lw_builder *b);
void lw_part_add_shards(struct lw_part *d, struct lw_builder *b);
/* The module's products of the phases whose FLOPs' middle lies in the share belong to the work
 * added last. Those of backward phases run in reverse, phases side by side. */
void lw_part_add_products(const struct lw_part *d, struct lw_builder *b, int32_t module,
                          unsigned phases, struct lw_share s);
/* work_bounds.c: what bounds a work that is a share of the module's phases; one that selective
 * recomputation does again. */
void lw_part_bound(const struct lw_part *d, int32_t module, unsigned phases, struct lw_share share,
                   struct lw_work *w);
void lw_part_bound_again(const struct lw_part *d, int32_t module, struct lw_work *w);
enum lw_status lw_part_add_works(struct lw_part *d, struct lw_builder *b, struct lw_err *err);

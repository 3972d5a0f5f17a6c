#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "shared/numbers/dtype.h"
#include "shared/numbers/units.h"
#include "shared/plan/step_yield.h"
#include "shared/workload/kernel.h"
#include "shared/workload/model_dims.h"

struct lw_buffer;
struct lw_grid_rule;
struct lw_product;
struct lw_sparse;
struct lw_strategy;

enum lw_grid_axis { LW_AXIS_DP, LW_AXIS_PP, LW_AXIS_TP, LW_N_AXES };

/* Every decision of a training step, resolved: what sim/ predicts and exec/ runs. Plain data to be
 * read; refers by index (-1 = none), so it is printed, hashed, stored and sent without a
 * conversion.
 *
 *   ranks   belong to roles; ranks of one role run the same op list
 *   passes  (one forward-backward each) run variants: first, accumulate, steady
 *   program (variant, role) -> a range of ops
 *   op      runs on a stream of its rank, in program order within the stream, after its deps
 *
 * What differs between ranks of a role (peer, root, bytes, offset) is an operand, looked up per
 * rank.
 */

enum lw_stream_class { LW_STREAM_COMPUTE, LW_STREAM_COMM, LW_STREAM_COPY, LW_STREAM_HOST };

const char *lw_stream_class_word(int c); /* "comm"; NULL beyond the last, for tables */

struct lw_stream {
    const char *name;
    enum lw_stream_class class_;
    int32_t priority; /* larger runs first; comm streams stand above compute */
};

enum lw_comm_purpose {
    LW_COMM_DATA,      /* gradients, shards */
    LW_COMM_MODEL,
    LW_COMM_TENSOR,
    LW_COMM_FORWARD,   /* pipeline activations */
    LW_COMM_BACKWARD,  /* pipeline gradients */
    LW_COMM_EMBEDDING, /* tied parameters across stages */
    LW_COMM_WORLD,
    LW_COMM_RECORDED,
    LW_COMM_CONTEXT,   /* keys and values of a sequence's parts */
    LW_COMM_EXPERT,    /* tokens to experts and back */
    LW_COMM_EXPERT_DATA, /* gradients and shards of experts */
    LW_COMM_REPLICAS,  /* shards of gradients, over the data groups that hold replicas of them */
    LW_COMM_RECORDED_DATA, /* recorded; its collectives sum or gather what data ranks share */
    LW_N_COMM_PURPOSES,
};

const char *lw_comm_purpose_word(int p); /* "expert data"; NULL beyond the last, for tables */

/* A class of communicators: every rank that takes part is a member of one group of it. Its ops are
 * issued to `stream` unless an op names another; ops of one communicator (a class and a group) run
 * one at a time on each member, in program order. */
struct lw_comm {
    const char *name;
    enum lw_comm_purpose purpose;
    int32_t reducer;           /* enum lw_reducer_kind */
    int32_t stream;
};

struct lw_group {
    int32_t first_member, n_members; /* into plan->members: ranks, in group order */
};

/* Parameters of the model, with the stage that holds them; numel is what one rank of a tensor
 * group has. tied: the first parameter with the same storage at its stage; of a copy at another
 * stage, the first of all; -1 = none. */
struct lw_plan_param {
    const char *name;
    int64_t numel;
    int32_t module, tied;
    int16_t stage;
    int8_t device;
    uint8_t dtype;             /* enum lw_dtype */
    bool trainable, sparse, used, ignored;
    bool expert; /* ranks of equal lw_strategy_expert_number modulo strategy.ep hold the same */
};

/* One bucket: gradients that are reduced by one collective. Slots say where each lies. */
struct lw_bucket {
    int32_t set;               /* bucket set, below */
    int32_t first_slot, n_slots;
    enum lw_dtype dtype;       /* on the wire */
    /* of the whole buffer, padding included; of a sparse gradient, what its three all-gathers
       bring */
    int64_t bytes;
    int64_t limit_bytes;       /* that applied when it was closed; 0 = none */
    int32_t first_offset;      /* into plan->offsets, one per slot; -1 = each begins where the one
                                * before it ends, and nothing is written down */
};

/* A gradient's place in its bucket, as a bucket is built and read (lw_plan_next_slot). */
struct lw_slot {
    int32_t param;
    int64_t offset;            /* in elements from the start of the bucket */
};

/* What a bucket is. Sets hold gradients, weights, tied gradients or norms; a set of gradients
 * may hold buckets of sparse gradients. */
enum lw_bucket_kind {
    /* reduced in the data group; its set belongs to the variants that name it */
    LW_BUCKET_GRADIENTS,
    /* a flat buffer of parameters: after a sharded optimizer step, or ahead of the forwards of the
       next one, every member gets it by a broadcast from the one owner, or by an all-gather of
       equal shares, the r-th owned by member r */
    LW_BUCKET_WEIGHTS,
    /* gradients of parameters with copies on several stages: a stage sums them with the others'
       over a communicator of the purpose LW_COMM_EMBEDDING before its update */
    LW_BUCKET_TIED,
    /* one number and no gradients, one bucket per stage: the sum of the squares of all
       gradients. A COPY_IN sums the squares that this rank counts, all-reduces add those of
       other ranks, a COPY_OUT scales what this rank updates: docs/design/grad_norm.md */
    LW_BUCKET_NORM,
    LW_BUCKET_SPARSE, /* one sparse gradient, reduced by three all-gathers: docs/design/sparse.md */
    LW_N_BUCKET_KINDS,
};

/* The word of a kind, and the name of its set unless it holds gradients. */
const char *lw_bucket_kind_name(enum lw_bucket_kind kind);
/* The kind that a file without kinds means by a set's name. */
enum lw_bucket_kind lw_bucket_kind_of_set(const char *name);

/* The buckets of one stage: [first_bucket, +n_buckets), those of gradients in launch index
 * order. */
struct lw_bucket_set {
    /* "initial" or "rebuilt"; of another kind than gradients the kind's word */
    const char *name;
    int32_t stage, first_bucket, n_buckets;
    int32_t kind;              /* enum lw_bucket_kind, never LW_BUCKET_SPARSE */
};

/* Elements [first, first + numel) of a parameter are updated by `owner` (index in its data group;
 * -1 = by every member). The shards of a parameter tile it. A plan without any shards: every member
 * updates everything. */
struct lw_shard {
    int32_t param, owner;
    int64_t first, numel;
};

/* n shards of a parameter, each as long as the first one: of the owners from first.owner on, each
 * beginning where the one before it ends. */
struct lw_shard_run {
    struct lw_shard first;
    int32_t n;
};

/* Work of a compute op, shared by all ops that cost the same. -1 = unknown. */
struct lw_work {
    lw_ps ps;                  /* alone on the device the workload was recorded on */
    int64_t flops, bytes;
    int64_t keeps_bytes;       /* activations: > 0 a forward takes them when it starts, < 0 a
                                * backward gives them back when it ends; 0 = none, or unknown */
    int32_t first_product, n_products; /* into plan->work_products: its products in order; none
                                * = unknown, or there are none */
    lw_ps bound_ps[LW_N_BOUNDS]; /* ps by what bounds it; what they leave of it is given, and what
                                  * bounds that is not known */
    enum lw_time_source source;
};

#define LW_MAX_STAGES INT16_MAX

/* A plan may hold millions: narrow where numbers are small. */
struct lw_op {
    uint8_t kind;              /* enum lw_op_kind */
    uint8_t dtype;             /* enum lw_dtype */
    int16_t stage;             /* what it is about, with those below; -1 = nothing */
    int32_t module, micro_batch;
    int32_t bucket;            /* of a forward: lw_plan_op_reads */
    int32_t stream;
    int32_t comm;              /* class; -1 = no communication */
    int32_t call;              /* sends and receives with the same number (>= 0) within a program
                                * form one group call and complete together; -1 = alone */
    int32_t work;              /* index into plan->works; -1 = work_ps holds */
    lw_ps work_ps;             /* own work; 0 for none; -1 = timed by the cluster (copies, comm) */
    int64_t bytes; /* payload as in shared/plan/cost.h; memory ops: bytes taken or freed */
    int32_t peer;              /* global rank: receiver, sender or root; -1 = none */
    int32_t operand;           /* row of operands that replaces bytes and peer; -1 = none */
    int32_t first_dep, n_deps; /* into plan->deps: ops of the same program, all before this one */
    int32_t first_ready, n_ready; /* into plan->ready: gradients complete when this op ends (their
                                   * share of its micro-batch; for COPY_IN: gradients that it
                                   * copies, zeros of unused ones among them) */
    const char *name;          /* "" or what a person calls it */
};

/* An op of a plan of many: those that are alike but for these share a row. */
struct lw_op_place {
    int32_t row; /* into plan->op_rows */
    int32_t micro_batch, first_dep;
};

/* What such an op has of its own where modules are alike: none of it is in its row, which has work
 * -1 or 0 (the op has one) alone. */
struct lw_op_own {
    int32_t module, bucket, work, first_ready;
};

/* What one rank puts in place of the fields of an op. Row o begins at number
 * plan->operand_first[o] of the operands; the entry of a rank is the one of its index within its
 * role (lw_operand_at). */
struct lw_operand {
    int64_t bytes, offset;     /* offset: of the payload in its buffer, in bytes */
    int32_t peer;
};

/* A row of operands as a rule, for ranks on a grid: index i of the role lies in line i / width. The
 * bytes are equal; peers are `across` apart in a line, and those of lines `down`; offsets are those
 * of lines. A row that no rule describes is written out: n is 0, and its entries lie in
 * plan->operands from `at` on. */
struct lw_operand_rule {
    struct lw_operand first; /* of index 0 */
    int32_t n, at, width, across, down;
    int64_t offset_down;
};

struct lw_program {
    int32_t first_op, n_ops;
};

struct lw_variant {
    const char *name;          /* "first", "accumulate", "steady", "replay" */
    int32_t n_sets;            /* bucket sets it uses: all whose name is set_name */
    const char *set_name;      /* "" = no gradients are reduced */
    bool ends_step;            /* the optimizer runs in it */
};

/* Workspaces of libraries are no decision: lw_framework_hold adds them. */
enum lw_mem {
    LW_MEM_PARAMS, LW_MEM_GRADS, LW_MEM_OPTIMIZER, LW_MEM_BUCKETS, LW_MEM_WORKSPACES, LW_N_MEM
};

struct lw_role {
    const char *name;
    int32_t stage, n_ranks;
    int64_t static_bytes[LW_N_MEM]; /* of each rank; ALLOC and FREE ops add to it */
    /* held: a framework has changed static_bytes to what it holds; the plan's own, which are hashed
     * and written, are these */
    bool held;
    int64_t decided_bytes[LW_N_MEM];
    /* By the framework: gradients take room from the op that makes them to the optimizer's end, and
     * not throughout. Neither hashed nor written. */
    bool grads_come;
    /* A gradient is made beside the sum of those of earlier micro-batches, to which it is added. As
     * grads_come. */
    bool adds_gradients;
    int64_t offloaded; /* optimizer state that the host holds until the update; as grads_come */
    /* Elements of a buffer, counted in static_bytes, that gradients of no more are reduced in: they
     * take no room of their own. 0 = none; as grads_come. */
    int64_t reduce_elements;
    /* Weights of blocks of more elements are gathered in 8 bits, as they are held. 0 = none; as
     * grads_come. */
    int64_t narrow_above;
    /* The buffer of a bucket that is reduce-scattered exists while it is reduced; until then its
     * gradients have their own type. As grads_come. */
    bool reduce_copies;
    /* Gradients of activations that a block's backward has beside what the block keeps, in bytes of
     * a rank; as grads_come. */
    int64_t block_gradients;
};

struct lw_plan {
    struct lw_arena arena; /* owns everything below */
    const char *name;
    struct lw_strategy *strategy; /* that made it; compat included; never NULL */
    char hash[33];               /* hex of the 128-bit hash of its decisions; "" = not yet */

    int32_t n_ranks, n_stages, n_roles, n_variants;
    int32_t n_streams, n_comms, n_groups, n_members;
    int32_t n_params, n_buffers, n_modules, n_whole, n_sparse;
    int32_t n_sets, n_buckets, n_slots, n_offsets, n_shards, n_works, n_products,
        n_work_products;
    int32_t n_ops, n_deps, n_ready, n_operand_rows, n_operands, n_passes, n_notes, n_from_times;

    /* These three are NULL where `grid` says them of all: lw_plan_role_of, lw_plan_index_of,
     * lw_plan_coord read either. */
    int32_t *role_of;       /* [n_ranks] */
    int32_t *index_in_role; /* [n_ranks] */
    int32_t *coord;         /* [n_ranks * LW_N_AXES] */
    struct lw_role *roles;
    struct lw_stream *streams;
    struct lw_comm *comms;
    struct lw_group *groups; /* in creation order */
    int32_t *members;        /* NULL: `grid` says them (lw_plan_member_at) */
    /* [n_comms * n_ranks]: group of the rank in that class; -1 = outside; NULL: `grid` says it of
     * all (lw_plan_group_of) */
    int32_t *comm_group;
    struct lw_grid_rule *grid; /* what these tables say, as rules; NULL: the tables alone hold. Of
                                * what lw_builder_grid began; neither hashed nor written */

    struct lw_plan_param *params;
    struct lw_buffer *buffers;
    int32_t *stage_of;      /* [n_modules] */
    int32_t *whole;         /* [n_whole] parameters that every rank of a tensor group holds all of,
                             * ascending; none without tensor groups */
    struct lw_sparse *sparse; /* [n_sparse] as the workload's */
    struct lw_bucket_set *sets;
    struct lw_bucket *buckets;
    int32_t *slots;         /* parameters */
    int64_t *offsets;       /* in elements */
    /* Whole shards, or NULL: then runs of them, in order (shared/plan/shard_runs.h).
     * lw_shard_run_at reads either. */
    struct lw_shard *shards;
    struct lw_shard_run *shard_runs; /* [n_shard_runs] */
    int32_t n_shard_runs;
    /* Whole works, or NULL: then work k is row work_row[k] (shared/plan/work_rows.h). lw_work_at
     * reads either. */
    struct lw_work *works;
    struct lw_work *work_rows; /* [n_work_rows] */
    int32_t *work_row;         /* [n_works] */
    int32_t n_work_rows;
    struct lw_product *products; /* that are different */
    int32_t *work_products;      /* of all works: indexes into products */

    struct lw_variant *variants;
    struct lw_program *programs; /* [n_variants * n_roles], variant major */
    /* Whole ops, or NULL: then each is a place and a row (shared/plan/op_rows.h). lw_op_at reads
     * either. */
    struct lw_op *ops;
    struct lw_op_place *op_places; /* [n_ops] */
    struct lw_op *op_rows;         /* [n_op_rows]; nothing reads their micro_batch and first_dep */
    int32_t *op_calls;             /* [n_ops]: the ops' call; NULL: none has one */
    struct lw_op_own *op_own;      /* [n_ops]; NULL: the rows hold it */
    int32_t n_op_rows;
    int32_t *deps;
    int32_t *ready;              /* parameters */
    int32_t *operand_first;      /* [n_operand_rows] */
    struct lw_operand *operands; /* [n_operands], or those that no rule describes */
    struct lw_operand_rule *operand_rules; /* [n_operand_rows]; NULL: all rows are written out */

    /* Pass i runs variant pass_variant[i]; after the last, it goes on at repeat_from. A step ends
     * with a pass whose variant ends_step. */
    int32_t *pass_variant;
    int32_t repeat_from;

    const char **notes;     /* decisions and the rules after them, for people */
    const char **from_times; /* what times decided ("--partition exact"): another machine may decide
                              * otherwise; outside the hash */
    const char *workload_hash, *cluster_name; /* provenance, outside the hash */
    const char *device;     /* kind that the times are of; "" = unknown; outside the hash */
    /* Outside the hash: what the framework decides of stages is in the tables, and of times in
     * those. It adds its own memory when a plan is timed. */
    const char *framework, *framework_hash; /* "ideal" has no hash; "" = of an older file */
    const char *optimizer;  /* of its times (lw_optimizer_name); "" = unknown; outside the hash */
    struct lw_model_dims dims;
    int32_t rules;      /* LW_PLAN_RULES of the program that planned it; outside the hash */
    int64_t own_states; /* lw_own_states of its workload; outside the hash */
    /* Bytes of optimizer state that the last rank lacks of its role's, which is that of the
     * fullest; outside the hash. */
    int64_t last_spares;
    /* Of --bucket-cap: every cap from least_cap to below next_cap makes this plan, but for the
     * limits that its buckets name. next_cap 0 = none is known to. Neither hashed nor written. */
    int64_t least_cap, next_cap;
    struct lw_step_yield yield; /* outside the hash */
};

void lw_plan_free(struct lw_plan *p);

static inline const struct lw_work *lw_work_at(const struct lw_plan *p, int32_t work)
{
    return p->works ? &p->works[work] : &p->work_rows[p->work_row[work]];
}

/* The works as they are held, *n of them, of which each stands for those that share it. */
static inline struct lw_work *lw_plan_held_works(const struct lw_plan *p, int32_t *n)
{
    *n = p->works ? p->n_works : p->n_work_rows;
    return p->works ? p->works : p->work_rows;
}

/* Op i. What reads a few of its fields gets no others. */
static inline struct lw_op lw_op_at(const struct lw_plan *p, int64_t i)
{
    struct lw_op op;

    if (p->ops)
        return p->ops[i];
    op = p->op_rows[p->op_places[i].row];
    op.micro_batch = p->op_places[i].micro_batch;
    op.first_dep = p->op_places[i].first_dep;
    if (p->op_calls)
        op.call = p->op_calls[i];
    if (p->op_own) {
        op.module = p->op_own[i].module;
        op.bucket = p->op_own[i].bucket;
        op.work = p->op_own[i].work;
        op.first_ready = p->op_own[i].first_ready;
    }
    return op;
}

/* The ops as they are held, *n of them, of which each stands for those that share it: to change
 * all, or to ask whether there is one of a kind. Of what struct lw_op_own has they say no more than
 * whether there is a work. */
static inline struct lw_op *lw_plan_held_ops(const struct lw_plan *p, int32_t *n)
{
    *n = p->ops ? p->n_ops : p->n_op_rows;
    return p->ops ? p->ops : p->op_rows;
}

/* The same to point at: a copy that lasts as long as the block in which it stands. */
#define LW_OP(p, i) ((const struct lw_op[1]){lw_op_at(p, i)})

/* Op i where it is held, also for others that are alike: nothing may read its micro_batch, call and
 * first_dep. Loops over ops take it: a copy, which lasts as long as LW_OP's, is made of those alone
 * that have fields of their own. */
#define LW_OP_HELD(p, i) \
    ((p)->ops      ? &(p)->ops[i] \
     : (p)->op_own ? (const struct lw_op[1]){lw_op_at(p, i)} \
                   : &(p)->op_rows[(p)->op_places[i].row])

/* What op i has in common with those that are alike, without a copy: nothing may read its
 * micro_batch, call and first_dep, nor what struct lw_op_own has. */
static inline const struct lw_op *lw_op_shared(const struct lw_plan *p, int64_t i)
{
    return p->ops ? &p->ops[i] : &p->op_rows[p->op_places[i].row];
}

/* The row that op i shares; -1: it shares none. */
static inline int32_t lw_op_row(const struct lw_plan *p, int64_t i)
{
    return p->ops ? -1 : p->op_places[i].row;
}

static inline int32_t lw_op_call(const struct lw_plan *p, int64_t i)
{
    return p->ops ? p->ops[i].call : p->op_calls ? p->op_calls[i] : -1;
}

static inline int32_t lw_op_micro_batch(const struct lw_plan *p, int64_t i)
{
    return p->ops ? p->ops[i].micro_batch : p->op_places[i].micro_batch;
}

static inline int32_t lw_op_first_dep(const struct lw_plan *p, int64_t i)
{
    return p->ops ? p->ops[i].first_dep : p->op_places[i].first_dep;
}

/* The variant of pass i, counting on beyond the list. */
int32_t lw_plan_variant_of_pass(const struct lw_plan *p, int64_t pass);
struct lw_program lw_plan_program(const struct lw_plan *p, int32_t variant, int32_t rank);
int32_t lw_plan_longest_program(const struct lw_plan *p); /* ops of it */
/* ranks[n_ranks] by role and index in it; those of a role begin at first[role], of n_roles + 1. */
enum lw_status lw_plan_ranks_by_role(const struct lw_plan *p, struct lw_arena *room,
                                     int32_t **ranks, int32_t **first, struct lw_err *err);
/* Of the tokens that its experts exchange; without copies every copy travels. */
struct lw_routing lw_plan_routing(const struct lw_plan *p);
int32_t lw_grid_group_of(const struct lw_plan *p, int32_t comm, int32_t rank);
int32_t lw_grid_coord(const struct lw_plan *p, int32_t rank, enum lw_grid_axis axis);
int32_t lw_grid_index(const struct lw_plan *p, int32_t rank);
/* Of a rank: its role, its index there, its coordinate on an axis. */
static inline int32_t lw_plan_role_of(const struct lw_plan *p, int32_t rank)
{
    return p->role_of ? p->role_of[rank] : lw_grid_coord(p, rank, LW_AXIS_PP);
}

static inline int32_t lw_plan_index_of(const struct lw_plan *p, int32_t rank)
{
    return p->index_in_role ? p->index_in_role[rank] : lw_grid_index(p, rank);
}

static inline int32_t lw_plan_coord(const struct lw_plan *p, int32_t rank, enum lw_grid_axis axis)
{
    return p->coord ? p->coord[(int64_t)rank * LW_N_AXES + axis] : lw_grid_coord(p, rank, axis);
}

int32_t lw_grid_member_at(const struct lw_plan *p, int32_t at);
/* Number `at` of all members; member i of a group. */
static inline int32_t lw_plan_member_at(const struct lw_plan *p, int32_t at)
{
    return p->members ? p->members[at] : lw_grid_member_at(p, at);
}

static inline int32_t lw_plan_member_of(const struct lw_plan *p, const struct lw_group *g,
                                        int32_t i)
{
    return lw_plan_member_at(p, g->first_member + i);
}

/* All coordinates of a rank. */
void lw_plan_place(const struct lw_plan *p, int32_t rank, int32_t at[LW_N_AXES]);
void lw_plan_roles_write(const struct lw_plan *p, int32_t *role_of); /* [n_ranks] */
/* The number of a rank's group in a class; -1 = outside. And the group; NULL when it is outside. */
static inline int32_t lw_plan_group_of(const struct lw_plan *p, int32_t comm, int32_t rank)
{
    return p->comm_group ? p->comm_group[(int64_t)comm * p->n_ranks + rank]
                         : lw_grid_group_of(p, comm, rank);
}

const struct lw_group *lw_plan_group(const struct lw_plan *p, int32_t comm, int32_t rank);
/* The slots of a bucket in order, with their offsets: begin with an empty walk; false after the
 * last. Who needs no offsets reads p->slots[bucket.first_slot + i]. */
struct lw_slot_walk {
    struct lw_slot slot;
    int32_t n;                 /* slots walked, this one included */
};

static inline bool lw_plan_next_slot(const struct lw_plan *p, const struct lw_bucket *b,
                                     struct lw_slot_walk *w)
{
    int64_t end = w->n > 0 ? w->slot.offset + p->params[w->slot.param].numel : 0;

    if (w->n >= b->n_slots)
        return false;
    w->slot.param = p->slots[b->first_slot + w->n];
    w->slot.offset = b->first_offset < 0 ? end : p->offsets[b->first_offset + w->n];
    w->n++;
    return true;
}

static inline struct lw_operand lw_rule_operand(const struct lw_operand_rule *x, int32_t index)
{
    int32_t line = index < x->width ? 0 : index / x->width;
    struct lw_operand d = x->first;

    d.offset += line * x->offset_down;
    d.peer += line * x->down + (index - line * x->width) * x->across;
    return d;
}

/* The entry of an index within a role, and how many a row has. */
static inline struct lw_operand lw_operand_at(const struct lw_plan *p, int32_t row, int32_t index)
{
    if (!p->operand_rules)
        return p->operands[p->operand_first[row] + index];
    const struct lw_operand_rule *x = &p->operand_rules[row];
    if (x->n == 0)
        return p->operands[x->at + index];
    return lw_rule_operand(x, index);
}

int32_t lw_operand_row_length(const struct lw_plan *p, int32_t row);
/* An op as one rank sees it: operand resolved. Without one the offset is 0. */
struct lw_operand lw_plan_operand(const struct lw_plan *p, const struct lw_op *op, int32_t rank);
/* false: no device was named when the plan was made (lapwing plan without -c). */
bool lw_plan_has_times(const struct lw_plan *p);
/* Its time has changed, and what bounds it is not known any more. */
void lw_work_forget_bounds(struct lw_work *w);
/* Decisions stay, and so does the hash. */
void lw_plan_drop_times(struct lw_plan *p);
/* LW_EINVAL where it has none; name: of its file. */
enum lw_status lw_plan_need_times(const struct lw_plan *p, const char *name, struct lw_err *err);
/* Work of a compute op in ps; -1 = timed by the cluster. */
static inline lw_ps lw_plan_work_ps(const struct lw_plan *p, const struct lw_op *op)
{
    return op->work >= 0 ? lw_work_at(p, op->work)->ps : op->work_ps;
}
/* Which member of the group the rank is; -1 = none. */
int32_t lw_plan_member(const struct lw_plan *p, const struct lw_group *g, int32_t rank);
/* The op computes with its module's weights: they must be there. */
bool lw_op_uses_weights(const struct lw_op *op);
/* Of a forward of which the op is a piece: it names a bucket of weights, and reads those of its
 * module that the program gathers no later than that one. An op that names none reads all. */
bool lw_plan_op_reads(const struct lw_plan *p, int32_t op, int32_t bucket);
enum lw_bucket_kind lw_plan_bucket_kind(const struct lw_plan *p, int32_t bucket);
bool lw_plan_is_weights(const struct lw_plan *p, int32_t bucket);
/* A parameter of more elements than `above` that is neither the embedding's nor the head's. */
bool lw_plan_in_block(const struct lw_plan *p, const struct lw_plan_param *x, int64_t above);
bool lw_plan_is_tied(const struct lw_plan *p, int32_t bucket);
bool lw_plan_is_norm(const struct lw_plan *p, int32_t bucket);
/* The variant reduces the gradients of this set. */
bool lw_plan_uses_set(const struct lw_plan *p, int32_t variant, int32_t set);
/* The bucket is of a sparse gradient, whose entry this is; NULL = it is not. */
const struct lw_sparse *lw_plan_sparse(const struct lw_plan *p, int32_t bucket);
/* The parameter has storage and a gradient of its own: it is not tied to another of its stage. */
bool lw_plan_holds(const struct lw_plan *p, int32_t param);
/* next[n_params]: the next parameter with the same storage at its stage, from the one that holds
 * it; -1 = none. */
void lw_plan_link_tied(const struct lw_plan *p, int32_t *next);
/* The gradient norm counts what ranks with this tensor coordinate update of the parameter: it is no
 * copy of one at an earlier stage, and not counted by lower coordinates already. */
bool lw_plan_counts(const struct lw_plan *p, int32_t param, int32_t tensor);
/* "op 12 (all_reduce, bucket 3) of 'steady' for role 'data'"; room for LW_OP_TEXT bytes. */
enum { LW_OP_TEXT = 160 };
const char *lw_plan_op_text(const struct lw_plan *p, int32_t op, char *text);
/* LW_EPLAN, with that text before the message: fmt goes on after it (": has no group"). */
enum lw_status lw_plan_op_fail(const struct lw_plan *p, int32_t op, struct lw_err *err,
                               const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* Of plan files and of the canonical bytes. Files of format 1 state a hash that covers times. */
enum { LW_PLAN_FORMAT = 2 };
/* Of plans of a framework but the ideal one. Raised where a change of the program gives such a plan
 * other kept bytes, states or times with the facts and decisions that it had. 0: of a plan file
 * that states none, which is older. */
enum { LW_PLAN_RULES = 1 };

/* Fill p->hash from the canonical bytes: every decision in a fixed order, little-endian, without
 * padding, paths, provenance or times. Of the work of an op it covers what plan_work.h says. */
enum lw_status lw_plan_hash(struct lw_plan *p, struct lw_err *err);

/* What the hash leaves out and a run depends on: the time of every op with its share of FLOPs and
 * traffic and what bounds it, whose they are (device, framework), dims and yield. Plans with both
 * hashes equal run alike. */
enum lw_status lw_plan_hash_times(const struct lw_plan *p, char hex[33], struct lw_err *err);

/* The first decision in which two plans differ ("strategy: --bucket-cap is none in the first plan,
 * 25.00 MiB (26214400 B) in the second"); "" when they decide the same. Decisions are compared in
 * the order of the canonical bytes. times: of plans that decide the same, how many ops take another
 * time and the first of them; "" when none does. bytes: the same of the bytes of activations. */
struct lw_plan_difference {
    char decision[512], times[512], bytes[512];
    bool of_strategy; /* the decision is an option */
};
enum lw_status lw_plan_diff(const struct lw_plan *a, const struct lw_plan *b,
                            struct lw_plan_difference *out, struct lw_err *err);

/* Where the buckets [first, first + n) leave in a variant: backward time of the synchronised
 * micro-batch before that (-1: the plan has no times), and gradients complete by then. op -1: the
 * variant does not reduce it. One walk over the ops for all of them. */
struct lw_launch_point {
    lw_ps at;
    int32_t n_ready, op;
};
void lw_plan_launch_points(const struct lw_plan *p, int32_t variant, int32_t first, int32_t n,
                           struct lw_launch_point *out);

/* Prove the plan: see docs/design/plan.md for the list. LW_EPLAN names the first fault. */
enum lw_status lw_plan_check(const struct lw_plan *p, struct lw_err *err);

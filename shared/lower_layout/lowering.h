#pragma once

#include "shared/groups/groups.h"
#include "shared/lower_part/lower_part.h"
#include "shared/partition/partition.h"
#include "shared/schedule/grid_order.h"
#include "shared/schedule/schedule_colossal.h"

/* What a lowering holds before its ops are written: lower_stages.c lays the model over the
 * pipeline, lower_ranks.c the ranks over both, lower_tables.c fills the plan's tables.
 *
 * A pipeline rank is a role of the plan. It holds one part of the model or several (chunks). A
 * plan's stage is what holds the same parameters: the pipeline rank, but for two directions,
 * where the ranks r and p-1-r hold the same two parts. */

/* Operands that a row resolves for each rank of a role. */
enum lw_row_kind {
    LW_ROW_PEER, LW_ROW_ROOT, LW_ROW_EXPERT_ROOT, LW_ROW_SHARE, LW_ROW_EXPERT_SHARE, LW_ROW_RING
};
struct lw_row {
    enum lw_row_kind kind;
    int32_t role, which;         /* which: the peer's pipeline rank; the root's index in its group;
                                  * members that a buffer has equal shares for; how far the peer
                                  * is ahead in the context group */
    int64_t bytes;
    int32_t row;
};

/* A communicator class of the plan and the stream of its ops; comm -1 = none. */
struct lw_line {
    int32_t comm, stream;
};

/* A parameter's copies at several stages, ascending. */
struct lw_tied_copy {
    int32_t param, stage, bucket; /* bucket: the plan's number */
};
struct lw_tied_set {
    int32_t first, n_copies;
    struct lw_line line;
    struct lw_tied_copy *copies;
};

struct lw_written;
struct lw_lowering {
    const struct lw_workload *given; /* the whole model */
    const struct lw_workload *w;     /* of one rank of a tensor group */
    const struct lw_strategy *s;
    struct lw_builder *b;
    struct lw_arena arena;
    struct lw_grid grid;         /* of the pipeline; one rank and one stage without one */
    struct lw_grid_order order;  /* what each of its ranks does */
    struct lw_colossal_order calls; /* the same for schedules of combined calls; else empty */
    bool pairs;                  /* all-to-alls run beside the other's compute in units of two */
    bool mirrored;               /* two directions: two pipeline ranks hold the same parts */
    int32_t n_parts;
    struct lw_part *parts;       /* [n_parts] in the order of the model: part q is stage q of the
                                  * grid */
    int32_t *part_of;            /* [modules] */
    int32_t *holder;             /* [params of w]; after lw_lower_stages has cut the model; NULL:
                                  * each parameter is its own (lw_lower_holder) */
    int32_t *param_in_part;      /* [params of w] its number in its module's part; -1: another part
                                  * of the stage holds it. NULL = one part, the same numbers */
    int64_t slowest_part;        /* the exact partition's bottleneck, in picoseconds */
    int32_t n_tied;
    struct lw_tied_set *tied;

    /* ranks */
    int32_t n_ranks, dp, pp, tp; /* dp: ranks that share parameters, dp * cp of the strategy */
    int32_t cp;                  /* consecutive ones of them share a sequence */
    int32_t stride_dp, stride_pp, stride_tp; /* between ranks that differ by one coordinate */
    struct lw_row *rows;         /* rows of operands made so far */
    int64_t n_rows, rows_capacity;
    bool no_memory;              /* for a row: the lowering has failed */

    struct lw_written *written;  /* lower_ops: of each part, what others are copied from; NULL =
                                  * nothing is written yet */
    int32_t compute, copy; /* streams; -1 = the plan has none */
    struct lw_line data;
    struct lw_line replicas; /* over the data groups that hold the same shards; none where there
                              * is one such group */
    struct lw_line forward, backward;   /* activations and their gradients */
    struct lw_line tensor;              /* sums over the tensor group */
    struct lw_line context;             /* keys and values */
    struct lw_line expert, expert_data; /* tokens to experts; experts' gradients */
    int32_t ep;                         /* ranks that share the experts */
    int64_t last_spares;                /* lw_plan.last_spares */
    struct lw_line model, pipeline; /* numbers that the ranks of a replica (of two directions: of
                                     * one), and of a pipeline (compat colossalai), agree on */
    int32_t norm_bucket;         /* plan's number of stage 0's; stage s has the s-th after it */
    enum lw_dtype activation_dtype;
    int32_t *optimizer_work;     /* [pp] */
    int64_t *offloaded;          /* [pp] bytes of state in the host's memory; NULL: none */
    int64_t *host_updates;       /* [pp] elements that the host updates; NULL: none */
    int32_t host_link;           /* stream of copies from and to the host; -1 = none */
};

/* Ranks that run the same program have one role, the pipeline rank; this is its stage in the
 * plan. */
static inline int32_t lw_stage_of_role(const struct lw_lowering *l, int32_t role)
{
    return l->mirrored && role >= l->pp / 2 ? l->pp - 1 - role : role;
}

/* Ranks that hold a copy of a part. */
static inline int32_t lw_n_copies(const struct lw_lowering *l)
{
    return l->mirrored ? 2 * l->dp : l->dp;
}

/* Stages of a replica: of two directions either holds the whole model. */
static inline int32_t lw_n_replica_stages(const struct lw_lowering *l)
{
    return l->mirrored ? l->pp / 2 : l->pp;
}

/* Without pipeline and tensor parallelism all ranks are alike. */
static inline bool lw_is_plain(const struct lw_lowering *l)
{
    return l->pp == 1 && l->tp == 1;
}

/* Tensor ranks that experts are folded over: 1 unless each has some of them whole. */
static inline int32_t lw_expert_width(const struct lw_lowering *l)
{
    return lw_strategy_folds_experts(l->s) ? l->tp : 1;
}

/* What reduces, scatters and gathers what experts, or all others, have. */
static inline struct lw_line lw_data_line(const struct lw_lowering *l, bool expert)
{
    return expert && l->ep > 1 ? l->expert_data : l->data;
}

/* The gradients' norm is sent as f64, ColossalAI's as f32. */
static inline enum lw_dtype lw_norm_dtype(const struct lw_lowering *l)
{
    return l->s->compat == LW_COMPAT_COLOSSALAI ? LW_F32 : LW_F64;
}

/* A tensor rank sends its part of a pipeline message alone, and all put it together again. */
static inline bool lw_scatters_messages(const struct lw_lowering *l)
{
    return l->s->scatter_gather && !l->s->sequence_parallel && l->tp > 1;
}

/* lower_tensor.c: whether the strategy's groups can share the experts; of l: given, s, tp, ep. */
enum lw_status lw_lower_check_experts(const struct lw_lowering *l, struct lw_err *err);
/* The same: l->w from l->given. */
enum lw_status lw_lower_tensor(struct lw_lowering *l, struct lw_err *err);

/* lower_stages.c: the schedule's grid, the partition, and the parts with their workloads. */
enum lw_status lw_lower_stages(struct lw_lowering *l, const struct lw_cost *cost,
                               struct lw_err *err);
enum lw_status lw_lower_partition(struct lw_lowering *l, const struct lw_cost *cost,
                                  struct lw_range *ranges /* [n_parts] */, struct lw_err *err);
/* lower_partition_exact.c: the exact policy with work[modules] and what the strategy asks it to
 * weigh; after the parts' decisions, that no stage holds more than --stage-memory. */
enum lw_status lw_lower_exact(struct lw_lowering *l, const struct lw_cost *cost,
                              const int64_t *work, struct lw_arena *room,
                              struct lw_partitioning *out, struct lw_err *err);
enum lw_status lw_lower_check_memory(struct lw_lowering *l, struct lw_err *err);
/* Backwards of a part that a pipeline rank runs in a pass, and that complete its gradients. */
int32_t lw_lower_backwards(const struct lw_lowering *l, int32_t rank, int32_t part);
int32_t lw_lower_stage_of(const struct lw_lowering *l, int32_t module);
/* The first parameter at this one's stage with the same storage: itself, unless it is tied
 * there. */
int32_t lw_lower_holder(const struct lw_lowering *l, int32_t param);

/* lower_tied.c: sets of copies; their communicators (members: room for pp); their buffers. */
enum lw_status lw_lower_tied(struct lw_lowering *l, struct lw_err *err);
/* The parameter is a copy of a set: its gradient is added to those at other stages. */
bool lw_lower_has_tied(const struct lw_lowering *l, int32_t param);
void lw_lower_tied_comms(struct lw_lowering *l, int32_t *members);
void lw_lower_tied_sets(struct lw_lowering *l);

/* lower_ranks.c: coordinates; then roles, streams and communicators in the plan. */
enum lw_status lw_lower_axes(struct lw_lowering *l, struct lw_err *err);
int32_t lw_rank_at(const struct lw_lowering *l, int32_t dp, int32_t pp, int32_t tp);
/* Members of the data group with this stage and tensor coordinate, in order; returns their number.
 * members: room for all that have a copy. */
int32_t lw_data_group(const struct lw_lowering *l, int32_t stage, int32_t tp, int32_t *members);
enum lw_status lw_lower_ranks(struct lw_lowering *l, struct lw_err *err);
/* The row of operands of a role that names this peer, root or neighbour in the context group, or
 * each rank's share of `bytes`; -1 when memory ran out. */
int32_t lw_lower_row(struct lw_lowering *l, enum lw_row_kind kind, int32_t role, int32_t which,
                     int64_t bytes);

/* lower_tables.c: the model with its buckets, shards and works. */
enum lw_status lw_lower_model(struct lw_lowering *l, struct lw_err *err);
/* Adds what the fullest rank that holds the part has, and how much less of the optimizer's state
 * the last one has. */
enum lw_status lw_part_memory(struct lw_part *d, int64_t bytes[LW_N_MEM], int64_t *last_spares,
                              struct lw_err *err);

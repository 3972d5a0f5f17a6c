#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "exec/backend/backend.h"
#include "shared/plan/message_ends.h"
#include "exec/cpu/gradients.h"
#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "shared/plan/plan.h"

/* The tensors of a run: where every weight, gradient and bucket lies on every rank, and which parts
 * (exec/backend/backend.h) an op of the plan works on. */

/* All-reduces without a bucket that an op of the same rank makes and another one takes: those
 * set and compare them. Op numbers count within the program; -1 = none. See payload_check.h. */
struct exec_payload_ends {
    int32_t *maker, *taker;       /* [n_ops] of an all-reduce; both or none */
    int32_t *made, *next_made; /* [n_ops] of any op: the first that it makes; of that, the next */
    int32_t *taken, *next_taken;
};

/* How the gradients of one (variant, role) travel. */
struct exec_layout {
    int32_t *bucket_of;    /* [n_params] plan's bucket; -1 = not reduced */
    int64_t *slot_of;      /* [n_params] offset in its bucket, elements */
    bool *copied_in;       /* [n_params] by a COPY_IN; else the slot itself is the gradient */
    bool *produced;        /* [n_params] a backward op of the program completes it */
    bool *copied_out;      /* [n_buckets] back into the gradients */
    bool *cast;            /* [n_buckets] reduced in another type than it is filled in */
    int64_t *stage_at; /* [n_buckets] offset in the bucket memory, bytes; -1 = another variant's */
    int64_t *wire_at;      /* [n_buckets] what is reduced; = stage_at unless cast */
    int32_t *divisor;      /* [n_buckets] members of the group that reduces it; 1: none */
    int32_t *units_comm;   /* [n_buckets] class that gathers a flat buffer of weights before it is
                            * used (temporary, ahead); -1 = none such */
    int64_t *scratch_at;   /* [n_ops of the program] of communication without a bucket */
    bool *apart;           /* [n_ops] its slot serves no other message, in any variant */
    int32_t *before_of;    /* [n_ops] the message whose slot it took over; -1 = none */
    /* [n_ops of the program] which op of its communicator it is; of messages, of those with this
       peer and direction */
    int32_t *turn_of;
    struct lw_message_ends flow; /* of messages between stages */
    struct exec_payload_ends payloads;
    bool scales; /* gradients are averaged and clipped in place, for the optimizer to read */
    int64_t bucket_bytes;
    /* of scratch: where slots of one message each end; all others */
    int64_t apart_bytes, shared_bytes;
};

enum { EXEC_MAX_STATES = 2 };

struct exec_rank_memory {
    void *weights;                             /* each parameter's in its type */
    float *masters, *state[EXEC_MAX_STATES];   /* f32 */
    void *grads, *buckets, *scratch, *rows;    /* all are the backend's; NULL = none */
    float *products;                           /* flops_compute.c */
    void *norm;                                /* exec/tensors/grad_norm.c */
};

/* Of a flat buffer of weights that takes turns with others in one slot of memory
 * (exec/tensors/weight_turns.h): what its member owns lies apart. A verified run has a mark for
 * each flat buffer of a slot: the one that holds it has a number there, the others a pattern. */
struct exec_turn {
    int32_t slot;                /* -1 = it has memory of its own, with the member's share in it */
    int32_t turn, n_turns;       /* its number among those of the slot */
    int32_t comm, n_members;     /* class that gathers it; members of a group */
    int64_t slot_bytes, share_at, marks_at; /* bytes of the slot; offsets in weights */
};

enum { EXEC_TURN_MARK = 8 }; /* bytes: any type's element */

/* Where weights lie in a rank's memory, and as what they travel. */
struct exec_weight_places {
    int64_t *at;                 /* [n_params] offset in weights, bytes */
    int64_t *bucket_at;          /* [n_buckets] the same of flat buffers of weights; -1 = others */
    int64_t *wire_at; /* [n_buckets] what of them travels: the same, unless it is narrowed */
    struct exec_turn *turns;     /* [n_buckets] */
    int32_t *flat;               /* [n_params] flat buffer that takes turns; -1 = none */
    int32_t n_slots;
    uint8_t *travels_as;         /* [n_params] enum lw_dtype of its weights on the wire; their own,
                                  * unless a flat buffer is narrowed */
};

/* Where the rows of sparse gradients lie. */
struct exec_sparse_places {
    int64_t *rows; /* [plan->n_sparse] of a rank's own list; 0 = it is not reduced so */
    int64_t *at;                 /* [plan->n_sparse] the list's offset in rows, bytes */
    int64_t bytes;               /* of all rows */
};

/* Which member of a group each rank is; 0 without one. */
struct exec_member_places {
    int32_t *data;               /* [n_ranks] */
    int32_t *expert;             /* [n_ranks] in the group that shares its experts */
};

struct exec_tensors {
    struct lw_arena arena;
    const struct lw_plan *plan;
    const struct exec_backend *backend;
    struct exec_world *world;
    struct exec_facts facts;
    bool compares;               /* messages carry values, which ops compare: no op overwrites what
                                  * is still to be compared, or uses weights that were freed or
                                  * that the optimizer made stale */
    struct exec_optimizer optimizer;
    int32_t batch_steps;         /* of the largest batch */
    struct exec_layout *layouts; /* [n_variants * n_roles] */
    struct exec_weight_places weights;
    struct exec_sparse_places sparse;
    struct exec_member_places member;
    int64_t *state_at;           /* [n_params] offset in masters and state, elements */
    bool *sharded;               /* [n_params] its shards have owners */
    bool *temporary;             /* [n_params] a member keeps its own shards alone */
    bool *ahead, has_ahead;      /* [n_params] others' shards are those of the step before, from the
                                  * optimizer to the next step's gather; some parameter is so */
    int32_t *next_tied;          /* [n_params] lw_plan_link_tied */
    int64_t *grad_at;            /* [n_params] offset in grads, bytes */
    bool has_masters;            /* some parameter is not f32 */
    bool clips;                  /* the plan does: by what follows in squares */
    double *squares; /* [steps * n_local] of all gradients, as each local rank had them */
    int64_t squares_capacity;
    struct exec_rows *lists; /* [n_variants * n_ranks * plan->n_sparse] of local ranks, by layout */
    int64_t weight_bytes, n_state, grad_bytes, bucket_bytes, scratch_bytes, copy_bytes;
    int64_t least_message_bytes; /* of a layout that does not compare: memory serves both */
    int64_t product_elements;    /* of a matrix of the largest product */
    struct exec_rank_memory *ranks; /* [n_ranks] */
    struct exec_gradient_table table;   /* gradients */
    struct exec_gradient_table messages; /* contents of communication without a bucket */
    struct exec_gradient_table values;   /* activations and their gradients */
};

/* What an op works on: filled per rank and pass; offsets resolve to the backend's memory. */
struct exec_parts {
    struct exec_part *items;
    int64_t n, capacity;
};

struct exec_sums;

/* Where in the run: the key of this pass's gradients. */
struct exec_place {
    int32_t step, pass;           /* optimizer step; pass within it */
    int32_t rank;
    /* of the pass that ends the step: it says where gradients lie */
    const struct exec_layout *layout;
    bool *filled;                 /* [n_params] gradient holds something of this step already */
    int32_t micro_batches;        /* of the plan, per pass */
    int32_t slot; /* of the step in its batch: where it keeps what is read after it */
    struct exec_sums *sums;       /* of what the optimizer reads; NULL = the step is not compared */
    bool *copied;                 /* [n_params] its bucket holds a sum of this step already */
};

/* Indexes in range, dependencies backwards, slots inside buckets: what even a plan that is run
 * unchecked must keep, so that a run touches its own memory only. LW_EPLAN names the op. */
enum lw_status exec_plan_is_safe(const struct lw_plan *p, struct lw_err *err);

/* Lay out and allocate; weights get their first values. n_passes: largest number of passes of a
 * step. The plan is borrowed. LW_ENOTSUP: what this version does not execute, named. */
enum lw_status exec_tensors_init(struct exec_tensors *m, struct lw_err *err);
/* without a world */
enum lw_status exec_tensors_lay_out(struct exec_tensors *m, struct lw_err *err);
/* Everything is again as before the first step, in a layout that does not compare; the memory
 * stays. Nothing is in flight. After an error *m is as it was. */
enum lw_status exec_tensors_restart(struct exec_tensors *m, struct lw_err *err);
void exec_tensors_free(struct exec_tensors *m); /* the lists; the tensors go with their world */

const struct exec_layout *exec_tensors_layout(const struct exec_tensors *m, int32_t variant,
                                             int32_t rank);
/* The parameter lives on this rank and takes part: of its role's stage, trainable, not tied to
 * another one there. */
bool exec_param_is_here(const struct lw_plan *p, int32_t param, int32_t rank);
/* The same, or it is frozen and sharded: its weights travel. */
bool exec_weights_are_here(const struct exec_tensors *m, int32_t param, int32_t rank);
/* Both ranks hold the same elements of the parameters of their stage: their gradients are
 * averaged. */
bool exec_ranks_agree(const struct lw_plan *p, int32_t rank, int32_t other);
/* The same of one parameter: experts are divided among the ranks that share them. */
bool exec_ranks_share(const struct lw_plan *p, int32_t param, int32_t rank, int32_t other);
/* The first of the copies that start from the same weights: itself, unless it is tied. */
int32_t exec_param_root(const struct lw_plan *p, int32_t param);

/* What the rank keeps of a parameter's weights: all, or its own shards, each where it would be if
 * all of the parameter began here. */
char *exec_tensors_weights(const struct exec_tensors *m, int32_t rank, int32_t param);
/* The f32 weights that the optimizer updates: the parameter's own, or masters beside them. */
float *exec_tensors_master(const struct exec_tensors *m, int32_t rank, int32_t param);

/* Shard s of the plan is updated by this rank. */
bool exec_shard_is_mine(const struct exec_tensors *m, int32_t shard, int32_t rank);

/* Places of tensors in a rank's memory are multiples of a cache line. */
static inline int64_t exec_aligned(int64_t bytes)
{
    return (bytes + 63) / 64 * 64;
}
/* param_layout.c: offsets of weights, gradients and state, and how much they take. LW_ENOTSUP: a
 * type that is not trained in; LW_EPLAN: flat buffers that share a parameter, or mix types. */
enum lw_status exec_params_place(struct exec_tensors *m, struct lw_err *err);

/* The type of a parameter's gradient, from the backward that makes it to the optimizer that
 * reads it. */
enum lw_dtype exec_gradient_dtype(const struct lw_plan *p, int32_t param);
/* The type in which a bucket is filled: its gradients', or of a flat buffer its weights'. */
enum lw_dtype exec_bucket_filled_in(const struct lw_plan *p, int32_t bucket);
/* Where the messages of a stream begin: verified, of all streams in one area; and bytes of all. */
char *exec_tensors_scratch(const struct exec_tensors *m, int32_t rank, int32_t stream);
int64_t exec_tensors_scratch_size(const struct exec_tensors *m);
int64_t exec_tensors_message_bytes(const struct exec_tensors *m); /* and of copies */

/* Elements [first, first + numel) of a parameter that the rank at a place updates: of those with a
 * gradient in this step, completed by a backward or reduced (an unused one gets the average of the
 * others), all, or of sharded ones its own. Begin with an empty walk; false after the last. */
struct exec_owned {
    int32_t param;
    int64_t first, numel;
    int32_t next_param, next_shard;
};
bool exec_next_owned(const struct exec_tensors *m, const struct exec_place *at,
                     struct exec_owned *o);

/* tensor_ops.c: append the parts of an op as the rank at `place` runs it. LW_ENOMEM. */
enum lw_status exec_tensors_parts(const struct exec_tensors *m, const struct lw_op *op,
                                 const struct exec_place *place, struct exec_parts *parts,
                                 struct lw_err *err);
/* gathered_weights.c: of giving weights up, and of using those that are not kept: before the
 * op's other parts. */
enum lw_status exec_unit_parts(const struct exec_tensors *m, const struct lw_op *op,
                               const struct exec_layout *own, int32_t rank,
                               struct exec_parts *parts, struct lw_err *err);
/* The copy op works on no tensor, in a step that ends with this layout: it copies bytes of an
 * area of its stream's. */
bool exec_copy_is_plain(const struct exec_tensors *m, const struct lw_op *op,
                        const struct exec_layout *layout);
enum lw_status exec_parts_add(struct exec_parts *parts, struct exec_part part, struct lw_err *err);
/* The payload of a communication op; step_layout: of the pass that ends the step, NULL for one
 * without a bucket. A message without bytes carries one element, so that it can be distinguished
 * from others. */
struct exec_message exec_tensors_message(const struct exec_tensors *m, const struct lw_op *op,
                                        int32_t variant, int32_t rank,
                                        const struct exec_layout *step_layout);

/* Where a parameter's gradient is when everything is reduced, and what divides it. layout: of
 * the pass that ends the step. */
void *exec_tensors_gradient(const struct exec_tensors *m, const struct exec_layout *layout,
                            int32_t rank, int32_t param, int32_t *divisor);
/* What the optimizer reads for a parameter: there, and by what it divides: 1 where it was
 * clipped. */
const void *exec_tensors_average(const struct exec_tensors *m, const struct exec_layout *layout,
                                int32_t rank, int32_t param, int32_t *divisor);
int32_t exec_plan_micro_batches(const struct lw_plan *p);

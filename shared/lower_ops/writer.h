#pragma once

#include "shared/bucket/reducer.h"
#include "shared/lower_layout/lowering.h"

/* The ops of a pass: lower_pass.c orders its phases, and each phase writes its ops:
 * lower_pipeline.c, lower_forward.c, lower_backward.c, lower_reduce.c, lower_update.c. */

/* Which of a part's bucket sets a pass reduces. */
enum lw_pass_set { LW_PASS_REDUCES_NOTHING, LW_PASS_INITIAL, LW_PASS_REBUILT };

struct lw_pass {
    const char *name;
    enum lw_pass_set set;
    bool ends_step;
    bool after_backward; /* copies and launches only when the backward has ended */
    bool held;           /* weights are there since the pass before: see lw_part_keeps_units,
                          * lw_part_gathers_ahead */
    enum lw_used_map used_map;
};

/* A unit of another part of the stage, which holds the weight that a module's parameter is tied
 * to. */
struct lw_unit_elsewhere {
    struct lw_writer_part *part;
    int32_t module, unit;
};

/* A gradient of `part` that the backward of another module of the stage adds to: a parameter of
 * that module is tied to it. */
struct lw_tied_use {
    struct lw_writer_part *part;
    int32_t param;         /* of the part */
    int32_t next;          /* of the same module; -1 = none */
};

/* Ops of a forward or a backward that has been written: lower_repeat.c. */
enum { LW_N_TAKEN = 3, LW_N_ACTIONS = LW_OP_BACKWARD_WEIGHT + 1 };
struct lw_written {
    int32_t first, n; /* n 0: none yet */
    int32_t role, micro_batch, n_calls;
    int32_t taken[LW_N_TAKEN]; /* ops before it that it may wait for: the last compute, what the
                                * next compute waits for too, its input; -1 = none */
    int32_t left[LW_N_TAKEN];  /* the first two of these after it, and its output */
};

/* A bucket whose sum over the replicas waits for the end of the backward. */
struct lw_held_sum {
    struct lw_op reduced; /* what its data group did, */
    int32_t at, bucket;   /* the op that did it */
    bool expert;
};

/* What the writer of a pass keeps about one part of its rank. */
struct lw_writer_part {
    struct lw_part *d;
    const struct lw_part_set *set; /* NULL: nothing is reduced */
    struct lw_reducer *reducer;    /* NULL: nothing is reduced */
    int32_t *launches;             /* [n_buckets] room for one mark */
    int32_t *late, n_late;         /* [n_buckets] launches that wait for the end of the backward */
    struct lw_held_sum *held;      /* [n_buckets] --late-replicas; NULL: nothing is held */
    int32_t n_held;
    int32_t *done_of;              /* [n_buckets] op after which the bucket holds its result; after
                                    * them, [n_buckets] of its room given back */
    int32_t *room_at, *bucket_of;  /* [n_buckets] its room; -1 = none. [params] NULL: gradients
                                    * stay */
    int32_t *params;               /* [n_grads] room for the gradients of one bucket */
    int32_t backwards_left;        /* until its gradients are complete */
    bool has_gradients;            /* of a backward in the pass */
    int32_t uses_left;             /* backwards of it that read weights, in the pass */
    bool *unit_there;              /* [buffers] gathered and not freed. NULL: no ZeRO-3 */
    int32_t *unit_at;              /* [buffers] its last gather in the pass; -1 = none */
    int32_t *unit_freed;           /* [buffers] when it was freed last; -1 = never */
    bool *unit_waited;             /* [buffers] the compute stream has waited for it */
    struct lw_unit_elsewhere *elsewhere;
    int32_t n_elsewhere;
    int32_t *gathered_by;          /* [buffers] --overlap-param-gather: the op of the pass that
                                    * gathers each, in the order of forwards; -1 = none yet. NULL:
                                    * without it */
    int32_t n_waited;              /* of these */
    bool unused_copied, map_reduced;
    struct lw_written *written;    /* [LW_N_ACTIONS] of each kind the one that others are copied
                                    * from, of this pass or an earlier one */
};

/* Ops that one step of the rank's order wrote: lower_pairs.c. */
struct lw_pair_item {
    int32_t first, n;    /* ops */
    int8_t lane;         /* of a unit: 0 its forward, 1 its backward; 2 a message; -1 = other */
    bool backward;
    int32_t unit;        /* of a lane: which, counted on the rank */
};

/* The last message of its kind, from which the next ones are copied that have the same module and
 * peer. */
struct lw_sent {
    int32_t module, peer, op; /* op: 1 + its number; 0 = none yet */
};

/* The state of writing one pass of one rank. */
struct lw_writer {
    struct lw_lowering *l;
    const struct lw_pass *pass;
    int32_t role, stage;
    struct lw_writer_part *parts;  /* [n_parts] those of the role */
    int32_t n_parts, n_places;     /* so far; in all */
    struct lw_tied_use *tied;      /* where gradients come and go */
    int32_t *module_tied;          /* [modules of the model] the first of its tied uses; -1 = none.
                                    * NULL: nothing is tied */
    int32_t micro_batch;
    int32_t *made;                 /* [2 * n_places * micro-batches] op after which the output of
                                    * a forward, of a backward is there; -1 = not here */
    int32_t *got;                  /* the same for what a forward, a backward takes; below -1: not
                                    * asked for yet (lower_pipeline.c) */
    int32_t *sent, n_sent;         /* [2 * n_places * micro-batches] sends since compute waited
                                    * for sends last */
    struct lw_sent last_sent[2][2][2]; /* of sends, of backwards, of those that wait for an op */
    bool turned;                   /* the action before was a backward */
    bool *gap_written;             /* [2 * micro-batches] host gap before forward, before
                                    * backward */
    int32_t *deps, n_deps;         /* what the optimizer waits for, then what follows it */
    int32_t last_compute;          /* op added last to the compute stream; -1 = none yet */
    int32_t gathers[LW_TENSOR_PIECES], n_gathered; /* the last gather in pieces; waited for */
    int32_t sum;                   /* the backward's last sum over the tensor group */
    int32_t after;                 /* what the next one there waits for too; -1 = nothing */
    int32_t n_calls;               /* group calls so far */
    struct lw_pair_item *items;    /* [n_items] of the order so far; NULL: units of two run one
                                    * after the other */
    int32_t n_items, n_units;
    int32_t loaded;                /* op that brings the optimizer's state; -1 = none */
    int32_t back, back_of, needed; /* --offload activations: op that brings a module's, the module;
                                    * what the next backward waits for; -1 = none */
    int32_t first_last;            /* last compute of a unit's forward */
};

/* lower_writer.c: ops with the fields that all of a pass share. */
/* About the stage and micro-batch at hand; not added yet. */
struct lw_op lw_write_op(const struct lw_writer *k, enum lw_op_kind kind, int32_t stream,
                         const char *name);
/* The same of bytes that are moved, timed by the cluster: on a line, or on the compute stream. */
struct lw_op lw_write_moved(const struct lw_writer *k, enum lw_op_kind kind, struct lw_line line,
                            int64_t bytes, enum lw_dtype dtype, const char *name);
int32_t lw_write_compute(struct lw_writer *k, struct lw_op *op, const int32_t *deps, int32_t n);
/* The op added last completes, or copies, the gradients of these parameters of the part too. */
void lw_write_complete(struct lw_writer *k, const struct lw_part *d, const int32_t *params,
                       int32_t n);
/* A work of a module: of its forward or backward, or recomputed (LW_OP_KERNEL); input -1 = none. */
void lw_write_work(struct lw_writer *k, const struct lw_part *d, enum lw_op_kind kind,
                   int32_t module, int32_t work, int32_t input);
/* The same of a forward that reads the weights gathered up to a bucket; -1 = all. */
void lw_write_cut_work(struct lw_writer *k, const struct lw_part *d, int32_t module, int32_t work,
                       int32_t input, int32_t bucket);
void lw_write_gap(struct lw_writer *k, enum lw_gap gap);
/* A copy or cast on the compute stream; dep -1 = none. */
int32_t lw_write_copy(struct lw_writer *k, enum lw_op_kind kind, int64_t bytes, enum lw_dtype dtype,
                      int32_t bucket, int32_t dep);
/* Weights of a flat buffer, of that type on the wire, over who shares them; not added yet. */
struct lw_op lw_write_weights(const struct lw_writer *k, const struct lw_part *d, int32_t buffer,
                              enum lw_op_kind kind, enum lw_dtype wire);
/* What follows on the compute stream waits for these. */
int32_t lw_write_wait(struct lw_writer *k, const char *what, const int32_t *ops, int32_t n);

/* An op that others than the plain data group's first rank may be the root of. */
void lw_write_root(struct lw_writer *k, struct lw_op *op, int32_t member, bool expert);

/* A collective of activations over the tensor group, of keys and values (or their gradients)
 * over the context group: after the last compute and `input` (-1 = none), before the next
 * compute. */
void lw_write_sum(struct lw_writer *k, enum lw_op_kind kind, int64_t bytes, int32_t module,
                  int32_t input);
/* A gather in LW_TENSOR_PIECES, the first before the next compute; the next of them too. */
void lw_write_gathers(struct lw_writer *k, int64_t bytes, int32_t module, int32_t input);
void lw_write_gathered(struct lw_writer *k);
void lw_write_keys(struct lw_writer *k, enum lw_op_kind kind, int64_t bytes, int32_t module,
                   int32_t input);
/* A step of ring attention begins: a block goes to the next rank of the context group (of a
 * backward to the one before), another comes, in one group call beside the step's op. Returns the
 * receive, -1 where the step has no message; what follows the step waits for it (`after`). */
int32_t lw_write_ring(struct lw_writer *k, const struct lw_part *d, int32_t module, bool backward,
                      int32_t step, int32_t input);
/* Tokens to the experts of a module that has some, or their gradients from these back (dispatch),
 * and the other way (combine); before a forward's dispatch, what all ranks gather of the experts
 * that each token goes to. Nothing without expert parallelism. */
void lw_write_routing_map(struct lw_writer *k, const struct lw_part *d, int32_t module,
                          int32_t input);
void lw_write_dispatch(struct lw_writer *k, const struct lw_part *d, int32_t module, bool forward,
                       int32_t input);
void lw_write_combine(struct lw_writer *k, const struct lw_part *d, int32_t module, int32_t input);
/* lower_module.c: a module's steps, with its works from `work` on; `input`: the op that brings what
 * it takes, -1 = none. Those of a backward that is written stretch by stretch have no work. */
void lw_write_module(struct lw_writer *k, const struct lw_part *d, int32_t module,
                     enum lw_op_kind kind, struct lw_steps steps, int32_t work, int32_t input);
/* A forward that is cut where it first uses what is gathered ahead. */
void lw_write_cut_module(struct lw_writer *k, struct lw_writer_part *x, int32_t module,
                         struct lw_steps steps, int32_t work, int32_t input);
void lw_write_exchange(struct lw_writer *k, const struct lw_part *d, int32_t module,
                       struct lw_steps steps, int32_t input);
/* Sequence parallelism: saved inputs are gathered again beside the next compute. */
void lw_write_again_gathered(struct lw_writer *k, int64_t bytes, int32_t module);
/* The all-gather of the parts of a pipeline message that the tensor ranks received; returns the
 * op. */
int32_t lw_write_whole_message(struct lw_writer *k, int64_t bytes, int32_t module, int32_t input);

/* lower_pipeline.c: forwards, backwards and messages in the schedule's order. */
enum lw_status lw_write_pipeline(struct lw_writer *k, struct lw_err *err);

/* Its pieces, for lower_colossal.c: one forward or backward; one end of a message of what `made`
 * made; where a value of a stage and micro-batch is kept in made[] and got[]. */
enum lw_status lw_write_action(struct lw_writer *k, const struct lw_action *a, struct lw_err *err);
int32_t lw_write_message(struct lw_writer *k, bool sends, const struct lw_action *made,
                         int32_t peer, int32_t call, int32_t dep);
int32_t lw_value_at(const struct lw_writer *k, bool backward, int32_t stage, int32_t mb);

/* lower_pairs.c: with --expert-overlap. Room for what a pass notes; before and after each step of
 * the order; the op that brings an action's input where the rank itself made it; and the program's
 * ops in the order that lets all-to-alls run beside compute. */
enum lw_status lw_write_begin_pairs(struct lw_writer *k, struct lw_arena *room, struct lw_err *err);
void lw_write_enter_step(struct lw_writer *k, int32_t step);
void lw_write_leave_step(struct lw_writer *k);
int32_t lw_write_local_input(const struct lw_writer *k, const struct lw_action *a);
enum lw_status lw_write_interleaved(struct lw_writer *k, struct lw_err *err);

/* lower_repeat.c: an action that repeats an earlier one is copied; false: none is known, and
 * nothing is written. What is written then may be copied: begin before it, end after it. */
bool lw_write_repeat(struct lw_writer *k, struct lw_writer_part *x, enum lw_op_kind kind,
                     int32_t input, int32_t *output);
struct lw_written lw_write_begin_repeat(const struct lw_writer *k, int32_t input);
void lw_write_end_repeat(struct lw_writer *k, struct lw_writer_part *x, enum lw_op_kind kind,
                         const struct lw_written *begun, int32_t output);

/* lower_colossal.c: the same as lw_write_pipeline for combined calls; found-inf and norm. */
enum lw_status lw_write_calls(struct lw_writer *k, struct lw_err *err);
void lw_write_model_numbers(struct lw_writer *k);

/* lower_forward.c; `input`: the op that brings what it takes, -1 = none. Returns the op after
 * which its output is there. */
void lw_write_buffers(struct lw_writer *k, const struct lw_writer_part *x);
int32_t lw_write_forward(struct lw_writer *k, struct lw_writer_part *x, int32_t input);
/* lower_offload.c: activations go to the host after a module's forward; they come back when the
 * backward of the module after it begins; the op added last waits for them. */
void lw_write_store_activations(struct lw_writer *k, const struct lw_part *d, int32_t module);
void lw_write_load_activations(struct lw_writer *k, const struct lw_part *d, int32_t module);
void lw_write_need_activations(struct lw_writer *k);
/* What is recomputed of a module before its backward. */
void lw_write_again(struct lw_writer *k, const struct lw_part *d, int32_t module);

/* lower_backward.c: the whole, the input's half or the weights' half (kind); reduce: gradients that
 * are complete go into their buckets. *output as for forward. */
enum lw_status lw_write_backward(struct lw_writer *k, struct lw_writer_part *x,
                                 enum lw_op_kind kind, int32_t input, bool reduce, int32_t *output,
                                 struct lw_err *err);

/* lower_reduce.c: room for the gradients that a backward of the module writes, these parameters'
 * and those that its own are tied to; copy these gradients and launch what they complete; what is
 * left to do when the backward has ended. */
void lw_write_grad_room(struct lw_writer *k, struct lw_writer_part *x, int32_t module,
                        const int32_t *params, int32_t n);
enum lw_status lw_write_ready(struct lw_writer *k, struct lw_writer_part *x, const int32_t *params,
                              int32_t n, struct lw_err *err);
enum lw_status lw_write_reduction_end(struct lw_writer *k, struct lw_writer_part *x,
                                      struct lw_err *err);
/* The same after a micro-batch that others follow: all is waited for, and the next is reduced
 * alike. */
enum lw_status lw_write_round_end(struct lw_writer *k, struct lw_writer_part *x,
                                  struct lw_err *err);
/* The reducer is ready for a round of gradients. */
enum lw_status lw_write_round_begin(struct lw_writer_part *x, struct lw_err *err);

/* lower_reduce_sparse.c: bucket b of a sparse gradient goes out after `after`; returns the op after
 * which the sum is there. */
int32_t lw_write_sparse(struct lw_writer *k, const struct lw_writer_part *x, int32_t b,
                        int32_t after);

/* lower_units.c: ZeRO-3's weights. Gather those of a module and of the next ones in the direction
 * of `step` (1 forward, -1 backward), and wait for the module's; free them after the module's
 * backward; free them after a forward, unless the backward follows. Nothing without ZeRO-3. */
enum { LW_PREFETCH_DEFAULT = 1 };
enum lw_status lw_write_begin_units(const struct lw_pass *pass, struct lw_writer_part *x,
                                    struct lw_arena *room, struct lw_err *err);
/* Once the parts of the role have begun: units and gradients that tied parameters share. */
enum lw_status lw_write_link_tied(struct lw_writer *k, struct lw_arena *room, struct lw_err *err);
void lw_write_units(struct lw_writer *k, struct lw_writer_part *x, int32_t module, int32_t step);
void lw_write_free_units(struct lw_writer *k, struct lw_writer_part *x, int32_t module);
void lw_write_free_root(struct lw_writer *k, struct lw_writer_part *x); /* after a backward */
void lw_write_reshard(struct lw_writer *k, struct lw_writer_part *x, int32_t module);

/* lower_gathers_ahead.c: what the module's forward uses until `at` after its start is gathered and
 * waited for, and what comes next is gathered. input: op that brings what the forward takes; -1 =
 * none, or others waited for it. Nothing without --overlap-param-gather. Returns the plan's bucket
 * that was gathered last of what it uses; -1 where it uses nothing that is gathered later. */
enum lw_status lw_write_begin_gathers_ahead(const struct lw_pass *pass, struct lw_writer_part *x,
                                            struct lw_arena *room, struct lw_err *err);
int32_t lw_write_gather_ahead(struct lw_writer *k, struct lw_writer_part *x, int32_t module,
                              lw_ps at, int32_t input);
/* The forward of the module is cut where it first uses what is gathered: not all has been. */
bool lw_write_is_cut(const struct lw_writer_part *x, int32_t module);

/* lower_clip.c, nothing of it without --clip: the norm's chain after all reductions, or piece by
 * piece: the pass that takes the squares; their sum over a communicator; the pass that scales,
 * after `last`. */
void lw_write_clip(struct lw_writer *k);
int32_t lw_write_squares(struct lw_writer *k);
int32_t lw_write_norm_sum(struct lw_writer *k, struct lw_line line, int32_t last);
int32_t lw_write_scale(struct lw_writer *k, int32_t last);

/* lower_update.c: gaps, optimizer, weights to all members; before what is left of the reductions,
 * --offload optimizer's state from the host. */
void lw_write_load_state(struct lw_writer *k);
/* --offload update, in place of the device's optimizer; returns the op that new weights follow. */
int32_t lw_write_host_update(struct lw_writer *k);
void lw_write_update(struct lw_writer *k);

/* lower_pass.c: adds a variant with the ops of the pass on every stage; its number in *variant. */
enum lw_status lw_write_pass(struct lw_lowering *l, const struct lw_pass *pass, int32_t *variant,
                             struct lw_err *err);

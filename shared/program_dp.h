#ifndef LW_SHARED_PROGRAM_DP_H
#define LW_SHARED_PROGRAM_DP_H

#include <stdbool.h>
#include <stdint.h>

#include "shared/backward.h"
#include "shared/bucket.h"
#include "shared/cost.h"
#include "shared/plan_builder.h"
#include "shared/shard_oss.h"
#include "shared/strategy.h"
#include "shared/workload.h"

/* Lowering of a data-parallel step, in parts: program.c says what can be lowered, program_dp.c makes
 * the decisions (gradients, tables, passes), program_buckets.c asks the bucket policy, program_shards.c
 * the shard policy, program_pass.c writes the ops of one pass. Only these see this header's structs. */

/* The buckets of one set: numbers within the set, and where they begin in the plan. */
struct lw_dp_set {
    const char *name;
    struct lw_bucketing buckets; /* items are numbers into lw_dp.grads */
    int32_t *bucket_of;          /* [n_params], -1 = not reduced */
    int32_t first_bucket;        /* plan's number of bucket 0 */
    int64_t *elements;           /* [n_buckets] */
    enum lw_dtype *dtype;        /* [n_buckets] of the gradients */
};

/* ZeRO-1: who updates what, and the flat buffers that bring updated weights to all members. */
struct lw_dp_buffer {
    enum lw_dtype dtype;
    int32_t device, owner;       /* owner -1: an all-gather of equal shares */
    int32_t first_item, n_items;
    int64_t elements;            /* padding included */
};

struct lw_dp_shards {
    int32_t n, n_shards, n_buffers, n_items;
    int32_t *param_of;           /* [n] what a sharded optimizer is given: all but later tied ones */
    struct lw_shard_param *as_given; /* [n] */
    struct lw_shard *shards;     /* [n_shards] of workload parameters, by parameter */
    struct lw_dp_buffer *buffers;
    int32_t *items;              /* [n_items] workload parameters by buffer */
    int64_t *offset;             /* [n_items] in elements of the buffer */
    struct lw_oss *oss;          /* NULL but for oss-greedy */
    int64_t n_elements, most_owned, padding;
    int32_t first_bucket;        /* plan's number of buffer 0 */
};

struct lw_dp {
    const struct lw_workload *w;
    const struct lw_strategy *s;
    const struct lw_cost *cost;  /* NULL = none was handed in */
    struct lw_builder *b;
    struct lw_arena arena;
    struct lw_backward back;
    struct lw_bucket_rules rules;

    int32_t n_grads, n_unused;   /* gradients that are reduced; of these without a value */
    struct lw_grad *grads;       /* [n_grads] in registration order; for the policies alone */
    int32_t *param_of;           /* [n_grads] */
    int32_t *grad_of;            /* [n_params], -1 = not reduced */
    int32_t *order;              /* [n_grads] as they become ready, unused ones last */
    int32_t *unused;             /* [n_unused] parameters */
    struct lw_dp_set initial, rebuilt;
    struct lw_dp_shards shards;  /* n == 0: every member updates everything */
    int32_t *root_of;            /* [buckets of initial] reduced to this rank; NULL = all-reduced */
    int32_t n_empty, *empty;     /* [n_empty] roots of empty buckets, reduced behind the backward */
    bool at_launch;              /* gradients are scaled in their bucket when it is launched */
    bool in_place;               /* gradients are views of their buckets: no copies out */
    bool one_by_one;             /* each bucket is reduced and waited for before the next */
    struct lw_bucketing buffers; /* coalesced broadcasts: items are numbers into buffer_of */
    int32_t n_buffers, *buffer_of;

    int32_t compute, comm, copy; /* streams; -1 = the plan has none */
    int32_t data;                /* communicator class; -1 = none */
    int32_t *forward_work, *stretch_work, optimizer_work;
};

/* One pass to write. set == NULL: nothing is reduced. */
struct lw_dp_pass {
    const char *name;
    const struct lw_dp_set *set;
    bool ends_step;
    bool after_backward; /* copies and launches only when the backward has ended */
    enum lw_used_map used_map;
};

/* Decide the shards of a strategy with ZeRO-1 and put them into the plan. */
enum lw_status lw_dp_assign_shards(struct lw_dp *d, struct lw_err *err);
void lw_dp_add_shards(struct lw_dp *d);
void lw_dp_note_shards(const struct lw_dp *d);
void lw_dp_free_shards(struct lw_dp *d);

/* Ask the strategy's policy: fills d->rules, d->initial and d->rebuilt. */
enum lw_status lw_dp_assign_buckets(struct lw_dp *d, struct lw_err *err);
void lw_dp_note_buckets(const struct lw_dp *d);

/* Adds a variant with the ops of the pass; returns its number in *variant. */
enum lw_status lw_dp_write_pass(struct lw_dp *d, const struct lw_dp_pass *pass, int32_t *variant,
                                struct lw_err *err);

/* The element type of a bucket on the wire under the strategy's hook. */
enum lw_dtype lw_dp_wire_dtype(const struct lw_strategy *s, enum lw_dtype grad);

/* Lower a strategy that lw_plan_build has found to be plain data parallelism. */
enum lw_status lw_dp_build(const struct lw_workload *w, const struct lw_strategy *s,
                           const struct lw_cost *cost, struct lw_plan *plan, struct lw_err *err);

#endif

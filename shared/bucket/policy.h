#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/bucket/bucket.h"
#include "shared/bucket/ready_order.h"
#include "shared/plan/cost.h"
#include "shared/shard/shard_oss.h"
#include "shared/strategy/strategy.h"

/* A bucket policy: what it accepts, where it scales, and how it assigns gradients to buckets. Each
 * is a constant lw_bucket_policy_SYMBOL, defined in the file of the policy and listed once, in
 * LW_BUCKET_POLICIES (shared/strategy/policies.h). CONTRIBUTING.md shows how to add one. */

/* What a policy accepts; options that it does not accept are refused by name. */
enum lw_bucket_takes {
    LW_TAKES_CAP = 1 << 0,           /* --bucket-cap */
    LW_TAKES_FIRST = 1 << 1,         /* --first-bucket */
    LW_TAKES_STATIC_GRAPH = 1 << 2,  /* --static-graph on */
    LW_TAKES_FIND_UNUSED = 1 << 3,   /* --find-unused on */
    LW_TAKES_LAST_CAP = 1 << 4,      /* --last-bucket-cap on */
    LW_TAKES_COUNT_FORWARD = 1 << 5, /* --count-forward on */
    LW_TAKES_SPARSE = 1 << 6,        /* sparse gradients: each in a bucket of its own */
    LW_TAKES_SHARES = 1 << 7,        /* --zero 2 in equal shares: buckets are made once */
    LW_TAKES_MIXED = 1 << 8,         /* gradients of several dtypes or devices */
};

/* Where gradients are multiplied by 1 / ranks. */
enum lw_scaling {
    LW_SCALE_IN_COPY,   /* while they are copied into their bucket; costs no pass of its own */
    LW_SCALE_IN_BUCKET, /* a pass over the bucket before its all-reduce */
    LW_SCALE_AT_LAUNCH, /* gradients are views of their bucket: a pass when it is launched */
    LW_SCALE_ON_WIRE,   /* the comm hook divides what it compressed */
};

/* The input of a policy with its own assignment function; all borrowed. */
struct lw_bucket_task {
    const struct lw_strategy *s;
    const struct lw_workload *w;
    const struct lw_grad *grads;    /* [n_grads] in registration order */
    int32_t n_grads;
    const int32_t *param_of;        /* [n_grads] into w->params */
    const int32_t *grad_of;         /* [w->n_params]; -1 = not reduced */
    const int32_t *order;           /* [n_grads] as they become ready, unused ones last */
    const struct lw_backward *back; /* when they become ready */
    int32_t n_members, n_nodes;     /* ranks that reduce, and the nodes they live on */
    int32_t fewest;                 /* of them on the node that has the fewest */
    bool first_part;                /* of the model: the first chunk of the first stage */
    const struct lw_cost *cost;     /* NULL: no cluster was given */
    const struct lw_oss *oss;       /* owners of whole parameters; NULL but for oss-greedy */
    const struct lw_shard_param *as_given; /* what the sharded optimizer was given, and of which */
    const int32_t *given_param;            /* parameter each is */
    struct lw_arena *room;          /* given back after the decision */
};

/* What it answers. `arena` owns root_of and empty, buckets own themselves. */
struct lw_bucket_answer {
    struct lw_arena *arena;
    /* Items are gradients; launch index order; next_cap in bytes where the policy takes a cap. */
    struct lw_bucketing buckets;
    bool in_place;               /* gradients are views of their buckets: no copies out */
    bool one_by_one;             /* each bucket is waited for before the next is reduced */
    int32_t *root_of;            /* [buckets] reduced to this member; NULL = all-reduced */
    int32_t n_empty, *empty;     /* [n_empty] roots of empty buckets, reduced after the backward */
    char why[224];               /* for people: the rule with its figures */
};

struct lw_bucket_policy {
    unsigned takes; /* enum lw_bucket_takes */
    enum lw_scaling scales;
    bool after_backward; /* the first synchronised backward launches nothing before its end */
    bool skips_unused;   /* reduces the gradients that exist, not those that never get a value */
    bool to_owners;      /* reduces to the owners of whole parameters (oss-greedy) */
    /* Policies that close a bucket at a limit give their limits; NULL: the policy assigns. */
    void (*limits)(const struct lw_bucket_request *r, struct lw_bucket_rules *out);
    enum lw_status (*assign)(const struct lw_bucket_task *t, struct lw_bucket_answer *out,
                             struct lw_err *err);
};

#define LW_ROW_BUCKET_POLICY(id, symbol, word, help) \
    extern const struct lw_bucket_policy lw_bucket_policy_##symbol;
LW_BUCKET_POLICIES(LW_ROW_BUCKET_POLICY)
#undef LW_ROW_BUCKET_POLICY

const struct lw_bucket_policy *lw_bucket_policy(enum lw_bucket_policy_id id);

/* The words of the policies that accept this, "c10d-1.13, c10d-2"; buf holds 256 bytes. */
const char *lw_bucket_policies_that(enum lw_bucket_takes takes, char *buf);

/* For policies whose buckets are one flat buffer for whatever gradients come next: LW_EINVAL names
 * two gradients that differ in dtype or device. */
enum lw_status lw_bucket_need_one_kind(const struct lw_bucket_task *t, struct lw_err *err);

/* Gradients have the dtype of their parameters and travel in it. */
bool lw_bucket_keeps_dtype(const struct lw_bucket_task *t);

#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "shared/numbers/dtype.h"
#include "shared/strategy/strategy.h"

/* One gradient as a bucket policy sees it. */
struct lw_grad {
    int64_t numel;
    enum lw_dtype dtype;
    int32_t device;
    bool sparse;
};

/* Buckets as lists of gradient indices: bucket b holds items[first[b]] .. items[first[b+1]-1], in
 * buffer order; limit_bytes[b] is the limit that applied to it (0 for a sparse one). The last
 * n_open buckets never reached their limit (counted only if an order was given). Every cap from
 * the one that was asked for to below next_cap (in the unit of that cap) makes the same buckets;
 * LW_BUCKET_NO_LIMIT = every larger one does. So does every cap from least_cap on, where that is
 * known and not above the cap that was asked for; 0 = not known. */
#define LW_BUCKET_NO_LIMIT INT64_MAX

struct lw_bucketing {
    struct lw_arena arena;
    int32_t n_buckets, n_items, n_open;
    int32_t *first, *items;
    int64_t *limit_bytes;
    int64_t next_cap, least_cap;
};

void lw_bucketing_free(struct lw_bucketing *b);
/* Room for at most so many buckets of n items, which are not zeroed. */
enum lw_status lw_bucketing_room(struct lw_bucketing *b, int32_t n_buckets, int32_t n_items,
                                 struct lw_err *err);
/* The list of buckets back to front; the order inside each stays. LW_ENOMEM: unchanged. */
enum lw_status lw_bucketing_reverse(struct lw_bucketing *b, struct lw_err *err);

/* c10d's assignment by size (pytorch torch/csrc/distributed/c10d/reducer.cpp,
 * compute_bucket_assignment_by_size, 1.13): one open bucket per (dtype, device), closed once its
 * size has reached the limit; each key walks the limit list on its own.
 *   order[n]  the order in which gradients are visited, NULL = by index; with an order the buckets
 *             stay in closing order, the ones left open by their first-ready gradient
 *   limits    the last one is the cap that out->next_cap is about
 * LW_EINVAL: no gradients, no limit, a negative limit or size, an order that is not a permutation.
 * O(n log n). */
enum lw_status lw_bucket_assign_c10d(const struct lw_grad *grads, int32_t n, const int32_t *order,
                                     const int64_t *limits, int32_t n_limits,
                                     struct lw_bucketing *out, struct lw_err *err);

/* What a user asks of a bucket policy; sizes -1 = the policy's default. */
struct lw_bucket_request {
    enum lw_bucket_policy_id policy;
    int64_t cap_bytes, first_bytes;
    bool find_unused, static_graph;
    bool last_cap; /* the first bucket's limit holds for the last one: DDP_SET_LAST_BUCKET_CAP */
};

/* When the map of used parameters (4 bytes each, summed over ranks) is reduced. */
enum lw_used_map {
    LW_MAP_NEVER,
    LW_MAP_EACH,  /* after the last bucket of every synchronised backward */
    LW_MAP_FIRST, /* before the buckets of the first one only */
};

/* What a policy does over the synchronised backwards of a run: limits of the buckets that the first
 * ones use and, where they are rebuilt in ready order, of those after. LW_BUCKET_NO_LIMIT =
 * none. */
struct lw_bucket_rules {
    int64_t initial_limits[2], rebuilt_limits[2];
    int32_t n_initial, n_rebuilt;  /* n_rebuilt = 0: never rebuilt */
    bool initial_in_ready_order;   /* else by index, and the list of buckets reversed */
    int32_t n_initial_passes;      /* synchronised backwards before the rebuild */
    bool first_after_backward;     /* the first one launches nothing before its backward ended */
    bool rebuilt_from_behind;      /* visited against the ready order, the list then reversed */
    bool limited;                  /* by the limits above; else by the policy's own function */
    enum lw_used_map used_map;
    char why[224];                 /* for people: where the limits come from */
};

/* LW_EINVAL: an option that the policy does not accept (policy.h). docs/design/bucket.md lists the
 * rules of each torch generation. */
enum lw_status lw_bucket_rules(const struct lw_bucket_request *r, struct lw_bucket_rules *out,
                               struct lw_err *err);

/* Buckets of the first synchronised backwards, and of those after the rebuild, in launch index
 * order, of a policy that is limited. order[n]: gradients as they become ready (unused ones
 * last). */
enum lw_status lw_bucket_initial(const struct lw_bucket_rules *r, const struct lw_grad *grads,
                                 int32_t n, const int32_t *order, struct lw_bucketing *out,
                                 struct lw_err *err);
enum lw_status lw_bucket_rebuilt(const struct lw_bucket_rules *r, const struct lw_grad *grads,
                                 int32_t n, const int32_t *order, struct lw_bucketing *out,
                                 struct lw_err *err);

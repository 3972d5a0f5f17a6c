#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/numbers/dtype.h"
#include "shared/base/err.h"
#include "shared/plan/plan.h"

/* Who updates which elements of which parameter in a data-parallel group of `world` members.
 * See docs/design/shard.md. */
struct lw_shard_param {
    int64_t numel; /* >= 0 */
    enum lw_dtype dtype;
    int32_t device;
    bool trainable;
};

/* One flat buffer that is cut into `world` equal shares: its elements in order, then the padding.
 */
struct lw_flat_unit {
    int64_t numel, padding, share; /* numel + padding = world * share, in elements */
    enum lw_dtype dtype;
};

struct lw_sharding {
    struct lw_arena arena; /* owns everything below */
    int32_t world, n_shards, n_units;
    struct lw_shard *shards;    /* by parameter, ascending in it; the elements of a parameter are
                                 * tiled; owner -1 = no member updates it (frozen) */
    int64_t *offset;            /* [n_shards]: where the shard begins in its owner's share of the
                                 * unit, in elements; 0 for policies without flat buffers */
    int32_t *unit;              /* [n_shards]: its flat unit; -1 = none */
    struct lw_flat_unit *units; /* flat-contiguous only */
};

void lw_sharding_free(struct lw_sharding *s);

/* Longest processing time first: trainable parameters by bytes, the largest first (equal ones in
 * order), to the first member with the fewest bytes; frozen ones have no owner. At most 4/3 - 1/(3
 * world) of the optimum (Graham 1969). A parameter of more than split_bytes is cut into the fewest
 * equal pieces of at most that size first (0 = never cut). O(n log n). */
enum lw_status lw_shard_lpt(const struct lw_shard_param *params, int32_t n, int32_t world,
                            int64_t split_bytes, struct lw_sharding *out, struct lw_err *err);

/* Megatron-LM's layer-wise optimizer without a layout (_shard_params_ping_pong of
 * NVIDIA/Megatron-LM@d98e8a64, megatron/core/optimizer/layer_wise_optimizer.py): trainable
 * parameters by elements, the smallest first (equal ones in order), to members 0, 1, .. world - 1,
 * world - 1, .. 0, and so on; frozen ones have no owner. */
enum lw_status lw_shard_ping_pong(const struct lw_shard_param *params, int32_t n, int32_t world,
                                  struct lw_sharding *out, struct lw_err *err);

/* Flat buffers cut into equal shares, as DeepSpeed (param groups, ZeRO-1/2/3) and FSDP (wrapped
 * units) do: the trainable parameters of unit u, items[first[u]] .. items[first[u+1]-1], lie one
 * after the other, the end is padded to a multiple of world * align elements, member r owns the
 * r-th share. Trainable parameters must be in exactly one unit, of one dtype and device each.
 * DeepSpeed aligns to 2 elements with 4-byte NCCL alignment of fp16, FSDP to 1. */
enum lw_status lw_shard_flat(const struct lw_shard_param *params, int32_t n, int32_t world,
                             const int32_t *first, const int32_t *items, int32_t n_units,
                             int64_t align, struct lw_sharding *out, struct lw_err *err);

/* llm.c (llmc/zero.cuh@f1e2ace): every trainable parameter is cut into `world` equal parts, member
 * r owns the r-th. LW_EINVAL where it does not divide. */
enum lw_status lw_shard_per_tensor(const struct lw_shard_param *params, int32_t n, int32_t world,
                                   struct lw_sharding *out, struct lw_err *err);

/* Members by load, least first and then lowest rank: the queue after the greedy policies. */
struct lw_load {
    int64_t load;
    int32_t rank;
};
void lw_loads_init(struct lw_load *heap, int32_t world);
/* Give `load` more to the least loaded member; returns its rank. */
int32_t lw_loads_give(struct lw_load *heap, int32_t world, int64_t load);

/* Sizes not negative, their sum within int64, 1 or more members. */
enum lw_status lw_shard_check_params(const struct lw_shard_param *params, int32_t n, int32_t world,
                                     struct lw_err *err);

#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/shard/shard.h"

/* FairScale's sharded optimizer (OSS, ZeRO-1) over its life: the owner of every parameter, the flat
 * buffers that are broadcast after a step, and what changes when parameters are frozen or param
 * groups are added. Compat reproduces the reference system's two faults; the default repairs them:
 *   - add_group: the partition is made again and old parameters can move, but compat's inner
 *     optimizers keep the parameters they had; default: the state moves along;
 *   - refresh: a (device, owner) without a trainable parameter keeps its old buffer in compat, and
 *     it goes on being broadcast; default: it is dropped.
 * See docs/design/shard.md. */
struct lw_oss;

/* groups: group g holds the parameters items[first[g]] .. items[first[g+1]-1], in the order the
 * optimizer got them; n_groups = 0: one group of all in order. Arrays are copied.
 * LW_EINVAL: a parameter in two groups or in none, dtypes mixed in one flat buffer, bad sizes. */
enum lw_status lw_oss_new(const struct lw_shard_param *params, int32_t n, const int32_t *first,
                          const int32_t *items, int32_t n_groups, int32_t world, bool compat,
                          struct lw_oss **out, struct lw_err *err);
void lw_oss_free(struct lw_oss *o);

/* Freeze or unfreeze parameters: takes effect at the next refresh or add_group. */
enum lw_status lw_oss_set_trainable(struct lw_oss *o, const int32_t *params, int32_t n,
                                    bool trainable, struct lw_err *err);
/* Rebuild the flat buffers; owners stay. On failure nothing has changed. */
enum lw_status lw_oss_refresh(struct lw_oss *o, struct lw_err *err);
/* A new group of n new parameters, numbered on from the last; owners and buffers are made again. On
 * failure nothing has changed. */
enum lw_status lw_oss_add_group(struct lw_oss *o, const struct lw_shard_param *params, int32_t n,
                                struct lw_err *err);

int32_t lw_oss_n_params(const struct lw_oss *o);
int32_t lw_oss_n_groups(const struct lw_oss *o);
int32_t lw_oss_owner(const struct lw_oss *o, int32_t param);

/* Lists of parameters; items (room for all parameters) is filled, the count returned.
 * partition()[rank][group]; what the inner optimizer of a rank holds of a group; the parameters of
 * a device's rank, smallest first. Devices are counted by first appearance. */
int32_t lw_oss_partition(const struct lw_oss *o, int32_t rank, int32_t group, int32_t *items);
int32_t lw_oss_local(const struct lw_oss *o, int32_t rank, int32_t group, int32_t *items);
int32_t lw_oss_n_devices(const struct lw_oss *o);
int32_t lw_oss_device(const struct lw_oss *o, int32_t device); /* its own number */
int32_t lw_oss_of_device(const struct lw_oss *o, int32_t device, int32_t rank, int32_t *items);

/* All of these lists one after the other: items (room for all parameters) by device, rank, size.
 * O(parameters), where the lists above are so for each call. */
void lw_oss_in_buffer_order(const struct lw_oss *o, int32_t *items);
int32_t lw_oss_device_index(const struct lw_oss *o, int32_t param);

/* The flat buffers, in the order in which they are broadcast from their owners after each step. */
struct lw_oss_buffer {
    int32_t device, owner;
    enum lw_dtype dtype;
    int64_t numel;
    int32_t n_items;
    const int32_t *items; /* parameters in buffer order; valid until the next change */
};
int32_t lw_oss_n_buffers(const struct lw_oss *o);
const struct lw_oss_buffer *lw_oss_buffer(const struct lw_oss *o, int32_t buffer);

#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/err.h"

/* Messages by channel: those of one communicator class from one rank to another, or of roles where
 * these represent ranks. Each is added once, those of a rank in the order of its ops; they are read
 * after lw_channels_settle. */
struct lw_channel {
    int32_t comm, from, to;
    int64_t first, at[2]; /* sends are ops[first .. at[0]), receives ops[at[0] .. at[1]) */
};

struct lw_added_message {
    int32_t op, channel; /* ~channel: the op receives */
};

struct lw_channels {
    struct lw_channel *v; /* [n], by (comm, from, to) once they are settled */
    int32_t n;
    int32_t *ops;
    struct lw_added_message *added; /* [n_added], until they are settled */
    int64_t n_added, added_capacity, capacity;
    int32_t *table; /* [size] open addressing: 1 + a channel, 0 = free */
    int64_t size;
};

/* An op that sends (or receives) from `from` to `to`; *channel: its number until they are
 * settled. */
enum lw_status lw_channels_add(struct lw_channels *c, int32_t comm, int32_t from, int32_t to,
                               bool received, int32_t op, int32_t *channel, struct lw_err *err);
/* The same of a channel that has ops. */
enum lw_status lw_channels_add_to(struct lw_channels *c, int32_t channel, bool received,
                                  int32_t op, struct lw_err *err);
enum lw_status lw_channels_settle(struct lw_channels *c, struct lw_err *err);
void lw_channels_free(struct lw_channels *c);

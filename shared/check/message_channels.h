#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/err.h"

/* Messages by channel: those of one communicator class from one rank to another, or of roles where
 * these represent ranks. All messages are added twice, those of a rank in the order of its ops: to
 * be counted, and after lw_channels_settle to be written down. Four bytes a message. */
struct lw_channel {
    int32_t comm, from, to;
    int64_t first, at[2]; /* sends are ops[first .. at[0]), receives ops[at[0] .. at[1]) */
};

struct lw_channels {
    struct lw_channel *v; /* [n], by (comm, from, to) once they are settled */
    int32_t n;
    int32_t *ops;         /* NULL: they are counted */
    int64_t capacity, size;
    int32_t *table;       /* [size] open addressing: 1 + a channel, 0 = free */
};

/* An op that sends (or receives) from `from` to `to`. */
enum lw_status lw_channels_add(struct lw_channels *c, int32_t comm, int32_t from, int32_t to,
                               bool received, int32_t op, struct lw_err *err);
int64_t lw_channels_messages(const struct lw_channels *c); /* counted */
enum lw_status lw_channels_settle(struct lw_channels *c, struct lw_err *err);
void lw_channels_free(struct lw_channels *c);

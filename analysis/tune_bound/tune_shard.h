#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/err.h"

/* A part of a space that one machine of several searches: shard i of n, 1 <= i <= n. n 0: all. */
struct lw_tune_shard {
    int64_t i, n;
};

/* "2/8". LW_EUSAGE: neither that nor a part of a whole. */
enum lw_status lw_tune_shard_parse(const char *text, struct lw_tune_shard *out, struct lw_err *err);
/* Whether the shard has a combination. Each one is in exactly one shard of n, the same on every
 * machine, whatever its neighbours are: values that vary fastest are spread over all shards. */
bool lw_tune_shard_has(const struct lw_tune_shard *s, int64_t combination);
/* How many of n combinations from `first` on. */
int64_t lw_tune_shard_count(const struct lw_tune_shard *s, int64_t first, int64_t n);

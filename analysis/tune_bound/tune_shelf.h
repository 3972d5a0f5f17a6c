#pragma once

#include <stddef.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"

/* Values that are made once, found by the bytes of a key that holds all that they depend on. Keys
 * are zeroed before they are filled, so that padding is equal too. Zeroed = empty. */
enum { LW_TUNE_BUCKETS = 4096 };

struct lw_tune_entry {
    struct lw_tune_entry *next;
    const void *key;
    size_t size;
    void *value;
};

struct lw_tune_shelf {
    struct lw_tune_entry *bucket[LW_TUNE_BUCKETS];
};

/* NULL: no value has this key. */
void *lw_tune_shelf_take(const struct lw_tune_shelf *s, const void *key, size_t size);
/* The key is copied into the arena, the value is kept. */
enum lw_status lw_tune_shelf_keep(struct lw_tune_shelf *s, struct lw_arena *a, const void *key,
                                  size_t size, void *value, struct lw_err *err);
/* Calls free_one with each value. */
void lw_tune_shelf_free(const struct lw_tune_shelf *s, void (*free_one)(void *value));

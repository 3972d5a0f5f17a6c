/* Values by key: chains by the key's hash (FNV-1a). */
#include "analysis/tune_bound/tune_shelf.h"

#include <stdint.h>
#include <string.h>

static uint32_t place_of(const void *key, size_t size)
{
    const unsigned char *b = key;
    uint32_t h = 2166136261u;

    for (size_t i = 0; i < size; i++)
        h = (h ^ b[i]) * 16777619u;
    return h % LW_TUNE_BUCKETS;
}

void *lw_tune_shelf_take(const struct lw_tune_shelf *s, const void *key, size_t size)
{
    const struct lw_tune_entry *e = s->bucket[place_of(key, size)];

    while (e && (e->size != size || memcmp(e->key, key, size) != 0))
        e = e->next;
    return e ? e->value : NULL;
}

enum lw_status lw_tune_shelf_keep(struct lw_tune_shelf *s, struct lw_arena *a, const void *key,
                                  size_t size, void *value, struct lw_err *err)
{
    struct lw_tune_entry *e = lw_arena_alloc(a, 1, sizeof *e);
    unsigned char *copy = lw_arena_alloc(a, (int64_t)size, 1);
    uint32_t at = place_of(key, size);

    if (!e || !copy)
        return lw_fail_nomem(err);
    memcpy(copy, key, size);
    *e = (struct lw_tune_entry){s->bucket[at], copy, size, value};
    s->bucket[at] = e;
    return LW_OK;
}

void lw_tune_shelf_free(const struct lw_tune_shelf *s, void (*free_one)(void *value))
{
    for (int i = 0; i < LW_TUNE_BUCKETS; i++)
        for (const struct lw_tune_entry *e = s->bucket[i]; e; e = e->next)
            free_one(e->value);
}

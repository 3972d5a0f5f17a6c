#pragma once

#include <stddef.h>
#include <stdint.h>

#include "shared/base/arena.h"

/* Every distinct text once, numbered from 0 in order of first appearance. Zeroed = empty. */
struct traces_strings {
    struct lw_arena arena;
    const char **text; /* [n], NUL-terminated */
    uint64_t *hash;    /* [n] */
    int32_t *slot;     /* [n_slots] open addressing, number + 1; 0 = free */
    int64_t n, text_cap, hash_cap, n_slots;
};

/* The number of text[len]; -1 without memory (or beyond 2^30 texts). */
int32_t traces_strings_add(struct traces_strings *s, const char *text, size_t len);
void traces_strings_free(struct traces_strings *s);

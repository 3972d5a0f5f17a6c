/* XXH3-128 as a stream. Written as hex, high half first, as the xxhsum tool does. */
#include "shared/hash.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "shared/arena.h"

struct lw_hash {
    XXH3_state_t *state;
};

struct lw_hash *lw_hash_new(void)
{
    struct lw_hash *h = lw_calloc(1, sizeof *h);

    if (!h)
        return NULL;
    h->state = XXH3_createState();
    if (!h->state) {
        lw_free(h);
        return NULL;
    }
    XXH3_128bits_reset(h->state);
    return h;
}

void lw_hash_bytes(struct lw_hash *h, const void *bytes, size_t n)
{
    XXH3_128bits_update(h->state, bytes, n);
}

void lw_hash_int(struct lw_hash *h, int64_t v)
{
    unsigned char le[8];

    for (int i = 0; i < 8; i++)
        le[i] = (unsigned char)((uint64_t)v >> (8 * i));
    lw_hash_bytes(h, le, sizeof le);
}

void lw_hash_string(struct lw_hash *h, const char *s)
{
    size_t n = s ? strlen(s) : 0;

    lw_hash_int(h, (int64_t)n);
    lw_hash_bytes(h, s ? s : "", n);
}

static void to_hex(XXH128_hash_t v, char hex[33])
{
    snprintf(hex, 33, "%016llx%016llx", (unsigned long long)v.high64, (unsigned long long)v.low64);
}

void lw_hash_finish(struct lw_hash *h, char hex[33])
{
    to_hex(XXH3_128bits_digest(h->state), hex);
    XXH3_freeState(h->state);
    lw_free(h);
}

void lw_hash_of(const void *bytes, size_t n, char hex[33])
{
    to_hex(XXH3_128bits(bytes, n), hex);
}

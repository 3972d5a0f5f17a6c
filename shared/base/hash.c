/* XXH3-128 as a stream. Written as hex, high half first, as the xxhsum tool does. Millions of small
 * numbers are fed: they gather in a buffer, which changes nothing about the digest. */
#include "shared/base/hash.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "shared/base/arena.h"

enum { BUFFER_BYTES = 16384 };

struct lw_hash {
    XXH3_state_t *state;
    size_t used;
    unsigned char buffer[BUFFER_BYTES];
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

static void flush(struct lw_hash *h)
{
    XXH3_128bits_update(h->state, h->buffer, h->used);
    h->used = 0;
}

void lw_hash_bytes(struct lw_hash *h, const void *bytes, size_t n)
{
    if (n > BUFFER_BYTES - h->used)
        flush(h);
    if (n > BUFFER_BYTES) {
        XXH3_128bits_update(h->state, bytes, n);
        return;
    }
    memcpy(h->buffer + h->used, bytes, n);
    h->used += n;
}

void lw_hash_int(struct lw_hash *h, int64_t v)
{
    if (BUFFER_BYTES - h->used < 8)
        flush(h);
    unsigned char *le = h->buffer + h->used;
    uint64_t u = (uint64_t)v;
    le[0] = (unsigned char)u; /* written out: one store on a little-endian machine */
    le[1] = (unsigned char)(u >> 8);
    le[2] = (unsigned char)(u >> 16);
    le[3] = (unsigned char)(u >> 24);
    le[4] = (unsigned char)(u >> 32);
    le[5] = (unsigned char)(u >> 40);
    le[6] = (unsigned char)(u >> 48);
    le[7] = (unsigned char)(u >> 56);
    h->used += 8;
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
    flush(h);
    to_hex(XXH3_128bits_digest(h->state), hex);
    XXH3_freeState(h->state);
    lw_free(h);
}

void lw_hash_of(const void *bytes, size_t n, char hex[33])
{
    to_hex(XXH3_128bits(bytes, n), hex);
}

/* XXH3-128 as a stream. Written as hex, high half first, as the xxhsum tool does. Millions of small
 * numbers are fed: they gather in a buffer, which changes nothing about the digest. */
#include "shared/base/hash.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "shared/base/arena.h"

enum { BUFFER_BYTES = 16384, DIRECT_BYTES = 4096 };
enum { LITTLE_ENDIAN_HOST = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ };

/* Of a library built for x86 with the choice of vector instructions at run time (xxHash 0.8,
 * xxh_x86dispatch.h); NULL elsewhere. Digests are the same. */
XXH_errorcode XXH3_128bits_update_dispatch(XXH3_state_t *state, const void *input, size_t len)
    __attribute__((weak));

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

static void feed(struct lw_hash *h, const void *bytes, size_t n)
{
    if (XXH3_128bits_update_dispatch)
        XXH3_128bits_update_dispatch(h->state, bytes, n);
    else
        XXH3_128bits_update(h->state, bytes, n);
}

static void flush(struct lw_hash *h)
{
    feed(h, h->buffer, h->used);
    h->used = 0;
}

void lw_hash_bytes(struct lw_hash *h, const void *bytes, size_t n)
{
    if (n > BUFFER_BYTES - h->used || n >= DIRECT_BYTES)
        flush(h);
    if (n >= DIRECT_BYTES) {
        feed(h, bytes, n);
        return;
    }
    memcpy(h->buffer + h->used, bytes, n);
    h->used += n;
}

/* How many of n numbers fit into the buffer: at least one. */
static int64_t room_for(struct lw_hash *h, int64_t n)
{
    if (BUFFER_BYTES - h->used < 8)
        flush(h);
    int64_t room = (int64_t)(BUFFER_BYTES - h->used) / 8;
    return n < room ? n : room;
}

void lw_hash_int(struct lw_hash *h, int64_t v)
{
    if (BUFFER_BYTES - h->used < 8)
        flush(h);
    lw_put_int(h->buffer + h->used, v);
    h->used += 8;
}

void lw_hash_ints(struct lw_hash *h, const int64_t *v, int64_t n)
{
    if (LITTLE_ENDIAN_HOST) {
        lw_hash_bytes(h, v, (size_t)n * sizeof *v);
        return;
    }
    for (int64_t i = 0, k; i < n; i += k) {
        k = room_for(h, n - i);
        for (int64_t a = 0; a < k; a++)
            lw_put_int(h->buffer + h->used + 8 * a, v[i + a]);
        h->used += (size_t)k * 8;
    }
}

/* Widened where they gather, eight at a time: tables of ranks have millions. */
static void feed_wide(struct lw_hash *h, const int32_t *v, int64_t n)
{
    enum { LANES = 8 };
    int64_t i = 0;

    while (i < n) {
        int64_t k = room_for(h, n - i), end = i + k;
        unsigned char *to = h->buffer + h->used;
        for (; end - i >= LANES; i += LANES, to += LANES * sizeof(int64_t)) {
            int64_t wide[LANES];
            for (int a = 0; a < LANES; a++)
                wide[a] = v[i + a];
            memcpy(to, wide, sizeof wide);
        }
        for (; i < end; i++, to += sizeof(int64_t))
            memcpy(to, &(int64_t){v[i]}, sizeof(int64_t));
        h->used += (size_t)k * sizeof(int64_t);
    }
}

void lw_hash_ints32(struct lw_hash *h, const int32_t *v, int64_t n)
{
    if (LITTLE_ENDIAN_HOST) {
        feed_wide(h, v, n);
        return;
    }
    for (int64_t i = 0, k; i < n; i += k) {
        k = room_for(h, n - i);
        for (int64_t a = 0; a < k; a++)
            lw_put_int(h->buffer + h->used + 8 * a, v[i + a]);
        h->used += (size_t)k * 8;
    }
}

void lw_hash_string(struct lw_hash *h, const char *s)
{
    size_t n = s ? strlen(s) : 0;

    if (n <= LW_HASH_ROOM - sizeof(int64_t)) {
        unsigned char *to = lw_hash_room(h, sizeof(int64_t) + n);
        lw_put_int(to, (int64_t)n);
        memcpy(to + sizeof(int64_t), s ? s : "", n);
        return;
    }
    lw_hash_int(h, (int64_t)n);
    lw_hash_bytes(h, s, n);
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

void lw_hash_free(struct lw_hash *h)
{
    if (h)
        XXH3_freeState(h->state);
    lw_free(h);
}

unsigned char *lw_hash_room(struct lw_hash *h, size_t n)
{
    if (n > BUFFER_BYTES - h->used)
        flush(h);
    h->used += n;
    return h->buffer + h->used - n;
}

const unsigned char *lw_hash_take(struct lw_hash *h, size_t *n)
{
    *n = h->used;
    h->used = 0;
    return h->buffer;
}

void lw_hash_of(const void *bytes, size_t n, char hex[33])
{
    to_hex(XXH3_128bits(bytes, n), hex);
}

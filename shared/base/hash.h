#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* 128-bit XXH3 in a stream, written as 32 hex digits. Numbers are fed little-endian on any
 * machine. */
struct lw_hash;

struct lw_hash *lw_hash_new(void); /* NULL without memory */
void lw_hash_bytes(struct lw_hash *h, const void *bytes, size_t n);
void lw_hash_int(struct lw_hash *h, int64_t v);
void lw_hash_ints(struct lw_hash *h, const int64_t *v, int64_t n); /* each as lw_hash_int */
void lw_hash_ints32(struct lw_hash *h, const int32_t *v, int64_t n);
void lw_hash_string(struct lw_hash *h, const char *s); /* length first */
void lw_hash_finish(struct lw_hash *h, char hex[33]);  /* frees h */
void lw_hash_free(struct lw_hash *h);                  /* without a digest; NULL is fine */

/* Room for the next n bytes, which the caller writes before it feeds more: n is at most
 * LW_HASH_ROOM. */
enum { LW_HASH_ROOM = 4096 };
unsigned char *lw_hash_room(struct lw_hash *h, size_t n);
/* What was fed since h was made, or since the last call, and takes it back: at most LW_HASH_ROOM
 * bytes. Lasts until more is fed. */
const unsigned char *lw_hash_take(struct lw_hash *h, size_t *n);

/* A number as it is fed. */
static inline void lw_put_int(unsigned char *le, int64_t v)
{
    uint64_t u = (uint64_t)v;

    if (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__)
        u = __builtin_bswap64(u);
    memcpy(le, &u, sizeof u);
}

void lw_hash_of(const void *bytes, size_t n, char hex[33]);

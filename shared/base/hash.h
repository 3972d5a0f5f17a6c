#pragma once

#include <stddef.h>
#include <stdint.h>

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

void lw_hash_of(const void *bytes, size_t n, char hex[33]);

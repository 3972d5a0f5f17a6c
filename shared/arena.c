/* Memory. One counted allocator under everything, and arenas on top of it: a result (workload,
 * cluster, plan) owns one arena and is freed at once. Invariants: every block starts on a 16-byte
 * boundary; a block is never moved, so pointers into an arena stay valid until lw_arena_free. */
#include "shared/arena.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 64 * 1024, ALIGN = 16 };

static _Atomic int64_t fail_countdown; /* 0 = never fail; negative = fail all */
static _Atomic int64_t live_blocks;

static int must_fail(void)
{
    int64_t n = atomic_load(&fail_countdown);
    if (n == 0)
        return 0;
    if (n < 0)
        return 1;
    if (atomic_fetch_sub(&fail_countdown, 1) == 1) {
        atomic_store(&fail_countdown, -1);
        return 1;
    }
    return 0;
}

void lw_alloc_fail_at(int64_t n)
{
    atomic_store(&fail_countdown, n);
}

int64_t lw_alloc_live(void)
{
    return atomic_load(&live_blocks);
}

static void *counted(void *p)
{
    if (p)
        atomic_fetch_add(&live_blocks, 1);
    return p;
}

void *lw_alloc(size_t size)
{
    return must_fail() ? NULL : counted(malloc(size ? size : 1));
}

void *lw_calloc(size_t n, size_t size)
{
    return must_fail() ? NULL : counted(calloc(n ? n : 1, size ? size : 1));
}

void *lw_realloc(void *p, size_t size)
{
    if (!p)
        return lw_alloc(size);
    return must_fail() ? NULL : realloc(p, size ? size : 1);
}

void lw_free(void *p)
{
    if (p)
        atomic_fetch_sub(&live_blocks, 1);
    free(p);
}

int lw_reserve(void *items, int64_t *cap, int64_t need, size_t size)
{
    void **slot = items;
    int64_t grown = *cap > 0 ? *cap : 16;

    if (need <= *cap)
        return 0;
    while (grown < need)
        grown *= 2;
    if (size && (uint64_t)grown > SIZE_MAX / size)
        return -1;
    void *p = lw_realloc(*slot, (size_t)grown * size);
    if (!p)
        return -1;
    *slot = p;
    *cap = grown;
    return 0;
}

struct lw_arena_block {
    struct lw_arena_block *next;
    size_t used, size; /* bytes behind the header */
    _Alignas(ALIGN) unsigned char bytes[];
};

void *lw_arena_alloc(struct lw_arena *a, int64_t n, size_t size)
{
    if (n < 0 || (size && (uint64_t)n > (SIZE_MAX - BLOCK_BYTES) / size))
        return NULL;
    size_t want = ((size_t)n * size + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    struct lw_arena_block *b = a->head;

    if (!b || b->size - b->used < want) {
        size_t room = want > BLOCK_BYTES / 4 ? want : BLOCK_BYTES;
        b = lw_calloc(1, sizeof *b + room);
        if (!b)
            return NULL;
        b->size = room;
        if (a->head && room == want && want > BLOCK_BYTES / 4) {
            b->next = a->head->next; /* a large block of its own: the open one stays in front */
            a->head->next = b;
        } else {
            b->next = a->head;
            a->head = b;
        }
    }
    void *p = b->bytes + b->used;
    b->used += want;
    return p;
}

char *lw_arena_strndup(struct lw_arena *a, const char *s, size_t len)
{
    char *p = lw_arena_alloc(a, (int64_t)len + 1, 1);
    if (p)
        memcpy(p, s, len);
    return p;
}

char *lw_arena_strdup(struct lw_arena *a, const char *s)
{
    return lw_arena_strndup(a, s, strlen(s));
}

void lw_arena_free(struct lw_arena *a)
{
    while (a->head) {
        struct lw_arena_block *b = a->head;
        a->head = b->next;
        lw_free(b);
    }
}

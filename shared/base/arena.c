/* Memory. One counted allocator under everything, and arenas on top of it: a result (workload,
 * cluster, plan) owns one arena and is freed at once. Invariants: what is handed out starts on a
 * 16-byte boundary, strings on any; a block is never moved, so pointers into an arena stay valid
 * until lw_arena_free. */
#include "shared/base/arena.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { FIRST_BYTES = 4 * 1024, BLOCK_BYTES = 64 * 1024, ALIGN = 16 };

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

/* --- large pages --- */

enum { PAGE = 4096, OWN_BYTES = 16 << 20, TOP_PAD = 32 << 20 };

static bool asks_large;            /* lw_alloc_setup was called */
static _Atomic uintptr_t heap_end; /* of what was asked for */

/* Whole mappings: the system does not grow one of which a part alone was asked for. */
static void ask_large(uintptr_t from, uintptr_t end)
{
#ifdef MADV_HUGEPAGE
    from &= ~(uintptr_t)(PAGE - 1);
    end = (end + PAGE - 1) & ~(uintptr_t)(PAGE - 1);
    madvise((void *)from, end - from, MADV_HUGEPAGE); /* advice: it may be refused */
#else
    (void)from, (void)end;
#endif
}

/* A block of its own from the system, or the heap where it has grown. */
static void *large(void *p, size_t size)
{
    if (!asks_large || !p)
        return p;
    if (size >= OWN_BYTES) {
        ask_large((uintptr_t)p, (uintptr_t)p + malloc_usable_size(p));
        return p;
    }
    uintptr_t end = (uintptr_t)sbrk(0), before = atomic_load(&heap_end);
    if (end > before && atomic_compare_exchange_strong(&heap_end, &before, end))
        ask_large(before, end);
    return p;
}

void lw_alloc_setup(void)
{
#ifdef M_MMAP_THRESHOLD
    mallopt(M_MMAP_THRESHOLD, OWN_BYTES);
    mallopt(M_TRIM_THRESHOLD, 256 << 20);
    mallopt(M_TOP_PAD, TOP_PAD);
    heap_end = (uintptr_t)sbrk(0);
    asks_large = true;
#endif
}

void lw_alloc_trim(void)
{
#ifdef M_MMAP_THRESHOLD
    if (!asks_large)
        return;
    malloc_trim(0);
    uintptr_t end = (uintptr_t)sbrk(0);
    if (end < atomic_load(&heap_end))
        atomic_store(&heap_end, end); /* what grows here again is asked for again */
#endif
}

void *lw_alloc(size_t size)
{
    return must_fail() ? NULL : counted(large(malloc(size ? size : 1), size));
}

void *lw_calloc(size_t n, size_t size)
{
    void *p = must_fail() ? NULL : calloc(n ? n : 1, size ? size : 1);

    return counted(large(p, n * size));
}

void *lw_realloc(void *p, size_t size)
{
    if (!p)
        return lw_alloc(size);
    return must_fail() ? NULL : large(realloc(p, size ? size : 1), size);
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
    size_t used, size; /* bytes after the header */
    _Alignas(ALIGN) unsigned char bytes[];
};

struct lw_arena_adopted {
    struct lw_arena_adopted *next;
    void *block;
};

static size_t aligned(size_t at, size_t align)
{
    return (at + align - 1) & ~(align - 1);
}

/* Blocks double, since of the arenas of thousands of small files most hold little. */
static size_t next_room(const struct lw_arena *a, size_t want)
{
    size_t room = a->head ? 2 * a->head->size : FIRST_BYTES;

    while (room < 4 * want)
        room *= 2;
    return room < BLOCK_BYTES ? room : BLOCK_BYTES;
}

static bool is_large(size_t want)
{
    return want > BLOCK_BYTES / 4;
}

/* A new block with room for `want`; one that is large is after the open one, and zeroed where that
 * is asked for: the system has zeroed pages. Others are zeroed as they are handed out. */
static struct lw_arena_block *add_block(struct lw_arena *a, size_t want, bool zeroed)
{
    bool large = is_large(want);
    size_t room = large ? want : next_room(a, want), size = sizeof(struct lw_arena_block) + room;
    struct lw_arena_block *b = large && zeroed ? lw_calloc(1, size) : lw_alloc(size);

    if (!b)
        return NULL;
    b->used = 0;
    b->size = room;
    if (a->head && large) {
        b->next = a->head->next;
        a->head->next = b;
    } else {
        b->next = a->head;
        a->head = b;
    }
    return b;
}

static void *take(struct lw_arena *a, size_t want, size_t align, bool zeroed)
{
    struct lw_arena_block *b = a->head;
    bool fits = b && aligned(b->used, align) <= b->size &&
                b->size - aligned(b->used, align) >= want;

    if (!fits)
        b = add_block(a, want, zeroed);
    if (!b)
        return NULL;
    size_t at = aligned(b->used, align);
    b->used = at + want;
    if (zeroed && (fits || !is_large(want)))
        memset(b->bytes + at, 0, want);
    return b->bytes + at;
}

static void *take_items(struct lw_arena *a, int64_t n, size_t size, bool zeroed)
{
    if (n < 0 || (size && (uint64_t)n > (SIZE_MAX - BLOCK_BYTES) / size))
        return NULL;
    return take(a, aligned((size_t)n * size, ALIGN), ALIGN, zeroed);
}

void *lw_arena_alloc(struct lw_arena *a, int64_t n, size_t size)
{
    return take_items(a, n, size, true);
}

void *lw_arena_room(struct lw_arena *a, int64_t n, size_t size)
{
    return take_items(a, n, size, false);
}

/* A block of many things is not as large as its first one. */
void lw_arena_release(struct lw_arena *a, void *items, int64_t n, size_t size)
{
    struct lw_arena_block **at = &a->head;

    while (*at && (*at)->bytes != (unsigned char *)items)
        at = &(*at)->next;
    struct lw_arena_block *b = *at;
    if (!b || b->size != aligned((size_t)n * size, ALIGN) || !is_large(b->size))
        return;
    *at = b->next;
    lw_free(b);
}

int lw_arena_adopt(struct lw_arena *a, void *block)
{
    struct lw_arena_adopted *node = lw_arena_alloc(a, 1, sizeof *node);

    if (!node)
        return -1;
    *node = (struct lw_arena_adopted){a->adopted, block};
    a->adopted = node;
    return 0;
}

char *lw_arena_strndup(struct lw_arena *a, const char *s, size_t len)
{
    char *p = len < SIZE_MAX - BLOCK_BYTES ? take(a, len + 1, 1, false) : NULL;

    if (!p)
        return NULL;
    memcpy(p, s, len);
    p[len] = 0;
    return p;
}

char *lw_arena_strdup(struct lw_arena *a, const char *s)
{
    return lw_arena_strndup(a, s, strlen(s));
}

void *lw_arena_more(struct lw_arena *a, void *items, int32_t n, size_t size)
{
    if (n != 0 && (n & (n - 1)) != 0)
        return items;
    void *grown = n < INT32_MAX / 2 ? lw_arena_alloc(a, n ? 2 * (int64_t)n : 1, size) : NULL;
    if (grown && n > 0)
        memcpy(grown, items, (size_t)n * size);
    return grown;
}

char *lw_arena_vprintf(struct lw_arena *a, const char *fmt, va_list ap)
{
    char most[256]; /* longer texts are printed twice */
    va_list again;

    va_copy(again, ap);
    int len = vsnprintf(most, sizeof most, fmt, again);
    va_end(again);
    char *text = len < 0 ? NULL : lw_arena_alloc(a, (int64_t)len + 1, 1);
    if (text && len < (int)sizeof most)
        memcpy(text, most, (size_t)len + 1);
    else if (text)
        vsnprintf(text, (size_t)len + 1, fmt, ap);
    return text;
}

char *lw_arena_printf(struct lw_arena *a, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    char *text = lw_arena_vprintf(a, fmt, ap);
    va_end(ap);
    return text;
}

void lw_arena_join(struct lw_arena *a, struct lw_arena *from)
{
    struct lw_arena_block **block = &a->head;
    struct lw_arena_adopted **adopted = &a->adopted;

    while (*block)
        block = &(*block)->next;
    while (*adopted)
        adopted = &(*adopted)->next;
    *block = from->head;
    *adopted = from->adopted;
    *from = (struct lw_arena){0};
}

void lw_arena_free(struct lw_arena *a)
{
    for (; a->adopted; a->adopted = a->adopted->next)
        lw_free(a->adopted->block);
    while (a->head) {
        struct lw_arena_block *b = a->head;
        a->head = b->next;
        lw_free(b);
    }
}

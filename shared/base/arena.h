#pragma once

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/err.h"

/* All memory of the project is taken here, so that a test can fail the n-th allocation. */
void *lw_alloc(size_t size);              /* uninitialised; NULL when memory runs out */
void *lw_calloc(size_t n, size_t size);   /* zeroed; NULL also when n * size overflows */
void *lw_realloc(void *p, size_t size);   /* as realloc: on NULL the old block lives on */
void lw_free(void *p);
/* Once, at the start of a program. Tables of 16 MiB and more come from the system and go back to it
 * whole, so that growing them moves pages and not bytes. Smaller memory is kept when it is freed:
 * a program that plans and predicts many times would else fault the same pages in each time. Large
 * pages are asked for, where the system gives them (Linux: "madvise" or "always" in
 * /sys/kernel/mm/transparent_hugepage/enabled): one fault for 2 MiB and not for 4 KiB. */
void lw_alloc_setup(void);
/* What is free goes back to the system, of a program that was set up: after tables of tens of MB
 * that others of their size do not follow. Taken again it is zeroed again. */
void lw_alloc_trim(void);

/* Make sure that *items (elements of `size` bytes, capacity *cap) has room for `need` elements;
 * grows by doubling. Returns 0, or -1 with everything unchanged when memory runs out. */
int lw_reserve(void *items, int64_t *cap, int64_t need, size_t size);

/* pointer = n zeroed things of what it points to, and room for n items of an array with a capacity:
 * without memory they return from the calling function, as LW_TRY does. */
#define LW_NEW(pointer, n, err)                                                         \
    LW_TRY(((pointer) = lw_calloc((size_t)(n), sizeof *(pointer))) != NULL ? LW_OK      \
                                                                         : lw_fail_nomem(err))
#define LW_ROOM(items, capacity, n, err)                                                    \
    LW_TRY(lw_reserve(&(items), &(capacity), n, sizeof *(items)) == 0 ? LW_OK : lw_fail_nomem(err))

/* Test hook: the n-th allocation from now fails (1 = the next), all later ones too; 0 = never.
 * lw_alloc_live() counts blocks taken and not given back. */
void lw_alloc_fail_at(int64_t n);
int64_t lw_alloc_live(void);

/* An arena hands out memory that is given back all at once. A zeroed arena is a valid empty one. */
struct lw_arena {
    struct lw_arena_block *head;
    struct lw_arena_adopted *adopted;
};

void *lw_arena_alloc(struct lw_arena *a, int64_t n, size_t size); /* zeroed, 16-byte aligned */
void *lw_arena_room(struct lw_arena *a, int64_t n, size_t size);  /* the same, not zeroed */
/* pointer = n of what it points to. Without memory it returns from the calling function, as LW_TRY
 * does. */
#define LW_TAKE(arena, pointer, n, err)                                             \
    LW_TRY(((pointer) = lw_arena_alloc(arena, n, sizeof *(pointer))) != NULL ? LW_OK \
                                                                       : lw_fail_nomem(err))
/* The same, not zeroed: for what is written before it is read. */
#define LW_TAKE_ROOM(arena, pointer, n, err)                                       \
    LW_TRY(((pointer) = lw_arena_room(arena, n, sizeof *(pointer))) != NULL ? LW_OK \
                                                                      : lw_fail_nomem(err))
char *lw_arena_strdup(struct lw_arena *a, const char *s);         /* NULL only without memory */
/* Take over a block of lw_alloc or lw_realloc: it goes with the arena. -1 without memory: it is
 * still the caller's. */
int lw_arena_adopt(struct lw_arena *a, void *block);
char *lw_arena_strndup(struct lw_arena *a, const char *s, size_t len);
/* A text as printf makes it; NULL only without memory. */
char *lw_arena_printf(struct lw_arena *a, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
char *lw_arena_vprintf(struct lw_arena *a, const char *fmt, va_list ap);
/* pointer = such a text, or return as LW_TAKE does. */
#define LW_PRINT(arena, pointer, err, ...)                                            \
    LW_TRY(((pointer) = lw_arena_printf(arena, __VA_ARGS__)) != NULL ? LW_OK          \
                                                                   : lw_fail_nomem(err))
/* Room for element n of an array of the arena that doubles when it is full: items, or a copy with
 * zeroed rest; NULL without memory. */
void *lw_arena_more(struct lw_arena *a, void *items, int32_t n, size_t size);
/* n items that fill a block alone, as tens of KB do, are given back at once; others stay. */
void lw_arena_release(struct lw_arena *a, void *items, int64_t n, size_t size);
/* What `from` holds goes with `a` from now on. */
void lw_arena_join(struct lw_arena *a, struct lw_arena *from);
void lw_arena_free(struct lw_arena *a);
/* The function `name` that frees a struct whose memory is all in its `arena`. */
#define LW_FREE_BY_ARENA(name, type) \
    void name(type *x)               \
    {                                \
        lw_arena_free(&x->arena);    \
        *x = (type){0};              \
    }

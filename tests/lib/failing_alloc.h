#pragma once

/* Calls whose allocations fail. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"

/* Repeats `call` with its n-th allocation failing, n = 1, 2, ..., until the call succeeds. Each
 * failure gives LW_ENOMEM, keeps no block and leaves the bytes of the lvalue `out` as they were.
 * `release` then frees what the call made. The call succeeds at an n above `least`. */
#define EACH_ALLOCATION_FAILS(least, call, out, release)                                           \
    do {                                                                                           \
        struct failing_alloc k_ = failing_alloc_begin(&(out), sizeof(out));                        \
        do                                                                                         \
            lw_alloc_fail_at(++k_.n);                                                              \
        while (failing_alloc_failed(&k_, call));                                                   \
        release;                                                                                   \
        failing_alloc_end(&k_, least);                                                             \
    } while (0)

/* The same for a call that frees what it makes. */
#define EACH_ALLOCATION_FAILS_IN(least, call)                                                      \
    do {                                                                                           \
        int none_ = 0;                                                                             \
        EACH_ALLOCATION_FAILS(least, call, none_, (void)none_);                                    \
    } while (0)

struct failing_alloc {
    int64_t n, live; /* blocks before the first call */
    const void *out;
    void *was; /* [size] */
    size_t size;
};

struct failing_alloc failing_alloc_begin(const void *out, size_t size);
bool failing_alloc_failed(struct failing_alloc *k, enum lw_status s);
void failing_alloc_end(struct failing_alloc *k, int64_t least);

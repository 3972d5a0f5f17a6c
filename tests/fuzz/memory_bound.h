/* What reading an input may take: at most so many times its size and a constant. Counted by the
 * sanitizer's hooks; without a sanitizer nothing is counted. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { BOUND_TIMES = 24, BOUND_BYTES = 4 << 20 };

extern int __sanitizer_install_malloc_and_free_hooks(void (*)(const volatile void *, size_t),
                                                     void (*)(const volatile void *))
    __attribute__((weak));
extern size_t __sanitizer_get_allocated_size(const volatile void *) __attribute__((weak));

static int64_t bound_live, bound_peak;

static void bound_taken(const volatile void *p, size_t n)
{
    (void)p;
    bound_live += (int64_t)n;
    bound_peak = bound_live > bound_peak ? bound_live : bound_peak;
}

static void bound_given(const volatile void *p)
{
    if (p)
        bound_live -= (int64_t)__sanitizer_get_allocated_size(p);
}

/* From here on memory counts from 0. */
static void bound_begin(void)
{
    static int installed;

    if (!installed && __sanitizer_install_malloc_and_free_hooks)
        installed = __sanitizer_install_malloc_and_free_hooks(bound_taken, bound_given);
    bound_live = bound_peak = 0;
}

static void bound_end(size_t input_bytes)
{
    int64_t most = (int64_t)input_bytes * BOUND_TIMES + BOUND_BYTES;

    if (bound_peak <= most)
        return;
    fprintf(stderr, "%zu bytes of input took %lld bytes of memory, at most %lld are stated\n",
            input_bytes, (long long)bound_peak, (long long)most);
    abort();
}

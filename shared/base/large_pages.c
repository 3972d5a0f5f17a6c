/* Asks the kernel for huge pages over the whole pages of a block (madvise, MADV_HUGEPAGE): a hint,
 * whose failure changes no result. */
#include "shared/base/large_pages.h"

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

void lw_alloc_large(void *p, size_t n)
{
#ifdef MADV_HUGEPAGE
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE),
              from = ((uintptr_t)p + page - 1) & ~(page - 1);

    if (n >= 4 << 20)
        (void)madvise((char *)p + (from - (uintptr_t)p), n - (from - (uintptr_t)p), MADV_HUGEPAGE);
#else
    (void)p;
    (void)n;
#endif
}

void lw_alloc_give_back(void *p, size_t n)
{
#ifdef MADV_DONTNEED
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = (uintptr_t)p,
              from = (begin + page - 1) & ~(page - 1), to = (begin + n) & ~(page - 1);

    if (to > from)
        (void)madvise((char *)p + (from - begin), to - from, MADV_DONTNEED);
#else
    (void)p;
    (void)n;
#endif
}

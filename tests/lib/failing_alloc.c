/* The n-th allocation fails: before and after each call, the blocks that live and the bytes of the
 * output are compared. */
#include "tests/lib/failing_alloc.h"

#include <stdlib.h>
#include <string.h>
#include "tests/lib/unit.h"

struct failing_alloc failing_alloc_begin(const void *out, size_t size)
{
    struct failing_alloc k = {0, lw_alloc_live(), out, malloc(size), size};

    assert_non_null(k.was);
    memcpy(k.was, out, size);
    return k;
}

bool failing_alloc_failed(struct failing_alloc *k, enum lw_status s)
{
    lw_alloc_fail_at(0);
    if (s == LW_OK)
        return false;
    if (s != LW_ENOMEM)
        fail_msg("allocation %lld fails: status %d", (long long)k->n, (int)s);
    assert_int_equal(lw_alloc_live(), k->live);
    assert_memory_equal(k->out, k->was, k->size);
    return true;
}

void failing_alloc_end(struct failing_alloc *k, int64_t least)
{
    assert_int_equal(lw_alloc_live(), k->live);
    if (k->n <= least)
        fail_msg("allocation %lld does not fail", (long long)k->n);
    free(k->was);
}

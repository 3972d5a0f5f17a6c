/* shared/base/arena.h's allocation within the MPI plugin, by way of the program that loaded it:
 * the program counts every block, and its tests can fail every one. Arenas are not used in the
 * plugin. */
#include "exec/mpi/mpi_host.h"

#include "shared/base/arena.h"

/* Lent by the program once, when it loads the plugin; allocation has no other way to it. */
static const struct exec_host *host;

void mpi_host_set(const struct exec_host *lent)
{
    host = lent;
}

void *lw_alloc(size_t size)
{
    return host->alloc(size);
}

void *lw_calloc(size_t n, size_t size)
{
    void *p = size && n > SIZE_MAX / size ? NULL : host->alloc(n * size);

    if (p)
        memset(p, 0, n * size);
    return p;
}

void *lw_realloc(void *p, size_t size)
{
    return host->realloc(p, size);
}

void lw_free(void *p)
{
    host->free(p);
}

int lw_reserve(void *items, int64_t *cap, int64_t need, size_t size)
{
    return host->reserve(items, cap, need, size);
}

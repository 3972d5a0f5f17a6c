/* The symbol of a plugin, and shared/base/arena.h's allocation within it, by way of the program
 * that loaded it: the program counts every block, and its tests can fail every one. Arenas are not
 * used in plugins. */
#include "exec/plugin/plugin_host.h"

#include "shared/base/arena.h"

/* Lent by the program once, when it loads the plugin; allocation has no other way to it. */
static const struct exec_host *host;

__attribute__((visibility("default"))) exec_plugin_fn lapwing_backend_v1;

const struct exec_backend *lapwing_backend_v1(const struct exec_host *lent)
{
    if (lent->api_version != EXEC_API_VERSION || lent->size != sizeof *lent)
        return NULL;
    host = lent;
    return &exec_plugin_backend;
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

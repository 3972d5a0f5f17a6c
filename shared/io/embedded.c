/* Look up a file that was built into the binary. */
#include "shared/io/embedded.h"

#include <string.h>

const struct lw_embedded *lw_embedded_find(const char *path)
{
    for (const struct lw_embedded *e = lw_embedded_files; e->path; e++)
        if (strcmp(e->path, path) == 0)
            return e;
    return NULL;
}

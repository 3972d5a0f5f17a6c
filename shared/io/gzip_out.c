/* A text of up to 4 MiB is one member, as lw_gzip_pack makes it. */
#include "shared/io/gzip_out.h"

#include <stdbool.h>
#include <string.h>

#include "shared/base/arena.h"
#include "shared/io/input.h"

enum { MEMBER_BYTES = 4 << 20 };

/* false: no memory. */
static bool pack_member(struct lw_gzip_out *g)
{
    struct lw_err err;
    char *member;
    size_t n;

    if (lw_gzip_pack(g->text, g->n_text, &member, &n, &err) != LW_OK)
        return false;
    int failed = lw_reserve(&g->packed, &g->room, (int64_t)(g->n_packed + n), 1);
    if (failed == 0) {
        memcpy(g->packed + g->n_packed, member, n);
        g->n_packed += n;
        g->n_text = 0;
    }
    lw_free(member);
    return failed == 0;
}

static ssize_t take(void *cookie, const char *text, size_t n)
{
    struct lw_gzip_out *g = cookie;

    for (size_t at = 0, k; at < n; at += k) {
        k = n - at < MEMBER_BYTES - g->n_text ? n - at : MEMBER_BYTES - g->n_text;
        memcpy(g->text + g->n_text, text + at, k);
        g->n_text += k;
        if (g->n_text == MEMBER_BYTES && !pack_member(g))
            return 0; /* an error of the stream */
    }
    return (ssize_t)n;
}

static void free_all(struct lw_gzip_out *g)
{
    lw_free(g->text);
    lw_free(g->packed);
    *g = (struct lw_gzip_out){0};
}

enum lw_status lw_gzip_out_begin(struct lw_gzip_out *g, struct lw_err *err)
{
    *g = (struct lw_gzip_out){.text = lw_alloc(MEMBER_BYTES)};
    g->file = g->text ? fopencookie(g, "w", (cookie_io_functions_t){.write = take}) : NULL;
    if (g->file)
        return LW_OK;
    free_all(g);
    return lw_fail_nomem(err);
}

enum lw_status lw_gzip_out_end(struct lw_gzip_out *g, char **packed, size_t *n, struct lw_err *err)
{
    bool failed = ferror(g->file) != 0;

    failed = fclose(g->file) != 0 || failed;
    if (!failed && (g->n_text > 0 || g->n_packed == 0))
        failed = !pack_member(g);
    if (failed) {
        free_all(g);
        return lw_fail_nomem(err);
    }
    *packed = g->packed;
    *n = g->n_packed;
    g->packed = NULL;
    free_all(g);
    return LW_OK;
}

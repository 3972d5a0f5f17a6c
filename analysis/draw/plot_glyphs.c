/* Texts of a picture in characters that its fonts have. */
#include "analysis/draw/plot_glyphs.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/arena.h"
#include "shared/base/shown_text.h"

enum { N_CODES = 0x110000, N_ASCII = 0x80 };

static void add_range(struct plot_glyphs *g, unsigned long from, unsigned long to)
{
    for (unsigned long c = from; c <= to && c < N_CODES; c++)
        g->has[c / 8] |= (uint8_t)(1 << c % 8);
}

/* ":charset=20-7e a0 3a3-525" */
static void add_font(struct plot_glyphs *g, const char *line)
{
    const char *s = strchr(line, '=');
    char *end;

    for (s = s ? s + 1 : line; *s; s = end) {
        unsigned long from = strtoul(s, &end, 16), to = from;
        if (end == s)
            return;
        if (*end == '-')
            to = strtoul(end + 1, &end, 16);
        add_range(g, from, to);
    }
}

enum lw_status plot_glyphs_read(FILE *list, struct plot_glyphs *g, struct lw_err *err)
{
    char *line = NULL;
    size_t room = 0;

    *g = (struct plot_glyphs){.has = lw_calloc(N_CODES / 8, 1)};
    if (!g->has)
        return lw_fail_nomem(err);
    rewind(list);
    while (getline(&line, &room, list) >= 0)
        add_font(g, line);
    free(line);
    return LW_OK;
}

void plot_glyphs_free(struct plot_glyphs *g)
{
    lw_free(g->has);
    g->has = NULL;
}

static bool has(const struct plot_glyphs *g, uint32_t code)
{
    return code < N_ASCII || !g->has || (code < N_CODES && g->has[code / 8] >> code % 8 & 1);
}

enum lw_status plot_glyphs_copy(const struct plot_glyphs *g, FILE *from, FILE *to, int64_t *n,
                                struct lw_err *err)
{
    char *line = NULL;
    size_t room = 0;

    *n = 0;
    rewind(from);
    while (getline(&line, &room, from) >= 0)
        for (const char *s = line; *s;) {
            const char *at = s;
            bool drawn = has(g, lw_utf8_next(&s));
            *n += !drawn;
            if (drawn)
                fwrite(at, 1, (size_t)(s - at), to);
            else
                fputc('?', to);
        }
    free(line);
    return ferror(from) || fflush(to) != 0
               ? lw_fail(err, LW_EIO, "cannot copy the plot script: %s", strerror(errno)) : LW_OK;
}

/* What launchers, loggers and terminals add to the text of a log. */
#include "traces/nccl_tests/log_text.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "shared/json/json.h"

static const char *skip_digits(const char *p, const char *end)
{
    while (p < end && isdigit((unsigned char)*p))
        p++;
    return p;
}

/* "[1,0]<stdout>:" of mpirun. */
static const char *mpirun_tag(const char *p, const char *end)
{
    static const char tag[] = "<stdout>:";
    const char *at = *p == '[' ? memmem(p, (size_t)(end - p), tag, strlen(tag)) : NULL;

    return at ? at + strlen(tag) : NULL;
}

/* "0: " of srun --label, which pads the number. */
static const char *srun_tag(const char *p, const char *end)
{
    while (p < end && *p == ' ')
        p++;
    const char *digits = p;
    p = skip_digits(p, end);
    return p > digits && end - p >= 2 && p[0] == ':' && p[1] == ' ' ? p + 2 : NULL;
}

/* "2025-03-14T15:09:26.535Z ", also with a space between date and time, and in brackets. */
static const char *time_tag(const char *p, const char *end)
{
    static const char form[] = "0000-00-00T00:00:00";
    bool bracket = *p == '[';

    p += bracket;
    if ((size_t)(end - p) <= strlen(form))
        return NULL;
    for (const char *f = form; *f; f++, p++)
        if (*f == '0' ? !isdigit((unsigned char)*p) : *p != *f && !(*f == 'T' && *p == ' '))
            return NULL;
    while (p < end && *p != ' ' && *p != ']')
        p++;
    p += bracket && p < end && *p == ']';
    return p < end && *p == ' ' ? p + 1 : NULL;
}

const char *bench_skip_tags(const char *line, size_t *len)
{
    static const char *(*const tags[])(const char *, const char *) = {mpirun_tag, srun_tag,
                                                                      time_tag};
    enum { N_TAGS = sizeof tags / sizeof *tags };
    const char *end = line + *len, *p = line, *after;

    for (int k = 0; k < N_TAGS && p < end; k++)
        if ((after = tags[k](p, end)) != NULL) {
            p = after;
            k = -1;
        }
    *len = (size_t)(end - p);
    return p;
}

/* ---- terminals ---- */

/* After a control sequence of ECMA-48 that begins at p: ESC, '[' and parameters or none,
 * intermediate bytes, and a final byte. */
static const char *after_escape(const char *p, const char *end)
{
    p++;
    if (p < end && *p == '[')
        for (p++; p < end && *p >= '0' && *p <= '?';)
            p++;
    while (p < end && *p >= ' ' && *p <= '/')
        p++;
    return p < end ? p + 1 : end;
}

enum lw_status bench_plain_text(struct lw_arena *arena, const struct lw_input *in,
                                struct lw_input *out, struct lw_err *err)
{
    const char *p = in->text, *end = p + in->len;
    size_t mark = in->len >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;

    *out = *in;
    out->text += mark;
    out->len -= mark;
    if (!memchr(p, '\x1b', in->len))
        return LW_OK;
    char *to = lw_arena_alloc(arena, (int64_t)in->len + LW_JSON_PADDING, 1);
    if (!to)
        return lw_fail_nomem(err);
    out->text = to;
    for (p += mark; p < end;) {
        if (*p == '\x1b')
            p = after_escape(p, end);
        else
            *to++ = *p++;
    }
    out->len = (size_t)(to - out->text);
    return LW_OK;
}

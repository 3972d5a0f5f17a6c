/* Error values. A message names the user's thing (file, place, value found, value allowed); the
 * status tells the caller what is left intact. Nothing here prints. A message quotes names that
 * others wrote, so it holds only what is safe to show (shared/base/shown_text.h). */
#include "shared/base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "shared/base/shown_text.h"

static void make_shown(struct lw_err *err)
{
    char raw[sizeof err->msg];

    memcpy(raw, err->msg, sizeof raw);
    lw_shown_text(err->msg, sizeof err->msg, raw);
}

enum lw_status lw_fail(struct lw_err *err, enum lw_status code, const char *fmt, ...)
{
    if (err) {
        va_list ap;
        va_start(ap, fmt);
        err->code = code;
        vsnprintf(err->msg, sizeof err->msg, fmt, ap);
        va_end(ap);
        make_shown(err);
    }
    return code;
}

enum lw_status lw_fail_at(struct lw_err *err, enum lw_status code, const char *name, int64_t line,
                          const char *fmt, ...)
{
    if (err) {
        va_list ap;
        int n = line > 0 ? snprintf(err->msg, sizeof err->msg, "%s:%lld: ", name, (long long)line)
                         : snprintf(err->msg, sizeof err->msg, "%s: ", name);
        err->code = code;
        if (n >= 0 && (size_t)n < sizeof err->msg) {
            va_start(ap, fmt);
            vsnprintf(err->msg + n, sizeof err->msg - (size_t)n, fmt, ap);
            va_end(ap);
        }
        make_shown(err);
    }
    return code;
}

enum lw_status lw_err_context(struct lw_err *err, enum lw_status status, const char *fmt, ...)
{
    char head[256], tail[sizeof err->msg];
    va_list ap;

    if (!err || status == LW_OK)
        return status;
    va_start(ap, fmt);
    vsnprintf(head, sizeof head, fmt, ap);
    va_end(ap);
    memcpy(tail, err->msg, sizeof tail);
    int n = snprintf(err->msg, sizeof err->msg, "%s: ", head);
    if (n > 0 && (size_t)n < sizeof err->msg)
        snprintf(err->msg + n, sizeof err->msg - (size_t)n, "%.*s",
                 (int)(sizeof err->msg - (size_t)n - 1), tail);
    make_shown(err);
    return status;
}

void lw_err_word(char *list, size_t size, const char *word)
{
    static const char more[] = ", ...";
    size_t n = strlen(list), need = (n > 0 ? 2 : 0) + strlen(word);

    if (n >= 3 && strcmp(list + n - 3, "...") == 0)
        return;
    if (n + need + sizeof more <= size)
        snprintf(list + n, size - n, "%s%s", n > 0 ? ", " : "", word);
    else
        snprintf(list + n, size - n, "%s", more);
}

enum lw_status lw_fail_nomem(struct lw_err *err)
{
    return lw_fail(err, LW_ENOMEM, "out of memory");
}

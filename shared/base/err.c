/* Error values. A message names the user's thing (file, place, value found, value allowed); the
 * status tells the caller what is left intact. Nothing here prints. */
#include "shared/base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum lw_status lw_fail(struct lw_err *err, enum lw_status code, const char *fmt, ...)
{
    if (err) {
        va_list ap;
        va_start(ap, fmt);
        err->code = code;
        vsnprintf(err->msg, sizeof err->msg, fmt, ap);
        va_end(ap);
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
        if (n < 0 || (size_t)n >= sizeof err->msg)
            return code;
        va_start(ap, fmt);
        vsnprintf(err->msg + n, sizeof err->msg - (size_t)n, fmt, ap);
        va_end(ap);
    }
    return code;
}

enum lw_status lw_err_context(struct lw_err *err, const char *fmt, ...)
{
    char head[256], tail[sizeof err->msg];
    va_list ap;

    if (!err)
        return LW_EINVAL;
    va_start(ap, fmt);
    vsnprintf(head, sizeof head, fmt, ap);
    va_end(ap);
    memcpy(tail, err->msg, sizeof tail);
    int n = snprintf(err->msg, sizeof err->msg, "%s: ", head);
    if (n > 0 && (size_t)n < sizeof err->msg)
        snprintf(err->msg + n, sizeof err->msg - (size_t)n, "%.*s",
                 (int)(sizeof err->msg - (size_t)n - 1), tail);
    return err->code;
}

enum lw_status lw_fail_nomem(struct lw_err *err)
{
    return lw_fail(err, LW_ENOMEM, "out of memory");
}

/* Output files that exist whole or not at all. The temporary file lies beside its target, so that
 * the rename stays within one file system. */
#include "shared/base/output.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared/base/arena.h"

static void forget(struct lw_output *out)
{
    lw_free(out->path);
    lw_free(out->temp);
    *out = (struct lw_output){0};
}

static char *copy_with(const char *path, const char *tail)
{
    size_t n = strlen(path), m = strlen(tail);
    char *p = lw_alloc(n + m + 1);

    if (p) {
        memcpy(p, path, n);
        memcpy(p + n, tail, m + 1);
    }
    return p;
}

/* A device or pipe cannot be renamed over: write to it in place. */
static bool is_special(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
}

enum lw_status lw_output_open(const char *path, struct lw_output *out, struct lw_err *err)
{
    *out = (struct lw_output){0};
    if (strcmp(path, "-") == 0) {
        out->file = stdout;
        return LW_OK;
    }
    out->path = copy_with(path, "");
    if (!out->path)
        return lw_fail_nomem(err);
    if (is_special(path)) {
        out->file = fopen(path, "w");
    } else {
        out->temp = copy_with(path, ".XXXXXX");
        if (!out->temp) {
            forget(out);
            return lw_fail_nomem(err);
        }
        int fd = mkstemp(out->temp);
        if (fd >= 0) {
            mode_t mask = umask(0);
            umask(mask);
            fchmod(fd, 0666 & ~mask);
            out->file = fdopen(fd, "w");
        }
    }
    if (!out->file) {
        enum lw_status s = lw_fail(err, LW_EIO, "%s: cannot write: %s", path, strerror(errno));
        forget(out);
        return s;
    }
    return LW_OK;
}

enum lw_status lw_output_commit(struct lw_output *out, struct lw_err *err)
{
    if (!out->path)
        return lw_stdout_close(err);
    errno = 0;
    bool bad = fflush(out->file) != 0 || ferror(out->file); /* the flush knows why */
    if (!bad && out->temp)
        bad = fsync(fileno(out->file)) != 0;
    int cause = errno;
    if (fclose(out->file) != 0 && !bad) {
        bad = true;
        cause = errno;
    }
    out->file = NULL;
    if (!bad && out->temp && rename(out->temp, out->path) != 0) {
        bad = true;
        cause = errno;
    }
    if (bad) {
        lw_fail(err, LW_EIO, "%s: cannot write: %s", out->path,
                strerror(cause ? cause : ENOSPC));
        lw_output_abort(out);
        return LW_EIO;
    }
    forget(out);
    return LW_OK;
}

void lw_output_abort(struct lw_output *out)
{
    if (!out->path)
        return;
    if (out->file)
        fclose(out->file);
    if (out->temp)
        unlink(out->temp);
    forget(out);
}

enum lw_status lw_stdout_close(struct lw_err *err)
{
    bool failed = ferror(stdout); /* what the cause was is forgotten by then */

    errno = 0;
    if (fflush(stdout) != 0 && errno)
        return lw_fail(err, LW_EIO, "standard output: %s", strerror(errno));
    if (failed || ferror(stdout))
        return lw_fail(err, LW_EIO, "standard output: not all of it could be written (no reader, "
                                    "or a full disk)");
    return LW_OK;
}

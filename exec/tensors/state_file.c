/* Saved states as files. What is no state is refused by its first bytes, before the rest is read.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "exec/tensors/state.h"
#include "shared/base/output.h"

static enum lw_status cannot_read(FILE *f, const char *file, struct lw_err *err)
{
    return ferror(f) ? lw_fail(err, LW_EIO, "%s: cannot read: %s", file, strerror(errno))
                     : lw_fail(err, LW_EIO, "%s: became shorter while it was read", file);
}

static enum lw_status read_all(FILE *f, const char *file, int64_t n, struct lw_exec_state *s,
                               struct lw_err *err)
{
    unsigned char head[LW_EXEC_STATE_HEAD] = {0};
    size_t first = n < LW_EXEC_STATE_HEAD ? (size_t)n : LW_EXEC_STATE_HEAD;

    if (fread(head, 1, first, f) != first)
        return cannot_read(f, file, err);
    LW_TRY(lw_exec_state_check_head(file, head, n, err));
    unsigned char *bytes = lw_alloc((size_t)n);
    if (!bytes)
        return lw_fail_nomem(err);
    memcpy(bytes, head, first);
    if (fread(bytes + first, 1, (size_t)n - first, f) == (size_t)n - first)
        return lw_exec_state_parse(file, bytes, n, s, err);
    lw_free(bytes);
    return cannot_read(f, file, err);
}

enum lw_status lw_exec_state_read(const char *file, struct lw_exec_state *s, struct lw_err *err)
{
    FILE *f = fopen(file, "rbe");
    struct stat st;

    if (!f)
        return lw_fail(err, LW_EIO, "%s: cannot open: %s", file, strerror(errno));
    enum lw_status status = fstat(fileno(f), &st) == 0 && S_ISREG(st.st_mode)
                                ? read_all(f, file, st.st_size, s, err)
                                : lw_fail(err, LW_EIO, "%s: is no regular file", file);
    fclose(f);
    return status;
}

enum lw_status lw_exec_state_write(const struct lw_exec_state *s, const char *file,
                                   struct lw_err *err)
{
    struct lw_output out;

    LW_TRY(lw_output_open(file, &out, err));
    fwrite(s->bytes, 1, (size_t)s->n_bytes, out.file); /* whether it could is asked by the commit */
    return lw_output_commit(&out, err);
}

enum lw_status lw_exec_state_can_write(const char *file, struct lw_err *err)
{
    struct lw_output out;

    LW_TRY(lw_output_open(file, &out, err));
    lw_output_abort(&out);
    return LW_OK;
}

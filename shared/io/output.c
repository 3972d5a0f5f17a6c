/* Output files are written completely or not at all. The temporary file lies in the folder of its
 * target, so that the rename stays within one file system. It has no name (O_TMPFILE) until it is
 * complete, so that even SIGKILL leaves nothing; a name it has is removed by the handler of the
 * other signals (shared/base/temp_names.h). */
#include "shared/io/output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared/base/arena.h"
#include "shared/base/temp_names.h"
#include "shared/io/input.h"
#include "shared/io/own_output.h"
#include "shared/io/used_files.h"

/* --- opening ---------------------------------------------------------------------------------- */

static void forget(struct lw_output *out)
{
    if (out->temp)
        lw_temp_forget(out->temp);
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

/* The descriptor that a name represents; -1: the name is of a file. */
static int descriptor_of(const char *path)
{
    static const char *const folders[] = {"/dev/fd/", "/proc/self/fd/"};
    char *end;

    if (strcmp(path, "/dev/stdout") == 0)
        return STDOUT_FILENO;
    if (strcmp(path, "/dev/stderr") == 0)
        return STDERR_FILENO;
    for (int i = 0; i < 2; i++)
        if (strncmp(path, folders[i], strlen(folders[i])) == 0) {
            long fd = strtol(path + strlen(folders[i]), &end, 10);
            return *end == '\0' && fd >= 0 && fd <= INT_MAX ? (int)fd : -1;
        }
    return -1;
}

bool lw_output_is_stdout(const char *path)
{
    return strcmp(path, "-") == 0 || descriptor_of(path) == STDOUT_FILENO;
}

static FILE *open_in_place(const char *path)
{
    int fd = descriptor_of(path);

    if (fd < 0)
        return fopen(path, "w");
    fd = dup(fd);
    return fd >= 0 ? fdopen(fd, "w") : NULL;
}

static int open_nameless(const char *path)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) + (slash == path) : 1;

    if (n >= sizeof folder || access("/proc/self/fd", X_OK) != 0)
        return -1;
    memcpy(folder, slash ? path : ".", n);
    folder[n] = '\0';
    return open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
}

static int open_named(struct lw_output *out)
{
    out->temp = copy_with(out->path, ".XXXXXX");
    if (!out->temp) {
        errno = ENOMEM;
        return -1;
    }
    int fd = mkstemp(out->temp);
    if (fd < 0)
        return -1;
    lw_temp_note(out->temp);
    mode_t mask = umask(0);
    umask(mask);
    fchmod(fd, 0666 & ~mask);
    return fd;
}

/* Who may read the old file may read the new one. */
static void keep_mode(int fd, const char *path)
{
    struct stat st;

    if (stat(path, &st) == 0 && S_ISREG(st.st_mode))
        fchmod(fd, st.st_mode & 0777);
}

static FILE *open_temporary(struct lw_output *out)
{
    int fd = open_nameless(out->path);

    if (fd >= 0) {
        out->temp = copy_with("", "");
        if (!out->temp) {
            close(fd);
            errno = ENOMEM;
            return NULL;
        }
    } else {
        fd = open_named(out);
    }
    if (fd < 0)
        return NULL;
    keep_mode(fd, out->path);
    return fdopen(fd, "w");
}

/* The file of an output that is not standard output. */
static enum lw_status open_file(const char *path, const char *kind, struct lw_output *out,
                                struct lw_err *err)
{
    char real[PATH_MAX];
    bool only_same; /* asked again when it is complete */

    if (!*path)
        return lw_fail(err, LW_EINVAL, "an output file has an empty name: give it one, or '-'");
    out->in_place = descriptor_of(path) >= 0 || lw_is_device_or_pipe(path);
    if (!out->in_place)
        LW_TRY(lw_resolve_links(path, real, sizeof real, err));
    if (!out->in_place && (lw_is_database(real) || lw_belongs_to_database(real)))
        return lw_fail(err, LW_EINVAL, "%s: %s a database, which an output does not replace: name "
                                       "another file, or delete it first", path,
                       lw_is_database(real) ? "is" : "belongs to");
    if (!out->in_place)
        LW_TRY(lw_may_replace(path, real, kind, &only_same, err));
    out->kind = kind;
    out->path = copy_with(out->in_place ? path : real, "");
    if (!out->path)
        return lw_fail_nomem(err);
    out->file = out->in_place ? open_in_place(path) : open_temporary(out);
    if (out->file)
        return LW_OK;
    enum lw_status s = errno == ENOMEM
                           ? lw_fail_nomem(err)
                           : lw_fail(err, LW_EIO, "%s: cannot write: %s", path, strerror(errno));
    lw_output_abort(out);
    return s;
}

enum lw_status lw_output_open(const char *path, const char *kind, struct lw_output *out,
                              struct lw_err *err)
{
    *out = (struct lw_output){0};
    if (lw_output_is_stdout(path)) {
        out->file = stdout;
        return LW_OK;
    }
    LW_TRY(lw_used_file(path, LW_USE_OUTPUT, err));
    return open_file(path, kind, out, err);
}

enum lw_status lw_output_try(const char *path, const char *kind, struct lw_err *err)
{
    struct lw_output out = {0};

    if (lw_output_is_stdout(path) || descriptor_of(path) >= 0 || lw_is_device_or_pipe(path))
        return LW_OK;
    LW_TRY(open_file(path, kind, &out, err));
    lw_output_abort(&out);
    return LW_OK;
}

/* --- the end ---------------------------------------------------------------------------------- */

/* A name in the target's folder for a complete file that has none. */
static int give_name(struct lw_output *out, int fd)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ012345678901";
    char self[40];
    unsigned char drawn[6];

    snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    for (int i = 0; i < 100; i++) {
        if (getrandom(drawn, sizeof drawn, 0) != (ssize_t)sizeof drawn)
            return -1;
        char *name = copy_with(out->path, ".XXXXXX");
        if (!name) {
            errno = ENOMEM;
            return -1;
        }
        for (size_t k = 0; k < sizeof drawn; k++)
            name[strlen(out->path) + 1 + k] = letters[drawn[k] % 64];
        lw_free(out->temp);
        out->temp = name;
        lw_temp_note(name);
        if (linkat(AT_FDCWD, self, AT_FDCWD, name, AT_SYMLINK_FOLLOW) == 0)
            return 0;
        lw_temp_forget(name);
        if (errno != EEXIST)
            break;
        name[0] = '\0'; /* another file's */
    }
    out->temp[0] = '\0';
    return -1;
}

/* 0, or the errno of the first step that failed: all is written, whole and on the disk. */
static int finish_writing(struct lw_output *out)
{
    errno = 0;
    bool bad = fflush(out->file) != 0 || ferror(out->file); /* the flush knows why */
    if (!bad && !out->in_place)
        bad = lw_put_content_hash(fileno(out->file), out->kind) != 0;
    if (!bad && !out->in_place)
        bad = fsync(fileno(out->file)) != 0;
    return bad ? (errno ? errno : ENOSPC) : 0;
}

/* The file at its place is looked at again: it may have changed since the output was opened. */
static enum lw_status check_old_file(const struct lw_output *out, struct lw_err *err)
{
    bool only_same;

    LW_TRY(lw_may_replace(out->path, out->path, out->kind, &only_same, err));
    if (only_same && !lw_same_bytes(fileno(out->file), out->path))
        return lw_fail(err, LW_EINVAL, "%s: exists and holds other lines, maybe changed ones: name "
                                       "another file, or replace it with --force", out->path);
    return LW_OK;
}

/* 0, or the errno of the first step that failed; the stream is closed. */
static int move_into_place(struct lw_output *out)
{
    FILE *f = out->file;
    bool bad = out->temp && !out->temp[0] && give_name(out, fileno(f)) != 0;
    int cause = bad ? errno : 0;

    out->file = NULL;
    if (fclose(f) != 0 && !cause)
        cause = errno;
    if (!cause && !out->in_place && rename(out->temp, out->path) != 0)
        cause = errno;
    return cause;
}

enum lw_status lw_output_commit(struct lw_output *out, struct lw_err *err)
{
    if (!out->path)
        return lw_stdout_close(err);
    enum lw_status s = LW_OK;
    int cause = finish_writing(out);
    if (!cause && !out->in_place)
        s = check_old_file(out, err);
    if (!cause && s == LW_OK)
        cause = move_into_place(out);
    if (cause)
        s = cause == ENOMEM ? lw_fail_nomem(err)
                            : lw_fail(err, LW_EIO, "%s: cannot write: %s", out->path,
                                      strerror(cause));
    if (s != LW_OK)
        lw_output_abort(out);
    else
        forget(out);
    return s;
}

void lw_output_abort(struct lw_output *out)
{
    if (!out->path)
        return;
    if (out->file)
        fclose(out->file);
    if (out->temp && out->temp[0])
        unlink(out->temp);
    forget(out);
}

/* The reader of a pipe has closed it: `lapwing ... | head` has seen enough. */
static bool reader_has_left(void)
{
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
    struct stat st;

    return fstat(STDOUT_FILENO, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode)) &&
           poll(&out, 1, 0) > 0 && (out.revents & (POLLERR | POLLHUP));
}

enum lw_status lw_stdout_close(struct lw_err *err)
{
    bool failed = ferror(stdout); /* what the cause was is forgotten by then */

    errno = 0;
    bool flushed = fflush(stdout) == 0;
    if ((!flushed || failed || ferror(stdout)) && reader_has_left())
        return LW_OK;
    if (!flushed && errno)
        return lw_fail(err, LW_EIO, "standard output: %s", strerror(errno));
    if (failed || ferror(stdout))
        return lw_fail(err, LW_EIO, "standard output: not all of it could be written (no reader, "
                                    "or a full disk)");
    return LW_OK;
}

/* The files of this process. Two are the same when they have one inode, or, where one does not
 * exist yet, one folder and one name in it. */
#include "shared/io/used_files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared/base/arena.h"

enum { MOST_LINKS = 40 };

struct used {
    enum lw_use use;
    dev_t device;
    ino_t inode;      /* 0: it did not exist */
    const char *name, *at; /* as it was given; its real place */
};

static struct {
    pthread_mutex_t mutex;
    bool on;
    struct used *files;
    int64_t n, room;
} noted = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* Where a relative link that lies at `path` leads. */
static int join(char *out, size_t room, const char *path, const char *link)
{
    const char *slash = strrchr(path, '/');

    if (link[0] == '/' || !slash)
        return snprintf(out, room, "%s", link);
    return snprintf(out, room, "%.*s/%s", (int)(slash - path), path, link);
}

enum lw_status lw_resolve_links(const char *path, char *out, int room, struct lw_err *err)
{
    char link[PATH_MAX], next[PATH_MAX];
    ssize_t n;

    if (snprintf(out, (size_t)room, "%s", path) >= room)
        return lw_fail(err, LW_EIO, "%s: cannot write: %s", path, strerror(ENAMETOOLONG));
    for (int i = 0; i < MOST_LINKS; i++) {
        n = readlink(out, link, sizeof link - 1);
        if (n < 0)
            return LW_OK;
        link[n] = '\0';
        int len = join(next, sizeof next, out, link);
        if (len >= (int)sizeof next || snprintf(out, (size_t)room, "%s", next) >= room)
            return lw_fail(err, LW_EIO, "%s: cannot write: %s", path, strerror(ENAMETOOLONG));
    }
    return lw_fail(err, LW_EIO, "%s: cannot write: %s", path, strerror(ELOOP));
}

/* The folder's real path and the name in it; "" where the folder does not exist. */
static enum lw_status real_place(const char *path, char at[PATH_MAX], struct lw_err *err)
{
    char folder[PATH_MAX], real[PATH_MAX];
    const char *name;

    LW_TRY(lw_resolve_links(path, folder, sizeof folder, err));
    char *slash = strrchr(folder, '/');
    name = slash ? path + strlen(path) : path;
    at[0] = '\0';
    if (slash) {
        name = slash + 1;
        if (!realpath(slash == folder ? "/" : (*slash = '\0', folder), real))
            return LW_OK;
    } else {
        name = folder;
        if (!realpath(".", real))
            return LW_OK;
    }
    if (snprintf(at, PATH_MAX, "%s/%s", real, name) >= PATH_MAX)
        at[0] = '\0';
    return LW_OK;
}

static bool is_stream(enum lw_use use)
{
    return use == LW_USE_STDOUT || use == LW_USE_STDERR;
}

/* Both standard streams may go to one file. */
static bool clash(enum lw_use a, enum lw_use b)
{
    return a == LW_USE_OUTPUT || b == LW_USE_OUTPUT ||
           (a != b && !(is_stream(a) && is_stream(b)));
}

static bool same(const struct used *a, const struct used *b)
{
    return (a->inode && a->inode == b->inode && a->device == b->device) ||
           (a->at[0] && strcmp(a->at, b->at) == 0);
}

/* Nothing more of this command reaches the file that the shell opened, neither buffered results nor
 * the message: standard error goes to standard output, which comes first in the list. */
static void redirect_stream(enum lw_use use)
{
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

    dup2(use == LW_USE_STDOUT ? null : STDOUT_FILENO,
         use == LW_USE_STDOUT ? STDOUT_FILENO : STDERR_FILENO);
    close(null);
}

static enum lw_status refuse(const struct used *a, const struct used *b, struct lw_err *err)
{
    static const char *const words[] = {"an input", "the database", "an output",
                                        "standard output", "standard error"};

    for (int64_t i = 0; i < noted.n; i++)
        if (is_stream(noted.files[i].use) && same(&noted.files[i], b))
            redirect_stream(noted.files[i].use);
    if (is_stream(a->use))
        return lw_fail(err, LW_EINVAL, "%s: %s is redirected to %s of this command; redirect it to "
                                       "another file", b->name, words[a->use],
                       b->use == LW_USE_OUTPUT ? "-o" : words[b->use]);
    return lw_fail(err, LW_EINVAL, "%s: %s and %s of one command are the same file (%s); give the "
                                   "output another name",
                   b->name, words[a->use], b->use == a->use ? "another output" : words[b->use],
                   a->name);
}

/* The mutex is held; f->name and f->at belong to the list on success. */
static enum lw_status add(const struct used *f, struct lw_err *err)
{
    for (int64_t i = 0; i < noted.n; i++)
        if (clash(noted.files[i].use, f->use) && same(&noted.files[i], f))
            return refuse(&noted.files[i], f, err);
    LW_ROOM(noted.files, noted.room, noted.n + 1, err);
    noted.files[noted.n++] = *f;
    return LW_OK;
}

static char *copy_of(const char *text)
{
    char *p = lw_alloc(strlen(text) + 1);
    return p ? strcpy(p, text) : NULL;
}

enum lw_status lw_used_file(const char *path, enum lw_use use, struct lw_err *err)
{
    char at[PATH_MAX];
    struct stat st;
    struct used f = {.use = use};

    if (!noted.on || strcmp(path, "-") == 0)
        return LW_OK;
    if (stat(path, &st) == 0) {
        if (!S_ISREG(st.st_mode))
            return LW_OK;
        f.device = st.st_dev;
        f.inode = st.st_ino;
    }
    LW_TRY(real_place(path, at, err));
    char *name = copy_of(path), *place = copy_of(at);
    f.name = name;
    f.at = place;
    pthread_mutex_lock(&noted.mutex);
    enum lw_status s = f.name && f.at ? add(&f, err) : lw_fail_nomem(err);
    pthread_mutex_unlock(&noted.mutex);
    if (s != LW_OK) {
        lw_free(name);
        lw_free(place);
    }
    return s;
}

void lw_used_file_again(const char *path)
{
    pthread_mutex_lock(&noted.mutex);
    for (int64_t i = noted.n - 1; i >= 0; i--)
        if (noted.files[i].use == LW_USE_OUTPUT && strcmp(noted.files[i].name, path) == 0) {
            lw_free((char *)noted.files[i].name);
            lw_free((char *)noted.files[i].at);
            noted.files[i] = noted.files[--noted.n];
        }
    pthread_mutex_unlock(&noted.mutex);
}

void lw_used_files_begin(void)
{
    struct used f = {.use = LW_USE_STDOUT};
    struct stat st;

    noted.on = true;
    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++, f.use = LW_USE_STDERR) {
        if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
            continue;
        f.device = st.st_dev;
        f.inode = st.st_ino;
        f.name = f.at = "";
        (void)add(&f, NULL);
    }
}

/* From operands to recordings. Sidecars lie beside their traces and are found from them; hidden
 * files are not taken. Everything else in a folder is: a file that is no recording is refused by
 * its name, not left out. Folders in a folder are not entered. */
#include "traces/import/trace_names.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared/base/sort.h"
#include "shared/numbers/order.h"
#include "traces/nsys/import_nsys.h"

enum { MOST_NAMES = 1 << 20 };

struct list {
    struct traces_names *t;
    int64_t cap;
    char **v;
    int64_t n;
};

static enum lw_status add(struct list *l, const char *name, struct lw_err *err)
{
    char *copy = lw_arena_strdup(&l->t->arena, name);

    if (!copy)
        return lw_fail_nomem(err);
    if (l->n >= MOST_NAMES)
        return lw_fail(err, LW_EINVAL, "%s: more than %d recordings", name, MOST_NAMES);
    LW_ROOM(l->v, l->cap, l->n + 1, err);
    l->v[l->n++] = copy;
    return LW_OK;
}

/* Numbers in names by value, the rest by bytes. */
static int natural(const void *pa, const void *pb)
{
    const char *a = *(char *const *)pa, *b = *(char *const *)pb;

    while (*a && *b) {
        if (isdigit((unsigned char)*a) && isdigit((unsigned char)*b)) {
            a += strspn(a, "0");
            b += strspn(b, "0");
            size_t n = strspn(a, "0123456789"), m = strspn(b, "0123456789");
            int c = n != m ? (n < m ? -1 : 1) : strncmp(a, b, n);
            if (c != 0)
                return c;
            a += n;
            b += m;
        } else if (*a != *b) {
            return (unsigned char)*a - (unsigned char)*b;
        } else {
            a++;
            b++;
        }
    }
    return *a || *b ? (unsigned char)*a - (unsigned char)*b
                    : strcmp(*(char *const *)pa, *(char *const *)pb);
}

/* ---- parts of reports ---- */

size_t traces_name_part(const char *name, int *part)
{
    const char *mark = strrchr(name, '#');

    *part = 0;
    if (!mark || !mark[1] || strlen(mark + 1) > 6 ||
        strspn(mark + 1, "0123456789") != strlen(mark + 1) || access(name, F_OK) == 0)
        return strlen(name);
    *part = atoi(mark + 1);
    return *part > 0 ? (size_t)(mark - name) : strlen(name);
}

static bool is_database(const char *name)
{
    char head[16] = "";
    struct stat s;
    FILE *f = stat(name, &s) == 0 && S_ISREG(s.st_mode) ? fopen(name, "rb") : NULL;

    if (!f)
        return false;
    bool is = fread(head, 1, sizeof head, f) == sizeof head &&
              memcmp(head, "SQLite format 3", sizeof head) == 0;
    fclose(f);
    return is;
}

/* What is wrong with a database is said when it is read. */
static enum lw_status add_file(struct list *l, const char *name, struct lw_err *err)
{
    struct lw_err unread = {0};
    int n = 0;

    if (!is_database(name) || lw_nsys_count(name, &n, &unread) != LW_OK || n < 2)
        return add(l, name, err);
    for (int i = 1; i <= n; i++) {
        char *part = lw_arena_printf(&l->t->arena, "%s#%d", name, i);
        if (!part)
            return lw_fail_nomem(err);
        LW_TRY(add(l, part, err));
    }
    return LW_OK;
}

/* ---- folders and patterns ---- */

static bool ends_in(const char *name, const char *tail)
{
    size_t n = strlen(name), k = strlen(tail);

    return n >= k && strcmp(name + n - k, tail) == 0;
}

static bool is_sidecar(const char *name)
{
    return ends_in(name, ".sidecar.json");
}

static enum lw_status list_folder(const char *folder, struct list *l, struct lw_err *err)
{
    DIR *d = opendir(folder);
    size_t len = strlen(folder);
    enum lw_status status = LW_OK;

    if (!d)
        return lw_fail(err, LW_EIO, "%s: %s", folder, strerror(errno));
    for (struct dirent *e; status == LW_OK && (e = readdir(d)) != NULL;) {
        struct stat s;
        if (e->d_name[0] == '.' || is_sidecar(e->d_name) || ends_in(e->d_name, ".md"))
            continue; /* what is about recordings is none */
        char *name = lw_arena_printf(&l->t->arena, "%s%s%s", folder,
                                     len > 0 && folder[len - 1] == '/' ? "" : "/", e->d_name);
        if (!name)
            status = lw_fail_nomem(err);
        else if (stat(name, &s) != 0 || !S_ISDIR(s.st_mode))
            status = add(l, name, err);
    }
    closedir(d);
    return status;
}

static enum lw_status add_sorted(struct list *from, struct list *to, struct lw_err *err)
{
    lw_sort(from->v, from->n, natural);
    for (int64_t i = 0; i < from->n; i++)
        LW_TRY(add_file(to, from->v[i], err));
    return LW_OK;
}

static enum lw_status add_folder(const char *folder, struct list *l, struct lw_err *err)
{
    struct list in = {.t = l->t};
    enum lw_status status = list_folder(folder, &in, err);

    if (status == LW_OK && in.n == 0)
        status = lw_fail(err, LW_EINVAL, "%s: a folder without files", folder);
    if (status == LW_OK)
        status = add_sorted(&in, l, err);
    lw_free(in.v);
    return status;
}

static enum lw_status add_pattern(const char *pattern, struct list *l, struct lw_err *err)
{
    struct list in = {.t = l->t};
    glob_t g = {0};
    int rc = glob(pattern, GLOB_NOSORT, NULL, &g);
    enum lw_status status = rc == 0               ? LW_OK
                            : rc == GLOB_NOSPACE ? lw_fail_nomem(err)
                                                 : lw_fail(err, LW_EINVAL, "%s: no file matches",
                                                           pattern);

    for (size_t i = 0; status == LW_OK && i < g.gl_pathc; i++)
        if (!is_sidecar(g.gl_pathv[i]))
            status = add(&in, g.gl_pathv[i], err);
    globfree(&g);
    if (status == LW_OK)
        status = add_sorted(&in, l, err);
    lw_free(in.v);
    return status;
}

static enum lw_status add_operand(const char *name, struct list *l, struct lw_err *err)
{
    struct stat s;

    if (strcmp(name, "-") == 0)
        return add(l, name, err);
    if (stat(name, &s) == 0)
        return S_ISDIR(s.st_mode) ? add_folder(name, l, err) : add_file(l, name, err);
    return strpbrk(name, "*?[") ? add_pattern(name, l, err) : add(l, name, err);
}

enum lw_status traces_names_find(char **operands, int n, struct traces_names *out,
                                 struct lw_err *err)
{
    struct traces_names t = {0};
    struct list l = {.t = &t};
    enum lw_status status = LW_OK;

    for (int i = 0; i < n && status == LW_OK; i++)
        status = add_operand(operands[i], &l, err);
    if (status == LW_OK && l.n > 0) {
        t.names = lw_arena_alloc(&t.arena, l.n, sizeof *t.names);
        status = t.names ? LW_OK : lw_fail_nomem(err);
        if (status == LW_OK)
            memcpy(t.names, l.v, (size_t)l.n * sizeof *l.v);
        t.n = (int)l.n;
    }
    lw_free(l.v);
    LW_GIVE(status, out, t, traces_names_free(&t));
}

LW_FREE_BY_ARENA(traces_names_free, struct traces_names)

/* ---- a file twice ---- */

struct same {
    int64_t device, inode, part, index;
};

LW_COMPARATOR(by_file, struct same, a->device, b->device, a->inode, b->inode, a->part, b->part,
              a->index, b->index)

/* A regular file that is there; what is wrong with others is said when they are read. */
static bool identify(const char *name, struct same *x)
{
    char file[4096];
    struct stat s;
    int part;
    size_t n = traces_name_part(name, &part);

    if (n >= sizeof file)
        return false;
    memcpy(file, name, n);
    file[n] = '\0';
    if (stat(file, &s) != 0 || !S_ISREG(s.st_mode))
        return false;
    x->device = (int64_t)s.st_dev;
    x->inode = (int64_t)s.st_ino;
    x->part = part;
    return true;
}

enum lw_status traces_names_once(const struct traces_names *t, struct lw_err *err)
{
    struct same *v = lw_calloc((size_t)t->n, sizeof *v);
    enum lw_status status = v ? LW_OK : lw_fail_nomem(err);
    int64_t n = 0;

    for (int i = 0; v && i < t->n; i++) {
        v[n].index = i;
        n += identify(t->names[i], &v[n]);
    }
    lw_sort(v, n, by_file);
    for (int64_t i = 1; status == LW_OK && i < n; i++)
        if (v[i].device == v[i - 1].device && v[i].inode == v[i - 1].inode &&
            v[i].part == v[i - 1].part)
            status = lw_fail(err, LW_EINVAL, "%.150s and %.150s are one file: give each rank once",
                             t->names[v[i - 1].index], t->names[v[i].index]);
    lw_free(v);
    return status;
}

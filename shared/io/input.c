/* Read a whole file, unpacking gzip. The size of a gzip member is not known beforehand (its
 * trailer holds it modulo 2^32), so the output buffer doubles until libdeflate is content;
 * members that follow each other are concatenated, as gzip does. What it refuses is looked at
 * once more, slowly (shared/io/gzip_damage.h), for the reason and, where a caller salvages,
 * for the text before it. */
#include "shared/io/input.h"

#include <errno.h>
#include <fcntl.h>
#include <libdeflate.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared/base/arena.h"
#include "shared/base/large_pages.h"
#include "shared/base/parallel.h"
#include "shared/io/gzip_damage.h"
#include "shared/io/mapped_file.h"
#include "shared/base/hash.h"
#include "shared/base/host_memory.h"
#include "shared/json/json.h"
#include "shared/io/used_files.h"

/* What compresses better than this is refused: recordings and plans unpack to 10 to 40 times. */
enum { MOST_TIMES = 100 };
enum { FAST = 3 }; /* compression level */
#define HASHED_AT_ONCE ((size_t)4 << 20)
#define ANY_SIZE ((size_t)64 << 20) /* smaller is neither refused nor read by several threads */
#define MOST_PIPED ((size_t)256 << 20) /* of a pipe, which may never end */

static enum lw_status make_room(struct lw_gzip_text *b, size_t room, struct lw_err *err)
{
    char *p = lw_realloc(b->text, room + LW_JSON_PADDING);

    if (!p)
        return lw_fail_nomem(err);
    lw_alloc_large(p, room);
    b->text = p;
    b->room = room;
    return LW_OK;
}

static bool is_null_device(const struct stat *st)
{
    struct stat null;

    return stat("/dev/null", &null) == 0 && null.st_rdev == st->st_rdev;
}

/* ---- a large file: its stretches on all cores ---- */

struct stretches {
    int fd;
    char *to;
    size_t len, size; /* of all, and of each but the last */
};

/* What cannot be read, or is no longer there, is left to the reader of the rest. */
static enum lw_status read_stretch(void *ctx, int i, const struct lw_progress *p,
                                   struct lw_err *err)
{
    const struct stretches *x = ctx;
    size_t at = (size_t)i * x->size, end = at + x->size < x->len ? at + x->size : x->len;

    (void)p;
    while (at < end) {
        ssize_t got = pread(x->fd, x->to + at, end - at, (off_t)at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return lw_fail(err, LW_EIO, "byte %zu", at);
        at += (size_t)got;
    }
    return LW_OK;
}

/* Reads `len` bytes from the beginning and stands behind them, or reads nothing. */
static void slurp_beginning(int fd, size_t len, struct lw_gzip_text *b)
{
    int n = lw_n_cores();
    struct stretches x = {fd, b->text, len, (len + (size_t)n - 1) / (size_t)n};
    struct lw_parallel_work work = {read_stretch, &x, n, "reading", NULL, n};
    struct lw_err unused = {0};

    if (n > 1 && len >= ANY_SIZE && lseek(fd, 0, SEEK_CUR) == 0 &&
        lw_parallel(&work, &unused) == LW_OK && lseek(fd, (off_t)len, SEEK_SET) == (off_t)len)
        b->len = len;
}

static enum lw_status check_room(const char *name, const struct stat *st, struct lw_err *err)
{
    if (S_ISREG(st->st_mode) && st->st_size > (off_t)ANY_SIZE &&
        (double)st->st_size > lw_host_memory_left())
        return lw_fail(err, LW_EIO, "%s: %lld bytes, more than the memory that is left", name,
                       (long long)st->st_size);
    return LW_OK;
}

/* A large file as it lies in the system's memory; false: it is to be read. */
static bool map_large(const char *name, int fd, size_t max, struct lw_input *in)
{
    struct stat st;

    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size < (off_t)ANY_SIZE ||
        (max && (size_t)st.st_size > max) || lseek(fd, 0, SEEK_CUR) != 0 ||
        check_room(name, &st, NULL) != LW_OK)
        return false;
    char *text = lw_map_file(fd, name, (size_t)st.st_size, LW_JSON_PADDING);
    if (!text)
        return false;
    *in = (struct lw_input){.name = name, .text = text, .len = (size_t)st.st_size, .mapped = true};
    return true;
}

/* A stretch at a time, so that no more of the file than that is held. */
static enum lw_status hash_mapped(struct lw_input *in, struct lw_err *err)
{
    struct lw_hash *h = lw_hash_new();

    if (!h)
        return lw_fail_nomem(err);
    for (size_t at = 0, n; at < in->len; at += n) {
        n = in->len - at < HASHED_AT_ONCE ? in->len - at : HASHED_AT_ONCE;
        lw_hash_bytes(h, in->text + at, n);
        lw_alloc_give_back(in->text + at, n);
    }
    lw_hash_finish(h, in->hash);
    return LW_OK;
}

static enum lw_status slurp(const char *name, int fd, size_t max, struct lw_gzip_text *b,
                            struct lw_err *err)
{
    struct stat st = {0};
    bool known = fstat(fd, &st) == 0, piped = known && !S_ISREG(st.st_mode);

    if (S_ISDIR(st.st_mode))
        return lw_fail(err, LW_EIO, "%s: is a directory", name);
    if (S_ISBLK(st.st_mode) || (S_ISCHR(st.st_mode) && !isatty(fd) && !is_null_device(&st)))
        return lw_fail(err, LW_EIO, "%s: is a device; give a file or a pipe", name);
    LW_TRY(check_room(name, &st, err));
    size_t first = st.st_size > 0 ? (size_t)st.st_size + 1 : 1 << 16;
    LW_TRY(make_room(b, first, err));
    if (S_ISREG(st.st_mode) && !(max && (size_t)st.st_size > max))
        slurp_beginning(fd, (size_t)st.st_size, b);
    for (;;) {
        if (b->len == b->room)
            LW_TRY(make_room(b, b->len == MOST_PIPED ? b->room + 1 : b->room * 2, err));
        ssize_t got = read(fd, b->text + b->len, b->room - b->len);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return lw_fail(err, LW_EIO, "%s: cannot read: %s", name, strerror(errno));
        if (got == 0)
            return LW_OK;
        b->len += (size_t)got;
        if (piped && b->len > MOST_PIPED)
            return lw_fail(err, LW_EIO, "%s: no end after %zu bytes, the most that is read from a "
                                        "pipe or a terminal; give a file", name, MOST_PIPED);
        if (max && b->len > max)
            return lw_fail(err, LW_EIO, "%s: larger than %zu bytes", name, max);
    }
}

static bool is_gzip(const char *text, size_t len)
{
    return len >= 2 && (unsigned char)text[0] == 0x1f && (unsigned char)text[1] == 0x8b;
}

/* A member that libdeflate refuses: its error, or with `damage` the text before the damage. */
static enum lw_status take_damaged(const char *name, const struct lw_gzip_text *packed, size_t from,
                                   size_t max, struct lw_gzip_text *out, struct lw_err *damage,
                                   struct lw_err *err)
{
    struct lw_err why = {0};
    enum lw_status s = lw_gzip_damage(name, packed->text, packed->len, from, max,
                                      damage ? out : NULL, &why, err);

    if (s == LW_OK && damage)
        *damage = why;
    else if (s == LW_OK && err)
        *err = why;
    return s != LW_OK ? s : damage ? LW_OK : LW_EFORMAT;
}

/* The text of the member at `from`, appended to out; *used = its packed length. */
static enum lw_status unpack_member(struct libdeflate_decompressor *d, const char *name,
                                    const struct lw_gzip_text *packed, size_t from, size_t max,
                                    struct lw_gzip_text *out, size_t *used, struct lw_err *damage,
                                    struct lw_err *err)
{
    for (;;) {
        size_t made = 0;
        enum libdeflate_result r = libdeflate_gzip_decompress_ex(
            d, packed->text + from, packed->len - from, out->text + out->len,
            out->room - out->len, used, &made);
        if (r == LIBDEFLATE_SUCCESS) {
            out->len += made;
            return LW_OK;
        }
        if (r != LIBDEFLATE_INSUFFICIENT_SPACE) {
            *used = packed->len - from;
            return take_damaged(name, packed, from, max, out, damage, err);
        }
        if (max && out->room > max)
            return lw_fail(err, LW_EIO,
                           "%s: unpacks to more than %zu bytes, the most for a file of "
                           "%zu: unpack it first if that is right",
                           name, max, packed->len);
        LW_TRY(make_room(out, out->room * 2 < max + 1 ? out->room * 2 : max + 1, err));
    }
}

static enum lw_status unpack(const char *name, const struct lw_gzip_text *packed, size_t max,
                             struct lw_gzip_text *out, struct lw_err *damage, struct lw_err *err)
{
    struct libdeflate_decompressor *d = libdeflate_alloc_decompressor();
    enum lw_status s = d ? make_room(out, packed->len * 4 + 4096, err) : lw_fail_nomem(err);
    size_t at = 0;

    if (s == LW_OK && packed->len >= 18) { /* the last member's size is a good first guess */
        const unsigned char *tail = (const unsigned char *)packed->text + packed->len - 4;
        size_t guess = (size_t)tail[0] | (size_t)tail[1] << 8 | (size_t)tail[2] << 16 |
                       (size_t)tail[3] << 24;
        if (guess > out->room && guess / 1100 < packed->len && !(max && guess > max))
            s = make_room(out, guess + 1, err);
    }
    while (s == LW_OK && at < packed->len) {
        size_t used = 0;
        s = unpack_member(d, name, packed, at, max, out, &used, damage, err);
        at += used;
    }
    if (d)
        libdeflate_free_decompressor(d);
    return s;
}

/* What it may unpack to. */
static size_t most_of(size_t packed, size_t max_bytes)
{
    size_t most = packed > ANY_SIZE / MOST_TIMES ? packed * MOST_TIMES : ANY_SIZE;

    return max_bytes && max_bytes < most ? max_bytes : most;
}

static void give(struct lw_gzip_text *text, struct lw_input *in)
{
    memset(text->text + text->len, 0, LW_JSON_PADDING);
    in->text = text->text;
    in->len = text->len;
}

/* The bytes as they are stored. */
static enum lw_status read_stored(const char *name, int fd, const struct lw_input_reading *how,
                                  struct lw_input *in, struct lw_err *err)
{
    struct lw_gzip_text raw = {0};

    if (map_large(name, fd, how->max_bytes, in))
        return how->unhashed ? LW_OK : hash_mapped(in, err);
    enum lw_status s = slurp(name, fd, how->max_bytes, &raw, err);
    if (s != LW_OK) {
        lw_free(raw.text);
        return s;
    }
    give(&raw, in);
    if (!how->unhashed)
        lw_hash_of(in->text, in->len, in->hash);
    return LW_OK;
}

static enum lw_status unpack_input(struct lw_input *in, size_t max_bytes, struct lw_err *damage,
                                   struct lw_err *err)
{
    struct lw_gzip_text raw = {.text = in->text, .len = in->len}, text = {0};
    enum lw_status s =
        unpack(in->name, &raw, most_of(raw.len, max_bytes), &text, damage, err);

    lw_input_free_text(in);
    if (s == LW_OK)
        give(&text, in);
    else
        lw_free(text.text);
    return s;
}

enum lw_status lw_input_read_as(const char *name, const struct lw_input_reading *how,
                                struct lw_input *in, struct lw_err *err)
{
    bool is_stdin = strcmp(name, "-") == 0;

    if (how->damage)
        *how->damage = (struct lw_err){0};
    LW_TRY(lw_used_file(is_stdin ? "/dev/stdin" : name, LW_USE_INPUT, err));
    int fd = is_stdin ? STDIN_FILENO : open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return lw_fail(err, LW_EIO, "%s: cannot open: %s", name, strerror(errno));
    struct lw_input read = {.name = is_stdin ? "<standard input>" : name};
    enum lw_status s = read_stored(read.name, fd, how, &read, err);
    if (!is_stdin)
        close(fd);
    if (s == LW_OK && is_gzip(read.text, read.len))
        s = unpack_input(&read, how->max_bytes, how->damage, err);
    if (s != LW_OK)
        lw_input_free(&read);
    *in = read;
    return s;
}

bool lw_is_folder(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

bool lw_is_device_or_pipe(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
}

enum lw_status lw_input_read(const char *name, size_t max_bytes, struct lw_input *in,
                             struct lw_err *err)
{
    return lw_input_read_as(name, &(struct lw_input_reading){.max_bytes = max_bytes}, in, err);
}

enum lw_status lw_input_unpack(const char *name, const void *packed, size_t n, struct lw_input *in,
                               struct lw_err *err)
{
    const struct lw_gzip_text raw = {.text = (char *)(uintptr_t)packed, .len = n};
    struct lw_gzip_text text = {0};

    *in = (struct lw_input){.name = name};
    if (!is_gzip(raw.text, raw.len))
        return lw_fail(err, LW_EFORMAT, "%s: not gzip data", name);
    lw_hash_of(raw.text, raw.len, in->hash);
    enum lw_status s = unpack(name, &raw, most_of(n, 0), &text, NULL, err);
    if (s != LW_OK) {
        lw_free(text.text);
        *in = (struct lw_input){0};
        return s;
    }
    give(&text, in);
    return LW_OK;
}

enum lw_status lw_gzip_pack(const char *text, size_t len, char **packed, size_t *n,
                            struct lw_err *err)
{
    struct libdeflate_compressor *c = libdeflate_alloc_compressor(FAST);
    size_t room = c ? libdeflate_gzip_compress_bound(c, len) : 0;
    char *to = c ? lw_alloc(room) : NULL;

    *n = to ? libdeflate_gzip_compress(c, text, len, to, room) : 0;
    if (c)
        libdeflate_free_compressor(c);
    if (*n == 0) {
        lw_free(to);
        return lw_fail_nomem(err);
    }
    *packed = to;
    return LW_OK;
}

void lw_input_free_text(struct lw_input *in)
{
    if (in->mapped)
        lw_unmap_file(in->text);
    else
        lw_free(in->text);
    in->text = NULL;
    in->len = 0;
    in->mapped = false;
}

void lw_input_free(struct lw_input *in)
{
    lw_input_free_text(in);
    *in = (struct lw_input){0};
}

/* A large trace made of a real one, imported. Preparing takes more memory than importing, and
 * the peak of a process never falls again, so each is done by a process of its own: the first
 * leaves the file in anonymous memory, the second reads it as it would any file and reports
 * through a pipe. Copies are byte for byte: times, names and correlations repeat, so the sort
 * has to merge them. */
#include "traces/import/bench_import.h"

#include <errno.h>
#include <libdeflate.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared/base/arena.h"
#include "shared/base/clock.h"
#include "shared/base/parallel.h"
#include "shared/base/sort.h"
#include "shared/numbers/order.h"
#include "shared/io/input.h"
#include "shared/json/json.h"
#include "traces/kineto/import_kineto.h"

enum { N_RUNS = 3 }; /* the first one may be the first to touch the machine's memory */

struct report { /* through the pipe */
    struct lw_err err;
    struct traces_import_speed speed;
};

/* ---- the file ---- */

/* Events between their brackets: text[from .. to). */
static enum lw_status find_events(const struct lw_input *in, size_t *from, size_t *to,
                                  struct lw_err *err)
{
    struct lw_json *j;
    bool found = false;

    LW_TRY(lw_json_open(in->name, in->text, in->len, &j, err));
    if (lw_json_type(j) == LW_JSON_OBJECT && lw_json_enter(j, LW_JSON_OBJECT))
        while (!found && lw_json_next(j))
            found = lw_json_key_is(j, "traceEvents");
    found = (found || lw_json_type(j) == LW_JSON_ARRAY) && lw_json_enter(j, LW_JSON_ARRAY);
    if (found && lw_json_next(j)) {
        *from = *to = (size_t)lw_json_offset(j);
        do
            *to = (size_t)lw_json_offset(j);
        while (lw_json_next(j));
        while (*to < in->len && in->text[*to] != '{')
            ++*to;
    }
    bool failed = lw_json_failed(j);
    lw_json_close(j);
    if (failed || !found || *from > in->len) /* of a text that is not UTF-8, read as a longer one */
        return lw_fail(err, LW_EFORMAT, "%s: no events to repeat", in->name);
    return LW_OK;
}

/* The last event begins at `at`: where its object ends. */
static size_t end_of_object(const char *text, size_t at, size_t len)
{
    int depth = 0;
    bool in_string = false;

    for (; at < len; at++) {
        char c = text[at];
        if (in_string && c == '\\')
            at++;
        else if (c == '"')
            in_string = !in_string;
        else if (!in_string && c == '{')
            depth++;
        else if (!in_string && c == '}' && --depth == 0)
            return at + 1;
    }
    return len;
}

static enum lw_status put(int fd, const char *bytes, size_t n, struct lw_err *err)
{
    while (n > 0) {
        ssize_t done = write(fd, bytes, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return lw_fail(err, LW_EIO, "the repeated trace: %s", strerror(errno));
        bytes += done;
        n -= (size_t)done;
    }
    return LW_OK;
}

static enum lw_status put_packed(int fd, const char *text, size_t len, struct lw_err *err)
{
    struct libdeflate_compressor *c = libdeflate_alloc_compressor(6);
    size_t room = c ? libdeflate_gzip_compress_bound(c, len) : 0;
    char *packed = c ? lw_alloc(room) : NULL;
    enum lw_status status = packed ? LW_OK : lw_fail_nomem(err);

    if (status == LW_OK)
        status = put(fd, packed, libdeflate_gzip_compress(c, text, len, packed, room), err);
    lw_free(packed);
    if (c)
        libdeflate_free_compressor(c);
    return status;
}

static enum lw_status put_repeated(int fd, const struct lw_input *in, size_t from, size_t to,
                                   size_t bytes, bool packed, struct lw_err *err)
{
    size_t one = to - from + 1;
    size_t n = bytes > in->len ? (bytes - in->len + one - 1) / one + 1 : 1;
    size_t len = in->len + (n - 1) * one;
    char *text = lw_alloc(len), *p = text;

    if (!text)
        return lw_fail_nomem(err);
    memcpy(p, in->text, to);
    p += to;
    for (size_t k = 1; k < n; k++) {
        *p = ',';
        memcpy(p + 1, in->text + from, to - from);
        p += one;
    }
    memcpy(p, in->text + to, in->len - to);
    enum lw_status status = packed ? put_packed(fd, text, len, err) : put(fd, text, len, err);
    lw_free(text);
    return status;
}

static enum lw_status prepare(const char *file, int64_t bytes, bool packed, int fd,
                              struct lw_err *err)
{
    struct lw_input in;
    size_t from = 0, to = 0;

    LW_TRY(lw_input_read(file, 0, &in, err));
    enum lw_status status = find_events(&in, &from, &to, err);
    if (status == LW_OK) {
        to = end_of_object(in.text, to, in.len);
        status = put_repeated(fd, &in, from, to, (size_t)bytes, packed, err);
    }
    lw_input_free(&in);
    return status;
}

/* ---- the import ---- */

static enum lw_status import_on_all_cores(const char *path, struct traces_import_speed *out,
                                          struct lw_err *err)
{
    struct lw_trace_reading reading = {.alone = true};
    struct lw_input in;
    struct lw_trace t;
    double began = lw_now_s();

    LW_TRY(lw_input_read(path, 0, &in, err));
    LW_TRY(lw_kineto_take(&in, NULL, &reading, &t, err));
    out->wall_s = lw_now_s() - began;
    out->n_cores = lw_n_cores();
    lw_trace_free(&t);
    return LW_OK;
}

static enum lw_status import(int fd, struct traces_import_speed *out, struct lw_err *err)
{
    char path[64];
    struct lw_input in;
    struct lw_trace t;
    struct rusage u;

    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    out->file_bytes = (int64_t)lseek(fd, 0, SEEK_END);
    double began = lw_cpu_s();
    LW_TRY(lw_input_read(path, 0, &in, err));
    double read = lw_cpu_s();
    out->json_bytes = (int64_t)in.len;
    LW_TRY(lw_kineto_take(&in, NULL, NULL, &t, err));
    out->parse_s = lw_cpu_s() - read;
    out->read_s = read - began;
    out->n_events = t.n_events;
    out->n_rows = t.n;
    out->peak_rss_bytes = getrusage(RUSAGE_SELF, &u) == 0 ? (int64_t)u.ru_maxrss * 1024 : -1;
    lw_trace_free(&t);
    return import_on_all_cores(path, out, err);
}

/* ---- processes ---- */

struct work {
    const char *file;
    int64_t bytes;
    bool packed, prepares;
    int fd;
};

static void work_in_child(const struct work *w, int pipe_fd)
{
    struct report r = {0};

    r.err.code = w->prepares ? prepare(w->file, w->bytes, w->packed, w->fd, &r.err)
                             : import(w->fd, &r.speed, &r.err);
    ssize_t done = write(pipe_fd, &r, sizeof r);
    _exit(done == (ssize_t)sizeof r ? 0 : 1);
}

static enum lw_status in_child(const struct work *w, struct traces_import_speed *out,
                               struct lw_err *err)
{
    struct report r = {0};
    int ends[2];
    ssize_t got;

    if (pipe(ends) != 0)
        return lw_fail(err, LW_EIO, "pipe: %s", strerror(errno));
    pid_t child = fork();
    if (child == 0)
        work_in_child(w, ends[1]);
    close(ends[1]);
    do
        got = read(ends[0], &r, sizeof r);
    while (got < 0 && errno == EINTR);
    close(ends[0]);
    while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR)
        ;
    if (got != (ssize_t)sizeof r)
        return lw_fail(err, LW_EFAILED, "%s: the process that imports it ended without a result "
                                        "(out of memory?)",
                       w->file);
    if (r.err.code != LW_OK && err)
        *err = r.err;
    *out = r.speed;
    return r.err.code;
}

LW_COMPARATOR(by_time, struct traces_import_speed, a->read_s + a->parse_s, b->read_s + b->parse_s)

enum lw_status traces_bench_import(const char *file, int64_t bytes, bool packed,
                                   struct traces_import_speed *out, struct lw_err *err)
{
    struct work w = {file, bytes, packed, true, memfd_create("lapwing-bench", MFD_CLOEXEC)};

    if (w.fd < 0)
        return lw_fail(err, LW_EIO, "memory for the repeated trace: %s", strerror(errno));
    struct traces_import_speed runs[N_RUNS];
    enum lw_status status = in_child(&w, out, err);
    w.prepares = false;
    for (int i = 0; i < N_RUNS && status == LW_OK; i++)
        status = in_child(&w, &runs[i], err);
    if (status == LW_OK) {
        lw_sort(runs, N_RUNS, by_time);
        *out = runs[N_RUNS / 2];
        for (int i = 0; i < N_RUNS; i++) /* the one that other programs disturbed least */
            out->wall_s = runs[i].wall_s < out->wall_s ? runs[i].wall_s : out->wall_s;
    }
    close(w.fd);
    return status;
}

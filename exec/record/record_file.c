/* The writer of docs/formats/calls.md. Lines are formatted by hand, since they are the whole cost
 * of a recording, into a shared mapping of the file: a process that ends by a signal or _exit loses
 * nothing. The file is extended by a window at a time, its blocks are reserved before they are
 * mapped (a full disk is an error here, not a SIGBUS later), and what is not used is cut off when
 * the process exits; after a kill zero bytes follow the last line. */
#include "exec/record/record_file.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "exec/record/record_next.h"

enum { WINDOW = 1 << 20, PAGE = 1 << 16 /* the largest of Linux */, LINE = 256, MAX_COMMS = 4096 };

static struct {
    pthread_mutex_t mutex;
    char *window; /* WINDOW bytes of the file from window_at */
    off_t window_at;
    size_t used;  /* of the window */
    int file;     /* -1: not there */
    bool tried;
    bool forked; /* a child has a file of its own */
    char library[64];
    int64_t n_calls;
    int32_t n_comms, n_kept;
    struct { const void *handle; int32_t number; } comms[MAX_COMMS];
} all = {.mutex = PTHREAD_MUTEX_INITIALIZER, .file = -1};

int64_t record_now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

uint64_t record_hash(const void *bytes, int64_t n)
{
    const unsigned char *p = bytes;
    uint64_t h = UINT64_C(0xcbf29ce484222325);

    for (int64_t i = 0; i < n; i++)
        h = (h ^ p[i]) * UINT64_C(0x100000001b3);
    return h;
}

/* --- the file: the mutex is held -------------------------------------------------------------- */

static void stop(const char *why)
{
    fprintf(stderr, "lapwing-record: the recording stops: %s\n", why);
    close(all.file);
    all.file = -1;
}

/* The window that begins with the page of the first unused byte. */
static bool next_window(void)
{
    off_t end = all.window_at + (off_t)all.used;
    off_t at = end / PAGE * PAGE;

    if (all.window)
        munmap(all.window, WINDOW);
    all.window = NULL;
    int failed = posix_fallocate(all.file, at, WINDOW);
    char *map = failed ? MAP_FAILED
                       : mmap(NULL, WINDOW, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
                              all.file, at);
    if (map == MAP_FAILED) {
        stop(strerror(failed ? failed : errno));
        return false;
    }
    all.window = map;
    all.window_at = at;
    all.used = (size_t)(end - at);
    return true;
}

/* The rank as the launcher says it, so that files of one run sort; else the process number. */
static void name_file(char *path, size_t size)
{
    static const char *const variables[] = {"RANK", "LAPWING_RANK", "OMPI_COMM_WORLD_RANK",
                                            "PMIX_RANK", "SLURM_PROCID"};
    const char *prefix = getenv("LAPWING_RECORD");
    const char *rank = NULL;

    prefix = prefix && *prefix ? prefix : "calls";
    for (size_t i = 0; !rank && i < sizeof variables / sizeof *variables; i++)
        rank = getenv(variables[i]);
    if (!rank || !*rank)
        snprintf(path, size, "%s.pid%d.csv", prefix, (int)getpid());
    else if (all.forked) /* the parent records as this rank */
        snprintf(path, size, "%s.rank%.12s.pid%d.csv", prefix, rank, (int)getpid());
    else
        snprintf(path, size, "%s.rank%.12s.csv", prefix, rank);
}

static void put_head(void)
{
    struct timespec t;
    char host[128] = "";

    gethostname(host, sizeof host - 1);
    clock_gettime(CLOCK_REALTIME, &t);
    all.used += (size_t)snprintf(
        all.window, WINDOW,
        "# lapwing-calls 1\n# library %s\n# host %s pid %d\n# unix_ns %lld monotonic_ns %lld\n",
        all.library, host, (int)getpid(), (long long)t.tv_sec * 1000000000 + t.tv_nsec,
        (long long)record_now_ns());
}

static bool opened(void)
{
    char path[4096];

    all.tried = true;
    name_file(path, sizeof path);
    unlink(path); /* not truncated: a process of the same name may have it mapped */
    all.file = open(path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0644);
    if (all.file < 0)
        fprintf(stderr, "lapwing-record: %s: %s; nothing is recorded (LAPWING_RECORD=PREFIX)\n",
                path, strerror(errno));
    else if (next_window())
        put_head();
    return all.file >= 0;
}

/* Opens the file at the first line, and makes room for another. */
static bool ready(void)
{
    if (!all.tried && !opened())
        return false;
    return all.file >= 0 && (all.used + LINE <= WINDOW || next_window());
}

static char *room(void)
{
    return all.window + all.used;
}

static char *put_int(char *at, int64_t v)
{
    char digits[24];
    int n = 0;
    uint64_t u = v < 0 ? -(uint64_t)v : (uint64_t)v;

    do
        digits[n++] = (char)('0' + u % 10);
    while ((u /= 10) > 0);
    if (v < 0)
        *at++ = '-';
    while (n > 0)
        *at++ = digits[--n];
    return at;
}

static char *put_text(char *at, const char *text)
{
    size_t n = strnlen(text, 24);

    memcpy(at, text, n);
    return at + n;
}

static void end_line(char *at)
{
    at[-1] = '\n'; /* the comma of the last field */
    all.used = (size_t)(at - all.window);
}

static char *field(char *at, int64_t v)
{
    at = put_int(at, v);
    *at++ = ',';
    return at;
}

static char *text_field(char *at, const char *text)
{
    at = put_text(at, text);
    *at++ = ',';
    return at;
}

/* --- what is recorded ------------------------------------------------------------------------- */

void record_library(const char *name, int32_t major, int32_t minor, int32_t patch)
{
    pthread_mutex_lock(&all.mutex);
    snprintf(all.library, sizeof all.library, "%.30s %d.%d.%d", name, major, minor, patch);
    pthread_mutex_unlock(&all.mutex);
}

int32_t record_comm(const void *handle, uint64_t id, int32_t rank, int32_t n_ranks)
{
    int32_t number = 0;

    pthread_mutex_lock(&all.mutex);
    if (ready() && all.n_kept < MAX_COMMS) {
        number = ++all.n_comms;
        all.comms[all.n_kept].handle = handle;
        all.comms[all.n_kept++].number = number;
        all.used += (size_t)snprintf(room(), LINE, "comm,%d,%016llx,%d,%d\n", number,
                                     (unsigned long long)id, rank, n_ranks);
    }
    pthread_mutex_unlock(&all.mutex);
    return number;
}

static int32_t place_of(const void *handle)
{
    for (int32_t i = all.n_kept - 1; i >= 0; i--)
        if (all.comms[i].handle == handle)
            return i;
    return -1;
}

int32_t record_comm_of(const void *handle)
{
    pthread_mutex_lock(&all.mutex);
    int32_t i = place_of(handle);
    int32_t number = i >= 0 ? all.comms[i].number : 0;
    pthread_mutex_unlock(&all.mutex);
    return number;
}

void record_comm_gone(const void *handle)
{
    pthread_mutex_lock(&all.mutex);
    int32_t i = place_of(handle);
    if (i >= 0)
        all.comms[i] = all.comms[--all.n_kept];
    pthread_mutex_unlock(&all.mutex);
}

int64_t record_call(const struct record_call *c)
{
    int64_t number = 0;

    pthread_mutex_lock(&all.mutex);
    if (ready()) {
        char *at = text_field(room(), "call");
        number = ++all.n_calls;
        at = field(at, number);
        at = field(at, c->entered_ns);
        at = field(at, c->host_ns);
        at = text_field(at, c->op);
        at = field(at, c->count);
        at = text_field(at, c->dtype);
        at = field(at, c->peer);
        at = field(at, c->comm);
        at = field(at, (int64_t)c->stream);
        at = field(at, c->group);
        end_line(at);
    }
    pthread_mutex_unlock(&all.mutex);
    return number;
}

void record_span(int64_t call, int64_t start_ns, int64_t end_ns)
{
    if (call <= 0)
        return;
    pthread_mutex_lock(&all.mutex);
    if (ready()) {
        char *at = text_field(room(), "span");
        at = field(at, call);
        at = field(at, start_ns);
        at = field(at, end_ns);
        end_line(at);
    }
    pthread_mutex_unlock(&all.mutex);
}

void record_lost(const char *function)
{
    pthread_mutex_lock(&all.mutex);
    if (ready())
        all.used += (size_t)snprintf(room(), LINE, "# not recorded %s\n", function);
    pthread_mutex_unlock(&all.mutex);
}

/* Later calls, of threads that still run, are not recorded. */
__attribute__((destructor)) static void at_exit(void)
{
    pthread_mutex_lock(&all.mutex);
    all.tried = true;
    if (all.file >= 0 && ftruncate(all.file, all.window_at + (off_t)all.used) != 0)
        stop(strerror(errno));
    all.file = -1;
    pthread_mutex_unlock(&all.mutex);
}

void *record_next(const char *name, const char *library)
{
    void *f = dlsym(RTLD_NEXT, name);

    if (!f) { /* the program opened the library for itself */
        void *opened = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
        f = opened ? dlsym(opened, name) : NULL;
    }
    if (!f) {
        fprintf(stderr, "lapwing-record: %s has no %s\n", library, name);
        abort();
    }
    return f;
}

/* --- fork ------------------------------------------------------------------------------------- */

/* A child neither waits for a thread that it does not have nor writes into its parent's file. */

static void before_fork(void)
{
    pthread_mutex_lock(&all.mutex);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&all.mutex);
}

static void in_child(void)
{
    if (all.window)
        munmap(all.window, WINDOW);
    if (all.file >= 0)
        close(all.file);
    all.window = NULL;
    all.window_at = 0;
    all.used = 0;
    all.file = -1;
    all.tried = false;
    all.forked = true;
    all.n_calls = 0;
    all.n_comms = all.n_kept = 0;
    pthread_mutex_unlock(&all.mutex);
}

__attribute__((constructor)) static void at_start(void)
{
    pthread_atfork(before_fork, after_fork, in_child);
}

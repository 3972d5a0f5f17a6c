/* A test fixture, not a GPU: the part of the CUDA driver API that the NCCL backend uses, on host
 * memory. One thread per stream runs that stream's commands in order; an event is a counter;
 * kernels are the bodies of exec/nccl/kernels.h compiled for the host. Like the real thing it is
 * asynchronous, refuses calls without a current context, keeps an error until the end ("sticky"),
 * and times with its events. It models no speed: times are those of the host.
 *
 * FAKE_GPU_COUNT=n        devices (1); one alone has no identity, so that no run on it is called
 *                         real
 * CUDA_VISIBLE_DEVICES=LIST of numbers and UUIDs (GPU-X, MIG-X); of MIG the first alone
 * FAKE_GPU_MEMORY=bytes   of each device (1 GiB): cuMemAlloc refuses more
 * FAKE_GPU_QUEUE=n        commands that a stream holds (1024): a call blocks while its stream is
 *                         full
 * FAKE_GPU_DELAY_US=n     every command waits a random time below n first
 * FAKE_GPU_SEED=n         of those random times
 * FAKE_CUDA_FAIL=cuX:n:e  the n-th call of cuX returns error e
 * FAKE_CUDA_ASYNC=lw_X:n:e  the n-th run of kernel lw_X ends the device with error e
 * FAKE_GPU_LOG=file       one line per stream made and kernel run, and at exit what was not
 *                         freed */
#include <cuda.h>
#include <linux/futex.h>
#include <malloc.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/syscall.h>

#include "exec/nccl/kernels.h"
#include "tests/fake_gpu/fake_cuda.h"
#include "tests/fake_gpu/fake_env.h"

/* As few threads as show that a kernel strides over its elements: one after the other, thousands of
 * them would miss the cache at every element. */
enum { MAX_THREADS = 3 };

#define RUN(k)                                                               \
    static void run_##k(const void *args, int64_t n_threads)                 \
    {                                                                        \
        int64_t n = n_threads < MAX_THREADS ? n_threads : MAX_THREADS;       \
        for (int64_t t = 0; t < n; t++)                                      \
            kernel_##k##_run((const struct kernel_##k *)args, t, n);         \
    }
KERNEL_LIST(RUN)

#define ENTRY(k) {"lw_" #k, sizeof(struct kernel_##k), run_##k},
static struct CUfunc_st functions[] = {KERNEL_LIST(ENTRY)};
enum { N_FUNCTIONS = sizeof functions / sizeof functions[0] };

struct CUmod_st {
    int live;
};

struct CUctx_st {
    int device, users;
};

struct block {
    struct block *next;
    char *mem;
    size_t bytes;
    int device; /* -1: host */
};

enum { MAX_DEVICES = 16 };

/* Held for less time than it takes to put a thread to sleep: who finds it taken tries again. */
pthread_mutex_t fake_lock = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
static struct CUctx_st contexts[MAX_DEVICES];
static struct block *blocks;
static _Atomic CUresult sticky;
static int64_t n_unfinished; /* commands that streams have and have not run */
static int n_streams_made, n_streams, n_events, n_modules;
static _Atomic uint64_t n_commands;
static __thread CUcontext current;
static bool started;

void fake_bell_wait(struct fake_bell *b)
{
    uint32_t seen = atomic_load(&b->n_rung);

    b->n_asleep++;
    pthread_mutex_unlock(&fake_lock);
    syscall(SYS_futex, &b->n_rung, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
    pthread_mutex_lock(&fake_lock);
    b->n_asleep--;
}

/* true: somebody sleeps, to be woken when the lock is free. */
static bool note_ring(struct fake_bell *b)
{
    atomic_fetch_add(&b->n_rung, 1);
    return b->n_asleep > 0;
}

static void wake(struct fake_bell *b) /* of the address alone: *b may be gone */
{
    syscall(SYS_futex, &b->n_rung, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

void fake_bell_ring(struct fake_bell *b)
{
    bool asleep = note_ring(b);

    pthread_mutex_unlock(&fake_lock);
    if (asleep)
        wake(b);
}

/* The devices that are visible; place[k]: which of all, or for an instance of MIG a number of
 * FAKE_FIRST_MIG and more that follows from its name. What is not understood ends the list. */
static int visible(int place[MAX_DEVICES])
{
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    int64_t all = fake_env_int("FAKE_GPU_COUNT", 1);
    int n = 0;

    all = all > MAX_DEVICES ? MAX_DEVICES : all;
    for (; !list && n < all; n++)
        place[n] = n;
    while (list && *list && n < MAX_DEVICES) {
        char *end;
        bool mig = strncmp(list, "MIG-", 4) == 0;
        long k = strtol(strncmp(list, "GPU-", 4) == 0 || mig ? list + 4 : list, &end, 16);
        if (end == list || (*end && *end != ',') || k < 0 || (!mig && k >= all) || (mig && n > 0))
            break;
        place[n++] = (int)k + (mig ? FAKE_FIRST_MIG : 0);
        list = *end ? end + 1 : end;
    }
    return n;
}

static int device_count(void)
{
    int place[MAX_DEVICES];
    return visible(place);
}

__attribute__((format(printf, 1, 2))) static void log_line(const char *fmt, ...)
{
    int fd = fake_log_fd(FAKE_ENV("FAKE_GPU_LOG"));
    va_list args;

    if (fd < 0)
        return;
    va_start(args, fmt);
    vdprintf(fd, fmt, args);
    va_end(args);
}

static void set_sticky(CUresult r)
{
    CUresult none = CUDA_SUCCESS;

    atomic_compare_exchange_strong(&sticky, &none, r);
}

/* The injected error of this call, or none. The device keeps those of its kernels. */
static CUresult injected(const char *call)
{
    static int64_t n_calls;
    static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
    struct fake_spec spec;
    CUresult r = CUDA_SUCCESS;

    if (!fake_env_spec("FAKE_CUDA_FAIL", &spec) || strcmp(spec.word, call) != 0)
        return r;
    pthread_mutex_lock(&guard);
    if (++n_calls == spec.a)
        r = (CUresult)spec.b;
    pthread_mutex_unlock(&guard);
    if (r == CUDA_ERROR_ILLEGAL_ADDRESS)
        set_sticky(r);
    return r;
}

CUresult fake_enter(const char *call)
{
    CUresult r = injected(call);

    if (r != CUDA_SUCCESS)
        return r;
    return current ? atomic_load(&sticky) : CUDA_ERROR_INVALID_CONTEXT;
}

/* ---- memory ---- */

static bool inside(const void *p, size_t bytes)
{
    bool found = false;

    pthread_mutex_lock(&fake_lock);
    for (const struct block *b = blocks; b && !found; b = b->next)
        found = (const char *)p >= b->mem && (const char *)p + bytes <= b->mem + b->bytes;
    pthread_mutex_unlock(&fake_lock);
    return found;
}

static CUresult take(size_t bytes, int device, void **mem)
{
    struct block *b = malloc(sizeof *b);
    size_t taken = 0, limit = (size_t)fake_env_int("FAKE_GPU_MEMORY", INT64_C(1) << 30);
    CUresult r = CUDA_SUCCESS;

    pthread_mutex_lock(&fake_lock);
    for (const struct block *k = blocks; k; k = k->next)
        taken += k->device == device ? k->bytes : 0;
    if (bytes == 0)
        r = CUDA_ERROR_INVALID_VALUE;
    else if (device >= 0 && taken + bytes > limit)
        r = CUDA_ERROR_OUT_OF_MEMORY;
    if (r == CUDA_SUCCESS) {
        *b = (struct block){blocks, aligned_alloc(256, (bytes + 255) / 256 * 256), bytes, device};
        memset(b->mem, 0xa5, bytes); /* a real device does not zero either */
        blocks = b;
        *mem = b->mem;
    } else {
        free(b);
    }
    pthread_mutex_unlock(&fake_lock);
    return r;
}

static CUresult give(const void *mem)
{
    CUresult r = CUDA_ERROR_INVALID_VALUE;

    pthread_mutex_lock(&fake_lock);
    for (struct block **at = &blocks; *at; at = &(*at)->next) {
        struct block *b = *at;
        if (b->mem != mem)
            continue;
        *at = b->next;
        free(b->mem);
        free(b);
        r = CUDA_SUCCESS;
        break;
    }
    pthread_mutex_unlock(&fake_lock);
    return r;
}

CUresult cuMemAlloc(CUdeviceptr *p, size_t bytes)
{
    void *mem;
    CUresult r = fake_enter_unsafe("cuMemAlloc");

    if (r == CUDA_SUCCESS)
        r = take(bytes, current->device, &mem);
    if (r == CUDA_SUCCESS)
        *p = (CUdeviceptr)mem;
    return r;
}

/* As the real driver: freeing device memory waits for all kernels of the device. */
void fake_cuda_drain(void)
{
    bool runs = true;

    for (int64_t i = 0; runs; i++) {
        pthread_mutex_lock(&fake_lock);
        runs = n_unfinished > 0;
        pthread_mutex_unlock(&fake_lock);
        if (runs)
            fake_doze(i);
    }
}

CUresult cuMemFree(CUdeviceptr p)
{
    CUresult r = fake_enter_unsafe("cuMemFree");
    if (r == CUDA_SUCCESS)
        fake_cuda_drain();
    return r == CUDA_SUCCESS ? give((void *)p) : r;
}

CUresult cuMemHostAlloc(void **p, size_t bytes, unsigned int flags)
{
    CUresult r = fake_enter_unsafe("cuMemHostAlloc");
    (void)flags;
    return r == CUDA_SUCCESS ? take(bytes, -1, p) : r;
}

CUresult cuMemFreeHost(void *p)
{
    CUresult r = fake_enter_unsafe("cuMemFreeHost");
    return r == CUDA_SUCCESS ? give(p) : r;
}

CUresult cuMemHostGetDevicePointer(CUdeviceptr *d, void *p, unsigned int flags)
{
    CUresult r = fake_enter("cuMemHostGetDevicePointer");
    (void)flags;
    *d = (CUdeviceptr)p;
    return r;
}

CUresult cuMemGetInfo(size_t *free_bytes, size_t *total)
{
    *total = (size_t)fake_env_int("FAKE_GPU_MEMORY", INT64_C(1) << 30);
    *free_bytes = *total;
    return fake_enter_unsafe("cuMemGetInfo");
}

/* ---- streams ---- */

static void run_command(int id, struct fake_command *c)
{
    struct fake_spec spec;
    static int64_t n_runs;

    switch (c->kind) {
    case KERNEL:
        c->function->run(c->args, c->n_threads);
        log_line("run %s stream %d threads %lld\n", c->function->name, id,
                 (long long)c->n_threads);
        if (fake_env_spec("FAKE_CUDA_ASYNC", &spec) && strcmp(spec.word, c->function->name) == 0 &&
            __atomic_add_fetch(&n_runs, 1, __ATOMIC_SEQ_CST) == spec.a)
            set_sticky((CUresult)spec.b);
        break;
    case COPY: memmove(c->to, c->from, c->bytes); break;
    case SET: memset(c->to, c->value, c->bytes); break;
    case HOST: c->host(c->to); break;
    default: break;
    }
}

static void leave(CUevent e) /* the lock is held */
{
    if (--e->users > 0)
        return;
    free(e->early);
    free(e);
}

static int place_of(const struct CUevent_st *e, uint64_t record)
{
    int i = 0;

    while (i < e->n_early && e->early[i] != record)
        i++;
    return i;
}

static bool has_run(const struct CUevent_st *e, uint64_t record)
{
    return record <= e->done || place_of(e, record) < e->n_early;
}

static void note_record(CUevent e, uint64_t record)
{
    int i;

    if (has_run(e, record))
        return; /* of a graph that runs again */
    e->early = realloc(e->early, (size_t)(e->n_early + 1) * sizeof *e->early);
    e->early[e->n_early++] = record;
    for (; (i = place_of(e, e->done + 1)) < e->n_early; e->done++)
        e->early[i] = e->early[--e->n_early];
}

void fake_record(CUevent e, uint64_t target)
{
    pthread_mutex_lock(&fake_lock);
    note_record(e, target);
    if (target == e->given)
        e->at_ns = fake_now_ns();
    bool asleep = note_ring(&e->moved);
    leave(e);
    pthread_mutex_unlock(&fake_lock);
    if (asleep)
        wake(&e->moved);
}

static void wait_for(CUevent e, uint64_t target)
{
    pthread_mutex_lock(&fake_lock);
    while (!has_run(e, target))
        fake_bell_wait(&e->moved);
    leave(e);
    pthread_mutex_unlock(&fake_lock);
}

/* The fake NCCL counts its host functions: they run on a dead device, too. */
void fake_run(int id, struct fake_command *c)
{
    int64_t max_us = fake_env_int("FAKE_GPU_DELAY_US", 0);

    bool dead = atomic_load(&sticky) != CUDA_SUCCESS;
    uint64_t n = atomic_fetch_add(&n_commands, 1);
    if (max_us > 0)
        fake_sleep_us(fake_delay_us(max_us, n));
    if (!dead || c->kind == HOST)
        run_command(id, c);
}

static void run_next(struct CUstream_st *s, struct fake_command *c)
{
    if (c->kind == RECORD)
        fake_record(c->event, c->target);
    else if (c->kind == WAIT)
        wait_for(c->event, c->target);
    else if (c->kind == LAUNCH)
        fake_graph_run(c->graph);
    else
        fake_run(s->id, c);
}

static void *stream_main(void *arg)
{
    struct CUstream_st *s = arg;
    struct fake_command *c;

    pthread_mutex_lock(&fake_lock);
    for (;;) {
        while (!s->head && !s->closing)
            fake_bell_wait(&s->moved);
        if (!(c = s->head))
            break;
        pthread_mutex_unlock(&fake_lock);
        run_next(s, c);
        pthread_mutex_lock(&fake_lock);
        s->head = c->next;
        if (!s->head)
            s->tail = &s->head;
        s->done++;
        n_unfinished--;
        if (s->moved.n_asleep > 0) { /* who waits for room */
            fake_bell_ring(&s->moved);
            pthread_mutex_lock(&fake_lock);
        }
        free(c);
    }
    pthread_mutex_unlock(&fake_lock);
    free(s);
    return NULL;
}

struct fake_command *fake_command_new(enum fake_kind kind, size_t args)
{
    struct fake_command *c = calloc(1, sizeof *c + args);
    c->kind = kind;
    return c;
}

void fake_give(CUstream s, struct fake_command *c)
{
    int64_t most = fake_env_int("FAKE_GPU_QUEUE", 1024);

    pthread_mutex_lock(&fake_lock);
    if (s->capture) {
        fake_append(s, c);
        pthread_mutex_unlock(&fake_lock);
        return;
    }
    while (s->given - s->done >= most && !s->closing)
        fake_bell_wait(&s->moved);
    *s->tail = c;
    s->tail = &c->next;
    s->given++;
    n_unfinished++;
    fake_bell_ring(&s->moved);
}

CUresult cuStreamCreateWithPriority(CUstream *out, unsigned int flags, int priority)
{
    CUresult r = fake_enter_unsafe("cuStreamCreateWithPriority");
    pthread_attr_t attr;

    if (r != CUDA_SUCCESS)
        return r;
    if (flags != CU_STREAM_NON_BLOCKING)
        return CUDA_ERROR_INVALID_VALUE; /* the legacy stream's implicit waits are not modelled */
    struct CUstream_st *s = calloc(1, sizeof *s);
    s->tail = &s->head;
    s->priority = priority;
    pthread_mutex_lock(&fake_lock);
    s->id = n_streams_made++;
    n_streams++;
    pthread_mutex_unlock(&fake_lock);
    log_line("stream %d priority %d\n", s->id, priority);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_create(&s->thread, &attr, stream_main, s);
    pthread_attr_destroy(&attr);
    *out = s;
    return CUDA_SUCCESS;
}

CUresult cuStreamDestroy(CUstream s)
{
    pthread_mutex_lock(&fake_lock);
    s->closing = true;
    n_streams--;
    fake_bell_ring(&s->moved);
    return CUDA_SUCCESS;
}

CUresult cuStreamQuery(CUstream s)
{
    CUresult r = fake_enter_unsafe("cuStreamQuery");

    if (r != CUDA_SUCCESS)
        return r;
    pthread_mutex_lock(&fake_lock);
    r = s->done == s->given ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
    pthread_mutex_unlock(&fake_lock);
    return r;
}

CUresult cuStreamWaitEvent(CUstream s, CUevent e, unsigned int flags)
{
    CUresult r = fake_enter("cuStreamWaitEvent");
    struct fake_command *c;
    bool done;

    (void)flags;
    if (r == CUDA_SUCCESS)
        r = fake_wait_captured(s, e, &done);
    if (r != CUDA_SUCCESS || done)
        return r;
    c = fake_command_new(WAIT, 0);
    c->event = e;
    pthread_mutex_lock(&fake_lock);
    c->target = e->given;
    e->users++;
    pthread_mutex_unlock(&fake_lock);
    fake_give(s, c);
    return CUDA_SUCCESS;
}

CUresult cuLaunchHostFunc(CUstream s, CUhostFn fn, void *arg)
{
    CUresult r = fake_enter("cuLaunchHostFunc");
    struct fake_command *c;

    if (r != CUDA_SUCCESS)
        return r;
    c = fake_command_new(HOST, 0);
    c->host = fn;
    c->to = arg;
    fake_give(s, c);
    return CUDA_SUCCESS;
}

static CUresult copy(const char *call, CUstream s, void *to, const void *from, size_t bytes)
{
    CUresult r = fake_enter(call);
    struct fake_command *c;

    if (r != CUDA_SUCCESS)
        return r;
    if (!inside(to, bytes) || !inside(from, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    c = fake_command_new(COPY, 0);
    c->to = to;
    c->from = from;
    c->bytes = bytes;
    fake_give(s, c);
    return CUDA_SUCCESS;
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream s)
{
    return copy("cuMemcpyDtoDAsync", s, (void *)to, (const void *)from, bytes);
}

/* From pageable memory: the driver takes its own copy during the call, the device has it later.
 * There is no cuMemcpyHtoD here: it may return before the device has the data, and streams that
 * do not block do not wait for it. */
CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes, CUstream s)
{
    CUresult r = fake_enter("cuMemcpyHtoDAsync");
    struct fake_command *c;

    if (r != CUDA_SUCCESS)
        return r;
    if (!inside((void *)to, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    c = fake_command_new(COPY, bytes);
    memcpy(c->args, from, bytes);
    c->to = (void *)to;
    c->from = c->args;
    c->bytes = bytes;
    fake_give(s, c);
    return CUDA_SUCCESS;
}

CUresult cuMemcpyDtoH(void *to, CUdeviceptr from, size_t bytes)
{
    CUresult r = fake_enter_unsafe("cuMemcpyDtoH");

    if (r == CUDA_SUCCESS && !inside((void *)from, bytes))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        memcpy(to, (void *)from, bytes);
    return r;
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream s)
{
    CUresult r = fake_enter("cuMemsetD8Async");
    struct fake_command *c;

    if (r != CUDA_SUCCESS)
        return r;
    if (!inside((void *)to, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    c = fake_command_new(SET, 0);
    c->to = (void *)to;
    c->value = value;
    c->bytes = bytes;
    fake_give(s, c);
    return CUDA_SUCCESS;
}

/* ---- events ---- */

CUresult cuEventCreate(CUevent *e, unsigned int flags)
{
    CUresult r = fake_enter_unsafe("cuEventCreate");

    if (r != CUDA_SUCCESS)
        return r;
    *e = calloc(1, sizeof **e);
    (*e)->users = 1;
    (*e)->timed = !(flags & CU_EVENT_DISABLE_TIMING);
    n_events++;
    return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent e)
{
    pthread_mutex_lock(&fake_lock);
    n_events--;
    leave(e);
    pthread_mutex_unlock(&fake_lock);
    return CUDA_SUCCESS;
}

CUresult cuEventRecordWithFlags(CUevent e, CUstream s, unsigned int flags)
{
    CUresult r = fake_enter("cuEventRecord");
    struct fake_command *c;
    bool done;

    if (r == CUDA_SUCCESS)
        r = fake_record_captured(s, e, flags == CU_EVENT_RECORD_EXTERNAL, &done);
    if (r != CUDA_SUCCESS || done)
        return r;
    c = fake_command_new(RECORD, 0);
    c->event = e;
    pthread_mutex_lock(&fake_lock);
    c->target = ++e->given;
    e->users++;
    pthread_mutex_unlock(&fake_lock);
    fake_give(s, c);
    return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent e, CUstream s)
{
    return cuEventRecordWithFlags(e, s, CU_EVENT_RECORD_DEFAULT);
}

CUresult cuEventSynchronize(CUevent e)
{
    CUresult r;

    for (int i = 0; (r = cuEventQuery(e)) == CUDA_ERROR_NOT_READY; i++)
        fake_doze(i);
    return r;
}

CUresult cuEventQuery(CUevent e)
{
    CUresult r = fake_enter_unsafe("cuEventQuery");

    if (r != CUDA_SUCCESS)
        return r;
    pthread_mutex_lock(&fake_lock);
    r = e->captured            ? CUDA_ERROR_CAPTURED_EVENT
        : has_run(e, e->given) ? CUDA_SUCCESS
                               : CUDA_ERROR_NOT_READY;
    pthread_mutex_unlock(&fake_lock);
    return r;
}

CUresult cuEventElapsedTime(float *ms, CUevent from, CUevent to)
{
    CUresult r = fake_enter_unsafe("cuEventElapsedTime");

    if (r != CUDA_SUCCESS)
        return r;
    pthread_mutex_lock(&fake_lock);
    if (!from->timed || !to->timed || !from->given || !to->given)
        r = CUDA_ERROR_INVALID_HANDLE;
    else if (!has_run(from, from->given) || !has_run(to, to->given))
        r = CUDA_ERROR_NOT_READY;
    else
        *ms = (float)((double)(to->at_ns - from->at_ns) / 1e6);
    pthread_mutex_unlock(&fake_lock);
    return r;
}

/* ---- modules ---- */

CUresult cuModuleLoadData(CUmodule *m, const void *image)
{
    CUresult r = fake_enter_unsafe("cuModuleLoadData");
    uint32_t magic;

    if (r != CUDA_SUCCESS)
        return r;
    memcpy(&magic, image, sizeof magic);
    if (magic != 0xba55ed50u || (uintptr_t)image % 8 != 0)
        return CUDA_ERROR_INVALID_IMAGE;
    *m = calloc(1, sizeof **m);
    n_modules++;
    return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule m)
{
    n_modules--;
    free(m);
    return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *f, CUmodule m, const char *name)
{
    CUresult r = fake_enter("cuModuleGetFunction");

    (void)m;
    if (r != CUDA_SUCCESS)
        return r;
    for (int i = 0; i < N_FUNCTIONS; i++) {
        if (strcmp(functions[i].name, name) == 0) {
            *f = &functions[i];
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_NOT_FOUND;
}

CUresult cuLaunchKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz,
                        unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,
                        CUstream s, void **params, void **extra)
{
    CUresult r = fake_enter("cuLaunchKernel");
    struct fake_command *c;

    if (r != CUDA_SUCCESS)
        return r;
    if (gx < 1 || gy != 1 || gz != 1 || bx < 1 || bx > 1024 || by != 1 || bz != 1 || shared ||
        extra)
        return CUDA_ERROR_INVALID_VALUE;
    c = fake_command_new(KERNEL, f->size);
    memcpy(c->args, params[0], f->size);
    c->function = f;
    c->n_threads = (int64_t)gx * bx;
    fake_give(s, c);
    return CUDA_SUCCESS;
}

/* ---- device and context ---- */

static void say_what_lives(void)
{
    int n_blocks = 0;

    for (const struct block *b = blocks; b; b = b->next)
        n_blocks++;
    log_line("live blocks %d streams %d events %d modules %d graphs %d\n", n_blocks, n_streams,
             n_events, n_modules, fake_n_graphs);
}

CUresult cuInit(unsigned int flags)
{
    (void)flags;
    if (injected("cuInit") != CUDA_SUCCESS)
        return CUDA_ERROR_NO_DEVICE;
    if (device_count() < 1)
        return CUDA_ERROR_NO_DEVICE;
    if (!started)
        atexit(say_what_lives);
    started = true;
    return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int *version)
{
    *version = CUDA_VERSION;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *n)
{
    *n = device_count();
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *d, int ordinal)
{
    if (ordinal < 0 || ordinal >= device_count())
        return CUDA_ERROR_INVALID_DEVICE;
    *d = ordinal;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int len, CUdevice d)
{
    snprintf(name, (size_t)len, "fake device %d on host memory", d);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice d)
{
    int place[MAX_DEVICES];

    memset(uuid, 0, sizeof *uuid);
    if (d < visible(place) && fake_env_int("FAKE_GPU_COUNT", 1) > 1)
        snprintf(uuid->bytes, sizeof uuid->bytes, "fake-%d", place[d]);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute a, CUdevice d)
{
    (void)d;
    switch (a) {
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = 1; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = 9; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = 0; break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *c, CUdevice d)
{
    CUresult r = injected("cuDevicePrimaryCtxRetain");

    if (r != CUDA_SUCCESS)
        return r;
    pthread_mutex_lock(&fake_lock);
    if (contexts[d].users++ == 0)
        contexts[d].device = d;
    pthread_mutex_unlock(&fake_lock);
    *c = &contexts[d];
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice d)
{
    pthread_mutex_lock(&fake_lock);
    contexts[d].users--;
    pthread_mutex_unlock(&fake_lock);
    return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext c)
{
    current = c;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *d)
{
    if (!current)
        return CUDA_ERROR_INVALID_CONTEXT;
    *d = current->device;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *c)
{
    *c = current;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    *least = 0;
    *greatest = -5;
    return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult r, const char **name)
{
    switch (r) {
    case CUDA_SUCCESS: *name = "CUDA_SUCCESS"; break;
    case CUDA_ERROR_INVALID_VALUE: *name = "CUDA_ERROR_INVALID_VALUE"; break;
    case CUDA_ERROR_OUT_OF_MEMORY: *name = "CUDA_ERROR_OUT_OF_MEMORY"; break;
    case CUDA_ERROR_NO_DEVICE: *name = "CUDA_ERROR_NO_DEVICE"; break;
    case CUDA_ERROR_INVALID_CONTEXT: *name = "CUDA_ERROR_INVALID_CONTEXT"; break;
    case CUDA_ERROR_ILLEGAL_ADDRESS: *name = "CUDA_ERROR_ILLEGAL_ADDRESS"; break;
    default: *name = "CUDA_ERROR_OTHER"; break;
    }
    return CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult r, const char **text)
{
    *text = r == CUDA_ERROR_OUT_OF_MEMORY    ? "out of memory"
            : r == CUDA_ERROR_ILLEGAL_ADDRESS ? "an illegal memory access was encountered"
                                              : "fake driver error";
    return CUDA_SUCCESS;
}

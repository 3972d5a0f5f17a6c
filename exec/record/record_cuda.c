/* Timing events around recorded calls.
 *
 * CUDA measures between two events only. The first event of a process, the anchor, is waited for
 * once and tied to the host's clock; a span's start is the anchor's time plus the interval
 * since, its end the start plus its own interval. Once a second the anchor moves to a span that
 * is over, because intervals are f32 milliseconds and lose resolution. Spans that are over are
 * written at later calls. */
#include "exec/record/record_cuda.h"

#include <cuda.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "exec/record/record_file.h"

#define ANCHOR_LASTS_NS INT64_C(1000000000)
#define FINISH_NS INT64_C(1000000000)

struct record_span_events {
    struct record_span_events *next;
    CUevent start, end;
    int n;
    int64_t calls[];
};

static struct {
    pthread_mutex_t mutex;
    bool tried, there;
    __typeof__(&cuEventCreate) create;
    __typeof__(&cuEventDestroy) destroy;
    __typeof__(&cuEventRecord) record;
    __typeof__(&cuEventQuery) query;
    __typeof__(&cuEventSynchronize) synchronize;
    __typeof__(&cuEventElapsedTime) elapsed;
    __typeof__(&cuStreamIsCapturing) capturing;
    CUevent anchor;
    int64_t anchor_ns;
    struct record_span_events *head, **tail;
} cuda = {.mutex = PTHREAD_MUTEX_INITIALIZER};

#define NAME(x) NAME_OF(x) /* cuda.h renames some functions to their versions */
#define NAME_OF(x) #x

/* The mutex is held. */
static bool ready(void)
{
    const char *asked = getenv("LAPWING_RECORD_EVENTS");

    if (cuda.tried)
        return cuda.there;
    cuda.tried = true;
    cuda.tail = &cuda.head;
    if (!asked || strcmp(asked, "1") != 0)
        return false;
    void *library = dlopen("libcuda.so.1", RTLD_LAZY);
    if (!library)
        return false;
    cuda.create = (__typeof__(cuda.create))dlsym(library, NAME(cuEventCreate));
    cuda.destroy = (__typeof__(cuda.destroy))dlsym(library, NAME(cuEventDestroy));
    cuda.record = (__typeof__(cuda.record))dlsym(library, NAME(cuEventRecord));
    cuda.query = (__typeof__(cuda.query))dlsym(library, NAME(cuEventQuery));
    cuda.synchronize = (__typeof__(cuda.synchronize))dlsym(library, NAME(cuEventSynchronize));
    cuda.elapsed = (__typeof__(cuda.elapsed))dlsym(library, NAME(cuEventElapsedTime));
    cuda.capturing = (__typeof__(cuda.capturing))dlsym(library, NAME(cuStreamIsCapturing));
    return cuda.there = cuda.create && cuda.destroy && cuda.record && cuda.query &&
                        cuda.synchronize && cuda.elapsed;
}

static bool captured(CUstream s)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

    return cuda.capturing && cuda.capturing(s, &status) == CUDA_SUCCESS &&
           status != CU_STREAM_CAPTURE_STATUS_NONE;
}

static bool set_anchor(CUstream s)
{
    if (cuda.anchor)
        return true;
    if (cuda.create(&cuda.anchor, CU_EVENT_DEFAULT) != CUDA_SUCCESS)
        return false;
    if (cuda.record(cuda.anchor, s) != CUDA_SUCCESS ||
        cuda.synchronize(cuda.anchor) != CUDA_SUCCESS) {
        cuda.destroy(cuda.anchor);
        cuda.anchor = NULL;
        return false;
    }
    cuda.anchor_ns = record_now_ns();
    return true;
}

static void drop(struct record_span_events *e, bool keep_end)
{
    if (e->start)
        cuda.destroy(e->start);
    if (e->end && !keep_end)
        cuda.destroy(e->end);
    free(e);
}

static void write_span(struct record_span_events *e)
{
    float since = 0, lasted = 0;
    bool ok = cuda.elapsed(&since, cuda.anchor, e->start) == CUDA_SUCCESS &&
              cuda.elapsed(&lasted, e->start, e->end) == CUDA_SUCCESS;
    int64_t start = cuda.anchor_ns + (int64_t)((double)since * 1e6);
    int64_t end = start + (int64_t)((double)lasted * 1e6);
    bool moves = ok && end - cuda.anchor_ns > ANCHOR_LASTS_NS;

    for (int i = 0; ok && i < e->n; i++)
        record_span(e->calls[i], start, end);
    if (moves) {
        cuda.destroy(cuda.anchor);
        cuda.anchor = e->end;
        cuda.anchor_ns = end;
    }
    drop(e, moves);
}

/* Writes the spans at the head of the list that are over. */
static void harvest(void)
{
    while (cuda.head && cuda.query(cuda.head->end) == CUDA_SUCCESS) {
        struct record_span_events *e = cuda.head;
        cuda.head = e->next;
        if (!cuda.head)
            cuda.tail = &cuda.head;
        write_span(e);
    }
}

struct record_span_events *record_cuda_begin(void *stream)
{
    struct record_span_events *e = NULL;

    pthread_mutex_lock(&cuda.mutex);
    if (ready() && !captured(stream) && set_anchor(stream)) {
        harvest();
        e = calloc(1, sizeof *e);
        if (e && (cuda.create(&e->start, CU_EVENT_DEFAULT) != CUDA_SUCCESS ||
                  cuda.create(&e->end, CU_EVENT_DEFAULT) != CUDA_SUCCESS ||
                  cuda.record(e->start, stream) != CUDA_SUCCESS)) {
            drop(e, false);
            e = NULL;
        }
    }
    pthread_mutex_unlock(&cuda.mutex);
    return e;
}

void record_cuda_end(struct record_span_events *e, void *stream, const int64_t *calls, int n)
{
    if (!e)
        return;
    pthread_mutex_lock(&cuda.mutex);
    struct record_span_events *grown = realloc(e, sizeof *e + (size_t)n * sizeof *calls);
    if (!grown || cuda.record(grown->end, stream) != CUDA_SUCCESS) {
        drop(grown ? grown : e, false);
    } else {
        grown->n = n;
        if (n > 0)
            memcpy(grown->calls, calls, (size_t)n * sizeof *calls);
        grown->next = NULL;
        *cuda.tail = grown;
        cuda.tail = &grown->next;
    }
    pthread_mutex_unlock(&cuda.mutex);
}

void record_cuda_finish(void)
{
    int64_t until = record_now_ns() + FINISH_NS;

    pthread_mutex_lock(&cuda.mutex);
    while (cuda.head && record_now_ns() < until) {
        CUresult r = cuda.query(cuda.head->end);
        if (r != CUDA_SUCCESS && r != CUDA_ERROR_NOT_READY)
            break;
        if (r == CUDA_ERROR_NOT_READY)
            nanosleep(&(struct timespec){0, 100000}, NULL);
        harvest();
    }
    pthread_mutex_unlock(&cuda.mutex);
}

/* The CUDA side of the NCCL backend: driver API only, no runtime library. The kernels are a fatbin
 * that the build embeds; a host-mapped pair of words lets the host stop kernels that wait, and
 * kernels report a failure.
 *
 * Time. CUDA events give intervals between events as f32 milliseconds. An event, the anchor, is
 * tied to the host's clock at opening, to half the time that recording and seeing it takes;
 * event times are the anchor's host time plus the interval since. Between polls, when nothing
 * runs, the anchor is renewed: its time comes from the one before, unless the host's clock says
 * that this cannot be. So intervals have the resolution of the events (and of an f32: 60 ns in
 * the first second after the anchor), and a drift between the clocks does not add up. */
#include "exec/nccl/nccl_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const unsigned char lw_kernels_fatbin[];

enum { BLOCK = 256, BLOCKS_PER_SM = 16, ANCHOR_TRIES = 5 };

static const char *const kernel_names[N_KERNELS] = {
#define KERNEL_NAME(name) "lw_" #name,
    KERNEL_LIST(KERNEL_NAME)
#undef KERNEL_NAME
};

enum lw_status nccl_cu(CUresult r, const char *call, struct lw_err *err)
{
    const char *name = NULL, *text = NULL;

    if (r == CUDA_SUCCESS)
        return LW_OK;
    cuGetErrorName(r, &name);
    cuGetErrorString(r, &text);
    return lw_fail(err, r == CUDA_ERROR_OUT_OF_MEMORY ? LW_ENOMEM : LW_EFAILED,
                     "CUDA: %s: %s (%s)", call, text ? text : "unknown error", name ? name : "?");
}

enum lw_status nccl_wait_setup(struct exec_world *w, struct lw_err *err)
{
    int64_t until = exec_now_ns() + w->how.timeout_ns;
    CUresult r;

    for (int32_t i = 0; (r = cuStreamQuery(w->setup)) == CUDA_ERROR_NOT_READY; i++) {
        if (atomic_load(&w->stop))
            return nccl_stopped(w, err);
        if (exec_now_ns() > until)
            return lw_fail(err, LW_ETIMEOUT, "the device is not done after %.3g s",
                           (double)w->how.timeout_ns * 1e-9);
        nccl_doze(i);
    }
    return nccl_cu(r, "cuStreamQuery", err);
}

/* --- memory ----------------------------------------------------------------------------------- */

static enum lw_status take(const struct exec_world *w, struct block *b, struct lw_err *err)
{
    return b->from_nccl ? nccl_register_alloc(w, b->bytes, &b->at, err)
                        : nccl_cu(cuMemAlloc(&b->at, (size_t)b->bytes), "cuMemAlloc", err);
}

static enum lw_status new_block(struct exec_world *w, int64_t bytes, bool from_nccl,
                                CUdeviceptr *at, struct lw_err *err)
{
    struct block *b;

    LW_NEW(b, 1, err);
    b->bytes = bytes > 0 ? bytes : 1;
    b->from_nccl = from_nccl;
    enum lw_status s = take(w, b, err);
    if (s != LW_OK) {
        lw_free(b);
        return s != LW_ENOMEM ? s
                              : lw_fail(err, s, "device %d has no %lld bytes left",
                                        (int)w->device, (long long)bytes);
    }
    b->next = w->blocks;
    w->blocks = b;
    LW_TRY(nccl_cu(cuMemsetD8Async(b->at, 0, (size_t)b->bytes, w->setup), "cuMemsetD8Async", err));
    LW_TRY(nccl_wait_setup(w, err));
    *at = b->at;
    return LW_OK;
}

enum lw_status nccl_mem_new(struct exec_world *w, int64_t bytes, CUdeviceptr *at,
                            struct lw_err *err)
{
    return new_block(w, bytes, false, at, err);
}

enum lw_status nccl_mem_new_message(struct exec_world *w, int64_t bytes, CUdeviceptr *at,
                                    struct lw_err *err)
{
    return new_block(w, bytes, w->how.registered, at, err);
}

/* A plain copy from pageable memory may return before the device has the data, and streams that
 * do not block the legacy stream do not wait for it. This copy is on a stream of its own and
 * waited for. */
enum lw_status nccl_mem_put(struct exec_world *w, CUdeviceptr to, const void *from, int64_t bytes,
                            struct lw_err *err)
{
    if (bytes == 0)
        return LW_OK;
    LW_TRY(nccl_cu(cuMemcpyHtoDAsync(to, from, (size_t)bytes, w->setup), "cuMemcpyHtoDAsync", err));
    return nccl_wait_setup(w, err);
}

void nccl_mem_free(struct exec_world *w, CUdeviceptr at)
{
    for (struct block **b = &w->blocks; *b; b = &(*b)->next) {
        struct block *gone = *b;
        if (gone->at != at)
            continue;
        *b = gone->next;
        if (gone->from_nccl)
            nccl_register_free(at);
        else
            cuMemFree(at);
        lw_free(gone);
        return;
    }
}

/* --- kernels ---------------------------------------------------------------------------------- */

static enum lw_status load_kernels(struct exec_world *w, struct lw_err *err)
{
    LW_TRY(nccl_cu(cuModuleLoadData(&w->module, lw_kernels_fatbin), "cuModuleLoadData", err));
    for (int k = 0; k < N_KERNELS; k++)
        LW_TRY(nccl_cu(cuModuleGetFunction(&w->kernel[k], w->module, kernel_names[k]),
                       kernel_names[k], err));
    return LW_OK;
}

enum lw_status nccl_launch(struct exec_world *w, CUstream s, enum kernel_id k, void *args,
                           int64_t n_threads, struct lw_err *err)
{
    int64_t grid = (n_threads + BLOCK - 1) / BLOCK, most = (int64_t)BLOCKS_PER_SM * w->n_sm;
    unsigned int block = n_threads == 1 ? 1 : BLOCK;
    void *params[] = {args};

    if (grid > most)
        grid = most;
    if (grid < 1)
        grid = 1;
    return nccl_cu(cuLaunchKernel(w->kernel[k], (unsigned int)grid, 1, 1, block, 1, 1, 0, s, params,
                                  NULL),
                   kernel_names[k], err);
}

/* --- time ------------------------------------------------------------------------------------- */

static enum lw_status new_timer(struct exec_world *w, CUevent *e, struct lw_err *err)
{
    if (w->n_timers == w->pool_capacity) { /* room for all of them to come back */
        int64_t more = w->pool_capacity ? 2 * w->pool_capacity : 64;
        CUevent *grown;
        LW_NEW(grown, (size_t)more, err);
        if (w->n_pool > 0)
            memcpy(grown, w->pool, (size_t)w->n_pool * sizeof *grown);
        lw_free(w->pool);
        w->pool = grown;
        w->pool_capacity = more;
    }
    LW_TRY(nccl_cu(cuEventCreate(e, CU_EVENT_DEFAULT), "cuEventCreate", err));
    w->n_timers++;
    return LW_OK;
}

enum lw_status nccl_timer_take(struct exec_world *w, CUevent *e, struct lw_err *err)
{
    if (w->n_pool == 0)
        return new_timer(w, e, err);
    *e = w->pool[--w->n_pool];
    return LW_OK;
}

void nccl_timer_give(struct exec_world *w, CUevent e)
{
    w->pool[w->n_pool++] = e;
}

/* Takes n timers into the pool before a capture, which must not create any. */
enum lw_status nccl_timers_reserve(struct exec_world *w, int64_t n, struct lw_err *err)
{
    while (w->n_pool < n) {
        CUevent e;
        LW_TRY(new_timer(w, &e, err));
        nccl_timer_give(w, e);
    }
    return LW_OK;
}

enum lw_status nccl_event_done(CUevent e, bool *done, struct lw_err *err)
{
    CUresult r = cuEventQuery(e);

    *done = r == CUDA_SUCCESS;
    return r == CUDA_ERROR_NOT_READY ? LW_OK : nccl_cu(r, "cuEventQuery", err);
}

static enum lw_status record_and_see(struct exec_world *w, CUevent e, int64_t *seen_ns,
                                     struct lw_err *err)
{
    CUresult r;

    LW_TRY(nccl_cu(cuEventRecord(e, w->setup), "cuEventRecord", err));
    while ((r = cuEventQuery(e)) == CUDA_ERROR_NOT_READY)
        if (atomic_load(&w->stop))
            return nccl_stopped(w, err);
    *seen_ns = exec_now_ns();
    return nccl_cu(r, "cuEventQuery", err);
}

/* e becomes the anchor: its time by the anchor before, moved into [from, seen] where the clocks
 * have drifted apart. */
static enum lw_status set_anchor(struct exec_world *w, CUevent e, int64_t from, int64_t seen,
                                 struct lw_err *err)
{
    int64_t at = from + (seen - from) / 2;

    if (w->anchor) {
        LW_TRY(nccl_time_of(w, e, &at, err));
        at = at < from ? from : at > seen ? seen : at;
        nccl_timer_give(w, w->anchor);
    }
    w->anchor = e;
    w->anchor_ns = at;
    return LW_OK;
}

/* The first anchor is the one seen quickest of ANCHOR_TRIES; later ones carry it on. */
enum lw_status nccl_anchor(struct exec_world *w, struct lw_err *err)
{
    CUevent best = NULL;
    int64_t best_from = 0, best_seen = INT64_MAX;
    enum lw_status s = LW_OK;

    for (int i = 0; i < (w->anchor ? 1 : ANCHOR_TRIES) && s == LW_OK; i++) {
        CUevent e;
        int64_t from, seen = 0;
        LW_TRY(nccl_timer_take(w, &e, err));
        from = exec_now_ns();
        s = record_and_see(w, e, &seen, err);
        bool better = s == LW_OK && seen - from < best_seen - best_from;
        CUevent worse = better ? best : e;
        if (worse)
            nccl_timer_give(w, worse);
        if (better) {
            best = e;
            best_from = from;
            best_seen = seen;
        }
    }
    if (s == LW_OK)
        s = set_anchor(w, best, best_from, best_seen, err);
    if (s != LW_OK && best)
        nccl_timer_give(w, best);
    return s;
}

enum lw_status nccl_time_of(const struct exec_world *w, CUevent e, int64_t *ns, struct lw_err *err)
{
    float ms = 0;

    LW_TRY(nccl_cu(cuEventElapsedTime(&ms, w->anchor, e), "cuEventElapsedTime", err));
    *ns = w->anchor_ns + (int64_t)((double)ms * 1e6);
    return LW_OK;
}

/* --- the device ------------------------------------------------------------------------------- */

static enum lw_status open_flags(struct exec_world *w, struct lw_err *err)
{
    void *p = NULL;

    LW_TRY(nccl_cu(cuMemHostAlloc(&p, N_FLAGS * sizeof *w->flags, CU_MEMHOSTALLOC_DEVICEMAP),
                   "cuMemHostAlloc", err));
    w->flags = p;
    for (int i = 0; i < N_FLAGS; i++)
        w->flags[i] = 0;
    return nccl_cu(cuMemHostGetDevicePointer(&w->flags_at, p, 0), "cuMemHostGetDevicePointer", err);
}

/* More streams than hardware connections share them, and a stream then waits for another's op
 * that it does not depend on. CUDA has 8 connections unless the environment says otherwise, at
 * most 32. */
CUresult nccl_cuda_init(void)
{
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    return cuInit(0);
}

enum lw_status nccl_device_open(struct exec_world *w, int32_t ordinal, struct lw_err *err)
{
    int n = 0;

    LW_TRY(nccl_cu(nccl_cuda_init(), "cuInit", err));
    LW_TRY(nccl_cu(cuDeviceGetCount(&n), "cuDeviceGetCount", err));
    if (n < 1)
        return lw_fail(err, LW_ENOTSUP, "no CUDA device is visible");
    LW_TRY(nccl_cu(cuDeviceGet(&w->device, ordinal % n), "cuDeviceGet", err));
    LW_TRY(nccl_cu(cuDevicePrimaryCtxRetain(&w->context, w->device), "cuDevicePrimaryCtxRetain",
                   err));
    w->retained = true;
    LW_TRY(nccl_cu(cuCtxSetCurrent(w->context), "cuCtxSetCurrent", err));
    LW_TRY(nccl_cu(cuDeviceGetAttribute(&w->n_sm, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
                                        w->device),
                   "cuDeviceGetAttribute", err));
    LW_TRY(nccl_cu(cuCtxGetStreamPriorityRange(&w->least, &w->greatest),
                   "cuCtxGetStreamPriorityRange", err));
    LW_TRY(nccl_cu(cuStreamCreateWithPriority(&w->setup, CU_STREAM_NON_BLOCKING, w->least),
                   "cuStreamCreateWithPriority", err));
    LW_TRY(load_kernels(w, err));
    LW_TRY(open_flags(w, err));
    return nccl_anchor(w, err);
}

void nccl_device_close(struct exec_world *w)
{
    if (!w->retained)
        return;
    if (w->anchor)
        cuEventDestroy(w->anchor);
    if (w->fork)
        cuEventDestroy(w->fork);
    for (int64_t i = 0; i < w->n_pool; i++)
        cuEventDestroy(w->pool[i]);
    lw_free(w->pool);
    while (w->tables) {
        struct gradient_table *t = w->tables;
        w->tables = t->next;
        lw_free(t);
    }
    nccl_found_free(w);
    while (w->blocks)
        nccl_mem_free(w, w->blocks->at);
    if (w->flags)
        cuMemFreeHost((void *)(uintptr_t)w->flags);
    if (w->module)
        cuModuleUnload(w->module);
    if (w->setup)
        cuStreamDestroy(w->setup);
    cuCtxSetCurrent(NULL);
    cuDevicePrimaryCtxRelease(w->device);
}

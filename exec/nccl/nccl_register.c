/* User buffer registration (--nccl-register): memory from ncclMemAlloc, registered with every
 * communicator that it is used on, so that NCCL moves it without a copy through its own buffers
 * (NCCL user guide, "User Buffer Registration"). A buffer is registered when the first op on it is
 * given, before anything runs. ncclMemAlloc and ncclCommRegister came with NCCL 2.19: they are weak
 * here, so that the plugin loads with an older library, which is refused when registration is asked
 * for. */
#include "exec/nccl/nccl_world.h"

ncclResult_t ncclMemAlloc(void **at, size_t bytes) __attribute__((weak));
ncclResult_t ncclMemFree(void *at) __attribute__((weak));
ncclResult_t ncclCommRegister(const ncclComm_t c, void *at, size_t bytes, void **handle)
    __attribute__((weak));
ncclResult_t ncclCommDeregister(const ncclComm_t c, void *handle) __attribute__((weak));

struct registration {
    struct registration *next;
    CUdeviceptr at;
    void *handle;
};

static enum lw_status result(ncclResult_t r, const char *call, struct lw_err *err)
{
    return r == ncclSuccess ? LW_OK
                            : lw_fail(err, LW_EFAILED, "NCCL: %s: %s", call, ncclGetErrorString(r));
}

enum lw_status nccl_register_open(const struct exec_world *w, struct lw_err *err)
{
    bool can = ncclMemAlloc && ncclMemFree && ncclCommRegister && ncclCommDeregister;
    int version = 0;

    if (can || !w->how.registered)
        return LW_OK;
    ncclGetVersion(&version);
    return lw_fail(err, LW_ENOTSUP, "NCCL %d.%d.%d has no ncclCommRegister (2.19 has): leave out "
                                    "--nccl-register", version / 10000, version / 100 % 100,
                   version % 100);
}

/* NCCL does not say which error of CUDA it met. One that the device keeps is on every stream; else
 * memory was lacking. */
enum lw_status nccl_register_alloc(const struct exec_world *w, int64_t bytes, CUdeviceptr *at,
                                   struct lw_err *err)
{
    void *p = NULL;
    ncclResult_t r = ncclMemAlloc(&p, (size_t)bytes);
    CUresult cuda = r == ncclUnhandledCudaError ? cuStreamQuery(w->setup) : CUDA_SUCCESS;

    if (cuda != CUDA_SUCCESS && cuda != CUDA_ERROR_NOT_READY)
        return nccl_cu(cuda, "ncclMemAlloc", err);
    if (r == ncclSuccess)
        *at = (CUdeviceptr)p;
    return r == ncclUnhandledCudaError ? lw_fail_nomem(err) : result(r, "ncclMemAlloc", err);
}

void nccl_register_free(CUdeviceptr at)
{
    ncclMemFree((void *)at);
}

static const struct block *block_of(const struct exec_world *w, CUdeviceptr at)
{
    const struct block *b = w->blocks;

    while (b && (at < b->at || at >= b->at + (CUdeviceptr)b->bytes))
        b = b->next;
    return b;
}

enum lw_status nccl_register(struct exec_world *w, struct exec_comm *c, const void *mem,
                             struct lw_err *err)
{
    const struct block *b = w->how.registered && c->nccl ? block_of(w, (CUdeviceptr)mem) : NULL;
    struct registration *r;

    if (!b || !b->from_nccl)
        return LW_OK;
    for (r = c->registered; r; r = r->next)
        if (r->at == b->at)
            return LW_OK;
    LW_NEW(r, 1, err);
    enum lw_status s =
        result(ncclCommRegister(c->nccl, (void *)b->at, (size_t)b->bytes, &r->handle),
               "ncclCommRegister", err);
    if (s != LW_OK) {
        lw_free(r);
        return s;
    }
    r->at = b->at;
    r->next = c->registered;
    c->registered = r;
    return LW_OK;
}

void nccl_deregister(struct exec_comm *c)
{
    while (c->registered) {
        struct registration *r = c->registered;
        c->registered = r->next;
        if (c->nccl)
            ncclCommDeregister(c->nccl, r->handle);
        lw_free(r);
    }
}

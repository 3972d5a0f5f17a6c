/* Values that an op takes and that are not what they should be: which is first, and what is there.
 * A kernel of many threads finds the least place; a kernel of one thread after it on the stream
 * reads the value before anything else can overwrite it. Places lie in device memory, in chunks
 * that are never moved, and are read by the host when a step has ended.
 *
 * Invariant: between steps every place says "none". */
#include "exec/nccl/nccl_world.h"

#include <string.h>

enum { PLACES = 256 };
_Static_assert((int)KERNEL_MAX_MEMBERS >= (int)EXEC_MAX_SUMMED &&
                   (int)KERNEL_SEEN == (int)EXEC_SEEN,
               "a kernel takes what a part may hold");

struct found {
    struct found *next;
    CUdeviceptr at; /* struct kernel_found[PLACES] */
    int32_t n;      /* of this step */
    const struct exec_part *part[PLACES];
};

static enum lw_status clear(struct exec_world *w, const struct found *f, struct lw_err *err)
{
    LW_TRY(nccl_cu(cuMemsetD8Async(f->at, 0xff, PLACES * sizeof(struct kernel_found), w->setup),
                   "cuMemsetD8Async", err));
    return nccl_wait_setup(w, err);
}

static enum lw_status room(struct exec_world *w, struct found **found, struct lw_err *err)
{
    for (*found = w->found; *found; *found = (*found)->next)
        if ((*found)->n < PLACES)
            return LW_OK;
    struct found *f;
    LW_NEW(f, 1, err);
    enum lw_status s = nccl_mem_new(w, PLACES * sizeof(struct kernel_found), &f->at, err);
    if (s == LW_OK)
        s = clear(w, f, err);
    if (s != LW_OK) {
        lw_free(f);
        return s;
    }
    f->next = w->found;
    *found = w->found = f;
    return LW_OK;
}

enum lw_status nccl_expect(struct exec_stream *s, const struct exec_part *p, CUdeviceptr table,
                           struct lw_err *err)
{
    const struct exec_gradient *g = &p->gradient;
    struct found *f;

    LW_TRY(room(s->world, &f, err));
    struct kernel_found *at = (struct kernel_found *)f->at + f->n;
    f->part[f->n++] = p;
    struct kernel_expect look = {.from = p->from, .table = (const float *)table, .n = p->count,
                                 .dtype = (int32_t)p->from_dtype, .param = g->param,
                                 .n_ranks = p->n_ranks > 0 ? p->n_ranks : 1, .step = g->step,
                                 .pass = g->pass, .rank = {g->rank}, .found = at};
    struct kernel_note note = {p->from, at, p->count, (int32_t)p->from_dtype};
    for (int32_t k = 0; k < p->n_ranks; k++)
        look.rank[k] = p->ranks[k];
    LW_TRY(nccl_launch(s->world, s->cu, KERNEL_expect, &look, p->count, err));
    s->n_queued++;
    return nccl_launch(s->world, s->cu, KERNEL_note, &note, 1, err);
}

enum lw_status nccl_tell_found(struct exec_world *w, struct lw_err *err)
{
    struct kernel_found got[PLACES];

    for (struct found *f = w->found; f; f = f->next) {
        if (f->n == 0)
            continue;
        LW_TRY(nccl_cu(cuMemcpyDtoH(got, f->at, (size_t)f->n * sizeof *got), "cuMemcpyDtoH", err));
        bool any = false;
        for (int32_t i = 0; i < f->n; i++) {
            if (got[i].place == KERNEL_NOWHERE)
                continue;
            struct exec_mismatch *to = f->part[i]->found;
            *to = (struct exec_mismatch){.place = (int64_t)got[i].place + 1, .got = got[i].value};
            memcpy(to->seen, got[i].seen, sizeof to->seen);
            any = true;
        }
        f->n = 0;
        if (any)
            LW_TRY(clear(w, f, err));
    }
    return LW_OK;
}

void nccl_found_free(struct exec_world *w)
{
    while (w->found) {
        struct found *f = w->found;
        w->found = f->next;
        lw_free(f);
    }
}

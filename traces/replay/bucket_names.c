/* What the all-reduces of gradients are called: by the number of the bucket in its step, its bytes,
 * and how many gradients it holds, where their sizes are recorded and both sums are the same. The
 * order is that of the launches, in which DistributedDataParallel numbers its buckets too. */
#include <stdio.h>
#include <string.h>

#include "shared/base/sort.h"
#include "shared/numbers/order.h"
#include "shared/numbers/units.h"
#include "traces/replay/replay_state.h"

struct bucket {
    int64_t launch_ns, item, bytes;
};

LW_COMPARATOR(by_launch, struct bucket, a->launch_ns, b->launch_ns, a->item, b->item)

static int64_t find(const struct replay_rank *r, const struct lw_step *s, struct bucket *v)
{
    int64_t n = 0;

    for (int64_t i = 0; i < r->comms.n; i++) {
        const struct traces_comm_item *x = &r->comms.items[i];
        int64_t at = x->launch >= 0 ? r->t->start_ns[x->launch] : INT64_MIN;
        if (at >= s->gradients[0].node_start_ns && at < s->end_ns &&
            traces_comm_kind(x->fact.op) == LW_OP_ALL_REDUCE && lw_step_reduces_gradients(s, at))
            v[n++] = (struct bucket){at, i, x->fact.bytes};
    }
    lw_sort(v, n, by_launch);
    return n;
}

/* The gradients of the buckets, in the order of accumulation: how many end within so many bytes.
 * Of several backward passes the last is reduced. False: their sizes do not add up. */
static bool count_gradients(const struct replay_rank *r, const struct lw_step *s,
                            const struct bucket *v, int64_t n, int64_t *count)
{
    int64_t g = s->n_gradients, left = 0, k = 0;
    enum lw_dtype unused;

    for (int64_t i = 0; i < n; i++) {
        if (v[i].bytes <= 0)
            return false;
        left += v[i].bytes;
        count[i] = 0;
    }
    while (g > 0 && left > 0) {
        int64_t bytes = lw_trace_shape_bytes(r->t, s->gradients[--g].row, &unused);
        if (bytes <= 0)
            return false;
        left -= bytes;
    }
    if (left != 0)
        return false;
    for (left = 0; g < s->n_gradients; g++) {
        int64_t bytes = lw_trace_shape_bytes(r->t, s->gradients[g].row, &unused);
        if (left == v[k].bytes) {
            left = 0;
            k++;
        }
        left += bytes;
        if (left > v[k].bytes)
            return false;
        count[k]++;
    }
    return true;
}

enum lw_status replay_bucket_name(struct replay_maker *m, int64_t number, const char *kind,
                                  int64_t bytes, int64_t n_gradients, const char **name)
{
    char size[32] = "", held[48] = "";

    if (bytes > 0) {
        size[0] = ',', size[1] = ' ';
        lw_format_bytes(size + 2, bytes);
    }
    if (n_gradients > 0)
        snprintf(held, sizeof held, ", %lld gradient%s", (long long)n_gradients,
                 lw_plural(n_gradients));
    LW_PRINT(m->arena, *name, m->err, "bucket %lld%s%s%s", (long long)number, kind, size, held);
    return LW_OK;
}

static enum lw_status name_step(struct replay_maker *m, struct replay_rank *r,
                                const struct lw_step *s, struct bucket *v, int64_t *count)
{
    int64_t n = find(r, s, v);
    bool known = count_gradients(r, s, v, n, count);

    for (int64_t i = 0; i < n; i++)
        LW_TRY(replay_bucket_name(m, i, "", v[i].bytes, known ? count[i] : 0,
                                  &r->bucket_name[v[i].item]));
    return LW_OK;
}

enum lw_status replay_name_buckets(struct replay_maker *m, struct replay_rank *r)
{
    const struct lw_steps *steps = &r->s->steps;
    struct bucket *v;
    int64_t *count;

    LW_TAKE(m->arena, r->bucket_name, r->comms.n, m->err);
    LW_TAKE(m->arena, v, r->comms.n, m->err);
    LW_TAKE(m->arena, count, r->comms.n, m->err);
    for (int64_t k = 0; k < steps->n; k++)
        if (steps->steps[k].n_gradients > 0)
            LW_TRY(name_step(m, r, &steps->steps[k], v, count));
    return LW_OK;
}

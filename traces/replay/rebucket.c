/* Buckets anew. The gradients of a step in the order in which they were accumulated, closed by
 * the policy's own rules (shared/bucket/bucket.h), replace the all-reduces that were launched
 * while gradients were accumulated; both must hold the same bytes, else this is no plain
 * DistributedDataParallel. A new bucket is launched when its last gradient is accumulated, and
 * no bucket before an earlier one. The k-th of n recorded waits is for the share k/n of the new
 * buckets, rounded up. The host's time in the recorded launches stays where it was, the new
 * launches take none. */
#include "traces/replay/rebucket.h"

#include <string.h>

#include "traces/trace/comm_facts.h"

struct old {            /* a recorded bucket */
    int64_t call, comm; /* one of them; the other -1 */
    int64_t row, bytes;
};

struct rebucketer {
    const struct traces_source *s;
    const struct lw_trace *t;
    struct lw_bucket_rules rules;
    struct lw_arena *arena;
    struct traces_points *p;
    struct traces_comm_index index;
    struct lw_err *err;
    struct old *old;
    int64_t n_old;
};

static int64_t gradient_bytes(const struct rebucketer *b, const struct lw_gradient *g,
                              struct lw_grad *out)
{
    const struct lw_trace *t = b->t;
    const struct lw_row_detail *d = t->detail[g->row] >= 0 ? &t->details[t->detail[g->row]] : NULL;
    int64_t bytes;

    *out = (struct lw_grad){.dtype = LW_F32};
    if (!d || d->shape_numel < 0 || !lw_trace_dtype(t, d->shape_type, &out->dtype) ||
        __builtin_mul_overflow(d->shape_numel, lw_dtype_size(out->dtype), &bytes))
        return -1;
    out->numel = d->shape_numel;
    return bytes;
}

/* The all-reduces that were launched in [from, to). */
static void find_old(struct rebucketer *b, int64_t from, int64_t to)
{
    const struct lw_trace *t = b->t;
    struct traces_points *p = b->p;

    b->n_old = 0;
    for (int64_t i = 0; i < p->calls.n; i++) {
        const struct traces_call *c = &p->calls.calls[i];
        if (!c->comm || c->n_device == 0 || t->start_ns[c->row] < from || t->start_ns[c->row] >= to)
            continue;
        int64_t row = p->calls.device[c->first_device];
        struct traces_comm_fact f = traces_comm_fact_of(t, &b->index, row, c->row);
        if (traces_comm_kind(f.op) == LW_OP_ALL_REDUCE)
            b->old[b->n_old++] = (struct old){i, -1, row, f.bytes};
    }
    for (int64_t i = 0; i < p->n_comms; i++) {
        const struct traces_host_comm *c = &p->comms[i];
        if (t->start_ns[c->issue] < from || t->start_ns[c->issue] >= to ||
            !strstr(lw_trace_name(t, c->row), "all_reduce"))
            continue;
        struct traces_comm_fact f =
            traces_comm_fact_of(t, &(struct traces_comm_index){0}, c->row, -1);
        b->old[b->n_old++] = (struct old){-1, i, c->row, f.bytes};
    }
}

static enum lw_status check_bytes(const struct rebucketer *b, const struct lw_step *s,
                                  int64_t gradients)
{
    int64_t buckets = 0;

    for (int64_t i = 0; i < b->n_old; i++)
        buckets += b->old[i].bytes > 0 ? b->old[i].bytes : 0;
    if (buckets != gradients)
        return lw_fail_at(b->err, LW_EFORMAT, b->s->file, 0,
                          "%s: its %lld all-reduces during backward hold %lld bytes, its gradients "
                          "%lld: only the buckets of plain data parallelism can be cut anew",
                          s->name, (long long)b->n_old, (long long)buckets, (long long)gradients);
    return LW_OK;
}

/* Recorded bucket o of n is waited for: so are the new ones up to this one of m. */
static int64_t last_of_share(int64_t o, int64_t n, int64_t m)
{
    return ((o + 1) * m + n - 1) / n - 1;
}

static void add_new(struct rebucketer *b, const struct lw_step *s, int64_t step,
                    const struct lw_bucketing *v, const struct lw_grad *grads)
{
    struct traces_points *p = b->p;
    int64_t ns = INT64_MIN, first = p->n_buckets;

    for (int32_t k = 0; k < v->n_buckets; k++) {
        struct traces_bucket x = {.step = step,
                                  .like = b->old[0].row,
                                  .dtype = grads[v->items[v->first[k]]].dtype,
                                  .thread = s->backward_thread};
        for (int32_t i = v->first[k]; i < v->first[k + 1]; i++) {
            int64_t end = lw_trace_end_ns(b->t, s->gradients[v->items[i]].row);
            x.bytes += grads[v->items[i]].numel * lw_dtype_size(grads[v->items[i]].dtype);
            ns = end > ns ? end : ns;
        }
        x.ns = ns;
        p->buckets[p->n_buckets++] = x;
    }
    for (int64_t o = 0; o < b->n_old; o++) {
        p->replaced[p->n_replaced++] = (struct traces_replaced){b->old[o].row, step};
        int64_t upto = first + last_of_share(o, b->n_old, v->n_buckets);
        if (b->old[o].call >= 0) {
            p->new_of_call[b->old[o].call] = upto;
            p->calls.calls[b->old[o].call].kind = TRACES_CALL_OTHER;
        } else {
            p->new_of_comm[b->old[o].comm] = upto;
        }
    }
}

static enum lw_status rebucket_step(struct rebucketer *b, const struct lw_step *s, int64_t step)
{
    int32_t n = (int32_t)s->n_gradients;
    struct lw_grad *grads = lw_arena_alloc(b->arena, n, sizeof *grads);
    int32_t *order = lw_arena_alloc(b->arena, n, sizeof *order);
    struct lw_bucketing v;
    int64_t sum = 0;

    if (!grads || !order)
        return lw_fail_nomem(b->err);
    find_old(b, s->gradients[0].node_start_ns, s->gradients[n - 1].node_end_ns);
    if (b->n_old == 0)
        return LW_OK; /* a step without synchronisation */
    for (int32_t i = 0; i < n; i++) {
        int64_t bytes = gradient_bytes(b, &s->gradients[i], &grads[i]);
        if (bytes < 0 || __builtin_add_overflow(sum, bytes, &sum))
            return lw_fail_at(b->err, LW_EFORMAT, b->s->file, 0,
                              "%s: gradient %d has no shape: other buckets need them (record with "
                              "record_shapes=True)",
                              s->name, i);
        order[i] = i;
    }
    LW_TRY(check_bytes(b, s, sum));
    LW_TRY(lw_bucket_rebuilt(&b->rules, grads, n, order, &v, b->err));
    add_new(b, s, step, &v, grads);
    lw_bucketing_free(&v);
    return LW_OK;
}

enum lw_status traces_rebucket(const struct traces_source *s, const struct lw_bucket_request *want,
                               struct lw_arena *arena, struct traces_points *p, struct lw_err *err)
{
    struct rebucketer b = {.s = s, .t = &s->trace, .arena = arena, .p = p, .err = err};
    int64_t n = 0;

    LW_TRY(lw_bucket_rules(want, &b.rules, err));
    LW_TRY(traces_comm_index_build(&s->trace, arena, &b.index, err));
    for (int64_t k = 0; k < s->steps.n; k++)
        n += s->steps.steps[k].n_gradients;
    p->buckets = lw_arena_alloc(arena, n, sizeof *p->buckets);
    p->new_of_call = lw_arena_alloc(arena, p->calls.n, sizeof *p->new_of_call);
    p->new_of_comm = lw_arena_alloc(arena, p->n_comms, sizeof *p->new_of_comm);
    p->replaced = lw_arena_alloc(arena, p->calls.n + p->n_comms, sizeof *p->replaced);
    b.old = lw_arena_alloc(arena, p->calls.n + p->n_comms, sizeof *b.old);
    if (!p->buckets || !p->new_of_call || !p->new_of_comm || !p->replaced || !b.old)
        return lw_fail_nomem(err);
    memset(p->new_of_call, 0xff, (size_t)p->calls.n * sizeof *p->new_of_call);
    memset(p->new_of_comm, 0xff, (size_t)p->n_comms * sizeof *p->new_of_comm);
    for (int64_t k = 0; k < s->steps.n; k++)
        if (s->steps.steps[k].n_gradients > 0)
            LW_TRY(rebucket_step(&b, &s->steps.steps[k], k));
    if (p->n_buckets == 0)
        return lw_fail_at(err, LW_EFORMAT, s->file, 0,
                          "no all-reduce was launched while gradients were accumulated: there are "
                          "no buckets to cut anew");
    return LW_OK;
}

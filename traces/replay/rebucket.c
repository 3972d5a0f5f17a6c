/* New buckets. The gradients of a step in the order in which they were accumulated, closed by the
 * policy's own rules (shared/bucket/bucket.h), replace the all-reduces that were launched while
 * gradients were accumulated; both must hold the same bytes, else this is not a plain
 * DistributedDataParallel. A new bucket is launched when its last gradient is accumulated, and no
 * bucket before an earlier one. What waited for a recorded bucket waits for the new ones that hold
 * its gradients; where gradients are copied out of the buckets, the copies of a new bucket wait for
 * it: the host thread where the host runs the collectives, else the stream of the copies. A
 * recorded bucket that holds just the gradients of a new one stays as recorded. On a device the
 * host's time in the recorded launches stays where it was, and new launches take none; launches of
 * collectives of the host move with the buckets. */
#include "traces/replay/rebucket.h"

#include <string.h>

#include "traces/replay/host_comms.h"
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

/* torch 1.13 records shapes without types: f32, as for collectives of the host. */
static int64_t gradient_bytes(const struct rebucketer *b, const struct lw_gradient *g,
                              struct lw_grad *out)
{
    const struct lw_row_detail *d = lw_trace_detail(b->t, g->row);
    int64_t bytes;

    *out = (struct lw_grad){.numel = d->shape_numel, .dtype = LW_F32};
    if (d->shape_numel < 0 || d->shape_type >= 0)
        return lw_trace_shape_bytes(b->t, g->row, &out->dtype);
    b->p->n_untyped++;
    return __builtin_mul_overflow(d->shape_numel, lw_dtype_size(LW_F32), &bytes) ? -1 : bytes;
}

static bool is_bucket(const struct lw_step *s, int64_t ns, int64_t to)
{
    return ns >= s->gradients[0].node_start_ns && ns < to && lw_step_reduces_gradients(s, ns);
}

/* The all-reduces that were launched while gradients were accumulated, by their hooks. */
static void find_old(struct rebucketer *b, const struct lw_step *s)
{
    const struct lw_trace *t = b->t;
    struct traces_points *p = b->p;
    int64_t to = s->gradients[s->n_gradients - 1].node_end_ns;

    b->n_old = 0;
    for (int64_t i = 0; i < p->calls.n; i++) {
        const struct traces_call *c = &p->calls.calls[i];
        if (!c->comm || c->n_device == 0 || !is_bucket(s, t->start_ns[c->row], to))
            continue;
        int64_t row = p->calls.device[c->first_device];
        struct traces_comm_fact f = traces_comm_fact_of(t, &b->index, row, c->row);
        if (traces_comm_kind(f.op) == LW_OP_ALL_REDUCE)
            b->old[b->n_old++] = (struct old){i, -1, row, f.bytes};
    }
    for (int64_t i = 0; i < p->n_comms; i++) {
        const struct traces_host_comm *c = &p->comms[i];
        if (!is_bucket(s, t->start_ns[c->issue], to) ||
            !strstr(lw_trace_name(t, c->row), "all_reduce"))
            continue;
        struct traces_comm_fact f = traces_host_comm_fact(t, c->row);
        b->old[b->n_old++] = (struct old){-1, i, c->row, f.bytes};
    }
}

static int64_t bucket_bytes(const struct rebucketer *b)
{
    int64_t buckets = 0;

    for (int64_t i = 0; i < b->n_old; i++)
        buckets += b->old[i].bytes > 0 ? b->old[i].bytes : 0;
    return buckets;
}

/* Of several backward passes of a step (accumulation without synchronisation) the last alone is
 * reduced. */
static struct lw_step last_pass(struct rebucketer *b, const struct lw_step *s)
{
    int64_t left = bucket_bytes(b), n = s->n_gradients, untyped = b->p->n_untyped;
    struct lw_step pass = *s;
    struct lw_grad unused;

    while (n > 0 && left > 0) {
        int64_t bytes = gradient_bytes(b, &s->gradients[n - 1], &unused);
        left -= bytes >= 0 ? bytes : left;
        n--;
    }
    b->p->n_untyped = untyped;
    if (left == 0 && n > 0 && n < s->n_gradients && s->n_gradients % (s->n_gradients - n) == 0) {
        pass.gradients += n;
        pass.n_gradients -= n;
    }
    return pass;
}

static enum lw_status check_bytes(const struct rebucketer *b, const struct lw_step *s,
                                  int64_t gradients)
{
    int64_t buckets = bucket_bytes(b);

    if (buckets != gradients)
        return lw_fail_at(b->err, LW_EFORMAT, b->s->file, 0,
                          "%s: its %lld all-reduces during backward hold %lld bytes, its gradients "
                          "%lld: only the buckets of plain data parallelism can be changed",
                          s->name, (long long)b->n_old, (long long)buckets, (long long)gradients);
    return LW_OK;
}

/* ---- the buckets of one step ---- */

struct span { /* of the step's bytes in the order of accumulation */
    int64_t from, to;
};

struct cut { /* a step while it is cut */
    const struct lw_step *s;
    const struct lw_grad *grads;
    int64_t step;
    struct span *old, *new; /* [n_old], [n_new] */
    bool *keeps_old, *keeps_new; /* a recorded bucket that holds just what a new one would */
    int64_t *copy, n_copies; /* rows of copies out of the buckets */
};

static bool copies_out(const struct cut *c)
{
    return c->n_copies == c->s->n_gradients;
}

static bool same(struct span a, struct span b)
{
    return a.from == b.from && a.to == b.to;
}

static enum lw_status compare_cuts(struct rebucketer *b, struct cut *c,
                                   const struct lw_bucketing *v)
{
    int64_t at = 0;

    LW_TAKE(b->arena, c->old, b->n_old, b->err);
    LW_TAKE(b->arena, c->new, v->n_buckets, b->err);
    LW_TAKE(b->arena, c->keeps_old, b->n_old, b->err);
    LW_TAKE(b->arena, c->keeps_new, v->n_buckets, b->err);
    for (int64_t o = 0; o < b->n_old; o++, at = c->old[o - 1].to)
        c->old[o] = (struct span){at, at + b->old[o].bytes};
    at = 0;
    for (int32_t k = 0; k < v->n_buckets; k++) {
        c->new[k] = (struct span){at, at};
        for (int32_t i = v->first[k]; i < v->first[k + 1]; i++)
            c->new[k].to += c->grads[v->items[i]].numel *
                            lw_dtype_size(c->grads[v->items[i]].dtype);
        at = c->new[k].to;
        for (int64_t o = 0; o < b->n_old; o++)
            if (same(c->old[o], c->new[k]))
                c->keeps_old[o] = c->keeps_new[k] = true;
    }
    return LW_OK;
}

/* What the shortest launch of a collective of the host took; one that ran before its call returned
 * had been handed over by then. */
static int64_t launch_ns(const struct rebucketer *b)
{
    int64_t least = b->p->n_comms > 0 ? INT64_MAX : 0;

    for (int64_t i = 0; i < b->p->n_comms; i++) {
        const struct traces_host_comm *c = &b->p->comms[i];
        int64_t ran = c->start_ns - b->t->start_ns[c->issue], ns = b->t->dur_ns[c->issue];
        ns = ran >= 0 && ran < ns ? ran : ns;
        least = ns < least ? ns : least;
    }
    return least;
}

/* When a host thread, or the stream of its launches, waits for a new bucket: before its first
 * gradient is copied out, or where it waited for the recorded bucket that holds this gradient. */
static int64_t wait_ns(const struct rebucketer *b, const struct cut *c, struct span new,
                       int32_t first)
{
    if (copies_out(c))
        return b->t->start_ns[c->copy[first]];
    for (int64_t o = 0; o < b->n_old; o++)
        if (b->old[o].comm >= 0 && new.from < c->old[o].to)
            return b->p->comms[b->old[o].comm].wait_ns;
    return -1;
}

/* The recorded buckets whose last gradient a new one holds. */
static void find_ends(const struct rebucketer *b, const struct cut *c, struct span new,
                      struct traces_bucket *x)
{
    x->first_end = b->p->n_recorded - b->n_old;
    for (int64_t o = 0; o < b->n_old; o++) {
        x->first_end += c->old[o].to <= new.from;
        x->n_ends += c->old[o].to > new.from && c->old[o].to <= new.to;
    }
}

static void add_new(struct rebucketer *b, const struct cut *c, const struct lw_bucketing *v,
                    int32_t k)
{
    int64_t ns = INT64_MIN;
    struct traces_bucket x = {.step = c->step,
                              .like = b->old[0].row,
                              .bytes = c->new[k].to - c->new[k].from,
                              .number = k,
                              .n_gradients = v->first[k + 1] - v->first[k],
                              .dtype = c->grads[v->items[v->first[k]]].dtype,
                              .thread = c->s->backward_thread,
                              .wait_ns = wait_ns(b, c, c->new[k], v->first[k]),
                              .launch_ns = launch_ns(b)};

    for (int32_t i = v->first[k]; i < v->first[k + 1]; i++) {
        int64_t end = lw_trace_end_ns(b->t, c->s->gradients[v->items[i]].row);
        ns = end > ns ? end : ns;
    }
    for (int64_t i = 0; i < b->p->n_buckets; i++) /* none before an earlier one */
        if (b->p->buckets[i].step == c->step && b->p->buckets[i].ns > ns)
            ns = b->p->buckets[i].ns;
    x.ns = ns;
    find_ends(b, c, c->new[k], &x);
    b->p->buckets[b->p->n_buckets++] = x;
}

/* What waited for a recorded bucket waits for the new ones that hold its gradients; before copies,
 * which wait for their own, for the one that holds its first. */
static void replace_old(struct rebucketer *b, const struct cut *c, const struct lw_bucketing *v,
                        int64_t first, int64_t o)
{
    struct traces_points *p = b->p;
    int64_t upto = -1, next = first;

    int64_t before = copies_out(c) ? c->old[o].from + 1 : c->old[o].to;

    p->n_replaced++;
    for (int32_t k = 0; k < v->n_buckets; k++)
        if (!c->keeps_new[k]) {
            upto = c->new[k].from < before ? next : upto;
            next++;
        }
    if (b->old[o].call >= 0) {
        p->new_of_call[b->old[o].call] = upto;
        p->calls.calls[b->old[o].call].kind = TRACES_CALL_OTHER;
    } else {
        p->replaced_comm[b->old[o].comm] = true;
    }
}

static enum lw_status cut_anew(struct rebucketer *b, struct cut *c, const struct lw_bucketing *v)
{
    int64_t first = b->p->n_buckets;

    LW_TRY(compare_cuts(b, c, v));
    LW_TRY(traces_copies_out(b->t, c->s, b->arena, &c->copy, &c->n_copies, b->err));
    for (int32_t k = 0; k < v->n_buckets; k++) {
        if (!c->keeps_new[k])
            add_new(b, c, v, k);
        b->p->n_kept += c->keeps_new[k];
    }
    for (int64_t o = 0; o < b->n_old; o++)
        if (!c->keeps_old[o])
            replace_old(b, c, v, first, o);
    return LW_OK;
}

static enum lw_status rebucket_step(struct rebucketer *b, const struct lw_step *whole, int64_t step)
{
    find_old(b, whole);
    const struct lw_step pass = last_pass(b, whole), *s = &pass;
    int32_t n = (int32_t)s->n_gradients;
    struct lw_grad *grads;
    struct lw_bucketing v;
    int32_t *order;
    int64_t sum = 0;

    LW_TAKE(b->arena, grads, n, b->err);
    LW_TAKE(b->arena, order, n, b->err);
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
    for (int64_t i = 0; i < b->n_old; i++)
        b->p->recorded[b->p->n_recorded++] =
            (struct traces_recorded_bucket){b->old[i].row, step, b->old[i].bytes};
    struct cut c = {.s = s, .grads = grads, .step = step};
    LW_TRY(lw_bucket_rebuilt(&b->rules, grads, n, order, &v, b->err));
    enum lw_status status = cut_anew(b, &c, &v);
    lw_bucketing_free(&v);
    return status;
}

struct latest { /* launch on a device stream */
    int32_t stream;
    int64_t call;
};

/* An event recorded on a stream after a replaced launch is there when the new buckets are that what
 * waited for the replaced one waits for. */
static enum lw_status follow_records(struct rebucketer *b)
{
    const struct traces_calls *calls = &b->p->calls;
    struct latest *v;
    int64_t n = 0;

    LW_TAKE(b->arena, v, calls->n, b->err);
    for (int64_t i = 0; i < calls->n; i++) {
        const struct traces_call *c = &calls->calls[i];
        int64_t k = 0;
        if (c->n_device == 0 && c->kind != TRACES_CALL_RECORD)
            continue;
        while (k < n && v[k].stream != c->stream)
            k++;
        if (c->kind != TRACES_CALL_RECORD) {
            v[k] = (struct latest){c->stream, i};
            n += k == n;
        } else if (k < n) {
            b->p->new_of_call[i] = b->p->new_of_call[v[k].call];
        }
    }
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
    LW_TAKE(arena, p->buckets, n, err);
    LW_TAKE(arena, p->new_of_call, p->calls.n, err);
    LW_TAKE(arena, p->replaced_comm, p->n_comms, err);
    LW_TAKE(arena, p->recorded, p->calls.n + p->n_comms, err);
    LW_TAKE(arena, b.old, p->calls.n + p->n_comms, err);
    memset(p->new_of_call, 0xff, (size_t)p->calls.n * sizeof *p->new_of_call);
    for (int64_t k = 0; k < s->steps.n; k++)
        if (s->steps.steps[k].n_gradients > 0)
            LW_TRY(rebucket_step(&b, &s->steps.steps[k], k));
    LW_TRY(follow_records(&b));
    if (p->n_buckets + p->n_kept == 0 && n == 0)
        return lw_fail_at(err, LW_EFORMAT, s->file, 0,
                          "no gradient is accumulated in its steps (no torch::autograd::"
                          "AccumulateGrad): there are no buckets to change");
    if (p->n_buckets + p->n_kept == 0)
        return lw_fail_at(err, LW_EFORMAT, s->file, 0,
                          "no all-reduce was launched while gradients were accumulated (a run of "
                          "one rank launches none): there are no buckets to change. A plan with "
                          "buckets is made from a workload: 'lapwing import TRACE -o W.json', then "
                          "'lapwing sim -w W.json -c CLUSTER --dp N --bucket-cap SIZE'");
    return LW_OK;
}

/* Collectives of the host, and the waits for them.
 *
 * The k-th launch (c10d::...) is the k-th run (gloo:...) to start. The end of a run is when its
 * thread ran again, which may be later than the end of the wait for it.
 *
 * DistributedDataParallel waits for the buckets of a step in launch order after the last gradient,
 * and copies each out of its buffer before it waits for the next (pytorch
 * torch/csrc/distributed/c10d/reducer.cpp, finalize_backward). So the wait for the first bucket is
 * the gap after the last gradient, and the wait for any other the gap after the last copy out of
 * the bucket before it, however short. With gradients that are views of their buckets it is the gap
 * after the last gradient in which the run ended, else the moment at which the wait before ended.
 *
 * Any other run is waited for in the gap of its launching thread in which it ended; one that ended
 * in no gap, in the longest gap between its launch and its end, if nothing was launched since. A
 * run is cut at the end of its wait. */
#include "traces/replay/host_comms.h"

#include <string.h>

#include "traces/steps/host_runs.h"
#include "traces/trace/data_parallel.h"

enum { LEAST_GAP_NS = 50000 }; /* between two host ops, to be a wait for a collective */

struct gap {
    int64_t start, end;
};

struct finder {
    const struct traces_source *s;
    const struct lw_trace *t;
    struct traces_points *p;
    struct lw_arena *arena;
    struct lw_err *err;
    int32_t thread; /* whose gaps these are */
    bool *waits;      /* [t->n] ops that hold a wait of FSDP's, whose time is not theirs */
    struct gap *gaps; /* any length */
    int64_t n_gaps;
};

/* ---- runs ---- */

struct traces_comm_fact traces_host_comm_fact(const struct lw_trace *t, int64_t row)
{
    struct traces_comm_fact f = traces_comm_fact_of(t, &(struct traces_comm_index){0}, row, -1);
    const struct lw_row_detail *d = lw_trace_detail(t, row);

    f.op = lw_trace_name(t, row) + strlen("gloo:");
    if (f.bytes < 0 && d->in_numel < 0 && d->shape_type < 0 && d->shape_numel >= 0 &&
        !__builtin_mul_overflow(d->shape_numel, lw_dtype_size(LW_F32), &f.bytes))
        f.dtype = lw_dtype_name(LW_F32);
    return f;
}

static enum lw_status match_runs(struct finder *f)
{
    const struct lw_trace *t = f->t;
    struct traces_points *p = f->p;
    int64_t n = 0, *issue;
    int32_t thread[64];

    LW_TRY(traces_host_launches(t, f->arena, &issue, f->err));
    for (int64_t i = 0; i < t->n; i++)
        n += traces_is_host_run(t, i);
    LW_TAKE(f->arena, p->comms, n, f->err);
    for (int64_t i = 0; i < t->n; i++) {
        if (!traces_is_host_run(t, i))
            continue;
        int32_t k = 0;
        while (k < p->n_workers && thread[k] != t->track[i])
            k++;
        if (k == p->n_workers && k < 64)
            thread[p->n_workers++] = t->track[i];
        if (issue[i] >= 0)
            p->comms[p->n_comms++] = (struct traces_host_comm){
                .row = i, .issue = issue[i], .start_ns = t->start_ns[i], .dur_ns = t->dur_ns[i],
                .wait_ns = -1, .wait_end_ns = -1, .bucket = -1};
    }
    return LW_OK;
}

/* How many earlier runs, of which none lasts longer than `longest`, still run at ns. */
static int32_t running_at(const struct finder *f, int64_t i, int64_t ns, int64_t longest)
{
    int32_t n = 0;

    for (int64_t k = i - 1; k >= 0; k--) {
        int64_t row = f->p->comms[k].row;
        if (ns - f->t->start_ns[row] > longest)
            break;
        n += lw_trace_end_ns(f->t, row) > ns;
    }
    return n;
}

/* A run whose worker was free enters with its launch, the shortest such call after its start, even
 * if its thread ran only later. */
static enum lw_status find_entries(struct finder *f)
{
    const struct lw_trace *t = f->t;
    struct traces_points *p = f->p;
    int64_t *least, longest = 0;

    LW_TAKE(f->arena, least, t->strings.n, f->err);
    for (int64_t s = 0; s < t->strings.n; s++)
        least[s] = INT64_MAX;
    for (int64_t i = 0; i < p->n_comms; i++) {
        const struct traces_host_comm *c = &p->comms[i];
        int64_t *of_name = &least[t->name[c->issue]];
        *of_name = t->dur_ns[c->issue] < *of_name ? t->dur_ns[c->issue] : *of_name;
        longest = t->dur_ns[c->row] > longest ? t->dur_ns[c->row] : longest;
    }
    for (int64_t i = 0; i < p->n_comms; i++) {
        struct traces_host_comm *c = &p->comms[i];
        int64_t at = t->start_ns[c->issue] + least[t->name[c->issue]];
        if (at < c->start_ns && running_at(f, i, at, longest) < p->n_workers) {
            c->dur_ns += c->start_ns - at;
            c->start_ns = at;
        }
    }
    return LW_OK;
}

/* ---- gaps ---- */

/* Stretches of a thread without any op. */
static enum lw_status find_gaps(struct finder *f, int32_t thread)
{
    const struct lw_trace *t = f->t;
    int64_t covered = INT64_MAX;

    f->thread = thread;
    f->n_gaps = 0;
    LW_TAKE(f->arena, f->gaps, t->n, f->err);
    for (int64_t i = 0; i < t->n; i++) {
        if (!lw_trace_on_host(t, i) || t->track[i] != thread || lw_row_is_range(t, i) ||
            f->waits[i])
            continue;
        if (covered != INT64_MAX && t->start_ns[i] > covered)
            f->gaps[f->n_gaps++] = (struct gap){covered, t->start_ns[i]};
        int64_t end = lw_trace_end_ns(t, i);
        covered = covered == INT64_MAX || end > covered ? end : covered;
    }
    return LW_OK;
}

/* How many gaps start before ns. */
static int64_t gaps_before(const struct finder *f, int64_t ns)
{
    return lw_items_upto(f->gaps, f->n_gaps, sizeof *f->gaps, ns - 1);
}

/* The collective ends its wait at `to` at the latest, and began to wait at `from`. */
static void set_wait(const struct finder *f, struct traces_host_comm *c, int64_t from, int64_t to)
{
    int64_t end = lw_trace_end_ns(f->t, c->row);

    end = end < to ? end : to;
    c->dur_ns = end > c->start_ns ? end - c->start_ns : 0;
    c->wait_ns = from < end ? from : to;
    c->wait_end_ns = end > c->wait_ns ? end : c->wait_ns;
}

/* ---- buckets ---- */

static bool is_copy_out(const struct lw_trace *t, int64_t row)
{
    return lw_trace_on_host(t, row) &&
           lw_trace_name_begins(t, row, "torch.distributed.ddp.reducer::copy_bucket_to_grad");
}

enum lw_status traces_copies_out(const struct lw_trace *t, const struct lw_step *step,
                                 struct lw_arena *arena, int64_t **rows, int64_t *n,
                                 struct lw_err *err)
{
    int64_t from = step->n_gradients > 0 ? step->gradients[step->n_gradients - 1].node_end_ns : 0;
    int64_t first = lw_trace_row_at(t, from), last = lw_trace_row_at(t, step->end_ns);

    int64_t n_all;

    LW_TRY(lw_trace_pick(t, first, last, is_copy_out, arena, rows, &n_all, err));
    *n = 0;
    for (int64_t k = 0; k < n_all; k++)
        if (t->track[(*rows)[k]] == step->backward_thread)
            (*rows)[(*n)++] = (*rows)[k];
    return LW_OK;
}

static int64_t elements(const struct lw_trace *t, int64_t row)
{
    const struct lw_row_detail *d = lw_trace_detail(t, row);

    return d->in_numel >= 0 ? d->in_numel : d->shape_numel;
}

/* The all-reduces that the step's backward launched, numbered. */
static int32_t number_buckets(struct finder *f, const struct lw_step *s)
{
    int32_t n = 0;

    for (int64_t i = 0; i < f->p->n_comms; i++) {
        struct traces_host_comm *c = &f->p->comms[i];
        int64_t at = f->t->start_ns[c->issue];
        if (at >= s->gradients[0].node_start_ns &&
            at < s->gradients[s->n_gradients - 1].node_end_ns &&
            f->t->track[c->issue] == s->backward_thread &&
            strstr(lw_trace_name(f->t, c->row), "all_reduce"))
            c->bucket = n++;
    }
    return n;
}

/* The last copy out of each bucket, by elements; false: the copies are not those of the buckets. */
static bool find_copies(const struct finder *f, const struct lw_step *s, const int64_t *copy,
                        int64_t n_copies, int64_t *last)
{
    int64_t k = 0;
    int32_t bucket = 0;

    for (int64_t i = 0; i < f->p->n_comms; i++) {
        const struct traces_host_comm *c = &f->p->comms[i];
        int64_t at = f->t->start_ns[c->issue], left = elements(f->t, c->row);
        if (c->bucket < 0 || at < s->start_ns || at >= s->end_ns)
            continue;
        if (k == n_copies || left <= 0)
            return false;
        for (; left > 0 && k < n_copies; k++) {
            int64_t numel = elements(f->t, copy[k]);
            left = numel < 0 ? -1 : left - numel;
        }
        if (left != 0)
            return false;
        last[bucket++] = copy[k - 1];
    }
    return k == n_copies;
}

/* The wait for a bucket without copies: the gap after `from` in which it ended. */
static void wait_after(struct finder *f, struct traces_host_comm *c, int64_t from)
{
    int64_t end = lw_trace_end_ns(f->t, c->row), k = gaps_before(f, end) - 1;

    if (k >= 0 && f->gaps[k].start >= from && end <= f->gaps[k].end)
        set_wait(f, c, f->gaps[k].start, f->gaps[k].end);
    else
        set_wait(f, c, from, from);
}

static enum lw_status wait_for_buckets(struct finder *f, const struct lw_step *s)
{
    int32_t n = number_buckets(f, s);
    int64_t *copy, n_copies, *last, from = s->gradients[s->n_gradients - 1].node_end_ns;

    LW_TAKE(f->arena, last, n, f->err);
    LW_TRY(traces_copies_out(f->t, s, f->arena, &copy, &n_copies, f->err));
    bool copies = find_copies(f, s, copy, n_copies, last);
    for (int64_t i = 0; i < f->p->n_comms; i++) {
        struct traces_host_comm *c = &f->p->comms[i];
        int64_t at = f->t->start_ns[c->issue];
        if (c->bucket < 0 || at < s->start_ns || at >= s->end_ns)
            continue;
        if (!copies) {
            wait_after(f, c, from);
            from = c->wait_end_ns;
            continue;
        }
        int64_t k = gaps_before(f, from);
        if (k < f->n_gaps)
            set_wait(f, c, f->gaps[k].start, f->gaps[k].end);
        from = lw_trace_end_ns(f->t, last[c->bucket]);
    }
    return LW_OK;
}

/* ---- other collectives ---- */

/* The thread of a collective hands over no other one in [from, to). */
static bool issues_nothing(const struct finder *f, const struct traces_host_comm *c, int64_t from,
                           int64_t to)
{
    const struct traces_points *p = f->p;

    for (const struct traces_host_comm *x = c; x < p->comms + p->n_comms; x++) {
        int64_t at = f->t->start_ns[x->issue];
        if (at >= to)
            break;
        if (at >= from && f->t->track[x->issue] == f->t->track[c->issue])
            return false;
    }
    return true;
}

static void wait_in_gap(struct finder *f, struct traces_host_comm *c)
{
    int64_t end = lw_trace_end_ns(f->t, c->row), issued = lw_trace_end_ns(f->t, c->issue);
    const struct gap *best = NULL;

    for (int64_t k = gaps_before(f, end) - 1; k >= 0 && f->gaps[k].start >= issued; k--) {
        const struct gap *g = &f->gaps[k];
        if (g->end - g->start < LEAST_GAP_NS)
            continue;
        if (end <= g->end) {
            best = g;
            break;
        }
        if (issues_nothing(f, c, g->start, end) &&
            (!best || g->end - g->start > best->end - best->start))
            best = g;
    }
    if (best)
        set_wait(f, c, best->start, best->end);
}

static enum lw_status find_waits(struct finder *f, int32_t thread)
{
    LW_TRY(find_gaps(f, thread));
    for (int64_t k = 0; k < f->s->steps.n; k++) {
        const struct lw_step *s = &f->s->steps.steps[k];
        if (s->n_gradients > 0 && s->backward_thread == thread)
            LW_TRY(wait_for_buckets(f, s));
    }
    for (int64_t i = 0; i < f->p->n_comms; i++)
        if (f->p->comms[i].bucket < 0 && f->t->track[f->p->comms[i].issue] == thread)
            wait_in_gap(f, &f->p->comms[i]);
    return LW_OK;
}

enum lw_status traces_host_comms_find(const struct traces_source *s, struct lw_arena *arena,
                                      struct traces_points *p, struct lw_err *err)
{
    struct finder f = {.s = s, .t = &s->trace, .p = p, .arena = arena, .err = err};

    LW_TRY(traces_holds_fsdp(f.t, arena, &f.waits, err));
    p->blocks = lw_trace_wrapper(f.t) == TRACES_WRAPPER_FSDP2;
    LW_TRY(match_runs(&f));
    LW_TRY(find_entries(&f));
    for (int64_t i = 0; i < p->n_comms; i++) {
        int32_t thread = f.t->track[p->comms[i].issue];
        bool done = false;
        for (int64_t k = 0; k < i && !done; k++)
            done = f.t->track[p->comms[k].issue] == thread;
        if (!done)
            LW_TRY(find_waits(&f, thread));
    }
    return LW_OK;
}

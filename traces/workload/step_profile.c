/* From recorded steps to the cost of one step's compute.
 *
 * Each step becomes a row of numbers: gaps, phases, modules, ready times. Its axis
 * (traces/steps/compute_clock.h) maps host moments to when their work ran and leaves out what
 * data parallelism added; its segments (traces/steps/module_segments.h) say which module that
 * work belongs to. The backward's slots reach from one node's start to the next one's, so
 * modules tile their phase exactly. Under data parallelism the backward ends with its last
 * gradient: what follows is waiting and copying back. Several steps are joined by the median of
 * each number, then stretched so that the parts sum to the median step. */
#include "traces/workload/step_profile.h"

#include <stdlib.h>
#include <string.h>

#include "shared/numbers/median.h"
#include "shared/numbers/units.h"
#include "traces/steps/micro_batches.h"

/* Columns of a step's row of numbers, before those of modules and gradients. The first N_PARTS sum
 * to NET = STEP - EXCLUDED. */
enum column { FORWARD, BACKWARD, OPTIMIZER, GAP_0, N_PARTS = GAP_0 + LW_N_GAPS, NET = N_PARTS, STEP,
              EXCLUDED, BUSY, N_FIXED };

struct marks { /* phase borders of one step on its axis */
    int64_t start, f0, f1, b0, b1, o0, o1, end;
};

struct builder {
    const char *file;
    const struct lw_trace *t;
    const struct lw_steps *steps;
    const struct traces_ready *measured;
    struct traces_profile *p;
    const struct lw_step **used, **next; /* next: the step that follows; NULL = none */
    struct traces_segments *segments; /* [n_steps] */
    int64_t *rows;                    /* [n_steps][width] */
    int64_t width;
    struct lw_err *err;
};

void traces_scale(int64_t *values, int64_t n, int64_t total)
{
    __int128 sum = 0, seen = 0;
    int64_t given = 0;

    for (int64_t i = 0; i < n; i++)
        sum += values[i];
    for (int64_t i = 0; i < n; i++) {
        seen += values[i];
        int64_t upto = sum > 0 ? (int64_t)((2 * seen * total + sum) / (2 * sum)) : total;
        values[i] = upto - given;
        given = upto;
    }
}

/* ---- which steps ---- */

static int64_t step_number(const struct lw_step *s)
{
    const char *digits = s->name + strcspn(s->name, "0123456789");

    return *digits ? strtoll(digits, NULL, 10) : -1;
}

static bool is_whole(const struct lw_step *s)
{
    return s->n_gradients > 0 && s->phase[LW_PHASE_FORWARD].found &&
           s->phase[LW_PHASE_BACKWARD].found;
}

/* What reads a file that holds no training step: a replay needs the host. */
static const char *who_takes(const struct builder *b)
{
    for (int64_t i = 0; i < b->t->n; i++)
        if (lw_trace_on_host(b->t, i) || b->t->class[i] == LW_ROW_LAUNCH)
            return "inspect and sim --replay take";
    return "inspect takes";
}

static enum lw_status no_backward(struct builder *b)
{
    int64_t n_gradients = 0, n_nodes = 0;

    for (int64_t i = 0; i < b->t->n; i++)
        n_nodes += lw_row_is_engine(b->t, i);
    for (int64_t i = 0; i < b->steps->n; i++)
        n_gradients += b->steps->steps[i].n_gradients;
    if (n_gradients > 0)
        return lw_fail(b->err, LW_EFORMAT,
                       "%s: %lld gradients, but no step with both a forward and a backward: the "
                       "host ops of the forward are missing. Record with "
                       "profile(activities=[CPU, CUDA], record_shapes=True)",
                       b->file, (long long)n_gradients);
    if (n_nodes > 0)
        return lw_fail(b->err, LW_EFORMAT,
                       "%s: %lld step(s) and %lld ops of a backward, but no gradient is "
                       "accumulated (no torch::autograd::AccumulateGrad): a sampled or filtered "
                       "file. Record all ops of whole training steps",
                       b->file, (long long)b->steps->n, (long long)n_nodes);
    if (b->steps->n == 0)
        return lw_fail(b->err, LW_EFORMAT,
                       "%s: no training step: expected ProfilerStep#N, lw: ranges or "
                       "Optimizer.step#, found neither one of them nor a backward: inference, or "
                       "recorded without ProfilerActivity.CPU. %s this file as it is",
                       b->file, who_takes(b));
    return lw_fail(b->err, LW_EFORMAT,
                   "%s: %lld step(s), and no backward in the file: inference, or recorded without "
                   "ProfilerActivity.CPU. Record whole training steps with "
                   "profile(activities=[CPU, CUDA], record_shapes=True); %s this file as it is",
                   b->file, (long long)b->steps->n, who_takes(b));
}

static enum lw_status no_step(struct builder *b, int64_t step)
{
    const struct lw_steps *all = b->steps;

    if (step < 0)
        return no_backward(b);
    if (all->n == 0)
        return lw_fail(b->err, LW_EFORMAT,
                       "%s: --step %lld: this trace has no ProfilerStep, no lw: range and no "
                       "Optimizer.step#, so it has no step to choose. Record with prof.step() "
                       "after each training step; %s this file as it is",
                       b->file, (long long)step, who_takes(b));
    return lw_fail(b->err, LW_EFORMAT,
                   "%s: --step %lld: found %lld step%s, %s to %s, none of that number with a "
                   "forward and a backward",
                   b->file, (long long)step, (long long)all->n, lw_plural(all->n),
                   all->steps[0].name, all->steps[all->n - 1].name);
}

/* Of a step that accumulates gradients the last pass: one micro-batch. */
static enum lw_status use_step(struct builder *b, const struct lw_step *s)
{
    struct traces_profile *p = b->p;
    struct lw_step *pass = lw_arena_alloc(&p->arena, 1, sizeof *pass);
    int32_t n_passes;

    if (!pass)
        return lw_fail_nomem(b->err);
    LW_TRY(lw_step_last_pass(b->t, s, &p->arena, pass, &n_passes, b->err));
    if (p->n_steps == 0)
        p->earlier_ns = pass->start_ns - s->start_ns;
    p->n_passes = n_passes > p->n_passes ? n_passes : p->n_passes;
    b->used[p->n_steps++] = n_passes > 1 ? pass : s;
    return LW_OK;
}

static enum lw_status choose_steps(struct builder *b, int64_t step)
{
    struct traces_profile *p = b->p;

    LW_TAKE(&p->arena, b->used, b->steps->n, b->err);
    LW_TAKE(&p->arena, b->next, b->steps->n, b->err);
    for (int64_t i = 0; i < b->steps->n; i++) {
        const struct lw_step *s = &b->steps->steps[i];
        if (step >= 0 && step_number(s) != step)
            continue;
        if (!is_whole(s)) {
            p->n_left_out++;
            continue;
        }
        b->next[p->n_steps] = i + 1 < b->steps->n ? s + 1 : NULL;
        LW_TRY(use_step(b, s));
    }
    if (p->n_steps == 0)
        return no_step(b, step);
    p->step_name = p->n_steps == 1 ? b->used[0]->name : NULL;
    return LW_OK;
}

/* ---- one step ---- */

static int64_t at_least(int64_t ns, int64_t least)
{
    return ns > least ? ns : least;
}

/* INT64_MAX (no later work) becomes the fallback. */
static int64_t start_or(const struct traces_axis *a, int64_t ns, int64_t fallback)
{
    int64_t at = traces_axis_start(a, ns);

    return at == INT64_MAX ? fallback : at;
}

static int64_t ready_of(const struct builder *b, const struct traces_axis *a,
                        const struct lw_gradient *g)
{
    return b->p->ops.device ? traces_axis_end(a, g->node_start_ns) : lw_trace_end_ns(b->t, g->row);
}

static struct marks find_marks(const struct builder *b, const struct traces_axis *a,
                               const struct lw_step *s, const struct lw_step *next)
{
    const struct lw_phase_span *f = &s->phase[LW_PHASE_FORWARD], *o = &s->phase[LW_PHASE_OPTIMIZER],
                               *w = &s->phase[LW_PHASE_BACKWARD];
    struct marks m = {.start = start_or(a, s->start_ns, s->start_ns)};

    m.f0 = at_least(start_or(a, f->start_ns, m.start), m.start);
    m.f1 = at_least(traces_axis_end(a, f->end_ns < w->start_ns ? f->end_ns : w->start_ns), m.f0);
    m.b0 = at_least(start_or(a, w->start_ns, m.f1), m.f1);
    m.b1 = m.b0;
    if (b->p->parallel)
        for (int64_t g = 0; g < s->n_gradients; g++)
            m.b1 = at_least(ready_of(b, a, &s->gradients[g]), m.b1);
    else
        m.b1 = at_least(traces_axis_end(a, w->end_ns), m.b0);
    int64_t host_end = at_least(traces_axis_end(a, w->end_ns), m.b1);
    m.o0 = o->found ? at_least(start_or(a, o->start_ns, host_end), host_end) : host_end;
    m.o1 = o->found ? at_least(traces_axis_end(a, o->end_ns), m.o0) : m.o0;
    m.end = at_least(traces_axis_end(a, s->end_ns), m.o1);
    if (b->p->ops.device && next)
        m.end = at_least(start_or(a, next->start_ns, m.end), m.end);
    else if (b->p->ops.device)
        m.end = at_least(m.start + (s->end_ns - s->start_ns), m.end);
    return m;
}

static int64_t busy_of(const struct builder *b, const struct marks *m)
{
    const struct traces_ops *o = &b->p->ops;
    __int128 sum = 0;
    int64_t length = m->end - m->start;

    for (int64_t i = lw_values_upto(o->max_end, o->n, m->start);
         i < o->n && o->min_start[i] < m->end; i++) {
        int64_t start = b->t->start_ns[o->row[i]], end = lw_trace_end_ns(b->t, o->row[i]);
        start = at_least(start, m->start);
        end = end < m->end ? end : m->end;
        sum += end > start ? end - start : 0;
    }
    return sum < length ? (int64_t)sum : length;
}

/* gap before the optimizer: from the end of the host's backward on, so that waiting for the last
 * all-reduce is not part of it; on a device that wait is in the stream, so it has no such gap. */
static void fill_fixed(const struct builder *b, const struct traces_axis *a,
                       const struct lw_step *s, const struct marks *m, int64_t *row)
{
    int64_t wait_end = b->p->parallel
                           ? b->p->ops.device ? m->o0
                                           : at_least(s->phase[LW_PHASE_BACKWARD].end_ns, m->b1)
                           : m->b1;

    row[FORWARD] = traces_axis_length(a, m->f0, m->f1);
    row[BACKWARD] = traces_axis_length(a, m->b0, m->b1);
    row[OPTIMIZER] = traces_axis_span(a, m->o0, m->o1);
    row[GAP_0 + LW_GAP_BEFORE_FORWARD] = traces_axis_span(a, m->start, m->f0);
    row[GAP_0 + LW_GAP_BEFORE_BACKWARD] = traces_axis_span(a, m->f1, m->b0);
    row[GAP_0 + LW_GAP_BEFORE_OPTIMIZER] = traces_axis_span(a, wait_end, m->o0);
    row[GAP_0 + LW_GAP_AFTER_OPTIMIZER] = traces_axis_span(a, m->o1, m->end);
    row[STEP] = traces_axis_span(a, m->start, m->end);
    for (int i = 0; i < N_PARTS; i++)
        row[NET] += row[i];
    row[EXCLUDED] = row[STEP] - row[NET];
    row[BUSY] = b->p->ops.device ? busy_of(b, m) : 0;
}

static void fill_forward(const struct traces_axis *a, const struct traces_segments *g,
                         const struct marks *m, int64_t *forward)
{
    int64_t at = m->f0;

    if (g->cut == TRACES_CUT_GRADIENTS)
        return; /* shared out like the backward, see join_steps */
    for (int32_t i = 0; i < g->n; i++) {
        int64_t end = i + 1 < g->n ? start_or(a, g->start_ns[i + 1], m->f1) : m->f1;
        end = at_least(end < m->f1 ? end : m->f1, at);
        forward[i] = traces_axis_length(a, at, end);
        at = end;
    }
}

/* A recorded moment of the backward (from its start) moved to where measured ready times put it. */
struct warp {
    int64_t n;
    int64_t *from, *to; /* ascending; from[0] = to[0] = 0 */
};

static int64_t warped(const struct warp *w, int64_t ns)
{
    int64_t i = 1;

    if (w->n < 2)
        return ns;
    while (i < w->n - 1 && w->from[i] < ns)
        i++;
    int64_t length = w->from[i] - w->from[i - 1], moved = w->to[i] - w->to[i - 1];
    if (length == 0)
        return w->to[i];
    return w->to[i - 1] + (int64_t)((__int128)(ns - w->from[i - 1]) * moved / length);
}

static enum lw_status make_warp(struct builder *b, const int64_t *ready, int64_t backward,
                                struct warp *w)
{
    int64_t n = b->p->n_gradients;

    *w = (struct warp){0};
    if (!b->measured->ready_ns)
        return LW_OK;
    LW_TAKE(&b->p->arena, w->from, n + 2, b->err);
    LW_TAKE(&b->p->arena, w->to, n + 2, b->err);
    w->n = n + 2;
    for (int64_t i = 0; i < n; i++) {
        int64_t to = b->measured->ready_ns[i];
        to = to < b->measured->backward_ns ? to : b->measured->backward_ns;
        w->from[i + 1] = ready[i];
        w->to[i + 1] = at_least(to, w->to[i]);
    }
    w->from[n + 1] = at_least(backward, w->from[n]);
    w->to[n + 1] = b->measured->backward_ns;
    return LW_OK;
}

static void fill_backward(const struct builder *b, const struct traces_axis *a,
                          const struct lw_step *s, const struct traces_segments *g,
                          const struct marks *m, const struct warp *w, int64_t *backward)
{
    int64_t at = m->b0, before = 0;

    for (int64_t i = 0; i <= s->n_nodes; i++) {
        int64_t end = i < s->n_nodes ? start_or(a, b->t->start_ns[s->nodes[i]], m->b1) : m->b1;
        int32_t owner = i == 0 ? g->n - 1 : g->of_node[i - 1];
        end = at_least(end < m->b1 ? end : m->b1, at);
        int64_t upto = warped(w, traces_axis_length(a, m->b0, end));
        backward[owner] += upto - before;
        before = upto;
        at = end;
    }
}

static void fill_ready(const struct builder *b, const struct traces_axis *a,
                       const struct lw_step *s, const struct marks *m, int64_t *ready)
{
    int64_t last = 0;

    for (int64_t i = 0; i < s->n_gradients; i++) {
        int64_t at = ready_of(b, a, &s->gradients[i]);
        at = at < m->b1 ? at : m->b1;
        ready[i] = last = at_least(traces_axis_length(a, m->b0, at), last);
    }
}

static enum lw_status fill_step(struct builder *b, int32_t k)
{
    struct traces_profile *p = b->p;
    const struct lw_step *s = b->used[k], *next = b->next[k];
    int64_t *row = b->rows + k * b->width, *ready = row + N_FIXED + 2 * p->n_modules;
    struct lw_arena scratch = {0};
    struct traces_axis a;
    struct warp w;
    enum lw_status status =
        traces_axis_build(b->t, &p->ops, s, p->parallel, &scratch, &a, b->err);

    a.host_scale = p->host_scale;
    if (status == LW_OK) {
        struct marks m = find_marks(b, &a, s, next);
        fill_fixed(b, &a, s, &m, row);
        fill_forward(&a, &b->segments[k], &m, row + N_FIXED);
        fill_ready(b, &a, s, &m, ready);
        status = make_warp(b, ready, row[BACKWARD], &w);
        if (status == LW_OK) {
            fill_backward(b, &a, s, &b->segments[k], &m, &w, row + N_FIXED + p->n_modules);
            for (int32_t i = 0; w.n > 0 && i < p->n_gradients; i++)
                ready[i] = w.to[i + 1];
        }
    }
    lw_arena_free(&scratch);
    return status;
}

/* ---- host gaps ---- */

struct split { /* of a step */
    int64_t length, idle;
};

static int64_t scaled_median(const struct split *v, int64_t *scratch, int32_t n, int64_t scale)
{
    for (int32_t k = 0; k < n; k++)
        scratch[k] =
            v[k].length - v[k].idle + (int64_t)((__int128)v[k].idle * scale / TRACES_HOST_UNIT);
    return lw_median(scratch, n);
}

/* How long the used steps are, and for how much of that the device waits for the host. */
static enum lw_status split_steps(struct builder *b, struct split *v)
{
    struct traces_profile *p = b->p;
    struct lw_arena room = {0};
    enum lw_status status = LW_OK;

    p->step_min_ns = INT64_MAX;
    for (int32_t k = 0; k < p->n_steps; k++) {
        struct traces_axis a;
        lw_arena_free(&room);
        status = traces_axis_build(b->t, &p->ops, b->used[k], p->parallel, &room, &a, b->err);
        if (status != LW_OK)
            break;
        struct marks m = find_marks(b, &a, b->used[k], b->next[k]);
        v[k] = (struct split){m.end - m.start, traces_ops_idle(&p->ops, m.start, m.end)};
        p->step_min_ns = v[k].length < p->step_min_ns ? v[k].length : p->step_min_ns;
        p->step_max_ns = v[k].length > p->step_max_ns ? v[k].length : p->step_max_ns;
    }
    lw_arena_free(&room);
    return status;
}

/* The scale with which the median step takes as long as it was measured to take without the
 * profiler, which costs the host time: at most four times the recorded gaps. The measured step is
 * one optimizer step, so it is not compared with the last of several backward passes. */
static enum lw_status scale_host(struct builder *b)
{
    const int64_t most = 4 * (int64_t)TRACES_HOST_UNIT;
    struct traces_profile *p = b->p;
    int64_t *scratch;
    struct split *v;

    p->host_scale = TRACES_HOST_UNIT;
    LW_TAKE(&p->arena, v, p->n_steps, b->err);
    LW_TAKE(&p->arena, scratch, p->n_steps, b->err);
    LW_TRY(split_steps(b, v));
    p->profiled_ns = scaled_median(v, scratch, p->n_steps, TRACES_HOST_UNIT);
    if (!p->device || p->n_passes > 1 || b->measured->device_step_ns <= 0)
        return LW_OK;
    p->host_scale = 0;
    for (int64_t bit = most; bit > 0; bit /= 2)
        if (p->host_scale + bit <= most &&
            scaled_median(v, scratch, p->n_steps, p->host_scale + bit) <=
                b->measured->device_step_ns)
            p->host_scale += bit;
    return LW_OK;
}

/* ---- all steps ---- */

static bool is_alike(const struct builder *b, int32_t a, int32_t k)
{
    const struct traces_segments *first = &b->segments[a], *g = &b->segments[k];

    if (b->used[k]->n_gradients != b->used[a]->n_gradients || g->n != first->n)
        return false;
    for (int32_t i = 0; i < g->n; i++)
        if (g->name[i] != first->name[i] && strcmp(g->name[i], first->name[i]) != 0)
            return false;
    return true;
}

/* Steps of a capture may lack events. The pattern that most steps show counts (of equals: the one
 * with the most gradients, then the earliest); steps that differ from it are left out. */
static int32_t common_step(const struct builder *b)
{
    int32_t best = 0, most = 0;

    for (int32_t a = 0; a < b->p->n_steps; a++) {
        int32_t n = 0;
        for (int32_t k = 0; k < b->p->n_steps; k++)
            n += is_alike(b, a, k);
        if (n > most || (n == most && b->used[a]->n_gradients > b->used[best]->n_gradients)) {
            best = a;
            most = n;
        }
        if (2 * most > b->p->n_steps)
            break;
    }
    return best;
}

static void keep_alike(struct builder *b)
{
    struct traces_profile *p = b->p;
    int32_t reference = common_step(b), n = 0;

    for (int32_t k = 0; k < p->n_steps; k++) {
        if (!is_alike(b, reference, k))
            continue;
        b->used[n] = b->used[k];
        b->next[n] = b->next[k];
        b->segments[n] = b->segments[k];
        reference = n++; /* the kept ones are alike, so any of them serves to compare with */
    }
    p->n_unlike = p->n_steps - n;
    p->n_steps = n;
    p->step_name = n == 1 ? b->used[0]->name : NULL;
}

static enum lw_status find_segments(struct builder *b)
{
    struct traces_profile *p = b->p;

    LW_TAKE(&p->arena, b->segments, p->n_steps, b->err);
    for (int32_t k = 0; k < p->n_steps; k++)
        LW_TRY(traces_segments_find(b->t, b->used[k], &p->arena, &b->segments[k], b->err));
    keep_alike(b);
    p->cut = b->segments[0].cut;
    p->n_modules = b->segments[0].n;
    p->module_name = b->segments[0].name;
    p->module_of = b->segments[0].of_gradient;
    p->n_gradients = (int32_t)b->used[0]->n_gradients;
    p->step = b->used[0];
    p->segments = &b->segments[0];
    if (b->measured->ready_ns && b->measured->n_gradients != p->n_gradients)
        return lw_fail(b->err, LW_EFORMAT,
                       "%s: %d gradients a step, but %lld measured ready times: the sidecar "
                       "belongs to another model",
                       b->file, p->n_gradients, (long long)b->measured->n_gradients);
    return LW_OK;
}

/* Bytes of the first input that an op of this module has; -1 = none was recorded. */
static int64_t input_bytes(const struct builder *b, int64_t from, int64_t to)
{
    const struct lw_trace *t = b->t;
    int64_t bytes;

    for (int64_t i = lw_trace_row_at(t, from), n = lw_trace_row_at(t, to); i < n; i++) {
        const struct lw_row_detail *d = lw_trace_detail(t, i);
        enum lw_dtype dtype = LW_F32;
        if (t->track[i] != b->used[0]->thread || d->shape_numel <= 0 ||
            !lw_trace_name_begins(t, i, "aten::"))
            continue;
        lw_trace_dtype(t, d->shape_type, &dtype); /* f32 where it is not recorded */
        if (!__builtin_mul_overflow(d->shape_numel, lw_dtype_size(dtype), &bytes))
            return bytes;
    }
    return -1;
}

static enum lw_status fill_passed(struct builder *b)
{
    struct traces_profile *p = b->p;
    const struct traces_segments *g = &b->segments[0];
    int64_t end = b->used[0]->phase[LW_PHASE_FORWARD].end_ns;

    LW_TAKE(&p->arena, p->passed_bytes, p->n_modules, b->err);
    for (int32_t i = 0; i < p->n_modules; i++)
        p->passed_bytes[i] =
            p->cut == TRACES_CUT_GRADIENTS || i + 1 == p->n_modules
                ? -1
                : input_bytes(b, g->start_ns[i + 1], i + 2 < g->n ? g->start_ns[i + 2] : end);
    return LW_OK;
}

static enum lw_status fill_shapes(struct builder *b)
{
    struct traces_profile *p = b->p;

    LW_TAKE(&p->arena, p->numel, p->n_gradients, b->err);
    LW_TAKE(&p->arena, p->dtype, p->n_gradients, b->err);
    p->dtype_known = true;
    for (int32_t i = 0; i < p->n_gradients; i++) {
        const struct lw_row_detail *d = lw_trace_detail(b->t, b->used[0]->gradients[i].row);
        p->numel[i] = d->shape_numel;
        if (!lw_trace_dtype(b->t, d->shape_type, &p->dtype[i])) {
            p->dtype[i] = LW_F32;
            p->dtype_known = false;
        }
    }
    return fill_passed(b);
}

/* Median of column i over the steps; of an even number the mean of the middle two. */
static int64_t median(const struct builder *b, int64_t *scratch, int64_t i)
{
    int32_t n = b->p->n_steps;

    for (int32_t k = 0; k < n; k++)
        scratch[k] = b->rows[k * b->width + i];
    return lw_median(scratch, n);
}

/* Lists in ready order, moved to the joined backward's length. */
static void set_ready(struct traces_profile *p, int64_t *ready, int64_t old_backward)
{
    int64_t last = 0;

    for (int32_t i = 0; i < p->n_gradients; i++) {
        if (old_backward > 0 && old_backward != p->backward_total_ns)
            ready[i] = (int64_t)((__int128)ready[i] * p->backward_total_ns / old_backward);
        ready[i] = at_least(ready[i], last);
        ready[i] = last = ready[i] < p->backward_total_ns ? ready[i] : p->backward_total_ns;
    }
    p->ready_ns = ready;
}

static enum lw_status join_steps(struct builder *b)
{
    struct traces_profile *p = b->p;
    int64_t *row, *scratch;

    LW_TAKE(&p->arena, row, b->width, b->err);
    LW_TAKE(&p->arena, scratch, p->n_steps, b->err);
    for (int64_t i = 0; i < b->width; i++)
        row[i] = median(b, scratch, i);
    int64_t backward = row[BACKWARD];
    if (p->host_scale != TRACES_HOST_UNIT) /* the median step is the measured one */
        row[NET] = at_least(row[STEP] - row[EXCLUDED], 0);
    traces_scale(row, N_PARTS, row[NET]);
    p->forward_total_ns = row[FORWARD];
    p->backward_total_ns = b->measured->ready_ns ? b->measured->backward_ns : row[BACKWARD];
    p->optimizer_ns = row[OPTIMIZER];
    memcpy(p->gap_ns, row + GAP_0, sizeof p->gap_ns);
    p->step_ns = row[STEP];
    p->excluded_ns = row[EXCLUDED];
    p->busy_ns = row[BUSY];
    p->forward_ns = row + N_FIXED;
    p->backward_ns = p->forward_ns + p->n_modules;
    if (p->cut == TRACES_CUT_GRADIENTS)
        memcpy(p->forward_ns, p->backward_ns, (size_t)p->n_modules * sizeof *p->forward_ns);
    traces_scale(p->forward_ns, p->n_modules, p->forward_total_ns);
    traces_scale(p->backward_ns, p->n_modules, p->backward_total_ns);
    set_ready(p, p->backward_ns + p->n_modules,
              b->measured->ready_ns ? p->backward_total_ns : backward);
    return LW_OK;
}

static enum lw_status build(struct builder *b, int64_t step)
{
    struct traces_profile *p = b->p;

    LW_TRY(choose_steps(b, step));
    LW_TRY(traces_ops_build(b->t, &p->arena, &b->p->ops, b->err));
    p->device = p->ops.device;
    LW_TRY(find_segments(b));
    LW_TRY(fill_shapes(b));
    b->width = N_FIXED + 2 * (int64_t)p->n_modules + p->n_gradients;
    LW_TAKE(&p->arena, b->rows, p->n_steps * b->width, b->err);
    LW_TRY(scale_host(b));
    for (int32_t k = 0; k < p->n_steps; k++)
        LW_TRY(fill_step(b, k));
    return join_steps(b);
}

enum lw_status traces_profile_build(const char *file, const struct lw_trace *t,
                                    const struct lw_steps *steps, bool parallel,
                                    int64_t step, const struct traces_ready *measured,
                                    struct traces_profile *out, struct lw_err *err)
{
    struct traces_profile p = {.parallel = parallel};
    struct builder b = {.file = file, .t = t, .steps = steps, .measured = measured, .p = &p,
                        .err = err};
    enum lw_status status = build(&b, step);

    LW_GIVE(status, out, p, traces_profile_free(&p));
}

LW_FREE_BY_ARENA(traces_profile_free, struct traces_profile)

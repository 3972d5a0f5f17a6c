/* Meaning of a trace: steps, their phases, gradients, collectives.
 *
 * A step is, in this order of trust: what the importer found; a ProfilerStep#N range; an
 * lw:zero_grad .. lw:optimizer sequence of ranges (record_ddp.py); what ends with an
 * Optimizer.step#; the whole capture, where it holds gradients and no mark. A phase is a range
 * with a known name; where none was recorded, the backward is from the first to the last node that
 * the autograd engine ran, and the forward is from the first op with an autograd sequence number to
 * there (without such numbers: from the first op after data loading, and after zero_grad, if that
 * does not follow the forward). A node is an
 * autograd::engine::evaluate_function range, or, before torch 1.10, an op whose name ends in
 * "Backward" and a number. A gradient is one torch::autograd::AccumulateGrad; DDP waits for the
 * same event. The engine runs it right after the node that produced it, as it has the highest
 * priority of all (pytorch torch/csrc/autograd/engine.cpp, NodeTask order), so that node is the
 * last other one before it. Several backward passes in one step are parted by
 * micro_batches.c. Not modelled: steps that overlap. */
#include "traces/steps/step_phases.h"

#include <string.h>

static const char ACCUMULATE[] = "torch::autograd::AccumulateGrad";
static const char EVALUATE[] = "autograd::engine::evaluate_function: ";

/* Names of phase ranges, the most trusted first; prefix: anything may follow. */
static const struct {
    enum lw_phase phase;
    const char *name;
    bool prefix;
} phase_names[] = {
    {LW_PHASE_ZERO_GRAD, "lw:zero_grad", false},
    {LW_PHASE_ZERO_GRAD, "## zero_grad ##", false},
    {LW_PHASE_ZERO_GRAD, "Optimizer.zero_grad#", true},
    {LW_PHASE_FORWARD, "lw:forward", false},
    {LW_PHASE_FORWARD, "## forward ##", false},
    {LW_PHASE_BACKWARD, "lw:backward", false},
    {LW_PHASE_BACKWARD, "## backward ##", false},
    {LW_PHASE_OPTIMIZER, "lw:optimizer", false},
    {LW_PHASE_OPTIMIZER, "## optimizer ##", false},
    {LW_PHASE_OPTIMIZER, "Optimizer.step#", true},
};

static const char *const range_prefixes[] = {
    "ProfilerStep", "Optimizer.", "lw:", "##", "enumerate(", "DistributedDataParallel.",
    "FullyShardedDataParallel.", "FSDP::", "nn.Module:", "[pl]", "gloo:", "nccl:",
};

bool lw_row_is_range(const struct lw_trace *t, int64_t row)
{
    if (t->class[row] == LW_ROW_USER)
        return true;
    for (size_t i = 0; i < sizeof range_prefixes / sizeof *range_prefixes; i++)
        if (lw_trace_name_begins(t, row, range_prefixes[i]))
            return true;
    return false;
}

static bool is_named(const struct lw_trace *t, int64_t row, const char *name)
{
    return lw_trace_on_host(t, row) && strcmp(lw_trace_name(t, row), name) == 0;
}

static bool begins(const struct lw_trace *t, int64_t row, const char *prefix)
{
    return lw_trace_on_host(t, row) && lw_trace_name_begins(t, row, prefix);
}

/* ---- steps ---- */

struct marks { /* a step while it is looked for */
    const char *name;
    int64_t start, end;
    int32_t thread;
};

struct finder {
    const struct lw_trace *t;
    struct marks *marks;
    int64_t n, cap;
    struct lw_err *err;
};

static enum lw_status add_step(struct finder *f, const char *name, int64_t start, int64_t end,
                               int32_t thread)
{
    if (lw_reserve(&f->marks, &f->cap, f->n + 1, sizeof *f->marks) < 0)
        return lw_fail_nomem(f->err);
    f->marks[f->n++] = (struct marks){name, start, end, thread};
    return LW_OK;
}

static enum lw_status by_importer(struct finder *f)
{
    const struct lw_trace *t = f->t;

    for (int64_t k = 0; k < t->n_steps; k++) {
        int64_t i = t->step_rows[k];
        LW_TRY(add_step(f, lw_trace_name(t, i), t->start_ns[i], lw_trace_end_ns(t, i),
                        t->track[i]));
    }
    return LW_OK;
}

/* A name counts once: the device's twin of a range has the same. */
static enum lw_status by_profiler(struct finder *f)
{
    const struct lw_trace *t = f->t;
    struct lw_arena scratch = {0};
    bool *seen = lw_arena_alloc(&scratch, t->strings.n, sizeof *seen);
    enum lw_status status = seen ? LW_OK : lw_fail_nomem(f->err);

    for (int64_t i = 0; status == LW_OK && i < t->n; i++)
        if (begins(t, i, "ProfilerStep#") && !seen[t->name[i]]) {
            seen[t->name[i]] = true;
            status = add_step(f, lw_trace_name(t, i), t->start_ns[i], lw_trace_end_ns(t, i),
                              t->track[i]);
        }
    lw_arena_free(&scratch);
    return status;
}

/* From lw:zero_grad (or lw:forward, where that comes first) to the next lw:optimizer's end. */
static enum lw_status by_ranges(struct finder *f)
{
    const struct lw_trace *t = f->t;
    int64_t first = -1;

    for (int64_t i = 0; i < t->n; i++) {
        if (first < 0 && (is_named(t, i, "lw:zero_grad") || is_named(t, i, "lw:forward")))
            first = i;
        if (first >= 0 && is_named(t, i, "lw:optimizer")) {
            LW_TRY(add_step(f, NULL, t->start_ns[first], lw_trace_end_ns(t, i), t->track[i]));
            first = -1;
        }
    }
    return LW_OK;
}

/* From the first op of the thread (later: the last step's end) to the end of Optimizer.step#. */
static enum lw_status by_optimizer(struct finder *f)
{
    const struct lw_trace *t = f->t;
    int64_t from = INT64_MIN;

    for (int64_t i = 0; i < t->n; i++)
        if (begins(t, i, "Optimizer.step#") && t->start_ns[i] >= from) {
            int64_t start = from;
            for (int64_t k = 0; k < i && start == INT64_MIN; k++)
                if (lw_trace_on_host(t, k) && t->track[k] == t->track[i])
                    start = t->start_ns[k];
            start = start == INT64_MIN ? t->start_ns[i] : start;
            from = lw_trace_end_ns(t, i);
            LW_TRY(add_step(f, NULL, start, from, t->track[i]));
        }
    return LW_OK;
}

static bool is_gradient(const struct lw_trace *t, int64_t row)
{
    return t->class[row] == LW_ROW_HOST && (strcmp(lw_trace_name(t, row), ACCUMULATE) == 0 ||
                                            strcmp(lw_trace_name(t, row), "AccumulateGrad") == 0);
}

/* A capture without any mark that holds gradients: all of it, on the thread of its first
 * forward. */
static enum lw_status by_capture(struct finder *f)
{
    const struct lw_trace *t = f->t;
    int64_t first = -1, end = INT64_MIN, n_gradients = 0;

    for (int64_t i = 0; i < t->n; i++) {
        if (!lw_trace_on_host(t, i))
            continue;
        n_gradients += is_gradient(t, i);
        if (first < 0 && !lw_row_is_engine(t, i))
            first = i;
        end = lw_trace_end_ns(t, i) > end ? lw_trace_end_ns(t, i) : end;
    }
    if (first < 0 || n_gradients == 0)
        return LW_OK;
    return add_step(f, NULL, t->start_ns[first], end, t->track[first]);
}

static enum lw_status find_marks(struct finder *f, const char **found_by)
{
    const struct {
        enum lw_status (*look)(struct finder *f);
        const char *by;
    } ways[] = {{by_importer, f->t->steps_by}, {by_profiler, "ProfilerStep#N"},
                {by_ranges, "lw: ranges"},
                {by_optimizer, "Optimizer.step#"}, {by_capture, "the whole capture"}};

    *found_by = "nothing";
    for (size_t k = 0; k < sizeof ways / sizeof *ways && f->n == 0; k++) {
        LW_TRY(ways[k].look(f));
        *found_by = f->n > 0 ? ways[k].by : *found_by;
    }
    return LW_OK;
}

/* ---- what is in a step ---- */

static bool matches(const struct lw_trace *t, int64_t row, size_t k)
{
    return phase_names[k].prefix ? begins(t, row, phase_names[k].name)
                                 : is_named(t, row, phase_names[k].name);
}

static void find_ranges(const struct lw_trace *t, struct lw_step *s, int64_t from, int64_t to)
{
    for (size_t k = 0; k < sizeof phase_names / sizeof *phase_names; k++) {
        struct lw_phase_span span = {0}, *p = &s->phase[phase_names[k].phase];
        for (int64_t i = from; i < to && !p->found; i++) {
            int64_t end = lw_trace_end_ns(t, i);
            if (t->track[i] != s->thread || !matches(t, i, k))
                continue;
            if (!span.found)
                span = (struct lw_phase_span){true, t->start_ns[i], end};
            span.end_ns = end > span.end_ns ? end : span.end_ns;
        }
        if (span.found)
            *p = span;
    }
}

/* "ReluBackward0", "CudnnConvolutionBackward", "my::CustomBackward": what follows the last
 * "Backward" is at most a number. aten::..._backward ops are not nodes. */
static bool is_backward_node(const char *name)
{
    const char *mark = NULL;

    for (const char *p = name; (p = strstr(p, "Backward")) != NULL; p++)
        mark = p;
    return mark && mark[8 + strspn(mark + 8, "0123456789")] == '\0';
}

bool lw_row_is_engine(const struct lw_trace *t, int64_t row)
{
    return begins(t, row, EVALUATE) || begins(t, row, "torch::autograd::") ||
           is_gradient(t, row) ||
           (t->class[row] == LW_ROW_HOST && is_backward_node(lw_trace_name(t, row)));
}

static enum lw_status find_gradients(const struct lw_trace *t, struct lw_step *s, int64_t from,
                                     int64_t to, struct lw_arena *arena, struct lw_err *err)
{
    int64_t *rows, votes = 0;

    LW_TRY(lw_trace_pick(t, from, to, is_gradient, arena, &rows, &s->n_gradients, err));
    LW_TAKE(arena, s->gradients, s->n_gradients, err);
    for (int64_t k = 0; k < s->n_gradients; k++) {
        int64_t i = rows[k];
        s->gradients[k] = (struct lw_gradient){i, t->start_ns[i], lw_trace_end_ns(t, i), -1};
        /* majority vote (Boyer and Moore): which thread runs the backward */
        s->backward_thread = votes == 0 ? t->track[i] : s->backward_thread;
        votes += t->track[i] == s->backward_thread ? 1 : -1;
    }
    return LW_OK;
}

static bool is_host_collective(const struct lw_trace *t, int64_t row)
{
    return begins(t, row, "gloo:");
}

/* The engine's own nodes, or any op of a thread that only runs backward. */
struct lw_phase_span lw_step_engine(const struct lw_trace *t, const struct lw_step *s, int64_t from,
                                    int64_t to)
{
    struct lw_phase_span b = {0};

    for (int64_t i = from; i < to; i++) {
        int64_t end = lw_trace_end_ns(t, i);
        if (t->class[i] != LW_ROW_HOST || t->track[i] != s->backward_thread ||
            (t->track[i] == s->thread && !lw_row_is_engine(t, i)))
            continue;
        if (!b.found)
            b = (struct lw_phase_span){true, t->start_ns[i], end};
        b.end_ns = end > b.end_ns ? end : b.end_ns;
    }
    return b;
}

/* Time of the step's own ops (not of ranges, not inside others) that start in [from, to). */
static int64_t op_time(const struct lw_trace *t, const struct lw_step *s, int64_t from, int64_t to)
{
    int64_t covered = INT64_MIN, sum = 0, last = lw_trace_row_at(t, to);

    for (int64_t i = lw_trace_row_at(t, from); i < last; i++) {
        if (t->class[i] != LW_ROW_HOST || t->track[i] != s->thread || t->start_ns[i] < covered ||
            lw_row_is_range(t, i))
            continue;
        covered = lw_trace_end_ns(t, i);
        sum += t->dur_ns[i];
    }
    return sum;
}

/* The end of what a step does before its forward: waiting for the data loader, and zero_grad,
 * unless it follows the forward: more of the step's ops then run before it than after it. */
static int64_t prologue_end(const struct lw_trace *t, const struct lw_step *s, int64_t from,
                            int64_t to, int64_t before)
{
    const struct lw_phase_span *z = &s->phase[LW_PHASE_ZERO_GRAD];
    int64_t end = s->start_ns;

    for (int64_t i = from; i < to; i++)
        if (t->track[i] == s->thread && begins(t, i, "enumerate(") &&
            lw_trace_end_ns(t, i) < before && lw_trace_end_ns(t, i) > end)
            end = lw_trace_end_ns(t, i);
    if (!z->found || z->end_ns >= before || z->end_ns <= end)
        return end;
    bool follows = z->start_ns > end &&
                   op_time(t, s, end, z->start_ns) > op_time(t, s, z->end_ns, before);
    return follows ? end : z->end_ns;
}

/* Bringing a batch to the device is not forward. */
static bool brings_data(const struct lw_trace *t, int64_t row)
{
    static const char *const names[] = {"aten::to", "aten::_to_copy", "aten::copy_",
                                        "aten::pin_memory", "aten::empty_strided"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(lw_trace_name(t, row), names[i]) == 0)
            return true;
    return false;
}

/* From the first op that autograd numbered; where the file holds no numbers (torch 1.8, the legacy
 * profiler), from the first op after data loading, copies to the device and zero_grad. */
static void infer_forward(const struct lw_trace *t, struct lw_step *s, int64_t from, int64_t to)
{
    struct lw_phase_span *f = &s->phase[LW_PHASE_FORWARD], *b = &s->phase[LW_PHASE_BACKWARD];
    int64_t first = -1, numbered = -1, earliest = prologue_end(t, s, from, to, b->start_ns);
    int64_t covered = INT64_MIN;

    for (int64_t i = from; i < to && t->start_ns[i] < b->start_ns && numbered < 0; i++) {
        if (t->class[i] != LW_ROW_HOST || t->track[i] != s->thread || lw_row_is_range(t, i))
            continue;
        if (t->link[i] >= 0)
            numbered = i;
        if (first >= 0 || t->start_ns[i] < earliest || t->start_ns[i] < covered)
            continue;
        if (brings_data(t, i))
            covered = lw_trace_end_ns(t, i);
        else
            first = i;
    }
    s->forward_by_order = numbered < 0 && first >= 0;
    first = numbered >= 0 ? numbered : first;
    if (first >= 0)
        *f = (struct lw_phase_span){true, t->start_ns[first], b->start_ns};
}

enum lw_status lw_top_rows(const struct lw_trace *t, int32_t thread, int64_t from, int64_t to,
                           struct lw_arena *arena, int64_t **rows, int64_t *n, struct lw_err *err)
{
    int64_t begin = lw_trace_row_at(t, from), last = lw_trace_row_at(t, to), count = 0;
    int64_t covered = INT64_MIN;

    LW_TAKE(arena, *rows, last > begin ? last - begin : 0, err);
    for (int64_t i = begin; i < last; i++) {
        if (t->class[i] != LW_ROW_HOST || t->track[i] != thread || t->start_ns[i] < covered ||
            lw_row_is_range(t, i))
            continue;
        covered = lw_trace_end_ns(t, i);
        (*rows)[count++] = i;
    }
    *n = count;
    return LW_OK;
}

/* Give each gradient the node around it and the last other node before it. */
static void link_gradients(const struct lw_trace *t, struct lw_step *s)
{
    int64_t k = 0, producer = -1;

    for (int64_t g = 0; g < s->n_gradients; g++) {
        struct lw_gradient *grad = &s->gradients[g];
        if (t->track[grad->row] != s->backward_thread)
            continue;
        for (; k < s->n_nodes && t->start_ns[s->nodes[k]] <= t->start_ns[grad->row]; k++)
            if (!strstr(lw_trace_name(t, s->nodes[k]), "AccumulateGrad"))
                producer = s->nodes[k];
        grad->producer = producer;
        if (k > 0 && strstr(lw_trace_name(t, s->nodes[k - 1]), "AccumulateGrad")) {
            grad->node_start_ns = t->start_ns[s->nodes[k - 1]];
            grad->node_end_ns = lw_trace_end_ns(t, s->nodes[k - 1]);
        }
    }
}

/* torch.compile runs a whole backward as one node, in which compiled all-reduces are launched. */
static bool is_compiled(const struct lw_trace *t, int64_t row)
{
    return t->class[row] == LW_ROW_HOST && !begins(t, row, EVALUATE) &&
           strstr(lw_trace_name(t, row), "CompiledFunctionBackward") != NULL;
}

static enum lw_status find_compiled(const struct lw_trace *t, struct lw_step *s, int64_t from,
                                    int64_t to, struct lw_arena *arena, struct lw_err *err)
{
    int64_t *rows;

    LW_TRY(lw_trace_pick(t, from, to, is_compiled, arena, &rows, &s->n_compiled, err));
    LW_TAKE(arena, s->compiled, s->n_compiled, err);
    for (int64_t i = 0; i < s->n_compiled; i++)
        s->compiled[i] =
            (struct lw_phase_span){true, t->start_ns[rows[i]], lw_trace_end_ns(t, rows[i])};
    return LW_OK;
}

static enum lw_status fill_step(const struct lw_trace *t, struct lw_step *s, struct lw_arena *arena,
                                struct lw_err *err)
{
    int64_t from = lw_trace_row_at(t, s->start_ns), to = lw_trace_row_at(t, s->end_ns);
    struct lw_phase_span *b = &s->phase[LW_PHASE_BACKWARD];

    s->backward_thread = -1;
    find_ranges(t, s, from, to);
    LW_TRY(find_gradients(t, s, from, to, arena, err));
    LW_TRY(find_compiled(t, s, from, to, arena, err));
    LW_TRY(lw_trace_pick(t, from, to, is_host_collective, arena, &s->collectives,
                         &s->n_collectives, err));
    if (s->n_gradients == 0)
        return LW_OK;
    if (!b->found)
        *b = lw_step_engine(t, s, from, to);
    if (!s->phase[LW_PHASE_FORWARD].found && b->found)
        infer_forward(t, s, from, to);
    if (b->found)
        LW_TRY(lw_top_rows(t, s->backward_thread, b->start_ns, b->end_ns, arena, &s->nodes,
                           &s->n_nodes, err));
    link_gradients(t, s);
    return LW_OK;
}

static enum lw_status fill_steps(const struct finder *f, struct lw_steps *out, struct lw_err *err)
{
    LW_TAKE(&out->arena, out->steps, f->n, err);
    for (int64_t k = 0; k < f->n; k++) {
        struct lw_step *s = &out->steps[out->n++];
        s->name = f->marks[k].name;
        s->start_ns = f->marks[k].start;
        s->end_ns = f->marks[k].end;
        s->thread = f->marks[k].thread;
        if (!s->name)
            LW_PRINT(&out->arena, s->name, err, "step %lld", (long long)k);
        LW_TRY(fill_step(f->t, s, &out->arena, err));
    }
    return LW_OK;
}

/* Something starts in it on the host besides ranges. */
static bool holds_work(const struct lw_trace *t, const struct marks *m)
{
    for (int64_t i = lw_trace_row_at(t, m->start); i < t->n && t->start_ns[i] < m->end; i++)
        if (t->class[i] == LW_ROW_LAUNCH || (lw_trace_on_host(t, i) && !lw_row_is_range(t, i)))
            return true;
    return false;
}

/* A loop that ends after its last prof.step() leaves one more range with nothing in it. */
static void drop_empty_end(struct finder *f)
{
    while (f->n > 1 && !holds_work(f->t, &f->marks[f->n - 1]))
        f->n--;
}

enum lw_status lw_steps_find(const struct lw_trace *t, struct lw_steps *out, struct lw_err *err)
{
    struct lw_steps result = {0};
    struct finder f = {.t = t, .err = err};
    enum lw_status status = find_marks(&f, &result.found_by);

    drop_empty_end(&f);
    if (status == LW_OK)
        status = fill_steps(&f, &result, err);
    lw_free(f.marks);
    LW_GIVE(status, out, result, lw_steps_free(&result));
}

bool lw_step_reduces_gradients(const struct lw_step *s, int64_t ns)
{
    const struct lw_phase_span *optimizer = &s->phase[LW_PHASE_OPTIMIZER];
    int64_t end = optimizer->found ? optimizer->start_ns : s->end_ns;

    for (int64_t i = 0; i < s->n_compiled; i++)
        if (ns >= s->compiled[i].start_ns && ns < s->compiled[i].end_ns)
            return true;
    if (s->n_gradients == 0)
        return ns >= s->start_ns && ns < s->end_ns;
    if (ns >= s->gradients[s->n_gradients - 1].node_end_ns)
        return ns < end;
    for (int64_t i = 0; i < s->n_gradients; i++)
        if (ns >= s->gradients[i].node_start_ns && ns < s->gradients[i].node_end_ns)
            return true;
    return false;
}

LW_FREE_BY_ARENA(lw_steps_free, struct lw_steps)

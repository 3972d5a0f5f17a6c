/* The builder that all parametric models share. Where the device has figures for shapes, a time
 * is that of the kernel by its shape (shared/device/device_time.h), as one rank of the tensor
 * group launches it, times the ranks of the group: a plan divides what is split by them.
 * Elsewhere a time is the roofline's (Williams, Waterman, Patterson, CACM 52(4), 2009): the
 * larger of the time of the matrix products and the time of the memory traffic, per part and
 * direction, rounded once to the picosecond. Where the device was measured over sizes, its
 * tables say both, and what an optimizer's step takes: FLOPs as one square product's, traffic as
 * that of a copy, which reads and writes its payload. A module takes no less than the host needs
 * to launch its kernels. Not modelled: caches, overlap of traffic and products beyond the
 * maximum. */
#include "traces/models/models_build.h"
#include "shared/base/sort.h"
#include "shared/numbers/checked.h"
#include "shared/numbers/order.h"
#include "shared/plan/buffer.h"

#include <assert.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NOTES = 20 };

void traces_builder_init(struct traces_builder *b, const char *name,
                         const struct traces_model_shape *shape, const struct lw_device *device)
{
    *b = (struct traces_builder){.shape = *shape, .device = device};
    enum lw_status s = lw_dtype_parse(shape->dtype, &b->dtype, NULL);
    assert(s == LW_OK); /* traces_model_build has seen it */
    (void)s;
    b->item = lw_dtype_size(b->dtype);
    b->w.name = lw_arena_strdup(&b->w.arena, name);
    b->w.notes = lw_arena_alloc(&b->w.arena, MAX_NOTES, sizeof *b->w.notes);
    b->w.batch = shape->batch;
    b->no_memory = !b->w.name || !b->w.notes;
}

void traces_builder_room(struct traces_builder *b, int64_t max_modules, int64_t max_params,
                         int64_t max_buffers)
{
    struct lw_workload *w = &b->w;

    b->max_modules = (int32_t)max_modules;
    b->max_params = (int32_t)max_params;
    b->max_buffers = (int32_t)max_buffers;
    w->modules = lw_arena_alloc(&w->arena, max_modules, sizeof *w->modules);
    w->params = lw_arena_alloc(&w->arena, max_params, sizeof *w->params);
    w->ready_order = lw_arena_alloc(&w->arena, max_params, sizeof *w->ready_order);
    w->buffers = lw_arena_alloc(&w->arena, max_buffers, sizeof *w->buffers);
    b->part_of = lw_arena_alloc(&b->scratch, max_params, sizeof *b->part_of);
    b->launches = lw_arena_alloc(&b->scratch, max_modules, sizeof *b->launches);
    b->no_memory = b->no_memory || !w->modules || !w->params || !w->ready_order || !w->buffers ||
                   !b->part_of || !b->launches;
}

static const struct lw_work_table *table_of(const struct traces_builder *b, enum lw_work_kind kind)
{
    return lw_work_find(b->device, kind, b->dtype, b->dtype);
}

static lw_ps products(const struct traces_builder *b, int64_t flops)
{
    const struct lw_device *d = b->device;
    const struct lw_work_table *t = table_of(b, LW_WORK_GEMM);

    return t ? lw_work_time(t, flops)
             : lw_ps_from_seconds((double)flops /
                                  (d->peak_flops[b->dtype].value * d->gemm_efficiency.value));
}

static lw_ps traffic(const struct traces_builder *b, int64_t bytes)
{
    const struct lw_work_table *t = table_of(b, LW_WORK_COPY);

    return t ? lw_work_time(t, bytes / 2)
             : lw_ps_from_seconds((double)bytes / b->device->memory_bytes_per_s.value);
}

static lw_ps roofline(const struct traces_builder *b, int64_t flops, int64_t bytes)
{
    lw_ps compute = products(b, flops), move = traffic(b, bytes);

    return compute > move ? compute : move;
}

/* --- by shape --------------------------------------------------------------------------------- */

static bool by_shape(const struct traces_builder *b)
{
    return lw_device_by_shape(b->device, b->dtype) && !table_of(b, LW_WORK_GEMM);
}

/* Sequence parallelism splits what tensor parallelism alone leaves whole (Korthikanti et al., arXiv
 * 2205.05198, section 4.2). */
static bool is_whole(const struct traces_builder *b, const struct traces_cost *cost)
{
    return cost->whole && !b->shape.sequence_parallel;
}

static int64_t ranks_of(const struct traces_builder *b, const struct traces_cost *cost)
{
    return is_whole(b, cost) || b->shape.tensor < 1 ? 1 : b->shape.tensor;
}

/* Of all ranks of the tensor group together. */
static lw_ps shaped(const struct traces_builder *b, const struct traces_cost *cost,
                    const struct lw_product *p, bool backward, int64_t bytes)
{
    int64_t ranks = ranks_of(b, cost);
    struct lw_attention a = cost->attention;
    double factor = b->shape.traffic > 0 ? b->shape.traffic : 1;
    lw_ps t;

    a.backward = backward;
    if (p->batch > 0)
        t = lw_product_time(b->device, p);
    else if (a.batch > 0 && bytes > 0)
        t = lw_attention_time(b->device, &a);
    else
        t = lw_traffic_time(b->device, (int64_t)((double)bytes * factor) / ranks) +
            (bytes > 0 ? b->shape.memory_op_ps : 0);
    return t > INT64_MAX / ranks ? INT64_MAX : t * ranks;
}

struct part_times {
    lw_ps forward, input, weight;
};

static struct part_times times_of(const struct traces_builder *b, const struct traces_cost *c)
{
    bool plain_flops = c->forward_flops > 0 && c->forward.batch == 0 && c->attention.batch == 0;

    if (!by_shape(b) || plain_flops)
        return (struct part_times){roofline(b, c->forward_flops, c->forward_bytes),
                                   roofline(b, c->input_flops, c->input_bytes),
                                   roofline(b, c->weight_flops, c->weight_bytes)};
    return (struct part_times){shaped(b, c, &c->forward, false, c->forward_bytes),
                               shaped(b, c, &c->input, true, c->input_bytes),
                               shaped(b, c, &c->weight, true, c->weight_bytes)};
}

static void count_launches(struct traces_builder *b, const struct traces_cost *c)
{
    struct traces_launches *l = &b->launches[b->w.n_modules - 1];

    l->n_forward += c->n_forward > 0 ? c->n_forward : c->forward_bytes > 0;
    l->n_backward +=
        c->n_backward > 0 ? c->n_backward : (c->input_bytes > 0) + (c->weight_bytes > 0);
}

static const char *text_of(struct traces_builder *b, const char *fmt, va_list ap)
{
    const char *text = b->no_memory ? NULL : lw_arena_vprintf(&b->w.arena, fmt, ap);

    b->no_memory = !text;
    return text;
}

static const char *copy_name(struct traces_builder *b, const char *name)
{
    const char *copy = b->no_memory ? NULL : lw_arena_strdup(&b->w.arena, name);

    b->no_memory = !copy;
    return copy;
}

struct lw_module *traces_builder_module(struct traces_builder *b, const char *name)
{
    const char *copy = copy_name(b, name);

    if (!copy)
        return &b->spare;
    assert(b->w.n_modules < b->max_modules);
    struct lw_module *m = &b->w.modules[b->w.n_modules++];
    *m = (struct lw_module){.name = copy, .output_bytes = -1, .kept_bytes = {-1, -1, -1}};
    return m;
}

struct lw_module *traces_builder_last(struct traces_builder *b)
{
    return b->no_memory ? &b->spare : &b->w.modules[b->w.n_modules - 1];
}

/* Times stop at INT64_MAX, which the check of the workload then refuses. */
static void add_ps(lw_ps *sum, lw_ps t)
{
    *sum = lw_add_sat(*sum, t);
}

int32_t traces_builder_part(struct traces_builder *b, const struct traces_cost *cost)
{
    struct part_times t = times_of(b, cost);
    bool column = cost->split == LW_TP_COLUMN || cost->split == LW_TP_VOCAB;
    struct lw_module *m = traces_builder_last(b);

    if (!b->no_memory)
        b->no_memory =
            lw_reserve(&b->parts, &b->parts_capacity, b->n_parts + 1, sizeof *b->parts) != 0;
    if (b->no_memory)
        return 0;
    count_launches(b, cost);
    traces_builder_products(b, cost);
    m->forward_flops += cost->forward_flops;
    m->forward_bytes += cost->forward_bytes;
    add_ps(&m->forward_ps, t.forward);
    add_ps(&m->backward_input_ps, t.input);
    add_ps(&m->backward_weight_ps, t.weight);
    add_ps(&m->selective_ps, cost->again || b->again ? t.forward : 0);
    add_ps(&m->tp_column_ps, column ? t.forward : 0);
    add_ps(&m->tp_row_ps, cost->split == LW_TP_ROW ? t.forward : 0);
    if (is_whole(b, cost)) {
        add_ps(&m->whole_forward_ps, t.forward);
        add_ps(&m->whole_input_ps, t.input);
        add_ps(&m->whole_weight_ps, t.weight);
    }
    b->parts[b->n_parts] =
        (struct traces_part){b->w.n_modules - 1, lw_add_sat(t.input, t.weight)};
    return b->n_parts++;
}

struct lw_param *traces_builder_param(struct traces_builder *b, int32_t part, int64_t rows,
                                      int64_t columns, enum lw_tp_split split, const char *name,
                                      ...)
{
    va_list ap;

    va_start(ap, name);
    const char *copy = text_of(b, name, ap);
    va_end(ap);
    if (!copy)
        return &b->spare_param;
    assert(b->w.n_params < b->max_params);
    b->part_of[b->w.n_params] = part;
    struct lw_param *p = &b->w.params[b->w.n_params++];
    *p = (struct lw_param){.name = copy,
                           .numel = rows * columns,
                           .rows = rows,
                           .dtype = b->dtype,
                           .module = b->parts[part].module,
                           .tied = -1,
                           .tp_split = split,
                           .trainable = true,
                           .used = true,
                           .ready_ps = -1};
    return p;
}

void traces_builder_buffer(struct traces_builder *b, int64_t numel, enum lw_dtype dtype,
                           const char *name, ...)
{
    va_list ap;

    va_start(ap, name);
    const char *copy = text_of(b, name, ap);
    va_end(ap);
    if (!copy)
        return;
    assert(b->w.n_buffers < b->max_buffers);
    b->w.buffers[b->w.n_buffers++] =
        (struct lw_buffer){.name = copy, .numel = numel, .dtype = dtype, .broadcast = true};
}

void traces_builder_note(struct traces_builder *b, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    const char *copy = text_of(b, fmt, ap);
    va_end(ap);
    if (!copy)
        return;
    assert(b->w.n_notes < MAX_NOTES);
    b->w.notes[b->w.n_notes++] = copy;
}

/* --- what is left once all modules are there -------------------------------------------------- */

struct ready {
    lw_ps at;
    int32_t param;
};

/* By time; what becomes ready together in reverse registration order, as autograd runs. */
LW_COMPARATOR(compare_ready, struct ready, a->at, b->at, b->param, a->param)

/* --- the host's time -------------------------------------------------------------------------- */

/* What one rank of the tensor group takes of a time. */
static lw_ps of_rank(lw_ps all, lw_ps whole, int64_t ranks)
{
    return whole + (all - whole) / ranks + ((all - whole) % ranks > 0);
}

/* The host's time for a module's kernels. */
static lw_ps host_time(const struct traces_builder *b, int32_t module, bool backward)
{
    const struct traces_launches *l = &b->launches[module];

    return (backward ? l->n_backward : l->n_forward) * b->shape.host_op_ps;
}

/* A module's forward and backward last at least as long as the host launches their kernels; where
 * it waits for each of them, that much longer than the device. What is added is every rank's own: a
 * plan divides it by the ranks, under sequence parallelism too. */
static void hold_for_host(struct traces_builder *b)
{
    int64_t ranks = b->shape.tensor > 1 ? b->shape.tensor : 1;

    for (int32_t i = 0; b->shape.host_op_ps > 0 && i < b->w.n_modules; i++) {
        struct lw_module *m = &b->w.modules[i];
        int64_t split = m->tp_split == LW_TP_REPLICATED ? 1 : ranks;
        lw_ps forward = of_rank(m->forward_ps, m->whole_forward_ps, split);
        lw_ps input = of_rank(m->backward_input_ps, m->whole_input_ps, split);
        lw_ps weight = of_rank(m->backward_weight_ps, m->whole_weight_ps, split);
        bool waits = b->shape.host_waits;
        lw_ps all_f = m->forward_ps, all_b = lw_module_backward(m);
        lw_ps short_f = host_time(b, i, false) - (waits ? 0 : forward);
        lw_ps short_b = host_time(b, i, true) - (waits ? 0 : lw_add_sat(input, weight));
        if (short_f > 0)
            m->forward_ps = lw_add_sat(m->forward_ps, short_f * split);
        if (short_b > 0)
            m->backward_input_ps = lw_add_sat(m->backward_input_ps, short_b * split);
        lw_module_move_attention(m, all_f, all_b);
    }
}

/* Parts keep their share of their module's backward where the host has stretched it. */
static void stretch_parts(struct traces_builder *b)
{
    for (int32_t k = 0, next; k < b->n_parts; k = next) {
        const struct lw_module *m = &b->w.modules[b->parts[k].module];
        lw_ps sum = 0, done = 0, given = 0, window = lw_module_backward(m);
        for (next = k; next < b->n_parts && b->parts[next].module == b->parts[k].module; next++)
            sum = lw_add_sat(sum, b->parts[next].backward_ps);
        for (int32_t i = k; i < next && sum > 0 && sum != window; i++) {
            done = lw_add_sat(done, b->parts[i].backward_ps);
            lw_ps end = (lw_ps)((__int128)window * done / sum);
            b->parts[i].backward_ps = end - given;
            given = end;
        }
    }
}

/* Backward begins attention after what comes after it in the forward. */
static void start_attention(struct traces_builder *b)
{
    for (int32_t i = 0; i < b->w.n_modules; i++) {
        struct lw_module *m = &b->w.modules[i];
        if (m->attention_backward_ps > 0)
            m->attention_backward_start_ps =
                lw_module_backward(m) - m->attention_backward_start_ps;
    }
}

/* The kernels are one rank's of a context group. A workload is of whole sequences: a plan divides
 * it by the ranks of its group. */
static void hold_whole_sequences(struct traces_builder *b)
{
    int64_t ranks = b->shape.context > 1 ? b->shape.context : 1;
    int64_t *fields[LW_N_TOKEN_FIELDS];

    for (int32_t i = 0; i < b->w.n_modules; i++) {
        lw_module_token_fields(&b->w.modules[i], fields);
        for (int f = 0; f < LW_N_TOKEN_FIELDS; f++)
            *fields[f] = *fields[f] < 0 ? -1 : lw_mul_sat(*fields[f], ranks);
        b->w.modules[i].kv_bytes = lw_mul_sat(b->w.modules[i].kv_bytes, ranks);
    }
    for (int32_t k = 0; k < b->n_parts; k++)
        b->parts[k].backward_ps = lw_mul_sat(b->parts[k].backward_ps, ranks);
}

/* A gradient is ready at the end of its part's backward; that of a tied parameter with the last of
 * its uses, which is the first parameter's, since its module comes last in backward. */
static enum lw_status order_gradients(struct traces_builder *b, struct lw_err *err)
{
    struct lw_workload *w = &b->w;
    struct ready *ready;
    lw_ps *end, now = 0;
    int32_t n = 0;

    LW_TAKE(&b->scratch, ready, w->n_params, err);
    LW_TAKE(&b->scratch, end, b->n_parts, err);
    for (int32_t k = b->n_parts - 1; k >= 0; k--)
        end[k] = now += b->parts[k].backward_ps;
    for (int32_t i = 0; i < w->n_params; i++) {
        bool trains = w->params[i].trainable && w->params[i].used;
        w->params[i].ready_ps = trains ? end[b->part_of[i]] : -1;
        if (lw_param_has_gradient(&w->params[i]))
            ready[n++] = (struct ready){w->params[i].ready_ps, i};
    }
    lw_sort(ready, n, compare_ready);
    for (int32_t k = 0; k < n; k++)
        w->ready_order[w->n_ready++] = ready[k].param;
    return LW_OK;
}

/* Of f32 parameters: the step of those that keep 2-byte copies was not measured. */
static const struct lw_work_table *optimizer_table(const struct traces_builder *b)
{
    static const enum lw_work_kind kinds[LW_N_OPTIMIZERS] = {
        [LW_OPTIMIZER_SGD] = LW_WORK_SGD,
        [LW_OPTIMIZER_MOMENTUM] = LW_WORK_MOMENTUM,
        [LW_OPTIMIZER_ADAM] = LW_WORK_ADAM,
    };
    bool known = b->dtype == LW_F32 && b->w.optimizer != LW_OPTIMIZER_UNKNOWN;
    return known ? table_of(b, kinds[b->w.optimizer]) : NULL;
}

static bool does(const struct traces_builder *b, enum traces_step what)
{
    return (b->shape.step & what) != 0;
}

static int64_t grad_bytes(const struct traces_builder *b)
{
    return b->shape.grad_item > 0 ? b->shape.grad_item : b->item;
}

/* Bytes that the step moves per element that it updates: the gradient is read, the parameter and
 * each of n - 1 states read and written; half precision computes on 4-byte masters and writes a
 * copy. Clipping and loss scales take gradients in f32, which are cast where they are not: the norm
 * reads them, a factor reads and writes them. */
static int64_t step_bytes(const struct traces_builder *b, int n, bool masters)
{
    int64_t f32 = 4, grad = grad_bytes(b);
    bool in_f32 = does(b, TRACES_STEP_CLIP) || does(b, TRACES_STEP_UNSCALE);
    int64_t bytes = (in_f32 ? f32 : grad) + 2 * f32 * n;

    bytes += in_f32 && grad < f32 ? grad + f32 : 0;
    bytes += does(b, TRACES_STEP_CLIP) ? 3 * f32 : 0;
    bytes += does(b, TRACES_STEP_UNSCALE) ? 2 * f32 : 0;
    return bytes + (masters ? b->item + (does(b, TRACES_STEP_COPY) ? f32 : 0) : 0);
}

/* And per gradient that a rank holds. */
static int64_t held_bytes(const struct traces_builder *b)
{
    return grad_bytes(b) * (does(b, TRACES_STEP_ZERO) + does(b, TRACES_STEP_CHECK) +
                            2 * does(b, TRACES_STEP_SCALE));
}

static lw_ps pass_over(const struct traces_builder *b, int64_t bytes)
{
    return by_shape(b) ? lw_traffic_time(b->device, bytes) : roofline(b, 0, bytes);
}

static void time_optimizer(struct traces_builder *b)
{
    static const int states[LW_N_OPTIMIZERS] = {
        [LW_OPTIMIZER_MOMENTUM] = 1, [LW_OPTIMIZER_ADAM] = 2};
    int64_t numel = lw_workload_numel(&b->w, true);
    int k = 0;

    while (strcmp(lw_optimizer_name(k), b->shape.optimizer) != 0)
        k++;
    b->w.optimizer = (enum lw_optimizer)k;
    const struct lw_work_table *t = optimizer_table(b);
    if (t) {
        b->w.optimizer_ps = lw_work_time(t, 4 * numel);
        traces_builder_note(b, "optimizer: a measured step of %s (%s)", b->shape.optimizer,
                            t->source);
        return;
    }
    bool masters = b->item == 2;
    int64_t bytes = step_bytes(b, 1 + states[k], masters), held = held_bytes(b);
    b->w.optimizer_ps = pass_over(b, bytes * numel);
    b->w.gradients_ps = pass_over(b, held * numel);
    traces_builder_note(b, "optimizer: %s, %lld bytes of memory traffic per element%s",
                        b->shape.optimizer, (long long)(bytes + held),
                        masters ? ", on f32 masters" : "");
}

static void note_rates(struct traces_builder *b)
{
    const struct lw_device *d = b->device;

    traces_builder_note(b,
                        "times by roofline on %s: max of flops / (%.4g flop/s * %.4g) and bytes / "
                        "(%.4g B/s); %s, nothing measured",
                        d->kind, d->peak_flops[b->dtype].value, d->gemm_efficiency.value,
                        d->memory_bytes_per_s.value, lw_dtype_name(b->dtype));
    traces_builder_note(b, "peak: %s", d->peak_flops[b->dtype].source);
    traces_builder_note(b, "efficiency: %s", d->gemm_efficiency.source);
    traces_builder_note(b, "memory bandwidth: %s", d->memory_bytes_per_s.source);
}

/* One of the two may come from a rate still. */
static void note_tables(struct traces_builder *b, const struct lw_work_table *gemm,
                        const struct lw_work_table *copy)
{
    const struct lw_device *d = b->device;

    traces_builder_note(b,
                        "times by roofline on %s: the longer of a product of as many flops and a "
                        "copy of half the traffic, as measured over sizes; %s",
                        d->kind, lw_dtype_name(b->dtype));
    if (gemm)
        traces_builder_note(b, "products: %s", gemm->source);
    else
        traces_builder_note(b, "products: flops / (%.4g flop/s * %.4g): %s",
                            d->peak_flops[b->dtype].value, d->gemm_efficiency.value,
                            d->peak_flops[b->dtype].source);
    if (copy)
        traces_builder_note(b, "copies: %s", copy->source);
    else
        traces_builder_note(b, "copies: bytes / (%.4g B/s): %s", d->memory_bytes_per_s.value,
                            d->memory_bytes_per_s.source);
}

static void note_shapes(struct traces_builder *b)
{
    const struct lw_device *d = b->device;

    traces_builder_note(
        b,
        "times by shape on %s: products at %.3g of %.4g flop/s sustained, a tile fills "
        "for %.4g steps of k; traffic at %.4g B/s; %s",
        d->kind, d->gemm_sustained.value, d->peak_flops[b->dtype].value, d->gemm_fill.value,
        d->memory_bytes_per_s.value, lw_dtype_name(b->dtype));
    traces_builder_note(b, "products: %s", d->gemm_sustained.source);
    if (b->shape.tensor > 1)
        traces_builder_note(b, "times are for tensor groups of %lld: each rank's shapes",
                            (long long)b->shape.tensor);
    if (b->shape.context > 1)
        traces_builder_note(b, "times are for context groups of %lld: each rank's shapes",
                            (long long)b->shape.context);
    if (b->shape.host_op_ps > 0)
        traces_builder_note(b, "the host launches a kernel in %.4g us",
                            (double)b->shape.host_op_ps / 1e6);
}

static void note_roofline(struct traces_builder *b)
{
    const struct lw_work_table *gemm = table_of(b, LW_WORK_GEMM), *copy = table_of(b, LW_WORK_COPY);

    if (by_shape(b))
        note_shapes(b);
    else if (gemm || copy)
        note_tables(b, gemm, copy);
    else
        note_rates(b);
    traces_builder_note(b, "a gradient is ready at the end of the backward of what it belongs to; "
                           "%s", by_shape(b) ? "gaps of the host are left out"
                                             : "launch overhead and gaps of the host are left out");
}

/* Of sizes alone: what was counted stays, what was timed goes. */
static void forget_times(struct traces_builder *b)
{
    for (int32_t i = 0; i < b->w.n_modules; i++) {
        struct lw_module *m = &b->w.modules[i];
        m->forward_ps = m->backward_input_ps = m->backward_weight_ps = m->selective_ps = 0;
        m->tp_column_ps = m->tp_row_ps = 0;
        m->whole_forward_ps = m->whole_input_ps = m->whole_weight_ps = 0;
        m->attention_start_ps = m->attention_ps = 0;
        m->attention_backward_start_ps = m->attention_backward_ps = 0;
    }
    for (int32_t i = 0; i < b->w.n_params; i++)
        b->w.params[i].ready_ps = -1;
    b->w.optimizer_ps = b->w.gradients_ps = 0;
    traces_builder_note(b, "sizes alone: times are computed for the cluster that it is used with");
}

static enum lw_status complete(struct traces_builder *b, const char *producer, struct lw_err *err)
{
    if (b->no_memory)
        return lw_fail_nomem(err);
    start_attention(b);
    hold_for_host(b);
    stretch_parts(b);
    hold_whole_sequences(b);
    traces_builder_settle_products(b);
    if (b->no_memory)
        return lw_fail_nomem(err);
    LW_TRY(lw_workload_check(&b->w, err)); /* the times add up to what can be counted */
    LW_TRY(order_gradients(b, err));
    time_optimizer(b);
    if (b->device->kind[0])
        note_roofline(b);
    else
        forget_times(b);
    b->w.from.producer = copy_name(b, producer);
    b->w.from.device = copy_name(b, b->device->kind);
    if (b->no_memory)
        return lw_fail_nomem(err);
    return lw_workload_check(&b->w, err);
}

static struct lw_model_dims dims_of(const struct traces_model_shape *s)
{
    if (s->hidden == 0)
        return (struct lw_model_dims){0};
    return (struct lw_model_dims){s->layers, s->hidden, s->ffn, s->vocab,
                                  s->seq,    s->batch,  s->fp8};
}

enum lw_status traces_builder_finish(struct traces_builder *b, const char *producer,
                                     struct lw_workload *w, struct lw_err *err)
{
    b->w.recorded.step_ps = b->w.recorded.step_spread_ps = -1;
    b->w.dims = dims_of(&b->shape);
    b->w.from =
        (struct lw_provenance){.format = "model", .file = "", .hash = "", .rank = -1, .step = -1};
    enum lw_status s = complete(b, producer, err);
    lw_free(b->parts);
    lw_free(b->products);
    lw_free(b->uses);
    lw_arena_free(&b->scratch);
    if (s != LW_OK) {
        lw_workload_free(&b->w);
        return s;
    }
    *w = b->w;
    return LW_OK;
}

/* Parametric models: the table of them, and the builder they share. A time is the roofline's
 * (Williams, Waterman, Patterson, CACM 52(4), 2009): the larger of the time of the matrix products
 * and the time of the memory traffic, per module and direction, rounded once to the picosecond.
 * Not modelled: launch overhead, caches, overlap of traffic and products beyond the maximum. */
#include "traces/models.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MAX_NOTES = 12 };

const struct traces_model traces_models[] = {
    {"mlp",
     "equal linear layers with ReLU, split in column and row pairs",
     {.batch = 32, .layers = 16, .width = 1024},
     traces_build_mlp},
    {"resnet50",
     "ResNet-50 v1.5 as torchvision registers it (25,557,032 parameters)",
     {.batch = 32, .image = 224},
     traces_build_resnet50},
    {0},
};

/* --- the builder -------------------------------------------------------------------------------
 */

void traces_builder_init(struct traces_builder *b, const char *name, int32_t max_modules,
                         int32_t max_params, int32_t max_buffers)
{
    struct lw_workload *w = &b->w;

    b->max_modules = max_modules;
    b->max_params = max_params;
    b->max_buffers = max_buffers;
    w->name = lw_arena_strdup(&w->arena, name);
    w->modules = lw_arena_alloc(&w->arena, max_modules, sizeof *w->modules);
    w->params = lw_arena_alloc(&w->arena, max_params, sizeof *w->params);
    w->ready_order = lw_arena_alloc(&w->arena, max_params, sizeof *w->ready_order);
    w->buffers = lw_arena_alloc(&w->arena, max_buffers, sizeof *w->buffers);
    w->notes = lw_arena_alloc(&w->arena, MAX_NOTES, sizeof *w->notes);
    w->batch = b->shape.batch;
    b->no_memory =
        !w->name || !w->modules || !w->params || !w->ready_order || !w->buffers || !w->notes;
}

static lw_ps roofline(const struct lw_device *d, int64_t flops, int64_t bytes)
{
    double compute = (double)flops / (d->peak_flops[LW_F32].value * d->gemm_efficiency.value);
    double traffic = (double)bytes / d->memory_bytes_per_s.value;

    return lw_ps_from_seconds(compute > traffic ? compute : traffic);
}

struct lw_module *traces_builder_module(struct traces_builder *b, const struct traces_cost *cost,
                                        const char *name)
{
    char *copy = b->no_memory ? NULL : lw_arena_strdup(&b->w.arena, name);

    b->no_memory = b->no_memory || !copy;
    if (b->no_memory)
        return &b->spare;
    assert(b->w.n_modules < b->max_modules);
    struct lw_module *m = &b->w.modules[b->w.n_modules++];
    *m = (struct lw_module){
        .name = copy,
        .forward_ps = roofline(b->device, cost->forward_flops, cost->forward_bytes),
        .backward_input_ps = roofline(b->device, cost->input_flops, cost->input_bytes),
        .backward_weight_ps = roofline(b->device, cost->weight_flops, cost->weight_bytes),
        .forward_flops = cost->forward_flops,
        .forward_bytes = cost->forward_bytes,
        .output_bytes = -1,
        .kept_bytes = {-1, -1, -1},
    };
    return m;
}

/* MODULE.SUFFIX, for a parameter or buffer of the module added last. */
static const char *qualified(struct traces_builder *b, const char *suffix)
{
    char name[160];

    if (b->no_memory)
        return NULL;
    snprintf(name, sizeof name, "%s.%s", b->w.modules[b->w.n_modules - 1].name, suffix);
    const char *copy = lw_arena_strdup(&b->w.arena, name);
    b->no_memory = !copy;
    return copy;
}

void traces_builder_param(struct traces_builder *b, const char *suffix, int64_t numel)
{
    const char *name = qualified(b, suffix);

    if (!name)
        return;
    assert(b->w.n_params < b->max_params);
    b->w.params[b->w.n_params++] = (struct lw_param){.name = name,
                                                     .numel = numel,
                                                     .dtype = LW_F32,
                                                     .module = b->w.n_modules - 1,
                                                     .tied = -1,
                                                     .trainable = true,
                                                     .used = true,
                                                     .ready_ps = -1};
}

void traces_builder_buffer(struct traces_builder *b, const char *suffix, int64_t numel,
                           enum lw_dtype dtype)
{
    const char *name = qualified(b, suffix);

    if (!name)
        return;
    assert(b->w.n_buffers < b->max_buffers);
    b->w.buffers[b->w.n_buffers++] =
        (struct lw_buffer){.name = name, .numel = numel, .dtype = dtype, .broadcast = true};
}

void traces_builder_note(struct traces_builder *b, const char *fmt, ...)
{
    char text[400];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    const char *copy = b->no_memory ? NULL : lw_arena_strdup(&b->w.arena, text);
    b->no_memory = b->no_memory || !copy;
    if (b->no_memory)
        return;
    assert(b->w.n_notes < MAX_NOTES);
    b->w.notes[b->w.n_notes++] = copy;
}

/* Gradients become ready at the end of their module's backward, modules from the last to the first,
 * the parameters of one module in reverse registration order. */
static void order_gradients(struct lw_workload *w)
{
    lw_ps end = 0;
    int32_t i = w->n_params - 1;

    for (int32_t m = w->n_modules - 1; m >= 0; m--) {
        end += w->modules[m].backward_input_ps + w->modules[m].backward_weight_ps;
        for (; i >= 0 && w->params[i].module == m; i--) {
            w->params[i].ready_ps = end;
            w->ready_order[w->n_ready++] = i;
        }
    }
}

/* SGD with momentum reads parameter, gradient and momentum, and writes parameter and momentum. */
static void time_optimizer(struct traces_builder *b)
{
    b->w.optimizer_ps = roofline(b->device, 0, 5 * 4 * lw_workload_numel(&b->w, true));
    traces_builder_note(b, "optimizer: SGD with momentum, five passes over 4-byte elements");
}

static void note_roofline(struct traces_builder *b)
{
    const struct lw_device *d = b->device;

    traces_builder_note(b,
                        "times by roofline on %s: max of flops / (%.4g flop/s * %.4g) and bytes / "
                        "(%.4g B/s); f32, nothing measured",
                        d->kind, d->peak_flops[LW_F32].value, d->gemm_efficiency.value,
                        d->memory_bytes_per_s.value);
    traces_builder_note(b, "peak: %s", d->peak_flops[LW_F32].source);
    traces_builder_note(b, "efficiency: %s", d->gemm_efficiency.source);
    traces_builder_note(b, "memory bandwidth: %s", d->memory_bytes_per_s.source);
    traces_builder_note(b, "a gradient is ready at the end of its module's backward; launch "
                           "overhead and gaps of the host are left out");
}

/* What is left once the modules are known to add up to a time that can be counted. */
static enum lw_status complete(struct traces_builder *b, const char *producer, struct lw_err *err)
{
    LW_TRY(lw_workload_check(&b->w, err));
    order_gradients(&b->w);
    time_optimizer(b);
    note_roofline(b);
    b->w.from.producer = producer;
    b->w.from.device = b->no_memory ? NULL : lw_arena_strdup(&b->w.arena, b->device->kind);
    if (!b->w.from.device)
        return lw_fail_nomem(err);
    return lw_workload_check(&b->w, err);
}

enum lw_status traces_builder_finish(struct traces_builder *b, const char *producer,
                                     struct lw_workload *w, struct lw_err *err)
{
    b->w.recorded.step_ps = b->w.recorded.step_spread_ps = -1;
    b->w.from =
        (struct lw_provenance){.format = "model", .file = "", .hash = "", .rank = -1, .step = -1};
    enum lw_status s = b->no_memory ? lw_fail_nomem(err) : complete(b, producer, err);
    if (s != LW_OK) {
        lw_workload_free(&b->w);
        return s;
    }
    *w = b->w;
    return LW_OK;
}

/* --- the table ---------------------------------------------------------------------------------
 */

static const struct traces_model *find_model(const char *name, struct lw_err *err)
{
    char all[160] = "";

    for (const struct traces_model *m = traces_models; m->name; m++) {
        if (strcmp(m->name, name) == 0)
            return m;
        size_t n = strlen(all);
        snprintf(all + n, sizeof all - n, "%s%s", n ? ", " : "", m->name);
    }
    lw_fail(err, LW_EINVAL, "no model '%s'; known: %s", name, all);
    return NULL;
}

static enum lw_status take_size(const char *model, const char *option, int64_t given,
                                int64_t standard, int64_t least, int64_t most, int64_t *out,
                                struct lw_err *err)
{
    *out = given ? given : standard;
    if (given && !standard)
        return lw_fail(err, LW_EINVAL, "model %s has no --%s", model, option);
    if (*out && (*out < least || *out > most))
        return lw_fail(err, LW_EINVAL, "--%s: found %" PRId64 ", allowed: %" PRId64 " to %" PRId64,
                       option, given, least, most);
    return LW_OK;
}

static enum lw_status need(const struct lw_device *d, struct lw_figure f, const char *name,
                           struct lw_err *err)
{
    if (lw_figure_is_set(f))
        return LW_OK;
    return lw_fail(err, LW_EINVAL, "device '%s' has no %s, which times by roofline need", d->kind,
                   name);
}

enum lw_status traces_model_build(const char *name, const struct traces_model_shape *shape,
                                  const struct lw_device *device, struct lw_workload *w,
                                  struct lw_err *err)
{
    const struct traces_model *m = find_model(name, err);
    const struct traces_model_shape *d = m ? &m->defaults : NULL;
    struct traces_model_shape s;

    if (!m)
        return LW_EINVAL;
    LW_TRY(take_size(name, "batch", shape->batch, d->batch, 1, 65536, &s.batch, err));
    LW_TRY(take_size(name, "layers", shape->layers, d->layers, 2, 4096, &s.layers, err));
    LW_TRY(take_size(name, "width", shape->width, d->width, 1, 65536, &s.width, err));
    LW_TRY(take_size(name, "image", shape->image, d->image, 32, 4096, &s.image, err));
    LW_TRY(need(device, device->peak_flops[LW_F32], "peak_flops.f32", err));
    LW_TRY(need(device, device->gemm_efficiency, "gemm_efficiency", err));
    LW_TRY(need(device, device->memory_bytes_per_s, "memory_bytes_per_s", err));
    return m->build(&s, device, w, err);
}

/* The builder that all parametric models share: modules of kernels (shared/workload/kernel.h),
 * their parameters and buffers. When all are there the evaluator (shared/device/kernel_time.h)
 * times them on the device. Modules with the same kernels share them. */
#include "shared/numbers/checked.h"
#include "shared/workload/buffer.h"
#include "traces/models/models_build.h"

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
    b->wide = shape->autocast ? lw_dtype_size(LW_F32) : b->item;
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
    w->grad_kernel = lw_arena_alloc(&w->arena, max_params, sizeof *w->grad_kernel);
    b->no_memory = b->no_memory || !w->modules || !w->params || !w->ready_order || !w->buffers ||
                   !w->grad_kernel;
}

static int grow(struct traces_builder *b, void **items, int64_t n, size_t size)
{
    void *more = lw_arena_alloc(&b->w.arena, n, size);

    if (!more)
        return -1;
    memcpy(more, *items, (size_t)b->w.n_params * size);
    *items = more;
    return 0;
}

/* A family's count of parameters is a first guess. */
static int room_for_param(struct traces_builder *b)
{
    struct lw_workload *w = &b->w;
    int64_t n = 2 * (int64_t)b->max_params + 1;

    if (w->n_params < b->max_params)
        return 0;
    if (grow(b, (void **)&w->params, n, sizeof *w->params) != 0 ||
        grow(b, (void **)&w->ready_order, n, sizeof *w->ready_order) != 0 ||
        grow(b, (void **)&w->grad_kernel, n, sizeof *w->grad_kernel) != 0)
        return -1;
    b->max_params = (int32_t)n;
    return 0;
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

/* The module added last is complete: it takes the kernels of one before it with the same. */
static void share_kernels(struct traces_builder *b)
{
    struct lw_module *last = &b->w.modules[b->w.n_modules - 1];
    const struct lw_kernel *kernels = b->kernels;

    if (b->w.n_modules == 0 || last->n_kernels == 0)
        return;
    for (const struct lw_module *m = last - 1; m >= b->w.modules; m--) {
        if (m->n_kernels != last->n_kernels ||
            memcmp(&kernels[m->first_kernel], &kernels[last->first_kernel],
                   (size_t)m->n_kernels * sizeof *kernels) != 0)
            continue;
        last->first_kernel = m->first_kernel;
        b->n_kernels -= m->n_kernels;
        return;
    }
}

struct lw_module *traces_builder_module(struct traces_builder *b, const char *name)
{
    const char *copy = copy_name(b, name);

    if (!copy)
        return &b->spare;
    assert(b->w.n_modules < b->max_modules);
    share_kernels(b);
    struct lw_module *m = &b->w.modules[b->w.n_modules++];
    *m = (struct lw_module){.name = copy, .output_bytes = -1, .kept_bytes = {-1, -1, -1},
                            .first_kernel = b->n_kernels};
    return m;
}

struct lw_module *traces_builder_last(struct traces_builder *b)
{
    return b->no_memory ? &b->spare : &b->w.modules[b->w.n_modules - 1];
}

/* TransformerEngine casts an input to the operand of a product, then gathers it, and again in
 * backward; gradients are summed as they are. With adapters a norm's result is gathered in 16 bits
 * (NVIDIA/TransformerEngine@70f53666 (v2.9), transformer_engine/pytorch/module/layernorm_linear.py:
 * gather_along_first_dim with a quantizer, return_layernorm_output_gathered). */
static int64_t gathered_operand(const struct traces_builder *b, const struct lw_kernel *k)
{
    const struct lw_product p = {.fp8 = true, .fp4 = k->fp4};

    if (!b->shape.gathers_operands || b->shape.lora > 0 || !k->fp8 || k->experts > 0)
        return 0;
    if (k->recipe != LW_FP8_UNSTATED)
        return lw_fp8_operand_bytes((enum lw_fp8_recipe)k->recipe, b->gathers / b->item);
    return (int64_t)lw_product_operand_bytes(&p, (double)(b->gathers / b->item));
}

/* The gradient of what a product made is cast, then gathered as both gradients' products read it:
 * in both layouts where these are scaled apart (NVIDIA/TransformerEngine@d0067d0d,
 * transformer_engine/pytorch/module/base.py, grad_output_preprocess; distributed.py,
 * _all_gather_fp8, _all_gather_mxfp8, _start_all_gather_fp8_blockwise). */
static int64_t summed_operand(const struct traces_builder *b, const struct lw_kernel *k)
{
    const enum lw_fp8_recipe recipe = (enum lw_fp8_recipe)k->recipe;

    if (!b->shape.gathers_operands || b->shape.lora > 0 || recipe == LW_FP8_UNSTATED ||
        k->experts > 0)
        return 0;
    return (lw_fp8_has_layouts(recipe) ? 2 : 1) *
           lw_fp8_operand_bytes(recipe, k->summed / b->item);
}

int32_t traces_builder_kernel(struct traces_builder *b, const struct lw_kernel *kernel)
{
    struct lw_module *m = traces_builder_last(b);

    if (!b->no_memory)
        b->no_memory = lw_reserve(&b->kernels, &b->kernels_capacity, b->n_kernels + 1,
                                  sizeof *b->kernels) != 0;
    if (b->no_memory)
        return 0;
    struct lw_kernel *k = &b->kernels[b->n_kernels++];
    *k = *kernel;
    k->dtype = (uint8_t)b->dtype;
    k->again |= b->again;
    k->unrepeated |= b->unrepeated;
    k->attention |= b->attention;
    k->gathered += b->gathers;
    k->recipe = k->fp8 && !k->fp4 ? (uint8_t)lw_fp8_recipe_named(b->shape.fp8_recipe) : 0;
    k->gathered_operand = gathered_operand(b, k);
    b->gathers = 0;
    return m->n_kernels++;
}

void traces_builder_gathers(struct traces_builder *b, int64_t bytes)
{
    b->gathers = bytes;
}

void traces_builder_sums(struct traces_builder *b, int64_t bytes)
{
    if (b->no_memory)
        return;
    struct lw_kernel *k = &b->kernels[b->n_kernels - 1];
    k->summed = bytes;
    k->summed_operand = summed_operand(b, k);
}

void traces_builder_layer(struct traces_builder *b, enum lw_kernel_layer layer)
{
    if (!b->no_memory)
        b->kernels[b->n_kernels - 1].layer = (uint8_t)layer;
}

struct lw_param *traces_builder_param(struct traces_builder *b, int32_t kernel, int64_t rows,
                                      int64_t columns, enum lw_tp_split split, const char *name,
                                      ...)
{
    va_list ap;

    va_start(ap, name);
    const char *copy = text_of(b, name, ap);
    va_end(ap);
    if (!copy)
        return &b->spare_param;
    b->no_memory = room_for_param(b) != 0;
    if (b->no_memory)
        return &b->spare_param;
    b->w.grad_kernel[b->w.n_params] = kernel;
    struct lw_param *p = &b->w.params[b->w.n_params++];
    *p = (struct lw_param){.name = copy,
                           .numel = rows * columns,
                           .rows = rows,
                           .dtype = b->shape.autocast ? LW_F32 : b->dtype,
                           .module = b->w.n_modules - 1,
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

static bool does(const struct traces_builder *b, enum traces_step what)
{
    return (b->shape.step & what) != 0;
}

static int64_t grad_bytes(const struct traces_builder *b)
{
    return b->shape.grad_item > 0 ? b->shape.grad_item : b->wide;
}

/* Parameters of 16 bits have f32 masters, unless the framework's states do without. */
static bool has_masters(const struct traces_builder *b)
{
    int64_t own = b->shape.state_bytes;

    return b->wide == 2 && (own == 0 || own >= LW_MASTER_AND_ADAM_BYTES);
}

/* Bytes that the step moves per element that it updates: the gradient is read, the parameter and
 * its n states read and written; half precision computes on 4-byte masters and writes a copy,
 * unless the framework has no masters: then the parameter itself and its states. Clipping and
 * loss scales take gradients in f32, which are cast where they are not: the norm reads them, a
 * factor reads and writes them. Adam over lists of tensors has 20 accesses to an element, not 7
 * (pytorch/pytorch@002d2f0b, torch/optim/adamw.py, _multi_tensor_adamw: mul 2, lerp 3, mul 2,
 * addcmul 3, sqrt 2, div 2, add 2, addcdiv 4). */
static int64_t step_bytes(const struct traces_builder *b, int n)
{
    int64_t f32 = 4, grad = grad_bytes(b);
    bool in_f32 = does(b, TRACES_STEP_CLIP) || does(b, TRACES_STEP_UNSCALE);
    bool masters = has_masters(b);
    int64_t half = lw_half_states(b->shape.state_bytes, n) + (masters ? 0 : b->wide);
    int64_t bytes = (in_f32 ? f32 : grad) + 2 * (b->wide == 2 ? half : f32 * (1 + n));

    bytes += in_f32 && grad < f32 ? grad + f32 : 0;
    bytes += does(b, TRACES_STEP_CLIP) ? 3 * f32 : 0;
    bytes += does(b, TRACES_STEP_UNSCALE) ? 2 * f32 : 0;
    if (n == 2 && does(b, TRACES_STEP_FOREACH))
        bytes += (20 - 7) * (b->wide == 2 && !masters ? half / (1 + n) : f32);
    return bytes + (masters ? b->wide + (does(b, TRACES_STEP_COPY) ? f32 : 0) : 0);
}

/* And per gradient that a rank holds. */
static int64_t held_bytes(const struct traces_builder *b)
{
    return grad_bytes(b) * (does(b, TRACES_STEP_ZERO) + does(b, TRACES_STEP_CHECK) +
                            2 * does(b, TRACES_STEP_SCALE));
}

static void set_optimizer(struct traces_builder *b)
{
    static const int states[LW_N_OPTIMIZERS] = {
        [LW_OPTIMIZER_MOMENTUM] = 1, [LW_OPTIMIZER_ADAM] = 2, [LW_OPTIMIZER_MUON] = 1};
    int k = 0;

    while (strcmp(lw_optimizer_name(k), b->shape.optimizer) != 0)
        k++;
    b->w.optimizer = (enum lw_optimizer)k;
    b->w.step_traffic =
        (struct lw_step_traffic){step_bytes(b, states[k]), held_bytes(b),
                                 b->wide == 2 ? b->shape.host_bytes : 0};
    b->w.state_bytes = b->wide == 2 && b->shape.state_bytes != LW_MASTER_AND_ADAM_BYTES
                           ? b->shape.state_bytes : 0;
}

static void note_optimizer(struct traces_builder *b)
{
    const struct lw_work_table *t = lw_optimizer_table(b->device, &b->w);
    long long bytes = b->w.step_traffic.update + b->w.step_traffic.held;

    if (t)
        traces_builder_note(b, "optimizer: a measured step of %s (%s)", b->shape.optimizer,
                            t->source);
    else
        traces_builder_note(b, "optimizer: %s, %lld bytes of memory traffic per element%s",
                            b->shape.optimizer, bytes,
                            has_masters(b)   ? ", on f32 masters"
                            : b->wide == 2 ? ", without masters" : "");
}

static void note_stored(struct traces_builder *b)
{
    if (b->shape.stored_as)
        traces_builder_note(b, LW_ASSUMPTION "config.json stores its weights as %s; they are "
                            "trained as %s (--dtype)", b->shape.stored_as,
                            lw_dtype_name(b->dtype));
    if (b->shape.text_beside)
        traces_builder_note(b, LW_ASSUMPTION "config.json's text_config alone is modelled: the "
                            "parameters, memory and time of its %s are left out",
                            b->shape.text_beside);
}

static const struct lw_work_table *table_of(const struct traces_builder *b, enum lw_work_kind kind)
{
    return lw_work_find(b->device, kind, b->dtype, b->dtype);
}

/* Of the model's products. */
static struct lw_figure peak_of(const struct traces_builder *b)
{
    return b->shape.tf32 ? b->device->tf32_peak_flops : b->device->peak_flops[b->dtype];
}

static bool by_shape(const struct traces_builder *b)
{
    return lw_device_by_shape(b->device, b->dtype) && !table_of(b, LW_WORK_GEMM);
}

static void note_rates(struct traces_builder *b)
{
    const struct lw_device *d = b->device;

    traces_builder_note(b,
                        "times by roofline on %s: max of flops / (%.4g flop/s * %.4g) and bytes / "
                        "(%.4g B/s); %s, nothing measured",
                        d->kind, peak_of(b).value, d->gemm_efficiency.value,
                        d->memory_bytes_per_s.value, lw_dtype_name(b->dtype));
    traces_builder_note(b, "peak: %s", peak_of(b).source);
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
    if (gemm && !b->shape.tf32)
        traces_builder_note(b, "products: %s", gemm->source);
    else
        traces_builder_note(b, "products: flops / (%.4g flop/s * %.4g): %s",
                            peak_of(b).value, d->gemm_efficiency.value, peak_of(b).source);
    if (copy)
        traces_builder_note(b, "copies: %s", copy->source);
    else
        traces_builder_note(b, "copies: bytes / (%.4g B/s): %s", d->memory_bytes_per_s.value,
                            d->memory_bytes_per_s.source);
}

static void note_shapes(struct traces_builder *b)
{
    const struct lw_device *d = b->device;
    const struct lw_figure peak = peak_of(b);

    traces_builder_note(
        b,
        "times by shape on %s: products at %.3g of %.4g flop/s sustained, a tile fills "
        "for %.4g steps of k; traffic at %.4g B/s; %s",
        d->kind, d->gemm_sustained.value, peak.value, d->gemm_fill.value,
        d->memory_bytes_per_s.value, b->shape.tf32 ? "tf32" : lw_dtype_name(b->dtype));
    traces_builder_note(b, "products: %s", d->gemm_sustained.source);
    if (b->shape.tensor > 1)
        traces_builder_note(b, "times are for tensor groups of %lld: each rank's shapes",
                            (long long)b->shape.tensor);
    if (b->shape.context > 1)
        traces_builder_note(b, "times are for context groups of %lld: each rank's shapes",
                            (long long)b->shape.context);
    if (b->shape.rates.host_op_ps > 0)
        traces_builder_note(b, "the host launches a kernel in %.4g us",
                            (double)b->shape.rates.host_op_ps / 1e6);
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
        m->unrepeated_ps = 0;
        m->tp_column_ps = m->tp_row_ps = 0;
        m->whole_forward_ps = m->whole_input_ps = m->whole_weight_ps = 0;
        m->attention_start_ps = m->attention_ps = 0;
        m->attention_backward_start_ps = m->attention_backward_ps = 0;
        lw_module_forget_bounds(m);
    }
    for (int32_t i = 0; i < b->w.n_params; i++)
        b->w.params[i].ready_ps = -1;
    b->w.optimizer_ps = b->w.gradients_ps = 0;
    traces_builder_note(b, "sizes alone: times are computed for the cluster that it is used with");
}

static struct lw_routing routing_of(const struct traces_model_shape *s)
{
    return (struct lw_routing){.copies = (int32_t)s->dispatch_once, .experts = (int32_t)s->experts,
                               .groups = (int32_t)s->expert_groups,
                               .topk_groups = (int32_t)s->topk_groups,
                               .in_turn = s->experts_in_turn};
}

static struct lw_kernel_groups groups_of(const struct traces_model_shape *s)
{
    return (struct lw_kernel_groups){.tp = s->tensor, .cp = s->context, .ep = s->expert_ranks,
                                     .sequence_parallel = s->sequence_parallel,
                                     .whole_experts = s->expert_whole,
                                     .folded_experts = s->expert_folded,
                                     .once = routing_of(s)};
}

/* What the tensor group exchanges of a module, as files without kernels have it. */
static void count_exchanges(const struct lw_kernel *kernels, struct lw_module *m)
{
    int32_t gathers = 0, sums = 0;

    for (const struct lw_kernel *k = kernels + m->first_kernel;
         k < kernels + m->first_kernel + m->n_kernels; k++) {
        gathers += k->gathered > 0;
        sums += k->summed > 0;
        m->tp_backward_bytes += k->gathered;
        m->tp_forward_bytes += k->summed;
    }
    m->tp_calls = gathers > sums ? gathers : sums;
    m->tp_calls = m->tp_calls > 1 ? m->tp_calls : 0;
}

static enum lw_status take_kernels(struct traces_builder *b, struct lw_err *err)
{
    struct lw_workload *w = &b->w;

    if (!b->no_memory)
        share_kernels(b);
    LW_TAKE(&w->arena, w->kernels, b->n_kernels, err);
    LW_TAKE(&w->arena, w->kernel_times, b->n_kernels, err);
    if (b->n_kernels > 0)
        memcpy(w->kernels, b->kernels, (size_t)b->n_kernels * sizeof *w->kernels);
    w->n_kernels = b->n_kernels;
    w->n_grad_kernels = b->n_kernels > 0 ? w->n_params : 0;
    for (int32_t i = 0; i < w->n_modules; i++)
        count_exchanges(w->kernels, &w->modules[i]);
    return LW_OK;
}

static enum lw_status complete(struct traces_builder *b, const char *producer, struct lw_err *err)
{
    const struct lw_kernel_groups groups = groups_of(&b->shape);

    if (b->no_memory)
        return lw_fail_nomem(err);
    set_optimizer(b);
    LW_TRY(take_kernels(b, err));
    LW_TRY(lw_kernels_list_products(&b->w, &groups, err));
    LW_TRY(lw_kernels_time(&b->w, b->device, &b->shape.rates, &groups, err));
    LW_TRY(lw_workload_check(&b->w, err)); /* the times add up to what can be counted */
    note_optimizer(b);
    note_stored(b);
    if (b->shape.workspace_unknown && b->shape.hidden > 0 && b->device->kind[0])
        traces_builder_note(b, LW_ASSUMPTION "workspaces of libraries on %s are not known: memory "
                               "leaves them out", b->device->kind);
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
    return (struct lw_model_dims){.layers = s->layers, .hidden = s->hidden, .ffn = s->ffn,
                                  .vocab = s->vocab, .seq = s->seq, .batch = s->batch,
                                  .fp8 = s->fp8, .fp4 = s->fp4,
                                  .fp8_transposes = s->fp8 && s->fp8_transposes,
                                  .fp8_recipe = (uint8_t)lw_fp8_recipe_named(s->fp8_recipe),
                                  .n_experts = s->experts, .expert_groups = s->expert_groups,
                                  .topk_groups = s->topk_groups,
                                  .experts_in_turn = s->experts_in_turn,
                                  .workspace = s->workspace,
                                  .score_bytes = s->score_bytes,
                                  .whole_grad_bytes = s->whole_grad_bytes,
                                  .pair_grad_bytes = s->pair_grad_bytes,
                                  .score_grad_bytes = s->score_grad_bytes,
                                  .pair_kept_whole = s->pair_kept_whole};
}

void traces_builder_drop(struct traces_builder *b)
{
    lw_free(b->kernels);
    lw_workload_free(&b->w);
}

enum lw_status traces_builder_finish(struct traces_builder *b, const char *producer,
                                     struct lw_workload *w, struct lw_err *err)
{
    b->w.recorded.step_ps = b->w.recorded.step_spread_ps = -1;
    b->w.dims = dims_of(&b->shape);
    b->w.from =
        (struct lw_provenance){.format = "model", .file = "", .hash = "", .rank = -1, .step = -1};
    enum lw_status s = complete(b, producer, err);
    lw_free(b->kernels);
    if (s != LW_OK) {
        lw_workload_free(&b->w);
        return s;
    }
    *w = b->w;
    return LW_OK;
}

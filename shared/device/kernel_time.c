/* Times of a workload from its kernels. Where the device has figures for shapes, a kernel takes
 * what device_time.h gives for the shape that one rank of the groups has (kernel_share.h).
 * Elsewhere its time is the roofline's (Williams, Waterman, Patterson, CACM 52(4), 2009): the
 * larger of the time of the matrix products and the time of the memory traffic, per kernel and
 * phase, rounded once to the picosecond. Where the device was measured over sizes, its tables say
 * both, and what an optimizer's step takes: FLOPs as one square product's, traffic as that of a
 * copy, which reads and writes its payload.
 *
 * A module's times are the sums of its kernels', and no less than the host needs to launch them.
 * They are of all ranks of the tensor and the context group together: a plan divides them by the
 * ranks. Modules with the same kernels are summed once. Not modelled: caches, overlap of traffic
 * and products beyond the maximum. */
#include "shared/device/kernel_time.h"

#include <string.h>

#include "shared/base/sort.h"
#include "shared/device/newton_schulz.h"
#include "shared/numbers/checked.h"
#include "shared/numbers/order.h"

/* Of all ranks of a tensor group, of one context rank. */
struct sums {
    lw_ps time[LW_N_PRODUCT_PHASES], whole[LW_N_PRODUCT_PHASES];
    lw_ps again, unrepeated, column, row;
    lw_ps attention_start, attention, attention_backward_end, attention_backward;
    lw_ps bound[2][LW_N_BOUNDS]; /* of one rank: forward, backward */
    int64_t flops, bytes;        /* of the forward */
    lw_ps host[2]; /* of one rank, to launch: forward, backward */
    bool experts;  /* experts' products are launched one by one */
    struct reach {
        lw_ps time, whole, host;
    } before_experts, after_experts; /* of the forward: their products are between */
};

struct timer {
    const struct lw_device *device;
    const struct lw_kernel_rates *rates;
    const struct lw_kernel_groups *groups;
    enum lw_dtype dtype;
    bool by_shape;
    bool captured; /* products that are not of experts are parts of graphs */
    bool apart; /* the gradients of two activations are two kernels: it has figures for shapes, also
                 * where measured tables win over them */
    /* now */
    const struct lw_kernel *k;
    struct sums *of;
    lw_ps *before; /* backward of the module's kernels before the gradients of k */
    struct lw_kernel_times times; /* of k */
    lw_ps largest[LW_N_PRODUCT_PHASES];
    lw_ps by_source[LW_N_TIME_SOURCES];
};

/* --- one kernel ------------------------------------------------------------------------------- */

static const struct lw_work_table *table_of(const struct timer *t, enum lw_work_kind kind)
{
    return lw_work_find(t->device, kind, t->dtype, t->dtype);
}

static lw_ps products(const struct timer *t, int64_t flops)
{
    const struct lw_device *d = t->device;
    const bool own = flops > 0 && t->k && /* of a recorded one; of a convolution under autocast */
                     (t->k->only != LW_ONLY_NOT || t->k->kind == LW_KERNEL_COUNTED);
    const enum lw_dtype dtype = own ? (enum lw_dtype)t->k->dtype : t->dtype;
    const bool tf32 = t->k && t->k->tf32;
    const double peak = tf32 ? d->tf32_peak_flops.value : d->peak_flops[dtype].value;
    const struct lw_work_table *table =
        tf32 ? NULL : lw_work_find(d, LW_WORK_GEMM, dtype, dtype);

    return table ? lw_work_time(table, flops)
                 : lw_ps_from_seconds((double)flops / (peak * d->gemm_efficiency.value));
}

/* A device with figures for shapes has one of the bandwidth that kernels reach, too. */
static lw_ps traffic(const struct timer *t, int64_t bytes)
{
    const struct lw_work_table *table = table_of(t, LW_WORK_COPY);
    const double rate = t->apart ? lw_device_traffic_rate(t->device)
                                 : t->device->memory_bytes_per_s.value;

    return table ? lw_work_time(table, bytes / 2) : lw_ps_from_seconds((double)bytes / rate);
}

static struct lw_bounded roofline(const struct timer *t, int64_t flops, int64_t bytes)
{
    lw_ps compute = products(t, flops), move = traffic(t, bytes);

    return compute > move ? (struct lw_bounded){compute, LW_BOUND_COMPUTE}
                          : (struct lw_bounded){move, LW_BOUND_MEMORY};
}

/* Its kernels do not hide either behind the other (traces/models/models_ssm.c). */
static struct lw_bounded scan(const struct timer *t, int64_t flops, int64_t bytes)
{
    double rate = lw_device_scan_rate(t->device);
    lw_ps move = traffic(t, bytes);
    lw_ps compute = rate > 0 ? lw_ps_from_seconds((double)flops / rate) : products(t, flops);

    return (struct lw_bounded){lw_add_sat(compute, move),
                               compute > move ? LW_BOUND_COMPUTE : LW_BOUND_MEMORY};
}

/* What the framework's kernel takes of the time by shape: of experts' products, and of those of two
 * activations, which are those of stored scores. */
static double of_framework(const struct timer *t, const struct lw_kernel_work *work)
{
    const struct lw_kernel_rates *r = t->rates;
    double scores =
        work->phase == LW_PRODUCTS_FORWARD ? r->scores_forward : r->scores_backward;

    if (t->k && t->k->both && scores > 0)
        return scores;
    return t->k && t->k->experts > 0 && r->grouped_speed > 0 ? 1 / r->grouped_speed : 1;
}

/* A block runs on one SM, whose part of the bandwidth it has: fewer blocks than SMs leave the rest
 * of it. */
static double bytes_of_all_sms(const struct timer *t, const struct lw_kernel_work *work)
{
    double sms = t->device->n_sms.value, blocks = (double)work->blocks;

    return (double)work->bytes * (blocks > 0 && blocks < sms ? sms / blocks : 1);
}

static struct lw_bounded shaped(const struct timer *t, const struct lw_kernel_work *work,
                                int64_t ranks)
{
    double traffic = t->rates->traffic > 0 ? t->rates->traffic : 1;
    struct lw_attention a = work->attention;

    if (work->product.batch > 0) {
        struct lw_bounded p = lw_product_bounded(t->device, &work->product);
        p.time = lw_add_sat(p.time, lw_product_time(t->device, &work->second));
        double factor = of_framework(t, work);
        if (factor != 1)
            p.time = lw_ps_from_seconds((double)p.time * 1e-12 * factor);
        return p;
    }
    a.speed = t->rates->attention_speed;
    if (a.batch > 0)
        return lw_attention_bounded(t->device, &a);
    return lw_traffic_bounded(t->device, (int64_t)(bytes_of_all_sms(t, work) * traffic) / ranks,
                              t->rates->memory_op_ps);
}

static bool is_two(const struct timer *t, const struct lw_kernel_work *work)
{
    return t->apart && work->second.batch > 0;
}

static bool goes_by_shape(const struct timer *t, const struct lw_kernel_work *work)
{
    return t->by_shape && !work->by_roofline;
}

/* Of all ranks of the tensor group, of which the work has so many. */
static struct lw_bounded time_of(const struct timer *t, const struct lw_kernel_work *work,
                                 int64_t ranks)
{
    bool by_shape = goes_by_shape(t, work);
    int64_t n = is_two(t, work) ? 2 : 1;

    if (work->scan)
        return scan(t, work->flops, work->bytes);
    struct lw_bounded x = by_shape ? shaped(t, work, ranks)
                                   : roofline(t, work->flops / n, work->bytes / n);

    x.time = lw_mul_sat(x.time, by_shape ? ranks : n);
    return x;
}

static void add(lw_ps *sum, lw_ps time)
{
    *sum = lw_add_sat(*sum, time);
}

static lw_ps backward_of(const struct sums *s)
{
    return lw_add_sat(s->time[LW_PRODUCTS_INPUT], s->time[LW_PRODUCTS_WEIGHT]);
}

static int64_t launches_of(const struct timer *t, const struct lw_kernel_work *work)
{
    return work->n_launches > 0 ? work->n_launches : is_two(t, work) ? 2 : 1;
}

/* Of n experts' products of a phase, one by one, each after a cast of its input or of the gradient
 * of its result in 8 bits. */
static lw_ps host_of_experts(const struct timer *t, const struct lw_kernel_work *work, int64_t n)
{
    bool casts = t->k->fp8 && work->phase != LW_PRODUCTS_WEIGHT;

    return lw_mul_sat(n * (casts ? 2 : 1), t->rates->host_op_ps);
}

/* Routers, heads, adapters and products of activations are operators. */
static bool is_layer(const struct lw_kernel *k)
{
    bool split = k->split == LW_SPLIT_COLUMN || k->split == LW_SPLIT_ROW;

    return k->kind == LW_KERNEL_GEMM && !k->both && k->only == LW_ONLY_NOT &&
           (k->layer == LW_LAYER_WHOLE || (split && k->layer != LW_LAYER_NONE));
}

static bool is_joined(const struct timer *t)
{
    return t->rates->joined_layers && is_layer(t->k) && t->k->layer == LW_LAYER_JOINED;
}

/* The host's time of the linear layer around a product, forward or backward; 0: none is known.
 * That of a backward was measured with both gradients: frozen weights have one. */
static lw_ps layer_time(const struct timer *t, bool backward)
{
    const struct lw_kernel *k = t->k;
    bool known = is_layer(k) && (k->experts > 0 || !t->captured) && (k->trained || !backward);

    return known ? t->rates->host_layer_ps[k->fp8][backward] : 0;
}

/* Of what a norm wrote. */
static bool is_cast(const struct lw_kernel *k)
{
    return k->kind == LW_KERNEL_TRAFFIC && k->fp8;
}

/* Of 8 bits it is measured with the linear layer that makes it (frameworks.md, LayerNormLinear). */
static bool is_layer_cast(const struct timer *t)
{
    return is_cast(t->k) && !t->k->fp4 && t->rates->host_layer_ps[1][0] > 0;
}

/* What the host takes to launch a work. A layer's time has its casts and one product of each
 * phase: its backward is charged with the gradient of its input, which every layer has. */
static lw_ps host_of(const struct timer *t, const struct lw_kernel_work *work)
{
    lw_ps layer = layer_time(t, work->phase != LW_PRODUCTS_FORWARD);
    bool product = work->product.batch > 0;
    lw_ps own = product && work->phase != LW_PRODUCTS_WEIGHT ? layer : 0;

    if (is_joined(t) || is_layer_cast(t))
        return 0;
    if (t->rates->expert_products && t->k->experts > 0 && product)
        return lw_add_sat(own, host_of_experts(t, work, work->product.batch - (layer > 0)));
    return layer > 0 ? own : lw_mul_sat(launches_of(t, work), t->rates->host_op_ps);
}

static void add_forward(const struct timer *t, const struct lw_kernel_work *work, lw_ps time)
{
    const struct lw_kernel *k = t->k;
    const bool dense = k->kind == LW_KERNEL_GEMM && k->experts == 0;
    struct sums *s = t->of;

    s->flops = lw_add_sat(s->flops, work->flops);
    s->bytes = lw_add_sat(s->bytes, work->bytes);
    add(&s->again, k->again ? time : 0);
    add(&s->unrepeated, k->unrepeated ? time : 0);
    add(&s->column,
        dense && (k->split == LW_SPLIT_COLUMN || k->split == LW_SPLIT_VOCAB) ? time : 0);
    add(&s->row, dense && k->split == LW_SPLIT_ROW ? time : 0);
    add(&s->attention, k->attention ? time : 0);
}

static void add_backward(const struct timer *t, lw_ps time)
{
    add(&t->of->attention_backward, t->k->attention ? time : 0);
}

static enum lw_time_source source_of(const struct timer *t, const struct lw_kernel_work *work)
{
    const bool products = work->flops > 0;

    if (goes_by_shape(t, work))
        return LW_TIME_SHAPE;
    return !(products && t->k->tf32) && table_of(t, products ? LW_WORK_GEMM : LW_WORK_COPY)
               ? LW_TIME_TABLE
               : LW_TIME_ROOFLINE;
}

/* What most of the kernel's time comes from. */
static void note_source(struct timer *t, enum lw_time_source source, lw_ps time)
{
    add(&t->by_source[source], time);
    if (t->times.source == LW_TIME_GIVEN || t->by_source[source] > t->by_source[t->times.source])
        t->times.source = source;
}

/* What bounds the largest work of a phase bounds the phase. */
static void note_time(struct timer *t, enum lw_product_phase phase, struct lw_bounded x)
{
    add(&t->times.ps[phase], x.time);
    add(&t->times.by[phase][x.bound], x.time);
    if (x.time <= t->largest[phase])
        return;
    t->largest[phase] = x.time;
    t->times.bound[phase] = x.bound;
}

static void count_products(struct timer *t, const struct lw_kernel_work *work)
{
    const struct lw_product *const of[] = {&work->product, &work->second};

    for (int i = 0; i < 2; i++)
        t->times.n_products[work->phase] += lw_product_check(of[i], 0, NULL) == LW_OK;
}

static void add_one(struct timer *t, const struct lw_kernel_work *work)
{
    int64_t ranks = work->whole ? 1 : lw_group_size(t->groups->tp);
    const struct lw_bounded x = time_of(t, work, ranks);
    lw_ps time = x.time;

    if (work->completes)
        *t->before = backward_of(t->of);
    add(&t->of->time[work->phase], time);
    add(&t->of->whole[work->phase], work->whole ? time : 0);
    add(&t->of->bound[work->phase != LW_PRODUCTS_FORWARD][x.bound], time / ranks);
    add(&t->of->host[work->phase != LW_PRODUCTS_FORWARD], host_of(t, work));
    note_time(t, work->phase, (struct lw_bounded){time / ranks, x.bound});
    note_source(t, source_of(t, work), time / ranks);
    count_products(t, work);
    if (work->phase == LW_PRODUCTS_FORWARD)
        add_forward(t, work, time);
    else
        add_backward(t, time);
}

/* Column products of a block read what a norm wrote, in 8 bits; experts' read copies of tokens, and
 * the head's layer what a norm of its own wrote (NVIDIA/Megatron-LM@99a10812,
 * megatron/core/transformer/linear_cross_entropy.py, TELinearCrossEntropyModule). */
static bool casts_input(const struct timer *t)
{
    return t->rates->input_casts && t->k->fp8 &&
           (t->k->split == LW_SPLIT_ROW ? !t->k->epilogue
                                        : t->k->experts > 0 || t->k->split == LW_SPLIT_VOCAB);
}

/* kernel_share.c's cast of the output's gradient: moves bytes before the input's product. */
static bool casts_gradient(const struct timer *t, const struct lw_kernel_work *work)
{
    return t->k->kind == LW_KERNEL_GEMM && t->k->fp8 && work->phase == LW_PRODUCTS_INPUT &&
           work->product.batch == 0;
}

/* What the recipe's casts of n elements move beside the cast itself; without one, whether the
 * framework's has one scale of the tensor's own values. All are one launch here. */
static int64_t scale_bytes(const struct timer *t, int64_t n)
{
    enum lw_fp8_recipe recipe = (enum lw_fp8_recipe)t->k->recipe;

    if (recipe == LW_FP8_UNSTATED && t->rates->scale_passes && !t->k->fp4)
        recipe = LW_FP8_TENSORWISE;
    return lw_fp8_cast_more(recipe, n, t->rates->input_casts, t->k->trained);
}

static void add_work(void *ctx, const struct lw_kernel_work *work)
{
    struct timer *t = ctx;
    const struct lw_product *p = &work->product;
    struct lw_kernel_work w = *work;
    int64_t n = p->batch * p->m * p->k * lw_group_size(t->groups->tp);

    if (casts_input(t) && p->batch > 0 && work->phase == LW_PRODUCTS_FORWARD)
        add_one(t,
                &(struct lw_kernel_work){.phase = LW_PRODUCTS_FORWARD,
                                         .bytes = lw_product_cast_bytes(p, n, t->k->trained) +
                                                  scale_bytes(t, n)});
    if (casts_gradient(t, work))
        w.bytes += scale_bytes(t, work->bytes / (t->k->trained ? 4 : 3));
    add_one(t, &w);
}

static struct reach reach_of(const struct sums *s)
{
    return (struct reach){s->time[LW_PRODUCTS_FORWARD], s->whole[LW_PRODUCTS_FORWARD],
                          s->host[0]};
}

static void add_kernel(struct timer *t)
{
    struct sums *s = t->of;
    bool each = t->rates->expert_products && t->k->experts > 0 && t->k->kind == LW_KERNEL_GEMM;

    if (each && !s->experts)
        s->before_experts = reach_of(s);
    s->experts = s->experts || each;

    if (t->k->attention && s->attention == 0)
        s->attention_start = s->time[LW_PRODUCTS_FORWARD];
    t->times = (struct lw_kernel_times){0};
    memset(t->largest, 0, sizeof t->largest);
    memset(t->by_source, 0, sizeof t->by_source);
    if (is_cast(t->k) && !t->rates->input_casts)
        return;
    lw_kernel_share(t->k, t->groups, add_work, t);
    if (t->k->tokens == LW_TOKENS_SENT_BEFORE) {
        add(&s->host[0], lw_mul_sat(t->rates->router_forward, t->rates->host_op_ps));
        add(&s->host[1], lw_mul_sat(t->rates->router_backward, t->rates->host_op_ps));
    }
    if (each)
        s->after_experts = reach_of(s);
    if (t->k->attention)
        s->attention_backward_end = backward_of(s);
}

/* --- a module --------------------------------------------------------------------------------- */

/* What one rank of the tensor group takes of a time. */
static lw_ps of_rank(lw_ps all, lw_ps whole, int64_t ranks)
{
    return whole + (all - whole) / ranks + ((all - whole) % ranks > 0);
}

/* What the host lacks for experts' products, one by one, in a forward: it has waited for the device
 * to read the numbers of tokens (NVIDIA/Megatron-LM@3bec9aa9, megatron/core/transformer/moe/
 * experts.py, TEGroupedMLP.forward: tokens_per_expert.tolist()) and is not ahead of it. */
static lw_ps short_of_experts(const struct sums *s, int64_t split)
{
    const struct reach *from = &s->before_experts, *to = &s->after_experts;
    lw_ps device = of_rank(to->time - from->time, to->whole - from->whole, split);

    return to->host - from->host - device;
}

/* A module's forward and backward last at least as long as the host launches their kernels; where
 * it waits for each of them, that much longer than the device. What is added is every rank's own: a
 * plan divides it by the ranks, under sequence parallelism too. */
static void hold_for_host(const struct timer *t, const struct sums *s, struct lw_module *m)
{
    int64_t split = m->tp_split == LW_TP_REPLICATED ? 1 : lw_group_size(t->groups->tp);
    lw_ps forward = of_rank(s->time[0], s->whole[0], split);
    lw_ps input = of_rank(s->time[1], s->whole[1], split);
    lw_ps weight = of_rank(s->time[2], s->whole[2], split);
    bool waits = t->rates->host_waits;
    lw_ps short_f = s->host[0] - (waits ? 0 : forward);
    lw_ps short_b = s->host[1] - (waits ? 0 : lw_add_sat(input, weight));

    if (s->host[0] <= 0 && s->host[1] <= 0)
        return;
    if (!waits && short_of_experts(s, split) > short_f)
        short_f = short_of_experts(s, split);
    m->bound_ps[0][LW_BOUND_HOST] = short_f > 0 ? short_f : 0;
    m->bound_ps[1][LW_BOUND_HOST] = short_b > 0 ? short_b : 0;
    m->host_bounds[0] = !waits && short_f > 0;
    m->host_bounds[1] = !waits && short_b > 0;
    if (short_f > 0)
        m->forward_ps = lw_add_sat(m->forward_ps, lw_mul_sat(short_f, split));
    if (short_b > 0)
        m->backward_input_ps = lw_add_sat(m->backward_input_ps, lw_mul_sat(short_b, split));
    lw_module_move_attention(m, s->time[LW_PRODUCTS_FORWARD], backward_of(s));
}

/* Kernels that full recomputation leaves out are the last ones of the forward, which may last
 * longer than they do. */
static lw_ps unrepeated(const struct sums *s, lw_ps forward)
{
    lw_ps all = s->time[LW_PRODUCTS_FORWARD];

    return all > 0 ? forward - (lw_ps)((__int128)forward * (all - s->unrepeated) / all) : 0;
}

/* Backward, which runs the other way, begins attention after what comes after it. */
static void set_times(const struct timer *t, const struct sums *s, struct lw_module *m)
{
    m->forward_ps = s->time[LW_PRODUCTS_FORWARD];
    m->backward_input_ps = s->time[LW_PRODUCTS_INPUT];
    m->backward_weight_ps = s->time[LW_PRODUCTS_WEIGHT];
    m->whole_forward_ps = s->whole[LW_PRODUCTS_FORWARD];
    m->whole_input_ps = s->whole[LW_PRODUCTS_INPUT];
    m->whole_weight_ps = s->whole[LW_PRODUCTS_WEIGHT];
    m->selective_ps = s->again;
    m->tp_column_ps = s->column;
    m->tp_row_ps = s->row;
    m->attention_start_ps = s->attention_start;
    m->attention_ps = s->attention;
    m->attention_backward_start_ps =
        s->attention_backward > 0 ? backward_of(s) - s->attention_backward_end : 0;
    m->attention_backward_ps = s->attention_backward;
    m->forward_flops = s->flops;
    m->forward_bytes = s->bytes;
    memcpy(m->bound_ps, s->bound, sizeof m->bound_ps);
    m->host_bounds[0] = m->host_bounds[1] = false;
    hold_for_host(t, s, m);
    m->unrepeated_ps = unrepeated(s, m->forward_ps);
}

/* Of all ranks of the context group: a plan divides by them. Measured times are so. */
static void take_all_ranks(struct lw_module *m, int64_t ranks)
{
    int64_t *const of_kernels[] = {
        &m->forward_ps, &m->backward_input_ps, &m->backward_weight_ps, &m->whole_forward_ps,
        &m->whole_input_ps, &m->whole_weight_ps, &m->selective_ps, &m->unrepeated_ps,
        &m->tp_column_ps, &m->tp_row_ps, &m->attention_start_ps, &m->attention_ps,
        &m->attention_backward_start_ps, &m->attention_backward_ps, &m->forward_flops,
        &m->forward_bytes,
    };

    if (ranks == 1 || m->n_kernels == 0)
        return;
    for (size_t f = 0; f < sizeof of_kernels / sizeof *of_kernels; f++)
        *of_kernels[f] = lw_mul_sat(*of_kernels[f], ranks);
}

/* --- all of them ------------------------------------------------------------------------------ */

static void keep_times(struct lw_workload *w, struct timer *t, int32_t k, bool first)
{
    if (!w->kernel_times)
        return;
    for (int f = 0; f < LW_N_PRODUCT_PHASES && !first; f++)
        t->times.before[f] =
            lw_add_sat(w->kernel_times[k - 1].before[f], w->kernel_times[k - 1].ps[f]);
    w->kernel_times[k] = t->times;
}

/* sums[n_modules], seen[n_kernels]: the module that has them, and one, by first kernel; zeroed. */
static void sum_modules(struct lw_workload *w, struct timer *t, struct sums *sums, lw_ps *before,
                        int32_t *seen)
{
    for (int32_t i = 0; i < w->n_modules; i++) {
        struct lw_module *m = &w->modules[i];
        if (m->n_kernels > 0 && seen[m->first_kernel] > 0) {
            sums[i] = sums[seen[m->first_kernel] - 1];
            continue;
        }
        t->of = &sums[i];
        for (int32_t k = m->first_kernel; k < m->first_kernel + m->n_kernels; k++) {
            t->k = &w->kernels[k];
            t->before = &before[k];
            add_kernel(t);
            keep_times(w, t, k, k == m->first_kernel);
        }
        if (m->n_kernels > 0)
            seen[m->first_kernel] = i + 1;
    }
}

/* Of a module's backward of `sum`, which its window stretches where the host does. */
static lw_ps stretched(lw_ps at, lw_ps sum, lw_ps window)
{
    return sum > 0 ? (lw_ps)((__int128)window * at / sum) : 0;
}

/* A gradient is ready at the end of its kernel's backward; that of a tied parameter with the last
 * of its uses, which is the first parameter's, since its module comes last in backward. */
static void set_ready(struct lw_workload *w, const struct sums *sums, const lw_ps *before,
                      const lw_ps *old_end, const lw_ps *end, int64_t ranks)
{
    for (int32_t i = 0; i < w->n_params; i++) {
        struct lw_param *p = &w->params[i];
        const struct lw_module *m = &w->modules[p->module];
        const struct sums *s = &sums[p->module];
        if (m->n_kernels == 0) { /* measured */
            p->ready_ps += p->ready_ps >= 0 ? end[p->module] - old_end[p->module] : 0;
            continue;
        }
        lw_ps rest = stretched(before[m->first_kernel + w->grad_kernel[i]], backward_of(s),
                               lw_module_backward(m) / ranks);
        p->ready_ps =
            p->trainable && p->used ? end[p->module] - lw_mul_sat(rest, ranks) : -1;
    }
}

struct ready {
    lw_ps at;
    int32_t param;
};

/* By time; what becomes ready together in reverse registration order, as autograd runs. */
LW_COMPARATOR(compare_ready, struct ready, a->at, b->at, b->param, a->param)

static void set_order(struct lw_workload *w, struct ready *ready)
{
    int32_t n = 0;

    for (int32_t i = 0; i < w->n_params; i++)
        if (lw_param_has_gradient(&w->params[i]))
            ready[n++] = (struct ready){w->params[i].ready_ps, i};
    lw_sort(ready, n, compare_ready);
    for (int32_t k = 0; k < n; k++)
        w->ready_order[k] = ready[k].param;
    w->n_ready = n;
}

/* --- once per step ---------------------------------------------------------------------------- */

const struct lw_work_table *lw_optimizer_table(const struct lw_device *d,
                                               const struct lw_workload *w)
{
    static const enum lw_work_kind kinds[LW_N_OPTIMIZERS] = {
        [LW_OPTIMIZER_SGD] = LW_WORK_SGD,
        [LW_OPTIMIZER_MOMENTUM] = LW_WORK_MOMENTUM,
        [LW_OPTIMIZER_ADAM] = LW_WORK_ADAM,
    };
    enum lw_dtype dtype = lw_workload_main_dtype(w);
    bool known = dtype == LW_F32 && w->optimizer != LW_OPTIMIZER_UNKNOWN &&
                 w->optimizer != LW_OPTIMIZER_MUON;

    return known ? lw_work_find(d, kinds[w->optimizer], dtype, dtype) : NULL;
}

static struct lw_bounded pass_over(const struct timer *t, int64_t bytes)
{
    return t->by_shape ? lw_traffic_bounded(t->device, bytes, 0) : roofline(t, 0, bytes);
}

/* Of all ranks of the tensor group together: each gathers a matrix that they share
 * (shared/lower_part/lower_muon.c), and does all of it (--muon-tp-mode duplicated, the default). */
static lw_ps newton_schulz(const struct lw_workload *w, const struct timer *t)
{
    struct lw_kernel_work works[LW_NEWTON_SCHULZ_WORKS];
    const int64_t tp = lw_group_size(t->groups->tp);
    lw_ps sum = 0;

    for (int32_t i = 0; i < w->n_params; i++) {
        const struct lw_param *p = &w->params[i];
        int64_t rows, columns, n = lw_newton_schulz_shape(w, i, &rows, &columns);
        bool shared = p->tp_split != LW_TP_REPLICATED && !(p->expert && t->groups->whole_experts);
        if (n == 0)
            continue;
        int64_t bytes = LW_NEWTON_SCHULZ_BYTES +
                        (shared && tp > 1 ? LW_NEWTON_SCHULZ_GATHERED_BYTES : 0);
        lw_ps one = pass_over(t, lw_mul_sat(bytes, rows * columns)).time;
        lw_newton_schulz_step(rows, columns, works);
        for (int k = 0; k < LW_NEWTON_SCHULZ_WORKS; k++)
            add(&one, lw_mul_sat(time_of(t, &works[k], 1).time, LW_NEWTON_SCHULZ_STEPS));
        add(&sum, lw_mul_sat(one, n * (shared ? tp : 1)));
    }
    return sum;
}

/* Of what Muon leaves to Adam: the second state is read and written. */
static int64_t second_states(const struct lw_workload *w)
{
    int64_t numel = lw_workload_numel(w, true);

    for (int32_t i = 0; i < w->n_params; i++)
        if (w->params[i].trainable && w->params[i].tied < 0 && lw_param_is_matrix(&w->params[i]))
            numel -= w->params[i].numel;
    return 2 * 4 * numel;
}

/* Muon's: what bounds the most of it. */
static struct lw_bounded muon(const struct lw_workload *w, const struct timer *t)
{
    int64_t bytes = w->step_traffic.update * lw_workload_numel(w, true) + second_states(w);
    struct lw_bounded update = pass_over(t, bytes);
    lw_ps products = newton_schulz(w, t);

    update.bound = products > update.time ? LW_BOUND_COMPUTE : update.bound;
    add(&update.time, products);
    return update;
}

static void time_step(struct lw_workload *w, const struct timer *t)
{
    int64_t numel = lw_workload_numel(w, true);
    const struct lw_work_table *table = lw_optimizer_table(t->device, w);
    bool measured = table || (!t->by_shape && table_of(t, LW_WORK_COPY));
    struct lw_bounded update = {.bound = LW_BOUND_MEMORY}, held = update;

    if (table) {
        update.time = lw_work_time(table, 4 * numel);
    } else {
        update = w->optimizer == LW_OPTIMIZER_MUON
                     ? muon(w, t) : pass_over(t, w->step_traffic.update * numel);
        held = pass_over(t, w->step_traffic.held * numel);
    }
    w->optimizer_ps = update.time;
    w->gradients_ps = held.time;
    w->optimizer_bound = update.bound;
    w->gradients_bound = held.bound;
    w->step_source = measured      ? LW_TIME_TABLE
                     : t->by_shape ? LW_TIME_SHAPE : LW_TIME_ROOFLINE;
}

static bool has_experts(const struct lw_workload *w)
{
    for (int32_t k = 0; k < w->n_kernels; k++)
        if (w->kernels[k].experts > 0)
            return true;
    return false;
}

enum lw_status lw_kernels_time(struct lw_workload *w, const struct lw_device *d,
                               const struct lw_kernel_rates *rates,
                               const struct lw_kernel_groups *groups, struct lw_err *err)
{
    enum lw_dtype dtype = lw_workload_main_dtype(w);
    struct timer t = {.device = d, .rates = rates, .groups = groups, .dtype = dtype};
    struct lw_arena scratch = {0};
    struct sums *sums = lw_arena_alloc(&scratch, w->n_modules, sizeof *sums);
    lw_ps *before = lw_arena_alloc(&scratch, w->n_kernels, sizeof *before);
    int32_t *seen = lw_arena_alloc(&scratch, w->n_kernels, sizeof *seen);
    lw_ps *end = lw_arena_alloc(&scratch, w->n_modules, sizeof *end), now = 0;
    lw_ps *old_end = lw_arena_alloc(&scratch, w->n_modules, sizeof *old_end), old = 0;
    struct ready *ready = lw_arena_alloc(&scratch, w->n_params, sizeof *ready);

    if (!sums || !before || !seen || !end || !old_end || !ready) {
        lw_arena_free(&scratch);
        return lw_fail_nomem(err);
    }
    t.captured = rates->captured && has_experts(w);
    t.apart = lw_device_by_shape(d, dtype);
    t.by_shape = t.apart && !table_of(&t, LW_WORK_GEMM);
    sum_modules(w, &t, sums, before, seen);
    const int64_t ranks = lw_group_size(groups->cp);
    for (int32_t i = w->n_modules - 1; i >= 0; i--) {
        old_end[i] = old = lw_add_sat(old, lw_module_backward(&w->modules[i]));
        if (w->modules[i].n_kernels > 0)
            set_times(&t, &sums[i], &w->modules[i]);
        take_all_ranks(&w->modules[i], ranks);
        end[i] = now = lw_add_sat(now, lw_module_backward(&w->modules[i]));
    }
    if (w->grad_kernel)
        set_ready(w, sums, before, old_end, end, ranks);
    if (w->grad_kernel)
        set_order(w, ready);
    time_step(w, &t);
    w->timed_for = *groups;
    lw_arena_free(&scratch);
    return LW_OK;
}

/* Times of a workload, or of a plan, on another device. A module's forward or backward is its
 * matrix products and the rest. Where products are known by shape and both devices have figures for
 * shapes, a product takes what device_time.h gives there; more or less than that here is part of
 * the rest. The rest goes by the ratio of its roofline there and here: what a module loses against
 * it where it was timed (launches, small products), it loses there too. Where the products alone
 * take more here than the module has, all of it goes by their ratio. What each rank of a tensor
 * group computes whole is its products with parameters that are not split, by shape, and
 * traffic. */
#include "shared/device/retime.h"

#include <stdio.h>

#include "shared/device/device_time.h"
#include "shared/device/time_ops.h"
#include "shared/numbers/checked.h"
#include "shared/plan/op.h"
#include "shared/plan/work_rows.h"

struct figures {
    const struct lw_device *device;
    double flops, bytes; /* per second: of a whole module, of what is not its products */
    double attention[2]; /* FLOPs that are not its products' either: of forward and backward */
};

/* Enough to ask whether a file can be re-timed at all. */
static const struct lw_device NO_SHAPES;
static const struct figures ANY = {&NO_SHAPES, 1, 1, {1, 1}};

/* Of matrix products: what they take on the two devices. Zeroed: none, or not known by shape. */
struct products {
    double here, there, flops;
};

static enum lw_status figures_of(const struct lw_device *d, enum lw_dtype dtype,
                                 struct figures *f, struct lw_err *err)
{
    struct lw_figure peak = d->peak_flops[dtype], bytes = d->memory_bytes_per_s;
    double share = lw_figure_is_set(d->gemm_efficiency) ? d->gemm_efficiency.value : 1;

    if (!lw_figure_is_set(peak) || !lw_figure_is_set(bytes))
        return lw_fail(err, LW_ENOTSUP,
                       "device '%s' gives no %s: times cannot be changed from or to "
                       "it",
                       d->kind,
                       lw_figure_is_set(peak) ? "memory_bytes_per_s"
                                              : "peak_flops of the parameters' type");
    double flops = peak.value * share;
    *f = (struct figures){d, flops, bytes.value, {flops, flops}};
    return LW_OK;
}

/* With figures for shapes: those of attention, and the bandwidth that kernels reach. */
static void figures_by_shape(enum lw_dtype dtype, struct figures *f)
{
    const struct lw_device *d = f->device;

    if (lw_figure_is_set(d->attention_forward))
        f->attention[0] = d->peak_flops[dtype].value * d->attention_forward.value;
    if (lw_figure_is_set(d->attention_backward))
        f->attention[1] = d->peak_flops[dtype].value * d->attention_backward.value;
    f->bytes = lw_device_traffic_rate(d);
}

static enum lw_status figures_of_both(const struct lw_device *from, const struct lw_device *to,
                                      enum lw_dtype dtype, struct figures *here,
                                      struct figures *there, struct lw_err *err)
{
    LW_TRY(figures_of(from, dtype, here, err));
    LW_TRY(figures_of(to, dtype, there, err));
    if (lw_device_by_shape(from, dtype) && lw_device_by_shape(to, dtype)) {
        figures_by_shape(dtype, here);
        figures_by_shape(dtype, there);
    }
    return LW_OK;
}

static double roofline(double flops, double rate, double bytes, const struct figures *f)
{
    double compute = flops > 0 ? flops / rate : 0, memory = bytes > 0 ? bytes / f->bytes : 0;

    return compute > memory ? compute : memory;
}

/* What takes time takes some there too: an op of 0 ps would be one without work. */
static lw_ps scaled(lw_ps t, double ratio)
{
    lw_ps there = lw_round_sat((double)t * ratio);

    return t > 0 && there < 1 ? 1 : there;
}

/* Without figures for narrow operands their products would get the times of 16-bit ones, and those
 * of TF32 none. */
static enum lw_status check_narrow(const struct lw_product *p, int32_t n,
                                   const struct lw_device *to, struct lw_err *err)
{
    for (int32_t i = 0; i < n; i++) {
        const char *lacks = p[i].fp8 ? lw_device_lacks_narrow(to, p[i].dtype, p[i].fp4) : NULL;
        if (lacks)
            return lw_fail(err, LW_ENOTSUP,
                           "its products take %d-bit operands (model --fp%d), and device '%s' has "
                           "no %s: make the workload without --fp%d, or choose another device",
                           p[i].fp4 ? 4 : 8, p[i].fp4 ? 4 : 8, to->kind, lacks, p[i].fp4 ? 4 : 8);
        if (p[i].tf32 && lw_device_lacks_tf32(to))
            return lw_fail(err, LW_ENOTSUP,
                           "its products are of TF32 (model --tf32), and device '%s' has no %s: "
                           "make the workload without --tf32, or choose another device",
                           to->kind, lw_device_lacks_tf32(to));
    }
    return LW_OK;
}

static void add_product(struct products *x, const struct lw_product *p, double ranks,
                        const struct figures *from, const struct figures *to)
{
    if (!lw_device_by_shape(from->device, p->dtype) || !lw_device_by_shape(to->device, p->dtype))
        return;
    x->here += ranks * (double)lw_product_time(from->device, p);
    x->there += ranks * (double)lw_product_time(to->device, p);
    x->flops += ranks * (double)lw_product_flops(p);
}

/* Of what is not these products: attention in one kernel, traffic; of all where there are none.
 * 0 = it holds neither FLOPs nor bytes. Rounding of shares leaves some FLOPs of a product. */
static double rest_ratio(double flops, double bytes, const struct products *x, bool backward,
                         const struct figures *from, const struct figures *to)
{
    const bool shaped = x->flops > 0;
    double other = flops > 1.001 * x->flops ? flops - x->flops : 0;

    if (other <= 0 && bytes <= 0)
        other = flops;
    double here = roofline(other, shaped ? from->attention[backward] : from->flops, bytes, from);
    double there = roofline(other, shaped ? to->attention[backward] : to->flops, bytes, to);
    return here > 0 ? there / here : 0;
}

static double time_ratio(double ps, const struct products *x, double rest)
{
    if (x->here <= 0 || ps <= 0)
        return rest;
    return ps <= x->here ? x->there / x->here : (x->there + (ps - x->here) * rest) / ps;
}

/* --- a workload ------------------------------------------------------------------------------- */

struct ratios {
    double phase[LW_N_PRODUCT_PHASES]; /* of a module's times */
    double whole[LW_N_PRODUCT_PHASES]; /* of those parts that each rank of a tensor group has */
    double products, rest[2];          /* of the forward; of forward and backward */
    bool shaped;
};

/* Whether it multiplies by a parameter that each rank of a tensor group has whole. */
static bool is_whole(const struct lw_workload *w, const struct lw_module *m, int phase,
                     const struct lw_product *x)
{
    const int64_t numel = phase == LW_PRODUCTS_WEIGHT ? x->m * x->n : x->n * x->k;

    for (int32_t i = 0; i < w->n_params; i++) {
        const struct lw_param *p = &w->params[i];
        if (&w->modules[p->module] == m && p->tp_split == LW_TP_REPLICATED && p->numel == numel)
            return true;
    }
    return false;
}

/* Adds to *whole those that are in the module's whole part. */
static struct products products_of(const struct lw_workload *w, const struct lw_module *m,
                                   int phase, lw_ps whole_ps, const struct figures *from,
                                   const struct figures *to, struct products *whole)
{
    const bool divided = m->tp_split != LW_TP_REPLICATED && w->timed_for.tp > 1;
    struct products x = {0};

    for (int32_t i = 0; i < m->n_products[phase]; i++) {
        const struct lw_product *p = &w->products[m->products[phase][i]];
        bool each = whole_ps > 0 && is_whole(w, m, phase, p);
        add_product(&x, p, divided && !each ? (double)w->timed_for.tp : 1, from, to);
        if (each)
            add_product(whole, p, 1, from, to);
    }
    return x;
}

static struct ratios ratios_of(const struct lw_workload *w, const struct lw_module *m,
                               const struct figures *from, const struct figures *to)
{
    const lw_ps ps[] = {m->forward_ps, m->backward_input_ps, m->backward_weight_ps};
    const double flops = (double)m->forward_flops, bytes = (double)m->forward_bytes;
    const lw_ps whole_ps[] = {m->whole_forward_ps, m->whole_input_ps, m->whole_weight_ps};
    struct products x[LW_N_PRODUCT_PHASES], back, whole[LW_N_PRODUCT_PHASES] = {{0}};
    struct ratios r = {.shaped = false};

    for (int k = 0; k < LW_N_PRODUCT_PHASES; k++)
        x[k] = products_of(w, m, k, whole_ps[k], from, to, &whole[k]);
    back = (struct products){0, 0, x[LW_PRODUCTS_INPUT].flops + x[LW_PRODUCTS_WEIGHT].flops};
    r.rest[0] = rest_ratio(flops, bytes, &x[LW_PRODUCTS_FORWARD], false, from, to);
    r.rest[1] = rest_ratio(2 * flops, 2 * bytes, &back, true, from, to);
    for (int k = 0; k < LW_N_PRODUCT_PHASES; k++) {
        r.phase[k] = time_ratio((double)ps[k], &x[k], r.rest[k > 0]);
        r.shaped = r.shaped || x[k].here > 0;
        double rest = x[k].here > 0 ? from->bytes / to->bytes : r.rest[k > 0];
        r.whole[k] = time_ratio((double)whole_ps[k], &whole[k], rest);
    }
    r.products = time_ratio(1, &x[LW_PRODUCTS_FORWARD], r.rest[0]);
    return r;
}

/* *n_shaped: modules with products that are timed by shape. */
static enum lw_status find_ratios(const struct lw_workload *w, const struct figures *from,
                                  const struct figures *to, const char *kind, struct ratios *out,
                                  int32_t *n_shaped, struct lw_err *err)
{
    *n_shaped = 0;
    for (int32_t i = 0; i < w->n_modules; i++) {
        const struct lw_module *m = &w->modules[i];
        out[i] = ratios_of(w, m, from, to);
        *n_shaped += out[i].shaped;
        if (out[i].rest[0] <= 0 && m->forward_ps + lw_module_backward(m) > 0)
            return lw_fail(err, LW_ENOTSUP,
                           "module %d '%s' gives neither FLOPs nor bytes: it cannot be timed for "
                           "device '%s'; record it with record_shapes=True (lapwing_record does) "
                           "and import it again, or make or record the workload for that device",
                           i, m->name, kind);
    }
    return LW_OK;
}

static lw_ps at_most(lw_ps t, lw_ps most)
{
    return t < most ? t : most;
}

static void scale_module(struct lw_module *m, const struct ratios *r)
{
    lw_ps *const times[] = {&m->forward_ps, &m->backward_input_ps, &m->backward_weight_ps};
    lw_ps forward = m->forward_ps, backward = lw_module_backward(m);
    lw_ps *const whole[] = {&m->whole_forward_ps, &m->whole_input_ps, &m->whole_weight_ps};

    for (int k = 0; k < LW_N_PRODUCT_PHASES; k++) {
        *times[k] = scaled(*times[k], r->phase[k]);
        *whole[k] = at_most(scaled(*whole[k], r->whole[k]), *times[k]);
    }
    lw_module_move_attention(m, forward, backward);
    m->selective_ps = scaled(m->selective_ps, r->phase[LW_PRODUCTS_FORWARD]);
    m->unrepeated_ps = at_most(scaled(m->unrepeated_ps, r->phase[LW_PRODUCTS_FORWARD]),
                               m->forward_ps);
    /* the two together stay within the forward */
    lw_ps products = at_most(scaled(m->tp_column_ps + m->tp_row_ps, r->products), m->forward_ps);
    m->tp_column_ps = at_most(scaled(m->tp_column_ps, r->products), products);
    m->tp_row_ps = products - m->tp_column_ps;
}

/* A note more, and the kind that the times are now of. n_shaped of n_modules go by shape. */
static enum lw_status note(struct lw_arena *a, const char ***notes, int32_t *n_notes,
                           const char **device, const struct lw_device *from,
                           const struct lw_device *to, int32_t n_shaped, int32_t n_modules,
                           struct lw_err *err)
{
    char text[300], shapes[100] = "";
    const char *kind = lw_arena_strdup(a, to->kind);

    if (!kind)
        return lw_fail_nomem(err);
    if (n_shaped > 0)
        snprintf(shapes, sizeof shapes, "the products of %d of %d modules by shape, the rest ",
                 n_shaped, n_modules);
    snprintf(text, sizeof text,
             LW_ASSUMPTION "times of device '%.60s' from those of '%.60s': %sby FLOPs and bytes",
             to->kind, from->kind, shapes);
    LW_TRY(lw_note_add(a, notes, n_notes, text, err));
    *device = kind;
    return LW_OK;
}

enum lw_status lw_workload_retime(struct lw_workload *w, const struct lw_device *from,
                                  const struct lw_device *to, struct lw_err *err)
{
    struct figures here, there;
    struct lw_arena scratch = {0};

    LW_TRY(figures_of_both(from, to, lw_workload_main_dtype(w), &here, &there, err));
    LW_TRY(check_narrow(w->products, w->n_products, to, err));
    struct ratios *ratio = lw_arena_alloc(&scratch, w->n_modules, sizeof *ratio);
    int32_t n_shaped = 0;
    lw_ps *old_length = lw_arena_alloc(&scratch, w->n_modules, sizeof *old_length);
    enum lw_status s = ratio && old_length ? LW_OK : lw_fail_nomem(err);
    if (s == LW_OK)
        s = find_ratios(w, &here, &there, to->kind, ratio, &n_shaped, err);
    if (s == LW_OK)
        s = note(&w->arena, &w->notes, &w->n_notes, &w->from.device, from, to,
                 n_shaped, w->n_modules, err);
    for (int32_t i = 0; s == LW_OK && i < w->n_modules; i++) {
        old_length[i] = lw_module_backward(&w->modules[i]);
        scale_module(&w->modules[i], &ratio[i]);
        lw_module_forget_bounds(&w->modules[i]);
    }
    if (s == LW_OK) {
        w->kernel_times = NULL;
        lw_workload_move_ready(w, old_length);
        w->step_source = LW_TIME_SCALED;
    }
    if (s == LW_OK) {
        w->optimizer_ps = scaled(w->optimizer_ps, here.bytes / there.bytes);
        w->gradients_ps = scaled(w->gradients_ps, here.bytes / there.bytes);
    }
    lw_arena_free(&scratch);
    return s;
}

bool lw_workload_can_retime(const struct lw_workload *w)
{
    if (w->n_ops > 0)
        return true;
    struct lw_arena scratch = {0};
    struct ratios *ratio = lw_arena_alloc(&scratch, w->n_modules, sizeof *ratio);
    int32_t n_shaped;
    bool can = ratio && find_ratios(w, &ANY, &ANY, "", ratio, &n_shaped, NULL) == LW_OK;

    lw_arena_free(&scratch);
    return can;
}

/* --- a plan ----------------------------------------------------------------------------------- */

static enum lw_dtype main_dtype(const struct lw_plan *p)
{
    int64_t n[LW_N_DTYPES] = {0};

    for (int32_t i = 0; i < p->n_params; i++)
        n[p->params[i].dtype] += p->params[i].numel;
    return lw_dtype_of_most(n);
}

static bool is_timed_compute(const struct lw_plan *p, const struct lw_op *op)
{
    return lw_op_class(op->kind) == LW_CLASS_COMPUTE && lw_plan_work_ps(p, op) > 0;
}

/* Of a module's forward and of its backward: all works of one program. */
struct module_works {
    int32_t program; /* that it is taken from, and one; 0 = none yet */
    double ps, flops, bytes;
    struct products products;
};

static bool has_size(const struct lw_work *w)
{
    return w->flops > 0 || w->bytes > 0;
}

static int direction(const struct lw_op *op)
{
    return op->kind == LW_OP_FORWARD ? 0 : 1;
}

static void add_work(const struct lw_plan *p, const struct lw_work *w, struct module_works *x,
                     const struct figures *from, const struct figures *to)
{
    x->ps += (double)w->ps;
    x->flops += w->flops > 0 ? (double)w->flops : 0;
    x->bytes += w->bytes > 0 ? (double)w->bytes : 0;
    for (int32_t i = w->first_product; i < w->first_product + w->n_products; i++)
        add_product(&x->products, &p->products[p->work_products[i]], 1, from, to);
}

/* of[2 * n_modules]: zeroed. */
static void gather_works(const struct lw_plan *p, const struct figures *from,
                         const struct figures *to, struct module_works *of)
{
    for (int32_t g = 0; g < p->n_variants * p->n_roles; g++)
        for (int32_t i = 0; i < p->programs[g].n_ops; i++) {
            const struct lw_op *op = LW_OP(p, p->programs[g].first_op + i);
            if (op->work < 0 || op->module < 0 || !is_timed_compute(p, op) ||
                !has_size(lw_work_at(p, op->work)))
                continue;
            struct module_works *x = &of[2 * op->module + direction(op)];
            if (x->program == 0)
                x->program = g + 1;
            if (x->program == g + 1)
                add_work(p, lw_work_at(p, op->work), x, from, to);
        }
}

static double work_ratio(const struct lw_plan *p, const struct lw_op *op,
                         const struct module_works *of, const struct figures *from,
                         const struct figures *to)
{
    const struct lw_work *w = lw_work_at(p, op->work);
    const struct module_works own = {.flops = (double)w->flops, .bytes = (double)w->bytes};
    const struct module_works *x = op->module < 0 ? &own
                                   : has_size(w)  ? &of[2 * op->module + direction(op)]
                                                  : &of[2 * op->module]; /* done again */
    const bool backward = op->module >= 0 && x == &of[2 * op->module + 1];
    double rest = rest_ratio(x->flops, x->bytes, &x->products, backward, from, to);

    if (rest <= 0 && op->kind == LW_OP_OPTIMIZER)
        return from->bytes / to->bytes;
    return time_ratio(x->ps, &x->products, rest);
}

/* of_work[n_works], of[2 * n_modules]: zeroed. */
static enum lw_status find_work_ratios(const struct lw_plan *p, const struct figures *from,
                                       const struct figures *to, const char *kind,
                                       double *of_work, struct module_works *of,
                                       struct lw_err *err)
{
    char text[LW_OP_TEXT];

    gather_works(p, from, to, of);
    for (int32_t i = 0; i < p->n_ops; i++) {
        const struct lw_op *op = LW_OP(p, i);
        if (!is_timed_compute(p, op))
            continue;
        if (op->work >= 0)
            of_work[op->work] = work_ratio(p, op, of, from, to);
        if (op->work < 0 || of_work[op->work] <= 0)
            return lw_fail(err, LW_ENOTSUP,
                           "%s gives neither FLOPs nor bytes: it cannot be timed for device '%s'; "
                           "make the plan again from a workload for that device",
                           lw_plan_op_text(p, i, text), kind);
    }
    return LW_OK;
}

static int32_t count_shaped(const struct lw_plan *p, const struct module_works *of)
{
    int32_t n = 0;

    for (int32_t m = 0; m < p->n_modules; m++)
        n += of[2 * m].products.here > 0 || of[2 * m + 1].products.here > 0;
    return n;
}

enum lw_status lw_plan_retime(struct lw_plan *p, const struct lw_device *from,
                              const struct lw_device *to, struct lw_err *err)
{
    struct figures here, there;
    struct lw_arena scratch = {0};

    LW_TRY(figures_of_both(from, to, main_dtype(p), &here, &there, err));
    LW_TRY(check_narrow(p->products, p->n_products, to, err));
    LW_TRY(lw_plan_write_works(p, err));
    double *of_work = lw_arena_alloc(&scratch, p->n_works, sizeof *of_work);
    struct module_works *of = lw_arena_alloc(&scratch, 2 * (int64_t)p->n_modules, sizeof *of);
    enum lw_status s = of_work && of ? LW_OK : lw_fail_nomem(err);
    if (s == LW_OK)
        s = find_work_ratios(p, &here, &there, to->kind, of_work, of, err);
    if (s == LW_OK)
        s = note(&p->arena, &p->notes, &p->n_notes, &p->device, from, to, count_shaped(p, of),
                 p->n_modules, err);
    for (int32_t i = 0; s == LW_OK && i < p->n_works; i++)
        if (of_work[i] > 0) {
            p->works[i].ps = scaled(p->works[i].ps, of_work[i]);
            lw_work_forget_bounds(&p->works[i]);
            p->works[i].source = LW_TIME_SCALED;
        }
    lw_arena_free(&scratch);
    return s;
}

bool lw_plan_can_retime(const struct lw_plan *p)
{
    struct lw_arena scratch = {0};
    double *of_work = lw_arena_alloc(&scratch, p->n_works, sizeof *of_work);
    struct module_works *of = lw_arena_alloc(&scratch, 2 * (int64_t)p->n_modules, sizeof *of);
    bool can = of_work && of && find_work_ratios(p, &ANY, &ANY, "", of_work, of, NULL) == LW_OK;

    lw_arena_free(&scratch);
    return can;
}

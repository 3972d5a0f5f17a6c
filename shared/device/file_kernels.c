/* Kernels of a workload file. The file has the times that they took, per module and of all ranks:
 * what one rank takes for each kernel is computed again, and is right where the sums are. */
#include "shared/device/file_kernels.h"

#include <string.h>

struct lw_kernel_groups lw_workload_groups(const struct lw_workload *w)
{
    const struct lw_made_for *m = &w->from.made_for;

    return (struct lw_kernel_groups){.tp = m->tp, .cp = m->cp, .ep = m->ep,
                                     .sequence_parallel = m->sequence_parallel,
                                     .whole_experts = w->from.model.expert_whole ||
                                                      m->folded_experts,
                                     .folded_experts = m->folded_experts,
                                     .once = lw_workload_routing(w, m->dispatch_once)};
}

/* The device has what its kernels need: rates of their types, 8-bit products. LW_ENOTSUP names what
 * it lacks. */
static enum lw_status check_device(const struct lw_workload *w, const struct lw_device *d,
                                   struct lw_err *err)
{
    bool used[LW_N_DTYPES] = {false};

    used[lw_workload_main_dtype(w)] = true;
    for (int32_t i = 0; i < w->n_kernels; i++)
        used[w->kernels[i].dtype] |= w->kernels[i].kind != LW_KERNEL_TRAFFIC;
    for (int t = 0; t < LW_N_DTYPES; t++)
        if (used[t] && !lw_figure_is_set(d->peak_flops[t]))
            return lw_fail(err, LW_ENOTSUP,
                           "device '%s' gives no peak_flops.%s, the type of kernels of workload "
                           "'%s': add it to the cluster file, or choose another device",
                           d->kind, lw_dtype_name((enum lw_dtype)t), w->name);
    for (int32_t i = 0; i < w->n_kernels; i++) {
        const struct lw_kernel *k = &w->kernels[i];
        const char *lacks =
            k->fp8 ? lw_device_lacks_narrow(d, (enum lw_dtype)k->dtype, k->fp4) : NULL;
        if (lacks)
            return lw_fail(err, LW_ENOTSUP,
                           "device '%s' has no %s, which kernels with %d-bit operands of workload "
                           "'%s' need: choose another device",
                           d->kind, lacks, k->fp4 ? 4 : 8, w->name);
        if (k->tf32 && lw_device_lacks_tf32(d))
            return lw_fail(err, LW_ENOTSUP,
                           "device '%s' has no %s, which kernels of workload '%s' need: choose "
                           "another device", d->kind, lw_device_lacks_tf32(d), w->name);
    }
    return lw_figure_is_set(d->memory_bytes_per_s)
               ? LW_OK
               : lw_fail(err, LW_ENOTSUP, "device '%s' gives no memory_bytes_per_s: kernels of "
                         "workload '%s' cannot be timed for it", d->kind, w->name);
}

/* --- the file's own times --------------------------------------------------------------------- */

static enum lw_status copy_timed(const struct lw_workload *w, struct lw_arena *scratch,
                                 struct lw_workload *out, struct lw_err *err)
{
    *out = *w;
    LW_TAKE(scratch, out->modules, w->n_modules, err);
    LW_TAKE(scratch, out->params, w->n_params, err);
    LW_TAKE(scratch, out->ready_order, w->n_params, err);
    memcpy(out->modules, w->modules, (size_t)w->n_modules * sizeof *w->modules);
    if (w->n_params > 0)
        memcpy(out->params, w->params, (size_t)w->n_params * sizeof *w->params);
    if (w->n_ready > 0)
        memcpy(out->ready_order, w->ready_order, (size_t)w->n_ready * sizeof *w->ready_order);
    return LW_OK;
}

static bool same_module(const struct lw_module *a, const struct lw_module *b)
{
    return a->forward_ps == b->forward_ps && a->backward_input_ps == b->backward_input_ps &&
           a->backward_weight_ps == b->backward_weight_ps && a->selective_ps == b->selective_ps;
}

/* Within the window of its module. */
static bool same_ready(const struct lw_param *a, lw_ps end_a, const struct lw_param *b, lw_ps end_b)
{
    return a->ready_ps < 0 || b->ready_ps < 0 ? a->ready_ps == b->ready_ps
                                              : end_a - a->ready_ps == end_b - b->ready_ps;
}

static void find_same(const struct lw_workload *w, const struct lw_workload *x, lw_ps *end,
                      lw_ps *end_of_x, bool *same)
{
    lw_ps now = 0, now_of_x = 0;

    for (int32_t i = w->n_modules - 1; i >= 0; i--) {
        same[i] = same_module(&w->modules[i], &x->modules[i]);
        end[i] = now = lw_add_sat(now, lw_module_backward(&w->modules[i]));
        end_of_x[i] = now_of_x = lw_add_sat(now_of_x, lw_module_backward(&x->modules[i]));
    }
    for (int32_t i = 0; i < w->n_params; i++) {
        int32_t m = w->params[i].module;
        same[m] = same[m] && same_ready(&w->params[i], end[m], &x->params[i], end_of_x[m]);
    }
}

/* As its kernels say, on a device that has the figures. */
struct said {
    struct lw_workload w;
    bool *same; /* by module: as the file says; NULL: it was not timed */
    struct lw_measured_modules measured;
};

static enum lw_status time_on(const struct lw_workload *w, const struct lw_device *d,
                              const struct lw_kernel_rates *rates, struct lw_arena *scratch,
                              struct said *x, struct lw_err *err)
{
    const struct lw_kernel_groups groups = lw_workload_groups(w);
    lw_ps *end, *end_of_x;

    x->measured = (struct lw_measured_modules){0, -1};
    LW_TRY(copy_timed(w, scratch, &x->w, err));
    LW_TAKE(scratch, x->same, w->n_modules, err);
    if (d && check_device(w, d, NULL) == LW_OK) {
        LW_TAKE(scratch, end, w->n_modules, err);
        LW_TAKE(scratch, end_of_x, w->n_modules, err);
        LW_TAKE(scratch, x->w.kernel_times, w->n_kernels, err);
        LW_TRY(lw_kernels_time(&x->w, d, rates, &groups, err));
        find_same(w, &x->w, end, end_of_x, x->same);
    }
    for (int32_t i = 0; i < w->n_modules; i++)
        if (w->modules[i].n_kernels > 0 && !x->same[i])
            x->measured.first = x->measured.n++ == 0 ? i : x->measured.first;
    return LW_OK;
}

static enum lw_status take(struct lw_workload *w, const struct said *x, struct lw_err *err)
{
    LW_TAKE(&w->arena, w->kernel_times, w->n_kernels, err);
    if (x->w.kernel_times)
        memcpy(w->kernel_times, x->w.kernel_times,
               (size_t)w->n_kernels * sizeof *w->kernel_times);
    w->timed_for = x->w.timed_for;
    if (w->optimizer_ps == x->w.optimizer_ps && w->gradients_ps == x->w.gradients_ps) {
        w->optimizer_bound = x->w.optimizer_bound;
        w->gradients_bound = x->w.gradients_bound;
        w->step_source = x->w.step_source;
    }
    for (int32_t i = 0; i < w->n_modules; i++) {
        struct lw_module *m = &w->modules[i];
        m->measured = m->n_kernels > 0 && !x->same[i];
        if (m->n_kernels == 0 || !x->same[i])
            continue;
        memcpy(m->bound_ps, x->w.modules[i].bound_ps, sizeof m->bound_ps);
        memcpy(m->host_bounds, x->w.modules[i].host_bounds, sizeof m->host_bounds);
    }
    return LW_OK;
}

enum lw_status lw_kernels_take(struct lw_workload *w, const struct lw_device *const d[2],
                               const struct lw_kernel_rates *rates,
                               struct lw_measured_modules *measured, struct lw_err *err)
{
    struct lw_arena scratch = {0};
    struct said x[2] = {0};
    enum lw_status s = time_on(w, d[0], rates, &scratch, &x[0], err);

    if (s == LW_OK)
        s = time_on(w, x[0].measured.n > 0 ? d[1] : NULL, rates, &scratch, &x[1], err);
    int best = x[1].measured.n < x[0].measured.n;
    if (s == LW_OK)
        s = take(w, &x[best], err);
    *measured = x[best].measured;
    lw_arena_free(&scratch);
    return s;
}

/* --- new times -------------------------------------------------------------------------------- */

enum lw_status lw_kernels_retime(struct lw_workload *w, const struct lw_device *d,
                                 const struct lw_kernel_rates *rates,
                                 const struct lw_kernel_groups *groups, struct lw_err *err)
{
    int32_t *order = w->ready_order;

    LW_TRY(check_device(w, d, err));
    LW_TAKE(&w->arena, w->kernel_times, w->n_kernels, err);
    LW_TAKE(&w->arena, w->ready_order, w->n_params, err);
    if (w->n_ready > 0)
        memcpy(w->ready_order, order, (size_t)w->n_ready * sizeof *order);
    LW_TRY(lw_kernels_list_products(w, groups, err));
    LW_TRY(lw_kernels_time(w, d, rates, groups, err));
    return lw_workload_check(w, err);
}

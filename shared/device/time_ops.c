/* Recorded operators, a device -> times of a workload, by the evaluator of a model's kernels. */
#include "shared/device/time_ops.h"

#include <stdio.h>

#include "shared/numbers/checked.h"

/* A moment of the backward, old[i] .. old[i] + length of module i, in the new one. */
static lw_ps moved(const struct lw_workload *w, const lw_ps *old_length, lw_ps at)
{
    lw_ps before = 0, after = 0;

    for (int32_t i = w->n_modules - 1; i >= 0; i--) {
        lw_ps length = lw_module_backward(&w->modules[i]);
        if (at <= before + old_length[i] && old_length[i] > 0)
            return lw_add_sat(after, (lw_ps)((double)(at - before) / (double)old_length[i] *
                                             (double)length));
        before += old_length[i];
        after = lw_add_sat(after, length);
    }
    return after;
}

void lw_workload_move_ready(struct lw_workload *w, const lw_ps *old_length)
{
    for (int32_t i = 0; i < w->n_params; i++)
        if (w->params[i].ready_ps >= 0)
            w->params[i].ready_ps = moved(w, old_length, w->params[i].ready_ps);
}

struct phases {
    lw_ps forward, backward;
};

static struct phases phases_of(const struct lw_module *m)
{
    return (struct phases){m->forward_ps, lw_module_backward(m)};
}

/* Every type that products and the parameters have. */
static enum lw_status check_device(const struct lw_workload *w, const struct lw_device *d,
                                   struct lw_err *err)
{
    bool used[LW_N_DTYPES] = {false};

    used[lw_workload_main_dtype(w)] = true;
    for (int32_t i = 0; i < w->n_ops; i++)
        used[w->ops[i].dtype] |= w->ops[i].kind != LW_KERNEL_TRAFFIC;
    for (int t = 0; t < LW_N_DTYPES; t++)
        if (used[t] && !lw_figure_is_set(d->peak_flops[t]))
            return lw_fail(err, LW_ENOTSUP,
                           "device '%s' gives no peak_flops.%s, the type of recorded operators: "
                           "add it to the cluster file, or choose another device",
                           d->kind, lw_dtype_name((enum lw_dtype)t));
    return lw_figure_is_set(d->memory_bytes_per_s)
               ? LW_OK
               : lw_fail(err, LW_ENOTSUP, "device '%s' gives no memory_bytes_per_s: recorded "
                         "operators cannot be timed for it", d->kind);
}

/* The kernels that the modules' operators are. */
static enum lw_status make_kernels(struct lw_workload *w, struct lw_err *err)
{
    int64_t n = 0;

    for (int32_t i = 0; i < w->n_modules; i++)
        n += w->modules[i].n_ops;
    if (n > INT32_MAX)
        return lw_fail(err, LW_ENOTSUP, "%lld recorded operators are more than can be timed",
                       (long long)n);
    struct lw_kernel *kernels;
    LW_TAKE(&w->arena, kernels, n, err);
    w->kernels = kernels;
    w->n_kernels = 0;
    for (int32_t i = 0; i < w->n_modules; i++) {
        struct lw_module *m = &w->modules[i];
        m->first_kernel = w->n_kernels;
        m->n_kernels = m->n_ops;
        for (int32_t k = 0; k < m->n_ops; k++)
            kernels[w->n_kernels++] = lw_recorded_kernel(&w->ops[m->ops[k]]);
    }
    return LW_OK;
}

/* Bytes that the optimizer moves per element: the gradient read, the parameter and each state read
 * and written. Of an unknown one Adam's, which is said. */
static int64_t update_bytes(const struct lw_workload *w)
{
    static const int states[LW_N_OPTIMIZERS] = {
        [LW_OPTIMIZER_UNKNOWN] = 2, [LW_OPTIMIZER_MOMENTUM] = 1, [LW_OPTIMIZER_ADAM] = 2,
        [LW_OPTIMIZER_MUON] = 1};

    return lw_dtype_size(lw_workload_main_dtype(w)) * (1 + 2 * (1 + states[w->optimizer]));
}

static lw_ps scaled(lw_ps recorded, lw_ps there, lw_ps here)
{
    return here > 0 ? lw_round_sat((double)recorded * ((double)there / (double)here)) : recorded;
}

/* A recorded step is of one rank, and its backward is not divided. */
static void settle_module(struct lw_module *m, struct phases now)
{
    m->forward_ps = now.forward;
    m->backward_input_ps = now.backward;
    m->backward_weight_ps = 0;
    m->whole_forward_ps = m->whole_input_ps = m->whole_weight_ps = 0;
    m->attention_start_ps = m->attention_ps = 0;
    m->attention_backward_start_ps = m->attention_backward_ps = 0;
}

static enum lw_status add_note(struct lw_workload *w, const char *text, struct lw_err *err)
{
    return lw_note_add(&w->arena, &w->notes, &w->n_notes, text, err);
}

static enum lw_status add_notes(struct lw_workload *w, const struct lw_device *from,
                                const struct lw_device *to, const struct lw_kernel_rates *rates,
                                struct lw_err *err)
{
    int64_t n[LW_N_KERNEL_KINDS] = {0};
    char text[400], host[100] = "no launch takes the host longer than the device";

    for (int32_t i = 0; i < w->n_modules; i++)
        for (int32_t k = 0; k < w->modules[i].n_ops; k++)
            n[w->ops[w->modules[i].ops[k]].kind]++;
    snprintf(text, sizeof text,
             LW_ASSUMPTION "times of device '%.60s' %s recorded operators: %lld products and %lld "
             "attention kernels by shape, %lld convolutions by FLOPs and bytes, %lld others by the "
             "bytes that they move",
             to->kind, from ? "by the ratio of" : "are those of the",
             (long long)n[LW_KERNEL_GEMM], (long long)n[LW_KERNEL_ATTENTION],
             (long long)n[LW_KERNEL_COUNTED], (long long)n[LW_KERNEL_TRAFFIC]);
    LW_TRY(add_note(w, text, err));
    if (rates->host_op_ps > 0)
        snprintf(host, sizeof host, "the host takes %.1f us to launch each of them",
                 (double)rates->host_op_ps / 1e6);
    if (!from) {
        snprintf(text, sizeof text,
                 LW_ASSUMPTION "element types stay as recorded (products of %s), an operator is a "
                 "kernel, and %s", lw_dtype_name(lw_workload_main_dtype(w)), host);
        LW_TRY(add_note(w, text, err));
    }
    if (w->optimizer != LW_OPTIMIZER_UNKNOWN)
        return LW_OK;
    snprintf(text, sizeof text, LW_ASSUMPTION "the optimizer is not recorded: it moves Adam's %lld "
             "bytes per element", (long long)update_bytes(w));
    return add_note(w, text, err);
}

static void forget(struct lw_module *m)
{
    m->forward_ps = m->backward_input_ps = m->backward_weight_ps = m->selective_ps = 0;
    m->unrepeated_ps = 0;
    m->forward_flops = m->forward_bytes = 0;
}

/* What the operators take, and the optimizer. */
static enum lw_status time_on(struct lw_workload *w, const struct lw_device *d,
                              const struct lw_kernel_rates *rates, struct phases *out,
                              lw_ps *optimizer, struct lw_err *err)
{
    for (int32_t i = 0; i < w->n_modules; i++)
        if (w->modules[i].n_kernels == 0)
            forget(&w->modules[i]);
    LW_TRY(lw_kernels_time(w, d, rates, &(struct lw_kernel_groups){.tp = 1}, err));
    for (int32_t i = 0; i < w->n_modules; i++)
        out[i] = phases_of(&w->modules[i]);
    *optimizer = w->optimizer_ps;
    return LW_OK;
}

static enum lw_status time_ops(struct lw_workload *w, const struct lw_device *from,
                               const struct lw_device *to, const struct lw_kernel_rates *rates,
                               struct lw_arena *scratch, struct lw_err *err)
{
    struct phases *old, *here, *there;
    lw_ps *length, old_optimizer = w->optimizer_ps, here_optimizer = 0, there_optimizer;

    LW_TAKE(scratch, old, w->n_modules, err);
    LW_TAKE(scratch, here, w->n_modules, err);
    LW_TAKE(scratch, there, w->n_modules, err);
    LW_TAKE(scratch, length, w->n_modules, err);
    const char *kind = lw_arena_strdup(&w->arena, to->kind);
    if (!kind)
        return lw_fail_nomem(err);
    LW_TRY(add_notes(w, from, to, rates, err));
    LW_TRY(make_kernels(w, err));
    w->step_traffic = (struct lw_step_traffic){.update = update_bytes(w)};
    for (int32_t i = 0; i < w->n_modules; i++) {
        old[i] = phases_of(&w->modules[i]);
        length[i] = old[i].backward;
    }
    if (from)
        LW_TRY(time_on(w, from, rates, here, &here_optimizer, err));
    LW_TRY(time_on(w, to, rates, there, &there_optimizer, err));
    for (int32_t i = 0; i < w->n_modules; i++)
        settle_module(&w->modules[i],
                      !from ? there[i]
                            : (struct phases){scaled(old[i].forward, there[i].forward,
                                                     here[i].forward),
                                              scaled(old[i].backward, there[i].backward,
                                                     here[i].backward)});
    for (int32_t i = 0; i < w->n_modules && from; i++) { /* the times hold more than kernels */
        lw_module_forget_bounds(&w->modules[i]);
        w->modules[i].n_kernels = 0;
    }
    w->n_kernels = from ? 0 : w->n_kernels;
    w->step_source = from ? LW_TIME_SCALED : w->step_source;
    w->optimizer_ps =
        from ? scaled(old_optimizer, there_optimizer, here_optimizer) : there_optimizer;
    lw_workload_move_ready(w, length);
    w->from.device = kind;
    return LW_OK;
}

enum lw_status lw_workload_time_ops(struct lw_workload *w, const struct lw_device *from,
                                    const struct lw_device *to,
                                    const struct lw_kernel_rates *rates, struct lw_err *err)
{
    struct lw_arena scratch = {0};

    LW_TRY(check_device(w, to, err));
    if (from)
        LW_TRY(check_device(w, from, err));
    enum lw_status s = time_ops(w, from, to, rates, &scratch, err);
    lw_arena_free(&scratch);
    return s;
}

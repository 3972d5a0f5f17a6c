/* Tensor, context and expert parallelism: what one rank of such groups computes and holds (Shoeybi
 * et al., arXiv 1909.08053, section 3). lower_part/ places the groups' collectives among a module's
 * ops.
 *
 * A module with kernels takes what one rank takes for these, and its gradients are ready where
 * their kernels end (lower_part/kernel_steps.c). A measured module's times are its whole part plus
 * the rest over tp, rounded up; its ready times keep their place within the module's window. Of
 * both, flops are divided, and so are activations; memory traffic follows the forward's time.
 * Parameters that the workload calls split have a tp-th of their elements: vocabularies are padded,
 * others must divide. A rank has an ep-th of the experts.
 *
 * With sequence parallelism (Korthikanti et al., arXiv 2205.05198, section 4.2) the whole part
 * is divided too, and so is what a module passes on. With context parallelism every measured time
 * and every activation is divided by cp, parameters are not. */
#include <inttypes.h>

#include "shared/lower_layout/lowering.h"

static int64_t over(int64_t whole, int64_t all, int32_t tp)
{
    return all < 0 ? -1 : whole + (all - whole + tp - 1) / tp;
}

static lw_ps least(lw_ps a, lw_ps b)
{
    return a < b ? a : b;
}

/* Rounding leaves attention inside the module. */
static void hold_attention(struct lw_module *m)
{
    lw_ps backward = lw_module_backward(m);

    m->attention_ps = least(m->attention_ps, m->forward_ps);
    m->attention_start_ps = least(m->attention_start_ps, m->forward_ps - m->attention_ps);
    m->attention_backward_ps = least(m->attention_backward_ps, backward);
    m->attention_backward_start_ps =
        least(m->attention_backward_start_ps, backward - m->attention_backward_ps);
}

/* Where experts are folded over the tensor group, a rank sends its part of the tokens. */
static struct lw_module shrink(const struct lw_module *m, int32_t tp, bool sequence, bool folds)
{
    struct lw_module x = *m;

    if (m->tp_split == LW_TP_REPLICATED)
        return x;
    x.forward_ps = over(sequence ? 0 : m->whole_forward_ps, m->forward_ps, tp);
    x.backward_input_ps = over(sequence ? 0 : m->whole_input_ps, m->backward_input_ps, tp);
    x.backward_weight_ps = over(sequence ? 0 : m->whole_weight_ps, m->backward_weight_ps, tp);
    lw_module_move_attention(&x, m->forward_ps, lw_module_backward(m));
    x.attention_ps = over(0, m->attention_ps, tp);
    x.attention_backward_ps = over(0, m->attention_backward_ps, tp);
    hold_attention(&x);
    x.selective_ps = over(0, m->selective_ps, tp);
    x.unrepeated_ps = 0; /* only kernels say where sums are */
    x.tp_column_ps = over(0, m->tp_column_ps, tp);
    x.tp_row_ps = over(0, m->tp_row_ps, tp);
    x.forward_flops = over(0, m->forward_flops, tp);
    if (m->forward_bytes > 0 && m->forward_ps > 0)
        x.forward_bytes = (int64_t)((__int128)m->forward_bytes * x.forward_ps / m->forward_ps);
    for (int r = 0; r < LW_N_RECOMPUTE; r++)
        x.kept_bytes[r] = over(sequence ? 0 : m->whole_kept_bytes[r], m->kept_bytes[r], tp);
    x.kv_bytes = over(0, m->kv_bytes, tp);
    x.dispatch_bytes = over(0, m->dispatch_bytes, sequence || folds ? tp : 1);
    x.dispatch_weight_bytes = over(0, m->dispatch_weight_bytes, sequence || folds ? tp : 1);
    x.dispatch_index_bytes = over(0, m->dispatch_index_bytes, sequence || folds ? tp : 1);
    x.routing_map_bytes = over(0, m->routing_map_bytes, sequence || folds ? tp : 1);
    x.output_bytes = over(0, m->output_bytes, sequence ? tp : 1);
    return x;
}

/* One of cp equal parts of the tokens. */
static void divide_tokens(struct lw_module *m, int32_t cp)
{
    int64_t *fields[LW_N_TOKEN_FIELDS];

    lw_module_token_fields(m, fields);
    for (int i = 0; i < LW_N_TOKEN_FIELDS; i++)
        *fields[i] = over(0, *fields[i], cp);
    hold_attention(m);
}

/* Rows of a part of so many elements that has all columns; 0: it has no whole rows. */
static int64_t fewer_rows(const struct lw_param *p, int64_t numel)
{
    int64_t columns = p->rows > 0 ? p->numel / p->rows : 0;

    return columns > 0 && numel % columns == 0 ? numel / columns : 0;
}

static enum lw_status shrink_params(const struct lw_workload *w, int32_t tp, bool folds,
                                    struct lw_param *out, struct lw_err *err)
{
    for (int32_t i = 0; i < w->n_params; i++) {
        const struct lw_param *p = LW_PARAM(w, i);
        out[i] = *p;
        if (p->tied >= 0 && p->tp_split != lw_param_at(w, p->tied).tp_split)
            return lw_fail(err, LW_EINVAL, "--tp %d: parameter %d '%s' shares the storage of '%s', "
                                           "but the workload splits them differently (tp_split)",
                           tp, i, p->name, lw_param_at(w, p->tied).name);
        if (p->tp_split == LW_TP_REPLICATED || (p->expert && folds))
            continue;
        if (p->numel % tp != 0 && p->tp_split != LW_TP_VOCAB)
            return lw_fail(err, LW_EINVAL, "--tp %d: parameter %d '%s' has %" PRId64 " elements, "
                                           "not a multiple of %d", tp, i, p->name, p->numel,
                           tp);
        out[i].numel = over(0, p->numel, tp);
        if (p->tp_split != LW_TP_ROW && !p->expert) /* experts' rows are the experts */
            out[i].rows = fewer_rows(p, out[i].numel);
        else if (p->rows > 0 && out[i].numel % p->rows != 0)
            out[i].rows = 0;
    }
    return LW_OK;
}

/* A rank has the ep-th part of a module's experts. */
static enum lw_status divide_experts(struct lw_param *params, int32_t n, int32_t ep,
                                     struct lw_err *err)
{
    for (int32_t i = 0; i < n; i++) {
        struct lw_param *p = &params[i];
        if (!p->expert)
            continue;
        if (p->numel % ep != 0)
            return lw_fail(err, LW_EINVAL,
                           "--ep %d: the experts of parameter %d '%s' have %" PRId64
                           " elements on a rank, not a multiple of %d",
                           ep, i, p->name, p->numel, ep);
        p->rows = fewer_rows(p, p->numel / ep);
        p->numel /= ep;
    }
    return LW_OK;
}

/* A ready time lies in the window of some module: it keeps its share of it. */
static void move_ready(const struct lw_workload *w, struct lw_workload *x)
{
    for (int32_t i = 0; i < w->n_params; i++) {
        lw_ps at = lw_param_at(w, i).ready_ps, begin = 0, moved = 0;
        int32_t m = w->n_modules - 1;
        if (at < 0)
            continue;
        for (; m > 0 && at > begin + lw_module_backward(lw_module_at(w, m)); m--) {
            begin += lw_module_backward(lw_module_at(w, m));
            moved += lw_module_backward(lw_module_at(x, m));
        }
        lw_ps length = lw_module_backward(lw_module_at(w, m));
        if (length > 0)
            moved += (lw_ps)((__int128)(at - begin) *
                             lw_module_backward(lw_module_at(x, m)) / length);
        x->params[i].ready_ps = moved;
    }
}

/* --- kernels ---------------------------------------------------------------------------------- */

/* Kernels were timed, for a rank of the strategy's groups. */
static bool has_kernel_times(const struct lw_workload *w, const struct lw_strategy *s)
{
    const struct lw_kernel_groups *g = &w->timed_for;

    return w->n_kernels > 0 && w->kernel_times && w->from.device && w->from.device[0] &&
           lw_group_size(g->tp) == s->tp && lw_group_size(g->cp) == s->cp &&
           lw_group_size(g->ep) == s->ep && g->folded_experts == lw_strategy_folds_experts(s) &&
           g->once.copies == s->dispatch_once &&
           (s->tp == 1 || g->sequence_parallel == s->sequence_parallel);
}

/* In place of the times of all ranks, divided: what one rank takes. */
static enum lw_status take_kernel_times(struct lw_lowering *l, struct lw_workload *x,
                                        struct lw_err *err)
{
    lw_ps *begin;

    LW_TAKE(&l->arena, begin, x->n_modules, err); /* of a module's backward */
    for (int32_t m = x->n_modules - 1; m >= 0; m--) {
        if (lw_has_kernels(x, lw_module_at(x, m)))
            lw_kernel_module_times(x, &x->modules[m]);
        if (m > 0)
            begin[m - 1] = begin[m] + lw_module_backward(lw_module_at(x, m));
    }
    move_ready(l->given, x);
    for (int32_t i = 0; i < x->n_params && x->grad_kernel; i++) {
        struct lw_param *p = &x->params[i];
        const struct lw_module *m = lw_module_at(x, p->module);
        if (lw_has_kernels(x, m) && p->ready_ps >= 0)
            p->ready_ps = begin[p->module] + lw_kernel_ready(x, l->s, m, x->grad_kernel[i]);
    }
    return LW_OK;
}

/* --- ring attention --------------------------------------------------------------------------- */

/* No gradient of a parameter is made in attention: one that the workload says to be ready inside a
 * step is ready at its end. */
static void hold_ready(const struct lw_strategy *s, struct lw_workload *x)
{
    for (int32_t i = 0; i < x->n_params; i++) {
        lw_ps at = x->params[i].ready_ps, begin = 0;
        int32_t m = x->n_modules - 1;
        for (; m > 0 && at > begin + lw_module_backward(lw_module_at(x, m)); m--)
            begin += lw_module_backward(lw_module_at(x, m));
        const struct lw_ring r = lw_ring_of(s, lw_module_at(x, m));
        for (int32_t k = 1; k <= r.n_steps; k++)
            if (at > begin + lw_ring_backward_end(&r, k - 1) &&
                at < begin + lw_ring_backward_end(&r, k))
                x->params[i].ready_ps = begin + lw_ring_backward_end(&r, k);
    }
}

/* Selective recomputation does attention again, and has no messages for it. */
static bool repeats_attention(const struct lw_workload *x, const struct lw_module *m)
{
    if (!lw_has_kernels(x, m))
        return m->selective_ps > 0;
    for (int32_t k = 0; k < m->n_kernels; k++)
        if (x->kernels[m->first_kernel + k].attention && x->kernels[m->first_kernel + k].again)
            return true;
    return false;
}

/* Something is before attention and after it, in both directions; each step takes time. */
static enum lw_status check_ring(const struct lw_lowering *l, const struct lw_workload *x,
                                 struct lw_err *err)
{
    for (int32_t i = 0; i < x->n_modules; i++) {
        const struct lw_module *m = lw_module_at(x, i), *given = lw_module_at(l->given, i);
        const struct lw_ring r = lw_ring_of(l->s, m);
        lw_ps least_ps = m->tp_calls > 1 ? m->tp_calls : 1;
        lw_ps rest = lw_module_backward(m) - r.backward_start - r.backward_length;
        if (r.n_steps == 0)
            continue;
        if (given->attention_ps == 0 || given->attention_backward_ps == 0)
            return lw_fail(err, LW_EINVAL,
                           "--cp-comm-type p2p: module %d '%s' reads keys and values, but workload "
                           "'%s' does not give the times of its attention (attention_ns, "
                           "attention_backward_ns): choose --cp-comm-type all-gather",
                           i, lw_module_name(l->given, i), l->given->name);
        if (r.start < least_ps || r.backward_start < least_ps || rest < least_ps ||
            r.length < r.n_steps || r.backward_length < r.n_steps)
            return lw_fail(err, LW_EINVAL,
                           "--cp-comm-type p2p: attention of module %d '%s' is expected after "
                           "other work of the module in both directions, before other work in the "
                           "backward, and to take %d ps or more: choose --cp-comm-type all-gather",
                           i, lw_module_name(l->given, i), r.n_steps);
        if (l->s->tp_overlap != LW_TP_OVERLAP_OFF && !lw_has_kernels(x, m))
            return lw_fail(err, LW_ENOTSUP,
                           "--cp-comm-type p2p cannot be combined with --tp-overlap: without "
                           "kernels the pieces of module %d '%s' are not planned around its "
                           "attention; choose --tp-overlap off or --cp-comm-type all-gather",
                           i, lw_module_name(l->given, i));
        if (l->s->recompute == LW_RECOMPUTE_SELECTIVE && repeats_attention(x, m))
            return lw_fail(err, LW_ENOTSUP,
                           "--cp-comm-type p2p: --recompute selective would run attention of "
                           "module %d '%s' again without its messages: choose --recompute full or "
                           "--cp-comm-type all-gather",
                           i, lw_module_name(l->given, i));
    }
    return LW_OK;
}

/* --- what a strategy needs -------------------------------------------------------------------- */

static enum lw_status check_context(const struct lw_lowering *l, struct lw_err *err)
{
    const struct lw_workload *w = l->given;
    bool any = false;

    for (int32_t m = 0; m < w->n_modules; m++)
        any = any || lw_module_at(w, m)->kv_bytes > 0;
    if (l->cp > 1 && !any)
        return lw_fail(err, LW_EINVAL,
                       "--cp %d: no module of workload '%s' gives the bytes of keys and values "
                       "that its attention reads (kv_bytes)",
                       l->cp, w->name);
    if (l->cp > 1 && w->n_sparse > 0)
        return lw_fail(err, LW_ENOTSUP,
                       "--cp %d: which rows of a sparse gradient a part of the tokens "
                       "touches is not known (--cp 1)",
                       l->cp);
    return LW_OK;
}

static bool has_experts(const struct lw_workload *w)
{
    for (int32_t i = 0; i < w->n_params; i++)
        if (lw_param_at(w, i).expert)
            return true;
    return false;
}

enum lw_status lw_lower_check_experts(const struct lw_lowering *l, struct lw_err *err)
{
    const struct lw_strategy *s = l->s;
    bool any = has_experts(l->given);

    if (s->etp > 0 && !any)
        return lw_fail(err, LW_EINVAL,
                       "--etp %lld: workload '%s' has no parameter of experts: leave it out, or "
                       "choose a model with experts", (long long)s->etp, l->given->name);
    if (l->ep == 1)
        return LW_OK;
    int64_t n = (s->zero_group > 0 ? s->zero_group : s->dp * s->cp) * lw_expert_width(l);
    const char *of = s->zero_group > 0 ? "--zero-group" : "--dp and --cp";
    if (n % s->ep != 0)
        return lw_fail(err, LW_EINVAL,
                       "--ep %d does not divide the %lld ranks of %s%s that would share the "
                       "experts%s",
                       l->ep, (long long)n, of, lw_strategy_folds_experts(s) ? " and --tp" : "",
                       s->tp > 1 && s->etp == 0
                           ? ", each split over --tp; --etp 1 shares them over it too" : "");
    if (s->dp * s->cp == 1 && n > s->ep)
        return lw_fail(err, LW_ENOTSUP,
                       "--etp 1 --ep %d with one data-parallel rank: the experts' gradients alone "
                       "would be reduced, which is not planned: --ep %d, or --dp of more than 1",
                       l->ep, l->tp);
    if (s->zero_group > 0 && s->schedule == LW_SCHEDULE_DUALPIPE)
        return lw_fail(err, LW_ENOTSUP, "--ep with --zero-group is not planned for the two "
                                        "directions of --schedule %s",
                       lw_schedule_name(s->schedule));
    if (!any)
        return lw_fail(err, LW_EINVAL,
                       "--ep %d: workload '%s' has no parameter of experts (expert)", l->ep,
                       l->given->name);
    if (s->clip > 0)
        return lw_fail(err, LW_ENOTSUP, "--ep %d with --clip: the norm over experts is not planned "
                                        "(--clip 0)", l->ep);
    if (s->zero > 0 && !lw_part_has_units(s) && !lw_shard_policy(s->shard_policy)->experts)
        return lw_fail(err, LW_ENOTSUP,
                       "--ep %d with --zero %lld: no rule is known that gives experts to owners by "
                       "this policy; choose --shard-policy flat-contiguous with --bucket-policy "
                       "deepspeed, lpt or ping-pong",
                       l->ep, (long long)s->zero);
    if (s->compat != LW_COMPAT_NONE)
        return lw_fail(err, LW_EINVAL, "--compat %s cannot be combined with --ep",
                                       lw_compat_name(s->compat));
    return LW_OK;
}

enum lw_status lw_lower_tensor(struct lw_lowering *l, struct lw_err *err)
{
    const struct lw_workload *w = l->given;
    struct lw_workload *x = lw_arena_alloc(&l->arena, 1, sizeof *x);
    bool any = false;

    l->w = w;
    LW_TRY(lw_lower_check_experts(l, err));
    if (l->tp == 1 && l->cp == 1 && l->ep == 1)
        return x ? LW_OK : lw_fail_nomem(err);
    LW_TRY(check_context(l, err));
    for (int32_t m = 0; m < w->n_modules; m++)
        any = any || lw_module_at(w, m)->tp_split != LW_TP_REPLICATED;
    if (l->tp > 1 && !any)
        return lw_fail(err, LW_EINVAL, "--tp %d: workload '%s' names no module that tensor "
                                       "parallelism splits (tp_split)", l->tp, w->name);
    if (!x)
        return lw_fail_nomem(err);
    *x = *w;
    x->arena = (struct lw_arena){0};
    LW_TAKE(&l->arena, x->modules, w->n_modules, err);
    LW_TAKE(&l->arena, x->params, w->n_params, err);
    for (int32_t m = 0; m < w->n_modules; m++) {
        x->modules[m] = shrink(lw_module_at(w, m), l->tp, l->s->sequence_parallel,
                               lw_strategy_folds_experts(l->s));
        x->modules[m].name = lw_module_name(w, m);
    }
    for (int32_t m = 0; l->cp > 1 && m < w->n_modules; m++)
        divide_tokens(&x->modules[m], l->cp);
    LW_TRY(shrink_params(w, l->tp, lw_strategy_folds_experts(l->s), x->params, err));
    if (l->ep > 1)
        LW_TRY(divide_experts(x->params, w->n_params, l->ep, err));
    x->by_kernels = has_kernel_times(w, l->s);
    if (x->by_kernels)
        LW_TRY(take_kernel_times(l, x, err));
    else
        move_ready(w, x);
    hold_ready(l->s, x);
    LW_TRY(check_ring(l, x, err));
    l->w = x;
    return LW_OK;
}

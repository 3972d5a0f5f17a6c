/* Kernels of a workload file: taken for the times that stand beside them, or timed for another
 * device and other groups. A file whose model is known is made again from the model
 * (source_workload.c): a model knows what the device keeps, too. Kernels of an edited file, or of
 * one that no model made, are all that there is. */
#include "shared/cli/source_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "shared/device/device_kind.h"
#include "shared/device/file_kernels.h"
#include "shared/files/files.h"
#include "shared/framework/framework_rates.h"
#include "shared/text/wrap.h"

/* A file without times is of no groups. */
const char *lw_source_made_for_text(const struct lw_made_for *m, const struct lw_made_for *other,
                                    bool timed, char *buf, size_t size)
{
    const char *f = lw_source_text(m->framework)[0] ? m->framework : LW_IDEAL_FRAMEWORK;
    const char *g = lw_source_text(other->framework)[0] ? other->framework : LW_IDEAL_FRAMEWORK;
    int64_t tp = m->tp ? m->tp : 1, cp = m->cp ? m->cp : 1, ep = m->ep ? m->ep : 1;
    bool others = timed && strcmp(f, g) != 0;
    bool same_groups = timed && !others && m->tp == other->tp && m->cp == other->cp &&
                       m->ep == other->ep;
    bool sent = m->dispatcher != LW_DISPATCHER_AUTO || other->dispatcher != LW_DISPATCHER_AUTO;
    const char *reduced = m->reduced ? ", several data ranks" : ", one data rank";
    const char *f32 = m->grad_f32 ? ", f32 gradients" : ", gradients of the parameters' type";

    snprintf(buf, size, "tp %lld, cp %lld, ep %lld%s%s%s%s%s%.60s%s%s", (long long)tp,
             (long long)cp, (long long)ep, m->folded_experts ? ", etp 1" : "",
             m->dispatch_once > 0 ? ", dispatch once" : "", sent ? ", dispatcher " : "",
             sent ? lw_dispatcher_word(m->dispatcher) : "", others ? ", framework " : "",
             others ? f : "",
             same_groups && m->reduced != other->reduced ? reduced : "",
             same_groups && m->grad_f32 != other->grad_f32 ? f32 : "");
    return buf;
}

static struct lw_kernel_rates rates_on(const struct lw_plan_source *s, const struct lw_device *d)
{
    const struct lw_framework *f = lw_source_framework(s);

    return f ? lw_framework_rates(f, d) : (struct lw_kernel_rates){.host_op_ps = 0};
}

/* On the device of the file's times, with the figures of the given cluster or of a known system. */
static enum lw_status take_own(struct lw_plan_source *s, const struct lw_cluster *c,
                               struct lw_workload *w, struct lw_measured_modules *measured,
                               struct lw_err *err)
{
    const struct lw_device own = {.kind = w->from.device};
    const struct lw_kernel_rates rates = rates_on(s, &own);
    struct lw_cluster known = {0};
    bool has = lw_cluster_find_device(w->from.device, &known, NULL) == LW_OK;
    bool same = c && lw_device_same_kind(c->device.kind, w->from.device);
    const struct lw_device *const d[2] = {same ? &c->device : has ? &known.device : NULL,
                                          same && has ? &known.device : NULL};

    enum lw_status st = lw_kernels_take(w, d, &rates, measured, err);
    lw_cluster_free(&known);
    return st;
}

enum lw_status lw_source_take_kernels(struct lw_plan_source *s, const struct lw_cluster *c,
                                      struct lw_workload *w, struct lw_err *err)
{
    struct lw_measured_modules measured;
    char text[400];

    if (w->n_kernels == 0 || lw_device_is_nameless(w->from.device))
        return LW_OK;
    LW_TRY(take_own(s, c, w, &measured, err));
    if (measured.n == 0)
        return LW_OK;
    snprintf(text, sizeof text,
             LW_ASSUMPTION "times of %" PRId32 " of %" PRId32 " modules (the first is '%.60s') are "
             "not those of their kernels on '%.60s': they are taken as measured, and collectives "
             "of their groups are at equal distances",
             measured.n, w->n_modules, w->modules[measured.first].name, w->from.device);
    return lw_note_add(&w->arena, &w->notes, &w->n_notes, text, err);
}

/* --- another device, other groups ------------------------------------------------------------- */

static bool has_experts(const struct lw_workload *w)
{
    for (int32_t k = 0; k < w->n_kernels; k++)
        if (w->kernels[k].experts > 0)
            return true;
    return false;
}

/* Which kernels there are, and what they keep, is as for the groups that the file was made for. */
static bool same_kernels(const struct lw_workload *w, const struct lw_strategy *strategy)
{
    const struct lw_made_for *m = &w->from.made_for;
    const struct lw_made_for to = lw_made_for(strategy);
    bool same = lw_group_size(m->tp) == to.tp && lw_group_size(m->ep) == to.ep &&
                m->folded_experts == to.folded_experts &&
                m->sequence_parallel == to.sequence_parallel && m->dispatcher == to.dispatcher;

    if (!lw_model_is_set(&w->from.model))
        return true; /* they are as the user says */
    return lw_group_size(m->cp) == to.cp && (same || !has_experts(w)) &&
           (m->sequence_parallel == to.sequence_parallel || !m->sequence_parallel);
}

static enum lw_status refuse_edited(const char *name, const struct lw_workload *w, const char *why,
                                    struct lw_err *err)
{
    return lw_fail(err, LW_EINVAL,
                   "%s: was edited, and would be computed again from model '%s' without the edits, "
                   "since %s: give them as options (--batch, --seq, --layers, ...), or keep the "
                   "file's times and device with --as-recorded", name, w->from.model.name, why);
}

static enum lw_status check_kernels_stay(const struct lw_plan_source *s, const char *name,
                                         const struct lw_strategy *strategy,
                                         const struct lw_workload *w, struct lw_err *err)
{
    const char *hash = lw_source_text(w->from.made_for.framework_hash);

    if (!lw_model_is_set(&w->from.model))
        return LW_OK;
    if (strcmp(hash, lw_source_framework_hash(s)) != 0 ||
        lw_framework_times_others(&s->framework, w, strategy))
        return refuse_edited(name, w, "its kernels are of another framework or other gradients",
                             err);
    return same_kernels(w, strategy)
               ? LW_OK
               : refuse_edited(name, w, "which kernels it has depends on the groups", err);
}

/* The times that it has are those of its kernels: none is dropped. */
static enum lw_status check_times_are_kernels(struct lw_plan_source *s, const char *name,
                                              const struct lw_cluster *c, struct lw_workload *w,
                                              struct lw_err *err)
{
    struct lw_measured_modules measured = {0, -1};

    if (!lw_device_is_nameless(w->from.device))
        LW_TRY(take_own(s, c, w, &measured, err));
    for (int32_t i = 0; i < w->n_modules && measured.first < 0; i++)
        if (w->modules[i].n_kernels == 0 &&
            w->modules[i].forward_ps + lw_module_backward(&w->modules[i]) > 0)
            measured.first = i;
    if (measured.first < 0)
        return LW_OK;
    return lw_fail(err, LW_EINVAL,
                   "%s: at modules[%" PRId32 "]: times of '%s' are not those of kernels on '%s', "
                   "and are not known for '%s' or other groups: leave them out (forward_ns, "
                   "backward_input_ns, ..., and device and ready_ns) so that its kernels are "
                   "timed, or keep the file's times and device with --as-recorded",
                   name, measured.first, w->modules[measured.first].name, w->from.device,
                   c->device.kind);
}

static void say_timed(const struct lw_plan_source *s, const char *name,
                      const struct lw_workload *w)
{
    char groups[200];

    if (!s->silent)
        lw_printf_paragraph(stderr,
                            "lapwing: %s: its kernels are timed for %.60s (%s); bytes that it "
                            "keeps for the backward, and workspaces, stay as in the file", name,
                            w->from.device,
                            lw_source_made_for_text(&w->from.made_for, &w->from.made_for, false,
                                                    groups, sizeof groups));
}

static struct lw_kernel_groups groups_for(const struct lw_workload *w,
                                          const struct lw_strategy *strategy)
{
    bool folded = lw_strategy_folds_experts(strategy);

    return (struct lw_kernel_groups){.tp = strategy->tp, .cp = strategy->cp, .ep = strategy->ep,
                                     .sequence_parallel = strategy->sequence_parallel,
                                     .whole_experts = w->from.model.expert_whole || folded,
                                     .folded_experts = folded,
                                     .once = lw_workload_routing(w, strategy->dispatch_once)};
}

enum lw_status lw_source_time_kernels(struct lw_plan_source *s, const char *name,
                                      const struct lw_strategy *strategy,
                                      const struct lw_cluster *c, struct lw_workload *w,
                                      struct lw_err *err)
{
    const struct lw_kernel_groups groups = groups_for(w, strategy);
    const struct lw_kernel_rates rates = rates_on(s, &c->device);
    const struct lw_made_for old = w->from.made_for;
    const char *kind = lw_arena_strdup(&w->arena, c->device.kind);

    if (!kind)
        return lw_fail_nomem(err);
    LW_TRY(check_kernels_stay(s, name, strategy, w, err));
    LW_TRY(check_times_are_kernels(s, name, c, w, err));
    LW_TRY(lw_err_context(err, lw_kernels_retime(w, &c->device, &rates, &groups, err), "%s", name));
    w->from.device = kind;
    w->from.made_for = lw_made_for(strategy);
    w->from.made_for.framework = old.framework;
    w->from.made_for.framework_hash = old.framework_hash;
    w->from.made_for.usual = old.usual;
    say_timed(s, name, w);
    return LW_OK;
}

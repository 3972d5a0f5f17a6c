/* From a recorded step to a workload.
 *
 * Parameters come from the sidecar (names, sizes, modules, and which gradient is whose: the k-th
 * AccumulateGrad of a step is ready_order[k]), or from a given list (then in reverse order of
 * registration, as autograd meets them), or, nameless, from the recorded shapes of the
 * gradients. Times come from the profile (traces/workload/step_profile.h); where the sidecar
 * measured the same step without the profiler, the profile keeps its shares and takes those
 * lengths, so what the profiler cost is not predicted. Not told by a trace, so left unknown:
 * FLOPs, activation sizes, and how the backward divides into input and weight gradients.
 * Whatever is assumed is written as a note. */
#include "traces/workload/to_workload.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "shared/base/shown_text.h"
#include "shared/workload/buffer.h"
#include "traces/steps/device_figures.h"
#include "traces/trace/data_parallel.h"
#include "traces/trace/same_run.h"
#include "traces/workload/gradient_sizes.h"
#include "traces/workload/recorded_ops.h"
#include "traces/workload/step_profile.h"

enum { MAX_NOTES = 24 };

struct importer {
    const struct traces_source *source, *main; /* main gives the profile */
    int n;
    const struct traces_choice *choice;
    const struct traces_sidecar *list;     /* parameters; NULL = nameless */
    bool measured;                         /* the main sidecar's times are used */
    bool scaled;                           /* of a device: its step, with scaled host gaps */
    struct traces_profile profile;
    struct traces_sizes sizes;             /* how missing ones were filled */
    struct lw_workload *w;
    int32_t *param_of;                     /* [n_gradients] */
    const char *notes[MAX_NOTES];
    struct lw_err *err;
};

static enum lw_status note(struct importer *m, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static enum lw_status note(struct importer *m, const char *fmt, ...)
{
    va_list ap;

    if (m->w->n_notes == MAX_NOTES)
        return LW_OK;
    va_start(ap, fmt);
    const char *text = lw_arena_vprintf(&m->w->arena, fmt, ap);
    va_end(ap);
    if (!text)
        return lw_fail_nomem(m->err);
    m->notes[m->w->n_notes++] = text;
    return LW_OK;
}

/* A note of what the recording does not show, and what is taken instead. */
#define ASSUME(m, ...) note(m, LW_ASSUMPTION __VA_ARGS__)

static const char *keep(struct importer *m, const char *text, enum lw_status *status)
{
    const char *copy = lw_arena_strdup(&m->w->arena, text);

    if (!copy)
        *status = lw_fail_nomem(m->err);
    return copy;
}

/* ---- which source, which times ---- */

static void choose_main(struct importer *m)
{
    m->main = &m->source[0];
    for (int i = 1; i < m->n; i++) {
        const struct traces_source *s = &m->source[i];
        if (m->main->parallel && (!s->parallel || s->trace.rank < m->main->trace.rank))
            m->main = s;
    }
}

/* Ready times that were not measured keep their shares of a backward that was. */
static void stretch_ready(struct traces_profile *p, int64_t backward_ns)
{
    for (int32_t k = 0; k < p->n_gradients && p->backward_total_ns > 0; k++)
        p->ready_ns[k] = (int64_t)((__int128)p->ready_ns[k] * backward_ns / p->backward_total_ns);
}

static enum lw_status build_profile(struct importer *m)
{
    const struct traces_sidecar *s = m->main->has_sidecar ? &m->main->sidecar : NULL;
    struct traces_ready ready = {0};
    struct lw_arena scratch = {0};
    int64_t *ns = NULL;

    m->measured = s && !m->main->parallel && m->choice->step < 0 && !m->choice->as_traced &&
                  s->measured.step.median > 0 && s->measured.forward.median >= 0 &&
                  s->measured.backward.median > 0 && s->measured.optimizer.median >= 0;
    if (m->measured && s->n_ready > 0) {
        LW_TAKE(&scratch, ns, s->n_ready, m->err);
        for (int32_t k = 0; k < s->n_ready && ns; k++) {
            ns[k] = s->params[s->ready_order[k]].ready_ns;
            ns = ns[k] >= 0 ? ns : NULL;
        }
        ready = (struct traces_ready){ns, s->n_ready, s->measured.backward.median, 0};
    }
    if (s && m->main->parallel && m->choice->step < 0 && !m->choice->as_traced)
        ready.device_step_ns = s->measured.step.median;
    enum lw_status status =
        traces_profile_build(m->main->file, &m->main->trace, &m->main->steps, m->main->parallel,
                             m->choice->step, &ready, &m->profile, m->err);
    lw_arena_free(&scratch);
    if (status == LW_OK && m->measured && !ns)
        stretch_ready(&m->profile, s->measured.backward.median);
    m->scaled = m->profile.device && m->profile.n_passes <= 1 && ready.device_step_ns > 0;
    return status;
}

static enum lw_status note_damage(struct importer *m)
{
    for (int i = 0; i < m->n; i++) {
        const struct lw_trace *t = &m->source[i].trace;
        if (t->damage >= 0)
            LW_TRY(note(m, "salvaged: %lld events before %s", (long long)t->n_events,
                        lw_trace_text(t, t->damage)));
    }
    return LW_OK;
}

static enum lw_status note_joined(struct importer *m)
{
    for (int i = 0; i < m->n; i++) {
        const struct lw_trace *t = &m->source[i].trace;
        if (t->joined >= 0)
            LW_TRY(note(m, "%s", lw_trace_text(t, t->joined)));
    }
    return LW_OK;
}

static bool is_nccl(const struct importer *m)
{
    const struct lw_trace *t = &m->main->trace;

    for (int64_t i = 0; i < t->n; i++)
        if (lw_trace_on_host(t, i) && lw_trace_name_begins(t, i, "nccl:"))
            return true;
    return false;
}

/* What was wrapped, as --units takes it. */
static enum lw_status note_units(struct importer *m)
{
    const struct traces_sidecar *s = &m->main->sidecar;
    char list[512] = "";
    size_t used = 0;

    if (!m->main->has_sidecar || s->n_fsdp_units == 0)
        return LW_OK;
    for (int32_t i = 0; i < s->n_fsdp_units && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i > 0 ? "," : "",
                                 s->fsdp_units[i]);
    if (used >= sizeof list)
        return note(m, "fully_shard was called on %d modules: give them, or prefixes with '*', to "
                       "--units", s->n_fsdp_units);
    return note(m, "fully_shard was called on these modules: plan it with --units %s", list);
}

static enum lw_status note_wrapper(struct importer *m)
{
    enum traces_wrapper w = lw_trace_wrapper(&m->main->trace);

    if (traces_is_stage(&m->main->trace))
        return note(m, "%s is a stage of a pipeline (it sends and receives messages and reduces no "
                       "gradients): the workload is what this rank computes; the other stages "
                       "are in the traces of the other ranks, and what another network or number "
                       "of micro-batches would change is a matter of the whole model, recorded in "
                       "one process",
                    lw_base_name(m->main->file));
    if (!traces_wrapper_shards(w))
        return LW_OK;
    LW_TRY(note_units(m));
    return note(m, "the run used %s: a parameter is what one gradient accumulates (a flat "
                   "parameter counts as one); plan it with --zero 3",
                traces_wrapper_name(w));
}

/* Whether the times are those of the profiled step, which the profiler makes longer. */
static enum lw_status note_profiler(struct importer *m)
{
    const struct traces_profile *p = &m->profile;
    const struct traces_sidecar *s = m->main->has_sidecar ? &m->main->sidecar : NULL;
    double measured = s ? (double)s->measured.step.median / 1e6 : -1;

    if (m->measured)
        return note(m, "stretched to what was measured without the profiler: step %.3f ms (in the "
                       "trace %.3f ms)",
                    measured, (double)p->step_ns / 1e6);
    if (m->scaled && p->host_scale == 0)
        return note(m, "host gaps scaled by 0: the device alone takes %.3f ms, the step without "
                       "the profiler took %.3f ms",
                    (double)p->step_ns / 1e6, measured);
    if (m->scaled)
        return note(m, "host gaps scaled by %.2f: the step without the profiler took %.3f ms, the "
                       "profiled one %.3f ms (--as-traced keeps it)",
                    (double)p->host_scale / TRACES_HOST_UNIT, measured,
                    (double)p->profiled_ns / 1e6);
    if (m->choice->as_traced || m->choice->step >= 0 || p->n_passes > 1)
        return LW_OK;
    if (measured > 0)
        return note(m, "times are of the profiled step: without the profiler it took %.3f ms",
                    measured);
    return note(m, "times are of the profiled step, with what the profiler costs inside: "
                   "lapwing_record measures the step without it too");
}

static enum lw_status note_profile(struct importer *m)
{
    const struct traces_profile *p = &m->profile;

    if (p->step_name)
        LW_TRY(note(m, "times of the one step %s", p->step_name));
    else
        LW_TRY(note(m, "times are medians over %d profiled steps (%.3f to %.3f ms)", p->n_steps,
                    (double)p->step_min_ns / 1e6, (double)p->step_max_ns / 1e6));
    if (p->n_passes > 1)
        LW_TRY(note(m, "%d backward passes a step: the workload is one micro-batch, the last pass; "
                       "%.3f ms of earlier ones are left out (plan with --no-sync %d)",
                    p->n_passes, (double)p->earlier_ns / 1e6, p->n_passes - 1));
    if (p->n_left_out > 0)
        LW_TRY(note(m, "%d step%s without a whole forward and backward left out", p->n_left_out,
                    lw_plural(p->n_left_out)));
    if (p->n_unlike > 0)
        LW_TRY(note(m, "%d step%s with other gradients or modules than most steps left out "
                       "(incomplete capture)",
                    p->n_unlike, lw_plural(p->n_unlike)));
    LW_TRY(note_profiler(m));
    if (!p->device && m->main->parallel && is_nccl(m))
        LW_TRY(note(m, "no device events in the file: times are the host's, not the device's"));
    if (p->device)
        LW_TRY(note(m, "device times include idle while the host launches: the main stream is busy "
                       "%.1f %% of the step",
                    100.0 * (double)p->busy_ns / (double)(p->step_ns ? p->step_ns : 1)));
    LW_TRY(note_wrapper(m));
    if (p->parallel)
        LW_TRY(note(m, "from a %s: %.3f ms of hooks, buffer broadcast and waiting left out of the "
                       "step; what communication slowed down remains inside",
                    m->main->has_sidecar || lw_trace_wrapper(&m->main->trace)
                        ? "data-parallel run"
                        : "run of several ranks",
                    (double)p->excluded_ns / 1e6));
    if (p->step->forward_by_order)
        LW_TRY(ASSUME(m, "no sequence numbers (torch 1.8, the legacy profiler): the forward is "
                       "what the step's thread ran after data loading and zero_grad (where that "
                       "comes first), up to the first op of the backward"));
    if (p->cut == TRACES_CUT_OPS)
        LW_TRY(note(m, "no lw:module ranges: a module is a forward op whose backward gave "
                       "gradients, with what follows it"));
    if (p->cut == TRACES_CUT_GRADIENTS)
        LW_TRY(ASSUME(m, "neither module ranges nor sequence numbers: a module per gradient, cut "
                       "at its ready time; the forward is shared out like the backward"));
    return note(m, "the backward is not divided: all of it counts as input gradient");
}

/* ---- parameters ---- */

static enum lw_status no_sizes(struct importer *m)
{
    return lw_fail(m->err, LW_EFORMAT,
                   "%s: %d of %d gradients have no size: the trace was recorded without shapes and "
                   "holds neither their all-reduce nor an optimizer. Give --elements N (trainable "
                   "parameters in all) or --model-params FILE (a workload or a sidecar of the same "
                   "model), or record with record_shapes=True",
                   m->main->file, m->sizes.n_unknown, m->profile.n_gradients);
}

static enum lw_status note_sizes(struct importer *m)
{
    const struct traces_sizes *z = &m->sizes;

    if (z->n_bucket > 0)
        LW_TRY(ASSUME(m, "%d of %d gradients have no recorded size: each takes a share of the "
                       "all-reduce that carried it (%d all-reduces of known size)",
                    z->n_bucket, m->profile.n_gradients, z->n_buckets));
    if (z->n_undefined > 0)
        LW_TRY(ASSUME(m, "%d of %d gradients are not tensors in the trace (fused into the "
                         "backward, sparse, or unused): one element each is assumed",
                    z->n_undefined, m->profile.n_gradients));
    if (z->n_total > 0 && !z->optimizer)
        LW_TRY(ASSUME(m, "%d of %d gradients have no recorded size: shared out from --elements "
                         "%lld",
                    z->n_total, m->profile.n_gradients, (long long)m->choice->n_elements));
    if (z->n_total > 0 && z->optimizer)
        LW_TRY(ASSUME(m, "%d of %d gradients have no recorded size: at most %lld elements in all, "
                       "shared out, as %s takes %.3f ms and moves %d bytes per element at %.4g "
                       "GB/s (%s); --elements N gives the true total",
                    z->n_total, m->profile.n_gradients, (long long)z->total_numel, z->optimizer,
                    (double)z->optimizer_ns / 1e6, z->bytes_per_element, z->bytes_per_s / 1e9,
                    m->choice->memory.source));
    return LW_OK;
}

static enum lw_status choose_list(struct importer *m)
{
    struct traces_profile *p = &m->profile;

    m->list = m->choice->params          ? m->choice->params
              : m->main->has_sidecar     ? &m->main->sidecar
                                         : NULL;
    if (m->list)
        return LW_OK;
    LW_TRY(traces_sizes_fill(&m->main->trace, p->step, &p->ops, m->choice->n_elements,
                             m->choice->memory.bytes_per_s, p->numel, &m->sizes, m->err));
    return m->sizes.n_unknown > 0 ? no_sizes(m) : note_sizes(m);
}

static int32_t n_trained(const struct traces_sidecar *s)
{
    int32_t n = 0;

    for (int32_t i = 0; i < s->n_params; i++)
        n += s->params[i].requires_grad;
    return n;
}

static enum lw_status match_list(struct importer *m)
{
    const struct traces_sidecar *s = m->list;
    const struct traces_profile *p = &m->profile;
    int32_t n = s->n_ready > 0 ? s->n_ready : n_trained(s), k = 0;

    if (n != p->n_gradients)
        return lw_fail(m->err, LW_EFORMAT,
                       "%s: %d gradients a step, but %s has %d parameters that get one: it belongs "
                       "to another model",
                       m->main->file, p->n_gradients, s->file, n);
    if (s->n_ready > 0)
        memcpy(m->param_of, s->ready_order, (size_t)n * sizeof *m->param_of);
    else
        for (int32_t i = s->n_params - 1; i >= 0; i--)
            if (s->params[i].requires_grad)
                m->param_of[k++] = i;
    for (k = 0; k < n; k++) {
        const struct traces_param *param = &s->params[m->param_of[k]];
        if (p->numel[k] >= 0 && p->numel[k] != param->numel)
            return lw_fail(m->err, LW_EFORMAT,
                           "%s: gradient %d of the step has %" PRId64 " elements, but '%s' in %s "
                           "has %" PRId64 ": it belongs to another model",
                           m->main->file, k, p->numel[k], param->name, s->file, param->numel);
    }
    return s->n_ready > 0 ? LW_OK
                          : ASSUME(m, "which gradient is whose is not recorded: taken in reverse "
                                      "order of registration of %s",
                                 lw_base_name(s->file));
}

/* The first call of that module; -1 when no segment has its name. */
static int32_t module_named(const struct importer *m, const char *name)
{
    for (int32_t i = 0; i < m->profile.n_modules; i++)
        if (strcmp(m->profile.module_name[i], name) == 0)
            return i;
    return -1;
}

static enum lw_status listed_params(struct importer *m)
{
    const struct traces_sidecar *s = m->list;
    struct lw_workload *w = m->w;
    enum lw_status status = LW_OK;
    int32_t before = 0;

    for (int32_t i = 0; i < s->n_params; i++) {
        const struct traces_param *from = &s->params[i];
        struct lw_param *to = &w->params[i];
        *to = (struct lw_param){.name = keep(m, from->name, &status), .numel = from->numel,
                                .rows = from->rows, .dtype = from->dtype, .module = -1, .tied = -1,
                                .trainable = from->requires_grad, .sparse = from->sparse,
                                .ready_ps = -1};
    }
    for (int32_t k = 0; k < w->n_ready; k++) {
        w->params[m->param_of[k]].used = true;
        w->params[m->param_of[k]].module = m->profile.module_of[k];
    }
    for (int32_t i = 0; i < s->n_params; i++) {
        int32_t owner = s->params[i].module;
        int32_t named = m->profile.cut == TRACES_CUT_RANGES && owner >= 0
                            ? module_named(m, s->modules[owner])
                            : -1;
        struct lw_param *p = &w->params[i];
        p->module = named >= 0 ? named : p->module >= 0 ? p->module : before;
        before = p->module;
    }
    return status;
}

/* No list: registration order is taken to be the ready order backwards. */
static enum lw_status nameless_params(struct importer *m)
{
    const struct traces_profile *p = &m->profile;
    int32_t n = p->n_gradients;

    for (int32_t k = 0; k < n; k++) {
        m->param_of[k] = n - 1 - k;
        m->w->params[n - 1 - k] = (struct lw_param){
            .name = "", .numel = p->numel[k], .dtype = p->dtype[k], .module = p->module_of[k],
            .tied = -1, .trainable = true, .used = true, .ready_ps = -1};
    }
    LW_TRY(ASSUME(m, "the trace names no parameter: %sregistration order taken to be the ready "
                     "order "
                   "backwards", m->sizes.total_numel ? "" : "sizes from the gradients' shapes, "));
    if (!p->dtype_known)
        LW_TRY(ASSUME(m, "element types of gradients are not recorded: float32 assumed"));
    return ASSUME(m, "buffers are not recorded: none assumed");
}

static enum lw_status fill_params(struct importer *m)
{
    struct lw_workload *w = m->w;
    const struct traces_profile *p = &m->profile;

    w->n_ready = p->n_gradients;
    w->n_params = m->list ? m->list->n_params : p->n_gradients;
    LW_TAKE(&w->arena, w->params, w->n_params, m->err);
    LW_TAKE(&w->arena, w->ready_order, w->n_ready, m->err);
    m->param_of = w->ready_order;
    if (m->list) {
        LW_TRY(match_list(m));
        LW_TRY(listed_params(m));
    } else {
        LW_TRY(nameless_params(m));
    }
    for (int32_t k = 0; k < w->n_ready; k++)
        w->params[m->param_of[k]].ready_ps = lw_ns_to_ps(p->ready_ns[k]);
    return LW_OK;
}

static enum lw_status fill_buffers(struct importer *m)
{
    struct lw_workload *w = m->w;
    const struct traces_sidecar *s = m->list;
    enum lw_status status = LW_OK;
    bool known = m->main->has_sidecar && m->main->parallel;

    w->n_buffers = s ? s->n_buffers : 0;
    LW_TAKE(&w->arena, w->buffers, w->n_buffers, m->err);
    for (int i = 0; i < m->n; i++)
        known |= m->source[i].has_sidecar && m->source[i].parallel;
    for (int32_t i = 0; i < w->n_buffers; i++)
        w->buffers[i] = (struct lw_buffer){keep(m, s->buffers[i].name, &status),
                                           s->buffers[i].numel, s->buffers[i].dtype, true};
    for (int i = 0; i < m->n; i++)
        for (int32_t k = 0; k < w->n_buffers && m->source[i].parallel; k++)
            if (m->source[i].has_sidecar)
                w->buffers[k].broadcast = m->source[i].sidecar.broadcast_buffers;
    if (status == LW_OK && w->n_buffers > 0 && !known)
        status = ASSUME(m, "buffers are broadcast before a synchronised forward (DDP's default)");
    return status;
}

/* ---- modules ---- */

/* The module that owns what this segment gives gradients to, by name. */
static const char *owner_name(const struct importer *m, int32_t segment)
{
    for (int32_t k = 0; m->list && k < m->profile.n_gradients; k++) {
        int32_t owner = m->list->params[m->param_of[k]].module;
        if (m->profile.module_of[k] == segment && owner >= 0)
            return m->list->modules[owner];
    }
    return NULL;
}

static enum lw_status bare_name(const struct importer *m, int32_t i, const char **out)
{
    const char *name = m->profile.module_name[i], *colon = strrchr(name, ':');

    *out = m->profile.cut == TRACES_CUT_RANGES ? name : owner_name(m, i);
    if (!*out)
        LW_PRINT(&m->w->arena, *out, m->err, "%.200s.%d",
                 *name ? colon ? colon + 1 : name : "module", i);
    return LW_OK;
}

/* The name, numbered where modules before it have the same. */
static enum lw_status name_module(struct importer *m, int32_t i)
{
    const char *name;
    int calls = 1;

    LW_TRY(bare_name(m, i, &name));
    size_t len = strlen(name);
    for (int32_t k = 0; k < i; k++) {
        const char *other = m->w->modules[k].name;
        if (strncmp(other, name, len) == 0 &&
            (other[len] == '\0' || strncmp(other + len, " (call ", 7) == 0))
            calls++;
    }
    if (calls > 1)
        LW_PRINT(&m->w->arena, m->w->modules[i].name, m->err, "%.250s (call %d)", name, calls);
    else
        LW_PRINT(&m->w->arena, m->w->modules[i].name, m->err, "%s", name);
    return LW_OK;
}

/* A module without a recorded shape passes on what the one before it passes on. */
static enum lw_status fill_passed(struct importer *m)
{
    struct lw_workload *w = m->w;
    int32_t n_known = 0, first = -1;

    for (int32_t i = 0; i < w->n_modules; i++) {
        n_known += w->modules[i].output_bytes >= 0;
        first = first < 0 && w->modules[i].output_bytes >= 0 ? i : first;
    }
    if (n_known == 0)
        return note(m, "no shapes of activations: bytes passed between modules are unknown (--pp "
                       "needs them: record with record_shapes=True)");
    for (int32_t i = 0; i < w->n_modules; i++)
        if (w->modules[i].output_bytes < 0)
            w->modules[i].output_bytes = w->modules[i ? i - 1 : first].output_bytes;
    return ASSUME(m, "bytes passed between modules are the first input of the next module (%d of "
                     "%d recorded, the others taken to pass on what they get)",
                n_known, w->n_modules);
}

static enum lw_status fill_modules(struct importer *m)
{
    struct lw_workload *w = m->w;
    struct traces_profile *p = &m->profile;

    w->n_modules = p->n_modules;
    LW_TAKE(&w->arena, w->modules, w->n_modules, m->err);
    if (m->measured) {
        traces_scale(p->forward_ns, p->n_modules, m->main->sidecar.measured.forward.median);
        traces_scale(p->backward_ns, p->n_modules, m->main->sidecar.measured.backward.median);
    }
    for (int32_t i = 0; i < w->n_modules; i++) {
        w->modules[i] = (struct lw_module){
            .forward_ps = lw_ns_to_ps(p->forward_ns[i]),
            .backward_input_ps = lw_ns_to_ps(p->backward_ns[i]),
            .forward_flops = -1, .forward_bytes = -1, .output_bytes = p->passed_bytes[i],
            .kept_bytes = {-1, -1, -1}};
        LW_TRY(name_module(m, i));
    }
    return fill_passed(m);
}

/* What another device's times come from. A sharded run's operators also gather and sum parameters,
 * a stage's are of a part of the model. */
static enum lw_status fill_ops(struct importer *m)
{
    const struct traces_profile *p = &m->profile;
    struct traces_op_counts n;

    if (traces_wrapper_shards(lw_trace_wrapper(&m->main->trace)) ||
        traces_is_stage(&m->main->trace))
        return LW_OK;
    LW_TRY(traces_ops_count(&m->main->trace, p->step, p->segments, p->parallel, m->w, &n, m->err));
    if (n.n_counted == 0)
        return LW_OK;
    LW_TRY(note(m, "operators with recorded sizes: %lld do work; --device times them on another "
                   "device", (long long)n.n_counted));
    LW_TRY(ASSUME(m, "an operator whose output is not recorded writes as much as its largest "
                     "input"));
    if (n.n_left > 0)
        LW_TRY(note(m, "%lld operators have sizes or types that are not understood: they are not "
                       "counted",
                    (long long)n.n_left));
    return n.n_conv_guessed == 0
               ? LW_OK
               : ASSUME(m, "%lld convolutions without a recorded backward of their sizes keep the "
                           "height and width of their input", (long long)n.n_conv_guessed);
}

static void fill_gaps(struct importer *m)
{
    const struct traces_measured *s = &m->main->sidecar.measured;
    struct lw_workload *w = m->w;

    if (m->measured) {
        int64_t zero = s->zero_grad.median > 0 ? s->zero_grad.median : 0;
        int64_t rest = s->step.median - zero - s->forward.median - s->backward.median -
                       s->optimizer.median;
        w->gap_ps[LW_GAP_BEFORE_FORWARD] = lw_ns_to_ps(zero);
        w->gap_ps[LW_GAP_AFTER_OPTIMIZER] = lw_ns_to_ps(rest > 0 ? rest : 0);
        w->optimizer_ps = lw_ns_to_ps(s->optimizer.median);
        return;
    }
    for (int g = 0; g < LW_N_GAPS; g++)
        w->gap_ps[g] = lw_ns_to_ps(m->profile.gap_ns[g]);
    w->optimizer_ps = lw_ns_to_ps(m->profile.optimizer_ns);
}

/* ---- what was recorded, and where from ---- */

static enum lw_status copy_sizes(struct importer *m, const int64_t *from, int32_t n,
                                 const int64_t **to, int32_t *n_to)
{
    int64_t *copy;

    LW_TAKE(&m->w->arena, copy, n, m->err);
    if (n > 0)
        memcpy(copy, from, (size_t)n * sizeof *copy);
    *to = copy;
    *n_to = n;
    return LW_OK;
}

static bool is_all_reduce(const char *op)
{
    return op && (strcmp(op, "allreduce") == 0 || strcmp(op, "all_reduce") == 0);
}

/* All-reduces that are of no gradients, by where they were launched. */
static enum lw_status note_others(struct importer *m, const struct traces_source *s,
                                  const struct lw_iteration *it, const struct lw_step *step)
{
    const struct lw_phase_span *backward = &step->phase[LW_PHASE_BACKWARD];
    int64_t n_forward = 0, n_backward = 0;

    for (int64_t i = 0; i < it->n_comm; i++) {
        int64_t at = it->start_ns + it->comm[i].launch_ns;
        if (!is_all_reduce(it->comm[i].op) || lw_step_reduces_gradients(step, at))
            continue;
        n_forward += !backward->found || at < backward->start_ns;
        n_backward += backward->found && at >= backward->start_ns && at < backward->end_ns;
    }
    if (n_forward + n_backward == 0)
        return LW_OK;
    return note(m, "%s: %lld all-reduces of the forward and %lld inside ops of the backward are "
                   "not gradient buckets (tensor parallelism, losses): they stay in the modules' "
                   "times, waiting inside",
                lw_base_name(s->file), (long long)n_forward, (long long)n_backward);
}

/* Bytes of the all-reduces of gradients of one step in launch order, as the trace shows them. */
static enum lw_status buckets_of_trace(struct importer *m, const struct traces_source *s)
{
    struct lw_recorded *r = &m->w->recorded;
    struct lw_inspection in;
    int64_t *bytes, n = 0;

    LW_TRY(lw_inspect(&s->trace, NULL, &in, m->err));
    const struct lw_iteration *it = in.n_iterations > 0 ? &in.iterations[0] : NULL;
    const struct lw_step *step = s->steps.n > 0 ? &s->steps.steps[0] : NULL;
    int64_t most = (it ? it->n_comm : 0) + (step ? step->n_collectives : 0);
    bytes = lw_arena_alloc(&m->w->arena, most, sizeof *bytes);
    for (int64_t i = 0; bytes && it && i < it->n_comm; i++)
        if (it->comm[i].bytes >= 0 && is_all_reduce(it->comm[i].op) &&
            (!step || lw_step_reduces_gradients(step, it->start_ns + it->comm[i].launch_ns)))
            bytes[n++] = it->comm[i].bytes;
    for (int64_t i = 0; bytes && step && i < step->n_collectives; i++) {
        int64_t row = step->collectives[i];
        const struct lw_row_detail *d = lw_trace_detail(&s->trace, row);
        enum lw_dtype dtype = LW_F32;
        if (d->shape_numel < 0 || strcmp(lw_trace_name(&s->trace, row), "gloo:all_reduce") != 0 ||
            (!lw_trace_dtype(&s->trace, d->shape_type, &dtype) && m->profile.dtype_known))
            continue;
        bytes[n++] = d->shape_numel * lw_dtype_size(dtype);
    }
    enum lw_status status = it && step && s == m->main ? note_others(m, s, it, step) : LW_OK;
    lw_inspection_free(&in);
    r->bucket_bytes = bytes;
    r->n_buckets = (int32_t)n;
    return bytes ? status : lw_fail_nomem(m->err);
}

static enum lw_status recorded_by_sidecar(struct importer *m, const struct traces_sidecar *s)
{
    struct lw_recorded *r = &m->w->recorded;

    r->world_size = s->world_size;
    if (s->measured.step.median > 0 && lw_ns_to_ps(s->measured.step.median) > r->step_ps) {
        r->step_ps = lw_ns_to_ps(s->measured.step.median);
        r->step_spread_ps = s->measured.step.p25 >= 0 && s->measured.step.p75 >= 0
                                ? lw_ns_to_ps(s->measured.step.p75 - s->measured.step.p25)
                                : -1;
    }
    if (r->n_limits == 0)
        LW_TRY(copy_sizes(m, s->limit_bytes, s->n_limits, &r->limit_bytes, &r->n_limits));
    if (r->n_buckets == 0)
        LW_TRY(copy_sizes(m, s->bucket_bytes, s->n_buckets, &r->bucket_bytes, &r->n_buckets));
    return LW_OK;
}

static enum lw_status fill_recorded(struct importer *m)
{
    struct lw_recorded *r = &m->w->recorded;
    bool any = false;

    r->step_ps = r->step_spread_ps = -1;
    for (int i = 0; i < m->n; i++)
        any |= m->source[i].parallel;
    for (int i = 0; i < m->n; i++) {
        const struct traces_source *s = &m->source[i];
        if (s->parallel != any)
            continue;
        if (s->has_sidecar) {
            LW_TRY(recorded_by_sidecar(m, &s->sidecar));
            continue;
        }
        r->world_size = s->trace.world_size > 0 ? s->trace.world_size : any ? 0 : 1;
        if (s == m->main)
            r->step_ps = lw_ns_to_ps(m->profile.step_ns);
        if (any && r->n_buckets == 0)
            LW_TRY(buckets_of_trace(m, s));
    }
    return LW_OK;
}

bool traces_ran_on_device(const struct lw_trace *t)
{
    for (int64_t i = 0; i < t->n; i++)
        if (lw_trace_on_device(t, i))
            return true;
    return false;
}

const char *traces_source_device(const struct traces_source *s)
{
    const char *named = lw_trace_text(&s->trace, s->trace.device);

    if (s->named || *named)
        return s->named ? s->named : named;
    if (s->has_sidecar && *s->sidecar.gpu)
        return s->sidecar.gpu;
    if (traces_ran_on_device(&s->trace))
        return "";
    return s->has_sidecar && *s->sidecar.cpu ? s->sidecar.cpu : "cpu core";
}

static enum lw_status fill_provenance(struct importer *m)
{
    const struct traces_source *s = m->main;
    struct lw_workload *w = m->w;
    enum lw_status status = LW_OK;
    char text[128] = "";

    if (s->has_sidecar && *s->sidecar.torch_version)
        snprintf(text, sizeof text, "torch %.100s", s->sidecar.torch_version);
    w->from = (struct lw_provenance){
        .format = s->trace.format, .file = keep(m, lw_base_name(s->file), &status),
        .hash = keep(m, s->hash, &status), .device = keep(m, traces_source_device(s), &status),
        .producer = keep(m, text, &status),
        .rank = s->has_sidecar ? s->sidecar.rank : s->trace.rank,
        .step = m->choice->step >= 0 ? (int32_t)m->choice->step : -1};
    w->optimizer = s->has_sidecar ? s->sidecar.optimizer : LW_OPTIMIZER_UNKNOWN;
    w->name = keep(m, m->list && *m->list->model ? m->list->model
                                                 : lw_file_stem(text, sizeof text, s->file),
                   &status);
    return status;
}

static enum lw_status not_one_run(const struct traces_source *a, const struct traces_source *b,
                                  const char *why, struct lw_err *err)
{
    return lw_fail(err, LW_EFORMAT,
                   "%s and %s are not of one run: %s (give the ranks of one run together)", a->file,
                   b->file, why);
}

static enum lw_status check_pair(const struct traces_source *a, const struct traces_source *b,
                                 struct lw_err *err)
{
    bool sidecars = a->has_sidecar && b->has_sidecar;
    char why[128];

    if (!lw_traces_same_run(&a->trace, &b->trace, why, sizeof why))
        return not_one_run(a, b, why, err);
    if (!sidecars || strcmp(a->sidecar.model, b->sidecar.model) == 0)
        return LW_OK;
    snprintf(why, sizeof why, "one is of the model '%.30s', the other of '%.30s'",
             a->sidecar.model, b->sidecar.model);
    return not_one_run(a, b, why, err);
}

enum lw_status traces_sources_of_one_run(const struct traces_source *v, int n, struct lw_err *err)
{
    for (int i = 0; i < n; i++)
        for (int k = 0; k < i; k++)
            LW_TRY(check_pair(&v[k], &v[i], err));
    return LW_OK;
}

/* Data-parallel traces are of one run; a trace of one rank alone, of the same model. */
static enum lw_status check_same_model(struct importer *m)
{
    for (int i = 0; i < m->n; i++) {
        const struct traces_source *s = &m->source[i];
        if (s->has_sidecar && m->main->has_sidecar &&
            s->sidecar.n_params != m->main->sidecar.n_params)
            return lw_fail(m->err, LW_EFORMAT,
                           "%s: %d parameters, but %s has %d: traces of one import must be of one "
                           "model",
                           s->file, s->sidecar.n_params, m->main->file, m->main->sidecar.n_params);
        for (int k = 0; k < i && s->parallel; k++)
            if (m->source[k].parallel)
                LW_TRY(check_pair(&m->source[k], s, m->err));
    }
    return LW_OK;
}

static enum lw_status import(struct importer *m)
{
    struct lw_workload *w = m->w;

    choose_main(m);
    LW_TRY(check_same_model(m));
    LW_TRY(build_profile(m));
    LW_TRY(note_damage(m));
    LW_TRY(note_joined(m));
    LW_TRY(note_profile(m));
    LW_TRY(choose_list(m));
    LW_TRY(fill_params(m));
    LW_TRY(fill_modules(m));
    LW_TRY(fill_ops(m));
    LW_TRY(fill_buffers(m));
    fill_gaps(m);
    LW_TRY(fill_recorded(m));
    LW_TRY(fill_provenance(m));
    LW_TAKE(&w->arena, w->notes, w->n_notes, m->err);
    memcpy(w->notes, m->notes, (size_t)w->n_notes * sizeof *w->notes);
    return lw_workload_check(w, m->err);
}

enum lw_status lw_workload_from_traces(const struct traces_source *source, int n,
                                       const struct traces_choice *choice, struct lw_workload *out,
                                       struct traces_coverage *coverage, struct lw_err *err)
{
    struct lw_workload w = {0};
    struct importer m = {.source = source, .n = n, .choice = choice, .w = &w, .err = err};
    enum lw_status status = import(&m);

    if (status == LW_OK) {
        *coverage = (struct traces_coverage){
            .sharded = traces_wrapper_shards(lw_trace_wrapper(&m.main->trace)),
            .fsdp2 = lw_trace_wrapper(&m.main->trace) == TRACES_WRAPPER_FSDP2,
            .is_stage = traces_is_stage(&m.main->trace),
            .n_passes = m.profile.n_passes,
            .traced_ns = m.profile.step_ns, .excluded_ns = m.profile.excluded_ns,
            .scaled = m.scaled,
            .measured_ns =
                m.measured || m.scaled ? m.main->sidecar.measured.step.median : -1,
            .workload_ns = lw_ps_to_ns(lw_workload_step_ps(&w))};
        *out = w;
    } else {
        lw_arena_free(&w.arena);
    }
    traces_profile_free(&m.profile);
    return status;
}

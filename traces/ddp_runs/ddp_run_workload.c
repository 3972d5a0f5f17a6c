/* From a measured-run file to a workload and a cluster.
 *
 * Workload: one module, whose backward and ready times are those of rank 0 of the no_sync step (of
 * rank 1, else of the process alone, where a rank has none); the step is the slower rank's, because
 * both end a synchronised step together. What the phases leave of it is a gap; if they are longer
 * than the step (medians do not add up), the forward is shortened.
 *
 * Cluster: two nodes of one core. All threads of a rank share its core, two workers run
 * all-reduces, and the microbenchmark gives an all-reduce's time alone, its CPU time, and two at
 * once. Medians of small messages fall into one of two modes, and CPU time then includes waiting
 * threads; so a size never costs more than a larger one (minimum over itself and all larger sizes),
 * CPU time never exceeds time, and two at once take between the time of one and of two in sequence.
 *
 * Not modelled: spread of the medians, the first step's single bucket, kernel work on another
 * core. */
#include "traces/ddp_runs/ddp_run_workload.h"

#include <stdio.h>

#include "shared/cluster/gloo.h"
#include "shared/cluster/measured.h"
#include "shared/plan/op.h"
#include "traces/ddp_runs/import_ddp_run.h"

/* --- workload --- */

static bool has_ready_times(const struct lw_gt_profile *p)
{
    return p->there && p->n_order > 0 && p->n_ready > 0 && p->backward > 0;
}

static const struct lw_gt_profile *choose_profile(const struct lw_groundtruth *g,
                                                  const char **note)
{
    *note = "ready times of rank 0 of the no_sync step";
    if (has_ready_times(&g->no_sync[0]))
        return &g->no_sync[0];
    *note = "ready times of rank 1 of the no_sync step; rank 0 has none";
    if (has_ready_times(&g->no_sync[1]))
        return &g->no_sync[1];
    *note = "ready times of a process alone; the no_sync step has none";
    return has_ready_times(&g->local) ? &g->local : NULL;
}

static enum lw_status fill_params(const struct lw_groundtruth *g, struct lw_workload *w,
                                  struct lw_err *err)
{
    w->n_params = g->n_params;
    LW_TAKE(&w->arena, w->params, g->n_params, err);
    for (int32_t i = 0; i < g->n_params; i++) {
        const struct lw_gt_param *p = &g->params[i];
        w->params[i] = (struct lw_param){.name = lw_arena_strdup(&w->arena, p->name),
                                         .numel = p->numel, .dtype = p->dtype, .tied = -1,
                                         .trainable = p->trainable, .used = true, .ready_ps = -1};
        if (!w->params[i].name)
            return lw_fail_nomem(err);
    }
    return LW_OK;
}

/* Times along the order ascend and end within the backward: medians of single parameters need
 * not. */
static enum lw_status fill_ready(const struct lw_groundtruth *g, const struct lw_gt_profile *p,
                                 struct lw_workload *w, struct lw_err *err)
{
    lw_ps before = 0;

    LW_TAKE(&w->arena, w->ready_order, p->n_order, err);
    w->n_ready = p->n_order;
    for (int32_t k = 0; k < p->n_order; k++) {
        int32_t i = p->order[k];
        if (i < 0 || i >= g->n_params || i >= p->n_ready || p->ready[i] < 0)
            return lw_fail(err, LW_EFORMAT, "%s: at grad_ready.order[%d]: found %d, which has no "
                           "ready time among %d parameters", g->file, k, i, g->n_params);
        lw_ps at = p->ready[i] > before ? p->ready[i] : before;
        at = at < p->backward ? at : p->backward;
        w->ready_order[k] = i;
        w->params[i].ready_ps = before = at;
    }
    return LW_OK;
}

static lw_ps or_zero(lw_ps t)
{
    return t > 0 ? t : 0;
}

static void fill_times(const struct lw_groundtruth *g, const struct lw_gt_profile *p,
                       struct lw_workload *w)
{
    lw_ps a = g->no_sync[0].step, b = g->no_sync[1].step, step = a > b ? a : b;
    lw_ps forward = or_zero(p->forward), optimizer = or_zero(p->optimizer);
    lw_ps left = step - p->backward - optimizer - or_zero(p->zero) - forward;

    if (left < 0)
        forward = forward > -left ? forward + left : 0;
    w->modules[0].forward_ps = forward;
    w->modules[0].backward_input_ps = p->backward;
    w->optimizer_ps = optimizer;
    w->gap_ps[LW_GAP_BEFORE_FORWARD] = or_zero(p->zero);
    w->gap_ps[LW_GAP_AFTER_OPTIMIZER] = or_zero(left);
}

static enum lw_status fill_workload(const struct lw_groundtruth *g, struct lw_workload *w,
                                    struct lw_err *err)
{
    const char *note;
    const struct lw_gt_profile *p = choose_profile(g, &note);

    if (!p)
        return lw_fail(err, LW_EFORMAT,
                       "%s: neither ddp.no_sync nor local has a backward time with "
                       "grad_ready (order, ready_s)",
                       g->file);
    LW_TAKE(&w->arena, w->modules, 1, err);
    LW_TAKE(&w->arena, w->notes, 1, err);
    LW_PRINT(&w->arena, w->name, err, "%s", g->model);
    w->n_modules = w->n_notes = 1;
    w->modules[0] = (struct lw_module){.name = w->name, .forward_flops = -1, .forward_bytes = -1,
                                       .output_bytes = -1, .kept_bytes = {-1, -1, -1}};
    w->notes[0] = lw_arena_strdup(&w->arena, note);
    w->recorded = (struct lw_recorded){.step_ps = -1, .step_spread_ps = -1};
    w->from = (struct lw_provenance){
        "groundtruth", lw_arena_strdup(&w->arena, g->file), lw_arena_strdup(&w->arena, g->hash),
        lw_arena_strdup(&w->arena, g->cpu), lw_arena_printf(&w->arena, "torch %s", g->torch),
        -1, -1};
    if (!w->notes[0] || !w->from.file || !w->from.hash || !w->from.device || !w->from.producer)
        return lw_fail_nomem(err);
    fill_times(g, p, w);
    LW_TRY(fill_params(g, w, err));
    return fill_ready(g, p, w, err);
}

enum lw_status lw_gloo_workload(const struct lw_groundtruth *g, struct lw_workload *out,
                                struct lw_err *err)
{
    struct lw_workload w = {0};
    enum lw_status status = fill_workload(g, &w, err);

    if (status == LW_OK)
        status = lw_err_context(err, lw_workload_check(&w, err), "%s", g->file);
    LW_GIVE(status, out, w, lw_workload_free(&w));
}

/* --- cluster --- */

static lw_ps least(lw_ps a, lw_ps b)
{
    return a < b ? a : b;
}

static enum lw_status fill_tables(const struct lw_groundtruth *g, struct lw_cluster *c,
                                  struct lw_err *err)
{
    int32_t n = g->n_sizes;
    const char *source;
    int64_t *bytes;
    lw_ps *single, *cpu, *two;

    LW_TAKE(&c->arena, bytes, n, err);
    LW_TAKE(&c->arena, single, n, err);
    LW_TAKE(&c->arena, cpu, n, err);
    LW_TAKE(&c->arena, two, n, err);
    LW_TAKE(&c->arena, c->tables, 2, err);
    LW_PRINT(&c->arena, source, err, "%s: net.microbench", g->file);
    for (int32_t i = n - 1; i >= 0; i--) {
        const struct lw_gt_size *s = &g->sizes[i];
        bytes[i] = s->bytes;
        single[i] = i + 1 < n ? least(s->single, single[i + 1]) : s->single;
        cpu[i] = least(i + 1 < n ? least(s->single_cpu, cpu[i + 1]) : s->single_cpu, single[i]);
        lw_ps both = s->two > 0 ? s->two : 2 * single[i];
        two[i] = both < single[i] ? single[i] : least(both, 2 * single[i]);
    }
    c->n_tables = 2;
    c->tables[0] = (struct lw_cost_table){LW_OP_ALL_REDUCE, LW_F32, LW_GROUNDTRUTH_RANKS,
                                          LW_GROUNDTRUTH_RANKS, 1, n, bytes, single, NULL, cpu,
                                          source};
    c->tables[1] = c->tables[0];
    c->tables[1].n_in_flight = 2;
    c->tables[1].time_ps = two;
    c->tables[1].cpu_ps = NULL;
    return LW_OK;
}

static enum lw_status fill_cluster(const struct lw_groundtruth *g, struct lw_cluster *c,
                                   struct lw_err *err)
{
    struct lw_figure *copy = &c->device.copy_bytes_per_s;

    c->n_nodes = LW_GROUNDTRUTH_RANKS;
    c->devices_per_node = 1;
    c->calibrated = true;
    c->library = "gloo";
    LW_PRINT(&c->arena, c->name, err, "gloo over %s", g->net);
    LW_PRINT(&c->arena, c->about, err, "%s: two processes, a core each, network %s", g->file,
             g->net);
    LW_PRINT(&c->arena, c->library_version, err, "of PyTorch %s", g->torch);
    LW_PRINT(&c->arena, c->device.kind, err, "%s", g->cpu);
    LW_PRINT(&c->arena, copy->source, err, "fitted on %d measured steps: %s",
             lw_gloo_facts[LW_GLOO_COPY].n_rows, lw_gloo_facts[LW_GLOO_COPY].fitted_on);
    copy->value = lw_gloo_facts[LW_GLOO_COPY].value;
    c->interference.comm_on_compute_core =
        (struct lw_figure){1, "all threads of a rank are pinned on its core"};
    c->interference.comm_workers =
        (struct lw_figure){2, "threads of PyTorch's gloo process group (default of 1.13)"};
    return fill_tables(g, c, err);
}

enum lw_status lw_gloo_cluster(const struct lw_groundtruth *g, struct lw_cluster *out,
                               struct lw_err *err)
{
    struct lw_cluster c = {0};
    enum lw_status status = fill_cluster(g, &c, err);

    if (status == LW_OK)
        status = lw_err_context(err, lw_cluster_check(&c, err), "%s", g->file);
    LW_GIVE(status, out, c, lw_cluster_free(&c));
}

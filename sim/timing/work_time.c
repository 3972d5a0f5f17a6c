/* How long an op takes alone on its device.
 *
 * A table measured over sizes wins over a rate: a copy costs more per byte when it is small, and
 * other caches hold what it reads on the way into a bucket than on the way out. FLOPs are looked
 * up as those of one square product; memory traffic as that of a copy, which reads and writes
 * its payload. Not modelled: the shape of products, operands that are still in a cache. */
#include "sim/timing/work_time.h"

#include <string.h>

#include "shared/numbers/checked.h"
#include "shared/plan/op_bound.h"
#include "shared/strategy/strategy.h"
#include "sim/timing/sim_options.h"

/* An op and what it is timed by. */
struct asked {
    const struct lw_plan *plan;
    const struct lw_cluster *cluster;
    const struct lw_op *op;
    int32_t number; /* of the op, for messages */
};

/* An op of --offload: what it asks of a cluster is asked for by that option. */
static bool is_offloaded(const struct asked *a)
{
    const struct lw_strategy *s = a->plan->strategy;

    return s && s->offload != LW_OFFLOAD_NONE &&
           (a->op->kind == LW_OP_LOAD || a->op->kind == LW_OP_STORE ||
            lw_op_is_host_update(a->plan, a->op));
}

static enum lw_status missing(const struct asked *a, const char *what, struct lw_err *err)
{
    const struct lw_op *op = a->op;

    if (is_offloaded(a))
        return lw_fail(err, LW_ENOTSUP,
                       "--offload %s: cluster '%s' gives no %s: choose --offload none or another "
                       "cluster, or add the figure to its file",
                       lw_offload_name(a->plan->strategy->offload), a->cluster->name, what);
    return lw_fail(err, LW_ENOTSUP,
                   "op %lld (%s%s%s) has no time of its own, and cluster '%s' gives no %s: add the "
                   "figure to its file, or choose another cluster",
                   (long long)a->number, lw_op_name(op->kind), *op->name ? " " : "", op->name,
                   a->cluster->name, what);
}

/* By the device's table for the kind of work, at `size`, else `amount` at the rate of a figure,
 * which must be known: `what`, and its name in a cluster file. */
struct way {
    const struct lw_work_table *table;
    int64_t size, amount;
    struct lw_figure rate;
    double share; /* of the rate that is reached */
    const char *name, *what;
};

static enum lw_status take(const struct asked *a, const struct way *w, struct sim_work *out,
                           struct lw_err *err)
{
    if (w->table) {
        *out = (struct sim_work){lw_work_time(w->table, w->size), "its table", w->table->source};
        return LW_OK;
    }
    if (!lw_figure_is_set(w->rate))
        return missing(a, w->what, err);
    lw_ps time = lw_transfer_ps(w->amount, w->rate.value * w->share);
    *out = (struct sim_work){time, w->name, w->rate.source};
    return LW_OK;
}

/* --- compute ---------------------------------------------------------------------------------- */

static enum lw_status products(const struct asked *a, int64_t flops, struct sim_work *out,
                               struct lw_err *err)
{
    struct lw_figure efficiency = a->cluster->device.gemm_efficiency;
    const struct way w = {
        lw_work_find(&a->cluster->device, LW_WORK_GEMM, a->op->dtype, a->op->dtype),
        flops,
        flops,
        a->cluster->device.peak_flops[a->op->dtype],
        lw_figure_is_set(efficiency) ? efficiency.value : 1,
        "peak_flops",
        "peak FLOP rate of its data type"};

    return take(a, &w, out, err);
}

static enum lw_status traffic(const struct asked *a, int64_t bytes, struct sim_work *out,
                              struct lw_err *err)
{
    const struct way w = {
        lw_work_find(&a->cluster->device, LW_WORK_COPY, a->op->dtype, a->op->dtype),
        bytes / 2,
        bytes,
        a->cluster->device.memory_bytes_per_s,
        1,
        "memory_bytes_per_s",
        "device memory bandwidth"};

    return take(a, &w, out, err);
}

/* Roofline: the longer of computing and moving, of what is known (Williams, Waterman, Patterson,
 * CACM 52(4), 2009). */
static enum lw_status roofline(const struct asked *a, struct sim_work *out, struct lw_err *err)
{
    int64_t flops = a->op->work >= 0 ? lw_work_at(a->plan, a->op->work)->flops : -1;
    int64_t bytes = a->op->work >= 0 ? lw_work_at(a->plan, a->op->work)->bytes : -1;
    struct sim_work compute = {0, "the plan", ""}, move = compute;

    if (flops < 0 && bytes < 0)
        return missing(a, "way to time an op of unknown FLOPs and bytes", err);
    if (flops > 0)
        LW_TRY(products(a, flops, &compute, err));
    if (bytes > 0)
        LW_TRY(traffic(a, bytes, &move, err));
    *out = compute.time > move.time ? compute : move;
    return LW_OK;
}

/* --- copies ----------------------------------------------------------------------------------- */

static enum lw_work_kind kind_of(enum lw_op_kind op)
{
    return op == LW_OP_COPY_IN    ? LW_WORK_COPY_IN
           : op == LW_OP_COPY_OUT ? LW_WORK_COPY_OUT
           : op == LW_OP_CAST     ? LW_WORK_CAST
                                  : LW_WORK_COPY;
}

/* What is read: of a cast the bucket's other form, where that is known. */
static enum lw_dtype read_by(const struct lw_plan *plan, const struct lw_op *op)
{
    if (op->kind != LW_OP_CAST)
        return op->dtype;
    if (op->bucket < 0 || plan->buckets[op->bucket].dtype == op->dtype)
        return LW_N_DTYPES;
    return plan->buckets[op->bucket].dtype;
}

static enum lw_status host_copy(const struct asked *a, int64_t bytes, struct sim_work *out,
                                struct lw_err *err)
{
    const struct way w = {NULL,
                          bytes,
                          bytes,
                          a->cluster->device.host_link_bytes_per_s,
                          1,
                          "host_link_bytes_per_s",
                          "rate between device and host (device.host_link_bytes_per_s)"};

    return take(a, &w, out, err);
}

/* What CPU-Adam reaches of the host memory's rate: 10e9 elements of 28 bytes in 2.57 s (Ren et al.,
 * ZeRO-Offload, arXiv 2101.06840, table 4) on a DGX-2, whose two Xeon 8168 have 12 channels of
 * DDR4-2666, 256 GB/s. The ranks of a node update at once. */
#define HOST_ADAM_SHARE 0.426

static double host_share(const struct lw_cluster *c, const struct lw_strategy *s)
{
    int64_t n_ranks = lw_strategy_ranks(s); /* a folded plan has fewer */
    int64_t in_node = c->devices_per_node > 0 && c->devices_per_node < n_ranks
                          ? c->devices_per_node : n_ranks;

    return HOST_ADAM_SHARE / (double)in_node;
}

lw_ps sim_host_update_ps(const struct lw_cluster *c, const struct lw_strategy *s, int64_t elements,
                         int64_t moved, int64_t copied)
{
    struct lw_figure host = c->host_bytes_per_s, link = c->device.host_link_bytes_per_s;

    if (!lw_figure_is_set(host) || !lw_figure_is_set(link))
        return 0;
    return lw_add_sat(lw_transfer_ps(lw_mul_sat(moved, elements),
                                     host.value * host_share(c, s)),
                      lw_transfer_ps(lw_mul_sat(copied, elements), link.value));
}

static enum lw_status host_update(const struct asked *a, int64_t bytes, struct sim_work *out,
                                  struct lw_err *err)
{
    const struct way w = {NULL,
                          bytes,
                          bytes,
                          a->cluster->host_bytes_per_s,
                          host_share(a->cluster, a->plan->strategy),
                          "host_bytes_per_s",
                          "bandwidth of the host's memory (host_bytes_per_s)"};

    return take(a, &w, out, err);
}

static enum lw_status copy(const struct asked *a, int64_t bytes, struct sim_work *out,
                           struct lw_err *err)
{
    const struct way w = {lw_work_find(&a->cluster->device, kind_of(a->op->kind), a->op->dtype,
                                       read_by(a->plan, a->op)),
                          bytes,
                          bytes,
                          a->cluster->device.copy_bytes_per_s,
                          1,
                          "copy_bytes_per_s",
                          "copy bandwidth (copy_bytes_per_s)"};

    return take(a, &w, out, err);
}

/* --- any -------------------------------------------------------------------------------------- */

static enum lw_status host(const struct asked *a, struct sim_work *out, struct lw_err *err)
{
    struct lw_figure launch = a->cluster->device.launch_ps;

    if (a->op->kind != LW_OP_LAUNCH)
        return missing(a, "host times", err);
    if (!lw_figure_is_set(launch))
        return missing(a, "launch time (launch_ps)", err);
    *out = (struct sim_work){lw_round_sat(launch.value), "launch_ns", launch.source};
    return LW_OK;
}

enum lw_status sim_work_of(const struct lw_plan *plan, const struct lw_cluster *c, int32_t number,
                           const struct lw_op *op, int64_t bytes, struct sim_work *out,
                           struct lw_err *err)
{
    const struct asked asked = {plan, c, op, number}, *a = &asked;
    lw_ps own = lw_plan_work_ps(plan, op);

    if (own >= 0) {
        *out = (struct sim_work){own, "the plan", ""};
        return LW_OK;
    }
    switch (lw_op_class(op->kind)) {
    case LW_CLASS_COPY:
        return op->kind == LW_OP_LOAD || op->kind == LW_OP_STORE ? host_copy(a, bytes, out, err)
                                                                 : copy(a, bytes, out, err);
    case LW_CLASS_COMPUTE:
        return lw_op_is_host_update(plan, op) ? host_update(a, bytes, out, err)
                                              : roofline(a, out, err);
    case LW_CLASS_HOST:
        return host(a, out, err);
    default:
        *out = (struct sim_work){0, "the plan", ""};
        return LW_OK;
    }
}

int32_t sim_note_timed(struct lw_sim_stats *s, const struct lw_op *op, const char *by,
                       const char *source, const char *basis)
{
    int32_t i = 0;

    while (i < s->n_timed &&
           (s->timed[i].kind != op->kind || s->timed[i].dtype != op->dtype ||
            s->timed[i].source != source || strcmp(s->timed[i].by, by) != 0 ||
            strcmp(s->timed[i].basis, basis) != 0))
        i++;
    if (i == LW_SIM_MAX_TIMED)
        return -1;
    if (i == s->n_timed)
        s->timed[s->n_timed++] = (struct lw_sim_timed){op->kind, op->dtype, by, source, basis, 0};
    s->timed[i].n_ops++;
    return i;
}

void sim_list_timed(const struct lw_plan *p, const struct lw_cluster *c,
                    struct lw_sim_stats *stats)
{
    struct sim_work w;

    for (int32_t i = 0; i < p->n_ops; i++) {
        const struct lw_op *op = LW_OP_HELD(p, i);
        if (op->comm < 0 && lw_plan_work_ps(p, op) < 0 &&
            sim_work_of(p, c, i, op, op->bytes, &w, NULL) == LW_OK && *w.source)
            sim_note_timed(stats, op, w.by, w.source,
                           strcmp(w.by, "its table") == 0 ? "measured" : "modelled");
    }
}

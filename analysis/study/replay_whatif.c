/* What-ifs on a replay. Each replaces the time of single ops and leaves everything else recorded;
 * its assumptions are notes.
 *
 *   network  a collective of known size takes what the cluster's tables and models say;
 *   ranks    groups of the size of the recorded world get the new size; without a cluster their
 *            recorded time is scaled by the traffic of an ideal algorithm (nccl-tests,
 *            PERFORMANCE.md: all-reduce 2(n-1)/n, all-gather, reduce-scatter, all-to-all (n-1)/n);
 *   device   a kernel bound by arithmetic scales with peak flop/s of its type, any other with
 *            memory bandwidth (roofline: Williams, Waterman, Patterson, CACM 52(4), 2009).
 *
 * Not modelled: a kernel that changes its class on the other device, other kernels chosen there,
 * copies between host and device, a faster host. */
#include "analysis/study/replay_whatif.h"

#include <stdio.h>
#include <string.h>

#include "shared/cli/cluster_warning.h"
#include "shared/device/device_kind.h"
#include "shared/device/device_time.h"
#include "shared/numbers/checked.h"
#include "shared/files/files.h"
#include "shared/numbers/checked.h"
#include "sim/cost/cost_model.h"
#include "traces/trace/kernel_class.h"
#include "traces/replay/to_replay.h"

bool sim_whatif_asked(const struct sim_whatif *w)
{
    return w->network || w->ranks > 0 || w->device;
}

/* ---- collectives ---- */

static int32_t new_size(const struct sim_whatif *w, int32_t size)
{
    return w->ranks > 0 && size == w->world ? (int32_t)w->ranks : size;
}

static enum lw_status ask_network(struct sim_whatif *w, const struct traces_replay_op *op,
                                  int32_t n, lw_ps *time, struct lw_err *err)
{
    struct lw_cost_answer answer;
    struct lw_cost_query q = {
        .op = op->kind, .dtype = op->dtype, .bytes = op->bytes, .n_ranks = n, .n_nodes = 1};

    if (op->kind == LW_OP_BARRIER)
        q.bytes = 0;
    if (q.bytes < 0 && !op->measured) {
        w->n_unsized++;
        return LW_OK;
    }
    w->n_comm++;
    if (q.bytes < 0)
        return lw_fail(err, LW_EINVAL,
                       "-c: the traces do not contain the size of '%.80s': only collectives of "
                       "known size can be timed on another network (torch 2.2 and later record "
                       "sizes)",
                       op->name);
    q.n_nodes = (n + w->net.devices_per_node - 1) / w->net.devices_per_node;
    LW_TRY(lw_sim_cost_explain(&w->net, &q, &answer, err));
    *time = answer.time;
    return LW_OK;
}

/* recorded * traffic(to) / traffic(from), rounded: traffic is (n-1)/n but for a constant factor,
 * and the same for all n where every member gets or gives the whole. */
static enum lw_status scale(const struct traces_replay_op *op, int32_t to, lw_ps *time,
                            struct lw_err *err)
{
    int64_t from = op->group_size;

    if (op->kind == LW_OP_BROADCAST || op->kind == LW_OP_REDUCE || op->kind == LW_OP_BARRIER)
        return LW_OK;
    if (from < 2)
        return lw_fail(err, LW_EINVAL,
                       "--ranks: '%.80s' was recorded with one rank, so it holds no "
                       "transfer to scale: name a network with -c",
                       op->name);
    __int128 num = (__int128)op->recorded * (to - 1) * from, den = (__int128)to * (from - 1);
    *time = (lw_ps)((num + den / 2) / den);
    return LW_OK;
}

static enum lw_status time_comm(struct sim_whatif *w, const struct traces_replay_op *op,
                                lw_ps *time, struct lw_err *err)
{
    bool unknown = op->group_size < 0 && w->ranks > 0 && w->network;
    int32_t size = unknown ? (int32_t)w->ranks : new_size(w, op->group_size);

    w->n_resized += size != op->group_size;
    w->n_unknown += unknown;
    if (!w->network && size == op->group_size) {
        w->n_comm_kept++;
        return LW_OK;
    }
    if (size < 0)
        return lw_fail(err, LW_EINVAL,
                       "-c: the file does not contain the number of ranks of '%.80s': give the "
                       "files of all ranks, or --ranks N",
                       op->name);
    if (w->network)
        return ask_network(w, op, size, time, err);
    w->n_comm++;
    return scale(op, size, time, err);
}

/* ---- kernels ---- */

static enum lw_status ratio(struct lw_figure from, struct lw_figure to, const char *what,
                            const struct sim_whatif *w, double *r, struct lw_err *err)
{
    if (!lw_figure_is_set(from) || !lw_figure_is_set(to))
        return lw_fail(err, LW_ENOTSUP, "--device: %s gives no %s",
                       lw_figure_is_set(from) ? w->to.device.kind : w->from.device.kind, what);
    *r = from.value / to.value;
    return LW_OK;
}

/* Peak rate of products of a type; unset where the cluster gives none. */
static struct lw_figure peak_of(const struct lw_cluster *c, struct lw_kernel_type type)
{
    struct lw_figure f = c->device.peak_flops[type.dtype];

    if (!type.fp8)
        return f;
    return lw_figure_is_set(f) && lw_figure_is_set(c->device.fp8_speedup)
               ? (struct lw_figure){f.value * c->device.fp8_speedup.value, f.source}
               : (struct lw_figure){0, NULL};
}

/* By the user's marks, the inputs of the launching op, the name. */
static struct lw_kernel_type type_of(struct sim_whatif *w, const struct traces_replay_op *op,
                                     const struct lw_kernel_mark *mark)
{
    struct lw_kernel_type type = op->type;

    if ((mark && mark->mark && mark->has_dtype) || !type.known)
        type = lw_kernel_type_of(w->kernels, op->name);
    if (!type.known) {
        w->n_untyped++;
        w->untyped += (double)op->recorded;
    }
    return type;
}

static enum lw_status time_kernel(struct sim_whatif *w, const struct traces_replay_op *op,
                                  lw_ps *time, struct lw_err *err)
{
    const struct lw_kernel_mark *mark = lw_kernel_mark_of(w->kernels, op->name);
    enum lw_kernel_class class = mark ? mark->class : LW_KERNEL_OTHER;
    char what[64];
    double r;

    w->all_kernels += (double)op->recorded;
    if (class == LW_KERNEL_COMPUTE) {
        struct lw_kernel_type type = type_of(w, op, mark);
        snprintf(what, sizeof what, "peak flop/s of %s",
                 type.fp8 ? "fp8" : lw_dtype_name(type.dtype));
        LW_TRY(ratio(peak_of(&w->from, type), peak_of(&w->to, type), what, w, &r, err));
    } else {
        LW_TRY(ratio(w->from.device.memory_bytes_per_s, w->to.device.memory_bytes_per_s,
                     "memory bandwidth", w, &r, err));
    }
    w->n_compute += class == LW_KERNEL_COMPUTE;
    w->n_memory += class == LW_KERNEL_MEMORY;
    w->n_other += class == LW_KERNEL_OTHER;
    *time = lw_round_sat((double)op->recorded * r);
    return LW_OK;
}

/* ---- ops that were recorded without times ---- */

static enum lw_status time_untimed_comm(struct sim_whatif *w, const struct traces_replay_op *op,
                                        lw_ps *time, struct lw_err *err)
{
    int32_t n = op->group_size > 0 ? new_size(w, op->group_size) : (int32_t)w->ranks;

    if (!w->network)
        return LW_OK; /* who asked says that a network is needed */
    if (n <= 0)
        return lw_fail(
            err, LW_EINVAL,
            "the file does not contain the number of ranks of '%.80s': give the files of "
            "all ranks, or --ranks N",
            op->name);
    w->n_resized += op->group_size <= 0 || n != op->group_size;
    return ask_network(w, op, n, time, err);
}

static enum lw_status time_shape(struct sim_whatif *w, const struct traces_replay_op *op,
                                 lw_ps *time, struct lw_err *err)
{
    const struct lw_device *d = w->has_device                   ? &w->to.device
                                : w->has_net && !w->as_recorded ? &w->net.device
                                                                : NULL;
    lw_ps traffic = 0, compute = 0;

    if (!d || (op->flops <= 0 && op->moved <= 0))
        return LW_OK;
    if (!lw_figure_is_set(d->memory_bytes_per_s))
        return lw_fail(err, LW_ENOTSUP, "device '%s' has no memory bandwidth: name another device",
                       d->kind);
    traffic = lw_traffic_time(d, op->moved > 0 ? op->moved : 0);
    if (op->product && lw_device_by_shape(d, op->product->dtype)) {
        compute =
            lw_mul_sat(lw_product_time(d, op->product), op->flops / lw_product_flops(op->product));
        w->n_products++;
        *time = compute;
        return LW_OK;
    }
    if (op->flops > 0) {
        struct lw_figure peak = d->peak_flops[op->dtype < LW_N_DTYPES ? op->dtype : LW_F32];
        if (!lw_figure_is_set(peak))
            peak = d->peak_flops[LW_F32];
        if (!lw_figure_is_set(peak))
            return lw_fail(err, LW_ENOTSUP, "device '%s' has no peak flop/s of %s", d->kind,
                           lw_dtype_name(op->dtype));
        compute = lw_ps_from_seconds((double)op->flops / peak.value);
    }
    w->n_traffic++;
    *time = compute > traffic ? compute : traffic;
    return LW_OK;
}

static enum lw_status time_op(void *ctx, const struct traces_replay_op *op, lw_ps *time,
                              struct lw_err *err)
{
    struct sim_whatif *w = ctx;

    if (op->recorded < 0)
        return op->comm ? time_untimed_comm(w, op, time, err) : time_shape(w, op, time, err);
    if (op->comm)
        return time_comm(w, op, time, err);
    return w->has_device && !w->untimed ? time_kernel(w, op, time, err) : LW_OK;
}

/* ---- notes ---- */

static const char *note(void *ctx, int k)
{
    struct sim_whatif *w = ctx;
    int n = 0;
    size_t size = sizeof w->note[0];

    if (w->network)
        snprintf(w->note[n++], size,
                 "what-if: %lld collectives take what cluster '%s' says for "
                 "their size%s",
                 (long long)w->n_comm, w->net.name,
                 w->untimed ? "" : ", instead of their recorded time");
    if (w->n_products + w->n_traffic > 0)
        snprintf(
            w->note[n++], size,
            "ops without recorded times: %lld by the shape of their matrix product, %lld by the "
            "larger of FLOPs and memory traffic, on %s; launches and the host take no time",
            (long long)w->n_products, (long long)w->n_traffic,
            w->has_device ? w->to.device.kind : w->net.device.kind);
    if (w->network && !w->has_device && !w->as_recorded && !w->untimed &&
        lw_device_is_nameless(w->recorded_device))
        snprintf(w->note[n++], size,
                 "the recording names no device: its kernels are taken to be of '%s'",
                 w->net.device.kind);
    if (w->n_unsized > 0)
        snprintf(w->note[n++], size,
                 "what-if: %lld collectives of unknown size outside the measured steps keep their "
                 "recorded time",
                 (long long)w->n_unsized);
    if (w->n_untyped > 0)
        snprintf(w->note[n++], size,
                 "what-if: %lld kernels bound by arithmetic, %.1f %% of the kernels' time, tell no "
                 "type, neither by the op that launched them (record_shapes=True) nor by their "
                 "name: taken as f32 (--kernel-classes FILE gives it)",
                 (long long)w->n_untyped, 100 * w->untyped / w->all_kernels);
    if (w->n_unknown > 0)
        snprintf(w->note[n++], size,
                 "what-if: %lld collectives whose number of ranks is not recorded have %lld",
                 (long long)w->n_unknown, (long long)w->ranks);
    if (w->ranks > 0 && !w->untimed && w->world > 0)
        snprintf(w->note[n++], size,
                 "what-if: groups of all %d ranks have %lld: %lld collectives, "
                 "each rank's buffers and compute as recorded, %lld of other groups as recorded",
                 w->world, (long long)w->ranks, (long long)w->n_comm, (long long)w->n_comm_kept);
    if (w->ranks > 0 && !w->network)
        snprintf(w->note[n++], size,
                 "what-if: their recorded times, latency and waiting inside, "
                 "scale with the traffic of a ring: all-reduce, all-gather, reduce-scatter and "
                 "all-to-all by (n-1)/n");
    if (w->has_device && !w->untimed)
        snprintf(w->note[n++], size,
                 "what-if: %s instead of %s: %lld kernels bound by arithmetic "
                 "scale with peak flop/s of the type of their inputs, %lld bound by memory "
                 "and %lld of no known class with memory bandwidth",
                 w->to.device.kind, w->from.device.kind, (long long)w->n_compute,
                 (long long)w->n_memory, (long long)w->n_other);
    if (w->has_device && !w->untimed)
        snprintf(w->note[n++], size, "what-if: the host, launches and copies keep their times%s",
                 w->network ? "" : ", and so do collectives");
    return k < n ? w->note[k] : NULL;
}

/* ---- clusters ---- */

static enum lw_status find_recorded(struct sim_whatif *w, struct lw_err *err)
{
    LW_TRY(lw_cluster_find_recorded(w->recorded_device, &w->from, err));
    if (w->from.name)
        return LW_OK;
    return lw_fail(err, LW_EINVAL,
                   "--device: the traces were recorded on '%s', which is not a known device: name "
                   "it with --from-device (a known system, its device's kind, or a cluster file)",
                   *w->recorded_device ? w->recorded_device : "unknown");
}

static enum lw_status check(const struct sim_whatif *w, struct lw_err *err)
{
    if (w->ranks > 0 && w->alone)
        return lw_fail(err, LW_EINVAL,
                       "--ranks: the recorded run shows one rank and no collective, so a replay "
                       "has nothing to change; a plan with more ranks is made from a workload: "
                       "'lapwing import TRACE -o W.json', then 'lapwing sim -w W.json -c CLUSTER "
                       "--dp %lld'",
                       (long long)w->ranks);
    if (w->device && w->no_device)
        return lw_fail(err, LW_EINVAL,
                       "--device: the recording holds no kernel of a device, and what its host "
                       "('%s') computed is not timed for one: record on a device, or time the "
                       "model ('lapwing sim -w MODEL --device %s')",
                       w->recorded_device, w->device);
    if (w->ranks > 0 && w->world < 0 && !w->network)
        return lw_fail(err, LW_EINVAL,
                       "--ranks: the traces do not contain the number of ranks of the recorded "
                       "run, from which its collectives could be scaled: give the files of all "
                       "ranks, or name a network that times them (-c CLUSTER)");
    if (w->from_device && !w->device)
        return lw_fail(err, LW_EUSAGE,
                       "--from-device names the recorded device, and needs --device, which names "
                       "the device to predict");
    if (w->as_recorded && !w->network)
        return lw_fail(err, LW_EUSAGE, "--as-recorded uses the network of a cluster with another "
                                       "device: give that cluster (-c NAME)");
    if (w->as_recorded && w->device)
        return lw_fail(err, LW_EUSAGE, "--device computes new times of the kernels, --as-recorded "
                                       "keeps the recorded ones: give only one of them");
    return LW_OK;
}

/* Kernels of one device and collectives of a cluster with another are not mixed unless the user
 * asks for it. */
static enum lw_status check_kind(const struct sim_whatif *w, struct lw_err *err)
{
    const char *kind = w->has_device ? w->to.device.kind : w->recorded_device;

    if (lw_device_same_kind(kind, w->net.device.kind))
        return LW_OK;
    return lw_fail(err, LW_EINVAL,
                   "the kernels are of device '%s', cluster '%s' has '%s': --device %s times them "
                   "for that device; --as-recorded keeps them and uses only the cluster's network; "
                   "or record on that device",
                   kind, w->net.name, w->net.device.kind, w->network);
}

enum lw_status sim_whatif_open(struct sim_whatif *w, struct traces_replay_rule *rule,
                               struct lw_err *err)
{
    LW_TRY(check(w, err));
    *rule = (struct traces_replay_rule){time_op, note, w, w->network != NULL};
    if (w->network) {
        LW_TRY(lw_cluster_find(w->network, &w->net, err));
        lw_cluster_warn(&w->net, w->ranks);
        w->has_net = true;
    }
    if (w->device) {
        LW_TRY(lw_cluster_find_device(w->device, &w->to, err));
        if (!w->untimed)
            LW_TRY(w->from_device ? lw_cluster_find_device(w->from_device, &w->from, err)
                                  : find_recorded(w, err));
        w->has_device = true;
    }
    return w->has_net && !w->as_recorded ? check_kind(w, err) : LW_OK;
}

void sim_whatif_restart(struct sim_whatif *w)
{
    w->n_comm = w->n_comm_kept = w->n_resized = w->n_compute = w->n_memory = w->n_other = 0;
    w->n_unknown = 0;
    w->n_unsized = w->n_untyped = w->n_products = w->n_traffic = 0;
    w->untyped = w->all_kernels = 0;
}

enum lw_status sim_whatif_acted(const struct sim_whatif *w, struct lw_err *err)
{
    int64_t shaped = w->n_products + w->n_traffic;

    if (w->network && w->n_comm == 0 && shaped == 0)
        return lw_fail(err, LW_EINVAL,
                       "-c: the traces contain no collective (a run of one rank launches none): "
                       "another network changes nothing. A plan with collectives is made from a "
                       "workload: 'lapwing import TRACE -o W.json', then 'lapwing sim -w W.json -c "
                       "%s --dp N'",
                       w->network);
    if (w->ranks > 0 && w->n_resized == 0 && w->world < 0)
        return lw_fail(err, LW_EINVAL,
                       "--ranks: the file does not contain how many ranks the run had, and its "
                       "collectives are of groups of known size: give the files of all ranks");
    if (w->ranks > 0 && w->n_resized == 0)
        return lw_fail(err, LW_EINVAL,
                       "--ranks: %lld ranks change no collective: the recorded run has %d, and "
                       "only collectives of all of them would change",
                       (long long)w->ranks, w->world);
    if (w->has_device && w->n_compute + w->n_memory + w->n_other + shaped == 0)
        return lw_fail(err, LW_EINVAL, "--device: the traces contain no kernel that another device "
                                       "could run faster: the host's time stays as recorded");
    return LW_OK;
}

void sim_whatif_close(struct sim_whatif *w)
{
    lw_cluster_free(&w->net);
    lw_cluster_free(&w->to);
    lw_cluster_free(&w->from);
}

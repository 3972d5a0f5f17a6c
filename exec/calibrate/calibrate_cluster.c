/* The cluster that comes of the samples: figures and tables, each with its spread and its
 * source. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "exec/calibrate/calibrate_state.h"
#include "shared/cluster/cluster.h"
#include "shared/cluster/measured.h"

struct making {
    struct exec_calibration *c;
    struct lw_cluster *out;
    bool no_memory;
};

static const char *keep(struct making *m, const char *text)
{
    const char *copy = lw_arena_strdup(&m->out->arena, text);

    m->no_memory = m->no_memory || !copy;
    return copy;
}

static struct lw_figure figure(struct making *m, struct exec_samples *s, double value,
                               const char *what)
{
    char text[256];
    double middle = exec_samples_median(s);

    snprintf(text, sizeof text, "lapwing calibrate: %s, median of %lld, spread %.1f %%", what,
             (long long)s->n, middle != 0 ? 100 * exec_samples_spread(s) / middle : 0.0);
    return (struct lw_figure){value, keep(m, text)};
}

static struct lw_figure stated(double value, const char *source)
{
    return (struct lw_figure){value, source};
}

static double clamped(double rate)
{
    return rate > 1 ? 1 : rate < 0.001 ? 0.001 : rate;
}

/* --- tables ----------------------------------------------------------------------------------- */

struct columns {
    int32_t n;
    int64_t *size, most; /* most: samples of one size */
    lw_ps *time, *spread;
};

static enum lw_status make_columns(struct making *m, struct columns *k, struct lw_err *err)
{
    struct lw_arena *a = &m->out->arena;

    *k = (struct columns){.size = lw_arena_alloc(a, CALIBRATE_SIZES, sizeof *k->size),
                          .time = lw_arena_alloc(a, CALIBRATE_SIZES, sizeof *k->time),
                          .spread = lw_arena_alloc(a, CALIBRATE_SIZES, sizeof *k->spread)};
    return k->size && k->time && k->spread ? LW_OK : lw_fail_nomem(err);
}

/* What was not measured has no row. */
static void add_row(struct columns *k, int64_t size, struct exec_samples *s)
{
    if (s->n == 0)
        return;
    k->most = s->n > k->most ? s->n : k->most;
    k->size[k->n] = size;
    k->time[k->n] = (lw_ps)exec_samples_median(s);
    k->spread[k->n++] = (lw_ps)exec_samples_spread(s);
}

/* Which ops of the series run at once. */
static const char *how_many(const struct exec_calibration *c, enum exec_series s, char text[96])
{
    bool two = exec_series_in_flight(s) == 2, message = exec_series_op(s) == LW_OP_SEND;
    int32_t n_nodes = exec_series_nodes(c, s), group = exec_series_group(c, s);
    bool across = n_nodes > 1 && n_nodes == group;

    snprintf(text, 96, "%s%s%s", message && n_nodes > 1 ? " between nodes" : "",
             message || group == c->o->n_ranks ? ""
             : across                          ? ", one rank of each node, all groups at once"
                                               : ", in all groups at once",
             !two      ? ""
             : message ? ", one each way at once"
                       : ", two at once");
    return text;
}

static bool on_gpus(const struct exec_calibration *c)
{
    return (c->o->backend->capabilities & EXEC_CAN_REGISTER) && !c->o->loop;
}

static enum lw_status fill_table(struct making *m, enum exec_series series, struct lw_err *err)
{
    struct exec_calibration *c = m->c;
    struct columns k;
    char text[256], many[96];
    int32_t n;
    const int64_t *sizes = exec_series_sizes(c, series, &n);
    enum lw_op_kind op = exec_series_op(series);

    LW_TRY(make_columns(m, &k, err));
    for (int32_t i = 0; i < n; i++)
        add_row(&k, sizes[i], &c->comm[series][i]);
    if (k.n == 0)
        return LW_OK;
    snprintf(text, sizeof text, "lapwing calibrate: %s of backend %s%s, medians of up to %lld",
             lw_op_name(op), c->o->backend->name, how_many(c, series, many), (long long)k.most);
    m->out->tables[m->out->n_tables++] = (struct lw_cost_table){
        .op = op, .dtype = LW_F32, .n_nodes = exec_series_nodes(c, series),
        .n_ranks = op == LW_OP_SEND ? 2 : exec_series_group(c, series),
        .n_in_flight = exec_series_in_flight(series), .n_rows = k.n, .bytes = k.size,
        .time_ps = k.time, .spread_ps = k.spread, .source = keep(m, text)};
    return LW_OK;
}

static enum lw_status fill_work(struct making *m, int32_t series, struct lw_err *err)
{
    const struct exec_work_series *w = &exec_work_series[series];
    struct lw_device *d = &m->out->device;
    struct columns k;
    char text[320];

    LW_TRY(make_columns(m, &k, err));
    for (int32_t i = 0; i < CALIBRATE_SIZES; i++)
        if (m->c->work[series][i].n > 0)
            add_row(&k, exec_work_size(series, i), &m->c->work[series][i]);
    if (k.n == 0)
        return LW_OK;
    snprintf(
        text, sizeof text, "lapwing calibrate: %s%s%.*s, all ranks at once, medians of up to %lld",
        lw_work_name(w->kind), w->kind == LW_WORK_GEMM ? " by " : "",
        w->kind == LW_WORK_GEMM ? (int)strcspn(m->c->name, ",") : 0, m->c->name, (long long)k.most);
    d->work[d->n_work++] =
        (struct lw_work_table){.kind = w->kind, .dtype = w->dtype, .from = w->from, .n_rows = k.n,
                               .size = k.size, .time_ps = k.time, .spread_ps = k.spread,
                               .source = keep(m, text)};
    return LW_OK;
}

static enum lw_status fill_tables(struct making *m, struct lw_err *err)
{
    struct lw_cluster *out = m->out;

    LW_TAKE(&out->arena, out->tables, N_TABLES, err);
    LW_TAKE(&out->arena, out->device.work, CALIBRATE_N_WORK, err);
    for (int s = 0; s < N_TABLES; s++)
        if (exec_series_can(m->c, (enum exec_series)s))
            LW_TRY(fill_table(m, (enum exec_series)s, err));
    for (int32_t s = 0; s < CALIBRATE_N_WORK; s++)
        LW_TRY(fill_work(m, s, err));
    return LW_OK;
}

/* --- figures ---------------------------------------------------------------------------------- */

/* All-reduces in the groups of a series, over their links. */
static void add_link(struct making *m, enum lw_link_level level, enum exec_series series)
{
    struct exec_calibration *c = m->c;
    struct exec_samples *small = &c->comm[series][0];
    struct exec_samples *large = &c->comm[series][c->n_sizes - 1];
    double n = exec_series_group(c, series), steps = 2 * (n - 1);
    double bytes = (double)c->bytes[c->n_sizes - 1] * steps / n;

    m->out->links[m->out->n_links++] = (struct lw_link){
        .name = level == LW_LINK_INTER       ? "between nodes"
                : c->o->link_bytes_per_s > 0 ? "paced link"
                : c->o->loop                 ? "device memory"
                : on_gpus(c)                 ? "between GPUs"
                                             : "shared memory",
        .level = level,
        .bytes_per_s = figure(m, large, bytes / exec_samples_median(large) * 1e12,
                              "bus bandwidth of the largest all-reduce"),
        .latency_ps = figure(m, small, exec_samples_median(small) / steps,
                             "smallest all-reduce over its ring steps"),
        .n_links = stated(1, c->o->loop   ? "streams of one device"
                             : on_gpus(c) ? "all links of a GPU together"
                                          : "threads of one process"),
    };
}

static bool has_samples(const struct exec_calibration *c, enum exec_series s)
{
    return exec_series_can(c, s) && c->comm[s][0].n > 0 && c->comm[s][c->n_sizes - 1].n > 0;
}

/* Of each level the all-reduce whose groups lie within a node, and of one rank of each node. */
static enum lw_status fill_link(struct making *m, struct lw_err *err)
{
    const struct exec_calibration *c = m->c;
    int32_t per_node = exec_calibrate_per_node(c);

    if (c->o->n_ranks == 1)
        return LW_OK;
    LW_TAKE(&m->out->arena, m->out->links, 2, err);
    for (int level = LW_LINK_INTRA; level <= LW_LINK_INTER; level++)
        for (int k = 0; k <= N_SHAPES; k++) {
            int s = k == 0 ? (int)SERIES_REDUCE_ALL
                           : N_SERIES + (k - 1) * N_COLLECTIVES + (int)SERIES_REDUCE_ALL;
            int32_t group = exec_series_group(c, (enum exec_series)s);
            int32_t nodes = exec_series_nodes(c, (enum exec_series)s);
            bool fits = level == LW_LINK_INTRA ? nodes == 1 && group == per_node
                                               : nodes > 1 && nodes == group;
            if (!fits || !has_samples(c, (enum exec_series)s))
                continue;
            add_link(m, (enum lw_link_level)level, (enum exec_series)s);
            break;
        }
    return LW_OK;
}

static void fill_device(struct making *m)
{
    struct exec_calibration *c = m->c;
    struct lw_device *d = &m->out->device;
    double flop = c->unit_flops, copy = exec_samples_median(&c->copy_rate);
    char text[320];

    d->kind = keep(m, c->device);
    int at = snprintf(text, sizeof text, "%s with every rank computing", c->name);
    if (c->unit_alone.n > 0)
        snprintf(text + at, sizeof text - (size_t)at, " (%.1f Gflop/s of one rank alone)",
                 flop / exec_samples_median(&c->unit_alone));
    d->peak_flops[LW_F32] =
        figure(m, &c->unit_all, flop / exec_samples_median(&c->unit_all) * 1e9, text);
    d->gemm_efficiency = stated(1, "the rate above is that of real GEMMs");
    d->copy_bytes_per_s = figure(m, &c->copy_rate, copy,
                                 "copies into and out of buckets on all ranks at once");
    d->memory_bytes_per_s = figure(m, &c->copy_rate, 2 * copy, "read and write of those copies");
    m->out->host_bytes_per_s = figure(m, &c->copy_rate, 2 * copy * exec_calibrate_per_node(c),
                                      "read and write of those copies, all ranks of a node");
    d->launch_ps = figure(m, &c->launch, exec_samples_median(&c->launch),
                          "from an empty op to the next");
    if (c->probe.n > 0) {
        snprintf(text, sizeof text, "%.250s, all ranks at once, between plans", c->name);
        d->probe_ps = figure(m, &c->probe, floor(exec_samples_median(&c->probe)), text);
    }
    d->memory_bytes =
        on_gpus(c) ? stated(floor(c->memory_bytes), "the device's")
                   : stated(floor(c->memory_bytes / exec_calibrate_per_node(c)),
                            "physical memory over the ranks");
}

static void fill_interference(struct making *m)
{
    struct exec_calibration *c = m->c;
    struct lw_interference *i = &m->out->interference;

    if (c->o->n_ranks == 1)
        return;
    i->compute_rate_under_comm =
        figure(m, &c->compute_rate, clamped(exec_samples_median(&c->compute_rate)),
               "a kernel beside all-reduces against the same kernel alone");
    i->comm_rate_under_compute =
        figure(m, &c->comm_rate, clamped(exec_samples_median(&c->comm_rate)),
               "all-reduces of 1 to 16 MiB beside a kernel against alone");
    i->comm_on_compute_core = c->comm_on_compute_core
                                  ? stated(1, "pinned to the rank's compute core")
                                  : stated(0, "a stream of its own");
}

static enum lw_status fill_pairs(struct making *m, struct lw_err *err)
{
    enum { MOST = LW_N_ACTIVITIES * LW_N_ACTIVITIES };

    LW_TAKE(&m->out->arena, m->out->pairs, MOST, err);
    for (int i = 0; i < MOST; i++) {
        enum lw_activity of = (enum lw_activity)(i / LW_N_ACTIVITIES);
        enum lw_activity beside = (enum lw_activity)(i % LW_N_ACTIVITIES);
        struct exec_samples *s = &m->c->pair[of][beside];
        if (s->n == 0)
            continue;
        struct lw_figure f = figure(m, s, clamped(exec_samples_median(s)), "while both ran");
        m->out->pairs[m->out->n_pairs++] = (struct lw_pair_rate){of, beside, f.value, f.source};
    }
    return LW_OK;
}

static double sigma(struct exec_samples *s)
{
    return exec_samples_spread(s) / 1.349 / exec_samples_median(s);
}

static void fill_noise(struct making *m)
{
    struct exec_calibration *c = m->c;
    double comm_sigma = 0;

    m->out->noise.compute_sigma = figure(m, &c->kernel, sigma(&c->kernel), "kernels of 1 ms");
    for (int32_t i = c->n_small; c->o->n_ranks > 1 && i < c->n_sizes; i++)
        comm_sigma += sigma(&c->comm[SERIES_REDUCE_ALL][i]) / (c->n_sizes - c->n_small);
    if (c->o->n_ranks > 1 && c->n_sizes > c->n_small)
        m->out->noise.comm_sigma = figure(m, &c->comm[SERIES_REDUCE_ALL][c->n_sizes - 1],
                                          comm_sigma, "mean over the all-reduces above 4 MiB");
}

/* How many rates of pairs have samples, all of which hardly overlap. */
static int32_t n_without_rate(const struct exec_calibration *c)
{
    int32_t n = 0;

    for (int of = 0; of < LW_N_ACTIVITIES; of++)
        for (int beside = 0; beside < LW_N_ACTIVITIES; beside++)
            n += c->n_apart[of][beside] > 0 && c->pair[of][beside].n == 0;
    return n;
}

enum lw_status exec_calibrate_cluster(struct exec_calibration *c, struct lw_cluster *out,
                                      struct lw_err *err)
{
    struct making m = {c, out, false};
    char text[320], paced[96] = "", left_out[80] = "";
    int32_t without = n_without_rate(c);

    if (without > 0)
        snprintf(left_out, sizeof left_out, ", rates of pairs left out for too little overlap: %d",
                 without);
    if (c->o->link_bytes_per_s > 0)
        snprintf(paced, sizeof paced, ", links paced to %.4g MB/s and %.4g us",
                 c->o->link_bytes_per_s / 1e6, (double)c->o->link_latency_ns / 1e3);
    out->name = *paced ? "calibrated host, paced" : "calibrated host";
    out->devices_per_node = exec_calibrate_per_node(c);
    out->n_nodes = c->o->n_ranks / out->devices_per_node;
    snprintf(text, sizeof text, "lapwing %s%s", c->o->backend->name, c->o->loop ? ", loop" : "");
    out->library = keep(&m, text);
    out->library_version = LW_VERSION;
    out->calibrated = true;
    LW_TRY(fill_tables(&m, err));
    LW_TRY(fill_link(&m, err));
    fill_device(&m);
    fill_interference(&m);
    LW_TRY(fill_pairs(&m, err));
    fill_noise(&m);
    snprintf(text, sizeof text,
             "this machine, measured by lapwing calibrate: backend %s, %d ranks, %s%s%s",
             c->o->backend->name, c->o->n_ranks,
             c->o->loop   ? "all of them streams of one device (emulated)"
             : on_gpus(c) ? "a process and a GPU per rank"
                          : "a compute and a communication thread per rank on one core",
             paced, left_out);
    out->about = keep(&m, text);
    return m.no_memory ? lw_fail_nomem(err) : lw_cluster_check(out, err);
}

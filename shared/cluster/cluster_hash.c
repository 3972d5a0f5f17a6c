/* Which machines a prediction was made for: a hash over the contents of a cluster, in a fixed
 * order. A new calibration is another cluster. */
#include "shared/cluster/cluster.h"

#include <string.h>

#include "shared/base/hash.h"
#include "shared/cluster/measured.h"

static void feed_text(struct lw_hash *h, const char *s)
{
    lw_hash_string(h, s ? s : "");
}

static void feed_double(struct lw_hash *h, double v)
{
    int64_t bits;
    memcpy(&bits, &v, sizeof bits);
    lw_hash_int(h, bits);
}

static void feed_figure(struct lw_hash *h, struct lw_figure f)
{
    feed_double(h, f.source ? f.value : 0);
    feed_text(h, f.source);
}

static void feed_figures(struct lw_hash *h, const struct lw_figure *const *f, size_t n)
{
    for (size_t i = 0; i < n; i++)
        feed_figure(h, *f[i]);
}

/* Only what is set, so that a cluster without these figures keeps its hash. */
static void feed_set(struct lw_hash *h, const struct lw_nccl_facts *n,
                     const struct lw_interference *x, const struct lw_interference *p)
{
    const struct lw_figure all[] = {n->compute_capability, n->multicast, n->amd_host, n->arm_host,
                                    n->collnet, n->net_latency_ps, n->post_ps,
                                    p->compute_rate_under_comm, p->comm_rate_under_compute,
                                    p->comm_sms, p->memory_bytes_per_comm_byte, p->fair_links,
                                    x->sms_per_channel, p->sms_per_channel, n->ll128,
                                    n->devices_per_host, n->adapter_bytes_per_s,
                                    n->port2_bytes_per_s, n->port4_bytes_per_s,
                                    n->port8_bytes_per_s};

    for (int i = 0; i < (int)(sizeof all / sizeof *all); i++)
        if (lw_figure_is_set(all[i])) {
            lw_hash_int(h, i);
            feed_figure(h, all[i]);
        }
    const char *const lists[] = {n->algo, n->proto};
    for (int i = 0; i < 2; i++)
        if (lists[i] && *lists[i]) {
            lw_hash_int(h, 100 + i);
            feed_text(h, lists[i]);
        }
}

/* Only where there are any, so that the hashes of machines without them stay. */
static void feed_shapes(struct lw_hash *h, const struct lw_device *d)
{
    const struct lw_figure *const all[] = {
        &d->gemm_sustained, &d->gemm_boost, &d->gemm_fill, &d->gemm_tile, &d->fp8_speedup,
        &d->attention_forward, &d->attention_backward,
    };
    bool any = false;

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        any = any || lw_figure_is_set(*all[i]);
    if (any)
        feed_figures(h, all, sizeof all / sizeof all[0]);
}

/* Where it is stated. */
static void feed_stated(struct lw_hash *h, const char *name, struct lw_figure f)
{
    if (lw_figure_is_set(f)) {
        feed_text(h, name);
        feed_figure(h, f);
    }
}

static void feed_machine(struct lw_hash *h, const struct lw_cluster *c)
{
    const struct lw_device *d = &c->device;
    const struct lw_interference *x = &c->interference;
    const struct lw_figure *const all[] = {
        &d->gemm_efficiency, &d->memory_bytes, &d->memory_bytes_per_s, &d->copy_bytes_per_s,
        &d->n_sms, &d->launch_ps, &x->compute_rate_under_comm, &x->comm_rate_under_compute,
        &x->comm_sms, &x->memory_bytes_per_comm_byte, &x->comm_on_compute_core, &x->comm_workers,
        &x->fair_links,
        &c->noise.compute_sigma, &c->noise.comm_sigma, &c->host_bytes_per_s,
        &c->host.n_numa, &c->host.piece_bytes,
    };

    feed_text(h, d->kind);
    for (int t = 0; t < LW_N_DTYPES; t++)
        feed_figure(h, d->peak_flops[t]);
    feed_figures(h, all, sizeof all / sizeof all[0]);
    feed_shapes(h, d);
    feed_stated(h, "fp4_speedup", d->fp4_speedup);
    feed_stated(h, "tf32_peak_flops", d->tf32_peak_flops);
    feed_stated(h, "sm_flops_per_clock", d->sm_flops_per_clock);
    feed_stated(h, "sm_exponentials_per_clock", d->sm_exponentials_per_clock);
    feed_stated(h, "shared_link", x->shared_link);
    feed_stated(h, "framework", d->framework_bytes);
    feed_stated(h, "memory_sustained", d->memory_sustained);
    feed_stated(h, "host_link", d->host_link_bytes_per_s);
    feed_stated(h, "probe", d->probe_ps);
    feed_stated(h, "host_op_scale", d->host_op_scale);
    feed_stated(h, "pageable", d->pageable_bytes_per_s);
    feed_stated(h, "host_core", d->host_core_bytes_per_s);
    feed_stated(h, "gemm_odd", d->gemm_odd);
    feed_stated(h, "device_spread", c->noise.device_spread);
}

static void feed_table(struct lw_hash *h, const struct lw_cost_table *t)
{
    lw_hash_int(h, t->op);
    lw_hash_int(h, t->dtype);
    lw_hash_int(h, t->n_ranks);
    lw_hash_int(h, t->n_nodes);
    lw_hash_int(h, t->n_in_flight);
    lw_hash_int(h, t->n_rows);
    for (int32_t i = 0; i < t->n_rows; i++) {
        lw_hash_int(h, t->bytes[i]);
        lw_hash_int(h, t->time_ps[i]);
        lw_hash_int(h, t->cpu_ps ? t->cpu_ps[i] : -1);
    }
}

static void feed_work(struct lw_hash *h, const struct lw_work_table *t)
{
    lw_hash_int(h, t->kind);
    lw_hash_int(h, t->dtype);
    lw_hash_int(h, t->from);
    lw_hash_int(h, t->n_rows);
    for (int32_t i = 0; i < t->n_rows; i++) {
        lw_hash_int(h, t->size[i]);
        lw_hash_int(h, t->time_ps[i]);
    }
}

enum lw_status lw_cluster_hash(const struct lw_cluster *c, char hex[33], struct lw_err *err)
{
    struct lw_hash *h = lw_hash_new();

    if (!h)
        return lw_fail_nomem(err);
    feed_text(h, c->name);
    lw_hash_int(h, c->n_nodes);
    lw_hash_int(h, c->devices_per_node);
    if (c->spread_evenly) /* only where it is set, so that other clusters keep their hashes */
        feed_text(h, "spread_evenly");
    if (!lw_figure_is_set(c->interference.sms_per_channel)) /* NCCL's own, which no file has */
        feed_stated(h, "channels", lw_cluster_sms_per_channel(c));
    feed_machine(h, c);
    for (int32_t i = 0; i < c->device.n_work; i++)
        feed_work(h, &c->device.work[i]);
    lw_hash_int(h, c->n_links);
    for (int32_t i = 0; i < c->n_links; i++) {
        const struct lw_link *l = &c->links[i];
        const struct lw_figure *const all[] = {&l->bytes_per_s, &l->latency_ps, &l->n_links,
                                               &l->n_sharers};
        feed_text(h, l->name);
        lw_hash_int(h, l->level);
        feed_figures(h, all, 4);
        feed_stated(h, "pair_links", l->pair_links);
        feed_stated(h, "quad_links", l->quad_links);
    }
    lw_hash_int(h, c->n_tables);
    for (int32_t i = 0; i < c->n_tables; i++)
        feed_table(h, &c->tables[i]);
    lw_hash_int(h, c->n_exceptions);
    for (int32_t i = 0; i < c->n_exceptions; i++) {
        lw_hash_int(h, c->exceptions[i].rank);
        lw_hash_int(h, c->exceptions[i].rank_to);
        feed_double(h, c->exceptions[i].speed);
        lw_hash_int(h, c->exceptions[i].late_ps);
    }
    feed_text(h, c->library);
    feed_text(h, c->library_version);
    for (int32_t i = 0; i < c->n_algorithms; i++)
        feed_text(h, c->algorithms[i]);
    for (int32_t i = 0; i < c->n_pairs; i++) {
        lw_hash_int(h, c->pairs[i].op * LW_N_ACTIVITIES + c->pairs[i].beside);
        feed_double(h, c->pairs[i].rate);
    }
    feed_set(h, &c->nccl, &c->interference, &c->published);
    lw_hash_finish(h, hex);
    return LW_OK;
}

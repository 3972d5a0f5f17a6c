/* The cluster: release, lookup, and its check. One table lists the figures with unit and range, for
 * the check and for whoever shows them; a figure without a source is unset and not looked at. */
#include "shared/cluster/cluster.h"

#include "shared/base/arena.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/cluster/cluster_figures.h"
#include "shared/cluster/measured.h"
#include "shared/numbers/checked.h"
#include "shared/numbers/order.h"
#include "shared/plan/op.h"
#include "shared/strategy/reducer_kind.h"

enum range { POSITIVE, SHARE, PART, COUNT, TILE, WHOLE_PS, SIGMA, FLAG, CAPABILITY };

struct row {
    const char *name, *unit;
    size_t at;
    enum range range;
};

#define AT(field) offsetof(struct lw_cluster, field)
#define DEVICE(m, unit, range) {"device." #m, unit, AT(device.m), range},
#define DEVICE_TIME(m) {"device." #m "_ns", "ps", AT(device.m##_ps), WHOLE_PS},
#define HOST(m, unit, range) {"host." #m, unit, AT(host.m), range},
#define NCCL(m, unit, range) {"nccl." #m, unit, AT(nccl.m), range},
#define NCCL_TIME(m) {"nccl." #m "_ns", "ps", AT(nccl.m##_ps), WHOLE_PS},
#define INTERFERENCE(m, unit, range) {"interference." #m, unit, AT(interference.m), range},
#define PUBLISHED(m, unit, range) {"published_interference." #m, unit, AT(published.m), range},
#define NOISE(m, unit, range) {"noise." #m, unit, AT(noise.m), range},
static const struct row cluster_rows[] = {
    {"device.peak_flops.f32", "flop/s", AT(device.peak_flops[LW_F32]), POSITIVE},
    {"device.peak_flops.f64", "flop/s", AT(device.peak_flops[LW_F64]), POSITIVE},
    {"device.peak_flops.f16", "flop/s", AT(device.peak_flops[LW_F16]), POSITIVE},
    {"device.peak_flops.bf16", "flop/s", AT(device.peak_flops[LW_BF16]), POSITIVE},
    {"device.peak_flops.i64", "op/s", AT(device.peak_flops[LW_I64]), POSITIVE},
    {"device.peak_flops.i32", "op/s", AT(device.peak_flops[LW_I32]), POSITIVE},
    {"device.peak_flops.u8", "op/s", AT(device.peak_flops[LW_U8]), POSITIVE},
    LW_DEVICE_FIGURES(DEVICE, DEVICE_TIME)
    {"price_per_device_hour", "", AT(price_per_device_hour), POSITIVE},
    {"host_bytes_per_s", "B/s", AT(host_bytes_per_s), POSITIVE},
    LW_HOST_FIGURES(HOST)
    LW_NCCL_FIGURES(NCCL, NCCL_TIME)
    LW_INTERFERENCE_FIGURES(INTERFERENCE)
    LW_PUBLISHED_FIGURES(PUBLISHED)
    LW_NOISE_FIGURES(NOISE)
};
#undef AT

#define LINK(m, unit, range) {#m, unit, offsetof(struct lw_link, m), range},
#define LINK_TIME(m) {#m "_ns", "ps", offsetof(struct lw_link, m##_ps), WHOLE_PS},
static const struct row link_rows[] = {LW_LINK_FIGURES(LINK, LINK_TIME)};

enum {
    N_CLUSTER_ROWS = sizeof cluster_rows / sizeof *cluster_rows,
    N_LINK_ROWS = sizeof link_rows / sizeof *link_rows,
};

bool lw_cluster_is_recorded(const char *name)
{
    size_t n = strlen(LW_RECORDED_CLUSTER);

    return strncmp(name, LW_RECORDED_CLUSTER, n) == 0 && (name[n] == 0 || name[n] == ' ');
}

bool lw_figure_is_set(struct lw_figure f)
{
    return f.source != NULL;
}

int64_t lw_device_framework_bytes(const struct lw_device *d)
{
    if (lw_figure_is_set(d->framework_bytes))
        return (int64_t)d->framework_bytes.value;
    return lw_figure_is_set(d->n_sms) ? (int64_t)LW_FRAMEWORK_MIB << 20 : 0;
}

int64_t lw_device_missing_bytes(const struct lw_device *d, int64_t needed)
{
    if (needed < 0 || !lw_figure_is_set(d->memory_bytes))
        return -1;
    return (double)needed > d->memory_bytes.value ? needed - (int64_t)d->memory_bytes.value : 0;
}

bool lw_device_is_close(const struct lw_device *d, int64_t needed)
{
    double off = 100 * ((double)needed - d->memory_bytes.value);

    return needed >= 0 && lw_figure_is_set(d->memory_bytes) &&
           fabs(off) <= LW_MEMORY_ERROR_PCT * d->memory_bytes.value;
}

enum lw_activity lw_activity_of(enum lw_op_kind op)
{
    if (op == LW_OP_RECV)
        op = LW_OP_SEND;
    if (op >= LW_OP_ALL_REDUCE && op <= LW_OP_SEND)
        return (enum lw_activity)(LW_ACTIVITY_COMM + (int)op - LW_OP_ALL_REDUCE);
    return lw_op_class(op) == LW_CLASS_COMPUTE || lw_op_class(op) == LW_CLASS_COPY
               ? LW_ACTIVITY_COMPUTE
               : LW_N_ACTIVITIES;
}

const char *lw_activity_word(int activity)
{
    if (activity == LW_ACTIVITY_COMPUTE)
        return "compute";
    return activity < LW_N_ACTIVITIES
               ? lw_op_name((enum lw_op_kind)(LW_OP_ALL_REDUCE + activity - LW_ACTIVITY_COMM))
               : NULL;
}

LW_FREE_BY_ARENA(lw_cluster_free, struct lw_cluster)

static bool take(struct lw_figure *to, struct lw_figure from)
{
    if (!lw_figure_is_set(from))
        return false;
    if (!lw_figure_is_set(*to))
        *to = from;
    return true;
}

enum lw_status lw_cluster_use_published(struct lw_cluster *c, struct lw_err *err)
{
    struct lw_interference *x = &c->interference;
    const struct lw_interference *p = &c->published;
    const struct lw_interference before = *x;
    int n = 0;

#define TAKE(m, unit, range) n += take(&x->m, p->m);
    LW_PUBLISHED_FIGURES(TAKE)
    if (n == 0)
        return lw_fail(err, LW_ENOTSUP, "cluster '%s' has no published interference terms: give it "
                                        "\"interference\" of your own, or leave them off", c->name);
    if (!c->uses_published)
        c->unpublished = before;
    c->uses_published = true;
    return LW_OK;
}

/* How much compute loses beside communication. */
static bool states_loss_of_compute(const struct lw_cluster *c)
{
    const struct lw_interference *x = &c->interference;
    bool stated = lw_figure_is_set(x->compute_rate_under_comm) || lw_figure_is_set(x->comm_sms) ||
                  lw_figure_is_set(x->comm_on_compute_core);

    for (int32_t i = 0; i < c->n_pairs; i++)
        stated |= c->pairs[i].op == LW_ACTIVITY_COMPUTE;
    return stated;
}

struct lw_figure lw_cluster_sms_per_channel(const struct lw_cluster *c)
{
    static const struct lw_figure unset, block = {
        1, "NVIDIA/nccl v2.30.7, src/enqueue.cc: a kernel has one thread block for each channel; a "
           "block takes an SM (NVIDIA/nccl issue 689)"};

    if (lw_figure_is_set(c->interference.sms_per_channel))
        return c->interference.sms_per_channel;
    return c->own_terms_only || c->calibrated || states_loss_of_compute(c) ||
                   !lw_figure_is_set(c->nccl.compute_capability) ||
                   !lw_figure_is_set(c->device.n_sms)
               ? unset
               : block;
}

const struct lw_link *lw_cluster_link(const struct lw_cluster *c, enum lw_link_level level)
{
    for (int32_t i = 0; i < c->n_links; i++)
        if (c->links[i].level == level)
            return &c->links[i];
    return NULL;
}

void lw_cluster_place(struct lw_cluster *c, int64_t n_ranks)
{
    int64_t room = c->devices_per_node, nodes = room > 0 ? (n_ranks + room - 1) / room : 0;

    while (nodes < n_ranks && n_ranks % nodes != 0)
        nodes++;
    if (!c->spread_evenly || nodes <= 0)
        return;
    c->unplaced = c->unplaced ? c->unplaced : c->devices_per_node;
    c->devices_per_node = (int32_t)(n_ranks / nodes);
}

enum lw_status lw_cluster_state_network(struct lw_cluster *c, double gbps, struct lw_err *err)
{
    double rate = gbps * 1e9 / 8, all = 0;

    for (int32_t i = 0; i < c->n_links; i++)
        if (c->links[i].level == LW_LINK_INTER)
            all += c->links[i].bytes_per_s.value * c->links[i].n_links.value;
    if (!(gbps > 0 && gbps < 1e9))
        return lw_fail(err, LW_EINVAL, "found %g, allowed: a rate above 0, in Gb/s", gbps);
    if (all <= 0)
        return lw_fail(err, LW_EINVAL, "cluster '%s' has no network between nodes", c->name);
    for (int32_t i = 0; i < c->n_links; i++)
        if (c->links[i].level == LW_LINK_INTER)
            c->links[i].bytes_per_s = (struct lw_figure){
                c->links[i].bytes_per_s.value * rate / all, "as stated: --node-gbps"};
    return LW_OK;
}

enum lw_status lw_cluster_state_spread(struct lw_cluster *c, const char *word, struct lw_err *err)
{
    char *end;
    double share = strtod(word, &end);

    if (strcmp(word, "off") == 0) {
        c->noise.device_spread = (struct lw_figure){.source = NULL};
        return LW_OK;
    }
    if (end == word || *end || !(share >= 0 && share <= 1))
        return lw_fail(err, LW_EINVAL, "found '%s', expected off or a share from 0 to 1", word);
    c->noise.device_spread = (struct lw_figure){share, "as stated: --device-spread"};
    return LW_OK;
}

static const struct row *row_of(const struct lw_cluster *c, int k, struct lw_cluster_figure *out)
{
    if (k < N_CLUSTER_ROWS) {
        const struct row *r = &cluster_rows[k];
        snprintf(out->name, sizeof out->name, "%s", r->name);
        memcpy(&out->figure, (const char *)c + r->at, sizeof out->figure);
        out->unit = r->unit;
        return r;
    }
    int link = (k - N_CLUSTER_ROWS) / N_LINK_ROWS;
    if (link >= c->n_links)
        return NULL;
    const struct row *r = &link_rows[(k - N_CLUSTER_ROWS) % N_LINK_ROWS];
    snprintf(out->name, sizeof out->name, "links[%d].%s", link, r->name);
    memcpy(&out->figure, (const char *)&c->links[link] + r->at, sizeof out->figure);
    out->unit = r->unit;
    return r;
}

bool lw_cluster_figure(const struct lw_cluster *c, int k, struct lw_cluster_figure *out)
{
    return row_of(c, k, out) != NULL;
}

/* --- check ------------------------------------------------------------------------------------ */

static const struct {
    double least, most;
    bool beyond, whole; /* more than `least`; whole numbers alone */
    const char *allowed;
} ranges[] = {
    [POSITIVE] = {1e-12, 1e300, .allowed = "more than 0, and no less than 1e-12"},
    [SHARE] = {0, 1, .beyond = true, .allowed = "more than 0 and at most 1"},
    [PART] = {0, 1, .allowed = "0 to 1"},
    [COUNT] = {1, 9.2e18, .whole = true, .allowed = "a whole number of at least 1"},
    [TILE] = {1, 65536, .whole = true, .allowed = "a whole number from 1 to 65536"},
    [WHOLE_PS] = {0, (double)LW_PS_PER_S, .whole = true,
                  .allowed = "whole picoseconds, at most 10^12 (1 s)"},
    [SIGMA] = {0, 1e300, .allowed = "0 or more"},
    [FLAG] = {0, 1, .whole = true, .allowed = "0 or 1"},
    [CAPABILITY] = {50, 199, .whole = true, .allowed = "50 (5.0) to 199 (19.9), as 90 of an H100"},
};

static bool holds(enum range r, double v)
{
    return v >= ranges[r].least && v <= ranges[r].most &&
           !(ranges[r].beyond && v == ranges[r].least) && (!ranges[r].whole || v == floor(v));
}

static enum lw_status check_figures(const struct lw_cluster *c, struct lw_err *err)
{
    struct lw_cluster_figure f;
    const struct row *r;

    for (int k = 0; (r = row_of(c, k, &f)); k++)
        if (lw_figure_is_set(f.figure) && !holds(r->range, f.figure.value))
            return lw_fail(err, LW_EFORMAT, "at %s.value: found %g%s%s, allowed: %s", f.name,
                           f.figure.value, *f.unit ? " " : "", f.unit, ranges[r->range].allowed);
    if (lw_figure_is_set(c->device.probe_ps) && c->device.probe_ps.value < 1)
        return lw_fail(err, LW_EFORMAT, "at device.probe_ns.value: found 0, allowed: more than 0");
    return LW_OK;
}

static bool is_communication(enum lw_op_kind op)
{
    enum lw_op_class k = lw_op_class(op);
    return k == LW_CLASS_COLLECTIVE || k == LW_CLASS_P2P;
}

struct rows { /* of a measured table, wherever it stands */
    const char *table, *size_name;
    int32_t i, n;
    const int64_t *size;
    const lw_ps *time, *spread;
};

static enum lw_status check_rows(const struct rows *t, struct lw_err *err)
{
    for (int32_t r = 0; r < t->n; r++) {
        if (t->size[r] < 0 || (r > 0 && t->size[r] <= t->size[r - 1]))
            return lw_fail(err, LW_EFORMAT,
                           "at %s[%d].rows[%d].%s: found %" PRId64 ", allowed: more than the row "
                           "before", t->table, t->i, r, t->size_name, t->size[r]);
        if (t->time[r] < 0 || (t->spread && t->spread[r] < -1))
            return lw_fail(err, LW_EFORMAT, "at %s[%d].rows[%d]: found a negative time", t->table,
                           t->i, r);
    }
    return LW_OK;
}

static enum lw_status check_table(const struct lw_cost_table *t, int32_t i, struct lw_err *err)
{
    struct rows rows = {"tables", "bytes", i, t->n_rows, t->bytes, t->time_ps, t->spread_ps};

    if (!is_communication(t->op))
        return lw_fail(err, LW_EFORMAT, "at tables[%d].op: found %s, allowed: communication only",
                       i, lw_op_name(t->op));
    if (t->n_nodes < 1 || t->n_ranks < t->n_nodes)
        return lw_fail(
            err, LW_EFORMAT,
            "at tables[%d]: found %d ranks on %d nodes, allowed: at least 1 rank on each "
            "of at least 1 node",
            i, t->n_ranks, t->n_nodes);
    if (t->n_in_flight < 1 || t->n_rows < 1)
        return lw_fail(err, LW_EFORMAT,
                       "at tables[%d]: found %d in flight and %d rows, allowed: at "
                       "least 1 of each",
                       i, t->n_in_flight, t->n_rows);
    LW_TRY(check_rows(&rows, err));
    for (int32_t r = 0; r < t->n_rows; r++)
        if (t->cpu_ps && t->cpu_ps[r] < 0)
            return lw_fail(err, LW_EFORMAT,
                           "at tables[%d].rows[%d].cpu_ns: found none, or one below 0, allowed: a "
                           "CPU time in every row of the table, or in none",
                           i, r);
    return LW_OK;
}

static enum lw_status check_work(const struct lw_work_table *t, int32_t i, struct lw_err *err)
{
    struct rows rows = {"device.work", "size", i, t->n_rows, t->size, t->time_ps, t->spread_ps};

    if (t->n_rows < 1)
        return lw_fail(err, LW_EFORMAT,
                       "at device.work[%d].rows: found none, allowed: at least one", i);
    return check_rows(&rows, err);
}

static enum lw_status check_pair(const struct lw_cluster *c, int32_t i, struct lw_err *err)
{
    const struct lw_pair_rate *p = &c->pairs[i];

    if (p->op == p->beside)
        return lw_fail(err, LW_EFORMAT, "at pairs[%d].beside: found %s beside itself, allowed: "
                                        "another activity (tables with n_in_flight 2 hold for two "
                                        "of one kind)", i, lw_activity_word((int)p->op));
    if (!holds(SHARE, p->rate))
        return lw_fail(err, LW_EFORMAT, "at pairs[%d].rate: found %g, allowed: %s (1: as fast as "
                                        "alone)", i, p->rate, ranges[SHARE].allowed);
    for (int32_t k = 0; k < i; k++)
        if (c->pairs[k].op == p->op && c->pairs[k].beside == p->beside)
            return lw_fail(err, LW_EFORMAT, "at pairs[%d]: found %s beside %s again, allowed: once "
                                            "(pairs[%d] has it)", i,
                           lw_activity_word((int)p->op), lw_activity_word((int)p->beside), k);
    return LW_OK;
}

static enum lw_status check_exception(const struct lw_exception *x, int32_t i, struct lw_err *err)
{
    if (x->rank < 0 || x->rank_to < -1 || x->rank_to == x->rank)
        return lw_fail(
            err, LW_EFORMAT,
            "at exceptions[%d]: found rank %d to %d, allowed: a rank alone, or to another", i,
            x->rank, x->rank_to);
    if (!holds(POSITIVE, x->speed))
        return lw_fail(err, LW_EFORMAT, "at exceptions[%d].speed: found %g, allowed: more than 0",
                       i, x->speed);
    if (x->late_ps < 0)
        return lw_fail(err, LW_EFORMAT,
                       "at exceptions[%d].late_ns: found %" PRId64 " ps, allowed: 0 or more", i,
                       x->late_ps);
    return LW_OK;
}

/* A path between two devices has one link: a second of its level would contradict the first. */
static enum lw_status check_link(const struct lw_cluster *c, int32_t i, struct lw_err *err)
{
    const struct lw_link *l = &c->links[i];
    if ((unsigned)l->level >= LW_N_LINK_LEVELS)
        return lw_fail(err, LW_EFORMAT, "at links[%d].level: found %d, allowed: 0 to %d", i,
                       (int)l->level, LW_N_LINK_LEVELS - 1);
    for (int32_t before = 0; before < i; before++)
        if (c->links[before].level == l->level)
            return lw_fail(err, LW_EFORMAT,
                           "at links[%d].level: found the level of links[%d] again, allowed: one "
                           "link of each level",
                           i, before);
    if (lw_figure_is_set(l->n_sharers) && l->n_sharers.value > c->devices_per_node)
        return lw_fail(err, LW_EFORMAT,
                       "at links[%d].n_sharers.value: found %g, allowed: at most "
                       "devices_per_node, %d",
                       i, l->n_sharers.value, c->devices_per_node);
    if (lw_figure_is_set(l->n_sharers) && fmod(c->devices_per_node, l->n_sharers.value) != 0)
        return lw_fail(err, LW_EFORMAT,
                       "at links[%d].n_sharers.value: found %g, allowed: a divisor of "
                       "devices_per_node, %d",
                       i, l->n_sharers.value, c->devices_per_node);
    if (l->level == LW_LINK_INTER && lw_figure_is_set(l->n_sharers) &&
        lw_figure_is_set(l->n_links) && l->n_links.value * l->n_sharers.value < c->devices_per_node)
        return lw_fail(err, LW_EFORMAT,
                       "at links[%d]: found %g links of %g devices each, allowed: links for all "
                       "%d devices of a node (n_links x n_sharers)",
                       i, l->n_links.value, l->n_sharers.value, c->devices_per_node);
    return LW_OK;
}

static bool is_one(struct lw_figure f)
{
    return lw_figure_is_set(f) && f.value == 1;
}

static bool begins_as_version(const char *text)
{
    size_t major = strspn(text, "0123456789");

    return major > 0 && text[major] == '.' && strspn(text + major + 1, "0123456789") > 0;
}

static enum lw_status check_nccl_lists(const struct lw_nccl_facts *f, struct lw_err *err)
{
    uint8_t left[LW_N_NCCL_FUNCTIONS];

    for (int i = 0; i < 2; i++) {
        const char *text = i ? f->proto : f->algo;
        if (text && !lw_nccl_lists(text, i, left))
            return lw_fail(err, LW_EFORMAT,
                           "at nccl.%s: found \"%s\", allowed: what NCCL_%s takes: a list of %s "
                           "('^' before it: all but these), then lists of one function each, as "
                           "\"%s\"",
                           i ? "proto" : "algo", text, i ? "PROTO" : "ALGO",
                           i ? "ll, ll128, simple"
                             : "tree, ring, collnetdirect, collnetchain, nvls, nvlstree, pat",
                           i ? "^ll128;allreduce:ll,simple" : "ring;allreduce:tree,ring");
    }
    return LW_OK;
}

/* Rates of PCIe ports: all three or none, and none where NVLinks join the devices. */
static enum lw_status check_ports(const struct lw_cluster *c, struct lw_err *err)
{
    const struct lw_link *intra = lw_cluster_link(c, LW_LINK_INTRA);
    const struct lw_nccl_facts *f = &c->nccl;
    int n = lw_figure_is_set(f->port2_bytes_per_s) + lw_figure_is_set(f->port4_bytes_per_s) +
            lw_figure_is_set(f->port8_bytes_per_s);

    if (n != 0 && n != 3)
        return lw_fail(err, LW_EFORMAT,
                       "at nccl: found %d of port2_bytes_per_s, port4_bytes_per_s and "
                       "port8_bytes_per_s, allowed: all three or none", n);
    if (n == 3 && intra && strncmp(intra->name, "NVLink", 6) == 0)
        return lw_fail(err, LW_EFORMAT,
                       "at nccl.port2_bytes_per_s: found with the intra link '%s', allowed: with "
                       "links of PCIe", intra->name);
    return LW_OK;
}

/* NVLink SHARP: NVSwitch of the third generation, which Hopper has first. */
static enum lw_status check_nccl(const struct lw_cluster *c, struct lw_err *err)
{
    const struct lw_link *intra = lw_cluster_link(c, LW_LINK_INTRA);
    const struct lw_figure capability = c->nccl.compute_capability;

    if (c->library && strcmp(c->library, "nccl") == 0 && c->library_version &&
        *c->library_version && !begins_as_version(c->library_version))
        return lw_fail(err, LW_EFORMAT,
                       "at library_version: found '%s', allowed: a version of NCCL, as 2.28.9",
                       c->library_version);
    if (is_one(c->nccl.amd_host) && is_one(c->nccl.arm_host))
        return lw_fail(err, LW_EFORMAT,
                       "at nccl: found amd_host and arm_host, allowed: one of them (amd_host is an "
                       "x86 of AMD)");
    LW_TRY(check_ports(c, err));
    if (lw_figure_is_set(c->nccl.devices_per_host) &&
        fmod(c->devices_per_node, c->nccl.devices_per_host.value) != 0)
        return lw_fail(err, LW_EFORMAT,
                       "at nccl.devices_per_host.value: found %g, allowed: a divisor of "
                       "devices_per_node, %d",
                       c->nccl.devices_per_host.value, c->devices_per_node);
    LW_TRY(check_nccl_lists(&c->nccl, err));
    if (!is_one(c->nccl.multicast))
        return LW_OK;
    if (intra && strncmp(intra->name, "NVLink", 6) != 0)
        return lw_fail(err, LW_EFORMAT,
                       "at nccl.multicast: found 1 with the intra-node link '%s', allowed: 1 with "
                       "NVLink alone",
                       intra->name);
    if (lw_figure_is_set(capability) && capability.value < 90)
        return lw_fail(err, LW_EFORMAT,
                       "at nccl.multicast: found 1 with compute_capability %g, allowed: 1 from 90 "
                       "on",
                       capability.value);
    return LW_OK;
}

static enum lw_status check_algorithm(const char *name, int32_t i, struct lw_err *err)
{
    char allowed[160] = "";

    for (int k = 0; k < LW_REDUCER_NCCL; k++) {
        const char *word = lw_reducer_name((enum lw_reducer_kind)k);
        if (!(lw_reducer_is((enum lw_reducer_kind)k) & LW_REDUCER_ALGORITHM))
            continue;
        if (strcmp(name, word) == 0)
            return LW_OK;
        lw_err_word(allowed, sizeof allowed, word);
    }
    return lw_fail(err, LW_EFORMAT, "at algorithms[%d]: found \"%s\", allowed: %s", i, name,
                   allowed);
}

enum lw_status lw_cluster_check(const struct lw_cluster *c, struct lw_err *err)
{
    if (c->n_nodes < 0 || c->devices_per_node < 1)
        return lw_fail(err, LW_EFORMAT,
                       "at n_nodes, devices_per_node: found %d and %d, allowed: 0 (as many as "
                       "needed) or more nodes of at least 1 device",
                       c->n_nodes, c->devices_per_node);
    if ((int64_t)c->n_nodes * c->devices_per_node > INT32_MAX)
        return lw_fail(err, LW_EFORMAT,
                       "at n_nodes: found %d nodes of %d devices, allowed: below "
                       "2^31 devices",
                       c->n_nodes, c->devices_per_node);
    LW_TRY(check_figures(c, err));
    for (int32_t i = 0; i < c->n_algorithms; i++)
        LW_TRY(check_algorithm(c->algorithms[i], i, err));
    for (int32_t i = 0; i < c->n_links; i++)
        LW_TRY(check_link(c, i, err));
    LW_TRY(check_nccl(c, err));
    for (int32_t i = 0; i < c->device.n_work; i++)
        LW_TRY(check_work(&c->device.work[i], i, err));
    for (int32_t i = 0; i < c->n_tables; i++) {
        const struct lw_cost_table *t = &c->tables[i];
        LW_TRY(check_table(t, i, err));
        if (t->n_ranks > (int64_t)t->n_nodes * c->devices_per_node)
            return lw_fail(err, LW_EFORMAT,
                           "at tables[%d]: found %d ranks on %d nodes, allowed: at most "
                           "devices_per_node, %d, on each",
                           i, t->n_ranks, t->n_nodes, c->devices_per_node);
    }
    for (int32_t i = 0; i < c->n_pairs; i++)
        LW_TRY(check_pair(c, i, err));
    for (int32_t i = 0; i < c->n_exceptions; i++)
        LW_TRY(check_exception(&c->exceptions[i], i, err));
    return LW_OK;
}

/* Links that several communications use at once. A port is one direction of a device's link inside
 * its node (or of the one that it shares with its neighbours there: what stays among them does not
 * use it), or of an adapter of a node and the devices that use it. A communication that moves data
 * alone puts so many bytes per second on each of its ports: the bytes that cross it over the time
 * that it takes alone. Whatever moves at once gets its part by progressive filling: all grow alike
 * until a port is full or one has all it wants; those are done, the others go on (Bertsekas and
 * Gallager, Data Networks, section 6.5.2). What a communication gets over what it wants is its
 * rate. Rates are found again in every instant in which one begins or ends.
 *
 * A member of a collective sends, and receives, 2 (n-1) C in an all-reduce, (n-1) C in a
 * reduce-scatter, all-gather or all-to-all, B in a broadcast or reduce (C: the largest of n
 * parts of B). Members that share a link, and those of a node, stand together in its order, so
 * that as much leaves them as one of them sends; over the adapters of a node in equal parts of
 * its members. Of an all-to-all each member sends there what goes to the members after. Not
 * modelled: switches inside the network, messages at chunk detail. */
#include "sim/engine/engine.h"

#include <math.h>

#include "shared/base/arena.h"
#include "shared/cluster/link_peak.h"

enum direction { OUT, IN, N_DIRECTIONS };

struct use {
    int32_t port;
    double bytes_per_s; /* of its flow, alone */
};

struct flow {
    int32_t what;       /* group, or ~message */
    int32_t first_use, n_uses;
    double wants;       /* bytes per second of one member, alone */
    double gets;        /* < 0: not known yet */
};

struct sim_net {
    int32_t per_node, n_nodes; /* devices; nodes of the plan */
    int32_t inside_ports, adapters; /* of a node; 0 inside_ports: no such link */
    int32_t n_ports;           /* in one direction */
    double inside_bytes_per_s, adapter_bytes_per_s;
    double *left, *weight;     /* [N_DIRECTIONS * n_ports] */
    int32_t *members_on;       /* [n_nodes]: of the current group; zero between uses */
    int32_t *members_at;       /* [n_ports]: the same by port */
    struct flow *flows;
    int64_t n_flows, flows_capacity;
    struct use *uses;
    int64_t n_uses, uses_capacity;
    bool changed;
};

static int32_t inside_port(const struct sim_net *n, int32_t rank, enum direction d)
{
    int32_t device = rank % n->per_node;

    return (int32_t)d * n->n_ports + rank / n->per_node * n->inside_ports +
           (int32_t)((int64_t)device * n->inside_ports / n->per_node);
}

static int32_t adapter(const struct sim_net *n, int32_t rank, enum direction d)
{
    int32_t device = rank % n->per_node;

    return (int32_t)d * n->n_ports + n->n_nodes * n->inside_ports +
           rank / n->per_node * n->adapters +
           (int32_t)((int64_t)device * n->adapters / n->per_node);
}

static double capacity(const struct sim_net *n, int32_t port)
{
    return port % n->n_ports < n->n_nodes * n->inside_ports ? n->inside_bytes_per_s
                                                            : n->adapter_bytes_per_s;
}

/* --- the links of the cluster --- */

static bool has_rate(const struct lw_link *l)
{
    return l && lw_figure_is_set(l->bytes_per_s);
}

enum lw_status sim_net_prepare(struct sim_engine *e)
{
    const struct lw_cluster *c = e->cluster;
    const struct lw_link *inside = lw_cluster_link(c, LW_LINK_INTRA);
    const struct lw_link *inter = lw_cluster_link(c, LW_LINK_INTER);
    struct sim_net *n;

    LW_TAKE(&e->arena, n, 1, e->err);
    *n = (struct sim_net){.per_node = c->devices_per_node, .adapters = lw_adapters(c)};
    n->n_nodes = (e->given->n_ranks - 1) / n->per_node + 1;
    if (has_rate(inside)) {
        double sharers = lw_figure_is_set(inside->n_sharers) ? inside->n_sharers.value : 1;
        n->inside_ports = (int32_t)ceil(n->per_node / sharers);
        n->inside_bytes_per_s = lw_link_bytes_per_s(inside);
    }
    if (has_rate(inter))
        n->adapter_bytes_per_s = lw_link_bytes_per_s(inter) / n->adapters;
    int64_t ports = (int64_t)n->n_nodes * (n->inside_ports + n->adapters);
    if (ports > INT32_MAX / N_DIRECTIONS)
        return lw_fail(e->err, LW_ENOTSUP, "fair_links: %lld links are more than 2^30",
                       (long long)ports);
    n->n_ports = (int32_t)ports;
    LW_TAKE(&e->arena, n->left, N_DIRECTIONS * ports, e->err);
    LW_TAKE(&e->arena, n->weight, N_DIRECTIONS * ports, e->err);
    LW_TAKE(&e->arena, n->members_on, n->n_nodes, e->err);
    LW_TAKE(&e->arena, n->members_at, ports, e->err);
    e->net = n;
    return LW_OK;
}

void sim_net_free(struct sim_engine *e)
{
    if (!e->net)
        return;
    lw_free(e->net->flows);
    lw_free(e->net->uses);
}

/* --- what moves --- */

static int32_t *flow_of(struct sim_engine *e, int32_t what)
{
    return what >= 0 ? &e->groups[what].flow : &e->messages[~what].flow;
}

enum lw_status sim_net_add(struct sim_engine *e, int32_t what)
{
    struct sim_net *n = e->net;

    LW_ROOM(n->flows, n->flows_capacity, n->n_flows + 1, e->err);
    *flow_of(e, what) = (int32_t)n->n_flows;
    n->flows[n->n_flows++] = (struct flow){.what = what};
    n->changed = true;
    return LW_OK;
}

void sim_net_remove(struct sim_engine *e, int32_t what)
{
    struct sim_net *n = e->net;
    int32_t *at = flow_of(e, what);

    if (*at < 0)
        return;
    n->flows[*at] = n->flows[--n->n_flows];
    *flow_of(e, n->flows[*at].what) = *at;
    *at = -1;
    n->changed = true;
}

/* --- what it uses --- */

static enum lw_status use(struct sim_engine *e, struct flow *f, int32_t port, double bytes_per_s)
{
    struct sim_net *n = e->net;

    if (capacity(n, port) <= 0 || bytes_per_s <= 0)
        return LW_OK;
    LW_ROOM(n->uses, n->uses_capacity, n->n_uses + 1, e->err);
    n->uses[n->n_uses++] = (struct use){port, bytes_per_s};
    f->n_uses++;
    return LW_OK;
}

static double member_bytes(const struct lw_cost_query *q)
{
    double part = (double)sim_chunk_bytes(q->bytes, q->dtype, q->n_ranks);

    switch (q->op) {
    case LW_OP_ALL_REDUCE:
        return 2 * (q->n_ranks - 1.0) * part;
    case LW_OP_REDUCE_SCATTER:
    case LW_OP_ALL_GATHER:
    case LW_OP_ALL_TO_ALL:
        return (q->n_ranks - 1.0) * part;
    case LW_OP_BROADCAST:
    case LW_OP_REDUCE:
        return (double)q->bytes;
    default:
        return 0;
    }
}

static enum lw_status use_by_member(struct sim_engine *e, struct flow *f,
                                    const struct sim_group *g, int32_t rank)
{
    struct sim_net *n = e->net;
    int32_t here = n->members_on[rank / n->per_node];
    int32_t beside = n->inside_ports > 0 ? n->members_at[inside_port(n, rank, OUT)] : here;
    bool exchange = g->query.op == LW_OP_ALL_TO_ALL;
    double inside = f->wants / beside, between = f->wants / here;

    if (exchange) {
        between = f->wants * (g->n - here) / (g->n - 1.0);
        inside = f->wants * (here - beside) / (g->n - 1.0);
    }
    for (int d = OUT; d <= IN; d++) {
        if (beside < here)
            LW_TRY(use(e, f, inside_port(n, rank, (enum direction)d), inside));
        if (here < g->n)
            LW_TRY(use(e, f, adapter(n, rank, (enum direction)d), between));
    }
    return LW_OK;
}

static enum lw_status use_by_group(struct sim_engine *e, struct flow *f)
{
    const struct sim_group *g = &e->groups[f->what];
    const int32_t *ranks = sim_given_members(e, f->what);
    struct sim_net *n = e->net;
    enum lw_status status = LW_OK;

    f->wants = member_bytes(&g->query) / ((double)g->time / (double)LW_PS_PER_S);
    for (int32_t i = 0; i < g->n; i++) {
        n->members_on[ranks[i] / n->per_node]++;
        n->members_at[inside_port(n, ranks[i], OUT)]++;
    }
    for (int32_t i = 0; status == LW_OK && i < g->n; i++)
        status = use_by_member(e, f, g, ranks[i]);
    for (int32_t i = 0; i < g->n; i++) {
        n->members_on[ranks[i] / n->per_node] = 0;
        n->members_at[inside_port(n, ranks[i], OUT)] = 0;
    }
    return status;
}

static enum lw_status use_by_message(struct sim_engine *e, struct flow *f)
{
    const struct sim_message *x = &e->messages[~f->what];
    const struct sim_net *n = e->net;
    int32_t from = x->given[0], to = x->given[1];
    bool inside = from / n->per_node == to / n->per_node;

    f->wants = x->wire_bytes_per_s;
    if (inside && inside_port(n, from, OUT) == inside_port(n, to, OUT))
        return LW_OK; /* beside each other, or no figures */
    LW_TRY(use(e, f, inside ? inside_port(n, from, OUT) : adapter(n, from, OUT), f->wants));
    return use(e, f, inside ? inside_port(n, to, IN) : adapter(n, to, IN), f->wants);
}

/* Measured times may be faster than the links' figures: alone, nothing puts more on a port than
 * fits. */
static void clip(struct sim_net *n, const struct flow *f)
{
    struct use *u = n->uses + f->first_use;

    for (int32_t i = 0; i < f->n_uses; i++)
        n->weight[u[i].port] = 0;
    for (int32_t i = 0; i < f->n_uses; i++)
        n->weight[u[i].port] += u[i].bytes_per_s;
    for (int32_t i = 0; i < f->n_uses; i++)
        if (n->weight[u[i].port] > capacity(n, u[i].port))
            u[i].bytes_per_s *= capacity(n, u[i].port) / n->weight[u[i].port];
}

static enum lw_status collect_uses(struct sim_engine *e)
{
    struct sim_net *n = e->net;

    n->n_uses = 0;
    for (int64_t i = 0; i < n->n_flows; i++) {
        struct flow *f = &n->flows[i];
        *f = (struct flow){.what = f->what, .first_use = (int32_t)n->n_uses, .gets = -1};
        LW_TRY(f->what >= 0 ? use_by_group(e, f) : use_by_message(e, f));
        if (n->n_uses > INT32_MAX / 2)
            return lw_fail(e->err, LW_ENOTSUP, "fair_links: more than 2^30 uses of links at once");
        clip(n, f);
        if (f->n_uses == 0 || f->wants <= 0)
            f->gets = f->wants = 1;
    }
    return LW_OK;
}

/* --- sharing --- */

/* What is left of each port, and how fast those that still grow fill it. */
static void weigh(struct sim_net *n)
{
    for (int64_t i = 0; i < n->n_uses; i++) {
        n->left[n->uses[i].port] = capacity(n, n->uses[i].port);
        n->weight[n->uses[i].port] = 0;
    }
    for (int64_t i = 0; i < n->n_flows; i++) {
        const struct flow *f = &n->flows[i];
        for (int32_t k = f->first_use; k < f->first_use + f->n_uses; k++) {
            double each = n->uses[k].bytes_per_s / f->wants;
            if (f->gets < 0)
                n->weight[n->uses[k].port] += each;
            else
                n->left[n->uses[k].port] -= each * f->gets;
        }
    }
}

static double level_of(const struct sim_net *n, int32_t port)
{
    double left = n->left[port] > 0 ? n->left[port] : 0;

    return n->weight[port] > 0 ? left / n->weight[port] : HUGE_VAL;
}

/* One round of filling; false when all have what they get. */
static bool fill(struct sim_net *n)
{
    double full = HUGE_VAL, least = HUGE_VAL;
    const double slack = 1 + 1e-12;

    weigh(n);
    for (int64_t i = 0; i < n->n_flows; i++) {
        const struct flow *f = &n->flows[i];
        if (f->gets >= 0)
            continue;
        least = f->wants < least ? f->wants : least;
        for (int32_t k = f->first_use; k < f->first_use + f->n_uses; k++)
            if (level_of(n, n->uses[k].port) < full)
                full = level_of(n, n->uses[k].port);
    }
    if (least == HUGE_VAL)
        return false;
    for (int64_t i = 0; i < n->n_flows; i++) {
        struct flow *f = &n->flows[i];
        if (f->gets >= 0)
            continue;
        if (least <= full * slack) {
            if (f->wants <= full * slack)
                f->gets = f->wants;
            continue;
        }
        for (int32_t k = f->first_use; f->gets < 0 && k < f->first_use + f->n_uses; k++)
            if (level_of(n, n->uses[k].port) <= full * slack)
                f->gets = full;
    }
    return true;
}

static void give(struct sim_engine *e, const struct flow *f)
{
    int64_t rate = f->gets >= f->wants ? SIM_FULL_RATE : sim_rate_of(f->gets / f->wants);

    if (f->what >= 0) {
        struct sim_group *g = &e->groups[f->what];
        if (g->fair_rate != rate)
            sim_group_changed(e, f->what);
        g->fair_rate = rate;
        return;
    }
    struct sim_message *x = &e->messages[~f->what];
    if (x->fair_rate != rate)
        sim_rank_changed(e, x->rank[0]);
    x->fair_rate = rate;
}

enum lw_status sim_net_settle(struct sim_engine *e)
{
    struct sim_net *n = e->net;

    if (!n || !n->changed)
        return LW_OK;
    n->changed = false;
    LW_TRY(collect_uses(e));
    while (fill(n))
        continue;
    for (int64_t i = 0; i < n->n_flows; i++)
        give(e, &n->flows[i]);
    return LW_OK;
}

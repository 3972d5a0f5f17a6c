/* What collectives of the host share: the link, and where computing threads fill the machine's
 * cores, the cores.
 *
 * Of k collectives (gloo) of a rank that move data at once each gets 1 / k of its link. They run on
 * threads of their rank, which at the full rate of the link want the share v of a core: the time
 * that the processor needs for a byte (read, sent, received, added) over the time that the link
 * needs. Each of k wants v / k. Where no core is free for them the computing core is split max-min
 * fairly: compute keeps 1 - v, or 1 / (k + 1) where that is more; a collective then gets no more
 * than 1 / (k + 1) of the core. A collective moves data from the entry of its last member on, at
 * the rate of its slowest member.
 *
 * The recorded times hold this slowdown. What an op would have taken alone is the integral of its
 * rate over its recorded time; the engine, given these times and the same v (shared_link,
 * comm_on_compute_core), slows them again. */
#include "shared/base/sort.h"
#include "traces/replay/replay_state.h"
#include "shared/numbers/order.h"

#include <stdlib.h>

/* Processor time of gloo's all-reduce over TCP. Measured at 4 to 64 MiB on four networks: 0.6 to
 * 1.1 (docs/design/replay_model.md). */
static const double CPU_NS_PER_BYTE = 1;

static double least(double a, double b)
{
    return a < b ? a : b;
}

static double compute_rate(double want, int64_t k)
{
    return 1 - least(want, (double)k / (double)(k + 1));
}

static double comm_rate(double want, int64_t k, bool computing)
{
    double link = 1.0 / (double)k;

    return computing && want > 0 ? least(link, 1 / ((double)(k + 1) * want)) : link;
}

/* ---- when collectives move ---- */

/* Of a collective, in the times of its rank's trace. Where each blocks its thread it ends with the
 * first member: what another took longer to run again is that rank's own (replay_lag_ns). */
static void moving(const struct replay_maker *m, const struct replay_rank *r, int64_t row,
                   int64_t *from, int64_t *to)
{
    const struct traces_comm_item *item = &r->comms.items[r->comm_of[row] - 1];
    const struct traces_comm_class *c = &m->cross.classes[item->class];

    *from = item->start_ns;
    *to = item->start_ns + item->dur_ns;
    if (!c->matched)
        return;
    *from = c->ops[item->k].last_start_ns + m->ranks[0].t->base_ns - r->t->base_ns + r->clock_ns;
    *to = *from + c->ops[item->k].last_start_to_last_end_ns;
    if (r->p.blocks && c->ops[item->k].end_skew_ns < *to - *from)
        *to -= c->ops[item->k].end_skew_ns;
}

int64_t replay_lag_ns(const struct replay_maker *m, const struct replay_rank *r, int64_t row)
{
    const struct traces_comm_item *item = &r->comms.items[r->comm_of[row] - 1];
    int64_t from, to;

    if (!r->p.blocks || !m->cross.classes[item->class].matched)
        return 0;
    moving(m, r, row, &from, &to);
    int64_t lag = item->start_ns + item->dur_ns - to;
    return lag > 0 ? lag : 0;
}

LW_COMPARATOR(by_time, struct replay_edge, a->ns, b->ns)

static enum lw_status find_edges(struct replay_maker *m, struct replay_rank *r)
{
    LW_TAKE(m->arena, r->edges, 2 * r->p.n_comms, m->err);
    for (int64_t i = 0; i < r->p.n_comms; i++) {
        int64_t from, to;
        moving(m, r, r->p.comms[i].row, &from, &to);
        if (to > from) {
            r->edges[r->n_edges++] = (struct replay_edge){from, 1};
            r->edges[r->n_edges++] = (struct replay_edge){to, -1};
        }
    }
    lw_sort(r->edges, r->n_edges, by_time);
    for (int64_t i = 1; i < r->n_edges; i++)
        r->edges[i].moving += r->edges[i - 1].moving;
    return LW_OK;
}

/* Collectives that move at ns, and when that changes next. */
static int64_t moving_at(const struct replay_rank *r, int64_t ns, int64_t *until)
{
    int64_t n = lw_items_upto(r->edges, r->n_edges, sizeof *r->edges, ns);

    *until = n < r->n_edges ? r->edges[n].ns : INT64_MAX;
    return n > 0 ? r->edges[n - 1].moving : 0;
}

/* ---- times alone ---- */

int64_t replay_compute_alone(const struct replay_maker *m, const struct replay_rank *r,
                             const struct replay_host *h, int64_t from, int64_t to)
{
    double sum = 0;

    if (m->core_want <= 0)
        return traces_host_busy_ns(&h->busy, from, to);
    while (from < to) {
        int64_t until, k = moving_at(r, from, &until);
        until = until < to ? until : to;
        sum += (double)traces_host_busy_ns(&h->busy, from, until) * compute_rate(m->core_want, k);
        from = until;
    }
    return (int64_t)(sum + 0.5);
}

/* Whether any thread of the rank computes at ns, and when that changes next. */
static bool computing_at(const struct replay_rank *r, int64_t ns, int64_t *until)
{
    bool computing = false;

    *until = INT64_MAX;
    for (int32_t i = 0; i < r->n_hosts; i++) {
        int64_t change;
        computing |= traces_host_busy_at(&r->hosts[i].busy, ns, &change);
        *until = change < *until ? change : *until;
    }
    return computing;
}

/* The rate of a collective at ns of rank r there, and until when. */
static double rate_at(const struct replay_maker *m, const struct replay_rank *r, int64_t ns,
                      int64_t *until)
{
    int64_t change, k = moving_at(r, ns, until);
    bool computing = computing_at(r, ns, &change);

    *until = change < *until ? change : *until;
    return comm_rate(m->core_want, k > 0 ? k : 1, computing);
}

static int64_t integrate(const struct replay_maker *m, const struct replay_rank *r, bool matched,
                         int64_t from, int64_t to)
{
    double sum = 0;

    while (from < to) {
        double slowest = 1;
        int64_t next = to;
        for (int32_t k = 0; k < m->n; k++) {
            const struct replay_rank *x = &m->ranks[k];
            int64_t until, shift = r->t->base_ns - r->clock_ns - x->t->base_ns + x->clock_ns;
            if (x != r && !matched)
                continue;
            slowest = least(slowest, rate_at(m, x, from + shift, &until));
            if (until != INT64_MAX && until - shift < next)
                next = until - shift;
        }
        sum += (double)(next - from) * slowest;
        from = next;
    }
    return (int64_t)(sum + 0.5);
}

int64_t replay_comm_alone(const struct replay_maker *m, const struct replay_rank *r, int64_t row)
{
    const struct traces_comm_item *item = &r->comms.items[r->comm_of[row] - 1];
    const struct traces_comm_class *c = &m->cross.classes[item->class];
    int64_t from, to;

    if (!lw_trace_on_host(r->t, row))
        return c->matched ? c->ops[item->k].transfer_ns : item->dur_ns;
    moving(m, r, row, &from, &to);
    return integrate(m, r, c->matched, from, to);
}

/* ---- whether they share ---- */

/* Bytes of all collectives of the host, and the time that they would have taken alone. */
static void sum_comms(const struct replay_maker *m, double *bytes, double *ns)
{
    *bytes = *ns = 0;
    for (int32_t k = 0; k < m->n; k++) {
        const struct replay_rank *r = &m->ranks[k];
        for (int64_t i = 0; i < r->p.n_comms; i++) {
            int64_t row = r->p.comms[i].row;
            const struct traces_comm_fact *f = &r->comms.items[r->comm_of[row] - 1].fact;
            *bytes += f->bytes > 0 ? (double)f->bytes : 0;
            *ns += f->bytes > 0 ? (double)replay_comm_alone(m, r, row) : 0;
        }
    }
}

/* A collective that wants less than half of the core is not slowed beside compute, so its recorded
 * time is that of the link. Otherwise recorded times cannot separate link and core: the processor
 * is taken to bound it. */
static void find_want(struct replay_maker *m)
{
    double bytes, ns;

    m->core_want = 1;
    sum_comms(m, &bytes, &ns);
    if (ns > 0 && CPU_NS_PER_BYTE * bytes / ns < 0.5)
        m->core_want = CPU_NS_PER_BYTE * bytes / ns;
}

/* No core is left for the collectives: processes compute on all cores that they have, unless a
 * sidecar counts more cores than computing threads. */
static bool fills_cores(const struct traces_source *s)
{
    const struct traces_sidecar *c = &s->sidecar;

    return !s->has_sidecar || c->n_cores <= 0 ||
           (int64_t)c->n_threads * c->world_size >= c->n_cores;
}

enum lw_status replay_share_cores(struct replay_maker *m)
{
    bool shares = true;

    for (int32_t k = 0; k < m->n; k++) {
        shares = shares && m->ranks[k].p.n_comms > 0 && m->ranks[k].p.launches.n == 0 &&
                 fills_cores(m->ranks[k].s);
        LW_TRY(find_edges(m, &m->ranks[k]));
    }
    if (shares)
        find_want(m);
    return LW_OK;
}

/* Shared cores.
 *
 * A collective of the host (gloo) runs on threads of its rank. Where the ranks' computing threads
 * fill the machine's cores, it takes part of theirs: each of k collectives that move data wants the
 * share v of the core, compute wants all of it, and the core is split max-min fairly. With compute
 * the level is 1 / (k + 1), without it 1 / k; who wants less than the level gets what it wants. A
 * collective moves data from the entry of its last member on, at the rate of its slowest member.
 *
 * The recorded times hold this slowdown. What an op would have taken alone is the integral of its
 * rate over its recorded time; the engine, given these times and the same v, slows them again. */
#include "traces/replay/replay_state.h"
#include "shared/numbers/order.h"

#include <stdlib.h>

static const double WANT = 1; /* v: assumed, docs/design/replay_accuracy.md compares others */

static double least(double a, double b)
{
    return a < b ? a : b;
}

static double compute_rate(double want, int64_t k)
{
    double level = 1.0 / (double)(k + 1);

    return want <= level ? 1 - (double)k * want : level;
}

static double comm_rate(double want, int64_t k, bool computing)
{
    double level = 1.0 / (double)(k + computing);

    return least(1, level / want);
}

/* ---- when collectives move ---- */

/* Of a collective, in the times of its rank's trace. */
static void moving(const struct replay_maker *m, const struct replay_rank *r, int64_t row,
                   int64_t *from, int64_t *to)
{
    const struct traces_comm_item *item = &r->comms.items[r->comm_of[row] - 1];
    const struct traces_comm_class *c = &m->cross.classes[item->class];

    *from = item->start_ns;
    *to = item->start_ns + item->dur_ns;
    if (!c->matched)
        return;
    *from = c->ops[item->k].last_start_ns + m->ranks[0].t->base_ns - r->t->base_ns;
    *to = *from + c->ops[item->k].last_start_to_last_end_ns;
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
    qsort(r->edges, (size_t)r->n_edges, sizeof *r->edges, by_time);
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
            int64_t until, shift = r->t->base_ns - x->t->base_ns;
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
    return m->core_want > 0 ? integrate(m, r, c->matched, from, to) : to - from;
}

/* ---- whether they share ---- */

enum lw_status replay_share_cores(struct replay_maker *m)
{
    bool shares = true;

    for (int32_t k = 0; k < m->n; k++) {
        const struct traces_sidecar *s = &m->ranks[k].s->sidecar;
        shares = shares && m->ranks[k].s->has_sidecar && m->ranks[k].p.n_comms > 0 &&
                 m->ranks[k].p.launches.n == 0 && s->n_cores > 0 &&
                 (int64_t)s->n_threads * s->world_size >= s->n_cores;
    }
    m->core_want = shares ? WANT : 0;
    for (int32_t k = 0; shares && k < m->n; k++)
        LW_TRY(find_edges(m, &m->ranks[k]));
    return LW_OK;
}

/* Rates on one device: interference.
 *
 * Each term is off unless the cluster gives it. A measured rate is used as it is, and
 * then replaces what the mechanisms below would say about the same op:
 *   core share  communication runs on the compute core and wants a share v of it: the figure of the
 *               cluster, or CPU time over time at the rate the link gives, where a table tells the
 *               CPU time. The core is split max-min fairly between the compute thread (which wants
 *               all of it) and the communications: each gets s = min(v, level) and runs at s/v;
 *               compute gets the rest. k of equal v: level = 1/(k+1) beside compute, else 1/k.
 *   SM share    a collective holds comm_sms of n_sms from its local entry on, moving or waiting; or
 *               sms_per_channel for each channel, where the cost model tells channels.
 *   memory      a collective moves memory_bytes_per_comm_byte for each of its bytes through the
 *               device's memory, a copy reads and writes its bytes, a compute op moves those its
 *               work says. Each takes its bytes over its time of the bandwidth; where that is more
 *               than all, it is split max-min fairly, and who gets s of the v it wants runs at s/v.
 *               What the core and the SMs leave an op is what it wants memory for.
 * A measured rate of a pair (compute beside one kind of communication, or a kind beside compute or
 * another kind) wins over the general one. Beside several others the lowest rate counts; beside
 * compute and other communication at once the product of both.
 * Not modelled: compute beside compute on other streams, but for memory. */
#include "sim/timing/device.h"

#include "shared/cluster/measured.h"
#include "shared/plan/op.h"
#include "sim/timing/sim_options.h"

static const double LARGEST_RATE = 9e18; /* of a share that no device has */

int64_t sim_rate_of(double share)
{
    double r = share * (double)SIM_FULL_RATE + 0.5;

    return r < 1 ? 1 : r < LARGEST_RATE ? (int64_t)r : (int64_t)LARGEST_RATE;
}

int64_t sim_rate_product(int64_t a, int64_t b)
{
    if (b == SIM_FULL_RATE)
        return a;
    int64_t r = (int64_t)(((__int128)a * b + SIM_FULL_RATE / 2) / SIM_FULL_RATE);
    return r < 1 ? 1 : r;
}

/* 0: not given. */
static double part_of_sms(const struct lw_cluster *c, struct lw_figure sms)
{
    bool known = lw_figure_is_set(sms) && sms.value > 0 && lw_figure_is_set(c->device.n_sms) &&
                 c->device.n_sms.value > 0;

    return known ? sms.value / c->device.n_sms.value : 0;
}

static int64_t rate_if_set(struct lw_figure f)
{
    return lw_figure_is_set(f) && f.value > 0 ? sim_rate_of(f.value) : 0;
}

struct sim_terms sim_terms_of(const struct lw_cluster *c)
{
    struct sim_terms t = {
        .compute_under_comm = rate_if_set(c->interference.compute_rate_under_comm),
        .comm_under_compute = rate_if_set(c->interference.comm_rate_under_compute),
        .core_share = rate_if_set(c->interference.comm_on_compute_core),
        .channel_sms = part_of_sms(c, lw_cluster_sms_per_channel(c)),
    };
    double sms = part_of_sms(c, c->interference.comm_sms);

    t.sm_share = sms > 0 ? sim_rate_of(sms) : 0;
    for (int32_t i = 0; i < c->n_tables; i++)
        t.in_flight |= c->tables[i].n_in_flight > 1;
    for (int32_t i = 0; i < c->n_tables; i++)
        t.cpu_times |= t.core_share > 0 && c->tables[i].cpu_ps != NULL;
    for (int32_t i = 0; i < c->n_pairs; i++) {
        const struct lw_pair_rate *p = &c->pairs[i];
        t.pair[p->op][p->beside] = sim_rate_of(p->rate);
        t.pairs = true;
    }
    t.memory = lw_figure_is_set(c->interference.memory_bytes_per_comm_byte) &&
               lw_figure_is_set(c->device.memory_bytes_per_s);
    t.fair_links = lw_figure_is_set(c->interference.fair_links) &&
                   c->interference.fair_links.value > 0;
    t.shared_link = lw_figure_is_set(c->interference.shared_link) &&
                    c->interference.shared_link.value > 0;
    t.cpu_times |= t.core_share > 0 && t.shared_link;
    bool others = t.memory || t.fair_links || t.compute_under_comm || t.comm_under_compute ||
                  t.core_share || t.sm_share || t.in_flight || t.pairs || t.shared_link;
    t.channels_alone = t.channel_sms > 0 && !others;
    t.dynamic = t.channel_sms > 0 || others;
    return t;
}

/* Raise the level to an equal part of what those who want no more leave, until no other is
 * satisfied by it: at most n + 1 rounds. */
struct sim_core sim_core_split(const int64_t *wants, int32_t n, int64_t more, int32_t n_more,
                               bool computing)
{
    struct sim_core core = {0, 0};
    int64_t before = -1;

    while (core.level != before) {
        int64_t left = SIM_FULL_RATE, n_open = computing;
        before = core.level;
        for (int32_t i = 0; i < n; i++) {
            left -= wants[i] <= before ? wants[i] : 0;
            n_open += wants[i] > before;
        }
        left -= more <= before ? n_more * more : 0;
        n_open += more <= before ? 0 : n_more;
        core.level = n_open > 0 ? left / n_open : SIM_FULL_RATE;
    }
    for (int32_t i = 0; i < n; i++)
        core.used += wants[i] < core.level ? wants[i] : core.level;
    core.used += n_more * (more < core.level ? more : core.level);
    return core;
}

static int64_t lower(int64_t a, int64_t b)
{
    return a == 0 || (b > 0 && b < a) ? b : a;
}

int64_t sim_compute_measured(const struct sim_terms *t, const int32_t *moving, int32_t n_moving)
{
    int64_t least = 0;

    if (!t->pairs)
        return n_moving > 0 ? t->compute_under_comm : 0;
    for (int k = LW_ACTIVITY_COMM; k < LW_N_ACTIVITIES; k++) {
        int64_t pair = t->pair[LW_ACTIVITY_COMPUTE][k];
        if (moving[k] > 0)
            least = lower(least, pair ? pair : t->compute_under_comm);
    }
    return least;
}

int64_t sim_comm_measured(const struct sim_terms *t, enum lw_op_kind op)
{
    enum lw_activity of = lw_activity_of(op);
    int64_t pair = of < LW_N_ACTIVITIES ? t->pair[of][LW_ACTIVITY_COMPUTE] : 0;

    return pair ? pair : t->comm_under_compute;
}

int64_t sim_pair_rate(const struct sim_terms *t, const int32_t *moving, enum lw_op_kind op)
{
    enum lw_activity of = lw_activity_of(op);
    int64_t least = 0;

    for (int k = LW_ACTIVITY_COMM; t->pairs && of < LW_N_ACTIVITIES && k < LW_N_ACTIVITIES; k++)
        if (moving[k] > 0)
            least = lower(least, t->pair[of][k]);
    return least ? least : SIM_FULL_RATE;
}

int64_t sim_compute_rate(const struct sim_terms *t, struct sim_core core, int32_t n_moving,
                         int32_t n_waiting, int64_t more_sms)
{
    int64_t rate = SIM_FULL_RATE;

    if (t->core_share && n_moving > 0)
        rate -= core.used;
    if (t->sm_share || more_sms) {
        int64_t left = SIM_FULL_RATE - ((int64_t)n_moving + n_waiting) * t->sm_share - more_sms;
        rate = sim_rate_product(rate, left > 1 ? left : 1);
    }
    return rate;
}

/* 0 where that takes no time. */
static int64_t memory_share(const struct lw_cluster *c, double bytes, lw_ps time)
{
    if (time <= 0)
        return 0;
    double share =
        bytes / ((double)time / (double)LW_PS_PER_S) / c->device.memory_bytes_per_s.value;
    return share < 1 ? (int64_t)(share * (double)SIM_FULL_RATE + 0.5) : SIM_FULL_RATE;
}

int64_t sim_memory_share(const struct lw_plan *plan, const struct lw_cluster *c,
                         const struct lw_op *op, int64_t bytes, lw_ps work)
{
    int64_t moved = op->work >= 0 ? lw_work_at(plan, op->work)->bytes : -1;

    if (moved < 0 && lw_op_class(op->kind) == LW_CLASS_COPY)
        moved = 2 * bytes;
    return moved > 0 ? memory_share(c, (double)moved, work) : 0;
}

int64_t sim_comm_memory_share(const struct lw_cluster *c, int64_t bytes, lw_ps time)
{
    return memory_share(c, (double)bytes * c->interference.memory_bytes_per_comm_byte.value, time);
}

int64_t sim_comm_rate(const struct sim_terms *t, enum lw_op_kind op, int64_t want,
                      struct sim_core core, bool computing)
{
    int64_t measured = sim_comm_measured(t, op);

    if (measured)
        return computing ? measured : SIM_FULL_RATE;
    if (t->core_share && want > core.level)
        return core.level * SIM_FULL_RATE / want;
    return SIM_FULL_RATE;
}

void sim_speeds(const struct lw_cluster *cluster, int32_t n, int64_t *speed, lw_ps *late)
{
    for (int32_t r = 0; r < n; r++) {
        speed[r] = SIM_FULL_RATE;
        late[r] = 0;
    }
    for (int32_t i = 0; i < cluster->n_exceptions; i++) {
        const struct lw_exception *x = &cluster->exceptions[i];
        if (x->rank < 0 || x->rank >= n || x->rank_to >= 0)
            continue;
        speed[x->rank] = sim_rate_product(speed[x->rank], sim_rate_of(x->speed));
        late[x->rank] += x->late_ps;
    }
}

int32_t sim_ranks_with_speeds(const struct lw_cluster *cluster, int32_t n)
{
    int32_t end = 0;

    for (int32_t i = 0; i < cluster->n_exceptions; i++) {
        const struct lw_exception *x = &cluster->exceptions[i];
        if (x->rank >= end && x->rank < n && x->rank_to < 0)
            end = x->rank + 1;
    }
    return end;
}

static double sigma(struct lw_figure f, const struct lw_sim_options *o)
{
    return !o->noise ? 0 : o->sigma > 0 ? o->sigma : lw_figure_is_set(f) ? f.value : 0;
}

double sim_compute_sigma(const struct lw_cluster *cluster, const struct lw_sim_options *o)
{
    return sigma(cluster->noise.compute_sigma, o);
}

double sim_comm_sigma(const struct lw_cluster *cluster, const struct lw_sim_options *o)
{
    return o->detail == LW_SIM_CHUNK ? 0 : sigma(cluster->noise.comm_sigma, o);
}

/* Curves of efficiency over size from measured tables.
 *
 * The axis is the share: bytes over ranks (sim_nccl_share). Links lose their rate when a message is
 * short, and 72 ranks cut 512 MiB into messages as short as 8 ranks cut 64 MiB.
 *
 * A table's ratios (measured over modelled) become logarithms at knots of powers of two, each the
 * mean of the table's rows weighted by a Gaussian of 2 octaves. The curve of a place at a knot is
 * the weighted median of the tables and of one vote for the model itself (ratio 1, weight 2.8): a
 * table of the place has weight 1, beyond its shares (two octaves below, six above) 0.05. Between
 * two votes the median is interpolated by weight. One table alone decides nothing: the factor is
 * 1. The vote for the model keeps a single odd table from deciding; the median keeps two from it.
 *
 * Width and weights were chosen by leaving each table out in turn. Arithmetic only: the same bits
 * everywhere. */
#include "sim/nccl/nccl_curves.h"

#include <math.h>

#include "shared/numbers/loglog.h"

#define WIDTH 2.0
#define OUTSIDE 0.05
#define MODEL 2.8
#define FEW 2
#define USUAL 0.2
#define P90 1.2815515655446004 /* of the normal distribution */

enum { MOST_VOTES = 64, BELOW = 2, ABOVE = 6 };

enum sim_nccl_place sim_nccl_place_of(const struct sim_nccl_comm *c)
{
    if (c->n_nodes > 1)
        return c->n_ranks == c->n_nodes ? SIM_NCCL_ACROSS_ONE : SIM_NCCL_ACROSS;
    return c->nvlink ? SIM_NCCL_ON_NVLINK : SIM_NCCL_ON_PCI;
}

struct vote {
    double value, weight;
};

/* The table's logarithm at a knot, and whether its shares reach there. */
static double value_at(const struct sim_nccl_measured *m, int knot, bool *inside)
{
    int first = m->first_knot, last = first + m->n_knots - 1;

    *inside = knot >= first - BELOW && knot <= last + ABOVE;
    return m->log_ratio[knot < first ? 0 : knot > last ? last - first : knot - first];
}

static void insert(struct vote *votes, int *n, struct vote v)
{
    int i = (*n)++;

    for (; i > 0 && votes[i - 1].value > v.value; i--)
        votes[i] = votes[i - 1];
    votes[i] = v;
}

/* Votes sit at the middle of their weights; the median is the value at half of all weight. */
static double median(const struct vote *v, int n)
{
    double all = 0, done = 0, at, before_at = 0;

    for (int i = 0; i < n; i++)
        all += v[i].weight;
    for (int i = 0; i < n; i++) {
        at = done + v[i].weight / 2;
        if (at >= all / 2)
            return i == 0 ? v[0].value
                          : v[i - 1].value + (v[i].value - v[i - 1].value) * (all / 2 - before_at) /
                                                 (at - before_at);
        before_at = at;
        done += v[i].weight;
    }
    return v[n - 1].value;
}

/* The finalizer of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014) over each number in turn. */
uint32_t sim_nccl_row_mark(enum lw_op_kind op, int32_t n_ranks, int32_t n_nodes, int64_t bytes,
                           int64_t time_ns)
{
    const int64_t all[] = {(int64_t)op, n_ranks, n_nodes, bytes, time_ns};
    uint64_t h = 0;

    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        h = (h ^ (uint64_t)all[i]) + UINT64_C(0x9e3779b97f4a7c15);
        h = (h ^ (h >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        h = (h ^ (h >> 27)) * UINT64_C(0x94d049bb133111eb);
        h ^= h >> 31;
    }
    return (uint32_t)(h >> 32);
}

int sim_nccl_same_table(const struct sim_nccl_measured *tables, int n, const uint32_t *marks,
                        int32_t n_marks)
{
    for (int i = 0; i < n; i++) {
        int32_t n_same = 0;
        for (int32_t k = 0; k < n_marks; k++)
            for (int32_t r = 0; r < tables[i].n_rows; r++)
                if (tables[i].marks[r] == marks[k]) {
                    n_same++;
                    break;
                }
        if (2 * n_same > n_marks)
            return i;
    }
    return -1;
}

double sim_nccl_share(enum lw_op_kind op, int64_t bytes, int32_t n_ranks)
{
    bool whole = op == LW_OP_SEND || op == LW_OP_RECV || n_ranks < 1;

    return (double)bytes / (whole ? 1 : n_ranks);
}

/* log2(share) - SIM_NCCL_FIRST_KNOT, straight between powers of two. */
static double knot_of(double share)
{
    int exponent;

    if (!(share > 0))
        return 0;
    double mantissa = frexp(share, &exponent); /* 0.5 <= mantissa < 1 */
    return exponent - 1 - SIM_NCCL_FIRST_KNOT + (2 * mantissa - 1);
}

/* The vote at a knot. */
static double factor_at(const struct sim_nccl_measured *tables, int n, int without,
                        enum sim_nccl_place place, int knot, int *n_used)
{
    struct vote votes[MOST_VOTES + 1];
    int n_votes = 0;

    for (int i = 0; i < n && n_votes < MOST_VOTES; i++) {
        const struct sim_nccl_measured *m = &tables[i];
        if (m->place != place || i == without)
            continue;
        bool inside;
        double value = value_at(m, knot, &inside);
        insert(votes, &n_votes, (struct vote){value, inside ? 1 : OUTSIDE});
    }
    *n_used = n_votes;
    if (n_votes < 2)
        return 1;
    insert(votes, &n_votes, (struct vote){0, MODEL});
    return lw_exp(median(votes, n_votes));
}

/* The knot below a share, and how far the share is from it to the next: 0 to 1. */
static int below(double share, double *part)
{
    double knot = knot_of(share), last = SIM_NCCL_N_KNOTS - 1;

    knot = knot < 0 ? 0 : knot > last ? last : knot;
    int k = knot < last ? (int)knot : SIM_NCCL_N_KNOTS - 2;
    *part = knot - k;
    return k;
}

double sim_nccl_factor(const struct sim_nccl_measured *tables, int n, int without,
                       const struct sim_nccl_spot *at, int *n_used)
{
    double part;
    int k = below(at->share, &part), n_next;
    double here = factor_at(tables, n, without, at->place, k, n_used);
    double next = factor_at(tables, n, without, at->place, k + 1, &n_next);

    *n_used = part > 0 && n_next > *n_used ? n_next : *n_used;
    return here + part * (next - here);
}

double sim_nccl_curve(const struct sim_nccl_spot *at)
{
    static _Thread_local double kept[SIM_N_NCCL_PLACES][SIM_NCCL_N_KNOTS]; /* 0: not yet */
    double part, *factor = kept[at->place];

    if (factor[0] == 0) {
        int n, n_used;
        const struct sim_nccl_measured *tables = sim_nccl_measured_rows(&n);
        for (int k = 0; k < SIM_NCCL_N_KNOTS; k++)
            factor[k] = factor_at(tables, n, -1, at->place, k, &n_used);
    }
    int k = below(at->share, &part);
    return factor[k] + part * (factor[k + 1] - factor[k]);
}

bool sim_nccl_has_curve(const struct sim_nccl_measured *tables, int n, int without,
                        enum sim_nccl_place place, enum sim_nccl_arch arch)
{
    int n_of_place = 0, n_of_arch = 0;

    for (int i = 0; i < n; i++) {
        bool counts = tables[i].place == place && i != without;
        n_of_place += counts;
        n_of_arch += counts && tables[i].arch == arch;
    }
    return n_of_place > 1 && n_of_arch > 0;
}

/* Around the curve at the nearest knot, with FEW tables' worth of USUAL spread before any; a next
 * fabric differs from the mean of n by sqrt(1 + 1/n) of it. */
double sim_nccl_spread(const struct sim_nccl_measured *tables, int n, int without,
                       const struct sim_nccl_spot *at, int *n_fabrics)
{
    double part, all = FEW * USUAL * USUAL;
    int k = below(at->share, &part), n_used, n_inside = 0;

    k += part >= .5;
    double middle = lw_log(factor_at(tables, n, without, at->place, k, &n_used));
    for (int i = 0; i < n; i++) {
        bool inside;
        double value = value_at(&tables[i], k, &inside);
        if (tables[i].place != at->place || i == without || !inside)
            continue;
        all += (value - middle) * (value - middle);
        n_inside++;
    }
    *n_fabrics = n_inside;
    return sqrt(all / (n_inside + FEW) * (1 + 1.0 / (n_inside + FEW)));
}

double sim_nccl_p90_over_p50(double spread)
{
    return lw_exp(P90 * spread);
}

enum lw_status sim_nccl_smooth(const double *share, const double *ratio, int n,
                               struct sim_nccl_measured *out, struct lw_err *err)
{
    int first = -1, last = -1;

    for (int i = 0; i < n; i++) {
        int k = (int)floor(knot_of(share[i]) + .5);
        if (k < 0 || k >= SIM_NCCL_N_KNOTS || !(ratio[i] > 0))
            continue;
        first = first < 0 || k < first ? k : first;
        last = k > last ? k : last;
    }
    if (first < 0)
        return lw_fail(err, LW_EINVAL,
                       "no row between 1/4 byte and 32 GiB a rank with a time above 0");
    out->first_knot = first;
    out->n_knots = last - first + 1;
    for (int k = first; k <= last; k++) {
        double sum = 0, all = 0;
        for (int i = 0; i < n; i++) {
            double apart = (knot_of(share[i]) - k) / WIDTH, w = lw_exp(-apart * apart / 2);
            if (!(ratio[i] > 0) || apart < -20 || apart > 20)
                continue;
            sum += w * lw_log(ratio[i]);
            all += w;
        }
        out->log_ratio[k - first] = sum / all;
    }
    return LW_OK;
}

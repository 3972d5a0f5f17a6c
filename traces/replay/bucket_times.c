/* What a bucket of another size would have taken.
 *
 * The recorded buckets of all steps give a line of time over bytes.
 *
 * Where the traces of the other ranks are not given, recorded times hold the waiting for them. Of
 * buckets of one size the shortest then bounds the transfer from above. No bucket's constant part
 * is more than twice the shortest collective of the group (a ring all-reduce has twice the steps of
 * a broadcast): beyond that it waited too. What a recorded bucket took beyond the line is waiting
 * for ranks whose last gradient of it came later, and belongs to that gradient. So a new bucket
 * takes its time on the line and the longest such excess of the recorded buckets whose last
 * gradient it holds; a bucket cut out of the middle of a recorded one waits for no rank.
 *
 * Where the other ranks are given, waiting is simulated, and all recorded times count.
 *
 * The constant part of collectives of the host, tenths of a millisecond, is lost in the
 * milliseconds that a thread waits for the scheduler. Where the processor bounds them it is what
 * the processor was measured to need for a small one, else none.
 *
 * Not modelled: other algorithms at other sizes, ranks that come later because of the new cut. */
#include "traces/replay/replay_state.h"

#include "shared/base/sort.h"
#include "shared/numbers/checked.h"
#include "shared/numbers/order.h"

/* Of a small all-reduce of gloo over TCP; measured: 0.2 to 0.9 ms (docs/design/replay_model.md). */
static const double CPU_NS = 500000;

struct alike {
    int64_t bytes, ns;
};

LW_COMPARATOR(by_size, struct alike, a->bytes, b->bytes, a->ns, b->ns)

/* Of several with one size the shortest; v is sorted. */
static int64_t keep_shortest(struct alike *v, int64_t n)
{
    int64_t kept = 0;

    for (int64_t i = 0; i < n; i++)
        if (i == 0 || v[i].bytes != v[i - 1].bytes)
            v[kept++] = v[i];
    return kept;
}

static int64_t points_of(const struct replay_maker *m, const struct replay_rank *r, bool waits,
                         struct alike *v)
{
    const struct traces_recorded_bucket *old = r->p.recorded;
    int64_t n = 0;

    for (int64_t i = 0; i < r->p.n_recorded; i++)
        if (old[i].bytes > 0)
            v[n++] = (struct alike){old[i].bytes, replay_comm_alone(m, r, old[i].row)};
    lw_sort(v, n, by_size);
    return waits ? keep_shortest(v, n) : n;
}

/* The shortest collective of the group that the buckets belong to. */
static double shortest(const struct replay_maker *m, const struct replay_rank *r)
{
    int32_t class = r->comms.items[r->comm_of[r->p.recorded[0].row] - 1].class;
    double least = 1e18;

    for (int64_t i = 0; i < r->comms.n; i++) {
        double ns = (double)replay_comm_alone(m, r, r->comms.items[i].row);
        if (r->comms.items[i].class == class && ns > 0 && ns < least)
            least = ns;
    }
    return least;
}

/* Least squares; of one size, and where larger ones took less, in proportion to the bytes. */
static void fit(struct replay_bucket_times *x, const struct alike *v, int64_t n, double most)
{
    double sb = 0, st = 0, sbb = 0, sbt = 0;

    for (int64_t i = 0; i < n; i++) {
        double bytes = (double)v[i].bytes, ns = (double)v[i].ns;
        sb += bytes, st += ns, sbb += bytes * bytes, sbt += bytes * ns;
    }
    double width = (double)n * sbb - sb * sb;
    x->per_byte = width > 0 ? ((double)n * sbt - sb * st) / width : -1;
    x->least_ns = x->per_byte > 0 ? (st - x->per_byte * sb) / (double)n : -1;
    if (x->least_ns < 0) {
        x->least_ns = 0;
        x->per_byte = st / sb;
    }
    x->least_ns = x->least_ns < most ? x->least_ns : most;
}

/* With a constant part that is known. */
static void fit_rate(struct replay_bucket_times *x, const struct alike *v, int64_t n, double least)
{
    double bytes = 0, ns = 0;

    for (int64_t i = 0; i < n; i++) {
        least = (double)v[i].ns < least ? (double)v[i].ns : least;
        bytes += (double)v[i].bytes;
        ns += (double)v[i].ns;
    }
    x->least_ns = least;
    x->per_byte = (ns - least * (double)n) / bytes;
}

static double on_line(const struct replay_bucket_times *x, int64_t bytes)
{
    return x->least_ns + x->per_byte * (double)bytes;
}

enum lw_status replay_time_buckets(struct replay_maker *m, struct replay_rank *r)
{
    struct replay_bucket_times *x = &r->bucket_times;
    struct alike *v;

    if (r->p.n_recorded == 0)
        return LW_OK;
    int64_t first = r->p.recorded[0].row;
    x->waits = !m->cross.classes[r->comms.items[r->comm_of[first] - 1].class].matched;
    LW_TAKE(m->arena, v, r->p.n_recorded, m->err);
    LW_TAKE(m->arena, x->excess_ns, r->p.n_recorded, m->err);
    int64_t n = points_of(m, r, x->waits, v);
    x->smallest = n > 0 ? v[0].bytes : 0;
    if (n > 0 && lw_trace_on_host(r->t, first))
        fit_rate(x, v, n, m->core_want >= 1 ? CPU_NS : 0);
    else if (n > 0)
        fit(x, v, n, 2 * shortest(m, r));
    for (int64_t i = 0; x->waits && i < r->p.n_recorded; i++) {
        const struct traces_recorded_bucket *old = &r->p.recorded[i];
        x->excess_ns[i] = (double)replay_comm_alone(m, r, old->row) - on_line(x, old->bytes);
        x->sum_excess_ns += x->excess_ns[i];
    }
    return LW_OK;
}

lw_ps replay_bucket_time(const struct replay_rank *r, const struct traces_bucket *b)
{
    const struct replay_bucket_times *x = &r->bucket_times;
    double ns = on_line(x, b->bytes), most = 0;

    for (int64_t i = 0; i < b->n_ends; i++) {
        double excess = x->excess_ns[b->first_end + i];
        most = i == 0 || excess > most ? excess : most;
    }
    ns += most;
    return ns > 0 ? lw_round_sat(ns * (double)LW_PS_PER_NS) : 1;
}

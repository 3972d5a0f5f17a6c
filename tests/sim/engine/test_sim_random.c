/* Properties of the engine on random rings and random plans. The seed is printed when one fails. */
#include "tests/lib/unit.h"

#include <string.h>

#include "shared/timeline/timeline.h"
#include "tests/lib/prng.h"
#include "tests/lib/sim/sim_help.h"

static struct prng draws;

static uint64_t draw(uint64_t below)
{
    return prng_next(&draws) % below;
}

static bool same_times(const struct lw_timeline *a, const struct lw_timeline *b)
{
    size_t size = (size_t)a->n * sizeof(lw_ps);

    return a->n == b->n && memcmp(a->start, b->start, size) == 0 &&
           memcmp(a->end, b->end, size) == 0 && memcmp(a->ready, b->ready, size) == 0 &&
           memcmp(a->all_in, b->all_in, size) == 0 && memcmp(a->issue, b->issue, size) == 0;
}

/* --- rings: by events and by recurrence --- */

static void random_ring_plan(struct lw_plan *plan, int32_t n)
{
    static const enum lw_op_kind kinds[] = {LW_OP_ALL_REDUCE, LW_OP_REDUCE_SCATTER,
                                            LW_OP_ALL_GATHER};
    struct lw_builder *b = begin_plan("ring", n);
    int32_t last = -1, n_ops = 1 + (int32_t)draw(5);

    for (int32_t i = 0; i < n_ops; i++) {
        if (draw(2))
            last = add_work(b, LW_OP_KERNEL, 0, (lw_ps)draw(2000000), last);
        add_collective(b, kinds[draw(3)], 0, 1, (int64_t)draw(5000), last);
    }
    finish_plan(b, plan);
}

static void random_ring_cluster(struct lw_cluster *c, int32_t n)
{
    make_cluster(c, n, 1e9 * (double)(1 + draw(9)), (lw_ps)draw(900000));
    for (uint64_t i = draw(4); i > 0; i--) {
        int32_t r = (int32_t)draw((uint64_t)n);
        add_exception(c, (struct lw_exception){.rank = r, .rank_to = (r + 1) % n,
                                               .speed = 0.25 * (double)(1 + draw(4))});
    }
    if (draw(2))
        add_exception(c, (struct lw_exception){.rank = (int32_t)draw((uint64_t)n), .rank_to = -1,
                                               .speed = 0.5, .late_ps = (lw_ps)draw(3000000)});
}

TEST(events_and_recurrence_agree_on_every_row)
{
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct lw_plan plan;
        struct lw_cluster c;
        struct lw_timeline a, b;
        struct lw_sim_stats s, u;
        draws = prng_of(seed * 0x9e3779b97f4a7c15u);
        int32_t n = 2 + (int32_t)draw(14);
        random_ring_plan(&plan, n);
        random_ring_cluster(&c, n);
        struct lw_sim_options o = {.n_steps = 2, .detail = LW_SIM_CHUNK, .seed = seed,
                                   .jitter_ps = draw(2) ? (lw_ps)draw(500000) : 0,
                                   .start_skew_ps = draw(2) ? (lw_ps)draw(5000000) : 0,
                                   .ring = LW_SIM_RING_EVENTS};
        run_both(&plan, &c, o, &a, &s);
        o.ring = LW_SIM_RING_RECURRENCE;
        run_both(&plan, &c, o, &b, &u);
        if (!same_times(&a, &b) || s.end != u.end)
            fail_msg("seed %llu: events and recurrence differ", (unsigned long long)seed);
        assert_int_equal(s.n_messages, u.n_messages);
        assert_true(s.ring_by_events && !u.ring_by_events);
        lw_timeline_free(&a);
        lw_timeline_free(&b);
        lw_cluster_free(&c);
        lw_plan_free(&plan);
    }
}

/* --- random plans --- */

enum { MAX_RANKS = 6, MAX_ITEMS = 60, N_CLASSES = 2, LATENCY = 1000 };

/* One thing that happens: work of one rank, a collective of one group, or a message. Items in their
 * order are a valid history, so the plan made of them has no deadlock. */
struct item {
    enum { WORK, COLLECTIVE, MESSAGE } what;
    int32_t rank, peer, stream, comm, first, n; /* collective: members first, first+1, .. */
    int64_t amount;                             /* ps or bytes */
    int32_t dep[MAX_RANKS];                     /* an earlier item of that rank; -1 */
};

struct history {
    int32_t n_ranks, n_items, last[MAX_RANKS];
    struct item items[MAX_ITEMS];
};

static bool takes_part(const struct item *x, int32_t rank)
{
    if (x->what == COLLECTIVE)
        return rank >= x->first && rank < x->first + x->n;
    return rank == x->rank || (x->what == MESSAGE && rank == x->peer);
}

static void random_history(struct history *h)
{
    h->n_ranks = 2 + (int32_t)draw(MAX_RANKS - 1);
    h->n_items = 5 + (int32_t)draw(MAX_ITEMS - 5);
    for (int32_t i = 0; i < h->n_items; i++) {
        struct item *x = &h->items[i];
        *x = (struct item){.what = (int)draw(3), .rank = (int32_t)draw((uint64_t)h->n_ranks),
                           .amount = (int64_t)draw(40000)};
        x->stream = x->what == WORK ? (int32_t)draw(2) : 2;
        if (x->what == COLLECTIVE) {
            x->comm = (int32_t)draw(N_CLASSES); /* 0: all ranks; 1: halves */
            x->n = x->comm == 0 ? h->n_ranks : (h->n_ranks + 1) / 2;
            x->first = x->comm == 1 && draw(2) ? x->n : 0;
            if (x->first + x->n > h->n_ranks)
                x->n = h->n_ranks - x->first;
            x->stream = 2 + x->comm;
        }
        x->peer = (x->rank + 1 + (int32_t)draw((uint64_t)h->n_ranks - 1)) % h->n_ranks;
        for (int32_t r = 0; r < h->n_ranks; r++) {
            x->dep[r] = -1;
            for (int32_t k = i - 1; k >= 0 && draw(3) > 0; k--)
                if (takes_part(&h->items[k], r))
                    x->dep[r] = k;
        }
    }
}

static void add_item(struct lw_builder *b, const struct history *h, int32_t i, int32_t rank,
                     const int32_t *map, int32_t (*op_of)[MAX_ITEMS])
{
    const struct item *x = &h->items[i];
    int32_t dep = x->dep[rank] >= 0 ? op_of[rank][x->dep[rank]] : -1;

    if (x->what == WORK)
        op_of[rank][i] = add_work(b, LW_OP_KERNEL, x->stream, x->amount, dep);
    else if (x->what == COLLECTIVE)
        op_of[rank][i] = add_collective(b, LW_OP_ALL_REDUCE, x->comm, x->stream, x->amount, dep);
    else
        op_of[rank][i] = add_message(b, rank == x->rank ? LW_OP_SEND : LW_OP_RECV, 0, 2, x->amount,
                                     map[rank == x->rank ? x->peer : x->rank], -1, dep);
}

/* map[r]: the rank that plays r. Op numbers do not depend on it. */
static void history_plan(const struct history *h, const int32_t *map, struct lw_plan *plan,
                         int32_t (*op_of)[MAX_ITEMS])
{
    struct lw_builder *b = lw_builder_new("random", h->n_ranks);
    int32_t half = (h->n_ranks + 1) / 2;

    for (int32_t r = 0; r < h->n_ranks; r++)
        lw_builder_role(b, &(struct lw_role){.name = "r"});
    for (int32_t r = 0; r < h->n_ranks; r++)
        lw_builder_rank(b, map[r], r, r, 0, 0);
    lw_builder_stream(b, "compute", LW_STREAM_COMPUTE, 0);
    lw_builder_stream(b, "compute 2", LW_STREAM_COMPUTE, 0);
    lw_builder_stream(b, "comm", LW_STREAM_COMM, 1);
    lw_builder_stream(b, "comm 2", LW_STREAM_COMM, 1);
    lw_builder_comm(b, "all", LW_COMM_WORLD, LW_REDUCER_AUTO, 2);
    lw_builder_comm(b, "half", LW_COMM_DATA, LW_REDUCER_AUTO, 3);
    lw_builder_group(b, 0, map, h->n_ranks);
    lw_builder_group(b, 1, map, half);
    lw_builder_group(b, 1, map + half, h->n_ranks - half);
    lw_builder_variant(b, "steady", "", true);
    for (int32_t r = 0; r < h->n_ranks; r++) {
        lw_builder_program(b, 0, r);
        for (int32_t i = 0; i < h->n_items; i++)
            if (takes_part(&h->items[i], r))
                add_item(b, h, i, r, map, op_of);
    }
    finish_plan(b, plan);
}

/* 1e9 B/s: a byte takes 1000 ps. */
static lw_ps cost_of(const struct item *x)
{
    if (x->what == WORK)
        return x->amount;
    if (x->what == MESSAGE)
        return x->amount * 1000 + LATENCY;
    int64_t size = x->amount % 4 ? 1 : 4, n = x->amount / size;
    return 2 * ((lw_ps)x->n - 1) * ((n + x->n - 1) / x->n * size * 1000 + LATENCY);
}

/* Longest chain of dependencies, without streams; and everything one after the other. */
static void bounds(const struct history *h, lw_ps *critical, lw_ps *serial)
{
    lw_ps end[MAX_ITEMS];

    *critical = *serial = 0;
    for (int32_t i = 0; i < h->n_items; i++) {
        const struct item *x = &h->items[i];
        end[i] = 0;
        for (int32_t r = 0; r < h->n_ranks; r++)
            if (takes_part(x, r) && x->dep[r] >= 0 && end[x->dep[r]] > end[i])
                end[i] = end[x->dep[r]];
        end[i] += cost_of(x);
        *serial += cost_of(x);
        *critical = end[i] > *critical ? end[i] : *critical;
    }
}

TEST(random_plans_keep_their_bounds_and_their_bytes)
{
    static struct history h;
    static int32_t op_of[MAX_RANKS][MAX_ITEMS];
    const int32_t map[MAX_RANKS] = {0, 1, 2, 3, 4, 5};

    for (uint64_t seed = 1; seed <= 400; seed++) {
        struct lw_plan plan;
        struct lw_cluster c;
        struct lw_timeline a, b;
        struct lw_sim_stats s;
        lw_ps critical, serial;
        draws = prng_of(seed * 0xd1342543de82ef95u);
        random_history(&h);
        history_plan(&h, map, &plan, op_of);
        make_cluster(&c, h.n_ranks, 1e9, LATENCY);
        bounds(&h, &critical, &serial);
        /* checks that streams do not overlap */
        run_both(&plan, &c, lw_sim_options_default(), &a, &s);
        if (s.end < critical || s.end > serial)
            fail_msg("seed %llu: %lld ps is outside %lld..%lld", (unsigned long long)seed,
                     (long long)s.end, (long long)critical, (long long)serial);
        run_both(&plan, &c, lw_sim_options_default(), &b, &s);
        if (!same_times(&a, &b))
            fail_msg("seed %llu: a second run differs", (unsigned long long)seed);
        lw_timeline_free(&a);
        lw_timeline_free(&b);
        lw_cluster_free(&c);
        lw_plan_free(&plan);
    }
}

TEST(permuted_ranks_permute_the_timeline)
{
    static struct history h;
    static int32_t op_of[MAX_RANKS][MAX_ITEMS];
    const int32_t same[MAX_RANKS] = {0, 1, 2, 3, 4, 5};

    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct lw_plan plan, moved;
        struct lw_cluster c;
        struct lw_timeline a, b;
        struct lw_sim_stats s;
        int32_t map[MAX_RANKS];
        draws = prng_of(seed * 0xaf251af3b0f025b5u);
        random_history(&h);
        memcpy(map, same, sizeof map);
        for (int32_t i = h.n_ranks - 1; i > 0; i--) {
            int32_t k = (int32_t)draw((uint64_t)i + 1), x = map[i];
            map[i] = map[k];
            map[k] = x;
        }
        history_plan(&h, same, &plan, op_of);
        history_plan(&h, map, &moved, op_of);
        make_cluster(&c, h.n_ranks, 1e9, LATENCY);
        if (draw(2)) {
            c.interference.compute_rate_under_comm = given(0.7);
            c.interference.comm_rate_under_compute = given(0.9);
        }
        run_both(&plan, &c, lw_sim_options_default(), &a, &s);
        run_both(&moved, &c, lw_sim_options_default(), &b, &s);
        assert_int_equal(a.n, b.n);
        for (int64_t i = 0; i < a.n; i++) {
            int64_t k = 0;
            while (b.rank[k] != map[a.rank[i]] || b.op[k] != a.op[i])
                k++;
            if (a.start[i] != b.start[k] || a.end[i] != b.end[k] || a.all_in[i] != b.all_in[k])
                fail_msg("seed %llu: rank %d op %d moved in time when ranks were renamed",
                         (unsigned long long)seed, a.rank[i], a.op[i]);
        }
        lw_timeline_free(&a);
        lw_timeline_free(&b);
        lw_cluster_free(&c);
        lw_plan_free(&plan);
        lw_plan_free(&moved);
    }
}

/* Interference may only make a plan of one chain per rank slower, and never beyond the slowest
 * rate. */
TEST(slowed_runs_stay_within_the_slowest_rate)
{
    static struct history h;
    static int32_t op_of[MAX_RANKS][MAX_ITEMS];
    const int32_t map[MAX_RANKS] = {0, 1, 2, 3, 4, 5};

    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct lw_plan plan;
        struct lw_cluster c;
        struct lw_timeline t;
        struct lw_sim_stats s;
        lw_ps critical, serial;
        draws = prng_of(seed * 0x2545f4914f6cdd1du);
        random_history(&h);
        history_plan(&h, map, &plan, op_of);
        make_cluster(&c, h.n_ranks, 1e9, LATENCY);
        c.interference.compute_rate_under_comm = given(0.5);
        c.interference.comm_rate_under_compute = given(0.5);
        bounds(&h, &critical, &serial);
        run_both(&plan, &c, lw_sim_options_default(), &t, &s);
        if (s.end < critical || s.end > 2 * serial)
            fail_msg("seed %llu: %lld ps is outside %lld..%lld", (unsigned long long)seed,
                     (long long)s.end, (long long)critical, 2 * (long long)serial);
        lw_timeline_free(&t);
        lw_cluster_free(&c);
        lw_plan_free(&plan);
    }
}

/* Every rank issues its items in an order of its own: some of these plans deadlock, some pair ends
 * that do not fit. All end, and those that fail say which ops. */
TEST(plans_in_random_issue_order_end_or_name_what_waits)
{
    static struct history h;
    static int32_t op_of[MAX_RANKS][MAX_ITEMS];
    const int32_t map[MAX_RANKS] = {0, 1, 2, 3, 4, 5};
    int n_ok = 0, n_waiting = 0;

    for (uint64_t seed = 1; seed <= 400; seed++) {
        struct lw_plan plan;
        struct lw_cluster c;
        struct lw_sim_stats s;
        struct lw_sim_options o = {.n_steps = 1, .buffered = seed % 2};
        struct lw_err err = {0};
        draws = prng_of(seed * 0x94d049bb133111ebu);
        random_history(&h);
        h.n_items = h.n_items < 11 ? h.n_items : 3 + (int32_t)draw(8);
        for (int32_t i = 0; i < h.n_items; i++) {
            h.items[i].amount = 8;
            memset(h.items[i].dep, 0xff, sizeof h.items[i].dep);
        }
        history_plan(&h, map, &plan, op_of);
        for (int32_t r = 0; r < h.n_ranks; r++) { /* swap neighbours within the rank's program */
            struct lw_program p = lw_plan_program(&plan, 0, r);
            for (int32_t i = p.first_op; i + 1 < p.first_op + p.n_ops; i++) {
                struct lw_op op = plan.ops[i];
                if (draw(4) > 0)
                    continue;
                plan.ops[i] = plan.ops[i + 1];
                plan.ops[i + 1] = op;
            }
        }
        make_cluster(&c, h.n_ranks, 1e9, LATENCY);
        enum lw_status status = lw_sim_run(&plan, &c, &o, NULL, &s, &err);
        if (status != LW_OK && (status != LW_EFAILED || !strstr(err.msg, "(op ")))
            fail_msg("seed %llu: %d %s, %d ranks", (unsigned long long)seed, status, err.msg,
                     h.n_ranks);
        n_ok += status == LW_OK;
        n_waiting += strstr(err.msg, "wait") != NULL;
        lw_cluster_free(&c);
        lw_plan_free(&plan);
    }
    assert_true(n_ok > 50);
    assert_true(n_waiting > 20);
}

/* Collectives as messages: every algorithm does what its operation promises, by following the data;
 * its closed form is what its messages take; trees have the shape of the paper. */
#include "tests/lib/unit.h"

#include <stdlib.h>
#include <string.h>

#include "shared/files/files.h"
#include "shared/numbers/checked.h"
#include "sim/cost/cost_closed_form.h"
#include "sim/timing/ring_recurrence.h"
#include "tests/lib/failing_alloc.h"
#include "tests/lib/prng.h"
#include "tests/lib/sim/sim_help.h"

static const enum lw_reducer_kind algorithms[] = {
    LW_REDUCER_RING,     LW_REDUCER_TREE,     LW_REDUCER_HIERARCHICAL, LW_REDUCER_DIRECT,
    LW_REDUCER_ONE_SHOT, LW_REDUCER_PAIRWISE, LW_REDUCER_HFREDUCE,
};
static const enum lw_op_kind ops[] = {
    LW_OP_ALL_REDUCE, LW_OP_REDUCE_SCATTER, LW_OP_ALL_GATHER,
    LW_OP_BROADCAST,  LW_OP_REDUCE,         LW_OP_ALL_TO_ALL,
};
enum { N_ALGORITHMS = sizeof algorithms / sizeof *algorithms, N_OPS = sizeof ops / sizeof *ops };

/* --- following the data --- */

enum { MOST_MEMBERS = 24, MOST_ENDPOINTS = 2 * MOST_MEMBERS, MOST_PIECES = 24 };

/* How often an endpoint's piece holds a member's contribution. */
struct data {
    uint8_t times[MOST_ENDPOINTS][MOST_PIECES][MOST_MEMBERS];
};

static bool starts_with(const struct sim_schedule *s, int32_t r, int32_t piece, int32_t from)
{
    switch (s->op) {
    case LW_OP_ALL_GATHER:
        return from == r && piece == r;
    case LW_OP_BROADCAST:
        return from == r && r == s->root;
    default:
        return from == r;
    }
}

static int ends_with(const struct sim_schedule *s, int32_t r, int32_t piece, int32_t from)
{
    switch (s->op) {
    case LW_OP_ALL_REDUCE:
        return 1;
    case LW_OP_REDUCE_SCATTER:
        return piece == r ? 1 : -1; /* -1: does not matter */
    case LW_OP_REDUCE:
        return r == s->root ? 1 : -1;
    case LW_OP_ALL_GATHER:
        return from == piece;
    case LW_OP_BROADCAST:
        return from == s->root;
    default: /* all-to-all: all that was for r, and nothing else */
        return piece == r;
    }
}

static void carry(const struct sim_schedule *s, const struct sim_transfer *m, struct data *now,
                  const struct data *then)
{
    int32_t whose = 0;

    for (int32_t i = 0; i < m->count; i++) {
        int32_t piece = m->first + i * m->stride;
        assert_in_range(piece, 0, s->n_pieces - 1);
        for (int32_t from = 0; from < s->n; from++) {
            uint8_t sent = then->times[m->from][piece][from];
            whose += i == 0 && sent > 0;
            if (s->op == LW_OP_ALL_TO_ALL) {
                now->times[m->from][piece][from] -= sent;
                now->times[m->to][piece][from] += sent;
            } else if (m->add) {
                now->times[m->to][piece][from] += sent;
            } else {
                now->times[m->to][piece][from] = sent;
            }
        }
    }
    assert_int_equal(m->each, s->op == LW_OP_ALL_TO_ALL ? whose : 1);
}

static void follow(const struct sim_schedule *s)
{
    static struct data now, then;
    struct sim_transfer *m = calloc((size_t)s->most, sizeof *m);

    assert_non_null(m);
    assert_true(s->n_endpoints <= MOST_ENDPOINTS && s->n_pieces <= MOST_PIECES);
    memset(&now, 0, sizeof now);
    for (int32_t r = 0; r < s->n; r++)
        for (int32_t p = 0; p < s->n_pieces; p++)
            for (int32_t f = 0; f < s->n; f++)
                now.times[r][p][f] = starts_with(s, r, p, f);
    for (int64_t step = 1; step <= s->n_steps; step++) {
        int32_t sends[MOST_ENDPOINTS] = {0}, receives[MOST_ENDPOINTS] = {0};
        if (s->blocking || sim_schedule_waits(s, step))
            then = now;
        int32_t n = sim_schedule_step(s, step, m);
        assert_in_range(n, 0, s->most);
        for (int32_t i = 0; i < n; i++) {
            assert_true(m[i].from != m[i].to);
            carry(s, &m[i], &now, &then);
            if (s->algorithm != LW_REDUCER_HFREDUCE) { /* one at a time, in each direction */
                assert_int_equal(++sends[m[i].from], 1);
                assert_int_equal(++receives[m[i].to], 1);
            }
        }
    }
    for (int32_t r = 0; r < s->n; r++)
        for (int32_t p = 0; p < s->n_pieces; p++)
            for (int32_t f = 0; f < s->n; f++)
                if (ends_with(s, r, p, f) >= 0 && now.times[r][p][f] != ends_with(s, r, p, f))
                    fail_msg("%s by %s, %d members on %d nodes: member %d holds %d's part of piece "
                             "%d %d times", lw_op_name(s->op), lw_reducer_name(s->algorithm), s->n,
                             s->n_nodes, r, f, p, now.times[r][p][f]);
    free(m);
}

TEST(every_algorithm_does_what_its_operation_promises)
{
    int n_done = 0;

    for (int a = 0; a < N_ALGORITHMS; a++)
        for (int o = 0; o < N_OPS; o++)
            for (int32_t n = 2; n <= 17; n++)
                for (int32_t nodes = 1; nodes <= n; nodes++)
                    for (int32_t k = 1; k <= 5; k += 2) {
                        struct lw_cost_query q = {ops[o], LW_F32, 4096, n, nodes, algorithms[a]};
                        struct sim_schedule s;
                        if (!sim_algorithm_does(algorithms[a], ops[o]) ||
                            sim_schedule_make(&q, k, n / 2, &s, NULL) != LW_OK)
                            continue;
                        follow(&s);
                        sim_schedule_free(&s);
                        n_done++;
                    }
    assert_true(n_done > 2000);
}

/* --- trees --- */

/* Of any two trees: a member's children in both are two at most (the root of a rooted pair: one in
 * each), and a member with two in one has none in the other: it is interior in one only. */
TEST(members_are_interior_in_one_tree)
{
    for (int32_t n = 2; n < 200; n++) {
        for (int rooted = 0; rooted < 2; rooted++) {
            struct sim_trees t;
            assert_int_equal(sim_trees_make(n, rooted, &t, NULL), LW_OK);
            for (int32_t v = 0; v < n; v++) {
                int children[2] = {0, 0};
                for (int which = 0; which < 2; which++)
                    for (int32_t c = 0; c < n; c++)
                        children[which] += t.parent[which][c] == v;
                assert_true(children[0] + children[1] <= 2);
                assert_true(children[0] < 2 || children[1] == 0);
                assert_true(children[1] < 2 || children[0] == 0);
            }
            for (int which = 0; which < 2; which++)
                assert_int_equal(t.parent[which][0] == -1 || !rooted, 1);
            int32_t log2 = 0;
            while (INT32_C(1) << log2 < n)
                log2++;
            assert_true(t.most_depth <= log2 + 1); /* balanced */
            assert_true(t.most_first <= 2 * (log2 + 1)); /* a level waits two steps at most */
            sim_trees_free(&t);
        }
    }
}

/* Four members, no root: the first tree is 0 - 2 - {1, 3}, the second its mirror 3 - 1 - {0, 2}.
 *   edges out: 0 -> 2 | 2 -> 1, 2 -> 3 | 3 -> 1 | 1 -> 0, 1 -> 2
 *   edges that leave or enter one member differ in colour: 0->2 and 1->2 enter 2; 2->1 and 3->1
 *   enter 1; 2->1 and 2->3 leave 2; 1->0 and 1->2 leave 1: two paths, 2->3, 2->1, 3->1 and 1->0,
 *   1->2, 0->2. */
TEST(four_members_have_the_trees_of_the_paper)
{
    static const int32_t first[] = {-1, 2, 0, 2}, second[] = {1, 3, 1, -1};
    struct sim_trees t;

    assert_int_equal(sim_trees_make(4, false, &t, NULL), LW_OK);
    assert_memory_equal(t.parent[0], first, sizeof first);
    assert_memory_equal(t.parent[1], second, sizeof second);
    assert_int_equal(t.most_depth, 2);
    sim_trees_free(&t);
}

/* --- times --- */

/* 1e9 B/s, 1000 ps a byte, 7 ps; between nodes 250 ps a byte for all four devices, 100 ps. */
static void two_level_cluster(struct lw_cluster *c)
{
    make_cluster(c, 4, 1e9, 7);
    c->n_nodes = 0;
    c->links = lw_arena_alloc(&c->arena, 4, sizeof *c->links);
    assert_non_null(c->links);
    c->links[0] = (struct lw_link){.name = "link", .level = LW_LINK_INTRA,
                                   .bytes_per_s = given(1e9), .latency_ps = given(7)};
    c->links[1] = (struct lw_link){.name = "nic", .level = LW_LINK_INTER, .bytes_per_s = given(1e9),
                                   .latency_ps = given(100), .n_links = given(4)};
    c->links[2] =
        (struct lw_link){.name = "pcie", .level = LW_LINK_HOST, .bytes_per_s = given(3e9)};
    c->links[3] = (struct lw_link){.name = "bridge", .level = LW_LINK_BRIDGE,
                                   .bytes_per_s = given(8e9), .n_sharers = given(2)};
    c->n_links = 4;
    c->host_bytes_per_s = given(24e9);
    c->host.piece_bytes = given(1000);
}

static lw_ps run_messages(const struct lw_cluster *c, const struct lw_cost_query *q)
{
    struct sim_schedule s;
    struct sim_group_links g;
    lw_ps entry[64] = {0}, end[64], last = 0;
    struct lw_err err = {0};

    assert_ok(sim_algorithm_schedule(c, q, 0, &s, &g, &err), err);
    const struct sim_links links = {sim_group_link_time, &g, NULL};
    assert_int_equal(sim_schedule_run(&s, entry, &links, end, NULL, &err), LW_OK);
    for (int32_t r = 0; r < q->n_ranks; r++)
        last = end[r] > last ? end[r] : last;
    sim_schedule_free(&s);
    return last;
}

static lw_ps closed(const struct lw_cluster *c, const struct lw_cost_query *q)
{
    struct lw_cost_answer a;
    struct lw_err err = {0};

    assert_ok(lw_sim_cost_explain(c, q, &a, &err), err);
    return a.time;
}

/* Sums by hand. 4 members of one node, C = 1000 B = 1,000,000 ps, a = 7:
 *   direct        2 (3 C + a)           pairwise  2 x 3 (C + a)      one-shot 3 x 4,000,000 + a
 * 8 members on 2 nodes, B = 8000: C = 1000 B; a node's links 4e9 B/s, a member's part of them 1e9:
 *   hierarchical  2 (3 (2,000,000 + 7) + 1 (1,000,000 + 100))
 *   pairwise      2 (3 (1,000,000 + 7) + 4 (1,000,000 + 100))
 *   direct        2 (7,000,000 + 100)
 * All-to-all, hierarchical: 3 (2,000,000 + 7) + (4,000,000 + 100). */
TEST(closed_forms_have_the_hand_values)
{
    static const struct {
        enum lw_op_kind op;
        enum lw_reducer_kind algorithm;
        int64_t bytes;
        int32_t n, nodes;
        lw_ps expected;
    } cases[] = {
        {LW_OP_ALL_REDUCE, LW_REDUCER_DIRECT, 4000, 4, 1, 2 * (3000000 + 7)},
        {LW_OP_ALL_GATHER, LW_REDUCER_DIRECT, 4000, 4, 1, 3000000 + 7},
        {LW_OP_BROADCAST, LW_REDUCER_DIRECT, 4000, 4, 1, 12000000 + 7},
        {LW_OP_ALL_REDUCE, LW_REDUCER_PAIRWISE, 4000, 4, 1, 6 * (1000000 + 7)},
        {LW_OP_ALL_TO_ALL, LW_REDUCER_PAIRWISE, 4000, 4, 1, 3 * (1000000 + 7)},
        {LW_OP_ALL_REDUCE, LW_REDUCER_ONE_SHOT, 4000, 4, 1, 12000000 + 7},
        {LW_OP_ALL_REDUCE, LW_REDUCER_HIERARCHICAL, 8000, 8, 2, 2 * (3 * 2000007 + 1000100)},
        {LW_OP_ALL_REDUCE, LW_REDUCER_PAIRWISE, 8000, 8, 2, 2 * (3 * 1000007 + 4 * 1000100)},
        {LW_OP_ALL_REDUCE, LW_REDUCER_DIRECT, 8000, 8, 2, 2 * (7000000 + 100)},
        {LW_OP_ALL_TO_ALL, LW_REDUCER_HIERARCHICAL, 8000, 8, 2, 3 * 2000007 + 4000100},
        {LW_OP_ALL_TO_ALL, LW_REDUCER_AUTO, 8000, 8, 2, 3 * 1000007 + 4 * 1000100},
    };
    struct lw_cluster c;

    two_level_cluster(&c);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lw_cost_query q = {cases[i].op, LW_F32, cases[i].bytes, cases[i].n, cases[i].nodes,
                                  cases[i].algorithm};
        assert_int_equal(closed(&c, &q), cases[i].expected);
    }
    lw_cluster_free(&c);
}

/* Two members, two trees of one edge each, in opposite directions: both halves go up at once and
 * come down at once: 2 rounds of 2000 B; with k pieces 2 k rounds of 2000/k B, so with a latency
 * one piece is best. Three members without latency: as many pieces as there are. */
TEST(trees_choose_their_pieces)
{
    struct lw_cost_query two = {LW_OP_ALL_REDUCE, LW_F32, 4000, 2, 1, LW_REDUCER_TREE};
    struct lw_cost_query three = {LW_OP_BROADCAST, LW_F32, 8192, 3, 1, LW_REDUCER_TREE};
    struct lw_cost_answer a;
    struct lw_cluster c;

    two_level_cluster(&c);
    assert_int_equal(closed(&c, &two), 2 * (2000000 + 7));
    c.links[0].latency_ps = given(0);
    assert_int_equal(lw_sim_cost_explain(&c, &three, &a, NULL), LW_OK);
    assert_int_equal(a.n_pieces, 2048); /* one float each */
    assert_int_equal(a.time, a.n_steps * 4000);
    lw_cluster_free(&c);
}

/* 8 devices on 2 nodes; 4 copies in, 4 reads and 1 write to add, 5 for the tree, 4 copies out:
 * 18 touches, 24e9 / 18 = 1.33e9 B/s; PCIe 3e9; bridge 8e9 / 4 = 2e9; NIC 4e9 / 2 = 2e9. Memory
 * is the least: a piece of 1000 B takes 750,000 ps, in the tree 500,000 + 100. Ten pieces,
 * height 1: 10 + 3 slots. One piece: 2 slots of copies and 2 of the tree. The first copy arrives 7
 * after it is sent, and so does the last. */
TEST(hfreduce_runs_at_the_least_of_four_ceilings)
{
    struct lw_cost_query q = {LW_OP_ALL_REDUCE, LW_F32, 10000, 8, 2, LW_REDUCER_HFREDUCE};
    struct sim_hfreduce h;
    struct lw_cluster c;

    two_level_cluster(&c);
    assert_int_equal(sim_hfreduce_of(&c, 4, 2, &h, NULL), LW_OK);
    assert_int_equal(h.touches, 18);
    assert_int_equal(h.least, SIM_CEILING_MEMORY);
    assert_true(h.bytes_per_s[SIM_CEILING_PCIE] == 3e9);
    assert_true(h.bytes_per_s[SIM_CEILING_BRIDGE] == 2e9);
    assert_true(h.bytes_per_s[SIM_CEILING_NIC] == 2e9);
    assert_int_equal(closed(&c, &q), 13 * 750000 + 2 * 7);
    q.bytes = 1000;
    assert_int_equal(closed(&c, &q), 2 * 750000 + 2 * 500100 + 2 * 7);
    c.links[1].bytes_per_s = given(0.5e9); /* NIC 1e9: the tree's slots are the longer ones */
    q.bytes = 10000;
    assert_int_equal(closed(&c, &q), 2 * 750000 + 11 * 1000100 + 2 * 7);
    lw_cluster_free(&c);
}

/* One byte of each device of one node: a copy to the host and one back, 13 touches of memory (4 in,
 * 4 + 1 to add, 4 out): 1 / (24e9 / 13) s each way, with the latency of the host link, or without
 * it that of the path inside the node. */
TEST(hfreduce_within_a_node_takes_two_copies)
{
    struct lw_cost_query q = {LW_OP_ALL_REDUCE, LW_U8, 1, 4, 1, LW_REDUCER_HFREDUCE};
    struct lw_cluster c;

    two_level_cluster(&c);
    lw_ps bytes = closed(&c, &q) - 2 * 7;
    c.links[2].latency_ps = given(5000000);
    assert_int_equal(closed(&c, &q), bytes + 2 * 5000000);
    assert_true(bytes > 0 && bytes < 3000);
    assert_int_equal(run_messages(&c, &q), closed(&c, &q));
    lw_cluster_free(&c);
    assert_int_equal(lw_cluster_find("fire-flyer", &c, NULL), LW_OK);
    q.n_ranks = 8;
    lw_ps least = closed(&c, &q);
    assert_true(least > 2 * 5700000 && least < 2 * 5700000 + 2000); /* latency_ns 5700 */
    lw_cluster_free(&c);
}

/* Figure 7a of the paper: 186 MiB on 16, 32, ... 1440 GPUs of that machine. The steady rate is the
 * bridge's: 32.4e9 / 4 = 8.1e9 B/s. */
TEST(the_fire_flyer_node_reduces_as_measured)
{
    static const int32_t ranks[] = {16, 32, 64, 128, 256, 512, 1024, 1440};
    static const double measured[] = {8.10, 8.03, 7.95, 7.78, 7.12, 7.33, 6.99, 6.31};
    struct lw_cluster c;
    struct sim_hfreduce h;
    double sum = 0;

    assert_int_equal(lw_cluster_find("fire-flyer", &c, NULL), LW_OK);
    assert_int_equal(sim_hfreduce_of(&c, 8, 2, &h, NULL), LW_OK);
    assert_int_equal(h.least, SIM_CEILING_BRIDGE);
    assert_true(h.bytes_per_s[SIM_CEILING_BRIDGE] == 8.1e9);
    assert_int_equal(h.touches, 24);
    for (int i = 0; i < 8; i++) {
        struct lw_cost_query q = {LW_OP_ALL_REDUCE, LW_F32, 186 << 20, ranks[i], ranks[i] / 8,
                                  LW_REDUCER_AUTO}; /* it is this machine's library */
        double rate = lw_sim_algbw(&q, closed(&c, &q)) / 1e9, off = rate / measured[i] - 1;
        assert_true(rate > 6.0 && rate < 8.5);
        if (i == 0)
            assert_true(off > -0.05 && off < 0.05);
        sum += off < 0 ? -off : off;
    }
    assert_true(sum / 8 < 0.05);
    lw_cluster_free(&c);
}

TEST(messages_take_the_closed_form)
{
    struct prng rng = prng_start("messages");
    struct lw_cluster c;
    int n_done = 0;

    two_level_cluster(&c);
    c.devices_per_node = 8;
    for (int a = 0; a < N_ALGORITHMS; a++)
        for (int o = 0; o < N_OPS; o++)
            for (int32_t n = 2; n <= 40; n++)
                for (int32_t nodes = 1; nodes <= 5; nodes++) {
                    struct lw_cost_query q = {ops[o], LW_F32, n * 4 * prng_in(&rng, 1, 5000),
                                              n, nodes, algorithms[a]};
                    if (!sim_algorithm_does(algorithms[a], ops[o]) || nodes > n || n % nodes != 0)
                        continue;
                    if ((q.algorithm == LW_REDUCER_TREE || q.algorithm == LW_REDUCER_RING) &&
                        nodes > 1)
                        continue; /* their links are not equal */
                    if (run_messages(&c, &q) != closed(&c, &q))
                        fail_msg("%s by %s, %d on %d nodes, %lld bytes: messages take %lld ps, the "
                                 "closed form says %lld", lw_op_name(q.op),
                                 lw_reducer_name(q.algorithm), n, nodes, (long long)q.bytes,
                                 (long long)run_messages(&c, &q), (long long)closed(&c, &q));
                    n_done++;
                }
    assert_true(n_done > 500);
    lw_cluster_free(&c);
}

/* What --bucket-policy optimal needs of a cost. */
TEST(more_bytes_never_cost_less)
{
    struct prng rng = prng_start("bytes");
    struct lw_cluster c;

    two_level_cluster(&c);
    for (int a = 0; a < N_ALGORITHMS; a++)
        for (int32_t n = 2; n <= 24; n += 2) {
            struct lw_cost_query q = {LW_OP_ALL_REDUCE, LW_F32, 0, n, n % 4 == 0 ? n / 4 : 1,
                                      algorithms[a]};
            lw_ps before = 0;
            for (int i = 0; i < 60; i++) {
                lw_ps time = closed(&c, &q);
                assert_true(time >= before);
                before = time;
                q.bytes += 4 * prng_in(&rng, 1, 1 + q.bytes / 16);
            }
        }
    lw_cluster_free(&c);
}

/* The general way of running messages is the ring's recurrence, with any entries, links, jitter. */
struct ring_links {
    lw_ps cost[40], latency[40];
};

static void ring_link(const void *ctx, const struct sim_transfer *m, int64_t bytes, lw_ps *time,
                      lw_ps *latency)
{
    const struct ring_links *l = ctx;

    (void)bytes;
    *time = l->cost[m->from];
    *latency = l->latency[m->from];
}

static lw_ps ring_extra(const void *ctx, int32_t r, int64_t step)
{
    (void)ctx;
    return (r * 7919 + step * 104729) % 1000;
}

static void ring_extras(const void *ctx, int64_t step, int32_t first, int32_t n, lw_ps *longer)
{
    for (int32_t i = 0; i < n; i++)
        longer[i] = ring_extra(ctx, first + i, step);
}

/* More members than are computed at once, some near the end of time: as written in the head of
 * sim/timing/ring_recurrence.c, with sums that saturate. */
TEST(long_rings_run_as_their_recurrence)
{
    enum { MOST = 1100, STEPS = 7 };
    const struct sim_ring_extra extra = {ring_extras, NULL, 999};
    static lw_ps t[MOST], now[MOST], was[MOST], cost[MOST], latency[MOST], end[MOST];
    struct prng rng = prng_start("long rings");

    for (int trial = 0; trial < 60; trial++) {
        int32_t n = trial < 6 ? 255 + trial : 2 + (int32_t)(prng_next(&rng) % (MOST - 2));
        lw_ps late = trial % 3 == 2 ? INT64_MAX - (lw_ps)(prng_next(&rng) % 20000) : 0;
        for (int32_t r = 0; r < n; r++) {
            now[r] = t[r] = late > 0 ? late - (lw_ps)(prng_next(&rng) % 5000)
                                     : (lw_ps)(prng_next(&rng) % 5000);
            cost[r] = (lw_ps)(prng_next(&rng) % 1000);
            latency[r] = (lw_ps)(prng_next(&rng) % 300);
        }
        for (int64_t s = 1; s <= STEPS; s++) {
            memcpy(was, now, sizeof was);
            for (int32_t r = 0; r < n; r++) {
                int32_t b = (r + n - 1) % n;
                lw_ps came = s == 1 ? 0 : lw_add_sat(was[b], latency[b]);
                lw_ps longer = trial % 2 ? ring_extra(NULL, r, s) : 0;
                now[r] = lw_add_sat(lw_add_sat(came > was[r] ? came : was[r], cost[r]), longer);
            }
        }
        sim_ring_run(n, STEPS, t, cost, latency, trial % 2 ? &extra : NULL, end);
        assert_memory_equal(t, now, (size_t)n * sizeof *t);
        for (int32_t r = 0; r < n; r++) {
            int32_t b = (r + n - 1) % n;
            lw_ps came = lw_add_sat(now[b], latency[b]);
            assert_true(end[r] == (came > now[r] ? came : now[r]));
        }
    }
}

TEST(rings_run_as_their_recurrence)
{
    struct prng rng = prng_start("rings");

    for (int trial = 0; trial < 200; trial++) {
        struct ring_links l;
        int32_t n = 2 + (int32_t)(prng_next(&rng) % 30);
        lw_ps t[40], entry[40], end[40], expected[40];
        struct lw_cost_query q = {LW_OP_ALL_REDUCE, LW_F32, 4096, n, 1, LW_REDUCER_RING};
        struct sim_schedule s;
        for (int32_t r = 0; r < n; r++) {
            entry[r] = t[r] = (lw_ps)(prng_next(&rng) % 5000);
            l.cost[r] = (lw_ps)(prng_next(&rng) % 1000);
            l.latency[r] = (lw_ps)(prng_next(&rng) % 300);
        }
        assert_int_equal(sim_schedule_make(&q, 1, 0, &s, NULL), LW_OK);
        const struct sim_links links = {ring_link, &l, trial % 2 ? ring_extra : NULL};
        assert_int_equal(sim_schedule_run(&s, entry, &links, end, NULL, NULL), LW_OK);
        const struct sim_ring_extra extra = {ring_extras, NULL, 999};
        sim_ring_run(n, s.n_steps, t, l.cost, l.latency, trial % 2 ? &extra : NULL, expected);
        assert_memory_equal(end, expected, (size_t)n * sizeof *end);
        sim_schedule_free(&s);
    }
}

TEST(operation_outside_an_algorithm_is_refused_by_name)
{
    static const struct {
        struct lw_cost_query q;
        const char *says;
    } cases[] = {
        {{LW_OP_ALL_GATHER, LW_F32, 8, 4, 1, LW_REDUCER_TREE}, "no model of all_gather by tree"},
        {{LW_OP_ALL_REDUCE, LW_F32, 8, 4, 1, LW_REDUCER_NVLS}, "no model of all_reduce by nvls"},
        {{LW_OP_BROADCAST, LW_F32, 8, 4, 1, LW_REDUCER_HFREDUCE},
         "choose auto, ring, tree, direct"},
        {{LW_OP_ALL_REDUCE, LW_F32, 8, 7, 2, LW_REDUCER_HIERARCHICAL}, "7 ranks on 2 nodes"},
        {{LW_OP_ALL_REDUCE, LW_F32, 8, 7, 2, LW_REDUCER_HFREDUCE}, "7 ranks on 2 nodes"},
    };
    struct lw_cluster c;

    two_level_cluster(&c);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lw_cost_answer a;
        struct lw_err err = {0};
        assert_int_equal(lw_sim_cost_explain(&c, &cases[i].q, &a, &err), LW_ENOTSUP);
        if (!strstr(err.msg, cases[i].says))
            fail_msg("'%s' does not say '%s'", err.msg, cases[i].says);
    }
    c.host.piece_bytes = (struct lw_figure){0, NULL};
    struct lw_cost_query q = {LW_OP_ALL_REDUCE, LW_F32, 8, 8, 2, LW_REDUCER_HFREDUCE};
    struct lw_cost_answer a;
    struct lw_err err = {0};
    assert_int_equal(lw_sim_cost_explain(&c, &q, &a, &err), LW_ENOTSUP);
    assert_non_null(strstr(err.msg, "host.piece_bytes"));
    lw_cluster_free(&c);
}

TEST(failed_allocations_leak_nothing)
{
    struct lw_cluster c;

    two_level_cluster(&c);
    for (int a = 0; a < N_ALGORITHMS; a++) {
        struct lw_cost_query q = {LW_OP_ALL_REDUCE, LW_F32, 4096, 8, 2, algorithms[a]};
        struct lw_cost_answer answer = {.time = -5};
        EACH_ALLOCATION_FAILS(0, lw_sim_cost_explain(&c, &q, &answer, NULL), answer, (void)0);
        assert_true(answer.time > 0);
    }
    lw_cluster_free(&c);
}

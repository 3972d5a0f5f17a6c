/* Curves of efficiency: smoothing, votes, and the stored tables. */
#include "tests/lib/unit.h"

#include <math.h>
#include <string.h>

#include "shared/files/files.h"
#include "sim/cost/cost_nccl.h"
#include "sim/nccl/nccl_curves.h"

/* A table with one ratio at all sizes. */
static struct sim_nccl_measured flat(const char *name, double ratio)
{
    const double share[] = {1 << 10, 1 << 16, 1 << 26};
    const double ratios[] = {ratio, ratio, ratio};
    struct sim_nccl_measured m = {
        .table = name, .place = SIM_NCCL_ON_NVLINK, .op = LW_OP_ALL_REDUCE};

    assert_int_equal(sim_nccl_smooth(share, ratios, 3, &m, NULL), LW_OK);
    return m;
}

static double factor(const struct sim_nccl_measured *t, int n, int without, double share)
{
    const struct sim_nccl_spot at = {SIM_NCCL_ON_NVLINK, share};
    int used;

    return sim_nccl_factor(t, n, without, &at, &used);
}

/* A message of a collective is its buffer over the ranks; of a send the whole buffer. */
TEST(share_is_what_a_message_carries)
{
    assert_true(sim_nccl_share(LW_OP_ALL_REDUCE, 1 << 20, 8) == 1 << 17);
    assert_true(sim_nccl_share(LW_OP_ALL_GATHER, 8, 16) == .5);
    assert_true(sim_nccl_share(LW_OP_SEND, 1 << 20, 8) == 1 << 20);
}

TEST(smoothing_keeps_a_flat_table)
{
    struct sim_nccl_measured m = flat("a", 2);

    assert_int_equal(m.first_knot, 10 - SIM_NCCL_FIRST_KNOT);
    assert_int_equal(m.n_knots, 17);
    for (int k = 0; k < m.n_knots; k++)
        assert_true(fabs(m.log_ratio[k] - 0.6931471805599453) < 1e-12);
}

/* One vote for the model (ratio 1, weight 2.8) and two tables of ratio 4 and 16 (weight 1): the
 * votes sit at 1.4, 3.3 and 4.3 of 4.8; half is 2.4, 1 of 1.9 of the way to 4. A third of 16: half
 * is 2.9 of 5.8, 1.5 of 1.9 of the way. One table alone says nothing. */
TEST(curve_is_the_median_with_a_vote_for_the_model)
{
    struct sim_nccl_measured t[] = {flat("a", 4), flat("b", 16), flat("c", 16)};

    assert_true(fabs(factor(t, 2, -1, 1 << 16) - pow(4, 1 / 1.9)) < 1e-9);
    assert_true(fabs(factor(t, 3, -1, 1 << 16) - pow(4, 1.5 / 1.9)) < 1e-9);
    assert_true(fabs(factor(t, 3, 2, 1 << 16) - factor(t, 2, -1, 1 << 16)) < 1e-12);
    assert_true(factor(t, 3, 0, 1 << 16) > factor(t, 2, -1, 1 << 16)); /* b and c */
    assert_true(factor(t, 1, -1, 1 << 16) == 1);
    assert_true(factor(t, 2, 0, 1 << 16) == 1);
}

/* NVLink's tables say nothing of other places: what they have in common, the fill of a ring, is in
 * the model of one node. */
TEST(tables_count_for_their_own_place)
{
    static const enum sim_nccl_place others[] = {SIM_NCCL_ACROSS, SIM_NCCL_ON_PCI,
                                                 SIM_NCCL_ACROSS_ONE};
    const struct sim_nccl_measured t[2] = {flat("a", 4), flat("b", 4)};

    assert_true(factor(t, 2, -1, 1 << 24) > 1);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        const struct sim_nccl_spot at = {others[i], 1 << 24};
        int used;
        assert_true(sim_nccl_factor(t, 2, -1, &at, &used) == 1);
        assert_int_equal(used, 0);
    }
}

TEST(a_table_far_from_the_size_counts_little)
{
    const struct sim_nccl_measured t[2] = {flat("a", 4), flat("b", 4)};

    assert_true(factor(t, 2, -1, 4) < 1.1);
    assert_true(factor(t, 2, -1, 1 << 9) > 1.3);
}

/* A table is known by its rows: more than half of them, in any order. */
TEST(a_table_is_known_by_its_rows)
{
    uint32_t a[4], b[4], mixed[4];
    struct sim_nccl_measured t[2] = {{.n_rows = 4, .marks = a}, {.n_rows = 4, .marks = b}};

    for (int i = 0; i < 4; i++) {
        a[i] = sim_nccl_row_mark(LW_OP_ALL_REDUCE, 8, 1, 1024 << i, 20000 + i);
        b[i] = sim_nccl_row_mark(LW_OP_ALL_REDUCE, 16, 2, 1024 << i, 20000 + i);
        mixed[3 - i] = i < 3 ? b[i] : a[i];
    }
    assert_int_equal(sim_nccl_same_table(t, 2, a, 4), 0);
    assert_int_equal(sim_nccl_same_table(t, 2, b + 1, 3), 1);
    assert_int_equal(sim_nccl_same_table(t, 2, mixed, 4), 1);
    mixed[0] = b[0], mixed[1] = b[1], mixed[2] = a[2], mixed[3] = a[3];
    assert_int_equal(sim_nccl_same_table(t, 2, mixed, 4), -1); /* half of each */
    assert_int_equal(sim_nccl_same_table(t, 0, a, 4), -1);
}

TEST(nothing_to_smooth_is_refused)
{
    const double share[] = {.1, 1024};
    const double ratios[] = {1, 0};
    struct sim_nccl_measured m = {.table = "x"};
    struct lw_err err = {0};

    assert_int_equal(sim_nccl_smooth(share, ratios, 2, &m, &err), LW_EINVAL);
    assert_non_null(strstr(err.msg, "between 1/4 byte and 32 GiB"));
}

TEST(stored_tables_are_whole)
{
    int n;
    const struct sim_nccl_measured *t = sim_nccl_measured_rows(&n);

    assert_true(n >= 10);
    for (int i = 0; i < n; i++) {
        assert_true(t[i].table[0] && t[i].source[0]);
        assert_true(t[i].first_knot >= 0 && t[i].n_knots > 0 &&
                    t[i].first_knot + t[i].n_knots <= SIM_NCCL_N_KNOTS);
        assert_true(t[i].place < SIM_N_NCCL_PLACES && t[i].arch < SIM_N_NCCL_ARCHS);
        for (int k = 0; k < t[i].n_knots; k++)
            assert_true(fabs(t[i].log_ratio[k]) < 2);
        for (int k = 0; k < i; k++)
            assert_string_not_equal(t[i].table, t[k].table);
    }
}

/* nccl+cal = nccl and what it leaves out of one node, times the factor, in time and in both
 * terms. */
TEST(calibrated_model_is_the_model_times_the_curve)
{
    struct lw_cluster c = {0};
    struct lw_cost_answer raw, cal;
    struct lw_cost_query q = {LW_OP_ALL_REDUCE, LW_F32, 1 << 20, 8, 1, LW_REDUCER_NCCL};
    int n;
    const struct sim_nccl_measured *t = sim_nccl_measured_rows(&n);

    assert_int_equal(lw_cluster_find("dgx-h100", &c, NULL), LW_OK);
    assert_int_equal(lw_sim_cost_explain(&c, &q, &raw, NULL), LW_OK);
    q.algorithm = LW_REDUCER_NCCL_CAL;
    assert_int_equal(lw_sim_cost_explain(&c, &q, &cal, NULL), LW_OK);
    double f = factor(t, n, -1, 1 << 17); /* of 1 MiB over 8 ranks */
    assert_true(raw.beyond != 0);
    f *= ((double)raw.time + (double)raw.beyond) / (double)raw.time;
    assert_string_equal(cal.model, "nccl+cal");
    assert_string_equal(cal.algorithm, raw.algorithm);
    assert_true(fabs((double)cal.time - (double)raw.time * f) <= 1);
    assert_true(fabs((double)cal.latency - (double)raw.latency * f) <= 1);
    assert_true(fabs(cal.bytes_per_s * f / raw.bytes_per_s - 1) < 1e-12);
    lw_cluster_free(&c);
}

/* 16 H100 on two nodes, 16 KiB: tree/LL on 4 blocks. 3 us for each are added before the curve. */
TEST(ll_between_nodes_takes_time_for_each_block)
{
    struct lw_cluster c = {0};
    struct lw_cost_answer raw, cal;
    struct lw_cost_query q = {LW_OP_ALL_REDUCE, LW_F32, 1 << 14, 16, 2, LW_REDUCER_NCCL};
    int n, used;
    const struct sim_nccl_measured *t = sim_nccl_measured_rows(&n);
    struct sim_nccl_spot at = {SIM_NCCL_ACROSS, 1 << 10};

    assert_int_equal(lw_cluster_find("dgx-h100", &c, NULL), LW_OK);
    assert_int_equal(lw_sim_cost_explain(&c, &q, &raw, NULL), LW_OK);
    assert_string_equal(raw.protocol, "ll");
    assert_int_equal(raw.n_blocks, 4);
    assert_int_equal(raw.beyond, 12000000);
    q.algorithm = LW_REDUCER_NCCL_CAL;
    assert_int_equal(lw_sim_cost_explain(&c, &q, &cal, NULL), LW_OK);
    double f = sim_nccl_factor(t, n, -1, &at, &used);
    assert_true(fabs((double)cal.time - ((double)raw.time + 12e6) * f) <= 1);
    assert_true(fabs((double)cal.latency - ((double)raw.latency + 12e6) * f) <= 1);
    lw_cluster_free(&c);
}

/* 16 H100 on two nodes: an all-gather by ring/LL has 15 steps, of which the model counts one
 * between nodes (14 x 1 + 2.7), and a chunk passes two (13 x 1 + 2 x 5): 6.3 us. An all-reduce goes
 * round twice, and its blocks post in both rounds: 12.6 + 4 x 2 x 3. */
TEST(rings_cross_every_boundary_between_nodes)
{
    struct lw_cluster c = {0};
    struct lw_cost_answer raw;
    struct lw_cost_query q = {LW_OP_ALL_GATHER, LW_F32, 1 << 12, 16, 2, LW_REDUCER_NCCL};
    struct sim_nccl_comm comm;
    struct sim_nccl_choice x = {.algorithm = SIM_NCCL_RING, .protocol = SIM_NCCL_LL};

    assert_int_equal(lw_cluster_find("dgx-h100", &c, NULL), LW_OK);
    assert_int_equal(lw_sim_cost_explain(&c, &q, &raw, NULL), LW_OK);
    assert_string_equal(raw.algorithm, "ring");
    assert_string_equal(raw.protocol, "ll");
    assert_int_equal(raw.n_blocks, 1);
    assert_int_equal(raw.beyond, 6300000);
    q.n_nodes = 1, q.n_ranks = 8;
    assert_int_equal(lw_sim_cost_explain(&c, &q, &raw, NULL), LW_OK);
    /* on one node 4.8 + 7 x 0.85 in place of 6.6 + 7 x 0.6, and 0.0254 us times 8 / 7 / 1.21 */
    assert_true(fabs((double)raw.beyond / 1e6 + 0.0514) < 1e-3);
    q.n_nodes = 2, q.n_ranks = 16;
    assert_int_equal(sim_nccl_comm_of(&c, &q, &comm, NULL), LW_OK);
    assert_true(sim_nccl_cell_of(&comm, LW_OP_ALL_REDUCE, x.algorithm, x.protocol, &x.cell));
    assert_true(fabs(sim_nccl_beyond_us(&comm, LW_OP_ALL_REDUCE, &x, 4) - 36.6) < 1e-9);
    q.n_ranks = 2;
    assert_int_equal(sim_nccl_comm_of(&c, &q, &comm, NULL), LW_OK); /* no step inside a node */
    assert_true(sim_nccl_cell_of(&comm, LW_OP_ALL_REDUCE, x.algorithm, x.protocol, &x.cell));
    assert_true(sim_nccl_beyond_us(&comm, LW_OP_ALL_REDUCE, &x, 1) == 0);
    lw_cluster_free(&c);
}

/* The kept knots are those of the stored tables, and the factor is straight between two. */
TEST(kept_curve_is_the_factor_of_the_stored_tables)
{
    int n, used;
    const struct sim_nccl_measured *t = sim_nccl_measured_rows(&n);

    for (int place = 0; place < SIM_N_NCCL_PLACES; place++)
        for (double share = .1; share < 1e12; share *= 1.37) {
            const struct sim_nccl_spot at = {(enum sim_nccl_place)place, share};
            double f = sim_nccl_factor(t, n, -1, &at, &used);
            assert_true(fabs(sim_nccl_curve(&at) - f) < 1e-12);
        }
    double a = factor(t, n, -1, 1 << 20), b = factor(t, n, -1, 1 << 21);
    assert_true(fabs(factor(t, n, -1, 1.25 * (1 << 20)) - (a + .25 * (b - a))) < 1e-12);
}

/* Two A100: an all-reduce has 2 transfers of 3 primitives, at 1.06 of the ring's 240 GB/s, and 15 +
 * 2 x 9.7 us: 170 GB/s of 240. (The all-reduce of vTrain, of which 0.82 is, reaches 197.) An
 * all-gather has one of 2, and hides a half of the second where a part has 290 MB. Two B200 hide
 * nothing: 16 rings of 45 GB/s, 8.1 + 9 us, 1.13 of the rate. */
TEST(a_ring_of_two_loses_a_part_to_its_last_primitive)
{
    static const enum lw_op_kind AR = LW_OP_ALL_REDUCE, AG = LW_OP_ALL_GATHER;
    const struct {
        const char *cluster;
        enum lw_op_kind op;
        int64_t bytes;
        double us;
    } cases[] = {{"dgx-a100", AR, 1 << 30, 34.4 + 1073.741824 / .2544 * 1.5},
                 {"dgx-a100", AG, 8 << 20, 24.7 + 4.194304 / .2544 * (1 + 290 / 294.194304)},
                 {"dgx-a100", AG, 580000000, 24.7 + 290 / .2544 * 1.5},
                 {"dgx-b200", AG, 1 << 30, 17.1 + 536.870912 / (.72 * 1.13) * 2}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lw_cluster c = {0};
        struct lw_cost_answer raw;
        struct lw_cost_query q = {cases[i].op, LW_F32, cases[i].bytes, 2, 1, LW_REDUCER_NCCL};
        assert_int_equal(lw_cluster_find(cases[i].cluster, &c, NULL), LW_OK);
        assert_int_equal(lw_sim_cost_explain(&c, &q, &raw, NULL), LW_OK);
        assert_string_equal(raw.protocol, "simple");
        double us = ((double)raw.time + (double)raw.beyond) / 1e6;
        if (fabs(us - cases[i].us) > 1e-4 * us)
            fail_msg("%zu: %.3f us, expected %.3f", i, us, cases[i].us);
        lw_cluster_free(&c);
    }
}

/* What a long message hides never brings more than the model's own rate: 240 GB/s less latency. */
TEST(the_longest_rings_reach_the_rate_of_their_channels)
{
    struct lw_cluster c = {0};
    struct lw_cost_answer raw;
    struct lw_cost_query q = {LW_OP_ALL_GATHER, LW_F32, INT64_C(1) << 40, 2, 1, LW_REDUCER_NCCL};

    assert_int_equal(lw_cluster_find("dgx-a100", &c, NULL), LW_OK);
    assert_int_equal(lw_sim_cost_explain(&c, &q, &raw, NULL), LW_OK);
    double us = ((double)raw.time + (double)raw.beyond) / 1e6;
    assert_true(fabs(us - 24.7 - 549755.813888 / .24) < 1e-3 * us);
    lw_cluster_free(&c);
}

/* Two tables of ratio 4 around the curve, and two of 0.2: the curve is 4^(1/1.9), so each is
 * log 4 (1 - 1/1.9) = 0.6567 away. */
TEST(spread_is_that_of_the_tables_of_a_place_and_of_two_more)
{
    const struct sim_nccl_measured t[2] = {flat("a", 4), flat("b", 4)};
    const struct sim_nccl_spot at = {SIM_NCCL_ON_NVLINK, 1 << 16}, pci = {SIM_NCCL_ON_PCI, 1 << 16};
    double away = log(4) * (1 - 1 / 1.9);
    int n;

    assert_true(fabs(sim_nccl_spread(t, 2, -1, &at, &n) -
                     sqrt((2 * away * away + 2 * 0.04) / 4 * 1.25)) < 1e-9);
    assert_int_equal(n, 2);
    assert_true(fabs(sim_nccl_spread(t, 2, -1, &pci, &n) - sqrt(0.04 * 1.5)) < 1e-9);
    assert_int_equal(n, 0);
    assert_true(fabs(sim_nccl_p90_over_p50(1) - exp(1.2815515655446004)) < 1e-9);
}

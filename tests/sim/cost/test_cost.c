/* Costs of communication against their closed forms, and measured tables between and beyond
 * rows. */
#include "tests/lib/unit.h"

#include <math.h>
#include <string.h>

#include "sim/cost/cost_model.h"
#include "tests/lib/sim/sim_help.h"

static lw_ps time_of(const struct lw_cluster *c, enum lw_op_kind op, int64_t bytes, int32_t n_ranks,
                     int32_t n_nodes)
{
    struct lw_cost cost = lw_sim_cost(c);
    struct lw_cost_query q = {op, LW_F32, bytes, n_ranks, n_nodes, LW_REDUCER_AUTO};

    return cost.time(cost.ctx, &q);
}

/* 1e9 B/s: 1000 ps a byte; latency 7 ps; 4 ranks, 4000 bytes: chunk 1000 bytes. */
TEST(closed_forms_are_exact)
{
    static const struct {
        enum lw_op_kind op;
        int64_t bytes;
        int32_t n;
        lw_ps expected;
    } cases[] = {
        {LW_OP_ALL_REDUCE, 4000, 4, 6 * (1000000 + 7)},
        {LW_OP_REDUCE_SCATTER, 4000, 4, 3 * (1000000 + 7)},
        {LW_OP_ALL_GATHER, 4000, 4, 3 * (1000000 + 7)},
        {LW_OP_ALL_TO_ALL, 4000, 4, 3 * (1000000 + 7)},
        {LW_OP_BROADCAST, 4000, 4, 4000000 + 3 * 7},
        {LW_OP_REDUCE, 4000, 4, 4000000 + 3 * 7},
        {LW_OP_SEND, 4000, 2, 4000000 + 7},
        {LW_OP_RECV, 4000, 2, 4000000 + 7},
        {LW_OP_BARRIER, 0, 4, 6 * 7},
        {LW_OP_ALL_REDUCE, 4000, 1, 0},
        {LW_OP_ALL_REDUCE, 0, 4, 6 * 7},
        {LW_OP_ALL_REDUCE, 40, 4, 6 * (12000 + 7)}, /* 10 floats: the largest part has 3 */
        {LW_OP_ALL_REDUCE, 10, 4, 6 * (3000 + 7)},  /* no whole floats: bytes */
    };
    struct lw_cluster c;

    make_cluster(&c, 8, 1e9, 7);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(time_of(&c, cases[i].op, cases[i].bytes, cases[i].n, 1),
                         cases[i].expected);
    lw_cluster_free(&c);
}

/* Two nodes of four devices; inside 4 links of 1e9 B/s and 7 ps, between nodes 2 links of 1e9
 * B/s a node and 100 ps. A ring over all 8 gets both links: 2e9 B/s, slower than 4e9 inside. 14
 * steps: one trip of 8 hops crosses nodes twice, the 6 hops left over cross twice: 4 x 100 + 10
 * x 7. A group of one device of each node gets a quarter of the node's links: 0.5e9 B/s. */
TEST(groups_over_nodes_pay_the_slowest_link_and_their_share)
{
    struct lw_cluster c;

    make_cluster(&c, 4, 1e9, 7);
    c.n_nodes = 2;
    c.links[0].n_links = given(4);
    c.links[1] = (struct lw_link){.name = "nic", .level = LW_LINK_INTER, .bytes_per_s = given(1e9),
                                  .latency_ps = given(100), .n_links = given(2)};
    c.n_links = 2;
    assert_int_equal(time_of(&c, LW_OP_ALL_REDUCE, 32000, 4, 1), 6 * (8000 * 250 + 7));
    assert_int_equal(time_of(&c, LW_OP_ALL_REDUCE, 32000, 8, 2),
                     14 * (4000 * 500) + 4 * 100 + 10 * 7);
    assert_int_equal(time_of(&c, LW_OP_ALL_REDUCE, 32000, 2, 2), 2 * (16000 * 2000 + 100));
    assert_int_equal(time_of(&c, LW_OP_SEND, 1000, 2, 2), 1000 * 2000 + 100);
    lw_cluster_free(&c);
}

static const int64_t sizes[] = {1000, 4000, 64000};
static const lw_ps times[] = {10000000, 40000000, 160000000};

/* 1000 -> 4000 bytes: 10 -> 40 us, slope 1: at 2000 bytes 20 us. 4000 -> 64000: 40 -> 160 us,
 * slope log 4 / log 16 = 1/2: at 16000 bytes 80 us. Beyond: 120 us for 60000 bytes more, 2000 ps
 * a byte. */
TEST(tables_are_exact_at_rows_and_straight_on_log_axes_between)
{
    static const struct {
        int64_t bytes;
        lw_ps expected;
        const char *detail;
    } cases[] = {
        {1000, 10000000, "measured"},
        {4000, 40000000, "measured"},
        {64000, 160000000, "measured"},
        {2000, 20000000, "between measured sizes"},
        {16000, 80000000, "between measured sizes"},
        {1, 10000000, "below the smallest measured size"},
        {0, 10000000, "below the smallest measured size"},
        {124000, 280000000, "beyond the largest measured size"},
    };
    struct lw_cluster c;
    struct lw_cost_answer a;

    make_cluster(&c, 2, 1e9, 0);
    add_table(&c, LW_OP_ALL_REDUCE, 2, 1, 3, sizes, times);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lw_cost_query q = {LW_OP_ALL_REDUCE, LW_F32, cases[i].bytes, 2, 1,
                                  LW_REDUCER_AUTO};
        assert_int_equal(lw_sim_cost_explain(&c, &q, &a, NULL), LW_OK);
        assert_int_equal(a.time, cases[i].expected);
        assert_string_equal(a.detail, cases[i].detail);
        assert_string_equal(a.model, "table");
        assert_string_equal(a.source, "test table");
    }
    lw_cluster_free(&c);
}

TEST(a_table_of_one_row_goes_on_in_proportion)
{
    struct lw_cluster c;

    make_cluster(&c, 2, 1e9, 0);
    add_table(&c, LW_OP_ALL_REDUCE, 2, 1, 1, sizes, times);
    assert_int_equal(time_of(&c, LW_OP_ALL_REDUCE, 3000, 2, 1), 30000000);
    lw_cluster_free(&c);
}

TEST(a_table_wins_only_where_it_fits)
{
    static const lw_ps other[] = {1, 2, 3};
    struct lw_cluster c;

    make_cluster(&c, 4, 1e9, 0);
    add_table(&c, LW_OP_ALL_REDUCE, 2, 2, 3, sizes, other); /* two in flight */
    add_table(&c, LW_OP_ALL_REDUCE, 2, 1, 3, sizes, times);
    c.tables[1].dtype = LW_BF16;
    assert_int_equal(time_of(&c, LW_OP_ALL_REDUCE, 1000, 2, 1), 10000000); /* any dtype will do */
    add_table(&c, LW_OP_ALL_REDUCE, 2, 1, 3, sizes, other);
    assert_int_equal(time_of(&c, LW_OP_ALL_REDUCE, 1000, 2, 1), 1); /* its own is better */
    assert_int_equal(time_of(&c, LW_OP_ALL_REDUCE, 1000, 4, 1), 6 * 252000); /* 63 floats */
    assert_int_equal(time_of(&c, LW_OP_BROADCAST, 1000, 2, 1), 1000000);
    lw_cluster_free(&c);
}

TEST(bus_bandwidth_corrects_for_the_algorithm)
{
    struct lw_cost_query q = {LW_OP_ALL_REDUCE, LW_F32, 1000000, 4, 1, LW_REDUCER_AUTO};

    /* 1 MB in 1 ms: 1e9 B/s; all-reduce 2 * 3/4, all-gather 3/4, broadcast 1 */
    assert_true(fabs(lw_sim_algbw(&q, 1000000000) - 1e9) < 1);
    assert_true(fabs(lw_sim_busbw(&q, 1000000000) - 1.5e9) < 1);
    q.op = LW_OP_ALL_GATHER;
    assert_true(fabs(lw_sim_busbw(&q, 1000000000) - 0.75e9) < 1);
    q.op = LW_OP_BROADCAST;
    assert_true(fabs(lw_sim_busbw(&q, 1000000000) - 1e9) < 1);
    assert_true(lw_sim_busbw(&q, 0) == 0);
}

TEST(refusal_names_the_missing_figure)
{
    static const struct {
        struct lw_cost_query q;
        enum lw_status expected;
        const char *says;
    } cases[] = {
        {{LW_OP_ALL_REDUCE, LW_F32, 8, 2, 2, LW_REDUCER_AUTO},
         LW_ENOTSUP,
         "no bandwidth for its inter-node link"},
        {{LW_OP_ALL_REDUCE, LW_F32, -8, 2, 1, LW_REDUCER_AUTO}, LW_EINVAL, "-8 bytes"},
        {{LW_OP_ALL_REDUCE, LW_F32, 8, 0, 1, LW_REDUCER_AUTO}, LW_EINVAL, "0 ranks"},
        {{LW_OP_ALL_REDUCE, LW_F32, 8, 2, 3, LW_REDUCER_AUTO}, LW_EINVAL, "3 nodes"},
        {{LW_OP_FORWARD, LW_F32, 8, 2, 1, LW_REDUCER_AUTO},
         LW_EINVAL,
         "'forward' is not communication"},
    };
    struct lw_cluster c;

    make_cluster(&c, 4, 1e9, 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lw_cost_answer a = {.time = -5};
        struct lw_err err = {0};
        struct lw_cost cost = lw_sim_cost(&c);
        assert_int_equal(lw_sim_cost_explain(&c, &cases[i].q, &a, &err), cases[i].expected);
        assert_non_null(strstr(err.msg, cases[i].says));
        assert_int_equal(a.time, -5);
        assert_int_equal(cost.time(cost.ctx, &cases[i].q), -1);
    }
    lw_cluster_free(&c);
}

/* Tables of collectives from the steps of one rank or of all. */
#include "tests/lib/unit.h"
#include <string.h>

#include "tests/lib/traces/step_help.h"
#include "traces/workload/to_cluster.h"

static const struct traces_memory memory = {4e9, "by hand"};

/* One rank of a run of two: all-reduces of 30 and 40 floats. */
static struct traces_source make_rank(int64_t first, int64_t second)
{
    struct imported x = import_begin();

    x.s.parallel = true;
    x.s.trace.world_size = 2;
    put_step(&x.s.trace, 5000, "ProfilerStep#3", true);
    put_row(&x.s.trace, LW_ROW_USER, "gloo:all_reduce", 5470, 5470 + first, -1, 30);
    put_row(&x.s.trace, LW_ROW_USER, "gloo:all_reduce", 5710, 5710 + second, -1, 40);
    import_sort(&x);
    return x.s;
}

TEST(one_ranks_collectives_are_upper_bounds)
{
    struct traces_source s = make_rank(130, 18);
    struct lw_cluster c;

    assert_int_equal(lw_cluster_from_traces(&s, 1, &memory, &c, NULL), LW_OK);
    assert_int_equal(c.n_tables, 1);
    assert_int_equal(c.tables[0].op, LW_OP_ALL_REDUCE);
    assert_int_equal(c.tables[0].n_ranks, 2);
    assert_int_equal(c.tables[0].n_in_flight, 1);
    assert_int_equal(c.tables[0].n_rows, 2);
    assert_int_equal(c.tables[0].bytes[0], 120);
    assert_int_equal(c.tables[0].time_ps[0], 130000);
    assert_int_equal(c.tables[0].bytes[1], 160);
    assert_int_equal(c.tables[0].time_ps[1], 18000);
    assert_non_null(strstr(c.tables[0].source, "upper bounds"));
    /* what plans need beside it: the largest, 160 bytes in 18 ns, moves 2(2-1)/2 of them over the
     * link; the smallest takes 130 ns for 2(2-1) steps; a copy reads and writes 4 GB/s */
    assert_int_equal(c.n_links, 1);
    assert_true(c.links[0].bytes_per_s.value == 160 / 18e-9);
    assert_true(c.links[0].latency_ps.value == 65000);
    assert_true(c.device.memory_bytes_per_s.value == 4e9);
    assert_true(c.device.copy_bytes_per_s.value == 2e9);
    lw_cluster_free(&c);
    traces_source_free(&s);
}

TEST(of_all_ranks_the_shortest_time_counts)
{
    struct traces_source s[2] = {make_rank(130, 18),
                                 make_rank(90, 19)}; /* came later to the first, waited in the second */
    struct lw_cluster c;

    assert_int_equal(lw_cluster_from_traces(s, 2, &memory, &c, NULL), LW_OK);
    assert_int_equal(c.tables[0].time_ps[0], 90000);
    assert_int_equal(c.tables[0].time_ps[1], 18000);
    assert_non_null(strstr(c.tables[0].source, "shortest over ranks"));
    lw_cluster_free(&c);
    traces_source_free(&s[0]);
    traces_source_free(&s[1]);
}

TEST(collectives_that_overlap_count_as_two_in_flight)
{
    struct traces_source s = make_rank(300, 18);
    struct lw_cluster c;

    assert_int_equal(lw_cluster_from_traces(&s, 1, &memory, &c, NULL), LW_OK);
    assert_int_equal(c.n_tables, 1);
    assert_int_equal(c.tables[0].n_in_flight, 2);
    lw_cluster_free(&c);
    traces_source_free(&s);
}

/* Tables of collectives from the steps of one rank or of all. */
#include "tests/lib/unit.h"
#include <math.h>
#include <string.h>

#include "shared/cluster/measured.h"
#include "shared/plan/op.h"
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
    /* what plans need beside it: 160 bytes in 18 ns move 2(2-1)/2 of them over the link; 120 bytes
     * are too near to give a latency; a copy reads and writes 4 GB/s */
    assert_int_equal(c.n_links, 1);
    assert_true(fabs(c.links[0].bytes_per_s.value / (160 / 18e-9) - 1) < 1e-12);
    assert_true(c.links[0].latency_ps.value == 0);
    assert_non_null(strstr(c.links[0].latency_ps.source, "taken as 0"));
    assert_true(c.device.memory_bytes_per_s.value == 4e9);
    assert_true(c.device.copy_bytes_per_s.value == 2e9);
    lw_cluster_free(&c);
    traces_source_free(&s);
}

/* 120 bytes in 60 ns and 160 in 66: 0.15 ns a byte and 42 ns that do not grow with the bytes. Of
 * these twice the shortest collective, a broadcast of 8 ns, is latency: 26 ns of waiting. */
TEST(what_does_not_grow_with_the_bytes_is_said_to_be_counted_per_bucket)
{
    struct traces_source s = make_rank(60, 66);
    struct lw_cluster c;

    put_row(&s.trace, LW_ROW_USER, "gloo:broadcast", 5100, 5108, -1, 10);
    lw_steps_free(&s.steps);
    assert_int_equal(lw_trace_sort(&s.trace, NULL), LW_OK);
    assert_int_equal(lw_steps_find(&s.trace, &s.steps, NULL), LW_OK);
    assert_int_equal(lw_cluster_from_traces(&s, 1, &memory, &c, NULL), LW_OK);
    assert_int_equal(c.tables[0].n_rows, 2);
    assert_non_null(strstr(c.tables[0].source, "26.000 ns of each do not grow with the bytes"));
    assert_non_null(strstr(c.tables[0].source, "the smallest recorded, the time stays 60.000 ns"));
    assert_null(strstr(c.tables[1].source, "do not grow"));
    lw_cluster_free(&c);
    traces_source_free(&s);
}

/* FSDP2 over gloo: a gather's event has one rank's part, and a sum that is scattered runs as an
 * all-reduce of the whole. */
TEST(gathers_are_of_the_whole_and_scattered_sums_are_all_reduces)
{
    struct imported x = import_begin();
    struct lw_cluster c;

    x.s.parallel = true;
    x.s.trace.world_size = 2;
    put_step(&x.s.trace, 5000, "ProfilerStep#3", true);
    put_row(&x.s.trace, LW_ROW_HOST, "c10d::_allgather_base_", 5100, 5110, -1, -1);
    put_row(&x.s.trace, LW_ROW_USER, "gloo:all_gather", 5110, 5150, -1, 100);
    put_row(&x.s.trace, LW_ROW_HOST, "c10d::_reduce_scatter_base_", 5715, 5720, -1, -1);
    put_row(&x.s.trace, LW_ROW_USER, "gloo:all_reduce", 5720, 5728, -1, 200);
    import_sort(&x);
    assert_int_equal(lw_cluster_from_traces(&x.s, 1, &memory, &c, NULL), LW_OK);
    int found = 0;
    for (int32_t i = 0; i < c.n_tables; i++) {
        assert_int_equal(c.tables[i].bytes[0], 800); /* 2 x 100 floats, 200 floats */
        found += c.tables[i].op == LW_OP_ALL_GATHER && c.tables[i].time_ps[0] == 40000;
        found += c.tables[i].op == LW_OP_REDUCE_SCATTER && c.tables[i].time_ps[0] == 8000;
        found += c.tables[i].op == LW_OP_ALL_REDUCE && c.tables[i].time_ps[0] == 8000;
    }
    assert_int_equal(found, 3);
    assert_int_equal(c.n_tables, 3);
    lw_cluster_free(&c);
    traces_source_free(&x.s);
}

/* 480 kB in 1.16 ms and 640 kB in 1.2: beyond 0.2 ms 2 ns a byte, of all 2.107; below 480 kB half
 * of them in 0.2 + 0.48, a quarter 0.2 + 0.24, ... */
TEST(sizes_that_were_not_recorded_follow_the_recorded_rate)
{
    struct traces_source s[2];
    struct lw_cluster c;

    for (int i = 0; i < 2; i++) {
        struct imported x = import_begin();
        x.s.parallel = true;
        x.s.trace.world_size = 2;
        put_step(&x.s.trace, 5000, "ProfilerStep#3", true);
        x.s.trace.dur_ns[0] = 9000000;
        put_row(&x.s.trace, LW_ROW_USER, "gloo:all_reduce", 5470, 5470 + 1160000, -1, 120000);
        put_row(&x.s.trace, LW_ROW_USER, "gloo:all_reduce", 2000000, 3200000 + i, -1, 160000);
        import_sort(&x);
        s[i] = x.s;
    }
    assert_int_equal(lw_cluster_from_traces(s, 2, &memory, &c, NULL), LW_OK);
    const struct lw_cost_table *t = &c.tables[0];
    assert_int_equal(t->bytes[0], 4);
    assert_int_equal(t->time_ps[0], 200000000);
    int32_t k = 0;
    while (t->bytes[k] != 480000)
        k++;
    assert_int_equal(t->bytes[k - 1], 240000);
    assert_int_equal(t->time_ps[k - 1], 680000000);
    assert_int_equal(t->bytes[k - 2], 120000);
    assert_int_equal(t->time_ps[k - 2], 440000000);
    assert_int_equal(t->time_ps[k], 1160000000);
    assert_int_equal(t->bytes[k + 2], 8 * 640000);
    double more = 2360000000.0 / 1120000 * 7 * 640000;
    assert_true(fabs((double)t->time_ps[k + 2] - (1200000000.0 + more)) < 2);
    assert_non_null(strstr(t->source, "nothing was recorded: assumed as in a replay"));
    lw_cluster_free(&c);
    traces_source_free(&s[0]);
    traces_source_free(&s[1]);
}

TEST(of_all_ranks_the_shortest_time_counts)
{
    struct traces_source s[2] = {make_rank(130, 18),
                                 /* came later to the first, waited in the second */
                                 make_rank(90, 19)};
    struct lw_cluster c;

    assert_int_equal(lw_cluster_from_traces(s, 2, &memory, &c, NULL), LW_OK);
    const struct lw_cost_table *t = &c.tables[0];
    int32_t k = 0;
    while (t->bytes[k] != 120)
        k++;
    assert_int_equal(t->time_ps[k], 90000);
    assert_int_equal(t->time_ps[k + 1], 18000);
    assert_non_null(strstr(c.tables[0].source, "shortest over ranks"));
    lw_cluster_free(&c);
    traces_source_free(&s[0]);
    traces_source_free(&s[1]);
}

static void link_is(int64_t a, lw_ps in_a, int64_t b, lw_ps in_b, double bytes_per_s,
                    double latency)
{
    const int64_t bytes[] = {a, b};
    const lw_ps time[] = {in_a, in_b};
    struct lw_cost_table t = {.op = LW_OP_ALL_REDUCE, .n_ranks = 2, .n_rows = 2, .bytes = bytes,
                              .time_ps = time};
    double rate, latency_ps;

    assert_int_equal(traces_link_of_rows(&t, &rate, &latency_ps), latency > 0);
    assert_true(fabs(rate / bytes_per_s - 1) < 1e-12);
    assert_true(latency_ps == latency);
}

/* 1000 B in 3 us and 5000 B in 7 us: 1 ns a byte and 2 us at no bytes, 1 us a step. 5.02 MiB twice:
 * one row. A time that grows faster than the bytes, or falls, has no latency. */
TEST(a_link_has_a_latency_only_from_rows_of_different_sizes)
{
    link_is(1000, 3000000, 5000, 7000000, 1e9, 1000000);
    link_is(2500, 4500000, 5000, 7000000, 1e9, 1000000);
    link_is(1000, 3000000, 4000, 7000000, 750e6, 833333); /* 1.6667 us in 2 steps */
    link_is(2501, 4500000, 5000, 7000000, 5000 / 7e-6, 0);
    link_is(5263360, 11941906000, 5265408, 12197837000, 5265408 / 12.197837e-3, 0);
    link_is(1000, 1000000, 5000, 7000000, 5000 / 7e-6, 0);
    link_is(1000, 9000000, 5000, 7000000, 5000 / 7e-6, 0);
}

/* [5470,5770) and [5710,5728): 240 alone, 18 of which the first gets half, 42 alone. */
TEST(collectives_that_overlap_share_the_link)
{
    struct traces_source s = make_rank(300, 18);
    struct lw_cluster c;

    assert_int_equal(lw_cluster_from_traces(&s, 1, &memory, &c, NULL), LW_OK);
    assert_int_equal(c.n_tables, 1);
    assert_int_equal(c.tables[0].n_in_flight, 1);
    assert_int_equal(c.tables[0].time_ps[0], 291000);
    assert_int_equal(c.tables[0].time_ps[1], 9000);
    lw_cluster_free(&c);
    traces_source_free(&s);
}

/* n all-reduces: the i-th of 10 + i floats, from 6000 + 2i to 6000 + gap + 2i ns. */
static struct traces_source make_overlapping(int64_t n, int64_t gap)
{
    struct imported x = import_begin();

    x.s.parallel = true;
    x.s.trace.world_size = 2;
    put_step(&x.s.trace, 5000, "ProfilerStep#3", true);
    x.s.trace.dur_ns[0] = 1000000000;
    for (int64_t i = 0; i < n; i++)
        put_row(&x.s.trace, LW_ROW_USER, "gloo:all_reduce", 6000 + 2 * i, 6000 + gap + 2 * i, -1,
                10 + i);
    import_sort(&x);
    return x.s;
}

/* All n are in flight after the last start and until the first end: from the i-th start to it
 * 2 / (i + 1) + ... + 2 / (n - 1), as much from the first end on to the last but i-th, and
 * (gap - 2 (n - 1)) / n between. */
static int64_t alone_of(int64_t n, int64_t gap, int64_t i)
{
    double ns = (double)(gap - 2 * (n - 1)) / (double)n;

    for (int64_t k = i + 1; k < n; k++) /* k in flight between two starts */
        ns += 2.0 / (double)k;
    for (int64_t k = n - i; k < n; k++) /* and between two ends */
        ns += 2.0 / (double)k;
    return (int64_t)(ns + 0.5);
}

static void overlapping_share_evenly(int64_t n, int64_t gap)
{
    struct traces_source s = make_overlapping(n, gap);
    struct lw_cluster c;

    assert_int_equal(lw_cluster_from_traces(&s, 1, &memory, &c, NULL), LW_OK);
    assert_int_equal(c.tables[0].n_rows, n);
    for (int64_t i = 0; i < n; i++) {
        assert_int_equal(c.tables[0].bytes[i], 4 * (10 + i));
        assert_int_equal(c.tables[0].time_ps[i], 1000 * alone_of(n, gap, i));
    }
    lw_cluster_free(&c);
    traces_source_free(&s);
}

/* Of four: 2 + 1 + 2/3 before, 994 / 4 = 248.5 with all, 2/3 + 1 + 2 after. The cost of thousands
 * may not grow with the cube of their number: that would take minutes. */
TEST(thousands_of_collectives_that_overlap_share_the_link)
{
    assert_int_equal(alone_of(4, 1000, 0), 252); /* 248.5 + 3.67 */
    assert_int_equal(alone_of(4, 1000, 1), 251); /* 248.5 + 1.67 + 0.67 */
    overlapping_share_evenly(4, 1000);
    overlapping_share_evenly(3000, 30000017);
}

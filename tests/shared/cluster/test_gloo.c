/* Clusters of gloo on CPUs, completed: shared/cluster/gloo.c, docs/design/gloo.md. */
#include "tests/lib/unit.h"

#include <string.h>

#include "shared/base/arena.h"
#include "shared/cluster/cluster.h"
#include "shared/cluster/gloo.h"
#include "shared/cluster/measured.h"

static const lw_ps us = LW_PS_PER_US;

static const int64_t bytes[] = {1000, 2000, 1000000};
static const lw_ps times[] = {3000000000, 500000000, 8000000000}; /* 3, 0.5 and 8 ms */

/* Tables of these operations on n ranks, each with those rows. */
static struct lw_cluster measured(const enum lw_op_kind *ops, int n_ops, int32_t n_ranks)
{
    struct lw_cluster c = {.name = "t", .n_nodes = n_ranks, .devices_per_node = 1, .library = "",
                           .library_version = "", .about = "", .device.kind = "unknown"};

    c.tables = lw_arena_alloc(&c.arena, n_ops, sizeof *c.tables);
    assert_non_null(c.tables);
    c.n_tables = n_ops;
    for (int i = 0; i < n_ops; i++) {
        int32_t n = ops[i] == LW_OP_SEND ? 2 : n_ranks;
        c.tables[i] = (struct lw_cost_table){ops[i], LW_F32, n, n, 1, 3, bytes, times, NULL, NULL,
                                             "a table"};
    }
    return c;
}

static const struct lw_cost_table *table_of(const struct lw_cluster *c, enum lw_op_kind op)
{
    for (int32_t i = 0; i < c->n_tables; i++)
        if (c->tables[i].op == op)
            return &c->tables[i];
    return NULL;
}

static struct lw_cluster completed(const enum lw_op_kind *ops, int n_ops, int32_t n_ranks)
{
    struct lw_cluster c = measured(ops, n_ops, n_ranks);
    struct lw_err err = {0};

    assert_ok(lw_gloo_complete(&c, &err), err);
    assert_ok(lw_cluster_check(&c, &err), err);
    return c;
}

/* 1000 bytes took 3 ms where 2000 took 0.5: the slow mode of small messages. */
TEST(a_size_costs_no_more_than_a_larger_one)
{
    struct lw_cluster c = completed((enum lw_op_kind[]){LW_OP_ALL_REDUCE}, 1, 2);
    const struct lw_cost_table *t = table_of(&c, LW_OP_ALL_REDUCE);

    assert_int_equal(t->time_ps[0], 500 * us);
    assert_int_equal(t->time_ps[1], 500 * us);
    assert_int_equal(t->time_ps[2], 8000 * us);
    assert_non_null(strstr(t->source, "a size costs no more than a larger one"));
    lw_cluster_free(&c);
}

/* 425 ps a byte that is sent or received. Of two ranks an all-reduce of B sends B and receives B,
 * and a reduce-scatter is an all-reduce; an all-gather sends and receives B/2; each end of a
 * message has B. The all-gather follows from messages, so its rows are of 2 x 10^6 bytes. */
TEST(cpu_times_follow_from_the_bytes_that_a_member_moves)
{
    static const struct {
        enum lw_op_kind op;
        lw_ps cpu;
    } rows[] = {{LW_OP_ALL_REDUCE, 850000000}, {LW_OP_REDUCE_SCATTER, 850000000},
                {LW_OP_ALL_GATHER, 850000000}, {LW_OP_SEND, 425000000},
                {LW_OP_BROADCAST, 425000000}};
    struct lw_cluster c = completed((enum lw_op_kind[]){LW_OP_ALL_REDUCE, LW_OP_SEND}, 2, 2);

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct lw_cost_table *t = table_of(&c, rows[i].op);
        assert_non_null(t);
        assert_int_equal(t->cpu_ps[2], rows[i].cpu);
    }
    lw_cluster_free(&c);
}

/* Of four ranks, from messages of b bytes in time t: all-reduce of 4 b in 6 t, all-gather of 4 b in
 * 3 t, broadcast of b in 2 t; the reduce-scatter is that all-reduce. */
TEST(operations_that_were_not_measured_follow_from_messages)
{
    struct lw_cluster c = measured((enum lw_op_kind[]){LW_OP_SEND, LW_OP_REDUCE_SCATTER}, 2, 4);
    struct lw_err err = {0};

    c.tables[0].n_nodes = 2;
    assert_ok(lw_gloo_complete(&c, &err), err);
    const struct lw_cost_table *reduce = table_of(&c, LW_OP_ALL_REDUCE);
    const struct lw_cost_table *gather = NULL, *broadcast = NULL;
    for (int32_t i = 0; i < c.n_tables; i++) {
        if (c.tables[i].n_ranks != 4)
            continue;
        reduce = c.tables[i].op == LW_OP_ALL_REDUCE ? &c.tables[i] : reduce;
        gather = c.tables[i].op == LW_OP_ALL_GATHER ? &c.tables[i] : gather;
        broadcast = c.tables[i].op == LW_OP_BROADCAST ? &c.tables[i] : broadcast;
    }
    assert_int_equal(reduce->bytes[2], 4000000);
    assert_int_equal(reduce->time_ps[2], 6 * 8000 * us);
    assert_int_equal(gather->bytes[2], 4000000);
    assert_int_equal(gather->time_ps[2], 3 * 8000 * us);
    assert_int_equal(broadcast->bytes[2], 1000000);
    assert_int_equal(broadcast->time_ps[2], 2 * 8000 * us);
    assert_non_null(strstr(broadcast->source, "assumed: a broadcast is a tree of messages"));
    lw_cluster_free(&c);
}

/* Each of two ranks sends the other half of what is gathered. */
TEST(a_message_follows_from_an_all_gather)
{
    struct lw_cluster c = completed((enum lw_op_kind[]){LW_OP_ALL_GATHER}, 1, 2);
    const struct lw_cost_table *t = table_of(&c, LW_OP_SEND);

    assert_int_equal(t->bytes[2], 500000);
    assert_int_equal(t->time_ps[2], 8000 * us);
    lw_cluster_free(&c);
}

TEST(a_measured_operation_stays)
{
    struct lw_cluster c =
        completed((enum lw_op_kind[]){LW_OP_ALL_REDUCE, LW_OP_BROADCAST}, 2, 2);
    int n = 0;

    for (int32_t i = 0; i < c.n_tables; i++)
        n += c.tables[i].op == LW_OP_BROADCAST;
    assert_int_equal(n, 1);
    assert_null(strstr(table_of(&c, LW_OP_BROADCAST)->source, "a broadcast"));
    lw_cluster_free(&c);
}

TEST(figures_are_filled_and_say_that_they_are_assumed)
{
    struct lw_cluster c = completed((enum lw_op_kind[]){LW_OP_ALL_REDUCE}, 1, 2);

    assert_true(c.device.copy_bytes_per_s.value == 4e9);
    assert_true(c.interference.comm_workers.value == 2);
    assert_true(c.interference.comm_on_compute_core.value == 1);
    assert_true(c.interference.shared_link.value == 1);
    assert_int_equal(strncmp(c.device.copy_bytes_per_s.source, "assumed: ", 9), 0);
    lw_cluster_free(&c);
}

/* A figure that the user added stays, and clusters of other libraries or with links do. */
TEST(what_is_known_is_not_replaced)
{
    struct lw_cluster c = measured((enum lw_op_kind[]){LW_OP_ALL_REDUCE}, 1, 2);
    struct lw_err err = {0};

    c.device.copy_bytes_per_s = (struct lw_figure){9e9, "mine"};
    assert_ok(lw_gloo_complete(&c, &err), err);
    assert_true(c.device.copy_bytes_per_s.value == 9e9);
    lw_cluster_free(&c);
    c = measured((enum lw_op_kind[]){LW_OP_ALL_REDUCE}, 1, 2);
    c.library = "nccl";
    assert_ok(lw_gloo_complete(&c, &err), err);
    assert_int_equal(c.n_tables, 1);
    assert_false(lw_figure_is_set(c.device.copy_bytes_per_s));
    lw_cluster_free(&c);
    c = measured((enum lw_op_kind[]){LW_OP_ALL_REDUCE}, 1, 2);
    c.library = "gloo"; /* named: only operations are added */
    assert_ok(lw_gloo_complete(&c, &err), err);
    assert_true(c.n_tables > 1);
    assert_int_equal(table_of(&c, LW_OP_ALL_REDUCE)->time_ps[0], 3000 * us);
    assert_false(lw_figure_is_set(c.device.copy_bytes_per_s));
    lw_cluster_free(&c);
}

TEST(without_memory_it_fails)
{
    int64_t n = 1;
    enum lw_status status = LW_ENOMEM;

    for (; status == LW_ENOMEM; n++) {
        enum lw_op_kind ops[500];
        for (int i = 0; i < 500; i++)
            ops[i] = LW_OP_ALL_REDUCE;
        struct lw_cluster c = measured(ops, 500, 2);
        struct lw_err err = {0};
        for (int i = 0; i < 500; i++)
            c.tables[i].n_ranks = c.tables[i].n_nodes = 2 + i;
        lw_alloc_fail_at(n);
        status = lw_gloo_complete(&c, &err);
        lw_alloc_fail_at(0);
        lw_cluster_free(&c);
    }
    assert_int_equal(status, LW_OK);
    assert_true(n > 3);
}

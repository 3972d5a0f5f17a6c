/* Clusters and plans that the simulator's tests share. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "sim/bench_plan.h"
#include "tests/sim_help.h"

struct lw_figure given(double value)
{
    return (struct lw_figure){value, "test"};
}

void make_cluster(struct lw_cluster *c, int32_t n, double bytes_per_s, lw_ps latency)
{
    *c = (struct lw_cluster){.name = "test", .n_nodes = 1, .devices_per_node = n, .library = "",
                             .library_version = "", .about = ""};
    c->links = lw_arena_alloc(&c->arena, 2, sizeof *c->links);
    c->exceptions = lw_arena_alloc(&c->arena, 16, sizeof *c->exceptions);
    c->tables = lw_arena_alloc(&c->arena, 16, sizeof *c->tables);
    assert_non_null(c->tables);
    c->n_links = 1;
    c->links[0] = (struct lw_link){.name = "link", .level = LW_LINK_INTRA,
                                   .bytes_per_s = given(bytes_per_s),
                                   .latency_ps = given((double)latency)};
}

void add_exception(struct lw_cluster *c, struct lw_exception x)
{
    c->exceptions[c->n_exceptions++] = x;
}

void add_table(struct lw_cluster *c, enum lw_op_kind op, int32_t n_ranks, int32_t n_in_flight,
               int32_t n_rows, const int64_t *bytes, const lw_ps *time_ps)
{
    c->tables[c->n_tables++] =
        (struct lw_cost_table){.op = op, .n_ranks = n_ranks, .n_nodes = 1,
                               .n_in_flight = n_in_flight, .n_rows = n_rows, .bytes = bytes,
                               .time_ps = time_ps, .source = "test table"};
}

struct lw_builder *begin_plan(const char *name, int32_t n_ranks)
{
    struct lw_builder *b = lw_builder_new(name, n_ranks);
    struct lw_role role = {.name = "all"};
    int32_t members[4096];

    assert_non_null(b);
    assert_true(n_ranks <= 4096);
    lw_builder_role(b, &role);
    for (int32_t r = 0; r < n_ranks; r++) {
        lw_builder_rank(b, r, 0, r, 0, 0);
        members[r] = r;
    }
    lw_builder_stream(b, "compute", LW_STREAM_COMPUTE, 0);
    lw_builder_stream(b, "comm", LW_STREAM_COMM, 1);
    lw_builder_comm(b, "data", LW_COMM_DATA, LW_REDUCER_AUTO, 1);
    lw_builder_group(b, 0, members, n_ranks);
    lw_builder_variant(b, "steady", "", true);
    lw_builder_program(b, 0, 0);
    return b;
}

void finish_plan(struct lw_builder *b, struct lw_plan *plan)
{
    struct lw_err err = {0};

    lw_builder_pass(b, 0);
    if (lw_builder_finish(b, plan, &err) != LW_OK)
        fail_msg("%s", err.msg);
}

static int32_t add(struct lw_builder *b, const struct lw_op *op, int32_t dep)
{
    return lw_builder_op(b, op, &dep, dep >= 0);
}

int32_t add_work(struct lw_builder *b, enum lw_op_kind kind, int32_t stream, lw_ps work,
                 int32_t dep)
{
    struct lw_op op = lw_builder_blank(kind, stream);

    op.work_ps = work;
    return add(b, &op, dep);
}

int32_t add_collective(struct lw_builder *b, enum lw_op_kind kind, int32_t comm, int32_t stream,
                       int64_t bytes, int32_t dep)
{
    struct lw_op op = lw_builder_blank(kind, stream);

    op.comm = comm;
    op.bytes = bytes;
    return add(b, &op, dep);
}

int32_t add_message(struct lw_builder *b, enum lw_op_kind kind, int32_t comm, int32_t stream,
                    int64_t bytes, int32_t peer, int32_t call, int32_t dep)
{
    struct lw_op op = lw_builder_blank(kind, stream);

    op.comm = comm;
    op.bytes = bytes;
    op.peer = peer;
    op.call = call;
    return add(b, &op, dep);
}

static void make_oracle(enum sim_bench which, struct lw_plan *plan, int32_t n_ranks)
{
    struct lw_err err = {0};

    if (sim_bench_plan(which, n_ranks, plan, &err) != LW_OK)
        fail_msg("%s", err.msg);
}

void make_w_ar(struct lw_plan *plan, int32_t n_ranks)
{
    make_oracle(SIM_BENCH_W_AR, plan, n_ranks);
}

void make_w_ddp(struct lw_plan *plan, int32_t n_ranks)
{
    make_oracle(SIM_BENCH_W_DDP, plan, n_ranks);
}

lw_ps w_ar_time(int32_t n_ranks)
{
    /* B / n bytes at 50e9 B/s = B / n * 20 ps */
    return 2 * ((lw_ps)n_ranks - 1) * (SIM_BENCH_BYTES / n_ranks * 20 + 500 * LW_PS_PER_NS);
}

lw_ps run_end(const struct lw_plan *plan, const struct lw_cluster *c, struct lw_sim_options o)
{
    struct lw_sim_stats stats;
    struct lw_err err = {0};

    if (lw_sim_run(plan, c, &o, NULL, &stats, &err) != LW_OK)
        fail_msg("%s", err.msg);
    return stats.end;
}

/* Reducers that name an algorithm of NCCL, on whole plans. */
#include "tests/lib/unit.h"

#include <string.h>

#include "shared/files/files.h"
#include "sim/cost/cost_model.h"
#include "sim/cost/cost_nccl.h"
#include "tests/lib/failing_alloc.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/sim/cost_help.h"
#include "tests/lib/sim/sim_help.h"

/* A broadcast, an all-gather and an all-reduce over all of n ranks; without all_reduce the first
 * two. */
static void plan_of(struct lw_plan *plan, int32_t n, enum lw_reducer_kind reducer, bool all_reduce)
{
    struct lw_builder *b = begin_plan("p", n);
    int32_t comm = add_class(b, n, reducer);

    int32_t k = add_work(b, LW_OP_KERNEL, 0, LW_PS_PER_US, -1);
    add_collective(b, LW_OP_BROADCAST, comm, 1, 1 << 20, k);
    add_collective(b, LW_OP_ALL_GATHER, comm, 1, 1 << 20, k);
    if (all_reduce)
        add_collective(b, LW_OP_ALL_REDUCE, comm, 1, 1 << 20, k);
    finish_plan(b, plan);
}

static lw_ps time_of(const struct lw_cluster *c, enum lw_op_kind op, enum lw_reducer_kind by)
{
    return ask(c, op, 1 << 20, 16, 2, by).time;
}

/* The all-reduce goes by tree, the rest as NCCL chooses, and one remark says so. */
TEST(other_operations_are_left_to_nccl_with_one_remark)
{
    struct lw_sim_options o = lw_sim_options_default();
    struct lw_plan plan;
    struct lw_cluster c = known("dgx-h100");
    struct lw_sim_stats s;

    plan_of(&plan, 16, LW_REDUCER_NCCL_TREE, true);
    assert_int_equal(lw_sim_run(&plan, &c, &o, NULL, &s, NULL), LW_OK);
    assert_int_equal(s.end, LW_PS_PER_US + time_of(&c, LW_OP_BROADCAST, LW_REDUCER_NCCL) +
                                time_of(&c, LW_OP_ALL_GATHER, LW_REDUCER_NCCL) +
                                time_of(&c, LW_OP_ALL_REDUCE, LW_REDUCER_NCCL_TREE));
    assert_int_equal(s.n_remarks, 1);
    assert_string_equal(s.remarks[0],
                        "reducer nccl:tree: NCCL's own choice where it has no such form: "
                        "broadcast on 16 ranks (ring/ll), all_gather on 16 ranks (ring/ll128)");
    lw_plan_free(&plan);
    plan_of(&plan, 16, LW_REDUCER_NCCL, true);
    assert_int_equal(lw_sim_run(&plan, &c, &o, NULL, &s, NULL), LW_OK);
    assert_int_equal(s.n_remarks, 0);
    lw_plan_free(&plan);
    lw_cluster_free(&c);
}

static void refused(const char *cluster, int32_t n, enum lw_reducer_kind k, bool all_reduce,
                    const char *words)
{
    struct lw_sim_options o = lw_sim_options_default();
    struct lw_plan plan;
    struct lw_cluster c = known(cluster);
    struct lw_sim_stats s;
    struct lw_err err = {0};

    plan_of(&plan, n, k, all_reduce);
    assert_int_equal(lw_sim_run(&plan, &c, &o, NULL, &s, &err), LW_ENOTSUP);
    if (!strstr(err.msg, words))
        fail_msg("'%s' does not say '%s'", err.msg, words);
    lw_plan_free(&plan);
    lw_cluster_free(&c);
}

TEST(reducer_that_no_operation_can_use_is_refused)
{
    refused("dgx-h100", 16, LW_REDUCER_NCCL_TREE, false, "by nccl:tree on 16 ranks of 2 nodes");
    refused("pcie-box", 4, LW_REDUCER_NVLS, true,
            "by nvls on 4 ranks of 1 node here (NVLS needs NVSwitch with multicast");
    refused("dgx-h100", 16, LW_REDUCER_NCCL_NVLS, false, "NVLS of several nodes needs");
}

/* The all-reduce by NVLS is possible, the broadcast by tree on another communicator is not. */
TEST(each_reducer_is_judged_by_its_own_operations)
{
    static const enum lw_reducer_kind second[] = {LW_REDUCER_NCCL_TREE, LW_REDUCER_NCCL_RING};

    for (int with_ring = 0; with_ring < 2; with_ring++) {
        struct lw_builder *b = begin_plan("p", 8);
        struct lw_sim_options o = lw_sim_options_default();
        struct lw_plan plan;
        struct lw_cluster c = known("dgx-h100");
        struct lw_sim_stats s;
        struct lw_err err = {0};
        int32_t members[8] = {0, 1, 2, 3, 4, 5, 6, 7}, comms[2];

        for (int k = 0; k < 2; k++) {
            comms[k] = lw_builder_comm(b, k ? "second" : "first", LW_COMM_DATA,
                                       k ? second[with_ring] : LW_REDUCER_NVLS, 1);
            lw_builder_group(b, comms[k], members, 8);
        }
        int32_t k = add_work(b, LW_OP_KERNEL, 0, LW_PS_PER_US, -1);
        add_collective(b, LW_OP_ALL_REDUCE, comms[0], 1, 1 << 20, k);
        add_collective(b, LW_OP_BROADCAST, comms[1], 1, 1 << 20, k);
        finish_plan(b, &plan);
        enum lw_status status = lw_sim_run(&plan, &c, &o, NULL, &s, &err);
        assert_int_equal(status, with_ring ? LW_OK : LW_ENOTSUP);
        if (!with_ring && !strstr(err.msg, "no broadcast by nccl:tree on 8 ranks"))
            fail_msg("'%s'", err.msg);
        lw_plan_free(&plan);
        lw_cluster_free(&c);
    }
}

static void count(void *ctx, const char *text)
{
    (void)text;
    ++*(int *)ctx;
}

/* Forty communicators with as many broadcasts: what is said is said once. */
TEST(many_communicators_of_one_reducer_have_one_remark)
{
    enum { N_COMMS = 40 };
    struct lw_builder *b = begin_plan("p", 16);
    int32_t members[16], said = 0;
    struct lw_plan plan;
    struct lw_cluster c = known("dgx-h100");

    for (int32_t r = 0; r < 16; r++)
        members[r] = r;
    int32_t k = add_work(b, LW_OP_KERNEL, 0, LW_PS_PER_US, -1);
    for (int32_t i = 0; i < N_COMMS; i++) {
        int32_t comm = lw_builder_comm(b, "data", LW_COMM_DATA, LW_REDUCER_NCCL_TREE, 1);
        lw_builder_group(b, comm, members, 16);
        add_collective(b, i == N_COMMS - 1 ? LW_OP_ALL_REDUCE : LW_OP_BROADCAST, comm, 1, 1 << 20,
                       k);
    }
    finish_plan(b, &plan);
    assert_int_equal(sim_nccl_check_plan(&c, &plan, count, &said, NULL), LW_OK);
    assert_int_equal(said, 1);
    EACH_ALLOCATION_FAILS_IN(1, sim_nccl_check_plan(&c, &plan, count, &said, NULL));
    lw_plan_free(&plan);
    lw_cluster_free(&c);
}

TEST(a_library_beyond_the_newest_is_remarked)
{
    struct lw_sim_options o = lw_sim_options_default();
    struct lw_plan plan;
    struct lw_cluster c = known("dgx-h100");
    struct lw_sim_stats s;

    c.library_version = "2.41.1";
    plan_of(&plan, 8, LW_REDUCER_AUTO, true);
    assert_int_equal(lw_sim_run(&plan, &c, &o, NULL, &s, NULL), LW_OK);
    assert_int_equal(s.n_remarks, 1);
    assert_string_equal(s.remarks[0], "NCCL 2.41.1 is newer than the newest known constants; those "
                                      "of 2.30 are used");
    lw_plan_free(&plan);
    lw_cluster_free(&c);
}

/* plan and sim refuse alike; without a cluster plan cannot know. */
TEST_WITH(plan_refuses_what_sim_refuses, fixture_open, fixture_close)
{
    struct lw_cluster c = known("dgx-h100");

    expect("plan -w mlp -c dgx-h100 --dp 8 --collective-algorithm nccl:nvls-tree", 1,
           "plan: NCCL 2.30 has no all_reduce by nccl:nvls-tree on 8 ranks of 1 node here: choose");
    expect("sim -w mlp -c dgx-h100 --dp 8 --collective-algorithm nccl:nvls-tree --no-db", 1,
           "sim: NCCL 2.30 has no all_reduce by nccl:nvls-tree on 8 ranks of 1 node here: choose");
    expect("plan -w mlp -c dgx-h100 --dp 16 --collective-algorithm nccl:nvls-tree", 0, "");
    expect("plan -w mlp --dp 8 --collective-algorithm nccl:nvls-tree", 0, "");
    c.library_version = "2.18.3";
    assert_int_equal(lw_cluster_write(&c, fixture_path("old.json"), NULL), LW_OK);
    expect("plan -w mlp -c old.json --dp 8", 1, "unknown version '2.18.3' of NCCL");
    expect("sim -w mlp -c old.json --dp 8 --no-db", 1, "unknown version '2.18.3' of NCCL");
    c.library_version = "";
    c.nccl.algo = "pat";
    assert_int_equal(lw_cluster_write(&c, fixture_path("pat.json"), NULL), LW_OK);
    expect("plan -w mlp -c pat.json --dp 8", 1, "NCCL has no algorithm left for");
    lw_cluster_free(&c);
}

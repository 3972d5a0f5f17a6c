/* What auto means: the rounds of trees against messages run one by one, the cheapest algorithm of a
 * library, and the files that name a library's algorithms. */
#include "tests/lib/unit.h"

#include <stdlib.h>
#include <string.h>

#include "shared/files/files.h"
#include "sim/cost/collective_messages.h"
#include "sim/cost/cost_library.h"
#include "tests/lib/prng.h"
#include "tests/lib/sim/cost_help.h"
#include "tests/lib/sim/sim_help.h"

static void one_round(const void *ctx, const struct sim_transfer *m, int64_t bytes, lw_ps *time,
                      lw_ps *latency)
{
    (void)ctx, (void)m, (void)bytes;
    *time = 1;
    *latency = 0;
}

/* The oracle: the messages of k pieces per tree, each taking one round. */
static int64_t rounds_of_messages(enum lw_op_kind op, int32_t n, int32_t k)
{
    struct lw_cost_query q = {op, LW_F32, 4096, n, 1, LW_REDUCER_TREE};
    const struct sim_links unit = {one_round, NULL, NULL};
    lw_ps *entry = calloc((size_t)n, sizeof *entry), *end = calloc((size_t)n, sizeof *end);
    struct sim_schedule s;
    int64_t most = 0;

    assert_true(entry && end);
    assert_int_equal(sim_schedule_make(&q, k, 0, &s, NULL), LW_OK);
    assert_int_equal(sim_schedule_run(&s, entry, &unit, end, NULL, NULL), LW_OK);
    for (int32_t i = 0; i < n; i++)
        most = end[i] > most ? end[i] : most;
    sim_schedule_free(&s);
    free(entry);
    free(end);
    return most;
}

static void expect_rounds(int32_t n, int32_t n_sizes)
{
    static const enum lw_op_kind ops[] = {LW_OP_ALL_REDUCE, LW_OP_BROADCAST, LW_OP_REDUCE};

    for (int o = 0; o < 3; o++) {
        int64_t rounds[11];
        struct sim_trees t;
        bool back = ops[o] == LW_OP_ALL_REDUCE;
        assert_int_equal(sim_trees_make(n, !back, &t, NULL), LW_OK);
        assert_int_equal(sim_trees_rounds(&t, back, n_sizes, rounds, NULL), LW_OK);
        sim_trees_free(&t);
        for (int i = 0; i < n_sizes; i++)
            if (rounds[i] != rounds_of_messages(ops[o], n, 1 << i))
                fail_msg("%s of %d ranks in %d pieces: %lld rounds, its messages take %lld",
                         lw_op_name(ops[o]), n, 1 << i, (long long)rounds[i],
                         (long long)rounds_of_messages(ops[o], n, 1 << i));
    }
}

TEST(trees_take_the_rounds_of_their_messages)
{
    static const int32_t large[] = {255, 256, 257, 511, 1000, 1023, 1024, 2047, 4096};
    struct prng rng = prng_start("ranks");

    for (int32_t n = 2; n <= 128; n++)
        expect_rounds(n, 8);
    expect_rounds(31, 11);
    for (int i = 0; i < 9; i++)
        expect_rounds(large[i], 5);
    for (int i = 0; i < 10; i++)
        expect_rounds((int32_t)prng_in(&rng, 129, 3000), 5);
}

/* 512 nodes of 8: a ring pays 8190 latencies, a tree those of 52 rounds. */
TEST(a_mebibyte_on_4096_ranks_goes_by_tree)
{
    struct lw_cluster c = known("mi300x");

    struct lw_cost_answer a = ask(&c, LW_OP_ALL_REDUCE, 1 << 20, 4096, 512, LW_REDUCER_AUTO);
    struct lw_cost_answer ring = ask(&c, LW_OP_ALL_REDUCE, 1 << 20, 4096, 512, LW_REDUCER_RING);
    assert_string_equal(a.algorithm, "tree");
    assert_int_equal(a.n_steps, 52);
    assert_in_range(a.time, 790 * LW_PS_PER_US, 800 * LW_PS_PER_US);
    assert_in_range(ring.time, 38700 * LW_PS_PER_US, 38710 * LW_PS_PER_US);
    lw_cluster_free(&c);
}

static void two_levels(struct lw_cluster *c, const char *library)
{
    make_cluster(c, 8, 200e9, 2 * LW_PS_PER_US);
    c->links[1] = (struct lw_link){.name = "network", .level = LW_LINK_INTER,
                                   .bytes_per_s = given(25e9), .latency_ps = given(5e6),
                                   .n_links = given(8)};
    c->n_links = 2;
    c->library = library;
}

/* Of every operation, size and shape the least of the algorithms that do it. */
TEST(auto_is_the_cheapest_that_the_library_has)
{
    static const enum lw_reducer_kind all[] = {LW_REDUCER_RING, LW_REDUCER_TREE,
                                               LW_REDUCER_HIERARCHICAL};
    static const struct {
        enum lw_op_kind op;
        bool by[3], wins[3];
    } each[] = {{LW_OP_ALL_REDUCE, {true, true, true}, {false, true, true}},
                {LW_OP_REDUCE_SCATTER, {true, false, true}, {true, false, true}},
                {LW_OP_ALL_GATHER, {true, false, true}, {true, false, true}},
                {LW_OP_BROADCAST, {true, true, false}, {true, true, false}},
                {LW_OP_REDUCE, {true, true, false}, {true, true, false}},
                {LW_OP_ALL_TO_ALL, {true, false, true}, {true, false, true}}};
    struct prng rng = prng_start("shapes");
    int wins[6][3] = {0};
    struct lw_cluster c;

    two_levels(&c, "");
    for (int i = 0; i < 900; i++) {
        int32_t nodes = (int32_t)prng_in(&rng, 2, 40), n = nodes * (int32_t)prng_in(&rng, 2, 8);
        int64_t bytes = 4 * prng_in(&rng, 1, (int64_t)1 << prng_in(&rng, 4, 28));
        lw_ps least = -1;
        int best = 0;
        for (int k = 0; k < 3; k++) {
            if (!each[i % 6].by[k])
                continue;
            lw_ps t = ask(&c, each[i % 6].op, bytes, n, nodes, all[k]).time;
            if (least < 0 || t < least) {
                least = t;
                best = k;
            }
        }
        wins[i % 6][best]++;
        struct lw_cost_answer a = ask(&c, each[i % 6].op, bytes, n, nodes, LW_REDUCER_AUTO);
        assert_int_equal(a.time, least);
        struct lw_cost_query q = {each[i % 6].op, LW_F32, bytes, n, nodes, LW_REDUCER_AUTO};
        enum lw_reducer_kind kind;
        assert_int_equal(sim_algorithm_of(&c, &q, &kind, NULL), LW_OK);
        assert_int_equal(kind, all[best]);
    }
    for (int op = 0; op < 6; op++)
        for (int k = 0; k < 3; k++)
            assert_true(wins[op][k] > 0 || !each[op].wins[k]);
    lw_cluster_free(&c);
}

/* NCCL without its model has trees for all-reduces alone; a file's list holds for all that they
 * do. */
TEST(a_library_has_algorithms_by_operation)
{
    static const char *listed[] = {"ring", "tree"};
    enum lw_op_kind other = LW_OP_BROADCAST;
    struct lw_cluster c;

    two_levels(&c, "rccl");
    assert_string_equal(ask(&c, LW_OP_ALL_REDUCE, 8, 512, 64, LW_REDUCER_AUTO).algorithm, "tree");
    assert_int_equal(ask(&c, other, 8, 512, 64, LW_REDUCER_AUTO).time,
                     ask(&c, other, 8, 512, 64, LW_REDUCER_RING).time);
    c.algorithms = listed;
    c.n_algorithms = 2;
    assert_string_equal(ask(&c, other, 8, 512, 64, LW_REDUCER_AUTO).algorithm, "tree");
    lw_cluster_free(&c);
}

TEST(a_library_of_rings_stays_a_ring)
{
    static const char *const libraries[] = {"lapwing threads", "gloo", "Open MPI 4.1.4"};
    static const char *listed[] = {"ring", "tree"};
    struct lw_cluster c;

    for (int i = 0; i < 3; i++) {
        two_levels(&c, libraries[i]);
        assert_false(sim_auto_chooses(&c));
        assert_int_equal(ask(&c, LW_OP_ALL_REDUCE, 8, 64, 8, LW_REDUCER_AUTO).time,
                         ask(&c, LW_OP_ALL_REDUCE, 8, 64, 8, LW_REDUCER_RING).time);
        c.algorithms = listed; /* unless its file names more */
        c.n_algorithms = 2;
        assert_string_equal(ask(&c, LW_OP_ALL_REDUCE, 8, 64, 8, LW_REDUCER_AUTO).algorithm, "tree");
        lw_cluster_free(&c);
    }
}

TEST(a_file_names_the_algorithms)
{
    static const char *good[] = {"ring", "one-shot"}, *bad[] = {"ring", "halving"};
    struct lw_cluster c;
    struct lw_err err = {0};
    char before[33], after[33];

    two_levels(&c, "mine");
    assert_int_equal(lw_cluster_hash(&c, before, NULL), LW_OK);
    c.algorithms = good;
    c.n_algorithms = 2;
    assert_int_equal(lw_cluster_check(&c, NULL), LW_OK);
    assert_int_equal(lw_cluster_hash(&c, after, NULL), LW_OK);
    assert_string_not_equal(before, after);
    assert_string_equal(ask(&c, LW_OP_ALL_REDUCE, 8, 4, 1, LW_REDUCER_AUTO).algorithm, "one-shot");
    c.algorithms = bad;
    assert_int_equal(lw_cluster_check(&c, &err), LW_EFORMAT);
    assert_non_null(strstr(err.msg, "at algorithms[1]: found \"halving\""));
    lw_cluster_free(&c);
}

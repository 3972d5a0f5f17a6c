/* Names of reducers and NCCL's lists: shared/strategy/reducer_kind.h. */
#include "tests/lib/unit.h"

#include <string.h>

#include "shared/strategy/reducer_kind.h"

TEST(every_name_is_read_back)
{
    for (int k = 0; k < LW_N_REDUCERS; k++) {
        enum lw_reducer_kind back;
        const char *name = lw_reducer_name((enum lw_reducer_kind)k);
        if (!lw_reducer_find(name, &back))
            fail_msg("'%s' is not read", name);
        if (strstr(name, "tree,ring,collnet-direct,collnet-chain,nvls,nvls-tree,pat"))
            name = lw_reducer_name((k - LW_REDUCER_NCCL) % 8 + LW_REDUCER_NCCL); /* all: none */
        assert_string_equal(lw_reducer_name(back), name);
    }
}

/* tests/golden/plans.txt has the hashes of former kinds. */
TEST(no_two_kinds_are_hashed_alike)
{
    bool seen[3 * LW_N_REDUCERS] = {0};

    for (int k = 0; k < LW_N_REDUCERS; k++) {
        int number = lw_reducer_number((enum lw_reducer_kind)k);
        assert_in_range(number, 0, 3 * LW_N_REDUCERS - 1);
        if (seen[number])
            fail_msg("%s: number %d again", lw_reducer_name((enum lw_reducer_kind)k), number);
        seen[number] = true;
    }
}

TEST(lists_are_read_as_nccl_reads_them)
{
    static const char *const cases[][2] = {
        {"nccl:Ring,Tree", "nccl:tree,ring"},
        {"nccl:^tree", "nccl:ring,collnet-direct,collnet-chain,nvls,nvls-tree,pat"},
        {"nccl:NVLS/Simple", "nccl:nvls/simple"},
        {"nccl:NVLSTree,nvls_tree", "nccl:nvls-tree"},
        {"nccl:CollNetDirect/^LL128", "nccl:collnet-direct/ll,simple"},
        {"nccl:^LL128", "nccl:ll,simple"},
        {"nccl:ll,ll128,simple", "nccl"},
        {"nccl:tree/simple,ll,ll128", "nccl:tree"},
        {"NCCL", "nccl"},
        {"one_shot", "one-shot"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        enum lw_reducer_kind k;
        assert_true(lw_reducer_find(cases[i][0], &k));
        assert_string_equal(lw_reducer_name(k), cases[i][1]);
    }
}

TEST(malformed_list_is_refused)
{
    static const char *const cases[] = {
        "", "nccl:", "nccl:/", "nccl:tree/", "nccl:/ll", "nccl:tree,", "nccl:,tree", "nccl:tree,ll",
        "nccl:ll/tree", "nccl:^", "nccl:tree,^ring", "nccl:treee", "nccl:tre", "nccl:tree/foo",
        "nccl:tree/ll/ll", "nccl:^tree,ring,collnet-direct,collnet-chain,nvls,nvls-tree,pat",
        "ncc", "nccl+", "allreduce:tree"};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        enum lw_reducer_kind k = LW_REDUCER_GLOO;
        if (lw_reducer_find(cases[i], &k))
            fail_msg("'%s' is read as '%s'", cases[i], lw_reducer_name(k));
        assert_int_equal(k, LW_REDUCER_GLOO);
    }
}

/* NVIDIA/nccl v2.30.7-1, src/graph/tuning.cc, parseList, with the comment before it. Functions:
 * broadcast, reduce, all-gather, reduce-scatter, all-reduce. */
TEST(lists_of_functions_are_read_as_nccl_reads_them)
{
    static const struct {
        const char *text;
        bool protocols;
        uint8_t left[LW_N_NCCL_FUNCTIONS];
    } cases[] = {
        {"", false, {127, 127, 127, 127, 127}},
        {"ring;allreduce:tree,ring", false, {2, 2, 2, 2, 3}},
        {"^tree", false, {126, 126, 126, 126, 126}},
        {"allreduce:^NVLS,nvlsTree;ReduceScatter:PAT", false, {127, 127, 127, 64, 79}},
        {"ring,collnetdirect;allreduce:tree,collnetdirect;broadcast:ring", false, {2, 6, 6, 6, 5}},
        {"LL,Simple;allreduce:^LL", true, {5, 5, 5, 5, 6}},
        {"^LL128;allreduce:LL128", true, {5, 5, 5, 5, 2}},
        {"tree;allreduce:ring;AllReduce:pat;", false, {1, 1, 1, 1, 64}}, /* the last one counts */
    };
    static const char *const wrong[] = {"ring;tree", "fish", "ring,", ":ring", "reduce:",
                                        "alltoall:ring", "reduce:ring:tree", "ll", "^", ";",
                                        "^^tree"};
    uint8_t left[LW_N_NCCL_FUNCTIONS];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_true(lw_nccl_lists(cases[i].text, cases[i].protocols, left));
        assert_memory_equal(left, cases[i].left, sizeof left);
    }
    assert_true(lw_nccl_lists("ring;", false, left)); /* as NCCL: nothing follows */
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (lw_nccl_lists(wrong[i], false, left))
            fail_msg("'%s' is read", wrong[i]);
}

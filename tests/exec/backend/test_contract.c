/* What a communicator refuses, whatever backend runs it: members, roots, peers, and what may be
 * given together. Ranks 1, 3 and 4 of six are the members; rank 3 gives. */
#include "tests/lib/unit.h"

#include <string.h>

#include "exec/backend/contract.h"

enum { N_RANKS = 6, N = 3, SELF = 3 };
static const int32_t members[N] = {4, 1, SELF};

static enum lw_status given(const struct exec_transfer *x, int32_t n, int32_t rank,
                            struct exec_transfer *out, struct lw_err *err)
{
    int32_t own[N], index_of[N_RANKS];

    assert_ok(exec_members_index(members, N, N_RANKS, own, index_of, err), *err);
    return exec_transfers_check(x, n, rank, N_RANKS, N, index_of, out, err);
}

TEST(peers_and_roots_become_member_numbers)
{
    static const struct {
        enum lw_op_kind op;
        int32_t peer, member;
    } cases[] = {
        {LW_OP_SEND, 4, 0},      {LW_OP_RECV, 1, 1},   {LW_OP_BROADCAST, SELF, 2},
        {LW_OP_REDUCE, 1, 1},    {LW_OP_ALL_REDUCE, 5, 0}, {LW_OP_ALL_TO_ALL, -1, 0},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct exec_transfer x = {cases[i].op, {.count = 6, .peer = cases[i].peer}, NULL}, out;
        struct lw_err err = {0};
        assert_ok(given(&x, 1, SELF, &out, &err), err);
        assert_int_equal(out.message.peer, cases[i].member);
        assert_int_equal(out.message.count, 6);
    }
}

TEST(what_a_communicator_cannot_do_is_refused)
{
    static const struct {
        enum lw_op_kind op;
        int32_t peer, rank;
        int64_t count;
        enum lw_status status;
        const char *says;
    } cases[] = {
        {LW_OP_ALL_REDUCE, 0, 2, 6, LW_EINVAL, "rank 2 is not a member"},
        {LW_OP_BROADCAST, 0, SELF, 6, LW_EINVAL, "broadcast: root 0 is not a member"},
        {LW_OP_REDUCE, N_RANKS, SELF, 6, LW_EINVAL, "reduce: root 6 is not a member"},
        {LW_OP_SEND, SELF, SELF, 6, LW_EINVAL, "send of rank 3: peer 3 is not another member"},
        {LW_OP_RECV, 5, SELF, 6, LW_EINVAL, "recv of rank 3: peer 5 is not another member"},
        {LW_OP_SEND, -1, SELF, 6, LW_EINVAL, "peer -1 is not another member"},
        {LW_OP_ALL_TO_ALL, 0, SELF, 7, LW_ENOTSUP, "7 elements among 3 ranks: not equal blocks"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct exec_transfer x = {cases[i].op, {.count = cases[i].count, .peer = cases[i].peer},
                                  NULL}, out;
        struct lw_err err = {0};
        assert_int_equal(given(&x, 1, cases[i].rank, &out, &err), cases[i].status);
        assert_non_null(strstr(err.msg, cases[i].says));
    }
}

TEST(only_sends_and_receives_are_given_together)
{
    struct exec_transfer x[EXEC_MOST_TRANSFERS + 1], out[EXEC_MOST_TRANSFERS + 1];
    struct lw_err err = {0};

    for (int32_t i = 0; i <= EXEC_MOST_TRANSFERS; i++)
        x[i] = (struct exec_transfer){i % 2 ? LW_OP_RECV : LW_OP_SEND, {.count = 1, .peer = 4},
                                      NULL};
    assert_ok(given(x, EXEC_MOST_TRANSFERS, SELF, out, &err), err);
    assert_int_equal(given(x, EXEC_MOST_TRANSFERS + 1, SELF, out, &err), LW_EINVAL);
    assert_non_null(strstr(err.msg, "65 transfers at once; allowed: 1 to 64"));
    assert_int_equal(given(x, 0, SELF, out, &err), LW_EINVAL);
    x[1].op = LW_OP_ALL_REDUCE;
    assert_int_equal(given(x, 2, SELF, out, &err), LW_EINVAL);
    assert_non_null(strstr(err.msg, "all_reduce among 2 transfers"));
    assert_ok(given(x + 1, 1, SELF, out, &err), err);
}

TEST(a_member_is_a_rank_and_named_once)
{
    static const struct {
        int32_t members[2];
        const char *says;
    } cases[] = {
        {{0, 6}, "member 1 of a group is rank 6: no such rank"},
        {{-1, 0}, "member 0 of a group is rank -1: no such rank"},
        {{2, 2}, "member 1 of a group is rank 2: named twice"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int32_t own[2], index_of[N_RANKS];
        struct lw_err err = {0};
        assert_int_equal(exec_members_index(cases[i].members, 2, N_RANKS, own, index_of, &err),
                         LW_EINVAL);
        assert_string_equal(err.msg, cases[i].says);
    }
}

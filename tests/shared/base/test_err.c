/* Lists of words in messages: whole words, or an end that says that there are more. */
#include "tests/lib/unit.h"

#include <string.h>

#include "shared/base/err.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"

TEST(a_list_holds_whole_words)
{
    char list[23] = "";

    lw_err_word(list, sizeof list, "alpha");
    assert_string_equal(list, "alpha");
    lw_err_word(list, sizeof list, "beta");
    assert_string_equal(list, "alpha, beta"); /* then 12 are left */
    lw_err_word(list, sizeof list, "gamma");  /* ", gamma, ..." and the end need 13 */
    assert_string_equal(list, "alpha, beta, ...");
    lw_err_word(list, sizeof list, "d");
    assert_string_equal(list, "alpha, beta, ...");
}

/* Nothing beyond `size` bytes is written. */
TEST(a_list_stays_in_its_room)
{
    char room[40];

    for (size_t size = 8; size <= 24; size++) {
        memset(room, 'x', sizeof room);
        room[0] = '\0';
        for (int k = 0; k < 9; k++)
            lw_err_word(room, size, k % 2 ? "ab" : "wxyz");
        assert_true(strlen(room) < size);
        for (size_t i = size; i < sizeof room; i++)
            assert_int_equal(room[i], 'x');
    }
}

TEST(context_passes_the_status_on)
{
    struct lw_err err = {0};

    assert_int_equal(lw_err_context(&err, LW_OK, "a"), LW_OK);
    assert_string_equal(err.msg, "");
    assert_int_equal(lw_err_context(&err, lw_fail(&err, LW_EIO, "b %d", 1), "%s", "a"), LW_EIO);
    assert_string_equal(err.msg, "a: b 1");
    assert_int_equal(lw_err_context(NULL, LW_EPLAN, "a"), LW_EPLAN);
}

TEST_WITH(every_reducer_is_listed, fixture_open, fixture_close)
{
    expect("cost --algorithm bogus", 2, "nccl:^tree/simple, nccl:^ll128, nccl+cal; see");
    expect("cost --algorithm nccl:tree,foo", 2, "unknown value 'nccl:tree,foo'; expected nccl:ALG");
    expect("cost --op all_redce", 2,
           "cost: --op: unknown value 'all_redce' (did you mean 'all_reduce'?)");
    expect("cost --op gather", 2, "expected one of all_reduce, reduce, reduce_scatter, all_gather, "
                                  "broadcast, all_to_all, send, recv, barrier");
    expect("cost --op forward", 2, "--op: unknown value 'forward'");
}

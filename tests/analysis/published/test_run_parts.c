/* Blocks of published runs on their stages. */
#include "tests/lib/unit.h"

#include <string.h>

#include "analysis/published/run_parts.h"

static void parts_are(struct lw_run r, const char *expected)
{
    char list[256];

    r.partition = r.partition ? r.partition : "";
    r.vpp = r.vpp ? r.vpp : 1;
    lw_run_parts(&r, list, sizeof list);
    assert_string_equal(list, expected);
}

TEST(equal_numbers_of_blocks)
{
    parts_are((struct lw_run){.layers = 12, .pp = 4}, "0,4,7,10");
    parts_are((struct lw_run){.layers = 7, .pp = 4}, "0,3,5,7");
    parts_are((struct lw_run){.layers = 6, .pp = 4, .vpp = 2}, "0,1,2,3,4,5,6,7");
    parts_are((struct lw_run){.layers = 8, .pp = 2, .vpp = 2}, "0,3,5,7");
}

/* Hidden 2048, inner width 8192, vocabulary 131,072: a head is four blocks, 16 blocks and a head
 * are 20. Two stages: 11 blocks are the first to exceed 10. Eight: 3 exceed 2.5, 6 exceed 5, 8
 * exceed 7.5, 11 exceed 10, 13 exceed 12.5, 16 exceed 15, the head 17.5; its stage takes the last
 * block. */
TEST(by_cost_stages_end_where_their_share_is_exceeded)
{
    struct lw_run r = {.layers = 16, .hidden = 2048, .ffn = 8192, .vocab = 131072,
                       .partition = "cost", .pp = 2};

    parts_are(r, "0,12");
    r.pp = 4;
    parts_are(r, "0,7,12,17");
    r.pp = 8;
    parts_are(r, "0,4,7,9,12,14,16,17");
}

/* A share of less than one block: each stage but the last few has one. */
TEST(no_stage_is_without_a_module)
{
    parts_are((struct lw_run){.layers = 3, .hidden = 8, .ffn = 32, .vocab = 8, .partition = "cost",
                              .pp = 5}, "0,1,2,3,4");
}

/* Of 20 blocks' cost: on 16 stages the head comes to stage 12 of 0 to 15, the cast to 13, the loss
 * to 14; on 8 to stage 6, the other two to 7. */
TEST(nanotron_refuses_stages_without_a_block)
{
    struct lw_run r = {.layers = 16, .hidden = 2048, .ffn = 8192, .vocab = 131072,
                       .partition = "cost", .pp = 16, .micro_batches = 64};

    assert_non_null(strstr(lw_run_refused(&r), "a stage without a block"));
    r.pp = 8;
    assert_null(lw_run_refused(&r));
    r.partition = "";
    r.pp = 16;
    assert_null(lw_run_refused(&r));
}

TEST(nanotron_refuses_fewer_micro_batches_than_stages_less_one)
{
    struct lw_run r = {.layers = 32, .hidden = 4096, .ffn = 16384, .vocab = 4096,
                       .partition = "cost", .pp = 8, .micro_batches = 6};

    assert_non_null(strstr(lw_run_refused(&r), "micro-batches"));
    r.micro_batches = 7;
    assert_null(lw_run_refused(&r));
}

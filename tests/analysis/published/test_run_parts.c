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

/* Times of the four modules of two stages, the second of which begins with module 2, in polls of
 * 0.1 s; plans divide what sequence parallelism multiplies. */
static void polls_are(struct lw_run r, const int forward[4], const int backward[4])
{
    struct lw_module modules[4] = {{.name = "embedding"}, {.name = "0"}, {.name = "1"},
                                   {.name = "head"}};
    struct lw_workload w = {.modules = modules, .n_modules = 4};

    assert_int_equal(lw_run_add_polls(&r, &w, NULL), LW_OK);
    for (int m = 0; m < 4; m++) {
        assert_true(modules[m].forward_ps == forward[m] * LW_PS_PER_S / 10);
        assert_true(modules[m].whole_forward_ps == modules[m].forward_ps);
        assert_true(modules[m].backward_input_ps == backward[m] * LW_PS_PER_S / 10);
        assert_true(modules[m].whole_input_ps == modules[m].backward_input_ps);
    }
}

/* Sender: two tensors forward and one backward, two messages of metadata each; receiver: one poll a
 * tensor (huggingface/nanotron@67c5ebb6, pipeline_parallel/p2p.py). */
TEST(hosts_of_one_version_of_nanotron_poll_between_stages)
{
    static const int none[4], forward[4] = {0, 4, 2, 0}, backward[4] = {0, 1, 2, 0};
    static const int forward_4[4] = {0, 16, 8, 0}, backward_4[4] = {0, 4, 8, 0};
    struct lw_run r = {.framework = "nanotron v0.5", .partition = "", .seq_parallel = "", .gpus = 2,
                       .layers = 2, .hidden = 64, .pp = 2, .vpp = 1, .tp = 1, .mbs = 2};

    polls_are(r, none, none);
    r.framework = "nanotron@67c5ebb6";
    polls_are(r, forward, backward);
    r.seq_parallel = "yes";
    r.tp = 4;
    polls_are(r, forward_4, backward_4);
    r.pp = 1;
    polls_are(r, none, none);
}

/* The published sweep names no version: its devices, groups and models tell. */
TEST(runs_of_the_sweep_that_poll)
{
    static const struct {
        int64_t gpus, tp, hidden, mbs;
        bool polls;
    } cases[] = {
        {512, 1, 2048, 1, true},  {256, 1, 2048, 2, false}, {256, 1, 4096, 2, true},
        {256, 1, 4096, 1, false}, {128, 1, 4096, 2, false}, {128, 32, 2048, 1, true},
    };

    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct lw_module modules[4] = {{.name = ""}};
        struct lw_workload w = {.modules = modules, .n_modules = 4};
        struct lw_run r = {.framework = "nanotron v0.5", .partition = "", .seq_parallel = "",
                           .gpus = cases[k].gpus, .layers = 2, .hidden = cases[k].hidden, .pp = 2,
                           .vpp = 1, .tp = cases[k].tp, .mbs = cases[k].mbs};
        assert_int_equal(lw_run_add_polls(&r, &w, NULL), LW_OK);
        if ((modules[1].forward_ps > 0) != cases[k].polls)
            fail_msg("case %zu", k);
    }
}

/* Embedding, one block and head on four stages: a second stage would begin with module 0. */
TEST(polls_of_more_stages_than_modules_are_refused)
{
    struct lw_module modules[5] = {{.name = ""}}; /* the outer two are not the workload's */
    struct lw_workload w = {.modules = modules + 1, .n_modules = 3};
    struct lw_run r = {.framework = "nanotron", .partition = "cost", .seq_parallel = "",
                       .gpus = 512, .layers = 1, .hidden = 4096, .ffn = 14336, .vocab = 2048,
                       .pp = 4, .vpp = 1, .tp = 1, .mbs = 1};
    struct lw_err err;

    assert_int_equal(lw_run_add_polls(&r, &w, &err), LW_ENOTSUP);
    assert_non_null(strstr(err.msg, "fewer modules than stages"));
    assert_true(modules[0].forward_ps == 0 && modules[4].forward_ps == 0);
}

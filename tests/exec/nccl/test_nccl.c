/* The NCCL backend against the fake driver, NCCL and cuBLAS of tests/fake_gpu: its order, data and
 * messages, on host memory. Nothing here says that it works, or how fast, on a GPU. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/lib/unit.h"

#include "exec/nccl/kernels.h"
#include "exec/run/run.h"
#include "tests/lib/commands/fake_gpu.h"
#include "tests/lib/exec/nccl_ranks.h"
#include "tests/lib/files/says.h"
#include "tests/lib/plans/swapped_plan.h"

TEST_MAIN(nccl_rank)

/* 5 parameters of 1000 .. 1004 elements on each local rank: 5010 weights of T_DTYPE, as many f32
 * masters beside those that are not f32, and as many of each array that the optimizer keeps. */
static void all_verified_with(const struct nccl_job *j, int32_t local, int32_t bytes_each,
                              const char *honesty)
{
    char words[128];

    for (int32_t r = 0; r < j->n; r++) {
        snprintf(words, sizeof words, "code=0 verified=1 checked=%d honesty=%s",
                 5010 * bytes_each * local, honesty);
        has(j->line[r], words);
    }
}

static void all_verified(const struct nccl_job *j, int32_t local, const char *honesty)
{
    all_verified_with(j, local, 4 + 4, honesty); /* f32 with momentum */
}

/* --- one process --- */

TEST(a_world_of_one_leaks_nothing)
{
    needs_fakes();
    char path[64], *text;
    struct nccl_job j = {.n = 1, .alone = true, .set = {{"FAKE_GPU_LOG", nccl_log_path(path)}}};

    nccl_run(&j);
    all_verified(&j, 1, "emulated");
    has(j.line[0], "fake device 0 on host memory");
    has(j.line[0], "the driver does not identify the device");
    text = nccl_read_log(path);
    has(text, "priority 0\n");
    has(text, "priority -1\n"); /* communication above computation: smaller runs first */
    has(text, "live blocks 0 streams 0 events 0 modules 0 graphs 0\n");
    free(text);
}

TEST(a_loop_of_ranks_ends_like_one)
{
    needs_fakes();
    static const char *const n_ranks[] = {"1", "2", "3", "5"};

    for (int i = 0; i < 4; i++) {
        char path[64], *text;
        struct nccl_job j = {.n = 1,
                             .alone = true,
                             .set = {{"T_LOOP", "1"},
                                     {"T_RANKS", n_ranks[i]},
                                     {"FAKE_GPU_DELAY_US", "300"},
                                     {"FAKE_GPU_SEED", n_ranks[i]},
                                     {"FAKE_GPU_LOG", nccl_log_path(path)},
                                     {"T_WORK_US", "50"}}};
        nccl_run(&j);
        all_verified(&j, atoi(n_ranks[i]), "emulated");
        text = nccl_read_log(path);
        has(text, "live blocks 0 streams 0 events 0 modules 0 graphs 0\n");
        free(text);
    }
}

TEST(types_passes_and_views_end_like_one)
{
    needs_fakes();
    static const int32_t bytes_each[] = {2 + 4 + 4, 8, 8 + 4 + 4, 8, 8, 8, 8, 4 + 4 + 4, 2 + 4 + 8};
    static const char *const cases[][4][2] = {
        {{"T_DTYPE", "2"}}, /* f16 */
        {{"T_WIRE", "3"}},  /* f32 reduced as bf16 */
        {{"T_DTYPE", "1"}}, /* f64 */
        {{"T_ACCUMULATE", "2"}, {"T_MICRO", "2"}},
        {{"T_VIEW", "1"}},
        {{"T_COMPUTE", "1"}},                        /* spin */
        {{"T_COMPUTE", "0"}, {"T_WORK_US", "2500"}}, /* products */
        {{"T_OPTIMIZER", "2"}},                      /* adam */
        {{"T_OPTIMIZER", "2"}, {"T_DTYPE", "3"}},    /* on bf16 */
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct nccl_job j = {.n = 1, .alone = true, .set = {{"T_LOOP", "1"}, {"T_RANKS", "3"}}};
        for (int k = 0; k < 4 && cases[i][k][0]; k++)
            memcpy(j.set[2 + k], cases[i][k], sizeof j.set[0]);
        nccl_run(&j);
        all_verified_with(&j, 3, bytes_each[i], "emulated");
        if (i == 6)
            has(j.line[0], "compute=cuBLAS");
    }
}

TEST(every_collective_moves_the_right_elements)
{
    needs_fakes();
    struct nccl_job loop = {
        .n = 1,
        .alone = true,
        .set = {{"T_LOOP", "1"}, {"T_RANKS", "3"}, {"T_OPS", "1"}, {"FAKE_GPU_DELAY_US", "200"}}};
    struct nccl_job three = {
        .n = 3,
        .set = {{"T_OPS", "1"}, {"FAKE_NCCL_DELAY_US", "500"}, {"FAKE_NCCL_LAUNCH_US", "300"}}};

    nccl_run(&loop);
    has(loop.line[0], "code=0");
    nccl_run(&three);
    for (int r = 0; r < 3; r++)
        has(three.line[r], "code=0");
}

/* Threads of a kernel meet the places in any order: here threads 1, 2, 3 of 4 find 9, 6 and 11. */
TEST(the_first_wrong_place_is_kept)
{
    static const float table[EXEC_GRADIENT_TABLE + EXEC_GRADIENT_BLOCK];
    struct kernel_found found = {.place = KERNEL_NOWHERE, .value = -1};
    float from[40] = {0};
    struct kernel_expect look = {
        .from = from, .table = table, .n = 40, .dtype = LW_F32, .n_ranks = 2, .found = &found};
    struct kernel_note note = {from, &found, 40, LW_F32};

    for (int pass = 0; pass < 2; pass++) {
        for (int64_t thread = 0; thread < 4; thread++)
            kernel_expect_run(&look, thread, 4);
        kernel_note_run(&note, 0, 4);
        assert_true(pass == 1 || (found.place == KERNEL_NOWHERE && found.value < 0));
        from[6] = 2.5f;
        from[9] = from[10] = from[11] = 3;
    }
    assert_int_equal(found.place, 6);
    assert_true(found.value > 2.4 && found.value < 2.6);
    assert_true(found.seen[6] > 2.4 && found.seen[9] > 2.9 && found.seen[15] < 0.1);
}

/* 3 buckets and 4 steps. With a learning rate of 0 the weights are right whatever the sums are:
 * only the comparison of every step's gradients sees the bit. */
TEST(a_flipped_bit_that_the_weights_hide_is_found)
{
    static const char *const ops[] = {"1:1", "1:5", "1:8", "1:12"};
    char sgd[8];

    needs_fakes();
    snprintf(sgd, sizeof sgd, "%d", (int)EXEC_SGD);
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        struct nccl_job j = {
            .n = 2, .set = {{"T_STILL", "1"}, {"T_OPTIMIZER", sgd}, {"FAKE_NCCL_FLIP", ops[i]}}};
        char expected[80];
        nccl_run(&j);
        snprintf(expected, sizeof expected, "step %d: the averaged gradient of parameter", (int)i);
        assert_int_equal(j.code[1], LW_ENO);
        if (!strstr(j.line[1], expected))
            fail_msg("op %s: %s", ops[i], j.line[1]);
    }
}

/* The words are those of the threads backend, to the last value. */
TEST(a_wrong_message_is_named_as_by_threads)
{
    needs_fakes();
    struct lw_exec_options o = nccl_options(NULL);
    struct nccl_job loop = {.n = 1, .alone = true, .set = {{"T_SWAP", "1"}, {"T_LOOP", "1"}}};
    struct nccl_job two = {.n = 2, .set = {{"T_SWAP", "1"}}};
    struct lw_exec_result r;
    struct lw_plan plan;
    struct lw_err err = {0};

    assert_int_equal(swapped_plan(&plan, &err), LW_OK);
    assert_int_equal(lw_exec_run(&plan, &o, &r, &err), LW_ENO);
    lw_exec_result_free(&r);
    lw_plan_free(&plan);
    assert_non_null(strstr(err.msg, "of micro-batch 0 from rank 0 (op "));
    assert_non_null(strstr(err.msg, "): element 0 is "));
    nccl_run(&loop);
    assert_int_equal(loop.code[0], LW_ENO);
    has(loop.line[0], err.msg);
    nccl_run(&two);
    assert_int_equal(two.code[1], LW_ENO);
    has(two.line[1], err.msg);
}

/* --- several processes --- */

TEST(processes_end_like_one_rank_whatever_the_delays)
{
    needs_fakes();
    static const char *const seeds[] = {"1", "2", "3"};

    for (int32_t n = 2; n <= 4; n++)
        for (int s = 0; s < 3; s++) {
            struct nccl_job j = {.n = n,
                                 .set = {{"FAKE_GPU_SEED", seeds[s]},
                                         {"FAKE_GPU_DELAY_US", s == 1 ? "300" : "0"},
                                         {"FAKE_NCCL_DELAY_US", s == 0 ? "3000" : "0"},
                                         {"FAKE_NCCL_LAUNCH_US", s == 2 ? "2000" : "0"},
                                         {"T_WORK_US", "50"}}};
            nccl_run(&j);
            all_verified(&j, 1, "sleep"); /* each has a device of its own */
        }
}

TEST(ranks_with_devices_of_their_own_share_nothing)
{
    needs_fakes();
    struct nccl_job j = {.n = 2};
    struct nccl_job one = {.n = 1, .alone = true, .set = {{"FAKE_GPU_COUNT", "2"}}};

    nccl_run(&j);
    all_verified(&j, 1, "sleep");
    has(j.line[1], "fake device 1");
    nccl_run(&one);
    all_verified(&one, 1, "sleep");
}

/* By NCCL, and the message adds what to do. */
TEST(two_ranks_on_one_device_are_refused)
{
    needs_fakes();
    struct nccl_job j = {.n = 3, .set = {{"FAKE_GPU_COUNT", "2"}}}; /* ranks 0 and 2 on device 0 */

    nccl_run(&j);
    has(j.line[0], "Duplicate GPU detected : rank"); /* its own message, or that of rank 2 */
    has(j.line[0], "rank 0 of 3 sees 2 GPUs");
    has(j.line[0], "--transport loop");
    assert_int_not_equal(j.code[1], LW_OK);
    has(j.line[2], "Duplicate GPU detected : rank");
}

TEST(large_buckets_and_half_types_cross_processes)
{
    needs_fakes();
    struct nccl_job j = {.n = 3,
                         .set = {{"T_NUMEL", "40000"}, {"T_DTYPE", "2"}, {"T_WORK_US", "50"}}};

    nccl_run(&j);
    for (int r = 0; r < 3; r++)
        has(j.line[r], "code=0 verified=1");
}

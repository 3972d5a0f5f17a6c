/* Errors of the NCCL backend against the fakes of tests/fake_gpu: of the driver, of memory, of
 * ranks that fail, hang or are lost, and of processes that do not belong together. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/lib/unit.h"

#include "tests/lib/commands/fake_gpu.h"
#include "tests/lib/exec/nccl_ranks.h"
#include "tests/lib/files/says.h"

TEST_MAIN(nccl_rank)

TEST(running_out_of_memory_leaks_nothing)
{
    needs_fakes();
    char path[64], *text;
    struct nccl_job j = {
        .n = 1, .alone = true, .set = {{"T_STARVE", "1"}, {"FAKE_GPU_LOG", nccl_log_path(path)}}};

    nccl_run(&j);
    has(j.line[0], "code=0");
    text = nccl_read_log(path);
    has(text, "live blocks 0 streams 0 events 0 modules 0 graphs 0\n");
    free(text);
}

TEST(several_ranks_in_one_process_are_refused_without_a_loop)
{
    needs_fakes();
    struct nccl_job j = {.n = 1, .alone = true, .set = {{"T_RANKS", "2"}}};

    nccl_run(&j);
    assert_int_equal(j.code[0], LW_ENOTSUP);
    has(j.line[0], "one process for 2 ranks");
}

TEST(errors_of_the_driver_are_named)
{
    needs_fakes();
    static const struct {
        const char *name, *value, *words;
        int code;
    } cases[] = {
        {"FAKE_CUDA_FAIL", "cuMemAlloc:6:2", "has no", LW_ENOMEM},
        {"FAKE_CUDA_FAIL", "cuMemAlloc:6:700", "cuMemAlloc: an illegal memory access", LW_EFAILED},
        {"FAKE_GPU_MEMORY", "790600", "has no", LW_ENOMEM},
        {"FAKE_CUDA_FAIL", "cuModuleLoadData:1:200", "cuModuleLoadData", LW_EFAILED},
        {"FAKE_CUDA_FAIL", "cuStreamCreateWithPriority:2:2", "CUDA", LW_ENOMEM},
        {"FAKE_CUDA_ASYNC", "lw_update:14:700", "an illegal memory access was encountered",
         LW_EFAILED},
        {"FAKE_CUDA_ASYNC", "lw_update:16:700", "last finished", LW_EFAILED},
        {"FAKE_GPU_COUNT", "0", "CUDA_ERROR_NO_DEVICE", LW_ENOTSUP},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct nccl_job j = {.n = 1, .alone = true, .set = {{cases[i].name, cases[i].value}}};
        nccl_run(&j);
        if (j.code[0] != cases[i].code)
            fail_msg("case %zu: %s", i, j.line[0]);
        has(j.line[0], cases[i].words);
    }
}

/* Each rank ends by itself, says what it was at, and none waits for its own time limit when another
 * has already given up: the limit is 20 s, all are gone long before. */
static void all_stop(struct nccl_job *j, int lost, const char *words)
{
    nccl_run(j);
    for (int32_t r = 0; r < j->n; r++) {
        if (r == lost) {
            assert_int_equal(j->code[r], 999);
            continue;
        }
        if (j->code[r] != LW_EFAILED && j->code[r] != LW_ETIMEOUT)
            fail_msg("rank %d: %s", r, j->line[r]);
        has(j->line[r], words);
    }
}

TEST(an_asynchronous_error_stops_all_and_names_the_op)
{
    needs_fakes();
    for (int32_t n = 2; n <= 4; n++) {
        /* each step has 3 all-reduces: op 5 is step 1's second */
        struct nccl_job j = {.n = n,
                             .set = {{"FAKE_NCCL_ERROR", "1:5:6"}, {"FAKE_NCCL_DELAY_US", "500"}}};
        all_stop(&j, -1, "first unfinished: op ");
        for (int32_t r = 0; r < n; r++) {
            has(j.line[r], "step 1");
            has(j.line[r], "remote process exited or there was a network error");
        }
        has(j.line[1], "first unfinished: op ");
        has(j.line[1], "(all_reduce of bucket 1) of rank 1");
        has(j.line[0], "rank 1 gave up");
    }
}

TEST(a_lost_rank_stops_the_others)
{
    needs_fakes();
    for (int32_t n = 2; n <= 4; n++) {
        struct nccl_job j = {.n = n, .set = {{"FAKE_NCCL_LOSE", n == 3 ? "0:6" : "1:6"}}};
        all_stop(&j, n == 3 ? 0 : 1, n == 3 ? "rank 0 is gone" : "rank 1 is gone");
        has(j.line[n == 3 ? 1 : 0], "step 1");
        has(j.line[n == 3 ? 1 : 0], "first unfinished: op ");
    }
}

TEST(a_hanging_rank_ends_at_the_time_limit)
{
    needs_fakes();
    struct nccl_job jobs[3];

    for (int32_t i = 0; i < 3; i++) {
        jobs[i] = (struct nccl_job){
            .n = 2 + i, .set = {{"FAKE_NCCL_HANG", "1:4"}, {"T_TIMEOUT_MS", "3000"}}};
        nccl_start(&jobs[i]);
    }
    for (int32_t i = 0; i < 3; i++) {
        all_stop(&jobs[i], -1, "first unfinished: op ");
        for (int32_t r = 0; r < jobs[i].n; r++)
            has(jobs[i].line[r], "(all_reduce of bucket 0)");
    }
}

TEST(a_failing_and_a_hanging_kernel_stop_all)
{
    needs_fakes();
    struct nccl_job fails = {.n = 2, .set = {{"T_FAULT", "1"}}};
    struct nccl_job hangs = {.n = 2, .set = {{"T_FAULT", "2"}, {"T_TIMEOUT_MS", "3000"}}};
    struct nccl_job loop = {
        .n = 1,
        .alone = true,
        .set = {{"T_LOOP", "1"}, {"T_RANKS", "2"}, {"T_FAULT", "2"}, {"T_TIMEOUT_MS", "1000"}}};

    nccl_start(&hangs);
    nccl_start(&loop);
    all_stop(&fails, -1, "step 1");
    has(fails.line[1], "made to fail");
    has(fails.line[1], "first unfinished: op 7 (backward) of rank 1");
    has(fails.line[0], "rank 1 gave up: made to fail");
    all_stop(&hangs, -1, "step 1");
    all_stop(&loop, -1, "first unfinished: op 7 (backward) of rank 1");
    assert_int_equal(loop.code[0], LW_ETIMEOUT);
}

TEST(a_rank_lost_while_opening_stops_the_others)
{
    needs_fakes();
    struct nccl_job lost = {.n = 3, .set = {{"FAKE_NCCL_LOSE", "2:0"}}};
    struct nccl_job hung = {.n = 2, .set = {{"FAKE_NCCL_HANG", "1:0"}, {"T_TIMEOUT_MS", "1500"}}};

    nccl_start(&hung);
    all_stop(&lost, 2, "rank 2 is gone");
    nccl_run(&hung);
    for (int r = 0; r < 2; r++)
        if (hung.code[r] != LW_ETIMEOUT && hung.code[r] != LW_EFAILED)
            fail_msg("%s", hung.line[r]);
}

/* NCCL writes the handle of a split when the split ends, which may be when its parent is aborted:
 * the place is not on the stack of a call that has returned, also of a rank outside all groups,
 * and what was written there is aborted too. The second split is of ranks 1 and 2. */
TEST(a_split_that_does_not_end_stops_all)
{
    needs_fakes();
    char path[64], *text;
    struct nccl_job j = {.n = 3,
                         .set = {{"T_OPS", "1"},
                                 {"FAKE_NCCL_HANG", "1:-2"},
                                 {"FAKE_NCCL_LOG", nccl_log_path(path)},
                                 {"T_TIMEOUT_MS", "3000"}}};

    nccl_run(&j);
    for (int r = 0; r < 3; r++)
        if (j.code[r] != LW_ETIMEOUT && j.code[r] != LW_EFAILED)
            fail_msg("%s", j.line[r]);
    text = nccl_read_log(path);
    assert_int_equal(count_words(text, "on the stack"), 0);
    assert_int_equal(count_words(text, " of 3: aborted, split 0\n"), 3);
    assert_int_equal(count_words(text, " of 3: aborted, split 1\n"), 3);
    assert_int_equal(count_words(text, "aborted, split 2\n"), 2);
    free(text);
}

/* An abort frees device memory, which waits for all kernels: those of other communicators end only
 * when these are aborted. Versions before 2.22 abort one after the other. */
TEST(kernels_of_other_communicators_do_not_hold_up_an_abort)
{
    needs_fakes();
    static const char *const versions[] = {"22203", "22105"};

    struct nccl_job jobs[2];

    for (int i = 0; i < 2; i++) {
        jobs[i] = (struct nccl_job){.n = 2,
                                    .set = {{"FAKE_NCCL_HANG", "1:4"},
                                            {"FAKE_NCCL_VERSION", versions[i]},
                                            {"T_TIMEOUT_MS", "2000"}}};
        nccl_start(&jobs[i]);
    }
    for (int i = 0; i < 2; i++)
        all_stop(&jobs[i], -1, "(all_reduce of bucket 0)");
}

/* The same while a call does not return: the watchdog aborts all communicators, because the abort
 * of the call's own one waits for the kernel of another. */
TEST(a_call_that_does_not_return_ends_beside_kernels_of_other_communicators)
{
    needs_fakes();
    static const char *const versions[] = {"22203", "22105"};

    for (int i = 0; i < 2; i++) {
        struct nccl_job j = {.n = 2,
                             .set = {{"T_BLOCK", "1"},
                                     {"FAKE_NCCL_HANG", "1:1"},
                                     {"FAKE_NCCL_VERSION", versions[i]},
                                     {"T_TIMEOUT_MS", "1000"}}};
        nccl_run(&j);
        assert_int_equal(j.code[0], LW_ETIMEOUT);
        has(j.line[0], "NCCL: send and receive: the call did not return within 1 s");
        assert_int_equal(j.code[1], LW_EFAILED);
        has(j.line[1], "rank 0");
    }
}

TEST(a_driver_error_of_one_rank_stops_all)
{
    needs_fakes();
    struct nccl_job j = {.n = 3,
                         .only = {{"1", "FAKE_CUDA_ASYNC", "lw_convert:200:700"}},
                         .set = {{"T_WORK_US", "50"}}};
    struct nccl_job memory = {.n = 2, .only = {{"1", "FAKE_GPU_MEMORY", "790600"}}};

    all_stop(&j, -1, "an illegal memory access was encountered");
    nccl_run(&memory);
    assert_int_equal(memory.code[1], LW_ENOMEM);
    has(memory.line[0], "rank 1 gave up");
}

/* --- finding each other --- */

TEST(processes_that_differ_are_turned_away)
{
    needs_fakes();
    struct nccl_job plan = {.n = 3, .only = {{"2", "T_HASH", "abc"}}};
    struct nccl_job size = {.n = 2, .only = {{"1", "LAPWING_RANKS", "4"}}};
    struct nccl_job twice = {.n = 3, .only = {{"2", "LAPWING_RANK", "1"}}};
    struct nccl_job absent = {
        .n = 2, .only = {{"1", "LAPWING_TOKEN", "other"}}, .set = {{"T_TIMEOUT_MS", "1000"}}};
    struct nccl_job two_launchers = {.n = 1, .set = {{"RANK", "0"}, {"WORLD_SIZE", "8"}}};

    nccl_run(&plan);
    for (int r = 0; r < 3; r += 2)
        has(plan.line[r], "rank 2 has another plan (abc) than rank 0 (0)");
    nccl_run(&size);
    has(size.line[0], "rank 1 of 4 came to a run of 2 ranks");
    has(size.line[1], "rank 1 of 4 came to a run of 2 ranks");
    nccl_run(&twice);
    has(twice.line[0], "two processes say that they are rank 1");
    nccl_run(&absent);
    has(absent.line[0], "these ranks have not come: 1");
    nccl_run(&two_launchers);
    has(two_launchers.line[0], "torchrun (RANK, WORLD_SIZE) says rank 0 of 8");
}

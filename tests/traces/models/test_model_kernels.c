/* lapwing model --kernels: whole shapes, and what one rank takes. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "traces/models/model_kernels.h"

/* Queries of 64 heads of 128 from 8192 wide tokens: of tensor groups of 8 a rank has n / 8, which
 * `lapwing cost --gemm 8192,1024,8192` times. Blocks are alike. */
TEST_WITH(kernels_have_whole_shapes_and_times_of_a_rank, fixture_open, fixture_close)
{
    const char *out = lapwingf(
        "model llama-3-70b --device dgx-h100 --tp 8 --framework ideal --kernels --format csv");
    assert_non_null(strstr(out, "\nmodel.layers.0,80,1,gemm,column,\"8192,8192,8192\",products,"
                                "189032,213199,189032\n"));
    assert_non_null(strstr(out, "\nmodel.layers.0,80,5,attention,heads,\"1x8192, 64/8\","
                                "products,"));
    assert_non_null(strstr(out, "\nlm_head,1,1,gemm,vocab,"));
    assert_null(strstr(out, "model.layers.1,"));
    expect("cost -c dgx-h100 --gemm 8192,1024,8192", 0, "189.032 us");
}

/* A product of one tile is over before its launch: both commands say so with one word. */
TEST_WITH(kernels_and_cost_name_a_bound_alike, fixture_open, fixture_close)
{
    const char *out = lapwingf("model gpt2 --layers 1 --hidden 64 --heads 1 --ffn 64 --batch 1 "
                               "--seq 64 --dtype bf16 --framework ideal --device dgx-h100 "
                               "--kernels --format csv");
    assert_non_null(strstr(out, "gemm,row,\"64,64,64\",launch,"));
    expect("cost -c dgx-h100 --gemm 64,64,64", 0, "bound by launch");
    expect("cost -c dgx-h100 --gemm 8192,1024,8192 --format json", 0,
           "\"bound_by\": \"products\"");
}

/* 8 experts have the copies of 4096 tokens, two of each. */
TEST_WITH(kernels_of_experts_have_their_rows, fixture_open, fixture_close)
{
    const char *out = lapwingf("model mixtral-8x7b --ep 8 --kernels --format csv");
    assert_non_null(strstr(out, "gemm,column,\"8x1024,28672,4096\","));
}

/* What the times are of stands above the table, and no name or shape is cut. */
TEST_WITH(text_names_device_framework_and_groups, fixture_open, fixture_close)
{
    const char *out = lapwingf("model gpt2 --device dgx-a100 --tp 4 --kernels");

    assert_non_null(strstr(out, "gpt2, on A100-SXM4-80GB, a rank of --tp 4 --cp 1 --ep 1"));
    assert_non_null(strstr(out, "\nframework "));
    assert_null(strstr(out, "\xe2\x80\xa6"));
}

/* A module without kernels has a place among them all the same: the next module's. */
TEST_WITH(a_module_without_kernels_hides_no_other, fixture_open, fixture_close)
{
    struct lw_kernel kernel = {.kind = LW_KERNEL_GEMM, .batch = 1, .m = 2, .n = 3, .k = 4};
    struct lw_kernel_times times = {0};
    struct lw_module modules[] = {{.name = "none"}, {.name = "two", .n_kernels = 1},
                                  {.name = "alike", .n_kernels = 1}};
    struct lw_workload w = {.modules = modules, .n_modules = 3, .kernels = &kernel,
                            .kernel_times = &times, .n_kernels = 1, .from.device = ""};
    struct lw_err err = {0};

    fflush(stdout);
    int was = dup(STDOUT_FILENO);
    assert_non_null(freopen(fixture_path("out"), "w", stdout));
    enum lw_status st = traces_model_print_kernels(&w, NULL, LW_FORMAT_CSV, &err);
    fflush(stdout);
    dup2(was, STDOUT_FILENO);
    close(was);
    assert_ok(st, err);
    char *out = fixture_get(fixture_path("out"));
    assert_non_null(strstr(out, "\ntwo,2,0,gemm,"));
    free(out);
}

TEST_WITH(two_outputs_do_not_share_standard_output, fixture_open, fixture_close)
{
    expect("model gpt2 --kernels -o -", 2, "--kernels and -o - both write standard output");
}

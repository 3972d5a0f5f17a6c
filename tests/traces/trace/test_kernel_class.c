/* Kernel classes: built-in marks, a user's file before them. */
#include "tests/lib/unit.h"
#include <stdio.h>
#include <string.h>

#include "tests/lib/failing_alloc.h"
#include "tests/lib/files/file_fixture.h"
#include "traces/trace/kernel_class.h"

TEST(names_of_libraries_have_their_class)
{
    static const struct {
        const char *name;
        enum lw_kernel_class class;
        int dtype; /* -1 = the name tells none */
    } want[] = {
        {"ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
         LW_KERNEL_COMM, -1},
        {"void deep_ep::intranode::combine<__nv_bfloat16, 4>", LW_KERNEL_COMM, -1},
        {"nvshmemi_transfer_rma_signal", LW_KERNEL_COMM, -1},
        {"mscclKernel_Sum_half_Simple", LW_KERNEL_OTHER, -1}, /* a user's line makes it comm */
        {"ampere_sgemm_128x64_nn", LW_KERNEL_COMPUTE, LW_F32},
        {"volta_h884gemm_64x64_ldg8_nn", LW_KERNEL_COMPUTE, LW_F16},
        {"ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_nn", LW_KERNEL_COMPUTE, LW_BF16},
        {"void cutlass::Kernel<cutlass_80_tensorop>", LW_KERNEL_COMPUTE, -1},
        {"void at::native::vectorized_elementwise_kernel<4, AddFunctor>", LW_KERNEL_MEMORY, -1},
        {"void cub::DeviceScanKernel<int>", LW_KERNEL_MEMORY, -1},
        {"void vllm::cross_device_reduce_1stage<half, 8>", LW_KERNEL_COMM, -1},
        {"multimem_all_reduce_kernel<c10::BFloat16, 16>", LW_KERNEL_COMM, -1},
        {"two_shot_all_reduce_kernel<c10::BFloat16, 16, 8>", LW_KERNEL_COMM, -1},
        {"void tensorrt_llm::kernels::oneShotAllReduceKernel<half, 8>", LW_KERNEL_COMM, -1},
        {"multi_tensor_apply_kernel", LW_KERNEL_MEMORY, -1},
        {"my_kernel", LW_KERNEL_OTHER, -1},
    };

    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        const struct lw_kernel_mark *m = lw_kernel_mark_of(NULL, want[i].name);
        assert_int_equal(lw_kernel_class_of(NULL, want[i].name), want[i].class);
        assert_int_equal(m && m->has_dtype ? (int)m->dtype : -1, want[i].dtype);
        assert_int_equal(lw_kernel_is_comm(want[i].name), want[i].class == LW_KERNEL_COMM);
    }
}

TEST(types_of_products_are_in_the_names_of_todays_libraries)
{
    static const struct {
        const char *name;
        int dtype; /* -1 = none */
        bool fp8;
    } want[] = {
        {"igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1_bt128x128x32", LW_BF16, false},
        {"Cijk_Ailk_Bljk_BBS_BH_MT32x32x64_MI16x16x16x1_SN", LW_BF16, false},
        {"Cijk_Ailk_Bljk_HHS_BH_MT64x64x64_SE", LW_F16, false},
        {"Cijk_Alik_Bljk_SB_MT128x64x16_SE_APM1_ABV0_ACED0", LW_F32, false},
        {"_ZN2ck16tensor_operation6device13kernel_gemm_xdlIDF16bDF16bfE", LW_BF16, false},
        {"nvjet_tst_128x128_64x6_1x2_h_bz_coopA_NTT", LW_BF16, false},
        {"nvjet_hsh_64x8_64x16_1x4_v_bz_TNN", LW_F16, false},
        {"nvjet_qqtst_128x256_128x4_2x1_v_bz_coopA_TNT", LW_BF16, true},
        {"cutlass3x_sm90_tensorop_s64x128x16gemm_bf16_bf16_f32_void_bf16_128x128x64", LW_BF16,
         false},
        {"cutlass3x_sm100_tensorop_s128x128x16gemm_f16_f16_f32_f16_f16", LW_F16, false},
        {"sm90_xmma_gemm_e4m3bf16_e4m3f32_f32_tn_n_tilesize64x64x128", LW_BF16, true},
        {"sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n", LW_F32, false},
        {"void flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, cutlass::bfloat16_t>>",
         LW_BF16, false},
        {"void flash_bwd_kernel<Flash_bwd_kernel_traits<cutlass::half_t>>", LW_F16, false},
        {"ampere_sgemm_128x64_nn", LW_F32, false},
        {"triton_tem_fused_mm_0", -1, false},
        {"void cutlass::Kernel<cutlass_80_tensorop>", -1, false},
    };

    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        struct lw_kernel_type is = lw_kernel_type_of(NULL, want[i].name);
        if ((is.known ? (int)is.dtype : -1) != want[i].dtype || is.fp8 != want[i].fp8)
            fail_msg("%s: %d", want[i].name, is.known ? (int)is.dtype : -1);
        assert_int_equal(lw_kernel_class_of(NULL, want[i].name), LW_KERNEL_COMPUTE);
    }
    assert_true(lw_kernel_type_named("c10::Float8_e4m3fn").fp8);
    assert_int_equal(lw_kernel_type_named("c10::BFloat16").dtype, LW_BF16);
    assert_false(lw_kernel_type_named("long int").known);
}

TEST(a_users_marks_come_before_the_built_in_ones)
{
    struct lw_kernel_table t;
    const char *file = fixture_path("classes.txt");

    fixture_put(file, "# mine\ncomm cross_device_reduce # one-shot\n\ncomm mscclKernel\ncompute "
                      "my_attention bf16\n"
                      "other sgemm\n");
    assert_int_equal(lw_kernel_table_read(file, &t, NULL), LW_OK);
    assert_int_equal(t.n, 4);
    assert_int_equal(lw_kernel_class_of(&t, "mscclKernel_Sum_half_Simple"), LW_KERNEL_COMM);
    assert_int_equal(lw_kernel_class_of(&t, "cross_device_reduce_1stage<half, 8>"), LW_KERNEL_COMM);
    assert_int_equal(lw_kernel_class_of(&t, "ampere_sgemm_128x64_nn"), LW_KERNEL_OTHER);
    assert_int_equal(lw_kernel_class_of(&t, "ampere_hgemm"), LW_KERNEL_COMPUTE);
    const struct lw_kernel_mark *m = lw_kernel_mark_of(&t, "My_Attention_fwd");
    assert_true(m && m->class == LW_KERNEL_COMPUTE && m->has_dtype && m->dtype == LW_BF16);
    lw_kernel_table_free(&t);
}

TEST(long_names_and_long_marks_are_looked_through_too)
{
    static char name[5000], line[160];
    struct lw_kernel_table t;

    memset(name, 'x', sizeof name - 1);
    for (size_t len = 2030; len < 2070; len++) {
        memcpy(name + len - 5, "SGemm", 6);
        assert_int_equal(lw_kernel_class_of(NULL, name), LW_KERNEL_COMPUTE);
        name[len - 1] = 'n';
        assert_int_equal(lw_kernel_class_of(NULL, name), LW_KERNEL_OTHER);
        memset(name, 'x', sizeof name - 1);
    }
    for (int n = 60; n < 70; n++) {
        memset(line, 'a', sizeof line);
        memcpy(line, "comm ", 5);
        snprintf(line + 5 + n, sizeof line - 5 - (size_t)n, "End\n");
        fixture_put(fixture_path("long.txt"), line);
        assert_int_equal(lw_kernel_table_read(fixture_path("long.txt"), &t, NULL), LW_OK);
        line[strlen(line) - 1] = 0;
        assert_int_equal(lw_kernel_class_of(&t, line + 5), LW_KERNEL_COMM);
        assert_int_equal(lw_kernel_class_of(&t, line + 6), LW_KERNEL_OTHER);
        lw_kernel_table_free(&t);
    }
}

TEST(a_wrong_line_is_named)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"comm a\nfast b\n", "classes.txt:2: unknown kernel class 'fast'"},
        {"comm\n", "classes.txt:1: class 'comm': missing text; expected a part of the kernels' "
                   "names after it"},
        {"compute a f12\n", "classes.txt:1: "},
    };
    struct lw_kernel_table t;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lw_err err = {0};
        const char *file = fixture_path("classes.txt");
        fixture_put(file, cases[i].text);
        assert_int_not_equal(lw_kernel_table_read(file, &t, &err), LW_OK);
        if (!strstr(err.msg, cases[i].says))
            fail_msg("'%s' does not say '%s'", err.msg, cases[i].says);
    }
}

TEST(failing_allocations_leak_nothing)
{
    const char *file = fixture_path("classes.txt");
    struct lw_kernel_table t = {0};

    fixture_put(file, "comm a\nmemory b\n");
    EACH_ALLOCATION_FAILS(2, lw_kernel_table_read(file, &t, NULL), t, lw_kernel_table_free(&t));
}

TEST_GROUP(fixture_open, fixture_close)

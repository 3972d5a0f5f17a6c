/* Kernel classes: built-in marks, a user's file before them. */
#include "tests/lib/unit.h"
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
        {"cross_device_reduce_1stage<half, 8>", LW_KERNEL_MEMORY, -1},
        {"my_kernel", LW_KERNEL_OTHER, -1},
    };

    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        const struct lw_kernel_mark *m = lw_kernel_mark_of(NULL, want[i].name);
        assert_int_equal(lw_kernel_class_of(NULL, want[i].name), want[i].class);
        assert_int_equal(m && m->has_dtype ? (int)m->dtype : -1, want[i].dtype);
        assert_int_equal(lw_kernel_is_comm(want[i].name), want[i].class == LW_KERNEL_COMM);
    }
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

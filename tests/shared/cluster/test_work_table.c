/* Which table of local work speaks for what: shared/cluster/work_table.h. */
#include "tests/lib/unit.h"

#include "shared/cluster/cluster.h"

static const int64_t sizes[] = {1000, 4000};
static const lw_ps times[] = {10, 40};

static struct lw_work_table table(enum lw_work_kind kind, enum lw_dtype dtype, enum lw_dtype from)
{
    return (struct lw_work_table){.kind = kind, .dtype = dtype, .from = from, .n_rows = 2,
                                  .size = sizes, .time_ps = times, .source = "test"};
}

TEST(every_kind_has_a_name_of_its_own)
{
    for (int k = 0; k < LW_N_WORK_KINDS; k++) {
        assert_non_null(lw_work_name((enum lw_work_kind)k));
        for (int other = 0; other < k; other++)
            assert_string_not_equal(lw_work_name((enum lw_work_kind)k),
                                    lw_work_name((enum lw_work_kind)other));
    }
    assert_null(lw_work_name(LW_N_WORK_KINDS));
}

TEST(its_own_types_come_first_then_what_results_then_any)
{
    struct lw_work_table t[] = {
        table(LW_WORK_COPY_IN, LW_BF16, LW_BF16), table(LW_WORK_COPY_IN, LW_F32, LW_F32),
        table(LW_WORK_CAST, LW_F32, LW_F16),      table(LW_WORK_CAST, LW_F32, LW_BF16),
        table(LW_WORK_GEMM, LW_F32, LW_F32),
    };
    struct lw_device d = {.n_work = 5, .work = t};

    assert_ptr_equal(lw_work_find(&d, LW_WORK_COPY_IN, LW_F32, LW_F32), &t[1]);
    assert_ptr_equal(lw_work_find(&d, LW_WORK_COPY_IN, LW_F64, LW_F64), &t[0]); /* any, the first */
    assert_ptr_equal(lw_work_find(&d, LW_WORK_CAST, LW_F32, LW_BF16), &t[3]);
    assert_ptr_equal(lw_work_find(&d, LW_WORK_CAST, LW_F32, LW_F64), &t[2]);
    assert_ptr_equal(lw_work_find(&d, LW_WORK_CAST, LW_F32, LW_N_DTYPES), &t[2]);
    assert_ptr_equal(lw_work_find(&d, LW_WORK_GEMM, LW_F32, LW_F32), &t[4]);
    assert_null(lw_work_find(&d, LW_WORK_GEMM, LW_BF16, LW_BF16)); /* another type's says nothing */
    assert_null(lw_work_find(&d, LW_WORK_ADAM, LW_F32, LW_F32));
}

/* 1000 -> 4000 bytes take 10 -> 40 ps. */
TEST(nothing_takes_no_time_and_little_takes_the_least)
{
    struct lw_work_table t = table(LW_WORK_COPY, LW_F32, LW_F32);

    assert_int_equal(lw_work_time(&t, 0), 0);
    assert_int_equal(lw_work_time(&t, 1), 10);
    assert_int_equal(lw_work_time(&t, 2000), 20);
    assert_int_equal(lw_work_time(&t, 5000), 50);
}

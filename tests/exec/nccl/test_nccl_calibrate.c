/* calibrate on the fake GPU: passes over memory go on to sizes whose kernels last longer than their
 * launch, as far as the free memory of the device holds the plans that measure them. */
#include <stdio.h>
#include "tests/lib/unit.h"

#include "shared/cluster/work_table.h"
#include "shared/files/files.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/commands/fake_gpu.h"
#include "tests/lib/files/file_fixture.h"

/* The largest size of the table of that kind, f32; 0: there is none. */
static int64_t largest(const struct lw_cluster *c, enum lw_work_kind kind)
{
    const struct lw_work_table *t = lw_work_find(&c->device, kind, LW_F32, LW_F32);

    return t ? t->size[t->n_rows - 1] : 0;
}

static struct lw_cluster calibrated(const char *memory, const char *args)
{
    struct lw_cluster c;
    struct lw_err err = {0};
    char words[512];
    int rc;

    snprintf(words, sizeof words,
             "FAKE_GPU_MEMORY=%s $L calibrate --backend nccl --rounds 1 --steps 1 --max-bytes "
             "16MiB --max-side 32 -q --force -o c.json %s", memory, args);
    const char *said = fake_shell(words, &rc);
    if (rc != 0)
        fail_msg("%s: exit %d: %s", words, rc, said);
    assert_ok(lw_cluster_find(fixture_path("c.json"), &c, &err), err);
    return c;
}

/* Of 512 MiB passes may go on to 32 MiB (tests/exec/calibrate/test_calibrate.c has the arithmetic).
 * Two ranks on one device stay at 16 MiB. Adam goes on by fours from 16 MiB. */
TEST_WITH(passes_grow_with_the_free_memory_of_a_gpu, fixture_open, fixture_close)
{
    needs_fakes();
    if (unit_cases(0, 1) == 0) { /* half a minute */
        printf("SKIP passes_grow_with_the_free_memory_of_a_gpu: LAPWING_MANY is not set\n");
        skip();
    }
    struct lw_cluster one = calibrated("536870912", "--ranks 1");
    struct lw_cluster two = calibrated("536870912", "--ranks 2 --transport loop");

    assert_int_equal(largest(&one, LW_WORK_COPY), 32 << 20);
    assert_int_equal(largest(&one, LW_WORK_COPY_IN), 32 << 20);
    assert_int_equal(largest(&one, LW_WORK_FILL), 32 << 20);
    assert_int_equal(largest(&one, LW_WORK_ADAM), 16 << 20);
    assert_int_equal(largest(&two, LW_WORK_COPY), 16 << 20);
    assert_int_equal(largest(&two, LW_WORK_FILL), 16 << 20);
    lw_cluster_free(&one);
    lw_cluster_free(&two);
}

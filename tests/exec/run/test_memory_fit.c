/* What a run needs is said before it starts: exec/run/memory_fit.h. */
#include <stdio.h>
#include <string.h>
#include "tests/lib/unit.h"

#include "exec/run/memory_fit.h"
#include "shared/base/host_memory.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/exec/exec_plan.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"

/* Parameters of 1000 .. 1004 f32, each on a boundary of 64 bytes: 5 * 4032 = 20160 bytes of
 * weights, as many of gradients and of momentum; buckets of 2007, 2003 and 1000 elements, 8064 +
 * 8064 + 4032 = 20160. A rank takes 80640; verifying 32 bytes for each of 1004 elements, 32128. */
enum { RANK = 80640, VERIFY = 32128 };

TEST(memory_of_a_rank_is_exact)
{
    struct exec_test_plan t = exec_test_plan_default();
    struct lw_exec_options o = lw_exec_options_default();
    struct lw_plan plan;
    struct lw_err err = {0};

    o.optimizer = exec_optimizer_of(EXEC_MOMENTUM);
    assert_int_equal(exec_test_plan_build(&t, &plan, &err), LW_OK);
    assert_int_equal(exec_fits_in(&plan, &o, 2, 2 * RANK + VERIFY, &err), LW_OK);
    assert_int_equal(exec_fits_in(&plan, &o, 2, 2 * RANK + VERIFY - 1, &err), LW_ENOTSUP);
    assert_string_equal(
        err.msg,
        "the plan needs 78.75 KiB of memory a rank (weights 19.69 KiB, gradients and buckets "
        "39.38 KiB, masters and optimizer 19.69 KiB, messages 0 B), 2 here, and 31.38 KiB to "
        "verify (--no-verify); this machine has 188.87 KiB left");
    o.verify = false;
    assert_int_equal(exec_fits_in(&plan, &o, 3, 3 * RANK, &err), LW_OK);
    assert_int_equal(exec_fits_in(&plan, &o, 3, 3 * RANK - 1, &err), LW_ENOTSUP);
    assert_null(strstr(err.msg, "verify"));
    lw_plan_free(&plan);
}

TEST(a_backend_with_memory_of_its_own_is_not_asked)
{
    struct exec_test_plan t = exec_test_plan_default();
    struct exec_backend apart = exec_backend_threads;
    struct lw_exec_options o = lw_exec_options_default();
    struct lw_plan plan;
    struct lw_err err = {0};

    t.n_params = 1;
    t.numel = INT64_C(1000000000000);
    assert_int_equal(exec_test_plan_build(&t, &plan, &err), LW_OK);
    assert_int_equal(lw_exec_fits(&plan, &o, 2, &err), LW_ENOTSUP);
    apart.capabilities &= ~(uint32_t)EXEC_IN_HOST_MEMORY;
    o.backend = &apart;
    assert_int_equal(lw_exec_fits(&plan, &o, 2, &err), LW_OK);
    lw_plan_free(&plan);
}

/* Some, and no more than the machine was built with and swaps to. */
TEST(this_machine_has_memory)
{
    FILE *f = fopen("/proc/meminfo", "r");
    char line[128];
    double kib, all = 0;

    assert_non_null(f);
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "MemTotal: %lf", &kib) == 1 || sscanf(line, "SwapTotal: %lf", &kib) == 1)
            all += kib * 1024;
    fclose(f);
    assert_true(lw_host_memory_left() > 1e6 && lw_host_memory_left() <= all);
}

/* A parameter of 10^12 elements: one line, also where processes would be started, and exit
 * status 1. */
TEST(a_plan_beyond_the_machine_is_one_message)
{
    static const char *const how[] = {"", "--spawn", "--no-verify"};
    static const char head[] =
        "lapwing exec: the plan needs 10.91 TiB of memory a rank (weights 3.64 TiB,";

    shell("$L model mlp --layers 2 --width 64 -o w.json >log && "
          "sed -i '0,/\"numel\": 4096/s//\"numel\": 1000000000000/' w.json", NULL);
    for (size_t i = 0; i < sizeof how / sizeof *how; i++) {
        char args[128];
        int rc;
        snprintf(args, sizeof args, "exec -w w.json --dp 3 --compute sleep %s", how[i]);
        const char *out = lapwing(args, &rc);
        if (rc != 1 || strncmp(out, head, strlen(head)) != 0 || !text_says(out, "), 3 here") ||
            !is_one_message(out))
            fail_msg("%s: status %d\n%s", how[i], rc, out);
    }
    assert_string_equal(shell("ls", NULL), "log\nw.json\n"); /* nothing is stored */
}

TEST_GROUP(fixture_open, fixture_close)

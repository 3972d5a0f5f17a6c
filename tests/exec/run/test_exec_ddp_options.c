/* Plans with PyTorch's options for micro-batches run: what every rank has equals a run on one rank
 * bit by bit. docs/design/torch_runs.md, docs/design/exec_verify.md. */
#include <string.h>

#include "tests/lib/exec/exec_chain.h"
#include "tests/lib/unit.h"

static const char *const plans[] = {
    "dp 2 micro-batches 3 sync-each-micro-batch on",
    "dp 4 micro-batches 2 sync-each-micro-batch on bucket-cap 100",
    "dp 2 micro-batches 3 sync-each-micro-batch on accumulate-pass on overlap off",
    "dp 2 micro-batches 2 sync-each-micro-batch on clip 0.5",
    "dp 2 gradient-as-bucket-view on",
    "dp 3 gradient-as-bucket-view on bucket-cap 100 micro-batches 2",
    "dp 2 gradient-as-bucket-view on bucket-cap 100 no-sync 2",
    "dp 2 gradient-as-bucket-view on sync-each-micro-batch on micro-batches 2 bucket-cap 100",
    "dp 2 zero 3 units children",
    "dp 2 zero 3 units children unit-copies on prefetch 0 overlap off",
    "dp 2 zero 3 units children reshard off micro-batches 2",
    "pp 2 micro-batches 4 async-messages off",
    "pp 2 micro-batches 4 async-messages off schedule gpipe accumulate-pass on",
    "dp 2 pp 2 micro-batches 4 async-messages off gradient-as-bucket-view on bucket-cap 100",
    "pp 3 micro-batches 5 async-messages off",
};

TEST(runs_equal_one_rank)
{
    struct chain c;
    struct lw_exec_options o = exec_asleep(3, EXEC_SGD);
    static const char *const names[] = {"a.0", "a.1", "b", "c.0", "c.1", "c.2"};

    chain_init(&c, 6);
    c.w.optimizer = LW_OPTIMIZER_SGD;
    for (int m = 0; m < 6; m++)
        c.modules[m].name = names[m];
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        struct lw_plan p = build(&c, plans[i]);
        assert_true(exec_verified(&p, &o, plans[i], NULL) > 0);
        lw_plan_free(&p);
    }
}

/* Averages of averages over three ranks round in another order. */
TEST(averages_that_cannot_be_verified_are_refused)
{
    struct chain c;
    struct lw_exec_options o = exec_asleep(2, EXEC_SGD);
    struct lw_exec_result result;
    struct lw_err err = {0};

    chain_init(&c, 4);
    struct lw_plan p = build(&c, "dp 3 micro-batches 2 sync-each-micro-batch on");
    assert_int_equal(lw_exec_run(&p, &o, &result, &err), LW_ENOTSUP);
    assert_non_null(strstr(err.msg, "a power of two; choose another --dp, or run with "));
    lw_plan_free(&p);
}

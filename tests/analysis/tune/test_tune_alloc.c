/* A search whose n-th allocation fails ends with LW_ENOMEM and leaves nothing behind. */
#include "tests/lib/unit.h"

#include "analysis/tune_command/tune_parts.h"
#include "tests/lib/failing_alloc.h"

static enum lw_status search(const struct lw_tune_command *c)
{
    const struct lw_tune_task task = {.parts = c->parts, .n_parts = c->n_parts, .n_best = 1,
                                      .n_threads = 1};
    struct lw_tune_result r;
    struct lw_err err;
    enum lw_status st = lw_tune(&task, &r, &err);

    if (st == LW_OK)
        assert_int_equal(r.n_valid, 2);
    lw_tune_free(&r);
    return st;
}

TEST(each_allocation_fails)
{
    static const char *const words[] = {
        "tune", "-w", "decoder", "--layers", "2", "--hidden", "64", "--heads", "2", "--seq", "64",
        "--vocab", "128", "-c", "dgx-a100", "--ranks", "2", "--global-batch", "4", "--batch", "1",
        "--tp", "1", "--pp", "1,2", "--zero", "0", "--recompute", "none", "--schedule", "1f1b",
        "--sequence-parallel", "off", "--overlap-param-gather", "off", "--no-db", "-q", NULL};
    struct lw_tune_command c;

    int rc = lw_tune_parts(&c, sizeof words / sizeof *words - 1, (char **)words);
    assert_int_equal(rc, -1);
    assert_int_equal(search(&c), LW_OK); /* what is made once for all is there now */
    EACH_ALLOCATION_FAILS_IN(100, search(&c));
    lw_tune_parts_free(&c);
}

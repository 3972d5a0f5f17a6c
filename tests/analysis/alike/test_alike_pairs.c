/* Differences between measured runs of one table, of the results that the program carries. */
#include "tests/lib/unit.h"

#include <math.h>

#include "analysis/alike/alike_pairs.h"

static struct lw_alike_pairs of(const char *parallelism)
{
    const struct lw_alike_key key = {{"megatron-lm", "H100-SXM5-80GB", parallelism, "NVLink"}};
    struct lw_alike_runs runs;
    struct lw_alike_pairs p;
    struct lw_err err = {0};

    assert_ok(lw_alike_known(&runs, &err), err);
    assert_ok(lw_alike_pairs_of(&runs, &key, &p, &err), err);
    lw_alike_free(&runs);
    return p;
}

TEST(pairs_of_the_same_parallelism)
{
    struct lw_alike_pairs model = of("model");

    assert_true(model.same && model.n_tables >= 3 && model.n_pairs > 100);
    assert_true(model.within > 1 && model.within < 2);
}

/* A parallelism that no table has: pairs of all tables, which are more. */
TEST(pairs_of_all_tables)
{
    struct lw_alike_pairs all = of("unheard"), model = of("model");

    assert_true(!all.same && all.n_tables > model.n_tables && all.n_pairs > model.n_pairs);
    assert_true(all.within > 1 && all.within < 2);
}

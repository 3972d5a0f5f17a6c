/* Which combinations may have one plan, and which cap another one's plan is known for. */
#include "tests/lib/unit.h"

#include "analysis/tune_bound/tune_same.h"

/* Of 2 x 3 caps x 2 the middle digit is left out: k = 6 a + 2 cap + b. */
TEST(a_family_differs_in_caps_alone)
{
    const struct lw_tune_space x = {.dim = {{.name = "tp", .n = 2}, {.name = "bucket-cap", .n = 3},
                                            {.name = "overlap-param-gather", .n = 2}},
                                    .n_dims = 3, .n = 12};
    const int64_t families[12] = {0, 1, 0, 1, 0, 1, 6, 7, 6, 7, 6, 7};
    const struct lw_tune_space without = {.dim = {{.name = "tp", .n = 2}}, .n_dims = 1, .n = 2};

    for (int64_t k = 0; k < 12; k++)
        assert_int_equal(lw_tune_family(&x, k), families[k]);
    assert_int_equal(lw_tune_family(&without, 1), 1);
}

/* From the least cap to below the next one, of the family alone; families 6 and 4,102 share a
 * chain. */
TEST(a_cap_is_found_in_its_range)
{
    struct lw_arena a = {0};
    struct lw_tune_same *s;

    assert_int_equal(lw_tune_same_new(&a, &s, NULL), LW_OK);
    assert_int_equal(lw_tune_same_put(s, 6, 100, 200, 3, NULL), LW_OK);
    assert_int_equal(lw_tune_same_put(s, 6, 300, INT64_MAX, 4, NULL), LW_OK);
    assert_int_equal(lw_tune_same_put(s, 4102, 200, 300, 5, NULL), LW_OK);
    assert_int_equal(lw_tune_same_find(s, 6, 99), -1);
    assert_int_equal(lw_tune_same_find(s, 6, 100), 3);
    assert_int_equal(lw_tune_same_find(s, 6, 199), 3);
    assert_int_equal(lw_tune_same_find(s, 6, 200), -1);
    assert_int_equal(lw_tune_same_find(s, 6, 5000), 4);
    assert_int_equal(lw_tune_same_find(s, 4102, 250), 5);
    assert_int_equal(lw_tune_same_find(s, 7, 150), -1);
    lw_arena_free(&a);
}

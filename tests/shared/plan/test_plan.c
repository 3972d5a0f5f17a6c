/* Access to a plan: shared/plan/plan.c. */
#include "tests/lib/unit.h"

#include "tests/lib/plans/plan_words.h"
#include "tests/lib/traces/model_help.h"

/* Each rank is once in the list of its role, at its index in it. */
TEST(ranks_are_listed_by_role)
{
    struct lw_workload w = model_build(
        "llama-7b", (struct traces_model_shape){.batch = 1, .layers = 4, .hidden = 16, .heads = 4,
                                                .ffn = 32, .seq = 32, .vocab = 32, .dtype = "f32",
                                                .optimizer = "adam"});
    struct lw_plan p = plan_of_words(&w, "dp 3 pp 2 tp 2 micro-batches 2");
    struct lw_arena room = {0};
    struct lw_err err = {0};
    int32_t *ranks, *first;

    assert_ok(lw_plan_ranks_by_role(&p, &room, &ranks, &first, &err), err);
    assert_int_equal(p.n_roles, 2);
    assert_int_equal(first[0], 0);
    assert_int_equal(first[p.n_roles], p.n_ranks);
    for (int32_t role = 0; role < p.n_roles; role++)
        for (int32_t i = first[role]; i < first[role + 1]; i++) {
            assert_int_equal(p.role_of[ranks[i]], role);
            assert_int_equal(p.index_in_role[ranks[i]], i - first[role]);
        }
    lw_arena_free(&room);
    lw_plan_free(&p);
    lw_workload_free(&w);
}

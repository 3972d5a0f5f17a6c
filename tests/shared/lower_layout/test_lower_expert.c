/* Expert parallelism: shared/lower_ops/lower_forward.c, lower_backward.c, lower_ranks.c,
 * docs/design/lower_expert.md. */
#include "tests/lib/unit.h"

#include <string.h>

#include "shared/plan/op.h"
#include "tests/lib/exec/exec_words.h"
#include "tests/lib/traces/model_help.h"
#include "tests/lib/plans/plan_words.h"

enum { LAYERS = 2, HIDDEN = 16, TOKENS = 32, TOP = 2 };

static bool is_expert(const char *name)
{
    return strstr(name, "mlp") != NULL;
}

/* A llama whose linear pairs are experts: each token goes to two. */
static struct lw_workload model(void)
{
    struct lw_workload w =
        model_build("llama-7b", (struct traces_model_shape){.batch = 1,
                                                            .layers = LAYERS,
                                                            .hidden = HIDDEN,
                                                            .heads = 4,
                                                            .ffn = 32,
                                                            .seq = TOKENS,
                                                            .vocab = 32,
                                                            .dtype = "f32",
                                                            .optimizer = "adam"});
    int n = 0;

    for (int32_t i = 0; i < w.n_params; i++) {
        w.params[i].expert = is_expert(w.params[i].name);
        n += w.params[i].expert;
        if (w.params[i].expert)
            w.modules[w.params[i].module].dispatch_bytes = TOP * TOKENS * HIDDEN * 4;
    }
    assert_int_equal(n, 3 * LAYERS);
    return w;
}

static const struct lw_comm *comm_of(const struct lw_plan *p, const struct lw_op *o)
{
    return o->comm < 0 ? NULL : &p->comms[o->comm];
}

/* 2 x 32 tokens of 16 f32: 4096 bytes to the experts and back, in forward and in backward. */
TEST(tokens_go_to_experts_and_back)
{
    struct lw_workload w = model();
    struct lw_plan p = plan_of_words(&w, "dp 4 ep 2");
    struct lw_program g = lw_plan_program(&p, p.n_variants - 1, 0);
    static const char *const order[] = {"dispatch", "combine", "dispatch", "combine",
                                        "combine", "dispatch", "combine", "dispatch"};
    size_t n = 0;

    for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++) {
        const struct lw_op *o = &p.ops[i];
        if (o->kind != LW_OP_ALL_TO_ALL)
            continue;
        assert_true(n < sizeof order / sizeof *order);
        assert_string_equal(o->name, order[n++]);
        assert_int_equal(o->bytes, 4096);
        assert_int_equal(comm_of(&p, o)->purpose, LW_COMM_EXPERT);
        const struct lw_group *group = lw_plan_group(&p, o->comm, 3);
        assert_int_equal(group->n_members, 2);
        assert_int_equal(p.members[group->first_member], 2);
    }
    assert_int_equal(n, 4 * LAYERS);
    lw_plan_free(&p);
    lw_workload_free(&w);
}

/* Ranks 1 and 3 of 4 hold the same half of the experts: their gradients are reduced over these
 * two, all others over four. No bucket has both. */
TEST(experts_are_reduced_over_their_own_group)
{
    static const char *const words[] = {"dp 4 ep 2", "dp 4 ep 2 zero 1", "dp 4 ep 2 zero 2",
                                        "dp 4 ep 2 zero 3"};
    struct lw_workload w = model();

    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        struct lw_plan p = plan_of_words(&w, words[i]);
        struct lw_program g = lw_plan_program(&p, p.n_variants - 1, 1);
        int n_expert = 0, n_other = 0;
        for (int32_t a = 0; a < p.n_params; a++)
            assert_int_equal(p.params[a].numel,
                             w.params[a].numel / (is_expert(p.params[a].name) ? 2 : 1));
        for (int32_t k = g.first_op; k < g.first_op + g.n_ops; k++) {
            const struct lw_op *o = &p.ops[k];
            if (!comm_of(&p, o) || o->bucket < 0)
                continue;
            const struct lw_bucket *b = &p.buckets[o->bucket];
            bool expert = p.params[p.slots[b->first_slot]].expert;
            const struct lw_group *group = lw_plan_group(&p, o->comm, 1);
            for (int32_t s = 0; s < b->n_slots; s++)
                assert_int_equal(p.params[p.slots[b->first_slot + s]].expert, expert);
            assert_int_equal(group->n_members, expert ? 2 : 4);
            assert_int_equal(p.members[group->first_member + 1], expert ? 3 : 1);
            n_expert += expert;
            n_other += !expert;
        }
        assert_true(n_expert > 0 && n_other > 0);
        lw_plan_free(&p);
    }
    lw_workload_free(&w);
}

TEST(all_of_it_runs_and_is_verified)
{
    static const char *const words[] = {
        "dp 2 ep 2",
        "dp 4 ep 2",
        "dp 4 ep 2 zero 1",
        "dp 4 ep 2 zero 2 micro-batches 2",
        "dp 4 ep 2 zero 3",
        "dp 4 ep 4 zero 3",
        "cp 2 dp 2 ep 2",
        "dp 2 ep 2 tp 2 sequence-parallel on",
        "dp 2 ep 2 pp 2 micro-batches 2 schedule zb-h1 zero 1",
        "dp 2 ep 2 pp 2 micro-batches 4 schedule dualpipe recompute full"};
    struct lw_workload w = model();

    exec_expect_verified(&w, words, sizeof words / sizeof *words);
    lw_workload_free(&w);
}

TEST(contradictory_options_are_refused)
{
    struct lw_workload w = model();

    plan_refused(&w, "dp 4 ep 3", "--ep 3 does not divide the 4 ranks");
    plan_refused(&w, "dp 2 ep 2 clip 1", "--ep 2 with --clip");
    plan_refused(&w, "dp 2 ep 2 zero 1 shard-policy oss-greedy",
                 "experts are sharded in equal shares");
    plan_refused(&w, "dp 5 ep 5", "not a multiple of 5");
    lw_workload_free(&w);
}

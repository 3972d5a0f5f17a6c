/* What a tensor group gathers for Muon: shared/lower_part/lower_muon.c, docs/design/memory.md. The
 * workload is that of tests/lib/plans/tiny_workload.h: a.weight 100 elements, b.weight 200,
 * c.weight 300, here of 10 rows each; a and c are split by columns, b is whole on each rank. */
#include <stdio.h>
#include <string.h>
#include "tests/lib/unit.h"

#include "shared/strategy/strategy.h"
#include "tests/lib/plans/strategy_words.h"
#include "tests/lib/plans/tiny_build.h"

static void init(struct tiny *t, enum lw_optimizer optimizer)
{
    tiny_init(t);
    t->w.optimizer = optimizer;
    for (int m = 0; m < 3; m += 2)
        t->modules[m].tp_split = LW_TP_COLUMN;
    for (int i = 0; i < 4; i++)
        t->params[i].rows = i == B_BIAS ? 0 : 10;
    t->params[A_WEIGHT].tp_split = t->params[C_WEIGHT].tp_split = LW_TP_COLUMN;
}

/* The gathers of a program as "module/bytes", and how many of its ops follow the last of them. */
static const char *gathers_of(const struct lw_plan *p, int32_t rank, char text[256])
{
    struct lw_program g = lw_plan_program(p, find_variant(p, p->variants[p->n_variants - 1].name),
                                          rank);
    size_t at = 0;
    int32_t last = -1;

    text[0] = 0;
    for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++) {
        const struct lw_op *o = &p->ops[i];
        if (o->kind == LW_OP_ALL_GATHER) {
            at += (size_t)snprintf(text + at, 256 - at, "%d/%lld ", o->module, (long long)o->bytes);
            assert_string_equal(o->name, "momentum");
            assert_int_equal(o->dtype, LW_F32);
            last = i;
        }
        if (o->kind == LW_OP_OPTIMIZER && last >= 0)
            assert_int_equal(last, i - 1);
    }
    return text;
}

static void expect(const struct tiny *t, const char *words, int32_t rank, const char *gathers)
{
    struct lw_strategy s = strategy(words);
    struct lw_plan p = build(t, &s);
    char text[256];

    assert_string_equal(gathers_of(&p, rank, text), gathers);
    lw_plan_free(&p);
}

/* Four bytes of each element of the whole matrix. */
TEST(split_matrices_are_gathered_in_f32)
{
    struct tiny t;

    init(&t, LW_OPTIMIZER_MUON);
    expect(&t, "tp 2", 0, "0/400 2/1200 ");
    expect(&t, "tp 2 dp 2", 0, "0/400 2/1200 ");
    expect(&t, "dp 2", 0, "");
    t.params[C_WEIGHT].tp_split = LW_TP_VOCAB; /* the head is Adam's */
    t.modules[2].tp_split = LW_TP_VOCAB;
    expect(&t, "tp 2", 0, "0/400 ");
    init(&t, LW_OPTIMIZER_ADAM);
    expect(&t, "tp 2", 0, "");
}

/* Of one rank's 50, 200 and 150 elements b goes to the first owner, c and a to the second. With b
 * split too its 100 go to the second one, with a: 150 each, and the first of them counts. */
TEST(an_owner_gathers_what_it_updates)
{
    struct tiny t;

    init(&t, LW_OPTIMIZER_MUON);
    expect(&t, "tp 2 dp 2 zero 1 shard-policy lpt", 0, "0/400 2/1200 ");
    t.params[B_WEIGHT].tp_split = t.params[B_BIAS].tp_split = LW_TP_COLUMN;
    t.modules[1].tp_split = LW_TP_COLUMN;
    expect(&t, "tp 2 dp 2 zero 1 shard-policy lpt", 0, "2/1200 ");
}

TEST(a_stage_gathers_its_own)
{
    struct tiny t;
    static const char words[] = "tp 2 pp 2 micro-batches 2 schedule 1f1b partition uniform";

    init(&t, LW_OPTIMIZER_MUON);
    for (int m = 0; m < 3; m++)
        t.modules[m].output_bytes = 64;
    expect(&t, words, 0, "0/400 ");
    expect(&t, words, 2, "2/1200 ");
}

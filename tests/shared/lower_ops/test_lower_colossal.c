/* --compat colossalai on dp 2, pp 2, tp 2, op by op: docs/design/compat.md. */
#include <stdio.h>
#include <string.h>
#include "tests/lib/unit.h"

#include "shared/base/arena.h"
#include "shared/lower/lower.h"
#include "shared/strategy/strategy.h"
#include "tests/lib/plans/strategy_words.h"
#include "tests/lib/plans/tiny_build.h"

enum { ROOM = 4096 };

/* a | b, c by the uniform rule (the rest to the last stage); b is split and sums its activations;
 * the last parameter is a copy of the first; all of it f16. */
struct model {
    struct tiny t;
    struct lw_param params[5];
};

static void init(struct model *k)
{
    tiny_init(&k->t);
    for (int m = 0; m < 3; m++)
        k->t.modules[m].output_bytes = 1000;
    k->t.modules[1].tp_split = LW_TP_COLUMN;
    k->t.modules[1].tp_forward_bytes = k->t.modules[1].tp_backward_bytes = 800;
    memcpy(k->params, k->t.params, sizeof k->t.params);
    k->params[4] = tiny_param("head.weight", 100, 2, 12);
    k->params[4].tied = A_WEIGHT;
    k->params[4].ready_ps = -1;
    for (int i = 0; i < 5; i++)
        k->params[i].dtype = LW_F16;
    k->t.w.params = k->params;
    k->t.w.n_params = 5;
}

/* Letters of ops, V for receives; module.micro-batch of compute, name/bytes of messages,
 * class/bytes of collectives. */
static const char *ops_of(const struct lw_plan *p, int32_t rank, char *text)
{
    struct lw_program g = lw_plan_program(p, 0, rank);
    size_t at = 0;

    for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++) {
        const struct lw_op *o = &p->ops[i];
        at += (size_t)snprintf(text + at, ROOM - at, "%s%s", i > g.first_op ? " " : "",
                               lw_op_letter(o->kind));
        if (lw_op_class(o->kind) == LW_CLASS_COMPUTE && o->module >= 0)
            at += (size_t)snprintf(text + at, ROOM - at, "%d.%d", o->module, o->micro_batch);
        else if (lw_op_class(o->kind) == LW_CLASS_P2P)
            at += (size_t)snprintf(text + at, ROOM - at, ":%s/%lld", o->name,
                                   (long long)lw_plan_operand(p, o, rank).bytes);
        else if (o->comm >= 0)
            at += (size_t)snprintf(text + at, ROOM - at, ":%s/%lld", p->comms[o->comm].name,
                                   (long long)o->bytes);
    }
    return text;
}

static struct lw_strategy eight_ranks(void)
{
    struct lw_strategy s = strategy("compat colossalai");

    s.dp = s.pp = s.tp = 2;
    s.micro_batches = 2;
    s.clip = 1;
    return s;
}

/* Stage 0 has one warm-up forward (p - s - 1), stage 1 none. Shapes: 8 bytes, then 3 * 8. A call
 * posts send-prev, recv-prev, recv-next, send-next and is waited for (Ew). Data: 100 and 402 f16
 * elements (b.weight, b.bias whole, c.weight, the copy: 200 + 2 + 300 + 100 = 602), divided by dp
 * in the flat buffer, reduced, spread; the copies, 200 bytes, flat too; then found-inf over the
 * model group, the squares' pass (Ci), their sum over tensor and pipeline, the pass that scales
 * (Co). */
TEST(the_sequence_is_that_of_colossalai)
{
    struct model k;
    struct lw_strategy s = eight_ranks();
    char text[ROOM];

    init(&k);
    struct lw_plan p = build(&k.t, &s);
    assert_string_equal(ops_of(&p, 0, text),
                        "F0.0 S:shape/8 S:shape/24 S:activation/1000 Ew "
                        "F0.1 V:gradient/1000 S:activation/1000 Ew B0.0 "
                        "V:gradient/1000 Ew B0.1 "
                        "Ci C AR:data/200 Co C AR:embedding/200 C "
                        "AR:model/4 Ci AR:tensor/4 AR:pipeline/4 Co O");
    assert_string_equal(ops_of(&p, 2, text),
                        "V:shape/8 V:shape/24 V:activation/1000 Ew "
                        "F1.0 AR:tensor/800 F2.0 B2.0 B2.0 B1.0 B1.0 AR:tensor/800 "
                        "S:gradient/1000 V:activation/1000 Ew "
                        "F1.1 AR:tensor/800 F2.1 B2.1 B2.1 B1.1 B1.1 AR:tensor/800 "
                        "S:gradient/1000 Ew "
                        "Ci C AR:data/1204 Co C AR:embedding/200 C "
                        "AR:model/4 Ci AR:tensor/4 AR:pipeline/4 Co O");
    lw_plan_free(&p);
}

/* On data ranks alone the norm needs no sum; both passes move the 602 f16 elements. */
TEST(its_norm_is_taken_on_data_ranks_too)
{
    struct model k;
    struct lw_strategy s = eight_ranks();
    char text[ROOM];

    init(&k);
    s.pp = s.tp = 1;
    s.micro_batches = 1;
    struct lw_plan p = build(&k.t, &s);
    assert_string_equal(ops_of(&p, 0, text),
                        "F0.0 F1.0 F2.0 B2.0 B2.0 B1.0 B1.0 B0.0 Ci C AR:data/1204 Co Ci Co O");
    struct lw_program g = lw_plan_program(&p, 0, 0);
    assert_int_equal(p.ops[g.first_op + g.n_ops - 3].bytes, 1204);
    assert_int_equal(p.ops[g.first_op + g.n_ops - 2].bytes, 1204);
    lw_plan_free(&p);
}

/* W = 8: data i + 4 j, model 4 consecutive, pipeline {j, j + 2}, tensor pairs (seeds 5.2, rule
 * 7). */
TEST(groups_are_those_of_its_initializers)
{
    static const struct {
        const char *comm;
        int32_t of, n, members[4];
    } cases[] = {
        {"data", 1, 2, {1, 5}},     {"model", 6, 4, {4, 5, 6, 7}}, {"pipeline", 5, 2, {5, 7}},
        {"tensor", 3, 2, {2, 3}},   {"forward", 4, 2, {4, 6}},     {"embedding", 7, 2, {5, 7}},
    };
    struct model k;
    struct lw_strategy s = eight_ranks();

    init(&k);
    struct lw_plan p = build(&k.t, &s);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int32_t c = 0;
        while (c < p.n_comms && strcmp(p.comms[c].name, cases[i].comm) != 0)
            c++;
        assert_true(c < p.n_comms);
        const struct lw_group *g = lw_plan_group(&p, c, cases[i].of);
        assert_int_equal(g->n_members, cases[i].n);
        for (int32_t m = 0; m < g->n_members; m++)
            assert_int_equal(p.members[g->first_member + m], cases[i].members[m]);
    }
    lw_plan_free(&p);
}

/* Without compat the calls stay, and nothing else of it: no shapes, no waits. */
TEST(by_default_transfers_overlap)
{
    struct model k;
    struct lw_strategy s = eight_ranks();
    char text[ROOM];

    init(&k);
    s.compat = LW_COMPAT_NONE;
    s.schedule = LW_SCHEDULE_COLOSSAL_1F1B;
    s.partition = LW_PARTITION_UNIFORM;
    s.bucket_policy = LW_BUCKET_COLOSSAL;
    s.clip = 0;
    struct lw_plan p = build(&k.t, &s);
    assert_string_equal(ops_of(&p, 0, text),
                        "F0.0 S:activation/1000 F0.1 V:gradient/1000 S:activation/1000 B0.0 "
                        "V:gradient/1000 B0.1 Ci AR:data/200 Co AR:embedding/200 O");
    lw_plan_free(&p);
}

TEST(unsupported_options_are_refused)
{
    struct model k;
    struct lw_strategy s = eight_ranks();
    struct lw_plan p;
    struct lw_err err = {0};

    init(&k);
    assert_int_equal(lw_strategy_set(&s, "schedule", "1f1b", &err), LW_OK);
    assert_int_equal(lw_plan_build(&k.t.w, &s, NULL, &p, &err), LW_EINVAL);
    assert_non_null(strstr(err.msg, "it supports only colossal-1f1b|colossal-interleaved"));
}

TEST(running_out_of_memory_leaves_nothing)
{
    struct model k;
    struct lw_strategy s = eight_ranks();

    init(&k);
    assert_true(build_without_memory(&k.t.w, &s, NULL) > 20);
}

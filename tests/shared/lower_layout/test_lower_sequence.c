/* Sequence and context parallelism, messages in parts, recomputation of some layers:
 * shared/lower_layout/lower_tensor.c, lower_forward.c, lower_backward.c,
 * docs/design/lower_sequence.md. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <string.h>

#include "shared/plan/op.h"
#include "tests/lib/exec/exec_words.h"
#include "tests/lib/files/says.h"
#include "tests/lib/traces/model_help.h"

enum { LAYERS = 2, HIDDEN = 16, SEQ = 32, TOKENS = SEQ, VOCAB = 32 };

static struct lw_workload model(void)
{
    return model_build("llama-7b", (struct traces_model_shape){
                           .batch = 1, .layers = LAYERS, .hidden = HIDDEN, .heads = 4, .ffn = 32,
                           .seq = SEQ, .vocab = VOCAB, .dtype = "f32", .optimizer = "adam"});
}

/* Bytes of a kind that rank 0 moves over communicators of a purpose in the last variant. */
static int64_t moved(const struct lw_plan *p, enum lw_comm_purpose purpose, enum lw_op_kind kind)
{
    struct lw_program g = lw_plan_program(p, p->n_variants - 1, 0);
    int64_t bytes = 0;

    for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++)
        if (p->ops[i].kind == kind && p->ops[i].comm >= 0 &&
            p->comms[p->ops[i].comm].purpose == purpose)
            bytes += lw_plan_operand(p, &p->ops[i], 0).bytes;
    return bytes;
}

static int64_t kept(const struct lw_plan *p)
{
    struct lw_program g = lw_plan_program(p, p->n_variants - 1, 0);
    int64_t bytes = 0;

    for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++)
        if (p->ops[i].kind == LW_OP_FORWARD && p->ops[i].work >= 0)
            bytes += p->works[p->ops[i].work].keeps_bytes;
    return bytes;
}

/* A block sums two activations in forward and two in backward; embedding and head sum as the
 * model says. Each sum of B bytes becomes a reduce-scatter of B and, in the other pass, an
 * all-gather of B; saved inputs of the backward's sums are gathered once more. */
TEST(sums_become_scatters_and_gathers)
{
    struct lw_workload w = model();
    int64_t forward = 0, backward = 0;

    for (int32_t m = 0; m < w.n_modules; m++) {
        forward += w.modules[m].tp_forward_bytes;
        backward += w.modules[m].tp_backward_bytes;
    }
    struct lw_plan p = plan_of_words(&w, "tp 2");
    assert_int_equal(moved(&p, LW_COMM_TENSOR, LW_OP_ALL_REDUCE), forward + backward);
    lw_plan_free(&p);
    p = plan_of_words(&w, "tp 2 sequence-parallel on");
    assert_int_equal(moved(&p, LW_COMM_TENSOR, LW_OP_ALL_REDUCE), 0);
    assert_int_equal(moved(&p, LW_COMM_TENSOR, LW_OP_REDUCE_SCATTER), forward + backward);
    assert_int_equal(moved(&p, LW_COMM_TENSOR, LW_OP_ALL_GATHER), forward + 2 * backward);
    lw_plan_free(&p);
    lw_workload_free(&w);
}

/* The same volumes where the backward of some modules takes no time: all parts of such a module end
 * at one moment. */
TEST(gathers_of_a_backward_that_takes_no_time_stay)
{
    static const char *const words[] = {"", "tp-overlap backward", "tp-overlap pieces"};
    int64_t forward = 0, backward = 0;
    char list[80];

    for (size_t k = 0; k < sizeof words / sizeof *words; k++)
        for (int32_t from = 0; from < 2; from++) {
            struct lw_workload w = model();
            forward = backward = 0;
            for (int32_t i = 0; i < w.n_params; i++)
                w.params[i].ready_ps = -1;
            for (int32_t m = 0; m < w.n_modules; m++) {
                w.modules[m].backward_input_ps *= m < from;
                w.modules[m].backward_weight_ps *= m < from;
                w.modules[m].whole_input_ps *= m < from;
                w.modules[m].whole_weight_ps *= m < from;
                w.modules[m].attention_backward_start_ps *= m < from;
                w.modules[m].attention_backward_ps *= m < from;
                forward += w.modules[m].tp_forward_bytes;
                backward += w.modules[m].tp_backward_bytes;
            }
            snprintf(list, sizeof list, "tp 2 sequence-parallel on %s", words[k]);
            struct lw_plan p = plan_of_words(&w, list);
            assert_int_equal(moved(&p, LW_COMM_TENSOR, LW_OP_REDUCE_SCATTER), forward + backward);
            assert_int_equal(moved(&p, LW_COMM_TENSOR, LW_OP_ALL_GATHER), forward + 2 * backward);
            lw_plan_free(&p);
            lw_workload_free(&w);
        }
}

/* Korthikanti et al., arXiv 2205.05198, section 4.2.2: everything is divided by tp, so that kept
 * activations are those of one rank over tp (rounded up once per module). */
TEST(sequence_parallelism_divides_all_activations)
{
    struct lw_workload w = model();

    struct lw_plan one = plan_of_words(&w, ""), p = plan_of_words(&w, "tp 4"),
                   cut = plan_of_words(&w, "tp 4 sequence-parallel on");
    assert_true(kept(&p) > kept(&one) / 4);
    assert_true(kept(&cut) >= kept(&one) / 4 && kept(&cut) <= kept(&one) / 4 + w.n_modules);
    lw_plan_free(&one);
    lw_plan_free(&p);
    lw_plan_free(&cut);
    lw_workload_free(&w);
}

/* 32 tokens of 16 f32: a stage passes on 2048 bytes. In parts of two each rank sends 1024 and
 * the group gathers 2048 before each action that takes one. With sequence parallelism no rank has
 * more. */
TEST(a_message_travels_in_parts)
{
    const char *const words = "tp 2 pp 2 micro-batches 3";
    struct lw_workload w = model();
    char more[100];

    struct lw_plan p = plan_of_words(&w, words);
    assert_int_equal(moved(&p, LW_COMM_FORWARD, LW_OP_SEND), 3 * TOKENS * HIDDEN * 4);
    lw_plan_free(&p);
    snprintf(more, sizeof more, "%s scatter-gather on", words);
    p = plan_of_words(&w, more);
    assert_int_equal(moved(&p, LW_COMM_FORWARD, LW_OP_SEND), 3 * TOKENS * HIDDEN * 4 / 2);
    assert_int_equal(moved(&p, LW_COMM_BACKWARD, LW_OP_RECV), 3 * TOKENS * HIDDEN * 4 / 2);
    assert_int_equal(moved(&p, LW_COMM_TENSOR, LW_OP_ALL_GATHER), 3 * TOKENS * HIDDEN * 4);
    lw_plan_free(&p);
    snprintf(more, sizeof more, "%s sequence-parallel on", words);
    p = plan_of_words(&w, more);
    assert_int_equal(moved(&p, LW_COMM_FORWARD, LW_OP_SEND), 3 * TOKENS * HIDDEN * 4 / 2);
    lw_plan_free(&p);
    lw_workload_free(&w);
}

/* Keys and values of a block: 2 x 32 tokens x 16 x 4 bytes, in forward and again in backward; their
 * gradients once. Data groups have dp * cp members. */
TEST(keys_and_values_are_gathered)
{
    const int64_t block = 2 * TOKENS * HIDDEN * 4;
    struct lw_workload w = model();

    struct lw_plan p = plan_of_words(&w, "cp 4 dp 2");
    assert_int_equal(p.n_ranks, 8);
    assert_int_equal(moved(&p, LW_COMM_CONTEXT, LW_OP_ALL_GATHER), 2 * LAYERS * block);
    assert_int_equal(moved(&p, LW_COMM_CONTEXT, LW_OP_REDUCE_SCATTER), LAYERS * block);
    for (int32_t c = 0; c < p.n_comms; c++) {
        const struct lw_group *g = lw_plan_group(&p, c, 5);
        assert_int_equal(g->n_members, p.comms[c].purpose == LW_COMM_CONTEXT ? 4 : 8);
        assert_int_equal(p.members[g->first_member], p.comms[c].purpose == LW_COMM_CONTEXT ? 4 : 0);
    }
    lw_plan_free(&p);
    /* a tensor rank has half; the forward is done again */
    p = plan_of_words(&w, "cp 4 tp 2 recompute full");
    assert_int_equal(moved(&p, LW_COMM_CONTEXT, LW_OP_ALL_GATHER), 3 * LAYERS * block / 2);
    lw_plan_free(&p);
    lw_workload_free(&w);
}

/* A quarter of the tokens: a quarter of the time and of the activations, and all of the
 * parameters. */
TEST(tokens_are_divided)
{
    struct lw_workload w = model();

    struct lw_plan one = plan_of_words(&w, ""), p = plan_of_words(&w, "cp 4");
    assert_true(kept(&p) >= kept(&one) / 4 && kept(&p) <= kept(&one) / 4 + w.n_modules);
    for (int32_t i = 0; i < p.n_params; i++)
        assert_int_equal(p.params[i].numel, one.params[i].numel);
    lw_plan_free(&one);
    lw_plan_free(&p);
    lw_workload_free(&w);
}

static int32_t n_recomputed(const struct lw_plan *p)
{
    struct lw_program g = lw_plan_program(p, p->n_variants - 1, 0);
    int32_t n = 0;

    for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++)
        n += p->ops[i].kind == LW_OP_KERNEL && strcmp(p->ops[i].name, "recompute") == 0;
    return n;
}

TEST(some_layers_are_recomputed)
{
    struct lw_workload w = model();

    struct lw_plan all = plan_of_words(&w, "recompute full"), none = plan_of_words(&w, ""),
                   one = plan_of_words(&w, "recompute full recompute-layers 1");
    assert_int_equal(n_recomputed(&all), LAYERS);
    assert_int_equal(n_recomputed(&one), 1);
    assert_int_equal(2 * kept(&one), kept(&all) + kept(&none));
    lw_plan_free(&all);
    lw_plan_free(&none);
    lw_plan_free(&one);
    lw_workload_free(&w);
}

enum { DEEP = 4 };

static struct lw_workload deep_model(void)
{
    return model_build("gpt2",
                       (struct traces_model_shape){.batch = 1, .layers = DEEP, .hidden = HIDDEN,
                                                   .heads = 4, .ffn = 32, .seq = SEQ,
                                                   .vocab = VOCAB});
}

/* 4 blocks in one part: each second one, or groups of two, whose second one keeps nothing. A group
 * takes all that it keeps at once: its two blocks' activations but for one input are gone
 * together. */
TEST(each_nth_layer_or_groups_are_recomputed)
{
    struct lw_workload w = deep_model();

    struct lw_plan all = plan_of_words(&w, "recompute full"), none = plan_of_words(&w, "");
    struct lw_plan every =
        plan_of_words(&w, "recompute full recompute-method every recompute-layers 2");
    struct lw_plan groups =
        plan_of_words(&w, "recompute full recompute-method uniform recompute-layers 2");
    struct lw_plan alone =
        plan_of_words(&w, "recompute full recompute-method uniform recompute-layers 1");
    assert_int_equal(n_recomputed(&every), DEEP / 2);
    assert_int_equal(n_recomputed(&groups), DEEP);
    assert_int_equal(n_recomputed(&alone), DEEP);
    assert_int_equal(2 * kept(&every), kept(&all) + kept(&none));
    int64_t input = w.modules[1].kept_bytes[LW_RECOMPUTE_FULL];
    assert_int_equal(kept(&groups), kept(&all) - DEEP / 2 * input);
    assert_int_equal(kept(&alone), kept(&all));
    lw_plan_free(&all);
    lw_plan_free(&none);
    lw_plan_free(&every);
    lw_plan_free(&groups);
    lw_plan_free(&alone);
    lw_workload_free(&w);
}

/* The forwards of a group run before the backward of its last block. */
TEST(a_group_runs_again_before_its_last_backward)
{
    struct lw_workload w = deep_model();
    struct lw_plan p =
        plan_of_words(&w, "recompute full recompute-method uniform recompute-layers 2");
    struct lw_program g = lw_plan_program(&p, p.n_variants - 1, 0);
    char order[256] = "";
    size_t n = 0;

    for (int32_t i = g.first_op; i < g.first_op + g.n_ops && n < sizeof order; i++) {
        bool again = p.ops[i].kind == LW_OP_KERNEL && strcmp(p.ops[i].name, "recompute") == 0;
        if ((again || p.ops[i].kind == LW_OP_BACKWARD) && p.ops[i].module > 0 &&
            p.ops[i].module <= DEEP && (again || p.ops[i - 1].module != p.ops[i].module ||
                                          p.ops[i - 1].kind == LW_OP_KERNEL))
            n += (size_t)snprintf(order + n, sizeof order - n, "%c%d ", again ? 'f' : 'b',
                                  p.ops[i].module);
    }
    has(order, "f3 f4 b4 ");
    has(order, "f1 f2 b2 ");
    lw_plan_free(&p);
    lw_workload_free(&w);
}

/* On threads, every letter and message compared, weights equal to one rank's bit by bit. */
TEST(all_of_it_runs_and_is_verified)
{
    static const char *const words[] = {
        "tp 2 sequence-parallel on", "tp 2 pp 2 micro-batches 3 scatter-gather on",
        "tp 2 pp 2 micro-batches 3 sequence-parallel on schedule zb-h1 recompute full",
        "tp 2 pp 2 micro-batches 4 scatter-gather on schedule interleaved-1f1b chunks 2",
        "cp 2 dp 2 zero 3", "cp 2 tp 2 sequence-parallel on recompute full recompute-layers 1",
        "tp 2 dp 2 recompute full recompute-method uniform recompute-layers 2",
        "dp 2 pp 2 micro-batches 3 recompute full recompute-method every recompute-layers 2",
        "pp 2 micro-batches 4 schedule zb-h1 recompute full recompute-method uniform "
        "recompute-layers 3",
        "cp 2 pp 2 micro-batches 4 schedule dualpipe", "cp 4 clip 1 zero 1",
        "cp 2 tp 2 pp 2 micro-batches 2 zero 2 sequence-parallel on schedule zb-h2"};
    struct lw_workload w = model();

    exec_expect_verified(&w, words, sizeof words / sizeof *words);
    lw_workload_free(&w);
}

TEST(contradictory_options_are_refused)
{
    struct lw_workload w = model();

    plan_refused(&w, "sequence-parallel on", "--sequence-parallel on needs --tp");
    plan_refused(&w, "tp 2 scatter-gather on", "--scatter-gather on needs --tp and --pp");
    plan_refused(&w, "recompute-layers 1", "--recompute-layers 1 is for --recompute full");
    plan_refused(&w, "recompute-modules mlp",
                 "--recompute-modules mlp is for --recompute selective");
    plan_refused(&w, "recompute selective recompute-modules moe,mlp",
                 "--recompute-modules mlp,moe");
    plan_refused(&w, "recompute full recompute-method every", "--recompute-layers of 1 or more");
    plan_refused(&w, "dp 2 zero 3 recompute full recompute-method uniform recompute-layers 2",
                 "choose --recompute-layers 1");
    lw_workload_free(&w);
    w = model_build("mlp", (struct traces_model_shape){.layers = 2, .width = 4});
    plan_refused(&w, "cp 2", "gives the bytes of keys and values");
    lw_workload_free(&w);
}

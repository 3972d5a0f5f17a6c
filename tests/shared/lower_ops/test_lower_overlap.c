/* Tensor collectives beside products: shared/lower_part/measured_steps.c,
 * docs/design/lower_overlap.md. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <string.h>

#include "shared/plan/op.h"
#include "tests/lib/exec/exec_words.h"
#include "tests/lib/traces/model_help.h"
#include "tests/lib/sim/sim_help.h"
#include "tests/lib/plans/tiny_build.h"
#include "tests/lib/plans/plan_words.h"

enum { ROOM = 4096 };

/* For a rank of two the block has 1 us of forward, of which the column products take 400 ns and the
 * row products 200 ns, and 1 us each of gradients by input and by weights. */
static void init(struct tiny *t)
{
    tiny_block(t);
    t->modules[1].tp_column_ps = 800 * LW_PS_PER_NS;
    t->modules[1].tp_row_ps = 400 * LW_PS_PER_NS;
}

/* Of module b: letter, ':' length in ns; collectives with their bytes after '/'; '<' and the
 * distance back to a collective that the op waits for. */
static const char *ops_of_b(const struct lw_plan *p, char *text)
{
    struct lw_program g = lw_plan_program(p, p->n_variants - 1, 0);
    size_t at = 0;

    text[0] = '\0';
    for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++) {
        const struct lw_op *o = &p->ops[i];
        if (o->module != 1)
            continue;
        at += (size_t)snprintf(text + at, ROOM - at, "%s%s", at > 0 ? " " : "",
                               lw_op_letter(o->kind));
        if (o->comm >= 0)
            at += (size_t)snprintf(text + at, ROOM - at, "/%lld", (long long)o->bytes);
        else
            at += (size_t)snprintf(text + at, ROOM - at, ":%lld",
                                   (long long)(lw_plan_work_ps(p, o) / LW_PS_PER_NS));
        for (int32_t d = o->first_dep; o->comm < 0 && d < o->first_dep + o->n_deps; d++)
            if (p->ops[p->deps[d]].comm >= 0)
                at += (size_t)snprintf(text + at, ROOM - at, "<%d", i - p->deps[d]);
    }
    return text;
}

static void expect_of(const struct tiny *t, const char *words, const char *ops)
{
    char text[ROOM];
    struct lw_plan p = plan_of_words(&t->w, words);

    assert_string_equal(ops_of_b(&p, text), ops);
    lw_plan_free(&p);
}

static void expect(const char *words, const char *ops)
{
    struct tiny t;

    init(&t);
    expect_of(&t, words, ops);
}

/* Weights' gradients of column products: 1 us of the backward by weights, 400 of 600 of it, half of
 * that for each of two sums: 333 ns. b.bias is ready at half of the backward, 1 us. */
TEST(sums_of_the_backward_run_beside_the_weights_gradients)
{
    expect("tp 2", "F:500 AR/1000 F:500<1 AR/1000 B:1000 AR/1000 B:1000<1 AR/1000");
    expect("tp 2 tp-overlap backward",
           "F:500 AR/1000 F:500<1 AR/1000 B:666 AR/1000 B:333 B:666<2 AR/1000 B:333");
}

/* Row products of a part: 100 ns in four pieces, each with a fourth of the sum. The next part waits
 * for the last of them. */
TEST(sums_of_the_forward_run_in_pieces)
{
    expect("tp 2 tp-overlap pieces",
           "F:400 F:25 AR/250 F:25 AR/250 F:25 AR/250 F:25 AR/250 F:400<1 F:25 AR/250 F:25 AR/250 "
           "F:25 AR/250 F:25 AR/250 B:666 AR/1000 B:333 B:666<2 AR/1000 B:333");
}

/* Column products of a part: 200 ns in four pieces, each of which waits for a fourth of the gather.
 * In the backward the input's gradient of the row products, 100 ns, does, its last piece with what
 * follows it, and saved inputs are gathered beside. */
TEST(gathers_run_in_pieces)
{
    static const char part[] = "AG/250 AG/250 AG/250 AG/250 F:50<4 F:50<4 F:50<4 F:50<4 F:200 F:25 "
                               "RS/250 F:25 RS/250 F:25 RS/250 F:25 RS/250 ";
    static const char back[] = "AG/250 AG/250 AG/250 AG/250 AG/1000 B:25<5 B:25<5 B:25<5 B:591<5 "
                               "RS/1000 B:333";
    char all[ROOM];

    snprintf(all, sizeof all, "%s%s%s %s", part, part, back, back);
    expect("tp 2 sequence-parallel on tp-overlap pieces", all);
}

/* Row products of 12 ps: 3 ps of each of a rank's two parts, too short for four pieces. The column
 * products of the forward remain in pieces. */
TEST(products_shorter_than_their_pieces_stay_whole)
{
    static const char part[] = "AG/250 AG/250 AG/250 AG/250 F:50<4 F:50<4 F:50<4 F:50<4 F:300 "
                               "RS/1000 ";
    static const char back[] = "AG/1000 AG/1000 B:500<2 RS/1000 B:499";
    char all[ROOM];
    struct tiny t;

    init(&t);
    t.modules[1].tp_row_ps = 12;
    snprintf(all, sizeof all, "%s%s%s %s", part, part, back, back);
    expect_of(&t, "tp 2 sequence-parallel on tp-overlap pieces", all);
}

/* A backward of no time has no room for pieces: as without overlap. */
static void make_b_without_backward(struct tiny *t)
{
    init(t);
    t->modules[1].backward_input_ps = t->modules[1].backward_weight_ps = 0;
    t->modules[1].tp_calls = 3;
    t->modules[1].tp_forward_bytes = t->modules[1].tp_backward_bytes = 3000;
    t->params[B_WEIGHT].ready_ps = t->params[B_BIAS].ready_ps =
        lw_module_backward(&t->modules[2]);
    t->params[A_WEIGHT].ready_ps = lw_workload_backward_ps(&t->w);
}

static const char *backward_of(const struct tiny *t, const char *words, char *text)
{
    struct lw_plan p = plan_of_words(&t->w, words);
    ops_of_b(&p, text);
    lw_plan_free(&p);
    const char *last = text;
    for (const char *at = text; (at = strstr(at, "RS/")) && at < strstr(text, " B:"); at++)
        last = at;
    return strchr(last, ' ');
}

TEST(a_backward_without_time_has_no_pieces)
{
    char off[ROOM], pieces[ROOM];
    struct tiny t;

    make_b_without_backward(&t);
    assert_string_equal(backward_of(&t, "tp 2 sequence-parallel on tp-overlap pieces", pieces),
                        backward_of(&t, "tp 2 sequence-parallel on", off));
}

static void make_llama(struct lw_workload *w, int64_t experts)
{
    *w = model_build("llama-7b", (struct traces_model_shape){.batch = 1, .layers = 2, .hidden = 16,
                                                             .heads = 4, .ffn = 32, .seq = 32,
                                                             .vocab = 32, .experts = experts,
                                                             .topk = experts ? 2 : 0,
                                                             .expert_ffn = experts ? 8 : 0,
                                                             .dtype = "f32", .optimizer = "adam"});
}

/* Bytes that rank 0 moves over the tensor group. */
static int64_t moved(const struct lw_workload *w, const char *words, const char *overlap)
{
    char text[200];
    int64_t bytes = 0;

    snprintf(text, sizeof text, "%s tp-overlap %s", words, overlap);
    struct lw_plan p = plan_of_words(w, text);
    struct lw_program g = lw_plan_program(&p, p.n_variants - 1, 0);
    for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++)
        if (p.ops[i].comm >= 0 && p.comms[p.ops[i].comm].purpose == LW_COMM_TENSOR)
            bytes += lw_plan_operand(&p, &p.ops[i], 0).bytes;
    lw_plan_free(&p);
    return bytes;
}

TEST(pieces_move_the_same_bytes)
{
    static const char *const words[] = {"tp 2", "tp 2 sequence-parallel on",
                                        "tp 4 sequence-parallel on recompute full"};
    struct lw_workload w;

    make_llama(&w, 0);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        int64_t off = moved(&w, words[i], "off");
        assert_true(off > 0);
        assert_int_equal(moved(&w, words[i], "backward"), off);
        assert_int_equal(moved(&w, words[i], "pieces"), off);
    }
    lw_workload_free(&w);
}

static lw_ps end_on_two(const char *words)
{
    struct tiny t;
    struct lw_cluster c;

    init(&t);
    make_cluster(&c, 2, 4e9, 0);
    struct lw_plan p = plan_of_words(&t.w, words);
    struct lw_sim_options o = lw_sim_options_default();
    o.n_steps = 1;
    lw_ps end = run_end(&p, &c, o);
    lw_plan_free(&p);
    lw_cluster_free(&c);
    return end;
}

/* A sum of 1000 bytes on two ranks takes 1000 / 4e9 s = 250 ns. In the backward each of two hides
 * beside 333 ns. In pieces, 62.5 ns beside 25 ns of product, three of four products hide 25 ns each
 * of a sum in the forward. */
TEST(overlap_hides_the_time_of_the_product)
{
    lw_ps off = end_on_two("tp 2"), ns = LW_PS_PER_NS;

    assert_int_equal(off - end_on_two("tp 2 tp-overlap backward"), 500 * ns);
    assert_int_equal(off - end_on_two("tp 2 tp-overlap pieces"), 500 * ns + 2 * 3 * 25 * ns);
}

/* On threads, every letter and message compared, weights equal to one rank's bit by bit. */
TEST(all_of_it_runs_and_is_verified)
{
    static const char *const words[] = {
        "tp 2 tp-overlap backward", "tp 2 tp-overlap pieces",
        "tp 4 sequence-parallel on tp-overlap pieces",
        "dp 2 tp 2 zero 3 sequence-parallel on tp-overlap pieces",
        "tp 2 pp 2 micro-batches 3 sequence-parallel on tp-overlap pieces recompute full",
        "tp 2 pp 2 micro-batches 4 tp-overlap backward schedule interleaved-1f1b chunks 2",
        "cp 2 tp 2 sequence-parallel on tp-overlap pieces dp 2 zero 1"};
    static const char *const experts[] = {
        "dp 2 ep 2 tp 2 sequence-parallel on tp-overlap pieces",
        "dp 2 ep 2 tp 2 tp-overlap backward"};
    struct lw_workload w;

    make_llama(&w, 0);
    exec_expect_verified(&w, words, sizeof words / sizeof *words);
    lw_workload_free(&w);
    make_llama(&w, 4);
    exec_expect_verified(&w, experts, sizeof experts / sizeof *experts);
    lw_workload_free(&w);
}

TEST(contradictory_options_are_refused)
{
    struct tiny t;

    init(&t);
    plan_refused(&t.w, "tp-overlap pieces", "--tp-overlap needs --tp of at least 2");
    plan_refused(&t.w, "tp 2 pp 2 micro-batches 2 schedule zb-h1 tp-overlap backward",
                 "which computes weight gradients");
}

/* Where attention lies in a block: traces/models/models_attention.c, docs/formats/workload.md. */
#include "tests/lib/unit.h"

#include <string.h>

#include "tests/lib/traces/model_help.h"

enum { HIDDEN = 16, HEADS = 4, SEQ = 32, FIRST_BLOCK = 1 };

static struct lw_workload llama(const char *attention)
{
    return MODEL("llama-7b", .batch = 1, .layers = 2, .hidden = HIDDEN, .heads = HEADS, .ffn = 32,
                 .seq = SEQ, .vocab = 32, .dtype = "f32", .attention = attention, .optimizer =
                 "adam");
}

/* Queries, keys, values and results are 32 x 16 x 4 = 2048 bytes each, the rows' sums 32 x 4 x 4 =
 * 512. On the device of the tests a byte takes a nanosecond and traffic takes longer than products:
 * 4 x 2048 + 512 ns forward, twice the tensors and the sums backward. */
TEST(fused_attention_takes_the_time_of_its_kernel)
{
    struct lw_workload w = llama("flash");
    const struct lw_module *m = &w.modules[FIRST_BLOCK];

    assert_int_equal(m->attention_ps, (4 * 2048 + 512) * LW_PS_PER_NS);
    assert_int_equal(m->attention_backward_ps, (8 * 2048 + 512) * LW_PS_PER_NS);
    lw_workload_free(&w);
}

/* Unfused it is what selective recomputation does again. */
TEST(stored_scores_take_what_is_recomputed)
{
    struct lw_workload w = llama("full");
    const struct lw_module *m = &w.modules[FIRST_BLOCK];

    assert_true(m->selective_ps > 0);
    assert_int_equal(m->attention_ps, m->selective_ps);
    lw_workload_free(&w);
}

static lw_ps ready_of(const struct lw_workload *w, int32_t module, const char *name)
{
    for (int32_t i = 0; i < w->n_params; i++)
        if (w->params[i].module == module && strstr(w->params[i].name, name))
            return w->params[i].ready_ps;
    fail_msg("no parameter %s", name);
    return -1;
}

/* The backward of attention begins where that of the projection after it ends; the projections
 * before it become ready after it. */
TEST(it_lies_between_the_projections)
{
    struct lw_workload w = llama("flash");
    lw_ps window = 0;

    for (int32_t m = w.n_modules - 1; m > FIRST_BLOCK; m--)
        window += lw_module_backward(&w.modules[m]);
    const struct lw_module *m = &w.modules[FIRST_BLOCK];
    lw_ps start = window + m->attention_backward_start_ps;
    assert_int_equal(start, ready_of(&w, FIRST_BLOCK, "o_proj"));
    assert_true(ready_of(&w, FIRST_BLOCK, "v_proj") > start + m->attention_backward_ps);
    assert_true(m->attention_start_ps > 0);
    assert_true(m->attention_start_ps + m->attention_ps < m->forward_ps);
    lw_workload_free(&w);
}

/* A block for further tokens ends with the head, whose backward comes first. */
TEST(it_begins_after_the_backward_of_a_second_head)
{
    struct lw_workload w = MODEL("llama-7b", .batch = 1, .layers = 2, .hidden = HIDDEN,
                                 .heads = HEADS, .ffn = 32, .seq = SEQ, .vocab = 32,
                                 .dtype = "f32", .attention = "flash", .mtp_layers = 1);
    const struct lw_module *plain = &w.modules[FIRST_BLOCK], *more = &w.modules[FIRST_BLOCK + 2];

    assert_true(lw_module_backward(more) > lw_module_backward(plain));
    assert_int_equal(more->attention_backward_start_ps - plain->attention_backward_start_ps,
                     lw_module_backward(more) - lw_module_backward(plain));
    lw_workload_free(&w);
}

/* Each of two ranks of a context group has half of the queries, and so half of the scores: the
 * times, of both together, and what they keep are those of one rank. */
TEST(a_context_group_divides_stored_scores)
{
    const struct traces_model_shape shape = {
        .batch = 1, .layers = 2, .hidden = HIDDEN, .heads = HEADS, .ffn = 32, .seq = SEQ,
        .vocab = 32, .dtype = "f32", .attention = "full"};
    struct traces_model_shape two = shape;
    two.context = 2;
    struct lw_workload a = model_kept("llama-7b", NULL, shape);
    struct lw_workload b = model_kept("llama-7b", NULL, two);
    const struct lw_module *m = &a.modules[FIRST_BLOCK], *n = &b.modules[FIRST_BLOCK];

    assert_int_equal(n->attention_ps, m->attention_ps);
    assert_int_equal(n->attention_backward_ps, m->attention_backward_ps);
    assert_int_equal(n->kept_bytes[LW_RECOMPUTE_NONE], m->kept_bytes[LW_RECOMPUTE_NONE]);
    assert_int_equal(b.products[n->products[LW_PRODUCTS_FORWARD][3]].m, SEQ / 2);
    lw_workload_free(&a);
    lw_workload_free(&b);
}

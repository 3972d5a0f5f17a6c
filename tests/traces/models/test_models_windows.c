/* FLOPs of blocks that attend to a window, against sums over queries. */
#include "tests/lib/unit.h"

#include <string.h>

#include "tests/lib/plans/plan_words.h"
#include "tests/lib/traces/model_help.h"

enum { LAYERS = 2, HIDDEN = 32, HEADS = 4, SEQ = 96, FIRST_BLOCK = 1 };

static struct lw_workload of_window(const char *attention, int64_t window)
{
    return MODEL("decoder", .batch = 2, .layers = LAYERS, .hidden = HIDDEN, .heads = HEADS,
                 .ffn = 64, .seq = SEQ, .vocab = 32, .attention = attention, .window = window,
                 .window_every = LAYERS + 1);
}

/* Scores of one sequence that a causal mask leaves, twice. Query i attends to min(i + 1, W) keys;
 * while the window has room, that of its own token counts half, so that a sequence without a window
 * has s^2 / 2. */
static int64_t twice_scores(int64_t window)
{
    int64_t sum = 0;

    for (int64_t i = 0; i < SEQ; i++)
        sum += i + 1 <= window ? 2 * (i + 1) - 1 : 2 * window;
    return sum;
}

/* Queries by keys and scores by values: 4 h FLOPs a score and block. */
MODEL_TEST(a_window_counts_the_scores_that_it_leaves)
{
    static const int64_t windows[] = {1, 16, 48, 95, 96};

    for (size_t i = 0; i < sizeof windows / sizeof *windows; i++) {
        int64_t twice = twice_scores(windows[i]);
        struct lw_workload w = of_window("flash", windows[i]), full = of_window("flash", 0);
        assert_int_equal(w.attention_flops, LAYERS * 2 * HIDDEN * twice);
        assert_int_equal(w.score_flops, 2 * w.attention_flops);
        assert_int_equal(full.modules[FIRST_BLOCK].forward_flops -
                             w.modules[FIRST_BLOCK].forward_flops,
                         2 * 4 * HIDDEN * (SEQ * SEQ - twice));
    }
}

MODEL_TEST(a_window_of_the_sequence_counts_as_none)
{
    struct lw_workload w = of_window("flash", SEQ), full = of_window("flash", 0);

    assert_int_equal(twice_scores(SEQ), SEQ * SEQ);
    assert_int_equal(w.attention_flops, full.attention_flops);
    assert_int_equal(w.score_flops, full.score_flops);
    assert_int_equal(w.modules[FIRST_BLOCK].forward_flops, full.modules[FIRST_BLOCK].forward_flops);
    assert_int_equal(w.modules[FIRST_BLOCK].forward_ps, full.modules[FIRST_BLOCK].forward_ps);
}

/* Stored scores are all computed; the model needs those of the window. */
MODEL_TEST(stored_scores_of_a_window_are_all_computed)
{
    struct lw_workload w = of_window("full", 16), full = of_window("full", 0);

    assert_int_equal(w.attention_flops, LAYERS * 2 * HIDDEN * twice_scores(16));
    assert_int_equal(w.score_flops, LAYERS * 4 * HIDDEN * SEQ * SEQ);
    assert_int_equal(w.modules[FIRST_BLOCK].forward_flops, full.modules[FIRST_BLOCK].forward_flops);
}

static int n_refusals(const struct lw_workload *w, const char *words)
{
    struct lw_plan p = plan_of_words(w, words);
    int n = 0;

    for (int32_t i = 0; i < p.n_notes; i++)
        n += strstr(p.notes[i], "Transformer Engine refuses it") != NULL;
    lw_plan_free(&p);
    return n;
}

MODEL_TEST(a_ring_of_windows_is_noted)
{
    struct lw_workload w = of_window("flash", 16), full = of_window("flash", 0);

    assert_int_equal(n_refusals(&w, "cp 2 cp-comm-type p2p"), 1);
    assert_int_equal(n_refusals(&w, "cp 2"), 0);
    assert_int_equal(n_refusals(&full, "cp 2 cp-comm-type p2p"), 0);
}

/* Spans as text: every row comes back, equal work is equal text, work that repeats is named by
 * number, and other text is refused. */
#include "tests/lib/unit.h"
#include <string.h>

#include "analysis/store/span_alike.h"
#include "shared/base/arena.h"
#include "tests/lib/prng.h"

typedef int64_t row[SPAN_N_VALUES];

/* The rows of docs/formats/schema.md: a forward of 5000 ps, and an all-reduce that is handed over
 * when it is ready, entered 1 ps later, joined by the last member after 500 ps more. */
static const row example[] = {
    {[SPAN_OP] = 4, [SPAN_KIND] = 1, [SPAN_STREAM] = 0, [SPAN_COMM] = -1, [SPAN_START] = 900,
     [SPAN_READY] = 900, [SPAN_ISSUE] = -1, [SPAN_ALL_IN] = -1, [SPAN_END] = 5900},
    {[SPAN_OP] = 6, [SPAN_KIND] = 15, [SPAN_STREAM] = 1, [SPAN_COMM] = 0, [SPAN_START] = 5901,
     [SPAN_READY] = 5900, [SPAN_ISSUE] = 5900, [SPAN_ALL_IN] = 6401, [SPAN_END] = 8000},
};
static const char text_of_example[] =
    "[[0,1,0,-1,0,0,null,null,5000],[2,15,1,0,5001,1,1,500,2099]]";

static const struct span_codes none;

/* Without numbers and without a held time. */
static size_t write_out(const row *rows, int64_t n, char *text)
{
    struct span_code *codes = lw_alloc(SPAN_BLOCK * sizeof *codes);

    span_encode(rows, n, NULL, codes);
    size_t len = span_write(codes, n, NULL, text);
    lw_free(codes);
    return len;
}

TEST(a_row_is_its_distance_from_the_row_before)
{
    char text[512];
    row back[2];

    size_t n = write_out(example, 2, text);
    text[n] = '\0';
    assert_string_equal(text, text_of_example);
    assert_true(span_read(text, n, none, 4, 900, back, 2));
    assert_memory_equal(back, example, sizeof example);
}

/* The same work of a later micro-batch or step is the same text. */
TEST(text_does_not_depend_on_when_the_first_row_starts)
{
    char text[512];
    row later[2];

    memcpy(later, example, sizeof later);
    for (int i = 0; i < 2; i++)
        later[i][SPAN_OP] += 70;
    for (int i = 0; i < 2; i++)
        for (int k = SPAN_START; k < SPAN_N_VALUES; k++)
            later[i][k] += later[i][k] != -1 ? 1000000 : 0;
    text[write_out((const row *)later, 2, text)] = '\0';
    assert_string_equal(text, text_of_example);
}

static int64_t any_int(struct prng *r)
{
    static const int64_t ends[] = {INT64_MIN, INT64_MIN + 1, -1, 0, 1, INT64_MAX - 1, INT64_MAX};
    int which = prng_below(r, 3);

    return which == 0   ? ends[prng_below(r, sizeof ends / sizeof *ends)]
           : which == 1 ? (int64_t)prng_next(r)
                        : prng_in(r, 0, 1000);
}

TEST(any_numbers_come_back)
{
    struct prng r = prng_start("rows of spans");
    char *text = lw_alloc(SPAN_MOST_TEXT);
    row *rows = lw_alloc(SPAN_BLOCK * sizeof *rows), *back = lw_alloc(SPAN_BLOCK * sizeof *back);

    for (int i = 0; i < 200; i++) {
        int64_t n = i == 0 ? SPAN_BLOCK : prng_in(&r, 0, 40);
        for (int64_t k = 0; k < n * SPAN_N_VALUES; k++)
            rows[k / SPAN_N_VALUES][k % SPAN_N_VALUES] = any_int(&r);
        size_t len = write_out((const row *)rows, n, text);
        assert_true(len <= SPAN_MOST_TEXT);
        assert_true(span_read(text, len, none, n > 0 ? rows[0][SPAN_OP] : 0,
                              n > 0 ? rows[0][SPAN_START] : 0, back, n));
        assert_memory_equal(back, rows, (size_t)n * sizeof *rows);
    }
    lw_free(text);
    lw_free(rows);
    lw_free(back);
}

/* Three ops wait for what ended at 150, one of them after another wait: the first says when that
 * was, 50 after the block's start; the last two are one code. */
TEST(waits_for_one_event_are_alike)
{
    enum { N = 4 };
    static const int64_t starts[N] = {100, 300, 400, 500}, ready[N] = {100, 150, 150, 150};
    static const bool holds[N] = {true, true, true, true};
    struct span_code codes[N];
    row rows[N], back[N];
    char text[512];

    for (int i = 0; i < N; i++) {
        const row r = {[SPAN_OP] = i, [SPAN_COMM] = -1, [SPAN_START] = starts[i],
                       [SPAN_READY] = ready[i], [SPAN_ISSUE] = ready[i] - 1, [SPAN_ALL_IN] = -1,
                       [SPAN_END] = starts[i] + 9};
        memcpy(rows[i], r, sizeof r);
    }
    span_encode((const row *)rows, N, holds, codes);
    size_t n = span_write(codes, N, NULL, text);
    text[n] = '\0';
    assert_string_equal(text, "[[0,0,0,-1,0,0,1,null,9],[1,0,0,-1,200,null,1,null,9,50],"
                              "[1,0,0,-1,100,null,1,null,9,0],[1,0,0,-1,100,null,1,null,9,0]]");
    assert_memory_equal(&codes[2], &codes[3], sizeof codes[2]);
    assert_true(span_read(text, n, none, 0, 100, back, N));
    assert_memory_equal(back, rows, sizeof rows);
}

/* Ops that repeat with some noise, of several micro-batches, of which some wait for one event. */
static void draw_rows(struct prng *r, row *rows, int64_t n)
{
    int64_t at = prng_in(r, 0, 1000000), event = at, period = prng_in(r, 1, 30);
    int64_t noise = prng_below(r, 3) == 0 ? 1000000 : prng_below(r, 2);
    int64_t length[30];

    for (int64_t k = 0; k < period; k++)
        length[k] = prng_in(r, 1, 100000);
    for (int64_t i = 0; i < n; i++) {
        int64_t ready = prng_below(r, 4) == 0 ? event : at, end = at + length[i % period];
        end += noise > 0 ? prng_in(r, 0, noise) : 0;
        const row x = {[SPAN_OP] = i, [SPAN_KIND] = i % period % 5, [SPAN_COMM] = -1,
                       [SPAN_START] = at, [SPAN_READY] = ready,
                       [SPAN_ISSUE] = i % 3 ? ready : -1,
                       [SPAN_ALL_IN] = i % 7 ? -1 : end, [SPAN_END] = end};
        memcpy(rows[i], x, sizeof x);
        if (prng_below(r, 10) == 0)
            event = at;
        at = end;
    }
}

/* Blocks of one run, which share codes: each comes back from its text and the codes so far. */
TEST(blocks_with_shared_codes_come_back)
{
    struct prng r = prng_start("blocks of a run");
    char *text = lw_alloc(SPAN_MOST_TEXT);
    row *rows = lw_alloc(SPAN_BLOCK * sizeof *rows), *back = lw_alloc(SPAN_BLOCK * sizeof *back);
    int64_t n_numbers = 0, n_written = 0;
    struct lw_err err = {0};

    for (int run = 0; run < 20; run++) {
        struct span_coder c;
        assert_ok(span_coder_init(&c, &err), err);
        for (int block = 0; block < 10; block++) {
            int64_t n = prng_in(&r, 1, 600), first_new, before = c.shared.n;
            if (block == 0 || prng_below(&r, 2))
                draw_rows(&r, rows, n = block == 0 && run == 0 ? SPAN_BLOCK : n);
            else if (n > 300)
                n = 1;
            assert_ok(span_coder_encode(&c, (const row *)rows, n, &err), err);
            assert_ok(span_coder_number(&c, n, &first_new, &err), err);
            assert_int_equal(first_new, before);
            size_t len = span_write(c.codes, n, c.numbers, text);
            assert_true(len <= SPAN_MOST_TEXT);
            const struct span_codes known = {c.shared.v, c.shared.n};
            assert_true(span_read(text, len, known, rows[0][SPAN_OP], rows[0][SPAN_START], back,
                                  n));
            assert_memory_equal(back, rows, (size_t)n * sizeof *rows);
            for (int64_t i = 0; i < n; i++) {
                n_numbers += c.numbers[i] >= 0;
                n_written += c.numbers[i] < 0;
            }
        }
        span_coder_free(&c);
    }
    assert_true(n_numbers > 0 && n_written > 0);
    lw_free(text);
    lw_free(rows);
    lw_free(back);
}

/* A code that the run's list lacks is refused, not read as another. */
TEST(a_number_beyond_the_list_is_refused)
{
    struct span_code codes[2];
    row back[2];

    span_encode(example, 2, NULL, codes);
    for (int64_t n = 0; n <= 2; n++)
        assert_int_equal(span_read("[0,1]", 5, (struct span_codes){codes, n}, 4, 900, back, 2),
                         n == 2);
    assert_memory_equal(back, example, sizeof example);
}

/* Every value takes 20 characters but op and start of the first row, which are 0. */
TEST(the_longest_text_has_room)
{
    const int64_t longest = -INT64_C(1000000000000000000);
    char *text = lw_alloc(SPAN_MOST_TEXT);
    row *rows = lw_alloc(SPAN_BLOCK * sizeof *rows), *back = lw_alloc(SPAN_BLOCK * sizeof *back);
    uint64_t sum = 0;

    for (int64_t i = 0; i < SPAN_BLOCK; i++) {
        sum += (uint64_t)longest;
        for (int k = 0; k < SPAN_N_VALUES; k++)
            rows[i][k] = longest;
        rows[i][SPAN_OP] = rows[i][SPAN_START] = (int64_t)sum;
        rows[i][SPAN_READY] = rows[i][SPAN_ISSUE] = (int64_t)(sum - (uint64_t)longest);
        rows[i][SPAN_ALL_IN] = rows[i][SPAN_END] = (int64_t)(sum + (uint64_t)longest);
    }
    const size_t expected = 1 + SPAN_BLOCK * (size_t)(9 * 20 + 8 + 2 + 1) - 2 * 19;
    assert_true(expected <= SPAN_MOST_TEXT);
    assert_int_equal(write_out((const row *)rows, SPAN_BLOCK, text), expected);
    assert_true(span_read(text, expected, none, rows[0][SPAN_OP], rows[0][SPAN_START], back,
                          SPAN_BLOCK));
    assert_memory_equal(back, rows, SPAN_BLOCK * sizeof *rows);
    lw_free(text);
    lw_free(rows);
    lw_free(back);
}

TEST(other_text_is_refused)
{
    static const char *const wrong[] = {
        "", "[", "[]", "[[0,1,0,-1,0,0,null,null,5000]]", "[[0,1,0,-1,0,0,null,null]]",
        "[[null,1,0,-1,0,0,1,1,1],[2,15,1,0,5001,1,1,500,2099]]",
        "[[0,1,0,-1,0,0,null,null,5000],[2,15,1,0,5001,1,1,500,2099]] ",
        "[[0,1,0,-1,0,0,null,null,5000],[2,15,1,0,5001,1,1,500,2099],]",
        "[[0,1,0,-,0,0,null,null,5000],[2,15,1,0,5001,1,1,500,2099]]",
        "[[0,1,0,123456789012345678901,0,0,null,null,5000],[2,15,1,0,5001,1,1,500,2099]]",
        "[[0,1,0,-1,0,0,null,null,5.5],[2,15,1,0,5001,1,1,500,2099]]",
        "[[0,1,0,-1,0,0,null,null,5000,0],[2,15,1,0,5001,1,1,500,2099]]",
        "[[0,1,0,-1,0,null,null,null,5000],[2,15,1,0,5001,1,1,500,2099]]",
        "[[0,1,0,-1,0,null,null,null,5000,null],[2,15,1,0,5001,1,1,500,2099]]",
        "[0,[2,15,1,0,5001,1,1,500,2099]]", "[[0,1,0,-1,0,0,null,null,5000],-1]",
    };
    row back[2];

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (span_read(wrong[i], strlen(wrong[i]), none, 0, 0, back, 2))
            fail_msg("%s is read", wrong[i]);
    for (size_t n = 0; n < sizeof text_of_example - 1; n++)
        assert_false(span_read(text_of_example, n, none, 0, 0, back, 2));
}

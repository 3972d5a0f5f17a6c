/* Sequences as pieces of a list: every element comes back, and what repeats is listed once. */
#include "tests/lib/unit.h"
#include <string.h>

#include "analysis/store/pieces.h"
#include "shared/base/arena.h"
#include "tests/lib/failing_alloc.h"
#include "tests/lib/prng.h"

enum { MOST = 400 };

struct element {
    int64_t number, key, item[PIECE_MOST_NUMBERS];
};

/* What a sink got. */
struct got {
    int n_numbers;
    int64_t list[MOST][PIECE_MOST_NUMBERS], n_list;
    struct piece pieces[MOST];
    int n_pieces;
};

static void take_item(void *ctx, int64_t place, const int64_t *item)
{
    struct got *g = ctx;

    assert_int_equal(place, g->n_list); /* in order */
    memcpy(g->list[g->n_list++], item, (size_t)g->n_numbers * sizeof *item);
}

static void take_piece(void *ctx, const struct piece *p)
{
    struct got *g = ctx;

    g->pieces[g->n_pieces++] = *p;
}

static enum lw_status code(const struct element *v, int n, int n_numbers, struct got *g,
                           struct lw_err *err)
{
    struct piece_coder c = {.n_numbers = n_numbers, .sink = {g, take_item, take_piece}};
    enum lw_status st = LW_OK;

    *g = (struct got){.n_numbers = n_numbers};
    for (int i = 0; i < n && st == LW_OK; i++)
        st = piece_coder_add(&c, v[i].number, v[i].key, v[i].item, err);
    if (st == LW_OK)
        return piece_coder_end(&c, err);
    piece_coder_free(&c);
    return st;
}

/* The pieces give the sequence back, each element once and in order. */
static void check(const struct element *v, int n, const struct got *g)
{
    int at = 0;

    for (int p = 0; p < g->n_pieces; p++) {
        const struct piece *x = &g->pieces[p];
        assert_true(x->n > 0 && x->place >= 0 && x->place + x->n <= g->n_list);
        for (int64_t i = 0; i < x->n; i++, at++) {
            assert_in_range(at, 0, n - 1);
            assert_int_equal(x->first + i, v[at].number);
            assert_int_equal(x->key, v[at].key);
            assert_memory_equal(g->list[x->place + i], v[at].item,
                                (size_t)g->n_numbers * sizeof(int64_t));
        }
    }
    assert_int_equal(at, n);
}

/* Letters are items, a digit is the key of what follows. */
static int sequence_of(const char *text, struct element *v)
{
    int n = 0;
    int64_t key = 0;

    for (; *text; text++)
        if (*text >= '0' && *text <= '9')
            key = *text - '0';
        else
            v[n] = (struct element){n, key, {*text}}, n++;
    return n;
}

TEST(what_repeats_is_listed_once)
{
    static const struct {
        const char *sequence, *list, *pieces; /* first, n, place, key of each */
    } cases[] = {
        {"", "", ""},
        {"ab", "ab", "0 2 0 0;"},
        {"abcd", "abcd", "0 4 0 0;"},
        {"0abacd1abacd2abacd", "abacd", "0 5 0 0;5 5 0 1;10 5 0 2;"},
        /* two elements are not worth a piece, three are */
        {"abcxaby", "abcxaby", "0 7 0 0;"},
        {"abcxabcy", "abcxy", "0 4 0 0;4 3 0 0;7 1 4 0;"},
        /* a piece starts inside of the list and goes over its pieces */
        {"abc1defbcdefg", "abcdefg", "0 3 0 0;3 3 3 1;6 5 1 1;11 1 6 1;"},
        {"abcdef1bcdefg", "abcdefg", "0 6 0 0;6 5 1 1;11 1 6 1;"},
        /* a copy ends with its key */
        {"0abcdef1abc2def", "abcdef", "0 6 0 0;6 3 0 1;9 3 3 2;"},
        /* of equal places the first */
        {"abcxabcyabcx", "abcxy", "0 4 0 0;4 3 0 0;7 1 4 0;8 4 0 0;"},
    };
    struct element v[MOST];
    struct got g;
    struct lw_err err = {0};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char list[MOST] = "", pieces[MOST] = "";
        int n = sequence_of(cases[i].sequence, v);
        assert_ok(code(v, n, 1, &g, &err), err);
        for (int64_t k = 0; k < g.n_list; k++)
            list[k] = (char)g.list[k][0];
        for (int k = 0; k < g.n_pieces; k++)
            sprintf(pieces + strlen(pieces), "%d %d %d %d;", (int)g.pieces[k].first,
                    (int)g.pieces[k].n, (int)g.pieces[k].place, (int)g.pieces[k].key);
        assert_string_equal(list, cases[i].list);
        assert_string_equal(pieces, cases[i].pieces);
        check(v, n, &g);
    }
}

/* Of few items, so that much repeats, with gaps in the numbers and keys that change. */
TEST(random_sequences_come_back)
{
    struct prng r = prng_start("sequences");
    struct element v[MOST];
    struct got g;
    struct lw_err err = {0};

    for (int k = unit_cases(400, 20000); k > 0; k--) {
        int n = prng_below(&r, MOST + 1), n_numbers = 1 + prng_below(&r, PIECE_MOST_NUMBERS);
        int n_items = 1 + prng_below(&r, 6), change = 1 + prng_below(&r, 60);
        struct element x = {prng_in(&r, -3, 3), prng_in(&r, -1, 1), {0}};
        for (int i = 0; i < n; i++) {
            for (int m = 0; m < n_numbers; m++)
                x.item[m] = prng_below(&r, n_items) == 0 ? prng_in(&r, -2, 2) : i % n_items;
            x.key += prng_below(&r, change) == 0;
            x.number += 1 + (prng_below(&r, change) == 0 ? prng_below(&r, 9) : 0);
            v[i] = x;
        }
        assert_ok(code(v, n, n_numbers, &g, &err), err);
        check(v, n, &g);
    }
}

/* A sequence of period p takes a list of p items and one piece of each period. */
TEST(a_period_is_listed_once)
{
    struct element v[MOST];
    struct got g;
    struct lw_err err = {0};

    for (int p = PIECE_LEAST; p < 40; p++) {
        for (int i = 0; i < 10 * p; i++)
            v[i] = (struct element){i, i / p, {i % p, 7, -1}};
        assert_ok(code(v, 10 * p, 3, &g, &err), err);
        assert_int_equal(g.n_list, p);
        assert_int_equal(g.n_pieces, 10);
        check(v, 10 * p, &g);
    }
}

TEST(no_memory_is_reported_and_nothing_leaks)
{
    struct element v[MOST];
    struct got g;
    struct lw_err err = {0};

    for (int i = 0; i < MOST; i++)
        v[i] = (struct element){i, 0, {i * i % 101}};
    EACH_ALLOCATION_FAILS_IN(4, code(v, MOST, 1, &g, &err));
}

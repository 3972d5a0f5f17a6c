/* Sequences that repeat, as pieces of a list: the dictionary coder of Ziv and Lempel (1977) with
 * two differences that let one statement of SQL unpack it. A piece copies from the list, which has
 * each element that was not copied, and not from the sequence, so no piece refers to another; and
 * elements of a piece have one key. PIECE_LEAST elements that the list has at its place p (the
 * first of equal ones) begin a copy, which goes on as long as the list has what comes. Others are
 * listed, and elements that were listed one after the other are one piece. */
#include "analysis/store/pieces.h"

#include <string.h>

#include "shared/base/arena.h"

static bool is_item(const struct piece_coder *c, int64_t place, const int64_t *item)
{
    size_t size = (size_t)c->n_numbers * sizeof *item;

    return memcmp(c->list + place * c->n_numbers, item, size) == 0;
}

/* --- where PIECE_LEAST items are listed ------------------------------------------------------- */

static uint64_t mix(uint64_t h, const int64_t *v, int n)
{
    for (int k = 0; k < n; k++) {
        h = (h ^ (uint64_t)v[k]) * UINT64_C(0x9e3779b97f4a7c15);
        h ^= h >> 29;
    }
    return h;
}

/* The slot that has these items, or the free one where they belong. */
static int64_t slot_of(const struct piece_coder *c, const int64_t *const items[PIECE_LEAST])
{
    uint64_t h = 0;

    for (int k = 0; k < PIECE_LEAST; k++)
        h = mix(h, items[k], c->n_numbers);
    int64_t at = (int64_t)(h & (uint64_t)(c->n_slots - 1));
    for (; c->grams[at] != 0; at = (at + 1) & (c->n_slots - 1)) {
        int k = 0;
        while (k < PIECE_LEAST && is_item(c, c->grams[at] - 1 + k, items[k]))
            k++;
        if (k == PIECE_LEAST)
            break;
    }
    return at;
}

static int64_t slot_of_place(const struct piece_coder *c, int64_t place)
{
    const int64_t *items[PIECE_LEAST];

    for (int k = 0; k < PIECE_LEAST; k++)
        items[k] = c->list + (place + k) * c->n_numbers;
    return slot_of(c, items);
}

static enum lw_status widen(struct piece_coder *c, struct lw_err *err)
{
    int64_t n_slots = c->n_slots > 0 ? 2 * c->n_slots : 64;
    int32_t *was = c->grams, *grams = lw_calloc((size_t)n_slots, sizeof *grams);
    int64_t n_was = c->n_slots;

    if (!grams)
        return lw_fail_nomem(err);
    c->grams = grams;
    c->n_slots = n_slots;
    for (int64_t i = 0; i < n_was; i++)
        if (was[i] != 0)
            c->grams[slot_of_place(c, was[i] - 1)] = was[i];
    lw_free(was);
    return LW_OK;
}

/* The last items of the list, unless they were there before. */
static enum lw_status note_last(struct piece_coder *c, struct lw_err *err)
{
    int64_t place = c->n_list - PIECE_LEAST;

    if (place < 0 || place >= INT32_MAX) /* items after that many are not copied */
        return LW_OK;
    if (2 * (c->n_grams + 1) > c->n_slots)
        LW_TRY(widen(c, err));
    int64_t at = slot_of_place(c, place);
    if (c->grams[at] == 0) {
        c->grams[at] = (int32_t)place + 1;
        c->n_grams++;
    }
    return LW_OK;
}

/* Where the list has the elements that wait; -1: nowhere. */
static int64_t place_of_waiting(const struct piece_coder *c)
{
    const int64_t *items[PIECE_LEAST];

    for (int k = 0; k < PIECE_LEAST; k++)
        items[k] = c->waiting[k];
    return c->n_slots > 0 ? c->grams[slot_of(c, items)] - 1 : -1;
}

/* --- pieces ----------------------------------------------------------------------------------- */

static void close_piece(struct piece_coder *c)
{
    if (c->open.n > 0)
        c->sink.piece(c->sink.ctx, &c->open);
    c->open.n = 0;
    c->copies = false;
}

static bool goes_on(const struct piece *p, int64_t number, int64_t key)
{
    return p->n > 0 && number == p->first + p->n && key == p->key;
}

/* The first of those that wait is a new item. */
static enum lw_status list_one(struct piece_coder *c, struct lw_err *err)
{
    int64_t place = c->n_list;

    if (lw_reserve(&c->list, &c->room, (place + 1) * c->n_numbers, sizeof *c->list) != 0)
        return lw_fail_nomem(err);
    memcpy(c->list + place * c->n_numbers, c->waiting[0], (size_t)c->n_numbers * sizeof *c->list);
    c->n_list++;
    c->sink.item(c->sink.ctx, place, c->waiting[0]);
    if (!goes_on(&c->open, c->first_waiting, c->key)) {
        close_piece(c);
        c->open = (struct piece){.first = c->first_waiting, .place = place, .key = c->key};
    }
    c->open.n++;
    c->first_waiting++;
    memmove(c->waiting, c->waiting + 1, (size_t)--c->n_waiting * sizeof *c->waiting);
    return note_last(c, err);
}

static enum lw_status list_waiting(struct piece_coder *c, struct lw_err *err)
{
    while (c->n_waiting > 0)
        LW_TRY(list_one(c, err));
    return LW_OK;
}

enum lw_status piece_coder_add(struct piece_coder *c, int64_t number, int64_t key,
                               const int64_t *item, struct lw_err *err)
{
    if (c->copies) {
        int64_t next = c->open.place + c->open.n;
        if (goes_on(&c->open, number, key) && next < c->n_list && is_item(c, next, item)) {
            c->open.n++;
            return LW_OK;
        }
        close_piece(c);
    }
    if (c->n_waiting > 0 && (number != c->first_waiting + c->n_waiting || key != c->key))
        LW_TRY(list_waiting(c, err));
    if (c->n_waiting == 0) {
        c->first_waiting = number;
        c->key = key;
    }
    memcpy(c->waiting[c->n_waiting++], item, (size_t)c->n_numbers * sizeof *item);
    if (c->n_waiting < PIECE_LEAST)
        return LW_OK;
    int64_t place = place_of_waiting(c);
    if (place < 0)
        return list_one(c, err);
    close_piece(c);
    c->open = (struct piece){c->first_waiting, PIECE_LEAST, place, key};
    c->copies = true;
    c->n_waiting = 0;
    return LW_OK;
}

enum lw_status piece_coder_end(struct piece_coder *c, struct lw_err *err)
{
    enum lw_status st = list_waiting(c, err);

    if (st == LW_OK)
        close_piece(c);
    piece_coder_free(c);
    return st;
}

void piece_coder_free(struct piece_coder *c)
{
    lw_free(c->list);
    lw_free(c->grams);
    *c = (struct piece_coder){.n_numbers = c->n_numbers, .sink = c->sink};
}

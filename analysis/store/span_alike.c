/* Which spans of a run are alike. A block is coded twice: with every ready time counted from its
 * row's start, and with the ready times of waits that occur once counted from a time that is held
 * (span_pack.c). The one with fewer different codes is taken. Codes that repeat, and all codes of a
 * block most of whose rows do, are numbered, and its text has their numbers. A block of measured
 * times, of which none is as another, is written out as it is: a number and a row of a table would
 * take more. At most MOST_SHARED codes are numbered, which bounds the memory. */
#include "analysis/store/span_alike.h"

#include <string.h>

#include "shared/base/arena.h"

enum { MOST_SHARED = 1 << 16 };

/* --- a set of codes --------------------------------------------------------------------------- */

static uint64_t hash_of(const struct span_code *c)
{
    uint64_t h = (uint64_t)c->unknown;

    for (int k = 0; k < SPAN_N_CODED; k++) {
        h = (h ^ (uint64_t)c->v[k]) * UINT64_C(0x9e3779b97f4a7c15);
        h ^= h >> 29;
    }
    return h;
}

/* The slot that has the code, or the free one where it belongs. */
static int64_t slot_of(const struct span_set *s, const struct span_code *c)
{
    int64_t at = (int64_t)(hash_of(c) & (uint64_t)(s->n_slots - 1));

    while (s->slots[at] != 0 && memcmp(&s->v[s->slots[at] - 1], c, sizeof *c) != 0)
        at = (at + 1) & (s->n_slots - 1);
    return at;
}

int64_t span_set_find(const struct span_set *s, const struct span_code *c)
{
    return s->n_slots > 0 ? s->slots[slot_of(s, c)] - 1 : -1;
}

static enum lw_status widen(struct span_set *s, struct lw_err *err)
{
    int64_t n_slots = s->n_slots > 0 ? 2 * s->n_slots : 1024;
    int32_t *slots = lw_calloc((size_t)n_slots, sizeof *slots);

    if (!slots)
        return lw_fail_nomem(err);
    lw_free(s->slots);
    s->slots = slots;
    s->n_slots = n_slots;
    for (int64_t i = 0; i < s->n; i++)
        s->slots[slot_of(s, &s->v[i])] = (int32_t)i + 1;
    return LW_OK;
}

enum lw_status span_set_add(struct span_set *s, const struct span_code *c, int64_t *number,
                            struct lw_err *err)
{
    *number = span_set_find(s, c);
    if (*number >= 0)
        return LW_OK;
    if (2 * (s->n + 1) > s->n_slots)
        LW_TRY(widen(s, err));
    if (lw_reserve(&s->v, &s->capacity, s->n + 1, sizeof *s->v) != 0)
        return lw_fail_nomem(err);
    s->v[s->n] = *c;
    s->slots[slot_of(s, c)] = (int32_t)s->n + 1;
    *number = s->n++;
    return LW_OK;
}

void span_set_clear(struct span_set *s)
{
    if (s->n > 0)
        memset(s->slots, 0, (size_t)s->n_slots * sizeof *s->slots);
    s->n = 0;
}

void span_set_free(struct span_set *s)
{
    lw_free(s->v);
    lw_free(s->slots);
    *s = (struct span_set){0};
}

/* --- blocks ----------------------------------------------------------------------------------- */

enum lw_status span_coder_init(struct span_coder *c, struct lw_err *err)
{
    *c = (struct span_coder){0};
    c->count = lw_alloc(SPAN_BLOCK * sizeof *c->count);
    c->codes = lw_alloc(SPAN_BLOCK * sizeof *c->codes);
    c->numbers = lw_alloc(SPAN_BLOCK * sizeof *c->numbers);
    c->holds = lw_alloc(SPAN_BLOCK * sizeof *c->holds);
    if (c->count && c->codes && c->numbers && c->holds)
        return LW_OK;
    span_coder_free(c);
    return lw_fail_nomem(err);
}

void span_coder_free(struct span_coder *c)
{
    span_set_free(&c->shared);
    span_set_free(&c->here);
    lw_free(c->count);
    lw_free(c->codes);
    lw_free(c->numbers);
    lw_free(c->holds);
    *c = (struct span_coder){0};
}

/* here and count of codes[n]; numbers[n]: in `here`. */
static enum lw_status count_codes(struct span_coder *c, int64_t n, struct lw_err *err)
{
    span_set_clear(&c->here);
    for (int64_t i = 0; i < n; i++) {
        int64_t before = c->here.n;
        LW_TRY(span_set_add(&c->here, &c->codes[i], &c->numbers[i], err));
        if (c->here.n > before)
            c->count[c->numbers[i]] = 0;
        c->count[c->numbers[i]]++;
    }
    return LW_OK;
}

enum lw_status span_coder_encode(struct span_coder *c, const int64_t (*rows)[SPAN_N_VALUES],
                                 int64_t n, struct lw_err *err)
{
    bool any = false;

    span_encode(rows, n, NULL, c->codes);
    LW_TRY(count_codes(c, n, err));
    int64_t n_plain = c->here.n;
    for (int64_t i = 0; i < n; i++) {
        c->holds[i] = c->codes[i].v[SPAN_READY] != 0 && c->count[c->numbers[i]] == 1;
        any |= c->holds[i];
    }
    if (!any)
        return LW_OK;
    span_encode(rows, n, c->holds, c->codes);
    LW_TRY(count_codes(c, n, err));
    if (c->here.n < n_plain)
        return LW_OK;
    span_encode(rows, n, NULL, c->codes);
    return count_codes(c, n, err);
}

enum lw_status span_coder_number(struct span_coder *c, int64_t n, int64_t *first_new,
                                 struct lw_err *err)
{
    int64_t n_single = 0; /* new codes of one row */

    *first_new = c->shared.n;
    for (int64_t k = 0; k < c->here.n; k++)
        n_single += c->count[k] == 1 && span_set_find(&c->shared, &c->here.v[k]) < 0;
    for (int64_t i = 0; i < n; i++) {
        bool numbered =
            c->shared.n < MOST_SHARED && (c->count[c->numbers[i]] > 1 || 2 * n_single <= n);
        if (numbered)
            LW_TRY(span_set_add(&c->shared, &c->codes[i], &c->numbers[i], err));
        else
            c->numbers[i] = span_set_find(&c->shared, &c->codes[i]);
    }
    return LW_OK;
}

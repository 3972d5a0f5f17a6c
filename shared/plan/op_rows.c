/* Ops that are alike but for the micro-batch, the number of their group call and where their
 * dependencies stand (with struct lw_op_own also but for what it has) are one row. Rows are found
 * by a table of hashes and compared in all fields, so their numbers follow from the order of the
 * ops alone.
 *
 * Invariant: micro_batch, call and first_dep of a row are 0, -1 and 0, and first_ready is 0 where
 * there is no list. Two ops may have names of equal text at two places: then there are two rows,
 * which does no harm. */
#include "shared/plan/op_rows.h"

#include <string.h>

/* An op is compared and hashed as words: it has no padding. */
enum { WORDS = sizeof(struct lw_op) / sizeof(uint64_t) };
_Static_assert(sizeof(struct lw_op) == 2 * sizeof(uint8_t) + sizeof(int16_t) +
                                           13 * sizeof(int32_t) + 2 * sizeof(int64_t) +
                                           sizeof(char *),
               "an op has padding");

/* A sum of products with powers of an odd number, of which none waits for another, mixed once. */
static uint64_t hash_of(const struct lw_op *op)
{
    uint64_t v[WORDS], h = 0, by = UINT64_C(0x9e3779b97f4a7c15);

    memcpy(v, op, sizeof v);
    for (int k = 0; k < WORDS; k++, by *= UINT64_C(0xd1342543de82ef95))
        h += (v[k] ^ v[k] >> 32) * by;
    h = (h ^ h >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
    return h ^ h >> 32;
}

static bool is_same(const struct lw_op *a, const struct lw_op *b)
{
    uint64_t x[WORDS], y[WORDS], differ = 0;

    memcpy(x, a, sizeof x);
    memcpy(y, b, sizeof y);
    for (int k = 0; k < WORDS; k++)
        differ |= x[k] ^ y[k];
    return differ == 0;
}

/* An entry is the upper half of a hash, which also says its place, and 1 + the row. */
#define MARK UINT64_C(0xffffffff00000000)

/* Where the row stands, or may stand. */
static uint64_t *place_of(const struct lw_op_sharing *s, const struct lw_op *rows,
                          const struct lw_op *row, uint64_t hash)
{
    uint64_t last = (uint64_t)s->n_found - 1, at = hash >> 32 & last;

    while (s->found[at] != 0 &&
           ((s->found[at] ^ hash) & MARK || !is_same(&rows[(uint32_t)s->found[at] - 1], row)))
        at = (at + 1) & last;
    return &s->found[at];
}

/* At most half full. */
static bool make_room(const struct lw_plan *p, struct lw_op_sharing *s)
{
    uint64_t n = s->n_found > 0 ? 2 * (uint64_t)s->n_found : 256;

    if (2 * ((int64_t)p->n_op_rows + 1) <= s->n_found)
        return true;
    uint64_t *found = lw_calloc(n, sizeof *found);
    if (!found)
        return false;
    for (int64_t k = 0; k < s->n_found; k++) {
        uint64_t at = s->found[k] >> 32 & (n - 1);
        while (s->found[k] != 0 && found[at] != 0)
            at = (at + 1) & (n - 1);
        if (s->found[k] != 0)
            found[at] = s->found[k];
    }
    lw_free(s->found);
    s->found = found;
    s->n_found = (int64_t)n;
    return true;
}

/* The number of the row; -1: no memory. */
static int32_t find_row(struct lw_plan *p, struct lw_op_sharing *s, const struct lw_op *row)
{
    uint64_t hash = hash_of(row);

    if (!make_room(p, s))
        return -1;
    uint64_t *place = place_of(s, p->op_rows, row, hash);
    if (*place == 0) {
        if (lw_reserve(&p->op_rows, &s->rows_capacity, p->n_op_rows + 1L, sizeof *row) != 0 ||
            lw_reserve(&s->next, &s->next_capacity, p->n_op_rows + 1L, sizeof *s->next) != 0)
            return -1;
        s->next[p->n_op_rows] = 0;
        p->op_rows[p->n_op_rows++] = *row;
        *place = (hash & MARK) | (uint32_t)p->n_op_rows;
    }
    return (int32_t)((uint32_t)*place - 1);
}

/* Passes repeat: the row that followed the last one before is looked at first. */
static int32_t row_of(struct lw_plan *p, struct lw_op_sharing *s, int32_t i,
                      const struct lw_op *row)
{
    int32_t *next = i > 0 ? &s->next[p->op_places[i - 1].row] : NULL, last = -1;

    if (next && is_same(&p->op_rows[*next], row))
        return *next;
    if (next)
        last = p->op_places[i - 1].row;
    int32_t number = find_row(p, s, row);
    if (number >= 0 && last >= 0)
        s->next[last] = number;
    return number;
}

/* Ops before the first with a call get a number too. */
static bool set_call(struct lw_plan *p, struct lw_op_sharing *s, int32_t i, int32_t call)
{
    bool begins = !p->op_calls;

    if (begins && call < 0)
        return true;
    if (i >= s->calls_capacity &&
        lw_reserve(&p->op_calls, &s->calls_capacity, i + 1L, sizeof *p->op_calls) != 0)
        return false;
    if (begins)
        memset(p->op_calls, -1, (size_t)i * sizeof *p->op_calls);
    p->op_calls[i] = call;
    return true;
}

static enum lw_status put(struct lw_plan *p, struct lw_op_sharing *s, int32_t i,
                          struct lw_op_place place, int32_t call, const struct lw_op_own *own,
                          struct lw_err *err)
{
    if ((i >= s->places_capacity &&
         lw_reserve(&p->op_places, &s->places_capacity, i + 1L, sizeof place) != 0) ||
        (s->own && i >= s->own_capacity &&
         lw_reserve(&p->op_own, &s->own_capacity, i + 1L, sizeof *own) != 0) ||
        !set_call(p, s, i, call))
        return lw_fail_nomem(err);
    p->op_places[i] = place;
    if (s->own)
        p->op_own[i] = *own;
    return LW_OK;
}

enum lw_status lw_op_rows_expect(struct lw_plan *p, struct lw_op_sharing *s, int64_t n,
                                 struct lw_err *err)
{
    enum { MOST = 1 << 21 };

    n = n < MOST ? n : MOST;
    if (lw_reserve(&p->op_places, &s->places_capacity, n, sizeof *p->op_places) != 0 ||
        (s->own && lw_reserve(&p->op_own, &s->own_capacity, n, sizeof *p->op_own) != 0))
        return lw_fail_nomem(err);
    return LW_OK;
}

enum lw_status lw_op_rows_set(struct lw_plan *p, struct lw_op_sharing *s, int32_t i,
                              const struct lw_op *op, struct lw_err *err)
{
    struct lw_op row = *op;

    row.micro_batch = row.first_dep = 0;
    row.call = -1;
    if (row.n_ready == 0)
        row.first_ready = 0;
    const struct lw_op_own own = {row.module, row.bucket, row.work, row.first_ready};
    if (s->own) {
        row.module = row.bucket = row.first_ready = 0;
        row.work = row.work < 0 ? -1 : 0;
    }
    int32_t number = row_of(p, s, i, &row);
    if (number < 0)
        return lw_fail_nomem(err);
    return put(p, s, i, (struct lw_op_place){number, op->micro_batch, op->first_dep}, op->call,
               &own, err);
}

enum lw_status lw_op_rows_repeat(struct lw_plan *p, struct lw_op_sharing *s, int32_t i,
                                 int32_t from, int32_t micro_batch, int32_t first_dep,
                                 struct lw_err *err)
{
    const struct lw_op_own own = s->own ? p->op_own[from] : (struct lw_op_own){0};

    return put(p, s, i, (struct lw_op_place){p->op_places[from].row, micro_batch, first_dep},
               p->op_calls ? p->op_calls[from] : -1, &own, err);
}

/* A list of n items to the plan's arena; NULL: it failed, and the list is freed. */
static void *settle(struct lw_plan *p, void *items, int64_t n, size_t size)
{
    void *cut = lw_realloc(items, (size_t)n * size);

    if (!cut || lw_arena_adopt(&p->arena, cut) == 0) {
        if (!cut)
            lw_free(items);
        return cut;
    }
    lw_free(cut);
    return NULL;
}

enum lw_status lw_op_rows_settle(struct lw_plan *p, struct lw_op_sharing *s, struct lw_err *err)
{
    bool calls = p->op_calls, own = p->op_own;

    lw_free(s->found);
    lw_free(s->next);
    p->op_places = settle(p, p->op_places, p->n_ops, sizeof *p->op_places);
    p->op_rows = settle(p, p->op_rows, p->n_op_rows, sizeof *p->op_rows);
    if (calls)
        p->op_calls = settle(p, p->op_calls, p->n_ops, sizeof *p->op_calls);
    if (own)
        p->op_own = settle(p, p->op_own, p->n_ops, sizeof *p->op_own);
    *s = (struct lw_op_sharing){0};
    return p->op_places && p->op_rows && (!calls || p->op_calls) && (!own || p->op_own)
               ? LW_OK
               : lw_fail_nomem(err);
}

void lw_op_rows_free(struct lw_plan *p, struct lw_op_sharing *s)
{
    lw_free(s->found);
    lw_free(s->next);
    lw_free(p->op_places);
    lw_free(p->op_rows);
    lw_free(p->op_calls);
    lw_free(p->op_own);
    p->op_places = NULL;
    p->op_rows = NULL;
    p->op_calls = NULL;
    p->op_own = NULL;
    p->n_op_rows = 0;
    *s = (struct lw_op_sharing){0};
}

enum lw_status lw_plan_share_ops(struct lw_plan *p, bool own, struct lw_err *err)
{
    struct lw_op_sharing s = {.own = own};
    struct lw_plan made = *p;
    enum lw_status st = LW_OK;

    if (!p->ops || p->n_ops == 0)
        return LW_OK;
    made.op_places = NULL;
    made.op_rows = NULL;
    made.op_calls = NULL;
    made.op_own = NULL;
    made.n_op_rows = 0;
    for (int32_t i = 0; st == LW_OK && i < p->n_ops; i++)
        st = lw_op_rows_set(&made, &s, i, &p->ops[i], err);
    if (st != LW_OK) {
        lw_op_rows_free(&made, &s);
        return st;
    }
    st = lw_op_rows_settle(&made, &s, err);
    p->arena = made.arena; /* which owns some of them also where others failed */
    if (st != LW_OK)
        return st;
    made.ops = NULL;
    *p = made;
    return LW_OK;
}

enum lw_status lw_plan_write_ops(struct lw_plan *p, struct lw_err *err)
{
    struct lw_op *ops;

    if (p->ops)
        return LW_OK;
    LW_TAKE(&p->arena, ops, p->n_ops, err);
    for (int32_t i = 0; i < p->n_ops; i++)
        ops[i] = lw_op_at(p, i);
    p->ops = ops;
    return LW_OK;
}

/* Sets of alike ops by a table of hashes, of open addressing: places hold sets, which are compared
 * field by field, so that the numbers do not depend on the hash. The table grows with the sets, of
 * which a plan of many micro-batches has few. */
#include "analysis/store/alike_ops.h"

#include <string.h>

#include "shared/base/arena.h"
#include "shared/plan/plan.h"

enum { N_NUMBERS = 13 };

static void read_numbers(const struct lw_op *op, int64_t v[N_NUMBERS])
{
    const int64_t all[N_NUMBERS] = {op->kind, op->dtype, op->stage, op->module, op->bucket,
                                    op->stream, op->comm, op->call, op->work, op->work_ps,
                                    op->bytes, op->peer, op->operand};

    memcpy(v, all, sizeof all);
}

static uint64_t mix(const int64_t v[N_NUMBERS])
{
    uint64_t h = 0;

    for (int k = 0; k < N_NUMBERS; k++) {
        h = (h ^ (uint64_t)v[k]) * UINT64_C(0x9e3779b97f4a7c15);
        h ^= h >> 32;
    }
    return h;
}

static bool are_alike(const struct lw_op *a, const struct lw_op *b)
{
    int64_t x[N_NUMBERS], y[N_NUMBERS];

    read_numbers(a, x);
    read_numbers(b, y);
    return memcmp(x, y, sizeof x) == 0 && (a->name == b->name || strcmp(a->name, b->name) == 0);
}

/* Sets by hash: place[size] has 1 + the set, 0 = free. */
struct sets {
    int32_t *place, *first; /* first: the first op of each */
    int64_t size, n, room;
};

/* Where the set of the op is, or belongs. */
static int64_t place_of(const struct sets *s, const struct lw_plan *p, const struct lw_op *op)
{
    int64_t v[N_NUMBERS];

    read_numbers(op, v);
    uint64_t at = mix(v) & (uint64_t)(s->size - 1);
    while (s->place[at] > 0 && !are_alike(LW_OP(p, s->first[s->place[at] - 1]), op))
        at = (at + 1) & (uint64_t)(s->size - 1);
    return (int64_t)at;
}

static enum lw_status widen(struct sets *s, const struct lw_plan *p, struct lw_err *err)
{
    int64_t size = s->size > 0 ? 2 * s->size : 16;
    int32_t *place = lw_calloc((size_t)size, sizeof *place);

    if (!place)
        return lw_fail_nomem(err);
    lw_free(s->place);
    s->place = place;
    s->size = size;
    for (int64_t k = 0; k < s->n; k++)
        s->place[place_of(s, p, LW_OP(p, s->first[k]))] = (int32_t)k + 1;
    return LW_OK;
}

static enum lw_status set_of(struct sets *s, const struct lw_plan *p, int32_t op, int32_t *set,
                             struct lw_err *err)
{
    if (2 * (s->n + 1) > s->size)
        LW_TRY(widen(s, p, err));
    int64_t at = place_of(s, p, LW_OP(p, op));
    if (s->place[at] == 0) {
        if (lw_reserve(&s->first, &s->room, s->n + 1, sizeof *s->first) != 0)
            return lw_fail_nomem(err);
        s->first[s->n] = op;
        s->place[at] = (int32_t)++s->n;
    }
    *set = s->place[at] - 1;
    return LW_OK;
}

enum lw_status alike_ops_find(const struct lw_plan *p, struct lw_arena *room, struct alike_ops *out,
                              struct lw_err *err)
{
    struct alike_ops a = {0};
    struct sets s = {0};
    enum lw_status st = LW_OK;

    LW_TAKE(room, a.set, p->n_ops, err);
    for (int32_t i = 0; st == LW_OK && i < p->n_ops; i++)
        st = set_of(&s, p, i, &a.set[i], err);
    if (st == LW_OK) {
        a.n = (int32_t)s.n;
        a.first = lw_arena_alloc(room, s.n, sizeof *a.first);
        st = a.first ? LW_OK : lw_fail_nomem(err);
    }
    if (st == LW_OK && s.n > 0)
        memcpy(a.first, s.first, (size_t)s.n * sizeof *a.first);
    lw_free(s.place);
    lw_free(s.first);
    if (st == LW_OK)
        *out = a;
    return st;
}

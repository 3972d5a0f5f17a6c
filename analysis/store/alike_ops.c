/* Sets of alike ops by a table of hashes, of open addressing: places hold sets, which are compared
 * field by field, so that the numbers do not depend on the hash. */
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

enum lw_status alike_ops_find(const struct lw_plan *p, struct lw_arena *room, struct alike_ops *out,
                              struct lw_err *err)
{
    struct alike_ops a = {0};
    uint64_t size = 16;
    int64_t v[N_NUMBERS];
    int32_t *place; /* 1 + the set */

    while (size < 2 * (uint64_t)p->n_ops)
        size *= 2;
    LW_TAKE(room, a.set, p->n_ops, err);
    LW_TAKE(room, a.first, p->n_ops, err);
    LW_TAKE(room, place, (int64_t)size, err);
    for (int32_t i = 0; i < p->n_ops; i++) {
        read_numbers(LW_OP(p, i), v);
        uint64_t at = mix(v) & (size - 1);
        while (place[at] > 0 && !are_alike(LW_OP(p, a.first[place[at] - 1]), LW_OP(p, i)))
            at = (at + 1) & (size - 1);
        if (place[at] == 0) {
            a.first[a.n] = i;
            place[at] = ++a.n;
        }
        a.set[i] = place[at] - 1;
    }
    *out = a;
    return LW_OK;
}

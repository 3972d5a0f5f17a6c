/* Ops that take as long as each other on every rank (like_ops.h). What decides that is a key: work
 * of its own or by the cluster, and what a collective or message is timed by. An op that the
 * cluster times for each rank is like no other. Keys are compared whole, so no hash decides. */
#include "sim/engine/like_ops.h"

#include <string.h>

enum { LATELY = 256 }; /* numbers, by the hash of their keys: the last of each */

struct key {
    lw_ps work;    /* -1: of a collective or message; or it depends on the rank */
    int64_t bytes; /* this and the next two: of a communication */
    int32_t operand, dtype;
    int32_t kind, stream, comm;
    bool is_alike; /* false: it is like no other */
};

struct numbering {
    const struct sim_engine *e;
    struct sim_like_ops *l;
    struct key *keys; /* [n] */
    int32_t *next;    /* [n]: the number after the last op of this number */
    int32_t last;     /* of the op before; -1 = none */
    int32_t lately[LATELY];
};

static bool is_of(const struct key *k, const struct lw_op *op, lw_ps work)
{
    return k->work == work && k->kind == op->kind && k->stream == op->stream &&
           k->comm == op->comm && k->is_alike &&
           (k->comm < 0 ||
            (k->bytes == op->bytes && k->operand == op->operand && k->dtype == op->dtype));
}

static int32_t *slot_of(struct numbering *n, const struct lw_op *op, lw_ps work)
{
    uint64_t x = (uint64_t)work * 31 + (uint64_t)op->kind;

    x = x * 31 + (uint64_t)(op->comm + 1);
    if (op->comm >= 0)
        x = x * 31 + (uint64_t)op->bytes + (uint64_t)(op->operand + 1) * 7;
    return &n->lately[(x * UINT64_C(0x9e3779b97f4a7c15) >> 32) % LATELY];
}

static int32_t find_number(struct numbering *n, int32_t number, const struct lw_op *op, lw_ps work)
{
    int32_t *lately = slot_of(n, op, work);

    if (*lately >= 0 && is_of(&n->keys[*lately], op, work))
        return *lately;
    n->keys[n->l->n] = (struct key){work, op->bytes, op->operand, op->dtype, op->kind, op->stream,
                                    op->comm, op->comm >= 0 || work >= 0};
    n->next[n->l->n] = -1;
    n->l->first[n->l->n] = number;
    return *lately = n->l->n++;
}

/* That of the op which followed the last one of the number before, if it is alike; most are. */
static int32_t number_of(struct numbering *n, int32_t number)
{
    const struct lw_op *op = LW_OP_HELD(n->e->plan, number);
    lw_ps work = sim_known_work(n->e, number);
    int32_t k = n->last < 0 ? -1 : n->next[n->last];

    if (k < 0 || !is_of(&n->keys[k], op, work))
        k = find_number(n, number, op, work);
    if (n->last >= 0)
        n->next[n->last] = k;
    return n->last = k;
}

static void number_rows(struct numbering *n)
{
    const struct lw_plan *p = n->e->plan;

    memset(n->l->of, 0xff, (size_t)p->n_op_rows * sizeof *n->l->of);
    for (int32_t i = 0; i < p->n_ops; i++) {
        int32_t *of = &n->l->of[lw_op_row(p, i)];
        *of = *of < 0 ? number_of(n, i) : *of;
    }
}

enum lw_status sim_like_make(const struct sim_engine *e, struct lw_arena *arena,
                             struct sim_like_ops *out)
{
    const struct lw_plan *p = e->plan;
    bool by_row = !p->ops && !p->op_own;
    int64_t most = by_row ? p->n_op_rows : p->n_ops;
    struct numbering n = {.e = e, .l = out, .last = -1};
    struct lw_arena room = {0};

    *out = (struct sim_like_ops){0};
    memset(n.lately, 0xff, sizeof n.lately);
    out->of = lw_arena_room(arena, most + 1, sizeof *out->of); /* written before they are read */
    out->first = lw_arena_room(arena, most + 1, sizeof *out->first);
    n.keys = lw_arena_room(&room, most + 1, sizeof *n.keys);
    n.next = lw_arena_room(&room, most + 1, sizeof *n.next);
    bool enough = out->of && out->first && n.keys && n.next;
    if (enough && by_row)
        number_rows(&n);
    for (int32_t i = 0; enough && !by_row && i < p->n_ops; i++)
        out->of[i] = number_of(&n, i);
    lw_arena_free(&room);
    return enough ? LW_OK : lw_fail_nomem(e->err);
}

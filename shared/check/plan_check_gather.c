/* Weights that a member does not keep (ZeRO-3): what one program frees is there whenever it is used.
 *
 * A flat buffer of weights is *temporary* in a program that frees it. Proven for every program: each
 * forward, backward, input's half and recomputation of a module finds its temporary buffers
 * all-gathered, by an op that has ended; a buffer is freed when its gather and all its users have
 * ended, and gathered again only behind that; none is left over when the optimizer begins, whose
 * update would make it stale. O(ops * streams + uses). */
#include <string.h>

#include "shared/base/arena.h"
#include "shared/check/plan_check.h"
#include "shared/check/vector_clock.h"

struct gather {
    const struct lw_plan *p;
    struct lw_op_clock clock;
    bool *temporary;              /* [n_buckets] in the program at hand */
    int32_t *first, *buffers;     /* flat buffers by module: [n_modules + 1], [slots] */
    int32_t *gathered_by, *freed_by, *used_by; /* [n_buckets] last op; -1 = none */
};

bool lw_check_temporary(const struct lw_plan *p, struct lw_program g, bool *temporary)
{
    bool any = false;

    memset(temporary, 0, (size_t)p->n_buckets * sizeof *temporary);
    for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++) {
        const struct lw_op *o = &p->ops[i];
        if (o->kind == LW_OP_FREE && o->bucket >= 0 && lw_plan_is_weights(p, o->bucket))
            any = temporary[o->bucket] = true;
    }
    return any;
}

/* Two ops and what is wrong between them. */
static enum lw_status wrong(const struct gather *k, int32_t op, const char *what, int32_t other,
                            struct lw_err *err)
{
    char text[LW_OP_TEXT], more[LW_OP_TEXT];

    return lw_fail(err, LW_EPLAN, "%s %s%s", lw_check_op_text(k->p, op, text), what,
                   other >= 0 ? lw_check_op_text(k->p, other, more) : "");
}

static bool awaited(const struct gather *k, int32_t op, int32_t before)
{
    return before < 0 || lw_op_after(&k->clock, op, before);
}

static enum lw_status check_gather(struct gather *k, int32_t op, int32_t b, struct lw_err *err)
{
    if (k->gathered_by[b] >= 0)
        return wrong(k, op, "gathers weights that are there since ", k->gathered_by[b], err);
    if (!awaited(k, op, k->freed_by[b]))
        return wrong(k, op, "does not wait for ", k->freed_by[b], err);
    k->gathered_by[b] = op;
    k->used_by[b] = -1;
    return LW_OK;
}

static enum lw_status check_free(struct gather *k, int32_t op, int32_t b, struct lw_err *err)
{
    if (k->gathered_by[b] < 0)
        return wrong(k, op, "frees weights that were not gathered", -1, err);
    if (!awaited(k, op, k->gathered_by[b]))
        return wrong(k, op, "does not wait for ", k->gathered_by[b], err);
    if (!awaited(k, op, k->used_by[b]))
        return wrong(k, op, "does not wait for ", k->used_by[b], err);
    k->gathered_by[b] = -1;
    k->freed_by[b] = op;
    return LW_OK;
}

static enum lw_status check_use(struct gather *k, int32_t op, struct lw_err *err)
{
    int32_t m = k->p->ops[op].module;

    for (int32_t i = k->first[m]; i < k->first[m + 1]; i++) {
        int32_t b = k->buffers[i];
        if (!k->temporary[b])
            continue;
        if (k->gathered_by[b] < 0)
            return wrong(k, op, k->freed_by[b] < 0 ? "uses weights that were never gathered"
                                                   : "uses weights that are given up by ",
                         k->freed_by[b], err);
        if (!awaited(k, op, k->gathered_by[b]))
            return wrong(k, op, "does not wait for ", k->gathered_by[b], err);
        k->used_by[b] = op;
    }
    return LW_OK;
}

static enum lw_status check_update(const struct gather *k, int32_t op, struct lw_err *err)
{
    for (int32_t b = 0; b < k->p->n_buckets; b++)
        if (k->temporary[b] && k->gathered_by[b] >= 0)
            return wrong(k, op, "makes weights stale that nobody frees: ", k->gathered_by[b], err);
    return LW_OK;
}

static enum lw_status check_program(struct gather *k, struct lw_program g, struct lw_err *err)
{
    size_t size = (size_t)k->p->n_buckets * sizeof(int32_t);

    if (!lw_check_temporary(k->p, g, k->temporary))
        return LW_OK;
    lw_op_clock_set(&k->clock, g);
    memset(k->gathered_by, -1, size);
    memset(k->freed_by, -1, size);
    memset(k->used_by, -1, size);
    for (int32_t op = g.first_op; op < g.first_op + g.n_ops; op++) {
        const struct lw_op *o = &k->p->ops[op];
        bool about = o->bucket >= 0 && k->temporary[o->bucket];
        if (about && o->kind == LW_OP_ALL_GATHER)
            LW_TRY(check_gather(k, op, o->bucket, err));
        else if (about && o->kind == LW_OP_FREE)
            LW_TRY(check_free(k, op, o->bucket, err));
        else if (lw_op_uses_weights(o))
            LW_TRY(check_use(k, op, err));
        else if (o->kind == LW_OP_OPTIMIZER)
            LW_TRY(check_update(k, op, err));
    }
    return LW_OK;
}

/* Flat buffers by the modules whose parameters they hold. */
static void index_modules(struct gather *k)
{
    const struct lw_plan *p = k->p;

    for (int pass = 0; pass < 2; pass++) {
        for (int32_t b = 0; b < p->n_buckets; b++)
            for (int32_t i = 0; lw_plan_is_weights(p, b) && i < p->buckets[b].n_slots; i++) {
                int32_t m = p->params[p->slots[p->buckets[b].first_slot + i]].module;
                if (pass == 0)
                    k->first[m + 2]++;
                else
                    k->buffers[k->first[m + 1]++] = b;
            }
        for (int32_t m = 0; pass == 0 && m <= p->n_modules; m++)
            k->first[m + 1] += k->first[m];
    }
}

static enum lw_status make_room(struct gather *k, struct lw_arena *room, struct lw_err *err)
{
    const struct lw_plan *p = k->p;

    LW_TRY(lw_op_clock_init(&k->clock, p, room, err));
    k->temporary = lw_arena_alloc(room, p->n_buckets, sizeof *k->temporary);
    k->first = lw_arena_alloc(room, p->n_modules + 2L, sizeof *k->first);
    k->buffers = lw_arena_alloc(room, p->n_slots, sizeof *k->buffers);
    k->gathered_by = lw_arena_alloc(room, p->n_buckets, sizeof *k->gathered_by);
    k->freed_by = lw_arena_alloc(room, p->n_buckets, sizeof *k->freed_by);
    k->used_by = lw_arena_alloc(room, p->n_buckets, sizeof *k->used_by);
    if (!k->temporary || !k->first || !k->buffers || !k->gathered_by || !k->freed_by || !k->used_by)
        return lw_fail_nomem(err);
    index_modules(k);
    return LW_OK;
}

enum lw_status lw_check_gathers(const struct lw_plan *p, struct lw_err *err)
{
    struct gather k = {.p = p};
    struct lw_arena room = {0};
    bool any = false;

    for (int32_t i = 0; !any && i < p->n_ops; i++)
        any = p->ops[i].kind == LW_OP_FREE && p->ops[i].bucket >= 0;
    if (!any)
        return LW_OK;
    enum lw_status s = make_room(&k, &room, err);
    for (int32_t i = 0; s == LW_OK && i < p->n_variants * p->n_roles; i++)
        s = check_program(&k, p->programs[i], err);
    lw_arena_free(&room);
    return s;
}

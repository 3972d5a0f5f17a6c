/* Lowering of a grid to torch's schedule IR: merged backwards, messages, sharded stages. The rules
 * are those of _merge_bw, _add_send_recv and _add_unshard_reshard in pytorch/pytorch @ 00722e64
 * torch/distributed/pipelining/schedules.py, read there and tested against recorded tables.
 *
 * Messages: a receive is put into a list by its sender, at the moment the sender's action gets its
 * place; so all ranks agree on one order, and no two wait for each other. Stages on the same rank
 * exchange nothing. Sharded stages: evicted ones are dropped in ascending order (torch leaves the
 * order open) before new ones are gathered in the order of their use. */
#include "shared/schedule/schedule_torch_ir.h"

#include <stdio.h>
#include <string.h>

LW_FREE_BY_ARENA(lw_lowered_free, struct lw_lowered)

enum lw_status lw_grid_merge(const struct lw_grid *g, struct lw_grid *out, struct lw_err *err)
{
    struct lw_grid m = {.n_ranks = g->n_ranks,
                        .n_stages = g->n_stages,
                        .n_micro_batches = g->n_micro_batches,
                        .layout = g->layout};
    int32_t n = 0;

    m.first = lw_arena_alloc(&m.arena, (int64_t)g->n_ranks + 1, sizeof *m.first);
    m.actions = lw_arena_alloc(&m.arena, g->first[g->n_ranks], sizeof *m.actions);
    bool memory = m.first && m.actions;
    if (memory && g->rank_of_stage) {
        m.rank_of_stage = lw_arena_alloc(&m.arena, g->n_stages, sizeof *m.rank_of_stage);
        memory = m.rank_of_stage != NULL;
        if (memory)
            memcpy(m.rank_of_stage, g->rank_of_stage,
                   (size_t)g->n_stages * sizeof *m.rank_of_stage);
    }
    if (!memory) {
        lw_grid_free(&m);
        return lw_fail_nomem(err);
    }
    for (int32_t r = 0; r < g->n_ranks; r++) {
        for (int32_t i = g->first[r]; i < g->first[r + 1]; i++) {
            const struct lw_action *a = &g->actions[i], *b = a + 1;
            bool pair = i + 1 < g->first[r + 1] && a->kind == LW_OP_BACKWARD_INPUT &&
                        b->kind == LW_OP_BACKWARD_WEIGHT && a->stage == b->stage &&
                        a->micro_batch == b->micro_batch;
            m.actions[n] = *a;
            if (pair)
                m.actions[n].kind = LW_OP_BACKWARD;
            n++;
            i += pair;
        }
        m.first[r + 1] = n;
    }
    *out = m;
    return LW_OK;
}

/* --- lists that grow -------------------------------------------------------------------------- */

struct list {
    struct lw_lowered_step *at;
    int32_t n;
};

struct lists {
    struct lw_arena room; /* of the lists, and of what they are made with */
    struct list *rank;    /* [n_ranks] */
    int32_t n_ranks;
    bool failed;
};

static struct lists lists_of(int32_t n_ranks)
{
    struct lists l = {.n_ranks = n_ranks};

    l.rank = lw_arena_alloc(&l.room, n_ranks, sizeof *l.rank);
    l.failed = !l.rank;
    return l;
}

static void append(struct lists *l, int32_t rank, struct lw_lowered_step step)
{
    struct list *x = l->failed ? NULL : &l->rank[rank];

    if (x)
        x->at = lw_arena_more(&l->room, x->at, x->n, sizeof *x->at);
    l->failed = !x || !x->at;
    if (!l->failed)
        x->at[x->n++] = step;
}

static struct lw_lowered_step step_of(const struct lw_action *a)
{
    return (struct lw_lowered_step){(enum lw_lowered_kind)(LW_STEP_F + (a->kind - LW_OP_FORWARD)),
                                    a->stage, a->micro_batch, a->with_next};
}

static enum lw_status join(const struct lists *l, struct lw_lowered *s, struct lw_err *err)
{
    if (l->failed)
        return lw_fail_nomem(err);
    LW_TAKE(&s->arena, s->first, l->n_ranks + 1L, err);
    for (int32_t r = 0; r < l->n_ranks; r++)
        s->first[r + 1] = s->first[r] + l->rank[r].n;
    LW_TAKE(&s->arena, s->steps, s->first[l->n_ranks], err);
    for (int32_t r = 0; r < l->n_ranks; r++)
        if (l->rank[r].n > 0)
            memcpy(s->steps + s->first[r], l->rank[r].at, (size_t)l->rank[r].n * sizeof *s->steps);
    return LW_OK;
}

/* The lists become one result, unless `status` or a list failed; they are freed in every case. */
static enum lw_status settle(struct lists *l, enum lw_status status, struct lw_lowered *out,
                             struct lw_err *err)
{
    struct lw_lowered s = {.n_ranks = l->n_ranks};

    if (status == LW_OK)
        status = join(l, &s, err);
    lw_arena_free(&l->room);
    LW_GIVE(status, out, s, lw_lowered_free(&s));
}

enum lw_status lw_lower_plain(const struct lw_grid *g, struct lw_lowered *out, struct lw_err *err)
{
    struct lists l = lists_of(g->n_ranks);

    for (int32_t r = 0; r < g->n_ranks; r++)
        for (int32_t i = g->first[r]; i < g->first[r + 1]; i++)
            append(&l, r, step_of(&g->actions[i]));
    return settle(&l, LW_OK, out, err);
}

/* --- messages --------------------------------------------------------------------------------- */

enum {
    HAS_INPUT = 1,
    HAS_GRADIENT = 2
}; /* what a (stage, micro-batch) has got from its neighbours */

struct exchange {
    const struct lw_grid *g;
    struct lists l;
    unsigned char *got; /* [n_stages n_micro_batches] */
    int32_t *at;        /* [n_ranks] next action */
};

static unsigned char *got(const struct exchange *x, int32_t stage, int32_t mb)
{
    return &x->got[(int64_t)stage * x->g->n_micro_batches + mb];
}

static bool ready(const struct exchange *x, const struct lw_action *a)
{
    if (a->kind == LW_OP_FORWARD)
        return a->stage == 0 || *got(x, a->stage, a->micro_batch) & HAS_INPUT;
    if (a->kind == LW_OP_BACKWARD_WEIGHT)
        return true;
    return a->stage == x->g->n_stages - 1 || *got(x, a->stage, a->micro_batch) & HAS_GRADIENT;
}

/* What the action made goes to its neighbour; between ranks as a message. */
static void pass_on(struct exchange *x, int32_t rank, const struct lw_action *a)
{
    bool on = a->kind == LW_OP_FORWARD;
    int32_t to = on ? a->stage + 1 : a->stage - 1;

    if (a->kind == LW_OP_BACKWARD_WEIGHT || to < 0 || to == x->g->n_stages)
        return;
    int32_t peer = lw_grid_rank_of(x->g, to, a->micro_batch);
    *got(x, to, a->micro_batch) |= on ? HAS_INPUT : HAS_GRADIENT;
    if (peer == rank)
        return;
    append(&x->l, rank,
           (struct lw_lowered_step){on ? LW_STEP_SEND_F : LW_STEP_SEND_B, a->stage, a->micro_batch,
                                    false});
    append(
        &x->l, peer,
        (struct lw_lowered_step){on ? LW_STEP_RECV_F : LW_STEP_RECV_B, to, a->micro_batch, false});
}

/* One action, or one unit of two. */
static bool take_turn(struct exchange *x, int32_t rank)
{
    const struct lw_action *a = &x->g->actions[x->at[rank]];
    int32_t n = a->with_next && x->at[rank] + 1 < x->g->first[rank + 1] ? 2 : 1;

    for (int32_t k = 0; k < n; k++)
        if (!ready(x, &a[k]))
            return false;
    for (int32_t k = 0; k < n; k++)
        append(&x->l, rank, step_of(&a[k]));
    for (int32_t k = 0; k < n; k++)
        pass_on(x, rank, &a[k]);
    x->at[rank] += n;
    return true;
}

static enum lw_status exchange_all(struct exchange *x, struct lw_err *err)
{
    const struct lw_grid *g = x->g;
    bool moved = true, left = true;

    LW_TAKE(&x->l.room, x->got, (int64_t)g->n_stages * g->n_micro_batches, err);
    LW_TAKE(&x->l.room, x->at, g->n_ranks, err);
    for (int32_t r = 0; r < g->n_ranks; r++)
        x->at[r] = g->first[r];
    while (moved && left) {
        moved = left = false;
        for (int32_t r = 0; r < g->n_ranks; r++) {
            if (x->at[r] < g->first[r + 1])
                moved = take_turn(x, r) || moved;
            left = left || x->at[r] < g->first[r + 1];
        }
    }
    for (int32_t r = 0; r < g->n_ranks && left; r++) {
        const struct lw_action *a = &g->actions[x->at[r]];
        if (x->at[r] < g->first[r + 1])
            return lw_fail(err, LW_EPLAN,
                           "rank %d: action %d%c%d waits for a message that is never "
                           "sent",
                           r, a->stage, lw_action_letter(a->kind), a->micro_batch);
    }
    return LW_OK;
}

enum lw_status lw_lower_messages(const struct lw_grid *g, struct lw_lowered *out,
                                 struct lw_err *err)
{
    struct exchange x = {.g = g, .l = lists_of(g->n_ranks)};

    return settle(&x.l, exchange_all(&x, err), out, err);
}

/* --- sharded stages --------------------------------------------------------------------------- */

struct keeper {
    const struct lw_grid *g;
    struct lists l;
    bool *held;            /* [n_stages] gathered now */
    bool *soon;            /* [n_stages] among the next */
    int32_t *next, n_next; /* [n_stages] the next distinct stages, in order of use */
    int32_t n_active;
};

/* The next n_active distinct stages from action i on; a unit is taken whole. */
static void look_ahead(struct keeper *k, int32_t i, int32_t end)
{
    memset(k->soon, 0, (size_t)k->g->n_stages * sizeof *k->soon);
    k->n_next = 0;
    for (bool whole = true; i < end && (k->n_next < k->n_active || !whole); i++) {
        const struct lw_action *a = &k->g->actions[i];
        if (!k->soon[a->stage]) {
            k->soon[a->stage] = true;
            k->next[k->n_next++] = a->stage;
        }
        whole = !a->with_next;
    }
}

static void keep_rank(struct keeper *k, int32_t rank)
{
    const struct lw_grid *g = k->g;

    memset(k->held, 0, (size_t)g->n_stages * sizeof *k->held);
    for (int32_t i = g->first[rank]; i <= g->first[rank + 1]; i++) {
        bool inside = i > g->first[rank] && g->actions[i - 1].with_next;
        if (!inside) {
            look_ahead(k, i, g->first[rank + 1]);
            for (int32_t s = 0; s < g->n_stages; s++) {
                if (k->held[s] && !k->soon[s])
                    append(&k->l, rank, (struct lw_lowered_step){LW_STEP_RESHARD, s, -1, false});
                k->held[s] = k->held[s] && k->soon[s];
            }
            for (int32_t n = 0; n < k->n_next; n++) {
                if (!k->held[k->next[n]])
                    append(&k->l, rank,
                           (struct lw_lowered_step){LW_STEP_UNSHARD, k->next[n], -1, false});
                k->held[k->next[n]] = true;
            }
        }
        if (i < g->first[rank + 1])
            append(&k->l, rank, step_of(&g->actions[i]));
    }
}

static enum lw_status keep_all(struct keeper *k, struct lw_err *err)
{
    const struct lw_grid *g = k->g;

    if (k->n_active < 1)
        return lw_fail(err, LW_EINVAL, "a rank must hold at least 1 gathered stage, got %d",
                       k->n_active);
    LW_TAKE(&k->l.room, k->held, g->n_stages, err);
    LW_TAKE(&k->l.room, k->soon, g->n_stages, err);
    LW_TAKE(&k->l.room, k->next, g->n_stages, err);
    for (int32_t r = 0; r < g->n_ranks; r++)
        keep_rank(k, r);
    return LW_OK;
}

enum lw_status lw_lower_shards(const struct lw_grid *g, int32_t n_active, struct lw_lowered *out,
                               struct lw_err *err)
{
    struct keeper k = {.g = g, .l = lists_of(g->n_ranks), .n_active = n_active};

    return settle(&k.l, keep_all(&k, err), out, err);
}

/* --- text ------------------------------------------------------------------------------------- */

static const char *const names_of[][LW_N_STEP_KINDS] = {
    [LW_IR_NAMES] = {"F", "B", "I", "W", "SEND_F", "RECV_F", "SEND_B", "RECV_B", "UNSHARD",
                     "RESHARD"},
    [LW_IR_OLD_NAMES] = {"F", "BW", "B", "W", "SEND_F", "RECV_F", "SEND_B", "RECV_B", "UNSHARD",
                         "RESHARD"},
};

static int put_step(const struct lw_lowered_step *s, enum lw_ir_names names, char *buf, size_t room)
{
    if (s->micro_batch < 0)
        return snprintf(buf, room, "%d%s", s->stage, names_of[names][s->kind]);
    return snprintf(buf, room, "%d%s%d", s->stage, names_of[names][s->kind], s->micro_batch);
}

int32_t lw_lowered_cell(const struct lw_lowered *s, int32_t i, enum lw_ir_names names, char *buf,
                        size_t room)
{
    char a[32], b[32];

    if (!s->steps[i].with_next) {
        put_step(&s->steps[i], names, buf, room);
        return 1;
    }
    put_step(&s->steps[i], names, a, sizeof a);
    put_step(&s->steps[i + 1], names, b, sizeof b);
    snprintf(buf, room, "(%s;%s)OVERLAP_F_B", a, b);
    return 2;
}

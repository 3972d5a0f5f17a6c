/* Pipeline schedules: the table of schedulers, the grids they make, and whether a grid can run.
 * Each scheduler is a constant of its file: schedule_1f1b.c, schedule_zb.c, schedule_dualpipe.c;
 * those that search for an order in schedule_zb_auto.c, schedule_zbv_auto.c and
 * schedule_v_greedy.c.
 *
 * Not here: times (grid_time.c and the simulator), messages (schedule_torch_ir.c), ColossalAI's
 * combined calls (schedule_colossal.c). */
#include "shared/schedule/schedule.h"

#include <stdlib.h>
#include <string.h>

#include "shared/schedule/schedule_emit.h"

static const struct lw_scheduler *const schedulers[] = {
#define ROW(id, symbol, word, help) [LW_SCHEDULE_##id] = &lw_scheduler_##symbol,
    LW_SCHEDULES(ROW)
#undef ROW
};

/* A user's grid is read from a file: lw_grid_custom. */
const struct lw_scheduler lw_scheduler_custom = {0};

enum lw_status lw_schedule_refuse(const struct lw_schedule_shape *s, struct lw_err *err,
                                  const char *why)
{
    return lw_fail(err, LW_EINVAL,
                   "--schedule %s with --pp %d, --micro-batches %d, --chunks %d: %s",
                   lw_schedule_name(s->schedule), s->n_ranks, s->n_micro_batches, s->n_chunks, why);
}

LW_FREE_BY_ARENA(lw_grid_free, struct lw_grid)

char lw_action_letter(enum lw_op_kind kind)
{
    return lw_op_letter(kind)[0];
}

void lw_emit(struct lw_emit *e, enum lw_op_kind kind, int32_t stage, int32_t micro_batch)
{
    if (e->failed || micro_batch >= e->skip_from)
        return;
    if (lw_reserve(&e->actions, &e->capacity, e->n + 1, sizeof *e->actions) != 0) {
        e->failed = true;
        return;
    }
    e->actions[e->n++] = (struct lw_action){kind, stage, micro_batch, false};
}

void lw_emit_pair(struct lw_emit *e, int32_t f_stage, int32_t f_mb, int32_t b_stage, int32_t b_mb)
{
    int64_t before = e->n;

    lw_emit(e, LW_OP_FORWARD, f_stage, f_mb);
    lw_emit(e, LW_OP_BACKWARD, b_stage, b_mb);
    if (!e->failed && e->n == before + 2)
        e->actions[before].with_next = true;
}

/* The grid takes over what was emitted. */
static enum lw_status settle(struct lw_emit *e, struct lw_grid *g, struct lw_err *err)
{
    if (!e->failed && lw_arena_adopt(&g->arena, e->actions) == 0) {
        g->actions = e->actions;
        return LW_OK;
    }
    lw_free(e->actions);
    return lw_fail_nomem(err);
}

/* A rule that goes rank by rank. */
static enum lw_status make_ranks(const struct lw_schedule_shape *s, lw_schedule_rule *rule,
                                 struct lw_grid *g, struct lw_err *err)
{
    struct lw_emit e = {.skip_from = s->n_micro_batches};

    LW_TAKE(&g->arena, g->first, g->n_ranks + 1L, err);
    for (int32_t r = 0; r < s->n_ranks; r++) {
        rule(&e, s, r);
        g->first[r + 1] = (int32_t)e.n;
    }
    return settle(&e, g, err);
}

/* A rule that searches: F, I and W of every stage, on every rank the same number. */
static enum lw_status make_all(const struct lw_schedule_shape *s, lw_schedule_search *search,
                               struct lw_grid *g, struct lw_err *err)
{
    int32_t n = 3 * s->n_micro_batches * s->n_chunks;

    LW_TAKE(&g->arena, g->first, (int64_t)g->n_ranks + 1, err);
    LW_TAKE(&g->arena, g->actions, (int64_t)g->n_ranks * n, err);
    for (int32_t r = 0; r < g->n_ranks; r++)
        g->first[r + 1] = g->first[r] + n;
    struct lw_arena room = {0};
    enum lw_status status = search(s, g->actions, &room, err);
    lw_arena_free(&room);
    return status;
}

/* Sizes that are positive, and few enough actions for indices of 32 bits. */
static enum lw_status sizes(const struct lw_schedule_shape *s, struct lw_err *err)
{
    if (s->n_ranks < 1 || s->n_micro_batches < 1 || s->n_chunks < 1)
        return lw_schedule_refuse(s, err, "all must be at least 1");
    if (s->n_ranks > 1 << 15 || s->n_chunks > 1 << 10 || s->n_micro_batches > 1 << 24 ||
        (int64_t)s->n_ranks * s->n_chunks > INT16_MAX ||
        (int64_t)s->n_ranks * s->n_chunks * s->n_micro_batches > INT32_MAX / 16)
        return lw_schedule_refuse(s, err, "these are more actions than a grid holds");
    return LW_OK;
}

int32_t lw_schedule_chunks(enum lw_schedule schedule)
{
    return schedulers[schedule]->chunks;
}

enum lw_schedule_pairs lw_schedule_pairs_of(enum lw_schedule schedule)
{
    return schedulers[schedule]->pairs;
}

bool lw_schedule_combines_calls(enum lw_schedule schedule)
{
    return schedulers[schedule]->combined_calls;
}

bool lw_schedule_takes_group(enum lw_schedule schedule)
{
    return schedulers[schedule]->takes_group;
}

enum lw_status lw_schedule_demand(const struct lw_schedule_shape *s, struct lw_err *err)
{
    const struct lw_scheduler *own = schedulers[s->schedule];

    if (!own->rank && !own->all)
        return lw_fail(err, LW_ENOTSUP, "--schedule %s: this build has no rule for it",
                       lw_schedule_name(s->schedule));
    LW_TRY(sizes(s, err));
    if (own->chunks && s->n_chunks != own->chunks)
        return lw_schedule_refuse(s, err, own->chunks == 1 ? "it takes --chunks 1"
                                                           : "it takes --chunks 2");
    return own->demand ? own->demand(s, err) : LW_OK;
}

/* All micro-batches at once. */
static enum lw_status make_run(const struct lw_schedule_shape *s, struct lw_grid *out,
                               struct lw_err *err)
{
    const struct lw_scheduler *own = schedulers[s->schedule];

    LW_TRY(lw_schedule_demand(s, err));
    struct lw_grid g = {
        .n_ranks = s->n_ranks, .n_micro_batches = s->n_micro_batches, .layout = own->layout};
    g.n_stages = own->layout == LW_LAYOUT_BIDIR ? s->n_ranks : s->n_ranks * s->n_chunks;
    enum lw_status status =
        own->rank ? make_ranks(s, own->rank, &g, err) : make_all(s, own->all, &g, err);
    LW_GIVE(status, out, g, lw_grid_free(&g));
}

static enum lw_status demand_runs(const struct lw_schedule_shape *s, struct lw_err *err)
{
    const struct lw_scheduler *own = schedulers[s->schedule];

    LW_TRY(sizes(s, err));
    if (s->drain_every < 0 || s->n_micro_batches % s->drain_every != 0)
        return lw_schedule_refuse(s, err, "--drain-every must divide the micro-batches");
    if (own->layout == LW_LAYOUT_BIDIR || own->combined_calls)
        return lw_schedule_refuse(s, err, "it takes no --drain-every");
    return LW_OK;
}

/* One run after the other on every rank: run n is the first with n * drain_every added to its
 * micro-batches. */
static enum lw_status repeat_run(const struct lw_grid *one, int32_t runs, struct lw_grid *g,
                                 struct lw_err *err)
{
    *g = (struct lw_grid){.n_ranks = one->n_ranks, .n_stages = one->n_stages,
                          .n_micro_batches = one->n_micro_batches * runs, .layout = one->layout};
    LW_TAKE(&g->arena, g->first, g->n_ranks + 1L, err);
    LW_TAKE(&g->arena, g->actions, (int64_t)one->first[one->n_ranks] * runs, err);
    for (int32_t r = 0; r < one->n_ranks; r++) {
        int32_t n = one->first[r + 1] - one->first[r], to = g->first[r];
        for (int32_t i = 0; i < n * runs; i++) {
            g->actions[to + i] = one->actions[one->first[r] + i % n];
            g->actions[to + i].micro_batch += i / n * one->n_micro_batches;
        }
        g->first[r + 1] = to + n * runs;
    }
    return LW_OK;
}

enum lw_status lw_schedule_grid(const struct lw_schedule_shape *s, struct lw_grid *out,
                                struct lw_err *err)
{
    struct lw_schedule_shape run = *s;
    struct lw_grid one, g;

    if (s->drain_every == 0)
        return make_run(s, out, err);
    LW_TRY(demand_runs(s, err));
    run.n_micro_batches = s->drain_every;
    LW_TRY(make_run(&run, &one, err));
    enum lw_status status = repeat_run(&one, s->n_micro_batches / s->drain_every, &g, err);
    lw_grid_free(&one);
    LW_GIVE(status, out, g, lw_grid_free(&g));
}

int32_t lw_grid_rank_of(const struct lw_grid *g, int32_t stage, int32_t micro_batch)
{
    switch (g->layout) {
    case LW_LAYOUT_LOOP:
        return stage < g->n_ranks ? stage : stage % g->n_ranks; /* without a division for most */
    case LW_LAYOUT_V:
        return stage < g->n_ranks ? stage : 2 * g->n_ranks - 1 - stage;
    case LW_LAYOUT_BIDIR:
        return micro_batch < g->n_micro_batches / 2 ? stage : g->n_ranks - 1 - stage;
    case LW_LAYOUT_FREE:
        return g->rank_of_stage[stage];
    }
    return -1;
}

/* --- text ------------------------------------------------------------------------------------- */

struct reader {
    const char *name, *at;
    int32_t line, cell;
    struct lw_emit emit;
    int32_t max_stage, max_mb;
    struct lw_err *err;
};

static enum lw_status bad_cell(const struct reader *in, const char *cell, size_t n)
{
    return lw_fail_at(in->err, LW_EFORMAT, in->name, in->line,
                      "cell %d: unknown action '%.*s'; expected one like 0F3, 2I0, 2W0, 1B4 or "
                      "(0F3;3B5)OVERLAP_F_B",
                      in->cell, (int)n, cell);
}

/* "<stage><letter><micro-batch>" in [p, end). */
static bool read_action(const char *p, const char *end, enum lw_op_kind *kind, int32_t *stage,
                        int32_t *mb)
{
    static const char letters[] = "FBIW";
    char *after;

    if (p == end || *p < '0' || *p > '9')
        return false;
    long s = strtol(p, &after, 10);
    const char *letter = after < end ? strchr(letters, *after) : NULL;
    if (!letter || !*letter || s > INT16_MAX || after + 1 == end || after[1] < '0' ||
        after[1] > '9')
        return false;
    long m = strtol(after + 1, &after, 10);
    if (after != end || m > 1 << 24)
        return false;
    *kind = (enum lw_op_kind)(LW_OP_FORWARD + (letter - letters));
    *stage = (int32_t)s;
    *mb = (int32_t)m;
    return true;
}

static enum lw_status take(struct reader *in, const char *p, const char *end)
{
    enum lw_op_kind kind;
    int32_t stage, mb;

    if (!read_action(p, end, &kind, &stage, &mb))
        return bad_cell(in, p, (size_t)(end - p));
    in->max_stage = stage > in->max_stage ? stage : in->max_stage;
    in->max_mb = mb > in->max_mb ? mb : in->max_mb;
    lw_emit(&in->emit, kind, stage, mb);
    return LW_OK;
}

static enum lw_status take_cell(struct reader *in, const char *p, const char *end)
{
    static const char unit[] = ")OVERLAP_F_B";
    size_t n = (size_t)(end - p), tail = sizeof unit - 1;

    while (n && (*p == ' ' || *p == '\t'))
        p++, n--;
    while (n && (p[n - 1] == ' ' || p[n - 1] == '\t' || p[n - 1] == '\r'))
        n--;
    if (n == 0)
        return LW_OK;
    if (*p != '(')
        return take(in, p, p + n);
    const char *semi = memchr(p, ';', n);
    if (!semi || n <= tail || memcmp(p + n - tail, unit, tail) != 0)
        return bad_cell(in, p, n);
    int64_t before = in->emit.n;
    LW_TRY(take(in, p + 1, semi));
    LW_TRY(take(in, semi + 1, p + n - tail));
    if (!in->emit.failed)
        in->emit.actions[before].with_next = true;
    return LW_OK;
}

static enum lw_status take_line(struct reader *in, const char *p, const char *end)
{
    in->line++;
    in->cell = 0;
    for (;;) {
        const char *comma = memchr(p, ',', (size_t)(end - p));
        in->cell++;
        LW_TRY(take_cell(in, p, comma ? comma : end));
        if (!comma)
            return LW_OK;
        p = comma + 1;
    }
}

/* A stage lives on the first rank that names it; one that none names, on no rank. */
static enum lw_status place_stages(struct lw_grid *g, struct lw_err *err)
{
    if (g->layout != LW_LAYOUT_FREE)
        return LW_OK;
    LW_TAKE(&g->arena, g->rank_of_stage, g->n_stages, err);
    for (int32_t s = 0; s < g->n_stages; s++)
        g->rank_of_stage[s] = -1;
    for (int32_t r = 0; r < g->n_ranks; r++)
        for (int32_t i = g->first[r]; i < g->first[r + 1]; i++)
            if (g->rank_of_stage[g->actions[i].stage] < 0)
                g->rank_of_stage[g->actions[i].stage] = r;
    return LW_OK;
}

/* Lines to ranks: fills the grid but for its stages' places. */
static enum lw_status read_lines(struct reader *in, const char *text, struct lw_grid *g,
                                 struct lw_err *err)
{
    for (bool more = true; more;) {
        const char *end = text + strcspn(text, "\n");
        g->first = lw_arena_more(&g->arena, g->first, g->n_ranks, sizeof *g->first);
        if (!g->first)
            return lw_fail_nomem(err);
        g->first[g->n_ranks] = (int32_t)in->emit.n;
        more = *text != '\0';
        if (more) {
            LW_TRY(take_line(in, text, end));
            g->n_ranks++;
        }
        text = *end ? end + 1 : end;
    }
    g->n_stages = in->max_stage + 1;
    g->n_micro_batches = in->max_mb + 1;
    return in->emit.n > 0 ? LW_OK : lw_fail(err, LW_EFORMAT, "%s: holds no action", in->name);
}

enum lw_status lw_grid_parse(const char *name, const char *text, enum lw_layout layout,
                             struct lw_grid *out, struct lw_err *err)
{
    struct reader in = {
        .name = name, .emit = {.skip_from = INT32_MAX}, .err = err, .max_stage = -1, .max_mb = -1};
    struct lw_grid g = {.layout = layout};
    enum lw_status s = read_lines(&in, text, &g, err);

    if (s != LW_OK)
        lw_free(in.emit.actions);
    else if ((s = settle(&in.emit, &g, err)) == LW_OK)
        s = place_stages(&g, err);
    LW_GIVE(s, out, g, lw_grid_free(&g));
}

/* --- check ------------------------------------------------------------------------------------ */

enum { DONE_F = 1, DONE_I = 2, DONE_W = 4 };

struct run {
    const struct lw_grid *g;
    unsigned char *done; /* [n_stages * n_micro_batches] */
    int32_t *at;         /* [n_ranks]: next action */
};

static unsigned char *cell_of(const struct run *r, int32_t stage, int32_t mb)
{
    return &r->done[(int64_t)stage * r->g->n_micro_batches + mb];
}

/* What the action needs from others is done; what it does itself is not. */
static bool may_run(const struct run *r, const struct lw_action *a)
{
    unsigned char own = *cell_of(r, a->stage, a->micro_batch);

    if (a->kind == LW_OP_FORWARD)
        return !(own & DONE_F) &&
               (a->stage == 0 || *cell_of(r, a->stage - 1, a->micro_batch) & DONE_F);
    if (a->kind == LW_OP_BACKWARD_WEIGHT)
        return (own & DONE_I) && !(own & DONE_W);
    return (own & DONE_F) && !(own & DONE_I) &&
           (a->stage == r->g->n_stages - 1 || *cell_of(r, a->stage + 1, a->micro_batch) & DONE_I);
}

static void mark(const struct run *r, const struct lw_action *a)
{
    *cell_of(r, a->stage, a->micro_batch) |= a->kind == LW_OP_FORWARD          ? DONE_F
                                             : a->kind == LW_OP_BACKWARD       ? DONE_I | DONE_W
                                             : a->kind == LW_OP_BACKWARD_INPUT ? DONE_I
                                                                               : DONE_W;
}

static enum lw_status action_fault(const struct lw_action *a, int32_t rank, struct lw_err *err,
                                   const char *what)
{
    return lw_fail(err, LW_EPLAN, "rank %d: action %d%c%d %s", rank, a->stage,
                   lw_action_letter(a->kind), a->micro_batch, what);
}

/* Let every rank go as far as it can until none moves. */
static enum lw_status run_all(const struct lw_grid *g, struct lw_arena *room, struct lw_err *err)
{
    struct run run = {.g = g}, *r = &run;

    LW_TAKE(room, r->done, (int64_t)g->n_stages * g->n_micro_batches, err);
    LW_TAKE(room, r->at, g->n_ranks, err);
    memcpy(r->at, g->first, (size_t)g->n_ranks * sizeof *r->at);
    for (bool moved = true; moved;) {
        moved = false;
        for (int32_t rank = 0; rank < g->n_ranks; rank++) {
            while (r->at[rank] < g->first[rank + 1] && may_run(r, &g->actions[r->at[rank]])) {
                mark(r, &g->actions[r->at[rank]++]);
                moved = true;
            }
        }
    }
    for (int32_t rank = 0; rank < g->n_ranks; rank++)
        if (r->at[rank] < g->first[rank + 1])
            return action_fault(&g->actions[r->at[rank]], rank, err,
                                "can never run: what it needs is not done before it, or it was "
                                "already done");
    for (int32_t s = 0; s < g->n_stages; s++)
        for (int32_t m = 0; m < g->n_micro_batches; m++)
            if (*cell_of(r, s, m) != (DONE_F | DONE_I | DONE_W))
                return lw_fail(err, LW_EPLAN, "stage %d never finishes micro-batch %d", s, m);
    return LW_OK;
}

enum lw_status lw_grid_check(const struct lw_grid *g, struct lw_err *err)
{
    if ((int64_t)g->n_stages * g->n_micro_batches > g->first[g->n_ranks])
        return lw_fail(err, LW_EPLAN, "%d actions are too few for %d stages and %d micro-batches",
                       g->first[g->n_ranks], g->n_stages, g->n_micro_batches);
    for (int32_t rank = 0; rank < g->n_ranks; rank++) {
        for (int32_t i = g->first[rank]; i < g->first[rank + 1]; i++) {
            const struct lw_action *a = &g->actions[i];
            if (a->stage < 0 || a->stage >= g->n_stages || a->micro_batch < 0 ||
                a->micro_batch >= g->n_micro_batches)
                return action_fault(a, rank, err, "is outside the grid");
            if (lw_grid_rank_of(g, a->stage, a->micro_batch) != rank)
                return action_fault(a, rank, err, "belongs to another rank");
        }
    }
    struct lw_arena room = {0};
    enum lw_status s = run_all(g, &room, err);
    lw_arena_free(&room);
    return s;
}

enum lw_status lw_grid_custom(const char *name, const char *text, struct lw_grid *out,
                              struct lw_err *err)
{
    static const enum lw_layout layouts[] = {LW_LAYOUT_FREE, LW_LAYOUT_BIDIR};
    enum lw_status first = LW_OK;

    for (int k = 0; k < 2; k++) {
        struct lw_grid g = {0};
        struct lw_err why = {0};
        LW_TRY(lw_grid_parse(name, text, layouts[k], &g, err));
        enum lw_status status = lw_grid_check(&g, &why);
        if (status == LW_OK) {
            *out = g;
            return LW_OK;
        }
        lw_grid_free(&g);
        if (status != LW_EPLAN)
            return lw_fail(err, status, "%s", why.msg);
        if (k == 0)
            first = lw_fail(err, status, "%s: %s", name, why.msg);
    }
    return first;
}

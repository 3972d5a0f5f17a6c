/* Recorded pipeline schedules that are rows or lines: ColossalAI's events (kinds "schedule_1f1b"
 * and "schedule_interleaved"), the manifest of the schedule tables, Megatron-LM's warm-up and
 * order. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/golden/golden_case.h"
#include "shared/golden/golden_schedule.h"
#include "shared/base/sort.h"
#include "shared/lower/lower_grid.h"
#include "shared/schedule/schedule_colossal.h"
#include "shared/schedule/schedule_emit.h"
#include "shared/timeline/timeline.h"
#include "shared/numbers/order.h"

enum { MOST_RANKS = 1 << 12, MOST_MICRO_BATCHES = 1 << 16, MOST_CHUNKS = 1 << 8 };

/* --- ColossalAI ------------------------------------------------------------------------------- */

static enum lw_status expect_events(struct lw_golden_case *c, const struct lw_colossal_order *o,
                                    bool interleaved, struct lw_err *err)
{
    struct lw_text t = {0};
    char token[32];

    lw_text_open(&t);
    for (int32_t r = 0; r < o->n_ranks; r++) {
        lw_text_item(&t, "\"");
        for (int32_t i = o->first[r]; i < o->first[r + 1]; i++) {
            lw_colossal_token(&o->events[i], interleaved, token);
            lw_text_add(&t, "%s%s", i > o->first[r] ? " " : "", token);
        }
        lw_text_add(&t, "\"");
    }
    lw_text_close(&t);
    return lw_golden_expect(c, "events", &t, err);
}

static enum lw_status check_colossal(struct lw_golden_case *c, struct lw_schedule_shape *s,
                                     struct lw_err *err)
{
    bool interleaved = s->schedule == LW_SCHEDULE_COLOSSAL_INTERLEAVED, forward_only;
    struct lw_colossal_order o;

    LW_TRY(lw_golden_int32(c, "stages", 1, MOST_RANKS, &s->n_ranks, err));
    LW_TRY(lw_golden_int32(c, "microbatches", 1, MOST_MICRO_BATCHES, &s->n_micro_batches, err));
    if (interleaved)
        LW_TRY(lw_golden_int32(c, "chunks", 1, MOST_CHUNKS, &s->n_chunks, err));
    LW_TRY(lw_golden_bool(c, "forward_only", &forward_only, err));
    enum lw_status status = lw_colossal_order(s, forward_only, &o, err);
    if (status == LW_EINVAL) { /* its one refusal here is the reference's assertion */
        struct lw_text none = {0};
        lw_text_add(&none, "[]");
        LW_TRY(lw_golden_expect(c, "events", &none, err));
        return lw_golden_expect_error(c, "AssertionError", "", err);
    }
    LW_TRY(status);
    status = lw_golden_expect_error(c, NULL, "", err);
    if (status == LW_OK)
        status = expect_events(c, &o, interleaved, err);
    lw_colossal_free(&o);
    return status;
}

enum lw_status lw_golden_schedule_1f1b(struct lw_golden_case *c, struct lw_err *err)
{
    struct lw_schedule_shape s = {.schedule = LW_SCHEDULE_COLOSSAL_1F1B, .n_chunks = 1};

    return check_colossal(c, &s, err);
}

enum lw_status lw_golden_schedule_interleaved(struct lw_golden_case *c, struct lw_err *err)
{
    struct lw_schedule_shape s = {.schedule = LW_SCHEDULE_COLOSSAL_INTERLEAVED};

    return check_colossal(c, &s, err);
}

/* --- the manifest ----------------------------------------------------------------------------- */

static enum lw_status expect_list(struct lw_golden_case *c, const char *title, const int32_t *v,
                                  int32_t n, struct lw_err *err)
{
    struct lw_text t = {0};

    for (int32_t i = 0; i < n; i++)
        lw_text_add(&t, "%s%d", i ? ";" : "", v[i]);
    return lw_golden_expect(c, title, &t, err);
}

static const char *layout_name(enum lw_layout layout)
{
    return layout == LW_LAYOUT_LOOP ? "loop" : layout == LW_LAYOUT_V ? "v" : "bidir";
}

/* What the engine shows of a grid's plan: forwards add to what a rank keeps, backwards give it
 * back, in the order in which they start. */
struct shown {
    int64_t makespan, longest_rank;
    int32_t *to_input, *to_weight; /* [n_ranks] most at once */
};

struct event {
    int64_t start, end;
    int32_t op;
};

LW_COMPARATOR(by_start, struct event, a->start, b->start, a->op, b->op)

static void watch_rank(const struct lw_plan *p, struct event *e, int64_t n, int32_t rank,
                       struct shown *out)
{
    int32_t to_input = 0, to_weight = 0;
    int64_t end = 0;

    lw_sort(e, n, by_start);
    for (int64_t i = 0; i < n; i++) {
        enum lw_op_kind kind = lw_op_at(p, e[i].op).kind;
        to_input += kind == LW_OP_FORWARD ? 1 : kind != LW_OP_BACKWARD_WEIGHT ? -1 : 0;
        to_weight += kind == LW_OP_FORWARD ? 1 : kind != LW_OP_BACKWARD_INPUT ? -1 : 0;
        if (to_input > out->to_input[rank])
            out->to_input[rank] = to_input;
        if (to_weight > out->to_weight[rank])
            out->to_weight[rank] = to_weight;
        end = e[i].end > end ? e[i].end : end;
    }
    out->makespan = end > out->makespan ? end : out->makespan;
    if (n > 0 && end - e[0].start > out->longest_rank)
        out->longest_rank = end - e[0].start;
}

static enum lw_status watch(const struct lw_golden_case *c, const struct lw_plan *p,
                            const struct lw_timeline *t, struct shown *out, struct lw_err *err)
{
    struct event *events = lw_arena_alloc(c->arena, t->n, sizeof *events);

    *out = (struct shown){.to_input = lw_arena_alloc(c->arena, p->n_ranks, sizeof(int32_t)),
                          .to_weight = lw_arena_alloc(c->arena, p->n_ranks, sizeof(int32_t))};
    if (!events || !out->to_input || !out->to_weight)
        return lw_fail_nomem(err);
    for (int64_t i = 0; i < t->n;) { /* rows are sorted by rank */
        int64_t n = 0;
        int32_t rank = t->rank[i];
        for (; i < t->n && t->rank[i] == rank; i++)
            if (lw_op_class((enum lw_op_kind)t->kind[i]) == LW_CLASS_COMPUTE)
                events[n++] = (struct event){t->start[i], t->end[i], t->op[i]};
        watch_rank(p, events, n, rank, out);
    }
    return LW_OK;
}

static enum lw_status run_grid(const struct lw_golden_case *c, const struct lw_grid *g,
                               enum lw_schedule schedule, const struct lw_grid_durations *d,
                               struct shown *out, struct lw_err *err)
{
    struct lw_timeline t = {0};
    struct lw_plan p;

    if (!c->engine->run)
        return lw_fail(err, LW_ENOTSUP, "times of a grid need an engine, and none was handed in");
    LW_TRY(lw_grid_plan(g, "grid", schedule, d, &p, err));
    enum lw_status s = c->engine->run(c->engine->ctx, &p, &t, err);
    if (s == LW_OK)
        s = watch(c, &p, &t, out, err);
    lw_timeline_free(&t);
    lw_plan_free(&p);
    return s;
}

/* Times and peaks with F 1, I 1, W 1, and with F 10, I 11, W 7 and a transfer of 2. */
static enum lw_status expect_times(struct lw_golden_case *c, const struct lw_grid *g,
                                   enum lw_schedule schedule, struct lw_err *err)
{
    static const struct {
        struct lw_grid_durations durations;
        const char *makespan, *longest;
    } runs[] = {
        {{1, 1, 1, 2, 0}, "makespan_unit", "longest_rank_unit"},
        {{10, 11, 7, 18, 2}, "makespan_F10_I11_W7_C2", "longest_rank_F10_I11_W7_C2"},
    };

    for (size_t k = 0; k < sizeof runs / sizeof *runs; k++) {
        struct shown t = {0};
        LW_TRY(run_grid(c, g, schedule, &runs[k].durations, &t, err));
        LW_TRY(lw_golden_expect_number(c, runs[k].makespan, t.makespan, err));
        LW_TRY(lw_golden_expect_number(c, runs[k].longest, t.longest_rank, err));
        LW_TRY(expect_list(c, "peak_inflight_until_dgrad", t.to_input, g->n_ranks, err));
        LW_TRY(expect_list(c, "peak_inflight_until_wgrad", t.to_weight, g->n_ranks, err));
    }
    return LW_OK;
}

static enum lw_status expect_grid(struct lw_golden_case *c, const struct lw_grid *g,
                                  enum lw_schedule schedule, struct lw_err *err)
{
    int64_t cells = 0;

    for (int32_t i = 0; i < g->first[g->n_ranks]; i++)
        cells += !g->actions[i].with_next; /* a unit is one cell, counted with its second half */
    LW_TRY(lw_golden_expect_number(c, "n_stages", g->n_stages, err));
    LW_TRY(lw_golden_expect_number(c, "n_actions", cells, err));
    LW_TRY(lw_golden_expect_word(c, "layout", layout_name(g->layout), err));
    return expect_times(c, g, schedule, err);
}

enum lw_status lw_golden_manifest_row(struct lw_golden_case *c, struct lw_err *err)
{
    struct lw_schedule_shape s = {0}, of_file;
    struct lw_grid g;
    const char *name, *file;

    LW_TRY(lw_golden_cell(c, "schedule", &name, err));
    LW_TRY(lw_golden_cell(c, "file", &file, err));
    if (!lw_golden_schedule_named(name, strlen(name), &s.schedule))
        return lw_fail(err, LW_EFORMAT, "unknown schedule '%s'", name);
    LW_TRY(lw_golden_int32(c, "p", 1, MOST_RANKS, &s.n_ranks, err));
    LW_TRY(lw_golden_int32(c, "m", 1, MOST_MICRO_BATCHES, &s.n_micro_batches, err));
    LW_TRY(lw_golden_int32(c, "v", 1, MOST_CHUNKS, &s.n_chunks, err));
    if (!lw_golden_schedule_shape(file, &of_file) || of_file.schedule != s.schedule ||
        of_file.n_ranks != s.n_ranks || of_file.n_micro_batches != s.n_micro_batches ||
        of_file.n_chunks != s.n_chunks)
        return lw_fail(err, LW_ENO, "file: '%s' is not named after schedule, p, m and v of its row",
                       file);
    LW_TRY(lw_schedule_grid(&s, &g, err));
    enum lw_status status = expect_grid(c, &g, s.schedule, err);
    lw_grid_free(&g);
    return status;
}

/* --- Megatron-LM ------------------------------------------------------------------------------ */

static enum lw_status expect_order(struct lw_golden_case *c, const struct lw_schedule_shape *s,
                                   int32_t rank, const struct lw_emit *e, struct lw_err *err)
{
    struct lw_text order = {0}, table = {0};

    for (int64_t i = 0; i < e->n; i++) {
        int32_t chunk = e->actions[i].stage / s->n_ranks;
        bool forward = e->actions[i].kind == LW_OP_FORWARD;
        lw_text_add(&order, "%s%d", i ? ";" : "", forward ? chunk + 1 : -(chunk + 1));
        if (forward)
            lw_text_add(&table, "%s%d.%d", table.n ? ";" : "", e->actions[i].micro_batch, chunk);
    }
    enum lw_status status = lw_golden_expect(c, "chunk_order_pos_fwd_neg_bwd", &order, err);
    if (status == LW_OK && rank > 0) { /* one table for all ranks, recorded with the first */
        const char *cell;
        status = lw_golden_cell(c, "schedule_table_mb.chunk", &cell, err);
        if (status == LW_OK && !*cell) {
            lw_text_free(&table);
            return LW_OK;
        }
    }
    if (status != LW_OK) {
        lw_text_free(&table);
        return status;
    }
    return lw_golden_expect(c, "schedule_table_mb.chunk", &table, err);
}

enum lw_status lw_golden_megatron_row(struct lw_golden_case *c, struct lw_err *err)
{
    struct lw_schedule_shape s = {.n_chunks = 1};
    struct lw_emit e = {0};
    const char *v;
    int32_t rank;

    LW_TRY(lw_golden_int32(c, "p", 1, MOST_RANKS, &s.n_ranks, err));
    LW_TRY(lw_golden_int32(c, "rank", 0, s.n_ranks - 1, &rank, err));
    LW_TRY(lw_golden_int32(c, "m", 1, MOST_MICRO_BATCHES, &s.n_micro_batches, err));
    LW_TRY(lw_golden_int32(c, "microbatch_group_size", 1, MOST_MICRO_BATCHES, &s.group, err));
    LW_TRY(lw_golden_cell(c, "v_blank_is_none", &v, err));
    int32_t warmup = s.n_ranks - 1 - rank;
    warmup = warmup < s.n_micro_batches ? warmup : s.n_micro_batches;
    e.skip_from = s.n_micro_batches;
    if (*v) { /* the rule alone: a recorded order need not be one that can run */
        LW_TRY(lw_golden_int32(c, "v_blank_is_none", 1, MOST_CHUNKS, &s.n_chunks, err));
        warmup = lw_interleaved_warmup(&s, rank);
        lw_scheduler_interleaved_1f1b.rank(&e, &s, rank);
    } else {
        lw_scheduler_1f1b.rank(&e, &s, rank);
    }
    enum lw_status status = e.failed ? lw_fail_nomem(err)
                                     : lw_golden_expect_number(c, "warmup", warmup, err);
    if (status == LW_OK)
        status = expect_order(c, &s, rank, &e, err);
    lw_free(e.actions);
    return status;
}

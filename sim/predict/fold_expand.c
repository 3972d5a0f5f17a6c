/* From classes back to ranks: every rank has the rows and the measures of its class. */
#include <string.h>

#include "sim/predict/sim.h"

void lw_sim_classes_free(struct lw_sim_classes *c)
{
    lw_timeline_free(&c->rows);
    lw_arena_free(&c->arena);
    *c = (struct lw_sim_classes){0};
}

/* Rows from..to - 1 of one timeline after those of another, which has room, as `rank`'s. */
static void copy_rows(const struct lw_timeline *t, int64_t from, int64_t to, int32_t rank,
                      struct lw_timeline *out)
{
    size_t n = (size_t)(to - from);

#define COPY(column) memcpy(out->column + out->n, t->column + from, n * sizeof *t->column)
    COPY(step);
    COPY(pass);
    COPY(stream);
    COPY(comm);
    COPY(op);
    COPY(kind);
    COPY(ready);
    COPY(issue);
    COPY(start);
    COPY(all_in);
    COPY(end);
#undef COPY
    for (size_t i = 0; i < n; i++)
        out->rank[out->n + (int64_t)i] = rank;
    out->n += to - from;
}

/* Rows of the pass that begins at `from`, by class: class k has first[k] .. last[k] - 1. */
static int64_t find_pass(const struct lw_timeline *t, int32_t n_classes, int64_t from,
                         int64_t *first, int64_t *last)
{
    const struct lw_row_run of = lw_timeline_run(t, from);

    memset(first, 0, (size_t)n_classes * sizeof *first);
    memset(last, 0, (size_t)n_classes * sizeof *last);
    while (from < t->n) {
        const struct lw_row_run run = lw_timeline_run(t, from);
        if (run.step != of.step || run.pass != of.pass)
            break;
        first[run.rank] = from;
        last[run.rank] = run.to;
        from = run.to;
    }
    return from;
}

/* Rows of all ranks: a row of a class stands for as many as are alike. */
static enum lw_status count_rows(const struct lw_sim_classes *c, int64_t *n, struct lw_err *err)
{
    int64_t *alike;

    LW_NEW(alike, c->n_classes, err);
    for (int32_t r = 0, end; r < c->n_ranks; r = end) {
        end = lw_alike_end(&c->ranks, r, c->n_ranks);
        alike[lw_alike_class(&c->ranks, r)] += end - r;
    }
    *n = 0;
    for (int64_t i = 0; i < c->rows.n;) {
        const struct lw_row_run run = lw_timeline_run(&c->rows, i);
        *n += alike[run.rank] * (run.to - i);
        i = run.to;
    }
    lw_free(alike);
    return LW_OK;
}

/* rows: of the classes, in columns. */
static enum lw_status expand(const struct lw_sim_classes *c, const struct lw_timeline *rows,
                             struct lw_timeline *timeline, struct lw_err *err)
{
    struct lw_timeline out = {.comm_workers = rows->comm_workers};
    int64_t *first, *last, n;

    LW_TRY(count_rows(c, &n, err));
    LW_NEW(first, 2 * (int64_t)c->n_classes, err);
    last = first + c->n_classes;
    enum lw_status status = lw_timeline_reserve(&out, n, err);
    for (int64_t i = 0; status == LW_OK && i < rows->n;) {
        i = find_pass(rows, c->n_classes, i, first, last);
        for (int32_t r = 0; r < c->n_ranks; r++) {
            int32_t k = lw_alike_class(&c->ranks, r);
            copy_rows(rows, first[k], last[k], r, &out);
        }
    }
    lw_free(first);
    LW_GIVE(status, timeline, out, lw_timeline_free(&out));
}

enum lw_status lw_sim_expand(const struct lw_sim_classes *c, struct lw_timeline *timeline,
                             struct lw_err *err)
{
    struct lw_timeline rows;

    if (c->n_classes == c->n_ranks)
        return lw_timeline_copy(&c->rows, timeline, err);
    LW_TRY(lw_timeline_copy(&c->rows, &rows, err));
    enum lw_status status = expand(c, &rows, timeline, err);
    lw_timeline_free(&rows);
    return status;
}

/* A summary's measures are those of the classes; `s` is of the run that the classes made. */
static enum lw_status take_measures(const struct lw_sim_classes *c, const struct lw_summary *s,
                                    struct lw_summary *out, struct lw_err *err)
{
    LW_NEW(out->ranks, c->n_classes, err);
    out->alike = c->ranks;
    out->alike.of = NULL;
    if (c->ranks.of) {
        LW_NEW(out->alike.of, out->n_ranks, err);
        memcpy(out->alike.of, c->ranks.of, (size_t)out->n_ranks * sizeof *out->alike.of);
    }
    for (int32_t k = 0; k < c->n_classes; k++) {
        out->ranks[k] = (struct lw_measure){.step = s->ranks[0].step, .peak_memory_bytes = -1};
        if (k < s->n_ranks)
            out->ranks[k] = s->ranks[k];
        out->ranks[k].rank = c->rank_of[k];
    }
    if (s->memory.rank >= 0)
        out->memory.rank = c->rank_of[s->memory.rank];
    lw_summary_shares(out);
    return LW_OK;
}

enum lw_status lw_sim_summarize(const struct lw_sim_classes *c, int32_t first_step,
                                struct lw_summary *out, struct lw_err *err)
{
    struct lw_summary s, all;
    int64_t n_ops = 0;

    LW_TRY(count_rows(c, &n_ops, err));
    LW_TRY(lw_timeline_summarize(&c->rows, &c->plan, first_step, &s, err));
    if (c->n_classes == c->n_ranks) {
        *out = s;
        return LW_OK;
    }
    all = s;
    all.ranks = NULL;
    all.n_ops = n_ops;
    all.n_ranks = c->n_ranks;
    while (all.n_ranks > 1 && lw_alike_class(&c->ranks, all.n_ranks - 1) >= s.n_ranks)
        all.n_ranks--;
    enum lw_status status = take_measures(c, &s, &all, err);
    lw_free(s.ranks);
    if (status == LW_OK)
        *out = all;
    else
        lw_summary_free(&all);
    return status;
}

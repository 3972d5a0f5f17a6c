/* Bubble rates of pipeline schedules from measured times of their passes: Qi et al., "Zero Bubble
 * Pipeline Parallelism" (ICLR 2024), table 5 from table 6, or rows like theirs. A row gives p, m,
 * the times T_F, T_B (by input), T_W (by weight) of a stage and T_comm of a message, in ms, and the
 * model's hidden size, heads and sequence, which the searching schedules weigh memory with.
 *
 * A schedule's grid is lowered to a plan and run by the engine; the cost is the longest time from a
 * rank's first start to its last end, the rate 1 - m (F + B + W) / cost. Interleaved 1F1B alone is
 * predicted by the form that fits the published column, cost = (m + (p - 1) / v) (F + B + W) +
 * (2 p v - p - 2) C; the engine's value stands in the remark. */
#include "analysis/validate/validate_kinds.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "shared/io/csv_rows.h"
#include "shared/lower/lower_grid.h"
#include "shared/numbers/checked.h"
#include "shared/timeline/timeline.h"
#include "sim/predict/sim.h"

static const struct column {
    const char *title;
    enum lw_schedule schedule;
    bool closed_form;
} columns[] = {
    {"bubble_1f1b", LW_SCHEDULE_1F1B, false},
    {"bubble_1f1b_i", LW_SCHEDULE_INTERLEAVED_1F1B, true},
    {"bubble_zb_h1", LW_SCHEDULE_ZB_H1, false},
    {"bubble_zb_h2", LW_SCHEDULE_ZB_H2, false},
    {"bubble_zb_1p", LW_SCHEDULE_ZB_AUTO_1P, false},
    {"bubble_zb_2p", LW_SCHEDULE_ZB_AUTO_2P, false},
};

enum { N_COLUMNS = sizeof columns / sizeof *columns };

struct setting {
    int64_t p, m, micro_batch, hidden, heads, seq, v;
    lw_ps f, b, w, comm;
};

static enum lw_status read_ms(const struct lw_rows *r, int32_t row, const char *title, lw_ps *t,
                              struct lw_err *err)
{
    double ms;

    LW_TRY(lw_rows_real(r, row, title, 0, &ms, err));
    if (ms > 1e6)
        return lw_fail_at(err, LW_EFORMAT, r->file, r->line[row],
                          "%s: found %g ms, allowed: up to 10^6", title, ms);
    *t = lw_ns_to_ps(lw_round_sat(ms * 1e6));
    return LW_OK;
}

static enum lw_status read_setting(const struct lw_rows *r, int32_t row, struct setting *s,
                                   struct lw_err *err)
{
    const struct {
        const char *title;
        int64_t most, *to;
    } sizes[] = {
        {"p", 4096, &s->p},           {"m", 65536, &s->m},
        {"hidden", 1 << 20, &s->hidden}, {"heads", 1 << 16, &s->heads},
        {"seq", 1 << 24, &s->seq},
    };

    *s = (struct setting){.micro_batch = 0};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
        LW_TRY(lw_rows_int(r, row, sizes[k].title, 1, sizes[k].most, sizes[k].to, err));
    if (*lw_rows_cell(r, row, "micro_batch"))
        LW_TRY(lw_rows_int(r, row, "micro_batch", 1, 1 << 20, &s->micro_batch, err));
    LW_TRY(read_ms(r, row, "T_F", &s->f, err));
    LW_TRY(read_ms(r, row, "T_B", &s->b, err));
    LW_TRY(read_ms(r, row, "T_W", &s->w, err));
    LW_TRY(read_ms(r, row, "T_comm", &s->comm, err));
    if (s->f + s->b + s->w == 0)
        return lw_fail_at(err, LW_EFORMAT, r->file, r->line[row], "T_F, T_B and T_W are all 0");
    return LW_OK;
}

static lw_ps longest_rank(const struct lw_timeline *t)
{
    lw_ps longest = 0;

    for (int64_t i = 0; i < t->n;) { /* rows are sorted by rank */
        int32_t rank = t->rank[i];
        lw_ps first = INT64_MAX, last = 0;
        for (; i < t->n && t->rank[i] == rank; i++) {
            if (lw_op_class((enum lw_op_kind)t->kind[i]) != LW_CLASS_COMPUTE)
                continue;
            first = t->start[i] < first ? t->start[i] : first;
            last = t->end[i] > last ? t->end[i] : last;
        }
        longest = last - first > longest ? last - first : longest;
    }
    return longest;
}

static double rate_of(const struct setting *s, double cost)
{
    return 1 - (double)s->m * (double)(s->f + s->b + s->w) / cost;
}

static enum lw_status run_grid(const struct setting *s, const struct lw_grid *g,
                               const struct lw_schedule_shape *shape, double *rate,
                               struct lw_err *err)
{
    int64_t v = shape->n_chunks;
    const struct lw_grid_durations d = {s->f / v, s->b / v, s->w / v, s->b / v + s->w / v, s->comm};
    struct lw_timeline t = {0};
    struct lw_plan p;

    LW_TRY(lw_grid_plan(g, "grid", shape->schedule, &d, &p, err));
    enum lw_status status = lw_sim_alone(NULL, &p, &t, err);
    if (status == LW_OK)
        *rate = rate_of(s, (double)longest_rank(&t));
    lw_timeline_free(&t);
    lw_plan_free(&p);
    return status;
}

/* Kept of a micro-batch: 34 h + 5 a s of a layer by F, of which W gives back 32 h (Qi et al.,
 * section 5, after Korthikanti et al., arXiv 2205.05198, equation 1). */
static enum lw_status by_engine(const struct setting *s, enum lw_schedule schedule, int64_t v,
                                double *rate, struct lw_err *err)
{
    const struct lw_schedule_costs costs = {
        .f = s->f, .i = s->b, .w = s->w, .comm = s->comm,
        .mem_f = 34 * s->hidden + 5 * s->heads * s->seq,
        .mem_i = -2 * s->hidden - 5 * s->heads * s->seq,
        .mem_w = -32 * s->hidden,
    };
    const struct lw_schedule_shape shape = {.schedule = schedule, .n_ranks = (int32_t)s->p,
                                            .n_micro_batches = (int32_t)s->m,
                                            .n_chunks = (int32_t)v, .costs = &costs};
    struct lw_grid g;

    LW_TRY(lw_schedule_grid(&shape, &g, err));
    enum lw_status status = run_grid(s, &g, &shape, rate, err);
    lw_grid_free(&g);
    return status;
}

static enum lw_status by_form(const struct lw_rows *r, int32_t row, struct setting *s, double *rate,
                              char *remark, size_t size, struct lw_err *err)
{
    struct lw_err why = {0};
    double engine;

    LW_TRY(lw_rows_int(r, row, "v_for_1f1b_i", 1, 4096, &s->v, err));
    double work = (double)(s->f + s->b + s->w), p = (double)s->p, v = (double)s->v;
    *rate = rate_of(s, ((double)s->m + (p - 1) / v) * work +
                           (2 * p * v - p - 2) * (double)s->comm);
    enum lw_status status = by_engine(s, LW_SCHEDULE_INTERLEAVED_1F1B, s->v, &engine, &why);
    if (status == LW_ENOMEM)
        return lw_fail_nomem(err);
    if (status == LW_OK)
        snprintf(remark, size, "closed form; the engine's value: %.4f", engine);
    else
        snprintf(remark, size, "closed form; the engine has none: %.200s", why.msg);
    return LW_OK;
}

static enum lw_status add_case(const struct lw_rows *r, int32_t row, struct setting *s,
                               const struct column *k, struct lw_validation *v, int32_t family,
                               struct lw_err *err)
{
    struct lw_case c = {.unit = "bubble rate", .family = family, .series = -1};
    char id[200], remark[320] = "";

    if (!*lw_rows_cell(r, row, k->title))
        return LW_OK; /* not given by the source */
    LW_TRY(lw_rows_printed(r, row, k->title, &c.measured, &c.allowed, err));
    if (k->closed_form)
        LW_TRY(by_form(r, row, s, &c.predicted, remark, sizeof remark, err));
    else
        LW_TRY(lw_err_context(err, by_engine(s, k->schedule, 1, &c.predicted, err), "%s:%d: %s",
                              r->file, r->line[row], k->title));
    snprintf(id, sizeof id, "%s__p%lld__m%lld__b%lld__%s", lw_rows_cell(r, row, "model"),
             (long long)s->p, (long long)s->m, (long long)s->micro_batch, k->title + 7);
    c.id = id;
    c.remark = remark;
    c.allowed *= 0.5 + 1e-9; /* rounded to its last digit */
    return lw_validation_case(v, &c, err);
}

static const struct column *find_column(const char *title)
{
    for (int k = 0; k < N_COLUMNS; k++)
        if (strcmp(title, columns[k].title) == 0)
            return &columns[k];
    return NULL;
}

/* Columns of rates must be known ones, and there must be one. */
static enum lw_status check_columns(const struct lw_rows *r, struct lw_err *err)
{
    char known[160] = "";
    int n = 0;

    for (int k = 0; k < N_COLUMNS; k++)
        lw_err_word(known, sizeof known, columns[k].title);
    for (int32_t c = 0; c < r->n_columns; c++) {
        if (strncmp(r->titles[c], "bubble_", 7) != 0)
            continue;
        n++;
        if (!find_column(r->titles[c]))
            return lw_fail_at(err, LW_EFORMAT, r->file, 1, "found the column '%s', known: %s",
                              r->titles[c], known);
    }
    if (n == 0)
        return lw_fail_at(err, LW_EFORMAT, r->file, 1, "found no column of rates, known: %s",
                          known);
    return LW_OK;
}

enum lw_status lw_validate_bubble(const struct lw_rows *r, struct lw_validation *v,
                                  struct lw_err *err)
{
    int32_t family;

    LW_TRY(check_columns(r, err));
    LW_TRY(lw_validation_family(v, "zero-bubble", (struct lw_bars){0}, false, &family, err));
    LW_TRY(lw_validation_note(v, family, "rule",
                              "rate = 1 - m (F + B + W) / cost; cost: the longest rank, from its "
                              "first start to its last end, by the engine", err));
    LW_TRY(lw_validation_note(v, family, "1f1b_i",
                              "1f1b_i by a closed form of the bubble, (p - 1)(F + B + W) / v + "
                              "(2 p v - p - 2) C, which was fitted to the published column; the "
                              "engine's value is in the remark", err));
    int32_t before = v->n_cases;
    for (int32_t i = 0; i < r->n_rows && lw_validation_goes_on(v, r->file, i, r->n_rows); i++) {
        struct setting s;
        LW_TRY(read_setting(r, i, &s, err));
        for (int32_t c = 0; c < r->n_columns; c++) {
            const struct column *k = find_column(r->titles[c]);
            if (k)
                LW_TRY(add_case(r, i, &s, k, v, family, err));
        }
    }
    if (v->n_cases == before && !lw_progress_stopped(v->progress))
        return lw_fail(err, LW_EFORMAT, "%s: every cell of bubble_* is blank: there is nothing to "
                                        "compare with", r->file);
    return LW_OK;
}

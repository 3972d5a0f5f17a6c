/* The measures of a run for people and for programs. */
#include "shared/timeline/summary_print.h"

#include <string.h>

#include "shared/base/arena.h"
#include "shared/text/wrap.h"
#include "shared/plan/op.h"
#include "shared/plan/plan.h"
#include "shared/timeline/period_figures.h"

static void line(FILE *f, enum lw_period_figure k, const lw_ps *figure)
{
    char buf[32];

    fprintf(f, "  %-22s %14s", lw_period_figure_title(k), lw_format_ps(buf, figure[k]));
    if (figure[LW_FIGURE_PERIOD] > 0)
        fprintf(f, "  %5.1f %%", 100.0 * (double)figure[k] / (double)figure[LW_FIGURE_PERIOD]);
    fputc('\n', f);
}

bool lw_periods_differ(lw_ps period, lw_ps step)
{
    char a[32], b[32];

    return strcmp(lw_format_ps(a, period), lw_format_ps(b, step)) != 0;
}

void lw_summary_text(const struct lw_summary *s, FILE *f)
{
    const struct lw_measure *m = &s->ranks[s->worst];
    lw_ps figure[LW_N_FIGURES];

    lw_period_figures(m, figure);
    fprintf(f, "\n%srank %d, whose period is the longest, adds up to\n",
            s->n_steps > 1 ? "of the middle step, " : "", m->rank);
    for (int i = 0; i < LW_N_PERIOD_PARTS; i++)
        if (figure[lw_period_parts[i]] > 0 || lw_period_parts[i] < LW_FIGURE_WAIT)
            line(f, lw_period_parts[i], figure);
    line(f, LW_FIGURE_PERIOD, figure);
    if (lw_periods_differ(figure[LW_FIGURE_PERIOD], s->shown))
        lw_put_paragraph(f, "", LW_PERIOD_AND_STEP);
    fprintf(f, "of it, busy at the same time\n");
    line(f, LW_FIGURE_COPY_BUSY, figure);
    line(f, LW_FIGURE_COMM_BUSY, figure);
}

/* The row of a rank: made once for ranks that are alike. */
struct rank_row {
    const struct lw_summary *s;
    int32_t class;
    struct lw_period_row row;
};

static const void *make_row(void *from, int64_t rank)
{
    struct rank_row *x = from;
    int32_t class = lw_alike_class(&x->s->alike, (int32_t)rank);

    if (class != x->class) {
        struct lw_measure m = lw_summary_of(x->s, (int32_t)rank);
        x->row = lw_period_row_of(&m);
        x->class = class;
    }
    x->row.rank = (int32_t)rank;
    return &x->row;
}

/* CSV, or the array "ranks" into the object that is open in o. */
static enum lw_status put_ranks(const struct lw_summary *s, bool memory, struct lw_jsonout *o,
                                FILE *f, struct lw_err *err)
{
    struct rank_row row = {.s = s, .class = -1};
    const struct lw_records r = {.key = "ranks", .columns = lw_period_columns,
                                 .n_columns = LW_N_PERIOD_COLUMNS - !memory, .n = s->n_ranks,
                                 .make = make_row, .from = &row};

    if (!o)
        return lw_records_csv(&r, f, err);
    lw_records_json(o, &r);
    return LW_OK;
}

enum lw_status lw_summary_csv(const struct lw_summary *s, FILE *f, struct lw_err *err)
{
    return put_ranks(s, false, NULL, f, err);
}

enum lw_status lw_summary_json_ranks(struct lw_jsonout *o, const struct lw_summary *s, bool memory,
                                     struct lw_err *err)
{
    return put_ranks(s, memory, o, NULL, err);
}

void lw_summary_json_steps(struct lw_jsonout *o, const struct lw_summary *s)
{
    LW_JSON(o, "step_ns", LW_PS(s->step));
    lw_jsonout_line_array(o, "steps_ns");
    for (int32_t i = 0; i < s->n_steps; i++)
        LW_JSON(o, NULL, LW_PS(s->steps[i]));
    lw_jsonout_end(o);
    LW_JSON(o, "span_ns", LW_PS(s->span));
}

void lw_summary_json_measure(struct lw_jsonout *o, const struct lw_measure *m)
{
    struct lw_period_row row = lw_period_row_of(m);

    lw_record_json(o, lw_period_columns + LW_PERIOD_FIRST_COLUMN, LW_N_FIGURES, &row);
}

void lw_summary_json_measures(struct lw_jsonout *o, const struct lw_summary *s)
{
    lw_jsonout_int(o, "rank", s->ranks[s->worst].rank);
    lw_summary_json_measure(o, &s->ranks[s->worst]);
    LW_JSON(o, "bubble_ratio", lw_decimals(s->bubble_ratio, 6),
            "compute_share", lw_decimals(s->compute_share, 6),
            "peak_memory_bytes", lw_known(s->peak_memory_bytes));
}

void lw_summary_json_memory(struct lw_jsonout *o, const struct lw_summary *s,
                            const struct lw_plan *plan)
{
    const struct lw_memory_peak *m = &s->memory;
    char key[40];

    if (m->rank < 0) {
        lw_jsonout_null(o, "memory_at_peak");
        return;
    }
    lw_jsonout_object(o, "memory_at_peak");
    LW_JSON(o, "rank", m->rank, "step", lw_known(m->step), "at_ns", lw_ps_to_ns(m->at), "op",
            lw_known(m->op), "op_kind", m->op >= 0 ? lw_op_name(lw_op_at(plan, m->op).kind) : NULL);
    for (int i = 0; i < LW_N_MEMORY; i++) {
        snprintf(key, sizeof key, "%s_bytes", lw_memory_name((enum lw_memory)i));
        lw_jsonout_int(o, key, m->bytes[i]);
    }
    lw_jsonout_int(o, "total_bytes", m->total);
    lw_jsonout_end(o);
}

enum lw_status lw_summary_text_memory(const struct lw_summary *s, const struct lw_plan *plan,
                                      FILE *f, struct lw_err *err)
{
    const struct lw_memory_peak *m = &s->memory;
    char text[LW_OP_TEXT], before[32];
    struct lw_paragraph line;

    if (m->rank < 0)
        return LW_OK;
    snprintf(before, sizeof before, "memory of rank %d ", m->rank);
    FILE *out = lw_paragraph_open(&line, f, before);
    fprintf(out, "at its peak, %s after the run began", lw_format_ps(text, m->at));
    if (m->op >= 0)
        fprintf(out, ", in step %d at %s", m->step, lw_plan_op_text(plan, m->op, text));
    for (int i = 0, n = 0; i < LW_N_MEMORY; i++) {
        if (m->bytes[i] <= 0)
            continue;
        fputs(n++ ? ", " : ": ", out);
        for (const char *c = lw_memory_name((enum lw_memory)i); *c; c++)
            fputc(*c == '_' ? ' ' : *c, out);
        fprintf(out, " %s", lw_format_bytes(text, m->bytes[i]));
    }
    return lw_paragraph_close(&line, err);
}

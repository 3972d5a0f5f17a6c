/* The page: sections in the order in which a reader asks. How good was the prediction; where in the
 * step; with which plan; from what. Style sheet inside, no script, no link that leaves the page. */
#include "analysis/draw/report.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include "analysis/compare/compare.h"
#include "analysis/draw/html.h"
#include "analysis/draw/plot_style.h"
#include "analysis/store/sql.h"

enum { MAX_RANKS = 8 };

static const char head[] =
    "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<title>Lapwing report</title>\n<style>\n"
    "body{font:15px/1.45 system-ui,sans-serif;max-width:1160px;margin:2em auto;padding:0 1em;"
    "color:#1a1a1a;background:#fff}\n"
    "h1{font-size:1.6em}h2{font-size:1.25em;margin-top:2em;border-bottom:1px solid #ccc}"
    "h3{font-size:1.05em;margin-top:1.5em}\n"
    "table{border-collapse:collapse;margin:.8em 0}th,td{padding:.2em .8em;text-align:right;"
    "border-bottom:1px solid #e4e4e4;font-variant-numeric:tabular-nums}\n"
    "th{border-bottom:2px solid #888;vertical-align:bottom}"
    "td.t,th.t{text-align:left}code{font-size:.92em;overflow-wrap:anywhere}\n"
    ".wide{overflow-x:auto}svg text{font:12px system-ui,sans-serif}"
    "svg .run{font-weight:600}svg .axis{stroke:#444}"
    "svg .end{stroke:#444;stroke-dasharray:4 3}\n"
    ".legend span{margin-right:1.1em;white-space:nowrap;font-size:.9em}"
    ".legend i{display:inline-block;width:1.4em;height:.8em;margin-right:.35em}\n"
    ".note{color:#555}footer{margin-top:3em;color:#666;font-size:.85em}\n"
    "</style>\n</head>\n<body>\n";

static void cell(FILE *f, const char *text)
{
    fputs("<td class=\"t\">", f);
    html_text(f, text);
    fputs("</td>", f);
}

static void ms_cell(FILE *f, lw_ps v)
{
    if (v < 0)
        fputs("<td>-</td>", f);
    else
        fprintf(f, "<td>%.3f</td>", (double)v / (double)LW_PS_PER_MS);
}

static void pct_cell(FILE *f, struct lw_both v)
{
    double e = lw_both_error_pct(v);
    if (isnan(e))
        fputs("<td>-</td>", f);
    else
        fprintf(f, "<td>%+.1f %%</td>", e);
}

static const char *cap_words(char buf[32], const struct lw_run *r)
{
    return r->bucket_cap_bytes < 0 ? "default" : lw_format_bytes(buf, r->bucket_cap_bytes);
}

/* --- predicted against measured --------------------------------------------------------------- */

static void put_pair_row(FILE *f, const struct lw_run *p, const struct lw_run *m)
{
    char buf[32], engine[128];

    fprintf(f, "<tr><td>%lld, %lld</td><td>%s</td><td>%d</td>", (long long)p->id, (long long)m->id,
            cap_words(buf, m), m->n_buckets);
    ms_cell(f, p->step);
    ms_cell(f, m->step);
    pct_cell(f, (struct lw_both){p->step, m->step});
    ms_cell(f, p->exposed_comm);
    ms_cell(f, m->exposed_comm);
    snprintf(engine, sizeof engine, "%s%s%s", m->backend, m->honesty[0] ? ", " : "", m->honesty);
    cell(f, engine);
    fputs("</tr>\n", f);
}

static void put_pairs(FILE *f, const struct lw_run *runs, int32_t n)
{
    double sum = 0, worst = 0;
    int k = 0;

    fputs("<h2>Predicted against measured</h2>\n", f);
    for (int32_t i = 0; i < n; i++) {
        const struct lw_run *m = &runs[i];
        const struct lw_run *p = lw_run_is_measured(m) ? lw_prediction_of(runs, n, m) : NULL;
        if (!p)
            continue;
        if (k++ == 0)
            fputs("<table>\n<tr><th>runs</th><th>bucket cap</th><th>buckets</th>"
                  "<th>predicted step<br>ms</th><th>measured step<br>ms</th><th>error</th>"
                  "<th>predicted exposed<br>ms</th><th>measured exposed<br>ms</th>"
                  "<th class=\"t\">measured on</th></tr>\n", f);
        put_pair_row(f, p, m);
        double e = fabs(lw_both_error_pct((struct lw_both){p->step, m->step}));
        sum += e;
        worst = e > worst ? e : worst;
    }
    if (k == 0) {
        fputs("<p>None of these runs is a prediction and an execution of the same plan.</p>\n", f);
        return;
    }
    fprintf(f, "</table>\n<p>Over %d %s the step is off by %.1f %% on average, %.1f %% at most. "
               "A step is the median over measured steps of the time from the last end of the step "
               "before on any rank to its own; exposed is communication that runs while the rank "
               "with the longest period neither computes nor copies.</p>\n",
            k, k == 1 ? "pair" : "pairs", sum / k, worst);
}

/* --- one pair --------------------------------------------------------------------------------- */

static void both_cells(FILE *f, struct lw_both v)
{
    ms_cell(f, v.predicted);
    ms_cell(f, v.measured);
}

static void put_parts(FILE *f, const struct lw_comparison *c)
{
    fputs("<table>\n<tr><th class=\"t\">ms</th><th>predicted</th><th>measured</th>"
          "<th>difference</th></tr>\n", f);
    for (int i = -1; i < LW_N_PARTS; i++) {
        struct lw_both v = i < 0 ? c->step : c->part[i];
        if (i >= 0 && v.predicted == 0 && v.measured == 0)
            continue;
        fputs("<tr>", f);
        cell(f, i < 0 ? "step" : lw_part_name((enum lw_part)i));
        fprintf(f, "<td>%.3f</td><td>%.3f</td><td>%+.3f</td></tr>\n",
                (double)v.predicted / (double)LW_PS_PER_MS,
                (double)v.measured / (double)LW_PS_PER_MS,
                (double)(v.predicted - v.measured) / (double)LW_PS_PER_MS);
    }
    fputs("</table>\n", f);
}

static void put_bucket_lines(FILE *f, const struct lw_comparison *c)
{
    char size[32];

    fputs("<details><summary>Buckets: ready, start and finish, ms from the start of the step"
          "</summary>\n<table>\n<tr><th>bucket</th><th class=\"t\">op</th><th>size</th>"
          "<th>ready<br>predicted</th><th><br>measured</th><th>start<br>predicted</th>"
          "<th><br>measured</th><th>finish<br>predicted</th><th><br>measured</th>"
          "<th>error</th></tr>\n", f);
    for (int32_t i = 0; i < c->n_buckets; i++) {
        const struct lw_bucket_line *b = &c->buckets[i];
        fprintf(f, "<tr><td>%d</td>", b->bucket);
        cell(f, b->kind);
        fprintf(f, "<td>%s</td>", lw_format_bytes(size, b->bytes.predicted));
        both_cells(f, b->ready);
        both_cells(f, b->start);
        both_cells(f, b->finish);
        pct_cell(f, b->finish);
        fputs("</tr>\n", f);
    }
    fputs("</table>\n</details>\n", f);
}

static enum lw_status put_timeline(struct lw_store *s, const struct lw_run *runs, int32_t n,
                                   FILE *f, struct lw_err *err)
{
    struct picture_view view = {runs, n, -1, MAX_RANKS};
    struct plot_names names;
    struct picture pic;

    LW_TRY(plot_names_make(s, runs, n, "", &names, err));
    enum lw_status st = picture_read(s, &view, &pic, err);
    if (st == LW_OK) {
        html_timeline(f, &pic, names.runs);
        picture_free(&pic);
    }
    plot_names_free(&names);
    return st;
}

static enum lw_status put_pair(struct lw_store *s, const struct lw_run *p, const struct lw_run *m,
                               FILE *f, struct lw_err *err)
{
    struct lw_run pair[2] = {*p, *m};
    struct lw_comparison c = {0};
    char a[24], b[24], cap[32];

    snprintf(a, sizeof a, "%lld", (long long)p->id);
    snprintf(b, sizeof b, "%lld", (long long)m->id);
    LW_TRY(lw_compare(s, a, b, &c, err));
    fprintf(f, "<h3>Bucket cap %s: run %s against run %s</h3>\n", cap_words(cap, m), a, b);
    if (c.note[0]) {
        fputs("<p class=\"note\">", f);
        html_text(f, c.note);
        fputs("</p>\n", f);
    }
    put_parts(f, &c);
    enum lw_status st = LW_OK;
    if (p->n_spans > 0 && m->n_spans > 0)
        st = put_timeline(s, pair, 2, f, err);
    if (c.n_buckets > 0)
        put_bucket_lines(f, &c);
    lw_comparison_free(&c);
    return st;
}

/* Each pair, then the runs that belong to none. */
static enum lw_status put_runs(struct lw_store *s, const struct lw_run *runs, int32_t n, FILE *f,
                               struct lw_err *err)
{
    fputs("<h2>One step, stream by stream</h2>\n", f);
    for (int32_t i = 0; i < n; i++) {
        const struct lw_run *m = &runs[i];
        const struct lw_run *p = lw_run_is_measured(m) ? lw_prediction_of(runs, n, m) : NULL;
        if (p)
            LW_TRY(put_pair(s, p, m, f, err));
    }
    for (int32_t i = 0; i < n; i++) {
        bool paired = lw_run_is_measured(&runs[i]) && lw_prediction_of(runs, n, &runs[i]);
        for (int32_t k = 0; k < n && !paired; k++)
            paired = lw_run_is_measured(&runs[k]) && lw_prediction_of(runs, n, &runs[k]) == &runs[i];
        if (paired || runs[i].n_spans == 0)
            continue;
        fprintf(f, "<h3>Run %lld</h3>\n", (long long)runs[i].id);
        LW_TRY(put_timeline(s, &runs[i], 1, f, err));
    }
    return LW_OK;
}

/* --- plans ------------------------------------------------------------------------------------ */

static enum lw_status put_plan_buckets(struct lw_store *s, int64_t plan, FILE *f,
                                       struct lw_err *err)
{
    struct lw_sql *q;
    char size[32], limit[32];

    LW_TRY(lw_sql_query(s, &q, err,
                        "SELECT b.set_name, b.launch, b.bytes, b.limit_bytes, b.n_params, b.dtype,"
                        " (SELECT group_concat(name, ', ') FROM (SELECT param.name FROM slot"
                        "   JOIN param ON param.plan = slot.plan AND param.param = slot.param"
                        "   WHERE slot.plan = b.plan AND slot.bucket = b.bucket"
                        "   ORDER BY slot.slot)),"
                        " b.stage"
                        " FROM bucket AS b WHERE b.plan = ? ORDER BY b.bucket",
                        "l", plan));
    fputs("<table>\n<tr><th class=\"t\">set</th><th>stage</th><th>launch</th><th>size</th>"
          "<th>limit</th><th>gradients</th><th class=\"t\">dtype</th>"
          "<th class=\"t\">in buffer order</th></tr>\n", f);
    while (lw_sql_next(q)) {
        fputs("<tr>", f);
        cell(f, lw_sql_text(q, 0));
        fprintf(f, "<td>%lld</td><td>%lld</td><td>%s</td><td>%s</td><td>%lld</td>",
                (long long)lw_sql_int(q, 7), (long long)lw_sql_int(q, 1),
                lw_format_bytes(size, lw_sql_int(q, 2)),
                lw_sql_int(q, 3) > 0 ? lw_format_bytes(limit, lw_sql_int(q, 3)) : "-",
                (long long)lw_sql_int(q, 4));
        cell(f, lw_sql_text(q, 5));
        fputs("<td class=\"t\"><details><summary>names</summary><code>", f);
        html_text(f, lw_sql_text(q, 6));
        fputs("</code></details></td></tr>\n", f);
    }
    fputs("</table>\n", f);
    return lw_sql_finish(q, err);
}

static enum lw_status put_plan_words(struct lw_store *s, int64_t plan, FILE *f,
                                     struct lw_err *err)
{
    struct lw_sql *q;

    LW_TRY(lw_sql_query(s, &q, err, "SELECT text FROM plan_note WHERE plan = ? ORDER BY note", "l",
                        plan));
    fputs("<ul>\n", f);
    while (lw_sql_next(q)) {
        fputs("<li>", f);
        html_text(f, lw_sql_text(q, 0));
        fputs("</li>\n", f);
    }
    fputs("</ul>\n<details><summary>Strategy</summary><p><code>", f);
    LW_TRY(lw_sql_finish(q, err));
    LW_TRY(lw_sql_query(s, &q, err,
                        "SELECT name, value FROM plan_option WHERE plan = ? ORDER BY name", "l",
                        plan));
    while (lw_sql_next(q)) {
        fputs("--", f);
        html_text(f, lw_sql_text(q, 0));
        fputc(' ', f);
        html_text(f, lw_sql_text(q, 1));
        fputs(" ", f);
    }
    fputs("</code></p></details>\n", f);
    return lw_sql_finish(q, err);
}

static enum lw_status put_plans(struct lw_store *s, const struct lw_run *runs, int32_t n, FILE *f,
                                struct lw_err *err)
{
    char cap[32];

    fputs("<h2>Plans</h2>\n", f);
    for (int32_t i = 0; i < n; i++) {
        bool seen = runs[i].plan < 0;
        for (int32_t k = 0; k < i; k++)
            seen = seen || runs[k].plan == runs[i].plan;
        if (seen)
            continue;
        fputs("<h3>", f);
        html_text(f, runs[i].plan_name);
        fprintf(f, ", %d ranks, bucket cap %s</h3>\n<p>Plan <code>", runs[i].n_ranks,
                cap_words(cap, &runs[i]));
        html_text(f, runs[i].plan_hash);
        fputs("</code></p>\n", f);
        LW_TRY(put_plan_buckets(s, runs[i].plan, f, err));
        LW_TRY(put_plan_words(s, runs[i].plan, f, err));
    }
    return LW_OK;
}

/* --- provenance ------------------------------------------------------------------------------- */

static void put_provenance(const struct lw_run *runs, int32_t n, FILE *f)
{
    char text[64];

    fputs("<h2>Where this comes from</h2>\n<div class=\"wide\"><table>\n<tr><th>run</th>"
          "<th class=\"t\">kind</th><th class=\"t\">name</th><th class=\"t\">recorded by, file"
          "</th><th class=\"t\">cluster</th><th class=\"t\">started (UTC)</th><th>spans</th>"
          "<th class=\"t\">command</th></tr>\n", f);
    for (int32_t i = 0; i < n; i++) {
        const struct lw_run *r = &runs[i];
        time_t at = (time_t)r->started_at;
        fprintf(f, "<tr><td>%lld</td>", (long long)r->id);
        snprintf(text, sizeof text, "%s %s", lw_run_kind_name(r->kind), r->backend);
        cell(f, text);
        cell(f, r->name);
        cell(f, r->workload_from);
        cell(f, r->cluster_name);
        strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", gmtime(&at));
        cell(f, text);
        fprintf(f, "<td>%lld</td><td class=\"t\"><code>", (long long)r->n_spans);
        html_text(f, r->command);
        fputs("</code></td></tr>\n", f);
    }
    fprintf(f, "</table></div>\n<footer>Written by lapwing %s from its results database. Not "
               "modelled: data loading, allocator behaviour, checkpoint input and output.</footer>\n"
               "</body>\n</html>\n", LW_VERSION);
}

enum lw_status lw_report_write(struct lw_store *s, const struct lw_run *runs, int32_t n, FILE *f,
                               struct lw_err *err)
{
    fputs(head, f);
    fputs("<h1>Lapwing: predicted and measured training steps</h1>\n<p>", f);
    html_text(f, runs[0].workload_name);
    fprintf(f, " on %d ranks, ", runs[0].n_ranks);
    html_text(f, runs[0].cluster_name);
    fprintf(f, "; %d %s.</p>\n", n, n == 1 ? "run" : "runs");
    put_pairs(f, runs, n);
    LW_TRY(put_runs(s, runs, n, f, err));
    LW_TRY(put_plans(s, runs, n, f, err));
    put_provenance(runs, n, f);
    return LW_OK;
}

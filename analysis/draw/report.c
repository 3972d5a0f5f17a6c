/* The page: sections in the order in which a reader asks. Which runs; how good was the prediction;
 * where in the step; with which plan; from what. Styles and a short script are inside, and no link
 * leaves the page. */
#include "analysis/draw/report.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include "analysis/compare/compare.h"
#include "analysis/store/run_name.h"
#include "analysis/draw/html_page.h"
#include "analysis/draw/plot_style.h"
#include "analysis/store/sql.h"
#include "shared/numbers/interval_text.h"

enum { MAX_RANKS = 8 };

/* What every section needs. */
struct page {
    struct lw_store *store;
    const struct lw_run *runs;
    int32_t n;
    const struct plot_names *names;
    const char **differs; /* what tells a run from the others; "" = nothing */
    FILE *f;
};

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

/* With the interval of a predicted one. */
static void step_cell(FILE *f, const struct lw_run *r)
{
    char interval[LW_INTERVAL_TEXT];

    if (r->p90 <= 0)
        ms_cell(f, r->step);
    else
        fprintf(f, "<td>%.3f<br><small>%s</small></td>", (double)r->step / (double)LW_PS_PER_MS,
                lw_interval_text(interval, r->p10, r->p90, NULL));
}

static void pct_cell(FILE *f, struct lw_both v)
{
    double e = lw_both_error_pct(v);
    if (isnan(e))
        fputs("<td>-</td>", f);
    else
        fprintf(f, "<td>%+.1f %%</td>", e);
}

/* What a run is among the others: its user's name for it, what differs, else its workload. */
static const char *which(const struct page *p, const struct lw_run *r)
{
    const char *differs = p->differs[r - p->runs];

    return r->named ? r->name : differs[0] ? differs : r->workload_name[0] ? r->workload_name
                                                                            : r->name;
}

/* Begins an element that the search box finds by the texts of one or two runs. */
static void open_found(const struct page *p, const char *element, const struct lw_run *a,
                       const struct lw_run *b)
{
    fprintf(p->f, "<%s data-run=\"", element);
    html_text(p->f, p->names->runs[a - p->runs]);
    fputc(' ', p->f);
    html_text(p->f, a->name);
    if (b) {
        fputc(' ', p->f);
        html_text(p->f, p->names->runs[b - p->runs]);
    }
    fputs("\">", p->f);
}

/* --- runs ------------------------------------------------------------------------------------- */

static void number_cell(FILE *f, double x, int digits)
{
    if (x >= 0)
        fprintf(f, "<td>%.*f</td>", digits, x);
    else
        fputs("<td>-</td>", f);
}

/* Rates, memory and price of a prediction. */
static void put_yield(FILE *f, const struct lw_run *r)
{
    number_cell(f, r->overlap_pct, 1);
    number_cell(f, r->tokens_per_s, 0);
    number_cell(f, r->mfu_pct, 1);
    number_cell(f, r->memory_bytes < 0 ? NAN : (double)r->memory_bytes / 1073741824, 1);
    cell(f, r->fits < 0 ? "-" : r->fits ? "yes" : "no");
    number_cell(f, r->cost_per_trillion_tokens, 0);
}

static void put_list(const struct page *p)
{
    fputs("<h2>Runs</h2>\n<p><label>Find runs: <input type=\"search\" id=\"search\" "
          "placeholder=\"zero 2, measured, ...\"></label></p>\n"
          "<div class=\"wide\"><table>\n<tr><th>run</th><th class=\"t\">kind</th>"
          "<th class=\"t\">which</th><th class=\"t\">framework</th><th>step<br>ms</th>"
          "<th>exposed<br>ms</th><th>overlap<br>%</th><th>tokens/s</th><th>MFU<br>%</th>"
          "<th>memory<br>GiB</th><th class=\"t\">fits</th><th>cost per<br>1T tokens</th></tr>\n",
          p->f);
    for (int32_t i = 0; i < p->n; i++) {
        const struct lw_run *r = &p->runs[i];
        open_found(p, "tr", r, NULL);
        fprintf(p->f, "<td>%lld</td>", (long long)r->id);
        cell(p->f, r->kind == LW_RUN_SIM ? "predicted" : r->kind == LW_RUN_EXEC ? "measured"
                                                                               : "recorded");
        cell(p->f, which(p, r));
        cell(p->f, r->framework && *r->framework ? r->framework : "-");
        step_cell(p->f, r);
        ms_cell(p->f, r->exposed_comm);
        put_yield(p->f, r);
        fputs("</tr>\n", p->f);
    }
    fputs("</table></div>\n", p->f);
}

/* --- predicted against measured --------------------------------------------------------------- */

static void put_pair_row(const struct page *page, const struct lw_run *p, const struct lw_run *m)
{
    char engine[128];
    FILE *f = page->f;

    open_found(page, "tr", m, p);
    fprintf(f, "<td>%lld, %lld</td>", (long long)p->id, (long long)m->id);
    cell(f, which(page, m));
    fprintf(f, "<td>%d</td>", m->n_buckets);
    step_cell(f, p);
    ms_cell(f, m->step);
    pct_cell(f, (struct lw_both){p->step, m->step});
    ms_cell(f, p->exposed_comm);
    ms_cell(f, m->exposed_comm);
    snprintf(engine, sizeof engine, "%s%s%s%s", m->backend, m->honesty[0] ? ", " : "", m->honesty,
             lw_run_under_load(m) ? ", under load" : "");
    cell(f, engine);
    fputs("</tr>\n", f);
}

/* The prediction of run i, where it is an execution that has one. */
static const struct lw_run *partner(const struct page *p, int32_t i)
{
    return lw_prediction_of(p->runs, p->n, &p->runs[i]);
}

static void put_pairs(const struct page *page)
{
    double sum = 0, worst = 0;
    FILE *f = page->f;
    int k = 0, k_judged = 0, n_loaded = 0;

    fputs("<h2>Predicted against measured</h2>\n", f);
    for (int32_t i = 0; i < page->n; i++) {
        const struct lw_run *m = &page->runs[i], *p = partner(page, i);
        if (!p)
            continue;
        if (k++ == 0)
            fputs("<div class=\"wide\"><table>\n<tr><th>runs</th><th class=\"t\">which</th>"
                  "<th>buckets</th><th>predicted step<br>ms</th>"
                  "<th>measured step<br>ms</th>"
                  "<th>error</th><th>predicted exposed<br>ms</th><th>measured exposed<br>ms</th>"
                  "<th class=\"t\">measured on</th></tr>\n", f);
        put_pair_row(page, p, m);
        if (lw_run_under_load(m)) {
            n_loaded++;
            continue;
        }
        double e = fabs(lw_both_error_pct((struct lw_both){p->step, m->step}));
        k_judged++;
        sum += e;
        worst = e > worst ? e : worst;
    }
    if (k == 0) {
        fputs("<p>None of these runs is a prediction and an execution of the same plan.</p>\n", f);
        return;
    }
    fprintf(f, "</table></div>\n<p>Over %d %s the step is off by %.1f %% on average, %.1f %% at "
               "most. A step is the median over measured steps of the time from the last end of "
               "the step before on any rank to its own; exposed is communication that runs while "
               "the rank with the longest period neither computes nor copies.</p>\n",
            k_judged, k_judged == 1 ? "pair" : "pairs", k_judged > 0 ? sum / k_judged : 0, worst);
    if (n_loaded > 0)
        fprintf(f, "<p>%d of the executions %s measured under load: other programs took more than "
                   "5 %% of the processors, so %s in no mean. Repeat %s.</p>\n", n_loaded,
                n_loaded == 1 ? "was" : "were", n_loaded == 1 ? "it is" : "they are",
                n_loaded == 1 ? "it" : "them");
}

/* --- one pair --------------------------------------------------------------------------------- */

static void both_cells(FILE *f, struct lw_both v)
{
    ms_cell(f, v.predicted);
    ms_cell(f, v.measured);
}

static void put_parts(FILE *f, const struct lw_comparison *c)
{
    fputs("<div class=\"wide\"><table>\n<tr><th class=\"t\">ms</th><th>predicted</th>"
          "<th>measured</th>"
          "<th>difference</th></tr>\n", f);
    for (int i = -1; i < LW_N_PARTS; i++) {
        struct lw_both v = i < 0 ? c->step : lw_comparison_part(c, i);
        if (i >= 0 && v.predicted == 0 && v.measured == 0)
            continue;
        fputs("<tr>", f);
        cell(f, i < 0 ? "step" : lw_part_name(i));
        fprintf(f, "<td>%.3f</td><td>%.3f</td><td>%+.3f</td></tr>\n",
                (double)v.predicted / (double)LW_PS_PER_MS,
                (double)v.measured / (double)LW_PS_PER_MS,
                (double)(v.predicted - v.measured) / (double)LW_PS_PER_MS);
    }
    fputs("</table></div>\n", f);
}

static void put_bucket_lines(FILE *f, const struct lw_comparison *c)
{
    char size[32];

    fputs("<details><summary>Buckets: ready, start and finish, ms from the start of the step"
          "</summary>\n<div class=\"wide\"><table>\n<tr><th>bucket</th><th class=\"t\">op</th>"
          "<th>size</th>"
          "<th>ready<br>predicted</th><th><br>measured</th><th>start<br>predicted</th>"
          "<th><br>measured</th><th>finish<br>predicted</th><th><br>measured</th>"
          "<th>error</th></tr>\n", f);
    for (int32_t i = 0; i < c->n_buckets; i++) {
        const struct lw_bucket_line *b = &c->buckets[i];
        fprintf(f, "<tr><td>%d</td>", b->bucket);
        cell(f, b->kind);
        fprintf(f, "<td>%s</td>", lw_format_bytes(size, b->bytes.predicted));
        both_cells(f, b->time[LW_BUCKET_READY]);
        both_cells(f, b->time[LW_BUCKET_START]);
        both_cells(f, b->time[LW_BUCKET_FINISH]);
        pct_cell(f, b->time[LW_BUCKET_FINISH]);
        fputs("</tr>\n", f);
    }
    fputs("</table></div>\n</details>\n", f);
}

static enum lw_status put_timeline(const struct page *p, const struct lw_run *runs,
                                   const char *const *names, int32_t n, struct lw_err *err)
{
    struct picture_view view = {runs, n, -1, MAX_RANKS};
    struct picture pic;

    LW_TRY(picture_read(p->store, &view, &pic, err));
    html_timeline(p->f, &pic, names);
    picture_free(&pic);
    return LW_OK;
}

static enum lw_status put_pair(const struct page *page, const struct lw_run *p,
                               const struct lw_run *m, struct lw_err *err)
{
    const struct lw_run pair[2] = {*p, *m};
    const char *const names[2] = {page->names->runs[p - page->runs],
                                  page->names->runs[m - page->runs]};
    struct lw_comparison c = {0};
    char a[24], b[24];
    FILE *f = page->f;

    snprintf(a, sizeof a, "%lld", (long long)p->id);
    snprintf(b, sizeof b, "%lld", (long long)m->id);
    LW_TRY(lw_compare(page->store, a, b, &c, err));
    open_found(page, "section", m, p);
    fputs("\n<h3>", f);
    html_text(f, which(page, m));
    fprintf(f, ": predicted (run %s) against measured (run %s)</h3>\n", a, b);
    if (c.note[0]) {
        fputs("<p class=\"note\">", f);
        html_text(f, c.note);
        fputs("</p>\n", f);
    }
    put_parts(f, &c);
    enum lw_status st = LW_OK;
    if (p->n_spans > 0 && m->n_spans > 0)
        st = put_timeline(page, pair, names, 2, err);
    if (c.n_buckets > 0)
        put_bucket_lines(f, &c);
    fputs("</section>\n", f);
    lw_comparison_free(&c);
    return st;
}

static enum lw_status put_alone(const struct page *p, int32_t i, struct lw_err *err)
{
    const struct lw_run *r = &p->runs[i];

    open_found(p, "section", r, NULL);
    fprintf(p->f, "\n<h3>Run %lld, ", (long long)r->id);
    html_text(p->f, which(p, r));
    fputs("</h3>\n", p->f);
    enum lw_status st = put_timeline(p, r, &p->names->runs[i], 1, err);
    fputs("</section>\n", p->f);
    return st;
}

/* Each pair, then the runs that belong to none. */
static enum lw_status put_runs(const struct page *p, struct lw_err *err)
{
    fputs("<h2>One step, stream by stream</h2>\n", p->f);
    for (int32_t i = 0; i < p->n; i++)
        if (partner(p, i))
            LW_TRY(put_pair(p, partner(p, i), &p->runs[i], err));
    for (int32_t i = 0; i < p->n; i++) {
        bool paired = partner(p, i) != NULL;
        for (int32_t k = 0; k < p->n && !paired; k++)
            paired = partner(p, k) == &p->runs[i];
        if (!paired && p->runs[i].n_spans > 0)
            LW_TRY(put_alone(p, i, err));
    }
    return LW_OK;
}

/* --- plans ------------------------------------------------------------------------------------ */

/* On paper the largest represent all. */
enum { MOST_PRINTED = 10 };

static enum lw_status put_plan_buckets(struct lw_store *s, int64_t plan, FILE *f,
                                       struct lw_err *err)
{
    struct lw_sql *q;
    char size[32], limit[32];
    int n = 0;

    LW_TRY(lw_sql_query(s, &q, err,
                        "SELECT b.set_name, b.launch, b.bytes, b.limit_bytes, b.n_params, b.dtype,"
                        " (SELECT group_concat(name, ', ') FROM (SELECT param.name FROM slot"
                        "   JOIN param ON param.plan = slot.plan AND param.param = slot.param"
                        "   WHERE slot.plan = b.plan AND slot.bucket = b.bucket"
                        "   ORDER BY slot.slot)),"
                        " b.stage, row_number() OVER (ORDER BY b.bytes DESC, b.bucket)"
                        " FROM bucket AS b WHERE b.plan = ? ORDER BY b.bucket",
                        "l", plan));
    fputs("<details><summary>Buckets</summary>\n<div class=\"wide\"><table>\n<tr>"
          "<th class=\"t\">set</th><th>stage</th><th>launch</th><th>size</th>"
          "<th>limit</th><th>gradients</th><th class=\"t\">dtype</th>"
          "<th class=\"t\">in buffer order</th></tr>\n", f);
    while (lw_sql_next(q)) {
        n++;
        fputs(lw_sql_int(q, 8) > MOST_PRINTED ? "<tr class=\"more\">" : "<tr>", f);
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
    fputs("</table></div>\n", f);
    if (n > MOST_PRINTED)
        fprintf(f, "<p class=\"print\">The %d largest of %d; the page has all.</p>\n",
                MOST_PRINTED, n);
    fputs("</details>\n", f);
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
                        "SELECT replace(name, 'reducer', 'collective-algorithm'), value FROM "
                        "plan_option WHERE plan = ? ORDER BY name", "l", plan));
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

static enum lw_status put_plans(const struct page *p, struct lw_err *err)
{
    FILE *f = p->f;

    fputs("<h2>Plans</h2>\n", f);
    for (int32_t i = 0; i < p->n; i++) {
        const struct lw_run *r = &p->runs[i];
        bool seen = r->plan < 0;
        for (int32_t k = 0; k < i; k++)
            seen = seen || lw_same_decisions(&p->runs[k], r);
        if (seen)
            continue;
        open_found(p, "section", r, NULL);
        fputs("\n<h3>", f);
        html_text(f, which(p, r));
        fprintf(f, ", %d ranks</h3>\n<p>Plan <code>", r->n_ranks);
        html_text(f, r->plan_hash);
        fputs("</code></p>\n", f);
        LW_TRY(put_plan_buckets(p->store, r->plan, f, err));
        LW_TRY(put_plan_words(p->store, r->plan, f, err));
        fputs("</section>\n", f);
    }
    return LW_OK;
}

/* --- provenance ------------------------------------------------------------------------------- */

static void framework_cell(FILE *f, const struct lw_run *r)
{
    bool named = r->framework && *r->framework, hashed = r->framework_hash && *r->framework_hash;
    char text[128];

    snprintf(text, sizeof text, "%s%s%.8s%s", named ? r->framework : "-", hashed ? " (" : "",
             hashed ? r->framework_hash : "", hashed ? ")" : "");
    cell(f, text);
}

static void put_provenance(const struct lw_run *runs, int32_t n, FILE *f)
{
    char text[64];

    fputs("<h2>Where this comes from</h2>\n<div class=\"wide\"><table>\n<tr><th>run</th>"
          "<th class=\"t\">kind</th><th class=\"t\">name</th><th class=\"t\">recorded by, file"
          "</th><th class=\"t\">cluster</th><th class=\"t\">framework</th>"
          "<th class=\"t\">started (UTC)</th><th>spans</th>"
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
        framework_cell(f, r);
        strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", gmtime(&at));
        cell(f, text);
        fprintf(f, "<td>%lld</td><td class=\"t\"><code>", (long long)r->n_spans);
        html_text(f, r->command);
        fputs("</code></td></tr>\n", f);
    }
    fprintf(f, "</table></div>\n<footer>Written by lapwing %s from its results database. Not "
               "modelled: data loading, allocator behaviour, checkpoint input and output."
               "</footer>\n"
               "%s</body>\n</html>\n", LW_VERSION, html_script);
}

static bool has_earlier(const struct page *p, int32_t i)
{
    for (int32_t k = 0; k < i; k++)
        if (strcmp(which(p, &p->runs[k]), which(p, &p->runs[i])) == 0)
            return true;
    return false;
}

/* Of several runs also what tells them apart, each once, as many as have room. */
static void put_title(const struct page *p)
{
    enum { ROOM = 110 };
    char all[512] = "", cut[512];
    size_t n = 0;
    int32_t n_more = 0;

    for (int32_t i = 0; i < p->n && p->n > 1; i++) {
        const char *text = which(p, &p->runs[i]);
        if (!text[0] || has_earlier(p, i))
            continue;
        if (n > 0 && n + strlen(text) > ROOM)
            n_more++;
        else if (n < sizeof all)
            n += (size_t)snprintf(all + n, sizeof all - n, "%s%s", n ? " | " : "", text);
    }
    html_text(p->f, p->names->title);
    fputs(n ? " (" : "", p->f);
    html_text(p->f, plot_cut(cut, sizeof cut, all, 120));
    if (n_more > 0)
        fprintf(p->f, " | and %d more", n_more);
    fputs(n ? ")" : "", p->f);
}

static enum lw_status put_page(const struct page *p, struct lw_err *err)
{
    fputs(html_head, p->f);
    put_title(p);
    fputs(html_style, p->f);
    fputs("<h1>", p->f);
    put_title(p);
    fputs("</h1>\n", p->f);
    put_list(p);
    put_pairs(p);
    LW_TRY(put_runs(p, err));
    LW_TRY(put_plans(p, err));
    put_provenance(p->runs, p->n, p->f);
    return LW_OK;
}

/* A plan file has no workload: what differs of its runs says little without its name. */
static enum lw_status name_plan_files(struct page *p, struct lw_arena *a, struct lw_err *err)
{
    for (int32_t i = 0; i < p->n; i++) {
        const struct lw_run *r = &p->runs[i];
        char text[640];
        if (r->workload_name[0] || !r->plan_name[0] ||
            strncmp(p->differs[i], r->plan_name, strlen(r->plan_name)) == 0)
            continue;
        snprintf(text, sizeof text, "%.200s%s%s", r->plan_name, p->differs[i][0] ? ", " : "",
                 p->differs[i]);
        p->differs[i] = lw_arena_strdup(a, text);
        if (!p->differs[i])
            return lw_fail_nomem(err);
    }
    return LW_OK;
}

enum lw_status lw_report_write(struct lw_store *s, const struct lw_run *runs, int32_t n, FILE *f,
                               struct lw_err *err)
{
    struct page p = {.store = s, .runs = runs, .n = n, .f = f};
    struct plot_names names;

    LW_TRY(plot_names_make(runs, n, "Predicted and measured training steps", &names, err));
    p.names = &names;
    enum lw_status st = lw_run_texts(runs, n, LW_RUN_CHOICES, &names.arena, &p.differs, err);
    if (st == LW_OK)
        st = name_plan_files(&p, &names.arena, err);
    if (st == LW_OK)
        st = put_page(&p, err);
    plot_names_free(&names);
    return st;
}

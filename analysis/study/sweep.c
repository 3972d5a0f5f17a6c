/* A sweep: predictions of all combinations of lists, a row for each. */
#include "analysis/study/sweep.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "shared/cli/source_names.h"
#include "shared/numbers/interval_text.h"
#include "shared/strategy/strategy.h"
#include "shared/text/table.h"
#include "shared/text/wrap.h"
#include "shared/timeline/budget.h"
#include "sim/predict/sim_result.h"

struct row {
    int64_t k; /* its combination */
    struct lw_sim_result result;
    const char *status;                  /* "ok", "failed" */
    const char *error;                   /* why it was not predicted, or not stored; "" = neither */
    const char *left_out;                /* an option of pipelines where there is none, or NULL */
    bool made;
    const char *value[LW_OPTION_LISTS];  /* of the swept options, as given */
};

struct sweep {
    const struct lw_option_lists *lists;
    lw_sweep_begin *begin;
    struct lw_arena arena;
    struct row *rows; /* [n_rows] */
    int64_t n_rows;   /* combinations that do not repeat another */
    enum lw_format format;
    bool must_fit, quiet;
    bool has_budget;
    lw_model_maker *make_model;
    struct lw_err first_failure, unstored;
};

static const char *swept_value(const struct sweep *w, int64_t k, const char *name)
{
    for (int i = 0; i < w->lists->n; i++)
        if (strcmp(w->lists->list[i].name, name) == 0)
            return lw_option_lists_value(w->lists, k, i);
    return "";
}

/* --- one combination --- */

static bool of_pipelines(const char *name)
{
    return lw_strategy_is_of_pipelines(name) || strcmp(name, "chunks") == 0;
}

/* Of a swept --pp, 1 is no pipeline. */
static bool is_no_pipeline(const struct sweep *w, int64_t k)
{
    return strcmp(swept_value(w, k, "pp"), "1") == 0;
}

/* It differs from another combination in options that do not apply to both. */
static bool repeats(const struct sweep *w, int64_t k)
{
    for (int i = 0; is_no_pipeline(w, k) && i < w->lists->n; i++)
        if (of_pipelines(w->lists->list[i].name) &&
            strcmp(lw_option_lists_value(w->lists, k, i), w->lists->list[i].values[0]) != 0)
            return true;
    return false;
}

static enum lw_status list_rows(struct sweep *w, struct lw_err *err)
{
    LW_TAKE(&w->arena, w->rows, w->lists->n_combinations, err);
    for (int64_t k = 0; k < w->lists->n_combinations; k++)
        if (!repeats(w, k))
            w->rows[w->n_rows++].k = k;
    return LW_OK;
}

/* Whether a word of a command line gives an option of pipelines. */
static bool is_of_pipelines(const char *word)
{
    char name[40];
    size_t n = strncmp(word, "--", 2) == 0 ? strcspn(word + 2, "=") : 0;

    if (n == 0 || n >= sizeof name)
        return false;
    for (size_t i = 0; i <= n; i++)
        name[i] = i == n ? '\0' : word[2 + i] == '_' ? '-' : word[2 + i];
    return of_pipelines(name);
}

/* Without a pipeline what was given for the others does not apply, as in `tune`.
 * *left_out: the first such option, or NULL. */
static enum lw_status words_of(const struct sweep *w, int64_t k, struct lw_arena *a, int *argc,
                               char ***argv, const char **left_out, struct lw_err *err)
{
    int n = 0;

    *left_out = NULL;
    *argc = w->lists->argc;
    LW_TRY(lw_option_lists_argv(w->lists, k, a, argv, err));
    if (!is_no_pipeline(w, k))
        return LW_OK;
    for (int i = 0; i < *argc; i++) {
        char *word = (*argv)[i];
        if (!is_of_pipelines(word)) {
            (*argv)[n++] = word;
            continue;
        }
        *left_out = *left_out ? *left_out : word;
        if (!strchr(word, '=') && i + 1 < *argc && (*argv)[i + 1][0] != '-')
            i++;
    }
    (*argv)[n] = NULL;
    *argc = n;
    return LW_OK;
}

/* Wrong usage of any combination is found before the first is predicted. */
static enum lw_status check_all(struct sweep *w, int *usage, struct lw_err *err)
{
    for (int64_t i = 0; i < w->n_rows; i++) {
        struct lw_arena a = {0};
        struct lw_prediction s = {.source.silent = true};
        const char *left_out;
        char **argv;
        int argc;
        enum lw_status status = words_of(w, w->rows[i].k, &a, &argc, &argv, &left_out, err);
        *usage = status == LW_OK ? w->begin(&s, argc, argv) : -1;
        w->format = s.format;
        w->must_fit = s.must_fit;
        w->quiet = s.quiet;
        w->has_budget = s.budget.tokens > 0;
        w->make_model = s.source.make_model;
        lw_prediction_free(&s);
        lw_arena_free(&a);
        if (status != LW_OK || *usage >= 0)
            return status;
    }
    return LW_OK;
}

/* A combination that cannot be planned is a row; a name that nothing has is a slip of the pen. */
static enum lw_status check_names(const struct sweep *w, struct lw_err *err)
{
    for (int i = 0; i < w->lists->n; i++)
        for (int k = 0; k < w->lists->list[i].n; k++)
            LW_TRY(lw_source_name_check(w->lists->list[i].name, w->lists->list[i].values[k],
                                        w->make_model, err));
    return LW_OK;
}

/* Only what was asked for is known of it. */
static void put_failed(struct sweep *w, struct row *r)
{
    int64_t k = r->k;

    r->result = (struct lw_sim_result){
        .run = -1, .plan = "", .plan_hash = "", .workload = swept_value(w, k, "workload"),
        .cluster = swept_value(w, k, "cluster"),
        .framework = swept_value(w, k, "framework"),
        .interval_of = "", .step = -1, .p10 = -1, .p90 = -1, .exposed_comm = -1,
        .tokens_per_s = NAN, .tokens_per_s_per_device = NAN, .samples_per_s = NAN, .mfu_pct = NAN,
        .overlap_pct = NAN, .memory_bytes = -1, .device_memory_bytes = -1, .fits = -1,
        .price_per_device_hour = NAN, .cost_per_trillion_tokens = NAN, .days = NAN,
        .days_p10 = NAN, .days_p90 = NAN, .device_hours = NAN, .cost = NAN, .cost_p10 = NAN,
        .cost_p90 = NAN};
    r->status = "failed";
}

/* What the row has of the i-th swept option; "" = it does not apply. */
static const char *value_of(const struct sweep *w, const struct row *r, int i)
{
    bool applies = !is_no_pipeline(w, r->k) || !of_pipelines(w->lists->list[i].name);

    return applies ? lw_option_lists_value(w->lists, r->k, i) : "";
}

static enum lw_status predict(struct sweep *w, struct row *r, struct lw_err *err)
{
    struct lw_prediction s = {.source.silent = r > w->rows}; /* notes of the first alone */
    struct lw_sim_report report;
    struct lw_err why = {0};
    char **argv;
    int argc;

    for (int i = 0; i < w->lists->n; i++)
        r->value[i] = value_of(w, r, i);
    LW_TRY(words_of(w, r->k, &w->arena, &argc, &argv, &r->left_out, err));
    w->begin(&s, argc, argv);
    s.quiet = true;
    enum lw_status status = lw_prediction_make(&s, &report, &why);
    r->made = status == LW_OK;
    if (status == LW_OK) {
        r->status = "ok";
        status = lw_sim_result_of(&report, &w->arena, &r->result, err);
        why = s.unstored;
        if (s.unstored.code != LW_OK && w->unstored.code == LW_OK)
            w->unstored = s.unstored;
    } else {
        put_failed(w, r);
        if (w->first_failure.code == LW_OK)
            w->first_failure = why;
        status = status == LW_ENOMEM ? lw_fail_nomem(err) : LW_OK;
    }
    if (status == LW_OK && !(r->error = lw_arena_strdup(&w->arena, why.code ? why.msg : "")))
        status = lw_fail_nomem(err);
    lw_prediction_free(&s);
    return status;
}

static enum lw_status predict_all(struct sweep *w, struct lw_err *err)
{
    struct lw_progress_bar bar;
    struct lw_progress progress = lw_progress_bar_begin(&bar, w->quiet);
    int64_t n = w->n_rows;
    enum lw_status status = LW_OK;
    char what[64];

    for (int64_t k = 0; status == LW_OK && k < n; k++) {
        snprintf(what, sizeof what, "prediction %lld of %lld", (long long)k + 1, (long long)n);
        lw_progress_report(&progress, what, (double)k / (double)n);
        status = predict(w, &w->rows[k], err);
    }
    lw_progress_bar_end(&bar);
    return status;
}

/* --- text --- */

static void put_tenths(struct lw_table *t, double x)
{
    if (isnan(x))
        lw_table_cell(t, "-");
    else
        lw_table_cell(t, "%.1f", x);
}

static void put_amount(struct lw_table *t, double x)
{
    char text[LW_BUDGET_FIGURE];

    if (isnan(x))
        lw_table_cell(t, "-");
    else
        lw_table_cell(t, "%s", lw_budget_figure(text, x));
}

static void put_interval(struct lw_table *t, const struct lw_sim_result *x)
{
    char text[LW_INTERVAL_PCT];

    lw_table_cell(t, "%s", lw_interval_pct(text, x->step, x->p10, x->p90));
}

/* Four digits: rows are compared. */
static void put_step(struct lw_table *t, lw_ps step)
{
    bool s = step >= LW_PS_PER_S;
    double x = (double)step / (double)(s ? LW_PS_PER_S : LW_PS_PER_MS);

    if (step < 0)
        lw_table_cell(t, "-");
    else
        lw_table_cell(t, "%.*f %s", x < 10 ? 3 : x < 100 ? 2 : 1, x, s ? "s" : "ms");
}

/* Whether a row of the table has the figure. */
static bool any(const struct sweep *w, size_t at)
{
    for (int64_t k = 0; k < w->n_rows; k++)
        if (!isnan(*(const double *)(const void *)((const char *)&w->rows[k].result + at)))
            return true;
    return false;
}

struct shown {
    bool tokens, mfu, days, cost, each, run, frameworks;
};

static void put_row(struct lw_table *t, const struct sweep *w, const struct row *r,
                    const struct shown *has)
{
    const struct lw_sim_result *x = &r->result;

    if (has->run)
        lw_table_cell(t, x->run < 0 ? "-" : "%lld", (long long)x->run);
    for (int i = 0; i < w->lists->n; i++)
        lw_table_cell(t, "%s", r->value[i][0] ? r->value[i] : "-");
    if (has->frameworks)
        lw_table_cell(t, "%s", x->framework ? x->framework : "-");
    put_step(t, x->step);
    put_interval(t, x);
    put_amount(t, has->tokens ? x->tokens_per_s_per_device : x->samples_per_s / x->n_ranks);
    if (has->mfu)
        put_tenths(t, x->mfu_pct);
    put_tenths(t, x->overlap_pct);
    put_tenths(t, x->memory_bytes < 0 ? NAN : (double)x->memory_bytes / 1073741824);
    lw_table_cell(t, "%s", x->fits < 0 ? "-" : lw_sim_fits_word(x->fits));
    if (has->days)
        put_amount(t, x->days);
    if (has->cost)
        put_amount(t, x->cost);
    else if (has->each)
        put_amount(t, x->cost_per_trillion_tokens);
}

static enum lw_status text_table(const struct sweep *w, const struct shown *has, FILE *f,
                                 struct lw_err *err)
{
    const char *titles[LW_OPTION_LISTS + 13];
    int n = 0;

    if (has->run)
        titles[n++] = ">run";
    for (int i = 0; i < w->lists->n; i++)
        titles[n++] = w->lists->list[i].name;
    if (has->frameworks)
        titles[n++] = "framework";
    titles[n++] = ">step";
    titles[n++] = ">p10/p90 %";
    titles[n++] = has->tokens ? ">tokens/s a device" : ">samples/s a device";
    if (has->mfu)
        titles[n++] = ">MFU %";
    titles[n++] = ">overlap %";
    titles[n++] = ">memory GiB";
    titles[n++] = "fits";
    if (has->days)
        titles[n++] = ">days";
    if (has->cost || has->each)
        titles[n++] = has->cost ? ">cost" : ">cost per 1T tokens";
    struct lw_table *t = lw_table_new(n, titles);
    if (!t)
        return lw_fail_nomem(err);
    for (int64_t k = 0; k < w->n_rows; k++)
        put_row(t, w, &w->rows[k], has);
    return lw_table_end(t, f, 0, err);
}

/* "dp 8, tp 2" */
static void put_values(const struct sweep *w, const struct row *r, FILE *f)
{
    const char *before = "";

    for (int i = 0; i < w->lists->n; i++) {
        if (!r->value[i][0])
            continue;
        fprintf(f, "%s%s %s", before, w->lists->list[i].name, r->value[i]);
        before = ", ";
    }
}

/* The row with the most of a figure (or the least: sign -1) among those that are not known to lack
 * memory; NULL: fewer than two have it. */
static const struct row *best_of(const struct sweep *w, size_t at, double sign)
{
    const struct row *best = NULL;
    double most = -INFINITY;
    int n = 0;

    for (int64_t k = 0; k < w->n_rows; k++) {
        const struct row *r = &w->rows[k];
        double x = sign * *(const double *)(const void *)((const char *)&r->result + at);
        if (!r->made || r->result.fits == 0 || isnan(x))
            continue;
        n++;
        if (x > most) {
            most = x;
            best = r;
        }
    }
    return n > 1 ? best : NULL;
}

#define AT(field) offsetof(struct lw_sim_result, field)
static enum lw_status put_best(const struct sweep *w, const struct shown *has, FILE *out,
                               struct lw_err *err)
{
    const struct {
        const char *what;
        size_t at;
        double sign;
    } each[] = {
        {"fastest", AT(tokens_per_s), 1},
        {"fastest", AT(samples_per_s), 1},
        {"cheapest", AT(cost_per_trillion_tokens), -1},
    };

    for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
        const struct row *r = i == 1 && has->tokens ? NULL : best_of(w, each[i].at, each[i].sign);
        struct lw_paragraph line;
        if (!r)
            continue;
        FILE *f = lw_paragraph_open(&line, out, NULL);
        fprintf(f, "%s of those that %sfit: ", each[i].what, r->result.fits < 0 ? "may " : "");
        put_values(w, r, f);
        fprintf(f, r->result.run < 0 ? ": " : " (run %lld): ", (long long)r->result.run);
        double value = *(const double *)(const void *)((const char *)&r->result + each[i].at);
        if (i == 0)
            fprintf(f, "%.0f tokens/s", value);
        else
            fprintf(f, i == 1 ? "%.5g samples/s" : "%.0f per trillion tokens", value);
        LW_TRY(lw_paragraph_close(&line, err));
    }
    return LW_OK;
}

static enum lw_status put_failures(const struct sweep *w, FILE *out, struct lw_err *err)
{
    for (int64_t k = 0; k < w->n_rows; k++) {
        const struct row *r = &w->rows[k];
        struct lw_paragraph line;
        if (!*r->error)
            continue;
        FILE *f = lw_paragraph_open(&line, out, NULL);
        put_values(w, r, f);
        fprintf(f, ": %s%s", r->made ? "not stored: " : "", r->error);
        LW_TRY(lw_paragraph_close(&line, err));
    }
    return LW_OK;
}

/* Rows of which each has the usual framework of its strategy, and these are not the same. */
static bool mixes_frameworks(const struct sweep *w)
{
    const char *first = NULL;

    for (int i = 0; i < w->lists->n; i++)
        if (strcmp(w->lists->list[i].name, "framework") == 0)
            return false;
    for (int64_t k = 0; k < w->n_rows; k++) {
        const char *x = w->rows[k].made ? w->rows[k].result.framework : NULL;
        if (first && x && strcmp(first, x) != 0)
            return true;
        first = x ? x : first;
    }
    return false;
}

static enum lw_status put_mixture(FILE *out, struct lw_err *err)
{
    struct lw_paragraph line;
    FILE *f = lw_paragraph_open(&line, out, NULL);

    fprintf(f, "rows differ in their framework too: each has the usual one of its strategy; "
               "--framework NAME compares strategies alone");
    return lw_paragraph_close(&line, err);
}

static enum lw_status put_left_out(const struct sweep *w, FILE *out, struct lw_err *err)
{
    struct lw_paragraph line;
    int64_t k = 0;

    while (k < w->n_rows && !w->rows[k].left_out)
        k++;
    if (k == w->n_rows)
        return LW_OK;
    const char *word = w->rows[k].left_out;
    FILE *f = lw_paragraph_open(&line, out, NULL);
    fprintf(f, "pp 1 is not a pipeline: its rows are without %.*s", (int)strcspn(word, "="), word);
    return lw_paragraph_close(&line, err);
}

static enum lw_status print_text(const struct sweep *w, FILE *f, struct lw_err *err)
{
    struct shown has = {.tokens = any(w, AT(tokens_per_s)), .mfu = any(w, AT(mfu_pct)),
                        .days = w->has_budget, .cost = any(w, AT(cost)),
                        .each = any(w, AT(cost_per_trillion_tokens)),
                        .frameworks = mixes_frameworks(w)};

    for (int64_t k = 0; k < w->n_rows; k++)
        has.run |= w->rows[k].result.run >= 0;
    LW_TRY(text_table(w, &has, f, err));
    LW_TRY(put_best(w, &has, f, err));
    if (has.frameworks)
        LW_TRY(put_mixture(f, err));
    LW_TRY(put_left_out(w, f, err));
    return put_failures(w, f, err);
}

/* --- JSON, CSV --- */

static bool is_result(const char *name)
{
    for (int i = 0; i < LW_N_SIM_RESULT_COLUMNS; i++)
        if (strcmp(lw_sim_result_columns[i].key, name) == 0)
            return true;
    return false;
}

/* The swept options, then status and error, then what a single prediction has. */
static int columns_of(const struct sweep *w, struct lw_column *c)
{
    int n = 0;

    for (int i = 0; i < w->lists->n; i++)
        if (!is_result(w->lists->list[i].name))
            c[n++] = (struct lw_column){
                .key = w->lists->list[i].name, .kind = LW_COLUMN_TEXT,
                .at = offsetof(struct row, value) + (size_t)i * sizeof(const char *)};
    c[n++] = (struct lw_column){.key = "status", .kind = LW_COLUMN_TEXT,
                                .at = offsetof(struct row, status)};
    c[n++] = (struct lw_column){.key = "error", .kind = LW_COLUMN_TEXT,
                                .at = offsetof(struct row, error)};
    for (int i = 0; i < LW_N_SIM_RESULT_COLUMNS; i++) {
        c[n] = lw_sim_result_columns[i];
        c[n++].at += offsetof(struct row, result);
    }
    return n;
}
#undef AT

static enum lw_status print(const struct sweep *w, FILE *f, struct lw_err *err)
{
    struct lw_column columns[LW_OPTION_LISTS + 2 + LW_N_SIM_RESULT_COLUMNS];
    struct lw_records r = {.key = "runs", .columns = columns, .n_columns = columns_of(w, columns),
                           .rows = w->rows, .n = w->n_rows,
                           .size = sizeof *w->rows};

    return w->format == LW_FORMAT_TEXT ? print_text(w, f, err)
                                       : lw_records_print(&r, w->format, f, err);
}

static enum lw_status judge(const struct sweep *w, struct lw_err *err)
{
    int64_t n_made = 0, n = w->n_rows, n_lack = 0, n_unknown = 0;

    for (int64_t k = 0; k < w->n_rows; k++) {
        n_made += w->rows[k].made;
        n_lack += w->rows[k].made && w->rows[k].result.fits == 0;
        n_unknown += w->rows[k].made && w->rows[k].result.fits < 0;
    }
    if (n_made == 0)
        return lw_fail(err, LW_EINVAL, "none of %lld combinations can be predicted; the first: %s",
                       (long long)n, w->first_failure.msg);
    if (w->unstored.code != LW_OK) {
        *err = w->unstored;
        return err->code;
    }
    if (!w->must_fit || n_lack + n_unknown == 0)
        return LW_OK;
    if (n_lack == 0)
        return lw_fail(err, LW_EINVAL, "--must-fit: of %lld of %lld combinations it is not known",
                       (long long)n_unknown, (long long)n);
    return lw_fail(err, LW_ENO, "--must-fit: %lld of %lld combinations do not fit",
                   (long long)n_lack, (long long)n);
}

enum lw_status lw_sweep(const struct lw_option_lists *lists, lw_sweep_begin *begin, FILE *f,
                        int *usage, struct lw_err *err)
{
    struct sweep w = {.lists = lists, .begin = begin};

    enum lw_status status = list_rows(&w, err);
    if (status == LW_OK)
        status = check_all(&w, usage, err);
    if (status == LW_OK && *usage < 0)
        status = check_names(&w, err);
    if (status == LW_OK && *usage < 0)
        status = predict_all(&w, err);
    if (status == LW_OK && *usage < 0)
        status = print(&w, f, err);
    if (status == LW_OK && *usage < 0)
        status = judge(&w, err);
    lw_arena_free(&w.arena);
    return status;
}

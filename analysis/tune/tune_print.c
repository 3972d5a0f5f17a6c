/* The result of a search: numbers of strategies, the best, the front, and why the others are not
 * among them. */
#include "analysis/tune/tune_print.h"

#include <math.h>
#include <string.h>

#include "shared/numbers/interval_text.h"
#include "shared/text/table.h"
#include "shared/text/wrap.h"
#include "shared/timeline/budget.h"

static const char *step_text(char buf[32], lw_ps step)
{
    bool s = step >= LW_PS_PER_S;
    double x = (double)step / (double)(s ? LW_PS_PER_S : LW_PS_PER_MS);

    snprintf(buf, 32, "%.*f %s", x < 10 ? 4 : x < 100 ? 3 : 2, x, s ? "s" : "ms");
    return buf;
}

/* --- text --- */

static enum lw_status put_space(const struct lw_tune_result *r, FILE *f, struct lw_err *err)
{
    struct lw_paragraph line;
    FILE *o = lw_paragraph_open(&line, f, NULL);

    fprintf(o, "%lld combinations, %lld of them repeat another, %lld are not valid: %lld "
               "strategies",
            (long long)r->n_combinations, (long long)r->n_repeated, (long long)r->n_invalid,
            (long long)r->n_valid);
    return lw_paragraph_close(&line, err);
}

static enum lw_status put_numbers(const struct lw_tune_result *r, FILE *f, struct lw_err *err)
{
    struct lw_paragraph line;
    char step[32];

    LW_TRY(put_space(r, f, err));
    FILE *o = lw_paragraph_open(&line, f, NULL);
    fprintf(o, "%lld simulated, of which %lld do not fit; %lld cannot fit; ",
            (long long)r->n_simulated, (long long)r->n_unfit, (long long)r->n_bounded_memory);
    if (r->interrupted)
        fprintf(o, "%lld were not reached", (long long)lw_tune_n_unreached(r));
    else
        fprintf(o, "%lld cannot be faster than those below", (long long)r->n_bounded_step);
    if (r->least_pruned >= 0)
        fprintf(o, " (they take at least %s)", step_text(step, r->least_pruned));
    LW_TRY(lw_paragraph_close(&line, err));
    fprintf(f, "searched in %.1f s\n", r->wall_s);
    return LW_OK;
}

static bool any_cost(const struct lw_tune_row *const *v, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!isnan(v[i]->cost_per_trillion_tokens))
            return true;
    return false;
}

static bool any_days(const struct lw_tune_row *const *v, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!isnan(v[i]->days))
            return true;
    return false;
}

static bool any_samples(const struct lw_tune_row *const *v, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (v[i]->step_p90 >= 0)
            return true;
    return false;
}

static bool many_sizes(const struct lw_tune_row *const *v, int64_t n)
{
    for (int64_t i = 1; i < n; i++)
        if (v[i]->n_devices != v[0]->n_devices)
            return true;
    return false;
}

static void put_real(struct lw_table *t, int digits, double x)
{
    if (isnan(x))
        lw_table_cell(t, "-");
    else
        lw_table_cell(t, "%.*f", digits, x);
}

/* --- the options of rows: a column for each that differs --- */

enum { SHOWN = 24, WORD = 64 };

struct options {
    char name[SHOWN][WORD], same[SHOWN][WORD]; /* same "": rows differ */
    int n;
};

/* The value of an option in a strategy's text, "-" where it has none. */
static void value_of(const struct lw_tune_row *x, const char *name, char out[WORD])
{
    size_t n = strlen(name);

    snprintf(out, WORD, "-");
    for (const char *at = x->strategy; *at; at += strcspn(at, " "), at += *at == ' ')
        if (strncmp(at, name, n) == 0 && at[n] == '=')
            snprintf(out, WORD, "%.*s", (int)strcspn(at + n + 1, " "), at + n + 1);
}

static bool is_word(const char *word, const char *text, int n)
{
    return (int)strlen(word) == n && strncmp(word, text, (size_t)n) == 0;
}

static void add_names(struct options *o, const struct lw_tune_row *x)
{
    for (const char *at = x->strategy; *at; at += strcspn(at, " "), at += *at == ' ') {
        int i = 0, n = (int)strcspn(at, "=");
        while (i < o->n && !is_word(o->name[i], at, n))
            i++;
        if (i == o->n && n < WORD && o->n < SHOWN)
            snprintf(o->name[o->n++], WORD, "%.*s", n, at);
    }
}

static struct options options_of(const struct lw_tune_row *const *v, int64_t n)
{
    struct options o = {.n = 0};
    char value[WORD];

    for (int64_t i = 0; i < n; i++)
        add_names(&o, v[i]);
    for (int k = 0; k < o.n; k++) {
        value_of(v[0], o.name[k], o.same[k]);
        for (int64_t i = 1; i < n; i++) {
            value_of(v[i], o.name[k], value);
            if (strcmp(value, o.same[k]) != 0)
                o.same[k][0] = '\0';
        }
    }
    return o;
}

static enum lw_status put_same(const struct options *o, FILE *f, struct lw_err *err)
{
    struct lw_paragraph line;
    const char *before = "all with ";
    FILE *out = lw_paragraph_open(&line, f, NULL);

    for (int k = 0; k < o->n; k++)
        if (o->same[k][0]) {
            fprintf(out, "%s%s %s", before, o->name[k], o->same[k]);
            before = ", ";
        }
    return lw_paragraph_close(&line, err);
}

/* Of what rows have. */
struct shown {
    bool noise, sizes, days, cost; /* cost: of the training where `days`, else of 10^12 tokens */
};

static int put_titles(const struct options *o, const struct shown *x, const char **titles)
{
    int k = 0;

    titles[k++] = ">";
    titles[k++] = ">step";
    if (x->noise)
        titles[k++] = ">p90 of samples";
    titles[k++] = ">p10/p90 %";
    titles[k++] = ">tokens/s";
    titles[k++] = ">memory GiB";
    if (x->sizes)
        titles[k++] = ">devices";
    if (x->days)
        titles[k++] = ">days";
    if (x->cost)
        titles[k++] = x->days ? ">cost" : ">cost per 1T tokens";
    for (int i = 0; i < o->n; i++)
        if (!o->same[i][0])
            titles[k++] = o->name[i];
    return k;
}

static void put_figure(struct lw_table *t, double x)
{
    char text[LW_BUDGET_FIGURE];

    lw_table_cell(t, "%s", isnan(x) ? "-" : lw_budget_figure(text, x));
}

static enum lw_status put_table(const struct lw_tune_row *const *v, int64_t n, FILE *f,
                                struct lw_err *err)
{
    const struct options o = options_of(v, n);
    const struct shown shown = {any_samples(v, n), many_sizes(v, n), any_days(v, n),
                                any_cost(v, n)};
    const char *titles[SHOWN + 9];
    char text[WORD];

    struct lw_table *t = lw_table_new(put_titles(&o, &shown, titles), titles);
    if (!t)
        return lw_fail_nomem(err);
    for (int64_t i = 0; i < n; i++) {
        const struct lw_tune_row *x = v[i];
        char pct[LW_INTERVAL_PCT];
        lw_table_cell(t, "%lld", (long long)i + 1);
        lw_table_cell(t, "%s", step_text(text, x->step));
        if (shown.noise)
            lw_table_cell(t, "%s", x->step_p90 < 0 ? "-" : step_text(text, x->step_p90));
        lw_table_cell(t, "%s", lw_interval_pct(pct, x->step, x->p10, x->p90));
        put_real(t, 0, x->tokens_per_s);
        put_real(t, 1, x->device_bytes < 0 ? NAN : (double)x->device_bytes / 1073741824);
        if (shown.sizes)
            lw_table_cell(t, "%lld", (long long)x->n_devices);
        if (shown.days)
            put_figure(t, x->days);
        if (shown.cost)
            put_figure(t, shown.days ? x->cost : x->cost_per_trillion_tokens);
        for (int k = 0; k < o.n; k++)
            if (!o.same[k][0]) {
                value_of(x, o.name[k], text);
                lw_table_cell(t, "%s", text);
            }
    }
    LW_TRY(lw_table_end(t, f, 0, err));
    return put_same(&o, f, err);
}

static enum lw_status put_line(FILE *f, const char *text, struct lw_err *err)
{
    struct lw_paragraph line;
    FILE *o = lw_paragraph_open(&line, f, NULL);

    fputs(text, o);
    return lw_paragraph_close(&line, err);
}

static enum lw_status put_reasons(const struct lw_tune_result *r, FILE *f, struct lw_err *err)
{
    for (int64_t i = 0; i < r->n_reasons; i++) {
        struct lw_paragraph line;
        FILE *o = lw_paragraph_open(&line, f, NULL);
        fprintf(o, "not valid, %lld: %s", (long long)r->reasons[i].n, r->reasons[i].text);
        LW_TRY(lw_paragraph_close(&line, err));
    }
    return LW_OK;
}

enum lw_status lw_tune_print_space(const struct lw_tune_result *r, FILE *f, struct lw_err *err)
{
    LW_TRY(put_space(r, f, err));
    return put_reasons(r, f, err);
}

/* Which of the best are slower by more than the predictor knows. */
static enum lw_status put_apart(const struct lw_tune_result *r, FILE *f, struct lw_err *err)
{
    struct lw_paragraph line;
    int64_t n = 0;

    if (r->n_best < 2 || isnan(r->pairs.within))
        return LW_OK;
    for (int64_t i = 1; i < r->n_best; i++)
        n += !r->best[i]->told_apart;
    FILE *o = lw_paragraph_open(&line, f, NULL);
    if (n == r->n_best - 1)
        fprintf(o, "not told apart: all differ");
    else
        fprintf(o, "not told apart from the first: %lld of them, which differ", (long long)n);
    fprintf(o, " by less than %.0f %%. 80 %% of pairs of measured runs are within that (one table, "
               "%sone framework, device, parallelism and network; median of %d tables)",
            100 * (r->pairs.within - 1), r->pairs.same ? "the same parallelism as the first, " : "",
            r->pairs.n_tables);
    return lw_paragraph_close(&line, err);
}

/* Over several lines that a shell reads as one. */
static void put_command(FILE *f, const char *command)
{
    int width = lw_columns_of(f) - 2, at = 2; /* room for what continues a line */

    fputc(' ', f);
    for (const char *word = command; *word;) {
        int n = (int)strcspn(word, " ");
        if (at > 2 && at + 1 + n > width) {
            fputs(" \\\n     ", f);
            at = 5;
        }
        fprintf(f, " %.*s", n, word);
        at += 1 + n;
        word += n + (word[n] == ' ');
    }
    fputc('\n', f);
}

/* Where all of it is, and which of the best are runs. */
static enum lw_status put_stored(const struct lw_tune_report *p, FILE *f, struct lw_err *err)
{
    const struct lw_tune_result *r = p->r;
    struct lw_paragraph line;
    int64_t n = 0;

    if (p->search == 0)
        return LW_OK;
    while (n < r->n_best && r->best[n]->run > 0)
        n++;
    FILE *o = lw_paragraph_open(&line, f, NULL);
    fprintf(o, "stored: search %lld of %s", (long long)p->search, p->db);
    for (int64_t i = 0; i < n; i++)
        fprintf(o, "%s %lld", i > 0 ? "," : n > 1 ? "; the first ones are runs" :
                "; the first is run", (long long)r->best[i]->run);
    return lw_paragraph_close(&line, err);
}

static enum lw_status print_text(const struct lw_tune_report *p, FILE *f, struct lw_err *err)
{
    const struct lw_tune_result *r = p->r;
    struct lw_paragraph line;
    FILE *o = lw_paragraph_open(&line, f, NULL);

    fprintf(o, "%s on %s, %lld samples a step", p->model, p->cluster, (long long)p->global_batch);
    if (p->framework[0])
        fprintf(o, ", framework %s", p->framework);
    if (p->shard.n > 1)
        fprintf(o, ", shard %lld of %lld", (long long)p->shard.i, (long long)p->shard.n);
    LW_TRY(lw_paragraph_close(&line, err));
    LW_TRY(put_numbers(r, f, err));
    LW_TRY(lw_tune_spreads_text(&p->spreads, f, err));
    if (r->has_noise)
        LW_TRY(put_line(f, "ranked by the p90 of samples: the step that 90 % of the samples do not "
                           "exceed, drawn as the commands of the rows draw them", err));
    if (r->interrupted)
        LW_TRY(put_line(f, "interrupted: the best of those that were simulated", err));
    fputc('\n', f);
    if (r->n_best > 0) {
        LW_TRY(put_table(r->best, r->n_best, f, err));
        LW_TRY(put_apart(r, f, err));
        fputs("\nthe first, with all that sim says of it:\n", f);
        put_command(f, r->best[0]->command);
    }
    LW_TRY(put_stored(p, f, err));
    if (r->n_front > 1) {
        fputs("\nno simulated strategy is better in step, memory, devices and price than\n", f);
        LW_TRY(put_table(r->front, r->n_front, f, err));
    }
    if (r->n_reasons > 0)
        fputc('\n', f);
    return put_reasons(r, f, err);
}

/* --- JSON, CSV --- */

#define AT(field) offsetof(struct lw_tune_row, field)
static const struct lw_column columns[] = {
    {"strategy", NULL, LW_COLUMN_TEXT, AT(strategy)},
    {"step_ns", NULL, LW_COLUMN_PS, AT(step)},
    {"step_p90_ns", NULL, LW_COLUMN_PS, AT(step_p90), .lacking = ""},
    {"bound_ns", NULL, LW_COLUMN_PS, AT(bound)},
    {"p10_ns", NULL, LW_COLUMN_PS, AT(p10), .lacking = ""},
    {"p90_ns", NULL, LW_COLUMN_PS, AT(p90), .lacking = ""},
    {"tokens_per_s", NULL, LW_COLUMN_EXACT, AT(tokens_per_s), 1, .lacking = ""},
    {"samples_per_s", NULL, LW_COLUMN_EXACT, AT(samples_per_s), 4, .lacking = ""},
    {"told_apart", NULL, LW_COLUMN_FLAG, AT(told_apart)},
    {"n_devices", NULL, LW_COLUMN_INT, AT(n_devices)},
    {"peak_memory_bytes", NULL, LW_COLUMN_BYTES, AT(peak_memory_bytes), .lacking = ""},
    {"memory_bytes", NULL, LW_COLUMN_BYTES, AT(device_bytes), .lacking = ""},
    {"needed_bytes", NULL, LW_COLUMN_BYTES, AT(needed_bytes), .lacking = ""},
    {"needed_bound_bytes", NULL, LW_COLUMN_BYTES, AT(needed_bound), .lacking = ""},
    {"fits", NULL, LW_COLUMN_FLAG, AT(fits)},
    {"cost_per_trillion_tokens", NULL, LW_COLUMN_EXACT, AT(cost_per_trillion_tokens), 2,
     .lacking = ""},
    {"days", NULL, LW_COLUMN_REAL, AT(days), 4, .lacking = ""},
    {"cost", NULL, LW_COLUMN_REAL, AT(cost), 2, .lacking = ""},
    {"run", NULL, LW_COLUMN_INT, AT(run), .lacking = ""},
    {"interval_of", NULL, LW_COLUMN_TEXT, AT(interval_of)},
    {"command", NULL, LW_COLUMN_TEXT, AT(command)},
};
#undef AT

static void put_rows(struct lw_jsonout *o, const char *key, const struct lw_tune_row *const *v,
                     int64_t n)
{
    lw_jsonout_array(o, key);
    for (int64_t i = 0; i < n; i++) {
        lw_jsonout_line_object(o, NULL);
        lw_record_json(o, columns, LW_N_COLUMNS(columns), v[i]);
        lw_jsonout_end(o);
    }
    lw_jsonout_end(o);
}

static void print_json(const struct lw_tune_report *p, FILE *f)
{
    const struct lw_tune_result *r = p->r;
    struct lw_jsonout o = {.file = f};

    lw_jsonout_object(&o, NULL);
    LW_JSON(&o, "model", p->model, "cluster", p->cluster, "framework", p->framework,
            "global_batch", p->global_batch);
    lw_tune_spreads_json(&p->spreads, &o);
    LW_JSON(&o, "search", p->search, "shard", p->shard.n > 1 ? p->shard.i : 1, "n_shards",
            p->shard.n > 1 ? p->shard.n : 1);
    LW_JSON(&o, "n_combinations", r->n_combinations, "n_repeated", r->n_repeated, "n_invalid",
            r->n_invalid, "n_valid", r->n_valid, "n_bounded",
            r->n_bounded_step + r->n_bounded_memory, "n_bounded_step", r->n_bounded_step,
            "n_bounded_memory", r->n_bounded_memory, "n_simulated", r->n_simulated, "n_unfit",
            r->n_unfit, "n_unreached", lw_tune_n_unreached(r), "interrupted", r->interrupted);
    if (r->least_pruned >= 0)
        lw_jsonout_int(&o, "least_pruned_ns", lw_ps_to_ns(r->least_pruned));
    else
        lw_jsonout_null(&o, "least_pruned_ns");
    lw_jsonout_double(&o, "difference_pct", 100 * (r->pairs.within - 1));
    lw_jsonout_double(&o, "wall_s", r->wall_s);
    put_rows(&o, "best", r->best, r->n_best);
    put_rows(&o, "pareto", r->front, r->n_front);
    lw_jsonout_array(&o, "invalid");
    for (int64_t i = 0; i < r->n_reasons; i++)
        LW_JSON_ROW(&o, NULL, "n", r->reasons[i].n, "reason", r->reasons[i].text, "example",
                    r->reasons[i].example);
    lw_jsonout_end(&o);
    lw_jsonout_end(&o);
}

enum lw_status lw_tune_print(const struct lw_tune_report *p, enum lw_format format, FILE *f,
                             struct lw_err *err)
{
    if (format == LW_FORMAT_TEXT)
        return print_text(p, f, err);
    if (format == LW_FORMAT_JSON) {
        print_json(p, f);
        return LW_OK;
    }
    return lw_records_print(&(struct lw_records){.key = "simulated", .columns = columns,
                                                 .n_columns = LW_N_COLUMNS(columns),
                                                 .rows = p->r->rows, .n = p->r->n_rows,
                                                 .size = sizeof *p->r->rows},
                            format, f, err);
}

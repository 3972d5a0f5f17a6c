/* Files of measured training runs: titles, the checks of all cells, and the options of a row.
 *
 * The titles that are options come from the table that `lapwing sim` parses its command line with,
 * and a cell is set by the function that sets an option. So a new option is a new column. */
#include "analysis/evidence/runs_file.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/nearest.h"
#include "shared/base/shown_text.h"
#include "shared/files/files.h"

#define MODEL_OPTION "workload" /* its column is `model` */

static const char *const flops_words[] = {"model", "model-causal", "hardware", "hardware-causal",
                                          NULL};
static const char *const kind_words[] = {"allocated", "reserved", "device", NULL};
static const char *const rank_words[] = {"fullest", "first", "last", NULL};
static const char *const outcome_words[] = {"ran", "out-of-memory", "failed", NULL};

static const struct {
    const char *title;
    bool is_number, is_time;
    const char *const *words; /* NULL: any text */
} cells[LW_N_RUN_CELLS] = {
    [LW_RUN_ID] = {"id"},
    [LW_RUN_TABLE] = {"table"},
    [LW_RUN_WHY] = {"why"},
    [LW_RUN_SOURCE] = {"source"},
    [LW_RUN_ASSUMED] = {"assumed"},
    [LW_RUN_NOTE] = {"note"},
    [LW_RUN_STEP] = {"step_s", .is_number = true, .is_time = true},
    [LW_RUN_TOKENS] = {"tokens_s_device", .is_number = true, .is_time = true},
    [LW_RUN_SAMPLES] = {"samples_s", .is_number = true, .is_time = true},
    [LW_RUN_TFLOPS] = {"tflops_device", .is_number = true, .is_time = true},
    [LW_RUN_MFU] = {"mfu_pct", .is_number = true, .is_time = true},
    [LW_RUN_MEMORY_GIB] = {"memory_gib", .is_number = true},
    [LW_RUN_MEMORY_GB] = {"memory_gb", .is_number = true},
    [LW_RUN_OUTCOME] = {"outcome", .words = outcome_words},
    [LW_RUN_FLOPS] = {"flops", .words = flops_words},
    [LW_RUN_MFU_PEAK] = {"mfu_peak_tflops", .is_number = true},
    [LW_RUN_MEMORY_KIND] = {"memory_kind", .words = kind_words},
    [LW_RUN_MEMORY_RANK] = {"memory_rank", .words = rank_words},
};

bool lw_runs_are(const struct lw_input *in)
{
    return lw_rows_have(in, "model");
}

static const char *cell_at(const struct lw_runs *r, int32_t row, int32_t column)
{
    return column < 0 ? "" : r->rows.cells[(int64_t)row * r->rows.n_columns + column];
}

const char *lw_runs_cell(const struct lw_runs *r, int32_t row, enum lw_runs_cell cell)
{
    return cell_at(r, row, r->at[cell]);
}

/* --- faults ----------------------------------------------------------------------------------- */

static enum lw_status put_fault(struct lw_runs *r, struct lw_runs_fault f, struct lw_err *err)
{
    void *room = lw_arena_more(&r->arena, r->faults, r->n_faults, sizeof f);

    if (!room)
        return lw_fail_nomem(err);
    r->faults = room;
    r->faults[r->n_faults++] = f;
    return LW_OK;
}

static enum lw_status fault(struct lw_runs *r, int32_t row, int32_t column, struct lw_err *err,
                            const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/* row -1: of the titles, and then no row is any good. */
static enum lw_status fault(struct lw_runs *r, int32_t row, int32_t column, struct lw_err *err,
                            const char *fmt, ...)
{
    struct lw_runs_fault f = {.line = row < 0 ? 1 : r->rows.line[row],
                              .column = column < 0 ? "" : r->rows.titles[column]};
    va_list ap;

    va_start(ap, fmt);
    char *what = lw_arena_vprintf(&r->arena, fmt, ap);
    va_end(ap);
    if (!what)
        return lw_fail_nomem(err);
    bool named = *f.column && row >= 0; /* a fault of a title names it */
    LW_PRINT(&r->arena, f.text, err, "%s:%d: %s%s%s", r->rows.file, f.line, named ? f.column : "",
             named ? ": " : "", what);
    LW_TRY(put_fault(r, f, err));
    for (int32_t i = 0; i < r->rows.n_rows; i++)
        r->is_bad[i] |= row < 0 || i == row;
    return LW_OK;
}

/* --- titles ----------------------------------------------------------------------------------- */

/* As on a command line '_' is '-'. */
static bool is_option(const char *title, const char *option)
{
    if (strcmp(option, MODEL_OPTION) == 0)
        return strcmp(title, "model") == 0;
    for (; *title && *option; title++, option++)
        if ((*title == '_' ? '-' : *title) != *option)
            return false;
    return *title == *option;
}

/* A measured title with another unit ("step_ms", "memory_mib"), and the model's other name. */
static const char *unit_hint(const char *title)
{
    static const struct {
        const char *start, *units;
    } measured[] = {
        {"step_", "; a step is measured in seconds: 'step_s'"},
        {"tokens_", "; tokens are measured per second and device: 'tokens_s_device'"},
        {"tok_", "; tokens are measured per second and device: 'tokens_s_device'"},
        {"samples_", "; samples are measured per second of the whole job: 'samples_s'"},
        {"tflops", "; a FLOP rate is of one device: 'tflops_device'"},
        {"mfu", "; a utilisation is in percent: 'mfu_pct'"},
        {MODEL_OPTION, "; the model's column is 'model'"},
        {"mem", "; memory is measured in 2^30 bytes ('memory_gib') or 10^9 ('memory_gb')"},
    };

    for (size_t i = 0; i < sizeof measured / sizeof *measured; i++)
        if (strncmp(title, measured[i].start, strlen(measured[i].start)) == 0)
            return measured[i].units;
    return NULL;
}

static enum lw_status unknown_title(struct lw_runs *r, int32_t column, const struct lw_opt *options,
                                    struct lw_err *err)
{
    const char *title = r->rows.titles[column], *units = unit_hint(title);
    struct lw_nearest near = lw_nearest_begin(title);
    char hint[96];

    for (int k = 0; k < LW_N_RUN_CELLS; k++)
        lw_nearest_try(&near, cells[k].title);
    for (const struct lw_opt *o = options; o->name; o++)
        lw_nearest_try(&near, strcmp(o->name, MODEL_OPTION) == 0 ? "model" : o->name);
    return fault(r, -1, column, err,
                 "unknown column '%s'%s; expected an option of `lapwing sim`, or a column of "
                 "docs/formats/runs.md",
                 title, units ? units : lw_nearest_hint(&near, "", hint, sizeof hint));
}

static enum lw_status take_title(struct lw_runs *r, int32_t column, const struct lw_opt *options,
                                 struct lw_err *err)
{
    const char *title = r->rows.titles[column];
    int k = 0;

    r->option[column] = -1;
    while (k < LW_N_RUN_CELLS && strcmp(title, cells[k].title) != 0)
        k++;
    if (k < LW_N_RUN_CELLS) {
        r->at[k] = column;
        return LW_OK;
    }
    k = 0;
    while (options[k].name && !is_option(title, options[k].name))
        k++;
    if (!options[k].name)
        return unknown_title(r, column, options, err);
    for (int32_t c = 0; c < column; c++)
        if (r->option[c] == k)
            return fault(r, -1, column, err, "the columns '%s' and '%s' are the same option",
                         r->rows.titles[c], title);
    r->option[column] = k;
    return LW_OK;
}

static int32_t column_of(const struct lw_runs *r, const struct lw_opt *options, const char *name)
{
    for (int32_t c = 0; c < r->rows.n_columns; c++)
        if (r->option[c] >= 0 && strcmp(options[r->option[c]].name, name) == 0)
            return c;
    return -1;
}

/* --- options ---------------------------------------------------------------------------------- */

/* A file is named relative to the file of runs. */
static const char *placed(const struct lw_runs *r, const char *text, struct lw_arena *arena)
{
    size_t n = strlen(text);
    bool is_file = strchr(text, '/') || (n > 5 && strcmp(text + n - 5, ".json") == 0);

    return !is_file || *text == '/' || !*r->folder
               ? text
               : lw_arena_printf(arena, "%s%s", r->folder, text);
}

/* A flag's cell; NULL: neither word. */
static const bool *yes_or_no(const char *text)
{
    static const bool yes = true, no = false;

    return strcmp(text, "yes") == 0 ? &yes : strcmp(text, "no") == 0 || !*text ? &no : NULL;
}

static enum lw_status set(const struct lw_runs *r, const struct lw_opt *o, const char *text,
                          struct lw_arena *arena, struct lw_err *err)
{
    if (o->kind == LW_OPT_FLAG) {
        const bool *given = yes_or_no(text);
        if (!given)
            return lw_fail(err, LW_EINVAL, "unknown value '%s'; expected yes or no", text);
        return *given ? lw_cli_set(o, text, err) : LW_OK;
    }
    if (!*text)
        return LW_OK;
    if (o->kind == LW_OPT_STRING)
        text = placed(r, text, arena);
    return text ? lw_cli_set(o, text, err) : lw_fail_nomem(err);
}

enum lw_status lw_runs_source(const struct lw_runs *r, int32_t row, struct lw_arena *arena,
                              struct lw_plan_source *source, int32_t *column, struct lw_err *err)
{
    struct lw_opt options[LW_PLAN_SOURCE_OPTIONS + 1];

    lw_plan_source_options(source, options);
    for (*column = 0; *column < r->rows.n_columns; ++*column) {
        int32_t k = r->option[*column];
        if (k >= 0)
            LW_TRY(set(r, &options[k], cell_at(r, row, *column), arena, err));
    }
    return LW_OK;
}

/* A word of a shell. */
static bool is_plain(const char *text)
{
    return text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                             "._-+/:,=@%^")] == '\0';
}

static const char *quoted(const char *text, struct lw_arena *arena)
{
    size_t n = strlen(text), k = 0;
    char *out;

    if (is_plain(text))
        return text;
    out = lw_arena_alloc(arena, 4 * (int64_t)n + 3, 1);
    for (out ? out[k++] = '\'' : 0; out && *text; text++) {
        if (*text == '\'')
            k += (size_t)sprintf(out + k, "'\\''");
        else
            out[k++] = *text;
    }
    if (out)
        out[k] = '\'';
    return out;
}

enum lw_status lw_runs_command(const struct lw_runs *r, int32_t row, struct lw_arena *arena,
                               const char **out, struct lw_err *err)
{
    struct lw_plan_source s;
    struct lw_opt options[LW_PLAN_SOURCE_OPTIONS + 1];

    lw_plan_source_init(&s);
    lw_plan_source_options(&s, options);
    LW_PRINT(arena, *out, err, "lapwing sim");
    for (int32_t c = 0; c < r->rows.n_columns; c++) {
        const char *text = cell_at(r, row, c);
        if (r->option[c] < 0 || !*text)
            continue;
        const struct lw_opt *o = &options[r->option[c]];
        bool flag = o->kind == LW_OPT_FLAG;
        if (flag && !*yes_or_no(text))
            continue;
        text = flag ? "" : placed(r, text, arena);
        text = text ? quoted(text, arena) : NULL;
        if (!text)
            return lw_fail_nomem(err);
        if (o->letter == 'w' || o->letter == 'c')
            LW_PRINT(arena, *out, err, "%s -%c %s", *out, o->letter, text);
        else
            LW_PRINT(arena, *out, err, "%s --%s%s%s", *out, o->name, flag ? "" : " ", text);
    }
    return LW_OK;
}

/* --- cells ------------------------------------------------------------------------------------ */

/* NAN: not a number above 0. */
static double number(const char *text)
{
    char *end;
    bool plain = *text && text[strspn(text, "0123456789.")] == '\0';
    double v = plain ? strtod(text, &end) : NAN;

    return plain && !*end && v > 0 && isfinite(v) ? v : NAN;
}

double lw_runs_number(const struct lw_runs *r, int32_t row, enum lw_runs_cell cell)
{
    double v = number(lw_runs_cell(r, row, cell));

    return isnan(v) ? 0 : v;
}

static enum lw_status check_cell(struct lw_runs *r, int32_t row, int k, struct lw_err *err)
{
    const char *text = lw_runs_cell(r, row, (enum lw_runs_cell)k);
    struct lw_err why = {0};

    if (!*text)
        return LW_OK;
    if (cells[k].is_number && isnan(number(text)))
        return fault(r, row, r->at[k], err,
                     "found '%.40s', expected a number above 0 without an exponent or a unit, or "
                     "an empty cell where nothing was measured",
                     text);
    if (k == LW_RUN_MFU && number(text) > 100)
        return fault(r, row, r->at[k], err,
                     "found '%.40s', expected at most 100: no device exceeds its peak",
                     text);
    for (const char *const *w = cells[k].words; w; w++) {
        if (!*w) {
            lw_fail_word(&why, NULL, text, cells[k].words);
            return fault(r, row, r->at[k], err, "%s", why.msg);
        }
        if (strcmp(*w, text) == 0)
            return LW_OK;
    }
    return LW_OK;
}

static bool has(const struct lw_runs *r, int32_t row, enum lw_runs_cell cell)
{
    return *lw_runs_cell(r, row, cell) != '\0';
}

static bool ran(const struct lw_runs *r, int32_t row)
{
    const char *text = lw_runs_cell(r, row, LW_RUN_OUTCOME);

    return !*text || strcmp(text, "ran") == 0;
}

/* The measured cells of a row against each other. */
static enum lw_status check_measured(struct lw_runs *r, int32_t row, struct lw_err *err)
{
    bool rate = has(r, row, LW_RUN_TFLOPS) || has(r, row, LW_RUN_MFU);
    bool gib = has(r, row, LW_RUN_MEMORY_GIB), gb = has(r, row, LW_RUN_MEMORY_GB);
    int first = -1;

    for (int k = 0; k < LW_N_RUN_CELLS; k++) {
        if (!cells[k].is_time || !has(r, row, (enum lw_runs_cell)k))
            continue;
        if (first >= 0)
            return fault(r, row, r->at[k], err,
                         "found '%s' beside %s '%s'; expected one measured time: leave one empty",
                         lw_runs_cell(r, row, (enum lw_runs_cell)k), cells[first].title,
                         lw_runs_cell(r, row, (enum lw_runs_cell)first));
        first = k;
    }
    if (first >= 0 && !ran(r, row))
        return fault(r, row, r->at[first], err,
                     "found '%s' beside outcome '%s'; expected no time of a run that did not run",
                     lw_runs_cell(r, row, (enum lw_runs_cell)first),
                     lw_runs_cell(r, row, LW_RUN_OUTCOME));
    if (rate && !has(r, row, LW_RUN_FLOPS))
        return fault(r, row, r->at[first], err,
                     "a FLOP rate needs its definition in column 'flops': model, model-causal, "
                     "hardware or hardware-causal");
    if (has(r, row, LW_RUN_FLOPS) && !rate)
        return fault(r, row, r->at[LW_RUN_FLOPS], err,
                     "found '%s' without a FLOP rate; expected tflops_device or mfu_pct beside it",
                     lw_runs_cell(r, row, LW_RUN_FLOPS));
    if (has(r, row, LW_RUN_MFU_PEAK) && !has(r, row, LW_RUN_MFU))
        return fault(r, row, r->at[LW_RUN_MFU_PEAK], err, "found '%s' without mfu_pct",
                     lw_runs_cell(r, row, LW_RUN_MFU_PEAK));
    if (gib && gb)
        return fault(r, row, r->at[LW_RUN_MEMORY_GB], err,
                     "found '%s' beside memory_gib '%s'; expected one of them",
                     lw_runs_cell(r, row, LW_RUN_MEMORY_GB),
                     lw_runs_cell(r, row, LW_RUN_MEMORY_GIB));
    if ((gib || gb) && !has(r, row, LW_RUN_MEMORY_KIND))
        return fault(r, row, r->at[gib ? LW_RUN_MEMORY_GIB : LW_RUN_MEMORY_GB], err,
                     "memory needs its kind in column 'memory_kind': allocated, reserved or device "
                     "(nvidia-smi)");
    return LW_OK;
}

/* What a row must give. Without a cluster a prediction would be of this machine. */
static const struct {
    const char *option, *what;
} needed[] = {
    {MODEL_OPTION, "a model"},
    {"cluster", "a known cluster or a cluster file ('host' is this machine)"},
};
enum { N_NEEDED = sizeof needed / sizeof *needed };

static enum lw_status check_given(struct lw_runs *r, int32_t row, const struct lw_opt *options,
                                  struct lw_err *err)
{
    for (int k = 0; k < N_NEEDED; k++) {
        int32_t c = column_of(r, options, needed[k].option);
        if (!*cell_at(r, row, c))
            return fault(r, row, c, err, "found an empty cell, expected %s", needed[k].what);
    }
    return LW_OK;
}

/* The column of the first option that a message names, as "--dp"; -1 = none. */
static int32_t named_column(const struct lw_runs *r, const struct lw_opt *options, const char *text)
{
    for (const char *at = strstr(text, "--"); at; at = strstr(at + 2, "--")) {
        char name[48];
        size_t n = strspn(at + 2, "abcdefghijklmnopqrstuvwxyz-");
        snprintf(name, sizeof name, "%.*s", n < sizeof name ? (int)n : 0, at + 2);
        int32_t c = column_of(r, options, name);
        if (c >= 0)
            return c;
    }
    return -1;
}

/* What contradicts itself in the options, and names that nothing has. */
static enum lw_status check_options(struct lw_runs *r, int32_t row, struct lw_plan_source *s,
                                    const struct lw_opt *options, struct lw_err *err)
{
    struct lw_cluster cluster;
    struct lw_err why = {0};
    const char *what = "cluster";
    enum lw_status status = lw_plan_source_cluster(s, &cluster, &why);

    if (status == LW_OK) {
        what = "framework";
        status = lw_plan_source_given(s, &why);
        if (status == LW_OK) {
            status = lw_plan_source_check(s, &cluster, &why);
            bool named = lw_names_file(s->workload_file) ||
                         (status != LW_OK && lw_plan_source_is_model(s, s->workload_file));
            what = named ? "" : MODEL_OPTION;
        }
        lw_cluster_free(&cluster);
    }
    if (status == LW_OK || status == LW_ENOTSUP) /* not wrong: this build cannot predict it */
        return LW_OK;
    if (status == LW_ENOMEM)
        return lw_fail_nomem(err);
    return fault(r, row, *what ? column_of(r, options, what) : named_column(r, options, why.msg),
                 err, "%s", why.msg);
}

/* A message of an option's value without "--name: ", which a command line has. */
static const char *bare(const char *text, const char *option)
{
    size_t n = strlen(option);
    bool named = strncmp(text, "--", 2) == 0 && strncmp(text + 2, option, n) == 0 &&
                 strncmp(text + 2 + n, ": ", 2) == 0;

    return named ? text + n + 4 : text;
}

static enum lw_status check_row(struct lw_runs *r, int32_t row, lw_model_maker *make_model,
                                const struct lw_opt *options, struct lw_err *err)
{
    struct lw_plan_source s;
    struct lw_err why = {0};
    struct lw_arena scratch = {0};
    int32_t column, before = r->n_faults;

    for (int k = 0; k < LW_N_RUN_CELLS; k++)
        LW_TRY(check_cell(r, row, k, err));
    lw_plan_source_init(&s);
    s.make_model = make_model;
    s.predicts = s.silent = true;
    enum lw_status status = lw_runs_source(r, row, &scratch, &s, &column, &why);
    if (status == LW_ENOMEM)
        status = lw_fail_nomem(err);
    else if (status != LW_OK)
        status = fault(r, row, column, err, "%s",
                       bare(why.msg, options[r->option[column]].name));
    bool expressed = !has(r, row, LW_RUN_WHY);
    if (status == LW_OK && r->n_faults == before)
        status = check_measured(r, row, err);
    if (status == LW_OK && expressed && r->n_faults == before)
        status = check_given(r, row, options, err);
    if (status == LW_OK && expressed && r->n_faults == before)
        status = check_options(r, row, &s, options, err);
    lw_plan_source_free(&s);
    lw_arena_free(&scratch);
    return status;
}

/* A row without a reason why it cannot be predicted. */
static bool any_is_expressed(const struct lw_runs *r)
{
    for (int32_t i = 0; i < r->rows.n_rows; i++)
        if (!has(r, i, LW_RUN_WHY))
            return true;
    return false;
}

/* Whether a run's id is the name of another one in its table: that one's id, or, where it has none,
 * its line number. */
static bool is_named(const struct lw_runs *r, int32_t row, int32_t other, const char *stem)
{
    const char *id = lw_runs_cell(r, row, LW_RUN_ID), *table = lw_runs_cell(r, row, LW_RUN_TABLE);
    const char *its = lw_runs_cell(r, other, LW_RUN_ID);
    const char *of = lw_runs_cell(r, other, LW_RUN_TABLE);
    char line[16];

    snprintf(line, sizeof line, "%d", r->rows.line[other]);
    return strcmp(*table ? table : stem, *of ? of : stem) == 0 &&
           strcmp(id, *its ? its : line) == 0;
}

static enum lw_status check_ids(struct lw_runs *r, struct lw_err *err)
{
    char stem[80];

    lw_file_stem(stem, sizeof stem, r->rows.file);
    for (int32_t i = 0; i < r->rows.n_rows; i++) {
        const char *id = lw_runs_cell(r, i, LW_RUN_ID);
        for (int32_t j = 0; *id && j < r->rows.n_rows; j++) {
            bool numbered = !has(r, j, LW_RUN_ID);
            if (j == i || (j > i && !numbered) || !is_named(r, i, j, stem))
                continue;
            LW_TRY(numbered
                       ? fault(r, i, r->at[LW_RUN_ID], err,
                               "found '%s', which is the name of line %s, that has no id; expected "
                               "a name for each run: an id there, or another one here", id, id)
                       : fault(r, i, r->at[LW_RUN_ID], err,
                               "found '%s' in line %d too; expected a name for each run", id,
                               r->rows.line[j]));
            break;
        }
    }
    return LW_OK;
}

static enum lw_status check(struct lw_runs *r, lw_model_maker *make_model, struct lw_err *err)
{
    struct lw_plan_source s;
    struct lw_opt options[LW_PLAN_SOURCE_OPTIONS + 1];

    LW_TAKE(&r->arena, r->option, r->rows.n_columns, err);
    LW_TAKE(&r->arena, r->is_bad, r->rows.n_rows, err);
    for (int k = 0; k < LW_N_RUN_CELLS; k++)
        r->at[k] = -1;
    lw_plan_source_init(&s);
    lw_plan_source_options(&s, options);
    for (int32_t c = 0; c < r->rows.n_columns; c++)
        LW_TRY(take_title(r, c, options, err));
    for (int k = 0; any_is_expressed(r) && k < N_NEEDED; k++)
        if (column_of(r, options, needed[k].option) < 0)
            LW_TRY(fault(r, -1, -1, err, "no column '%s', expected %s in each row",
                         k == 0 ? "model" : needed[k].option, needed[k].what));
    if (r->n_faults > 0)
        return LW_OK;
    for (int32_t i = 0; i < r->rows.n_rows; i++)
        LW_TRY(check_row(r, i, make_model, options, err));
    return check_ids(r, err);
}

enum lw_status lw_runs_read(const struct lw_input *in, lw_model_maker *make_model,
                            struct lw_runs *out, struct lw_err *err)
{
    struct lw_runs r = {.n_faults = 0};
    const char *slash = strrchr(in->name, '/');
    size_t n = slash ? (size_t)(slash - in->name) + 1 : 0;

    LW_TRY(lw_rows_read_good(in, &r.rows, err));
    r.folder = lw_arena_strndup(&r.arena, in->name, n);
    enum lw_status s = r.folder ? check(&r, make_model, err) : lw_fail_nomem(err);
    for (int32_t i = 0; s == LW_OK && i < r.rows.n_bad; i++)
        s = put_fault(&r, (struct lw_runs_fault){r.rows.bad_line[i], "", r.rows.bad[i]}, err);
    LW_GIVE(s, out, r, lw_runs_free(&r));
}

void lw_runs_free(struct lw_runs *r)
{
    lw_rows_free(&r->rows);
    lw_arena_free(&r->arena);
}

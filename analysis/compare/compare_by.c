/* Groups of runs by the words of their commands. A run's command is divided in two: the words of
 * what is compared, and the rest, without those that change no figure (--db, --price). Runs with
 * equal rests are a group. */
#include "analysis/compare/compare_by.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "analysis/compare/run_words.h"
#include "analysis/compare/step_work.h"
#include "shared/base/nearest.h"
#include "shared/base/sort.h"
#include "shared/numbers/order.h"
#include "shared/strategy/strategy.h"
#include "shared/text/wrap.h"

static const char *const by_names[] = {"framework", "cluster", "strategy", NULL};

enum lw_status lw_by_parse(const char *text, enum lw_by *by, struct lw_err *err)
{
    for (int i = 0; i < LW_N_BY; i++)
        if (strcmp(text, by_names[i]) == 0) {
            *by = (enum lw_by)i;
            return LW_OK;
        }
    return lw_fail_word(err, NULL, text, by_names);
}

struct row {
    const struct lw_run *run;
    const char *rest;    /* all that a group shares; then what differs between groups */
    const char *value;   /* of what is compared */
    int32_t fits;        /* 1, 0, -1 = not known */
    int64_t id;
    int32_t group;       /* -1: alone */
    lw_ps step, p10, p90;
    double unit_ns, change_pct;
};

static bool is_compared(const void *ctx, const char *name)
{
    static const char *const cluster[] = {"c", "cluster", "node-gbps", NULL};
    enum lw_by by = *(const enum lw_by *)ctx;

    if (by == LW_BY_FRAMEWORK)
        return strcmp(name, "framework") == 0;
    for (int i = 0; by == LW_BY_CLUSTER && cluster[i]; i++)
        if (strcmp(name, cluster[i]) == 0)
            return true;
    return by == LW_BY_STRATEGY && lw_strategy_find(name) >= 0;
}

static enum lw_status divide(struct row *r, enum lw_by by, struct lw_arena *a, struct lw_err *err)
{
    struct lw_divided d;

    LW_TRY(lw_run_divide(r->run, is_compared, &by, by == LW_BY_STRATEGY, a, &d, err));
    r->rest = d.rest;
    r->fits = r->run->fits;
    r->value = d.value;
    if (by == LW_BY_FRAMEWORK)
        r->value = r->run->framework[0] ? r->run->framework : "none";
    else if (by == LW_BY_CLUSTER && r->run->cluster_name[0])
        r->value = r->run->cluster_name;
    return LW_OK;
}

/* Runs of equal rests; of equal values too the last one counts. */
static int32_t make_groups(struct row *rows, int32_t n)
{
    int32_t n_groups = 0;

    for (int32_t i = 0; i < n; i++) {
        for (int32_t j = i + 1; j < n && rows[i].step >= 0; j++)
            if (strcmp(rows[i].rest, rows[j].rest) == 0 &&
                strcmp(rows[i].value, rows[j].value) == 0)
                rows[i].step = -1; /* repeated later */
    }
    for (int32_t i = 0; i < n; i++) {
        int32_t alike = 0;
        for (int32_t j = 0; j < n && rows[i].group < 0 && rows[i].step >= 0; j++)
            alike += rows[j].step >= 0 && strcmp(rows[i].rest, rows[j].rest) == 0;
        for (int32_t j = i; alike > 1 && j < n; j++)
            if (rows[j].step >= 0 && strcmp(rows[i].rest, rows[j].rest) == 0)
                rows[j].group = n_groups;
        n_groups += alike > 1;
    }
    return n_groups;
}

LW_COMPARATOR(by_group, struct row, a->group, b->group, a->id, b->id)

static void find_changes(struct row *rows, int32_t n, const struct lw_step_work *work)
{
    double first = 0;

    for (int32_t i = 0; i < n; i++) {
        double units = lw_step_units(work, rows[i].run);
        rows[i].unit_ns = (double)rows[i].step * 1e-3 / units;
        if (i == 0 || rows[i].group != rows[i - 1].group) {
            first = rows[i].unit_ns;
            rows[i].change_pct = NAN;
        } else {
            rows[i].change_pct = first > 0 ? 100 * (rows[i].unit_ns / first - 1) : NAN;
        }
    }
}

#define AT(field) offsetof(struct row, field)
static enum lw_status print(struct row *rows, int32_t n, enum lw_by by,
                            const struct lw_step_work *work, enum lw_format format, FILE *f,
                            struct lw_err *err)
{
    char title[32] = "";
    const struct lw_column columns[] = {
        {"group", "group", LW_COLUMN_INT32, AT(group)},
        {"of", "of", LW_COLUMN_TEXT, AT(rest), .lacking = "all"},
        {by_names[by], by_names[by], LW_COLUMN_TEXT, AT(value), .lacking = "default"},
        {"run", ">run", LW_COLUMN_INT, AT(id)},
        {"step_ns", ">step", LW_COLUMN_PS, AT(step)},
        {"p10_ns", NULL, LW_COLUMN_PS, AT(p10), .lacking = "-"},
        {"p90_ns", NULL, LW_COLUMN_PS, AT(p90), .lacking = "-"},
        {"ns_per_unit", work->unit ? title : NULL, LW_COLUMN_REAL, AT(unit_ns), 1},
        {"change_pct", ">change %", LW_COLUMN_CHANGE_PCT, AT(change_pct), .lacking = "-"},
        {"fits", "fits", LW_COLUMN_KNOWN, AT(fits), .lacking = "-"},
    };
    struct lw_records all = LW_RECORDS("rows", columns, rows, n);

    snprintf(title, sizeof title, ">ns a %s", work->unit ? work->unit : "");
    return lw_records_print(&all, format, f, err);
}
#undef AT

static enum lw_status compare(const struct lw_run *runs, int32_t n, enum lw_by by,
                              enum lw_format format, struct lw_arena *a, FILE *f,
                              struct lw_err *err)
{
    struct row *rows;
    const struct lw_run **all;
    const char **rest, *differs;
    int32_t k = 0;

    LW_TAKE(a, rows, n, err);
    LW_TAKE(a, all, n, err);
    LW_TAKE(a, rest, n, err);
    for (int32_t i = 0; i < n; i++) {
        rows[i] = (struct row){.run = &runs[i], .id = runs[i].id, .group = -1,
                               .step = runs[i].step, .p10 = runs[i].p10, .p90 = runs[i].p90};
        LW_TRY(divide(&rows[i], by, a, err));
    }
    int32_t n_groups = make_groups(rows, n);
    for (int32_t i = 0; i < n; i++)
        if (rows[i].group >= 0)
            rows[k++] = rows[i];
    if (n_groups == 0)
        return lw_fail(err, LW_EINVAL, "no two of %d runs differ only in their %s", n,
                       by_names[by]);
    lw_sort(rows, k, by_group);
    for (int32_t i = 0; i < k; i++) {
        all[i] = rows[i].run;
        rest[i] = rows[i].rest;
    }
    for (int32_t i = 0; i < k; i++) {
        LW_TRY(lw_rest_short(rest, k, i, a, &differs, err));
        rows[i].rest = differs;
    }
    struct lw_step_work work = lw_step_work_of(all, k);
    find_changes(rows, k, &work);
    LW_TRY(print(rows, k, by, &work, format, f, err));
    if (format == LW_FORMAT_TEXT && n > k)
        lw_printf_paragraph(f, "%d run%s beside them: repeated, or equal to none in all but the %s",
                            n - k, lw_plural(n - k), by_names[by]);
    return LW_OK;
}

enum lw_status lw_compare_by(const struct lw_run *runs, int32_t n, enum lw_by by,
                             enum lw_format format, FILE *f, struct lw_err *err)
{
    struct lw_arena a = {0};
    enum lw_status status = compare(runs, n, by, format, &a, f, err);

    lw_arena_free(&a);
    return status;
}

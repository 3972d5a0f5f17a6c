/* Intervals of a prediction from measured runs of the same kind.
 *
 * Of runs that are alike, quantile p of n sorted ratios is the one at position p (n + 1),
 * interpolated, and at the ends the least and the largest (Hyndman and Fan, The American
 * Statistician 50(4), 1996, definition 6).
 *
 * A further run is of a table that is not among these, and tables differ by more than the runs of
 * one. So the interval is of the distribution in which each table has the same weight, however
 * many runs it has (the pooled distribution of Dunn, Wasserman and Ramdas, JASA 118(544), 2023): of
 * T tables of n_t runs each run weighs 1 / (T n_t); p10 is the least ratio up to which the weights
 * are more than 0.1, p90 the largest from which on they are. It is of runs that are alike where
 * they are of LW_ALIKE_TABLES tables, else of wider kinds, and then holds their own p10 and p90
 * too.
 * alike_coverage.c measures how it holds. */
#include "analysis/alike/alike.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "shared/base/shown_text.h"
#include "shared/base/sort.h"
#include "shared/io/csv_rows.h"
#include "shared/numbers/order.h"

enum { PARALLELISM = 2 }; /* part of a key */

/* --- rows ------------------------------------------------------------------------------------- */

LW_COMPARATOR(by_ratio, struct lw_alike_run, a->ratio, b->ratio, a->number, b->number)
LW_COMPARATOR(by_judged, struct lw_alike_run, a->judged, b->judged, a->number, b->number)

/* Without a figure that was fitted on the row's own table, where there is one. */
static const char *judged_by(const struct lw_rows *rows, int32_t row)
{
    return *lw_rows_cell(rows, row, "left_out_s") ? "left_out_s" : "predicted_s";
}

static enum lw_status take_row(const struct lw_rows *rows, int32_t row, struct lw_alike_run *out,
                               struct lw_err *err)
{
    double predicted, measured, judged;

    LW_TRY(lw_rows_real(rows, row, "predicted_s", 1e-12, &predicted, err));
    LW_TRY(lw_rows_real(rows, row, judged_by(rows, row), 1e-12, &judged, err));
    LW_TRY(lw_rows_real(rows, row, "measured_s", 1e-12, &measured, err));
    out->ratio = predicted / measured;
    out->judged = judged / measured;
    for (int k = 0; k < LW_ALIKE_PARTS; k++) {
        out->key.part[k] = lw_rows_cell(rows, row, lw_alike_part_name(k));
        if (!*out->key.part[k])
            return lw_fail_at(err, LW_EFORMAT, rows->file, rows->line[row],
                              "%s: found an empty cell, expected a name", lw_alike_part_name(k));
    }
    return LW_OK;
}

/* Two files of one name are one table. */
static int32_t number_of_table(const struct lw_alike_runs *r, const char *table)
{
    for (int32_t i = 0; i < r->n; i++)
        if (strcmp(r->runs[i].table, table) == 0)
            return r->runs[i].table_number;
    return r->n_tables;
}

static enum lw_status take_rows(const struct lw_rows *rows, const char *table,
                                struct lw_alike_runs *r, struct lw_err *err)
{
    int32_t number = number_of_table(r, table);

    for (int32_t i = 0; i < rows->n_rows; i++) {
        struct lw_alike_run run = {.table = table, .number = r->n, .table_number = number};
        if (!*lw_rows_cell(rows, i, "measured_s")) /* memory alone, or it did not run */
            continue;
        LW_TRY(take_row(rows, i, &run, err));
        void *room = lw_arena_more(&r->arena, r->runs, r->n, sizeof run);
        if (!room)
            return lw_fail_nomem(err);
        r->runs = room;
        r->runs[r->n++] = run;
        r->n_tables = number < r->n_tables ? r->n_tables : number + 1;
    }
    return LW_OK;
}

static enum lw_status put_in_order(struct lw_alike_runs *r, struct lw_err *err)
{
    LW_TAKE(&r->arena, r->judged, r->n, err);
    LW_TAKE(&r->arena, r->count, r->n_tables, err);
    if (r->n > 0)
        memcpy(r->judged, r->runs, (size_t)r->n * sizeof *r->runs);
    lw_sort(r->runs, r->n, by_ratio);
    lw_sort(r->judged, r->n, by_judged);
    return LW_OK;
}

static enum lw_status add(const struct lw_input *in, struct lw_alike_runs *r, struct lw_err *err)
{
    struct lw_rows rows;
    char stem[80];

    LW_TRY(lw_rows_read(in, &rows, err));
    lw_arena_join(&r->arena, &rows.arena); /* the texts are its cells */
    const char *table = lw_arena_strdup(&r->arena, lw_file_stem(stem, sizeof stem, in->name));
    return table ? take_rows(&rows, table, r, err) : lw_fail_nomem(err);
}

enum lw_status lw_alike_add(const struct lw_input *in, struct lw_alike_runs *r, struct lw_err *err)
{
    LW_TRY(add(in, r, err));
    return put_in_order(r, err);
}

LW_FREE_BY_ARENA(lw_alike_free, struct lw_alike_runs)

/* --- runs of one kind ------------------------------------------------------------------------- */

static bool part_is(const struct lw_alike_key *a, const struct lw_alike_key *b, int part)
{
    return !a->other_figures[part] && !b->other_figures[part] &&
           strcmp(a->part[part], b->part[part]) == 0;
}

/* Nearer with more equal parts, of which the first counts more than all after it. */
static int nearness(const struct lw_alike_key *a, const struct lw_alike_key *b)
{
    int n = 0;

    for (int k = 0; k < LW_ALIKE_PARTS; k++)
        n = 2 * n + part_is(a, b, k);
    return n;
}

static bool is_same(const struct lw_alike_key *a, const struct lw_alike_key *b)
{
    for (int k = 0; k < LW_ALIKE_PARTS; k++)
        if (!part_is(a, b, k))
            return false;
    return true;
}

static bool counts(const struct lw_alike_run *r, const char *except)
{
    return !except || strcmp(r->table, except) != 0;
}

static int32_t count_of(const struct lw_alike_runs *r, const struct lw_alike_key *key,
                        const char *except)
{
    int32_t n = 0;

    for (int32_t i = 0; i < r->n; i++)
        n += counts(&r->runs[i], except) && is_same(&r->runs[i].key, key);
    return n;
}

/* Of several kinds that are equally near, the one of more runs, then the first in the order of
 * letters. */
static bool goes_before(const struct lw_alike_key *a, int32_t n_a, const struct lw_alike_key *b,
                        int32_t n_b)
{
    for (int k = 0; n_a == n_b && k < LW_ALIKE_PARTS; k++) {
        int order = strcmp(a->part[k], b->part[k]);
        if (order != 0)
            return order < 0;
    }
    return n_a > n_b;
}

void lw_alike_find_nearest(const struct lw_alike_runs *r, const struct lw_alike_key *key,
                           const char *except, struct lw_alike *out)
{
    int best = -1;

    for (int32_t i = 0; i < r->n; i++) {
        const struct lw_alike_key *k = &r->runs[i].key;
        int near = nearness(k, key);
        if (near < best || is_same(k, key) || !counts(&r->runs[i], except) ||
            (out->n_nearest > 0 && is_same(k, &out->nearest)))
            continue;
        int32_t n = count_of(r, k, except);
        if (n < LW_ALIKE_LEAST ||
            (near == best && !goes_before(k, n, &out->nearest, out->n_nearest)))
            continue;
        best = near;
        out->nearest = *k;
        out->n_nearest = n;
    }
}

/* Number `rank` (from 1) of those that are alike, in the order of ratios, which is that of the
 * rows; beyond the ends the least and the largest. */
static double ratio_at(const struct lw_alike_runs *r, const struct lw_alike_key *key,
                       const char *except, int32_t rank)
{
    double last = NAN;

    for (int32_t i = 0; i < r->n; i++) {
        if (!counts(&r->runs[i], except) || !is_same(&r->runs[i].key, key))
            continue;
        last = r->runs[i].ratio;
        if (--rank <= 0)
            break;
    }
    return last;
}

static double quantile(const struct lw_alike_runs *r, const struct lw_alike_key *key,
                       const char *except, int32_t n, double p)
{
    double at = p * (n + 1), low = ratio_at(r, key, except, (int32_t)at);
    double high = ratio_at(r, key, except, (int32_t)at + 1);

    return at < 1 ? low : low + (at - floor(at)) * (high - low);
}

static bool is_first_of_table(const struct lw_alike_runs *r, const struct lw_alike_key *key,
                              int32_t i)
{
    for (int32_t j = 0; j < i; j++)
        if (strcmp(r->runs[j].table, r->runs[i].table) == 0 && is_same(&r->runs[j].key, key))
            return false;
    return true;
}

static void find_alike(const struct lw_alike_runs *r, const struct lw_alike_key *key,
                       const char *except, struct lw_alike *out)
{
    double sum = 0;

    for (int32_t i = 0; i < r->n; i++) {
        if (!counts(&r->runs[i], except) || !is_same(&r->runs[i].key, key))
            continue;
        out->n++;
        out->n_tables += is_first_of_table(r, key, i);
        sum += r->runs[i].ratio;
    }
    if (out->n < LW_ALIKE_LEAST)
        return;
    out->mean = sum / out->n;
    out->p10 = quantile(r, key, except, out->n, 0.1);
    out->p90 = quantile(r, key, except, out->n, 0.9);
}

/* --- the interval ----------------------------------------------------------------------------- */

static bool is_of(enum lw_alike_of of, const struct lw_alike_run *x, const struct lw_alike_key *key,
                  const char *except)
{
    if (!counts(x, except))
        return false;
    return of == LW_ALIKE_OF_KEY ? is_same(&x->key, key)
                                 : !key->is_foreign && (of == LW_ALIKE_OF_ALL ||
                                                        part_is(&x->key, key, PARALLELISM));
}

/* The ratio up to which (step 1; step -1: from which on) the weights are more than `share`. */
static double pooled(const struct lw_alike_runs *r, const struct lw_alike_key *key,
                     const char *except, const struct lw_alike *a, int step, double share)
{
    double weight = 0, last = NAN;

    for (int32_t i = step > 0 ? 0 : r->n - 1; i >= 0 && i < r->n; i += step) {
        const struct lw_alike_run *x = &r->judged[i];
        if (!is_of(a->of, x, key, except))
            continue;
        last = x->judged;
        weight += 1.0 / r->count[x->table_number];
        if (weight > share * a->of_tables + 1e-9)
            break;
    }
    return last;
}

/* The mean of both medians where half of the weights are on either side. */
static double median_of(const struct lw_alike_runs *r, const struct lw_alike_key *key,
                        const char *except, const struct lw_alike *a)
{
    return (pooled(r, key, except, a, 1, 0.5) + pooled(r, key, except, a, -1, 0.5)) / 2;
}

static double longer_than_predicted(const struct lw_alike_runs *r, const struct lw_alike_key *key,
                                    const char *except, const struct lw_alike *a)
{
    double weight = 0;

    for (int32_t i = 0; i < r->n && r->judged[i].judged < 1; i++)
        if (is_of(a->of, &r->judged[i], key, except))
            weight += 1.0 / r->count[r->judged[i].table_number];
    return weight / a->of_tables;
}

/* Runs by table, and how many tables have any. */
static void count_tables(const struct lw_alike_runs *r, const struct lw_alike_key *key,
                         const char *except, struct lw_alike *a)
{
    a->of_runs = a->of_tables = 0;
    for (int32_t t = 0; t < r->n_tables; t++)
        r->count[t] = 0;
    for (int32_t i = 0; i < r->n; i++)
        if (is_of(a->of, &r->runs[i], key, except)) {
            a->of_runs++;
            a->of_tables += r->count[r->runs[i].table_number]++ == 0;
        }
}

static void find_interval(const struct lw_alike_runs *r, const struct lw_alike_key *key,
                          const char *except, struct lw_alike *a)
{
    for (a->of = LW_ALIKE_OF_KEY; a->of < LW_ALIKE_OF_NONE; a->of++) {
        count_tables(r, key, except, a);
        if (a->of_tables < LW_ALIKE_TABLES || a->of_runs < LW_ALIKE_LEAST)
            continue;
        a->low = pooled(r, key, except, a, 1, 0.1);
        a->high = pooled(r, key, except, a, -1, 0.1);
        a->median = median_of(r, key, except, a);
        a->longer = longer_than_predicted(r, key, except, a);
        if (a->of != LW_ALIKE_OF_KEY && a->n >= LW_ALIKE_LEAST) {
            a->low = fmin(a->low, a->p10);
            a->high = fmax(a->high, a->p90);
        }
        return;
    }
}

void lw_alike_find(const struct lw_alike_runs *r, const struct lw_alike_key *key,
                   const char *except, struct lw_alike *out)
{
    *out = (struct lw_alike){.mean = NAN, .p10 = NAN, .p90 = NAN, .low = NAN, .high = NAN,
                             .median = NAN, .longer = NAN};
    find_alike(r, key, except, out);
    find_interval(r, key, except, out);
}

/* --- words ------------------------------------------------------------------------------------ */

char *lw_alike_of_text(const struct lw_alike *a, char *buf, size_t size)
{
    char own[48] = "";

    if (a->of == LW_ALIKE_OF_KEY) {
        snprintf(buf, size, "%d runs like this one in %d tables", a->of_runs, a->of_tables);
        return buf;
    }
    if (a->n >= LW_ALIKE_LEAST)
        snprintf(own, sizeof own, "%d runs like this one, and ", a->n);
    snprintf(buf, size, "%s%d tables %s", own, a->of_tables,
             a->of == LW_ALIKE_OF_PARALLELISM ? "with the same parallelism" : "of measured runs");
    return buf;
}

char *lw_alike_nearest_text(const struct lw_alike *a, const struct lw_alike_key *key, char *buf,
                            size_t size)
{
    const char *const *p = a->nearest.part;
    char differs[192] = "", word[80];

    for (int k = 0; k < LW_ALIKE_PARTS; k++)
        if (!part_is(&a->nearest, key, k)) {
            snprintf(word, sizeof word, "%s%s", lw_alike_part_name(k),
                     key->other_figures[k] ? " (its figures are not the known ones)" : "");
            lw_err_word(differs, sizeof differs, word);
        }
    snprintf(buf, size, "the nearest are %d runs of %s on %s (%s, %s); they differ in %s",
             a->n_nearest, p[0], p[1], p[2], p[3], differs);
    return buf;
}

/* A recommendation as one line of text, as JSON, as CSV. The gain is set against the errors that
 * earlier predictions for this cluster had: below their mean it says nothing, beyond their largest
 * it is as good as sure. */
#include "analysis/study/recommend_print.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/compare/compare.h"
#include "shared/numbers/interval_text.h"
#include "shared/text/wrap.h"

double lw_recommend_gain_pct(const struct lw_recommend_report *p)
{
    return lw_percent((double)lw_recommendation_gain(p->r), (double)p->r->reference.step);
}

static bool is_better(const struct lw_recommend_report *p)
{
    return p->r->best >= 0 && lw_recommend_gain_pct(p) >= LW_LEAST_GAIN_PCT;
}

const char *lw_recommend_verdict(const struct lw_recommend_report *p)
{
    double gain = lw_recommend_gain_pct(p);

    if (p->r->n_simulated == 0)
        return "none";
    if (!is_better(p))
        return "keep";
    if (p->n_past <= 0)
        return "unknown";
    return gain <= p->mean_past_pct ? "below_error" : gain <= p->max_past_pct ? "likely" : "sure";
}

/* Exact, so that it can be given to --bucket-cap: next to a bound a rounded size makes other
 * buckets. */
static const char *exact_bytes(int64_t bytes, char buf[32])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int64_t unit = 1, shown = 1;
    int i = 0;

    while (shown <= bytes / 1024) /* the unit of lw_format_bytes, which shows hundredths */
        shown *= 1024;
    if (bytes % shown * 100 % shown == 0)
        return lw_format_bytes(buf, bytes);
    while (i < 4 && bytes % (unit * 1024) == 0) {
        unit *= 1024;
        i++;
    }
    snprintf(buf, 32, "%lld %s", (long long)(bytes / unit), units[i]);
    return buf;
}

static const char *cap_text(const struct lw_cap_point *p, char buf[32])
{
    if (p->cap_bytes < 0)
        return "default cap";
    if (p->cap_bytes == 0)
        return "cap 0 (a bucket per gradient)";
    return exact_bytes(p->cap_bytes, buf);
}

/* "the recorded cap of 5.00 MiB", "the default cap" */
static const char *reference_text(const struct lw_recommendation *r, char buf[64])
{
    char cap[32];

    if (r->reference.cap_bytes >= 0)
        snprintf(buf, 64, "the %s %s", lw_cap_source_name(r->source), cap_text(&r->reference, cap));
    else
        snprintf(buf, 64, "the %s", r->source == LW_CAP_DEFAULT ? "default cap"
                                                               : "default cap, as recorded");
    return buf;
}

/* Of the recommended step: a clause before the last. */
static void put_interval(const struct lw_recommend_report *p, lw_ps step, FILE *f)
{
    char interval[LW_INTERVAL_TEXT];
    lw_ps p10, p90;

    if (p->alike && lw_alike_step_interval(p->alike, step, &p10, &p90))
        fprintf(f, "step %s (an error that both caps share leaves the gain as it is); ",
                lw_interval_text(interval, p10, p90, p->alike->of));
}

/* How sure: a clause for the end of the line. */
static void put_confidence(const struct lw_recommend_report *p, FILE *f)
{
    const char *verdict = lw_recommend_verdict(p);

    if (p->n_past <= 0) {
        fprintf(f, "how sure: unknown, nothing was measured on cluster '%s' yet%s",
                p->cluster->name, p->cluster->calibrated ? "" : ", which is not calibrated");
        return;
    }
    if (strcmp(verdict, "below_error") == 0)
        fputs("not sure: that is below the error of predictions here", f);
    else if (strcmp(verdict, "likely") == 0)
        fputs("likely: above the usual error of predictions here, not above the largest", f);
    else
        fputs(strcmp(verdict, "sure") == 0 ? "sure: above every error of predictions here"
                                           : "error of predictions here", f);
    fprintf(f, " (%.1f %% on average, %.1f %% at most, %d compared)", p->mean_past_pct,
            p->max_past_pct, p->n_past);
}

static const struct lw_cap_point *recommended(const struct lw_recommend_report *p)
{
    return is_better(p) ? &p->r->points[p->r->best] : &p->r->reference;
}

static void put_line(const struct lw_recommend_report *p, FILE *f)
{
    const struct lw_recommendation *r = p->r;
    const struct lw_cap_point *best = recommended(p);
    char cap[32], old[64], a[32], b[32], gain[32];

    if (r->n_simulated == 0) {
        fprintf(f, "no recommendation: only %s was simulated, step %s on %lld rank%s%s; ",
                reference_text(r, old), lw_format_ps(a, r->reference.step),
                (long long)p->n_ranks, lw_plural(p->n_ranks), p->ranks_from);
    } else if (!is_better(p)) {
        fprintf(f, "keep %s: %d bucket%s, step %s on %lld rank%s%s; of %d cap%s simulated the best "
                   "gains %.2f %%, less than the %.0f %% by which measured steps differ; ",
                reference_text(r, old), r->reference.n_buckets,
                lw_plural(r->reference.n_buckets), lw_format_ps(a, r->reference.step),
                (long long)p->n_ranks, lw_plural(p->n_ranks), p->ranks_from, r->n_simulated,
                lw_plural(r->n_simulated), lw_recommend_gain_pct(p), LW_LEAST_GAIN_PCT);
    } else {
        fprintf(f,
                "bucket cap %s: %d bucket%s, step %s on %lld rank%s%s, %.2f %% (%s) less than "
                "with %s (%d bucket%s, step %s); ",
                cap_text(best, cap), best->n_buckets, lw_plural(best->n_buckets),
                lw_format_ps(a, best->step), (long long)p->n_ranks, lw_plural(p->n_ranks),
                p->ranks_from, lw_recommend_gain_pct(p),
                lw_format_ps(gain, lw_recommendation_gain(r)), reference_text(r, old),
                r->reference.n_buckets, lw_plural(r->reference.n_buckets),
                lw_format_ps(b, r->reference.step));
    }
    put_interval(p, best->step, f);
    put_confidence(p, f);
    if (r->interrupted)
        fprintf(f, "; interrupted: of %d bucketings %d were simulated", r->n_points,
                r->n_simulated);
}

/* Of the recommended point; -1 = unknown. */
static int64_t missing_bytes(const struct lw_recommend_report *p)
{
    return lw_device_missing_bytes(&p->cluster->device, recommended(p)->needed_bytes);
}

static void put_memory(const struct lw_recommend_report *p, FILE *f)
{
    bool close = lw_device_is_close(&p->cluster->device, recommended(p)->needed_bytes);
    char peak[32], missing[32];

    if (missing_bytes(p) > 0)
        fprintf(f, "; it needs %s, more than the device has by %s%s: the plan %s not fit in the "
                   "device's memory (--zero, --recompute, --tp and --pp take less)",
                lw_format_bytes(peak, recommended(p)->needed_bytes),
                lw_format_bytes(missing, missing_bytes(p)),
                close ? ", less than " LW_MEMORY_ERROR_TEXT : "", close ? "may" : "does");
}

/* Broken into lines that fit. */
static void put_text(const struct lw_recommend_report *p, FILE *f)
{
    char *text = NULL;
    size_t n;
    FILE *all = open_memstream(&text, &n);

    if (!all)
        return;
    put_line(p, all);
    put_memory(p, all);
    fclose(all);
    lw_put_paragraph(f, "", text);
    free(text);
    if (p->framework && p->framework->from != LW_FRAMEWORK_RECORDED) /* that is one sentence */
        lw_framework_choice_print(p->framework, f);
    for (int32_t i = 0; i < p->r->n_remarks; i++)
        lw_printf_paragraph(f, "note: %s", p->r->remarks[i]);
}

/* A point and the interval of its step. */
struct shown {
    struct lw_cap_point point;
    lw_ps p10, p90;
};

static struct shown shown_of(const struct lw_recommend_report *p, const struct lw_cap_point *point)
{
    struct shown s = {.point = *point, .p10 = -1, .p90 = -1};

    if (p->alike)
        lw_alike_step_interval(p->alike, point->step, &s.p10, &s.p90);
    return s;
}

#define AT(field) offsetof(struct shown, field)
static const struct lw_column point_columns[] = {
    {"bucket_cap_bytes", NULL, LW_COLUMN_INT, AT(point.cap_bytes), .lacking = ""},
    {"from_bytes", NULL, LW_COLUMN_INT, AT(point.low_bytes)},
    {"to_bytes", NULL, LW_COLUMN_INT, AT(point.high_bytes)},
    {"n_buckets", NULL, LW_COLUMN_INT32, AT(point.n_buckets)},
    {"step_ns", NULL, LW_COLUMN_PS, AT(point.step), .lacking = ""},
    {"exposed_comm_ns", NULL, LW_COLUMN_PS, AT(point.exposed_comm), .lacking = ""},
    {"peak_memory_bytes", NULL, LW_COLUMN_INT, AT(point.peak_memory_bytes), .lacking = ""},
    {"device_bytes", NULL, LW_COLUMN_INT, AT(point.device_bytes), .lacking = ""},
    {"needed_bytes", NULL, LW_COLUMN_INT, AT(point.needed_bytes), .lacking = ""},
    {"p10_ns", NULL, LW_COLUMN_PS, AT(p10), .lacking = ""},
    {"p90_ns", NULL, LW_COLUMN_PS, AT(p90), .lacking = ""},
};
#undef AT

static void json_point(struct lw_jsonout *o, const char *key, const struct lw_recommend_report *p,
                       const struct lw_cap_point *point)
{
    struct shown s = shown_of(p, point);

    lw_jsonout_line_object(o, key);
    lw_record_json(o, point_columns, sizeof point_columns / sizeof *point_columns, &s);
    lw_jsonout_end(o);
}

static void put_json(const struct lw_recommend_report *p, FILE *f)
{
    struct lw_jsonout o = {.file = f};
    const struct lw_recommendation *r = p->r;

    lw_jsonout_object(&o, NULL);
    LW_JSON(&o, "workload", p->workload->name, "cluster", p->cluster->name,
            "cluster_calibrated", p->cluster->calibrated, "n_ranks", p->n_ranks);
    lw_framework_choice_json(&o, p->framework);
    json_point(&o, "best", p, r->best >= 0 ? &r->points[r->best] : &r->reference);
    json_point(&o, "reference", p, &r->reference);
    LW_JSON(&o, "interval_of", p->alike && p->alike->of[0] ? p->alike->of : NULL);
    LW_JSON(&o, "reference_is", lw_cap_source_name(r->source),
            "gain_ns", LW_PS(lw_recommendation_gain(r)),
            "gain_pct", lw_decimals(lw_recommend_gain_pct(p), 3),
            "verdict", lw_recommend_verdict(p), "memory_missing_bytes", lw_known(missing_bytes(p)));
    if (p->n_past > 0) {
        LW_JSON_ROW(&o, "past_error", "n_compared", p->n_past,
                    "mean_abs_error_pct", lw_decimals(p->mean_past_pct, 3),
                    "max_abs_error_pct", lw_decimals(p->max_past_pct, 3));
    } else {
        lw_jsonout_null(&o, "past_error");
    }
    LW_JSON(&o, "n_bucketings", r->n_points, "n_simulated", r->n_simulated,
            "exhaustive", r->exhaustive, "interrupted", r->interrupted);
    lw_jsonout_array(&o, "remarks");
    for (int32_t i = 0; i < r->n_remarks; i++)
        lw_jsonout_string(&o, NULL, r->remarks[i]);
    lw_jsonout_end(&o);
    lw_jsonout_array(&o, "caps");
    for (int32_t i = 0; i < r->n_points; i++)
        if (r->points[i].step >= 0)
            json_point(&o, NULL, p, &r->points[i]);
    lw_jsonout_end(&o);
    lw_jsonout_end(&o);
}

/* The points that were simulated. */
static enum lw_status put_csv(const struct lw_recommend_report *p, FILE *f, struct lw_err *err)
{
    struct shown *points = lw_calloc((size_t)p->r->n_points + 1, sizeof *points);
    struct lw_records rows = LW_RECORDS("caps", point_columns, points, 0);

    if (!points)
        return lw_fail_nomem(err);
    for (int32_t i = 0; i < p->r->n_points; i++)
        if (p->r->points[i].step >= 0)
            points[rows.n++] = shown_of(p, &p->r->points[i]);
    enum lw_status st = lw_records_csv(&rows, f, err);
    lw_free(points);
    return st;
}

enum lw_status lw_recommend_print(const struct lw_recommend_report *p, enum lw_format format,
                                  FILE *f, struct lw_err *err)
{
    if (format == LW_FORMAT_CSV)
        return put_csv(p, f, err);
    if (format == LW_FORMAT_JSON)
        put_json(p, f);
    else
        put_text(p, f);
    return LW_OK;
}

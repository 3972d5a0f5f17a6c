/* Recorded comparison of bucket policies under an alpha-beta cost (bucketing.csv).
 *
 * The groupings are decided in whole numbers: a unit of time small enough that start-up time and
 * time per byte lose nothing that matters, large enough for the sums; with a cost that is exactly
 * linear in them, equal ways to cut have equal ends. The end times compared are computed from the
 * groupings in doubles, in the order of the model. They agree to 1e-9 of the value and half a unit
 * of the last printed digit (at least the sixth). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/bucket/bucket_merge.h"
#include "shared/golden/golden_case.h"

struct row {
    int32_t n;
    int64_t *sizes;     /* elements, in forward order */
    double alpha, beta; /* s, s per byte */
    double *ready;      /* [n] s, in ready order */
    int64_t *bytes;     /* [n] in ready order */
    lw_ps *ready_units; /* [n] */
    lw_ps alpha_units, beta_units;
};

static lw_ps cost_time(const void *ctx, const struct lw_cost_query *q)
{
    const struct row *r = ctx;

    return r->alpha_units + r->beta_units * q->bytes;
}

static enum lw_status cell_double(struct lw_golden_case *c, const char *title, double *v,
                                  const char **text, struct lw_err *err)
{
    char *end;

    LW_TRY(lw_golden_cell(c, title, text, err));
    *v = strtod(*text, &end);
    if (end == *text || *end || !isfinite(*v) || *v < 0)
        return lw_fail(err, LW_EFORMAT, "%s: '%s' is not a number of 0 or more", title, *text);
    return LW_OK;
}

/* The smallest decimal unit with which twice the longest possible end stays below 2^60. */
static void choose_unit(struct row *r)
{
    double total = 0, scale = 1e18;

    for (int32_t i = 0; i < r->n; i++)
        total += (double)r->bytes[i];
    double end = r->ready[r->n - 1] + r->n * r->alpha + total * r->beta;
    while (2 * end * scale > (double)(INT64_C(1) << 60))
        scale /= 10;
    r->alpha_units = llround(r->alpha * scale);
    r->beta_units = llround(r->beta * scale);
    for (int32_t i = 0; i < r->n; i++)
        r->ready_units[i] = llround(r->ready[i] * scale);
}

static enum lw_status read_layers(struct lw_golden_case *c, struct row *r, struct lw_err *err)
{
    int64_t *tb;
    int32_t n_tb;

    LW_TRY(lw_golden_list(c, "sizes", 0, INT64_MAX / 64, &r->sizes, &r->n, err));
    LW_TRY(lw_golden_list(c, "tb_us", 0, INT32_MAX, &tb, &n_tb, err));
    if (n_tb != r->n)
        return lw_fail(err, LW_EFORMAT, "tb_us: %d times for %d sizes", n_tb, r->n);
    LW_TAKE(c->arena, r->ready, r->n, err);
    LW_TAKE(c->arena, r->bytes, r->n, err);
    LW_TAKE(c->arena, r->ready_units, r->n, err);
    int64_t at_us = 0;
    for (int32_t i = 0; i < r->n; i++) { /* the last layer is ready first */
        at_us += tb[r->n - 1 - i];
        r->ready[i] = (double)at_us * 1e-6;
        r->bytes[i] = 4 * r->sizes[r->n - 1 - i];
    }
    return LW_OK;
}

static enum lw_status read_row(struct lw_golden_case *c, struct row *r, struct lw_err *err)
{
    double backward;
    const char *text;

    LW_TRY(read_layers(c, r, err));
    LW_TRY(cell_double(c, "alpha_s", &r->alpha, &text, err));
    LW_TRY(cell_double(c, "beta_s_per_B", &r->beta, &text, err));
    LW_TRY(lw_golden_expect_number(c, "n_layers", r->n, err));
    LW_TRY(cell_double(c, "backward_s", &backward, &text, err));
    if (fabs(backward - r->ready[r->n - 1]) > 1e-9 * backward)
        return lw_fail(err, LW_ENO, "backward_s: computed %.9f, the case says %s",
                       r->ready[r->n - 1], text);
    choose_unit(r);
    return LW_OK;
}

static double end_of(const struct row *r, const int32_t *first, int32_t n_buckets)
{
    double at = 0;

    for (int32_t b = 0; b < n_buckets; b++) {
        double bytes = 0, ready = r->ready[first[b + 1] - 1];
        for (int32_t i = first[b]; i < first[b + 1]; i++)
            bytes += (double)r->bytes[i];
        at = (at > ready ? at : ready) + r->alpha + r->beta * bytes;
    }
    return at;
}

static enum lw_status expect_end(struct lw_golden_case *c, const char *title, double end,
                                 struct lw_err *err)
{
    const char *text;
    double v;

    LW_TRY(cell_double(c, title, &v, &text, err));
    const char *dot = strchr(text, '.');
    int digits = dot ? (int)strspn(dot + 1, "0123456789") : 0;
    double half_unit = 0.5 * pow(10, -(digits > 6 ? digits : 6));

    if (!(fabs(end - v) <= half_unit + 1e-9 * v))
        return lw_fail(err, LW_ENO, "%s: computed %.9f, the case says %s", title, end, text);
    return LW_OK;
}

/* Columns X_end_s, X_groups and, for policies that list them, X_layers_per_group. */
static enum lw_status expect_buckets(struct lw_golden_case *c, const struct row *r,
                                     const char *policy, bool lists, const int32_t *first,
                                     int32_t n_buckets, struct lw_err *err)
{
    char name[64];
    struct lw_text t = {0};

    snprintf(name, sizeof name, "%s_end_s", policy);
    LW_TRY(expect_end(c, name, end_of(r, first, n_buckets), err));
    snprintf(name, sizeof name, "%s_groups", policy);
    LW_TRY(lw_golden_expect_number(c, name, n_buckets, err));
    if (!lists)
        return LW_OK;
    snprintf(name, sizeof name, "%s_layers_per_group", policy);
    for (int32_t b = 0; b < n_buckets; b++)
        lw_text_add(&t, "%s%d", b ? ";" : "", first[b + 1] - first[b]);
    return lw_golden_expect(c, name, &t, err);
}

static enum lw_status check_by_time(struct lw_golden_case *c, const struct row *r,
                                    struct lw_err *err)
{
    struct lw_cost cost = {.time = cost_time, .ctx = r};
    struct lw_merge m = {.n = r->n,
                         .bytes = r->bytes,
                         .ready = r->ready_units,
                         .cost = &cost,
                         .query = {.op = LW_OP_ALL_REDUCE}};
    struct lw_bucketing b;

    LW_TRY(lw_bucket_mg_wfbp(&m, &b, NULL, err));
    enum lw_status status = expect_buckets(c, r, "mgwfbp", true, b.first, b.n_buckets, err);
    lw_bucketing_free(&b);
    LW_TRY(status);
    LW_TRY(lw_bucket_optimal(&m, &b, NULL, err));
    status = expect_buckets(c, r, "optimal_dp", true, b.first, b.n_buckets, err);
    lw_bucketing_free(&b);
    return status;
}

/* One per layer, one for all, and c10d's rule with 25 MiB and a first one of 1 MiB. */
static enum lw_status check_by_size(struct lw_golden_case *c, const struct row *r,
                                    struct lw_err *err)
{
    static const struct {
        const char *name;
        int64_t limits[2];
    } policies[] = {
        {"per_layer", {0, 0}},
        {"single", {LW_BUCKET_NO_LIMIT, LW_BUCKET_NO_LIMIT}},
        {"cap25MiB_first1MiB", {INT64_C(1) << 20, INT64_C(25) << 20}},
    };
    struct lw_grad *grads = lw_arena_alloc(c->arena, r->n, sizeof *grads);
    struct lw_bucketing b;

    if (!grads)
        return lw_fail_nomem(err);
    for (int32_t i = 0; i < r->n; i++)
        grads[i] = (struct lw_grad){.numel = r->bytes[i] / 4, .dtype = LW_F32};
    for (size_t k = 0; k < sizeof policies / sizeof *policies; k++) {
        LW_TRY(lw_bucket_assign_c10d(grads, r->n, NULL, policies[k].limits, 2, &b, err));
        enum lw_status status =
            expect_buckets(c, r, policies[k].name, false, b.first, b.n_buckets, err);
        lw_bucketing_free(&b);
        LW_TRY(status);
    }
    return LW_OK;
}

enum lw_status lw_golden_bucketing_row(struct lw_golden_case *c, struct lw_err *err)
{
    struct row r = {0};

    LW_TRY(read_row(c, &r, err));
    LW_TRY(check_by_size(c, &r, err));
    return check_by_time(c, &r, err);
}

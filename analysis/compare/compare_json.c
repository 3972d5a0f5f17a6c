/* A comparison as JSON (docs/formats/compare.md). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analysis/compare/compare_lines.h"
#include "analysis/compare/compare_print.h"
#include "shared/json/jsonout.h"

static void json_figure(struct lw_jsonout *o, const struct lw_comparison *c, const char *key,
                        struct lw_both v)
{
    lw_compared_json(o, lw_compared_columns(c), key, v, lw_comparison_pct(c, v));
}

/* "predicted_rank", "b_rank": the key of a member that each side has. */
static const char *side_key(const struct lw_comparison *c, int side, const char *after,
                            char buf[32])
{
    static const char *const names[2][2] = {{"predicted", "measured"}, {"a", "b"}};

    snprintf(buf, 32, "%s%s", names[c->of_one_kind][side], after);
    return buf;
}

static void json_split(struct lw_jsonout *o, const struct lw_speed_split *s)
{
    if (isnan(s->compute_speed))
        lw_jsonout_null(o, "compute_split");
    else
        LW_JSON_ROW(o, "compute_split", "compute_speed", lw_decimals(s->compute_speed, 4),
                    "by_speed_ns", lw_ps_to_ns(s->by_speed), "left_ns",
                    lw_ps_to_ns(s->by_speed + s->left) - lw_ps_to_ns(s->by_speed));
}

static void json_run(struct lw_jsonout *o, const struct lw_comparison *c, int side)
{
    const struct lw_run *r = side ? &c->measured : &c->predicted;
    char key[32];

    lw_jsonout_object(o, side_key(c, side, "", key));
    LW_JSON(o, "id", r->id, "name", r->name, "kind", lw_run_kind_name(r->kind), "backend",
            r->backend, "compute_source", r->compute_source, "network", r->network, "honesty",
            r->honesty, "plan_hash", r->plan_hash && *r->plan_hash ? r->plan_hash : NULL, "cluster",
            r->cluster_name, "framework", lw_text_or_null(r->framework), "framework_hash",
            lw_text_or_null(r->framework_hash));
    if (r->fits < 0)
        lw_jsonout_null(o, "fits");
    else
        lw_jsonout_bool(o, "fits", r->fits != 0);
    LW_JSON(o, "p10_ns", lw_known_if(r->p90 > 0, lw_ps_to_ns(r->p10)), "p90_ns",
            lw_known_if(r->p90 > 0, lw_ps_to_ns(r->p90)), "interval_of",
            lw_text_or_null(r->interval_of), "samples", lw_known(r->samples), "others_pct",
            lw_decimals_if(!isnan(r->others_pct), r->others_pct, 2), "under_load",
            lw_run_under_load(r), "label", c->label[side]);
    lw_machine_speed_json(o, r);
    lw_jsonout_end(o);
}

/* null: the facts of one are not known. */
static void json_frameworks(struct lw_jsonout *o, const struct lw_framework_difference *d)
{
    if (d->differ && !d->known)
        lw_jsonout_null(o, "framework_differs_in");
    else
        lw_jsonout_strings(o, "framework_differs_in", d->facts, d->n_facts);
}

static void json_lists(struct lw_jsonout *o, const struct lw_comparison *c)
{
    struct lw_compared parts[LW_N_PARTS], ops[LW_OPS_SHOWN];
    char key[32];

    for (int i = 0; i < LW_N_PARTS; i++)
        parts[i] = lw_compared_of(c, lw_part_name(i), lw_comparison_part(c, i));
    struct lw_records r = lw_compared_records(c, "parts", parts, LW_N_PARTS, LW_COMPARED_SHORT);
    lw_records_json(o, &r);
    lw_jsonout_array(o, "buckets");
    for (int32_t i = 0; i < c->n_buckets; i++) {
        const struct lw_bucket_line *b = &c->buckets[i];
        lw_jsonout_object(o, NULL);
        LW_JSON(o, "bucket", b->bucket, "op", b->kind, side_key(c, 0, "_bytes", key),
                b->bytes.predicted, side_key(c, 1, "_bytes", key), b->bytes.measured);
        for (int k = 0; k < LW_N_BUCKET_TIMES; k++)
            json_figure(o, c, lw_bucket_times[k], b->time[k]);
        lw_jsonout_end(o);
    }
    lw_jsonout_end(o);
    r = lw_compared_records(c, "ops", ops, lw_compared_ops(c, ops), LW_COMPARED_SHORT);
    lw_records_json(o, &r);
}

static void json_per_unit(struct lw_jsonout *o, const struct lw_comparison *c)
{
    struct lw_per_unit u = lw_comparison_per_unit(c);
    double pct = lw_per_unit_pct(u, c->step);

    if (u.unit)
        LW_JSON_ROW(o, "per_unit", "unit", u.unit, "a_per_step", u.a, "b_per_step", u.b, "a_ns",
                    lw_decimals((double)c->step.predicted * 1e-3 / u.a, 3), "b_ns",
                    lw_decimals((double)c->step.measured * 1e-3 / u.b, 3), "change_pct",
                    lw_decimals_if(!isnan(pct), pct, 3));
    else
        lw_jsonout_null(o, "per_unit");
}

void lw_comparison_json(const struct lw_comparison *c, double tolerance, bool within, FILE *f)
{
    static const enum lw_period_figure shown[] = {LW_FIGURE_COMPUTE, LW_FIGURE_COPY_BUSY,
                                                  LW_FIGURE_COMM_BUSY, LW_FIGURE_EXPOSED_COMM,
                                                  LW_FIGURE_IDLE};
    struct lw_jsonout o = {.file = f};
    char key[32];

    lw_jsonout_object(&o, NULL);
    json_run(&o, c, 0);
    json_run(&o, c, 1);
    json_frameworks(&o, &c->framework);
    LW_JSON(&o, "same_plan", c->same_decisions, "first_difference",
            c->difference[0] ? c->difference : NULL, "joined_by", lw_joined_name(c->joined), "note",
            c->note);
    for (int side = 0; side < 2; side++)
        lw_jsonout_strings(&o, side_key(c, side, "_from_times", key), c->from_times[side],
                           c->n_from_times[side]);
    json_figure(&o, c, "step", c->step);
    json_per_unit(&o, c);
    LW_JSON(&o, side_key(c, 0, "_rank", key), c->rank[0], side_key(c, 1, "_rank", key), c->rank[1]);
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++) {
        const char *name = lw_period_columns[LW_PERIOD_FIRST_COLUMN + shown[i]].key;
        snprintf(key, sizeof key, "%.*s", (int)strlen(name) - 3, name); /* without its "_ns" */
        json_figure(&o, c, key, c->figure[shown[i]]);
    }
    json_split(&o, &c->split);
    json_lists(&o, c);
    if (tolerance < 0) {
        lw_jsonout_null(&o, "tolerance_pct");
        lw_jsonout_null(&o, "within_tolerance");
    } else {
        LW_JSON(&o, "tolerance_pct", tolerance, "within_tolerance", within);
    }
    lw_jsonout_end(&o);
}

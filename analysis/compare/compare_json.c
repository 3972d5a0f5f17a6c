/* A comparison as JSON: docs/formats/compare.md. */
#include "analysis/compare/compare_show.h"
#include "shared/json/jsonout.h"

static void json_ns(struct lw_jsonout *o, const char *key, lw_ps v, bool known)
{
    if (known)
        lw_jsonout_ns(o, key, v);
    else
        lw_jsonout_null(o, key);
}

/* How the two sides are called. */
struct names {
    const char *first, *second, *first_ns, *second_ns, *first_rank, *second_rank, *first_bytes,
        *second_bytes, *pct;
};

static const struct names of_prediction = {
    "predicted", "measured", "predicted_ns", "measured_ns", "predicted_rank", "measured_rank",
    "predicted_bytes", "measured_bytes", "error_pct"};
static const struct names of_one_kind = {"a", "b", "a_ns", "b_ns", "a_rank", "b_rank", "a_bytes",
                                         "b_bytes", "change_pct"};

static const struct names *names_of(const struct lw_comparison *c)
{
    return c->of_one_kind ? &of_one_kind : &of_prediction;
}

static void json_named(struct lw_jsonout *o, const char *key, const struct names *n,
                       struct lw_both v, double pct)
{
    lw_jsonout_line_object(o, key);
    json_ns(o, n->first_ns, v.predicted, v.predicted != -1);
    json_ns(o, n->second_ns, v.measured, v.measured != -1);
    lw_jsonout_fixed(o, n->pct, pct, 3);
    lw_jsonout_end(o);
}

static void json_both(struct lw_jsonout *o, const struct lw_comparison *c, const char *key,
                      struct lw_both v)
{
    json_named(o, key, names_of(c), v, lw_comparison_pct(c, v));
}

/* Predicted minus measured, or B minus A. */
static void json_difference(struct lw_jsonout *o, const struct lw_comparison *c, struct lw_both v)
{
    const struct names *n = names_of(c);

    lw_jsonout_ns(o, n->first_ns, v.predicted);
    lw_jsonout_ns(o, n->second_ns, v.measured);
    lw_jsonout_ns(o, "difference_ns",
                  c->of_one_kind ? v.measured - v.predicted : v.predicted - v.measured);
}

static void json_run(struct lw_jsonout *o, const char *key, const struct lw_run *r,
                     const char *label)
{
    lw_jsonout_object(o, key);
    lw_jsonout_int(o, "id", r->id);
    lw_jsonout_string(o, "name", r->name);
    lw_jsonout_string(o, "kind", lw_run_kind_name(r->kind));
    lw_jsonout_string(o, "backend", r->backend);
    lw_jsonout_string(o, "honesty", r->honesty);
    lw_jsonout_string(o, "plan_hash", r->plan_hash[0] ? r->plan_hash : NULL);
    lw_jsonout_string(o, "cluster", r->cluster_name);
    if (r->samples < 0)
        lw_jsonout_null(o, "samples");
    else
        lw_jsonout_int(o, "samples", r->samples);
    lw_jsonout_string(o, "label", label);
    lw_jsonout_end(o);
}

static void json_lists(struct lw_jsonout *o, const struct lw_comparison *c)
{
    lw_jsonout_array(o, "parts");
    for (int i = 0; i < LW_N_PARTS; i++) {
        lw_jsonout_line_object(o, NULL);
        lw_jsonout_string(o, "what", lw_part_name((enum lw_part)i));
        json_difference(o, c, c->part[i]);
        lw_jsonout_end(o);
    }
    lw_jsonout_end(o);
    lw_jsonout_array(o, "buckets");
    for (int32_t i = 0; i < c->n_buckets; i++) {
        const struct lw_bucket_line *b = &c->buckets[i];
        lw_jsonout_object(o, NULL);
        lw_jsonout_int(o, "bucket", b->bucket);
        lw_jsonout_string(o, "op", b->kind);
        lw_jsonout_int(o, names_of(c)->first_bytes, b->bytes.predicted);
        lw_jsonout_int(o, names_of(c)->second_bytes, b->bytes.measured);
        json_both(o, c, "ready", b->ready);
        json_both(o, c, "launch", b->launch);
        json_both(o, c, "start", b->start);
        json_both(o, c, "finish", b->finish);
        lw_jsonout_end(o);
    }
    lw_jsonout_end(o);
    lw_jsonout_array(o, "ops");
    for (int32_t i = 0; i < c->n_ops; i++) {
        lw_jsonout_line_object(o, NULL);
        lw_jsonout_string(o, "what", c->ops[i].name);
        json_difference(o, c, c->ops[i].time);
        lw_jsonout_end(o);
    }
    lw_jsonout_end(o);
}

void lw_comparison_json(const struct lw_comparison *c, double tolerance, bool within, FILE *f)
{
    struct lw_jsonout o = {.file = f};

    lw_jsonout_object(&o, NULL);
    json_run(&o, names_of(c)->first, &c->predicted, c->label[0]);
    json_run(&o, names_of(c)->second, &c->measured, c->label[1]);
    lw_jsonout_bool(&o, "same_plan", c->predicted.plan >= 0 &&
                                         c->predicted.plan == c->measured.plan);
    lw_jsonout_string(&o, "joined_by", lw_joined_name(c->joined));
    lw_jsonout_string(&o, "note", c->note);
    json_both(&o, c, "step", c->step);
    lw_jsonout_int(&o, names_of(c)->first_rank, c->rank[0]);
    lw_jsonout_int(&o, names_of(c)->second_rank, c->rank[1]);
    json_both(&o, c, "compute_busy", c->part[LW_PART_COMPUTE]);
    json_both(&o, c, "copy_busy", c->copy_busy);
    json_both(&o, c, "comm_busy", c->comm_busy);
    json_both(&o, c, "exposed_comm", c->exposed_comm);
    json_both(&o, c, "idle", c->part[LW_PART_IDLE]);
    json_lists(&o, c);
    if (tolerance < 0) {
        lw_jsonout_null(&o, "tolerance_pct");
        lw_jsonout_null(&o, "within_tolerance");
    } else {
        lw_jsonout_double(&o, "tolerance_pct", tolerance);
        lw_jsonout_bool(&o, "within_tolerance", within);
    }
    lw_jsonout_end(&o);
}

static void json_pair(struct lw_jsonout *o, const struct lw_run *p, const struct lw_run *m)
{
    lw_jsonout_object(o, NULL);
    lw_jsonout_int(o, "predicted_run", p->id);
    lw_jsonout_int(o, "measured_run", m->id);
    lw_jsonout_string(o, "plan_hash", m->plan_hash);
    lw_jsonout_int(o, "bucket_cap_bytes", m->bucket_cap_bytes);
    lw_jsonout_int(o, "n_buckets", m->n_buckets);
    lw_jsonout_string(o, "backend", m->backend);
    lw_jsonout_string(o, "honesty", m->honesty);
    struct lw_both step = {p->step, m->step}, exposed = {p->exposed_comm, m->exposed_comm};
    json_named(o, "step", &of_prediction, step, lw_both_error_pct(step));
    json_named(o, "exposed_comm", &of_prediction, exposed, lw_both_error_pct(exposed));
    lw_jsonout_end(o);
}

void lw_pairs_json(const struct lw_run *runs, int32_t n, FILE *f)
{
    struct lw_jsonout o = {.file = f};

    lw_jsonout_object(&o, NULL);
    lw_jsonout_array(&o, "pairs");
    for (int32_t i = 0; i < n; i++) {
        const struct lw_run *p = lw_run_is_measured(&runs[i])
                                     ? lw_prediction_of(runs, n, &runs[i]) : NULL;
        if (p)
            json_pair(&o, p, &runs[i]);
    }
    lw_jsonout_end(&o);
    lw_jsonout_end(&o);
}

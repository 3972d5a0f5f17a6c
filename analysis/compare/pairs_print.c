/* Executions beside their predictions, as text, CSV and JSON. */
#include <math.h>
#include <string.h>

#include "analysis/compare/compare_lines.h"
#include "analysis/compare/compare_print.h"
#include "analysis/compare/run_words.h"
#include "shared/text/table.h"
#include "shared/text/wrap.h"

/* The last columns of the table of pairs. */
struct pair_columns {
    bool framework, speed;
    const char *one_framework; /* of all pairs; NULL: they differ */
};

static const char *framework_of(const struct lw_run *r)
{
    return r->framework && *r->framework ? r->framework : "-";
}

/* In text a speed is shown where one is known, and then a framework that all share is left out: the
 * table fits 100 columns. */
static struct pair_columns pair_columns(const struct lw_run *runs, int32_t n, bool csv)
{
    struct pair_columns k = {.framework = true, .speed = csv};
    bool differ = false;

    for (int32_t i = 0; i < n; i++) {
        const struct lw_run *p = lw_prediction_of(runs, n, &runs[i]);
        if (!p)
            continue;
        k.speed = k.speed || !isnan(runs[i].machine_speed);
        differ = differ || (k.one_framework && strcmp(framework_of(p), k.one_framework) != 0);
        k.one_framework = framework_of(p);
    }
    k.framework = csv || !k.speed || differ;
    return k;
}

static void pair_row(struct lw_table *t, const struct lw_run *p, const struct lw_run *m,
                     struct pair_columns k)
{
    char cap[32];

    lw_table_cell(t, "%lld, %lld", (long long)p->id, (long long)m->id);
    LW_CELLS(t, m->bucket_cap_bytes < 0 ? "default" : lw_format_bytes(cap, m->bucket_cap_bytes),
             m->n_buckets, LW_MS(p->step), LW_MS(m->step));
    lw_table_cell(t, "%+.1f", lw_both_error_pct((struct lw_both){p->step, m->step}));
    LW_CELLS(t, LW_MS(p->exposed_comm), LW_MS(m->exposed_comm));
    lw_table_cell(t, "%s%s%s%s", lw_run_under_load(m) ? "under load: " : "", m->backend,
                  m->honesty[0] ? ", " : "", m->honesty);
    if (k.framework)
        LW_CELLS(t, framework_of(p));
    if (k.speed)
        lw_table_cell(t, isnan(m->machine_speed) ? "-" : "%.3f", m->machine_speed);
}

enum lw_status lw_pairs_text(const struct lw_run *runs, int32_t n, bool csv, FILE *f,
                             struct lw_err *err)
{
    const struct pair_columns k = pair_columns(runs, n, csv);
    const char *titles[] = {"runs", ">bucket cap", ">buckets", ">predicted step ms",
        ">measured step ms", ">error %", ">predicted exposed ms", ">measured exposed ms",
        "measured on", k.framework ? "framework" : ">machine speed", ">machine speed"};
    struct lw_table *t = lw_table_new(9 + k.framework + k.speed, titles);
    int32_t n_measured = 0;

    for (int32_t i = 0; i < n; i++) {
        const struct lw_run *p = lw_prediction_of(runs, n, &runs[i]);
        if (p)
            pair_row(t, p, &runs[i], k);
        n_measured += lw_run_is_measured(&runs[i]);
    }
    enum lw_status st = lw_table_end(t, f, csv ? LW_TABLE_CSV : 0, err);
    if (st == LW_OK && !k.framework && strcmp(k.one_framework, "-") != 0)
        fprintf(f, "framework of all: %s\n", k.one_framework);
    if (st == LW_OK && !csv && n_measured == 0)
        fputs("no run is measured: lapwing exec stores one of a plan, lapwing sim its prediction\n",
              f);
    for (int32_t i = 0; st == LW_OK && !csv && i < n; i++)
        if (lw_run_under_load(&runs[i]) && lw_prediction_of(runs, n, &runs[i]))
            lw_printf_paragraph(f,
                                "run %lld was measured under load (%.1f %% of the processors): its "
                                "error is not the model's; repeat it", (long long)runs[i].id,
                                runs[i].others_pct);
    for (int32_t i = 0; st == LW_OK && !csv && i < n; i++)
        if (lw_run_is_measured(&runs[i]) && !lw_prediction_of(runs, n, &runs[i]))
            fprintf(f, "run %lld has no prediction: store one of its plan with lapwing sim\n",
                    (long long)runs[i].id);
    return st;
}

static void json_pair(struct lw_jsonout *o, const struct lw_run *p, const struct lw_run *m)
{
    lw_jsonout_object(o, NULL);
    LW_JSON(o, "predicted_run", p->id, "measured_run", m->id, "plan_hash", m->plan_hash,
            "framework", lw_text_or_null(p->framework),
            "framework_hash", lw_text_or_null(p->framework_hash),
            "bucket_cap_bytes", m->bucket_cap_bytes, "n_buckets", m->n_buckets,
            "backend", m->backend, "compute_source", m->compute_source, "network", m->network,
            "honesty", m->honesty, "under_load", lw_run_under_load(m));
    lw_machine_speed_json(o, m);
    struct lw_both step = {p->step, m->step}, exposed = {p->exposed_comm, m->exposed_comm};
    LW_JSON(o, "p10_ns", lw_known_if(p->p90 > 0, lw_ps_to_ns(p->p10)),
            "p90_ns", lw_known_if(p->p90 > 0, lw_ps_to_ns(p->p90)));
    lw_compared_json(o, lw_predicted_columns, "step", step, lw_both_error_pct(step));
    lw_compared_json(o, lw_predicted_columns, "exposed_comm", exposed, lw_both_error_pct(exposed));
    lw_jsonout_end(o);
}

void lw_pairs_json(const struct lw_run *runs, int32_t n, FILE *f)
{
    struct lw_jsonout o = {.file = f};

    lw_jsonout_object(&o, NULL);
    lw_jsonout_array(&o, "pairs");
    for (int32_t i = 0; i < n; i++) {
        const struct lw_run *p = lw_prediction_of(runs, n, &runs[i]);
        if (p)
            json_pair(&o, p, &runs[i]);
    }
    lw_jsonout_end(&o);
    lw_jsonout_end(&o);
}

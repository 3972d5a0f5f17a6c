/* The summary of an import: sizes, times, how much of the recorded step the workload covers, and
 * every assumption. */
#include "traces/import_print.h"

#include "shared/jsonout.h"
#include "shared/units.h"

static double percent(int64_t part, int64_t whole)
{
    return whole > 0 ? 100.0 * (double)part / (double)whole : 0;
}

static void put_time(FILE *f, const char *what, lw_ps t)
{
    char text[32];

    fprintf(f, "  %-12s %s\n", what, lw_format_ps(text, t));
}

static void put_recorded(const struct lw_recorded *r, FILE *f)
{
    char text[32];

    if (r->world_size == 0)
        return;
    fprintf(f, "  recorded     world size %d", r->world_size);
    if (r->step_ps >= 0)
        fprintf(f, ", step %s", lw_format_ps(text, r->step_ps));
    if (r->n_limits > 0)
        fprintf(f, ", bucket limits");
    for (int32_t i = 0; i < r->n_limits; i++)
        fprintf(f, "%s %lld", i ? "," : "", (long long)r->limit_bytes[i]);
    if (r->n_buckets > 0)
        fprintf(f, ", %d buckets", r->n_buckets);
    fputc('\n', f);
    for (int32_t i = 0; i < r->n_buckets; i++)
        fprintf(f, "%s%lld%s", i ? ", " : "               ", (long long)r->bucket_bytes[i],
                i + 1 == r->n_buckets ? " bytes\n" : "");
}

void traces_import_text(const struct lw_workload *w, const struct traces_coverage *c,
                        const char *output, FILE *f)
{
    lw_ps gaps = 0;

    for (int g = 0; g < LW_N_GAPS; g++)
        gaps += w->gap_ps[g];
    fprintf(f, "%s: %s, %d modules, %d parameters of %lld elements, %d buffers, %d gradients\n",
            output, w->name, w->n_modules, w->n_params, (long long)lw_workload_numel(w, false),
            w->n_buffers, w->n_ready);
    put_time(f, "step", lw_workload_step_ps(w));
    put_time(f, "forward", lw_workload_forward_ps(w));
    put_time(f, "backward", lw_workload_backward_ps(w));
    put_time(f, "optimizer", w->optimizer_ps);
    put_time(f, "gaps", gaps);
    if (c->measured_ns >= 0)
        fprintf(f, "  coverage     %.2f %% of the step measured without the profiler (%.3f ms)\n",
                percent(c->workload_ns, c->measured_ns), (double)c->measured_ns / 1e6);
    else
        fprintf(f, "  coverage     %.2f %% of the recorded step (%.3f ms, %.3f ms left out)\n",
                percent(c->workload_ns, c->traced_ns - c->excluded_ns), (double)c->traced_ns / 1e6,
                (double)c->excluded_ns / 1e6);
    put_recorded(&w->recorded, f);
    for (int32_t i = 0; i < w->n_notes; i++)
        fprintf(f, "  note: %s\n", w->notes[i]);
}

void traces_import_json(const struct lw_workload *w, const struct traces_coverage *c,
                        const char *output, FILE *f)
{
    struct lw_jsonout o = {.file = f};
    int64_t covered = c->measured_ns >= 0 ? c->measured_ns : c->traced_ns - c->excluded_ns;

    lw_jsonout_object(&o, NULL);
    lw_jsonout_string(&o, "output", output);
    lw_jsonout_string(&o, "name", w->name);
    lw_jsonout_int(&o, "n_modules", w->n_modules);
    lw_jsonout_int(&o, "n_params", w->n_params);
    lw_jsonout_int(&o, "numel", lw_workload_numel(w, false));
    lw_jsonout_int(&o, "n_gradients", w->n_ready);
    lw_jsonout_ns(&o, "step_ns", lw_workload_step_ps(w));
    lw_jsonout_ns(&o, "forward_ns", lw_workload_forward_ps(w));
    lw_jsonout_ns(&o, "backward_ns", lw_workload_backward_ps(w));
    lw_jsonout_ns(&o, "optimizer_ns", w->optimizer_ps);
    lw_jsonout_int(&o, "traced_step_ns", c->traced_ns);
    lw_jsonout_int(&o, "excluded_ns", c->excluded_ns);
    if (c->measured_ns >= 0)
        lw_jsonout_int(&o, "measured_step_ns", c->measured_ns);
    else
        lw_jsonout_null(&o, "measured_step_ns");
    lw_jsonout_fixed(&o, "coverage_pct", percent(c->workload_ns, covered), 3);
    lw_jsonout_array(&o, "notes");
    for (int32_t i = 0; i < w->n_notes; i++)
        lw_jsonout_string(&o, NULL, w->notes[i]);
    lw_jsonout_end(&o);
    lw_jsonout_end(&o);
}

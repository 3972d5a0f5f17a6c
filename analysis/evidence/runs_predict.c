/* A row of measured runs -> its prediction, and what its measured cells say of a step. They are
 * read by another function, so that no measured cell can reach a prediction. */
#include "analysis/evidence/runs_predict.h"

#include <string.h>

#include "analysis/evidence/step_flops.h"
#include "analysis/study/prediction.h"
#include "shared/timeline/throughput.h"
#include "traces/models/model_workload.h"

static bool is(const char *text, const char *word)
{
    return strcmp(text, word) == 0;
}

/* --- prediction ------------------------------------------------------------------------------- */

static double shown_bytes(const struct lw_runs *r, int32_t row, const struct lw_prediction *p)
{
    const char *rank = lw_runs_cell(r, row, LW_RUN_MEMORY_RANK);
    const char *kind = lw_runs_cell(r, row, LW_RUN_MEMORY_KIND);
    const struct lw_framework_bytes *b = is(rank, "first")  ? &p->memory.first
                                         : is(rank, "last") ? &p->memory.last
                                                            : &p->memory.fullest;

    return is(kind, "device") ? b->device : is(kind, "reserved") ? b->reserved : b->allocated;
}

static double flops_of(const struct lw_runs *r, int32_t row, const struct lw_prediction *p)
{
    const char *how = lw_runs_cell(r, row, LW_RUN_FLOPS);

    return lw_step_flops(&p->plan, &p->source.workload, strncmp(how, "hardware", 8) == 0,
                         strstr(how, "-causal") != NULL);
}

static void take(const struct lw_runs *r, int32_t row, const struct lw_prediction *p,
                 struct lw_runs_prediction *out)
{
    const struct lw_workload *w = &p->source.workload;
    const struct lw_device *d = &p->cluster.device;
    struct lw_throughput t = lw_throughput_of(&p->plan, &p->cluster, p->summary.step);
    struct lw_figure peak = d->peak_flops[lw_workload_main_dtype(w)];

    out->step_ns = (double)p->summary.step / (double)LW_PS_PER_NS;
    out->memory_bytes = shown_bytes(r, row, p);
    out->needed_bytes = p->memory.needed;
    out->capacity_bytes = d->memory_bytes.value - (double)p->memory.own_bytes;
    out->n_devices = p->plan.n_ranks;
    out->samples = (double)t.samples;
    out->tokens = (double)t.tokens;
    out->flops = flops_of(r, row, p);
    out->peak_flops_per_s = lw_figure_is_set(peak) ? peak.value : 0;
    out->least_flops = lw_step_flops(&p->plan, w, false, true);
    out->most_flops_per_s = out->peak_flops_per_s;
    if (t.peak_flops_per_s > out->most_flops_per_s) /* 8 bits; not NAN */
        out->most_flops_per_s = t.peak_flops_per_s;
    if (out->step_ns > 0)
        out->tokens_per_s_device = out->tokens / out->n_devices / (out->step_ns * 1e-9);
}

/* The command with --framework OWN in the place of the row's own. */
static enum lw_status put_framework(const char *own, struct lw_arena *arena, const char **command,
                                    struct lw_err *err)
{
    static const char option[] = " --framework ";
    const char *at = strstr(*command, option), *end = *command + strlen(*command), *after = end;

    if (at)
        after = at + strlen(option) + strcspn(at + strlen(option), " ");
    LW_PRINT(arena, *command, err, "%.*s%s%s%s", (int)((at ? at : end) - *command), *command,
             option, own, after);
    return LW_OK;
}

static enum lw_status predict(const struct lw_runs *r, int32_t row, const char *own,
                              const char *own_name, struct lw_arena *arena, struct lw_prediction *p,
                              struct lw_runs_prediction *out, struct lw_err *err)
{
    int32_t column;

    LW_TRY(lw_runs_source(r, row, arena, &p->source, &column, err));
    bool named = p->source.framework_name != NULL;
    LW_TRY(lw_plan_source_given(&p->source, err));
    out->takes_own = own && (!named || is(p->source.framework.name, own_name));
    if (out->takes_own) {
        lw_framework_free(&p->source.framework);
        p->source.framework_name = own;
        LW_TRY(put_framework(own, arena, &out->command, err));
    }
    return lw_predict(p, err);
}

enum lw_status lw_runs_predict(const struct lw_runs *r, int32_t row, const char *own,
                               const char *own_name, struct lw_arena *arena,
                               struct lw_runs_prediction *out, struct lw_err *err)
{
    struct lw_prediction p = {.options = lw_sim_options_default(),
                              .seed = -1,
                              .row.id = -1,
                              .no_db = true,
                              .quiet = true};

    *out = (struct lw_runs_prediction){.why = ""};
    LW_TRY(lw_runs_command(r, row, arena, &out->command, err));
    lw_plan_source_init(&p.source);
    p.source.make_model = traces_model_workload;
    p.source.predicts = p.source.silent = true;
    enum lw_status s = predict(r, row, own, own_name, arena, &p, out, err);
    const char *framework = p.source.framework.name;
    struct lw_alike_key key = s == LW_OK ? lw_prediction_key(&p) : (struct lw_alike_key){{NULL}};
    bool kept = true;
    if (s == LW_OK)
        take(r, row, &p, out);
    for (int k = 0; k < LW_ALIKE_PARTS; k++) {
        const char *part = s == LW_OK ? key.part[k] : "";
        part = k == 0 && framework ? framework : part;
        out->key.part[k] = lw_arena_strdup(arena, part);
        kept &= out->key.part[k] != NULL;
    }
    out->is_refused = s != LW_OK && p.source.refused;
    if (out->is_refused)
        out->why = lw_arena_strdup(arena, err->msg);
    s = out->is_refused ? LW_OK : s;
    lw_prediction_free(&p);
    return s == LW_OK && !(kept && out->why) ? lw_fail_nomem(err) : s;
}

/* --- measurement ------------------------------------------------------------------------------ */

static double tokens_step(const struct lw_runs_prediction *p, double v)
{
    return p->tokens / p->n_devices / v;
}

static double samples_step(const struct lw_runs_prediction *p, double v)
{
    return p->samples / v;
}

static double tflops_step(const struct lw_runs_prediction *p, double v)
{
    return p->flops / (v * 1e12 * p->n_devices);
}

static double step_of(const struct lw_runs *r, int32_t row, const struct lw_runs_prediction *p)
{
    static const struct {
        enum lw_runs_cell cell;
        double (*step)(const struct lw_runs_prediction *p, double v);
    } rates[] = {
        {LW_RUN_TOKENS, tokens_step},
        {LW_RUN_SAMPLES, samples_step},
        {LW_RUN_TFLOPS, tflops_step},
    };
    double v = lw_runs_number(r, row, LW_RUN_STEP);

    if (v > 0 || p->n_devices == 0)
        return v;
    for (size_t k = 0; k < sizeof rates / sizeof *rates; k++) {
        v = lw_runs_number(r, row, rates[k].cell);
        if (v > 0)
            return rates[k].step(p, v);
    }
    double peak = lw_runs_number(r, row, LW_RUN_MFU_PEAK) * 1e12;
    peak = peak > 0 ? peak : p->peak_flops_per_s;
    v = lw_runs_number(r, row, LW_RUN_MFU) * 0.01 * peak;
    return v > 0 ? p->flops / (v * p->n_devices) : 0;
}

bool lw_runs_is_measured(const struct lw_runs *r, int32_t row)
{
    const char *outcome = lw_runs_cell(r, row, LW_RUN_OUTCOME);

    for (int k = LW_RUN_STEP; k <= LW_RUN_MEMORY_GB; k++)
        if (*lw_runs_cell(r, row, (enum lw_runs_cell)k))
            return true;
    return *outcome && !is(outcome, "ran");
}

void lw_runs_measure(const struct lw_runs *r, int32_t row, const struct lw_runs_prediction *p,
                     struct lw_runs_measured *out)
{
    const char *outcome = lw_runs_cell(r, row, LW_RUN_OUTCOME);
    double gib = lw_runs_number(r, row, LW_RUN_MEMORY_GIB);

    *out = (struct lw_runs_measured){.step_s = step_of(r, row, p)};
    out->memory_bytes =
        gib > 0 ? gib * 1073741824.0 : lw_runs_number(r, row, LW_RUN_MEMORY_GB) * 1e9;
    if (out->step_s > 0 && p->most_flops_per_s > 0)
        out->mfu_pct = 100 * p->least_flops / (out->step_s * p->n_devices * p->most_flops_per_s);
    out->failed = is(outcome, "out-of-memory");
}

/* What most readers want to know of a prediction, in the first lines. Figures that are not known
 * are left out of the text and are null in JSON. */
#include "sim/predict/sim_head.h"

#include <math.h>
#include <string.h>

#include "shared/numbers/checked.h"
#include "shared/numbers/interval_text.h"
#include "shared/strategy/strategy.h"
#include "shared/text/wrap.h"
#include "shared/timeline/accumulation_print.h"
#include "sim/predict/sim_result.h"

int64_t lw_sim_missing_bytes(const struct lw_sim_report *r)
{
    return r->memory ? lw_memory_missing_bytes(r->memory, &r->cluster->device) : -1;
}

bool lw_sim_is_close(const struct lw_sim_report *r)
{
    return r->memory && lw_memory_is_close(r->memory, &r->cluster->device);
}

bool lw_sim_is_drawn(const struct lw_sim_report *r)
{
    const struct lw_sim_options *o = r->options;

    return o->noise || o->jitter_ps > 0 || o->start_skew_ps > 0 || o->rank_sigma > 0 ||
           r->samples->n > 0;
}

static const struct lw_measure *worst(const struct lw_sim_report *r)
{
    return &r->summary->ranks[r->summary->worst];
}

double lw_sim_overlap_pct(const struct lw_measure *m)
{
    return m->comm_busy > 0
               ? 100 * (double)(m->comm_busy - m->exposed_comm) / (double)m->comm_busy
               : NAN;
}

static void text_plan(const struct lw_sim_report *r, FILE *f)
{
    lw_printf_paragraph(f, "plan %s (%.8s), %d rank%s on cluster '%s', %s detail%s", r->plan->name,
                        r->plan->hash, r->plan->n_ranks, lw_plural(r->plan->n_ranks),
                        r->cluster->name,
                        r->options->detail == LW_SIM_CHUNK ? "chunk" : "collective",
                        r->options->buffered ? ", buffered sends" : "");
}

static void text_framework(const struct lw_sim_report *r, FILE *f)
{
    if (r->framework)
        lw_framework_choice_print(r->framework, f);
    else
        fputs("framework: as recorded\n", f);
}

static void put_alike(const struct lw_sim_alike *a, FILE *f)
{
    char interval[LW_INTERVAL_TEXT];

    if (a->of)
        fprintf(f, " (%s)", lw_interval_text(interval, a->p10, a->p90, a->of));
}

/* On which side of a prediction the runs of its interval lie. */
static void text_past(const struct lw_sim_alike *a, FILE *f)
{
    if (a->of)
        lw_printf_paragraph(f, "such runs took %.2f times the predicted step (median over tables), "
                            "%.0f %% of them longer", 1 / a->median, 100 * a->longer);
}

/* Where the interval is not of such runs, or there is none. */
static void put_nearest(const struct lw_sim_report *r, FILE *f)
{
    const struct lw_sim_alike *a = &r->alike;

    if (r->framework && r->options->detail == LW_SIM_CHUNK)
        fputs("; no p10-p90: the ratios to measured runs are of collective detail", f);
    if (!a->asked || !isnan(a->mean))
        return;
    if (a->n == 0)
        fputs("; no measured run is like this one", f);
    else
        fprintf(f, "; only %d measured run%s like this one", a->n, a->n == 1 ? " is" : "s are");
    if (a->nearest)
        fprintf(f, ": %s", a->nearest);
}

static void text_accumulation(const struct lw_sim_report *r, FILE *f)
{
    if (!r->replayed && !r->graph)
        lw_accumulation_print(r->plan->strategy, f);
}

static enum lw_status text_step(const struct lw_sim_report *r, FILE *out, struct lw_err *err)
{
    const struct lw_summary *s = r->summary;
    struct lw_paragraph line;
    FILE *f = lw_paragraph_open(&line, out, NULL);
    char buf[32];

    fprintf(f, "step %s", lw_format_ps(buf, s->step));
    put_alike(&r->alike, f);
    fprintf(f, ", median of %d predicted", s->n_steps);
    if (s->span != s->step)
        fprintf(f, " (from first start to last end %s)", lw_format_ps(buf, s->span));
    if (lw_sim_is_drawn(r))
        fprintf(f, ", seed %llu", (unsigned long long)r->options->seed);
    put_nearest(r, f);
    LW_TRY(lw_paragraph_close(&line, err));
    text_past(&r->alike, out);
    return LW_OK;
}

/* Tokens that experts drop are of the model, and no device computes them. */
static const char *doubt(const struct lw_throughput *t)
{
    return !(t->mfu > 1) ? ""
           : t->hfu <= 1 ? ": the model's FLOPs, of which experts drop a part"
                         : ": more than a device can do, so times, FLOPs or peak are wrong";
}

/* Of models without tokens: samples. */
static enum lw_status text_rate(const struct lw_throughput *t, FILE *out, struct lw_err *err)
{
    bool tokens = !isnan(t->tokens_per_s);
    double all = tokens ? t->tokens_per_s : t->samples_per_s;
    struct lw_paragraph line;
    char device[32], job[32];

    if (isnan(all))
        return LW_OK;
    FILE *f = lw_paragraph_open(&line, out, NULL);
    fprintf(f, "%s %s/s a device, %s in all",
            lw_format_rate(device, sizeof device, all / t->n_devices),
            tokens ? "tokens" : "samples", lw_format_rate(job, sizeof job, all));
    if (!isnan(t->mfu))
        fprintf(f, "; MFU %.1f %% of the %s peak, %.5g TFLOP/s%s", 100 * t->mfu, t->peak_of,
                t->peak_flops_per_s * 1e-12, doubt(t));
    return lw_paragraph_close(&line, err);
}

/* "bubble": of the exposed part, waiting for pipeline neighbours. */
static enum lw_status text_overlap(const struct lw_measure *m, FILE *out, struct lw_err *err)
{
    char busy[32], exposed[32], bubble[32];
    struct lw_paragraph line;

    if (m->comm_busy == 0) {
        fputs("overlap: nothing is communicated\n", out);
        return LW_OK;
    }
    FILE *f = lw_paragraph_open(&line, out, NULL);
    fprintf(f, "overlap %.1f %%: of %s of communication %s are exposed", lw_sim_overlap_pct(m),
            lw_format_ps(busy, m->comm_busy), lw_format_ps(exposed, m->exposed_comm));
    if (m->wait[LW_WAIT_PIPELINE] > 0)
        fprintf(f, ", of it bubble %s", lw_format_ps(bubble, m->wait[LW_WAIT_PIPELINE]));
    return lw_paragraph_close(&line, err);
}

enum lw_status lw_sim_head_text(const struct lw_sim_report *r, const struct lw_throughput *t,
                                FILE *f, struct lw_err *err)
{
    text_plan(r, f);
    text_framework(r, f);
    LW_TRY(text_step(r, f, err));
    LW_TRY(text_rate(t, f, err));
    LW_TRY(text_overlap(worst(r), f, err));
    if (r->memory)
        LW_TRY(lw_memory_figures_text(r->memory, &r->cluster->device, f, err));
    else
        fputs("memory: not recorded\n", f);
    const struct lw_budget b = lw_sim_budget(r);
    LW_TRY(lw_budget_text(&b, r->plan->n_ranks, f, err));
    text_accumulation(r, f);
    return LW_OK;
}

void lw_sim_head_json(struct lw_jsonout *o, const struct lw_sim_report *r,
                      const struct lw_throughput *t)
{
    int64_t missing = lw_sim_missing_bytes(r);

    lw_framework_choice_json(o, r->framework);
    const struct lw_sim_alike *a = &r->alike;
    bool some = a->asked && !isnan(a->mean);
    LW_JSON(o, "p10_ns", lw_known_if(a->of != NULL, lw_ps_to_ns(a->p10)), "p90_ns",
            lw_known_if(a->of != NULL, lw_ps_to_ns(a->p90)), "interval_of", a->of, "n_alike",
            lw_known_if(a->asked, a->n), "n_alike_tables", lw_known_if(a->asked, a->n_tables),
            "alike_mean_ratio", lw_decimals_if(some, a->mean, 4), "alike_p10_ratio",
            lw_decimals_if(some, a->low, 4), "alike_p90_ratio", lw_decimals_if(some, a->high, 4),
            "alike_nearest", a->nearest, "interval_median_ratio",
            lw_decimals_if(a->of != NULL, a->median, 4), "interval_longer_pct",
            lw_decimals_if(a->of != NULL, 100 * a->longer, 2));
    lw_jsonout_double(o, "overlap_pct", lw_sim_overlap_pct(worst(r)));
    lw_jsonout_double(o, "tokens_per_s", t->tokens_per_s);
    lw_jsonout_double(o, "tokens_per_s_per_device", t->tokens_per_s / t->n_devices);
    lw_jsonout_double(o, "mfu_pct", 100 * t->mfu);
    LW_JSON(o, "mfu_peak", isnan(t->mfu) ? NULL : t->peak_of);
    if (missing >= 0)
        lw_jsonout_bool(o, "fits", missing == 0);
    else
        lw_jsonout_null(o, "fits");
    if (r->memory)
        LW_JSON(o, "backwards_per_step", lw_backwards_per_step(r->plan->strategy),
                "reductions_per_step", lw_reductions_per_step(r->plan->strategy));
    const struct lw_budget b = lw_sim_budget(r);
    lw_budget_json(o, &b);
}

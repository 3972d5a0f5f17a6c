/* A run's options -> the prediction that `lapwing sim` makes of them, and the command that makes
 * it. */
#include "analysis/published/run_predict.h"

#include <stdio.h>
#include <string.h>

#include "analysis/study/prediction.h"
#include "shared/plan/workload.h"
#include "sim/predict/sim.h"
#include "traces/models/model_workload.h"

static bool has(const char *text, const char *word)
{
    return strstr(text, word) != NULL;
}

/* --- options ---------------------------------------------------------------------------------- */

static enum lw_status set(struct lw_plan_source *s, const struct lw_run_option *o,
                          const char *own_framework, struct lw_err *err)
{
    if (strcmp(o->name, "workload") == 0)
        s->workload_file = o->value;
    else if (strcmp(o->name, "cluster") == 0)
        s->cluster_file = o->value;
    else if (strcmp(o->name, "framework") == 0)
        s->framework_name = own_framework ? own_framework : o->value;
    else if (strcmp(o->name, "node-gbps") == 0)
        return sscanf(o->value, "%lf", &s->node_gbps) == 1 ? LW_OK : LW_EINVAL;
    else if (lw_model_find(o->name) >= 0)
        return lw_model_set(&s->model, o->name, o->value, err);
    else
        return lw_plan_source_set(s, o->name, o->value, err);
    return LW_OK;
}

static void write_command(const struct lw_run_options *o, char *out, size_t size)
{
    size_t used = (size_t)snprintf(out, size, "lapwing sim");

    for (int i = 0; i < o->n && used < size; i++) {
        const struct lw_run_option *x = &o->options[i];
        bool model = strcmp(x->name, "workload") == 0, cluster = strcmp(x->name, "cluster") == 0;
        used += (size_t)snprintf(out + used, size - used, " %s%s%s%s",
                                 model ? "-w" : cluster ? "-c" : "--",
                                 model || cluster ? "" : x->name, x->is_flag ? "" : " ",
                                 x->is_flag ? "" : x->value);
    }
}

/* --- figures ---------------------------------------------------------------------------------- */

/* By the definition of the table: 3 times the forward's products; hardware: recomputed ones once
 * more; causal: half of attention's scores. */
static double step_flops(const struct lw_run *r, const struct lw_workload *w)
{
    bool again = has(r->flops, "hardware") && has(r->recompute, "full");
    double sum = 0;

    for (int32_t m = 0; m < w->n_modules; m++) {
        const struct lw_module *x = &w->modules[m];
        sum += (double)x->forward_flops * (again && x->tp_split == LW_TP_BLOCK ? 4 : 3);
    }
    sum *= (double)r->gbs / (double)r->mbs;
    if (has(r->flops, "causal"))
        sum -= 6.0 * (double)r->layers * (double)r->hidden * (double)r->seq * (double)r->seq *
               (double)r->gbs;
    return sum;
}

/* Bytes of the kind and rank that the table shows. */
static void take_bytes(const struct lw_run *r, const struct lw_prediction *p,
                       struct lw_run_prediction *out)
{
    const struct lw_framework_bytes *b = has(r->memory, "rank 0") ? &p->first : &p->fullest;
    const struct {
        const char *word, *kind;
        double bytes;
    } kinds[] = {{"nvidia-smi", "device", b->device},
                 {"reserved", "reserved", b->reserved},
                 {"", "allocated", b->allocated}};
    int k = 0;

    while (!has(r->memory, kinds[k].word))
        k++;
    out->memory_kind = kinds[k].kind;
    out->memory_bytes = kinds[k].bytes;
}

static void take(const struct lw_run *r, const struct lw_prediction *p,
                 struct lw_run_prediction *out)
{
    const struct lw_workload *w = &p->source.workload;
    const struct lw_device *d = &p->cluster.device;
    bool half = strcasestr(r->precision, "fp16") != NULL;

    out->step_ns = (double)p->summary.step / (double)LW_PS_PER_NS;
    out->step_flops = step_flops(r, w);
    out->peak = d->peak_flops[half ? LW_F16 : LW_BF16].value; /* 8 bits too */
    take_bytes(r, p, out);
    out->needed_bytes = p->needed_bytes;
    out->capacity_bytes = d->memory_bytes.value - (double)lw_device_framework_bytes(d);
    out->tokens_per_s_device =
        (double)r->gbs * (double)r->seq / (double)r->gpus / (out->step_ns * 1e-9);
}

enum lw_status lw_run_predict(const struct lw_run *r, const struct lw_run_options *options,
                              const char *own_framework, struct lw_run_prediction *out,
                              struct lw_err *err)
{
    struct lw_prediction p = {.options = lw_sim_options_default(), .seed = -1, .row.id = -1,
                              .no_db = true, .quiet = true};
    enum lw_status s = LW_OK;

    *out = (struct lw_run_prediction){0};
    write_command(options, out->command, sizeof out->command);
    lw_plan_source_init(&p.source);
    p.source.make_model = traces_model_workload;
    p.source.predicts = p.source.silent = true;
    for (int i = 0; s == LW_OK && i < options->n; i++)
        s = set(&p.source, &options->options[i], own_framework, err);
    if (s == LW_OK)
        s = lw_predict(&p, err);
    if (s == LW_OK)
        take(r, &p, out);
    out->is_refused = s != LW_OK && p.source.refused;
    if (out->is_refused)
        snprintf(out->why, sizeof out->why, "%.255s", err->msg);
    lw_prediction_free(&p);
    return out->is_refused ? LW_OK : s;
}

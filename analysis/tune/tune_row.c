/* A row by the function of `lapwing sim`, from the same options; or from what is known. */
#include "analysis/tune/tune_row.h"

#include <math.h>
#include <stdio.h>

#include "analysis/study/prediction.h"
#include "analysis/tune/tune_memo.h"
#include "shared/timeline/throughput.h"

enum lw_status lw_tune_row_texts(const struct lw_tune_part *p, const struct lw_tune_given *g,
                                 struct lw_arena *a, struct lw_tune_row *x, struct lw_err *err)
{
    char text[2048] = "";
    size_t n = 0;

    LW_PRINT(a, x->strategy, err, "%s", p->outer);
    for (int i = 0; i < g->n && n < sizeof text; i++) {
        LW_PRINT(a, x->strategy, err, "%s%s%s=%s", x->strategy,
                 x->strategy[0] ? " " : "", g->name[i], g->value[i]);
        n += (size_t)snprintf(text + n, sizeof text - n, " --%s %s", g->name[i], g->value[i]);
    }
    LW_PRINT(a, x->command, err, "%s%s%s", p->command, text, p->budget);
    return LW_OK;
}

bool lw_tune_is_close(const struct lw_tune_part *p, const struct lw_tune_row *x)
{
    const struct lw_device *d = &p->request.cluster->device;

    return x->missing_bytes > 0 &&
           lw_device_is_close(d, (int64_t)d->memory_bytes.value + x->missing_bytes);
}

static void take_figures(const struct lw_tune_part *part, const struct lw_prediction *p,
                         struct lw_tune_row *x)
{
    struct lw_throughput t = lw_throughput_of(&p->plan, &p->cluster, p->summary.step);
    const struct lw_figure price = p->cluster.price_per_device_hour;
    double each = part->price > 0 ? part->price : lw_figure_is_set(price) ? price.value : NAN;

    x->step = p->summary.step;
    x->step_p90 = x->p10 = x->p90 = x->run = -1;
    x->n_devices = p->plan.n_ranks;
    x->peak_memory_bytes = p->memory.peak_bytes;
    x->device_bytes = p->memory.peak_bytes < 0 ? -1 : lw_memory_device_bytes(&p->memory);
    x->missing_bytes = lw_memory_missing_bytes(&p->memory, &p->cluster.device);
    x->needed_bytes = p->memory.peak_bytes < 0 ? -1 : (int64_t)p->memory.needed;
    x->fits = x->missing_bytes <= 0;
    x->tokens_per_s = t.tokens_per_s;
    x->samples_per_s = t.samples_per_s;
    x->cost_per_trillion_tokens =
        each * (double)x->n_devices / 3600 / t.tokens_per_s * 1e12;
}

void lw_tune_put_budget(double tokens, struct lw_tune_row *x)
{
    double all = tokens > 0 ? tokens : NAN;

    x->days = all / x->tokens_per_s / 86400;
    x->cost = x->cost_per_trillion_tokens * all / 1e12;
}

enum lw_status lw_tune_row_key(const struct lw_alike_key *from, const char *framework,
                               struct lw_arena *a, struct lw_tune_row *x, struct lw_err *err)
{
    x->framework = lw_arena_strdup(a, framework);
    x->key = *from;
    bool kept = x->framework != NULL;
    for (int k = 0; k < LW_ALIKE_PARTS; k++) {
        x->key.part[k] = lw_arena_strdup(a, from->part[k] ? from->part[k] : "");
        kept &= x->key.part[k] != NULL;
    }
    return kept ? LW_OK : lw_fail_nomem(err);
}

enum lw_status lw_tune_row_recall(const struct lw_searched *known, struct lw_arena *a,
                                  struct lw_tune_row *x, struct lw_err *err)
{
    LW_TRY(lw_tune_memo_take(known, x, err));
    return lw_tune_alike_set(a, known->alike, x, err);
}

enum lw_status lw_tune_row_share(const struct lw_tune_row *of, const struct lw_searched *known,
                                 struct lw_arena *a, struct lw_tune_row *x, struct lw_err *err)
{
    struct lw_tune_row own = *x;

    *x = *of;
    x->part = own.part;
    x->combination = own.combination;
    x->strategy = own.strategy;
    x->command = own.command;
    x->bound = own.bound;
    x->needed_bound = own.needed_bound;
    x->same_as = of->same_as[0] ? of->same_as : of->strategy;
    x->run = known && known->run > 0 ? known->run : -1;
    return lw_tune_row_key(&of->key, of->framework, a, x, err);
}

/* Buffers of DeepSpeed have the size of the cap, whatever the buckets are. */
static void note_caps(const struct lw_plan *p, struct lw_tune_row *x)
{
    bool sized = p->strategy->bucket_policy == LW_BUCKET_DEEPSPEED;

    x->least_cap = p->least_cap;
    x->next_cap = sized ? 0 : p->next_cap;
}

/* Of what does not fit no samples are drawn. */
static enum lw_status sample(const struct lw_tune_part *part, const struct lw_prediction *p,
                             lw_ps most, const struct lw_progress *stop, struct lw_tune_row *x,
                             struct lw_err *err)
{
    return part->noise.on && x->fits
               ? lw_tune_noise_p90(&part->noise, p, most, stop, &x->step_p90, err)
               : LW_OK;
}

enum lw_status lw_tune_row_predict(const struct lw_tune_part *part, const struct lw_tune_given *g,
                                   lw_ps most, const struct lw_progress *stop, struct lw_arena *a,
                                   struct lw_tune_row *x, struct lw_err *err)
{
    struct lw_prediction p = {.options = lw_sim_options_default(), .seed = -1, .row.id = -1,
                              .no_db = true, .quiet = true};
    enum lw_status st = lw_tune_source(&part->request, g, &p.source, err);

    p.source.unproven = true;
    lw_tune_noise_set(&part->noise, &p);
    if (st == LW_OK)
        st = lw_predict(&p, err);
    if (st == LW_OK) {
        take_figures(part, &p, x);
        st = sample(part, &p, most, stop, x, err);
    }
    if (st == LW_OK) {
        const struct lw_alike_key key = lw_prediction_key(&p);
        st = lw_tune_row_key(&key, p.source.framework.name, a, x, err);
        note_caps(&p.plan, x);
    }
    lw_prediction_free(&p);
    return st;
}

/* What would save memory: the prediction is made again with one thing changed, by the options that
 * a user would give. A step keeps its samples: half the data ranks, or half the samples of a
 * micro-batch, run twice the micro-batches. The number of devices stays too.
 *
 * Nothing is estimated from the parts of the peak: another module or rank may hold most then. */
#include "analysis/explain/memory_changes.h"

#include <stdio.h>
#include <string.h>

#include "analysis/study/prediction.h"
#include "shared/base/sort.h"
#include "shared/numbers/order.h"
#include "shared/plan/plan.h"
#include "shared/strategy/strategy.h"

LW_FREE_BY_ARENA(lw_memory_changes_tried_free, struct lw_memory_changes_tried)

enum { OPTIONS = 4 };

/* Options of the strategy that change, and the samples of a micro-batch; 0 = they stay. */
struct change {
    struct {
        const char *name, *value;
    } option[OPTIONS];
    int n;
    int64_t batch;
};

struct trying {
    const struct lw_prediction *base;
    lw_memory_request *request;
    void *ctx;
    struct lw_memory_changes_tried *out;
};

static enum lw_status add_text(struct lw_arena *a, struct change *c, const char *name,
                               const char *value, struct lw_err *err)
{
    c->option[c->n].name = name;
    LW_PRINT(a, c->option[c->n].value, err, "%s", value);
    c->n++;
    return LW_OK;
}

static enum lw_status add_count(struct lw_arena *a, struct change *c, const char *name, int64_t n,
                                struct lw_err *err)
{
    char text[24];

    snprintf(text, sizeof text, "%lld", (long long)n);
    return add_text(a, c, name, text, err);
}

/* Twice as many micro-batches, unless --global-batch says how many follow. */
static enum lw_status add_micro_batches(const struct trying *t, struct change *c,
                                        struct lw_err *err)
{
    if (t->base->source.global_batch > 0)
        return LW_OK;
    return add_count(&t->out->arena, c, "micro-batches",
                     2 * t->base->plan.strategy->micro_batches, err);
}

/* --- the table -------------------------------------------------------------------------------- */

/* Each fills *c; c->n stays 0 where it does not apply. */
typedef enum lw_status make_change(const struct trying *t, struct change *c, struct lw_err *err);

static enum lw_status all_again(const struct trying *t, struct change *c, struct lw_err *err)
{
    const struct lw_strategy *s = t->base->plan.strategy;

    if (s->recompute == LW_RECOMPUTE_FULL && s->recompute_layers == 0)
        return LW_OK;
    LW_TRY(add_text(&t->out->arena, c, "recompute", "full", err));
    return s->recompute_layers > 0
               ? add_text(&t->out->arena, c, "recompute-layers", "0", err) : LW_OK;
}

static enum lw_status some_again(const struct trying *t, struct change *c, struct lw_err *err)
{
    return t->base->plan.strategy->recompute != LW_RECOMPUTE_NONE
               ? LW_OK : add_text(&t->out->arena, c, "recompute", "selective", err);
}

static enum lw_status more_zero(const struct trying *t, struct change *c, struct lw_err *err)
{
    const struct lw_strategy *s = t->base->plan.strategy;

    return s->dp * s->cp == 1 || s->zero == 3
               ? LW_OK : add_count(&t->out->arena, c, "zero", s->zero + 1, err);
}

static enum lw_status half_batch(const struct trying *t, struct change *c, struct lw_err *err)
{
    int64_t batch = t->base->plan.dims.batch;

    if (batch < 2 || batch % 2 != 0)
        return LW_OK;
    c->batch = batch / 2;
    return add_micro_batches(t, c, err);
}

/* Twice the ranks of a group, half the data ranks. */
static enum lw_status wider(const struct trying *t, const char *name, int64_t now, struct change *c,
                            struct lw_err *err)
{
    const struct lw_strategy *s = t->base->plan.strategy;

    if (s->dp % 2 != 0)
        return LW_OK;
    LW_TRY(add_count(&t->out->arena, c, name, 2 * now, err));
    LW_TRY(add_count(&t->out->arena, c, "dp", s->dp / 2, err));
    return add_micro_batches(t, c, err);
}

/* Tensor groups stay within a node. */
static enum lw_status twice_tp(const struct trying *t, struct change *c, struct lw_err *err)
{
    int64_t tp = t->base->plan.strategy->tp;

    return 2 * tp > t->base->cluster.devices_per_node ? LW_OK : wider(t, "tp", tp, c, err);
}

static enum lw_status twice_pp(const struct trying *t, struct change *c, struct lw_err *err)
{
    return wider(t, "pp", t->base->plan.strategy->pp, c, err);
}

static enum lw_status twice_cp(const struct trying *t, struct change *c, struct lw_err *err)
{
    return wider(t, "cp", t->base->plan.strategy->cp, c, err);
}

static enum lw_status twice_ep(const struct trying *t, struct change *c, struct lw_err *err)
{
    const struct lw_strategy *s = t->base->plan.strategy;

    return !t->base->plan.dims.experts || s->dp * s->cp % (2 * s->ep) != 0
               ? LW_OK : add_count(&t->out->arena, c, "ep", 2 * s->ep, err);
}

static enum lw_status split_sequence(const struct trying *t, struct change *c, struct lw_err *err)
{
    const struct lw_strategy *s = t->base->plan.strategy;

    return s->tp == 1 || s->sequence_parallel
               ? LW_OK : add_text(&t->out->arena, c, "sequence-parallel", "on", err);
}

static make_change *const changes[] = {all_again, some_again, more_zero, half_batch, twice_tp,
                                       twice_pp,  twice_cp,   twice_ep,  split_sequence};
enum { N_CHANGES = sizeof changes / sizeof *changes };

/* --- one change ------------------------------------------------------------------------------- */

static enum lw_status show(struct lw_arena *a, const struct change *c, const char **out,
                           struct lw_err *err)
{
    char text[256] = "";
    size_t n = 0;

    if (c->batch > 0)
        n = (size_t)snprintf(text, sizeof text, "--batch %lld", (long long)c->batch);
    for (int i = 0; i < c->n && n < sizeof text; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s--%s %s", n > 0 ? " " : "",
                              c->option[i].name, c->option[i].value);
    LW_PRINT(a, *out, err, "%s", text);
    return LW_OK;
}

static enum lw_status predict(const struct trying *t, const struct change *c,
                              struct lw_prediction *s, struct lw_err *err)
{
    if (t->request(t->ctx, s) >= 0)
        return lw_fail(err, LW_EINVAL, "the request cannot be made again");
    for (int i = 0; i < c->n; i++)
        LW_TRY(lw_plan_source_set(&s->source, c->option[i].name, c->option[i].value, err));
    if (c->batch > 0)
        s->source.model.batch = c->batch;
    s->no_db = s->quiet = true;
    return lw_predict(s, err);
}

static enum lw_status compare(const struct trying *t, const struct lw_prediction *s,
                              struct lw_memory_change_tried *x, struct lw_err *err)
{
    const struct lw_prediction *b = t->base;
    int64_t missing = lw_memory_missing_bytes(&s->memory, &s->cluster.device);

    x->device = lw_memory_device_bytes(&s->memory);
    x->saved = lw_memory_device_bytes(&b->memory) - x->device;
    x->fits = missing < 0 ? -1 : missing == 0;
    x->step = s->summary.step;
    x->change = x->step - b->summary.step;
    x->change_pct = lw_percent((double)x->change, (double)b->summary.step);
    x->shown = x->options;
    if (strcmp(s->source.framework.name, b->source.framework.name) == 0)
        return LW_OK;
    LW_PRINT(&t->out->arena, x->framework, err, "%s", s->source.framework.name);
    LW_PRINT(&t->out->arena, x->shown, err, "%s (framework %s)", x->options, x->framework);
    return LW_OK;
}

static enum lw_status try_one(const struct trying *t, make_change *make, struct lw_err *err)
{
    struct lw_memory_changes_tried *out = t->out;
    struct lw_memory_change_tried *x = &out->v[out->n];
    struct lw_prediction s = {.source.silent = true};
    struct change c = {0};
    struct lw_err why = {0};

    LW_TRY(make(t, &c, err));
    if (c.n == 0 && c.batch == 0)
        return LW_OK;
    LW_TRY(show(&out->arena, &c, &x->options, err));
    enum lw_status st = predict(t, &c, &s, &why);
    if (st == LW_ENOMEM)
        *err = why;
    else if (st != LW_OK)
        st = (x->why = lw_arena_strdup(&out->arena, why.msg)) ? LW_OK : lw_fail_nomem(err);
    else
        st = compare(t, &s, x, err);
    out->n += st == LW_OK && (x->why || x->saved > 0);
    lw_prediction_free(&s);
    return st;
}

static int64_t less_saved(const struct lw_memory_change_tried *x)
{
    return x->why ? 1 : -x->saved;
}

LW_COMPARATOR(by_saved, struct lw_memory_change_tried, less_saved(a), less_saved(b), a->step,
              b->step, a->order, b->order)

enum lw_status lw_memory_changes_try(const struct lw_prediction *base, lw_memory_request *request,
                                     void *ctx, struct lw_memory_changes_tried *out,
                                     struct lw_err *err)
{
    struct lw_memory_changes_tried x = {0};
    const struct trying t = {base, request, ctx, &x};
    enum lw_status st = LW_OK;

    x.v = lw_arena_alloc(&x.arena, N_CHANGES, sizeof *x.v);
    if (!x.v)
        return lw_fail_nomem(err);
    for (int i = 0; st == LW_OK && i < N_CHANGES; i++) {
        x.v[x.n] = (struct lw_memory_change_tried){.order = i};
        st = try_one(&t, changes[i], err);
    }
    lw_sort(x.v, x.n, by_saved);
    for (int32_t i = 0; i < x.n; i++)
        x.n_saving += !x.v[i].why;
    LW_GIVE(st, out, x, lw_memory_changes_tried_free(&x));
}

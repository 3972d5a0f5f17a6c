/* A model's options on a command line. A batch of the whole job is dp replicas times micro-batches
 * times the samples of one, for each backward of a step (--no-sync accumulates). */
#include "shared/cli/model_source.h"

#include <assert.h>

#include "shared/numbers/checked.h"

static enum lw_opt_kind kind_of(enum lw_model_option_kind kind)
{
    switch (kind) {
    case LW_MODEL_INT:
        return LW_OPT_INT;
    case LW_MODEL_REAL:
        return LW_OPT_DOUBLE;
    case LW_MODEL_FLAG:
        return LW_OPT_FLAG;
    case LW_MODEL_LAYERS:
    case LW_MODEL_TEXT:
        break;
    }
    return LW_OPT_CALL;
}

/* dtype, attention, optimizer; a pattern of layers */
static enum lw_status set_word(void *request, const char *name, const char *value,
                               struct lw_err *err)
{
    int i = lw_model_find(name);

    void *at = (char *)request + lw_model_option(i)->at;

    if (lw_model_option(i)->kind == LW_MODEL_LAYERS)
        return lw_err_context(err, lw_model_layers(value, at, err), "--%s", name);
    return lw_model_word(i, value, (const char **)at, err);
}

int lw_model_options(struct lw_model_request *r, struct lw_opt_call *words, struct lw_opt *table)
{
    int n = lw_model_n_options();

    assert(n <= LW_MODEL_SOURCE_OPTIONS);
    *words = (struct lw_opt_call){set_word, r};
    for (int i = 0; i < n; i++) {
        const struct lw_model_option *o = lw_model_option(i);
        bool word = o->kind == LW_MODEL_TEXT || o->kind == LW_MODEL_LAYERS;
        table[i] = (struct lw_opt){o->name, 0, kind_of(o->kind),
                                   word ? (void *)words : (char *)r + o->at, o->arg, o->help,
                                   o->least, o->most};
    }
    return n;
}

static bool has_micro_batches(const struct lw_strategy *s)
{
    return lw_strategy_given(s, lw_strategy_find("micro-batches"));
}

/* Backwards of all replicas for one step, without the micro-batches of each. */
static int64_t backwards(const struct lw_strategy *s)
{
    return lw_mul_sat(s->dp, s->no_sync + 1);
}

static const char *accumulated(const struct lw_strategy *s)
{
    return s->no_sync > 0 ? " with the backwards of --no-sync" : "";
}

enum lw_status lw_global_batch_samples(int64_t global, const struct lw_strategy *s,
                                       struct lw_model_request *r, struct lw_err *err)
{
    int64_t n = lw_mul_sat(backwards(s), s->micro_batches);

    if (global == 0 || r->batch > 0 || !has_micro_batches(s))
        return LW_OK;
    if (global % n != 0)
        return lw_fail(err, LW_EINVAL,
                       "--global-batch %lld does not divide into --dp %lld times --micro-batches "
                       "%lld%s: take a multiple of %lld, or change one of them",
                       (long long)global, (long long)s->dp, (long long)s->micro_batches,
                       accumulated(s), (long long)n);
    r->batch = global / n;
    return LW_OK;
}

enum lw_status lw_global_batch_divide(int64_t global, const struct lw_workload *w,
                                      struct lw_strategy *s, struct lw_err *err)
{
    int64_t n = lw_mul_sat(backwards(s), w->batch);

    if (global == 0)
        return LW_OK;
    if (w->batch == 0)
        return lw_fail(err, LW_EINVAL,
                       "--global-batch: workload '%s' does not say how many samples a micro-batch "
                       "has; give --micro-batches instead",
                       w->name);
    if (has_micro_batches(s) && lw_mul_sat(n, s->micro_batches) != global)
        return lw_fail(err, LW_EINVAL,
                       "--global-batch %lld contradicts --dp %lld, --micro-batches %lld and %lld "
                       "samples a micro-batch%s, which make %lld: leave out --micro-batches, or "
                       "change one of them",
                       (long long)global, (long long)s->dp, (long long)s->micro_batches,
                       (long long)w->batch, accumulated(s),
                       (long long)lw_mul_sat(n, s->micro_batches));
    if (global % n != 0)
        return lw_fail(err, LW_EINVAL,
                       "--global-batch %lld does not divide into micro-batches of %lld samples on "
                       "--dp %lld%s: take a multiple of %lld, or change --batch or --dp",
                       (long long)global, (long long)w->batch, (long long)s->dp, accumulated(s),
                       (long long)n);
    s->micro_batches = global / n;
    return LW_OK;
}

/* Combinations of options to strategies. Defaults are what a user of the options would try first:
 * powers of two, the schedules that training programs have, every stage of ZeRO and every mode of
 * recomputation. */
#include "analysis/tune_bound/tune_space.h"

#include <stdio.h>
#include <string.h>

#include "shared/bucket/policy.h"
#include "shared/numbers/larger.h"
#include "shared/schedule/schedule.h"

/* --- which options apply --- */

static bool is(const char *name, const char *const *names)
{
    for (; *names; names++)
        if (strcmp(name, *names) == 0)
            return true;
    return false;
}

static const char *const of_tensors[] = {"sequence-parallel", "tp-overlap", NULL};
static const char *const of_buckets[] = {"bucket-policy", "bucket-cap", "first-bucket", NULL};
/* Options that some bucket policies do not take. */
static const struct {
    const char *name;
    uint32_t takes;
} of_policies[] = {{"bucket-cap", LW_TAKES_CAP}, {"first-bucket", LW_TAKES_FIRST}};
static const char *const of_third[] = {"persist", "reshard", "root-unit", "units", "unit-copies",
                                       NULL};
static const char *const of_shards[] = {"shard-policy", "zero-group", "broadcast-dtype", NULL};

/* Interleaved schedules have as many chunks as one says; the others have their own number. */
static bool takes_chunks(enum lw_schedule s)
{
    return s == LW_SCHEDULE_INTERLEAVED_1F1B || s == LW_SCHEDULE_INTERLEAVED_ZB ||
           s == LW_SCHEDULE_LOOPED_BFS;
}

static bool policy_takes(const struct lw_strategy *s, const char *name)
{
    uint32_t takes = lw_bucket_policy(s->bucket_policy)->takes;

    for (size_t i = 0; i < sizeof of_policies / sizeof *of_policies; i++)
        if (strcmp(name, of_policies[i].name) == 0)
            return (takes & of_policies[i].takes) != 0;
    return true;
}

/* Known by the option's name once; asked of each combination. */
static enum lw_tune_when when_of(const char *name)
{
    static const struct {
        const char *name;
        enum lw_tune_when when;
    } of_one[] = {{"chunks", LW_TUNE_OF_CHUNKS}, {"scatter-gather", LW_TUNE_OF_BOTH},
                  {"cp-comm-type", LW_TUNE_OF_CONTEXT}, {"etp", LW_TUNE_OF_EXPERTS},
                  {"zero", LW_TUNE_OF_DATA}, {"overlap-param-gather", LW_TUNE_OF_WEIGHTS}};

    for (size_t i = 0; i < sizeof of_one / sizeof *of_one; i++)
        if (strcmp(name, of_one[i].name) == 0)
            return of_one[i].when;
    return lw_strategy_is_of_pipelines(name) ? LW_TUNE_OF_PIPELINES
           : is(name, of_tensors) ? LW_TUNE_OF_TENSORS
           : is(name, of_buckets) ? LW_TUNE_OF_BUCKETS
           : is(name, of_third)   ? LW_TUNE_OF_THIRD
           : is(name, of_shards)  ? LW_TUNE_OF_SHARDS
                                  : LW_TUNE_ALWAYS;
}

/* s: what is set so far: groups, ZeRO stage, schedule and bucket policy come before what depends on
 * them. */
static bool applies(const struct lw_strategy *s, const struct lw_tune_dim *d)
{
    switch (d->when) {
    case LW_TUNE_OF_PIPELINES: return s->pp > 1;
    case LW_TUNE_OF_CHUNKS: return s->pp > 1 && takes_chunks(s->schedule);
    case LW_TUNE_OF_TENSORS: return s->tp > 1;
    case LW_TUNE_OF_BOTH: return s->tp > 1 && s->pp > 1;
    case LW_TUNE_OF_CONTEXT: return s->cp > 1;
    case LW_TUNE_OF_EXPERTS: return s->ep > 1 && s->tp > 1;
    case LW_TUNE_OF_DATA: return s->dp * s->cp > 1;
    case LW_TUNE_OF_BUCKETS:
        return s->zero < 3 && s->dp * s->cp > 1 && policy_takes(s, d->name);
    case LW_TUNE_OF_THIRD: return s->zero == 3;
    case LW_TUNE_OF_SHARDS: return s->zero > 0;
    case LW_TUNE_OF_WEIGHTS: return s->zero == 1 || s->zero == 2;
    default: return true;
    }
}

/* --- dimensions --- */

/* Those that others depend on come first, those that change least of a plan come last. */
static const char *const order[] = {"tp", "sequence-parallel", "cp", "ep", "etp", "pp", "dp",
                                    "zero", "schedule", "chunks", "recompute", "bucket-policy",
                                    NULL};

static int rank_of(const char *name)
{
    int i = 0;

    while (order[i] && strcmp(order[i], name) != 0)
        i++;
    return i;
}

static struct lw_tune_dim *find(struct lw_tune_space *x, const char *name)
{
    for (int i = 0; i < x->n_dims; i++)
        if (strcmp(x->dim[i].name, name) == 0)
            return &x->dim[i];
    return NULL;
}

static enum lw_status put(struct lw_tune_space *x, const char *name, int n,
                          const char *const *values, struct lw_err *err)
{
    int at = x->n_dims;

    if (x->n_dims == LW_TUNE_DIMS)
        return lw_fail(err, LW_EUSAGE, "--%s: at most %d options may be searched", name,
                       LW_TUNE_DIMS);
    for (; at > 0 && rank_of(x->dim[at - 1].name) > rank_of(name); at--)
        x->dim[at] = x->dim[at - 1];
    x->dim[at] = (struct lw_tune_dim){name, lw_strategy_find(name), n, values, when_of(name),
                                      rank_of(name) >= rank_of("dp")};
    x->n_dims++;
    return LW_OK;
}

struct defaults {
    struct lw_tune_space *x;
    struct lw_arena *a;
    struct lw_err *err;
};

/* 1, 2, 4, ... up to `most`, where the option was not given. */
static enum lw_status powers(const struct defaults *d, const char *name, int64_t most)
{
    const char **v = lw_arena_alloc(d->a, 64, sizeof *v);
    int n = 0;

    if (find(d->x, name))
        return LW_OK;
    if (!v)
        return lw_fail_nomem(d->err);
    for (int64_t i = 1; i <= (most > 1 ? most : 1); i *= 2)
        LW_PRINT(d->a, v[n++], d->err, "%lld", (long long)i);
    return put(d->x, name, n, v, d->err);
}

static enum lw_status words(const struct defaults *d, const char *name, int n,
                            const char *const *values)
{
    return find(d->x, name) ? LW_OK : put(d->x, name, n, values, d->err);
}

/* Of the module that has the fewest; rows of experts' parameters are the experts. */
static int64_t experts_of(const struct lw_workload *w)
{
    int64_t n = 0;

    for (int32_t i = 0; i < w->n_params; i++)
        if (w->params[i].expert && w->params[i].rows > 0)
            n = n == 0 ? w->params[i].rows : lw_smaller(n, w->params[i].rows);
    return n;
}

static enum lw_status put_defaults(const struct defaults *d, const struct lw_workload *w,
                                   int32_t devices_per_node)
{
    static const char *const zeros[] = {"0", "1", "2", "3"};
    static const char *const schedules[] = {"1f1b", "interleaved-1f1b", "gpipe", "zb-h1", "zb-h2"};
    static const char *const chunks[] = {"2", "3", "4", "6", "8"};
    static const char *const recomputes[] = {"none", "selective", "full"};
    static const char *const one[] = {"1"}, *const etps[] = {"0", "1"};
    static const char *const switches[] = {"off", "on"};
    int64_t layers = w->dims.layers > 0 ? w->dims.layers : w->n_modules, ranks = d->x->ranks;
    bool experts = lw_workload_has_experts(w), selective = false;

    for (int32_t m = 0; m < w->n_modules; m++)
        selective |= w->modules[m].selective_ps > 0 ||
                     w->modules[m].kept_bytes[LW_RECOMPUTE_SELECTIVE] >= 0;
    LW_TRY(powers(d, "tp", w->heads > 0 ? lw_smaller(devices_per_node, ranks) : 1));
    LW_TRY(powers(d, "cp", w->sample_tokens >= 8192 ? lw_smaller(w->sample_tokens / 4096, 8) : 1));
    LW_TRY(experts ? powers(d, "ep", lw_smaller(experts_of(w), 64)) : words(d, "ep", 1, one));
    LW_TRY(experts ? words(d, "etp", 2, etps) : LW_OK);
    LW_TRY(powers(d, "pp", lw_smaller(lw_smaller(layers, ranks), 64)));
    LW_TRY(words(d, "zero", 4, zeros));
    LW_TRY(words(d, "sequence-parallel", 2, switches));
    LW_TRY(words(d, "overlap-param-gather", 2, switches));
    LW_TRY(words(d, "schedule", 5, schedules));
    LW_TRY(words(d, "chunks", 5, chunks));
    return words(d, "recompute", selective ? 3 : 1, recomputes);
}

/* Options of which each strategy has one value, as --global-batch makes micro-batches. */
static enum lw_status refuse(const struct lw_tune_space *x, struct lw_err *err)
{
    static const char *const not_here[] = {"micro-batches", "compat", "no-sync", NULL};

    for (int i = 0; i < x->n_dims; i++)
        if (is(x->dim[i].name, not_here))
            return lw_fail(err, LW_EUSAGE, "--%s: a search does not take it: micro-batches follow "
                                           "from --global-batch, --batch and --dp",
                           x->dim[i].name);
    return LW_OK;
}

static bool is_list(const struct lw_option_lists *lists, const char *name)
{
    for (int i = 0; i < lists->n; i++)
        if (strcmp(lists->list[i].name, name) == 0)
            return true;
    return false;
}

enum lw_status lw_tune_space(struct lw_plan_source *source, const struct lw_option_lists *lists,
                             const struct lw_workload *w, int32_t devices_per_node, int64_t ranks,
                             struct lw_arena *a, struct lw_tune_space *out, struct lw_err *err)
{
    struct lw_tune_space x = {.ranks = ranks, .n = 1};
    const struct defaults d = {&x, a, err};

    for (int i = 0; i < source->n_given; i++) {
        const char **value = lw_arena_alloc(a, 1, sizeof *value);
        if (!value)
            return lw_fail_nomem(err);
        *value = source->values[i];
        if (!is_list(lists, source->names[i]))
            LW_TRY(put(&x, source->names[i], 1, value, err));
    }
    for (int i = 0; i < lists->n; i++)
        if (lw_strategy_find(lists->list[i].name) >= 0)
            LW_TRY(put(&x, lists->list[i].name, lists->list[i].n, lists->list[i].values, err));
    LW_TRY(refuse(&x, err));
    LW_TRY(put_defaults(&d, w, devices_per_node));
    for (int i = 0; i < x.n_dims; i++) {
        if (x.n > INT64_C(100000000) / x.dim[i].n)
            return lw_fail(err, LW_EUSAGE, "--%s: the lists make more than 100,000,000 strategies: "
                                           "give shorter lists",
                           x.dim[i].name);
        x.n *= x.dim[i].n;
    }
    source->n_given = 0;
    *out = x;
    return LW_OK;
}

/* --- one combination --- */

static bool set(const struct lw_tune_dim *d, const char *value, struct lw_strategy *s,
                struct lw_tune_given *given, struct lw_err *err)
{
    if (lw_strategy_set(s, d->name, value, err) != LW_OK)
        return false;
    given->name[given->n] = d->name;
    given->value[given->n++] = value;
    return true;
}

/* --dp is what the other groups leave of the ranks. */
static bool set_dp(const struct lw_tune_space *x, struct lw_strategy *s,
                   struct lw_tune_given *given, struct lw_err *err)
{
    static const struct lw_tune_dim dp = {.name = "dp"};
    int64_t others = s->pp * s->tp * s->cp;

    if (x->ranks % others != 0) {
        lw_fail(err, LW_EINVAL, "--pp x --tp x --cp does not divide --ranks %lld",
                (long long)x->ranks);
        return false;
    }
    snprintf(given->dp, sizeof given->dp, "%lld", (long long)(x->ranks / others));
    return set(&dp, given->dp, s, given, err);
}

static bool is_of_ranks(const struct lw_tune_space *x, const struct lw_strategy *s,
                        struct lw_err *err)
{
    if (lw_strategy_ranks(s) == x->ranks)
        return true;
    lw_fail(err, LW_EINVAL, "--dp x --pp x --tp x --cp is not --ranks %lld", (long long)x->ranks);
    return false;
}

/* The first dimension whose value differs from that of the walk's last combination, or that was
 * not reached then. */
static int first_changed(const struct lw_tune_space *x, const struct lw_tune_walk *w, int64_t k)
{
    int64_t rest = x->n;
    int i = 0;

    for (; i < w->n_set; i++) {
        rest /= x->dim[i].n;
        if (k / rest != w->k / rest)
            break;
    }
    return i;
}

static int64_t rest_after(const struct lw_tune_space *x, int n_dims)
{
    int64_t rest = x->n;

    for (int i = 0; i < n_dims; i++)
        rest /= x->dim[i].n;
    return rest;
}

/* Sets --dp before the first dimension that depends on it. */
static bool follow_dp(const struct lw_tune_space *x, struct lw_tune_walk *w, int i,
                      struct lw_strategy *s, struct lw_err *err)
{
    const struct lw_tune_dim *d = &x->dim[i];
    bool first = d->after_dp && (i == 0 || !x->dim[i - 1].after_dp);

    return !first || strcmp(d->name, "dp") == 0 || set_dp(x, s, &w->given, err);
}

/* Dimension i of the combination k, of which `rest` in a row have one value of it. */
static enum lw_tune_kind set_dim(const struct lw_tune_space *x, struct lw_tune_walk *w, int i,
                                 int64_t k, int64_t rest, struct lw_err *err)
{
    const struct lw_tune_dim *d = &x->dim[i];
    int64_t v = k / rest % d->n;
    struct lw_strategy *s = &w->set[i + 1];

    *s = w->set[i];
    w->given.n = w->n_given[i];
    w->given.n_alike = rest - k % rest;
    if (!follow_dp(x, w, i, s, err)) {
        w->given.n_alike = rest * d->n - k % (rest * d->n);
        return LW_TUNE_INVALID;
    }
    bool of_it = applies(s, d);
    if (!of_it && v > 0)
        return LW_TUNE_REPEATED;
    if (of_it && !set(d, d->values[v], s, &w->given, err))
        return LW_TUNE_INVALID;
    w->n_given[i + 1] = w->given.n;
    return LW_TUNE_STRATEGY;
}

enum lw_tune_kind lw_tune_walk(const struct lw_tune_space *x, struct lw_tune_walk *w, int64_t k,
                               struct lw_err *err)
{
    int i = w->begun ? first_changed(x, w, k) : 0;
    int64_t rest = rest_after(x, i);

    if (!w->begun) {
        w->set[0] = lw_strategy_default();
        w->n_given[0] = 0;
    }
    w->begun = true;
    w->k = k;
    w->given.n = w->n_given[i];
    for (w->n_set = i; w->n_set < x->n_dims; w->n_set++) {
        rest /= x->dim[w->n_set].n;
        enum lw_tune_kind kind = set_dim(x, w, w->n_set, k, rest, err);
        if (kind != LW_TUNE_STRATEGY)
            return kind;
    }
    w->given.n_alike = 1;
    return is_of_ranks(x, &w->set[x->n_dims], err) ? LW_TUNE_STRATEGY : LW_TUNE_INVALID;
}

enum lw_tune_kind lw_tune_strategy(const struct lw_tune_space *x, int64_t k,
                                   struct lw_strategy *out, struct lw_tune_given *given,
                                   struct lw_err *err)
{
    struct lw_tune_walk w;

    w.begun = false;
    enum lw_tune_kind kind = lw_tune_walk(x, &w, k, err);
    *given = w.given;
    for (int i = 0; i < given->n; i++)
        if (given->value[i] == w.given.dp)
            given->value[i] = given->dp;
    if (kind == LW_TUNE_STRATEGY)
        *out = w.set[x->n_dims];
    return kind;
}

bool lw_tune_space_has(const struct lw_tune_space *x, const char *option, const char *value)
{
    for (int d = 0; d < x->n_dims; d++)
        for (int i = 0; strcmp(x->dim[d].name, option) == 0 && i < x->dim[d].n; i++)
            if (strcmp(x->dim[d].values[i], value) == 0)
                return true;
    return false;
}

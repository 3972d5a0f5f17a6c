/* The plan of a command line: read from a file, or built from the workload and the strategy. */
#include "shared/cli/plan_source.h"

#include <stdio.h>
#include <string.h>

#include "shared/base/nearest.h"
#include "shared/base/shown_text.h"
#include "shared/cli/cluster_warning.h"
#include "shared/cli/source_names.h"
#include "shared/cli/source_parts.h"
#include "shared/cluster/cluster_terms.h"
#include "shared/device/kernel_share.h"
#include "shared/files/files.h"
#include "shared/lower/lower.h"
#include "shared/text/wrap.h"

/* Times of whole products divided by a group are too short: smaller products have a lower rate. */
static void warn_of_shapes(const struct lw_plan_source *src, const struct lw_workload *w,
                           const struct lw_strategy *s)
{
    char name[200];

    if (!src->silent && w->n_products > 0 && !lw_products_fit(w, s))
        lw_printf_paragraph(stderr,
                "lapwing: workload '%s' is timed by the products of --tp %d --cp %d; these times "
                "are divided for --tp %lld --cp %lld, though smaller products are slower: make it "
                "with these groups (lapwing model), or give the model's name to -w",
                lw_shown_text(name, sizeof name, w->name), (int)lw_group_size(w->timed_for.tp),
                (int)lw_group_size(w->timed_for.cp), (long long)s->tp, (long long)s->cp);
}

/* Compute that was recorded beside communication lost its SMs then. */
static void warn_of_interference(const struct lw_plan_source *src, const struct lw_workload *w,
                                 const struct lw_cluster *c)
{
    char name[200];

    if (!src->silent && !src->interference && w->recorded.world_size > 1 &&
        lw_figure_is_set(lw_cluster_sms_per_channel(c)))
        lw_printf_paragraph(stderr,
                "lapwing: workload '%s' was recorded on %d ranks: its times hold what "
                "communication took from compute then, and the cluster takes it again; "
                "--interference off does not",
                lw_shown_text(name, sizeof name, w->name), w->recorded.world_size);
}

/* More than there are is a number of another model, or of its layers' parts. */
static void warn_of_layers(const struct lw_plan_source *src, const struct lw_workload *w,
                           const struct lw_strategy *s)
{
    char name[200];
    int n = 0;

    for (int32_t m = 0; m < w->n_modules; m++) {
        int64_t full = w->modules[m].kept_bytes[LW_RECOMPUTE_FULL];
        n += full < 0 || full != w->modules[m].kept_bytes[LW_RECOMPUTE_NONE];
    }
    if (!src->silent && s->recompute == LW_RECOMPUTE_FULL && s->recompute_layers > n)
        lw_printf_paragraph(stderr,
                            "lapwing: --recompute-layers %lld: workload '%s' has %d module%s that "
                            "can recompute; --recompute-layers 0 is all of them",
                            (long long)s->recompute_layers,
                            lw_shown_text(name, sizeof name, w->name), n, lw_plural(n));
}

/* --dp that is not given follows from --ranks. */
static enum lw_status follow_ranks(const struct lw_plan_source *s, struct lw_strategy *strategy,
                                   struct lw_err *err)
{
    int64_t others = lw_strategy_ranks(strategy) / strategy->dp;
    long long below, ranks = (long long)s->ranks;
    char fewer[32] = "", dp[24];

    for (int i = 0; i < s->n_given; i++)
        if (strcmp(s->names[i], "dp") == 0)
            return LW_OK;
    if (s->strategy_file || ranks <= 0 || others <= 0)
        return LW_OK;
    strategy->dp = ranks / others;
    struct lw_strategy probe = *strategy; /* the option that is given is the one that is named */
    snprintf(dp, sizeof dp, "%lld", (long long)strategy->dp);
    if (strategy->dp > 0)
        LW_TRY(lw_err_context(err, lw_strategy_set(&probe, "dp", dp, err), "--ranks %lld", ranks));
    if (ranks % others == 0)
        return LW_OK;
    if ((below = ranks - ranks % others) > 0)
        snprintf(fewer, sizeof fewer, "%lld or ", below);
    return lw_fail(err, LW_EINVAL,
                   "--ranks %lld is not a multiple of the %lld ranks that --pp %lld, --tp %lld and "
                   "--cp %lld make: take --ranks %s%lld, or other sizes",
                   ranks, (long long)others, (long long)strategy->pp, (long long)strategy->tp,
                   (long long)strategy->cp, fewer, below + (long long)others);
}

/* Workload and strategy of a plan, which is not built yet. */
static enum lw_status ready(struct lw_plan_source *s, struct lw_cluster *c,
                            struct lw_strategy *strategy, struct lw_err *err)
{
    LW_TRY(lw_plan_source_strategy(s, strategy, err));
    LW_TRY(follow_ranks(s, strategy, err));
    if (s->ranks > 0 && s->ranks != lw_strategy_ranks(strategy))
        return lw_fail(err, LW_EINVAL,
                       "--ranks %lld, but --dp %lld, --pp %lld, --tp %lld and --cp %lld "
                       "make %lld ranks",
                       (long long)s->ranks, (long long)strategy->dp, (long long)strategy->pp,
                       (long long)strategy->tp, (long long)strategy->cp,
                       (long long)lw_strategy_ranks(strategy));
    LW_TRY(lw_plan_source_workload(s, s->workload_file, strategy, c, &s->workload, err));
    s->has_workload = true;
    LW_TRY(lw_plan_source_idle(s, strategy, err));
    LW_TRY(lw_plan_source_fit(s, &s->workload, c, err));
    lw_source_warn_of_idle(s, strategy);
    warn_of_shapes(s, &s->workload, strategy);
    warn_of_layers(s, &s->workload, strategy);
    warn_of_interference(s, &s->workload, c);
    return lw_plan_source_stages(s, &s->workload, c, strategy, err);
}

enum lw_status lw_plan_source_check(struct lw_plan_source *s, struct lw_cluster *cluster,
                                    struct lw_err *err)
{
    struct lw_strategy strategy;

    return ready(s, cluster, &strategy, err);
}

static enum lw_status plan_workload(struct lw_plan_source *s, const struct lw_cost *cost,
                                    struct lw_cluster *c, struct lw_plan *plan, struct lw_err *err)
{
    struct lw_strategy strategy;
    struct lw_cost placed = {0};

    LW_TRY(ready(s, c, &strategy, err));
    lw_cluster_place(c, lw_strategy_ranks(&strategy));
    if (cost) {
        placed = *cost;
        placed.ranks_per_node = c->devices_per_node;
    }
    cost = cost ? &placed : NULL;
    if (s->frees_workload) {
        s->has_workload = false;
        return lw_plan_build_freeing(&s->workload, &strategy, cost, plan, err);
    }
    return (s->unproven ? lw_plan_draft : lw_plan_build)(&s->workload, &strategy, cost, plan, err);
}

enum lw_status lw_plan_source_read(struct lw_plan_source *s, const char *plan_file, bool unchecked,
                                   struct lw_cluster *c, struct lw_plan *plan, struct lw_err *err)
{
    struct lw_plan p;

    plan_file = s->stored.text ? s->stored.name : plan_file;
    LW_TRY(s->stored.text ? lw_plan_read_text(s->stored.name, s->stored.text, s->stored.len,
                                              unchecked, &p, err)
                          : lw_plan_read(plan_file, unchecked, &p, err));
    if (s->stored_framework) {
        p.framework = s->stored_framework;
        p.framework_hash = s->stored_framework_hash;
    }
    enum lw_status st =
        unchecked || lw_source_is_timeless(s) ? LW_OK : lw_plan_need_times(&p, plan_file, err);
    if (st == LW_OK)
        st = lw_source_framework_of_plan(s, plan_file, &p, err);
    if (st == LW_OK)
        st = lw_source_fit_plan(s, &p, c, err);
    if (st == LW_OK)
        lw_cluster_place(c, p.n_ranks);
    LW_GIVE(st, plan, p, lw_plan_free(&p));
}

static enum lw_status refuse_model_options(const struct lw_plan_source *s, const char *what,
                                           struct lw_err *err)
{
    const char *given = lw_model_first_given(&s->model);

    given = given ? given : s->global_batch > 0 ? "global-batch" : NULL;
    return given ? lw_fail(err, LW_EUSAGE, "--%s is of a model and needs -w: it does not apply to "
                                           "%s", given, what)
                 : LW_OK;
}

enum lw_status lw_plan_source_no_model(const struct lw_plan_source *s, const char *what,
                                       struct lw_err *err)
{
    LW_TRY(refuse_model_options(s, what, err));
    return s->framework_name
               ? lw_fail(err, LW_EUSAGE,
                         "--framework is of a model and needs -w: it does not apply to %s", what)
               : LW_OK;
}

static bool is_workload(const char *file)
{
    char kind[16];

    return !lw_source_is_stream(file) && lw_file_kind(file, kind, NULL) == LW_OK &&
           strcmp(kind, "workload") == 0;
}

const char *lw_plan_source_of_w(const struct lw_plan_source *s, const char *word)
{
    char kind[16];

    if (lw_source_is_stream(word))
        return NULL;
    if (lw_is_file(word) && lw_file_kind(word, kind, NULL) == LW_OK && *kind)
        return strcmp(kind, "workload") == 0 ? "a workload" : NULL;
    return lw_plan_source_is_model(s, word) ? "a model" : NULL;
}

/* A first operand that names no file. */
static enum lw_status refuse_no_file(struct lw_plan_source *s, const char *name,
                                     const struct lw_cluster *c, struct lw_err *err)
{
    struct lw_workload w;
    struct lw_strategy strategy = s->given;
    struct lw_err unused;

    /* a model's name is enough: its times need not be known on the cluster */
    if (lw_source_name_check("workload", name, s->make_model, &unused) != LW_OK) {
        LW_TRY(lw_plan_source_workload(s, name, &strategy, c, &w, err));
        lw_workload_free(&w);
    }
    return lw_fail(err, LW_EINVAL, "'%s' is a model, not a plan file: give it with -w", name);
}

/* To standard error: a network that was stated and that nothing asks for. */
static void warn_of_network(const struct lw_plan_source *s, bool read, const struct lw_cluster *c,
                            const struct lw_plan *plan)
{
    char name[200];

    if (s->silent || s->node_gbps == 0)
        return;
    if (plan->n_ranks <= c->devices_per_node)
        lw_printf_paragraph(stderr, "lapwing: --node-gbps %g changes nothing: all %d rank%s of the "
                                    "plan are on one node of cluster '%s'", s->node_gbps,
                            plan->n_ranks, lw_plural(plan->n_ranks),
                            lw_shown_text(name, sizeof name, c->name));
    else if (s->simulates_nothing && (read || plan->n_from_times == 0))
        lw_printf_paragraph(stderr, "lapwing: --node-gbps %g changes nothing: no decision of this "
                                    "plan is made from times; give it to sim, which predicts them",
                            s->node_gbps);
}

enum lw_status lw_plan_source_load(struct lw_plan_source *s, const char *plan_file,
                                   const struct lw_cost *cost, struct lw_cluster *c,
                                   struct lw_plan *plan, struct lw_err *err)
{
    bool stored = s->stored.text != NULL;

    plan_file = stored ? s->stored.name : plan_file;
    if (!plan_file && !s->workload_file)
        return lw_fail(err, LW_EUSAGE, "needs a plan file or a workload (-w FILE)");
    if (plan_file && s->workload_file)
        return lw_fail(err, LW_EUSAGE, "takes plan file '%s' or -w %s, not both", plan_file,
                       s->workload_file);
    if (plan_file && !stored && !lw_names_file(plan_file))
        return refuse_no_file(s, plan_file, c, err);
    if (plan_file && !stored && is_workload(plan_file))
        return lw_fail(err, LW_EINVAL, "'%s' is a workload, not a plan: give it with -w",
                       plan_file);
    if (plan_file && (s->n_given > 0 || s->strategy_file))
        return lw_fail(err, LW_EUSAGE, "plan file '%s' holds its strategy: %s%s needs -w",
                       plan_file, s->n_given > 0 ? "--" : "-s", s->n_given > 0 ? s->names[0] : "");
    if (plan_file && s->max_ops > 0)
        return lw_fail(err, LW_EUSAGE, "--max-ops limits a plan that is made: '%s' is one already",
                       plan_file);
    if (plan_file)
        LW_TRY(refuse_model_options(s, "a plan file", err)); /* one may name its framework */
    LW_TRY(plan_file ? lw_plan_source_read(s, plan_file, false, c, plan, err)
                     : plan_workload(s, cost, c, plan, err));
    if (s->ranks > 0 && s->ranks != plan->n_ranks) {
        enum lw_status st = lw_fail(err, LW_EINVAL, "--ranks %lld, but plan '%s' is for %d ranks",
                                    (long long)s->ranks, plan_file ? plan_file : plan->name,
                                    plan->n_ranks);
        lw_plan_free(plan);
        return st;
    }
    warn_of_network(s, plan_file != NULL, c, plan);
    return LW_OK;
}

/* To standard error: --interference off of a cluster that has no channels by default. */
static void warn_of_no_terms(const struct lw_plan_source *s, const struct lw_cluster *c)
{
    struct lw_cluster on = *c;
    char name[200];

    on.own_terms_only = false;
    if (!s->silent && s->interference && strcmp(s->interference, "off") == 0 &&
        (!lw_figure_is_set(lw_cluster_sms_per_channel(&on)) ||
         lw_figure_is_set(on.interference.sms_per_channel)))
        lw_printf_paragraph(stderr, "lapwing: --interference off changes nothing: cluster '%s' has "
                                    "no terms but those that it states, which stay",
                            lw_shown_text(name, sizeof name, c->name));
}

/* A plan file has ranks of its own: 0, not known. */
static int64_t ranks_of(const struct lw_plan_source *s)
{
    return !s->workload_file ? 0 : s->ranks > 0 ? s->ranks : lw_strategy_ranks(&s->given);
}

enum lw_status lw_plan_source_interference(const char *word, struct lw_err *err)
{
    return lw_cluster_terms_check(word, err);
}

enum lw_status lw_plan_source_spread(const char *word, struct lw_err *err)
{
    struct lw_cluster unused = {.name = ""};

    return lw_cluster_state_spread(&unused, word, err);
}

static enum lw_status find_cluster(const struct lw_plan_source *s, struct lw_cluster *cluster,
                                   struct lw_err *err)
{
    const struct lw_input *in = &s->stored_cluster;

    return in->text ? lw_cluster_read_text(in->name, in->text, in->len, cluster, err)
                    : lw_cluster_find(s->cluster_file ? s->cluster_file : "host", cluster, err);
}

enum lw_status lw_plan_source_cluster(const struct lw_plan_source *s, struct lw_cluster *cluster,
                                      struct lw_err *err)
{
    enum lw_status st = LW_OK;

    if (!s->cluster_file && s->interference && strcmp(s->interference, "published") == 0)
        return lw_fail(err, LW_EUSAGE,
                       "--interference published needs a cluster that has published figures: "
                       "-c NAME");
    LW_TRY(find_cluster(s, cluster, err));
    if (s->node_gbps != 0)
        st = lw_err_context(err, lw_cluster_state_network(cluster, s->node_gbps, err),
                            "--node-gbps");
    if (st == LW_OK)
        st = lw_err_context(err, lw_cluster_take_terms(cluster, s->interference, err),
                            "--interference");
    if (st == LW_OK && s->device_spread)
        st = lw_err_context(err, lw_cluster_state_spread(cluster, s->device_spread, err),
                            "--device-spread");
    if (st != LW_OK)
        lw_cluster_free(cluster);
    else if (!s->silent)
        lw_cluster_warn(cluster, ranks_of(s));
    if (st == LW_OK)
        warn_of_no_terms(s, cluster);
    return st;
}

void lw_plan_source_free(struct lw_plan_source *s)
{
    lw_workload_free(&s->workload);
    if (s->read_before)
        lw_workload_free(s->read_before);
    lw_free(s->read_before);
    s->read_before = NULL;
    lw_framework_free(&s->framework);
    lw_framework_free(&s->of_options);
    lw_cluster_free(&s->of_device);
    lw_cluster_free(&s->proportions);
    s->has_of_device = false;
    lw_input_free(&s->stored);
    lw_input_free(&s->stored_cluster);
    lw_arena_free(&s->strings);
    s->has_workload = false;
}

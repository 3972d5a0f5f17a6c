/* The options of a plan source and the strategy that they make. Those of the strategy are tried at
 * once (so that a wrong word is wrong usage) and kept as text, because a strategy file named by a
 * later -s must not win over them. */
#include "shared/cli/plan_source.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "shared/cli/model_source.h"
#include "shared/files/files.h"
#include "shared/lower/plan_size.h"
#include "shared/text/wrap.h"

/* A size of a few bytes without a unit is one that lacks its unit. */
static void warn_of_bytes(const char *name, const char *value)
{
    const struct lw_strategy_option *o = lw_strategy_option(lw_strategy_find(name));

    if (o->arg && strcmp(o->arg, "SIZE") == 0 && strspn(value, "0123456789") == strlen(value) &&
        strlen(value) > 0 && strlen(value) < 5 && strcmp(value, "0") != 0)
        lw_printf_paragraph(stderr, "lapwing: --%s %s means %s byte%s; write %sMiB for mebibytes",
                            name, value, value, strcmp(value, "1") == 0 ? "" : "s", value);
}

void lw_plan_source_init(struct lw_plan_source *s)
{
    *s = (struct lw_plan_source){.given = lw_strategy_default()};
}

static enum lw_status set_option(void *ctx, const char *name, const char *value,
                                 struct lw_err *err)
{
    struct lw_plan_source *s = ctx;
    int i = 0;

    LW_TRY(lw_strategy_set(&s->given, name, value, err));
    const struct lw_strategy_option *o = lw_strategy_option(lw_strategy_find(name));
    bool older = o->was && strcmp(name, o->was) == 0;
    name = o->name;
    while (i < s->n_given && strcmp(s->names[i], name) != 0)
        i++;
    if (i < s->n_given && s->by_older_name[i] != older)
        return lw_fail(err, LW_EUSAGE, "--%s is the older name of --%s: give only one of them",
                       o->was, o->name);
    s->by_older_name[i] = older;
    s->names[i] = name;
    s->values[i] = value;
    if (i == s->n_given)
        s->n_given++;
    if (!s->silent)
        warn_of_bytes(name, value);
    return LW_OK;
}

enum lw_status lw_plan_source_set(struct lw_plan_source *s, const char *name, const char *value,
                                  struct lw_err *err)
{
    if (lw_strategy_find(name) < 0) /* says which there are */
        return lw_strategy_set(&s->given, name, value, err);
    return set_option(s, name, value, err);
}

/* Those of a plan source, then `own`, then the end mark. */
static bool has_option(const struct lw_opt *table, const char *name)
{
    for (; table->name; table++)
        if (strcmp(table->name, name) == 0)
            return true;
    return false;
}

/* Those of a model, but for names that the command has for itself. */
static size_t join_model_options(struct lw_plan_source *s, const struct lw_opt *own,
                                 struct lw_opt *table)
{
    struct lw_opt of_model[LW_MODEL_SOURCE_OPTIONS];
    int n_of_model = lw_model_options(&s->model, &s->model_words, of_model);
    size_t n = 0;

    for (int i = 0; i < n_of_model; i++)
        if (!has_option(own, of_model[i].name))
            table[n++] = of_model[i];
    return n;
}

static const char interference_help[] =
    "what communication takes from compute beside it, where the cluster file does not say: the SMs "
    "of NCCL's channels; the cluster's published figures; nothing (channels)";
static const char spread_help[] =
    "relative standard deviation of the time of sustained products among the devices: they go at "
    "the pace of the slowest (the cluster's; of few devices it is known)";

static void join_options(struct lw_plan_source *s, const struct lw_opt *own, struct lw_opt *table)
{
    struct lw_opt first[] = {
        {"workload", 'w', LW_OPT_STRING, &s->workload_file, "MODEL|FILE",
         "model to plan for: a name, a Hugging Face config.json or its folder; or a workload file"},
        {"cluster", 'c', LW_OPT_STRING, &s->cluster_file, "NAME|FILE",
         "known cluster or cluster file (host)"},
        {"framework", 0, LW_OPT_STRING, &s->framework_name, "NAME|FILE",
         "what the training program does: a known framework or a file (the one that such a "
         "strategy is usually run with: `lapwing framework --help`)"},
        {"node-gbps", 0, LW_OPT_DOUBLE, &s->node_gbps, "G",
         "line rate of all network ports of a node together, in Gb/s (the cluster's)", 0,
         1000000000, .check = lw_cli_above_0},
        {"interference", 0, LW_OPT_STRING, &s->interference, "channels|published|off",
         s->simulates_nothing ? NULL : interference_help},
        {"device-spread", 0, LW_OPT_STRING, &s->device_spread, "S|off",
         s->simulates_nothing ? NULL : spread_help, .check = lw_plan_source_spread},
        {"strategy", 's', LW_OPT_STRING, &s->strategy_file, "FILE",
         "strategy file; options win over it"},
        {"global-batch", 0, LW_OPT_INT, &s->global_batch, "N",
         "samples of one step of all ranks: --micro-batches follows from N, --batch and --dp", 1,
         0},
        {"ranks", 0, LW_OPT_INT, &s->ranks, "N",
         "all of them: dp * pp * tp * cp; --dp follows where it is not given", 1, INT32_MAX},
        {"max-ops", 0, LW_OPT_INT, &s->max_ops, "N",
         "refuse a plan of a workload that could have more ops than this (40000000)", 1,
         LW_PLAN_OPS_MOST},
        {"device", 0, LW_OPT_STRING, &s->device, "KIND",
         "compute the times of the workload or replay for this device: a known system, a device "
         "kind, or a cluster file"},
        {"from-device", 0, LW_OPT_STRING, &s->from_device, "KIND",
         "with --device: the device that the input was recorded on or timed for (the one that the "
         "file names)"},
        {"as-recorded", 0, LW_OPT_FLAG, &s->as_recorded, NULL,
         "with a cluster of another device kind: keep the workload's times and device, and use "
         "only the cluster's network"},
    };
    size_t n = sizeof first / sizeof *first;

    s->given = lw_strategy_default();
    s->call = (struct lw_opt_call){set_option, s};
    memcpy(table, first, sizeof first);
    n += join_model_options(s, own, table + n);
    for (int i = 0; i < lw_strategy_n_options(); i++) {
        assert(n < LW_PLAN_SOURCE_OPTIONS);
        const struct lw_strategy_option *o = lw_strategy_option(i);
        table[n++] =
            (struct lw_opt){o->name, 0, LW_OPT_CALL, &s->call, o->arg, o->help, 0, 0};
        if (o->was)
            table[n++] = (struct lw_opt){o->was, 0, LW_OPT_CALL, &s->call, o->arg, NULL, 0, 0};
    }
    for (; own->name; own++) {
        assert(n < LW_PLAN_SOURCE_OPTIONS + LW_PLAN_SOURCE_OWN - 1);
        table[n++] = *own;
    }
    table[n] = (struct lw_opt){0};
}

void lw_plan_source_options(struct lw_plan_source *s, struct lw_opt *table)
{
    const struct lw_opt none[] = {{0}};

    join_options(s, none, table);
}

int lw_plan_source_begin(struct lw_plan_source *s, const struct lw_usage *usage,
                         const struct lw_opt *own, int argc, char **argv, int *n_operands)
{
    struct lw_opt table[LW_PLAN_SOURCE_OPTIONS + LW_PLAN_SOURCE_OWN];

    join_options(s, own, table);
    int rc = lw_cli_begin(usage, table, argc, argv, n_operands);
    const char *unused =
        s->interference ? "interference" : s->device_spread ? "device-spread" : NULL;
    if (rc < 0 && s->simulates_nothing && unused)
        return lw_cli_usage(usage->command,
                            "--%s changes what is simulated, and %s simulates nothing: leave it "
                            "out, and give it to sim", unused, usage->command);
    return rc;
}

static bool is_given(const struct lw_strategy *x, const char *name)
{
    return lw_strategy_given(x, lw_strategy_find(name));
}

/* Both options of accumulation without a pipeline, of the command line or the strategy file:
 * --micro-batches M are the backwards of a step, as in a loop of torch, and --no-sync K of them do
 * not reduce. A pass of a plan has either, and each pass is reduced at its end alone. */
static enum lw_status settle_accumulation(struct lw_strategy *x, struct lw_err *err)
{
    long long m = (long long)x->micro_batches, k = (long long)x->no_sync;

    if (x->pp > 1 || m == 1 || !is_given(x, "micro-batches") || !is_given(x, "no-sync"))
        return LW_OK;
    if (k == m - 1) {
        x->micro_batches = 1;
        return LW_OK;
    }
    if (k == 0 && x->zero >= 2)
        return LW_OK; /* each micro-batch is reduced */
    if (k == 0 && is_given(x, "sync-each-micro-batch") && !x->sync_each)
        return lw_fail(err, LW_EUSAGE, "--no-sync 0 reduces each micro-batch, and "
                                       "--sync-each-micro-batch off the last one alone: leave one "
                                       "of them out");
    if (k == 0 && x->zero == 0)
        return lw_strategy_set(x, "sync-each-micro-batch", "on", err);
    if (k == 0)
        return lw_fail(err, LW_EUSAGE,
                       "--micro-batches %lld --no-sync 0: each of the %lld backwards of a step "
                       "would be reduced, which is planned without --zero and with --zero 2 and 3: "
                       "leave --no-sync out to reduce once, after the last one",
                       m, m);
    if (k >= m)
        return lw_fail(err, LW_EUSAGE,
                       "--micro-batches %lld --no-sync %lld: a step has %lld backwards, of which "
                       "the last is reduced: at most %lld do not reduce; for %lld backwards give "
                       "--no-sync %lld alone",
                       m, k, m, m - 1, k + 1, k);
    return lw_fail(err, LW_EUSAGE,
                   "--micro-batches %lld --no-sync %lld: %lld of the %lld backwards of a step "
                   "would be reduced; a plan reduces once: --no-sync %lld, or each: --no-sync 0",
                   m, k, m - k, m, m - 1);
}

enum lw_status lw_plan_source_strategy(struct lw_plan_source *s, struct lw_strategy *out,
                                       struct lw_err *err)
{
    *out = lw_strategy_default();
    if (s->strategy_file)
        LW_TRY(lw_strategy_read(s->strategy_file, &s->strings, out, err));
    for (int i = 0; i < s->n_given; i++)
        LW_TRY(lw_strategy_set(out, s->names[i], s->values[i], err));
    out->max_ops = s->max_ops;
    enum lw_status status = settle_accumulation(out, err);
    return s->strategy_file && s->n_given == 0 ? lw_err_context(err, status, "%s", s->strategy_file)
                                               : status;
}

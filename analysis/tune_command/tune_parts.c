/* From a command line to the spaces of a search, and the begin of the command that `sim` takes for
 * each. All strategies of a search have one framework: other ones have other figures, so a strategy
 * would win by the program that usually runs it. */
#include "analysis/tune_command/tune_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analysis/tune_command/tune_words.h"
#include "shared/cli/cli.h"
#include "shared/framework/framework_choice.h"
#include "shared/timeline/budget.h"
#include "traces/models/model_workload.h"

static const struct lw_usage usage = {
    .command = "tune",
    .synopsis = "-w MODEL -c CLUSTER --global-batch N [--ranks N] [lists of strategy options] | "
                "--here",
    .about =
        "Finds the strategies with the shortest step that fit the devices' memory: groups, "
        "ZeRO stage, schedule, chunks, recomputation, micro-batch. An option that is not "
        "given has a default list; --tp 8 searches one value, --tp 1,2,4 and --pp 1..32 "
        "several, --schedule all every word. Each strategy has a lower bound of its step and "
        "of its memory; what cannot be among the best is not simulated, so the answer is that "
        "of simulating all. Every row's command gives the same step. All strategies are "
        "predicted with one framework. Processes that mpirun, srun or torchrun starts make one "
        "search, and rank 0 prints its answer. With --here it tunes a small model on this "
        "machine and executes some of what it found.",
    .max_operands = 1, /* none: refused with what -w takes */
};

enum { MOST_PARTS = 4096, BATCHES = 8 };

/* Where --batch is not given; of batches of 3 * 2^n samples too. */
static const int32_t batches[BATCHES] = {1, 2, 3, 4, 6, 8, 12, 16};

/* --- one part --- */

/* Combinations of lists that are not of the strategy. */
static int64_t n_outer(const struct lw_option_lists *l)
{
    int64_t n = 1;

    for (int i = 0; i < l->n; i++)
        n *= lw_tune_of_strategy(l->list[i].name) ? 1 : l->list[i].n;
    return n;
}

static enum lw_status make_sizes(struct lw_tune_source_of *x, bool timeless, struct lw_workload *w,
                                 struct lw_err *err)
{
    const struct lw_tune_request r = {&x->source, &x->cluster};
    struct lw_strategy strategy = lw_strategy_default();
    struct lw_plan_source s;

    LW_TRY(lw_tune_source(&r, NULL, &s, err));
    s.global_batch = 0;
    if (timeless) {
        s.takes_timeless = true;
        s.cluster_file = s.device = NULL;
    }
    enum lw_status st =
        lw_plan_source_workload(&s, s.workload_file, &strategy, &x->cluster, w, err);
    lw_plan_source_free(&s);
    return st;
}

/* Of the model as one rank has it: its sizes. Among several parts one whose device has no times of
 * the model has sizes too: its strategies are not valid, each for that reason. */
static enum lw_status sizes_of(const struct lw_tune_command *c, struct lw_tune_source_of *x,
                               struct lw_workload *w, struct lw_err *err)
{
    struct lw_err unused = {0};
    enum lw_status st = make_sizes(x, false, w, err);

    if (st == LW_OK || st == LW_ENOMEM || n_outer(&c->lists) == 1)
        return st;
    return make_sizes(x, true, w, &unused) == LW_OK ? LW_OK : st;
}

/* The framework that a strategy with groups is usually run with. A recording has none. */
static void choose_framework(struct lw_tune_source_of *x, const struct lw_workload *w)
{
    struct lw_strategy groups = lw_strategy_default();
    struct lw_framework_choice choice;

    if (x->source.framework_name || !lw_model_is_set(&w->from.model))
        return;
    groups.tp = groups.pp = w->heads > 0 ? 2 : 1;
    lw_framework_usual(&groups, &x->cluster.device, w->dims.layers > 0, &choice);
    x->source.framework_name = choice.name;
}

static int64_t ranks_of(const struct lw_tune_source_of *x)
{
    const struct lw_cluster *c = &x->cluster;

    return x->source.ranks > 0 ? x->source.ranks
           : c->n_nodes > 0    ? (int64_t)c->n_nodes * c->devices_per_node
                               : c->devices_per_node;
}

static const char *one_of(const char *before, const char *name)
{
    return !before || strcmp(before, name) == 0 ? name : "several";
}

/* What `sim` takes too, and no search depends on. */
static enum lw_status put_budget(struct lw_tune_command *c, const char **out, struct lw_err *err)
{
    *out = "";
    if (c->tokens_text)
        LW_PRINT(&c->arena, *out, err, " --tokens %s", c->tokens_text);
    if (c->price > 0)
        LW_PRINT(&c->arena, *out, err, "%s --price %.15g", *out, c->price);
    return LW_OK;
}

static enum lw_status finish_part(struct lw_tune_command *c, struct lw_tune_source_of *x,
                                  const struct lw_workload *w, const char *command,
                                  const char *outer, bool names_framework, bool names_batch,
                                  struct lw_err *err)
{
    struct lw_tune_part *p = &c->parts[c->n_parts];
    struct lw_plan_source *s = &x->source;
    char batch[40] = "", framework[300] = "";

    if (!names_batch)
        snprintf(batch, sizeof batch, " --batch %lld", (long long)s->model.batch);
    if (!names_framework && s->framework_name)
        snprintf(framework, sizeof framework, " --framework %s", s->framework_name);
    const char *noise;
    LW_TRY(lw_tune_noise_words(&c->noise, &c->arena, &noise, err));
    LW_PRINT(&c->arena, p->command, err, "%s%s%s%s", command, framework, batch, noise);
    p->noise = c->noise;
    if (!names_batch)
        snprintf(batch, sizeof batch, "%sbatch=%lld", outer[0] ? " " : "",
                 (long long)s->model.batch);
    LW_PRINT(&c->arena, p->outer, err, "%s%s", outer, batch);
    LW_PRINT(&c->arena, p->workload_hash, err, "%s", w->from.hash ? w->from.hash : "");
    if (c->tokens > 0 && w->sample_tokens <= 0)
        return lw_fail(err, LW_EINVAL,
                       "--tokens: '%s' does not say how many tokens a step has; "
                       "leave it out, or give a language model's name to -w",
                       s->workload_file);
    LW_TRY(put_budget(c, &p->budget, err));
    p->price = c->price;
    p->tokens = c->tokens;
    p->request = (struct lw_tune_request){s, &x->cluster};
    LW_TRY(lw_tune_space(s, &c->lists, w, x->cluster.devices_per_node, ranks_of(x), &c->arena,
                         &p->space, err));
    c->model = one_of(c->model, w->name ? s->workload_file : "");
    c->cluster = one_of(c->cluster, x->cluster.name);
    c->framework = one_of(c->framework, s->framework_name ? s->framework_name : "ideal");
    c->n_parts++;
    return LW_OK;
}

static enum lw_status new_source(struct lw_tune_command *c, struct lw_tune_source_of **out,
                                 struct lw_err *err)
{
    LW_TAKE(&c->arena, *out, 1, err);
    (*out)->next = c->held;
    c->held = *out;
    (*out)->source.make_model = traces_model_workload;
    (*out)->source.predicts = true;
    return LW_OK;
}

/* Parts that share all but the micro-batch: where --batch is not given, a few. */
static enum lw_status put_batches(struct lw_tune_command *c, struct lw_tune_source_of *x,
                                  const char *command, const char *outer, struct lw_err *err)
{
    struct lw_workload w;
    struct lw_tune_source_of *first = x;
    bool names_framework = x->source.framework_name != NULL;

    LW_TRY(sizes_of(c, x, &w, err));
    choose_framework(x, &w);
    bool fixed = x->source.model.batch > 0 || !lw_model_is_set(&w.from.model) ||
                 !lw_plan_source_is_model(&x->source, x->source.workload_file);
    enum lw_status st = LW_OK;
    for (int i = 0; st == LW_OK && i < (fixed ? 1 : BATCHES); i++) {
        if (i > 0)
            st = new_source(c, &x, err);
        if (st == LW_OK && i > 0) {
            x->source = first->source;
            x->cluster = first->cluster;
            x->shares = true;
        }
        if (st == LW_OK && !fixed)
            x->source.model.batch = batches[i];
        int n_given = x->source.n_given; /* the space takes them: the next part has them again */
        if (st == LW_OK && (fixed || x->source.model.batch <= c->global_batch))
            st = finish_part(c, x, &w, command, outer, names_framework, fixed, err);
        first->source.n_given = n_given;
    }
    first->source.n_given = 0;
    lw_workload_free(&w);
    return st;
}

static enum lw_status check_source(const struct lw_plan_source *s, struct lw_err *err)
{
    if (!s->workload_file)
        return lw_fail(err, LW_EUSAGE, "needs a model (-w NAME)");
    if (s->global_batch == 0)
        return lw_fail(err, LW_EUSAGE,
                       "needs --global-batch N: strategies are compared on steps "
                       "of the same samples");
    if (s->strategy_file)
        return lw_fail(err, LW_EUSAGE, "-s %s: give the strategy's options, as values or lists",
                       s->strategy_file);
    return LW_OK;
}

/* --- all of them --- */

/* The samples of a step, or what a sample is: --head-waits and words change how it is computed. */
static bool changes_work(const char *name)
{
    int i = lw_model_find(name);
    enum lw_model_option_kind kind = i >= 0 ? lw_model_option(i)->kind : LW_MODEL_TEXT;

    if (strcmp(name, "global-batch") == 0 || strcmp(name, "workload") == 0)
        return true;
    return (kind == LW_MODEL_INT || kind == LW_MODEL_REAL) && strcmp(name, "batch") != 0 &&
           strcmp(name, "head-waits") != 0;
}

static enum lw_status check_lists(const struct lw_option_lists *l, struct lw_err *err)
{
    for (int i = 0; i < l->n; i++)
        if (l->list[i].n > 1 && changes_work(l->list[i].name))
            return lw_fail(err, LW_EUSAGE,
                           "--%s has %d values, expected one: a search compares "
                           "steps of the same work; search each by itself",
                           l->list[i].name, l->list[i].n);
    return LW_OK;
}

/* Of the k-th combination of lists that are not of the strategy: the number among all. */
static int64_t number_of(const struct lw_option_lists *l, int64_t k)
{
    int64_t number = 0, all = 1, stride[LW_OPTION_LISTS], at = 1;

    for (int i = l->n - 1; i >= 0; i--) {
        stride[i] = at;
        at *= l->list[i].n;
    }
    for (int i = l->n - 1; i >= 0; i--) {
        if (lw_tune_of_strategy(l->list[i].name))
            continue;
        number += k / all % l->list[i].n * stride[i];
        all *= l->list[i].n;
    }
    return number;
}

static enum lw_status check_shard(const char *text, struct lw_err *err)
{
    struct lw_tune_shard unused;

    return lw_tune_shard_parse(text, &unused, err);
}

static enum lw_status check_tokens(const char *text, struct lw_err *err)
{
    double tokens;

    return lw_parse_tokens(text, &tokens, err);
}

/* A model without -w, or some other word. */
static int refuse_operand(const struct lw_plan_source *s, const char *word)
{
    const char *what = lw_plan_source_of_w(s, word);

    return what ? lw_cli_usage("tune", "'%s' is %s: give it with -w", word, what)
                : lw_cli_usage("tune", "unexpected '%s'", word);
}

static int begin_part(struct lw_tune_command *c, struct lw_tune_source_of *x, int argc, char **argv)
{
    const struct lw_opt own[] = {
        {"best", 0, LW_OPT_INT, &c->n_best, "N", "how many of the best strategies (10)", 1, 1000},
        {"no-bounds", 0, LW_OPT_FLAG, &c->no_bounds, NULL,
         "simulate every valid strategy that fits: the same answer, and the front of all of them"},
        {"threads", 0, LW_OPT_INT, &c->n_threads, "N",
         "threads; the output is the same (as many as cores)", 1, 256},
        {"price", 0, LW_OPT_DOUBLE, &c->price, "P",
         "price of a device-hour, in any currency (the cluster's price_per_device_hour)", 0,
         1000000, .check = lw_cli_above_0},
        {"tokens", 0, LW_OPT_STRING, &c->tokens_text, "N",
         "tokens of the whole training, as 300B or 1T: days and, with a price, cost",
         .check = check_tokens},
        {"resume", 0, LW_OPT_FLAG, &c->resume, NULL,
         "go on with the last search of the same space in the database, or put those of its shards "
         "together: what they simulated is not simulated again"},
        {"shard", 0, LW_OPT_STRING, &c->shard_text, "I/N",
         "search the I-th of N parts of the space, as one machine of N, and answer for that part "
         "alone (all of it)",
         .check = check_shard},
        {"store-runs", 0, LW_OPT_INT, &c->n_runs, "N",
         "how many of the best become runs of the database, for explain and compare (3)", 0, 1000},
        {"noise", 0, LW_OPT_DOUBLE, &c->noise.sigma, "X",
         "rank strategies by p90 of drawn steps; the standard deviation of compute and transfers, "
         "a share (the cluster's, with --samples or --seed)",
         0, 1},
        {"rank-noise", 0, LW_OPT_DOUBLE, &c->noise.rank_sigma, "X",
         "the same, of each rank's speed, for the whole run (0)", 0, 1},
        {"samples", 0, LW_OPT_INT, &c->noise.n_samples, "N",
         "with noise: draw each strategy's step N times (50)", 1, 1000000},
        {"here", 0, LW_OPT_FLAG, &c->here.on, NULL,
         "tune a small model on this machine's cores, execute the best 5 strategies and 5 others, "
         "and compare; exit status 3 where the regret is above 3 %, 4 where so under load. Every "
         "option has a default, -c is a calibration of this machine (calibrate first)"},
        {"steps", 0, LW_OPT_INT, &c->here.n_steps, "N", "with --here: measured steps of a run (10)",
         1, 100000},
        {"repeats", 0, LW_OPT_INT, &c->here.n_repeats, "N",
         "with --here: runs of each strategy (3)", 2, LW_TUNE_REPEATS},
        {"seed", 0, LW_OPT_INT, &c->noise.seed, "N",
         "draw noise from this seed (0); with --here: which others are executed (1)", 0, INT64_MAX},
        {"time-limit", 0, LW_OPT_DOUBLE, &c->here.most_s, "SECONDS",
         "with --here: what all runs may take, by the prediction (600)", 0, 1000000,
         .check = lw_cli_above_0},
        LW_OPTION_DB(&c->db),
        {"no-db", 0, LW_OPT_FLAG, &c->no_db, NULL, "store nothing"},
        LW_OPTION_QUIET(&c->quiet),
        LW_OPTION_FORMAT(&c->format),
        {0},
    };
    int n, rc = lw_plan_source_begin(&x->source, &usage, own, argc, argv, &n);

    return rc < 0 && n > 0 ? refuse_operand(&x->source, argv[1]) : rc;
}

/* What the k-th combination has of lists that are not of the strategy, for its rows. */
static enum lw_status put_outer(struct lw_tune_command *c, int64_t k, const char **out,
                                struct lw_err *err)
{
    *out = "";
    for (int i = 0; i < c->lists.n; i++)
        if (!lw_tune_of_strategy(c->lists.list[i].name))
            LW_PRINT(&c->arena, *out, err, "%s%s%s=%s", *out, **out ? " " : "",
                     c->lists.list[i].name, lw_option_lists_value(&c->lists, k, i));
    return LW_OK;
}

/* What an option of --here was given without it. */
static const char *needs_here(const struct lw_tune_here_request *h)
{
    return h->n_steps > 0     ? "--steps"
           : h->n_repeats > 0 ? "--repeats"
           : h->most_s > 0    ? "--time-limit"
                              : NULL;
}

static enum lw_status check_here(struct lw_tune_command *c, struct lw_err *err)
{
    struct lw_tune_here_request *h = &c->here;
    const char *lost = h->on ? NULL : needs_here(h);

    if (lost)
        return lw_fail(err, LW_EUSAGE,
                       "%s goes with --here, which executes strategies on this "
                       "machine: a search measures nothing",
                       lost);
    h->seed = h->on && c->noise.seed >= 0 ? c->noise.seed : 1;
    if (h->on) /* draws nothing */
        c->noise.seed = -1;
    lw_tune_noise_complete(&c->noise);
    h->n_steps = h->n_steps > 0 ? h->n_steps : 10;
    h->n_repeats = h->n_repeats > 0 ? h->n_repeats : 3;
    h->most_s = h->most_s > 0 ? h->most_s : 600;
    return LW_OK;
}

/* Measured once, for all parts. */
static enum lw_status put_machine(struct lw_tune_command *c, struct lw_tune_source_of *x,
                                  struct lw_err *err)
{
    if (x->source.cluster_file)
        return LW_OK;
    if (!c->machine_name)
        LW_TRY(lw_tune_here_calibrate(x->source.ranks, c->quiet, &c->arena, &c->machine,
                                      &c->machine_name, err));
    x->source.cluster_file = c->machine_name;
    return LW_OK;
}

static enum lw_status put_part(struct lw_tune_command *c, int argc, char **argv, int64_t k, int *rc,
                               struct lw_err *err)
{
    struct lw_tune_source_of *x;
    const char *command, *outer;

    LW_TRY(new_source(c, &x, err));
    LW_TRY(lw_tune_put_command(c, argc, argv, &command, err));
    LW_TRY(put_outer(c, k, &outer, err));
    *rc = begin_part(c, x, argc, argv);
    if (*rc >= 0)
        return LW_OK;
    if (c->n_parts == 0)
        LW_TRY(check_here(c, err));
    x->source.silent = c->n_parts > 0;
    LW_TRY(check_source(&x->source, err));
    c->global_batch = x->source.global_batch;
    if (c->tokens_text)
        LW_TRY(lw_parse_tokens(c->tokens_text, &c->tokens, err));
    if (c->here.on)
        LW_TRY(put_machine(c, x, err));
    LW_TRY(lw_plan_source_cluster(&x->source, &x->cluster, err));
    if (c->here.on && !x->cluster.calibrated)
        return lw_fail(err, LW_EINVAL,
                       "--here: -c %s: '%s' is not calibrated; take a file that "
                       "`lapwing calibrate -o FILE` wrote on this machine, or no "
                       "-c",
                       x->source.cluster_file, x->cluster.name);
    LW_TRY(lw_tune_noise_check(&c->noise, &x->cluster, err));
    return put_batches(c, x, command, outer, err);
}

static enum lw_status put_all(struct lw_tune_command *c, int argc, int *rc, struct lw_err *err)
{
    int64_t n = n_outer(&c->lists);

    if (n > MOST_PARTS)
        return lw_fail(err, LW_EUSAGE,
                       "lists of clusters, frameworks and --ranks make %lld "
                       "combinations, expected at most %d",
                       (long long)n, MOST_PARTS);
    LW_TAKE(&c->arena, c->parts, n * BATCHES, err);
    for (int64_t k = 0; k < n && *rc < 0; k++) {
        char **words;
        int64_t number = number_of(&c->lists, k);
        LW_TRY(lw_option_lists_argv(&c->lists, number, &c->arena, &words, err));
        LW_TRY(put_part(c, argc, words, number, rc, err));
    }
    return LW_OK;
}

static enum lw_status check_storing(struct lw_tune_command *c, struct lw_err *err)
{
    if (c->resume && c->no_db)
        return lw_fail(err, LW_EUSAGE,
                       "--resume goes on with a search of the database: leave out "
                       "--no-db");
    if (c->shard_text)
        LW_TRY(lw_tune_shard_parse(c->shard_text, &c->shard, err));
    return LW_OK;
}

/* --help says what it takes whatever the machine is. */
static bool is_here(int argc, char **argv)
{
    bool here = false;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0)
            return false;
        here |= strcmp(argv[i], "--here") == 0;
    }
    return here;
}

int lw_tune_parts(struct lw_tune_command *c, int argc, char **argv)
{
    struct lw_err err = {0};
    char **words;
    int rc = -1;

    *c = (struct lw_tune_command){
        .n_best = 10, .n_runs = 3, .noise = LW_TUNE_NO_NOISE, .db = "lapwing.db", .machine = -1};
    enum lw_status st = lw_tune_join_words(c, argc, argv, &err);
    if (st == LW_OK)
        st = lw_tune_copy_words(c, argc, argv, &words, &err);
    if (st == LW_OK && is_here(argc, argv))
        st = lw_tune_here_words(argc, words, &c->arena, &argc, &words, &err);
    if (st == LW_OK)
        st = lw_option_lists_find(argc, words, INT64_MAX / LW_OPTION_VALUES, &c->lists, &err);
    if (st == LW_OK)
        st = check_lists(&c->lists, &err);
    if (st == LW_OK)
        st = put_all(c, argc, &rc, &err);
    if (st == LW_OK && rc < 0)
        st = check_storing(c, &err);
    if (st == LW_EUSAGE)
        return lw_cli_usage("tune", "%s", err.msg);
    return st == LW_OK ? rc : lw_cli_end("tune", st, &err);
}

void lw_tune_parts_free(struct lw_tune_command *c)
{
    for (struct lw_tune_source_of *x = c->held; x; x = x->next) {
        if (!x->shares) {
            lw_cluster_free(&x->cluster);
            lw_plan_source_free(&x->source);
        }
    }
    if (c->machine >= 0)
        close(c->machine);
    lw_option_lists_free(&c->lists);
    lw_arena_free(&c->arena);
    *c = (struct lw_tune_command){0};
}

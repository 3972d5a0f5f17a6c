/* lapwing explain: why a stored run's step took as long as it did, and what would change it; with
 * --memory, what a device's memory is taken by, and what would save some. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/explain/explain_whatif.h"
#include "analysis/explain/memory_explain.h"
#include "analysis/store/run_name.h"
#include "shared/cli/cli.h"
#include "shared/cli/command.h"
#include "shared/cluster/cluster_terms.h"
#include "shared/files/files.h"
#include "sim/predict/sim.h"
#include "sim/timing/device_spread.h"

/* What one call was asked to do, and what it read. */
struct session {
    const char *db, *cluster_file, *run_name;
    bool all;
    int64_t step, rank;
    enum lw_format format;
    struct lw_arena arena;
    struct lw_run run;
    struct lw_plan plan;
    struct lw_timeline timeline;
    struct lw_cluster cluster;
    bool is_own;              /* the cluster has the figures of the run's own */
    const char *stored_terms; /* NULL: the run's own cluster is not in the database, or not asked */
    struct lw_explanation e;
    int64_t spread; /* how much longer the run's products are, in parts of 1e9 */
    struct lw_path_bounds bounds;
    struct lw_faster faster[LW_MAX_FASTER];
    int n_faster;
    struct lw_what_if what_ifs[LW_N_WHAT_IFS];
    int n_what_ifs;
    struct lw_sim_stats stats; /* of the plan as it is: what timed its communication */
    char why[1200];
};

/* The run's own, with its interference, where no other is named and it is stored. Only what-ifs
 * need it: one that was edited is a reason why there are none. */
static enum lw_status load_cluster(struct session *s, struct lw_store *store, struct lw_err *err)
{
    if (s->cluster_file)
        return LW_OK;
    struct lw_err why = {0};
    enum lw_status st = lw_store_cluster(store, &s->run, &s->cluster, &s->stored_terms, &why);
    if (st == LW_OK)
        return lw_cluster_take_terms(&s->cluster, s->stored_terms, err);
    if (st == LW_EFORMAT)
        snprintf(s->why, sizeof s->why, "%s", why.msg);
    else if (st != LW_ENO)
        *err = why;
    return st == LW_EFORMAT || st == LW_ENO ? LW_OK : st;
}

static enum lw_status load(struct session *s, struct lw_err *err)
{
    struct lw_store *store = NULL;

    enum lw_status st = lw_store_open(s->db, LW_STORE_READ, &store, err);
    if (st == LW_OK)
        st = lw_store_find_run(store, s->run_name, &s->arena, &s->run, err);
    if (st == LW_OK)
        st = lw_store_load_plan(store, &s->run, &s->plan, err);
    if (st == LW_OK)
        st = lw_store_load_timeline(store, &s->run, &s->timeline, err);
    if (st == LW_OK)
        st = load_cluster(s, store, err);
    lw_store_close(store);
    return st;
}

/* What is simulated has the --device-spread of the run's command and the interference of the run: a
 * cluster of the same figures that which its hash says, another one that of the run's command.
 * *same: it is the cluster of the run. */
static enum lw_status take_terms(struct session *s, bool *same, struct lw_err *err)
{
    const char *spread = lw_command_value(s->run.command, "device-spread", &s->arena);

    if (spread)
        LW_TRY(lw_cluster_state_spread(&s->cluster, spread, err));
    const char *terms = lw_cluster_terms_of_hash(&s->cluster, s->run.cluster_hash);
    const char *p = lw_command_words(s->run.command);
    struct lw_command_word w;

    *same = terms != NULL;
    while (!*same && lw_command_next(&p, &w))
        if (strcmp(w.name, "published-interference") == 0)
            terms = "published";
        else if (strcmp(w.name, "interference") == 0)
            terms = lw_arena_strdup(&s->arena, w.value);
    return lw_cluster_take_terms(&s->cluster, terms, err);
}

/* The cluster to simulate on: the one that was named, else the run's own as it is stored; of an
 * older run if it is a known one and still has the same figures. False: none, and why. */
static bool find_cluster(struct session *s)
{
    struct lw_err why = {0};
    const char *name = s->cluster_file ? s->cluster_file : s->run.cluster_name;

    s->is_own = s->stored_terms != NULL;
    if (s->is_own || s->why[0])
        return s->is_own;
    if (!s->cluster_file && lw_cluster_is_recorded(name)) {
        snprintf(s->why, sizeof s->why,
                 "a replay ran on no cluster; ask 'lapwing sim --replay' with "
                 "-c, --ranks or --device");
        return false;
    }
    enum lw_status st = lw_cluster_find(name, &s->cluster, &why);
    if (st == LW_OK)
        lw_cluster_place(&s->cluster, s->run.n_ranks);
    if (st != LW_OK || take_terms(s, &s->is_own, &why) != LW_OK) {
        snprintf(s->why, sizeof s->why, "%s%s", why.msg,
                 s->cluster_file ? "" : "; name the run's cluster file with -c");
        return false;
    }
    if (s->is_own)
        return true;
    if (s->cluster_file)
        snprintf(s->why, sizeof s->why, "'%s' is not the cluster of the run: its figures differ",
                 name);
    else
        snprintf(s->why, sizeof s->why, "the figures of cluster '%s' differ from those of the run; "
                                        "name the run's cluster file with -c", name);
    return s->cluster_file != NULL;
}

/* How much longer products were in the run: by the option of its command, else its cluster's. */
static enum lw_status find_spread(struct session *s, struct lw_err *err)
{
    const char *stated = lw_command_value(s->run.command, "device-spread", &s->arena);
    const char *noise = lw_command_value(s->run.command, "rank-noise", &s->arena);
    struct lw_sim_options o = lw_sim_options_default();
    struct lw_cluster c = {0};

    if (s->is_own)
        c.noise = s->cluster.noise;
    if (stated)
        LW_TRY(lw_cluster_state_spread(&c, stated, err));
    o.rank_sigma = noise ? strtod(noise, NULL) : 0;
    s->spread = sim_spread_parts(&c, &o, s->run.n_ranks);
    return LW_OK;
}

static enum lw_status ask_what_if(struct session *s, struct lw_err *err)
{
    struct lw_err why = {0};

    if (!find_cluster(s))
        return s->cluster_file ? lw_fail(err, LW_EINVAL, "%s", s->why) : LW_OK;
    enum lw_status st =
        lw_explain_what_ifs(&s->plan, &s->cluster, s->what_ifs, &s->n_what_ifs, &s->stats, &why);
    if (st == LW_ENOMEM || (st != LW_OK && s->cluster_file)) {
        *err = why;
        return st;
    }
    if (st != LW_OK)
        snprintf(s->why, sizeof s->why, "%s", why.msg);
    else if (s->run.kind == LW_RUN_SIM && !s->why[0] && s->what_ifs[0].step != s->run.step)
        snprintf(s->why, sizeof s->why, "the run itself had other options (noise, detail, skew): "
                                        "these are at collective detail without noise");
    return LW_OK;
}

/* What a faster resource would change: simulated where the what-ifs are. */
static enum lw_status ask_faster(struct session *s, struct lw_err *err)
{
    bool measured = s->run.kind != LW_RUN_SIM;

    LW_TRY(find_spread(s, err));
    LW_TRY(lw_path_bounds_of(&s->e, &s->plan, measured, s->spread, &s->bounds, err));
    if (measured)
        return LW_OK;
    return lw_explain_faster(&s->plan, s->n_what_ifs > 0 ? &s->cluster : NULL, &s->bounds,
                             s->faster, &s->n_faster, err);
}

static enum lw_status work(struct session *s, struct lw_err *err)
{
    LW_TRY(load(s, err));
    LW_TRY(lw_explain(&s->timeline, &s->plan, s->run.n_warmup, (int32_t)s->step, (int32_t)s->rank,
                      &s->e, err));
    LW_TRY(ask_what_if(s, err));
    LW_TRY(ask_faster(s, err));
    struct lw_explain_report r = {.run = &s->run,
                                  .plan = &s->plan,
                                  .e = &s->e,
                                  .bounds = &s->bounds,
                                  .faster = s->faster,
                                  .n_faster = s->n_faster,
                                  .what_ifs = s->what_ifs,
                                  .n_what_ifs = s->n_what_ifs,
                                  .stats = &s->stats,
                                  .all = s->all,
                                  .why = s->why};
    return lw_explain_print(&r, s->format, stdout, err);
}

static const struct lw_usage of_memory = {
    .command = "explain",
    .synopsis = "--memory [RUN | PLAN.json | -w MODEL [-c CLUSTER] [strategy options]]",
    .about = "Shows what is alive where the fullest rank of a plan holds most, the largest first: "
             "the parts add up to what sim prints for a device. Then the changes that save most, "
             "each planned and simulated again with the options that it names; a step keeps its "
             "samples and its devices. The options are those of sim; nothing is stored. RUN is a "
             "number (the last run).",
    .max_operands = 1,
};

/* Takes --memory out of the words. */
static bool take_memory(int *argc, char **argv)
{
    int n = 0;
    bool found = false;

    for (int i = 0; i < *argc; i++) {
        bool is = !found && i > 0 && strcmp(argv[i], "--memory") == 0;
        found |= is;
        if (!is)
            argv[n++] = argv[i];
    }
    *argc = n;
    return found;
}

/* Words with --memory are those of a prediction, but for it and what would be idle beside it. */
static int explain_memory(const struct lw_opt *options, int argc, char **argv)
{
    int rc = lw_cli_refuse_beside(&of_memory, options, "memory", argc, argv);

    return rc >= 0 ? rc : lw_memory_explain(&of_memory, argc, argv);
}

int cmd_explain(int argc, char **argv)
{
    struct session s = {.db = "lapwing.db", .step = -1, .rank = -1};
    bool memory = false;
    const struct lw_opt options[] = {
        {"memory", 0, LW_OPT_FLAG, &memory, NULL,
         "what takes a device's memory, and what would save some, of a run, a plan or a model "
         "(explain --memory --help)"},
        {"cluster", 'c', LW_OPT_STRING, &s.cluster_file, "NAME|FILE",
         "known cluster or cluster file to simulate the what-ifs on (the run's own)"},
        {"step", 0, LW_OPT_INT, &s.step, "N", "the step to explain (the one nearest the median)", 0,
         INT32_MAX, .idle_with = "memory"},
        {"rank", 0, LW_OPT_INT, &s.rank, "N", "whose period is charged (the longest)", 0,
         INT32_MAX, .idle_with = "memory"},
        {"all", 0, LW_OPT_FLAG, &s.all, NULL, "print every piece of the path (the ten longest)"},
        LW_OPTION_DB(&s.db),
        LW_OPTION_FORMAT(&s.format),
        {0},
    };
    const struct lw_usage usage = {
        "explain", "[RUN] [options]",
        "Show why a stored run's step took as long as it did: every moment of its slowest rank is "
        "charged to one cause, the critical path over all ranks with what bounds it (products, "
        "memory, launches, host, network), what a faster one of these would save, and what-ifs "
        "that are simulated from the run's own plan. RUN is a number (the last run).",
        0, 1};
    struct lw_err err = {0};
    int n_operands, rc;

    if (take_memory(&argc, argv))
        return explain_memory(options, argc, argv);
    if ((rc = lw_cli_begin(&usage, options, argc, argv, &n_operands)) >= 0)
        return rc;
    s.run_name = n_operands == 1 ? argv[1] : "last";
    enum lw_status st = work(&s, &err);
    lw_explanation_free(&s.e);
    lw_path_bounds_free(&s.bounds);
    lw_timeline_free(&s.timeline);
    lw_plan_free(&s.plan);
    lw_cluster_free(&s.cluster);
    lw_arena_free(&s.arena);
    return lw_cli_end("explain", st, &err);
}

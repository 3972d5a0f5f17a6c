/* --run: a plan out of the database, as its file has it, in place of a plan file. */
#include "analysis/study/stored_plan.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "analysis/store/store.h"
#include "shared/cli/plan_source.h"
#include "shared/cluster/cluster_terms.h"
#include "shared/files/files.h"

/* The interference that the run had, and the hash of its figures. */
static enum lw_status take_terms(const char *terms, struct lw_plan_source *source,
                                 struct lw_cluster *found, struct lw_err *err)
{
    if (!source->interference && strcmp(terms, "channels") != 0)
        source->interference = terms;
    LW_TRY(lw_cluster_take_terms(found, terms, err));
    return lw_cluster_hash(found, source->cluster_hash, err);
}

/* Of a run without its cluster: the known one of that name, if it has the run's figures still. */
static enum lw_status find_known(const struct lw_run *run, struct lw_cluster *found,
                                 const char **terms, struct lw_err *err)
{
    const char *name = run->cluster_name;
    struct lw_err why;

    if (lw_names_file(name) || lw_cluster_find(name, found, &why) != LW_OK)
        return lw_fail(err, LW_EINVAL,
                       "run %lld is of cluster '%s', which is not a known system: give its file, "
                       "or another cluster, with -c", (long long)run->id, name);
    lw_cluster_place(found, run->n_ranks);
    *terms = lw_cluster_terms_of_hash(found, run->cluster_hash);
    if (*terms)
        return LW_OK;
    lw_cluster_free(found);
    return lw_fail(err, LW_EINVAL,
                   "run %lld was stored without the figures of its cluster (by an older lapwing), "
                   "and those of '%s' differ today, or an option had changed them: -c %s takes "
                   "those of today, --node-gbps and --interference change them again",
                   (long long)run->id, name, name);
}

/* A known system that has other figures than the run's cluster of its name. */
static bool is_other_today(const struct lw_run *run)
{
    struct lw_cluster c;
    struct lw_err why;

    if (lw_names_file(run->cluster_name) || lw_cluster_find(run->cluster_name, &c, &why) != LW_OK)
        return false;
    lw_cluster_place(&c, run->n_ranks);
    bool other = !lw_cluster_terms_of_hash(&c, run->cluster_hash);
    lw_cluster_free(&c);
    return other;
}

/* Without -c: the cluster of the run. */
static enum lw_status take_cluster(struct lw_store *store, const struct lw_run *run,
                                   struct lw_plan_source *source, struct lw_err *err)
{
    char *name = lw_arena_strdup(&source->strings, run->cluster_name);
    char *of = lw_arena_printf(&source->strings, "cluster of run %lld", (long long)run->id);
    struct lw_cluster found;
    const char *terms;

    if (!name || !of)
        return lw_fail_nomem(err);
    if (!*name)
        return LW_OK;
    enum lw_status st = lw_store_cluster(store, run, &found, &terms, err);
    bool stored = st != LW_ENO;
    LW_TRY(stored ? st : find_known(run, &found, &terms, err));
    st = take_terms(terms, source, &found, err);
    lw_cluster_free(&found);
    if (st == LW_OK && stored)
        st = lw_store_cluster_file(store, run, of, &source->stored_cluster, err);
    source->other_today = stored && is_other_today(run);
    source->cluster_file = name;
    source->of_run = run->id;
    return st;
}

/* The plan of a replay has all recorded steps in one pass, and no sizes of what is held. */
static enum lw_status refuse_replay(const struct lw_run *run, struct lw_err *err)
{
    return lw_cluster_is_recorded(run->cluster_name)
               ? lw_fail(err, LW_EINVAL, "run %lld is a replay, whose plan has the recorded steps "
                         "in one: give the recordings to sim --replay", (long long)run->id)
               : LW_OK;
}

static enum lw_status take(struct lw_store *store, const struct lw_run *run,
                           struct lw_plan_source *source, struct lw_err *err)
{
    if (source->predicts)
        LW_TRY(refuse_replay(run, err));
    const char *name = lw_arena_printf(&source->strings, "plan of run %lld in %s",
                                       (long long)run->id, lw_store_file(store));

    const char *framework = lw_arena_strdup(&source->strings, run->framework);
    const char *hash = lw_arena_strdup(&source->strings, run->framework_hash);

    if (!name || !framework || !hash)
        return lw_fail_nomem(err);
    if (source->predicts && !source->cluster_file)
        LW_TRY(take_cluster(store, run, source, err));
    if (framework[0]) {
        source->stored_framework = framework;
        source->stored_framework_hash = hash;
    }
    enum lw_status st = lw_store_plan_file(store, run, name, &source->stored, err);
    if (st == LW_ENO)
        st = lw_fail_at(err, LW_EINVAL, lw_store_file(store), 0,
                        "run %lld was stored without its whole plan (by an older lapwing): plan it "
                        "again with -w", (long long)run->id);
    return st;
}

/* Read as it is, so that a command that is refused leaves it alone: what stores brings it up to
 * date then. One of a schema that is not read any more is brought up to date first, as storing
 * would; where that fails, the message is that of it. */
static enum lw_status open_db(const char *db, bool stores, struct lw_store **out,
                              struct lw_err *err)
{
    struct lw_store *s = NULL;
    enum lw_status reads = lw_store_open(db, LW_STORE_READ, out, err);

    if (reads == LW_OK || !stores || access(db, W_OK) != 0)
        return reads;
    LW_TRY(lw_store_open(db, LW_STORE_FINISH, &s, err));
    lw_store_close(s);
    return lw_store_open(db, LW_STORE_READ, out, err);
}

enum lw_status lw_stored_plan(const char *db, const char *run_name, bool stores,
                              const char *plan_file, struct lw_plan_source *source,
                              struct lw_err *err)
{
    struct lw_arena names = {0};
    struct lw_store *store = NULL;
    struct lw_run run;

    if (!run_name)
        return LW_OK;
    if (plan_file || source->workload_file)
        return lw_fail(err, LW_EUSAGE, "--run %s has a plan: leave out %s%s", run_name,
                       plan_file ? "" : "-w ", plan_file ? plan_file : source->workload_file);
    enum lw_status st = open_db(db, stores, &store, err);
    if (st == LW_OK)
        st = lw_store_find_run(store, run_name, &names, &run, err);
    if (st == LW_OK)
        st = take(store, &run, source, err);
    lw_store_close(store);
    lw_arena_free(&names);
    return st;
}

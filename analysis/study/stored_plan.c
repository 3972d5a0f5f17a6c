/* --run: a plan out of the database, as its file has it, in place of a plan file. */
#include "analysis/study/stored_plan.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "analysis/store/run_name.h"
#include "analysis/store/store.h"
#include "shared/cli/plan_source.h"
#include "shared/cluster/cluster_terms.h"
#include "shared/files/files.h"

/* The spread of the run's command, and the interference that the run had, where its cluster still
 * has the same figures; an option of this command counts before them. */
static enum lw_status take_terms(const struct lw_run *run, struct lw_plan_source *source,
                                 struct lw_cluster *found, struct lw_err *err)
{
    const char *spread = lw_command_value(run->command, "device-spread", &source->strings);

    if (spread)
        LW_TRY(lw_cluster_state_spread(found, spread, err));
    if (!source->device_spread)
        source->device_spread = spread;
    const char *terms = lw_cluster_terms_of_hash(found, run->cluster_hash);

    snprintf(source->cluster_hash, sizeof source->cluster_hash, "%s", run->cluster_hash);
    if (!terms)
        return LW_OK;
    if (!source->interference && strcmp(terms, "channels") != 0)
        source->interference = terms;
    LW_TRY(lw_cluster_take_terms(found, terms, err));
    return lw_cluster_hash(found, source->cluster_hash, err);
}

/* Without -c: the cluster of the run, which has to be known by its name. */
static enum lw_status take_cluster(const struct lw_run *run, struct lw_plan_source *source,
                                   struct lw_err *err)
{
    char *name = lw_arena_strdup(&source->strings, run->cluster_name);
    struct lw_cluster found;
    struct lw_err why;

    if (!name)
        return lw_fail_nomem(err);
    if (!*name)
        return LW_OK;
    if (lw_names_file(name) || lw_cluster_find(name, &found, &why) != LW_OK)
        return lw_fail(err, LW_EINVAL,
                       "run %lld is of cluster '%s', which is no known system: give its file, or "
                       "another cluster, with -c", (long long)run->id, name);
    enum lw_status st = take_terms(run, source, &found, err);
    lw_cluster_free(&found);
    source->cluster_file = name;
    source->of_run = run->id;
    return st;
}

static enum lw_status take(struct lw_store *store, const struct lw_run *run,
                           struct lw_plan_source *source, struct lw_err *err)
{
    const char *name = lw_arena_printf(&source->strings, "plan of run %lld in %s",
                                       (long long)run->id, lw_store_file(store));

    const char *framework = lw_arena_strdup(&source->strings, run->framework);
    const char *hash = lw_arena_strdup(&source->strings, run->framework_hash);

    if (!name || !framework || !hash)
        return lw_fail_nomem(err);
    if (source->predicts && !source->cluster_file)
        LW_TRY(take_cluster(run, source, err));
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

/* A database of an older schema is brought up to date before it is read, as storing would. Where
 * that fails it is read as it is, or is said to be why it cannot. */
static enum lw_status open_db(const char *db, bool stores, struct lw_store **out,
                              struct lw_err *err)
{
    struct lw_store *s = NULL;
    struct lw_err why = {0};
    enum lw_status st = LW_OK;

    if (stores && access(db, W_OK) == 0)
        st = lw_store_open(db, LW_STORE_FINISH, &s, &why);
    lw_store_close(s);
    enum lw_status reads = lw_store_open(db, LW_STORE_READ, out, err);
    if (reads == LW_OK || st == LW_OK)
        return reads;
    *err = why;
    return st;
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

/* Clusters of runs: the file that lw_cluster_write would make, with all that options changed in the
 * figures (--node-gbps, --device-spread, --as-recorded). The terms of --interference are not in it,
 * so that another word can be asked for, nor where its job lies; the word of the run is found from
 * its cluster_hash, which also proves that the file is the one that was stored
 * (lw_cluster_terms_of_hash). */
#include "analysis/store/store_cluster.h"

#include <stdio.h>
#include <stdlib.h>

#include "analysis/store/sql.h"
#include "analysis/store/store.h"
#include "analysis/store/store_state.h"
#include "shared/base/hash.h"
#include "shared/cluster/cluster_terms.h"
#include "shared/files/files.h"
#include "shared/io/input.h"

enum { HAS_CLUSTERS = 17 }; /* version of the schema */

/* What writes is of the newest version. */
static bool has_clusters(const struct lw_store *s)
{
    return s->write || s->version >= HAS_CLUSTERS;
}

static enum lw_status put_text(struct lw_store *s, const char *hash, const char *text, size_t len,
                               struct lw_err *err)
{
    char *packed;
    size_t n;

    LW_TRY(lw_gzip_pack(text, len, &packed, &n, err));
    enum lw_status st = lw_sql_do(s, err, "INSERT OR IGNORE INTO cluster_file VALUES (?,?)", "tb",
                                  hash, packed, n);
    lw_free(packed);
    return st;
}

enum lw_status lw_store_put_cluster(struct lw_store *s, int64_t run, const struct lw_cluster *c,
                                    struct lw_err *err)
{
    const struct lw_cluster own = lw_cluster_before_job(c);
    char *text, hash[33];
    size_t len;

    LW_TRY(lw_cluster_write_text(&own, &text, &len, err));
    lw_hash_of(text, len, hash);
    enum lw_status st = put_text(s, hash, text, len, err);
    free(text);
    LW_TRY(st);
    return lw_sql_do(s, err, "UPDATE run SET cluster_file = ? WHERE id = ?", "tl", hash, run);
}

enum lw_status lw_store_drop_clusters(struct lw_store *s, struct lw_err *err)
{
    return lw_sql_exec(s, "DELETE FROM cluster_file WHERE hash NOT IN"
                          " (SELECT cluster_file FROM run WHERE cluster_file IS NOT NULL)", err);
}

enum lw_status lw_store_copy_clusters(struct lw_store *s, const struct lw_store *other,
                                      struct lw_err *err)
{
    return has_clusters(other) ? lw_sql_exec(s, "INSERT OR IGNORE INTO main.cluster_file"
                                                " SELECT hash, gz FROM other.cluster_file", err)
                               : LW_OK;
}

/* What is stored of the run's cluster cannot be what was stored, and why. */
static enum lw_status spoilt(const struct lw_store *s, const char *why, struct lw_err *err)
{
    return lw_fail_at(err, LW_EFORMAT, lw_store_file(s), 0,
                      "%s: it was edited; name the run's cluster with -c", why);
}

/* NULL bytes: the run names a row that is not there. */
static enum lw_status unpack(const struct lw_store *s, const char *name, const void *packed,
                             size_t n, struct lw_input *in, struct lw_err *err)
{
    struct lw_err why = {0};

    if (!packed)
        snprintf(why.msg, sizeof why.msg, "%s: it has no row in cluster_file", name);
    enum lw_status st = packed ? lw_input_unpack(name, packed, n, in, &why) : LW_EFORMAT;
    if (st == LW_EFORMAT)
        return spoilt(s, why.msg, err);
    if (st != LW_OK)
        *err = why;
    return st;
}

enum lw_status lw_store_cluster_file(struct lw_store *s, const struct lw_run *run,
                                     const char *name, struct lw_input *in, struct lw_err *err)
{
    struct lw_sql *q;
    enum lw_status st = LW_ENO;
    size_t n;

    if (!has_clusters(s))
        return LW_ENO;
    LW_TRY(lw_sql_query(s, &q, err, "SELECT gz FROM run LEFT JOIN cluster_file"
                                    " ON hash = cluster_file WHERE id = ?"
                                    " AND cluster_file IS NOT NULL", "l", run->id));
    if (lw_sql_next(q)) {
        const void *packed = lw_sql_bytes(q, 0, &n);
        st = unpack(s, name, packed, n, in, err);
    }
    return lw_sql_end(q, st, err);
}

enum lw_status lw_store_cluster(struct lw_store *s, const struct lw_run *run,
                                struct lw_cluster *out, const char **terms, struct lw_err *err)
{
    struct lw_input in = {0};
    struct lw_err why = {0};
    char name[120];

    snprintf(name, sizeof name, "cluster of run %lld", (long long)run->id);
    LW_TRY(lw_store_cluster_file(s, run, name, &in, err));
    enum lw_status st = lw_cluster_read_text(name, in.text, in.len, out, &why);
    lw_input_free(&in);
    if (st == LW_ENOMEM)
        return lw_fail_nomem(err);
    if (st != LW_OK)
        return spoilt(s, why.msg, err);
    lw_cluster_place(out, run->n_ranks);
    *terms = lw_cluster_terms_of_hash(out, run->cluster_hash);
    if (*terms)
        return LW_OK;
    lw_cluster_free(out);
    snprintf(name, sizeof name, "cluster_file of run %lld does not hash to %.40s",
             (long long)run->id, run->cluster_hash);
    return spoilt(s, name, err);
}

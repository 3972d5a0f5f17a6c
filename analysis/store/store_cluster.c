/* Clusters of runs: the file that lw_cluster_write would make, with all that options changed in the
 * figures (--node-gbps, --as-recorded). The terms of --interference are not in it, so that another
 * word can be asked for, nor where its job lies; the word of the run is found from its
 * cluster_hash, which also proves that the file is the one that was stored
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

enum lw_status lw_store_cluster_file(struct lw_store *s, const struct lw_run *run,
                                     const char *name, struct lw_input *in, struct lw_err *err)
{
    struct lw_sql *q;
    enum lw_status st = LW_ENO;
    size_t n;

    if (!has_clusters(s))
        return LW_ENO;
    LW_TRY(lw_sql_query(s, &q, err, "SELECT gz FROM run JOIN cluster_file ON hash = cluster_file"
                                    " WHERE id = ?", "l", run->id));
    if (lw_sql_next(q)) {
        const void *packed = lw_sql_bytes(q, 0, &n);
        st = lw_input_unpack(name, packed, n, in, err);
    }
    return lw_sql_end(q, st, err);
}

enum lw_status lw_store_cluster(struct lw_store *s, const struct lw_run *run,
                                struct lw_cluster *out, const char **terms, struct lw_err *err)
{
    struct lw_input in = {0};
    char name[80];

    snprintf(name, sizeof name, "cluster of run %lld", (long long)run->id);
    LW_TRY(lw_store_cluster_file(s, run, name, &in, err));
    enum lw_status st = lw_cluster_read_text(name, in.text, in.len, out, err);
    lw_input_free(&in);
    LW_TRY(st);
    lw_cluster_place(out, run->n_ranks);
    *terms = lw_cluster_terms_of_hash(out, run->cluster_hash);
    if (*terms)
        return LW_OK;
    lw_cluster_free(out);
    return lw_fail_at(err, LW_EFORMAT, lw_store_file(s), 0,
                      "cluster_file of run %lld does not hash to %.40s: it was edited; name the "
                      "run's cluster with -c", (long long)run->id, run->cluster_hash);
}

#pragma once

#include "shared/base/err.h"
#include "shared/cluster/cluster.h"

struct lw_store;

/* The cluster of a run (table cluster_file), once for runs whose clusters are the same text. Call
 * inside a transaction. */
enum lw_status lw_store_put_cluster(struct lw_store *s, int64_t run, const struct lw_cluster *c,
                                    struct lw_err *err);
/* Those that no run has any more go. */
enum lw_status lw_store_drop_clusters(struct lw_store *s, struct lw_err *err);
/* Those of the database that is attached as `other`, as far as its schema has any. */
enum lw_status lw_store_copy_clusters(struct lw_store *s, const struct lw_store *other,
                                      struct lw_err *err);

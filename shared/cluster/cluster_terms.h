#pragma once

#include "shared/cluster/cluster.h"

/* The interference that a cluster is simulated with, by the words of --interference:
 *   channels   its own terms and NCCL's channels (lw_cluster_sms_per_channel); NULL is the same
 *   published  also its published terms
 *   off        its own terms alone
 * docs/design/engine_rates.md. */

/* LW_EINVAL: not one of the words. */
enum lw_status lw_cluster_terms_check(const char *word, struct lw_err *err);
/* Of a cluster as it was read. LW_ENOTSUP: published, and it has none. */
enum lw_status lw_cluster_take_terms(struct lw_cluster *c, const char *word, struct lw_err *err);
/* The cluster as it was before it took terms and a job was placed on it (lw_cluster_place); borrows
 * all of *c. */
struct lw_cluster lw_cluster_before_job(const struct lw_cluster *c);
/* The word with which a cluster, as it was read, has that hash, or had it before there were
 * channels (then the default was `off`); of equal ones the first; NULL: none. A constant. */
const char *lw_cluster_terms_of_hash(const struct lw_cluster *c, const char *hash);

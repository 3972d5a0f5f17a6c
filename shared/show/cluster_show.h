#pragma once

#include "shared/files/files.h"
#include "shared/text/records.h"

/* The measured tables of collectives, an array of the open object. */
void lw_cluster_tables_json(const struct lw_cluster *c, struct lw_jsonout *o);

/* To standard output: a system with every figure, its unit and where it comes from; and the list of
 * systems that are known by name. */
enum lw_status lw_cluster_print(const struct lw_cluster *c, enum lw_format format,
                                struct lw_err *err);
enum lw_status lw_clusters_list(enum lw_format format, struct lw_err *err);

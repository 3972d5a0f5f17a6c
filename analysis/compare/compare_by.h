#pragma once

#include <stdio.h>

#include "analysis/store/store.h"
#include "shared/text/records.h"

/* Runs that differ only in their framework, their cluster or their strategy, set against each
 * other: of any number of runs those whose command lines are equal in all else are one group. */
enum lw_by { LW_BY_FRAMEWORK, LW_BY_CLUSTER, LW_BY_STRATEGY, LW_N_BY };
/* LW_EINVAL names the words. */
enum lw_status lw_by_parse(const char *text, enum lw_by *by, struct lw_err *err);

/* A row for each run of a group of two and more, by its time against the group's first run; per
 * token or sample where steps of the runs train different numbers. LW_EINVAL: there is no group. */
enum lw_status lw_compare_by(const struct lw_run *runs, int32_t n, enum lw_by by,
                             enum lw_format format, FILE *f, struct lw_err *err);

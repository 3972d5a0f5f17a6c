#pragma once

#include <stdio.h>

#include "analysis/tune/tune_search.h"
#include "analysis/tune/tune_spread.h"
#include "shared/text/records.h"

/* What there is to print of a search. */
struct lw_tune_report {
    const struct lw_tune_result *r;
    const char *model, *cluster, *framework; /* "" = several */
    int64_t global_batch;
    struct lw_tune_spreads spreads;
    struct lw_tune_shard shard;
    int64_t search; /* its number in the database db; 0 = not stored */
    const char *db;
};

/* Before the search: how many combinations there are, how many are valid, why others are not. */
enum lw_status lw_tune_print_space(const struct lw_tune_result *r, FILE *f, struct lw_err *err);
enum lw_status lw_tune_print(const struct lw_tune_report *p, enum lw_format format, FILE *f,
                             struct lw_err *err);

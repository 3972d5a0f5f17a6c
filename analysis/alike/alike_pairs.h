#pragma once

#include "analysis/alike/alike.h"
#include "shared/base/err.h"

/* How far the ratio of two predictions may be from that of the runs: of two measured runs of one
 * table with the same framework, device, parallelism and network, (predicted / measured) of the one
 * over that of the other. What is wrong with both cancels. */
struct lw_alike_pairs {
    double within;    /* 80 % of a table's pairs differ by a factor of at most this: the median over
                       * tables; NAN with fewer than LW_ALIKE_TABLES tables */
    int32_t n_tables;
    int64_t n_pairs;
    bool same;        /* tables of the same parallelism alone */
};

enum lw_status lw_alike_pairs_of(const struct lw_alike_runs *runs, const struct lw_alike_key *key,
                                 struct lw_alike_pairs *out, struct lw_err *err);

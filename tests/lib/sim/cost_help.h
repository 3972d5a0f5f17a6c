#pragma once

#include "shared/cluster/cluster.h"
#include "sim/cost/cost_model.h"

/* A cluster known by name, and the answer of a query on one, of f32; both fail the test else. */
struct lw_cluster known(const char *name);
struct lw_cost_answer ask(const struct lw_cluster *c, enum lw_op_kind op, int64_t bytes,
                          int32_t n_ranks, int32_t n_nodes, enum lw_reducer_kind by);

/* Rows of a table: a query, and what its answer says; 0, NULL = any. */
struct cost_case {
    enum lw_op_kind op;
    int64_t bytes;
    int32_t n_ranks, n_nodes;
    enum lw_reducer_kind by;
    lw_ps time, latency;
    const char *algorithm, *protocol, *model;
    const char *detail; /* words of it */
};
#define expect_costs(c, cases) expect_costs_of(c, sizeof(cases) / sizeof *(cases), cases)
void expect_costs_of(const struct lw_cluster *c, size_t n, const struct cost_case *cases);
/* The query is refused with that status, in one line with these words. */
void expect_no_cost(const struct lw_cluster *c, enum lw_op_kind op, int32_t n_ranks,
                    int32_t n_nodes, enum lw_reducer_kind by, enum lw_status status,
                    const char *words);

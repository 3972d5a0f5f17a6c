/* Costs of collectives on known clusters, asked and compared row by row. */
#include "tests/lib/sim/cost_help.h"

#include <string.h>

#include "shared/files/files.h"
#include "tests/lib/files/says.h"
#include "tests/lib/unit.h"

struct lw_cluster known(const char *name)
{
    struct lw_cluster c = {0};
    struct lw_err err = {0};

    assert_ok(lw_cluster_find(name, &c, &err), err);
    return c;
}

struct lw_cost_answer ask(const struct lw_cluster *c, enum lw_op_kind op, int64_t bytes,
                          int32_t n_ranks, int32_t n_nodes, enum lw_reducer_kind by)
{
    struct lw_cost_query q = {op, LW_F32, bytes, n_ranks, n_nodes, by};
    struct lw_cost_answer a = {0};
    struct lw_err err = {0};

    assert_ok(lw_sim_cost_explain(c, &q, &a, &err), err);
    return a;
}

static bool differs(const char *expected, const char *found)
{
    return expected && (!found || strcmp(expected, found) != 0);
}

void expect_costs_of(const struct lw_cluster *c, size_t n, const struct cost_case *cases)
{
    for (size_t i = 0; i < n; i++) {
        const struct cost_case *x = &cases[i];
        struct lw_cost_answer a = ask(c, x->op, x->bytes, x->n_ranks, x->n_nodes, x->by);
        if ((x->time && a.time != x->time) || (x->latency && a.latency != x->latency) ||
            differs(x->algorithm, a.algorithm) || differs(x->protocol, a.protocol) ||
            differs(x->model, a.model) || (x->detail && !strstr(a.detail, x->detail)))
            fail_msg("case %zu, %s of %lld bytes: %lld ps, latency %lld ps, %s, %s/%s, %s", i,
                     lw_op_name(x->op), (long long)x->bytes, (long long)a.time,
                     (long long)a.latency, a.model, a.algorithm, a.protocol ? a.protocol : "-",
                     a.detail);
    }
}

void expect_no_cost(const struct lw_cluster *c, enum lw_op_kind op, int32_t n_ranks,
                    int32_t n_nodes, enum lw_reducer_kind by, enum lw_status status,
                    const char *words)
{
    struct lw_cost_query q = {op, LW_F32, 4096, n_ranks, n_nodes, by};
    struct lw_cost_answer a;
    struct lw_err err = {0};

    assert_int_equal(lw_sim_cost_explain(c, &q, &a, &err), status);
    has(err.msg, words);
    assert_null(strchr(err.msg, '\n'));
}

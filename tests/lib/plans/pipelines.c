/* Pipelines of equal modules, and the simulator on them. */
#include "tests/lib/unit.h"

#include "tests/lib/plans/pipelines.h"
#include "tests/lib/sim/sim_help.h"

void pipeline_chain(struct chain *c, lw_ps unit)
{
    chain_init(c, PIPELINE_MODULES);
    for (int32_t i = 0; i < PIPELINE_MODULES; i++)
        c->modules[i].forward_ps = c->modules[i].backward_input_ps =
            c->modules[i].backward_weight_ps = unit;
    c->w.optimizer_ps = 0;
}

static lw_ps no_time(const void *ctx, const struct lw_cost_query *q)
{
    (void)ctx, (void)q;
    return 0;
}

struct lw_cost pipeline_cost(const struct lw_plan *p)
{
    return (struct lw_cost){no_time, NULL, p->n_ranks};
}

void pipeline_steps(const struct lw_plan *p, int32_t n_steps, lw_ps *steps)
{
    struct lw_sim_options o = lw_sim_options_default();
    const struct lw_cost cost = pipeline_cost(p);
    struct lw_sim_stats stats;
    struct lw_cluster c;
    struct lw_err err = {0};

    make_cluster(&c, p->n_ranks, 1e9, 0);
    c.device.copy_bytes_per_s = given(1e9);
    o.n_steps = n_steps;
    o.cost = &cost;
    assert_ok(lw_sim_run_steps(p, &c, &o, steps, &stats, &err), err);
    lw_cluster_free(&c);
}

/* The engine on a cluster without figures: whatever would need one is refused by name. */
#include "sim/predict/free_cluster.h"

#include "sim/predict/sim.h"

enum lw_status lw_sim_alone(const void *ctx, const struct lw_plan *plan,
                            struct lw_timeline *timeline, struct lw_err *err)
{
    struct lw_cluster c = {.name = "devices that share nothing", .n_nodes = 1,
                           .devices_per_node = plan->n_ranks, .library = "",
                           .library_version = "", .about = "", .device = {.kind = "any"}};
    struct lw_sim_options o = {.n_steps = 1, .buffered = true};
    struct lw_sim_stats stats;

    (void)ctx;
    return lw_sim_run(plan, &c, &o, timeline, &stats, err);
}

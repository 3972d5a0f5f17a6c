/* The figure device.probe_ns, where it holds: its source names the product, and all calibrated
 * ranks ran it at once. */
#include "shared/cluster/calibrated_probe.h"

#include <string.h>

#include "shared/cluster/cluster.h"

double lw_calibrated_probe(const struct lw_cluster *c, const char *compute, int32_t n_ranks)
{
    struct lw_figure f = c->device.probe_ps;

    if (!lw_figure_is_set(f) || !*compute || !strstr(f.source, compute) ||
        (int64_t)c->n_nodes * c->devices_per_node != n_ranks)
        return 0;
    return f.value / LW_PS_PER_NS;
}

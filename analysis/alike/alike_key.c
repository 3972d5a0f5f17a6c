/* What a prediction's error depends on most: the framework, the device, how the model is divided,
 * and the network. */
#include "analysis/alike/alike_key.h"

#include <string.h>

static const char *const part_names[LW_ALIKE_PARTS] = {"framework", "device", "parallelism",
                                                       "network"};
static const char *const parallelisms[LW_N_PARALLEL] = {"none", "data", "sharded", "model",
                                                        "experts"};

const char *lw_alike_part_name(int part)
{
    return part_names[part];
}

const char *lw_parallelism_name(enum lw_parallelism p)
{
    return parallelisms[p];
}

static enum lw_parallelism parallelism_of(const struct lw_strategy *s, int64_t n_ranks,
                                          const struct lw_workload *w)
{
    for (int32_t i = 0; i < w->n_params; i++)
        if (w->params[i].expert)
            return LW_PARALLEL_EXPERTS;
    if (s->tp > 1 || s->pp > 1 || s->cp > 1)
        return LW_PARALLEL_MODEL;
    return n_ranks == 1     ? LW_PARALLEL_NONE
           : s->zero >= 3 ? LW_PARALLEL_SHARDED
                          : LW_PARALLEL_DATA;
}

/* The kind of a link without its generation: "HDR InfiniBand", "RoCE 100". */
static const char *network_of(int64_t n_ranks, const struct lw_cluster *c)
{
    static const char *const kinds[] = {"InfiniBand", "RoCE",     "EFA", "Omni-Path",      "NVLink",
                                        "PCIe",       "Ethernet", "TCP", "Infinity Fabric"};
    bool within = n_ranks <= c->devices_per_node;
    const struct lw_link *link = lw_cluster_link(c, within ? LW_LINK_INTRA : LW_LINK_INTER);

    if (n_ranks == 1 || !link || !link->name)
        return "none";
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        if (strstr(link->name, kinds[k]))
            return kinds[k];
    return link->name;
}

struct lw_alike_key lw_alike_key_of(const struct lw_strategy *s, int64_t n_ranks,
                                    const struct lw_workload *w, const struct lw_cluster *cluster,
                                    const char *framework)
{
    const char *device = cluster->device.kind ? cluster->device.kind : "";

    return (struct lw_alike_key){{framework, device, lw_parallelism_name(parallelism_of(s, n_ranks, w)),
                                  network_of(n_ranks, cluster)}};
}

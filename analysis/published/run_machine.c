/* Devices, networks and states of nodes as tables spell them -> known systems. */
#include "analysis/published/run_machine.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>


/* The first row whose words are all part of the cells (in either case) decides. */
static const struct {
    const char *gpu, *network, *cluster, *state;
} machines[] = {
    {"GB300", "", "gb300"},
    {"GB200", "", "gb200"},
    {"B300", "", "dgx-b300"},
    {"B200", "", "dgx-b200"},
    {"H200", "", "dgx-h200"},
    {"H100", "EFA between nodes, NVLink inside", "p5-playbook"},
    {"H100", "EFA", "p5"},
    {"H100", "", "dgx-h100"},
    {"MI300X", "", "mi300x"},
    {"V100", "100 Gb/s", "v100-ib"},
    {"A100-PCIe", "", "a100-pcie-8"},
    {"A100", "Omni-Path", "jean-zay-slow", "before PCIe/NUMA fix"},
    {"A100", "Omni-Path", "jean-zay-a100"},
    {"A100", "4x 100 Gb/s RoCE", "a100-roce4"},
    {"A100", "800 Gb/s", "a100-ib4"},
    {"A100_40", "", "p4d"},
    {"A100-SXM4-40", "", "p4d"},
    {"A100-40", "", "p4d"},
    {"A100", "", "dgx-a100"},
    {"A800", "", "dgx-a100"},
};

static bool holds(const char *text, const char *word)
{
    return !word || !*word || strcasestr(text, word) != NULL;
}

const char *lw_run_cluster(const struct lw_run *run)
{
    for (size_t k = 0; k < sizeof machines / sizeof *machines; k++)
        if (holds(run->gpu, machines[k].gpu) && holds(run->network, machines[k].network) &&
            holds(run->state, machines[k].state))
            return machines[k].cluster;
    return NULL;
}

double lw_run_node_gbps(const struct lw_run *run)
{
    char *unit;
    double rate = strtod(run->network, &unit);

    return strncmp(unit, " Gb/s per node", strlen(" Gb/s per node")) == 0 ? rate : 0;
}

/* Devices and networks as tables spell them -> known systems. */
#include "analysis/validate/run_machine.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "shared/files/files.h"
#include "shared/plan/cluster.h"

/* The first row whose words are all part of the cells (in either case) decides. */
static const struct {
    const char *gpu, *network, *cluster;
} machines[] = {
    {"GB300", "", NULL},
    {"GB200", "", "gb200"},
    {"B300", "", NULL},
    {"Blackwell Ultra", "", NULL},
    {"B200", "", "dgx-b200"},
    {"H200", "", "dgx-h200"},
    {"H100", "EFA", "p5"},
    {"H100", "", "dgx-h100"},
    {"MI300X", "", "mi300x"},
    {"V100", "100 Gb/s", "v100-ib"},
    {"A100-PCIe", "", "a100-pcie-8"},
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
    return !*word || strcasestr(text, word) != NULL;
}

enum lw_status lw_run_machine(const struct lw_run *run, struct lw_cluster *c, struct lw_err *err)
{
    char kind[64];

    for (size_t k = 0; k < sizeof machines / sizeof *machines; k++) {
        if (!holds(run->gpu, machines[k].gpu) || !holds(run->network, machines[k].network))
            continue;
        if (machines[k].cluster)
            return lw_cluster_find(machines[k].cluster, c, err);
        break;
    }
    snprintf(kind, sizeof kind, "%.60s", *run->gpu ? run->gpu : "not given");
    return lw_fail(err, LW_ENOTSUP, "no known system has the device (%s)", kind);
}

/* Devices and networks as tables spell them -> known systems. */
#include "analysis/published/run_machine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "analysis/published/run_figures.h"
#include "shared/cluster/cluster.h"
#include "shared/cluster/link_peak.h"
#include "shared/files/files.h"

/* The first row whose words are all part of the cells (in either case) decides. */
static const struct {
    const char *gpu, *network, *cluster;
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

const char *lw_run_cluster(const struct lw_run *run)
{
    for (size_t k = 0; k < sizeof machines / sizeof *machines; k++)
        if (holds(run->gpu, machines[k].gpu) && holds(run->network, machines[k].network))
            return machines[k].cluster;
    return NULL;
}

/* Jobs on racks of one NVLink domain take as many devices of each: 128 are two racks of 64, not 72
 * and 56. */
static void fill_evenly(const struct lw_run *run, struct lw_cluster *c)
{
    int64_t n = run->gpus, room = c->devices_per_node, racks = (n + room - 1) / room;

    while (racks < n && n % racks != 0)
        racks++;
    c->devices_per_node = (int32_t)(n / racks);
}

/* "400 Gb/s per node ...": all ports of a node together have that rate. */
static enum lw_status take_stated_network(const struct lw_run *run, struct lw_cluster *c,
                                          struct lw_err *err)
{
    char *unit;
    double rate = strtod(run->network, &unit) * 1e9 / 8, all = 0;

    if (strncmp(unit, " Gb/s per node", strlen(" Gb/s per node")) != 0)
        return LW_OK;
    if (!isfinite(rate) || rate <= 0)
        return lw_fail(err, LW_EINVAL, "network: found '%.60s', allowed: a rate above 0",
                       run->network);
    for (int32_t i = 0; i < c->n_links; i++)
        if (c->links[i].level == LW_LINK_INTER)
            all += c->links[i].bytes_per_s.value * c->links[i].n_links.value;
    for (int32_t i = 0; i < c->n_links && all > 0; i++)
        if (c->links[i].level == LW_LINK_INTER)
            c->links[i].bytes_per_s = (struct lw_figure){
                c->links[i].bytes_per_s.value * rate / all, "the published run's row: its network"};
    return LW_OK;
}

/* NCCL searches with the line rate that the ports report. */
static void slow_network(const struct lw_run *run, struct lw_cluster *c)
{
    double share = lw_run_figure(run, LW_RUN_NETWORK, 1);

    for (int32_t i = 0; share < 1 && i < c->n_links; i++)
        if (c->links[i].level == LW_LINK_INTER) {
            c->nccl.adapter_bytes_per_s = (struct lw_figure){
                lw_link_bytes_per_s(&c->links[i]) / lw_adapters(c), "the ports' line rate"};
            c->links[i].bytes_per_s.value *= share;
        }
}

enum { ONE_DOMAIN = 72 }; /* devices of GB200 and GB300 NVL72 */

enum lw_status lw_run_machine(const struct lw_run *run, struct lw_cluster *c, struct lw_err *err)
{
    const char *cluster = lw_run_cluster(run);

    if (!cluster)
        return lw_fail(err, LW_ENOTSUP, "no known system has the device (%.60s)",
                       *run->gpu ? run->gpu : "not given");
    LW_TRY(lw_cluster_find(cluster, c, err));
    if (c->devices_per_node == ONE_DOMAIN)
        fill_evenly(run, c);
    enum lw_status s = take_stated_network(run, c, err);
    if (s == LW_OK)
        slow_network(run, c);
    if (s != LW_OK)
        lw_cluster_free(c);
    return s;
}

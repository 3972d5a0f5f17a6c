/* Published tables describe their machines in text. A GPU gives compute capability and NVLinks;
 * "NVSwitch" multicast; "<n>x<m>G" so many ports of so many Gbit/s; a fabric by name one port for
 * each GPU of the speed that the GPU's reference systems have. Sources: the known clusters
 * (traces/clusters) and the vendors' pages named beside the rows. */
#include "analysis/netbench/netbench_fabric.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct gpu {
    const char *word;
    double capability, n_links, link_gbs; /* NVIDIA datasheets; NCCL, src/graph/topo.h */
    double port_gbs;                      /* of the network port that reference systems give it */
} gpus[] = {
    {"GH200", 90, 18, 20.6, 25},                                 /* Alps: 4 x 200 Gbit/s */
    {"GB200", 100, 18, 40.1, 50}, {"GB300", 100, 18, 40.1, 100}, /* ConnectX-8: 800 Gbit/s */
    {"B200", 100, 18, 40.1, 50},  {"B300", 100, 18, 40.1, 100},  {"H800", 90, 8, 20.6, 50},
    {"H100", 90, 18, 20.6, 50},   {"H200", 90, 18, 20.6, 50},    {"A100", 80, 12, 20, 25},
    {"V100", 70, 6, 20, 12.5},    {"T4", 75, 0, 0, 3.125}, /* g4dn: 50 Gbit/s staged by the host */
    {"A10G", 86, 0, 0, 12.5},     {"L40S", 89, 0, 0, 25},
};

#define SAID "the table's words"

static bool has(const char *text, const char *word)
{
    return strstr(text, word) != NULL;
}

static const struct gpu *find_gpu(const char *text)
{
    for (size_t k = 0; k < sizeof gpus / sizeof *gpus; k++)
        if (has(text, gpus[k].word))
            return &gpus[k];
    return NULL;
}

const char *netbench_apart(const struct netbench_fabric *f, const char *algo, bool *can_predict)
{
    *can_predict = true;
    if (has(algo, "not NCCL")) {
        *can_predict = false;
        return "the library is not NCCL";
    }
    if (has(f->inter, "misconfigured"))
        return "the source says that the network is misconfigured: it needs a measurement of its "
               "own";
    if (has(f->inter, "disabled"))
        return "the fabric's plug-in is disabled: the network's rate is not stated";
    if (has(f->inter, "ocket") || (has(f->inter, "TCP") && !has(f->inter, "TCPX"))) {
        *can_predict = false;
        return "sockets over a network whose rate is not stated";
    }
    return NULL;
}

/* stas00/ml-engineering times its tables of 744d01e by all_reduce_bench.py, one call at a time on
 * an idle device: "20-30 us of host overhead per call" (network/benchmarks/README.md 0cc3de5, How
 * the calls are timed; the same H200 and B200 nodes take 17.9 and 26.4 us at 32 KiB when calls are
 * queued, and 40.0 and 47.8 us in the older tables). Its A100 table is nccl-tests -g 8: one thread
 * launches on eight GPUs; the same time is assumed. */
double netbench_host_us(const char *source)
{
    return has(source, "stas00/ml-engineering") && has(source, "744d01e") ? 25 : 0;
}

static struct lw_figure figure(double value)
{
    return (struct lw_figure){value, SAID};
}

/* "EFA 32x100G": ports and Gbit/s; false where the words have no such pair. */
static bool ports_of(const char *text, double *n, double *gbs)
{
    for (const char *x = strchr(text, 'x'); x; x = strchr(x + 1, 'x')) {
        const char *digit = x;
        while (digit > text && digit[-1] >= '0' && digit[-1] <= '9')
            digit--;
        char *end;
        double gbits = strtod(x + 1, &end);
        if (digit == x || end == x + 1 || *end != 'G')
            continue;
        *n = strtod(digit, NULL);
        *gbs = gbits / 8;
        return *n >= 1 && gbits > 0;
    }
    return false;
}

/* EFA: aws/aws-ofi-nccl states 75 us for p4d and p4de; on p5 and g4dn the smallest rows of
 * published tables are 27 and 25 us a step beyond NCCL's constants, of which the tuning model's own
 * hop is 5. */
static double plugin_latency_ps(const struct netbench_fabric *f, double capability)
{
    if (has(f->inter, "TCPX")) /* not stated: the middle of the two plug-ins that are known */
        return 41.5e6;
    if (!has(f->inter, "EFA"))
        return 0;
    return capability == 80 ? 75e6 : 23e6;
}

static double least(double a, double b)
{
    return a < b ? a : b;
}

/* p5: EPYC 7R13; Azure NC..ads v4: EPYC 7V13. */
static bool amd_host(const struct netbench_fabric *f)
{
    return has(f->gpu, "p5") || has(f->gpu, "ads v4");
}

/* A ring over pairs of devices with NVLink leaves a pair and enters it by the PCIe ports of both:
 * two channels at once. */
static void set_intra(const struct netbench_fabric *f, const struct gpu *g, struct lw_link *l)
{
    static const struct {
        const char *word;
        double gbs; /* NCCL, src/graph/topo.h: 12 GB/s for PCIe 3.0 x16, and by generation */
    } pcie[] = {{"PCIe3", 12}, {"PCIe4", 24}, {"PCIe5", 48}};
    const double between_bridges = amd_host(f) ? 16 : 48; /* the same file: AMD_BW */

    *l = (struct lw_link){.name = "NVLink",
                          .level = LW_LINK_INTRA,
                          .bytes_per_s = figure(g->link_gbs * 1e9),
                          .n_links = figure(g->n_links),
                          .latency_ps = figure(0)};
    for (size_t k = 0; k < sizeof pcie / sizeof *pcie; k++)
        if (has(f->intra, pcie[k].word)) {
            l->name = "PCIe";
            l->bytes_per_s = figure(least(pcie[k].gbs, between_bridges) * 1e9);
            l->n_links = figure(has(f->intra, "pairs") ? 2 : 1);
        }
    if (has(f->intra, "bridge")) /* of the three that a card takes: 100 GB/s each, 4 links */
        l->n_links = figure(4);
}

static void set_inter(const struct netbench_fabric *f, const struct gpu *g, int32_t per_node,
                      struct lw_link *l)
{
    double n = per_node, gbs = g->port_gbs;

    bool stated = ports_of(f->inter, &n, &gbs);
    if (!stated && (has(f->inter, "TCPX") || has(f->inter, "HDR")))
        gbs = 25;
    if (!stated &&
        has(f->inter, "TCPX")) /* Google Cloud: a3-mega 8, a3-high 4 ports of 200 Gbit/s */
        n = has(f->inter, "TCPXO") ? 8 : 4;
    *l = (struct lw_link){.name = "network",
                          .level = LW_LINK_INTER,
                          .bytes_per_s = figure(gbs * 1e9),
                          .n_links = figure(n),
                          .latency_ps = figure(0)};
    if (n < per_node)
        l->n_sharers = figure((int32_t)((per_node + n - 1) / n));
}

/* Jobs that switch NVLS off: those of coreweave/nccl-tests@bee97e7, which added the tables of GB200
 * (slurm/nccl-test-distributed-gb200-nvl72-enroot.slurm: NCCL_NVLS_ENABLE=0). */
static bool without_nvls(const struct netbench_fabric *f)
{
    return f->source && has(f->source, "coreweave/nccl-tests") && has(f->gpu, "GB200");
}

enum lw_status netbench_cluster(const struct netbench_fabric *f, struct lw_link links[2],
                                struct lw_cluster *out, int32_t *n_nodes, struct lw_err *err)
{
    const struct gpu *g = find_gpu(f->gpu);
    bool rack = has(f->intra, "NVL72"), inside, alone = has(f->intra, "none");

    if (!g)
        return lw_fail(err, LW_ENOTSUP, "unknown GPU '%s'", f->gpu);
    struct lw_cluster c = {.name = f->gpu,
                           .library = "nccl",
                           .library_version = "",
                           .about = "",
                           .links = links,
                           .device.kind = f->gpu};
    c.devices_per_node = rack ? 72 : (f->n_ranks + f->n_nodes - 1) / f->n_nodes;
    *n_nodes = rack ? (f->n_ranks + 71) / 72 : f->n_nodes;
    inside = f->n_ranks > *n_nodes;
    if (inside && (alone || (g->n_links < 1 && !has(f->intra, "PCIe"))))
        return lw_fail(err, LW_ENOTSUP, "unknown links '%s' inside a node of %s", f->intra, f->gpu);
    if (inside)
        set_intra(f, g, &links[c.n_links++]);
    if (*n_nodes > 1)
        set_inter(f, g, c.devices_per_node, &links[c.n_links++]);
    c.nccl.compute_capability = figure(g->capability);
    if ((rack || has(f->intra, "NVSwitch") || has(f->intra, "NVLink5")) && !without_nvls(f))
        c.nccl.multicast = figure(1);
    if (has(f->gpu, "GH200") || has(f->gpu, "GB200") || has(f->gpu, "GB300"))
        c.nccl.arm_host = figure(1);
    if (amd_host(f))
        c.nccl.amd_host = figure(1);
    if (plugin_latency_ps(f, g->capability) > 0)
        c.nccl.net_latency_ps = figure(plugin_latency_ps(f, g->capability));
    if (has(f->inter, "Slingshot")) /* NCCL_PROTO=^LL128: eth-cscs/cscs-docs, nccl_env_vars */
        c.nccl.ll128 = figure(0);
    *out = c;
    return LW_OK;
}

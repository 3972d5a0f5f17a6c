/* What is usual of a figure: wide enough for every known system, a single core behind a paced link
 * and the devices of some years to come (a factor of 30 above today's). What is beyond is nearly
 * always a unit (GB/s for B/s, TFLOP/s for FLOP/s) or a zero too many. */
#include "shared/cluster/cluster_doubts.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "shared/cluster/link_peak.h"
#include "shared/cluster/measured.h"

struct usual {
    const char *name, *unit; /* how the name ends, or "" and the unit */
    double least, most;
};

static const struct usual usuals[] = {
    {".n_sms", "", 1, 10000},
    {".gemm_fill", "", 0, 10000},
    {".gemm_efficiency", "", 0.01, 1}, /* shares: a smaller one is a percentage divided twice */
    {".gemm_sustained", "", 0.01, 1},
    {".gemm_boost", "", 0.01, 1},
    {".gemm_odd", "", 0.01, 1},
    {".attention_forward", "", 0.01, 1},
    {".attention_backward", "", 0.01, 1},
    {".sm_flops_per_clock", "", 16, 1e6},
    {".sm_exponentials_per_clock", "", 1, 4096},
    {".compute_rate_under_comm", "", 0.01, 1},
    {".gemm_tile", "", 16, 4096},
    {".fp8_speedup", "", 0.5, 16},
    {".host_op_scale", "", 0.1, 10},
    {".fp4_speedup", "", 0.5, 32},
    {".memory_bytes", "B", 1e6, 1e14},
    {".framework_bytes", "B", 1, 1e12},
    {".n_links", "", 1, 1024},
    {".n_sharers", "", 1, 1024},
    {".n_numa", "", 1, 1024},
    {".piece_bytes", "B", 1, 1e11},
    {".comm_sms", "", 1, 10000},
    {".sms_per_channel", "", 0, 128},
    {".memory_bytes_per_comm_byte", "B/B", 0, 128},
    {"_sigma", "", 0, 3},
    {"price_per_device_hour", "", 0, 10000},
    {"", "flop/s", 1e6, 1e17},
    {"", "op/s", 1e6, 1e17},
    {"", "B/s", 1e4, 1e15},
    {"", "ps", 0, 1e11}, /* 100 ms */
};

static bool ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);

    return n >= m && strcmp(name + n - m, end) == 0;
}

static const struct usual *usual_of(const struct lw_cluster_figure *f)
{
    for (size_t i = 0; i < sizeof usuals / sizeof *usuals; i++)
        if (*usuals[i].name ? ends_with(f->name, usuals[i].name)
                            : strcmp(f->unit, usuals[i].unit) == 0)
            return &usuals[i];
    return NULL;
}

/* "links[1].latency_ns" of a link that ranks talk over: messages take time to leave and arrive.
 * What `calibrate` finds inside a node is not separated from the rate. */
static bool is_latency_in_use(const struct lw_cluster *c, int64_t n_ranks,
                              const struct lw_cluster_figure *f)
{
    int link;

    if (sscanf(f->name, "links[%d].latency_ns", &link) != 1 || link >= c->n_links ||
        !ends_with(f->name, ".latency_ns"))
        return false;
    if (c->links[link].level == LW_LINK_INTER)
        return n_ranks == 0 || n_ranks > c->devices_per_node;
    return c->links[link].level == LW_LINK_INTRA && n_ranks > 1 && c->devices_per_node > 1 &&
           !c->calibrated;
}

/* What `calibrate` wrote: beside the communication of a rank that takes its core, compute stops,
 * and the rate is the least that it writes. */
static bool is_measured_rate(const struct lw_cluster_figure *f)
{
    static const char by[] = "lapwing calibrate:";

    return ends_with(f->name, "interference.compute_rate_under_comm") &&
           strncmp(f->figure.source, by, sizeof by - 1) == 0;
}

/* Of a calibration the program wrote the unit. */
static const char *remedy(const struct lw_cluster *c, const struct lw_cluster_figure *f)
{
    return c->calibrated && ends_with(f->name, "_sigma")
               ? "calibrate again while nothing else runs"
               : "check the number and its unit";
}

/* Known systems have tables up to 1.21 times what their links, fitted to other collectives, carry;
 * `import --onto`, which joins two sources, refuses sooner. */
#define TIMES_THE_LINKS 2.0

/* k: after the figures. A calibration measured both itself. */
static int doubtful_table(const struct lw_cluster *c, int n_figures, int k, char *text, size_t size)
{
    double reaches, links;

    for (int i = k - n_figures; i < c->n_tables && !c->calibrated; i++) {
        const struct lw_cost_table *t = &c->tables[i];
        if (!lw_table_exceeds_links(c, t, TIMES_THE_LINKS, &reaches, &links))
            continue;
        snprintf(text, size, "tables[%d]: %s on %d ranks of %d node%s reaches %.4g GB/s, the links "
                             "carry %.4g: check its bytes and ns, or the links", i,
                 lw_op_name(t->op), t->n_ranks, t->n_nodes, lw_plural(t->n_nodes), reaches / 1e9,
                 links / 1e9);
        return n_figures + i;
    }
    return -1;
}

static int figures_of(const struct lw_cluster *c)
{
    struct lw_cluster_figure f;
    int n = 0;

    while (lw_cluster_figure(c, n, &f))
        n++;
    return n;
}

int lw_cluster_doubt(const struct lw_cluster *c, int64_t n_ranks, int k, char *text, size_t size)
{
    struct lw_cluster_figure f;
    int n = figures_of(c);

    for (; lw_cluster_figure(c, k, &f); k++) {
        const struct usual *u = lw_figure_is_set(f.figure) ? usual_of(&f) : NULL;
        if (!u)
            continue;
        bool ps = strcmp(f.unit, "ps") == 0;
        double scale = ps ? 1e3 : 1, v = f.figure.value,
               least = is_latency_in_use(c, n_ranks, &f) ? 1e4 /* 10 ns */
                       : is_measured_rate(&f)            ? 0.001
                                                         : u->least;
        const char *unit = ps ? "ns" : f.unit, *blank = *unit ? " " : "";
        if (v >= least && v <= u->most)
            continue;
        snprintf(text, size, "%s.value is %g%s%s, usual are %g to %g%s%s: %s", f.name, v / scale,
                 blank, unit, least / scale, u->most / scale, blank, unit, remedy(c, &f));
        return k;
    }
    return doubtful_table(c, n, k > n ? k : n, text, size);
}

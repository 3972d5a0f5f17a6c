/* What a prediction's error depends on most: the framework, the device, how the model is divided,
 * and the network. */
#include "analysis/alike/alike_key.h"

#include <string.h>

#include "shared/device/device_kind.h"
#include "shared/files/files.h"

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

struct lw_alike_job lw_alike_job_of(const struct lw_plan *p)
{
    return (struct lw_alike_job){p->strategy, p->n_ranks, p->dims.layers > 0, p->dims.experts};
}

static enum lw_parallelism parallelism_of(const struct lw_alike_job *job)
{
    const struct lw_strategy *s = job->strategy;

    if (job->experts)
        return LW_PARALLEL_EXPERTS;
    if (s->tp > 1 || s->pp > 1 || s->cp > 1)
        return LW_PARALLEL_MODEL;
    return job->n_ranks == 1 ? LW_PARALLEL_NONE
           : s->zero >= 3    ? LW_PARALLEL_SHARDED
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

/* --- figures ---------------------------------------------------------------------------------- */

/* false also where no framework has the name: no measured run has it then. */
static bool framework_is_edited(const struct lw_framework *f)
{
    char own[33] = "", known[33] = "";
    struct lw_framework found;

    if (!f || !f->name || lw_framework_find(f->name, &found, NULL) != LW_OK)
        return false;
    bool hashed = lw_framework_hash(f, own, NULL) == LW_OK &&
                  lw_framework_hash(&found, known, NULL) == LW_OK;
    lw_framework_free(&found);
    return hashed && strcmp(own, known) != 0;
}

/* Number k or a later one that is of the device; false: there is none. */
static bool device_figure(const struct lw_cluster *c, int *k, struct lw_cluster_figure *out)
{
    for (; lw_cluster_figure(c, *k, out); ++*k)
        if (strncmp(out->name, "device.", 7) == 0)
            return true;
    return false;
}

static bool has_figures_of(const struct lw_cluster *a, const struct lw_cluster *b)
{
    struct lw_cluster_figure x, y;
    int i = 0, j = 0;

    for (;; i++, j++) {
        bool one = device_figure(a, &i, &x), other = device_figure(b, &j, &y);
        if (!one || !other)
            return one == other;
        bool set = lw_figure_is_set(x.figure);
        if (strcmp(x.name, y.name) != 0 || set != lw_figure_is_set(y.figure) ||
            (set && x.figure.value != y.figure.value))
            return false;
    }
}

/* Some known cluster has the device with the same figures: first that of the name. */
static bool device_is_known(const struct lw_cluster *c)
{
    const char *kind = lw_device_kind(c->device.kind);

    for (int k = -1; k < 0 || lw_cluster_known(k); k++) {
        struct lw_cluster known;
        const char *name = k < 0 ? c->name : lw_cluster_known(k);
        if (!name || lw_names_file(name) || lw_cluster_find(name, &known, NULL) != LW_OK)
            continue;
        bool same = known.device.kind && strcmp(lw_device_kind(known.device.kind), kind) == 0 &&
                    has_figures_of(&known, c);
        lw_cluster_free(&known);
        if (same)
            return true;
    }
    return false;
}

struct lw_alike_key lw_alike_key_of(const struct lw_alike_job *job,
                                    const struct lw_cluster *cluster,
                                    const struct lw_framework *framework)
{
    const char *device = cluster->device.kind ? lw_device_kind(cluster->device.kind) : "";
    const char *name = framework && framework->name ? framework->name : "";

    return (struct lw_alike_key){
        {name, device, lw_parallelism_name(parallelism_of(job)),
         network_of(job->n_ranks, cluster)},
        {framework_is_edited(framework), *device && !device_is_known(cluster)},
        !job->transformer || lw_device_is_cpu(device)};
}

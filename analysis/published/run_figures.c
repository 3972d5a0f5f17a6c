#include "analysis/published/run_figures.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SWEEP "nanotron_ultrascale"
#define MEMORY_OP "time of a kernel without products beside its bytes and a launch"

/* Those of network_fit_simumax are stated (n_rows 0), not fitted: latency of memory in
 * configs/system of MooreThreads/SimuMax@4dcaae5, 30 us on B200 and 40 us on A100 PCIe, less a
 * launch of 4 us. They are of its runs alone, of kernels launched one by one: MLPerf's runs on
 * B200, as graphs, would have 10.3 % with them and have 8.8 % without.
 *
 * That of all_reduce_bench-a100-n4 is measured apart from the runs: before the repair an all-reduce
 * of 4 GB over 4 of the same nodes had a bus bandwidth of 40.5 of 400 Gb/s
 * (bigscience-workshop/bigscience@a6f804c, experiments/bandwidth). */
static const struct lw_run_figure figures[] = {
    {"nanotron", LW_RUN_HOST_OP, "host time per kernel", "us", 56.2, SWEEP, 55},
    {"Megatron-DeepSpeed", LW_RUN_HOST_OP, "host time per kernel", "us", 68,
     "vtrain_ground_truth_single", 240},
    {"Composer", LW_RUN_TRAFFIC, "traffic of kernels without products", "", 1.75, "mpt_fsdp", 75},
    {"Megatron-LM 202", LW_RUN_TRAFFIC, "traffic of kernels without products", "", 1.275,
     "narayanan2021_table1_weak_scaling", 5},
    {"p5-playbook", LW_RUN_HOST_TENSOR, "host time per tensor collective and rank, between nodes",
     "us", 20, SWEEP, 55},
    {"p5-playbook", LW_RUN_HOST_TENSOR_STAGE,
     "host time per tensor collective and rank, stages on several nodes", "us", 250, SWEEP, 55},
    {"before PCIe/NUMA fix", LW_RUN_NETWORK, "share of the line rate of a node's ports", "", 0.101,
     "all_reduce_bench-a100-n4", 0},
    {"jean-zay-a100", LW_RUN_NETWORK, "share of the line rate of a node's ports", "", 0.14,
     "bloom_3d_a100", 17},
    {"nanotron", LW_RUN_POLL_DEVICES, "devices on which all pipelines sleep", "", 512, SWEEP, 105,
     .by_hand = true},
    {"nanotron", LW_RUN_POLL_GROUP, "ranks of tensor groups with which all pipelines sleep", "", 32,
     SWEEP, 80, .by_hand = true},
    {"nanotron", LW_RUN_POLL_LARGE_DEVICES, "devices on which large models' pipelines sleep", "",
     256, SWEEP, 27, .by_hand = true},
    {"nanotron", LW_RUN_POLL_LARGE_HIDDEN, "hidden size of these models", "", 4096, SWEEP, 27,
     .by_hand = true},
    {"nanotron", LW_RUN_HELD, "whole inputs held ahead of the device", "", 50, SWEEP, 400,
     .by_hand = true},
    {"nanotron", LW_RUN_HELD_FEW, "whole inputs held by one micro-batch, or between sleeps", "", 25,
     SWEEP, 90, .by_hand = true},
    {"nanotron", LW_RUN_HELD_SHARE, "device's share of the step above which it is the slower one",
     "", 0.8, SWEEP, 54, .by_hand = true},
    {"Megatron-LM 23e00ed", LW_RUN_MEMORY_OP, MEMORY_OP, "us", 26, "network_fit_simumax", 0},
    {"(SimuMax scripts)", LW_RUN_MEMORY_OP, MEMORY_OP, "us", 36, "network_fit_simumax", 0},
};

static const char *const kinds[] = {
    [LW_RUN_HOST_OP] = "host-op",
    [LW_RUN_TRAFFIC] = "traffic",
    [LW_RUN_HOST_TENSOR] = "host-tensor",
    [LW_RUN_HOST_TENSOR_STAGE] = "host-tensor-stage",
    [LW_RUN_MEMORY_OP] = "memory-op",
    [LW_RUN_NETWORK] = "network",
    [LW_RUN_POLL_DEVICES] = "poll-devices",
    [LW_RUN_POLL_GROUP] = "poll-group",
    [LW_RUN_POLL_LARGE_DEVICES] = "poll-large-devices",
    [LW_RUN_POLL_LARGE_HIDDEN] = "poll-large-hidden",
    [LW_RUN_HELD] = "held",
    [LW_RUN_HELD_FEW] = "held-few",
    [LW_RUN_HELD_SHARE] = "held-share",
};

const struct lw_run_figure *lw_run_figure_at(int k)
{
    return k < (int)(sizeof figures / sizeof *figures) ? &figures[k] : NULL;
}

static bool is_of(const struct lw_run_figure *f, const struct lw_run *run)
{
    if (strstr(run->framework, f->of) || strstr(run->state, f->of))
        return true;
    const char *cluster = lw_run_cluster(run);
    return cluster && strcmp(cluster, f->of) == 0;
}

int32_t lw_run_figures_beside(const struct lw_run_figure *f)
{
    const struct lw_run_figure *x;
    int32_t n = 0;

    for (int k = 0; (x = lw_run_figure_at(k)) != NULL; k++)
        n += x->n_rows > 0 && strcmp(x->of, f->of) == 0;
    return n;
}

/* The text after "OF KIND=" in a list. */
static const char *given(const char *list, const struct lw_run_figure *f)
{
    char key[96];

    snprintf(key, sizeof key, "%s %s=", f->of, kinds[f->kind]);
    const char *at = list ? strstr(list, key) : NULL;
    return at && (at == list || at[-1] == ';') ? at + strlen(key) : NULL;
}

const struct lw_run_figure *lw_run_figure_of(const struct lw_run *run,
                                             enum lw_run_figure_kind kind)
{
    const struct lw_run_figure *f;

    for (int k = 0; (f = lw_run_figure_at(k)) != NULL; k++)
        if (f->kind == kind && is_of(f, run))
            return f;
    return NULL;
}

double lw_run_figure(const struct lw_run *run, enum lw_run_figure_kind kind, double otherwise)
{
    const struct lw_run_figure *f = lw_run_figure_of(run, kind);

    if (!f)
        return otherwise;
    const char *text = given(run->figures, f);
    return text ? strtod(text, NULL) : f->value;
}

static bool is_known(const char *entry)
{
    const struct lw_run_figure *f;
    char *end;

    for (int k = 0; (f = lw_run_figure_at(k)) != NULL; k++) {
        const char *text = given(entry, f);
        double v = text == NULL ? -1 : strtod(text, &end);
        if (text == entry + strcspn(entry, "=") + 1 && v >= 0 && v < 1e6 && end > text &&
            (!*end || *end == ';'))
            return true;
    }
    return false;
}

enum lw_status lw_run_figures_check(const char *list, struct lw_err *err)
{
    for (const char *at = list; *at; at += strcspn(at, ";"), at += *at == ';')
        if (!is_known(at))
            return lw_fail(err, LW_EINVAL,
                           "--figures: found '%.60s', allowed: OF KIND=NUMBER;..., of "
                           "analysis/published/run_figures.c, as 'nanotron host-op=85'",
                           at);
    return LW_OK;
}

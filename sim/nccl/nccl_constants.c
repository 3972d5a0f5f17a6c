/* Constants of NCCL's cost model by version, as data. Read in NVIDIA/nccl, src/graph/tuning.cc and
 * src/graph/search.cc, at the tags v2.19.3-1, v2.20.5-1, v2.21.5-1, v2.23.4-1, v2.24.3-1,
 * v2.25.1-1, v2.27.3-1, v2.27.5-1, v2.27.6-1, v2.28.3-1, v2.28.9-1, v2.29.2-1, v2.29.7-1 and
 * v2.30.7-1. What each table means: sim/nccl/nccl_tuning.c. Not here: NVLink and PCIe speeds, the
 * cluster's. */
#include "sim/nccl/nccl_constants.h"

#include <stdio.h>
#include <string.h>

/* Order within a row: LL, LL128, Simple. Order of rows: tree, ring, CollNet direct, CollNet chain,
 * NVLS, NVLSTree, PAT. */
static const struct sim_nccl_latencies latencies_2_19 = {
    {{6.8, 14, 0}, {6.6, 14, 8.4}, {0}, {0}, {0}, {0}, {0}},
    {
        {{.6, 1.25, 28}, {.6, 1.9, 3.4}, {0, 0, 3.7}, {0, 0, 2.8}, {0, 0, 23}, {0, 0, 23}, {0}},
        {{1, 1.9, 28}, {1, 2.5, 5.7}, {0, 0, 3.7}, {0, 0, 2.8}, {0}, {0}, {0}},
        {{5, 8.5, 28}, {2.7, 4, 14}, {0, 0, 31}, {0, 0, 30}, {0, 0, 18}, {0, 0, 14}, {0}},
    },
};
static const struct sim_nccl_latencies latencies_2_21 = {
    {{6.8, 14, 0}, {6.6, 14, 8.4}, {0}, {0}, {0}, {0}, {0}},
    {
        {{.6, 1.25, 28}, {.6, 1.9, 3.4}, {0, 0, 3.7}, {0, 0, 2.8}, {0, 0, 25}, {0, 0, 25}, {0}},
        {{1, 1.9, 28}, {1, 2.5, 5.7}, {0, 0, 3.7}, {0, 0, 2.8}, {0}, {0}, {0}},
        {{5, 8.5, 28}, {2.7, 4, 14}, {0, 0, 31}, {0, 0, 30}, {0, 0, 18}, {0, 0, 14}, {0}},
    },
};
static const struct sim_nccl_latencies latencies_2_23 = {
    {{6.8, 14, 8.4}, {6.6, 14, 8.4}, {0}, {0}, {0}, {0}, {8, 8, 8}},
    {
        {{.6, 1.25, 4}, {.6, 1.9, 3.4}, {0, 0, 3.7}, {0, 0, 2.8}, {0, 0, 25}, {0, 0, 25},
         {0, 0, 4}},
        {{1, 1.9, 4}, {1, 2.5, 5.7}, {0, 0, 3.7}, {0, 0, 2.8}, {0}, {0}, {0, 0, 4}},
        {{5, 8.5, 14}, {2.7, 4, 14}, {0, 0, 31}, {0, 0, 30}, {0, 0, 18}, {0, 0, 14}, {0, 0, 14}},
    },
};
static const struct sim_nccl_latencies latencies_2_30 = {
    {{6.8, 14, 8.4}, {6.6, 14, 8.4}, {0}, {0}, {0}, {0}, {8, 8, 8}},
    {
        {{.6, 1.25, 4}, {.6, 1.9, 3.4}, {0, 0, 3.7}, {0, 0, 2.8}, {0, 0, 25}, {0, 0, 25},
         {0, 0, 4}},
        {{1, 1.9, 4}, {1, 2.5, 5.7}, {0, 0, 3.7}, {0, 0, 2.8}, {0}, {0}, {0, 0, 4}},
        {{5, 8.5, 14}, {2.7, 4, 14}, {0, 0, 31}, {0, 0, 30}, {0, 0, 18}, {0, 0, 20.9}, {0, 0, 14}},
    },
};

/* Order of rows: Volta, Ampere, Hopper, Blackwell (before 2.25 NCCL counts Blackwell as Hopper). */
static const struct sim_nccl_bandwidths bandwidths_2_19 = {
    .ll = {{39, 39, 20.4}, {87.7, 22.5, 19}, {87.7, 22.5, 19}, {87.7, 22.5, 19}},
    .ring_ll128 = {{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 36.7}, {36.7, 36.7, 36.7}},
    .tree_ll128 = {{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 29}, {36.7, 36.7, 29}},
    .tree = {{26.5, 18.5, 10}, {24, 23.6, 17.8}, {38.7, 41.4, 36}, {38.7, 41.4, 36}},
};
static const struct sim_nccl_bandwidths bandwidths_2_21 = {
    .ll = {{39, 39, 20.4}, {87.7, 22.5, 19}, {141, 45, 35}, {141, 45, 35}},
    .ring_ll128 = {{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 36.7}, {36.7, 36.7, 36.7}},
    .tree_ll128 = {{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 29}, {36.7, 36.7, 29}},
    .tree = {{26.5, 18.5, 10}, {24, 23.6, 17.8}, {38.7, 41.4, 36}, {38.7, 41.4, 36}},
};
static const struct sim_nccl_bandwidths bandwidths_2_25 = {
    .ll = {{39, 39, 20.4}, {87.7, 22.5, 19}, {141, 45, 35}, {282, 90, 70}},
    .ring_ll128 = {{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 36.7}, {73.4, 73.4, 73.4}},
    .tree_ll128 = {{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 29}, {73.4, 73.4, 58}},
    .tree = {{26.5, 18.5, 10}, {24, 23.6, 17.8}, {38.7, 41.4, 36}, {77.4, 82.8, 72}},
};
static const struct sim_nccl_bandwidths bandwidths_2_28 = {
    .ll = {{39, 39, 20.4}, {87.7, 22.5, 19}, {141, 45, 35}, {282, 90, 70}},
    .ring_ll128 = {{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 36.7}, {73.4, 73.4, 73.4}},
    .tree_ll128 = {{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 29}, {55.6, 31.67, 20}},
    .tree = {{26.5, 18.5, 10}, {24, 23.6, 17.8}, {38.7, 41.4, 36}, {70, 42.8, 24}},
    .nvls_tree = {{26.5, 18.5, 10}, {24, 23.6, 17.8}, {0, 57.7, 45.5}, {0, 96, 43.1}},
};

static const struct sim_nccl_bandwidths bandwidths_2_28_9 = {
    .ll = {{39, 39, 20.4}, {87.7, 22.5, 19}, {141, 45, 35}, {282, 90, 70}},
    .ring_ll128 = {{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 36.7}, {73.4, 34.6, 73.4}},
    .tree_ll128 = {{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 29}, {55.6, 31.67, 20}},
    .tree = {{26.5, 18.5, 10}, {24, 23.6, 17.8}, {38.7, 41.4, 36}, {70, 42.8, 24}},
    .nvls_tree = {{26.5, 18.5, 10}, {24, 23.6, 17.8}, {0, 57.7, 45.5}, {0, 96, 43.8}},
};

static const struct sim_nccl_bandwidths bandwidths_2_29_2 = {
    .ll = {{39, 39, 20.4}, {87.7, 22.5, 19}, {141, 45, 35}, {282, 90, 70}},
    .ring_ll128 = {{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 36.7}, {34.5, 34.6, 34.5}},
    .tree_ll128 = {{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 29}, {55.6, 31.67, 20}},
    .tree = {{26.5, 18.5, 10}, {24, 23.6, 17.8}, {38.7, 41.4, 36}, {70, 42.8, 24}},
    .nvls_tree = {{26.5, 18.5, 10}, {24, 23.6, 17.8}, {0, 57.7, 45.5}, {0, 96, 43.8}},
};
static const struct sim_nccl_bandwidths bandwidths_2_29_7 = {
    .ll = {{39, 39, 20.4}, {87.7, 22.5, 19}, {141, 45, 35}, {282, 90, 70}},
    .ring_ll128 = {{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 36.7}, {40, 40, 40}},
    .tree_ll128 = {{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 29}, {55.6, 31.67, 20}},
    .tree = {{26.5, 18.5, 10}, {24, 23.6, 17.8}, {38.7, 41.4, 36}, {70, 42.8, 24}},
    .nvls_tree = {{26.5, 18.5, 10}, {24, 23.6, 17.8}, {0, 57.7, 45.5}, {0, 96, 43.8}},
};
static const struct sim_nccl_bandwidths bandwidths_2_30 = {
    .ll = {{39, 39, 20.4}, {87.7, 22.5, 19}, {141, 45, 35}, {282, 90, 70}},
    .ring_ll128 = {{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 36.7}, {40, 40, 40}},
    .tree_ll128 = {{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 29}, {55.6, 31.67, 20}},
    .tree = {{26.5, 18.5, 10}, {24, 23.6, 17.8}, {38.7, 41.4, 36}, {70, 42.8, 24}},
    .nvls_tree = {{26.5, 18.5, 10}, {24, 23.6, 17.8}, {0, 57.7, 45.5}, {0, 96, 80}},
};

/* Speeds of a channel that the graph search tries, in src/graph/search.cc of the tag: falling, 0
 * after the last. Rows: up to Ampere, Hopper, Blackwell (before 2.25 that of Hopper). */
#define SPEEDS(...) (const double[]){__VA_ARGS__, 0}
#define OLDER_INTRA SPEEDS(40, 30, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3)
#define OLDER_INTER \
    SPEEDS(48, 30, 28, 24, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3, 2.4, 1.2, .24, .12)
#define HOPPER_INTRA SPEEDS(60, 50, 40, 30, 24, 20, 15, 12, 11, 6, 3)
#define FROM_40 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3, 2.4, 1.2, .24, .12
#define HOPPER_INTER SPEEDS(48, 45, 42, FROM_40)
#define BLACKWELL_INTRA SPEEDS(90, 80, 70, 60, 50, 40, 30, 24, 20, 19, 18)
#define BLACKWELL_INTRA_45 SPEEDS(90, 80, 70, 60, 50, 45, 40, 30, 24, 20, 19, 18)
static const struct sim_nccl_speeds speeds_2_19 = {
    {OLDER_INTRA, SPEEDS(60, 50, 40, 30, 24, 20, 15, 12, 6, 3),
     SPEEDS(60, 50, 40, 30, 24, 20, 15, 12, 6, 3)},
    {OLDER_INTER, HOPPER_INTER, HOPPER_INTER}};
static const struct sim_nccl_speeds speeds_2_21 = {{OLDER_INTRA, HOPPER_INTRA, HOPPER_INTRA},
                                                   {OLDER_INTER, HOPPER_INTER, HOPPER_INTER}};
static const struct sim_nccl_speeds speeds_2_25 = {
    {OLDER_INTRA, HOPPER_INTRA, SPEEDS(90, 80, 70, 60, 50, 40, 30, 24, 20, 19)},
    {OLDER_INTER, HOPPER_INTER, HOPPER_INTER}};
static const struct sim_nccl_speeds speeds_2_27 = {
    {OLDER_INTRA, HOPPER_INTRA, BLACKWELL_INTRA},
    {OLDER_INTER, HOPPER_INTER, SPEEDS(47.9, 45, 42, FROM_40)}};
static const struct sim_nccl_speeds speeds_2_27_5 = {
    {OLDER_INTRA, HOPPER_INTRA, BLACKWELL_INTRA},
    {OLDER_INTER, HOPPER_INTER, SPEEDS(48, 45.1, 42, FROM_40)}};
static const struct sim_nccl_speeds speeds_2_27_6 = {
    {OLDER_INTRA, HOPPER_INTRA, BLACKWELL_INTRA},
    {OLDER_INTER, HOPPER_INTER, SPEEDS(96, 48, 45.1, 42, FROM_40)}};
static const struct sim_nccl_speeds speeds_2_29_2 = {
    {OLDER_INTRA, HOPPER_INTRA, BLACKWELL_INTRA_45},
    {OLDER_INTER, HOPPER_INTER, SPEEDS(96, 48, 45.1, 42, FROM_40)}};
static const struct sim_nccl_speeds speeds_2_29_7 = {
    {OLDER_INTRA, HOPPER_INTRA, BLACKWELL_INTRA_45},
    {OLDER_INTER, HOPPER_INTER, SPEEDS(96, 80, 48, 45.1, 42, FROM_40)}};
static const struct sim_nccl_speeds speeds_2_30 = {
    {OLDER_INTRA, HOPPER_INTRA, BLACKWELL_INTRA_45},
    {OLDER_INTER, HOPPER_INTER, SPEEDS(96, 86, 80, 48, 45.1, 42, FROM_40)}};

#define SOURCE(tag) "constants of NVIDIA/nccl " tag ", src/graph/tuning.cc"

static const struct sim_nccl_version versions[] = {
    {"2.19", SOURCE("v2.19.3-1"), 21900, &latencies_2_19, &bandwidths_2_19, &speeds_2_19, 0,
     {.ring_ll_quarter = true, .before_2_23 = true, .nvls_arity = 8, .least_nvls_ranks = 3}},
    {"2.20", SOURCE("v2.20.5-1"), 22000, &latencies_2_19, &bandwidths_2_19, &speeds_2_19, 0,
     {.ring_ll_quarter = true, .before_2_23 = true, .collnet_gathers = true,
      .collnet_by_share = true, .nvls_arity = 8, .least_nvls_ranks = 3}},
    {"2.21", SOURCE("v2.21.5-1"), 22100, &latencies_2_21, &bandwidths_2_21, &speeds_2_21, 0,
     {.before_2_23 = true, .collnet_gathers = true, .collnet_by_share = true, .nvls_arity = 32,
      .least_nvls_ranks = 3}},
    {"2.23", SOURCE("v2.23.4-1"), 22300, &latencies_2_23, &bandwidths_2_21, &speeds_2_21, .85,
     {.exposed_net = true, .has_pat = true, .collnet_gathers = true, .collnet_by_share = true,
      .nvls_arity = 32, .least_nvls_ranks = 3}},
    {"2.24", SOURCE("v2.24.3-1"), 22400, &latencies_2_23, &bandwidths_2_21, &speeds_2_21, .75,
     {.exposed_net = true, .has_pat = true, .collnet_gathers = true, .collnet_by_share = true,
      .nvls_arity = 32, .least_nvls_ranks = 3}},
    {"2.25", SOURCE("v2.25.1-1"), 22500, &latencies_2_23, &bandwidths_2_25, &speeds_2_25, .75,
     {.exposed_net = true, .has_pat = true, .collnet_gathers = true, .collnet_by_share = true,
      .nvls_arity = 32, .least_nvls_ranks = 3}},
    {"2.27", SOURCE("v2.27.3-1"), 22700, &latencies_2_23, &bandwidths_2_25, &speeds_2_27, .75,
     {.exposed_net = true, .has_pat = true, .collnet_gathers = true, .nvls_gather_by_ranks = true,
      .nvls_arity = 32, .least_nvls_ranks = 3}},
    {"2.27.5", SOURCE("v2.27.5-1"), 22705, &latencies_2_23, &bandwidths_2_25, &speeds_2_27_5, .75,
     {.exposed_net = true, .has_pat = true, .collnet_gathers = true, .nvls_gather_by_ranks = true,
      .nvls_arity = 32, .least_nvls_ranks = 3}},
    {"2.27.6", SOURCE("v2.27.6-1"), 22706, &latencies_2_23, &bandwidths_2_25, &speeds_2_27_6, .75,
     {.exposed_net = true, .has_pat = true, .collnet_gathers = true, .nvls_gather_by_ranks = true,
      .nvls_arity = 32, .least_nvls_ranks = 3}},
    {"2.28", SOURCE("v2.28.3-1"), 22800, &latencies_2_23, &bandwidths_2_28, &speeds_2_27_6, .75,
     {.exposed_net = true, .has_pat = true, .collnet_gathers = true, .nvls_by_efficiency = true,
      .nvls_arity = 32, .least_nvls_ranks = 3}},
    {"2.28.9", SOURCE("v2.28.9-1"), 22809, &latencies_2_30, &bandwidths_2_28_9, &speeds_2_27_6, .75,
     {.exposed_net = true, .has_pat = true, .collnet_gathers = true, .nvls_by_efficiency = true,
      .nvls_arity = 32, .least_nvls_ranks = 3}},
    {"2.29.2", SOURCE("v2.29.2-1"), 22902, &latencies_2_30, &bandwidths_2_29_2, &speeds_2_29_2, .75,
     {.exposed_net = true, .has_pat = true, .collnet_gathers = true, .nvls_by_efficiency = true,
      .nvls_tree_corrected = true,
      .nvls_arity = 32, .least_nvls_ranks = 3}},
    {"2.29.7", SOURCE("v2.29.7-1"), 22907, &latencies_2_30, &bandwidths_2_29_7, &speeds_2_29_7, .75,
     {.exposed_net = true, .has_pat = true, .collnet_gathers = true, .nvls_by_efficiency = true,
      .nvls_tree_corrected = true,
      .nvls_arity = 32, .least_nvls_ranks = 3}},
    {"2.30", SOURCE("v2.30.7-1"), 23000, &latencies_2_30, &bandwidths_2_30, &speeds_2_30, .75,
     {.exposed_net = true, .has_pat = true, .collnet_gathers = true, .nvls_by_efficiency = true,
      .nvls_tree_corrected = true, .nvls_arity = 32, .least_nvls_ranks = 2}},
};

enum { N_VERSIONS = sizeof versions / sizeof *versions };

const double sim_nccl_nvls_efficiency[SIM_N_NCCL_ARCHS] = {0, 0, .85, .74};

const double sim_nccl_tree_correction[SIM_N_NCCL_PROTOCOLS][SIM_NCCL_N_CORRECTIONS] = {
    {1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1, 1},
    {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1, 1},
    {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5,
     .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, .9},
};

/* One to three digits; NULL: none stand there. */
static const char *digits(const char *at, int32_t *value)
{
    const char *end = at;

    for (*value = 0; *end >= '0' && *end <= '9' && end - at < 3; end++)
        *value = 10 * *value + (*end - '0');
    return end > at ? end : NULL;
}

/* 10000 * major + 100 * minor + patch of "2.28", "2.28.9", "2.28.9-1", each also with "+cuda12.9";
 * -1: no such text. */
static int32_t number_of(const char *text)
{
    int32_t major, minor, patch = 0, unused;
    const char *at = digits(text, &major);

    if (!at || *at != '.' || !(at = digits(at + 1, &minor)) || minor > 99)
        return -1;
    if (*at == '.' && (!(at = digits(at + 1, &patch)) || patch > 99))
        return -1;
    if (*at == '-' && !(at = digits(at + 1, &unused)))
        return -1;
    if (strncmp(at, "+cuda", 5) == 0 &&
        (!(at = digits(at + 5, &unused)) || *at != '.' || !(at = digits(at + 1, &unused))))
        return -1;
    return *at ? -1 : 10000 * major + 100 * minor + patch;
}

enum lw_status sim_nccl_version_of(const char *text, const struct sim_nccl_version **out,
                                   struct lw_err *err)
{
    int32_t number = *text ? number_of(text) : versions[N_VERSIONS - 1].number;
    char known[120] = "";
    int k = N_VERSIONS - 1;

    while (k >= 0 && versions[k].number > number)
        k--;
    if (k >= 0) {
        *out = &versions[k];
        return LW_OK;
    }
    for (k = 0; k < N_VERSIONS; k++)
        lw_err_word(known, sizeof known, versions[k].name);
    return lw_fail(err, LW_EINVAL,
                   "unknown version '%s' of NCCL (library_version of the cluster): constants are "
                   "known of %s; expected one of these or a newer one, as 2.28, 2.28.9 or "
                   "2.28.9-1+cuda12.9",
                   text, known);
}

const char *sim_nccl_newest(const char *text)
{
    const struct sim_nccl_version *newest = &versions[N_VERSIONS - 1];

    return number_of(text) / 100 > newest->number / 100 ? newest->name : NULL;
}

bool sim_nccl_say_newer(const char *text, char *out, size_t size)
{
    const char *newest = sim_nccl_newest(text);

    if (newest)
        snprintf(out, size,
                 "NCCL %s is newer than the newest known constants; those of %s are used", text,
                 newest);
    return newest != NULL;
}

const char *sim_nccl_algorithm_name(enum sim_nccl_algorithm a)
{
    static const char *const names[] = {"tree", "ring", "collnet-direct", "collnet-chain", "nvls",
                                        "nvls-tree", "pat"};
    return names[a];
}

const char *sim_nccl_protocol_name(enum sim_nccl_protocol p)
{
    static const char *const names[] = {"ll", "ll128", "simple"};
    return names[p];
}

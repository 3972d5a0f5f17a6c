/* Constants of NCCL's cost model by version, as data. Read in NVIDIA/nccl, src/graph/tuning.cc and
 * src/graph/search.cc, at the tags v2.19.3-1, v2.20.5-1, v2.21.5-1, v2.23.4-1, v2.24.3-1,
 * v2.25.1-1, v2.27.3-1, v2.27.5-1, v2.27.6-1, v2.28.3-1, v2.28.9-1, v2.29.2-1, v2.29.7-1 and
 * v2.30.7-1. What each table means: sim/nccl/nccl_tuning.c. Not here: NVLink and PCIe speeds, the
 * cluster's. */
#include "sim/nccl/nccl_constants.h"

#include <stdio.h>
#include <string.h>

/* Order within a row: LL, LL128, Simple. Order of rows: tree, ring, CollNet direct, CollNet chain,
 * NVLS, NVLSTree, PAT. What changed between versions: Simple of trees (base, inside a node, between
 * nodes), NVLS and NVLSTree inside a node, NVLSTree between nodes, PAT (base, inside, between). */
#define LATENCIES(tree, tree_in, tree_net, nvls, nvls_tree_net, pat, pat_in, pat_net)           \
    {{{6.8, 14, tree}, {6.6, 14, 8.4}, {0}, {0}, {0}, {0}, {pat, pat, pat}},                    \
     {{{.6, 1.25, tree_in}, {.6, 1.9, 3.4}, {0, 0, 3.7}, {0, 0, 2.8}, {0, 0, nvls},             \
       {0, 0, nvls}, {0, 0, pat_in}},                                                           \
      {{1, 1.9, tree_in}, {1, 2.5, 5.7}, {0, 0, 3.7}, {0, 0, 2.8}, {0}, {0}, {0, 0, pat_in}},   \
      {{5, 8.5, tree_net}, {2.7, 4, 14}, {0, 0, 31}, {0, 0, 30}, {0, 0, 18},                    \
       {0, 0, nvls_tree_net}, {0, 0, pat_net}}}}
static const struct sim_nccl_latencies
    latencies_2_19 = LATENCIES(0, 28, 28, 23, 14, 0, 0, 0),
    latencies_2_21 = LATENCIES(0, 28, 28, 25, 14, 0, 0, 0),
    latencies_2_23 = LATENCIES(8.4, 4, 14, 25, 14, 8, 4, 14),
    latencies_2_28_9 = LATENCIES(8.4, 4, 14, 25, 20.9, 8, 4, 14);

/* Order of rows: Volta, Ampere, Hopper, Blackwell (before 2.25 NCCL counts Blackwell as Hopper).
 * What changed between versions: LL of Hopper, all of Blackwell, and nvls_tree, new in 2.28. */
#define CAPS(one, two, more) {one, two, more}
#define BANDWIDTHS(hopper_ll, of_ll, of_ring, of_tree_ll128, of_tree, ...)                      \
    {.ll = {CAPS(39, 39, 20.4), CAPS(87.7, 22.5, 19), hopper_ll, of_ll},                        \
     .ring_ll128 = {CAPS(20, 20, 20), CAPS(20, 20, 20), CAPS(36.7, 36.7, 36.7), of_ring},       \
     .tree_ll128 = {CAPS(20, 20, 20), CAPS(20, 20, 20), CAPS(36.7, 36.7, 29), of_tree_ll128},   \
     .tree = {CAPS(26.5, 18.5, 10), CAPS(24, 23.6, 17.8), CAPS(38.7, 41.4, 36), of_tree},       \
     __VA_ARGS__}
#define FROM_2_28(ring_one, ring_two, ring_more, nvls_tree_more)                                \
    BANDWIDTHS(CAPS(141, 45, 35), CAPS(282, 90, 70), CAPS(ring_one, ring_two, ring_more),       \
               CAPS(55.6, 31.67, 20), CAPS(70, 42.8, 24),                                       \
               .nvls_tree = {CAPS(26.5, 18.5, 10), CAPS(24, 23.6, 17.8), CAPS(0, 57.7, 45.5),   \
                             CAPS(0, 96, nvls_tree_more)})
static const struct sim_nccl_bandwidths
    bandwidths_2_19 = BANDWIDTHS(CAPS(87.7, 22.5, 19), CAPS(87.7, 22.5, 19), CAPS(36.7, 36.7, 36.7),
                                 CAPS(36.7, 36.7, 29), CAPS(38.7, 41.4, 36)),
    bandwidths_2_21 = BANDWIDTHS(CAPS(141, 45, 35), CAPS(141, 45, 35), CAPS(36.7, 36.7, 36.7),
                                 CAPS(36.7, 36.7, 29), CAPS(38.7, 41.4, 36)),
    bandwidths_2_25 = BANDWIDTHS(CAPS(141, 45, 35), CAPS(282, 90, 70), CAPS(73.4, 73.4, 73.4),
                                 CAPS(73.4, 73.4, 58), CAPS(77.4, 82.8, 72)),
    bandwidths_2_28 = FROM_2_28(73.4, 73.4, 73.4, 43.1),
    bandwidths_2_28_9 = FROM_2_28(73.4, 34.6, 73.4, 43.8),
    bandwidths_2_29_2 = FROM_2_28(34.5, 34.6, 34.5, 43.8),
    bandwidths_2_29_7 = FROM_2_28(40, 40, 40, 43.8),
    bandwidths_2_30 = FROM_2_28(40, 40, 40, 80);

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
#define SPEEDS_OF(hopper_intra, intra, inter) \
    {{OLDER_INTRA, hopper_intra, intra}, {OLDER_INTER, HOPPER_INTER, inter}}
static const struct sim_nccl_speeds
    speeds_2_19 = SPEEDS_OF(SPEEDS(60, 50, 40, 30, 24, 20, 15, 12, 6, 3),
                            SPEEDS(60, 50, 40, 30, 24, 20, 15, 12, 6, 3), HOPPER_INTER),
    speeds_2_21 = SPEEDS_OF(HOPPER_INTRA, HOPPER_INTRA, HOPPER_INTER),
    speeds_2_25 = SPEEDS_OF(HOPPER_INTRA, SPEEDS(90, 80, 70, 60, 50, 40, 30, 24, 20, 19),
                            HOPPER_INTER),
    speeds_2_27 = SPEEDS_OF(HOPPER_INTRA, BLACKWELL_INTRA, SPEEDS(47.9, 45, 42, FROM_40)),
    speeds_2_27_5 = SPEEDS_OF(HOPPER_INTRA, BLACKWELL_INTRA, SPEEDS(48, 45.1, 42, FROM_40)),
    speeds_2_27_6 = SPEEDS_OF(HOPPER_INTRA, BLACKWELL_INTRA, SPEEDS(96, 48, 45.1, 42, FROM_40)),
    speeds_2_29_2 = SPEEDS_OF(HOPPER_INTRA, BLACKWELL_INTRA_45, SPEEDS(96, 48, 45.1, 42, FROM_40)),
    speeds_2_29_7 = SPEEDS_OF(HOPPER_INTRA, BLACKWELL_INTRA_45,
                              SPEEDS(96, 80, 48, 45.1, 42, FROM_40)),
    speeds_2_30 = SPEEDS_OF(HOPPER_INTRA, BLACKWELL_INTRA_45,
                            SPEEDS(96, 86, 80, 48, 45.1, 42, FROM_40));

/* Since which version, and before which, a rule holds. */
#define RULES(n)                                                                                \
    {.ring_ll_quarter = (n) < 22100, .before_2_23 = (n) < 22300, .exposed_net = (n) >= 22300,   \
     .has_pat = (n) >= 22300, .collnet_gathers = (n) >= 22000,                                  \
     .collnet_by_share = (n) >= 22000 && (n) < 22700,                                           \
     .nvls_gather_by_ranks = (n) >= 22700 && (n) < 22800, .nvls_by_efficiency = (n) >= 22800,   \
     .nvls_tree_corrected = (n) >= 22902, .nvls_arity = (n) < 22100 ? 8 : 32,                   \
     .least_nvls_ranks = (n) < 23000 ? 3 : 2}
#define VERSION(name, tag, n, latencies, bandwidths, speeds)                                    \
    {name, "constants of NVIDIA/nccl " tag ", src/graph/tuning.cc", n, &latencies, &bandwidths, \
     &speeds, (n) < 22300 ? 0 : (n) < 22400 ? .85 : .75, RULES(n)}
static const struct sim_nccl_version versions[] = {
    VERSION("2.19", "v2.19.3-1", 21900, latencies_2_19, bandwidths_2_19, speeds_2_19),
    VERSION("2.20", "v2.20.5-1", 22000, latencies_2_19, bandwidths_2_19, speeds_2_19),
    VERSION("2.21", "v2.21.5-1", 22100, latencies_2_21, bandwidths_2_21, speeds_2_21),
    VERSION("2.23", "v2.23.4-1", 22300, latencies_2_23, bandwidths_2_21, speeds_2_21),
    VERSION("2.24", "v2.24.3-1", 22400, latencies_2_23, bandwidths_2_21, speeds_2_21),
    VERSION("2.25", "v2.25.1-1", 22500, latencies_2_23, bandwidths_2_25, speeds_2_25),
    VERSION("2.27", "v2.27.3-1", 22700, latencies_2_23, bandwidths_2_25, speeds_2_27),
    VERSION("2.27.5", "v2.27.5-1", 22705, latencies_2_23, bandwidths_2_25, speeds_2_27_5),
    VERSION("2.27.6", "v2.27.6-1", 22706, latencies_2_23, bandwidths_2_25, speeds_2_27_6),
    VERSION("2.28", "v2.28.3-1", 22800, latencies_2_23, bandwidths_2_28, speeds_2_27_6),
    VERSION("2.28.9", "v2.28.9-1", 22809, latencies_2_28_9, bandwidths_2_28_9, speeds_2_27_6),
    VERSION("2.29.2", "v2.29.2-1", 22902, latencies_2_28_9, bandwidths_2_29_2, speeds_2_29_2),
    VERSION("2.29.7", "v2.29.7-1", 22907, latencies_2_28_9, bandwidths_2_29_7, speeds_2_29_7),
    VERSION("2.30", "v2.30.7-1", 23000, latencies_2_28_9, bandwidths_2_30, speeds_2_30),
};

enum { N_VERSIONS = sizeof versions / sizeof *versions };

const double sim_nccl_nvls_efficiency[SIM_N_NCCL_ARCHS] = {0, 0, .85, .74};

const double sim_nccl_tree_correction[SIM_N_NCCL_PROTOCOLS][SIM_NCCL_N_CORRECTIONS] = {
    {1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1, 1},
    {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1, 1},
    {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5,
     .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, .9},
};

/* One to three digits; NULL: none are there. */
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

bool sim_nccl_say_newer(const char *text, char *out, size_t size)
{
    const struct sim_nccl_version *newest = &versions[N_VERSIONS - 1];
    bool newer = number_of(text) / 100 > newest->number / 100;

    if (newer)
        snprintf(out, size,
                 "NCCL %s is newer than the newest known constants; those of %s are used", text,
                 newest->name);
    return newer;
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

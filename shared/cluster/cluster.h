#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/numbers/dtype.h"
#include "shared/base/err.h"
#include "shared/numbers/units.h"
#include "shared/cluster/work_table.h"

struct lw_cost_table;
struct lw_pair_rate;

/* The machines a plan runs on: rates, links, measured tables, interference. Rates are doubles and
 * never decide an order; costs become picoseconds before anything is compared. */

/* One figure with its source ("NVIDIA A100 datasheet, 2021", "lapwing calibrate, spread 3 %").
 * An absent figure has source NULL: the term is then off, and the program says so. */
struct lw_figure {
    double value;
    const char *source;
};

bool lw_figure_is_set(struct lw_figure f);

/* The name of what a replay runs on: no figure of it is requested (traces/replay/to_replay.h). That
 * of a what-if goes on with what it takes instead. */
#define LW_RECORDED_CLUSTER "recorded"
bool lw_cluster_is_recorded(const char *name);

struct lw_device {
    const char *kind;                            /* "A100-SXM4-80GB", "cpu core" */
    struct lw_figure peak_flops[LW_N_DTYPES];    /* flop/s of dense matrix products */
    struct lw_figure gemm_efficiency;            /* share of the peak that real GEMMs reach */
    /* Products and attention by shape (shared/device/device_time.h); absent: the share above. */
    struct lw_figure gemm_sustained, gemm_boost; /* share of the peak: long and short kernels */
    struct lw_figure gemm_fill;                  /* steps of k that a tile costs beside its own */
    struct lw_figure gemm_tile;                  /* largest side of the smaller side of a tile */
    struct lw_figure gemm_odd;                   /* of 16-bit products with odd rows, of the rate
                                                  * of aligned ones */
    struct lw_figure fp8_speedup;                /* of products of 8-bit operands against bf16 */
    struct lw_figure fp8_peak_flops;             /* of products of 8-bit operands: MFU is
                                                  * over it, no time depends on it */
    struct lw_figure tf32_peak_flops;            /* of products of f32 operands in TF32 */
    struct lw_figure fp4_speedup, fp4_peak_flops;           /* the same of 4-bit operands (NVFP4) */
    struct lw_figure attention_forward, attention_backward; /* share of the peak: long sequences,
                                                             * heads of 128 */
    struct lw_figure sm_flops_per_clock;         /* of 16-bit products, at the peak, of one SM */
    struct lw_figure sm_exponentials_per_clock;  /* of one SM: narrower heads wait for them */
    struct lw_figure memory_bytes;
    struct lw_figure framework_bytes; /* of it, what the framework and the driver take */
    struct lw_figure memory_bytes_per_s;         /* device memory bandwidth */
    struct lw_figure memory_sustained;           /* share of it that kernels without products
                                                  * reach */
    struct lw_figure host_link_bytes_per_s;      /* between device and host, one direction */
    struct lw_figure pageable_bytes_per_s;       /* to the device, from memory of the host that is
                                                  * not pinned */
    struct lw_figure host_core_bytes_per_s;      /* between one core of the host and its memory */
    struct lw_figure copy_bytes_per_s;           /* bytes of payload per second of a device copy */
    struct lw_figure n_sms;
    struct lw_figure launch_ps;                  /* host time to launch one op */
    struct lw_figure host_op_scale;              /* a framework's time of the host, against that
                                                  * on the host that it was measured on */
    struct lw_figure probe_ps; /* of the speed probe, all ranks at once; its source names the
                                * product (docs/design/machine_speed.md) */
    int32_t n_work;
    struct lw_work_table *work; /* measured over sizes: wins over the rates above */
};

/* What the framework and the driver take of the device's memory before the first tensor: the
 * figure; without one 1343 MiB of a GPU (a device with n_sms), and 0 of other devices. See
 * docs/design/memory.md. */
enum { LW_FRAMEWORK_MIB = 1343 };
int64_t lw_device_framework_bytes(const struct lw_device *d);
/* Bytes that the device lacks for what is needed of it, the framework's part among it; 0 = it fits,
 * -1 = the device's memory or what is needed (-1) is unknown. */
int64_t lw_device_missing_bytes(const struct lw_device *d, int64_t needed);
/* Is what is needed within this share of the device's memory, below it or above? Predictions of
 * memory are off by as much (docs/design/memory.md): whether such a run fits is not sure. */
enum { LW_MEMORY_ERROR_PCT = 3 };
#define LW_MEMORY_ERROR_TEXT "the error of memory predictions (3 %)"
bool lw_device_is_close(const struct lw_device *d, int64_t needed);

enum lw_link_level {
    LW_LINK_INTRA,
    LW_LINK_INTER,
    LW_LINK_HOST,   /* a device's way to the host */
    /* what several devices share on that way; bytes_per_s: both directions together */
    LW_LINK_BRIDGE,
    LW_N_LINK_LEVELS,
};

/* One kind of link: what a device (intra, host), a node (inter) or a host bridge has. */
struct lw_link {
    const char *name;                   /* "NVLink 3", "HDR InfiniBand", "shared memory" */
    enum lw_link_level level;
    struct lw_figure bytes_per_s;       /* one direction, per link */
    struct lw_figure latency_ps;
    struct lw_figure n_links;           /* per device (intra) or per node (inter) */
    struct lw_figure n_sharers;         /* devices that share one of them */
    /* Of n_links, those that a group of 2, and of 4, devices of a node can use, where no switch
     * joins all of them; unset: all. Three have two thirds of the latter. */
    struct lw_figure pair_links, quad_links;
};

/* What runs slower beside what. Each rate is a share of the speed when alone, in (0, 1]. */
struct lw_interference {
    struct lw_figure compute_rate_under_comm;    /* compute while a collective moves data */
    struct lw_figure comm_rate_under_compute;    /* a collective while compute runs */
    struct lw_figure comm_sms;                   /* SMs a collective takes from compute */
    struct lw_figure sms_per_channel;            /* ... for each channel that it runs on, where the
                                                  * cost model tells channels; comm_sms otherwise */
    struct lw_figure memory_bytes_per_comm_byte; /* device memory traffic per byte reduced */
    struct lw_figure comm_on_compute_core; /* share of the compute core it wants; 1: runs on it */
    struct lw_figure comm_workers;               /* collectives of one communicator that the library
                                                  * runs at once (gloo: 2 threads); absent: 1 */
    /* 1: communications at the same time share devices' links and nodes' adapters max-min fairly */
    struct lw_figure fair_links;
    /* 1: a device has one link, which its collectives share equally while they move data at once;
     * each wants comm_on_compute_core in proportion */
    struct lw_figure shared_link;
};

/* The host as a reducer of its devices' gradients (hfreduce). */
struct lw_host {
    /* memory nodes that devices read results from once each (GDRCopy); absent: each device
       copies for itself */
    struct lw_figure n_numa;
    struct lw_figure piece_bytes; /* of one device's buffer in each stage of its pipeline */
};

/* Inputs of NCCL's own cost model beyond a machine's links (sim/cost/cost_nccl.h). */
struct lw_nccl_facts {
    struct lw_figure compute_capability; /* 80 = 8.0; absent: the model does not apply */
    struct lw_figure multicast;          /* 1: NVSwitch with multicast (NVLink SHARP) */
    struct lw_figure amd_host;           /* 1: x86 of AMD */
    struct lw_figure arm_host;           /* 1: no x86 */
    struct lw_figure collnet; /* 1: the network reduces (SHARP), and NCCL is told to use it */
    struct lw_figure devices_per_host;   /* of one operating system, where a node has several */
    struct lw_figure ll128;              /* 0: the protocol is switched off (NCCL_PROTO=^LL128) */
    struct lw_figure adapter_bytes_per_s; /* that an adapter reports and its link does not reach */
    /* that a device sends over PCIe in a node while 2, 4, 8 of it do; absent: the links' */
    struct lw_figure port2_bytes_per_s, port4_bytes_per_s, port8_bytes_per_s;
    struct lw_figure net_latency_ps;     /* that the network plug-in adds to a step between nodes */
    struct lw_figure post_ps; /* host time to post a network operation (NCCL_NET_OVERHEAD) */
    const char *algo, *proto;            /* as NCCL_ALGO and NCCL_PROTO; "" or NULL: not set */
};

struct lw_noise {
    struct lw_figure compute_sigma; /* relative standard deviation of compute ops */
    struct lw_figure comm_sigma;
    /* of the time that sustained products take, among the devices of a job: the slowest of them
     * sets the pace (docs/design/device_spread.md) */
    struct lw_figure device_spread;
};

/* A rank or a directed link that differs from the rest. rank_to = -1: the rank's own compute. */
struct lw_exception {
    int32_t rank, rank_to;
    double speed;      /* 0.5 = half speed */
    lw_ps late_ps;     /* the rank enters every step this much later */
};

struct lw_cluster {
    struct lw_arena arena; /* owns everything below */
    const char *name;
    int32_t n_nodes;          /* 0 = as many as a plan needs (a kind of machine, no installation) */
    int32_t devices_per_node;
    struct lw_device device;
    int32_t n_links, n_tables, n_exceptions;
    struct lw_link *links;
    struct lw_cost_table *tables;
    struct lw_exception *exceptions;
    int32_t n_pairs;
    struct lw_pair_rate *pairs; /* win over `interference` */
    const char *library, *library_version; /* collective library; "" = unknown */
    int32_t n_algorithms;    /* that the library chooses among; 0 = sim/cost/cost_library.c says */
    const char **algorithms; /* names of enum lw_reducer_kind */
    struct lw_interference interference;
    struct lw_interference published; /* of such machines, from publications: off until requested */
    struct lw_noise noise;
    struct lw_figure host_bytes_per_s;     /* host memory bandwidth of a node */
    struct lw_host host;
    struct lw_nccl_facts nccl;
    bool spread_evenly;                    /* jobs take as many devices of each node: racks */
    bool calibrated;                       /* measured on the machine itself */
    bool own_terms_only; /* no interference but what `interference` and `pairs` state; in no file */
    bool uses_published; /* lw_cluster_use_published: `unpublished` is its interference before */
    struct lw_interference unpublished;
    int32_t unplaced; /* devices_per_node before lw_cluster_place changed it; 0: it did not */
    /* in any currency; no prediction depends on it, so it is not in the hash */
    struct lw_figure price_per_device_hour;
    const char *about;                     /* one line, with the source */
};

void lw_cluster_free(struct lw_cluster *c);
/* Turn on the published terms that the cluster does not give itself. LW_ENOTSUP: it has none. */
enum lw_status lw_cluster_use_published(struct lw_cluster *c, struct lw_err *err);
/* SMs that each channel of a collective takes from compute: interference.sms_per_channel; else, of
 * NCCL's own, one thread block. Unset where the cluster states something else of compute beside
 * communication, is calibrated, has own_terms_only, or where NCCL's model does not apply. */
struct lw_figure lw_cluster_sms_per_channel(const struct lw_cluster *c);
/* LW_EFORMAT names the figure: numbers finite and in range, tables ascending. */
enum lw_status lw_cluster_check(const struct lw_cluster *c, struct lw_err *err);

/* The figures one after the other, unset ones too, in a fixed order; false after the last. Names
 * are those of a cluster file ("device.memory_bytes", "links[0].latency_ns"). */
struct lw_cluster_figure {
    char name[64];
    const char *unit; /* of figure.value: "B/s", "flop/s", "ps", ...; "" for counts and shares */
    struct lw_figure figure;
};
bool lw_cluster_figure(const struct lw_cluster *c, int k, struct lw_cluster_figure *out);

/* Where a job of n_ranks lies: nodes are filled in order, but with spread_evenly it takes as many
 * devices of each: 128 ranks are two racks of 64, not 72 and 56. devices_per_node follows. */
void lw_cluster_place(struct lw_cluster *c, int64_t n_ranks);
/* All ports of a node together have that line rate. LW_EINVAL: not above 0, or no network. */
enum lw_status lw_cluster_state_network(struct lw_cluster *c, double gbps, struct lw_err *err);
/* The device_spread is the share that the word gives, or none ("off"). The word is kept. LW_EINVAL:
 * neither "off" nor from 0 to 1. */
enum lw_status lw_cluster_state_spread(struct lw_cluster *c, const char *word, struct lw_err *err);

/* 128-bit hash of every figure with its source, in hex: the same machines with the same
 * measurements, whatever the file is called. */
enum lw_status lw_cluster_hash(const struct lw_cluster *c, char hex[33], struct lw_err *err);

/* The first link of that level, or NULL. */
const struct lw_link *lw_cluster_link(const struct lw_cluster *c, enum lw_link_level level);

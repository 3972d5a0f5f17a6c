#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/device/device_time.h"

/* How long one kernel takes alone, at the clock of a short burst: what a benchmark of kernels
 * prints. A step of training runs slower (shared/device/device_time.h). See
 * docs/design/device.md. */

/* Of a product. FP8: one scale per tensor; FP8_BLOCK: one for 128 x 128 weights and 128 inputs;
 * NVFP4: one for 16. */
enum lw_operands {
    LW_OPERANDS_BF16, LW_OPERANDS_FP8, LW_OPERANDS_FP8_BLOCK, LW_OPERANDS_NVFP4, LW_N_OPERANDS,
};
/* "bf16", "fp8", "fp8_block", "nvfp4"; "f16" is timed as bf16; -1: none of them. */
int lw_operands_parse(const char *word);

/* Fitted figures of products of one kind of operands. Casting the inputs is part of products of
 * less than 16 bits. */
struct lw_burst_gemm {
    double short_share, long_share; /* of the peak of such operands: short and long kernels */
    double fill;                    /* steps of k that a tile costs beside its own */
    double memory, cast;            /* share of the memory bandwidth: operands, casting inputs */
    double overhead_s;              /* beside both; short_share 0: no figures */
    bool cut;                       /* kernels may cut k into parts */
};

enum { LW_BURST_FOLDS = 4 };
enum { LW_N_HEAD_FORMS = 6 }; /* widths of heads that have kernels: 64, 96, 128, 192, 256, 512 */

/* Whose kernels were measured. What a framework does beside the kernel (rotary embedding, writing
 * the cache) is in its time. */
enum lw_server { LW_SERVER_TRTLLM, LW_SERVER_SGLANG, LW_SERVER_VLLM, LW_N_SERVERS };

/* Fitted figures of attention in one framework. */
struct lw_burst_attention {
    double share;            /* of the 16-bit peak: heads of 128, causal; 0: no figures */
    double fill;             /* keys that a tile costs beside its own */
    double tail, wide_tail;  /* share of the longest tile that nothing hides; heads above 256 */
    double queries, keys;    /* passes over queries and outputs, and over keys and values */
    double join, overhead_s; /* join: p of the p-norm of products and memory */
    double full, full_overhead_s;        /* without a mask: speed; in place of overhead_s */
    double fp8, narrow_fp8, fp8_traffic; /* of 8 bits: speed (0: no kernel), of heads up to 64, and
                                          * traffic */
    double odd, odd_fill; /* of widths that are no multiple of 16: speed, and fill against others */
    double sequence_s;  /* of each sequence of the batch, beside the overhead */
    double cache_bytes; /* operands and outputs of which half is found in a cache; 0: no term */
    double form[LW_N_HEAD_FORMS], form_fill[LW_N_HEAD_FORMS]; /* against 128: speed, fill */
};

/* Fitted figures of the experts of a rank (shared/device/burst_experts.c). */
struct lw_burst_experts {
    double products, memory; /* time against single products; 0: no figures */
    double rows, inner; /* passes over the rank's rows, hidden and inner width of 2 bytes each */
    double others;      /* passes over the rows of the other ranks of the expert group */
    double overhead_s;
};

#define LW_BURST_SOURCE                                                                        \
    "ai-dynamo/aiconfigurator@095f58a (Apache-2.0), measured kernels of one system; fit on " \
    "their shapes (traces/clusters/fit_burst.py)"

struct lw_burst {
    const char *kind; /* of the device */
    struct lw_burst_gemm gemm[LW_N_OPERANDS];
    struct lw_burst_attention attention[LW_N_SERVERS];
    struct lw_burst_experts experts[LW_N_SERVERS];          /* 16 bits */
    struct lw_burst_experts fastest_experts[LW_N_OPERANDS]; /* smaller types: any framework */
};

/* Those of H100 for H800 and GH200, of A100 with 80 GB for 40 GB. NULL: no kernels of such a device
 * are published. */
const struct lw_burst *lw_burst_of(const char *kind);
/* The same, fitted without the shapes of a fold: a measured shape is judged by these. */
const struct lw_burst *lw_burst_without(const char *kind, int fold);
/* What products and memory take together: neither hides the other wholly. Seconds. */
double lw_burst_both(double compute_s, double memory_s);
/* The peak that a burst's shares are of; 0: unknown. */
double lw_burst_peak(const struct lw_device *d, enum lw_operands o);

/* The device has a peak, SMs and a memory bandwidth, and b figures of these operands; else .time is
 * 0. Neither groups nor sums are taken. */
struct lw_product_time lw_burst_product(const struct lw_device *d, const struct lw_burst *b,
                                        const struct lw_product *p, enum lw_operands o);
/* Forward alone, the median of the frameworks in `servers` (bits of enum lw_server; 0: all) that b
 * has figures of. 0: there is none, the device lacks a peak, SMs or a memory bandwidth, or heads
 * are wider than 512. */
lw_ps lw_burst_attention_time(const struct lw_device *d, const struct lw_burst *b,
                              const struct lw_attention *a, bool fp8, unsigned servers);

/* The part of all shapes that one is in, by a hash of its sizes: 0 to LW_BURST_FOLDS - 1. */
int lw_burst_fold(const int64_t *sizes, int n);

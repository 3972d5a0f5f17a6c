#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/err.h"
#include "shared/numbers/units.h"
#include "shared/strategy/fp8_recipe.h"
#include "shared/strategy/routing.h"
#include "shared/workload/product.h"

/* The work of a model's modules, kernel by kernel, in the dimensions of the whole model: of one
 * micro-batch, before a tensor, context or expert group divides it. Independent of a device and of
 * a framework's rates. A workload without kernels (a recording) has measured times alone.
 * See docs/design/kernels.md. */

enum lw_kernel_kind {
    LW_KERNEL_TRAFFIC,   /* moves bytes of device memory */
    LW_KERNEL_GEMM,      /* batch products of m x k and k x n, and their gradients */
    LW_KERNEL_ATTENTION, /* fused: scores never reach memory */
    LW_KERNEL_COUNTED,   /* FLOPs and bytes alone, whatever the device: convolutions, scans */
    LW_N_KERNEL_KINDS,
};

/* What the ranks of a tensor group divide. */
enum lw_kernel_split {
    LW_SPLIT_NONE,    /* nothing: every rank does all; under sequence parallelism its tokens */
    LW_SPLIT_GROUP,   /* bytes */
    LW_SPLIT_COLUMN,  /* n */
    LW_SPLIT_ROW,     /* k */
    LW_SPLIT_VOCAB,   /* n, of the vocabulary */
    LW_SPLIT_HEADS,   /* batch, which counts heads */
    LW_SPLIT_EXPERTS, /* nothing, of the tokens that experts get: only where the group shares the
                       * experts, the tokens */
    LW_N_KERNEL_SPLITS,
};

/* Of a recorded operator, whose backward is another one; a GEMM's own product, not a gradient's. */
enum lw_kernel_only { LW_ONLY_NOT, LW_ONLY_FORWARD, LW_ONLY_BACKWARD };

/* Where an expert group sends tokens to experts, and where they come back; in backward their
 * gradients go the other way. */
enum lw_kernel_tokens { LW_TOKENS_STAY, LW_TOKENS_SENT_BEFORE, LW_TOKENS_BACK_AFTER };

/* The linear layer of a framework that a GEMM is of. */
enum lw_kernel_layer {
    LW_LAYER_SPLIT,  /* its own where a tensor group splits its weights, else an operator */
    LW_LAYER_WHOLE,  /* its own, on every tensor rank */
    LW_LAYER_JOINED, /* that of the product before, where the framework has one layer for both */
    LW_LAYER_NONE,   /* none: an operator */
    LW_N_KERNEL_LAYERS,
};

/* One operator in all phases (enum lw_product_phase). Backward runs a module's kernels from the
 * last to the first. Of a GEMM the dimensions of the gradients follow: of the input m x n and
 * n x k, of the weights k x m and m x n. No padding: kernels are compared as bytes. */
struct lw_kernel {
    int64_t batch, m, n, k; /* ATTENTION: sequences, tokens, and n = the window (0 = none), with the
                             * token's own key */
    int64_t heads, kv_heads, qk_width, v_width; /* ATTENTION */
    int64_t flops[LW_N_PRODUCT_PHASES];         /* COUNTED */
    int64_t bytes[LW_N_PRODUCT_PHASES];         /* TRAFFIC, COUNTED; GEMM: 0 = of its operands */
    int64_t blocks; /* TRAFFIC: thread blocks that do it, each on one SM; 0 = as many as SMs */
    /* Activations, in bytes, that a tensor group exchanges beside it; 0 = none. gathered: what it
     * reads, before its forward under sequence parallelism; the gradient is summed after its
     * backward. summed: what it makes (the last of several that add to one result), after its
     * forward; under sequence parallelism the gradient is gathered before its backward. */
    int64_t gathered, summed;
    int64_t gathered_operand; /* what gathers of `gathered` move where operands are narrower than
                               * activations; 0 = gathered. The sum of the gradient is not */
    int64_t summed_operand; /* the same of the gather of the gradient of `summed`; 0 = summed */
    /* > 0: of the experts of a block, topk copies of each token; GEMM: m counts the copies without
     * a capacity, batch is not used. */
    int64_t experts;
    double capacity; /* rows that an expert takes of its even share; 0 = all */
    int32_t n_forward, n_backward; /* launches; 0 = one where there is work */
    uint8_t kind, split, dtype;    /* enum lw_kernel_kind, lw_kernel_split, lw_dtype */
    uint8_t out_size;   /* GEMM: bytes of an element of the weights' gradient; 0 = of the dtype */
    uint8_t sum_bytes;  /* GEMM: > 0: another kernel adds the weights' gradient to its sum, and
                         * moves so many bytes per element */
    bool fp8;           /* GEMM: operands of 8 bits; backward writes the output's gradient so;
                         * TRAFFIC: the cast of what a norm wrote, which only a framework that
                         * casts inputs has */
    bool fp4; /* with fp8: of 4 bits in place of 8 (NVFP4) */
    uint8_t recipe;     /* enum lw_fp8_recipe, with fp8 and not fp4: how the operands are scaled */
    bool tf32;          /* GEMM, COUNTED of f32: operands in TF32 */
    bool epilogue;      /* fp8: the activation between two products is part of them: COLUMN's takes
                         * its result's gradient, ROW's its input from there, in 8 bits */
    bool trained;       /* GEMM: its weights have a gradient */
    bool both;          /* GEMM: both operands are activations: two gradients, no weights' */
    bool transposed;    /* with both: the second operand is n x k in memory, so its gradient is */
    bool halves;        /* GEMM: n is of two halves, which are split each */
    bool fixed;         /* not by tokens: a context group does not divide it */
    bool causal;        /* ATTENTION: a token attends to those before it */
    bool again;         /* selective recomputation does its forward again */
    bool unrepeated;    /* full recomputation stops before it */
    bool attention;     /* of attention itself: scores and sums over values */
    uint8_t only;       /* enum lw_kernel_only: GEMM, ATTENTION */
    uint8_t tokens;     /* enum lw_kernel_tokens */
    uint8_t layer;      /* enum lw_kernel_layer: GEMM */
    bool scan;          /* COUNTED: of a scan: its FLOPs take clocks of the SMs beside its bytes */
};

/* What a faster one of would shorten a kernel: the largest of its terms. HOST: a module waits for
 * the launches of its kernels. */
enum lw_bound { LW_BOUND_COMPUTE, LW_BOUND_MEMORY, LW_BOUND_LAUNCH, LW_BOUND_HOST, LW_N_BOUNDS };

/* Where a time comes from. */
enum lw_time_source {
    LW_TIME_GIVEN,    /* a recording or a file gives it: what bounds it is not known */
    LW_TIME_SHAPE,    /* the device's figures for shapes (shared/device/device_time.h) */
    LW_TIME_TABLE,    /* tables measured on the device */
    LW_TIME_ROOFLINE, /* FLOPs and bytes at the device's rates */
    LW_TIME_SCALED,   /* that of another device, by the ratio of figures */
    LW_N_TIME_SOURCES,
};

/* What one rank takes for a kernel by phase, without the host's limit, and what bounds most of it.
 */
struct lw_kernel_times {
    lw_ps ps[LW_N_PRODUCT_PHASES], before[LW_N_PRODUCT_PHASES]; /* before: the module's kernels
                                                                 * that come before it */
    lw_ps by[LW_N_PRODUCT_PHASES][LW_N_BOUNDS]; /* ps by what bounds it: adds up to it */
    enum lw_bound bound[LW_N_PRODUCT_PHASES];
    enum lw_time_source source; /* of most of its time */
    int32_t n_products[LW_N_PRODUCT_PHASES]; /* in the lists of its module */
};

/* The groups whose ranks share a kernel. */
struct lw_kernel_groups {
    int64_t tp, cp, ep;    /* 0 = 1 */
    bool sequence_parallel;
    bool whole_experts;    /* a tensor group shares experts, and does not split each */
    bool folded_experts;   /* whole_experts, and ep counts the ranks of tensor groups too */
    struct lw_routing once; /* of a token, which goes once to a rank that has several of its experts
                             * (--dispatch-once); no copies: every copy goes */
};

/* Ranks of a group of struct lw_kernel_groups or lw_made_for, whose 0 is 1. */
static inline int64_t lw_group_size(int64_t n)
{
    return n > 1 ? n : 1;
}

/* A window (0 = none) leaves some of the keys of a sequence of so many tokens. */
static inline bool lw_is_window(int64_t window, int64_t tokens)
{
    return window > 0 && window < tokens;
}

/* Scores of one head of a sequence, as modules count their FLOPs: all of them, under a causal mask
 * twice those that it leaves. Without a window these are s^2 both times (of s (s + 1) / 2, s / 2
 * are neglected); a causal window W leaves s W - W^2 / 2, any other s W. */
int64_t lw_counted_scores(int64_t tokens, int64_t window, bool causal);

/* Copies of tokens that experts compute, of so many without a capacity: at least one. */
int64_t lw_expert_copies(int64_t copies, double capacity);

/* For tables: "gemm", "column", "memory"; NULL beyond the last. */
const char *lw_kernel_kind_word(int kind);
const char *lw_kernel_split_word(int split);
const char *lw_kernel_tokens_word(int tokens);
const char *lw_kernel_only_word(int only);
const char *lw_kernel_layer_word(int layer);
const char *lw_bound_word(int bound);
const char *lw_time_source_word(int source);

/* Kernel i of a file. LW_EFORMAT names the field, what it holds and what it may: dimensions that
 * its kind needs are 1 to INT32_MAX, an operand has at most 2^44 elements, and one phase does at
 * most 2^58 FLOPs and moves at most 2^50 bytes, so that no group overflows a number. */
enum lw_status lw_kernel_check(const struct lw_kernel *k, int32_t i, struct lw_err *err);

/* What the framework does to the model's memory per step, in bytes per element. */
struct lw_step_traffic {
    int64_t update; /* of the elements that a rank updates: the optimizer's step */
    int64_t held;   /* of the gradients that a rank holds */
    int64_t host;   /* of what the host updates (--offload update), beside the update itself */
};

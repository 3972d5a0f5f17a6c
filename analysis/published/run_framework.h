#pragma once

#include "analysis/published/run_table.h"
#include "shared/plan/strategy.h"

/* What a framework does that the tables of runs do not say. */
struct lw_run_framework {
    const char *name;      /* part of the framework's name in the table */
    unsigned unfused;      /* bits of enum traces_unfused */
    unsigned kept;         /* bits of enum traces_kept */
    unsigned step;         /* bits of enum traces_step */
    const char *recompute; /* where the row gives none; NULL = nothing */
    bool shards_optimizer; /* ZeRO-1 and bf16 gradients, where the row gives none */
    bool fp8_params;       /* weights of 8 bits beside 8-bit products */
    enum lw_tp_overlap tp_overlap; /* beside tensor groups, where the row says nothing */
    enum lw_cp_comm cp_comm;       /* of context groups; rows that overlap a tensor group's
                                    * collectives are planned with all-gathers */
    bool fused_sums;       /* f32 gradients are summed by the products that compute them */
    int64_t ddp_bucket;    /* bytes of gradients that are reduced at once beside the backward, where
                            * ZeRO shards nothing; 0 = what the row says of overlap holds */
    bool own_gradients;    /* gradients of the parameters' type, whole, beside their f32 sums */
    bool launch_blocking;  /* each launch waits for its kernel: CUDA_LAUNCH_BLOCKING=1 */
    bool runs_ahead;       /* the host is ahead of the device unless it is slower */
    bool step_gathers;     /* ZeRO-1's step gathers its weights into tensors beside them; what a
                            * rank holds throughout is made before an empty cache */
    bool flat_gradients;   /* below ZeRO-3 the step makes one tensor of a rank's gradients */
    int step_bytes;        /* of an element that the step updates, what it allocates beside
                            * gradients of the parameters' type */
    int state_bytes;       /* of an element's optimizer state, beside such gradients; 0 = a master
                            * and Adam's two */
    int64_t bucket;        /* elements of buffers of reduced gradients, below ZeRO-3 beside such
                            * gradients */
    bool buckets_alone;    /* such buffers without other data-parallel ranks too */
    bool splits_messages;  /* a tensor rank sends its part of a message between stages */
    bool keeps_outputs;    /* a stage holds what it sent until the micro-batch's backward */
    int stage_buffers;     /* times the stages: buffers of each block's input and weights on all but
                            * the last stage; 0 = as many inputs as micro-batches in flight */
    bool flat_weights;     /* beside f32 sums, weights are copied to one tensor on the device: the
                            * blocks of the former stay with the allocator */
};

/* How the run overlaps its tensor group's collectives with products: what the row says, else the
 * framework's usual way. */
enum lw_tp_overlap lw_run_tp_overlap(const struct lw_run *r);

/* The row says that updated parameters are gathered beside the next forward. */
bool lw_run_gathers_ahead(const struct lw_run *r);

/* Whether the row's options contain `option`: one of the words of steps[] in run_framework.c. Rows
 * of "cumulative" options name the last one and contain those before it. */
bool lw_run_takes(const struct lw_run *r, const char *option);

/* One of no name where the framework is not known. */
const struct lw_run_framework *lw_run_framework_of(const struct lw_run *r);

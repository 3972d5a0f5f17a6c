#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"

/* Which items (modules, layers) each pipeline stage holds. Items keep their order; with several
 * chunks per stage the part number q = chunk * n_stages + stage runs through the model.
 * See docs/design/partition.md for every policy with a worked example. */
struct lw_range {
    int32_t begin, end; /* items begin .. end-1; equal = empty */
};

struct lw_partitioning {
    struct lw_arena arena; /* owns parts */
    int32_t n_items, n_stages, n_chunks;
    struct lw_range
        *parts;        /* [n_stages * n_chunks]: chunk c of stage s is parts[s * n_chunks + c] */
    bool has_empty;    /* a part is empty */
    bool warned_empty; /* the reference system warns of stages without work for this input */
};

void lw_partition_free(struct lw_partitioning *p);
const struct lw_range *lw_partition_part(const struct lw_partitioning *p, int32_t stage,
                                         int32_t chunk);

/* The same number of items in each part; each chunk's remainder goes to the last stages
 * (ColossalAI colossalai/builder/pipeline.py@96780e6). Stages may stay empty: warned_empty.
 * LW_EINVAL: n_chunks does not divide n_items, a count below 1 (items: below 0). */
enum lw_status lw_partition_uniform(int32_t n_items, int32_t n_stages, int32_t n_chunks,
                                    struct lw_partitioning *out, struct lw_err *err);

/* ColossalAI's balancing of weights (trainable elements, >= 0) by bisection with a greedy probe;
 * missing parts are made by halving the heaviest; dealt to the stages in turn. With n_items <=
 * n_stages * n_chunks it is lw_partition_uniform, its refusals included. O(n log sum). */
enum lw_status lw_partition_colossal(const int64_t *weights, int32_t n_items, int32_t n_stages,
                                     int32_t n_chunks, struct lw_partitioning *out,
                                     struct lw_err *err);

/* DeepSpeed deepspeed/runtime/utils.py@edaa7221 partition_uniform: the remainder goes to the first
 * stages; with n_items <= n_stages one item each and the last ones empty. */
enum lw_status lw_partition_deepspeed_uniform(int32_t n_items, int32_t n_stages,
                                              struct lw_partitioning *out, struct lw_err *err);

/* DeepSpeed's partition_balanced: dynamic programming on the difference between the heaviest and
 * the lightest part (not on the bottleneck); with n_items <= n_stages it is
 * lw_partition_deepspeed_uniform. O(n_items^2 n_stages) time, O(n_items n_stages) memory. */
enum lw_status lw_partition_deepspeed_balanced(const int64_t *weights, int32_t n_items,
                                               int32_t n_stages, struct lw_partitioning *out,
                                               struct lw_err *err);

/* The user's own: begins[q] is the first item of part q, begins[0] = 0, strictly ascending, below
 * n_items; n_stages * n_chunks of them. */
enum lw_status lw_partition_explicit(const int32_t *begins, int32_t n_items, int32_t n_stages,
                                     int32_t n_chunks, struct lw_partitioning *out,
                                     struct lw_err *err);

/* Megatron-LM's: an embedding, n_blocks blocks, and what belongs to the last part. Of a stage all
 * chunks are alike; first, last: blocks of these stages, 0 = as many as the others; or embedding
 * and loss count as blocks. LW_EINVAL: what does not divide, or contradicts. */
struct lw_megatron_stages {
    int32_t n_items, n_blocks, n_stages, n_chunks;
    int64_t first, last;
    bool count_embedding, count_loss;
};
enum lw_status lw_partition_megatron(const struct lw_megatron_stages *m,
                                     struct lw_partitioning *out, struct lw_err *err);

/* Heaviest and lightest part's sum of weights, parts of all chunks alike; 0, 0 without parts. */
void lw_partition_extremes(const struct lw_partitioning *p, const int64_t *weights,
                           int64_t *heaviest, int64_t *lightest);

/* What an exact partition has to respect. All arrays borrowed. */
struct lw_stage_problem {
    int32_t n_items, n_stages;
    const int64_t *work;     /* [n_items] forward and backward time of one micro-batch, >= 0 */
    const int64_t *transfer; /* [n_items - 1] time that a boundary after item i adds to the
                              * stage before it and to the stage after it, >= 0; NULL = none */
    int64_t limit_bytes;     /* memory of one stage; 0 = no limit, and then no field below counts */
    const int64_t *static_bytes; /* [n_items] parameters, gradients, optimizer; NULL = 0 */
    const int64_t *kept_bytes;   /* [n_items] activation kept for one micro-batch; NULL = 0 */
    const int32_t *in_flight;    /* [n_stages] micro-batches a stage keeps at once; NULL = 1 each */
    int64_t beside_bytes;        /* what every stage holds whatever its items are, 0 to 2^61 */
    int32_t pinned_first;        /* leading items that must be on the first stage (embedding) */
    int32_t pinned_last;         /* trailing items that must be on the last stage (head) */
};

/* The partition with the smallest bottleneck: the largest over stages of the sum of work plus the
 * transfer at its two ends; no stage empty. Among equals the one whose first cut is latest, then
 * its second, and so on. *bottleneck (may be NULL) receives the value. Without transfer and memory
 * limit each probe is O(n_stages log n_items) on prefix sums, else O(n_stages n_items); probes:
 * log2 of the sum of work. LW_EINVAL: more stages than items, pins that overlap or leave no item
 * for a stage between, or no partition within the limit (the message tells the least limit that has
 * one). */
enum lw_status lw_partition_exact(const struct lw_stage_problem *p, struct lw_partitioning *out,
                                  int64_t *bottleneck, struct lw_err *err);

/* For policies: room for the parts, and an input's bounds. */
enum lw_status lw_partition_alloc(int32_t n_items, int32_t n_stages, int32_t n_chunks,
                                  struct lw_partitioning *out, struct lw_err *err);
enum lw_status lw_partition_check_weights(const int64_t *weights, int32_t n, int64_t *total,
                                          struct lw_err *err);

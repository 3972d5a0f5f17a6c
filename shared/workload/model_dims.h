#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Sizes of a transformer that frameworks' rules ask for; layers 0: not one, or not known. */
struct lw_model_dims {
    int64_t layers, hidden, ffn, vocab, seq;
    int64_t batch; /* samples of one micro-batch */
    bool fp8;      /* its products take 8-bit operands */
    bool fp4;      /* with fp8: 4-bit ones */
    bool fp8_transposes; /* a weight of 8 bits is held in both layouts */
    uint8_t fp8_recipe;  /* enum lw_fp8_recipe, of 8-bit operands */
    bool experts;  /* of a plan: its model has some */
    int64_t n_experts; /* that a token chooses among; 0 = none, or not known */
    int64_t expert_groups, topk_groups; /* of so many of so many groups; 0 = of all */
    bool experts_in_turn; /* a token's are those after the experts of the token before */
    int64_t workspace; /* bytes that libraries hold on a device for their kernels */
    int64_t score_bytes; /* that the last module's loss keeps of all scores of a micro-batch, on one
                          * rank of no group; 0 = not known */
    /* Gradients of activations, in bytes, that the backward of a block of a micro-batch has at its
     * most beside what the block keeps, on one rank of no group: of the block's result, whole on
     * each rank of a tensor group without sequence parallelism, and within its pair of products,
     * which the group divides; 0 = not known */
    int64_t whole_grad_bytes, pair_grad_bytes;
    /* The same where attention's backward begins, of stored scores: gradients of scores, less what
     * the pair kept, which has gone; the group divides them. And what the pair kept whole. */
    int64_t score_grad_bytes, pair_kept_whole;
};

#pragma once

#include "traces/models/models_build.h"

/* The kernels of transformer blocks: each call adds one (or a few) to the module added last, and
 * counts what it keeps for backward. Rows are tokens. The number returned is that of the kernel
 * that has the parameters. */
struct transformer {
    struct traces_builder b;
    int64_t batch, seq, tokens; /* tokens = batch * seq */
    int64_t hidden, heads, kv_heads, ffn;
    int64_t qk_width, v_width; /* of one head: queries and keys, values */
    int64_t window; /* tokens that each attends to; 0 = all */
    bool causal;  /* a token attends to those before it: half of the scores are needed */
    bool padding; /* a token attends to those of its sample that are no padding */
    bool flash;   /* fused attention: scores never reach memory */
    bool dropout; /* of attention scores and after each half of a block */
    bool layer_norms; /* norms are LayerNorm, not RMSNorm */
    bool joined_views; /* queries, keys and values are views of one product's result */
    struct transformer_narrow {
        bool fp8, fp4;
    } linears, grouped; /* operands of the products of linear layers, and of routed experts */
    bool narrow_head;   /* of the head's too: those of linear layers */
    bool wide_operand; /* autocast: the next product reads the f32 result of a norm */
    bool part_again;         /* inside a part that selective recomputation computes again */
    int64_t parts;           /* LW_AGAIN_BIT of those that blocks have */
    bool stops;              /* full recomputation ends before the next product */
    bool gate_again;         /* the next gated pair or activation is one, but for its input */
    int64_t n_linear;        /* products of the module so far */
    int64_t score_grads;     /* bytes of gradients of stored scores in the module's backward */
    int64_t kept_before_pair, whole_before_pair; /* by the module, when its attention ended */
    int64_t attention_flops; /* forward of one micro-batch: lw_counted_scores of the window */
    int64_t score_flops;     /* the same as the kernels do it: stored scores are all computed */
};

/* Reads shape; without kv_heads as many as heads, without ffn four times the hidden size.
 * LW_EINVAL: heads do not divide, or sizes whose flops are beyond counting. */
enum lw_status transformer_init(struct transformer *t, const struct traces_model *m,
                                const struct traces_model_shape *shape,
                                const struct lw_device *device, struct lw_err *err);

struct lw_module *transformer_module(struct transformer *t, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Activation bytes kept for backward without recomputation; `whole`: on every tensor rank. */
void transformer_keep(struct transformer *t, int64_t bytes, bool whole);
/* Bytes of samples, which no rank of a context group divides, as a module's sizes count them. */
int64_t transformer_of_samples(const struct transformer *t, int64_t bytes);

/* From here on products take such operands. */
void transformer_take_narrow(struct transformer *t, struct transformer_narrow narrow);

/* In 4 bits no norm writes operands: a kernel after it casts what it wrote, where the framework
 * casts inputs (lw_kernel_rates). */
void transformer_cast_norm(struct transformer *t);
/* The operand of a block's product that the gradient of its weights needs: of 8 bits beside 8-bit
 * products; none where the weights are frozen. */
void transformer_keep_operand(struct transformer *t, int64_t width, bool whole);

/* What a router reads, in 16 bits, and `shared` experts, whose products keep their cast of it
 * (NVIDIA/Megatron-LM@3bec9aa9, megatron/core/transformer/moe/moe_utils.py, RouterGatingLinear). */
void transformer_keep_routed(struct transformer *t, bool shared);

/* The input, of `width` elements of a token, of the adapter before attention (`first`), or of the
 * one after it, where without dropout it is attention's result, which is kept already. */
void transformer_keep_adapter(struct transformer *t, int64_t width, bool first);

/* What is added from here to the end is a part of the block by that name: selective recomputation
 * that names it keeps nothing of it. What a part takes as its input is kept before it begins.
 * Returns what end_part is given. */
bool transformer_begin_part(struct transformer *t, enum lw_again part);
void transformer_end_part(struct transformer *t, bool before);
bool transformer_begin_norm(struct transformer *t, bool fused);
bool transformer_begin_pair(struct transformer *t, bool fused);
bool transformer_has_part(const struct transformer *t, enum lw_again part);

/* Layer norm (or RMS norm) of all tokens; keeps its input. */
int32_t transformer_norm(struct transformer *t);
/* One more of an input that is kept already. */
int32_t transformer_norm_again(struct transformer *t);
/* A part of a layer with experts, or of one beside it, that a CUDA graph of its own holds: its
 * input goes to the graph's tensor, and so do the gradients of its results: so many of the layer's
 * width, and `more` bytes. NVIDIA/TransformerEngine@70f53666 (v2.9),
 * transformer_engine/pytorch/graph.py, Graphed. */
void transformer_copies(struct transformer *t, int64_t results, int64_t more);
/* autocast: the next product reads the last norm's result once more; a shared cast is kept. */
void transformer_read_norm(struct transformer *t);
/* The same of `width` elements of each token; `whole`: on every tensor rank. */
int32_t transformer_norm_of(struct transformer *t, int64_t width, bool whole);
/* rows x in -> rows x out, `out` split (COLUMN, VOCAB), `in` split (ROW) or every rank whole; the
 * input's keeping is the caller's: products may share it. */
int32_t transformer_linear(struct transformer *t, int64_t rows, int64_t in, int64_t out,
                           enum lw_tp_split split);
/* A column product of all tokens that a framework may compute with the product before it, as one
 * linear layer: of keys and values with that of queries, of up with that of gate. */
int32_t transformer_joined(struct transformer *t, int64_t in, int64_t out);
/* A linear layer of all tokens on every tensor rank. */
int32_t transformer_whole(struct transformer *t, int64_t in, int64_t out);
/* A product in -> out for every copy of a token, of the experts that they go to; halves: out is of
 * two, which a tensor group splits each. */
int32_t transformer_grouped(struct transformer *t, int64_t in, int64_t out, bool halves,
                            enum lw_tp_split split);
/* Scores, softmax, dropout and the sum over values, or one fused kernel; keeps queries, keys,
 * values, their result and what lies between, which is done again with selective recomputation. */
void transformer_attention(struct transformer *t);
/* Its result times a sigmoid of as many elements, which a product made; keeps both. */
void transformer_attention_gate(struct transformer *t);
/* Attention whose keys and values are of another sequence, of `keys` tokens; the products that make
 * them are the caller's. */
void transformer_cross_attention(struct transformer *t, int64_t keys);
/* Dropout, if there is any, and the addition of the residual. */
void transformer_residual(struct transformer *t);
/* `reads` operands of width x tokens in, one out, split over the tensor group: activations. */
void transformer_elementwise(struct transformer *t, int64_t width, int reads);
/* An activation, and the gated pair of one and a product; they keep what backward reads, and the
 * operand of the product after them. */
void transformer_activation(struct transformer *t, int64_t width);
void transformer_gate(struct transformer *t, int64_t width, bool in_products);
/* Of a framework that has these kernels: the sum of a bias's gradient, after a product of `out`
 * elements a token, which every tensor rank has (`whole`) or its part of; copies beside attention;
 * the norms of a block, once more in the backward. */
void transformer_bias_sum(struct transformer *t, int64_t out, bool whole);
void transformer_attention_copies(struct transformer *t);
void transformer_norms_again(struct transformer *t);
/* Rotates `width` elements of a token, of queries and keys. */
void transformer_rotation(struct transformer *t, int64_t width);
/* Of each head of queries and keys the first rope_width elements, which are then copied beside the
 * others; all where it is 0. */
void transformer_rotate_heads(struct transformer *t);
/* Tokens' rows out of a table of `rows` x hidden; the gradient is dense. */
int32_t transformer_lookup(struct transformer *t, int64_t rows);
/* Scores over the vocabulary -> one loss, in f32. */
void transformer_loss(struct transformer *t, int64_t vocab);

/* transformer_linear and transformer_norm with weight and bias: "h.0" and "ln_1." name them
 * h.0.ln_1.weight, h.0.ln_1.bias. */
void transformer_layer(struct transformer *t, int64_t rows, int64_t in, int64_t out,
                       enum lw_tp_split split, const char *block, const char *name);
void transformer_norm_layer(struct transformer *t, const char *block, const char *name);
/* The next product is the block's last: full recomputation ends before it where the framework's
 * checkpoint stops early. */
void transformer_last_product(struct transformer *t);

/* A block of GPT-2's form: norm, attention, norm, two products. names: of the first norm, of
 * queries, keys and values in one, of attention's projection, of the second norm, of the two
 * products. */
void transformer_pre_norm_block(struct transformer *t, const char *block,
                                const char *const names[6]);

/* The second half of a block with experts, and its parameters: router, experts, shared experts,
 * named "BLOCK.gate.weight". NULL: a repetition with the same parameters. */
void transformer_experts(struct transformer *t, const char *block);
/* The experts of a rank divide evenly. LW_EINVAL. */
enum lw_status transformer_experts_check(const struct traces_model_shape *s, struct lw_err *err);

/* Decoders without position table: LLAMA are the sizes that all of them have. */
enum lw_status llama_build(const struct traces_model *m, const struct traces_model_shape *shape,
                           const struct lw_device *device, struct lw_workload *w,
                           struct lw_err *err);
/* Decoders with parallel blocks, by `member`; FALCON_TWO has a norm for each half. */
enum traces_parallel {
    TRACES_GPT_NEOX, TRACES_GPT_J, TRACES_FALCON, TRACES_FALCON_TWO, TRACES_PHI
};
enum lw_status parallel_build(const struct traces_model *m, const struct traces_model_shape *shape,
                              const struct lw_device *device, struct lw_workload *w,
                              struct lw_err *err);
/* Hybrids of attention and state-space layers. */
enum lw_status hybrid_build(const struct traces_model *m, const struct traces_model_shape *shape,
                            const struct lw_device *device, struct lw_workload *w,
                            struct lw_err *err);
/* Whether this block of one has experts. */
bool llama_has_experts(const struct traces_model_shape *s, int64_t block);
#define LLAMA(layers_, hidden_, heads_, kv_heads_, ffn_, seq_, vocab_)                             \
    .batch = 1, .layers = layers_, .hidden = hidden_, .heads = heads_, .kv_heads = kv_heads_,      \
    .ffn = ffn_, .seq = seq_, .vocab = vocab_, .dtype = "bf16", .attention = "flash",              \
    .optimizer = "adam"

/* The tensor group gathers the hidden state before the next kernel, or sums it after the last one:
 * a block does both in each half (Shoeybi et al., arXiv 1909.08053, section 3). */
void transformer_gathers(struct transformer *t);
void transformer_sums(struct transformer *t);
/* Ends a block: with full recomputation it keeps its input alone. */
void transformer_end_block(struct transformer *t);
/* Ends what is not a block: recomputation does not touch it. */
void transformer_end_plain(struct transformer *t, enum lw_tp_split split, int64_t output_bytes);

enum lw_status transformer_finish(struct transformer *t, const struct traces_model *m,
                                  struct lw_workload *w, struct lw_err *err);

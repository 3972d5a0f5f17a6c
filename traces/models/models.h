#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/err.h"
#include "shared/cluster/cluster.h"
#include "shared/device/kernel_time.h"
#include "shared/strategy/strategy.h"
#include "shared/workload/model_request.h"
#include "shared/workload/workload.h"

/* The next bit of an enum of bits, whatever stands before it. */
#define BIT(name)                                                                                  \
    TRACES_##name##_AT, TRACES_##name = 1 << TRACES_##name##_AT,                                   \
                        TRACES_##name##_END = TRACES_##name##_AT

/* What a framework runs as kernels of their own that others fuse: they move more bytes. */
enum traces_unfused {
    BIT(UNFUSED_SUMS),  /* gradients are added to f32 sums */
    BIT(UNFUSED_LOSS),  /* the steps of the loss, each on f32 scores */
    BIT(UNFUSED_BLOCK), /* gradients of the gated pair and of the residual; layout copies */
    BIT(UNFUSED_NORMS), /* the steps of norms and of rotation, in f32 */
    BIT(UNFUSED_GRADS), /* gradients are added to sums of their own type */
    BIT(UNFUSED_EXPERT_BIAS), /* experts' biases and the clamp before their gate (GPT-OSS) */
    BIT(UNFUSED_ROTATION), /* the steps of rotation, in f32; norms are one kernel */
    BIT(NORM_CASTS), /* a norm's input is cast to f32 by a kernel, its gradient back */
    BIT(UNFUSED_MASK), /* stored scores are masked by a kernel before their softmax */
    BIT(ROUTER_F32), /* gradients of a router's scores are f32 products, with casts */
    BIT(GRAPH_COPIES), /* with experts: captured parts copy what they take */
    BIT(PADDED_EXPERTS), /* 8-bit experts: copies of tokens are padded by kernels */
    BIT(HYBRID_EP), /* beside a token that goes once, weights of all experts; and a map */
    BIT(UNFUSED_DISPATCH), /* experts: f32 weighting, fills, sums of gradients */
    BIT(SAMPLES_FIRST), /* hybrids: no copies put samples before tokens for a scan */
    BIT(CAST_SUMS), /* those of bf16 gradients take a copy in f32, f16 has its own */
    BIT(BIAS_SUMS), /* a kernel sums the gradient of a product's bias */
    BIT(RESIDUAL_SUMS), /* a kernel adds the two gradients of a residual */
    BIT(JOINED_GRADIENTS), /* a kernel joins those of queries, keys and values */
    BIT(CONTEXT_COPY), /* attention's result is copied to the order of tokens */
    BIT(LOSS_IN_PLACE), /* the loss reads scores, and writes their gradient over them */
    BIT(LOSS_WRITES_GRADIENT), /* it does so in the forward, and scales it after */
    BIT(NORMS_AGAIN), /* what makes a norm's result runs again in the backward */
    BIT(LOG_SOFTMAX), /* the loss is a kernel each way, on scores of their own type */
    BIT(CONVOLUTION_LAYOUTS), /* convolutions are brought channels last, and back */
    BIT(CHANNEL_NORMS), /* one thread block has a channel of a batch norm */
    BIT(UNFUSED_YARN), /* the steps of a rotation with YaRN's factor (GPT-OSS) */
};

/* What a framework's step does with gradients beside the optimizer's own pass. */
enum traces_step {
    BIT(STEP_ZERO),   /* fills the buffer of all gradients with zeros */
    BIT(STEP_CHECK),  /* reads all of them before the reduction: a norm that shows NaN */
    BIT(STEP_SCALE),  /* multiplies all of them before the reduction */
    BIT(STEP_CLIP),   /* of the elements that it updates: the norm, then a product */
    BIT(STEP_UNSCALE), /* of the elements that it updates: divides by the loss scale */
    BIT(STEP_COPY),  /* copies masters to parameters by a kernel after the optimizer's */
    BIT(STEP_FOREACH), /* Adam is eight kernels over lists of tensors, not one */
};

/* What a framework keeps for the backward, where it differs from a kernel's own inputs. */
enum traces_kept {
    BIT(KEPT_FUSED_GATE),  /* SiLU's result is computed again in the backward */
    BIT(KEPT_GATE_8BIT),   /* the gated pair's input in 8 bits */
    BIT(KEPT_PROJECTIONS), /* selective recomputation keeps a block's input, queries, keys
                                  * and values alone */
    BIT(KEPT_ALTERNATE),   /* llama: selective recomputation keeps the results of every second
                                  * product of a block, of attention, and the block's input */
    BIT(KEPT_CHUNKED_LOSS), /* the loss in pieces: scores of the parameters' type alone */
    BIT(KEPT_LOSS_IN_PLACE), /* the loss's steps change one f32 copy of the scores */
    BIT(KEPT_UNWEIGHTED), /* an expert's activation before and after its weight */
    BIT(KEPT_LAYOUTS), /* a fused kernel's result is kept in its layout and the next's */
    BIT(KEPT_NEEDED), /* with every second product: not the block's result */
    BIT(KEPT_NO_ATTENTION), /* with every second product: not attention's result */
    BIT(KEPT_ATTENTION_8BIT), /* queries, keys, values and attention's result in 8 bits */
    BIT(KEPT_ADAPTER_WHOLE), /* the first adapter's input is kept for all tokens of a
                                      * tensor group */
    BIT(KEPT_ADAPTER_DROPOUT), /* of an adapter's input what dropout makes, and its mask */
    BIT(KEPT_SCATTERED), /* experts' results, until the backward of their sum */
    BIT(KEPT_FUSED_HEAD), /* the head's product is part of a loss in pieces: no scores */
    BIT(KEPT_REPEATED), /* keys and values once for each head of queries */
    BIT(KEPT_16BIT), /* operands of 8-bit products as they were before their cast */
    BIT(KEPT_NORM_RESULT), /* of a norm its result, from which the backward finds its
                                       * input */
    BIT(STOPS_EARLY), /* full recomputation ends with the last tensor that is kept */
    BIT(KEPT_RELU), /* of GPT's activation, ReLU, its result alone */
};

#undef BIT

/* Parametric models: shapes in, a workload out. Times come from a roofline on one device: the
 * larger of flops / (peak * efficiency) and bytes / memory bandwidth, for every kernel in forward,
 * backward by input and backward by weight. See docs/design/models.md. */
struct traces_model_shape { /* 0, NULL = the model's default */
    int64_t batch;          /* samples of one micro-batch */
    int64_t layers;
    int64_t width;          /* mlp */
    int64_t image;          /* resnet, vit: pixels of a side */
    int64_t patch;          /* vit: pixels of a patch's side */
    int64_t hidden, heads;  /* transformers; heads divide hidden */
    int64_t kv_heads;       /* llama: heads of keys and values; they divide heads */
    int64_t ffn;            /* width between the two linear layers of a block */
    int64_t seq, vocab;     /* gpt, bert, llama */
    int64_t decoder_seq;    /* t5: tokens of the decoder; seq: of the encoder */
    int64_t pad_vocab;      /* the vocabulary is padded to whole multiples of this for each rank of
                             * a tensor group; 0: it is not */
    int64_t positions;      /* rows of a position table; 0: gpt: found from seq; llama: none */
    int64_t head_width;     /* llama: of every head; 0 = hidden / heads */
    int64_t window;         /* llama: tokens that blocks attend to; 0 = all */
    int64_t window_every;   /* but for each n-th block, which attends to all; 0 = every second */
    const char *stored_as;  /* config.json: how its weights are quantized; NULL: they are not */
    /* Latent attention (llama): kv_lora > 0. Queries and keys are head_width + rope_width wide. */
    int64_t q_lora, kv_lora, rope_width, v_width;
    /* Experts (llama): gated pairs of width expert_ffn, topk of them for a token; one of shared_ffn
     * for all tokens. The first dense_layers blocks have none, then every expert_every-th has. */
    int64_t experts, topk, expert_ffn, shared_ffn, dense_layers, expert_every;
    int64_t expert_groups, topk_groups; /* a token's experts are of so many of so many equal groups
                                         * (DeepSeek); 0 = of all */
    /* Hybrids: a letter for each layer (M state space, * attention, - two products, E experts) and
     * the sizes of a state-space layer (models_ssm.c). */
    char layer_pattern[LW_MODEL_LAYERS_SIZE];
    int64_t ssm_heads, ssm_head_width, ssm_groups, ssm_state, ssm_chunk;
    /* Blocks whose attention is a gated delta net (models_delta.c): all but each linear_every-th;
     * 0 = none. Heads of values and of keys, and the widths of one. */
    int64_t linear_every, linear_heads, linear_key_heads, linear_width, linear_key_width;
    int64_t expert_latent; /* width of the tokens that go to experts; 0 = hidden */
    const char *text_beside; /* config.json: what is beside its text_config, left out; NULL: none */
    int64_t mtp_stated;     /* config.json: its blocks for further tokens, which are left out */
    int64_t mtp_layers;     /* llama: blocks for further tokens, each with the head again */
    double expert_capacity; /* rows that an expert takes of its even share, padded; 0 = all */
    int64_t expert_ranks;   /* ranks that share the experts and that times are for; 0 = 1 */
    int64_t expert_nodes;   /* that these ranks are on; 0 = 1 */
    int64_t dispatch_once;  /* experts of a token that goes once to each rank; 0 = every copy */
    enum lw_dispatcher dispatcher; /* what sends tokens to experts; AUTO = as the framework */
    bool experts_in_turn;   /* a token's are those after the experts of the token before */
    bool expert_whole;      /* a tensor group shares experts, and does not split each */
    bool expert_folded;     /* expert_whole, and expert_ranks counts tensor ranks too (--etp 1) */
    int64_t tensor;   /* ranks of a tensor group that times are for: the shapes that one rank has */
    struct lw_kernel_rates rates; /* of the framework */
    bool fused_sums;  /* the products of weights' gradients add them to f32 sums */
    unsigned unfused; /* bits of enum traces_unfused */
    unsigned kept;     /* bits of enum traces_kept */
    unsigned step;     /* bits of enum traces_step */
    int64_t grad_item; /* bytes of a reduced gradient; 0 = of a parameter */
    int64_t state_bytes; /* of the optimizer's states of a 16-bit element without a master; 0, and
                          * 12 or more: f32 states and a master */
    int64_t host_bytes; /* of an element that the host updates, what it moves beside the update */
    bool fp8;         /* products of blocks take 8-bit operands, and keep these */
    bool fp4;         /* 4-bit ones, which implies fp8 */
    const char *fp8_recipe; /* word of enum lw_fp8_recipe: how 8-bit operands are scaled; NULL: as
                             * the framework and the device imply */
    const char *narrow_of; /* which products these are: NULL or "all", "linears", "experts",
                            * "head" */
    bool tf32;        /* products of f32 are of TF32 */
    bool tf32_convolutions; /* convolutions of f32 are, where the device has it */
    bool sequence_parallel; /* norms, dropout and residuals are split over the tensor group too */
    int64_t context;        /* ranks that share each sequence: a rank has its part of the tokens */
    int64_t lora; /* rank of adapters on attention's products; the rest is frozen; 0 = none */
    bool plain_ffn;         /* llama: two linear layers and not a gated pair (Nemotron) */
    bool qk_norm;           /* llama: norms of each head's queries and keys (Qwen3) */
    bool qk_norm_wide;      /* llama: of all heads' queries, and of all keys, one norm (OLMo 2) */
    bool norms_after;       /* llama: norms of what each half of a block gives (OLMo 2, Gemma 3) */
    bool no_norms_before;   /* llama: and none of what it takes (OLMo 2) */
    bool joined;            /* llama: queries, keys and values are one parameter, and gate and up
                             * another (Phi-3) */
    bool shared_gate;       /* llama: a token's share of the shared expert's result (Qwen2-MoE) */
    bool linear_split;      /* a delta net has four first products (Qwen3.5), and not two */
    bool attention_gate;    /* llama: attention's result times a sigmoid (Qwen3-Next) */
    bool qkv_bias;          /* llama: biases of queries, keys and values (Qwen2) */
    bool expert_bias;       /* llama: biases of attention, router and experts, and a sink for each
                             * head (GPT-OSS) */
    bool tied;              /* the head's weights are the embedding's: gpt, bert always */
    bool alibi;             /* gpt: scores take the distance of tokens; no position table */
    bool embedding_norm;    /* gpt: a norm after the embedding (BLOOM) */
    bool no_bias;           /* gpt: neither products nor norms have biases (MPT) */
    bool layer_norm;        /* llama: norms have a bias */
    bool biases;            /* llama: products of blocks have biases, experts' too */
    bool dropout;           /* llama: of scores, embedding, and after each half of a block */
    bool fused_loss;        /* the loss's steps are compiled, and none changes its operand */
    bool deterministic;     /* kernels that give the same bits in every run */
    int64_t workspace;      /* bytes that libraries hold on a device for kernels */
    bool workspace_unknown; /* they hold some, but how much on this device is not known */
    int64_t stream_workspace; /* the same, for grouped products of experts */
    bool no_dropout;        /* GPT's: of the framework's configuration */
    bool product_lookup;    /* embeddings are products of one-hot rows and the table */
    bool no_score_dropout;  /* of the framework's attention, where scores are stored */
    bool narrow_params;     /* the framework holds weights of blocks in 8 bits */
    bool fp8_transposes;    /* weights of 8 bits are held in both layouts */
    bool fused_experts;     /* an expert's gate is part of its 8-bit products */
    bool unfused_up_bias;   /* kernels add experts' biases before their gate */
    bool fused_clamp;       /* the clamp before an expert's gate is part of its kernel */
    bool gathers_operands;  /* a tensor group gathers 8-bit inputs as the products read them */
    bool fused_latent;      /* latent attention's rotation makes keys and values, in one kernel */
    bool gather_buffer;     /* what a tensor or expert group gathers has a buffer that stays */
    bool expert_serial;     /* experts are products of their own, one after the other */
    bool expert_gathered;   /* expert ranks gather all tokens, and exchange no copies */
    bool fused_permute;     /* fused kernels order copies of tokens by expert, and back */
    int64_t head_waits;     /* micro-batches whose gradient of the head's weights waits */
    bool mask_in_batch;     /* a batch has a mask of all pairs of positions, a byte each */
    bool autocast;          /* weights, norms and residuals are f32; dtype is of products */
    bool f32_softmax;       /* stored scores: the softmax's result is kept in f32 too */
    int64_t metric_losses;  /* losses that a micro-batch computes beside its own, in f32 */
    int64_t loss_scores; /* bytes of a score that the loss holds at its most; 0: by unfused, kept */
    int64_t score_bytes;    /* found: what the last loss keeps of all scores */
    int64_t whole_grad_bytes, pair_grad_bytes; /* found: of struct lw_model_dims */
    int64_t score_grad_bytes, pair_kept_whole;
    int64_t again_parts;    /* LW_AGAIN_BIT: what selective recomputation repeats; 0 = usual */
    bool fused_norms;       /* a norm before a product is one kernel with it */
    bool fills_padding;     /* stored scores: a mask of a sample's padding is kept */
    const char *dtype;      /* of parameters and activations: f32, bf16, f16 */
    const char *attention;  /* "full": scores are stored; "flash": they are not */
    const char *optimizer;  /* "sgd", "momentum", "adam" */
};

struct traces_model {
    const char *name, *about;
    struct traces_model_shape defaults; /* a size that the model does not have is 0 here */
    enum lw_status (*build)(const struct traces_model *m, const struct traces_model_shape *shape,
                            const struct lw_device *device, struct lw_workload *w,
                            struct lw_err *err);
    const char *source; /* of the shapes */
    int32_t member;     /* which of its family: a resnet's depth, the generation of a gpt; 0 */
};

/* Model k of all, NULL after the last. */
const struct traces_model *traces_model_at(int k);
/* NULL: no such model. Letters (of either case), digits and dots decide ("Qwen2.5-7B"), and a model
 * of the same sizes has its own name too ("llama-3.1-8b"). */
const struct traces_model *traces_model_named(const char *name);

/* The field of `size` bytes (at most 8) at offset `at` is not 0: an option or a file gave it. */
bool traces_shape_is_given(const struct traces_model_shape *s, size_t at, size_t size);
/* LW_EINVAL: no such model, a size that it does not have or that is out of range, a device without
 * the figures of a roofline. */
enum lw_status traces_model_build(const char *name, const struct traces_model_shape *shape,
                                  const struct lw_device *device, struct lw_workload *w,
                                  struct lw_err *err);

/* The message for a name that no model has; returns LW_EINVAL. */
enum lw_status traces_model_unknown(const char *name, struct lw_err *err);

/* For a workload of sizes alone: a device without a kind, of which no time is kept. */
struct lw_device traces_no_device(void);

/* The tables of the families; each ends with name == NULL. */
extern const struct traces_model traces_models_mlp[], traces_models_resnet[];
extern const struct traces_model traces_models_gpt[], traces_models_llama[];
extern const struct traces_model traces_models_experts[], traces_models_hybrid[];
extern const struct traces_model traces_models_bert[], traces_models_vit[];
extern const struct traces_model traces_models_parallel[], traces_models_megatron_bert[];
extern const struct traces_model traces_models_t5[];

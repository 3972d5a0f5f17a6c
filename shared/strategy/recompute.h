#pragma once

#include <stdint.h>

/* Which activations a forward drops and the backward computes again. */
enum lw_recompute { LW_RECOMPUTE_NONE, LW_RECOMPUTE_SELECTIVE, LW_RECOMPUTE_FULL, LW_N_RECOMPUTE };

/* Full recomputation of some modules of a part of the model, with N of --recompute-layers. */
enum lw_recompute_method {
    LW_RECOMPUTE_BLOCK,   /* of the first N modules; 0 = of all */
    LW_RECOMPUTE_UNIFORM, /* of groups of N modules, of which the first one's input is kept */
    LW_RECOMPUTE_EVERY,   /* of each N-th module */
    LW_N_RECOMPUTE_METHODS,
};

/* What selective recomputation computes again, where the user says so: parts of a block by
 * Megatron-LM's names (NVIDIA/Megatron-LM@003b4ce2, megatron/core/transformer/
 * transformer_config.py, recompute_modules), and the dense pair's activation, which JAX's policies
 * of products drop. Of layer norms, activations and the projections from latent vectors the result
 * is dropped, of the others all between their input and their result. Rows: bit, word. */
#define LW_RECOMPUTE_PARTS(row)                    \
    row(LW_AGAIN_CORE_ATTN, "core_attn")           \
    row(LW_AGAIN_LAYERNORM, "layernorm")           \
    row(LW_AGAIN_MLA_UP_PROJ, "mla_up_proj")       \
    row(LW_AGAIN_MLP, "mlp")                       \
    row(LW_AGAIN_MOE, "moe")                       \
    row(LW_AGAIN_MOE_ACT, "moe_act")               \
    row(LW_AGAIN_SHARED_EXPERTS, "shared_experts") \
    row(LW_AGAIN_MLP_ACT, "mlp_act")

#define LW_AGAIN_ID(id, word) id,
enum lw_again { LW_RECOMPUTE_PARTS(LW_AGAIN_ID) LW_N_AGAIN };
#undef LW_AGAIN_ID
enum { LW_AGAIN_TEXT = 80 }; /* bytes of the text of all parts, and more */
const char *lw_again_text(int64_t parts, char buf[LW_AGAIN_TEXT]); /* "mlp,moe_act"; strategy.c */
#define LW_AGAIN_BIT(part) (INT64_C(1) << (part))

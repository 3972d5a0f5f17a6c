#pragma once

#include "traces/models/models_transformer.h"

/* A transformer as the files that add its kernels see it: models_transformer.c the layers of
 * blocks, models_attention.c attention, models_loss.c the loss. */

/* Kept for backward under that kind of recomputation alone. */
void transformer_keep_in(struct transformer *t, enum lw_recompute mode, int64_t bytes,
                         bool whole);

/* Ranks that a plan divides by what is whole on each. */
static inline int64_t ranks_of_group(const struct transformer *t)
{
    return t->b.shape.sequence_parallel && t->b.shape.tensor > 1 ? t->b.shape.tensor : 1;
}

static inline bool has_kept(const struct transformer *t, enum traces_kept what)
{
    return (t->b.shape.kept & what) != 0;
}

static inline bool is_unfused(const struct transformer *t, unsigned what)
{
    return (t->b.shape.unfused & what) != 0;
}

/* The rule of the framework, where nothing is named. */
static inline bool is_usual(const struct transformer *t)
{
    return t->b.shape.again_parts == 0;
}

/* Stored scores and what is made of them: computed again unless other parts are named. */
static inline bool core_again(const struct transformer *t)
{
    return is_usual(t) || transformer_has_part(t, LW_AGAIN_CORE_ATTN);
}

static inline bool keeps_8bit(const struct transformer *t)
{
    return t->b.shape.fp8 && !has_kept(t, TRACES_KEPT_16BIT);
}

/* Elements of all heads of all tokens. */
static inline int64_t queries_of(const struct transformer *t)
{
    return t->tokens * t->heads * t->qk_width;
}

static inline int64_t keys_of(const struct transformer *t)
{
    return t->tokens * t->kv_heads * t->qk_width;
}

static inline int64_t values_of(const struct transformer *t)
{
    return t->tokens * t->kv_heads * t->v_width;
}

/* What attention gives: a value's width for each head. */
static inline int64_t results(const struct transformer *t)
{
    return t->tokens * t->heads * t->v_width;
}

/* Ring attention (Liu, Zaharia, Abbeel, arXiv 2310.01889, section 3): the attention of a module in
 * as many steps as its context group has ranks. In a step a rank attends to the block of keys and
 * values that it holds, and a block travels on beside it. docs/design/lower_sequence.md.
 *
 * Messages as of NVIDIA/TransformerEngine, transformer_engine/pytorch/attention/
 * dot_product_attention/context_parallel.py (commit 9c61cd7e), AttnFuncWithCPAndKVP2P: N - 1
 * messages of a block to the next rank in the forward, one beside each step but the last. The
 * backward goes the other way round and begins with the block that the forward has left: N
 * messages to the rank before, keys and values beside each step but the last, their gradients
 * beside each step but the first, both in one message. So a block's gradients reach its owner with
 * the last message.
 *
 * Steps are equal: every rank has an early and a late piece of each sequence. */
#include "shared/lower_part/lower_part.h"

struct lw_ring lw_ring_of(const struct lw_strategy *s, const struct lw_module *m)
{
    if (s->cp_comm != LW_CP_P2P || s->cp == 1 || m->kv_bytes == 0)
        return (struct lw_ring){0};
    return (struct lw_ring){
        .n_steps = (int32_t)s->cp,
        .start = m->attention_start_ps,
        .length = m->attention_ps,
        .backward_start = m->attention_backward_start_ps,
        .backward_length = m->attention_backward_ps,
        .block_bytes = m->kv_bytes / s->cp + (m->kv_bytes % s->cp != 0),
    };
}

static lw_ps end_of(lw_ps start, lw_ps length, int32_t k, int32_t n)
{
    return start + (lw_ps)((__int128)length * k / n);
}

lw_ps lw_ring_end(const struct lw_ring *r, int32_t k)
{
    return end_of(r->start, r->length, k, r->n_steps);
}

lw_ps lw_ring_backward_end(const struct lw_ring *r, int32_t k)
{
    return end_of(r->backward_start, r->backward_length, k, r->n_steps);
}

int32_t lw_ring_backward_step(const struct lw_ring *r, lw_ps at)
{
    for (int32_t k = 0; k < r->n_steps; k++)
        if (at == lw_ring_backward_end(r, k))
            return k;
    return -1;
}

int32_t lw_ring_messages(const struct lw_ring *r, bool backward)
{
    return backward ? r->n_steps : r->n_steps - 1;
}

int64_t lw_ring_bytes(const struct lw_ring *r, bool backward, int32_t k)
{
    bool both = backward && k > 0 && k + 1 < r->n_steps;

    return both ? 2 * r->block_bytes : r->block_bytes;
}

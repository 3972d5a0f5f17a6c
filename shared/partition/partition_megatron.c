/* Megatron-LM's stages (NVIDIA/Megatron-LM@d98e8a64, get_num_layers_to_build in
 * megatron/core/transformer/transformer_block.py): equal numbers of blocks, the embedding before
 * the first and the head after the last. The first and the last stage may have numbers of their
 * own; or the embedding, the loss or both count as a block. */
#include "shared/partition/partition.h"

#include <inttypes.h>

/* Blocks of each part of a stage; -1: err says why not. */
static int64_t blocks_of(const struct lw_megatron_stages *m, int64_t of_stage, const char *which,
                         struct lw_err *err)
{
    if (of_stage % m->n_chunks == 0)
        return of_stage / m->n_chunks;
    lw_fail(err, LW_EINVAL,
            "--partition megatron: %" PRId64 " blocks of %s do not divide into --chunks %d: change "
            "the layers, --chunks, --first-layers or --last-layers",
            of_stage, which, m->n_chunks);
    return -1;
}

/* Blocks of a stage between the first and the last. */
static enum lw_status middle_of(const struct lw_megatron_stages *m, int64_t *middle,
                                struct lw_err *err)
{
    int64_t left = m->n_blocks + m->count_embedding + m->count_loss - m->first - m->last;
    int64_t stages = m->n_stages - (m->first > 0) - (m->last > 0);

    if (left < 0 || (stages == 0 && left > 0))
        return lw_fail(err, LW_EINVAL,
                       "--partition megatron: --first-layers %" PRId64 " and --last-layers %" PRId64
                       " do not add up to the %d layers on %d stages",
                       m->first, m->last, m->n_blocks, m->n_stages);
    if (stages > 0 && left % stages != 0)
        return lw_fail(err, LW_EINVAL,
                       "--partition megatron: %" PRId64 " layers do not divide into %" PRId64
                       " stages: give --first-layers or --last-layers, or count the ends as layers "
                       "(--count-embedding on, --count-loss on)",
                       left, stages);
    *middle = stages > 0 ? left / stages : 0;
    return LW_OK;
}

enum lw_status lw_partition_megatron(const struct lw_megatron_stages *m,
                                     struct lw_partitioning *out, struct lw_err *err)
{
    int32_t n_parts = m->n_stages * m->n_chunks, at = 0;
    struct lw_arena room = {0};
    int64_t middle = 0;
    int32_t *begins;

    if ((m->first > 0 || m->last > 0) && (m->count_embedding || m->count_loss))
        return lw_fail(err, LW_EINVAL,
                       "--partition megatron: --first-layers and --last-layers contradict "
                       "--count-embedding and --count-loss: give only one kind");
    LW_TRY(middle_of(m, &middle, err));
    begins = lw_arena_alloc(&room, n_parts, sizeof *begins);
    if (!begins)
        return lw_fail_nomem(err);
    for (int32_t q = 0; q < n_parts; q++) {
        bool first = q % m->n_stages == 0, last = q % m->n_stages == m->n_stages - 1;
        int64_t n = blocks_of(m, first && m->first ? m->first : last && m->last ? m->last : middle,
                              first ? "the first stage" : last ? "the last stage" : "a stage", err);
        begins[q] = at;
        if (n < 0) {
            lw_arena_free(&room);
            return LW_EINVAL;
        }
        at += (int32_t)n + (q == 0) - (q == 0 && m->count_embedding);
    }
    enum lw_status s =
        lw_partition_explicit(begins, m->n_items, m->n_stages, m->n_chunks, out, err);
    lw_arena_free(&room);
    return s;
}

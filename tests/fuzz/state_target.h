/* Arbitrary bytes as a saved state: as they are, and with the size and the checksum put right,
 * without which little beyond them is reached. What is read can be made again, byte for byte. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "exec/tensors/state.h"
#include "shared/base/arena.h"
#include "shared/base/hash.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void put_right(unsigned char *bytes, size_t size)
{
    char hash[33];

    if (size < LW_EXEC_STATE_HEAD + 32)
        return;
    for (int i = 0; i < 8; i++)
        bytes[16 + i] = (unsigned char)((uint64_t)size >> 8 * i);
    lw_hash_of(bytes, size - 32, hash);
    memcpy(bytes + size - 32, hash, 32);
}

/* Element by element, so that no size is believed. */
static void copy_values(const struct lw_exec_state *from, struct lw_exec_state *to)
{
    for (int32_t i = 0; i < from->n_params; i++) {
        const struct lw_exec_state_param *p = &from->params[i];
        int64_t pieces = (int64_t)p->n_copies * from->n_tensor;
        for (int64_t piece = 0; p->numel > 0 && piece < pieces; piece++)
            for (int32_t k = 0; k < 1 + exec_optimizer_states(from->optimizer); k++)
                for (int64_t e = 0; e < p->numel; e++) {
                    struct lw_exec_state_range at = {i, (int32_t)piece, k, e, 1};
                    float value;
                    lw_exec_state_get(from, &at, &value);
                    lw_exec_state_put(to, &at, &value);
                }
    }
}

static void make_again(const struct lw_exec_state *s)
{
    struct lw_exec_state again = {
        .optimizer = s->optimizer, .n_tensor = s->n_tensor, .n_params = s->n_params};
    struct lw_err err;

    if (lw_exec_state_make(&again, s->params, &err) != LW_OK)
        abort();
    again.n_steps = s->n_steps;
    copy_values(s, &again);
    if (lw_exec_state_seal(&again, &err) != LW_OK || again.n_bytes != s->n_bytes ||
        memcmp(again.bytes, s->bytes, (size_t)s->n_bytes) != 0)
        abort();
    lw_exec_state_free(&again);
}

static void read_state(const uint8_t *data, size_t size, int right)
{
    unsigned char *bytes = lw_alloc(size ? size : 1);
    struct lw_exec_state s;
    struct lw_err err;

    if (!bytes)
        abort();
    if (size > 0)
        memcpy(bytes, data, size);
    if (right)
        put_right(bytes, size);
    if (lw_exec_state_parse("fuzz", bytes, (int64_t)size, &s, &err) == LW_OK) {
        make_again(&s);
        lw_exec_state_free(&s);
    }
    if (lw_alloc_live() != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    read_state(data, size, 0);
    read_state(data, size, 1);
    return 0;
}

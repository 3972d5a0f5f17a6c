/* The optimizer step and the initial weights. One multiplication and one subtraction per element,
 * compiled without contraction (-ffp-contract=off), so that vector and scalar loops round alike. */
#include "exec/optimizer.h"

#include "exec/element.h"

enum { SOME = 256, BLOCK = 32 }; /* BLOCK: a fixed length that gcc vectorises at -O2 */

static void plain_f32(float *restrict w, const float *restrict g, int64_t n, float rate)
{
    int64_t i = 0;

    for (; i + BLOCK <= n; i += BLOCK)
        for (int j = 0; j < BLOCK; j++)
            w[i + j] -= rate * g[i + j];
    for (; i < n; i++)
        w[i] -= rate * g[i];
}

static void momentum_f32(float *restrict w, float *restrict state, const float *restrict g,
                         int64_t n, float rate, float momentum)
{
    for (int64_t i = 0; i < n; i++) {
        state[i] = momentum * state[i] + g[i];
        w[i] -= rate * state[i];
    }
}

static void step_f32(float *w, float *state, const float *g, int64_t n, float rate, float momentum)
{
    if (state)
        momentum_f32(w, state, g, n, rate, momentum);
    else
        plain_f32(w, g, n, rate);
}

void exec_sgd(float *w, float *state, enum lw_dtype t, const void *g, int64_t n, int32_t divisor,
              float rate, float momentum)
{
    float part[SOME];

    if (t == LW_F32 && divisor == 1) {
        step_f32(w, state, g, n, rate, momentum);
        return;
    }
    for (int64_t at = 0; at < n; at += SOME) {
        int64_t k = n - at < SOME ? n - at : SOME;
        for (int64_t i = 0; i < k; i++)
            part[i] = (float)(exec_get(t, g, at + i) / divisor);
        step_f32(w + at, state ? state + at : 0, part, k, rate, momentum);
    }
}

void exec_initial_weights(float *w, int32_t param, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        w[i] = (float)((i * 37 + param * 101) % 2048 - 1024) / 1024.0f;
}

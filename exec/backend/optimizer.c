/* Optimizer steps and the initial weights, compiled without contraction (-ffp-contract=off), so
 * that vector and scalar loops round alike. The figures of a step are computed once, in double,
 * by multiplication alone: no library decides their last bit. */
#include "exec/backend/optimizer.h"

enum { SOME = 256, BLOCK = 32 }; /* BLOCK: a fixed length that gcc vectorises at -O2 */

static const struct {
    const char *name;
    int32_t n_states;
    struct exec_optimizer usual;
} kinds[EXEC_N_OPTIMIZERS] = {
    [EXEC_SGD] = {"sgd", 0, {EXEC_SGD, 0.0009765625f, 0, 0, 0}},
    [EXEC_MOMENTUM] = {"momentum", 1, {EXEC_MOMENTUM, 0.0009765625f, 0.9f, 0, 0}},
    [EXEC_ADAM] = {"adam", 2, {EXEC_ADAM, 0.001f, 0.9f, 0.999f, 1e-8f}},
};

struct exec_optimizer exec_optimizer_of(enum exec_optimizer_kind kind)
{
    return kinds[kind].usual;
}

const char *exec_optimizer_name(enum exec_optimizer_kind kind)
{
    return kinds[kind].name;
}

int32_t exec_optimizer_states(enum exec_optimizer_kind kind)
{
    return kinds[kind].n_states;
}

static enum lw_status parse(const char *name, enum exec_optimizer_kind *kind,
                            struct lw_err *err)
{
    for (int k = 0; k < EXEC_N_OPTIMIZERS; k++)
        if (strcmp(name, kinds[k].name) == 0) {
            *kind = (enum exec_optimizer_kind)k;
            return LW_OK;
        }
    return lw_fail(err, LW_EINVAL, "--optimizer: unknown value '%s'; expected sgd, momentum or "
                                   "adam", name);
}

static double power(double x, int64_t n)
{
    double p = 1;

    for (; n > 0; n >>= 1, x *= x)
        if (n & 1)
            p *= x;
    return p;
}

struct exec_update exec_update_of(const struct exec_optimizer *o, int64_t step)
{
    struct exec_update u = {.kind = o->kind, .rate = o->rate, .momentum = o->momentum,
                            .beta2 = o->beta2, .epsilon = o->epsilon};

    if (o->kind != EXEC_ADAM)
        return u;
    u.rest1 = (float)(1 - (double)o->momentum);
    u.rest2 = (float)(1 - (double)o->beta2);
    u.rate = (float)(o->rate / (1 - power(o->momentum, step + 1)));
    u.root = (float)sqrt(1 - power(o->beta2, step + 1));
    return u;
}

static void plain_f32(float *restrict w, const float *restrict g, int64_t n, float rate)
{
    int64_t i = 0;

    for (; i + BLOCK <= n; i += BLOCK)
        for (int j = 0; j < BLOCK; j++)
            w[i + j] -= rate * g[i + j];
    for (; i < n; i++)
        w[i] -= rate * g[i];
}

static void update_f32(const struct exec_update *u, float *w, float *m, float *v, const float *g,
                       int64_t n)
{
    if (u->kind == EXEC_SGD)
        plain_f32(w, g, n, u->rate);
    else if (u->kind == EXEC_MOMENTUM)
        for (int64_t i = 0; i < n; i++)
            exec_update_one(u, &w[i], &m[i], NULL, g[i]);
    else
        for (int64_t i = 0; i < n; i++)
            exec_update_one(u, &w[i], &m[i], &v[i], g[i]);
}

static float *at(float *list, int64_t i)
{
    return list ? list + i : NULL;
}

void exec_update_run(const struct exec_update *u, float *w, float *m, float *v, enum lw_dtype t,
                     const void *g, int64_t n, int32_t divisor)
{
    float part[SOME];

    if (t == LW_F32 && divisor == 1) {
        update_f32(u, w, m, v, g, n);
        return;
    }
    for (int64_t k = 0; k < n; k += SOME) {
        int64_t some = n - k < SOME ? n - k : SOME;
        for (int64_t i = 0; i < some; i++)
            part[i] = (float)(exec_get(t, g, k + i) / divisor);
        update_f32(u, w + k, at(m, k), at(v, k), part, some);
    }
}

void exec_initial_weights(float *w, int32_t param, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        w[i] = i < EXEC_WEIGHTS_REPEAT ? (float)((i * 37 + param * 101) % 2048 - 1024) / 1024.0f
                                       : w[i - EXEC_WEIGHTS_REPEAT];
}

enum lw_status exec_optimizer_choose(const char *name, double momentum, struct exec_optimizer *out,
                                     struct lw_err *err)
{
    enum exec_optimizer_kind kind = momentum >= 0 ? EXEC_MOMENTUM : EXEC_SGD;

    if (name)
        LW_TRY(parse(name, &kind, err));
    if (kind == EXEC_SGD && momentum > 0)
        return lw_fail(err, LW_EUSAGE, "--momentum %g: --optimizer sgd has no momentum; choose "
                                       "--optimizer momentum or adam", momentum);
    *out = exec_optimizer_of(kind);
    if (kind == EXEC_ADAM && momentum >= 0 && (float)momentum >= 1)
        return lw_fail(err, LW_EUSAGE,
                       "--momentum %.12g: beta1 of adam must be below 1 as an f32 (its steps "
                       "are divided by 1 - beta1)",
                       momentum);
    if (momentum >= 0)
        out->momentum = (float)momentum;
    return LW_OK;
}

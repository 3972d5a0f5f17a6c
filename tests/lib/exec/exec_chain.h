#pragma once

/* For tests of exec: a chain of equal modules with a parameter each, plans of it by the words of a
 * strategy, and how they are run. Parameter i is w<i>, of 10 + i elements, f32; every module passes
 * on 20 elements. Failures stop the test. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "tests/lib/exec/exec_words.h"
#include "tests/lib/exec/plain_module.h"

enum { CHAIN_MAX = 64 };

struct chain {
    struct lw_module modules[CHAIN_MAX];
    struct lw_param params[CHAIN_MAX];
    int32_t order[CHAIN_MAX];
    char names[CHAIN_MAX][16];
    struct lw_workload w;
};

static inline void chain_init(struct chain *c, int32_t n)
{
    memset(c, 0, sizeof *c);
    for (int32_t i = 0; i < n; i++) {
        c->modules[i] = plain_module();
        snprintf(c->names[i], sizeof c->names[i], "w%d", i);
        c->params[i] = (struct lw_param){.name = c->names[i],
                                         .numel = 10 + i,
                                         .dtype = LW_F32,
                                         .module = i,
                                         .tied = -1,
                                         .trainable = true,
                                         .used = true,
                                         .ready_ps = 2000 * (n - i)};
        c->order[i] = n - 1 - i;
    }
    c->w = (struct lw_workload){.name = "chain",
                                .n_modules = n,
                                .n_params = n,
                                .n_ready = n,
                                .modules = c->modules,
                                .params = c->params,
                                .ready_order = c->order,
                                .batch = 1,
                                .optimizer_ps = 1000};
    c->w.from.rank = c->w.from.step = -1;
    c->w.recorded.step_ps = c->w.recorded.step_spread_ps = -1;
}

/* Parameter i gets no gradient of its own: frozen, unused or tied, as the caller says. */
static inline void chain_without(struct chain *c, int32_t i)
{
    int32_t n = 0;

    for (int32_t k = 0; k < c->w.n_ready; k++)
        if (c->order[k] != i)
            c->order[n++] = c->order[k];
    c->w.n_ready = n;
    c->params[i].ready_ps = -1;
}

/* Tensor parallelism splits every module: 12 elements each, and a sum of 40 bytes forward after
 * every second one, backward after the others. */
static inline void chain_split(struct chain *c)
{
    for (int i = 0; i < c->w.n_modules; i++) {
        c->modules[i].tp_split = i % 2 ? LW_TP_ROW : LW_TP_COLUMN;
        c->params[i].tp_split = LW_TP_COLUMN;
        c->params[i].numel = 12;
        c->modules[i].tp_calls = 1;
        c->modules[i].tp_forward_bytes = i % 2 ? 40 : 0;
        c->modules[i].tp_backward_bytes = i % 2 ? 0 : 40;
    }
}

static inline struct lw_plan build(const struct chain *c, const char *words)
{
    return plan_of_words(&c->w, words);
}

static inline struct lw_exec_options options(void)
{
    struct lw_exec_options o = lw_exec_options_default();

    o.compute = EXEC_COMPUTE_SLEEP;
    o.n_steps = 2;
    o.n_warmup = 1;
    o.timeout_ns = INT64_C(5000000000);
    return o;
}

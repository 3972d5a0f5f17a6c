#pragma once

#include <stdio.h>
#include <string.h>

#include "shared/plan/op.h"
#include "shared/plan/plan.h"
#include "shared/workload/buffer.h"
#include "shared/workload/workload.h"
#include "tests/lib/plans/find_op.h"

/* A workload small enough to follow by hand, the one of docs/design/lower.md: modules a, b, c
 * with backward windows c [0, 6), b [6, 10), a [10, 12) us and four f32 gradients ready at
 *
 *     c.weight 300 elements  5 us      b.bias   2 elements  8 us
 *     b.weight 200 elements 10 us      a.weight 100 elements 12 us
 */
struct tiny {
    struct lw_module modules[3];
    struct lw_param params[4];
    struct lw_buffer buffers[2];
    int32_t order[4];
    struct lw_workload w;
};

enum { A_WEIGHT, B_WEIGHT, B_BIAS, C_WEIGHT };

static inline struct lw_param tiny_param(const char *name, int64_t numel, int32_t module, lw_ps us)
{
    return (struct lw_param){.name = name, .numel = numel, .dtype = LW_F32, .module = module,
                             .tied = -1, .trainable = true, .used = true,
                             .ready_ps = us * LW_PS_PER_US};
}

static inline struct lw_module tiny_module(const char *name, lw_ps us)
{
    return (struct lw_module){.name = name, .forward_ps = us * LW_PS_PER_US,
                              .backward_input_ps = us * LW_PS_PER_US,
                              .backward_weight_ps = us * LW_PS_PER_US, .forward_flops = 600,
                              .forward_bytes = -1, .output_bytes = -1,
                              .kept_bytes = {-1, -1, -1}};
}

static inline void tiny_init(struct tiny *t)
{
    static const int32_t order[] = {C_WEIGHT, B_BIAS, B_WEIGHT, A_WEIGHT};

    memset(t, 0, sizeof *t);
    t->modules[0] = tiny_module("a", 1);
    t->modules[1] = tiny_module("b", 2);
    t->modules[2] = tiny_module("c", 3);
    t->params[A_WEIGHT] = tiny_param("a.weight", 100, 0, 12);
    t->params[B_WEIGHT] = tiny_param("b.weight", 200, 1, 10);
    t->params[B_BIAS] = tiny_param("b.bias", 2, 1, 8);
    t->params[C_WEIGHT] = tiny_param("c.weight", 300, 2, 5);
    memcpy(t->order, order, sizeof order);
    t->w = (struct lw_workload){.name = "tiny", .n_modules = 3, .n_params = 4, .n_ready = 4,
                                .modules = t->modules, .params = t->params,
                                .buffers = t->buffers, .ready_order = t->order, .batch = 1,
                                .optimizer_ps = 7 * LW_PS_PER_US};
    t->w.from.rank = t->w.from.step = -1;
    t->w.recorded.step_ps = t->w.recorded.step_spread_ps = -1;
}

/* The same of bf16 and updated by Adam; bytes of its states of an element, 0: f32 and a master. */
static inline void tiny_init_bf16(struct tiny *t, int64_t state_bytes)
{
    tiny_init(t);
    t->w.optimizer = LW_OPTIMIZER_ADAM;
    t->w.state_bytes = state_bytes;
    for (int32_t i = 0; i < t->w.n_params; i++)
        t->params[i].dtype = LW_BF16;
}

/* The ops of a program, one word each: letter, module (F, B) or bucket, bytes after '/', and for
 * compute its length in us after ':'. */
static inline const char *tiny_ops(const struct lw_plan *p, const char *variant, char *text,
                                   size_t room)
{
    struct lw_program g = lw_plan_program(p, find_variant(p, variant), 0);
    size_t at = 0;

    text[0] = 0;
    for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++) {
        const struct lw_op *o = &p->ops[i];
        at += (size_t)snprintf(text + at, room - at, "%s%s", i > g.first_op ? " " : "",
                               lw_op_letter(o->kind));
        if (o->module >= 0)
            at += (size_t)snprintf(text + at, room - at, "%d", o->module);
        if (o->bucket >= 0)
            at += (size_t)snprintf(text + at, room - at, "%d", o->bucket);
        if (o->bytes > 0)
            at += (size_t)snprintf(text + at, room - at, "/%lld", (long long)o->bytes);
        if (lw_plan_work_ps(p, o) > 0)
            at += (size_t)snprintf(text + at, room - at, ":%lld",
                                   (long long)(lw_plan_work_ps(p, o) / LW_PS_PER_US));
    }
    return text;
}

#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/err.h"

struct lw_plan;
struct lw_workload;

/* What one optimizer step in the plan's steady state yields, of the whole job, on any machine.
 * docs/glossary.md defines the figures. 0: not known. */
struct lw_step_yield {
    int64_t samples, tokens;
    double model_flops, hardware_flops;
    uint8_t dtype; /* enum lw_dtype that most products run in, */
    bool fp8;      /* unless they take 8-bit operands */
    bool fp4;      /* with fp8: 4-bit ones */
    bool tf32;     /* with a dtype of f32: in TF32 */
};

const char *lw_yield_type(const struct lw_step_yield *y); /* "bf16", "tf32", "fp8", "nvfp4", ... */

/* Fills p->yield. */
enum lw_status lw_plan_count_yield(struct lw_plan *p, const struct lw_workload *w,
                                   struct lw_err *err);

/* Samples of such a step, from those of a micro-batch. */
int64_t lw_plan_samples(const struct lw_plan *p, int64_t batch);

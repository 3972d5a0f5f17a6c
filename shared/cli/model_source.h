#pragma once

#include <stdint.h>

#include "shared/base/err.h"
#include "shared/cli/cli.h"
#include "shared/strategy/strategy.h"
#include "shared/workload/model_request.h"
#include "shared/workload/workload.h"

/* The model's part of a command line: its options, and what a batch of the whole job gives. */

enum { LW_MODEL_SOURCE_OPTIONS = 72 };

/* The options of a model, each setting its field of `r`; their number. The table has room for
 * LW_MODEL_SOURCE_OPTIONS, and points at `words`. */
int lw_model_options(struct lw_model_request *r, struct lw_opt_call *words, struct lw_opt *table);

/* Before a model is made: the samples of a micro-batch, where --global-batch and --micro-batches
 * say them and --batch does not. global_batch 0: not given, nothing changes. */
enum lw_status lw_global_batch_samples(int64_t global_batch, const struct lw_strategy *s,
                                       struct lw_model_request *r, struct lw_err *err);
/* After: the micro-batches of a step, so that a step has global_batch samples. LW_EINVAL: they do
 * not divide it, or contradict --micro-batches. */
enum lw_status lw_global_batch_divide(int64_t global_batch, const struct lw_workload *w,
                                      struct lw_strategy *s, struct lw_err *err);

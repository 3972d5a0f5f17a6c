#pragma once

#include "traces/models/models_transformer.h"

/* State-space layers (Mamba-2). See docs/design/models_hybrid.md. */

enum { TRACES_SSM_CONV = 4 }; /* tokens that the causal convolution sees */

/* Elements of a token: of all heads, and of the first product's result. */
int64_t transformer_ssm_inner(const struct traces_model_shape *s);
int64_t transformer_ssm_columns(const struct traces_model_shape *s);

/* Heads, groups, chunks and the groups of ranks fit together. LW_EINVAL; LW_ENOTSUP: a context
 * group. */
enum lw_status transformer_ssm_check(const struct traces_model_shape *s, struct lw_err *err);

/* One kernel of a scan: FLOPs and bytes of a token's operands, forward and backward, and launches.
 * What it takes of these (models_ssm.c), for notes: */
#define TRACES_SCAN_TAKES                                                                    \
    "1.187 times the memory traffic of each kernel's operands, and beside it 299 FLOPs in " \
    "a clock of an SM, as measured on a GB10"
int32_t transformer_scan(struct transformer *t, const int64_t flops[2], const int64_t bytes[2],
                         int32_t n_forward, int32_t n_backward);

/* The mixer after its norm: kernels, what is kept, and its parameters, "LAYER.mixer.D", in the
 * order of NemotronHMamba2Mixer. Not `registers`: a repetition with the same parameters. */
void transformer_ssm(struct transformer *t, const char *layer, bool registers);

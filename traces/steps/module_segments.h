#pragma once

#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "traces/steps/step_phases.h"
#include "traces/trace/trace.h"

/* The modules of one step: the forward cut into segments in time order, and what each node of the
 * backward and each gradient belongs to. */

enum traces_cut {
    TRACES_CUT_RANGES,    /* one segment per call of a module with an lw:module:NAME range */
    TRACES_CUT_OPS,       /* one per forward op whose backward produced gradients */
    TRACES_CUT_GRADIENTS, /* one per gradient; the forward cannot be cut */
};

struct traces_segments {
    enum traces_cut cut;
    int32_t n;
    const char **name;          /* [n] text of the trace, "" where there is none */
    int64_t *start_ns;          /* [n] host; unset for TRACES_CUT_GRADIENTS */
    int32_t *of_node;           /* [step n_nodes] */
    int32_t *of_gradient;       /* [step n_gradients] */
};

/* Arrays live in the arena. LW_EFORMAT: the step has no gradient; any other can be cut somehow. */
enum lw_status traces_segments_find(const struct lw_trace *t, const struct lw_step *s,
                                    struct lw_arena *arena, struct traces_segments *out,
                                    struct lw_err *err);

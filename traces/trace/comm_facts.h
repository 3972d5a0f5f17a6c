#pragma once

#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "shared/plan/op.h"
#include "traces/trace/kernel_class.h"
#include "traces/trace/trace.h"

/* What a trace records of a collective: from its kernel, or from the host's record around its
 * launch. */
struct traces_comm_index {
    int64_t n;
    int64_t *noted; /* host rows with a detail, in start order */
    int64_t n_barriers;
    int64_t *barriers; /* host ranges of barriers, in start order */
};

enum lw_status traces_comm_index_build(const struct lw_trace *t, struct lw_arena *arena,
                                       struct traces_comm_index *out, struct lw_err *err);

/* class_of[strings]: the enum lw_kernel_class of each name of a kernel. Memory is the arena's. */
enum lw_status traces_kernel_classes(const struct lw_trace *t, const struct lw_kernel_table *table,
                                     struct lw_arena *arena, uint8_t **class_of,
                                     struct lw_err *err);

/* op "barrier": waiting for the other ranks, with nothing to move. */
struct traces_comm_fact { /* strings are NULL and numbers -1 where the trace does not tell */
    const char *op, *dtype, *group;
    int64_t bytes, out_bytes; /* of the input; of the output */
    int32_t group_size;
};

/* launch: the row of the call that launched the kernel, -1 = none. */
struct traces_comm_fact traces_comm_fact_of(const struct lw_trace *t,
                                            const struct traces_comm_index *index, int64_t kernel,
                                            int64_t launch);

/* The kind of collective that a name means; exchanges of any kind and unknown ones are ALL_TO_ALL.
 */
enum lw_op_kind traces_comm_kind(const char *op);

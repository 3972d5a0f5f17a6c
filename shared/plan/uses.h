#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "shared/plan/message_ends.h"
#include "shared/plan/plan.h"

/* What an op of a plan touches on a rank: docs/design/uses.md. Proofs, exec's audits and memory
 * over time ask here; no other code derives it from an op's kind. */
enum lw_use_buffer {
    LW_USE_WEIGHTS,    /* index: a bucket of LW_BUCKET_WEIGHTS */
    LW_USE_GRADIENT,   /* index: parameter; the gradient outside of any bucket */
    LW_USE_BUCKET,     /* index: bucket of gradients, or the number of a norm */
    LW_USE_ACTIVATION, /* index: op that takes or gives back n bytes */
    LW_USE_MESSAGE,    /* index: the send that carries it, or the receive that brings it */
    LW_USE_OPTIMIZER,  /* index 0: all state that the rank updates */
};

/* ADD is commutative: two that add need no order. TAKE and FREE change how much memory is in use.
 */
enum lw_access { LW_READ = 1, LW_WRITE = 2, LW_ADD = 4, LW_TAKE = 8, LW_FREE = 16 };

struct lw_use {
    enum lw_use_buffer buffer;
    int32_t index;
    int64_t first, n; /* bytes from the start of the buffer; n -1: all of it */
    int access;       /* enum lw_access, or several */
};

typedef enum lw_status lw_use_fn(void *ctx, const struct lw_use *use, struct lw_err *err);

/* What the uses of one program (a variant and a role) depend on beyond the op. */
struct lw_uses {
    const struct lw_plan *p;
    int32_t variant, role;
    struct lw_program program;
    bool *reduces;      /* [n_sets] the variant reduces it */
    int32_t *bucket_of; /* [n_params] of the variant's sets; -1 = none */
    bool *copied_in;    /* [n_params] a COPY_IN of the program fills its slot */
    bool *copied_out;   /* [n_buckets] a COPY_OUT brings the result back */
    int32_t here_stage; /* of the parameters in `here`; -1 = none yet */
    bool *here;         /* [n_params] a rank of the role updates it */
    int32_t *module_first,
        *module_weights; /* buckets of weights by module: [n_modules + 1], [slots] */
    int32_t *module_tied, *next_tied; /* parameters of a module that another one of the stage
                                       * holds: the first, [n_modules]; the next, [n_params], NULL
                                       * where none is; -1 */
    bool *temporary;     /* [n_buckets] weights that a program of the plan frees */
    bool *ahead;         /* [n_buckets] weights that are gathered ahead of the forwards that use
                          * them, and stay until the next optimizer makes them stale */
    int32_t *held;       /* [n_buckets] of both, at the start of the program: the op that gathered
                          * them in a pass before; -1 = not there */
    bool has_gathered;   /* some bucket is temporary or gathered ahead */
    bool copies;         /* it copies gradients into buckets */
    bool talks;          /* it sends or receives; else `messages` is not filled */
    struct lw_message_ends messages;
    bool has_copies; /* a parameter has a copy at another stage */
    bool *alike;     /* [n_params] see lw_uses_skip_alike; NULL: nothing is skipped */
    struct lw_arena room, program_room;
};

/* temporary[n_buckets], of zeros: set for weights that a program of the plan frees; false: none. */
bool lw_plan_temporary_weights(const struct lw_plan *p, bool *temporary);
/* ahead[n_buckets], of zeros: set for weights that a program gathers before it updates, into memory
 * that no op of the plan takes or frees; false: none. */
bool lw_plan_weights_ahead(const struct lw_plan *p, bool *ahead);

/* The plan's indexes are in range. lw_uses_free also after a failure. */
enum lw_status lw_uses_init(struct lw_uses *u, const struct lw_plan *p, struct lw_err *err);
/* Later queries are about ops of this program. */
enum lw_status lw_uses_program(struct lw_uses *u, int32_t variant, int32_t role,
                               struct lw_err *err);
void lw_uses_free(struct lw_uses *u);

/* Later queries leave out the gradient of each parameter that all ops use as they use that of the
 * parameter before it: every list of gradients and every bucket has both, side by side, or neither,
 * and both are of one stage and tied to none. Whether uses are in order is the same without them.
 * O(parameters + ops + slots + ready). */
enum lw_status lw_uses_skip_alike(struct lw_uses *u, struct lw_err *err);

/* Uses of the parameter's gradient are left out. */
static inline bool lw_uses_skips(const struct lw_uses *u, int32_t param)
{
    return u->alike && u->alike[param];
}

/* Call `visit` for each use of an op by a rank of the role; what it returns other than LW_OK ends
 * the walk and is returned. rank -1: any rank of the role; ranges are then whole buffers. */
enum lw_status lw_op_uses(const struct lw_uses *u, int32_t op, int32_t rank, lw_use_fn *visit,
                          void *ctx, struct lw_err *err);

/* The one use of an op that changes how much memory a rank has in use; false: none. TAKE when the
 * op begins, FREE when it ends; an ALLOC or FREE op does either at its own time. */
bool lw_op_memory(const struct lw_plan *p, int32_t op, int32_t rank, struct lw_use *use);

#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "traces/trace/trace.h"

/* Training steps as the host ran them. Times are ns since the trace's base. */

enum lw_phase { LW_PHASE_ZERO_GRAD, LW_PHASE_FORWARD, LW_PHASE_BACKWARD, LW_PHASE_OPTIMIZER,
                LW_N_PHASES };

struct lw_phase_span {
    bool found;
    int64_t start_ns, end_ns;
};

/* One torch::autograd::AccumulateGrad: the gradient of one parameter of one step. */
struct lw_gradient {
    int64_t row;       /* its row */
    int64_t node_start_ns, node_end_ns; /* the engine's node around it: hooks (DDP) run in it too */
    int64_t producer;  /* row of the last other node that the thread ran before it; -1 = none */
};

struct lw_step {
    const char *name;        /* "ProfilerStep#4"; "step 0" where the trace names none */
    int64_t start_ns, end_ns;
    struct lw_phase_span phase[LW_N_PHASES];
    int32_t thread;          /* of the step */
    int32_t backward_thread; /* where most gradients were accumulated; -1 without gradients */
    int64_t n_gradients, n_nodes, n_collectives;
    struct lw_gradient *gradients; /* in time order */
    bool forward_by_order; /* no range and no sequence number shows where the forward begins */
    int64_t n_compiled;
    struct lw_phase_span *compiled; /* nodes of a compiled backward (torch.compile), by start */
    int64_t *nodes; /* rows of the backward's nodes on its thread, in time order, not nested */
    int64_t *collectives;    /* rows of collectives that the host itself runs (gloo), by start */
};

struct lw_steps {
    struct lw_arena arena; /* owns everything below */
    int64_t n;
    struct lw_step *steps;
    const char *found_by;  /* what marked them, for people */
};

/* n = 0 when nothing in the trace marks a step. */
enum lw_status lw_steps_find(const struct lw_trace *t, struct lw_steps *out, struct lw_err *err);
void lw_steps_free(struct lw_steps *s);

/* Is this host row a range that a person or a library put around work, rather than an op? */
bool lw_row_is_range(const struct lw_trace *t, int64_t row);
/* Is this host row a node that the autograd engine ran, by its name? */
bool lw_row_is_engine(const struct lw_trace *t, int64_t row);

/* Whether a collective that the host launched at ns reduces gradients of the step: inside the node
 * that accumulated one, where DistributedDataParallel's hooks launch a full bucket, inside a
 * compiled backward, or after the last gradient and before the optimizer. Others belong to the
 * forward or to ops of the backward: tensor parallelism, buffers, losses. True for all where the
 * step shows no gradient. */
bool lw_step_reduces_gradients(const struct lw_step *s, int64_t ns);

/* The first start and the last end of what the autograd engine ran in rows [from, to). */
struct lw_phase_span lw_step_engine(const struct lw_trace *t, const struct lw_step *s, int64_t from,
                                    int64_t to);
/* Ops of one thread that start in [from, to) and lie in no other op of it, in time order. */
enum lw_status lw_top_rows(const struct lw_trace *t, int32_t thread, int64_t from, int64_t to,
                           struct lw_arena *arena, int64_t **rows, int64_t *n, struct lw_err *err);

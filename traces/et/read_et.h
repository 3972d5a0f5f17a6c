#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "shared/base/err.h"
#include "traces/graph/graph.h"

/* PyTorch execution traces (ExecutionTraceObserver) of one rank: JSON of schema 1.0.0 to 1.1.1. Ops
 * with the shapes and storages of their tensors, and no times. See docs/design/import_et.md. */
struct lw_input;

struct traces_et_tensor {
    int64_t storage, bytes, elements;
    bool written; /* an output, or an input that is written */
    bool device;
};

/* A node of the file: a call on the host. */
struct traces_et_call {
    int64_t id, parent, thread;
    int64_t order; /* its rf_id: calls are numbered as they begin */
    int64_t in_elements, out_elements; /* of a collective, as its record says; -1 */
    int64_t first_elements;            /* of the first input where that is a tensor; -1 */
    int32_t name, group, first_tensor, n_tensors, product, times;
    int32_t collective, type; /* strings: the word and the element type in a record; -1 */
    int32_t group_size;       /* as the record says; 0 */
    uint8_t dtype;            /* of the first tensor, else f32 */
    bool typed;               /* it has one */
    bool leaf, view, device;
    bool comm;   /* nccl:NAME, gloo:NAME: data moves */
    bool record; /* record_param_comms */
};

struct traces_et {
    struct traces_graph graph; /* device ops and collectives, in the order in which they ran */
    int32_t n_nodes;           /* of the file */
    int32_t n_comm_records;    /* named record_param_comms */
    int32_t n_nccl;            /* whose names begin with nccl: */
    int32_t n_views;           /* leaves that only make another view of a tensor */
    /* with traces_et_read_calls alone */
    int64_t pid;               /* of the process; -1 */
    int64_t n_calls, n_tensors;
    struct traces_et_call *calls; /* by order */
    struct traces_et_tensor *tensors;
};

bool traces_et_is(const char *text, size_t len);
/* LW_EFORMAT: no such JSON, with the place; no node. Free with traces_et_free. */
enum lw_status traces_et_read(const struct lw_input *in, struct traces_et *out, struct lw_err *err);
/* The same, and keeps all calls. */
enum lw_status traces_et_read_calls(const struct lw_input *in, struct traces_et *out,
                                    struct lw_err *err);
/* The collective that a call is: its word ("all_reduce"); NULL = none, or a wait. */
const char *traces_et_collective(const struct traces_et *e, const struct traces_et_call *c);
void traces_et_free(struct traces_et *e);

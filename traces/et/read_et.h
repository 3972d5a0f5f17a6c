#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "shared/base/err.h"
#include "traces/graph/graph.h"

/* PyTorch execution traces (ExecutionTraceObserver) of one rank: JSON of schema 1.0.0 to 1.1.1. Ops
 * with the shapes and storages of their tensors, and no times. See docs/design/import_et.md. */
struct lw_input;

struct traces_et {
    struct traces_graph graph; /* device ops and collectives, in the order in which they ran */
    int32_t n_nodes;           /* of the file */
    int32_t n_comm_records;    /* named record_param_comms */
    int32_t n_nccl;            /* whose names begin with nccl: */
    int32_t n_views;           /* leaves that only make another view of a tensor */
};

bool traces_et_is(const char *text, size_t len);
/* LW_EFORMAT: no such JSON, with the place; no node. Free with traces_et_free. */
enum lw_status traces_et_read(const struct lw_input *in, struct traces_et *out, struct lw_err *err);
void traces_et_free(struct traces_et *e);

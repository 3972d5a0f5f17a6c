#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "shared/numbers/dtype.h"
#include "shared/workload/workload.h"

/* What record_ddp.py writes beside a trace: what the trace cannot tell. Times in ns, -1 =
 * absent. */

struct traces_param {
    const char *name;
    int64_t numel;
    enum lw_dtype dtype;
    bool requires_grad, sparse;
    int64_t ready_ns;   /* after the start of backward, measured without the profiler */
    int32_t module;     /* the first module that owns it; -1 = none said */
    int64_t rows;       /* the first number of its shape; 0 = none said */
};

struct traces_summary { /* ns */
    int64_t median, p25, p75;
};

struct traces_measured { /* over steps without the profiler */
    struct traces_summary step, zero_grad, forward, backward, optimizer;
};

struct traces_sidecar {
    struct lw_arena arena;
    const char *file, *model, *torch_version, *cpu, *gpu, *backend; /* "" = absent */
    enum lw_optimizer optimizer; /* UNKNOWN = absent, or none of those that workloads know */
    int32_t rank, world_size;
    int32_t n_cores, n_threads;  /* of the machine; that compute on each rank; 0 = absent */
    int32_t n_params, n_buffers, n_modules, n_ready;
    struct traces_param *params;   /* in registration order, shared ones once */
    struct lw_buffer *buffers; /* without what is broadcast */
    const char **modules;
    int32_t n_fsdp_units;
    const char **fsdp_units;       /* modules that fully_shard was called on, but the root */
    int32_t *ready_order;          /* parameters as their gradients became ready */
    struct traces_measured measured;
    bool is_ddp, broadcast_buffers;
    int32_t n_limits, n_buckets;
    int64_t *limit_bytes;          /* the last one repeats */
    int64_t *bucket_bytes;         /* rebuilt buckets as logged, in launch order */
};

/* LW_EFORMAT names file, JSON path, value and what is allowed. */
enum lw_status traces_sidecar_read(const char *file, struct traces_sidecar *out,
                                   struct lw_err *err);
void traces_sidecar_free(struct traces_sidecar *s);

/* Where the sidecar of a trace would lie: "a/b.json.gz" -> "a/b.sidecar.json". NULL without
 * memory. */
char *traces_sidecar_path(const char *trace, struct lw_arena *arena);

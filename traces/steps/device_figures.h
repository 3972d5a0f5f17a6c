#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "traces/trace/kernel_class.h"
#include "traces/trace/kernel_launches.h"
#include "traces/trace/trace.h"

/* What the devices of one rank did, measured on its trace. Definitions: docs/design/inspect.md. */

/* window = compute_busy + exposed_comm + exposed_mem + idle. */
struct lw_busy {
    int64_t window_ns, compute_busy_ns, comm_busy_ns, mem_busy_ns;
    int64_t exposed_comm_ns; /* communication while no compute kernel runs */
    int64_t exposed_mem_ns;  /* copies and sets while neither runs */
    int64_t idle_ns;
    int64_t barrier_ns; /* barriers run, which wait for other ranks: idle where nothing else runs */
};

/* A communication kernel. Texts are NULL and numbers -1 where the trace does not tell. */
struct lw_comm_op {
    const char *op, *kernel, *dtype;
    int32_t stream, group_size;
    int64_t launch_ns, start_ns; /* since the start of the iteration */
    int64_t dur_ns;              /* waiting for late peers included */
    int64_t bytes;               /* of the input */
};

struct lw_iteration {
    const char *name;
    int64_t start_ns, end_ns;  /* of the host's range, since the trace's base */
    struct lw_busy by_time;    /* device work that runs inside that range */
    struct lw_busy by_launch;  /* device work launched inside it; window = its span */
    int64_t n_gpu_ops;         /* of by_launch; 0: by_launch says nothing */
    int64_t n_comm;
    struct lw_comm_op *comm;   /* of by_launch, in start order */
};

struct lw_inspection {
    struct lw_arena arena;     /* owns everything below; texts belong to the trace */
    bool has_device;           /* false: no device row, nothing else is set */
    struct traces_launches launches; /* the device rows */
    int64_t n_device_rows, n_resolved; /* ... and those whose launch the trace holds */
    int64_t n_repeated; /* device ops that the file holds once more */
    int64_t n_lost; /* launches whose device op the trace does not hold */
    struct lw_busy whole;      /* first device start to last device end */
    int64_t n_iterations;
    struct lw_iteration *iterations;
};

/* table: a user's kernel classes before the built-in ones, or NULL. */
enum lw_status lw_inspect(const struct lw_trace *t, const struct lw_kernel_table *table,
                          struct lw_inspection *out, struct lw_err *err);
void lw_inspection_free(struct lw_inspection *i);

#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/numbers/dtype.h"
#include "shared/base/err.h"
#include "shared/numbers/units.h"

/* A measured-run file (schema lapwing-groundtruth/1: PyTorch DDP over gloo, two ranks): what its
 * user has before a run with overlapped all-reduces. Under ddp.cap* nothing is read but
 * bucket_cap_mb. */
struct lw_input;

enum { LW_GROUNDTRUTH_RANKS = 2 };

/* Medians of one process without synchronisation; -1 = not there. */
struct lw_gt_profile {
    bool there;
    lw_ps step, zero, forward, backward, optimizer;
    int32_t n_order, n_ready;
    int32_t *order;  /* [n_order]: parameters as their gradients become ready */
    lw_ps *ready;    /* [n_ready]: by parameter, from the call of backward; -1 = unknown */
};

struct lw_gt_param {
    const char *name;
    int64_t numel;
    enum lw_dtype dtype;
    bool trainable;
};

/* All-reduce of one size, from the microbenchmark of the network. */
struct lw_gt_size {
    int64_t bytes;
    lw_ps single, single_cpu, two; /* two: two at once, both done, -1 = not there */
};

struct lw_gt_cap {
    const char *config; /* "cap25" */
    int64_t cap_bytes;
};

struct lw_groundtruth {
    struct lw_arena arena; /* owns everything below */
    const char *file, *hash, *model, *net, *cpu, *torch;
    int32_t n_params, n_sizes, n_caps;
    struct lw_gt_param *params; /* in registration order */
    struct lw_gt_size *sizes;   /* ascending */
    struct lw_gt_cap *caps;     /* in file order */
    struct lw_gt_profile local, no_sync[LW_GROUNDTRUTH_RANKS];
};

/* It is a JSON object whose "schema" names such a file, of any version. */
bool lw_groundtruth_is(const char *text, size_t len);

/* LW_EFORMAT names file, JSON path, what was found and what is allowed; LW_ENOTSUP: another version
 * of the schema. */
enum lw_status lw_groundtruth_read(const struct lw_input *in, struct lw_groundtruth *out,
                                   struct lw_err *err);
void lw_groundtruth_free(struct lw_groundtruth *g);

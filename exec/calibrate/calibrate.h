#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "exec/backend/backend.h"
#include "exec/launch/rendezvous.h"
#include "shared/base/err.h"
#include "shared/base/progress.h"
#include "shared/cluster/cluster.h"

#define CALIBRATE_LEAST_BYTES (INT64_C(16) << 20) /* of max_bytes */
#define CALIBRATE_MOST_BYTES (INT64_C(1) << 30)

/* Measure this machine as exec uses it: with exec itself, on small plans, in the placement in which
 * plans run. The result is a cluster named "host", every figure with its spread in its source. See
 * docs/design/calibrate.md. */
struct lw_calibrate_options {
    const struct exec_backend *backend;
    int32_t n_ranks;      /* tables are for groups of this many; 1: no communication is measured */
    int32_t n_rounds;     /* the whole series is repeated this often; medians are over all */
    int64_t budget_ns;    /* but no round begins that would end later than this, after the first */
    int32_t n_steps;      /* of each plan and round */
    int32_t ranks_per_node; /* divides n_ranks; 0: as many as the launcher started on a machine */
    int64_t max_bytes;    /* largest message, 16 MiB to 1 GiB */
    int32_t max_side;     /* rows of the largest matrix product, 32 to 8192 */
    const struct exec_identity *id; /* this process is one rank of several; NULL = all are in it */
    bool loop;            /* all ranks as streams of one device */
    double link_bytes_per_s; /* > 0: links are paced to this rate, as exec --link-rate does */
    int64_t link_latency_ns;
    const struct lw_progress *progress;
    /* Called after each round with the cluster of the rounds until then, on rank 0; NULL = not. */
    enum lw_status (*keep)(void *ctx, const struct lw_cluster *c, struct lw_err *err);
    void *keep_ctx;
};

struct lw_calibrate_options lw_calibrate_options_default(void);

/* Where ranks are processes, all call this; rank 0's *out is what was measured, the others' is
 * empty. LW_EINVAL: no rank. LW_EFAILED: progress->stop. Errors of running are passed on. */
enum lw_status lw_calibrate(const struct lw_calibrate_options *o, struct lw_cluster *out,
                            struct lw_err *err);

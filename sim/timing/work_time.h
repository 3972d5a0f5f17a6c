#pragma once

#include <stdint.h>

#include "shared/base/err.h"
#include "shared/cluster/cluster.h"
#include "shared/plan/plan.h"

/* Time alone, at full rate, of an op that is not a communication; bytes: its payload as the rank
 * sees it. An op with work of its own has that; the rest is timed by the cluster: by its table for
 * the kind of work where it has one, else copies by the copy rate, compute of known FLOPs or bytes
 * by the roofline; launches by the launch time. */
struct sim_work {
    lw_ps time;
    const char *by;     /* "the plan", "its table", or the name of the figure in a cluster file */
    const char *source; /* of table or figure; "" = of neither */
};

/* number: of the op, for messages. LW_ENOTSUP names the figure that is missing. */
enum lw_status sim_work_of(const struct lw_plan *plan, const struct lw_cluster *cluster,
                           int32_t number, const struct lw_op *op, int64_t bytes,
                           struct sim_work *out, struct lw_err *err);

/* Of `elements` whose update the host makes (--offload update): the update of `moved` bytes of each
 * (lw_host_update_bytes), and `copied` bytes of each over its link, before and after; 0: the
 * cluster lacks a figure. */
lw_ps sim_host_update_ps(const struct lw_cluster *c, const struct lw_strategy *s, int64_t elements,
                         int64_t moved, int64_t copied);

/* What timed the ops of a run that the cluster times, kind by kind. */
struct lw_sim_stats;
void sim_list_timed(const struct lw_plan *plan, const struct lw_cluster *cluster,
                    struct lw_sim_stats *stats);

/* One more op timed so; its row of stats->timed, -1 = there are too many. */
int32_t sim_note_timed(struct lw_sim_stats *stats, const struct lw_op *op, const char *by,
                       const char *source, const char *basis);

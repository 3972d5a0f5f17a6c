#pragma once

#include "traces/replay/replay_maker.h"

/* Ranks whose collectives run on the core that computes: what a recorded time would have been
 * without the other, by the engine's own rule (comm_on_compute_core,
 * docs/design/engine_rates.md). */

/* Finds out whether the ranks share their cores (m->core_want), and when their collectives moved
 * data. After the collectives were matched. */
enum lw_status replay_share_cores(struct replay_maker *m);
/* How long the ops of [from, to) on a thread would have run alone. */
int64_t replay_compute_alone(const struct replay_maker *m, const struct replay_rank *r,
                             const struct replay_host *h, int64_t from, int64_t to);
/* How long the collective of that row takes, with nothing beside it where cores are shared. */
int64_t replay_comm_alone(const struct replay_maker *m, const struct replay_rank *r, int64_t row);

#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/plan/plan_builder.h"
#include "traces/replay/host_busy.h"
#include "traces/replay/replay_points.h"
#include "traces/replay/to_replay.h"
#include "traces/steps/cross_rank.h"
#include "traces/steps/device_gap.h"

/* The state of a replay while it is made: to_replay.c (the whole), replay_streams.c (streams and
 * communicators), core_share.c (times alone) and replay_emit.c (ops) fill it in that order. */

struct replay_host {
    int32_t thread, stream, last_op; /* last_op -1 = none yet */
    int32_t launched;                /* device stream it launched on last, not communication; -2 */
    int64_t cursor;                  /* everything up to here is emitted */
    struct traces_host_busy busy;    /* empty where the rank recorded device ops */
};

struct replay_emitted {
    int64_t call;
    int32_t op;
};

struct replay_device { /* a device stream, and what was emitted on it */
    int32_t id, stream, last_op, n;
    struct replay_emitted *ops; /* [n] */
};

struct replay_edge { /* from here on, collectives of the host that move data */
    int64_t ns, moving;
};

struct replay_bucket_times { /* what a bucket takes: least_ns and per_byte of its bytes */
    double least_ns, per_byte;
    bool waits; /* recorded times hold the waiting for other ranks */
    int64_t smallest; /* bytes of the smallest recorded one */
    double *excess_ns, sum_excess_ns; /* [recorded buckets] what each took beyond that then */
};

struct replay_rank {
    const struct traces_source *s;
    const struct lw_trace *t;
    struct traces_points p;
    int64_t n_typed, *typed; /* host rows that launch products and tell their type, by start */
    struct traces_comm_list comms;
    const char **bucket_name; /* [comms.n] of all-reduces of gradients; NULL = not one */
    int64_t *comm_of; /* [trace rows] number of the item of comms + 1; 0 = no communication */
    int32_t role, n_hosts, n_devices, comm_stream, step;
    int32_t send_stream; /* of messages that the host sends; -1 = none */
    struct replay_host *hosts;
    struct replay_device *devices;
    int64_t n_edges;
    struct replay_edge *edges; /* [n_edges] where cores are shared (core_share.c) */
    int64_t offset_ns; /* of its first moment after that of the earliest rank */
    int64_t clock_ns;  /* its clock is so much ahead of the first rank's */
    int64_t next_orphan;
    int32_t *record_op; /* [calls] event records emitted; -1 */
    int32_t *run_op;    /* [host collectives] -1 */
    int32_t *bucket_op; /* [new buckets] -1 */
    struct replay_bucket_times bucket_times;
    int64_t last_call;  /* emitted */
    int32_t last_host;  /* hosts index of the point emitted last; -1 */
    int64_t last_end;   /* its end */
};

struct replay_op { /* what is kept of an op beside the plan */
    int32_t step;
    int64_t row;
    lw_ps recorded_start, recorded_time;
    lw_ps end; /* by a recurrence over recorded times: ranks alone, collectives as recorded */
};

struct replay_maker {
    const struct traces_replay_choice *choice;
    struct lw_builder *b;
    struct lw_arena *arena, *result;
    struct replay_rank *ranks;
    int32_t n, n_streams, n_ops;
    bool nomem;
    struct traces_cross_rank cross;
    int32_t *comm_of_class; /* plan's communicators, one per class */
    struct traces_replay *out;
    struct replay_op *ops; /* [n_ops], grows */
    struct traces_device_gap gap; /* of the first rank */
    double core_want;  /* share of the core that a collective of the host wants; 0 = has its own */
    lw_ps *stream_end; /* [n_streams] of the rank that is emitted */
    int64_t n_unexplained;
    lw_ps unexplained;
    int64_t n_lost, n_guessed, n_inferred, n_orphans, n_waits, n_bucket_waits;
    struct lw_err *err;
};

/* replay_streams.c. NULL: the rank has no such thread or stream. */
struct replay_host *replay_host_of(struct replay_rank *r, int32_t thread);
struct replay_device *replay_device_of(struct replay_rank *r, int32_t id);
enum lw_status replay_collect_streams(struct replay_maker *m, struct replay_rank *r);
void replay_add_streams(struct replay_maker *m);
/* Lists the collectives of all ranks, matches them, and adds a communicator for each group. */
enum lw_status replay_match_comms(struct replay_maker *m);

/* core_share.c: ranks whose collectives run on the core that computes, and what a recorded time
 * would have been without the other, by the engine's own rule (comm_on_compute_core,
 * docs/design/engine_rates.md). */
/* Finds out whether the ranks share their cores (m->core_want), and when their collectives moved
 * data. After the collectives were matched. */
enum lw_status replay_share_cores(struct replay_maker *m);
/* How long the ops of [from, to) on a thread would have run alone. */
int64_t replay_compute_alone(const struct replay_maker *m, const struct replay_rank *r,
                             const struct replay_host *h, int64_t from, int64_t to);
/* How long the collective of that row takes, with nothing beside it where cores are shared. */
int64_t replay_comm_alone(const struct replay_maker *m, const struct replay_rank *r, int64_t row);
/* After the first member ended, until this rank ran again; 0 where collectives do not block. */
int64_t replay_lag_ns(const struct replay_maker *m, const struct replay_rank *r, int64_t row);

/* bucket_names.c: after the collectives were listed. number counts from 0 in its step; kind: "" or
 * what it is beside; bytes and n_gradients 0 = unknown. */
enum lw_status replay_name_buckets(struct replay_maker *m, struct replay_rank *r);
enum lw_status replay_bucket_name(struct replay_maker *m, int64_t number, const char *kind,
                                  int64_t bytes, int64_t n_gradients, const char **name);

/* bucket_times.c: after the cores were shared. */
enum lw_status replay_time_buckets(struct replay_maker *m, struct replay_rank *r);
lw_ps replay_bucket_time(const struct replay_rank *r, const struct traces_bucket *b);

/* replay_emit.c: the program of one rank. */
enum lw_status replay_emit_rank(struct replay_maker *m, struct replay_rank *r);

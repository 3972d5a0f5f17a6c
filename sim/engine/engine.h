#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/timeline/packed_rows.h"
#include "sim/cost/cost_model.h"
#include "shared/numbers/checked.h"
#include "sim/timing/device.h"
#include "sim/timing/device_spread.h"
#include "sim/timing/random_draws.h"
#include "sim/engine/rank_classes.h"
#include "sim/engine/queue.h"
#include "sim/timing/sim_options.h"
#include "sim/engine/op_graph.h"
#include "sim/timing/work_time.h"

/* The state of a simulation, shared by the files that move it on: engine.c (units, passes, the
 * loop), timer.c (work and rates), collective_run.c, ring_events.c, send_recv.c, deadlock.c.
 *
 * A slot is one stream of one rank: rank * n_streams + stream. A place is one member of one
 * group: an index into plan->members. A lane is one collective in flight of a group: group *
 * n_workers + k; `groups` holds lanes, and a lane is called a group where a group has one
 * (n_workers = 1). */

enum sim_event_kind {
    SIM_SLOT_END,     /* index: slot; generation checked */
    SIM_GROUP_END,    /* index: group; generation checked */
    SIM_MESSAGE_END,  /* index: message; generation checked */
    SIM_RANK_BEGIN,   /* index: rank: a late rank enters its pass */
    SIM_CHUNK_ARRIVE, /* index: place that receives */
    SIM_CHUNK_END,    /* index: place whose part of the ring is done */
};

/* Work that is being done, at a rate that may change. */
struct sim_timer {
    __int128 left;       /* ps at full rate, times SIM_FULL_RATE */
    lw_ps since;         /* `left` was true then */
    int64_t rate;        /* 0 = not scheduled yet */
    uint32_t generation; /* of the one event that counts */
    bool running, on_device; /* on_device: compute or copy, slowed by what runs beside it */
};

/* One send and the receive it meets. */
struct sim_message {
    struct sim_timer timer;
    int32_t rank[2], unit[2], op[2]; /* sender, receiver; unit -1 = not there yet */
    int32_t slot[2];         /* of the units */
    int32_t given[2];        /* ranks of the given plan between which it goes */
    int64_t memory;          /* share of memory bandwidth that it takes at each end */
    int64_t core_share;      /* of a core at each end, alone; -1 = by the cluster's figure */
    int64_t fair_rate;       /* what it gets of the links */
    double wire_bytes_per_s; /* on them, alone */
    int32_t flow;            /* among those that share links; -1 = none */
    int64_t bytes;
    enum lw_dtype dtype;
    int32_t next;                    /* in its channel, or in the free list */
    int32_t active_next[2], active_before[2]; /* among those moving at sender and at receiver */
    int32_t comm;
    bool arrived;                    /* buffered: at the receiver before it asked */
};

/* Messages from one rank to another on one communicator class that wait for their other end; all
 * of them lack the same end. */
struct sim_channel {
    int32_t comm, from, to;          /* comm -1: empty place of the hash table */
    int32_t first, last;
};

/* A member of a ring at chunk detail. */
struct sim_ring_place {
    lw_ps chunk, latency;   /* of the link to the next member, for the collective it is in */
    lw_ps sent_done;        /* when its last message has left */
    int32_t got, sent;      /* messages of this collective; got may run ahead of entry */
    int32_t next;           /* place of the next member; a folded ring goes round on itself */
    int32_t from, to;       /* the ranks at the ends of the link to it */
    int32_t steps;          /* 0 = not in a collective */
    int32_t rank, group;
    uint64_t n_before;      /* messages of the collectives before this one */
    /* pooled: collectives that the member entered; its workers: next unit in issue order, -1 =
     * none, and how many units run */
    int64_t turn;
    int32_t pool_next, pool_running;
};

/* What a rank does. */
struct sim_rank {
    const struct sim_program *program;
    int32_t pass, units_left;
    int32_t *wait; /* edges a unit still waits for; or one of the marks below */
    int64_t row;                 /* of the pass's first op */
    int32_t n_device;            /* compute and copies running */
    int32_t n_moving, n_waiting; /* communications moving data; collectives entered, not moving */
    int32_t n_collectives;       /* collectives moving data */
    int32_t n_copies;            /* collectives by copy engines, entered and not ended */
    int32_t active_message;      /* first message moving here, -1 = none */
    bool dirty;
    int64_t speed;                   /* own compute rate, in 1e9 */
    lw_ps late, link_free;           /* link_free: when its outgoing link is free, chunk detail */
    int64_t more_sms;                /* share of SMs held by channels, beyond terms.sm_share each */
    int64_t memory_level;            /* what no user of its memory gets more than */
    struct sim_core core;            /* how its core is split */
    int32_t moving[LW_N_ACTIVITIES]; /* communications moving data, by kind; */
    int32_t by_copies[LW_N_ACTIVITIES]; /* of them by copy engines */
};

/* What others' channels hold on a rank from a time on. */
struct sim_beside {
    lw_ps from;
    int64_t sms;
};

struct sim_slot_state {
    struct sim_timer timer;
    int32_t unit, parts; /* parts of a group call not done yet */
    int64_t memory;      /* share of memory bandwidth that the op takes */
    /* of a merged unit since its start; n_beside 0: another unit runs, or none */
    struct sim_beside *beside;
    int64_t n_beside, beside_capacity;
};

/* A part of a merged unit in a run of the unit alone. */
struct sim_part {
    __int128 left; /* of its work, as a timer has it */
    lw_ps start;
    int64_t sms;  /* that it holds */
    int32_t wait; /* parts that it waits for */
    bool on_device;
};

struct sim_pass {
    int32_t variant, step, in_step;
    int64_t row; /* first one of the timeline */
};

/* What is the same for all instances of a communicator. NCCL runs its collectives one by one; a
 * library with several workers has one of these, a lane, for each that is in flight. */
struct sim_group {
    int32_t comm;           /* class; -1 = used by none */
    int32_t first, n_places; /* simulated: a folded group holds each class of its members once */
    int32_t n;              /* members of the group that it represents */
    int32_t n_nodes, fewest; /* nodes they live on; members on the one with the fewest */
    bool alone;              /* all ranks of the run are members */
    int32_t n_arrived;      /* places in the collective that gathers */
    uint32_t n_gathered;    /* collectives that gathered before it, modulo 2^32 */
    int32_t first_rank, first_op; /* of the member that came first */
    struct lw_cost_query query; /* of the collective that gathers; bytes: largest of the members */
    lw_ps own_work;         /* largest own (recorded) work; 0 = none */
    lw_ps all_in;           /* when the last member of the latest complete collective came */
    struct sim_timer timer; /* collective detail */
    bool dirty;
    bool chunked, scheduled; /* the collective that gathers goes message by message; not a ring */
    struct lw_cost_query known; /* one answer remembered */
    lw_ps known_time;       /* -1 = none yet */
    int64_t known_share;    /* of the core while it moves alone; -1 = no CPU time is known */
    int64_t core_share; /* the same, of the collective that moves; -1 = by the cluster's figure */
    int64_t link_rate;      /* beside what else its members have in flight */
    int64_t memory;         /* share of memory bandwidth that it takes of each member, alone */
    int64_t more_sms;       /* share of SMs that its channels hold, beyond terms.sm_share */
    struct lw_cost_query sms_known; /* that it was requested; n_ranks 0: none yet */
    int64_t fair_rate;      /* what it gets of links that others use too */
    lw_ps time;             /* of the collective that moves, alone */
    int32_t flow;           /* among those that share links; -1 = none */
    uint64_t n_begun;       /* collectives whose data has moved */
    int64_t turn;           /* pooled: which collective of its communicator it is in; -1 = free */
};

struct sim_net;

/* Answers of the cost function that are remembered, by a hash of the query: plans ask for few
 * sizes, and trees on thousands of ranks take a millisecond each. */
enum { SIM_ASKED = 256 };

struct sim_asked {
    struct lw_cost_query query; /* n_ranks 0: none yet */
    lw_ps time;
    const char *by, *source, *basis; /* of the answer; NULL: a cost function of the caller */
};

/* The same of how many thread blocks its kernel has. */
struct sim_asked_blocks {
    struct lw_cost_query query; /* n_ranks 0: none yet */
    int32_t n;
};

struct sim_engine {
    const struct lw_plan *plan;   /* the one that runs: the quotient, where ranks are folded */
    const struct lw_plan *given;
    const struct sim_fold *fold;  /* NULL: ranks are what they are */
    const struct lw_cluster *cluster;
    struct lw_sim_options options;
    struct lw_cost cost;
    struct sim_asked asked[SIM_ASKED];
    struct sim_asked_blocks asked_blocks[SIM_ASKED];
    struct sim_terms terms;
    bool wants_rows;
    struct lw_packed_rows *rows; /* NULL: none; the caller's to free */
    int64_t n_rows;              /* of all passes, kept or not */
    struct lw_sim_stats *stats;
    struct lw_err *err;
    bool has_collectives, has_channels; /* that hold SMs for channels, if known: any; known */
    bool has_copies, has_kernels; /* collectives by copy engines, and by kernels on SMs */
    bool too_many; /* ops: refused before anything ran */
    struct lw_arena arena;        /* fixed columns */
    struct sim_queue queue;
    lw_ps now;
    struct sim_range jitter, skew; /* when the options ask for them */
    double compute_sigma, comm_sigma; /* of what is drawn; 0 = nothing */
    int64_t spread; /* how much longer products take on the slowest device, in parts of 1e9 */
    bool ring_by_events, slow_links;
    int32_t n_workers;            /* lanes of a group */
    bool *pooled;                 /* [n_comms]; NULL when n_workers is 1 */

    bool merges; /* ops between which nothing joins or leaves are one unit */
    lw_ps *part_start;            /* scratch, of the largest merged unit, like the next two */
    struct sim_part *part;
    int32_t *running;
    struct sim_program *programs; /* [n_variants * n_roles] */
    /* [n_ops] of ops that the cluster times, at full rate; -1 = depends on the rank. NULL: none is
     * timed by it but for its rank (sim_known_work). */
    lw_ps *work;

    int32_t n_passes;
    struct sim_pass *passes; /* [n_passes] */
    lw_ps *step_end; /* [n_steps], or NULL: when the last op of it or of one before ended */
    lw_ps run_start; /* of the earliest op; with step_end only */
    int64_t *variant_row;         /* [n_variants * n_ranks]: rows of the ranks before */

    struct sim_rank *ranks;
    struct sim_slot_state *slots;
    /* scratch, grows with the messages of a rank: shares of its core, of its memory's bandwidth */
    int64_t *wants, wants_capacity;
    int64_t *memory_wants, memory_capacity;
    struct sim_net *net;                    /* NULL: links are not shared */
    int32_t *dirty_ranks, n_dirty_ranks, *dirty_groups, n_dirty_groups;
    uint64_t *ready;              /* ring of (rank, unit) to start now */
    int64_t ready_capacity, ready_head, n_ready;

    /* places and groups */
    int32_t *place_of;            /* [n_comms * n_ranks]; -1 = outside */
    int32_t *place_unit;          /* [places * n_workers]: unit in which the member entered last;
                                   * -1 = none */
    uint32_t *place_turn;         /* [places * n_workers]: n_gathered of that entry, + 1 */
    struct sim_group *groups;     /* [groups * n_workers] */
    struct sim_ring_place *ring;
    lw_ps *ring_scratch[4];       /* [largest group] each */

    /* messages */
    struct sim_message *messages;
    int64_t messages_capacity;
    int32_t n_messages, free_message;
    struct sim_channel *channels;
    int64_t n_channels, channels_capacity; /* capacity: a power of two */
};

enum { SIM_STARTED = -1, SIM_DONE = -2, SIM_QUEUED = -3 }; /* marks in wait[] */

/* engine.c */
enum lw_status sim_engine_loop(struct sim_engine *e);
enum lw_status sim_engine_begin(struct sim_engine *e);
enum lw_status sim_unit_begin(struct sim_engine *e, int32_t rank, int32_t unit);
enum lw_status sim_unit_complete(struct sim_engine *e, int32_t rank, int32_t unit);
enum lw_status sim_post(struct sim_engine *e, lw_ps time, enum sim_event_kind kind,
                        uint32_t generation, int32_t index);
enum lw_status sim_record_op(struct sim_engine *e, int32_t rank, int32_t op, lw_ps start,
                             lw_ps all_in, lw_ps end);
enum lw_status sim_work_at_full_rate(const struct sim_engine *e, int32_t rank, int32_t op,
                                     lw_ps *work);
bool sim_is_on_device(const struct lw_op *op); /* compute, and copies */
/* Note in the timeline when the last member came: for a unit's first op, for one op. */
enum lw_status sim_all_in(struct sim_engine *e, int32_t rank, int32_t unit, lw_ps all_in);
enum lw_status sim_op_all_in(struct sim_engine *e, int32_t rank, int32_t op, lw_ps all_in);

/* A remark of the result, as printf, once; beyond LW_SIM_MAX_REMARKS it is dropped. */
void sim_remark(struct lw_sim_stats *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* prepare.c: columns for a plan; everything is the arena's. */
enum lw_status sim_prepare(struct sim_engine *e);

/* comm_threads.c: collectives of pooled communicators. */
bool sim_is_pooled(const struct sim_engine *e, int32_t rank, int32_t unit);
void sim_workers_pass(struct sim_engine *e, int32_t rank); /* the rank begins a pass */
enum lw_status sim_workers_ready(struct sim_engine *e, int32_t rank, int32_t unit);
/* The lane of the collective that a member enters; it is taken if the member is the first. */
int32_t sim_workers_lane(struct sim_engine *e, int32_t place);
/* A member's collective in this lane is over: its worker takes the next one. */
enum lw_status sim_workers_end(struct sim_engine *e, int32_t lane, int32_t place);

/* timer.c */
lw_ps sim_time_at(lw_ps work, int64_t rate); /* of work at a rate that does not change */
lw_ps sim_time_for(__int128 left, int64_t rate); /* the same of what a timer has left */
void sim_timer_set(struct sim_timer *t, lw_ps now, lw_ps work);
enum lw_status sim_timer_rate(struct sim_engine *e, struct sim_timer *t, int64_t rate,
                              enum sim_event_kind kind, int32_t index);
void sim_rank_changed(struct sim_engine *e, int32_t rank);
void sim_group_changed(struct sim_engine *e, int32_t group);
enum lw_status sim_rates_settle(struct sim_engine *e);
/* memory: share of memory bandwidth that the op takes at full rate. */
enum lw_status sim_slot_start(struct sim_engine *e, int32_t rank, int32_t slot, lw_ps work,
                              bool on_device, int64_t memory);
/* A rate as far as the rank's memory lets what takes `share` of its bandwidth. */
int64_t sim_memory_rate(const struct sim_engine *e, int32_t rank, int64_t share, int64_t rate);
/* One communication more (+1) or less (-1) moves data or waits at a rank. */
void sim_rank_moving(struct sim_engine *e, int32_t rank, enum lw_op_kind op, int32_t by);
void sim_rank_waiting(struct sim_engine *e, int32_t rank, int32_t by);
/* The same of a collective of the group; and one that was entered (+1) or has ended (-1), which is
 * counted where it goes by copy engines: compute beside those loses nothing. */
void sim_member_moving(struct sim_engine *e, const struct sim_group *g, int32_t rank,
                       enum lw_op_kind op, int32_t by);
void sim_member_copies(struct sim_engine *e, const struct sim_group *g, int32_t rank,
                       enum lw_op_kind op, int32_t by);
/* Channels hold this share of the rank's SMs more (or less), beyond terms.sm_share each. */
void sim_rank_holds(struct sim_engine *e, int32_t rank, int64_t sms);
/* Rate of compute while they hold so much, with terms.channels_alone. */
int64_t sim_rate_beside_channels(const struct sim_engine *e, int32_t rank, int64_t sms);

/* merged_run.c */
enum lw_status sim_merged_start(struct sim_engine *e, int32_t rank, int32_t unit);
/* What the channels of others hold on a rank has changed: the merged unit that runs on the slot, if
 * one does, gets a new end. */
enum lw_status sim_merged_beside(struct sim_engine *e, int32_t rank, int32_t slot);
void sim_slots_free(struct sim_engine *e);

/* collective_run.c */
enum lw_status sim_collective_enter(struct sim_engine *e, int32_t rank, int32_t unit);
enum lw_status sim_group_end(struct sim_engine *e, int32_t group);
/* How long a collective takes of whose group one member is simulated, from that one's entry on. */
/* sms: the share of SMs that its channels hold meanwhile. */
enum lw_status sim_collective_alone(struct sim_engine *e, int32_t rank, int32_t op, lw_ps *time,
                                    int64_t *sms);
int64_t sim_group_rate(const struct sim_engine *e, int32_t group);
/* CPU time over time, where the table that fits tells it; -1 where none does. */
/* By copy engines, which take no SM: gathers and scatters of a tensor group on one node
 * (--tp-overlap copies). */
bool sim_goes_by_copies(const struct sim_engine *e, const struct sim_group *g, enum lw_op_kind op);
int64_t sim_share_of_core(const struct sim_engine *e, const struct lw_cost_query *q, lw_ps time);
/* Beside what else its members have in flight; and the share of a member's core it wants then. */
int64_t sim_link_rate(const struct sim_engine *e, int32_t group);
/* Rate beside k - 1 others of the kind: time alone over time of the table for k, or for the nearest
 * smaller number that was measured. */
int64_t sim_in_flight_rate(const struct sim_engine *e, const struct lw_cost_query *q, int32_t k);
int64_t sim_core_want(const struct sim_engine *e, const struct sim_group *g);
/* Time of `bytes` and the latency after them on the hop from a place to the next of its group;
 * slow_links: with the cluster's exceptions. */
enum lw_status sim_hop(struct sim_engine *e, int32_t place, int64_t bytes, bool slow_links,
                       lw_ps *time, lw_ps *latency);
double sim_link_speed(const struct sim_engine *e, int32_t from, int32_t to);
/* Of the op's tokens, whose copies travel once; without copies: every byte does. */
struct lw_routing sim_routing_of(const struct sim_engine *e, const struct lw_op *op);
/* What the cost function says, or why it cannot. */
/* *known lives until the next one. */
enum lw_status sim_ask(struct sim_engine *e, const struct lw_cost_query *q,
                       const struct sim_asked **known);
enum lw_status sim_ask_cost(struct sim_engine *e, const struct lw_cost_query *q, lw_ps *time);

/* comm_time.c: what timed the collectives and messages, into the stats. */
enum lw_status sim_list_comm(struct sim_engine *e);

/* chunk_messages.c: algorithms other than the ring, by their messages. */
/* How a collective of a communicator is done, for its query; whether that is by such messages. */
enum lw_reducer_kind sim_reducer_of(const struct sim_engine *e, int32_t comm, enum lw_op_kind op);
enum lw_status sim_is_scheduled(const struct lw_cluster *c, const struct lw_cost_query *q,
                                bool *scheduled, struct lw_err *err);
/* ... or by ring. */
enum lw_status sim_goes_by_messages(const struct lw_cluster *c, const struct lw_cost_query *q,
                                    bool *by_messages, struct lw_err *err);
/* Ranks of a group's members, in the plan as it was given; group: a lane. */
const int32_t *sim_given_members(const struct sim_engine *e, int32_t group);
enum lw_status sim_messages_enter(struct sim_engine *e, int32_t place);
enum lw_status sim_messages_all_in(struct sim_engine *e, int32_t group);
/* What the slow links of its members add to the current collective. */
enum lw_status sim_messages_extra(struct sim_engine *e, int32_t group, lw_ps *extra);

/* ring_events.c */
enum lw_status sim_ring_enter(struct sim_engine *e, int32_t place, int64_t bytes);
enum lw_status sim_ring_all_in(struct sim_engine *e, int32_t group);
enum lw_status sim_chunk_arrive(struct sim_engine *e, int32_t place);
enum lw_status sim_chunk_end(struct sim_engine *e, int32_t place);

/* send_recv.c */
enum lw_status sim_p2p_enter(struct sim_engine *e, int32_t rank, int32_t unit);
enum lw_status sim_message_end(struct sim_engine *e, int32_t message);
/* What a message costs is asked for by this. */
struct lw_cost_query sim_message_query(const struct sim_engine *e, const struct sim_message *m);

/* shared_links.c: communications that share links. */
/* LW_ENOTSUP: a link without its figures. */
enum lw_status sim_net_prepare(struct sim_engine *e);
void sim_net_free(struct sim_engine *e);
/* A group (a lane) begins or ends to move data, or ~message; not there: nothing ends. */
enum lw_status sim_net_add(struct sim_engine *e, int32_t what);
void sim_net_remove(struct sim_engine *e, int32_t what);
/* Share the links anew, where something began or ended, and mark whose rate changed. */
enum lw_status sim_net_settle(struct sim_engine *e);

/* deadlock.c: LW_EFAILED with the ops that wait for each other. */
enum lw_status sim_deadlock(struct sim_engine *e);

/* Between ranks of the plan as it was given and ranks of the one that runs. */
static inline int32_t sim_given_rank(const struct sim_engine *e, int32_t rank)
{
    return e->fold ? e->fold->rank_of[rank] : rank;
}

static inline int32_t sim_run_rank(const struct sim_engine *e, int32_t given)
{
    return e->fold ? lw_alike_class(&e->fold->ranks, given) : given;
}

/* Ranks of the given plan that this one represents. */
static inline int32_t sim_n_alike(const struct sim_engine *e, int32_t rank)
{
    return e->fold ? e->fold->n_alike[rank] : 1;
}

/* Work of an op at full rate; -1 = it depends on the rank. */
static inline lw_ps sim_known_work(const struct sim_engine *e, int32_t op)
{
    const struct lw_op *o = LW_OP_HELD(e->plan, op);
    lw_ps own = lw_plan_work_ps(e->plan, o);

    if (own < 0)
        return e->work ? e->work[op] : -1;
    return e->spread ? lw_add_sat(own, sim_spread_ps(e->plan, o, own, e->spread)) : own;
}

static inline int32_t sim_slot(const struct sim_engine *e, int32_t rank, int32_t stream)
{
    return rank * e->plan->n_streams + stream;
}

/* The first op of a unit: its number, and the op. */
static inline int32_t sim_unit_number(const struct sim_engine *e, int32_t rank, int32_t unit)
{
    const struct sim_program *p = e->ranks[rank].program;

    return sim_part(p, sim_first_part(p, unit));
}

static inline struct lw_op sim_unit_op(const struct sim_engine *e, int32_t rank, int32_t unit)
{
    return lw_op_at(e->plan, sim_unit_number(e, rank, unit));
}

#pragma once

#include "shared/check/plan_check.h"

/* The abstract run of plan_check_progress.c, which has the rules. Between the files of this idea:
 *
 *   plan_check_actors.c    the actors: ranks, or roles where these can represent them; the tables
 *   plan_check_progress.c  the run
 *   plan_check_waits.c     names the ring of waits of a run that stopped */

enum { WAITING, ENTERED, ENDED }; /* an op, on an actor */
/* Ops that a host can issue to a communication stream before the first of them has ended. A backend
 * must hold at least as many (exec/nccl/nccl_queue.c). */
enum { LW_CHECK_COMM_QUEUE = 4 };

struct lw_check_run {
    const struct lw_plan *p;
    int32_t variant;
    struct lw_matches *matches;
    const struct lw_group_kinds *kinds;
    struct lw_arena room;
    bool hosts;                  /* set by the caller: hosts issue in order; else all at once */
    bool folded;                 /* actors are roles */
    int32_t n_actors;

    /* by op of the plan */
    int32_t *next_on_stream, *before_on_comm; /* -1 = none */
    int32_t *ordinal;            /* of a collective within its class and program, else -1; NULL: the
                                  * plan has no collectives */
    /* These, and call_left, are NULL where no messages form a group call: each op is alone. */
    int32_t *call_lead;          /* first op of its group call in the program; itself when alone */
    int32_t *call_size;          /* at the lead: ops of the call */
    int32_t *issue_lead;         /* first of the ops that the host issues together with it */
    int32_t *head;               /* [n_roles * n_streams] first op of a stream; -1 = none */

    /* by actor */
    int64_t *state_at;           /* [n_actors]: where the state of op 0 would be, if it had it */
    uint8_t *state;
    int32_t *cursor;             /* [n_actors * n_streams] op at the front; -1 = stream is done */
    int32_t *host;               /* [n_actors] op that the host issues next */
    int32_t *n_queued;           /* [n_actors * n_streams] issued, not ended; together: as one */
    int32_t *dep_cursor;         /* [n_actors * n_streams] dependencies of it that have ended */
    /* [n_actors * n_streams] the state of an op that ends before the stream can move, as far as
     * is known: after the states of all ops one stands that is ENDED (nothing is known) */
    int64_t *waits_on;
    int32_t *call_left;          /* by state index of the lead: ops of the call not matched yet */
    int32_t *queue;              /* [n_actors] ring */
    int32_t queue_first, queue_n;
    bool *queued;

    /* meetings: one per (class, group or leading role, ordinal) */
    int32_t n_keys;              /* groups or roles */
    int32_t *class_of;           /* folded: [n_comms * n_roles] leading role of what a role meets */
    int64_t *meeting_at;         /* [n_comms * n_keys] */
    int32_t *arrived;            /* per meeting */
    int32_t *expected;           /* [n_comms * n_keys] actors that take part */
};

static inline int32_t role_of_actor(const struct lw_check_run *k, int32_t actor)
{
    return k->folded ? actor : lw_plan_role_of(k->p, actor);
}

static inline struct lw_program program_of(const struct lw_check_run *k, int32_t actor)
{
    return k->p->programs[(int64_t)k->variant * k->p->n_roles + role_of_actor(k, actor)];
}

static inline int64_t state_of(const struct lw_check_run *k, int32_t actor, int32_t op)
{
    return k->state_at[actor] + op;
}

static inline int64_t meeting_key(const struct lw_check_run *k, int32_t actor, int32_t comm)
{
    int32_t key = k->folded ? k->class_of[(int64_t)comm * k->p->n_roles + actor]
                            : lw_plan_group_of(k->p, comm, actor);

    return key < 0 ? -1 : (int64_t)comm * k->n_keys + key;
}

static inline int32_t ordinal_of(const struct lw_check_run *k, int32_t op)
{
    return k->ordinal ? k->ordinal[op] : -1;
}

/* Two ops are of one group call. */
static inline bool same_call(const struct lw_check_run *k, int32_t a, int32_t b)
{
    return a == b || (k->call_lead && k->call_lead[a] == k->call_lead[b]);
}

static inline int32_t issue_lead_of(const struct lw_check_run *k, int32_t op)
{
    return k->issue_lead ? k->issue_lead[op] : op;
}

/* Of ops of one call and stream that follow each other: the host issues them together. */
static inline bool is_issued(const struct lw_check_run *k, int32_t actor, int32_t op)
{
    return issue_lead_of(k, op) < k->host[actor];
}

/* The actor that a send or receive meets, and its op there. */
static inline int32_t partner(const struct lw_check_run *k, int32_t actor, int32_t op,
                              int32_t *mate)
{
    const struct lw_matches *m = k->matches;

    if (m->folded || k->folded)
        return lw_match_partner(k->p, m, actor, op, mate);
    int32_t at = m->base[actor] + m->ordinal[op];
    *mate = m->op[at];
    return m->rank[at];
}

/* Fill k, of which p, variant and matches are set. */
enum lw_status lw_check_run_make(struct lw_check_run *k, struct lw_err *err);
/* LW_EPLAN, with the ring of waits that holds this op. */
enum lw_status lw_check_stuck(const struct lw_check_run *k, int32_t actor, int32_t op,
                              struct lw_err *err);

/* A schedule under LogGOPS, event by event (Hoefler, Schneider, Lumsdaine: LogGOPSim, HPDC 2010;
 * the rules of spcl/LogGOPSim, src/LogGOPSim/LogGOPSim.cpp at 76451de):
 *
 *   calc     occupies its processor
 *   send     starts when processor and interface are free; the processor is busy for o + (s-1) O,
 *            the interface for g + (s-1) G; the first byte is there after o + L
 *   arrival  when the receiver's processor and interface are free: the processor is busy for
 *            o + (s-1) max(O, G), the interface for g + (s-1) G, whether a receive is posted or not
 *   receive  ends with its arrival, or when it is posted, if that is later
 *   s > S    the send ends when its receive does not wait any more (rendezvous)
 *
 * Events at one time go in the order in which they were queued; of ops that become free together
 * sends are the first, then receives, then calculations. In one thing the rules differ: there an op
 * that waits for one on another processor starts when its own processor is free; here it waits. */
#include "traces/goal/goal_times.h"

#include <string.h>

#include "shared/numbers/checked.h"

struct entry { /* of the queue: an op (>= 0), or a message as -1 - number */
    lw_ps time;
    int64_t sequence, item;
};

struct waiting { /* a receive that is posted, or a message that arrived before its receive */
    int64_t item, next;
};

struct state {
    const struct traces_goal *g;
    const struct goal_network *n;
    struct goal_times *t;
    struct lw_err *err;
    int64_t n_queue, queue_cap, sequence, events_cap;
    struct entry *queue;
    lw_ps *cpu_free, *out_free, *in_free; /* [n_ranks * n_cpus or n_nics] */
    int32_t *rank_of, *left;              /* [n_ops] dependencies that are not met */
    lw_ps *ready, *arrived;               /* [n_ops]; [messages] when the processor had it */
    int64_t *first_after, *after;         /* ops that wait for op i; op * 2 + (start) */
    bool *done;
    int64_t n_done;
    struct waiting *list; /* [n_ops] by op of receives, by send of messages */
    int64_t *posted, *posted_last, *early, *early_last; /* [n_slots] heads of lists; -1 */
    int64_t n_slots;
    bool *any; /* [n_ranks] a receive takes any source or tag */
};

static lw_ps per_byte(int64_t fs, int64_t bytes)
{
    __int128 v = (__int128)fs * (bytes > 1 ? bytes - 1 : 0);

    v = (v + 500) / 1000;
    return v > INT64_MAX / 16 ? INT64_MAX / 16 : (lw_ps)v;
}

lw_ps goal_send_cpu(const struct goal_network *n, int64_t bytes)
{
    return lw_add_sat(n->o, per_byte(n->O_fs, bytes));
}

lw_ps goal_recv_cpu(const struct goal_network *n, int64_t bytes)
{
    return lw_add_sat(n->o, per_byte(n->O_fs > n->G_fs ? n->O_fs : n->G_fs, bytes));
}

lw_ps goal_gap(const struct goal_network *n, int64_t bytes)
{
    return lw_add_sat(n->g, per_byte(n->G_fs, bytes));
}

void goal_times_free(struct goal_times *t)
{
    lw_free(t->events);
    lw_free(t->messages);
    lw_arena_free(&t->arena);
    *t = (struct goal_times){0};
}

/* ---- the queue ---- */

static bool before(const struct entry *a, const struct entry *b)
{
    return a->time != b->time ? a->time < b->time : a->sequence < b->sequence;
}

static enum lw_status put(struct state *s, struct entry e)
{
    LW_ROOM(s->queue, s->queue_cap, s->n_queue + 1, s->err);
    int64_t i = s->n_queue++;
    for (; i > 0 && before(&e, &s->queue[(i - 1) / 2]); i = (i - 1) / 2)
        s->queue[i] = s->queue[(i - 1) / 2];
    s->queue[i] = e;
    return LW_OK;
}

static struct entry get(struct state *s)
{
    struct entry top = s->queue[0], last = s->queue[--s->n_queue];
    int64_t i = 0;

    for (;;) {
        int64_t child = 2 * i + 1;
        if (child >= s->n_queue)
            break;
        child += child + 1 < s->n_queue && before(&s->queue[child + 1], &s->queue[child]);
        if (!before(&s->queue[child], &last))
            break;
        s->queue[i] = s->queue[child];
        i = child;
    }
    s->queue[i] = last;
    return top;
}

static enum lw_status note(struct state *s, lw_ps time, enum goal_what what, int64_t of,
                           int32_t rank)
{
    struct goal_times *t = s->t;

    LW_ROOM(t->events, s->events_cap, t->n_events + 1, s->err);
    t->events[t->n_events++] = (struct goal_event){time, of, rank, (uint8_t)what};
    return LW_OK;
}

/* ---- ops become free ---- */

static lw_ps *cpu_of(struct state *s, int32_t rank, const struct goal_op *op)
{
    return &s->cpu_free[(int64_t)rank * s->g->n_cpus + op->cpu];
}

static lw_ps *nic_of(struct state *s, lw_ps *of, int32_t rank, const struct goal_op *op)
{
    return &of[(int64_t)rank * s->g->n_nics + op->nic];
}

static lw_ps most(lw_ps a, lw_ps b)
{
    return a > b ? a : b;
}

static enum lw_status queue_op(struct state *s, int64_t i)
{
    const struct goal_op *op = &s->g->ops[i];
    lw_ps time = s->ready[i];

    if (op->type != GOAL_RECV)
        time = most(time, *cpu_of(s, s->rank_of[i], op));
    if (op->type == GOAL_SEND)
        time = most(time, *nic_of(s, s->out_free, s->rank_of[i], op));
    return put(s, (struct entry){time, s->sequence++, i});
}

/* What waited for op i to start (or to end) at that time. */
static enum lw_status release(struct state *s, int64_t i, bool start, lw_ps time)
{
    for (int type = GOAL_SEND; type <= GOAL_CALC; type++)
        for (int64_t k = s->first_after[i]; k < s->first_after[i + 1]; k++) {
            int64_t to = s->after[k] / 2;
            if ((s->after[k] & 1) != start || s->g->ops[to].type != type)
                continue;
            s->ready[to] = most(s->ready[to], time);
            if (--s->left[to] == 0)
                LW_TRY(queue_op(s, to));
        }
    return LW_OK;
}

static enum lw_status finish(struct state *s, int64_t i, lw_ps time)
{
    s->done[i] = true;
    s->n_done++;
    return release(s, i, false, time);
}

/* ---- matching ---- */

static int64_t slot_of(const struct state *s, int32_t rank, int32_t from, int32_t tag)
{
    uint64_t h = (uint64_t)(uint32_t)rank * 0x9e3779b97f4a7c15U;

    if (!s->any[rank])
        h ^= ((uint64_t)(uint32_t)from << 32 | (uint32_t)tag) * 0xbf58476d1ce4e5b9U;
    return (int64_t)((h ^ h >> 29) & (uint64_t)(s->n_slots - 1));
}

static void append(struct state *s, int64_t *first, int64_t *last, int64_t slot, int64_t item)
{
    s->list[item] = (struct waiting){item, -1};
    if (first[slot] < 0)
        first[slot] = item;
    else
        s->list[last[slot]].next = item;
    last[slot] = item;
}

static bool meets(const struct state *s, int64_t recv, int64_t send)
{
    const struct goal_op *r = &s->g->ops[recv], *x = &s->g->ops[send];

    return s->rank_of[recv] == x->peer && (r->peer == GOAL_ANY || r->peer == s->rank_of[send]) &&
           (r->tag == GOAL_ANY || x->tag == GOAL_ANY || r->tag == x->tag);
}

/* The first of a list that meets the op; it leaves the list. -1 = none. */
static int64_t match(struct state *s, int64_t *first, int64_t *last, int64_t slot, int64_t op,
                     bool is_recv)
{
    for (int64_t i = first[slot], prior = -1; i >= 0; prior = i, i = s->list[i].next) {
        if (!(is_recv ? meets(s, op, i) : meets(s, i, op)))
            continue;
        if (prior < 0)
            first[slot] = s->list[i].next;
        else
            s->list[prior].next = s->list[i].next;
        if (last[slot] == i)
            last[slot] = prior;
        return i;
    }
    return -1;
}

/* ---- events ---- */

static enum lw_status do_calc(struct state *s, struct entry e)
{
    const struct goal_op *op = &s->g->ops[e.item];
    int32_t rank = s->rank_of[e.item];
    lw_ps *cpu = cpu_of(s, rank, op);

    if (*cpu > e.time) {
        e.time = *cpu;
        return put(s, e);
    }
    *cpu = lw_add_sat(e.time, op->size * s->g->unit);
    LW_TRY(note(s, e.time, GOAL_DID_CALC, e.item, rank));
    LW_TRY(release(s, e.item, true, e.time));
    return finish(s, e.item, *cpu);
}

static enum lw_status do_send(struct state *s, struct entry e)
{
    const struct goal_op *op = &s->g->ops[e.item];
    int32_t rank = s->rank_of[e.item];
    lw_ps *cpu = cpu_of(s, rank, op), *nic = nic_of(s, s->out_free, rank, op);
    int64_t m = s->t->message_of[e.item];

    if (*cpu > e.time || *nic > e.time) {
        e.time = most(*cpu, *nic);
        return put(s, e);
    }
    *cpu = lw_add_sat(e.time, goal_send_cpu(s->n, op->size));
    *nic = lw_add_sat(e.time, goal_gap(s->n, op->size));
    LW_TRY(note(s, e.time, GOAL_DID_SEND, e.item, rank));
    LW_TRY(release(s, e.item, true, e.time));
    lw_ps there = lw_add_sat(e.time, lw_add_sat(s->n->o, s->n->L));
    LW_TRY(put(s, (struct entry){there, s->sequence++, -1 - m}));
    return op->size <= s->n->S ? finish(s, e.item, *cpu) : LW_OK;
}

/* Receive and message have met at that time. */
static enum lw_status meet(struct state *s, int64_t m, int64_t recv, lw_ps met, lw_ps end)
{
    struct goal_message *x = &s->t->messages[m];
    const struct goal_op *send = &s->g->ops[x->send];

    x->recv = recv;
    s->t->message_of[recv] = m;
    LW_TRY(note(s, end, GOAL_DID_RECV, recv, x->to));
    if (send->size > s->n->S) {
        lw_ps *cpu = cpu_of(s, x->from, send), *nic = nic_of(s, s->out_free, x->from, send);
        *cpu = most(*cpu, met);
        *nic = most(*nic, met);
        LW_TRY(note(s, met, GOAL_DID_ACK, m, x->from));
        LW_TRY(finish(s, x->send, *cpu));
    }
    return finish(s, recv, end);
}

static enum lw_status do_recv(struct state *s, struct entry e)
{
    const struct goal_op *op = &s->g->ops[e.item];
    int32_t rank = s->rank_of[e.item];
    int64_t slot = slot_of(s, rank, op->peer, op->tag);

    LW_TRY(note(s, e.time, GOAL_DID_POST, e.item, rank));
    LW_TRY(release(s, e.item, true, e.time));
    int64_t send = match(s, s->early, s->early_last, slot, e.item, true);
    if (send < 0) {
        append(s, s->posted, s->posted_last, slot, e.item);
        return LW_OK;
    }
    int64_t m = s->t->message_of[send];
    return meet(s, m, e.item, e.time, most(e.time, s->arrived[m]));
}

static enum lw_status do_arrive(struct state *s, struct entry e)
{
    int64_t m = -1 - e.item;
    const struct goal_message *x = &s->t->messages[m];
    const struct goal_op *op = &s->g->ops[x->send];
    lw_ps *cpu = cpu_of(s, x->to, op), *nic = nic_of(s, s->in_free, x->to, op);

    if (*cpu > e.time || *nic > e.time) {
        e.time = most(*cpu, *nic);
        return put(s, e);
    }
    *cpu = s->arrived[m] = lw_add_sat(e.time, goal_recv_cpu(s->n, op->size));
    *nic = lw_add_sat(e.time, goal_gap(s->n, op->size));
    LW_TRY(note(s, e.time, GOAL_DID_ARRIVE, m, x->to));
    int64_t slot = slot_of(s, x->to, x->from, op->tag);
    int64_t recv = match(s, s->posted, s->posted_last, slot, x->send, false);
    if (recv >= 0)
        return meet(s, m, recv, e.time, *cpu);
    append(s, s->early, s->early_last, slot, x->send);
    return LW_OK;
}

static enum lw_status run(struct state *s)
{
    for (int type = GOAL_SEND; type <= GOAL_CALC; type++)
        for (int64_t i = 0; i < s->g->n_ops; i++)
            if (s->left[i] == 0 && s->g->ops[i].type == type)
                LW_TRY(queue_op(s, i));
    while (s->n_queue > 0) {
        struct entry e = get(s);
        if (e.item < 0)
            LW_TRY(do_arrive(s, e));
        else if (s->g->ops[e.item].type == GOAL_CALC)
            LW_TRY(do_calc(s, e));
        else if (s->g->ops[e.item].type == GOAL_SEND)
            LW_TRY(do_send(s, e));
        else
            LW_TRY(do_recv(s, e));
    }
    return LW_OK;
}

/* ---- what is left ---- */

static const char *shown(const struct state *s, int64_t i, char *text)
{
    return traces_goal_op_text(s->g, s->rank_of[i], i, text);
}

/* Ops that wait for each other within their rank. */
static enum lw_status find_cycle(struct state *s, struct lw_arena *arena)
{
    const struct traces_goal *g = s->g;
    uint8_t *mark; /* 1 = on the way, 2 = ends somewhere */
    int64_t *way, n;

    LW_TAKE(arena, mark, g->n_ops + 1, s->err);
    LW_TAKE(arena, way, g->n_ops + 1, s->err);
    for (int64_t begin = 0; begin < g->n_ops; begin++) {
        n = 0;
        for (int64_t i = begin; i >= 0 && !s->done[i] && mark[i] == 0;) {
            const struct goal_op *op = &g->ops[i];
            int64_t to = -1, first = g->first[s->rank_of[i]];
            mark[i] = 1;
            way[n++] = i;
            for (int32_t k = 0; s->left[i] > 0 && k < op->n_deps && to < 0; k++)
                if (!s->done[first + g->deps[op->first_dep + k].op])
                    to = first + g->deps[op->first_dep + k].op;
            if (to >= 0 && mark[to] == 1) {
                char list[200] = "", text[GOAL_TEXT];
                int64_t k = n - 1, length = 1;
                while (way[k] != to) {
                    k--;
                    length++;
                }
                for (; k < n; k++)
                    lw_err_word(list, sizeof list, shown(s, way[k], text));
                return lw_fail_at(
                    s->err, LW_EFORMAT, g->file, g->ops[to].line,
                    "ops of rank %d form a cycle of %lld, each waits for the next: %s",
                    s->rank_of[to], (long long)length, list);
            }
            i = to;
        }
        while (n > 0)
            mark[way[--n]] = 2;
    }
    return LW_OK;
}

static enum lw_status fail_send(const struct state *s, int64_t i)
{
    const struct goal_op *op = &s->g->ops[i];
    char text[GOAL_TEXT];

    return lw_fail_at(s->err, LW_EFORMAT, s->g->file, op->line,
                      "rank %d sends %lld bytes to rank %d with tag %d (%s), and rank %d has no "
                      "receive left for it",
                      s->rank_of[i], (long long)op->size, op->peer, op->tag, shown(s, i, text),
                      op->peer);
}

/* The send that a receive of one source waits for, which did not begin; -1: there is none. */
static int64_t waiting_send(const struct state *s, int64_t recv)
{
    const struct goal_op *r = &s->g->ops[recv];

    if (r->peer < 0 || r->peer >= s->g->n_ranks)
        return -1;
    for (int64_t i = s->g->first[r->peer]; i < s->g->first[r->peer + 1]; i++) {
        const struct goal_op *op = &s->g->ops[i];
        if (op->type == GOAL_SEND && s->left[i] > 0 && op->peer == s->rank_of[recv] &&
            (r->tag < 0 || op->tag == r->tag))
            return i;
    }
    return -1;
}

static enum lw_status fail_recv(const struct state *s, int64_t i)
{
    const struct goal_op *op = &s->g->ops[i];
    int64_t send = waiting_send(s, i);
    char text[GOAL_TEXT], other[GOAL_TEXT];

    if (send >= 0)
        return lw_fail_at(s->err, LW_EFORMAT, s->g->file, op->line,
                          "rank %d receives from rank %d with tag %d (%s), whose send (%s) waits "
                          "for other ops: ranks wait for each other",
                          s->rank_of[i], op->peer, op->tag, shown(s, i, text),
                          shown(s, send, other));
    return lw_fail_at(s->err, LW_EFORMAT, s->g->file, op->line,
                      "rank %d receives from rank %d with tag %d (%s), and no such send comes",
                      s->rank_of[i], op->peer, op->tag, shown(s, i, text));
}

enum { MOST_TRIES = 1000 }; /* each looks through the ops of a rank */

static enum lw_status check_end(struct state *s, struct lw_arena *arena)
{
    const struct traces_goal *g = s->g;

    for (int64_t m = 0; m < s->t->n_messages; m++)
        if (s->arrived[m] >= 0 && s->t->messages[m].recv < 0 && s->n_done == g->n_ops)
            return fail_send(s, s->t->messages[m].send);
    if (s->n_done == g->n_ops)
        return LW_OK;
    LW_TRY(find_cycle(s, arena));
    for (int64_t m = 0; m < s->t->n_messages; m++)
        if (s->arrived[m] >= 0 && s->t->messages[m].recv < 0)
            return fail_send(s, s->t->messages[m].send);
    int64_t recv = -1, tries = 0; /* one that has no send, else the first: ranks wait in a circle */
    for (int64_t i = 0; i < g->n_ops && tries < MOST_TRIES; i++) {
        if (s->done[i] || s->left[i] > 0 || g->ops[i].type != GOAL_RECV)
            continue;
        if (waiting_send(s, i) < 0)
            return fail_recv(s, i);
        recv = tries++ == 0 ? i : recv;
    }
    if (recv >= 0)
        return fail_recv(s, recv);
    for (int64_t i = 0; i < g->n_ops; i++)
        if (!s->done[i] && s->left[i] == 0)
            return fail_send(s, i);
    return lw_fail_at(s->err, LW_EFORMAT, g->file, 0, "ops wait for ever");
}

/* ---- begin and end ---- */

static enum lw_status list_after(struct state *s, struct lw_arena *arena)
{
    const struct traces_goal *g = s->g;
    int64_t *fill;

    LW_TAKE(arena, s->first_after, g->n_ops + 2, s->err);
    LW_TAKE(arena, s->after, g->n_deps + 1, s->err);
    LW_TAKE(arena, fill, g->n_ops + 1, s->err);
    for (int32_t r = 0; r < g->n_ranks; r++)
        for (int64_t i = g->first[r]; i < g->first[r + 1]; i++) {
            s->rank_of[i] = r;
            s->left[i] = g->ops[i].n_deps;
            for (int32_t k = 0; k < g->ops[i].n_deps; k++)
                s->first_after[g->first[r] + g->deps[g->ops[i].first_dep + k].op + 1]++;
        }
    for (int64_t i = 0; i < g->n_ops; i++)
        s->first_after[i + 1] += s->first_after[i];
    for (int32_t r = 0; r < g->n_ranks; r++)
        for (int64_t i = g->first[r]; i < g->first[r + 1]; i++)
            for (int32_t k = 0; k < g->ops[i].n_deps; k++) {
                const struct goal_dep *d = &g->deps[g->ops[i].first_dep + k];
                int64_t b = g->first[r] + d->op;
                s->after[s->first_after[b] + fill[b]++] = 2 * i + d->start;
            }
    return LW_OK;
}

static enum lw_status list_messages(struct state *s)
{
    const struct traces_goal *g = s->g;
    struct goal_times *t = s->t;
    int64_t m = 0;

    LW_NEW(t->messages, g->n_sends + 1, s->err);
    LW_TAKE(&t->arena, t->message_of, g->n_ops + 1, s->err);
    t->n_messages = g->n_sends;
    for (int64_t i = 0; i < g->n_ops; i++) {
        t->message_of[i] = -1;
        if (g->ops[i].type == GOAL_SEND) {
            t->messages[m] = (struct goal_message){i, -1, s->rank_of[i], g->ops[i].peer};
            t->message_of[i] = m++;
        }
        if (g->ops[i].type == GOAL_RECV && (g->ops[i].peer < 0 || g->ops[i].tag < 0))
            s->any[s->rank_of[i]] = true;
        if (g->ops[i].type == GOAL_SEND && g->ops[i].tag < 0)
            s->any[g->ops[i].peer] = true;
        if (g->ops[i].type != GOAL_CALC && g->ops[i].peer == s->rank_of[i])
            return lw_fail_at(s->err, LW_EFORMAT, g->file, g->ops[i].line,
                              "rank %d exchanges a message with itself", s->rank_of[i]);
    }
    return LW_OK;
}

static enum lw_status begin(struct state *s, struct lw_arena *arena)
{
    const struct traces_goal *g = s->g;
    int64_t n = g->n_ops + 1;

    for (s->n_slots = 64; s->n_slots < g->n_ops;)
        s->n_slots *= 2;
    LW_TAKE(arena, s->cpu_free, (int64_t)g->n_ranks * g->n_cpus, s->err);
    LW_TAKE(arena, s->out_free, (int64_t)g->n_ranks * g->n_nics, s->err);
    LW_TAKE(arena, s->in_free, (int64_t)g->n_ranks * g->n_nics, s->err);
    LW_TAKE(arena, s->rank_of, n, s->err);
    LW_TAKE(arena, s->left, n, s->err);
    LW_TAKE(arena, s->ready, n, s->err);
    LW_TAKE(arena, s->done, n, s->err);
    LW_TAKE(arena, s->list, n, s->err);
    LW_TAKE(arena, s->any, g->n_ranks, s->err);
    LW_TAKE(arena, s->arrived, g->n_sends + 1, s->err);
    LW_TAKE(arena, s->posted, s->n_slots, s->err);
    LW_TAKE(arena, s->posted_last, s->n_slots, s->err);
    LW_TAKE(arena, s->early, s->n_slots, s->err);
    LW_TAKE(arena, s->early_last, s->n_slots, s->err);
    for (int64_t i = 0; i < s->n_slots; i++)
        s->posted[i] = s->posted_last[i] = s->early[i] = s->early_last[i] = -1;
    for (int64_t i = 0; i < g->n_sends; i++)
        s->arrived[i] = -1;
    LW_TRY(list_after(s, arena));
    return list_messages(s);
}

enum lw_status goal_times_find(const struct traces_goal *g, const struct goal_network *n,
                               struct goal_times *out, struct lw_err *err)
{
    struct lw_arena scratch = {0};
    struct goal_times t = {0};
    struct state s = {.g = g, .n = n, .t = &t, .err = err};
    enum lw_status status = begin(&s, &scratch);

    if (status == LW_OK)
        status = run(&s);
    if (status == LW_OK)
        status = check_end(&s, &scratch);
    for (int64_t i = 0; status == LW_OK && i < (int64_t)g->n_ranks * g->n_cpus; i++)
        t.end = most(t.end, s.cpu_free[i]);
    lw_free(s.queue);
    lw_arena_free(&scratch);
    LW_GIVE(status, out, t, goal_times_free(&t));
}

enum lw_status traces_goal_step(const struct traces_goal *g, const struct goal_network *n,
                                lw_ps *step, struct lw_err *err)
{
    struct goal_times t = {0};
    enum lw_status status = goal_times_find(g, n, &t, err);

    if (status == LW_OK)
        *step = t.end;
    goal_times_free(&t);
    return status;
}

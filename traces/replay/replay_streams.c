/* Streams and communicators of a replay: a stream for each host thread and each device stream of a
 * rank (the k-th thread of every rank is one stream of the plan, device streams go by their id), a
 * communicator for each process group, whose groups are the ranks where their collectives could be
 * matched, and single ranks where they could not. */
#include <stdio.h>
#include <string.h>

#include "shared/strategy/reducer_kind.h"
#include "traces/replay/host_comms.h"
#include "traces/replay/replay_state.h"
#include "traces/trace/data_parallel.h"

/* ---- streams ---- */

struct replay_host *replay_host_of(struct replay_rank *r, int32_t thread)
{
    for (int32_t i = 0; i < r->n_hosts; i++)
        if (r->hosts[i].thread == thread)
            return &r->hosts[i];
    return NULL;
}

struct replay_device *replay_device_of(struct replay_rank *r, int32_t id)
{
    for (int32_t i = 0; i < r->n_devices; i++)
        if (r->devices[i].id == id)
            return &r->devices[i];
    return NULL;
}

static bool is_typed(const struct lw_trace *t, int64_t row)
{
    return lw_trace_on_host(t, row) && lw_trace_detail(t, row)->shape_type >= 0 &&
           (lw_trace_name_begins(t, row, "aten::") || lw_trace_name_begins(t, row, "triton_"));
}

enum lw_status replay_collect_streams(struct replay_maker *m, struct replay_rank *r)
{
    LW_TRY(lw_trace_pick(r->t, 0, r->t->n, is_typed, m->arena, &r->typed, &r->n_typed, m->err));
    LW_TAKE(m->arena, r->hosts, r->t->strings.n, m->err);
    for (int64_t i = 0; i < r->p.n; i++)
        if (!replay_host_of(r, r->p.points[i].thread))
            r->hosts[r->n_hosts++] = (struct replay_host){
                .thread = r->p.points[i].thread, .stream = -1, .last_op = -1, .launched = -2,
                .cursor = r->p.start_ns};
    for (int32_t i = 0; i < r->n_hosts && r->p.launches.n == 0; i++)
        LW_TRY(traces_host_busy_build(r->t, r->hosts[i].thread, m->arena, &r->hosts[i].busy,
                                      m->err));
    for (int64_t i = 0; i < r->p.launches.n; i++) {
        int32_t id = r->t->track[r->p.launches.row[i]], n = r->n_devices;
        if (replay_device_of(r, id))
            continue;
        r->devices = lw_arena_more(m->arena, r->devices, n, sizeof *r->devices);
        if (!r->devices)
            return lw_fail_nomem(m->err);
        r->devices[r->n_devices++] = (struct replay_device){.id = id, .stream = -1, .last_op = -1};
    }
    return LW_OK;
}

static int32_t add_stream(struct replay_maker *m, const char *name, enum lw_stream_class class_)
{
    lw_builder_stream(m->b, name, class_, class_ == LW_STREAM_COMM);
    return m->n_streams++;
}

static void name_device_stream(const struct lw_trace *t, int32_t id, char *name, size_t size)
{
    int32_t k = id / LW_DEVICE_STREAMS;

    if (id < 0)
        snprintf(name, size, "stream ?");
    else if (k > 0)
        snprintf(name, size, "device %d stream %d", t->device_id[k], id % LW_DEVICE_STREAMS);
    else
        snprintf(name, size, "stream %d", id);
}

/* The k-th host thread of every rank shares one stream of the plan; device streams go by their id.
 */
void replay_add_streams(struct replay_maker *m)
{
    char name[32];
    int32_t most = 0;

    for (int32_t k = 0; k < m->n; k++)
        most = m->ranks[k].n_hosts > most ? m->ranks[k].n_hosts : most;
    for (int32_t h = 0; h < most; h++) {
        snprintf(name, sizeof name, "host %d", h);
        int32_t stream = add_stream(m, name, LW_STREAM_HOST);
        for (int32_t k = 0; k < m->n; k++)
            if (h < m->ranks[k].n_hosts)
                m->ranks[k].hosts[h].stream = stream;
    }
    for (int32_t k = 0; k < m->n; k++)
        for (int32_t d = 0; d < m->ranks[k].n_devices; d++) {
            struct replay_device *x = &m->ranks[k].devices[d];
            if (x->stream >= 0)
                continue;
            name_device_stream(m->ranks[k].t, x->id, name, sizeof name);
            x->stream = add_stream(m, name, LW_STREAM_COMPUTE);
            for (int32_t j = k + 1; j < m->n; j++) {
                struct replay_device *same = replay_device_of(&m->ranks[j], x->id);
                if (same)
                    same->stream = x->stream;
            }
        }
    for (int32_t k = 0, gloo = -1; k < m->n; k++)
        if (m->ranks[k].p.n_comms > 0) {
            gloo = gloo < 0 ? add_stream(m, "gloo", LW_STREAM_COMM) : gloo;
            m->ranks[k].comm_stream = gloo;
        }
    for (int32_t k = 0, sends = -1; k < m->n; k++)
        for (int64_t i = 0; i < m->ranks[k].p.n_comms && m->ranks[k].send_stream < 0; i++)
            if (strcmp(lw_trace_name(m->ranks[k].t, m->ranks[k].p.comms[i].row), "gloo:send") == 0)
                m->ranks[k].send_stream = sends =
                    sends < 0 ? add_stream(m, "gloo send", LW_STREAM_COMM) : sends;
}

/* ---- communicators ---- */

enum { LEAST_CLOCK_NS = 50000, LEAST_CLOCK_OF_HOST_NS = 50000000 };

static const struct lw_step *step_at(const struct lw_steps *s, int64_t ns)
{
    for (int64_t i = 0; i < s->n; i++)
        if (ns >= s->steps[i].start_ns && ns < s->steps[i].end_ns)
            return &s->steps[i];
    return NULL;
}

static bool shares_data(enum traces_wrapper wrapper, const struct lw_step *step,
                        const struct traces_comm_item *x, int64_t ns)
{
    enum lw_op_kind kind = x->fact.op ? traces_comm_kind(x->fact.op) : LW_OP_ALL_REDUCE;

    if (traces_wrapper_shards(wrapper) &&
        (kind == LW_OP_ALL_GATHER || kind == LW_OP_REDUCE_SCATTER))
        return true;
    return (wrapper != TRACES_WRAPPER_NONE || step->n_gradients > 0) &&
           kind != LW_OP_BROADCAST && lw_step_reduces_gradients(step, ns);
}

/* By class: of the group's collectives in the recorded steps, those that sum gradients, by their
 * place in the step, or are gathers and scatters of FSDP, less the others. More than 0: the group
 * is data-parallel. */
static void count_data(const struct replay_rank *r, int64_t *excess)
{
    enum traces_wrapper wrapper = lw_trace_wrapper(r->t);

    for (int64_t i = 0; i < r->comms.n; i++) {
        const struct traces_comm_item *x = &r->comms.items[i];
        if (x->class < 0)
            continue;
        int64_t ns = x->launch >= 0 ? r->t->start_ns[x->launch] : x->start_ns;
        const struct lw_step *step = step_at(&r->s->steps, ns);
        if (step)
            excess[x->class] += shares_data(wrapper, step, x, ns) ? 1 : -1;
    }
}

static enum lw_status add_comm(struct replay_maker *m, int32_t class, bool data)
{
    const struct traces_comm_class *c = &m->cross.classes[class];
    int32_t *members;

    LW_TAKE(m->arena, members, c->n_members, m->err);
    m->comm_of_class[class] =
        lw_builder_comm(m->b, c->name,
                        data ? LW_COMM_RECORDED_DATA : LW_COMM_RECORDED, LW_REDUCER_AUTO, 0);
    if (c->matched) {
        lw_builder_group(m->b, m->comm_of_class[class], c->members, c->n_members);
    } else {
        for (int32_t k = 0; k < c->n_members; k++)
            lw_builder_group(m->b, m->comm_of_class[class], &c->members[k], 1);
    }
    if (m->n > 1 && !c->matched)
        lw_builder_note(m->b,
                        "collectives of group '%s' keep their recorded times, waiting inside: "
                        "%s",
                        c->name, c->why);
    if (c->matched)
        lw_builder_note(m->b, "collectives of group '%s': %d ranks matched, each takes %s", c->name,
                        c->n_members,
                        m->ranks[c->members[0]].p.n_comms > 0
                            ? "the time from its last member's entry to its last end"
                            : "the shortest recorded time from its last member's entry");
    return LW_OK;
}

static enum lw_status list_comms(struct replay_maker *m, struct replay_rank *r)
{
    struct traces_comm_list *l = &r->comms;

    LW_TRY(traces_comm_list_build(r->t, m->choice->kernels, m->arena, l, m->err));
    struct traces_comm_item *v;
    LW_TAKE(m->arena, v, l->n + r->p.n_comms, m->err);
    LW_TAKE(m->arena, r->comm_of, r->t->n, m->err);
    if (l->n > 0)
        memcpy(v, l->items, (size_t)l->n * sizeof *v);
    for (int64_t i = 0; i < r->p.n_comms; i++) {
        const struct traces_host_comm *c = &r->p.comms[i];
        v[l->n + i] = (struct traces_comm_item){
            .row = c->row, .launch = c->issue, .start_ns = c->start_ns, .dur_ns = c->dur_ns,
            .class = -1, .k = -1,
            .fact = traces_host_comm_fact(r->t, c->row)};
    }
    l->items = v;
    l->n += r->p.n_comms;
    for (int64_t i = 0; i < l->n; i++)
        r->comm_of[v[i].row] = i + 1;
    return LW_OK;
}

/* Ends of collectives tell by how much clocks differ. On one host they differ by some us of
 * scheduling, and those of collectives that the host runs by ms: that is not corrected. */
static bool correct_clocks(struct replay_maker *m, struct traces_comm_list *lists)
{
    bool any = false;

    for (int32_t k = 0; k < m->n; k++) {
        int64_t ns = m->cross.clock_known[k] ? m->cross.clock_ns[k] : 0;
        int64_t least = m->ranks[k].p.n_comms > 0 ? LEAST_CLOCK_OF_HOST_NS : LEAST_CLOCK_NS;
        if (ns < least && ns > -least)
            continue;
        lists[k].late_ns = m->ranks[k].clock_ns = ns;
        any = true;
    }
    return any;
}

enum lw_status replay_match_comms(struct replay_maker *m)
{
    struct traces_comm_list *lists;

    LW_TAKE(m->arena, lists, m->n, m->err);
    for (int32_t k = 0; k < m->n; k++) {
        LW_TRY(list_comms(m, &m->ranks[k]));
        lists[k] = m->ranks[k].comms;
    }
    LW_TRY(traces_cross_rank_build(lists, m->n, m->arena, &m->cross, m->err));
    if (correct_clocks(m, lists))
        LW_TRY(traces_cross_rank_build(lists, m->n, m->arena, &m->cross, m->err));
    LW_TAKE(m->arena, m->comm_of_class, m->cross.n_classes, m->err);
    int64_t *excess;

    LW_TAKE(m->arena, excess, m->cross.n_classes, m->err);
    for (int32_t k = 0; k < m->n; k++)
        count_data(&m->ranks[k], excess);
    for (int32_t c = 0; c < m->cross.n_classes; c++)
        LW_TRY(add_comm(m, c, excess[c] > 0));
    return LW_OK;
}

/* A recorded run as a plan.
 *
 * Each host thread and each device stream of a rank is a stream of the plan. In the order of host
 * time the ops of a rank are emitted: the host's own time between two calls (host), a call that
 * hands work to the device (launch) with the device ops behind it, a record on its stream, a wait
 * on the stream that waits, and a synchronisation of the host, which ends when the work it is for
 * has ended. What enters: durations of calls and of device ops, the host's own time, and who
 * follows whom. No start of a device op is read; device ops of one stream keep the order in which
 * they were launched (those without a launch in the file, their recorded place). So any change of a
 * duration moves exactly what depends on it.
 *
 * Threads: when a thread was silent while another one made calls, it was waiting for it (the main
 * thread during backward, the autograd thread outside of it): its silence ends as long after the
 * last call of the other as it did when recorded. Collectives of one communicator keep their issue
 * order.
 *
 * A waiting call whose work explains less than a quarter of its length waited for something else
 * (SMs that other kernels held, another process on the device): that time is kept, and said.
 *
 * Several ranks: collectives that can be matched (traces/cross_rank.c) take the shortest recorded
 * time from the entry of the last member; their waiting is simulated. Others keep their recorded
 * time, with waiting inside. Host clocks are taken as common after adding each file's base.
 *
 * Not modelled: implicit synchronisation (cudaMalloc, cudaFree), polling, a full launch queue: they
 * stay in the host's own time. */
#include "traces/to_replay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/plan_builder.h"
#include "traces/cross_rank.h"
#include "traces/replay_points.h"

enum {
    LEAST_SILENCE_NS = 100000,     /* of a thread while another works, to be a wait for it */
    LEAST_UNEXPLAINED_NS = 200000, /* of a waiting call that its work does not explain */
};

struct host {
    int32_t thread, stream, last_op; /* last_op -1 = none yet */
    int32_t launched;                /* device stream it launched on last, not communication; -2 */
    int64_t cursor;                  /* everything up to here is emitted */
};

struct device { /* a device stream, and what was emitted on it */
    int32_t id, stream, last_op;
    int64_t n, cap[2];
    int64_t *call; /* [n] */
    int32_t *op;   /* [n] */
};

struct rank {
    const struct traces_source *s;
    const struct lw_trace *t;
    struct traces_points p;
    struct traces_comm_list comms;
    int64_t *comm_of; /* [trace rows] number of the item of comms + 1; 0 = no communication */
    int32_t role, n_hosts, n_devices, comm_stream, step;
    struct host *hosts;
    struct device *devices;
    int64_t offset_ns; /* of its first moment after that of the earliest rank */
    int64_t next_orphan;
    int32_t *record_op; /* [calls] event records emitted; -1 */
    int32_t *run_op;    /* [host collectives] -1 */
    int32_t *bucket_op; /* [new buckets] -1 */
    int64_t last_call;  /* emitted */
    int32_t last_host;  /* hosts index of the point emitted last; -1 */
    int64_t last_end;   /* its end */
};

struct maker {
    const struct traces_replay_choice *choice;
    struct lw_builder *b;
    struct lw_arena *arena, *result;
    struct rank *ranks;
    int32_t n, n_streams, n_ops;
    bool nomem;
    struct traces_cross_rank cross;
    int32_t *comm_of_class; /* plan's communicators, one per class */
    struct traces_replay *out;
    int64_t steps_cap, ends_cap, rows_cap;
    int64_t *row_of;   /* grows */
    int32_t *step_of;  /* grows */
    lw_ps *end_of;     /* grows: when an op ends, ranks alone and collectives as recorded */
    lw_ps *stream_end; /* [n_streams] of the rank that is emitted */
    int64_t n_unexplained;
    lw_ps unexplained;
    int64_t n_guessed, n_inferred, n_unknown, n_orphans, n_waits;
    struct lw_err *err;
};

/* ---- streams ---- */

static struct host *host_of(struct rank *r, int32_t thread)
{
    for (int32_t i = 0; i < r->n_hosts; i++)
        if (r->hosts[i].thread == thread)
            return &r->hosts[i];
    return NULL;
}

static struct device *device_of(struct rank *r, int32_t id)
{
    for (int32_t i = 0; i < r->n_devices; i++)
        if (r->devices[i].id == id)
            return &r->devices[i];
    return NULL;
}

static enum lw_status collect_streams(struct maker *m, struct rank *r)
{
    r->hosts = lw_arena_alloc(m->arena, r->t->strings.n, sizeof *r->hosts);
    if (!r->hosts)
        return lw_fail_nomem(m->err);
    for (int64_t i = 0; i < r->p.n; i++)
        if (!host_of(r, r->p.points[i].thread))
            r->hosts[r->n_hosts++] =
                (struct host){r->p.points[i].thread, -1, -1, -2, r->p.start_ns};
    int64_t n = 0, cap = 0;
    for (int64_t i = 0; i < r->p.launches.n; i++) {
        int32_t id = r->t->track[r->p.launches.row[i]];
        if (device_of(r, id))
            continue;
        if (n == cap) {
            struct device *grown = lw_arena_alloc(m->arena, cap = 2 * cap + 8, sizeof *grown);
            if (!grown)
                return lw_fail_nomem(m->err);
            if (n > 0)
                memcpy(grown, r->devices, (size_t)n * sizeof *grown);
            r->devices = grown;
        }
        r->devices[n++] = (struct device){.id = id, .stream = -1, .last_op = -1};
        r->n_devices = (int32_t)n;
    }
    return LW_OK;
}

static int32_t add_stream(struct maker *m, const char *name, enum lw_stream_class class_)
{
    lw_builder_stream(m->b, name, class_, class_ == LW_STREAM_COMM);
    return m->n_streams++;
}

/* The k-th host thread of every rank shares one stream of the plan; device streams go by their id.
 */
static void add_streams(struct maker *m)
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
            struct device *x = &m->ranks[k].devices[d];
            if (x->stream >= 0)
                continue;
            snprintf(name, sizeof name, x->id < 0 ? "stream ?" : "stream %d", x->id);
            x->stream = add_stream(m, name, LW_STREAM_COMPUTE);
            for (int32_t j = k + 1; j < m->n; j++) {
                struct device *same = device_of(&m->ranks[j], x->id);
                if (same)
                    same->stream = x->stream;
            }
        }
    for (int32_t k = 0, gloo = -1; k < m->n; k++)
        if (m->ranks[k].p.n_comms > 0) {
            gloo = gloo < 0 ? add_stream(m, "gloo", LW_STREAM_COMM) : gloo;
            m->ranks[k].comm_stream = gloo;
        }
}

/* ---- communicators ---- */

static enum lw_status add_comm(struct maker *m, int32_t class)
{
    const struct traces_comm_class *c = &m->cross.classes[class];
    int32_t *members = lw_arena_alloc(m->arena, c->n_members, sizeof *members);

    if (!members)
        return lw_fail_nomem(m->err);
    m->comm_of_class[class] = lw_builder_comm(m->b, c->name, LW_COMM_RECORDED, LW_REDUCER_AUTO, 0);
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
        lw_builder_note(m->b,
                        "collectives of group '%s': %d ranks matched, each takes the shortest "
                        "recorded time from its last member's entry",
                        c->name, c->n_members);
    return LW_OK;
}

static enum lw_status list_comms(struct maker *m, struct rank *r)
{
    struct traces_comm_list *l = &r->comms;

    LW_TRY(traces_comm_list_build(r->t, m->choice->kernels, m->arena, l, m->err));
    struct traces_comm_item *v = lw_arena_alloc(m->arena, l->n + r->p.n_comms, sizeof *v);
    r->comm_of = lw_arena_alloc(m->arena, r->t->n, sizeof *r->comm_of);
    if (!v || !r->comm_of)
        return lw_fail_nomem(m->err);
    if (l->n > 0)
        memcpy(v, l->items, (size_t)l->n * sizeof *v);
    for (int64_t i = 0; i < r->p.n_comms; i++) {
        const struct traces_host_comm *c = &r->p.comms[i];
        v[l->n + i] = (struct traces_comm_item){
            c->row,    c->issue,
            c->dur_ns, traces_comm_fact_of(r->t, &(struct traces_comm_index){0}, c->row, -1),
            -1,        -1};
        v[l->n + i].fact.op = lw_trace_name(r->t, c->row) + strlen("gloo:");
    }
    l->items = v;
    l->n += r->p.n_comms;
    for (int64_t i = 0; i < l->n; i++)
        r->comm_of[v[i].row] = i + 1;
    return LW_OK;
}

static enum lw_status match_comms(struct maker *m)
{
    struct traces_comm_list *lists = lw_arena_alloc(m->arena, m->n, sizeof *lists);

    if (!lists)
        return lw_fail_nomem(m->err);
    for (int32_t k = 0; k < m->n; k++) {
        LW_TRY(list_comms(m, &m->ranks[k]));
        lists[k] = m->ranks[k].comms;
    }
    LW_TRY(traces_cross_rank_build(lists, m->n, m->arena, &m->cross, m->err));
    m->comm_of_class = lw_arena_alloc(m->arena, m->cross.n_classes, sizeof *m->comm_of_class);
    if (!m->comm_of_class)
        return lw_fail_nomem(m->err);
    for (int32_t c = 0; c < m->cross.n_classes; c++)
        LW_TRY(add_comm(m, c));
    return LW_OK;
}

/* ---- ops ---- */

/* recorded: its time here, which a rule or other ranks do not change. */
static int32_t emit(struct maker *m, const struct rank *r, const struct lw_op *op, lw_ps recorded,
                    const int32_t *deps, int32_t n_deps)
{
    int32_t id = lw_builder_op(m->b, op, deps, n_deps);
    lw_ps start = m->stream_end[op->stream];

    if (id < 0 || m->nomem ||
        lw_reserve(&m->step_of, &m->steps_cap, (int64_t)m->n_ops + 1, sizeof *m->step_of) < 0 ||
        lw_reserve(&m->end_of, &m->ends_cap, (int64_t)m->n_ops + 1, sizeof *m->end_of) < 0 ||
        lw_reserve(&m->row_of, &m->rows_cap, (int64_t)m->n_ops + 1, sizeof *m->row_of) < 0) {
        m->nomem = true;
        return id;
    }
    for (int32_t i = 0; i < n_deps; i++)
        start = m->end_of[deps[i]] > start ? m->end_of[deps[i]] : start;
    m->step_of[m->n_ops] = r->step;
    m->row_of[m->n_ops] = -1;
    m->end_of[m->n_ops++] = m->stream_end[op->stream] = start + recorded;
    return id;
}

/* The op added last is this row of its trace. */
static void note_row(struct maker *m, int64_t row)
{
    if (!m->nomem)
        m->row_of[m->n_ops - 1] = row;
}

static int32_t emit_host(struct maker *m, struct rank *r, struct host *h, enum lw_op_kind kind,
                         const char *name, int64_t ns, const int32_t *deps, int32_t n_deps)
{
    struct lw_op op = lw_builder_blank(kind, h->stream);

    op.name = name;
    op.work_ps = lw_ns_to_ps(ns > 0 ? ns : 0);
    return h->last_op = emit(m, r, &op, op.work_ps, deps, n_deps);
}

/* The host's own time up to ns: since the thread's last op, or, where it was silent while another
 * thread made calls, since that one's last. */
static void emit_gap(struct maker *m, struct rank *r, struct host *h, int64_t ns)
{
    const struct host *other = r->last_host >= 0 ? &r->hosts[r->last_host] : h;

    if (other != h && r->last_end > h->cursor && r->last_end <= ns &&
        ns - h->cursor >= LEAST_SILENCE_NS) {
        emit_host(m, r, h, LW_OP_HOST, "after another thread", ns - r->last_end, &other->last_op,
                  1);
    } else if (ns > h->cursor) {
        emit_host(m, r, h, LW_OP_HOST, "between calls", ns - h->cursor, NULL, 0);
    }
    h->cursor = ns > h->cursor ? ns : h->cursor;
}

/* What is left of a point's own time: a call inside another one's time has only what sticks out. */
static int64_t rest_of(const struct host *h, const struct traces_point *x)
{
    int64_t from = x->ns > h->cursor ? x->ns : h->cursor;

    return x->end_ns > from ? x->end_ns - from : 0;
}

/* The host waits for ops. A long wait of which they explain less than a quarter (by the recorded
 * times of this rank alone) was for something that is not in the trace: it is kept behind them. */
static void emit_wait(struct maker *m, struct rank *r, struct host *h, const char *name,
                      int64_t blocked_ns, const int32_t *deps, int32_t n)
{
    lw_ps began = m->stream_end[h->stream];

    emit_host(m, r, h, LW_OP_HOST_SYNC, name, 0, deps, n);
    if (m->nomem || blocked_ns < LEAST_UNEXPLAINED_NS ||
        m->stream_end[h->stream] - began >= lw_ns_to_ps(blocked_ns) / 4)
        return;
    emit_host(m, r, h, LW_OP_HOST, "wait for what is not in the trace", blocked_ns, NULL, 0);
    m->n_unexplained++;
    m->unexplained += lw_ns_to_ps(blocked_ns);
}

static enum lw_status note_device_op(struct maker *m, struct device *d, int64_t call, int32_t op)
{
    if (lw_reserve(&d->call, &d->cap[0], d->n + 1, sizeof *d->call) < 0 ||
        lw_reserve(&d->op, &d->cap[1], d->n + 1, sizeof *d->op) < 0)
        return lw_fail_nomem(m->err);
    d->call[d->n] = call;
    d->op[d->n++] = op;
    return LW_OK;
}

/* The last op on a device stream that was launched up to a call; -1 = none. */
static int32_t last_op_upto(const struct device *d, int64_t call)
{
    int64_t low = 0, high = d->n;

    while (low < high) {
        int64_t mid = low + (high - low) / 2;
        if (d->call[mid] <= call)
            low = mid + 1;
        else
            high = mid;
    }
    return low > 0 ? d->op[low - 1] : -1;
}

static int64_t gathered_bytes(const struct traces_comm_fact *f)
{
    return f->out_bytes > f->bytes ? f->out_bytes : f->bytes;
}

static enum lw_dtype dtype_of(const struct traces_comm_fact *f)
{
    enum lw_dtype dtype = LW_U8;

    if (f->dtype && lw_dtype_parse(f->dtype, &dtype, NULL) != LW_OK)
        dtype = strcmp(f->dtype, "long int") == 0 ? LW_I64 : LW_F32;
    return dtype;
}

/* A rule may time it anew. */
static enum lw_status time_of(struct maker *m, const struct traces_replay_op *x, lw_ps *time)
{
    *time = x->recorded;
    return m->choice->rule ? m->choice->rule->time(m->choice->rule->ctx, x, time, m->err) : LW_OK;
}

static enum lw_status fill_comm(struct maker *m, const struct rank *r, int64_t row,
                                struct lw_op *op)
{
    const struct traces_comm_item *item = &r->comms.items[r->comm_of[row] - 1];
    const struct traces_comm_class *c = &m->cross.classes[item->class];
    const struct rank *first = &m->ranks[c->members[0]];
    const struct traces_comm_fact *f = &item->fact;
    int64_t ns = c->matched ? c->ops[item->k].transfer_ns : item->dur_ns;
    struct traces_replay_op x = {
        op->name,          true,          traces_comm_kind(f->op), dtype_of(f),
        gathered_bytes(f), f->group_size, lw_ns_to_ps(ns)};

    if (x.group_size < 0 && c->matched)
        x.group_size = c->n_members;
    if (x.group_size < 0 && r->t->world_size > 0) {
        x.group_size = r->t->world_size;
        m->n_guessed++;
    }
    for (int64_t i = 0; c->matched && first != r && i < first->comms.n; i++)
        if (first->comms.items[i].class == item->class && first->comms.items[i].k == item->k) {
            x.bytes = gathered_bytes(&first->comms.items[i].fact);
            x.dtype = dtype_of(&first->comms.items[i].fact);
        }
    op->kind = x.kind;
    op->dtype = x.dtype;
    op->comm = m->comm_of_class[item->class];
    op->bytes = x.bytes > 0 ? x.bytes : 0;
    op->peer = x.kind == LW_OP_BROADCAST || x.kind == LW_OP_REDUCE
                   ? (c->matched ? c->members[0] : (int32_t)(r - m->ranks))
                   : -1;
    LW_TRY(time_of(m, &x, &op->work_ps));
    op->work_ps = op->work_ps > 0 ? op->work_ps : 1; /* 0 would ask the cluster */
    return LW_OK;
}

/* The beginning of a name that may be some kB long, cut between characters. */
static const char *shorten(const char *name, char *text, size_t size)
{
    size_t len = strlen(name);

    if (len >= size)
        for (len = size - 1; len > 0 && ((unsigned char)name[len] & 0xc0) == 0x80;)
            len--;
    memcpy(text, name, len);
    text[len] = 0;
    return text;
}

static enum lw_status emit_device(struct maker *m, struct rank *r, int64_t row, int64_t call,
                                  int32_t launch)
{
    struct device *d = device_of(r, r->t->track[row]);
    const char *name = lw_trace_name(r->t, row);
    char text[96];
    lw_ps recorded = lw_ns_to_ps(r->t->dur_ns[row]);
    struct lw_op op = lw_builder_blank(LW_OP_KERNEL, d->stream);

    op.name = shorten(name, text, sizeof text);
    op.work_ps = recorded;
    if (r->comm_of[row] > 0) {
        LW_TRY(fill_comm(m, r, row, &op));
    } else if (r->t->class[row] == LW_ROW_MEM) {
        op.kind = LW_OP_COPY;
    } else {
        struct traces_replay_op x = {name, false, LW_OP_KERNEL, LW_U8, -1, -1, op.work_ps};
        LW_TRY(time_of(m, &x, &op.work_ps));
    }
    d->last_op = emit(m, r, &op, recorded, &launch, launch >= 0);
    note_row(m, row);
    return note_device_op(m, d, call, d->last_op);
}

/* Device ops without a launch that come before what this call launched. */
static enum lw_status emit_orphans(struct maker *m, struct rank *r, int64_t call)
{
    const struct traces_points *p = &r->p;

    for (int64_t i = r->next_orphan; i < p->n_orphans; i++)
        if (p->before[i] == call) {
            LW_TRY(emit_device(m, r, p->orphan[i], call, -1));
            m->n_orphans++;
            r->next_orphan += i == r->next_orphan;
        }
    return LW_OK;
}

/* A copy from pageable memory moves while its call stages the rest: the copy's own time, if the
 * call lasts that long, is beside it. */
static int64_t staged_ns(const struct rank *r, const struct traces_call *c, int64_t rest)
{
    int64_t row = r->p.calls.device[c->first_device], dur = r->t->dur_ns[row];
    const char *name = lw_trace_name(r->t, row);

    if (c->kind != TRACES_CALL_LAUNCH || !strstr(name, "HtoD") || !strstr(name, "Pageable"))
        return 0;
    return dur < rest ? dur : 0;
}

static enum lw_status emit_launch(struct maker *m, struct rank *r, struct host *h,
                                  const struct traces_point *x, const struct traces_call *c)
{
    bool blocks = c->kind == TRACES_CALL_COPY;
    int64_t rest = rest_of(h, x), least = r->p.own_ns[r->t->name[c->row]];
    int64_t own = blocks && least < rest ? least : rest;
    int64_t beside = staged_ns(r, c, rest);
    int32_t last = -1;

    own -= beside;
    LW_TRY(emit_orphans(m, r, x->index));
    int32_t launch = emit_host(m, r, h, LW_OP_LAUNCH, lw_trace_name(r->t, c->row), own, NULL, 0);
    for (int64_t i = 0; i < c->n_device; i++) {
        int64_t row = r->p.calls.device[c->first_device + i];
        LW_TRY(emit_device(m, r, row, x->index, launch));
        last = device_of(r, r->t->track[row])->last_op;
    }
    if (beside > 0)
        emit_host(m, r, h, LW_OP_HOST, "staging the copy", beside, NULL, 0);
    if (blocks)
        emit_wait(m, r, h, "wait for the copy", rest - own, &last, last >= 0);
    return LW_OK;
}

/* What a wait is for: ops, the last on each stream concerned. */
static int32_t awaited(struct rank *r, const struct traces_call *c, int32_t *deps, int32_t room)
{
    int32_t n = 0;

    if (r->record_op[c->upto] >= 0) {
        deps[n++] = r->record_op[c->upto];
        return n;
    }
    for (int32_t i = 0; i < r->n_devices && n < room; i++)
        if (c->on_stream < 0 || r->devices[i].id == c->on_stream) {
            int32_t op = last_op_upto(&r->devices[i], c->upto);
            if (op >= 0)
                deps[n++] = op;
        }
    return n;
}

static enum lw_status emit_record(struct maker *m, struct rank *r, struct host *h,
                                  const struct traces_point *x, const struct traces_call *c)
{
    struct device *d = device_of(r, c->stream);

    if (!d) { /* nothing ever ran there */
        emit_host(m, r, h, LW_OP_HOST, lw_trace_name(r->t, c->row), rest_of(h, x), NULL, 0);
        return LW_OK;
    }
    int32_t launch =
        emit_host(m, r, h, LW_OP_LAUNCH, lw_trace_name(r->t, c->row), rest_of(h, x), NULL, 0);
    struct lw_op op = lw_builder_blank(LW_OP_EVENT_RECORD, d->stream);
    op.work_ps = 0;
    r->record_op[x->index] = d->last_op = emit(m, r, &op, 0, &launch, 1);
    return LW_OK;
}

static enum lw_status emit_stream_wait(struct maker *m, struct rank *r, struct host *h,
                                       const struct traces_point *x, const struct traces_call *c)
{
    struct device *d = device_of(r, c->stream);
    int32_t deps[2];

    deps[0] = emit_host(m, r, h, LW_OP_LAUNCH, lw_trace_name(r->t, c->row), rest_of(h, x), NULL, 0);
    int64_t bucket = r->p.new_of_call ? r->p.new_of_call[c->upto] : -1;
    if (!d || (bucket < 0 && awaited(r, c, deps + 1, 1) == 0))
        return LW_OK;
    if (bucket >= 0 && (deps[1] = r->bucket_op[bucket]) < 0)
        return LW_OK;
    struct lw_op op = lw_builder_blank(LW_OP_EVENT_WAIT, d->stream);
    op.work_ps = 0;
    d->last_op = emit(m, r, &op, 0, deps, 2);
    return LW_OK;
}

static enum lw_status emit_sync(struct maker *m, struct rank *r, struct host *h,
                                const struct traces_point *x, const struct traces_call *c)
{
    int64_t rest = rest_of(h, x), least = r->p.own_ns[r->t->name[c->row]];
    int64_t own = least < rest ? least : rest;
    const char *name = lw_trace_name(r->t, c->row);
    int32_t *deps = lw_alloc((size_t)(r->n_devices + 1) * sizeof *deps);

    if (!deps)
        return lw_fail_nomem(m->err);
    emit_host(m, r, h, LW_OP_HOST, name, own, NULL, 0);
    int32_t n = awaited(r, c, deps, r->n_devices);
    emit_wait(m, r, h, name, rest - own, deps, n);
    lw_free(deps);
    return LW_OK;
}

static enum lw_status emit_call(struct maker *m, struct rank *r, struct host *h,
                                const struct traces_point *x)
{
    const struct traces_call *c = &r->p.calls.calls[x->index];
    enum lw_status status;

    r->last_call = x->index;
    if (c->n_device > 0 && !c->comm)
        h->launched = c->stream;
    switch (c->kind) {
    case TRACES_CALL_LAUNCH:
    case TRACES_CALL_COPY:
        status = emit_launch(m, r, h, x, c);
        break;
    case TRACES_CALL_RECORD:
        status = emit_record(m, r, h, x, c);
        break;
    case TRACES_CALL_STREAM_WAIT:
        status = emit_stream_wait(m, r, h, x, c);
        break;
    default:
        status = emit_sync(m, r, h, x, c);
        break;
    }
    m->n_waits += c->upto >= 0;
    m->n_inferred += c->source == TRACES_WAIT_INFERRED;
    return status;
}

/* A collective that the host runs: it is handed over after the shortest such call; what a call
 * lasts longer, its thread stood still or worked while the collective ran. */
static enum lw_status emit_issue(struct maker *m, struct rank *r, struct host *h,
                                 const struct traces_point *x)
{
    const struct traces_host_comm *c = &r->p.comms[x->index];
    struct lw_op op = lw_builder_blank(LW_OP_ALL_REDUCE, r->comm_stream);
    int64_t rest = rest_of(h, x), least = r->p.own_ns[r->t->name[c->issue]];
    int64_t own = least < rest ? least : rest;
    int32_t launch = emit_host(m, r, h, LW_OP_LAUNCH, lw_trace_name(r->t, c->issue), own, NULL, 0);

    op.name = lw_trace_name(r->t, c->row);
    LW_TRY(fill_comm(m, r, c->row, &op));
    r->run_op[x->index] = emit(m, r, &op, lw_ns_to_ps(c->dur_ns), &launch, 1);
    note_row(m, c->row);
    if (rest > own)
        emit_host(m, r, h, LW_OP_HOST, "while a collective runs", rest - own, NULL, 0);
    return LW_OK;
}

static enum lw_status emit_host_wait(struct maker *m, struct rank *r, struct host *h,
                                     const struct traces_point *x)
{
    int32_t n = 0, *deps = lw_alloc((size_t)(r->p.n_comms + 1) * sizeof *deps);

    if (!deps)
        return lw_fail_nomem(m->err);
    for (int64_t i = 0; i < r->p.n_comms; i++) {
        int64_t bucket = r->p.new_of_comm ? r->p.new_of_comm[i] : -1;
        int32_t op = bucket >= 0 ? r->bucket_op[bucket] : r->run_op[i];
        if (r->p.comms[i].wait == x->index && op >= 0)
            deps[n++] = op;
    }
    emit_host(m, r, h, LW_OP_HOST_SYNC, "wait for collectives", 0, deps, n);
    lw_free(deps);
    return LW_OK;
}

/* What a bucket of that size would have taken: a line through the recorded ones of its step, or,
 * where the line has a negative part, their time per byte. */
static lw_ps fitted_time(const struct maker *m, const struct rank *r, const struct traces_bucket *b)
{
    double n = 0, sb = 0, st = 0, sbb = 0, sbt = 0;

    for (int64_t i = 0; i < r->p.n_replaced; i++) {
        if (r->p.replaced[i].step != b->step)
            continue;
        const struct traces_comm_item *x = &r->comms.items[r->comm_of[r->p.replaced[i].row] - 1];
        const struct traces_comm_class *c = &m->cross.classes[x->class];
        double bytes = (double)gathered_bytes(&x->fact);
        double ns = (double)(c->matched ? c->ops[x->k].transfer_ns : x->dur_ns);
        n += 1, sb += bytes, st += ns, sbb += bytes * bytes, sbt += bytes * ns;
    }
    double width = n * sbb - sb * sb, slope = width > 0 ? (n * sbt - sb * st) / width : -1;
    double least = (st - slope * sb) / n;
    if (slope < 0 || least < 0) {
        least = 0;
        slope = st / sb;
    }
    return (lw_ps)((least + slope * (double)b->bytes) * (double)LW_PS_PER_NS + 0.5);
}

static enum lw_status emit_bucket(struct maker *m, struct rank *r, struct host *h,
                                  const struct traces_point *x)
{
    const struct traces_bucket *b = &r->p.buckets[x->index];
    const struct traces_comm_item *like = &r->comms.items[r->comm_of[b->like] - 1];
    struct device *d = lw_trace_on_host(r->t, b->like) ? NULL : device_of(r, r->t->track[b->like]);
    struct device *on = h->launched > -2 ? device_of(r, h->launched) : NULL;
    struct lw_op op = lw_builder_blank(LW_OP_ALL_REDUCE, d ? d->stream : r->comm_stream);
    int32_t group = like->fact.group_size > 0 ? like->fact.group_size : r->t->world_size;
    struct traces_replay_op y = {"a new bucket",
                                 true,
                                 LW_OP_ALL_REDUCE,
                                 b->dtype,
                                 b->bytes,
                                 group > 0  ? group
                                 : m->n > 1 ? m->n
                                            : -1,
                                 fitted_time(m, r, b)};
    int32_t deps[2], n = 1;

    deps[0] = emit_host(m, r, h, LW_OP_LAUNCH, "launch of a new bucket", 0, NULL, 0);
    if (d && on && on->last_op >= 0)
        deps[n++] = on->last_op;
    op.name = y.name;
    op.dtype = b->dtype;
    op.bytes = b->bytes;
    op.comm = m->comm_of_class[like->class];
    LW_TRY(time_of(m, &y, &op.work_ps));
    op.work_ps = op.work_ps > 0 ? op.work_ps : 1;
    r->bucket_op[x->index] = emit(m, r, &op, y.recorded, deps, n);
    if (!d)
        return LW_OK;
    d->last_op = r->bucket_op[x->index];
    return note_device_op(m, d, r->last_call, d->last_op);
}

static void emit_mark(struct maker *m, struct rank *r, struct host *h, const struct traces_point *x)
{
    const struct traces_range *s = &r->p.steps[x->index];
    struct traces_replay_step *step = &m->out->steps[x->index];
    bool begins = x->kind == TRACES_POINT_STEP_BEGIN;
    char text[96];

    shorten(s->name, text, sizeof text - 8);
    strcat(text, begins ? " begins" : " ends");
    int32_t op = emit_host(m, r, h, LW_OP_HOST, text, 0, NULL, 0);
    (begins ? step->first : step->last)[r - m->ranks] = op;
}

static enum lw_status emit_point(struct maker *m, struct rank *r, const struct traces_point *x)
{
    struct host *h = host_of(r, x->thread);
    enum lw_status status = LW_OK;

    r->step = x->step + m->out->n_before;
    emit_gap(m, r, h, x->ns);
    switch (x->kind) {
    case TRACES_POINT_CALL:
        status = emit_call(m, r, h, x);
        break;
    case TRACES_POINT_ISSUE:
        status = emit_issue(m, r, h, x);
        break;
    case TRACES_POINT_WAIT:
        status = emit_host_wait(m, r, h, x);
        break;
    case TRACES_POINT_BUCKET:
        status = emit_bucket(m, r, h, x);
        break;
    default:
        emit_mark(m, r, h, x);
        break;
    }
    h->cursor = x->end_ns > h->cursor ? x->end_ns : h->cursor;
    r->last_host = (int32_t)(h - r->hosts);
    r->last_end = h->cursor;
    return status;
}

static enum lw_status emit_rank(struct maker *m, struct rank *r)
{
    r->record_op = lw_arena_alloc(m->arena, r->p.calls.n, sizeof *r->record_op);
    r->run_op = lw_arena_alloc(m->arena, r->p.n_comms, sizeof *r->run_op);
    r->bucket_op = lw_arena_alloc(m->arena, r->p.n_buckets, sizeof *r->bucket_op);
    if (!r->record_op || !r->run_op || !r->bucket_op)
        return lw_fail_nomem(m->err);
    memset(r->bucket_op, 0xff, (size_t)r->p.n_buckets * sizeof *r->bucket_op);
    memset(r->record_op, 0xff, (size_t)r->p.calls.n * sizeof *r->record_op);
    memset(r->run_op, 0xff, (size_t)r->p.n_comms * sizeof *r->run_op);
    r->last_host = -1;
    memset(m->stream_end, 0, (size_t)m->n_streams * sizeof *m->stream_end);
    lw_builder_program(m->b, 0, r->role);
    for (int32_t i = 0; i < r->n_hosts && r->offset_ns > 0; i++) {
        r->step = 0;
        emit_host(m, r, &r->hosts[i], LW_OP_HOST, "began later", r->offset_ns, NULL, 0);
    }
    for (int64_t i = 0; i < r->p.n; i++)
        LW_TRY(emit_point(m, r, &r->p.points[i]));
    return LW_OK;
}

/* ---- together ---- */

static enum lw_status read_rank(struct maker *m, int32_t k, const struct traces_source *s)
{
    struct rank *r = &m->ranks[k];

    r->s = s;
    r->t = &s->trace;
    r->comm_stream = -1;
    LW_TRY(traces_points_build(s, m->choice->kernels, m->choice->buckets, m->arena, &r->p, m->err));
    if (r->p.n_workers > m->out->n_workers)
        m->out->n_workers = r->p.n_workers;
    if (r->p.n == 0)
        return lw_fail_at(m->err, LW_EFORMAT, s->file, 0,
                          "no event of the host: a replay needs its calls (record with "
                          "ProfilerActivity.CPU)");
    if (r->p.launches.n > 0 && r->p.calls.n_device == 0)
        return lw_fail_at(m->err, LW_EFORMAT, s->file, 0,
                          "%lld device ops and not one call that launched them: a replay needs "
                          "both (record with ProfilerActivity.CPU and CUDA)",
                          (long long)r->p.launches.n);
    return collect_streams(m, r);
}

/* Steps of all ranks are the same ones; a step lasts as long as on the rank where it is longest. */
static enum lw_status take_steps(struct maker *m)
{
    const struct rank *a = &m->ranks[0];
    struct traces_replay *out = m->out;

    out->steps = lw_arena_alloc(m->result, a->p.n_steps, sizeof *out->steps);
    if (!out->steps)
        return lw_fail_nomem(m->err);
    out->n_steps = (int32_t)a->p.n_steps;
    for (int32_t k = 0; k < m->n; k++) {
        const struct rank *r = &m->ranks[k];
        out->n_before |= r->p.points[0].step < 0;
        bool same = r->p.n_steps == a->p.n_steps;
        for (int64_t i = 0; same && i < a->p.n_steps; i++)
            same = strcmp(r->p.steps[i].name, a->p.steps[i].name) == 0;
        if (!same)
            return lw_fail(m->err, LW_EFORMAT,
                           "%s and %s hold different steps (%lld and %lld): "
                           "ranks of one run, recorded in the same steps, can be replayed together",
                           a->s->file, r->s->file, (long long)a->p.n_steps,
                           (long long)r->p.n_steps);
    }
    for (int32_t i = 0; i < out->n_steps; i++) {
        struct traces_replay_step *s = &out->steps[i];
        s->name = lw_arena_strdup(m->result, a->p.steps[i].name);
        s->first = lw_arena_alloc(m->result, m->n, sizeof *s->first);
        s->last = lw_arena_alloc(m->result, m->n, sizeof *s->last);
        s->of_rank = lw_arena_alloc(m->result, m->n, sizeof *s->of_rank);
        if (!s->name || !s->first || !s->last || !s->of_rank)
            return lw_fail_nomem(m->err);
        for (int32_t k = 0; k < m->n; k++) {
            const struct traces_range *x = &m->ranks[k].p.steps[i];
            s->of_rank[k] = lw_ns_to_ps(x->end_ns - x->start_ns);
            s->recorded = s->of_rank[k] > s->recorded ? s->of_rank[k] : s->recorded;
        }
    }
    return LW_OK;
}

/* When each rank begins, on the common clock. */
static enum lw_status align(struct maker *m)
{
    int64_t first = INT64_MAX, base = m->ranks[0].t->base_ns;

    for (int32_t k = 0; k < m->n; k++) {
        struct rank *r = &m->ranks[k];
        if (__builtin_sub_overflow(r->t->base_ns, base, &r->offset_ns) ||
            __builtin_add_overflow(r->offset_ns, r->p.start_ns, &r->offset_ns))
            r->offset_ns = INT64_MAX;
        first = r->offset_ns < first ? r->offset_ns : first;
    }
    for (int32_t k = 0; k < m->n; k++) {
        struct rank *r = &m->ranks[k];
        if (__builtin_sub_overflow(r->offset_ns, first, &r->offset_ns) ||
            r->offset_ns > INT64_MAX / 8000)
            return lw_fail(m->err, LW_EFORMAT,
                           "%s begins more than 13 days after another rank: "
                           "not one run, or clocks that differ",
                           r->s->file);
        m->out->n_before |= r->offset_ns > 0;
    }
    return LW_OK;
}

static enum lw_status number_ranks(struct maker *m)
{
    m->out->rank_of_file = lw_arena_alloc(m->result, m->n, sizeof *m->out->rank_of_file);
    if (!m->out->rank_of_file)
        return lw_fail_nomem(m->err);
    for (int32_t k = 0; k < m->n; k++) {
        int32_t rank = m->ranks[k].t->rank;
        for (int32_t j = 0; j < k && rank >= 0; j++)
            if (m->ranks[j].t->rank == rank)
                return lw_fail(m->err, LW_EFORMAT, "%s and %s both say they are rank %d",
                               m->ranks[j].s->file, m->ranks[k].s->file, rank);
        m->out->rank_of_file[k] = rank;
    }
    return LW_OK;
}

static void add_roles(struct maker *m)
{
    char name[32];

    for (int32_t k = 0; k < m->n; k++) {
        snprintf(name, sizeof name, "rank %d", m->ranks[k].t->rank >= 0 ? m->ranks[k].t->rank : k);
        m->ranks[k].role = lw_builder_role(m->b, &(struct lw_role){.name = name});
        lw_builder_rank(m->b, k, m->ranks[k].role, k, 0, 0);
    }
}

static void add_notes(struct maker *m)
{
    lw_builder_note(m->b,
                    "host time between calls and calls that launch are kept as recorded; time "
                    "blocked in a synchronising call is simulated");
    if (m->n_waits > 0)
        lw_builder_note(m->b,
                        "%lld waits between streams and of the host, %lld of them inferred "
                        "from the order of calls%s",
                        (long long)m->n_waits, (long long)m->n_inferred,
                        m->n_inferred > 0 ? " (the trace holds no cuda_sync events)" : "");
    if (m->n_unexplained > 0)
        lw_builder_note(m->b,
                        "%lld calls waited for something that is not in the trace: their "
                        "%.3f ms are kept as recorded",
                        (long long)m->n_unexplained, (double)m->unexplained / (double)LW_PS_PER_MS);
    if (m->n_orphans > 0)
        lw_builder_note(m->b, "%lld device ops were launched before the recording: they run first",
                        (long long)m->n_orphans);
    if (m->n == 1 && m->cross.n_classes > 0)
        lw_builder_note(m->b, "collectives keep their recorded times, waiting for other ranks "
                              "inside: give the traces of all ranks to simulate it");
    if (m->n > 1)
        lw_builder_note(m->b, "host clocks of the ranks are taken as common");
    const struct traces_points *p = &m->ranks[0].p;
    if (m->choice->buckets)
        lw_builder_note(m->b,
                        "what-if: %lld buckets instead of the %lld recorded in all steps, "
                        "launched when their last gradient is there; time by a line through the "
                        "recorded ones%s; the host's time in recorded launches stays, new ones "
                        "take none",
                        (long long)p->n_buckets, (long long)p->n_replaced,
                        m->choice->rule ? " unless the network is asked" : "");
    const struct traces_replay_rule *rule = m->choice->rule;
    if (rule && m->n_guessed > 0)
        lw_builder_note(m->b,
                        "%lld collectives whose ranks the traces do not tell are taken as "
                        "collectives of all ranks",
                        (long long)m->n_guessed);
    for (int k = 0; rule && rule->note && rule->note(rule->ctx, k); k++)
        lw_builder_note(m->b, "%s", rule->note(rule->ctx, k));
}

static enum lw_status make(struct maker *m, const struct traces_source *source)
{
    for (int32_t k = 0; k < m->n; k++)
        LW_TRY(read_rank(m, k, &source[k]));
    LW_TRY(number_ranks(m));
    LW_TRY(take_steps(m));
    LW_TRY(align(m));
    add_roles(m);
    add_streams(m);
    LW_TRY(match_comms(m));
    m->stream_end = lw_arena_alloc(m->arena, m->n_streams, sizeof *m->stream_end);
    if (!m->stream_end)
        return lw_fail_nomem(m->err);
    lw_builder_variant(m->b, "replay", "", true);
    for (int32_t k = 0; k < m->n; k++)
        LW_TRY(emit_rank(m, &m->ranks[k]));
    lw_builder_pass(m->b, 0);
    add_notes(m);
    return LW_OK;
}

static void free_ranks(struct maker *m)
{
    for (int32_t k = 0; m->ranks && k < m->n; k++) {
        traces_launches_free(&m->ranks[k].p.launches);
        for (int32_t i = 0; i < m->ranks[k].n_devices; i++) {
            lw_free(m->ranks[k].devices[i].call);
            lw_free(m->ranks[k].devices[i].op);
        }
    }
}

/* Hand the builder's plan and the table of steps over. */
static enum lw_status finish(struct maker *m)
{
    LW_TRY(lw_builder_finish(m->b, &m->out->plan, m->err)); /* frees the builder in every case */
    if (m->nomem || m->n_ops != m->out->plan.n_ops || lw_arena_adopt(m->result, m->step_of) < 0)
        return lw_fail_nomem(m->err);
    m->out->step_of = m->step_of;
    m->step_of = NULL;
    if (lw_arena_adopt(m->result, m->row_of) < 0)
        return lw_fail_nomem(m->err);
    m->out->row_of = m->row_of;
    m->row_of = NULL;
    m->out->n_ranks = m->n;
    return lw_plan_check(&m->out->plan, m->err);
}

enum lw_status traces_replay_build(const struct traces_source *source, int n,
                                   const struct traces_replay_choice *choice,
                                   struct traces_replay *out, struct lw_err *err)
{
    struct traces_replay result = {0};
    struct lw_arena scratch = {0};
    struct maker m = {.choice = choice,
                      .arena = &scratch,
                      .result = &result.arena,
                      .n = n,
                      .out = &result,
                      .err = err};
    enum lw_status status = LW_OK;

    m.ranks = lw_arena_alloc(&scratch, n, sizeof *m.ranks);
    m.b = lw_builder_new("replay", n);
    if (!m.ranks || !m.b)
        status = lw_fail_nomem(err);
    if (status == LW_OK)
        status = make(&m, source);
    if (status == LW_OK)
        status = finish(&m);
    else
        lw_builder_free(m.b);
    free_ranks(&m);
    lw_free(m.step_of);
    lw_free(m.end_of);
    lw_free(m.row_of);
    lw_arena_free(&scratch);
    if (status != LW_OK)
        traces_replay_free(&result);
    else
        *out = result;
    return status;
}

struct lw_cluster traces_replay_cluster(const struct traces_replay *r)
{
    struct lw_cluster x = {.name = LW_RECORDED_CLUSTER,
                           .devices_per_node = 1 << 20,
                           .library = "",
                           .library_version = "",
                           .calibrated = true};

    x.device.kind = "as recorded";
    x.about = "the machines of the recording: every op takes its recorded time";
    if (r->n_workers > 1)
        x.interference.comm_workers =
            (struct lw_figure){r->n_workers, "threads that ran collectives in the traces"};
    return x;
}

void traces_replay_free(struct traces_replay *r)
{
    lw_plan_free(&r->plan);
    lw_arena_free(&r->arena);
    *r = (struct traces_replay){0};
}

lw_ps traces_replay_length(const struct traces_replay *r, const struct lw_timeline *t, int32_t step,
                           int32_t rank)
{
    const struct traces_replay_step *s = &r->steps[step];
    lw_ps longest = 0;

    for (int32_t k = 0; k < r->n_ranks; k++) {
        lw_ps length = t->start[s->last[k]] - t->start[s->first[k]];
        if ((rank < 0 || rank == k) && length > longest)
            longest = length;
    }
    return longest;
}

enum lw_status traces_replay_divide(const struct traces_replay *r, struct lw_timeline *t,
                                    struct lw_err *err)
{
    for (int64_t i = 0; i < t->n; i++)
        t->step[i] = r->step_of[t->op[i]];
    return lw_timeline_sort(t, err);
}

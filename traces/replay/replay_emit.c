/* The ops of one rank of a replay, in the order of host time (to_replay.c says what they mean).
 *
 * Beside the plan a forward recurrence over the same ops with recorded times (end_of, stream_end)
 * says how long each waiting call can be explained by its work; it serves that question alone. */
#include <stdio.h>
#include <string.h>

#include "shared/numbers/checked.h"
#include "traces/replay/replay_state.h"

enum {
    LEAST_SILENCE_NS = 100000,     /* of a thread while another works, to be a wait for it */
    LEAST_UNEXPLAINED_NS = 200000, /* of a waiting call that its work does not explain */
};

/* ---- ops ---- */

/* recorded: its time here, which a rule or other ranks do not change. */
static int32_t emit(struct replay_maker *m, const struct replay_rank *r, const struct lw_op *op,
                    lw_ps recorded, const int32_t *deps, int32_t n_deps)
{
    int32_t id = lw_builder_op(m->b, op, deps, n_deps);
    lw_ps start = m->stream_end[op->stream];

    struct replay_op *ops = lw_arena_more(m->arena, m->ops, m->n_ops, sizeof *m->ops);

    m->nomem = m->nomem || id < 0 || !ops;
    if (m->nomem)
        return id;
    m->ops = ops;
    for (int32_t i = 0; i < n_deps; i++)
        start = m->ops[deps[i]].end > start ? m->ops[deps[i]].end : start;
    m->stream_end[op->stream] = start + recorded;
    m->ops[m->n_ops++] = (struct replay_op){r->step, -1, 0, -1, start + recorded};
    return id;
}

/* The op added last was recorded at that moment of its rank; row -1: a mark of the host. */
static void note_recorded(struct replay_maker *m, const struct replay_rank *r, int64_t row,
                          int64_t start_ns, int64_t dur_ns)
{
    if (m->nomem)
        return;
    struct replay_op *op = &m->ops[m->n_ops - 1];
    op->row = row;
    op->recorded_start = lw_ns_to_ps(start_ns - r->p.start_ns + r->offset_ns);
    op->recorded_time = lw_ns_to_ps(dur_ns);
}

/* What the host's own work takes, of which the profiler's may be taken out. */
static lw_ps host_time(const struct replay_maker *m, int64_t ns)
{
    lw_ps time = lw_ns_to_ps(ns > 0 ? ns : 0);

    return m->choice->host_scale > 0 ? lw_round_sat((double)time * m->choice->host_scale) : time;
}

static int32_t emit_host(struct replay_maker *m, struct replay_rank *r, struct replay_host *h,
                         enum lw_op_kind kind, const char *name, int64_t ns, const int32_t *deps,
                         int32_t n_deps)
{
    struct lw_op op = lw_builder_blank(kind, h->stream);

    op.name = name;
    op.work_ps = host_time(m, ns);
    return h->last_op = emit(m, r, &op, lw_ns_to_ps(ns > 0 ? ns : 0), deps, n_deps);
}

/* The host's own time in [from, to): of a recording without device ops first what it computed. */
static void emit_own(struct replay_maker *m, struct replay_rank *r, struct replay_host *h,
                     const char *name, int64_t from, int64_t to, const int32_t *after)
{
    int64_t busy = traces_host_busy_ns(&h->busy, from, to);

    if (busy > 0) {
        emit_host(m, r, h, LW_OP_KERNEL, "ops of the host", replay_compute_alone(m, r, h, from, to),
                  after, after != NULL);
        note_recorded(m, r, -1, from, busy);
        after = NULL;
    }
    if (busy == 0 || to - from > busy)
        emit_host(m, r, h, LW_OP_HOST, name, to - from - busy, after, after != NULL);
}

/* The host's own time up to ns: since the thread's last op, or, where it was silent while another
 * thread made calls, since that one's last. */
static void emit_gap(struct replay_maker *m, struct replay_rank *r, struct replay_host *h,
                     int64_t ns)
{
    const struct replay_host *other = r->last_host >= 0 ? &r->hosts[r->last_host] : h;

    if (other != h && r->last_end > h->cursor && r->last_end <= ns &&
        ns - h->cursor >= LEAST_SILENCE_NS) {
        emit_own(m, r, h, "after another thread", r->last_end, ns, &other->last_op);
    } else if (ns > h->cursor) {
        emit_own(m, r, h, "between calls", h->cursor, ns, NULL);
    }
    h->cursor = ns > h->cursor ? ns : h->cursor;
}

/* What is left of a point's own time: a call inside another one's time has only what sticks out. */
static int64_t rest_of(const struct replay_host *h, const struct traces_point *x)
{
    int64_t from = x->ns > h->cursor ? x->ns : h->cursor;

    return x->end_ns > from ? x->end_ns - from : 0;
}

/* The host waits for ops. A long wait of which they explain less than a quarter (by the recorded
 * times of this rank alone) was for something that is not in the trace: it is kept after them. */
static void emit_wait(struct replay_maker *m, struct replay_rank *r, struct replay_host *h,
                      const char *name, int64_t blocked_ns, const int32_t *deps, int32_t n)
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

static enum lw_status note_device_op(struct replay_maker *m, struct replay_device *d, int64_t call,
                                     int32_t op)
{
    struct replay_emitted *ops = lw_arena_more(m->arena, d->ops, d->n, sizeof *ops);

    if (!ops)
        return lw_fail_nomem(m->err);
    d->ops = ops;
    d->ops[d->n++] = (struct replay_emitted){call, op};
    return LW_OK;
}

/* The last op on a device stream that was launched up to a call; -1 = none. */
static int32_t last_op_upto(const struct replay_device *d, int64_t call)
{
    int64_t n = lw_items_upto(d->ops, d->n, sizeof *d->ops, call);

    return n > 0 ? d->ops[n - 1].op : -1;
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
static enum lw_status time_of(struct replay_maker *m, const struct traces_replay_op *x, lw_ps *time)
{
    *time = x->recorded;
    return m->choice->rule ? m->choice->rule->time(m->choice->rule->ctx, x, time, m->err) : LW_OK;
}

/* The step that is emitted is one of those that the period is taken from. */
static bool is_measured(const struct replay_maker *m, const struct replay_rank *r)
{
    int32_t first = m->out->has_device && m->out->n_steps > 1;

    return r->step > first;
}

/* The inputs of the innermost product around a launch. */
static struct lw_kernel_type type_of(const struct replay_rank *r, int64_t call)
{
    const struct lw_trace *t = r->t;
    struct lw_kernel_type none = {.dtype = LW_F32};
    int64_t row = call >= 0 && call < r->p.calls.n ? r->p.calls.calls[call].row : -1;
    int64_t i = row >= 0 ? lw_trace_rows_upto(t, r->typed, r->n_typed, t->start_ns[row]) - 1 : -1;

    for (int64_t tries = 0; i >= 0 && tries < 8; i--, tries++) {
        int64_t op = r->typed[i];
        if (t->track[op] == t->track[row] && lw_trace_end_ns(t, op) >= lw_trace_end_ns(t, row))
            return lw_kernel_type_named(lw_trace_text(t, lw_trace_detail(t, op)->shape_type));
    }
    return none;
}

static enum lw_status fill_comm(struct replay_maker *m, const struct replay_rank *r, int64_t row,
                                struct lw_op *op)
{
    const struct traces_comm_item *item = &r->comms.items[r->comm_of[row] - 1];
    const struct traces_comm_class *c = &m->cross.classes[item->class];
    const struct replay_rank *first = &m->ranks[c->members[0]];
    const struct traces_comm_fact *f = &item->fact;
    int64_t ns = replay_comm_alone(m, r, row);
    struct traces_replay_op x = {.name = op->name,
                                 .comm = true,
                                 .kind = traces_comm_kind(f->op),
                                 .dtype = dtype_of(f),
                                 .bytes = gathered_bytes(f),
                                 .group_size = f->group_size,
                                 .recorded = lw_ns_to_ps(ns),
                                 .flops = -1,
                                 .moved = -1,
                                 .measured = is_measured(m, r)};

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
    op->bytes = x.bytes > 0 && x.kind != LW_OP_BARRIER ? x.bytes : 0;
    op->peer = x.kind == LW_OP_BROADCAST || x.kind == LW_OP_REDUCE
                   ? (c->matched ? c->members[0] : (int32_t)(r - m->ranks))
                   : -1;
    LW_TRY(time_of(m, &x, &op->work_ps));
    op->work_ps = op->work_ps > 0 ? op->work_ps : 1; /* 0 would ask the cluster */
    const char *bucket = r->bucket_name[r->comm_of[row] - 1];
    op->name = bucket ? bucket : op->name;
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

static enum lw_status emit_device(struct replay_maker *m, struct replay_rank *r, int64_t row,
                                  int64_t call, int32_t launch)
{
    struct replay_device *d = replay_device_of(r, r->t->track[row]);
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
        struct traces_replay_op x = {.name = name,
                                     .kind = LW_OP_KERNEL,
                                     .dtype = LW_U8,
                                     .bytes = -1,
                                     .group_size = -1,
                                     .recorded = op.work_ps,
                                     .flops = -1,
                                     .moved = -1,
                                     .measured = is_measured(m, r),
                                     .type = type_of(r, launch >= 0 ? call : -1)};
        LW_TRY(time_of(m, &x, &op.work_ps));
    }
    if (m->choice->no_backlog && launch < 0 && r->last_call < 0)
        op.work_ps = op.kind == LW_OP_KERNEL || op.kind == LW_OP_COPY ? 0 : 1;
    d->last_op = emit(m, r, &op, recorded, &launch, launch >= 0);
    note_recorded(m, r, row, r->t->start_ns[row], r->t->dur_ns[row]);
    return note_device_op(m, d, call, d->last_op);
}

/* Device ops without a launch that come before what this call launched. */
static enum lw_status emit_orphans(struct replay_maker *m, struct replay_rank *r, int64_t call)
{
    const struct traces_points *p = &r->p;

    for (; r->next_orphan < p->n_orphans && p->before[r->next_orphan] <= call; r->next_orphan++) {
        LW_TRY(emit_device(m, r, p->orphan[r->next_orphan], call, -1));
        m->n_orphans++;
    }
    return LW_OK;
}

/* A copy from pageable memory moves while its call stages the rest: the copy's own time, if the
 * call lasts that long, is beside it. */
static int64_t staged_ns(const struct replay_rank *r, const struct traces_call *c, int64_t rest)
{
    int64_t row = r->p.calls.device[c->first_device], dur = r->t->dur_ns[row];
    const char *name = lw_trace_name(r->t, row);

    if (c->kind != TRACES_CALL_LAUNCH || !strstr(name, "HtoD") || !strstr(name, "Pageable"))
        return 0;
    return dur < rest ? dur : 0;
}

/* The stream of a collective waits for the launch before it, as in every framework; this file holds
 * no stream waits. */
static void follow(struct replay_maker *m, struct replay_rank *r, const struct traces_call *c)
{
    struct replay_device *d = replay_device_of(r, c->stream);
    struct replay_device *on = replay_device_of(r, r->p.calls.calls[c->follows].stream);
    int32_t op = on ? last_op_upto(on, c->follows) : -1;

    if (!d || op < 0)
        return;
    struct lw_op wait = lw_builder_blank(LW_OP_EVENT_WAIT, d->stream);
    wait.work_ps = 0;
    d->last_op = emit(m, r, &wait, 0, &op, 1);
}

static enum lw_status emit_launch(struct replay_maker *m, struct replay_rank *r,
                                  struct replay_host *h, const struct traces_point *x,
                                  const struct traces_call *c)
{
    bool blocks = c->kind == TRACES_CALL_COPY;
    int64_t rest = rest_of(h, x), least = r->p.own_ns[r->t->name[c->row]];
    int64_t own = blocks && least < rest ? least : rest;
    int64_t beside = staged_ns(r, c, rest);
    int32_t last = -1;

    own -= beside;
    LW_TRY(emit_orphans(m, r, x->index));
    bool after = blocks && r->p.own_after[r->t->name[c->row]];
    int32_t launch = emit_host(m, r, h, LW_OP_LAUNCH, lw_trace_name(r->t, c->row), after ? 0 : own,
                               NULL, 0);
    if (c->follows >= 0)
        follow(m, r, c);
    for (int64_t i = 0; i < c->n_device; i++) {
        int64_t row = r->p.calls.device[c->first_device + i];
        LW_TRY(emit_device(m, r, row, x->index, launch));
        last = replay_device_of(r, r->t->track[row])->last_op;
    }
    if (beside > 0)
        emit_host(m, r, h, LW_OP_HOST, "staging the copy", beside, NULL, 0);
    if (blocks)
        emit_wait(m, r, h, "wait for the copy", rest - own, &last, last >= 0);
    if (after)
        emit_host(m, r, h, LW_OP_HOST, lw_trace_name(r->t, c->row), own, NULL, 0);
    return LW_OK;
}

static bool is_new_bucket(const struct replay_rank *r, int32_t op)
{
    for (int64_t i = 0; op >= 0 && i < r->p.n_buckets; i++)
        if (r->bucket_op[i] == op)
            return true;
    return false;
}

/* What a wait is for: ops, the last on each stream concerned. */
static int32_t awaited(struct replay_maker *m, struct replay_rank *r, const struct traces_call *c,
                       int32_t *deps, int32_t room)
{
    int64_t bucket = r->p.new_of_call ? r->p.new_of_call[c->upto] : -1;
    int32_t n = 0;

    if (bucket >= 0 && r->bucket_op[bucket] >= 0) {
        deps[n++] = r->bucket_op[bucket];
        m->n_bucket_waits++;
        return n;
    }
    if (r->record_op[c->upto] >= 0) {
        deps[n++] = r->record_op[c->upto];
        return n;
    }
    for (int32_t i = 0; i < r->n_devices && n < room; i++)
        if (c->on_stream < 0 || r->devices[i].id == c->on_stream) {
            int32_t op = last_op_upto(&r->devices[i], c->upto);
            if (op >= 0)
                deps[n++] = op;
            m->n_bucket_waits += is_new_bucket(r, op);
        }
    return n;
}

static enum lw_status emit_record(struct replay_maker *m, struct replay_rank *r,
                                  struct replay_host *h, const struct traces_point *x,
                                  const struct traces_call *c)
{
    struct replay_device *d = replay_device_of(r, c->stream);

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

static enum lw_status emit_stream_wait(struct replay_maker *m, struct replay_rank *r,
                                       struct replay_host *h, const struct traces_point *x,
                                       const struct traces_call *c)
{
    struct replay_device *d = replay_device_of(r, c->stream);
    int32_t deps[2];

    deps[0] = emit_host(m, r, h, LW_OP_LAUNCH, lw_trace_name(r->t, c->row), rest_of(h, x), NULL, 0);
    if (!d || awaited(m, r, c, deps + 1, 1) == 0)
        return LW_OK;
    struct lw_op op = lw_builder_blank(LW_OP_EVENT_WAIT, d->stream);
    op.work_ps = 0;
    d->last_op = emit(m, r, &op, 0, deps, 2);
    return LW_OK;
}

static enum lw_status emit_sync(struct replay_maker *m, struct replay_rank *r,
                                struct replay_host *h, const struct traces_point *x,
                                const struct traces_call *c)
{
    int64_t rest = rest_of(h, x), least = r->p.own_ns[r->t->name[c->row]];
    int64_t own = least < rest ? least : rest;
    const char *name = lw_trace_name(r->t, c->row);
    int32_t *deps = lw_alloc((size_t)(r->n_devices + 1) * sizeof *deps);

    if (!deps)
        return lw_fail_nomem(m->err);
    bool after = r->p.own_after[r->t->name[c->row]];
    if (!after)
        emit_host(m, r, h, LW_OP_HOST, name, own, NULL, 0);
    int32_t n = awaited(m, r, c, deps, r->n_devices);
    emit_wait(m, r, h, name, rest - own, deps, n);
    if (after)
        emit_host(m, r, h, LW_OP_HOST, name, own, NULL, 0);
    lw_free(deps);
    return LW_OK;
}

static enum lw_status emit_call(struct replay_maker *m, struct replay_rank *r,
                                struct replay_host *h, const struct traces_point *x)
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

/* A collective that the host runs: it is handed over after the shortest such call, or when it began
 * to run; what a call lasts longer, its thread stood still or worked while the collective ran. One
 * that a what-if replaces takes no time. */
static enum lw_status emit_issue(struct replay_maker *m, struct replay_rank *r,
                                 struct replay_host *h, const struct traces_point *x)
{
    const struct traces_host_comm *c = &r->p.comms[x->index];
    struct lw_op op = lw_builder_blank(LW_OP_ALL_REDUCE, r->comm_stream);
    int64_t rest = rest_of(h, x), least = r->p.own_ns[r->t->name[c->issue]];
    int64_t own = least < rest ? least : rest, ran = c->start_ns - (x->end_ns - rest);

    own = ran >= 0 && ran < own ? ran : own;
    if (r->p.replaced_comm && r->p.replaced_comm[x->index])
        return LW_OK;
    int32_t launch = emit_host(m, r, h, LW_OP_LAUNCH, lw_trace_name(r->t, c->issue), own, NULL, 0);
    op.name = lw_trace_name(r->t, c->row);
    if (strcmp(op.name, "gloo:send") == 0)
        op.stream = r->send_stream;
    LW_TRY(fill_comm(m, r, c->row, &op));
    r->run_op[x->index] = emit(m, r, &op, lw_ns_to_ps(c->dur_ns), &launch, 1);
    note_recorded(m, r, c->row, r->t->start_ns[c->row], c->dur_ns);
    if (rest > own)
        emit_own(m, r, h, "while a collective runs", x->end_ns - (rest - own), x->end_ns, NULL);
    return LW_OK;
}

/* A host thread waits for a collective of the host; op -1: for nothing. */
static void emit_host_wait(struct replay_maker *m, struct replay_rank *r, struct replay_host *h,
                           int32_t op)
{
    emit_host(m, r, h, LW_OP_HOST_SYNC, "wait for a collective", 0, &op, op >= 0);
}

static enum lw_status emit_bucket(struct replay_maker *m, struct replay_rank *r,
                                  struct replay_host *h, const struct traces_point *x)
{
    const struct traces_bucket *b = &r->p.buckets[x->index];
    const struct traces_comm_item *like = &r->comms.items[r->comm_of[b->like] - 1];
    struct replay_device *d =
        lw_trace_on_host(r->t, b->like) ? NULL : replay_device_of(r, r->t->track[b->like]);
    struct replay_device *on = h->launched > -2 ? replay_device_of(r, h->launched) : NULL;
    struct lw_op op = lw_builder_blank(LW_OP_ALL_REDUCE, d ? d->stream : r->comm_stream);
    int32_t group = like->fact.group_size > 0 ? like->fact.group_size : r->t->world_size;
    struct traces_replay_op y = {.name = "a new bucket",
                                 .comm = true,
                                 .kind = LW_OP_ALL_REDUCE,
                                 .dtype = b->dtype,
                                 .bytes = b->bytes,
                                 .group_size = group > 0  ? group
                                               : m->n > 1 ? m->n
                                                          : -1,
                                 .recorded = replay_bucket_time(r, b),
                                 .flops = -1,
                                 .moved = -1,
                                 .measured = true};
    int32_t deps[2], n = 1;

    deps[0] = emit_host(m, r, h, LW_OP_LAUNCH, "launch of a new bucket", b->launch_ns, NULL,
                        0);
    if (d && on && on->last_op >= 0)
        deps[n++] = on->last_op;
    LW_TRY(replay_bucket_name(m, b->number, " (new)", b->bytes, b->n_gradients, &op.name));
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

/* A new bucket is waited for before its gradients are copied out: by the thread where the host runs
 * it, else by the stream on which the thread launched last. */
static void emit_bucket_wait(struct replay_maker *m, struct replay_rank *r, struct replay_host *h,
                             int64_t bucket)
{
    struct replay_device *on = h->launched > -2 ? replay_device_of(r, h->launched) : NULL;
    int32_t op = r->bucket_op[bucket];

    m->n_bucket_waits++;
    if (lw_trace_on_host(r->t, r->p.buckets[bucket].like)) {
        emit_host_wait(m, r, h, op);
    } else if (on && op >= 0) {
        struct lw_op wait = lw_builder_blank(LW_OP_EVENT_WAIT, on->stream);
        wait.work_ps = 0;
        on->last_op = emit(m, r, &wait, 0, &op, 1);
    }
}

static void emit_mark(struct replay_maker *m, struct replay_rank *r, struct replay_host *h,
                      const struct traces_point *x)
{
    const struct traces_range *s = &r->p.steps[x->index];
    struct traces_replay_step *step = &m->out->steps[x->index];
    bool begins = x->kind == TRACES_POINT_STEP_BEGIN;
    char text[96];

    shorten(s->name, text, sizeof text - 8);
    strcat(text, begins ? " begins" : " ends");
    int32_t op = emit_host(m, r, h, LW_OP_HOST, text, 0, NULL, 0);
    note_recorded(m, r, -1, begins ? s->start_ns : s->end_ns, 0);
    (begins ? step->first : step->last)[r - m->ranks] = op;
}

static enum lw_status emit_point(struct replay_maker *m, struct replay_rank *r,
                                 const struct traces_point *x)
{
    struct replay_host *h = replay_host_of(r, x->thread);
    enum lw_status status = LW_OK;
    int64_t lag;

    r->step = x->step + 1;
    emit_gap(m, r, h, x->ns);
    switch (x->kind) {
    case TRACES_POINT_CALL:
        status = emit_call(m, r, h, x);
        break;
    case TRACES_POINT_ISSUE:
        status = emit_issue(m, r, h, x);
        break;
    case TRACES_POINT_WAIT:
        emit_host_wait(m, r, h, r->run_op[x->index]);
        lag = replay_lag_ns(m, r, r->p.comms[x->index].row);
        if (lag > 0)
            emit_host(m, r, h, LW_OP_HOST, "until its thread ran", lag, NULL, 0);
        break;
    case TRACES_POINT_BUCKET_WAIT:
        emit_bucket_wait(m, r, h, x->index);
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

enum lw_status replay_emit_rank(struct replay_maker *m, struct replay_rank *r)
{
    LW_TAKE(m->arena, r->record_op, r->p.calls.n, m->err);
    LW_TAKE(m->arena, r->run_op, r->p.n_comms, m->err);
    LW_TAKE(m->arena, r->bucket_op, r->p.n_buckets, m->err);
    memset(r->bucket_op, 0xff, (size_t)r->p.n_buckets * sizeof *r->bucket_op);
    memset(r->record_op, 0xff, (size_t)r->p.calls.n * sizeof *r->record_op);
    memset(r->run_op, 0xff, (size_t)r->p.n_comms * sizeof *r->run_op);
    r->last_host = -1;
    r->last_call = -1;
    memset(m->stream_end, 0, (size_t)m->n_streams * sizeof *m->stream_end);
    lw_builder_program(m->b, 0, r->role);
    for (int32_t i = 0; i < r->n_hosts && r->offset_ns > 0; i++) {
        r->step = 0;
        emit_host(m, r, &r->hosts[i], LW_OP_HOST, "began later", r->offset_ns, NULL, 0);
    }
    LW_TRY(emit_orphans(m, r, TRACES_BEFORE_ALL));
    for (int64_t i = 0; i < r->p.n; i++)
        LW_TRY(emit_point(m, r, &r->p.points[i]));
    return LW_OK;
}

/* A recorded run as a plan.
 *
 * Each host thread and each device stream of a rank is a stream of the plan. In the order of host
 * time the ops of a rank are emitted: the host's own time between two calls (host), a call that
 * hands work to the device (launch) with the device ops after it, a record on its stream, a wait
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
 * Several ranks: collectives that can be matched (traces/steps/cross_rank.c) take the shortest
 * recorded time from the entry of the last member; their waiting is simulated. Others keep their
 * recorded time, with waiting inside. Host clocks are taken as common after adding each file's
 * base, unless the ends of their collectives tell how far they are apart.
 *
 * Not modelled: implicit synchronisation (cudaMalloc, cudaFree), polling, a full launch queue: they
 * stay in the host's own time. */
#include "traces/replay/to_replay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "traces/replay/replay_state.h"

/* In the worst case all durations follow each other: their sum must fit the clock of picoseconds.
 */
static enum lw_status check_sum(const struct traces_source *s, struct lw_err *err)
{
    const int64_t most = INT64_MAX / 4000;
    int64_t sum = 0;

    for (int64_t i = 0; i < s->trace.n && sum <= most; i++)
        if (s->trace.dur_ns[i] > most ||
            (lw_trace_on_device(&s->trace, i) && (sum += s->trace.dur_ns[i]) > most))
            return lw_fail_at(err, LW_EFORMAT, s->file, 0,
                              "its device ops add up to more than 26 days");
    return LW_OK;
}

/* Recorded times count from the host's first moment, on the clock of picoseconds. */
static enum lw_status check_span(const struct traces_source *s, int64_t start_ns,
                                 struct lw_err *err)
{
    const int64_t most = INT64_MAX / 8000;
    int64_t from;

    for (int64_t i = 0; i < s->trace.n; i++)
        if (__builtin_sub_overflow(s->trace.start_ns[i], start_ns, &from) || from > most ||
            from < -most)
            return lw_fail_at(err, LW_EFORMAT, s->file, 0,
                              "'%.40s' begins more than 13 days before or after the first call of "
                              "the host",
                              lw_trace_name(&s->trace, i));
    return LW_OK;
}

static enum lw_status read_rank(struct replay_maker *m, int32_t k, const struct traces_source *s)
{
    struct replay_rank *r = &m->ranks[k];

    r->s = s;
    r->t = &s->trace;
    r->comm_stream = r->send_stream = -1;
    LW_TRY(check_sum(s, m->err));
    LW_TRY(traces_points_build(s, m->choice->kernels, m->choice->buckets, m->arena, &r->p, m->err));
    if (r->p.n_workers > m->out->n_workers)
        m->out->n_workers = r->p.n_workers;
    if (r->p.n == 0)
        return lw_fail_at(m->err, LW_EFORMAT, s->file, 0,
                          "no event of the host: a replay needs its calls (record with "
                          "ProfilerActivity.CPU)");
    LW_TRY(check_span(s, r->p.start_ns, m->err));
    if (r->p.launches.n > 0 && r->p.calls.n_device == 0)
        return lw_fail_at(m->err, LW_EFORMAT, s->file, 0,
                          "%lld device ops and not one call that launched them: a replay needs "
                          "both (record with ProfilerActivity.CPU and CUDA)",
                          (long long)r->p.launches.n);
    if (k == 0)
        LW_TRY(traces_device_gap(r->t, &r->p.launches, m->arena, &m->gap, m->err));
    int64_t repeated = traces_repeated_rows(&s->trace), lost;
    if (repeated > 0)
        return lw_fail_at(m->err, LW_EFORMAT, s->file, 0,
                          "%lld device op%s there twice, with the same launch, stream, start and "
                          "length: write the trace again", (long long)repeated,
                          repeated == 1 ? " is" : "s are");
    LW_TRY(traces_lost_launches(&s->trace, &r->p.launches, &lost, m->err));
    m->n_lost += lost;
    m->out->n_lost += lost;
    return replay_collect_streams(m, r);
}

/* Steps of all ranks are the same ones; a step lasts as long as on the rank where it is longest. */
static enum lw_status take_steps(struct replay_maker *m)
{
    const struct replay_rank *a = &m->ranks[0];
    struct traces_replay *out = m->out;

    LW_TAKE(m->result, out->steps, a->p.n_steps, m->err);
    out->n_steps = (int32_t)a->p.n_steps;
    out->marked = a->p.marked;
    for (int32_t k = 0; k < m->n; k++) {
        const struct replay_rank *r = &m->ranks[k];
        out->has_device |= r->p.launches.n > 0;
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
        LW_PRINT(m->result, s->name, m->err, "%s", a->p.steps[i].name);
        LW_TAKE(m->result, s->first, m->n, m->err);
        LW_TAKE(m->result, s->last, m->n, m->err);
        LW_TAKE(m->result, s->host_of_rank, m->n, m->err);
        for (int32_t k = 0; k < m->n; k++) {
            const struct traces_range *x = &m->ranks[k].p.steps[i];
            s->host_of_rank[k] = lw_ns_to_ps(x->end_ns - x->start_ns);
            s->host = s->host_of_rank[k] > s->host ? s->host_of_rank[k] : s->host;
        }
    }
    return LW_OK;
}

/* How long the device had run ops launched before the recording when the host made its first call.
 * These ops come before all others, so no start that is computed depends on a recorded one. */
static int64_t lead_ns(const struct replay_maker *m, const struct replay_rank *r)
{
    int64_t first = r->p.start_ns;

    if (m->choice->no_backlog)
        return 0;
    for (int64_t i = 0; i < r->p.n_orphans && r->p.before[i] == TRACES_BEFORE_ALL; i++)
        if (r->t->start_ns[r->p.orphan[i]] < first)
            first = r->t->start_ns[r->p.orphan[i]];
    return r->p.start_ns - first;
}

/* When each rank begins, on the common clock. */
static enum lw_status align(struct replay_maker *m)
{
    int64_t first = INT64_MAX, base = m->ranks[0].t->base_ns;

    for (int32_t k = 0; k < m->n; k++) {
        struct replay_rank *r = &m->ranks[k];
        if (__builtin_sub_overflow(r->t->base_ns, base, &r->offset_ns) ||
            __builtin_add_overflow(r->offset_ns, r->p.start_ns, &r->offset_ns) ||
            __builtin_sub_overflow(r->offset_ns, r->clock_ns, &r->offset_ns))
            r->offset_ns = INT64_MAX;
        int64_t begin = r->offset_ns - lead_ns(m, r);
        first = begin < first ? begin : first;
    }
    for (int32_t k = 0; k < m->n; k++) {
        struct replay_rank *r = &m->ranks[k];
        if (__builtin_sub_overflow(r->offset_ns, first, &r->offset_ns) ||
            r->offset_ns > INT64_MAX / 8000)
            return lw_fail(m->err, LW_EFORMAT,
                           "%s begins more than 13 days after another rank: "
                           "not one run, or clocks that differ",
                           r->s->file);
    }
    return LW_OK;
}

static enum lw_status add_roles(struct replay_maker *m)
{
    char name[32];

    LW_TAKE(m->result, m->out->rank_of_file, m->n, m->err);
    for (int32_t k = 0; k < m->n; k++) {
        m->out->rank_of_file[k] = m->ranks[k].t->rank;
        snprintf(name, sizeof name, "rank %d", m->ranks[k].t->rank >= 0 ? m->ranks[k].t->rank : k);
        m->ranks[k].role = lw_builder_role(m->b, &(struct lw_role){.name = name});
        lw_builder_rank(m->b, k, m->ranks[k].role, k, 0, 0);
    }
    return LW_OK;
}

/* How new buckets are timed, from those of the first rank. */
static void note_bucket_times(struct replay_maker *m)
{
    const struct replay_rank *r = &m->ranks[0];
    const struct replay_bucket_times *x = &r->bucket_times;
    int64_t n_smaller = 0;

    if (m->choice->rule)
        return;
    lw_builder_note(m->b,
                    "what-if: a bucket takes %.3f ms + %.3f ms per MiB, a line through all "
                    "recorded buckets%s%s",
                    x->least_ns / 1e6, x->per_byte * 1048576 / 1e6,
                    x->waits ? ", of those of one size the shortest" : "",
                    r->p.n_comms > 0 ? "; those that move at once share one link" : "");
    if (x->waits && x->sum_excess_ns > 0)
        lw_builder_note(m->b,
                        "what-if: what the %lld recorded buckets took beyond that line, %.3f ms, "
                        "is taken as waiting for other ranks at their last gradient and stays "
                        "there ('import --cluster-out' counts it as latency of every bucket)",
                        (long long)r->p.n_recorded, x->sum_excess_ns / 1e6);
    bool same_below = r->p.n_comms > 0 && !x->waits; /* as the imported cluster has it */
    for (int64_t i = 0; i < r->p.n_buckets && !same_below; i++)
        n_smaller += r->p.buckets[i].bytes < x->smallest;
    if (n_smaller > 0)
        lw_builder_note(m->b,
                        "what-if: %lld new buckets are below %.2f MiB, the smallest recorded one, "
                        "and go down that line; 'sim -w' on the cluster of 'import --cluster-out' "
                        "takes the time of that one for each of them, and is longer",
                        (long long)n_smaller, (double)x->smallest / (1 << 20));
    if (m->core_want >= 1)
        lw_builder_note(m->b,
                        "what-if: 'sim -w' on an imported workload and cluster has a core for "
                        "communication, while collectives keep the times that computing beside "
                        "them cost: shorter where small buckets overlap the backward (to 23 %% "
                        "in recordings like this), longer where a large one does not (to 65 %%)");
    else if (m->core_want > 0)
        lw_builder_note(m->b, "what-if: 'sim -w' on an imported workload and cluster has a core "
                              "for communication, and parts from this replay by the share above "
                              "(to 6.1 %% in recordings like this)");
}

static void note_buckets(struct replay_maker *m)
{
    const struct traces_points *p = &m->ranks[0].p;

    if (p->n_buckets == 0) {
        lw_builder_note(m->b, "what-if: these are the recorded buckets: nothing changes");
        return;
    }
    lw_builder_note(m->b,
                    "what-if: %lld new buckets instead of %lld recorded ones, %lld stay as "
                    "recorded, in all steps; launched when their last gradient is there%s",
                    (long long)p->n_buckets, (long long)p->n_replaced, (long long)p->n_kept,
                    p->n_untyped > 0 ? "; gradients without a recorded type are f32" : "");
    note_bucket_times(m);
    if (m->core_want >= 1)
        lw_builder_note(m->b, "what-if: the processor bounds these collectives, so other buckets "
                              "give the same work in another order "
                              "(docs/design/replay_accuracy.md)");
    else if (m->core_want > 0)
        lw_builder_note(m->b, "what-if: the link bounds these collectives "
                              "(docs/design/replay_accuracy.md)");
}

static void note_waits(struct replay_maker *m)
{
    int64_t disproved = 0, unrecorded = 0;

    if (m->n_waits > 0)
        lw_builder_note(m->b,
                        "%lld waits between streams and of the host, %lld of them inferred "
                        "from the order of calls%s",
                        (long long)m->n_waits, (long long)m->n_inferred,
                        m->n_inferred > 0 ? " (the trace holds no cuda_sync events)" : "");
    if (m->gap.median_ns > 0)
        lw_builder_note(m->b,
                        "the device leaves %.3f us between an op and the next one queued on its "
                        "stream (median of %lld, %.3f ms together): the replay leaves none",
                        (double)m->gap.median_ns / 1e3, (long long)m->gap.n,
                        (double)m->gap.sum_ns / 1e6);
    for (int32_t k = 0; k < m->n; k++) {
        disproved += m->ranks[k].p.calls.n_disproved;
        unrecorded += m->ranks[k].p.calls.n_unrecorded;
    }
    if (disproved > 0)
        lw_builder_note(m->b,
                        "%lld inferred waits dropped: the recorded order of device ops disproves "
                        "them",
                        (long long)disproved);
    if (unrecorded > 0)
        lw_builder_note(m->b,
                        "the trace holds no stream wait: %lld collectives wait for what their "
                        "thread launched before, as frameworks make them",
                        (long long)unrecorded);
}

static void note_profiler(struct replay_maker *m)
{
    if (m->choice->host_scale > 0)
        lw_builder_note(m->b,
                        "host times scaled by %.2f: the step without the profiler took %.3f ms",
                        m->choice->host_scale,
                        (double)m->choice->unprofiled / (double)LW_PS_PER_MS);
    else if (m->out->has_device && !m->ranks[0].s->has_sidecar)
        lw_builder_note(m->b, "the host's times are those of the profiled step, with what the "
                              "profiler costs inside (no sidecar gives the step without it)");
}

static void note_clocks(struct replay_maker *m)
{
    int64_t clock = 0;

    for (int32_t k = 0; k < m->n; k++)
        if (llabs(m->ranks[k].clock_ns) > llabs(clock))
            clock = m->ranks[k].clock_ns;
    if (clock != 0)
        lw_builder_note(m->b,
                        "clocks of the ranks differ by up to %.3f ms, as the ends of their "
                        "collectives tell: taken off",
                        (double)llabs(clock) / 1e6);
    else if (m->n > 1)
        lw_builder_note(m->b, "host clocks of the ranks are taken as common");
}

static void note_cores(struct replay_maker *m)
{
    const struct traces_points *p = &m->ranks[0].p;

    if (m->core_want > 0)
        lw_builder_note(m->b,
                        "collectives of the host share the cores that compute (%s): at the full "
                        "rate of the link they want %.2f of a core",
                        m->ranks[0].s->has_sidecar
                            ? "the sidecar counts no more cores than computing threads"
                            : "no sidecar counts cores: processes compute on all that they have",
                        m->core_want);
    else if (p->n_comms > 0 && p->launches.n == 0)
        lw_builder_note(m->b, "collectives of the host run on cores of their own: the sidecar "
                              "counts more cores than computing threads");
}

/* The first in words; of thousands of ranks the others say the same. */
static void note_joined(struct replay_maker *m)
{
    int32_t n = 0, first = -1;

    for (int32_t k = 0; k < m->n; k++)
        if (m->ranks[k].s->trace.joined >= 0) {
            first = first < 0 ? k : first;
            n++;
        }
    if (n > 0)
        lw_builder_note(m->b, "%s",
                        lw_trace_text(&m->ranks[first].s->trace, m->ranks[first].s->trace.joined));
    if (n > 1)
        lw_builder_note(m->b, "execution traces of %d more ranks joined likewise", n - 1);
}

static void add_notes(struct replay_maker *m)
{
    const struct traces_replay_rule *rule = m->choice->rule;
    bool timed = rule && rule->network;

    lw_builder_note(m->b,
                    "host time between calls and calls that launch are kept as recorded; time "
                    "blocked in a synchronising call is simulated");
    note_profiler(m);
    note_joined(m);
    note_waits(m);
    if (m->n_unexplained > 0)
        lw_builder_note(m->b,
                        "%lld calls waited for something that is not in the trace: their "
                        "%.3f ms are kept as recorded",
                        (long long)m->n_unexplained, (double)m->unexplained / (double)LW_PS_PER_MS);
    if (m->n_lost > 0)
        lw_builder_note(m->b,
                        "%lld launches have no device op: the recorder lost their kernels, so the "
                        "replay does less work than the recorded run",
                        (long long)m->n_lost);
    if (m->choice->no_backlog)
        lw_builder_note(m->b,
                        "what-if: the device catches up with the host, so no work would be queued "
                        "when the recording begins: the %lld device ops launched before it take no "
                        "time",
                        (long long)m->n_orphans);
    else if (m->n_orphans > 0)
        lw_builder_note(m->b, "%lld device ops were launched before the recording: they run first",
                        (long long)m->n_orphans);
    if (m->n == 1 && m->cross.n_classes > 0 && !timed)
        lw_builder_note(m->b, "collectives keep their recorded times, waiting for other ranks "
                              "inside: give the traces of all ranks to simulate it");
    note_clocks(m);
    note_cores(m);
    if (m->choice->buckets)
        note_buckets(m);
    if (rule && m->n_guessed > 0)
        lw_builder_note(m->b,
                        "%lld collectives whose ranks the traces do not contain are taken as "
                        "collectives of all ranks",
                        (long long)m->n_guessed);
    for (int k = 0; rule && rule->note && rule->note(rule->ctx, k); k++)
        lw_builder_note(m->b, "%s", rule->note(rule->ctx, k));
}

/* New buckets that nothing waits for would change nothing. */
static enum lw_status check_buckets(const struct replay_maker *m)
{
    if (!m->choice->buckets || m->ranks[0].p.n_buckets == 0 || m->n_bucket_waits > 0)
        return LW_OK;
    return lw_fail_at(m->err, LW_EINVAL, m->ranks[0].s->file, 0,
                      "no wait for the gradients' all-reduces was found in the trace: other "
                      "buckets would change nothing in this replay (import the trace as a workload "
                      "and ask 'lapwing sim -w' instead)");
}

static enum lw_status make(struct replay_maker *m, const struct traces_source *source)
{
    for (int32_t k = 0; k < m->n; k++)
        LW_TRY(read_rank(m, k, &source[k]));
    LW_TRY(traces_sources_of_one_run(source, m->n, m->err));
    LW_TRY(take_steps(m));
    LW_TRY(add_roles(m));
    replay_add_streams(m);
    LW_TRY(replay_match_comms(m));
    LW_TRY(align(m));
    LW_TRY(replay_share_cores(m));
    m->out->core_want = m->core_want;
    for (int32_t k = 0; k < m->n; k++)
        LW_TRY(replay_time_buckets(m, &m->ranks[k]));
    for (int32_t k = 0; k < m->n; k++)
        LW_TRY(replay_name_buckets(m, &m->ranks[k]));
    LW_TAKE(m->arena, m->stream_end, m->n_streams, m->err);
    lw_builder_variant(m->b, "replay", "", true);
    for (int32_t k = 0; k < m->n; k++)
        LW_TRY(replay_emit_rank(m, &m->ranks[k]));
    lw_builder_pass(m->b, 0);
    add_notes(m);
    m->out->n_new_buckets = m->ranks[0].p.n_buckets;
    return check_buckets(m);
}

/* Hand the builder's plan and the columns of its ops over. */
static enum lw_status finish(struct replay_maker *m)
{
    struct traces_replay *out = m->out;

    LW_TRY(lw_builder_finish(m->b, &out->plan, m->err)); /* frees the builder in every case */
    if (m->nomem || m->n_ops != out->plan.n_ops)
        return lw_fail_nomem(m->err);
    LW_TAKE(m->result, out->step_of, m->n_ops, m->err);
    LW_TAKE(m->result, out->row_of, m->n_ops, m->err);
    LW_TAKE(m->result, out->recorded_start, m->n_ops, m->err);
    LW_TAKE(m->result, out->recorded_time, m->n_ops, m->err);
    for (int32_t i = 0; i < m->n_ops; i++) {
        out->step_of[i] = m->ops[i].step;
        out->row_of[i] = m->ops[i].row;
        out->recorded_start[i] = m->ops[i].recorded_start;
        out->recorded_time[i] = m->ops[i].recorded_time;
    }
    out->n_ranks = m->n;
    return lw_plan_check(&out->plan, m->err);
}

enum lw_status traces_replay_build(const struct traces_source *source, int n,
                                   const struct traces_replay_choice *choice,
                                   struct traces_replay *out, struct lw_err *err)
{
    struct traces_replay result = {0};
    struct lw_arena scratch = {0};
    struct replay_maker m = {.choice = choice, .arena = &scratch, .result = &result.arena, .n = n,
                             .out = &result, .err = err};
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
    lw_arena_free(&scratch);
    LW_GIVE(status, out, result, traces_replay_free(&result));
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
    if (r->n_workers > 1)
        x.interference.shared_link =
            (struct lw_figure){1, "assumed of collectives of the host"};
    if (r->core_want > 0)
        x.interference.comm_on_compute_core =
            (struct lw_figure){r->core_want, "assumed of collectives of the host"};
    return x;
}

void traces_replay_free(struct traces_replay *r)
{
    lw_plan_free(&r->plan);
    lw_arena_free(&r->arena);
    *r = (struct traces_replay){0};
}

/* A run of several processes, and putting together what they did. Each process walks its own rank's
 * programs and verifies its own parameters; rank 0 then collects all timelines. Times of rank r
 * count from the moment its first step was released, on its own clock: they are moved by the
 * difference between that moment and rank 0's, both on rank 0's clock (rendezvous.h says how well
 * that is known). The earliest of those moments becomes time 0 of the whole. */
#include "exec/launch/multi_process.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "exec/backend/contract.h"
#include "exec/run/batch_gaps.h"
#include "shared/base/arena.h"

#define HEAR_NS INT64_C(1000000000) /* rank 0 receives the ops at which ranks stopped */
#define HURRY_NS INT64_C(200000000) /* before a launcher that ended ranks kills them */
#define STAY_NS INT64_C(5000000000) /* the others leave it time to store the run, */
#define LONGER_NS INT64_C(500000000) /* and then rank 1, should rank 0 be lost */
enum { MOST_TURNS = 10 };

struct part { /* what a process sends ahead of its spans */
    int32_t status, verified, honesty, oversubscribed;
    int64_t n_checked_bytes, n_checked_message_bytes, n_consolidated_bytes, n_spans, n_probes;
    int64_t origin_ns;                           /* on rank 0's clock, */
    int64_t clock_error_ns;                      /* known to so much */
    lw_ps over;
    struct exec_device_state state;
    char message[512];
};

struct whole {
    struct lw_exec_result *result;
    struct lw_timeline timeline;
    struct lw_exec_probe *probes;
    int64_t n_probes, probe_capacity;
    int64_t origin_ns;   /* of rank 0 */
    lw_ps earliest;      /* of all origins, counted from rank 0's */
    enum lw_status status;
    struct lw_err why;   /* of the first rank that missed */
};

static enum lw_status add_spans(struct whole *w, const struct lw_span *spans, int64_t n,
                                lw_ps shift, struct lw_err *err)
{
    for (int64_t i = 0; i < n; i++) {
        LW_TRY(lw_timeline_add(&w->timeline, &spans[i], err));
        exec_move_span(&w->timeline, w->timeline.n - 1, shift);
    }
    return LW_OK;
}

static enum lw_status add_probes(struct whole *w, const struct lw_exec_probe *probes, int64_t n,
                                 struct lw_err *err)
{
    LW_ROOM(w->probes, w->probe_capacity, w->n_probes + n, err);
    for (int64_t i = 0; i < n; i++)
        w->probes[w->n_probes++] = probes[i];
    return LW_OK;
}

static int64_t bytes_after(const struct part *p)
{
    return p->n_spans * (int64_t)sizeof(struct lw_span) +
           p->n_probes * (int64_t)sizeof(struct lw_exec_probe);
}

static enum lw_status take(void *context, int32_t rank, const void *data, int64_t bytes,
                           struct lw_err *err)
{
    struct whole *w = context;
    struct lw_exec_result *r = w->result;
    struct part p;

    if (bytes < (int64_t)sizeof p)
        return lw_fail(err, LW_EFAILED, "results of rank %d are cut short", rank);
    memcpy(&p, data, sizeof p);
    if (p.n_spans < 0 || p.n_probes < 0 || bytes != (int64_t)sizeof p + bytes_after(&p))
        return lw_fail(err, LW_EFAILED, "results of rank %d are cut short", rank);
    if (rank == 0) {
        w->origin_ns = p.origin_ns;
    } else {
        r->n_checked_bytes += p.n_checked_bytes;
        r->n_checked_message_bytes += p.n_checked_message_bytes;
        r->n_consolidated_bytes += p.n_consolidated_bytes;
        r->over += p.over;
        if (p.honesty > (int32_t)r->honesty)
            r->honesty = (enum exec_honesty)p.honesty;
        r->oversubscribed |= p.oversubscribed != 0;
        if (p.clock_error_ns > r->clock_error_ns)
            r->clock_error_ns = p.clock_error_ns;
    }
    if (rank < r->n_states)
        r->states[rank] = p.state;
    if (p.verified == LW_EXEC_MISMATCH)
        r->verified = LW_EXEC_MISMATCH;
    if (p.status != LW_OK && w->status == LW_OK) {
        w->status = (enum lw_status)p.status;
        lw_fail(&w->why, w->status, "%.511s", p.message);
    }
    lw_ps shift = lw_ns_to_ps(p.origin_ns - w->origin_ns);
    if (shift < w->earliest)
        w->earliest = shift;
    const void *spans = (const char *)data + sizeof p;
    const void *probes = (const char *)spans + (size_t)p.n_spans * sizeof(struct lw_span);
    LW_TRY(add_probes(w, probes, p.n_probes, err));
    return add_spans(w, spans, p.n_spans, shift, err);
}

static enum lw_status pack(const struct lw_exec_result *r, enum lw_status status,
                           const struct lw_err *why, int64_t offset_ns, void **data,
                           int64_t *bytes, struct lw_err *err)
{
    struct part p = {.status = (int32_t)status,
                     .verified = (int32_t)r->verified,
                     .honesty = (int32_t)r->honesty,
                     .oversubscribed = r->oversubscribed,
                     .n_checked_bytes = r->n_checked_bytes,
                     .n_checked_message_bytes = r->n_checked_message_bytes,
                     .n_consolidated_bytes = r->n_consolidated_bytes,
                     .origin_ns = r->origin_ns + offset_ns,
                     .n_spans = r->timeline.n,
                     .n_probes = r->n_probes,
                     .over = r->over,
                     .state = r->state,
                     .clock_error_ns = r->clock_error_ns};

    snprintf(p.message, sizeof p.message, "%.511s", why->msg);
    *bytes = (int64_t)sizeof p + bytes_after(&p);
    char *to = lw_calloc(1, (size_t)*bytes);
    if (!to)
        return lw_fail_nomem(err);
    memcpy(to, &p, sizeof p);
    for (int64_t i = 0; i < r->timeline.n; i++) {
        struct lw_span s = lw_timeline_get(&r->timeline, i);
        memcpy(to + sizeof p + (size_t)i * sizeof s, &s, sizeof s);
    }
    if (r->n_probes > 0)
        memcpy(to + sizeof p + (size_t)r->timeline.n * sizeof(struct lw_span), r->probes,
               (size_t)r->n_probes * sizeof *r->probes);
    *data = to;
    return LW_OK;
}

static enum lw_status put_together(struct whole *w, struct lw_err *err)
{
    struct lw_timeline *t = &w->timeline;

    for (int64_t i = 0; w->earliest < 0 && i < t->n; i++)
        exec_move_span(t, i, -w->earliest);
    LW_TRY(lw_timeline_sort(t, err));
    lw_timeline_free(&w->result->timeline);
    w->result->timeline = *t;
    *t = (struct lw_timeline){0};
    lw_free(w->result->probes);
    w->result->probes = w->probes;
    w->result->n_probes = w->n_probes;
    w->probes = NULL;
    exec_close_gaps(w->result);
    return LW_OK;
}

/* `ran` is how this process ended: LW_OK or LW_ENO. Rank 0 ends as the first that missed. */
static enum lw_status gather(struct exec_rendezvous *r, const struct exec_identity *id,
                             enum lw_status ran, struct lw_exec_result *out, struct lw_err *err)
{
    struct whole w = {.result = out};
    struct lw_err why = {0};
    void *data = NULL;
    int64_t bytes = 0;

    if (ran != LW_OK)
        why = *err;
    if (id->rank == 0 && out->state.n_readings > 0) {
        out->states = lw_calloc((size_t)id->n_ranks, sizeof *out->states);
        out->n_states = out->states ? id->n_ranks : 0;
    }
    enum lw_status s = pack(out, ran, &why, exec_rendezvous_clock_offset(r), &data, &bytes, err);
    if (s == LW_OK)
        s = exec_rendezvous_gather(r, data, bytes, take, &w, err);
    if (s == LW_OK && id->rank == 0)
        s = put_together(&w, err);
    lw_free(data);
    lw_timeline_free(&w.timeline);
    lw_free(w.probes);
    if (s == LW_OK && id->rank == 0 && w.status != LW_OK) {
        *err = w.why;
        return w.status;
    }
    return s != LW_OK ? s : ran;
}

static bool has_result(enum lw_status s)
{
    return s == LW_OK || s == LW_ENO || s == LW_EFAILED || s == LW_ETIMEOUT;
}

/* After the run: what stopped it is known to all; rank 0 takes everybody's place. */
static void part(struct exec_rendezvous *r, const struct exec_identity *id, int64_t timeout_ns,
                 struct lw_exec_result *out)
{
    struct lw_exec_place mine = {.rank = id->rank, .last_op = -1, .open_op = -1}, *all = NULL;
    bool hurry = id->signal && *id->signal;
    int64_t wait_ns = id->rank != 0 ? STAY_NS : hurry ? HURRY_NS : HEAR_NS;
    int64_t more_ns = id->rank > 1 ? LONGER_NS : 0;

    if (out->n_places > 0)
        mine = out->places[0];
    if (id->rank == 0)
        all = lw_calloc((size_t)id->n_ranks, sizeof *all);
    bool done = exec_rendezvous_stopped_at(r, &mine, (wait_ns < timeout_ns ? wait_ns : timeout_ns) +
                                               more_ns, all);
    out->speaks = id->rank == 0 ? done : !done;
    for (int32_t k = 1; k < id->rank && k < MOST_TURNS && !done; k++) /* lower ranks store first */
        nanosleep(&(struct timespec){0, LONGER_NS}, NULL);
    if (all) {
        lw_free(out->places);
        out->places = all;
        out->n_places = id->n_ranks;
    }
}

static enum lw_status run_and_part(const struct lw_plan *plan,
                                   const struct lw_exec_options *options,
                                   const struct exec_identity *id, struct exec_rendezvous *r,
                                   struct lw_exec_result *out, struct lw_err *err)
{
    struct lw_exec_options mine = *options;
    struct exec_process process;

    exec_rendezvous_process(r, &process);
    mine.process = &process;
    enum lw_status s = lw_exec_run(plan, &mine, out, err);
    if (!has_result(s))
        *out = (struct lw_exec_result){0};
    out->clock_error_ns = exec_rendezvous_clock_error(r);
    if (s == LW_OK || s == LW_ENO)
        s = gather(r, id, s, out, err);
    out->speaks = id->rank == 0;
    if (s != LW_OK && s != LW_ENO) {
        exec_tell_others(&process, err->msg);
        part(r, id, options->timeout_ns, out);
    }
    const char *last;
    out->n_turned_away = exec_rendezvous_turned_away(r, &last);
    snprintf(out->turned_away, sizeof out->turned_away, "%s", last);
    return s;
}

static const char *on_off(bool on)
{
    return on ? "on" : "off";
}

/* Everything beside the plan's decisions, backend and version that changes what a rank does: how
 * long an op computes is in `times`. Where threads are pinned, how long a step may take and what is
 * printed is each process's own. */
static void describe(const struct lw_exec_options *o, const char *times, char text[EXEC_SETTINGS])
{
    const struct exec_optimizer *u = &o->optimizer;

    memset(text, 0, EXEC_SETTINGS);
    snprintf(text, EXEC_SETTINGS,
             "a plan with the times %s;"
             "optimizer %s;rate %.9g;momentum %.9g;beta2 %.9g;epsilon %.9g;--steps %d;--warmup %d;"
             "--compute %s;verification %s;--consolidate %d;link rate %.17g;link latency %lld ns;"
             "%d ranks a node;--transport %s;--nccl-register %s;--graph %s;--nccl-env %s;"
             "--fault %d:%d:%d:%s;",
             times, exec_optimizer_name(u->kind), (double)u->rate, (double)u->momentum,
             (double)u->beta2, (double)u->epsilon, o->n_steps, o->n_warmup,
             exec_compute_name(o->compute), on_off(o->verify), o->consolidate, o->link_bytes_per_s,
             (long long)o->link_latency_ns, o->ranks_per_node, o->loop ? "loop" : "nccl",
             on_off(o->registered), on_off(o->graph), o->nccl_env[0] ? o->nccl_env : "none",
             o->fault.rank, o->fault.step, o->fault.op, lw_exec_fault_name(o->fault.kind));
}

enum lw_status lw_exec_team_run(const struct lw_plan *plan, const struct lw_exec_options *options,
                                const struct exec_identity *id, struct lw_exec_team *team,
                                struct lw_exec_result *out, struct lw_err *err)
{
    struct exec_agreement agreement = {.program = LW_VERSION};
    struct lw_err own = {0}, *e = err ? err : &own;
    char times[33];

    team->rendezvous = NULL;
    if (id->n_ranks != plan->n_ranks)
        return lw_fail(e, LW_EINVAL, "%s started %d processes; the plan has %d ranks", id->source,
                       id->n_ranks, plan->n_ranks);
    snprintf(agreement.plan_hash, sizeof agreement.plan_hash, "%s", plan->hash);
    snprintf(agreement.backend, sizeof agreement.backend, "%s", options->backend->name);
    LW_TRY(lw_plan_hash_times(plan, times, e));
    describe(options, times, agreement.settings);
    LW_TRY(exec_rendezvous_open(id, &agreement, exec_opening_limit(options->timeout_ns), &team->run,
                                &team->rendezvous, e));
    if (id->rank == 0 && team->stopped)
        exec_rendezvous_note_loss(team->rendezvous, team->stopped, team->context);
    enum lw_status s = run_and_part(plan, options, id, team->rendezvous, out, e);
    if (id->rank > 1 && team->run < 0) /* no row shows that another process stored it */
        out->speaks = false;
    return s;
}

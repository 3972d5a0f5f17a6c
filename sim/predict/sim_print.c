/* A prediction for people and for programs. Times of buckets count from the start of the step
 * shown and are those of the last rank, as `compare` shows them. Every term of the model that is
 * off unless the cluster gives it is listed with its source, and the error that such predictions
 * had. */
#include "sim/predict/sim_print.h"

#include <string.h>

#include "shared/numbers/checked.h"
#include "shared/numbers/larger.h"
#include "shared/text/table.h"
#include "shared/text/wrap.h"
#include "shared/timeline/summary_print.h"
#include "shared/timeline/throughput.h"
#include "shared/workload/workload.h"
#include "sim/predict/compute_bound.h"
#include "sim/predict/sim_head.h"
#include "sim/predict/sim_result.h"
#include "sim/timing/device_spread.h"

struct bucket_times {
    int32_t bucket;
    enum lw_op_kind kind;
    int64_t bytes;
    lw_ps ready, launch, start, all_in, end, length;
    int64_t next; /* of the same bucket, counted from 1; 0 = none */
};

struct bucket_list {
    struct bucket_times *v;
    int64_t n, capacity;
    int64_t *first; /* [n_buckets] counted from 1; 0 = none */
};

static struct bucket_times *entry(struct bucket_list *l, const struct lw_op *op)
{
    for (int64_t i = l->first[op->bucket]; i > 0; i = l->v[i - 1].next)
        if (l->v[i - 1].kind == op->kind &&
            l->v[i - 1].bytes == op->bytes) /* a sparse gradient takes three of a kind */
            return &l->v[i - 1];
    if (lw_reserve(&l->v, &l->capacity, l->n + 1, sizeof *l->v) != 0)
        return NULL;
    l->v[l->n] = (struct bucket_times){.bucket = op->bucket,
                                       .kind = op->kind,
                                       .bytes = op->bytes,
                                       .launch = -1,
                                       .next = l->first[op->bucket]};
    l->first[op->bucket] = ++l->n;
    return &l->v[l->n - 1];
}

static lw_ps first_start(const struct lw_timeline *t, int32_t step)
{
    lw_ps first = INT64_MAX;

    for (int64_t i = 0; i < t->n;) {
        const struct lw_row_run run = lw_timeline_run(t, i);
        for (; run.step == step && i < run.to; i++) {
            lw_ps start = lw_timeline_times(t, i).start;
            first = start < first ? start : first;
        }
        i = run.to;
    }
    return first;
}

static enum lw_status add_row(struct bucket_list *l, const struct lw_op *op,
                              const struct lw_span *s, lw_ps began, struct lw_err *err)
{
    struct bucket_times *b = entry(l, op);

    if (!b)
        return lw_fail_nomem(err);
    b->ready = lw_larger(b->ready, s->ready - began);
    b->launch = lw_larger(b->launch, s->issue - began);
    b->start = lw_larger(b->start, s->start - began);
    b->all_in = lw_larger(b->all_in, s->all_in - began);
    b->end = lw_larger(b->end, s->end - began);
    b->length = b->end - b->start;
    return LW_OK;
}

/* The collectives on buckets in the step shown, in program order. */
static enum lw_status collect(const struct lw_sim_report *r, struct bucket_list *l,
                              struct lw_err *err)
{
    const struct lw_timeline *t = r->timeline;
    int32_t step = r->summary->ranks[0].step;
    lw_ps began = first_start(t, step);

    LW_NEW(l->first, r->plan->n_buckets, err);
    for (int64_t i = 0; i < t->n;) {
        const struct lw_row_run run = lw_timeline_run(t, i);
        for (; run.step == step && i < run.to; i++) {
            const struct lw_op *op = LW_OP(r->plan, lw_timeline_op(t, i));
            if (op->bucket < 0 || lw_op_class(op->kind) != LW_CLASS_COLLECTIVE)
                continue;
            const struct lw_span s = lw_timeline_get(t, i);
            LW_TRY(add_row(l, op, &s, began, err));
        }
        i = run.to;
    }
    return LW_OK;
}

/* --- text --- */

enum { SHOWN = 10 }; /* buckets or steps of a summary */

#define AT(field) offsetof(struct bucket_times, field)
static const struct lw_column bucket_columns[] = {
    {"bucket", "bucket", LW_COLUMN_INT32, AT(bucket)},
    {"op", "op", LW_COLUMN_WORD, AT(kind), .word = lw_op_word},
    {"bytes", ">size", LW_COLUMN_BYTES, AT(bytes)},
    {"ready_ns", ">ready", LW_COLUMN_PS, AT(ready)},
    {"launch_ns", ">launch", LW_COLUMN_PS, AT(launch)},
    {"start_ns", ">start", LW_COLUMN_PS, AT(start)},
    {"all_in_ns", ">all ranks in", LW_COLUMN_PS, AT(all_in)},
    {"end_ns", ">end", LW_COLUMN_PS, AT(end)},
};

static enum lw_status text_buckets(const struct bucket_list *l, bool all, FILE *f,
                                   struct lw_err *err)
{
    struct lw_records r = LW_RECORDS("buckets", bucket_columns, l->v, l->n);

    if (l->n == 0)
        return LW_OK;
    r.most = all ? 0 : SHOWN;
    r.largest = AT(length);
    lw_printf_paragraph(f, "\nbuckets, from the start of the step (of the last rank)");
    LW_TRY(lw_records_text(&r, f, 2, err));
    if (!all && l->n > SHOWN)
        fprintf(f, "  the %d that take longest of %lld; --all prints every one\n", SHOWN,
                (long long)l->n);
    return LW_OK;
}
#undef AT

static bool is_comm(const struct lw_sim_timed *x)
{
    enum lw_op_class k = lw_op_class(x->kind);

    return k == LW_CLASS_COLLECTIVE || k == LW_CLASS_P2P;
}

/* Ops of the programs that a model or table times, of all kinds; 0: the row before has them too. */
static int64_t n_timed_alike(const struct lw_sim_stats *s, int32_t i)
{
    int64_t n = 0;

    for (int32_t k = 0; k < s->n_timed; k++) {
        const struct lw_sim_timed *x = &s->timed[k];
        if (!is_comm(x) || x->source != s->timed[i].source || strcmp(x->by, s->timed[i].by) != 0 ||
            strcmp(x->basis, s->timed[i].basis) != 0)
            continue;
        if (k < i)
            return 0;
        n += x->n_ops;
    }
    return n;
}

void lw_sim_print_comm(const struct lw_sim_stats *s, FILE *f)
{
    for (int32_t i = 0; i < s->n_timed; i++) {
        const struct lw_sim_timed *x = &s->timed[i];
        int64_t n = is_comm(x) ? n_timed_alike(s, i) : 0;
        if (n > 0)
            lw_printf_paragraph(f, "collectives and messages: %lld %s by %s (%s)", (long long)n,
                                x->basis, x->by, x->source);
    }
}

/* The loss that no term is on for. */
static void text_not_modelled(const struct lw_sim_report *r, FILE *f)
{
    const struct lw_sim_stats *s = r->stats;
    const char *more = lw_figure_is_set(r->cluster->published.fair_links)
                           ? "; --interference published has published ones"
                           : "";
    bool others = false, listed = false, channels = false;

    for (int32_t i = 0; i < s->n_interference; i++) {
        bool of_channels = strcmp(s->terms[i].name, "sms_per_channel") == 0;
        listed |= of_channels;
        channels |= of_channels && s->terms[i].on;
        others |= !of_channels;
    }
    if (!others)
        lw_printf_paragraph(f, "not modelled: %s (cluster '%s' gives no %s term%s)",
                            channels ? "what communications lose to others on the same links, or "
                                       "to compute"
                                     : "what slows down beside compute, or beside others on the "
                                       "same links",
                            r->cluster->name, listed && !channels ? "other" : "such", more);
}

/* Ranks that wait for each other, with products, of which the cluster gives no spread. */
static void text_no_spread(const struct lw_sim_report *r, FILE *f)
{
    const struct lw_sim_options mean = lw_sim_options_default();
    struct lw_cluster any = {.noise.device_spread = {1, ""}};

    if (!r->replayed && !lw_figure_is_set(r->cluster->noise.device_spread) &&
        !*sim_spread_unused(r->plan, &any, &mean, r->plan->n_ranks))
        lw_printf_paragraph(f, "not modelled: how devices of a kind differ (cluster '%s' gives no "
                               "device_spread; --device-spread states one)", r->cluster->name);
}

static void text_terms(const struct lw_sim_report *r, FILE *f)
{
    const struct lw_sim_stats *s = r->stats;

    fprintf(f, "\n");
    lw_sim_print_comm(s, f);
    for (int32_t i = 0; i < s->n_timed; i++) {
        const struct lw_sim_timed *x = &s->timed[i];
        if (is_comm(x))
            continue;
        lw_printf_paragraph(f, "timed by the cluster: %s %s by %s (%s)", lw_op_name(x->kind),
                            lw_dtype_name(x->dtype), x->by, x->source);
    }
    text_not_modelled(r, f);
    text_no_spread(r, f);
    for (int32_t i = 0; i < s->n_terms; i++) {
        const struct lw_sim_term *x = &s->terms[i];
        lw_printf_paragraph(f, "interference: %s = %g (%s)%s%s", x->name, x->value, x->source,
                            x->on ? "" : ", not used: ", x->why);
    }
    for (int32_t i = 0; i < s->n_remarks; i++)
        lw_printf_paragraph(f, "note: %s", s->remarks[i]);
    if (!r->cluster->calibrated)
        lw_printf_paragraph(
            f, "cluster '%s' is not calibrated: its figures are not measured on the machine",
            r->cluster->name);
    if (r->n_past > 0)
        lw_printf_paragraph(
            f,
            "error of such predictions: mean %.1f %%, worst %.1f %% of the step, over %d compared",
            r->mean_past_pct, r->max_past_pct, r->n_past);
    else
        lw_printf_paragraph(f, "error unknown: nothing measured yet%s",
                            r->n_past < 0 ? " (no database was read)" : " for this cluster");
}

static double difference_pct(struct lw_sim_replayed_time x)
{
    return lw_percent((double)(x.predicted - x.recorded), (double)x.recorded);
}

/* Whether what-ifs on this recording are answered (analysis/study/replay_predict.h). */
static bool answers(const struct lw_sim_replayed *x)
{
    double off = difference_pct(x->period);

    return off <= x->tolerance_pct && -off <= x->tolerance_pct;
}

/* Of the replay without the change, which is off by more than is accepted where --force was given.
 */
static double unchanged_error_pct(const struct lw_sim_replayed *x)
{
    return difference_pct((struct lw_sim_replayed_time){x->as_recorded, x->period.recorded});
}

static bool answers_unchanged(const struct lw_sim_replayed *x)
{
    double error = unchanged_error_pct(x);

    return error <= x->tolerance_pct && error >= -x->tolerance_pct;
}

/* What the what-if changes. */
static double change_pct(const struct lw_sim_replayed *x)
{
    return difference_pct((struct lw_sim_replayed_time){x->period.predicted, x->unchanged});
}

/* How far the longest recorded period lies above the shortest; 0 of one step. */
static double spread_pct(const struct lw_sim_replayed *x)
{
    lw_ps least = 0, most = 0;

    for (int32_t k = 0; k < x->n_steps; k++) {
        lw_ps recorded = x->steps[k].measured ? x->steps[k].period.recorded : 0;
        least = recorded > 0 && (least == 0 || recorded < least) ? recorded : least;
        most = recorded > most ? recorded : most;
    }
    return difference_pct((struct lw_sim_replayed_time){most, least});
}

/* A smaller change than the steps of the recording differ by. */
static bool is_within_spread(const struct lw_sim_replayed *x)
{
    double change = change_pct(x);

    return (change < 0 ? -change : change) < spread_pct(x);
}

static void text_replayed_time(struct lw_table *t, bool known, struct lw_sim_replayed_time x)
{

    if (known) {
        LW_CELLS(t, LW_PS(x.predicted), LW_PS(x.recorded));
        lw_table_cell(t, "%+.2f %%", difference_pct(x));
    } else {
        LW_CELLS(t, "-", "-", "-");
    }
}

static const char *replay_meaning(const struct lw_sim_replayed *x)
{
    if (strcmp(x->basis, "device_period") == 0)
        return "period: end of the step's last device op minus that of the step before";
    if (strcmp(x->basis, "device_span") == 0)
        return "period: from the start on the host of the rank that starts last to the end of the "
               "step's last device op";
    return "period: between the ends of two steps on the host, as no device op was recorded";
}

/* What the recording's middle step holds, and whether it hides as much communication. */
static void text_recorded_parts(const struct lw_sim_report *r, FILE *f)
{
    const struct lw_measure *m = &r->replayed->parts, *p = &r->summary->ranks[r->summary->worst];
    char compute[32], comm[32], exposed[32];
    lw_ps off = p->exposed_comm - m->exposed_comm;

    lw_printf_paragraph(
        f, "recorded in the middle step: compute %s, communication %s, of it exposed %s",
        lw_format_ps(compute, m->compute_busy), lw_format_ps(comm, m->comm_busy),
        lw_format_ps(exposed, m->exposed_comm));
    if (!r->replayed->what_if && (off > m->comm_busy / 20 || -off > m->comm_busy / 20))
        lw_printf_paragraph(
            f,
            "the replay exposes %s of communication and the recording %s: ops began later after "
            "their launch than the trace explains, and a replay uses no recorded start",
            lw_format_ps(comm, p->exposed_comm), exposed);
}

static lw_ps off_by(const struct lw_sim_replayed_step *s)
{
    lw_ps off = s->period.predicted - s->period.recorded;

    return !s->measured ? -1 : off < 0 ? -off : off;
}

/* Steps against their recording: all, or those whose period is furthest off, of equals the
 * earlier. */
static void text_replayed_steps(const struct lw_sim_replayed *x, bool all, struct lw_table *t)
{
    for (int32_t k = 0; k < x->n_steps; k++) {
        const struct lw_sim_replayed_step *s = &x->steps[k];
        int32_t n_further = 0;
        for (int32_t i = 0; !all && i < x->n_steps; i++)
            n_further +=
                off_by(&x->steps[i]) > off_by(s) || (off_by(&x->steps[i]) == off_by(s) && i < k);
        if (n_further >= SHOWN)
            continue;
        lw_table_text(t, s->name);
        text_replayed_time(t, s->measured, s->period);
        text_replayed_time(t, true, s->host);
    }
}

static double magnitude(double x)
{
    return x < 0 ? -x : x;
}

/* How far such answers were off, beside the figure. */
static void put_known_error(const struct lw_sim_replayed *x, FILE *f)
{
    if (x->error_pct > 0)
        fprintf(f, "; such answers were off by %.1f %% of the step on average, %.1f %% at most%s",
                x->error_pct, x->most_error_pct,
                magnitude(change_pct(x)) < x->error_pct ? ": the sign is not certain" : "");
}

static const char *scaled_words(const struct lw_sim_replayed *x)
{
    return x->host_scale > 0 ? " (host times scaled, see below)" : "";
}

/* The step without the profiler, where it was measured too. */
static void text_unprofiled(const struct lw_sim_replayed *x, FILE *f)
{
    char measured[32], scaled[32];

    if (x->unprofiled <= 0)
        return;
    lw_format_ps(measured, x->unprofiled);
    if (x->host_scale > 0)
        lw_printf_paragraph(f, "without the profiler the step took %s: %s takes %s", measured,
                            x->what_if
                                ? "host times are scaled so that the replay without the change"
                                : "a what-if scales the host's times so that the replay",
                            lw_format_ps(scaled, x->scaled));
    else
        lw_printf_paragraph(f,
                            "without the profiler the step took %s; host times are not scaled: "
                            "the device alone takes longer",
                            measured);
}

/* A replay: steps against their recording, and what was assumed. */
static enum lw_status text_replay(const struct lw_sim_report *r, FILE *f, struct lw_err *err)
{
    static const char *const titles[] = {"step",        ">period",   ">recorded",  ">difference",
                                         ">host range", ">recorded", ">difference"};
    const struct lw_sim_replayed *x = r->replayed;
    struct lw_table *t = lw_table_new(7, titles);
    struct lw_paragraph median;
    char buf[32];

    text_replayed_steps(x, r->all, t);
    fputc('\n', f);
    lw_printf_paragraph(f, "replay; %s", replay_meaning(x));
    LW_TRY(lw_table_end(t, f, 2, err));
    if (!r->all && x->n_steps > SHOWN)
        fprintf(f, "  the %d furthest off of %d steps; --all prints every one\n", SHOWN,
                x->n_steps);
    FILE *line = lw_paragraph_open(&median, f, NULL);
    fprintf(line, "median period: predicted %s, ", lw_format_ps(buf, x->period.predicted));
    fprintf(line, "recorded %s", lw_format_ps(buf, x->period.recorded));
    if (x->what_if && x->same_buckets)
        fprintf(line, ": these are the recorded buckets, nothing changes");
    else if (x->what_if && !answers_unchanged(x))
        fprintf(line,
                ", replayed without the change %s%s (%+.2f %% off): it changes by %+.2f %%, on a "
                "replay that is %+.2f %% off",
                lw_format_ps(buf, x->unchanged), scaled_words(x), unchanged_error_pct(x),
                change_pct(x), unchanged_error_pct(x));
    else if (x->what_if)
        fprintf(line, ", replayed without the change %s%s: it changes by %+.2f %%%s",
                lw_format_ps(buf, x->unchanged), scaled_words(x), change_pct(x),
                is_within_spread(x) ? ", less than the recorded steps differ among themselves"
                                    : "");
    if (x->what_if && !x->same_buckets)
        put_known_error(x, line);
    if (!x->what_if)
        fprintf(line, ", error %+.2f %%%s", difference_pct(x->period),
                answers(x) ? "" : ": too much, so what-ifs on this recording are refused");
    LW_TRY(lw_paragraph_close(&median, err));
    text_unprofiled(x, f);
    text_recorded_parts(r, f);
    for (int32_t i = 0; i < r->plan->n_notes; i++)
        lw_put_paragraph(f, "assumption: ", r->plan->notes[i]);
    return LW_OK;
}

static bool is_of(const struct lw_workload *w, const char *note)
{
    for (int32_t i = 0; w && i < w->n_notes; i++)
        if (strcmp(w->notes[i], note) == 0)
            return true;
    return false;
}

/* The k-th note that says what was assumed, of the workload, then of the plan; NULL = no more. */
static const char *assumption(const struct lw_sim_report *r, int32_t k)
{
    const struct lw_workload *w = r->workload;
    const int32_t own = w ? w->n_notes : 0;

    for (int32_t i = 0; i < own + r->plan->n_notes; i++) {
        const char *note = i < own ? w->notes[i] : r->plan->notes[i - own];
        if (strncmp(note, LW_ASSUMPTION, strlen(LW_ASSUMPTION)) == 0 &&
            (i < own || !is_of(w, note)) && k-- == 0)
            return note + strlen(LW_ASSUMPTION);
    }
    return NULL;
}

static void text_samples(const struct lw_sim_report *r, FILE *f)
{
    const struct lw_sim_samples *s = r->samples;
    char p50[32], p90[32], p99[32], least[32], most[32];

    lw_printf_paragraph(f, "%d samples of the step: p50 %s, p90 %s, p99 %s (%s to %s)", s->n,
                        lw_format_ps(p50, s->p50), lw_format_ps(p90, s->p90),
                        lw_format_ps(p99, s->p99), lw_format_ps(least, s->least),
                        lw_format_ps(most, s->most));
}

static void put_part(FILE *f, const char *before, int64_t bytes, const char *after)
{
    char buf[32];

    if (bytes > 0)
        fprintf(f, "%s%s%s", before, lw_format_bytes(buf, bytes), after);
}

/* What lies outside the allocator; recordings and graphs have no framework. */
static int64_t own_bytes(const struct lw_sim_report *r)
{
    return r->memory ? r->memory->own_bytes : lw_device_framework_bytes(&r->cluster->device);
}

/* The head's memory of a device, as the sum of its parts. */
static enum lw_status text_peak(const struct lw_sim_report *r, FILE *out, struct lw_err *err)
{
    int64_t framework = own_bytes(r);
    int64_t peak = r->summary->peak_memory_bytes;
    bool holds = r->memory && r->framework->from != LW_FRAMEWORK_RECORDED &&
                 !(r->framework->from == LW_FRAMEWORK_PLAN && !r->framework->file &&
                   r->plan->framework_hash[0] == '\0'); /* a file of no framework */
    const struct lw_framework_bytes *x = holds ? &r->memory->fullest : NULL;
    struct lw_paragraph line;
    char buf[32];

    if (peak < 0) {
        fputs("peak memory not known\n", out);
        return LW_OK;
    }
    FILE *f = lw_paragraph_open(&line, out, NULL);
    fprintf(f, "peak memory %s a rank", lw_format_bytes(buf, peak));
    if (x) {
        put_part(f, ", ", lw_round_sat(x->allocated) - peak, " of tensors that the framework adds");
        put_part(f, ", ", lw_round_sat(x->reserved) - lw_round_sat(x->allocated),
                 " that its allocator reserves beyond");
    }
    if (framework > 0)
        fprintf(f, " and %s of the framework (%s)", lw_format_bytes(buf, framework),
                lw_figure_is_set(r->cluster->device.framework_bytes) ? "device.framework_bytes"
                : framework == lw_device_framework_bytes(&r->cluster->device)
                    ? "the default; see device.framework_bytes"
                    : "its own_bytes");
    if (x)
        put_part(f, ": ", lw_round_sat(x->device), " in all");
    if (lw_sim_missing_bytes(r) > 0)
        fprintf(f, ", more than the device has by %s",
                lw_format_bytes(buf, lw_sim_missing_bytes(r)));
    LW_TRY(lw_paragraph_close(&line, err));
    return lw_summary_text_memory(r->summary, r->plan, out, err);
}

static enum lw_status text_counts(const struct lw_sim_report *r, FILE *out, struct lw_err *err)
{
    struct lw_paragraph line;
    FILE *f = lw_paragraph_open(&line, out, NULL);

    fprintf(f, "%lld ops, %lld events, %.3f s", (long long)r->stats->n_ops,
            (long long)r->stats->n_events, r->wall_s);
    if (r->stats->n_simulated < r->plan->n_ranks)
        fprintf(f, "; %d rank%s for all %d", r->stats->n_simulated,
                r->stats->n_simulated == 1 ? " stands" : "s stand", r->plan->n_ranks);
    if (r->run >= 0)
        fprintf(f, "; stored as run %lld%s", (long long)r->run,
                r->no_spans ? ", without spans (--spans)" : "");
    return lw_paragraph_close(&line, err);
}

static enum lw_status print_text(const struct lw_sim_report *r, const struct bucket_list *l,
                                 FILE *f, struct lw_err *err)
{
    const struct lw_summary *s = r->summary;

    const struct lw_throughput t = lw_sim_throughput(r);

    LW_TRY(lw_sim_head_text(r, &t, f, err));
    if (r->samples->n > 0)
        text_samples(r, f);
    const struct lw_compute_bound bound = lw_compute_bound_of(r);
    lw_summary_text(s, f);
    lw_compute_bound_text(&bound, f);
    lw_printf_paragraph(
        f, "of all ranks' time: waiting for pipeline neighbours (bubble) %.4f, computing %.4f",
        s->bubble_ratio, s->compute_share);
    lw_throughput_text(&t, f);
    if (!r->replayed && !r->graph)
        LW_TRY(text_peak(r, f, err));
    LW_TRY(text_buckets(l, r->all, f, err));
    if (r->replayed)
        LW_TRY(text_replay(r, f, err));
    else
        text_terms(r, f);
    for (int32_t k = 0; r->graph && k < r->plan->n_notes; k++)
        lw_printf_paragraph(f, "note: %s", r->plan->notes[k]);
    for (int32_t k = 0; assumption(r, k); k++)
        lw_printf_paragraph(f, "assumption of the %s: %s", r->workload ? "workload" : "plan",
                            assumption(r, k));
    return text_counts(r, f, err);
}

/* --- JSON --- */

static void json_error(struct lw_jsonout *o, const struct lw_sim_report *r)
{
    if (r->n_past > 0)
        LW_JSON_ROW(o, "past_error", "n_compared", r->n_past, "mean_abs_error_pct",
                    lw_decimals(r->mean_past_pct, 3), "max_abs_error_pct",
                    lw_decimals(r->max_past_pct, 3));
    else
        lw_jsonout_null(o, "past_error");
}

static void json_replayed_time(struct lw_jsonout *o, const char *what, bool known,
                               struct lw_sim_replayed_time x)
{
    char key[48];

    for (int i = 0; i < 2; i++) {
        snprintf(key, sizeof key, "%s_%s_ns", i ? "recorded" : "predicted", what);
        LW_JSON(o, key, lw_known_if(known, lw_ps_to_ns(i ? x.recorded : x.predicted)));
    }
}

static void json_replayed_step(struct lw_jsonout *o, const struct lw_sim_replayed *x, int32_t k)
{
    const struct lw_sim_replayed_step *s = &x->steps[k];

    lw_jsonout_object(o, NULL);
    lw_jsonout_string(o, "name", s->name);
    json_replayed_time(o, "period", s->measured, s->period);
    LW_JSON(o, "period_error_pct", lw_decimals_if(s->measured, difference_pct(s->period), 4));
    json_replayed_time(o, "host", true, s->host);
    LW_JSON(o, "host_error_pct", lw_decimals(difference_pct(s->host), 4));
    lw_jsonout_array(o, "ranks");
    for (int32_t i = 0; i < x->n_ranks; i++) {
        lw_jsonout_line_object(o, NULL);
        lw_jsonout_int(o, "rank", x->rank_of_file[i] >= 0 ? x->rank_of_file[i] : i);
        json_replayed_time(o, "period", s->measured, s->rank_period[i]);
        json_replayed_time(o, "host", true, s->rank_host[i]);
        lw_jsonout_end(o);
    }
    lw_jsonout_end(o);
    lw_jsonout_end(o);
}

static void json_replay(struct lw_jsonout *o, const struct lw_sim_report *r)
{
    const struct lw_sim_replayed *x = r->replayed;

    lw_jsonout_object(o, "replay");
    lw_jsonout_string(o, "basis", x->basis);
    json_replayed_time(o, "period", true, x->period);
    LW_JSON(o, "recorded_compute_busy_ns", lw_ps_to_ns(x->parts.compute_busy),
            "recorded_comm_busy_ns", lw_ps_to_ns(x->parts.comm_busy), "recorded_exposed_comm_ns",
            lw_ps_to_ns(x->parts.exposed_comm), "period_error_pct",
            lw_decimals(difference_pct(x->period), 4), "what_if", x->what_if);
    lw_jsonout_bool(o, "answers_what_ifs", x->what_if || answers(x));
    if (x->what_if) {
        LW_JSON(o, "unchanged_period_ns", LW_PS(x->unchanged), "unchanged_error_pct",
                lw_decimals(unchanged_error_pct(x), 4), "what_if_change_pct",
                lw_decimals(change_pct(x), 4), "recorded_spread_pct",
                lw_decimals(spread_pct(x), 4));
        LW_JSON(o, "known_error_pct", lw_decimals_if(x->error_pct > 0, x->error_pct, 1));
    }
    if (x->unprofiled > 0)
        LW_JSON(o, "unprofiled_step_ns", lw_ps_to_ns(x->unprofiled), "host_scale",
                lw_decimals(x->host_scale > 0 ? x->host_scale : 1, 4), "scaled_period_ns",
                lw_known_if(x->scaled > 0, lw_ps_to_ns(x->scaled)));
    lw_jsonout_array(o, "steps");
    for (int32_t k = 0; k < x->n_steps; k++)
        json_replayed_step(o, x, k);
    lw_jsonout_end(o);
    lw_jsonout_strings(o, "assumptions", r->plan->notes, r->plan->n_notes);
    lw_jsonout_end(o);
}

/* Whether the largest rank fits its device; null where its memory or the peak is unknown. */
static void json_device_memory(struct lw_jsonout *o, const struct lw_sim_report *r)
{
    struct lw_figure memory = r->cluster->device.memory_bytes;

    LW_JSON(o, "framework_bytes",
            lw_known_if(!r->replayed && !r->graph, own_bytes(r)), "device_memory_bytes",
            lw_known_if(lw_figure_is_set(memory), (int64_t)memory.value));
    if (lw_sim_missing_bytes(r) >= 0)
        lw_jsonout_bool(o, "memory_fits", lw_sim_missing_bytes(r) == 0);
    else
        lw_jsonout_null(o, "memory_fits");
    LW_JSON(o, "memory_missing_bytes", lw_known(lw_sim_missing_bytes(r)));
    if (lw_sim_missing_bytes(r) >= 0)
        lw_jsonout_bool(o, "memory_close", lw_sim_is_close(r));
    else
        lw_jsonout_null(o, "memory_close");
}

static void json_samples(struct lw_jsonout *o, const struct lw_sim_report *r)
{
    LW_JSON(o, "seed", lw_known_if(lw_sim_is_drawn(r), (int64_t)r->options->seed));
    if (r->samples->n == 0)
        return;
    LW_JSON(o, "n_samples", r->samples->n, "step_p50_ns", lw_ps_to_ns(r->samples->p50),
            "step_p90_ns", lw_ps_to_ns(r->samples->p90), "step_p99_ns",
            lw_ps_to_ns(r->samples->p99), "step_min_ns", lw_ps_to_ns(r->samples->least),
            "step_max_ns", lw_ps_to_ns(r->samples->most));
}

void lw_sim_json_timed(struct lw_jsonout *o, const struct lw_sim_stats *s)
{
    lw_jsonout_array(o, "timed_by_cluster");
    for (int32_t i = 0; i < s->n_timed; i++)
        LW_JSON_ROW(o, NULL, "op", lw_op_name(s->timed[i].kind), "dtype",
                    lw_dtype_name(s->timed[i].dtype), "by", s->timed[i].by, "source",
                    s->timed[i].source, "basis", s->timed[i].basis, "n_ops", s->timed[i].n_ops);
    lw_jsonout_end(o);
}

static void json_terms(struct lw_jsonout *o, const struct lw_sim_stats *s)
{
    lw_sim_json_timed(o, s);
    lw_jsonout_array(o, "interference");
    for (int32_t i = 0; i < s->n_terms; i++)
        LW_JSON_ROW(o, NULL, "term", s->terms[i].name, "value", s->terms[i].value, "source",
                    s->terms[i].source, "on", s->terms[i].on, "why_not",
                    *s->terms[i].why ? s->terms[i].why : NULL);
    lw_jsonout_end(o);
    lw_jsonout_array(o, "remarks");
    for (int32_t i = 0; i < s->n_remarks; i++)
        lw_jsonout_string(o, NULL, s->remarks[i]);
    lw_jsonout_end(o);
}

static enum lw_status print_json(const struct lw_sim_report *r, const struct bucket_list *l,
                                 FILE *f, struct lw_err *err)
{
    struct lw_jsonout o = {.file = f};
    const struct lw_summary *s = r->summary;

    lw_jsonout_object(&o, NULL);
    LW_JSON(&o, "status", r->not_stored ? "failed" : "ok");
    if (r->not_stored)
        lw_jsonout_string(&o, "error", r->not_stored);
    LW_JSON(&o, "plan", r->plan->name, "plan_hash", r->plan->hash, "cluster", r->cluster->name,
            "cluster_calibrated", r->cluster->calibrated, "detail",
            r->options->detail == LW_SIM_CHUNK ? "chunk" : "collective", "n_ranks",
            r->plan->n_ranks);
    lw_summary_json_steps(&o, s);
    json_samples(&o, r);
    lw_summary_json_measures(&o, s);
    const struct lw_compute_bound bound = lw_compute_bound_of(r);
    lw_compute_bound_json(&o, &bound);
    struct lw_throughput t = lw_sim_throughput(r);
    lw_sim_head_json(&o, r, &t);
    lw_throughput_json(&o, &t);
    lw_summary_json_memory(&o, s, r->plan);
    json_device_memory(&o, r);
    if (r->memory)
        lw_memory_figures_json(&o, r->memory);
    LW_TRY(lw_summary_json_ranks(&o, s, true, err));
    lw_records_json(&o, &LW_RECORDS("buckets", bucket_columns, l->v, l->n));
    json_terms(&o, r->stats);
    json_error(&o, r);
    if (r->replayed)
        json_replay(&o, r);
    if (r->graph)
        lw_jsonout_strings(&o, "notes", r->plan->notes, r->plan->n_notes);
    lw_jsonout_array(&o, "workload_assumptions");
    for (int32_t k = 0; assumption(r, k); k++)
        lw_jsonout_string(&o, NULL, assumption(r, k));
    lw_jsonout_end(&o);
    LW_JSON(&o, "n_ops", r->stats->n_ops, "n_simulated_ranks", r->stats->n_simulated, "n_events",
            r->stats->n_events, "n_messages", r->stats->n_messages, "wall_s",
            lw_decimals(r->wall_s, 6), "run", lw_known(r->run));
    lw_jsonout_end(&o);
    return LW_OK;
}

static enum lw_status print_csv(const struct lw_sim_report *r, FILE *f, struct lw_err *err)
{
    struct lw_arena a = {0};
    struct lw_sim_result row;
    enum lw_status status = lw_sim_result_of(r, &a, &row, err);

    if (status == LW_OK)
        status = lw_records_csv(&LW_RECORDS("runs", lw_sim_result_columns, &row, 1), f, err);
    lw_arena_free(&a);
    return status;
}

enum lw_status lw_sim_print(const struct lw_sim_report *r, enum lw_format format, FILE *f,
                            struct lw_err *err)
{
    struct bucket_list l = {0};
    enum lw_status status = collect(r, &l, err);

    if (status == LW_OK && format == LW_FORMAT_JSON)
        status = print_json(r, &l, f, err);
    else if (status == LW_OK)
        status = format != LW_FORMAT_CSV ? print_text(r, &l, f, err)
                 : r->per_rank           ? lw_summary_csv(r->summary, f, err)
                                         : print_csv(r, f, err);
    lw_free(l.v);
    lw_free(l.first);
    return status;
}

/* An execution for people and for programs. Times are those of the rank whose step is the longest;
 * what a row may claim (real, paced, emulated; oversubscribed; verified) stands beside them. */
#include "exec/run/exec_print.h"

#include <math.h>
#include <stddef.h>

#include "exec/backend/optimizer.h"
#include "exec/run/op_text.h"
#include "shared/base/arena.h"
#include "shared/numbers/speed_text.h"
#include "shared/text/records.h"
#include "shared/plan/op.h"
#include "shared/timeline/accumulation_print.h"
#include "shared/timeline/summary_print.h"
#include "shared/timeline/throughput.h"
#include "shared/timeline/timeline.h"
#include "shared/text/wrap.h"
#include "shared/plan/spread.h"

#define DISTURBED 0.02 /* share of the processors from which on other work is worth a line */

/* Of an average rank: what measuring took of a step. */
static lw_ps measuring(const struct lw_exec_report *r)
{
    const struct lw_exec_result *x = r->result;
    int64_t steps = (int64_t)(x->n_steps + x->n_warmup) * r->plan->n_ranks;

    return steps > 0
               ? (lw_ps)(x->stamp_ns * LW_PS_PER_NS * (double)((x->timeline.n + steps - 1) / steps))
               : 0;
}

static void text_measuring(const struct lw_exec_report *r, FILE *f)
{
    const struct lw_exec_result *x = r->result;
    char a[32], b[32];

    if (x->stamp_ns > 0 && r->summary->step > 0)
        fprintf(f, "measuring took %s a step (%s an op): %.3f %% of it\n",
                lw_format_ps(a, measuring(r)), lw_format_ps(b, (lw_ps)(x->stamp_ns * LW_PS_PER_NS)),
                100.0 * (double)measuring(r) / (double)r->summary->step);
    if (x->submit_ns > 0)
        fprintf(f, "submitting a step took the host %s op by op\n",
                lw_format_ps(a, (lw_ps)(x->submit_ns * LW_PS_PER_NS)));
    if (x->graph_submit_ns > 0)
        fprintf(f, "submitting a step took the host %s as a graph%s\n",
                lw_format_ps(a, (lw_ps)(x->graph_submit_ns * LW_PS_PER_NS)),
                x->submit_ns > 0 ? "" : " (op by op: --warmup 2 or more)");
    if (x->others_share >= DISTURBED)
        lw_printf_paragraph(f,
                            "other programs took %.1f %% of the processors during the run: %s",
                            100 * x->others_share,
                            100 * x->others_share > LW_LOADED_PCT
                                ? "measured under load, repeat it; `compare` judges no prediction "
                                  "by it"
                                : "steps are too long by about as much");
    if (x->clock_error_ns > 0)
        fprintf(f, "clocks of the ranks' processes agree to within %s\n",
                lw_format_ns(a, x->clock_error_ns));
}

static void text_speed(const struct lw_exec_result *x, FILE *f)
{
    char text[LW_SPEED_TEXT];

    if (x->speed.n > 0)
        lw_printf_paragraph(f, "the machine ran at %s of the calibrated speed",
                            lw_speed_text(text, x->speed.median, x->speed.p10, x->speed.p90));
}

static void json_speed(struct lw_jsonout *o, const struct lw_exec_result *x)
{
    const struct lw_machine_speed *s = &x->speed;

    LW_JSON(o, "machine_speed", lw_decimals_if(s->n > 0, s->median, 4),
            "machine_speed_p10", lw_decimals_if(s->n > 0, s->p10, 4),
            "machine_speed_p90", lw_decimals_if(s->n > 0, s->p90, 4));
    lw_jsonout_array(o, "compute_speeds");
    for (int32_t rank = 0; rank < x->n_compute_speeds; rank++)
        LW_JSON_ROW(o, NULL, "rank", rank, "compute_speed",
                    lw_decimals_if(!isnan(x->compute_speed[rank]), x->compute_speed[rank], 4));
    lw_jsonout_end(o);
    lw_jsonout_array(o, "probes");
    for (int64_t i = 0; i < x->n_probes; i++)
        LW_JSON_ROW(o, NULL, "step", x->probes[i].step, "rank", x->probes[i].rank,
                    "now_ns", lw_decimals(x->probes[i].now_ns, 0),
                    "set_ns", lw_decimals(x->probes[i].set_ns, 0));
    lw_jsonout_end(o);
}

static void text_verified(const struct lw_exec_report *r, FILE *f)
{
    char buf[32];

    if (r->result->verified != LW_EXEC_MISMATCH && r->result->n_consolidated_bytes > 0)
        fprintf(f, "consolidated: %s of optimizer state on rank %d%s\n",
                lw_format_bytes(buf, r->result->n_consolidated_bytes), r->options->consolidate,
                r->verify ? ", as one rank alone would hold it" : "");
    if (r->result->verified == LW_EXEC_VERIFIED)
        lw_printf_paragraph(
            f,
            "verified: %s equal to a one-rank run of the same steps, bit by bit; averaged "
            "gradients of %d steps equal in a rehearsal, which is not measured",
            lw_format_bytes(buf, r->result->n_checked_bytes), r->result->n_compared_steps);
    else if (r->result->verified == LW_EXEC_MISMATCH)
        lw_printf_paragraph(f, "NOT verified: %s", r->message);
    else
        fprintf(f, "not verified%s\n", r->verify ? "" : " (--no-verify)");
}

static struct lw_throughput throughput(const struct lw_exec_report *r)
{
    return lw_throughput_of(r->plan, r->of_cluster ? r->cluster : NULL, r->summary->step);
}

/* A distinct collective: the library's estimate, the model's time, the measured one; -1 = none. */
struct call_row {
    struct lw_exec_call call;
    int32_t n_ranks, n_nodes;
    lw_ps model, measured;
};

#define AT(field) offsetof(struct call_row, field)
static const struct lw_column call_columns[] = {
    {"op", "op", LW_COLUMN_WORD, AT(call.op), .word = lw_op_word},
    {"n_ranks", ">ranks", LW_COLUMN_INT32, AT(n_ranks)},
    {"n_nodes", ">nodes", LW_COLUMN_INT32, AT(n_nodes)},
    {"bytes", ">size", LW_COLUMN_BYTES, AT(call.bytes)},
    {"estimate_ns", ">estimate", LW_COLUMN_PS, AT(call.estimate), .lacking = "-"},
    {"model_ns", ">model", LW_COLUMN_PS, AT(model), .lacking = "-"},
    {"measured_ns", ">measured", LW_COLUMN_PS, AT(measured), .lacking = "-"},
    {"n_measured", ">of", LW_COLUMN_INT, AT(call.n_measured)},
};
#undef AT

static struct call_row call_row(const struct lw_exec_report *r, const struct lw_exec_call *c)
{
    const struct lw_plan *p = r->plan;
    const struct lw_group *g = &p->groups[c->group];
    struct lw_spread at = lw_spread_over(r->cluster->devices_per_node,
                                         p->members + g->first_member, g->n_members);
    struct lw_cost_query q = {c->op,        c->dtype,   c->bytes,
                              g->n_members, at.n_nodes, p->comms[c->comm].reducer, at.fewest,
                              g->n_members == p->n_ranks};

    return (struct call_row){*c, g->n_members, at.n_nodes, r->cost.time(r->cost.ctx, &q),
                             c->n_measured > 0 ? c->measured : -1};
}

/* A table, or an array of the object that is open in o. */
static enum lw_status put_calls(const struct lw_exec_report *r, struct lw_jsonout *o, FILE *f,
                                struct lw_err *err)
{
    const struct lw_exec_result *x = r->result;
    enum lw_status status = LW_OK;

    if (x->n_calls == 0)
        return LW_OK;
    struct call_row *rows = lw_alloc((size_t)x->n_calls * sizeof *rows);
    if (!rows)
        return lw_fail_nomem(err);
    for (int32_t i = 0; i < x->n_calls; i++)
        rows[i] = call_row(r, &x->calls[i]);
    struct lw_records all = LW_RECORDS("calls", call_columns, rows, x->n_calls);
    if (o) {
        lw_records_json(o, &all);
    } else {
        lw_printf_paragraph(f,
                            "collectives of rank %d: the library's estimate, the cluster's model, "
                            "and the mean of the shortest spans",
                            x->calls_rank);
        status = lw_records_text(&all, f, 2, err);
    }
    lw_free(rows);
    return status;
}

const struct lw_exec_device_figure lw_exec_device_figures[] = {
    {"sm_clock_mean_mhz", offsetof(struct exec_device_state, sm_mhz_mean)},
    {"sm_clock_least_mhz", offsetof(struct exec_device_state, sm_mhz_min)},
    {"memory_clock_least_mhz", offsetof(struct exec_device_state, memory_mhz_min)},
    {"power_mean_w", offsetof(struct exec_device_state, watts_mean)},
    {"power_max_w", offsetof(struct exec_device_state, watts_max)},
    {"temperature_max_c", offsetof(struct exec_device_state, celsius_max)},
    {"n_device_readings", offsetof(struct exec_device_state, n_readings)},
    {"n_throttled_readings", offsetof(struct exec_device_state, n_throttled)},
    {NULL, 0},
};

double lw_exec_device_figure(const struct exec_device_state *s, int k)
{
    return *(const double *)(const void *)((const char *)s + lw_exec_device_figures[k].at);
}

static void print_state(const struct exec_device_state *s, int32_t rank, FILE *f)
{
    if (s->n_readings > 0)
        lw_printf_paragraph(f,
                            "device of rank %d: SM clock %.0f MHz (least %.0f), memory %.0f MHz, "
                            "%.0f W (most %.0f), %.0f C, throttled in %.0f of %.0f readings",
                            rank, s->sm_mhz_mean, s->sm_mhz_min, s->memory_mhz_min, s->watts_mean,
                            s->watts_max, s->celsius_max, s->n_throttled, s->n_readings);
}

/* One line for each process's device; one where all ranks share it. */
static void print_states(const struct lw_exec_result *x, FILE *f)
{
    if (*x->settings)
        lw_printf_paragraph(f, "settings: %s", x->settings);
    if (x->n_states == 0)
        print_state(&x->state, 0, f);
    for (int32_t i = 0; i < x->n_states; i++)
        print_state(&x->states[i], i, f);
}

static void json_states(struct lw_jsonout *o, const struct lw_exec_result *x)
{
    const struct exec_device_state *s = x->n_states > 0 ? x->states : &x->state;

    lw_jsonout_string(o, "settings", x->settings);
    lw_jsonout_array(o, "devices");
    for (int32_t i = 0; i < (x->n_states > 0 ? x->n_states : 1); i++) {
        if (s[i].n_readings == 0)
            continue;
        lw_jsonout_line_object(o, NULL);
        lw_jsonout_int(o, "rank", i);
        for (int k = 0; lw_exec_device_figures[k].name; k++)
            LW_JSON(o,
                    lw_exec_device_figures[k].name,
                    lw_decimals(lw_exec_device_figure(&s[i], k), 1));
        lw_jsonout_end(o);
    }
    lw_jsonout_end(o);
}

static enum lw_status text_predicted_memory(const struct lw_exec_report *r, FILE *f,
                                            struct lw_err *err)
{
    char peak[32];

    if (r->no_memory && *r->no_memory)
        lw_printf_paragraph(f, "memory is not predicted: %s", r->no_memory);
    if (!r->memory || r->memory->peak_bytes < 0)
        return LW_OK;
    fprintf(f, "predicted peak memory %s a rank\npredicted ",
            lw_format_bytes(peak, r->memory->peak_bytes));
    return lw_memory_figures_text(r->memory, &r->cluster->device, f, err);
}

static void json_predicted_memory(struct lw_jsonout *o, const struct lw_exec_report *r)
{
    if (!r->memory || r->memory->peak_bytes < 0) {
        lw_jsonout_null(o, "predicted_memory");
        return;
    }
    lw_jsonout_object(o, "predicted_memory");
    lw_jsonout_int(o, "peak_memory_bytes", r->memory->peak_bytes);
    lw_memory_figures_json(o, r->memory);
    lw_jsonout_end(o);
}

/* The plan's times and memory are of the model's optimizer, and the run has its own. */
static void text_optimizer(const struct lw_exec_report *r, FILE *f)
{
    const char *own = exec_optimizer_name(r->options->optimizer.kind);
    const char *of_plan = r->plan->optimizer;

    if (of_plan && of_plan[0] && strcmp(of_plan, own) != 0)
        fprintf(f, "updates: %s; the plan's times and memory are of %s\n", own, of_plan);
}

static enum lw_status print_text(const struct lw_exec_report *r, FILE *f, struct lw_err *err)
{
    const struct lw_exec_result *x = r->result;
    const struct lw_summary *s = r->summary;
    char buf[32], low[32], high[32];

    lw_printf_paragraph(f, "plan %s (%s), %d rank%s, backend %s, %s%s", r->plan->name,
                        r->plan->hash, r->plan->n_ranks, lw_plural(r->plan->n_ranks),
                        r->options->backend->name, exec_honesty_name(x->honesty),
                        x->oversubscribed ? ", oversubscribed: ranks share cores or devices" : "");
    lw_framework_choice_print(r->framework, f);
    lw_accumulation_print(r->plan->strategy, f);
    lw_printf_paragraph(f, "%s; compute: %s", x->about, x->compute);
    print_states(x, f);
    if (s->n_steps > 0) {
        lw_ps least = s->steps[0], most = s->steps[0];
        for (int32_t i = 1; i < s->n_steps; i++) {
            least = s->steps[i] < least ? s->steps[i] : least;
            most = s->steps[i] > most ? s->steps[i] : most;
        }
        fprintf(f, "step %s, median of %d measured (%s to %s)\n", lw_format_ps(buf, s->step),
                s->n_steps, lw_format_ps(low, least), lw_format_ps(high, most));
        lw_summary_text(s, f);
        fprintf(f, "\n");
        struct lw_throughput t = throughput(r);
        lw_throughput_text(&t, f);
    }
    LW_TRY(text_predicted_memory(r, f, err));
    text_measuring(r, f);
    text_speed(x, f);
    text_optimizer(r, f);
    if (x->over > 0)
        fprintf(f, "real gradients and updates took %s a step more than the plan's times allow\n",
                lw_format_ps(buf, x->over));
    text_verified(r, f);
    LW_TRY(put_calls(r, NULL, f, err));
    if (r->run >= 0)
        fprintf(f, "stored as run %lld\n", (long long)r->run);
    return LW_OK;
}

void lw_exec_print_stop(const struct lw_exec_report *r, FILE *f)
{
    const struct lw_exec_result *x = r->result;
    char last[EXEC_OP_TEXT], open[EXEC_OP_TEXT];

    for (int32_t i = 0; i < x->n_places; i++) {
        const struct lw_exec_place *p = &x->places[i];
        fprintf(f, "rank %d: ", p->rank);
        if (p->known) {
            fprintf(f, "step %d, last finished: %s; first unfinished: %s\n", p->step,
                    exec_op_text(r->plan, p->last_op, last),
                    exec_op_text(r->plan, p->open_op, open));
        } else {
            fprintf(f, "outside its steps, or it did not answer\n");
        }
    }
    if (x->n_turned_away > 0)
        fprintf(f, "%d connection%s turned away; the last: %s\n", x->n_turned_away,
                x->n_turned_away > 1 ? "s" : "", x->turned_away);
}

static void json_places(struct lw_jsonout *o, const struct lw_exec_result *x)
{
    lw_jsonout_array(o, "stopped");
    for (int32_t i = 0; i < x->n_places; i++) {
        const struct lw_exec_place *p = &x->places[i];
        LW_JSON_ROW(o, NULL, "rank", p->rank, "step", lw_known_if(p->known, p->step),
                    "last_finished_op", lw_known_if(p->known, p->last_op),
                    "first_unfinished_op", lw_known_if(p->known, p->open_op));
    }
    lw_jsonout_end(o);
}

const char *lw_exec_sources(const struct lw_exec_result *x, enum exec_compute compute,
                            char text[LW_RUN_SOURCES])
{
    return lw_run_sources_text(text,
                               compute == EXEC_COMPUTE_GEMM ? NULL : exec_compute_name(compute),
                               exec_honesty_name(x->honesty));
}

static enum lw_status print_json(const struct lw_exec_report *r, FILE *f, struct lw_err *err)
{
    struct lw_jsonout o = {.file = f};
    const struct lw_exec_result *x = r->result;
    char text[LW_RUN_SOURCES];
    struct lw_run_sources from =
        lw_run_sources_of(lw_exec_sources(x, r->options->compute, text));

    lw_jsonout_object(&o, NULL);
    LW_JSON(&o, "status", r->status, "message", r->message);
    if (strcmp(r->status, "ok") != 0)
        lw_jsonout_string(&o, "error", r->message);
    LW_JSON(&o, "plan", r->plan->name, "plan_hash", r->plan->hash,
            "backend", r->options->backend->name, "compute_source", from.compute, "network",
            from.network, "honesty", from.last,
            "oversubscribed", x->oversubscribed, "compute", exec_compute_name(r->options->compute),
            "compute_with", x->compute, "placement", x->about);
    const char *of_plan = r->plan->optimizer;
    LW_JSON(&o, "optimizer", exec_optimizer_name(r->options->optimizer.kind),
            "plan_optimizer", of_plan && *of_plan ? of_plan : NULL);
    lw_framework_choice_json(&o, r->framework);
    json_predicted_memory(&o, r);
    json_states(&o, x);
    LW_JSON(&o, "n_ranks", r->plan->n_ranks, "n_cores", x->n_cores, "n_warmup", x->n_warmup);
    if (r->summary->n_steps > 0) {
        lw_summary_json_steps(&o, r->summary);
        lw_summary_json_measures(&o, r->summary);
        struct lw_throughput t = throughput(r);
        lw_throughput_json(&o, &t);
        LW_TRY(lw_summary_json_ranks(&o, r->summary, false, err));
    } else {
        lw_jsonout_null(&o, "step_ns");
        lw_jsonout_line_array(&o, "steps_ns");
        lw_jsonout_end(&o);
    }
    if (x->verified == LW_EXEC_NOT_VERIFIED)
        lw_jsonout_null(&o, "verified");
    else
        lw_jsonout_bool(&o, "verified", x->verified == LW_EXEC_VERIFIED);
    LW_JSON(&o, "n_compared_steps", x->n_compared_steps, "n_checked_bytes", x->n_checked_bytes,
            "n_checked_message_bytes", x->n_checked_message_bytes,
            "n_consolidated_bytes", x->n_consolidated_bytes, "over_ns", lw_ps_to_ns(x->over),
            "measuring_ns", lw_ps_to_ns(measuring(r)),
            "submit_ns", lw_decimals_if(x->submit_ns > 0, x->submit_ns, 0),
            "graph_submit_ns", lw_decimals_if(x->graph_submit_ns > 0, x->graph_submit_ns, 0),
            "clock_error_ns", x->clock_error_ns,
            "others_share", lw_decimals_if(x->others_share >= 0, x->others_share, 4),
            "n_ops", x->timeline.n);
    json_speed(&o, x);
    lw_jsonout_null(&o, "n_events"); /* an engine's queue: exec has none */
    LW_JSON(&o, "wall_s", lw_decimals(x->wall_s, 6));
    LW_TRY(put_calls(r, &o, NULL, err));
    json_places(&o, x);
    LW_JSON(&o, "n_turned_away", x->n_turned_away, "run", lw_known(r->run));
    lw_jsonout_end(&o);
    return LW_OK;
}

enum lw_status lw_exec_print(const struct lw_exec_report *r, enum lw_format format, FILE *f,
                             struct lw_err *err)
{
    if (format == LW_FORMAT_CSV)
        return lw_summary_csv(r->summary, f, err);
    return format == LW_FORMAT_JSON ? print_json(r, f, err) : print_text(r, f, err);
}

struct listed_backend {
    const char *name, *about, *reason, *shown;
    bool available;
};

enum lw_status lw_exec_print_backends(enum lw_format format, FILE *f, struct lw_err *err)
{
#define AT(field) offsetof(struct listed_backend, field)
    static const struct lw_column columns[] = {
        {"name", "backend", LW_COLUMN_TEXT, AT(name)},
        {"about", NULL, LW_COLUMN_TEXT, AT(about)},
        {"available", "available", LW_COLUMN_FLAG, AT(available)},
        {"reason", NULL, LW_COLUMN_TEXT, AT(reason)},
        {NULL, "about", LW_COLUMN_TEXT, AT(shown)},
    };
#undef AT
    struct exec_listing list[EXEC_N_BACKENDS];
    struct listed_backend rows[EXEC_N_BACKENDS];

    exec_backend_list(list);
    for (int i = 0; i < EXEC_N_BACKENDS; i++) {
        bool available = list[i].backend != NULL;
        rows[i] = (struct listed_backend){list[i].name, list[i].about,
                                          available ? NULL : list[i].reason,
                                          available ? list[i].about : list[i].reason, available};
    }
    return lw_records_print(&LW_RECORDS("backends", columns, rows, EXEC_N_BACKENDS), format, f,
                            err);
}

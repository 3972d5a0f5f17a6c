/* What `inspect --report` prints: of each rank its work, idle time, launches and critical path; of
 * ranks of one run what it would take if they were alike; of two other files what differs. */
#include "traces/inspect/inspect_profile.h"

#include "shared/json/jsonout.h"
#include "shared/text/records.h"
#include "shared/text/table.h"
#include "shared/text/wrap.h"

static double share(int64_t part, int64_t whole)
{
    return whole > 0 ? (double)part / (double)whole : 0;
}

static double overlap(const struct traces_rank_report *p)
{
    return p->comm_ns > 0 ? 1 - share(p->exposed_comm_ns, p->comm_ns) : 0;
}

/* ---- JSON ---- */

static void put_work(struct lw_jsonout *o, const struct traces_rank_report *p)
{
    lw_jsonout_array(o, "work");
    for (int k = 0; k < TRACES_N_WORKS; k++)
        LW_JSON_ROW(o, NULL, "class", traces_work_name(k), "n", p->work[k].n, "total_ns",
                    p->work[k].total_ns, "longest_ns", p->work[k].longest_ns, "critical_ns",
                    p->work[k].critical_ns);
    lw_jsonout_end(o);
}

void traces_put_profile(struct lw_jsonout *o, const struct traces_report_file *f)
{
    const struct traces_rank_report *p = &f->profile;
    const struct traces_launch_use *u = &p->launch;

    if (!f->device.has_device)
        return;
    lw_jsonout_object(o, "report");
    LW_JSON(o, "span_ns", p->span_ns, "comm_busy_ns", p->comm_ns, "exposed_comm_ns",
            p->exposed_comm_ns, "overlap", lw_decimals(overlap(p), 6));
    put_work(o, p);
    lw_jsonout_line_object(o, "idle_ns");
    for (int k = 0; k < TRACES_N_IDLES; k++)
        lw_jsonout_int(o, traces_idle_name(k), p->idle_ns[k]);
    lw_jsonout_end(o);
    lw_jsonout_object(o, "launches");
    LW_JSON(o, "n", u->n, "call_ns", u->call_ns, "longest_call_ns", u->longest_call_ns,
            "n_calls_over_50us", u->n_long_calls, "delay_ns", u->delay_ns, "longest_delay_ns",
            u->longest_delay_ns, "n_delays_over_100us", u->n_long_delays,
            "n_shorter_than_call", u->n_short_ops, "longest_queue", u->longest_queue,
            "mean_queue", lw_decimals(u->mean_queue, 3));
    lw_jsonout_end(o);
    LW_JSON_ROW(o, "critical_path", "path_ns", p->critical_ns, "host_ns", p->critical_host_ns,
                "gaps_ns", p->critical_gap_ns);
    lw_jsonout_end(o);
}

static void put_changes(struct lw_jsonout *o, const struct traces_report *r)
{
    lw_jsonout_array(o, "changes");
    for (int64_t i = 0; i < r->n_changes; i++) {
        const struct traces_kernel_change *c = &r->changes[i];
        LW_JSON_ROW(o, NULL, "kernel", c->name, "n_first", c->n[0], "n_second", c->n[1],
                    "first_ns", c->ns[0], "second_ns", c->ns[1], "change_ns", c->ns[1] - c->ns[0]);
    }
    lw_jsonout_end(o);
}

void traces_put_profiles(struct lw_jsonout *o, const struct traces_report *r)
{
    const struct traces_alike *a = &r->alike;

    if (r->n_changes > 0)
        put_changes(o, r);
    if (!r->one_run || !a->known)
        return;
    lw_jsonout_object(o, "stragglers");
    LW_JSON(o, "recorded_ns", a->recorded_ns, "simulated_ns", a->simulated_ns, "alike_ns",
            a->alike_ns, "slowdown", lw_decimals(share(a->simulated_ns, a->alike_ns), 6),
            "worst_rank", a->v[a->worst].rank);
    lw_jsonout_array(o, "by_rank");
    for (int32_t i = 0; i < a->n; i++)
        LW_JSON_ROW(o, NULL, "rank", a->v[i].rank, "own_ns", a->v[i].own_ns, "slowdown",
                    lw_decimals(a->v[i].slowdown, 6));
    lw_jsonout_end(o);
    lw_jsonout_end(o);
}

/* ---- text ---- */

static enum lw_status text_work(const struct traces_rank_report *p, FILE *out, struct lw_err *err)
{
    static const char *const titles[] = {"work",     ">ops",    ">sum",
                                         ">longest", ">of the critical path", ">at most saved"};
    struct lw_table *t = lw_table_new(6, titles);

    for (int k = 0; k < TRACES_N_WORKS; k++) {
        const struct traces_work_use *w = &p->work[k];
        if (w->n == 0)
            continue;
        LW_CELLS(t, traces_work_name(k), w->n, LW_NS(w->total_ns), LW_NS(w->longest_ns),
                 LW_NS(w->critical_ns));
        lw_table_cell(t, "%.1f %%", 100 * share(w->critical_ns, p->critical_ns));
    }
    LW_CELLS(t, "host", "-", "-", "-", LW_NS(p->critical_host_ns));
    lw_table_cell(t, "%.1f %%", 100 * share(p->critical_host_ns, p->critical_ns));
    LW_CELLS(t, "gaps", "-", "-", "-", LW_NS(p->critical_gap_ns));
    lw_table_cell(t, "%.1f %%", 100 * share(p->critical_gap_ns, p->critical_ns));
    return lw_table_end(t, out, 2, err);
}

enum lw_status traces_text_profile(const struct traces_report_file *f, FILE *out,
                                   struct lw_err *err)
{
    const struct traces_rank_report *p = &f->profile;
    const struct traces_launch_use *u = &p->launch;
    char a[32], b[32], c[32], d[32];

    if (!f->device.has_device)
        return LW_OK;
    LW_TRY(text_work(p, out, err));
    lw_printf_paragraph(out, "  communication: %s busy, %.1f %% of it beside compute",
                        lw_format_ps(a, lw_ns_to_ps(p->comm_ns)), 100 * overlap(p));
    lw_printf_paragraph(
        out,
        "  streams idle (sum): %s because the host launched late, %s between ops, %s for other "
        "streams, %s unknown",
        lw_format_ps(a, lw_ns_to_ps(p->idle_ns[TRACES_IDLE_HOST])),
        lw_format_ps(b, lw_ns_to_ps(p->idle_ns[TRACES_IDLE_QUEUE])),
        lw_format_ps(c, lw_ns_to_ps(p->idle_ns[TRACES_IDLE_OTHER])),
        lw_format_ps(d, lw_ns_to_ps(p->idle_ns[TRACES_IDLE_UNKNOWN])));
    lw_printf_paragraph(
        out,
        "  launches: %lld, of %s on average (longest %s, %lld over 50 us); from call to start %s "
        "on average (longest %s, %lld over 100 us); %lld ops are shorter than their call; queue "
        "of up to %lld, %.1f on average",
        (long long)u->n, lw_format_ps(a, lw_ns_to_ps(u->n ? u->call_ns / u->n : 0)),
        lw_format_ps(b, lw_ns_to_ps(u->longest_call_ns)), (long long)u->n_long_calls,
        lw_format_ps(c, lw_ns_to_ps(u->n ? u->delay_ns / u->n : 0)),
        lw_format_ps(d, lw_ns_to_ps(u->longest_delay_ns)), (long long)u->n_long_delays,
        (long long)u->n_short_ops, (long long)u->longest_queue, u->mean_queue);
    return LW_OK;
}

static enum lw_status text_changes(const struct traces_report *r, FILE *out, struct lw_err *err)
{
    static const char *const titles[] = {"device op", ">in the first", ">sum", ">in the second",
                                         ">sum", ">change"};
    struct lw_table *t = lw_table_new(6, titles);
    char text[32];

    for (int64_t i = 0; i < r->n_changes && (r->all || i < 10); i++) {
        const struct traces_kernel_change *c = &r->changes[i];
        int64_t by = c->ns[1] - c->ns[0];
        lw_table_cell(t, "%.40s", c->name);
        LW_CELLS(t, c->n[0], LW_NS(c->ns[0]), c->n[1], LW_NS(c->ns[1]));
        lw_table_cell(t, "%s%s", by < 0 ? "-" : "+",
                      lw_format_ps(text, lw_ns_to_ps(by < 0 ? -by : by)));
    }
    fputs("\nwhat differs most between the two files\n", out);
    return lw_table_end(t, out, 2, err);
}

enum lw_status traces_text_profiles(const struct traces_report *r, FILE *out, struct lw_err *err)
{
    const struct traces_alike *a = &r->alike;
    char x[32], y[32];

    if (r->n_changes > 0)
        LW_TRY(text_changes(r, out, err));
    if (!r->one_run || !a->known)
        return LW_OK;
    static const char *const titles[] = {">rank", ">between collectives", ">run slower by it"};
    struct lw_table *t = lw_table_new(3, titles);
    for (int32_t i = 0; i < a->n; i++) {
        LW_CELLS(t, a->v[i].rank, LW_NS(a->v[i].own_ns));
        lw_table_cell(t, "%.4f", a->v[i].slowdown);
    }
    lw_printf_paragraph(out,
                        "\nif all ranks were like the median one, the run would take %s in place "
                        "of %s (%.3f times); rank %d costs most",
                        lw_format_ps(x, lw_ns_to_ps(a->alike_ns)),
                        lw_format_ps(y, lw_ns_to_ps(a->simulated_ns)),
                        share(a->simulated_ns, a->alike_ns), a->v[a->worst].rank);
    return lw_table_end(t, out, 2, err);
}

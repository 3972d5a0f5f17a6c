/* The measures of a run for people and for programs. */
#include "shared/timeline/summary_print.h"

#include "shared/text/table.h"
#include "shared/text/wrap.h"
#include "shared/plan/op.h"
#include "shared/plan/plan.h"
#include "shared/timeline/rank_period.h"

static void line(FILE *f, const char *name, lw_ps t, lw_ps step)
{
    char buf[32];

    fprintf(f, "  %-22s %14s", name, lw_format_ps(buf, t));
    if (step > 0)
        fprintf(f, "  %5.1f %%", 100.0 * (double)t / (double)step);
    fputc('\n', f);
}

static void take_parts(const struct lw_measure *m, lw_ps part[LW_N_PERIOD_PARTS])
{
    part[LW_PERIOD_COMPUTE] = m->compute_busy;
    part[LW_PERIOD_COPY] = m->exposed_copy;
    part[LW_PERIOD_TRANSFER] = m->transfer;
    for (int i = 0; i < LW_N_WAITS; i++)
        part[LW_PERIOD_WAIT + i] = m->wait[i];
    part[LW_PERIOD_IDLE] = m->idle;
}

/* What is printed of a measure. Parts are rounded so that they add up to the period: each is the
 * difference of two rounded sums. */
struct measured_ns {
    lw_ns period, part[LW_N_PERIOD_PARTS], copy_busy, comm_busy, exposed_comm;
};

static struct measured_ns round_measure(const struct lw_measure *m)
{
    struct measured_ns n = {.period = lw_ps_to_ns(m->end - m->start),
                            .copy_busy = lw_ps_to_ns(m->copy_busy),
                            .comm_busy = lw_ps_to_ns(m->comm_busy)};
    lw_ps part[LW_N_PERIOD_PARTS], sum = 0;
    lw_ns before = 0;

    take_parts(m, part);
    for (int i = 0; i < LW_N_PERIOD_PARTS; i++) {
        sum += part[i];
        n.part[i] = lw_ps_to_ns(sum) - before;
        before += n.part[i];
    }
    for (int i = LW_PERIOD_TRANSFER; i < LW_PERIOD_IDLE; i++)
        n.exposed_comm += n.part[i];
    return n;
}

void lw_summary_text(const struct lw_summary *s, FILE *f)
{
    const struct lw_measure *m = &s->ranks[s->worst];
    lw_ps period = m->end - m->start;
    char name[32];

    fprintf(f, "\n%srank %d, whose period is the longest, adds up to\n",
            s->n_steps > 1 ? "of the middle step, " : "", m->rank);
    line(f, "compute", m->compute_busy, period);
    line(f, "copies, exposed", m->exposed_copy, period);
    line(f, "transfers, exposed", m->transfer, period);
    for (int i = 0; i < LW_N_WAITS; i++) {
        snprintf(name, sizeof name, "wait, %s", lw_wait_name((enum lw_wait)i));
        if (m->wait[i] > 0)
            line(f, name, m->wait[i], period);
    }
    line(f, "host and idle", m->idle, period);
    line(f, "period", period, period);
    fprintf(f, "of it, busy at the same time\n");
    line(f, "copies", m->copy_busy, period);
    line(f, "communication", m->comm_busy, period);
}

enum lw_status lw_summary_csv(const struct lw_summary *s, FILE *f, struct lw_err *err)
{
    static const char *const titles[] = {
        "rank", "period_ns", "compute_busy_ns", "copy_busy_ns", "comm_busy_ns", "exposed_comm_ns",
        "idle_ns", "exposed_copy_ns", "exposed_transfer_ns", "wait_tensor_ns", "wait_pipeline_ns",
        "wait_data_ns", "wait_tied_ns", "wait_other_ns"};
    enum { N_COLUMNS = sizeof titles / sizeof *titles };
    struct lw_table *t = lw_table_new(N_COLUMNS, titles);

    for (int32_t i = 0; t && i < s->n_ranks; i++) {
        const struct measured_ns n = round_measure(&s->ranks[i]);
        const lw_ns v[] = {
            n.period,       n.part[LW_PERIOD_COMPUTE], n.copy_busy,           n.comm_busy,
            n.exposed_comm, n.part[LW_PERIOD_IDLE],    n.part[LW_PERIOD_COPY]};
        lw_table_cell(t, "%d", s->ranks[i].rank);
        for (size_t k = 0; k < sizeof v / sizeof *v; k++)
            lw_table_cell(t, "%lld", (long long)v[k]);
        for (int k = LW_PERIOD_TRANSFER; k < LW_PERIOD_IDLE; k++)
            lw_table_cell(t, "%lld", (long long)n.part[k]);
    }
    enum lw_status status = lw_table_print_csv(t, f, err);
    lw_table_free(t);
    return status;
}

void lw_summary_json_steps(struct lw_jsonout *o, const struct lw_summary *s)
{
    lw_jsonout_ns(o, "step_ns", s->step);
    lw_jsonout_line_array(o, "steps_ns");
    for (int32_t i = 0; i < s->n_steps; i++)
        lw_jsonout_ns(o, NULL, s->steps[i]);
    lw_jsonout_end(o);
    lw_jsonout_ns(o, "span_ns", s->span);
}

void lw_summary_json_measure(struct lw_jsonout *o, const struct lw_measure *m)
{
    struct measured_ns n = round_measure(m);
    char key[32];

    lw_jsonout_int(o, "period_ns", n.period);
    lw_jsonout_int(o, "compute_busy_ns", n.part[LW_PERIOD_COMPUTE]);
    lw_jsonout_int(o, "copy_busy_ns", n.copy_busy);
    lw_jsonout_int(o, "comm_busy_ns", n.comm_busy);
    lw_jsonout_int(o, "exposed_copy_ns", n.part[LW_PERIOD_COPY]);
    lw_jsonout_int(o, "exposed_comm_ns", n.exposed_comm);
    lw_jsonout_int(o, "exposed_transfer_ns", n.part[LW_PERIOD_TRANSFER]);
    for (int i = 0; i < LW_N_WAITS; i++) {
        snprintf(key, sizeof key, "wait_%s_ns", lw_wait_name((enum lw_wait)i));
        lw_jsonout_int(o, key, n.part[LW_PERIOD_WAIT + i]);
    }
    lw_jsonout_int(o, "idle_ns", n.part[LW_PERIOD_IDLE]);
}

void lw_summary_json_measures(struct lw_jsonout *o, const struct lw_summary *s)
{
    lw_jsonout_int(o, "rank", s->ranks[s->worst].rank);
    lw_summary_json_measure(o, &s->ranks[s->worst]);
    lw_jsonout_fixed(o, "bubble_ratio", s->bubble_ratio, 6);
    lw_jsonout_fixed(o, "compute_share", s->compute_share, 6);
    lw_jsonout_int(o, "peak_memory_bytes", s->peak_memory_bytes);
}

void lw_summary_json_memory(struct lw_jsonout *o, const struct lw_summary *s,
                            const struct lw_plan *plan)
{
    const struct lw_memory_peak *m = &s->memory;
    char key[40];

    if (m->rank < 0) {
        lw_jsonout_null(o, "memory_at_peak");
        return;
    }
    lw_jsonout_object(o, "memory_at_peak");
    lw_jsonout_int(o, "rank", m->rank);
    lw_jsonout_known(o, "step", m->step);
    lw_jsonout_ns(o, "at_ns", m->at);
    lw_jsonout_known(o, "op", m->op);
    lw_jsonout_string(o, "op_kind", m->op >= 0 ? lw_op_name(plan->ops[m->op].kind) : NULL);
    for (int i = 0; i < LW_N_MEMORY; i++) {
        snprintf(key, sizeof key, "%s_bytes", lw_memory_name((enum lw_memory)i));
        lw_jsonout_int(o, key, m->bytes[i]);
    }
    lw_jsonout_int(o, "total_bytes", m->total);
    lw_jsonout_end(o);
}

void lw_summary_text_memory(const struct lw_summary *s, const struct lw_plan *plan, FILE *f)
{
    const struct lw_memory_peak *m = &s->memory;
    char bytes[32], name[32], text[512], before[32];
    size_t n = 0;

    if (m->rank < 0)
        return;
    snprintf(before, sizeof before, "memory of rank %d ", m->rank);
    n += (size_t)snprintf(text, sizeof text, "at its peak");
    if (m->op >= 0)
        n += (size_t)snprintf(text + n, sizeof text - n, ", at %s of step %d",
                              lw_op_name(plan->ops[m->op].kind), m->step);
    for (int i = 0; i < LW_N_MEMORY; i++) {
        snprintf(name, sizeof name, "%s", lw_memory_name((enum lw_memory)i));
        for (char *c = name; *c; c++)
            *c = *c == '_' ? ' ' : *c;
        if (m->bytes[i] > 0)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s %s %s", i ? "," : ":", name,
                                  lw_format_bytes(bytes, m->bytes[i]));
    }
    lw_put_paragraph(f, before, text);
}

void lw_summary_json_ranks(struct lw_jsonout *o, const struct lw_summary *s, bool memory)
{
    lw_jsonout_array(o, "ranks");
    for (int32_t i = 0; i < s->n_ranks; i++) {
        const struct lw_measure *m = &s->ranks[i];
        lw_jsonout_line_object(o, NULL);
        lw_jsonout_int(o, "rank", m->rank);
        lw_summary_json_measure(o, m);
        if (memory)
            lw_jsonout_known(o, "peak_memory_bytes", m->peak_memory_bytes);
        lw_jsonout_end(o);
    }
    lw_jsonout_end(o);
}

/* The measures of a run for people and for programs. */
#include "shared/timeline/summary_print.h"

#include "shared/base/table.h"

static void line(FILE *f, const char *name, lw_ps t, lw_ps step)
{
    char buf[32];

    fprintf(f, "  %-22s %14s", name, lw_format_ps(buf, t));
    if (step > 0)
        fprintf(f, "  %5.1f %%", 100.0 * (double)t / (double)step);
    fputc('\n', f);
}

void lw_summary_text(const struct lw_summary *s, FILE *f)
{
    const struct lw_measure *m = &s->ranks[s->worst];

    fprintf(f, "\nrank %d, whose step is the longest\n", m->rank);
    line(f, "compute busy", m->compute_busy, s->step);
    line(f, "copy busy", m->copy_busy, s->step);
    line(f, "communication busy", m->comm_busy, s->step);
    line(f, "exposed communication", m->exposed_comm, s->step);
    line(f, "idle", m->idle, s->step);
}

enum lw_status lw_summary_csv(const struct lw_summary *s, FILE *f, struct lw_err *err)
{
    static const char *const titles[] = {"rank", "step_ns", "compute_busy_ns", "copy_busy_ns",
                                         "comm_busy_ns", "exposed_comm_ns", "idle_ns"};
    struct lw_table *t = lw_table_new(7, titles);

    for (int32_t i = 0; t && i < s->n_ranks; i++) {
        const struct lw_measure *m = &s->ranks[i];
        const lw_ps v[] = {m->end - m->start, m->compute_busy, m->copy_busy,
                           m->comm_busy,      m->exposed_comm, m->idle};
        lw_table_cell(t, "%d", m->rank);
        for (int k = 0; k < 6; k++)
            lw_table_cell(t, "%lld", (long long)lw_ps_to_ns(v[k]));
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
}

static void json_measure(struct lw_jsonout *o, const struct lw_measure *m)
{
    lw_jsonout_ns(o, "compute_busy_ns", m->compute_busy);
    lw_jsonout_ns(o, "copy_busy_ns", m->copy_busy);
    lw_jsonout_ns(o, "comm_busy_ns", m->comm_busy);
    lw_jsonout_ns(o, "exposed_comm_ns", m->exposed_comm);
    lw_jsonout_ns(o, "idle_ns", m->idle);
}

void lw_summary_json_measures(struct lw_jsonout *o, const struct lw_summary *s)
{
    json_measure(o, &s->ranks[s->worst]);
    lw_jsonout_fixed(o, "bubble_ratio", s->bubble_ratio, 6);
    lw_jsonout_int(o, "peak_memory_bytes", s->peak_memory_bytes);
}

void lw_summary_json_ranks(struct lw_jsonout *o, const struct lw_summary *s, bool memory)
{
    lw_jsonout_array(o, "ranks");
    for (int32_t i = 0; i < s->n_ranks; i++) {
        const struct lw_measure *m = &s->ranks[i];
        lw_jsonout_line_object(o, NULL);
        lw_jsonout_int(o, "rank", m->rank);
        lw_jsonout_ns(o, "step_ns", m->end - m->start);
        json_measure(o, m);
        if (memory)
            lw_jsonout_known(o, "peak_memory_bytes", m->peak_memory_bytes);
        lw_jsonout_end(o);
    }
    lw_jsonout_end(o);
}

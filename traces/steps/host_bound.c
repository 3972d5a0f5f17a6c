/* Host and device together. A stretch is host-bound when the device ran nothing and the op that
 * ended it was launched after it began: a faster device would not shorten it. Idle time before an
 * op that was launched earlier (it waited for another stream, or for its own queue) is not counted.
 * Only ops launched inside the iteration are looked at, in the order in which they started. */
#include "traces/steps/host_bound.h"

#include "traces/trace/comm_facts.h"

enum { LEAST_STRETCH_NS = 50000 };

struct finder {
    const struct lw_trace *t;
    const struct lw_inspection *in;
    struct traces_host_bound *out;
};

static enum lw_status count_classes(struct finder *f, const struct lw_kernel_table *table,
                                    struct lw_err *err)
{
    uint8_t *class_of;

    LW_TRY(traces_kernel_classes(f->t, table, &f->out->arena, &class_of, err));
    for (int64_t i = 0; i < f->t->n; i++)
        if (f->t->class[i] == LW_ROW_KERNEL) {
            struct traces_class_use *u = &f->out->classes[class_of[f->t->name[i]]];
            u->n++;
            u->total_ns += f->t->dur_ns[i];
        }
    return LW_OK;
}

static void count_waits(struct finder *f)
{
    const struct traces_calls *c = &f->out->calls;

    for (int64_t i = 0; i < c->n; i++)
        if (c->calls[i].kind >= TRACES_CALL_STREAM_WAIT)
            f->out->n_waits[c->calls[i].source]++;
}

static void count_calls(struct finder *f, const struct lw_iteration *it, struct traces_host_use *u)
{
    const struct traces_calls *c = &f->out->calls;

    for (int64_t i = 0; i < c->n; i++) {
        int64_t row = c->calls[i].row, start = f->t->start_ns[row];
        if (start < it->start_ns || start >= it->end_ns)
            continue;
        if (c->calls[i].n_device > 0) {
            u->n_launches++;
            u->launch_ns += f->t->dur_ns[row];
        }
        if (traces_call_blocks(c->calls[i].kind)) {
            u->n_blocking++;
            u->blocking_ns += f->t->dur_ns[row];
        }
    }
}

static enum lw_status find_stretches(struct finder *f, const struct lw_iteration *it,
                                     struct traces_host_use *u, struct lw_err *err)
{
    const struct lw_trace *t = f->t;
    int64_t busy_until = it->start_ns;

    LW_TAKE(&f->out->arena, u->stretches, it->n_gpu_ops, err);
    for (int64_t i = 0; i < f->in->launches.n; i++) {
        int64_t row = f->in->launches.row[i], launch = f->in->launches.launch[i];
        int64_t start = t->start_ns[row], end = lw_trace_end_ns(t, row);
        bool mine =
            launch >= 0 && t->start_ns[launch] >= it->start_ns && t->start_ns[launch] < it->end_ns;
        if (mine && start > busy_until && t->start_ns[launch] >= busy_until) {
            u->host_bound_ns += start - busy_until;
            if (start - busy_until >= LEAST_STRETCH_NS)
                u->stretches[u->n_stretches++] =
                    (struct traces_stretch){busy_until - it->start_ns, start - it->start_ns,
                                            t->start_ns[launch] - it->start_ns, row};
        }
        busy_until = end > busy_until ? end : busy_until;
    }
    return LW_OK;
}

static enum lw_status find(struct finder *f, const struct lw_kernel_table *table,
                           struct lw_err *err)
{
    struct traces_host_bound *out = f->out;

    LW_TRY(traces_calls_build(f->t, &f->in->launches, table, &out->arena, &out->calls, err));
    LW_TRY(count_classes(f, table, err));
    count_waits(f);
    LW_TAKE(&out->arena, out->host, f->in->n_iterations, err);
    for (int64_t k = 0; k < f->in->n_iterations; k++) {
        count_calls(f, &f->in->iterations[k], &out->host[k]);
        LW_TRY(find_stretches(f, &f->in->iterations[k], &out->host[k], err));
    }
    return LW_OK;
}

enum lw_status traces_host_bound_find(const struct lw_trace *t, const struct lw_inspection *in,
                                      const struct lw_kernel_table *table,
                                      struct traces_host_bound *out, struct lw_err *err)
{
    struct traces_host_bound m = {0};
    struct finder f = {.t = t, .in = in, .out = &m};

    enum lw_status status = find(&f, table, err);
    LW_GIVE(status, out, m, traces_host_bound_free(&m));
}

LW_FREE_BY_ARENA(traces_host_bound_free, struct traces_host_bound)

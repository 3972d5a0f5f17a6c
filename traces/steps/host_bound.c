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
    int64_t *upto; /* [n_iterations] the latest end of iterations 0..k */
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

/* The last iteration that starts at or before `ns`; -1 when none does. */
static int64_t last_upto(const struct finder *f, int64_t ns)
{
    int64_t low = 0, high = f->in->n_iterations;

    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (f->in->iterations[middle].start_ns <= ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low - 1;
}

/* The next one, from k down, that `ns` lies in; -1 when there is no more. Iterations ascend by
 * their starts. */
static int64_t holding(const struct finder *f, int64_t k, int64_t ns)
{
    while (k >= 0 && f->upto[k] > ns && f->in->iterations[k].end_ns <= ns)
        k--;
    return k >= 0 && f->upto[k] > ns ? k : -1;
}

static void count_calls(struct finder *f)
{
    const struct traces_calls *c = &f->out->calls;

    for (int64_t i = 0; i < c->n; i++) {
        int64_t row = c->calls[i].row, start = f->t->start_ns[row];
        int64_t k = holding(f, last_upto(f, start), start);
        for (; k >= 0; k = holding(f, k - 1, start)) {
            struct traces_host_use *u = &f->out->host[k];
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
}

/* Before the op `row` the device had been busy until then. */
static void add_stretch(const struct finder *f, int64_t k, int64_t row, int64_t launch,
                        int64_t busy_until)
{
    const struct lw_trace *t = f->t;
    struct traces_host_use *u = &f->out->host[k];
    int64_t begin = f->in->iterations[k].start_ns, start = t->start_ns[row];

    busy_until = busy_until > begin ? busy_until : begin;
    if (start <= busy_until || t->start_ns[launch] < busy_until)
        return;
    u->host_bound_ns += start - busy_until;
    if (start - busy_until >= LEAST_STRETCH_NS)
        u->stretches[u->n_stretches++] = (struct traces_stretch){
            busy_until - begin, start - begin, t->start_ns[launch] - begin, row};
}

static void find_stretches(struct finder *f)
{
    const struct lw_trace *t = f->t;
    int64_t busy_until = INT64_MIN;

    for (int64_t i = 0; i < f->in->launches.n; i++) {
        int64_t row = f->in->launches.row[i], launch = f->in->launches.launch[i];
        int64_t at = launch >= 0 ? t->start_ns[launch] : 0, end = lw_trace_end_ns(t, row);
        int64_t k = launch >= 0 ? holding(f, last_upto(f, at), at) : -1;
        for (; k >= 0; k = holding(f, k - 1, at))
            add_stretch(f, k, row, launch, busy_until);
        busy_until = end > busy_until ? end : busy_until;
    }
}

static enum lw_status prepare(struct finder *f, struct lw_err *err)
{
    struct traces_host_bound *out = f->out;
    int64_t upto = INT64_MIN;

    LW_TAKE(&out->arena, out->host, f->in->n_iterations, err);
    LW_TAKE(&out->arena, f->upto, f->in->n_iterations, err);
    for (int64_t k = 0; k < f->in->n_iterations; k++) {
        const struct lw_iteration *it = &f->in->iterations[k];
        upto = it->end_ns > upto ? it->end_ns : upto;
        f->upto[k] = upto;
        LW_TAKE(&out->arena, out->host[k].stretches, it->n_gpu_ops, err);
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
    LW_TRY(prepare(f, err));
    count_calls(f);
    find_stretches(f);
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

/* Running a schedule without a queue. Every link carries its messages in the order of the schedule,
 * so when a message leaves is known once those before it are: step by step, with three times per
 * endpoint.
 *
 *   eager     start = max(sender's link free, receiver's link free, what the sender waits for)
 *             links are free again after the transfer; the message is there the latency later
 *   blocking  start = max(both have ended the steps before); both end this step, at the earliest,
 *             when it is there
 *
 * For the ring this is the recurrence of sim/timing/ring_recurrence.c. */
#include "sim/cost/collective_messages.h"

#include <string.h>

#include "shared/base/arena.h"
#include "shared/numbers/checked.h"
#include "shared/numbers/larger.h"

struct run {
    const struct sim_schedule *s;
    const struct sim_links *links;
    struct sim_transfer *step;
    lw_ps *ready; /* what was waited for is there; blocking: the steps before have ended */
    lw_ps *next;  /* the same after the current steps */
    lw_ps *out, *in; /* links are free */
};

static void send(struct run *x, const struct sim_transfer *m, int64_t step)
{
    lw_ps time, latency;

    x->links->time(x->links->ctx, m, lw_mul_sat((int64_t)m->count * m->each, x->s->piece_bytes),
                   &time, &latency);
    if (x->links->extra)
        time = lw_add_sat(time, x->links->extra(x->links->ctx, m->from, step));
    if (x->s->blocking) {
        lw_ps end = lw_add_sat(lw_larger(x->ready[m->from], x->ready[m->to]),
                               lw_add_sat(time, latency));
        x->next[m->from] = lw_larger(x->next[m->from], end);
        x->next[m->to] = lw_larger(x->next[m->to], end);
        return;
    }
    lw_ps start = lw_larger(x->ready[m->from], lw_larger(x->out[m->from], x->in[m->to]));
    x->out[m->from] = x->in[m->to] = lw_add_sat(start, time);
    x->next[m->to] = lw_larger(x->next[m->to], lw_add_sat(start, lw_add_sat(time, latency)));
}

static void take_over(struct run *x)
{
    memcpy(x->ready, x->next, (size_t)x->s->n_endpoints * sizeof *x->ready);
}

static int64_t run_steps(struct run *x)
{
    int64_t n_messages = 0;

    for (int64_t step = 1; step <= x->s->n_steps; step++) {
        if (x->s->blocking || sim_schedule_waits(x->s, step))
            take_over(x);
        int32_t n = sim_schedule_step(x->s, step, x->step);
        for (int32_t i = 0; i < n; i++)
            send(x, &x->step[i], step);
        n_messages += n;
    }
    take_over(x);
    return n_messages;
}

enum lw_status sim_schedule_run(const struct sim_schedule *s, const lw_ps *entry,
                                const struct sim_links *links, lw_ps *end, int64_t *n_messages,
                                struct lw_err *err)
{
    size_t n = (size_t)s->n_endpoints;
    lw_ps *times = lw_alloc(4 * n * sizeof *times);
    struct run x = {s, links, lw_alloc((size_t)s->most * sizeof *x.step), times, NULL, NULL, NULL};

    if (!times || !x.step) {
        lw_free(times);
        lw_free(x.step);
        return lw_fail_nomem(err);
    }
    memset(times, 0, 4 * n * sizeof *times);
    x.next = times + n;
    x.out = times + 2 * n;
    x.in = times + 3 * n;
    memcpy(x.next, entry, (size_t)s->n * sizeof *entry);
    take_over(&x);
    int64_t count = run_steps(&x);
    for (int32_t r = 0; r < s->n; r++)
        end[r] = lw_larger(x.ready[r], x.out[r]);
    if (n_messages)
        *n_messages = count;
    lw_free(x.step);
    lw_free(times);
    return LW_OK;
}

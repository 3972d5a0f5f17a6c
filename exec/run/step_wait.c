/* Waiting for a batch of steps, and the message when it does not end: the op that finished last and
 * the first that did not, of all ranks and of each. */
#include <stdio.h>
#include <string.h>

#include "exec/run/op_text.h"
#include "exec/run/run_state.h"

#define LOOK_NS INT64_C(100000000) /* how soon a signal is seen */
#define CAUSE_NS INT64_C(200000000) /* a launcher's signal follows a death: it is heard of first */

/* What is waited for: the op that failed; else one that began, a compute op rather than a
 * communication op, which may just wait for others; of those the first. Where none began, the
 * first in the program. */
static bool more_to_blame(const struct lw_op *a, const struct exec_stamp *sa,
                          const struct lw_op *b, const struct exec_stamp *sb)
{
    if ((sa->end_ns < 0) != (sb->end_ns < 0))
        return sa->end_ns < 0;
    if ((sa->start_ns > 0) != (sb->start_ns > 0))
        return sa->start_ns > 0;
    if (sa->start_ns > 0 && (a->comm < 0) != (b->comm < 0))
        return a->comm < 0;
    return sa->start_ns > 0 && sa->start_ns < sb->start_ns;
}

/* Of one rank, or of all (-1): what ended last, and what is most to blame among what did not. Lane
 * NULL, op -1: there is none such. */
struct blame {
    const struct exec_lane *last, *open;
    const struct exec_stamp *last_stamp, *open_stamp;
    int32_t last_op, open_op;
};

static struct blame find_blame(const struct exec_run *r, int32_t rank)
{
    struct blame b = {.last_op = -1, .open_op = -1};

    for (int64_t k = 0; k < r->n_lanes; k++) {
        const struct exec_lane *l = &r->lanes[k];
        for (int32_t i = 0; (rank < 0 || l->rank == rank) && i < l->program.n_ops; i++) {
            const struct exec_stamp *s = &r->stamps[l->first_stamp + i];
            int32_t op = l->program.first_op + i;
            if (s->end_ns > 0 && (!b.last || s->end_ns > b.last_stamp->end_ns)) {
                b.last = l;
                b.last_stamp = s;
                b.last_op = op;
            } else if (s->end_ns <= 0 &&
                       (!b.open || more_to_blame(&r->plan->ops[op], s, &r->plan->ops[b.open_op],
                                                 b.open_stamp))) {
                b.open = l;
                b.open_stamp = s;
                b.open_op = op;
            }
        }
    }
    return b;
}

static struct lw_exec_place place_of(const struct exec_run *r, int32_t rank)
{
    struct blame b = find_blame(r, rank);
    const struct exec_lane *at = b.open ? b.open : b.last;

    return (struct lw_exec_place){.rank = rank,
                                  .step = at ? at->step : r->n_done,
                                  .last_op = b.last_op,
                                  .open_op = b.open_op,
                                  .known = true};
}

/* Without memory for it the message alone says where. */
void exec_keep_places(const struct exec_run *r, struct lw_exec_result *out)
{
    const struct exec_facts *f = &r->memory.facts;

    out->places = lw_calloc((size_t)f->n_local, sizeof *out->places);
    for (int32_t k = 0; out->places && k < f->n_local; k++)
        out->places[out->n_places++] = place_of(r, f->first_local + k);
}

static const char *name_op(const struct exec_run *r, const struct exec_lane *l, int32_t op,
                           char text[EXEC_OP_TEXT + 24])
{
    exec_op_text(r->plan, op, text);
    if (l)
        snprintf(text + strlen(text), 24, " of rank %d", l->rank);
    return text;
}

enum lw_status exec_blame(const struct exec_run *r, enum lw_status code, const char *why,
                          struct lw_err *err)
{
    struct blame b = find_blame(r, -1);
    char done[EXEC_OP_TEXT + 24], undone[EXEC_OP_TEXT + 24];

    return lw_fail(err, code, "step %d: %.160s; last finished: %s; first unfinished: %s",
                   b.open ? b.open->step : r->n_done, why, name_op(r, b.last, b.last_op, done),
                   name_op(r, b.open, b.open_op, undone));
}

/* Commands that have not ended; -1 = the backend does not count them. */
static int64_t n_pending(const struct exec_run *r)
{
    return r->backend->pending ? r->backend->pending(r->world) : -1;
}

/* No op may take longer than the limit: every one that ends moves the deadline. A backend that does
 * not count them has that much for each step of the batch. As backend->poll, but looks for a signal
 * and for progress now and then. One of several processes that gets a signal to end waits a moment
 * for the message that another one died, which is then the reason. */
static enum exec_state poll_batch(struct exec_run *r, struct lw_err *why)
{
    const volatile sig_atomic_t *signal = r->options->signal;
    int64_t limit = r->options->timeout_ns * (r->backend->pending ? 1 : r->n_given);
    int64_t now = r->backend->now_ns(r->world), deadline = now + limit, before = n_pending(r);
    enum exec_state state = EXEC_RUNNING;

    for (; state == EXEC_RUNNING && now < deadline; now = r->backend->now_ns(r->world)) {
        if (signal && *signal && !r->told) {
            r->told = true;
            r->told_ns = now;
        }
        if (r->told && now - r->told_ns >= (r->options->process ? CAUSE_NS : 0)) {
            lw_fail(why, LW_EFAILED, "stopped by signal %d", (int)*signal);
            return EXEC_FAILED;
        }
        state =
            r->backend->poll(r->world, now + LOOK_NS < deadline ? now + LOOK_NS : deadline, why);
        int64_t pending = n_pending(r);
        if (pending != before)
            deadline = r->backend->now_ns(r->world) + limit;
        before = pending;
    }
    return state;
}

enum lw_status exec_wait_batch(struct exec_run *r, struct lw_exec_result *out, struct lw_err *err)
{
    struct lw_err why = {0};
    char limit[96];
    enum exec_state state = poll_batch(r, &why);

    if (state == EXEC_DONE)
        return LW_OK;
    snprintf(limit, sizeof limit, "not done after %.3g s (--timeout)",
             (double)r->options->timeout_ns * 1e-9);
    r->backend->abort(r->world, state == EXEC_FAILED ? why.msg : limit);
    r->backend->close(r->world);
    r->world = NULL;
    exec_keep_places(r, out);
    r->blamed = true;
    return state == EXEC_FAILED ? exec_blame(r, LW_EFAILED, why.msg, err)
                                : exec_blame(r, LW_ETIMEOUT, limit, err);
}

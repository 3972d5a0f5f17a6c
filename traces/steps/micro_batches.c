/* Gradient accumulation: several micro-batches in one optimizer step. A pass ends where a
 * forward op (one with an autograd sequence number, on the step's thread and outside the
 * engine's nodes) runs between two gradients; ops that a checkpoint repeats lie inside a node of
 * the backward and part nothing. The last pass is taken because it is the one that a
 * data-parallel wrapper synchronises. Without sequence numbers nothing parts the passes. */
#include "traces/steps/micro_batches.h"

static bool is_forward(const struct lw_trace *t, int64_t row)
{
    return t->link[row] >= 0 && !lw_row_is_engine(t, row);
}

static int64_t gradient_end(const struct lw_trace *t, const struct lw_gradient *g)
{
    int64_t end = lw_trace_end_ns(t, g->row);

    return g->node_end_ns > end ? g->node_end_ns : end;
}

struct cut {
    int64_t gradient; /* first one of the last pass */
    int64_t forward;  /* row of its first forward op */
};

/* rows[n]: top ops of the step's thread. Returns the number of passes. */
static int32_t find_cuts(const struct lw_trace *t, const struct lw_step *s, const int64_t *rows,
                         int64_t n, struct cut *last)
{
    int32_t n_passes = 1;
    int64_t k = 0;

    for (int64_t g = 1; g < s->n_gradients; g++) {
        int64_t from = gradient_end(t, &s->gradients[g - 1]);
        int64_t to = t->start_ns[s->gradients[g].row];
        while (k < n && (t->start_ns[rows[k]] < from || !is_forward(t, rows[k])))
            k++;
        if (k < n && t->start_ns[rows[k]] < to) {
            *last = (struct cut){g, rows[k]};
            n_passes++;
        }
    }
    return n_passes;
}

enum lw_status lw_step_last_pass(const struct lw_trace *t, const struct lw_step *s,
                                 struct lw_arena *arena, struct lw_step *out, int32_t *n_passes,
                                 struct lw_err *err)
{
    struct cut cut = {0, 0};
    int64_t *rows, n;

    *out = *s;
    LW_TRY(lw_top_rows(t, s->thread, s->start_ns, s->end_ns, arena, &rows, &n, err));
    *n_passes = find_cuts(t, s, rows, n, &cut);
    if (*n_passes == 1)
        return LW_OK;
    int64_t forward = t->start_ns[cut.forward];
    struct lw_phase_span b = lw_step_engine(t, s, lw_trace_row_at(t, forward),
                                            lw_trace_row_at(t, s->end_ns));
    if (!b.found) { /* no engine to be seen: nothing to take apart */
        *n_passes = 1;
        return LW_OK;
    }
    out->start_ns = gradient_end(t, &s->gradients[cut.gradient - 1]);
    for (int64_t i = 0; i < s->n_nodes && t->start_ns[s->nodes[i]] < forward; i++) {
        int64_t end = lw_trace_end_ns(t, s->nodes[i]);
        out->start_ns = end > out->start_ns && end <= forward ? end : out->start_ns;
    }
    out->gradients = s->gradients + cut.gradient;
    out->n_gradients = s->n_gradients - cut.gradient;
    /* the range of the backward ends later: what follows the engine is the wrapper's wait */
    if (s->phase[LW_PHASE_BACKWARD].found && s->phase[LW_PHASE_BACKWARD].end_ns > b.end_ns)
        b.end_ns = s->phase[LW_PHASE_BACKWARD].end_ns;
    out->phase[LW_PHASE_BACKWARD] = b;
    out->phase[LW_PHASE_FORWARD] = (struct lw_phase_span){true, forward, b.start_ns};
    return lw_top_rows(t, s->backward_thread, b.start_ns, b.end_ns, arena, &out->nodes,
                       &out->n_nodes, err);
}

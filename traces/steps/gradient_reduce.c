/* Collectives of gradients told apart by their place in the step. */
#include "traces/steps/gradient_reduce.h"

bool lw_step_reduces_gradients(const struct lw_step *s, int64_t ns)
{
    const struct lw_phase_span *optimizer = &s->phase[LW_PHASE_OPTIMIZER];
    int64_t end = optimizer->found ? optimizer->start_ns : s->end_ns;

    if (s->n_gradients == 0)
        return ns >= s->start_ns && ns < s->end_ns;
    if (ns >= s->gradients[s->n_gradients - 1].node_end_ns)
        return ns < end;
    for (int64_t i = 0; i < s->n_gradients; i++)
        if (ns >= s->gradients[i].node_start_ns && ns < s->gradients[i].node_end_ns)
            return true;
    return false;
}

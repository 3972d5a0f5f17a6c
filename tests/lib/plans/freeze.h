#pragma once

#include "shared/workload/workload.h"

/* The parameter is not trained: it has no gradient and no place in the ready order. */
static inline void freeze(struct lw_workload *w, int32_t param)
{
    int32_t n = 0;

    w->params[param].trainable = false;
    w->params[param].ready_ps = -1;
    for (int32_t i = 0; i < w->n_ready; i++)
        if (w->ready_order[i] != param)
            w->ready_order[n++] = w->ready_order[i];
    w->n_ready = n;
}

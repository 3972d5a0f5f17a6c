/* The time between batches, taken out. Rows ascend by step, so that one pass over them suffices. */
#include "exec/run/batch_gaps.h"

void exec_move_span(struct lw_timeline *t, int64_t i, lw_ps by)
{
    t->ready[i] += by;
    t->start[i] += by;
    t->end[i] += by;
    t->issue[i] += t->issue[i] >= 0 ? by : 0;
    t->all_in[i] += t->all_in[i] >= 0 ? by : 0;
}

void exec_close_gaps(struct lw_exec_result *r)
{
    struct lw_timeline *t = &r->timeline;
    lw_ps ended = 0;
    int64_t i = 0;

    for (int32_t b = 0; b < r->n_batches; b++) {
        int32_t end_step = b + 1 < r->n_batches ? r->first_of_batch[b + 1] : INT32_MAX;
        lw_ps began = INT64_MAX;
        for (int64_t k = i; k < t->n && t->step[k] < end_step; k++)
            began = t->ready[k] < began ? t->ready[k] : began;
        lw_ps gap = b > 0 && began < INT64_MAX ? began - ended : 0;
        for (; i < t->n && t->step[i] < end_step; i++) {
            exec_move_span(t, i, -gap);
            ended = t->end[i] > ended ? t->end[i] : ended;
        }
    }
}

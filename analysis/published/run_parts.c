/* How frameworks spread blocks over stages, and what they wait for between these.
 *
 * By cost, nanotron (huggingface/nanotron@67c5ebb6, src/nanotron/models/base.py and llama.py): a
 * block costs its weights, 4 h^2 + 3 f h, the head vocabulary * h, the embedding nothing. Stage q
 * takes blocks until their costs exceed (q + 1) / p of the whole, so the first stages have more
 * than their share. Where the head comes before the last stage, its module lies in the last one
 * here, and each stage without a module takes the block before it.
 *
 * After the head come the scores' cast and the loss as blocks of their own; a stage that is left
 * without any ends the run, and so do fewer micro-batches than p - 1
 * (src/nanotron/parallel/pipeline_parallel/engine.py).
 *
 * Elsewhere: equal numbers of blocks. Where they do not divide, the first parts have one more,
 * unless embedding and head count as blocks.
 *
 * nanotron's version of 27 December 2024 polls (huggingface/nanotron@67c5ebb6,
 * src/nanotron/parallel/pipeline_parallel/p2p.py, _send_meta and _recv_meta): before each tensor
 * that crosses a stage's end, two messages of metadata, and after each of these the host sleeps
 * 0.1 s until the message is complete. Forward two tensors cross (hidden states and the sequence
 * mask, models/llama.py), backward one. The sender sleeps twice a tensor. The receiver sleeps once:
 * the second message is there when it asks. Meanwhile the device has nothing to do. */
#include "analysis/published/run_parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analysis/published/run_figures.h"
#include "analysis/published/run_model.h"

static double fewer(double a, double b)
{
    return a < b ? a : b;
}

static bool is_by_cost(const struct lw_run *r)
{
    return strstr(r->partition, "cost") != NULL;
}

/* First module of stage q + 1, where stage q begins at `begin`; beyond the head where the blocks
 * end before. */
static double next_by_cost(const struct lw_run *r, int64_t q, double begin)
{
    double h = (double)r->hidden, block = 4 * h * h + 3 * (double)r->ffn * h;
    double share = ((double)r->layers * block + (double)r->vocab * h) * (double)(q + 1) /
                   (double)r->pp;
    double next = floor(share / block) + 2; /* block b is module b, from 1 on */

    return next > begin ? next : begin + 1;
}

static double next_even(const struct lw_run *r, int64_t q, double begin)
{
    int64_t n = r->pp * r->vpp, blocks = r->layers;
    bool ends_count = blocks % n != 0 && (blocks + 2) % n == 0;

    return begin + (q == 0) +
           (double)(ends_count ? (blocks + 2) / n - (q == 0) : blocks / n + (q < blocks % n));
}

/* First module of part q + 1, where part q begins at `begin`. */
static double next_part(const struct lw_run *r, int64_t q, double begin)
{
    double last = (double)(r->layers + 3 + q - r->pp);

    return is_by_cost(r) ? fewer(next_by_cost(r, q, begin), last) : next_even(r, q, begin);
}

void lw_run_parts(const struct lw_run *r, char *list, size_t size)
{
    size_t used = (size_t)snprintf(list, size, "0");
    double begin = 0;

    for (int64_t q = 0; q < r->pp * r->vpp - 1 && used < size; q++) {
        begin = next_part(r, q, begin);
        used += (size_t)snprintf(list + used, size - used, ",%.0f", begin);
    }
}

bool lw_run_first_stage_waits(const struct lw_run *r)
{
    double begin = next_part(r, 0, 0), first = begin - 1; /* module 0 is the embedding */

    for (int64_t q = 1; q < r->pp * r->vpp; q++) {
        bool last = q == r->pp * r->vpp - 1;
        double end = last ? (double)r->layers + 1 : next_part(r, q, begin);
        if (end - begin >= first)
            return true;
        begin = end;
    }
    return false;
}

static bool at_least(int64_t value, const struct lw_run *r, enum lw_run_figure_kind kind)
{
    return (double)value >= lw_run_figure(r, kind, INFINITY);
}

/* The table does not give a run's version. All pipelines on 512 devices poll, nearly all with
 * tensor groups of 32, and on 256 devices all of 8B and more with micro-batches of more than one
 * sample (docs/design/gpu_accuracy.md): figures that are chosen by hand. A row may name the version
 * itself. */
bool lw_run_polls(const struct lw_run *r)
{
    if (r->pp == 1 || !strstr(r->framework, "nanotron"))
        return false;
    double large_on = lw_run_figure(r, LW_RUN_POLL_LARGE_DEVICES, INFINITY);

    return strstr(r->framework, "67c5ebb6") || at_least(r->gpus, r, LW_RUN_POLL_DEVICES) ||
           at_least(r->tp, r, LW_RUN_POLL_GROUP) ||
           ((double)r->gpus == large_on && at_least(r->hidden, r, LW_RUN_POLL_LARGE_HIDDEN) &&
            r->mbs > 1);
}

static const lw_ps POLL = LW_PS_PER_S / 10;

/* Each rank of a tensor group waits; a plan divides what a module has, under sequence parallelism
 * its whole part too. */
static void wait_in(const struct lw_run *r, struct lw_module *m, int forward, int backward)
{
    lw_ps poll = POLL * (lw_run_is_yes(r->seq_parallel) ? r->tp : 1);

    m->forward_ps += forward * poll;
    m->whole_forward_ps += forward * poll;
    m->backward_input_ps += backward * poll;
    m->whole_input_ps += backward * poll;
}

enum lw_status lw_run_add_polls(const struct lw_run *r, struct lw_workload *w, struct lw_err *err)
{
    double begin = 0;

    for (int64_t q = 0; lw_run_polls(r) && q < r->pp - 1; q++) {
        begin = next_part(r, q, begin);
        if (begin < 1 || begin >= w->n_modules)
            return lw_fail(err, LW_ENOTSUP,
                           "fewer modules than stages: a stage is left without one");
        wait_in(r, &w->modules[(int32_t)begin - 1], 4, 1);
        wait_in(r, &w->modules[(int32_t)begin], 2, 2);
    }
    return LW_OK;
}

enum { AFTER_HEAD = 2 }; /* the scores' cast and the loss, a stage each where the head ends one */

/* No run of nanotron_ultrascale with such a configuration has a step: 159 of its 774 failed runs
 * have one. */
const char *lw_run_refused(const struct lw_run *r)
{
    int64_t of_head = 0;

    if (!is_by_cost(r) || r->pp < 2)
        return NULL;
    for (double begin = 0; of_head < r->pp - 1; of_head++)
        if ((begin = next_by_cost(r, of_head, begin)) > (double)r->layers + 1)
            break;
    if (of_head + AFTER_HEAD < r->pp - 1)
        return "nanotron leaves a stage without a block, and does not start";
    if (r->micro_batches < r->pp - 1)
        return "nanotron's 1F1B asks for as many micro-batches as stages less one";
    return NULL;
}

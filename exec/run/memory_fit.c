/* What a rank takes is known as soon as tensors are laid out. Only a plan that exceeds all memory
 * that can be freed for it, with swap, is refused.
 *
 * Not counted: the program itself, the timeline, what libraries take. */
#include "exec/run/memory_fit.h"

#include <stdio.h>

#include "exec/tensors/tensors.h"
#include "shared/base/host_memory.h"

/* Of the run of reference: weights, two states, sum, what was read (twice as wide) and its own
 * type. */
enum { VERIFY_BYTES = 8 * 4, BEFORE_BYTES = 2 * 4 /* its own, a step before */ };

static double largest_param(const struct lw_plan *p)
{
    double most = 0;

    for (int32_t i = 0; i < p->n_params; i++)
        most = (double)p->params[i].numel > most ? (double)p->params[i].numel : most;
    return most;
}

static const char *show(char *buf, double bytes)
{
    return lw_format_bytes(buf, bytes < 9e18 ? (int64_t)bytes : INT64_MAX);
}

/* Ranks are alike: each has room for the largest stage. Checking is done once in a process. */
static enum lw_status compare(const struct exec_tensors *m, const struct lw_exec_options *o,
                              int32_t n_here, double there, struct lw_err *err)
{
    char all[32], of[5][32], has[32], verify[64] = "";
    double state = (double)m->n_state * 4 *
                   (m->has_masters + exec_optimizer_states(m->optimizer.kind));
    double parts[] = {(double)m->weight_bytes,
                      (double)m->grad_bytes + (double)m->bucket_bytes + (double)m->sparse.bytes,
                      state, (double)exec_tensors_message_bytes(m)};
    double rank = parts[0] + parts[1] + parts[2] + parts[3];
    double each = VERIFY_BYTES + (m->has_ahead ? BEFORE_BYTES : 0);
    double check = o->verify ? each * largest_param(m->plan) : 0;

    if (rank * n_here + check <= there)
        return LW_OK;
    for (int i = 0; i < 4; i++)
        show(of[i], parts[i]);
    if (o->verify)
        snprintf(verify, sizeof verify, ", and %s to verify (--no-verify)", show(of[4], check));
    return lw_fail(
        err, LW_ENOTSUP,
        "the plan needs %s of memory a rank (weights %s, gradients and buckets %s, masters and "
        "optimizer %s, messages %s), %d here%s; this machine has %s left",
        show(all, rank), of[0], of[1], of[2], of[3], n_here, verify, show(has, there));
}

enum lw_status exec_fits_in(const struct lw_plan *p, const struct lw_exec_options *o,
                            int32_t n_here, double bytes, struct lw_err *err)
{
    struct exec_tensors m = {.plan = p, .backend = o->backend, .compares = o->verify,
                             .optimizer = o->optimizer};

    LW_TRY(exec_plan_is_safe(p, err));
    enum lw_status s = exec_tensors_lay_out(&m, err);
    if (s == LW_OK)
        s = compare(&m, o, n_here, bytes, err);
    exec_tensors_free(&m);
    return s;
}

enum lw_status lw_exec_fits(const struct lw_plan *p, const struct lw_exec_options *o,
                            int32_t n_here, struct lw_err *err)
{
    if (!(o->backend->capabilities & EXEC_IN_HOST_MEMORY))
        return LW_OK;
    return exec_fits_in(p, o, n_here, lw_host_memory_left(), err);
}

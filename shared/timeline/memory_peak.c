/* What a rank's memory is made of at its largest: a walk over the changes of each rank in time. */
#include "shared/base/arena.h"
#include "shared/numbers/checked.h"
#include "shared/timeline/param_memory.h"

const char *lw_memory_name(enum lw_memory m)
{
    static const char *const names[] = {"parameters",     "gradients",   "optimizer", "buckets",
                                        "gathered_units", "activations", "messages",  "workspaces"};
    return names[m];
}

void lw_memory_at_start(const struct lw_plan *plan, int32_t rank, int64_t bytes[LW_N_MEMORY])
{
    const struct lw_role *role = &plan->roles[lw_plan_role_of(plan, rank)];
    const int64_t *fixed = role->static_bytes;

    bytes[LW_MEMORY_PARAMETERS] = fixed[LW_MEM_PARAMS];
    bytes[LW_MEMORY_GRADIENTS] = role->grads_come ? 0 : fixed[LW_MEM_GRADS];
    bytes[LW_MEMORY_OPTIMIZER] = fixed[LW_MEM_OPTIMIZER];
    bytes[LW_MEMORY_BUCKETS] = fixed[LW_MEM_BUCKETS];
    bytes[LW_MEMORY_WORKSPACES] = fixed[LW_MEM_WORKSPACES];
    bytes[LW_MEMORY_GATHERED] = bytes[LW_MEMORY_ACTIVATIONS] = 0;
}

int64_t lw_memory_fixed(const struct lw_plan *plan, int32_t rank)
{
    const struct lw_role *role = &plan->roles[lw_plan_role_of(plan, rank)];
    int64_t sum = 0;

    for (int k = 0; k < LW_N_MEM; k++)
        if (k != LW_MEM_GRADS || !role->grads_come)
            sum = lw_add_sat(sum, role->static_bytes[k]);
    return sum;
}

static void begin(const struct lw_plan *plan, int32_t rank, struct lw_memory_peak *now)
{
    *now = (struct lw_memory_peak){
        .rank = rank, .step = -1, .op = -1, .total = lw_memory_fixed(plan, rank)};
    lw_memory_at_start(plan, rank, now->bytes);
}

static void apply(const struct lw_memory_change *c, struct lw_memory_peak *now)
{
    now->bytes[c->memory] += c->bytes;
    now->total = lw_add_sat(now->total, c->bytes);
    now->at = c->at;
}

/* What a rank holds after a change; true where that is the most so far. */
static bool keep_larger(const struct lw_timeline *t, const struct lw_memory_change *c,
                        const struct lw_memory_peak *now, struct lw_memory_peak *at)
{
    if (now->total <= at->total)
        return false;
    *at = *now;
    at->step = lw_timeline_run(t, c->row).step;
    at->op = lw_timeline_op(t, c->row);
    return true;
}

/* Before anything runs. *at: of several equal ones the first. */
static void peaks_at_start(const struct lw_plan *plan, int64_t *peak, struct lw_memory_peak *at)
{
    struct lw_memory_peak now;

    for (int32_t r = 0; r < plan->n_ranks; r++) {
        begin(plan, r, &now);
        if (peak)
            peak[r] = now.total;
        if (now.total > at->total)
            *at = now;
    }
}

struct peaks {
    const struct lw_timeline *t;
    struct lw_memory_peak now, *at;
    int64_t *peak; /* [n_ranks], or NULL */
};

static enum lw_status keep_peaks(void *ctx, const struct lw_memory_change *v, int64_t n,
                                 struct lw_err *err)
{
    struct peaks *x = ctx;

    (void)err;
    for (int64_t i = 0; i < n; i++) {
        apply(&v[i], &x->now);
        if (x->peak && x->now.total > x->peak[x->now.rank])
            x->peak[x->now.rank] = x->now.total;
        keep_larger(x->t, &v[i], &x->now, x->at);
    }
    return LW_OK;
}

static enum lw_status walk_ranks(struct lw_memory_walk *w, const struct lw_timeline *t,
                                 const struct lw_plan *plan, int64_t *peak,
                                 struct lw_memory_peak *at, struct lw_err *err)
{
    struct peaks x = {.t = t, .at = at, .peak = peak};

    for (int32_t r = 0; r < plan->n_ranks; r++) {
        begin(plan, r, &x.now);
        LW_TRY(lw_memory_walk_visit(w, r, keep_peaks, &x, err));
    }
    return LW_OK;
}

enum lw_status lw_memory_peaks(const struct lw_timeline *t, const struct lw_plan *plan,
                               int64_t *peak, struct lw_memory_peak *out, struct lw_err *err)
{
    struct lw_memory_peak best = {.rank = -1, .total = -1};
    struct lw_memory_walk *w;

    LW_TRY(lw_memory_walk_new(t, plan, &w, err));
    peaks_at_start(plan, peak, &best);
    enum lw_status s = walk_ranks(w, t, plan, peak, &best, err);
    lw_memory_walk_free(w);
    if (s == LW_OK && out)
        *out = best;
    return s;
}

/* --- what is alive at the peak of one rank ---------------------------------------------------- */

/* Its changes up to the one after which it holds most; -1: nothing runs yet. */
static int64_t find_peak(const struct lw_timeline *t, const struct lw_plan *plan, int32_t rank,
                         const struct lw_memory_change *v, int64_t n, struct lw_memory_peak *at)
{
    struct lw_memory_peak now;
    int64_t last = -1;

    begin(plan, rank, &now);
    *at = now;
    for (int64_t i = 0; i < n; i++) {
        apply(&v[i], &now);
        last = keep_larger(t, &v[i], &now, at) ? i : last;
    }
    return last;
}

enum lw_status lw_memory_alive(const struct lw_timeline *t, const struct lw_plan *plan,
                               int32_t rank, int64_t *of_module, struct lw_memory_peak *out,
                               struct lw_err *err)
{
    const struct lw_memory_change *v;
    struct lw_memory_walk *w;
    int64_t n;

    LW_TRY(lw_memory_walk_new(t, plan, &w, err));
    enum lw_status s = lw_memory_walk_rank(w, rank, &v, &n, err);
    int64_t last = s == LW_OK ? find_peak(t, plan, rank, v, n, out) : -1;
    for (int64_t i = 0; i <= last; i++) {
        int32_t module = lw_op_at(plan, lw_timeline_op(t, v[i].row)).module;
        if (v[i].memory == LW_MEMORY_ACTIVATIONS)
            of_module[module < 0 ? plan->n_modules : module] += v[i].bytes;
    }
    lw_memory_walk_free(w);
    return s;
}

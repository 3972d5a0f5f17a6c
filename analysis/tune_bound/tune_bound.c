/* The bound of a step follows from one rank that ended last in the step before, whichever that is;
 * the bound of memory from the order of forwards and backwards on each rank. */
#include "analysis/tune_bound/tune_bound.h"

#include <string.h>

#include "shared/framework/framework_memory.h"
#include "shared/numbers/checked.h"
#include "shared/numbers/larger.h"
#include "shared/timeline/timeline.h"

enum { MOST_PARTS = 256 }; /* of sums on the stack; beyond, each is made again */

/* --- the step --- */

static lw_ps forwards(const struct lw_tune_parts *p, int32_t from, int32_t to)
{
    lw_ps sum = 0;

    for (int32_t q = from; q < to; q++)
        sum = lw_add_sat(sum, p->part[q].forward);
    return sum;
}

/* Of gradients on their way back through parts from..to - 1, which may have repeated before. */
static lw_ps backwards(const struct lw_tune_parts *p, int32_t from, int32_t to)
{
    lw_ps sum = 0;

    for (int32_t q = from; q < to; q++) {
        const struct lw_outline_sum *x = &p->part[q];
        bool half = p->by_halves && x->input < x->backward;
        sum = lw_add_sat(sum, (half ? x->input : x->backward) - p->ahead[q]);
    }
    return sum;
}

/* All backwards of a part on a rank, without the halves of weights. */
static lw_ps back_of(const struct lw_tune_parts *p, int32_t place, int64_t n)
{
    const struct lw_outline_sum *x = &p->part[p->held[place]];

    return lw_add_sat(lw_mul_sat(x->input, p->halves[place]),
                      lw_mul_sat(x->backward, n - p->halves[place]));
}

/* What a rank does from some moment on. */
struct work {
    lw_ps way, rest;      /* of what other ranks wait for; weights' halves */
    lw_ps reduce, after;
    int32_t least;        /* its first part; -1 = none */
};

/* Of its parts from q0 on; without the forwards before its first backward, or with them. */
static struct work work_of(const struct lw_tune_parts *p, int32_t rank, int32_t q0, bool without)
{
    struct work w = {.least = -1};
    int64_t m = p->n_micro_batches;

    for (int32_t i = p->first[rank]; i < p->first[rank + 1]; i++) {
        const struct lw_outline_sum *x = &p->part[p->held[i]];
        if (p->held[i] < q0)
            continue;
        w.least = w.least < 0 ? p->held[i] : w.least;
        w.way = lw_add_sat(w.way, lw_mul_sat(x->forward, m - (without ? p->before[i] : 0)));
        w.way = lw_add_sat(w.way, back_of(p, i, m));
        w.rest = lw_add_sat(w.rest, lw_mul_sat(x->weight, p->halves[i]));
        w.reduce = lw_add_sat(w.reduce, p->reduce[i]);
        w.after = lw_add_sat(w.after, p->after[i]);
    }
    return w;
}

/* What `through` needs of all parts, summed once: [n_parts + 1] of parts from one on, and of
 * backwards up to one; and the end of each rank's own work, which does not depend on who ended
 * last. Not known where a sum is beyond an integer: differences would be wrong. */
struct sums {
    lw_ps forward[MOST_PARTS + 1], backward[MOST_PARTS + 1], backward_to[MOST_PARTS + 1];
    struct work all[MOST_PARTS];
    bool known;
};

static lw_ps forwards_of(const struct lw_tune_parts *p, const struct sums *s, int32_t from,
                         int32_t to)
{
    return s->known ? s->forward[from] - s->forward[to] : forwards(p, from, to);
}

static lw_ps backwards_to(const struct lw_tune_parts *p, const struct sums *s, int32_t to)
{
    return to < 0 ? 0 : s->known ? s->backward_to[to] : backwards(p, 0, to);
}

/* The end of the step, where the work begins at `begin`. */
static lw_ps end_of(const struct lw_tune_parts *p, const struct sums *s, int32_t rank, lw_ps begin,
                    const struct work *w)
{
    lw_ps begun = lw_add_sat(begin, w->way), done = lw_add_sat(begun, w->rest);
    lw_ps reduced = lw_add_sat(lw_larger(done - w->after, 0), w->reduce);

    return lw_larger(lw_add_sat(lw_larger(done, reduced), p->optimizer[rank] + p->gather[rank]),
                     lw_add_sat(begun,
                                backwards_to(p, s, w->least) + p->optimizer[0] + p->gather[0]));
}

static void sum_up(const struct lw_tune_parts *p, struct sums *s)
{
    s->known = p->n_parts <= MOST_PARTS && p->n_ranks <= MOST_PARTS;
    if (!s->known)
        return;
    s->forward[p->n_parts] = s->backward[p->n_parts] = s->backward_to[0] = 0;
    for (int32_t q = p->n_parts - 1; q >= 0; q--) {
        s->forward[q] = lw_add_sat(s->forward[q + 1], forwards(p, q, q + 1));
        s->backward[q] = lw_add_sat(s->backward[q + 1], backwards(p, q, q + 1));
    }
    for (int32_t q = 0; q < p->n_parts; q++)
        s->backward_to[q + 1] = lw_add_sat(s->backward_to[q], backwards(p, q, q + 1));
    s->known = s->forward[0] < INT64_MAX;
    for (int32_t r = 0; r < p->n_ranks; r++)
        s->all[r] = work_of(p, r, 0, true);
}

/* The rank's work on its parts from q0 on, after the forwards that lead to it; and all of its work
 * from its first backward on, which waits for a micro-batch to go to the last part and back, but
 * for what it repeats before. */
static lw_ps through(const struct lw_tune_parts *p, const struct sums *s, int32_t rank, int32_t q0)
{
    int32_t n = p->n_parts, back_from = p->first_back[rank] + 1;
    const struct work own = work_of(p, rank, q0, false);
    const struct work all = s->known ? s->all[rank] : work_of(p, rank, 0, true);
    lw_ps back = s->known ? lw_add_sat(s->forward[q0], s->backward[back_from])
                          : lw_add_sat(forwards(p, q0, n), backwards(p, back_from, n));
    lw_ps end = end_of(p, s, rank, back - p->ahead[p->first_back[rank]], &all);

    if (own.least < 0)
        return end;
    return lw_larger(end, end_of(p, s, rank, forwards_of(p, s, q0, own.least), &own));
}

/* The data group's collectives of the rank that ended last: all of them begin after that end. */
static lw_ps data_work(const struct lw_tune_parts *p, int32_t rank)
{
    return lw_add_sat(p->data[rank], p->optimizer[rank] + p->gather[rank]);
}

/* Of rank j, where `rank` ended last in the step before: half of the micro-batches goes each way,
 * and those of one way come to j from `rank`. Of the other way j may have done the forwards, but
 * backwards come from `rank`. */
static lw_ps mirrored_work(const struct lw_tune_parts *p, int32_t rank, int32_t j)
{
    lw_ps sum = p->optimizer[j];
    int64_t m = p->n_micro_batches / 2;

    for (int32_t i = p->first[j]; i < p->first[j + 1]; i++) {
        const struct lw_outline_sum *x = &p->part[p->held[i]];
        bool after = p->held[i] == j ? j >= rank : j <= rank;
        sum = lw_add_sat(sum, lw_mul_sat(x->forward, after ? m : 0));
        sum = lw_add_sat(sum, back_of(p, i, m));
        sum = lw_add_sat(sum, lw_mul_sat(x->weight, p->halves[i]));
    }
    return sum;
}

static lw_ps mirrored_since(const struct lw_tune_parts *p, int32_t rank)
{
    lw_ps since = 0;

    for (int32_t j = 0; j < p->n_ranks; j++)
        since = lw_larger(since, mirrored_work(p, rank, j));
    return since;
}

static lw_ps step_since(const struct lw_tune_parts *p, const struct sums *s, int32_t rank)
{
    if (p->mirrored)
        return mirrored_since(p, rank);
    lw_ps since = data_work(p, rank);
    for (int32_t j = 0; j < p->n_ranks; j++)
        since = lw_larger(since, through(p, s, j, p->held[p->first[rank]]));
    return since;
}

lw_ps lw_tune_step_since(const struct lw_tune_parts *p, int32_t rank)
{
    struct sums none;

    none.known = false;
    return step_since(p, &none, rank);
}

lw_ps lw_tune_step_bound(const struct lw_tune_parts *p)
{
    lw_ps bound = INT64_MAX;
    struct sums s;

    s.known = false;
    if (!p->mirrored)
        sum_up(p, &s);
    for (int32_t r = 0; r < p->n_ranks; r++) {
        lw_ps since = step_since(p, &s, r);
        bound = since < bound ? since : bound;
    }
    return bound;
}

/* --- memory --- */

struct flight {
    const struct lw_tune_parts *p;
    const int64_t *gradients; /* [n_parts] that come with the first backward of a part, and stay
                               * until the last */
    int64_t *left;            /* [n_parts] backwards of it, on the rank at hand, */
    int64_t of_part;          /* of as many of each part */
    int64_t now, most;
    bool counts_units; /* gathered weights are as wide as the parameters */
};

static void hold(struct flight *f, int64_t bytes)
{
    f->now += bytes;
    f->most = f->now > f->most ? f->now : f->most;
}

/* The op that makes the gradients of weights. */
static void reduce(struct flight *f, int32_t q, bool begins)
{
    int64_t m = f->of_part;

    if (begins && --f->left[q] == 0 && m > 1)
        f->now -= f->gradients[q];
    if (!begins && f->left[q] == m - 1 && m > 1)
        hold(f, f->gradients[q]);
}

/* For a moment, beside what is held now. */
static void hold_beside(struct flight *f, const int64_t *of_part, int32_t q)
{
    hold(f, f->counts_units && of_part ? of_part[q] : 0);
    f->now -= f->counts_units && of_part ? of_part[q] : 0;
}

static void act(struct flight *f, const struct lw_action *a)
{
    const struct lw_outline_sum *x = &f->p->part[a->stage];

    switch (a->kind) {
    case LW_OP_FORWARD:
        hold(f, x->kept);
        hold_beside(f, f->p->unit, a->stage);
        break;
    case LW_OP_BACKWARD_INPUT:
        hold(f, x->regained - x->kept_early);
        break;
    case LW_OP_BACKWARD_WEIGHT:
        reduce(f, a->stage, true);
        f->now -= x->kept + x->regained - x->kept_early;
        reduce(f, a->stage, false);
        break;
    default:
        reduce(f, a->stage, true);
        hold(f, f->p->again[a->stage]);
        hold_beside(f, f->p->unit_again, a->stage);
        f->now -= f->p->again[a->stage] + x->kept;
        reduce(f, a->stage, false);
    }
}

/* Two actions that run module by module in an order that is not known: of what they hold at once
 * only what is left after both. */
static void act_both(struct flight *f, const struct lw_action *a)
{
    int64_t most = f->most;

    act(f, a);
    act(f, a + 1);
    f->most = f->now > most ? f->now : most;
}

/* The most that a rank holds at once, beside what it holds throughout. */
static int64_t in_flight(struct flight *f, const struct lw_grid *g, int32_t rank)
{
    f->now = f->most = 0;
    f->of_part = f->p->n_micro_batches / (f->p->mirrored ? 2 : 1);
    for (int32_t q = 0; q < f->p->n_parts; q++)
        f->left[q] = f->of_part;
    for (int32_t i = g->first[rank]; i < g->first[rank + 1]; i++) {
        bool unit = f->p->mixed && g->actions[i].with_next && i + 1 < g->first[rank + 1];
        if (unit)
            act_both(f, &g->actions[i]);
        else
            act(f, &g->actions[i]);
        i += unit;
    }
    return f->most;
}

/* Gradients of a part that are not among the fixed bytes: where they come and go; under ZeRO-2 and
 * 3 of a pipeline what a rank's share lacks of all, until they are reduced, if no buffer of fixed
 * size takes them. */
static int64_t passing_gradients(const struct lw_outline_sum *x, const struct lw_strategy *s,
                                 bool mirrored, const struct lw_role *role)
{
    int64_t bytes = 0, members = s->dp * s->cp * (mirrored ? 2 : 1);
    bool shares = s->zero >= 2 && s->pp > 1 && s->no_sync == 0 && s->zero_group == 0 &&
                  members > 1 && s->ep == 1 && role->reduce_elements == 0;

    for (int t = 0; t < LW_N_DTYPES; t++) {
        int64_t size = lw_dtype_size(lw_strategy_grad_dtype(s, (enum lw_dtype)t));
        if (shares)
            bytes += (x->numel[t] - x->numel[t] / members) * size;
        else if (role->grads_come && s->zero < 2)
            bytes += x->numel[t] * size;
    }
    return bytes;
}

static enum lw_status begin_flight(const struct lw_tune_parts *p, const struct lw_strategy *s,
                                   const struct lw_role *role, struct lw_arena *room,
                                   struct flight *f, struct lw_err *err)
{
    int64_t *gradients;

    *f = (struct flight){.p = p, .counts_units = role->narrow_above == 0};
    LW_TAKE(room, f->left, p->n_parts, err);
    LW_TAKE(room, gradients, p->n_parts, err);
    for (int32_t q = 0; q < p->n_parts; q++)
        gradients[q] = passing_gradients(&p->part[q], s, p->mirrored, role);
    f->gradients = gradients;
    return LW_OK;
}

static struct lw_outline_sum held_by(const struct lw_tune_parts *p, int32_t rank)
{
    struct lw_outline_sum sum = {0};

    for (int32_t i = p->first[rank]; i < p->first[rank + 1]; i++) {
        const struct lw_outline_sum *x = &p->part[p->held[i]];
        sum.trained += x->trained;
        for (int t = 0; t < LW_N_DTYPES; t++) {
            sum.numel[t] += x->numel[t];
            sum.matrices[t] += x->matrices[t];
            sum.frozen[t] += x->frozen[t];
        }
    }
    return sum;
}

int32_t lw_tune_copies(const struct lw_outline *o, const struct lw_strategy *s, bool mirrored)
{
    return (int32_t)(s->dp * s->cp * (o->dims.experts ? s->tp : 1) * (mirrored ? 2 : 1));
}

/* A plan counts the stages of one direction. */
static int32_t stage_of_rank(const struct lw_tune_parts *p, int32_t rank)
{
    return p->mirrored && rank >= p->n_ranks / 2 ? p->n_ranks - 1 - rank : rank;
}

/* A plan of one rank a stage, with the tables that a framework's memory is computed from. */
static enum lw_status sketch(const struct lw_tune_parts *p, const struct lw_outline *o,
                             const struct lw_strategy *s, const int32_t *stage_of,
                             struct lw_arena *room, struct lw_plan *plan, struct lw_err *err)
{
    *plan = (struct lw_plan){.n_ranks = p->n_ranks, .n_roles = p->n_ranks,
                             .n_modules = o->n_modules, .n_params = o->n_params, .dims = o->dims,
                             .optimizer = lw_optimizer_name((int)o->optimizer),
                             .own_states = lw_own_states(o->state_bytes, s)};
    struct lw_strategy *own = lw_arena_alloc(room, 1, sizeof *own);

    if (!own)
        return lw_fail_nomem(err);
    *own = *s;
    plan->strategy = own;
    LW_TAKE(room, plan->roles, p->n_ranks, err);
    LW_TAKE(room, plan->role_of, p->n_ranks, err);
    LW_TAKE(room, plan->params, o->n_params, err);
    for (int32_t i = 0; i < o->n_params; i++)
        plan->params[i] = (struct lw_plan_param){.numel = o->params[i].numel,
                                                 .dtype = o->params[i].dtype,
                                                 .module = o->params[i].module,
                                                 .stage = stage_of_rank(
                                                     p, stage_of[o->params[i].module])};
    for (int32_t r = 0; r < p->n_ranks; r++) {
        const struct lw_outline_sum x = held_by(p, r);
        plan->role_of[r] = r;
        plan->roles[r].stage = stage_of_rank(p, r);
        lw_outline_bytes(o, s, &x, lw_tune_copies(o, s, p->mirrored),
                         plan->roles[r].static_bytes);
    }
    return LW_OK;
}

static int64_t fixed_bytes(const struct lw_role *role)
{
    int64_t sum = 0;

    for (int k = 0; k < LW_N_MEM; k++)
        sum += k == LW_MEM_GRADS && role->grads_come ? 0 : role->static_bytes[k];
    return sum;
}

enum lw_status lw_tune_memory_bound(const struct lw_tune_parts *p, const struct lw_grid *g,
                                    const struct lw_outline *o, const struct lw_strategy *s,
                                    const struct lw_framework *f, const struct lw_device *d,
                                    const int32_t *stage_of, int64_t *needed, struct lw_err *err)
{
    struct lw_arena room = {0};
    struct lw_plan plan;
    struct lw_framework_bytes b;
    struct flight flight;
    double most = 0;

    *needed = 0;
    enum lw_status st = sketch(p, o, s, stage_of, &room, &plan, err);
    if (st == LW_OK)
        lw_framework_hold(f, &plan);
    if (st == LW_OK)
        st = begin_flight(p, s, &plan.roles[0], &room, &flight, err);
    for (int32_t r = 0; st == LW_OK && r < p->n_ranks; r++) {
        const struct lw_measure m = {.rank = r, .peak_memory_bytes = fixed_bytes(&plan.roles[r]) +
                                                                     in_flight(&flight, g, r)};
        lw_framework_bytes_of(f, &plan, d, &m, &b);
        most = b.needed > most ? b.needed : most;
    }
    lw_arena_free(&room);
    *needed = most < 9e18 ? (int64_t)most : INT64_MAX;
    return st;
}

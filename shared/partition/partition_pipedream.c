/* PipeDream's planner (msr-fiddle/pipedream optimizer/optimizer_graph_hierarchical.py@7db6a1c;
 * Narayanan et al., "PipeDream", SOSP 2019, section 3.1).
 *
 * For each level, from the innermost out, A[i][j][m] is the best time of the slowest stage when
 * states i..j run on m + 1 machines of the level below: either one stage of all of them, sharing
 * computing and the gradient exchange 4 m w / (bandwidth (m + 1)), or the best A[i][k][m - m'] and
 * after it one stage of states k+1..j on m' machines. What a whole machine of this level needs for
 * i..j is the computing time that the next level starts from. Of equal times the first found wins:
 * a single stage, then k in the order given (ascending in a chain; in the reference system the
 * order of a Python set of objects, so its choice among equals is undefined), then m' upward. The
 * expressions keep the reference system's order of operations, because near ties are decided by
 * rounding.
 *
 * Kept as it is: activation transfer counts only when a compression ratio is given; the exchange
 * inside a level is divided by the machines of the level below for a single stage and not for the
 * last stage of a split. Only the outermost level needs rows with i > 0 left out. */
#include "shared/partition/partition_pipedream.h"
#include "shared/base/arena.h"

#include <math.h>

enum { NONE = -1 };

struct cell {
    double time;            /* < 0 = impossible */
    int32_t split, split_m; /* the stage before ends with state split and has split_m + 1 machines;
                             * NONE = a single stage */
    int32_t machines;
};

struct planner {
    const struct lw_pipedream_problem *p;
    int32_t n;
    double *compute;        /* [n * n]: time of states i..j on one machine of the level below */
    struct cell **table;    /* [n_levels] -> [n * n * machines] */
    struct lw_arena *arena; /* tables */
    bool *before_start;     /* [n]: states before i - 1 */
    struct lw_pipedream_plan *out;
    int64_t cap; /* of out->stages */
};

void lw_pipedream_free(struct lw_pipedream_plan *p)
{
    lw_free(p->stages);
    *p = (struct lw_pipedream_plan){0};
}

static struct cell *cell_at(const struct planner *q, int32_t level, int32_t i, int32_t j, int32_t m)
{
    int64_t machines = q->p->levels[level].n_machines;

    return &q->table[level][((int64_t)i * q->n + j) * machines + m];
}

static double between(const double end, const double start_before, int32_t i)
{
    return i == 0 ? end : end - start_before;
}

static double parameters(const struct planner *q, int32_t i, int32_t j)
{
    const struct lw_pipedream_state *s = q->p->states;

    return between(s[j].parameter_bytes, i ? s[i - 1].parameter_bytes : 0, i);
}

static double activations(const struct planner *q, int32_t i, int32_t j)
{
    const struct lw_pipedream_state *s = q->p->states;

    return between(s[j].activation_bytes, i ? s[i - 1].activation_bytes : 0, i);
}

static int32_t ceil_div(int32_t a, int32_t b)
{
    return (a + b - 1) / b;
}

/* All of i..j as one stage on m + 1 machines. */
static struct cell one_stage(const struct planner *q, int32_t level, int32_t i, int32_t j,
                             int32_t m, int32_t machines_below)
{
    const struct lw_pipedream_level *l = &q->p->levels[level];
    double w = parameters(q, i, j), compute = q->compute[(int64_t)i * q->n + j];
    double stash = ceil_div(l->n_machines - (m + 1), m + 1) * (activations(q, i, j) + w);
    struct cell c = {.time = -1, .split = NONE, .machines = m + 1};

    if (compute < 0 || (q->p->memory_bytes > 0 && stash > q->p->memory_bytes))
        return c;
    double exchange = (4 * m * w) / (l->bandwidth * (m + 1));
    exchange /= machines_below;
    c.time = (compute + exchange) / (m + 1);
    return c;
}

/* Time of the last stage k+1..j on m' machines, after a pipeline of m + 1 - m' machines; < 0 when
 * it does not fit. */
static double last_stage(const struct planner *q, int32_t level, int32_t k, int32_t j, int32_t m,
                         int32_t replicas)
{
    const struct lw_pipedream_level *l = &q->p->levels[level];
    double time = q->compute[(int64_t)(k + 1) * q->n + j], w = parameters(q, k + 1, j);
    double stash = (activations(q, k + 1, j) + w) * ceil_div(l->n_machines - (m + 1), replicas);

    if (time < 0 || (q->p->memory_bytes > 0 && stash > q->p->memory_bytes))
        return -1;
    time = time + (4 * (replicas - 1) * w) / (l->bandwidth * replicas);
    return time / replicas;
}

/* With compression given, the transfers at both ends of the last stage bound the pipeline too. */
static double with_transfers(const struct planner *q, int32_t level, int32_t k, int32_t j,
                             int32_t replicas, double time)
{
    double rate = q->p->levels[level].bandwidth * replicas;

    if (q->p->compression <= 0)
        return time;
    double in = 2.0 * q->p->states[k].output_bytes / rate / q->p->compression;
    time = in > time ? in : time;
    if (j < q->n - 1) {
        double out = 2.0 * q->p->states[j].output_bytes / rate / q->p->compression;
        time = out > time ? out : time;
    }
    return time;
}

static void try_split(struct planner *q, int32_t level, int32_t i, int32_t j, int32_t m, int32_t k,
                      struct cell *best)
{
    int32_t most = q->p->straight ? 1 : m;

    for (int32_t replicas = 1; replicas <= most; replicas++) {
        double last = last_stage(q, level, k, j, m, replicas);
        double rest = cell_at(q, level, i, k, m - replicas)->time;
        if (last < 0 || rest < 0)
            continue;
        double time = with_transfers(q, level, k, j, replicas, rest > last ? rest : last);
        if (best->time < 0 || best->time > time)
            *best = (struct cell){time, k, m - replicas, replicas};
    }
}

static void mark_before(struct planner *q, int32_t state, bool value)
{
    const struct lw_pipedream_state *s = &q->p->states[state];

    for (int32_t b = 0; q->p->before && b < s->n_before; b++)
        q->before_start[q->p->before[s->first_before + b]] = value;
    for (int32_t b = 0; !q->p->before && b < state; b++)
        q->before_start[b] = value;
}

static void split_row(struct planner *q, int32_t level, int32_t i)
{
    if (i > 0)
        mark_before(q, i - 1, true);
    for (int32_t m = 1; m < q->p->levels[level].n_machines; m++)
        for (int32_t j = i + 1; j < q->n; j++) {
            const struct lw_pipedream_state *s = &q->p->states[j];
            struct cell best = *cell_at(q, level, i, j, m);
            int32_t n_before = q->p->before ? s->n_before : j;
            for (int32_t b = 0; b < n_before; b++) {
                int32_t k = q->p->before ? q->p->before[s->first_before + b] : b;
                if (!q->before_start[k])
                    try_split(q, level, i, j, m, k, &best);
            }
            *cell_at(q, level, i, j, m) = best;
        }
    if (i > 0)
        mark_before(q, i - 1, false);
}

static enum lw_status fill_level(struct planner *q, int32_t level, int32_t machines_below,
                                 struct lw_err *err)
{
    int32_t n_machines = q->p->levels[level].n_machines;
    int64_t states = (int64_t)q->n * q->n;

    LW_TAKE(q->arena, q->table[level], states * n_machines, err);
    for (int64_t c = 0; c < states * n_machines; c++)
        q->table[level][c].time = -1;
    for (int32_t i = 0; i < q->n; i++)
        for (int32_t j = i; j < q->n; j++)
            for (int32_t m = 0; m < (q->p->straight ? 1 : n_machines); m++)
                *cell_at(q, level, i, j, m) = one_stage(q, level, i, j, m, machines_below);
    for (int32_t i = 0; i < (level == q->p->n_levels - 1 ? 1 : q->n); i++)
        split_row(q, level, i);
    for (int32_t i = 0; i < q->n; i++)
        for (int32_t j = 0; j < q->n; j++)
            q->compute[(int64_t)i * q->n + j] = cell_at(q, level, i, j, n_machines - 1)->time;
    return LW_OK;
}

static enum lw_status add_stage(struct planner *q, struct lw_pipedream_stage s, struct lw_err *err)
{
    const struct lw_pipedream_state *states = q->p->states;

    s.time_s = between(states[s.end - 1].time_s, s.begin ? states[s.begin - 1].time_s : 0, s.begin);
    if (lw_reserve(&q->out->stages, &q->cap, (int64_t)q->out->n_stages + 1, sizeof s))
        return lw_fail_nomem(err);
    q->out->stages[q->out->n_stages++] = s;
    return LW_OK;
}

/* The stages of [begin, end) on one machine of `level`, from the input on. The reference system
 * looks the split up with the state before the one it was made after, row `begin`. */
static enum lw_status read_level(struct planner *q, int32_t level, int32_t begin, int32_t end,
                                 struct lw_err *err)
{
    int32_t first = q->out->n_stages;
    const struct cell *c = cell_at(q, level, begin, end - 1, q->p->levels[level].n_machines - 1);

    if (c->time < 0)
        return lw_fail(err, LW_ENO, "level %d: states %d to %d fit on no assignment of %d machines",
                       level, begin, end - 1, q->p->levels[level].n_machines);
    for (;;) {
        int32_t from = c->split == NONE ? begin : c->split + 1;
        LW_TRY(add_stage(q, (struct lw_pipedream_stage){level, from, end, c->machines, 0}, err));
        if (c->split == NONE)
            break;
        end = from;
        c = cell_at(q, level, begin, c->split, c->split_m);
    }
    for (int32_t a = first, b = q->out->n_stages - 1; a < b; a++, b--) {
        struct lw_pipedream_stage swap = q->out->stages[a];
        q->out->stages[a] = q->out->stages[b];
        q->out->stages[b] = swap;
    }
    return LW_OK;
}

static enum lw_status read_plan(struct planner *q, struct lw_err *err)
{
    int32_t n_levels = q->p->n_levels, outer = 0, outer_end;

    LW_TRY(read_level(q, n_levels - 1, 0, q->n, err));
    for (int32_t level = n_levels - 2; level >= 0; level--) {
        outer_end = q->out->n_stages;
        for (; outer < outer_end; outer++) {
            struct lw_pipedream_stage s = q->out->stages[outer];
            LW_TRY(read_level(q, level, s.begin, s.end, err));
        }
    }
    const struct lw_pipedream_level *top = &q->p->levels[n_levels - 1];
    q->out->pipeline_s = cell_at(q, n_levels - 1, 0, q->n - 1, top->n_machines - 1)->time;
    return LW_OK;
}

static bool bad_number(double v)
{
    return !isfinite(v) || v < 0;
}

static enum lw_status check_states(const struct lw_pipedream_problem *p, struct lw_err *err)
{
    for (int32_t i = 0; i < p->n_states; i++) {
        const struct lw_pipedream_state *s = &p->states[i];
        if (bad_number(s->time_s) || bad_number(s->activation_bytes) ||
            bad_number(s->parameter_bytes) || bad_number(s->output_bytes))
            return lw_fail(err, LW_EINVAL, "state %d: times and sizes must be finite and 0 or more",
                           i);
        for (int32_t b = 0; p->before && b < s->n_before; b++)
            if (p->before[s->first_before + b] < 0 || p->before[s->first_before + b] >= i)
                return lw_fail(err, LW_EINVAL,
                               "state %d: state %d cannot come before it (topological order)", i,
                               p->before[s->first_before + b]);
    }
    return LW_OK;
}

static enum lw_status check_problem(const struct lw_pipedream_problem *p, struct lw_err *err)
{
    if (p->n_states < 1 || p->n_levels < 1)
        return lw_fail(err, LW_EINVAL, "%d states on %d levels, allowed: 1 or more of each",
                       p->n_states, p->n_levels);
    for (int32_t l = 0; l < p->n_levels; l++) {
        if (p->levels[l].n_machines < 1 || !isfinite(p->levels[l].bandwidth) ||
            p->levels[l].bandwidth <= 0)
            return lw_fail(err, LW_EINVAL,
                           "level %d: %d machines at %g B/s, allowed: 1 or more, above 0", l,
                           p->levels[l].n_machines, p->levels[l].bandwidth);
        if ((double)p->n_states * p->n_states * p->levels[l].n_machines > 1e8)
            return lw_fail(err, LW_ENOTSUP,
                           "the pipedream planner keeps a table of states^2 x machines: %d states "
                           "and %d machines are more than 1e8 entries",
                           p->n_states, p->levels[l].n_machines);
    }
    if (bad_number(p->memory_bytes) || bad_number(p->compression))
        return lw_fail(err, LW_EINVAL, "memory and compression must be finite and 0 or more");
    return check_states(p, err);
}

static enum lw_status plan_levels(struct planner *q, struct lw_err *err)
{
    int32_t machines_below = 1;

    LW_TAKE(q->arena, q->compute, (int64_t)q->n * q->n, err);
    LW_TAKE(q->arena, q->table, q->p->n_levels, err);
    LW_TAKE(q->arena, q->before_start, q->n, err);
    for (int32_t i = 0; i < q->n; i++)
        for (int32_t j = 0; j < q->n; j++)
            q->compute[(int64_t)i * q->n + j] =
                j < i ? -1 : between(q->p->states[j].time_s, i ? q->p->states[i - 1].time_s : 0, i);
    for (int32_t l = 0; l < q->p->n_levels; l++) {
        LW_TRY(fill_level(q, l, machines_below, err));
        machines_below = q->p->levels[l].n_machines;
    }
    return read_plan(q, err);
}

enum lw_status lw_pipedream_plan(const struct lw_pipedream_problem *p,
                                 struct lw_pipedream_plan *out, struct lw_err *err)
{
    struct lw_arena work = {0};
    struct lw_pipedream_plan result = {0};
    struct planner q = {.p = p, .n = p->n_states, .arena = &work, .out = &result};

    LW_TRY(check_problem(p, err));
    enum lw_status status = plan_levels(&q, err);

    lw_arena_free(&work);
    LW_GIVE(status, out, result, lw_pipedream_free(&result));
}

/* Recorded answers of PipeDream's optimizer on its own profiles (pipedream_optimizer.csv).
 *
 * Seconds and speed-ups are compared with ours. The recorded stages are judged: the optimizer's
 * choice among plans of equal time, and its numbering of states that do not follow one another,
 * come from the order of Python sets and cannot be repeated. Judged means: stages tile the model,
 * replicas use all machines, every cut is a state of the model that can have that number and has
 * that time, and with one level the slowest stage is the recorded one. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/golden/golden_case.h"
#include "shared/io/input.h"
#include "shared/partition/pipedream_graph.h"

enum { MOST_LEVELS = 8, MOST_STAGES = 1024 };

struct stage {
    int32_t begin, end, replicas;
    double time_s;
};

struct row {
    const char *model;
    int32_t n_levels, n_listed[MOST_LEVELS]; /* stages per level, outermost first */
    struct lw_pipedream_level levels[MOST_LEVELS];
    bool straight;
    int32_t n_stages;
    struct stage *stages;
};

static bool close_to(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b)) + 1e-15;
}

/* --- reading ---------------------------------------------------------------------------------- */

/* "4x4" and "1e+10x1.25e+09", innermost first. */
static enum lw_status read_levels(struct lw_golden_case *c, struct row *r, struct lw_err *err)
{
    const char *m, *b;
    char *end;

    LW_TRY(lw_golden_cell(c, "machines", &m, err));
    LW_TRY(lw_golden_cell(c, "bandwidth_Bps", &b, err));
    for (r->n_levels = 0; r->n_levels < MOST_LEVELS;) {
        struct lw_pipedream_level *l = &r->levels[r->n_levels++];
        long n = strtol(m, &end, 10);
        bool good = end > m && n >= 1 && n <= 4096, more = *end == 'x';
        l->n_machines = good ? (int32_t)n : 0;
        m = end + more;
        l->bandwidth = strtod(b, &end);
        good = good && end > b && (*end == 'x') == more && (more || (!*m && !*end));
        b = end + (*end == 'x');
        if (!good)
            break;
        if (!more)
            return LW_OK;
    }
    return lw_fail(err, LW_EFORMAT,
                   "machines and bandwidth_Bps: expected as many of each, as in 4x4 "
                   "and 1e+10x1e+09");
}

static enum lw_status read_stages(struct lw_golden_case *c, struct row *r, struct lw_err *err)
{
    const char *p, *per_level;
    int used;

    LW_TRY(lw_golden_cell(c, "stages", &p, err));
    LW_TRY(lw_golden_cell(c, "stages_per_level", &per_level, err));
    LW_TAKE(c->arena, r->stages, MOST_STAGES, err);
    for (; *p && r->n_stages < MOST_STAGES; r->n_stages++) {
        struct stage *s = &r->stages[r->n_stages];
        used = 0;
        if (sscanf(p, "[%9d,%9d)@%lfsx%9d%n", &s->begin, &s->end, &s->time_s, &s->replicas,
                   &used) != 4 ||
            used == 0 || (p[used] && p[used] != ' '))
            return lw_fail(err, LW_EFORMAT, "stages: expected [0,15)@0.5sx3, got '%.40s'", p);
        p += used + (p[used] == ' ');
    }
    int32_t sum = 0;
    for (int32_t l = 0; l < r->n_levels; l++) {
        used = 0;
        if (sscanf(per_level, "%9d%n", &r->n_listed[l], &used) != 1 || r->n_listed[l] < 1 ||
            r->n_listed[l] > MOST_STAGES)
            used = 0;
        bool last = l == r->n_levels - 1;
        if (used == 0 || per_level[used] != (last ? '\0' : '|'))
            return lw_fail(err, LW_EFORMAT, "stages_per_level: expected %d numbers like 2|3",
                           r->n_levels);
        per_level += used + 1;
        sum += r->n_listed[l];
    }
    return sum == r->n_stages
               ? LW_OK
               : lw_fail(err, LW_ENO, "stages_per_level: %d stages are listed, not %d", r->n_stages,
                         sum);
}

static enum lw_status read_row(struct lw_golden_case *c, struct row *r, struct lw_err *err)
{
    int64_t straight;

    LW_TRY(lw_golden_cell(c, "model", &r->model, err));
    LW_TRY(read_levels(c, r, err));
    LW_TRY(lw_golden_int(c, "straight", 0, 1, &straight, err));
    r->straight = straight == 1;
    return read_stages(c, r, err);
}

/* --- profiles --------------------------------------------------------------------------------- */

static enum lw_status read_profile(const char *folder, const char *model,
                                   struct lw_profile_graph *g, struct lw_err *err)
{
    char nodes_file[512], edges_file[512];
    struct lw_input nodes, edges;

    snprintf(nodes_file, sizeof nodes_file, "%s/%s_nodes.csv", folder, model);
    snprintf(edges_file, sizeof edges_file, "%s/%s_edges.csv", folder, model);
    LW_TRY(lw_input_read(nodes_file, 0, &nodes, err));
    enum lw_status status = lw_input_read(edges_file, 0, &edges, err);
    if (status == LW_OK) {
        status = lw_profile_graph_parse(nodes_file, nodes.text, edges_file, edges.text, g, err);
        lw_input_free(&edges);
    }
    lw_input_free(&nodes);
    return status;
}

static bool has_profile(const char *folder, const char *model)
{
    char file[512];

    snprintf(file, sizeof file, "%s/%s_nodes.csv", folder, model);
    return access(file, R_OK) == 0;
}

/* --profiles first, in their order; then the place relative to the table. */
static enum lw_status find_profile(const struct lw_golden_case *c, const char *model,
                                   struct lw_profile_graph *g, struct lw_err *err)
{
    char beside[448];
    const char *slash = strrchr(c->file, '/');

    snprintf(beside, sizeof beside, "%.*s../../../papers/pipedream_profiles",
             slash && slash - c->file < 400 ? (int)(slash - c->file + 1) : 0, c->file);
    if (strchr(model, '/'))
        return lw_fail(err, LW_EFORMAT, "model: found '%s', expected a name without '/'", model);
    for (int i = 0; i < c->n_profiles; i++)
        if (has_profile(c->profiles[i], model))
            return read_profile(c->profiles[i], model, g, err);
    if (has_profile(beside, model))
        return read_profile(beside, model, g, err);
    return lw_fail(err, LW_ENO, "no profile of '%s': neither --profiles nor %s has %s_nodes.csv",
                   model, beside, model);
}

/* --- judging the recorded stages -------------------------------------------------------------- */

struct judge {
    const struct lw_pipedream_states *s;
    int32_t *n_after;    /* [n] states that come after */
    double *best, *next; /* [n] slowest stage of the best cuts that end there; < 0 = none */
};

/* Could this state have that place in some topological order? */
static bool may_be(const struct judge *j, int32_t state, int32_t place)
{
    return j->s->states[state].n_before <= place && place <= j->s->n - 1 - j->n_after[state];
}

static bool comes_before(const struct judge *j, int32_t a, int32_t b)
{
    const struct lw_pipedream_state *s = &j->s->states[b];

    for (int32_t k = 0; k < s->n_before; k++)
        if (j->s->before[s->first_before + k] == a)
            return true;
    return false;
}

/* The stage from after state a (-1: the input) to state b; < 0 when it is not as recorded. */
static double stage_time(const struct judge *j, int32_t a, int32_t b, const struct stage *r,
                         double bandwidth)
{
    const struct lw_pipedream_state *s = j->s->states;
    double t = s[b].time_s - (a >= 0 ? s[a].time_s : 0);
    double w = s[b].parameter_bytes - (a >= 0 ? s[a].parameter_bytes : 0);

    if (!close_to(t, r->time_s) && fabs(t - r->time_s) > 1e-12)
        return -1;
    return (t + 4.0 * (r->replicas - 1) * w / (bandwidth * r->replicas)) / r->replicas;
}

/* Follow one level's stages over all states that their cuts could be. */
static enum lw_status follow(struct judge *j, const struct stage *stages, int32_t n,
                             double bandwidth, double *slowest, struct lw_err *err)
{
    int32_t n_states = j->s->n;

    for (int32_t k = 0; k < n; k++) {
        const struct stage *r = &stages[k];
        bool any = false;
        if (r->begin != (k ? stages[k - 1].end : 0) || r->end <= r->begin || r->end > n_states ||
            r->replicas < 1 || (k == n - 1 && r->end != n_states))
            return lw_fail(err, LW_ENO,
                           "stages: [%d,%d)x%d does not continue what is before it, or "
                           "does not end with state %d",
                           r->begin, r->end, r->replicas, n_states);
        for (int32_t b = 0; b < n_states; b++) {
            j->next[b] = -1;
            for (int32_t a = k ? 0 : -1; may_be(j, b, r->end - 1) && a < (k ? n_states : 0); a++) {
                if (k && (j->best[a] < 0 || !comes_before(j, a, b)))
                    continue;
                double t = stage_time(j, a, b, r, bandwidth);
                double all = k && j->best[a] > t ? j->best[a] : t;
                if (t >= 0 && (j->next[b] < 0 || all < j->next[b]))
                    j->next[b] = all;
            }
            any = any || j->next[b] >= 0;
        }
        if (!any)
            return lw_fail(err, LW_ENO, "stages: no state of the model ends [%d,%d) after %.17g s",
                           r->begin, r->end, r->time_s);
        memcpy(j->best, j->next, (size_t)n_states * sizeof *j->best);
    }
    *slowest = j->best[n_states - 1];
    return LW_OK;
}

/* Inside every stage of the level above (the whole model: `outer` NULL) replicas use all machines.
 */
static enum lw_status count_machines(const struct stage *outer, int32_t n_outer,
                                     const struct stage *inner, int32_t n_inner, int32_t machines,
                                     struct lw_err *err)
{
    int32_t k = 0;

    for (int32_t o = 0; o < n_outer; o++) {
        int32_t used = 0, end = outer ? outer[o].end : inner[n_inner - 1].end;
        for (; k < n_inner && inner[k].end <= end; k++)
            used += inner[k].replicas;
        if (k == 0 || inner[k - 1].end != end || used != machines)
            return lw_fail(err, LW_ENO, "stages: those up to state %d use %d of %d machines", end,
                           used, machines);
    }
    return LW_OK;
}

static enum lw_status judge_levels(struct judge *j, const struct row *r, double pipeline_s,
                                   struct lw_err *err)
{
    const struct stage *at = r->stages, *outer = NULL;
    int32_t n_outer = 1;

    for (int32_t k = 0; r->straight && k < r->n_stages; k++)
        if (r->stages[k].replicas != 1)
            return lw_fail(err, LW_ENO, "stages: [%d,%d)x%d in a straight pipeline",
                           r->stages[k].begin, r->stages[k].end, r->stages[k].replicas);

    for (int32_t l = 0; l < r->n_levels; l++) {
        const struct lw_pipedream_level *level = &r->levels[r->n_levels - 1 - l];
        double slowest = 0;
        LW_TRY(follow(j, at, r->n_listed[l], level->bandwidth, &slowest, err));
        LW_TRY(count_machines(outer, n_outer, at, r->n_listed[l], level->n_machines, err));
        if (r->n_levels == 1 && !close_to(slowest, pipeline_s))
            return lw_fail(err, LW_ENO, "stages: the slowest takes %.17g s, the best plan %.17g s",
                           slowest, pipeline_s);
        outer = at;
        n_outer = r->n_listed[l];
        at += n_outer;
    }
    return LW_OK;
}

static enum lw_status judge_stages(struct lw_golden_case *c, const struct row *r,
                                   const struct lw_pipedream_states *s, double pipeline_s,
                                   struct lw_err *err)
{
    struct judge j = {.s = s};

    LW_TAKE(c->arena, j.n_after, s->n, err);
    LW_TAKE(c->arena, j.best, s->n, err);
    LW_TAKE(c->arena, j.next, s->n, err);
    for (int32_t i = 0; i < s->n; i++)
        for (int32_t k = 0; k < s->states[i].n_before; k++)
            j.n_after[s->before[s->states[i].first_before + k]]++;
    return judge_levels(&j, r, pipeline_s, err);
}

/* --- comparing -------------------------------------------------------------------------------- */

static enum lw_status expect_close(struct lw_golden_case *c, const char *title, double ours,
                                   struct lw_err *err)
{
    const char *text;
    char *end;

    LW_TRY(lw_golden_cell(c, title, &text, err));
    double v = strtod(text, &end);
    if (end == text || *end || !close_to(ours, v))
        return lw_fail(err, LW_ENO, "%s: computed %.17g, the case says %s", title, ours, text);
    return LW_OK;
}

/* All machines as replicas of one stage, level by level. */
static double data_parallel(const struct row *r, const struct lw_pipedream_state *all)
{
    double t = all->time_s;
    int32_t below = 1;

    for (int32_t l = 0; l < r->n_levels; l++) {
        int32_t n = r->levels[l].n_machines;
        t = (t + 4.0 * (n - 1) * all->parameter_bytes / (r->levels[l].bandwidth * n) / below) / n;
        below = n;
    }
    return t;
}

static enum lw_status check_states(struct lw_golden_case *c, const struct row *r,
                                   const struct lw_pipedream_states *s, struct lw_err *err)
{
    struct lw_pipedream_problem p = {.n_states = s->n,
                                     .n_levels = r->n_levels,
                                     .states = s->states,
                                     .before = s->before,
                                     .levels = r->levels,
                                     .straight = r->straight};
    const struct lw_pipedream_state *all = &s->states[s->n - 1];
    struct lw_pipedream_plan plan;

    LW_TRY(lw_pipedream_plan(&p, &plan, err));
    double pipeline_s = plan.pipeline_s;
    lw_pipedream_free(&plan);
    LW_TRY(expect_close(c, "single_stage_s", all->time_s, err));
    LW_TRY(expect_close(c, "pipeline_stage_s", pipeline_s, err));
    LW_TRY(expect_close(c, "speedup", all->time_s / pipeline_s, err));
    LW_TRY(expect_close(c, "dp_speedup", all->time_s / data_parallel(r, all), err));
    return judge_stages(c, r, s, pipeline_s, err);
}

enum lw_status lw_golden_pipedream_row(struct lw_golden_case *c, struct lw_err *err)
{
    struct row r = {0};
    struct lw_profile_graph g;
    struct lw_pipedream_states s;

    LW_TRY(read_row(c, &r, err));
    LW_TRY(find_profile(c, r.model, &g, err));
    enum lw_status status = lw_pipedream_states_make(&g, &s, err);
    lw_profile_graph_free(&g);
    LW_TRY(status);
    status = check_states(c, &r, &s, err);
    lw_pipedream_states_free(&s);
    return status;
}

/* PipeDream's hierarchical planner: shared/partition/partition_pipedream.h. Compared with all
 * assignments of small chains, and with the reference system's own answers for a VGG-16 where
 * ../shared holds them. */
#include <stdio.h>
#include <string.h>
#include "tests/lib/unit.h"

#include "shared/partition/partition_pipedream.h"
#include "tests/lib/failing_alloc.h"
#include "tests/lib/prng.h"

enum { N_MAX = 64 };

static void chain(struct lw_pipedream_state *s, int32_t n, const double *time, const double *params)
{
    for (int32_t i = 0; i < n; i++) {
        s[i] = (struct lw_pipedream_state){.time_s = time[i], .parameter_bytes = params[i]};
        if (i > 0) {
            s[i].time_s += s[i - 1].time_s;
            s[i].parameter_bytes += s[i - 1].parameter_bytes;
        }
    }
}

/* "0-2x3 2-5x1" */
static const char *shown(const struct lw_pipedream_plan *p)
{
    static char text[512];
    size_t at = 0;

    text[0] = 0;
    for (int32_t i = 0; i < p->n_stages; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%d-%dx%d", i ? " " : "",
                               p->stages[i].begin, p->stages[i].end, p->stages[i].replicas);
    return text;
}

TEST(example_of_the_design_page)
{
    /* Four layers of 4, 4, 1, 3 s; the last holds 6 bytes of parameters, links move 1 B/s.
     * 3 machines as one stage: (12 + 4*2*6/3) / 3 = 9.33. First two layers on 2 machines: 8/2 = 4,
     * last two on one: 4. So 4 is the time of the slowest stage. */
    static const double time[] = {4, 4, 1, 3}, params[] = {0, 0, 0, 6};
    struct lw_pipedream_state s[4];
    struct lw_pipedream_level level = {3, 1};
    struct lw_pipedream_problem p = {.n_states = 4, .n_levels = 1, .states = s, .levels = &level};
    struct lw_pipedream_plan plan;
    struct lw_err err;

    chain(s, 4, time, params);
    assert_int_equal(lw_pipedream_plan(&p, &plan, &err), LW_OK);
    assert_string_equal(shown(&plan), "0-2x2 2-4x1");
    assert_true(plan.pipeline_s == 4);
    assert_true(plan.stages[0].time_s == 8);
    lw_pipedream_free(&plan);
    /* one machine per stage: 4 | 4 | 1+3 */
    p.straight = true;
    assert_int_equal(lw_pipedream_plan(&p, &plan, &err), LW_OK);
    assert_string_equal(shown(&plan), "0-1x1 1-2x1 2-4x1");
    lw_pipedream_free(&plan);
}

TEST(levels_split_the_stages_of_the_level_above)
{
    /* Two machines of two devices, no parameters: 8 equal layers halve at each level or replicate;
     * replication of everything is found first and ties: (8/2)/2 = 2 per device. */
    static const double time[] = {1, 1, 1, 1, 1, 1, 1, 1}, none[8];
    struct lw_pipedream_state s[8];
    static const struct lw_pipedream_level levels[] = {{2, 1}, {2, 1}};
    struct lw_pipedream_problem p = {.n_states = 8, .n_levels = 2, .states = s, .levels = levels};
    struct lw_pipedream_plan plan;
    struct lw_err err;

    chain(s, 8, time, none);
    assert_int_equal(lw_pipedream_plan(&p, &plan, &err), LW_OK);
    assert_string_equal(shown(&plan), "0-8x2 0-8x2");
    assert_int_equal(plan.stages[0].level, 1);
    assert_int_equal(plan.stages[1].level, 0);
    assert_true(plan.pipeline_s == 2);
    lw_pipedream_free(&plan);
    p.straight = true;
    assert_int_equal(lw_pipedream_plan(&p, &plan, &err), LW_OK);
    assert_string_equal(shown(&plan), "0-4x1 4-8x1 0-2x1 2-4x1 4-6x1 6-8x1");
    lw_pipedream_free(&plan);
}

TEST(activation_transfer_counts_only_with_compression)
{
    /* 2 | 2 cut in the middle moves 10 bytes each way at 1 B/s: 20 s. With compression 1 one stage
     * on both machines is better: 4/2 = 2 s either way, the first found; without, too. Parameters
     * of 1 byte per layer make it (4 + 4*1*2/2)/2 = 4: now the cut costs 2 or max(2, 20). */
    static const double time[] = {2, 2}, params[] = {1, 1};
    struct lw_pipedream_state s[2];
    struct lw_pipedream_level level = {2, 1};
    struct lw_pipedream_problem p = {.n_states = 2, .n_levels = 1, .states = s, .levels = &level};
    struct lw_pipedream_plan plan;
    struct lw_err err;

    chain(s, 2, time, params);
    s[0].output_bytes = 10;
    assert_int_equal(lw_pipedream_plan(&p, &plan, &err), LW_OK);
    assert_string_equal(shown(&plan), "0-1x1 1-2x1");
    lw_pipedream_free(&plan);
    p.compression = 1;
    assert_int_equal(lw_pipedream_plan(&p, &plan, &err), LW_OK);
    assert_string_equal(shown(&plan), "0-2x2");
    assert_true(plan.pipeline_s == 4);
    lw_pipedream_free(&plan);
}

/* The best of all ways to run layers i.. on m machines, each stage replicated. */
static double best_of(const double *time, const double *params, int32_t n, int32_t i, int32_t m,
                      double bandwidth)
{
    double best = -1, t = 0, w = 0;

    for (int32_t j = i; j < n; j++) {
        t += time[j];
        w += params[j];
        for (int32_t r = 1; r <= m; r++) {
            double stage = (t + 4 * (r - 1) * w / (bandwidth * r)) / r, rest = 0;
            if ((j == n - 1) != (r == m))
                continue;
            if (j < n - 1)
                rest = best_of(time, params, n, j + 1, m - r, bandwidth);
            if (rest < 0)
                continue;
            stage = rest > stage ? rest : stage;
            best = best < 0 || stage < best ? stage : best;
        }
        for (int32_t r = 1; j < n - 1 && r < m; r++) {
            double stage = (t + 4 * (r - 1) * w / (bandwidth * r)) / r;
            double rest = best_of(time, params, n, j + 1, m - r, bandwidth);
            if (rest < 0)
                continue;
            stage = rest > stage ? rest : stage;
            best = best < 0 || stage < best ? stage : best;
        }
    }
    return best;
}

TEST(one_level_equals_brute_force)
{
    struct prng r = prng_start(__func__);

    for (int i = 0; i < 300; i++) {
        double time[8], params[8];
        struct lw_pipedream_state s[8];
        struct lw_pipedream_level level = {(int32_t)prng_in(&r, 1, 5), (double)prng_in(&r, 1, 50)};
        struct lw_pipedream_problem p = {.n_states = (int32_t)prng_in(&r, 1, 7), .n_levels = 1,
                                         .states = s, .levels = &level};
        struct lw_pipedream_plan plan;
        struct lw_err err;
        int32_t at = 0, machines = 0;
        for (int j = 0; j < p.n_states; j++) {
            time[j] = (double)prng_in(&r, 0, 100);
            params[j] = (double)prng_in(&r, 0, 200);
        }
        chain(s, p.n_states, time, params);
        assert_int_equal(lw_pipedream_plan(&p, &plan, &err), LW_OK);
        double expected = best_of(time, params, p.n_states, 0, level.n_machines, level.bandwidth);
        assert_true(plan.pipeline_s <= expected * (1 + 1e-12));
        assert_true(plan.pipeline_s >= expected * (1 - 1e-12));
        for (int32_t k = 0; k < plan.n_stages; k++) {
            assert_int_equal(plan.stages[k].begin, at);
            at = plan.stages[k].end;
            machines += plan.stages[k].replicas;
        }
        assert_int_equal(at, p.n_states);
        assert_int_equal(machines, level.n_machines);
        lw_pipedream_free(&plan);
    }
}

TEST(states_out_of_order_and_bad_levels_are_refused)
{
    static const double time[] = {1, 1}, none[2];
    static const int32_t before[] = {1};
    struct lw_pipedream_state s[2];
    struct lw_pipedream_level level = {2, 1};
    struct lw_pipedream_problem p = {.n_states = 2, .n_levels = 1, .states = s, .levels = &level};
    struct lw_pipedream_plan plan;
    struct lw_err err;

    chain(s, 2, time, none);
    p.before = before;
    s[0].n_before = 1;
    assert_int_equal(lw_pipedream_plan(&p, &plan, &err), LW_EINVAL);
    assert_string_equal(err.msg, "state 0: state 1 cannot come before it (topological order)");
    p.before = NULL;
    level.bandwidth = 0;
    assert_int_equal(lw_pipedream_plan(&p, &plan, &err), LW_EINVAL);
    assert_string_equal(err.msg, "level 0: 2 machines at 0 B/s, allowed: 1 or more, above 0");
    level = (struct lw_pipedream_level){3, 1};
    p.straight = true;
    assert_int_equal(lw_pipedream_plan(&p, &plan, &err), LW_ENO);
    assert_string_equal(err.msg,
                        "level 0: states 0 to 1 fit on no assignment of 3 machines");
}

/* One quoted or bare cell; text moves on. */
static void next_cell(char **text, char *cell, size_t size)
{
    char *p = *text, *end;

    if (*p == '"') {
        end = strchr(++p, '"');
        *text = end + (end[1] == ',' ? 2 : 1);
    } else {
        end = p + strcspn(p, ",\n");
        *text = end + (*end == ',');
    }
    snprintf(cell, size, "%.*s", (int)(end - p), p);
}

static int32_t read_weights(const char *row, double *v, double unit)
{
    FILE *f = fopen("../shared/golden/schedules/partition/partition.csv", "r");
    char line[8192], cell[4096];
    int32_t n = 0;

    while (f && fgets(line, sizeof line, f)) {
        char *p = line;
        next_cell(&p, cell, sizeof cell);
        if (strcmp(cell, row) != 0)
            continue;
        for (int i = 0; i < 3; i++)
            next_cell(&p, cell, sizeof cell);
        for (char *w = strtok(cell, ";"); w; w = strtok(NULL, ";"))
            v[n++] = strtod(w, NULL) * unit;
        break;
    }
    if (f)
        fclose(f);
    return n;
}

/* "[0,15)@0.5x3 [15,40)@0.16x1": the reference system's own stages, which at equal times depend on
 * where Python put its objects, must be as slow as the plan says. Several levels are not judged. */
static double slowest_stage(const char *text, const struct lw_pipedream_problem *p)
{
    double slowest = 0;
    int begin, end, replicas, used = 0;

    for (; sscanf(text, "[%d,%d)@%*fsx%d%n", &begin, &end, &replicas, &used) == 3; text += used) {
        const struct lw_pipedream_state *s = p->states;
        double t = s[end - 1].time_s - (begin ? s[begin - 1].time_s : 0);
        double w = s[end - 1].parameter_bytes - (begin ? s[begin - 1].parameter_bytes : 0);
        t = (t + 4 * (replicas - 1) * w / (p->levels[0].bandwidth * replicas)) / replicas;
        slowest = t > slowest ? t : slowest;
        used += text[used] == ' ';
    }
    return slowest;
}

static void assert_close(double a, double b)
{
    if (a / b - 1 > 1e-9 || a / b - 1 < -1e-9)
        fail_msg("%.17g is not %.17g", a, b);
}

TEST(vgg16_is_as_fast_as_the_root_system_plans_it)
{
    FILE *f = fopen("../shared/golden/schedules/partition/pipedream_optimizer.csv", "r");
    double time[N_MAX], params[N_MAX];
    struct lw_pipedream_state s[N_MAX];
    int32_t n = read_weights("pipedream_vgg16_time_us", time, 1e-6), n_checked = 0;
    char line[16384], cell[8192];

    if (!f || n == 0 || read_weights("pipedream_vgg16_params", params, 4) != n) {
        printf("SKIP vgg16_is_as_fast_as_the_root_system_plans_it: ../shared/golden is not here\n");
        skip();
    }
    chain(s, n, time, params);
    while (fgets(line, sizeof line, f)) {
        struct lw_pipedream_level levels[2];
        struct lw_pipedream_problem p = {.n_states = n, .states = s, .levels = levels};
        struct lw_pipedream_plan plan;
        struct lw_err err;
        char machines[64], *at = line, *m, *b, *end;
        next_cell(&at, cell, sizeof cell);
        if (strcmp(cell, "vgg16") != 0)
            continue;
        next_cell(&at, machines, sizeof machines);
        next_cell(&at, cell, sizeof cell);
        for (m = machines, b = cell; *m; p.n_levels++) {
            levels[p.n_levels].n_machines = (int32_t)strtol(m, &end, 10);
            m = end + (*end == 'x');
            levels[p.n_levels].bandwidth = strtod(b, &end);
            b = end + (*end == 'x');
        }
        next_cell(&at, cell, sizeof cell);
        p.straight = cell[0] == '1';
        next_cell(&at, cell, sizeof cell);
        next_cell(&at, cell, sizeof cell);
        assert_int_equal(lw_pipedream_plan(&p, &plan, &err), LW_OK);
        if (p.n_levels == 1)
            assert_close(slowest_stage(cell, &p), plan.pipeline_s);
        next_cell(&at, cell, sizeof cell);
        next_cell(&at, cell, sizeof cell);
        assert_close(plan.pipeline_s, strtod(cell, NULL));
        lw_pipedream_free(&plan);
        n_checked++;
    }
    fclose(f);
    assert_true(n_checked >= 3);
}

TEST(failing_allocations_leak_nothing)
{
    static const double time[] = {4, 4, 1, 3}, params[] = {0, 0, 0, 6};
    struct lw_pipedream_state s[4];
    static const struct lw_pipedream_level levels[] = {{3, 1}, {2, 1}};
    struct lw_pipedream_problem p = {.n_states = 4, .n_levels = 2, .states = s, .levels = levels};
    struct lw_pipedream_plan plan = {.n_stages = -7};
    struct lw_err err;

    chain(s, 4, time, params);
    EACH_ALLOCATION_FAILS(2, lw_pipedream_plan(&p, &plan, &err), plan, lw_pipedream_free(&plan));
}

/* One strategy has one hash on three machines where the plan names nothing that times decided, and
 * without tensor and context groups it names nothing: random strategies, models and frameworks.
 * LAPWING_TEST_SEED repeats a run. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <string.h>

#include "shared/cli/plan_source.h"
#include "shared/files/files.h"
#include "shared/framework/framework.h"
#include "shared/lower/lower.h"
#include "shared/schedule/schedule.h"
#include "sim/cost/cost_model.h"
#include "tests/lib/prng.h"
#include "traces/models/model_workload.h"

enum { N_SYSTEMS = 3 };
#define SLEEPER "nanotron-67c5ebb6"
static const char *const systems[N_SYSTEMS] = {"dgx-a100", "dgx-h100", "l40s"};

struct drawn {
    const char *model;
    char framework[64];
    struct lw_strategy s;
    struct lw_model_request sizes;
    char words[600];
};

static void give(struct drawn *d, const char *name, const char *value)
{
    size_t at = strlen(d->words);
    struct lw_err err = {0};

    assert_ok(lw_strategy_set(&d->s, name, value, &err), err);
    snprintf(d->words + at, sizeof d->words - at, " --%s %s", name, value);
}

static const char *pick(struct prng *r, const char *const *words, int n)
{
    return words[prng_below(r, n)];
}
#define PICK(r, words) pick(r, words, (int)(sizeof(words) / sizeof *(words)))

/* It is modelled between its own stages alone, under the first schedules below. */
static bool sleeps_between_stages(const struct drawn *d)
{
    return strcmp(d->framework, SLEEPER) == 0;
}

/* Every schedule but those of combined calls, and two in three times a partition that reads no
 * times. */
static void draw_pipeline(struct prng *r, struct drawn *d)
{
    static const char *const micro[] = {"4", "5", "8"};
    static const char *const schedules[] = {"1f1b", "1f1b", "gpipe", "interleaved-1f1b",
                                            "looped-bfs", "interleaved-zb", "zb-h1", "zb-h2",
                                            "zbv", "v-half", "v-min", "zb-auto-1p", "zb-auto-2p",
                                            "zbv-auto", "dualpipe", "dualpipev"};
    static const char *const partitions[] = {"uniform", "uniform", "deepspeed-uniform",
                                             "deepspeed-balanced", "colossal-balanced"};
    const char *schedule = schedules[prng_below(r, sleeps_between_stages(d)
                                                       ? 3 : (int)(sizeof schedules /
                                                                   sizeof *schedules))];
    bool chunks = strchr(schedule, 'i') == schedule || strcmp(schedule, "looped-bfs") == 0;

    give(d, "micro-batches", PICK(r, micro));
    give(d, "schedule", schedule);
    if (chunks)
        give(d, "chunks", "2");
    if (sleeps_between_stages(d) || prng_below(r, 3) == 0)
        return; /* the framework's own stages, or by times */
    if (d->s.pp == 2 && !chunks && lw_schedule_chunks(d->s.schedule) == 0 && prng_in(r, 0, 1)) {
        give(d, "partition", "explicit");
        give(d, "partition-list", "0,4");
    } else {
        give(d, "partition", PICK(r, partitions));
    }
}

/* NULL: any. */
static void draw_framework(struct prng *r, const char *name, struct drawn *d)
{
    int n = 0;

    while (lw_framework_known(n, d->framework))
        n++;
    assert_true(n > 30);
    if (name)
        snprintf(d->framework, sizeof d->framework, "%s", name);
    else
        assert_true(lw_framework_known((int)prng_below(r, n), d->framework));
    size_t at = strlen(d->words);
    snprintf(d->words + at, sizeof d->words - at, " --framework %s", d->framework);
}

static void draw(struct prng *r, const char *framework, struct drawn *d)
{
    static const char *const models[] = {"gpt2-xl", "gpt-6.7b", "llama-3-8b", "llama-3.2-3b",
                                         "mixtral-8x7b", "bert-large", "resnet50", "vit-l-16"};
    static const char *const sizes[] = {"1", "2", "4"}, *const zero[] = {"0", "1", "2", "3"};
    static const char *const cap[] = {"1MiB", "25MiB", "200MiB"};
    static const char *const recompute[] = {"none", "selective", "full"};

    *d = (struct drawn){.model = PICK(r, models), .s = lw_strategy_default()};
    draw_framework(r, framework, d);
    bool tokens = strcmp(d->model, "resnet50") != 0 && d->model[0] != 'v' && d->model[0] != 'b';
    give(d, "dp", PICK(r, sizes));
    if (tokens && prng_in(r, 0, 1))
        give(d, "tp", prng_in(r, 0, 1) ? "2" : "4");
    if (d->s.tp > 1 && prng_in(r, 0, 1))
        give(d, "sequence-parallel", "on");
    if (tokens && prng_in(r, 0, 3) == 0)
        give(d, "cp", "2");
    if (d->s.cp > 1 && prng_in(r, 0, 1))
        give(d, "cp-comm-type", "p2p");
    give(d, "pp", sizes[prng_in(r, sleeps_between_stages(d), 2)]);
    if (d->s.pp > 1)
        draw_pipeline(r, d);
    give(d, "zero", PICK(r, zero));
    if (d->s.zero == 0 && prng_in(r, 0, 1))
        give(d, "bucket-cap", PICK(r, cap));
    give(d, "recompute", PICK(r, recompute));
    if (prng_in(r, 0, 3) == 0)
        give(d, "clip", "1");
    int more = sleeps_between_stages(d) ? 8 : 1; /* backwards about as long as its sleeps */
    d->sizes = (struct lw_model_request){.name = d->model, .layers = tokens ? 8 : 0,
                                         .batch = more * prng_in(r, 1, 2),
                                         .seq = tokens ? 512 << prng_below(r, 2) : 0};
}

/* As a command makes it: the framework's usual options, its kernels, its stages. */
static enum lw_status plan_with(const struct drawn *d, const struct lw_cluster *c, bool timeless,
                                struct lw_plan_source *source, struct lw_plan *p,
                                struct lw_err *err)
{
    struct lw_strategy s = d->s;
    const struct lw_model_target target = {.strategy = &s, .cluster = c,
                                           .framework = &source->framework};
    struct lw_cost cost = lw_sim_cost(c);
    struct lw_workload w;

    LW_TRY(lw_framework_strategy(&source->framework, (struct lw_usual_for){0}, &s, err));
    LW_TRY(lw_strategy_check(&s, err));
    LW_TRY(traces_model_workload(&d->sizes, &target, &w, err));
    w.timeless = timeless;
    enum lw_status st = lw_plan_source_stages(source, &w, NULL, &s, err);
    if (st == LW_OK)
        st = lw_plan_build(&w, &s, timeless ? NULL : &cost, p, err);
    lw_workload_free(&w);
    return st;
}

static enum lw_status plan_on(const struct drawn *d, const char *system, bool timeless,
                              struct lw_plan *p, struct lw_err *err)
{
    struct lw_plan_source source = {.silent = true};
    struct lw_cluster c;

    assert_ok(lw_cluster_find(system, &c, err), *err);
    assert_ok(lw_framework_find(d->framework, &source.framework, err), *err);
    enum lw_status st = plan_with(d, &c, timeless, &source, p, err);
    lw_framework_free(&source.framework);
    lw_arena_free(&source.strings);
    lw_cluster_free(&c);
    return st;
}

/* false: such a plan is refused. */
static bool plan(const struct drawn *d, const char *system, struct lw_plan *p, struct lw_err *err)
{
    return plan_on(d, system, false, p, err) == LW_OK;
}

/* Without a device there is the same plan without times, or none. */
static void plan_timeless(const struct drawn *d, const struct lw_plan *timed)
{
    struct lw_plan p;
    struct lw_err err = {0};
    enum lw_status s = plan_on(d, systems[1], true, &p, &err);

    if (timed->n_from_times > 0) {
        assert_int_equal(s, LW_EINVAL);
        assert_non_null(strstr(err.msg, timed->from_times[0]));
        assert_non_null(strstr(err.msg, "-c NAME"));
        return;
    }
    if (s != LW_OK)
        fail_msg("%s%s: %s", d->model, d->words, err.msg);
    assert_string_equal(p.hash, timed->hash);
    assert_true(lw_plan_has_times(timed));
    assert_false(lw_plan_has_times(&p));
    assert_string_equal(p.device, "");
    for (int32_t i = 0; i < p.n_ops; i++)
        assert_true(lw_plan_work_ps(&p, &p.ops[i]) <= 0);
    assert_int_equal(lw_plan_need_times(&p, "p.json", &err), LW_EINVAL);
    lw_plan_free(&p);
}

/* false: something that the plans name was decided otherwise. */
static bool have_one_hash(const struct drawn *d, const struct lw_plan *p)
{
    struct lw_plan_difference x;
    struct lw_err err = {0};
    char first[33], times[33];

    bool stages = d->s.pp > 1 && !lw_strategy_given(&d->s, lw_strategy_find("partition"));
    if (p[0].n_from_times > stages && d->s.tp == 1 && d->s.cp == 1)
        fail_msg("%s%s: decided by times: %s", d->model, d->words, p[0].from_times[0]);
    assert_ok(lw_plan_hash_times(&p[0], first, &err), err);
    for (int k = 1; k < N_SYSTEMS; k++) {
        assert_ok(lw_plan_diff(&p[0], &p[k], &x, &err), err);
        assert_int_equal(strcmp(p[0].hash, p[k].hash) != 0, x.decision[0] != 0);
        if (x.decision[0] && p[0].n_from_times == 0)
            fail_msg("%s%s: %s is not as on %s: %s", d->model, d->words, systems[k], systems[0],
                     x.decision);
        if (x.decision[0])
            return false;
        assert_ok(lw_plan_hash_times(&p[k], times, &err), err);
        assert_string_not_equal(first, times);
        assert_true(x.times[0]);
    }
    return true;
}

static void compare_drawn(const char *framework, int wanted)
{
    struct prng r = prng_start("plans");
    int n = 0, n_free = 0, n_one = 0, n_refused = 0;

    while (n_free < wanted) {
        struct drawn d;
        struct lw_plan p[N_SYSTEMS];
        struct lw_err err = {0};
        int made = 0;
        draw(&r, framework, &d);
        while (made < N_SYSTEMS && plan(&d, systems[made], &p[made], &err))
            made++;
        n += made == N_SYSTEMS;
        n_free += made == N_SYSTEMS && p[0].n_from_times == 0;
        n_one += made == N_SYSTEMS && have_one_hash(&d, p);
        n_refused += made == 0;
        if (made == N_SYSTEMS)
            plan_timeless(&d, &p[0]);
        if (made != 0 && made != N_SYSTEMS)
            fail_msg("%s%s: planned for %s, not for %s: %s", d.model, d.words, systems[0],
                     systems[made], err.msg);
        while (made > 0)
            lw_plan_free(&p[--made]);
        assert_true(n + n_refused < 30 * wanted);
    }
    printf("%d plans, %d with one hash on %d machines, %d of these without a decision by times; %d "
           "draws refused\n",
           n, n_one, N_SYSTEMS, n_free, n_refused);
}

TEST(a_strategy_has_one_hash_on_three_machines)
{
    compare_drawn(NULL, unit_cases(30, 200));
}

/* Sleeps of 0.1 s on devices of other speeds decide nothing. */
TEST(a_strategy_of_a_framework_that_sleeps_has_one_hash)
{
    compare_drawn(SLEEPER, unit_cases(30, 200));
}

/* Stages by times may differ; then the plan says that times decided. */
TEST(a_partition_by_times_may_differ_and_is_named)
{
    struct drawn d = {.model = "gpt2", .framework = "ideal", .s = lw_strategy_default(),
                      .sizes = {.name = "gpt2", .batch = 8}};
    struct lw_plan a, l;
    struct lw_plan_difference x;
    struct lw_err err = {0};

    give(&d, "pp", "4");
    assert_true(plan(&d, "dgx-a100", &a, &err) && plan(&d, "l40s", &l, &err));
    assert_ok(lw_plan_diff(&a, &l, &x, &err), err);
    assert_string_equal(x.decision, "module 4: stage is 0 in the first plan, 1 in the second");
    assert_string_not_equal(a.hash, l.hash);
    assert_string_equal(a.from_times[0], "--partition exact");
    assert_int_equal(a.n_from_times, 1);
    lw_plan_free(&l);
    lw_plan_free(&a);
}

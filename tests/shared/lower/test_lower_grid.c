/* Grids as plans: shared/lower/lower_grid.h, and the order of their messages,
 * shared/schedule/grid_order.h. */
#include <stdio.h>
#include <string.h>
#include "tests/lib/unit.h"

#include "shared/schedule/grid_time.h"
#include "shared/lower/lower_grid.h"
#include "shared/timeline/timeline.h"
#include "sim/predict/sim.h"
#include "tests/lib/failing_alloc.h"
#include "tests/lib/prng.h"

static const struct lw_grid_durations mixed = {10, 11, 7, 18, 2};

static struct lw_grid made(enum lw_schedule schedule, int32_t p, int32_t m, int32_t v)
{
    struct lw_schedule_shape s = {schedule, p, m, v, 0, NULL};
    struct lw_grid g;
    struct lw_err err = {0};

    assert_ok(lw_schedule_grid(&s, &g, &err), err);
    return g;
}

static struct lw_plan planned(const struct lw_grid *g, const struct lw_grid_durations *d)
{
    struct lw_plan p;
    struct lw_err err = {0};

    assert_ok(lw_grid_plan(g, "grid", LW_SCHEDULE_CUSTOM, d, &p, &err), err);
    return p;
}

/* "0F0 >1 ..." : actions by name, '>' and '<' with the peer for sends and receives. */
static const char *ops_of(const struct lw_plan *p, int32_t rank, char *text, size_t room)
{
    struct lw_program g = lw_plan_program(p, 0, rank);
    size_t at = 0;

    for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++) {
        const struct lw_op *o = &p->ops[i];
        const char *space = i > g.first_op ? " " : "";
        if (o->comm < 0)
            at += (size_t)snprintf(text + at, room - at, "%s%s", space, o->name);
        else
            at += (size_t)snprintf(text + at, room - at, "%s%c%d", space,
                                   o->kind == LW_OP_SEND ? '>' : '<', o->peer);
    }
    return text;
}

/* p = 2, m = 2, by nominal times (F 3, B 5, no transfers): rank 0 runs F0 0-3, F1 3-6, B0 11-16,
 * B1 19-24, rank 1 F0 3-6, B0 6-11, F1 11-14, B1 14-19. F1 of rank 0 and F0 of rank 1 end together:
 * the later stage is first, so rank 1 receives the second activation after its forward. */
TEST(messages_stand_where_their_senders_finish)
{
    struct lw_grid g = made(LW_SCHEDULE_1F1B, 2, 2, 1);
    struct lw_plan p = planned(&g, &mixed);
    char text[256];

    assert_string_equal(ops_of(&p, 0, text, sizeof text), "0F0 >1 0F1 >1 <1 0B0 <1 0B1");
    assert_string_equal(ops_of(&p, 1, text, sizeof text), "<0 <0 1F0 1B0 >0 1F1 1B1 >0");
    assert_int_equal(p.n_comms, 2);
    assert_int_equal(p.n_streams, 3);
    lw_plan_free(&p);
    lw_grid_free(&g);
}

/* Both inputs before the first part, both results after the second: rank 1's unit (1F1;1B0) takes
 * [40, 68) after F0 12-22, and rank 0 gets the gradient at 70. */
TEST(a_unit_is_entered_and_left_as_one)
{
    struct lw_grid g;
    struct lw_err err = {0};
    struct lw_timeline t = {0};
    struct lw_grid_times exact;

    assert_int_equal(lw_grid_parse("g", "0F0,0F1,0B0,0B1\n1F0,(1F1;1B0)OVERLAP_F_B,1B1\n",
                                   LW_LAYOUT_LOOP, &g, &err), LW_OK);
    struct lw_plan p = planned(&g, &mixed);
    assert_int_equal(lw_sim_alone(NULL, &p, &t, &err), LW_OK);
    assert_int_equal(lw_grid_time(&g, &(struct lw_grid_costs){10, 11, 7, 2}, &exact, &err),
                     LW_OK);
    lw_ps end = 0;
    for (int64_t i = 0; i < t.n; i++) {
        const char *name = p.ops[t.op[i]].name;
        if (strcmp(name, "1F1") == 0)
            assert_int_equal(t.start[i], 22);
        if (strcmp(name, "1B0") == 0)
            assert_int_equal(t.end[i], 50);
        if (strcmp(name, "0B0") == 0)
            assert_int_equal(t.start[i], 52);
        end = t.end[i] > end ? t.end[i] : end;
    }
    assert_int_equal(end, exact.makespan);
    lw_grid_times_free(&exact);
    lw_timeline_free(&t);
    lw_plan_free(&p);
    lw_grid_free(&g);
}

/* Times of the engine with buffered sends against the longest path, and a run under rendezvous. */
static void expect_exact(const struct lw_grid *g, const struct lw_grid_durations *d)
{
    struct lw_plan p = planned(g, d);
    struct lw_grid_costs c = {d->f, d->i, d->w, d->comm};
    struct lw_timeline t = {0};
    struct lw_grid_times exact;
    struct lw_err err = {0};
    lw_ps end = 0;

    if (lw_sim_alone(NULL, &p, &t, &err) != LW_OK || lw_grid_time(g, &c, &exact, &err) != LW_OK)
        fail_msg("%s", err.msg);
    for (int64_t i = 0; i < t.n; i++)
        end = t.end[i] > end ? t.end[i] : end;
    assert_int_equal(end, exact.makespan);
    lw_timeline_free(&t);
    struct lw_cluster host = {.name = "n", .n_nodes = 1, .devices_per_node = p.n_ranks,
                              .library = "", .library_version = "", .about = ""};
    struct lw_sim_options o = {.n_steps = 1};
    struct lw_sim_stats stats;
    assert_ok(lw_sim_run(&p, &host, &o, NULL, &stats, &err), err);
    assert_true(stats.end >= exact.makespan);
    lw_grid_times_free(&exact);
    lw_plan_free(&p);
}

TEST(random_grids_take_their_longest_path)
{
    struct prng r = prng_start("grid plans");
    int n = 0;

    while (n < 150) {
        struct lw_schedule_shape s = {(enum lw_schedule)prng_in(&r, 0, LW_SCHEDULE_CUSTOM - 1),
                                      (int32_t)prng_in(&r, 1, 7), (int32_t)prng_in(&r, 1, 16),
                                      (int32_t)prng_in(&r, 1, 3), 0, NULL};
        struct lw_grid_durations d = {prng_in(&r, 0, 20), prng_in(&r, 0, 20), prng_in(&r, 0, 20), 0,
                                      prng_in(&r, 0, 5)};
        struct lw_grid g;
        struct lw_err err = {0};
        d.b = d.i + d.w;
        if (lw_schedule_chunks(s.schedule) > 0)
            s.n_chunks = lw_schedule_chunks(s.schedule);
        if (lw_schedule_grid(&s, &g, &err) != LW_OK)
            continue;
        expect_exact(&g, &d);
        lw_grid_free(&g);
        n++;
    }
}

/* Stages 0, 1, 2 on ranks 0, 2, 1, and back to rank 0 for the last: a triangle of links. */
TEST(stages_may_live_anywhere)
{
    struct lw_grid g;
    struct lw_err err = {0};

    assert_int_equal(lw_grid_custom("own.csv",
                                    "0F0,0F1,3F0,3B0,3F1,3B1,0B0,0B1\n2F0,2F1,2B0,2B1\n"
                                    "1F0,1F1,1B0,1B1\n", &g, &err), LW_OK);
    expect_exact(&g, &mixed);
    struct lw_plan p = planned(&g, &mixed);
    assert_int_equal(p.n_comms, 6); /* three colours of a triangle, each way */
    lw_plan_free(&p);
    lw_grid_free(&g);
}

TEST(a_negative_duration_is_refused)
{
    struct lw_grid g = made(LW_SCHEDULE_1F1B, 2, 2, 1);
    struct lw_plan p;
    struct lw_err err = {0};

    assert_int_equal(lw_grid_plan(&g, "g", LW_SCHEDULE_1F1B,
                                  &(struct lw_grid_durations){1, 1, 1, -2, 0}, &p, &err),
                     LW_EINVAL);
    assert_int_equal(lw_grid_plan(&g, "g", LW_SCHEDULE_1F1B,
                                  &(struct lw_grid_durations){1, -1, 1, 2, 0}, &p, &err),
                     LW_EINVAL);
    lw_grid_free(&g);
}

TEST(running_out_of_memory_leaves_nothing)
{
    struct lw_grid g = made(LW_SCHEDULE_DUALPIPE, 4, 8, 2);
    struct lw_plan p = {.n_ranks = -5};
    struct lw_err err = {0};

    EACH_ALLOCATION_FAILS(1, lw_grid_plan(&g, "g", LW_SCHEDULE_DUALPIPE, &mixed, &p, &err), p,
                          lw_plan_free(&p));
    lw_grid_free(&g);
}

/* The steps of ranks against their definition: actions sorted by comparing them, messages put after
 * the actions that make them. Grids of all schedules in random sizes; LAPWING_TEST_SEED repeats a
 * run. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/schedule/grid_order.h"
#include "shared/schedule/grid_time.h"
#include "tests/lib/failing_alloc.h"
#include "tests/lib/prng.h"

struct key {
    int64_t end, odd, to_go, turn;
    int32_t action;
};

static int compare(const void *x, const void *y)
{
    const struct key *a = x, *b = y;
    const int64_t u[] = {a->end, a->odd, a->to_go, a->turn}, v[] = {b->end, b->odd, b->to_go,
                                                                    b->turn};

    for (int i = 0; i < 4; i++)
        if (u[i] != v[i])
            return u[i] < v[i] ? -1 : 1;
    return 0;
}

static struct key *sorted(const struct lw_grid *g, bool early)
{
    const struct lw_grid_costs nominal = {.f = 30, .i = 30, .w = 20, .comm = 1, .early = early};
    struct lw_grid_times t;
    struct lw_err err = {0};
    int32_t n = g->first[g->n_ranks];
    struct key *keys = calloc((size_t)n, sizeof *keys);

    assert_non_null(keys);
    assert_ok(lw_grid_time(g, &nominal, &t, &err), err);
    for (int32_t i = 0; i < n; i++) {
        const struct lw_action *a = &g->actions[i];
        int32_t to_go = a->kind == LW_OP_FORWARD ? g->n_stages - 1 - a->stage : a->stage;
        bool second = !early && i > 0 && a[-1].with_next;
        keys[i] = (struct key){t.end[i], lw_grid_rank_of(g, a->stage, a->micro_batch) % 2,
                               second ? keys[i - 1].to_go : to_go, t.turn[i], i};
    }
    lw_grid_times_free(&t);
    qsort(keys, (size_t)n, sizeof *keys, compare);
    return keys;
}

/* The next step of the rank is this one. */
static void expect(const struct lw_grid_order *o, int32_t *at, int32_t rank,
                   enum lw_grid_step_kind kind, const struct lw_action *a, int32_t peer)
{
    const struct lw_grid_step *s = &o->steps[o->first[rank] + at[rank]++];

    assert_int_equal(s->kind, kind);
    assert_int_equal(s->peer, peer);
    assert_ptr_equal(lw_step_action(o, s), a);
}

static void expect_message(const struct lw_grid *g, const struct lw_grid_order *o, int32_t *at,
                           int32_t rank, const struct lw_action *a)
{
    int32_t target = lw_action_target(g, a);
    int32_t peer = target < 0 ? rank : lw_grid_rank_of(g, target, a->micro_batch);

    if (peer == rank)
        return;
    expect(o, at, rank, LW_GRID_SEND, a, peer);
    expect(o, at, peer, LW_GRID_RECV, a, rank);
}

static void expect_steps(const struct lw_grid *g, bool early)
{
    struct lw_grid_order o;
    struct lw_err err = {0};
    struct key *keys = sorted(g, early);
    int32_t *at = calloc((size_t)g->n_ranks, sizeof *at);

    assert_ok(lw_grid_order(g, early, &o, &err), err);
    assert_non_null(at);
    for (int32_t i = 0; i < g->first[g->n_ranks]; i++) {
        const struct lw_action *a = &g->actions[keys[i].action];
        int32_t rank = lw_grid_rank_of(g, a->stage, a->micro_batch);
        bool second = keys[i].action > g->first[rank] && a[-1].with_next;
        expect(&o, at, rank, LW_GRID_RUN, a, -1);
        if (a->with_next && !early)
            continue;
        if (second && !early)
            expect_message(g, &o, at, rank, &a[-1]);
        expect_message(g, &o, at, rank, a);
    }
    for (int32_t r = 0; r < g->n_ranks; r++)
        assert_int_equal(o.first[r] + at[r], o.first[r + 1]);
    free(at);
    free(keys);
    lw_grid_order_free(&o);
}

TEST(steps_are_those_of_sorted_actions)
{
    struct prng r = prng_start("orders of grids");
    int n = 0, units = 0;

    for (int i = 0; i < unit_cases(400, 4000); i++) {
        struct lw_schedule_shape s = {
            (enum lw_schedule)prng_in(&r, 0, LW_N_SCHEDULES - 1), (int32_t)prng_in(&r, 1, 9),
            (int32_t)prng_in(&r, 1, prng_in(&r, 0, 9) ? 20 : 300), (int32_t)prng_in(&r, 1, 3), 0,
            NULL};
        struct lw_grid g;
        if (lw_schedule_grid(&s, &g, NULL) != LW_OK)
            continue;
        for (int32_t k = 0; k < g.first[g.n_ranks]; k++)
            units += g.actions[k].with_next;
        expect_steps(&g, false);
        expect_steps(&g, true);
        lw_grid_free(&g);
        n++;
    }
    printf("%d grids, %d units of two\n", n, units);
    assert_true(n > 100 && units > 0);
}

TEST(every_failed_allocation_is_reported)
{
    struct lw_schedule_shape s = {LW_SCHEDULE_1F1B, 3, 5, 1, 0, NULL};
    struct lw_grid g;
    struct lw_grid_order o = {.n_ranks = -5};
    struct lw_err err = {0};

    assert_ok(lw_schedule_grid(&s, &g, &err), err);
    EACH_ALLOCATION_FAILS(3, lw_grid_order(&g, false, &o, &err), o, lw_grid_order_free(&o));
    lw_grid_free(&g);
}

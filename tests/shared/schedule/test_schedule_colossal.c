/* ColossalAI's schedules: tokens by hand, every message matched, recorded cases. */
#include <string.h>
#include "tests/lib/unit.h"

#include "shared/schedule/schedule_colossal.h"
#include "tests/lib/failing_alloc.h"

static void put_rank(const struct lw_colossal_order *o, int32_t rank, bool interleaved, char *buf)
{
    char token[32];

    buf[0] = '\0';
    for (int32_t i = o->first[rank]; i < o->first[rank + 1]; i++) {
        lw_colossal_token(&o->events[i], interleaved, token);
        if (buf[0])
            strcat(buf, " ");
        strcat(buf, token);
    }
}

static void expect_rank(enum lw_schedule schedule, int32_t p, int32_t m, int32_t v,
                        bool forward_only, int32_t rank, const char *expected)
{
    struct lw_schedule_shape s = {schedule, p, m, v, 0, NULL};
    struct lw_colossal_order o;
    struct lw_err err = {0};
    char text[4096];

    assert_int_equal(lw_colossal_order(&s, forward_only, &o, &err), LW_OK);
    put_rank(&o, rank, schedule == LW_SCHEDULE_COLOSSAL_INTERLEAVED, text);
    assert_string_equal(text, expected);
    lw_colossal_free(&o);
}

TEST(calls_of_1f1b_are_as_the_design_page_says)
{
    /* p = 3, m = 2, rank 1: warm-up min(3-1-1, 2) = 1 forward, one steady pair, one cool-down */
    expect_rank(LW_SCHEDULE_COLOSSAL_1F1B, 3, 2, 1, false, 1, "Cp F0 CN Cp F1 CnN B0 CP Cn B1 CP");
    /* the last rank has no warm-up and sends nothing on */
    expect_rank(LW_SCHEDULE_COLOSSAL_1F1B, 3, 2, 1, false, 2, "Cp F0 B0 CPp F1 B1 CP");
    expect_rank(LW_SCHEDULE_COLOSSAL_1F1B, 3, 2, 1, true, 1, "Cp F0 CN Cp F1 CN");
    expect_rank(LW_SCHEDULE_COLOSSAL_1F1B, 1, 2, 1, false, 0, "F0 B0 F1 B1");
}

TEST(calls_of_interleaved_follow_the_ring)
{
    /* m = p: all forwards, then all backwards; rank 0's chunk 1 is fed by rank 1's chunk 0, one
     * step after, so its first p comes in the call after F0.1 */
    expect_rank(LW_SCHEDULE_COLOSSAL_INTERLEAVED, 2, 2, 2, false, 0,
                "F0.0 CN F0.1 CpN F1.0 CpN F1.1 CN Cn B1.0 CPn B1.1 CPn B0.0 Cn B0.1 C-");
    expect_rank(LW_SCHEDULE_COLOSSAL_INTERLEAVED, 2, 2, 2, true, 1,
                "Cp F0.0 CpN F0.1 CpN F1.0 Cp F1.1 C-");
}

/* Messages on the links of one direction, counted; calls post sends first and wait for receives. */
struct links {
    int32_t act[16], grad[16]; /* on the way to rank r */
};

static bool call_can_return(const struct links *l, unsigned call, int32_t r)
{
    return (!(call & LW_CALL_RECV_PREV) || l->act[r] > 0) &&
           (!(call & LW_CALL_RECV_NEXT) || l->grad[r] > 0);
}

static bool advance(const struct lw_colossal_order *o, struct links *l, int32_t r, int32_t *at,
                    bool *posted)
{
    const struct lw_colossal_event *e = &o->events[*at];
    int32_t next = (r + 1) % o->n_ranks, prev = (r + o->n_ranks - 1) % o->n_ranks;

    if (e->kind == LW_OP_BARRIER) {
        if (!*posted) {
            l->act[next] += (e->call & LW_CALL_SEND_NEXT) != 0;
            l->grad[prev] += (e->call & LW_CALL_SEND_PREV) != 0;
            *posted = true;
        }
        if (!call_can_return(l, e->call, r))
            return false;
        l->act[r] -= (e->call & LW_CALL_RECV_PREV) != 0;
        l->grad[r] -= (e->call & LW_CALL_RECV_NEXT) != 0;
        *posted = false;
    }
    ++*at;
    return true;
}

static void run_to_the_end(const struct lw_colossal_order *o)
{
    struct links l = {{0}, {0}};
    int32_t at[16], left = 0;
    bool posted[16] = {false};

    memcpy(at, o->first, (size_t)o->n_ranks * sizeof *at);
    for (bool moved = true; moved;) {
        moved = false;
        for (int32_t r = 0; r < o->n_ranks; r++)
            while (at[r] < o->first[r + 1] && advance(o, &l, r, &at[r], &posted[r]))
                moved = true;
    }
    for (int32_t r = 0; r < o->n_ranks; r++)
        left += o->first[r + 1] - at[r] + l.act[r] + l.grad[r];
    assert_int_equal(left, 0);
}

TEST(every_call_returns_and_every_message_is_received)
{
    struct lw_colossal_order o;
    struct lw_grid g;
    struct lw_err err = {0};

    for (int32_t p = 1; p <= 8; p++)
        for (int32_t m = 1; m <= 24; m++)
            for (int32_t v = 0; v <= 3; v++)
                for (int forward_only = 0; forward_only < 2; forward_only++) {
                    struct lw_schedule_shape s = {
                        v ? LW_SCHEDULE_COLOSSAL_INTERLEAVED : LW_SCHEDULE_COLOSSAL_1F1B,
                        p,
                        m,
                        v ? v : 1,
                        0,
                        NULL};
                    if (v && m % p)
                        continue;
                    assert_int_equal(lw_colossal_order(&s, forward_only, &o, &err), LW_OK);
                    run_to_the_end(&o);
                    lw_colossal_free(&o);
                    assert_int_equal(lw_schedule_grid(&s, &g, &err), LW_OK);
                    assert_int_equal(lw_grid_check(&g, &err), LW_OK);
                    lw_grid_free(&g);
                }
}

TEST(rounds_that_do_not_divide_are_refused)
{
    struct lw_schedule_shape s = {LW_SCHEDULE_COLOSSAL_INTERLEAVED, 4, 6, 2, 0, NULL};
    struct lw_colossal_order o = {0};
    struct lw_err err = {0};

    assert_int_equal(lw_colossal_order(&s, false, &o, &err), LW_EINVAL);
    assert_string_equal(err.msg, "--schedule colossal-interleaved with --pp 4, --micro-batches 6, "
                                 "--chunks 2: the micro-batches must be a multiple of pp");
}

TEST(a_failed_allocation_leaves_nothing)
{
    struct lw_schedule_shape s = {LW_SCHEDULE_COLOSSAL_INTERLEAVED, 2, 16, 2, 0, NULL};
    struct lw_colossal_order o = {0};
    struct lw_err err = {0};

    EACH_ALLOCATION_FAILS(3, lw_colossal_order(&s, false, &o, &err), o, lw_colossal_free(&o));
}

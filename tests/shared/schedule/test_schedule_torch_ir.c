/* Lowering: merged backwards, messages and sharded stages by hand, and what must hold for every
 * grid. */
#include <stdio.h>
#include <string.h>
#include "tests/lib/unit.h"

#include "shared/schedule/schedule_torch_ir.h"
#include "tests/lib/failing_alloc.h"

static struct lw_grid grid_of(const char *text, enum lw_layout layout)
{
    struct lw_grid g;
    struct lw_err err = {0};

    assert_ok(lw_grid_parse("t.csv", text, layout, &g, &err), err);
    return g;
}

/* All ranks, cells by ',', ranks by '\n'. */
static void put(const struct lw_lowered *s, enum lw_ir_names names, char *buf, size_t room)
{
    char cell[96];
    size_t n = 0;

    buf[0] = '\0';
    for (int32_t r = 0; r < s->n_ranks; r++) {
        for (int32_t i = s->first[r]; i < s->first[r + 1];) {
            const char *gap = i > s->first[r] ? "," : "";
            i += lw_lowered_cell(s, i, names, cell, sizeof cell);
            n += (size_t)snprintf(buf + n, room - n, "%s%s", gap, cell);
        }
        n += (size_t)snprintf(buf + n, room - n, "\n");
    }
}

static void expect_text(struct lw_lowered *s, enum lw_ir_names names, const char *expected)
{
    char text[2048];

    put(s, names, text, sizeof text);
    assert_string_equal(text, expected);
    lw_lowered_free(s);
}

static void expect_messages(const char *grid, enum lw_layout layout, const char *expected)
{
    struct lw_grid g = grid_of(grid, layout);
    struct lw_lowered s;
    struct lw_err err = {0};

    assert_int_equal(lw_lower_messages(&g, &s, &err), LW_OK);
    expect_text(&s, LW_IR_NAMES, expected);
    lw_grid_free(&g);
}

TEST(adjacent_halves_become_one_backward)
{
    /* rank 0: the W of another micro-batch follows, not merged; idle cells do not part a pair */
    struct lw_grid g = grid_of("0F0,0F1,0I0,0I1,0W0,0W1\n1F0,1I0,,1W0,1F1,1I1,1W1\n",
                               LW_LAYOUT_LOOP),
                   m;
    struct lw_lowered s;
    struct lw_err err = {0};

    assert_int_equal(lw_grid_merge(&g, &m, &err), LW_OK);
    assert_int_equal(lw_lower_plain(&m, &s, &err), LW_OK);
    expect_text(&s, LW_IR_NAMES, "0F0,0F1,0I0,0I1,0W0,0W1\n1F0,1B0,1F1,1B1\n");
    assert_int_equal(lw_lower_plain(&m, &s, &err), LW_OK);
    expect_text(&s, LW_IR_OLD_NAMES, "0F0,0F1,0B0,0B1,0W0,0W1\n1F0,1BW0,1F1,1BW1\n");
    lw_grid_free(&m);
    lw_grid_free(&g);
}

TEST(a_receive_is_placed_when_its_sender_runs)
{
    /* Turns: rank 0 F0, rank 1 F0 (just got), rank 0 F1, rank 1 B0, rank 0 B0 (got in the turn
     * before), rank 1 F1, rank 0 waits, rank 1 B1, rank 0 B1. */
    expect_messages("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n", LW_LAYOUT_LOOP,
                    "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
                    "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1\n");
}

TEST(stages_of_one_rank_exchange_nothing)
{
    /* a V of two ranks: stages 1 and 2 both on rank 1 */
    expect_messages("0F0,3F0,3B0,0B0\n1F0,2F0,2B0,1B0\n", LW_LAYOUT_V,
                    "0F0,0SEND_F0,3RECV_F0,3F0,3B0,3SEND_B0,0RECV_B0,0B0\n"
                    "1RECV_F0,1F0,2F0,2SEND_F0,2RECV_B0,2B0,1B0,1SEND_B0\n");
}

TEST(units_stay_whole)
{
    expect_messages("0F0,0F1,0B0,0B1\n1F0,(1F1;1B0)OVERLAP_F_B,1B1\n", LW_LAYOUT_LOOP,
                    "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
                    "1RECV_F0,1F0,1RECV_F1,(1F1;1B0)OVERLAP_F_B,1SEND_B0,1B1,1SEND_B1\n");
}

TEST(sharded_stages_are_gathered_ahead_and_dropped)
{
    struct lw_grid g = grid_of("0F0,1F0,2F0,2B0,1B0,0B0\n", LW_LAYOUT_LOOP);
    struct lw_lowered s;
    struct lw_err err = {0};

    assert_int_equal(lw_lower_shards(&g, 3, &s, &err), LW_OK);
    expect_text(&s, LW_IR_NAMES,
                "0UNSHARD,1UNSHARD,2UNSHARD,0F0,1F0,2F0,2B0,2RESHARD,1B0,1RESHARD,"
                "0B0,0RESHARD\n");
    /* one at a time: nothing is prefetched, 2 stays between its F and its B */
    assert_int_equal(lw_lower_shards(&g, 1, &s, &err), LW_OK);
    expect_text(&s, LW_IR_NAMES,
                "0UNSHARD,0F0,0RESHARD,1UNSHARD,1F0,1RESHARD,2UNSHARD,2F0,2B0,"
                "2RESHARD,1UNSHARD,1B0,1RESHARD,0UNSHARD,0B0,0RESHARD\n");
    assert_int_equal(lw_lower_shards(&g, 0, &s, &err), LW_EINVAL);
    assert_string_equal(err.msg, "a rank must hold at least 1 gathered stage, got 0");
    lw_grid_free(&g);
}

TEST(an_order_without_a_sender_is_refused)
{
    struct lw_grid g = grid_of("0F0,0B0\n1B0,1F0\n", LW_LAYOUT_LOOP);
    struct lw_grid bad = grid_of("0B0,0F0\n1F0,1B0\n", LW_LAYOUT_LOOP);
    struct lw_lowered s = {0};
    struct lw_err err = {0};

    /* the last rank's B needs no message: the order is wrong, but not for its messages */
    assert_int_equal(lw_lower_messages(&g, &s, &err), LW_OK);
    lw_lowered_free(&s);
    assert_int_equal(lw_lower_messages(&bad, &s, &err), LW_EPLAN);
    assert_string_equal(err.msg, "rank 0: action 0B0 waits for a message that is never sent");
    lw_grid_free(&bad);
    lw_grid_free(&g);
}

static const enum lw_schedule some[] = {
    LW_SCHEDULE_1F1B,
    LW_SCHEDULE_INTERLEAVED_ZB,
    LW_SCHEDULE_ZBV,
    LW_SCHEDULE_V_HALF,
    LW_SCHEDULE_DUALPIPE,
    LW_SCHEDULE_DUALPIPEV,
    LW_SCHEDULE_COLOSSAL_INTERLEAVED,
};

/* Blocking sends and receives in list order: a send waits for its receive. */
static void expect_no_wait_for_ever(const struct lw_grid *g, const struct lw_lowered *s)
{
    int32_t at[16], sends = 0, recvs = 0;

    memcpy(at, s->first, (size_t)s->n_ranks * sizeof *at);
    for (bool moved = true; moved;) {
        moved = false;
        for (int32_t r = 0; r < s->n_ranks; r++) {
            const struct lw_lowered_step *x = &s->steps[at[r]];
            if (at[r] == s->first[r + 1])
                continue;
            if (x->kind == LW_STEP_SEND_F || x->kind == LW_STEP_SEND_B) {
                bool on = x->kind == LW_STEP_SEND_F;
                int32_t to = x->stage + (on ? 1 : -1);
                int32_t peer = lw_grid_rank_of(g, to, x->micro_batch);
                const struct lw_lowered_step *y = &s->steps[at[peer]];
                if (at[peer] == s->first[peer + 1] || y->stage != to ||
                    y->micro_batch != x->micro_batch ||
                    y->kind != (on ? LW_STEP_RECV_F : LW_STEP_RECV_B))
                    continue;
                at[peer]++;
                sends++;
            } else if (x->kind == LW_STEP_RECV_F || x->kind == LW_STEP_RECV_B) {
                continue;
            }
            at[r]++;
            moved = true;
        }
    }
    for (int32_t r = 0; r < s->n_ranks; r++)
        assert_int_equal(at[r], s->first[r + 1]);
    for (int32_t i = 0; i < s->first[s->n_ranks]; i++)
        recvs += s->steps[i].kind == LW_STEP_RECV_F || s->steps[i].kind == LW_STEP_RECV_B;
    assert_int_equal(sends, recvs);
}

/* Messages of every grid, one per boundary between ranks and micro-batch and direction. */
TEST(every_grid_lowers_to_messages)
{
    int n = 0;

    for (size_t k = 0; k < sizeof some / sizeof *some; k++)
        for (int32_t p = 1; p <= 6; p++)
            for (int32_t m = 1; m <= 13; m++) {
                struct lw_schedule_shape shape = {
                    some[k], p, m, some[k] == LW_SCHEDULE_1F1B ? 1 : 2, 0, NULL};
                struct lw_grid g, merged;
                struct lw_lowered s;
                struct lw_err err = {0};
                int32_t sends = 0, wanted = 0;
                if (lw_schedule_grid(&shape, &g, &err) != LW_OK)
                    continue;
                assert_int_equal(lw_grid_merge(&g, &merged, &err), LW_OK);
                assert_int_equal(lw_grid_check(&merged, &err), LW_OK);
                assert_int_equal(lw_lower_messages(&merged, &s, &err), LW_OK);
                for (int32_t i = 0; i < s.first[p]; i++)
                    sends += s.steps[i].kind == LW_STEP_SEND_F || s.steps[i].kind == LW_STEP_SEND_B;
                for (int32_t b = 0; b + 1 < g.n_stages; b++)
                    for (int32_t mb = 0; mb < m; mb++)
                        wanted +=
                            2 * (lw_grid_rank_of(&g, b, mb) != lw_grid_rank_of(&g, b + 1, mb));
                assert_int_equal(sends, wanted);
                expect_no_wait_for_ever(&g, &s);
                lw_lowered_free(&s);
                lw_grid_free(&merged);
                lw_grid_free(&g);
                n++;
            }
    assert_true(n > 300);
}

static enum lw_status lower_all(const struct lw_grid *g, struct lw_err *err)
{
    struct lw_grid m = {0};
    struct lw_lowered a = {0}, b = {0};
    enum lw_status s = lw_grid_merge(g, &m, err);

    if (s == LW_OK)
        s = lw_lower_messages(&m, &a, err);
    if (s == LW_OK)
        s = lw_lower_shards(&m, 3, &b, err);
    lw_lowered_free(&b);
    lw_lowered_free(&a);
    lw_grid_free(&m);
    return s;
}

TEST(a_failed_allocation_leaves_nothing)
{
    struct lw_schedule_shape shape = {LW_SCHEDULE_ZBV, 2, 4, 2, 0, NULL};
    struct lw_grid g;
    struct lw_err err = {0};

    assert_int_equal(lw_schedule_grid(&shape, &g, &err), LW_OK);
    EACH_ALLOCATION_FAILS_IN(5, lower_all(&g, &err));
    lw_grid_free(&g);
}

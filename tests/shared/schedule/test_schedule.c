/* Pipeline schedules: orders against the recorded tables and against what every order must obey. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <dirent.h>
#include "tests/lib/unit.h"

#include "shared/io/input.h"
#include "shared/schedule/schedule.h"
#include "tests/lib/failing_alloc.h"

#define GOLDEN "../shared/golden/schedules"

/* "0F0 1B2 ..." of one rank. */
static void put_rank(const struct lw_grid *g, int32_t rank, char *buf, size_t room)
{
    size_t n = 0;

    buf[0] = 0;
    for (int32_t i = g->first[rank]; i < g->first[rank + 1]; i++)
        n += (size_t)snprintf(buf + n, room - n, "%s%d%c%d%s", n ? " " : "", g->actions[i].stage,
                              lw_action_letter(g->actions[i].kind), g->actions[i].micro_batch,
                              g->actions[i].with_next ? "+" : "");
}

static void expect_rank(enum lw_schedule schedule, int32_t p, int32_t m, int32_t v, int32_t rank,
                        const char *expected)
{
    struct lw_grid g;
    struct lw_err err = {0};
    char text[1024];

    assert_int_equal(
        lw_schedule_grid(&(struct lw_schedule_shape){schedule, p, m, v, 0, NULL}, &g, &err), LW_OK);
    put_rank(&g, rank, text, sizeof text);
    assert_string_equal(text, expected);
    lw_grid_free(&g);
}

TEST(orders_are_as_written_in_the_design_page)
{
    expect_rank(LW_SCHEDULE_GPIPE, 2, 2, 1, 1, "1F0 1F1 1B0 1B1");
    /* rank 0 of 3: two forwards before the first pair */
    expect_rank(LW_SCHEDULE_1F1B, 3, 4, 1, 0, "0F0 0F1 0F2 0B0 0F3 0B1 0B2 0B3");
    /* fewer micro-batches than ranks: warm-up is cut at m */
    expect_rank(LW_SCHEDULE_1F1B, 4, 2, 1, 0, "0F0 0F1 0B0 0B1");
    expect_rank(LW_SCHEDULE_INTERLEAVED_1F1B, 2, 2, 2, 1, "1F0 1F1 3F0 3B0 3F1 3B1 1B0 1B1");
    expect_rank(LW_SCHEDULE_ZB_H1, 2, 3, 1, 1, "1F0 1I0 1F1 1I1 1W0 1F2 1I2 1W1 1W2");
    expect_rank(LW_SCHEDULE_ZB_H2, 2, 4, 1, 0, "0F0 0F1 0F2 0I0 0W0 0F3 0I1 0W1 0I2 0W2 0I3 0W3");
    expect_rank(LW_SCHEDULE_DUALPIPE, 2, 4, 2, 0, "0F0 1F2 0F1 1B2 1F3+ 0B0 1B3 0I1 0W1");
}

static void expect_units(enum lw_schedule schedule, int32_t p, int32_t m, int32_t v, int32_t rank,
                         const char *expected)
{
    const struct lw_schedule_shape shape = {schedule, p, m, v, 0, NULL, .pairs = true};
    struct lw_grid g;
    struct lw_err err = {0};
    char text[1024];

    assert_int_equal(lw_schedule_grid(&shape, &g, &err), LW_OK);
    assert_int_equal(lw_grid_check(&g, &err), LW_OK);
    put_rank(&g, rank, text, sizeof text);
    assert_string_equal(text, expected);
    lw_grid_free(&g);
}

/* One forward more before the first backward: no unit has both directions of a micro-batch on the
 * last stage. */
TEST(units_begin_one_forward_later)
{
    expect_units(LW_SCHEDULE_1F1B, 1, 3, 1, 0, "0F0 0F1+ 0B0 0F2+ 0B1 0B2");
    expect_units(LW_SCHEDULE_1F1B, 1, 1, 1, 0, "0F0 0B0");
    expect_units(LW_SCHEDULE_INTERLEAVED_1F1B, 2, 2, 2, 1,
                 "1F0 1F1 3F0 3F1+ 3B0 3B1 1B0 1B1");
    expect_units(LW_SCHEDULE_INTERLEAVED_1F1B, 2, 4, 2, 1,
                 "1F0 1F1 3F0 3F1+ 3B0 1F2+ 3B1 1F3+ 1B0 3F2+ 1B1 3F3+ 3B2 3B3 1B2 1B3");
}

TEST(demands_are_refused_with_a_reason)
{
    static const struct {
        struct lw_schedule_shape shape;
        enum lw_status status;
        const char *message;
    } cases[] = {
        {{LW_SCHEDULE_1F1B, 2, 4, 2, 0, NULL},
         LW_EINVAL,
         "--schedule 1f1b with --pp 2, --micro-batches 4, --chunks 2: it takes --chunks 1"},
        {{LW_SCHEDULE_INTERLEAVED_1F1B, 4, 10, 2, 0, NULL}, LW_OK, ""},
        {{LW_SCHEDULE_INTERLEAVED_1F1B, 4, 9, 2, 0, NULL},
         LW_EINVAL,
         "--schedule interleaved-1f1b with --pp 4, --micro-batches 9, --chunks 2: the "
         "micro-batches "
         "must divide into m / pp equal rounds"},
        {{LW_SCHEDULE_DUALPIPE, 3, 8, 2, 0, NULL},
         LW_EINVAL,
         "--schedule dualpipe with --pp 3, --micro-batches 8, --chunks 2: it needs an even pp and "
         "an "
         "even number of at least 2 * pp micro-batches"},
        {{LW_SCHEDULE_DUALPIPEV, 3, 5, 2, 0, NULL},
         LW_EINVAL,
         "--schedule dualpipev with --pp 3, --micro-batches 5, --chunks 2: it needs at least 2 * "
         "pp "
         "micro-batches"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lw_grid g = {0};
        struct lw_err err = {0};
        assert_int_equal(lw_schedule_grid(&cases[i].shape, &g, &err), cases[i].status);
        assert_string_equal(err.msg, cases[i].message);
        lw_grid_free(&g);
    }
}

static const enum lw_schedule with_rules[] = {
    LW_SCHEDULE_GPIPE,          LW_SCHEDULE_1F1B,       LW_SCHEDULE_INTERLEAVED_1F1B,
    LW_SCHEDULE_INTERLEAVED_ZB, LW_SCHEDULE_LOOPED_BFS, LW_SCHEDULE_ZB_H1,
    LW_SCHEDULE_ZB_H2,          LW_SCHEDULE_ZBV,        LW_SCHEDULE_DUALPIPE,
    LW_SCHEDULE_DUALPIPEV,      LW_SCHEDULE_ZB_AUTO_1P, LW_SCHEDULE_ZB_AUTO_2P,
    LW_SCHEDULE_ZBV_AUTO,       LW_SCHEDULE_V_HALF,     LW_SCHEDULE_V_MIN,
};

TEST(every_grid_that_is_not_refused_can_run)
{
    int built = 0;

    for (size_t k = 0; k < sizeof with_rules / sizeof *with_rules; k++)
        for (int32_t p = 1; p <= 8; p++)
            for (int32_t m = 1; m <= 26; m++)
                for (int32_t v = 1; v <= 3; v++) {
                    struct lw_grid g = {0};
                    struct lw_err err = {0};
                    struct lw_schedule_shape s = {with_rules[k], p, m, v, 0, NULL};
                    if (lw_schedule_grid(&s, &g, &err) != LW_OK)
                        continue;
                    if (lw_grid_check(&g, &err) != LW_OK)
                        fail_msg("%s p %d m %d v %d: %s", lw_schedule_name(s.schedule), p, m, v,
                                 err.msg);
                    lw_grid_free(&g);
                    built++;
                }
    assert_true(built > 1500);
}

/* Megatron-LM's groups: any number of micro-batches, the last group may be short. */
TEST(groups_are_refused_exactly_where_a_rank_would_wait_for_ever)
{
    int built = 0;

    for (int32_t p = 1; p <= 5; p++)
        for (int32_t m = 1; m <= 13; m++)
            for (int32_t group = 1; group <= 9; group++) {
                struct lw_grid g = {0};
                struct lw_err err = {0};
                struct lw_schedule_shape s = {LW_SCHEDULE_INTERLEAVED_1F1B, p, m, 2, group, NULL};
                if (lw_schedule_grid(&s, &g, &err) != LW_OK) {
                    assert_true(m > group && (group < p || m % group < p));
                    continue;
                }
                assert_int_equal(lw_grid_check(&g, &err), LW_OK);
                lw_grid_free(&g);
                built++;
            }
    assert_true(built > 300);
}

TEST(a_group_may_be_short)
{
    struct lw_schedule_shape s = {LW_SCHEDULE_INTERLEAVED_1F1B, 2, 5, 2, 3, NULL};
    struct lw_grid g;
    struct lw_err err = {0};
    char text[1024];

    /* groups {0,1,2} and {3,4}; rank 1 of 2: warm-up (v-1) G + 2 (p-1-r) = 3 */
    assert_int_equal(lw_schedule_grid(&s, &g, &err), LW_OK);
    put_rank(&g, 1, text, sizeof text);
    assert_string_equal(text, "1F0 1F1 1F2 3F0 3B0 3F1 3B1 3F2 3B2 1F3 1B0 1F4 1B1 3F3 1B2 3F4 3B3 "
                              "3B4 1B3 1B4");
    lw_grid_free(&g);
    s.group = 4; /* the last group would hold 1 of 2 */
    assert_int_equal(lw_schedule_grid(&s, &g, &err), LW_EINVAL);
    assert_string_equal(err.msg,
                        "--schedule interleaved-1f1b with --pp 2, --micro-batches 5, --chunks "
                        "2: --micro-batch-group 4 makes a group of 1, and every group, the last "
                        "too, needs at least pp micro-batches: give 3 or 5");
}

TEST(a_drained_rank_repeats_its_run)
{
    struct lw_schedule_shape s = {LW_SCHEDULE_1F1B, 3, 4, 1, 0, NULL, .drain_every = 2};
    struct lw_grid g;
    struct lw_err err = {0};
    char text[1024];

    assert_int_equal(lw_schedule_grid(&s, &g, &err), LW_OK);
    put_rank(&g, 0, text, sizeof text);
    assert_string_equal(text, "0F0 0F1 0B0 0B1 0F2 0F3 0B2 0B3");
    put_rank(&g, 2, text, sizeof text);
    assert_string_equal(text, "2F0 2B0 2F1 2B1 2F2 2B2 2F3 2B3");
    lw_grid_free(&g);
}

TEST(drained_grids_can_run_or_say_why_not)
{
    static const struct {
        enum lw_schedule schedule;
        int32_t m, every;
        const char *why;
    } refused[] = {
        {LW_SCHEDULE_1F1B, 4, 3, "--drain-every must divide the micro-batches"},
        {LW_SCHEDULE_1F1B, 4, 8, "--drain-every must divide the micro-batches"},
        {LW_SCHEDULE_1F1B, 4, -1, "--drain-every must divide the micro-batches"},
        {LW_SCHEDULE_COLOSSAL_1F1B, 4, 2, "it takes no --drain-every"},
    };
    struct lw_err err = {0};
    int built = 0;

    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct lw_schedule_shape s = {refused[i].schedule, 2, refused[i].m, 1, 0, NULL,
                                      .drain_every = refused[i].every};
        struct lw_grid g;
        assert_int_equal(lw_schedule_grid(&s, &g, &err), LW_EINVAL);
        assert_non_null(strstr(err.msg, refused[i].why));
    }
    for (size_t k = 0; k < sizeof with_rules / sizeof *with_rules; k++)
        for (int32_t m = 1; m <= 8; m++)
            for (int32_t v = 1; v <= 2; v++) {
                struct lw_schedule_shape s = {with_rules[k], 4, 3 * m, v, 0, NULL,
                                              .drain_every = m};
                struct lw_grid g;
                if (lw_schedule_grid(&s, &g, &err) != LW_OK)
                    continue;
                assert_int_equal(lw_grid_check(&g, &err), LW_OK);
                lw_grid_free(&g);
                built++;
            }
    assert_true(built > 80);
}

/* What the message names is taken, and nothing between it and the group that was given. */
TEST(a_refused_group_names_the_nearest_that_are_taken)
{
    static const struct {
        int32_t group;
        const char *says;
    } cases[] = {
        {1, "--micro-batch-group 1 makes a group of 1,"},
        {3, "--micro-batch-group 3 makes a group of 2,"},
        {5, "--micro-batch-group 5 makes a group of 3,"},
        {6, "--micro-batch-group 6 makes a group of 2,"},
    };
    struct lw_schedule_shape s = {LW_SCHEDULE_INTERLEAVED_1F1B, 4, 8, 2, 0, NULL};
    struct lw_grid g;
    struct lw_err err = {0}, other = {0};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        s.group = cases[i].group;
        assert_int_equal(lw_schedule_grid(&s, &g, &err), LW_EINVAL);
        assert_non_null(strstr(err.msg, cases[i].says));
        assert_non_null(strstr(err.msg, i < 2 ? "give 4" : "give 4 or 8"));
    }
    for (s.n_ranks = 2; s.n_ranks < 6; s.n_ranks++)
        for (s.n_micro_batches = 1; s.n_micro_batches < 24; s.n_micro_batches++)
            for (int32_t group = 1; group < s.n_micro_batches; group++) {
                s.group = group;
                if (lw_schedule_grid(&s, &g, &err) == LW_OK) {
                    lw_grid_free(&g);
                    continue;
                }
                const char *give = strstr(err.msg, ": give ");
                assert_non_null(give);
                const char *more = strstr(give, " or ");
                int32_t first = atoi(give + 7), last = more ? atoi(more + 4) : first;
                assert_true(more ? first < group : first > group);
                assert_true(last > group && last <= s.n_micro_batches);
                for (s.group = more ? first : 1; s.group <= last; s.group++) {
                    bool named = s.group == last || (more && s.group == first);
                    bool taken = lw_schedule_grid(&s, &g, &other) == LW_OK;
                    assert_int_equal(taken, named);
                    if (taken)
                        lw_grid_free(&g);
                }
            }
}

/* F 2, I 3, W 1, transfer 1: worked through by hand. */
TEST(searches_follow_the_durations_given)
{
    /* Two ranks, two micro-batches, room for 2 forwards. Rank 1: F0 from 3 (2+1) to 5, I0 to 8.
     * Rank 0 has F0 until 2; its first I can start at 8+1 = 9; F1 fits (2..4). Rank 1 wave 2: F1
     * (there at 5) 8..10, I1 10..13. Rank 0: I0 9..12, then its I1 is there at 13+1 = 14: W0 fits
     * before (12..13). */
    static const struct lw_schedule_costs cost = {2, 3, 1, 1, 2, -1, -1};
    struct lw_schedule_shape s = {LW_SCHEDULE_ZB_AUTO_1P, 2, 2, 1, 0, &cost};
    struct lw_grid g;
    struct lw_err err = {0};
    char text[1024];

    assert_int_equal(lw_schedule_grid(&s, &g, &err), LW_OK);
    put_rank(&g, 0, text, sizeof text);
    assert_string_equal(text, "0F0 0F1 0I0 0W0 0I1 0W1");
    put_rank(&g, 1, text, sizeof text);
    assert_string_equal(text, "1F0 1I0 1F1 1I1 1W0 1W1");
    lw_grid_free(&g);
}

TEST(a_search_without_room_is_refused)
{
    /* W frees nothing: the second forward never fits */
    static const struct lw_schedule_costs cost = {1, 1, 1, 0, 2, 0, 0};
    struct lw_grid g = {0};
    struct lw_err err = {0};

    assert_int_equal(
        lw_schedule_grid(&(struct lw_schedule_shape){LW_SCHEDULE_ZB_AUTO_1P, 1, 2, 1, 0, &cost}, &g,
                         &err),
        LW_EINVAL);
    assert_string_equal(err.msg,
                        "--schedule zb-auto-1p: the search finds no order that keeps 1 forwards "
                        "per rank in memory");
    assert_int_equal(
        lw_schedule_grid(&(struct lw_schedule_shape){LW_SCHEDULE_ZBV_AUTO, 2, 9, 2, 0, &cost}, &g,
                         &err),
        LW_EINVAL);
    assert_string_equal(err.msg,
                        "--schedule zbv-auto: the search finds no order that keeps 4 forwards "
                        "per rank in memory");
}

static enum lw_status make_and_check(const struct lw_schedule_shape *s)
{
    struct lw_grid g = {0};
    struct lw_err err = {0};
    enum lw_status status = lw_schedule_grid(s, &g, &err);

    if (status == LW_OK)
        status = lw_grid_check(&g, &err);
    lw_grid_free(&g);
    return status;
}

TEST(a_failed_allocation_leaves_nothing)
{
    for (size_t k = 0; k < sizeof with_rules / sizeof *with_rules; k++) {
        struct lw_schedule_shape s = {with_rules[k], 2, 4, 1, 0, NULL};
        if (make_and_check(&s) == LW_EINVAL)
            s.n_chunks = 2;
        EACH_ALLOCATION_FAILS_IN(3, make_and_check(&s));
    }
}

TEST(a_changed_grid_is_found)
{
    struct lw_grid g;
    struct lw_err err = {0};

    assert_int_equal(lw_grid_parse("t.csv", "0F0,0B0\n1B0,1F0\n", LW_LAYOUT_LOOP, &g, &err), LW_OK);
    assert_int_equal(lw_grid_check(&g, &err), LW_EPLAN);
    assert_string_equal(err.msg,
                        "rank 0: action 0B0 can never run: what it needs is not done before "
                        "it, or it was already done");
    lw_grid_free(&g);
    assert_int_equal(lw_grid_parse("t.csv", "0F0,1F0\n1B0,0B0\n", LW_LAYOUT_LOOP, &g, &err), LW_OK);
    assert_int_equal(lw_grid_check(&g, &err), LW_EPLAN);
    assert_string_equal(err.msg, "rank 0: action 1F0 belongs to another rank");
    lw_grid_free(&g);
    assert_int_equal(lw_grid_parse("t.csv", "0F0,,0F1,0B0\n", LW_LAYOUT_LOOP, &g, &err), LW_OK);
    assert_int_equal(lw_grid_check(&g, &err), LW_EPLAN);
    assert_string_equal(err.msg, "stage 0 never finishes micro-batch 1");
    lw_grid_free(&g);
    assert_int_equal(lw_grid_parse("t.csv", "0F0\n0X0\n", LW_LAYOUT_LOOP, &g, &err), LW_EFORMAT);
    assert_string_equal(err.msg, "t.csv:2: cell 1: unknown action '0X0'; expected one like 0F3, "
                                 "2I0, 2W0, 1B4 or (0F3;3B5)OVERLAP_F_B");
}

TEST(a_users_grid_places_its_stages)
{
    struct lw_grid g;
    struct lw_err err = {0};

    /* stages 0 and 3 on rank 0, 1 and 2 on rank 1: no layout has a name for it that fits all */
    assert_int_equal(lw_grid_custom("u.csv", "1F0,2F0,2B0,1B0\n0F0,3F0,3B0,0B0\n", &g, &err),
                     LW_OK);
    assert_int_equal(g.layout, LW_LAYOUT_FREE);
    assert_int_equal(lw_grid_rank_of(&g, 3, 0), 1);
    assert_int_equal(lw_grid_rank_of(&g, 2, 0), 0);
    lw_grid_free(&g);
    /* both directions: stage 0 of micro-batch 1 lives on the last rank */
    assert_int_equal(lw_grid_custom("u.csv", "0F0,1F1,1B1,0B0\n0F1,1F0,1B0,0B1\n", &g, &err),
                     LW_OK);
    assert_int_equal(g.layout, LW_LAYOUT_BIDIR);
    lw_grid_free(&g);
}

TEST(a_users_grid_that_cannot_run_is_refused)
{
    static const struct {
        const char *text;
        enum lw_status status;
        const char *message;
    } cases[] = {
        {"0F0,0B0\n1B0,1F0\n", LW_EPLAN,
         "u.csv: rank 0: action 0B0 can never run: what it needs is "
         "not done before it, or it was already done"},
        {"0F0,0B0,1F0\n1B0\n", LW_EPLAN, "u.csv: rank 1: action 1B0 belongs to another rank"},
        {"0F0,0I0\n", LW_EPLAN, "u.csv: stage 0 never finishes micro-batch 0"},
        {"0F9999999,0B9999999\n", LW_EPLAN,
         "u.csv: 2 actions are too few for 1 stages and 10000000 "
         "micro-batches"},
        {"0F0,0SEND_F0\n", LW_EFORMAT,
         "u.csv:1: cell 2: unknown action '0SEND_F0'; expected one like 0F3, 2I0, 2W0, 1B4 or "
         "(0F3;3B5)OVERLAP_F_B"},
        {"\n", LW_EFORMAT, "u.csv: holds no action"},
    };

    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct lw_grid g = {0};
        struct lw_err err = {0};
        assert_int_equal(lw_grid_custom("u.csv", cases[k].text, &g, &err), cases[k].status);
        assert_string_equal(err.msg, cases[k].message);
        assert_null(g.actions);
    }
}

static bool shape_of_file(const char *file, struct lw_schedule_shape *s)
{
    for (size_t k = 0; k < sizeof with_rules / sizeof *with_rules; k++) {
        char name[64], tail[8];
        snprintf(name, sizeof name, "%s", lw_schedule_name(with_rules[k]));
        for (char *c = name; *c; c++)
            *c = *c == '-' ? '_' : *c;
        size_t n = strlen(name);
        if (strncmp(file, name, n) == 0 && file[n] == '_' &&
            sscanf(file + n, "_p%d_m%d_v%d%7s", &s->n_ranks, &s->n_micro_batches, &s->n_chunks,
                   tail) == 4 &&
            strcmp(tail, ".csv") == 0) {
            s->schedule = with_rules[k];
            return true;
        }
    }
    return false;
}

static void compare_with_file(const char *file, const struct lw_schedule_shape *s)
{
    struct lw_grid g, want;
    struct lw_input in;
    struct lw_err err = {0};
    char path[256], a[8192], b[8192];

    snprintf(path, sizeof path, GOLDEN "/%s", file);
    assert_int_equal(lw_input_read(path, 0, &in, &err), LW_OK);
    if (lw_schedule_grid(s, &g, &err) != LW_OK)
        fail_msg("%s: %s", file, err.msg);
    assert_int_equal(lw_grid_parse(path, in.text, g.layout, &want, &err), LW_OK);
    assert_int_equal(g.n_ranks, want.n_ranks);
    for (int32_t r = 0; r < g.n_ranks; r++) {
        put_rank(&g, r, a, sizeof a);
        put_rank(&want, r, b, sizeof b);
        if (strcmp(a, b) != 0)
            fail_msg("%s rank %d:\n  made %s\n  want %s", file, r, a, b);
    }
    lw_grid_free(&g);
    lw_grid_free(&want);
    lw_input_free(&in);
}

TEST(orders_equal_the_recorded_tables)
{
    DIR *d = opendir(GOLDEN);
    int n = 0;

    if (!d) {
        printf("SKIP orders_equal_the_recorded_tables: " GOLDEN " is absent\n");
        skip();
    }
    for (struct dirent *e; (e = readdir(d));) {
        struct lw_schedule_shape s = {0};
        if (shape_of_file(e->d_name, &s)) {
            if (s.schedule == LW_SCHEDULE_GPIPE || s.schedule == LW_SCHEDULE_1F1B)
                s.n_chunks = 1;
            compare_with_file(e->d_name, &s);
            n++;
        }
    }
    closedir(d);
    assert_int_equal(n, 78);
}

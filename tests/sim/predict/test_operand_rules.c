/* Rows of operands that are rules say what the same rows say written out: hash, checks, differences
 * and steps of random models and strategies with 64 ranks of a role and more. LAPWING_TEST_SEED
 * repeats a run. */
#include "tests/lib/unit.h"

#include <string.h>

#include "shared/base/arena.h"
#include "shared/lower/lower.h"
#include "shared/plan/plan_tables.h"
#include "shared/plan/role_line.h"
#include "sim/predict/sim.h"
#include "tests/lib/plans/find_op.h"
#include "tests/lib/plans/random_strategy.h"
#include "tests/lib/sim/sim_help.h"

/* Borrows all but its operands, which `room` owns. */
static struct lw_plan written_out(const struct lw_plan *p, struct lw_arena *room)
{
    struct lw_plan q = *p;

    q.operands = lw_arena_alloc(room, p->n_operands, sizeof *q.operands);
    assert_non_null(q.operands);
    q.operand_rules = NULL;
    for (int32_t row = 0; row < p->n_operand_rows; row++)
        for (int32_t i = 0; i < lw_operand_row_length(p, row); i++)
            q.operands[p->operand_first[row] + i] = lw_operand_at(p, row, i);
    return q;
}

static int count_rules(const struct lw_plan *p)
{
    int n = 0;

    for (int32_t row = 0; p->operand_rules && row < p->n_operand_rows; row++)
        n += p->operand_rules[row].n > 0;
    return n;
}

/* Of messages: the rank at the same data and tensor coordinate. */
static void expect_peers(const struct lw_plan *p, const char *words)
{
    for (int32_t r = 0; r < p->n_ranks; r++)
        for (int32_t v = 0; v < p->n_variants; v++) {
            struct lw_program g = lw_plan_program(p, v, r);
            for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++) {
                const struct lw_op *o = &p->ops[i];
                if (lw_op_class(o->kind) != LW_CLASS_P2P || o->operand < 0 ||
                    p->comms[o->comm].purpose == LW_COMM_CONTEXT)
                    continue;
                const int32_t *at = p->coord + 3L * r,
                              *to = p->coord + 3L * lw_plan_operand(p, o, r).peer;
                if (at[0] != to[0] || at[1] == to[1] || at[2] != to[2])
                    fail_msg("op %d: rank %d and its peer:%s", i, r, words);
            }
        }
}

/* As the definition says it, rank by rank. */
static void expect_lines(const struct lw_plan *p, const char *words, int *n_straight)
{
    struct lw_role_line *lines = lw_calloc((size_t)p->n_roles, sizeof *lines);

    assert_non_null(lines);
    lw_role_lines(p, lines);
    for (int32_t role = 0; role < p->n_roles; role++) {
        int32_t at[2] = {-1, -1};
        bool straight = p->roles[role].n_ranks > 1;
        for (int32_t r = 0; r < p->n_ranks; r++)
            if (p->role_of[r] == role && p->index_in_role[r] < 2)
                at[p->index_in_role[r]] = r;
        for (int32_t r = 0; r < p->n_ranks; r++)
            straight &= p->role_of[r] != role ||
                        r == at[0] + p->index_in_role[r] * (at[1] - at[0]);
        if (lines[role].first != at[0] || lines[role].step != (straight ? at[1] - at[0] : 0))
            fail_msg("role %d: first %d, step %d:%s", role, lines[role].first, lines[role].step,
                     words);
        *n_straight += straight;
        for (int32_t row = 0; row < p->n_operand_rows; row++) {
            bool names = straight && p->operand_rules && p->operand_rules[row].n > 0;
            for (int32_t i = 0; names && i < lw_operand_row_length(p, row); i++)
                names = lw_operand_at(p, row, i).peer == at[0] + i * (at[1] - at[0]);
            if (names != lw_rule_names_line(p, row, &lines[role]))
                fail_msg("row %d and role %d:%s", row, role, words);
        }
    }
    lw_free(lines);
}

static void compare_steps(const struct lw_plan *p, const struct lw_plan *q, const char *words)
{
    struct lw_cluster c;

    make_cluster(&c, p->n_ranks, 1e9, 1000);
    c.device.copy_bytes_per_s = given(1e12);
    for (int no_fold = 0; no_fold < 2; no_fold++) {
        const struct lw_sim_options o = {.n_steps = 2, .no_fold = no_fold > 0};
        struct lw_sim_stats a, b;
        struct lw_err err = {0};
        lw_ps x[2], y[2];
        assert_ok(lw_sim_run_steps(p, &c, &o, x, &a, &err), err);
        assert_ok(lw_sim_run_steps(q, &c, &o, y, &b, &err), err);
        if (x[0] != y[0] || x[1] != y[1] || a.n_simulated != b.n_simulated ||
            a.n_messages != b.n_messages)
            fail_msg("steps of %lld and %lld ps, %lld and %lld simulated ranks:%s", (long long)x[0],
                     (long long)y[0], (long long)a.n_simulated, (long long)b.n_simulated, words);
    }
    lw_cluster_free(&c);
}

static void compare(struct lw_plan *p, const char *words, int *n_straight)
{
    struct lw_arena room = {0};
    struct lw_plan q = written_out(p, &room);
    struct lw_plan_difference d;
    struct lw_err err = {0};

    assert_ok(lw_plan_hash(&q, &err), err);
    assert_string_equal(q.hash, p->hash);
    assert_ok(lw_plan_check_ranges(p, LW_EPLAN, &err), err);
    assert_ok(lw_plan_check(p, &err), err);
    assert_ok(lw_plan_check(&q, &err), err);
    assert_ok(lw_plan_diff(p, &q, &d, &err), err);
    assert_string_equal(d.decision, "");
    expect_peers(p, words);
    expect_lines(p, words, n_straight);
    compare_steps(p, &q, words);
    lw_arena_free(&room);
}

TEST(a_rule_is_its_row_written_out)
{
    struct prng r = prng_start("operand rules");
    const int plans = unit_cases(40, 500);
    int n_rules = 0, n_mixed = 0, n_straight = 0, n_roles = 0;

    for (int made = 0; made < plans;) {
        static struct random_model k;
        struct lw_strategy s;
        struct lw_plan p;
        char words[1024] = "";
        random_model(&r, &k);
        random_strategy(&r, &k, &s);
        s.dp = (64 + s.tp - 1) / s.tp + 4 * prng_in(&r, 0, 4);
        random_fsdp(&r, &s);
        strategy_words(&s, words, sizeof words);
        if (lw_plan_build(&k.w, &s, NULL, &p, NULL) != LW_OK)
            continue;
        int n = count_rules(&p);
        if (n > 0)
            compare(&p, words, &n_straight);
        n_roles += n > 0 ? p.n_roles : 0;
        n_rules += n;
        n_mixed += n > 0 && n < p.n_operand_rows;
        lw_plan_free(&p);
        made += n > 0;
    }
    printf("%d plans with %d rules, %d with rows that are written out\n", plans, n_rules, n_mixed);
    printf("%d of %d roles are straight\n", n_straight, n_roles);
    assert_true(n_rules >= plans && n_straight > 0 && n_straight < n_roles);
}

static struct lw_plan messages(int32_t dp)
{
    static struct random_model k;
    struct prng r = prng_start("operand rules");
    struct lw_strategy s = lw_strategy_default();
    struct lw_plan p;
    struct lw_err err = {0};

    random_model(&r, &k);
    s.dp = dp;
    s.pp = 2;
    s.micro_batches = 2;
    assert_ok(lw_plan_build(&k.w, &s, NULL, &p, &err), err);
    return p;
}

/* Few ranks are written out; a rule that leaves the table, or is one of another length, is refused,
 * and a peer that is another rank's is found. */
TEST(a_wrong_rule_is_refused)
{
    struct lw_plan few = messages(8), p = messages(64);
    struct lw_operand_rule *x = p.operand_rules, right = *x;
    struct lw_err err = {0};

    assert_null(few.operand_rules);
    assert_true(count_rules(&p) >= 2);
    x->first.peer = 100;
    assert_int_equal(lw_plan_check_ranges(&p, LW_EPLAN, &err), LW_EPLAN);
    assert_string_equal(err.msg, "at operands[0].of_ranks[63]: found 163, allowed: -1 to 127");
    *x = right;
    x->n = 63;
    assert_int_equal(lw_plan_check_ranges(&p, LW_EPLAN, &err), LW_EPLAN);
    assert_non_null(strstr(err.msg, "at operands[0].of_ranks: a rule of 63"));
    *x = right;
    x->first.bytes++;
    assert_int_equal(lw_plan_check(&p, &err), LW_EPLAN);
    *x = right;
    x->first.peer--;
    assert_int_equal(lw_plan_check(&p, &err), LW_EPLAN);
    *x = right;
    x->first.peer += 63, x->across = -1; /* the same ranks, in another order */
    assert_int_equal(lw_plan_check(&p, &err), LW_EPLAN);
    *x = right;
    x->width = 1, x->down = 0;
    assert_int_equal(lw_plan_check(&p, &err), LW_EPLAN);
    *x = right;
    assert_ok(lw_plan_check(&p, &err), err);
    lw_plan_free(&few);
    lw_plan_free(&p);
}

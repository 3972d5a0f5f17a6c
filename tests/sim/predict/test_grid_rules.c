/* Rules of ranks on a grid say what the tables of a plan say: of random models and strategies, the
 * plan with its rules and the same without them are proved, fold and run alike. A table that a rule
 * does not fit is found. LAPWING_TEST_SEED repeats a run. */
#include "tests/lib/unit.h"

#include <string.h>

#include "shared/base/arena.h"
#include "shared/check/plan_check.h"
#include "shared/lower/lower.h"
#include "shared/plan/grid_rule.h"
#include "shared/plan/plan_builder.h"
#include "shared/plan/plan_tables.h"
#include "sim/predict/sim.h"
#include "tests/lib/plans/random_strategy.h"
#include "tests/lib/sim/sim_help.h"

static bool rule_holds(const struct lw_plan *p)
{
    bool holds;
    struct lw_err err = {0};

    assert_ok(lw_grid_rule_holds(p, &holds, &err), err);
    return holds;
}

static int count_rules(const struct lw_plan *p)
{
    int n = 0;

    for (int32_t c = 0; c < p->n_comms; c++)
        n += p->grid->comms[c].n_groups > 0;
    return n;
}

/* Members by the definition, number by number. */
static void expect_members(const struct lw_plan *p, const char *words)
{
    for (int32_t c = 0; c < p->n_comms; c++) {
        const struct lw_comm_rule *x = &p->grid->comms[c];
        for (int32_t i = 0; i < x->n_groups * x->n_members; i++) {
            const struct lw_group *g = &p->groups[x->first_group + i / x->n_members];
            int32_t rank = p->members[g->first_member + i % x->n_members];
            if (lw_digits_value(&x->ranks, i) != rank ||
                lw_plan_group(p, c, rank) != g || g->n_members != x->n_members)
                fail_msg("communicator %d, number %d, rank %d:%s", c, i, rank, words);
        }
    }
}

static void compare_classes(const struct lw_plan *p, const struct lw_plan *q,
                            const struct lw_cluster *c, bool no_fold, const char *words)
{
    const struct lw_sim_options o = {.n_steps = 2, .no_fold = no_fold};
    struct lw_sim_classes a, b;
    struct lw_sim_stats x, y;
    struct lw_err err = {0};

    assert_ok(lw_sim_run_classes(p, c, &o, &a, &x, &err), err);
    assert_ok(lw_sim_run_classes(q, c, &o, &b, &y, &err), err);
    bool same = a.n_classes == b.n_classes && a.rows.n == b.rows.n &&
                x.n_messages == y.n_messages && x.n_simulated == y.n_simulated &&
                memcmp(a.rank_of, b.rank_of, (size_t)a.n_classes * sizeof *a.rank_of) == 0;
    for (int32_t i = 0; same && i < p->n_ranks; i++)
        same = lw_alike_class(&a.ranks, i) == lw_alike_class(&b.ranks, i);
    for (int64_t i = 0; same && i < a.rows.n; i++) {
        struct lw_span m = lw_timeline_get(&a.rows, i), n = lw_timeline_get(&b.rows, i);
        same = m.start == n.start && m.end == n.end && m.rank == n.rank && m.op == n.op;
    }
    if (!same)
        fail_msg("classes or times differ (%d and %d classes):%s", a.n_classes, b.n_classes, words);
    lw_sim_classes_free(&a);
    lw_sim_classes_free(&b);
}

static struct lw_plan without_tables(const struct lw_plan *p)
{
    struct lw_plan q = *p;

    q.role_of = q.index_in_role = q.coord = q.members = q.comm_group = NULL;
    return q;
}

static void expect_ranks(const struct lw_plan *p, const struct lw_plan *q, const char *words)
{
    for (int32_t r = 0; r < p->n_ranks; r++) {
        int32_t at[LW_N_AXES];
        lw_plan_place(q, r, at);
        if (lw_plan_role_of(q, r) != p->role_of[r] ||
            lw_plan_index_of(q, r) != p->index_in_role[r] ||
            memcmp(at, p->coord + (int64_t)r * LW_N_AXES, sizeof at) != 0)
            fail_msg("rank %d:%s", r, words);
    }
    for (int32_t i = 0; i < p->n_members; i++)
        if (lw_plan_member_at(q, i) != p->members[i])
            fail_msg("member %d:%s", i, words);
    for (int32_t c = 0; c < p->n_comms; c++)
        for (int32_t r = 0; r < p->n_ranks; r++)
            if (lw_plan_group_of(q, c, r) != lw_plan_group_of(p, c, r))
                fail_msg("communicator %d, rank %d:%s", c, r, words);
}

/* The tables that rules write are those of the plan. */
static void expect_tables(const struct lw_plan *p, const struct lw_plan *q)
{
    struct lw_arena room = {0};
    struct lw_plan full;
    struct lw_err err = {0};
    size_t n = (size_t)p->n_ranks * sizeof(int32_t);

    assert_ok(lw_plan_with_tables(q, &room, &full, &err), err);
    assert_memory_equal(full.role_of, p->role_of, n);
    assert_memory_equal(full.index_in_role, p->index_in_role, n);
    assert_memory_equal(full.coord, p->coord, LW_N_AXES * n);
    assert_memory_equal(full.members, p->members, (size_t)p->n_members * sizeof *p->members);
    assert_memory_equal(full.comm_group, p->comm_group, (size_t)p->n_comms * n);
    lw_arena_free(&room);
}

/* The plan with its rules alone is the same. */
static void expect_the_same(const struct lw_plan *p, const char *words)
{
    struct lw_plan q = without_tables(p);
    struct lw_plan_difference d;
    struct lw_err err = {0};

    if (!lw_grid_rules_all(p))
        return;
    expect_ranks(p, &q, words);
    expect_tables(p, &q);
    assert_ok(lw_plan_hash(&q, &err), err);
    assert_string_equal(q.hash, p->hash);
    assert_ok(lw_plan_check(&q, &err), err);
    assert_ok(lw_plan_check_ranges(&q, LW_EPLAN, &err), err);
    assert_ok(lw_plan_diff(p, &q, &d, &err), err);
    assert_string_equal(d.decision, "");
    if (p->n_comms == 0)
        return;
    q.grid->comms[0].parts.of[LW_AXIS_DP][0]++;
    assert_int_equal(lw_plan_check(&q, &err), LW_EPLAN);
    assert_ok(lw_plan_diff(p, &q, &d, &err), err);
    assert_non_null(strstr(d.decision, "communicator class 0, rank 0: group is"));
    q.grid->comms[0].parts.of[LW_AXIS_DP][0]--;
}

/* The plan with its rules and tables, its tables alone, and where there are all, its rules alone.
 */
static void compare(const struct lw_plan *p, struct prng *r, const char *words)
{
    struct lw_plan q = *p, rules = lw_grid_rules_all(p) ? without_tables(p) : *p;
    struct lw_cluster c;
    struct lw_err err = {0};

    q.grid = NULL;
    assert_ok(lw_plan_check(p, &err), err);
    assert_ok(lw_plan_check(&q, &err), err);
    if (!rule_holds(p))
        fail_msg("rules and tables differ:%s", words);
    expect_members(p, words);
    expect_the_same(p, words);
    make_cluster(&c, p->n_ranks, 1e9, 1000);
    c.device.copy_bytes_per_s = given(1e12);
    c.devices_per_node = (int32_t)prng_in(r, 1, 9);
    c.n_nodes = 0;
    c.n_links = 2;
    c.links[1] = (struct lw_link){.name = "net", .level = LW_LINK_INTER,
                                  .bytes_per_s = given(2e8), .latency_ps = given(5000)};
    for (int no_fold = 0; no_fold < 2; no_fold++) {
        compare_classes(p, &q, &c, no_fold > 0, words);
        compare_classes(&rules, &q, &c, no_fold > 0, words);
    }
    lw_cluster_free(&c);
}

TEST(rules_and_tables_are_proved_and_run_alike)
{
    struct prng r = prng_start("grid rules");
    const int plans = unit_cases(60, 500);
    int n_rules = 0, n_comms = 0;

    for (int made = 0; made < plans;) {
        static struct random_model k;
        struct lw_strategy s;
        struct lw_plan p;
        char words[1024] = "";
        random_model(&r, &k);
        random_strategy(&r, &k, &s);
        if (prng_in(&r, 0, 1))
            random_fsdp(&r, &s);
        strategy_words(&s, words, sizeof words);
        if (lw_plan_build(&k.w, &s, NULL, &p, NULL) != LW_OK)
            continue;
        assert_non_null(p.grid);
        n_rules += count_rules(&p);
        n_comms += p.n_comms;
        compare(&p, &r, words);
        lw_plan_free(&p);
        made++;
    }
    printf("%d plans, %d of %d communicators have rules\n", plans, n_rules, n_comms);
    assert_true(2 * n_rules > n_comms);
}

static struct lw_plan grid_of(int32_t dp, int32_t pp, int32_t tp)
{
    static struct random_model k;
    struct prng r = prng_start("grid rules");
    struct lw_strategy s = lw_strategy_default();
    struct lw_plan p;
    struct lw_err err = {0};

    random_model(&r, &k);
    s.dp = dp;
    s.pp = pp;
    s.tp = tp;
    s.micro_batches = 2;
    assert_ok(lw_plan_build(&k.w, &s, NULL, &p, &err), err);
    return p;
}

static void expect_digits(struct lw_digits d, struct lw_digit slow, struct lw_digit fast)
{
    assert_int_equal(d.n, 2);
    assert_int_equal(d.at[0].count, slow.count);
    assert_int_equal(d.at[0].stride, slow.stride);
    assert_int_equal(d.at[1].count, fast.count);
    assert_int_equal(d.at[1].stride, fast.stride);
}

/* Megatron's order of 4 data, 2 pipeline and 2 tensor ranks: rank = t + 2 d + 8 p. */
TEST(groups_of_a_grid_are_digits)
{
    struct lw_plan p = grid_of(4, 2, 2);
    const struct lw_comm_rule *data = &p.grid->comms[0], *forward = &p.grid->comms[1];
    static const int32_t third[] = {8, 10, 12, 14}; /* stage 1, tensor rank 0 */

    assert_string_equal(p.comms[0].name, "data");
    assert_int_equal(data->n_groups, 4);
    assert_int_equal(data->n_members, 4);
    for (int32_t i = 0; i < 4; i++)
        assert_int_equal(lw_digits_value(&data->ranks, 2 * 4 + i), third[i]);
    assert_string_equal(p.comms[1].name, "forward");
    assert_int_equal(forward->n_groups, 8);
    assert_int_equal(forward->n_members, 2);
    assert_int_equal(lw_digits_value(&forward->ranks, 2 * 5), 5); /* dp 2, tp 1 */
    assert_int_equal(lw_digits_value(&forward->ranks, 2 * 5 + 1), 13);
    expect_digits(lw_grid_roles(p.grid->axis), (struct lw_digit){2, 1}, (struct lw_digit){8, 0});
    expect_digits(lw_grid_indexes(p.grid->axis), (struct lw_digit){2, 0}, (struct lw_digit){8, 1});
    lw_plan_free(&p);
}

/* A large plan has no tables of ranks and members. */
TEST(a_large_plan_has_rules_alone)
{
    struct lw_plan p = grid_of(1024, 2, 2), few = grid_of(512, 2, 2);
    struct lw_plan_difference d;
    struct lw_arena room = {0};
    struct lw_plan q;
    struct lw_err err = {0};

    assert_non_null(few.comm_group);
    assert_true(!p.role_of && !p.index_in_role && !p.coord && !p.members && !p.comm_group);
    assert_ok(lw_plan_check(&p, &err), err);
    assert_ok(lw_plan_with_tables(&p, &room, &q, &err), err);
    assert_true(rule_holds(&q));
    q.grid = NULL;
    assert_ok(lw_plan_hash(&q, &err), err);
    assert_string_equal(q.hash, p.hash);
    assert_ok(lw_plan_check(&q, &err), err);
    assert_ok(lw_plan_diff(&p, &q, &d, &err), err);
    assert_string_equal(d.decision, "");
    lw_arena_free(&room);
    assert_ok(lw_plan_write_tables(&p, &err), err);
    assert_true(rule_holds(&p));
    lw_plan_free(&p);
    lw_plan_free(&few);
}

/* Rows of thousands of ranks: counts that no block holds, primes, both orders of ranks, and a
 * pipeline whose first and last stage alone are in groups of copies. */
TEST(large_plans_are_hashed_as_their_tables)
{
    static const int32_t sizes[][3] = {{1031, 4, 1}, {1500, 3, 2}, {4096, 1, 1}, {2050, 1, 4},
                                       {64, 8, 8},   {9, 64, 8},   {512, 4, 2},  {1366, 3, 1}};
    struct prng r = prng_start("large plans");
    int n = 0;

    for (int i = 0; i < unit_cases(24, 200); i++) {
        static struct random_model k;
        const int32_t *size = sizes[i % 8];
        struct lw_strategy s = lw_strategy_default();
        struct lw_plan p, q;
        struct lw_arena room = {0};
        struct lw_err err = {0};
        random_model(&r, &k);
        s.dp = size[0];
        s.pp = size[1];
        s.tp = size[2];
        s.micro_batches = 2;
        s.zero = (int)prng_in(&r, 0, 1);
        s.rank_order = prng_in(&r, 0, 1) ? LW_RANKS_COLOSSAL : LW_RANKS_MEGATRON;
        if (lw_plan_build(&k.w, &s, NULL, &p, NULL) != LW_OK)
            continue;
        assert_ok(lw_plan_with_tables(&p, &room, &q, &err), err);
        q.grid = NULL;
        assert_ok(lw_plan_hash(&q, &err), err);
        assert_string_equal(q.hash, p.hash);
        n += !p.comm_group;
        lw_arena_free(&room);
        lw_plan_free(&p);
    }
    printf("%d plans by rules alone\n", n);
    assert_true(n >= 8);
}

/* 4,096 ranks in pairs by a rule; then a group of three without one, and a class without groups:
 * the table comes back, also for the pairs. */
TEST(one_group_without_a_rule_brings_the_table_back)
{
    static const struct lw_digit axis[LW_N_AXES] = {{2048, 2}, {1, 4096}, {2, 1}};
    const struct lw_comm_rule pairs = {0, 2048, 2, 1, {0, 2, {{2048, 2}, {2, 1}}}, {{NULL}}};
    struct lw_builder *b = lw_builder_new("pairs", 4096);
    struct lw_plan p;
    struct lw_err err = {0};

    assert_non_null(b);
    lw_builder_role(b, &(struct lw_role){.name = "all"});
    lw_builder_grid(b, axis);
    int32_t stream = lw_builder_stream(b, "comm", LW_STREAM_COMM, 1);
    lw_builder_comm(b, "pairs", LW_COMM_TENSOR, LW_REDUCER_RING, stream);
    lw_builder_groups(b, &pairs);
    int32_t three = lw_builder_comm(b, "three", LW_COMM_DATA, LW_REDUCER_RING, stream);
    lw_builder_group(b, three, (int32_t[]){7, 4095, 0}, 3);
    lw_builder_comm(b, "none", LW_COMM_WORLD, LW_REDUCER_RING, stream);
    lw_builder_variant(b, "steady", "", true);
    lw_builder_pass(b, 0);
    assert_ok(lw_builder_finish(b, &p, &err), err);
    assert_true(p.comm_group && p.members && p.role_of && p.coord);
    assert_true(rule_holds(&p));
    assert_false(lw_grid_rules_all(&p));
    for (int32_t r = 0; r < p.n_ranks; r++) {
        assert_int_equal(lw_plan_group_of(&p, 0, r), r / 2);
        assert_int_equal(lw_plan_group_of(&p, 1, r), r == 0 || r == 7 || r == 4095 ? 2048 : -1);
        assert_int_equal(lw_plan_group_of(&p, 2, r), -1);
    }
    lw_plan_free(&p);
}

/* Each entry of each table, changed by one, is seen. */
TEST(a_table_that_differs_from_its_rule_is_found)
{
    struct lw_plan p = grid_of(4, 2, 2);
    struct {
        int32_t *table;
        int64_t n;
    } tables[] = {{p.role_of, p.n_ranks},
                  {p.index_in_role, p.n_ranks},
                  {p.coord, 3L * p.n_ranks},
                  {p.members, p.n_members},
                  {p.comm_group, (int64_t)p.n_comms * p.n_ranks}};

    assert_int_equal(count_rules(&p), p.n_comms);
    assert_true(rule_holds(&p));
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (int64_t i = 0; i < tables[t].n; i++) {
            struct lw_err err = {0};
            tables[t].table[i]++;
            assert_false(rule_holds(&p));
            assert_int_equal(lw_plan_check(&p, &err), LW_EPLAN);
            tables[t].table[i]--;
        }
    for (int32_t g = 0; g < p.n_groups; g++) {
        p.groups[g].first_member++;
        assert_false(rule_holds(&p));
        p.groups[g].first_member--;
        p.groups[g].n_members--;
        assert_false(rule_holds(&p));
        p.groups[g].n_members++;
    }
    assert_true(rule_holds(&p));
    lw_plan_free(&p);
}

/* A rule that puts a rank into two groups, or leaves an axis, fits no grid. */
TEST(a_rule_that_does_not_tile_is_refused)
{
    static const struct lw_digit axis[LW_N_AXES] = {{4, 2}, {2, 8}, {2, 1}};
    static const struct {
        struct lw_comm_rule rule;
        bool fits;
    } cases[] = {
        {{0, 4, 4, 2, {0, 3, {{2, 8}, {2, 1}, {4, 2}}}}, true},
        {{0, 2, 4, 1, {1, 2, {{2, 8}, {4, 2}}}}, true}, /* tensor rank 1 alone */
        {{0, 4, 4, 2, {0, 3, {{2, 8}, {2, 2}, {4, 2}}}}, false}, /* twice along dp */
        {{0, 4, 4, 2, {8, 3, {{2, 8}, {2, 1}, {4, 2}}}}, false}, /* beyond stage 1 */
        {{0, 2, 8, 1, {0, 2, {{2, 8}, {8, 1}}}}, false},         /* over dp and tp */
        {{0, 4, 2, 2, {0, 3, {{2, 8}, {2, 1}, {4, 2}}}}, false}, /* other counts */
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lw_arena room = {0};
        struct lw_group_parts parts;
        bool fits;
        assert_true(lw_group_parts_find(axis, &cases[i].rule, &room, &parts, &fits));
        assert_int_equal(fits, cases[i].fits);
        lw_arena_free(&room);
    }
    assert_true(lw_grid_is_whole(axis, 16));
    assert_false(lw_grid_is_whole(axis, 32));
    assert_false(lw_grid_is_whole((struct lw_digit[]){{4, 2}, {2, 4}, {2, 1}}, 16));
}

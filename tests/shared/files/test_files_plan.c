/* Plan files: the documented example, round trips of planned and random plans, plans edited by hand
 * in every table, and texts damaged at random (which must never be believed, nor crash). */
#include "tests/lib/unit.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/files/files.h"
#include "shared/lower/lower.h"
#include "shared/plan/plan_builder.h"
#include "shared/workload/sparse.h"
#include "tests/lib/failing_alloc.h"
#include "tests/lib/files/file_fixture.h"

static const char example_page[] = "docs/formats/plan.md";

TEST(documented_example_reads_as_described)
{
    char *text = fixture_example(example_page);
    struct lw_plan p;
    struct lw_err err = {0};
    fixture_put(fixture_path("p.json"), text);
    assert_ok(lw_plan_read(fixture_path("p.json"), false, &p, &err), err);
    assert_string_equal(p.name, "two layers dp2");
    assert_int_equal(p.n_ranks, 2);
    assert_int_equal(p.strategy->dp, 2);
    assert_int_equal(p.roles[0].n_ranks, 2);
    assert_int_equal(p.index_in_role[1], 1);
    assert_int_equal(p.coord[3], 1); /* dp of rank 1 */
    assert_int_equal(p.streams[1].priority, 1);
    assert_int_equal(p.comm_group[1], 0);
    assert_int_equal(p.n_buckets, 2);
    assert_int_equal(p.sets[1].first_bucket, 1);
    assert_int_equal(p.buckets[1].limit_bytes, 1048576);
    struct lw_slot_walk w = {0};
    assert_true(lw_plan_next_slot(&p, &p.buckets[1], &w) &&
                lw_plan_next_slot(&p, &p.buckets[1], &w));
    assert_int_equal(w.slot.offset, 64);
    assert_int_equal(p.n_shards, 0);
    assert_int_equal(p.works[4].ps, 40000);
    assert_int_equal(p.works[4].flops, -1);
    assert_int_equal(p.n_ops, 18);
    assert_int_equal(p.ops[6].kind, LW_OP_ALL_REDUCE);
    assert_int_equal(p.ops[6].work_ps, -1); /* timed by the cluster */
    assert_int_equal(p.ops[6].n_deps, 1);
    assert_int_equal(p.deps[p.ops[6].first_dep], 5);
    assert_int_equal(p.ops[6].peer, -1);
    assert_int_equal(p.ready[p.ops[2].first_ready], 1);
    assert_int_equal(lw_plan_program(&p, 1, 0).first_op, 9);
    assert_int_equal(p.repeat_from, 1);
    assert_int_equal(p.variants[1].n_sets, 1);
    assert_int_equal(lw_plan_write(&p, fixture_path("again.json"), &err), LW_OK);
    char *again = fixture_written(fixture_path("again.json"));
    assert_string_equal(again, text);
    free(again);
    free(text);
    lw_plan_free(&p);
}

/* --- edited by hand --------------------------------------------------------------------------- */

TEST(indexes_and_sizes_are_verified_before_use)
{
    static const struct {
        const char *from, *to, *message;
    } cases[] = {
        {"\"lapwing\": 1", "\"lapwing\": 3",
         "at lapwing (byte 15): found file version 3, allowed: 1"},
        {"{\"role\": 0, \"dp\": 1}", "{\"role\": 1, \"dp\": 1}",
         "at ranks[1].role: found 1, allowed: 0 to 0"},
        {"\"stage\": 0, \"params_bytes\"", "\"stage\": 1, \"params_bytes\"",
         "at roles[0].stage: found 1, allowed: 0 to 0"},
        {"\"members\": [0, 1]", "\"members\": [0, 2]",
         "at groups[0].members: found 2, allowed: 0 to 1"},
        {"\"members\": [0, 1]", "\"members\": [0, 0]",
         "at comms[0].groups: rank 0 is in groups 0 and 0, allowed: one group of a communicator"},
        {"\"groups\": [0]}", "\"groups\": [1]}", "at comms[0].groups: found 1, allowed: 0 to 0"},
        {"\"stream\": 1, \"groups\"", "\"stream\": 2, \"groups\"",
         "at comms[0].stream: found 2, allowed: 0 to 1"},
        {"\"numel\": 1024, \"module\": 0", "\"numel\": 1024, \"module\": 2",
         "at params[0].module: found 2, allowed: -1 to 1"},
        {"\"stage_of_module\": [0, 0]", "\"stage_of_module\": [0, 9]",
         "at stage_of_module[1]: found 9, allowed: 0 to 0"},
        {"\"params\": [1, 0], \"offsets\"", "\"params\": [1, 2], \"offsets\"",
         "at bucket_sets[1].buckets[0].params: found 2, allowed: 0 to 1"},
        {"\"offsets\": [0, 64]", "\"offsets\": [0]",
         "at bucket_sets[1].buckets[0]: found 2 params and 1 offsets, expected as many"},
        {"\"works\": [", "\"shards\": [{\"param\": 1, \"numel\": 65}],\n  \"works\": [",
         "at shards[0].numel: found 65, allowed: 0 to 64"},
        {"\"works\": [",
         "\"shards\": [{\"param\": 1, \"first\": 1, \"numel\": 64}],\n  \"works\": [",
         "at shards[0].first: found 1, allowed: 0 to 0"},
        {"\"passes\": [0, 1]", "\"passes\": [0, 2]",
         "at passes[1]: found 2, allowed: 0 to 1"},
        {"\"ranks\": [", "\"n_stages\": 0,\n  \"ranks\": [",
         "at n_stages: found none, expected at least 1"},
        {"\"passes\": [0, 1]", "\"passes\": []", "at passes: found none, expected at least 1"},
        {"\"repeat_from\": 1", "\"repeat_from\": 2",
         "at repeat_from: found 2, allowed: 0 to 1"},
        {"\"first_op\": 9, \"n_ops\": 9", "\"first_op\": 9, \"n_ops\": 10",
         "at programs[1].n_ops: found 10, allowed: 0 to 9"},
        {"\"variant\": 1, \"role\": 0", "\"variant\": 0, \"role\": 0",
         "at programs[1]: variant 0 of role 0 has a program already"},
        {"\"work\": 4", "\"work\": 5", "at ops[8].work: found 5, allowed: -1 to 4"},
        {"\"deps\": [5]", "\"deps\": [6]", "at ops[6].deps: found 6, allowed: 0 to 5"},
        {"\"ready\": [1]", "\"ready\": [2]", "at ops[2].ready: found 2, allowed: 0 to 1"},
        {"\"comm\": 0", "\"comm\": 1", "at ops[6].comm: found 1, allowed: -1 to 0"},
        {"\"comm\": 0", "\"operand\": 0",
         "at ops[6].operand: found 0, but there is none to refer to"},
        {"\"bucket\": 1", "\"bucket\": 2", "at ops[15].bucket: found 2, allowed: -1 to 1"},
        {"\"comm\": 0", "\"peer\": 2", "at ops[6].peer: found 2, allowed: -1 to 1"},
    };
    char *text = fixture_example(example_page);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *bad = fixture_replaced(text, cases[i].from, cases[i].to), expected[600];
        const char *path = fixture_path("p.json");
        fixture_put(path, bad);
        for (int unchecked = 0; unchecked < 2; unchecked++) {
            struct lw_plan p = {.name = "untouched"};
            struct lw_err err = {0};
            assert_int_equal(lw_plan_read(path, unchecked, &p, &err), LW_EFORMAT);
            snprintf(expected, sizeof expected, "%s: %s", path, cases[i].message);
            assert_string_equal(err.msg, expected);
            assert_string_equal(p.name, "untouched");
        }
        free(bad);
    }
    free(text);
}

TEST(wrong_types_and_signs_are_refused_by_place)
{
    static const struct {
        const char *from, *to, *words;
    } cases[] = {
        {"\"bytes\": 256", "\"bytes\": -256",
         "at ops[3].bytes (byte 2534): found -256, allowed: 0 or more"},
        {"\"all_reduce\"", "\"allreduce\"",
         "at ops[6].kind (byte 2831): found \"allreduce\", allowed: forward, backward, "},
        {"\"dp\": 1}", "\"dp\": true}",
         "at ranks[1].dp (byte 956): found true, expected an integer"},
        {"\"role\": 0, \"dp\": 1", "\"dp\": 1",
         "at ranks[1] (byte 938): the field \"role\" is missing"},
        {"{\"ns\": 40}", "{\"ns\": null}",
         "at works[4].ns (byte 1804): found null, expected a number"},
        {"\"strategy\": {", "\"dims\": {\"n_experts\": 65537}, \"strategy\": {",
         "at dims.n_experts (byte 173): found 65537, allowed: 0 to 65536"},
        {"\"strategy\": {", "\"dims\": {\"experts_in_turn\": true}, \"strategy\": {",
         "at dims.n_experts: found 0, allowed: 1 or more with experts_in_turn"},
        {"\"strategy\": {", "\"dims\": {\"experts_in_turn\": true, \"n_experts\": 4}, "
         "\"strategy\": {\"dispatch_once\": 8,",
         "at dims.n_experts: found 4, allowed: 8 (strategy.dispatch_once) or more"},
    };
    char *text = fixture_example(example_page);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *bad = fixture_replaced(text, cases[i].from, cases[i].to), expected[600];
        const char *path = fixture_path("p.json");
        struct lw_plan p;
        struct lw_err err = {0};
        fixture_put(path, bad);
        assert_int_equal(lw_plan_read(path, false, &p, &err), LW_EFORMAT);
        snprintf(expected, sizeof expected, "%s: %s", path, cases[i].words);
        assert_memory_equal(err.msg, expected, strlen(expected));
        free(bad);
    }
    free(text);
}

/* The check names what is wrong with an edited plan; where it finds nothing, the hash does. */
TEST(edited_plans_are_refused)
{
    static const struct {
        const char *from, *to, *words;
    } cases[] = {
        {"\"bytes\": 4352, \"limit_bytes\": 1048576, \"params\": [1, 0], \"offsets\": [0, 64]",
         "\"bytes\": 256, \"limit_bytes\": 1048576, \"params\": [1], \"offsets\": [0]",
         "the gradient of parameter 0 'a.weight' is in no bucket"},
        {"\"works\": [",
         "\"shards\": [{\"param\": 1, \"numel\": 64}, {\"param\": 1, \"first\": 32, \"numel\": "
         "32}],\n"
         "  \"works\": [",
         "parameter 1 'b.weight'"},
        {"\"limit_bytes\": 1048576", "\"limit_bytes\": 1048577",
         "the plan was edited (without the field \"hash\" it is taken as it is)"},
    };
    char *text = fixture_example(example_page);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *bad = fixture_replaced(text, cases[i].from, cases[i].to);
        const char *path = fixture_path("p.json");
        struct lw_plan p;
        struct lw_err err = {0};
        fixture_put(path, bad);
        assert_int_equal(lw_plan_read(path, false, &p, &err), LW_EPLAN);
        assert_memory_equal(err.msg, path, strlen(path));
        if (!strstr(err.msg, cases[i].words))
            fail_msg("%s", err.msg);
        assert_int_equal(lw_plan_read(path, true, &p, &err), LW_OK); /* unchecked on purpose */
        lw_plan_free(&p);
        free(bad);
    }
    free(text);
}

TEST(edited_plan_without_its_hash_is_taken_as_it_is)
{
    char *text = fixture_example(example_page);
    char *nameless = fixture_replaced(text, "\"hash\"", "\"workload_hash\"");
    char *edited = fixture_replaced(nameless, "\"limit_bytes\": 1048576",
                                    "\"limit_bytes\": 1048577");
    struct lw_plan p, q;
    struct lw_err err = {0};
    fixture_put(fixture_path("p.json"), text);
    fixture_put(fixture_path("q.json"), edited);
    assert_int_equal(lw_plan_read(fixture_path("p.json"), false, &p, &err), LW_OK);
    assert_int_equal(lw_plan_read(fixture_path("q.json"), false, &q, &err), LW_OK);
    assert_int_equal(q.buckets[1].limit_bytes, 1048577);
    assert_int_equal(strlen(q.hash), 32);
    assert_string_not_equal(p.hash, q.hash);
    lw_plan_free(&p);
    lw_plan_free(&q);
    free(text);
    free(nameless);
    free(edited);
}

/* Times are no decision: the hash says nothing of them. */
TEST(edited_times_are_taken)
{
    char *text = fixture_example(example_page);
    char *edited = fixture_replaced(text, "{\"ns\": 40}", "{\"ns\": 41}");
    struct lw_plan p;
    struct lw_err err = {0};

    fixture_put(fixture_path("p.json"), edited);
    assert_ok(lw_plan_read(fixture_path("p.json"), false, &p, &err), err);
    assert_int_equal(p.works[4].ps, 41000);
    lw_plan_free(&p);
    free(edited);
    free(text);
}

/* A file of format 1, whose hash covers times, gets the hash of today. */
TEST(a_file_of_format_1_is_read_and_hashed_anew)
{
    char *text = fixture_example(example_page);
    char *unmarked = fixture_replaced(text, "  \"format\": 2,\n", "");
    char *old = fixture_replaced(unmarked, "1f4f973cf5ac45931c76c0ad4728d2fb",
                                 "bc19fa987b248dcc5b0902f98d3dd360");
    char *next = fixture_replaced(text, "\"format\": 2", "\"format\": 3");
    struct lw_plan p;
    struct lw_err err = {0};

    fixture_put(fixture_path("p.json"), old);
    assert_ok(lw_plan_read(fixture_path("p.json"), false, &p, &err), err);
    assert_string_equal(p.hash, "1f4f973cf5ac45931c76c0ad4728d2fb");
    lw_plan_free(&p);
    fixture_put(fixture_path("p.json"), next);
    assert_int_equal(lw_plan_read(fixture_path("p.json"), false, &p, &err), LW_EFORMAT);
    if (!strstr(err.msg, "at format (byte 48): found 3, allowed: 1 to 2"))
        fail_msg("%s", err.msg);
    free(next);
    free(old);
    free(unmarked);
    free(text);
}

/* --- round trips ------------------------------------------------------------------------------ */

static int64_t up_to(int64_t n)
{
    return n > 0 ? rand() % n : 0;
}

static void assert_survives(const struct lw_plan *p, bool unchecked)
{
    struct lw_plan r;
    struct lw_err err = {0};
    if (lw_plan_write(p, fixture_path("a.json"), &err) != LW_OK ||
        lw_plan_read(fixture_path("a.json"), unchecked, &r, &err) != LW_OK)
        fail_msg("%s", err.msg);
    assert_string_equal(r.hash, p->hash);
    assert_string_equal(r.name, p->name);
    assert_int_equal(r.n_stages, p->n_stages);
    assert_int_equal(r.n_notes, p->n_notes);
    assert_memory_equal(r.programs, p->programs,
                        (size_t)(p->n_variants * p->n_roles) * sizeof *p->programs);
    assert_memory_equal(r.comm_group, p->comm_group,
                        (size_t)(p->n_comms * p->n_ranks) * sizeof *p->comm_group);
    for (int32_t i = 0; i < p->n_ops; i++) {
        struct lw_op x = r.ops[i], y = p->ops[i];
        assert_int_equal(x.n_ready, y.n_ready);
        assert_memory_equal(r.ready + x.first_ready, p->ready + y.first_ready,
                            (size_t)x.n_ready * sizeof *p->ready);
        x.first_ready = y.first_ready = 0; /* lists may be shared */
        assert_memory_equal(&x, &y, offsetof(struct lw_op, name));
    }
    for (int32_t i = 0; i < p->n_roles; i++)
        assert_int_equal(r.roles[i].n_ranks, p->roles[i].n_ranks);
    assert_int_equal(lw_plan_write(&r, fixture_path("b.json"), &err), LW_OK);
    char *a = fixture_get(fixture_path("a.json")), *b = fixture_get(fixture_path("b.json"));
    assert_string_equal(a, b);
    free(a);
    free(b);
    lw_plan_free(&r);
}

/* A plan that uses every table: two roles, operands, groups by class, sends with calls. It need not
 * make sense (it is read unchecked). */
static struct lw_plan random_plan(void)
{
    int32_t n_ranks = 2 + (int32_t)up_to(5), n_roles = 1 + (int32_t)up_to(2);
    struct lw_builder *b = lw_builder_new("random \"plan\"\n", n_ranks);
    int32_t in_role[2] = {0}, members[8];
    struct lw_strategy s = lw_strategy_default();
    s.dp = n_ranks;
    s.clip = up_to(2) ? 0.1 : 0;
    lw_builder_strategy(b, &s);
    for (int32_t r = 0; r < n_roles; r++)
        lw_builder_role(b, &(struct lw_role){.name = r ? "last" : "first",
                                             .stage = r,
                                             .static_bytes = {up_to(9), up_to(9), 0, up_to(2)}});
    for (int32_t i = 0; i < n_ranks; i++) {
        int32_t role = (int32_t)up_to(n_roles);
        in_role[role]++;
        lw_builder_rank(b, i, role, i, (int32_t)up_to(2), 0);
        members[i] = n_ranks - 1 - i;
    }
    for (int32_t k = 0; k < 4; k++)
        lw_builder_stream(b, "s", (enum lw_stream_class)k, (int32_t)up_to(5) - 2);
    lw_builder_comm(b, "pairs", LW_COMM_FORWARD, LW_REDUCER_TREE, 1);
    lw_builder_group(b, 0, members, 1);
    lw_builder_group(b, 0, members + 1, n_ranks - 1);
    lw_builder_comm(b, "none", LW_COMM_WORLD, LW_REDUCER_AUTO, 2);
    int32_t n_params = (int32_t)up_to(4);
    for (int32_t i = 0; i < 2; i++)
        lw_builder_module(b, (int32_t)up_to(n_roles));
    for (int32_t i = 0; i < n_params; i++)
        lw_builder_param(b, &(struct lw_plan_param){.name = "p",
                                                    .numel = 5,
                                                    .dtype = LW_BF16,
                                                    .stage = 0,
                                                    .module = (int32_t)up_to(3) - 1,
                                                    .tied = (int32_t)up_to(i + 1) - 1,
                                                    .trainable = up_to(2),
                                                    .used = up_to(2),
                                                    .sparse = up_to(2),
                                                    .ignored = up_to(2)});
    for (int32_t i = 0; i < n_params; i++) {
        if (up_to(2))
            lw_builder_whole(b, i);
        if (up_to(2))
            lw_builder_sparse(b, &(struct lw_sparse){i, 1, 1 + (int32_t)up_to(5)});
    }
    for (int32_t k = 0; k < 2 && n_params; k++) {
        lw_builder_set(b, (enum lw_bucket_kind)up_to(LW_BUCKET_SPARSE),
                       up_to(2) ? "tied" : k ? "rebuilt" : "initial", 0);
        lw_builder_bucket(b, &(struct lw_bucket){.bytes = 40, .dtype = LW_F16, .limit_bytes = k},
                          &(struct lw_slot){0, 3}, 1);
        lw_builder_shard(b, &(struct lw_shard){.param = 0, .owner = -1, .first = k, .numel = 4});
    }
    lw_builder_work(b, &(struct lw_work){.ps = up_to(1 << 20), .flops = -1, .bytes = 7});
    for (int32_t v = 0; v < 2; v++) {
        lw_builder_variant(b, v ? "steady" : "first", v ? "rebuilt" : "", v);
        for (int32_t r = 0; r < n_roles; r++) {
            struct lw_operand entries[8];
            int32_t deps[1] = {-1};
            for (int32_t i = 0; i < in_role[r]; i++)
                entries[i] =
                    (struct lw_operand){up_to(99), up_to(2), (int32_t)up_to(n_ranks + 1) - 1};
            lw_builder_program(b, v, r);
            for (int32_t k = 0; k < 1 + up_to(4); k++) {
                struct lw_op op =
                    lw_builder_blank((enum lw_op_kind)up_to(LW_N_OP_KINDS), (int32_t)up_to(4));
                op.name = up_to(2) ? "" : "op";
                op.dtype = (enum lw_dtype)up_to(LW_N_DTYPES);
                op.comm = (int32_t)up_to(3) - 1;
                op.call = (int32_t)up_to(3) - 1;
                op.work = (int32_t)up_to(2) - 1;
                op.work_ps = up_to(4) - 1;
                op.bytes = up_to(1 << 30);
                op.peer = (int32_t)up_to(n_ranks + 1) - 1;
                op.operand = up_to(2) ? lw_builder_operand_row(b, entries, in_role[r]) : -1;
                op.micro_batch = (int32_t)up_to(3) - 1; /* fewer than ops */
                deps[0] = lw_builder_op(b, &op, deps, deps[0] >= 0);
                for (int32_t i = 0; i < n_params; i++)
                    if (up_to(2))
                        lw_builder_ready(b, i);
            }
        }
    }
    lw_builder_pass(b, 0);
    lw_builder_pass(b, 1);
    lw_builder_repeat_from(b, (int32_t)up_to(2));
    lw_builder_note(b, "a note");
    struct lw_plan p;
    struct lw_err err = {0};
    assert_ok(lw_builder_finish(b, &p, &err), err);
    return p;
}

TEST(random_plans_survive_writing_and_reading)
{
    unsigned seed = 11;
    print_message("seed %u\n", seed);
    srand(seed);
    for (int round = 0; round < 300; round++) {
        struct lw_plan p = random_plan();
        assert_survives(&p, true);
        lw_plan_free(&p);
    }
}

TEST(planned_strategies_survive_writing_and_reading)
{
    static const struct {
        const char *options[6];
    } cases[] = {
        {{NULL}},
        {{"dp", "4", NULL}},
        {{"dp", "2", "no-sync", "2", NULL}},
        {{"dp", "3", "bucket-cap", "1KiB", NULL}},
        {{"dp", "2", "static-graph", "on", NULL}},
        {{"dp", "2", "overlap", "off", NULL}},
    };
    char *text = fixture_example("docs/formats/workload.md");
    struct lw_workload w;
    struct lw_err err = {0};
    fixture_put(fixture_path("w.json"), text);
    assert_int_equal(lw_workload_read(fixture_path("w.json"), &w, &err), LW_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lw_strategy s = lw_strategy_default();
        struct lw_plan p;
        for (int k = 0; cases[i].options[k]; k += 2)
            assert_int_equal(
                lw_strategy_set(&s, cases[i].options[k], cases[i].options[k + 1], &err), LW_OK);
        if (lw_plan_build(&w, &s, NULL, &p, &err) != LW_OK)
            fail_msg("case %zu: %s", i, err.msg);
        assert_survives(&p, false);
        lw_plan_free(&p);
    }
    lw_workload_free(&w);
    free(text);
}

/* --- damaged at random ------------------------------------------------------------------------ */

/* Change one number, or one character: the reader may refuse or accept, but what it accepts is safe
 * to walk (the address sanitizer looks on), and the check may be asked about it. */
static void damage(char *text)
{
    size_t len = strlen(text);
    char *p = text + up_to((int64_t)len);

    if (up_to(3) == 0) {
        *p = "0129-,:[]{}\"ax"[up_to(14)];
        return;
    }
    while (*p && !isdigit((unsigned char)*p))
        p++;
    for (; *p && isdigit((unsigned char)*p); p++)
        *p = (char)('0' + up_to(10));
}

static void walk(const struct lw_plan *p)
{
    int64_t sum = 0;

    for (int64_t pass = 0; pass < 5; pass++)
        for (int32_t rank = 0; rank < p->n_ranks; rank++) {
            struct lw_program g = lw_plan_program(p, lw_plan_variant_of_pass(p, pass), rank);
            for (int32_t i = g.first_op; i < g.first_op + g.n_ops; i++) {
                const struct lw_op *op = &p->ops[i];
                sum += lw_plan_operand(p, op, rank).bytes + lw_plan_work_ps(p, op);
                sum += p->streams[op->stream].priority;
                for (int32_t d = 0; d < op->n_deps; d++)
                    sum += p->ops[p->deps[op->first_dep + d]].bytes;
                for (int32_t d = 0; d < op->n_ready; d++)
                    sum += p->params[p->ready[op->first_ready + d]].numel;
                if (op->comm >= 0 && lw_plan_group(p, op->comm, rank))
                    sum += p->members[lw_plan_group(p, op->comm, rank)->first_member];
                if (op->bucket >= 0)
                    sum += p->sets[p->buckets[op->bucket].set].stage;
            }
        }
    for (int32_t b = 0; b < p->n_buckets; b++)
        for (int32_t k = 0; k < p->buckets[b].n_slots; k++)
            sum += p->params[p->slots[p->buckets[b].first_slot + k]].numel;
    print_message(sum == 1 ? "." : "");
}

TEST(damaged_plans_never_crash)
{
    unsigned seed = 5;
    char *example = fixture_example(example_page);
    int n_read = 0, n_refused = 0;
    print_message("seed %u\n", seed);
    srand(seed);
    for (int round = 0; round < 3000; round++) {
        char *text = strdup(example);
        struct lw_plan p;
        struct lw_err err = {0};
        assert_non_null(text);
        for (int64_t k = 1 + up_to(3); k > 0; k--)
            damage(text);
        fixture_put(fixture_path("p.json"), text);
        if (lw_plan_read(fixture_path("p.json"), true, &p, &err) == LW_OK) {
            walk(&p);
            (void)lw_plan_check(&p, &err);
            lw_plan_free(&p);
            n_read++;
        } else {
            assert_null(strchr(err.msg, '\n'));
            n_refused++;
        }
        free(text);
    }
    assert_true(n_read > 300 && n_refused > 300); /* both ways were taken */
    free(example);
}

static enum lw_status read_and_write(const char *in, const char *out)
{
    struct lw_plan p = {0};
    struct lw_err err = {0};
    enum lw_status s = lw_plan_read(in, false, &p, &err);

    if (s == LW_OK)
        s = lw_plan_write(&p, out, &err);
    lw_plan_free(&p);
    return s;
}

TEST(failing_allocations_leave_nothing)
{
    char *text = fixture_example(example_page);

    fixture_put(fixture_path("p.json"), text);
    EACH_ALLOCATION_FAILS_IN(20, read_and_write(fixture_path("p.json"), fixture_path("out.json")));
    free(text);
}

TEST(full_disk_is_reported)
{
    char *text = fixture_example(example_page);
    struct lw_plan p;
    struct lw_err err = {0};
    fixture_put(fixture_path("p.json"), text);
    assert_int_equal(lw_plan_read(fixture_path("p.json"), false, &p, &err), LW_OK);
    assert_int_equal(lw_plan_write(&p, "/dev/full", &err), LW_EIO);
    assert_string_equal(err.msg, "/dev/full: cannot write: No space left on device");
    lw_plan_free(&p);
    free(text);
}

TEST_GROUP(fixture_open, fixture_close)

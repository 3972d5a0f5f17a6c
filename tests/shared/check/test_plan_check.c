/* The proof of a plan: every fault is found and named; no content makes the check read outside a
 * table. shared/check/plan_check.h, docs/design/plan.md. */
#include <stdio.h>
#include <string.h>
#include "tests/lib/unit.h"

#include "shared/lower/lower.h"
#include "shared/plan/plan_builder.h"
#include "shared/strategy/strategy.h"
#include "tests/lib/failing_alloc.h"
#include "tests/lib/plans/strategy_words.h"
#include "tests/lib/plans/tiny_workload.h"
#include "tests/lib/prng.h"

/* The worked example of docs/design/lower.md: ops 15 .. 31 are the steady pass, buckets 1 and 2
 * its set. Op 20 is the all-reduce of bucket 1, op 26 that of bucket 2. */
static struct lw_plan example_of(int32_t micro_batches)
{
    struct tiny t;
    struct lw_strategy s = strategy("dp 4 bucket-cap 1200");
    struct lw_plan p = {0};
    struct lw_err err = {0};

    tiny_init(&t);
    s.micro_batches = micro_batches;
    assert_ok(lw_plan_build(&t.w, &s, NULL, &p, &err), err);
    assert_int_equal(find_variant(&p, "steady"), 1);
    return p;
}

static struct lw_plan example(void)
{
    struct lw_plan p = example_of(1);

    assert_int_equal(p.programs[1].first_op, 15);
    return p;
}

static int32_t find(const struct lw_plan *p, enum lw_op_kind kind, int32_t bucket)
{
    for (int32_t i = p->programs[1].first_op; i < p->n_ops; i++)
        if (p->ops[i].kind == kind && (bucket < 0 || p->ops[i].bucket == bucket))
            return i;
    fail_msg("no %s", lw_op_name(kind));
    return -1;
}

static void assert_fault(const struct lw_plan *p, const char *part)
{
    struct lw_err err = {0};

    assert_int_equal(lw_plan_check(p, &err), LW_EPLAN);
    if (!strstr(err.msg, part))
        fail_msg("found: %s\nexpected: %s", err.msg, part);
}

TEST(a_made_plan_passes)
{
    struct lw_plan p = example();
    struct lw_err err = {0};

    assert_int_equal(lw_plan_check(&p, &err), LW_OK);
    lw_plan_free(&p);
}

/* What a plan may leave out: offsets of buckets without gaps, shards of what all members update. */
static void write_tables(struct lw_plan *p)
{
    p->offsets = lw_arena_alloc(&p->arena, p->n_slots, sizeof *p->offsets);
    p->shards = lw_arena_alloc(&p->arena, p->n_params, sizeof *p->shards);
    assert_non_null(p->offsets);
    assert_non_null(p->shards);
    for (int32_t b = 0; b < p->n_buckets; b++) {
        struct lw_bucket k = p->buckets[b];
        for (struct lw_slot_walk w = {0}; lw_plan_next_slot(p, &k, &w);)
            p->offsets[p->n_offsets++] = w.slot.offset;
        p->buckets[b].first_offset = p->n_offsets - k.n_slots;
    }
    for (int32_t i = 0; i < p->n_params; i++)
        p->shards[p->n_shards++] = (struct lw_shard){i, -1, 0, p->params[i].numel};
    struct lw_err err = {0};
    assert_int_equal(lw_plan_check(p, &err), LW_OK);
}

TEST(a_gradient_in_no_bucket_is_named)
{
    struct lw_plan p = example();

    p.buckets[2].n_slots = 2;
    p.buckets[2].bytes = 808;
    p.ops[find(&p, LW_OP_ALL_REDUCE, 2)].bytes = 808;
    assert_fault(&p, "variant 'steady': the gradient of parameter 0 'a.weight' is in no bucket");
    lw_plan_free(&p);
}

TEST(a_gradient_in_two_buckets_is_named)
{
    struct lw_plan p = example();

    p.slots[p.buckets[2].first_slot + 2] = C_WEIGHT;
    p.buckets[2].bytes = 4 * (202 + 300);
    assert_fault(&p, "parameter 3 'c.weight' is in buckets 1 and 2");
    lw_plan_free(&p);
}

TEST(slots_and_sizes_of_a_bucket_are_checked)
{
    struct lw_plan p = example();

    write_tables(&p);
    int64_t *offset = p.offsets + p.buckets[2].first_offset;
    offset[1] = 1;
    assert_fault(&p, "bucket 2: parameter 1 'b.weight' at element 1 overlaps the slot before it, "
                     "which ends at 2");
    offset[1] = 2;
    p.buckets[2].bytes = 1204;
    assert_fault(&p, "bucket 2: 1204 bytes, but its slots end at 1208");
    p.buckets[2].bytes = 1212;
    assert_fault(&p, "bucket 2: 1212 bytes for 1208 bytes of gradients");
    lw_plan_free(&p);
}

TEST(a_bucket_that_leaves_before_its_gradients_is_named)
{
    struct lw_plan p = example();
    int32_t ar = find(&p, LW_OP_ALL_REDUCE, 1);

    p.ops[ar].n_deps = 0;
    assert_fault(&p,
                 "op 20 (all_reduce, bucket 1) of 'steady' for role 'data' does not wait for op "
                 "19 (copy_in) of 'steady' for role 'data', which writes bucket 1");
    p.ops[ar].n_deps = 1;
    p.deps[p.ops[ar].first_dep] = ar - 2; /* the backward, not the copy after it */
    assert_fault(&p, "does not wait for op 19 (copy_in)");
    lw_plan_free(&p);
}

/* Both backwards complete the gradient; the first runs on a stream that the copy into the bucket
 * does not wait for. */
TEST(every_backward_of_a_gradient_is_awaited)
{
    struct lw_plan p = example_of(2);
    int32_t first = find(&p, LW_OP_BACKWARD, -1), ar = find(&p, LW_OP_ALL_REDUCE, 1);
    int32_t copy = find(&p, LW_OP_COPY_IN, -1);
    char expected[100];

    assert_int_equal(p.ready[p.ops[first].first_ready], C_WEIGHT);
    p.ops[first].stream = 1;
    p.ops[ar].stream = 0;
    snprintf(
        expected, sizeof expected,
        "op %d (copy_in) of 'steady' for role 'data' does not wait for op %d (backward, module 2)",
        copy, first);
    assert_fault(&p, expected);
    p.deps[p.ops[ar].first_dep] = first; /* the copy stands before the all-reduce on its stream */
    p.ops[copy].first_dep = p.ops[ar].first_dep;
    p.ops[copy].n_deps = 1;
    p.ops[ar].n_deps = 0;
    struct lw_err err = {0};
    assert_int_equal(lw_plan_check(&p, &err), LW_OK);
    lw_plan_free(&p);
}

TEST(a_gradient_that_is_never_ready_or_copied_is_named)
{
    struct lw_plan p = example();
    int32_t copy = find(&p, LW_OP_COPY_IN, -1);

    p.ops[copy].n_ready = 0;
    assert_fault(&p, "the gradient of parameter 3 'c.weight' is never copied into its bucket");
    p.ops[copy].n_ready = 1;
    p.ops[copy - 1].n_ready = 0;
    assert_fault(&p, "the gradient of parameter 3 'c.weight' is never complete");
    lw_plan_free(&p);
}

TEST(results_are_awaited)
{
    struct lw_plan p = example();
    int32_t out = find(&p, LW_OP_COPY_OUT, 2), optimizer = find(&p, LW_OP_OPTIMIZER, -1);

    p.ops[out].n_deps = 0;
    assert_fault(&p, "(copy_out, bucket 2) of 'steady' for role 'data' does not wait for op "
                     "28 (all_reduce, bucket 2)");
    p.ops[out].kind = LW_OP_COPY;
    p.ops[out].bucket = -1;
    p.ops[optimizer].n_deps = 1; /* on the copy of bucket 1 alone */
    assert_fault(&p, "(optimizer) of 'steady' for role 'data' does not wait for op 28 (all_reduce, "
                     "bucket 2)");
    lw_plan_free(&p);
}

TEST(every_bucket_is_reduced_exactly_once_and_whole)
{
    struct lw_plan p = example();
    int32_t ar = find(&p, LW_OP_ALL_REDUCE, 2);

    p.ops[ar].bytes = 1200;
    assert_fault(&p, "1200 bytes of f32, but the bucket has 1208 of f32");
    p.ops[ar].bytes = 1208;
    p.ops[ar].bucket = 1;
    assert_fault(&p, "has already reduced this bucket");
    p.ops[ar].bucket = 0;
    assert_fault(&p, "the bucket is of set 'initial'");
    lw_plan_free(&p);
}

TEST(shards_tile_the_parameters)
{
    struct lw_plan p = example();

    write_tables(&p);
    p.shards[1].numel = 150;
    assert_fault(&p, "parameter 1 'b.weight': shards cover 150 of 200 elements");
    p.shards[1].numel = 201;
    assert_fault(&p, "at shards[1].numel: found 201, allowed: 0 to 200");
    p.shards[1] = (struct lw_shard){0, -1, 50, 50}; /* overlaps the whole of parameter 0 */
    assert_fault(&p,
                 "shard 1 of parameter 0 'a.weight': elements 50 and 50 more, the shards before "
                 "it end at 100 of 100");
    p.shards[1] = (struct lw_shard){1, -1, 0, 200};
    p.n_shards = 3;
    assert_fault(&p, "parameter 3 'c.weight': no shard holds it");
    lw_plan_free(&p);
}

TEST(indexes_outside_their_tables_are_named)
{
    struct lw_plan p = example();
    int32_t ar = find(&p, LW_OP_ALL_REDUCE, 1);

    p.deps[p.ops[ar].first_dep] = ar;
    assert_fault(&p, "at ops[20].deps: found 20, allowed: 0 to 19");
    p.deps[p.ops[ar].first_dep] = 3; /* of the other program */
    assert_fault(
        &p, "op 20 (all_reduce, bucket 1) of 'steady' for role 'data': depends on op 3, which is "
            "not an earlier op of its program (15 to 19)");
    p.deps[p.ops[ar].first_dep] = ar - 1;
    p.ops[ar].stream = 2;
    assert_fault(&p, "at ops[20].stream: found 2, allowed: 0 to 1");
    p.ops[ar].stream = 1;
    p.ops[ar].comm = -1;
    assert_fault(&p, ") of 'steady' for role 'data' needs a communicator");
    p.ops[ar].comm = 0;
    p.ops[ar].bytes = -4;
    assert_fault(&p, "at ops[20].bytes: found -4, allowed: 0 or more");
    p.ops[ar].bytes = 1200;
    p.ops[ar].kind = (enum lw_op_kind)99;
    assert_fault(&p, "at ops[20].kind: found 99, allowed: 0 to ");
    p.ops[ar].kind = LW_OP_ALL_REDUCE;
    p.role_of[2] = 1;
    assert_fault(&p, "at ranks[2].role: found 1, allowed: 0 to 0");
    lw_plan_free(&p);
}

TEST(groups_and_ranks_agree)
{
    struct lw_plan p = example();

    p.comm_group[3] = -1;
    assert_fault(&p, "communicator 'data', group 0: 4 members, but 3 ranks name it");
    p.comm_group[3] = 0;
    p.members[3] = 2;
    assert_fault(&p, "group 0: rank 2 is in it twice");
    p.members[3] = 3;
    p.index_in_role[3] = 2;
    assert_fault(&p, "rank 3: its role has another rank with index 2");
    lw_plan_free(&p);
}

TEST(coordinates_are_in_the_grid_and_one_ranks_alone)
{
    struct lw_plan p = example(); /* --dp 4 */

    p.coord[2 * 3] = 4;
    assert_fault(&p, "rank 2: dp is 4, allowed 0 to 3");
    p.coord[2 * 3] = 1;
    assert_fault(&p, "ranks 1 and 2 are both at dp 1, pp 0, tp 0");
    p.coord[2 * 3] = 2;
    p.coord[3 * 3 + 2] = 1;
    assert_fault(&p, "rank 3: tp is 1, allowed 0 to 0");
    p.strategy->dp = 1; /* a recorded plan has no grid: its ranks bound the coordinates */
    struct lw_err err = {0};
    assert_int_equal(lw_plan_check(&p, &err), LW_OK);
    p.coord[3 * 3 + 1] = -1;
    assert_fault(&p, "rank 3: pp is -1, allowed 0 to 3");
    lw_plan_free(&p);
}

static void add_ready(struct lw_builder *b, int32_t param)
{
    struct lw_op op = lw_builder_blank(LW_OP_BACKWARD, 0);

    lw_builder_op(b, &op, NULL, 0);
    lw_builder_ready(b, param);
}

/* Role 1's second and third op share a list of one gradient, and role 0 begins with an equal
 * one. */
TEST(lists_that_are_shared_stay_what_they_were)
{
    static const int32_t expected[] = {1, 9, 1, 1, 1, 9};
    struct lw_builder *b = lw_builder_new("lists", 2);
    struct lw_role role = {.name = "r"};
    struct lw_plan_param param = {.name = "p", .numel = 1, .tied = -1};
    struct lw_plan p;
    struct lw_err err = {0};

    for (int32_t r = 0; r < 2; r++) {
        lw_builder_role(b, &role);
        lw_builder_rank(b, r, r, r, 0, 0);
    }
    for (int i = 0; i < 10; i++)
        lw_builder_param(b, &param);
    lw_builder_stream(b, "compute", LW_STREAM_COMPUTE, 0);
    lw_builder_variant(b, "first", "", true);
    lw_builder_variant(b, "steady", "", true);
    lw_builder_program(b, 0, 0);
    add_ready(b, 1);
    lw_builder_program(b, 0, 1);
    add_ready(b, 9);
    add_ready(b, 1);
    add_ready(b, 1);
    lw_builder_program(b, 1, 0);
    add_ready(b, 1);
    lw_builder_program(b, 1, 1);
    add_ready(b, 9);
    lw_builder_pass(b, 0);
    lw_builder_pass(b, 1);
    assert_int_equal(lw_builder_finish(b, &p, &err), LW_OK);
    assert_int_equal(p.n_ops, 6);
    for (int32_t i = 0; i < p.n_ops; i++) {
        assert_int_equal(p.ops[i].n_ready, 1);
        assert_true(p.ops[i].first_ready < p.n_ready);
        assert_int_equal(p.ready[p.ops[i].first_ready], expected[i]);
    }
    assert_int_equal(p.n_ready, 3);
    lw_plan_free(&p);
}

TEST(passes_must_end_steps)
{
    struct lw_plan p = example();

    p.variants[1].ends_step = false;
    assert_fault(&p, "no pass from 1 on ends a step");
    p.variants[1].ends_step = true;
    p.repeat_from = 2;
    assert_fault(&p, "at repeat_from: found 2, allowed: 0 to 1");
    lw_plan_free(&p);
}

/* --- communication between roles -------------------------------------------------------------- */

/* Roles of one rank each, one program; streams 0 compute, 1 and 2 comm; classes "x" and "y" over
 * all ranks, on streams 1 and 2. */
static struct lw_builder *roles(int32_t n)
{
    struct lw_builder *b = lw_builder_new("roles", n);
    int32_t members[8];
    char name[16];

    for (int32_t r = 0; r < n; r++) {
        struct lw_role role = {.name = name, .stage = 0};
        snprintf(name, sizeof name, "r%d", r);
        lw_builder_role(b, &role);
        members[r] = r;
    }
    for (int32_t r = 0; r < n; r++)
        lw_builder_rank(b, r, r, r, 0, 0);
    lw_builder_stream(b, "compute", LW_STREAM_COMPUTE, 0);
    for (int32_t c = 0; c < 2; c++) {
        int32_t stream = lw_builder_stream(b, c ? "comm y" : "comm x", LW_STREAM_COMM, 1);
        lw_builder_comm(b, c ? "y" : "x", LW_COMM_WORLD, LW_REDUCER_AUTO, stream);
        lw_builder_group(b, c, members, n);
    }
    lw_builder_variant(b, "only", "", true);
    lw_builder_pass(b, 0);
    return b;
}

static int32_t add(struct lw_builder *b, enum lw_op_kind kind, int32_t comm, int64_t bytes,
                   int32_t peer, int32_t call, int32_t dep)
{
    struct lw_op o = lw_builder_blank(kind, comm < 0 ? 0 : 1 + comm);

    o.comm = comm;
    o.bytes = bytes;
    o.peer = peer;
    o.call = call;
    return lw_builder_op(b, &o, &dep, dep >= 0);
}

static struct lw_plan finish(struct lw_builder *b)
{
    struct lw_plan p;
    struct lw_err err = {0};

    assert_int_equal(lw_builder_finish(b, &p, &err), LW_OK);
    return p;
}

static void assert_checks(struct lw_builder *b, const char *fault)
{
    struct lw_plan p = finish(b);
    struct lw_err err = {0};

    if (fault)
        assert_fault(&p, fault);
    else if (lw_plan_check(&p, &err) != LW_OK)
        fail_msg("%s", err.msg);
    lw_plan_free(&p);
}

TEST(collectives_are_issued_in_one_order)
{
    for (int swapped = 0; swapped < 2; swapped++) {
        struct lw_builder *b = roles(2);
        for (int32_t r = 0; r < 2; r++) {
            lw_builder_program(b, 0, r);
            add(b, LW_OP_ALL_REDUCE, 0, r && swapped ? 200 : 100, -1, -1, -1);
            add(b, LW_OP_ALL_REDUCE, 0, r && swapped ? 100 : 200, -1, -1, -1);
        }
        assert_checks(b, swapped
                             ? "communicator 'x': op 0 (all_reduce) of 'only' for role 'r0' and "
                               "op 2 (all_reduce) of 'only' for role 'r1' meet, but their bytes "
                               "differ: 100 and 200"
                             : NULL);
    }
    struct lw_builder *b = roles(2);
    lw_builder_program(b, 0, 0);
    add(b, LW_OP_ALL_REDUCE, 0, 100, -1, -1, -1);
    lw_builder_program(b, 0, 1);
    assert_checks(b, "role 'r0' issues 1 collectives, role 'r1' issues 0");
}

/* Ranks 0 and 1 of one role say 64 bytes in the op, 2 and 3 of the other in a row of operands,
 * whose second entry meets rank 1 in the second group of these roles. */
TEST(operands_of_each_group_are_compared)
{
    for (int64_t second = 64; second < 66; second++) {
        struct lw_builder *b = lw_builder_new("halves", 4);
        struct lw_operand row[] = {{64, 0, -1}, {second, 0, -1}};
        lw_builder_role(b, &(struct lw_role){.name = "low"});
        lw_builder_role(b, &(struct lw_role){.name = "high", .stage = 1});
        lw_builder_stream(b, "comm", LW_STREAM_COMM, 1);
        lw_builder_comm(b, "halves", LW_COMM_MODEL, LW_REDUCER_AUTO, 0);
        for (int32_t r = 0; r < 4; r++)
            lw_builder_rank(b, r, r / 2, r % 2, r / 2, 0);
        for (int32_t r = 0; r < 2; r++)
            lw_builder_group(b, 0, (int32_t[]){r, r + 2}, 2);
        int32_t rows = lw_builder_operand_row(b, row, 2);
        lw_builder_variant(b, "only", "", true);
        lw_builder_pass(b, 0);
        for (int32_t role = 0; role < 2; role++) {
            lw_builder_program(b, 0, role);
            struct lw_op o = lw_builder_blank(LW_OP_ALL_REDUCE, 0);
            o.comm = 0;
            o.bytes = role == 0 ? 64 : 0;
            o.operand = role == 0 ? -1 : rows;
            lw_builder_op(b, &o, NULL, 0);
        }
        assert_checks(b, second == 64 ? NULL : "but their bytes differ: 64 and 65");
    }
}

TEST(roots_are_equal_and_members)
{
    struct lw_builder *b = roles(3);

    for (int32_t r = 0; r < 3; r++) {
        lw_builder_program(b, 0, r);
        add(b, LW_OP_BROADCAST, 0, 8, r == 2, -1, -1);
    }
    assert_checks(b, "their roots differ: 0 and 1");
    b = roles(2);
    for (int32_t r = 0; r < 2; r++) {
        lw_builder_program(b, 0, r);
        add(b, LW_OP_BROADCAST, 0, 8, -1, -1, -1);
    }
    assert_checks(b, "its root, rank -1, is not a member of group 0");
}

TEST(sends_meet_receives_of_equal_bytes)
{
    static const struct {
        int64_t sent, received;
        const char *fault;
    } cases[] = {
        {64, 64, NULL},
        {64, 32,
         "op 0 (send) of 'only' for role 'r0' sends 64 bytes from rank 0, but op 1 (recv) of "
         "'only' for role 'r1' takes 32 on rank 1"},
        {64, -1, "op 0 (send) of 'only' for role 'r0' on rank 0: rank 1 never receives it"},
        {-1, 64, "(recv) of 'only' for role 'r1' on rank 1: rank 0 never sends it"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lw_builder *b = roles(2);
        lw_builder_program(b, 0, 0);
        if (cases[i].sent >= 0)
            add(b, LW_OP_SEND, 0, cases[i].sent, 1, -1, -1);
        lw_builder_program(b, 0, 1);
        if (cases[i].received >= 0)
            add(b, LW_OP_RECV, 0, cases[i].received, 0, -1, -1);
        assert_checks(b, cases[i].fault);
    }
}

/* Both ranks send first: without buffers neither receives. In one group call it works. */
TEST(two_sends_face_to_face_are_a_deadlock_unless_grouped)
{
    for (int grouped = 0; grouped < 2; grouped++) {
        struct lw_builder *b = roles(2);
        for (int32_t r = 0; r < 2; r++) {
            lw_builder_program(b, 0, r);
            add(b, LW_OP_SEND, 0, 8, 1 - r, grouped ? 7 : -1, -1);
            add(b, LW_OP_RECV, 0, 8, 1 - r, grouped ? 7 : -1, -1);
        }
        assert_checks(b, grouped ? NULL
                                 : "deadlock: on rank 0, op 0 (send) of 'only' for role 'r0' "
                                   "waits for op 3 (recv) of 'only' for role 'r1' on rank 1, "
                                   "that for op 2 (send) of 'only' for role 'r1' on rank 1, "
                                   "that for op 1 (recv) of 'only' for role 'r0' on rank 0, "
                                   "that for the first");
    }
}

/* Each op of a call is looked at a fixed number of times: a quadratic check does not end. */
TEST(a_call_of_a_hundred_thousand_messages_is_checked)
{
    struct lw_builder *b = roles(2);

    for (int32_t r = 0; r < 2; r++) {
        lw_builder_program(b, 0, r);
        for (int32_t i = 0; i < 100000; i++)
            add(b, r ? LW_OP_RECV : LW_OP_SEND, 0, 8, 1 - r, 7, -1);
    }
    assert_checks(b, NULL);
}

/* Rank 0 lets y wait for x, rank 1 lets x wait for y. */
TEST(communicators_that_wait_for_each_other_crosswise_are_a_deadlock)
{
    for (int crossed = 0; crossed < 2; crossed++) {
        struct lw_builder *b = roles(2);
        lw_builder_program(b, 0, 0);
        int32_t x = add(b, LW_OP_ALL_REDUCE, 0, 8, -1, -1, -1);
        add(b, LW_OP_ALL_REDUCE, 1, 8, -1, -1, x);
        lw_builder_program(b, 0, 1);
        if (crossed) {
            int32_t y = add(b, LW_OP_ALL_REDUCE, 1, 8, -1, -1, -1);
            add(b, LW_OP_ALL_REDUCE, 0, 8, -1, -1, y);
        } else {
            int32_t first = add(b, LW_OP_ALL_REDUCE, 0, 8, -1, -1, -1);
            add(b, LW_OP_ALL_REDUCE, 1, 8, -1, -1, first);
        }
        assert_checks(b, crossed ? "deadlock: on rank 0, op 0 (all_reduce) of 'only' for role 'r0' "
                                   "waits for op 3 (all_reduce) of 'only' for role 'r1' on rank 1, "
                                   "that for op 2 (all_reduce) of 'only' for role 'r1' on rank 1, "
                                   "that for op 1 (all_reduce) of 'only' for role 'r0' on rank 0, "
                                   "that for the first"
                                 : NULL);
    }
}

/* 8 ranks of two roles: four pairs that send down and back up. Roles stand for their ranks; with
 * one pair crossed (operands), ranks are run one by one. */
static struct lw_plan pairs(bool crossed, bool deadlock)
{
    struct lw_builder *b = lw_builder_new("pairs", 8);
    struct lw_operand down[4], up[4];

    lw_builder_role(b, &(struct lw_role){.name = "top"});
    lw_builder_role(b, &(struct lw_role){.name = "bottom", .stage = 1});
    lw_builder_stream(b, "comm", LW_STREAM_COMM, 1);
    lw_builder_comm(b, "pipe", LW_COMM_FORWARD, LW_REDUCER_AUTO, 0);
    for (int32_t r = 0; r < 8; r++)
        lw_builder_rank(b, r, r / 4, r % 4, r / 4, 0);
    for (int32_t i = 0; i < 4; i++) {
        int32_t partner = crossed && i < 2 ? 1 - i : i;
        int32_t members[] = {i, 4 + partner};
        lw_builder_group(b, 0, members, 2);
        down[i] = (struct lw_operand){64, 0, 4 + partner};
        up[partner] = (struct lw_operand){64, 0, i};
    }
    int32_t to_bottom = lw_builder_operand_row(b, down, 4),
            to_top = lw_builder_operand_row(b, up, 4);
    lw_builder_variant(b, "only", "", true);
    lw_builder_pass(b, 0);
    for (int32_t role = 0; role < 2; role++) {
        lw_builder_program(b, 0, role);
        for (int32_t i = 0; i < 2; i++) {
            bool sends = deadlock ? i == 0 : role == i;
            struct lw_op o = lw_builder_blank(sends ? LW_OP_SEND : LW_OP_RECV, 0);
            o.comm = 0;
            o.operand = role ? to_top : to_bottom;
            lw_builder_op(b, &o, NULL, 0);
        }
    }
    return finish(b);
}

TEST(ranks_of_a_role_are_matched_one_by_one)
{
    struct lw_err err = {0};

    for (int crossed = 0; crossed < 2; crossed++) {
        struct lw_plan p = pairs(crossed, false);
        assert_int_equal(lw_plan_check(&p, &err), LW_OK);
        p.operands[2].bytes = 65;
        assert_fault(&p, "takes 64");
        p.operands[2].bytes = 64;
        p.operands[2].peer = 0;
        assert_fault(&p, "peer 0 is not in its group");
        lw_plan_free(&p);
        p = pairs(crossed, true);
        assert_fault(&p, "deadlock: on ranks of role 0");
        lw_plan_free(&p);
    }
}

TEST(thousands_of_ranks_cost_no_more_than_their_roles)
{
    struct tiny t;
    struct lw_strategy s = strategy("dp 4096");
    struct lw_plan p;
    struct lw_err err = {0};

    tiny_init(&t);
    assert_int_equal(lw_plan_build(&t.w, &s, NULL, &p, &err), LW_OK);
    assert_int_equal(p.n_roles, 1);
    assert_int_equal(p.groups[0].n_members, 4096);
    assert_int_equal(lw_plan_check(&p, &err), LW_OK);
    lw_plan_free(&p);
}

/* --- any content ------------------------------------------------------------------------------ */

/* Put a hostile value into one word of a table, check, put the old one back. Under the sanitizers
 * this proves that nothing is read outside the tables. */
static void poke(struct lw_plan *p, int32_t *word, struct prng *x, int64_t *found)
{
    static const int32_t bad[] = {-2147483647 - 1, -2, -1, 0, 1, 2, 3, 7, 31, 1000, 2147483647};
    int32_t old = *word;
    struct lw_err err = {0};

    *word = prng_below(x, 4) ? bad[prng_below(x, sizeof bad / sizeof *bad)] : (int32_t)prng_next(x);
    enum lw_status s = lw_plan_check(p, &err);
    if (s != LW_OK && s != LW_EPLAN)
        fail_msg("status %d: %s", (int)s, err.msg);
    *found += s == LW_EPLAN;
    *word = old;
}

static void poke_all(struct lw_plan *p, int rounds, struct prng *x)
{
    struct {
        void *at;
        int64_t n;
        size_t size, ints; /* bytes of an entry, of which the first are plain words */
    } tables[] = {
#define TABLE(field, count) {p->field, p->count, sizeof *p->field, sizeof *p->field}
        TABLE(role_of, n_ranks),
        TABLE(index_in_role, n_ranks),
        TABLE(groups, n_groups),
        TABLE(members, n_members),
        TABLE(buckets, n_buckets),
        TABLE(slots, n_slots),
        TABLE(offsets, n_offsets),
        TABLE(shards, n_shards),
        TABLE(works, n_works),
        TABLE(deps, n_deps),
        TABLE(ready, n_ready),
        TABLE(operand_first, n_operand_rows),
        TABLE(operands, n_operands),
        TABLE(pass_variant, n_passes),
        TABLE(stage_of, n_modules),
        {p->programs, (int64_t)p->n_variants * p->n_roles, sizeof *p->programs,
         sizeof *p->programs},
        {p->comm_group, (int64_t)p->n_comms * p->n_ranks, 4, 4},
        {p->ops, p->n_ops, sizeof *p->ops, offsetof(struct lw_op, name)},
        {p->ops, p->n_ops, sizeof *p->ops, offsetof(struct lw_op, name)},
        {p->ops, p->n_ops, sizeof *p->ops, offsetof(struct lw_op, name)},
#undef TABLE
    };
    int64_t found = 0;

    for (int i = 0; i < rounds; i++) {
        size_t k = prng_next(x) % (sizeof tables / sizeof *tables);
        if (tables[k].n == 0)
            continue;
        char *entry = (char *)tables[k].at + prng_next(x) % (uint64_t)tables[k].n * tables[k].size;
        poke(p, (int32_t *)(void *)(entry + prng_next(x) % (tables[k].ints / 4) * 4), x, &found);
    }
    assert_true(found > rounds / 4);
}

TEST(hostile_numbers_never_lead_outside_a_table)
{
    struct prng x = prng_start("hostile numbers");
    struct lw_plan p = example();
    struct lw_err err = {0};

    poke_all(&p, 20000, &x);
    write_tables(&p);
    poke_all(&p, 20000, &x);
    assert_int_equal(lw_plan_check(&p, &err), LW_OK);
    lw_plan_free(&p);
    p = pairs(true, false);
    poke_all(&p, 20000, &x);
    assert_int_equal(lw_plan_check(&p, &err), LW_OK);
    lw_plan_free(&p);
    p = pairs(false, false);
    poke_all(&p, 20000, &x);
    lw_plan_free(&p);
}

TEST(a_failing_allocation_leaks_nothing)
{
    int64_t outside = lw_alloc_live();

    for (int which = 0; which < 2; which++) {
        struct lw_plan p = which ? pairs(true, false) : example();
        struct lw_err err = {0};
        EACH_ALLOCATION_FAILS_IN(3, lw_plan_check(&p, &err));
        lw_plan_free(&p);
    }
    assert_int_equal(lw_alloc_live(), outside);
}

/* A check without memory says so, and never gives the ring of the first run, of hosts, for that of
 * the second. */
TEST(a_failing_allocation_is_not_a_deadlock)
{
    struct lw_plan p = pairs(false, true);
    struct lw_err whole = {0}, err = {0};
    enum lw_status s = LW_ENOMEM;

    assert_int_equal(lw_plan_check(&p, NULL), LW_EPLAN);
    assert_int_equal(lw_plan_check(&p, &whole), LW_EPLAN);
    for (int64_t n = 1; s == LW_ENOMEM; n++) {
        lw_alloc_fail_at(n);
        s = lw_plan_check(&p, &err);
        lw_alloc_fail_at(0);
    }
    assert_int_equal(s, LW_EPLAN);
    assert_string_equal(err.msg, whole.msg);
    lw_plan_free(&p);
}

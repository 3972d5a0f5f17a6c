/* Execution traces into the profiler's traces of the same steps. */
#include "tests/lib/unit.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/io/input.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/failing_alloc.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"
#include "tests/lib/traces/kineto_text.h"
#include "traces/et/et_join.h"
#include "traces/trace/kernel_launches.h"
#include "traces/trace/runtime_calls.h"

TEST_GROUP(fixture_open, fixture_close)

#define PAIR "$R/execution/ddp_mlp__gloo2."

static enum lw_status read_et(const char *text, struct traces_et *e, struct lw_err *err)
{
    size_t len = strlen(text);
    struct lw_input in = {.name = "e.json", .text = calloc(len + LW_JSON_PADDING, 1), .len = len};

    for (size_t i = 0; i < len; i++) /* texts of the tests have ' for " */
        in.text[i] = text[i] == '\'' ? '"' : text[i];
    enum lw_status status = traces_et_read_calls(&in, e, err);
    free(in.text);
    return status;
}

/* One process, two streams beside the communication's. a is made on stream 7, b on stream 8, and
 * the all-reduce is of a: 3 elements of i64 in group "4" of 2 ranks. */
#define OPS(record)                                                                              \
    X("cpu_op", "aten::mul", "1", "10", "9", record "1") ","                                     \
    X("cpu_op", "aten::neg", "1", "20", "9", record "2") ","                                     \
    X("cpu_op", "record_param_comms", "1", "30", "9", record "3") ","                            \
    X("user_annotation", "nccl:all_reduce", "1", "31", "7", record "4")
#define WORK                                                                                     \
    LAUNCH("1", "11") "," KERNEL("a", "7", "1", "12", "2") "," LAUNCH("2", "21") ","             \
    KERNEL("b", "8", "2", "22", "2") "," LAUNCH("3", "32") ","                                   \
    KERNEL("ncclKernel_AllReduce", "20", "3", "33", "5")
#define NODE(name, rf, parent, in, out)                                                          \
    "{'name': '" name "', 'id': " rf "0, 'rf_id': " rf ", 'parent': " parent ", 'tid': 5,"       \
    " 'op_schema': '', 'inputs': [" in "], 'input_types': ['Tensor(long int)'],"                 \
    " 'outputs': [" out "]}"
#define TENSOR(storage) "[1, " storage ", 0, 3, 8, 'cuda:0']"

static const char et[] =
    "{'schema': '1.0.1', 'pid': 1, 'nodes': ["
    NODE("aten::mul", "1", "5", TENSOR("100"), TENSOR("101")) ","
    NODE("aten::neg", "2", "5", TENSOR("100"), TENSOR("102")) ","
    NODE("record_param_comms", "3", "5", TENSOR("101") ", 7, ['4', ''], 0, 'allreduce'",
         TENSOR("101")) ","
    NODE("nccl:all_reduce", "4", "30", TENSOR("101"), "") ","
    "{'name': '## process_group:init ##', 'id': 1, 'rf_id': 9, 'parent': 5, 'tid': 5,"
    " 'inputs': ['[{\\'pg_name\\': \\'4\\', \\'ranks\\': [0, 3]}]']}]}";

static void open_trace(const char *text, struct lw_trace *t)
{
    struct lw_err err = {0};

    assert_ok(kineto_text(text, NULL, t, &err), err);
    assert_ok(lw_trace_sort(t, &err), err);
}

static int64_t row_named(const struct lw_trace *t, const char *name)
{
    for (int64_t i = 0; i < t->n; i++)
        if (strcmp(lw_trace_name(t, i), name) == 0)
            return i;
    fail_msg("no row %s", name);
    return -1;
}

static void is_joined(struct lw_trace *t, const char *how)
{
    struct traces_et e;
    struct lw_err err = {0};

    assert_ok(read_et(et, &e, &err), err);
    assert_ok(traces_et_join(t, "t.json", &e, &err), err);
    has(lw_trace_text(t, t->joined), how);
    traces_et_free(&e);
}

TEST(collectives_get_sizes_groups_and_what_they_wait_for)
{
    static const char *const traces[] = {
        "[" OPS("\"External id\":77,\"Record function id\":") "," WORK "]",
        "[" OPS("\"External id\":10") "," WORK "]", /* "101" to "104" */
    };

    for (int k = 0; k < 2; k++) {
        struct lw_trace t;
        open_trace(traces[k], &t);
        is_joined(&t, k == 0 ? "4 of its 4 calls by Record function id"
                             : "4 of its 4 calls by their order on each thread");
        const struct lw_row_detail *d = lw_trace_detail(&t, row_named(&t, "nccl:all_reduce"));
        assert_string_equal(lw_trace_text(&t, d->op), "all_reduce");
        assert_string_equal(lw_trace_text(&t, d->group), "4");
        assert_string_equal(lw_trace_text(&t, d->dtype), "i64");
        assert_int_equal(d->in_numel, 3);
        assert_int_equal(d->group_size, 2);
        assert_int_equal(t.n_edges, 1);
        assert_int_equal(t.edges[0].to, row_named(&t, "nccl:all_reduce"));
        assert_int_equal(t.edges[0].from, row_named(&t, "aten::mul"));
        lw_trace_free(&t);
    }
}

/* Without the edge the all-reduce is taken to wait for the launch before it, of b. */
TEST(a_collective_waits_for_the_stream_that_made_its_data)
{
    for (int joined = 0; joined < 2; joined++) {
        struct lw_trace t;
        struct lw_arena arena = {0};
        struct traces_launches launches;
        struct traces_calls calls;
        open_trace("[" OPS("\"Record function id\":") "," WORK "]", &t);
        if (joined)
            is_joined(&t, "data edges");
        assert_int_equal(traces_launches_build(&t, &arena, &launches, NULL), LW_OK);
        assert_int_equal(traces_calls_build(&t, &launches, NULL, &arena, &calls, NULL), LW_OK);
        assert_int_equal(calls.n, 3);
        assert_true(calls.calls[2].comm);
        assert_int_equal(calls.calls[2].follows, joined ? 0 : 1);
        lw_arena_free(&arena);
        lw_trace_free(&t);
    }
}

TEST(calls_that_occur_twice_are_taken_as_the_first)
{
    struct lw_trace t;

    open_trace("[" OPS("\"External id\":10") ","
               X("cpu_op", "aten::mul", "1", "110", "9", "\"External id\":111") ","
               X("cpu_op", "aten::neg", "1", "120", "9", "\"External id\":112") ","
               X("cpu_op", "record_param_comms", "1", "130", "9", "\"External id\":113") ","
               X("user_annotation", "nccl:all_reduce", "1", "131", "7", "\"External id\":114") "]",
               &t);
    is_joined(&t, "its calls occur 2 times: taken as the first");
    assert_int_equal(lw_trace_detail(&t, 3)->in_numel, 3);
    assert_int_equal(lw_trace_detail(&t, 7)->in_numel, -1);
    lw_trace_free(&t);
}

TEST(what_the_profiler_recorded_is_kept)
{
    struct lw_trace t;

    open_trace("[" X("cpu_op", "aten::mul", "1", "10", "9", "\"Record function id\":1") ","
               X("cpu_op", "aten::neg", "1", "20", "9", "\"Record function id\":2") ","
               X("cpu_op", "record_param_comms", "1", "30", "9",
                 "\"Record function id\":3,\"Collective name\":\"allreduce\",\"dtype\":\"Float\","
                 "\"In msg nelems\":5,\"Out msg nelems\":5,\"Group size\":8") ","
               X("user_annotation", "nccl:all_reduce", "1", "31", "7",
                 "\"Record function id\":4") "]", &t);
    is_joined(&t, "4 of its 4");
    const struct lw_row_detail *d = lw_trace_detail(&t, row_named(&t, "record_param_comms"));
    assert_int_equal(d->in_numel, 5);
    assert_string_equal(lw_trace_text(&t, d->dtype), "Float");
    assert_int_equal(d->group_size, 8);
    lw_trace_free(&t);
}

TEST(files_of_other_steps_are_refused)
{
    struct lw_trace t;
    struct traces_et e;
    struct lw_err err = {0};

    open_trace("[" X("cpu_op", "aten::add", "1", "10", "9", "\"Record function id\":1") ","
               X("cpu_op", "aten::neg", "1", "20", "9", "\"Record function id\":2") "]", &t);
    assert_ok(read_et(et, &e, &err), err);
    assert_int_equal(traces_et_join(&t, "t.json", &e, &err), LW_EINVAL);
    has(err.msg, "e.json and t.json are not of the same process and steps: 1 of 4 calls");
    assert_int_equal(t.joined, -1);
    traces_et_free(&e);
    lw_trace_free(&t);
    assert_int_equal(lw_alloc_live(), 0);
}

static enum lw_status read_and_join(struct lw_trace *t)
{
    struct traces_et e;

    LW_TRY(kineto_text("[" OPS("\"External id\":10") "," WORK "]", NULL, t, NULL));
    enum lw_status status = read_et(et, &e, NULL);
    if (status == LW_OK) {
        status = traces_et_join(t, "t.json", &e, NULL);
        traces_et_free(&e);
    }
    if (status != LW_OK)
        lw_trace_free(t);
    return status;
}

TEST(every_failed_allocation_leaves_nothing)
{
    struct lw_trace t = {0};

    EACH_ALLOCATION_FAILS(20, read_and_join(&t), t, lw_trace_free(&t));
}

/* The recorded pair is of a perceptron of 64 x 256, 256 x 256 and 256 x 8 with biases: 84,488
 * parameters, whose gradients DDP sums as 67,848 (the last two layers) and 16,640 floats, and of an
 * all-reduce of 16. The profiler recorded no shapes. */
TEST(a_recorded_pair_gives_sizes_and_parameters)
{
    const char *said = lapwing("inspect " PAIR "rank0.json.gz " PAIR "rank0.et.json.gz", NULL);

    has(said, "494 of its 494 calls by Record function id; sizes and groups of 6 collectives");
    has(said, "67848  271392");
    has(said, "16640   66560");
    has_not(said, "PyTorch execution trace, schema");
    said = lapwing("inspect " PAIR "rank0.json.gz", NULL);
    has_not(said, "67848");
    shell("cp " PAIR "rank0.et.json.gz again.et.json.gz", NULL);
    EXPECT("import",
           {PAIR "rank0.json.gz " PAIR "rank0.et.json.gz -o w.json --force", 0,
            "6 parameters of 84488 elements", {"3 buckets: 271392, 66560, 64 bytes"}},
           {PAIR "rank0.et.json.gz " PAIR "rank0.json.gz -o w.json --force", 0,
            "6 parameters of 84488 elements"},
           {PAIR "rank1.et.json.gz " PAIR "rank0.json.gz -o w.json --force", 1,
            "rank1.et.json.gz: an execution trace of process"},
           {PAIR "rank0.et.json.gz " PAIR "rank0.json.gz again.et.json.gz -o w.json "
            "--force", 1, "no profiler's trace of that process among the files"});
    expect("sim --replay $R/execution/*.gz --db r.db", 0,
           "execution traces of 1 more ranks joined likewise");
    expect("explain 1 --db r.db", 0, "critical path");
    shell("rm -f r.db* w.json", NULL);
}

/* Sizes are only in the execution traces: 6144 floats, 24 longs and 384 ints among the all-to-alls,
 * 394,241 floats of gradients. */
TEST(an_old_pair_is_joined_by_order)
{
    if (access("../shared/traces/et", F_OK) != 0) {
        print_message("SKIP: ../shared/traces/et is not here\n");
        skip();
    }
    const char *said = lapwing("inspect $P/../shared/traces/kineto/dlrm_8gpu_rank0.json.gz "
                               "$P/../shared/traces/et/dlrm_8gpu_rank0.et.json.gz", NULL);

    has(said, "1672 of its 1672 calls by their order on each thread; sizes and groups of 8");
    has(said, "all_to_all    24576  f32");
    has(said, "all_to_all      192  i64");
    has(said, "all_to_all     1536  i32");
    has(said, "all_reduce  1576964  f32");
    said = lapwing("inspect $P/../shared/traces/kineto/linear_1gpu.json.gz "
                   "$P/../shared/traces/et/linear_1gpu.et.json.gz", NULL);
    has(said, "928 of its 928 calls by their order");
    has(said, "occur 39 times");
}

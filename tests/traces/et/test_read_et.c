/* Execution traces of PyTorch: which calls run on the device, what they cost, what they wait for.
 */
#include "tests/lib/unit.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/io/input.h"
#include "shared/json/json.h"
#include "tests/lib/failing_alloc.h"
#include "tests/lib/files/says.h"
#include "traces/et/et_ops.h"
#include "traces/et/read_et.h"

static enum lw_status read_text(const char *text, struct traces_et *e, struct lw_err *err)
{
    size_t len = strlen(text);
    struct lw_input in = {.name = "t.json", .text = calloc(len + LW_JSON_PADDING, 1), .len = len};

    for (size_t i = 0; i < len; i++) /* texts of the tests have ' for " */
        in.text[i] = text[i] == '\'' ? '"' : text[i];
    enum lw_status status = traces_et_is(in.text, len) ? traces_et_read(&in, e, err)
                                                       : lw_fail(err, LW_EFORMAT, "not ET");
    free(in.text);
    return status;
}

/* Children come before their parents in the file. a = mm(x, y), of 4 x 3 and 3 x 5 in half
 * precision; a view of it; an all-reduce of the gradient a; a += a after it; an op on the host. */
static const char small[] =
    "{'schema': '1.0.1', 'pid': 1, 'nodes': ["
    "{'name': 'aten::mm', 'id': 3, 'rf_id': 11, 'parent': 2,"
    " 'op_schema': 'aten::mm(Tensor self, Tensor mat2) -> Tensor',"
    " 'inputs': [[1,101,0,12,2,'cuda:0'],[2,102,0,15,2,'cuda:0']],"
    " 'input_shapes': [[4,3],[3,5]], 'input_types': ['Tensor(c10::Half)','Tensor(c10::Half)'],"
    " 'outputs': [[3,103,0,20,2,'cuda:0']], 'output_shapes': [[4,5]]},"
    "{'name': 'aten::matmul', 'id': 2, 'rf_id': 10, 'parent': 1,"
    " 'op_schema': 'aten::matmul(Tensor self, Tensor other) -> Tensor',"
    " 'inputs': [[1,101,0,12,2,'cuda:0'],[2,102,0,15,2,'cuda:0']],"
    " 'input_shapes': [[4,3],[3,5]], 'outputs': [[3,103,0,20,2,'cuda:0']]},"
    "{'name': 'aten::view', 'id': 4, 'rf_id': 12, 'parent': 1,"
    " 'op_schema': 'aten::view(Tensor(a) self, SymInt[] size) -> Tensor(a)',"
    " 'inputs': [[3,103,0,20,2,'cuda:0'],[20]], 'outputs': [[4,103,0,20,2,'cuda:0']]},"
    "{'name': 'nccl:all_reduce', 'id': 6, 'rf_id': 14, 'parent': 5, 'op_schema': '',"
    " 'inputs': [[3,103,0,20,2,'cuda:0']], 'outputs': []},"
    "{'name': 'record_param_comms', 'id': 5, 'rf_id': 13, 'parent': 1, 'op_schema': '',"
    " 'inputs': [[[3,103,0,20,2,'cuda:0']], 7, ['13', 'undefined'], 0, 'allreduce'],"
    " 'outputs': [[[3,103,0,20,2,'cuda:0']]]},"
    "{'name': 'aten::add_', 'id': 7, 'rf_id': 15, 'parent': 1,"
    " 'op_schema': 'aten::add_(Tensor(a!) self, Tensor other) -> Tensor(a!)',"
    " 'inputs': [[3,103,0,20,2,'cuda:0'],[3,103,0,20,2,'cuda:0']],"
    " 'outputs': [[3,103,0,20,2,'cuda:0']]},"
    "{'name': 'aten::add', 'id': 8, 'rf_id': 16, 'parent': 1,"
    " 'op_schema': 'aten::add(Tensor self) -> Tensor', 'inputs': [[9,109,0,20,2,'cpu']],"
    " 'outputs': [[10,110,0,20,2,'cpu']]},"
    "{'name': 'record_param_comms', 'id': 9, 'rf_id': 17, 'parent': 1, 'op_schema': '',"
    " 'inputs': [7, 0, 0, 'wait', [], []], 'outputs': []}]}";

TEST(leaves_on_the_device_are_its_ops)
{
    struct traces_et e;
    struct lw_err err = {0};

    assert_ok(read_text(small, &e, &err), err);
    assert_int_equal(e.n_nodes, 8);
    assert_int_equal(e.n_comm_records, 2);
    assert_int_equal(e.n_nccl, 1);
    assert_int_equal(e.n_views, 1);
    const struct traces_graph *g = &e.graph;
    assert_int_equal(g->n, 3);
    const struct traces_node *mm = &g->nodes[0], *sum = &g->nodes[1], *add = &g->nodes[2];
    assert_string_equal(traces_graph_string(g, mm->name), "aten::mm");
    assert_int_equal(mm->flops, 2 * 4 * 3 * 5);
    assert_int_equal(mm->moved, 2 * (12 + 15 + 20));
    assert_int_equal(mm->dtype, LW_F16);
    assert_true(sum->comm);
    assert_int_equal(sum->op, LW_OP_ALL_REDUCE);
    assert_int_equal(sum->bytes, 40);
    assert_string_equal(traces_graph_string(g, sum->group), "13");
    assert_string_equal(traces_graph_string(g, add->name), "aten::add_");
    /* the sum waits for the product, the addition for the sum */
    assert_int_equal(sum->n_deps, 1);
    assert_int_equal(g->deps[sum->first_dep], 0);
    assert_int_equal(add->n_deps, 1);
    assert_int_equal(g->deps[add->first_dep], 1);
    traces_et_free(&e);
    assert_int_equal(lw_alloc_live(), 0);
}

/* 32 images of 64 x 56 x 56, 128 windows of 64 x 3 x 3, 28 x 28 pixels each: 2 x 32 x 784 x 128 x
 * 576 FLOPs, and twice that backward. */
TEST(convolutions_are_products)
{
    struct et_shape in[ET_INPUTS] = {{4, {32, 64, 56, 56}}, {4, {128, 64, 3, 3}}};
    struct et_shape out[ET_INPUTS] = {{4, {32, 128, 28, 28}}};
    struct et_shape back[ET_INPUTS] = {
        {4, {32, 128, 28, 28}}, {4, {32, 64, 56, 56}}, {4, {128, 64, 3, 3}}};
    struct lw_product p;
    int32_t times;

    assert_true(et_product("aten::cudnn_convolution", in, out, LW_F32, &p, &times));
    assert_int_equal(lw_product_flops(&p), 2L * 32 * 784 * 128 * 576);
    assert_int_equal(times, 1);
    assert_true(et_product("aten::convolution_backward", back, out, LW_F32, &p, &times));
    assert_int_equal(lw_product_flops(&p), 2L * 32 * 784 * 128 * 576);
    assert_int_equal(times, 2);
    assert_false(et_product("aten::relu", in, out, LW_F32, &p, &times));
}

TEST(what_is_no_trace_is_refused)
{
    struct traces_et e;
    struct lw_err err = {0};

    assert_int_equal(read_text("{'schema': '1', 'pid': 1, 'nodes': [{'id': 1", &e, &err),
                     LW_EFORMAT);
    has(err.msg, "t.json");
    assert_int_equal(read_text("{'schema': '1', 'pid': 1, 'nodes': [3]}", &e, &err), LW_EFORMAT);
    has(err.msg, "nodes[0]");
    assert_int_equal(read_text("{'schema': '1', 'pid': 1, 'b': {'nodes': 1}}", &e, &err),
                     LW_EFORMAT);
    has(err.msg, "no \"nodes\"");
    assert_int_equal(lw_alloc_live(), 0);
}

TEST(every_failed_allocation_leaves_nothing)
{
    struct traces_et e = {0};

    EACH_ALLOCATION_FAILS(10, read_text(small, &e, NULL), e, traces_et_free(&e));
}

TEST(real_files_have_the_counts_of_their_truth)
{
    static const struct {
        const char *file, *schema;
        int32_t n_nodes, n_records, n_nccl;
    } want[] = {{"dlrm_8gpu_rank0", "1.0.1", 1675, 13, 8},
                {"dlrm_8gpu_rank1", "1.0.1", 1675, 13, 8},
                {"dlrm_8gpu_rank2", "1.0.1", 1675, 13, 8},
                {"dlrm_8gpu_rank3", "1.0.1", 1675, 13, 8},
                {"dlrm_8gpu_rank4", "1.0.1", 1675, 13, 8},
                {"dlrm_8gpu_rank5", "1.0.1", 1675, 13, 8},
                {"dlrm_8gpu_rank6", "1.0.1", 1675, 13, 8},
                {"dlrm_8gpu_rank7", "1.0.1", 1675, 13, 8},
                {"linear_1gpu", "1.0.1", 931, 0, 0},
                {"megatron_tp2_rank0", "1.1.0-chakra.0.0.4", 1884, 26, 13},
                {"megatron_tp2_rank1", "1.1.0-chakra.0.0.4", 1884, 26, 13},
                {"resnet_ddp_2gpu", "1.1.0-chakra.0.0.4", 14392, 27, 21}};

    if (access("../shared/traces/et", F_OK) != 0) {
        print_message("SKIP real files: ../shared/traces/et is not here\n");
        skip();
    }
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        char path[128];
        struct lw_input in;
        struct traces_et e;
        struct lw_err err = {0};
        snprintf(path, sizeof path, "../shared/traces/et/%s.et.json.gz", want[i].file);
        assert_ok(lw_input_read(path, 0, &in, &err), err);
        assert_ok(traces_et_read(&in, &e, &err), err);
        assert_string_equal(traces_graph_string(&e.graph, e.graph.schema), want[i].schema);
        assert_int_equal(e.n_nodes, want[i].n_nodes);
        assert_int_equal(e.n_comm_records, want[i].n_records);
        assert_int_equal(e.n_nccl, want[i].n_nccl);
        traces_et_free(&e);
        lw_input_free(&in);
    }
}

/* Chakra traces: messages of every schema version, the JSON form, damage, and what they become. */
#include "tests/lib/unit.h"
#include <stdlib.h>
#include <unistd.h>

#include "shared/io/input.h"
#include "shared/json/json.h"
#include "tests/fuzz/graph_target.h"
#include "tests/lib/failing_alloc.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"
#include "tests/lib/traces/chakra_bytes.h"
#include "traces/chakra/read_chakra.h"
#include "traces/graph/graph_plan.h"

static struct lw_input input_of(const struct chakra_bytes *b, const char *name)
{
    struct lw_input in = {.name = name, .text = calloc(b->n + LW_JSON_PADDING, 1), .len = b->n};

    memcpy(in.text, b->v, b->n);
    return in;
}

static enum lw_status read_bytes(const struct chakra_bytes *b, const char *name,
                                 struct traces_graph *g, struct lw_err *err)
{
    struct lw_input in = input_of(b, name);
    enum lw_status status = traces_chakra_is(in.text, in.len)
                                ? traces_chakra_read(&in, g, err)
                                : lw_fail(err, LW_EFORMAT, "not found to be Chakra");

    free(in.text);
    return status;
}

static void refused(const struct chakra_bytes *b, const char *says)
{
    struct traces_graph g;
    struct lw_err err = {0};

    assert_int_equal(read_bytes(b, "t.et", &g, &err), LW_EFORMAT);
    has(err.msg, says);
    assert_int_equal(lw_alloc_live(), 0);
}

/* a (40 us) and b (30 us) on the device, an all-reduce of 1 MiB after a; c (10 us) after both. */
static void small(struct chakra_bytes *b, int first_id, uint64_t comm_us)
{
    chakra_begin(b);
    chakra_node(b, (struct chakra_hand_node){first_id, "a", 4, 40});
    chakra_node(b, (struct chakra_hand_node){first_id + 2, "b", 4, 30});
    chakra_node(b, (struct chakra_hand_node){
                       first_id + 1, "sum", 7, comm_us, {first_id}, 1, .bytes = 1 << 20});
    chakra_node(
        b, (struct chakra_hand_node){first_id + 3, "c", 4, 10, {first_id + 1, first_id + 2}, 2});
}

TEST(messages_become_nodes)
{
    struct chakra_bytes b;
    struct traces_graph g;
    struct lw_err err = {0};

    small(&b, 5, 100);
    assert_ok(read_bytes(&b, "t.et", &g, &err), err);
    assert_int_equal(g.n, 4);
    assert_int_equal(g.n_deps, 3);
    assert_string_equal(traces_graph_string(&g, g.schema), "0.0.4");
    const struct traces_node *sum = &g.nodes[2];
    assert_int_equal(sum->id, 6);
    assert_int_equal(sum->type, TRACES_NODE_COLL);
    assert_int_equal(sum->op, LW_OP_ALL_REDUCE);
    assert_int_equal(sum->bytes, 1 << 20);
    assert_int_equal(sum->time, 100 * LW_PS_PER_US);
    assert_true(sum->comm);
    assert_false(sum->host);
    assert_int_equal(g.deps[sum->first_dep], 0); /* a, by index */
    assert_int_equal(g.order[3], 3);
    traces_graph_free(&g);
    assert_int_equal(lw_alloc_live(), 0);
}

TEST(damage_is_named_with_its_byte)
{
    struct chakra_bytes b;
    size_t whole;

    small(&b, 0, 100);
    whole = b.n;
    b.n = whole - 3; /* within the last node */
    refused(&b, "the file is cut or damaged after 3 nodes");
    b.n = whole;
    chakra_varint(&b, 2); /* a message whose field 2 has no length */
    b.v[b.n++] = 0x12;
    b.v[b.n++] = 0x7f;
    refused(&b, "the message is not a Chakra node");
    b.n = whole;
    b.v[b.n++] = 0x80;
    refused(&b, "the file ends within the length of a message");
    b.n = whole;
    b.v[b.n++] = 0;
    refused(&b, "an empty message");
    small(&b, 0, 100);
    chakra_node(&b, (struct chakra_hand_node){9, "odd", 12, 1});
    refused(&b, "node 9 'odd': type 12, expected 0 to 10");
    small(&b, 0, 100);
    chakra_node(&b, (struct chakra_hand_node){9, "odd", 7, 1, .comm = 77});
    refused(&b, "node 9 'odd': comm_type 77, expected 0 to 9");
    small(&b, 0, 100);
    chakra_node(&b, (struct chakra_hand_node){0, "twin", 4, 1});
    refused(&b, "nodes 'a' and 'twin' both have id 0");
}

static struct chakra_bytes begun_with(const struct chakra_bytes *first, int n_first)
{
    struct chakra_bytes b = {.n = 0};

    if (n_first > 0)
        chakra_message(&b, first);
    chakra_node(&b, (struct chakra_hand_node){0, "a", 4, 40});
    chakra_node(&b, (struct chakra_hand_node){1, "b", 4, 30, {0}, 1});
    return b;
}

/* GlobalMetadata of October 2023 (attributes under 1), one that is empty, and none. */
TEST(files_may_begin_in_other_ways)
{
    struct chakra_bytes older = {.n = 0}, empty = {.n = 0};
    struct traces_graph g;
    struct lw_err err = {0};

    chakra_text_attr(&older, 1, "schema", "1.0.2");
    for (int i = 0; i < 3; i++) {
        struct chakra_bytes b = begun_with(i == 0 ? &older : &empty, i < 2);
        assert_ok(read_bytes(&b, "t.et", &g, &err), err);
        assert_int_equal(g.n, 2);
        assert_int_equal(g.n_deps, 1);
        assert_int_equal(g.by_data, i == 0);
        assert_string_equal(traces_graph_string(&g, g.schema), i == 0 ? "1.0.2" : "");
        traces_graph_free(&g);
    }
    assert_int_equal(lw_alloc_live(), 0);
}

/* Inputs as a text under 6, and attributes under 11. */
TEST(nodes_of_the_schema_before_0_0_4_are_refused)
{
    for (int field = 6; field <= 11; field += 5) {
        struct chakra_bytes b = {.n = 0}, m = {.n = 0}, a = {.n = 0};
        chakra_part(&a, 1, "runtime", 7);
        chakra_field(&m, 1, 3);
        chakra_part(&m, 2, "old", 3);
        chakra_field(&m, 3, 4);
        chakra_part(&m, field, field == 11 ? a.v : (const uint8_t *)"[]", field == 11 ? a.n : 2);
        chakra_message(&b, &m);
        refused(&b, "byte 1: a node of Chakra's schema before 0.0.4 (October 2023)");
    }
}

TEST(nodes_of_storage_and_batches_are_the_hosts)
{
    static const char *const names[] = {"STORAGE", "BATCH", "CHECKPOINT"};
    struct chakra_bytes b;
    struct traces_graph g;
    struct lw_plan plan;
    struct lw_err err = {0};

    chakra_begin(&b);
    for (int i = 0; i < 3; i++)
        chakra_node(&b, (struct chakra_hand_node){(uint64_t)i, "x", 8 + i, 5});
    assert_ok(read_bytes(&b, "t.et", &g, &err), err);
    assert_ok(traces_graphs_plan(&g, 1, NULL, &plan, &err), err);
    assert_int_equal(plan.n_ops, 3);
    for (int i = 0; i < 3; i++) {
        assert_string_equal(traces_node_type_name(g.nodes[i].type), names[i]);
        assert_int_equal(plan.ops[i].kind, LW_OP_HOST);
        assert_int_equal(plan.ops[i].work_ps, 5 * LW_PS_PER_US);
    }
    lw_plan_free(&plan);
    traces_graph_free(&g);
    assert_int_equal(lw_alloc_live(), 0);
}

TEST(lengths_in_four_bytes_of_either_order_are_recognised)
{
    static const uint8_t big[] = {0, 0, 0, 7, 10, 5, '0', '.', '0', '.', '4', 0, 0, 0, 2, 8, 1};
    static const uint8_t little[] = {7, 0, 0, 0, 10, 5, '0', '.', '0', '.', '4', 2, 0, 0, 0, 8, 1};
    struct chakra_bytes b = {.n = sizeof big};

    memcpy(b.v, big, sizeof big);
    refused(&b, "lengths of messages are big-endian numbers of 4 bytes, expected varints");
    memcpy(b.v, little, sizeof little);
    refused(&b, "lengths of messages are little-endian numbers of 4 bytes, expected varints");
}

TEST(a_cycle_is_named)
{
    struct chakra_bytes b;

    chakra_begin(&b);
    chakra_node(&b, (struct chakra_hand_node){1, "start", 4, 1});
    chakra_node(&b, (struct chakra_hand_node){2, "x", 4, 1, {1, 4}, 2});
    chakra_node(&b, (struct chakra_hand_node){3, "y", 4, 1, {2}, 1});
    chakra_node(&b, (struct chakra_hand_node){4, "z", 4, 1, {3}, 1});
    chakra_node(&b, (struct chakra_hand_node){5, "after", 4, 1, {4}, 1});
    refused(&b, "dependencies form a cycle of 3 nodes, each waits for the next: ");
    refused(&b, "2 'x', 4 'z', 3 'y'");
    chakra_begin(&b);
    chakra_node(&b, (struct chakra_hand_node){7, "itself", 4, 1, {7}, 1});
    refused(&b, "a cycle of 1 node, each waits for the next: 7 'itself'");
}

TEST(json_is_the_same_graph_whatever_the_case_of_its_keys)
{
    static const char text[] =
        "{\"Version\": 1, \"workload_graph\": [\n"
        "{\"Id\": 0, \"Name\": \"a\", \"NodeType\": 4, \"runtime\": 40.5, \"is_cpu_op\": false},\n"
        "{\"id\": \"1\", \"NAME\": \"sum\", \"node_type\": \"COMM_COLL_NODE\", \"Runtime\": 100,\n"
        " \"data_deps\": [0], \"is_cpu_op\": 0, \"comm_type\": \"ALL_REDUCE\","
        " \"comm_size\": \"1048576\", \"pg_name\": \"3\"},\n"
        "{\"Id\": 2, \"Name\": \"put\", \"NodeType\": 5, \"runtime\": 1, \"comm_src\": 0,"
        " \"comm_dst\": 1, \"comm_size\": 8, \"data_deps\": [\"1\"]}]}";
    struct lw_input in = {
        .name = "t.json", .text = calloc(sizeof text + LW_JSON_PADDING, 1), .len = sizeof text - 1};
    struct traces_graph g;
    struct lw_err err = {0};

    memcpy(in.text, text, sizeof text);
    assert_true(traces_chakra_is_json(in.text, in.len));
    assert_ok(traces_chakra_read_json(&in, &g, &err), err);
    assert_int_equal(g.n, 3);
    assert_int_equal(g.nodes[0].time, 40500 * LW_PS_PER_NS);
    assert_int_equal(g.nodes[1].op, LW_OP_ALL_REDUCE);
    assert_int_equal(g.nodes[1].bytes, 1048576);
    assert_string_equal(traces_graph_string(&g, g.nodes[1].group), "3");
    assert_int_equal(g.nodes[2].peer, 1);
    assert_int_equal(g.deps[g.nodes[2].first_dep], 1);
    traces_graph_free(&g);
    free(in.text);
    assert_int_equal(lw_alloc_live(), 0);
}

TEST(every_failed_allocation_leaves_nothing)
{
    struct chakra_bytes b;
    struct traces_graph g = {0};

    small(&b, 0, 100);
    EACH_ALLOCATION_FAILS(20, read_bytes(&b, "t.et", &g, NULL), g, traces_graph_free(&g));
}

/* ---- real files ---- */

TEST(real_files_have_the_counts_of_their_truth)
{
    static const struct {
        const char *file;
        int64_t bytes;
        int32_t n, n_comp, n_coll, n_comm;
    } want[] = {
        {"astrasim_alltoall_16npu_rank9.et", 84, 1, 0, 1, 1},
        {"megatron_tp2_rank0.et.gz", 920223, 2128, 2089, 39, 13},
        {"megatron_tp2_rank1.et.gz", 920132, 2128, 2089, 39, 13},
        {"resnet50_ddp_schema101.et.gz", 2978371, 3664, 3643, 21, 7},
    };

    if (access("../shared/traces/chakra", F_OK) != 0) {
        print_message("SKIP real files: ../shared/traces/chakra is not here\n");
        skip();
    }
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        char path[128];
        struct lw_input in;
        struct traces_graph g;
        struct lw_err err = {0};
        int32_t n[TRACES_N_NODE_TYPES] = {0}, n_comm = 0;
        snprintf(path, sizeof path, "../shared/traces/chakra/%s", want[i].file);
        assert_ok(lw_input_read(path, 0, &in, &err), err);
        assert_true(traces_chakra_is(in.text, in.len));
        assert_ok(traces_chakra_read(&in, &g, &err), err);
        for (int32_t k = 0; k < g.n; k++) {
            n[g.nodes[k].type]++;
            n_comm += g.nodes[k].comm;
        }
        assert_int_equal(g.n_bytes, want[i].bytes);
        assert_int_equal(g.n, want[i].n);
        assert_int_equal(n[TRACES_NODE_COMP], want[i].n_comp);
        assert_int_equal(n[TRACES_NODE_COLL], want[i].n_coll);
        assert_int_equal(n_comm, want[i].n_comm);
        traces_graph_free(&g);
        lw_input_free(&in);
    }
}

TEST(every_fuzz_corpus_file_is_read_or_refused)
{
    assert_true(fixture_corpus("tests/fuzz/corpus/graph", LLVMFuzzerTestOneInput) >= 2);
}

/* PipeDream's profiles: graph.txt and its CSV form become the same workload. */
#include "tests/lib/unit.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/arena.h"
#include "shared/io/input.h"
#include "shared/json/json.h"
#include "tests/lib/failing_alloc.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/fuzz/pipedream_target.h"
#include "traces/import/importer.h"
#include "traces/pipedream/import_pipedream.h"

static enum lw_status read_graph(const char *text, struct lw_profile_graph *g, struct lw_err *err)
{
    size_t len = strlen(text);
    char *copy = calloc(len + LW_JSON_PADDING, 1);
    struct lw_input in = {.name = "graph.txt", .text = copy, .len = len};

    memcpy(copy, text, len);
    enum lw_status status = traces_pipedream_read(&in, g, err);
    free(copy);
    return status;
}

/* Mentioned out of order; node 3 gives a list of activations; the last line has a stage. */
static const char small[] =
    "node1 -- Input0 -- forward_compute_time=9.000, backward_compute_time=0.000, "
    "activation_size=8.0, parameter_size=0.000\n"
    "node4 -- Linear(4, 2, bias=True) -- forward_compute_time=0.500, backward_compute_time=1.250, "
    "activation_size=64.0, parameter_size=40.000\n"
    "node2 -- Embedding(10, 4) -- forward_compute_time=1.000, backward_compute_time=2.000, "
    "activation_size=16.0, parameter_size=160.000\n"
    "node3 -- LSTM(  (a): LSTM(1, 2)) -- forward_compute_time=3.000, backward_compute_time=0.001, "
    "activation_size=[32.0; 8.0; 8.0], parameter_size=0.000 -- stage_id=1\n"
    "\tnode1 -- node2\n"
    "\tnode2 -- node3\n"
    "\tnode3 -- node4\n";

TEST(a_graph_becomes_modules_in_the_order_of_its_edges)
{
    struct lw_profile_graph g;
    struct lw_workload w;
    struct lw_err err = {0};

    assert_ok(read_graph(small, &g, &err), err);
    assert_int_equal(g.n_nodes, 4);
    assert_int_equal(g.n_edges, 3);
    assert_ok(lw_workload_from_pipedream(&g, "a/graph.txt", "00", &w, &err), err);
    assert_string_equal(w.name, "graph");
    assert_string_equal(w.from.format, "pipedream");
    assert_int_equal(w.n_modules, 3); /* without the input */
    assert_string_equal(w.modules[0].name, "node2 Embedding");
    assert_string_equal(w.modules[1].name, "node3 LSTM");
    assert_string_equal(w.modules[2].name, "node4 Linear");
    assert_int_equal(w.modules[1].forward_ps, 3 * LW_PS_PER_MS);
    assert_int_equal(w.modules[1].backward_input_ps, LW_PS_PER_US);
    assert_int_equal(w.modules[1].output_bytes, 48); /* 32 + 8 + 8 */
    assert_int_equal(w.n_params, 2);
    assert_int_equal(w.params[0].numel, 40); /* 160 bytes */
    assert_int_equal(w.params[1].numel, 10);
    /* backward: node4 1.25 ms, node3 0.001, node2 2 */
    assert_int_equal(w.ready_order[0], 1);
    assert_int_equal(w.params[1].ready_ps, 1250 * LW_PS_PER_US);
    assert_int_equal(w.params[0].ready_ps, 3251 * LW_PS_PER_US);
    assert_int_equal(lw_workload_step_ps(&w), (4500 + 3251) * LW_PS_PER_US);
    lw_workload_free(&w);
    lw_profile_graph_free(&g);
    assert_int_equal(lw_alloc_live(), 0);
}

TEST(it_is_found_by_its_first_line)
{
    assert_true(traces_pipedream_is(small, sizeof small - 1));
    assert_false(traces_pipedream_is("node1 -- x\n -- forward_compute_time=", 35));
}

#define NODE(n, f, b, a, p) n " -- Op -- forward_compute_time=" f ", backward_compute_time=" b \
                              ", activation_size=" a ", parameter_size=" p "\n"

TEST(bad_graphs_are_refused_with_file_and_line)
{
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"", "no node"},
        {NODE("a", "1", "1", "1", "1") "hello\n", "graph.txt:2: expected 'NODE"},
        {NODE("a", "x", "1", "1", "1"), "graph.txt:1: 'x' is not a number"},
        {NODE("a", "-1", "1", "1", "1"), "graph.txt:1: '-1'"},
        {NODE("a", "nan", "1", "1", "1"), "graph.txt:1: 'nan'"},
        {NODE("a", "1e300", "1", "1", "1"), "graph.txt:1: '1e300'"},
        {NODE("a", "1", "1", "[1; 2", "1"), "graph.txt:1: a list without ']'"},
        {"a -- Op -- forward_compute_time=1, activation_size=2\n",
         "expected backward_compute_time="},
        {NODE("a", "1", "1", "1", "1") NODE("a", "1", "1", "1", "1"),
         "graph.txt:2: node 'a' is given twice"},
        {NODE("a", "1", "1", "1", "1") "\ta -- b\n", "graph.txt:2: no node 'b'"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lw_profile_graph g;
        struct lw_err err = {0};
        assert_int_equal(read_graph(cases[i].text, &g, &err), LW_EFORMAT);
        if (!strstr(err.msg, cases[i].want))
            fail_msg("%s -> %s", cases[i].text, err.msg);
    }
    assert_int_equal(lw_alloc_live(), 0);
}

TEST(a_cycle_inputs_alone_and_endless_times_give_no_workload)
{
    static const struct {
        const char *text, *want;
    } cases[] = {
        {NODE("a", "1", "1", "1", "1") NODE("b", "1", "1", "1", "1") "\ta -- b\n\tb -- a\n",
         "cycle"},
        {"a -- Input -- forward_compute_time=1, backward_compute_time=1, activation_size=2, "
         "parameter_size=1\n",
         "no node but inputs"},
        {NODE("a", "1e9", "1e9", "1", "1") NODE("b", "1", "1", "1", "1"), "node 'b': 2e+09 ms"},
        {NODE("a", "1", "1", "1", "1e14"), "node 'a'"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lw_profile_graph g;
        struct lw_workload w;
        struct lw_err err = {0};
        assert_int_equal(read_graph(cases[i].text, &g, &err), LW_OK);
        assert_int_equal(lw_workload_from_pipedream(&g, "g", "", &w, &err), LW_EFORMAT);
        if (!strstr(err.msg, cases[i].want))
            fail_msg("%s -> %s", cases[i].text, err.msg);
        lw_profile_graph_free(&g);
    }
    assert_int_equal(lw_alloc_live(), 0);
}

static enum lw_status convert_small(struct lw_workload *w)
{
    struct lw_profile_graph g;
    enum lw_status status = read_graph(small, &g, NULL);

    if (status == LW_OK) {
        status = lw_workload_from_pipedream(&g, "g", "", w, NULL);
        lw_profile_graph_free(&g);
    }
    return status;
}

TEST(failing_allocations_leak_nothing)
{
    struct lw_workload w = {0};

    EACH_ALLOCATION_FAILS(1, convert_small(&w), w, lw_workload_free(&w));
}

/* Sums of the recorded profiles: parameters and times of all nodes but inputs, added up from the
 * CSV (the parameter counts are those of torchvision's models). */
TEST(recorded_profiles_keep_their_sums)
{
    static const struct {
        const char *model;
        int32_t n_modules;
        int64_t numel; /* parameter bytes / 4 */
        lw_ps forward, backward;
    } want[] = {
        {"vgg16", 40, 138357544, 233902 * LW_PS_PER_US, 438633 * LW_PS_PER_US},
        {"resnet50", 176, 25557032, 182488 * LW_PS_PER_US, 260931 * LW_PS_PER_US},
        {"alexnet", 22, 61100840, 44801 * LW_PS_PER_US, 40520 * LW_PS_PER_US},
    };
    static const char folder[] = "../shared/papers/pipedream_profiles/";

    if (access(folder, F_OK) != 0) {
        print_message("SKIP recorded_profiles: ../shared/papers is not here\n");
        skip();
    }
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        char nodes[256], edges[256];
        struct lw_input a, b;
        struct lw_profile_graph g;
        struct lw_workload w;
        struct lw_err err = {0};
        snprintf(nodes, sizeof nodes, "%s%s_nodes.csv", folder, want[i].model);
        snprintf(edges, sizeof edges, "%s%s_edges.csv", folder, want[i].model);
        assert_int_equal(lw_input_read(nodes, 0, &a, &err), LW_OK);
        assert_int_equal(lw_input_read(edges, 0, &b, &err), LW_OK);
        const struct lw_importer *importer;
        assert_int_equal(lw_importer_of(&a, &importer, &err), LW_OK);
        assert_ptr_equal(importer, &lw_importer_pipedream);
        assert_int_equal(lw_importer_of(&b, &importer, &err), LW_OK);
        assert_ptr_equal(importer, &lw_importer_pipedream);
        assert_int_equal(lw_profile_graph_parse(nodes, a.text, edges, b.text, &g, &err), LW_OK);
        assert_int_equal(lw_workload_from_pipedream(&g, nodes, "", &w, &err), LW_OK);
        assert_int_equal(w.n_modules, want[i].n_modules);
        assert_int_equal(lw_workload_numel(&w, false), want[i].numel);
        assert_int_equal(lw_workload_forward_ps(&w), want[i].forward);
        assert_int_equal(lw_workload_backward_ps(&w), want[i].backward);
        lw_workload_free(&w);
        lw_profile_graph_free(&g);
        lw_input_free(&a);
        lw_input_free(&b);
    }
}

TEST(every_fuzz_corpus_file_is_read_or_refused)
{
    assert_true(fixture_corpus("tests/fuzz/corpus/pipedream", LLVMFuzzerTestOneInput) >= 1);
}

/* Graphs of ranks as a plan: matched collectives and messages, and what is missing. Times in us. */
#include "tests/lib/unit.h"
#include <stdlib.h>

#include "shared/io/input.h"
#include "shared/json/json.h"
#include "sim/predict/sim.h"
#include "tests/lib/failing_alloc.h"
#include "tests/lib/files/says.h"
#include "tests/lib/traces/chakra_bytes.h"
#include "traces/chakra/chakra_node.h"
#include "traces/chakra/read_chakra.h"
#include "traces/graph/graph_plan.h"

static void take(struct chakra_bytes *b, const char *name, struct traces_graph *g)
{
    struct lw_input in = {.name = name, .text = calloc(b->n + LW_JSON_PADDING, 1), .len = b->n};
    struct lw_err err = {0};

    memcpy(in.text, b->v, b->n);
    assert_ok(traces_chakra_read(&in, g, &err), err);
    free(in.text);
}

static lw_ps step_of(const struct lw_plan *p)
{
    struct lw_cluster c = {.name = "recorded",
                           .devices_per_node = 1 << 20,
                           .library = "",
                           .library_version = "",
                           .about = "",
                           .device = {.kind = "as recorded"}};
    struct lw_sim_options o = {.n_steps = 1};
    struct lw_sim_stats stats;
    struct lw_timeline t = {0};
    struct lw_summary s;
    struct lw_err err = {0};

    assert_ok(lw_sim_run(p, &c, &o, &t, &stats, &err), err);
    assert_ok(lw_timeline_summarize(&t, p, 0, &s, &err), err);
    lw_ps step = s.step;
    lw_summary_free(&s);
    lw_timeline_free(&t);
    return step;
}

static void free_all(struct traces_graph *g, int n)
{
    for (int i = 0; i < n; i++)
        traces_graph_free(&g[i]);
}

static void refused(struct traces_graph *g, int n, const char *says)
{
    struct lw_plan p;
    struct lw_err err = {0};

    assert_int_equal(traces_graphs_plan(g, n, NULL, &p, &err), LW_EFORMAT);
    has(err.msg, says);
    free_all(g, n);
    assert_int_equal(lw_alloc_live(), 0);
}

/* a, then an all-reduce, beside it b, then c. */
static void rank(struct traces_graph *g, const char *name, uint64_t a_us, uint64_t sum_us,
                 int64_t bytes, const char *group)
{
    struct chakra_bytes b;

    chakra_begin(&b);
    chakra_node(&b, (struct chakra_hand_node){1, "a", 4, a_us});
    chakra_node(
        &b, (struct chakra_hand_node){2, "sum", 7, sum_us, {1}, 1, .bytes = bytes, .group = group});
    chakra_node(&b, (struct chakra_hand_node){3, "b", 4, 30, {1}, 1});
    chakra_node(&b, (struct chakra_hand_node){4, "c", 4, 10, {2, 3}, 2});
    take(&b, name, g);
}

/* Rank 0 entered the sum at 40 and waited for rank 1, which entered at 100: of 160 and 100 the
 * shorter is the transfer. Step: 100 + 100 + 10. */
TEST(a_collective_takes_the_shortest_of_its_ranks)
{
    struct traces_graph g[2];
    struct lw_plan p;
    struct lw_err err = {0};

    rank(&g[0], "run.0.et", 40, 160, 1 << 20, NULL);
    rank(&g[1], "run.1.et", 100, 100, 1 << 20, NULL);
    assert_ok(traces_graphs_plan(g, 2, NULL, &p, &err), err);
    assert_int_equal(p.n_ranks, 2);
    assert_int_equal(p.n_comms, 1);
    assert_int_equal(step_of(&p), 210 * LW_PS_PER_US);
    lw_plan_free(&p);
    /* one rank alone: 40 + 160 + 10 */
    assert_ok(traces_graphs_plan(g, 1, NULL, &p, &err), err);
    assert_int_equal(step_of(&p), 210 * LW_PS_PER_US);
    assert_true(notes_say(p.notes, p.n_notes, "waiting for other ranks inside"));
    lw_plan_free(&p);
    free_all(g, 2);
    assert_int_equal(lw_alloc_live(), 0);
}

/* Of 1,000 bytes that each of two ranks gives an all-gather makes 2,000; the others move what they
 * are given. */
TEST(an_all_gather_is_given_a_part_of_what_it_makes)
{
    static const struct {
        int comm;
        enum lw_op_kind kind;
        int64_t bytes;
    } of[] = {{2, LW_OP_ALL_GATHER, 2000},
              {0, LW_OP_ALL_REDUCE, 1000},
              {7, LW_OP_REDUCE_SCATTER, 1000},
              {6, LW_OP_ALL_TO_ALL, 1000}};

    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        struct traces_graph g[2];
        struct lw_plan p;
        struct lw_err err = {0};
        for (int r = 0; r < 2; r++) {
            struct chakra_bytes b;
            chakra_begin(&b);
            chakra_node(&b, (struct chakra_hand_node){
                                1, "c", 7, 10, .comm = of[i].comm, .bytes = 1000, .group = "1"});
            take(&b, r ? "run.1.et" : "run.0.et", &g[r]);
        }
        assert_ok(traces_graphs_plan(g, 2, NULL, &p, &err), err);
        assert_int_equal(p.ops[0].kind, of[i].kind);
        assert_int_equal(p.ops[0].bytes, of[i].bytes);
        lw_plan_free(&p);
        free_all(g, 2);
    }
}

/* Of group "tp" ranks 0, 1 and 5; "dp" lists none and counts 2, so that it is of 0 and 1. */
TEST(a_file_alone_names_the_ranks_that_have_none)
{
    const int32_t tp[] = {0, 1, 5};
    struct traces_graph g;
    struct lw_plan p;
    struct lw_err err = {0};

    rank(&g, "run.0.et", 40, 160, 8, "tp");
    assert_ok(traces_graph_group(&g, "tp", tp, 3, &err), err);
    assert_ok(traces_graph_group(&g, "unused", (const int32_t[]){0, 9}, 2, &err), err);
    assert_ok(traces_graphs_plan(&g, 1, NULL, &p, &err), err);
    assert_true(notes_say(p.notes, p.n_notes, "ranks 1, 5 of its process groups have no file"));
    lw_plan_free(&p);
    traces_graph_free(&g);

    rank(&g, "run.1.et", 40, 160, 8, "dp");
    static const char groups[] = "['[{\"pg_name\": \"dp\", \"ranks\": [], \"group_size\": 2}]']";
    assert_ok(chakra_groups(&g, groups, sizeof groups - 1, &err), err);
    assert_ok(traces_graphs_plan(&g, 1, NULL, &p, &err), err);
    assert_true(notes_say(p.notes, p.n_notes, "rank 0 of its process groups has no file"));
    lw_plan_free(&p);
    traces_graph_free(&g);

    rank(&g, "run.0.et", 40, 160, 8, "solo"); /* of this rank alone */
    assert_ok(traces_graph_group(&g, "solo", (const int32_t[]){0}, 1, &err), err);
    assert_ok(traces_graphs_plan(&g, 1, NULL, &p, &err), err);
    assert_false(notes_say(p.notes, p.n_notes, "no file"));
    lw_plan_free(&p);
    traces_graph_free(&g);
}

/* Two files of a run of three ranks, whose group lists none and counts three. */
TEST(a_group_of_all_ranks_needs_as_many_as_it_counts)
{
    static const char groups[] = "['[{\"pg_name\": \"13\", \"ranks\": [], \"group_size\": 3}]']";
    struct traces_graph g[2];
    struct lw_err err = {0};

    for (int i = 0; i < 2; i++) {
        rank(&g[i], i ? "run.1.et" : "run.0.et", 40, 160, 8, "13");
        assert_ok(chakra_groups(&g[i], groups, sizeof groups - 1, &err), err);
    }
    refused(g, 2, "process group 13 needs 3 ranks, and the file of rank 2 is missing");
}

TEST(files_are_ordered_by_the_ranks_in_their_names)
{
    struct traces_graph g[2];
    struct lw_plan p;
    struct lw_err err = {0};

    assert_int_equal(traces_rank_of_name("a/b.7.et"), 7);
    assert_int_equal(traces_rank_of_name("x_rank12.et.gz"), 12);
    assert_int_equal(traces_rank_of_name("trace.et"), -1);
    rank(&g[0], "run.1.et", 7, 100, 8, NULL);
    rank(&g[1], "run.0.et", 40, 100, 8, NULL);
    assert_ok(traces_graphs_plan(g, 2, NULL, &p, &err), err);
    assert_string_equal(p.roles[0].name, "rank 0");
    assert_int_equal(p.ops[0].work_ps, 40 * LW_PS_PER_US);
    lw_plan_free(&p);
    free_all(g, 2);
}

TEST(what_differs_between_ranks_is_refused)
{
    struct traces_graph g[3];

    rank(&g[0], "run.0.et", 1, 1, 8, NULL);
    rank(&g[1], "run.1.et", 1, 1, 16, NULL);
    refused(g, 2,
            "collective 0 of process group '': rank 1 has all_reduce of 16 bytes, rank 0 "
            "all_reduce of 8");
    rank(&g[0], "run.0.et", 1, 1, 8, NULL);
    rank(&g[1], "run.3.et", 1, 1, 8, NULL);
    refused(g, 2, "the run needs 4 ranks, and the files of ranks 1, 2 are missing");
    rank(&g[0], "run.0.et", 1, 1, 8, NULL);
    rank(&g[1], "copy.0.et", 1, 1, 8, NULL);
    refused(g, 2, "are both of rank 0");
}

TEST(computes_that_nothing_times_are_refused)
{
    struct chakra_bytes b;
    struct traces_graph g;

    chakra_begin(&b);
    chakra_node(&b, (struct chakra_hand_node){4, "f", 4, 0});
    take(&b, "run.0.et", &g);
    refused(&g, 1, "node 4 'f' computes, and the file holds no duration of any node");
}

/* Rank 0 computes 50 and sends; rank 1 receives (10 on the wire) and computes 20: 80. */
static void pair(struct traces_graph g[2], int tag, int64_t bytes, bool receives)
{
    struct chakra_bytes b;

    chakra_begin(&b);
    chakra_node(&b, (struct chakra_hand_node){1, "f", 4, 50});
    chakra_node(
        &b, (struct chakra_hand_node){2, "put", 5, 10, {1}, 1, .peer = 1, .bytes = 4096, .tag = 3});
    take(&b, "run.0.et", &g[0]);
    chakra_begin(&b);
    if (receives)
        chakra_node(
            &b, (struct chakra_hand_node){1, "get", 6, 10, .peer = 0, .bytes = bytes, .tag = tag});
    chakra_node(&b, (struct chakra_hand_node){2, "g", 4, 20, {1}, 1});
    take(&b, "run.1.et", &g[1]);
}

TEST(messages_meet)
{
    struct traces_graph g[2];
    struct lw_plan p;
    struct lw_err err = {0};

    pair(g, 3, 4096, true);
    assert_ok(traces_graphs_plan(g, 2, NULL, &p, &err), err);
    assert_int_equal(step_of(&p), 80 * LW_PS_PER_US);
    lw_plan_free(&p);
    free_all(g, 2);
    pair(g, 3, 4096, false);
    refused(g, 2,
            "node 2 'put' of rank 0 sends to rank 1 (tag 3, 4096 bytes), and rank 1 has no "
            "receive for it");
    pair(g, 4, 4096, true);
    refused(g, 2,
            "node 2 'put' of rank 0 sends to rank 1 (tag 3, 4096 bytes), and rank 1 has no "
            "receive for it");
    pair(g, 3, 512, true);
    refused(g, 2, "receives 512 bytes, and rank 0 sends 4096");
}

TEST(every_failed_allocation_leaves_nothing)
{
    struct traces_graph g[2];
    struct lw_plan p = {0};

    pair(g, 3, 4096, true);
    EACH_ALLOCATION_FAILS(20, traces_graphs_plan(g, 2, NULL, &p, NULL), p, lw_plan_free(&p));
    free_all(g, 2);
    assert_int_equal(lw_alloc_live(), 0);
}

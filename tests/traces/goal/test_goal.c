/* GOAL schedules: text and binary, what is refused, and times under LogGOPS. Times in ns. */
#include "tests/lib/unit.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "shared/io/input.h"
#include "shared/json/json.h"
#include "sim/predict/sim.h"
#include "tests/fuzz/goal_target.h"
#include "tests/lib/failing_alloc.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"
#include "tests/lib/prng.h"
#include "traces/goal/goal_times.h"

static enum lw_status read_bytes(const char *text, size_t len, struct traces_goal *g,
                                 struct lw_err *err)
{
    struct lw_input in = {.name = "t.goal", .text = calloc(len + LW_JSON_PADDING, 1), .len = len};

    memcpy(in.text, text, len);
    enum lw_status status = traces_goal_is(in.text, len) ? traces_goal_read(&in, g, err)
                                                         : lw_fail(err, LW_EFORMAT, "not GOAL");
    free(in.text);
    return status;
}

static enum lw_status plan_of(const char *text, const char *parameters, struct lw_plan *p,
                              struct lw_err *err)
{
    struct traces_goal g;
    struct goal_network n = traces_goal_network_default();

    LW_TRY(traces_goal_network_parse(parameters, &n, err));
    LW_TRY(read_bytes(text, strlen(text), &g, err));
    enum lw_status status = traces_goal_plan(&g, &n, p, err);
    traces_goal_free(&g);
    return status;
}

static lw_ps simulated(const struct lw_plan *p)
{
    struct lw_cluster c = {.name = "recorded",
                           .devices_per_node = 1 << 20,
                           .library = "",
                           .library_version = "",
                           .about = "",
                           .device = {.kind = "as recorded"}};
    struct lw_sim_options o = {.n_steps = 1, .buffered = true};
    struct lw_sim_stats stats;
    lw_ps step;
    struct lw_err err = {0};

    assert_ok(lw_sim_run_steps(p, &c, &o, &step, &stats, &err), err);
    return step;
}

static int64_t step_ns(const char *text, const char *parameters)
{
    struct lw_plan p;
    struct lw_err err = {0};

    assert_ok(plan_of(text, parameters, &p, &err), err);
    lw_ps step = simulated(&p);
    lw_plan_free(&p);
    assert_int_equal(step % LW_PS_PER_NS, 0);
    return step / LW_PS_PER_NS;
}

static void refused(const char *text, const char *says)
{
    struct lw_plan p;
    struct lw_err err = {0};

    assert_int_equal(plan_of(text, "", &p, &err), LW_EFORMAT);
    has(err.msg, says);
    assert_int_equal(lw_alloc_live(), 0);
}

/* calc until 100, send of 10 B: processor until 100 + 20 + 9 x 1; the first byte is there at
 * 100 + 20 + 300 = 420, the processor has it at 420 + 20 + 9 x 2; then 50 */
TEST(a_message_takes_what_loggops_says)
{
    static const char text[] = "num_ranks 2\n"
                               "rank 0 {\na: calc 100\nb: send 10b to 1 tag 5\nb requires a\n}\n"
                               "rank 1 {\nc: recv 10b from 0 tag 5\nd: calc 50\nd requires c\n}\n";

    assert_int_equal(step_ns(text, "L=300,o=20,g=7,G=2,O=1"), 420 + 20 + 18 + 50);
    assert_int_equal(step_ns(text, "L=0,o=0,g=0,G=0,O=0"), 150);
}

/* Two messages to one rank: the second leaves when the interface is free, after g + 99 G = 120. It
 * arrives at 120 + 5, when the receiver's processor is busy with the first until 5 + 99 = 104, and
 * its interface until 5 + 120 = 125; the processor has it at 125 + 99 = 224. */
TEST(an_interface_is_busy_for_the_gap)
{
    assert_int_equal(step_ns("num_ranks 2 rank 0 { send 100b to 1 send 100b to 1 } "
                             "rank 1 { recv 100b from 0 recv 100b from 0 }",
                             "L=5,o=0,g=21,G=1,O=0"),
                     224);
}

/* Rank 1 computes until 1000; then its processor has the message for 1. Beyond S the send ends at
 * 1000 too, and then the calc of 10 on rank 0. */
TEST(a_large_send_waits_for_its_receive)
{
    static const char text[] = "num_ranks 2\n"
                               "rank 0 { s: send 8b to 1 c: calc 10 c requires s }\n"
                               "rank 1 { w: calc 1000 r: recv 8b from 0 r requires w }\n";

    assert_int_equal(step_ns(text, "L=1,o=1,g=0,G=0,O=0,S=8"), 1001);
    assert_int_equal(step_ns(text, "L=1,o=1,g=0,G=0,O=0,S=7"), 1010);
}

TEST(any_source_and_tag_take_what_comes_first)
{
    assert_int_equal(
        step_ns("num_ranks 3 rank 0 { a: calc 50 b: send 1b to 2 tag 1 b requires a }\n"
                "rank 1 { send 1b to 2 tag 9 }\n"
                "rank 2 { r: recv 1b from -1 tag -1 c: calc 5 c requires r\n"
                "         recv 1b from -1 tag -1 }",
                "L=10,o=0,g=0,G=0,O=0"),
        60);
}

/* The calc starts with the other one, on its own processor: 30 + nothing. */
TEST(irequires_waits_for_the_start)
{
    assert_int_equal(step_ns("num_ranks 1 rank 0 { w: calc 10 a: calc 30 cpu 1 a requires w\n"
                             "b: calc 25 cpu 2 b irequires a }",
                             ""),
                     40);
    assert_int_equal(step_ns("num_ranks 1 rank 0 { w: calc 10 a: calc 30 cpu 1 a requires w\n"
                             "b: calc 25 cpu 2 b requires a }",
                             ""),
                     65);
}

TEST(binary_is_the_same_schedule)
{
    struct lw_input in;
    struct traces_goal t, b;
    struct goal_network n = traces_goal_network_default();
    struct goal_times x, y;
    struct lw_err err = {0};

    assert_ok(lw_input_read("tests/fuzz/corpus/goal/small.goal", 0, &in, &err), err);
    assert_ok(traces_goal_read(&in, &t, &err), err);
    lw_input_free(&in);
    assert_ok(lw_input_read("tests/fuzz/corpus/goal/small.bin", 0, &in, &err), err);
    assert_ok(traces_goal_read(&in, &b, &err), err);
    lw_input_free(&in);
    assert_true(b.binary);
    assert_int_equal(b.n_ranks, 2);
    assert_int_equal(b.n_sends + b.n_recvs + b.n_calcs, 5);
    assert_int_equal(b.n_requires, t.n_requires);
    assert_int_equal(b.n_irequires, t.n_irequires);
    assert_ok(goal_times_find(&t, &n, &x, &err), err);
    assert_ok(goal_times_find(&b, &n, &y, &err), err);
    assert_int_equal(x.end, y.end);
    /* 100 + 1500 + 2500, then 1500 + 9 x 6, then 50 and 7: what LogGOPSim prints for this file */
    assert_int_equal(x.end, 5711 * LW_PS_PER_NS);
    goal_times_free(&x);
    goal_times_free(&y);
    traces_goal_free(&t);
    traces_goal_free(&b);
    assert_int_equal(lw_alloc_live(), 0);
}

/* The engine comes to the end that the event-by-event simulation has, whatever the schedule. */
TEST(the_plan_ends_as_the_schedule_does)
{
    for (int seed = 1; seed <= unit_cases(60, 600); seed++) {
        struct prng r = {(uint64_t)seed * 2685821657736338717u + 1};
        char text[8192], lines[6][1200] = {{0}};
        int n = 2 + prng_below(&r, 5), n_ops[6] = {0};
        static const char *const parameters[] = {
            "L=0,o=0,g=0,G=0,O=0", "", "L=700,o=300,g=2500,G=1,O=2,S=500", "o=0,g=100,S=500"};
        for (int k = 0; k < 16; k++) {
            int a = prng_below(&r, n), b = (a + 1 + prng_below(&r, n - 1)) % n;
            int size = 1 + prng_below(&r, 1000), calc = prng_below(&r, 3) == 0;
            int ends[2] = {a, b};
            for (int side = 0; side < (calc ? 1 : 2); side++) {
                int rank = ends[side], i = n_ops[rank]++;
                size_t at = strlen(lines[rank]);
                if (calc)
                    snprintf(lines[rank] + at, 1200 - at, "l%d: calc %d cpu %d\n", i, size,
                             prng_below(&r, 2));
                else
                    snprintf(lines[rank] + at, 1200 - at, "l%d: %s %db %s %d tag %d\n", i,
                             side ? "recv" : "send", size, side ? "from" : "to", ends[!side], k);
                for (int j = 0; j < i; j++) {
                    at = strlen(lines[rank]);
                    if (prng_below(&r, 4) == 0)
                        snprintf(lines[rank] + at, 1200 - at, "l%d %s l%d\n", i,
                                 prng_below(&r, 5) ? "requires" : "irequires", j);
                }
            }
        }
        int at = snprintf(text, sizeof text, "num_ranks %d\n", n);
        for (int k = 0; k < n; k++)
            at += snprintf(text + at, sizeof text - (size_t)at, "rank %d {\n%s}\n", k, lines[k]);
        struct traces_goal g;
        struct goal_network network = traces_goal_network_default();
        struct goal_times t;
        struct lw_plan p;
        struct lw_err err = {0};
        assert_ok(traces_goal_network_parse(parameters[seed % 4], &network, &err), err);
        assert_ok(read_bytes(text, strlen(text), &g, &err), err);
        assert_ok(goal_times_find(&g, &network, &t, &err), err);
        assert_ok(traces_goal_plan(&g, &network, &p, &err), err);
        if (simulated(&p) != t.end)
            fail_msg("seed %d: the plan ends at %lld, the schedule at %lld\n%s", seed,
                     (long long)simulated(&p), (long long)t.end, text);
        lw_plan_free(&p);
        goal_times_free(&t);
        traces_goal_free(&g);
    }
    assert_int_equal(lw_alloc_live(), 0);
}

TEST(what_is_wrong_is_named_with_its_line)
{
    refused("num_ranks 2\nrank 0 {\nl1: send 1b too 1\n}\nrank 1 { }",
            "t.goal:3: found 'too', expected 'to' and a rank");
    refused("num_ranks 2\nrank 0 {\nl1: send 1b to 2\n}\nrank 1 { }",
            "t.goal:3: found '2', expected a rank below num_ranks");
    refused("num_ranks 2\nrank 0 {\nl1: calc 5\nl1 requires l9\n}\nrank 1 { }",
            "t.goal:4: no op of this rank has the label 'l9'");
    refused("num_ranks 2\nrank 0 {\nl1: calc 5\nl1: calc 6\n}\nrank 1 { }",
            "t.goal:4: label 'l1' is given twice in one rank");
    refused("num_ranks 2\nrank 0 {\nl1: calc 5\n", "the file ends within rank 0: '}' is missing");
    refused("num_ranks 3\nrank 0 { }\nrank 2 { }", "num_ranks is 3, and rank 1 is missing");
    refused("num_ranks 1\nrank 0 { }\nrank 0 { }", "t.goal:3: rank 0 is given twice");
    refused("num_ranks 900000000\nrank 0 { }", "expected a number of ranks (1 to 16777216)");
    refused("num_ranks 2\nrank 0 {\nsend 8b to 1 tag 3\n}\nrank 1 {\nrecv 8b from 0 tag 4\n}",
            "t.goal:3: rank 0 sends 8 bytes to rank 1 with tag 3 (line 3), and rank 1 has no "
            "receive left for it");
    refused("num_ranks 2\nrank 0 {\nsend 8b to 1\n}\nrank 1 { }", "rank 1 has no receive left");
    refused("num_ranks 2\nrank 0 { }\nrank 1 {\nrecv 8b from 0\n}",
            "t.goal:4: rank 1 receives from rank 0 with tag 0 (line 4), and no such send comes");
    refused("num_ranks 2\nrank 0 {\na: recv 8b from 1\nb: send 8b to 1\nb requires a\n}\n"
            "rank 1 {\na: recv 8b from 0\nb: send 8b to 0\nb requires a\n}",
            "t.goal:3: rank 0 receives from rank 1 with tag 0 (line 3), whose send (line 9) waits "
            "for other ops: ranks wait for each other");
    refused("num_ranks 2\nrank 0 {\nrecv 8b from 1\n}\n"
            "rank 1 {\na: recv 8b from 0\nb: send 8b to 0\nb requires a\n}",
            "t.goal:6: rank 1 receives from rank 0 with tag 0 (line 6), and no such send comes");
    refused("num_ranks 1\nrank 0 {\na: calc 1\nb: calc 1\nc: calc 1\na requires c\nb requires a\n"
            "c requires b\n}",
            "ops of rank 0 form a cycle of 3, each waits for the next: line 3, line 5, line 4");
    refused("num_ranks 1\nrank 0 {\nsend 1b to 0\n}", "rank 0 exchanges a message with itself");
    refused("num_ranks 1\nrank 0 { /* }", "a comment without its end '*/'");
}

TEST(damaged_binary_is_refused)
{
    struct lw_input in;
    struct traces_goal g;
    struct lw_err err = {0};

    assert_ok(lw_input_read("tests/fuzz/corpus/goal/small.bin", 0, &in, &err), err);
    for (size_t n = 8; n < in.len; n++) { /* cut anywhere */
        if (read_bytes(in.text, n, &g, &err) == LW_OK)
            fail_msg("%zu of %zu bytes are read", n, in.len);
        has(err.msg, "the file is cut or damaged");
    }
    char swapped[16] = {0, 0, 0, 0, 0, 0, 0x10, 0x7f};
    assert_int_equal(read_bytes(swapped, sizeof swapped, &g, &err), LW_EFORMAT);
    has(err.msg, "binary GOAL in big-endian byte order, expected little-endian");
    lw_input_free(&in);
    assert_int_equal(lw_alloc_live(), 0);
}

TEST(parameters_are_checked)
{
    struct goal_network n = traces_goal_network_default();
    struct lw_err err = {0};

    assert_ok(traces_goal_network_parse("L=1.5,G=0.01,S=10", &n, &err), err);
    assert_int_equal(n.L, 1500);
    assert_int_equal(n.G_fs, 10000);
    assert_int_equal(n.S, 10);
    assert_int_equal(n.o, 1500 * LW_PS_PER_NS);
    assert_int_equal(traces_goal_network_parse("L=1,x=2", &n, &err), LW_EINVAL);
    has(err.msg, "'x=2': expected L, o, g (ns), G, O (ns a byte) and S (bytes)");
    assert_int_equal(traces_goal_network_parse("L=-1", &n, &err), LW_EINVAL);
}

TEST(every_failed_allocation_leaves_nothing)
{
    struct lw_plan p = {0};

    EACH_ALLOCATION_FAILS(30,
                          plan_of("num_ranks 2 rank 0 { a: send 9b to 1 b: calc 5 b requires a } "
                                  "rank 1 { recv 9b from 0 }",
                                  "S=1", &p, NULL),
                          p, lw_plan_free(&p));
}

/* 27500 and 22000 ns are what LogGOPSim prints for these files with its defaults. */
TEST(real_files_have_their_counts_and_times)
{
    static const struct {
        const char *file;
        int32_t n_ranks;
        int64_t n_sends, n_recvs, n_requires, end_ns;
    } want[] = {{"binary_tree_32.goal", 32, 31, 31, 26, 27500},
                {"dissemination_16.goal", 16, 64, 64, 48, 22000}};

    if (access("../shared/traces/goal", F_OK) != 0) {
        print_message("SKIP real files: ../shared/traces/goal is not here\n");
        skip();
    }
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        char path[128];
        struct lw_input in;
        struct traces_goal g;
        struct goal_network n = traces_goal_network_default();
        struct lw_plan p;
        struct lw_err err = {0};
        snprintf(path, sizeof path, "../shared/traces/goal/%s", want[i].file);
        assert_ok(lw_input_read(path, 0, &in, &err), err);
        assert_ok(traces_goal_read(&in, &g, &err), err);
        assert_int_equal(g.n_ranks, want[i].n_ranks);
        assert_int_equal(g.n_sends, want[i].n_sends);
        assert_int_equal(g.n_recvs, want[i].n_recvs);
        assert_int_equal(g.n_calcs, 0);
        assert_int_equal(g.n_requires, want[i].n_requires);
        assert_int_equal(g.n_irequires, 0);
        assert_ok(traces_goal_plan(&g, &n, &p, &err), err);
        assert_int_equal(simulated(&p), want[i].end_ns * LW_PS_PER_NS);
        lw_plan_free(&p);
        traces_goal_free(&g);
        lw_input_free(&in);
    }
}

TEST(every_fuzz_corpus_file_is_read_or_refused)
{
    assert_true(fixture_corpus("tests/fuzz/corpus/goal", LLVMFuzzerTestOneInput) >= 2);
}

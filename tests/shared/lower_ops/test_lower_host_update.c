/* --offload update: shared/lower_ops/lower_host_update.c, sim/timing/work_time.c,
 * docs/design/memory.md. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <string.h>

#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/exec/exec_words.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"
#include "tests/lib/files/sql_file.h"
#include "tests/lib/plans/plan_words.h"
#include "tests/lib/plans/tiny_build.h"

/* 602 f32 parameters, 301 of each of two ranks under ZeRO-2: 1204 bytes of gradients go, 28 * 301 =
 * 8428 are read and written, 1204 bytes of weights come. Neither state nor a share of gradients is
 * the device's. */
TEST(gradients_go_and_weights_come_back)
{
    struct tiny t;
    char text[4096];

    tiny_init(&t);
    t.w.optimizer = LW_OPTIMIZER_ADAM;
    struct lw_plan p = plan_of_words(&t.w, "dp 2 zero 2 offload update");
    tiny_ops(&p, p.variants[0].name, text, sizeof text);
    const char *at = strstr(text, "St/1204");
    assert_non_null(at);
    at = strstr(at, "O");
    assert_non_null(at);
    assert_non_null(strstr(at, "Ld/1204"));
    assert_int_equal(p.roles[0].static_bytes[LW_MEM_OPTIMIZER], 0);
    assert_int_equal(p.roles[0].static_bytes[LW_MEM_GRADS], 0);
    for (int32_t i = 0; i < p.n_ops; i++)
        if (p.ops[i].kind == LW_OP_OPTIMIZER)
            assert_int_equal(p.ops[i].bytes, 8428);
    lw_plan_free(&p);
}

/* 602 bf16 parameters, 302 of the fuller rank, and gradients of their type: 604 bytes go and come.
 * f32 states and a master take 28 bytes of an element; the framework's own of 4 bytes: gradient 2,
 * weight 2 and states 4 both ways. f32 gradients have a master. What the host moves beside is
 * added. */
TEST(states_of_16_bits_are_updated_in_their_own_bytes)
{
    static const struct {
        const char *words;
        int64_t state, beside, bytes;
    } cases[] = {{"dp 2 zero 2 offload update", 0, 0, 28 * 302},
                 {"dp 2 zero 2 offload update", 0, 16, 44 * 302},
                 {"dp 2 zero 2 offload update", 4, 0, 14 * 302},
                 {"dp 2 zero 2 offload update", 4, 8, 22 * 302},
                 {"dp 2 zero 2 offload update", 8, 0, 22 * 302},
                 {"dp 2 zero 2 grad-dtype f32 offload update", 4, 0, 28 * 302}};

    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct tiny t;
        int n = 0;
        tiny_init_bf16(&t, cases[k].state);
        t.w.step_traffic.host = cases[k].beside;
        struct lw_plan p = plan_of_words(&t.w, cases[k].words);
        for (int32_t i = 0; i < p.n_ops; i++)
            if (p.ops[i].kind == LW_OP_OPTIMIZER) {
                assert_int_equal(p.ops[i].bytes, cases[k].bytes);
                n++;
            }
        assert_true(n > 0);
        lw_plan_free(&p);
    }
}

TEST(an_update_by_the_host_is_not_executed)
{
    struct lw_exec_options o = exec_asleep(2, EXEC_MOMENTUM);
    struct tiny t;

    tiny_init(&t);
    t.w.optimizer = LW_OPTIMIZER_ADAM;
    struct lw_plan p = plan_of_words(&t.w, "dp 2 offload update");
    exec_ends(&p, &o, LW_ENOTSUP, "plan with --offload optimizer");
    lw_plan_free(&p);
}

/* One rank, 1e8 f32 under Adam: 400 MB over 32 GB/s each way are 12.5 ms and 12.5 ms, and 2.8 GB at
 * 0.426 of the host's 1e11 bytes a second 65.728 ms. Of 2 ranks of a node each has half of its
 * rate; under ZeRO-1 each also updates half. */
static const char *const MODEL =
    "{\"lapwing\":1,\"kind\":\"workload\",\"name\":\"w\",\"batch\":1,\"optimizer\":\"adam\","
    "\"optimizer_ns\":1000000,\"modules\":[{\"name\":\"a\",\"forward_ns\":1000000,"
    "\"backward_input_ns\":1000000,\"backward_weight_ns\":1000000,\"output_bytes\":4,"
    "\"kept_bytes\":2000000000}],\"params\":[{\"name\":\"a.w\",\"numel\":100000000,\"module\":0}]}";

static const char *const NODE =
    "{\"lapwing\":1,\"kind\":\"cluster\",\"name\":\"n\",\"devices_per_node\":2,\"device\":{"
    "\"kind\":\"d\",\"copy_bytes_per_s\":{\"value\":1e15,\"source\":\"t\"},"
    "\"host_link_bytes_per_s\":{\"value\":32e9,\"source\":\"t\"}},"
    "\"links\":[{\"name\":\"l\",\"level\":\"intra\",\"bytes_per_s\":{\"value\":1e15,\"source\":"
    "\"t\"},\"latency_ns\":{\"value\":10,\"source\":\"t\"}}]%s}";

static void put_node(const char *more)
{
    char text[1024];

    snprintf(text, sizeof text, NODE, more);
    fixture_put(fixture_path("n.json"), text);
    fixture_put(fixture_path("w.json"), MODEL);
}

TEST_WITH(the_device_waits_for_links_and_host, fixture_open, fixture_close)
{
    put_node(",\"host_bytes_per_s\":{\"value\":1e11,\"source\":\"t\"}");
    expect("sim -w w.json -c n.json --dp 1 --offload update --no-db", 0, "step 93.728 ms");
    const char *out = lapwing("sim -w w.json -c n.json --dp 1 --offload update --no-db -q "
                              "--format json", NULL);
    assert_int_equal((int64_t)number_after(out, "\"peak_memory_bytes\": "), 2800000000);
}

/* A tenth faster host and link: an eleventh of 65.728 + 2 * 12.5 ms goes, and of each alone. */
TEST_WITH(a_faster_host_shortens_its_update_and_copies, fixture_open, fixture_close)
{
    put_node(",\"host_bytes_per_s\":{\"value\":1e11,\"source\":\"t\"}");
    lapwing("sim -w w.json -c n.json --dp 1 --offload update --db a.db -q", NULL);
    const char *out = lapwing("explain 1 --db a.db -c n.json", NULL);
    const char *host = strstr(out, "\nhost ");
    assert_non_null(host);
    has(host, "90.728    90.728     8.248  8.80  simulated");
    has(host, "65.728    65.728     5.975  6.38  at most");
    has(host, "12.500    12.500     1.136  1.21  at most");
}

/* 1 + 1 + 1 ms of compute, 12.5 + 12.5 of copies, 65.728 of the host: 93.728. */
TEST_WITH(the_host_s_part_is_no_compute, fixture_open, fixture_close)
{
    static const char sim[] = "sim -w w.json -c n.json --dp 1 --offload update --db a.db ";

    put_node(",\"host_bytes_per_s\":{\"value\":1e11,\"source\":\"t\"}");
    const char *out = lapwingf("%s--format json", sim);
    int64_t host = (int64_t)number_after(out, "\"host_update_ns\": ");
    assert_int_equal(host, 65727700);
    assert_int_equal((int64_t)number_after(out, "\"compute_busy_ns\": "), 3000000);
    assert_int_equal((int64_t)number_after(out, "\"exposed_copy_ns\": "), 25000000);
    assert_int_equal((int64_t)number_after(out, "\"idle_ns\": "), 0);
    assert_int_equal((int64_t)number_after(out, "\"period_ns\": "), host + 28000000);
    expectf(0, "  updates by the host         65.728 ms   70.1 %\n", "%s", sim);
    expectf(0, "compute                      3.000 ms    3.2 %", "%s", sim);
    out = lapwingf("%s--format csv --per-rank", sim);
    has(out, ",host_update_ns\n");
    has(out, ",65727700\n");
    assert_int_equal(sql_ask(fixture_path("a.db"),
                             "SELECT (value + 500) / 1000 FROM metric WHERE run = 1 AND step = -1 "
                             "AND rank = 0 AND name = 'host_update_ps'"), host);
    out = lapwing("explain 1 --db a.db", NULL);
    has(out, "updates by the host  65.728         70.1                   65.728\n");
    has(out, "compute               3.000          3.2                    3.000\n");
    has(out, "copies               25.000         26.7                   25.000\n");
}

TEST_WITH(ranks_of_a_node_share_its_memory, fixture_open, fixture_close)
{
    put_node(",\"host_bytes_per_s\":{\"value\":1e11,\"source\":\"t\"}");
    /* 3 + 6.25 + 65.728 + 6.25 ms; copies and moves between ranks take less than 10 us */
    const char *out = lapwing("sim -w w.json -c n.json --dp 2 --zero 1 --offload update --no-db -q "
                              "--format json", NULL);
    double step_ns = number_after(out, "\"step_ns\": ");
    assert_true(step_ns >= 81227997 && step_ns < 81237997);
}

TEST_WITH(a_host_without_a_rate_is_refused, fixture_open, fixture_close)
{
    put_node("");
    expect("sim -w w.json -c n.json --dp 1 --offload update --no-db", 1,
           "--offload update: cluster 'n' gives no bandwidth of the host's memory "
           "(host_bytes_per_s): choose --offload none");
}

TEST(an_optimizer_other_than_adam_is_refused)
{
    struct tiny t;

    tiny_init(&t);
    t.w.optimizer = LW_OPTIMIZER_MOMENTUM;
    plan_refused(&t.w, "dp 2 offload update", "known for Adam alone");
}

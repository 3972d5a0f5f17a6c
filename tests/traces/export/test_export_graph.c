/* Runs written for other simulators and read again: the same step, to the ns. */
#include "tests/lib/unit.h"
#include <stdio.h>
#include <string.h>

#include "shared/files/files.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/failing_alloc.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"
#include "traces/export/export_graph.h"

TEST_GROUP(fixture_open, fixture_close)

static int64_t step_of(const char *json)
{
    const char *at = strstr(json, "\"step_ns\": ");
    long long step = -1;

    assert_non_null(at);
    assert_int_equal(sscanf(at, "\"step_ns\": %lld", &step), 1);
    return step;
}

static void comes_back(const char *options)
{
    shell("rm -f r.db* x.*", NULL);
    int64_t step = step_of(lapwingf("sim %s --spans --db r.db --format json", options));
    lapwing("export --db r.db --format chakra -o x", NULL);
    int64_t chakra = step_of(shell("$L sim --replay x.*.et --no-db --format json", NULL));
    lapwing("export --db r.db --format goal -o x.goal", NULL);
    int64_t goal = step_of(lapwing("sim --replay x.goal --no-db --format json", NULL));
    if (chakra != step || goal != step)
        fail_msg("%s: step %lld ns, as Chakra %lld, as GOAL %lld", options, (long long)step,
                 (long long)chakra, (long long)goal);
}

TEST(our_own_export_has_the_same_step_to_the_ns)
{
    comes_back("-w resnet50 -c dgx-a100 --dp 8");
    comes_back("-w resnet50 -c dgx-a100 --dp 2 --zero 1");
    comes_back("-w resnet50 -c dgx-a100 --dp 4 --no-sync 2"); /* three passes a step */
    comes_back("-w gpt2 -c dgx-a100 --dp 4 --zero 3");
    comes_back("-w gpt2 -c dgx-a100 --dp 2 --pp 4 --micro-batches 8 --schedule 1f1b");
    comes_back("-w gpt2 -c dgx-a100 --dp 2 --tp 2 --pp 2 --micro-batches 4");
    comes_back("-w gpt2 -c dgx-a100 --pp 4 --micro-batches 8 --schedule zb-h1");
    comes_back(
        "-w gpt2 -c dgx-a100 --pp 4 --micro-batches 8 --schedule dualpipe"); /* group calls */
    comes_back("-w gpt2 -c dgx-a100 --pp 2 --chunks 2 --micro-batches 4 --schedule "
               "interleaved-1f1b");
}

TEST(what_is_written_holds_what_the_plan_says)
{
    shell("rm -f r.db* x.*", NULL);
    lapwing("sim -w resnet50 -c dgx-a100 --dp 2 --spans --db r.db", NULL);
    expect("export --db r.db --format chakra -o x", 0, "wrote x.0.et to x.1.et and x.groups.json");
    expect("inspect x.1.et", 0, "Chakra execution trace, schema 0.0.4");
    /* ASTRA-sim reads the name of a group as a number, and takes 0 for all ranks */
    has(shell("tr -d ' \\n' <x.groups.json", NULL), "{\"1\":[0,1]}");
    has(shell("strings -n 1 x.0.et | grep -A1 -m1 pg_desc", NULL), "data");
    /* the form follows the name */
    lapwing("export --db r.db -o x.csv", NULL);
    shell("head -1 x.csv | grep -q '^step,pass,rank,op,'", NULL);
    expect("export --db r.db -o y.goal", 0, "LogGOPSim");
    expect("export --db r.db --format chrome -o z.csv", 0, "ui.perfetto.dev");
    expect("export --db r.db --format goal -o -", 0,
           "// lapwing: L=0 o=0 g=0 G=0 O=0 S=1000000 unit=ps");
    /* the files say their ranks: their names do not matter */
    shell("mv x.0.et b.et && mv x.1.et a.et", NULL);
    expect("sim --replay a.et b.et --no-db", 0, "2 ranks");
    shell("cp b.et c.et", NULL);
    expect("sim --replay b.et c.et --no-db", 1, "are both of rank 0");
}

/* Sends of the run go ahead; readers of the files have none that do. */
TEST(a_run_with_buffered_sends_is_told)
{
    shell("rm -f r.db* x.*", NULL);
    lapwing("sim -w gpt2 -c dgx-a100 --pp 2 --micro-batches 4 --buffered --spans --db r.db", NULL);
    expect("export --db r.db --format goal -o x.goal", 0, "note: run 1 has --buffered");
    expect("export --db r.db --format chakra -o x", 0, "a send waits for its receive");
    lapwing("sim -w gpt2 -c dgx-a100 --pp 2 --micro-batches 4 --spans --db r.db", NULL);
    assert_null(strstr(lapwing("export --db r.db --format goal -o x.goal 2>&1", NULL), "note:"));
}

/* The bytes of the first pass's collectives, of all ranks, by kind. */
static void add_bytes(const struct lw_plan *p, int64_t sum[LW_N_OP_KINDS])
{
    for (int32_t r = 0; r < p->n_ranks; r++) {
        struct lw_program x = lw_plan_program(p, p->pass_variant[0], r);
        for (int32_t i = 0; i < x.n_ops; i++) {
            const struct lw_op *op = &p->ops[x.first_op + i];
            if (lw_op_class(op->kind) == LW_CLASS_COLLECTIVE)
                sum[op->kind] += lw_plan_operand(p, op, r).bytes;
        }
    }
}

/* The bytes of each collective come back, the gathers of ZeRO 3 among them, whose parts may
 * differ. */
TEST(sizes_of_collectives_come_back)
{
    static const char *const plans[] = {"gpt2 --dp 4 --zero 3", "resnet50 --dp 3 --zero 3",
                                        "resnet50 --dp 2 --zero 1"};

    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        struct lw_plan p, back;
        struct lw_err err = {0};
        int64_t sum[2][LW_N_OP_KINDS] = {{0}};
        shell("rm -f p.json q.json x.*", NULL);
        lapwingf("plan -w %s -c dgx-h100 -o p.json", plans[i]);
        lapwing("export p.json --format chakra -o x", NULL);
        shell("$L import x.*.et -o q.json", NULL);
        assert_ok(lw_plan_read(fixture_path("p.json"), false, &p, &err), err);
        assert_ok(lw_plan_read(fixture_path("q.json"), false, &back, &err), err);
        add_bytes(&p, sum[0]);
        add_bytes(&back, sum[1]);
        assert_memory_equal(sum[0], sum[1], sizeof sum[0]);
        assert_true(sum[0][LW_OP_ALL_GATHER] > 0);
        lw_plan_free(&p);
        lw_plan_free(&back);
    }
}

TEST(a_plan_is_written_without_a_run)
{
    shell("rm -f p.json x.* r.db*", NULL);
    lapwing("plan -w resnet50 --dp 2 -c host -o p.json", NULL);
    expect("export p.json --format chakra -o x", 0, "wrote x.0.et to x.1.et");
    expect("sim --replay x.0.et x.1.et --no-db -c dgx-a100 --as-recorded", 0, "step");
    expect("sim --replay x.0.et x.1.et --no-db", 1, "name a network that times it");
    EXPECT("export",
           {"p.json --format goal -o x.goal", 1, "has no time: -c CLUSTER times it"},
           {"p.json --format csv -o x.csv", 1, "a plan has no timeline"},
           {"p.json --format chakra -o -", 1, "a file for each rank"});
}

/* The step of `sim`, of both forms, read back. */
TEST(a_plan_that_a_cluster_times_gives_the_step_of_its_prediction)
{
    static const char *const plans[] = {"gpt2 --pp 4 --micro-batches 8",
                                        "gpt2 --tp 2 --pp 2 --dp 2 --micro-batches 4",
                                        "mixtral-8x7b --dp 8 --ep 8 --zero 1",
                                        "gpt2 --dp 4 --zero 3"};

    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        shell("rm -f p.json x.*", NULL);
        lapwingf("plan -w %s -c dgx-h100 -o p.json", plans[i]);
        int64_t step = step_of(lapwing("sim p.json -c dgx-h100 --no-db --format json", NULL));
        lapwing("export p.json -c dgx-h100 --format chakra -o x", NULL);
        lapwing("export p.json -c dgx-h100 -o x.goal", NULL);
        int64_t chakra = step_of(shell("$L sim --replay x.*.et --no-db --format json", NULL));
        int64_t goal = step_of(lapwing("sim --replay x.goal --no-db --format json", NULL));
        assert_int_equal(chakra, step);
        assert_int_equal(goal, step);
    }
    EXPECT("export", {"p.json -c nope -o x.goal", 1, "no known system"},
           {"1 -c dgx-h100 -o x.goal", 2, "-c times the ops of a plan file"},
           {"none.json -c dgx-h100 -o x.goal", 1, "none.json: cannot open"},
           {"/tmp -c dgx-h100 -o x.goal", 1, "/tmp: is a directory"});
}

TEST(ranks_without_stored_spans_are_named)
{
    struct lw_plan p;
    struct lw_timeline none = {0};
    struct lw_export_graph g;
    struct lw_err err = {0};

    lapwing("plan -w resnet50 --dp 2 -c host -o p.json --force", NULL);
    assert_ok(lw_plan_read(fixture_path("p.json"), false, &p, &err), err);
    assert_int_equal(lw_export_graph_make(&p, &none, 1, &g, &err), LW_EINVAL);
    has(err.msg, "no span of rank 0 in step 1 is stored: predict with --spans");
    lw_plan_free(&p);
    assert_int_equal(lw_alloc_live(), 0);
}

TEST(every_failed_allocation_leaves_nothing)
{
    struct lw_plan p;
    struct lw_export_graph g = {0};
    struct lw_err err = {0};

    lapwing("plan -w resnet50 --dp 2 -c host -o p.json --force", NULL);
    assert_ok(lw_plan_read(fixture_path("p.json"), false, &p, &err), err);
    EACH_ALLOCATION_FAILS(10, lw_export_graph_make(&p, NULL, 0, &g, NULL), g,
                          lw_export_graph_free(&g));
    lw_plan_free(&p);
}

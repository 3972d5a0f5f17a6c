/* --offload optimizer: shared/lower_ops/lower_update.c, sim/timing/work_time.c,
 * docs/design/memory.md. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <string.h>

#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/exec/exec_words.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"
#include "tests/lib/plans/plan_words.h"
#include "tests/lib/plans/tiny_build.h"

/* 602 f32 parameters under Adam: 2 x 4 x 602 = 4816 bytes of state, in ZeRO-1's share of two ranks
 * 2408. Room and load when the backward has ended, back after the update. */
TEST(state_comes_for_the_update_and_goes_back)
{
    struct tiny t;
    char text[4096];

    tiny_init(&t);
    t.w.optimizer = LW_OPTIMIZER_ADAM;
    struct lw_plan p = plan_of_words(&t.w, "dp 2 offload optimizer");
    tiny_ops(&p, p.variants[0].name, text, sizeof text);
    const char *at = strstr(text, "+/4816 Ld/4816");
    assert_non_null(at);
    assert_non_null(strstr(at, "O:"));
    assert_non_null(strstr(strstr(at, "O:"), "St/4816 -/4816"));
    assert_int_equal(p.roles[0].static_bytes[LW_MEM_OPTIMIZER], 0);
    lw_plan_free(&p);
}

/* 602 bf16 parameters: 12 bytes of f32 states and a master, or the framework's own 4 of each. Of
 * two ranks the fuller one has 302. With f32 gradients there is a master. */
TEST(states_of_16_bits_move_as_many_bytes_as_they_have)
{
    static const struct {
        const char *words;
        int64_t state, bytes;
    } cases[] = {{"dp 2 offload optimizer", 0, 12 * 602}, {"dp 2 offload optimizer", 4, 4 * 602},
                 {"dp 2 zero 1 offload optimizer", 0, 12 * 302},
                 {"dp 2 zero 1 offload optimizer", 4, 4 * 302},
                 {"dp 2 grad-dtype f32 offload optimizer", 4, 12 * 602}};

    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct tiny t;
        int n = 0;
        tiny_init_bf16(&t, cases[k].state);
        struct lw_plan p = plan_of_words(&t.w, cases[k].words);
        for (int32_t i = 0; i < p.n_ops; i++) {
            enum lw_op_kind kind = p.ops[i].kind;
            if (kind != LW_OP_LOAD && kind != LW_OP_STORE && kind != LW_OP_ALLOC &&
                kind != LW_OP_FREE)
                continue;
            assert_int_equal(p.ops[i].bytes, cases[k].bytes);
            n++;
        }
        assert_true(n >= 4);
        lw_plan_free(&p);
    }
}

/* What is away while the backward runs adds nothing to it, so no step holds more than with all on
 * the device. */
TEST_WITH(offloading_16_bit_states_raises_no_memory, fixture_open, fixture_close)
{
    static const char sim[] = "sim -w llama-3-8b --batch 1 --seq 4096 -c dgx-h100 --dp 8 --zero 1 "
                              "--recompute full --framework torchtune --no-db -q --format json";

    const char *out = lapwingf("%s", sim);
    int64_t here = (int64_t)number_after(out, "\"peak_memory_bytes\": ");
    out = lapwingf("%s --offload optimizer", sim);
    assert_true((int64_t)number_after(out, "\"peak_memory_bytes\": ") <= here);
}

TEST(offloaded_runs_end_like_one_rank)
{
    static const char *const words[] = {"dp 2 offload optimizer", "dp 2 zero 1 offload optimizer",
                                        "dp 3 zero 3 micro-batches 2 offload optimizer"};
    struct tiny t;

    tiny_init(&t);
    t.w.optimizer = LW_OPTIMIZER_MOMENTUM;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        struct lw_exec_options o = exec_asleep(2, EXEC_MOMENTUM);
        struct lw_plan p = plan_of_words(&t.w, words[i]);
        assert_true(exec_verified(&p, &o, words[i], NULL) > 0);
        lw_plan_free(&p);
    }
}

/* One rank, 1e8 f32 under Adam: 800 MB over 32 GB/s each way, 25 ms and 25 ms. */
TEST_WITH(a_step_takes_both_ways_longer, fixture_open, fixture_close)
{
    fixture_put(fixture_path("w.json"),
                "{\"lapwing\":1,\"kind\":\"workload\",\"name\":\"w\",\"batch\":1,\"optimizer\":"
                "\"adam\",\"optimizer_ns\":1000000,\"modules\":[{\"name\":\"a\",\"forward_ns\":"
                "1000000,\"backward_input_ns\":1000000,\"backward_weight_ns\":1000000,"
                "\"output_bytes\":4,\"kept_bytes\":2000000000}],\"params\":[{\"name\":\"a.w\","
                "\"numel\":100000000,\"module\":0}]}");
    expect("sim -w w.json -c dgx-a100 --dp 1 --no-db", 0, "step 4.000 ms");
    expect("sim -w w.json -c dgx-a100 --dp 1 --offload optimizer --no-db", 0, "step 54.000 ms");
    /* weights and gradients, 400 MB each, and activations; the state, 800 MB, is away then */
    const char *out = lapwing("sim -w w.json -c dgx-a100 --dp 1 --offload optimizer --no-db -q "
                              "--format json", NULL);
    assert_int_equal((int64_t)number_after(out, "\"peak_memory_bytes\": "), 2800000000);
    expect("sim -w w.json -c l40s --dp 1 --offload optimizer --no-db", 1,
           "add the figure to its file");
}

TEST(an_optimizer_without_state_is_refused)
{
    struct tiny t;

    tiny_init(&t);
    t.w.optimizer = LW_OPTIMIZER_SGD;
    plan_refused(&t.w, "dp 2 offload optimizer", "has no state that is known");
}

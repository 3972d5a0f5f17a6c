/* What a parameter costs, by type, optimizer and ZeRO stage. */
#include "tests/lib/unit.h"

#include "shared/timeline/param_memory.h"

static int64_t sum(const int64_t bytes[LW_N_MEM])
{
    int64_t s = 0;

    for (int k = 0; k < LW_N_MEM; k++)
        s += bytes[k];
    return s;
}

TEST(state_counts_tensors_and_masters)
{
    static const struct {
        enum lw_optimizer optimizer;
        enum lw_dtype param;
        int64_t bytes;
    } cases[] = {
        {LW_OPTIMIZER_ADAM, LW_BF16, 12}, /* 4 + 4 + 4 */
        {LW_OPTIMIZER_ADAM, LW_F32, 8},     {LW_OPTIMIZER_ADAM, LW_F64, 16},
        {LW_OPTIMIZER_MOMENTUM, LW_F16, 8}, {LW_OPTIMIZER_MOMENTUM, LW_F32, 4},
        {LW_OPTIMIZER_SGD, LW_F32, 0},      {LW_OPTIMIZER_SGD, LW_BF16, 4},
        {LW_OPTIMIZER_UNKNOWN, LW_BF16, 0}, {LW_OPTIMIZER_MUON, LW_BF16, 12},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct lw_memory_rule rule = {cases[i].param, cases[i].optimizer, 0, false};
        int64_t bytes[LW_N_MEM] = {0};
        lw_memory_add(&rule, cases[i].param, 1, 1, bytes);
        assert_int_equal(bytes[LW_MEM_OPTIMIZER], cases[i].bytes);
    }
}

/* S bytes of Adam's states without a master: S / 2 of each state tensor; with one, from 12 on, the
 * master takes 4 of them. Of other types than 16 bits nothing changes. */
TEST(states_of_a_framework_follow_optimizer_and_type)
{
    static const struct {
        enum lw_optimizer optimizer;
        enum lw_dtype param;
        bool matrix;
        int64_t own, bytes;
    } cases[] = {
        {LW_OPTIMIZER_ADAM, LW_BF16, false, 4, 4},      {LW_OPTIMIZER_ADAM, LW_F16, false, 8, 8},
        {LW_OPTIMIZER_ADAM, LW_BF16, false, 3, 3},      {LW_OPTIMIZER_ADAM, LW_BF16, false, 16, 16},
        {LW_OPTIMIZER_ADAM, LW_F32, false, 4, 8},       {LW_OPTIMIZER_ADAM, LW_F64, false, 4, 16},
        {LW_OPTIMIZER_MOMENTUM, LW_BF16, false, 4, 2},
        {LW_OPTIMIZER_MOMENTUM, LW_F32, false, 4, 4},
        {LW_OPTIMIZER_MOMENTUM, LW_F16, false, 16, 10}, {LW_OPTIMIZER_SGD, LW_BF16, false, 4, 0},
        {LW_OPTIMIZER_SGD, LW_BF16, false, 16, 4},      {LW_OPTIMIZER_MUON, LW_BF16, true, 4, 2},
        {LW_OPTIMIZER_MUON, LW_BF16, false, 4, 4},      {LW_OPTIMIZER_MUON, LW_BF16, true, 12, 8},
        {LW_OPTIMIZER_UNKNOWN, LW_BF16, false, 4, 0},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct lw_memory_rule rule = {.optimizer = cases[i].optimizer,
                                            .matrix = cases[i].matrix,
                                            .own_states = cases[i].own};
        int64_t bytes[LW_N_MEM] = {0};
        lw_memory_add(&rule, cases[i].param, 7, 7, bytes);
        assert_int_equal(bytes[LW_MEM_OPTIMIZER], 7 * cases[i].bytes);
    }
}

/* A momentum and the master; without half precision the momentum alone. */
TEST(muon_has_one_state_of_a_matrix)
{
    static const struct {
        enum lw_dtype param;
        int64_t bytes;
    } cases[] = {{LW_BF16, 8}, {LW_F32, 4}, {LW_F64, 8}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct lw_memory_rule rule = {.grad = LW_F32, .optimizer = LW_OPTIMIZER_MUON,
                                            .matrix = true};
        int64_t bytes[LW_N_MEM] = {0};
        lw_memory_add(&rule, cases[i].param, 10, 10, bytes);
        assert_int_equal(bytes[LW_MEM_OPTIMIZER], 10 * cases[i].bytes);
    }
}

/* docs/design/memory.md works these out. */
TEST(each_stage_shares_out_one_more_thing)
{
    static const int64_t expected[4][3] = {
        {2000, 2000, 12000}, {2000, 2000, 1500}, {2000, 250, 1500}, {250, 250, 1500}};
    for (int stage = 0; stage <= 3; stage++) {
        const struct lw_memory_rule rule = {LW_BF16, LW_OPTIMIZER_ADAM, stage, false};
        int64_t bytes[LW_N_MEM] = {0};
        lw_memory_add(&rule, LW_BF16, 1000, 125, bytes);
        assert_int_equal(bytes[LW_MEM_PARAMS], expected[stage][0]);
        assert_int_equal(bytes[LW_MEM_GRADS], expected[stage][1]);
        assert_int_equal(bytes[LW_MEM_OPTIMIZER], expected[stage][2]);
        assert_int_equal(bytes[LW_MEM_BUCKETS], 0);
    }
}

/* Psi and N of table 1 where N divides: 4 + 12 / N, 2 + 14 / N, 16 / N bytes each. */
TEST(stages_are_the_papers_formulas)
{
    static const int64_t psi[] = {INT64_C(7500000000), INT64_C(128000000000),
                                  INT64_C(1000000000000)};
    for (int k = 0; k < 3; k++) {
        for (int64_t n = 1; n <= 1024; n *= 4) {
            const int64_t p = psi[k] / n * n, by_stage[] = {
                16 * p, 4 * p + 12 * p / n, 2 * p + 14 * p / n, 16 * p / n};
            for (int stage = 0; stage <= 3; stage++) {
                const struct lw_memory_rule rule = {LW_F16, LW_OPTIMIZER_ADAM, stage, false};
                int64_t bytes[LW_N_MEM] = {0};
                lw_memory_add(&rule, LW_F16, p, p / n, bytes);
                assert_int_equal(sum(bytes), by_stage[stage]);
            }
        }
    }
}

TEST(gradients_may_have_a_type_of_their_own)
{
    const struct lw_memory_rule rule = {LW_F32, LW_OPTIMIZER_SGD, 0, false};
    int64_t bytes[LW_N_MEM] = {1, 1, 1, 1};
    lw_memory_add(&rule, LW_BF16, 10, 10, bytes);
    assert_int_equal(bytes[LW_MEM_PARAMS], 21); /* added to what was there */
    assert_int_equal(bytes[LW_MEM_GRADS], 41);
    assert_int_equal(bytes[LW_MEM_OPTIMIZER], 41);
    assert_int_equal(bytes[LW_MEM_BUCKETS], 1);
}

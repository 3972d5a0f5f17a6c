/* What frameworks of published runs do that their tables do not say. */
#include "tests/lib/unit.h"

#include "analysis/published/run_figures.h"
#include "analysis/published/run_framework.h"
#include "analysis/published/run_model.h"

TEST(tensor_collectives_overlap_as_the_row_or_the_framework_says)
{
    static const struct {
        const char *framework, *overlap;
        int64_t tp;
        enum lw_tp_overlap expected;
    } cases[] = {
        {"NeMo / Megatron-Core (MLPerf submission)", "TP comm overlap True", 8,
         LW_TP_OVERLAP_PIECES},
        {"NeMo / Megatron-Core (MLPerf submission)", "TP comm overlap 0", 8,
         LW_TP_OVERLAP_BACKWARD},
        {"NeMo / Megatron-Core (MLPerf submission)", "", 8, LW_TP_OVERLAP_BACKWARD},
        {"NeMo / Megatron-Core (MLPerf submission)", "TP comm overlap True", 1, LW_TP_OVERLAP_OFF},
        {"Megatron-Core", "DP grad-reduce, TP comm overlap", 8, LW_TP_OVERLAP_PIECES},
        {"NeMo 2.0", "yes", 4, LW_TP_OVERLAP_PIECES},
        {"NeMo AutoModel (PyTorch FSDP2)", "yes", 4, LW_TP_OVERLAP_OFF},
        {"Megatron-LM 23e00ed", "none (no TP/PP/grad overlap)", 4, LW_TP_OVERLAP_OFF},
        {"Megatron-LM 2021", "no", 8, LW_TP_OVERLAP_OFF},
        {"Megatron-LM 2022", "no", 8, LW_TP_OVERLAP_OFF},
        {"Megatron-DeepSpeed", "no", 4, LW_TP_OVERLAP_OFF},
        {"nanotron v0.5", "no", 4, LW_TP_OVERLAP_BACKWARD},
        {"torchtitan", "async TP", 2, LW_TP_OVERLAP_PIECES},
        {"torchtitan", "", 2, LW_TP_OVERLAP_OFF},
    };

    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct lw_run r = {.framework = cases[k].framework, .overlap = cases[k].overlap,
                           .options = "", .tp = cases[k].tp};
        if (lw_run_tp_overlap(&r) != cases[k].expected)
            fail_msg("%s, '%s', tp %d", r.framework, r.overlap, (int)r.tp);
    }
}

/* Llama 3's code gathers (Grattafiori et al., arXiv 2407.21783, section 3.3.2): not Megatron. */
TEST(context_groups_of_megatron_are_rings)
{
    static const char *const rings[] = {"Megatron-LM 23e00ed", "Megatron-Core", "Megatron-Bridge",
                                        "NeMo 2.0", "NeMo / Megatron-Core (MLPerf submission)"},
                      *const gathers[] = {"Megatron-DeepSpeed", "torchtitan", "Meta internal",
                                          "NeMo AutoModel (PyTorch FSDP2)"};

    for (size_t k = 0; k < sizeof rings / sizeof *rings; k++) {
        struct lw_run r = {.framework = rings[k]};
        assert_int_equal(lw_run_framework_of(&r)->cp_comm, LW_CP_P2P);
    }
    for (size_t k = 0; k < sizeof gathers / sizeof *gathers; k++) {
        struct lw_run r = {.framework = gathers[k]};
        assert_int_equal(lw_run_framework_of(&r)->cp_comm, LW_CP_ALL_GATHER);
    }
}

TEST(parameters_are_gathered_ahead_where_the_row_says_so)
{
    static const struct {
        const char *dist_optimizer, *overlap;
        bool expected;
    } cases[] = {{"yes (overlap-param-gather)", "", true},
                 {"yes", "DP grad-reduce and param-gather, TP comm overlap", true},
                 {"yes", "DP grad-reduce, TP comm overlap", false},
                 {"", "yes", false}};

    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct lw_run r = {.dist_optimizer = cases[k].dist_optimizer, .overlap = cases[k].overlap};
        assert_int_equal(lw_run_gathers_ahead(&r), cases[k].expected);
    }
}

/* Rows of one cluster before and after a repair of its nodes have networks of their own. */
TEST(a_figure_may_be_of_the_nodes_state)
{
    struct lw_run r = {.framework = "Megatron-DeepSpeed", .gpu = "A100-80GB",
                       .network = "4x Omni-Path", .state = "before PCIe/NUMA fix of 02-25"};
    double before = lw_run_figure(&r, LW_RUN_NETWORK, 1);

    r.state = "after PCIe/NUMA fix of 02-25";
    double after = lw_run_figure(&r, LW_RUN_NETWORK, 1);
    assert_true(before < after && after < 1);
    r.figures = "before PCIe/NUMA fix network=0.5;jean-zay-a100 network=0.75";
    assert_true(lw_run_figure(&r, LW_RUN_NETWORK, 1) == 0.75);
    r.network = "8x HDR";
    assert_true(lw_run_figure(&r, LW_RUN_NETWORK, 1) == 1);
}

/* Most rows of a table may be of another family than a model that one row names. */
TEST(the_family_of_a_named_model_holds)
{
    static const struct {
        const char *model, *family;
    } cases[] = {{"LLAMA3-70B", "llama"}, {"GPT3-175B", "gpt"}};
    struct lw_err err = {0};

    for (int k = 0; k < 2; k++) {
        struct lw_run r = {.model = cases[k].model, .family = k ? "llama" : "gpt", .tied = ""};
        assert_ok(lw_run_shape(&r, &err), err);
        assert_string_equal(r.family, cases[k].family);
    }
}

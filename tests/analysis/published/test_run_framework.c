/* What frameworks of published runs do that their tables do not say. */
#include "tests/lib/unit.h"

#include "analysis/published/run_framework.h"

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

/* Arbitrary bytes as a measured-run file, through every reader of it. */
#include "tests/fuzz/text_input.h"
#include "traces/ddp_runs/ddp_run_workload.h"
#include "traces/ddp_runs/ddp_run_measured.h"
#include "traces/ddp_runs/import_ddp_run.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lw_input in = fuzz_input_begin(data, size);
    struct lw_groundtruth g;
    struct lw_gt_results results;
    struct lw_workload w;
    struct lw_cluster c;
    struct lw_err err;

    (void)lw_groundtruth_is(in.text, in.len);
    if (lw_groundtruth_read(&in, &g, &err) == LW_OK) {
        if (lw_gloo_workload(&g, &w, &err) == LW_OK)
            lw_workload_free(&w);
        if (lw_gloo_cluster(&g, &c, &err) == LW_OK)
            lw_cluster_free(&c);
        lw_groundtruth_free(&g);
    }
    if (lw_groundtruth_measured(&in, &results, &err) == LW_OK)
        lw_gt_results_free(&results);
    fuzz_input_end(&in);
    return 0;
}

/* Arbitrary bytes as a measured-run file, through everything that reads its meaning. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/arena.h"
#include "shared/base/input.h"
#include "shared/base/json.h"
#include "traces/ddp_runs/ddp_run_workload.h"
#include "traces/ddp_runs/ddp_run_measured.h"
#include "traces/ddp_runs/import_ddp_run.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lw_input in = {.name = "fuzz", .text = calloc(size + LW_JSON_PADDING, 1), .len = size};
    struct lw_groundtruth g;
    struct lw_gt_results results;
    struct lw_workload w;
    struct lw_cluster c;
    struct lw_err err;

    if (!in.text)
        abort();
    if (size > 0)
        memcpy(in.text, data, size);
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
    free(in.text);
    if (lw_alloc_live() != 0)
        abort();
    return 0;
}

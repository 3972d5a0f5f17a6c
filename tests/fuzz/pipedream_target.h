/* Arbitrary bytes as a profiled graph, up to a workload that passes its check. */
#include "tests/fuzz/text_input.h"
#include "traces/import/importer.h"
#include "traces/pipedream/import_pipedream.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lw_input in = fuzz_input_begin(data, size);
    struct lw_profile_graph g;
    struct lw_workload w;
    const struct lw_importer *importer;
    struct lw_err err;

    (void)lw_importer_of(&in, &importer, &err);
    if (traces_pipedream_read(&in, &g, &err) == LW_OK) {
        if (lw_workload_from_pipedream(&g, "fuzz", "", &w, &err) == LW_OK)
            lw_workload_free(&w);
        lw_profile_graph_free(&g);
    }
    fuzz_input_end(&in);
    return 0;
}

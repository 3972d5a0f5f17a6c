/* Arbitrary bytes as a profiled graph, up to a workload that passes its check. */
#include "tests/fuzz/text_input.h"
#include "traces/import/file_format.h"
#include "traces/pipedream/import_pipedream.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lw_input in = fuzz_input_begin(data, size);
    struct lw_profile_graph g;
    struct lw_workload w;
    enum traces_format format;
    struct lw_err err;

    (void)traces_format_of(&in, &format, &err);
    if (traces_pipedream_read(&in, &g, &err) == LW_OK) {
        if (lw_workload_from_pipedream(&g, "fuzz", "", &w, &err) == LW_OK)
            lw_workload_free(&w);
        lw_profile_graph_free(&g);
    }
    fuzz_input_end(&in);
    return 0;
}

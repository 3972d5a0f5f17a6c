/* Arbitrary bytes as a profiled graph, up to a workload that passes its check. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/arena.h"
#include "shared/base/input.h"
#include "shared/base/json.h"
#include "traces/import/file_format.h"
#include "traces/pipedream/import_pipedream.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lw_input in = {.name = "fuzz", .text = calloc(size + LW_JSON_PADDING, 1), .len = size};
    struct lw_profile_graph g;
    struct lw_workload w;
    enum traces_format format;
    struct lw_err err;

    if (!in.text)
        abort();
    if (size > 0)
        memcpy(in.text, data, size);
    (void)traces_format_of(&in, &format, &err);
    if (traces_pipedream_read(&in, &g, &err) == LW_OK) {
        if (lw_workload_from_pipedream(&g, "fuzz", "", &w, &err) == LW_OK)
            lw_workload_free(&w);
        lw_profile_graph_free(&g);
    }
    free(in.text);
    if (lw_alloc_live() != 0)
        abort();
    return 0;
}

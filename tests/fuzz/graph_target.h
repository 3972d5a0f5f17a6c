/* Arbitrary bytes as a Chakra trace or an execution trace of PyTorch, up to a plan that passes its
 * check. */
#include "tests/fuzz/text_input.h"
#include "traces/chakra/read_chakra.h"
#include "traces/et/read_et.h"
#include "traces/graph/graph_plan.h"
#include "traces/import/importer.h"

static void fuzz_graph(enum lw_status (*read_graph)(const struct lw_input *, struct traces_graph *,
                                                    struct lw_err *),
                       const struct lw_input *in)
{
    struct traces_graph g[2];
    struct lw_plan p;
    struct lw_err err;

    if (read_graph(in, &g[0], &err) != LW_OK)
        return;
    if (read_graph(in, &g[1], &err) == LW_OK) {
        for (int n = 1; n <= 2; n++)
            if (traces_graphs_plan(g, n, NULL, &p, &err) == LW_OK)
                lw_plan_free(&p);
        traces_graph_free(&g[1]);
    }
    traces_graph_free(&g[0]);
}

static enum lw_status read_et(const struct lw_input *in, struct traces_graph *g, struct lw_err *err)
{
    struct traces_et e;

    LW_TRY(traces_et_read(in, &e, err));
    *g = e.graph;
    return LW_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lw_input in = fuzz_input_begin(data, size);
    const struct lw_importer *importer;
    struct lw_err err;

    (void)lw_importer_of(&in, &importer, &err);
    fuzz_graph(traces_chakra_read, &in);
    fuzz_graph(traces_chakra_read_json, &in);
    fuzz_graph(read_et, &in);
    fuzz_input_end(&in);
    return 0;
}

/* Arbitrary bytes as a GOAL schedule, up to a plan that passes its check. */
#include "tests/fuzz/text_input.h"
#include "traces/goal/goal.h"
#include "traces/import/importer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lw_input in = fuzz_input_begin(data, size);
    struct goal_network n[2] = {traces_goal_network_default(), {.S = 4}};
    const struct lw_importer *importer;
    struct traces_goal g;
    struct lw_plan p;
    struct lw_err err;

    (void)lw_importer_of(&in, &importer, &err);
    if (traces_goal_read(&in, &g, &err) == LW_OK) {
        n[1].source = "given";
        for (int i = 0; i < 2; i++)
            if (traces_goal_plan(&g, &n[i], &p, &err) == LW_OK)
                lw_plan_free(&p);
        traces_goal_free(&g);
    }
    fuzz_input_end(&in);
    return 0;
}

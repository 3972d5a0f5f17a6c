/* Arbitrary bytes as a Kineto trace, through everything that reads its meaning. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "shared/arena.h"
#include "shared/json.h"
#include "traces/import_kineto.h"
#include "traces/inspect.h"
#include "traces/phases.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_meaning(const struct lw_trace *t)
{
    struct lw_inspection inspection;
    struct lw_steps steps;
    struct lw_err err;

    if (lw_inspect(t, &inspection, &err) == LW_OK)
        lw_inspection_free(&inspection);
    if (lw_steps_find(t, &steps, &err) == LW_OK)
        lw_steps_free(&steps);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = calloc(size + LW_JSON_PADDING, 1);
    struct lw_trace t;
    struct lw_err err;

    if (!text)
        abort();
    if (size > 0)
        memcpy(text, data, size);
    if (lw_kineto_parse("fuzz", text, size, &t, &err) == LW_OK) {
        if (lw_trace_sort(&t, &err) == LW_OK)
            read_meaning(&t);
        lw_trace_free(&t);
    }
    free(text);
    if (lw_alloc_live() != 0)
        abort();
    return 0;
}

/* libFuzzer entry for reports of Nsight Systems; tests/traces/nsys/test_nsys.c damages one without
 * it. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/arena.h"
#include "shared/io/input.h"
#include "traces/nsys/import_nsys.h"
#include "traces/steps/device_figures.h"
#include "traces/steps/step_phases.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lw_input in = {.name = "fuzz", .text = lw_alloc(size + 64), .len = size};
    struct lw_trace_reading reading = {.part = 1};
    struct lw_inspection inspection;
    struct lw_steps steps;
    struct lw_trace t;
    struct lw_err err = {0};

    if (!in.text)
        abort();
    if (size > 0)
        memcpy(in.text, data, size);
    if (lw_nsys_take(&in, NULL, &reading, &t, &err) == LW_OK) {
        if (lw_inspect(&t, NULL, &inspection, &err) == LW_OK)
            lw_inspection_free(&inspection);
        if (lw_steps_find(&t, &steps, &err) == LW_OK)
            lw_steps_free(&steps);
        lw_trace_free(&t);
    }
    if (lw_alloc_live() != 0)
        abort();
    return 0;
}

#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/numbers/units.h"

/* Bars that are thinner than a pixel, in as many pixels as their times add up to: of many beside
 * each other some are drawn, so that a picture shows their share at every zoom, and not a block.
 * One that stands alone is a pixel wide.
 *
 *     struct slivers s = {.pixel = ..., .emit = put, .ctx = ...};
 *     slivers_add(&s, row, start, end, colour);     ascending by row, then start
 *     slivers_end(&s);
 *
 * A bar of a pixel and more is emitted as it is, at once. */
enum { SLIVERS_COLOURS = 24 };

typedef void slivers_emit(void *ctx, int32_t row, lw_ps start, lw_ps end, int32_t colour);

struct slivers {
    lw_ps pixel;
    slivers_emit *emit;
    void *ctx;
    /* the row under way */
    bool begun;
    int32_t row;
    int64_t column, last_column; /* under way; the last that was emitted; -1 = none */
    int n_colours;
    int32_t colour[SLIVERS_COLOURS];
    lw_ps due[SLIVERS_COLOURS];  /* time that is not drawn yet; below 0: more was drawn */
};

void slivers_add(struct slivers *s, int32_t row, lw_ps start, lw_ps end, int32_t colour);
void slivers_end(struct slivers *s);

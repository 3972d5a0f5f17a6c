#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/err.h"

/* Where texts go in a picture of points, so that none lies on another, on a point or on its bar.
 * Lengths are shares of the picture's sides, from its lower left corner. Zeroed = empty. */
struct plot_box {
    double x0, x1, y0, y1;
};

struct plot_labels {
    struct plot_box *taken;
    int64_t n, capacity;
};

enum lw_status plot_labels_block(struct plot_labels *l, struct plot_box box, struct lw_err *err);

/* A place for a text of that width and height beside the point (x, y): the nearest free one
 * below or above it, to the right or the left, else over it; taken from then on. *right: the text
 * begins at *at_x, else it ends there; *at_y is its middle. Full everywhere: below the point. */
enum lw_status plot_labels_place(struct plot_labels *l, double x, double y, double width,
                                 double height, double *at_x, double *at_y, bool *right,
                                 struct lw_err *err);
void plot_labels_free(struct plot_labels *l);

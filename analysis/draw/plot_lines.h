#pragma once

#include "analysis/draw/plot.h"
#include "shared/base/arena.h"

/* Runs as lines over one option: runs that differ only in it are one line. */
enum { PLOT_LINES_MOST = 12 };

struct plot_point {
    const struct lw_run *run;
    const char *value; /* of the option */
    double x;          /* NAN: the value is no number */
    bool parted;       /* runs that differ from it only in the option have another framework */
    int32_t line;      /* -1: no other run differs from it only in the option */
};

struct plot_lines {
    struct lw_arena arena;
    const char *option; /* "bucket-cap", "dp", "ranks", "batch", "framework", ... */
    struct plot_point *points; /* [n], of those that have a step and the option */
    int32_t n, n_lines;
    const char **names;        /* [n_lines] what differs between them */
};

/* option NULL: bucket-cap where runs have several, else the option of numbers that has most values.
 * LW_EINVAL: no runs differ only in the option, or there are too many lines; says what to give. */
enum lw_status plot_lines_find(const struct lw_run *runs, int32_t n, const char *option,
                               const char *file, struct plot_lines *out, struct lw_err *err);
void plot_lines_free(struct plot_lines *l);
/* Whether predicted runs, and measured ones, are one line of caps each: what the picture of caps
 * has room for. */
bool plot_lines_are_caps(const struct plot_lines *l);

enum lw_status plot_lines_draw(const struct lw_plot *p, const struct plot_lines *l, FILE *f,
                               struct lw_err *err);

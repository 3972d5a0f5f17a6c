#ifndef LW_ANALYSIS_DRAW_PLOT_STYLE_H
#define LW_ANALYSIS_DRAW_PLOT_STYLE_H

#include <stdint.h>
#include <stdio.h>

#include "analysis/draw/plot.h"

/* What the pictures have in common: colours, units, texts, the corner that says where it is
 * from. */
enum {
    PLOT_FORWARD = 0x56B4E9,
    PLOT_BACKWARD = 0x0072B2,
    PLOT_OPTIMIZER = 0xCC79A7,
    PLOT_OTHER = 0x8C8C8C,    /* copies, host, other kernels */
    PLOT_COMM_EVEN = 0xE69F00,
    PLOT_COMM_ODD = 0xD55E00,
    PLOT_WAIT = 0xFBE8C8,     /* a collective before its last member arrived */
    PLOT_EXPOSED = 0x000000,
    PLOT_MEASURED = 0x009E73,
};

int32_t plot_colour(const char *kind, const char *class, int32_t bucket);

/* The unit in which times up to `most` read well. */
struct plot_unit {
    const char *name;
    double ps;
};
struct plot_unit plot_unit_for(lw_ps most);

/* Text that others wrote, as a quoted string of a gnuplot script and of a line of data between
 * "<< EOD" and "EOD". No other function writes such text, and no double-quoted string of a script
 * holds any: gnuplot runs what stands between backquotes there. */
void plot_text(FILE *f, const char *text);
void plot_data_text(FILE *f, const char *text);

/* Terminal, font, size, title, provenance. */
void plot_begin(const struct lw_plot *p, FILE *f, int width, int height, const char *title);

void plot_key_below(const struct lw_plot *p, FILE *f, int height);

/* "run 2: measured on threads (real), bucket cap 1.00 MiB" */
void plot_run_words(char *buf, size_t size, const struct lw_run *r);
void plot_run_text(FILE *f, const struct lw_run *r);

enum lw_status plot_timeline(struct lw_store *s, const struct lw_plot *p, FILE *f,
                             struct lw_err *err);
/* The timeline in characters; no script. */
enum lw_status plot_characters(struct lw_store *s, const struct lw_plot *p, FILE *f,
                               struct lw_err *err);
enum lw_status plot_overlap(struct lw_store *s, const struct lw_plot *p, FILE *f,
                            struct lw_err *err);
enum lw_status plot_predicted(struct lw_store *s, const struct lw_plot *p, FILE *f,
                              struct lw_err *err);
enum lw_status plot_sweep(struct lw_store *s, const struct lw_plot *p, FILE *f,
                          struct lw_err *err);

#endif

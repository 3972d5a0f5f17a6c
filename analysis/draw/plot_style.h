#pragma once

#include <stdint.h>
#include <stdio.h>

#include "analysis/draw/plot.h"

/* What the pictures have in common: colours, units, texts, the corner with the provenance. */
enum {
    PLOT_FORWARD = 0x56B4E9,
    PLOT_BACKWARD = 0x0072B2,
    PLOT_OPTIMIZER = 0x9C4680,
    PLOT_OTHER = 0x484848,    /* copies */
    PLOT_COMM_EVEN = 0xE69F00,
    PLOT_COMM_ODD = 0xD55E00,
    PLOT_LIGHT = 0xF0E442,    /* the lightest of the palette: differs from all others in grey */
    PLOT_WAIT = 0xFBE8C8,     /* a collective before its last member arrived */
    PLOT_EXPOSED = 0x000000,
    PLOT_MEASURED = 0x009E73,
    PLOT_GATHERED = 0x7FD4B8,
};

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

/* One label of "set xtics (" ... ")": gnuplot reads it as a format of printf for the position, and
 * an unknown or wide conversion there fails or takes for ever. gnuplot does not read titles, labels
 * and keys so. */
void plot_tic(FILE *f, bool first, const char *label, double at);

/* Width of a text in pixels at a font size, from above: letters of a sans-serif font differ. */
int plot_text_px(const char *text, int points);
/* The text, cut at a character with an ellipsis so that it has at most n of them; returns buf. */
char *plot_cut(char *buf, size_t size, const char *text, int n);
/* The same of "zero 3, dp 8, batch 2": whole parts, as many as fit; where less than half of the
 * text would be left, cut within a part. */
char *plot_cut_parts(char *buf, size_t size, const char *text, int n);
/* Characters of a text in UTF-8. */
int plot_characters_of(const char *text);

/* An entry of a legend: one colour, or two that take turns (-1: one). */
struct plot_key {
    const char *name;
    int32_t colour, second;
};

/* The distance of at most n ticks from 0 to `most`: 1, 2 or 5 times a power of ten. */
double plot_tick(double most, int n);

/* Pixels of the picture: what was requested, else the usual size. */
int plot_width(const struct lw_plot *p, int usual);
/* Pixels under the axis for its numbers and name, a legend and the provenance. */
int plot_bottom(const struct lw_plot *p, int width, const struct plot_key *keys, int n);

/* Terminal, size, title, provenance, and the legend under the axis, in as many lines as it needs
 * (none on the dumb terminal). Texts are cut where they would leave the picture. */
void plot_begin(const struct lw_plot *p, FILE *f, int width, int height, const char *title,
                const struct plot_key *keys, int n);

/* Of the steps of a run; of a single one both are that. */
enum lw_status plot_quartiles(struct lw_store *s, const struct lw_run *r, lw_ps *low, lw_ps *high,
                              struct lw_err *err);
lw_ps plot_longest_step(const struct lw_plot *p);

/* Texts that tell runs apart. */
struct plot_names {
    struct lw_arena arena;
    const char *title;  /* WHAT: the run, or the workload of all */
    const char **runs;  /* [n] "run 2, measured: zero 2, on threads (real)" */
};
enum lw_status plot_names_make(const struct lw_run *runs, int32_t n,
                               const char *what, struct plot_names *out, struct lw_err *err);
void plot_names_free(struct plot_names *names);

typedef enum lw_status plot_writer(struct lw_store *s, const struct lw_plot *p, FILE *f,
                                   struct lw_err *err);

/* A kind of picture. `characters` draws it without gnuplot for "-"; NULL: gnuplot's dumb terminal
 * draws the script. */
struct plot_kind {
    const char *name, *about, *needs;
    plot_writer *script, *characters;
    int32_t runs_per_page; /* 0: any number */
    /* Of p->runs those that it shows; NULL: all. */
    enum lw_status (*count)(const struct lw_plot *p, int32_t *n_drawn, struct lw_err *err);
    enum lw_plot_source source;
};
#define PLOT_ROW_DECLARE(id, symbol) extern const struct plot_kind plot_kind_##symbol;
LW_PLOTS(PLOT_ROW_DECLARE)

/* The timeline in characters; no script. */
plot_writer plot_characters;
/* plot_predicted of a validation */
enum lw_status plot_family(const struct lw_plot *p, FILE *f, struct lw_err *err);

#pragma once

#include <stdint.h>
#include <stdio.h>

#include "analysis/store/store.h"
#include "shared/plan/op.h"

/* Pictures of stored runs, and of what a cluster can do. Each is a gnuplot script with its data in
 * it, drawn by a gnuplot child process. Colours go by kind of op and are distinguished without
 * colour vision and in grey (palette of Okabe and Ito, "Color Universal Design", 2008). */

/* row(ID, symbol): a kind of picture. Its file defines plot_kind_SYMBOL (plot_style.h):
 * its name, its line of help and what draws it. */
#define LW_PLOTS(row) \
    row(TIMELINE, timeline)   /* one step of each run: streams of every rank over time */ \
    row(OVERLAP, overlap)     /* per run: compute, exposed and hidden communication, idle */ \
    row(PREDICTED, predicted) /* predicted against measured step, one point a pair */ \
    row(SWEEP, sweep)         /* step over an option, a line for each set of all others */ \
    row(MEMORY, memory)       /* memory of a rank over one step, by category */ \
    row(ROOFLINE, roofline)   /* bus bandwidth of a collective over its size, on a cluster */ \
    row(GEMM, gemm)           /* rate of matrix products over their size, on a device */ \
    row(TUNE, tune)           /* strategies of a search: step over memory, or by options */
#define LW_ROW_PLOT_ID(id, symbol) LW_PLOT_##id,

struct lw_search;

enum lw_plot_kind { LW_PLOTS(LW_ROW_PLOT_ID) LW_N_PLOTS };

enum lw_plot_terminal { LW_TERMINAL_PNG, LW_TERMINAL_SVG, LW_TERMINAL_DUMB, LW_TERMINAL_SCRIPT,
                        LW_TERMINAL_PDF };

const char *lw_plot_name(enum lw_plot_kind k);
/* Every kind with what it shows and which runs it needs, for the help; returns buf. */
char *lw_plot_about(char *buf, size_t size);
enum lw_status lw_plot_parse(const char *name, enum lw_plot_kind *k, struct lw_err *err);

/* What to draw. */
struct lw_plot {
    enum lw_plot_kind kind;
    enum lw_plot_terminal terminal;
    const struct lw_run *runs; /* borrowed */
    int32_t n_runs;
    const struct lw_cluster *cluster; /* roofline, gemm; borrowed */
    enum lw_op_kind op;               /* roofline */
    int32_t n_ranks, n_nodes;         /* roofline: of one group; 0 = several that the cluster has */
    const char *validation, *family;  /* predicted: JSON of `lapwing validate`, and of it what;
                                       * NULL: runs, the first family */
    const char *x, *y;         /* sweep: the option; NULL = chosen. tune: NULL = memory */
    const struct lw_search *search; /* tune; borrowed */
    int32_t step;              /* timeline, memory: -1 = the one nearest the median */
    int32_t max_ranks;         /* timeline: groups of ranks that differ */
    int32_t width, height;     /* pixels or characters; 0 = as the picture needs */
};

/* What the picture is made of: the caller opens a store, a cluster, or finds a search. */
enum lw_plot_source { LW_PLOT_FROM_RUNS, LW_PLOT_FROM_CLUSTER, LW_PLOT_FROM_SEARCH };
enum lw_plot_source lw_plot_source_of(enum lw_plot_kind k);

/* Page `page` (1, 2, ...) of a picture that has room for so many runs only; *n_pages: how many.
 * LW_EINVAL: no such page. */
enum lw_status lw_plot_page(struct lw_plot *p, int64_t page, int64_t *n_pages, struct lw_err *err);

/* How many of p->runs the picture shows: 'predicted' and 'sweep' choose among them. */
enum lw_status lw_plot_count(const struct lw_plot *p, int32_t *n_drawn, struct lw_err *err);

/* The terminal that goes with an output name: .png, .svg, .pdf, .gp (the script itself), "-"
 * (characters). LW_EINVAL names what is allowed. */
enum lw_status lw_plot_terminal_of(const char *file, enum lw_plot_terminal *t, struct lw_err *err);

/* The script. LW_EINVAL: these runs have not what the picture needs; says what. */
enum lw_status lw_plot_script(struct lw_store *s, const struct lw_plot *p, FILE *f,
                              struct lw_err *err);

/* Script, gnuplot, file: whole or not at all. *n_replaced: characters of .png and .pdf that no font
 * of this machine has: they are drawn as '?'. LW_ENOTSUP: no gnuplot here. */
enum lw_status lw_plot_draw(struct lw_store *s, const struct lw_plot *p, const char *file,
                            int64_t *n_replaced, struct lw_err *err);

/* Version of the gnuplot on the PATH ("gnuplot 5.4 patchlevel 4") into buf. */
enum lw_status lw_plot_version(char *buf, size_t size, struct lw_err *err);

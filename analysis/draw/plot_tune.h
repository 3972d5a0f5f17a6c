#pragma once

#include "analysis/draw/plot_style.h"
#include "analysis/store/store_search.h"

/* Pictures of a stored search; the store is the caller's. */
struct plot_search {
    const struct lw_search *search;
    struct lw_arena arena;
    struct lw_searched *v; /* [n] */
    int64_t n;
};

/* Of a strategy "tp=8 dp=2" the value of an option, and of "devices" their number; false: it has
 * none. Of pairs "ranks" is the same as "devices". */
enum { PLOT_SEARCH_WORD = 64 };
bool plot_search_value(const struct lw_searched *v, const char *option, char out[PLOT_SEARCH_WORD]);
bool plot_search_fits(const struct lw_searched *v); /* simulated, and not known to lack memory */

/* "step", or "p90 of the step" of a search with noise: what strategies are ranked by. */
const char *plot_search_ranked(const struct plot_search *s);

/* "Strategies of gpt2 on dgx-a100, 64 samples a step" after `what`. */
void plot_search_title(const struct plot_search *s, const char *what, char *out, size_t size);

/* The best of each value of p->x; with p->y the best step of each pair of values. */
enum lw_status plot_search_line(const struct lw_plot *p, struct plot_search *s, FILE *f,
                                struct lw_err *err);
enum lw_status plot_search_heat(const struct lw_plot *p, struct plot_search *s, FILE *f,
                                struct lw_err *err);

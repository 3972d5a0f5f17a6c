#pragma once

#include <stdint.h>
#include <stdio.h>

#include "shared/base/err.h"

/* Characters that the fonts of this machine have. cairo draws one that no font has as a box with
 * its code, in a size of its own that can cover a picture (gnuplot 5.4, pngcairo and pdfcairo). */
struct plot_glyphs {
    uint8_t *has; /* a bit for each code point; NULL: it is not known what the fonts have */
};

/* From the text of `fc-list : charset`: a line for each font, of ranges of code points in base 16.
 * LW_ENOMEM. The caller frees it. */
enum lw_status plot_glyphs_read(FILE *list, struct plot_glyphs *g, struct lw_err *err);
void plot_glyphs_free(struct plot_glyphs *g);

/* Copies a script, from its begin, with '?' for every character beyond ASCII that the fonts do not
 * have; *n: how many were replaced. LW_EIO, LW_ENOMEM. */
enum lw_status plot_glyphs_copy(const struct plot_glyphs *g, FILE *from, FILE *to, int64_t *n,
                                struct lw_err *err);

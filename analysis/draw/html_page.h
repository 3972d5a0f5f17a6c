#pragma once

#include <stdio.h>

#include "analysis/draw/step_bars.h"

/* Pieces of the HTML page. */
void html_text(FILE *f, const char *text); /* with < > & " as entities */

/* One step of each run as an inline SVG picture; bars carry hover texts.
 *   runs[]  their labels */
void html_timeline(FILE *f, const struct picture *pic, const char *const *runs);

/* Up to the title, from there to the body, and what the search box and the printer need. */
extern const char html_head[], html_style[], html_script[];

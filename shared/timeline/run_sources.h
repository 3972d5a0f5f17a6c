#pragma once

#include <stddef.h>

/* What the times of an execution come from. Stored as one text: the compute, then what changed the
 * network or gave several ranks one core or device: "real", "sleep", "real, paced",
 * "sleep, emulated". Versions before this one stored the last word alone. */
struct lw_run_sources {
    const char *compute; /* real: the hardware; spin, sleep: the clock; emulated: ranks shared a
                          * core or device; "" = none, or not known */
    const char *network; /* real, paced, emulated; "" = no execution */
    const char *last;    /* the last word, in the order real, spin, sleep, paced, emulated */
};

/* text NULL or "": no execution. Results are constant texts. */
struct lw_run_sources lw_run_sources_of(const char *text);

enum { LW_RUN_SOURCES = 32 };
/* last: the word of the whole execution; by_clock: "spin", "sleep", or NULL for real compute. */
const char *lw_run_sources_text(char text[LW_RUN_SOURCES], const char *by_clock, const char *last);

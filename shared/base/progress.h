#pragma once

#include <signal.h>
#include <stdbool.h>

/* How long work tells how far it is. Library code calls lw_progress_report as often as it likes;
 * a NULL or zeroed progress is silent. */
struct lw_progress {
    void (*report)(void *ctx, const char *what, double share); /* share in [0, 1] */
    void *ctx;
    const volatile sig_atomic_t *stop; /* not 0: a signal asks to stop; NULL = never */
};

void lw_progress_report(const struct lw_progress *p, const char *what, double share);
/* Whether the work should end here and hand over what it has. */
bool lw_progress_stopped(const struct lw_progress *p);

/* From here on the first SIGINT, SIGTERM or SIGHUP (where it is not ignored, as under nohup) only
 * sets what this returns, so that what is done so far can be printed or stored; a second one ends
 * the process. */
const volatile sig_atomic_t *lw_catch_signals(void);

/* A bar with the time that is left, on standard error; a line a minute if that is not a terminal.
 * Silent when `quiet`, and for the first half second or minute. */
struct lw_progress_bar {
    bool on, shown, lines;
    double began_s, last_s;
};

struct lw_progress lw_progress_bar_begin(struct lw_progress_bar *bar, bool quiet);
void lw_progress_bar_end(struct lw_progress_bar *bar); /* erases it */

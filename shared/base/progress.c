/* Progress of long work: a bar on the terminal, nothing anywhere else. */
#include "shared/base/progress.h"

#include <stdio.h>
#include <unistd.h>

#include "shared/base/clock.h"

void lw_progress_report(const struct lw_progress *p, const char *what, double share)
{
    if (p && p->report)
        p->report(p->ctx, what, share);
}

static void draw(void *ctx, const char *what, double share)
{
    static const char filled[] = "########################";
    struct lw_progress_bar *bar = ctx;
    double now = lw_now_s(), spent = now - bar->began_s;

    if (!bar->on || spent < 0.5 || now - bar->last_s < 0.1)
        return;
    share = share < 0 ? 0 : share > 1 ? 1 : share;
    int cells = (int)(share * 24);
    bar->last_s = now;
    bar->shown = true;
    fprintf(stderr, "\r\033[K%-28.28s [%.*s%*s] %3.0f %%", what, cells, filled, 24 - cells, "",
            share * 100);
    if (share > 0.02)
        fprintf(stderr, "  %.0f s left", spent * (1 - share) / share);
    fflush(stderr);
}

struct lw_progress lw_progress_bar_begin(struct lw_progress_bar *bar, bool quiet)
{
    *bar = (struct lw_progress_bar){.on = !quiet && isatty(STDERR_FILENO), .began_s = lw_now_s()};
    return (struct lw_progress){draw, bar};
}

void lw_progress_bar_end(struct lw_progress_bar *bar)
{
    if (bar->shown)
        fputs("\r\033[K", stderr);
    bar->shown = false;
}

/* Progress of long work: a bar on the terminal, a line a minute anywhere else. */
#include "shared/base/progress.h"

#include <stdio.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "shared/base/temp_names.h"

void lw_progress_report(const struct lw_progress *p, const char *what, double share)
{
    if (p && p->report)
        p->report(p->ctx, what, share);
}

bool lw_progress_stopped(const struct lw_progress *p)
{
    return p && p->stop && *p->stop != 0;
}

/* The signal that this process got to end; a handler can only set a global. */
static volatile sig_atomic_t asked_to_end;

/* A second signal ends the process at once. */
static void note_signal(int signal)
{
    asked_to_end = signal;
    lw_temp_catch(signal);
}

const volatile sig_atomic_t *lw_catch_signals(void)
{
    struct sigaction a = {.sa_handler = note_signal, .sa_flags = (int)SA_RESETHAND}, before;

    sigaction(SIGTERM, &a, NULL);
    sigaction(SIGINT, &a, NULL);
    if (sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler != SIG_IGN) /* nohup */
        sigaction(SIGHUP, &a, NULL);
    return &asked_to_end;
}

enum { LINE_EVERY_S = 60 };
#define ESTIMATE_FROM 0.1 /* of the work: its first parts may be the slowest */

/* Into a log. */
static void write_line(struct lw_progress_bar *bar, const char *what, double share, double now)
{
    double spent = now - bar->began_s;

    if (now - bar->last_s < LINE_EVERY_S)
        return;
    bar->last_s = now;
    fprintf(stderr, "%.60s: %.0f %% after %.0f s", what, share * 100, spent);
    if (share >= ESTIMATE_FROM)
        fprintf(stderr, ", %.0f s left", spent * (1 - share) / share);
    fputc('\n', stderr);
}

enum { CELLS = 12 }; /* the whole bar fits 60 columns */

static void draw(void *ctx, const char *what, double share)
{
    static const char filled[CELLS + 1] = "############";
    struct lw_progress_bar *bar = ctx;
    double now = lw_now_s(), spent = now - bar->began_s;

    share = share < 0 ? 0 : share > 1 ? 1 : share;
    if (bar->lines)
        write_line(bar, what, share, now);
    if (!bar->on || spent < 0.5 || now - bar->last_s < 0.1)
        return;
    int cells = (int)(share * CELLS);
    bar->last_s = now;
    bar->shown = true;
    fprintf(stderr, "\r\033[K%-24.24s [%.*s%*s] %3.0f %%", what, cells, filled,
            CELLS - cells, "", share * 100);
    if (share >= ESTIMATE_FROM)
        fprintf(stderr, "  %.0f s left", spent * (1 - share) / share);
    fflush(stderr);
}

struct lw_progress lw_progress_bar_begin(struct lw_progress_bar *bar, bool quiet)
{
    double now = lw_now_s();
    bool terminal = isatty(STDERR_FILENO);

    *bar = (struct lw_progress_bar){.on = !quiet && terminal, .lines = !quiet && !terminal,
                                    .began_s = now, .last_s = terminal ? 0 : now};
    return (struct lw_progress){.report = draw, .ctx = bar};
}

void lw_progress_bar_end(struct lw_progress_bar *bar)
{
    if (bar->shown)
        fputs("\r\033[K", stderr);
    bar->shown = false;
}

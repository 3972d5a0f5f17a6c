/* lapwing plot: pictures of stored runs. */
#include <stdio.h>
#include <string.h>

#include "analysis/draw/plot.h"
#include "shared/cli/cli.h"
#include "shared/cli/command.h"

static void report(const char *file, const struct lw_plot *p, int64_t page, int64_t n_pages)
{
    printf("wrote %s: %s of %d run%s", file, lw_plot_name(p->kind), p->n_runs,
           p->n_runs == 1 ? "" : "s");
    if (n_pages > 1)
        printf(", page %lld of %lld (--page)", (long long)page, (long long)n_pages);
    putchar('\n');
}

int cmd_plot(int argc, char **argv)
{
    const char *db = "lapwing.db", *file = NULL;
    int64_t step = -1, ranks = 8, width = 0, height = 0, page = 1, n_pages = 1;
    const struct lw_opt options[] = {
        {"output", 'o', LW_OPT_STRING, &file, "FILE",
         ".png, .svg, .gp (gnuplot script), or - for characters (KIND.png)", 0, 0},
        {"step", 0, LW_OPT_INT, &step, "N", "timeline: this step (the one nearest the median)", 0,
         0},
        {"max-ranks", 0, LW_OPT_INT, &ranks, "N",
         "timeline: ranks, or groups of equal ones; one of each stage first (8)", 1, 1000},
        {"page", 0, LW_OPT_INT, &page, "N", "the N-th page, of runs that need several (1)", 1,
         INT32_MAX},
        {"width", 0, LW_OPT_INT, &width, "N",
         "pixels (600 or more show all texts), with -o - characters", 20, 20000},
        {"height", 0, LW_OPT_INT, &height, "N", "pixels, with -o - characters", 10, 20000},
        LW_OPTION_DB(&db),
        {0},
    };
    char kinds[768], about[1024];
    snprintf(about, sizeof about, "Draw stored runs with gnuplot. KIND: %s. RUN is a number or "
             "'last'; none: every finished run.", lw_plot_about(kinds, sizeof kinds));
    const struct lw_usage usage = {
        "plot", "KIND [RUN...] [-o FILE] [options]",
        about,
        1, -1};
    struct lw_err err = {0};
    struct lw_store *store = NULL;
    struct lw_arena arena = {0};
    struct lw_plot plot = {0};
    struct lw_run *runs = NULL;
    char name[64];
    int n_operands, rc;

    if ((rc = lw_cli_begin(&usage, options, argc, argv, &n_operands)) >= 0)
        return rc;
    if (lw_plot_parse(argv[1], &plot.kind, &err) != LW_OK)
        return lw_cli_usage("plot", "%s", err.msg);
    if (!file) {
        strcat(strcpy(name, lw_plot_name(plot.kind)), ".png");
        file = name;
    }
    if (lw_plot_terminal_of(file, &plot.terminal, &err) != LW_OK)
        return lw_cli_usage("plot", "%s", err.msg);
    plot.step = (int32_t)step;
    plot.max_ranks = (int32_t)ranks;
    plot.width = (int32_t)width;
    plot.height = (int32_t)height;
    enum lw_status st = lw_store_open(db, LW_STORE_READ, &store, &err);
    if (st == LW_OK)
        st = lw_store_select_runs(store, argv + 2, n_operands - 1, &arena, &runs, &plot.n_runs,
                                  &err);
    plot.runs = runs;
    if (st == LW_OK)
        st = lw_plot_page(&plot, page, &n_pages, &err);
    if (st == LW_OK)
        st = lw_plot_draw(store, &plot, file, &err);
    if (st == LW_OK && strcmp(file, "-") != 0)
        report(file, &plot, page, n_pages);
    lw_store_close(store);
    lw_arena_free(&arena);
    return lw_cli_end("plot", st, &err);
}

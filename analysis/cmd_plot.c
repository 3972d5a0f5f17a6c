/* lapwing plot: pictures of stored runs, searches and clusters. */
#include <stdio.h>
#include <string.h>

#include "analysis/draw/plot.h"
#include "analysis/store/store_search.h"
#include "shared/cli/cli.h"
#include "shared/cli/command.h"
#include "shared/files/files.h"
#include "shared/text/wrap.h"

/* What one call was asked to do, and what it read. */
struct session {
    const char *db, *file, *cluster_name, *op;
    int64_t step, max_ranks, width, height, page, n_pages, ranks, nodes, n_replaced;
    int32_t n_drawn;
    struct lw_plot plot;
    struct lw_cluster cluster;
    struct lw_search search;
    struct lw_store *store;
    struct lw_arena arena;
};

static enum lw_status load(struct session *s, char **names, int n_names, struct lw_err *err)
{
    struct lw_run *runs;

    if (lw_plot_source_of(s->plot.kind) == LW_PLOT_FROM_CLUSTER) {
        s->plot.cluster = &s->cluster;
        return lw_cluster_find(s->cluster_name ? s->cluster_name : "host", &s->cluster, err);
    }
    if (s->plot.validation)
        return LW_OK;
    LW_TRY(lw_store_open(s->db, LW_STORE_READ, &s->store, err));
    if (lw_plot_source_of(s->plot.kind) == LW_PLOT_FROM_SEARCH) {
        s->plot.search = &s->search;
        return lw_store_find_search(s->store, n_names > 0 ? names[0] : "last", &s->arena,
                                    &s->search, err);
    }
    LW_TRY(lw_store_select_runs(s->store, names, n_names, &s->arena, &runs, &s->plot.n_runs, err));
    s->plot.runs = runs;
    return lw_plot_page(&s->plot, s->page, &s->n_pages, err);
}

static void report(const struct session *s)
{
    const struct lw_plot *p = &s->plot;

    printf("wrote %s: %s", s->file, lw_plot_name(p->kind));
    if (p->search)
        printf(" of search %lld", (long long)p->search->id);
    if (s->n_drawn < p->n_runs)
        printf(" of %d runs (%d given)", s->n_drawn, p->n_runs);
    else if (p->n_runs > 0)
        printf(" of %d run%s", p->n_runs, lw_plural(p->n_runs));
    if (s->n_pages > 1)
        printf(", page %lld of %lld (--page)", (long long)s->page, (long long)s->n_pages);
    putchar('\n');
    if (s->n_replaced > 0)
        lw_printf_paragraph(stdout, "%lld character%s that no font here has, drawn as '?'; -o of a "
                            ".svg keeps them for the fonts of its reader\n",
                            (long long)s->n_replaced, lw_plural(s->n_replaced));
}

/* Options that the picture has no use for. */
static enum lw_status refuse_idle(const struct session *s, struct lw_err *err)
{
    const enum lw_plot_kind k = s->plot.kind;
    const bool roofline = k == LW_PLOT_ROOFLINE, timeline = k == LW_PLOT_TIMELINE;
    const bool cluster = lw_plot_source_of(k) == LW_PLOT_FROM_CLUSTER;
    const struct {
        bool given, taken;
        const char *name, *of;
    } each[] = {
        {s->plot.validation, k == LW_PLOT_PREDICTED, "--validation", "'predicted'"},
        {s->plot.family, k == LW_PLOT_PREDICTED, "--family", "'predicted' with --validation"},
        {s->cluster_name, cluster, "-c", "'roofline' and 'gemm'"},
        {s->op, roofline, "--op", "'roofline'"},
        {s->ranks > 0, roofline, "--ranks", "'roofline'"},
        {s->nodes > 0, roofline, "--nodes", "'roofline'"},
        {s->max_ranks > 0, timeline, "--max-ranks", "'timeline'"},
        {s->page > 1, lw_plot_source_of(k) == LW_PLOT_FROM_RUNS && !s->plot.validation, "--page",
         "pictures of stored runs"},
        {s->step >= 0, timeline || k == LW_PLOT_MEMORY, "--step", "'timeline' and 'memory'"},
    };

    for (size_t i = 0; i < sizeof each / sizeof *each; i++)
        if (each[i].given && !each[i].taken)
            return lw_fail(err, LW_EUSAGE, "%s is for %s: it changes nothing of '%s'",
                           each[i].name, each[i].of, lw_plot_name(k));
    return LW_OK;
}

static enum lw_status check(struct session *s, int n_names, struct lw_err *err)
{
    struct lw_plot *p = &s->plot;
    bool cluster = lw_plot_source_of(p->kind) == LW_PLOT_FROM_CLUSTER;

    LW_TRY(refuse_idle(s, err));
    if (p->family && !p->validation && p->kind == LW_PLOT_PREDICTED)
        return lw_fail(err, LW_EUSAGE, "--family needs --validation");
    if (n_names > 0 && (cluster || p->validation))
        return lw_fail(err, LW_EUSAGE, "'%s' %s draws no runs", lw_plot_name(p->kind),
                       cluster ? "of a cluster" : "of a validation");
    if (p->x && p->kind != LW_PLOT_SWEEP && p->kind != LW_PLOT_TUNE)
        return lw_fail(err, LW_EUSAGE, "--x is for 'sweep' and 'tune'");
    if (p->y && (p->kind != LW_PLOT_TUNE || !p->x || strcmp(p->x, p->y) == 0))
        return lw_fail(err, LW_EUSAGE, "--y is for 'tune' with another option as --x");
    if (p->kind == LW_PLOT_TUNE && n_names > 1)
        return lw_fail(err, LW_EUSAGE, "'tune' draws one search, got %d", n_names);
    LW_TRY(lw_op_parse(s->op ? s->op : "all_reduce", &p->op, err));
    LW_TRY(lw_plot_terminal_of(s->file, &p->terminal, err));
    p->step = (int32_t)s->step;
    p->max_ranks = s->max_ranks > 0 ? (int32_t)s->max_ranks : 8;
    p->width = (int32_t)s->width;
    p->height = (int32_t)s->height;
    p->n_ranks = (int32_t)s->ranks;
    p->n_nodes = (int32_t)s->nodes;
    return LW_OK;
}

static enum lw_status is_op(const char *text, struct lw_err *err)
{
    enum lw_op_kind op;

    return lw_op_parse(text, &op, err);
}

int cmd_plot(int argc, char **argv)
{
    struct session s = {.db = "lapwing.db", .step = -1, .page = 1, .n_pages = 1};
    const struct lw_opt options[] = {
        {"output", 'o', LW_OPT_STRING, &s.file, "FILE",
         ".png, .svg, .pdf, .gp (gnuplot script), or - for characters (KIND.png)"},
        LW_OPTION_FORCE,
        {"step", 0, LW_OPT_INT, &s.step, "N",
         "timeline, memory: this step (the one nearest the median)", 0, 0},
        {"max-ranks", 0, LW_OPT_INT, &s.max_ranks, "N",
         "timeline: ranks, or groups of equal ones; one of each stage first (8)", 1, 1000},
        {"page", 0, LW_OPT_INT, &s.page, "N", "the N-th page, of runs that need several (1)", 1,
         INT32_MAX},
        {"cluster", 'c', LW_OPT_STRING, &s.cluster_name, "NAME|FILE",
         "roofline, gemm: known cluster or cluster file (host)"},
        {"op", 0, LW_OPT_STRING, &s.op, "OP", "roofline: the collective (all_reduce)",
         .check = is_op},
        {"ranks", 0, LW_OPT_INT, &s.ranks, "N",
         "roofline: ranks of one group (groups that were measured, and whole nodes)", 2, INT32_MAX},
        {"nodes", 0, LW_OPT_INT, &s.nodes, "N",
         "roofline: nodes of these ranks (the fewest that hold them)", 1, INT32_MAX},
        {"validation", 0, LW_OPT_STRING, &s.plot.validation, "FILE",
         "predicted: output of 'lapwing validate --format json'"},
        {"family", 0, LW_OPT_STRING, &s.plot.family, "TEXT",
         "--validation: of it this family (the first)"},
        {"width", 0, LW_OPT_INT, &s.width, "N",
         "pixels (600 or more show all texts), with -o - characters", 20, 20000},
        {"height", 0, LW_OPT_INT, &s.height, "N", "pixels, with -o - characters", 10, 20000},
        {"x", 0, LW_OPT_STRING, &s.plot.x, "NAMES",
         "sweep: the option of the axis, as dp, batch, ranks (bucket-cap, else that with most "
         "values); tune: tokens/s of the best strategy over this option, or devices"},
        {"y", 0, LW_OPT_STRING, &s.plot.y, "NAMES",
         "tune: with --x the best step of each pair of values of two options"},
        LW_OPTION_DB(&s.db),
        {0},
    };
    char kinds[1024], about[1280], name[64];
    snprintf(about, sizeof about, "Draw stored runs, a search or a cluster with gnuplot. KIND: %s. "
             "RUN is a number, 'last', a range or a list (2,5-7); none: every finished run. "
             "'tune' takes the number of a search (the last).", lw_plot_about(kinds, sizeof kinds));
    const struct lw_usage usage = {"plot", "KIND [RUN...] [-o FILE] [options]", about, 1, -1};
    struct lw_err err = {0};
    int n_operands, rc;

    if ((rc = lw_cli_begin(&usage, options, argc, argv, &n_operands)) >= 0)
        return rc;
    if (lw_plot_parse(argv[1], &s.plot.kind, &err) != LW_OK)
        return lw_cli_usage("plot", "%s", err.msg);
    if (!s.file) {
        strcat(strcpy(name, lw_plot_name(s.plot.kind)), ".png");
        s.file = name;
    }
    if (check(&s, n_operands - 1, &err) != LW_OK)
        return lw_cli_usage("plot", "%s", err.msg);
    enum lw_status st = load(&s, argv + 2, n_operands - 1, &err);
    if (st == LW_OK)
        st = lw_plot_draw(s.store, &s.plot, s.file, &s.n_replaced, &err);
    if (st == LW_OK)
        st = lw_plot_count(&s.plot, &s.n_drawn, &err);
    if (st == LW_OK && strcmp(s.file, "-") != 0)
        report(&s);
    lw_store_close(s.store);
    lw_cluster_free(&s.cluster);
    lw_arena_free(&s.arena);
    return lw_cli_end("plot", st, &err);
}

/* lapwing report: stored runs as one HTML page. */
#include <stdio.h>
#include <string.h>

#include "analysis/draw/report.h"
#include "shared/cli/cli.h"
#include "shared/cli/command.h"
#include "shared/io/output.h"

static enum lw_status write_report(struct lw_store *s, const struct lw_run *runs, int32_t n,
                                   const char *file, struct lw_err *err)
{
    struct lw_output out = {0};

    LW_TRY(lw_output_open(file, "report", &out, err));
    enum lw_status st = lw_report_write(s, runs, n, out.file, err);
    if (st != LW_OK) {
        lw_output_abort(&out);
        return st;
    }
    return lw_output_commit(&out, err);
}

int cmd_report(int argc, char **argv)
{
    const char *db = "lapwing.db", *file = "report.html";
    const struct lw_opt options[] = {
        {"output", 'o', LW_OPT_STRING, &file, "FILE",
         "the page (report.html); - is standard output"},
        LW_OPTION_FORCE,
        LW_OPTION_DB(&db),
        {0},
    };
    const struct lw_usage usage = {
        "report", "[RUN...] [-o FILE] [options]",
        "Write stored runs as one HTML page without outside references: predicted against "
        "measured, timelines, plans, provenance. RUN is a number, 'last', a range or a list "
        "(2,5-7); none: every finished run.", 0, -1};
    struct lw_err err = {0};
    struct lw_store *store = NULL;
    struct lw_arena arena = {0};
    struct lw_run *runs;
    int32_t n;
    int n_operands, rc;

    if ((rc = lw_cli_begin(&usage, options, argc, argv, &n_operands)) >= 0)
        return rc;
    enum lw_status st = lw_store_open(db, LW_STORE_READ, &store, &err);
    if (st == LW_OK)
        st = lw_store_select_runs(store, argv + 1, n_operands, &arena, &runs, &n, &err);
    if (st == LW_OK)
        st = write_report(store, runs, n, file, &err);
    if (st == LW_OK && strcmp(file, "-") != 0)
        printf("wrote %s: %d run%s\n", file, n, lw_plural(n));
    lw_store_close(store);
    lw_arena_free(&arena);
    return lw_cli_end("report", st, &err);
}

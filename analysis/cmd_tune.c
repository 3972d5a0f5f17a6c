/* lapwing tune: the best strategies of a space, exactly. */
#include <math.h>
#include <string.h>

#include "analysis/tune/tune_parts.h"
#include "analysis/tune/tune_print.h"
#include "shared/cli/cli.h"
#include "shared/cli/command.h"

int cmd_tune(int argc, char **argv)
{
    struct lw_tune_command c;
    struct lw_tune_result r = {0};
    struct lw_err err = {0};
    struct lw_progress_bar bar;
    int rc = lw_tune_parts(&c, argc, argv);

    if (rc < 0) {
        struct lw_progress progress = lw_progress_bar_begin(&bar, c.quiet);
        progress.stop = lw_catch_signals();
        const struct lw_tune_task task = {.parts = c.parts, .n_parts = c.n_parts,
                                          .n_best = (int)c.n_best, .n_threads = (int)c.n_threads,
                                          .no_bounds = c.no_bounds, .progress = &progress};
        enum lw_status st = lw_tune(&task, &r, &err);
        lw_progress_bar_end(&bar);
        if (st == LW_OK)
            st = lw_tune_answer(&c, &r, &err);
        const struct lw_tune_report report = {&r, c.model, c.cluster, c.framework, c.global_batch};
        if (st == LW_OK)
            st = lw_tune_print(&report, c.format, stdout, &err);
        if (st == LW_OK && r.interrupted)
            st = lw_fail(&err, LW_EFAILED, "interrupted: the search is not complete");
        rc = lw_cli_end("tune", st, &err);
    }
    lw_tune_free(&r);
    lw_tune_parts_free(&c);
    return rc;
}

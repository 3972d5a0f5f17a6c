/* lapwing inspect: what recorded traces show, in text or JSON. Every file is read before anything is
 * printed, so that a bad one leaves no half answer. */
#include <string.h>

#include "shared/cli.h"
#include "shared/command.h"
#include "traces/inspect_print.h"

static const struct lw_usage usage = {
    .command = "inspect",
    .synopsis = "TRACE... [--format json]",
    .about = "Shows what recorded traces hold: for devices the busy, exposed and idle time of each "
             "iteration and its communication kernels with bytes; for the host its steps, phases "
             "and collectives. Reads PyTorch profiler (Kineto) traces, gzipped or plain.",
    .min_operands = 1,
    .max_operands = -1,
};

int cmd_inspect(int argc, char **argv)
{
    enum lw_format format = LW_FORMAT_TEXT;
    const struct lw_opt table[] = {
        {"format", 0, LW_OPT_FORMAT, &format, "text|json", "how to print (text)", 0, 0},
        {0},
    };
    struct traces_report report = {0};
    struct lw_err err = {0};
    int n, rc = lw_cli_begin(&usage, table, argc, argv, &n);

    if (rc >= 0)
        return rc;
    if (format == LW_FORMAT_CSV)
        return lw_cli_usage("inspect", "--format csv: inspect prints text or json");
    enum lw_status status = LW_OK;
    for (int i = 1; i <= n && status == LW_OK; i++)
        status = traces_report_add(&report, argv[i], &err);
    if (status == LW_OK)
        status = format == LW_FORMAT_JSON ? traces_report_json(&report, stdout, &err)
                                          : traces_report_text(&report, stdout, &err);
    traces_report_free(&report);
    return lw_cli_end("inspect", status, &err);
}

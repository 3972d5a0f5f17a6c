/* lapwing inspect: what recordings show, in text, JSON or CSV. Every file is read before
 * anything is printed, so that a bad one leaves no half answer. */
#include <stdlib.h>

#include "analysis/draw/html_page.h"
#include "shared/cli/cli.h"
#include "shared/cli/command.h"
#include "shared/io/output.h"
#include "traces/import/importer.h"
#include "traces/goal/goal.h"
#include "traces/inspect/inspect_print.h"
#include "traces/nccl_tests/import_nccl_tests.h"

static const struct lw_usage usage = {
    .command = "inspect",
    .synopsis = "FILE|FOLDER... [--report [-o FILE.html]] [--salvage] [--format text|json|csv]",
    .min_operands = 1,
    .max_operands = -1,
};

static const char begin[] =
    "Shows what recordings hold; the format is found by content, gzipped or "
    "plain.";

/* The text of the report as a page that stands alone. */
static enum lw_status write_page(const struct traces_report *r, const char *file,
                                 struct lw_err *err)
{
    struct lw_output out;
    char *text = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&text, &len);

    if (!f)
        return lw_fail_nomem(err);
    enum lw_status status = traces_report_text(r, f, err);
    if (fclose(f) != 0 && status == LW_OK)
        status = lw_fail_nomem(err);
    if (status == LW_OK && (status = lw_output_open(file, "report", &out, err)) == LW_OK) {
        fprintf(out.file, "%sTraces: what they show%s<h1>Traces: what they show</h1>\n"
                          "<div class=\"wide\"><pre>",
                html_head, html_style);
        html_text(out.file, text);
        fputs("</pre></div>\n</body>\n</html>\n", out.file);
        status = lw_output_commit(&out, err);
    }
    free(text);
    return status;
}

static const struct lw_importer *importer_of(const void *files, int k)
{
    return ((const struct traces_report *)files)->files[k].importer;
}

static enum lw_status refuse_idle(const struct traces_bench_hint *hint,
                                  const struct traces_report *r, struct lw_err *err)
{
    const struct lw_importer_option given[] = {
        {"op", hint->op},       {"ranks", hint->n_ranks > 0}, {"nodes", hint->n_nodes > 0},
        {"where", hint->where}, {NULL, false},
    };

    return lw_importer_refuse(given, r, importer_of, (int)r->n, err);
}

int cmd_inspect(int argc, char **argv)
{
    enum lw_format format = LW_FORMAT_TEXT;
    struct traces_reading reading = {0};
    struct traces_bench_hint hint = {0};
    struct lw_kernel_table kernels = {0};
    const char *kernels_file = NULL, *html = NULL;
    struct traces_report report = {0};
    const struct lw_opt table[] = {
        {"report", 0, LW_OPT_FLAG, &report.report, NULL,
         "of traces with device work also why streams idle, how ops were launched, the critical "
         "path, the run if all ranks were alike, and what differs between two files"},
        {"output", 'o', LW_OPT_STRING, &html, "FILE",
         "with --report: write the report as an HTML page; - = stdout"},
        LW_OPTION_FORCE,
        {"salvage", 0, LW_OPT_FLAG, &reading.salvage, NULL,
         "show a truncated or damaged trace up to the damage, and report its place"},
        {"op", 0, LW_OPT_STRING, &hint.op, "OP",
         "nccl-tests: the operation, where the output does not say",
         .check = traces_bench_op_check},
        {"ranks", 0, LW_OPT_INT, &hint.n_ranks, "N", "nccl-tests: ranks that ran", 1, INT32_MAX},
        {"nodes", 0, LW_OPT_INT, &hint.n_nodes, "N", "nccl-tests: nodes that they ran on", 1,
         INT32_MAX},
        {"loggops", 0, LW_OPT_STRING, &hint.loggops, "L=..,o=..,g=..,G=..,O=..,S=..",
         "GOAL schedules: parameters in ns and bytes (the file's, else L=2500,o=1500,g=1000,G=6,"
         "O=0,S=65535)", .check = traces_goal_network_check},
        {"where", 0, LW_OPT_STRING, &hint.where, "COLUMN=TEXT[;...]",
         "of a CSV of collectives: only rows whose cells contain these texts",
         .check = traces_bench_where_check},
        {"kernel-classes", 0, LW_OPT_STRING, &kernels_file, "FILE",
         "classes of kernels (comm, compute, memory), which precede the built-in table"},
        {"all", 0, LW_OPT_FLAG, &report.all, NULL, "print every step and collective (the longest)"},
        {"format", 0, LW_OPT_FORMAT, &format, "text|json|csv",
         "how to print; csv: a row per window, kernel, step or size (text)"},
        {0},
    };
    struct lw_progress_bar bar;
    struct lw_err err = {0};
    char about[LW_IMPORTERS_HELP];
    lw_importers_help(begin, true, "", about);
    struct lw_usage whole = usage;
    whole.about = about;
    int n, rc = lw_cli_begin(&whole, table, argc, argv, &n);

    if (rc >= 0)
        return rc;
    if (html && (!report.report || format != LW_FORMAT_TEXT))
        return lw_cli_usage("inspect", "-o FILE is the HTML page of --report: give --report, and "
                                       "no --format");
    struct lw_progress progress = lw_progress_bar_begin(&bar, false);
    reading.progress = &progress;
    report.kernels = &kernels;
    enum lw_status status =
        kernels_file ? lw_kernel_table_read(kernels_file, &kernels, &err) : LW_OK;
    if (status == LW_OK)
        status = traces_report_read(&report, argv + 1, n, &reading, &hint, &err);
    lw_progress_bar_end(&bar);
    if (status == LW_OK)
        status = refuse_idle(&hint, &report, &err);
    if (status == LW_OK)
        status = traces_report_check(&report, format == LW_FORMAT_CSV, &err);
    if (status == LW_OK)
        status = html                      ? write_page(&report, html, &err)
                 : format == LW_FORMAT_JSON  ? traces_report_json(&report, stdout, &err)
                 : format == LW_FORMAT_CSV ? traces_report_csv(&report, stdout, &err)
                                           : traces_report_text(&report, stdout, &err);
    traces_report_free(&report);
    lw_kernel_table_free(&kernels);
    return lw_cli_end("inspect", status, &err);
}

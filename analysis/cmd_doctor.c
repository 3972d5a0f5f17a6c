/* lapwing doctor: what this machine has for planning, predicting, running and drawing, and for the
 * rest why it cannot be used. Starts no run and changes nothing. */
#include <stddef.h>
#include <stdio.h>

#include "analysis/doctor/findings.h"
#include "shared/text/records.h"
#include "shared/cli/cli.h"
#include "shared/cli/command.h"

static enum lw_status print(const struct lw_finding *v, int n, enum lw_format format,
                            struct lw_err *err)
{
    static const struct lw_column columns[] = {
        {"name", "what", LW_COLUMN_CHARS, offsetof(struct lw_finding, name)},
        {"ok", "usable", LW_COLUMN_FLAG, offsetof(struct lw_finding, ok)},
        {"detail", "detail", LW_COLUMN_CHARS, offsetof(struct lw_finding, detail)},
    };
    const struct lw_records rows = {"findings", columns, 3, v, n, sizeof *v};
    struct lw_jsonout o = {.file = stdout};

    if (format != LW_FORMAT_JSON)
        return lw_records_print(&rows, format, stdout, err);
    lw_jsonout_object(&o, NULL);
    lw_jsonout_string(&o, "version", LW_VERSION);
    lw_records_json(&o, &rows);
    lw_jsonout_end(&o);
    return LW_OK;
}

int cmd_doctor(int argc, char **argv)
{
    const char *db = "lapwing.db";
    enum lw_format format = LW_FORMAT_TEXT;
    const struct lw_opt options[] = {
        LW_OPTION_DB(&db),
        LW_OPTION_FORMAT(&format),
        {0},
    };
    const struct lw_usage usage = {
        "doctor", "[options]",
        "Show what this machine has for planning, running and drawing, and what is missing.", 0, 0};
    struct lw_finding findings[LW_N_FINDINGS] = {0};
    struct lw_err err = {0};
    int n_operands, rc;

    if ((rc = lw_cli_begin(&usage, options, argc, argv, &n_operands)) >= 0)
        return rc;
    int n = lw_machine_findings(findings, db);
    return lw_cli_end("doctor", print(findings, n, format, &err), &err);
}

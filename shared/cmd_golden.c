/* lapwing golden: do the policies of this build answer as the reference systems did? */
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "shared/cli/cli.h"
#include "shared/cli/command.h"
#include "shared/golden/golden.h"
#include "shared/text/records.h"
#include "sim/predict/sim.h"

static const struct lw_usage usage = {
    .command = "golden",
    .synopsis = "FILE...",
    .about = "Repeats recorded decisions of reference systems - buckets, shards, partitions, "
             "groups, reducer runs, pipeline schedules - and compares every recorded answer "
             "exactly (end times to 1e-9). A file holds JSON lines, one case each, or a table, one "
             "case a row; what a case is follows from its content, and of a schedule table from "
             "its name. An unknown kind is a failure. Exit status 3 if "
             "any case failed.",
    .min_operands = 1,
    .max_operands = -1,
};

enum { SHOWN = 10 }; /* of a file: a damaged one fails in every line */

static void print_text(const struct lw_golden_result *r)
{
    int64_t of_file = 0;

    for (int64_t i = 0; i < r->n_failed; i++) {
        const struct lw_golden_failure *f = &r->failures[i];
        bool last = i + 1 == r->n_failed || strcmp(r->failures[i + 1].file, f->file) != 0;
        if (++of_file <= SHOWN)
            printf("%s:%lld: %s%s%s\n", f->file, (long long)f->line, f->id, *f->id ? ": " : "",
                   f->message);
        if (last && of_file > SHOWN)
            printf("%s: %lld more cases failed (all of them: --format csv)\n", f->file,
                   (long long)(of_file - SHOWN));
        of_file = last ? 0 : of_file;
    }
    printf("%lld passed, %lld failed\n", (long long)r->n_passed, (long long)r->n_failed);
}

#define AT(field) offsetof(struct lw_golden_failure, field)
static const struct lw_column columns[] = {
    {"file", NULL, LW_COLUMN_STRING, AT(file)},
    {"line", NULL, LW_COLUMN_INT, AT(line)},
    {"id", NULL, LW_COLUMN_STRING, AT(id)},
    {"message", NULL, LW_COLUMN_STRING, AT(message)},
};
#undef AT

static enum lw_status print(const struct lw_golden_result *r, enum lw_format format,
                            struct lw_err *err)
{
    const struct lw_records failures = LW_RECORDS("failures", columns, r->failures, r->n_failed);
    struct lw_jsonout o = {.file = stdout};

    if (format == LW_FORMAT_CSV)
        return lw_records_csv(&failures, stdout, err);
    if (format == LW_FORMAT_TEXT) {
        print_text(r);
        return LW_OK;
    }
    lw_jsonout_object(&o, NULL);
    LW_JSON(&o, "passed", r->n_passed, "failed", r->n_failed);
    lw_records_json(&o, &failures);
    lw_jsonout_end(&o);
    return LW_OK;
}

static enum lw_status add_profiles(void *ctx, const char *name, const char *value,
                                   struct lw_err *err)
{
    struct lw_golden_result *r = ctx;

    (void)name;
    if (r->n_profiles == LW_GOLDEN_PROFILES)
        return lw_fail(err, LW_EINVAL, "at most %d folders", LW_GOLDEN_PROFILES);
    r->profiles[r->n_profiles++] = value;
    return LW_OK;
}

int cmd_golden(int argc, char **argv)
{
    enum lw_format format = LW_FORMAT_TEXT;
    struct lw_golden_result r = {.engine = {lw_sim_alone, NULL}};
    struct lw_opt_call profiles = {add_profiles, &r};
    const struct lw_opt options[] = {
        {"profiles", 0, LW_OPT_CALL, &profiles, "DIR",
         "folder of PipeDream's profiles, MODEL_nodes.csv and MODEL_edges.csv; repeatable "
         "(../../../papers/pipedream_profiles from the table)"},
        LW_OPTION_FORMAT(&format),
        {0},
    };
    struct lw_err err = {0};
    enum lw_status status = LW_OK;
    int n_files, exit_status = lw_cli_begin(&usage, options, argc, argv, &n_files);

    if (exit_status >= 0)
        return exit_status;
    for (int i = 1; status == LW_OK && i <= n_files; i++)
        status = lw_golden_file(argv[i], &r, &err);
    if (status == LW_OK)
        status = print(&r, format, &err);
    exit_status = lw_cli_end("golden", status, &err);
    if (exit_status == LW_EXIT_OK && r.n_failed > 0)
        exit_status = LW_EXIT_NO;
    lw_golden_free(&r);
    return exit_status;
}

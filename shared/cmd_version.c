/* lapwing version: which program this is; with -v, what it was built from. */
#include <gnu/libc-version.h>
#include <libdeflate.h>
#include <stddef.h>
#include <stdio.h>
#include <xxhash.h>

#include "shared/cli/cli.h"
#include "shared/cli/command.h"
#include "shared/json/jsonout.h"
#include "shared/text/records.h"
#include "shared/text/wrap.h"

enum { N_FACTS = 6 };

struct fact {
    const char *name, *value;
};

/* The first fact is the version, the others are for -v. */
static void collect(struct fact *facts, char *xxhash, size_t room)
{
    snprintf(xxhash, room, "%d.%d.%d", XXH_VERSION_MAJOR, XXH_VERSION_MINOR, XXH_VERSION_RELEASE);
    facts[0] = (struct fact){"version", LW_VERSION};
    facts[1] = (struct fact){"compiler", __VERSION__};
    facts[2] = (struct fact){"flags", LW_BUILD_FLAGS};
    facts[3] = (struct fact){"libc", gnu_get_libc_version()};
    facts[4] = (struct fact){"libdeflate", LIBDEFLATE_VERSION_STRING};
    facts[5] = (struct fact){"xxhash", xxhash};
}

static void put_text(const struct fact *facts, int n)
{
    printf("lapwing %s\n", facts[0].value);
    for (int i = 1; i < n; i++)
        lw_printf_paragraph(stdout, "%-11s %s", facts[i].name, facts[i].value);
    if (n > 1)
        printf("%-11s see 'lapwing exec --list-backends' and 'lapwing doctor'\n", "backends");
}

static void put_json(const struct fact *facts, int n)
{
    struct lw_jsonout o = {.file = stdout};

    lw_jsonout_object(&o, NULL);
    for (int i = 0; i < n; i++)
        lw_jsonout_string(&o, facts[i].name, facts[i].value);
    lw_jsonout_end(&o);
}

static const struct lw_column columns[] = {
    {"what", NULL, LW_COLUMN_STRING, offsetof(struct fact, name)},
    {"value", NULL, LW_COLUMN_STRING, offsetof(struct fact, value)},
};

int cmd_version(int argc, char **argv)
{
    bool verbose = false;
    enum lw_format format = LW_FORMAT_TEXT;
    const struct lw_opt options[] = {
        {"verbose", 'v', LW_OPT_FLAG, &verbose, NULL, "compiler, flags and library versions"},
        LW_OPTION_FORMAT(&format),
        {0},
    };
    const struct lw_usage usage = {"version", "[-v]", "Print the version.", 0, 0};
    enum lw_status st = LW_OK;
    struct lw_err err = {0};
    struct fact facts[N_FACTS];
    char xxhash[32];
    int n_operands, rc;

    if ((rc = lw_cli_begin(&usage, options, argc, argv, &n_operands)) >= 0)
        return rc;
    collect(facts, xxhash, sizeof xxhash);
    int n = verbose ? N_FACTS : 1;
    if (format == LW_FORMAT_JSON)
        put_json(facts, n);
    else if (format == LW_FORMAT_CSV)
        st = lw_records_csv(&LW_RECORDS("facts", columns, facts, n), stdout, &err);
    else
        put_text(facts, n);
    return lw_cli_end("version", st, &err);
}

/* lapwing framework: the known frameworks, or one framework with every fact and its source. */
#include "shared/cli/cli.h"
#include "shared/cli/command.h"
#include "shared/files/files.h"
#include "shared/show/framework_show.h"

static enum lw_status show(const char *name, const char *output, enum lw_format format,
                           struct lw_err *err)
{
    struct lw_framework f;

    LW_TRY(lw_framework_find(name, &f, err));
    enum lw_status s = output ? lw_framework_write(&f, output, err)
                              : lw_framework_print(&f, format, err);
    lw_framework_free(&f);
    return s;
}

int cmd_framework(int argc, char **argv)
{
    const char *output = NULL;
    enum lw_format format = LW_FORMAT_TEXT;
    bool list = false;
    const struct lw_opt options[] = {
        {"list", 0, LW_OPT_FLAG, &list, NULL, "list the known frameworks, as without a name"},
        {"output", 'o', LW_OPT_STRING, &output, "FILE", "write the framework file instead"},
        LW_OPTION_FORCE,
        LW_OPTION_FORMAT(&format),
        {0},
    };
    const struct lw_usage usage = {
        "framework", "[options] [NAME|FILE]",
        "List the frameworks that are known by name, or show one (or a framework file) with every "
        "fact and where it comes from. -o writes it as a file, to be edited and given to "
        "--framework.",
        0, 1};
    struct lw_err err = {0};
    int n, rc;

    if ((rc = lw_cli_begin(&usage, options, argc, argv, &n)) >= 0)
        return rc;
    if (n == 0 && output)
        return lw_cli_usage("framework", "-o needs a name or a file");
    if (n > 0 && list)
        return lw_cli_usage("framework", "--list takes no NAME");
    enum lw_status s =
        n ? show(argv[1], output, format, &err) : lw_frameworks_list(format, &err);
    return lw_cli_end("framework", s, &err);
}

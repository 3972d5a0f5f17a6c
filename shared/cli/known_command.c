/* Commands of what is known by name: `lapwing cluster`, `lapwing framework`. */
#include "shared/cli/known_command.h"

#include <stdio.h>

#include "shared/cli/cli.h"

int lw_known_command_run(const struct lw_known_command *k, int argc, char **argv)
{
    const char *output = NULL;
    enum lw_format format = LW_FORMAT_TEXT;
    bool list = false;
    char list_help[96], output_help[96];
    const struct lw_opt options[] = {
        {"list", 0, LW_OPT_FLAG, &list, NULL, list_help},
        {"output", 'o', LW_OPT_STRING, &output, "FILE", output_help},
        LW_OPTION_FORCE,
        LW_OPTION_FORMAT(&format),
        {0},
    };
    const struct lw_usage usage = {k->command, "[options] [NAME|FILE]", k->about, 0, 1};
    struct lw_err err = {0};
    int n, rc;

    snprintf(list_help, sizeof list_help, "list the known %s, as without a name", k->many);
    snprintf(output_help, sizeof output_help, "write the %s file instead", k->command);
    if ((rc = lw_cli_begin(&usage, options, argc, argv, &n)) >= 0)
        return rc;
    if (n == 0 && output)
        return lw_cli_usage(k->command, "-o needs a name or a file");
    if (n > 0 && list)
        return lw_cli_usage(k->command, "--list takes no NAME");
    enum lw_status s = n ? k->show(argv[1], output, format, &err) : k->list(format, &err);
    return lw_cli_end(k->command, s, &err);
}

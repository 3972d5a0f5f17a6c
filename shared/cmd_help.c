/* lapwing help: the commands, one command's options, or every strategy option with its values. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "shared/base/nearest.h"
#include "shared/cli/cli.h"
#include "shared/cli/command.h"
#include "shared/cli/completion.h"
#include "shared/cli/strategy_help.h"
#include "shared/strategy/strategy.h"
#include "shared/text/records.h"
#include "shared/text/wrap.h"

static void list_commands(void)
{
    puts("usage: lapwing COMMAND [options]\n");
    lw_put_wrapped(stdout, "Lapwing computes the schedule of a distributed training step once, "
                           "predicts it, runs the same plan, and shows the difference of the "
                           "two.", 0, 80);
    putchar('\n');
    for (const struct lw_command *c = lw_commands; c->name; c++)
        lw_put_wrapped(stdout, c->about, printf("  %-10s ", c->name), LW_TEXT_COLUMNS);
    putchar('\n');
    lw_put_wrapped(stdout, "'lapwing help COMMAND' explains a command, 'lapwing help strategy' the "
                           "options of a plan.", 0, LW_TEXT_COLUMNS);
}

/* The manual page of the program itself: its commands. */
static void man_page(void)
{
    printf(".TH LAPWING 1 \"\" \"lapwing %s\" \"Lapwing manual\"\n.SH NAME\nlapwing \\- plan, "
           "predict and run distributed training steps\n.SH SYNOPSIS\n.B lapwing\nCOMMAND "
           "[options]\n.SH COMMANDS\n", LW_VERSION);
    for (const struct lw_command *c = lw_commands; c->name; c++)
        printf(".TP\n.BR lapwing\\-%s (1)\n%s\n", c->name, c->about);
}

static enum lw_status show_commands(enum lw_format format, struct lw_err *err)
{
    static const struct lw_column columns[] = {
        {"command", NULL, LW_COLUMN_TEXT, offsetof(struct lw_command, name)},
        {"about", NULL, LW_COLUMN_TEXT, offsetof(struct lw_command, about)},
    };
    struct lw_records rows = {"commands", columns, 2, lw_commands, 0, sizeof *lw_commands};

    while (lw_commands[rows.n].name)
        rows.n++;
    if (format != LW_FORMAT_TEXT)
        return lw_records_print(&rows, format, stdout, err);
    list_commands();
    return LW_OK;
}

int cmd_help(int argc, char **argv)
{
    static char *const asked[] = {"--help", "--help-json", "--help-csv"};
    bool man = false, script = false, help;
    enum lw_format format = LW_FORMAT_TEXT;
    const struct lw_opt options[] = {
        {"man", 0, LW_OPT_FLAG, &man, NULL, "the manual page of the program"},
        {"completion", 0, LW_OPT_FLAG, &script, NULL,
         "a completion script: help --completion [bash|zsh|fish] (bash)"},
        LW_OPTION_FORMAT(&format),
        {0},
    };
    struct lw_err err = {0};
    int n;

    if (lw_cli_parse(options, argc, argv, &n, &help, &err) != LW_OK)
        return lw_cli_usage("help", "%s", err.msg);
    if (n > 1)
        return lw_cli_usage("help", "explains one command at a time, got '%s' too", argv[2]);
    if (script)
        return lw_completion_print(n > 0 ? argv[1] : "bash", &err) == LW_OK
                   ? lw_cli_end("help", LW_OK, &err)
                   : lw_cli_usage("help", "%s", err.msg);
    if (man) {
        man_page();
        return lw_cli_end("help", LW_OK, &err);
    }
    if (n == 0 || strcmp(argv[1], "help") == 0)
        return lw_cli_end("help", show_commands(format, &err), &err);
    if (strcmp(argv[1], "strategy") == 0)
        return lw_cli_end("help", lw_strategy_help(format, &err), &err);
    for (const struct lw_command *c = lw_commands; c->name; c++) {
        char *ask[] = {argv[1], asked[format], NULL};
        if (strcmp(c->name, argv[1]) == 0)
            return c->run(2, ask);
    }
    if (lw_strategy_find(argv[1]) >= 0)
        return lw_cli_usage("help", "'%s' is an option of a strategy; see 'lapwing help strategy'",
                            argv[1]);
    char hint[96];
    struct lw_nearest near = lw_nearest_begin(argv[1]);
    lw_nearest_try(&near, "strategy");
    for (const struct lw_command *c = lw_commands; c->name; c++)
        lw_nearest_try(&near, c->name);
    return lw_cli_usage("help", "no command '%s'%s", argv[1],
                        lw_nearest_hint(&near, "", hint, sizeof hint));
}

/* lapwing help: the commands, one command's options, or every strategy option with its values. */
#include <stdio.h>
#include <string.h>

#include "shared/cli.h"
#include "shared/command.h"
#include "shared/strategy.h"

static void list_commands(void)
{
    printf("usage: lapwing COMMAND [options]\n\n"
           "Lapwing computes the schedule of a distributed training step once, predicts it,\n"
           "runs the very same plan, and says how far apart the two are.\n\n");
    for (const struct lw_command *c = lw_commands; c->name; c++)
        printf("  %-10s %s\n", c->name, c->about);
    printf("\n'lapwing help COMMAND' explains a command, 'lapwing help strategy' what a plan can be "
           "asked for.\n");
}

static void list_strategy(void)
{
    printf("Strategy options, for plan, sim, exec and strategy files ('_' is accepted for '-').\n"
           "Sizes: KiB MiB GiB = 2^n, KB MB GB = 10^n, bare = bytes.\n\n");
    for (int i = 0; i < lw_strategy_n_options(); i++) {
        const struct lw_strategy_option *o = lw_strategy_option(i);
        printf("  --%s %s\n      %s\n", o->name, o->arg, o->help);
        if (!o->values)
            continue;
        printf("      ");
        for (int v = 0, at = 6; o->values[v]; v++) {
            int n = (int)strlen(o->values[v]) + 2;
            if (at + n > 90) {
                printf("\n      ");
                at = 6;
            }
            printf("%s%s", o->values[v], o->values[v + 1] ? ", " : "\n");
            at += n;
        }
    }
}

int cmd_help(int argc, char **argv)
{
    struct lw_err err = {0};
    char *ask[] = {argc > 1 ? argv[1] : NULL, "--help", NULL};

    if (argc < 2 || argv[1][0] == '-') {
        list_commands();
        return lw_cli_end("help", LW_OK, &err);
    }
    if (strcmp(argv[1], "strategy") == 0) {
        list_strategy();
        return lw_cli_end("help", LW_OK, &err);
    }
    for (const struct lw_command *c = lw_commands; c->name; c++)
        if (strcmp(c->name, argv[1]) == 0 && c->run != cmd_help)
            return c->run(2, ask);
    if (strcmp(argv[1], "help") == 0) {
        list_commands();
        return lw_cli_end("help", LW_OK, &err);
    }
    return lw_cli_usage("help", "no command '%s'", argv[1]);
}

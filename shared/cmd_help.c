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

/* The manual page of the program itself: its commands. */
static void man_page(void)
{
    printf(".TH LAPWING 1 \"\" \"lapwing %s\" \"Lapwing manual\"\n.SH NAME\nlapwing \\- plan, "
           "predict and run distributed training steps\n.SH SYNOPSIS\n.B lapwing\nCOMMAND "
           "[options]\n.SH COMMANDS\n", LW_VERSION);
    for (const struct lw_command *c = lw_commands; c->name; c++)
        printf(".TP\n.BR lapwing\\-%s (1)\n%s\n", c->name, c->about);
}

/* A completion script for bash: the commands, then the options that the command itself lists. */
static void completion(void)
{
    printf("_lapwing() {\n    local cur=${COMP_WORDS[COMP_CWORD]}\n    compopt -o default\n"
           "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n        COMPREPLY=($(compgen -W \"");
    for (const struct lw_command *c = lw_commands; c->name; c++)
        printf("%s%s", c == lw_commands ? "" : " ", c->name);
    printf("\" -- \"$cur\"))\n    elif [[ $cur == -* ]]; then\n        COMPREPLY=($(compgen -W "
           "\"$(lapwing \"${COMP_WORDS[1]}\" --help-words 2>/dev/null)\" -- \"$cur\"))\n"
           "        [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace\n    fi\n}\n"
           "complete -F _lapwing lapwing\n");
}

static const struct {
    const char *word;
    void (*print)(void);
} topics[] = {
    {"strategy", list_strategy},
    {"help", list_commands},
    {"--man", man_page},
    {"--completion", completion},
    {"--help", list_commands},
};

int cmd_help(int argc, char **argv)
{
    struct lw_err err = {0};
    char *ask[] = {argc > 1 ? argv[1] : NULL, "--help", NULL};

    if (argc < 2) {
        list_commands();
        return lw_cli_end("help", LW_OK, &err);
    }
    for (size_t i = 0; i < sizeof topics / sizeof *topics; i++) {
        if (strcmp(argv[1], topics[i].word) == 0) {
            topics[i].print();
            return lw_cli_end("help", LW_OK, &err);
        }
    }
    for (const struct lw_command *c = lw_commands; c->name; c++)
        if (strcmp(c->name, argv[1]) == 0)
            return c->run(2, ask);
    return lw_cli_usage("help", "no command '%s'", argv[1]);
}

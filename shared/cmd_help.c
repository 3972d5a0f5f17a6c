/* lapwing help: the commands, one command's options, or every strategy option with its values. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "shared/cli/cli.h"
#include "shared/cli/command.h"
#include "shared/text/record.h"
#include "shared/plan/strategy.h"
#include "shared/text/table.h"
#include "shared/text/wrap.h"

static void list_commands(void)
{
    printf("usage: lapwing COMMAND [options]\n\n"
           "Lapwing computes the schedule of a distributed training step once, predicts it,\n"
           "runs the very same plan, and says how far apart the two are.\n\n");
    for (const struct lw_command *c = lw_commands; c->name; c++)
        printf("  %-10s %s\n", c->name, c->about);
    printf(
        "\n'lapwing help COMMAND' explains a command, 'lapwing help strategy' what a plan can be "
        "asked for.\n");
}

static void list_rows(const struct lw_strategy_option *o)
{
    for (int v = 0; o->values[v]; v++)
        lw_put_wrapped(stdout, o->helps[v], printf("      %-20s ", o->values[v]), LW_TEXT_COLUMNS);
}

static void list_values(const struct lw_strategy_option *o)
{
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

static void list_strategy(void)
{
    printf("Strategy options, for plan, sim, exec and strategy files ('_' is accepted for '-').\n"
           "Sizes: KiB MiB GiB = 2^n, KB MB GB = 10^n, bare = bytes.\n\n");
    for (int i = 0; i < lw_strategy_n_options(); i++) {
        const struct lw_strategy_option *o = lw_strategy_option(i);
        printf("  --%s %s\n", o->name, o->arg);
        lw_put_wrapped(stdout, o->help, printf("      "), LW_TEXT_COLUMNS);
        if (o->helps)
            list_rows(o);
        else if (o->values)
            list_values(o);
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

/* Completion scripts: the commands, then the options that the command itself lists. */
static void bash_completion(void)
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

/* Text between single quotes, in which only the quote itself ends them. */
static void put_quoted(const char *before, const char *text, const char *quote, const char *after)
{
    printf("%s", before);
    for (; *text; text++) {
        if (*text == '\'')
            printf("%s", quote);
        else
            putchar(*text);
    }
    printf("%s", after);
}

static void zsh_completion(void)
{
    printf("#compdef lapwing\n_lapwing() {\n    local -a commands options\n"
           "    if (( CURRENT == 2 )); then\n        commands=(\n");
    for (const struct lw_command *c = lw_commands; c->name; c++) {
        printf("            '%s:", c->name);
        put_quoted("", c->about, "'\\''", "'\n");
    }
    printf("        )\n        _describe command commands\n"
           "    elif [[ $PREFIX == -* ]]; then\n"
           "        options=(${(f)\"$(lapwing $words[2] --help-words 2>/dev/null)\"})\n"
           "        compadd -S '' -- ${(M)options:#*=}\n        compadd -- ${options:#*=}\n"
           "    else\n        _files\n    fi\n}\n"
           "if [[ $funcstack[1] == _lapwing ]]; then\n    _lapwing \"$@\"\nelse\n"
           "    compdef _lapwing lapwing\nfi\n");
}

static void fish_completion(void)
{
    printf("function __lapwing_options\n    set -l tokens (commandline -opc)\n"
           "    test (count $tokens) -gt 1\n"
           "    and lapwing $tokens[2] --help-words 2>/dev/null\nend\n");
    for (const struct lw_command *c = lw_commands; c->name; c++) {
        printf("complete -c lapwing -n __fish_use_subcommand -f -a %s -d ", c->name);
        put_quoted("'", c->about, "\\'", "'\n");
    }
    printf("complete -c lapwing -f -a '(__lapwing_options)' "
           "-n 'not __fish_use_subcommand; and string match -q -- \"-*\" (commandline -ct)'\n");
}

static const struct completion {
    const char *shell;
    void (*print)(void);
} completions[] = {{"bash", bash_completion}, {"zsh", zsh_completion}, {"fish", fish_completion}};

/* Of the shell that was named, of bash where none was. */
static int complete_for(const char *shell)
{
    struct lw_err err = {0};

    for (size_t i = 0; i < sizeof completions / sizeof completions[0]; i++)
        if (strcmp(completions[i].shell, shell) == 0) {
            completions[i].print();
            return lw_cli_end("help", LW_OK, &err);
        }
    return lw_cli_usage("help", "no completion for '%s'; expected bash, zsh or fish", shell);
}

/* Strategy options as data. */
static void json_strategy(void)
{
    struct lw_jsonout o = {.file = stdout};

    lw_jsonout_object(&o, NULL);
    lw_jsonout_array(&o, "options");
    for (int i = 0; i < lw_strategy_n_options(); i++) {
        const struct lw_strategy_option *p = lw_strategy_option(i);
        lw_jsonout_line_object(&o, NULL);
        lw_jsonout_string(&o, "name", p->name);
        lw_jsonout_string(&o, "argument", p->arg);
        lw_jsonout_string(&o, "help", p->help);
        lw_jsonout_line_array(&o, "values");
        for (int v = 0; p->values && p->values[v]; v++)
            lw_jsonout_string(&o, NULL, p->values[v]);
        lw_jsonout_end(&o);
        lw_jsonout_end(&o);
    }
    lw_jsonout_end(&o);
    lw_jsonout_end(&o);
}

static enum lw_status csv_strategy(struct lw_err *err)
{
    static const char *const titles[] = {"option", "argument", "help", "values"};
    struct lw_table *t = lw_table_new(4, titles);

    for (int i = 0; i < lw_strategy_n_options(); i++) {
        const struct lw_strategy_option *o = lw_strategy_option(i);
        char values[512] = "";
        size_t at = 0;
        for (int v = 0; o->values && o->values[v] && at < sizeof values; v++)
            at += (size_t)snprintf(values + at, sizeof values - at, "%s%s", v ? " " : "",
                                   o->values[v]);
        lw_table_cell(t, "%s", o->name);
        lw_table_cell(t, "%s", o->arg);
        lw_table_cell(t, "%s", o->help);
        lw_table_cell(t, "%s", values);
    }
    enum lw_status s = lw_table_print_csv(t, stdout, err);
    lw_table_free(t);
    return s;
}

static enum lw_status show_commands(enum lw_format format, struct lw_err *err)
{
    static const struct lw_column columns[] = {
        {"command", NULL, LW_COLUMN_TEXT, offsetof(struct lw_command, name), 0, NULL, NULL},
        {"about", NULL, LW_COLUMN_TEXT, offsetof(struct lw_command, about), 0, NULL, NULL},
    };
    struct lw_records rows = {"commands", columns, 2, lw_commands, 0, sizeof *lw_commands};

    while (lw_commands[rows.n].name)
        rows.n++;
    if (format != LW_FORMAT_TEXT)
        return lw_records_print(&rows, format, stdout, err);
    list_commands();
    return LW_OK;
}

static enum lw_status show_strategy(enum lw_format format, struct lw_err *err)
{
    if (format == LW_FORMAT_CSV)
        return csv_strategy(err);
    if (format == LW_FORMAT_JSON)
        json_strategy();
    else
        list_strategy();
    return LW_OK;
}

int cmd_help(int argc, char **argv)
{
    static char *const asked[] = {"--help", "--help-json", "--help-csv"};
    bool man = false, script = false, help;
    enum lw_format format = LW_FORMAT_TEXT;
    const struct lw_opt options[] = {
        {"man", 0, LW_OPT_FLAG, &man, NULL, "the manual page of the program", 0, 0},
        {"completion", 0, LW_OPT_FLAG, &script, NULL,
         "a completion script: help --completion [bash|zsh|fish] (bash)", 0, 0},
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
        return complete_for(n > 0 ? argv[1] : "bash");
    if (man) {
        man_page();
        return lw_cli_end("help", LW_OK, &err);
    }
    if (n == 0 || strcmp(argv[1], "help") == 0)
        return lw_cli_end("help", show_commands(format, &err), &err);
    if (strcmp(argv[1], "strategy") == 0)
        return lw_cli_end("help", show_strategy(format, &err), &err);
    for (const struct lw_command *c = lw_commands; c->name; c++) {
        char *ask[] = {argv[1], asked[format], NULL};
        if (strcmp(c->name, argv[1]) == 0)
            return c->run(2, ask);
    }
    return lw_cli_usage("help", "no command '%s'", argv[1]);
}

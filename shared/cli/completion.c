/* Completion scripts of shells: the commands, then the options that the command itself lists. */
#include "shared/cli/completion.h"

#include <stdio.h>
#include <string.h>

#include "shared/cli/command.h"

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

enum lw_status lw_completion_print(const char *shell, struct lw_err *err)
{
    for (size_t i = 0; i < sizeof completions / sizeof completions[0]; i++)
        if (strcmp(completions[i].shell, shell) == 0) {
            completions[i].print();
            return LW_OK;
        }
    return lw_fail(err, LW_EUSAGE, "no completion for '%s'; expected bash, zsh or fish", shell);
}

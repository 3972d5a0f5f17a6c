/* The words of a command line of `lapwing tune`, as they are joined, read and given to `lapwing
 * sim`. */
#include "analysis/tune_command/tune_words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/cli/cli.h"

enum lw_status lw_tune_join_words(struct lw_tune_command *c, int argc, char **argv,
                                  struct lw_err *err)
{
    size_t size = 1;
    char *text;

    for (int i = 0; i < argc; i++)
        size += strlen(argv[i]) + 1;
    LW_TAKE(&c->arena, text, size, err);
    c->words = lw_cli_join(argc, argv, text, size);
    return LW_OK;
}

enum lw_status lw_tune_copy_words(struct lw_tune_command *c, int argc, char **argv, char ***out,
                                  struct lw_err *err)
{
    static const char name[] = "--micro-batch";
    size_t n = sizeof name - 1;

    LW_TAKE(&c->arena, *out, argc + 1, err);
    for (int i = 0; i < argc; i++) {
        bool is = strncmp(argv[i], name, n) == 0 && (argv[i][n] == '\0' || argv[i][n] == '=');
        LW_PRINT(&c->arena, (*out)[i], err, "%s%s", is ? "--batch" : "",
                 is ? argv[i] + n : argv[i]);
    }
    return LW_OK;
}

bool lw_tune_of_strategy(const char *name)
{
    return lw_strategy_find(name) >= 0;
}

/* For a shell. */
static void put_word(FILE *f, const char *text)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_./:,=+-@%";
    bool quote = !*text || strspn(text, plain) != strlen(text);

    fputs(quote ? " '" : " ", f);
    for (; *text; text++)
        if (*text == '\'')
            fputs("'\\''", f);
        else
            fputc(*text, f);
    if (quote)
        fputc('\'', f);
}

static bool is_named(const char *word, size_t n, const char *name)
{
    return strlen(name) == n && strncmp(word, name, n) == 0;
}

/* The option of a word: its own letter, or its whole name. */
static const struct lw_opt *option_of(const struct lw_opt *table, const char *word)
{
    size_t n = strncmp(word, "--", 2) == 0 ? strcspn(word + 2, "=") : 0;

    for (; table->name; table++)
        if (n > 0 ? is_named(word + 2, n, table->name)
                  : table->letter && word[0] == '-' && word[1] == table->letter)
            return table;
    return NULL;
}

enum lw_status lw_tune_put_command(struct lw_tune_command *c, int argc, char **argv,
                                   const char **out, struct lw_err *err)
{
    struct lw_plan_source scratch = {.silent = true};
    struct lw_opt table[LW_PLAN_SOURCE_OPTIONS + LW_PLAN_SOURCE_OWN];
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);

    if (!f)
        return lw_fail_nomem(err);
    lw_plan_source_options(&scratch, table);
    fputs("lapwing sim", f);
    for (int i = 1; i < argc; i++) {
        const struct lw_opt *o = option_of(table, argv[i]);
        bool is_long = strncmp(argv[i], "--", 2) == 0;
        bool inside = o && (is_long ? strchr(argv[i], '=') != NULL : argv[i][2] != '\0');
        bool next = o && o->kind != LW_OPT_FLAG && !inside && i + 1 < argc;
        if (o && !lw_tune_of_strategy(o->name) && strcmp(o->name, "ranks") != 0) {
            put_word(f, argv[i]);
            if (next)
                put_word(f, argv[i + 1]);
        }
        i += next;
    }
    fclose(f);
    *out = text ? lw_arena_strdup(&c->arena, text) : NULL;
    free(text);
    return *out ? LW_OK : lw_fail_nomem(err);
}

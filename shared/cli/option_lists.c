/* Lists of values on a command line. */
#include "shared/cli/option_lists.h"

#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "shared/cli/plan_source.h"

static bool is_name(const char *word, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if ((word[i] == '_' ? '-' : word[i]) != name[i])
            return false;
    return name[n] == '\0';
}

/* The option that argv[i] names, NULL = none; its value begins at byte *at of argv[*word]. */
static const struct lw_opt *option_at(const struct lw_opt *table, int argc, char **argv, int i,
                                      int *word, int *at)
{
    const char *text = argv[i];
    bool is_long = strncmp(text, "--", 2) == 0;
    size_t n = is_long ? strcspn(text + 2, "=") : 0;

    if (text[0] != '-' || !text[1])
        return NULL;
    for (const struct lw_opt *o = table; o->name; o++) {
        if (o->kind == LW_OPT_FLAG ||
            (is_long ? !is_name(text + 2, n, o->name) : o->letter != text[1]))
            continue;
        bool inside = is_long ? text[2 + n] == '=' : text[2] != '\0';
        *word = inside ? i : i + 1;
        *at = !inside ? 0 : is_long ? (int)(n + 3) : 2;
        return *word < argc ? o : NULL;
    }
    return NULL;
}

static bool is_list(const struct lw_opt *o, const char *text)
{
    struct lw_err unused;

    if (!strchr(text, ',') ||
        (o->arg && (strcmp(o->arg, "LIST") == 0 || strcmp(o->arg, "NAMES") == 0)))
        return false;
    if (o->kind == LW_OPT_STRING && !o->check)
        return access(text, F_OK) != 0;
    if (o->arg && strcmp(o->arg, "on|off") == 0) /* another word is no value of the switch */
        return strncmp(text, "on,", 3) == 0 || strncmp(text, "off,", 4) == 0;
    return lw_cli_set(o, text, &unused) != LW_OK;
}

static enum lw_status split(struct lw_option_lists *l, struct lw_option_list *x, const char *text,
                            struct lw_err *err)
{
    const char **values;
    int n = 1;

    for (const char *p = text; *p; p++)
        n += *p == ',';
    LW_TAKE(&l->arena, values, n, err);
    for (int i = 0; i < n; i++) {
        size_t len = strcspn(text, ",");
        if (!(values[i] = lw_arena_strndup(&l->arena, text, len)))
            return lw_fail_nomem(err);
        text += len + 1;
    }
    x->n = n;
    x->values = values;
    return LW_OK;
}

static enum lw_status add(struct lw_option_lists *l, const struct lw_opt *o, int word, int at,
                          struct lw_err *err)
{
    if (l->n == LW_OPTION_LISTS)
        return lw_fail(err, LW_EUSAGE, "--%s: at most %d options may have a list", o->name,
                       LW_OPTION_LISTS);
    for (int i = 0; i < l->n; i++)
        if (l->list[i].name == o->name)
            return lw_fail(err, LW_EUSAGE, "--%s is given two lists; give one", o->name);
    struct lw_option_list *x = &l->list[l->n++];
    *x = (struct lw_option_list){.name = o->name, .word = word, .at = at};
    LW_TRY(split(l, x, l->argv[word] + at, err));
    l->n_combinations *= x->n;
    if (l->n_combinations > LW_OPTION_COMBINATIONS)
        return lw_fail(err, LW_EUSAGE,
                       "--%s: the lists make %lld combinations, expected at most %d", o->name,
                       (long long)l->n_combinations, LW_OPTION_COMBINATIONS);
    return LW_OK;
}

enum lw_status lw_option_lists_find(int argc, char **argv, struct lw_option_lists *out,
                                    struct lw_err *err)
{
    struct lw_plan_source scratch = {.silent = true};
    struct lw_opt table[LW_PLAN_SOURCE_OPTIONS + LW_PLAN_SOURCE_OWN];
    int word, at;

    *out = (struct lw_option_lists){.argc = argc, .argv = argv, .n_combinations = 1};
    lw_plan_source_options(&scratch, table);
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        const struct lw_opt *o = option_at(table, argc, argv, i, &word, &at);
        if (!o || !is_list(o, argv[word] + at))
            continue;
        LW_TRY(add(out, o, word, at, err));
        i = word;
    }
    return LW_OK;
}

static int index_of(const struct lw_option_lists *l, int64_t k, int i)
{
    for (int j = l->n - 1; j > i; j--)
        k /= l->list[j].n;
    return (int)(k % l->list[i].n);
}

const char *lw_option_lists_value(const struct lw_option_lists *l, int64_t k, int i)
{
    return l->list[i].values[index_of(l, k, i)];
}

enum lw_status lw_option_lists_argv(const struct lw_option_lists *l, int64_t k, struct lw_arena *a,
                                    char ***argv, struct lw_err *err)
{
    char **v;

    LW_TAKE(a, v, l->argc + 1, err);
    for (int i = 0; i < l->argc; i++)
        if (!(v[i] = lw_arena_strdup(a, l->argv[i])))
            return lw_fail_nomem(err);
    for (int i = 0; i < l->n; i++)
        LW_PRINT(a, v[l->list[i].word], err, "%.*s%s", l->list[i].at, l->argv[l->list[i].word],
                 lw_option_lists_value(l, k, i));
    *argv = v;
    return LW_OK;
}

void lw_option_lists_free(struct lw_option_lists *l)
{
    lw_arena_free(&l->arena);
    l->n = 0;
}

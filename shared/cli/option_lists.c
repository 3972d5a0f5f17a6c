/* Lists of values on a command line. An item of a list is a value, a range (A..B: A, 2 A, 4 A, ...
 * up to B; from 0 every whole number; A..B+S every S-th) or "all", every word of the option. */
#include "shared/cli/option_lists.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "shared/cli/plan_source.h"
#include "shared/numbers/units.h"

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

/* The words of the option, NULL-ended; NULL = it has none. */
static const char *const *words_of(const struct lw_opt *o)
{
    int i = lw_strategy_find(o->name), k = lw_model_find(o->name);

    return o->kind != LW_OPT_CALL ? NULL
           : i >= 0               ? lw_strategy_option(i)->values
           : k >= 0               ? lw_model_option(k)->words
                                  : NULL;
}

static bool is_all(const struct lw_opt *o, const char *item, size_t len)
{
    const char *const *words = len == 3 && strncmp(item, "all", 3) == 0 ? words_of(o) : NULL;

    for (; words && *words; words++)
        if (strcmp(*words, "all") == 0)
            return false;
    return words != NULL;
}

/* "1..32", "1MiB..2GiB", "2..12+2". */
struct range {
    int64_t from, to, step; /* step 0: doubles */
    bool sizes;
};

static bool parse_number(const char *text, size_t len, bool *is_size, int64_t *out)
{
    char buf[64];

    snprintf(buf, sizeof buf, "%.*s", len < sizeof buf ? (int)len : 0, text);
    if (lw_parse_int(buf, 0, INT64_MAX, out, NULL) == LW_OK)
        return true;
    *is_size = true;
    return lw_parse_size(buf, out, NULL) == LW_OK;
}

static bool parse_range(const struct lw_opt *o, const char *item, size_t len, struct range *out)
{
    const char *end = item + len, *dots = memmem(item, len, "..", 2);
    const char *plus = dots ? memchr(dots, '+', (size_t)(end - dots)) : NULL;
    struct range r = {0};

    if (!dots || o->kind == LW_OPT_STRING || words_of(o))
        return false;
    const char *stop = plus ? plus : end;
    if (!parse_number(item, (size_t)(dots - item), &r.sizes, &r.from) ||
        !parse_number(dots + 2, (size_t)(stop - dots - 2), &r.sizes, &r.to) ||
        (plus && (!parse_number(plus + 1, (size_t)(end - plus - 1), &r.sizes, &r.step) ||
                  r.step == 0)))
        return false;
    if (!plus && r.from == 0)
        r.step = 1;
    *out = r;
    return true;
}

static bool has_items(const struct lw_opt *o, const char *text)
{
    struct range r;

    for (size_t len; *text; text += text[len] ? len + 1 : len) {
        len = strcspn(text, ",");
        if (is_all(o, text, len) || parse_range(o, text, len, &r))
            return true;
    }
    return false;
}

static bool is_list(const struct lw_opt *o, const char *text)
{
    struct lw_err unused;

    if (o->arg && (strcmp(o->arg, "LIST") == 0 || strcmp(o->arg, "NAMES") == 0))
        return false;
    if (has_items(o, text))
        return true;
    if (!strchr(text, ','))
        return false;
    if (o->kind == LW_OPT_STRING && !o->check)
        return access(text, F_OK) != 0;
    if (o->arg && strcmp(o->arg, "on|off") == 0) /* another word is no value of the switch */
        return strncmp(text, "on,", 3) == 0 || strncmp(text, "off,", 4) == 0;
    return lw_cli_set(o, text, &unused) != LW_OK;
}

/* Values that grow; goes with lw_free(v). */
struct values {
    const char **v;
    int64_t capacity;
    int n;
    const char *name; /* of the option */
    struct lw_arena *arena;
};

static enum lw_status put_value(struct values *x, const char *text, size_t len, struct lw_err *err)
{
    const char *copy = lw_arena_strndup(x->arena, text, len);

    if (len == 0)
        return lw_fail(err, LW_EUSAGE, "--%s: a value of the list is empty", x->name);
    for (int i = 0; copy && i < x->n; i++)
        if (strcmp(x->v[i], copy) == 0)
            return lw_fail(err, LW_EUSAGE, "--%s: the list has '%s' twice; give it once", x->name,
                           copy);
    if (!copy || lw_reserve(&x->v, &x->capacity, x->n + 1, sizeof *x->v) != 0)
        return lw_fail_nomem(err);
    x->v[x->n++] = copy;
    return LW_OK;
}

static enum lw_status put_range(struct values *x, const struct lw_opt *o, const struct range *r,
                                struct lw_err *err)
{
    char text[32];

    if (r->from > r->to)
        return lw_fail(err, LW_EUSAGE, "--%s: the range from %lld to %lld is empty: give the "
                                       "smaller number first",
                       o->name, (long long)r->from, (long long)r->to);
    for (int64_t v = r->from; v <= r->to; v = r->step ? v + r->step : 2 * v) {
        if (x->n == LW_OPTION_VALUES)
            return lw_fail(err, LW_EUSAGE, "--%s: the list has more than %d values", o->name,
                           LW_OPTION_VALUES);
        snprintf(text, sizeof text, "%lld", (long long)v);
        if (r->sizes)
            snprintf(text, sizeof text, v % (1 << 20) == 0 ? "%lldMiB" : "%lld",
                     (long long)(v % (1 << 20) == 0 ? v >> 20 : v));
        LW_TRY(put_value(x, text, strlen(text), err));
        if (r->step ? r->step > r->to - v : v > INT64_MAX / 2)
            break;
    }
    return LW_OK;
}

static enum lw_status put_item(struct values *x, const struct lw_opt *o, const char *item,
                               size_t len, struct lw_err *err)
{
    struct range r;

    if (parse_range(o, item, len, &r))
        return put_range(x, o, &r, err);
    if (!is_all(o, item, len))
        return put_value(x, item, len, err);
    for (const char *const *w = words_of(o); *w; w++)
        LW_TRY(put_value(x, *w, strlen(*w), err));
    return LW_OK;
}

static enum lw_status split(struct lw_option_lists *l, struct lw_option_list *x,
                            const struct lw_opt *o, const char *text, struct lw_err *err)
{
    struct values all = {.name = o->name, .arena = &l->arena};
    enum lw_status st = LW_OK;
    const char **kept = NULL;

    for (bool more = true; st == LW_OK && more;) {
        size_t len = strcspn(text, ",");
        st = put_item(&all, o, text, len, err);
        more = text[len] == ',';
        text += len + 1;
    }
    if (st == LW_OK && !(kept = lw_arena_alloc(&l->arena, all.n, sizeof *kept)))
        st = lw_fail_nomem(err);
    if (st == LW_OK) {
        memcpy(kept, all.v, (size_t)all.n * sizeof *kept);
        x->n = all.n;
        x->values = kept;
    }
    lw_free(all.v);
    return st;
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
    LW_TRY(split(l, x, o, l->argv[word] + at, err));
    l->n_combinations *= x->n;
    if (l->n_combinations > l->most)
        return lw_fail(err, LW_EUSAGE,
                       "--%s: the lists make %lld combinations, expected at most %lld", o->name,
                       (long long)l->n_combinations, (long long)l->most);
    return LW_OK;
}

enum lw_status lw_option_lists_find(int argc, char **argv, int64_t most,
                                    struct lw_option_lists *out, struct lw_err *err)
{
    struct lw_plan_source scratch = {.silent = true};
    struct lw_opt table[LW_PLAN_SOURCE_OPTIONS + LW_PLAN_SOURCE_OWN];
    int word, at;

    *out = (struct lw_option_lists){.argc = argc, .argv = argv, .most = most,
                                    .n_combinations = 1};
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

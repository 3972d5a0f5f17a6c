/* The words of a command, by what is compared. Words that change no figure (--db, --price) are left
 * out (analysis/store/run_name.h says which). */
#include "analysis/compare/run_words.h"

#include <stdio.h>
#include <string.h>

#include "analysis/store/run_name.h"

static enum lw_status append(struct lw_arena *a, const char **to, const char *name,
                             const char *value, struct lw_err *err)
{
    if (!*name && !*value)
        return LW_OK;
    LW_PRINT(a, *to, err, "%s%s%s%s%s", *to, **to ? ", " : "", name, *name && *value ? " " : "",
             value);
    return LW_OK;
}

/* Its value says what it is: "dgx-h100". */
static bool is_bare(const char *name)
{
    static const char *const bare[] = {"w", "workload", "c", "cluster"};

    for (size_t i = 0; i < sizeof bare / sizeof *bare; i++)
        if (strcmp(name, bare[i]) == 0)
            return true;
    return false;
}

const char *lw_run_misfit(const struct lw_run *r)
{
    return r->fits == 0 ? ", does not fit" : "";
}

enum lw_status lw_run_divide(const struct lw_run *r, lw_word_compared *compared, const void *ctx,
                             bool named, struct lw_arena *a, struct lw_divided *out,
                             struct lw_err *err)
{
    struct lw_divided d = {lw_run_kind_name(r->kind), ""};
    struct lw_command_word w;
    const char *p = lw_command_words(r->command);

    LW_TRY(append(a, &d.rest, "", r->backend, err));
    while (lw_command_next(&p, &w)) {
        bool mine = compared(ctx, w.name), bare = is_bare(w.name);
        if (w.hidden && !mine && !bare && strcmp(w.name, "framework") != 0 &&
            strcmp(w.name, "ranks") != 0)
            continue;
        LW_TRY(append(a, mine ? &d.value : &d.rest, bare || (mine && !named) ? "" : w.name,
                      w.value, err));
    }
    *out = d;
    return LW_OK;
}

static const char *next_part(const char *p)
{
    const char *end = strstr(p, ", ");

    return end ? end + 2 : p + strlen(p);
}

static bool has_part(const char *rest, const char *part, size_t len)
{
    for (const char *p = rest; *p; p = next_part(p))
        if (strncmp(p, part, len) == 0 && (strncmp(p + len, ", ", 2) == 0 || !p[len]))
            return true;
    return false;
}

enum lw_status lw_rest_short(const char *const *rests, int32_t n, int32_t i, struct lw_arena *a,
                             const char **out, struct lw_err *err)
{
    *out = "";
    for (const char *p = rests[i]; *p; p = next_part(p)) {
        const char *end = strstr(p, ", ");
        size_t len = end ? (size_t)(end - p) : strlen(p);
        bool all = true;
        for (int32_t k = 0; all && k < n; k++)
            all = has_part(rests[k], p, len);
        if (!all)
            LW_PRINT(a, *out, err, "%s%s%.*s", *out, **out ? ", " : "", (int)len, p);
    }
    return LW_OK;
}

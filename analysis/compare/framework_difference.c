/* The frameworks of two runs, fact by fact. A run holds its framework's name and the hash of its
 * facts: where the known framework of that name has this hash, its facts are those of the run. */
#include "analysis/compare/framework_difference.h"

#include <string.h>

#include "shared/files/files.h"
#include "shared/framework/framework.h"

static bool is_set(const char *text)
{
    return text && *text;
}

static bool same_text(const char *a, const char *b)
{
    return strcmp(a ? a : "", b ? b : "") == 0;
}

bool lw_same_framework(const struct lw_run *a, const struct lw_run *b)
{
    return !is_set(a->framework) || !is_set(b->framework) ||
           (strcmp(a->framework, b->framework) == 0 &&
            same_text(a->framework_hash, b->framework_hash));
}

static bool is_known_name(const char *name)
{
    char known[64];

    for (int k = 0; lw_framework_known(k, known); k++)
        if (strcmp(name, known) == 0)
            return true;
    return false;
}

/* The known framework with the facts of the run; `f` is empty where there is none. A run of
 * `ideal` holds no hash. */
static enum lw_status find(const struct lw_run *r, struct lw_framework *f, struct lw_err *err)
{
    char hash[33];

    *f = (struct lw_framework){0};
    if (!is_set(r->framework) || !is_known_name(r->framework))
        return LW_OK;
    LW_TRY(lw_framework_find(r->framework, f, err));
    enum lw_status s = lw_framework_hash(f, hash, err);
    if (s == LW_OK && (!is_set(r->framework_hash) || strcmp(hash, r->framework_hash) == 0))
        return LW_OK;
    lw_framework_free(f);
    *f = (struct lw_framework){0};
    return s;
}

static enum lw_status add(struct lw_framework_difference *d, struct lw_arena *arena,
                          const char *group, const char *name, struct lw_err *err)
{
    LW_PRINT(arena, d->facts[d->n_facts], err, "%s.%s", group, name);
    d->n_facts++;
    return LW_OK;
}

static const char *usual_of(const struct lw_framework *f, const char *option)
{
    for (int32_t i = 0; i < f->n_usual; i++)
        if (strcmp(f->usual[i].option, option) == 0)
            return f->usual[i].value;
    return NULL;
}

/* Options that `a` sets otherwise than `b`; those that both set only where `both`. */
static enum lw_status differ_in_usual(const struct lw_framework *a, const struct lw_framework *b,
                                      bool both, struct lw_arena *arena,
                                      struct lw_framework_difference *d, struct lw_err *err)
{
    for (int32_t i = 0; i < a->n_usual; i++) {
        const char *other = usual_of(b, a->usual[i].option);
        if (!other || (both && strcmp(a->usual[i].value, other) != 0))
            LW_TRY(add(d, arena, "usual", a->usual[i].option, err));
    }
    return LW_OK;
}

static enum lw_status differ_in_facts(const struct lw_framework *a, const struct lw_framework *b,
                                      struct lw_arena *arena, struct lw_framework_difference *d,
                                      struct lw_err *err)
{
    struct lw_framework_fact x, y;
    int n = 0;

    while (lw_framework_fact(a, n, &x))
        n++;
    LW_TAKE(arena, d->facts, n + a->n_usual + b->n_usual, err);
    for (int k = 0; lw_framework_fact(a, k, &x) && lw_framework_fact(b, k, &y); k++)
        if (lw_figure_is_set(x.figure) != lw_figure_is_set(y.figure) ||
            x.figure.value != y.figure.value)
            LW_TRY(add(d, arena, x.group, x.name, err));
    LW_TRY(differ_in_usual(a, b, true, arena, d, err));
    return differ_in_usual(b, a, false, arena, d, err);
}

enum lw_status lw_framework_differ(const struct lw_run *a, const struct lw_run *b,
                                   struct lw_arena *arena, struct lw_framework_difference *out,
                                   struct lw_err *err)
{
    struct lw_framework x = {0}, y = {0};

    *out = (struct lw_framework_difference){.differ = !lw_same_framework(a, b)};
    if (!out->differ)
        return LW_OK;
    LW_TRY(find(a, &x, err));
    enum lw_status s = find(b, &y, err);
    out->known = s == LW_OK && x.name && y.name;
    if (out->known)
        s = differ_in_facts(&x, &y, arena, out, err);
    lw_framework_free(&x);
    lw_framework_free(&y);
    return s;
}

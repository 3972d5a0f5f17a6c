/* A framework file that says how it differs from a known framework, its base: what it states
 * counts, the rest is the base's but for what `without` names (docs/formats/framework.md). */
#include "shared/framework/framework.h"

#include <stdio.h>
#include <string.h>

/* "group.name", as `without` names a fact or a usual option. */
static bool is_named(const char *entry, const char *group, const char *name)
{
    size_t n = strlen(group);

    return strncmp(entry, group, n) == 0 && entry[n] == '.' && strcmp(entry + n + 1, name) == 0;
}

static bool is_without(const struct lw_framework *f, const char *group, const char *name)
{
    for (int32_t i = 0; i < f->n_without; i++)
        if (is_named(f->without[i], group, name))
            return true;
    return false;
}

static bool same_option(const struct lw_usual_option *a, const struct lw_usual_option *b)
{
    return strcmp(a->option, b->option) == 0 &&
           strcmp(a->device ? a->device : "", b->device ? b->device : "") == 0;
}

static const struct lw_usual_option *usual_like(const struct lw_framework *f,
                                                const struct lw_usual_option *u)
{
    for (int32_t i = 0; i < f->n_usual; i++)
        if (same_option(&f->usual[i], u))
            return &f->usual[i];
    return NULL;
}

static bool states(const struct lw_framework *f, const char *entry)
{
    struct lw_framework_fact fact;

    for (int k = 0; lw_framework_fact(f, k, &fact); k++)
        if (is_named(entry, fact.group, fact.name))
            return lw_figure_is_set(fact.figure);
    for (int32_t i = 0; i < f->n_usual; i++)
        if (is_named(entry, "usual", f->usual[i].option))
            return true;
    return false;
}

static enum lw_status check_without(const struct lw_framework *f, const struct lw_framework *base,
                                    struct lw_err *err)
{
    for (int32_t i = 0; i < f->n_without; i++) {
        if (!states(base, f->without[i]))
            return lw_fail(err, LW_EFORMAT, "at without[%d]: '%s' is not a fact or usual option of "
                                            "%s; `lapwing framework %s` lists them", i,
                           f->without[i], base->name, base->name);
        if (states(f, f->without[i]))
            return lw_fail(err, LW_EFORMAT, "at without[%d]: '%s' is stated in this file", i,
                           f->without[i]);
    }
    return LW_OK;
}

/* The base's options in its order, each as f states it, then f's own. */
static enum lw_status join_usual(struct lw_framework *f, const struct lw_framework *base,
                                 struct lw_err *err)
{
    struct lw_usual_option *all;
    int32_t n = 0;

    LW_TAKE(&f->arena, all, base->n_usual + f->n_usual + 1, err);
    for (int32_t i = 0; i < base->n_usual; i++) {
        const struct lw_usual_option *own = usual_like(f, &base->usual[i]);
        if (!is_without(f, "usual", base->usual[i].option))
            all[n++] = own ? *own : base->usual[i];
    }
    for (int32_t i = 0; i < f->n_usual; i++)
        if (!usual_like(base, &f->usual[i]))
            all[n++] = f->usual[i];
    f->usual = all;
    f->n_usual = n;
    return LW_OK;
}

enum lw_status lw_framework_on_base(struct lw_framework *f, const struct lw_framework *base,
                                    struct lw_err *err)
{
    struct lw_framework_fact fact;

    LW_TRY(check_without(f, base, err));
    for (int k = 0; lw_framework_fact(base, k, &fact); k++) {
        struct lw_figure *own = lw_framework_figure(f, k);
        if (!lw_figure_is_set(*own) && !is_without(f, fact.group, fact.name))
            *own = fact.figure;
    }
    LW_TRY(join_usual(f, base, err));
    f->version = f->version[0] ? f->version : base->version;
    f->base = ""; /* it says all that it does */
    f->without = NULL;
    f->n_without = 0;
    return LW_OK;
}

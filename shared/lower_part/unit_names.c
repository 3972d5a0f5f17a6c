/* Units of ZeRO-3 by the names of modules, as FSDP wraps modules of a model: fully_shard(m) makes
 * one unit of the parameters of m that no wrapped module inside m has, so of several prefixes that
 * match a name the longest holds (pytorch/pytorch torch/distributed/fsdp/_fully_shard/
 * _fully_shard.py@1d2fbd40: "parameters that are not already assigned"). A prefix matches whole
 * names between dots: "1" is not a prefix of "10.fc"; '*' matches any one. */
#include "shared/lower_part/unit_names.h"

#include <string.h>

bool lw_units_are_named(const struct lw_strategy *s)
{
    return s->zero == 3 && s->units && s->units[0] && strcmp(s->units, "modules") != 0;
}

/* What the prefix of n characters matches of the name; -1: not its beginning. */
static int match(const char *prefix, size_t n, const char *name)
{
    const char *at = name, *end = prefix + n;

    while (prefix < end) {
        size_t p = strcspn(prefix, ".,"), k = strcspn(at, ".");
        bool any = p == 1 && *prefix == '*' && k > 0;
        if (prefix + p > end)
            p = (size_t)(end - prefix);
        if (!any && (p != k || memcmp(prefix, at, p) != 0))
            return -1;
        prefix += p;
        at += k;
        if (prefix < end && (*prefix != '.' || *at != '.'))
            return -1;
        if (prefix < end) {
            prefix++;
            at++;
        }
    }
    return (int)(at - name);
}

int lw_unit_key(const char *units, const char *name)
{
    int longest = LW_UNIT_OF_ROOT;

    if (strcmp(units, "children") == 0)
        return (int)strcspn(name, ".");
    for (const char *p = units; *p;) {
        size_t n = strcspn(p, ",");
        int got = match(p, n, name);
        longest = got > longest ? got : longest;
        p += n + (p[n] == ',');
    }
    return longest;
}

bool lw_unit_same(const char *units, const char *a, const char *b)
{
    int n = lw_unit_key(units, a);

    return n == lw_unit_key(units, b) && (n < 0 || memcmp(a, b, (size_t)n) == 0);
}

static enum lw_status check_prefix(const char *p, size_t n, const struct lw_workload *w,
                                   struct lw_err *err)
{
    for (int32_t m = 0; n > 0 && m < w->n_modules; m++)
        if (match(p, n, lw_module_name(w, m)) >= 0)
            return LW_OK;
    return lw_fail(err, LW_EINVAL,
                   "--units: no module of workload '%s' begins with '%.*s'; expected prefixes of "
                   "names such as '%s', children, or modules",
                   w->name, (int)n, p, lw_module_name(w, 0));
}

enum lw_status lw_units_check(const struct lw_strategy *s, const struct lw_workload *w,
                              struct lw_err *err)
{
    if (s->units && !s->units[0])
        return lw_fail(err, LW_EINVAL, "--units: found nothing, expected modules, children, or "
                                       "prefixes of module names");
    if (!lw_units_are_named(s) || strcmp(s->units, "children") == 0)
        return LW_OK;
    if (s->root_unit)
        return lw_fail(err, LW_EINVAL, "--units %s says which modules are of the root's unit: "
                                       "leave out --root-unit", s->units);
    for (const char *p = s->units;; p++) {
        size_t n = strcspn(p, ",");
        LW_TRY(check_prefix(p, n, w, err));
        p += n;
        if (!*p)
            return LW_OK;
    }
}

/* Tokens where they are known of all runs, else samples. */
#include "analysis/compare/step_work.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

static double count_of(const struct lw_run *r, bool tokens)
{
    return tokens ? r->tokens : (double)r->samples;
}

/* 0: not known of all; 1: all alike; 2: they differ. */
static int spread(const struct lw_run *const *runs, int32_t n, bool tokens)
{
    int found = 1;

    for (int32_t i = 0; i < n; i++) {
        double x = count_of(runs[i], tokens), first = count_of(runs[0], tokens);
        if (!(x > 0))
            return 0;
        if (x < first || x > first)
            found = 2;
    }
    return found;
}

struct lw_step_work lw_step_work_of(const struct lw_run *const *runs, int32_t n)
{
    bool tokens = spread(runs, n, true) > 0;
    bool differ = spread(runs, n, tokens) == 2;

    return (struct lw_step_work){!differ ? NULL : tokens ? "token" : "sample"};
}

double lw_step_units(const struct lw_step_work *w, const struct lw_run *r)
{
    return w->unit ? count_of(r, w->unit[0] == 't') : 1;
}

const char *lw_unit_ns_text(double ns, char buf[LW_UNIT_NS_TEXT])
{
    if (fabs(ns) < 1000)
        snprintf(buf, LW_UNIT_NS_TEXT, "%.4g", ns);
    else
        snprintf(buf, LW_UNIT_NS_TEXT, "%.0f", ns);
    return buf;
}

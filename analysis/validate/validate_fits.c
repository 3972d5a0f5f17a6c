/* The figures of a framework that were fitted on published runs: their sources say so. */
#include "analysis/validate/validate_kinds.h"

#include <stdio.h>
#include <string.h>

#include "shared/framework/framework.h"

#define FITTED "fitted: %d rows of %79s" /* how the source of such a figure begins */

static enum lw_status add_fit(struct lw_validation *v, int32_t family, const char *framework,
                              const struct lw_framework_fact *fact, struct lw_err *err)
{
    char name[160], table[80];
    int n_rows;

    if (!lw_figure_is_set(fact->figure) || sscanf(fact->figure.source, FITTED, &n_rows, table) != 2)
        return LW_OK;
    snprintf(name, sizeof name, "%s: %s", framework, fact->name);
    bool ns = strcmp(fact->unit, "ns") == 0;
    return lw_validation_fit(v,
                             &(struct lw_fit){.family = family,
                                              .n_rows = n_rows,
                                              .name = name,
                                              .unit = fact->unit,
                                              .fitted_on = table,
                                              .value = fact->figure.value / (ns ? 1e3 : 1)},
                             err);
}

enum lw_status lw_validate_fits(struct lw_validation *v, int32_t family,
                                const struct lw_framework *f, struct lw_err *err)
{
    struct lw_framework_fact fact;

    for (int k = 0; lw_framework_fact(f, k, &fact); k++)
        LW_TRY(add_fit(v, family, f->name, &fact, err));
    return LW_OK;
}

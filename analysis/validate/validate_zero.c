/* Memory of model state under ZeRO: Rajbhandari et al., arXiv 1910.02054, table 1, or rows like
 * its. A row names a model by its parameters ("7.5B", "1T") and a data-parallel degree; columns
 * P_os, P_os_g and P_os_g_p hold GB (10^9 bytes) per device for stages 1 to 3 of mixed-precision
 * Adam. The prediction is shared/timeline/param_memory.c's for as many f16 elements; the paper
 * cuts or rounds, so a case may differ by one unit of the last printed digit. */
#include "analysis/validate/validate_kinds.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/io/csv_rows.h"
#include "shared/timeline/param_memory.h"

static const char *const stages[] = {"P_os", "P_os_g", "P_os_g_p"};

/* "7.5B" -> 7.5 * 10^9. */
static enum lw_status parse_model(const struct lw_rows *r, int32_t row, int64_t *numel,
                                  struct lw_err *err)
{
    static const struct {
        char letter;
        double scale;
    } units[] = {{'K', 1e3}, {'M', 1e6}, {'B', 1e9}, {'G', 1e9}, {'T', 1e12}};
    const char *text = lw_rows_cell(r, row, "model");
    size_t n = strspn(text, "0123456789.");
    char *end = NULL;
    double value = n > 0 ? strtod(text, &end) : 0;

    for (size_t k = 0; n > 0 && end == text + n && k < sizeof units / sizeof *units; k++)
        if (text[n] == units[k].letter && text[n + 1] == '\0' && value > 0 &&
            value * units[k].scale <= 1e15) {
            *numel = llround(value * units[k].scale);
            return LW_OK;
        }
    return lw_fail_at(
        err, LW_EFORMAT, r->file, r->line[row],
        "model: found '%s', allowed: parameters with K, M, B or T, such as 7.5B, up to "
        "1000T",
        text);
}

static enum lw_status add_case(const struct lw_rows *r, int32_t row, int stage, int64_t numel,
                               int64_t degree, struct lw_validation *v, int32_t family,
                               struct lw_err *err)
{
    const struct lw_memory_rule rule = {
        .grad = LW_F16, .optimizer = LW_OPTIMIZER_ADAM, .zero = stage};
    const char *column = stages[stage - 1];
    int64_t bytes[LW_N_MEM] = {0}, sum = 0;
    struct lw_case c = {.unit = "GB", .family = family, .series = -1, .remark = ""};
    char id[160];

    if (!*lw_rows_cell(r, row, column))
        return LW_OK; /* not given by the source */
    LW_TRY(lw_rows_printed(r, row, column, &c.measured, &c.allowed, err));
    lw_memory_add(&rule, LW_F16, numel, (numel + degree - 1) / degree, bytes);
    for (int k = 0; k < LW_N_MEM; k++)
        sum += bytes[k];
    snprintf(id, sizeof id, "%s__N%lld__%s", lw_rows_cell(r, row, "model"), (long long)degree,
             column);
    c.id = id;
    c.predicted = (double)sum / 1e9;
    c.allowed *= 1 + 1e-9; /* one unit, whatever its binary form */
    return lw_validation_case(v, &c, err);
}

static enum lw_status add_row(const struct lw_rows *r, int32_t row, struct lw_validation *v,
                              int32_t family, struct lw_err *err)
{
    int64_t numel = 0, degree;

    LW_TRY(parse_model(r, row, &numel, err));
    LW_TRY(lw_rows_int(r, row, "dp_degree", 1, 1000000, &degree, err));
    for (int stage = 1; stage <= 3; stage++)
        if (lw_rows_column(r, stages[stage - 1]) >= 0)
            LW_TRY(add_case(r, row, stage, numel, degree, v, family, err));
    return LW_OK;
}

enum lw_status lw_validate_zero(const struct lw_rows *r, struct lw_validation *v,
                                struct lw_err *err)
{
    int32_t family;

    LW_TRY(lw_validation_family(v, "zero-memory", (struct lw_bars){0}, false, &family, err));
    LW_TRY(lw_validation_note(v, family, "rule",
                              "mixed-precision Adam: 2 + 2 + 12 bytes per parameter, of which ZeRO "
                              "stage 1 shards 12, stage 2 14, stage 3 all 16 (arXiv 1910.02054, "
                              "section 5); GB = 10^9 bytes", err));
    int32_t before = v->n_cases;
    for (int32_t i = 0; i < r->n_rows; i++)
        LW_TRY(add_row(r, i, v, family, err));
    if (v->n_cases == before)
        return lw_fail(err, LW_EFORMAT, "%s: every cell of P_os, P_os_g and P_os_g_p is blank: "
                                        "there is nothing to compare with", r->file);
    return LW_OK;
}

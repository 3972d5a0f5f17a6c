#include "analysis/compare/compare_lines.h"

#include <math.h>
#include <stddef.h>

lw_ps lw_compared_difference(const struct lw_comparison *c, struct lw_both v)
{
    return c->of_one_kind ? v.measured - v.predicted : v.predicted - v.measured;
}

#define AT(field) offsetof(struct lw_compared, field)
/* The keys and titles say what the sides are. */
#define COLUMNS(p, m, PCT_KEY, P, M, DIFFERENCE, PCT) \
    { \
        {"what", "", LW_COLUMN_TEXT, AT(what)}, \
        {p "_ns", ">" P " ms", LW_COLUMN_MS, AT(v.predicted), .lacking = "-"}, \
        {m "_ns", ">" M " ms", LW_COLUMN_MS, AT(v.measured), .lacking = "-"}, \
        {"difference_ns", ">" DIFFERENCE " ms", LW_COLUMN_CHANGE_MS, AT(difference)}, \
        {PCT_KEY, ">" PCT " %", LW_COLUMN_CHANGE_PCT, AT(pct), .lacking = "-"}, \
    }
const struct lw_column lw_predicted_columns[LW_COMPARED_COLUMNS] =
    COLUMNS("predicted", "measured", "error_pct", "predicted", "measured", "difference", "error");
static const struct lw_column of_one_kind[] =
    COLUMNS("a", "b", "change_pct", "A", "B", "B - A", "change");
#undef AT

const struct lw_column *lw_compared_columns(const struct lw_comparison *c)
{
    return c->of_one_kind ? of_one_kind : lw_predicted_columns;
}

struct lw_compared lw_compared_of(const struct lw_comparison *c, const char *what, struct lw_both v)
{
    return (struct lw_compared){what, v, lw_compared_difference(c, v), lw_comparison_pct(c, v)};
}

struct lw_records lw_compared_records(const struct lw_comparison *c, const char *key,
                                      const struct lw_compared *lines, int n, int n_columns)
{
    return (struct lw_records){key, lw_compared_columns(c), n_columns, lines, n, sizeof *lines};
}

int lw_compared_ops(const struct lw_comparison *c, struct lw_compared *lines)
{
    for (int32_t i = 0; i < c->n_ops; i++)
        lines[i] = lw_compared_of(c, c->ops[i].name, c->ops[i].time);
    return c->n_ops;
}

const char *const lw_bucket_times[LW_N_BUCKET_TIMES] = {"ready", "launch", "start", "finish"};

void lw_compared_json(struct lw_jsonout *o, const struct lw_column *columns, const char *key,
                      struct lw_both v, double pct)
{
    struct lw_compared line = {.v = v, .pct = pct};

    lw_jsonout_line_object(o, key);
    lw_record_json(o, columns + 1, 2, &line);
    lw_record_json(o, columns + LW_COMPARED_PCT, 1, &line);
    lw_jsonout_end(o);
}

void lw_machine_speed_json(struct lw_jsonout *o, const struct lw_run *r)
{
    bool known = !isnan(r->machine_speed);

    LW_JSON(o, "machine_speed", lw_decimals_if(known, r->machine_speed, 4), "machine_speed_p10",
            lw_decimals_if(known, r->machine_speed_p10, 4), "machine_speed_p90",
            lw_decimals_if(known, r->machine_speed_p90, 4));
}

const char *lw_text_or_null(const char *text)
{
    return text && *text ? text : NULL;
}

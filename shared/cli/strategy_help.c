/* Every strategy option with its values, for people and as data. */
#include "shared/cli/strategy_help.h"

#include <string.h>

#include "shared/strategy/strategy.h"
#include "shared/text/table.h"
#include "shared/text/wrap.h"

static void list_rows(const struct lw_strategy_option *o)
{
    for (int v = 0; o->values[v]; v++)
        lw_put_wrapped(stdout, o->helps[v], printf("      %-20s ", o->values[v]), LW_TEXT_COLUMNS);
}

static void list_values(const struct lw_strategy_option *o)
{
    char all[512] = "";

    for (int v = 0; o->values[v]; v++)
        lw_err_word(all, sizeof all, o->values[v]);
    lw_put_wrapped(stdout, all, printf("      "), LW_TEXT_COLUMNS);
}

static void list_strategy(void)
{
    lw_put_wrapped(stdout, "Strategy options, for plan, sim, exec and strategy files ('_' is "
                           "accepted for '-').", 0, LW_TEXT_COLUMNS);
    lw_put_wrapped(stdout, "Sizes: KiB MiB GiB = 2^n, KB MB GB = 10^n, bare = bytes.", 0,
                   LW_TEXT_COLUMNS);
    putchar('\n');
    for (int i = 0; i < lw_strategy_n_options(); i++) {
        const struct lw_strategy_option *o = lw_strategy_option(i);
        printf("  --%s %s\n", o->name, o->arg);
        lw_put_wrapped(stdout, o->help, printf("      "), LW_TEXT_COLUMNS);
        if (o->helps)
            list_rows(o);
        else if (o->values)
            list_values(o);
    }
}

/* Strategy options as data. */
static void json_strategy(void)
{
    struct lw_jsonout o = {.file = stdout};

    lw_jsonout_object(&o, NULL);
    lw_jsonout_array(&o, "options");
    for (int i = 0; i < lw_strategy_n_options(); i++) {
        const struct lw_strategy_option *p = lw_strategy_option(i);
        lw_jsonout_line_object(&o, NULL);
        LW_JSON(&o, "name", p->name, "argument", p->arg, "help", p->help);
        lw_jsonout_line_array(&o, "values");
        for (int v = 0; p->values && p->values[v]; v++)
            lw_jsonout_string(&o, NULL, p->values[v]);
        lw_jsonout_end(&o);
        lw_jsonout_end(&o);
    }
    lw_jsonout_end(&o);
    lw_jsonout_end(&o);
}

static enum lw_status csv_strategy(struct lw_err *err)
{
    static const char *const titles[] = {"option", "argument", "help", "values"};
    struct lw_table *t = lw_table_new(4, titles);

    for (int i = 0; i < lw_strategy_n_options(); i++) {
        const struct lw_strategy_option *o = lw_strategy_option(i);
        char values[512] = "";
        size_t at = 0;
        for (int v = 0; o->values && o->values[v] && at < sizeof values; v++)
            at += (size_t)snprintf(values + at, sizeof values - at, "%s%s", v ? " " : "",
                                   o->values[v]);
        LW_CELLS(t, o->name, o->arg, o->help, values);
    }
    return lw_table_end(t, stdout, LW_TABLE_CSV, err);
}

enum lw_status lw_strategy_help(enum lw_format format, struct lw_err *err)
{
    if (format == LW_FORMAT_CSV)
        return csv_strategy(err);
    if (format == LW_FORMAT_JSON)
        json_strategy();
    else
        list_strategy();
    return LW_OK;
}

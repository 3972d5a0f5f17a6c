/* Help for people and programs, manual pages (roff, man macros) and words for completion, from one
 * table. */
#include "shared/cli/cli_help.h"

#include <ctype.h>
#include <string.h>

#include "shared/text/table.h"
#include "shared/text/wrap.h"

static void put_options(FILE *f, const struct lw_opt *table)
{
    enum { WIDE = 80 };
    int column = lw_columns_of(f) < WIDE ? 10 : 28;

    for (; table->name; table++) {
        if (!table->help)
            continue;
        char left[128];
        int n = table->letter
                    ? snprintf(left, sizeof left, "  -%c, --%s", table->letter, table->name)
                    : snprintf(left, sizeof left, "      --%s", table->name);
        if (table->arg)
            n += snprintf(left + n, sizeof left - (size_t)n, " %s", table->arg);
        fprintf(f, "%s", left);
        if (n + 2 > column)
            fprintf(f, "\n%*s", column, "");
        else
            fprintf(f, "%*s", column - n, "");
        lw_put_wrapped(f, table->help, column, WIDE);
    }
}

void lw_cli_help_text(FILE *f, const struct lw_usage *u, const struct lw_opt *table)
{
    lw_put_wrapped(f, u->synopsis, fprintf(f, "usage: lapwing %s ", u->command), LW_TEXT_COLUMNS);
    fputc('\n', f);
    lw_put_wrapped(f, u->about, 0, 80);
    if (table->name)
        fputc('\n', f);
    put_options(f, table);
}

/* Text in roff: a backslash and a leading dot or quote are commands there, '-' is a hyphen. */
static void put_roff(FILE *f, const char *text)
{
    if (*text == '.' || *text == '\'')
        fputs("\\&", f);
    for (; *text; text++) {
        if (*text == '\\')
            fputs("\\e", f);
        else if (*text == '-')
            fputs("\\-", f);
        else
            fputc(*text, f);
    }
}

void lw_cli_help_man(FILE *f, const struct lw_usage *u, const struct lw_opt *table)
{
    fputs(".TH LAPWING\\-", f);
    for (const char *p = u->command; *p; p++)
        fputc(toupper((unsigned char)*p), f);
    fprintf(f, " 1 \"\" \"lapwing %s\" \"Lapwing manual\"\n.SH NAME\nlapwing\\-%s \\- ", LW_VERSION,
            u->command);
    put_roff(f, u->about);
    fprintf(f, "\n.SH SYNOPSIS\n.B lapwing %s\n", u->command);
    put_roff(f, u->synopsis);
    fputs("\n.SH OPTIONS\n", f);
    for (; table->name; table++) {
        if (!table->help)
            continue;
        fputs(".TP\n.B ", f);
        if (table->letter)
            fprintf(f, "\\-%c, ", table->letter);
        fputs("\\-\\-", f);
        put_roff(f, table->name);
        if (table->arg)
            fprintf(f, " \\fI%s\\fR", table->arg);
        fputc('\n', f);
        put_roff(f, table->help);
        fputc('\n', f);
    }
    fputs(".SH EXIT STATUS\n0 yes; 1 could not; 2 wrong usage; 3 it ran, and the answer is no.\n"
          "Wrong usage is what the command line alone shows: an option that does not exist, is "
          "missing or excludes another one, or a value that it never takes.\n"
          "A file, a name that is neither known nor a file, or values that cannot be combined give "
          "1.\n",
          f);
    fputs(".SH SEE ALSO\n.BR lapwing (1)\n", f);
}

void lw_cli_help_words(FILE *f, const struct lw_opt *table)
{
    for (; table->name; table++)
        if (table->help)
            fprintf(f, "--%s%s\n", table->name, table->kind == LW_OPT_FLAG ? "" : "=");
    fputs("--help\n", f);
}

void lw_cli_help_json(FILE *f, const struct lw_usage *u, const struct lw_opt *table)
{
    struct lw_jsonout o = {.file = f};

    lw_jsonout_object(&o, NULL);
    LW_JSON(&o, "command", u->command, "synopsis", u->synopsis, "about", u->about);
    lw_jsonout_array(&o, "options");
    for (; table->name; table++) {
        if (!table->help)
            continue;
        char letter[2] = {table->letter, 0};
        LW_JSON_ROW(&o, NULL, "name", table->name, "letter", table->letter ? letter : NULL,
                    "argument", table->arg, "help", table->help);
    }
    lw_jsonout_end(&o);
    lw_jsonout_end(&o);
}

enum lw_status lw_cli_help_csv(FILE *f, const struct lw_opt *table, struct lw_err *err)
{
    static const char *const titles[] = {"option", "letter", "argument", "help"};
    struct lw_table *t = lw_table_new(4, titles);

    for (; table->name; table++) {
        if (!table->help)
            continue;
        char letter[2] = {table->letter, 0};
        LW_CELLS(t, table->name, letter, table->arg ? table->arg : "", table->help);
    }
    return lw_table_end(t, f, LW_TABLE_CSV, err);
}

/* Strategy files, and the strategy inside a plan: docs/formats/strategy.md. The fields are the rows
 * of the option table in strategy.c, with the command line's names and words; what equals the
 * default is left out. */
#include "shared/files/files_strategy.h"

#include <stdlib.h>
#include <string.h>

#include "shared/files/files.h"

static int find_option(struct lw_json *j)
{
    size_t len;
    const char *key = lw_json_key(j, &len);

    return strlen(key) == len ? lw_strategy_find(key) : -1;
}

/* The text that the command line would hold: a number's own characters, a string, on or off. */
static const char *option_text(struct lw_fields *r)
{
    size_t len = 0;
    const char *text = "";

    switch (lw_json_type(r->j)) {
    case LW_JSON_BOOL:
        return lw_json_bool(r->j) ? "on" : "off";
    case LW_JSON_NUMBER:
        text = lw_json_number_text(r->j, &len);
        break;
    default:
        text = lw_json_string(r->j, NULL);
        len = strlen(text);
    }
    char *copy = lw_arena_strndup(r->arena, text, len);
    r->no_memory = r->no_memory || !copy;
    return copy ? copy : "";
}

bool lw_strategy_fields_read(struct lw_fields *r, struct lw_strategy *s)
{
    struct lw_options_given seen = {0};
    struct lw_err err = {0};

    if (!lw_json_enter(r->j, LW_JSON_OBJECT))
        return false;
    while (!r->no_memory && lw_json_next(r->j)) {
        int i = find_option(r->j);
        const char *text = i >= 0 ? option_text(r) : "";
        if (i < 0)
            lw_json_fail(r->j, "unknown option; 'lapwing help strategy' lists all");
        else if (lw_options_has(&seen, i))
            lw_json_fail(r->j, "option given twice");
        else if (!r->no_memory && !lw_json_failed(r->j) &&
                 lw_strategy_set(s, lw_strategy_option(i)->name, text, &err) != LW_OK)
            lw_json_fail(r->j, "%s", err.msg);
        if (i >= 0)
            lw_options_add(&seen, i);
    }
    return !lw_json_failed(r->j) && !r->no_memory;
}

void lw_strategy_fields_write(struct lw_jsonout *o, const char *key, const struct lw_strategy *s)
{
    struct lw_strategy plain = lw_strategy_default();
    char buf[LW_STRATEGY_TEXT], default_buf[LW_STRATEGY_TEXT], *end;

    lw_jsonout_object(o, key);
    for (int i = 0; i < lw_strategy_n_options(); i++) {
        const struct lw_strategy_option *option = lw_strategy_option(i);
        const char *text = lw_strategy_get(s, i, buf);
        if (strcmp(text, lw_strategy_get(&plain, i, default_buf)) == 0)
            continue;
        double number = strtod(text, &end);
        if (option->values || end == text || *end)
            lw_jsonout_string(o, option->name, text);
        else if (strpbrk(text, ".e"))
            lw_jsonout_double(o, option->name, number);
        else
            lw_jsonout_int(o, option->name, strtoll(text, NULL, 10));
    }
    lw_jsonout_end(o);
}

static void read_options(struct lw_fields *r, void *base)
{
    lw_strategy_fields_read(r, base);
}

static const struct lw_field strategy_fields[] = {
    LW_F_HEAD,
    LW_F_OWN("options", read_options, NULL),
    {0},
};

enum lw_status lw_strategy_read(const char *file, struct lw_arena *arena, struct lw_strategy *s,
                                struct lw_err *err)
{
    struct lw_strategy read = lw_strategy_default();

    LW_TRY(lw_file_read(file, "strategy", strategy_fields, arena, &read, err));
    LW_TRY(lw_err_context(err, lw_strategy_check(&read, err), "%s", file));
    *s = read;
    return LW_OK;
}

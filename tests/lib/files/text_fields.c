/* Walks a JSON text and its format's table side by side, and adds the k-th text field that is
 * missing. */
#include "tests/lib/files/text_fields.h"

#include <stdlib.h>
#include <string.h>

#include "shared/json/value.h"
#include "tests/lib/unit.h"

struct adding {
    struct lw_text text;
    int left; /* missing fields before the one to add */
    const struct lw_field *added;
};

static const char *text_value(const struct lw_field *f)
{
    switch (f->kind) {
    case LW_FIELD_STRING:
        return "\"x\"";
    case LW_FIELD_STRINGS:
        return "[\"x\"]";
    case LW_FIELD_FIGURE:
    case LW_FIELD_FIGURE_NS:
        return "{\"value\":1,\"source\":\"x\"}";
    default:
        return NULL;
    }
}

static void print(const struct lw_value *v, const struct lw_field *table, struct adding *a);

static void print_object(const struct lw_value *v, const struct lw_field *table, struct adding *a)
{
    const char *comma = "";

    lw_text_add(&a->text, "{");
    for (int32_t i = 0; i < v->n; i++, comma = ",") {
        const struct lw_field *f = table;
        while (f->name && strcmp(f->name, v->items[i].key) != 0)
            f++;
        lw_text_add(&a->text, "%s\"%s\":", comma, v->items[i].key);
        print(&v->items[i], f->name ? f->fields : NULL, a);
    }
    for (const struct lw_field *f = table; f->name && !a->added; f++)
        if (text_value(f) && !lw_value_get(v, f->name) && a->left-- == 0) {
            lw_text_add(&a->text, "%s\"%s\":%s", comma, f->name, text_value(f));
            a->added = f;
        }
    lw_text_add(&a->text, "}");
}

/* Of a list, fields are added to the first object. */
static void print(const struct lw_value *v, const struct lw_field *table, struct adding *a)
{
    if (table && v->type == LW_JSON_OBJECT) {
        print_object(v, table, a);
    } else if (table && v->type == LW_JSON_ARRAY) {
        lw_text_add(&a->text, "[");
        for (int32_t i = 0; i < v->n; i++) {
            lw_text_add(&a->text, i > 0 ? "," : "");
            print(&v->items[i], i == 0 ? table : NULL, a);
        }
        lw_text_add(&a->text, "]");
    } else {
        lw_value_print(v, &a->text);
    }
}

char *text_with_missing_field(const char *json, const struct lw_field *table, int k,
                              const struct lw_field **field)
{
    struct adding a = {.left = k};
    struct lw_arena arena = {0};
    struct lw_json *j = NULL;
    struct lw_value v;
    size_t n = strlen(json);
    char *padded = calloc(n + LW_JSON_PADDING, 1);

    memcpy(padded, json, n);
    assert_int_equal(lw_json_open("a format's example", padded, n, &j, NULL), LW_OK);
    assert_int_equal(lw_value_read(j, &arena, &v, NULL), LW_OK);
    print(&v, table, &a);
    char *text = a.added ? strdup(a.text.at) : NULL;
    *field = a.added;
    lw_text_free(&a.text);
    lw_json_close(j);
    lw_arena_free(&arena);
    free(padded);
    return text;
}

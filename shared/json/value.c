/* JSON trees for small documents, and text that grows. Numbers keep their characters, so that two
 * trees are equal exactly when they were written alike. */
#include "shared/json/value.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { DEPTH_MAX = 64 };

struct reader {
    struct lw_json *j;
    struct lw_arena *arena;
    struct lw_err *err;
};

static enum lw_status read_value(struct reader *r, int depth, struct lw_value *out);

static enum lw_status check_unique(const struct lw_value *v, int32_t n, struct lw_err *err)
{
    for (int32_t i = 0; i + 1 < n; i++)
        if (strcmp(v[i].key, v[n - 1].key) == 0)
            return lw_fail(err, LW_EFORMAT, "the field \"%s\" is given twice", v[i].key);
    return LW_OK;
}

static enum lw_status read_items(struct reader *r, int depth, struct lw_value *out)
{
    bool object = out->type == LW_JSON_OBJECT;
    struct lw_value *items = NULL;
    int64_t cap = 0;
    enum lw_status status = LW_OK;

    if (depth == DEPTH_MAX)
        return lw_fail(r->err, LW_EFORMAT, "more than %d containers inside each other", DEPTH_MAX);
    lw_json_enter(r->j, out->type);
    while (status == LW_OK && lw_json_next(r->j)) {
        struct lw_value v = {0};
        if (object && !(v.key = lw_arena_strdup(r->arena, lw_json_key(r->j, NULL))))
            status = lw_fail_nomem(r->err);
        if (status == LW_OK)
            status = read_value(r, depth + 1, &v);
        if (status == LW_OK && lw_reserve(&items, &cap, (int64_t)out->n + 1, sizeof *items))
            status = lw_fail_nomem(r->err);
        if (status != LW_OK)
            break;
        items[out->n++] = v;
        if (object)
            status = check_unique(items, out->n, r->err);
    }
    struct lw_value *kept = lw_arena_alloc(r->arena, out->n, sizeof *kept);
    if (status == LW_OK && !kept)
        status = lw_fail_nomem(r->err);
    if (status == LW_OK && out->n > 0)
        memcpy(kept, items, (size_t)out->n * sizeof *kept);
    out->items = kept;
    lw_free(items);
    return status;
}

static enum lw_status read_value(struct reader *r, int depth, struct lw_value *out)
{
    size_t len;
    const char *s = "";

    out->type = lw_json_type(r->j);
    switch (out->type) {
    case LW_JSON_OBJECT:
    case LW_JSON_ARRAY:
        return read_items(r, depth, out);
    case LW_JSON_STRING:
        s = lw_json_string(r->j, NULL);
        len = strlen(s);
        break;
    case LW_JSON_NUMBER:
        s = lw_json_number_text(r->j, &len);
        break;
    case LW_JSON_BOOL:
        out->truth = lw_json_bool(r->j);
        return LW_OK;
    default:
        return LW_OK;
    }
    out->text = lw_arena_strndup(r->arena, s, len);
    return out->text ? LW_OK : lw_fail_nomem(r->err);
}

enum lw_status lw_value_read(struct lw_json *j, struct lw_arena *arena, struct lw_value *out,
                             struct lw_err *err)
{
    struct reader r = {j, arena, err};
    struct lw_value v = {0};

    LW_TRY(read_value(&r, 0, &v));
    LW_TRY(lw_json_done(j, err));
    *out = v;
    return LW_OK;
}

const struct lw_value *lw_value_get(const struct lw_value *v, const char *key)
{
    if (v->type != LW_JSON_OBJECT)
        return NULL;
    for (int32_t i = 0; i < v->n; i++)
        if (strcmp(v->items[i].key, key) == 0)
            return &v->items[i];
    return NULL;
}

static void add(struct lw_text *t, const char *fmt, va_list ap)
{
    va_list again;

    if (t->failed)
        return;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, again);
    va_end(again);
    if (n < 0 || lw_reserve(&t->at, &t->cap, t->n + n + 1, 1) != 0) {
        t->failed = true;
        return;
    }
    vsnprintf(t->at + t->n, (size_t)n + 1, fmt, ap);
    t->n += n;
}

void lw_text_add(struct lw_text *t, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    add(t, fmt, ap);
    va_end(ap);
}

void lw_text_item(struct lw_text *t, const char *fmt, ...)
{
    va_list ap;

    if (t->n > 0 && t->at[t->n - 1] != '[')
        lw_text_add(t, ",");
    va_start(ap, fmt);
    add(t, fmt, ap);
    va_end(ap);
}

void lw_text_open(struct lw_text *t)
{
    lw_text_item(t, "[");
}

void lw_text_close(struct lw_text *t)
{
    lw_text_add(t, "]");
}

void lw_text_free(struct lw_text *t)
{
    lw_free(t->at);
    *t = (struct lw_text){0};
}

void lw_text_ints(struct lw_text *t, const int32_t *v, int32_t n)
{
    lw_text_open(t);
    for (int32_t i = 0; i < n; i++)
        lw_text_item(t, "%d", v[i]);
    lw_text_close(t);
}

static void print_string(const char *s, struct lw_text *t)
{
    lw_text_add(t, "\"");
    for (; *s; s++) {
        if (*s == '"' || *s == '\\')
            lw_text_add(t, "\\%c", *s);
        else if ((unsigned char)*s < 0x20)
            lw_text_add(t, "\\u%04x", *s);
        else
            lw_text_add(t, "%c", *s);
    }
    lw_text_add(t, "\"");
}

void lw_value_print(const struct lw_value *v, struct lw_text *t)
{
    bool object = v->type == LW_JSON_OBJECT;

    switch (v->type) {
    case LW_JSON_OBJECT:
    case LW_JSON_ARRAY:
        lw_text_add(t, object ? "{" : "[");
        for (int32_t i = 0; i < v->n; i++) {
            if (i > 0)
                lw_text_add(t, ",");
            if (object) {
                print_string(v->items[i].key, t);
                lw_text_add(t, ":");
            }
            lw_value_print(&v->items[i], t);
        }
        lw_text_add(t, object ? "}" : "]");
        break;
    case LW_JSON_STRING:
        print_string(v->text, t);
        break;
    case LW_JSON_NUMBER:
        lw_text_add(t, "%s", v->text);
        break;
    case LW_JSON_BOOL:
        lw_text_add(t, v->truth ? "true" : "false");
        break;
    default:
        lw_text_add(t, "null");
    }
}

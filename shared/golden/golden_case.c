/* Reading a recorded case and comparing answers with it.
 *
 * Invariants: comparison is between texts in one canonical form (compact JSON, numbers as written),
 * so a changed number, type, order or length anywhere in an expected field shows; a field that no
 * checker knows is a failure, so none goes unread. */
#include "shared/golden/golden_case.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static bool named(const char *names, const char *name)
{
    size_t len = strlen(name);

    for (const char *p = names; len > 0 && (p = strstr(p, name)) != NULL; p += len)
        if ((p == names || p[-1] == ' ') && (p[len] == ' ' || p[len] == '\0'))
            return true;
    return false;
}

enum lw_status lw_golden_known(const struct lw_golden_case *c, const char *names,
                               struct lw_err *err)
{
    int32_t n = c->root ? c->root->n : c->n_cells;

    for (int32_t i = 0; i < n; i++) {
        const char *name = c->root ? c->root->items[i].key : c->titles[i];
        if (!named(names, name))
            return lw_fail(err, LW_EFORMAT, "unknown field '%s' (known: %s)", name, names);
    }
    return LW_OK;
}

static enum lw_status whole_number(const char *text, const char *what, int64_t min, int64_t max,
                                   int64_t *v, struct lw_err *err)
{
    char *end;

    errno = 0;
    long long x = strtoll(text, &end, 10);
    if (end == text || *end || errno || x < min || x > max)
        return lw_fail(err, LW_EFORMAT,
                       "%s: '%s' is not a whole number from %" PRId64 " to %" PRId64, what, text,
                       min, max);
    *v = x;
    return LW_OK;
}

static enum lw_status value_int(const struct lw_value *value, const char *what, int64_t min,
                                int64_t max, int64_t *v, struct lw_err *err)
{
    if (value->type != LW_JSON_NUMBER)
        return lw_fail(err, LW_EFORMAT, "%s: expected a whole number", what);
    return whole_number(value->text, what, min, max, v, err);
}

enum lw_status lw_golden_int(const struct lw_golden_case *c, const char *name, int64_t min,
                             int64_t max, int64_t *v, struct lw_err *err)
{
    const struct lw_value *f = c->root ? lw_value_get(c->root, name) : NULL;
    const char *cell;

    if (f)
        return value_int(f, name, min, max, v, err);
    if (c->root)
        return lw_fail(err, LW_EFORMAT, "%s: missing", name);
    LW_TRY(lw_golden_cell(c, name, &cell, err));
    return whole_number(cell, name, min, max, v, err);
}

enum lw_status lw_golden_int32(const struct lw_golden_case *c, const char *name, int32_t min,
                               int32_t max, int32_t *v, struct lw_err *err)
{
    int64_t wide;

    LW_TRY(lw_golden_int(c, name, min, max, &wide, err));
    *v = (int32_t)wide;
    return LW_OK;
}

enum lw_status lw_golden_bool(const struct lw_golden_case *c, const char *name, bool *v,
                              struct lw_err *err)
{
    const struct lw_value *f = lw_value_get(c->root, name);

    if (f && f->type != LW_JSON_BOOL)
        return lw_fail(err, LW_EFORMAT, "%s: expected true or false", name);
    *v = f && f->truth;
    return LW_OK;
}

enum lw_status lw_golden_value_ints(struct lw_arena *arena, const struct lw_value *value,
                                    const char *what, int64_t min, int64_t max, int64_t **v,
                                    int32_t *n, struct lw_err *err)
{
    if (value->type != LW_JSON_ARRAY)
        return lw_fail(err, LW_EFORMAT, "%s: expected a list of whole numbers", what);
    int64_t *list;

    LW_TAKE(arena, list, value->n, err);
    for (int32_t i = 0; i < value->n; i++)
        LW_TRY(value_int(&value->items[i], what, min, max, &list[i], err));
    *v = list;
    *n = value->n;
    return LW_OK;
}

/* Of a cell: numbers with ';' between them. */
static enum lw_status cell_ints(const struct lw_golden_case *c, const char *title, int64_t min,
                                int64_t max, int64_t **v, int32_t *n, struct lw_err *err)
{
    const char *text;
    int32_t count = 1;

    LW_TRY(lw_golden_cell(c, title, &text, err));
    for (const char *p = text; *p; p++)
        count += *p == ';';
    int64_t *list = lw_arena_alloc(c->arena, count, sizeof *list);
    char *copy = lw_arena_strdup(c->arena, text);

    if (!list || !copy)
        return lw_fail_nomem(err);
    for (int32_t i = 0; i < count; i++) {
        char *end = copy + strcspn(copy, ";");
        bool last = *end == '\0';
        *end = '\0';
        LW_TRY(whole_number(copy, title, min, max, &list[i], err));
        copy = last ? end : end + 1;
    }
    *v = list;
    *n = count;
    return LW_OK;
}

enum lw_status lw_golden_list(const struct lw_golden_case *c, const char *name, int64_t min,
                              int64_t max, int64_t **v, int32_t *n, struct lw_err *err)
{
    if (!c->root)
        return cell_ints(c, name, min, max, v, n, err);
    const struct lw_value *f = lw_value_get(c->root, name);

    if (!f)
        return lw_fail(err, LW_EFORMAT, "%s: missing", name);
    return lw_golden_value_ints(c->arena, f, name, min, max, v, n, err);
}

enum lw_status lw_golden_indices(const struct lw_golden_case *c, const char *name, int32_t min,
                                 int32_t max, int32_t **v, int32_t *n, struct lw_err *err)
{
    int64_t *wide;

    *v = NULL;
    *n = -1;
    if (!lw_value_get(c->root, name))
        return LW_OK;
    LW_TRY(lw_golden_list(c, name, min, max, &wide, n, err));
    LW_TAKE(c->arena, *v, *n, err);
    for (int32_t i = 0; i < *n; i++)
        (*v)[i] = (int32_t)wide[i];
    return LW_OK;
}

enum lw_status lw_golden_dtypes(const struct lw_golden_case *c, int32_t n, enum lw_dtype **v,
                                struct lw_err *err)
{
    const struct lw_value *f = lw_value_get(c->root, "dtype");
    enum lw_dtype *list;

    LW_TAKE(c->arena, list, n, err);
    if (f && f->type == LW_JSON_ARRAY && f->n != n)
        return lw_fail(err, LW_EFORMAT, "dtype: %d names for %d parameters", f->n, n);
    for (int32_t i = 0; i < n; i++) {
        const struct lw_value *x = f && f->type == LW_JSON_ARRAY ? &f->items[i] : f;
        list[i] = LW_F32;
        if (x && x->type != LW_JSON_STRING)
            return lw_fail(err, LW_EFORMAT, "dtype: expected a name or a list of names");
        if (x)
            LW_TRY(lw_dtype_parse(x->text, &list[i], err));
    }
    *v = list;
    return LW_OK;
}

/* Both texts from a little before their first difference. */
static enum lw_status differs(const char *name, const char *expected, const char *ours,
                              struct lw_err *err)
{
    size_t at = 0;

    while (expected[at] && expected[at] == ours[at])
        at++;
    size_t from = at > 20 ? at - 20 : 0;
    return lw_fail(err, LW_ENO, "%s: computed %s%.60s, the case says %s%.60s", name,
                   from ? "..." : "", ours + from, from ? "..." : "", expected + from);
}

static enum lw_status compare(const char *name, const struct lw_text *expected,
                              const struct lw_text *ours, struct lw_err *err)
{
    if (expected->failed || ours->failed)
        return lw_fail_nomem(err);
    const char *a = expected->at ? expected->at : "", *b = ours->at ? ours->at : "";

    return strcmp(a, b) == 0 ? LW_OK : differs(name, a, b, err);
}

enum lw_status lw_golden_expect(const struct lw_golden_case *c, const char *name,
                                struct lw_text *ours, struct lw_err *err)
{
    const struct lw_value *f = c->root ? lw_value_get(c->root, name) : NULL;
    struct lw_text expected = {0};
    const char *cell;
    enum lw_status status = LW_OK;

    if (f)
        lw_value_print(f, &expected);
    else if (c->root)
        status =
            lw_fail(err, LW_ENO, "%s: missing, computed %.60s", name, ours->at ? ours->at : "");
    else if ((status = lw_golden_cell(c, name, &cell, err)) == LW_OK)
        lw_text_add(&expected, "%s", cell);
    if (status == LW_OK)
        status = compare(name, &expected, ours, err);
    lw_text_free(&expected);
    lw_text_free(ours);
    return status;
}

enum lw_status lw_golden_expect_word(const struct lw_golden_case *c, const char *name,
                                     const char *word, struct lw_err *err)
{
    struct lw_text t = {0};

    lw_text_add(&t, c->root ? "\"%s\"" : "%s", word);
    return lw_golden_expect(c, name, &t, err);
}

enum lw_status lw_golden_expect_number(const struct lw_golden_case *c, const char *name, int64_t v,
                                       struct lw_err *err)
{
    struct lw_text t = {0};

    lw_text_add(&t, "%lld", (long long)v);
    return lw_golden_expect(c, name, &t, err);
}

enum lw_status lw_golden_expect_error(const struct lw_golden_case *c, const char *error,
                                      const char *answers, struct lw_err *err)
{
    const struct lw_value *f = lw_value_get(c->root, "error");

    if (!error) {
        if (f && f->type != LW_JSON_NULL)
            return lw_fail(err, LW_ENO, "error: computed none, the case says %.60s",
                           f->text ? f->text : "something else");
        return LW_OK;
    }
    for (int32_t i = 0; i < c->root->n; i++)
        if (named(answers, c->root->items[i].key))
            return lw_fail(err, LW_ENO, "%s: computed the error %s, the case has an answer",
                           c->root->items[i].key, error);
    return lw_golden_expect_word(c, "error", error, err);
}

enum lw_status lw_golden_cell(const struct lw_golden_case *c, const char *title, const char **text,
                              struct lw_err *err)
{
    for (int32_t i = 0; i < c->n_cells; i++)
        if (strcmp(c->titles[i], title) == 0) {
            *text = c->cells[i];
            return LW_OK;
        }
    return lw_fail(err, LW_EFORMAT, "column '%s': missing", title);
}

/* Shapes and types of an operator's inputs: of the first one, and of all as one text. */
#include "traces/kineto/kineto_reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "shared/json/json.h"
#include "traces/trace/shaped_ops.h"

bool traces_kineto_is_shaped(const struct kineto_event *e)
{
    return !e->name || traces_op_is_shaped(e->name, e->name_len);
}

bool traces_kineto_is_typed(const struct kineto_event *e)
{
    return e->name && traces_op_is_typed(e->name, e->name_len);
}

void traces_kineto_read_shape(struct kineto_reader *r, struct kineto_event *e)
{
    if (!traces_kineto_enter_first(r->json))
        return;
    e->detail.shape_numel = traces_kineto_read_numel(r->json, 0);
    e->has_detail |= e->detail.shape_numel >= 0;
    lw_json_leave(r->json);
}

void traces_kineto_read_shape_type(struct kineto_reader *r, struct kineto_event *e)
{
    if (!traces_kineto_enter_first(r->json))
        return;
    e->detail.shape_type = traces_kineto_read_text(r);
    e->no_tensor = e->detail.shape_type < 0;
    lw_json_leave(r->json);
}

/* ---- sizes of all inputs ---- */

/* A text under way; one that is too long, or has a size that is none, is absent. */
struct inputs {
    char text[480];
    size_t used, first_len;
    int64_t numel, first_numel; /* elements of an input; -1 beyond int64 */
    int32_t n;
    bool bad;
};

static void put(struct inputs *x, const char *text, size_t len)
{
    if (x->bad || len > sizeof x->text - x->used) {
        x->bad = true;
        return;
    }
    memcpy(x->text + x->used, text, len);
    x->used += len;
}

static void put_number(struct inputs *x, const char *before, int64_t n)
{
    char text[32];
    int len = snprintf(text, sizeof text, "%s%" PRId64, before, n);

    x->bad |= n < 0;
    put(x, text, (size_t)len);
}

/* The sizes of one input: [4, 64], [] or, of a list of tensors, [[4, 64], [10]]. */
static void put_sizes(struct kineto_reader *r, struct inputs *x)
{
    struct lw_json *j = r->json;
    bool first = true, list = false, overflow = false;
    int64_t sum = 0, product = 1;

    x->numel = -1;
    if (lw_json_type(j) != LW_JSON_ARRAY || !lw_json_enter(j, LW_JSON_ARRAY)) {
        x->bad = true;
        return;
    }
    while (lw_json_next(j)) {
        list |= lw_json_type(j) == LW_JSON_ARRAY;
        int64_t n = list ? traces_kineto_read_numel(j, 0) : traces_kineto_read_int(j, -1);
        overflow |= n < 0 || (list ? __builtin_add_overflow(sum, n, &sum)
                                   : __builtin_mul_overflow(product, n, &product));
        if (!list)
            put_number(x, first ? "" : ",", n);
        first = false;
    }
    x->numel = overflow ? -1 : list ? sum : product;
    x->bad |= overflow;
    if (list)
        put_number(x, "*", sum);
}

static void put_text(struct kineto_reader *r, struct inputs *x)
{
    size_t len = 0;
    const char *text = lw_json_type(r->json) == LW_JSON_STRING ? lw_json_view(r->json, &len) : "";

    x->bad |= memchr(text, ';', len) != NULL;
    put(x, text, len);
}

/* Number + 1; 0 = absent. */
static int32_t read_inputs(struct kineto_reader *r, struct inputs *x,
                           void (*one)(struct kineto_reader *r, struct inputs *x))
{
    x->first_numel = -1;
    if (lw_json_type(r->json) != LW_JSON_ARRAY || !lw_json_enter(r->json, LW_JSON_ARRAY))
        return 0;
    while (lw_json_next(r->json)) {
        one(r, x);
        if (x->n++ == 0) {
            x->first_numel = x->numel;
            x->first_len = x->used;
        }
        put(x, ";", 1);
    }
    return x->bad || x->used == 0 ? 0 : traces_kineto_intern(r, x->text, x->used) + 1;
}

void traces_kineto_read_sizes(struct kineto_reader *r, struct kineto_event *e)
{
    struct inputs x = {.used = 0};

    e->detail.input_sizes = read_inputs(r, &x, put_sizes);
    if (traces_kineto_is_shaped(e))
        e->detail.shape_numel = x.first_numel;
    e->has_detail |= e->detail.input_sizes > 0 || e->detail.shape_numel >= 0;
}

void traces_kineto_read_types(struct kineto_reader *r, struct kineto_event *e)
{
    struct inputs x = {.used = 0};
    bool typed = traces_kineto_is_typed(e);

    e->detail.input_types = read_inputs(r, &x, put_text);
    if (x.n == 0 || !(typed || traces_kineto_is_shaped(e)))
        return;
    e->detail.shape_type = x.first_len > 0 ? traces_kineto_intern(r, x.text, x.first_len) : -1;
    if (traces_kineto_is_shaped(e))
        e->no_tensor = e->detail.shape_type < 0;
    else
        e->has_detail |= e->detail.shape_type >= 0;
}

int32_t traces_kineto_read_values(struct kineto_reader *r)
{
    return read_inputs(r, &(struct inputs){.used = 0}, put_text);
}

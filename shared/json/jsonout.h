#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "shared/numbers/quantity.h"
#include "shared/numbers/units.h"

/* A writer of one JSON document: commas, quotes, escapes and indentation are its business. Keys are
 * NULL inside arrays. Write errors are found when the file is committed (shared/io/output.h).
 *
 *     struct lw_jsonout o = {.file = f};
 *     lw_jsonout_object(&o, NULL);
 *     lw_jsonout_int(&o, "bytes", 4096);
 *     lw_jsonout_end(&o);                                                                     */
enum { LW_JSONOUT_DEPTH = 32 };

struct lw_jsonout {
    FILE *file;
    int depth;
    bool compact_from[LW_JSONOUT_DEPTH]; /* containers written on one line */
    bool is_array[LW_JSONOUT_DEPTH], has_item[LW_JSONOUT_DEPTH];
};

void lw_jsonout_object(struct lw_jsonout *o, const char *key);
void lw_jsonout_array(struct lw_jsonout *o, const char *key);
void lw_jsonout_line_object(struct lw_jsonout *o, const char *key); /* all of it on one line */
void lw_jsonout_line_array(struct lw_jsonout *o, const char *key);
void lw_jsonout_end(struct lw_jsonout *o); /* closes the innermost; a newline after the root */

void lw_jsonout_string(struct lw_jsonout *o, const char *key, const char *value); /* NULL: null */
void lw_jsonout_int(struct lw_jsonout *o, const char *key, int64_t value);
/* shortest; NaN: null */
void lw_jsonout_double(struct lw_jsonout *o, const char *key, double value);
void lw_jsonout_decimals(struct lw_jsonout *o, const char *key, struct lw_decimals value);
void lw_jsonout_maybe(struct lw_jsonout *o, const char *key, struct lw_maybe value);
void lw_jsonout_bool(struct lw_jsonout *o, const char *key, bool value);
void lw_jsonout_null(struct lw_jsonout *o, const char *key);
void lw_jsonout_quantity(struct lw_jsonout *o, const char *key, struct lw_quantity value);
/* An array of texts. */
void lw_jsonout_strings(struct lw_jsonout *o, const char *key, const char *const *items, int64_t n);

/* Up to twelve members at once, keys and values in turn: LW_JSON(o, "name", x->name, "n", x->n).
 * Each is written by its type: text, bool, double, whole number, or one of
 * shared/numbers/quantity.h. */
#define LW_JSON(o, ...)                                                                          \
    LW_JSON_PICK(__VA_ARGS__, LW_JSON_12, 0, LW_JSON_11, 0, LW_JSON_10, 0, LW_JSON_9, 0,           \
                 LW_JSON_8, 0, LW_JSON_7, 0, LW_JSON_6, 0, LW_JSON_5, 0, LW_JSON_4, 0, LW_JSON_3,  \
                 0, LW_JSON_2, 0, LW_JSON_1, 0)                                                    \
    (o, __VA_ARGS__)
/* The same as an object of one line. */
#define LW_JSON_ROW(o, key, ...)                                                     \
    (lw_jsonout_line_object(o, key), LW_JSON(o, __VA_ARGS__), lw_jsonout_end(o))

#define LW_JSON_PICK(a, b, c, d, e, f, g, h, i, j, k, l, m, n, p, q, r, s, t, u, v, w, x, y, pick, \
                     ...)                                                                          \
    pick
#define LW_JSON_1(o, key, value)             \
    _Generic((value),                        \
        char *: lw_jsonout_string,           \
        const char *: lw_jsonout_string,     \
        bool: lw_jsonout_bool,               \
        float: lw_jsonout_double,            \
        double: lw_jsonout_double,           \
        struct lw_decimals: lw_jsonout_decimals, \
        struct lw_maybe: lw_jsonout_maybe,   \
        struct lw_quantity: lw_jsonout_quantity, \
        default: lw_jsonout_int)(o, key, value)
#define LW_JSON_2(o, key, value, ...) (LW_JSON_1(o, key, value), LW_JSON_1(o, __VA_ARGS__))
#define LW_JSON_3(o, key, value, ...) (LW_JSON_1(o, key, value), LW_JSON_2(o, __VA_ARGS__))
#define LW_JSON_4(o, key, value, ...) (LW_JSON_1(o, key, value), LW_JSON_3(o, __VA_ARGS__))
#define LW_JSON_5(o, key, value, ...) (LW_JSON_1(o, key, value), LW_JSON_4(o, __VA_ARGS__))
#define LW_JSON_6(o, key, value, ...) (LW_JSON_1(o, key, value), LW_JSON_5(o, __VA_ARGS__))
#define LW_JSON_7(o, key, value, ...) (LW_JSON_1(o, key, value), LW_JSON_6(o, __VA_ARGS__))
#define LW_JSON_8(o, key, value, ...) (LW_JSON_1(o, key, value), LW_JSON_7(o, __VA_ARGS__))
#define LW_JSON_9(o, key, value, ...) (LW_JSON_1(o, key, value), LW_JSON_8(o, __VA_ARGS__))
#define LW_JSON_10(o, key, value, ...) (LW_JSON_1(o, key, value), LW_JSON_9(o, __VA_ARGS__))
#define LW_JSON_11(o, key, value, ...) (LW_JSON_1(o, key, value), LW_JSON_10(o, __VA_ARGS__))
#define LW_JSON_12(o, key, value, ...) (LW_JSON_1(o, key, value), LW_JSON_11(o, __VA_ARGS__))

#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/json/json.h"

/* A small JSON document as a tree, for readers that want its fields in their own order; large files
 * are read through shared/json/json.h directly. */
struct lw_value {
    enum lw_json_type type;
    const char *key;  /* in an object; NULL elsewhere */
    const char *text; /* a string's characters, or a number's own */
    bool truth;       /* of a bool */
    int32_t n;        /* fields or elements */
    const struct lw_value *items;
};

/* Everything under the cursor of `j`, in `arena`. LW_EFORMAT: a field twice in one object, or more
 * than 64 containers inside each other; else the reader's own errors. */
enum lw_status lw_value_read(struct lw_json *j, struct lw_arena *arena, struct lw_value *out,
                             struct lw_err *err);

/* A field of an object; NULL if it is absent or v is not an object. */
const struct lw_value *lw_value_get(const struct lw_value *v, const char *key);

/* A text that grows. Additions after a failed allocation do nothing; `failed` tells. Zeroed = "".
 */
struct lw_text {
    char *at;
    int64_t n, cap;
    bool failed;
};
void lw_text_add(struct lw_text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void lw_text_free(struct lw_text *t);
/* Lists as compact JSON: a ',' goes before what does not begin the text or a list. */
void lw_text_item(struct lw_text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void lw_text_open(struct lw_text *t);  /* "[" */
void lw_text_close(struct lw_text *t); /* "]" */
void lw_text_ints(struct lw_text *t, const int32_t *v, int32_t n); /* "[1,2,3]" */

/* The tree as compact JSON: no blanks, fields in their order, numbers as they were written. */
void lw_value_print(const struct lw_value *v, struct lw_text *t);

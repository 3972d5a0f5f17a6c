#ifndef LW_SHARED_JSON_JSONOUT_H
#define LW_SHARED_JSON_JSONOUT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "shared/base/units.h"

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
void lw_jsonout_known(struct lw_jsonout *o, const char *key, int64_t value); /* negative: null */
/* shortest; NaN: null */
void lw_jsonout_double(struct lw_jsonout *o, const char *key, double value);
void lw_jsonout_fixed(struct lw_jsonout *o, const char *key, double value, int digits);
void lw_jsonout_bool(struct lw_jsonout *o, const char *key, bool value);
void lw_jsonout_null(struct lw_jsonout *o, const char *key);
void lw_jsonout_ns(struct lw_jsonout *o, const char *key, lw_ps value); /* rounded once */
/* ns with as many of three decimals as it needs: nothing is lost ("0.32", "1234.567", "5"). */
void lw_jsonout_exact_ns(struct lw_jsonout *o, const char *key, lw_ps value);

#endif

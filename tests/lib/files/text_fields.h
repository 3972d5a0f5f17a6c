#pragma once

#include "shared/files/files_field.h"

/* A JSON text with the k-th text field that the table of its format has and the text has not (in
 * an object of the text that could hold it); NULL: there are fewer. *field: the one that was added,
 * with the value "x". The caller frees the text. */
char *text_with_missing_field(const char *json, const struct lw_field *table, int k,
                              const struct lw_field **field);
